// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: steps; devices: direct */
/*
 * An MR of Data Direct is two mkeys.  Each step of its registration fails once, alone and in a
 * rereg of an MR that has been ordinary: the errno is that of the step, and nothing has changed.
 *
 * The destruction of each mkey fails once: dereg says so, and works when it is called again.
 * So does the UMR with which the memory is taken away.
 */
#include "faults/step_module.h"
#include "lib/case.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/second.h"
#include "lib/test_exporter.h"
#include <infiniband/mlx5dv.h>

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

static const struct {
	const char *how;
	int err;
} steps[] = {
	/* Of 8 bytes there is the opcode and no more: the status is "bad input length". */
	{ "mlx5_cmd_exec argument 3 8", EIO },
	{ "dma_buf_dynamic_attach return -16", EBUSY },
	{ "dma_buf_pin return -28", ENOSPC },
	{ "dma_buf_map_attachment return -121", EREMOTEIO },
	{ "dma_resv_wait_timeout return -62", ETIME },
};

#define NR_STEPS (sizeof(steps) / sizeof(*steps))

FIXTURE(step)
{
	struct step step;
	struct ibv_context *ctx;
	struct pair pair;
	struct memory buf, other, host;
	struct ibv_mr *host_mr;
	unsigned int reached;
};

FIXTURE_SETUP(step)
{
	step_open(&self->step);
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	test_exporter_open(&self->buf, SIZE, 0);
	test_exporter_open(&self->other, SIZE, 0);
	memory_open(&self->host, HOST, SIZE);
	self->host_mr = memory_reg(&self->host, self->pair.pd, RWA);
}

FIXTURE_TEARDOWN(step)
{
	mr_close(self->host_mr);
	pair_close(&self->pair);
	device_close(self->ctx);
	memory_close(&self->buf);
	memory_close(&self->other);
	memory_close(&self->host);
	EXPECT_TRUE(nothing_left());
	step_close(&self->step);
}

static bool writes_to(FIXTURE_DATA(step) *self, struct ibv_mr *mr, struct memory *m, uint32_t seed)
{
	fill(self->host.cpu, SIZE, seed);
	return !rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova, SIZE, IOVA,
			mr->rkey) && filled(m->cpu, SIZE, seed, "written");
}

/* The Nth time that a registration comes to the step; NULL and errno. */
static struct ibv_mr *reg_at(FIXTURE_DATA(step) *self, unsigned int n)
{
	struct ibv_mr *mr;
	int err;

	step_at(&self->step, n);
	mr = mlx5dv_reg_mr_fd(self->pair.pd, 0, SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF, self->buf.fd,
			      RWA, MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT);
	err = errno;
	self->reached += step_end(&self->step);
	errno = err;
	return mr;
}

TEST_F(step, failed_registration_leaves_nothing)
{
	for (unsigned int i = 0; i < NR_STEPS; i++) {
		struct ibv_mr *mr;

		step_set(&self->step, steps[i].how);
		self->reached = 0;
		while (!(mr = reg_at(self, self->reached + 1))) {
			EXPECT_EQ(steps[i].err, errno)
				TH_LOG("%s, %u", steps[i].how, self->reached);
			ASSERT_TRUE(at_rest(self->buf.fd));
			ASSERT_GT(100, self->reached);
		}
		TH_LOG("%s: %u times", steps[i].how, self->reached);
		EXPECT_LT(0, self->reached);
		ASSERT_TRUE(writes_to(self, mr, &self->buf, i));
		mr_close(mr);
		ASSERT_TRUE(at_rest(self->buf.fd));
	}
}

/* 0 or an errno; a rereg that has failed and has taken the MR away fails the case. */
static int rereg_at(FIXTURE_DATA(step) *self, struct ibv_mr *mr, unsigned int n)
{
	int err;

	step_at(&self->step, n);
	err = mlx5dv_rereg_mr_fd(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, 0, SIZE, IOVA,
				 IBV_MR_FD_TYPE_DMABUF, self->buf.fd, 0,
				 MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT) ? errno : 0;
	self->reached += step_end(&self->step);
	return err;
}

TEST_F(step, failed_rereg_leaves_the_mr_as_it_was)
{
	for (unsigned int i = 0; i < NR_STEPS; i++) {
		struct ibv_mr *mr = must(ibv_reg_dmabuf_mr(self->pair.pd, 0, SIZE, IOVA,
							   self->other.fd, RWA));
		uint32_t rkey = mr->rkey;
		int err;

		step_set(&self->step, steps[i].how);
		self->reached = 0;
		while ((err = rereg_at(self, mr, self->reached + 1))) {
			EXPECT_EQ(steps[i].err, err) TH_LOG("%s, %u", steps[i].how, self->reached);
			ASSERT_EQ(rkey, mr->rkey);
			ASSERT_TRUE(at_rest(self->buf.fd));
			ASSERT_TRUE(writes_to(self, mr, &self->other, self->reached));
			ASSERT_GT(100, self->reached);
		}
		TH_LOG("%s: %u times", steps[i].how, self->reached);
		EXPECT_LT(0, self->reached);
		ASSERT_TRUE(at_rest(self->other.fd));
		ASSERT_TRUE(writes_to(self, mr, &self->buf, i));
		mr_close(mr);
		ASSERT_TRUE(at_rest(self->buf.fd));
	}
}

int main(int argc, char **argv)
{
	return harness_run(argc, argv, steps_prepare);
}
