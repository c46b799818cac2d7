// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Device memory of rxe
 *
 * rxe has no memory of its own, so a DM is memory of the kernel: zeroed pages that
 * the owner maps and packets reach by the CPU.  What it shares with the memory of a
 * device is that there is little of it.  The module parameter max_dm_size bounds what
 * all DMs of a device have together, in whole pages.
 *
 * A process maps its DM by a struct rxe_mmap_info, to which the DM has a reference.
 * The mapping itself has references on the pages.  So a process that frees a DM and
 * keeps the mapping keeps these pages, as an importer of a dma-buf keeps the memory,
 * and neither sees memory of anybody else.  They do not count against max_dm_size any
 * more: both can outlive the device, so they cannot give anything back to it.  The core
 * frees a DM only when there is no MR on it any more.
 */

#include <linux/iosys-map.h>
#include <rdma/ib_dm.h>
#include <rdma/rxe_user_ioctl_cmds.h>
#include <rdma/uverbs_ioctl.h>

#include "rxe.h"
#include "rxe_loc.h"

#define UVERBS_MODULE_NAME rxe
#include <rdma/uverbs_named_ioctl.h>

/**
 * struct rxe_dm - a DM
 * @ibdm: what the core knows
 * @map: the memory, for MRs
 * @ip: of the DM of a process; NULL for an upper-layer protocol (ULP)
 */
struct rxe_dm {
	struct ib_dm ibdm;
	struct iosys_map map;
	struct rxe_mmap_info *ip;
};

static struct rxe_dm *to_rdm(struct ib_dm *ibdm)
{
	return container_of(ibdm, struct rxe_dm, ibdm);
}

/* Who asks for too much takes nothing, not for a moment either. */
static bool rxe_dm_charge(struct rxe_dev *rxe, size_t size)
{
	s64 used = atomic64_read(&rxe->dm_used);

	do {
		if (size > rxe->attr.max_dm_size - used)
			return false;
	} while (!atomic64_try_cmpxchg(&rxe->dm_used, &used, used + size));

	return true;
}

void rxe_dm_uncharge(struct rxe_dev *rxe, size_t size)
{
	atomic64_sub(size, &rxe->dm_used);
}

/* Let the process map the memory once, unless it may already. */
static void rxe_dm_expect_mmap(struct rxe_dev *rxe, struct rxe_mmap_info *ip)
{
	spin_lock_bh(&rxe->pending_lock);
	if (list_empty(&ip->pending_mmaps))
		list_add(&ip->pending_mmaps, &rxe->pending_mmaps);
	spin_unlock_bh(&rxe->pending_lock);
}

/* On success the mmap info is a user of the memory, and uncharges it. */
static int rxe_dm_let_map(struct rxe_dev *rxe, struct rxe_dm *dm,
			  struct uverbs_attr_bundle *attrs)
{
	struct ib_dm_mem *mem = dm->ibdm.mem;
	struct rxe_mmap_info *ip;
	int err;

	ip = rxe_create_mmap_info(rxe, mem->size, &attrs->driver_udata,
				  mem->vaddr);
	if (IS_ERR(ip))
		return PTR_ERR(ip);

	err = uverbs_copy_to(attrs, RXE_IB_ATTR_ALLOC_DM_RESP_MMAP, &ip->info,
			     sizeof(ip->info));
	if (err) {
		kfree(ip);
		return err;
	}

	ib_dm_mem_get(mem);
	ip->mem = mem;
	dm->ip = ip;
	rxe_dm_expect_mmap(rxe, ip);
	return 0;
}

/**
 * rxe_alloc_dm - the op alloc_dm
 * @device: the device
 * @context: context of the owner, or NULL for a ULP
 * @attr: length in bytes, alignment as a power of two
 * @attrs: the call; it returns where the process maps the memory
 *
 * Context: process context, may sleep.
 *
 * Return: the DM, or an ERR_PTR:
 * -EOPNOTSUPP: the device was made with a max_dm_size of 0
 * -EINVAL: length 0, or an alignment of more than a page
 * -ENOMEM: more than is left of max_dm_size, or out of memory
 */
struct ib_dm *rxe_alloc_dm(struct ib_device *device, struct ib_ucontext *context,
			   struct ib_dm_alloc_attr *attr,
			   struct uverbs_attr_bundle *attrs)
{
	struct rxe_dev *rxe = to_rdev(device);
	struct rxe_dm *dm;
	size_t size;
	int err;

	if (!rxe->attr.max_dm_size)
		return ERR_PTR(-EOPNOTSUPP);
	if (!attr->length || attr->alignment > PAGE_SHIFT)
		return ERR_PTR(-EINVAL);
	if (attr->length > rxe->attr.max_dm_size)
		return ERR_PTR(-ENOMEM);

	dm = kzalloc_obj(*dm);
	if (!dm)
		return ERR_PTR(-ENOMEM);

	err = -ENOMEM;
	size = PAGE_ALIGN(attr->length);
	if (!rxe_dm_charge(rxe, size))
		goto err_free;

	dm->ibdm.mem = ib_dm_mem_alloc(size);
	if (!dm->ibdm.mem)
		goto err_uncharge;
	iosys_map_set_vaddr(&dm->map, dm->ibdm.mem->vaddr);

	if (context) {
		err = rxe_dm_let_map(rxe, dm, attrs);
		if (err)
			goto err_put;
	}
	return &dm->ibdm;

err_put:
	ib_dm_mem_put(dm->ibdm.mem);
err_uncharge:
	rxe_dm_uncharge(rxe, size);
err_free:
	kfree(dm);
	return ERR_PTR(err);
}

/* The op dealloc_dm. The core puts the memory. */
int rxe_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs)
{
	struct rxe_dm *dm = to_rdm(ibdm);

	if (dm->ip)
		kref_put(&dm->ip->ref, rxe_mmap_release);
	else
		rxe_dm_uncharge(to_rdev(ibdm->device), ibdm->mem->size);
	kfree(dm);
	return 0;
}

/**
 * rxe_reg_dm_mr - the op reg_dm_mr
 * @ibpd: protection domain
 * @dm: the DM
 * @attr: the range, inside of @dm, and access flags, checked by the core
 * @attrs: not used
 *
 * Context: process context, may sleep.
 *
 * Return: the MR, or an ERR_PTR:
 * -EOPNOTSUPP: rxe does not support such access to a DM: on demand, persistent
 *	flush, and memory windows, which cannot be bound to a zero-based MR
 * -EINVAL: the device has no free MR
 * -ENOMEM: out of memory
 */
struct ib_mr *rxe_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *dm,
			    struct ib_dm_mr_attr *attr,
			    struct uverbs_attr_bundle *attrs)
{
	struct rxe_mr_mem *mem;
	struct ib_mr *mr;

	if (attr->access_flags & ~RXE_ACCESS_SUPPORTED_DM)
		return ERR_PTR(-EOPNOTSUPP);

	mem = rxe_mr_mem_new(NULL, 0);
	if (IS_ERR(mem))
		return ERR_CAST(mem);

	mem->map = &to_rdm(dm)->map;
	mem->offset = attr->offset;
	mr = rxe_mr_add_mem(ibpd, attr->access_flags, mem, 0, attr->length);
	if (IS_ERR(mr))
		rxe_mr_mem_put(mem);
	return mr;
}

/* For a process that imports the DM and needs a mapping of its own. */
static int UVERBS_HANDLER(RXE_IB_METHOD_DM_QUERY)(
	struct uverbs_attr_bundle *attrs)
{
	struct ib_dm *ibdm =
		uverbs_attr_get_obj(attrs, RXE_IB_ATTR_QUERY_DM_REQ_HANDLE);
	struct rxe_mmap_info *ip = to_rdm(ibdm)->ip;
	u64 length = ibdm->length;
	int err;

	err = uverbs_copy_to(attrs, RXE_IB_ATTR_QUERY_DM_RESP_LENGTH, &length,
			     sizeof(length));
	if (err)
		return err;

	err = uverbs_copy_to(attrs, RXE_IB_ATTR_QUERY_DM_RESP_MMAP, &ip->info,
			     sizeof(ip->info));
	if (err)
		return err;

	rxe_dm_expect_mmap(to_rdev(ibdm->device), ip);
	return 0;
}

DECLARE_UVERBS_NAMED_METHOD(
	RXE_IB_METHOD_DM_QUERY,
	UVERBS_ATTR_IDR(RXE_IB_ATTR_QUERY_DM_REQ_HANDLE,
			UVERBS_OBJECT_DM,
			UVERBS_ACCESS_READ,
			UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(RXE_IB_ATTR_QUERY_DM_RESP_LENGTH,
			    UVERBS_ATTR_TYPE(u64),
			    UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(RXE_IB_ATTR_QUERY_DM_RESP_MMAP,
			    UVERBS_ATTR_STRUCT(struct mminfo, size),
			    UA_MANDATORY));

DECLARE_UVERBS_GLOBAL_METHODS(UVERBS_OBJECT_DM,
			      &UVERBS_METHOD(RXE_IB_METHOD_DM_QUERY));

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	rxe_dm_alloc, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC,
	UVERBS_ATTR_PTR_OUT(RXE_IB_ATTR_ALLOC_DM_RESP_MMAP,
			    UVERBS_ATTR_STRUCT(struct mminfo, size),
			    UA_MANDATORY));

const struct uapi_definition rxe_dm_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &rxe_dm_alloc),
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(UVERBS_OBJECT_DM),
	{}
};
