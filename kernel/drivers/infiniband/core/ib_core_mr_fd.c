// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions from file descriptors: what drivers call
 *
 * A driver whose op reg_user_mr_fd takes a dma-buf does not need code of its own for
 * the older op reg_user_mr_dmabuf: this function is the older op, by the newer one.
 * So UVERBS_METHOD_REG_DMABUF_MR and UVERBS_METHOD_REG_MR reach the driver too.
 *
 * It is in ib_core, so that drivers do not depend on ib_uverbs.
 */

#include <linux/dma-buf.h>
#include <linux/overflow.h>
#include <rdma/ib_umem_fd.h>
#include <rdma/uverbs_ioctl.h>

/**
 * uverbs_reg_dmabuf_by_fd_op - the op reg_user_mr_dmabuf by the op reg_user_mr_fd
 * @pd: protection domain, held by the caller during the call; its device has the
 *	op reg_user_mr_fd, which can register a dma-buf
 * @offset: where the region begins in the dma-buf, in bytes
 * @length: length of the region in bytes
 * @iova: address of the first byte; equal to @offset modulo PAGE_SIZE
 * @fd: the dma-buf
 * @access: enum ib_access_flags, checked by the caller
 * @dmah: DMA handle, or NULL
 * @attrs: the call, for the driver
 *
 * Programs know the errors of the two methods from the drivers that have the older
 * op, so they are the same here: -EINVAL for every mistake but an fd that is not
 * open. As with those drivers, the mode of the fd does not count.
 *
 * Context: process context of the user, may sleep. Takes and releases the
 * reservation lock of the dma-buf.
 *
 * Return: the MR, or an ERR_PTR:
 * -EOPNOTSUPP: there is a DMA handle, which reg_user_mr_fd does not take
 * -EBADF: @fd is not open
 * -EINVAL: @fd is not a dma-buf; @length is 0; the region ends after the end of
 *	the dma-buf, or @iova + @length does not fit in 64 bits
 * or an error of the driver.
 */
struct ib_mr *uverbs_reg_dmabuf_by_fd_op(struct ib_pd *pd, u64 offset,
					 u64 length, u64 iova, int fd,
					 int access, struct ib_dmah *dmah,
					 struct uverbs_attr_bundle *attrs)
{
	struct ib_mr_buffer buffer = {
		.type = IB_UVERBS_BUFFER_TYPE_DMABUF,
		.addr = offset,
		.length = length,
		.iova = iova,
		.access = access,
	};
	struct ib_mr *mr;
	u64 end;

	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);

	buffer.dmabuf = dma_buf_get(fd);
	if (IS_ERR(buffer.dmabuf))
		return ERR_CAST(buffer.dmabuf);

	if (!length || check_add_overflow(iova, length, &end) ||
	    check_add_overflow(offset, length, &end) ||
	    end > buffer.dmabuf->size)
		mr = ERR_PTR(-EINVAL);
	else
		mr = pd->device->ops.reg_user_mr_fd(pd, &buffer, attrs);
	dma_buf_put(buffer.dmabuf);
	return mr;
}
EXPORT_SYMBOL(uverbs_reg_dmabuf_by_fd_op);
