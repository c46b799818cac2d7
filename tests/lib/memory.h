/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of every kind that an MR can have.  Whatever has an fd is mapped too, and
 * RDMA has no part in that mapping: by it a case looks at what really arrived.
 *
 * vgem, udmabuf, the system heap and virtio-gpu export system memory as a dma-buf;
 * bochs exports VRAM, which is I/O memory.  A guest without the exporter is a
 * mistake of whoever booted it: memory_open() fails the case.
 */
#ifndef LIB_MEMORY_H
#define LIB_MEMORY_H

#include "lib/access.h"
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE 4096ul
#define IOVA 0x7000000000ul	/* where an MR of an fd begins, if a case does not care */

enum memory_kind { HOST, MEMFD, VGEM, UDMABUF, HEAP, VIRTIO_GPU, BOCHS, TEST_EXPORTER };

struct memory {
	enum memory_kind kind;
	size_t size;
	uint8_t *cpu;			/* its bytes */
	int fd;				/* or -1 */
	enum ibv_mr_fd_type fd_type;
	uint64_t iova;			/* of an MR of it; of HOST memory its address */
	int drm_fd;			/* of a DRM exporter, else -1 */
	uint32_t handle;		/* there */
	uint8_t *before;		/* a copy of its bytes, see memory_mark() */
};

/* SIZE is a multiple of PAGE; a bochs buffer has at least the bytes of its screen. */
void memory_open(struct memory *m, enum memory_kind kind, size_t size);
/* With the pattern of SEED in it, and marked. */
void memory_open_filled(struct memory *m, enum memory_kind kind, size_t size, uint32_t seed);
/* Memory that is all 0, or half open, may be closed too. */
void memory_close(struct memory *m);
void memory_close_fd(struct memory *m);

/* Keep a copy of its bytes; whether they are the same, or but for N at FROM. */
void memory_mark(struct memory *m);
bool memory_untouched(const struct memory *m);
bool memory_only_changed(const struct memory *m, size_t from, size_t n);

/* An MR of all of it; ends the case if there is none. */
struct ibv_mr *memory_reg(const struct memory *m, struct ibv_pd *pd, int access);
/* What ibv_rereg_mr() returns.  Only what FLAGS change is looked at. */
int memory_rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, const struct memory *m,
		 int access);
/* Deregister, unless it is NULL. */
void mr_close(struct ibv_mr *mr);

/* An fd alone: of the system heap, opened with these flags; a memfd. */
int heap_fd(size_t size, int flags);
int memfd_of(size_t size, unsigned int flags);

#endif
