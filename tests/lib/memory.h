/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of every kind that an MR can have.  Memory with an fd is also mapped into the
 * process.  RDMA does not use that mapping, so a case sees there what really arrived.
 *
 * vgem, udmabuf, the system heap and virtio-gpu export system memory as a dma-buf;
 * qxl exports VRAM, which is I/O memory.  A buffer of the GPU of the tests begins in VRAM or in
 * system memory (see gpu.h).  If the guest lacks the exporter, memory_open() fails the case.
 */
#ifndef LIB_MEMORY_H
#define LIB_MEMORY_H

#include "lib/access.h"
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE 4096ul
#define IOVA 0x7000000000ul	/* the iova of an MR of an fd, if a case needs no other */

enum memory_kind {
	HOST, MEMFD, VGEM, UDMABUF, HEAP, VIRTIO_GPU, QXL, TEST_EXPORTER, GPU_VRAM, GPU_SYSTEM,
	ON_DEMAND	/* as HOST, but its MRs are for on-demand paging */
};

struct memory {
	enum memory_kind kind;
	size_t size;
	uint8_t *cpu;			/* its bytes */
	int fd;				/* or -1 */
	enum ibv_mr_fd_type fd_type;
	uint64_t iova;			/* of an MR of it; of memory of the process its address */
	int drm_fd;			/* of a DRM exporter, else -1 */
	uint32_t handle;		/* of the buffer on drm_fd */
	uint8_t *before;		/* a copy of its bytes, see memory_mark() */
};

/* SIZE is a multiple of PAGE. */
void memory_open(struct memory *m, enum memory_kind kind, size_t size);
/* The same; filled with the pattern of SEED, and marked. */
void memory_open_filled(struct memory *m, enum memory_kind kind, size_t size, uint32_t seed);
/* Also for a struct that is all 0, and for memory that was opened only in part. */
void memory_close(struct memory *m);
void memory_close_fd(struct memory *m);

bool memory_is_zero(const struct memory *m);
/* Keep a copy of its bytes.  Later: whether no byte changed, or none but the N at FROM. */
void memory_mark(struct memory *m);
bool memory_untouched(const struct memory *m);
bool memory_only_changed(const struct memory *m, size_t from, size_t n);

/* Whether an MR of it names addresses of the process, and no fd. */
bool memory_of_process(const struct memory *m);
/* Every right that an MR of it can have on the device: some know no windows on a dma-buf. */
int memory_rights(const struct memory *m);
/* Register all of it; a failure ends the case. */
struct ibv_mr *memory_reg(const struct memory *m, struct ibv_pd *pd, int access);
/* Register and deregister all of it: the errno of what fails, or 0. */
int memory_reg_errno(const struct memory *m, struct ibv_pd *pd);
/*
 * Returns what ibv_rereg_mr() returns.  M selects the verb; else only what FLAGS change counts.
 * New rights are for on-demand paging if M is.  Without new rights that stays as it was.
 */
int memory_rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, const struct memory *m,
		 int access);
/* Deregister, unless it is NULL. */
void mr_close(struct ibv_mr *mr);

/* The primary node whose driver has this name, or -1. */
int memory_open_card(const char *driver);

/* Only an fd: a buffer of the system heap with these open flags, or a memfd. */
int heap_fd(size_t size, int flags);
int memfd_of(size_t size, unsigned int flags);

#endif
