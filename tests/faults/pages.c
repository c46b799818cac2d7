// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: steps gpu; devices: connectx */
/*
 * A buffer of a GPU moves to where its pages have another size, and one of the UMRs fails by which
 * the mkey follows.  Whatever it has done by then, the device does not reach the pages of before
 * when the buffer moves again, and reaches those of then.
 *
 * A prefetch that waits does what a page fault does, in the thread of the case, for which the step
 * counts.
 */
#include "faults/step_module.h"
#include "lib/counts.h"
#include "lib/gpu.h"
#include "lib/harness.h"
#include "lib/pair.h"
#include "lib/pattern.h"

#define UMR "mlx5r_umr_post_send_wait argument 2 0xffffff00"	/* there is no such mkey */
#define SIZE (1024 * PAGE)

FIXTURE(pages)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory page, buf, host;
	struct ibv_mr *mr, *host_mr;
	struct step umr;
};

FIXTURE_VARIANT(pages)
{
	uint32_t to;
};

/* In VRAM the buffer begins behind a page of another one, in system memory it is one large piece. */
FIXTURE_VARIANT_ADD(pages, smaller_in_vram) { .to = MRFD_GPU_VRAM };
FIXTURE_VARIANT_ADD(pages, larger_in_system_memory) { .to = MRFD_GPU_SYSTEM };

FIXTURE_SETUP(pages)
{
	need("follows-moves");
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	memory_open(&self->host, HOST, SIZE);
	self->host_mr = memory_reg(&self->host, self->pair.pd, ALL_ACCESS);
	memory_open(&self->page, GPU_VRAM, PAGE);
	memory_open(&self->buf, GPU_VRAM, SIZE);
	self->mr = memory_reg(&self->buf, self->pair.pd, RWA);
	step_open(&self->umr);
	step_set(&self->umr, UMR);
}

FIXTURE_TEARDOWN(pages)
{
	step_close(&self->umr);
	mr_close(self->mr);
	EXPECT_TRUE(gpu_at_rest(&self->buf));
	memory_close(&self->buf);
	memory_close(&self->page);
	mr_close(self->host_mr);
	memory_close(&self->host);
	pair_close(&self->pair);
	device_close(self->ctx);
	EXPECT_TRUE(nothing_left());
}

static int prefetch(FIXTURE_DATA(pages) *self)
{
	struct ibv_sge sge = { self->buf.iova, SIZE, self->mr->lkey };

	return ibv_advise_mr(self->pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

static bool is_written(FIXTURE_DATA(pages) *self, uint32_t seed)
{
	fill(self->host.cpu, SIZE, seed);
	return !rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova, SIZE,
			self->buf.iova, self->mr->rkey) &&
	       filled(self->buf.cpu, SIZE, seed, "the buffer");
}

TEST_F_TIMEOUT(pages, device_leaves_them_whatever_umr_fails, 120)
{
	uint32_t from = variant->to == MRFD_GPU_VRAM ? MRFD_GPU_SYSTEM : MRFD_GPU_VRAM;
	unsigned int n = 0;

	do {
		ASSERT_EQ(0, gpu_move(&self->buf, from, 0));
		ASSERT_EQ(0, prefetch(self));
		ASSERT_EQ(0, gpu_move(&self->buf, variant->to, 0));

		step_at(&self->umr, ++n);
		if (!prefetch(self)) {
			ASSERT_FALSE(step_end(&self->umr));
			break;
		}
		ASSERT_TRUE(step_end(&self->umr));

		ASSERT_EQ(0, gpu_move(&self->buf, from, 0));
		ASSERT_TRUE(is_written(self, 2 * n)) { TH_LOG("after UMR %u has failed", n); }
		ASSERT_EQ(0, gpu_move(&self->buf, variant->to, 0));
		ASSERT_TRUE(is_written(self, 2 * n + 1)) { TH_LOG("after UMR %u has failed", n); }
	} while (n < 100);
	printf("# %u UMRs\n", n - 1);
	ASSERT_LT(2, n - 1);	/* or the pages have one size */
}

int main(int argc, char **argv)
{
	return harness_run(argc, argv, steps_prepare);
}
