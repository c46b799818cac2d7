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
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/second.h"
#include <infiniband/mlx5dv.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE (64 * PAGE)

FIXTURE(direct)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory buf, plain, host;
	struct ibv_mr *mr;	/* of buf, by Data Direct */
	struct ibv_mr *plain_mr;	/* of plain, by the first function */
	struct ibv_mr *host_mr;
	struct second second;
};

static struct ibv_mr *reg_plain(struct ibv_pd *pd, const struct memory *m)
{
	return must(ibv_reg_dmabuf_mr(pd, 0, m->size, m->iova, m->fd, RWA));
}

/* NULL and errno. */
static struct ibv_mr *reg_direct(FIXTURE_DATA(direct) *self, uint64_t offset, uint64_t length,
				 uint64_t iova, int access)
{
	return mlx5dv_reg_dmabuf_mr(self->pair.pd, offset, length, iova, self->buf.fd, access,
				    MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT);
}

static int reg_errno(FIXTURE_DATA(direct) *self, uint64_t offset, uint64_t length,
		     uint64_t iova, int access)
{
	struct ibv_mr *mr = reg_direct(self, offset, length, iova, access);

	if (!mr)
		return errno;
	mr_close(mr);
	return 0;
}

FIXTURE_SETUP(direct)
{
	ASSERT_TRUE(nothing_left());
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	second_find(&self->second, self->ctx);
	memory_open_filled(&self->buf, VGEM, SIZE, 1);
	memory_open_filled(&self->plain, VGEM, SIZE, 2);
	memory_open_filled(&self->host, HOST, SIZE, 3);
	self->mr = memory_reg(&self->buf, self->pair.pd, RWA);
	self->plain_mr = reg_plain(self->pair.pd, &self->plain);
	self->host_mr = memory_reg(&self->host, self->pair.pd, RWA);
}

FIXTURE_TEARDOWN(direct)
{
	mr_close(self->mr);
	mr_close(self->plain_mr);
	mr_close(self->host_mr);
	pair_close(&self->pair);
	device_close(self->ctx);
	memory_close(&self->buf);
	memory_close(&self->plain);
	memory_close(&self->host);
	EXPECT_TRUE(nothing_left());
}

static enum ibv_wc_status op(FIXTURE_DATA(direct) *self, enum ibv_wr_opcode opcode,
			     struct ibv_mr *local, const struct memory *from,
			     struct ibv_mr *remote, const struct memory *to)
{
	enum ibv_wc_status status = rdma_op(&self->pair, opcode, local, from->iova, SIZE, to->iova,
					    remote->rkey);

	if (status)
		pair_connect(&self->pair, IBV_MTU_1024);
	return status;
}

/* Whether a write and a read of the MR work, and carry the right bytes. */
static bool carries(FIXTURE_DATA(direct) *self, struct ibv_mr *mr, struct memory *m,
		    uint32_t seed)
{
	fill(self->host.cpu, SIZE, seed);
	if (op(self, IBV_WR_RDMA_WRITE, self->host_mr, &self->host, mr, m) ||
	    !filled(m->cpu, SIZE, seed, "written"))
		return false;
	memset(self->host.cpu, 0, SIZE);
	return !op(self, IBV_WR_RDMA_READ, self->host_mr, &self->host, mr, m) &&
	       filled(self->host.cpu, SIZE, seed, "read");
}

/* Nobody gets at the buffer by the MR, from afar or from here, and no byte moves. */
static bool is_refused(FIXTURE_DATA(direct) *self)
{
	memory_mark(&self->buf);
	memory_mark(&self->plain);
	return op(self, IBV_WR_RDMA_WRITE, self->host_mr, &self->host, self->mr, &self->buf) ==
		       IBV_WC_REM_ACCESS_ERR &&
	       op(self, IBV_WR_RDMA_READ, self->host_mr, &self->host, self->mr, &self->buf) ==
		       IBV_WC_REM_ACCESS_ERR &&
	       op(self, IBV_WR_RDMA_WRITE, self->mr, &self->buf, self->plain_mr, &self->plain) ==
		       IBV_WC_LOC_PROT_ERR &&
	       memory_untouched(&self->buf) && memory_untouched(&self->plain);
}

TEST_F(direct, path_is_that_of_the_second_function)
{
	char link[256], first[PATH_MAX];

	snprintf(link, sizeof(link), "/sys/class/infiniband/%s/device", device_name());
	ASSERT_NE(NULL, realpath(link, first));
	ASSERT_NE(0, strcmp(first, self->second.path));
	ASSERT_EQ(0x15b3, second_attribute(&self->second, "vendor"));
	ASSERT_EQ(0x2100, second_attribute(&self->second, "device"));
}

TEST_F(direct, path_that_does_not_fit_is_enospc)
{
	char path[5];

	ASSERT_EQ(ENOSPC, mlx5dv_get_data_direct_sysfs_path(self->ctx, path, sizeof(path)));
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
	struct ibv_mr *mr = must(reg_direct(self, 0, SIZE, IOVA, IBV_ACCESS_REMOTE_READ));

	memory_mark(&self->buf);
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, op(self, IBV_WR_RDMA_WRITE, self->host_mr, &self->host, mr,
					    &self->buf));
	ASSERT_EQ(IBV_WC_SUCCESS, op(self, IBV_WR_RDMA_READ, self->host_mr, &self->host, mr,
				     &self->buf));
	ASSERT_TRUE(memory_untouched(&self->buf));
	mr_close(mr);
}

TEST_F(direct, access_outside_of_the_mr_is_refused)
{
	struct ibv_mr *mr = must(reg_direct(self, PAGE, 2 * PAGE, IOVA + PAGE, RWA));
	static const struct { uint64_t from; uint32_t n; bool inside; } ranges[] = {
		{ IOVA + PAGE - 1, 1, false }, { IOVA + PAGE, 2 * PAGE, true },
		{ IOVA + PAGE, 2 * PAGE + 1, false }, { IOVA + 3 * PAGE - 1, 1, true },
		{ IOVA + 3 * PAGE, 1, false },
	};

	for (int i = 0; i < 5; i++) {
		enum ibv_wc_status status = rdma_op(&self->pair, IBV_WR_RDMA_READ, self->host_mr,
						    self->host.iova, ranges[i].n, ranges[i].from,
						    mr->rkey);

		EXPECT_EQ(ranges[i].inside ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR, status)
			TH_LOG("range %d", i);
		if (status)
			pair_connect(&self->pair, IBV_MTU_1024);
	}
	mr_close(mr);
}

/* Which function an MR uses the bus by: the other one can do without. */
TEST_F(direct, mr_needs_the_bus_of_the_second_function)
{
	ASSERT_TRUE(carries(self, self->mr, &self->buf, 10));
	second_set_bus_master(&self->second, false);
	EXPECT_TRUE(is_refused(self));
	EXPECT_TRUE(carries(self, self->plain_mr, &self->plain, 11));
	second_set_bus_master(&self->second, true);
	ASSERT_TRUE(carries(self, self->mr, &self->buf, 12));
}

TEST_F(direct, unbound_function_ends_its_mrs_and_no_others)
{
	struct ibv_mr *mr;
	char path[256];

	ASSERT_TRUE(carries(self, self->mr, &self->buf, 20));
	second_unbind(&self->second);
	EXPECT_TRUE(is_refused(self));
	EXPECT_TRUE(carries(self, self->plain_mr, &self->plain, 21));
	EXPECT_EQ(ENODEV, mlx5dv_get_data_direct_sysfs_path(self->ctx, path, sizeof(path)));
	EXPECT_EQ(EINVAL, reg_errno(self, 0, SIZE, IOVA, RWA));

	second_bind(&self->second);
	EXPECT_EQ(0, mlx5dv_get_data_direct_sysfs_path(self->ctx, path, sizeof(path)));
	/* The old key stays dead; its MR can be deregistered, before and after new ones. */
	EXPECT_TRUE(is_refused(self));
	mr = must(reg_direct(self, 0, SIZE, IOVA, RWA));
	EXPECT_NE(self->mr->rkey, mr->rkey);
	EXPECT_TRUE(carries(self, mr, &self->buf, 22));
	EXPECT_TRUE(is_refused(self));
	mr_close(self->mr);
	self->mr = mr;
	EXPECT_TRUE(carries(self, mr, &self->buf, 23));
}

TEST_F(direct, removed_function_comes_back_by_a_rescan)
{
	char path[256];

	second_remove(&self->second);
	EXPECT_TRUE(is_refused(self));
	EXPECT_TRUE(carries(self, self->plain_mr, &self->plain, 31));
	EXPECT_EQ(ENODEV, mlx5dv_get_data_direct_sysfs_path(self->ctx, path, sizeof(path)));
	second_rescan();
	EXPECT_EQ(0, mlx5dv_get_data_direct_sysfs_path(self->ctx, path, sizeof(path)));
	mr_close(self->mr);
	self->mr = must(reg_direct(self, 0, SIZE, IOVA, RWA));
	EXPECT_TRUE(carries(self, self->mr, &self->buf, 32));
}

/* Writes until the first error. */
struct writer {
	pthread_t thread;
	struct pair pair;
	struct ibv_mr *mr;
	struct memory host;
	struct ibv_mr *host_mr;
	enum ibv_wc_status status;
	atomic_ulong writes;
};

static void *write_on(void *arg)
{
	struct writer *w = arg;

	while (!(w->status = rdma_op(&w->pair, IBV_WR_RDMA_WRITE, w->host_mr, w->host.iova, SIZE,
				     IOVA, w->mr->rkey)))
		w->writes++;
	return NULL;
}

TEST_F(direct, function_leaves_under_traffic)
{
	struct writer w = { .mr = self->mr };
	double end = deadline(60);

	pair_open_in(&w.pair, self->pair.pd);
	memory_open_filled(&w.host, HOST, SIZE, 40);
	w.host_mr = memory_reg(&w.host, self->pair.pd, RWA);
	ASSERT_EQ(0, pthread_create(&w.thread, NULL, write_on, &w));
	while (w.writes < 20 && now() < end)
		usleep(1000);
	ASSERT_LE(20, w.writes);
	second_unbind(&self->second);
	memory_mark(&self->buf);
	ASSERT_EQ(0, pthread_join(w.thread, NULL));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, w.status);
	EXPECT_TRUE(memory_untouched(&self->buf));
	EXPECT_TRUE(carries(self, self->plain_mr, &self->plain, 41));
	second_bind(&self->second);
	mr_close(w.host_mr);
	pair_close(&w.pair);
	memory_close(&w.host);
}

TEST_HARNESS_MAIN
