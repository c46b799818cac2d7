/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the KUnit tests of umem_fd.c and of umem_memfd.c share
 */

#ifndef UMEM_FD_TEST_H
#define UMEM_FD_TEST_H

#include <kunit/test.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <rdma/ib_umem_fd.h>

/* The last page of 2^64 bytes.  PAGE_MASK has 32 bits on some machines. */
#define TOP_PAGE (U64_MAX - PAGE_SIZE + 1)

/* Without DMA a zeroed device is enough. */
static inline struct ib_device *new_device(struct kunit *test)
{
	struct ib_device *device;

	device = kunit_kzalloc(test, sizeof(*device), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, device);
	return device;
}

/* As a driver of a software device does. The iova is equal to the offset. */
static inline struct ib_umem *get_umem(struct ib_device *device,
				       const struct ib_uverbs_buffer_desc *desc,
				       unsigned int access)
{
	struct ib_mr_buffer buffer;
	struct ib_umem *umem;
	int err;

	err = ib_mr_buffer_get(&buffer, desc, desc->addr, access);
	if (err)
		return ERR_PTR(err);

	if (buffer.type == IB_UVERBS_BUFFER_TYPE_DMABUF)
		umem = ib_umem_vmap_get(device, &buffer);
	else
		umem = ib_umem_get_buffer(device, &buffer);
	ib_mr_buffer_put(&buffer);
	return umem;
}

static inline int get_buffer_err(const struct ib_uverbs_buffer_desc *desc,
				 u64 iova, unsigned int access)
{
	struct ib_mr_buffer buffer;
	int err = ib_mr_buffer_get(&buffer, desc, iova, access);

	if (!err)
		ib_mr_buffer_put(&buffer);
	return err;
}

static inline void close_and_flush(void *fd)
{
	close_fd((long)fd);
	flush_delayed_fput(); /* a kernel thread delays its last fput() */
}

static inline int install(struct kunit *test, struct file *file)
{
	int fd;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, file);
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		fput(file);
	KUNIT_ASSERT_GE(test, fd, 0);
	fd_install(fd, file);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, close_and_flush,
							   (void *)(long)fd));
	return fd;
}

#endif /* UMEM_FD_TEST_H */
