// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: all */
/*
 * A CQ that is armed for solicited completions only wakes the sleeper for an error too.
 *
 * An application that sleeps for the next request of its peer has nobody else who tells it that
 * its own send was refused, or that its QP is flushed (see ibv_req_notify_cq(3)).  A success
 * that is not solicited wakes nobody.
 */
#include "queues/ends.h"
#include "lib/clock.h"
#include "lib/harness.h"
#include <poll.h>

FIXTURE(solicited)
{
	struct ends e;
	struct ibv_comp_channel *channel[2];
	struct ibv_cq *cq[2];	/* of the ends, each with a channel of its own */
};

struct cause;

FIXTURE_VARIANT(solicited)
{
	const struct cause *cause;
};

/* What makes an end get a completion. */
struct cause {
	int end;
	enum ibv_wr_opcode opcode;
	bool wrong_lkey, wrong_rkey, wrong_recv_lkey, flushed, silent, solicited;
	uint32_t recv;		/* bytes that the second end receives; 0: it posts no receive */
	enum ibv_wc_status status;
};

#define CAUSE(name, ...)							\
	static const struct cause name##_cause = { __VA_ARGS__ };		\
	FIXTURE_VARIANT_ADD(solicited, name) { &name##_cause }

CAUSE(wrong_rkey, 0, IBV_WR_RDMA_WRITE, .wrong_rkey = true, .status = IBV_WC_REM_ACCESS_ERR);
CAUSE(wrong_lkey, 0, IBV_WR_RDMA_WRITE, .wrong_lkey = true, .status = IBV_WC_LOC_PROT_ERR);
CAUSE(read_with_wrong_lkey, 0, IBV_WR_RDMA_READ, .wrong_lkey = true,
      .status = IBV_WC_LOC_PROT_ERR);
CAUSE(flushed_send, 0, IBV_WR_RDMA_WRITE, .flushed = true, .status = IBV_WC_WR_FLUSH_ERR);
CAUSE(flushed_receive, 1, IBV_WR_SEND, .flushed = true, .recv = SIZE,
      .status = IBV_WC_WR_FLUSH_ERR);
CAUSE(sent_too_much, 0, IBV_WR_SEND, .recv = PAGE - 1, .status = IBV_WC_REM_INV_REQ_ERR);
CAUSE(received_too_much, 1, IBV_WR_SEND, .recv = PAGE - 1, .status = IBV_WC_LOC_LEN_ERR);
CAUSE(receive_with_wrong_lkey, 1, IBV_WR_SEND, .recv = PAGE, .wrong_recv_lkey = true,
      .status = IBV_WC_LOC_PROT_ERR);
CAUSE(write, 0, IBV_WR_RDMA_WRITE, .status = IBV_WC_SUCCESS);
CAUSE(message, 1, IBV_WR_SEND, .recv = PAGE, .status = IBV_WC_SUCCESS);
CAUSE(solicited_message, 1, IBV_WR_SEND, .recv = PAGE, .solicited = true,
      .status = IBV_WC_SUCCESS);
CAUSE(silent_peer, 0, IBV_WR_RDMA_WRITE, .silent = true, .status = IBV_WC_RETRY_EXC_ERR);

FIXTURE_SETUP(solicited)
{
	struct pair *p = &self->e.pair;

	ends_open(&self->e);
	for (int end = 0; end < 2; end++) {
		self->channel[end] = must(ibv_create_comp_channel(self->e.ctx));
		self->cq[end] = must(ibv_create_cq(self->e.ctx, 16, NULL, self->channel[end], 0));
		p->cq = self->cq[end];
		pair_create_end(p, end, self->e.pd);
	}
	p->cq = NULL;
	pair_connect(p, IBV_MTU_1024);
}

FIXTURE_TEARDOWN(solicited)
{
	pair_close(&self->e.pair);
	for (int end = 0; end < 2; end++) {
		if (self->cq[end])
			EXPECT_EQ(0, ibv_destroy_cq(self->cq[end]));
		if (self->channel[end])
			EXPECT_EQ(0, ibv_destroy_comp_channel(self->channel[end]));
	}
	ends_close(&self->e);
}

static void arm(FIXTURE_DATA(solicited) *self, int end)
{
	if ((errno = ibv_req_notify_cq(self->cq[end], 1)))
		fail_case("arm a CQ for solicited completions");
}

/* Whether there is an event within so many seconds. */
static bool woken(FIXTURE_DATA(solicited) *self, int end, double seconds)
{
	struct pollfd fd = { .fd = self->channel[end]->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;
	int n = poll(&fd, 1, 1000 * seconds);

	if (n < 0)
		fail_case("wait for an event");
	if (!n)
		return false;
	if (ibv_get_cq_event(self->channel[end], &cq, &context))
		fail_case("get an event");
	ibv_ack_cq_events(cq, 1);
	return true;
}

static void post(FIXTURE_DATA(solicited) *self, const struct cause *c, unsigned int flags)
{
	struct ibv_sge sge = { self->e.here.iova, PAGE,
			       self->e.mr->lkey ^ (c->wrong_lkey ? 0x55 : 0) };
	struct ibv_send_wr *bad, wr = {
		.opcode = c->opcode, .sg_list = &sge, .num_sge = 1, .send_flags = flags,
		.wr.rdma = { self->e.there.iova, self->e.peer->rkey ^ (c->wrong_rkey ? 0x55 : 0) },
	};

	if ((errno = ibv_post_send(self->e.pair.qp[0], &wr, &bad)))
		fail_case("post a request");
}

static void receive(FIXTURE_DATA(solicited) *self, const struct cause *c)
{
	struct ibv_sge sge = { self->e.there.iova, c->recv,
			       self->e.peer->lkey ^ (c->wrong_recv_lkey ? 0x55 : 0) };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if ((errno = ibv_post_recv(self->e.pair.qp[1], &wr, &bad)))
		fail_case("post a receive");
}

static void move(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	if ((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE)))
		fail_case("QP to state %d", state);
}

static void wait_for(struct ibv_cq *cq, struct ibv_wc *wc)
{
	for (double end = deadline(20); !ibv_poll_cq(cq, 1, wc);)
		if (now() > end)
			fail_case("no completion");
}

TEST_F(solicited, only_errors_and_solicited_completions_wake_the_sleeper)
{
	const struct cause *c = variant->cause;
	struct pair *p = &self->e.pair;
	struct ibv_wc wc = {};

	if (c->silent) {
		pair_connect_end(p, 0, IBV_MTU_1024, 0, 14);
		move(p->qp[1], IBV_QPS_RESET);
	}
	arm(self, c->end);
	if (c->recv)
		receive(self, c);
	if (c->flushed)
		move(p->qp[c->end], IBV_QPS_ERR);
	if (!(c->flushed && c->end))
		post(self, c, IBV_SEND_SIGNALED | (c->solicited ? IBV_SEND_SOLICITED : 0));

	if (c->status || c->solicited) {
		ASSERT_TRUE(woken(self, c->end, 5 * patience()));
		ASSERT_EQ(1, ibv_poll_cq(self->cq[c->end], 1, &wc));
	} else {
		wait_for(self->cq[c->end], &wc);
		ASSERT_FALSE(woken(self, c->end, 0.1));
	}
	ASSERT_EQ(c->status, wc.status);
}

TEST_HARNESS_MAIN
