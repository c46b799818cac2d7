// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Buffers as dma-bufs
 *
 * The rules are those of amdgpu and xe, and the stricter one where they differ:
 *
 * An importer that asks for peer-to-peer keeps it if there is a path between the devices
 * (pci_p2pdma_distance()).  Any other one gets system memory: the buffer moves there when
 * it is mapped or pinned.  If the buffer may not move there, the attach fails.
 *
 * A pin is in VRAM only if every importer that is attached reaches it there.  A buffer that
 * is pinned out of an importer's reach can be neither pinned (EINVAL) nor mapped (EBUSY) by
 * that importer.
 *
 * A map of VRAM has DMA addresses and no pages.  It is made with dma_map_resource() for the
 * importer's device.
 *
 * When the device is gone, attach, pin, map, vmap and begin_cpu_access fail with ENODEV;
 * what undoes them works.
 */

#include <drm/drm_drv.h>
#include <drm/drm_prime.h>
#include <drm/ttm/ttm_tt.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/iosys-map.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/pci-p2pdma.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "gpu.h"

/**
 * struct gpu_map - a map for DMA
 * @sgt: what the importer gets
 * @vram: whether it is of VRAM, and so made by dma_map_resource()
 */
struct gpu_map {
	struct sg_table sgt;
	bool vram;
};

static struct gpu_bo *bo_of(struct dma_buf *dmabuf)
{
	return gem_to_gpu_bo(dmabuf->priv);
}

/* Whether the importer reaches the buffer by DMA where it is. */
static bool gpu_reaches(struct gpu_bo *bo, struct dma_buf_attachment *attach)
{
	return attach->peer2peer || gpu_bo_place(bo) == MRFD_GPU_SYSTEM;
}

static int gpu_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	struct gpu_bo *bo = bo_of(dmabuf);
	enum mrfd_gpu_why why = MRFD_GPU_PEER;
	struct gpu *gpu = gpu_of(&bo->tbo);
	int idx;

	if (!drm_dev_enter(&gpu->drm, &idx))
		return -ENODEV;

	if (!attach->peer2peer) {
		why = MRFD_GPU_NOT_ASKED;
	} else if (pci_p2pdma_distance(gpu->pdev, attach->dev, false) < 0) {
		why = MRFD_GPU_NO_PATH;
		attach->peer2peer = false;
	}
	drm_dev_exit(idx);
	atomic_set(&bo->why, why);

	if (!attach->peer2peer && !(bo->allowed & MRFD_GPU_SYSTEM) &&
	    !(bo->flags & MRFD_GPU_CPU_PIN))
		return -EOPNOTSUPP;

	atomic_inc(&bo->attachments);
	if (attach->peer2peer)
		atomic_inc(&bo->peers);
	return 0;
}

static void gpu_detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	struct gpu_bo *bo = bo_of(dmabuf);

	if (attach->peer2peer)
		atomic_dec(&bo->peers);
	atomic_dec(&bo->attachments);
}

/* The places that all importers reach; with CPU_PIN also VRAM, for the CPU. */
static u32 gpu_pin_places(struct gpu_bo *bo, struct dma_buf *dmabuf)
{
	struct dma_buf_attachment *attach;
	u32 places = bo->allowed;

	if (bo->flags & MRFD_GPU_CPU_PIN)
		return places;
	list_for_each_entry(attach, &dmabuf->attachments, node)
		if (!attach->peer2peer)
			places &= ~MRFD_GPU_VRAM;
	return places;
}

static int gpu_pin(struct dma_buf_attachment *attach)
{
	struct gpu_bo *bo = bo_of(attach->dmabuf);
	u32 places = gpu_pin_places(bo, attach->dmabuf);
	int ret, idx;

	if (!places)
		return -EINVAL;
	if (!drm_dev_enter(bo->tbo.base.dev, &idx))
		return -ENODEV;

	ret = gpu_bo_validate(bo, places, false);
	if (!ret) {
		ttm_bo_pin(&bo->tbo);
		atomic_inc(&bo->pins);
	}
	drm_dev_exit(idx);
	return ret;
}

static void gpu_unpin(struct dma_buf_attachment *attach)
{
	struct gpu_bo *bo = bo_of(attach->dmabuf);

	ttm_bo_unpin(&bo->tbo);
	atomic_dec(&bo->pins);
}

static void gpu_unmap_vram(struct device *dev, struct gpu_map *map, unsigned int count,
			   enum dma_data_direction dir)
{
	struct scatterlist *sg;
	unsigned int i;

	for_each_sg(map->sgt.sgl, sg, count, i)
		dma_unmap_resource(dev, sg_dma_address(sg), sg_dma_len(sg), dir,
				   DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(&map->sgt);
}

/* In pieces that the importer's device can take in one go. */
static int gpu_map_vram(struct gpu_bo *bo, struct device *dev, struct gpu_map *map,
			enum dma_data_direction dir)
{
	phys_addr_t phys = gpu_of(&bo->tbo)->base + gpu_offset(bo->tbo.resource);
	size_t left = bo->tbo.base.size, piece = min_t(size_t, left, SZ_2M);
	struct scatterlist *sg;
	unsigned int i;
	int ret;

	piece = min_t(size_t, piece, dma_get_max_seg_size(dev) & PAGE_MASK);
	if (!piece)
		return -EINVAL;
	ret = sg_alloc_table(&map->sgt, DIV_ROUND_UP(left, piece), GFP_KERNEL);
	if (ret)
		return ret;

	map->vram = true;
	for_each_sgtable_sg(&map->sgt, sg, i) {
		size_t len = min(left, piece);
		dma_addr_t addr;

		addr = dma_map_resource(dev, phys, len, dir, DMA_ATTR_SKIP_CPU_SYNC);
		if (dma_mapping_error(dev, addr)) {
			gpu_unmap_vram(dev, map, i, dir);
			return -EIO;
		}
		sg_set_page(sg, NULL, len, 0);
		sg_dma_address(sg) = addr;
		sg_dma_len(sg) = len;
		phys += len;
		left -= len;
	}
	return 0;
}

static int gpu_map_pages(struct gpu_bo *bo, struct device *dev, struct gpu_map *map,
			 enum dma_data_direction dir)
{
	struct ttm_tt *tt = bo->tbo.ttm;
	int ret;

	ret = sg_alloc_table_from_pages_segment(&map->sgt, tt->pages, tt->num_pages, 0,
						bo->tbo.base.size, dma_get_max_seg_size(dev),
						GFP_KERNEL);
	if (ret)
		return ret;

	ret = dma_map_sgtable(dev, &map->sgt, dir, DMA_ATTR_SKIP_CPU_SYNC);
	if (ret)
		sg_free_table(&map->sgt);
	return ret;
}

/* Have the buffer where the importer reaches it. */
static int gpu_bring(struct gpu_bo *bo, struct dma_buf_attachment *attach)
{
	u32 places = bo->allowed;

	if (bo->tbo.pin_count)
		return gpu_reaches(bo, attach) ? 0 : -EBUSY;
	if (!attach->peer2peer)
		places &= ~MRFD_GPU_VRAM;
	return places ? gpu_bo_validate(bo, places, false) : -EBUSY;
}

static struct sg_table *gpu_map_dma_buf(struct dma_buf_attachment *attach,
					enum dma_data_direction dir)
{
	struct gpu_bo *bo = bo_of(attach->dmabuf);
	struct gpu_map *map;
	int ret, idx;

	if (!drm_dev_enter(bo->tbo.base.dev, &idx))
		return ERR_PTR(-ENODEV);

	ret = gpu_bring(bo, attach);
	if (ret)
		goto out;

	ret = -ENOMEM;
	map = kzalloc(sizeof(*map), GFP_KERNEL);
	if (!map)
		goto out;

	if (gpu_bo_place(bo) == MRFD_GPU_VRAM)
		ret = gpu_map_vram(bo, attach->dev, map, dir);
	else
		ret = gpu_map_pages(bo, attach->dev, map, dir);
	if (ret)
		kfree(map);
	else
		atomic_inc(&bo->maps);
out:
	drm_dev_exit(idx);
	return ret ? ERR_PTR(ret) : &map->sgt;
}

static void gpu_unmap_dma_buf(struct dma_buf_attachment *attach, struct sg_table *sgt,
			      enum dma_data_direction dir)
{
	struct gpu_map *map = container_of(sgt, struct gpu_map, sgt);

	if (map->vram) {
		gpu_unmap_vram(attach->dev, map, sgt->nents, dir);
	} else {
		dma_unmap_sgtable(attach->dev, sgt, dir, DMA_ATTR_SKIP_CPU_SYNC);
		sg_free_table(sgt);
	}
	kfree(map);
	atomic_dec(&bo_of(attach->dmabuf)->maps);
}

/* To read VRAM is slow, so a buffer that can moves to system memory first. */
static int gpu_begin_cpu_access(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	struct gpu_bo *bo = bo_of(dmabuf);
	int ret = 0, idx;

	if (!drm_dev_enter(bo->tbo.base.dev, &idx))
		return -ENODEV;

	if (dir != DMA_TO_DEVICE && bo->allowed & MRFD_GPU_SYSTEM) {
		ret = ttm_bo_reserve(&bo->tbo, true, false, NULL);
		if (ret)
			goto out;
		if (!bo->tbo.pin_count)
			ret = gpu_bo_validate(bo, MRFD_GPU_SYSTEM, true);
		ttm_bo_unreserve(&bo->tbo);
	}
	if (!ret)
		atomic_inc(&bo->brackets);
out:
	drm_dev_exit(idx);
	return ret;
}

static int gpu_end_cpu_access(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	atomic_dec(&bo_of(dmabuf)->brackets);
	return 0;
}

/*
 * As in amdgpu and xe, this does not hold the buffer in place: an importer that must have it
 * there pins it.
 */
static int gpu_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct gpu_bo *bo = bo_of(dmabuf);
	int ret = 0, idx;

	if (!drm_dev_enter(bo->tbo.base.dev, &idx))
		return -ENODEV;

	if (gpu_bo_place(bo) == MRFD_GPU_VRAM)
		iosys_map_set_vaddr_iomem(map, gpu_of(&bo->tbo)->vram +
					       gpu_offset(bo->tbo.resource));
	else
		ret = ttm_bo_vmap(&bo->tbo, map);
	if (!ret)
		atomic_inc(&bo->vmaps);
	drm_dev_exit(idx);
	return ret;
}

/* The buffer may be elsewhere now, so the map says what there is to undo. */
static void gpu_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	if (!map->is_iomem)
		vunmap(map->vaddr);
	atomic_dec(&bo_of(dmabuf)->vmaps);
}

/* An eviction may be about to tell the importers, of which there are none any more. */
static void gpu_release(struct dma_buf *dmabuf)
{
	struct gpu_bo *bo = bo_of(dmabuf);

	dma_resv_lock(dmabuf->resv, NULL);
	bo->dmabuf = NULL;
	dma_resv_unlock(dmabuf->resv);
	drm_gem_dmabuf_release(dmabuf);
}

static const struct dma_buf_ops gpu_dmabuf_ops = {
	.attach = gpu_attach,
	.detach = gpu_detach,
	.pin = gpu_pin,
	.unpin = gpu_unpin,
	.map_dma_buf = gpu_map_dma_buf,
	.unmap_dma_buf = gpu_unmap_dma_buf,
	.begin_cpu_access = gpu_begin_cpu_access,
	.end_cpu_access = gpu_end_cpu_access,
	.mmap = drm_gem_dmabuf_mmap,
	.vmap = gpu_vmap,
	.vunmap = gpu_vunmap,
	.release = gpu_release,
};

struct dma_buf *gpu_export(struct drm_gem_object *gem, int flags)
{
	struct gpu_bo *bo = gem_to_gpu_bo(gem);
	struct dma_buf_export_info info = {
		.exp_name = KBUILD_MODNAME,
		.owner = THIS_MODULE,
		.ops = &gpu_dmabuf_ops,
		.size = gem->size,
		.flags = flags,
		.resv = gem->resv,
		.priv = gem,
	};
	struct dma_buf *dmabuf;

	dmabuf = drm_gem_dmabuf_export(gem->dev, &info);
	if (IS_ERR(dmabuf))
		return dmabuf;

	dma_resv_lock(gem->resv, NULL);
	bo->dmabuf = dmabuf;
	dma_resv_unlock(gem->resv);
	return dmabuf;
}

/* Only its own buffers: it has nothing to do with those of others. */
struct drm_gem_object *gpu_import(struct drm_device *drm, struct dma_buf *dmabuf)
{
	struct drm_gem_object *gem = dmabuf->priv;

	if (dmabuf->ops != &gpu_dmabuf_ops || gem->dev != drm)
		return ERR_PTR(-EOPNOTSUPP);
	drm_gem_object_get(gem);
	return gem;
}

MODULE_IMPORT_NS("DMA_BUF");
