// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full kcsan; devices: rxe */
/* runs: quick debug-full; devices: connectx pinned direct */
/*
 * Data moves between a buffer that is registered by fd and ordinary memory, in every direction,
 * by every operation, for every exporter.
 *
 * The ranges have odd offsets, cross pages and packets (the path MTU is 1024), and reach up to
 * the last byte.  After each operation a case looks at both ends, and at the bytes around the
 * range.
 */
#include "lib/fd_mr.h"

static const struct range {
	long from;	/* negative: counted from the end of the buffer */
	uint32_t n;
} ranges[] = {
	{ 0, 1 }, { 0, 4096 }, { 1, 7 }, { 3, 1024 }, { 4095, 2 }, { 4093, 4099 },
	{ 8191, 3 * 4096 + 5 }, { 65537, 100001 }, { -1, 1 }, { -4097, 4097 }, { -70001, 70001 },
};

static size_t range_start(const struct range *r, size_t size)
{
	return r->from < 0 ? size + r->from : (size_t)r->from;
}

#define for_each_range(r) \
	for (const struct range *r = ranges; r < ranges + sizeof(ranges) / sizeof(*ranges); r++)

TEST_F(fd_mr, write_lands_in_the_buffer_and_nowhere_else)
{
	for_each_range(r) {
		size_t at = range_start(r, self->buf.size);

		fill(self->host.cpu, r->n, at);
		ASSERT_EQ(IBV_WC_SUCCESS,
			  rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova,
				  r->n, IOVA + at, self->mr->rkey));
		ASSERT_TRUE(filled(self->buf.cpu + at, r->n, at, "buffer"));
		ASSERT_TRUE(memory_only_changed(&self->buf, at, r->n));
		memcpy(self->buf.cpu + at, self->buf.before + at, r->n);
	}
}

TEST_F(fd_mr, read_returns_the_bytes_of_the_buffer)
{
	for_each_range(r) {
		size_t at = range_start(r, self->buf.size);

		fill(self->buf.cpu + at, r->n, at + 1);
		memset(self->host.cpu, 0, SIZE);
		ASSERT_EQ(IBV_WC_SUCCESS,
			  rdma_op(&self->pair, IBV_WR_RDMA_READ, self->host_mr, self->host.iova,
				  r->n, IOVA + at, self->mr->rkey));
		ASSERT_TRUE(filled(self->host.cpu, r->n, at + 1, "memory"));
		ASSERT_EQ(0, self->host.cpu[r->n]);
	}
}

TEST_F(fd_mr, write_with_immediate_moves_data_and_notifies)
{
	for_each_range(r) {
		size_t at = range_start(r, self->buf.size);

		memory_mark(&self->buf);
		fill(self->host.cpu, r->n, at + 2);
		post_recv(&self->pair, NULL, 0, 0);
		ASSERT_EQ(IBV_WC_SUCCESS,
			  rdma_op(&self->pair, IBV_WR_RDMA_WRITE_WITH_IMM, self->host_mr,
				  self->host.iova, r->n, IOVA + at, self->mr->rkey));
		ASSERT_TRUE(filled(self->buf.cpu + at, r->n, at + 2, "buffer"));
		ASSERT_TRUE(memory_only_changed(&self->buf, at, r->n));
	}
}

TEST_F(fd_mr, receive_lands_in_the_buffer)
{
	for_each_range(r) {
		size_t at = range_start(r, self->buf.size);

		fill(self->host.cpu, r->n, at + 3);
		post_recv(&self->pair, self->mr, IOVA + at, r->n);
		ASSERT_EQ(IBV_WC_SUCCESS,
			  rdma_op(&self->pair, IBV_WR_SEND, self->host_mr, self->host.iova,
				  r->n, 0, 0));
		ASSERT_TRUE(filled(self->buf.cpu + at, r->n, at + 3, "buffer"));
		ASSERT_TRUE(memory_only_changed(&self->buf, at, r->n));
		memcpy(self->buf.cpu + at, self->buf.before + at, r->n);
	}
}

TEST_F(fd_mr, send_carries_the_bytes_of_the_buffer)
{
	for_each_range(r) {
		size_t at = range_start(r, self->buf.size);

		fill(self->buf.cpu + at, r->n, at + 4);
		memset(self->host.cpu, 0, SIZE);
		post_recv(&self->pair, self->host_mr, self->host.iova, SIZE);
		ASSERT_EQ(IBV_WC_SUCCESS,
			  rdma_op(&self->pair, IBV_WR_SEND, self->mr, IOVA + at, r->n, 0, 0));
		ASSERT_TRUE(filled(self->host.cpu, r->n, at + 4, "memory"));
		ASSERT_EQ(0, self->host.cpu[r->n]);
	}
}

TEST_F(fd_mr, one_buffer_is_source_and_target)
{
	size_t half = self->buf.size / 2;
	uint32_t n = 30001;

	fill(self->buf.cpu + 5, n, 5);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->mr, IOVA + 5, n,
					  IOVA + half + 11, self->mr->rkey));
	ASSERT_TRUE(filled(self->buf.cpu + half + 11, n, 5, "written"));
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_RDMA_READ, self->mr, IOVA + 40001, n,
					  IOVA + half + 11, self->mr->rkey));
	ASSERT_TRUE(filled(self->buf.cpu + 40001, n, 5, "read"));
}

TEST_F(fd_mr, mr_begins_at_its_offset)
{
	const size_t offset = 3 * PAGE + 17, n = 2 * PAGE + 100;
	const uint64_t iova = 0x123456000ul + 17;
	struct ibv_mr *mr = must(ibv_reg_mr_fd_iova(self->pair.pd, offset, n, iova,
						    IBV_MR_FD_TYPE_DMABUF, self->buf.fd,
						    RWA));

	ASSERT_EQ(iova, (uintptr_t)mr->addr);
	ASSERT_EQ(n, mr->length);
	fill(self->host.cpu, n, 7);
	ASSERT_EQ(IBV_WC_SUCCESS,
		  rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova,
			  n, iova, mr->rkey));
	ASSERT_TRUE(filled(self->buf.cpu + offset, n, 7, "buffer"));
	ASSERT_TRUE(memory_only_changed(&self->buf, offset, n));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(fd_mr, ibv_reg_mr_fd_takes_the_offset_from_the_address)
{
	void *addr = (void *)(IOVA + 5 * PAGE + 100);
	struct ibv_mr *mr = must(ibv_reg_mr_fd(self->pair.pd, addr, 1000, IBV_MR_FD_TYPE_DMABUF,
					       self->buf.fd, RWA));

	fill(self->host.cpu, 1000, 8);
	ASSERT_EQ(IBV_WC_SUCCESS,
		  rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova,
			  1000, (uintptr_t)addr, mr->rkey));
	ASSERT_TRUE(filled(self->buf.cpu + 100, 1000, 8, "buffer"));
	ASSERT_TRUE(memory_only_changed(&self->buf, 100, 1000));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(fd_mr, write_lands_in_mr_of_ibv_reg_dmabuf_mr)
{
	struct ibv_mr *mr = must(ibv_reg_dmabuf_mr(self->pair.pd, PAGE, 2 * PAGE, PAGE,
						   self->buf.fd, RWA));

	fill(self->host.cpu, 5000, 9);
	ASSERT_EQ(IBV_WC_SUCCESS,
		  rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova,
			  5000, PAGE + 10, mr->rkey));
	ASSERT_TRUE(filled(self->buf.cpu + PAGE + 10, 5000, 9, "buffer"));
	ASSERT_TRUE(memory_only_changed(&self->buf, PAGE + 10, 5000));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

static uint64_t word_at(const struct memory *m, size_t at)
{
	uint64_t word;

	memcpy(&word, m->cpu + at, 8);
	return word;
}

TEST_F(fd_mr, compare_and_swap_swaps_on_equal_only)
{
	uint64_t *old = (uint64_t *)self->host.cpu;
	size_t at = self->buf.size - 8;
	uint64_t was = word_at(&self->buf, at);

	ASSERT_EQ(IBV_WC_SUCCESS, atomic_op(&self->pair, IBV_WR_ATOMIC_CMP_AND_SWP, self->host_mr,
					    IOVA + at, self->mr->rkey, was + 1, 42));
	ASSERT_EQ(was, *old);
	ASSERT_EQ(was, word_at(&self->buf, at));
	ASSERT_EQ(IBV_WC_SUCCESS, atomic_op(&self->pair, IBV_WR_ATOMIC_CMP_AND_SWP, self->host_mr,
					    IOVA + at, self->mr->rkey, was, 42));
	ASSERT_EQ(was, *old);
	ASSERT_EQ(42, word_at(&self->buf, at));
	ASSERT_TRUE(memory_only_changed(&self->buf, at, 8));
}

TEST_F(fd_mr, fetch_and_add_adds_and_carries)
{
	uint64_t *old = (uint64_t *)self->host.cpu;
	uint64_t was = 0xffffffffull;

	memcpy(self->buf.cpu + PAGE - 8, &was, 8);
	ASSERT_EQ(IBV_WC_SUCCESS, atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, self->host_mr,
					    IOVA + PAGE - 8, self->mr->rkey, 2, 0));
	ASSERT_EQ(was, *old);
	ASSERT_EQ(was + 2, word_at(&self->buf, PAGE - 8));
	ASSERT_TRUE(memory_only_changed(&self->buf, PAGE - 8, 8));
}

TEST_F(fd_mr, atomic_write_stores_eight_bytes)
{
	ASSERT_EQ(IBV_WC_SUCCESS, atomic_write(&self->pair, IOVA + 16, self->mr->rkey,
					       0x1122334455667788ull));
	ASSERT_EQ(0x1122334455667788ull, word_at(&self->buf, 16));
	ASSERT_TRUE(memory_only_changed(&self->buf, 16, 8));
}

TEST_F(fd_mr, misaligned_fetch_and_add_is_refused)
{
	ASSERT_EQ(IBV_WC_REM_INV_REQ_ERR,
		  fetch_add_unchecked(&self->pair, self->host_mr, IOVA + 4, self->mr->rkey));
	ASSERT_TRUE(memory_untouched(&self->buf));
}

TEST_F(fd_mr, misaligned_atomic_write_is_refused)
{
	ASSERT_EQ(IBV_WC_REM_INV_REQ_ERR,
		  atomic_write(&self->pair, IOVA + 4, self->mr->rkey, 1));
	ASSERT_TRUE(memory_untouched(&self->buf));
}

/* Only a memfd supports flush; interface/errors tries it on a dma-buf. */
FIXTURE(memfd_mr)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory buf;
	struct ibv_mr *mr;	/* of buf, byte 0 at IOVA */
};

FIXTURE_VARIANT(memfd_mr)
{
	int rights;
	enum ibv_wc_status status;	/* of a flush that is in the range */
};

FIXTURE_VARIANT_ADD(memfd_mr, with_the_right) {
	ALL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL, IBV_WC_SUCCESS
};
FIXTURE_VARIANT_ADD(memfd_mr, without_the_right) { ALL_ACCESS, IBV_WC_REM_ACCESS_ERR };

FIXTURE_SETUP(memfd_mr)
{
	need("flush");
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	memory_open(&self->buf, MEMFD, SIZE);
	self->mr = memory_reg(&self->buf, self->pair.pd, variant->rights);
}

FIXTURE_TEARDOWN(memfd_mr)
{
	mr_close(self->mr);
	pair_close(&self->pair);
	device_close(self->ctx);
	memory_close(&self->buf);
}

TEST_F(memfd_mr, flush_needs_access_flush_global)
{
	uint64_t at = IOVA + 3 * PAGE - 8;

	ASSERT_EQ(IBV_WC_SUCCESS, atomic_write(&self->pair, at, self->mr->rkey, 42));
	EXPECT_EQ(variant->status, flush_op(&self->pair, at, PAGE, self->mr->rkey));
	EXPECT_EQ(42, word_at(&self->buf, 3 * PAGE - 8));
}

TEST_F(memfd_mr, flush_past_the_end_is_refused)
{
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  flush_op(&self->pair, IOVA + SIZE - PAGE, PAGE + 1, self->mr->rkey));
}

TEST_HARNESS_MAIN
