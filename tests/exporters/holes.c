// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp; devices: rxe */
/*
 * A huge page that udmabuf or a page fault does not get for a hole of a file is missing
 * nowhere: not in the mount, not among the reserved pages, not for another thread.
 *
 * These cases do not use RDMA, so on a kernel without our patches they show what any user
 * can do there to the counts of huge pages.  interface/hugepages does the same by RDMA.
 */
#include "lib/child.h"
#include "lib/clock.h"
#include "lib/harness.h"
#include "lib/hugepages.h"
#include "lib/memory.h"
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define POOL 8
#define PAGES 2		/* of a file */
#define MEETINGS 20	/* of two threads that fill the same holes */

struct filler {
	pthread_barrier_t *start;
	int udmabuf, memfd;
	int err;
	struct span span;
};

FIXTURE(hole)
{
	struct hugepages pool;
	uint8_t *others;	/* the reserved pages of somebody else */
	long reserved;
};

FIXTURE_SETUP(hole)
{
	hugepages_make(POOL);
	self->pool = hugepages_now();
	ASSERT_EQ(POOL, self->pool.free);
	ASSERT_EQ(0, self->pool.reserved);
}

/* Somebody else reserves PAGES. */
static void reserve(FIXTURE_DATA(hole) *self, long pages)
{
	int fd = memfd_of(pages * HUGE_PAGE, MFD_HUGETLB);

	self->reserved = pages;
	self->others = hugepages_map(fd, pages, 0);
	close(fd);
}

static void end_reservation(FIXTURE_DATA(hole) *self)
{
	if (self->reserved)
		munmap(self->others, self->reserved * HUGE_PAGE);
	self->reserved = 0;
}

FIXTURE_TEARDOWN(hole)
{
	end_reservation(self);
	EXPECT_TRUE(hugepages_are(self->pool));
	hugepages_make(0);
}

static void touch_hole(int sock, void *p)
{
	*(volatile uint8_t *)p = 1;
}

TEST_F(hole, failed_fault_leaves_the_mount_its_room)
{
	int fd;

	hugetlbfs_mount("size=8M");
	fd = hugetlbfs_file(PAGES);
	reserve(self, POOL);
	for (int i = 1; i <= 3; i++) {
		uint8_t *p = hugepages_map(fd, PAGES, MAP_NORESERVE);
		struct child child;

		child_start(&child, touch_hole, p);
		EXPECT_EQ(-1, child_wait(&child)) TH_LOG("a fault got a page of others");
		munmap(p, PAGES * HUGE_PAGE);
		EXPECT_EQ(4, hugetlbfs_room()) TH_LOG("after %d failed faults", i);
	}
	close(fd);
	hugetlbfs_umount();
}

static void *fill_hole(void *arg)
{
	struct filler *f = arg;
	struct udmabuf_create create = {
		.memfd = f->memfd, .flags = UDMABUF_FLAGS_CLOEXEC, .size = PAGES * HUGE_PAGE,
	};
	int fd;

	pthread_barrier_wait(f->start);
	f->span.begin = now();
	fd = ioctl(f->udmabuf, UDMABUF_CREATE, &create);
	f->err = fd < 0 ? errno : 0;
	f->span.end = now();
	if (fd >= 0)
		close(fd);
	return NULL;
}

/*
 * Two threads make a udmabuf of the same holes at the same time: the errno of one that fails.
 * Add one to *met if their calls did overlap.
 */
static int fill_by_two(int *met)
{
	int memfd = memfd_of(PAGES * HUGE_PAGE, MFD_HUGETLB | MFD_ALLOW_SEALING);
	int udmabuf = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	struct filler fillers[2];
	pthread_barrier_t start;
	pthread_t threads[2];

	if (udmabuf < 0 || fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		fail_case("prepare for udmabuf");
	pthread_barrier_init(&start, NULL, 2);
	for (int i = 0; i < 2; i++) {
		fillers[i] = (struct filler){ .start = &start, .udmabuf = udmabuf, .memfd = memfd };
		if (pthread_create(&threads[i], NULL, fill_hole, &fillers[i]))
			fail_case("start a thread");
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start);
	close(udmabuf);
	close(memfd);
	*met += spans_overlap(&fillers[0].span, &fillers[1].span);
	return fillers[0].err ?: fillers[1].err;
}

/* No other page is left, so the thread that comes second has to take what is there. */
TEST_F(hole, two_threads_get_the_same_pages)
{
	struct hugepages wanted = { .total = PAGES, .free = PAGES };
	int met = 0, i;

	hugepages_make(PAGES);
	self->pool = hugepages_now();
	ASSERT_TRUE(hugepages_are(wanted));
	for (i = 1; met < MEETINGS; i++) {
		ASSERT_EQ(0, fill_by_two(&met)) TH_LOG("call %d of both threads", i);
		ASSERT_TRUE(hugepages_are(self->pool)) TH_LOG("after call %d of both threads", i);
	}
	printf("# of %d calls of both threads %d overlapped\n", i - 1, met);
}

/* The page that comes too late is reserved for somebody else. */
TEST_F(hole, reserved_pages_stay_reserved)
{
	struct hugepages wanted;
	int met = 0, i;

	reserve(self, POOL - PAGES);
	wanted = hugepages_now();
	for (i = 1; met < MEETINGS; i++) {
		fill_by_two(&met);
		ASSERT_TRUE(hugepages_are(wanted)) TH_LOG("after call %d of both threads", i);
	}
	printf("# of %d calls of both threads %d overlapped\n", i - 1, met);
}

TEST_HARNESS_MAIN
