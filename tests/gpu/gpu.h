/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mrfd_gpu inside: the device and its buffers.
 *
 * A buffer is a TTM object, so its reservation lock protects where it is, and TTM's rules
 * hold: a buffer moves with this lock held, importers are told before (invalidate_mappings), and the
 * fence of the copy is in the reservation object.  VRAM is TTM_PL_VRAM, system memory that
 * devices can reach is TTM_PL_TT; TTM_PL_SYSTEM is memory that TTM is about to swap out.
 */
#ifndef GPU_H
#define GPU_H

#include <drm/drm_device.h>
#include <drm/drm_gem.h>
#include <drm/ttm/ttm_bo.h>
#include <drm/ttm/ttm_device.h>
#include <drm/ttm/ttm_placement.h>
#include <linux/list.h>
#include <linux/types.h>
#include "mrfd_gpu.h"

struct dma_buf;
struct dma_fence;
struct drm_file;
struct page;
struct pci_dev;
struct workqueue_struct;

/**
 * struct gpu - the device
 * @drm: its DRM device; the last reference to it frees all of this
 * @bdev: TTM's part
 * @pdev: the PCI function, also after the driver has left it
 * @alive: entry of the list of devices that have VRAM mapped
 * @base: bus address of VRAM
 * @size: bytes of VRAM
 * @vram: the kernel's mapping of VRAM; stays until @drm is released, because an
 *	importer may have it from a vmap
 * @copies: the copy engine, which does one copy after another
 * @submit: holds the order of fences and copies together
 * @fence_context: of the copies' fences
 * @fence_seqno: of the last one; protected by @submit
 * @delay_ms: how late a copy begins that names no delay (debugfs)
 * @bos_lock: protects @bos
 * @bos: all buffers
 * @moves: copies between VRAM and system memory so far
 * @evictions: those that made room
 */
struct gpu {
	struct drm_device drm;
	struct ttm_device bdev;
	struct pci_dev *pdev;
	struct list_head alive;
	resource_size_t base;
	u64 size;
	void __iomem *vram;
	struct workqueue_struct *copies;
	spinlock_t submit;
	u64 fence_context;
	u64 fence_seqno;
	u32 delay_ms;
	spinlock_t bos_lock;
	struct list_head bos;
	atomic_t moves;
	atomic_t evictions;
};

/**
 * struct gpu_bo - a buffer
 * @tbo: TTM's and GEM's part; the first member, because a vma points to it
 * @entry: of gpu->bos
 * @dmabuf: while it is exported; set and cleared with the reservation lock held, so
 *	that a move never tells importers of a dma-buf that is being released
 * @allowed: the places that moves and importers may choose
 * @flags: MRFD_GPU_ONLY and others
 * @pinned: whether the driver's own pin is held
 * @gone: importers know that the device is gone; protected by gpu->bos_lock
 * @delay_ms: of the move that is being made; protected by the reservation lock
 * @why: see enum mrfd_gpu_why
 * @attachments: see struct mrfd_gpu_query, as for the other counters
 * @peers: likewise
 * @pins: likewise
 * @maps: likewise
 * @vmaps: likewise
 * @brackets: likewise
 * @moves: likewise
 * @evictions: likewise
 */
struct gpu_bo {
	struct ttm_buffer_object tbo;
	struct list_head entry;
	struct dma_buf *dmabuf;
	u32 allowed;
	u32 flags;
	bool pinned;
	bool gone;
	u32 delay_ms;
	atomic_t why;
	atomic_t attachments;
	atomic_t peers;
	atomic_t pins;
	atomic_t maps;
	atomic_t vmaps;
	atomic_t brackets;
	atomic_t moves;
	atomic_t evictions;
};

static inline struct gpu *to_gpu(struct drm_device *drm)
{
	return container_of(drm, struct gpu, drm);
}

static inline struct gpu_bo *to_gpu_bo(struct ttm_buffer_object *tbo)
{
	return container_of(tbo, struct gpu_bo, tbo);
}

static inline struct gpu_bo *gem_to_gpu_bo(struct drm_gem_object *gem)
{
	return container_of(gem, struct gpu_bo, tbo.base);
}

static inline struct gpu *gpu_of(struct ttm_buffer_object *tbo)
{
	return container_of(tbo->bdev, struct gpu, bdev);
}

/* Where a resource begins in VRAM. */
static inline u64 gpu_offset(const struct ttm_resource *resource)
{
	return (u64)resource->start << PAGE_SHIFT;
}

/* bo.c */
extern struct ttm_device_funcs gpu_ttm_funcs;
struct gpu_bo *gpu_bo_create(struct gpu *gpu, u64 size, u32 place, u32 flags);
int gpu_bo_validate(struct gpu_bo *bo, u32 places, bool interruptible);
u32 gpu_bo_place(struct gpu_bo *bo);
void gpu_bos_gone(struct gpu *gpu);

/* copy.c */
int gpu_copies_init(struct gpu *gpu);
void gpu_copies_fini(struct gpu *gpu);
struct dma_fence *gpu_copy(struct gpu_bo *bo, u64 vram, struct page **pages, bool to_vram);

/* export.c */
struct dma_buf *gpu_export(struct drm_gem_object *gem, int flags);
struct drm_gem_object *gpu_import(struct drm_device *drm, struct dma_buf *dmabuf);

#endif
