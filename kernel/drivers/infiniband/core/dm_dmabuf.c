// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Device memory as a dma-buf
 *
 * Other devices import the dma-buf, for instance another RDMA device by
 * UVERBS_METHOD_REG_MR_FD.  The dma-buf does not hold the DM.  When the DM is freed,
 * by its owner, with the process or with the device, ib_dm_revoke_dmabufs() takes
 * the memory back from all importers: it tells them, and waits until none of them
 * has the memory mapped, pinned or vmapped.  So the rule is: whoever uses the memory
 * holds a reference in ib_dm_dmabuf.users, and gets it under the reservation lock,
 * while ib_dm_dmabuf.dm is set.
 *
 * The wait ends because an importer gives everything back soon after it is told
 * (invalidate_mappings), as dma_buf_invalidate_mappings() asks of each.  An importer
 * that cannot be told keeps the memory as long as a process likes, so it is refused:
 * this is one that pins for good, for instance ib_umem_dmabuf_get_pinned().
 *
 * The memory does not move, so a pin costs nothing.  System memory is mapped for
 * DMA as any other.  A range of a BAR is mapped for an importer that asks for
 * peer-to-peer and to which there is a path, as amdgpu and xe do it with VRAM: DMA
 * addresses, and no pages.  A vmap of it is I/O memory.
 */

#include <linux/completion.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/io.h>
#include <linux/iosys-map.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/pci-p2pdma.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <rdma/ib_dm.h>
#include <rdma/ib_umem.h>

MODULE_IMPORT_NS("DMA_BUF");

/**
 * struct ib_dm_dmabuf - what a dma-buf knows of its DM
 * @dmabuf: the dma-buf, which owns this
 * @dm: the DM, or NULL when it has been revoked; under the reservation lock
 * @pins: importers that have pinned it; under the reservation lock
 * @entry: in ib_dm.dmabufs, or empty: a revoke has begun; under ib_dm_lists_lock
 * @users: one for @dm, and one for each pin, map and vmap
 * @unused: @users has become 0
 * @revoked: the revoke has ended
 */
struct ib_dm_dmabuf {
	struct dma_buf *dmabuf;
	struct ib_dm *dm;
	unsigned int pins;
	struct list_head entry;
	struct kref users;
	struct completion unused;
	struct completion revoked;
};

/*
 * The lists ib_dm.dmabufs. A dma-buf may be released while its DM is freed, so the
 * release waits for a revoke that has begun. The revoke cannot take a reference
 * instead: who has the dma-buf open with O_PATH keeps it without a struct file.
 */
static DEFINE_MUTEX(ib_dm_lists_lock);

static void ib_dm_unused(struct kref *ref)
{
	complete(&container_of(ref, struct ib_dm_dmabuf, users)->unused);
}

static void ib_dm_put_user(struct ib_dm_dmabuf *exp)
{
	kref_put(&exp->users, ib_dm_unused);
}

/* The DM behind a dma-buf, or NULL if it has been revoked. */
static struct ib_dm *ib_dm_of(struct dma_buf *dmabuf)
{
	struct ib_dm_dmabuf *exp = dmabuf->priv;

	dma_resv_assert_held(dmabuf->resv);
	return exp->dm;
}

static int ib_dm_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	struct ib_dm *dm;
	int ret = 0;

	if (!dma_buf_attach_revocable(attach))
		return -EOPNOTSUPP;

	ret = dma_resv_lock_interruptible(dmabuf->resv, NULL);
	if (ret)
		return ret;
	dm = ib_dm_of(dmabuf);
	if (!dm)
		ret = -ENODEV;
	else if (attach->peer2peer && !dm->vaddr &&
		 pci_p2pdma_distance(dm->pdev, attach->dev, false) < 0)
		attach->peer2peer = false;
	dma_resv_unlock(dmabuf->resv);
	return ret;
}

static int ib_dm_pin(struct dma_buf_attachment *attach)
{
	struct ib_dm_dmabuf *exp = attach->dmabuf->priv;

	if (!ib_dm_of(attach->dmabuf))
		return -ENODEV;

	kref_get(&exp->users);
	exp->pins++;
	return 0;
}

static void ib_dm_unpin(struct dma_buf_attachment *attach)
{
	struct ib_dm_dmabuf *exp = attach->dmabuf->priv;

	exp->pins--;
	ib_dm_put_user(exp);
}

static int ib_dm_map_system(struct ib_dm *dm, struct device *dev,
			    struct sg_table *sgt, enum dma_data_direction dir)
{
	unsigned int i, n = dm->size >> PAGE_SHIFT;
	struct page **pages;
	int ret;

	pages = kvmalloc_array(n, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		pages[i] = vmalloc_to_page(dm->vaddr + i * PAGE_SIZE);

	ret = sg_alloc_table_from_pages_segment(sgt, pages, n, 0, dm->size,
						dma_get_max_seg_size(dev),
						GFP_KERNEL);
	kvfree(pages);
	if (ret)
		return ret;

	/* It stays mapped, by several importers too: a sync now would help nobody. */
	ret = dma_map_sgtable(dev, sgt, dir, DMA_ATTR_SKIP_CPU_SYNC);
	if (ret)
		sg_free_table(sgt);
	return ret;
}

static int ib_dm_map_bar(struct ib_dm *dm, struct dma_buf_attachment *attach,
			 struct sg_table *sgt, enum dma_data_direction dir)
{
	dma_addr_t addr;
	int ret;

	if (!attach->peer2peer)
		return -EOPNOTSUPP;

	ret = sg_alloc_table(sgt, 1, GFP_KERNEL);
	if (ret)
		return ret;

	addr = dma_map_resource(attach->dev, dm->paddr, dm->size, dir,
				DMA_ATTR_SKIP_CPU_SYNC);
	if (dma_mapping_error(attach->dev, addr)) {
		sg_free_table(sgt);
		return -EIO;
	}
	sg_set_page(sgt->sgl, NULL, dm->size, 0);
	sg_dma_address(sgt->sgl) = addr;
	sg_dma_len(sgt->sgl) = dm->size;
	return 0;
}

static struct sg_table *ib_dm_map(struct dma_buf_attachment *attach,
				  enum dma_data_direction dir)
{
	struct ib_dm_dmabuf *exp = attach->dmabuf->priv;
	struct ib_dm *dm = ib_dm_of(attach->dmabuf);
	struct sg_table *sgt;
	int ret;

	if (!dm)
		return ERR_PTR(-ENODEV);

	sgt = kzalloc_obj(*sgt);
	if (!sgt)
		return ERR_PTR(-ENOMEM);

	if (dm->vaddr)
		ret = ib_dm_map_system(dm, attach->dev, sgt, dir);
	else
		ret = ib_dm_map_bar(dm, attach, sgt, dir);
	if (ret) {
		kfree(sgt);
		return ERR_PTR(ret);
	}
	kref_get(&exp->users);
	return sgt;
}

/* The DM may be revoked, so the table says what there is to undo. */
static void ib_dm_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt,
			enum dma_data_direction dir)
{
	if (sg_page(sgt->sgl))
		dma_unmap_sgtable(attach->dev, sgt, dir,
				  DMA_ATTR_SKIP_CPU_SYNC);
	else
		dma_unmap_resource(attach->dev, sg_dma_address(sgt->sgl),
				   sg_dma_len(sgt->sgl), dir,
				   DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(sgt);
	kfree(sgt);
	ib_dm_put_user(attach->dmabuf->priv);
}

/* A second vmap does not reach ib_dm_vmap(), so it fails here after a revoke. */
static int ib_dm_begin_cpu_access(struct dma_buf *dmabuf,
				  enum dma_data_direction dir)
{
	int ret = dma_resv_lock_interruptible(dmabuf->resv, NULL);

	if (ret)
		return ret;
	ret = ib_dm_of(dmabuf) ? 0 : -ENODEV;
	dma_resv_unlock(dmabuf->resv);
	return ret;
}

/* Only for those who have pinned it, because the others do not hear of a revoke. */
static int ib_dm_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct ib_dm_dmabuf *exp = dmabuf->priv;
	struct ib_dm *dm = ib_dm_of(dmabuf);
	void __iomem *iomem;

	if (!dm)
		return -ENODEV;
	if (!exp->pins)
		return -EBUSY;

	if (dm->vaddr) {
		iosys_map_set_vaddr(map, dm->vaddr);
	} else {
		iomem = ioremap_wc(dm->paddr, dm->size);
		if (!iomem)
			return -ENOMEM;
		iosys_map_set_vaddr_iomem(map, iomem);
	}
	kref_get(&exp->users);
	return 0;
}

static void ib_dm_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	if (map->is_iomem)
		iounmap(map->vaddr_iomem);
	ib_dm_put_user(dmabuf->priv);
}

static void ib_dm_release(struct dma_buf *dmabuf)
{
	struct ib_dm_dmabuf *exp = dmabuf->priv;
	bool revoke;

	mutex_lock(&ib_dm_lists_lock);
	revoke = list_empty(&exp->entry);
	list_del_init(&exp->entry);
	mutex_unlock(&ib_dm_lists_lock);
	if (revoke)
		wait_for_completion(&exp->revoked);
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
 * Context: process context, may sleep.
 *
 * Return: the dma-buf, or an ERR_PTR:
 * -EOPNOTSUPP: the device does not say where this kind of device memory is
 * -ENOMEM: out of memory
 */
struct dma_buf *ib_dm_export(struct ib_dm *dm)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct ib_dm_dmabuf *exp;

	if (!dm->size)
		return ERR_PTR(-EOPNOTSUPP);

	exp = kzalloc_obj(*exp);
	if (!exp)
		return ERR_PTR(-ENOMEM);

	exp->dm = dm;
	kref_init(&exp->users);
	init_completion(&exp->unused);
	init_completion(&exp->revoked);

	info.ops = &ib_dm_dmabuf_ops;
	info.size = dm->size;
	info.flags = O_RDWR;
	info.priv = exp;
	exp->dmabuf = dma_buf_export(&info);
	if (IS_ERR(exp->dmabuf)) {
		struct dma_buf *error = exp->dmabuf;

		kfree(exp);
		return error;
	}

	mutex_lock(&ib_dm_lists_lock);
	list_add(&exp->entry, &dm->dmabufs);
	mutex_unlock(&ib_dm_lists_lock);
	return exp->dmabuf;
}
EXPORT_SYMBOL(ib_dm_export);

static void ib_dm_revoke(struct ib_dm_dmabuf *exp)
{
	struct dma_resv *resv = exp->dmabuf->resv;

	dma_resv_lock(resv, NULL);
	exp->dm = NULL;
	dma_buf_invalidate_mappings(exp->dmabuf);
	/* An importer may still have work on the way. */
	dma_resv_wait_timeout(resv, DMA_RESV_USAGE_BOOKKEEP, false,
			      MAX_SCHEDULE_TIMEOUT);
	dma_resv_unlock(resv);

	ib_dm_put_user(exp);
	wait_for_completion(&exp->unused);
	complete(&exp->revoked); /* from here on the dma-buf may go */
}

/* The next dma-buf of the list, taken off it, or NULL. */
static struct ib_dm_dmabuf *ib_dm_next_dmabuf(struct ib_dm *dm)
{
	struct ib_dm_dmabuf *exp;

	guard(mutex)(&ib_dm_lists_lock);
	exp = list_first_entry_or_null(&dm->dmabufs, struct ib_dm_dmabuf, entry);
	if (exp)
		list_del_init(&exp->entry);
	return exp;
}

/**
 * ib_dm_revoke_dmabufs - take the memory of a DM back from all importers
 * @dm: the DM, which is about to be freed; the caller excludes exports
 *
 * When it returns, no importer uses the memory, and none will.
 *
 * Context: process context, may sleep. Takes and releases the reservation locks of
 * the dma-bufs.
 */
void ib_dm_revoke_dmabufs(struct ib_dm *dm)
{
	struct ib_dm_dmabuf *exp;

	while ((exp = ib_dm_next_dmabuf(dm)))
		ib_dm_revoke(exp);
}
