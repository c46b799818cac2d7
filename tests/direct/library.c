// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: direct */
/*
 * mlx5dv_reg_mr_fd() and mlx5dv_rereg_mr_fd(): the struct ibv_mr says what the MR is after each
 * call, and after an error what it was.  Which way an MR goes shows by the bus of the second
 * function.
 */
#include "lib/case.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/second.h"
#include <infiniband/mlx5dv.h>
#include <string.h>

#define SIZE (16 * PAGE)
#define DIRECT MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT

FIXTURE(library)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct ibv_pd *pd;
	struct memory buf, other, memfd, host;
	struct ibv_mr *mr, *host_mr;
	struct second second;
};

static struct ibv_mr *reg(FIXTURE_DATA(library) *self, const struct memory *m, int way)
{
	return mlx5dv_reg_mr_fd(self->pair.pd, 0, SIZE, IOVA, m->fd_type, m->fd, RWA, way);
}

FIXTURE_SETUP(library)
{
	need("direct");
	ASSERT_TRUE(nothing_left());
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	self->pd = must(ibv_alloc_pd(self->ctx));
	second_find(&self->second, self->ctx);
	memory_open(&self->buf, VGEM, SIZE);
	memory_open(&self->other, UDMABUF, SIZE / 2);
	memory_open(&self->memfd, MEMFD, SIZE);
	memory_open(&self->host, HOST, SIZE);
	self->host_mr = memory_reg(&self->host, self->pair.pd, RWA);
	self->mr = must(reg(self, &self->buf, DIRECT));
}

FIXTURE_TEARDOWN(library)
{
	mr_close(self->mr);
	mr_close(self->host_mr);
	pair_close(&self->pair);
	pd_close(self->pd);
	device_close(self->ctx);
	memory_close(&self->buf);
	memory_close(&self->other);
	memory_close(&self->memfd);
	memory_close(&self->host);
	EXPECT_TRUE(nothing_left());
}

static bool writes(FIXTURE_DATA(library) *self, const struct memory *m, uint32_t seed)
{
	enum ibv_wc_status status;

	fill(self->host.cpu, m->size, seed);
	status = rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova, m->size,
			 (uintptr_t)self->mr->addr, self->mr->rkey);
	if (status)
		pair_connect(&self->pair, IBV_MTU_1024);
	return !status && filled(m->cpu, m->size, seed, "written");
}

/* It works without the second function. */
static bool is_ordinary(FIXTURE_DATA(library) *self, const struct memory *m, uint32_t seed)
{
	bool well;

	second_set_bus_master(&self->second, false);
	well = writes(self, m, seed);
	second_set_bus_master(&self->second, true);
	return well;
}

static bool needs_second(FIXTURE_DATA(library) *self, const struct memory *m, uint32_t seed)
{
	bool with = writes(self, m, seed), without;

	second_set_bus_master(&self->second, false);
	without = writes(self, m, seed + 1);
	second_set_bus_master(&self->second, true);
	return with && !without;
}

TEST_F(library, mr_has_the_requested_address_length_and_pd)
{
	ASSERT_EQ((void *)IOVA, self->mr->addr);
	ASSERT_EQ(SIZE, self->mr->length);
	ASSERT_EQ(self->pair.pd, self->mr->pd);
	ASSERT_EQ(self->ctx, self->mr->context);
	ASSERT_TRUE(needs_second(self, &self->buf, 1));
}

TEST_F(library, reg_without_flags_uses_the_first_function)
{
	mr_close(self->mr);
	self->mr = must(reg(self, &self->memfd, 0));
	ASSERT_TRUE(writes(self, &self->memfd, 10));
	mr_close(self->mr);
	self->mr = must(reg(self, &self->buf, 0));
	ASSERT_TRUE(is_ordinary(self, &self->buf, 11));
}

TEST_F(library, unusable_arguments_are_refused)
{
	ASSERT_EQ(NULL, reg(self, &self->memfd, DIRECT));
	ASSERT_EQ(EOPNOTSUPP, errno);
	ASSERT_EQ(NULL, reg(self, &self->buf, DIRECT << 1));
	ASSERT_EQ(EINVAL, errno);
	second_unbind(&self->second);
	EXPECT_EQ(NULL, reg(self, &self->buf, DIRECT));
	EXPECT_EQ(ENODEV, errno);
	second_bind(&self->second);
}

static int rereg(FIXTURE_DATA(library) *self, int flags, const struct memory *m, int access,
		 int way)
{
	return mlx5dv_rereg_mr_fd(self->mr, flags, self->pd, 0, m ? m->size : 0, IOVA + PAGE,
				  m ? m->fd_type : 0, m ? m->fd : -1, access, way);
}

TEST_F(library, flags_of_rereg_choose_the_function)
{
	ASSERT_EQ(0, rereg(self, IBV_REREG_MR_CHANGE_TRANSLATION, &self->other, 0, DIRECT));
	ASSERT_EQ((void *)(IOVA + PAGE), self->mr->addr);
	ASSERT_EQ(SIZE / 2, self->mr->length);
	ASSERT_TRUE(needs_second(self, &self->other, 20));
	ASSERT_EQ(0, rereg(self, IBV_REREG_MR_CHANGE_TRANSLATION, &self->memfd, 0, 0));
	ASSERT_EQ(SIZE, self->mr->length);
	ASSERT_TRUE(is_ordinary(self, &self->memfd, 22));
	ASSERT_EQ(0, rereg(self, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS,
			   &self->buf, RWA, DIRECT));
	ASSERT_TRUE(needs_second(self, &self->buf, 24));
	/* Without new memory it stays so. */
	ASSERT_EQ(0, rereg(self, IBV_REREG_MR_CHANGE_ACCESS, NULL, RWA & ~REMOTE_READ, 0));
	ASSERT_TRUE(needs_second(self, &self->buf, 26));
	ASSERT_EQ(0, rereg(self, IBV_REREG_MR_CHANGE_PD, NULL, 0, 0));
	ASSERT_EQ(self->pd, self->mr->pd);
}

TEST_F(library, failed_rereg_leaves_the_struct_unchanged)
{
	const struct ibv_mr before = *self->mr;

	ASSERT_EQ(IBV_REREG_MR_ERR_INPUT,
		  rereg(self, IBV_REREG_MR_CHANGE_ACCESS, NULL, REMOTE_READ, DIRECT));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(IBV_REREG_MR_ERR_INPUT,
		  rereg(self, IBV_REREG_MR_CHANGE_TRANSLATION, &self->memfd, 0, DIRECT));
	ASSERT_EQ(EOPNOTSUPP, errno);
	ASSERT_EQ(IBV_REREG_MR_ERR_INPUT,
		  rereg(self, IBV_REREG_MR_CHANGE_TRANSLATION, &self->other, RWA, DIRECT));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(0, memcmp(&before, self->mr, sizeof(before)));
	ASSERT_TRUE(needs_second(self, &self->buf, 30));
}

TEST_HARNESS_MAIN
