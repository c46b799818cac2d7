// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full kcsan; guest: smp; devices: rxe */
/* runs: quick debug-full; guest: smp; devices: connectx */
/*
 * A memory window gives access to its part of an MR and no more.  Only its PD can bind it, and
 * only its QP can invalidate it.  A bind and a dereg of the MR never both succeed.
 *
 * A window can be bound only to an MR of its own PD, and invalidated only by the QP that it
 * belongs to.  It ends at its own edges, not at those of the MR.  A refused bind or invalidate
 * puts the QP into the error state.  A QP that a window belongs to cannot be destroyed.
 */
#include "lib/clock.h"
#include "lib/depth.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/told.h"
#include "lib/window.h"
#include <pthread.h>
#include <sys/wait.h>

#define SIZE (16 * PAGE)

FIXTURE(mw)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd[2];
	struct memory at, local;
	struct ibv_mr *mr;	/* of AT, in pd[0], allows windows */
	struct ibv_mr *foreign;	/* the same in pd[1] */
	struct ibv_mr *local_mr;
	struct pair pair;	/* both QPs in pd[0]; windows belong to the second */
	uint64_t iova;
};

FIXTURE_VARIANT(mw)
{
	enum memory_kind kind;
};

FIXTURE_VARIANT_ADD(mw, on_host_memory) { .kind = HOST };
FIXTURE_VARIANT_ADD(mw, on_on_demand_memory) { .kind = ON_DEMAND };
FIXTURE_VARIANT_ADD(mw, on_vgem) { .kind = VGEM };

FIXTURE_SETUP(mw)
{
	self->ctx = device_open();
	for (int i = 0; i < 2; i++)
		self->pd[i] = must(ibv_alloc_pd(self->ctx));
	memory_open_filled(&self->at, variant->kind, SIZE, 1);
	memory_open_filled(&self->local, HOST, SIZE, 2);
	self->mr = memory_reg(&self->at, self->pd[0], ALL_ACCESS);
	self->foreign = memory_reg(&self->at, self->pd[1], ALL_ACCESS);
	self->local_mr = memory_reg(&self->local, self->pd[0], ALL_ACCESS);
	self->iova = self->at.iova;
	pair_open_in(&self->pair, self->pd[0]);
}

FIXTURE_TEARDOWN(mw)
{
	pair_close(&self->pair);
	mr_close(self->mr);
	mr_close(self->foreign);
	mr_close(self->local_mr);
	for (int i = 0; i < 2; i++)
		pd_close(self->pd[i]);
	memory_close(&self->at);
	memory_close(&self->local);
	device_close(self->ctx);
}

/* A refusal has put the QPs into the error state; go on with new ones. */
static void new_pair(FIXTURE_DATA(mw) *self)
{
	pair_close(&self->pair);
	pair_open_in(&self->pair, self->pd[0]);
}

/* Bind to the MR that has this lkey; the library does not check it. */
static enum ibv_wc_status bind(FIXTURE_DATA(mw) *self, struct ibv_mw *mw, uint32_t lkey,
			       uint64_t addr, uint64_t length, int access)
{
	return window_bind(&self->pair, mw, lkey, addr, length, access);
}

static enum ibv_wc_status invalidate(FIXTURE_DATA(mw) *self, int qp, uint32_t rkey)
{
	return window_invalidate(&self->pair, qp, rkey);
}

static enum ibv_wc_status send_with_inv(FIXTURE_DATA(mw) *self, uint32_t rkey)
{
	return window_invalidate_remotely(&self->pair, rkey);
}

/*
 * After work that must be refused, which puts the QPs into the error state: go on with new
 * ones.  A device that does not check has done it, and has to refuse what comes of it.
 */
static void refused(FIXTURE_DATA(mw) *self, enum ibv_wc_status status)
{
	errno = 0;
	if (status != IBV_WC_SUCCESS)
		new_pair(self);
	else if (device_can("window-checks"))
		fail_case("work that must be refused succeeded");
}

static enum ibv_wc_status peer(FIXTURE_DATA(mw) *self, enum ibv_wr_opcode opcode, uint64_t addr,
			       uint32_t n, uint32_t rkey)
{
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return atomic_op(&self->pair, opcode, self->local_mr, addr, rkey, 1, 0);
	return rdma_op(&self->pair, opcode, self->local_mr, self->local.iova, n, addr,
		       rkey);
}

TEST_F(mw, window_on_lkey_of_another_pd_gives_no_access)
{
	static const enum ibv_mw_type types[] = { IBV_MW_TYPE_1, IBV_MW_TYPE_2 };

	memory_mark(&self->at);
	for (int i = 0; i < 2; i++) {
		struct ibv_mw *mw = window_alloc(self->pd[0], types[i]);

		refused(self, bind(self, mw, self->foreign->lkey, self->iova, PAGE, WINDOW_ACCESS));
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
			  peer(self, IBV_WR_RDMA_WRITE, self->iova, 100, mw->rkey));
		EXPECT_TRUE(memory_untouched(&self->at));
		EXPECT_EQ(0, ibv_dealloc_mw(mw));
		new_pair(self);
	}
}

TEST_F(mw, bind_of_window_of_another_pd_fails)
{
	static const enum ibv_mw_type types[] = { IBV_MW_TYPE_1, IBV_MW_TYPE_2 };

	for (int i = 0; i < 2; i++) {
		struct ibv_mw *mw = window_alloc(self->pd[1], types[i]);

		EXPECT_NE(IBV_WC_SUCCESS, bind(self, mw, self->mr->lkey, self->iova, PAGE,
					       WINDOW_ACCESS));
		new_pair(self);
		EXPECT_NE(IBV_WC_SUCCESS, bind(self, mw, self->foreign->lkey, self->iova, PAGE,
					       WINDOW_ACCESS));
		EXPECT_EQ(0, ibv_dealloc_mw(mw));
		new_pair(self);
	}
}

/* A process with an MR.  It writes lkey and address to SAY, and ends after a byte from HEAR. */
static pid_t other_process(int say, int hear)
{
	pid_t pid = fork();
	struct ibv_context *ctx;
	struct ibv_mr *mr;
	uint8_t *secret;
	uint64_t told[2];
	bool same = true;
	char c;

	if (pid)
		return pid;
	ctx = device_open();
	secret = must(aligned_alloc(PAGE, PAGE));
	memset(secret, 0x5a, PAGE);
	mr = must(ibv_reg_mr(must(ibv_alloc_pd(ctx)), secret, PAGE, ALL_ACCESS));
	told[0] = mr->lkey;
	told[1] = (uintptr_t)secret;
	if (write(say, told, sizeof(told)) != sizeof(told) || read(hear, &c, 1) != 1)
		_exit(2);
	for (int i = 0; i < PAGE; i++)
		same &= secret[i] == 0x5a;
	_exit(same ? 0 : 1);
}

TEST_F(mw, window_on_lkey_of_another_process_gives_no_access)
{
	int out[2], in[2], status;
	uint64_t told[2];
	pid_t pid;

	ASSERT_EQ(0, pipe(out) || pipe(in));
	pid = other_process(out[1], in[0]);
	ASSERT_EQ(sizeof(told), read(out[0], told, sizeof(told)));
	for (int type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		struct ibv_mw *mw = window_alloc(self->pd[0], type);

		refused(self, bind(self, mw, told[0], told[1], PAGE, WINDOW_ACCESS));
		memset(self->local.cpu, 0, SIZE);
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
			  peer(self, IBV_WR_RDMA_READ, told[1], 100, mw->rkey));
		EXPECT_EQ(0, self->local.cpu[0]) {
			TH_LOG("the window read memory of the other process");
		}
		new_pair(self);
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
			  peer(self, IBV_WR_RDMA_WRITE, told[1], 100, mw->rkey));
		EXPECT_EQ(0, ibv_dealloc_mw(mw));
		new_pair(self);
	}
	ASSERT_EQ(1, write(in[1], "e", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status) { TH_LOG("memory of the other process was written"); }
}

TEST_F(mw, only_its_qp_invalidates_a_window)
{
	struct ibv_mw *mw = window_alloc(self->pd[0], IBV_MW_TYPE_2);
	struct pair own, others;

	/* Bound by the second QP of OWN. */
	ASSERT_EQ(IBV_WC_SUCCESS, bind(self, mw, self->mr->lkey, self->iova, PAGE, WINDOW_ACCESS));
	own = self->pair;
	pair_open_in(&others, self->pd[0]);
	self->pair = others;
	EXPECT_NE(IBV_WC_SUCCESS, invalidate(self, 0, mw->rkey));
	new_pair(self);
	EXPECT_NE(IBV_WC_SUCCESS, send_with_inv(self, mw->rkey));
	pair_close(&self->pair);
	self->pair = own;

	EXPECT_EQ(IBV_WC_SUCCESS, peer(self, IBV_WR_RDMA_WRITE, self->iova, 100, mw->rkey)) {
		TH_LOG("another QP has invalidated the window");
	}
	EXPECT_EQ(IBV_WC_SUCCESS, send_with_inv(self, mw->rkey));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, peer(self, IBV_WR_RDMA_WRITE, self->iova, 1, mw->rkey));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_F(mw, invalidating_an_unbound_window_is_refused)
{
	struct ibv_mw *mw = window_alloc(self->pd[0], IBV_MW_TYPE_2);

	refused(self, invalidate(self, 1, mw->rkey));
	EXPECT_NE(IBV_WC_SUCCESS, send_with_inv(self, mw->rkey));
	new_pair(self);
	/* The window can still be bound and used. */
	EXPECT_EQ(IBV_WC_SUCCESS, bind(self, mw, self->mr->lkey, self->iova, PAGE, WINDOW_ACCESS));
	EXPECT_EQ(IBV_WC_SUCCESS, peer(self, IBV_WR_RDMA_WRITE, self->iova, 8, mw->rkey));
	EXPECT_EQ(IBV_WC_SUCCESS, invalidate(self, 1, mw->rkey));
	refused(self, invalidate(self, 1, mw->rkey));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

static void unbind(FIXTURE_DATA(mw) *self, struct ibv_mw *mw, int way)
{
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = mw, .rkey = ibv_inc_rkey(mw->rkey) },
	};
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(self->pair.qp[1]);

	if (way == 0) {
		errno = ibv_bind_mw(self->pair.qp[1], mw, &bind);
	} else if (way == 1) {
		errno = ibv_post_send(self->pair.qp[1], &wr, &bad);
	} else {
		ibv_wr_start(qp);
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_bind_mw(qp, mw, wr.bind_mw.rkey, &wr.bind_mw.bind_info);
		errno = ibv_wr_complete(qp);
	}
	if (errno)
		fail_case("unbind a window");
}

/* By a bind of no bytes, in all ways to post it.  libibverbs permits that. */
TEST_F(mw, window_of_type_1_is_unbound_without_an_mr)
{
	need("window-type-1");
	for (int way = 0; way < 3; way++) {
		struct ibv_mw *mw = window_alloc(self->pd[0], IBV_MW_TYPE_1);
		struct ibv_mw_bind bind = {
			.bind_info = { self->mr, self->iova, PAGE, WINDOW_ACCESS },
			.send_flags = IBV_SEND_SIGNALED,
		};
		uint32_t rkey;

		ASSERT_EQ(0, ibv_bind_mw(self->pair.qp[1], mw, &bind));
		ASSERT_EQ(IBV_WC_SUCCESS, wait_wc(&self->pair, NULL));
		rkey = mw->rkey;
		ASSERT_EQ(IBV_WC_SUCCESS,
			  peer(self, IBV_WR_RDMA_WRITE, self->iova, 8, rkey));
		unbind(self, mw, way);
		ASSERT_EQ(IBV_WC_SUCCESS, wait_wc(&self->pair, NULL));
		ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
			  peer(self, IBV_WR_RDMA_WRITE, self->iova, 8, rkey));
		new_pair(self);
		ASSERT_EQ(0, ibv_dealloc_mw(mw));
	}
}

/* If the QP were destroyed, the window would keep a pointer to freed memory. */
TEST_F(mw, destroying_a_qp_with_a_window_is_ebusy)
{
	struct ibv_mw *mw;

	need("window-holds");
	mw = window_alloc(self->pd[0], IBV_MW_TYPE_2);
	for (int way = 0; way < 2; way++) {
		double began = now();

		ASSERT_EQ(IBV_WC_SUCCESS,
			  bind(self, mw, self->mr->lkey, self->iova, PAGE, WINDOW_ACCESS));
		EXPECT_EQ(EBUSY, ibv_destroy_qp(self->pair.qp[1]));
		EXPECT_EQ(IBV_WC_SUCCESS,
			  peer(self, IBV_WR_RDMA_WRITE, self->iova, 100, mw->rkey)) {
			TH_LOG("a write by the window failed after EBUSY");
		}
		/* After the binding has ended, in either way, the QP can be destroyed. */
		if (way) {
			EXPECT_EQ(0, ibv_dealloc_mw(mw));
		} else {
			EXPECT_EQ(IBV_WC_SUCCESS, invalidate(self, 1, mw->rkey));
		}
		new_pair(self);
		EXPECT_GT(10 * patience(), now() - began);
	}
}

/* The kernel releases the QP first, because the window was made before the QP. */
TEST_F(mw, exit_with_a_bound_window_does_not_hang)
{
	double began = now();
	int status;
	pid_t pid;

	need("window-type-2");
	pid = fork();
	if (!pid) {
		struct ibv_mw *mw;

		self->ctx = device_open();
		self->pd[0] = must(ibv_alloc_pd(self->ctx));
		mw = window_alloc(self->pd[0], IBV_MW_TYPE_2);
		self->mr = memory_reg(&self->at, self->pd[0], ALL_ACCESS);
		pair_open_in(&self->pair, self->pd[0]);
		_exit(bind(self, mw, self->mr->lkey, self->iova, PAGE, WINDOW_ACCESS));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_GT(10 * patience(), now() - began);
}

/*
 * Try each edge of a window from inside, and one byte outside.  The window covers the N
 * bytes at FROM of the MR; peers reach them at the address START.
 */
static void try_edges(struct __test_metadata *_metadata, FIXTURE_DATA(mw) *self, struct ibv_mw *mw,
		      size_t from, size_t n, uint64_t start)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	const struct { uint64_t at; uint32_t n; bool inside; } tries[] = {
		{ start, 1, true }, { start + n - 1, 1, true }, { start, n, true },
		{ start + 1, n - 1, true }, { start - 1, 1, false }, { start - 1, 2, false },
		{ start + n, 1, false }, { start + n - 1, 2, false }, { start, n + 1, false },
		{ start - 1, n, false }, { start + n - 1500, 1501, false },
		{ start - 1500, 1500, false }, { start + n, 1500, false },
		{ start - n, 3 * n, false },
	};

	for (int i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		for (int o = 0; o < 2; o++) {
			enum ibv_wc_status wanted =
				tries[i].inside ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;

			/* The other end has SIZE bytes. */
			if (tries[i].n > SIZE)
				continue;
			memory_mark(&self->at);
			EXPECT_EQ(wanted, peer(self, opcodes[o], tries[i].at, tries[i].n,
					       mw->rkey)) {
				TH_LOG("%s of %u bytes at %#llx of a window of %zu at %#llx",
				       o ? "read" : "write", tries[i].n,
				       (unsigned long long)tries[i].at, n,
				       (unsigned long long)start);
			}
			EXPECT_TRUE(memory_only_changed(&self->at, from, n));
			if (!tries[i].inside) {
				EXPECT_TRUE(memory_untouched(&self->at));
				new_pair(self);
			}
		}
	}
}

TEST_F_TIMEOUT(mw, window_ends_at_its_edges, 60)
{
	struct ibv_mw *mw;
	size_t from = PAGE + 8, n = 5000;

	need("atomics");
	mw = window_alloc(self->pd[0], IBV_MW_TYPE_1);
	/* Type 1 belongs to the PD, so it outlives the QPs that are refused. */
	ASSERT_EQ(IBV_WC_SUCCESS, bind(self, mw, self->mr->lkey, self->iova + from, n,
				       WINDOW_ACCESS));
	try_edges(_metadata, self, mw, from, n, self->iova + from);
	EXPECT_EQ(IBV_WC_SUCCESS,
		  peer(self, IBV_WR_ATOMIC_FETCH_AND_ADD, self->iova + from, 8, mw->rkey));
	EXPECT_EQ(IBV_WC_SUCCESS,
		  peer(self, IBV_WR_ATOMIC_FETCH_AND_ADD, self->iova + from + n - 8, 8, mw->rkey));
	memory_mark(&self->at);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  peer(self, IBV_WR_ATOMIC_FETCH_AND_ADD, self->iova + from - 8, 8, mw->rkey));
	new_pair(self);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  peer(self, IBV_WR_ATOMIC_FETCH_AND_ADD, self->iova + from + n, 8, mw->rkey));
	new_pair(self);
	if (device_can("atomic-write"))
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
			  atomic_write(&self->pair, self->iova + from + n, mw->rkey, 1));
	EXPECT_TRUE(memory_untouched(&self->at));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

/* How many events since the last call tell of a refused access to the second QP. */
static int access_events(FIXTURE_DATA(mw) *self)
{
	struct ibv_async_event event;
	int n = 0;

	while (!ibv_get_async_event(self->ctx, &event)) {
		n += event.event_type == IBV_EVENT_QP_ACCESS_ERR &&
		     event.element.qp == self->pair.qp[1];
		ibv_ack_async_event(&event);
	}
	return n;
}

/* A request with immediate data has a receive, whose completion tells of the refusal. */
TEST_F(mw, refused_access_without_a_receive_raises_one_event)
{
	uint64_t behind = self->iova + PAGE;
	struct ibv_mw *mw;

	need("access-events");
	told_begin(self->ctx);
	mw = window_alloc(self->pd[0], IBV_MW_TYPE_1);
	ASSERT_EQ(IBV_WC_SUCCESS,
		  bind(self, mw, self->mr->lkey, self->iova, PAGE, WINDOW_ACCESS));
	const struct { enum ibv_wr_opcode opcode; uint64_t at; uint32_t rkey; int events; } tries[] = {
		{ IBV_WR_RDMA_WRITE, behind, mw->rkey, 1 },
		{ IBV_WR_RDMA_READ, behind, mw->rkey, 1 },
		{ IBV_WR_RDMA_WRITE, self->iova, mw->rkey + 1, 1 },
		{ IBV_WR_RDMA_WRITE, self->iova + SIZE, self->mr->rkey, 1 },
		{ IBV_WR_RDMA_WRITE, self->iova, self->mr->rkey + 1, 1 },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, behind, mw->rkey, 0 },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, self->iova + SIZE, self->mr->rkey, 0 },
	};

	for (int i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		if (!tries[i].events)
			post_recv(&self->pair, NULL, 0, 0);
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
			  peer(self, tries[i].opcode, tries[i].at, 8, tries[i].rkey));
		if (!tries[i].events)
			EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, wait_wc(&self->pair, NULL));
		EXPECT_EQ(tries[i].events, access_events(self)) {
			TH_LOG("events of try %d", i);
		}
		new_pair(self);
	}
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_F_TIMEOUT(mw, zero_based_window_ends_at_its_edges, 60)
{
	static const struct { uint64_t at; uint32_t n; bool inside; } tries[] = {
		{ 0, 1, true }, { 4999, 1, true }, { 0, 5000, true }, { 1, 4999, true },
		{ 5000, 1, false }, { 4999, 2, false }, { 0, 5001, false }, { -1, 1, false },
		{ -1, 2, false }, { -8, 16, false }, { 1, 5000, false },
	};
	size_t from = PAGE + 5;

	for (int i = 0; i < 2 * sizeof(tries) / sizeof(*tries); i++) {
		struct ibv_mw *mw = window_alloc(self->pd[0], IBV_MW_TYPE_2);
		enum ibv_wr_opcode opcode = i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
		bool inside = tries[i / 2].inside;

		ASSERT_EQ(IBV_WC_SUCCESS, bind(self, mw, self->mr->lkey, self->iova + from, 5000,
					       WINDOW_ACCESS | IBV_ACCESS_ZERO_BASED));
		memory_mark(&self->at);
		fill(self->local.cpu, SIZE, i);
		EXPECT_EQ(inside ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR,
			  peer(self, opcode, tries[i / 2].at, tries[i / 2].n, mw->rkey)) {
			TH_LOG("%s of %u bytes at %#llx of the window", i % 2 ? "read" : "write",
			       tries[i / 2].n, (unsigned long long)tries[i / 2].at);
		}
		EXPECT_TRUE(memory_only_changed(&self->at, inside ? from + tries[i / 2].at : 0,
						inside ? tries[i / 2].n : 0));
		if (inside && opcode == IBV_WR_RDMA_WRITE)
			EXPECT_TRUE(filled(self->at.cpu + from + tries[i / 2].at, tries[i / 2].n, i,
					   "by the window"));
		EXPECT_EQ(0, ibv_dealloc_mw(mw));
		new_pair(self);
	}
}

TEST_F(mw, window_has_only_the_rights_of_its_bind)
{
	struct ibv_mw *mw;

	need("atomics");
	mw = window_alloc(self->pd[0], IBV_MW_TYPE_1);
	ASSERT_EQ(IBV_WC_SUCCESS, bind(self, mw, self->mr->lkey, self->iova, PAGE,
				       REMOTE_READ));
	memory_mark(&self->at);
	EXPECT_EQ(IBV_WC_SUCCESS, peer(self, IBV_WR_RDMA_READ, self->iova, 8, mw->rkey));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, peer(self, IBV_WR_RDMA_WRITE, self->iova, 8, mw->rkey));
	new_pair(self);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  peer(self, IBV_WR_ATOMIC_FETCH_AND_ADD, self->iova, 8, mw->rkey));
	EXPECT_TRUE(memory_untouched(&self->at));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

struct race {
	pthread_barrier_t start;
	struct ibv_mr *mr;
	int refused;
	double longest;
};

static void *dereg_at_once(void *arg)
{
	struct race *race = arg;

	for (;;) {
		double began;

		pthread_barrier_wait(&race->start);
		if (!race->mr)
			return NULL;
		began = now();
		race->refused = ibv_dereg_mr(race->mr);
		if (now() - began > race->longest)
			race->longest = now() - began;
		pthread_barrier_wait(&race->start);
	}
}

/*
 * Either the bind comes first and the dereg is refused, or the dereg comes first and the
 * bind is refused; they never both succeed.  A dereg never waits for a window.
 */
TEST_F_TIMEOUT(mw, bind_and_dereg_never_both_succeed, 120)
{
	int first[2] = {}, rounds;
	struct race race = {};
	struct ibv_mw *mw;
	pthread_t thread;

	need("window-holds");
	mw = window_alloc(self->pd[0], IBV_MW_TYPE_1);
	pthread_barrier_init(&race.start, NULL, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, dereg_at_once, &race));
	/* One failure is enough: on the stock kernel a dereg waits in many rounds. */
	for (rounds = 0; !_metadata->exit_code &&
	     (rounds < depth(100, 1000) || !first[0] || !first[1]); rounds++) {
		enum ibv_wc_status status;

		race.mr = memory_reg(&self->at, self->pd[0], ALL_ACCESS);
		pthread_barrier_wait(&race.start);
		for (volatile int spin = 0; spin < rounds % 64 * 500; spin++)
			;
		status = bind(self, mw, race.mr->lkey, self->iova, PAGE, WINDOW_ACCESS);
		pthread_barrier_wait(&race.start);
		EXPECT_GT(5 * patience(), race.longest);
		EXPECT_NE(status == IBV_WC_SUCCESS, race.refused == 0) {
			TH_LOG("bind: %s, dereg: errno %d", ibv_wc_status_str(status), race.refused);
		}
		first[status == IBV_WC_SUCCESS]++;
		if (status == IBV_WC_SUCCESS) {
			ASSERT_EQ(IBV_WC_SUCCESS, bind(self, mw, 0, 0, 0, 0));
			if (race.refused)
				ASSERT_EQ(0, ibv_dereg_mr(race.mr));
		} else {
			new_pair(self);
		}
	}
	race.mr = NULL;
	pthread_barrier_wait(&race.start);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
	TH_LOG("%d rounds, the bind was first in %d, the longest dereg took %.3f s", rounds,
	       first[1], race.longest);
}

TEST_HARNESS_MAIN
