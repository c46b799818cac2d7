// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; devices: rxe */
/*
 * A send that is refused when it is posted does not go out later.
 *
 * A QP that is not in RTS yet takes no send.  The application is told so, and may post the same
 * again when the QP is ready: what goes out then is what it posts then.
 */
#include "queues/ends.h"
#include "lib/harness.h"
#include "lib/pattern.h"
#include <string.h>

#define LIST 3		/* requests that are refused, of a page each; the last page is for a good one */

FIXTURE(refused)
{
	struct ends e;
	struct ibv_qp *qp;		/* the first one of the pair */
	struct ibv_qp_attr attr;	/* of QP when it was in RTS */
};

FIXTURE_VARIANT(refused)
{
	enum ibv_qp_state state;
};

FIXTURE_VARIANT_ADD(refused, in_reset) { IBV_QPS_RESET };
FIXTURE_VARIANT_ADD(refused, in_init) { IBV_QPS_INIT };
FIXTURE_VARIANT_ADD(refused, in_rtr) { IBV_QPS_RTR };

static const int changes[] = {
	[IBV_QPS_RESET] = IBV_QP_STATE,
	[IBV_QPS_INIT] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	[IBV_QPS_RTR] = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	[IBV_QPS_RTS] = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
};

static void go(FIXTURE_DATA(refused) *self, enum ibv_qp_state first, enum ibv_qp_state last)
{
	for (int state = first; state <= last; state++) {
		self->attr.qp_state = state;
		if ((errno = ibv_modify_qp(self->qp, &self->attr, changes[state])))
			fail_case("QP to state %d", state);
	}
}

FIXTURE_SETUP(refused)
{
	struct ibv_qp_init_attr init;

	ends_open(&self->e);
	pair_open_in(&self->e.pair, self->e.pd);
	self->qp = self->e.pair.qp[0];
	ASSERT_EQ(0, ibv_query_qp(self->qp, &self->attr, changes[IBV_QPS_INIT] |
				  changes[IBV_QPS_RTR] | changes[IBV_QPS_RTS], &init));
	go(self, IBV_QPS_RESET, variant->state);
}

FIXTURE_TEARDOWN(refused)
{
	ends_close(&self->e);
}

/* The QP comes to RTS, and what is posted there is all that happens. */
static void only_the_next_goes_out(struct __test_metadata *_metadata, FIXTURE_DATA(refused) *self,
				   enum ibv_qp_state from)
{
	const size_t at = LIST * PAGE;
	struct ibv_wc wc;

	go(self, from + 1, IBV_QPS_RTS);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->e.pair, IBV_WR_RDMA_WRITE, self->e.mr,
					  self->e.here.iova + at, PAGE, self->e.there.iova + at,
					  self->e.peer->rkey));
	/* A queue is in order: what was before it has completed before it. */
	ASSERT_EQ(0, ibv_poll_cq(self->e.pair.cq, 1, &wc));
	ASSERT_EQ(0, memcmp(self->e.here.cpu + at, self->e.there.cpu + at, PAGE));
	ASSERT_TRUE(memory_only_changed(&self->e.there, at, PAGE));
}

TEST_F(refused, refused_list_of_ibv_post_send_is_not_sent_later)
{
	struct ibv_send_wr wr[LIST] = {}, *bad = NULL;
	struct ibv_sge sge[LIST];

	for (int i = 0; i < LIST; i++) {
		sge[i] = (struct ibv_sge){ self->e.here.iova + i * PAGE, PAGE, self->e.mr->lkey };
		wr[i] = (struct ibv_send_wr){
			.wr_id = 100 + i, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge[i],
			.num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
			.next = i + 1 < LIST ? &wr[i + 1] : NULL,
			.wr.rdma = { self->e.there.iova + i * PAGE, self->e.peer->rkey },
		};
	}
	ASSERT_EQ(EINVAL, ibv_post_send(self->qp, wr, &bad));
	ASSERT_EQ(&wr[0], bad);
	only_the_next_goes_out(_metadata, self, variant->state);
}

TEST_F(refused, refused_requests_of_ibv_wr_complete_are_not_sent_later)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(self->qp);

	ibv_wr_start(qp);
	for (int i = 0; i < LIST; i++) {
		qp->wr_id = 100 + i;
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qp, self->e.peer->rkey, self->e.there.iova + i * PAGE);
		ibv_wr_set_sge(qp, self->e.mr->lkey, self->e.here.iova + i * PAGE, PAGE);
	}
	ASSERT_EQ(EINVAL, ibv_wr_complete(qp));
	only_the_next_goes_out(_metadata, self, variant->state);
}

TEST_HARNESS_MAIN
