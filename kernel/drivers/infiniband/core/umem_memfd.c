// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * User memory that is a file in memory: memfd_create(), tmpfs, hugetlbfs
 *
 * To register such memory by address, the process has to map it, and the
 * mapping decides what is pinned.  Here the user specifies the file itself: its
 * folios are looked up in the page cache, or allocated where the file has a
 * hole, and pinned.  The rest is as with ib_umem_get_va(): an sg_table that is
 * mapped for DMA, and pages that count in pinned_vm of the process.
 *
 * As with all pinned memory, the folios stay whatever happens to the file.  If
 * the file is truncated, the region keeps its folios, and the file gets new
 * ones when it grows again.  A file cannot be sealed against writing while it
 * is pinned, and a sealed file cannot be registered for writing.
 */

#include <kunit/visibility.h>
#include <linux/hugetlb.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/shmem_fs.h>
#include <rdma/ib_umem_fd.h>
#include <uapi/linux/fcntl.h>

/*
 * Pages to pin at a time; a fatal signal ends the work in between. Each folio of
 * a chunk is pinned once, so a folio that is in two chunks is pinned twice.
 */
#define IB_MEMFD_CHUNK (PAGE_SIZE / sizeof(struct page *))

static unsigned int ib_memfd_seals(struct file *file)
{
	if (shmem_file(file))
		return SHMEM_I(file_inode(file))->seals;
#ifdef CONFIG_HUGETLBFS
	if (is_file_hugepages(file))
		return HUGETLBFS_I(file_inode(file))->seals;
#endif
	return 0;
}

/*
 * List the pages of a chunk: at most MAX pages of NR folios, from byte OFFSET of
 * the first folio on. Return how many they are.
 */
VISIBLE_IF_KUNIT
unsigned int ib_memfd_pages(struct folio **folios, long nr, pgoff_t offset,
			    unsigned int max, struct page **pages)
{
	unsigned long index = offset >> PAGE_SHIFT;
	unsigned int n = 0;
	long i;

	for (i = 0; i < nr; i++) {
		for (; index < folio_nr_pages(folios[i]) && n < max; index++)
			pages[n++] = folio_page(folios[i], index);
		index = 0;
	}
	return n;
}

/* Append N pages to the table; LEFT more pages will follow. */
static int ib_memfd_append(struct ib_umem *umem, struct page **pages,
			   unsigned int n, unsigned int left)
{
	unsigned int max = ib_dma_max_seg_size(umem->ibdev);

	return sg_alloc_append_table_from_pages(&umem->sgt_append, pages, n, 0,
						(unsigned long)n << PAGE_SHIFT,
						max, left, GFP_KERNEL);
}

/* Pin the bytes from POS to END, at most a chunk, and append them. */
static int ib_memfd_pin_chunk(struct ib_umem *umem, struct file *file, u64 pos,
			      u64 end, unsigned int left)
{
	unsigned int npages = DIV_ROUND_UP(end - pos, PAGE_SIZE);
	struct folio **folios;
	struct page **pages;
	pgoff_t offset;
	int ret = -ENOMEM;
	long nr;

	folios = (struct folio **)__get_free_page(GFP_KERNEL);
	pages = (struct page **)__get_free_page(GFP_KERNEL);
	if (!folios || !pages)
		goto out_free;

	/* Truncation and hole punching do not come between two folios. */
	inode_lock_shared(file_inode(file));
	nr = memfd_pin_folios(file, pos, end - 1, folios, npages, &offset);
	inode_unlock_shared(file_inode(file));
	if (nr < 0) {
		ret = nr;
		goto out_free;
	}

	if (ib_memfd_pages(folios, nr, offset, npages, pages) == npages)
		ret = ib_memfd_append(umem, pages, npages, left);
	else
		ret = -EFAULT;
	if (ret)
		unpin_folios(folios, nr);

out_free:
	free_page((unsigned long)pages);
	free_page((unsigned long)folios);
	return ret;
}

static int ib_memfd_pin(struct ib_umem *umem, struct file *file)
{
	u64 end = umem->address + umem->length;
	u64 pos, next;
	int ret;

	for (pos = ALIGN_DOWN(umem->address, PAGE_SIZE); pos < end; pos = next) {
		cond_resched();
		if (fatal_signal_pending(current))
			return -EINTR;

		next = min(end, pos + IB_MEMFD_CHUNK * PAGE_SIZE);
		ret = ib_memfd_pin_chunk(umem, file, pos, next,
					 DIV_ROUND_UP(end - next, PAGE_SIZE));
		if (ret)
			return ret;
	}
	return 0;
}

static void ib_memfd_mark_dirty(struct folio *folio)
{
	if (folio_test_dirty(folio))
		return;

	folio_lock(folio);
	folio_mark_dirty(folio);
	folio_unlock(folio);
}

/*
 * The table has the pages in the order of the file. Unpin a folio at its first
 * page in a chunk, and then do not touch its other pages: the folio may be gone.
 */
static void ib_memfd_unpin(struct ib_umem *umem, bool make_dirty)
{
	unsigned long i = 0, next = 0;
	struct sg_page_iter iter;
	struct folio *folio;
	struct page *page;

	for_each_sgtable_page(&umem->sgt_append.sgt, &iter, 0) {
		if (i++ < next)
			continue;

		cond_resched();
		page = sg_page_iter_page(&iter);
		folio = page_folio(page);
		next = min(i - 1 + folio_nr_pages(folio) -
				   folio_page_idx(folio, page),
			   roundup(i, IB_MEMFD_CHUNK));
		if (make_dirty)
			ib_memfd_mark_dirty(folio);
		unpin_folio(folio);
	}
	sg_free_append_table(&umem->sgt_append);
}

/*
 * Pin the file, unless the region writes and the file is sealed against that.
 * As in mmap(), mapping_map_writable() keeps others from sealing the file in
 * the meantime.  Afterwards the pins do.
 */
static int ib_memfd_pin_unsealed(struct ib_umem *umem, struct file *file)
{
	int ret;

	if (!umem->writable)
		return ib_memfd_pin(umem, file);

	ret = mapping_map_writable(file->f_mapping);
	if (ret)
		return ret;

	if (ib_memfd_seals(file) & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		ret = -EPERM;
	else
		ret = ib_memfd_pin(umem, file);

	mapping_unmap_writable(file->f_mapping);
	return ret;
}

static int ib_umem_memfd_init(struct ib_umem *umem, struct file *file)
{
	int ret;

	ret = ib_umem_charge(umem, ib_umem_num_pages(umem));
	if (ret)
		return ret;

	ret = ib_memfd_pin_unsealed(umem, file);
	if (ret)
		goto err_unpin;

	ret = ib_dma_map_sgtable_attrs(umem->ibdev, &umem->sgt_append.sgt,
				       DMA_BIDIRECTIONAL, umem->dma_attrs);
	if (!ret)
		return 0;

err_unpin:
	ib_memfd_unpin(umem, false);
	ib_umem_uncharge(umem, ib_umem_num_pages(umem));
	return ret;
}

/**
 * ib_umem_memfd_get - ib_umem_get_buffer() for a file in memory
 * @device: device that will use the memory
 * @buffer: the memory, lent by the core
 *
 * Context: process context of the user, may sleep.
 *
 * Return: as ib_umem_get_buffer().
 */
struct ib_umem *ib_umem_memfd_get(struct ib_device *device,
				  const struct ib_mr_buffer *buffer)
{
	struct ib_umem *umem;
	int ret;

	/* The device would see bounce buffers, which nobody copies from or to. */
	if (device->cc_dma_bounce)
		return ERR_PTR(-EOPNOTSUPP);

	umem = kzalloc_obj(*umem);
	if (!umem)
		return ERR_PTR(-ENOMEM);

	umem->ibdev = device;
	umem->iova = buffer->iova;
	umem->length = buffer->length;
	umem->address = buffer->addr;
	umem->writable = ib_access_writable(buffer->access);
	umem->is_memfd = 1;
	umem->dma_attrs = DMA_ATTR_REQUIRE_COHERENT;
	if (buffer->access & IB_ACCESS_RELAXED_ORDERING)
		umem->dma_attrs |= DMA_ATTR_WEAK_ORDERING;

	ret = ib_umem_memfd_init(umem, buffer->file);
	if (!ret)
		return umem;

	kfree(umem);
	/* The only cause: the file was truncated after its size was checked. */
	return ERR_PTR(ret == -EINVAL ? -ERANGE : ret);
}

/**
 * ib_umem_memfd_release - ib_umem_release() for a file in memory
 * @umem: the umem; no access to the memory may be in progress
 *
 * Context: may sleep.
 */
void ib_umem_memfd_release(struct ib_umem *umem)
{
	ib_dma_unmap_sgtable_attrs(umem->ibdev, &umem->sgt_append.sgt,
				   DMA_BIDIRECTIONAL, umem->dma_attrs);
	ib_memfd_unpin(umem, umem->writable);
	ib_umem_uncharge(umem, ib_umem_num_pages(umem));
	kfree(umem);
}
