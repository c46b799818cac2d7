// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: smp; devices: all */
/* runs: quick debug-full; guest: smp; devices: pinned direct */
/*
 * The application is told by an asynchronous event when the memory of an MR is taken away: once
 * for each memory, whoever accesses it or nobody, and not when a buffer only moves.
 *
 * A device that follows a buffer which moves learns that it is gone from the next access.
 */
#include "exporters/test_buffer.h"
#include "lib/told.h"
#include <fcntl.h>
#include <pthread.h>

#define MRS 10

FIXTURE_SETUP(buffer)
{
	need("reg_mr_fd");
	buffer_open(self, 0);
	told_begin(self->ctx);
}

FIXTURE_TEARDOWN(buffer)
{
	EXPECT_TRUE(buffer_close(self));
}

static bool follows(void)
{
	return device_can("follows-moves") && !device_can("direct");
}

/* An access that fails. */
static bool touch(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr)
{
	bool failed = rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova, SIZE,
			      IOVA, mr->rkey) == IBV_WC_REM_ACCESS_ERR;

	pair_connect(&self->pair, IBV_MTU_1024);
	return failed;
}

/* As a program does that only receives. */
static bool take(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr)
{
	take_memory(self->buf.fd);
	return !follows() || touch(self, mr);
}

TEST_F(buffer, revoked_mr_gets_one_event)
{
	struct ibv_mr *mr = memory_reg(&self->buf, self->pair.pd, RWA);
	struct ibv_mr *other = memory_reg(&self->vgem, self->pair.pd, RWA);
	int others;

	ASSERT_TRUE(rdma_write(self, mr, 1));
	ASSERT_EQ(0, told(self->ctx, mr, &others));
	ASSERT_TRUE(take(self, mr));
	EXPECT_EQ(1, told(self->ctx, mr, &others));
	EXPECT_EQ(0, others);
	EXPECT_TRUE(touch(self, mr));
	EXPECT_TRUE(touch(self, mr));
	mr_close(other);
	EXPECT_EQ(0, told(self->ctx, mr, &others));
	EXPECT_EQ(0, others);
	mr_close(mr);
}

TEST_F(buffer, mr_of_ibv_reg_dmabuf_mr_gets_the_event_too)
{
	struct ibv_mr *mr = must(reg_dmabuf(self, RWA));

	take_memory(self->buf.fd);
	EXPECT_TRUE(touch(self, mr));
	EXPECT_EQ(1, told(self->ctx, mr, NULL));
	mr_close(mr);
}

TEST_F(buffer, each_mr_of_the_buffer_gets_an_event)
{
	struct ibv_mr *mr[MRS];
	int n = 0, others;

	for (int i = 0; i < MRS; i++)
		mr[i] = memory_reg(&self->buf, self->pair.pd, RWA);
	take_memory(self->buf.fd);
	for (int i = 0; i < MRS; i++)
		EXPECT_TRUE(touch(self, mr[i]));
	n = told(self->ctx, mr[0], &others);
	EXPECT_EQ(1, n);
	EXPECT_EQ(MRS - 1, others);
	for (int i = 0; i < MRS; i++)
		mr_close(mr[i]);
}

TEST_F(buffer, other_context_gets_no_event)
{
	struct ibv_context *ctx = device_open();
	struct ibv_mr *mr = memory_reg(&self->buf, self->pair.pd, RWA);
	int others;

	told_begin(ctx);
	ASSERT_TRUE(take(self, mr));
	EXPECT_EQ(0, told(ctx, mr, &others));
	EXPECT_EQ(0, others);
	EXPECT_EQ(1, told(self->ctx, mr, &others));
	mr_close(mr);
	device_close(ctx);
}

/* The next MR has the handle of the last one. */
TEST_F(buffer, unread_event_is_dropped_at_dereg)
{
	struct ibv_mr *mr = memory_reg(&self->buf, self->pair.pd, RWA);
	uint32_t handle = mr->handle;
	int others;

	ASSERT_TRUE(take(self, mr));
	mr_close(mr);
	mr = memory_reg(&self->vgem, self->pair.pd, RWA);
	EXPECT_EQ(handle, mr->handle);
	EXPECT_EQ(0, told(self->ctx, mr, &others));
	EXPECT_EQ(0, others);
	mr_close(mr);
}

TEST_F(buffer, rereg_drops_the_event_and_new_memory_gives_one)
{
	struct ibv_mr *mr;
	struct memory next = {};

	need("rereg_mr_fd");
	mr = memory_reg(&self->buf, self->pair.pd, RWA);
	ASSERT_TRUE(take(self, mr));
	test_exporter_open(&next, SIZE, 0);
	ASSERT_EQ(0, memory_rereg(mr, TRANS, NULL, &next, 0));
	EXPECT_EQ(0, told(self->ctx, mr, NULL));
	EXPECT_TRUE(rdma_write(self, mr, 2));
	take_memory(next.fd);
	EXPECT_TRUE(touch(self, mr));
	EXPECT_EQ(1, told(self->ctx, mr, NULL));
	mr_close(mr);
	memory_close(&next);
}

/* The other MR has the memory now, for rxe the same mapping. */
TEST_F(buffer, mr_gets_its_event_after_a_rereg_of_rights)
{
	struct ibv_mr *mr;

	need("rereg_mr_fd");
	mr = memory_reg(&self->buf, self->pair.pd, RWA);
	ASSERT_EQ(0, memory_rereg(mr, CHANGE_ACCESS, NULL, &self->buf, RW));
	EXPECT_EQ(0, told(self->ctx, mr, NULL));
	ASSERT_TRUE(take(self, mr));
	EXPECT_EQ(1, told(self->ctx, mr, NULL));
	mr_close(mr);
}

TEST_F(buffer, move_gives_no_event)
{
	struct ibv_mr *mr = memory_reg(&self->buf, self->pair.pd, RWA);

	ASSERT_TRUE(rdma_write(self, mr, 1));
	ASSERT_EQ(follows() ? 0 : EBUSY, move(self->buf.fd, 0));
	ASSERT_TRUE(rdma_write(self, mr, 2));
	EXPECT_EQ(0, told(self->ctx, mr, NULL));
	mr_close(mr);
}

static void *wait_for_event(void *arg)
{
	FIXTURE_DATA(buffer) *self = arg;
	static struct ibv_async_event event;

	do {
		if (ibv_get_async_event(self->ctx, &event))
			return NULL;
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_MR_REVOKED);
	return &event;
}

TEST_F(buffer, event_wakes_a_waiting_thread)
{
	struct ibv_mr *mr = memory_reg(&self->buf, self->pair.pd, RWA);
	struct ibv_async_event *event;
	pthread_t thread;
	void *result;

	ASSERT_EQ(0, fcntl(self->ctx->async_fd, F_SETFL, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, wait_for_event, self));
	usleep(10000);
	ASSERT_TRUE(take(self, mr));
	ASSERT_EQ(0, pthread_join(thread, &result));
	event = must(result);
	EXPECT_EQ(mr->handle, event->element.mr_handle);
	EXPECT_STREQ("memory of an MR revoked", ibv_event_type_str(event->event_type));
	mr_close(mr);
}

TEST_HARNESS_MAIN
