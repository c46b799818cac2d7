// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The second function of the card goes away while a thread writes by it, by who reads "traffic"
 * from this program (host/direct_leaves), and comes back when that one has read "gone":
 *
 *	unplugged	the kernel is asked to let it go, as by the button at a slot
 *	pulled		it is not there from one access to the next; the kernel learns it later
 *
 * The writer gets a remote access error, and no byte is written from then on; the MRs of the
 * first function notice nothing.  What comes back serves new MRs, and no old key.
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
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIZE (64 * PAGE)
#define LIMIT 60	/* seconds, of an idle machine */

/* Writes until the first error. */
struct writer {
	pthread_t thread;
	struct pair pair;
	struct memory host;
	struct ibv_mr *host_mr;
	uint32_t rkey;
	enum ibv_wc_status status;
	atomic_ulong writes;
};

FIXTURE(second)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct second second;
	struct memory buf, plain, host;
	struct ibv_mr *mr;	/* of buf, by Data Direct */
	struct ibv_mr *plain_mr;	/* of plain, by the first function */
	struct ibv_mr *host_mr;
	struct writer writer;
};

static struct ibv_mr *reg(FIXTURE_DATA(second) *self)
{
	return mlx5dv_reg_dmabuf_mr(self->pair.pd, 0, SIZE, IOVA, self->buf.fd, RWA,
				    MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT);
}

FIXTURE_SETUP(second)
{
	ASSERT_TRUE(nothing_left());
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	second_find(&self->second, self->ctx);
	memory_open_filled(&self->buf, VGEM, SIZE, 1);
	memory_open_filled(&self->plain, UDMABUF, SIZE, 2);
	memory_open_filled(&self->host, HOST, SIZE, 3);
	memory_open_filled(&self->writer.host, HOST, SIZE, 4);
	self->mr = must(reg(self));
	self->plain_mr = must(ibv_reg_dmabuf_mr(self->pair.pd, 0, SIZE, IOVA, self->plain.fd, RWA));
	self->host_mr = memory_reg(&self->host, self->pair.pd, RWA);
	pair_open_in(&self->writer.pair, self->pair.pd);
	self->writer.host_mr = memory_reg(&self->writer.host, self->pair.pd, RWA);
	self->writer.rkey = self->mr->rkey;
}

FIXTURE_TEARDOWN(second)
{
	mr_close(self->mr);
	mr_close(self->plain_mr);
	mr_close(self->host_mr);
	mr_close(self->writer.host_mr);
	pair_close(&self->writer.pair);
	pair_close(&self->pair);
	device_close(self->ctx);
	memory_close(&self->buf);
	memory_close(&self->plain);
	memory_close(&self->host);
	memory_close(&self->writer.host);
	EXPECT_TRUE(nothing_left());
}

static void *write_on(void *arg)
{
	struct writer *w = arg;

	while (!(w->status = rdma_op(&w->pair, IBV_WR_RDMA_WRITE, w->host_mr, w->host.iova, SIZE,
				     IOVA, w->rkey)))
		w->writes++;
	return NULL;
}

static enum ibv_wc_status op(FIXTURE_DATA(second) *self, enum ibv_wr_opcode opcode,
			     struct ibv_mr *local, const struct memory *from,
			     struct ibv_mr *remote, const struct memory *to)
{
	enum ibv_wc_status status = rdma_op(&self->pair, opcode, local, from->iova, SIZE, to->iova,
					    remote->rkey);

	if (status)
		pair_connect(&self->pair, IBV_MTU_1024);
	return status;
}

static bool carries(FIXTURE_DATA(second) *self, struct ibv_mr *mr, struct memory *m, uint32_t seed)
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
static bool is_refused(FIXTURE_DATA(second) *self, struct ibv_mr *mr)
{
	memory_mark(&self->buf);
	memory_mark(&self->plain);
	return op(self, IBV_WR_RDMA_WRITE, self->host_mr, &self->host, mr, &self->buf) ==
		       IBV_WC_REM_ACCESS_ERR &&
	       op(self, IBV_WR_RDMA_READ, self->host_mr, &self->host, mr, &self->buf) ==
		       IBV_WC_REM_ACCESS_ERR &&
	       op(self, IBV_WR_RDMA_WRITE, mr, &self->buf, self->plain_mr, &self->plain) ==
		       IBV_WC_LOC_PROT_ERR &&
	       memory_untouched(&self->buf) && memory_untouched(&self->plain);
}

/* Whether the driver has the function: mlx5dv's errno. */
static int path_errno(FIXTURE_DATA(second) *self)
{
	char path[PATH_MAX];

	return mlx5dv_get_data_direct_sysfs_path(self->ctx, path, sizeof(path));
}

static bool path_becomes(FIXTURE_DATA(second) *self, int err)
{
	double end = deadline(LIMIT);

	while (path_errno(self) != err && now() < end)
		usleep(10000);
	return path_errno(self) == err;
}

static bool answers_with_ones(FIXTURE_DATA(second) *self)
{
	double end = deadline(LIMIT);

	while (second_vendor(&self->second) != 0xffff && now() < end)
		usleep(10000);
	return second_vendor(&self->second) == 0xffff;
}

static void say_and_flush(const char *word)
{
	puts(word);
	fflush(stdout);
}

static void begin_traffic(FIXTURE_DATA(second) *self)
{
	double end = deadline(LIMIT);

	if (pthread_create(&self->writer.thread, NULL, write_on, &self->writer))
		fail_case("create a thread");
	while (self->writer.writes < 20 && now() < end)
		usleep(1000);
	errno = 0;
	if (self->writer.writes < 20)
		fail_case("no traffic");
	say_and_flush("traffic");
}

/* It has gone: from here on no byte arrives, and the first function goes on. */
static void traffic_has_ended(struct __test_metadata *_metadata, FIXTURE_DATA(second) *self)
{
	memory_mark(&self->buf);
	ASSERT_EQ(0, pthread_join(self->writer.thread, NULL));
	printf("# %lu writes\n", self->writer.writes);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, self->writer.status);
	EXPECT_TRUE(memory_untouched(&self->buf));
	EXPECT_TRUE(is_refused(self, self->mr));
	EXPECT_TRUE(carries(self, self->plain_mr, &self->plain, 10));
}

static void comes_back(struct __test_metadata *_metadata, FIXTURE_DATA(second) *self)
{
	struct ibv_mr *mr;

	EXPECT_EQ(ENODEV, path_errno(self));
	EXPECT_EQ(NULL, reg(self));
	EXPECT_EQ(EINVAL, errno);
	say_and_flush("gone");
	ASSERT_TRUE(path_becomes(self, 0));
	EXPECT_TRUE(is_refused(self, self->mr));
	mr = must(reg(self));
	EXPECT_NE(self->mr->rkey, mr->rkey);
	EXPECT_TRUE(carries(self, mr, &self->buf, 20));
	EXPECT_TRUE(is_refused(self, self->mr));
	mr_close(self->mr);
	self->mr = mr;
	EXPECT_TRUE(carries(self, mr, &self->buf, 21));
	EXPECT_TRUE(carries(self, self->plain_mr, &self->plain, 22));
}

TEST_F_TIMEOUT(second, unplugged, 300)
{
	begin_traffic(self);
	ASSERT_TRUE(path_becomes(self, ENODEV));
	traffic_has_ended(_metadata, self);
	comes_back(_metadata, self);
}

/* Its driver learns of it as from a slot that has noticed: the device is removed. */
TEST_F_TIMEOUT(second, pulled, 300)
{
	begin_traffic(self);
	ASSERT_TRUE(answers_with_ones(self));
	traffic_has_ended(_metadata, self);
	ASSERT_EQ(0, path_errno(self));
	second_remove(&self->second);
	EXPECT_TRUE(is_refused(self, self->mr));
	EXPECT_TRUE(carries(self, self->plain_mr, &self->plain, 30));
	comes_back(_metadata, self);
}

TEST_HARNESS_MAIN
