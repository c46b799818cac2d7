// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick; devices: all */
/*
 * A QP whose receives are in an SRQ has no receive queue of its own, and it can be created
 * whatever the sizes of that queue are said to be (see ibv_create_qp(3)).
 *
 * The same for XRC: one QP of it sends only, the other one has the SRQ of the packet.
 */
#include "queues/ends.h"
#include "lib/harness.h"
#include <fcntl.h>
#include <string.h>

FIXTURE(shared)
{
	struct ends e;
	struct ibv_srq *srq;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *qp;
};

FIXTURE_VARIANT(shared)
{
	uint32_t wr, sge;	/* of the receive queue that there is not */
};

FIXTURE_VARIANT_ADD(shared, no_size) { 0, 0 };
FIXTURE_VARIANT_ADD(shared, small_size) { 16, 1 };
FIXTURE_VARIANT_ADD(shared, many_receives) { 1 << 24, 1 };
FIXTURE_VARIANT_ADD(shared, many_sges) { 16, 1 << 16 };
FIXTURE_VARIANT_ADD(shared, highest_size) { UINT32_MAX, UINT32_MAX };

FIXTURE_SETUP(shared)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };

	ends_open(&self->e);
	self->srq = must(ibv_create_srq(self->e.pd, &attr));
	pair_create_end(&self->e.pair, 0, self->e.pd);	/* which makes the CQ */
}

FIXTURE_TEARDOWN(shared)
{
	if (self->qp)
		EXPECT_EQ(0, ibv_destroy_qp(self->qp));
	for (int i = 0; i < 2; i++)
		if (self->e.pair.qp[i])
			EXPECT_EQ(0, ibv_destroy_qp(self->e.pair.qp[i]));
	self->e.pair.qp[0] = self->e.pair.qp[1] = NULL;
	if (self->xrcd)
		EXPECT_EQ(0, ibv_close_xrcd(self->xrcd));
	if (self->srq)
		EXPECT_EQ(0, ibv_destroy_srq(self->srq));
	ends_close(&self->e);
}

#define CAP { .max_send_wr = 4, .max_send_sge = 1, .max_recv_wr = variant->wr, \
	      .max_recv_sge = variant->sge }

#define INIT(type, ...)								\
	{ .qp_type = type, .send_cq = self->e.pair.cq, .recv_cq = self->e.pair.cq, .cap = CAP,	\
	  __VA_ARGS__ }

TEST_F(shared, message_arrives_in_the_srq)
{
	struct ibv_qp_init_attr init = INIT(IBV_QPT_RC, .srq = self->srq);
	struct pair *p = &self->e.pair;
	struct ibv_sge sge = { self->e.there.iova, PAGE, self->e.peer->lkey };
	struct ibv_recv_wr *bad, receive = { .sg_list = &sge, .num_sge = 1 };

	p->qp[1] = ibv_create_qp(self->e.pd, &init);
	ASSERT_NE(NULL, p->qp[1]) TH_LOG("errno %d", errno);
	pair_connect(p, IBV_MTU_1024);
	ASSERT_EQ(0, ibv_post_srq_recv(self->srq, &receive, &bad));
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(p, IBV_WR_SEND, self->e.mr, self->e.here.iova, PAGE, 0, 0));
	ASSERT_EQ(0, memcmp(self->e.here.cpu, self->e.there.cpu, PAGE));
}

/*
 * The QP leaves the SRQ once, and says so once (IBA 11.6.3.2), whatever its peer still sends: here
 * a request and its repetitions, until the peer gives up.
 */
TEST_F(shared, last_wqe_is_reported_once)
{
	struct ibv_qp_init_attr init = INIT(IBV_QPT_RC, .srq = self->srq);
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct pair *p = &self->e.pair;
	struct ibv_async_event event;
	int reported = 0;

	ASSERT_EQ(0, fcntl(self->e.ctx->async_fd, F_SETFL, O_NONBLOCK));
	p->qp[1] = must(ibv_create_qp(self->e.pd, &init));
	pair_connect_end(p, 0, IBV_MTU_1024, 0, 8);	/* a millisecond, seven times */
	pair_connect_end(p, 1, IBV_MTU_1024, 0, 8);
	ASSERT_EQ(0, ibv_modify_qp(p->qp[1], &error, IBV_QP_STATE));
	ASSERT_EQ(IBV_WC_RETRY_EXC_ERR,
		  rdma_op(p, IBV_WR_SEND, self->e.mr, self->e.here.iova, PAGE, 0, 0));
	while (!ibv_get_async_event(self->e.ctx, &event)) {
		reported += event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
		ibv_ack_async_event(&event);
	}
	ASSERT_EQ(1, reported);
}

TEST_F(shared, datagram_qp_is_created)
{
	struct ibv_qp_init_attr init = INIT(IBV_QPT_UD, .srq = self->srq);

	self->qp = ibv_create_qp(self->e.pd, &init);
	ASSERT_NE(NULL, self->qp) TH_LOG("errno %d", errno);
}

TEST_F(shared, ibv_create_qp_ex_creates_the_qp)
{
	struct ibv_qp_init_attr_ex init = INIT(IBV_QPT_RC, .srq = self->srq, .pd = self->e.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND);

	self->qp = ibv_create_qp_ex(self->e.ctx, &init);
	ASSERT_NE(NULL, self->qp) TH_LOG("errno %d", errno);
}

static bool has_xrc(struct ibv_context *ctx)
{
	struct ibv_device_attr attr;

	return !ibv_query_device(ctx, &attr) && attr.device_cap_flags & IBV_DEVICE_XRC;
}

TEST_F(shared, xrc_qps_are_created)
{
	struct ibv_xrcd_init_attr domain = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							  IBV_XRCD_INIT_ATTR_OFLAGS,
					     .fd = -1, .oflags = O_CREAT };
	struct ibv_qp_init_attr_ex send = INIT(IBV_QPT_XRC_SEND, .pd = self->e.pd,
					       .comp_mask = IBV_QP_INIT_ATTR_PD);
	struct ibv_qp_init_attr_ex receive = { .qp_type = IBV_QPT_XRC_RECV, .cap = CAP,
					       .comp_mask = IBV_QP_INIT_ATTR_XRCD };

	if (!has_xrc(self->e.ctx))
		SKIP(return, "the device has no XRC");
	self->qp = ibv_create_qp_ex(self->e.ctx, &send);
	ASSERT_NE(NULL, self->qp) TH_LOG("sender: errno %d", errno);
	self->xrcd = must(ibv_open_xrcd(self->e.ctx, &domain));
	receive.xrcd = self->xrcd;
	self->e.pair.qp[1] = ibv_create_qp_ex(self->e.ctx, &receive);
	ASSERT_NE(NULL, self->e.pair.qp[1]) TH_LOG("receiver: errno %d", errno);
}

TEST_HARNESS_MAIN
