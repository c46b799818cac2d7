// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A dma-buf exporter for tests of importers
 *
 * The exporters in the tree work well, but an importer must also survive those
 * that fail or lack an op.  A user of /dev/dmabuf_test makes buffers, says which
 * op fails with which error or how long it sleeps, adds fences that signal
 * late, and moves or revokes the memory at any time.  This file has the ioctls;
 * the ops are in test-exporter-ops.c.  An importer for tests of other exporters
 * is in test-importer.c.
 *
 * A buffer belongs to its dma-buf; the release op frees it.  By then all counts
 * must be zero.  If an importer did not undo something, the log has a warning.
 *
 * A work item, which holds the dma-buf, signals a fence.  A waiter may hold the
 * reservation lock, so the work item takes the lock only after the signal.
 */

#include <linux/dma-fence.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/miscdevice.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "test-exporter-ops.h"
#include "test-importer.h"

#define DMABUF_TEST_FLAGS \
	(DMABUF_TEST_NO_VMAP | DMABUF_TEST_IOMEM | DMABUF_TEST_ONLY_PIN | \
	 DMABUF_TEST_PIN_MOVES)

/**
 * struct test_fence - a fence that signals late
 * @base: the fence
 * @work: copies the pages of a move, signals, and cleans up
 * @dmabuf: the buffer, with a reference
 * @from: old pages of a move, to copy and then free; else NULL
 * @to: new pages of a move
 */
struct test_fence {
	struct dma_fence base;
	struct delayed_work work;
	struct dma_buf *dmabuf;
	struct page **from;
	struct page **to;
};

static DEFINE_SPINLOCK(test_fence_lock);

static const char *test_fence_name(struct dma_fence *fence)
{
	return "dmabuf_test";
}

static const struct dma_fence_ops test_fence_ops = {
	.get_driver_name = test_fence_name,
	.get_timeline_name = test_fence_name,
};

static void test_copy_pages(struct page **to, struct page **from,
			    unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		copy_highpage(to[i], from[i]);
}

/*
 * Clean up after a move whose fence has signaled. The work item does that, or
 * the next move if it comes first. The caller holds the lock.
 */
static void test_end_move(struct test_buffer *buf)
{
	struct test_fence *fence = buf->moving;

	buf->moving = NULL;
	dmabuf_test_leave_pages(buf, fence->from);
	dmabuf_test_let_go(buf);
}

static void test_fence_work(struct work_struct *work)
{
	struct test_fence *fence = container_of(to_delayed_work(work),
						struct test_fence, work);
	struct dma_buf *dmabuf = fence->dmabuf;
	struct test_buffer *buf = dmabuf->priv;
	bool cookie = dma_fence_begin_signalling();

	if (fence->from)
		test_copy_pages(fence->to, fence->from, dmabuf_test_npages(buf));
	dma_fence_signal(&fence->base);
	dma_fence_end_signalling(cookie);

	dma_resv_lock(dmabuf->resv, NULL);
	if (buf->moving == fence)
		test_end_move(buf);
	dma_resv_unlock(dmabuf->resv);
	dma_fence_put(&fence->base);
	dma_buf_put(dmabuf);
}

/* Start the work now if it has not started. */
static void test_fence_hurry(struct dma_fence *base)
{
	struct test_fence *fence = container_of(base, struct test_fence, base);

	if (cancel_delayed_work(&fence->work))
		queue_delayed_work(system_dfl_wq, &fence->work, 0);
}

static struct test_fence *test_fence_alloc(struct dma_buf *dmabuf)
{
	struct test_fence *fence = kzalloc_obj(*fence);

	if (!fence)
		return NULL;
	INIT_DELAYED_WORK(&fence->work, test_fence_work);
	fence->dmabuf = dmabuf;
	dma_fence_init(&fence->base, &test_fence_ops, &test_fence_lock,
		       dma_fence_context_alloc(1), 1);
	return fence;
}

/* The caller has reserved a slot for the fence. */
static void test_fence_start(struct test_fence *fence,
			     enum dma_resv_usage usage, u32 delay_ms)
{
	dma_resv_add_fence(fence->dmabuf->resv, &fence->base, usage);
	get_dma_buf(fence->dmabuf);
	queue_delayed_work(system_dfl_wq, &fence->work,
			   msecs_to_jiffies(delay_ms));
}

static int test_create(const struct dmabuf_test_create *create)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct test_buffer *buf;
	struct dma_buf *dmabuf;
	int ret = -ENOMEM;

	if (!create->size || create->size % PAGE_SIZE || create->reserved ||
	    create->size > DMABUF_TEST_MAX_SIZE ||
	    create->flags & ~DMABUF_TEST_FLAGS)
		return -EINVAL;

	buf = kzalloc_obj(*buf);
	if (!buf)
		return -ENOMEM;
	buf->size = create->size;
	buf->flags = create->flags;
	buf->pages = dmabuf_test_alloc_pages(dmabuf_test_npages(buf));
	if (!buf->pages)
		goto err_free;

	info.ops = create->flags & DMABUF_TEST_NO_VMAP ?
		   &dmabuf_test_ops_without_vmap : &dmabuf_test_ops;
	info.size = create->size;
	info.flags = O_RDWR;
	info.priv = buf;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		ret = PTR_ERR(dmabuf);
		goto err_free_pages;
	}

	ret = dma_buf_fd(dmabuf, O_CLOEXEC);
	if (ret < 0)
		dma_buf_put(dmabuf); /* test_release() frees the rest */
	return ret;

err_free_pages:
	dmabuf_test_free_pages(buf->pages, dmabuf_test_npages(buf));
err_free:
	kfree(buf);
	return ret;
}

static int test_set_behave(struct dma_buf *dmabuf,
			   const struct dmabuf_test_behave *behave)
{
	struct test_buffer *buf = dmabuf->priv;

	if (behave->op >= DMABUF_TEST_OPS || behave->error > MAX_ERRNO ||
	    behave->delay_ms > DMABUF_TEST_MAX_DELAY)
		return -EINVAL;
	/* No lock: an op that sleeps may hold it. */
	WRITE_ONCE(buf->behave[behave->op].error, behave->error);
	WRITE_ONCE(buf->behave[behave->op].delay_ms, behave->delay_ms);
	return 0;
}

static int test_add_fence(struct dma_buf *dmabuf,
			  const struct dmabuf_test_fence *add)
{
	struct test_fence *fence;
	int ret;

	if (add->usage > DMA_RESV_USAGE_BOOKKEEP ||
	    add->delay_ms > DMABUF_TEST_MAX_DELAY)
		return -EINVAL;
	ret = dma_resv_reserve_fences(dmabuf->resv, 1);
	if (ret)
		return ret;
	fence = test_fence_alloc(dmabuf);
	if (!fence)
		return -ENOMEM;
	test_fence_start(fence, add->usage, add->delay_ms);
	return 0;
}

static void test_signal(struct dma_buf *dmabuf)
{
	struct dma_resv_iter cursor;
	struct dma_fence *fence;

	dma_resv_for_each_fence(&cursor, dmabuf->resv, DMA_RESV_USAGE_BOOKKEEP,
				fence)
		if (rcu_access_pointer(fence->ops) == &test_fence_ops)
			test_fence_hurry(fence);
}

static int test_move(struct dma_buf *dmabuf, const struct dmabuf_test_move *move)
{
	struct test_buffer *buf = dmabuf->priv;
	unsigned int n = dmabuf_test_npages(buf);
	struct test_fence *fence;
	struct page **to;
	int ret;

	if (move->delay_ms > DMABUF_TEST_MAX_DELAY)
		return -EINVAL;
	if (buf->moving && dma_fence_is_signaled(&buf->moving->base))
		test_end_move(buf);
	if (buf->revoked)
		return -ENODEV;
	if (dmabuf_test_held(buf))
		return -EBUSY;
	ret = dma_resv_reserve_fences(dmabuf->resv, 1);
	if (ret)
		return ret;
	to = dmabuf_test_alloc_pages(n);
	if (!to)
		return -ENOMEM;
	fence = test_fence_alloc(dmabuf);
	if (!fence) {
		dmabuf_test_free_pages(to, n);
		return -ENOMEM;
	}

	dma_buf_invalidate_mappings(dmabuf);
	unmap_mapping_range(dmabuf->file->f_mapping, 0, 0, 1);
	dmabuf_test_poison(to, n);
	fence->from = buf->pages;
	fence->to = to;
	buf->pages = to;
	buf->moving = fence;
	buf->count.moves++;
	test_fence_start(fence, DMA_RESV_USAGE_KERNEL, move->delay_ms);
	return 0;
}

static void test_revoke(struct dma_buf *dmabuf)
{
	struct test_buffer *buf = dmabuf->priv;

	buf->revoked = true;
	dma_buf_invalidate_mappings(dmabuf);
	unmap_mapping_range(dmabuf->file->f_mapping, 0, 0, 1);
	dmabuf_test_let_go(buf);
}

static void test_query(struct dma_buf *dmabuf, struct dmabuf_test_query *query)
{
	struct test_buffer *buf = dmabuf->priv;
	int fd = query->fd;

	*query = buf->count;
	query->fd = fd;
	query->pages = buf->pages ? dmabuf_test_npages(buf) : 0;
}

static struct dma_buf *test_get(int fd)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);

	if (IS_ERR(dmabuf) || dmabuf->ops == &dmabuf_test_ops ||
	    dmabuf->ops == &dmabuf_test_ops_without_vmap)
		return dmabuf;
	dma_buf_put(dmabuf);
	return ERR_PTR(-EINVAL);
}

static int test_create_ioctl(void __user *arg)
{
	struct dmabuf_test_create create;

	if (copy_from_user(&create, arg, sizeof(create)))
		return -EFAULT;
	return test_create(&create);
}

/* The ioctls of a buffer. Its fd is the first field of @arg. */
static int test_buffer_ioctl(unsigned int cmd, void __user *arg)
{
	union {
		__s32 fd;
		struct dmabuf_test_behave behave;
		struct dmabuf_test_fence fence;
		struct dmabuf_test_move move;
		struct dmabuf_test_query query;
	} u;
	struct dma_buf *dmabuf;
	int ret;

	if (_IOC_SIZE(cmd) > sizeof(u))
		return -ENOTTY;
	if (copy_from_user(&u, arg, _IOC_SIZE(cmd)))
		return -EFAULT;
	dmabuf = test_get(u.fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);

	if (cmd == DMABUF_TEST_BEHAVE) {
		ret = test_set_behave(dmabuf, &u.behave);
		goto out;
	}
	ret = dma_resv_lock_interruptible(dmabuf->resv, NULL);
	if (ret)
		goto out;
	switch (cmd) {
	case DMABUF_TEST_FENCE:
		ret = test_add_fence(dmabuf, &u.fence);
		break;
	case DMABUF_TEST_SIGNAL:
		test_signal(dmabuf);
		break;
	case DMABUF_TEST_MOVE:
		ret = test_move(dmabuf, &u.move);
		break;
	case DMABUF_TEST_REVOKE:
		test_revoke(dmabuf);
		break;
	case DMABUF_TEST_QUERY:
		test_query(dmabuf, &u.query);
		break;
	default:
		ret = -ENOTTY;
	}
	dma_resv_unlock(dmabuf->resv);
	if (!ret && cmd == DMABUF_TEST_QUERY &&
	    copy_to_user(arg, &u.query, sizeof(u.query)))
		ret = -EFAULT;
out:
	dma_buf_put(dmabuf);
	return ret;
}

static struct miscdevice test_device;

static int test_import_ioctl(void __user *arg)
{
	struct dmabuf_test_import import;

	if (copy_from_user(&import, arg, sizeof(import)))
		return -EFAULT;
	return dmabuf_test_import(test_device.this_device, &import);
}

static long test_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;

	switch (cmd) {
	case DMABUF_TEST_CREATE:
		return test_create_ioctl(user);
	case DMABUF_TEST_IMPORT:
		return test_import_ioctl(user);
	default:
		return test_buffer_ioctl(cmd, user);
	}
}

static const struct file_operations test_fops = {
	.unlocked_ioctl = test_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice test_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "dmabuf_test",
	.fops = &test_fops,
};

/* The importer maps for this device, which takes pieces of any length. */
static struct device_dma_parameters test_dma_parms;

static int __init test_init(void)
{
	struct device *dev;
	int ret;

	ret = misc_register(&test_device);
	if (ret)
		return ret;
	dev = test_device.this_device;
	dev->dma_parms = &test_dma_parms;
	dma_set_max_seg_size(dev, UINT_MAX);
	ret = dma_coerce_mask_and_coherent(dev, DMA_BIT_MASK(64));
	if (ret)
		misc_deregister(&test_device);
	return ret;
}

device_initcall(test_init);
