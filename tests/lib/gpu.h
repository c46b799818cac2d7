/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Buffers of mrfd_gpu, the GPU of the tests (gpu/mrfd_gpu.h): it exports as amdgpu and xe do.
 * A buffer of the kind GPU_VRAM begins in VRAM, one of GPU_SYSTEM in system memory; where it
 * is when RDMA reaches it depends on the importer.
 */
#ifndef LIB_GPU_H
#define LIB_GPU_H

#include "gpu/mrfd_gpu.h"
#include "lib/memory.h"

/* FLAGS is MRFD_GPU_ONLY and others. */
void gpu_open(struct memory *m, enum memory_kind kind, size_t size, uint32_t flags);
/* The same, but there may be no room: 0 or an errno.  M is to be closed in either case. */
int gpu_try_open(struct memory *m, enum memory_kind kind, size_t size, uint32_t flags);

/* PLACE is MRFD_GPU_VRAM or MRFD_GPU_SYSTEM. 0 or an errno. */
int gpu_move(const struct memory *m, uint32_t place, uint32_t delay_ms);
/* How late a copy begins that names no delay: that of an eviction. */
void gpu_delay(const struct memory *m, unsigned int ms);
struct mrfd_gpu_query gpu_query(const struct memory *m);
struct mrfd_gpu_info gpu_info(const struct memory *m);
/* Whether importers hold nothing of it; prints what they hold. */
bool gpu_at_rest(const struct memory *m);

/* Unbind the driver, or bind it; errno if the kernel refuses. */
int gpu_unbind(void);
int gpu_bind(void);
bool gpu_is_bound(void);
/* Have it leave the PCI bus; and have it back there, if it is not, and bound, if it is not. */
int gpu_leave_bus(void);
int gpu_come_back(void);

#endif
