// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp; devices: direct */
/*
 * Data Direct is a second PCI function of the card.  An MR of it does DMA by that function: it
 * works as long as the function may use the bus, and ends with it.  The first function, its
 * MRs and its queues do not notice.
 *
 * What is here is upstream's: mlx5dv_reg_dmabuf_mr(), mlx5dv_get_data_direct_sysfs_path(), and
 * the driver's revocation when the function goes.  The same cases pass on the stock kernel.
 */
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/second.h"
#include "lib/ways.h"
#include <infiniband/mlx5dv.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE WAYS_SIZE

FIXTURE(direct)
{
	struct ways w;
};

static int reg_errno(FIXTURE_DATA(direct) *self, uint64_t offset, uint64_t length,
		     uint64_t iova, int access)
{
	struct ibv_mr *mr = ways_reg_part(&self->w, offset, length, iova, access);

	if (!mr)
		return errno;
	mr_close(mr);
	return 0;
}

FIXTURE_SETUP(direct)
{
	ASSERT_TRUE(nothing_left());
	ways_open(&self->w);
}

FIXTURE_TEARDOWN(direct)
{
	ways_close(&self->w);
	EXPECT_TRUE(nothing_left());
}

TEST_F(direct, path_is_that_of_the_second_function)
{
	char link[256], first[PATH_MAX];

	snprintf(link, sizeof(link), "/sys/class/infiniband/%s/device", device_name());
	ASSERT_NE(NULL, realpath(link, first));
	ASSERT_NE(0, strcmp(first, self->w.second.path));
	ASSERT_EQ(0x15b3, second_attribute(&self->w.second, "vendor"));
	ASSERT_EQ(0x2100, second_attribute(&self->w.second, "device"));
}

TEST_F(direct, path_that_does_not_fit_is_enospc)
{
	char path[5];

	ASSERT_EQ(ENOSPC, mlx5dv_get_data_direct_sysfs_path(self->w.ctx, path, sizeof(path)));
}

TEST_F(direct, unusable_arguments_are_refused)
{
	/* The list of pages begins with a whole page. */
	EXPECT_EQ(EOPNOTSUPP, reg_errno(self, 512, SIZE - PAGE, IOVA + 512, RWA));
	EXPECT_EQ(EINVAL, reg_errno(self, 512, SIZE - PAGE, IOVA, RWA));
	EXPECT_EQ(EINVAL, reg_errno(self, 0, SIZE, IOVA, RWA | IBV_ACCESS_MW_BIND));
	EXPECT_EQ(EINVAL, reg_errno(self, 0, SIZE, IOVA, RWA | IBV_ACCESS_ON_DEMAND));
	EXPECT_EQ(0, reg_errno(self, PAGE, SIZE - PAGE, IOVA + PAGE, RWA));
	EXPECT_EQ(0, reg_errno(self, 0, SIZE, IOVA, RWA | IBV_ACCESS_RELAXED_ORDERING));
}

TEST_F(direct, rights_are_those_of_the_mr)
{
	struct ibv_mr *mr = must(ways_reg_part(&self->w, 0, SIZE, IOVA, IBV_ACCESS_REMOTE_READ));

	memory_mark(&self->w.buf);
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, ways_op(&self->w, IBV_WR_RDMA_WRITE, self->w.host_mr,
						 &self->w.host, mr, &self->w.buf));
	ASSERT_EQ(IBV_WC_SUCCESS, ways_op(&self->w, IBV_WR_RDMA_READ, self->w.host_mr,
					  &self->w.host, mr, &self->w.buf));
	ASSERT_TRUE(memory_untouched(&self->w.buf));
	mr_close(mr);
}

TEST_F(direct, access_outside_of_the_mr_is_refused)
{
	struct ibv_mr *mr = must(ways_reg_part(&self->w, PAGE, 2 * PAGE, IOVA + PAGE, RWA));
	static const struct { uint64_t from; uint32_t n; bool inside; } ranges[] = {
		{ IOVA + PAGE - 1, 1, false }, { IOVA + PAGE, 2 * PAGE, true },
		{ IOVA + PAGE, 2 * PAGE + 1, false }, { IOVA + 3 * PAGE - 1, 1, true },
		{ IOVA + 3 * PAGE, 1, false },
	};

	for (int i = 0; i < 5; i++) {
		enum ibv_wc_status status = rdma_op(&self->w.pair, IBV_WR_RDMA_READ, self->w.host_mr,
						    self->w.host.iova, ranges[i].n, ranges[i].from,
						    mr->rkey);

		EXPECT_EQ(ranges[i].inside ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR, status)
			TH_LOG("read of %u bytes at iova %#lx", ranges[i].n, ranges[i].from);
		if (status)
			pair_connect(&self->w.pair, IBV_MTU_1024);
	}
	mr_close(mr);
}

/* Which function an MR uses the bus by: the other one can do without. */
TEST_F(direct, mr_needs_the_bus_of_the_second_function)
{
	ASSERT_TRUE(ways_carry(&self->w, self->w.mr, &self->w.buf, 10));
	second_set_bus_master(&self->w.second, false);
	EXPECT_TRUE(ways_refused(&self->w));
	EXPECT_TRUE(ways_carry(&self->w, self->w.plain_mr, &self->w.plain, 11));
	second_set_bus_master(&self->w.second, true);
	ASSERT_TRUE(ways_carry(&self->w, self->w.mr, &self->w.buf, 12));
}

TEST_F(direct, unbound_function_ends_its_mrs_and_no_others)
{
	struct ibv_mr *mr;
	char path[256];

	ASSERT_TRUE(ways_carry(&self->w, self->w.mr, &self->w.buf, 20));
	second_unbind(&self->w.second);
	EXPECT_TRUE(ways_refused(&self->w));
	EXPECT_TRUE(ways_carry(&self->w, self->w.plain_mr, &self->w.plain, 21));
	EXPECT_EQ(ENODEV, mlx5dv_get_data_direct_sysfs_path(self->w.ctx, path, sizeof(path)));
	EXPECT_EQ(EINVAL, reg_errno(self, 0, SIZE, IOVA, RWA));

	second_bind(&self->w.second);
	EXPECT_EQ(0, mlx5dv_get_data_direct_sysfs_path(self->w.ctx, path, sizeof(path)));
	/* The old key stays dead; its MR can be deregistered, before and after new ones. */
	EXPECT_TRUE(ways_refused(&self->w));
	mr = must(ways_reg(&self->w));
	EXPECT_NE(self->w.mr->rkey, mr->rkey);
	EXPECT_TRUE(ways_carry(&self->w, mr, &self->w.buf, 22));
	EXPECT_TRUE(ways_refused(&self->w));
	mr_close(self->w.mr);
	self->w.mr = mr;
	EXPECT_TRUE(ways_carry(&self->w, mr, &self->w.buf, 23));
}

TEST_F(direct, removed_function_comes_back_by_a_rescan)
{
	char path[256];

	second_remove(&self->w.second);
	EXPECT_TRUE(ways_refused(&self->w));
	EXPECT_TRUE(ways_carry(&self->w, self->w.plain_mr, &self->w.plain, 31));
	EXPECT_EQ(ENODEV, mlx5dv_get_data_direct_sysfs_path(self->w.ctx, path, sizeof(path)));
	second_rescan();
	EXPECT_EQ(0, mlx5dv_get_data_direct_sysfs_path(self->w.ctx, path, sizeof(path)));
	mr_close(self->w.mr);
	self->w.mr = must(ways_reg(&self->w));
	EXPECT_TRUE(ways_carry(&self->w, self->w.mr, &self->w.buf, 32));
}

TEST_F(direct, function_leaves_under_traffic)
{
	ways_begin_writing(&self->w);
	second_unbind(&self->w.second);
	ways_mark(&self->w);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, ways_end_writing(&self->w));
	EXPECT_TRUE(memory_untouched(&self->w.buf));
	EXPECT_TRUE(ways_carry(&self->w, self->w.plain_mr, &self->w.plain, 41));
	second_bind(&self->w.second);
}

TEST_HARNESS_MAIN
