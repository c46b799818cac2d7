// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick; devices: rxe */
/*
 * A peer of an rsocket that sends its last byte and leaves: rpoll() and rrecv() tell of the byte
 * before they tell of the end, wherever in them the thread is when the peer leaves.
 *
 * Another thread, librdmacm's, takes note of the disconnect.  The case puts the two in order: the
 * trap flag of the processor stops the thread of the case before one instruction, and it goes on
 * when the peer has left and librdmacm's thread sleeps again.  It does so before each instruction
 * of a call that finds nothing.
 *
 * A program takes POLLHUP without POLLIN, and a length of 0, for the end of the data.
 */
#include "lib/child.h"
#include "lib/device.h"
#include "lib/harness.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>

#define PORT 7475
#define BYTE 'x'
#define TRAP_FLAG 0x100
#define INSTRUCTIONS 100	/* a look has more; else it was not stepped */

static struct sockaddr_in address(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	if (inet_pton(AF_INET, device_ip(), &to.sin_addr) != 1)
		fail_case("%s is not an address", device_ip());
	return to;
}

/* The peer: for each connection it waits until it may go on, sends a byte and leaves. */
static void serve(int sock, void *arg)
{
	struct sockaddr_in here = address();
	int listener = rsocket(AF_INET, SOCK_STREAM, 0);
	const char byte = BYTE;

	if (listener < 0 || rbind(listener, (void *)&here, sizeof(here)) || rlisten(listener, 1))
		fail_case("the peer cannot listen");
	for (;;) {
		int rs;

		go_on(sock);
		rs = raccept(listener, NULL, NULL);
		if (rs < 0)
			fail_case("raccept");
		wait_to_go_on(sock);
		if (rsend(rs, &byte, 1, 0) != 1 || rshutdown(rs, SHUT_RDWR))
			fail_case("the peer cannot send a byte and leave");
		rclose(rs);
		go_on(sock);
	}
}

/* How often the other threads of this process have gone to sleep. */
static long sleeps_of_others(void)
{
	DIR *tasks = must(opendir("/proc/self/task"));
	struct dirent *task;
	long sum = 0, count;
	char path[300], line[100];

	while ((task = readdir(tasks))) {
		FILE *status;

		if (task->d_name[0] == '.' || atoi(task->d_name) == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
		status = fopen(path, "r");
		if (!status) /* that thread has ended meanwhile */
			continue;
		while (fgets(line, sizeof(line), status))
			if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1)
				sum += count;
		fclose(status);
	}
	closedir(tasks);
	return sum;
}

enum sight { NOTHING, DATA, END };
typedef enum sight (*look_fn)(int rs, char *byte);

static enum sight by_rrecv(int rs, char *byte)
{
	ssize_t length = rrecv(rs, byte, 1, MSG_DONTWAIT);

	if (length < 0 && errno != EAGAIN)
		fail_case("rrecv");
	return length < 0 ? NOTHING : length ? DATA : END;
}

static enum sight by_rpoll(int rs, char *byte)
{
	struct pollfd fd = { .fd = rs, .events = POLLIN };

	if (!rpoll(&fd, 1, 0))
		return NOTHING;
	return fd.revents & POLLIN ? by_rrecv(rs, byte) : END;
}

static int peer_sock;

FIXTURE(stream)
{
	struct child peer;
};

FIXTURE_VARIANT(stream)
{
	look_fn look;
};

FIXTURE_VARIANT_ADD(stream, rpoll) { by_rpoll };
FIXTURE_VARIANT_ADD(stream, rrecv) { by_rrecv };

FIXTURE_SETUP(stream)
{
	need("rdma-cm");
	child_start(&self->peer, serve, NULL);
	peer_sock = self->peer.sock;
}

FIXTURE_TEARDOWN(stream)
{
	child_close(&self->peer);
}

static volatile long step, stop_before;	/* instructions since the trap flag was set */

static void let_the_peer_leave(void)
{
	long before = sleeps_of_others();
	double end = deadline(1);

	go_on(peer_sock);
	wait_to_go_on(peer_sock);
	/* If it takes longer than that, this stop shows nothing. */
	while (sleeps_of_others() == before && now() < end)
		usleep(100);
}

/* It may do what is not safe in a signal handler: the calls it stops in allocate nothing. */
static void stepped(int signal)
{
	int saved = errno;

	if (step++ == stop_before)
		let_the_peer_leave();
	errno = saved;
}

static int connect_to_peer(void)
{
	struct sockaddr_in to = address();
	int rs = rsocket(AF_INET, SOCK_STREAM, 0);

	wait_to_go_on(peer_sock);
	if (rs < 0 || rconnect(rs, (void *)&to, sizeof(to)))
		fail_case("cannot connect to the peer");
	return rs;
}

/* One look that is stepped, in which the peer leaves before instruction STOP. */
static enum sight stepped_look(look_fn look, int rs, char *byte, long stop)
{
	enum sight sight;

	step = 0;
	stop_before = stop;
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);
	sight = look(rs, byte);
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~(long)TRAP_FLAG);
	return sight;
}

TEST_F(stream, last_byte_is_seen_before_the_end)
{
	long stop = 0, met = 0;
	bool reached;

	ASSERT_NE(SIG_ERR, signal(SIGTRAP, stepped));
	do {
		int rs = connect_to_peer();
		double end = deadline(10);
		enum sight sight;
		char byte = 0;

		ASSERT_EQ(NOTHING, variant->look(rs, &byte)); /* binds the functions, too */
		sight = stepped_look(variant->look, rs, &byte, stop);
		reached = step > stop;
		if (!reached) /* the call was shorter, and the last one */
			let_the_peer_leave();
		met += sight != NOTHING;
		while (sight == NOTHING && now() < end)
			sight = variant->look(rs, &byte);
		ASSERT_EQ(DATA, sight)
			TH_LOG("the peer sent and left before instruction %ld; seen: %s", stop,
			       sight == END ? "the end" : "nothing");
		ASSERT_EQ(BYTE, byte);
		rclose(rs);
		stop++;
	} while (reached);
	TH_LOG("%ld instructions; the same call saw the byte in %ld of them", stop - 1, met);
	ASSERT_GT(stop, INSTRUCTIONS);
	ASSERT_GT(met, 0);
}

TEST_HARNESS_MAIN
