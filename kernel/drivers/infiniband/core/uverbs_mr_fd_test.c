// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit tests of the core's part of registration by file descriptor
 *
 * The devices here have ops that remember what the core passes to them: a device
 * with reg_user_mr_fd, one with the older reg_user_mr_dmabuf only, one with
 * neither.  The last cases fail a rereg in the middle.
 */

#include <linux/dma-buf.h>
#include <linux/shmem_fs.h>

#include "umem_fd_test.h"
#include "rdma_core.h"
#include "uverbs.h"

#define WR IB_ACCESS_LOCAL_WRITE
#define BUF_SIZE (2 * PAGE_SIZE)

/* What an op got; a test runs alone. */
static struct {
	int calls;
	struct ib_mr_buffer buffer;
	int fd;
} seen;

static struct ib_mr mr_by_fd, mr_by_dmabuf;

static struct ib_mr *op_reg_fd(struct ib_pd *pd,
			       const struct ib_mr_buffer *buffer,
			       struct uverbs_attr_bundle *attrs)
{
	seen.calls++;
	seen.buffer = *buffer;
	return &mr_by_fd;
}

static struct ib_mr *op_reg_dmabuf(struct ib_pd *pd, u64 offset, u64 length,
				   u64 iova, int fd, int access,
				   struct ib_dmah *dmah,
				   struct uverbs_attr_bundle *attrs)
{
	seen.calls++;
	seen.buffer.addr = offset;
	seen.buffer.length = length;
	seen.buffer.iova = iova;
	seen.buffer.access = access;
	seen.fd = fd;
	return &mr_by_dmabuf;
}

static struct sg_table *no_map(struct dma_buf_attachment *attach,
			       enum dma_data_direction dir)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static void no_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt,
		     enum dma_data_direction dir)
{
}

static void no_release(struct dma_buf *dmabuf)
{
}

static const struct dma_buf_ops no_ops = {
	.map_dma_buf = no_map,
	.unmap_dma_buf = no_unmap,
	.release = no_release,
};

static int export_fd(struct kunit *test, int flags)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dmabuf;

	info.ops = &no_ops;
	info.size = BUF_SIZE;
	info.flags = flags;
	info.priv = test;
	dmabuf = dma_buf_export(&info);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dmabuf);
	return install(test, dmabuf->file);
}

static struct ib_pd *new_pd(struct kunit *test)
{
	struct ib_pd *pd = kunit_kzalloc(test, sizeof(*pd), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, pd);
	pd->device = new_device(test);
	memset(&seen, 0, sizeof(seen));
	return pd;
}

static struct ib_uverbs_buffer_desc dmabuf_desc(int fd)
{
	return (struct ib_uverbs_buffer_desc){
		.type = IB_UVERBS_BUFFER_TYPE_DMABUF,
		.fd = fd,
		.addr = 8,
		.length = PAGE_SIZE,
	};
}

static void test_caps_follow_the_ops_of_the_driver(struct kunit *test)
{
	struct ib_pd *pd = new_pd(test);
	u32 type;

	for (type = 0; type < IB_MR_BUFFER_TYPES; type++)
		pd->device->mr_buffer_caps[type] = 0x10 + type;

	/* Without an op nothing is possible, whatever the driver says. */
	for (type = 0; type <= IB_MR_BUFFER_TYPES; type++)
		KUNIT_EXPECT_EQ(test, uverbs_buffer_caps(pd->device, type), 0);

	pd->device->ops.reg_user_mr_dmabuf = op_reg_dmabuf;
	for (type = 0; type <= IB_MR_BUFFER_TYPES; type++)
		KUNIT_EXPECT_EQ(test, uverbs_buffer_caps(pd->device, type),
				type == IB_UVERBS_BUFFER_TYPE_DMABUF ?
				IB_UVERBS_BUFFER_CAP_REG : 0);

	pd->device->ops.reg_user_mr_fd = op_reg_fd;
	for (type = 0; type < IB_MR_BUFFER_TYPES; type++)
		KUNIT_EXPECT_EQ(test, uverbs_buffer_caps(pd->device, type),
				0x10 + type);
	KUNIT_EXPECT_EQ(test, uverbs_buffer_caps(pd->device, type), 0);
	KUNIT_EXPECT_EQ(test, uverbs_buffer_caps(pd->device, U32_MAX), 0);
}

/* In a guest with encrypted memory only a dma-buf can be there for the device. */
static void test_bouncing_device_takes_dmabufs_only(struct kunit *test)
{
	struct ib_pd *pd = new_pd(test);
	u32 type;

	pd->device->ops.reg_user_mr_fd = op_reg_fd;
	pd->device->cc_dma_bounce = 1;
	for (type = 0; type < IB_MR_BUFFER_TYPES; type++) {
		pd->device->mr_buffer_caps[type] = IB_UVERBS_BUFFER_CAP_REG;
		KUNIT_EXPECT_EQ(test, uverbs_buffer_caps(pd->device, type),
				type == IB_UVERBS_BUFFER_TYPE_DMABUF ?
				IB_UVERBS_BUFFER_CAP_REG : 0);
	}
}

static void test_reg_calls_the_op_for_fds(struct kunit *test)
{
	struct ib_pd *pd = new_pd(test);
	struct ib_uverbs_buffer_desc desc = dmabuf_desc(export_fd(test, O_RDWR));
	struct ib_mr *mr;

	pd->device->ops.reg_user_mr_fd = op_reg_fd;
	pd->device->mr_buffer_caps[desc.type] = IB_UVERBS_BUFFER_CAP_REG;
	mr = uverbs_reg_mr_fd(pd, &desc, 3 * PAGE_SIZE + 8, WR, NULL);
	KUNIT_EXPECT_PTR_EQ(test, mr, &mr_by_fd);
	KUNIT_EXPECT_EQ(test, seen.buffer.addr, 8);
	KUNIT_EXPECT_EQ(test, seen.buffer.length, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, seen.buffer.iova, 3 * PAGE_SIZE + 8);
	KUNIT_EXPECT_EQ(test, seen.buffer.access, WR);

	/* The core's reference is gone; the fd has the only one. */
	KUNIT_EXPECT_EQ(test, file_count(seen.buffer.dmabuf->file), 1);

	desc.fd = export_fd(test, O_RDONLY);
	mr = uverbs_reg_mr_fd(pd, &desc, 8, WR, NULL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(mr), -EACCES);
	KUNIT_EXPECT_EQ(test, seen.calls, 1);
}

static void test_reg_calls_the_op_for_dmabufs(struct kunit *test)
{
	struct ib_pd *pd = new_pd(test);
	struct ib_uverbs_buffer_desc desc = dmabuf_desc(export_fd(test, O_RDWR));
	struct ib_mr *mr;

	pd->device->ops.reg_user_mr_dmabuf = op_reg_dmabuf;
	mr = uverbs_reg_mr_fd(pd, &desc, PAGE_SIZE + 8, WR, NULL);
	KUNIT_EXPECT_PTR_EQ(test, mr, &mr_by_dmabuf);
	/* Not every driver of this op sets them. */
	KUNIT_EXPECT_EQ(test, mr->iova, PAGE_SIZE + 8);
	KUNIT_EXPECT_EQ(test, mr->length, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, seen.buffer.addr, 8);
	KUNIT_EXPECT_EQ(test, seen.buffer.length, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, seen.buffer.iova, PAGE_SIZE + 8);
	KUNIT_EXPECT_EQ(test, seen.buffer.access, WR);
	KUNIT_EXPECT_EQ(test, seen.fd, desc.fd);

	/* The checks of the core come first. */
	desc.length = BUF_SIZE;
	KUNIT_EXPECT_EQ(test, PTR_ERR(uverbs_reg_mr_fd(pd, &desc, 8, WR, NULL)),
			-ERANGE);
	desc.length = 1;
	KUNIT_EXPECT_EQ(test, PTR_ERR(uverbs_reg_mr_fd(pd, &desc, 9, WR, NULL)),
			-EINVAL);
	/* Drivers of this op do not expect other flags than these. */
	KUNIT_EXPECT_EQ(test, PTR_ERR(uverbs_reg_mr_fd(pd, &desc, 8,
						       WR | IB_ACCESS_MW_BIND, NULL)),
			-EOPNOTSUPP);
	desc.type = IB_UVERBS_BUFFER_TYPE_MEMFD;
	KUNIT_EXPECT_EQ(test, PTR_ERR(uverbs_reg_mr_fd(pd, &desc, 8, WR, NULL)),
			-EOPNOTSUPP);
	desc.type = IB_MR_BUFFER_TYPES;
	KUNIT_EXPECT_EQ(test, PTR_ERR(uverbs_reg_mr_fd(pd, &desc, 8, WR, NULL)),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, seen.calls, 1);
}

/* A program that asks with fd -1 learns that there is no support. */
static void test_device_without_an_op_is_eopnotsupp(struct kunit *test)
{
	struct ib_pd *pd = new_pd(test);
	struct ib_uverbs_buffer_desc desc = dmabuf_desc(-1);

	KUNIT_EXPECT_EQ(test, PTR_ERR(uverbs_reg_mr_fd(pd, &desc, 8, WR, NULL)),
			-EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, seen.calls, 0);
}

/* The user of the older op may have a read-only fd. */
static void test_older_op_takes_a_read_only_fd(struct kunit *test)
{
	int fd = export_fd(test, O_RDONLY);
	struct ib_mr_buffer buffer;

	KUNIT_ASSERT_EQ(test, ib_mr_buffer_get_dmabuf(&buffer, 8, PAGE_SIZE,
						      PAGE_SIZE + 8, fd, WR), 0);
	KUNIT_EXPECT_EQ(test, (int)buffer.type, IB_UVERBS_BUFFER_TYPE_DMABUF);
	KUNIT_EXPECT_EQ(test, buffer.addr, 8);
	KUNIT_EXPECT_EQ(test, buffer.length, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, buffer.iova, PAGE_SIZE + 8);
	KUNIT_EXPECT_EQ(test, buffer.access, WR);
	KUNIT_EXPECT_EQ(test, file_count(buffer.dmabuf->file), 2);
	ib_mr_buffer_put(&buffer);
	KUNIT_EXPECT_EQ(test, file_count(buffer.dmabuf->file), 1);
}

/* The errors that programs know from other drivers */
static void test_older_op_keeps_its_errnos(struct kunit *test)
{
	int fd = export_fd(test, O_RDWR);
	int other = install(test, shmem_file_setup("kunit", PAGE_SIZE, EMPTY_VMA_FLAGS));
	static const struct {
		u64 offset, length, iova;
	} bad[] = {
		{ 0, 0, 0 },
		{ 0, BUF_SIZE + 1, 0 },
		{ BUF_SIZE, 1, 0 },
		{ TOP_PAGE, PAGE_SIZE, 0 },
		{ 0, PAGE_SIZE, TOP_PAGE },
	};
	struct ib_mr_buffer buffer;
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		ret = ib_mr_buffer_get_dmabuf(&buffer, bad[i].offset,
					      bad[i].length, bad[i].iova, fd, WR);
		KUNIT_EXPECT_EQ_MSG(test, ret, -EINVAL, "case %d", i);
	}
	ret = ib_mr_buffer_get_dmabuf(&buffer, 0, 1, 0, other, WR);
	KUNIT_EXPECT_EQ(test, ret, -EINVAL);
	ret = ib_mr_buffer_get_dmabuf(&buffer, 0, 1, 0, -1, WR);
	KUNIT_EXPECT_EQ(test, ret, -EBADF);
}

/* Rereg that fails in the middle, or succeeds in place */

/**
 * struct rereg_fixture - an MR of a device whose rereg does what it is told
 * @uapi_dev: has the methods of the core
 * @ufile: the open file of the user
 * @context: the user's
 * @attrs: the call
 * @obj: uobject of @mr, locked for writing by the test
 * @pd: what the MR has
 * @other_pd: what a rereg gives it
 * @mr: the MR
 */
struct rereg_fixture {
	struct ib_uverbs_device uapi_dev;
	struct ib_uverbs_file ufile;
	struct ib_ucontext context;
	struct uverbs_attr_bundle attrs;
	struct ib_umr_object obj;
	struct ib_pd *pd, *other_pd;
	struct ib_mr mr;
};

static struct {
	int err;
	bool revokes;
} rereg_op;

static struct ib_mr *op_rereg(struct ib_mr *mr, int flags,
			      const struct ib_mr_buffer *buffer,
			      struct ib_pd *pd,
			      struct uverbs_attr_bundle *attrs)
{
	seen.calls++;
	seen.buffer = *buffer;
	mr->revoked = rereg_op.revokes;
	return ERR_PTR(rereg_op.err);
}

/* Only its presence counts. */
static int op_dereg(struct ib_mr *mr, struct ib_udata *udata)
{
	return 0;
}

static void destroy_api(void *uapi)
{
	uverbs_destroy_api(uapi);
}

static struct rereg_fixture *new_rereg(struct kunit *test)
{
	struct rereg_fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	struct ib_device *device;

	KUNIT_ASSERT_NOT_NULL(test, f);
	f->pd = new_pd(test);
	f->other_pd = new_pd(test);
	device = f->pd->device;
	device->ops.dereg_mr = op_dereg;
	device->ops.reg_user_mr_fd = op_reg_fd;
	device->ops.rereg_user_mr_fd = op_rereg;
	device->mr_buffer_caps[IB_UVERBS_BUFFER_TYPE_VA] =
		IB_UVERBS_BUFFER_CAP_REG | IB_UVERBS_BUFFER_CAP_REREG;

	f->uapi_dev.uapi = uverbs_alloc_api(device);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, f->uapi_dev.uapi);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, destroy_api,
							   f->uapi_dev.uapi));
	f->ufile.device = &f->uapi_dev;
	init_rwsem(&f->ufile.hw_destroy_rwsem);
	spin_lock_init(&f->ufile.uobjects_lock);
	INIT_LIST_HEAD(&f->ufile.uobjects);
	xa_init_flags(&f->ufile.idr, XA_FLAGS_ALLOC);
	f->context.device = device;
	f->attrs.ufile = &f->ufile;
	f->attrs.context = &f->context;

	f->mr = (struct ib_mr){
		.device = device,
		.pd = f->pd,
		.iova = 5 * PAGE_SIZE,
		.length = 77,
		.access_flags = IB_ACCESS_REMOTE_READ,
	};
	f->obj.uevent.uobject.object = &f->mr;
	f->obj.uevent.uobject.ufile = &f->ufile;
	atomic_set(&f->pd->usecnt, 1);
	rereg_op.err = 0;
	rereg_op.revokes = false;
	return f;
}

static const struct ib_uverbs_buffer_desc va_desc = {
	.type = IB_UVERBS_BUFFER_TYPE_VA,
	.fd = -1,
	.addr = PAGE_SIZE,
	.length = PAGE_SIZE,
};

static int rereg(struct rereg_fixture *f, u32 flags)
{
	return uverbs_rereg_mr_fd(&f->obj.uevent.uobject, flags, f->other_pd, &va_desc,
				  2 * PAGE_SIZE, WR, &f->attrs);
}

static void check_unchanged(struct kunit *test, struct rereg_fixture *f)
{
	KUNIT_EXPECT_PTR_EQ(test, f->mr.pd, f->pd);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->pd->usecnt), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->other_pd->usecnt), 0);
	KUNIT_EXPECT_EQ(test, f->mr.iova, 5 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, f->mr.length, 77);
	KUNIT_EXPECT_EQ(test, f->mr.access_flags, IB_ACCESS_REMOTE_READ);
	KUNIT_EXPECT_TRUE(test, xa_empty(&f->ufile.idr));
}

static void test_rereg_fails(struct kunit *test)
{
	struct rereg_fixture *f = new_rereg(test);

	rereg_op.err = -EIO;
	KUNIT_EXPECT_EQ(test, rereg(f, IB_MR_REREG_SUPPORTED), -EIO);
	check_unchanged(test, f);
	KUNIT_EXPECT_EQ(test, rereg(f, IB_MR_REREG_SUPPORTED), -EIO);
	KUNIT_EXPECT_EQ(test, seen.calls, 2);
}

/* The driver has revoked the keys when it finds that it cannot go on. */
static void test_rereg_fails_after_a_revoke(struct kunit *test)
{
	struct rereg_fixture *f = new_rereg(test);

	rereg_op.err = -EIO;
	rereg_op.revokes = true;
	KUNIT_EXPECT_EQ(test, rereg(f, IB_MR_REREG_TRANS), -ENOTRECOVERABLE);
	check_unchanged(test, f);

	/* No later rereg brings it back, and the driver is not asked. */
	rereg_op.err = 0;
	rereg_op.revokes = false;
	KUNIT_EXPECT_EQ(test, rereg(f, IB_MR_REREG_TRANS), -ENOTRECOVERABLE);
	KUNIT_EXPECT_EQ(test, rereg(f, IB_MR_REREG_PD), -ENOTRECOVERABLE);
	KUNIT_EXPECT_EQ(test, seen.calls, 1);
	check_unchanged(test, f);
}

static void test_rereg_in_place_changes_the_mr(struct kunit *test)
{
	struct rereg_fixture *f = new_rereg(test);

	KUNIT_EXPECT_EQ(test, rereg(f, IB_MR_REREG_SUPPORTED), 0);
	KUNIT_EXPECT_EQ(test, seen.buffer.addr, PAGE_SIZE);
	KUNIT_EXPECT_PTR_EQ(test, f->mr.pd, f->other_pd);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->pd->usecnt), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->other_pd->usecnt), 1);
	KUNIT_EXPECT_EQ(test, f->mr.iova, 2 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, f->mr.length, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, f->mr.access_flags, WR);
	KUNIT_EXPECT_TRUE(test, xa_empty(&f->ufile.idr));
}

/* Without new memory the driver gets what the MR has. */
static void test_rereg_keeps_memory(struct kunit *test)
{
	struct rereg_fixture *f = new_rereg(test);

	KUNIT_EXPECT_EQ(test, rereg(f, IB_MR_REREG_PD), 0);
	KUNIT_EXPECT_EQ(test, seen.buffer.iova, 5 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, seen.buffer.length, 77);
	KUNIT_EXPECT_EQ(test, seen.buffer.access, IB_ACCESS_REMOTE_READ);
	KUNIT_EXPECT_EQ(test, f->mr.length, 77);
}

static void test_rereg_without_the_cap_is_eopnotsupp(struct kunit *test)
{
	struct rereg_fixture *f = new_rereg(test);

	f->pd->device->mr_buffer_caps[IB_UVERBS_BUFFER_TYPE_VA] =
		IB_UVERBS_BUFFER_CAP_REG;
	KUNIT_EXPECT_EQ(test, rereg(f, IB_MR_REREG_TRANS), -EOPNOTSUPP);
	f->pd->device->ops.rereg_user_mr_fd = NULL;
	KUNIT_EXPECT_EQ(test, rereg(f, IB_MR_REREG_PD), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, seen.calls, 0);
}

/* Another MR, or the same with other memory, would be without the DMA handle. */
static void test_rereg_refuses_a_dma_handle(struct kunit *test)
{
	struct rereg_fixture *f = new_rereg(test);
	struct ib_dmah dmah = {};

	f->mr.dmah = &dmah;
	KUNIT_EXPECT_EQ(test, rereg(f, IB_MR_REREG_SUPPORTED), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, rereg(f, IB_MR_REREG_PD), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, seen.calls, 0);
	KUNIT_EXPECT_PTR_EQ(test, f->mr.dmah, &dmah);
	check_unchanged(test, f);
}

static struct kunit_case uverbs_mr_fd_cases[] = {
	KUNIT_CASE(test_caps_follow_the_ops_of_the_driver),
	KUNIT_CASE(test_bouncing_device_takes_dmabufs_only),
	KUNIT_CASE(test_reg_calls_the_op_for_fds),
	KUNIT_CASE(test_reg_calls_the_op_for_dmabufs),
	KUNIT_CASE(test_device_without_an_op_is_eopnotsupp),
	KUNIT_CASE(test_older_op_takes_a_read_only_fd),
	KUNIT_CASE(test_older_op_keeps_its_errnos),
	KUNIT_CASE(test_rereg_fails),
	KUNIT_CASE(test_rereg_fails_after_a_revoke),
	KUNIT_CASE(test_rereg_in_place_changes_the_mr),
	KUNIT_CASE(test_rereg_keeps_memory),
	KUNIT_CASE(test_rereg_without_the_cap_is_eopnotsupp),
	KUNIT_CASE(test_rereg_refuses_a_dma_handle),
	{}
};

static struct kunit_suite uverbs_mr_fd_suite = {
	.name = "ib_uverbs_mr_fd",
	.test_cases = uverbs_mr_fd_cases,
};

kunit_test_suite(uverbs_mr_fd_suite);
