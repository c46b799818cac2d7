// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * usage: lives WAY...
 *
 * In each of two guests with an InfiniBand device and a peer in the other one: a process of
 * guest 0, the owner, has MRs of all kinds of memory (guest 0 has the GPU of the tests), and
 * a process of guest 1, its peer, has ordinary memory.  Both have requests of each kind under
 * way on each MR (lib/ends.h) when something goes away:
 *
 *   killed   the owner's process, by SIGKILL
 *   exits    the owner's process, which closes nothing before
 *   removed  the owner's device, from the PCI bus; it comes back
 *   pulled   the same, by who reads "traffic" from guest 0; it does not come back
 *
 * The peer's requests must fail, with no other error than those of a responder that is gone,
 * and all that has arrived must be right at both ends.  Nothing may be left of the owner.
 * What comes back serves the next WAY.  "case WAY: ok" is printed at each end.
 */
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/ends.h"
#include "lib/gone.h"
#include "lib/guests.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OWNER, PEER };

#define A_FEW 5
#define LIMIT 40	/* seconds, of an idle machine */

/* What the owner's process and its parent share. */
struct board {
	struct tally tally[MAX_LANES];
	volatile int exits;	/* the owner ends */
	volatile int left;	/* the device has left */
};

static struct gone gone;

static void __attribute__((noreturn)) be_owner(struct board *board, int tcp)
{
	struct end e = {};

	end_open(&e, OWNER, kinds, nr_kinds, board->tally);
	end_meet(&e, tcp);
	end_run(&e, &board->exits);
	if (board->exits)
		_exit(0);
	/* Requests may have been flushed before the event came, and it may come before the end. */
	for (double late = deadline(LIMIT); !(e.fatal && board->left) && now() < late;)
		end_turn(&e);
	errno = 0;
	if (!e.fatal)
		fail_case("the device has not said that it is gone");
	if (!traffic_lost_device(board->tally, nr_kinds))
		_exit(1);
	end_calls_fail(&e);
	end_memory_is_free(&e);
	_exit(0);
}

/* Each request was done, so the peer's messages have arrived too. */
static bool flows(const struct board *board)
{
	for (unsigned int i = 0; i < nr_kinds; i++)
		if (board->tally[i].received <= A_FEW)
			return false;
	return traffic_flows(board->tally, board->tally, nr_kinds, A_FEW);
}

static pid_t start_owner(struct board *board, int tcp)
{
	double end = deadline(LIMIT);
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_owner(board, tcp);
	}
	errno = 0;
	while (!flows(board)) {
		if (waitpid(pid, NULL, WNOHANG))
			fail_case("the owner has ended before there was traffic");
		if (now() > end)
			fail_case("no traffic");
		usleep(1000);
	}
	return pid;
}

/* What goes away is there for the last time: let it be taken, and wait until the driver knows. */
static void is_pulled(void)
{
	device_is_to_leave(&gone);
	puts("traffic");
	if (system("for i in $(seq 600); do dmesg | "
		   "grep -q 'Fatal error\\|health compromised' && exit 0; sleep 0.2; done; exit 1"))
		fail_case("the driver has not seen that the device is gone");
}

/* The status with which the owner's process ends. */
static int go_away(const char *way, pid_t pid, struct board *board)
{
	int status;

	if (!strcmp(way, "killed"))
		kill(pid, SIGKILL);
	else if (!strcmp(way, "exits"))
		board->exits = 1;
	if (!strcmp(way, "pulled"))
		is_pulled();
	if ((!strcmp(way, "removed") || !strcmp(way, "pulled")) && !device_leaves(&gone, REMOVED))
		fail_case("the device stays");
	board->left = 1;
	waitpid(pid, &status, 0);
	return status;
}

static void owner(const char *way, int listens)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int tcp = guest0_accepts(listens), status;
	int expected = strcmp(way, "killed") ? 0 : SIGKILL;

	if (board == MAP_FAILED)
		fail_case("mmap");
	status = go_away(way, start_owner(board, tcp), board);
	errno = 0;
	if (status != expected)
		fail_case("the owner has ended with status %#x, not %#x", status, expected);
	close(tcp);
	if (!nothing_left())
		fail_case("MRs or dma-bufs are left");
	for (unsigned int i = 0; i < nr_kinds; i++)
		if (board->tally[i].wrong)
			fail_case("lane %u has got wrong data", i);
	if (!strcmp(way, "removed") && !device_comes_back(&gone))
		fail_case("the device does not come back");
	munmap(board, sizeof(*board));
}

static void peer(void)
{
	struct tally tally[MAX_LANES];
	int tcp = guest1_connects();
	struct end e = {};

	end_open(&e, PEER, ordinary, nr_kinds, tally);
	end_meet(&e, tcp);
	end_run(&e, NULL);
	errno = 0;
	if (!traffic_ended(tally, nr_kinds, RESPONDER_GONE))
		fail_case("requests to an owner that is gone ended with a wrong status");
	for (unsigned int i = 0; i < nr_kinds; i++)
		if (!lane_is_whole(&e, &e.lane[i]))
			fail_case("lane %u has wrong bytes", i);
	end_close(&e);
	end_close_memory(&e);
	close(tcp);
	if (!nothing_left())
		fail_case("MRs or dma-bufs are left");
}

int main(int argc, char **argv)
{
	int listens = is_guest0() ? guest0_listens(1) : -1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++) {
		if (is_guest0())
			owner(argv[i], listens);
		else
			peer();
		printf("case %s: ok\n", argv[i]);
	}
	return 0;
}
