// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A dma-buf exporter for tests of importers
 *
 * Exporters in the tree behave; an importer has to survive those that do not,
 * and those that lack an op. A user of /dev/dmabuf_test makes buffers of zeroed
 * vmalloc memory that fail in a chosen place with a chosen error. There is no
 * DMA to them.
 *
 * The buffer belongs to the dma-buf and is freed in its release op. The
 * counters of vmaps and of CPU access brackets must be back at zero by then:
 * an importer that did not undo what it did is told of in the log.
 */

#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/iosys-map.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "test-exporter.h"

#define DMABUF_TEST_FAILS (DMABUF_TEST_FAIL_VMAP | \
			   DMABUF_TEST_FAIL_BEGIN_CPU_ACCESS)
#define DMABUF_TEST_FLAGS (DMABUF_TEST_NO_VMAP | DMABUF_TEST_FAILS)

struct test_buffer {
	void *vaddr;
	u32 flags;
	int error;
	atomic_t vmaps;
	atomic_t brackets;
};

static int test_attach(struct dma_buf *dmabuf,
		       struct dma_buf_attachment *attach)
{
	return -EOPNOTSUPP;
}

static struct sg_table *test_map(struct dma_buf_attachment *attach,
				 enum dma_data_direction dir)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static void test_unmap(struct dma_buf_attachment *attach,
		       struct sg_table *sgt, enum dma_data_direction dir)
{
}

static void test_release(struct dma_buf *dmabuf)
{
	struct test_buffer *buf = dmabuf->priv;

	WARN_ON(atomic_read(&buf->vmaps) || atomic_read(&buf->brackets));
	vfree(buf->vaddr);
	kfree(buf);
}

static int test_begin_cpu_access(struct dma_buf *dmabuf,
				 enum dma_data_direction dir)
{
	struct test_buffer *buf = dmabuf->priv;

	if (buf->flags & DMABUF_TEST_FAIL_BEGIN_CPU_ACCESS)
		return -buf->error;
	atomic_inc(&buf->brackets);
	return 0;
}

static int test_end_cpu_access(struct dma_buf *dmabuf,
			       enum dma_data_direction dir)
{
	struct test_buffer *buf = dmabuf->priv;

	atomic_dec(&buf->brackets);
	return 0;
}

static int test_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	struct test_buffer *buf = dmabuf->priv;

	return remap_vmalloc_range(vma, buf->vaddr, vma->vm_pgoff);
}

static int test_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct test_buffer *buf = dmabuf->priv;

	if (buf->flags & DMABUF_TEST_FAIL_VMAP)
		return -buf->error;
	atomic_inc(&buf->vmaps);
	iosys_map_set_vaddr(map, buf->vaddr);
	return 0;
}

static void test_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct test_buffer *buf = dmabuf->priv;

	atomic_dec(&buf->vmaps);
}

#define TEST_OPS					\
	.attach = test_attach,				\
	.map_dma_buf = test_map,			\
	.unmap_dma_buf = test_unmap,			\
	.release = test_release,			\
	.begin_cpu_access = test_begin_cpu_access,	\
	.end_cpu_access = test_end_cpu_access,		\
	.mmap = test_mmap

static const struct dma_buf_ops test_ops = {
	TEST_OPS,
	.vmap = test_vmap,
	.vunmap = test_vunmap,
};

static const struct dma_buf_ops test_ops_without_vmap = {
	TEST_OPS,
};

static int test_create(const struct dmabuf_test_create *create)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct test_buffer *buf;
	struct dma_buf *dmabuf;
	int ret = -ENOMEM;

	if (!create->size || create->size % PAGE_SIZE ||
	    create->size > 64 << 20 || create->flags & ~DMABUF_TEST_FLAGS)
		return -EINVAL;

	/* An op that fails without an error would not fail. */
	if (create->error > MAX_ERRNO ||
	    (create->flags & DMABUF_TEST_FAILS && !create->error))
		return -EINVAL;

	buf = kzalloc(sizeof(*buf), GFP_KERNEL);
	if (!buf)
		return -ENOMEM;
	buf->vaddr = vmalloc_user(create->size);
	if (!buf->vaddr)
		goto err_free;
	buf->flags = create->flags;
	buf->error = create->error;

	info.ops = create->flags & DMABUF_TEST_NO_VMAP ?
		   &test_ops_without_vmap : &test_ops;
	info.size = create->size;
	info.flags = O_RDWR;
	info.priv = buf;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		ret = PTR_ERR(dmabuf);
		goto err_vfree;
	}

	ret = dma_buf_fd(dmabuf, O_CLOEXEC);
	if (ret < 0)
		dma_buf_put(dmabuf); /* and all the rest, by test_release() */
	return ret;

err_vfree:
	vfree(buf->vaddr);
err_free:
	kfree(buf);
	return ret;
}

static long test_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct dmabuf_test_create create;

	if (cmd != DMABUF_TEST_CREATE)
		return -ENOTTY;
	if (copy_from_user(&create, (void __user *)arg, sizeof(create)))
		return -EFAULT;
	return test_create(&create);
}

static const struct file_operations test_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = test_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice test_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "dmabuf_test",
	.fops = &test_fops,
};
module_misc_device(test_device);

MODULE_DESCRIPTION("dma-buf exporter for tests of importers");
MODULE_IMPORT_NS(DMA_BUF);
MODULE_LICENSE("Dual BSD/GPL");
