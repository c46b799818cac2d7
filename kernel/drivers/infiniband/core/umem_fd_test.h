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

/* Without DMA a zeroed device is enough. */
static inline struct ib_device *new_device(struct kunit *test)
{
	struct ib_device *device;

	device = kunit_kzalloc(test, sizeof(*device), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, device);
	return device;
}

static inline int get_fd_err(struct ib_device *device,
			     const struct ib_umem_fd_attr *attr)
{
	struct ib_umem *umem = ib_umem_get_fd(device, attr);

	if (IS_ERR(umem))
		return PTR_ERR(umem);

	ib_umem_release(umem);
	return 0;
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
