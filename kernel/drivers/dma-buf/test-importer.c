// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * An importer for tests of exporters
 *
 * DMABUF_TEST_IMPORT maps a dma-buf of any exporter for DMA, as a driver of a
 * device does.  No device uses the map.  The import lasts until the file that
 * the ioctl returns is closed.
 *
 * An importer with DMABUF_TEST_REVOCABLE can be told that the memory is not
 * there any more.  It then gives back all that it has, for ever.  One without
 * holds the memory in place as long as the file is open.  So the exporter
 * either sees the end of the import, or calls the importer.
 */

#include <linux/anon_inodes.h>
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/slab.h>

#include "test-exporter.h"
#include "test-importer.h"

/**
 * struct test_import - what the file has
 * @attach: the attachment, with a reference of its dma-buf
 * @sgt: the map, or NULL after it was given back
 * @pinned: whether it holds a pin; an importer that is not revocable never
 *	    does, because the dma-buf core pins for it
 *
 * The reservation lock protects @sgt and @pinned.
 */
struct test_import {
	struct dma_buf_attachment *attach;
	struct sg_table *sgt;
	bool pinned;
};

static void test_give_back(struct test_import *import)
{
	if (import->sgt)
		dma_buf_unmap_attachment(import->attach, import->sgt,
					 DMA_BIDIRECTIONAL);
	if (import->pinned)
		dma_buf_unpin(import->attach);
	import->sgt = NULL;
	import->pinned = false;
}

static void test_invalidate(struct dma_buf_attachment *attach)
{
	test_give_back(attach->importer_priv);
}

static const struct dma_buf_attach_ops test_revocable_ops = {
	.invalidate_mappings = test_invalidate,
};

/* The caller holds the reservation lock. */
static int test_take(struct test_import *import)
{
	struct sg_table *sgt;
	int ret;

	if (dma_buf_attach_revocable(import->attach)) {
		ret = dma_buf_pin(import->attach);
		if (ret)
			return ret;
		import->pinned = true;
	}
	sgt = dma_buf_map_attachment(import->attach, DMA_BIDIRECTIONAL);
	if (IS_ERR(sgt)) {
		test_give_back(import);
		return PTR_ERR(sgt);
	}
	import->sgt = sgt;
	return 0;
}

static void test_import_end(struct test_import *import)
{
	struct dma_buf *dmabuf = import->attach->dmabuf;

	dma_resv_lock(dmabuf->resv, NULL);
	test_give_back(import);
	dma_resv_unlock(dmabuf->resv);
	dma_buf_detach(dmabuf, import->attach);
	dma_buf_put(dmabuf);
	kfree(import);
}

static int test_import_release(struct inode *inode, struct file *file)
{
	test_import_end(file->private_data);
	return 0;
}

static const struct file_operations test_import_fops = {
	.release = test_import_release,
};

/* Takes over the reference of @dmabuf if it succeeds. */
static struct test_import *test_import(struct device *dev,
				       struct dma_buf *dmabuf, u32 flags)
{
	struct dma_buf_attachment *attach;
	struct test_import *import;
	int ret;

	import = kzalloc_obj(*import);
	if (!import)
		return ERR_PTR(-ENOMEM);

	attach = dma_buf_dynamic_attach(dmabuf, dev,
					flags & DMABUF_TEST_REVOCABLE ?
					&test_revocable_ops : NULL, import);
	if (IS_ERR(attach)) {
		ret = PTR_ERR(attach);
		goto err_free;
	}
	dma_resv_lock(dmabuf->resv, NULL);
	import->attach = attach;
	ret = test_take(import);
	dma_resv_unlock(dmabuf->resv);
	if (ret)
		goto err_detach;
	return import;

err_detach:
	dma_buf_detach(dmabuf, attach);
err_free:
	kfree(import);
	return ERR_PTR(ret);
}

/* The fd of the import, or an errno. */
int dmabuf_test_import(struct device *dev,
		       const struct dmabuf_test_import *args)
{
	struct test_import *import;
	struct dma_buf *dmabuf;
	int fd;

	if (args->flags & ~DMABUF_TEST_REVOCABLE)
		return -EINVAL;
	dmabuf = dma_buf_get(args->fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	import = test_import(dev, dmabuf, args->flags);
	if (IS_ERR(import)) {
		dma_buf_put(dmabuf);
		return PTR_ERR(import);
	}

	fd = anon_inode_getfd("[dmabuf_import]", &test_import_fops, import,
			      O_CLOEXEC);
	if (fd < 0)
		test_import_end(import);
	return fd;
}
