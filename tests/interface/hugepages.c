// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp; devices: rxe */
/* runs: full debug-full; devices: connectx */
/*
 * A huge page that a registration takes for a hole belongs to nobody else, and goes back to
 * where it came from, also if the registration fails: the pool, the limit of the file system, or
 * the reserve.
 *
 * The hole is in a memfd, or in a file of a mount without limits, with size=, with min_size=,
 * with both.
 *
 * The page comes from the free ones, or from those that are reserved for this file or this
 * mount, and never from those of somebody else.  When the file and the regions no longer
 * need it, it goes back to where it came from, also if the registration has failed.  Each
 * case takes more pages than its mount has, so a count that is wrong by one is found.
 */
#include "lib/clock.h"
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/hugepages.h"
#include "lib/memory.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#define POOL 8
#define PAGES 2		/* of the file, where a case needs no other number */

/* What the pool has, and the mount. */
struct counts {
	struct hugepages pool;
	long room;
};

FIXTURE(hole)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	int fd;
	bool mounted;
	struct hugepages pool;	/* before the mount */
	struct counts before;	/* after it */
};

FIXTURE_VARIANT(hole)
{
	const char *mount;	/* its options; NULL for a memfd */
	long size, min;		/* of the mount, in pages */
};

FIXTURE_VARIANT_ADD(hole, memfd) { .mount = NULL };
FIXTURE_VARIANT_ADD(hole, mount) { .mount = "" };
FIXTURE_VARIANT_ADD(hole, size) { .mount = "size=8M", .size = 4 };
FIXTURE_VARIANT_ADD(hole, min_size) { .mount = "min_size=4M", .min = 2 };
FIXTURE_VARIANT_ADD(hole, both_sizes) { .mount = "size=8M,min_size=4M", .size = 4, .min = 2 };

static struct counts counts_now(bool mounted)
{
	return (struct counts){ hugepages_now(), mounted ? hugetlbfs_room() : 0 };
}

FIXTURE_SETUP(hole)
{
	self->fd = -1;
	need("reg_mr_fd");
	need("memfd");
	need("native");
	self->ctx = device_open();
	self->pd = must(ibv_alloc_pd(self->ctx));
	hugepages_make(POOL);
	self->pool = hugepages_now();
	ASSERT_EQ(POOL, self->pool.free);
	ASSERT_EQ(0, self->pool.reserved);
	if (variant->mount) {
		hugetlbfs_mount(variant->mount);
		self->mounted = true;
	}
	self->before = counts_now(self->mounted);
	ASSERT_EQ(POOL, self->before.pool.free);
	ASSERT_EQ(variant->min, self->before.pool.reserved);
	if (variant->size)
		ASSERT_EQ(variant->size, self->before.room);
}

FIXTURE_TEARDOWN(hole)
{
	mr_close(self->mr);
	if (self->fd >= 0)
		close(self->fd);
	if (self->mounted)
		hugetlbfs_umount();
	/* A mount that lost count keeps pages reserved, or has released too many. */
	if (self->pool.total) {
		EXPECT_TRUE(hugepages_are(self->pool));
		hugepages_make(0);
	}
	pd_close(self->pd);
	device_close(self->ctx);
}

static int new_file(const FIXTURE_DATA(hole) *self, long pages)
{
	return self->mounted ? hugetlbfs_file(pages) : memfd_of(pages * HUGE_PAGE, MFD_HUGETLB);
}

static struct ibv_mr *reg(const FIXTURE_DATA(hole) *self, long pages)
{
	return ibv_reg_mr_fd_iova(self->pd, 0, pages * HUGE_PAGE, IOVA, IBV_MR_FD_TYPE_MEMFD,
				  self->fd, RW);
}

static void dereg(FIXTURE_DATA(hole) *self)
{
	mr_close(self->mr);
	self->mr = NULL;
}

static void resize(int fd, long pages)
{
	if (ftruncate(fd, pages * HUGE_PAGE))
		fail_case("resize the file to %ld pages", pages);
}

static void touch(uint8_t *p, long pages)
{
	for (long i = 0; i < pages; i++)
		*(volatile uint8_t *)(p + i * HUGE_PAGE) = i;
}

static bool as_before(const FIXTURE_DATA(hole) *self)
{
	long room = self->mounted ? hugetlbfs_room() : 0;

	if (room != self->before.room)
		printf("# the mount has room for %ld pages instead of %ld\n", room,
		       self->before.room);
	return hugepages_are(self->before.pool) && room == self->before.room;
}

/*
 * Whether N pages are in use for the file and nothing else has changed: the first of them
 * are those that the mount had reserved.
 */
static bool in_use(const FIXTURE_DATA(hole) *self, const FIXTURE_VARIANT(hole) *variant, long n)
{
	long room = self->mounted ? hugetlbfs_room() : 0;
	struct hugepages wanted = self->before.pool;

	wanted.free -= n;
	wanted.reserved -= n < variant->min ? n : variant->min;
	if (variant->size && room != self->before.room - n) {
		printf("# %ld pages are in use, and the mount has room for %ld, not %ld\n", n, room,
		       self->before.room - n);
		return false;
	}
	return hugepages_are(wanted);
}

TEST_F(hole, pages_filled_by_reg_go_back_with_the_file)
{
	enum { TRUNCATE, PUNCH, CLOSE, WAYS };

	for (int i = 0; i < WAYS * POOL; i++) {
		self->fd = new_file(self, PAGES);
		ASSERT_TRUE(as_before(self));
		self->mr = must(reg(self, PAGES));
		ASSERT_TRUE(in_use(self, variant, PAGES));
		dereg(self);
		ASSERT_TRUE(in_use(self, variant, PAGES));
		ASSERT_EQ(PAGES, hugepages_of(self->fd));

		if (i % WAYS == TRUNCATE)
			resize(self->fd, 0);
		if (i % WAYS == PUNCH)
			ASSERT_EQ(0, fallocate(self->fd,
					       FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
					       PAGES * HUGE_PAGE));
		if (i % WAYS != CLOSE) {
			ASSERT_EQ(0, hugepages_of(self->fd));
			ASSERT_TRUE(as_before(self));
		}
		close(self->fd);
		self->fd = -1;
		ASSERT_TRUE(as_before(self));
	}
}

/* The file has no pages afterwards; the region has them, and the mount still counts them. */
TEST_F(hole, pages_filled_by_reg_go_back_at_dereg)
{
	for (int i = 0; i < POOL; i++) {
		self->fd = new_file(self, PAGES);
		self->mr = must(reg(self, PAGES));
		if (i % 2)
			resize(self->fd, 0);
		close(self->fd);
		self->fd = -1;
		ASSERT_TRUE(in_use(self, variant, PAGES));
		dereg(self);
		ASSERT_TRUE(as_before(self));
	}
}

/* The kernel keeps the counts of a mount until its last page is free. */
TEST_F(hole, pages_filled_by_reg_go_back_after_umount)
{
	self->fd = new_file(self, PAGES);
	self->mr = must(reg(self, PAGES));
	close(self->fd);
	self->fd = -1;
	if (self->mounted)
		hugetlbfs_umount();
	self->mounted = false;
	ASSERT_EQ(POOL - PAGES, hugepages_now().free);
	dereg(self);
	ASSERT_TRUE(hugepages_are(self->pool));
}

/* A mapping of this process has reserved all free pages but one, and touches them last. */
TEST_F(hole, reg_takes_no_page_reserved_for_others)
{
	long others = POOL - variant->min - 1;
	int other = memfd_of(others * HUGE_PAGE, MFD_HUGETLB);
	uint8_t *p = hugepages_map(other, others, 0);

	self->before = counts_now(self->mounted);
	ASSERT_EQ(variant->min + others, self->before.pool.reserved);
	for (int i = 0; i < POOL; i++) {
		/* One page too many: the registration fails after it has filled the others. */
		long n = variant->min + 1;

		self->fd = new_file(self, n + 1);
		ASSERT_EQ(NULL, reg(self, n + 1));
		ASSERT_EQ(ENOMEM, errno);
		ASSERT_EQ(n, hugepages_of(self->fd));
		ASSERT_TRUE(in_use(self, variant, n));

		/* What is filled can be registered. */
		self->mr = must(reg(self, n));
		dereg(self);
		close(self->fd);
		self->fd = -1;
		ASSERT_TRUE(as_before(self));
	}
	touch(p, others);
	ASSERT_EQ(others, hugepages_of(other));
	munmap(p, others * HUGE_PAGE);
	close(other);
}

/* More than the mount may have; without a limit, more than there are. */
TEST_F(hole, reg_of_more_pages_than_there_are_is_enomem)
{
	long n = variant->size ?: POOL;

	for (int i = 0; i < 3; i++) {
		self->fd = new_file(self, n + 1);
		ASSERT_EQ(NULL, reg(self, n + 1));
		ASSERT_EQ(ENOMEM, errno);
		ASSERT_EQ(n, hugepages_of(self->fd));
		ASSERT_TRUE(in_use(self, variant, n));
		resize(self->fd, 0);
		ASSERT_TRUE(as_before(self));
		close(self->fd);
		self->fd = -1;
	}
}

/* The file is mapped, so its pages are reserved already: each counts once. */
TEST_F(hole, pages_reserved_by_a_mapping_count_once)
{
	for (int i = 0; i < POOL; i++) {
		struct hugepages mapped = self->before.pool;
		uint8_t *p;

		self->fd = new_file(self, PAGES);
		p = hugepages_map(self->fd, PAGES, 0);
		mapped.reserved += PAGES - (PAGES < variant->min ? PAGES : variant->min);
		ASSERT_TRUE(hugepages_are(mapped));
		self->mr = must(reg(self, PAGES));
		ASSERT_TRUE(in_use(self, variant, PAGES));
		touch(p, PAGES);
		ASSERT_TRUE(in_use(self, variant, PAGES));
		dereg(self);
		munmap(p, PAGES * HUGE_PAGE);
		ASSERT_TRUE(in_use(self, variant, PAGES));
		close(self->fd);
		self->fd = -1;
		ASSERT_TRUE(as_before(self));
	}
}

struct toucher {
	pthread_barrier_t barrier;
	uint8_t *p;
	bool over;
	struct span span;
};

static void *touch_in_turn(void *arg)
{
	struct toucher *t = arg;

	for (;;) {
		pthread_barrier_wait(&t->barrier);
		if (t->over)
			return NULL;
		t->span.begin = now();
		touch(t->p, PAGES);
		t->span.end = now();
		pthread_barrier_wait(&t->barrier);
	}
}

/* A page fault and a registration fill the same hole; only one of them may count. */
TEST_F(hole, hole_filled_by_reg_and_fault_counts_once)
{
	struct toucher t = { .over = false };
	int rounds = 0, met = 0;
	pthread_t thread;

	self->fd = new_file(self, PAGES);
	t.p = hugepages_map(self->fd, PAGES, MAP_NORESERVE);
	ASSERT_TRUE(as_before(self));
	ASSERT_EQ(0, pthread_barrier_init(&t.barrier, NULL, 2));
	ASSERT_EQ(0, pthread_create(&thread, NULL, touch_in_turn, &t));
	for (; rounds < 50 || met < 5; rounds++) {
		struct span registration;

		pthread_barrier_wait(&t.barrier);
		registration.begin = now();
		self->mr = must(reg(self, PAGES));
		registration.end = now();
		pthread_barrier_wait(&t.barrier);
		met += spans_overlap(&registration, &t.span);
		ASSERT_TRUE(in_use(self, variant, PAGES));
		dereg(self);
		resize(self->fd, 0);
		ASSERT_TRUE(as_before(self));
		resize(self->fd, PAGES);
	}
	t.over = true;
	pthread_barrier_wait(&t.barrier);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	TH_LOG("%d of %d faults met a registration", met, rounds);
	munmap(t.p, PAGES * HUGE_PAGE);
}

TEST_HARNESS_MAIN
