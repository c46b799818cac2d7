// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * User memory that a file descriptor names
 *
 * ib_umem_get() takes memory that the calling process has mapped.
 * ib_umem_get_fd() takes memory that the process holds as a file descriptor.
 * No process has to map that memory, and perhaps none can.  The result is an
 * ib_umem like any other: a driver can tell its kind, and its owner releases it
 * with ib_umem_release().  This file has the checks that all kinds share, and
 * the dma-buf; umem_memfd.c has files in memory.
 *
 * A software device moves bytes with the CPU, so a dma-buf is imported by vmap.
 * A vmap does not keep the buffer of a dynamic exporter in place: amdgpu, for
 * example, may move or swap out a buffer that is vmapped.  So the umem also
 * attaches to such a buffer, without mapping it for DMA, and pins it, until it is
 * released.  The umem holds its own reference on the dma-buf, so the user may
 * close the fd and the process may die.
 *
 * The bytes may be in system memory or in I/O memory, as the iosys_map says.
 * Access them with the iosys_map functions only.
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

/* A pinned buffer does not move. Memory that is revoked stays until the unpin. */
static void ib_umem_vmap_move_notify(struct dma_buf_attachment *attach)
{
}

/* Without allow_peer2peer the exporter pins the buffer where the CPU reaches it. */
static const struct dma_buf_attach_ops ib_umem_vmap_attach_ops = {
	.move_notify = ib_umem_vmap_move_notify,
};

/*
 * Hold the buffer in place; undone by ib_umem_vmap_let_go(). The buffer of a
 * static exporter does not move while it is vmapped. That of a dynamic exporter
 * may, unless it is pinned.
 */
static int ib_umem_vmap_hold(struct ib_umem_vmap *vmap)
{
	struct dma_buf *dmabuf = vmap->dmabuf;
	int ret;

	if (!dma_buf_is_dynamic(dmabuf))
		return 0;

	/*
	 * Unlike the attach, a signal interrupts this wait for the lock. An
	 * exporter may hold it for long because of another importer.
	 */
	if (dma_resv_lock_interruptible(dmabuf->resv, NULL))
		return -ERESTARTSYS;
	dma_resv_unlock(dmabuf->resv);

	vmap->attach = dma_buf_dynamic_attach(dmabuf, &vmap->umem.ibdev->dev,
					      &ib_umem_vmap_attach_ops, vmap);
	if (IS_ERR(vmap->attach))
		return PTR_ERR(vmap->attach);

	ret = -ERESTARTSYS;
	if (dma_resv_lock_interruptible(dmabuf->resv, NULL))
		goto err_detach;

	ret = dma_buf_pin(vmap->attach);
	dma_resv_unlock(dmabuf->resv);
	if (ret)
		goto err_detach;

	return 0;

err_detach:
	dma_buf_detach(dmabuf, vmap->attach);
	return ret;
}

static void ib_umem_vmap_let_go(struct ib_umem_vmap *vmap)
{
	struct dma_buf *dmabuf = vmap->dmabuf;

	if (!vmap->attach)
		return;

	dma_resv_lock(dmabuf->resv, NULL);
	dma_buf_unpin(vmap->attach);
	dma_resv_unlock(dmabuf->resv);
	dma_buf_detach(dmabuf, vmap->attach);
}

/*
 * As dma_buf_vmap_unlocked(), but a signal interrupts the wait for the lock, and
 * for a move that the vmap has begun.
 */
static int ib_umem_vmap_map(struct ib_umem_vmap *vmap)
{
	struct dma_buf *dmabuf = vmap->dmabuf;
	long ret;

	if (dma_resv_lock_interruptible(dmabuf->resv, NULL))
		return -ERESTARTSYS;

	ret = dma_buf_vmap(dmabuf, &vmap->map);
	dma_resv_unlock(dmabuf->resv);
	if (ret)
		/* A DRM driver has the op also for objects without a vmap. */
		return ret == -EOPNOTSUPP ? -ENXIO : ret;

	ret = dma_resv_wait_timeout(dmabuf->resv, DMA_RESV_USAGE_KERNEL, true,
				    MAX_SCHEDULE_TIMEOUT);
	if (ret < 0)
		dma_buf_vunmap_unlocked(dmabuf, &vmap->map);
	return min(ret, 0L);
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
		/* Here -EINVAL means only: the file is not a dma-buf. */
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

	ret = ib_umem_vmap_hold(vmap);
	if (ret)
		goto err_free;

	/*
	 * This also waits for the exporter's fences, for instance those of a
	 * move that the pin began.  A signal interrupts the wait.  CPU access
	 * ends with the region, because a packet may come at any time.  An
	 * exporter may move a buffer that is not pinned here, so it comes
	 * before the vmap.
	 */
	ret = dma_buf_begin_cpu_access(dmabuf, ib_umem_vmap_direction(umem));
	if (ret)
		goto err_let_go;

	ret = ib_umem_vmap_map(vmap);
	if (ret)
		goto err_end;

	return umem;

err_end:
	dma_buf_end_cpu_access(dmabuf, ib_umem_vmap_direction(umem));
err_let_go:
	ib_umem_vmap_let_go(vmap);
err_free:
	kfree(vmap);
err_put:
	dma_buf_put(dmabuf);
	return ERR_PTR(ret);
}

/**
 * ib_umem_get_fd - take memory that a user specifies by file descriptor
 * @device: device that will use the memory
 * @attr: the user's request, not checked yet
 *
 * Context: process context of the user, may sleep. Takes and releases the
 * reservation lock of a dma-buf, so the caller must not hold it.
 *
 * Return: a umem that the caller releases with ib_umem_release(), or an ERR_PTR:
 * -EINVAL: length 0, @attr->iova and @attr->offset not equal modulo PAGE_SIZE,
 *	or an unknown @attr->fd_type
 * -EOVERFLOW: offset + length or iova + length does not fit in 64 bits, or
 *	offset + length does not fit in an unsigned long
 * -EOPNOTSUPP: a dma-buf for a @device that does DMA, which has no import yet;
 *	or on-demand access to a file in memory
 * -EBADF: @attr->fd is not open
 * -EBADFD: @attr->fd is not of the type @attr->fd_type
 * -EACCES: @attr->fd is not open for reading, or @attr->access writes and
 *	@attr->fd is not open for writing
 * -ERANGE: the region ends after the end of the dma-buf or of the file
 * -ENOMEM: out of memory; for a file in memory also: more pages than
 *	RLIMIT_MEMLOCK allows, or no free huge page for a hole
 *
 * only for a dma-buf:
 * -ENXIO: the exporter has no mapping for the CPU
 * -ERESTARTSYS: a signal came during the wait for the exporter
 * or an error of the exporter's attach, pin, begin_cpu_access or vmap
 *
 * only for a file in memory:
 * -EPERM: @attr->access writes and the file is sealed against writing, or the
 *	process may not lock any memory
 * -EINTR: the process is being killed
 * or an error of the allocation for a hole, -ENOSPC if the file system is full
 */
struct ib_umem *ib_umem_get_fd(struct ib_device *device,
			       const struct ib_umem_fd_attr *attr)
{
	u64 end;

	if (!attr->length || (attr->offset ^ attr->iova) & ~PAGE_MASK)
		return ERR_PTR(-EINVAL);

	/* A umem has the range as unsigned long. */
	if (check_add_overflow(attr->iova, attr->length, &end) ||
	    check_add_overflow(attr->offset, attr->length, &end) ||
	    overflows_type(end, unsigned long))
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
 * ib_umem_vmap_release - ib_umem_release() for a vmapped dma-buf
 * @vmap: the umem; no access through @vmap->map may be in progress
 *
 * Context: may sleep. Takes and releases the reservation lock of the dma-buf.
 */
void ib_umem_vmap_release(struct ib_umem_vmap *vmap)
{
	dma_buf_vunmap_unlocked(vmap->dmabuf, &vmap->map);
	/* There is nothing to undo if the exporter fails here. */
	dma_buf_end_cpu_access(vmap->dmabuf, ib_umem_vmap_direction(&vmap->umem));
	ib_umem_vmap_let_go(vmap);
	dma_buf_put(vmap->dmabuf);
	kfree(vmap);
}
