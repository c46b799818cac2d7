// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * User memory that is named by a file descriptor
 *
 * ib_umem_get() takes memory that the calling process has mapped.
 * ib_umem_get_fd() takes memory that it only holds as a file descriptor, which
 * need not be mapped, nor be mappable, by any process.  What comes back is an
 * ib_umem like any other: a driver finds out its kind, and whoever owns it ends
 * it with ib_umem_release().  Here are the checks that are the same for all
 * kinds, and one kind, the dma-buf; umem_memfd.c has the other.
 *
 * A software device moves bytes with the CPU, so a dma-buf is imported for it
 * by vmap: no attachment is made, because there is no device that could do DMA.
 * The invariant is that from get to release the mapping stays where it is.  It
 * holds because an exporter pins a buffer for as long as it is vmapped, and it
 * needs nothing of the fd, which the user may close, nor of the process, which
 * may die: the umem holds its own reference on the dma-buf.
 *
 * The bytes may be in system or in I/O memory; the iosys_map says which, and
 * users of it must treat them with the iosys_map accessors only.
 */

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <rdma/ib_umem_fd.h>

static enum dma_data_direction ib_umem_vmap_direction(struct ib_umem *umem)
{
	return umem->writable ? DMA_BIDIRECTIONAL : DMA_FROM_DEVICE;
}

/*
 * dma_buf_vmap_unlocked(), but a signal ends the wait for whoever has the lock:
 * an exporter may take its time with another importer.
 */
static int ib_umem_vmap_map(struct ib_umem_vmap *vmap)
{
	struct dma_buf *dmabuf = vmap->dmabuf;
	int ret;

	if (dma_resv_lock_interruptible(dmabuf->resv, NULL))
		return -ERESTARTSYS;

	ret = dma_buf_vmap(dmabuf, &vmap->map);
	dma_resv_unlock(dmabuf->resv);
	return ret;
}

static struct ib_umem *ib_umem_vmap_get(struct ib_device *device,
					const struct ib_umem_fd_attr *attr)
{
	struct ib_umem_vmap *vmap;
	struct ib_umem *umem;
	struct dma_buf *dmabuf;
	int ret;

	dmabuf = dma_buf_get(attr->fd);
	if (IS_ERR(dmabuf))
		/* -EINVAL here means one thing, let the user see which */
		return ERR_PTR(PTR_ERR(dmabuf) == -EINVAL ? -EBADFD :
			       PTR_ERR(dmabuf));

	ret = -EACCES;
	if (!ib_umem_fd_mode_allows(dmabuf->file, attr->access))
		goto err_put;

	ret = -ERANGE;
	if (attr->offset + attr->length > dmabuf->size)
		goto err_put;

	ret = -ENXIO;
	if (!dmabuf->ops->vmap)
		goto err_put;

	ret = -ENOMEM;
	vmap = kzalloc(sizeof(*vmap), GFP_KERNEL);
	if (!vmap)
		goto err_put;

	umem = &vmap->umem;
	umem->ibdev = device;
	umem->iova = attr->iova;
	umem->length = attr->length;
	umem->address = attr->offset;
	umem->writable = ib_access_writable(attr->access);
	umem->is_vmap = 1;
	vmap->dmabuf = dmabuf;

	ret = ib_umem_vmap_map(vmap);
	if (ret)
		goto err_free;

	/*
	 * Also waits for the exporter's fences, those of a move that the vmap
	 * began among them.  It can be interrupted by a signal.  The bracket
	 * spans the life of the region, since at any time a packet may come.
	 */
	ret = dma_buf_begin_cpu_access(dmabuf, ib_umem_vmap_direction(umem));
	if (ret)
		goto err_vunmap;

	return umem;

err_vunmap:
	dma_buf_vunmap_unlocked(dmabuf, &vmap->map);
err_free:
	kfree(vmap);
err_put:
	dma_buf_put(dmabuf);
	return ERR_PTR(ret);
}

/**
 * ib_umem_get_fd - take memory that a user names by a file descriptor
 * @device: device that will use the memory
 * @attr: what the user asked for, nothing of it checked
 *
 * Context: process context of the user, may sleep. Takes and drops the
 * reservation lock of a dma-buf, so the caller must not hold it.
 *
 * Return: a umem that the caller ends with ib_umem_release(), or an ERR_PTR
 * with nothing taken:
 * -EINVAL: zero length, @attr->iova not equal to @attr->offset modulo
 *	PAGE_SIZE, or an unknown @attr->fd_type
 * -EOVERFLOW: offset + length or iova + length does not fit in 64 bits
 * -EOPNOTSUPP: a dma-buf, and @device does DMA, for which there is no import
 *	yet; or a file in memory, and @attr->access is on demand
 * -EBADF: @attr->fd is not open
 * -EBADFD: @attr->fd is open and not of the type that @attr->fd_type says
 * -EACCES: the fd was not opened for reading, or not for writing and
 *	@attr->access writes
 * -ERANGE: the region ends past the end of the dma-buf or of the file
 * -ENOMEM: no memory; or a file in memory, and RLIMIT_MEMLOCK does not allow to
 *	pin so much more, or a huge page is needed for a hole and none is free
 * of a dma-buf:
 * -ENXIO: the exporter has no mapping for the CPU
 * -ERESTARTSYS: a signal came while waiting for the exporter
 * or what the exporter's vmap or begin_cpu_access gave;
 * of a file in memory:
 * -EPERM: @attr->access writes and the file is sealed against that; or the
 *	process may not lock any memory
 * -EINTR: the process is being killed
 * or what it gave to allocate a hole, -ENOSPC if the file system is full.
 */
struct ib_umem *ib_umem_get_fd(struct ib_device *device,
			       const struct ib_umem_fd_attr *attr)
{
	u64 end;

	if (!attr->length || (attr->offset ^ attr->iova) & ~PAGE_MASK)
		return ERR_PTR(-EINVAL);

	if (check_add_overflow(attr->offset, attr->length, &end) ||
	    check_add_overflow(attr->iova, attr->length, &end))
		return ERR_PTR(-EOVERFLOW);

	switch (attr->fd_type) {
	case IB_UVERBS_MR_FD_TYPE_DMABUF:
		if (!ib_uses_virt_dma(device))
			return ERR_PTR(-EOPNOTSUPP);
		return ib_umem_vmap_get(device, attr);
	case IB_UVERBS_MR_FD_TYPE_MEMFD:
		if (attr->access & IB_ACCESS_ON_DEMAND)
			return ERR_PTR(-EOPNOTSUPP);
		return ib_umem_memfd_get(device, attr);
	default:
		return ERR_PTR(-EINVAL);
	}
}
EXPORT_SYMBOL(ib_umem_get_fd);

/**
 * ib_umem_vmap_release - the part of ib_umem_release() for a vmapped dma-buf
 * @vmap: the umem; no access through @vmap->map may be under way
 *
 * Context: may sleep, takes and drops the reservation lock of the dma-buf.
 */
void ib_umem_vmap_release(struct ib_umem_vmap *vmap)
{
	/* An exporter that fails here has nothing for us to undo. */
	dma_buf_end_cpu_access(vmap->dmabuf, ib_umem_vmap_direction(&vmap->umem));
	dma_buf_vunmap_unlocked(vmap->dmabuf, &vmap->map);
	dma_buf_put(vmap->dmabuf);
	kfree(vmap);
}
