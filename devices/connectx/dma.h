/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory that the guest has mapped for the device, and the only way by which the
 * model reaches it: addresses are the guest's bus addresses, and an address, a length or
 * a direction that the guest did not map is an error (-EFAULT), never an access.
 *
 * The map is a sorted array of regions that do not overlap, each one mmap() of a file
 * descriptor that came with the vfio-user message.  What is not in it, such as the BAR of
 * another device, QEMU can be asked to read or write: dma_ask().  That takes a
 * thousand times as long as a copy, so only the data path does it, for what a key names;
 * queues, doorbell records and commands are in memory that is mapped, or nowhere.
 */
#ifndef CONNECTX_DMA_H
#define CONNECTX_DMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DMA_REGIONS 512		/* at most */
#define DMA_ASK_MAX 4096	/* in one message; as much as a packet */

struct dma_region {
	uint64_t addr, size;
	uint8_t *host;		/* NULL: mapped without a file descriptor */
	bool writable;
};

struct dma {
	struct dma_region region[DMA_REGIONS];
	unsigned int count, last;	/* last: where the previous look-up ended */
	bool off;			/* the device may not use the bus: all is out of reach */
	/* Ask QEMU, for up to DMA_ASK_MAX bytes: 0 or -EFAULT.  NULL: there is none. */
	int (*ask)(void *arg, uint64_t addr, void *data, size_t len, bool write);
	void *ask_arg;
	bool asking;			/* it is being asked */
};

/*
 * Map SIZE bytes of FD from OFFSET, or, with an FD of -1, only note that they are there.
 * The caller closes FD.  -EINVAL: not whole pages, it wraps, or the file is shorter;
 * -EEXIST: part of it is mapped already; -ENOSPC: too many regions; else what mmap() says.
 */
int dma_map(struct dma *d, uint64_t addr, uint64_t size, int fd, uint64_t offset, bool writable);
/* Unmap all regions inside the range.  -EINVAL: a region is only partly inside. */
int dma_unmap(struct dma *d, uint64_t addr, uint64_t size);
void dma_unmap_all(struct dma *d);

/*
 * A pointer to ADDR that is good for *LEN bytes: *LEN is reduced to what is contiguous.
 * NULL if not even one byte is mapped for that direction.  The pointer is good until
 * the callback of the loop returns.
 */
void *dma_run(struct dma *d, uint64_t addr, size_t *len, bool write);

/*
 * Of LEN bytes at ADDR, how many are not mapped here, so that QEMU can be asked for
 * them; 0: the first one is mapped, or there is nobody to ask.
 */
size_t dma_gap(const struct dma *d, uint64_t addr, size_t len);
/*
 * Have QEMU read or write them, in pieces.  0 or -EFAULT; on an error an unspecified
 * part was copied.  When this returns, what was written is at its place, as far as
 * QEMU's own processors and this device can see.
 *
 * Meanwhile messages of QEMU are handled, or both might wait for each other: the map
 * may have changed, so pointers from before are no good; doorbells may have been rung, and
 * the device may be off the bus; but no object was created, changed by a command, or
 * destroyed.
 */
int dma_ask(struct dma *d, uint64_t addr, void *data, size_t len, bool write);

/* 0 or -EFAULT; on an error an unspecified part was copied. */
int dma_read(struct dma *d, uint64_t addr, void *to, size_t len);
int dma_write(struct dma *d, uint64_t addr, const void *from, size_t len);
/*
 * Aligned and atomic, in the byte order of the bus: for what guest and device share,
 * doorbell records and owner bytes.  dma_store8() orders all earlier stores before it.
 */
int dma_load_be32(struct dma *d, uint64_t addr, uint32_t *value);
int dma_store8(struct dma *d, uint64_t addr, uint8_t value);

#endif
