/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What user space says to /dev/dmabuf_test, see test-exporter.c. */

#ifndef DMABUF_TEST_EXPORTER_H
#define DMABUF_TEST_EXPORTER_H

#include <linux/ioctl.h>
#include <linux/types.h>

enum dmabuf_test_flags {
	DMABUF_TEST_NO_VMAP = 1 << 0,	/* the exporter has no such op */
	DMABUF_TEST_FAIL_VMAP = 1 << 1,
	DMABUF_TEST_FAIL_BEGIN_CPU_ACCESS = 1 << 2,
};

/**
 * struct dmabuf_test_create - make a dma-buf; the ioctl returns its fd
 * @size: bytes, a multiple of the page size, at most 64 MiB
 * @flags: enum dmabuf_test_flags
 * @error: errno (positive) of the ops that are to fail
 */
struct dmabuf_test_create {
	__aligned_u64 size;
	__u32 flags;
	__u32 error;
};

#define DMABUF_TEST_CREATE _IOW('T', 0x40, struct dmabuf_test_create)

#endif
