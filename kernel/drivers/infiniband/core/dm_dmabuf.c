// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Device memory as a dma-buf
 *
 * Other devices import the dma-buf, for instance another RDMA device by
 * UVERBS_METHOD_REG_MR_FD.  The dma-buf does not hold the DM.  When the DM is freed,
 * by its owner, with the process or with the device, ib_dm_revoke() tells the
 * importers (invalidate_mappings), and nobody maps the memory any more.  Who has it
 * mapped for DMA or vmapped holds the memory until that ends, see dm_mem.c, so the
 * owner does not wait for importers.
 *
 * An importer that cannot be told would keep the memory as long as a process likes, so
 * it is refused: this is one that pins for good, for instance
 * ib_umem_dmabuf_get_pinned().
 *
 * The memory does not move, so there is nothing to do for a pin.  System memory is
 * mapped for DMA as any other.  A range of a BAR is mapped for an importer that asks for
 * peer-to-peer and to which there is a path, as amdgpu and xe do it with VRAM: DMA
 * addresses, and no pages.  A vmap of it is I/O memory.
 */

#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/io.h>
#include <linux/iosys-map.h>
#include <linux/pci-p2pdma.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <rdma/ib_dm.h>
#include <rdma/ib_umem.h>

MODULE_IMPORT_NS("DMA_BUF");

/**
 * struct ib_dm_dmabuf - a dma-buf of a DM
 * @mem: the memory of the DM; the dma-buf has a reference on the struct
 * @dmabuf: the dma-buf, which owns this
 * @entry: in ib_dm_mem.dmabufs
 */
struct ib_dm_dmabuf {
	struct ib_dm_mem *mem;
	struct dma_buf *dmabuf;
	struct list_head entry;
};

/* The memory behind a dma-buf, or NULL if it has been revoked. */
static struct ib_dm_mem *ib_dm_mem_of(struct dma_buf *dmabuf)
{
	struct ib_dm_dmabuf *exp = dmabuf->priv;

	dma_resv_assert_held(dmabuf->resv);
	return exp->mem->revoked ? NULL : exp->mem;
}

static void ib_dm_end_use(struct dma_buf *dmabuf)
{
	struct ib_dm_dmabuf *exp = dmabuf->priv;

	ib_dm_mem_put(exp->mem);
}

static int ib_dm_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	struct ib_dm_mem *mem;
	int ret = 0;

	if (!dma_buf_attach_revocable(attach))
		return -EOPNOTSUPP;

	ret = dma_resv_lock_interruptible(dmabuf->resv, NULL);
	if (ret)
		return ret;
	mem = ib_dm_mem_of(dmabuf);
	if (!mem)
		ret = -ENODEV;
	else if (attach->peer2peer && !mem->vaddr &&
		 pci_p2pdma_distance(to_pci_dev(mem->device->dma_device),
				     attach->dev, false) < 0)
		attach->peer2peer = false;
	dma_resv_unlock(dmabuf->resv);
	return ret;
}

static int ib_dm_pin(struct dma_buf_attachment *attach)
{
	return ib_dm_mem_of(attach->dmabuf) ? 0 : -ENODEV;
}

static void ib_dm_unpin(struct dma_buf_attachment *attach)
{
}

static int ib_dm_map_system(struct ib_dm_mem *mem, struct device *dev,
			    struct sg_table *sgt, enum dma_data_direction dir)
{
	unsigned int i, n = mem->size >> PAGE_SHIFT;
	struct page **pages;
	int ret;

	pages = kvmalloc_array(n, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		pages[i] = vmalloc_to_page(mem->vaddr + i * PAGE_SIZE);

	ret = sg_alloc_table_from_pages_segment(sgt, pages, n, 0, mem->size,
						dma_get_max_seg_size(dev),
						GFP_KERNEL);
	kvfree(pages);
	if (ret)
		return ret;

	/* It stays mapped, and nobody syncs it: as in ib_umem_get(). */
	ret = dma_map_sgtable(dev, sgt, dir, DMA_ATTR_REQUIRE_COHERENT);
	if (ret)
		sg_free_table(sgt);
	return ret;
}

static int ib_dm_map_bar(struct ib_dm_mem *mem,
			 struct dma_buf_attachment *attach,
			 struct sg_table *sgt, enum dma_data_direction dir)
{
	dma_addr_t addr;
	int ret;

	if (!attach->peer2peer)
		return -EOPNOTSUPP;

	ret = sg_alloc_table(sgt, 1, GFP_KERNEL);
	if (ret)
		return ret;

	addr = dma_map_resource(attach->dev, mem->paddr, mem->size, dir,
				DMA_ATTR_SKIP_CPU_SYNC);
	if (dma_mapping_error(attach->dev, addr)) {
		sg_free_table(sgt);
		return -EIO;
	}
	sg_set_page(sgt->sgl, NULL, mem->size, 0);
	sg_dma_address(sgt->sgl) = addr;
	sg_dma_len(sgt->sgl) = mem->size;
	return 0;
}

static struct sg_table *ib_dm_map(struct dma_buf_attachment *attach,
				  enum dma_data_direction dir)
{
	struct ib_dm_mem *mem = ib_dm_mem_of(attach->dmabuf);
	struct sg_table *sgt;
	int ret;

	if (!mem)
		return ERR_PTR(-ENODEV);

	sgt = kzalloc_obj(*sgt);
	if (!sgt)
		return ERR_PTR(-ENOMEM);

	if (mem->vaddr)
		ret = ib_dm_map_system(mem, attach->dev, sgt, dir);
	else
		ret = ib_dm_map_bar(mem, attach, sgt, dir);
	if (ret) {
		kfree(sgt);
		return ERR_PTR(ret);
	}
	ib_dm_mem_get(mem);
	return sgt;
}

static void ib_dm_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt,
			enum dma_data_direction dir)
{
	if (sg_page(sgt->sgl))
		dma_unmap_sgtable(attach->dev, sgt, dir,
				  DMA_ATTR_REQUIRE_COHERENT);
	else
		dma_unmap_resource(attach->dev, sg_dma_address(sgt->sgl),
				   sg_dma_len(sgt->sgl), dir,
				   DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(sgt);
	kfree(sgt);
	ib_dm_end_use(attach->dmabuf);
}

/* A second vmap does not reach ib_dm_vmap(), so it fails here after a revoke. */
static int ib_dm_begin_cpu_access(struct dma_buf *dmabuf,
				  enum dma_data_direction dir)
{
	int ret = dma_resv_lock_interruptible(dmabuf->resv, NULL);

	if (ret)
		return ret;
	ret = ib_dm_mem_of(dmabuf) ? 0 : -ENODEV;
	dma_resv_unlock(dmabuf->resv);
	return ret;
}

static int ib_dm_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct ib_dm_mem *mem = ib_dm_mem_of(dmabuf);
	void __iomem *iomem;

	if (!mem)
		return -ENODEV;

	if (mem->vaddr) {
		iosys_map_set_vaddr(map, mem->vaddr);
	} else {
		iomem = ioremap_wc(mem->paddr, mem->size);
		if (!iomem)
			return -ENOMEM;
		iosys_map_set_vaddr_iomem(map, iomem);
	}
	ib_dm_mem_get(mem);
	return 0;
}

static void ib_dm_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	if (map->is_iomem)
		iounmap(map->vaddr_iomem);
	ib_dm_end_use(dmabuf);
}

static void ib_dm_release(struct dma_buf *dmabuf)
{
	struct ib_dm_dmabuf *exp = dmabuf->priv;

	dma_resv_lock(dmabuf->resv, NULL);
	list_del(&exp->entry);
	dma_resv_unlock(dmabuf->resv);
	ib_dm_mem_forget(exp->mem);
	kfree(exp);
}

static const struct dma_buf_ops ib_dm_dmabuf_ops = {
	.attach = ib_dm_attach,
	.pin = ib_dm_pin,
	.unpin = ib_dm_unpin,
	.map_dma_buf = ib_dm_map,
	.unmap_dma_buf = ib_dm_unmap,
	.begin_cpu_access = ib_dm_begin_cpu_access,
	.vmap = ib_dm_vmap,
	.vunmap = ib_dm_vunmap,
	.release = ib_dm_release,
};

/**
 * ib_dm_export - make a dma-buf of a DM
 * @dm: the DM; the caller excludes that it is freed meanwhile
 *
 * The dma-buf has the pages of the DM: its byte 0 is byte 0 of @dm, and its size is
 * that of @dm, rounded up to whole pages. The caller owns the reference. A DM may
 * have several.
 *
 * Context: process context, may sleep. Takes and releases the reservation lock of the
 * dma-bufs.
 *
 * Return: the dma-buf, or an ERR_PTR:
 * -EOPNOTSUPP: the device does not say where this kind of device memory is
 * -ENOMEM: out of memory
 */
struct dma_buf *ib_dm_export(struct ib_dm *dm)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct ib_dm_mem *mem = dm->mem;
	struct ib_dm_dmabuf *exp;

	if (!mem)
		return ERR_PTR(-EOPNOTSUPP);

	exp = kzalloc_obj(*exp);
	if (!exp)
		return ERR_PTR(-ENOMEM);

	exp->mem = mem;
	info.ops = &ib_dm_dmabuf_ops;
	info.size = mem->size;
	info.flags = O_RDWR;
	info.resv = &mem->resv;
	info.priv = exp;
	exp->dmabuf = dma_buf_export(&info);
	if (IS_ERR(exp->dmabuf)) {
		struct dma_buf *error = exp->dmabuf;

		kfree(exp);
		return error;
	}

	kref_get(&mem->ref);
	dma_resv_lock(&mem->resv, NULL);
	list_add(&exp->entry, &mem->dmabufs);
	dma_resv_unlock(&mem->resv);
	return exp->dmabuf;
}
EXPORT_SYMBOL(ib_dm_export);

/**
 * ib_dm_revoke - tell all importers that a DM is gone
 * @mem: its memory; the caller excludes exports
 *
 * When it returns nobody becomes a user of the memory by a dma-buf any more. Those who
 * are users hold it until they have ended.
 *
 * Context: process context, may sleep. Takes and releases the reservation lock of the
 * dma-bufs.
 */
void ib_dm_revoke(struct ib_dm_mem *mem)
{
	struct ib_dm_dmabuf *exp;

	dma_resv_lock(&mem->resv, NULL);
	mem->revoked = true;
	list_for_each_entry(exp, &mem->dmabufs, entry)
		dma_buf_invalidate_mappings(exp->dmabuf);
	dma_resv_unlock(&mem->resv);
}

/* Name the devices that are attached, and may have it mapped. */
void ib_dm_mem_warn(struct ib_dm_mem *mem)
{
	struct dma_buf_attachment *attach;
	struct ib_dm_dmabuf *exp;

	dma_resv_lock(&mem->resv, NULL);
	list_for_each_entry(exp, &mem->dmabufs, entry)
		list_for_each_entry(attach, &exp->dmabuf->attachments, node)
			dev_warn(attach->dev, "has device memory of %s attached\n",
				 dev_name(&mem->device->dev));
	dma_resv_unlock(&mem->resv);
}
