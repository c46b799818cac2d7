// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The GPU of the tests: a DRM driver whose VRAM is the BAR of QEMU's ivshmem-plain
 *
 * It exists to export buffers as the drivers of real GPUs do, so it is made of the same
 * parts (TTM, GEM, PRIME), and it moves buffers when a test asks.  It belongs to the test
 * kit of mrfd and is not meant for merging.
 *
 * The device may go while buffers, files and importers of it exist.  Then drm_dev_unplug()
 * makes all entries fail, and each place that touches VRAM is between drm_dev_enter() and
 * drm_dev_exit().  The kernel's mapping of VRAM stays until the last reference to the DRM
 * device is dropped, since an importer may have it from a vmap; until then the driver does
 * not take the same BAR again.
 */

#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_gem_ttm_helper.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_managed.h>
#include <drm/drm_prime.h>
#include <drm/ttm/ttm_range_manager.h>
#include <linux/debugfs.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/workqueue.h>
#include "gpu.h"

#define GPU_BAR 2
#define GPU_MAX_DELAY_MS 60000
#define GPU_MAX_PITCH (1 << 20)
/* System memory that buffers may have at a time. */
#define GPU_SYSTEM_SIZE SZ_256M

static_assert(offsetof(struct gpu_bo, tbo) == 0);

/* The devices that have a BAR mapped. */
static DEFINE_MUTEX(gpu_alive_lock);
static LIST_HEAD(gpu_alive);

/* --- Calls of programs --- */

static bool gpu_is_place(u32 place)
{
	return place == MRFD_GPU_VRAM || place == MRFD_GPU_SYSTEM;
}

/* A new buffer and its handle; PLACE and FLAGS have been checked. */
static int gpu_create_handle(struct drm_device *drm, struct drm_file *file, u64 size, u32 place,
			     u32 flags, u32 *handle, u64 *offset)
{
	struct gpu_bo *bo;
	int ret, idx;

	if (!size || size > max_t(u64, to_gpu(drm)->size, GPU_SYSTEM_SIZE))
		return -EINVAL;
	if (!drm_dev_enter(drm, &idx))
		return -ENODEV;

	bo = gpu_bo_create(to_gpu(drm), PAGE_ALIGN(size), place, flags);
	ret = PTR_ERR_OR_ZERO(bo);
	if (!ret) {
		*offset = drm_vma_node_offset_addr(&bo->tbo.base.vma_node);
		ret = drm_gem_handle_create(file, &bo->tbo.base, handle);
		drm_gem_object_put(&bo->tbo.base);
	}
	drm_dev_exit(idx);
	return ret;
}

static int gpu_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	const u32 known = MRFD_GPU_ONLY | MRFD_GPU_PINNED | MRFD_GPU_CPU_PIN;
	struct mrfd_gpu_create *args = data;

	if (args->handle || args->reserved || args->offset || args->flags & ~known ||
	    !gpu_is_place(args->place))
		return -EINVAL;
	return gpu_create_handle(drm, file, args->size, args->place, args->flags, &args->handle,
				 &args->offset);
}

/* In VRAM, as dumb buffers of other drivers are. */
static int gpu_dumb_create(struct drm_file *file, struct drm_device *drm,
			   struct drm_mode_create_dumb *args)
{
	u64 offset;

	if (args->width > GPU_MAX_PITCH || args->bpp > 64)
		return -EINVAL;
	args->pitch = args->width * DIV_ROUND_UP(args->bpp, 8);
	args->size = PAGE_ALIGN((u64)args->pitch * args->height);
	return gpu_create_handle(drm, file, args->size, MRFD_GPU_VRAM, 0, &args->handle,
				 &offset);
}

static int gpu_move_locked(struct gpu_bo *bo, const struct mrfd_gpu_move *args)
{
	int ret;

	if (!(bo->allowed & args->place))
		return -EINVAL;
	if (bo->tbo.pin_count)
		return -EBUSY;
	bo->delay_ms = args->delay_ms;
	ret = gpu_bo_validate(bo, args->place, true);
	bo->delay_ms = 0;
	return ret;
}

static int gpu_move_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct mrfd_gpu_move *args = data;
	struct drm_gem_object *gem;
	struct gpu_bo *bo;
	int ret;

	if (!gpu_is_place(args->place) || args->reserved ||
	    args->delay_ms > GPU_MAX_DELAY_MS)
		return -EINVAL;
	gem = drm_gem_object_lookup(file, args->handle);
	if (!gem)
		return -ENOENT;
	bo = gem_to_gpu_bo(gem);

	ret = ttm_bo_reserve(&bo->tbo, true, false, NULL);
	if (ret)
		goto out;
	ret = gpu_move_locked(bo, args);
	ttm_bo_unreserve(&bo->tbo);
out:
	drm_gem_object_put(gem);
	return ret;
}

static int gpu_query(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct mrfd_gpu_query *args = data;
	struct drm_gem_object *gem;
	struct gpu_bo *bo;
	int ret;

	if (args->reserved)
		return -EINVAL;
	gem = drm_gem_object_lookup(file, args->handle);
	if (!gem)
		return -ENOENT;
	bo = gem_to_gpu_bo(gem);

	ret = ttm_bo_reserve(&bo->tbo, true, false, NULL);
	if (ret)
		goto out;
	*args = (struct mrfd_gpu_query){
		.handle = args->handle,
		.place = gpu_bo_place(bo),
		.attachments = atomic_read(&bo->attachments),
		.peers = atomic_read(&bo->peers),
		.why = atomic_read(&bo->why),
		.pins = atomic_read(&bo->pins),
		.maps = atomic_read(&bo->maps),
		.vmaps = atomic_read(&bo->vmaps),
		.brackets = atomic_read(&bo->brackets),
		.moves = atomic_read(&bo->moves),
		.evictions = atomic_read(&bo->evictions),
	};
	if (args->place == MRFD_GPU_VRAM)
		args->offset = gpu_offset(bo->tbo.resource);
	ttm_bo_unreserve(&bo->tbo);
out:
	drm_gem_object_put(gem);
	return ret;
}

static int gpu_info(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct gpu *gpu = to_gpu(drm);
	struct mrfd_gpu_info *args = data;

	*args = (struct mrfd_gpu_info){
		.vram_size = gpu->size,
		.vram_used = ttm_resource_manager_usage(ttm_manager_type(&gpu->bdev,
									 TTM_PL_VRAM)),
		.moves = atomic_read(&gpu->moves),
		.evictions = atomic_read(&gpu->evictions),
	};
	spin_lock(&gpu->bos_lock);
	args->buffers = list_count_nodes(&gpu->bos);
	spin_unlock(&gpu->bos_lock);
	return 0;
}

static const struct drm_ioctl_desc gpu_ioctls[] = {
	DRM_IOCTL_DEF_DRV(MRFD_GPU_CREATE, gpu_create, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(MRFD_GPU_MOVE, gpu_move_ioctl, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(MRFD_GPU_QUERY, gpu_query, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(MRFD_GPU_INFO, gpu_info, DRM_RENDER_ALLOW),
};

static void gpu_debugfs_init(struct drm_minor *minor)
{
	debugfs_create_u32("delay_ms", 0600, minor->debugfs_root,
			   &to_gpu(minor->dev)->delay_ms);
}

DEFINE_DRM_GEM_FOPS(gpu_fops);

static const struct drm_driver gpu_driver = {
	.driver_features = DRIVER_GEM | DRIVER_RENDER,
	.fops = &gpu_fops,
	.ioctls = gpu_ioctls,
	.num_ioctls = ARRAY_SIZE(gpu_ioctls),
	.dumb_create = gpu_dumb_create,
	.dumb_map_offset = drm_gem_ttm_dumb_map_offset,
	.gem_prime_import = gpu_import,
	.debugfs_init = gpu_debugfs_init,
	.name = "mrfd_gpu",
	.desc = "GPU of the tests of mrfd",
	.major = 1,
};

/* --- The device comes and goes --- */

/* The BAR is this device's until gpu_let_go(). */
static int gpu_take(struct gpu *gpu)
{
	struct gpu *other;
	int ret = 0;

	mutex_lock(&gpu_alive_lock);
	list_for_each_entry(other, &gpu_alive, alive)
		if (other->base < gpu->base + gpu->size && gpu->base < other->base + other->size)
			ret = -EBUSY;
	if (!ret)
		list_add(&gpu->alive, &gpu_alive);
	mutex_unlock(&gpu_alive_lock);
	return ret;
}

static void gpu_let_go(struct gpu *gpu)
{
	mutex_lock(&gpu_alive_lock);
	list_del(&gpu->alive);
	mutex_unlock(&gpu_alive_lock);
}

/* The last reference is gone: no files, no importers, and only buffers that TTM deletes. */
static void gpu_fini(struct drm_device *drm, void *unused)
{
	struct gpu *gpu = to_gpu(drm);

	flush_workqueue(gpu->bdev.wq); /* waits for the last copies */
	WARN_ON(!list_empty(&gpu->bos));
	ttm_range_man_fini(&gpu->bdev, TTM_PL_VRAM);
	ttm_range_man_fini(&gpu->bdev, TTM_PL_TT);
	ttm_device_fini(&gpu->bdev);
	gpu_copies_fini(gpu);
	iounmap(gpu->vram);
	gpu_let_go(gpu);
}

static int gpu_init_ttm(struct gpu *gpu)
{
	struct drm_device *drm = &gpu->drm;
	int ret;

	ret = ttm_device_init(&gpu->bdev, &gpu_ttm_funcs, drm->dev, drm->anon_inode->i_mapping,
			      drm->vma_offset_manager, 0);
	if (ret)
		return ret;

	ret = ttm_range_man_init(&gpu->bdev, TTM_PL_TT, true, GPU_SYSTEM_SIZE >> PAGE_SHIFT);
	if (ret)
		goto err_device;

	ret = ttm_range_man_init(&gpu->bdev, TTM_PL_VRAM, false, gpu->size >> PAGE_SHIFT);
	if (ret)
		goto err_tt;
	return 0;

err_tt:
	ttm_range_man_fini(&gpu->bdev, TTM_PL_TT);
err_device:
	ttm_device_fini(&gpu->bdev);
	return ret;
}

/* All that gpu_fini() undoes, now or when the DRM device is released. */
static int gpu_init(struct gpu *gpu)
{
	int ret;

	ret = gpu_take(gpu);
	if (ret)
		return ret;

	ret = -ENOMEM;
	gpu->vram = ioremap_wc(gpu->base, gpu->size);
	if (!gpu->vram)
		goto err_let_go;

	ret = gpu_copies_init(gpu);
	if (ret)
		goto err_unmap;

	ret = gpu_init_ttm(gpu);
	if (ret)
		goto err_copies;
	return drmm_add_action_or_reset(&gpu->drm, gpu_fini, NULL);

err_copies:
	gpu_copies_fini(gpu);
err_unmap:
	iounmap(gpu->vram);
err_let_go:
	gpu_let_go(gpu);
	return ret;
}

static int gpu_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct gpu *gpu;
	int ret;

	if (pci_resource_len(pdev, GPU_BAR) < PAGE_SIZE)
		return -ENODEV;
	gpu = devm_drm_dev_alloc(&pdev->dev, &gpu_driver, struct gpu, drm);
	if (IS_ERR(gpu))
		return PTR_ERR(gpu);

	gpu->pdev = pdev;
	gpu->base = pci_resource_start(pdev, GPU_BAR);
	gpu->size = pci_resource_len(pdev, GPU_BAR);
	spin_lock_init(&gpu->bos_lock);
	INIT_LIST_HEAD(&gpu->bos);
	pci_set_drvdata(pdev, gpu);

	ret = pcim_enable_device(pdev);
	if (ret)
		return ret;
	ret = pcim_request_region(pdev, GPU_BAR, "mrfd_gpu");
	if (ret)
		return ret;
	ret = gpu_init(gpu);
	if (ret)
		return ret;
	return drm_dev_register(&gpu->drm, 0);
}

static void gpu_remove(struct pci_dev *pdev)
{
	struct gpu *gpu = pci_get_drvdata(pdev);

	drm_dev_unplug(&gpu->drm);
	gpu_bos_gone(gpu);
	flush_workqueue(gpu->copies);
}

static const struct pci_device_id gpu_ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_REDHAT_QUMRANET, 0x1110) },
	{ }
};
MODULE_DEVICE_TABLE(pci, gpu_ids);

static struct pci_driver gpu_pci_driver = {
	.name = "mrfd_gpu",
	.id_table = gpu_ids,
	.probe = gpu_probe,
	.remove = gpu_remove,
};
module_pci_driver(gpu_pci_driver);

MODULE_DESCRIPTION("GPU of the tests of mrfd");
MODULE_LICENSE("GPL");
