// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp gpu; devices: all */
/*
 * Buffers of a GPU move thousands of times, or are evicted, under RDMA writes, reads, atomics
 * and sends: no byte is lost, misplaced or stale, no operation fails, and the counters show that
 * the device met page faults.
 *
 * Every record has a number, its place and a sum (lib/record.h).
 *
 * Both ends are in this guest: a lane is a pair of queue pairs, with a thread that works on
 * it and compares, by RDMA and by the CPU (lib/traffic.h).  The case itself moves.
 * host/test_moves.py has the same with the requester in another guest.
 */
#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/gpu.h"
#include "lib/harness.h"
#include "lib/mover.h"
#include "lib/traffic.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define LANES 2
#define BATCHES 4	/* in a round */
#define MANY moves_wanted()	/* moves */
#define ROUNDS 5	/* at least, on each lane */
#define LIMIT 150	/* seconds */

/* A lane with its own MR, its device, and the memory at the other end. */
struct both_ends {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct memory local;
	struct ibv_mr *mr, *local_mr;
	struct lane owner, requester;
	pthread_t thread;
	atomic_bool *over;
	atomic_long rounds;
	const char *_Atomic wrong;
};

FIXTURE_VARIANT(moving)
{
	int bufs;
	bool pressure;
	enum memory_kind local;		/* of GPU memory, the requester's page-faults too */
};

FIXTURE(moving)
{
	struct memory buf[LANES];
	struct both_ends ends[LANES];
	struct mover mover;
	atomic_bool over;
};

FIXTURE_VARIANT_ADD(moving, there_and_back) { .bufs = 1, .local = HOST };
FIXTURE_VARIANT_ADD(moving, under_pressure) { .bufs = 2, .pressure = true, .local = HOST };
FIXTURE_VARIANT_ADD(moving, at_both_ends) { .bufs = 1, .local = GPU_VRAM };

static void ends_open(struct both_ends *e, const struct memory *buf, size_t at, int index,
		      enum memory_kind local)
{
	struct lane_address address;

	e->ctx = device_open();
	e->pd = must(ibv_alloc_pd(e->ctx));
	e->mr = memory_reg(buf, e->pd, RWA);
	if (local == HOST)
		memory_open(&e->local, HOST, LANE_LOCAL);
	else
		gpu_open(&e->local, local, LANE_LOCAL, 0);
	e->local_mr = memory_reg(&e->local, e->pd, RWA);
	lane_open(&e->owner, e->pd, e->mr, buf, at, index);
	lane_open(&e->requester, e->pd, e->local_mr, &e->local, 0, index);
	address = lane_address(&e->owner);
	lane_connect(&e->requester, &address);
	address = lane_address(&e->requester);
	lane_connect(&e->owner, &address);
	lane_make(&e->owner);
}

static void ends_close(struct both_ends *e)
{
	lane_close(&e->owner);
	lane_close(&e->requester);
	mr_close(e->mr);
	mr_close(e->local_mr);
	pd_close(e->pd);
	device_close(e->ctx);
	memory_close(&e->local);
}

FIXTURE_SETUP(moving)
{
	need("follows-moves");
	for (int i = 0; i < variant->bufs; i++)
		gpu_open(&self->buf[i], GPU_VRAM, (LANES / variant->bufs) * LANE, 0);
	for (int i = 0; i < LANES; i++)
		ends_open(&self->ends[i], &self->buf[i % variant->bufs],
			  i / variant->bufs * LANE, i, variant->local);
}

FIXTURE_TEARDOWN(moving)
{
	mover_close(&self->mover);
	for (int i = 0; i < LANES; i++)
		ends_close(&self->ends[i]);
	for (int i = 0; i < LANES; i++)
		memory_close(&self->buf[i]);
	EXPECT_TRUE(nothing_left());
}

static void *keep_working(void *arg)
{
	struct both_ends *e = arg;

	while (!*e->over && !e->wrong) {
		const char *wrong = NULL;

		lane_begin_round(&e->owner, e->rounds + 1);
		for (int i = 0; i < BATCHES && !wrong; i++) {
			wrong = lane_work(&e->requester, e->rounds + 1, 1);
			wrong = wrong ? wrong : lane_receive(&e->owner);
		}
		wrong = wrong ? wrong : lane_check(&e->owner, &e->requester.total,
						   e->rounds + 1);
		e->rounds++;
		e->wrong = wrong;
	}
	return NULL;
}

static bool lanes_work(FIXTURE_DATA(moving) *self)
{
	return !self->ends[0].wrong && !self->ends[1].wrong;
}

static bool done(FIXTURE_DATA(moving) *self)
{
	struct mr_stat stat;

	if (mover_moves(&self->mover) < MANY || self->ends[0].rounds < ROUNDS ||
	    self->ends[1].rounds < ROUNDS)
		return false;
	stat = nldev_mr_stat(ibv_get_device_index(self->ends[0].ctx->device));
	return moves_followed(&stat, self->buf[0].size / PAGE) >= follows_wanted();
}

TEST_F_TIMEOUT(moving, moving_buffer_keeps_every_byte, LIMIT)
{
	int odd = 0, mrs = variant->local == HOST ? LANES : 2 * LANES;
	uint64_t operations = 0;
	struct mr_stat stat;
	double began = now();
	long moves;

	for (int i = 0; i < variant->bufs; i++)
		mover_add(&self->mover, &self->buf[i]);
	for (int i = 0; i < LANES && variant->local != HOST; i++)
		mover_add(&self->mover, &self->ends[i].local);
	if (variant->pressure)
		mover_press(&self->mover);
	for (int i = 0; i < LANES; i++) {
		self->ends[i].over = &self->over;
		ASSERT_EQ(0, pthread_create(&self->ends[i].thread, NULL, keep_working,
					    &self->ends[i]));
	}
	while (lanes_work(self) && !odd && !done(self))
		odd = mover_step(&self->mover);
	self->over = true;
	for (int i = 0; i < LANES; i++) {
		pthread_join(self->ends[i].thread, NULL);
		operations += self->ends[i].requester.total.operations;
	}
	moves = mover_moves(&self->mover);
	TH_LOG("%ld moves, %ld of them evictions, %ld refused, under %llu operations, in %.1f s",
	       moves, mover_evictions(&self->mover), self->mover.refused,
	       (unsigned long long)operations, now() - began);
	ASSERT_EQ(NULL, self->ends[0].wrong) { TH_LOG("%s", self->ends[0].wrong); }
	ASSERT_EQ(NULL, self->ends[1].wrong) { TH_LOG("%s", self->ends[1].wrong); }
	ASSERT_EQ(0, odd);
	if (variant->pressure)
		ASSERT_LE(MANY / 4, mover_evictions(&self->mover));

	stat = nldev_mr_stat(ibv_get_device_index(self->ends[0].ctx->device));
	ASSERT_EQ(mrs, stat.mrs);
	ASSERT_LT(0, stat.faults);
	ASSERT_LT(0, stat.invalidations);
	if (variant->local == HOST)
		ASSERT_TRUE(moves_were_followed(&stat, mrs, self->buf[0].size / PAGE, moves));
}

TEST_HARNESS_MAIN
