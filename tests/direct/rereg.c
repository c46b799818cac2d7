// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: direct */
/*
 * Data Direct by the methods with an fd, REG_MR_FD and REREG_MR_FD, with the driver's attribute:
 * it says which way the new memory goes.  A rereg between the two ways, to other memory, PD or
 * access changes the keys, or leaves the MR as it was; the way shows by the bus of the second
 * function.
 *
 * The messages go to the kernel without the library.
 */
#include "direct/calls.h"
#include "lib/case.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/second.h"
#include "lib/test_exporter.h"
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE (16 * PAGE)
#define TRANSLATION IBV_REREG_MR_CHANGE_TRANSLATION

FIXTURE(mr)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct ibv_pd *pd;		/* another one */
	struct memory buf, other, memfd, host;
	struct ibv_mr *host_mr;
	struct second second;
	struct keys keys;
};

static int reg(FIXTURE_DATA(mr) *self, const struct memory *m, uint64_t iova, uint32_t access,
	       int way, struct keys *keys)
{
	return direct_reg(self->pair.pd, m, iova, access, way, keys);
}

static int reg_errno(FIXTURE_DATA(mr) *self, const struct memory *m, uint64_t iova,
		     uint32_t access, int way)
{
	struct keys keys;
	int err = reg(self, m, iova, access, way, &keys);

	if (!err)
		mr_dereg(self->ctx->cmd_fd, BY_IOCTL, keys.handle);
	return err;
}

/* M is NULL for a rereg without new memory. */
static int rereg(FIXTURE_DATA(mr) *self, uint32_t flags, const struct memory *m, uint32_t access,
		 int way)
{
	return direct_rereg(self->ctx, flags, self->pd, m, access, way, &self->keys);
}

FIXTURE_SETUP(mr)
{
	need("direct");
	ASSERT_TRUE(nothing_left());
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	self->pd = must(ibv_alloc_pd(self->ctx));
	second_find(&self->second, self->ctx);
	test_exporter_open(&self->buf, SIZE, 0);
	memory_open(&self->other, VGEM, SIZE);
	memory_open(&self->memfd, MEMFD, SIZE);
	memory_open(&self->host, HOST, SIZE);
	self->host_mr = memory_reg(&self->host, self->pair.pd, RWA);
	ASSERT_EQ(0, reg(self, &self->buf, IOVA, RWA, DIRECT, &self->keys));
}

FIXTURE_TEARDOWN(mr)
{
	EXPECT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_IOCTL, self->keys.handle));
	mr_close(self->host_mr);
	EXPECT_TRUE(at_rest(self->buf.fd));
	pair_close(&self->pair);
	pd_close(self->pd);
	device_close(self->ctx);
	memory_close(&self->buf);
	memory_close(&self->other);
	memory_close(&self->memfd);
	memory_close(&self->host);
	EXPECT_TRUE(nothing_left());
}

static enum ibv_wc_status op(FIXTURE_DATA(mr) *self, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	enum ibv_wc_status status = rdma_op(&self->pair, opcode, self->host_mr, self->host.iova,
					    SIZE, IOVA, rkey);

	if (status)
		pair_connect(&self->pair, IBV_MTU_1024);
	return status;
}

static bool writes(FIXTURE_DATA(mr) *self, const struct memory *m, uint32_t seed)
{
	fill(self->host.cpu, SIZE, seed);
	return !op(self, IBV_WR_RDMA_WRITE, self->keys.rkey) &&
	       filled(m->cpu, SIZE, seed, "written");
}

static bool is_dead(FIXTURE_DATA(mr) *self, uint32_t rkey)
{
	return op(self, IBV_WR_RDMA_READ, rkey) == IBV_WC_REM_ACCESS_ERR;
}

/* The MR reaches M, and by this way. */
static bool goes(FIXTURE_DATA(mr) *self, const struct memory *m, int way, uint32_t seed)
{
	bool well = writes(self, m, seed);

	second_set_bus_master(&self->second, false);
	if (way == DIRECT)
		well = well && is_dead(self, self->keys.rkey);
	else
		well = well && writes(self, m, seed + 1);
	second_set_bus_master(&self->second, true);
	return well && writes(self, m, seed + 2);
}

TEST_F(mr, attribute_of_reg_mr_fd_chooses_the_function)
{
	ASSERT_TRUE(goes(self, &self->buf, DIRECT, 10));
	for (int way = WITHOUT; way <= ORDINARY; way++) {
		struct keys direct = self->keys;

		ASSERT_EQ(0, reg(self, &self->other, IOVA, RWA, way, &self->keys));
		EXPECT_TRUE(goes(self, &self->other, ORDINARY, 20));
		ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_IOCTL, self->keys.handle));
		self->keys = direct;
	}
	ASSERT_TRUE(goes(self, &self->buf, DIRECT, 30));
}

/* REG_MR_FD as a command, with driver data, which no command of it has. */
TEST_F(mr, driver_data_of_a_command_is_not_the_attribute)
{
	struct ib_uverbs_reg_mr_fd_resp resp = {};
	struct ib_uverbs_reg_mr_fd cmd = {
		.length = SIZE, .hca_va = IOVA, .pd_handle = self->pair.pd->handle,
		.access_flags = RWA, .fd_type = IB_UVERBS_BUFFER_TYPE_DMABUF,
		.fd = self->other.fd,
	};
	struct keys direct = self->keys;
	union msg m;

	msg_begin(&m, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	msg_add(&m, UVERBS_ATTR_CORE_IN, sizeof(cmd), (uintptr_t)&cmd);
	msg_add(&m, UVERBS_ATTR_CORE_OUT, sizeof(resp), (uintptr_t)&resp);
	msg_add(&m, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_REG_MR_FD);
	msg_add(&m, UVERBS_ATTR_UHW_IN, 4, DIRECT);
	errno = msg_send(self->ctx->cmd_fd, &m);
	if (errno == EOPNOTSUPP)
		SKIP(return, "the kernel has no commands for registration by fd");
	ASSERT_EQ(0, errno);
	self->keys = (struct keys){ resp.mr_handle, resp.lkey, resp.rkey };
	EXPECT_TRUE(goes(self, &self->other, ORDINARY, 15));
	ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_IOCTL, self->keys.handle));
	self->keys = direct;
}

/* Upstream's REG_MR; M is a dma-buf or memory of the process. */
static void reg_mr_of(union msg *msg, FIXTURE_DATA(mr) *self, const struct memory *m,
		      struct keys *keys)
{
	msg_begin(msg, UVERBS_OBJECT_MR, UVERBS_METHOD_REG_MR);
	msg_add(msg, UVERBS_ATTR_REG_MR_HANDLE, 0, 0);
	msg_add(msg, UVERBS_ATTR_REG_MR_PD_HANDLE, 0, self->pair.pd->handle);
	msg_add(msg, UVERBS_ATTR_REG_MR_LENGTH, 8, SIZE);
	msg_add(msg, UVERBS_ATTR_REG_MR_ACCESS_FLAGS, 4, RWA);
	msg_add(msg, UVERBS_ATTR_REG_MR_RESP_LKEY, 4, (uintptr_t)&keys->lkey);
	msg_add(msg, UVERBS_ATTR_REG_MR_RESP_RKEY, 4, (uintptr_t)&keys->rkey);
	msg_add(msg, UVERBS_ATTR_REG_MR_IOVA, 8, IOVA);
	if (m->kind == HOST) {
		msg_add(msg, UVERBS_ATTR_REG_MR_ADDR, 8, (uintptr_t)m->cpu);
	} else {
		msg_add(msg, UVERBS_ATTR_REG_MR_FD, 0, 0)->data_s64 = m->fd;
		msg_add(msg, UVERBS_ATTR_REG_MR_FD_OFFSET, 8, 0);
	}
}

/* ATTR is the attribute of way, or UVERBS_ATTR_UHW_IN for driver data with its value. */
static int reg_mr(FIXTURE_DATA(mr) *self, const struct memory *m, uint16_t attr, uint32_t way)
{
	struct keys got;
	union msg msg;
	int err;

	reg_mr_of(&msg, self, m, &got);
	msg_add(&msg, attr, 4, way);
	err = msg_send(self->ctx->cmd_fd, &msg);
	if (err)
		return err;
	got.handle = msg.hdr.attrs[0].data;
	if (mr_dereg(self->ctx->cmd_fd, BY_IOCTL, self->keys.handle))
		fail_case("deregister the old MR");
	self->keys = got;
	return 0;
}

TEST_F(mr, attribute_of_reg_mr_chooses_the_function)
{
	ASSERT_EQ(0, reg_mr(self, &self->other, MLX5_IB_ATTR_REG_MR_ACCESS_FLAGS, DIRECT));
	EXPECT_TRUE(goes(self, &self->other, DIRECT, 100));
	ASSERT_EQ(0, reg_mr(self, &self->buf, MLX5_IB_ATTR_REG_MR_ACCESS_FLAGS, ORDINARY));
	EXPECT_TRUE(goes(self, &self->buf, ORDINARY, 110));
	EXPECT_EQ(EINVAL, reg_mr(self, &self->other, MLX5_IB_ATTR_REG_MR_ACCESS_FLAGS, 2));
	EXPECT_EQ(EOPNOTSUPP,
		  reg_mr(self, &self->host, MLX5_IB_ATTR_REG_MR_ACCESS_FLAGS, DIRECT));
	EXPECT_TRUE(goes(self, &self->buf, ORDINARY, 120));
}

/* The attribute of REG_DMABUF_MR has the number of the driver data of REG_MR. */
TEST_F(mr, driver_data_of_reg_mr_are_not_flags)
{
	ASSERT_EQ(0, reg_mr(self, &self->other, UVERBS_ATTR_UHW_IN, DIRECT));
	EXPECT_TRUE(goes(self, &self->other, ORDINARY, 130));
	ASSERT_EQ(0, reg_mr(self, &self->buf, UVERBS_ATTR_UHW_IN, 2));
	EXPECT_TRUE(goes(self, &self->buf, ORDINARY, 140));
}

/* As what REG_MR_FD pins by the other way; what REG_DMABUF_MR pins has never counted. */
TEST_F(mr, pin_counts_against_memlock_while_there_is_memory)
{
	long with = pinned_kb();
	struct ibv_mr *mr = memory_reg(&self->buf, self->pair.pd, RWA);

	EXPECT_EQ(with, pinned_kb());
	mr_close(mr);
	second_unbind(&self->second);
	EXPECT_EQ(with - SIZE / 1024, pinned_kb());
	second_bind(&self->second);
	ASSERT_EQ(0, rereg(self, TRANSLATION, &self->buf, 0, DIRECT));
	EXPECT_EQ(with, pinned_kb());
	take_memory(self->buf.fd);
	EXPECT_EQ(with - SIZE / 1024, pinned_kb());
}

static void *rereg_at_the_limit(void *arg)
{
	FIXTURE_DATA(mr) *self = arg;
	struct memory next = {};

	test_exporter_open(&next, SIZE, 0);
	if (syscall(SYS_setresuid, 65534, 65534, 65534))
		fail_case("drop privileges");
	if (rereg(self, TRANSLATION, &next, 0, DIRECT) != ENOMEM)
		fail_case("a second pin is above the limit");
	take_memory(self->buf.fd);
	errno = rereg(self, TRANSLATION, &next, 0, DIRECT);
	if (errno)
		fail_case("repair an MR at the limit");
	memory_close(&next);
	return NULL;
}

TEST_F(mr, revoked_mr_is_repaired_at_the_limit)
{
	rlim_t n = pinned_kb() * 1024 + SIZE / 2;
	struct rlimit limit = { n, n };
	pthread_t thread;

	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &limit));
	ASSERT_EQ(0, pthread_create(&thread, NULL, rereg_at_the_limit, self));
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

TEST_F(mr, unusable_arguments_are_refused)
{
	EXPECT_EQ(EINVAL, reg_errno(self, &self->buf, IOVA, RWA, 2));
	EXPECT_EQ(EINVAL, reg_errno(self, &self->buf, IOVA, RWA, 3));
	EXPECT_EQ(EOPNOTSUPP, reg_errno(self, &self->memfd, IOVA, RWA, DIRECT));
	EXPECT_EQ(0, reg_errno(self, &self->memfd, IOVA, RWA, ORDINARY));
	EXPECT_EQ(EOPNOTSUPP, reg_errno(self, &self->buf, IOVA, RWA | IBV_ACCESS_MW_BIND, DIRECT));
	EXPECT_EQ(EOPNOTSUPP,
		  reg_errno(self, &self->buf, IOVA, RWA | IBV_ACCESS_ON_DEMAND, DIRECT));
	EXPECT_EQ(0, reg_errno(self, &self->buf, IOVA, RWA | IBV_ACCESS_RELAXED_ORDERING, DIRECT));
	/* The attribute is about memory. */
	EXPECT_EQ(EINVAL, rereg(self, IBV_REREG_MR_CHANGE_ACCESS, NULL, REMOTE_READ, DIRECT));
	EXPECT_EQ(EINVAL, rereg(self, IBV_REREG_MR_CHANGE_PD, NULL, 0, ORDINARY));
	EXPECT_EQ(EINVAL, rereg(self, TRANSLATION, &self->other, 0, 2));
	EXPECT_TRUE(goes(self, &self->buf, DIRECT, 40));
}

TEST_F(mr, rereg_gives_new_memory_by_either_function)
{
	static const int ways[] = { DIRECT, ORDINARY, DIRECT, WITHOUT, ORDINARY, DIRECT, DIRECT };

	for (int i = 0; i < 7; i++) {
		const struct memory *m = i % 2 ? &self->buf : &self->other;
		uint32_t old = self->keys.rkey;

		ASSERT_EQ(0, rereg(self, TRANSLATION, m, 0, ways[i]));
		EXPECT_NE(old, self->keys.rkey);
		EXPECT_TRUE(is_dead(self, old));
		EXPECT_TRUE(goes(self, m, ways[i] == DIRECT ? DIRECT : ORDINARY, 50 + i))
			TH_LOG("rereg %d", i);
	}
}

TEST_F(mr, rereg_of_access_keeps_function_and_memory)
{
	uint32_t old = self->keys.rkey;

	ASSERT_TRUE(writes(self, &self->buf, 60));
	ASSERT_EQ(0, rereg(self, IBV_REREG_MR_CHANGE_ACCESS, NULL, REMOTE_READ, WITHOUT));
	EXPECT_TRUE(is_dead(self, old));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, op(self, IBV_WR_RDMA_WRITE, self->keys.rkey));
	memset(self->host.cpu, 0, SIZE);
	EXPECT_EQ(IBV_WC_SUCCESS, op(self, IBV_WR_RDMA_READ, self->keys.rkey));
	EXPECT_TRUE(filled(self->host.cpu, SIZE, 60, "read"));
	ASSERT_EQ(0, rereg(self, IBV_REREG_MR_CHANGE_ACCESS, NULL, RWA, WITHOUT));
	EXPECT_TRUE(goes(self, &self->buf, DIRECT, 61));
	EXPECT_EQ(1, query(self->buf.fd).pins);
}

TEST_F(mr, memory_that_was_taken_for_reading_stays_read_only)
{
	ASSERT_EQ(0, rereg(self, TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, &self->other,
			   REMOTE_READ, DIRECT));
	EXPECT_EQ(EACCES, rereg(self, IBV_REREG_MR_CHANGE_ACCESS, NULL, RWA, WITHOUT));
	EXPECT_EQ(IBV_WC_SUCCESS, op(self, IBV_WR_RDMA_READ, self->keys.rkey));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, op(self, IBV_WR_RDMA_WRITE, self->keys.rkey));
}

TEST_F(mr, rereg_to_another_pd_closes_the_mr_to_the_old_one)
{
	struct ibv_mr *host_mr = memory_reg(&self->host, self->pd, RWA);
	struct pair pair;

	ASSERT_EQ(0, rereg(self, IBV_REREG_MR_CHANGE_PD, NULL, 0, WITHOUT));
	EXPECT_TRUE(is_dead(self, self->keys.rkey));
	EXPECT_EQ(1, query(self->buf.fd).pins);
	pair_open_in(&pair, self->pd);
	fill(self->host.cpu, SIZE, 90);
	EXPECT_EQ(IBV_WC_SUCCESS, rdma_op(&pair, IBV_WR_RDMA_WRITE, host_mr, self->host.iova, SIZE,
					  IOVA, self->keys.rkey));
	EXPECT_TRUE(filled(self->buf.cpu, SIZE, 90, "written in the new PD"));
	pair_close(&pair);
	mr_close(host_mr);
}

/* After the function has gone: other memory is the repair, by the way that is there. */
TEST_F(mr, rereg_repairs_an_mr_whose_function_has_gone)
{
	second_unbind(&self->second);
	EXPECT_TRUE(is_dead(self, self->keys.rkey));
	EXPECT_EQ(ENODEV, reg_errno(self, &self->other, IOVA, RWA, DIRECT));
	EXPECT_EQ(ENODEV, rereg(self, IBV_REREG_MR_CHANGE_ACCESS, NULL, REMOTE_READ, WITHOUT));
	EXPECT_EQ(ENODEV, rereg(self, TRANSLATION, &self->other, 0, DIRECT));
	EXPECT_TRUE(is_dead(self, self->keys.rkey));
	ASSERT_EQ(0, rereg(self, TRANSLATION, &self->buf, 0, ORDINARY));
	EXPECT_TRUE(writes(self, &self->buf, 70));
	second_bind(&self->second);
	ASSERT_EQ(0, rereg(self, TRANSLATION, &self->buf, 0, DIRECT));
	EXPECT_TRUE(goes(self, &self->buf, DIRECT, 71));
}

TEST_F(mr, revoked_memory_is_enodev_until_there_is_other)
{
	take_memory(self->buf.fd);
	EXPECT_TRUE(is_dead(self, self->keys.rkey));
	EXPECT_EQ(ENODEV, rereg(self, IBV_REREG_MR_CHANGE_ACCESS, NULL, REMOTE_READ, WITHOUT));
	EXPECT_EQ(ENODEV, rereg(self, IBV_REREG_MR_CHANGE_PD, NULL, 0, WITHOUT));
	ASSERT_EQ(0, rereg(self, TRANSLATION, &self->other, 0, DIRECT));
	EXPECT_TRUE(goes(self, &self->other, DIRECT, 80));
}

TEST_HARNESS_MAIN
