// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A dma-buf that is imported for access by the CPU
 *
 * A software device moves bytes with the CPU, so it imports a dma-buf by vmap.
 * A vmap does not keep the buffer of a dynamic exporter in place: amdgpu, for
 * example, may move or swap out a buffer that is vmapped.  So the umem also
 * attaches to such a buffer, without mapping it for DMA, and pins it, until it is
 * released.
 *
 * An exporter that takes pinned memory back, for instance because its device goes
 * away, calls invalidate_mappings.  When that returns nobody uses the mapping any
 * more: every access is in an RCU read-side critical section, which begins with
 * ib_umem_vmap_revoked().
 *
 * The bytes may be in system memory or in I/O memory, as the iosys_map says.
 * Access them with the iosys_map functions only.
 */

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/slab.h>
#include <rdma/ib_umem_fd.h>

static const struct dma_buf_attach_ops ib_umem_vmap_attach_ops;

static enum dma_data_direction ib_umem_vmap_direction(struct ib_umem *umem)
{
	return umem->writable ? DMA_BIDIRECTIONAL : DMA_FROM_DEVICE;
}

static void ib_umem_vmap_unmap(struct ib_umem_vmap *vmap)
{
	dma_resv_assert_held(vmap->dmabuf->resv);

	if (iosys_map_is_null(&vmap->map))
		return;
	dma_buf_vunmap(vmap->dmabuf, &vmap->map);
	iosys_map_clear(&vmap->map);
}

static void ib_umem_vmap_unpin(struct ib_umem_vmap *vmap)
{
	dma_resv_assert_held(vmap->dmabuf->resv);

	if (!vmap->pinned)
		return;
	dma_buf_unpin(vmap->attach);
	vmap->pinned = false;
	ib_umem_uncharge_dmabuf(&vmap->umem, vmap->dmabuf);
}

/* The vmap behind an attachment, or NULL if there is none that its exporter can revoke. */
static struct ib_umem_vmap *
ib_umem_vmap_pinned(struct dma_buf_attachment *attach)
{
	struct ib_umem_vmap *vmap = attach->importer_priv;

	if (attach->importer_ops != &ib_umem_vmap_attach_ops || !vmap->pinned)
		return NULL;
	return vmap;
}

/*
 * A pinned buffer does not move, so the exporter takes the memory back. Until the
 * pin is done nothing is in use, and the pin itself may move the buffer.
 *
 * The exporter tells all importers in a row, under the lock. A user may have imported
 * the buffer ten thousand times, so the first call does it for all: one grace period.
 *
 * It waits here, because a fence needs a slot in the reservation object. The slot
 * that it would get may be the one that the exporter has reserved for its own.
 */
static void ib_umem_vmap_revoke(struct dma_buf_attachment *attach)
{
	struct list_head *attachments = &attach->dmabuf->attachments;
	struct ib_umem_vmap *vmap;

	if (!ib_umem_vmap_pinned(attach))
		return;

	list_for_each_entry(attach, attachments, node) {
		vmap = ib_umem_vmap_pinned(attach);
		if (vmap)
			WRITE_ONCE(vmap->revoked, true);
	}
	synchronize_rcu();
	list_for_each_entry(attach, attachments, node) {
		vmap = ib_umem_vmap_pinned(attach);
		if (!vmap)
			continue;
		ib_umem_vmap_unmap(vmap);
		ib_umem_vmap_unpin(vmap);
		if (vmap->mr)
			ib_mr_report_revoked(vmap->mr);
	}
}

/* Without allow_peer2peer the exporter pins the buffer where the CPU reaches it. */
static const struct dma_buf_attach_ops ib_umem_vmap_attach_ops = {
	.invalidate_mappings = ib_umem_vmap_revoke,
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

	ret = ib_umem_charge_dmabuf(&vmap->umem, dmabuf);
	if (ret)
		return ret;

	vmap->attach = dma_buf_dynamic_attach(dmabuf, &vmap->umem.ibdev->dev,
					      &ib_umem_vmap_attach_ops, vmap);
	if (IS_ERR(vmap->attach)) {
		ret = PTR_ERR(vmap->attach);
		goto err_uncharge;
	}

	ret = -ERESTARTSYS;
	if (dma_resv_lock_interruptible(dmabuf->resv, NULL))
		goto err_detach;

	ret = dma_buf_pin(vmap->attach);
	vmap->pinned = !ret;
	dma_resv_unlock(dmabuf->resv);
	if (ret)
		goto err_detach;

	return 0;

err_detach:
	dma_buf_detach(dmabuf, vmap->attach);
err_uncharge:
	ib_umem_uncharge_dmabuf(&vmap->umem, dmabuf);
	return ret;
}

static void ib_umem_vmap_let_go(struct ib_umem_vmap *vmap)
{
	struct dma_buf *dmabuf = vmap->dmabuf;

	if (!vmap->attach)
		return;

	dma_resv_lock(dmabuf->resv, NULL);
	ib_umem_vmap_unpin(vmap);
	dma_resv_unlock(dmabuf->resv);
	dma_buf_detach(dmabuf, vmap->attach);
}

static void ib_umem_vmap_unmap_unlocked(struct ib_umem_vmap *vmap)
{
	dma_resv_lock(vmap->dmabuf->resv, NULL);
	ib_umem_vmap_unmap(vmap);
	dma_resv_unlock(vmap->dmabuf->resv);
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

	/* A revoke since the pin: there is none to undo it for a vmap that comes now. */
	ret = vmap->revoked ? -ENODEV : dma_buf_vmap(dmabuf, &vmap->map);
	dma_resv_unlock(dmabuf->resv);
	if (ret)
		/* A DRM driver has the op also for objects without a vmap. */
		return ret == -EOPNOTSUPP ? -ENXIO : ret;

	ret = dma_resv_wait_timeout(dmabuf->resv, DMA_RESV_USAGE_KERNEL, true,
				    MAX_SCHEDULE_TIMEOUT);
	if (ret < 0)
		ib_umem_vmap_unmap_unlocked(vmap);
	return min(ret, 0L);
}

/**
 * ib_umem_vmap_get - take a dma-buf for access by the CPU
 * @device: device that will use the memory, without DMA
 * @buffer: the dma-buf, lent by the core
 *
 * The buffer stays where it is until the caller releases the umem with
 * ib_umem_release(), or until the exporter takes the memory back. The caller
 * accesses it through to_ib_umem_vmap()->map, in an RCU read-side critical section,
 * unless ib_umem_vmap_revoked() returns true there.
 *
 * Context: process context, may sleep. Takes and releases the reservation lock
 * of the dma-buf.
 *
 * Return: the umem, or an ERR_PTR:
 * -ENXIO: the exporter has no mapping for the CPU
 * -ENODEV: the exporter took the memory back meanwhile
 * -ENOMEM: out of memory, or more than RLIMIT_MEMLOCK allows to pin
 * -EPERM: the process may not pin any memory
 * -ERESTARTSYS: a signal came during the wait for the exporter
 * or an error of the exporter's attach, pin, begin_cpu_access or vmap
 */
struct ib_umem *ib_umem_vmap_get(struct ib_device *device,
				 const struct ib_mr_buffer *buffer)
{
	struct dma_buf *dmabuf = buffer->dmabuf;
	struct ib_umem_vmap *vmap;
	struct ib_umem *umem;
	int ret;

	if (!dmabuf->ops->vmap)
		return ERR_PTR(-ENXIO);

	vmap = kzalloc_obj(*vmap);
	if (!vmap)
		return ERR_PTR(-ENOMEM);

	umem = &vmap->umem;
	umem->ibdev = device;
	umem->iova = buffer->iova;
	umem->length = buffer->length;
	umem->address = buffer->addr;
	umem->writable = ib_access_writable(buffer->access);
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

	get_dma_buf(dmabuf);
	return umem;

err_end:
	dma_buf_end_cpu_access(dmabuf, ib_umem_vmap_direction(umem));
err_let_go:
	ib_umem_vmap_let_go(vmap);
err_free:
	kfree(vmap);
	return ERR_PTR(ret);
}
EXPORT_SYMBOL(ib_umem_vmap_get);

/**
 * ib_umem_vmap_set_mr - say whose user hears of it when the memory is revoked
 * @vmap: the umem
 * @mr: an MR with this memory; until ib_umem_vmap_clear_mr() or another MR takes its
 *	place
 *
 * If the memory has been revoked already the user hears of it now.
 *
 * Context: may sleep. Takes and releases the reservation lock of the dma-buf.
 */
void ib_umem_vmap_set_mr(struct ib_umem_vmap *vmap, struct ib_mr *mr)
{
	dma_resv_lock(vmap->dmabuf->resv, NULL);
	vmap->mr = mr;
	if (vmap->revoked)
		ib_mr_report_revoked(mr);
	dma_resv_unlock(vmap->dmabuf->resv);
}
EXPORT_SYMBOL(ib_umem_vmap_set_mr);

/**
 * ib_umem_vmap_clear_mr - end what ib_umem_vmap_set_mr() began, before the MR is freed
 * @vmap: the umem
 * @mr: the MR; nothing happens if another one has taken its place
 *
 * Context: may sleep. Takes and releases the reservation lock of the dma-buf.
 */
void ib_umem_vmap_clear_mr(struct ib_umem_vmap *vmap, struct ib_mr *mr)
{
	dma_resv_lock(vmap->dmabuf->resv, NULL);
	if (vmap->mr == mr)
		vmap->mr = NULL;
	dma_resv_unlock(vmap->dmabuf->resv);
}
EXPORT_SYMBOL(ib_umem_vmap_clear_mr);

/**
 * ib_umem_vmap_release - ib_umem_release() for a vmapped dma-buf
 * @vmap: the umem; no access through @vmap->map may be in progress
 *
 * Context: may sleep. Takes and releases the reservation lock of the dma-buf.
 */
void ib_umem_vmap_release(struct ib_umem_vmap *vmap)
{
	ib_umem_vmap_unmap_unlocked(vmap);
	/* There is nothing to undo if the exporter fails here. */
	dma_buf_end_cpu_access(vmap->dmabuf, ib_umem_vmap_direction(&vmap->umem));
	ib_umem_vmap_let_go(vmap);
	dma_buf_put(vmap->dmabuf);
	kfree(vmap);
}
