// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full kcsan; guest: smp; devices: rxe */
/* runs: full debug-full; devices: connectx */
/*
 * No more device memory is allocated than there is, by processes and threads at once, and what
 * is freed can be allocated again: after a free, a kill under traffic, the last unmap.
 *
 * A device has max_dm_size bytes for all processes, which it gives away in whole pages.  Nothing
 * is lost on the way.
 */
#include "lib/child.h"
#include "lib/counts.h"
#include "lib/dm.h"
#include "lib/harness.h"
#include "lib/other.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/random.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

FIXTURE(budget)
{
	struct ibv_context *ctx;
	size_t max;		/* bytes, rounded down to pages */
	struct dm_rest rest;
	struct child child;
	atomic_bool asking;
};

FIXTURE_SETUP(budget)
{
	need("dm");
	ASSERT_TRUE(nothing_left());
	self->ctx = device_open();
	self->max = dm_max(self->ctx) / PAGE * PAGE;
	ASSERT_LT(0, self->max);
	ASSERT_TRUE(dm_budget_is_whole(self->ctx));
}

FIXTURE_TEARDOWN(budget)
{
	child_close(&self->child);
	dm_give_rest(&self->rest);
	if (self->ctx)
		EXPECT_TRUE(dm_budget_is_whole(self->ctx));
	device_close(self->ctx);
	EXPECT_TRUE(nothing_left());
}

/* How much can be allocated now. */
static size_t left(struct ibv_context *ctx)
{
	struct dm_rest rest;
	size_t bytes;

	dm_take_rest(&rest, ctx);
	bytes = rest.bytes;
	dm_give_rest(&rest);
	return bytes;
}

/* --- It is a limit */

TEST_F(budget, one_dm_can_take_the_whole_budget)
{
	struct dm all, more;

	dm_open(&all, self->ctx, self->max);
	ASSERT_EQ(ENOMEM, dm_try_open(&more, self->ctx, dm_grain()));
	dm_fill(&all, 0, self->max, 1);
	ASSERT_TRUE(dm_filled(&all, 0, self->max, 1, "all of it"));
	dm_close(&all);
}

TEST_F(budget, dm_larger_than_the_rest_is_enomem)
{
	struct dm some, more;

	dm_open(&some, self->ctx, PAGE);
	ASSERT_EQ(ENOMEM, dm_try_open(&more, self->ctx, self->max));
	ASSERT_EQ(ENOMEM, dm_try_open(&more, self->ctx, self->max - PAGE + dm_grain()));
	ASSERT_EQ(0, dm_try_open(&more, self->ctx, self->max - PAGE));
	dm_close(&more);
	dm_close(&some);
}

/* Pieces of a few bytes, a page each; LENGTH of them differs. */
static void many_small(struct __test_metadata *_metadata, FIXTURE_DATA(budget) *self, size_t length)
{
	int pages = self->max / PAGE;
	struct dm *dm = must(calloc(pages + 1, sizeof(*dm)));

	for (int i = 0; i < pages; i++)
		dm_open(&dm[i], self->ctx, length);
	ASSERT_EQ(ENOMEM, dm_try_open(&dm[pages], self->ctx, length));
	/* As many as were freed, and no more. */
	for (int i = 0; i < pages; i += 3)
		dm_close(&dm[i]);
	for (int i = 0; i < pages; i += 3)
		dm_open(&dm[i], self->ctx, PAGE);
	ASSERT_EQ(ENOMEM, dm_try_open(&dm[pages], self->ctx, length));
	for (int i = 0; i < pages; i++)
		dm_close(&dm[i]);
	ASSERT_EQ(self->max, left(self->ctx));
	free(dm);
}

TEST_F(budget, small_dm_takes_a_page)
{
	many_small(_metadata, self, dm_grain());
}

TEST_F(budget, one_page_dm_takes_a_page)
{
	many_small(_metadata, self, PAGE);
}

TEST_F(budget, dm_longer_than_a_page_takes_two)
{
	struct dm dm;

	dm_open(&dm, self->ctx, PAGE + dm_grain());
	ASSERT_EQ(self->max - 2 * PAGE, left(self->ctx));
	dm_close(&dm);
}

/* What a query says is what the device has, and not what is left. */
TEST_F(budget, query_reports_the_total_not_the_rest)
{
	struct ibv_context *other = device_open();
	struct dm all;

	dm_open(&all, self->ctx, self->max);
	ASSERT_EQ(self->max, dm_max(self->ctx) / PAGE * PAGE);
	ASSERT_EQ(self->max, dm_max(other) / PAGE * PAGE);
	dm_close(&all);
	device_close(other);
}

TEST_F(budget, contexts_share_the_budget)
{
	struct ibv_context *other = device_open();
	struct dm here, there, more;

	dm_open(&here, self->ctx, self->max / 2);
	dm_open(&there, other, self->max - self->max / 2);
	ASSERT_EQ(ENOMEM, dm_try_open(&more, self->ctx, 64));
	ASSERT_EQ(ENOMEM, dm_try_open(&more, other, 64));
	dm_close(&there);
	ASSERT_EQ(self->max / 2, left(other));
	dm_close(&here);
	device_close(other);
}

/* An allocation that fails takes nothing, nor does one that is a mistake. */
TEST_F(budget, failed_alloc_takes_no_memory)
{
	struct ibv_alloc_dm_attr mistakes[] = {
		{ .length = PAGE, .comp_mask = 1 }, { .length = PAGE, .log_align_req = 13 },
		{ .length = 0 }, { .length = self->max + PAGE }, { .length = -PAGE },
	};
	struct dm some, more;

	dm_open(&some, self->ctx, PAGE);
	for (int i = 0; i < 3 * self->max / PAGE; i++) {
		ASSERT_EQ(NULL, ibv_alloc_dm(self->ctx, &mistakes[i % ARRAY_SIZE(mistakes)]));
		ASSERT_EQ(ENOMEM, dm_try_open(&more, self->ctx, self->max));
	}
	ASSERT_EQ(self->max - PAGE, left(self->ctx));
	dm_close(&some);
}

/* Of Soft-RoCE; the value at the time counts when a device is added, for this device alone. */
#define PARAMETER "/sys/module/rdma_rxe/parameters/max_dm_size"

static size_t parameter(void)
{
	FILE *f = must(fopen(PARAMETER, "r"));
	size_t value = 0;

	if (fscanf(f, "%zu", &value) != 1)
		fail_case("read " PARAMETER);
	fclose(f);
	return value;
}

static void set_parameter(size_t value)
{
	FILE *f = must(fopen(PARAMETER, "w"));

	if (fprintf(f, "%zu", value) < 0 || fclose(f))
		fail_case("write %zu to %s", value, PARAMETER);
}

TEST_F(budget, max_dm_size_sets_the_budget_of_a_new_device)
{
	static const struct { size_t said, given; } sizes[] = {
		{ 0, 0 }, { PAGE - 1, 0 }, { 3 * PAGE, 3 * PAGE }, { 5 * PAGE + 1, 5 * PAGE },
		{ -1ul, 1ul << 30 },
	};
	size_t before;

	need("add-delete");
	before = parameter();
	for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct other other;
		struct ibv_context *ctx;
		struct dm dm;

		set_parameter(sizes[i].said);
		other_open(&other);
		set_parameter(before);
		if (!other.made)
			SKIP(return, "the guest has a second device already");
		ctx = device_open_named(other.name);
		EXPECT_EQ(sizes[i].given, dm_max(ctx));
		if (!sizes[i].given) {
			EXPECT_EQ(EOPNOTSUPP, dm_try_open(&dm, ctx, 4));
		} else if (sizes[i].given < 1 << 20) {
			EXPECT_EQ(ENOMEM, dm_try_open(&dm, ctx, sizes[i].given + 4));
			EXPECT_EQ(sizes[i].given, left(ctx));
		}
		EXPECT_EQ(self->max, dm_max(self->ctx));
		EXPECT_EQ(self->max, left(self->ctx));
		device_close(ctx);
		other_close(&other);
	}
}

/* --- What is given back */

#define CYCLES 400
#define SLOTS 24

/*
 * A device that counts pages has room for a length if so many pages are free.  mlx5 needs
 * them side by side, so more than one page may fail to find room there.
 */
static bool may_fail(size_t pages, size_t free)
{
	return pages > free || (pages > 1 && device_can("mlx5-queues"));
}

TEST_F(budget, freed_dms_of_random_length_restore_the_budget)
{
	uint64_t random = random_begin(random_seed(), 0);
	size_t total = self->max / PAGE, used = 0;
	struct dm dm[SLOTS] = {};

	for (int i = 0; i < CYCLES; i++) {
		struct dm *d = &dm[random_below(&random, SLOTS)];

		if (d->dm) {
			used -= (d->size + PAGE - 1) / PAGE;
			dm_close(d);
		} else {
			size_t n = (1 + random_below(&random, self->max / 6 / 4)) * 4;
			size_t pages = (n + PAGE - 1) / PAGE;
			int err = dm_try_open(d, self->ctx, n);

			ASSERT_TRUE(!err || (err == ENOMEM && may_fail(pages, total - used))) {
				TH_LOG("alloc of %zu pages with %zu free: %s", pages, total - used,
				       strerror(err));
			}
			used += err ? 0 : pages;
			ASSERT_GE(total, used);
		}
	}
	for (int i = 0; i < SLOTS; i++)
		dm_close(&dm[i]);
	ASSERT_EQ(self->max, left(self->ctx));
}

#define THREADS 4

struct taker {
	struct ibv_context *ctx;
	pthread_barrier_t *begin;
	/* of all threads: pages, and allocations; without one the limit was not in sight */
	atomic_long *held, *refused;
	uint64_t random;
	long pages, exceeded, taken;
};

static void *take_and_give(void *arg)
{
	struct taker *t = arg;
	struct dm dm[4] = {};
	long pages[4];

	pthread_barrier_wait(t->begin);
	for (int i = 0; i < CYCLES || !*t->refused; i++) {
		int k = random_below(&t->random, 4);

		if (dm[k].dm) {
			atomic_fetch_sub(t->held, pages[k]);
			dm_close(&dm[k]);
			continue;
		}
		pages[k] = 1 + random_below(&t->random, t->pages / 4);
		if (dm_try_open(&dm[k], t->ctx, pages[k] * PAGE)) {
			++*t->refused;
			continue;
		}
		t->taken++;
		t->exceeded += atomic_fetch_add(t->held, pages[k]) + pages[k] > t->pages;
	}
	for (int k = 0; k < 4; k++) {
		if (dm[k].dm)
			atomic_fetch_sub(t->held, pages[k]);
		dm_close(&dm[k]);
	}
	return NULL;
}

/* What threads hold is never more than there is, although they take and give at once. */
TEST_F_TIMEOUT(budget, racing_threads_never_exceed_the_budget, 120)
{
	uint64_t seed = random_seed();
	struct taker taker[THREADS];
	pthread_t thread[THREADS];
	atomic_long held = 0, refused = 0;
	pthread_barrier_t begin;

	pthread_barrier_init(&begin, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		taker[i] = (struct taker){
			.ctx = i % 2 ? self->ctx : device_open(), .begin = &begin,
			.held = &held, .refused = &refused,
			.random = random_begin(seed, i), .pages = self->max / PAGE,
		};
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, take_and_give, &taker[i]));
	}
	for (int i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
		ASSERT_EQ(0, taker[i].exceeded);
		ASSERT_LT(0, taker[i].taken);
		if (!(i % 2))
			device_close(taker[i].ctx);
	}
	TH_LOG("%ld refused", refused);
	ASSERT_EQ(0, held);
	ASSERT_EQ(self->max, left(self->ctx));
}

static void *asks_for_too_much(void *arg)
{
	FIXTURE_DATA(budget) *self = arg;
	struct dm dm;
	long n = 0;

	while (self->asking) {
		if (!dm_try_open(&dm, self->ctx, self->max))
			fail_case("alloc of all device memory succeeded with one page free");
		n++;
	}
	return (void *)n;
}

/* Who asks for more than is left does not, for a moment, take what somebody else may have. */
TEST_F(budget, failing_alloc_does_not_starve_a_valid_one)
{
	struct dm some, page;
	pthread_t thread[2];
	int failed = 0;

	dm_open(&some, self->ctx, self->max - PAGE);
	self->asking = true;
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, asks_for_too_much, self));
	for (int i = 0; i < 500; i++) {
		if (dm_try_open(&page, self->ctx, PAGE))
			failed++;
		else
			dm_close(&page);
	}
	self->asking = false;
	for (int i = 0; i < 2; i++) {
		void *asked;

		ASSERT_EQ(0, pthread_join(thread[i], &asked));
		EXPECT_LT(0, (long)asked);
	}
	dm_close(&some);
	EXPECT_EQ(0, failed);
}

/* --- Its process ends */

/* All of the budget in three DMs, each with MRs; the first is in use. */
static void holds_all(int sock, void *arg)
{
	struct ibv_context *ctx = device_open();
	size_t max = dm_max(ctx) / PAGE * PAGE, third = max / 3 / PAGE * PAGE;
	struct memory host;
	struct pair pair;
	struct dm dm[3];
	struct ibv_mr *mr[3], *host_mr;

	pair_open(&pair, ctx, NULL);
	memory_open(&host, HOST, 4 * PAGE);
	host_mr = memory_reg(&host, pair.pd, RWA);
	for (int i = 0; i < 3; i++) {
		dm_open(&dm[i], ctx, i ? third : max - 2 * third);
		mr[i] = dm_reg(&dm[i], pair.pd, RWA);
		must(ibv_reg_dm_mr(pair.pd, dm[i].dm, 4, 100, RW | IBV_ACCESS_ZERO_BASED));
	}
	for (long n = 0;; n++) {
		if (rdma_op(&pair, n % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, host_mr, host.iova,
			    4 * PAGE, 0, mr[n % 3]->rkey))
			fail_case("RDMA with device memory");
		if (n == 5)
			go_on(sock);
		if (n >= 5 && arg)
			return;
	}
}

/* Soon, since the kernel takes its time to end a process. */
static bool gets_whole(FIXTURE_DATA(budget) *self)
{
	return dm_budget_is_whole(self->ctx) && nothing_left() && left(self->ctx) == self->max;
}

TEST_F_TIMEOUT(budget, kill_during_traffic_returns_the_memory, 120)
{
	for (int i = 0; i < 5; i++) {
		struct dm more;

		child_start(&self->child, holds_all, NULL);
		wait_to_go_on(self->child.sock);
		ASSERT_EQ(ENOMEM, dm_try_open(&more, self->ctx, 64));
		usleep(1000 * i);
		ASSERT_TRUE(child_kill(&self->child));
		ASSERT_TRUE(gets_whole(self));
	}
}

TEST_F(budget, exit_returns_the_memory)
{
	child_start(&self->child, holds_all, self);
	wait_to_go_on(self->child.sock);
	ASSERT_EQ(0, child_wait(&self->child));
	ASSERT_TRUE(gets_whole(self));
}

static void allocates_for_ever(int sock, void *arg)
{
	struct ibv_context *ctx = device_open();
	struct ibv_pd *pd = must(ibv_alloc_pd(ctx));

	for (int n = 0;; n++) {
		struct dm dm[2];

		for (int i = 0; i < 2; i++)
			dm_open(&dm[i], ctx, dm_max(ctx) / 4);
		mr_close(dm_reg(&dm[0], pd, RW));
		for (int i = 0; i < 2; i++)
			dm_close(&dm[i]);
		if (n == 2)
			go_on(sock);
	}
}

TEST_F_TIMEOUT(budget, kill_during_alloc_returns_the_memory, 120)
{
	for (int i = 0; i < 10; i++) {
		child_start(&self->child, allocates_for_ever, NULL);
		wait_to_go_on(self->child.sock);
		usleep(500 * i);
		ASSERT_TRUE(child_kill(&self->child));
		ASSERT_TRUE(gets_whole(self));
	}
}

/* --- A mapping outlives its DM */

struct heir {
	struct dm *dm;
	size_t size;
};

/* It has the mapping of the process that it was forked from, by which the library copies. */
static void keeps_a_mapping(int sock, void *arg)
{
	struct heir *h = arg;

	wait_to_go_on(sock);
	if (!dm_filled(h->dm, 0, h->size, 7, "the mapping of a DM that was freed"))
		_exit(1);
	dm_fill(h->dm, 0, h->size, 8);
	go_on(sock);
	wait_to_go_on(sock);
	if (!dm_filled(h->dm, 0, h->size, 8, "the mapping, with others beside it"))
		_exit(1);
}

/*
 * The memory of a DM that was freed is nobody else's until its last mapping has gone: the
 * process that still has it finds what it left there, and reaches nothing of others.  A card
 * has that much less to give.  Soft-RoCE has other pages.
 */
TEST_F(budget, mapping_keeps_the_memory_of_a_freed_dm)
{
	const size_t kept = device_can("pci") ? 3 * PAGE : 0;
	struct heir heir;
	struct dm dm;

	dm_open(&dm, self->ctx, 3 * PAGE);
	dm_fill(&dm, 0, dm.size, 7);
	heir = (struct heir){ &dm, dm.size };
	child_start(&self->child, keeps_a_mapping, &heir);
	dm_close(&dm);
	dm_take_rest(&self->rest, self->ctx);
	ASSERT_EQ(self->max - kept, self->rest.bytes);
	ASSERT_TRUE(dm_rest_is_zero(&self->rest));
	go_on(self->child.sock);
	wait_to_go_on(self->child.sock);
	ASSERT_TRUE(dm_rest_is_zero(&self->rest));
	for (int i = 0; i < self->rest.pieces; i++)
		dm_fill(&self->rest.piece[i], 0, self->rest.piece[i].size, 9);
	go_on(self->child.sock);
	ASSERT_EQ(0, child_wait(&self->child));
	dm_give_rest(&self->rest);
	ASSERT_TRUE(gets_whole(self));
}

/* The address at which the library has mapped a DM of this size. */
static void *mapping_of(size_t size)
{
	FILE *maps = must(fopen("/proc/self/maps", "r"));
	unsigned long from, to;
	void *found = NULL;
	char line[256];

	while (fgets(line, sizeof(line), maps)) {
		if (strstr(line, "/uverbs") && sscanf(line, "%lx-%lx", &from, &to) == 2 &&
		    to - from == size)
			found = (void *)from;
	}
	fclose(maps);
	return must(found);
}

/*
 * Who registers the mapping pins its pages, as those of other memory: they count against
 * RLIMIT_MEMLOCK, and when the DM is freed they are no device memory any more.  Those of a card
 * cannot be pinned.
 */
TEST_F(budget, registered_mapping_of_a_freed_dm_counts_as_pinned)
{
	const bool is_bar = device_can("pci");
	const size_t size = 5 * PAGE;
	struct ibv_pd *pd = must(ibv_alloc_pd(self->ctx));
	long pinned = pinned_kb();
	struct ibv_mr *mr;
	struct dm dm;

	dm_open(&dm, self->ctx, size);
	mr = ibv_reg_mr(pd, mapping_of(size), size, RW);
	if (is_bar) {
		ASSERT_EQ(NULL, mr);
		ASSERT_EQ(EFAULT, errno);
	} else {
		ASSERT_NE(NULL, mr);
		ASSERT_EQ(pinned + size / 1024, pinned_kb());
	}
	dm_close(&dm);
	ASSERT_EQ(self->max, left(self->ctx));
	if (mr) {
		ASSERT_EQ(pinned + size / 1024, pinned_kb());
		mr_close(mr);
	}
	ASSERT_EQ(pinned, pinned_kb());
	ASSERT_EQ(0, ibv_dealloc_pd(pd));
}

TEST_HARNESS_MAIN
