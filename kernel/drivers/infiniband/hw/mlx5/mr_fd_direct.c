// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions from file descriptors by Data Direct
 *
 * Data Direct is a second PCI function of the card, whose DMA takes a way of its own
 * through the host.  Which way an MR goes is a property of its memory: the caller says
 * so with each memory that it specifies, by an attribute with the values of that of
 * UVERBS_METHOD_REG_DMABUF_MR, and no call falls back to the other way.
 *
 * Such an MR is two mkeys: the user's, which cannot be changed, and one with the list
 * of pages, to which it leads.  So each rereg makes another MR, before the old one is
 * touched, and the keys change.  Without new memory the MR keeps its way.  When the
 * function has gone, its MRs have no memory any more; a rereg gives them other memory,
 * by the ordinary way or by the function that has come back.
 */

#include <linux/dma-buf.h>
#include <rdma/ib_umem_fd.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/uverbs_ioctl.h>

#include "mlx5_ib.h"
#include "umr.h"

/* As UVERBS_METHOD_REG_DMABUF_MR; MLX5R_DMABUF_ACCESS without memory windows. */
#define MLX5R_DIRECT_ACCESS                                                    \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ |                       \
	 IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC |                    \
	 IB_ACCESS_OPTIONAL)

/*
 * The attribute of the call that says the way: that of UVERBS_METHOD_REG_DMABUF_MR, or
 * that of the methods below it. The first has the number of UVERBS_ATTR_UHW_IN, the
 * driver data of other methods.
 */
static u16 mlx5r_way_attr(struct uverbs_attr_bundle *attrs)
{
	u16 attr = MLX5_IB_ATTR_REG_DMABUF_MR_ACCESS_FLAGS;

	return !attrs->driver_udata.inlen && uverbs_attr_get_len(attrs, attr) > 0 ?
		       attr : MLX5_IB_ATTR_REG_MR_ACCESS_FLAGS;
}

/**
 * mlx5r_get_way - whether the caller asks for Data Direct
 * @attrs: the call, a registration of any kind
 *
 * Return: 0, 1 or -EINVAL: unknown flags
 */
int mlx5r_get_way(struct uverbs_attr_bundle *attrs)
{
	u16 attr = mlx5r_way_attr(attrs);
	u32 flags;
	int err;

	if (!uverbs_attr_is_valid(attrs, attr))
		return 0;

	err = uverbs_get_flags32(&flags, attrs, attr,
				 MLX5_IB_UAPI_REG_DMABUF_ACCESS_DATA_DIRECT);
	if (err)
		return err;

	return !!(flags & MLX5_IB_UAPI_REG_DMABUF_ACCESS_DATA_DIRECT);
}

static struct ib_mr *mlx5r_reg_direct(struct ib_pd *pd,
				      const struct ib_mr_buffer *buffer)
{
	struct mlx5_ib_dev *dev = to_mdev(pd->device);
	struct ib_mr *ibmr;

	/* The device takes the page of a KSM mkey from the iova. */
	if (buffer->type != IB_UVERBS_BUFFER_TYPE_DMABUF ||
	    buffer->access & ~MLX5R_DIRECT_ACCESS ||
	    !PAGE_ALIGNED(buffer->iova) ||
	    !mlx5r_umr_can_load_pas(dev, buffer->length))
		return ERR_PTR(-EOPNOTSUPP);

	mutex_lock(&dev->data_direct_lock);
	ibmr = dev->data_direct_dev ? mlx5r_reg_data_direct_locked(pd, buffer) :
				      ERR_PTR(-ENODEV);
	mutex_unlock(&dev->data_direct_lock);
	return ibmr;
}

/**
 * mlx5r_reg_user_mr_by_way - the op reg_user_mr
 * @pd: protection domain
 * @start: address of the memory in the calling process
 * @length: length in bytes
 * @iova: address of the first byte
 * @access: enum ib_access_flags
 * @dmah: DMA handle, or NULL
 * @udata: the call, or NULL if it comes from the kernel
 *
 * Return: as mlx5_ib_reg_user_mr(); -EOPNOTSUPP if the caller asks for Data Direct,
 * which this memory cannot have
 */
struct ib_mr *mlx5r_reg_user_mr_by_way(struct ib_pd *pd, u64 start, u64 length,
				       u64 iova, int access,
				       struct ib_dmah *dmah,
				       struct ib_udata *udata)
{
	int way = udata ? mlx5r_get_way(rdma_udata_to_uverbs_attr_bundle(udata)) :
			  0;

	if (way)
		return ERR_PTR(way < 0 ? way : -EOPNOTSUPP);

	return mlx5_ib_reg_user_mr(pd, start, length, iova, access, dmah, udata);
}

/**
 * mlx5r_reg_user_mr_fd_by_way - the op reg_user_mr_fd
 * @pd: protection domain
 * @buffer: the memory, lent by the core
 * @attrs: the call, which may ask for Data Direct
 *
 * Context: process context of the user, may sleep. With Data Direct takes and
 * releases the lock of its MRs, and inside of that the reservation lock of the
 * dma-buf, with which it waits for the exporter's fences.
 *
 * Return: the MR, or an ERR_PTR: one of mlx5r_reg_mr_buffer(), or with Data Direct
 * -EINVAL: unknown flags in the attribute
 * -ENODEV: the card has no such function now
 * -EOPNOTSUPP: memory that is no dma-buf; memory windows or on-demand access; an
 *	iova that is not the start of a page; the device cannot do it
 * or an error of ib_umem_dmabuf_get_buffer_revocable_and_lock().
 */
struct ib_mr *mlx5r_reg_user_mr_fd_by_way(struct ib_pd *pd,
					  const struct ib_mr_buffer *buffer,
					  struct uverbs_attr_bundle *attrs)
{
	int way = mlx5r_get_way(attrs);

	if (way < 0)
		return ERR_PTR(way);

	return way ? mlx5r_reg_direct(pd, buffer) :
		     mlx5_ib_reg_user_mr_fd(pd, buffer, attrs);
}

/* Other PD or access: the same dma-buf again. The umem keeps it while the MR exists. */
static struct ib_mr *mlx5r_rereg_direct(struct mlx5_ib_mr *mr, int flags,
					struct ib_pd *pd, unsigned int access)
{
	struct ib_umem *umem = mr->dd_crossed_mr->umem;
	struct ib_umem_dmabuf *umem_dmabuf = to_ib_umem_dmabuf(umem);
	struct ib_mr_buffer buffer = {
		.type = IB_UVERBS_BUFFER_TYPE_DMABUF,
		.addr = umem->address,
		.length = umem->length,
		.iova = mr->ibmr.iova,
		.access = access,
		.dmabuf = umem_dmabuf->attach->dmabuf,
		.no_charge = !umem->owning_mm,
	};
	struct ib_mr *new;
	bool revoked;

	if (flags & IB_MR_REREG_ACCESS && ib_access_writable(access) &&
	    !umem->writable)
		return ERR_PTR(-EACCES);

	ib_umem_dmabuf_revoke_lock(umem_dmabuf);
	revoked = umem_dmabuf->revoked;
	ib_umem_dmabuf_revoke_unlock(umem_dmabuf);
	if (revoked)
		return ERR_PTR(-ENODEV);

	new = mlx5r_reg_direct(pd, &buffer);
	/* The MR keeps the right to be given write access. */
	if (!IS_ERR(new))
		to_mmr(new)->dd_crossed_mr->umem->writable = umem->writable;
	return new;
}

/**
 * mlx5r_rereg_user_mr_fd_by_way - the op rereg_user_mr_fd
 * @ibmr: a user MR; the caller excludes other verbs on it
 * @flags: enum ib_mr_rereg_flags
 * @buffer: what the MR gets: iova, length and access, and with IB_MR_REREG_TRANS
 *	the new memory, lent by the core
 * @pd: protection domain of the MR after the rereg
 * @attrs: the call, which may ask for Data Direct for the new memory
 *
 * Context: process context, may sleep. Locks as mlx5r_reg_user_mr_fd_by_way().
 *
 * Return: NULL if the MR has changed, or the MR that replaces it, or an ERR_PTR with
 * the MR unchanged: one of mlx5_ib_rereg_user_mr_fd(), of
 * mlx5r_reg_user_mr_fd_by_way() for new memory, or for an MR of Data Direct
 * -EINVAL: the attribute without new memory
 * -EACCES: @buffer->access writes, and the memory was taken for reading only
 * -ENODEV: the function or the memory has gone
 */
struct ib_mr *
mlx5r_rereg_user_mr_fd_by_way(struct ib_mr *ibmr, int flags,
			      const struct ib_mr_buffer *buffer,
			      struct ib_pd *pd,
			      struct uverbs_attr_bundle *attrs)
{
	struct mlx5_ib_mr *mr = to_mmr(ibmr);
	bool new_memory = flags & IB_MR_REREG_TRANS;
	int way;

	if (!new_memory &&
	    uverbs_attr_is_valid(attrs, MLX5_IB_ATTR_REG_MR_ACCESS_FLAGS))
		return ERR_PTR(-EINVAL);

	way = mlx5r_get_way(attrs);
	if (way)
		return way < 0 ? ERR_PTR(way) : mlx5r_reg_direct(pd, buffer);

	if (mr->data_direct && !new_memory)
		return mlx5r_rereg_direct(mr, flags, pd, buffer->access);

	return mlx5_ib_rereg_user_mr_fd(ibmr, flags, buffer, pd, attrs);
}
