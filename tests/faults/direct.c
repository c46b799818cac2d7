// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: steps; devices: direct */
/*
 * An MR of Data Direct is two mkeys.  The destruction of each fails once: dereg says so, and
 * works when it is called again.  So does the UMR with which the memory is taken away.
 */
#include "faults/step_module.h"
#include "lib/case.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/second.h"
#include "lib/test_exporter.h"

#define SIZE (4 * PAGE)

FIXTURE(mr)
{
	struct step umr, destroy;
	struct ibv_context *ctx;
	struct pair pair;
	struct memory buf, host;
	struct ibv_mr *mr, *host_mr;
};

FIXTURE_SETUP(mr)
{
	step_open(&self->umr);
	step_set(&self->umr, "mlx5r_umr_post_send_wait argument 2 0xffffff00");
	step_open(&self->destroy);
	step_set(&self->destroy, "mlx5_core_destroy_mkey return -5");
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	test_exporter_open(&self->buf, SIZE, 0);
	memory_open(&self->host, HOST, SIZE);
	self->mr = memory_reg(&self->buf, self->pair.pd, RWA);
	self->host_mr = memory_reg(&self->host, self->pair.pd, RWA);
}

FIXTURE_TEARDOWN(mr)
{
	mr_close(self->host_mr);
	pair_close(&self->pair);
	device_close(self->ctx);
	EXPECT_TRUE(at_rest(self->buf.fd));
	memory_close(&self->buf);
	memory_close(&self->host);
	EXPECT_TRUE(nothing_left());
	step_close(&self->destroy);
	step_close(&self->umr);
}

static enum ibv_wc_status write_to(FIXTURE_DATA(mr) *self)
{
	enum ibv_wc_status status = rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr,
					    self->host.iova, SIZE, IOVA, self->mr->rkey);

	if (status)
		pair_connect(&self->pair, IBV_MTU_1024);
	return status;
}

TEST_F(mr, outer_mkey_that_stays_keeps_the_mr)
{
	step_at(&self->destroy, 1);
	ASSERT_EQ(EIO, ibv_dereg_mr(self->mr));
	ASSERT_TRUE(step_end(&self->destroy));
	ASSERT_EQ(IBV_WC_SUCCESS, write_to(self));
	ASSERT_EQ(0, ibv_dereg_mr(self->mr));
}

TEST_F(mr, inner_mkey_that_stays_keeps_the_memory)
{
	step_at(&self->umr, 1);
	step_at(&self->destroy, 2);
	ASSERT_EQ(EIO, ibv_dereg_mr(self->mr));
	ASSERT_TRUE(step_end(&self->umr));
	ASSERT_TRUE(step_end(&self->destroy));
	ASSERT_EQ(1, query(self->buf.fd).pins);
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, write_to(self));
	ASSERT_EQ(0, ibv_dereg_mr(self->mr));
}

/*
 * The exporter takes the memory, and the UMR fails: the user's mkey goes before the inner
 * one, whose number another mkey may get.
 */
TEST_F(mr, revoke_whose_umr_fails_destroys_both_mkeys)
{
	step_at(&self->umr, 1);
	take_memory(self->buf.fd);
	ASSERT_TRUE(step_end(&self->umr));
	ASSERT_EQ(0, query(self->buf.fd).pins);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, write_to(self));
	ASSERT_EQ(0, ibv_dereg_mr(self->mr));
}

TEST_F(mr, memory_stays_while_the_inner_mkey_does)
{
	step_at(&self->umr, 1);
	step_at(&self->destroy, 2);
	take_memory(self->buf.fd);
	ASSERT_TRUE(step_end(&self->umr));
	ASSERT_TRUE(step_end(&self->destroy));
	ASSERT_EQ(1, query(self->buf.fd).pins);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, write_to(self));
	ASSERT_EQ(0, ibv_dereg_mr(self->mr));
}

TEST_F(mr, removal_whose_umr_fails_destroys_both_mkeys)
{
	struct second second;

	second_find(&second, self->ctx);
	step_at(&self->umr, 1);
	second_unbind(&second);
	ASSERT_TRUE(step_end(&self->umr));
	ASSERT_EQ(0, query(self->buf.fd).pins);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, write_to(self));
	second_bind(&second);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, write_to(self));
	ASSERT_EQ(0, ibv_dereg_mr(self->mr));
}

/* What the end of the process finds. */
TEST_F(mr, context_destroys_what_could_not_be_destroyed)
{
	struct ibv_context *ctx = device_open();
	struct ibv_pd *pd = must(ibv_alloc_pd(ctx));
	struct ibv_mr *mr = memory_reg(&self->buf, pd, RWA);

	step_at(&self->umr, 1);
	step_at(&self->destroy, 2);
	ASSERT_EQ(EIO, ibv_dereg_mr(mr));
	ASSERT_TRUE(step_end(&self->umr));
	ASSERT_TRUE(step_end(&self->destroy));
	ASSERT_EQ(2, query(self->buf.fd).pins);
	device_close(ctx);
	ASSERT_EQ(1, query(self->buf.fd).pins);
	ASSERT_EQ(0, ibv_dereg_mr(self->mr));
}

int main(int argc, char **argv)
{
	return harness_run(argc, argv, steps_prepare);
}
