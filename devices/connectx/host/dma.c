// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Access to the guest's memory, by its bus addresses.
 *
 * The invariant: every access asks dma_run(), which leaves no byte outside of one region.
 * More than the regions may be mapped here (dma_file.c), so nothing else keeps an access
 * inside.  dma_ask() is for what lies outside of the regions that have a file.
 *
 * A work request goes to and fro between a few pages: its queue, a doorbell record, data, a
 * CQ.  recent[] has what was found for them, in a slot for each page, and saves most of the
 * walks through the tree.  What is in a slot may be out of date, even a region that is not
 * in use, or one of other addresses: it counts only if ADDR is inside.
 */
#include "dma.h"
#include "dma_file.h"
#include <endian.h>
#include <errno.h>
#include <string.h>

/* Whether LEN bytes at ADDR, of which there is one, end at 2^64 or before. */
static bool in_space(uint64_t addr, size_t len)
{
	return len - 1 <= UINT64_MAX - addr;
}

/* Where a look-up leaves what it found for the page of ADDR. */
static uint32_t *recent_of(struct dma *d, uint64_t addr)
{
	return &d->recent[addr / DMA_PAGE * 0x9e3779b97f4a7c15ull >> (64 - DMA_LOG_RECENT)];
}

void *dma_run(struct dma *d, uint64_t addr, size_t *len, bool write)
{
	uint32_t *recent = recent_of(d, addr);
	const struct dma_region *r;

	if (d->off || !d->count || !in_space(addr, *len))
		return NULL;
	r = &d->region[*recent];
	/* An address below the region wraps to more than any size. */
	if (addr - r->addr >= r->size) {
		uint32_t i = dma_find(d, addr);

		if (addr - d->region[i].addr >= d->region[i].size)
			return NULL;
		*recent = i;
		r = &d->region[i];
	}
	if (!r->file || (write && !r->file->writable))
		return NULL;
	if (*len > r->size - (addr - r->addr))
		*len = r->size - (addr - r->addr);
	return r->file->base + r->offset + (addr - r->addr);
}

size_t dma_gap(const struct dma *d, uint64_t addr, size_t len)
{
	uint64_t last = addr + (len - 1), at = addr;
	const struct dma_region *r;
	uint32_t i;

	if (d->off || !d->ask || !in_space(addr, len))
		return 0;
	/* Regions without a file belong to the gap. */
	for (; (i = dma_find(d, at)); at = r->addr + r->size) {
		r = &d->region[i];
		if (r->addr > last)
			return len;
		if (r->file)
			return r->addr > addr ? r->addr - addr : 0;
		if (r->addr + (r->size - 1) >= last)
			return len;
	}
	return len;
}

int dma_ask(struct dma *d, uint64_t addr, void *data, size_t len, bool write)
{
	uint8_t *p = data;

	while (len) {
		size_t n = len < DMA_ASK_MAX ? len : DMA_ASK_MAX;
		int err;

		/* Asking may end with the device off the bus, or QEMU gone. */
		if (d->off || !d->ask || dma_asking(d))
			return -EFAULT;
		d->asking = true;
		err = d->ask(d->ask_arg, addr, p, n, write);
		d->asking = false;
		if (err)
			return -EFAULT;
		addr += n;
		p += n;
		len -= n;
	}
	return 0;
}

int dma_read(struct dma *d, uint64_t addr, void *to, size_t len)
{
	uint8_t *p = to;

	while (len) {
		size_t n = len;
		const void *host = dma_run(d, addr, &n, false);

		if (!host)
			return -EFAULT;
		memcpy(p, host, n);
		addr += n;
		p += n;
		len -= n;
	}
	return 0;
}

int dma_write(struct dma *d, uint64_t addr, const void *from, size_t len)
{
	const uint8_t *p = from;

	while (len) {
		size_t n = len;
		void *host = dma_run(d, addr, &n, true);

		if (!host)
			return -EFAULT;
		memcpy(host, p, n);
		addr += n;
		p += n;
		len -= n;
	}
	return 0;
}

/* Regions are whole pages: what is aligned does not cross the end of one. */
static void *aligned(struct dma *d, uint64_t addr, size_t size, bool write)
{
	size_t n = size;

	return addr % size ? NULL : dma_run(d, addr, &n, write);
}

int dma_load_be32(struct dma *d, uint64_t addr, uint32_t *value)
{
	const uint32_t *host = aligned(d, addr, 4, false);

	if (!host)
		return -EFAULT;
	*value = be32toh(__atomic_load_n(host, __ATOMIC_ACQUIRE));
	return 0;
}

int dma_store8(struct dma *d, uint64_t addr, uint8_t value)
{
	uint8_t *host = aligned(d, addr, 1, true);

	if (!host)
		return -EFAULT;
	__atomic_store_n(host, value, __ATOMIC_RELEASE);
	return 0;
}
