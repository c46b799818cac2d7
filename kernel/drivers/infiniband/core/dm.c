// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Device memory for upper-layer protocols (ULPs)
 *
 * Device memory (DM) lies on the device: queue pairs reach it without the bus, and
 * peers with the latency of the device alone.  A DM is an object of its own, with
 * an address space that begins at 0.  MRs on it name a range of that, and several
 * may exist at a time.  The CPU reaches it by the two copy functions only, since
 * it may be I/O memory.
 *
 * The owner of a DM is a context of a process or a ULP.  Each DM has whole
 * pages, so no process maps a byte of another owner.  An MR of a DM holds it: while
 * there is one, the DM is not freed.  A dma-buf of a DM does not hold it, but who uses
 * the dma-buf holds the memory, see dm_mem.c.
 *
 * A ULP is a client of the device (struct ib_client) and frees its DMs in
 * the op remove, as its other objects.  To end an MR or a DM of a ULP does not fail.
 */

#include <linux/io.h>
#include <linux/sched/mm.h>
#include <rdma/ib_dm.h>

#include "restrack.h"

/**
 * ib_dm_create - allocate a DM, for the two kinds of owners
 * @device: the device
 * @context: context that is to own the DM, or NULL for a ULP
 * @attr: length in bytes, alignment as a power of two
 * @attrs: the call, or NULL for a ULP
 *
 * Context: process context, may sleep.
 *
 * Return: the DM, or an ERR_PTR:
 * -EOPNOTSUPP: the device has no device memory
 * -ENOMEM: more than the device has, or has left
 * or an error of the driver
 */
struct ib_dm *ib_dm_create(struct ib_device *device, struct ib_ucontext *context,
			   struct ib_dm_alloc_attr *attr,
			   struct uverbs_attr_bundle *attrs)
{
	struct ib_dm *dm;

	if (!device->ops.alloc_dm)
		return ERR_PTR(-EOPNOTSUPP);
	if (attr->length > U32_MAX)
		return ERR_PTR(-ENOMEM);

	dm = device->ops.alloc_dm(device, context, attr, attrs);
	if (IS_ERR(dm))
		return dm;

	dm->device = device;
	dm->length = attr->length;
	dm->uobject = NULL;
	atomic_set(&dm->usecnt, 0);
	return dm;
}
EXPORT_SYMBOL(ib_dm_create);

/**
 * ib_dm_create_mr - make an MR of a DM, for the two kinds of owners
 * @pd: protection domain
 * @dm: the DM, of the same device and owner
 * @attr: offset in the DM, length, access flags with IB_ZERO_BASED
 * @uobj: uobject of the MR, or NULL for a ULP
 * @attrs: the call, or NULL for a ULP
 *
 * Context: process context, may sleep.
 *
 * Return: the MR, or an ERR_PTR:
 * -EOPNOTSUPP: the device has no MRs of device memory, or does not support the
 *	access flags
 * -EINVAL: the range is not in the DM; unknown or contradictory access flags; no
 *	IB_ZERO_BASED
 * or an error of the driver
 */
struct ib_mr *ib_dm_create_mr(struct ib_pd *pd, struct ib_dm *dm,
			      struct ib_dm_mr_attr *attr, struct ib_uobject *uobj,
			      struct uverbs_attr_bundle *attrs)
{
	struct ib_mr *mr;
	int ret;

	if (!pd->device->ops.reg_dm_mr)
		return ERR_PTR(-EOPNOTSUPP);
	if (!(attr->access_flags & IB_ZERO_BASED))
		return ERR_PTR(-EINVAL);

	ret = ib_check_mr_access(pd->device, attr->access_flags);
	if (ret)
		return ERR_PTR(ret);

	if (attr->offset > dm->length || attr->length > dm->length - attr->offset)
		return ERR_PTR(-EINVAL);

	mr = pd->device->ops.reg_dm_mr(pd, dm, attr, attrs);
	if (IS_ERR(mr))
		return mr;

	mr->device = pd->device;
	mr->pd = pd;
	mr->type = IB_MR_TYPE_DM;
	mr->dm = dm;
	/* Whatever the device calls its first byte: the MR is zero-based. */
	mr->iova = 0;
	mr->length = attr->length;
	mr->uobject = uobj;
	atomic_inc(&pd->usecnt);
	atomic_inc(&dm->usecnt);

	rdma_restrack_new(&mr->res, RDMA_RESTRACK_MR);
	if (uobj)
		rdma_restrack_set_name(&mr->res, NULL);
	else
		rdma_restrack_parent_name(&mr->res, &pd->res);
	rdma_restrack_add(&mr->res);
	return mr;
}
EXPORT_SYMBOL(ib_dm_create_mr);

/**
 * ib_alloc_dm - allocate device memory for a ULP
 * @device: the device; its attrs.max_dm_size is the most that it has
 * @attr: length in bytes, alignment as a power of two
 *
 * The caller ends with ib_free_dm(), before its client is removed from @device.
 * What the memory contains at first depends on the device.
 *
 * Context: process context, may sleep.
 *
 * Return: the DM, or an ERR_PTR:
 * -EOPNOTSUPP: the device has no device memory, or none for ULPs
 * -EINVAL: the length is 0, or the device does not support the alignment
 * -ENOMEM: out of memory, on the device or on the host
 */
struct ib_dm *ib_alloc_dm(struct ib_device *device,
			  const struct ib_dm_alloc_attr *attr)
{
	struct ib_dm_alloc_attr copy = *attr;
	struct ib_dm *dm;
	int err;

	if (!attr->length)
		return ERR_PTR(-EINVAL);

	dm = ib_dm_create(device, NULL, &copy, NULL);
	if (IS_ERR(dm))
		return dm;

	err = -EOPNOTSUPP;
	if (!dm->mem)
		goto err_free;

	if (!dm->mem->vaddr) {
		err = -ENOMEM;
		dm->iomem = ioremap_wc(dm->mem->paddr, dm->mem->size);
		if (!dm->iomem)
			goto err_free;
	}
	return dm;

err_free:
	ib_dm_destroy(dm, NULL);
	return ERR_PTR(err);
}
EXPORT_SYMBOL(ib_alloc_dm);

/**
 * ib_free_dm - free device memory of a ULP
 * @dm: from ib_alloc_dm(), without MRs; the caller excludes other calls with it
 *
 * A ULP that frees a DM with an MR on it has a bug. The kernel warns, and the DM stays.
 *
 * Context: process context, may sleep. Takes and releases the reservation lock of
 * dma-bufs of @dm.
 */
void ib_free_dm(struct ib_dm *dm)
{
	void __iomem *iomem = dm->iomem;
	int ret;

	ret = ib_dm_destroy(dm, NULL);
	if (WARN_ONCE(ret, "free of device memory of a ULP failed (%d)\n", ret))
		return;
	if (iomem)
		iounmap(iomem);
}
EXPORT_SYMBOL(ib_free_dm);

/**
 * ib_reg_dm_mr - make an MR of device memory for a ULP
 * @pd: protection domain of the same device
 * @dm: from ib_alloc_dm()
 * @attr: offset in @dm and length in bytes, access flags
 *
 * Address 0 of the MR is byte @attr->offset of @dm. Work requests name the memory by
 * the lkey of the MR, peers by its rkey. The caller ends with ib_dereg_dm_mr().
 *
 * Context: process context, may sleep.
 *
 * Return: the MR, or an ERR_PTR:
 * -EOPNOTSUPP: the device does not support the access flags
 * -EINVAL: the range is not in @dm, @dm is of another device, or unknown or
 *	contradictory access flags
 * -ENOMEM: out of memory, or of MRs
 */
struct ib_mr *ib_reg_dm_mr(struct ib_pd *pd, struct ib_dm *dm,
			   const struct ib_dm_mr_attr *attr)
{
	struct ib_dm_mr_attr copy = *attr;

	if (dm->device != pd->device)
		return ERR_PTR(-EINVAL);

	copy.access_flags |= IB_ZERO_BASED;
	return ib_dm_create_mr(pd, dm, &copy, NULL, NULL);
}
EXPORT_SYMBOL(ib_reg_dm_mr);

/**
 * ib_dereg_dm_mr - end an MR of device memory of a ULP
 * @mr: from ib_reg_dm_mr(); the caller excludes other calls with it
 *
 * When it returns no packet reaches the memory by @mr any more. A device that ends an MR
 * by a command needs memory of the host for that, so this waits until there is some.
 *
 * Context: process context, may sleep.
 */
void ib_dereg_dm_mr(struct ib_mr *mr)
{
	int ret;

	while ((ret = ib_dereg_mr(mr)) == -ENOMEM)
		memalloc_retry_wait(GFP_KERNEL);
	WARN_ONCE(ret, "dereg of device memory of a ULP failed (%d)\n", ret);
}
EXPORT_SYMBOL(ib_dereg_dm_mr);

/*
 * Devices with the memory in a BAR want whole words. The library of mlx5 has the same
 * rule for processes.
 */
static bool ib_dm_can_copy(const struct ib_dm *dm, u64 offset, const void *host,
			   size_t length)
{
	if (offset > dm->length || length > dm->length - offset)
		return false;
	return dm->mem->vaddr ||
	       IS_ALIGNED(offset | length | (uintptr_t)host, sizeof(u32));
}

/**
 * ib_memcpy_to_dm - copy to device memory of a ULP
 * @dm: from ib_alloc_dm()
 * @dm_offset: offset in @dm in bytes
 * @src: what to copy
 * @length: bytes
 *
 * A work request that is posted after it finds the new bytes. Every device takes
 * multiples of 4 for @dm_offset, @length and the address @src.
 *
 * Context: any.
 *
 * Return: 0, or -EINVAL: the range is not in @dm, or the device has its memory in a
 * BAR and one of the three is not a multiple of 4
 */
int ib_memcpy_to_dm(struct ib_dm *dm, u64 dm_offset, const void *src,
		    size_t length)
{
	if (!ib_dm_can_copy(dm, dm_offset, src, length))
		return -EINVAL;

	if (dm->mem->vaddr) {
		memcpy(dm->mem->vaddr + dm_offset, src, length);
	} else {
		__iowrite32_copy(dm->iomem + dm_offset, src, length / sizeof(u32));
		wmb(); /* end write combining before the doorbell */
	}
	return 0;
}
EXPORT_SYMBOL(ib_memcpy_to_dm);

/**
 * ib_memcpy_from_dm - copy from device memory of a ULP
 * @dst: where to copy to
 * @dm: from ib_alloc_dm()
 * @dm_offset: offset in @dm in bytes
 * @length: bytes
 *
 * Every device takes multiples of 4 for @dm_offset, @length and the address @dst.
 *
 * Context: any.
 *
 * Return: 0, or -EINVAL: the range is not in @dm, or the device has its memory in a
 * BAR and one of the three is not a multiple of 4
 */
int ib_memcpy_from_dm(void *dst, struct ib_dm *dm, u64 dm_offset, size_t length)
{
	if (!ib_dm_can_copy(dm, dm_offset, dst, length))
		return -EINVAL;

	if (dm->mem->vaddr)
		memcpy(dst, dm->mem->vaddr + dm_offset, length);
	else
		__ioread32_copy(dst, dm->iomem + dm_offset, length / sizeof(u32));
	return 0;
}
EXPORT_SYMBOL(ib_memcpy_from_dm);
