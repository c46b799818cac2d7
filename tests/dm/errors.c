// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: all */
/*
 * Each mistake with device memory has its errno, takes nothing of that memory, and changes
 * nothing of what it was made with: in an allocation, a registration, a copy, a free.
 */
#include "dm/dm_pair.h"
#include "lib/window.h"

static int alloc_errno(struct ibv_context *ctx, size_t length, uint32_t log_align,
		       uint32_t comp_mask)
{
	struct ibv_alloc_dm_attr attr = {
		.length = length, .log_align_req = log_align, .comp_mask = comp_mask,
	};
	struct ibv_dm *dm = ibv_alloc_dm(ctx, &attr);

	return dm ? ibv_free_dm(dm) : errno;
}

/* libmlx5 knows what the device has in all, and calls more than that invalid. */
static int too_long_errno(void)
{
	return device_can("mlx5-queues") ? EINVAL : ENOMEM;
}

TEST_F(dm, zero_length_dm_is_einval)
{
	ASSERT_EQ(EINVAL, alloc_errno(self->ctx, 0, 0, 0));
}

TEST_F(dm, unknown_comp_mask_is_einval)
{
	for (int bit = 0; bit < 32; bit++)
		ASSERT_EQ(EINVAL, alloc_errno(self->ctx, 64, 0, 1u << bit));
}

TEST_F(dm, alignment_above_a_page_is_einval)
{
	for (uint32_t log = 0; log <= 12; log++)
		ASSERT_EQ(0, alloc_errno(self->ctx, 64, log, 0));
	for (uint32_t log = 13; log < 70; log++)
		ASSERT_EQ(EINVAL, alloc_errno(self->ctx, 64, log, 0));
	ASSERT_EQ(EINVAL, alloc_errno(self->ctx, 64, 1u << 31, 0));
	ASSERT_EQ(EINVAL, alloc_errno(self->ctx, 64, UINT32_MAX, 0));
}

/* Up to lengths that no sum of pages can count. */
TEST_F(dm, dm_longer_than_all_device_memory_is_refused)
{
	size_t max = dm_max(self->ctx);
	const size_t lengths[] = {
		max + 1, max + 64, 2 * max, 1ul << 32, (1ul << 32) + 64, 1ul << 63, -PAGE,
		-PAGE + 1, -64ul, -1ul,
	};

	for (int i = 0; i < ARRAY_SIZE(lengths); i++) {
		ASSERT_EQ(too_long_errno(), alloc_errno(self->ctx, lengths[i], 0, 0)) {
			TH_LOG("alloc of a DM of %#zx bytes", lengths[i]);
		}
	}
}

TEST_F(dm, reg_that_is_not_zero_based_is_einval)
{
	ASSERT_EQ(EINVAL, dm_reg_errno(&self->dm, self->pair.pd, 0, 64, RW));
	ASSERT_EQ(EINVAL, dm_reg_errno(&self->dm, self->pair.pd, 0, 64, 0));
	ASSERT_EQ(0, dm_reg_errno(&self->dm, self->pair.pd, 0, 64, IBV_ACCESS_ZERO_BASED));
}

/* The kernel checks it too, not the library only. */
TEST_F(dm, kernel_refuses_reg_that_is_not_zero_based)
{
	struct keys keys;

	ASSERT_EQ(EINVAL, dm_call_reg(self->ctx->cmd_fd, self->pair.pd->handle,
				      self->dm.dm->handle, 0, 64, RW, &keys));
}

TEST_F(dm, reg_past_the_end_is_einval)
{
	const struct { uint64_t at, n; } ranges[] = {
		{ 0, SIZE + 1 }, { 1, SIZE }, { SIZE, 1 }, { SIZE + 1, 0 }, { SIZE + 1, 1 },
		{ PAGE * 6 - 1, 1 }, { PAGE * 6, 1 }, { -1ull, 1 }, { -1ull, 2 }, { 2, -1ull },
		{ -64ull, 128 }, { 1ull << 63, 1ull << 63 }, { 0, -1ull }, { 1ull << 32, 1 },
		{ 0, 1ull << 32 },
	};

	for (int i = 0; i < ARRAY_SIZE(ranges); i++) {
		ASSERT_EQ(EINVAL, dm_reg_errno(&self->dm, self->pair.pd, ranges[i].at, ranges[i].n,
					       RW | IBV_ACCESS_ZERO_BASED)) {
			TH_LOG("reg of %#lx bytes at %#lx", ranges[i].n, ranges[i].at);
		}
	}
	ASSERT_EQ(0, dm_reg_errno(&self->dm, self->pair.pd, SIZE - 1, 1,
				  RW | IBV_ACCESS_ZERO_BASED));
}

TEST_F(dm, reg_with_invalid_access_is_refused)
{
	int not_there = device_can("mlx5-queues") ? EINVAL : EOPNOTSUPP;
	struct ibv_pd *pd = self->pair.pd;
	int zero_based = IBV_ACCESS_ZERO_BASED;

	/* A peer may not write where the process itself may not. */
	ASSERT_EQ(EINVAL, dm_reg_errno(&self->dm, pd, 0, 64, zero_based | REMOTE_WRITE));
	ASSERT_EQ(EINVAL, dm_reg_errno(&self->dm, pd, 0, 64, zero_based | REMOTE_ATOMIC));
	ASSERT_EQ(not_there, dm_reg_errno(&self->dm, pd, 0, 64,
					  zero_based | RW | IBV_ACCESS_ON_DEMAND));
	ASSERT_EQ(not_there, dm_reg_errno(&self->dm, pd, 0, 64,
					  zero_based | RW | IBV_ACCESS_FLUSH_PERSISTENT));
	ASSERT_NE(0, dm_reg_errno(&self->dm, pd, 0, 64, zero_based | RW | 1 << 19));
}

/* The specification has no window on a zero-based region: neither the right nor the bind. */
TEST_F(dm, window_on_a_dm_is_refused)
{
	struct ibv_mw *mw;

	ASSERT_EQ(device_can("mlx5-queues") ? EINVAL : EOPNOTSUPP,
		  dm_reg_errno(&self->dm, self->pair.pd, 0, 64,
			       IBV_ACCESS_ZERO_BASED | RW | IBV_ACCESS_MW_BIND));
	/* Another device does not look at what a process binds of its own. */
	need("window-checks");
	mw = window_alloc(self->pair.pd, IBV_MW_TYPE_2);
	EXPECT_NE(IBV_WC_SUCCESS, window_bind(&self->pair, mw, self->mr->lkey, 0, 64,
					      REMOTE_WRITE));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
	EXPECT_TRUE(dm_untouched(&self->dm));
}

/* What is optional may be ignored, and is not refused. */
TEST_F(dm, optional_access_flags_are_accepted)
{
	if (device_can("mlx5-queues"))
		skip_case("mlx5 refuses optional rights of device memory, in its library too");
	ASSERT_EQ(0, dm_reg_errno(&self->dm, self->pair.pd, 0, 64, IBV_ACCESS_ZERO_BASED | RW |
				  IBV_ACCESS_RELAXED_ORDERING));
	ASSERT_EQ(0, dm_reg_errno(&self->dm, self->pair.pd, 0, 64, IBV_ACCESS_ZERO_BASED | RW |
				  1 << 29));
}

TEST_F(dm, memcpy_past_the_end_is_efault)
{
	uint64_t size = SIZE, grain = dm_grain(), in = size - size % 4;
	const struct { uint64_t at, n; } ranges[] = {
		{ 0, size + grain }, { in, 4 + size % 4 }, { in - 4, 8 + size % 4 },
		{ size + grain, grain }, { size + grain, 0 }, { PAGE * 6, 4 }, { 1ull << 32, 4 },
		{ -4ull, 4 }, { -4ull, 8 }, { -8ull, 16 }, { 4, -4ull }, { 8, -4ull },
		{ 1ull << 63, 1ull << 63 },
	};

	memset(self->host.cpu, 0x55, HOST_SIZE);
	memory_mark(&self->host);
	for (int i = 0; i < ARRAY_SIZE(ranges); i++) {
		ASSERT_EQ(EFAULT, ibv_memcpy_to_dm(self->dm.dm, ranges[i].at, self->host.cpu,
						   ranges[i].n)) {
			TH_LOG("copy of %#lx bytes to %#lx", ranges[i].n, ranges[i].at);
		}
		ASSERT_EQ(EFAULT, ibv_memcpy_from_dm(self->host.cpu, self->dm.dm, ranges[i].at,
						     ranges[i].n)) {
			TH_LOG("copy of %#lx bytes from %#lx", ranges[i].n, ranges[i].at);
		}
	}
	ASSERT_TRUE(memory_untouched(&self->host));
	ASSERT_TRUE(dm_untouched(&self->dm));
	ASSERT_EQ(0, ibv_memcpy_to_dm(self->dm.dm, size, self->host.cpu, 0));
}

TEST_F(dm, memcpy_of_part_of_a_word_is_einval)
{
	if (device_can("dm-bytes"))
		SKIP(return, "the library copies bytes");
	for (int i = 1; i < 4; i++) {
		ASSERT_EQ(EINVAL, ibv_memcpy_to_dm(self->dm.dm, i, self->host.cpu, 4));
		ASSERT_EQ(EINVAL, ibv_memcpy_to_dm(self->dm.dm, 0, self->host.cpu, i));
		ASSERT_EQ(EINVAL, ibv_memcpy_from_dm(self->host.cpu, self->dm.dm, i, 4));
		ASSERT_EQ(EINVAL, ibv_memcpy_from_dm(self->host.cpu, self->dm.dm, 0, i));
	}
	ASSERT_TRUE(dm_untouched(&self->dm));
}

/* It is all still there and in use: the copies, the region, and a further one. */
TEST_F(dm, free_of_a_dm_with_mrs_is_ebusy)
{
	struct ibv_mr *mr = dm_reg_part(&self->dm, self->pair.pd, PAGE, 8, RW);

	ASSERT_EQ(EBUSY, dm_try_close(&self->dm));
	mr_close(self->mr);
	self->mr = NULL;
	ASSERT_EQ(EBUSY, dm_try_close(&self->dm));
	ASSERT_TRUE(dm_untouched(&self->dm));
	fill(self->host.cpu, 8, 5);
	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, 8, 0, mr->rkey));
	ASSERT_TRUE(dm_filled(&self->dm, PAGE, 8, 5, "device memory"));
	ASSERT_EQ(0, dm_reg_errno(&self->dm, self->pair.pd, 0, SIZE, RW | IBV_ACCESS_ZERO_BASED));
	mr_close(mr);
	ASSERT_EQ(0, dm_try_close(&self->dm));
}

/* Its handle is dead, and was never that of another kind of object. */
TEST_F(dm, freed_dm_is_not_found)
{
	uint32_t handle = self->dm.dm->handle, pd = self->pair.pd->handle;
	int fd = self->ctx->cmd_fd;
	struct keys keys;

	ASSERT_NE(0, dm_call_free(fd, self->host_mr->handle | 1u << 30));
	mr_close(self->mr);
	self->mr = NULL;
	dm_close(&self->dm);
	ASSERT_EQ(ENOENT, dm_call_free(fd, handle));
	ASSERT_EQ(ENOENT, dm_call_reg(fd, pd, handle, 0, 64, RW | IBV_ACCESS_ZERO_BASED, &keys));
	/* An object of another kind. */
	ASSERT_NE(0, dm_call_free(fd, self->host_mr->handle));
	ASSERT_NE(0, dm_call_reg(fd, pd, self->host_mr->handle, 0, 64,
				 RW | IBV_ACCESS_ZERO_BASED, &keys));
	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, 8, self->host.iova,
					  self->host_mr->rkey));
}

TEST_HARNESS_MAIN
