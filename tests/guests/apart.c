// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A GPU and a ConnectX without a path between them: each is behind a root port of its own,
 * and pci_p2pdma_distance() refuses.  The GPU then takes peer-to-peer away from the importer,
 * and a buffer is registered all the same, in system memory, unless it may not go there.
 *
 * A device that page-faults holds nothing: the buffer may go back to VRAM, and the next
 * access fetches it.  One that does not pins it in system memory.
 */
#include "exporters/gpu_buffer.h"

FIXTURE(apart)
{
	struct gpu_case c;
};

FIXTURE_SETUP(apart)
{
	case_open(&self->c, GPU_VRAM, 0);
}

FIXTURE_TEARDOWN(apart)
{
	EXPECT_TRUE(case_close(&self->c));
}

TEST_F(apart, buffer_without_p2p_is_reached_in_system_memory)
{
	struct gpu_case *c = &self->c;
	struct mrfd_gpu_query q;
	struct ibv_mr *mr;

	fill(c->buf.cpu, SIZE, 1);
	ASSERT_EQ(MRFD_GPU_VRAM, gpu_query(&c->buf).place);
	mr = must(case_reg(c));
	q = gpu_query(&c->buf);
	ASSERT_EQ(MRFD_GPU_NO_PATH, q.why);
	ASSERT_EQ(1, q.attachments);
	ASSERT_EQ(0, q.peers);
	ASSERT_EQ(1, q.maps);
	ASSERT_EQ(pins(), q.pins);
	ASSERT_EQ(MRFD_GPU_SYSTEM, q.place);
	ASSERT_TRUE(rdma_reads(c, mr, 1));
	ASSERT_TRUE(rdma_write(c, mr, 2));
	ASSERT_TRUE(filled(c->buf.cpu, SIZE, 2, "buffer"));
	mr_close(mr);
}

TEST_F(apart, moved_buffer_is_fetched_or_the_move_is_ebusy)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr;

	mr = must(case_reg(c));
	if (pins()) {
		ASSERT_EQ(EBUSY, gpu_move(&c->buf, MRFD_GPU_VRAM, 0));
		ASSERT_EQ(MRFD_GPU_SYSTEM, gpu_query(&c->buf).place);
		mr_close(mr);
		return;
	}
	for (int i = 0; i < 10; i++) {
		ASSERT_EQ(0, gpu_move(&c->buf, MRFD_GPU_VRAM, 0));
		ASSERT_EQ(MRFD_GPU_VRAM, gpu_query(&c->buf).place);
		fill(c->buf.cpu, SIZE, 2 * i);
		ASSERT_TRUE(rdma_reads(c, mr, 2 * i));
		ASSERT_EQ(MRFD_GPU_SYSTEM, gpu_query(&c->buf).place);
		ASSERT_TRUE(rdma_write(c, mr, 2 * i + 1));
		ASSERT_TRUE(filled(c->buf.cpu, SIZE, 2 * i + 1, "buffer"));
	}
	mr_close(mr);
}

/* Where it must stay, the device cannot reach it; nothing is left of the attempt. */
TEST_F(apart, buffer_that_must_stay_in_vram_is_refused)
{
	static const struct { uint32_t flags; int paging, pinning; } kind[] = {
		{ MRFD_GPU_ONLY, EOPNOTSUPP, EOPNOTSUPP },	/* at attach */
		{ MRFD_GPU_PINNED, EBUSY, EINVAL },		/* at map, at pin */
	};
	struct gpu_case *c = &self->c;

	for (int i = 0; i < ARRAY_SIZE(kind); i++) {
		case_replace(c, GPU_VRAM, kind[i].flags);
		fill(c->buf.cpu, SIZE, 3);
		ASSERT_EQ(NULL, case_reg(c));
		ASSERT_EQ(pins() ? kind[i].pinning : kind[i].paging, errno) {
			TH_LOG("buffer with flags %#x", kind[i].flags);
		}
		ASSERT_EQ(MRFD_GPU_NO_PATH, gpu_query(&c->buf).why);
		ASSERT_EQ(MRFD_GPU_VRAM, gpu_query(&c->buf).place);
		ASSERT_TRUE(gpu_at_rest(&c->buf));
		ASSERT_TRUE(filled(c->buf.cpu, SIZE, 3, "buffer"));
	}
}

TEST_HARNESS_MAIN
