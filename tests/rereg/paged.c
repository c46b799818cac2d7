// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: smp; devices: rxe */
/* runs: quick debug-full; guest: smp; devices: connectx */
/*
 * A rereg of an MR for on-demand paging: new rights, another PD, other memory.  The MR pins
 * nothing before and after it, follows what happens to the memory that it has, and does not
 * touch the memory that it had.
 *
 * A rereg with new memory can also pin what was paged, and page what was pinned.  Without new
 * memory only some devices can; the others refuse it, and the MR is as it was.
 */
#include "lib/counts.h"
#include "lib/depth.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <pthread.h>
#include <sys/mman.h>

#define SIZE (16 * PAGE)
#define PAGED IBV_ACCESS_ON_DEMAND
#define KB (long)(SIZE / 1024)

FIXTURE(paged)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd[2];
	struct memory at, other, local;
	struct ibv_mr *mr, *local_mr;
	long pinned;		/* KiB, without an MR of AT or OTHER */
	int mrs;
};

FIXTURE_SETUP(paged)
{
	need("on-demand");
	self->ctx = device_open();
	for (int i = 0; i < 2; i++)
		self->pd[i] = must(ibv_alloc_pd(self->ctx));
	memory_open_filled(&self->at, ON_DEMAND, SIZE, 1);
	memory_open_filled(&self->other, ON_DEMAND, SIZE, 2);
	memory_open_filled(&self->local, HOST, SIZE, 3);
	self->local_mr = memory_reg(&self->local, self->pd[0], RW);
	self->pinned = pinned_kb();
	self->mr = memory_reg(&self->at, self->pd[0], RWA);
	self->mrs = mr_count();
}

FIXTURE_TEARDOWN(paged)
{
	mr_close(self->mr);
	mr_close(self->local_mr);
	for (int i = 0; i < 2; i++)
		pd_close(self->pd[i]);
	memory_close(&self->at);
	memory_close(&self->other);
	memory_close(&self->local);
	device_close(self->ctx);
	EXPECT_TRUE(nothing_left());
}

static enum ibv_wc_status op(FIXTURE_DATA(paged) *self, int pd, enum ibv_wr_opcode opcode,
			     uint64_t iova, size_t n)
{
	enum ibv_wc_status status;
	struct pair pair;

	pair_open(&pair, self->ctx, (struct ibv_pd *[]){ self->pd[0], self->pd[pd] });
	status = rdma_op(&pair, opcode, self->local_mr, self->local.iova, n, iova,
			 self->mr->rkey);
	pair_close(&pair);
	return status;
}

/* Whether the MR, in PD, is on M and on all of it. */
static bool is_on(FIXTURE_DATA(paged) *self, int pd, struct memory *m)
{
	static const size_t from[] = { 0, PAGE - 3, SIZE - 5001 }, n = 5001;
	static uint32_t seed = 100;

	for (int i = 0; i < 3; i++) {
		fill(self->local.cpu, n, ++seed);
		memory_mark(m);
		if (op(self, pd, IBV_WR_RDMA_WRITE, m->iova + from[i], n) ||
		    !filled(m->cpu + from[i], n, seed, "written") ||
		    !memory_only_changed(m, from[i], n))
			return false;
		memset(self->local.cpu, 0, n);
		if (op(self, pd, IBV_WR_RDMA_READ, m->iova + from[i], n) ||
		    !filled(self->local.cpu, n, seed, "read"))
			return false;
	}
	return op(self, !pd, IBV_WR_RDMA_READ, m->iova, 8) == IBV_WC_REM_ACCESS_ERR;
}

/* Whether the MR pins nothing, and gets a page again that the process has given back. */
static bool is_paged(FIXTURE_DATA(paged) *self, int pd, struct memory *m)
{
	return pinned_kb() == self->pinned && is_on(self, pd, m) &&
	       !madvise(m->cpu, SIZE, MADV_DONTNEED) && memory_is_zero(m) && is_on(self, pd, m);
}

static bool is_pinned(FIXTURE_DATA(paged) *self, int pd, struct memory *m)
{
	return pinned_kb() == self->pinned + KB && is_on(self, pd, m);
}

TEST_F(paged, new_rights_keep_memory_and_paging)
{
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, memory_rereg(self->mr, CHANGE_ACCESS, NULL, &self->at, REMOTE_READ));
		memory_mark(&self->at);
		ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
			  op(self, 0, IBV_WR_RDMA_WRITE, self->at.iova, 8));
		ASSERT_TRUE(memory_untouched(&self->at));
		ASSERT_EQ(0, op(self, 0, IBV_WR_RDMA_READ, self->at.iova, SIZE));
		ASSERT_EQ(0, memory_rereg(self->mr, CHANGE_ACCESS, NULL, &self->at, RW));
		ASSERT_TRUE(is_paged(self, 0, &self->at));
		ASSERT_EQ(self->mrs, mr_count());
	}
}

TEST_F(paged, new_pd_keeps_memory_and_paging)
{
	for (int i = 1; i < 5; i++) {
		ASSERT_EQ(0, memory_rereg(self->mr, CHANGE_PD, self->pd[i % 2], &self->at, 0));
		ASSERT_TRUE(is_paged(self, i % 2, &self->at));
		ASSERT_EQ(self->mrs, mr_count());
	}
}

/* Rights that it has not had: those of the first registration are no limit of paged memory. */
TEST_F(paged, read_only_memory_stays_so_or_is_paged_anew)
{
	mr_close(self->mr);
	self->mr = memory_reg(&self->at, self->pd[0], REMOTE_READ);
	if (memory_rereg(self->mr, CHANGE_ACCESS, NULL, &self->at, RW)) {
		ASSERT_EQ(EACCES, errno);
		ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
			  op(self, 0, IBV_WR_RDMA_WRITE, self->at.iova, 8));
		ASSERT_EQ(0, memory_rereg(self->mr, TRANS | CHANGE_ACCESS, NULL, &self->at, RW));
	}
	ASSERT_TRUE(is_paged(self, 0, &self->at));
}

TEST_F(paged, new_memory_is_paged_and_old_memory_is_left)
{
	struct memory *now = &self->at, *was = &self->other;
	int pd = 0;

	for (int flags = TRANS; flags <= CHANGE_ALL; flags++) {
		struct memory *swap = now;

		if (!(flags & TRANS))
			continue;
		now = was;
		was = swap;
		pd ^= !!(flags & CHANGE_PD);
		ASSERT_EQ(0, memory_rereg(self->mr, flags, self->pd[pd], now, RW));
		memory_mark(was);
		ASSERT_TRUE(is_paged(self, pd, now));
		ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, op(self, pd, IBV_WR_RDMA_WRITE, was->iova, 8));
		ASSERT_TRUE(memory_untouched(was));
		/* The MR does not notice what happens there any more. */
		ASSERT_EQ(0, munmap(was->cpu, SIZE));
		ASSERT_TRUE(is_paged(self, pd, now));
		ASSERT_EQ(was->cpu, mmap(was->cpu, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
					 MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
		ASSERT_EQ(self->mrs, mr_count());
	}
}

TEST_F(paged, part_of_the_memory_has_its_own_edges)
{
	uint8_t *p = self->other.cpu + 1003;

	ASSERT_EQ(0, ibv_rereg_mr(self->mr, TRANS, NULL, p, 3000, 0));
	fill(self->local.cpu, 3000, 9);
	ASSERT_EQ(0, op(self, 0, IBV_WR_RDMA_WRITE, (uintptr_t)p, 3000));
	ASSERT_TRUE(filled(p, 3000, 9, "written"));
	ASSERT_TRUE(memory_only_changed(&self->other, 1003, 3000));
	ASSERT_NE(0, op(self, 0, IBV_WR_RDMA_READ, (uintptr_t)p - 1, 2));
	ASSERT_NE(0, op(self, 0, IBV_WR_RDMA_READ, (uintptr_t)p + 2999, 2));
	ASSERT_EQ(self->pinned, pinned_kb());
}

TEST_F(paged, new_memory_can_be_pinned_and_paged_again)
{
	struct memory *m[] = { &self->other, &self->at, &self->at, &self->other };

	for (int i = 0; i < 4; i++) {
		ASSERT_EQ(0, ibv_rereg_mr(self->mr, TRANS | CHANGE_ACCESS, NULL, m[i]->cpu, SIZE,
					  RW));
		ASSERT_TRUE(is_pinned(self, 0, m[i])) { TH_LOG("MR moved %d times", 2 * i + 1); }
		ASSERT_EQ(0, ibv_rereg_mr(self->mr, TRANS | CHANGE_ACCESS, NULL, m[3 - i]->cpu,
					  SIZE, RW | PAGED));
		ASSERT_TRUE(is_paged(self, 0, m[3 - i])) { TH_LOG("MR moved %d times", 2 * i + 2); }
		ASSERT_EQ(self->mrs, mr_count());
	}
}

static int rights_by_fd_verb(FIXTURE_DATA(paged) *self, int access)
{
	return ibv_rereg_mr_fd_iova(self->mr, CHANGE_ACCESS, NULL, 0, 0, 0,
				    IBV_MR_FD_TYPE_DMABUF, -1, access);
}

/* A refusal leaves the MR and what it pins as they were. */
TEST_F(paged, paging_without_new_memory_is_switched_or_stays)
{
	bool can = device_can("switches-on-demand");

	need("rereg_mr_fd");
	errno = 0;
	ASSERT_EQ(can ? 0 : IBV_REREG_MR_ERR_INPUT, rights_by_fd_verb(self, RW));
	ASSERT_EQ(can ? 0 : EOPNOTSUPP, errno);
	ASSERT_TRUE(can ? is_pinned(self, 0, &self->at) : is_paged(self, 0, &self->at));
	if (!can) {
		ASSERT_NE(0, ibv_rereg_mr(self->mr, CHANGE_ACCESS, NULL, NULL, 0, RW));
		ASSERT_EQ(EOPNOTSUPP, errno);
		ASSERT_TRUE(is_paged(self, 0, &self->at));
		ASSERT_EQ(0, ibv_rereg_mr(self->mr, TRANS | CHANGE_ACCESS, NULL, self->at.cpu,
					  SIZE, RW));
	}
	errno = 0;
	ASSERT_EQ(can ? 0 : IBV_REREG_MR_ERR_INPUT, rights_by_fd_verb(self, RW | PAGED));
	ASSERT_EQ(can ? 0 : EOPNOTSUPP, errno);
	ASSERT_TRUE(can ? is_paged(self, 0, &self->at) : is_pinned(self, 0, &self->at));
	if (!can) {
		ASSERT_NE(0, ibv_rereg_mr(self->mr, CHANGE_ACCESS, NULL, NULL, 0, RW | PAGED));
		ASSERT_EQ(EOPNOTSUPP, errno);
		ASSERT_TRUE(is_pinned(self, 0, &self->at));
	}
	ASSERT_EQ(self->mrs, mr_count());
}

/* Memory with an fd is never paged.  The MR keeps its rights, PAGED among them. */
TEST_F(paged, memory_with_an_fd_needs_new_rights)
{
	static const enum memory_kind kinds[] = { VGEM, MEMFD };

	need("rereg_mr_fd");
	for (int i = 0; i < 2; i++) {
		struct memory m;

		memory_open_filled(&m, kinds[i], SIZE, 4);
		errno = 0;
		EXPECT_EQ(IBV_REREG_MR_ERR_INPUT,
			  memory_rereg(self->mr, TRANS, NULL, &m, 0));
		EXPECT_EQ(EOPNOTSUPP, errno);
		EXPECT_EQ(IBV_REREG_MR_ERR_INPUT,
			  memory_rereg(self->mr, TRANS | CHANGE_ACCESS, NULL, &m, RW | PAGED));
		EXPECT_EQ(EOPNOTSUPP, errno);
		EXPECT_TRUE(is_paged(self, 0, &self->at));
		EXPECT_EQ(0, memory_rereg(self->mr, TRANS | CHANGE_ACCESS, NULL, &m, RW));
		EXPECT_TRUE(is_on(self, 0, &m));
		errno = 0;
		EXPECT_EQ(IBV_REREG_MR_ERR_INPUT, rights_by_fd_verb(self, RW | PAGED));
		EXPECT_EQ(EOPNOTSUPP, errno);
		EXPECT_TRUE(is_on(self, 0, &m));
		EXPECT_EQ(0, memory_rereg(self->mr, TRANS | CHANGE_ACCESS, NULL, &self->at, RW));
		EXPECT_TRUE(is_paged(self, 0, &self->at));
		memory_close(&m);
	}
}

struct busy {
	uint8_t *at[2];
	uint32_t rounds;	/* in which it gave all pages back */
	bool stop;
};

static void *give_back(void *arg)
{
	struct busy *b = arg;

	while (!__atomic_load_n(&b->stop, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 2; i++) {
			madvise(b->at[i], SIZE / 2, MADV_DONTNEED);
			if (!device_can("reads-read-only"))
				continue;
			mprotect(b->at[i], SIZE / 2, PROT_READ);
			mprotect(b->at[i], SIZE / 2, PROT_READ | PROT_WRITE);
		}
		__atomic_add_fetch(&b->rounds, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* The kernel takes pages away from old and new memory at every moment of a rereg or a dereg. */
TEST_F_TIMEOUT(paged, pages_go_while_the_mr_changes, 300)
{
	struct busy b = { .at = { self->at.cpu, self->other.cpu } };
	struct memory *m[] = { &self->at, &self->other };
	const uint32_t changes = depth(30, 300);
	uint32_t n = 0, seed = 1000;
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, give_back, &b));
	while ((n < changes || __atomic_load_n(&b.rounds, __ATOMIC_RELAXED) < changes) &&
	       !_metadata->exit_code) {
		struct memory *to = m[++n % 2];
		uint8_t *half = to->cpu + SIZE / 2;

		if (n % 7 == 0) {
			mr_close(self->mr);
			self->mr = memory_reg(to, self->pd[0], RW);
		} else {
			EXPECT_EQ(0, memory_rereg(self->mr, n % 5 ? TRANS : TRANS | CHANGE_ACCESS,
						  NULL, to, RW));
			EXPECT_EQ(0, memory_rereg(self->mr, CHANGE_ACCESS, NULL, to, RWA));
		}
		fill(self->local.cpu, SIZE / 2, ++seed);
		EXPECT_EQ(0, op(self, 0, IBV_WR_RDMA_WRITE, to->iova + SIZE / 2, SIZE / 2));
		EXPECT_TRUE(filled(half, SIZE / 2, seed, "written"));
		/* What is given back at the same time may have any bytes, but it can be read. */
		EXPECT_EQ(0, op(self, 0, IBV_WR_RDMA_READ, to->iova, SIZE));
	}
	__atomic_store_n(&b.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	ASSERT_TRUE(is_paged(self, 0, m[n % 2]));
}

TEST_HARNESS_MAIN
