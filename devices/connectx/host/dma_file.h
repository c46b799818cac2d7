/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files of guest memory as they are mapped into this process; for dma.c and dma_map.c only. */
#ifndef CONNECTX_DMA_FILE_H
#define CONNECTX_DMA_FILE_H

#include "dma.h"

struct dma_file {
	struct dma_file *next;
	dev_t dev;
	ino_t ino;
	bool writable;
	uint8_t *base;			/* SIZE bytes, from the file's start if it is shared */
	uint64_t size;
	unsigned int regions;		/* that are in it */
};

/*
 * Give R, whose address and size are known, its file, with FD from OFFSET.  0, or an error
 * of dma_map() and R as it was.
 */
int dma_file_get(struct dma *d, struct dma_region *r, int fd, uint64_t offset, bool writable);
/* R's file, if it has one, is not in use by R any more. */
void dma_file_put(struct dma *d, struct dma_region *r);

#endif
