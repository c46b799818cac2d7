// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Buffers: where they are, how they move, how they are mapped
 *
 * TTM chooses places, evicts and swaps; this file moves the bytes.  A buffer that has just
 * been made is zero: TTM clears pages, the copy engine VRAM.
 *
 * A move first tells the importers (invalidate_mappings), which stop using the old memory
 * before they return, and then starts the copy.  TTM keeps the old memory until the fence of
 * the copy has signaled.
 *
 * The mapping of a process shows the buffer wherever it is: TTM removes the page table
 * entries in a move, and the next fault waits for the copy.  When the device is gone, a
 * fault is SIGBUS.
 */

#include <drm/drm_drv.h>
#include <drm/drm_gem_ttm_helper.h>
#include <drm/ttm/ttm_tt.h>
#include <linux/dma-buf.h>
#include <linux/dma-fence.h>
#include <linux/dma-resv.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include "gpu.h"

static void gpu_bo_destroy(struct ttm_buffer_object *tbo);

/* TTM hands its own objects too, which hold the old memory of a move until its end. */
static bool gpu_bo_is_ours(struct ttm_buffer_object *tbo)
{
	return tbo->destroy == gpu_bo_destroy;
}

/* Tell the importers that the memory is not where it was. */
static void gpu_bo_notify(struct gpu_bo *bo)
{
	dma_resv_assert_held(bo->tbo.base.resv);
	if (bo->dmabuf)
		dma_buf_invalidate_mappings(bo->dmabuf);
}

/**
 * gpu_bo_validate - have a buffer in one of these places
 * @bo: the buffer
 * @places: MRFD_GPU_VRAM, MRFD_GPU_SYSTEM or both; a buffer that is in one of them stays
 * @interruptible: whether a signal ends it
 *
 * Context: the reservation lock is held; may sleep.
 *
 * Return: 0, or -EINVAL if the buffer would have to move and is pinned, -ENOMEM without
 * room, -ERESTARTSYS after a signal.
 */
int gpu_bo_validate(struct gpu_bo *bo, u32 places, bool interruptible)
{
	struct ttm_operation_ctx ctx = { .interruptible = interruptible };
	struct ttm_place place[2] = {};
	struct ttm_placement placement = { .placement = place };

	if (places & MRFD_GPU_VRAM)
		place[placement.num_placement++].mem_type = TTM_PL_VRAM;
	if (places & MRFD_GPU_SYSTEM)
		place[placement.num_placement++].mem_type = TTM_PL_TT;
	if (WARN_ON_ONCE(!placement.num_placement)) /* TTM would free the memory */
		return -EINVAL;
	return ttm_bo_validate(&bo->tbo, &placement, &ctx);
}

/* MRFD_GPU_VRAM or MRFD_GPU_SYSTEM. The reservation lock is held. */
u32 gpu_bo_place(struct gpu_bo *bo)
{
	dma_resv_assert_held(bo->tbo.base.resv);
	return bo->tbo.resource->mem_type == TTM_PL_VRAM ? MRFD_GPU_VRAM : MRFD_GPU_SYSTEM;
}

/* --- What TTM calls --- */

static struct ttm_tt *gpu_tt_create(struct ttm_buffer_object *tbo, u32 page_flags)
{
	struct ttm_tt *tt = kzalloc(sizeof(*tt), GFP_KERNEL);

	if (!tt)
		return NULL;
	if (ttm_tt_init(tt, tbo, page_flags, ttm_cached, 0)) {
		kfree(tt);
		return NULL;
	}
	return tt;
}

static void gpu_tt_destroy(struct ttm_device *bdev, struct ttm_tt *tt)
{
	ttm_tt_fini(tt);
	kfree(tt);
}

static bool gpu_eviction_valuable(struct ttm_buffer_object *tbo, const struct ttm_place *place)
{
	if (!gpu_bo_is_ours(tbo) && !tbo->deleted)
		return false;
	return ttm_bo_eviction_valuable(tbo, place);
}

static void gpu_evict_flags(struct ttm_buffer_object *tbo, struct ttm_placement *placement)
{
	static const struct ttm_place system = { .mem_type = TTM_PL_TT };

	*placement = (struct ttm_placement){ .num_placement = 1, .placement = &system };
}

/* A new buffer has its first memory. */
static int gpu_move_in(struct gpu_bo *bo, struct ttm_resource *to)
{
	struct dma_fence *fence;

	if (to->mem_type == TTM_PL_VRAM) {
		fence = gpu_copy(bo, gpu_offset(to), NULL, true);
		if (IS_ERR(fence))
			return PTR_ERR(fence);
		dma_resv_add_fence(bo->tbo.base.resv, fence, DMA_RESV_USAGE_KERNEL);
		dma_fence_put(fence);
	}
	ttm_bo_move_null(&bo->tbo, to);
	return 0;
}

/* The pages stay; only what they are called changes. */
static int gpu_move_pages(struct gpu_bo *bo, struct ttm_operation_ctx *ctx,
			  struct ttm_resource *to)
{
	if (to->mem_type == TTM_PL_SYSTEM) {
		int ret = ttm_bo_wait_ctx(&bo->tbo, ctx);

		if (ret)
			return ret;
		gpu_bo_notify(bo); /* they may be swapped out next */
	}
	ttm_bo_move_null(&bo->tbo, to);
	return 0;
}

/* Between VRAM and system memory. */
static int gpu_move_bytes(struct gpu_bo *bo, bool evict, struct ttm_resource *to)
{
	bool to_vram = to->mem_type == TTM_PL_VRAM;
	struct gpu *gpu = gpu_of(&bo->tbo);
	struct dma_fence *fence;
	int ret, idx;
	u64 offset;

	if (!drm_dev_enter(&gpu->drm, &idx))
		return -ENODEV;

	gpu_bo_notify(bo);
	offset = gpu_offset(to_vram ? to : bo->tbo.resource);
	fence = gpu_copy(bo, offset, bo->tbo.ttm->pages, to_vram);
	ret = PTR_ERR_OR_ZERO(fence);
	if (ret)
		goto out;

	ret = ttm_bo_move_accel_cleanup(&bo->tbo, fence, evict, true, to);
	if (ret)
		dma_fence_wait(fence, false); /* the caller frees where it copies to */
	dma_fence_put(fence);
	if (ret)
		goto out;

	atomic_inc(&bo->moves);
	atomic_inc(&gpu->moves);
	if (evict) {
		atomic_inc(&bo->evictions);
		atomic_inc(&gpu->evictions);
	}
out:
	drm_dev_exit(idx);
	return ret;
}

static int gpu_move(struct ttm_buffer_object *tbo, bool evict, struct ttm_operation_ctx *ctx,
		    struct ttm_resource *to, struct ttm_place *hop)
{
	struct ttm_resource *from = tbo->resource;
	struct gpu_bo *bo = to_gpu_bo(tbo);

	if (!from)
		return gpu_move_in(bo, to);
	if (from->mem_type != TTM_PL_VRAM && to->mem_type != TTM_PL_VRAM)
		return gpu_move_pages(bo, ctx, to);
	if (from->mem_type == TTM_PL_SYSTEM || to->mem_type == TTM_PL_SYSTEM) {
		*hop = (struct ttm_place){
			.mem_type = TTM_PL_TT, .flags = TTM_PL_FLAG_TEMPORARY,
		};
		return -EMULTIHOP;
	}
	return gpu_move_bytes(bo, evict, to);
}

static void gpu_swap_notify(struct ttm_buffer_object *tbo)
{
	if (gpu_bo_is_ours(tbo))
		gpu_bo_notify(to_gpu_bo(tbo));
}

static int gpu_io_mem_reserve(struct ttm_device *bdev, struct ttm_resource *resource)
{
	struct gpu *gpu = container_of(bdev, struct gpu, bdev);

	if (resource->mem_type == TTM_PL_VRAM) {
		resource->bus.offset = gpu->base + gpu_offset(resource);
		resource->bus.addr = (void __force *)gpu->vram + gpu_offset(resource);
		resource->bus.is_iomem = true;
		resource->bus.caching = ttm_write_combined;
	}
	return 0;
}

struct ttm_device_funcs gpu_ttm_funcs = {
	.ttm_tt_create = gpu_tt_create,
	.ttm_tt_destroy = gpu_tt_destroy,
	.eviction_valuable = gpu_eviction_valuable,
	.evict_flags = gpu_evict_flags,
	.move = gpu_move,
	.swap_notify = gpu_swap_notify,
	.io_mem_reserve = gpu_io_mem_reserve,
};

/* --- Mappings of processes --- */

static vm_fault_t gpu_vm_fault(struct vm_fault *vmf)
{
	struct ttm_buffer_object *tbo = vmf->vma->vm_private_data;
	vm_fault_t ret;
	int idx;

	ret = ttm_bo_vm_reserve(tbo, vmf);
	if (ret)
		return ret;

	if (drm_dev_enter(tbo->base.dev, &idx)) {
		ret = ttm_bo_vm_fault_reserved(vmf, vmf->vma->vm_page_prot,
					       TTM_BO_VM_NUM_PREFAULT);
		drm_dev_exit(idx);
	} else {
		ret = VM_FAULT_SIGBUS;
	}
	/* Then the lock has been released already. */
	if (ret == VM_FAULT_RETRY && !(vmf->flags & FAULT_FLAG_RETRY_NOWAIT))
		return ret;

	dma_resv_unlock(tbo->base.resv);
	return ret;
}

static const struct vm_operations_struct gpu_vm_ops = {
	.fault = gpu_vm_fault,
	.open = ttm_bo_vm_open,
	.close = ttm_bo_vm_close,
	.access = ttm_bo_vm_access,
};

/* --- What GEM calls --- */

static void gpu_gem_free(struct drm_gem_object *gem)
{
	struct gpu_bo *bo = gem_to_gpu_bo(gem);

	if (bo->pinned) {
		dma_resv_lock(gem->resv, NULL);
		ttm_bo_unpin(&bo->tbo);
		dma_resv_unlock(gem->resv);
	}
	ttm_bo_fini(&bo->tbo);
}

static const struct drm_gem_object_funcs gpu_gem_funcs = {
	.free = gpu_gem_free,
	.export = gpu_export,
	.mmap = drm_gem_ttm_mmap,
	.vm_ops = &gpu_vm_ops,
};

/* --- From the first to the last reference --- */

static void gpu_bo_destroy(struct ttm_buffer_object *tbo)
{
	struct gpu_bo *bo = to_gpu_bo(tbo);
	struct gpu *gpu = gpu_of(tbo);

	spin_lock(&gpu->bos_lock);
	list_del(&bo->entry);
	spin_unlock(&gpu->bos_lock);
	drm_gem_object_release(&tbo->base);
	kfree(bo);
}

/**
 * gpu_bo_create - make a buffer
 * @gpu: the device; the caller is between drm_dev_enter() and drm_dev_exit()
 * @size: in bytes, a multiple of the page size
 * @place: MRFD_GPU_VRAM or MRFD_GPU_SYSTEM
 * @flags: MRFD_GPU_ONLY and others
 *
 * Return: the buffer, whose one reference is GEM's, or an ERR_PTR: -ENOMEM, or
 * -ERESTARTSYS after a signal.
 */
struct gpu_bo *gpu_bo_create(struct gpu *gpu, u64 size, u32 place, u32 flags)
{
	struct ttm_operation_ctx ctx = { .interruptible = true };
	struct ttm_place first = {
		.mem_type = place == MRFD_GPU_VRAM ? TTM_PL_VRAM : TTM_PL_TT,
	};
	struct ttm_placement placement = { .num_placement = 1, .placement = &first };
	struct gpu_bo *bo;
	int ret;

	bo = kzalloc(sizeof(*bo), GFP_KERNEL);
	if (!bo)
		return ERR_PTR(-ENOMEM);

	bo->allowed = flags & MRFD_GPU_ONLY ? place : MRFD_GPU_VRAM | MRFD_GPU_SYSTEM;
	bo->flags = flags;
	drm_gem_private_object_init(&gpu->drm, &bo->tbo.base, size);
	bo->tbo.base.funcs = &gpu_gem_funcs;
	bo->tbo.bdev = &gpu->bdev;
	spin_lock(&gpu->bos_lock);
	list_add_tail(&bo->entry, &gpu->bos);
	spin_unlock(&gpu->bos_lock);

	/* If it fails, it calls gpu_bo_destroy(). */
	ret = ttm_bo_init_reserved(&gpu->bdev, &bo->tbo, ttm_bo_type_device, &placement, 0, &ctx,
				   NULL, NULL, gpu_bo_destroy);
	if (ret)
		return ERR_PTR(ret);

	if (flags & MRFD_GPU_PINNED) {
		ttm_bo_pin(&bo->tbo);
		bo->pinned = true;
	}
	ttm_bo_unreserve(&bo->tbo);
	return bo;
}

/* A buffer whose importers do not know yet that the device is gone, referenced, or NULL. */
static struct gpu_bo *gpu_bo_still_there(struct gpu *gpu)
{
	struct gpu_bo *bo, *found = NULL;

	spin_lock(&gpu->bos_lock);
	list_for_each_entry(bo, &gpu->bos, entry) {
		if (bo->gone || !kref_get_unless_zero(&bo->tbo.base.refcount))
			continue;
		bo->gone = true;
		found = bo;
		break;
	}
	spin_unlock(&gpu->bos_lock);
	return found;
}

/**
 * gpu_bos_gone - tell all importers that the device is gone
 * @gpu: the device, after drm_dev_unplug(): there are no new buffers or maps
 *
 * Importers that can, stop using their maps. Memory that others pinned stays theirs.
 */
void gpu_bos_gone(struct gpu *gpu)
{
	struct gpu_bo *bo;

	while ((bo = gpu_bo_still_there(gpu))) {
		dma_resv_lock(bo->tbo.base.resv, NULL);
		gpu_bo_notify(bo);
		dma_resv_unlock(bo->tbo.base.resv);
		drm_gem_object_put(&bo->tbo.base);
	}
}
