// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit tests of dma-bufs that are imported for DMA
 *
 * The exporter has one page, counts its calls, and remembers who attached.  The
 * tests import it in each of the three ways that a driver can, for a device of
 * KUnit that does the DMA and that is not the RDMA device: dynamic, pinned,
 * pinned and revocable.
 */

#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <kunit/device.h>

#include "umem_fd_test.h"

struct dma_exporter {
	struct page *page;
	struct device *importer;
	bool peer2peer;
	bool pin_moves;
	int pin_err;
	int map_err;
	int attached;
	int pinned;
	int mapped;
};

static int dma_exporter_attach(struct dma_buf *dmabuf,
			       struct dma_buf_attachment *attach)
{
	struct dma_exporter *exp = dmabuf->priv;

	exp->importer = attach->dev;
	exp->peer2peer = attach->peer2peer;
	exp->attached++;
	return 0;
}

static void dma_exporter_detach(struct dma_buf *dmabuf,
				struct dma_buf_attachment *attach)
{
	struct dma_exporter *exp = dmabuf->priv;

	exp->attached--;
}

static int dma_exporter_pin(struct dma_buf_attachment *attach)
{
	struct dma_exporter *exp = attach->dmabuf->priv;

	if (exp->pin_moves)
		dma_buf_invalidate_mappings(attach->dmabuf);
	exp->pinned += !exp->pin_err;
	return exp->pin_err;
}

static void dma_exporter_unpin(struct dma_buf_attachment *attach)
{
	struct dma_exporter *exp = attach->dmabuf->priv;

	exp->pinned--;
}

static struct sg_table *dma_exporter_map(struct dma_buf_attachment *attach,
					 enum dma_data_direction dir)
{
	struct dma_exporter *exp = attach->dmabuf->priv;
	struct sg_table *sgt;

	if (exp->map_err)
		return ERR_PTR(exp->map_err);

	sgt = kzalloc_obj(*sgt);
	if (!sgt || sg_alloc_table_from_pages(sgt, &exp->page, 1, 0, PAGE_SIZE,
					      GFP_KERNEL)) {
		kfree(sgt);
		return ERR_PTR(-ENOMEM);
	}
	if (dma_map_sgtable(attach->dev, sgt, dir, 0)) {
		sg_free_table(sgt);
		kfree(sgt);
		return ERR_PTR(-EIO);
	}
	exp->mapped++;
	return sgt;
}

static void dma_exporter_unmap(struct dma_buf_attachment *attach,
			       struct sg_table *sgt,
			       enum dma_data_direction dir)
{
	struct dma_exporter *exp = attach->dmabuf->priv;

	dma_unmap_sgtable(attach->dev, sgt, dir, 0);
	sg_free_table(sgt);
	kfree(sgt);
	exp->mapped--;
}

static void dma_exporter_release(struct dma_buf *dmabuf)
{
}

static const struct dma_buf_ops dma_exporter_ops = {
	.attach = dma_exporter_attach,
	.detach = dma_exporter_detach,
	.pin = dma_exporter_pin,
	.unpin = dma_exporter_unpin,
	.map_dma_buf = dma_exporter_map,
	.unmap_dma_buf = dma_exporter_unmap,
	.release = dma_exporter_release,
};

/**
 * struct dma_fixture - what each test has
 * @exp: the exporter
 * @buffer: its buffer, as the core lends it, with the reference of the test
 * @ibdev: the RDMA device
 * @dma: another device, which does the DMA
 * @moves: calls of dma_test_invalidate()
 * @revokes: calls of dma_test_revoke()
 * @revoke_err: what it returns
 */
struct dma_fixture {
	struct dma_exporter exp;
	struct ib_mr_buffer buffer;
	struct ib_device *ibdev;
	struct device *dma;
	int moves;
	int revokes;
	int revoke_err;
};

static int dma_test_init(struct kunit *test)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	struct dma_buf *dmabuf;

	KUNIT_ASSERT_NOT_NULL(test, f);
	test->priv = f;
	f->ibdev = new_device(test);
	f->dma = kunit_device_register(test, "dma");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, f->dma);
	KUNIT_ASSERT_EQ(test, 0, dma_coerce_mask_and_coherent(f->dma,
							      DMA_BIT_MASK(64)));
	f->exp.page = alloc_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f->exp.page);

	info.ops = &dma_exporter_ops;
	info.size = PAGE_SIZE;
	info.flags = O_RDWR;
	info.priv = &f->exp;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);

	f->buffer = (struct ib_mr_buffer){
		.type = IB_UVERBS_BUFFER_TYPE_DMABUF,
		.dmabuf = dmabuf,
		.addr = 16,
		.length = 100,
		.iova = 16,
		.access = IB_ACCESS_LOCAL_WRITE,
	};
	return 0;
}

static void dma_test_exit(struct kunit *test)
{
	struct dma_fixture *f = test->priv;

	/* No umem has a reference any more. */
	KUNIT_EXPECT_EQ(test, file_count(f->buffer.dmabuf->file), 1);
	KUNIT_EXPECT_EQ(test, f->exp.attached, 0);
	KUNIT_EXPECT_EQ(test, f->exp.pinned, 0);
	KUNIT_EXPECT_EQ(test, f->exp.mapped, 0);
	ib_mr_buffer_put(&f->buffer);
	flush_delayed_fput();
	__free_page(f->exp.page);
}

static void check_imported(struct kunit *test, struct ib_umem_dmabuf *umem,
			   int pinned, int mapped)
{
	struct dma_fixture *f = test->priv;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, umem);
	KUNIT_EXPECT_TRUE(test, umem->umem.is_dmabuf);
	KUNIT_EXPECT_EQ(test, umem->umem.address, f->buffer.addr);
	KUNIT_EXPECT_EQ(test, umem->umem.length, f->buffer.length);
	KUNIT_EXPECT_TRUE(test, umem->umem.writable);
	KUNIT_EXPECT_PTR_EQ(test, umem->umem.ibdev, f->ibdev);
	KUNIT_EXPECT_PTR_EQ(test, f->exp.importer, f->dma);
	KUNIT_EXPECT_TRUE(test, f->exp.peer2peer);
	KUNIT_EXPECT_EQ(test, f->exp.attached, 1);
	KUNIT_EXPECT_EQ(test, f->exp.pinned, pinned);
	KUNIT_EXPECT_EQ(test, f->exp.mapped, mapped);
	KUNIT_EXPECT_EQ(test, file_count(f->buffer.dmabuf->file), 2);
}

static void move(struct dma_buf *dmabuf)
{
	dma_resv_lock(dmabuf->resv, NULL);
	dma_buf_invalidate_mappings(dmabuf);
	dma_resv_unlock(dmabuf->resv);
}

static void dma_test_invalidate(struct dma_buf_attachment *attach)
{
	struct ib_umem_dmabuf *umem = attach->importer_priv;
	struct dma_fixture *f = umem->private;

	f->moves++;
	ib_umem_dmabuf_unmap_pages(umem);
}

static const struct dma_buf_attach_ops dma_test_attach_ops = {
	.allow_peer2peer = true,
	.invalidate_mappings = dma_test_invalidate,
};

static void test_dynamic_import_follows_moves(struct kunit *test)
{
	struct dma_fixture *f = test->priv;
	struct ib_umem_dmabuf *umem;

	umem = ib_umem_dmabuf_get_buffer(f->ibdev, f->dma, &f->buffer,
					 &dma_test_attach_ops);
	check_imported(test, umem, 0, 0);
	umem->private = f;

	dma_resv_lock(f->buffer.dmabuf->resv, NULL);
	KUNIT_EXPECT_EQ(test, 0, ib_umem_dmabuf_map_pages(umem));
	dma_resv_unlock(f->buffer.dmabuf->resv);
	KUNIT_EXPECT_EQ(test, f->exp.mapped, 1);

	move(f->buffer.dmabuf);
	KUNIT_EXPECT_EQ(test, f->moves, 1);
	KUNIT_EXPECT_EQ(test, f->exp.mapped, 0);

	ib_umem_release(&umem->umem);
}

static void test_pinned_import_pins_and_maps(struct kunit *test)
{
	struct dma_fixture *f = test->priv;
	struct ib_umem_dmabuf *umem;

	umem = ib_umem_dmabuf_get_buffer_pinned(f->ibdev, f->dma, &f->buffer);
	check_imported(test, umem, 1, 1);
	ib_umem_release(&umem->umem);
}

static void test_failed_pin_or_map_leaves_nothing(struct kunit *test)
{
	struct dma_fixture *f = test->priv;
	struct ib_umem_dmabuf *umem;

	f->exp.pin_err = -EBUSY;
	umem = ib_umem_dmabuf_get_buffer_pinned(f->ibdev, f->dma, &f->buffer);
	KUNIT_EXPECT_EQ(test, PTR_ERR(umem), -EBUSY);
	f->exp.pin_err = 0;
	f->exp.map_err = -ENOSPC;
	umem = ib_umem_dmabuf_get_buffer_pinned(f->ibdev, f->dma, &f->buffer);
	KUNIT_EXPECT_EQ(test, PTR_ERR(umem), -ENOSPC);
}

static int dma_test_revoke(void *priv)
{
	struct dma_fixture *f = priv;

	f->revokes++;
	return f->revoke_err;
}

/* The buffer is revoked by its exporter, and later released. */
static void test_revoke_unmaps_and_unpins(struct kunit *test)
{
	struct dma_fixture *f = test->priv;
	struct ib_umem_dmabuf *umem;

	umem = ib_umem_dmabuf_get_buffer_revocable_and_lock(f->ibdev, f->dma,
							    &f->buffer);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, umem);
	KUNIT_EXPECT_TRUE(test, dma_resv_is_locked(f->buffer.dmabuf->resv));
	ib_umem_dmabuf_set_revoke_locked(umem, dma_test_revoke, f);
	dma_resv_unlock(f->buffer.dmabuf->resv);
	check_imported(test, umem, 1, 1);

	move(f->buffer.dmabuf);
	KUNIT_EXPECT_EQ(test, f->revokes, 1);
	KUNIT_EXPECT_EQ(test, f->exp.mapped, 0);
	KUNIT_EXPECT_EQ(test, f->exp.pinned, 0);

	ib_umem_release(&umem->umem);
	KUNIT_EXPECT_EQ(test, f->revokes, 1);
}

/* The device may still use the memory: it stays, until the exporter asks again or dereg. */
static void test_revoke_that_fails_keeps_the_memory(struct kunit *test)
{
	struct dma_fixture *f = test->priv;
	struct ib_umem_dmabuf *umem;
	int i;

	for (i = 0; i < 2; i++) {
		f->revokes = 0;
		f->revoke_err = -EIO;
		umem = ib_umem_dmabuf_get_buffer_revocable_and_lock(f->ibdev,
								    f->dma,
								    &f->buffer);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, umem);
		ib_umem_dmabuf_set_revoke_locked(umem, dma_test_revoke, f);
		dma_resv_unlock(f->buffer.dmabuf->resv);

		move(f->buffer.dmabuf);
		KUNIT_EXPECT_EQ(test, f->revokes, 1);
		check_imported(test, umem, 1, 1);

		f->revoke_err = 0;
		if (i)
			move(f->buffer.dmabuf);
		else
			ib_umem_release(&umem->umem);
		KUNIT_EXPECT_EQ(test, f->revokes, 2);
		KUNIT_EXPECT_EQ(test, f->exp.mapped, 0);
		KUNIT_EXPECT_EQ(test, f->exp.pinned, 0);
		if (i)
			ib_umem_release(&umem->umem);
	}
	KUNIT_EXPECT_EQ(test, f->revokes, 2);
}

/* Many exporters move a buffer to where they pin it, and tell all importers. */
static void test_move_by_the_pin_revokes_nothing(struct kunit *test)
{
	struct dma_fixture *f = test->priv;
	struct ib_umem_dmabuf *umem;

	f->exp.pin_moves = true;
	umem = ib_umem_dmabuf_get_buffer_revocable_and_lock(f->ibdev, f->dma,
							    &f->buffer);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, umem);
	ib_umem_dmabuf_set_revoke_locked(umem, dma_test_revoke, f);
	dma_resv_unlock(f->buffer.dmabuf->resv);
	check_imported(test, umem, 1, 1);
	KUNIT_EXPECT_EQ(test, f->revokes, 0);
	ib_umem_release(&umem->umem);

	/* What fails after the pin undoes it. */
	f->exp.map_err = -ENOSPC;
	umem = ib_umem_dmabuf_get_buffer_revocable_and_lock(f->ibdev, f->dma,
							    &f->buffer);
	KUNIT_EXPECT_EQ(test, PTR_ERR(umem), -ENOSPC);
}

static struct kunit_case umem_dmabuf_cases[] = {
	KUNIT_CASE(test_dynamic_import_follows_moves),
	KUNIT_CASE(test_pinned_import_pins_and_maps),
	KUNIT_CASE(test_failed_pin_or_map_leaves_nothing),
	KUNIT_CASE(test_revoke_unmaps_and_unpins),
	KUNIT_CASE(test_revoke_that_fails_keeps_the_memory),
	KUNIT_CASE(test_move_by_the_pin_revokes_nothing),
	{}
};

static struct kunit_suite umem_dmabuf_suite = {
	.name = "ib_umem_dmabuf",
	.init = dma_test_init,
	.exit = dma_test_exit,
	.test_cases = umem_dmabuf_cases,
};

kunit_test_suite(umem_dmabuf_suite);
