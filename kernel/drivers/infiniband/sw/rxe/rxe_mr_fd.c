// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions from file descriptors: rxe's part
 *
 * The core lends a buffer that it has looked up, and rxe makes an MR of it.  Memory
 * of the process and a memfd are pages (those of the process on demand, if its user
 * likes).  A dma-buf is mapped for the CPU (struct ib_umem_vmap).  Packets access it
 * in three ways, which are in this file: copy, atomic operation, atomic write.  Their
 * callers have checked the range and hold a reference on the MR.  Dereg waits for this
 * reference, and an exporter that takes the memory back waits for rcu_read_unlock(),
 * so the mapping outlives the access.
 *
 * The memory may be I/O memory: access it with the iosys_map functions, not
 * with plain loads and stores, memcpy() or struct page.
 */

#include <linux/iosys-map.h>
#include <rdma/ib_umem_fd.h>

#include "rxe.h"
#include "rxe_loc.h"

/*
 * Set MAP to the mapping of IOVA, which is valid until the caller's rcu_read_unlock().
 * Return 0, or -ENODEV if the exporter has taken the memory back.
 */
static int rxe_vmap_at(const struct rxe_mr *mr, u64 iova, struct iosys_map *map)
{
	const struct rxe_mr_mem *mem = mr->mem;

	if (mem->umem && ib_umem_vmap_revoked(to_ib_umem_vmap(mem->umem)))
		return -ENODEV;

	*map = IOSYS_MAP_INIT_OFFSET(mem->map, mem->offset +
				     (iova - mr->ibmr.iova));
	return 0;
}

/* Return 0, or -ENODEV if the exporter has taken the memory back. */
int rxe_vmap_copy(struct rxe_mr *mr, u64 iova, void *addr,
		  unsigned int length, enum rxe_mr_copy_dir dir)
{
	struct iosys_map map;
	int err;

	rcu_read_lock();
	err = rxe_vmap_at(mr, iova, &map);
	if (err)
		goto out;

	if (dir == RXE_FROM_MR_OBJ) {
		iosys_map_memcpy_from(addr, &map, 0, length);
	} else {
		iosys_map_memcpy_to(&map, 0, addr, length);
		if (map.is_iomem)
			wmb(); /* end write combining before the ACK is sent */
	}
out:
	rcu_read_unlock();
	return err;
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

/*
 * Set the old value. The caller holds the lock of atomic operations. Return 0, or
 * -ENODEV if the exporter has taken the memory back.
 */
int rxe_vmap_atomic_op(struct rxe_mr *mr, u64 iova, int opcode, u64 compare,
		       u64 swap_add, u64 *orig_val)
{
	struct iosys_map map;
	u64 value;
	int err;

	rcu_read_lock();
	err = rxe_vmap_at(mr, iova, &map);
	if (err)
		goto out;

	value = rxe_vmap_load(&map);
	if (opcode != IB_OPCODE_RC_COMPARE_SWAP)
		rxe_vmap_store(&map, value + swap_add);
	else if (value == compare)
		rxe_vmap_store(&map, swap_add);
	*orig_val = value;
out:
	rcu_read_unlock();
	return err;
}

/* Return 0, or -ENODEV if the exporter has taken the memory back. */
int rxe_vmap_atomic_write(struct rxe_mr *mr, u64 iova, u64 value)
{
	struct iosys_map map;
	int err;

	rcu_read_lock();
	err = rxe_vmap_at(mr, iova, &map);
	if (err)
		goto out;

	wmb(); /* complete all prior operations first, as in rxe_mr.c */
	rxe_vmap_store(&map, value);
out:
	rcu_read_unlock();
	return err;
}

/* As rxe_mr_mem_get_user(), for any type of memory. */
struct rxe_mr_mem *rxe_mr_mem_get_buffer(struct ib_device *device,
					 const struct ib_mr_buffer *buffer)
{
	struct rxe_mr_mem *mem;
	struct ib_umem *umem;

	if (buffer->type == IB_UVERBS_BUFFER_TYPE_VA)
		return rxe_mr_mem_get_user(device, buffer->addr, buffer->length,
					   buffer->access);

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
 * rxe_mr_add_mem - make an MR of memory and let packets find it
 * @ibpd: protection domain
 * @access: access flags, checked by the caller
 * @mem: the memory; the MR takes over the caller's reference on success
 * @iova: address of the first byte
 * @length: length in bytes
 *
 * Context: process context, may sleep.
 *
 * Return: the MR, or an ERR_PTR:
 * -ENOMEM: out of memory
 * -EINVAL: the device has no free MR
 */
struct ib_mr *rxe_mr_add_mem(struct ib_pd *ibpd, int access,
			     struct rxe_mr_mem *mem, u64 iova, u64 length)
{
	struct rxe_dev *rxe = to_rdev(ibpd->device);
	struct rxe_mr *mr;
	int err;

	mr = kzalloc_obj(*mr);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	err = rxe_add_to_pool(&rxe->mr_pool, mr);
	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}

	rxe_get(to_rpd(ibpd));
	rxe_mr_init_mem(access, mem, mr);
	mr->ibmr.pd = ibpd;
	mr->ibmr.device = ibpd->device;
	mr->ibmr.iova = iova;
	mr->ibmr.length = length;

	rxe_finalize(mr);
	return &mr->ibmr;
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
 * -EOPNOTSUPP: rxe does not support such access: on demand to memory with an fd,
 *	and flush of a dma-buf
 * -EINVAL: the access is for persistent memory and this is not
 * or an error of ib_umem_vmap_get(), ib_umem_get_buffer() or rxe_mr_add_mem()
 */
struct ib_mr *rxe_reg_user_mr_fd(struct ib_pd *ibpd,
				 const struct ib_mr_buffer *buffer,
				 struct uverbs_attr_bundle *attrs)
{
	struct rxe_mr_mem *mem;
	struct ib_mr *mr;

	if (buffer->access & ~RXE_ACCESS_SUPPORTED_MR)
		return ERR_PTR(-EOPNOTSUPP);

	mem = rxe_mr_mem_get_buffer(ibpd->device, buffer);
	if (IS_ERR(mem))
		return ERR_CAST(mem);

	mr = rxe_mr_add_mem(ibpd, buffer->access, mem, buffer->iova,
			    buffer->length);
	if (IS_ERR(mr))
		rxe_mr_mem_put(mem);
	return mr;
}

/**
 * rxe_reg_user_mr_dmabuf - the op reg_user_mr_dmabuf, by that with a buffer
 * @ibpd: protection domain
 * @offset: where the region begins in the dma-buf, in bytes
 * @length: length of the region in bytes
 * @iova: address of the first byte
 * @fd: the dma-buf
 * @access: enum ib_access_flags, checked by the core
 * @dmah: DMA handle, or NULL
 * @attrs: not used
 *
 * Context: as rxe_reg_user_mr_fd().
 *
 * Return: the MR, or an ERR_PTR: -EOPNOTSUPP: a DMA handle, which a device without DMA
 * has no use for; or an error of ib_mr_buffer_get_dmabuf() or rxe_reg_user_mr_fd()
 */
struct ib_mr *rxe_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length,
				     u64 iova, int fd, int access,
				     struct ib_dmah *dmah,
				     struct uverbs_attr_bundle *attrs)
{
	struct ib_mr_buffer buffer;
	struct ib_mr *mr;
	int err;

	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);

	err = ib_mr_buffer_get_dmabuf(&buffer, offset, length, iova, fd, access);
	if (err)
		return ERR_PTR(err);

	mr = rxe_reg_user_mr_fd(ibpd, &buffer, attrs);
	ib_mr_buffer_put(&buffer);
	return mr;
}
