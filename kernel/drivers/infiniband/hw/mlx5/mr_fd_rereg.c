// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Re-registration with memory of any type: mlx5's part
 *
 * While the call lasts, a packet must find the old MR or the new one, and never a
 * mix or none at all.  That decides what can be done in place:
 *
 * - A change of PD and access is one UMR that changes fields of the mkey and not
 *   its list of pages.  The keys stay.
 * - New memory is a new list of pages, a new start and a new length.  A UMR that
 *   writes a list into an mkey in use lets a packet use pages of both memories,
 *   and to free the mkey meanwhile refuses packets.  So new memory gets a new mkey,
 *   and the keys change.
 * - Access that a UMR cannot change on this device, or cannot change at all, gets a
 *   new mkey of the same memory.
 *
 * The new MR is complete before the old one is touched, so an error leaves the old
 * one as it was.  The core then destroys the old MR, which waits for the packets that
 * use it.
 */

#include <linux/dma-buf.h>
#include <linux/sched.h>
#include <rdma/ib_umem_fd.h>

#include "mlx5_ib.h"
#include "umr.h"

/*
 * Destroy what a failed rereg has left beside an MR. Its mkey reaches the pages of
 * the MR, which must not be unpinned before, nor move to another MR.
 */
int mlx5r_dereg_leftover(struct mlx5_ib_mr *mr)
{
	int err;

	if (!mr->leftover)
		return 0;

	err = mlx5_ib_dereg_mr(&mr->leftover->ibmr, NULL);
	if (!err)
		mr->leftover = NULL;
	return err;
}

/*
 * Make another mkey of pages that stay pinned, and let its MR have them. For a
 * moment both mkeys refer to them. The old one is revoked before its MR loses the
 * pages: if its destruction fails it lives on, and the new MR unpins them.
 */
static struct ib_mr *mlx5r_rereg_move_umem(struct mlx5_ib_mr *mr,
					   struct ib_pd *pd,
					   unsigned int access)
{
	struct ib_mr *new;
	int err;

	err = mlx5r_dereg_leftover(mr);
	if (err)
		return ERR_PTR(err);

	new = mlx5r_create_real_mr(pd, mr->umem, mr->ibmr.iova, access, NULL);
	if (IS_ERR(new))
		return new;

	err = mlx5r_umr_revoke_mr(mr);
	if (err) {
		mlx5r_mr_take_umem(to_mmr(new));
		if (mlx5_ib_dereg_mr(new, NULL))
			mr->leftover = to_mmr(new);
		return ERR_PTR(err);
	}

	mlx5r_mr_take_umem(mr);
	/* If its destruction fails it has no memory and no access. */
	mr->ibmr.revoked = true;
	return new;
}

/*
 * Describe a dma-buf that is to be imported again. The umem keeps it while the MR
 * exists.
 */
static int mlx5r_describe_dmabuf(struct ib_umem_dmabuf *umem_dmabuf,
				 struct ib_mr_buffer *buffer)
{
	bool revoked;

	ib_umem_dmabuf_revoke_lock(umem_dmabuf);
	revoked = umem_dmabuf->revoked;
	ib_umem_dmabuf_revoke_unlock(umem_dmabuf);
	if (revoked)
		return -ENODEV;

	buffer->type = IB_UVERBS_BUFFER_TYPE_DMABUF;
	buffer->dmabuf = umem_dmabuf->attach->dmabuf;
	return 0;
}

/*
 * Describe the memory of an MR, to register it again. Memory of a process can be
 * registered by that process only.
 */
static int mlx5r_describe_memory(struct mlx5_ib_mr *mr,
				 struct ib_mr_buffer *buffer)
{
	struct ib_umem *umem = mr->umem;

	buffer->addr = umem->address;
	buffer->length = umem->length;
	buffer->iova = mr->ibmr.iova;

	if (umem->is_dmabuf)
		return mlx5r_describe_dmabuf(to_ib_umem_dmabuf(umem), buffer);

	if (umem->is_memfd || umem->owning_mm != current->mm)
		return -EOPNOTSUPP;

	buffer->type = IB_UVERBS_BUFFER_TYPE_VA;
	if (!mr->is_odp_implicit)
		return 0;

	/* All of the address space, which only on-demand access can have. */
	if (!(buffer->access & IB_ACCESS_ON_DEMAND))
		return -EOPNOTSUPP;
	buffer->addr = 0;
	buffer->length = U64_MAX;
	buffer->iova = 0;
	return 0;
}

static struct ib_mr *mlx5r_rereg_new_mkey(struct mlx5_ib_mr *mr,
					  struct ib_pd *pd, unsigned int access,
					  struct ib_udata *udata)
{
	struct ib_mr_buffer buffer = { .access = access };
	struct ib_umem *umem = mr->umem;
	struct ib_mr *new;
	int err;

	if (!umem)
		return ERR_PTR(-EOPNOTSUPP);

	if (!umem->is_dmabuf && !umem->is_odp &&
	    !(access & IB_ACCESS_ON_DEMAND))
		return mlx5r_rereg_move_umem(mr, pd, access);

	err = mlx5r_describe_memory(mr, &buffer);
	if (err)
		return ERR_PTR(err);

	new = mlx5r_reg_mr_buffer(pd, &buffer, udata);
	/* The MR keeps the right to be given write access, as it does in place. */
	if (!IS_ERR(new) && umem->is_dmabuf)
		to_mmr(new)->umem->writable = umem->writable;
	return new;
}

/**
 * mlx5r_rereg_keep_memory - change PD and access of an MR
 * @mr: a user MR with memory; the caller excludes other verbs on it
 * @flags: enum ib_mr_rereg_flags, without IB_MR_REREG_TRANS
 * @pd: protection domain of the MR after the rereg
 * @access: access flags of the MR after the rereg
 * @udata: the call
 *
 * Context: process context, may sleep. Takes and releases the reservation lock of
 * a dma-buf.
 *
 * Return: NULL if the MR has changed, or the MR that replaces it, or an ERR_PTR
 * with the MR unchanged:
 * -EACCES: @access writes, and the memory was taken for reading only
 * -EOPNOTSUPP: such access is not possible with this memory; or it is memory of
 *	another process and would have to be registered again
 * -ENODEV: the exporter has taken the dma-buf away
 * -EFAULT, -EIO, -ENOLINK: the device has failed
 * or an error of mlx5r_reg_mr_buffer().
 */
struct ib_mr *mlx5r_rereg_keep_memory(struct mlx5_ib_mr *mr, int flags,
				      struct ib_pd *pd, unsigned int access,
				      struct ib_udata *udata)
{
	struct mlx5_ib_dev *dev = mr_to_mdev(mr);
	int err;

	/*
	 * ib_umem_check_rereg() also refuses every dma-buf, for drivers whose rereg
	 * does not exclude the exporter. Here it does.
	 */
	if (flags & IB_MR_REREG_ACCESS && ib_access_writable(access) &&
	    mr->umem && !mr->umem->writable)
		return ERR_PTR(-EACCES);

	/* The children of an implicit MR have mkeys of their own. */
	if (mr->is_odp_implicit ||
	    !mlx5r_can_rereg_in_place(dev, mr->access_flags, access))
		return mlx5r_rereg_new_mkey(mr, pd, access, udata);

	err = mlx5r_rereg_in_place(mr, pd, access);
	return ERR_PTR(err);
}

/**
 * mlx5_ib_rereg_user_mr_fd - the op rereg_user_mr_fd
 * @ibmr: a user MR; the caller excludes other verbs on it
 * @flags: enum ib_mr_rereg_flags
 * @buffer: what the MR gets: iova, length and access, and with IB_MR_REREG_TRANS
 *	the new memory, lent by the core
 * @pd: protection domain of the MR after the rereg
 * @attrs: the call
 *
 * Context: process context, may sleep. Takes and releases the reservation lock of
 * a dma-buf.
 *
 * Return: as mlx5r_rereg_keep_memory(), or mlx5r_reg_mr_buffer() for new memory;
 * -EOPNOTSUPP to change an MR of Data Direct, which is two mkeys, one on another
 * function.
 */
struct ib_mr *mlx5_ib_rereg_user_mr_fd(struct ib_mr *ibmr, int flags,
				       const struct ib_mr_buffer *buffer,
				       struct ib_pd *pd,
				       struct uverbs_attr_bundle *attrs)
{
	struct mlx5_ib_mr *mr = to_mmr(ibmr);

	if (flags & IB_MR_REREG_TRANS)
		return mlx5r_reg_mr_buffer(pd, buffer, &attrs->driver_udata);

	if (mr->data_direct)
		return ERR_PTR(-EOPNOTSUPP);

	return mlx5r_rereg_keep_memory(mr, flags, pd, buffer->access,
				       &attrs->driver_udata);
}
