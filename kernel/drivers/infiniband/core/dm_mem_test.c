// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit tests of the memory of a DM
 *
 * The memory is a range of a BAR that nobody touches: the tests count how often it is given
 * back, and when.  What importers do with memory is in dm_dmabuf_test.c.
 */

#include <linux/dma-fence.h>
#include <linux/dma-resv.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>
#include <rdma/ib_dm.h>

#include "umem_fd_test.h"

/**
 * struct mem_fixture - what each test has
 * @ibdev: the device with the BAR
 * @mem: the range, of which the test is a user until it says otherwise
 * @given_back: how often the range was given back
 */
struct mem_fixture {
	struct ib_device *ibdev;
	struct ib_dm_mem *mem;
	atomic_t given_back;
};

static void mem_release(void *priv)
{
	struct mem_fixture *f = priv;

	atomic_inc(&f->given_back);
}

static int mem_test_init(struct kunit *test)
{
	struct mem_fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	test->priv = f;
	f->ibdev = new_device(test);
	f->mem = ib_dm_mem_of_bar(f->ibdev, SZ_1G, PAGE_SIZE, mem_release, f);
	KUNIT_ASSERT_NOT_NULL(test, f->mem);
	return 0;
}

static void mem_test_exit(struct kunit *test)
{
	flush_workqueue(ib_wq); /* the fixture goes */
}

static int given_back(struct mem_fixture *f)
{
	flush_workqueue(ib_wq);
	return atomic_read(&f->given_back);
}

static void test_last_user_gives_the_memory_back(struct kunit *test)
{
	struct mem_fixture *f = test->priv;

	ib_dm_mem_get(f->mem);
	ib_dm_mem_put(f->mem);
	KUNIT_EXPECT_EQ(test, 0, given_back(f));
	ib_dm_mem_put(f->mem);
	KUNIT_EXPECT_EQ(test, 1, given_back(f));
}

static void test_sole_owner_gives_the_memory_back_at_once(struct kunit *test)
{
	struct mem_fixture *f = test->priv;

	ib_dm_mem_put_now(f->mem);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&f->given_back));
}

static const char *mem_fence_name(struct dma_fence *fence)
{
	return "dm_mem_test";
}

static const struct dma_fence_ops mem_fence_ops = {
	.get_driver_name = mem_fence_name,
	.get_timeline_name = mem_fence_name,
};

struct mem_fence {
	struct dma_fence base;
	spinlock_t lock; /* of the fence */
};

/* A fence of which the memory has the only other reference, or NULL. */
static struct dma_fence *add_fence(struct ib_dm_mem *mem)
{
	struct mem_fence *fence = kzalloc_obj(*fence); /* freed with its last reference */
	int ret;

	if (!fence)
		return NULL;
	spin_lock_init(&fence->lock);
	dma_fence_init(&fence->base, &mem_fence_ops, &fence->lock,
		       dma_fence_context_alloc(1), 1);
	dma_resv_lock(&mem->resv, NULL);
	ret = dma_resv_reserve_fences(&mem->resv, 1);
	if (!ret)
		dma_resv_add_fence(&mem->resv, &fence->base, DMA_RESV_USAGE_BOOKKEEP);
	dma_resv_unlock(&mem->resv);
	if (!ret)
		return &fence->base;
	dma_fence_put(&fence->base);
	return NULL;
}

/* Also one by one, and the last one first. */
static void test_fences_hold_the_memory(struct kunit *test)
{
	struct mem_fixture *f = test->priv;
	struct dma_fence *fence[2];
	int i;

	for (i = 0; i < 2; i++) {
		fence[i] = add_fence(f->mem);
		KUNIT_ASSERT_NOT_NULL(test, fence[i]);
	}
	ib_dm_mem_put_now(f->mem);
	for (i = 1; i >= 0; i--) {
		KUNIT_EXPECT_EQ(test, 0, given_back(f));
		dma_fence_signal(fence[i]);
		dma_fence_put(fence[i]);
	}
	KUNIT_EXPECT_EQ(test, 1, given_back(f));
}

struct mem_user {
	struct delayed_work work;
	struct ib_dm_mem *mem;
};

static void mem_user_work(struct work_struct *work)
{
	ib_dm_mem_put(container_of(work, struct mem_user, work.work)->mem);
}

static void test_removal_waits_for_users(struct kunit *test)
{
	struct mem_fixture *f = test->priv;
	struct mem_user user = { .mem = f->mem };

	INIT_DELAYED_WORK_ONSTACK(&user.work, mem_user_work);
	schedule_delayed_work(&user.work, HZ / 50);
	ib_dm_remove_device(f->ibdev);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&f->given_back));
	flush_delayed_work(&user.work);
	destroy_delayed_work_on_stack(&user.work);
}

/* The device takes its memory back, once; what the user has ends without the device. */
static void test_removal_ends_with_a_user_that_stays(struct kunit *test)
{
	struct mem_fixture *f = test->priv;

	ib_dm_remove_device(f->ibdev);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&f->given_back));
	ib_dm_mem_put(f->mem);
	KUNIT_EXPECT_EQ(test, 1, given_back(f));
}

static void test_removal_ends_with_a_fence_that_stays(struct kunit *test)
{
	struct mem_fixture *f = test->priv;
	struct dma_fence *fence = add_fence(f->mem);

	KUNIT_ASSERT_NOT_NULL(test, fence);
	ib_dm_mem_put_now(f->mem);
	ib_dm_remove_device(f->ibdev);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&f->given_back));
	dma_fence_signal(fence);
	dma_fence_put(fence);
	KUNIT_EXPECT_EQ(test, 1, given_back(f));
}

static struct kunit_case dm_mem_cases[] = {
	KUNIT_CASE(test_last_user_gives_the_memory_back),
	KUNIT_CASE(test_sole_owner_gives_the_memory_back_at_once),
	KUNIT_CASE(test_fences_hold_the_memory),
	KUNIT_CASE(test_removal_waits_for_users),
	KUNIT_CASE_SLOW(test_removal_ends_with_a_user_that_stays),
	KUNIT_CASE_SLOW(test_removal_ends_with_a_fence_that_stays),
	{}
};

static struct kunit_suite dm_mem_suite = {
	.name = "ib_dm_mem",
	.init = mem_test_init,
	.exit = mem_test_exit,
	.test_cases = dm_mem_cases,
};

kunit_test_suite(dm_mem_suite);
