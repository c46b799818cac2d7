// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The guest's memory, as QEMU's DMA_MAP messages describe it (vfio-user).
 *
 * The invariant: regions are whole pages, sorted by address, and do not overlap; HOST is
 * a mapping of all of SIZE, or NULL.  Every access asks dma_run(), which leaves no byte
 * outside of one region.  dma_ask() is for what lies outside of those that have a HOST.
 *
 * Regions are mapped shared, with what the file held at that time checked against its
 * length.  A client that truncates the file later makes an access raise SIGBUS.  QEMU,
 * which owns the file, is trusted not to; main.c reports the signal and ends the process.
 * The guest has no such power: it owns the contents of the memory, not the file.
 */
#include "dma.h"
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PAGE 4096u

/* The first region that ends beyond ADDR, or COUNT. */
static unsigned int find(const struct dma *d, uint64_t addr)
{
	unsigned int low = 0, high = d->count;

	while (low < high) {
		unsigned int mid = (low + high) / 2;

		if (d->region[mid].addr + d->region[mid].size <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int map_fd(struct dma_region *r, int fd, uint64_t offset)
{
	int prot = PROT_READ | (r->writable ? PROT_WRITE : 0);
	struct stat st;
	void *host;

	if (offset % PAGE || offset > INT64_MAX)
		return -EINVAL;
	if (fstat(fd, &st))
		return -errno;
	if (S_ISREG(st.st_mode) &&
	    ((uint64_t)st.st_size < offset || st.st_size - offset < r->size))
		return -EINVAL;
	host = mmap(NULL, r->size, prot, MAP_SHARED | MAP_NORESERVE, fd, offset);
	if (host == MAP_FAILED)
		return -errno;
	/* A core file of the model has no business with the guest's memory. */
	madvise(host, r->size, MADV_DONTDUMP);
	r->host = host;
	return 0;
}

int dma_map(struct dma *d, uint64_t addr, uint64_t size, int fd, uint64_t offset, bool writable)
{
	struct dma_region r = { .addr = addr, .size = size, .writable = writable };
	unsigned int i = find(d, addr);
	int ret;

	if (!size || addr % PAGE || size % PAGE || addr + size < addr)
		return -EINVAL;
	if (i < d->count && d->region[i].addr < addr + size)
		return -EEXIST;
	if (d->count == DMA_REGIONS)
		return -ENOSPC;
	if (fd >= 0) {
		ret = map_fd(&r, fd, offset);
		if (ret)
			return ret;
	}
	memmove(&d->region[i + 1], &d->region[i], (d->count - i) * sizeof(r));
	d->region[i] = r;
	d->count++;
	return 0;
}

int dma_unmap(struct dma *d, uint64_t addr, uint64_t size)
{
	unsigned int first = find(d, addr), end;

	if (!size || addr + size < addr)
		return -EINVAL;
	for (end = first; end < d->count && d->region[end].addr < addr + size; end++)
		if (d->region[end].addr < addr ||
		    d->region[end].addr + d->region[end].size > addr + size)
			return -EINVAL;
	for (unsigned int i = first; i < end; i++)
		if (d->region[i].host)
			munmap(d->region[i].host, d->region[i].size);
	memmove(&d->region[first], &d->region[end], (d->count - end) * sizeof(d->region[0]));
	d->count -= end - first;
	return 0;
}

void dma_unmap_all(struct dma *d)
{
	for (unsigned int i = 0; i < d->count; i++)
		if (d->region[i].host)
			munmap(d->region[i].host, d->region[i].size);
	d->count = 0;
}

void *dma_run(struct dma *d, uint64_t addr, size_t *len, bool write)
{
	const struct dma_region *r = &d->region[d->last];

	if (d->off)
		return NULL;
	/* An address below the region wraps to more than any size. */
	if (d->last >= d->count || addr - r->addr >= r->size) {
		unsigned int i = find(d, addr);

		if (i == d->count || addr < d->region[i].addr)
			return NULL;
		d->last = i;
		r = &d->region[i];
	}
	if (!r->host || (write && !r->writable))
		return NULL;
	if (*len > r->size - (addr - r->addr))
		*len = r->size - (addr - r->addr);
	return r->host + (addr - r->addr);
}

size_t dma_gap(const struct dma *d, uint64_t addr, size_t len)
{
	unsigned int i = find(d, addr);

	if (d->off || !d->ask || addr + len < addr)
		return 0;
	while (i < d->count && !d->region[i].host)
		i++;
	if (i == d->count || d->region[i].addr >= addr + len)
		return len;
	return d->region[i].addr > addr ? d->region[i].addr - addr : 0;
}

int dma_ask(struct dma *d, uint64_t addr, void *data, size_t len, bool write)
{
	uint8_t *p = data;

	while (len) {
		size_t n = len < DMA_ASK_MAX ? len : DMA_ASK_MAX;
		int err;

		/* Asking may end with the device off the bus, or QEMU gone. */
		if (d->off || !d->ask || d->asking)
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
