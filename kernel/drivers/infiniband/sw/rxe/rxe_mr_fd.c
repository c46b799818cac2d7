// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions from file descriptors: rxe's part
 *
 * The core lends a buffer that it has looked up, and rxe makes an MR of it.  Memory
 * of the process and a memfd are pages.  A dma-buf is mapped for the CPU
 * (struct ib_umem_vmap).  Packets access it
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

/* As rxe_mr_mem_get_user(), for any type of memory. */
struct rxe_mr_mem *rxe_mr_mem_get_buffer(struct ib_device *device,
					 const struct ib_mr_buffer *buffer)
{
	struct rxe_mr_mem *mem;
	struct ib_umem *umem;

	if (buffer->type == IB_UVERBS_BUFFER_TYPE_DMABUF)
		umem = ib_umem_vmap_get(device, buffer);
	else
		umem = ib_umem_get_buffer(device, buffer);
	if (IS_ERR(umem))
		return ERR_CAST(umem);

	mem = rxe_mr_mem_new(umem, buffer->access);
	if (IS_ERR(mem))
		ib_umem_release(umem);
	return mem;
}

/**
 * rxe_reg_user_mr_fd - the op reg_user_mr_fd
 * @ibpd: protection domain
 * @buffer: the memory, lent by the core; its access flags are checked by the core
 * @attrs: not used
 *
 * Context: process context, may sleep. Takes and releases the reservation lock of
 * a dma-buf.
 *
 * Return: the MR, or an ERR_PTR:
 * -EOPNOTSUPP: rxe does not support such access: on demand, and flush of a
 *	dma-buf
 * -ENOMEM: out of memory
 * -EINVAL: the device has no free MR, or the access is for persistent memory and
 *	this is not
 * or an error of ib_umem_vmap_get() or ib_umem_get_buffer()
 */
struct ib_mr *rxe_reg_user_mr_fd(struct ib_pd *ibpd,
				 const struct ib_mr_buffer *buffer,
				 struct uverbs_attr_bundle *attrs)
{
	struct rxe_dev *rxe = to_rdev(ibpd->device);
	struct rxe_mr_mem *mem;
	struct rxe_mr *mr;
	int err;

	if (buffer->access & ~RXE_ACCESS_SUPPORTED_MR)
		return ERR_PTR(-EOPNOTSUPP);

	mem = rxe_mr_mem_get_buffer(ibpd->device, buffer);
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
	rxe_mr_init_mem(buffer->access, mem, mr);
	mr->ibmr.pd = ibpd;
	mr->ibmr.device = ibpd->device;
	mr->ibmr.iova = buffer->iova;
	mr->ibmr.length = buffer->length;

	rxe_finalize(mr);
	return &mr->ibmr;

err_free:
	kfree(mr);
err_mem:
	rxe_mr_mem_put(mem);
	return ERR_PTR(err);
}
