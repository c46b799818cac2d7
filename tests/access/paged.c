// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp; devices: all */
/*
 * An MR for on-demand paging is an MR like any other: data goes where it belongs, byte for byte,
 * and nowhere else.  Its pages come when packets need them, and go when the process takes them
 * away.
 *
 * The MR begins and ends inside a page, and the bytes before and after it are watched.  Its iova
 * is its address, or another one.  What a process does with its memory meanwhile is what it does
 * with any memory: it gives pages back, forks, unmaps and moves.
 */
#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/depth.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define SIZE (16 * PAGE)
#define HEAD 1003ul		/* bytes before the MR */
#define TAIL 517ul		/* and after it */
#define LENGTH (SIZE - HEAD - TAIL)
#define RIGHTS (RWA | IBV_ACCESS_ON_DEMAND)
#define LEAST depth(20, 200)	/* operations in a race */
#define PREFETCH IBV_ADVISE_MR_ADVICE_PREFETCH
#define PREFETCH_WRITE IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define NO_FAULT IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
#define FLUSH IBV_ADVISE_MR_FLAG_FLUSH

FIXTURE(paged)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory at, local;
	struct ibv_mr *mr, *local_mr;
	uint64_t iova;		/* of the first byte of the MR */
};

FIXTURE_VARIANT(paged)
{
	uint64_t iova;		/* of the page that it begins in; 0: its address */
};

FIXTURE_VARIANT_ADD(paged, at_its_address) { .iova = 0 };
FIXTURE_VARIANT_ADD(paged, at_a_low_iova) { .iova = 7 * PAGE };
FIXTURE_VARIANT_ADD(paged, at_a_high_iova) { .iova = 0x7fffff0000000000 };

static struct ibv_mr *reg(FIXTURE_DATA(paged) *self, int access)
{
	return must(ibv_reg_mr_iova(self->pair.pd, self->at.cpu + HEAD, LENGTH, self->iova,
				    access));
}

FIXTURE_SETUP(paged)
{
	need("on-demand");
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	memory_open_filled(&self->at, ON_DEMAND, SIZE, 1);
	memory_open_filled(&self->local, HOST, SIZE, 2);
	self->iova = (variant->iova ? variant->iova : (uintptr_t)self->at.cpu) + HEAD;
	self->local_mr = memory_reg(&self->local, self->pair.pd, RW);
	self->mr = reg(self, RIGHTS);
}

FIXTURE_TEARDOWN(paged)
{
	mr_close(self->mr);
	mr_close(self->local_mr);
	pair_close(&self->pair);
	memory_close(&self->at);
	memory_close(&self->local);
	device_close(self->ctx);
	EXPECT_TRUE(nothing_left());
}

/* Offsets in the memory: at both ends of pages and of the MR, and over several pages. */
static const struct range {
	size_t from, n;
} ranges[] = {
	{ HEAD, 1 }, { HEAD, 8 }, { 2 * PAGE - 1, 2 }, { 2 * PAGE - 3, PAGE + 7 },
	{ 3 * PAGE, PAGE }, { 3 * PAGE + 1, PAGE }, { 4 * PAGE + 1234, 100 },
	{ 5 * PAGE + 17, 3 * PAGE + 1 }, { SIZE - TAIL - 1, 1 }, { SIZE - TAIL - 5000, 5000 },
	{ HEAD, LENGTH },
};

#define for_each_range(r) \
	for (const struct range *r = ranges; r < ranges + sizeof(ranges) / sizeof(*ranges); r++)

static uint64_t iova_of(FIXTURE_DATA(paged) *self, size_t at)
{
	return self->iova + at - HEAD;
}

static enum ibv_wc_status op(FIXTURE_DATA(paged) *self, enum ibv_wr_opcode opcode, size_t at,
			     size_t n)
{
	return rdma_op(&self->pair, opcode, self->local_mr, self->local.iova, n,
		       iova_of(self, at), self->mr->rkey);
}

/* An operation that has to succeed. */
static bool done(FIXTURE_DATA(paged) *self, enum ibv_wr_opcode opcode, size_t at, size_t n)
{
	enum ibv_wc_status status = op(self, opcode, at, n);

	if (status)
		printf("# %zu bytes at %zu: %s\n", n, at, ibv_wc_status_str(status));
	return !status;
}

/* Whether a write of new bytes arrives there and nowhere else. */
static bool written(FIXTURE_DATA(paged) *self, size_t at, size_t n)
{
	static uint32_t seed = 1000;

	fill(self->local.cpu, n, ++seed);
	memory_mark(&self->at);
	return done(self, IBV_WR_RDMA_WRITE, at, n) &&
	       filled(self->at.cpu + at, n, seed, "written") &&
	       memory_only_changed(&self->at, at, n);
}

static bool read_back(FIXTURE_DATA(paged) *self, size_t at, size_t n)
{
	memset(self->local.cpu, 0, SIZE);
	return done(self, IBV_WR_RDMA_READ, at, n) &&
	       !memcmp(self->local.cpu, self->at.cpu + at, n) && !self->local.cpu[n];
}

static bool refused(FIXTURE_DATA(paged) *self, enum ibv_wc_status status)
{
	pair_connect(&self->pair, IBV_MTU_1024);
	return status != IBV_WC_SUCCESS;
}

TEST_F(paged, write_lands_in_its_range_and_nowhere_else)
{
	for_each_range(r) {
		ASSERT_TRUE(written(self, r->from, r->n)) { TH_LOG("%zu at %zu", r->n, r->from); }
	}
}

TEST_F(paged, read_returns_the_bytes_of_its_range)
{
	for_each_range(r) {
		ASSERT_TRUE(read_back(self, r->from, r->n)) { TH_LOG("%zu at %zu", r->n, r->from); }
	}
}

TEST_F(paged, send_and_receive_use_the_bytes_of_their_range)
{
	for_each_range(r) {
		fill(self->local.cpu, r->n, r->from);
		memory_mark(&self->at);
		post_recv(&self->pair, self->mr, iova_of(self, r->from), r->n);
		ASSERT_EQ(0, rdma_op(&self->pair, IBV_WR_SEND, self->local_mr, self->local.iova,
				     r->n, 0, 0));
		while (!pattern_arrived(self->at.cpu + r->from, r->n, r->from))
			usleep(1000);	/* the timeout of the case ends this */
		ASSERT_TRUE(memory_only_changed(&self->at, r->from, r->n));
		pair_connect(&self->pair, IBV_MTU_1024);	/* drop the other completion */

		fill(self->at.cpu + r->from, r->n, r->from + 1);
		memset(self->local.cpu, 0, SIZE);
		ASSERT_EQ(0, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->mr,
				     iova_of(self, r->from), r->n, self->local.iova,
				     self->local_mr->rkey));
		ASSERT_TRUE(filled(self->local.cpu, r->n, r->from + 1, "sent"));
	}
}

TEST_F(paged, atomic_operations_change_their_eight_bytes)
{
	static const size_t places[] = {
		1008, PAGE - 8, PAGE, 5 * PAGE + 2048, SIZE - PAGE + 8,
	};
	uint64_t *result = (uint64_t *)self->local.cpu;

	need("atomics");
	for (int i = 0; i < sizeof(places) / sizeof(*places); i++) {
		uint64_t *p = (uint64_t *)(self->at.cpu + places[i]), was = *p;
		uint64_t iova = iova_of(self, places[i]);

		memory_mark(&self->at);
		ASSERT_EQ(0, atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, self->local_mr,
				       iova, self->mr->rkey, 12345, 0));
		ASSERT_EQ(was, *result);
		ASSERT_EQ(was + 12345, *p);
		ASSERT_EQ(0, atomic_op(&self->pair, IBV_WR_ATOMIC_CMP_AND_SWP, self->local_mr,
				       iova, self->mr->rkey, was + 12345, 77));
		ASSERT_EQ(was + 12345, *result);
		ASSERT_EQ(77, *p);
		if (device_can("atomic-write")) {
			ASSERT_EQ(0, atomic_write(&self->pair, iova, self->mr->rkey, 0x1122334455));
			ASSERT_EQ(0x1122334455, *p);
		}
		ASSERT_TRUE(memory_only_changed(&self->at, places[i], 8));
	}
	ASSERT_TRUE(refused(self, fetch_add_unchecked(&self->pair, self->local_mr,
						      iova_of(self, PAGE - 4), self->mr->rkey)));
}

TEST_F(paged, flush_takes_a_range_of_the_mr_only)
{
	need("flush");
	mr_close(self->mr);
	self->mr = reg(self, RIGHTS | IBV_ACCESS_FLUSH_GLOBAL);
	for_each_range(r)
		ASSERT_EQ(0, flush_op(&self->pair, iova_of(self, r->from), r->n, self->mr->rkey));
	ASSERT_TRUE(refused(self, flush_op(&self->pair, iova_of(self, HEAD - 1), 1,
					   self->mr->rkey)));
	ASSERT_TRUE(refused(self, flush_op(&self->pair, iova_of(self, SIZE - TAIL), 1,
					   self->mr->rkey)));
}

TEST_F(paged, bytes_outside_the_mr_are_refused)
{
	static const struct range outside[] = {
		{ HEAD - 1, 1 }, { HEAD - 1, 2 }, { 0, 8 }, { SIZE - TAIL, 1 },
		{ SIZE - TAIL - 1, 2 }, { SIZE - 8, 8 }, { HEAD, LENGTH + 1 },
		{ SIZE, PAGE }, { 100 * SIZE, 8 }, { -(100 * SIZE), 8 },
	};

	for (int i = 0; i < sizeof(outside) / sizeof(*outside); i++) {
		const struct range *r = &outside[i];

		memory_mark(&self->at);
		ASSERT_TRUE(refused(self, op(self, IBV_WR_RDMA_WRITE, r->from, r->n)));
		ASSERT_TRUE(memory_untouched(&self->at));
		ASSERT_TRUE(refused(self, op(self, IBV_WR_RDMA_READ, r->from, r->n)));
	}
	if (variant->iova)	/* its address is no iova of it */
		ASSERT_TRUE(refused(self, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->local_mr,
						  self->local.iova, 8,
						  (uintptr_t)self->at.cpu + HEAD,
						  self->mr->rkey)));
	ASSERT_TRUE(written(self, HEAD, LENGTH));
}

TEST_F(paged, read_only_mr_is_not_written)
{
	mr_close(self->mr);
	self->mr = reg(self, REMOTE_READ | IBV_ACCESS_ON_DEMAND);
	memory_mark(&self->at);
	ASSERT_TRUE(refused(self, op(self, IBV_WR_RDMA_WRITE, HEAD, 100)));
	ASSERT_TRUE(memory_untouched(&self->at));
	ASSERT_TRUE(read_back(self, HEAD, LENGTH));
}

static int advise(FIXTURE_DATA(paged) *self, enum ibv_advise_mr_advice advice, uint32_t flags,
		  uint32_t lkey, uint64_t addr, uint32_t n)
{
	struct ibv_sge sge = { addr, n, lkey };

	return ibv_advise_mr(self->pair.pd, advice, flags, &sge, 1);
}

static int present(FIXTURE_DATA(paged) *self)
{
	unsigned char map[SIZE / PAGE];
	int n = 0;

	if (mincore(self->at.cpu, SIZE, map))
		fail_case("mincore");
	for (int i = 0; i < SIZE / PAGE; i++)
		n += map[i] & 1;
	return n;
}

TEST_F(paged, prefetch_brings_the_pages_of_its_range)
{
	for (int flush = 0; flush < 2; flush++) {
		double end = deadline(20);

		ASSERT_EQ(0, madvise(self->at.cpu, SIZE, MADV_DONTNEED));
		ASSERT_EQ(0, present(self));
		ASSERT_EQ(0, advise(self, PREFETCH_WRITE, flush ? FLUSH : 0, self->mr->lkey,
				    iova_of(self, 3 * PAGE - 1), PAGE + 2));
		while (!flush && present(self) < 3 && now() < end)
			usleep(1000);
		ASSERT_EQ(3, present(self));
		ASSERT_TRUE(written(self, 3 * PAGE - 1, PAGE + 2));
	}
	ASSERT_EQ(0, madvise(self->at.cpu, SIZE, MADV_DONTNEED));
	ASSERT_EQ(0, advise(self, NO_FAULT, FLUSH, self->mr->lkey, self->iova, LENGTH));
	ASSERT_EQ(0, present(self));
}

TEST_F(paged, prefetch_beyond_the_mr_is_efault)
{
	static const struct range outside[] = {
		{ HEAD - 1, 2 }, { SIZE - TAIL - 1, 2 }, { SIZE, PAGE }, { -(100 * SIZE), 8 },
	};

	for (int i = 0; i < sizeof(outside) / sizeof(*outside); i++) {
		int err = advise(self, PREFETCH, FLUSH, self->mr->lkey,
				 iova_of(self, outside[i].from), outside[i].n);

		if (!device_can("vmap") && i < 2)
			continue;	/* mlx5 looks at whole pages */
		ASSERT_EQ(EFAULT, err) {
			TH_LOG("prefetch of %zu bytes from byte %zd of the MR", outside[i].n,
			       outside[i].from);
		}
	}
	ASSERT_TRUE(written(self, HEAD, LENGTH));
}

TEST_F(paged, prefetch_needs_the_right_to_write_only_for_writing)
{
	mr_close(self->mr);
	self->mr = reg(self, REMOTE_READ | IBV_ACCESS_ON_DEMAND);
	for (int flags = 0; flags <= FLUSH; flags += FLUSH) {
		ASSERT_EQ(0, advise(self, PREFETCH, flags, self->mr->lkey, self->iova, LENGTH));
		ASSERT_EQ(EPERM, advise(self, PREFETCH_WRITE, flags, self->mr->lkey, self->iova,
					LENGTH));
	}
}

/* It has its pages.  To a driver that mixes the two up it is a way into the kernel's memory. */
TEST_F(paged, prefetch_of_another_mr_is_refused_and_harmless)
{
	static const enum memory_kind kinds[] = { HOST, MEMFD, VGEM };
	struct ibv_pd *other_pd = must(ibv_alloc_pd(self->ctx));
	struct ibv_mr *foreign = must(ibv_reg_mr(other_pd, self->at.cpu, SIZE, RIGHTS));

	for (int flags = 0; flags <= FLUSH; flags += FLUSH)
		for (int advice = PREFETCH; advice <= NO_FAULT; advice++) {
			EXPECT_NE(0, advise(self, advice, flags, foreign->lkey,
					    (uintptr_t)self->at.cpu, SIZE));
			EXPECT_NE(0, advise(self, advice, flags, self->mr->lkey ^ 0x80, self->iova,
					    PAGE));
		}
	mr_close(foreign);
	pd_close(other_pd);
	for (int i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct memory m;
		struct ibv_mr *mr;

		if (kinds[i] == VGEM && device_can("follows-moves"))
			continue;	/* it is paged too */
		memory_open_filled(&m, kinds[i], SIZE, 3);
		mr = memory_reg(&m, self->pair.pd, RW);
		for (int flags = 0; flags <= FLUSH; flags += FLUSH)
			for (int advice = PREFETCH; advice <= NO_FAULT; advice++) {
				EXPECT_NE(0, advise(self, advice, flags, mr->lkey, m.iova, SIZE));
				EXPECT_NE(0, advise(self, advice, flags, mr->lkey, 0, 8));
			}
		fill(self->local.cpu, SIZE, 4);
		EXPECT_EQ(0, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->local_mr,
				     self->local.iova, SIZE, m.iova, mr->rkey));
		EXPECT_TRUE(filled(m.cpu, SIZE, 4, "written"));
		mr_close(mr);
		memory_close(&m);
	}
	ASSERT_TRUE(written(self, HEAD, LENGTH));
}

TEST_F(paged, page_that_was_given_back_comes_again)
{
	ASSERT_TRUE(written(self, HEAD, LENGTH));
	ASSERT_EQ(0, madvise(self->at.cpu + 4 * PAGE, 4 * PAGE, MADV_DONTNEED));
	ASSERT_TRUE(read_back(self, 3 * PAGE + 5, 6 * PAGE));
	ASSERT_TRUE(written(self, 3 * PAGE + 5, 6 * PAGE));
}

/*
 * After MADV_FREE a page is writable and clean, and the kernel may drop it until somebody has
 * written to it.  A peer is somebody.
 */
TEST_F(paged, reclaim_keeps_what_was_written)
{
	static const struct range part_and_whole[] = { { 2 * PAGE, 512 }, { HEAD, LENGTH } };

	for (int i = 0; i < 2; i++) {
		const struct range *r = &part_and_whole[i];

		ASSERT_EQ(0, madvise(self->at.cpu, SIZE, MADV_FREE));
		ASSERT_TRUE(written(self, r->from, r->n));
		memory_mark(&self->at);
		ASSERT_EQ(0, madvise(self->at.cpu, SIZE, MADV_PAGEOUT));
		ASSERT_EQ(0, memcmp(self->at.cpu + r->from, self->at.before + r->from, r->n));
	}
}

TEST_F(paged, reclaim_keeps_what_an_atomic_has_added)
{
	need("atomics");
	ASSERT_EQ(0, madvise(self->at.cpu, SIZE, MADV_FREE));
	*(uint64_t *)self->local.cpu = 0;
	ASSERT_EQ(0, atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, self->local_mr,
			       iova_of(self, 2 * PAGE), self->mr->rkey, 1, 0));
	ASSERT_EQ(0, madvise(self->at.cpu, SIZE, MADV_PAGEOUT));
	ASSERT_EQ(*(uint64_t *)self->local.cpu + 1, *(uint64_t *)(self->at.cpu + 2 * PAGE));
}

static bool child_well(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

/* Each process has a copy of its own from then on.  The MR is the parent's. */
TEST_F(paged, after_a_fork_data_goes_to_the_parent)
{
	int go[2];
	pid_t pid;
	char c;

	ASSERT_TRUE(written(self, HEAD, LENGTH));
	memory_mark(&self->at);
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(go[1]);
		if (read(go[0], &c, 1) != 1 || memcmp(self->at.cpu, self->at.before, SIZE))
			_exit(1);	/* the parent's write came here */
		memset(self->at.cpu, 0x99, SIZE);
		_exit(0);
	}
	close(go[0]);
	ASSERT_TRUE(written(self, 2 * PAGE + 1, 5 * PAGE));
	ASSERT_EQ(1, write(go[1], "g", 1));
	ASSERT_TRUE(child_well(pid));
	close(go[1]);
	ASSERT_NE(0x99, self->at.cpu[9 * PAGE]);	/* the child's bytes are its own */
	ASSERT_TRUE(read_back(self, HEAD, LENGTH));
	ASSERT_TRUE(written(self, HEAD, LENGTH));
}

TEST_F(paged, unmapped_range_is_refused_until_it_is_mapped_again)
{
	uint8_t *hole = self->at.cpu + 6 * PAGE;

	ASSERT_TRUE(written(self, HEAD, LENGTH));
	ASSERT_EQ(0, munmap(hole, 2 * PAGE));
	ASSERT_TRUE(refused(self, op(self, IBV_WR_RDMA_WRITE, 6 * PAGE, 8)));
	ASSERT_TRUE(refused(self, op(self, IBV_WR_RDMA_READ, 7 * PAGE + 100, 8)));
	ASSERT_TRUE(refused(self, op(self, IBV_WR_RDMA_READ, 5 * PAGE + 1, 3 * PAGE)));
	ASSERT_NE(0, advise(self, PREFETCH_WRITE, FLUSH, self->mr->lkey, iova_of(self, 5 * PAGE),
			    2 * PAGE));
	ASSERT_EQ(hole, mmap(hole, 2 * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
	ASSERT_TRUE(written(self, 5 * PAGE + 1, 4 * PAGE));
	ASSERT_TRUE(read_back(self, HEAD, LENGTH));
	/* What may only be read is not written. */
	ASSERT_EQ(0, mprotect(hole, PAGE, PROT_READ));
	ASSERT_TRUE(refused(self, op(self, IBV_WR_RDMA_WRITE, 6 * PAGE, 8)));
	if (device_can("reads-read-only")) {
		ASSERT_TRUE(read_back(self, 5 * PAGE, 3 * PAGE));
	} else {
		ASSERT_TRUE(refused(self, op(self, IBV_WR_RDMA_READ, 5 * PAGE, 3 * PAGE)));
	}
	ASSERT_EQ(0, mprotect(hole, PAGE, PROT_READ | PROT_WRITE));
	ASSERT_TRUE(written(self, 5 * PAGE + 1, 4 * PAGE));
}

/* The MR stays at its addresses, whatever is there. */
TEST_F(paged, moved_pages_are_left_alone)
{
	uint8_t *page = self->at.cpu + 5 * PAGE, *away, *copy = must(malloc(PAGE));

	ASSERT_TRUE(written(self, HEAD, LENGTH));
	memcpy(copy, page, PAGE);
	away = mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	ASSERT_NE(MAP_FAILED, away);
	ASSERT_TRUE(written(self, 4 * PAGE + 9, 2 * PAGE));
	ASSERT_EQ(0, memcmp(copy, away, PAGE));
	munmap(away, PAGE);
	free(copy);
}

struct disturber {
	uint8_t *at;
	bool unmaps;
	bool stop;
	useconds_t pause;	/* between two rounds */
	uint64_t rounds;
};

static void *disturb(void *arg)
{
	struct disturber *d = arg;

	while (!__atomic_load_n(&d->stop, __ATOMIC_RELAXED)) {
		__atomic_add_fetch(&d->rounds, 1, __ATOMIC_RELAXED);
		if (!d->unmaps) {
			madvise(d->at, 4 * PAGE, MADV_DONTNEED);
			madvise(d->at + PAGE, PAGE, MADV_FREE);
			continue;
		}
		if (mmap(d->at, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			 0) != d->at ||
		    mmap(d->at, 4 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != d->at)
			abort();
		usleep(__atomic_load_n(&d->pause, __ATOMIC_RELAXED));
	}
	return NULL;
}

/* Whether the process has all pages of the range. */
static bool is_present(FIXTURE_DATA(paged) *self, size_t at, size_t n)
{
	unsigned char there[SIZE / PAGE];
	size_t first = at / PAGE, last = (at + n - 1) / PAGE;

	if (mincore(self->at.cpu, SIZE, there))
		fail_case("mincore");
	while (first <= last)
		if (!(there[first++] & 1))
			return false;
	return true;
}

/*
 * The rest of the MR has what was written, whatever happens to four of its pages.  If these go
 * away, an operation may fail; then the next round comes later, so that some fail and some do not.
 */
static void use_while_disturbed(struct __test_metadata *_metadata, FIXTURE_DATA(paged) *self,
				bool unmaps)
{
	struct disturber d = { .at = self->at.cpu + 6 * PAGE, .unmaps = unmaps };
	uint32_t n = 0, met = 0, failed = 0;
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, disturb, &d));
	while ((met < LEAST || failed == n) && !_metadata->exit_code) {
		uint64_t before = __atomic_load_n(&d.rounds, __ATOMIC_RELAXED);
		enum ibv_wc_status status;

		fill(self->local.cpu, LENGTH, ++n);
		memory_mark(&self->local);
		status = op(self, n % 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, HEAD, LENGTH);
		met += __atomic_load_n(&d.rounds, __ATOMIC_RELAXED) != before;
		if (status) {
			failed++;
			EXPECT_TRUE(unmaps) { TH_LOG("%s", ibv_wc_status_str(status)); }
			__atomic_store_n(&d.pause, 2 * d.pause + 1, __ATOMIC_RELAXED);
			pair_connect(&self->pair, IBV_MTU_1024);
			continue;
		}
		__atomic_store_n(&d.pause, d.pause / 2, __ATOMIC_RELAXED);
		EXPECT_EQ(0, memcmp(self->at.cpu + HEAD, self->local.cpu, 6 * PAGE - HEAD));
		EXPECT_EQ(0, memcmp(self->at.cpu + 10 * PAGE, self->local.cpu + 10 * PAGE - HEAD,
				    LENGTH - (10 * PAGE - HEAD)));
	}
	__atomic_store_n(&d.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	TH_LOG("%u of %u operations were disturbed, %u failed, %llu disturbances", met, n, failed,
	       (unsigned long long)d.rounds);
	pair_connect(&self->pair, IBV_MTU_1024);
	ASSERT_TRUE(written(self, HEAD, LENGTH));
}

TEST_F_TIMEOUT(paged, mr_works_while_its_pages_are_given_back, 300)
{
	use_while_disturbed(_metadata, self, false);
}

TEST_F_TIMEOUT(paged, mr_survives_while_its_pages_are_unmapped, 300)
{
	use_while_disturbed(_metadata, self, true);
}

TEST_F(paged, dereg_ends_access_while_prefetches_are_under_way)
{
	uint32_t n = 0, met = 0;

	for (; n < LEAST || met < LEAST; n++) {
		uint32_t rkey = self->mr->rkey;

		ASSERT_EQ(0, madvise(self->at.cpu, SIZE, MADV_DONTNEED));
		ASSERT_EQ(0, advise(self, PREFETCH_WRITE, 0, self->mr->lkey, self->iova, LENGTH));
		met += !is_present(self, HEAD, LENGTH);
		mr_close(self->mr);
		self->mr = NULL;
		ASSERT_TRUE(refused(self, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->local_mr,
						  self->local.iova, LENGTH, iova_of(self, HEAD),
						  rkey)));
		self->mr = reg(self, RIGHTS);
	}
	TH_LOG("%u of %u prefetches were under way", met, n);
	ASSERT_TRUE(written(self, HEAD, LENGTH));
}

/* More than 31 bits of length.  Nobody touches all of it, so it costs nothing. */
TEST_F(paged, mr_of_three_gigabytes_works)
{
	const size_t size = 3ul << 30;
	uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_mr *mr;

	ASSERT_NE(MAP_FAILED, p);
	mr = must(ibv_reg_mr(self->pair.pd, p, size, RIGHTS));
	fill(self->local.cpu, SIZE, 9);
	ASSERT_EQ(0, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->local_mr, self->local.iova,
			     SIZE, (uintptr_t)p + size - SIZE, mr->rkey));
	ASSERT_TRUE(filled(p + size - SIZE, SIZE, 9, "written"));
	ASSERT_TRUE(refused(self, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->local_mr,
					  self->local.iova, 2, (uintptr_t)p + size - 1,
					  mr->rkey)));
	mr_close(mr);
	munmap(p, size);
}

TEST_HARNESS_MAIN
