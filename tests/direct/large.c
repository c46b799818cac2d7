// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: direct */
/*
 * MRs of Data Direct of large buffers, from one piece of memory to thousands, at addresses that
 * let the card have large pages and at others: each byte is reached, and none outside of the MR,
 * which ends in the middle of a page.
 *
 * The driver's list of pages has an entry for as much as memory, offset and iova have in common;
 * host/direct looks at how much that is.
 */
#include "lib/case.h"
#include "lib/counts.h"
#include "lib/depth.h"
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/pieces.h"
#include <infiniband/mlx5dv.h>
#include <string.h>

#define MIB (1ul << 20)
#define END (3 * PAGE + 7)	/* what the MR leaves out at the end of the buffer */

FIXTURE(large)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory buf, host;
	struct ibv_mr *mr, *host_mr;
	uint64_t offset, iova, length;	/* of mr */
};

/* PIECE: see lib/pieces.h; 0: of vgem, whose pages lie where they lie. */
FIXTURE_VARIANT(large)
{
	size_t size, piece, offset;
	uint64_t iova;
};

FIXTURE_VARIANT_ADD(large, huge_pages) { .size = 64 * MIB, .piece = HUGE_PAGE, .iova = IOVA };
/* runs: full */
FIXTURE_VARIANT_ADD(large, huge_pages_at_64_kib)
{
	.size = 64 * MIB, .piece = HUGE_PAGE, .iova = IOVA + 16 * PAGE,
};
FIXTURE_VARIANT_ADD(large, huge_pages_at_a_page)
{
	.size = 64 * MIB, .piece = HUGE_PAGE, .iova = IOVA + PAGE,
};
/* runs: full */
FIXTURE_VARIANT_ADD(large, huge_pages_from_an_offset)
{
	.size = 64 * MIB, .piece = HUGE_PAGE, .offset = 3 * MIB, .iova = IOVA + HUGE_PAGE,
};
FIXTURE_VARIANT_ADD(large, pieces_of_64_kib)
{
	.size = 64 * MIB, .piece = 16 * PAGE, .offset = 5 * PAGE, .iova = IOVA + 5 * PAGE,
};
FIXTURE_VARIANT_ADD(large, pieces_of_a_page) { .size = 4 * MIB, .piece = PAGE, .iova = IOVA };
/* runs: full */
FIXTURE_VARIANT_ADD(large, scattered_pages) { .size = 64 * MIB, .iova = IOVA };

static struct ibv_mr *reg(FIXTURE_DATA(large) *self)
{
	return must(mlx5dv_reg_dmabuf_mr(self->pair.pd, self->offset, self->length, self->iova,
					 self->buf.fd, RWA,
					 MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT));
}

FIXTURE_SETUP(large)
{
	/* A quick run has as many pieces of an eighth of the buffer. */
	size_t size = variant->size > 4 * MIB ? variant->size / depth(8, 1) : variant->size;

	need("direct");
	ASSERT_TRUE(nothing_left());
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	if (variant->piece) {
		hugepages_make(size / HUGE_PAGE);
		pieces_open(&self->buf, size, variant->piece);
	} else {
		memory_open(&self->buf, VGEM, size);
	}
	memory_open(&self->host, HOST, size);
	self->host_mr = memory_reg(&self->host, self->pair.pd, RWA);
	self->offset = variant->offset;
	self->iova = variant->iova;
	self->length = size - self->offset - END;
	self->mr = reg(self);
}

FIXTURE_TEARDOWN(large)
{
	mr_close(self->mr);
	mr_close(self->host_mr);
	pair_close(&self->pair);
	device_close(self->ctx);
	memory_close(&self->buf);
	memory_close(&self->host);
	EXPECT_TRUE(nothing_left());
	hugepages_make(0);
}

static enum ibv_wc_status op(FIXTURE_DATA(large) *self, enum ibv_wr_opcode opcode, uint64_t at,
			     uint32_t n)
{
	enum ibv_wc_status status = rdma_op(&self->pair, opcode, self->host_mr, self->host.iova, n,
					    self->iova + at, self->mr->rkey);

	if (status)
		pair_connect(&self->pair, IBV_MTU_1024);
	return status;
}

/*
 * Packets of the write, which begins at the second byte, go from page to page; those of the read
 * end with a page.
 */
TEST_F_TIMEOUT(large, every_byte_is_reached_and_no_other, 300)
{
	uint8_t *first = self->buf.cpu + self->offset, *end = first + self->length;
	uint64_t n = self->length - 1;

	fill(self->buf.cpu, self->offset + 1, 1);
	memset(first + 1, 0x77, n);
	fill(end, END, 2);

	fill(self->host.cpu, n, 3);
	ASSERT_EQ(IBV_WC_SUCCESS, op(self, IBV_WR_RDMA_WRITE, 1, n));
	ASSERT_TRUE(filled(first + 1, n, 3, "written"));
	memset(self->host.cpu, 0, n);
	ASSERT_EQ(IBV_WC_SUCCESS, op(self, IBV_WR_RDMA_READ, 0, self->length));
	ASSERT_EQ(*first, *self->host.cpu);
	ASSERT_TRUE(filled(self->host.cpu + 1, n, 3, "read"));

	ASSERT_TRUE(filled(self->buf.cpu, self->offset + 1, 1, "before the write"));
	ASSERT_TRUE(filled(end, END, 2, "behind the MR"));
}

/* Also not what the card's page has besides. */
TEST_F(large, nothing_outside_of_the_mr_is_reached)
{
	const struct { uint64_t at; uint32_t n; bool inside; } ranges[] = {
		{ -1, 1, false }, { 0, 1, true }, { self->length - 1, 1, true },
		{ self->length - 1, 2, false }, { self->length, 1, false },
		{ self->length + END, 1, false }, { self->length / 2, PAGE + 1, true },
	};

	fill(self->buf.cpu, self->buf.size, 5);
	fill(self->host.cpu, PAGE + 1, 6);
	for (int i = 0; i < 7; i++) {
		bool inside = ranges[i].inside;
		enum ibv_wc_status allowed = inside ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;

		EXPECT_EQ(allowed, op(self, IBV_WR_RDMA_WRITE, ranges[i].at, ranges[i].n))
			TH_LOG("write of range %d", i);
		if (inside) {
			uint8_t *to = self->buf.cpu + self->offset + ranges[i].at;

			EXPECT_TRUE(filled(to, ranges[i].n, 6, "inside"));
		}
	}
	EXPECT_TRUE(filled(self->buf.cpu, self->offset, 5, "in front of the MR"));
	for (int i = 0; i < 7; i++) {
		if (ranges[i].inside)
			continue;
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
			  op(self, IBV_WR_RDMA_READ, ranges[i].at, ranges[i].n))
			TH_LOG("read of range %d", i);
	}
}

/* The mkey with the list is one that was used before. */
TEST_F(large, mkey_of_other_pages_is_used_again)
{
	for (int i = 0; i < 4; i++) {
		uint64_t n = self->length / 2;
		uint32_t old = self->mr->rkey;

		mr_close(self->mr);
		self->mr = NULL;
		self->offset ^= 9 * PAGE;
		self->iova ^= 9 * PAGE;
		self->length = n;
		self->mr = reg(self);
		ASSERT_NE(old, self->mr->rkey);
		fill(self->host.cpu, n, i);
		memset(self->buf.cpu, 0x77, self->buf.size);
		ASSERT_EQ(IBV_WC_SUCCESS, op(self, IBV_WR_RDMA_WRITE, 0, n));
		ASSERT_TRUE(filled(self->buf.cpu + self->offset, n, i, "written"));
	}
}

TEST_HARNESS_MAIN
