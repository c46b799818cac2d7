/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory that the guest has mapped for the device, and the only way by which the
 * model reaches it: addresses are the guest's bus addresses, and an address, a length or
 * a direction that the guest did not map is an error (-EFAULT), never an access.
 *
 * The map (dma_map.c) has regions that do not overlap, each one a part of a file that came
 * with the vfio-user message (dma_file.c).  What is not in it, such as the BAR of another
 * device, QEMU can be asked to read or write: dma_ask().  That takes a thousand times as
 * long as a copy, so only the data path does it, for what a key names; queues, doorbell
 * records and commands are in memory that is mapped, or nowhere.
 *
 * A region, or an access, may end at 2^64.  None goes on at 0.
 */
#ifndef CONNECTX_DMA_H
#define CONNECTX_DMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DMA_PAGE 4096u
#define DMA_REGIONS 65535	/* at most; QEMU refuses a server that says more */
#define DMA_LOG_RECENT 8
#define DMA_ASK_MAX 4096	/* in one message; as much as a packet */

struct dma_file;

struct dma_region {
	uint64_t addr, size;		/* of size 0: not in use */
	/* In the tree: numbers of regions.  LEFT: also in the list of those not in use. */
	uint32_t left, right, level;
	struct dma_file *file;		/* NULL: mapped without a file descriptor */
	uint64_t offset;		/* in what is mapped of the file */
};

struct late;

/* Accesses on behalf of memory keys, and their bytes: what was copied, or waits (late.h). */
struct dma_traffic {
	uint64_t reads, read_bytes, writes, written_bytes, atomics;
};

/*
 * Of one PCI function: its own map, and its own way to what is not mapped.  All 0 at the
 * start.
 */
struct dma {
	/*
	 * MADE regions, and room for SIZE.  Number 0 is none: it ends each branch, and has
	 * size and level 0.
	 */
	struct dma_region *region;
	uint32_t made, size, root, unused;
	unsigned int count;		/* in the tree */
	/* Numbers that look-ups found, by a hash of the page, from any time: to be checked. */
	uint32_t recent[1 << DMA_LOG_RECENT];
	struct dma_file *files;		/* those that regions share */
	bool off;			/* the device may not use the bus: all is out of reach */
	/* Ask QEMU, for up to DMA_ASK_MAX bytes: 0 or -EFAULT.  NULL: there is none. */
	int (*ask)(void *arg, uint64_t addr, void *data, size_t len, bool write);
	void *ask_arg;
	bool asking;			/* it is being asked */
	struct dma *other;		/* of the card's other function, or NULL */
	struct dma_traffic traffic;
	struct late *late;		/* writes on behalf of memory keys arrive by it; or NULL */
};

/*
 * Map SIZE bytes of FD from OFFSET, or, with an FD of -1, only note that they are there.
 * The caller closes FD.  -EINVAL: not whole pages, it goes beyond 2^64, or the file is
 * shorter; -EEXIST: part of it is mapped already; -ENOSPC: too many regions; -EACCES: FD
 * was not opened for that; -ENOMEM; else what mmap() says.
 */
int dma_map(struct dma *d, uint64_t addr, uint64_t size, int fd, uint64_t offset, bool writable);
/* Unmap all regions inside the range.  -EINVAL: a region is only partly inside. */
int dma_unmap(struct dma *d, uint64_t addr, uint64_t size);
void dma_unmap_all(struct dma *d);
/* The number of the first region that ends behind ADDR or has it; 0: none does. */
uint32_t dma_find(const struct dma *d, uint64_t addr);

/*
 * A pointer to ADDR that is good for *LEN bytes: *LEN is reduced to what is contiguous.
 * NULL if not even one byte is mapped for that direction, or *LEN bytes go beyond 2^64.  The
 * pointer is good until the callback of the loop returns, or the map changes.
 */
void *dma_run(struct dma *d, uint64_t addr, size_t *len, bool write);

/* Whether QEMU is being asked by this function or the other one: an access is under way. */
static inline bool dma_asking(const struct dma *d)
{
	return d->asking || (d->other && d->other->asking);
}

/*
 * Of LEN bytes at ADDR, how many are not mapped here, so that QEMU can be asked for
 * them; 0: the first one is mapped, there is nobody to ask, or they go beyond 2^64.
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
