// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * User memory that is a file in memory: memfd_create(), tmpfs, hugetlbfs
 *
 * To register such memory by address, the process has to map it, and the
 * mapping decides what is pinned.  Here the user specifies the file itself: its
 * folios are looked up in the page cache, or allocated where the file has a
 * hole, and pinned.  The rest is as with ib_umem_get(): an sg_table that is
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
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/shmem_fs.h>
#include <rdma/ib_umem_fd.h>
#include <uapi/linux/fcntl.h>

/* Bytes to pin at a time; a fatal signal ends the work in between. */
#define IB_MEMFD_CHUNK (PAGE_SIZE * (PAGE_SIZE / sizeof(struct page *)))

/**
 * struct ib_umem_memfd - a file in memory that is pinned
 * @umem: what drivers see; @umem.address is the region's offset in the file
 * @folios: the pinned folios, in the order of the file; a folio that is in two
 *	chunks is listed twice, and pinned twice
 * @nr_folios: number of entries of @folios
 */
struct ib_umem_memfd {
	struct ib_umem umem;
	struct folio **folios;
	unsigned long nr_folios;
};

static struct ib_umem_memfd *to_ib_umem_memfd(struct ib_umem *umem)
{
	return container_of(umem, struct ib_umem_memfd, umem);
}

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

static int ib_memfd_charge(struct ib_umem *umem)
{
	unsigned long lock_limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	unsigned long npages = ib_umem_num_pages(umem);
	struct mm_struct *mm = current->mm;

	if (atomic64_add_return(npages, &mm->pinned_vm) > lock_limit &&
	    !capable(CAP_IPC_LOCK)) {
		atomic64_sub(npages, &mm->pinned_vm);
		return -ENOMEM;
	}

	mmgrab(mm);
	umem->owning_mm = mm;
	return 0;
}

static void ib_memfd_uncharge(struct ib_umem *umem)
{
	atomic64_sub(ib_umem_num_pages(umem), &umem->owning_mm->pinned_vm);
	mmdrop(umem->owning_mm);
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

static int ib_memfd_pin(struct ib_umem_memfd *memfd, struct file *file,
			struct page **pages)
{
	struct ib_umem *umem = &memfd->umem;
	u64 end = PAGE_ALIGN(umem->address + umem->length);
	unsigned int npages;
	struct folio **folios;
	u64 pos, next, last;
	pgoff_t offset;
	long nr;
	int ret;

	for (pos = ALIGN_DOWN(umem->address, PAGE_SIZE); pos < end; pos = next) {
		cond_resched();
		if (fatal_signal_pending(current))
			return -EINTR;

		next = min(end, pos + IB_MEMFD_CHUNK);
		last = min(next, umem->address + umem->length) - 1;
		npages = (next - pos) >> PAGE_SHIFT;
		folios = memfd->folios + memfd->nr_folios;
		nr = memfd_pin_folios(file, pos, last, folios, npages, &offset);
		if (nr < 0)
			return nr;

		memfd->nr_folios += nr;
		if (ib_memfd_pages(folios, nr, offset, npages, pages) != npages)
			return -EFAULT;

		ret = ib_memfd_append(umem, pages, npages,
				      (end - next) >> PAGE_SHIFT);
		if (ret)
			return ret;
	}
	return 0;
}

static void ib_memfd_mark_dirty(struct ib_umem_memfd *memfd)
{
	unsigned long i;

	for (i = 0; i < memfd->nr_folios; i++) {
		if (folio_test_dirty(memfd->folios[i]))
			continue;
		folio_lock(memfd->folios[i]);
		folio_mark_dirty(memfd->folios[i]);
		folio_unlock(memfd->folios[i]);
	}
}

static void ib_memfd_unpin(struct ib_umem_memfd *memfd)
{
	sg_free_append_table(&memfd->umem.sgt_append);
	if (memfd->nr_folios)
		unpin_folios(memfd->folios, memfd->nr_folios);
	kvfree(memfd->folios);
}

/*
 * Pin the file, unless the region writes and the file is sealed against that.
 * As in mmap(), mapping_map_writable() keeps others from sealing the file in
 * the meantime.  Afterwards the pins do.
 */
static int ib_memfd_pin_unsealed(struct ib_umem_memfd *memfd, struct file *file,
				 struct page **pages)
{
	int ret;

	if (!memfd->umem.writable)
		return ib_memfd_pin(memfd, file, pages);

	ret = mapping_map_writable(file->f_mapping);
	if (ret)
		return ret;

	if (ib_memfd_seals(file) & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		ret = -EPERM;
	else
		ret = ib_memfd_pin(memfd, file, pages);

	mapping_unmap_writable(file->f_mapping);
	return ret;
}

static int ib_umem_memfd_init(struct ib_umem_memfd *memfd, struct file *file,
			      unsigned int access)
{
	struct ib_umem *umem = &memfd->umem;
	unsigned long dma_attr = 0;
	struct page **pages;
	int ret;

	ret = ib_memfd_charge(umem);
	if (ret)
		return ret;

	/* A sparse file can be larger than memory: fail without a warning. */
	memfd->folios = kvcalloc(ib_umem_num_pages(umem),
				 sizeof(*memfd->folios),
				 GFP_KERNEL | __GFP_NOWARN);
	pages = (struct page **)__get_free_page(GFP_KERNEL);
	if (memfd->folios && pages)
		ret = ib_memfd_pin_unsealed(memfd, file, pages);
	else
		ret = -ENOMEM;
	free_page((unsigned long)pages);
	if (ret)
		goto err_unpin;

	if (access & IB_ACCESS_RELAXED_ORDERING)
		dma_attr |= DMA_ATTR_WEAK_ORDERING;
	ret = ib_dma_map_sgtable_attrs(umem->ibdev, &umem->sgt_append.sgt,
				       DMA_BIDIRECTIONAL, dma_attr);
	if (!ret)
		return 0;

err_unpin:
	ib_memfd_unpin(memfd);
	ib_memfd_uncharge(umem);
	return ret;
}

/**
 * ib_umem_memfd_get - ib_umem_get_fd() for a file in memory
 * @device: device that will use the memory
 * @attr: the user's request; the caller has checked range and iova only
 *
 * Context: process context of the user, may sleep.
 *
 * Return: as ib_umem_get_fd().
 */
struct ib_umem *ib_umem_memfd_get(struct ib_device *device,
				  const struct ib_umem_fd_attr *attr)
{
	struct ib_umem_memfd *memfd;
	struct file *file;
	int ret;

	if (!can_do_mlock())
		return ERR_PTR(-EPERM);

	file = fget(attr->fd);
	if (!file)
		return ERR_PTR(-EBADF);

	ret = -EBADFD;
	if (!shmem_file(file) && !is_file_hugepages(file))
		goto err_put;

	ret = -EACCES;
	if (!ib_umem_fd_mode_allows(file, attr->access))
		goto err_put;

	ret = -ERANGE;
	if (attr->offset + attr->length > i_size_read(file_inode(file)))
		goto err_put;

	ret = -ENOMEM;
	memfd = kzalloc(sizeof(*memfd), GFP_KERNEL);
	if (!memfd)
		goto err_put;

	memfd->umem.ibdev = device;
	memfd->umem.iova = attr->iova;
	memfd->umem.length = attr->length;
	memfd->umem.address = attr->offset;
	memfd->umem.writable = ib_access_writable(attr->access);
	memfd->umem.is_memfd = 1;

	ret = ib_umem_memfd_init(memfd, file, attr->access);
	if (ret)
		goto err_free;

	fput(file);
	return &memfd->umem;

err_free:
	kfree(memfd);
	/* The only cause left: the file was truncated after the size check. */
	if (ret == -EINVAL)
		ret = -ERANGE;
err_put:
	fput(file);
	return ERR_PTR(ret);
}

/**
 * ib_umem_memfd_release - ib_umem_release() for a file in memory
 * @umem: the umem; no access to the memory may be in progress
 *
 * Context: may sleep.
 */
void ib_umem_memfd_release(struct ib_umem *umem)
{
	struct ib_umem_memfd *memfd = to_ib_umem_memfd(umem);

	ib_dma_unmap_sgtable_attrs(umem->ibdev, &umem->sgt_append.sgt,
				   DMA_BIDIRECTIONAL, 0);
	if (umem->writable)
		ib_memfd_mark_dirty(memfd);
	ib_memfd_unpin(memfd);
	ib_memfd_uncharge(umem);
	kfree(memfd);
}
