// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp; devices: all */
/*
 * On a device that does DMA and follows moves, an exporter fails, moves the buffer or takes it
 * away: the user gets the exporter's errno, importers hold nothing, and an MR that was to get
 * the buffer is unchanged.
 */
#include "exporters/test_buffer.h"
#include "lib/depth.h"
#include <pthread.h>
#include <stdatomic.h>

#define MOVES depth(20, 300)	/* of a race */

static const int errors[] = { ENOMEM, ENOSPC, EBUSY, EIO, EINVAL, ENODEV };
static const enum dmabuf_test_op ops[] = { DMABUF_TEST_ATTACH, DMABUF_TEST_MAP };

FIXTURE_SETUP(buffer)
{
	need("follows-moves");
	buffer_open(self, 0);
}

FIXTURE_TEARDOWN(buffer)
{
	EXPECT_TRUE(buffer_close(self));
}

/* Whether N MRs have the buffer, and do not hold it in place. */
static bool followed(FIXTURE_DATA(buffer) *self, int n)
{
	struct dmabuf_test_query q = query(self->buf.fd);

	if (q.attachments == n && q.maps == n && !q.pins && !q.vmaps && !q.brackets)
		return true;
	printf("# %d MRs hold %u attachments, %u maps, %u pins, %u vmaps, %u brackets\n", n,
	       q.attachments, q.maps, q.pins, q.vmaps, q.brackets);
	return false;
}

static int rereg(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr, int fd)
{
	need("rereg_mr_fd");
	return ibv_rereg_mr_fd_iova(mr, TRANS, NULL, 0, SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF, fd, 0);
}

/* An MR of a buffer that is as it should be. */
static struct ibv_mr *reg_good(FIXTURE_DATA(buffer) *self)
{
	return must(ibv_reg_mr_fd_iova(self->pair.pd, 0, SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF,
				       self->vgem.fd, RWA));
}

/* Whether RDMA writes to AT, and reads from there. */
static bool is_at(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr, uint8_t *at)
{
	static uint32_t seed = 1000;

	seed++;
	return rdma_write(self, mr, seed) && filled(at, SIZE, seed, "where the region is") &&
	       rdma_reads(self, mr, seed);
}

/* Whether a rereg to the test exporter's buffer fails with this errno, and changes nothing. */
static bool fails(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr, int expected)
{
	struct ibv_mr was = *mr;
	int ret = rereg(self, mr, self->buf.fd), err = errno;

	if (ret != IBV_REREG_MR_ERR_INPUT || err != expected) {
		printf("# rereg returned %d with errno %d, not %d\n", ret, err, expected);
		return false;
	}
	return !memcmp(&was, mr, sizeof(was)) && followed(self, 0) &&
	       is_at(self, mr, self->vgem.cpu);
}

static bool goes_there_and_back(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr)
{
	return !rereg(self, mr, self->buf.fd) && followed(self, 1) &&
	       is_at(self, mr, self->buf.cpu) && !rereg(self, mr, self->vgem.fd) &&
	       followed(self, 0) && is_at(self, mr, self->vgem.cpu);
}

TEST_F(buffer, reg_returns_the_errno_of_the_exporter)
{
	for (int op = 0; op < 2; op++) {
		struct ibv_mr *mr;

		for (int i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
			behave(self->buf.fd, ops[op], errors[i], 0);
			ASSERT_EQ(errors[i], reg_errno(self, i % 2 ? RWA : REMOTE_READ));
			ASSERT_TRUE(followed(self, 0));
		}
		behave(self->buf.fd, ops[op], 0, 0);
		mr = must(reg(self, RWA));
		ASSERT_TRUE(followed(self, 1));
		ASSERT_TRUE(is_at(self, mr, self->buf.cpu));
		mr_close(mr);
		ASSERT_TRUE(followed(self, 0));
	}
}

TEST_F(buffer, failed_rereg_leaves_the_mr_in_place)
{
	struct ibv_mr *mr = reg_good(self);

	for (int op = 0; op < 2; op++) {
		for (int i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
			behave(self->buf.fd, ops[op], errors[i], 0);
			ASSERT_TRUE(fails(self, mr, errors[i]));
		}
		behave(self->buf.fd, ops[op], 0, 0);
		ASSERT_TRUE(goes_there_and_back(self, mr));
	}
	mr_close(mr);
}

TEST_F(buffer, reg_and_rereg_to_a_revoked_buffer_are_enodev)
{
	struct ibv_mr *mr = reg_good(self);

	take_memory(self->buf.fd);
	ASSERT_EQ(ENODEV, reg_errno(self, RWA));
	ASSERT_TRUE(fails(self, mr, ENODEV));
	mr_close(mr);
}

/* The region gives no access then, but it can go to another buffer. */
TEST_F(buffer, rereg_leaves_a_revoked_buffer)
{
	struct ibv_mr *mr = must(reg(self, RWA));

	ASSERT_TRUE(is_at(self, mr, self->buf.cpu));
	take_memory(self->buf.fd);
	ASSERT_EQ(0, query(self->buf.fd).pages);
	/* This needs no memory. */
	need("rereg_mr_fd");
	ASSERT_EQ(0, ibv_rereg_mr_fd_iova(mr, CHANGE_ACCESS, NULL, 0, 0, 0, IBV_MR_FD_TYPE_DMABUF,
					  -1, RW));
	ASSERT_EQ(IBV_REREG_MR_ERR_INPUT, rereg(self, mr, self->buf.fd));
	ASSERT_EQ(ENODEV, errno);
	ASSERT_EQ(0, rereg(self, mr, self->vgem.fd));
	ASSERT_TRUE(is_at(self, mr, self->vgem.cpu));
	mr_close(mr);
}

/* A change of rights does not take the buffer again, and does not lose its moves. */
TEST_F(buffer, mr_follows_moves_after_an_access_change)
{
	struct ibv_mr *mr = must(reg(self, RWA));

	need("rereg_mr_fd");
	for (int i = 0; i < 4; i++) {
		ASSERT_EQ(0, move(self->buf.fd, 0));
		ASSERT_EQ(0, ibv_rereg_mr_fd_iova(mr, CHANGE_ACCESS, NULL, 0, 0, 0,
						  IBV_MR_FD_TYPE_DMABUF, -1, i % 2 ? RWA : RW));
		ASSERT_TRUE(is_at(self, mr, self->buf.cpu));
		ASSERT_EQ(0, move(self->buf.fd, 0));
		ASSERT_TRUE(is_at(self, mr, self->buf.cpu));
	}
	mr_close(mr);
}

/* A window names the MR, which is where the buffer is. */
TEST_F(buffer, window_follows_moves)
{
	struct ibv_mr *mr;
	struct ibv_mw *mw;

	need("window-dma-buf");
	mr = must(reg(self, ALL_ACCESS));
	mw = window_alloc(self->pair.pd, IBV_MW_TYPE_1);
	for (int i = 0; i < 4; i++) {
		struct ibv_mw_bind bind = {
			.send_flags = IBV_SEND_SIGNALED,
			.bind_info = { .mr = mr, .addr = IOVA + PAGE, .length = 2 * PAGE,
				       .mw_access_flags = REMOTE_WRITE },
		};

		ASSERT_EQ(0, ibv_bind_mw(self->pair.qp[1], mw, &bind));
		ASSERT_EQ(IBV_WC_SUCCESS, wait_wc(&self->pair, NULL));
		ASSERT_EQ(0, move(self->buf.fd, 0));
		fill(self->host.cpu, 5000, i);
		ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr,
						  self->host.iova, 5000, IOVA + PAGE + 7,
						  mw->rkey));
		ASSERT_TRUE(filled(self->buf.cpu + PAGE + 7, 5000, i, "by the window"));
	}
	ASSERT_EQ(0, ibv_dealloc_mw(mw));
	mr_close(mr);
}

static atomic_bool over;

static void *mover(void *fd)
{
	while (!over) {
		move((long)fd, 0);
		usleep(1000);
	}
	return NULL;
}

TEST_F_TIMEOUT(buffer, rereg_during_moves_keeps_the_bytes, 60)
{
	struct ibv_mr *mr = reg_good(self);
	pthread_t thread;
	long rounds = 0;

	ASSERT_EQ(0, pthread_create(&thread, NULL, mover, (void *)(long)self->buf.fd));
	for (; rounds < 5 || query(self->buf.fd).moves < MOVES; rounds++) {
		ASSERT_EQ(0, rereg(self, mr, self->buf.fd));
		ASSERT_TRUE(rdma_write(self, mr, rounds));
		ASSERT_TRUE(rdma_reads(self, mr, rounds));
		ASSERT_EQ(0, ibv_rereg_mr_fd_iova(mr, CHANGE_ACCESS, NULL, 0, 0, 0,
						  IBV_MR_FD_TYPE_DMABUF, -1, RW));
		ASSERT_TRUE(rdma_reads(self, mr, rounds));
		ASSERT_EQ(0, rereg(self, mr, self->vgem.fd));
		ASSERT_TRUE(filled(self->buf.cpu, SIZE, rounds, "buffer that moves"));
	}
	over = true;
	pthread_join(thread, NULL);
	TH_LOG("%ld rounds, %u moves", rounds, query(self->buf.fd).moves);
	mr_close(mr);
}

TEST_HARNESS_MAIN
