// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: smp; devices: rxe */
/* runs: quick debug-full; guest: smp; devices: connectx */
/*
 * A process writes random words into the queues, doorbell records and doorbells of mlx5 while
 * they are in use.  Another process, which moves and checks its bytes and registers memory,
 * notices nothing.
 *
 * The queues and records lie in memory that the process writes, and it rings by a page of the
 * device's registers, also for QPs and CQs that are not its own.  It may break only itself.
 *
 * What the writer posts goes by the library, which never reads a queue to do so.  The kernel
 * destroys its queues when it exits.
 */
#include "lib/depth.h"
#include "queues/ends.h"
#include "lib/harness.h"
#include "lib/pattern.h"
#include "lib/random.h"
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define WRITERS depth(3, 12)	/* MRFD_WRITERS of the environment sets another number */
#define ROUNDS 8	/* of a writer, each with new queues */
#define RECEIVES 63
#define DB_CQ 0x20	/* in the page: where a CQ is armed, where a QP is rung */
#define DB_QP 0x800

/* What the writers did, in memory that is shared with them. */
struct tally {
	atomic_ulong rounds, words, broken;
};

FIXTURE(scribble)
{
	struct ends e;
	struct tally *tally;
	uint32_t qpn, cqn;	/* of this process */
	uint64_t seed;
};

FIXTURE_SETUP(scribble)
{
	struct mlx5dv_cq cq;
	struct mlx5dv_obj obj = { .cq.out = &cq };

	need("mlx5-queues");
	self->tally = mmap(NULL, sizeof(*self->tally), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->tally);
	self->seed = random_seed();
	ends_open(&self->e);
	pair_open_in(&self->e.pair, self->e.pd);
	obj.cq.in = self->e.pair.cq;
	ASSERT_EQ(0, mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ));
	self->qpn = self->e.pair.qp[0]->qp_num;
	self->cqn = cq.cqn;
}

FIXTURE_TEARDOWN(scribble)
{
	ends_close(&self->e);
}

/* The queues of one round, and where they can be written. */
struct queues {
	struct ends *e;
	struct ibv_srq *srq;
	struct area {
		void *at;
		size_t bytes;
	} area[9];
	int areas;
	__be32 *send_record;
	char *page;		/* of doorbells */
	uint32_t cqn;
	uint64_t random;
	unsigned long words;
	atomic_bool over;
};

static void add_area(struct queues *q, void *at, size_t bytes)
{
	q->area[q->areas++] = (struct area){ at, bytes };
}

static void find_qp(struct queues *q, struct ibv_qp *from)
{
	struct mlx5dv_qp qp = {};
	struct mlx5dv_obj obj = { .qp = { from, &qp } };

	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP))
		fail_case("find the queues of a QP");
	add_area(q, qp.sq.buf, (size_t)qp.sq.wqe_cnt * qp.sq.stride);
	if (!from->srq)
		add_area(q, qp.rq.buf, (size_t)qp.rq.wqe_cnt * qp.rq.stride);
	add_area(q, qp.dbrec, 8);
	q->send_record = &qp.dbrec[MLX5_SND_DBR];
	q->page = (char *)((uintptr_t)qp.bf.reg & ~(PAGE - 1));
}

/* The area of the SRQ is a power of two of entries, one of them spare. */
static void find_shared(struct queues *q)
{
	struct mlx5dv_cq cq = {};
	struct mlx5dv_srq srq = {};
	struct mlx5dv_obj obj = { .cq = { q->e->pair.cq, &cq }, .srq = { q->srq, &srq } };

	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ))
		fail_case("find the queue of a CQ or an SRQ");
	add_area(q, cq.buf, (size_t)cq.cqe_cnt * cq.cqe_size);
	add_area(q, cq.dbrec, 8);
	add_area(q, srq.buf, (RECEIVES + 1) * (size_t)srq.stride);
	add_area(q, srq.dbrec, 8);
	q->cqn = cq.cqn;
}

/* Connected QPs, of which the second takes its receives from an SRQ. */
static void queues_open(struct queues *q)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = RECEIVES, .max_sge = 2 } };
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_send_sge = 2, .max_inline_data = 64 },
	};
	struct pair *p = &q->e->pair;
	struct ibv_sge sge = { q->e->there.iova, SIZE, q->e->peer->lkey };
	struct ibv_recv_wr *bad, receive = { .sg_list = &sge, .num_sge = 1 };

	*p = (struct pair){};
	q->srq = must(ibv_create_srq(q->e->pd, &srq_attr));
	for (int i = 0; i < RECEIVES; i++)
		if (ibv_post_srq_recv(q->srq, &receive, &bad))
			fail_case("post a receive");
	pair_create_end(p, 0, q->e->pd);
	attr.send_cq = attr.recv_cq = p->cq;
	attr.srq = q->srq;
	p->qp[1] = must(ibv_create_qp(q->e->pd, &attr));
	pair_connect(p, IBV_MTU_1024);
	find_shared(q);
	find_qp(q, p->qp[1]);
	find_qp(q, p->qp[0]);
}

static void *scribble(void *arg)
{
	struct queues *q = arg;

	while (!q->over) {
		const struct area *area = &q->area[random_below(&q->random, q->areas)];
		volatile uint32_t *word = area->at;

		/* The records rarely: with a wrong counter the rest is not looked at. */
		if (area->bytes > 8 || !random_below(&q->random, 100))
			word[random_below(&q->random, area->bytes / 4)] =
				random_odd_word(&q->random);
		q->words++;
	}
	return NULL;
}

static void ring_word(struct queues *q, size_t offset, uint32_t high, uint32_t low)
{
	*(volatile uint64_t *)(q->page + offset) = htobe64((uint64_t)high << 32 | low);
}

/* Ring for queues of its own, of QPN and CQN, and for whatever there may be. */
static void ring_anything(FIXTURE_DATA(scribble) *self, struct queues *q, uint64_t *random)
{
	uint32_t qpns[] = { q->e->pair.qp[0]->qp_num, q->e->pair.qp[0]->qp_num, self->qpn,
			    random_below(random, 1 << 24) };
	uint32_t cqns[] = { q->cqn, self->cqn, random_below(random, 1 << 24) };

	if (!random_below(random, 4))
		*(volatile __be32 *)q->send_record = htobe32(random_odd_word(random) & 0xffff);
	ring_word(q, DB_QP + 0x100 * random_below(random, 2), random_odd_word(random),
		  qpns[random_below(random, 4)] << 8 | random_below(random, 64));
	ring_word(q, DB_CQ, random_odd_word(random), cqns[random_below(random, 3)]);
	ring_word(q, random_below(random, PAGE / 8) * 8, random_odd_word(random),
		  random_odd_word(random));
}

static void post_anything(struct queues *q, uint64_t *random)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct ibv_sge sge = { q->e->here.iova, SIZE, q->e->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = opcodes[random_below(random, 4)], .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = q->e->there.iova;
		wr.wr.atomic.rkey = q->e->peer->rkey;
	} else {
		wr.wr.rdma.remote_addr = q->e->there.iova;
		wr.wr.rdma.rkey = q->e->peer->rkey;
	}
	if (ibv_post_send(q->e->pair.qp[0], &wr, &bad))
		fail_case("post send");
}

/* One round: a few requests, and doorbells, while the other thread writes. */
static void one_round(FIXTURE_DATA(scribble) *self, struct ends *e, uint64_t *random)
{
	struct queues q = { .e = e, .random = random_next(random) };
	struct ibv_qp_init_attr unused;
	struct ibv_qp_attr attr;
	pthread_t thread;

	queues_open(&q);
	if (pthread_create(&thread, NULL, scribble, &q))
		fail_case("create a thread");
	for (int i = 0; i < 12; i++) {
		post_anything(&q, random);
		ring_anything(self, &q, random);
		usleep(random_below(random, 2000));
	}
	q.over = true;
	pthread_join(thread, NULL);
	if (ibv_query_qp(e->pair.qp[0], &attr, IBV_QP_STATE, &unused))
		fail_case("query a QP");
	self->tally->broken += attr.qp_state == IBV_QPS_ERR;
	self->tally->words += q.words;
	self->tally->rounds++;
}

static pid_t start_writer(FIXTURE_DATA(scribble) *self, uint32_t number)
{
	uint64_t random = random_begin(self->seed, number);
	struct ends own;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		fail_case("fork");
	if (pid)
		return pid;
	memset(&own, 0, sizeof(own));
	ends_open(&own);
	for (int i = 0; i < ROUNDS; i++)
		one_round(self, &own, &random);
	_exit(0);
}

/* Bytes of this process there and back, by memory that is registered just now. */
static bool works(FIXTURE_DATA(scribble) *self, uint32_t seed)
{
	struct ends *e = &self->e;
	struct ibv_mr *mr = memory_reg(&e->here, e->pd, ALL_ACCESS);
	bool good;

	fill(e->here.cpu, SIZE, seed);
	good = !rdma_op(&e->pair, IBV_WR_RDMA_WRITE, mr, e->here.iova, SIZE, e->there.iova,
			e->peer->rkey) && filled(e->there.cpu, SIZE, seed, "written");
	memset(e->here.cpu, 0, SIZE);
	good = good && !rdma_op(&e->pair, IBV_WR_RDMA_READ, mr, e->here.iova, SIZE,
				e->there.iova, e->peer->rkey) &&
	       filled(e->here.cpu, SIZE, seed, "read back");
	mr_close(mr);
	return good;
}

TEST_F_TIMEOUT(scribble, random_writes_to_queues_break_no_other_process, 120)
{
	const char *longer = getenv("MRFD_WRITERS");
	const int wanted = longer ? atoi(longer) : WRITERS;
	pid_t writer = start_writer(self, 0);
	int writers = 1, status;
	uint32_t rounds;

	for (rounds = 0; writers <= wanted; rounds++) {
		ASSERT_TRUE(works(self, rounds));
		if (waitpid(writer, &status, WNOHANG) != writer)
			continue;
		ASSERT_EQ(0, status);
		writer = start_writer(self, writers++);
	}
	ASSERT_EQ(writer, waitpid(writer, &status, 0));
	ASSERT_EQ(0, status);
	TH_LOG("%u rounds here; %lu there, %lu ended in the error state, %lu words", rounds,
	       self->tally->rounds, self->tally->broken, self->tally->words);
	/* Otherwise the device has not looked at what was written. */
	ASSERT_LT(0, self->tally->broken);
	ASSERT_TRUE(works(self, rounds));
}

TEST_HARNESS_MAIN
