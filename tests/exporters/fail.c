// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; devices: rxe */
/* runs: full; devices: connectx */
/*
 * An exporter fails: the user gets its errno, importers hold nothing of the buffer, and as
 * soon as the exporter behaves the same buffer can be registered.
 *
 * Registration on Soft-RoCE calls attach, pin, begin_cpu_access and vmap.  An importer that
 * does DMA calls attach, pin and map; in the guest this is the kernel's test importer.
 */
#include "exporters/test_buffer.h"

FIXTURE_SETUP(buffer)
{
	need("vmap");
	buffer_open(self, 0);
}

FIXTURE_TEARDOWN(buffer)
{
	EXPECT_TRUE(buffer_close(self));
}

TEST_F(buffer, working_exporter_can_be_registered)
{
	ASSERT_TRUE(behaves(self));
}

TEST_F(buffer, exporter_without_vmap_is_enxio)
{
	buffer_replace(self, DMABUF_TEST_NO_VMAP);
	ASSERT_EQ(ENXIO, reg_errno(self, ALL_ACCESS));
	ASSERT_TRUE(at_rest(self->buf.fd));
}

static const int errors[] = { ENOMEM, ENOSPC, EBUSY, EIO, EINVAL, ENODEV };

static bool hands_its_errno_through(FIXTURE_DATA(buffer) *self, enum dmabuf_test_op op)
{
	for (int i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		int err;

		behave(self->buf.fd, op, errors[i], 0);
		err = reg_errno(self, i % 2 ? ALL_ACCESS : REMOTE_READ);
		if (err != errors[i] || !at_rest(self->buf.fd)) {
			printf("# reg returned errno %d, not %d\n", err, errors[i]);
			return false;
		}
	}
	behave(self->buf.fd, op, 0, 0);
	return behaves(self);
}

TEST_F(buffer, reg_returns_the_errno_of_vmap)
{
	ASSERT_TRUE(hands_its_errno_through(self, DMABUF_TEST_VMAP));
}

TEST_F(buffer, reg_returns_the_errno_of_begin_cpu_access)
{
	ASSERT_TRUE(hands_its_errno_through(self, DMABUF_TEST_BEGIN_CPU_ACCESS));
}

TEST_F(buffer, failed_reg_does_not_hurt_an_earlier_mr)
{
	struct ibv_mr *mr = must(reg(self, ALL_ACCESS));

	/* The dma-buf core has the buffer vmapped already, and does not call vmap again. */
	behave(self->buf.fd, DMABUF_TEST_VMAP, ENOMEM, 0);
	ASSERT_EQ(0, reg_errno(self, ALL_ACCESS));
	behave(self->buf.fd, DMABUF_TEST_BEGIN_CPU_ACCESS, EIO, 0);
	ASSERT_EQ(EIO, reg_errno(self, ALL_ACCESS));
	ASSERT_TRUE(held(self->buf.fd, 1, 0));
	ASSERT_TRUE(rdma_write(self, mr, 1));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 1, "buffer"));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
	ASSERT_TRUE(at_rest(self->buf.fd));
	behave(self->buf.fd, DMABUF_TEST_BEGIN_CPU_ACCESS, 0, 0);
	ASSERT_EQ(ENOMEM, reg_errno(self, ALL_ACCESS));
}

TEST_F(buffer, reg_returns_the_errno_of_attach)
{
	ASSERT_TRUE(hands_its_errno_through(self, DMABUF_TEST_ATTACH));
}

TEST_F(buffer, reg_succeeds_although_map_fails)
{
	behave(self->buf.fd, DMABUF_TEST_MAP, EIO, 0);
	ASSERT_TRUE(behaves(self));
}

TEST_F(buffer, vmap_that_returns_eopnotsupp_is_enxio)
{
	behave(self->buf.fd, DMABUF_TEST_VMAP, EOPNOTSUPP, 0);
	ASSERT_EQ(ENXIO, reg_errno(self, ALL_ACCESS));
	ASSERT_TRUE(at_rest(self->buf.fd));
}

TEST_F(buffer, dma_import_returns_errno_of_attach_and_map)
{
	int dma;

	behave(self->buf.fd, DMABUF_TEST_ATTACH, EIO, 0);
	ASSERT_EQ(EIO, import(self, &dma));
	ASSERT_TRUE(at_rest(self->buf.fd));
	behave(self->buf.fd, DMABUF_TEST_ATTACH, 0, 0);
	behave(self->buf.fd, DMABUF_TEST_MAP, ENOMEM, 0);
	ASSERT_EQ(ENOMEM, import(self, &dma));
	ASSERT_TRUE(at_rest(self->buf.fd));
	behave(self->buf.fd, DMABUF_TEST_MAP, 0, 0);
	ASSERT_EQ(0, import(self, &dma));
	ASSERT_TRUE(held(self->buf.fd, 0, 1));
	close(dma);
}

TEST_F(buffer, pages_of_the_buffer_are_not_adjacent)
{
	int dma;

	ASSERT_EQ(0, import(self, &dma));
	/* No two pages are neighbours in memory, so no entries were merged. */
	ASSERT_EQ(PAGES, query(self->buf.fd).sg_entries);
	close(dma);
}

TEST_F(buffer, reg_works_beside_a_dma_import)
{
	struct ibv_mr *mr;
	int dma;

	ASSERT_EQ(0, import(self, &dma));
	mr = must(reg(self, ALL_ACCESS));
	ASSERT_TRUE(held(self->buf.fd, 1, 1));
	close(dma);
	ASSERT_TRUE(held(self->buf.fd, 1, 0));
	ASSERT_TRUE(rdma_write(self, mr, 2));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 2, "buffer"));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(buffer, dma_import_of_io_memory_is_eopnotsupp)
{
	int dma;

	buffer_replace(self, DMABUF_TEST_IOMEM);
	ASSERT_EQ(EOPNOTSUPP, import(self, &dma));
}

TEST_F(buffer, test_exporter_refuses_invalid_ioctls)
{
	struct dmabuf_test_query q = { .fd = self->vgem.fd };
	struct dmabuf_test_behave b = { .fd = self->buf.fd, .op = DMABUF_TEST_OPS };
	struct dmabuf_test_move m = { .fd = self->buf.fd, .delay_ms = DMABUF_TEST_MAX_DELAY + 1 };
	struct dmabuf_test_fence f = { .fd = self->buf.fd, .usage = BOOKKEEP + 1 };

	ASSERT_EQ(-1, test_exporter_ioctl(DMABUF_TEST_QUERY, &q));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(-1, test_exporter_ioctl(DMABUF_TEST_BEHAVE, &b));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(-1, test_exporter_ioctl(DMABUF_TEST_MOVE, &m));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(-1, test_exporter_ioctl(DMABUF_TEST_FENCE, &f));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(-1, test_exporter_ioctl(_IOW('T', 0x7f, int), &self->buf.fd));
	ASSERT_EQ(ENOTTY, errno);
}

TEST_HARNESS_MAIN
