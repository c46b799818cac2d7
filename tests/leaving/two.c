// SPDX-License-Identifier: GPL-2.0-or-later
/* See two.h. */
#include "leaving/two.h"
#include "lib/case.h"
#include "lib/clock.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define A_FEW 5
#define LIMIT 40	/* seconds, of an idle machine */

static void __attribute__((noreturn)) be_owner(struct board *board, int peer, int sock,
					       owner_fn owner)
{
	struct end e = {};

	end_open(&e, OWNER, kinds, nr_kinds, board->tally[OWNER]);
	for (unsigned int i = 0; i < nr_kinds; i++)
		e.lane[i].blind = board->gpu_leaves &&
				  (kinds[i] == GPU_VRAM || kinds[i] == GPU_SYSTEM);
	end_meet(&e, peer);
	end_run(&e, &board->order);
	/* Without traffic it still waits for its order. */
	while (!board->order)
		usleep(1000);
	owner(&e, board, sock);
	_exit(0);
}

static void __attribute__((noreturn)) be_peer(struct board *board, int owner)
{
	struct end e = {};

	end_open(&e, PEER, ordinary, nr_kinds, board->tally[PEER]);
	end_meet(&e, owner);
	while (end_turn(&e) && !board->enough)
		e.no_sends = board->no_sends;
	end_close(&e);
	end_close_memory(&e);
	_exit(0);
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = {};

	return waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid;
}

static bool has_error(const struct tally *tally)
{
	for (unsigned int i = 0; i < nr_kinds; i++)
		if (tally[i].first || tally[i].wrong)
			return true;
	return false;
}

void two_run(struct two *t)
{
	errno = 0;
	for (int who = OWNER; who <= PEER; who++)
		if (has_ended(t->pid[who]))
			fail_case("the %s has ended", who == OWNER ? "owner" : "peer");
}

static void wait_for_traffic(struct two *t)
{
	struct tally (*tally)[MAX_LANES] = t->board->tally;
	double end = deadline(LIMIT);

	while (!traffic_flows(tally[OWNER], tally[PEER], nr_kinds, A_FEW)) {
		errno = 0;
		if (has_error(tally[OWNER]) || has_error(tally[PEER])) {
			traffic_ended(tally[OWNER], nr_kinds, MAY(SUCCESS));
			traffic_ended(tally[PEER], nr_kinds, MAY(SUCCESS));
			fail_case("traffic had errors before anything went away");
		}
		two_run(t);
		if (now() > end)
			fail_case("no traffic within %.0f s", LIMIT * patience());
		usleep(1000);
	}
}

void two_start(struct two *t, owner_fn owner)
{
	pid_t parent = getpid();
	int meet[2], talk[2];

	t->board = mmap(NULL, sizeof(*t->board), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (t->board == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM, 0, meet) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, talk))
		fail_case("map shared memory or make socket pairs");
	t->board->gpu_leaves = t->gpu_leaves;
	fflush(stdout);
	for (int who = OWNER; who <= PEER; who++) {
		t->pid[who] = fork();
		if (t->pid[who])
			continue;
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
			_exit(1);
		setlinebuf(stdout);
		close(meet[!who]);
		close(talk[1]);
		if (who == PEER)
			be_peer(t->board, meet[who]);
		be_owner(t->board, meet[who], talk[0], owner);
	}
	close(meet[0]);
	close(meet[1]);
	close(talk[0]);
	t->sock = talk[1];
	wait_for_traffic(t);
}

void two_order(struct two *t, int order)
{
	t->board->order = order;
}

void two_wait_for(struct two *t, int done)
{
	double end = deadline(LIMIT);

	errno = 0;
	while (t->board->done < done) {
		if (has_ended(t->pid[OWNER]))
			fail_case("the owner has ended, after step %d", t->board->done);
		if (now() > end)
			fail_case("the owner has got to step %d, not %d", t->board->done, done);
		usleep(1000);
	}
}

/* Whether each lane but some has done more reads than BEFORE says, and sends nothing more. */
static bool goes_on(struct two *t, const unsigned long before[], const bool skip[])
{
	for (unsigned int i = 0; i < nr_kinds; i++) {
		struct tally *tally = &t->board->tally[PEER][i];

		if (skip && skip[i])
			continue;
		if (tally->first || tally->wrong) {
			lane_ended(tally, "of the peer", 0);
			fail_case("lane %u had an error and does not go on", i);
		}
		if (tally->done[A_READ] < before[i] + 3 * A_FEW ||
		    (t->board->no_sends && tally->sending))
			return false;
	}
	return true;
}

void two_go_on(struct two *t, const bool skip[])
{
	double end = deadline(LIMIT);
	unsigned long before[MAX_LANES];

	errno = 0;
	for (unsigned int i = 0; i < nr_kinds; i++)
		before[i] = t->board->tally[PEER][i].done[A_READ];
	while (!goes_on(t, before, skip)) {
		if (now() > end)
			fail_case("the traffic has stopped");
		usleep(1000);
	}
}

int two_reap(struct two *t, int who, int *sig)
{
	double end = deadline(LIMIT);
	int status;

	errno = 0;
	while (!has_ended(t->pid[who])) {
		if (now() > end)
			fail_case("the %s has not ended", who == OWNER ? "owner" : "peer");
		usleep(1000);
	}
	waitpid(t->pid[who], &status, 0);
	t->pid[who] = 0;
	if (sig)
		*sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void two_close(struct two *t)
{
	for (int who = OWNER; who <= PEER; who++) {
		if (t->pid[who] > 0) {
			kill(t->pid[who], SIGKILL);
			waitpid(t->pid[who], NULL, 0);
		}
	}
	if (t->sock)
		close(t->sock);
	if (t->board)
		munmap(t->board, sizeof(*t->board));
	*t = (struct two){};
}

bool two_peer_ended(struct two *t, unsigned int allowed)
{
	return traffic_ended(t->board->tally[PEER], nr_kinds, allowed);
}
