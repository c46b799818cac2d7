// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory that a user specifies for an MR
 *
 * A user specifies the memory of an MR by struct ib_uverbs_buffer_desc: memory
 * of the process, a dma-buf, or a file in memory.  ib_mr_buffer_get() does what
 * is the same for all devices: it looks the fd up once, checks the request, and
 * makes a struct ib_mr_buffer.  The core lends this to the driver, which takes
 * the memory by the function that fits what the device can do:
 *
 * ib_umem_get_buffer()			  memory of the process, file in memory
 * ib_umem_vmap_get()			  dma-buf, for access by the CPU
 * ib_umem_dmabuf_get_buffer()		  dma-buf, for DMA, may move
 * ib_umem_dmabuf_get_buffer_pinned()	  dma-buf, for DMA, pinned
 * ib_umem_dmabuf_get_buffer_revocable_and_lock()
 *					  dma-buf, for DMA, pinned, may be revoked
 *
 * One rule of ownership: the core releases the buffer, the driver releases the
 * umem.  Both hold references of their own, so the user may close the fd and
 * the process may die.
 */

#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/hugetlb.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>
#include <rdma/ib_umem_fd.h>

static int ib_mr_buffer_look_up_dmabuf(struct ib_mr_buffer *buffer, int fd)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);

	if (IS_ERR(dmabuf))
		/* Here -EINVAL means only: the file is not a dma-buf. */
		return PTR_ERR(dmabuf) == -EINVAL ? -EBADFD : PTR_ERR(dmabuf);

	buffer->dmabuf = dmabuf;
	if (!ib_umem_fd_mode_allows(dmabuf->file, buffer->access))
		return -EACCES;
	if (buffer->addr + buffer->length > dmabuf->size)
		return -ERANGE;
	return 0;
}

static int ib_mr_buffer_look_up_memfd(struct ib_mr_buffer *buffer, int fd)
{
	struct file *file = fget(fd);

	if (!file)
		return -EBADF;

	buffer->file = file;
	if (!shmem_file(file) && !is_file_hugepages(file))
		return -EBADFD;
	if (!ib_umem_fd_mode_allows(file, buffer->access))
		return -EACCES;
	/* What is in such a file must stay, so mmap(2) refuses it too. */
	if (IS_APPEND(file_inode(file)) && ib_access_writable(buffer->access))
		return -EACCES;
	if (buffer->addr + buffer->length > i_size_read(file_inode(file)))
		return -ERANGE;
	return 0;
}

static int ib_mr_buffer_look_up(struct ib_mr_buffer *buffer, int fd)
{
	switch (buffer->type) {
	case IB_UVERBS_BUFFER_TYPE_DMABUF:
		return ib_mr_buffer_look_up_dmabuf(buffer, fd);
	case IB_UVERBS_BUFFER_TYPE_MEMFD:
		return ib_mr_buffer_look_up_memfd(buffer, fd);
	case IB_UVERBS_BUFFER_TYPE_VA:
		return 0;
	}
	return -EINVAL;
}

/**
 * ib_mr_buffer_get - check a user's request for memory and look the memory up
 * @buffer: filled in on success; the caller ends with ib_mr_buffer_put()
 * @desc: the memory, not checked yet
 * @iova: address of the first byte, on the wire and in work requests
 * @access: enum ib_access_flags, checked by the caller
 *
 * Memory of the process is not looked at here, only its range is checked.
 *
 * Context: process context of the user, may sleep.
 *
 * Return: 0, or an error, after which there is nothing to put:
 * -EINVAL: unknown type or flags, length 0, or @iova and @desc->addr not equal
 *	modulo PAGE_SIZE
 * -EOVERFLOW: addr + length or iova + length does not fit in 64 bits, or
 *	addr + length does not fit in an unsigned long
 * -EBADF: @desc->fd is not open
 * -EBADFD: @desc->fd is not of the type @desc->type
 * -EACCES: @desc->fd is not open for reading, or @access writes and @desc->fd is
 *	not open for writing or the file is append-only
 * -ERANGE: the region ends after the end of the dma-buf or of the file
 */
int ib_mr_buffer_get(struct ib_mr_buffer *buffer,
		     const struct ib_uverbs_buffer_desc *desc, u64 iova,
		     unsigned int access)
{
	u64 end;
	int ret;

	/* The kernel may ignore desc->optional_flags, and knows none. */
	if (desc->flags || !desc->length || (desc->addr ^ iova) & ~PAGE_MASK)
		return -EINVAL;

	/* A umem has the range as unsigned long. */
	if (check_add_overflow(iova, desc->length, &end) ||
	    check_add_overflow(desc->addr, desc->length, &end) ||
	    overflows_type(end, unsigned long))
		return -EOVERFLOW;

	*buffer = (struct ib_mr_buffer){
		.type = desc->type,
		.addr = desc->addr,
		.length = desc->length,
		.iova = iova,
		.access = access,
	};
	ret = ib_mr_buffer_look_up(buffer, desc->fd);
	if (ret)
		ib_mr_buffer_put(buffer);
	return ret;
}
EXPORT_SYMBOL(ib_mr_buffer_get);

/**
 * ib_mr_buffer_get_dmabuf - ib_mr_buffer_get() for the op reg_user_mr_dmabuf
 * @buffer: filled in on success; the caller ends with ib_mr_buffer_put()
 * @offset: where the region begins in the dma-buf, in bytes
 * @length: length of the region in bytes
 * @iova: address of the first byte; equal to @offset modulo PAGE_SIZE
 * @fd: the dma-buf
 * @access: enum ib_access_flags, checked by the caller
 *
 * With it a driver whose op reg_user_mr_fd takes a dma-buf has the older op, and
 * UVERBS_METHOD_REG_DMABUF_MR and UVERBS_METHOD_REG_MR reach it too. Programs know the
 * errors of these methods from the drivers that had the op first, so they are the same
 * here: -EINVAL for every mistake but an fd that is not open. As with those drivers,
 * the mode of the fd does not count.
 *
 * Context: process context of the user, may sleep.
 *
 * Return: 0, or an error, after which there is nothing to put:
 * -EBADF: @fd is not open
 * -EINVAL: @fd is not a dma-buf; @length is 0; the region ends after the end of
 *	the dma-buf, or @iova + @length does not fit in 64 bits
 */
int ib_mr_buffer_get_dmabuf(struct ib_mr_buffer *buffer, u64 offset, u64 length,
			    u64 iova, int fd, unsigned int access)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);
	u64 end;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);

	if (!length || check_add_overflow(iova, length, &end) ||
	    check_add_overflow(offset, length, &end) || end > dmabuf->size) {
		dma_buf_put(dmabuf);
		return -EINVAL;
	}

	*buffer = (struct ib_mr_buffer){
		.type = IB_UVERBS_BUFFER_TYPE_DMABUF,
		.dmabuf = dmabuf,
		.addr = offset,
		.length = length,
		.iova = iova,
		.access = access,
	};
	return 0;
}
EXPORT_SYMBOL(ib_mr_buffer_get_dmabuf);

/**
 * ib_mr_buffer_put - end the use of a buffer from ib_mr_buffer_get()
 * @buffer: the buffer
 *
 * Context: process context.
 */
void ib_mr_buffer_put(struct ib_mr_buffer *buffer)
{
	if (buffer->type == IB_UVERBS_BUFFER_TYPE_DMABUF && buffer->dmabuf)
		dma_buf_put(buffer->dmabuf);
	else if (buffer->type == IB_UVERBS_BUFFER_TYPE_MEMFD && buffer->file)
		fput(buffer->file);
}
EXPORT_SYMBOL(ib_mr_buffer_put);

/**
 * ib_umem_charge - count memory that a umem keeps in place as pinned by the process
 * @umem: the umem; it holds the mm until ib_umem_uncharge()
 * @npages: how much it is
 *
 * RLIMIT_MEMLOCK bounds what a process without CAP_IPC_LOCK pins in all, as in
 * ib_umem_get_va(). A kernel thread has no limit.
 *
 * Context: process context of the user.
 *
 * Return: 0, or -ENOMEM: more than the limit; -EPERM: the limit is 0
 */
int ib_umem_charge(struct ib_umem *umem, unsigned long npages)
{
	unsigned long lock_limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct mm_struct *mm = current->mm;

	if (!mm)
		return 0;
	if (!can_do_mlock())
		return -EPERM;

	if (atomic64_add_return(npages, &mm->pinned_vm) > lock_limit &&
	    !capable(CAP_IPC_LOCK)) {
		atomic64_sub(npages, &mm->pinned_vm);
		return -ENOMEM;
	}

	mmgrab(mm);
	umem->owning_mm = mm;
	return 0;
}

/* Undo ib_umem_charge(), if it has counted something that still counts. */
void ib_umem_uncharge(struct ib_umem *umem, unsigned long npages)
{
	if (!umem->owning_mm)
		return;
	atomic64_sub(npages, &umem->owning_mm->pinned_vm);
	mmdrop(umem->owning_mm);
	umem->owning_mm = NULL;
}

/**
 * ib_umem_charge_dmabuf - ib_umem_charge() for a dma-buf that the umem pins
 * @umem: the umem; ib_umem_uncharge_dmabuf() undoes it
 * @dmabuf: the dma-buf
 *
 * A pin keeps all of the buffer, however little of it the region has. dma_buf_pin() forbids
 * to let users pin buffers without a limit. The buffer of a static exporter stays in place
 * anyway, so it does not count.
 *
 * Context and return value are those of ib_umem_charge().
 */
int ib_umem_charge_dmabuf(struct ib_umem *umem, struct dma_buf *dmabuf)
{
	if (!dma_buf_is_dynamic(dmabuf))
		return 0;
	return ib_umem_charge(umem, dmabuf->size >> PAGE_SHIFT);
}

void ib_umem_uncharge_dmabuf(struct ib_umem *umem, struct dma_buf *dmabuf)
{
	ib_umem_uncharge(umem, dmabuf->size >> PAGE_SHIFT);
}

/**
 * ib_umem_get_buffer - take memory of the process or of a file in memory
 * @device: device that will use the memory
 * @buffer: the memory, lent by the core; not a dma-buf
 *
 * The memory is pinned and mapped for DMA, as by ib_umem_get_va(). The caller
 * releases the umem with ib_umem_release().
 *
 * Context: process context of the user, may sleep.
 *
 * Return: the umem, or an ERR_PTR:
 * -EOPNOTSUPP: a dma-buf, which a driver takes by one of the functions for it;
 *	on-demand access to a file in memory; or DMA of the device would go through
 *	bounce buffers, see ib_device.cc_dma_bounce
 * -ENOMEM: out of memory; more pages than RLIMIT_MEMLOCK allows; or no free huge
 *	page for a hole of a file
 * -EPERM: the process may not lock any memory; or the access writes and the file
 *	is sealed against writing
 * -ERANGE: the file was truncated meanwhile
 * -EINTR: the process is being killed
 * or another error of ib_umem_get_va(), or of the allocation for a hole of a file,
 * -ENOSPC if the file system is full
 */
struct ib_umem *ib_umem_get_buffer(struct ib_device *device,
				   const struct ib_mr_buffer *buffer)
{
	switch (buffer->type) {
	case IB_UVERBS_BUFFER_TYPE_VA:
		return ib_umem_get_va(device, buffer->addr, buffer->length,
				      buffer->access);
	case IB_UVERBS_BUFFER_TYPE_MEMFD:
		if (buffer->access & IB_ACCESS_ON_DEMAND)
			break;
		return ib_umem_memfd_get(device, buffer);
	case IB_UVERBS_BUFFER_TYPE_DMABUF:
		break;
	}
	return ERR_PTR(-EOPNOTSUPP);
}
EXPORT_SYMBOL(ib_umem_get_buffer);
