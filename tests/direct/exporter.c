// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp gpu; devices: direct */
/*
 * An exporter takes its memory back from an MR of Data Direct: it revokes the buffer, or its own
 * device goes.  From then on nobody gets at the memory by the MR, as from one that goes by the
 * first function and pins.
 */
#include "exporters/test_buffer.h"
#include "lib/gpu.h"
#include "lib/second.h"
#include "lib/told.h"
#include <infiniband/mlx5dv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

FIXTURE_SETUP(buffer)
{
	buffer_open(self, 0);
}

FIXTURE_TEARDOWN(buffer)
{
	EXPECT_TRUE(buffer_close(self));
}

static enum ibv_wc_status remote(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr)
{
	enum ibv_wc_status status = rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr,
					    self->host.iova, SIZE, IOVA, mr->rkey);

	if (status)
		pair_connect(&self->pair, IBV_MTU_1024);
	return status;
}

static enum ibv_wc_status local(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr)
{
	enum ibv_wc_status status = rdma_op(&self->pair, IBV_WR_RDMA_WRITE, mr, IOVA, SIZE,
					    self->host.iova, self->host_mr->rkey);

	if (status)
		pair_connect(&self->pair, IBV_MTU_1024);
	return status;
}

static bool is_dead(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr)
{
	return remote(self, mr) == IBV_WC_REM_ACCESS_ERR && local(self, mr) == IBV_WC_LOC_PROT_ERR;
}

TEST_F(buffer, revoked_buffer_is_not_reached)
{
	struct ibv_mr *mr = memory_reg(&self->buf, self->pair.pd, RWA);

	ASSERT_TRUE(rdma_write(self, mr, 1));
	ASSERT_EQ(1, query(self->buf.fd).pins);
	take_memory(self->buf.fd);
	EXPECT_EQ(0, query(self->buf.fd).maps);
	EXPECT_EQ(0, query(self->buf.fd).pins);
	EXPECT_TRUE(is_dead(self, mr));
	/* The same buffer cannot be registered; another one can. */
	mr_close(mr);
	buffer_replace(self, 0);
	mr = memory_reg(&self->buf, self->pair.pd, RWA);
	ASSERT_TRUE(rdma_write(self, mr, 2));
	mr_close(mr);
}

TEST_F(buffer, pinned_buffer_moves_after_dereg_only)
{
	struct ibv_mr *mr = memory_reg(&self->buf, self->pair.pd, RWA);

	ASSERT_EQ(EBUSY, move(self->buf.fd, 0));
	ASSERT_TRUE(rdma_write(self, mr, 1));
	mr_close(mr);
	ASSERT_EQ(0, move(self->buf.fd, 0));
}

/* The exporter's call and the removal of the function, in both orders. */
TEST_F(buffer, revoked_buffer_is_released_once)
{
	struct second second;

	second_find(&second, self->ctx);
	for (int first = 0; first < 2; first++) {
		struct ibv_mr *mr = memory_reg(&self->buf, self->pair.pd, RWA);

		if (first)
			take_memory(self->buf.fd);
		second_unbind(&second);
		EXPECT_EQ(0, query(self->buf.fd).pins);
		EXPECT_EQ(0, query(self->buf.fd).maps);
		if (!first)
			take_memory(self->buf.fd);
		EXPECT_EQ(0, query(self->buf.fd).pins);
		EXPECT_EQ(0, query(self->buf.fd).maps);
		EXPECT_TRUE(is_dead(self, mr));
		second_bind(&second);
		EXPECT_TRUE(is_dead(self, mr));
		mr_close(mr);
		buffer_replace(self, 0);
	}
}

struct writer {
	FIXTURE_DATA(buffer) *self;
	struct ibv_mr *mr;
	enum ibv_wc_status status;
	atomic_ulong writes;
};

static void *write_on(void *arg)
{
	struct writer *w = arg;

	while (!(w->status = rdma_op(&w->self->pair, IBV_WR_RDMA_WRITE, w->self->host_mr,
				     w->self->host.iova, SIZE, IOVA, w->mr->rkey)))
		w->writes++;
	return NULL;
}

TEST_F(buffer, revoke_under_traffic_ends_it)
{
	struct writer w = { .self = self, .mr = memory_reg(&self->buf, self->pair.pd, RWA) };
	double end = deadline(60);
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, write_on, &w));
	while (w.writes < 20 && now() < end)
		usleep(1000);
	take_memory(self->buf.fd);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_LE(20, w.writes);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, w.status);
	EXPECT_EQ(0, query(self->buf.fd).pins);
	mr_close(w.mr);
	pair_connect(&self->pair, IBV_MTU_1024);
}

static void *reg_slowly(void *arg)
{
	FIXTURE_DATA(buffer) *self = arg;

	errno = 0;
	return mlx5dv_reg_dmabuf_mr(self->pair.pd, 0, SIZE, IOVA, self->buf.fd, RWA,
				    MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT) ?: (void *)(long)-errno;
}

/* The exporter's call waits for the registration, or comes first: later each time. */
TEST_F(buffer, revoke_during_registration_leaves_a_dead_mr_or_none)
{
	int dead = 0, tries;

	told_begin(self->ctx);
	for (tries = 0; dead < 5; tries++) {
		pthread_t thread;
		void *result;

		behave(self->buf.fd, DMABUF_TEST_MAP, 0, 50);
		ASSERT_EQ(0, pthread_create(&thread, NULL, reg_slowly, self));
		usleep(tries * 5000);
		take_memory(self->buf.fd);
		ASSERT_EQ(0, pthread_join(thread, &result));
		EXPECT_EQ(0, query(self->buf.fd).pins);
		EXPECT_EQ(0, query(self->buf.fd).maps);
		if ((long)result < 0 && (long)result > -4096) {
			EXPECT_EQ(-ENODEV, (long)result);
		} else {
			EXPECT_TRUE(is_dead(self, result));
			EXPECT_EQ(1, told(self->ctx, result, NULL));
			mr_close(result);
			dead++;
		}
		buffer_replace(self, 0);
	}
	printf("# %d of %d registrations were revoked at once\n", dead, tries);
}

TEST_F(buffer, application_is_told_that_the_function_has_gone)
{
	struct ibv_mr *mr = memory_reg(&self->buf, self->pair.pd, RWA);
	struct ibv_mr *plain = must(reg(self, RWA));
	struct second second;
	int others;

	told_begin(self->ctx);
	second_find(&second, self->ctx);
	second_unbind(&second);
	EXPECT_EQ(1, told(self->ctx, mr, &others));
	EXPECT_EQ(0, others);
	take_memory(self->buf.fd);
	EXPECT_EQ(0, told(self->ctx, mr, &others));
	second_bind(&second);
	mr_close(plain);
	mr_close(mr);
}

/* The attachment stays until dereg, and the name of its device with it. */
TEST_F(buffer, removed_function_keeps_its_name_until_dereg)
{
	struct ibv_mr *mr = memory_reg(&self->buf, self->pair.pd, RWA);
	struct second second;
	char line[256];
	bool named = false;
	FILE *f;

	second_find(&second, self->ctx);
	second_remove(&second);
	f = must(fopen("/sys/kernel/debug/dma_buf/bufinfo", "r"));
	while (fgets(line, sizeof(line), f))
		named |= !!strstr(line, strrchr(second.path, '/') + 1);
	fclose(f);
	EXPECT_TRUE(named);
	mr_close(mr);
	second_rescan();
}

/* What the GPU's memory is used for next, a write by the old key must not reach. */
TEST_F(buffer, gpu_that_leaves_takes_its_vram_along)
{
	struct memory vram = {};
	struct ibv_mr *mr;

	gpu_open(&vram, GPU_VRAM, SIZE, MRFD_GPU_ONLY);
	mr = memory_reg(&vram, self->pair.pd, RWA);
	ASSERT_EQ(IBV_WC_SUCCESS, remote(self, mr));
	ASSERT_EQ(0, gpu_unbind());
	EXPECT_TRUE(is_dead(self, mr));
	mr_close(mr);
	memory_close(&vram);
	ASSERT_EQ(0, gpu_bind());
}

TEST_HARNESS_MAIN
