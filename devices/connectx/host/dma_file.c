// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The files of the guest's memory.  Regions are many and files are few, so a file is mapped
 * once for all of its regions, or twice: one that is only readable is in a mapping that
 * nobody can write to.  A mapping goes with its last region.
 *
 * A file is known by device and inode, which stay its own as long as it is mapped.  All of it
 * is mapped, by the size that it has: an address costs nothing until it is used, hugetlbfs
 * maps from the start of a page of its own only, and a mapping has to grow only if the file
 * did.  Then a larger one takes its place.  What is no regular file, such as a BAR of a
 * device, may mean another thing by the same offset for each descriptor, and its size
 * says nothing; it is mapped region by region, as is a file that is too large to be mapped.
 * Those are limited by vm.max_map_count.
 *
 * Regions are mapped shared, with the file's length checked at that time.  A client that
 * truncates the file later makes an access raise SIGBUS.  QEMU, which owns the file, is
 * trusted not to; main.c reports the signal and ends the process.  The guest has no such
 * power: it owns the contents of the memory, not the file.
 */
#include "dma_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Have F be a mapping of SIZE bytes; if that fails it is as it was. */
static int map_file(struct dma_file *f, int fd, uint64_t offset, uint64_t size)
{
	int prot = PROT_READ | (f->writable ? PROT_WRITE : 0);
	void *base = mmap(NULL, size, prot, MAP_SHARED | MAP_NORESERVE, fd, offset);

	if (base == MAP_FAILED)
		return -errno;
	/* A core file of the model has no business with the guest's memory. */
	madvise(base, size, MADV_DONTDUMP);
	if (f->base)
		munmap(f->base, f->size);
	f->base = base;
	f->size = size;
	return 0;
}

static struct dma_file *new_file(const struct stat *st, bool writable)
{
	struct dma_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->dev = st->st_dev;
	f->ino = st->st_ino;
	f->writable = writable;
	return f;
}

/* A mapping for R alone, which is not in the list. */
static int map_alone(struct dma_region *r, const struct stat *st, int fd, uint64_t offset,
		     bool writable)
{
	struct dma_file *f = new_file(st, writable);
	int ret = f ? map_file(f, fd, offset, r->size) : -ENOMEM;

	if (ret) {
		free(f);
		return ret;
	}
	f->regions = 1;
	r->file = f;
	r->offset = 0;
	return 0;
}

/* R has room in the file, as it is now. */
static int map_shared(struct dma *d, struct dma_region *r, const struct stat *st, int fd,
		      uint64_t offset, bool writable)
{
	struct dma_file *f = d->files;
	int ret = 0;

	while (f && (f->dev != st->st_dev || f->ino != st->st_ino || f->writable != writable))
		f = f->next;
	if (!f) {
		f = new_file(st, writable);
		if (!f)
			return -ENOMEM;
		f->next = d->files;
		d->files = f;
	}
	if (f->size < offset + r->size)
		ret = map_file(f, fd, 0, st->st_size);
	if (ret) {
		if (!f->regions) {
			d->files = f->next;
			free(f);
		}
		return ret;
	}
	f->regions++;
	r->file = f;
	r->offset = offset;
	return 0;
}

/* What mmap() would check, of a descriptor for a file that need not be mapped again. */
static bool may(int fd, bool writable)
{
	int mode = fcntl(fd, F_GETFL) & O_ACCMODE;

	return mode == O_RDWR || (mode == O_RDONLY && !writable);
}

int dma_file_get(struct dma *d, struct dma_region *r, int fd, uint64_t offset, bool writable)
{
	struct stat st;

	if (offset % DMA_PAGE || offset > INT64_MAX)
		return -EINVAL;
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return map_alone(r, &st, fd, offset, writable);
	if ((uint64_t)st.st_size < offset || st.st_size - offset < r->size)
		return -EINVAL;
	if (!may(fd, writable))
		return -EACCES;
	if (!map_shared(d, r, &st, fd, offset, writable))
		return 0;
	return map_alone(r, &st, fd, offset, writable);
}

void dma_file_put(struct dma *d, struct dma_region *r)
{
	struct dma_file *f = r->file;

	r->file = NULL;
	if (!f || --f->regions)
		return;
	for (struct dma_file **p = &d->files; *p; p = &(*p)->next) {
		if (*p == f) {
			*p = f->next;
			break;
		}
	}
	munmap(f->base, f->size);
	free(f);
}
