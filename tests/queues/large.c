// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: rxe */
/*
 * A large CQ holds what was asked for: completions that nobody polls stay, in their order.
 *
 * One CQ for all peers makes programs ask for many entries.  rxm of libfabric does so by
 * default, for 256 peers with (384 + 384) requests each.
 */
#include "queues/ends.h"
#include "lib/clock.h"
#include "lib/depth.h"
#include "lib/harness.h"

#define RXM (256 * (384 + 384))
#define ONCE 32767	/* entries that rxe had at most */

FIXTURE(cq)
{
	struct ends e;
};

FIXTURE_SETUP(cq)
{
	ends_open(&self->e);
	self->e.pair.cq = must(ibv_create_cq(self->e.ctx, RXM, NULL, NULL, 0));
	for (int end = 0; end < 2; end++)
		pair_create_end(&self->e.pair, end, self->e.pd);
	pair_connect(&self->e.pair, IBV_MTU_1024);
}

FIXTURE_TEARDOWN(cq)
{
	ends_close(&self->e);
}

/* Post a write of one byte.  The send queue is small: wait until it takes one more. */
static void post(FIXTURE_DATA(cq) *self, int id, double end)
{
	struct ibv_sge sge = { self->e.here.iova, 1, self->e.mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = id, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { self->e.there.iova, self->e.peer->rkey },
	};

	while ((errno = ibv_post_send(self->e.pair.qp[0], &wr, &bad)) == ENOMEM && now() < end)
		sched_yield();
	if (errno)
		fail_case("post request %d", id);
}

TEST_F(cq, completions_stay_until_they_are_polled)
{
	int n = depth(ONCE + 100, RXM);
	double end = deadline(120);
	struct ibv_wc wc;

	ASSERT_LE(RXM, self->e.pair.cq->cqe);
	for (int i = 0; i < n; i++)
		post(self, i, end);
	for (int i = 0; i < n; i++) {
		int got;

		while (!(got = ibv_poll_cq(self->e.pair.cq, 1, &wc)) && now() < end)
			sched_yield();
		ASSERT_EQ(1, got);
		ASSERT_EQ(i, (int)wc.wr_id);
		ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
	}
	ASSERT_EQ(0, ibv_poll_cq(self->e.pair.cq, 1, &wc));
}

TEST_HARNESS_MAIN
