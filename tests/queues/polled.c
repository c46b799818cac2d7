// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full kcsan; guest: smp; devices: rxe */
/* runs: quick debug-full; guest: smp; devices: connectx */
/*
 * Threads that poll one CQ get each completion once, in all.
 *
 * A CQ is polled under its lock: by ibv_poll_cq(), and from ibv_start_poll() to ibv_end_poll()
 * of an extended CQ, also if ibv_next_poll() finds no more.
 */
#include "queues/ends.h"
#include "lib/clock.h"
#include "lib/depth.h"
#include "lib/harness.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define THREADS 4
#define MOST 20000
#define UNDER_WAY 8		/* fewer than the send queue takes */

FIXTURE(polled)
{
	struct ends e;
	struct ibv_cq_ex *cq;
	pthread_t thread[THREADS];
	atomic_int seen[MOST];	/* how often each completion was polled */
	atomic_int all, wrong;
	atomic_int polling, met;	/* threads that poll now; polls that met another one */
	atomic_bool over;
};

FIXTURE_VARIANT(polled)
{
	void *(*poll)(void *);
};

static void count(FIXTURE_DATA(polled) *self, uint64_t wr_id, enum ibv_wc_status status)
{
	if (status || wr_id >= MOST)
		self->wrong++;
	else
		self->seen[wr_id]++;
	self->all++;
}

static void poll_begins(FIXTURE_DATA(polled) *self)
{
	if (self->polling++)
		self->met++;
}

static void *poll_cq(void *arg)
{
	FIXTURE_DATA(polled) *self = arg;
	struct ibv_wc wc[3];

	while (!self->over) {
		int n;

		poll_begins(self);
		n = ibv_poll_cq(ibv_cq_ex_to_cq(self->cq), 3, wc);
		self->polling--;
		if (n < 0)
			fail_case("poll the CQ");
		for (int i = 0; i < n; i++)
			count(self, wc[i].wr_id, wc[i].status);
	}
	return NULL;
}

static void *poll_cq_ex(void *arg)
{
	FIXTURE_DATA(polled) *self = arg;

	while (!self->over) {
		struct ibv_poll_cq_attr attr = {};

		poll_begins(self);
		if (!ibv_start_poll(self->cq, &attr)) {
			do {
				count(self, self->cq->wr_id, self->cq->status);
			} while (!ibv_next_poll(self->cq));
			ibv_end_poll(self->cq);
		}
		self->polling--;
	}
	return NULL;
}

FIXTURE_VARIANT_ADD(polled, by_ibv_poll_cq) { poll_cq };
FIXTURE_VARIANT_ADD(polled, by_ibv_start_poll) { poll_cq_ex };

FIXTURE_SETUP(polled)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 64 };

	ends_open(&self->e);
	self->cq = must(ibv_create_cq_ex(self->e.ctx, &attr));
	self->e.pair.cq = ibv_cq_ex_to_cq(self->cq);
	for (int end = 0; end < 2; end++)
		pair_create_end(&self->e.pair, end, self->e.pd);
	pair_connect(&self->e.pair, IBV_MTU_1024);
}

FIXTURE_TEARDOWN(polled)
{
	ends_close(&self->e);
}

static void post(FIXTURE_DATA(polled) *self, int id)
{
	struct ibv_sge sge = { self->e.here.iova, 64, self->e.mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = id, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { self->e.there.iova, self->e.peer->rkey },
	};

	if ((errno = ibv_post_send(self->e.pair.qp[0], &wr, &bad)))
		fail_case("post a request");
}

TEST_F(polled, each_completion_is_delivered_once)
{
	int n = depth(2000, MOST);
	double end = deadline(60);

	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&self->thread[i], NULL, variant->poll, self));
	for (int i = 0; i < n; i++) {
		while (self->all < i - UNDER_WAY && now() < end)
			sched_yield();
		if (now() >= end)
			break;
		post(self, i);
	}
	while (self->all < n && now() < end)
		usleep(100);
	usleep(10000);		/* for one that comes again */
	self->over = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(self->thread[i], NULL);

	printf("# %d completions, %d polls that met another thread's\n", self->all, self->met);
	ASSERT_EQ(0, self->wrong);
	ASSERT_EQ(n, self->all);
	ASSERT_LE(n / 10, self->met);
	for (int i = 0; i < n; i++) {
		if (self->seen[i] != 1)
			TH_LOG("completion %d of %d came %d times", i, n, self->seen[i]);
		ASSERT_EQ(1, self->seen[i]);
	}
}

TEST_HARNESS_MAIN
