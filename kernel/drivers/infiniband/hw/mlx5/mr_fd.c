// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions from file descriptors: mlx5's part
 *
 * The core lends a buffer that it has looked up, and mlx5 makes an MR of it.
 *
 * Memory of the process and files in memory are pinned, and go the way of every
 * registration.
 *
 * A dma-buf is imported in one of two ways.  A device that can page-fault follows
 * it: when the exporter moves the buffer, invalidate_mappings clears the entries of
 * the mkey, and the fault of the next access maps the buffer where it is then.  This
 * is upstream's import, by the same code.  A device that cannot page-fault pins the
 * buffer.  The exporter may still revoke it: then the mkey gives no access any
 * more, and is kept until dereg, so that nobody else gets its number.
 *
 * In both ways the exporter's call and the driver's changes of the mkey exclude
 * each other by the reservation lock of the dma-buf.
 */

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <rdma/ib_umem_fd.h>

#include "mlx5_ib.h"
#include "umr.h"

/*
 * What an mkey of a dma-buf can give: as UVERBS_METHOD_REG_DMABUF_MR, and memory
 * windows, whose mkeys refer to it.
 */
#define MLX5R_DMABUF_ACCESS                                                    \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ |                       \
	 IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC |                    \
	 IB_ACCESS_MW_BIND | IB_ACCESS_OPTIONAL)

/**
 * mlx5r_init_mr_buffer_caps - say what the device can do with each type of memory
 * @dev: the device, with its caps for on-demand paging, not registered yet
 */
void mlx5r_init_mr_buffer_caps(struct mlx5_ib_dev *dev)
{
	u32 *caps = dev->ib_dev.mr_buffer_caps;

	if (!IS_ENABLED(CONFIG_INFINIBAND_USER_MEM))
		return;

	caps[IB_UVERBS_BUFFER_TYPE_VA] = MLX5R_MR_BUFFER_CAPS |
					 IB_UVERBS_BUFFER_CAP_PINNED;
	caps[IB_UVERBS_BUFFER_TYPE_MEMFD] = MLX5R_MR_BUFFER_CAPS |
					    IB_UVERBS_BUFFER_CAP_PINNED;

	/*
	 * An exporter takes a buffer away by a UMR.  It looks for a path to its
	 * device with pci_p2pdma_distance(), which finds none without P2PDMA.
	 */
	if (mlx5r_umr_can_load_pas(dev, 0))
		caps[IB_UVERBS_BUFFER_TYPE_DMABUF] =
			MLX5R_MR_BUFFER_CAPS |
			(IS_ENABLED(CONFIG_PCI_P2PDMA) ?
				 IB_UVERBS_BUFFER_CAP_P2P : 0) |
			(mlx5r_can_page_fault(dev) ?
				 IB_UVERBS_BUFFER_CAP_DYNAMIC :
				 IB_UVERBS_BUFFER_CAP_PINNED);
}

/*
 * The exporter takes the buffer of an MR back, or the umem is released: end the use
 * of the mkey. PRIVATE is the MR, or NULL after dereg has done so already. After an
 * error the device may still access the memory, and the core keeps it. The caller
 * holds the reservation lock.
 */
static int mlx5r_revoke_pinned_dmabuf(void *private)
{
	struct mlx5_ib_mr *mr = private;
	int err;

	if (!mr)
		return 0;

	err = mlx5r_umr_revoke_mr(mr);
	if (err)
		err = mlx5r_mr_destroy_mkey(mr);
	if (!err)
		ib_mr_report_revoked(&mr->ibmr);
	return err;
}

/*
 * Make an MR of a buffer that is pinned, mapped and locked. On success the MR has
 * the umem; on error the caller keeps it, or dereg_mr has to release it if *MRP is
 * set.
 */
static int mlx5r_fill_pinned_mr(struct ib_pd *pd,
				struct ib_umem_dmabuf *umem_dmabuf,
				const struct ib_mr_buffer *buffer,
				int access_mode, struct mlx5_ib_mr **mrp)
{
	unsigned long page_size;
	struct mlx5_ib_mr *mr;

	mr = mlx5r_alloc_cacheable_mr(pd, &umem_dmabuf->umem, buffer->iova,
				      buffer->access, access_mode,
				      MLX5_MKC_PCIE_TPH_NO_STEERING_TAG_INDEX,
				      MLX5_IB_NO_PH);
	if (IS_ERR(mr))
		return PTR_ERR(mr);

	*mrp = mr;
	atomic_add(ib_umem_num_pages(mr->umem),
		   &mr_to_mdev(mr)->mdev->priv.reg_pages);
	ib_umem_dmabuf_set_revoke_locked(umem_dmabuf,
					 mlx5r_revoke_pinned_dmabuf, mr);

	/* The mkey has room for a list of pages of PAGE_SIZE. */
	page_size = mlx5_umem_dmabuf_find_best_pgsz(umem_dmabuf, access_mode);
	if (page_size < PAGE_SIZE)
		return -EINVAL;
	mr->page_shift = order_base_2(page_size);

	if (access_mode == MLX5_MKC_ACCESS_MODE_KSM)
		return mlx5r_umr_update_data_direct_ksm_pas(mr,
							    MLX5_IB_UPD_XLT_ENABLE);
	return mlx5r_umr_update_mr_pas(mr, MLX5_IB_UPD_XLT_ENABLE,
				       to_mpd(pd)->pdn);
}

/**
 * mlx5r_reg_pinned_dmabuf_and_lock - make an MR of a dma-buf that stays in place
 * @pd: protection domain
 * @dma_device: the device that does the DMA
 * @buffer: a dma-buf, lent by the caller; its access flags are checked
 * @access_mode: MLX5_MKC_ACCESS_MODE_MTT, or MLX5_MKC_ACCESS_MODE_KSM for the
 *	inner mkey of Data Direct
 *
 * The exporter may revoke the buffer, which calls mlx5r_revoke_pinned_dmabuf(), or
 * what the caller sets instead with ib_umem_dmabuf_set_revoke_locked(). The caller
 * releases the lock with ib_umem_dmabuf_revoke_unlock().
 *
 * Context: process context of the user, may sleep. Returns with the reservation lock
 * held on success.
 *
 * Return: the MR, or an ERR_PTR: as mlx5r_reg_mr_buffer() of a dma-buf
 */
struct mlx5_ib_mr *
mlx5r_reg_pinned_dmabuf_and_lock(struct ib_pd *pd, struct device *dma_device,
				 const struct ib_mr_buffer *buffer,
				 int access_mode)
{
	struct ib_umem_dmabuf *umem_dmabuf;
	struct mlx5_ib_mr *mr = NULL;
	int err;

	umem_dmabuf =
		ib_umem_dmabuf_get_buffer_revocable_and_lock(pd->device,
							     dma_device,
							     buffer);
	if (IS_ERR(umem_dmabuf))
		return ERR_CAST(umem_dmabuf);

	err = mlx5r_fill_pinned_mr(pd, umem_dmabuf, buffer, access_mode, &mr);
	if (!err)
		return mr;

	ib_umem_dmabuf_revoke_unlock(umem_dmabuf);
	if (mr)
		mlx5_ib_dereg_mr(&mr->ibmr, NULL);
	else
		ib_umem_release(&umem_dmabuf->umem);
	return ERR_PTR(err);
}

static struct ib_mr *mlx5r_reg_pinned_dmabuf(struct ib_pd *pd,
					     const struct ib_mr_buffer *buffer)
{
	struct mlx5_ib_mr *mr;

	mr = mlx5r_reg_pinned_dmabuf_and_lock(pd, pd->device->dma_device, buffer,
					      MLX5_MKC_ACCESS_MODE_MTT);
	if (IS_ERR(mr))
		return ERR_CAST(mr);

	ib_umem_dmabuf_revoke_unlock(to_ib_umem_dmabuf(mr->umem));
	return &mr->ibmr;
}

static struct ib_mr *mlx5r_reg_moving_dmabuf(struct ib_pd *pd,
					     const struct ib_mr_buffer *buffer)
{
	struct ib_umem_dmabuf *umem_dmabuf;

	umem_dmabuf = ib_umem_dmabuf_get_buffer(pd->device,
						pd->device->dma_device, buffer,
						&mlx5_ib_dmabuf_attach_ops);
	if (IS_ERR(umem_dmabuf))
		return ERR_CAST(umem_dmabuf);

	return mlx5r_create_dmabuf_mr(pd, umem_dmabuf, buffer->iova,
				      buffer->access, NULL);
}

static struct ib_mr *mlx5r_reg_dmabuf(struct ib_pd *pd,
				      const struct ib_mr_buffer *buffer)
{
	struct mlx5_ib_dev *dev = to_mdev(pd->device);

	if (buffer->access & ~MLX5R_DMABUF_ACCESS ||
	    !mlx5r_umr_can_load_pas(dev, buffer->length))
		return ERR_PTR(-EOPNOTSUPP);

	return mlx5r_can_page_fault(dev) ? mlx5r_reg_moving_dmabuf(pd, buffer) :
					   mlx5r_reg_pinned_dmabuf(pd, buffer);
}

static struct ib_mr *mlx5r_reg_file(struct ib_pd *pd,
				    const struct ib_mr_buffer *buffer)
{
	struct ib_umem *umem;
	struct ib_mr *ibmr;

	umem = ib_umem_get_buffer(pd->device, buffer);
	if (IS_ERR(umem))
		return ERR_CAST(umem);

	ibmr = mlx5r_create_real_mr(pd, umem, buffer->iova, buffer->access,
				    NULL);
	if (IS_ERR(ibmr))
		ib_umem_release(umem);
	return ibmr;
}

/**
 * mlx5r_reg_mr_buffer - make an MR of memory of any type
 * @pd: protection domain
 * @buffer: the memory, lent by the caller; its access flags are checked by the core
 * @udata: the call
 *
 * Context: process context of the user, may sleep. Takes and releases the
 * reservation lock of a dma-buf.
 *
 * Return: the MR, or an ERR_PTR:
 * -EOPNOTSUPP: on-demand access to a dma-buf or file, other access that an MR of a
 *	dma-buf cannot have, or a dma-buf whose list of pages does not go into a UMR
 * -EINVAL: the exporter's memory is not in whole pages
 * -ENOMEM: out of memory, in the kernel or in the device
 * -EFAULT, -EIO, -ENOLINK: the device has failed
 * or an error of mlx5_ib_reg_user_mr(), of ib_umem_get_buffer() or of the function
 * that imports a dma-buf.
 */
struct ib_mr *mlx5r_reg_mr_buffer(struct ib_pd *pd,
				  const struct ib_mr_buffer *buffer,
				  struct ib_udata *udata)
{
	struct ib_mr *ibmr;
	int err;

	err = mlx5r_umr_resource_init(to_mdev(pd->device));
	if (err)
		return ERR_PTR(err);

	switch (buffer->type) {
	case IB_UVERBS_BUFFER_TYPE_DMABUF:
		return mlx5r_reg_dmabuf(pd, buffer);
	case IB_UVERBS_BUFFER_TYPE_MEMFD:
		return mlx5r_reg_file(pd, buffer);
	case IB_UVERBS_BUFFER_TYPE_VA:
		ibmr = mlx5_ib_reg_user_mr(pd, buffer->addr, buffer->length,
					   buffer->iova, buffer->access, NULL,
					   udata);
		/* The mkey of all of the address space has no length. */
		if (!IS_ERR(ibmr))
			ibmr->length = buffer->length;
		return ibmr;
	}
	return ERR_PTR(-EOPNOTSUPP);
}

/**
 * mlx5r_reg_pinned_dmabuf_fd - reg_user_mr_dmabuf of a device without page faults
 * @pd: protection domain
 * @offset: where the region begins in the dma-buf, in bytes
 * @length: length of the region in bytes
 * @iova: address of the first byte
 * @fd: the dma-buf
 * @access: enum ib_access_flags, checked by the core
 *
 * An MR cannot follow its buffer, so the buffer is pinned.
 *
 * Context: process context of the user, may sleep. Takes and releases the
 * reservation lock of the dma-buf.
 *
 * Return: the MR, or an ERR_PTR with an error of ib_mr_buffer_get_dmabuf() or of
 * mlx5r_reg_mr_buffer()
 */
struct ib_mr *mlx5r_reg_pinned_dmabuf_fd(struct ib_pd *pd, u64 offset,
					 u64 length, u64 iova, int fd,
					 int access)
{
	struct ib_mr_buffer buffer;
	struct ib_mr *ibmr;
	int err;

	err = ib_mr_buffer_get_dmabuf(&buffer, offset, length, iova, fd, access);
	if (err)
		return ERR_PTR(err);

	ibmr = mlx5r_reg_mr_buffer(pd, &buffer, NULL);
	ib_mr_buffer_put(&buffer);
	return ibmr;
}

/**
 * mlx5r_rereg_in_place - change PD and access of an mkey by a UMR
 * @mr: a user MR; the caller excludes other verbs on it
 * @pd: protection domain of the MR after the rereg
 * @access: access flags of the MR after the rereg; a UMR can make the change
 *
 * The exporter of a pinned dma-buf may have revoked the mkey. Then it is free, and
 * the UMR would fail and reset the queue.
 *
 * Context: process context, may sleep. Takes and releases the reservation lock of
 * a dma-buf.
 *
 * Return: 0, or an error with the MR unchanged:
 * -ENODEV: the exporter has taken the dma-buf away
 * -EFAULT, -EIO, -ENOLINK: the device has failed
 */
int mlx5r_rereg_in_place(struct mlx5_ib_mr *mr, struct ib_pd *pd,
			 unsigned int access)
{
	struct ib_umem_dmabuf *umem_dmabuf;
	int err;

	if (!is_dmabuf_mr(mr))
		return mlx5r_umr_rereg_pd_access(mr, pd, access);

	umem_dmabuf = to_ib_umem_dmabuf(mr->umem);
	ib_umem_dmabuf_revoke_lock(umem_dmabuf);
	if (umem_dmabuf->revoked || mr->mkey_destroyed)
		err = -ENODEV;
	else
		err = mlx5r_umr_rereg_pd_access(mr, pd, access);
	ib_umem_dmabuf_revoke_unlock(umem_dmabuf);
	return err;
}

/**
 * mlx5_ib_reg_user_mr_fd - the op reg_user_mr_fd
 * @pd: protection domain
 * @buffer: the memory, lent by the core
 * @attrs: the call
 *
 * Context and return value are those of mlx5r_reg_mr_buffer().
 */
struct ib_mr *mlx5_ib_reg_user_mr_fd(struct ib_pd *pd,
				     const struct ib_mr_buffer *buffer,
				     struct uverbs_attr_bundle *attrs)
{
	return mlx5r_reg_mr_buffer(pd, buffer, &attrs->driver_udata);
}
