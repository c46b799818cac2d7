/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The server's side of a vfio-user connection (docs/interop/vfio-user.rst of QEMU): QEMU
 * reads and writes the regions of a PCI device, gives it memory for DMA, and eventfds for
 * its MSI-X vectors.  The one request in the other direction is for memory that QEMU
 * has not given: it is DMA's ask() (dma.h).
 */
#ifndef CONNECTX_VFIO_USER_H
#define CONNECTX_VFIO_USER_H

#include "dma.h"
#include "loop.h"

#define VFU_REGIONS 9		/* as <linux/vfio.h> counts them: BARs, ROM, config, VGA */
#define VFU_BAR0 0
#define VFU_CONFIG 7
#define VFU_VECTORS_MAX 64

struct vfu;

/* What the device does.  ARG is that of vfu_new(). */
struct vfu_ops {
	uint64_t region_size[VFU_REGIONS];	/* 0: there is none */
	unsigned int vectors;			/* of MSI-X, up to VFU_VECTORS_MAX */
	/*
	 * SIZE is 1, 2, 4 or 8, and OFFSET a multiple of it, inside the region.  These, and
	 * reset(), are also called from within DMA's ask(), in the middle of an access.
	 */
	void (*read)(void *arg, unsigned int region, uint64_t offset, void *data, size_t size);
	void (*write)(void *arg, unsigned int region, uint64_t offset, const void *data,
		      size_t size);
	void (*reset)(void *arg);
	/*
	 * The connection is over, and all of QEMU's memory is unmapped.  ERR is 0 if
	 * QEMU closed it between two messages; else a note() says what was wrong.
	 */
	void (*gone)(void *arg, int err);
};

/*
 * Serve the QEMU that is connected to the socket FD, which is ours from now on, also if
 * this fails.  DMA is filled and emptied as QEMU says.  NULL with errno.
 */
struct vfu *vfu_new(struct loop *l, struct dma *d, const struct vfu_ops *ops, void *arg, int fd);
void vfu_free(struct vfu *v);

/*
 * Both are functions of one card, each with a connection of its own, or, with B NULL, A has
 * no other one any more.  While one waits for an answer of QEMU messages of both are handled.
 */
void vfu_pair(struct vfu *a, struct vfu *b);

/* An interrupt.  It is kept while the vector has no eventfd, or all are held. */
void vfu_raise(struct vfu *v, unsigned int vector);
void vfu_hold(struct vfu *v, bool held);
/* The vectors whose interrupt is kept: the pending bit array of MSI-X. */
uint64_t vfu_pending(const struct vfu *v);
/* Forget them: the device was reset. */
void vfu_lower_all(struct vfu *v);

#endif
