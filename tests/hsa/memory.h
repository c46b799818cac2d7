/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the stand-in for the HSA runtime (runtime.c) has besides functions of HSA, by which a
 * test tells RDMA to memory of the GPU from a copy through the host.
 */
#ifndef HSA_MEMORY_H
#define HSA_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct mrfd_hsa_counts {
	long allocations;	/* that exist */
	long exports;		/* as dma-bufs, so far */
	long copies;		/* so far */
	uint64_t copied;	/* bytes of these */
};

struct mrfd_hsa_counts mrfd_hsa_counts(void);
/* Whether the addresses of what is allocated from now on are of memory that no CPU may touch. */
void mrfd_hsa_hide(bool hide);

#endif
