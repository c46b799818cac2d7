// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * usage: peers
 *
 * In each of two guests with an InfiniBand device: guest 1, the requester, writes, reads, adds
 * and sends to memory of guest 0, the owner (lib/traffic.h).  A device with Data Direct has its
 * dma-bufs by that (lib/memory.h).  At last the owner's second function leaves its driver under
 * traffic, and comes back.
 *
 * By a TCP connection the owner says what comes next, and the requester what became of it.  Both
 * compare all bytes.  Each prints "case NAME: ok", and what its second function has had to move
 * at least.  What is wrong ends the program with status 1.
 */
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/depth.h"
#include "lib/device.h"
#include "lib/guests.h"
#include "lib/second.h"
#include "lib/traffic.h"
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BATCHES 4	/* in a round */
#define ROUNDS depth(5, 100)
#define LIMIT 60	/* seconds, of an idle machine */

static const struct scenario {
	const char *name;
	enum memory_kind owner, requester;
	bool leaves;
} scenarios[] = {
	{ "buffer_and_memory_of_process", VGEM, HOST, false },
	{ "memory_of_process_and_buffer", HOST, UDMABUF, false },
	{ "buffer_and_buffer", UDMABUF, VGEM, false },
	{ "function_leaves", VGEM, HOST, true },
};

enum order { WORK, ENDLESS, AGAIN, OVER };

/* What the owner says, and the requester when it has done it. */
struct word {
	uint32_t order;		/* ENDLESS: until an error; AGAIN: connect anew */
	uint32_t failed;	/* enum ibv_wc_status of the first completion with an error */
	uint64_t round;
	struct lane_total total;
};

struct peer {
	const struct scenario *scenario;
	int tcp;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct memory m;
	struct ibv_mr *mr;
	struct lane lane;
};

/* Bytes, of both ends of a lane. */
static struct { unsigned long written, read, atomics; } by_second;

static bool is_direct(const struct peer *p)
{
	return p->m.kind != HOST && device_can("direct");
}

static void peer_open(struct peer *p, const struct scenario *s, enum memory_kind kind, size_t size,
		      int tcp)
{
	*p = (struct peer){ .scenario = s, .tcp = tcp, .ctx = device_open() };
	p->pd = must(ibv_alloc_pd(p->ctx));
	memory_open(&p->m, kind, size);
	p->mr = memory_reg(&p->m, p->pd, RWA);
}

/* Also again. Both are connected before the first packet, which the owner asks for. */
static void peer_connect(struct peer *p)
{
	struct lane_address mine, far;

	if (p->lane.qp)
		lane_close(&p->lane);
	lane_open(&p->lane, p->pd, p->mr, &p->m, 0, 0);
	p->lane.silent = p->scenario->leaves;
	mine = lane_address(&p->lane);
	say(p->tcp, &mine, sizeof(mine));
	hear(p->tcp, &far, sizeof(far));
	lane_connect(&p->lane, &far);
	say(p->tcp, &mine, sizeof(mine));
	hear(p->tcp, &far, sizeof(far));
}

static void peer_close(struct peer *p)
{
	lane_close(&p->lane);
	mr_close(p->mr);
	pd_close(p->pd);
	device_close(p->ctx);
	memory_close(&p->m);
	close(p->tcp);
	if (!nothing_left())
		fail_case("MRs or dma-bufs are left");
}

/* The requester */

static void count_of_requester(const struct peer *p, const struct lane_total *t)
{
	if (!is_direct(p))
		return;
	by_second.read += (t->batches * SLOTS + t->sent) * RECORD;
	by_second.written += t->batches * SLOTS * (2 * RECORD + 8);
}

static void requester(const struct scenario *s)
{
	struct peer p;
	struct word w;

	peer_open(&p, s, s->requester, LANE_LOCAL, guest1_connects());
	peer_connect(&p);
	for (hear(p.tcp, &w, sizeof(w)); w.order != OVER; hear(p.tcp, &w, sizeof(w))) {
		const char *wrong;

		if (w.order == AGAIN) {
			count_of_requester(&p, &p.lane.total);
			peer_connect(&p);
			continue;
		}
		do
			wrong = lane_work(&p.lane, w.round, BATCHES);
		while (w.order == ENDLESS && !wrong);
		if (wrong && !p.lane.failed)
			fail_case("%s", wrong);
		w.failed = p.lane.failed;
		w.total = p.lane.total;
		say(p.tcp, &w, sizeof(w));
	}
	count_of_requester(&p, &p.lane.total);
	peer_close(&p);
}

/* The owner */

static void order(struct peer *p, enum order order, uint64_t round)
{
	struct word w = { .order = order, .round = round };

	say(p->tcp, &w, sizeof(w));
}

static struct word answer(struct peer *p)
{
	struct pollfd tcp = { .fd = p->tcp, .events = POLLIN };
	struct word w;

	while (!poll(&tcp, 1, 0)) {
		const char *wrong = p->scenario->leaves ? NULL : lane_receive(&p->lane);

		if (wrong)
			fail_case("%s", wrong);
		sched_yield();
	}
	hear(p->tcp, &w, sizeof(w));
	return w;
}

static void connect_again(struct peer *p)
{
	order(p, AGAIN, 0);
	peer_connect(p);
}

static void rounds(struct peer *p)
{
	struct word w;

	lane_make(&p->lane);
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		const char *wrong;

		lane_begin_round(&p->lane, round);
		order(p, WORK, round);
		w = answer(p);
		if (w.failed)
			fail_case("the requester got: %s", ibv_wc_status_str(w.failed));
		wrong = lane_check(&p->lane, &w.total, round);
		if (wrong)
			fail_case("round %lu: %s", round, wrong);
	}
	if (!is_direct(p))
		return;
	by_second.written += (w.total.batches * SLOTS + w.total.sent) * RECORD;
	by_second.read += 2 * w.total.batches * SLOTS * RECORD;
	by_second.atomics += w.total.added;
}

/* The first record has been written N times more. */
static void wait_for_writes(const struct peer *p, int n)
{
	double end = deadline(LIMIT);
	uint8_t seen[RECORD];

	for (int i = 0; i < n; i++) {
		memcpy(seen, p->lane.cpu, RECORD);
		while (!memcmp(seen, p->lane.cpu, RECORD)) {
			errno = 0;
			if (now() > end)
				fail_case("no traffic");
			usleep(100);
		}
	}
}

static void requester_is_refused(struct peer *p)
{
	struct word w = answer(p);

	errno = 0;
	if (w.failed != IBV_WC_REM_ACCESS_ERR)
		fail_case("the requester got: %s", ibv_wc_status_str(w.failed));
	if (!memory_untouched(&p->m))
		fail_case("bytes have arrived by a function that has gone");
}

static void function_leaves(struct peer *p)
{
	struct second second;

	second_find(&second, p->ctx);
	lane_begin_round(&p->lane, ROUNDS + 1);
	order(p, ENDLESS, ROUNDS + 1);
	wait_for_writes(p, 10);
	second_unbind(&second);
	memory_mark(&p->m);
	requester_is_refused(p);

	connect_again(p);
	order(p, WORK, 1);
	requester_is_refused(p);

	second_bind(&second);
	connect_again(p);
	order(p, WORK, 1);
	requester_is_refused(p);
	mr_close(p->mr);
	p->mr = memory_reg(&p->m, p->pd, RWA);
	connect_again(p);
	rounds(p);
}

static void owner(const struct scenario *s, int listens)
{
	struct peer p;

	peer_open(&p, s, s->owner, LANE, guest0_accepts(listens));
	peer_connect(&p);
	rounds(&p);
	if (s->leaves)
		function_leaves(&p);
	order(&p, OVER, 0);
	peer_close(&p);
}

int main(void)
{
	int listens = is_guest0() ? guest0_listens(1) : -1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		if (is_guest0())
			owner(&scenarios[i], listens);
		else
			requester(&scenarios[i]);
		printf("case %s: ok\n", scenarios[i].name);
	}
	printf("second function: %lu written, %lu read, %lu atomics\n", by_second.written,
	       by_second.read, by_second.atomics);
	return 0;
}
