// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: rxe */
/* runs: full; devices: connectx */
/*
 * Bytes arrive where they belong, at every alignment and length, across pages that are not
 * neighbours in memory, in I/O memory and in system memory.
 *
 * A case tries each copy with the buffer at either end, and looks at the bytes around too.
 * exporters/accessors shows which accessors the kernel uses for I/O memory.
 */
#include "exporters/test_buffer.h"
#include "lib/depth.h"

FIXTURE_VARIANT(buffer)
{
	uint32_t flags;
};

FIXTURE_VARIANT_ADD(buffer, system_memory) { .flags = 0 };
FIXTURE_VARIANT_ADD(buffer, io_memory) { .flags = DMABUF_TEST_IOMEM };

FIXTURE_SETUP(buffer)
{
	if (variant->flags & DMABUF_TEST_IOMEM)
		need("vmap");
	buffer_open(self, variant->flags);
	fill(self->buf.cpu, SIZE, 99);
}

FIXTURE_TEARDOWN(buffer)
{
	EXPECT_TRUE(buffer_close(self));
}

#define ALIGNS 16
#define LENGTHS 33
#define AROUND 64

/* In the middle of a page, and so that a page border falls on every byte of a range. */
static const size_t places[] = { PAGE / 2, 2 * PAGE - 8, 3 * PAGE - 16, 4 * PAGE - 32 };

/* Whether the N bytes at AT have the pattern of SEED, and those around are as they were. */
static bool only_these(FIXTURE_DATA(buffer) *self, const uint8_t *before, size_t at, size_t n,
		       uint32_t seed)
{
	size_t from = at - AROUND;

	return filled(self->buf.cpu + at, n, seed, "buffer") &&
	       only_changed(self->buf.cpu + from, before + from, n + 2 * AROUND, AROUND, n);
}

/*
 * Copy into the buffer and out of it: by an RDMA write and a read if the buffer is at the
 * far end, by a read and a write if it is at the near end.
 */
static bool round_trip(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr, bool far, size_t at,
		       uint32_t n, uint32_t seed)
{
	enum ibv_wr_opcode in = far ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	enum ibv_wr_opcode out = far ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	struct ibv_mr *near_mr = far ? self->host_mr : mr, *far_mr = far ? mr : self->host_mr;
	size_t mem_at = AROUND + seed % 7;
	uint64_t host = self->host.iova + mem_at, buf = IOVA + at;
	uint64_t near_addr = far ? host : buf, far_addr = far ? buf : host;
	uint8_t before[AROUND + LENGTHS + AROUND];
	size_t from = at - AROUND;

	memcpy(before, self->buf.cpu + from, n + 2 * AROUND);
	fill(self->host.cpu + mem_at, n, seed);
	if (rdma_op(&self->pair, in, near_mr, near_addr, n, far_addr, far_mr->rkey) ||
	    !only_these(self, before - from, at, n, seed))
		return false;
	memset(self->host.cpu, 0x5a, 3 * AROUND);
	if (rdma_op(&self->pair, out, near_mr, near_addr, n, far_addr, far_mr->rkey))
		return false;
	return filled(self->host.cpu + mem_at, n, seed, "copied out") &&
	       self->host.cpu[mem_at - 1] == 0x5a && self->host.cpu[mem_at + n] == 0x5a;
}

/* The quick run tries each third length at an alignment, and the next ones at the next. */
static bool every_round_trip(FIXTURE_DATA(buffer) *self, bool far)
{
	struct ibv_mr *mr = must(reg(self, ALL_ACCESS));
	uint32_t seed = 0, step = depth(3, 1);

	for (int p = 0; p < sizeof(places) / sizeof(*places); p++)
		for (int align = 0; align < ALIGNS; align++)
			for (uint32_t n = 1 + align % step; n <= LENGTHS; n += step)
				if (!round_trip(self, mr, far, places[p] + align, n, ++seed)) {
					printf("# round trip of %u bytes at %zu failed\n", n,
					       places[p] + align);
					return false;
				}
	return !ibv_dereg_mr(mr);
}

TEST_F_TIMEOUT(buffer, every_alignment_works_at_the_remote_end, 240)
{
	ASSERT_TRUE(every_round_trip(self, true));
}

TEST_F_TIMEOUT(buffer, every_alignment_works_at_the_local_end, 240)
{
	ASSERT_TRUE(every_round_trip(self, false));
}

TEST_F(buffer, writes_and_reads_cross_packets_and_pages)
{
	struct ibv_mr *mr = must(reg(self, ALL_ACCESS));

	for (int i = 0; i < 16; i++) {
		size_t at = i * PAGE + 61 * i + 1;
		uint32_t n = 5 * PAGE + 37 * i + 3;

		memory_mark(&self->buf);
		fill(self->host.cpu, n, i);
		ASSERT_EQ(0, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr,
				     self->host.iova, n, IOVA + at, mr->rkey));
		ASSERT_TRUE(filled(self->buf.cpu + at, n, i, "buffer"));
		ASSERT_TRUE(memory_only_changed(&self->buf, at, n));
		memset(self->host.cpu, 0, n);
		ASSERT_EQ(0, rdma_op(&self->pair, IBV_WR_RDMA_READ, self->host_mr,
				     self->host.iova, n, IOVA + at, mr->rkey));
		ASSERT_TRUE(filled(self->host.cpu, n, i, "read back"));
	}
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(buffer, atomics_work_beside_a_page_border)
{
	struct ibv_mr *mr;
	uint8_t before[PAGE * 2];
	uint64_t value;

	need("atomics");
	mr = must(reg(self, ALL_ACCESS));
	for (size_t at = PAGE - 64; at < PAGE + 64; at += 8) {
		uint64_t *there = (uint64_t *)(self->buf.cpu + at);
		uint64_t *result = (uint64_t *)self->host.cpu;

		memcpy(before, self->buf.cpu, sizeof(before));
		value = *there;
		ASSERT_EQ(0, atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, self->host_mr,
				       IOVA + at, mr->rkey, 0x0102030405060708, 0));
		ASSERT_EQ(value, *result);
		value += 0x0102030405060708;
		ASSERT_EQ(value, *there);
		ASSERT_EQ(0, atomic_op(&self->pair, IBV_WR_ATOMIC_CMP_AND_SWP, self->host_mr,
				       IOVA + at, mr->rkey, value + 1, 7));
		ASSERT_EQ(value, *result);
		ASSERT_EQ(value, *there);
		ASSERT_EQ(0, atomic_op(&self->pair, IBV_WR_ATOMIC_CMP_AND_SWP, self->host_mr,
				       IOVA + at, mr->rkey, value, ~at));
		ASSERT_EQ(value, *result);
		ASSERT_EQ(~at, *there);
		if (device_can("atomic-write")) {
			ASSERT_EQ(0, atomic_write(&self->pair, IOVA + at, mr->rkey,
						  at * 0x1000001));
			ASSERT_EQ(at * 0x1000001, *there);
		}
		ASSERT_TRUE(only_changed(self->buf.cpu, before, sizeof(before), at, 8));
	}
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(buffer, atomic_result_lands_in_the_buffer)
{
	struct ibv_mr *mr;
	struct ibv_mr at_end;

	need("atomics");
	mr = must(reg(self, ALL_ACCESS));
	at_end = *mr;
	memcpy(self->host.cpu, "01234567", 8);
	for (size_t at = PAGE - 16; at <= PAGE + 16; at += 8) {
		at_end.addr = (void *)(IOVA + at);
		ASSERT_EQ(0, atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, &at_end,
				       self->host.iova, self->host_mr->rkey, 0, 0));
		ASSERT_EQ(0, memcmp(self->buf.cpu + at, "01234567", 8));
	}
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_HARNESS_MAIN
