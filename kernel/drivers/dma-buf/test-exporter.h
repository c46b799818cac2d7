/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The uAPI of /dev/dmabuf_test, see test-exporter.c.  The user specifies a
 * buffer by its dma-buf fd; for a dma-buf of another exporter the error is
 * EINVAL, but DMABUF_TEST_IMPORT takes one of any exporter.
 */

#ifndef DMABUF_TEST_EXPORTER_H
#define DMABUF_TEST_EXPORTER_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define DMABUF_TEST_MAX_SIZE (64 << 20)
/* ms: longer than a case may take, but every fence must signal in the end */
#define DMABUF_TEST_MAX_DELAY 600000

enum dmabuf_test_flags {
	DMABUF_TEST_NO_VMAP = 1 << 0,	/* without the op vmap */
	DMABUF_TEST_IOMEM = 1 << 1,	/* vmap gives I/O memory */
	DMABUF_TEST_ONLY_PIN = 1 << 2,	/* as with TTM, a vmap does not hold it */
	DMABUF_TEST_PIN_MOVES = 1 << 3,	/* the pin moves it, and tells importers */
};

/**
 * struct dmabuf_test_create - make a dma-buf; the ioctl returns its fd
 * @size: bytes, a multiple of the page size, at most DMABUF_TEST_MAX_SIZE
 * @flags: enum dmabuf_test_flags
 * @reserved: 0
 */
struct dmabuf_test_create {
	__aligned_u64 size;
	__u32 flags;
	__u32 reserved;
};

enum dmabuf_test_op {
	DMABUF_TEST_ATTACH,
	DMABUF_TEST_MAP,
	DMABUF_TEST_VMAP,
	DMABUF_TEST_BEGIN_CPU_ACCESS,
	DMABUF_TEST_OPS
};

/**
 * struct dmabuf_test_behave - change what an op does
 * @fd: the buffer
 * @op: enum dmabuf_test_op
 * @error: errno (positive) that the op returns, or 0
 * @delay_ms: how long the op sleeps first; a signal interrupts it
 */
struct dmabuf_test_behave {
	__s32 fd;
	__u32 op;
	__u32 error;
	__u32 delay_ms;
};

/**
 * struct dmabuf_test_fence - add a fence
 * @fd: the buffer
 * @usage: enum dma_resv_usage: 0 kernel, 1 write, 2 read, 3 bookkeep
 * @delay_ms: when the fence signals, if no DMABUF_TEST_SIGNAL comes before
 */
struct dmabuf_test_fence {
	__s32 fd;
	__u32 usage;
	__u32 delay_ms;
};

/**
 * struct dmabuf_test_move - move the bytes to other pages
 * @fd: the buffer
 * @delay_ms: when the copy is done; until then the new pages have other bytes,
 *	and a kernel fence has not signaled
 *
 * -EBUSY: the buffer is pinned or being moved, or vmapped without
 *	DMABUF_TEST_ONLY_PIN
 * -ENODEV: the memory was revoked
 */
struct dmabuf_test_move {
	__s32 fd;
	__u32 delay_ms;
};

/**
 * struct dmabuf_test_query - ask what importers hold now
 * @fd: the buffer
 * @pages: pages of memory; 0 after a revoke has freed them
 * @vmaps: 1 if vmapped (the dma-buf core counts the users)
 * @brackets: calls of begin_cpu_access without end_cpu_access
 * @attachments: attached devices
 * @pins: pinned attachments
 * @maps: mapped attachments
 * @sg_entries: entries in the table of the last map
 * @moves: how often the buffer has moved
 */
struct dmabuf_test_query {
	__s32 fd;
	__u32 pages;
	__u32 vmaps;
	__u32 brackets;
	__u32 attachments;
	__u32 pins;
	__u32 maps;
	__u32 sg_entries;
	__u32 moves;
};

enum dmabuf_test_import_flags {
	DMABUF_TEST_REVOCABLE = 1 << 0,	/* the exporter may take it back */
};

/**
 * struct dmabuf_test_import - map a dma-buf for DMA; the ioctl returns an fd
 * @fd: the dma-buf
 * @flags: enum dmabuf_test_import_flags
 *
 * The buffer is pinned and mapped until that fd is closed, or until the exporter
 * takes a revocable import back. See test-importer.c.
 */
struct dmabuf_test_import {
	__s32 fd;
	__u32 flags;
};

#define DMABUF_TEST_CREATE _IOW('T', 0x40, struct dmabuf_test_create)
#define DMABUF_TEST_BEHAVE _IOW('T', 0x41, struct dmabuf_test_behave)
#define DMABUF_TEST_FENCE _IOW('T', 0x42, struct dmabuf_test_fence)
#define DMABUF_TEST_MOVE _IOW('T', 0x43, struct dmabuf_test_move)
#define DMABUF_TEST_QUERY _IOWR('T', 0x44, struct dmabuf_test_query)
/* The next two take a pointer to the fd. */
#define DMABUF_TEST_SIGNAL _IOW('T', 0x45, __s32)
#define DMABUF_TEST_REVOKE _IOW('T', 0x46, __s32)
#define DMABUF_TEST_IMPORT _IOW('T', 0x47, struct dmabuf_test_import)

#endif
