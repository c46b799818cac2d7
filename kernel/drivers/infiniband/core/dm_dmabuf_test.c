// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit tests of device memory as a dma-buf
 *
 * The device is a zeroed struct ib_device with the two ops that device memory (DM)
 * needs; its memory is vmalloc() memory, or a BAR that nobody touches.  The
 * importers are here and attach for a device of KUnit, which is no PCI device.
 *
 * The rule that the tests are about: when a DM has been freed, importers have been
 * told and none gets anything any more, and the memory stays until the last user of it
 * has ended.
 */

#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/iosys-map.h>
#include <linux/pci.h>
#include <linux/sizes.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <kunit/device.h>
#include <rdma/ib_dm.h>

#include "umem_fd_test.h"

#define DM_LENGTH (4 * PAGE_SIZE + 100)
#define DM_SIZE (5 * PAGE_SIZE)

/* The device */

enum { TEST_DM_VMALLOC, TEST_DM_BAR, TEST_DM_HIDDEN };

static void test_bar_release(void *priv)
{
}

static struct ib_dm *test_alloc_dm(struct ib_device *device,
				   struct ib_ucontext *context,
				   struct ib_dm_alloc_attr *attr,
				   struct uverbs_attr_bundle *attrs)
{
	struct ib_dm *dm = kzalloc_obj(*dm);

	if (!dm)
		return ERR_PTR(-ENOMEM);
	if (attr->flags == TEST_DM_HIDDEN)
		return dm;

	if (attr->flags == TEST_DM_BAR)
		dm->mem = ib_dm_mem_of_bar(device, SZ_1G,
					   PAGE_ALIGN(attr->length),
					   test_bar_release, NULL);
	else
		dm->mem = ib_dm_mem_alloc(PAGE_ALIGN(attr->length));
	if (dm->mem)
		return dm;
	kfree(dm);
	return ERR_PTR(-ENOMEM);
}

static int test_dealloc_dm(struct ib_dm *dm, struct uverbs_attr_bundle *attrs)
{
	kfree(dm);
	return 0;
}

/* An importer */

struct dm_importer {
	struct dma_buf *dmabuf;
	struct dma_buf_attachment *attach;
	bool pinned;
	struct iosys_map map;
	struct sg_table *sgt;
	int told;
	bool keeps; /* what it has, when it is told */
};

/* Under the reservation lock. */
static void importer_give_back(struct dm_importer *imp)
{
	if (imp->sgt)
		dma_buf_unmap_attachment(imp->attach, imp->sgt, DMA_BIDIRECTIONAL);
	if (iosys_map_is_set(&imp->map))
		dma_buf_vunmap(imp->dmabuf, &imp->map);
	if (imp->pinned)
		dma_buf_unpin(imp->attach);
	imp->sgt = NULL;
	iosys_map_clear(&imp->map);
	imp->pinned = false;
}

static void importer_end(struct dm_importer *imp)
{
	dma_resv_lock(imp->dmabuf->resv, NULL);
	importer_give_back(imp);
	dma_resv_unlock(imp->dmabuf->resv);
}

static void importer_invalidate(struct dma_buf_attachment *attach)
{
	struct dm_importer *imp = attach->importer_priv;

	imp->told++;
	if (!imp->keeps)
		importer_give_back(imp);
}

static const struct dma_buf_attach_ops importer_ops = {
	.allow_peer2peer = true,
	.invalidate_mappings = importer_invalidate,
};

/**
 * struct dm_fixture - what each test has
 * @ibdev: the device with the memory
 * @dma: another device, which does the DMA
 * @dm: memory of @ibdev, or NULL when the test has freed it
 * @imp: importers; those that attach have a reference on the dma-buf
 */
struct dm_fixture {
	struct ib_device *ibdev;
	struct device *dma;
	struct ib_dm *dm;
	struct dm_importer imp[2];
};

static struct ib_dm *new_dm(struct kunit *test, u32 kind)
{
	struct ib_dm_alloc_attr attr = { .length = DM_LENGTH, .flags = kind };
	struct dm_fixture *f = test->priv;
	struct ib_dm *dm = ib_dm_create(f->ibdev, NULL, &attr, NULL);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dm);
	return dm;
}

static void free_dm(struct kunit *test)
{
	struct dm_fixture *f = test->priv;
	struct ib_dm *dm = f->dm;

	f->dm = NULL;
	KUNIT_EXPECT_EQ(test, 0, ib_dm_destroy(dm, NULL));
}

/* The test has a DM of this kind instead of that of dm_test_init(). */
static void replace_dm(struct kunit *test, u32 kind)
{
	struct dm_fixture *f = test->priv;

	free_dm(test);
	f->dm = new_dm(test, kind);
}

static int dm_test_init(struct kunit *test)
{
	struct dm_fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	test->priv = f;
	f->ibdev = new_device(test);
	f->ibdev->ops.alloc_dm = test_alloc_dm;
	f->ibdev->ops.dealloc_dm = test_dealloc_dm;
	f->dma = kunit_device_register(test, "dma");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, f->dma);
	KUNIT_ASSERT_EQ(test, 0, dma_coerce_mask_and_coherent(f->dma,
							      DMA_BIT_MASK(64)));
	f->dm = new_dm(test, TEST_DM_VMALLOC);
	return 0;
}

static void dm_test_exit(struct kunit *test)
{
	struct dm_fixture *f = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(f->imp); i++) {
		struct dm_importer *imp = &f->imp[i];

		if (!imp->dmabuf)
			continue;
		importer_end(imp);
		if (imp->attach)
			dma_buf_detach(imp->dmabuf, imp->attach);
		dma_buf_put(imp->dmabuf);
	}
	if (f->dm)
		free_dm(test);
	flush_delayed_fput(); /* a kernel thread delays its last fput() */
	flush_workqueue(ib_wq); /* the device of the test goes */
}

/* The importer has a dma-buf of the DM, of which nobody else knows. */
static struct dm_importer *new_importer(struct kunit *test, int i)
{
	struct dm_fixture *f = test->priv;
	struct dm_importer *imp = &f->imp[i];
	struct dma_buf *dmabuf = ib_dm_export(f->dm);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dmabuf);
	imp->dmabuf = dmabuf;
	return imp;
}

static int importer_attach(struct kunit *test, struct dm_importer *imp)
{
	struct dm_fixture *f = test->priv;
	struct dma_buf_attachment *attach;

	attach = dma_buf_dynamic_attach(imp->dmabuf, f->dma, &importer_ops, imp);
	if (IS_ERR(attach))
		return PTR_ERR(attach);
	imp->attach = attach;
	return 0;
}

static int importer_pin(struct dm_importer *imp)
{
	int ret;

	dma_resv_lock(imp->dmabuf->resv, NULL);
	ret = dma_buf_pin(imp->attach);
	imp->pinned = !ret;
	dma_resv_unlock(imp->dmabuf->resv);
	return ret;
}

static int importer_vmap(struct dm_importer *imp)
{
	return dma_buf_vmap_unlocked(imp->dmabuf, &imp->map);
}

static int importer_map(struct dm_importer *imp)
{
	struct sg_table *sgt;

	sgt = dma_buf_map_attachment_unlocked(imp->attach, DMA_BIDIRECTIONAL);
	if (IS_ERR(sgt))
		return PTR_ERR(sgt);
	imp->sgt = sgt;
	return 0;
}

/* An importer with all that an importer can have. */
static struct dm_importer *new_user(struct kunit *test, int i)
{
	struct dm_importer *imp = new_importer(test, i);

	KUNIT_ASSERT_EQ(test, 0, importer_attach(test, imp));
	KUNIT_ASSERT_EQ(test, 0, importer_pin(imp));
	KUNIT_ASSERT_EQ(test, 0, importer_vmap(imp));
	KUNIT_ASSERT_EQ(test, 0, importer_map(imp));
	return imp;
}

/* It was told once, has nothing, and gets nothing. */
static void check_revoked(struct kunit *test, struct dm_importer *imp)
{
	struct dm_fixture *f = test->priv;
	struct dma_buf_attachment *attach;

	KUNIT_EXPECT_EQ(test, imp->told, 1);
	KUNIT_EXPECT_FALSE(test, imp->pinned);
	KUNIT_EXPECT_FALSE(test, iosys_map_is_set(&imp->map));
	KUNIT_EXPECT_NULL(test, imp->sgt);

	KUNIT_EXPECT_EQ(test, -ENODEV, importer_pin(imp));
	KUNIT_EXPECT_EQ(test, -ENODEV, importer_vmap(imp));
	KUNIT_EXPECT_EQ(test, -ENODEV, importer_map(imp));
	KUNIT_EXPECT_EQ(test, -ENODEV, dma_buf_begin_cpu_access(imp->dmabuf,
								DMA_FROM_DEVICE));
	attach = dma_buf_dynamic_attach(imp->dmabuf, f->dma, &importer_ops, imp);
	KUNIT_EXPECT_EQ(test, -ENODEV, PTR_ERR(attach));
}

/* Export */

static void test_export_makes_a_writable_dmabuf(struct kunit *test)
{
	struct dm_fixture *f = test->priv;
	struct dm_importer *imp = new_importer(test, 0);

	KUNIT_EXPECT_EQ(test, imp->dmabuf->size, DM_SIZE);
	KUNIT_EXPECT_EQ(test, imp->dmabuf->file->f_flags & O_ACCMODE, O_RDWR);
	KUNIT_EXPECT_EQ(test, file_count(imp->dmabuf->file), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->dm->usecnt), 0);
}

static void test_export_of_a_hidden_dm_is_eopnotsupp(struct kunit *test)
{
	struct dm_fixture *f = test->priv;

	replace_dm(test, TEST_DM_HIDDEN);
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP, PTR_ERR(ib_dm_export(f->dm)));
}

/* Import */

static void test_attach_needs_invalidate_mappings(struct kunit *test)
{
	struct dm_fixture *f = test->priv;
	struct dm_importer *imp = new_importer(test, 0);

	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP,
			PTR_ERR(dma_buf_attach(imp->dmabuf, f->dma)));
	KUNIT_EXPECT_EQ(test, 0, importer_attach(test, imp));
}

/* It pins for good, so it has no way to be told. */
static void test_attach_refuses_a_pinned_importer(struct kunit *test)
{
	static const struct dma_buf_attach_ops keeper_ops = {
		.allow_peer2peer = true,
	};
	struct dm_fixture *f = test->priv;
	struct dm_importer *imp = new_importer(test, 0);

	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP,
			PTR_ERR(dma_buf_dynamic_attach(imp->dmabuf, f->dma,
						       &keeper_ops, NULL)));
}

/* Neither a pin nor an attachment is needed: who has it vmapped holds the memory. */
static void test_vmap_needs_no_attachment(struct kunit *test)
{
	struct dm_fixture *f = test->priv;
	struct dm_importer *imp = new_importer(test, 0);

	KUNIT_ASSERT_EQ(test, 0, importer_vmap(imp));
	KUNIT_EXPECT_FALSE(test, imp->map.is_iomem);
	KUNIT_EXPECT_PTR_EQ(test, imp->map.vaddr, f->dm->mem->vaddr);
	KUNIT_EXPECT_EQ(test, 0, dma_buf_begin_cpu_access(imp->dmabuf,
							  DMA_FROM_DEVICE));
}

/* The table has the pages of the DM in order, and no others. */
static void test_map_has_the_pages_of_the_dm_in_order(struct kunit *test)
{
	struct dm_fixture *f = test->priv;
	struct dm_importer *imp = new_importer(test, 0);
	struct sg_dma_page_iter iter;
	size_t bytes = 0, n = 0;
	struct scatterlist *sg;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, 0, importer_attach(test, imp));
	KUNIT_ASSERT_EQ(test, 0, importer_map(imp));
	for_each_sgtable_dma_sg(imp->sgt, sg, i)
		bytes += sg_dma_len(sg);
	KUNIT_EXPECT_EQ(test, bytes, DM_SIZE);

	/* The device has no IOMMU: an address is that of the page. */
	for_each_sgtable_dma_page(imp->sgt, &iter, 0) {
		struct page *page = vmalloc_to_page(f->dm->mem->vaddr + n++ * PAGE_SIZE);

		KUNIT_EXPECT_EQ(test, sg_page_iter_dma_address(&iter),
				(dma_addr_t)page_to_phys(page));
	}
	KUNIT_EXPECT_EQ(test, n, DM_SIZE / PAGE_SIZE);
}

/* There is no path from a BAR to a device that is not on a PCI bus. */
static void test_map_of_a_bar_needs_a_path(struct kunit *test)
{
	struct dm_importer *imp;

	replace_dm(test, TEST_DM_BAR);
	imp = new_importer(test, 0);
	KUNIT_ASSERT_EQ(test, 0, importer_attach(test, imp));
	KUNIT_EXPECT_FALSE(test, imp->attach->peer2peer);
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP, importer_map(imp));

	/* It may be pinned, for instance for the CPU. */
	KUNIT_EXPECT_EQ(test, 0, importer_pin(imp));
	free_dm(test);
	check_revoked(test, imp);
}

/* Revoke */

static void test_free_revokes_an_importer(struct kunit *test)
{
	struct dm_importer *imp = new_user(test, 0);

	free_dm(test);
	check_revoked(test, imp);
}

static void test_free_revokes_who_has_only_attached(struct kunit *test)
{
	struct dm_importer *imp = new_importer(test, 0);

	KUNIT_ASSERT_EQ(test, 0, importer_attach(test, imp));
	free_dm(test);
	check_revoked(test, imp);
}

static void test_free_revokes_two_exports(struct kunit *test)
{
	struct dm_importer *a = new_user(test, 0), *b = new_user(test, 1);

	KUNIT_EXPECT_PTR_NE(test, a->dmabuf, b->dmabuf);
	KUNIT_EXPECT_PTR_EQ(test, a->map.vaddr, b->map.vaddr);
	free_dm(test);
	check_revoked(test, a);
	check_revoked(test, b);
}

/* Two importers of one dma-buf share its vmap. */
static void test_free_revokes_two_importers(struct kunit *test)
{
	struct dm_fixture *f = test->priv;
	struct dm_importer *a = new_user(test, 0), *b = &f->imp[1];

	get_dma_buf(a->dmabuf);
	b->dmabuf = a->dmabuf;
	KUNIT_ASSERT_EQ(test, 0, importer_attach(test, b));
	KUNIT_ASSERT_EQ(test, 0, importer_vmap(b));
	free_dm(test);
	check_revoked(test, a);
	check_revoked(test, b);
}

/* A mapping is valid until the importer has undone it, and so is the memory. */
static void test_free_does_not_wait_for_an_importer(struct kunit *test)
{
	struct dm_importer *imp = new_user(test, 0);

	imp->keeps = true;
	free_dm(test);
	memset(imp->map.vaddr, 0x5a, DM_SIZE); /* KASAN looks whether it is there */
	KUNIT_EXPECT_EQ(test, -ENODEV, dma_buf_begin_cpu_access(imp->dmabuf,
								DMA_FROM_DEVICE));
	importer_end(imp);
	check_revoked(test, imp);
}

/* As vb2 does it: a vmap without an attachment hears of no revoke. */
static void test_free_does_not_wait_for_a_vmap(struct kunit *test)
{
	struct dm_importer *imp = new_importer(test, 0);

	KUNIT_ASSERT_EQ(test, 0, importer_vmap(imp));
	free_dm(test);
	memset(imp->map.vaddr, 0x5a, DM_SIZE);
	dma_buf_vunmap_unlocked(imp->dmabuf, &imp->map);
	KUNIT_EXPECT_EQ(test, -ENODEV, importer_vmap(imp));
}

/* Release */

/* Nothing that is left reaches the DM, and the DM does not reach what has gone. */
static void test_dm_can_be_freed_after_a_release(struct kunit *test)
{
	struct dm_fixture *f = test->priv;
	struct dma_buf *dmabuf[2];
	int i;

	for (i = 0; i < 2; i++) {
		dmabuf[i] = ib_dm_export(f->dm);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dmabuf[i]);
	}
	dma_buf_put(dmabuf[0]);
	flush_delayed_fput();
	/* The file of this one has no references, and has yet to be released. */
	dma_buf_put(dmabuf[1]);
	free_dm(test);
	flush_delayed_fput();
}

/* As if a process had it open with O_PATH: its file goes, and it stays. */
static void test_free_ignores_a_dmabuf_without_a_file(struct kunit *test)
{
	struct dm_fixture *f = test->priv;
	struct dma_buf *dmabuf = ib_dm_export(f->dm);
	struct dentry *dentry;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dmabuf);
	dentry = dget(dmabuf->file->f_path.dentry);
	dma_buf_put(dmabuf);
	flush_delayed_fput();
	rcu_barrier(); /* struct file is freed by RCU */
	free_dm(test);
	dput(dentry);
}

struct dm_put {
	struct work_struct work;
	struct dma_buf *dmabuf;
};

static void dm_put_work(struct work_struct *work)
{
	dma_buf_put(container_of(work, struct dm_put, work)->dmabuf);
	flush_delayed_fput();
}

/* Both ends may be first. */
static void test_release_races_free(struct kunit *test)
{
	struct dm_fixture *f = test->priv;
	struct dm_put put;
	int i;

	INIT_WORK_ONSTACK(&put.work, dm_put_work);
	for (i = 0; i < 200; i++) {
		put.dmabuf = ib_dm_export(f->dm);
		KUNIT_EXPECT_NOT_ERR_OR_NULL(test, put.dmabuf);
		if (IS_ERR(put.dmabuf))
			break;
		queue_work(system_dfl_wq, &put.work);
		if (i % 2)
			cpu_relax();
		else
			cond_resched();
		free_dm(test);
		flush_work(&put.work);
		f->dm = new_dm(test, TEST_DM_VMALLOC);
	}
	destroy_work_on_stack(&put.work);
}

static struct kunit_case dm_dmabuf_cases[] = {
	KUNIT_CASE(test_export_makes_a_writable_dmabuf),
	KUNIT_CASE(test_export_of_a_hidden_dm_is_eopnotsupp),
	KUNIT_CASE(test_attach_needs_invalidate_mappings),
	KUNIT_CASE(test_attach_refuses_a_pinned_importer),
	KUNIT_CASE(test_vmap_needs_no_attachment),
	KUNIT_CASE(test_map_has_the_pages_of_the_dm_in_order),
	KUNIT_CASE(test_map_of_a_bar_needs_a_path),
	KUNIT_CASE(test_free_revokes_an_importer),
	KUNIT_CASE(test_free_revokes_who_has_only_attached),
	KUNIT_CASE(test_free_revokes_two_exports),
	KUNIT_CASE(test_free_revokes_two_importers),
	KUNIT_CASE(test_free_does_not_wait_for_an_importer),
	KUNIT_CASE(test_free_does_not_wait_for_a_vmap),
	KUNIT_CASE(test_dm_can_be_freed_after_a_release),
	KUNIT_CASE(test_free_ignores_a_dmabuf_without_a_file),
	KUNIT_CASE(test_release_races_free),
	{}
};

static struct kunit_suite dm_dmabuf_suite = {
	.name = "ib_dm_dmabuf",
	.init = dm_test_init,
	.exit = dm_test_exit,
	.test_cases = dm_dmabuf_cases,
};

kunit_test_suite(dm_dmabuf_suite);
