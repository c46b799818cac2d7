// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: rxe */
/* runs: quick; devices: connectx */
/* runs: full; devices: pinned direct */
/*
 * A peer cannot reach what it must not reach of a buffer that is registered by fd, and a refused
 * operation writes nothing.
 *
 * A case with a refused write looks at the whole buffer at the end: nothing was written, not
 * even the part that is inside of the region.
 */
#include "lib/fd_mr.h"

static enum ibv_wc_status write_at(FIXTURE_DATA(fd_mr) *self, uint64_t addr, uint32_t n,
				   uint32_t rkey)
{
	return rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova, n, addr,
		       rkey);
}

/* An MR of the page of the buffer that begins at OFFSET. */
static struct ibv_mr *reg_page(FIXTURE_DATA(fd_mr) *self, uint64_t offset, uint64_t iova,
			       int access)
{
	return must(ibv_reg_mr_fd_iova(self->pair.pd, offset, PAGE, iova, IBV_MR_FD_TYPE_DMABUF,
				       self->buf.fd, access));
}

TEST_F(fd_mr, write_one_byte_past_the_end_writes_nothing)
{
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
		  write_at(self, IOVA + self->buf.size - 5000, 5001, self->mr->rkey));
	ASSERT_TRUE(memory_untouched(&self->buf));
}

TEST_F(fd_mr, write_after_the_end_is_refused)
{
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
		  write_at(self, IOVA + self->buf.size, 1, self->mr->rkey));
	ASSERT_TRUE(memory_untouched(&self->buf));
}

TEST_F(fd_mr, write_before_the_start_is_refused)
{
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, write_at(self, IOVA - 1, 2, self->mr->rkey));
	ASSERT_TRUE(memory_untouched(&self->buf));
}

TEST_F(fd_mr, write_that_wraps_is_refused)
{
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, write_at(self, -16ull, 64, self->mr->rkey));
	ASSERT_TRUE(memory_untouched(&self->buf));
}

TEST_F(fd_mr, write_that_wraps_to_iova_0_is_refused)
{
	struct ibv_mr *mr = reg_page(self, 0, 0, RWA);

	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, write_at(self, -16ull, 64, mr->rkey));
	ASSERT_TRUE(memory_untouched(&self->buf));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(fd_mr, read_past_the_end_is_refused)
{
	memset(self->host.cpu, 0x55, SIZE);
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
		  rdma_op(&self->pair, IBV_WR_RDMA_READ, self->host_mr, self->host.iova, 5001,
			  IOVA + self->buf.size - 5000, self->mr->rkey));
	for (int i = 0; i < 5001; i++)
		ASSERT_EQ(0x55, self->host.cpu[i]);
}

TEST_F(fd_mr, receive_past_the_end_is_refused)
{
	post_recv(&self->pair, self->mr, IOVA + self->buf.size - 100, 200);
	ASSERT_NE(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_SEND, self->host_mr,
					  self->host.iova, 200, 0, 0));
	ASSERT_TRUE(memory_untouched(&self->buf));
}

TEST_F(fd_mr, atomic_past_the_end_is_refused)
{
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
		  atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, self->host_mr,
			    IOVA + self->buf.size, self->mr->rkey, 1, 0));
	ASSERT_TRUE(memory_untouched(&self->buf));
}

TEST_F(fd_mr, atomic_write_past_the_end_is_refused)
{
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
		  atomic_write(&self->pair, IOVA + self->buf.size, self->mr->rkey, 1));
	ASSERT_TRUE(memory_untouched(&self->buf));
}

TEST_F(fd_mr, mr_of_one_page_does_not_reach_the_next)
{
	struct ibv_mr *mr = reg_page(self, PAGE, IOVA, RWA);

	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, write_at(self, IOVA + PAGE, 1, mr->rkey));
	ASSERT_TRUE(memory_untouched(&self->buf));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

static enum ibv_wc_status try_with(FIXTURE_DATA(fd_mr) *self, int access, enum ibv_wr_opcode op)
{
	struct ibv_mr *mr = reg_page(self, 0, IOVA, access);
	enum ibv_wc_status status;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		status = atomic_op(&self->pair, op, self->host_mr, IOVA, mr->rkey, 1, 0);
	else
		status = rdma_op(&self->pair, op, self->host_mr, self->host.iova, 8, IOVA,
				 mr->rkey);
	mr_close(mr);
	return status;
}

TEST_F(fd_mr, write_without_remote_write_is_refused)
{
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
		  try_with(self, RWA & ~REMOTE_WRITE, IBV_WR_RDMA_WRITE));
	ASSERT_TRUE(memory_untouched(&self->buf));
}

TEST_F(fd_mr, read_without_remote_read_is_refused)
{
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
		  try_with(self, RWA & ~REMOTE_READ, IBV_WR_RDMA_READ));
}

TEST_F(fd_mr, atomic_without_remote_atomic_is_refused)
{
	need("atomics");
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, try_with(self, RWA & ~REMOTE_ATOMIC,
						  IBV_WR_ATOMIC_FETCH_AND_ADD));
	ASSERT_TRUE(memory_untouched(&self->buf));
}

TEST_F(fd_mr, receive_without_local_write_is_refused)
{
	struct ibv_mr *mr = reg_page(self, 0, IOVA, 0);

	post_recv(&self->pair, mr, IOVA, 100);
	ASSERT_NE(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_SEND, self->host_mr,
					  self->host.iova, 100, 0, 0));
	ASSERT_TRUE(memory_untouched(&self->buf));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(fd_mr, rkey_is_refused_after_dereg)
{
	struct ibv_mr *mr = reg_page(self, 0, IOVA, RWA);
	uint32_t rkey = mr->rkey;

	ASSERT_EQ(0, ibv_dereg_mr(mr));
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, write_at(self, IOVA, 8, rkey));
	ASSERT_TRUE(memory_untouched(&self->buf));
}

/* A window on the MR of the fixture. */
static struct ibv_mw *window_of_type_2(FIXTURE_DATA(fd_mr) *self)
{
	need("window-dma-buf");
	return window_alloc(self->pair.pd, IBV_MW_TYPE_2);
}

/* The status of a refused bind depends on the device; the library may refuse it too. */
static int bind_mw(FIXTURE_DATA(fd_mr) *self, struct ibv_mw *mw, uint64_t addr,
		   uint64_t length, unsigned int access, uint32_t *rkey)
{
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = mw, .rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = { .mr = self->mr, .addr = addr, .length = length,
				       .mw_access_flags = access },
		},
	};

	*rkey = wr.bind_mw.rkey;
	/* A type 2B window belongs to the QP that binds it, the responder. */
	if (ibv_post_send(self->pair.qp[1], &wr, &bad))
		return -1;
	return wait_wc(&self->pair, NULL);
}

/* Whether the bind is refused, or at least each use of the window, of N bytes at its end. */
static bool window_is_refused(FIXTURE_DATA(fd_mr) *self, uint64_t addr, uint64_t length, int n)
{
	struct ibv_mw *mw = window_of_type_2(self);
	uint32_t rkey;
	bool refused = bind_mw(self, mw, addr, length, REMOTE_WRITE, &rkey) != IBV_WC_SUCCESS ||
		       (!device_can("window-checks") &&
			write_at(self, addr + length - n, n, rkey) == IBV_WC_REM_ACCESS_ERR);

	return !ibv_dealloc_mw(mw) && refused;
}

TEST_F(fd_mr, window_carries_writes_until_dealloc)
{
	struct ibv_mw *mw = window_of_type_2(self);
	uint32_t rkey;

	ASSERT_EQ(IBV_WC_SUCCESS, bind_mw(self, mw, IOVA + PAGE + 1, 3000,
					  REMOTE_WRITE, &rkey));
	fill(self->host.cpu, 3000, 12);
	ASSERT_EQ(IBV_WC_SUCCESS, write_at(self, IOVA + PAGE + 1, 3000, rkey));
	ASSERT_TRUE(filled(self->buf.cpu + PAGE + 1, 3000, 12, "buffer"));
	ASSERT_TRUE(memory_only_changed(&self->buf, PAGE + 1, 3000));

	/* An MR cannot be deregistered while a window is bound to it. */
	if (device_can("window-holds"))
		ASSERT_NE(0, ibv_dereg_mr(self->mr));
	ASSERT_EQ(0, ibv_dealloc_mw(mw));
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, write_at(self, IOVA + PAGE + 1, 8, rkey));
}

TEST_F(fd_mr, window_does_not_reach_past_its_mr)
{
	ASSERT_TRUE(window_is_refused(self, IOVA + self->buf.size - 5, 6, 6));
	ASSERT_TRUE(memory_only_changed(&self->buf, self->buf.size - 5, 5));
}

TEST_F(fd_mr, window_that_wraps_is_refused)
{
	ASSERT_TRUE(window_is_refused(self, IOVA + 8, -8ull, 8));
	ASSERT_TRUE(memory_untouched(&self->buf));
}

TEST_F(fd_mr, bind_with_flush_access_is_refused)
{
	struct ibv_mw *mw;
	uint32_t rkey;

	need("flush");
	mw = window_of_type_2(self);
	ASSERT_NE(IBV_WC_SUCCESS, bind_mw(self, mw, IOVA, PAGE,
					  REMOTE_WRITE | IBV_ACCESS_FLUSH_GLOBAL, &rkey));
	ASSERT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_HARNESS_MAIN
