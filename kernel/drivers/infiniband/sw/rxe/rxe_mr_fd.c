// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions from file descriptors: rxe's part
 *
 * The core passes a umem, and rxe makes an MR of it, a new one or one that
 * replaces another.  A memfd comes as pages and is then like any other memory.
 * A dma-buf comes mapped for the CPU (struct ib_umem_vmap).  Packets access it
 * in three ways, which are in this file: copy, atomic operation, atomic write.
 * Their callers have checked the range and hold a reference on the MR.  Dereg
 * waits for this reference, so the mapping outlives the access.
 *
 * The memory may be I/O memory: access it with the iosys_map functions, not
 * with plain loads and stores, memcpy() or struct page.
 */

#include <linux/iosys-map.h>
#include <rdma/ib_umem_fd.h>

#include "rxe.h"
#include "rxe_loc.h"

static struct iosys_map rxe_vmap_at(struct rxe_mr *mr, u64 iova)
{
	struct ib_umem_vmap *vmap = to_ib_umem_vmap(mr->mem->umem);

	return IOSYS_MAP_INIT_OFFSET(&vmap->map, vmap->umem.address +
				     (iova - mr->ibmr.iova));
}

void rxe_vmap_copy(struct rxe_mr *mr, u64 iova, void *addr,
		   unsigned int length, enum rxe_mr_copy_dir dir)
{
	struct iosys_map map = rxe_vmap_at(mr, iova);

	if (dir == RXE_FROM_MR_OBJ) {
		iosys_map_memcpy_from(addr, &map, 0, length);
		return;
	}

	iosys_map_memcpy_to(&map, 0, addr, length);
	if (map.is_iomem)
		wmb(); /* end write combining before the ACK is sent */
}

/* The I/O accessors swap bytes on a big endian CPU. Swap them back. */
static u64 rxe_vmap_order(const struct iosys_map *map, u64 value)
{
	return map->is_iomem ? (__force u64)cpu_to_le64(value) : value;
}

static u64 rxe_vmap_load(const struct iosys_map *map)
{
	return rxe_vmap_order(map, iosys_map_rd(map, 0, u64));
}

static void rxe_vmap_store(struct iosys_map *map, u64 value)
{
	iosys_map_wr(map, 0, u64, rxe_vmap_order(map, value));
	if (map->is_iomem)
		wmb(); /* as in rxe_vmap_copy() */
}

/* Return the old value. The caller holds the lock of atomic operations. */
u64 rxe_vmap_atomic_op(struct rxe_mr *mr, u64 iova, int opcode, u64 compare,
		       u64 swap_add)
{
	struct iosys_map map = rxe_vmap_at(mr, iova);
	u64 value = rxe_vmap_load(&map);

	if (opcode != IB_OPCODE_RC_COMPARE_SWAP)
		rxe_vmap_store(&map, value + swap_add);
	else if (value == compare)
		rxe_vmap_store(&map, swap_add);

	return value;
}

void rxe_vmap_atomic_write(struct rxe_mr *mr, u64 iova, u64 value)
{
	struct iosys_map map = rxe_vmap_at(mr, iova);

	wmb(); /* complete all prior operations first, as in rxe_mr.c */
	rxe_vmap_store(&map, value);
}

/**
 * rxe_reg_user_mr_fd - the op reg_user_mr_fd
 * @ibpd: protection domain
 * @umem: memory from ib_umem_get_fd(); the MR owns it on success, the caller on
 *	error
 * @iova: address of the first byte of the region
 * @access: access flags, checked by the core
 * @attrs: not used
 *
 * Context: process context, may sleep.
 *
 * Return: the MR, or an ERR_PTR:
 * -EOPNOTSUPP: rxe does not support @access on such memory: on demand, and
 *	flush of a dma-buf
 * -ENOMEM: out of memory
 * -EINVAL: the device has no free MR, or @access is for persistent memory and
 *	this is not
 */
struct ib_mr *rxe_reg_user_mr_fd(struct ib_pd *ibpd, struct ib_umem *umem,
				 u64 iova, int access,
				 struct uverbs_attr_bundle *attrs)
{
	struct rxe_dev *rxe = to_rdev(ibpd->device);
	struct rxe_mr_mem *mem;
	struct rxe_mr *mr;
	int err;

	if (access & ~RXE_ACCESS_SUPPORTED_MR)
		return ERR_PTR(-EOPNOTSUPP);

	mem = rxe_mr_mem_new(umem, access);
	if (IS_ERR(mem))
		return ERR_CAST(mem);

	err = -ENOMEM;
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		goto err_mem;

	err = rxe_add_to_pool(&rxe->mr_pool, mr);
	if (err)
		goto err_free;

	rxe_get(to_rpd(ibpd));
	rxe_mr_init_mem(access, mem, mr);
	mr->ibmr.pd = ibpd;
	mr->ibmr.device = ibpd->device;
	mr->ibmr.iova = iova;
	mr->ibmr.length = umem->length;

	rxe_finalize(mr);
	return &mr->ibmr;

err_free:
	kfree(mr);
err_mem:
	mem->umem = NULL; /* the caller releases it */
	rxe_mr_mem_put(mem);
	return ERR_PTR(err);
}

/* The op reg_user_mr_dmabuf, for users of ibv_reg_dmabuf_mr() */
struct ib_mr *rxe_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
				     u64 length, u64 iova, int fd, int access,
				     struct uverbs_attr_bundle *attrs)
{
	const struct ib_umem_fd_attr attr = {
		.offset = offset,
		.length = length,
		.iova = iova,
		.fd_type = IB_UVERBS_MR_FD_TYPE_DMABUF,
		.fd = fd,
		.access = access,
	};
	struct ib_umem *umem;
	struct ib_mr *mr;

	umem = ib_umem_get_fd(ibpd->device, &attr);
	if (IS_ERR(umem))
		return ERR_CAST(umem);

	mr = rxe_reg_user_mr_fd(ibpd, umem, iova, access, attrs);
	if (IS_ERR(mr))
		ib_umem_release(umem);

	return mr;
}

/**
 * rxe_rereg_user_mr_fd - the op rereg_user_mr_fd
 * @ibmr: a user MR with any kind of memory; the caller excludes other verbs on it
 * @flags: enum ib_mr_rereg_flags
 * @umem: memory from ib_umem_get_fd() with IB_MR_REREG_TRANS, else NULL; the
 *	new MR owns it on success, the caller on error
 * @iova: address of the first byte of @umem
 * @access: access flags of the new MR
 * @pd: protection domain of the new MR
 * @attrs: not used
 *
 * Context: process context, may sleep.
 *
 * Return: the MR that replaces @ibmr, or an ERR_PTR with the causes that
 * rxe_reg_user_mr_fd(), rxe_mr_rereg_mem() and rxe_mr_replace() list.
 */
struct ib_mr *rxe_rereg_user_mr_fd(struct ib_mr *ibmr, int flags,
				   struct ib_umem *umem, u64 iova, int access,
				   struct ib_pd *pd,
				   struct uverbs_attr_bundle *attrs)
{
	struct rxe_mr *mr = to_rmr(ibmr);
	struct rxe_mr_mem *mem;
	struct ib_mr *new;

	if (access & ~RXE_ACCESS_SUPPORTED_MR)
		return ERR_PTR(-EOPNOTSUPP);

	if (umem)
		mem = rxe_mr_mem_new(umem, access);
	else
		mem = rxe_mr_rereg_mem(mr, flags, access);
	if (IS_ERR(mem))
		return ERR_CAST(mem);

	new = rxe_mr_replace(mr, pd, access, mem,
			     umem ? iova : ibmr->iova,
			     umem ? umem->length : ibmr->length);
	if (IS_ERR(new)) {
		if (umem)
			mem->umem = NULL; /* the caller releases it */
		rxe_mr_mem_put(mem);
	}

	return new;
}
