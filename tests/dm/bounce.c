// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: bounce; devices: rxe */
/*
 * Where DMA goes through bounce buffers (swiotlb=force) device memory that is system memory is
 * not mapped for another device, which would read and write a copy of it.
 *
 * Nobody copies to and from these buffers while the mapping lasts.  An importer that uses the
 * CPU needs none.
 */
#include "lib/counts.h"
#include "lib/dm.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/test_exporter.h"
#include <unistd.h>

#define SIZE (2 * PAGE)

FIXTURE(bounce)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct dm dm;
	int fd;
};

FIXTURE_SETUP(bounce)
{
	need("dm-export");
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	dm_open_filled(&self->dm, self->ctx, SIZE, 1);
	self->fd = ibv_dm_export_dmabuf_fd(self->dm.dm);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(bounce)
{
	close(self->fd);
	dm_close(&self->dm);
	pair_close(&self->pair);
	EXPECT_TRUE(dm_budget_is_whole(self->ctx));
	device_close(self->ctx);
	EXPECT_TRUE(nothing_left());
}

TEST_F(bounce, dm_is_not_mapped_for_a_device_behind_bounce_buffers)
{
	int buffer = test_exporter_create(SIZE, 0), dma;

	/* The machine maps another buffer: it is the memory of the DM that is refused. */
	dma = import_for_dma(buffer, DMABUF_TEST_REVOCABLE);
	ASSERT_LE(0, dma);
	close(dma);
	close(buffer);

	ASSERT_EQ(-1, import_for_dma(self->fd, DMABUF_TEST_REVOCABLE));
	ASSERT_EQ(EIO, errno);
	ASSERT_TRUE(dm_untouched(&self->dm));
}

TEST_F(bounce, importer_by_the_cpu_reaches_the_dm)
{
	struct memory host;
	struct ibv_mr *host_mr, *mr;

	memory_open_filled(&host, HOST, SIZE, 7);
	host_mr = memory_reg(&host, self->pair.pd, RW);
	mr = must(ibv_reg_mr_fd_iova(self->pair.pd, 0, SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF,
				     self->fd, RW));
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, host_mr, host.iova,
					  SIZE, IOVA, mr->rkey));
	ASSERT_TRUE(dm_filled(&self->dm, 0, SIZE, 7, "what RDMA wrote"));
	mr_close(mr);
	mr_close(host_mr);
	memory_close(&host);
}

TEST_HARNESS_MAIN
