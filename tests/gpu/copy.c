// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The copy engine: a worker moves bytes between VRAM and pages, or clears VRAM
 *
 * The engine does one copy after another.  A copy begins when all fences have signaled that
 * the buffer had when it was asked for, and the caller's delay is over; at its end its own
 * fence signals, always.  Until then TTM keeps both memories: the caller gives the fence to
 * ttm_bo_move_accel_cleanup().
 *
 * When the device is gone, nothing of VRAM is read or written any more.  Pages that should
 * have got bytes from there are cleared, so that nobody sees what they held before.
 */

#include <drm/drm_drv.h>
#include <linux/delay.h>
#include <linux/dma-fence.h>
#include <linux/dma-resv.h>
#include <linux/highmem.h>
#include <linux/io.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include "gpu.h"

/**
 * struct gpu_copy - one job of the engine
 * @fence: signals at its end; the first member, because the fence's release frees all
 * @lock: of @fence
 * @work: the job in gpu->copies
 * @gpu: the device, which lives longer than its workqueue
 * @after: the job begins after this, or NULL
 * @pages: one end of the copy, or NULL if VRAM is cleared
 * @vram: offset of the other end
 * @size: in bytes
 * @to_vram: the direction
 * @delay_ms: how late it begins
 */
struct gpu_copy {
	struct dma_fence fence;
	spinlock_t lock;
	struct work_struct work;
	struct gpu *gpu;
	struct dma_fence *after;
	struct page **pages;
	u64 vram;
	size_t size;
	bool to_vram;
	u32 delay_ms;
};

static const char *gpu_copy_driver_name(struct dma_fence *fence)
{
	return "mrfd_gpu";
}

static const char *gpu_copy_timeline_name(struct dma_fence *fence)
{
	return "copy";
}

static const struct dma_fence_ops gpu_copy_fence_ops = {
	.get_driver_name = gpu_copy_driver_name,
	.get_timeline_name = gpu_copy_timeline_name,
};

static void gpu_copy_page(struct gpu_copy *copy, size_t at)
{
	void __iomem *vram = copy->gpu->vram + copy->vram + at;
	void *page;

	if (!copy->pages) {
		memset_io(vram, 0, PAGE_SIZE);
		return;
	}
	page = kmap_local_page(copy->pages[at >> PAGE_SHIFT]);
	if (copy->to_vram)
		memcpy_toio(vram, page, PAGE_SIZE);
	else
		memcpy_fromio(page, vram, PAGE_SIZE);
	kunmap_local(page);
}

static void gpu_copy_nothing(struct gpu_copy *copy)
{
	size_t at;

	for (at = 0; !copy->to_vram && at < copy->size; at += PAGE_SIZE)
		clear_highpage(copy->pages[at >> PAGE_SHIFT]);
}

static void gpu_copy_work(struct work_struct *work)
{
	struct gpu_copy *copy = container_of(work, struct gpu_copy, work);
	bool signalling = dma_fence_begin_signalling();
	size_t at;
	int idx;

	if (copy->after) {
		dma_fence_wait(copy->after, false);
		dma_fence_put(copy->after);
	}
	if (copy->delay_ms)
		msleep(copy->delay_ms);

	if (drm_dev_enter(&copy->gpu->drm, &idx)) {
		for (at = 0; at < copy->size; at += PAGE_SIZE)
			gpu_copy_page(copy, at);
		wmb(); /* the mapping is write-combining */
		drm_dev_exit(idx);
	} else {
		gpu_copy_nothing(copy);
		dma_fence_set_error(&copy->fence, -ENODEV);
	}
	dma_fence_signal(&copy->fence);
	dma_fence_end_signalling(signalling);
	dma_fence_put(&copy->fence);
}

/**
 * gpu_copy - have the engine copy all of a buffer
 * @bo: the buffer; its bo->delay_ms, or else the device's, says how late the copy begins
 * @vram: offset of one end
 * @pages: the other end, or NULL to clear VRAM
 * @to_vram: the direction
 *
 * Context: the reservation lock of @bo is held. The caller adds the fence to the
 * reservation object, or waits for it.
 *
 * Return: the fence of the copy, or an ERR_PTR: -ENOMEM.
 */
struct dma_fence *gpu_copy(struct gpu_bo *bo, u64 vram, struct page **pages, bool to_vram)
{
	struct gpu *gpu = gpu_of(&bo->tbo);
	struct gpu_copy *copy;
	int ret;

	copy = kzalloc(sizeof(*copy), GFP_KERNEL);
	if (!copy)
		return ERR_PTR(-ENOMEM);

	ret = dma_resv_get_singleton(bo->tbo.base.resv, DMA_RESV_USAGE_BOOKKEEP, &copy->after);
	if (ret) {
		kfree(copy);
		return ERR_PTR(ret);
	}
	spin_lock_init(&copy->lock);
	INIT_WORK(&copy->work, gpu_copy_work);
	copy->gpu = gpu;
	copy->pages = pages;
	copy->vram = vram;
	copy->size = bo->tbo.base.size;
	copy->to_vram = to_vram;
	copy->delay_ms = bo->delay_ms ?: READ_ONCE(gpu->delay_ms);

	spin_lock(&gpu->submit);
	dma_fence_init(&copy->fence, &gpu_copy_fence_ops, &copy->lock, gpu->fence_context,
		       ++gpu->fence_seqno);
	dma_fence_get(&copy->fence); /* one reference is the caller's */
	queue_work(gpu->copies, &copy->work);
	spin_unlock(&gpu->submit);
	return &copy->fence;
}

int gpu_copies_init(struct gpu *gpu)
{
	spin_lock_init(&gpu->submit);
	gpu->fence_context = dma_fence_context_alloc(1);
	gpu->copies = alloc_ordered_workqueue("mrfd_gpu", WQ_MEM_RECLAIM);
	return gpu->copies ? 0 : -ENOMEM;
}

void gpu_copies_fini(struct gpu *gpu)
{
	destroy_workqueue(gpu->copies);
}
