/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A PCI function: to which of its parts an access of QEMU goes, and what its configuration
 * space lets through.  The function of Data Direct has no registers.
 */
#ifndef CONNECTX_FUNCTION_H
#define CONNECTX_FUNCTION_H

#include "loop.h"
#include "pci.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dma;
struct hca;
struct vfu;

struct function {
	struct pci pci;
	struct dma *dma;
	struct hca *hca;		/* NULL: the function of Data Direct, and then */
	const struct vpd *vpd;
	struct vfu *vfu;		/* NULL: no QEMU */
	bool left;			/* the card is not in its slot any more */
	struct work reset;		/* of the device, put off */
};

/* DMA, and HCA or VPD, are set by then. */
void function_init(struct function *f);
/* As by QEMU's DEVICE_RESET: the whole function, its configuration space too. */
void function_reset(struct function *f);
/* The card is pulled out of its slot, and does not come back. */
void function_leave(struct function *f);
/* The function of Data Direct is plugged in again, or has no QEMU any more (VFU is NULL). */
void function_plug(struct function *f, struct vfu *vfu);
/* An interrupt of the device; ARG is the function. */
void function_raise(void *arg, unsigned int vector);
/* As struct vfu_ops has them. */
void function_read(struct function *f, unsigned int region, uint64_t offset, void *data,
		   size_t size);
void function_write(struct function *f, unsigned int region, uint64_t offset, const void *data,
		    size_t size);

#endif
