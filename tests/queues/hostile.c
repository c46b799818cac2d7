// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: smp; devices: rxe */
/* runs: full; devices: connectx */
/*
 * Whatever a process writes into the mapped queues of its QP, at any time, breaks only this QP:
 * the kernel uses one checked copy of each work request.
 *
 * The queues lie in memory that any thread of the process can write.  The kernel moves the bytes
 * that the request says, or completes it with an error, and its own progress is not in the
 * queue.
 *
 * The last case writes random words into all queues, with and without sense, from a
 * second thread while they are in use.  There the kernel's checkers are the judge.
 */
#include "lib/depth.h"
#include "queues/ends.h"
#include "queues/mapped.h"
#include "lib/clock.h"
#include "lib/harness.h"
#include "lib/pattern.h"
#include "lib/random.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Of the last case; MRFD_ROUNDS of the environment sets another number. */
#define ROUNDS depth(200, 3000)

FIXTURE(queue)
{
	struct ends e;
	struct mapped send, recv;	/* of the first QP, of the second */
	struct ibv_mw *mw;
};

FIXTURE_SETUP(queue)
{
	struct mapped before[32], send[2], recv[2];
	int n;

	need("rxe-queues");
	ends_open(&self->e);
	self->e.pair.ctx = self->e.ctx;
	self->e.pair.cq = must(ibv_create_cq(self->e.ctx, 64, NULL, NULL, 0));
	for (int i = 0; i < 2; i++) {
		n = mapped_list(before, 32);
		pair_create_end(&self->e.pair, i, self->e.pd);
		mapped_new(before, n, &send[i], &recv[i]);
	}
	pair_connect(&self->e.pair, IBV_MTU_1024);
	self->send = send[0];
	self->recv = recv[1];
}

FIXTURE_TEARDOWN(queue)
{
	if (self->mw)
		EXPECT_EQ(0, ibv_dealloc_mw(self->mw));
	ends_close(&self->e);
}

/* A write of all of HERE to THERE, as the library would make it, in the next slot. */
static struct rxe_send_wqe *good_write(FIXTURE_DATA(queue) *self)
{
	struct rxe_send_wqe *wqe = mapped_slot(&self->send);

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr.opcode = IBV_WR_RDMA_WRITE;
	wqe->wr.send_flags = IBV_SEND_SIGNALED;
	wqe->wr.wr.rdma.remote_addr = self->e.there.iova;
	wqe->wr.wr.rdma.rkey = self->e.peer->rkey;
	wqe->iova = self->e.there.iova;
	wqe->dma.length = SIZE;
	wqe->dma.resid = SIZE;
	wqe->dma.num_sge = 1;
	wqe->dma.sge[0] = (struct rxe_sge){ self->e.here.iova, SIZE, self->e.mr->lkey };
	return wqe;
}

static enum ibv_wc_status does(FIXTURE_DATA(queue) *self)
{
	mapped_post(&self->send);
	ring(self->e.pair.qp[0]);
	return wait_wc(&self->e.pair, NULL);
}

static bool written(FIXTURE_DATA(queue) *self)
{
	return filled(self->e.there.cpu, SIZE, 1, "what was written");
}

TEST_F(queue, hand_written_wqe_is_executed)
{
	good_write(self);
	ASSERT_EQ(IBV_WC_SUCCESS, does(self));
	ASSERT_TRUE(written(self));
}

TEST_F(queue, progress_in_a_send_wqe_is_ignored)
{
	struct rxe_send_wqe *wqe = good_write(self);

	wqe->dma.cur_sge = 0x8000000;
	wqe->dma.sge_offset = 0x70000000;
	wqe->dma.resid = 1;
	wqe->state = 3;
	wqe->status = IBV_WC_GENERAL_ERR;
	wqe->mask = ~0;
	wqe->first_psn = wqe->last_psn = 0x123456;
	wqe->has_rd_atomic = 1;
	ASSERT_EQ(IBV_WC_SUCCESS, does(self));
	ASSERT_TRUE(written(self));
}

TEST_F(queue, send_of_too_many_sges_is_an_error)
{
	good_write(self)->dma.num_sge = 0x10000000;
	ASSERT_EQ(IBV_WC_LOC_QP_OP_ERR, does(self));
	ASSERT_TRUE(memory_untouched(&self->e.there));
}

TEST_F(queue, length_above_that_of_the_sges_is_an_error)
{
	good_write(self)->dma.length = SIZE + 1;
	ASSERT_EQ(IBV_WC_LOC_LEN_ERR, does(self));
	ASSERT_TRUE(memory_untouched(&self->e.there));
}

TEST_F(queue, length_without_sges_is_an_error)
{
	good_write(self)->dma.num_sge = 0;
	ASSERT_EQ(IBV_WC_LOC_LEN_ERR, does(self));
	ASSERT_TRUE(memory_untouched(&self->e.there));
}

TEST_F(queue, inline_data_above_the_maximum_is_an_error)
{
	struct rxe_send_wqe *wqe = good_write(self);

	wqe->wr.send_flags |= IBV_SEND_INLINE;
	wqe->dma.length = 1000;
	ASSERT_EQ(IBV_WC_LOC_LEN_ERR, does(self));
	ASSERT_TRUE(memory_untouched(&self->e.there));
}

TEST_F(queue, inline_data_is_sent_from_its_beginning)
{
	struct rxe_send_wqe *wqe = good_write(self);

	wqe->wr.send_flags |= IBV_SEND_INLINE;
	fill(wqe->dma.inline_data, 40, 9);
	wqe->dma.length = 40;
	wqe->dma.resid = 8000;
	wqe->dma.sge_offset = 4000;
	ASSERT_EQ(IBV_WC_SUCCESS, does(self));
	ASSERT_TRUE(filled(self->e.there.cpu, 40, 9, "inline data"));
	ASSERT_TRUE(memory_only_changed(&self->e.there, 0, 40));
}

TEST_F(queue, unknown_opcode_is_an_error)
{
	static const uint32_t opcodes[] = { 0x7fffffff, 0xffffffff, 0x1000, 0x21 };

	for (int i = 0; i < 4; i++) {
		good_write(self)->wr.opcode = opcodes[i];
		ASSERT_EQ(i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_LOC_QP_OP_ERR, does(self));
	}
	ASSERT_TRUE(memory_untouched(&self->e.there));
}

TEST_F(queue, fast_registration_wqe_is_an_error)
{
	struct rxe_send_wqe *wqe = good_write(self);

	wqe->wr.opcode = 0x20; /* IB_WR_REG_MR, with a pointer of the kernel */
	wqe->wr.wr.rdma.remote_addr = 0xffff888000000000;
	ASSERT_EQ(IBV_WC_LOC_QP_OP_ERR, does(self));
}

TEST_F(queue, inline_read_of_too_many_sges_is_an_error)
{
	struct rxe_send_wqe *wqe = good_write(self);

	wqe->wr.opcode = IBV_WR_RDMA_READ;
	wqe->wr.send_flags |= IBV_SEND_INLINE;
	wqe->dma.num_sge = 0x10000000;
	ASSERT_EQ(IBV_WC_LOC_QP_OP_ERR, does(self));
	ASSERT_TRUE(memory_untouched(&self->e.here));
}

TEST_F(queue, receive_of_too_many_sges_is_an_error)
{
	struct rxe_recv_wqe *wqe = mapped_slot(&self->recv);
	struct rxe_send_wqe *send = good_write(self);

	memset(wqe, 0, sizeof(*wqe));
	wqe->dma.num_sge = 0x10000000;
	wqe->dma.length = wqe->dma.resid = SIZE;
	mapped_post(&self->recv);
	send->wr.opcode = IBV_WR_SEND;
	ASSERT_NE(IBV_WC_SUCCESS, does(self));
	ASSERT_TRUE(memory_untouched(&self->e.there));
}

TEST_F(queue, progress_in_a_receive_wqe_is_ignored)
{
	struct rxe_recv_wqe *wqe = mapped_slot(&self->recv);

	memset(wqe, 0, sizeof(*wqe));
	wqe->dma.num_sge = 1;
	wqe->dma.cur_sge = 0x8000000;
	wqe->dma.sge_offset = 0x70000000;
	wqe->dma.length = 1;
	wqe->dma.resid = 0xffffffff;
	wqe->dma.sge[0] = (struct rxe_sge){ self->e.there.iova, SIZE, self->e.peer->lkey };
	mapped_post(&self->recv);
	good_write(self)->wr.opcode = IBV_WR_SEND;
	ASSERT_EQ(IBV_WC_SUCCESS, does(self));
	ASSERT_EQ(IBV_WC_SUCCESS, wait_wc(&self->e.pair, NULL));
	ASSERT_TRUE(written(self));
}

/* Whatever the index says, it stands for at most as many requests as the queue holds. */
TEST_F(queue, bogus_producer_index_stays_within_the_queue)
{
	struct ibv_wc wc;
	int n = 1;

	good_write(self);
	self->send.buf->producer_index = 0xdeadbeef;
	ring(self->e.pair.qp[0]);
	wait_wc(&self->e.pair, NULL);
	/* Nothing tells that no more will come. */
	for (double end = now() + 2; now() < end;)
		n += ibv_poll_cq(self->e.pair.cq, 1, &wc);
	ASSERT_GE(self->send.buf->index_mask, n);
}

/* Poll what there is. */
static void drain(struct pair *p)
{
	struct ibv_wc wc[16];

	while (ibv_poll_cq(p->cq, 16, wc) > 0)
		;
}

/* The peer has no receive, so the request stays under way until the QP is in the error state. */
TEST_F(queue, producer_index_moved_back_takes_no_request_back)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	unsigned long refused = device_counter("rcvd_rnr_err");
	struct rxe_send_wqe *wqe = good_write(self);
	struct ibv_wc wc;

	wqe->wr.opcode = IBV_WR_SEND;
	wqe->wr.wr_id = 5;
	mapped_post(&self->send);
	ring(self->e.pair.qp[0]);
	device_wait_for_counter("rcvd_rnr_err", refused + 1);
	self->send.buf->producer_index--;
	ASSERT_EQ(0, ibv_modify_qp(self->e.pair.qp[0], &attr, IBV_QP_STATE));
	ASSERT_EQ(IBV_WC_WR_FLUSH_ERR, wait_wc(&self->e.pair, &wc));
	ASSERT_EQ(5, wc.wr_id);

	/* The rest of the queue may count as posted; nothing of it belongs to a new connection. */
	pair_connect(&self->e.pair, IBV_MTU_1024);
	drain(&self->e.pair);
	good_write(self);
	ASSERT_EQ(IBV_WC_SUCCESS, does(self));
	ASSERT_TRUE(written(self));
}

/* Writes into the queues what may make sense to the kernel, and what may not. */
struct scribbler {
	atomic_bool over;
	struct mapped queue[2];
	uint64_t random;
	unsigned long words;
};

static void *scribble(void *arg)
{
	struct scribbler *s = arg;

	while (!s->over) {
		struct mapped *m = &s->queue[random_below(&s->random, 2)];
		size_t words = m->size / 4, head = offsetof(struct rxe_queue_buf, data) / 4;
		volatile uint32_t *word = (uint32_t *)m->buf;

		/* The indices rarely: what follows from them takes long. */
		if (random_below(&s->random, 1000))
			word[head + random_below(&s->random, words - head)] =
				random_odd_word(&s->random);
		else
			m->buf->producer_index = random_odd_word(&s->random);
		s->words++;
	}
	return NULL;
}

static const uint32_t opcodes[] = {
	IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
	IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, IBV_WR_SEND_WITH_INV, IBV_WR_FLUSH,
	IBV_WR_ATOMIC_WRITE,
};

/* A request of any kind: binds are of a window of type 1 to the whole MR. */
static void post_anything(FIXTURE_DATA(queue) *self, uint64_t *random)
{
	struct rxe_send_wqe *wqe = good_write(self);
	struct rxe_recv_wqe *recv = mapped_slot(&self->recv);

	wqe->wr.opcode = opcodes[random_below(random, 12)];
	if (wqe->wr.opcode == IBV_WR_BIND_MW) {
		wqe->wr.wr.mw.addr = self->e.there.iova;
		wqe->wr.wr.mw.length = SIZE;
		wqe->wr.wr.mw.mr_lkey = self->e.peer->lkey;
		wqe->wr.wr.mw.mw_rkey = self->mw->rkey;
		wqe->wr.wr.mw.rkey = self->mw->rkey;
		wqe->wr.wr.mw.access = REMOTE_WRITE;
	}
	if (!random_below(random, 4)) {
		wqe->wr.send_flags |= IBV_SEND_INLINE;
		wqe->dma.length = random_below(random, 64);
	}
	mapped_post(&self->send);

	recv->dma.num_sge = 1;
	recv->dma.sge[0] = (struct rxe_sge){ self->e.there.iova, SIZE, self->e.peer->lkey };
	mapped_post(&self->recv);
	ring(self->e.pair.qp[0]);
}

TEST_F_TIMEOUT(queue, random_writes_to_queues_break_no_other_qp, 300)
{
	struct scribbler s = { .queue = { self->send, self->recv } };
	uint64_t seed = random_seed(), random = random_begin(seed, 1);
	struct pair other = {};
	const char *longer = getenv("MRFD_ROUNDS");
	long rounds = 0, connected = 0;
	pthread_t thread;

	self->mw = window_alloc(self->e.pd, IBV_MW_TYPE_1);
	pair_open_in(&other, self->e.pd);
	s.random = random_begin(seed, 0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, scribble, &s));
	for (; rounds < (longer ? atol(longer) : ROUNDS); rounds++) {
		for (int i = 0; i < 8; i++)
			post_anything(self, &random);
		usleep(random_below(&random, 3000));
		drain(&self->e.pair);
		/* What is in the queues may end it at once. */
		connected += pair_try_connect(&self->e.pair, IBV_MTU_1024);
	}
	s.over = true;
	pthread_join(thread, NULL);
	TH_LOG("%ld rounds, %ld connected, %lu words", rounds, connected, s.words);
	ASSERT_LT(0, connected);

	/* A pair that has been there all the time works. */
	fill(self->e.here.cpu, SIZE, 77);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&other, IBV_WR_RDMA_WRITE, self->e.mr, self->e.here.iova,
					  SIZE, self->e.there.iova, self->e.peer->rkey));
	ASSERT_TRUE(filled(self->e.there.cpu, SIZE, 77, "what the other pair wrote"));
	pair_close(&other);
}

TEST_HARNESS_MAIN
