// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A dma-buf exporter for tests of importers: the memory and the ops
 *
 * A buffer consists of single pages that are never contiguous: only vmap()
 * makes them so, and a scatter list has an entry for each.  A vmap and a pin
 * hold the memory in place, since an exporter cannot take them back.  While
 * there is one, a move is refused, and a revoke refuses new users but does not
 * free the memory yet.
 *
 * With DMABUF_TEST_ONLY_PIN a vmap does not hold it, as with the exporters that
 * use TTM: the buffer moves, also when CPU access begins, and the vmap goes on
 * showing the old pages, which get other bytes.
 *
 * With DMABUF_TEST_PIN_MOVES a pin moves it first, as amdgpu and xe do, and every
 * importer is told, also the one that pins.
 *
 * What is called I/O memory here is RAM, where every access works.  Whether
 * importers use the I/O accessors has to be observed in another way.
 */

#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/highmem.h>
#include <linux/iosys-map.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/vmalloc.h>

#include "test-exporter-ops.h"

#define TEST_POISON 0xa5

void dmabuf_test_poison(struct page **pages, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		memset_page(pages[i], 0, TEST_POISON, PAGE_SIZE);
}

void dmabuf_test_free_pages(struct page **pages, unsigned int n)
{
	unsigned int i;

	if (!pages)
		return;
	for (i = 0; i < n; i++)
		if (pages[i])
			__free_page(pages[i]);
	kvfree(pages);
}

static int test_compare_pfns(const void *a, const void *b)
{
	unsigned long x = page_to_pfn(*(struct page **)a);
	unsigned long y = page_to_pfn(*(struct page **)b);

	return x < y ? 1 : x > y ? -1 : 0;
}

struct page **dmabuf_test_alloc_pages(unsigned int n)
{
	struct page **pages = kvcalloc(n, sizeof(*pages), GFP_KERNEL);
	unsigned int i;

	if (!pages)
		return NULL;
	for (i = 0; i < n; i++) {
		pages[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!pages[i]) {
			dmabuf_test_free_pages(pages, n);
			return NULL;
		}
	}
	/* In descending order no two pages can be merged into one entry. */
	sort(pages, n, sizeof(*pages), test_compare_pfns, NULL);
	return pages;
}

bool dmabuf_test_held(const struct test_buffer *buf)
{
	return (buf->count.vmaps && !(buf->flags & DMABUF_TEST_ONLY_PIN)) ||
	       buf->count.pins || buf->moving;
}

/* The buffer has moved from these pages. A vmap may show them until its end. */
void dmabuf_test_leave_pages(struct test_buffer *buf, struct page **pages)
{
	unsigned int n = dmabuf_test_npages(buf);

	if (!buf->count.vmaps || buf->left) {
		dmabuf_test_free_pages(pages, n);
		return;
	}
	dmabuf_test_poison(pages, n);
	buf->left = pages;
}

/* Free memory that was revoked, unless something holds it. */
void dmabuf_test_let_go(struct test_buffer *buf)
{
	if (!buf->revoked || dmabuf_test_held(buf) || buf->count.vmaps)
		return;
	dmabuf_test_free_pages(buf->pages, dmabuf_test_npages(buf));
	buf->pages = NULL;
}

static int test_wait_moved(struct dma_buf *dmabuf)
{
	long ret = dma_resv_wait_timeout(dmabuf->resv, DMA_RESV_USAGE_KERNEL,
					 true, MAX_SCHEDULE_TIMEOUT);

	return min(ret, 0L);
}

static int test_behave(struct test_buffer *buf, enum dmabuf_test_op op)
{
	u32 error = READ_ONCE(buf->behave[op].error);

	if (msleep_interruptible(READ_ONCE(buf->behave[op].delay_ms)))
		return -ERESTARTSYS;
	return -(int)error;
}

static int test_attach(struct dma_buf *dmabuf,
		       struct dma_buf_attachment *attach)
{
	struct test_buffer *buf = dmabuf->priv;
	int ret = test_behave(buf, DMABUF_TEST_ATTACH);

	if (ret)
		return ret;
	dma_resv_lock(dmabuf->resv, NULL);
	buf->count.attachments++;
	dma_resv_unlock(dmabuf->resv);
	return 0;
}

static void test_detach(struct dma_buf *dmabuf,
			struct dma_buf_attachment *attach)
{
	struct test_buffer *buf = dmabuf->priv;

	dma_resv_lock(dmabuf->resv, NULL);
	buf->count.attachments--;
	dma_resv_unlock(dmabuf->resv);
}

/* Move at once, if nothing prevents it. */
static int test_move_now(struct dma_buf *dmabuf)
{
	struct test_buffer *buf = dmabuf->priv;
	unsigned int i, n = dmabuf_test_npages(buf);
	struct page **to, **from = buf->pages;

	if (dmabuf_test_held(buf))
		return 0;
	to = dmabuf_test_alloc_pages(n);
	if (!to)
		return -ENOMEM;

	dma_buf_invalidate_mappings(dmabuf);
	unmap_mapping_range(dmabuf->file->f_mapping, 0, 0, 1);
	for (i = 0; i < n; i++)
		copy_highpage(to[i], from[i]);
	buf->pages = to;
	buf->count.moves++;
	dmabuf_test_leave_pages(buf, from);
	return 0;
}

static int test_pin(struct dma_buf_attachment *attach)
{
	struct test_buffer *buf = attach->dmabuf->priv;
	int ret;

	if (buf->revoked)
		return -ENODEV;
	if (buf->flags & DMABUF_TEST_PIN_MOVES) {
		ret = test_move_now(attach->dmabuf);
		if (ret)
			return ret;
	}
	/* Whoever maps waits for the fence of a move that is not done. */
	buf->count.pins++;
	return 0;
}

static void test_unpin(struct dma_buf_attachment *attach)
{
	struct test_buffer *buf = attach->dmabuf->priv;

	buf->count.pins--;
	dmabuf_test_let_go(buf);
}

static struct sg_table *test_map(struct dma_buf_attachment *attach,
				 enum dma_data_direction dir)
{
	struct test_buffer *buf = attach->dmabuf->priv;
	int ret = test_behave(buf, DMABUF_TEST_MAP);
	struct sg_table *sgt;

	if (ret)
		return ERR_PTR(ret);
	if (buf->flags & DMABUF_TEST_IOMEM)
		return ERR_PTR(-EOPNOTSUPP); /* no bus address */
	if (buf->revoked)
		return ERR_PTR(-ENODEV);

	sgt = kzalloc_obj(*sgt);
	if (!sgt)
		return ERR_PTR(-ENOMEM);
	ret = sg_alloc_table_from_pages(sgt, buf->pages, dmabuf_test_npages(buf), 0,
					buf->size, GFP_KERNEL);
	if (ret)
		goto err_free;
	ret = dma_map_sgtable(attach->dev, sgt, dir, 0);
	if (ret)
		goto err_free_table;
	buf->count.maps++;
	buf->count.sg_entries = sgt->nents;
	return sgt;

err_free_table:
	sg_free_table(sgt);
err_free:
	kfree(sgt);
	return ERR_PTR(ret);
}

static void test_unmap(struct dma_buf_attachment *attach,
		       struct sg_table *sgt, enum dma_data_direction dir)
{
	struct test_buffer *buf = attach->dmabuf->priv;

	buf->count.maps--;
	dma_unmap_sgtable(attach->dev, sgt, dir, 0);
	sg_free_table(sgt);
	kfree(sgt);
}

static int test_begin_cpu_access(struct dma_buf *dmabuf,
				 enum dma_data_direction dir)
{
	struct test_buffer *buf = dmabuf->priv;
	int ret = test_behave(buf, DMABUF_TEST_BEGIN_CPU_ACCESS);

	if (ret)
		return ret;
	ret = dma_resv_lock_interruptible(dmabuf->resv, NULL);
	if (ret)
		return ret;
	/* A second vmap does not reach test_vmap(), so fail here. */
	if (buf->revoked)
		ret = -ENODEV;
	else if (buf->flags & DMABUF_TEST_ONLY_PIN)
		ret = test_move_now(dmabuf);
	if (!ret)
		buf->count.brackets++;
	dma_resv_unlock(dmabuf->resv);
	return ret;
}

static int test_end_cpu_access(struct dma_buf *dmabuf,
			       enum dma_data_direction dir)
{
	struct test_buffer *buf = dmabuf->priv;

	dma_resv_lock(dmabuf->resv, NULL);
	buf->count.brackets--;
	dma_resv_unlock(dmabuf->resv);
	return 0;
}

static int test_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct test_buffer *buf = dmabuf->priv;
	int ret = test_behave(buf, DMABUF_TEST_VMAP);

	if (ret)
		return ret;
	if (buf->revoked)
		return -ENODEV;
	buf->vaddr = vmap(buf->pages, dmabuf_test_npages(buf), VM_MAP, PAGE_KERNEL);
	if (!buf->vaddr)
		return -ENOMEM;
	buf->count.vmaps++;
	if (buf->flags & DMABUF_TEST_IOMEM)
		iosys_map_set_vaddr_iomem(map, (void __iomem __force *)buf->vaddr);
	else
		iosys_map_set_vaddr(map, buf->vaddr);
	return 0;
}

static void test_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct test_buffer *buf = dmabuf->priv;

	vunmap(buf->vaddr);
	buf->count.vmaps--;
	dmabuf_test_free_pages(buf->left, dmabuf_test_npages(buf));
	buf->left = NULL;
	dmabuf_test_let_go(buf);
}

static vm_fault_t test_fault(struct vm_fault *vmf)
{
	struct dma_buf *dmabuf = vmf->vma->vm_private_data;
	struct test_buffer *buf = dmabuf->priv;
	vm_fault_t ret = VM_FAULT_SIGBUS;

	if (dma_resv_lock_interruptible(dmabuf->resv, NULL))
		return VM_FAULT_NOPAGE; /* handle the signal, then fault again */
	if (test_wait_moved(dmabuf))
		ret = VM_FAULT_NOPAGE;
	else if (!buf->revoked && vmf->pgoff < dmabuf_test_npages(buf))
		ret = vmf_insert_pfn(vmf->vma, vmf->address,
				     page_to_pfn(buf->pages[vmf->pgoff]));
	dma_resv_unlock(dmabuf->resv);
	return ret;
}

static const struct vm_operations_struct test_vm_ops = {
	.fault = test_fault,
};

static int test_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vma->vm_ops = &test_vm_ops;
	vma->vm_private_data = dmabuf;
	vm_flags_set(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
	return 0;
}

static void test_release(struct dma_buf *dmabuf)
{
	struct test_buffer *buf = dmabuf->priv;
	const struct dmabuf_test_query *count = &buf->count;

	WARN(count->vmaps || count->brackets || count->attachments ||
	     count->pins || count->maps,
	     "left: %u vmaps, %u brackets, %u attachments, %u pins, %u maps\n",
	     count->vmaps, count->brackets, count->attachments, count->pins,
	     count->maps);
	dmabuf_test_free_pages(buf->pages, dmabuf_test_npages(buf));
	kfree(buf);
}

#define TEST_OPS					\
	.attach = test_attach,				\
	.detach = test_detach,				\
	.pin = test_pin,				\
	.unpin = test_unpin,				\
	.map_dma_buf = test_map,			\
	.unmap_dma_buf = test_unmap,			\
	.release = test_release,			\
	.begin_cpu_access = test_begin_cpu_access,	\
	.end_cpu_access = test_end_cpu_access,		\
	.mmap = test_mmap

const struct dma_buf_ops dmabuf_test_ops = {
	TEST_OPS,
	.vmap = test_vmap,
	.vunmap = test_vunmap,
};

const struct dma_buf_ops dmabuf_test_ops_without_vmap = {
	TEST_OPS,
};
