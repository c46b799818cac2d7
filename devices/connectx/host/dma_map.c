// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The map of the guest's memory, as QEMU's DMA_MAP and DMA_UNMAP messages describe it
 * (vfio-user).  Behind a vIOMMU a region is a page, and there are thousands of them.
 *
 * The regions are whole pages, do not overlap, and are the nodes of a balanced tree by
 * address: an AA tree (A. Andersson, 1993), which is a red-black tree that has its red nodes
 * on the right only.  The left child of a node is one level below it.  The right child is
 * too, or is on its level, and then that one's right child is below.  So a branch has at most
 * two nodes on each of log2(regions) levels: 32 if there are as many regions as there may be.
 *
 * Nodes are in one array and name each other by number, so that it can move when it grows,
 * and so that a number from before (recent[] in dma.c) is that of some node, in use or not.
 * The array keeps its size until all is unmapped: 3 MiB at most.
 */
#include "dma.h"
#include "dma_file.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AT_FIRST 64u		/* nodes, with number 0; doubles up to one more than DMA_REGIONS */

_Static_assert(((DMA_REGIONS + 1) & DMA_REGIONS) == 0 && DMA_REGIONS >= AT_FIRST,
	       "doubling AT_FIRST ends at DMA_REGIONS + 1");

static uint64_t last_of(const struct dma_region *r)
{
	return r->addr + (r->size - 1);
}

uint32_t dma_find(const struct dma *d, uint64_t addr)
{
	uint32_t found = 0, i = d->root;

	while (i) {
		const struct dma_region *r = &d->region[i];

		if (last_of(r) < addr) {
			i = r->right;
			continue;
		}
		found = i;
		if (r->addr <= addr)
			break;
		i = r->left;
	}
	return found;
}

/* -------------------------------------------------------------------- the tree */

/* These take the number of a subtree's root, change the subtree, and return its new root. */

/* A left child of the same level becomes the root. */
static uint32_t skew(struct dma_region *r, uint32_t t)
{
	uint32_t left = r[t].left;

	if (!t || r[left].level != r[t].level)
		return t;
	r[t].left = r[left].right;
	r[left].right = t;
	return left;
}

/* Of three of the same level, one right of the other, the middle one becomes the root. */
static uint32_t split(struct dma_region *r, uint32_t t)
{
	uint32_t right = r[t].right;

	if (!t || r[r[right].right].level != r[t].level)
		return t;
	r[t].right = r[right].left;
	r[right].left = t;
	r[right].level++;
	return right;
}

static uint32_t insert(struct dma_region *r, uint32_t t, uint32_t i)
{
	if (!t)
		return i;
	if (r[i].addr < r[t].addr)
		r[t].left = insert(r, r[t].left, i);
	else
		r[t].right = insert(r, r[t].right, i);
	return split(r, skew(r, t));
}

/* Below T, or one of its children, a level is missing. */
static uint32_t lower(struct dma_region *r, uint32_t t)
{
	uint32_t left = r[r[t].left].level, right = r[r[t].right].level;
	uint32_t level = (left < right ? left : right) + 1, *at;

	if (level < r[t].level) {
		r[t].level = level;
		if (level < right)
			r[r[t].right].level = level;
	}
	t = skew(r, t);
	at = &r[t].right;
	*at = skew(r, *at);
	if (*at)
		r[*at].right = skew(r, r[*at].right);
	t = split(r, t);
	r[t].right = split(r, r[t].right);
	return t;
}

/* Take the region at ADDR, which is in the tree, out of it; *GONE is the node that is left. */
static uint32_t erase(struct dma_region *r, uint32_t t, uint64_t addr, uint32_t *gone)
{
	if (addr < r[t].addr) {
		r[t].left = erase(r, r[t].left, addr, gone);
	} else if (addr > r[t].addr) {
		r[t].right = erase(r, r[t].right, addr, gone);
	} else if (!r[t].left) {
		*gone = t;
		return r[t].right;
	} else {
		/* There is a right one too.  The next region's node goes, and it comes here. */
		uint32_t next = r[t].right;

		while (r[next].left)
			next = r[next].left;
		r[t].addr = r[next].addr;
		r[t].size = r[next].size;
		r[t].file = r[next].file;
		r[t].offset = r[next].offset;
		r[t].right = erase(r, r[t].right, r[t].addr, gone);
	}
	return lower(r, t);
}

/* ------------------------------------------------------------------- the array */

static bool grow(struct dma *d)
{
	uint32_t size = d->size ? 2 * d->size : AT_FIRST;
	struct dma_region *region = realloc(d->region, size * sizeof(*region));

	if (!region)
		return false;
	if (!d->size) {
		memset(&region[0], 0, sizeof(region[0]));
		d->made = 1;
	}
	d->region = region;
	d->size = size;
	return true;
}

/* The number of a node that is not in use; 0: there is no memory. */
static uint32_t new_node(struct dma *d)
{
	uint32_t i = d->unused;

	if (i) {
		d->unused = d->region[i].left;
		return i;
	}
	if (d->made == d->size && !grow(d))
		return 0;
	return d->made++;
}

static void free_node(struct dma *d, uint32_t i)
{
	d->region[i] = (struct dma_region){ .left = d->unused };
	d->unused = i;
}

/* --------------------------------------------------------------------- the map */

int dma_map(struct dma *d, uint64_t addr, uint64_t size, int fd, uint64_t offset, bool writable)
{
	struct dma_region new = { .addr = addr, .size = size, .level = 1 };
	uint32_t i = dma_find(d, addr);
	int ret;

	if (!size || addr % DMA_PAGE || size % DMA_PAGE || last_of(&new) < addr)
		return -EINVAL;
	if (i && d->region[i].addr <= last_of(&new))
		return -EEXIST;
	if (d->count == DMA_REGIONS)
		return -ENOSPC;
	i = new_node(d);
	if (!i)
		return -ENOMEM;
	ret = fd < 0 ? 0 : dma_file_get(d, &new, fd, offset, writable);
	if (ret) {
		free_node(d, i);
		return ret;
	}
	d->region[i] = new;
	d->root = insert(d->region, d->root, i);
	d->count++;
	return 0;
}

/* Whether a region has both the byte at ADDR and the one before. */
static bool cuts(const struct dma *d, uint64_t addr)
{
	uint32_t i = dma_find(d, addr);

	return i && d->region[i].addr < addr;
}

int dma_unmap(struct dma *d, uint64_t addr, uint64_t size)
{
	uint64_t last = addr + (size - 1);
	uint32_t i, gone;

	/* Nothing is cut at 2^64, where LAST + 1 is 0. */
	if (!size || last < addr || cuts(d, addr) || cuts(d, last + 1))
		return -EINVAL;
	while ((i = dma_find(d, addr)) && d->region[i].addr <= last) {
		dma_file_put(d, &d->region[i]);
		d->root = erase(d->region, d->root, d->region[i].addr, &gone);
		free_node(d, gone);
		d->count--;
	}
	return 0;
}

void dma_unmap_all(struct dma *d)
{
	for (uint32_t i = 1; i < d->made; i++)
		dma_file_put(d, &d->region[i]);
	free(d->region);
	d->region = NULL;
	d->made = d->size = d->root = d->unused = 0;
	d->count = 0;
	memset(d->recent, 0, sizeof(d->recent));
}
