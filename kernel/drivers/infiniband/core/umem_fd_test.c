// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit tests of user memory that a file descriptor names
 *
 * The tests call ib_mr_buffer_get(), and ib_umem_vmap_get() for a device that
 * needs no DMA; a zeroed struct ib_device is enough.  With an fd that is not
 * open, a request that passes the checks gets -EBADF.  Open fds belong to files
 * that the tests make: kernel threads share a table of files.  The dma-bufs come
 * from an exporter that counts its calls and fails on request.
 * umem_memfd_test.c tests files in memory, umem_dmabuf_test.c dma-bufs for DMA.
 */

#include <linux/delay.h>
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/shmem_fs.h>

#include "umem_fd_test.h"

#define WR IB_ACCESS_LOCAL_WRITE
#define RD IB_ACCESS_REMOTE_READ

/* Arguments, with an fd that is not open */

/* What follows if the range ends there, where the fd is not open. */
#define ABOVE_4G (BITS_PER_LONG == 64 ? -EBADF : -EOVERFLOW)

struct range_case {
	const char *name;
	u64 offset;
	u64 length;
	u64 iova;
	int err;
};

static const struct range_case range_cases[] = {
	{ "one byte", 0, 1, 0, -EBADF },
	{ "zero length", 0, 0, 0, -EINVAL },
	{ "zero length at the top", TOP_PAGE, 0, TOP_PAGE, -EINVAL },
	{ "equal in the page", 5, 1, 3 * PAGE_SIZE + 5, -EBADF },
	{ "equal in the page, iova below", 9 * PAGE_SIZE + 5, 1, 5, -EBADF },
	{ "last byte of a page", PAGE_SIZE - 1, 1, TOP_PAGE - 1, -EBADF },
	{ "iova one more", 5, 1, 6, -EINVAL },
	{ "iova half a page more", 0, 1, PAGE_SIZE / 2, -EINVAL },
	{ "offset one less than a page", PAGE_SIZE - 1, 1, 0, -EINVAL },
	{ "offset ends in a long", ULONG_MAX - PAGE_SIZE + 1, PAGE_SIZE - 1, 0,
	  -EBADF },
	{ "offset ends past 2^32", SZ_4G, PAGE_SIZE, 0, ABOVE_4G },
	{ "offset ends at 2^64 - 1", TOP_PAGE, PAGE_SIZE - 1, 0, ABOVE_4G },
	{ "offset ends at 2^64", TOP_PAGE, PAGE_SIZE, 0, -EOVERFLOW },
	{ "offset ends past 2^64", TOP_PAGE, PAGE_SIZE + 1, 0, -EOVERFLOW },
	{ "iova ends at 2^64 - 1", 0, PAGE_SIZE - 1, TOP_PAGE, -EBADF },
	{ "iova ends at 2^64", 0, PAGE_SIZE, TOP_PAGE, -EOVERFLOW },
	{ "iova ends past 2^64", 0, PAGE_SIZE + 1, TOP_PAGE, -EOVERFLOW },
	{ "longest", 0, U64_MAX, 0, ABOVE_4G },
	{ "longest and one page", PAGE_SIZE, U64_MAX, 0, -EOVERFLOW },
	{ "longest at one page", 0, U64_MAX, PAGE_SIZE, -EOVERFLOW },
};

KUNIT_ARRAY_PARAM_DESC(range, range_cases, name);

static void test_invalid_range_is_refused(struct kunit *test)
{
	const struct range_case *c = test->param_value;
	struct ib_uverbs_buffer_desc desc = {
		.addr = c->offset,
		.length = c->length,
		.fd = -1,
	};

	desc.type = IB_UVERBS_BUFFER_TYPE_DMABUF;
	KUNIT_EXPECT_EQ(test, get_buffer_err(&desc, c->iova, WR), c->err);
	desc.type = IB_UVERBS_BUFFER_TYPE_MEMFD;
	KUNIT_EXPECT_EQ(test, get_buffer_err(&desc, c->iova, WR), c->err);
	/* No fd is looked up. */
	desc.type = IB_UVERBS_BUFFER_TYPE_VA;
	KUNIT_EXPECT_EQ(test, get_buffer_err(&desc, c->iova, WR),
			c->err == -EBADF ? 0 : c->err);
}

struct type_case {
	const char *name;
	u32 type;
	u32 flags;
	u32 optional_flags;
	int err;
};

static const struct type_case type_cases[] = {
	{ "dma-buf", IB_UVERBS_BUFFER_TYPE_DMABUF, 0, 0, -EBADF },
	{ "memory of the process", IB_UVERBS_BUFFER_TYPE_VA, 0, 0, 0 },
	{ "memfd", IB_UVERBS_BUFFER_TYPE_MEMFD, 0, 0, -EBADF },
	{ "the type after the last", IB_UVERBS_BUFFER_TYPE_MEMFD + 1, 0, 0, -EINVAL },
	{ "a type with the top bit", BIT(31) | IB_UVERBS_BUFFER_TYPE_MEMFD, 0, 0, -EINVAL },
	{ "type -1", U32_MAX, 0, 0, -EINVAL },
	{ "a flag", IB_UVERBS_BUFFER_TYPE_VA, 1, 0, -EINVAL },
	{ "the top flag", IB_UVERBS_BUFFER_TYPE_VA, BIT(31), 0, -EINVAL },
	{ "optional flags", IB_UVERBS_BUFFER_TYPE_VA, 0, U32_MAX, 0 },
};

KUNIT_ARRAY_PARAM_DESC(type, type_cases, name);

static void test_unknown_type_or_flag_is_einval(struct kunit *test)
{
	const struct type_case *c = test->param_value;
	const struct ib_uverbs_buffer_desc desc = {
		.type = c->type,
		.fd = -1,
		.flags = c->flags,
		.optional_flags = c->optional_flags,
		.length = 1,
	};

	KUNIT_EXPECT_EQ(test, get_buffer_err(&desc, 0, 0), c->err);
}

static void test_mode_of_the_fd_limits_the_access(struct kunit *test)
{
	static const unsigned int writing[] = {
		IB_ACCESS_LOCAL_WRITE, IB_ACCESS_REMOTE_WRITE,
		IB_ACCESS_REMOTE_ATOMIC, IB_ACCESS_MW_BIND,
	};
	struct file *file = kunit_kzalloc(test, sizeof(*file), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, file);
	file->f_mode = FMODE_READ;
	KUNIT_EXPECT_TRUE(test, ib_umem_fd_mode_allows(file, 0));
	KUNIT_EXPECT_TRUE(test, ib_umem_fd_mode_allows(file, IB_ACCESS_REMOTE_READ));

	for (i = 0; i < ARRAY_SIZE(writing); i++) {
		file->f_mode = FMODE_READ;
		KUNIT_EXPECT_FALSE(test, ib_umem_fd_mode_allows(file, writing[i]));
		file->f_mode = FMODE_WRITE;
		KUNIT_EXPECT_FALSE(test, ib_umem_fd_mode_allows(file, writing[i]));
		file->f_mode = FMODE_READ | FMODE_WRITE;
		KUNIT_EXPECT_TRUE(test, ib_umem_fd_mode_allows(file, writing[i]));
	}

	file->f_mode = FMODE_WRITE;
	KUNIT_EXPECT_FALSE(test, ib_umem_fd_mode_allows(file, 0));
}

/* Open files */

/* The exporter */
struct test_buf {
	struct iosys_map map;
	int attach_err;
	int pin_err;
	int vmap_err;
	int begin_err;
	bool revoke_in_begin;
	bool revoked;
	int attached;
	int pinned;
	int vmaps;
	int vunmaps;
	int begins;
	int ends;
	int released;
	bool in_order; /* each call found what has to be there before it */
	enum dma_data_direction dir;
};

static int test_buf_attach(struct dma_buf *dmabuf,
			   struct dma_buf_attachment *attach)
{
	struct test_buf *buf = dmabuf->priv;

	if (buf->attach_err)
		return buf->attach_err;
	buf->in_order &= !buf->begins && !attach->peer2peer;
	buf->attached++;
	return 0;
}

static void test_buf_detach(struct dma_buf *dmabuf,
			    struct dma_buf_attachment *attach)
{
	struct test_buf *buf = dmabuf->priv;

	buf->in_order &= !buf->pinned && buf->ends == buf->begins;
	buf->attached--;
}

static int test_buf_pin(struct dma_buf_attachment *attach)
{
	struct test_buf *buf = attach->dmabuf->priv;

	if (buf->pin_err)
		return buf->pin_err;
	buf->in_order &= !buf->begins;
	buf->pinned++;
	return 0;
}

static void test_buf_unpin(struct dma_buf_attachment *attach)
{
	struct test_buf *buf = attach->dmabuf->priv;

	buf->in_order &= buf->ends == buf->begins || buf->revoked;
	buf->pinned--;
}

/* It would need a device. */
static struct sg_table *test_buf_map(struct dma_buf_attachment *attach,
				     enum dma_data_direction dir)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static void test_buf_unmap(struct dma_buf_attachment *attach,
			   struct sg_table *sgt, enum dma_data_direction dir)
{
}

static void test_buf_release(struct dma_buf *dmabuf)
{
	struct test_buf *buf = dmabuf->priv;

	buf->released++;
}

/* A kernel thread delays its last fput(), and the worker may be in the middle of it. */
static void wait_for_release(void *ctx)
{
	struct test_buf *buf = ctx;
	int i;

	for (i = 0; !READ_ONCE(buf->released) && i < 1000; i++) {
		flush_delayed_fput();
		fsleep(1000);
	}
}

static int test_buf_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct test_buf *buf = dmabuf->priv;

	*map = buf->map;
	buf->in_order &= buf->begins > buf->ends;
	buf->vmaps += !buf->vmap_err;
	return buf->vmap_err;
}

static void test_buf_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct test_buf *buf = dmabuf->priv;

	buf->vunmaps++;
}

static void test_buf_revoke(struct dma_buf *dmabuf)
{
	struct test_buf *buf = dmabuf->priv;

	dma_resv_lock(dmabuf->resv, NULL);
	buf->revoked = true;
	dma_buf_invalidate_mappings(dmabuf);
	dma_resv_unlock(dmabuf->resv);
}

static int test_buf_begin(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	struct test_buf *buf = dmabuf->priv;

	if (buf->revoke_in_begin)
		test_buf_revoke(dmabuf);
	buf->dir = dir;
	buf->begins += !buf->begin_err;
	return buf->begin_err;
}

static int test_buf_end(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	struct test_buf *buf = dmabuf->priv;

	/* After the vunmap, and with the direction of begin */
	buf->in_order &= buf->vunmaps == buf->vmaps && dir == buf->dir;
	buf->ends++;
	return 0;
}

#define TEST_BUF_OPS				\
	.attach = test_buf_attach,		\
	.detach = test_buf_detach,		\
	.map_dma_buf = test_buf_map,		\
	.unmap_dma_buf = test_buf_unmap,	\
	.release = test_buf_release

#define TEST_BUF_CPU_OPS			\
	.vmap = test_buf_vmap,			\
	.vunmap = test_buf_vunmap,		\
	.begin_cpu_access = test_buf_begin,	\
	.end_cpu_access = test_buf_end

static const struct dma_buf_ops test_buf_ops = {
	TEST_BUF_OPS,
	TEST_BUF_CPU_OPS,
};

static const struct dma_buf_ops test_buf_ops_dynamic = {
	TEST_BUF_OPS,
	TEST_BUF_CPU_OPS,
	.pin = test_buf_pin,
	.unpin = test_buf_unpin,
};

static const struct dma_buf_ops test_buf_ops_no_vmap = {
	TEST_BUF_OPS,
};

#define BUF_SIZE (4 * PAGE_SIZE)

static struct file *export(struct kunit *test, struct test_buf *buf,
			   const struct dma_buf_ops *ops, int flags)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dmabuf;

	info.ops = ops;
	info.size = BUF_SIZE;
	info.flags = flags;
	info.priv = buf;
	dmabuf = dma_buf_export(&info);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dmabuf);
	/* Before the end of the test frees buf. */
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action(test, wait_for_release, buf));
	return dmabuf->file;
}

struct buf_case {
	const char *name;
	u64 offset;
	u64 length;
	int flags; /* of the fd */
	unsigned int access;
	int err;
	bool iomem;
	bool no_vmap;
	bool dynamic;
	int attach_err;
	int pin_err;
	int vmap_err;
	int begin_err;
	bool revoke_in_begin;
};

static const struct buf_case buf_cases[] = {
	{ "whole", 0, BUF_SIZE, O_RDWR, WR },
	{ "I/O memory", 0, BUF_SIZE, O_RDWR, WR, .iomem = true },
	{ "from within", PAGE_SIZE + 3, 2 * PAGE_SIZE, O_RDWR, WR },
	{ "last byte", BUF_SIZE - 1, 1, O_RDWR, WR },
	{ "read-only", 0, BUF_SIZE, O_RDONLY, RD },
	{ "on demand is for the driver to refuse", 0, 1, O_RDWR, IB_ACCESS_ON_DEMAND },
	{ "one byte past the end", 0, BUF_SIZE + 1, O_RDWR, WR, -ERANGE },
	{ "one byte at the end", BUF_SIZE, 1, O_RDWR, WR, -ERANGE },
	{ "a page past the end", PAGE_SIZE, BUF_SIZE, O_RDWR, WR, -ERANGE },
	{ "near 2^64", TOP_PAGE, 1, O_RDWR, WR,
	  BITS_PER_LONG == 64 ? -ERANGE : -EOVERFLOW },
	{ "read-only to write", 0, BUF_SIZE, O_RDONLY, WR, -EACCES },
	{ "write-only to read", 0, BUF_SIZE, O_WRONLY, RD, -EACCES },
	{ "no vmap", 0, 1, O_RDWR, WR, -ENXIO, .no_vmap = true },
	{ "dynamic", 0, BUF_SIZE, O_RDWR, WR, .dynamic = true },
	{ "attach fails", 0, 1, O_RDWR, WR, -EIO, .dynamic = true, .attach_err = -EIO },
	{ "static, is not attached", 0, 1, O_RDWR, WR, .attach_err = -EIO },
	{ "pin fails", 0, 1, O_RDWR, WR, -EBUSY, .dynamic = true, .pin_err = -EBUSY },
	{ "dynamic, vmap fails", 0, 1, O_RDWR, WR, -ENOMEM, .dynamic = true,
	  .vmap_err = -ENOMEM },
	{ "dynamic, begin_cpu_access fails", 0, 1, O_RDWR, WR, -EIO, .dynamic = true,
	  .begin_err = -EIO },
	{ "the op vmap, but no vmap of this object", 0, 1, O_RDWR, WR, -ENXIO,
	  .vmap_err = -EOPNOTSUPP },
	{ "vmap fails", 0, 1, O_RDWR, WR, -ENOSPC, .vmap_err = -ENOSPC },
	{ "begin_cpu_access fails", 0, 1, O_RDWR, WR, -EIO, .begin_err = -EIO },
	{ "revoked after the pin", 0, 1, O_RDWR, WR, -ENODEV, .dynamic = true,
	  .revoke_in_begin = true },
	{ "static, is not revoked", 0, 1, O_RDWR, WR, .revoke_in_begin = true },
};

KUNIT_ARRAY_PARAM_DESC(buf, buf_cases, name);

static void check_buf_umem(struct kunit *test, const struct buf_case *c,
			   struct test_buf *buf, struct ib_umem *umem)
{
	bool writes = ib_access_writable(c->access);

	KUNIT_EXPECT_TRUE(test, umem->is_vmap);
	KUNIT_EXPECT_EQ(test, umem->address, c->offset);
	KUNIT_EXPECT_EQ(test, umem->length, c->length);
	KUNIT_EXPECT_EQ(test, umem->iova, c->offset);
	KUNIT_EXPECT_EQ(test, (bool)umem->writable, writes);
	KUNIT_EXPECT_TRUE(test, iosys_map_is_equal(&to_ib_umem_vmap(umem)->map,
						   &buf->map));
	KUNIT_EXPECT_EQ(test, buf->dir, writes ? DMA_BIDIRECTIONAL : DMA_FROM_DEVICE);
}

/* The fd is closed, and the umem has the only reference on the buffer. */
static void check_buf_held(struct kunit *test, const struct buf_case *c,
			   struct test_buf *buf, struct ib_umem *umem)
{
	check_buf_umem(test, c, buf, umem);
	KUNIT_EXPECT_EQ(test, buf->vmaps, 1);
	KUNIT_EXPECT_EQ(test, buf->begins, 1);
	KUNIT_EXPECT_EQ(test, buf->attached, c->dynamic ? 1 : 0);
	KUNIT_EXPECT_EQ(test, buf->pinned, c->dynamic ? 1 : 0);
	KUNIT_EXPECT_EQ(test, buf->vunmaps, 0);
	KUNIT_EXPECT_EQ(test, buf->ends, 0);
	KUNIT_EXPECT_EQ(test, buf->released, 0);
}

static void test_dmabuf_is_taken_and_given_back(struct kunit *test)
{
	const struct buf_case *c = test->param_value;
	struct test_buf *buf = kunit_kzalloc(test, sizeof(*buf), GFP_KERNEL);
	struct ib_uverbs_buffer_desc desc = {
		.type = IB_UVERBS_BUFFER_TYPE_DMABUF,
		.addr = c->offset,
		.length = c->length,
	};
	struct ib_umem *umem;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	iosys_map_set_vaddr(&buf->map, buf);
	if (c->iomem)
		iosys_map_set_vaddr_iomem(&buf->map, (void __iomem *)buf);
	buf->attach_err = c->attach_err;
	buf->pin_err = c->pin_err;
	buf->vmap_err = c->vmap_err;
	buf->begin_err = c->begin_err;
	buf->revoke_in_begin = c->revoke_in_begin;
	buf->in_order = true;
	desc.fd = install(test, export(test, buf, c->no_vmap ? &test_buf_ops_no_vmap :
						  c->dynamic ? &test_buf_ops_dynamic :
							       &test_buf_ops, c->flags));

	umem = get_umem(new_device(test), &desc, c->access);
	kunit_release_action(test, close_and_flush, (void *)(long)desc.fd);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(umem), c->err);
	if (!IS_ERR(umem)) {
		check_buf_held(test, c, buf, umem);
		ib_umem_release(umem);
	}

	wait_for_release(buf);
	KUNIT_EXPECT_EQ(test, buf->released, 1);
	KUNIT_EXPECT_EQ(test, buf->vunmaps, buf->vmaps);
	KUNIT_EXPECT_EQ(test, buf->ends, buf->begins);
	KUNIT_EXPECT_EQ(test, buf->attached, 0);
	KUNIT_EXPECT_EQ(test, buf->pinned, 0);
	KUNIT_EXPECT_TRUE(test, buf->in_order);
}

static bool is_revoked(const struct ib_umem_vmap *vmap)
{
	bool revoked;

	rcu_read_lock();
	revoked = ib_umem_vmap_revoked(vmap);
	rcu_read_unlock();
	return revoked;
}

/* The exporter gets everything back at once, but for the end of the CPU access. */
static void test_revoke_gives_the_dmabuf_back(struct kunit *test)
{
	struct test_buf *buf = kunit_kzalloc(test, sizeof(*buf), GFP_KERNEL);
	struct ib_uverbs_buffer_desc desc = {
		.type = IB_UVERBS_BUFFER_TYPE_DMABUF,
		.length = BUF_SIZE,
	};
	struct ib_umem_vmap *vmap;
	struct ib_umem *umem;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	iosys_map_set_vaddr(&buf->map, buf);
	buf->in_order = true;
	desc.fd = install(test, export(test, buf, &test_buf_ops_dynamic, O_RDWR));
	umem = get_umem(new_device(test), &desc, WR);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, umem);

	vmap = to_ib_umem_vmap(umem);
	KUNIT_EXPECT_FALSE(test, is_revoked(vmap));

	test_buf_revoke(vmap->dmabuf);
	KUNIT_EXPECT_TRUE(test, is_revoked(vmap));
	KUNIT_EXPECT_EQ(test, buf->vunmaps, 1);
	KUNIT_EXPECT_EQ(test, buf->pinned, 0);
	KUNIT_EXPECT_EQ(test, buf->attached, 1);

	/* A second time there is nothing to give back. */
	test_buf_revoke(vmap->dmabuf);
	ib_umem_release(umem);
	KUNIT_EXPECT_EQ(test, buf->vunmaps, 1);
	KUNIT_EXPECT_EQ(test, buf->pinned, 0);
	KUNIT_EXPECT_EQ(test, buf->ends, 1);
	KUNIT_EXPECT_EQ(test, buf->attached, 0);
	KUNIT_EXPECT_TRUE(test, buf->in_order);
}

#define MANY 64

/* Whether a revoke of many takes less time than a quarter of as many grace periods. */
static bool revokes_at_once(struct kunit *test, struct test_buf *buf,
			    const struct ib_uverbs_buffer_desc *desc,
			    struct ib_umem **umems)
{
	ktime_t begin, quarter, all;
	int i;

	for (i = 0; i < MANY; i++) {
		umems[i] = get_umem(new_device(test), desc, WR);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, umems[i]);
	}
	KUNIT_EXPECT_EQ(test, buf->pinned, MANY);

	begin = ktime_get();
	for (i = 0; i < MANY / 4; i++)
		synchronize_rcu();
	quarter = ktime_sub(ktime_get(), begin);

	begin = ktime_get();
	test_buf_revoke(to_ib_umem_vmap(umems[0])->dmabuf);
	all = ktime_sub(ktime_get(), begin);
	KUNIT_EXPECT_EQ(test, buf->pinned, 0);

	for (i = 0; i < MANY; i++) {
		KUNIT_EXPECT_TRUE(test, is_revoked(to_ib_umem_vmap(umems[i])));
		ib_umem_release(umems[i]);
	}
	KUNIT_EXPECT_EQ(test, buf->attached, 0);
	return ktime_before(all, quarter);
}

/* It waits once for all of them. The machine may stop meanwhile, so it has some tries. */
static void test_revoke_waits_once_for_all_umems(struct kunit *test)
{
	struct test_buf *buf = kunit_kzalloc(test, sizeof(*buf), GFP_KERNEL);
	struct ib_umem **umems = kunit_kcalloc(test, MANY, sizeof(*umems), GFP_KERNEL);
	struct ib_uverbs_buffer_desc desc = {
		.type = IB_UVERBS_BUFFER_TYPE_DMABUF,
		.length = BUF_SIZE,
	};
	bool at_once = false;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_ASSERT_NOT_NULL(test, umems);
	iosys_map_set_vaddr(&buf->map, buf);
	desc.fd = install(test, export(test, buf, &test_buf_ops_dynamic, O_RDWR));
	for (i = 0; i < 10 && !at_once; i++)
		at_once = revokes_at_once(test, buf, &desc, umems);
	KUNIT_EXPECT_TRUE(test, at_once);
}

static void test_fd_of_another_type_is_ebadfd(struct kunit *test)
{
	struct test_buf *buf = kunit_kzalloc(test, sizeof(*buf), GFP_KERNEL);
	struct ib_uverbs_buffer_desc desc = { .length = 1 };

	KUNIT_ASSERT_NOT_NULL(test, buf);
	desc.type = IB_UVERBS_BUFFER_TYPE_MEMFD;
	desc.fd = install(test, export(test, buf, &test_buf_ops, O_RDWR));
	KUNIT_EXPECT_EQ(test, get_buffer_err(&desc, 0, 0), -EBADFD);

	desc.type = IB_UVERBS_BUFFER_TYPE_DMABUF;
	desc.fd = install(test, shmem_file_setup("kunit", PAGE_SIZE, EMPTY_VMA_FLAGS));
	KUNIT_EXPECT_EQ(test, get_buffer_err(&desc, 0, 0), -EBADFD);
}

/* There are several ways to take a dma-buf, and the driver has to choose. */
static void test_plain_get_of_a_dmabuf_is_eopnotsupp(struct kunit *test)
{
	const struct ib_mr_buffer buffer = {
		.type = IB_UVERBS_BUFFER_TYPE_DMABUF,
		.length = 1,
	};

	KUNIT_EXPECT_EQ(test, PTR_ERR(ib_umem_get_buffer(new_device(test), &buffer)),
			-EOPNOTSUPP);
}

static struct kunit_case umem_fd_cases[] = {
	KUNIT_CASE_PARAM(test_invalid_range_is_refused, range_gen_params),
	KUNIT_CASE_PARAM(test_unknown_type_or_flag_is_einval, type_gen_params),
	KUNIT_CASE(test_mode_of_the_fd_limits_the_access),
	KUNIT_CASE_PARAM(test_dmabuf_is_taken_and_given_back, buf_gen_params),
	KUNIT_CASE(test_revoke_gives_the_dmabuf_back),
	KUNIT_CASE(test_revoke_waits_once_for_all_umems),
	KUNIT_CASE(test_fd_of_another_type_is_ebadfd),
	KUNIT_CASE(test_plain_get_of_a_dmabuf_is_eopnotsupp),
	{}
};

static struct kunit_suite umem_fd_suite = {
	.name = "ib_umem_fd",
	.test_cases = umem_fd_cases,
};

kunit_test_suite(umem_fd_suite);
