// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: smp; devices: rxe */
/* runs: quick debug-full; guest: smp; devices: connectx */
/*
 * A work request that fails reports why at both ends; what was posted before completes, and what
 * was posted after it is flushed.  Afterwards nothing is held, and a QP that is reset works
 * again.
 */
#include "lib/depth.h"
#include "queues/ends.h"
#include "lib/clock.h"
#include "lib/harness.h"
#include "lib/pattern.h"
#include "lib/random.h"
#include <pthread.h>
#include <stdatomic.h>


FIXTURE(error)
{
	struct ends e;
	struct ibv_cq *small;	/* has room for one completion */
};

FIXTURE_SETUP(error)
{
	ends_open(&self->e);
	pair_open_in(&self->e.pair, self->e.pd);
}

FIXTURE_TEARDOWN(error)
{
	pair_close(&self->e.pair);
	if (self->small)
		EXPECT_EQ(0, ibv_destroy_cq(self->small));
	ends_close(&self->e);
}

/* Post at the first end. */
static void post(FIXTURE_DATA(error) *self, uint64_t wr_id, enum ibv_wr_opcode opcode,
		 uint64_t addr, uint32_t length, uint32_t lkey)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .opcode = opcode, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = self->e.there.iova, .rkey = self->e.peer->rkey },
	};

	if ((errno = ibv_post_send(self->e.pair.qp[0], &wr, &bad)))
		fail_case("post a request");
}

/* The status of the next completion, which has to be of END. */
static enum ibv_wc_status next_of(FIXTURE_DATA(error) *self, int end, uint64_t *wr_id)
{
	struct ibv_wc wc = {};

	wait_wc(&self->e.pair, &wc);
	if (wc.qp_num != self->e.pair.qp[end]->qp_num)
		fail_case("the completion (%s) is of the other end",
			  ibv_wc_status_str(wc.status));
	*wr_id = wc.wr_id;
	return wc.status;
}

/* Three requests, two writes and a wrong one between them, which ends with this status. */
static void second_of_three_is(struct __test_metadata *_metadata, FIXTURE_DATA(error) *self,
			       enum ibv_wr_opcode opcode, uint64_t addr, uint32_t lkey,
			       enum ibv_wc_status status)
{
	uint64_t id;

	post(self, 1, IBV_WR_RDMA_WRITE, self->e.here.iova, SIZE, self->e.mr->lkey);
	post(self, 2, opcode, addr, PAGE, lkey);
	post(self, 3, IBV_WR_RDMA_WRITE, self->e.here.iova, PAGE, self->e.mr->lkey);
	ASSERT_EQ(IBV_WC_SUCCESS, next_of(self, 0, &id));
	ASSERT_EQ(1, id);
	ASSERT_EQ(status, next_of(self, 0, &id));
	ASSERT_EQ(2, id);
	ASSERT_EQ(IBV_WC_WR_FLUSH_ERR, next_of(self, 0, &id));
	ASSERT_EQ(3, id);
	ASSERT_TRUE(filled(self->e.there.cpu, SIZE, 1, "what the first wrote"));
}

TEST_F(error, write_with_wrong_lkey_fails_in_order)
{
	second_of_three_is(_metadata, self, IBV_WR_RDMA_WRITE, self->e.here.iova,
			   self->e.mr->lkey ^ 0x55, IBV_WC_LOC_PROT_ERR);
}

TEST_F(error, read_with_wrong_lkey_fails_in_order)
{
	second_of_three_is(_metadata, self, IBV_WR_RDMA_READ, self->e.here.iova,
			   self->e.mr->lkey ^ 0x55, IBV_WC_LOC_PROT_ERR);
}

TEST_F(error, write_from_outside_of_the_mr_fails_in_order)
{
	second_of_three_is(_metadata, self, IBV_WR_RDMA_WRITE, self->e.here.iova + SIZE - 1,
			   self->e.mr->lkey, IBV_WC_LOC_PROT_ERR);
}

/* The status of the next completion of each end. */
static void both_ends(FIXTURE_DATA(error) *self, enum ibv_wc_status status[2])
{
	struct ibv_wc wc;

	status[0] = status[1] = IBV_WC_GENERAL_ERR;
	for (int i = 0; i < 2; i++) {
		wait_wc(&self->e.pair, &wc);
		status[wc.qp_num == self->e.pair.qp[1]->qp_num] = wc.status;
	}
}

TEST_F(error, receive_with_wrong_lkey_fails_at_both_ends)
{
	enum ibv_wc_status status[2];
	struct ibv_sge sge = { self->e.there.iova, SIZE, self->e.peer->lkey ^ 0x55 };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	ASSERT_EQ(0, ibv_post_recv(self->e.pair.qp[1], &wr, &bad));
	post(self, 1, IBV_WR_SEND, self->e.here.iova, PAGE, self->e.mr->lkey);
	both_ends(self, status);
	ASSERT_EQ(IBV_WC_REM_OP_ERR, status[0]);
	ASSERT_EQ(IBV_WC_LOC_PROT_ERR, status[1]);
	ASSERT_TRUE(memory_untouched(&self->e.there));
}

TEST_F(error, too_long_message_fails_at_both_ends)
{
	enum ibv_wc_status status[2];

	post_recv(&self->e.pair, self->e.peer, self->e.there.iova, 100);
	post(self, 1, IBV_WR_SEND, self->e.here.iova, 101, self->e.mr->lkey);
	both_ends(self, status);
	ASSERT_EQ(IBV_WC_REM_INV_REQ_ERR, status[0]);
	ASSERT_EQ(IBV_WC_LOC_LEN_ERR, status[1]);
	ASSERT_TRUE(memory_untouched(&self->e.there));
}

/* The receiving end is made anew, with a CQ that one completion fills. */
static void receive_into_a_small_cq(FIXTURE_DATA(error) *self)
{
	struct ibv_cq *all = self->e.pair.cq;

	if (ibv_destroy_qp(self->e.pair.qp[1]))
		fail_case("destroy a QP");
	self->small = must(ibv_create_cq(self->e.ctx, 1, NULL, NULL, 0));
	self->e.pair.cq = self->small;
	self->e.pair.qp[1] = NULL;
	pair_create_end(&self->e.pair, 1, self->e.pd);
	self->e.pair.cq = all;
	pair_connect(&self->e.pair, IBV_MTU_1024);
}

TEST_F(error, full_cq_does_not_block_dereg)
{
	struct ibv_recv_wr *bad, wr = {};
	struct ibv_async_event event;
	double began;

	receive_into_a_small_cq(self);
	for (int i = 0; i < self->small->cqe + 2; i++) {
		ASSERT_EQ(0, ibv_post_recv(self->e.pair.qp[1], &wr, &bad));
		post(self, i, IBV_WR_RDMA_WRITE_WITH_IMM, self->e.here.iova, PAGE, self->e.mr->lkey);
	}
	/* The last ones get no answer, so only this tells that one has found the CQ full. */
	do {
		ASSERT_EQ(0, ibv_get_async_event(self->e.ctx, &event));
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_CQ_ERR);
	began = now();
	ASSERT_EQ(0, ibv_dereg_mr(self->e.peer));
	self->e.peer = NULL;
	ASSERT_GT(10 * patience(), now() - began);
}

/* A QP that has refused an atomic in the middle, reset, and connected again. */
TEST_F(error, qp_receives_after_refused_atomic_and_reset)
{
	need("atomics");
	for (int i = 0; i < 3; i++) {
		ASSERT_NE(IBV_WC_SUCCESS, fetch_add_unchecked(&self->e.pair, self->e.mr,
							      self->e.there.iova + 1,
							      self->e.peer->rkey));
		pair_connect(&self->e.pair, IBV_MTU_1024);
		post_recv(&self->e.pair, self->e.peer, self->e.there.iova, SIZE);
		ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->e.pair, IBV_WR_SEND, self->e.mr,
						  self->e.here.iova, SIZE, 0, 0));
		ASSERT_TRUE(filled(self->e.there.cpu, SIZE, 1, "what was received"));
	}
}

static atomic_bool over;
static atomic_long changes;

static void *set_resources(void *arg)
{
	struct ibv_qp *qp = arg;

	for (int i = 0; !over; i++) {
		struct ibv_qp_attr attr = { .max_dest_rd_atomic = i % 2 ? 8 : 16 };

		if (ibv_modify_qp(qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC))
			fail_case("change max_dest_rd_atomic");
		changes++;
	}
	return NULL;
}

TEST_F(error, reads_succeed_while_max_dest_rd_atomic_changes)
{
	struct ibv_qp_attr sqd = { .qp_state = IBV_QPS_SQD };
	pthread_t thread[2];
	long rounds = 0;

	need("sqd");
	ASSERT_EQ(0, ibv_modify_qp(self->e.pair.qp[1], &sqd, IBV_QP_STATE));
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, set_resources, self->e.pair.qp[1]));
	for (; rounds < depth(50, 500) || changes < depth(50, 500); rounds++) {
		memset(self->e.here.cpu, 0, SIZE);
		ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->e.pair, IBV_WR_RDMA_READ, self->e.mr,
						  self->e.here.iova, SIZE, self->e.there.iova,
						  self->e.peer->rkey));
		ASSERT_TRUE(filled(self->e.here.cpu, SIZE, 2, "what was read"));
	}
	over = true;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	TH_LOG("%ld reads, %ld changes", rounds, changes);
}

static atomic_long under_way, met, resets;

static void *reset(void *arg)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	for (; met < depth(1000, 10000); resets++) {
		met += under_way++ > 0;
		if (ibv_modify_qp(arg, &attr, IBV_QP_STATE))
			fail_case("QP to RESET");
		under_way--;
	}
	return NULL;
}

TEST_F(error, qp_works_after_concurrent_resets)
{
	pthread_t thread[3];

	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, reset, self->e.pair.qp[0]));
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	TH_LOG("%ld of %ld resets began during another", met, resets);
	pair_connect(&self->e.pair, IBV_MTU_1024);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->e.pair, IBV_WR_RDMA_WRITE, self->e.mr,
					  self->e.here.iova, SIZE, self->e.there.iova,
					  self->e.peer->rkey));
	ASSERT_TRUE(filled(self->e.there.cpu, SIZE, 1, "what was written"));
}

TEST_F(error, max_dest_rd_atomic_above_the_limit_is_einval)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };
	struct ibv_device_attr limits;

	need("sqd");
	ASSERT_EQ(0, ibv_query_device(self->e.ctx, &limits));
	ASSERT_EQ(0, ibv_modify_qp(self->e.pair.qp[1], &attr, IBV_QP_STATE));
	ASSERT_GT(255, limits.max_qp_rd_atom);
	attr.max_dest_rd_atomic = limits.max_qp_rd_atom + 1;
	ASSERT_EQ(EINVAL, ibv_modify_qp(self->e.pair.qp[1], &attr, IBV_QP_MAX_DEST_RD_ATOMIC));
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->e.pair, IBV_WR_RDMA_READ, self->e.mr,
					  self->e.here.iova, SIZE, self->e.there.iova,
					  self->e.peer->rkey));
}

/* With a peer that is silent, the largest number of retries ends too. */
TEST_F(error, retry_count_7_does_not_retry_forever)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	uint64_t id;

	pair_connect_end(&self->e.pair, 0, IBV_MTU_1024, 0, 14);
	ASSERT_EQ(0, ibv_modify_qp(self->e.pair.qp[1], &attr, IBV_QP_STATE));
	post(self, 1, IBV_WR_RDMA_WRITE, self->e.here.iova, SIZE, self->e.mr->lkey);
	ASSERT_EQ(IBV_WC_RETRY_EXC_ERR, next_of(self, 0, &id));
}

/* To SQD, and wait until the send queue is drained: before that there is no way back to RTS. */
static void drain(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };
	struct ibv_qp_init_attr init;

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		fail_case("QP to SQD");
	do {
		if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init))
			fail_case("query a QP");
	} while (attr.sq_draining);
}

/* None may be outstanding, so there is nothing to wait for. */
TEST_F(error, read_with_max_rd_atomic_0_fails)
{
	struct ibv_qp_attr attr = {};

	need("sqd");
	drain(self->e.pair.qp[0]);
	ASSERT_EQ(0, ibv_modify_qp(self->e.pair.qp[0], &attr, IBV_QP_MAX_QP_RD_ATOMIC));
	attr.qp_state = IBV_QPS_RTS;
	ASSERT_EQ(0, ibv_modify_qp(self->e.pair.qp[0], &attr, IBV_QP_STATE));
	second_of_three_is(_metadata, self, IBV_WR_RDMA_READ, self->e.here.iova,
			   self->e.mr->lkey, IBV_WC_LOC_QP_OP_ERR);
}

TEST_F(error, send_to_a_never_ready_receiver_fails)
{
	uint64_t id;

	self->e.pair.gives_up = true;
	pair_connect(&self->e.pair, IBV_MTU_1024);
	post(self, 1, IBV_WR_SEND, self->e.here.iova, PAGE, self->e.mr->lkey);
	post(self, 2, IBV_WR_SEND, self->e.here.iova, PAGE, self->e.mr->lkey);
	ASSERT_EQ(IBV_WC_RNR_RETRY_EXC_ERR, next_of(self, 0, &id));
	ASSERT_EQ(1, id);
	ASSERT_EQ(IBV_WC_WR_FLUSH_ERR, next_of(self, 0, &id));
	ASSERT_EQ(2, id);
}

TEST_F(error, receive_posted_late_gets_the_message)
{
	enum ibv_wc_status status[2];

	post(self, 1, IBV_WR_SEND, self->e.here.iova, PAGE, self->e.mr->lkey);
	usleep(20000);	/* tens of tries: the receiver asks for 0.6 ms between them */
	ASSERT_EQ(0, ibv_poll_cq(self->e.pair.cq, 1, &(struct ibv_wc){}));
	post_recv(&self->e.pair, self->e.peer, self->e.there.iova, PAGE);
	both_ends(self, status);
	ASSERT_EQ(IBV_WC_SUCCESS, status[0]);
	ASSERT_EQ(IBV_WC_SUCCESS, status[1]);
	ASSERT_TRUE(filled(self->e.there.cpu, PAGE, 1, "what was sent"));
}

/*
 * What was posted before a reset is gone with it, also what was sent and not answered.
 * The peer takes no writes: not even an empty one may be left of them.
 */
TEST_F(error, requests_before_a_reset_are_not_sent_after_it)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET }, no_access = {};
	struct ibv_wc wc;

	ASSERT_EQ(0, ibv_modify_qp(self->e.pair.qp[1], &reset, IBV_QP_STATE));
	for (int i = 0; i < 3; i++)
		post(self, 100 + i, IBV_WR_RDMA_WRITE, self->e.here.iova, SIZE,
		     self->e.mr->lkey);
	usleep(100000); /* the requester sends, and waits */
	pair_connect(&self->e.pair, IBV_MTU_1024);
	ASSERT_EQ(0, ibv_modify_qp(self->e.pair.qp[1], &no_access, IBV_QP_ACCESS_FLAGS));
	post_recv(&self->e.pair, self->e.peer, self->e.there.iova, PAGE);
	post(self, 1, IBV_WR_SEND, self->e.here.iova, PAGE, self->e.mr->lkey);
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(IBV_WC_SUCCESS, wait_wc(&self->e.pair, &wc));
	usleep(100000);
	ASSERT_EQ(0, ibv_poll_cq(self->e.pair.cq, 1, &wc));
	ASSERT_TRUE(memory_only_changed(&self->e.there, 0, PAGE));
	ASSERT_TRUE(filled(self->e.there.cpu, PAGE, 1, "what was sent"));
}

#define MESSAGE 1024	/* bytes: a packet */
#define WINDOW 16	/* messages under way, at most */

struct ender {
	struct ibv_qp *qp;
	const uint8_t *message;	/* the end comes when it has arrived */
	atomic_bool ended;
};

static bool is_empty(const uint8_t *message)
{
	return !message[0] && !memcmp(message, message + 1, MESSAGE - 1);
}

static void *end_it(void *arg)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ender *e = arg;

	while (is_empty(e->message))
		atomic_signal_fence(memory_order_seq_cst);	/* the device writes it */
	if (ibv_modify_qp(e->qp, &attr, IBV_QP_STATE))
		fail_case("QP to ERR");
	e->ended = true;
	return NULL;
}

/*
 * Wait for the completion of each of N receives: until then the device may still write into
 * the buffers, also after the modify to ERR has returned.
 */
static void wait_for_receives(FIXTURE_DATA(error) *self, int n)
{
	struct ibv_wc wc;

	while (n) {
		wait_wc(&self->e.pair, &wc);
		n -= wc.qp_num == self->e.pair.qp[1]->qp_num;
	}
}

/*
 * Message I belongs into receive buffer I.  A packet that is executed twice fills the
 * buffer after its own, too.  The end of a round comes when a message in the middle has arrived;
 * no more than a window of them are under way, so that some are left to send.  The rounds go on
 * until the end came before the last message a few times; a small window makes that likely.
 */
TEST_F_TIMEOUT(error, no_packet_is_executed_twice_when_qp_goes_to_err, 120)
{
	uint64_t random = random_begin(random_seed(), 0);
	struct ender e = { .qp = self->e.pair.qp[1] };
	int between = 0, rounds = 0;

	for (; between < depth(4, 50); rounds++) {
		struct ibv_wc wc;
		pthread_t thread;
		int arrived = 0, window = 1 + random_below(&random, WINDOW);

		pair_connect(&self->e.pair, IBV_MTU_1024);
		while (ibv_poll_cq(self->e.pair.cq, 1, &wc) > 0)
			;
		memset(self->e.there.cpu, 0, SIZE);
		for (int i = 0; i < SIZE / MESSAGE; i++)
			post_recv(&self->e.pair, self->e.peer, self->e.there.iova + i * MESSAGE,
				  MESSAGE);
		e.message = self->e.there.cpu + random_below(&random, SIZE / MESSAGE / 2) * MESSAGE;
		e.ended = false;
		ASSERT_EQ(0, pthread_create(&thread, NULL, end_it, &e));
		for (int i = 0; i < SIZE / MESSAGE; i++) {
			while (i >= window && !e.ended &&
			       is_empty(self->e.there.cpu + (i - window) * MESSAGE))
				;
			post(self, i, IBV_WR_SEND, self->e.here.iova + i * MESSAGE, MESSAGE,
			     self->e.mr->lkey);
		}
		pthread_join(thread, NULL);
		wait_for_receives(self, SIZE / MESSAGE);
		for (int i = 0; i < SIZE / MESSAGE; i++) {
			uint8_t *there = self->e.there.cpu + i * MESSAGE;

			if (is_empty(there))
				continue;
			arrived++;
			ASSERT_EQ(0, memcmp(there, self->e.here.cpu + i * MESSAGE, MESSAGE));
		}
		between += arrived < SIZE / MESSAGE;
	}
	TH_LOG("%d of %d rounds ended in the middle", between, rounds);
}

TEST_HARNESS_MAIN
