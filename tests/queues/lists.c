// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; devices: rxe */
/* runs: full; devices: connectx */
/*
 * All elements of a list of SGEs or of inline data are sent, whatever function posts them, and
 * data that does not fit is refused.
 */
#include "queues/ends.h"
#include "lib/harness.h"

FIXTURE(list)
{
	struct ends e;
	struct ibv_qp_ex *qp;
	uint32_t max_inline;
};

FIXTURE_SETUP(list)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ends_open(&self->e);
	pair_open_in(&self->e.pair, self->e.pd);
	self->qp = ibv_qp_to_qp_ex(self->e.pair.qp[0]);
	ASSERT_EQ(0, ibv_query_qp(self->e.pair.qp[0], &attr, IBV_QP_CAP, &init));
	self->max_inline = init.cap.max_inline_data;
	ASSERT_LE(64, self->max_inline);
	ASSERT_GT(SIZE, self->max_inline);
}

FIXTURE_TEARDOWN(list)
{
	ends_close(&self->e);
}

static void begin(FIXTURE_DATA(list) *self)
{
	ibv_wr_start(self->qp);
	self->qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(self->qp, self->e.peer->rkey, self->e.there.iova);
}

/* Post; whether N bytes of the first end arrive, one after another, and no others. */
static bool arrive(FIXTURE_DATA(list) *self, size_t n)
{
	if ((errno = ibv_wr_complete(self->qp)))
		fail_case("post a request");
	return wait_wc(&self->e.pair, NULL) == IBV_WC_SUCCESS &&
	       !memcmp(self->e.there.cpu, self->e.here.cpu, n) &&
	       memory_only_changed(&self->e.there, 0, n);
}

TEST_F(list, sges_of_different_lengths_are_all_sent)
{
	struct ibv_sge sge[2] = {
		{ self->e.here.iova, 100, self->e.mr->lkey },
		{ self->e.here.iova + 100, 3000, self->e.mr->lkey },
	};

	begin(self);
	ibv_wr_set_sge_list(self->qp, 2, sge);
	ASSERT_TRUE(arrive(self, 3100));
	sge[0].length = 3000;
	sge[1] = (struct ibv_sge){ self->e.here.iova + 3000, 500, self->e.mr->lkey };
	begin(self);
	ibv_wr_set_sge_list(self->qp, 2, sge);
	ASSERT_TRUE(arrive(self, 3500));
}

TEST_F(list, inline_data_list_is_sent)
{
	struct ibv_data_buf buf[3] = {
		{ self->e.here.cpu, 7 }, { self->e.here.cpu + 7, 30 },
		{ self->e.here.cpu + 37, 1 },
	};

	begin(self);
	ibv_wr_set_inline_data_list(self->qp, 3, buf);
	ASSERT_TRUE(arrive(self, 38));
}

TEST_F(list, inline_data_list_of_maximum_size_is_sent)
{
	struct ibv_data_buf buf[2] = {
		{ self->e.here.cpu, 10 }, { self->e.here.cpu + 10, self->max_inline - 10 },
	};

	begin(self);
	ibv_wr_set_inline_data_list(self->qp, 2, buf);
	ASSERT_TRUE(arrive(self, self->max_inline));
}

TEST_F(list, inline_data_list_above_the_maximum_is_refused)
{
	struct ibv_data_buf buf[2] = {
		{ self->e.here.cpu, 10 }, { self->e.here.cpu + 10, self->max_inline - 9 },
	};

	begin(self);
	ibv_wr_set_inline_data_list(self->qp, 2, buf);
	ASSERT_NE(0, ibv_wr_complete(self->qp));
	ASSERT_TRUE(memory_untouched(&self->e.there));
	begin(self);
	ibv_wr_set_inline_data(self->qp, self->e.here.cpu, 20);
	ASSERT_TRUE(arrive(self, 20));
}

/* An application need not set IBV_SEND_INLINE with this function. */
TEST_F(list, inline_data_is_sent_without_the_inline_flag)
{
	begin(self);
	ibv_wr_set_inline_data(self->qp, self->e.here.cpu, 50);
	ASSERT_TRUE(arrive(self, 50));
}

TEST_F(list, post_send_of_too_much_inline_data_is_refused)
{
	struct ibv_sge sge[2] = {
		{ self->e.here.iova, 10, 0 }, { self->e.here.iova + 10, self->max_inline - 9, 0 },
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE, .sg_list = sge, .num_sge = 2,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		.wr.rdma = { self->e.there.iova, self->e.peer->rkey },
	};

	ASSERT_NE(0, ibv_post_send(self->e.pair.qp[0], &wr, &bad));
	sge[1].length--;
	ASSERT_EQ(0, ibv_post_send(self->e.pair.qp[0], &wr, &bad));
	ASSERT_EQ(IBV_WC_SUCCESS, wait_wc(&self->e.pair, NULL));
	ASSERT_EQ(0, memcmp(self->e.there.cpu, self->e.here.cpu, self->max_inline));
	ASSERT_TRUE(memory_only_changed(&self->e.there, 0, self->max_inline));
}

TEST_HARNESS_MAIN
