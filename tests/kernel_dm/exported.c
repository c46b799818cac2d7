// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A ULP exports its device memory as a dma-buf
 *
 * The dma-buf goes to a process (export), or to an importer that is here (importer), which
 * uses all that an importer can use: a pin, a vmap, and a map for DMA if the device does any.
 * When the DM is freed the importer is told, and gives everything back while it is told.  After
 * that it gets nothing any more.
 */

#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/iosys-map.h>
#include <linux/module.h>
#include "user.h"

MODULE_IMPORT_NS("DMA_BUF");

#define SIZE (PAGE_SIZE + 100)	/* of the DM; the dma-buf has two pages */

int run_export(struct dm_user *u, const char *arg)
{
	struct dma_buf *dmabuf;
	int fd;

	EXPECT(u, u->dms == 1, "export with %u DMs, not 1", u->dms);
	dmabuf = ib_dm_export(u->dm[0]);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	fd = dma_buf_fd(dmabuf, O_CLOEXEC);
	if (fd < 0) {
		dma_buf_put(dmabuf);
		return fd;
	}
	scnprintf(u->text, sizeof(u->text), "%d", fd);
	return 0;
}

struct importer {
	struct dma_buf *dmabuf;
	struct dma_buf_attachment *attach;	/* NULL: there is none */
	bool pinned;
	struct iosys_map map;
	struct sg_table *sgt;
	unsigned int told;
};

/* The caller holds the reservation lock. */
static void give_back(struct importer *i)
{
	if (i->sgt)
		dma_buf_unmap_attachment(i->attach, i->sgt, DMA_BIDIRECTIONAL);
	if (!iosys_map_is_null(&i->map))
		dma_buf_vunmap(i->dmabuf, &i->map);
	if (i->pinned)
		dma_buf_unpin(i->attach);
	i->sgt = NULL;
	iosys_map_clear(&i->map);
	i->pinned = false;
}

static void importer_told(struct dma_buf_attachment *attach)
{
	struct importer *i = attach->importer_priv;

	i->told++;
	give_back(i);
}

static const struct dma_buf_attach_ops importer_ops = {
	.allow_peer2peer = true,
	.invalidate_mappings = importer_told,
};

/* The device that does the DMA, or one that stands for it. */
static struct device *dma_device(struct dm_user *u)
{
	return u->device->dma_device ?: &u->device->dev;
}

static int import(struct dm_user *u, struct importer *i)
{
	i->attach = dma_buf_dynamic_attach(i->dmabuf, dma_device(u), &importer_ops, i);
	if (IS_ERR(i->attach))
		return PTR_ERR_OR_ZERO(xchg(&i->attach, NULL));
	return 0;
}

static int take_locked(struct dm_user *u, struct importer *i)
{
	int err = dma_buf_pin(i->attach);

	if (err)
		return err;
	i->pinned = true;
	err = dma_buf_vmap(i->dmabuf, &i->map);
	if (err)
		return err;
	if (ib_uses_virt_dma(u->device))
		return 0;

	i->sgt = dma_buf_map_attachment(i->attach, DMA_BIDIRECTIONAL);
	if (IS_ERR(i->sgt))
		return PTR_ERR_OR_ZERO(xchg(&i->sgt, NULL));
	EXPECT(u, i->sgt->nents == 1 && sg_dma_len(i->sgt->sgl) == i->dmabuf->size,
	       "the map has %u pieces, %u bytes first", i->sgt->nents, sg_dma_len(i->sgt->sgl));
	return 0;
}

static int take(struct dm_user *u, struct importer *i)
{
	int err;

	dma_resv_lock(i->dmabuf->resv, NULL);
	err = take_locked(u, i);
	dma_resv_unlock(i->dmabuf->resv);
	return err;
}

/* One word of each page goes each way. */
static int use(struct dm_user *u, struct importer *i, struct ib_dm *dm)
{
	unsigned int at;
	u32 word, seen;
	int err;

	for (at = 0; at < SIZE; at += PAGE_SIZE) {
		word = at / PAGE_SIZE + 0x12345601;
		err = ib_memcpy_to_dm(dm, at, &word, sizeof(word));
		if (err)
			return err;
		seen = iosys_map_rd(&i->map, at, u32);
		EXPECT(u, seen == word, "the importer reads %#x at %u, not %#x", seen, at, word);
		iosys_map_wr(&i->map, at + 4, u32, word);
		err = ib_memcpy_from_dm(&seen, dm, at + 4, sizeof(seen));
		if (err)
			return err;
		EXPECT(u, seen == word, "the importer's word at %u is %#x, not %#x", at + 4, seen,
		       word);
	}
	return 0;
}

static int is_told(struct dm_user *u, struct importer *i)
{
	struct iosys_map map;
	struct importer late = { .dmabuf = i->dmabuf };
	int pin, vmap, attach, begin;

	EXPECT(u, i->told == 1, "the importer was told %u times", i->told);
	EXPECT(u, !i->pinned && !i->sgt && iosys_map_is_null(&i->map),
	       "the importer still has a pin or a map");

	dma_resv_lock(i->dmabuf->resv, NULL);
	pin = dma_buf_pin(i->attach);
	if (!pin)
		dma_buf_unpin(i->attach);
	vmap = dma_buf_vmap(i->dmabuf, &map);
	if (!vmap)
		dma_buf_vunmap(i->dmabuf, &map);
	dma_resv_unlock(i->dmabuf->resv);
	attach = import(u, &late);
	if (!attach)
		dma_buf_detach(late.dmabuf, late.attach);
	begin = dma_buf_begin_cpu_access(i->dmabuf, DMA_FROM_DEVICE);

	/* An attach takes memory, so in a test of faults it may fail before it is refused. */
	EXPECT(u, pin == -ENODEV && vmap == -ENODEV && begin == -ENODEV &&
	       (attach == -ENODEV || attach == -ENOMEM),
	       "after the free: pin %d, vmap %d, attach %d, begin %d", pin, vmap, attach, begin);
	return attach == -ENOMEM ? attach : 0;
}

static int free_under_importer(struct dm_user *u, struct importer *i)
{
	struct ib_dm *dm;
	int err;

	err = user_alloc(u, SIZE, &dm);
	if (err)
		return err;
	i->dmabuf = ib_dm_export(dm);
	if (IS_ERR(i->dmabuf))
		return PTR_ERR_OR_ZERO(xchg(&i->dmabuf, NULL));
	EXPECT(u, i->dmabuf->size == PAGE_ALIGN(SIZE), "the dma-buf has %zu bytes",
	       i->dmabuf->size);

	err = import(u, i);
	if (err)
		return err;
	err = take(u, i) ?: use(u, i, dm);
	if (err)
		return err;

	u->dms--;
	ib_free_dm(dm);
	return is_told(u, i);
}

/* A second dma-buf of the DM ends before the DM does. */
static int export_twice(struct dm_user *u)
{
	struct dma_buf *dmabuf[2];
	struct ib_dm *dm;
	int err, i;

	err = user_alloc(u, SIZE, &dm);
	if (err)
		return err;
	for (i = 0; i < 2; i++) {
		dmabuf[i] = ib_dm_export(dm);
		if (IS_ERR(dmabuf[i])) {
			if (i)
				dma_buf_put(dmabuf[0]);
			return PTR_ERR(dmabuf[i]);
		}
	}
	dma_buf_put(dmabuf[0]);
	user_release(u);
	dma_buf_put(dmabuf[1]);
	return 0;
}

int run_importer(struct dm_user *u, const char *arg)
{
	struct importer i = {};
	int err = free_under_importer(u, &i);

	if (i.attach) {
		dma_resv_lock(i.dmabuf->resv, NULL);
		give_back(&i);
		dma_resv_unlock(i.dmabuf->resv);
		dma_buf_detach(i.dmabuf, i.attach);
	}
	if (i.dmabuf)
		dma_buf_put(i.dmabuf);
	return err ?: export_twice(u);
}
