// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp gpu; devices: all */
/* runs: full debug-full; guest: gpu; devices: pinned */
/*
 * The GPU is unbound or removed from the PCI bus while its buffers are in use or being
 * registered: their keys are dead, their MRs can be deregistered or get other memory, and other
 * MRs do not notice.
 *
 * A peer and the owner use the buffers, and get an error.
 */
#include "leaving/two.h"
#include "lib/access.h"
#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/gpu.h"
#include "lib/gone.h"
#include "lib/harness.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { CALLS = 1, WITHOUT_GPU };	/* orders; CALLS is also what is done */

/* How requests end whose own memory is gone, or whose QP has an error for the other end. */
#define REQUESTER_GONE (RESPONDER_GONE | MAY(LOC_PROT_ERR) | MAY(LOC_QP_OP_ERR) | \
			MAY(WR_FLUSH_ERR))

FIXTURE(exporter)
{
	struct two two;
};

FIXTURE_VARIANT(exporter)
{
	int (*leave)(void);
};

FIXTURE_VARIANT_ADD(exporter, unbound) { .leave = gpu_unbind };
FIXTURE_VARIANT_ADD(exporter, removed) { .leave = gpu_leave_bus };

FIXTURE_SETUP(exporter)
{
	need("reg_mr_fd");
	need("rereg_mr_fd");
	ASSERT_TRUE(nothing_left());
	self->two.gpu_leaves = true;
}

FIXTURE_TEARDOWN(exporter)
{
	two_close(&self->two);
	EXPECT_EQ(0, gpu_come_back());
	EXPECT_TRUE(nothing_left());
}

static bool of_gpu(enum memory_kind kind)
{
	return kind == GPU_VRAM || kind == GPU_SYSTEM;
}

static enum ibv_wc_status write_to(struct pair *p, const struct ibv_mr *mr, const struct memory *m)
{
	struct memory host;
	struct ibv_mr *host_mr;
	enum ibv_wc_status status;

	memory_open(&host, HOST, LANE_SIZE);
	host_mr = memory_reg(&host, p->qp[0]->pd, RWA);
	fill(host.cpu, LANE_SIZE, 5);
	pair_connect(p, IBV_MTU_1024);
	status = rdma_op(p, IBV_WR_RDMA_WRITE, host_mr, host.iova, LANE_SIZE, m->iova, mr->rkey);
	mr_close(host_mr);
	memory_close(&host);
	return status;
}

/* Nothing new can be had of a buffer; its MR goes to other memory, and then works. */
static void mr_is_dead(struct end *e, struct pair *p, struct lane *l, const struct memory *other)
{
	fails_with(memory_reg_errno(&l->buf, e->pd), ENODEV, "reg");
	fails_with(memory_rereg(l->mr, TRANS, NULL, &l->buf, 0) ? errno : 0, ENODEV, "rereg");
	if (write_to(p, l->mr, &l->buf) != IBV_WC_REM_ACCESS_ERR)
		fail_case("a write by a dead key did not end with REM_ACCESS_ERR");
	if (memory_rereg(l->mr, TRANS, NULL, other, 0))
		fail_case("rereg onto other memory");
	memset(other->cpu, 0, LANE_SIZE);
	if (write_to(p, l->mr, other) || !filled(other->cpu, LANE_SIZE, 5, "other memory"))
		fail_case("a write to the MR on other memory failed");
}

static void loses_gpu(struct end *e, struct board *board, int sock)
{
	struct pair p = {};
	struct memory other;

	pair_open_in(&p, e->pd);
	memory_open(&other, VGEM, LANE_SIZE);
	for (struct lane *l = e->lane; l < e->lane + e->lanes; l++)
		if (of_gpu(l->buf.kind))
			mr_is_dead(e, &p, l, &other);
	pair_close(&p);
	end_close(e);
	memory_close(&other);
	end_close_memory(e);
}

/* A thread that registers a buffer, or reregisters between it and other memory, until ENODEV. */
struct caller {
	struct end *e;
	const struct memory *buf, *other;
	struct ibv_mr *mr;	/* of other; if NULL, the thread registers */
	volatile unsigned int rounds;
	volatile int refused;	/* 0 or the errno that ended it */
};

static void *keep_calling(void *arg)
{
	struct caller *c = arg;

	for (; !c->refused; c->rounds++) {
		if (!c->mr) {
			c->refused = memory_reg_errno(c->buf, c->e->pd);
		} else if (memory_rereg(c->mr, TRANS, NULL, c->buf, 0)) {
			c->refused = errno;
		} else if (memory_rereg(c->mr, TRANS, NULL, c->other, 0)) {
			fail_case("rereg onto memory that has not left");
		}
	}
	return NULL;
}

static void start_calls(struct end *e, struct memory *other, struct caller *c, pthread_t *thread)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < e->lanes; i++) {
		if (!of_gpu(e->lane[i].buf.kind))
			continue;
		for (int rereg = 0; rereg < 2; rereg++, n++) {
			c[n] = (struct caller){ .e = e, .buf = &e->lane[i].buf, .other = other };
			if (rereg)
				c[n].mr = memory_reg(other, e->pd, RWA);
			if (pthread_create(&thread[n], NULL, keep_calling, &c[n]))
				fail_case("create a thread");
		}
	}
}

#define CALLERS 4	/* two for each of the two buffers */

static void loses_gpu_amid_calls(struct end *e, struct board *board, int sock)
{
	struct caller c[CALLERS] = {};
	pthread_t thread[CALLERS];
	struct memory other;
	struct pair p = {};

	memory_open(&other, VGEM, LANE_SIZE);
	start_calls(e, &other, c, thread);
	while (board->order == CALLS) {
		bool all = true;

		end_turn(e);
		for (int i = 0; i < CALLERS; i++)
			all &= c[i].rounds > 3;
		board->done = all ? CALLS : 0;
	}
	pair_open_in(&p, e->pd);
	for (int i = 0; i < CALLERS; i++) {
		pthread_join(thread[i], NULL);
		fails_with(c[i].refused, ENODEV, c[i].mr ? "rereg" : "reg");
		if (c[i].mr && write_to(&p, c[i].mr, &other))
			fail_case("a write to the MR failed after a rereg with ENODEV");
		mr_close(c[i].mr);
	}
	pair_close(&p);
	memory_close(&other);
	end_close(e);
	end_close_memory(e);
}

static bool skip[MAX_LANES];

/* Wait until the lanes of the GPU are over at both ends, and check how they ended. */
static bool gpu_lanes_end(struct two *t)
{
	double end = deadline(20);
	bool well = true;

	for (unsigned int i = 0; i < nr_kinds; i++) {
		struct tally *owner = &t->board->tally[OWNER][i], *peer = &t->board->tally[PEER][i];

		if (!skip[i])
			continue;
		while (!(owner->over && peer->over) && now() < end) {
			two_run(t);
			usleep(1000);
		}
		well &= lane_ended(owner, "of the owner", REQUESTER_GONE) &&
			lane_ended(peer, "of the peer", RESPONDER_GONE);
	}
	return well;
}

/* Take the GPU away, and see who notices. */
static bool leaves(struct two *t, const FIXTURE_VARIANT(exporter) *variant)
{
	for (unsigned int i = 0; i < nr_kinds; i++)
		skip[i] = of_gpu(kinds[i]);
	errno = variant->leave();
	if (errno)
		fail_case("the GPU does not leave");
	if (!gpu_lanes_end(t))
		return false;
	two_go_on(t, skip);
	return true;
}

/* The owner looks at what it has left, and closes it; then the other lanes are over too. */
static bool ends_well(struct two *t)
{
	two_order(t, WITHOUT_GPU);
	return two_reap(t, OWNER, NULL) == 0 && two_reap(t, PEER, NULL) == 0 &&
	       two_peer_ended(t, RESPONDER_GONE);
}

TEST_F_TIMEOUT(exporter, only_mrs_of_the_gpu_fail_when_it_leaves, 120)
{
	two_start(&self->two, loses_gpu);
	ASSERT_TRUE(leaves(&self->two, variant));
	ASSERT_TRUE(ends_well(&self->two));
}

TEST_F_TIMEOUT(exporter, reg_and_rereg_get_enodev_when_the_gpu_leaves, 120)
{
	two_start(&self->two, loses_gpu_amid_calls);
	two_order(&self->two, CALLS);
	two_wait_for(&self->two, CALLS);
	ASSERT_TRUE(leaves(&self->two, variant));
	ASSERT_TRUE(ends_well(&self->two));
}

TEST_HARNESS_MAIN
