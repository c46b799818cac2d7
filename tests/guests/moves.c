// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * usage: moves
 *
 * In each of two guests with an InfiniBand device: guest 0, the owner, has a buffer of the
 * GPU, or two, that it moves thousands of times or that are evicted; guest 1 writes, reads,
 * adds and sends to it without pause (lib/traffic.h).  The owner's guest may have a second
 * device, mlx5_1; then both import the same buffer, and a lane goes through each.
 *
 * For each lane there is a TCP connection by which the ends tell each other their addresses,
 * and between rounds what has been done; then both compare all of it.  At last the GPU leaves
 * its driver under traffic: the requester must get remote access errors, and the keys of the
 * owner must be of no use any more.
 *
 * "case NAME: ok" is printed at each end.  What is wrong ends the program with status 1.
 */
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/device.h"
#include "lib/gpu.h"
#include "lib/guests.h"
#include "lib/mover.h"
#include "lib/traffic.h"
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LANES 2
#define BATCHES 4	/* in a round */
#define MANY moves_wanted()
#define ROUNDS 5

struct scenario {
	const char *name;
	int bufs;
	bool pressure, nics, revoked;
};

static const struct scenario scenarios[] = {
	{ .name = "there_and_back", .bufs = 1 },
	{ .name = "under_pressure", .bufs = 2, .pressure = true },
	{ .name = "two_nics", .bufs = 1, .nics = true },
	{ .name = "revoked", .bufs = 1, .revoked = true },
};

/* What the owner says before a round, and the requester behind it. */
struct word {
	uint64_t round;		/* 0: it is over */
	struct lane_total total;
	uint32_t endless;	/* the round ends with an error only */
	uint32_t failed;	/* enum ibv_wc_status of the first completion with an error */
};

/* One end of a lane and what belongs to it alone. */
struct end {
	const struct scenario *scenario;
	int index, tcp;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct memory local;		/* requester */
	struct ibv_mr *mr;
	struct lane lane;
	pthread_t thread;
	atomic_long rounds;
	const char *_Atomic wrong;
	struct word heard;		/* owner: the last one */
};

/* Owner: the threads shall end, or begin the round without end; those that have. */
static atomic_bool over, last;
static atomic_int endless;

static void end_connect(struct end *e)
{
	struct lane_address mine = lane_address(&e->lane), far;

	say(e->tcp, &mine, sizeof(mine));
	hear(e->tcp, &far, sizeof(far));
	lane_connect(&e->lane, &far);
	/* Both are connected before the first packet, which the owner asks for. */
	say(e->tcp, &mine, sizeof(mine));
	hear(e->tcp, &far, sizeof(far));
}

static void end_close(struct end *e)
{
	lane_close(&e->lane);
	mr_close(e->mr);
	pd_close(e->pd);
	device_close(e->ctx);
	memory_close(&e->local);
	close(e->tcp);
}

/* The requester */

static void *request(void *arg)
{
	struct end *e = arg;
	struct word w;

	for (;;) {
		hear(e->tcp, &w, sizeof(w));
		if (!w.round)
			return NULL;
		do
			e->wrong = lane_work(&e->lane, w.round, BATCHES);
		while (w.endless && !e->wrong);
		w.total = e->lane.total;
		w.failed = e->lane.failed;
		say(e->tcp, &w, sizeof(w));
		if (e->wrong)
			return NULL;
		e->rounds++;
	}
}

/* The error is the one of a key that is gone, and so is that of every later use of the key. */
static void requester_was_refused(struct end *e)
{
	struct word w = {};

	if (e->lane.failed != IBV_WC_REM_ACCESS_ERR)
		fail_case("lane %d ended with %s", e->index, e->wrong ? e->wrong : "no error");
	lane_close(&e->lane);
	lane_open(&e->lane, e->pd, e->mr, &e->local, 0, e->index);
	e->lane.silent = true;
	end_connect(e);
	lane_work(&e->lane, 1, 1);
	if (e->lane.failed != IBV_WC_REM_ACCESS_ERR)
		fail_case("a use of the dead key of lane %d ended with: %s", e->index,
			  ibv_wc_status_str(e->lane.failed));
	say(e->tcp, &w, sizeof(w));
}

static void requester(const struct scenario *s)
{
	struct end ends[LANES] = {};

	for (int i = 0; i < LANES; i++) {
		struct end *e = &ends[i];

		*e = (struct end){ .scenario = s, .index = i, .tcp = guest1_connects() };
		e->ctx = device_open();
		e->pd = must(ibv_alloc_pd(e->ctx));
		memory_open(&e->local, HOST, LANE_LOCAL);
		e->mr = memory_reg(&e->local, e->pd, RWA);
		lane_open(&e->lane, e->pd, e->mr, &e->local, 0, i);
		e->lane.silent = s->revoked;
		end_connect(e);
	}
	for (int i = 0; i < LANES; i++)
		if (pthread_create(&ends[i].thread, NULL, request, &ends[i]))
			fail_case("create a thread");
	for (int i = 0; i < LANES; i++)
		pthread_join(ends[i].thread, NULL);
	for (int i = 0; i < LANES; i++) {
		printf("# lane %d: %ld rounds, %llu operations\n", i, ends[i].rounds,
		       (unsigned long long)ends[i].lane.total.operations);
		if (s->revoked)
			requester_was_refused(&ends[i]);
		else if (ends[i].wrong)
			fail_case("lane %d: %s", i, ends[i].wrong);
	}
	for (int i = 0; i < LANES; i++)
		end_close(&ends[i]);
}

/* The owner */

/*
 * Take what arrives until the requester has done its round.  In the round without end nothing
 * does, and the receives are flushed.
 */
static const char *wait_for_word(struct end *e, bool endless_round)
{
	struct pollfd tcp = { .fd = e->tcp, .events = POLLIN };

	while (!poll(&tcp, 1, 0)) {
		const char *wrong = endless_round ? NULL : lane_receive(&e->lane);

		if (wrong)
			return wrong;
		sched_yield();
	}
	hear(e->tcp, &e->heard, sizeof(e->heard));
	return NULL;
}

static void *serve(void *arg)
{
	struct end *e = arg;
	struct word w = {};

	for (w.round = 1; !over && !w.endless; w.round++) {
		const char *wrong;

		lane_begin_round(&e->lane, w.round);
		w.endless = last;
		say(e->tcp, &w, sizeof(w));
		endless += w.endless;
		wrong = wait_for_word(e, w.endless);
		if (!wrong && e->heard.failed)
			wrong = ibv_wc_status_str(e->heard.failed);
		if (!wrong)
			wrong = lane_check(&e->lane, &e->heard.total, w.round);
		e->wrong = wrong;
		if (wrong)
			return NULL;
		e->rounds++;
	}
	w.round = 0;
	say(e->tcp, &w, sizeof(w));
	return NULL;
}

static void owner_opens(struct end *e, const struct memory *buf, int listens)
{
	const struct scenario *s = e->scenario;

	e->tcp = guest0_accepts(listens);
	e->ctx = s->nics && e->index ? device_open_named("mlx5_1") : device_open();
	e->pd = must(ibv_alloc_pd(e->ctx));
	e->mr = memory_reg(buf, e->pd, RWA);
	lane_open(&e->lane, e->pd, e->mr, buf, e->index / s->bufs * LANE, e->index);
	end_connect(e);
	lane_make(&e->lane);
}

static struct mr_stat stat_of(const struct end *e)
{
	return nldev_mr_stat(ibv_get_device_index(e->ctx->device));
}

/* Whether there were so many moves, and traffic enough between them. */
static bool has_moved(const struct mover *m, const struct end *ends, long moves, long follows)
{
	if (mover_moves(m) < moves)
		return false;
	for (int i = 0; i < LANES; i++) {
		struct mr_stat stat = stat_of(&ends[i]);

		if (ends[i].rounds < ROUNDS ||
		    moves_followed(&stat, m->buf[0]->size / PAGE) < follows)
			return false;
	}
	return true;
}

static void keep_moving(struct mover *m, struct end *ends, long moves, long follows)
{
	while (!has_moved(m, ends, moves, follows) && !ends[0].wrong && !ends[1].wrong) {
		errno = mover_step(m);
		if (errno)
			fail_case("move a buffer");
	}
}

/* The GPU leaves its driver under traffic: the requester is refused, now and later. */
static void take_away(struct mover *m, struct end *ends)
{
	struct word w;

	last = true;
	while (endless < LANES && !ends[0].wrong && !ends[1].wrong)
		usleep(1000);
	for (int i = 0; i < 100; i++)
		mover_step(m);
	if (ends[0].wrong || ends[1].wrong)
		return;
	errno = gpu_unbind();
	if (errno)
		fail_case("unbind the driver of the GPU");
	for (int i = 0; i < LANES; i++)
		pthread_join(ends[i].thread, NULL);
	for (int i = 0; i < LANES; i++) {
		struct end *e = &ends[i];

		if (e->heard.failed != IBV_WC_REM_ACCESS_ERR)
			fail_case("the requester of lane %d ended with: %s", i,
				  ibv_wc_status_str(e->heard.failed));
		lane_close(&e->lane);
		lane_open(&e->lane, e->pd, e->mr, m->buf[0], i * LANE, i);
		end_connect(e);
	}
	for (int i = 0; i < LANES; i++)
		hear(ends[i].tcp, &w, sizeof(w));
	if (ibv_reg_mr_fd(ends[0].pd, NULL, LANE, IBV_MR_FD_TYPE_DMABUF, m->buf[0]->fd, RWA) ||
	    errno != ENODEV)
		fail_case("reg of a buffer of a GPU that is gone did not fail with ENODEV");
}

static void bind_again(void)
{
	double end = deadline(10);

	while (!gpu_is_bound() && now() < end) {
		errno = gpu_bind();
		if (errno && errno != EBUSY)
			fail_case("bind the driver again");
		if (errno) /* what was closed is released a little later */
			usleep(100000);
	}
	if (!gpu_is_bound())
		fail_case("the driver does not take the GPU again");
}

/* Nothing was wrong, all has moved, and each MR has followed. */
static void judge(const struct scenario *s, struct mover *m, struct end *ends, double began)
{
	int nics = s->nics ? LANES : 1, mrs = LANES / nics;
	long moves = mover_moves(m), evictions = mover_evictions(m);

	printf("# %s: %ld moves, %ld of them evictions, %ld refused, %ld and %ld rounds, %.1f s\n",
	       s->name, moves, evictions, m->refused, ends[0].rounds, ends[1].rounds,
	       now() - began);
	for (int i = 0; i < LANES; i++)
		if (ends[i].wrong)
			fail_case("lane %d: %s", i, ends[i].wrong);
	if (s->pressure && evictions < MANY / 4)
		fail_case("%ld evictions are too few", evictions);
	for (int i = 0; i < nics; i++) {
		struct mr_stat stat = stat_of(&ends[i]);

		if (!moves_were_followed(&stat, mrs, m->buf[0]->size / PAGE, moves))
			fail_case("the counters of the MRs do not match %ld moves", moves);
	}
}

static void owner(const struct scenario *s, int listens)
{
	struct memory buf[LANES] = {};
	struct end ends[LANES] = {};
	struct mover m = {};
	double began;

	over = last = false;
	endless = 0;
	for (int i = 0; i < s->bufs; i++) {
		gpu_open(&buf[i], GPU_VRAM, LANES / s->bufs * LANE, 0);
		mover_add(&m, &buf[i]);
	}
	if (s->pressure)
		mover_press(&m);
	for (int i = 0; i < LANES; i++) {
		ends[i] = (struct end){ .scenario = s, .index = i };
		owner_opens(&ends[i], &buf[i % s->bufs], listens);
	}
	began = now();
	for (int i = 0; i < LANES; i++)
		if (pthread_create(&ends[i].thread, NULL, serve, &ends[i]))
			fail_case("create a thread");
	if (s->revoked) {
		keep_moving(&m, ends, MANY / 10, 0);
		take_away(&m, ends);
	} else {
		keep_moving(&m, ends, MANY, follows_wanted());
		over = true;
		for (int i = 0; i < LANES; i++)
			pthread_join(ends[i].thread, NULL);
		judge(s, &m, ends, began);
	}
	mover_close(&m);
	for (int i = 0; i < LANES; i++)
		end_close(&ends[i]);
	for (int i = 0; i < LANES; i++)
		memory_close(&buf[i]);
	bind_again();
}

int main(void)
{
	bool owns = is_guest0();
	int listens = owns ? guest0_listens(LANES) : -1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		if (owns)
			owner(&scenarios[i], listens);
		else
			requester(&scenarios[i]);
		printf("case %s: ok\n", scenarios[i].name);
	}
	return 0;
}
