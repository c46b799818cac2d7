// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: gpu; devices: all */
/* runs: full debug-full; guest: gpu; devices: pinned */
/*
 * Memory windows on memfds and dma-bufs: edges, rights and invalidation.  When the region ends
 * or gets other memory, the window leads nowhere, unless the device holds the region while it
 * has windows.
 *
 * Ordinary memory is beside them.  A window ends itself when it is bound elsewhere or
 * invalidated.
 *
 * access/windows shows who may bind and invalidate.
 */
#include "lib/counts.h"
#include "lib/gpu.h"
#include "lib/harness.h"
#include "lib/window.h"
#include "mkeys/lists.h"
#include <string.h>

#define FROM (PAGE + 8)		/* what the windows cover */
#define BYTES (3 * PAGE + 16)

static const enum ibv_mw_type types[] = { IBV_MW_TYPE_1, IBV_MW_TYPE_2 };

FIXTURE(window)
{
	struct ends e;
	struct memory buf;
	struct ibv_mr *mr;
	struct piece all, part;	/* of BUF */
};

FIXTURE_VARIANT(window)
{
	enum memory_kind kind;
};

FIXTURE_VARIANT_ADD(window, on_host_memory) { .kind = HOST };
FIXTURE_VARIANT_ADD(window, on_memfd) { .kind = MEMFD };
/* runs: full */
FIXTURE_VARIANT_ADD(window, on_udmabuf) { .kind = UDMABUF };
FIXTURE_VARIANT_ADD(window, on_vram) { .kind = GPU_VRAM };
/* runs: full */
FIXTURE_VARIANT_ADD(window, on_gpu_system_memory) { .kind = GPU_SYSTEM };

FIXTURE_SETUP(window)
{
	need("window-dma-buf");
	ends_open(&self->e);
	memory_open_filled(&self->buf, variant->kind, SIZE, 1);
	self->mr = memory_reg(&self->buf, self->e.pd, ALL_ACCESS);
	self->all = (struct piece){ &self->buf, self->mr, 0, SIZE };
	self->part = (struct piece){ &self->buf, self->mr, FROM, BYTES };
}

FIXTURE_TEARDOWN(window)
{
	mr_close(self->mr);
	if (self->buf.kind == GPU_VRAM || self->buf.kind == GPU_SYSTEM)
		EXPECT_TRUE(gpu_at_rest(&self->buf));
	memory_close(&self->buf);
	ends_close(&self->e);
	EXPECT_TRUE(nothing_left());
}

static enum ibv_wc_status bind(FIXTURE_DATA(window) *self, struct ibv_mw *mw, size_t at,
			       size_t n, int access)
{
	return window_bind(&self->e.pair, mw, self->mr->lkey, self->buf.iova + at, n, access);
}

/* A window of this type on the part. */
static struct ibv_mw *open_window(FIXTURE_DATA(window) *self, enum ibv_mw_type type)
{
	struct ibv_mw *mw = window_alloc(self->e.pd, type);

	if (bind(self, mw, FROM, BYTES, WINDOW_ACCESS))
		fail_case("bind a window");
	return mw;
}

/* Whether bytes go through the window on the part, and an atomic operation does. */
static bool carries(FIXTURE_DATA(window) *self, uint32_t rkey, uint32_t seed)
{
	uint64_t addr = self->buf.iova + FROM;
	uint64_t *word = (void *)(self->buf.cpu + FROM);

	if (!key_writes(&self->e, rkey, addr, &self->part, 1, seed) ||
	    !key_reads(&self->e, rkey, addr, &self->part, 1, seed + 1))
		return false;
	*word = seed;
	return !atomic_op(&self->e.pair, IBV_WR_ATOMIC_FETCH_AND_ADD, self->e.mr, addr, rkey, 3,
			  0) && *word == seed + 3;
}

/* Whether the rkey gives no access to what would be the part. */
static bool is_shut(FIXTURE_DATA(window) *self, uint32_t rkey)
{
	uint64_t addr = self->buf.iova + FROM;

	return key_refuses(&self->e, IBV_WR_RDMA_WRITE, rkey, addr, BYTES, &self->all, 1) &&
	       key_refuses(&self->e, IBV_WR_RDMA_READ, rkey, addr, 8, &self->all, 1);
}

TEST_F(window, window_carries_every_operation)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_mw *mw = open_window(self, types[i]);

		ASSERT_TRUE(carries(self, mw->rkey, 10 * i));
		ASSERT_EQ(0, ibv_dealloc_mw(mw));
		ASSERT_TRUE(is_shut(self, mw->rkey));
	}
}

TEST_F(window, access_past_the_window_is_refused)
{
	uint64_t start = self->buf.iova + FROM;
	const struct { uint64_t at; uint32_t n; } tries[] = {
		{ start - 1, 1 }, { start - 1, 2 }, { start + BYTES, 1 },
		{ start + BYTES - 1, 2 }, { start, BYTES + 1 }, { start - 1, BYTES + 1 },
		{ start - FROM, SIZE }, { start - 8, 8 },
	};

	for (int i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		for (int type = 0; type < 2; type++) {
			/* One of type 2 belongs to a QP, which the refusal ends. */
			struct ibv_mw *mw = open_window(self, types[type]);

			ASSERT_TRUE(key_refuses(&self->e, i % 2 ? IBV_WR_RDMA_READ :
						IBV_WR_RDMA_WRITE, mw->rkey, tries[i].at,
						tries[i].n, &self->all, 1));
			ASSERT_EQ(0, ibv_dealloc_mw(mw));
		}
	}
}

TEST_F(window, window_has_the_access_it_was_given)
{
	uint64_t addr = self->buf.iova + FROM;

	for (int i = 0; i < 2; i++) {
		struct ibv_mw *mw = window_alloc(self->e.pd, types[i]);

		ASSERT_EQ(IBV_WC_SUCCESS, bind(self, mw, FROM, BYTES, REMOTE_READ));
		ASSERT_TRUE(key_reads(&self->e, mw->rkey, addr, &self->part, 1, 1));
		ASSERT_TRUE(key_refuses(&self->e, IBV_WR_RDMA_WRITE, mw->rkey, addr, 8,
					&self->all, 1));
		ASSERT_EQ(0, ibv_dealloc_mw(mw));
	}
}

TEST_F(window, type_2_window_may_be_zero_based)
{
	struct ibv_mw *mw = window_alloc(self->e.pd, IBV_MW_TYPE_2);

	ASSERT_EQ(IBV_WC_SUCCESS, bind(self, mw, FROM, BYTES,
				       WINDOW_ACCESS | IBV_ACCESS_ZERO_BASED));
	ASSERT_TRUE(key_writes(&self->e, mw->rkey, 0, &self->part, 1, 1));
	ASSERT_TRUE(key_reads(&self->e, mw->rkey, 0, &self->part, 1, 2));
	ASSERT_TRUE(is_shut(self, mw->rkey));
	ASSERT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_F(window, rebind_shuts_the_old_key)
{
	struct ibv_mw *mw = open_window(self, IBV_MW_TYPE_1);
	uint32_t before = mw->rkey;

	ASSERT_EQ(IBV_WC_SUCCESS, bind(self, mw, 0, PAGE, WINDOW_ACCESS));
	ASSERT_TRUE(is_shut(self, before));
	ASSERT_TRUE(is_shut(self, mw->rkey));
	self->part = (struct piece){ &self->buf, self->mr, 0, PAGE };
	ASSERT_TRUE(key_writes(&self->e, mw->rkey, self->buf.iova, &self->part, 1, 2));
	/* To no bytes at all. */
	ASSERT_EQ(IBV_WC_SUCCESS, bind(self, mw, 0, 0, 0));
	ASSERT_TRUE(key_refuses(&self->e, IBV_WR_RDMA_WRITE, mw->rkey, self->buf.iova, 8,
				&self->all, 1));
	ASSERT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_F(window, either_end_invalidates_a_type_2_window)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_mw *mw = open_window(self, IBV_MW_TYPE_2);

		ASSERT_TRUE(carries(self, mw->rkey, i));
		ASSERT_EQ(IBV_WC_SUCCESS, i ? window_invalidate(&self->e.pair, 1, mw->rkey) :
			  window_invalidate_remotely(&self->e.pair, mw->rkey));
		ASSERT_TRUE(is_shut(self, mw->rkey));
		/* It can be bound again. */
		ASSERT_EQ(IBV_WC_SUCCESS, bind(self, mw, FROM, BYTES, WINDOW_ACCESS));
		ASSERT_TRUE(carries(self, mw->rkey, i));
		ASSERT_EQ(0, ibv_dealloc_mw(mw));
	}
}

TEST_F(window, dereg_shuts_the_window_or_is_einval)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_mw *mw = open_window(self, types[i]);
		int err = ibv_dereg_mr(self->mr);

		if (device_can("window-holds")) {
			ASSERT_EQ(EINVAL, err);
			ASSERT_TRUE(carries(self, mw->rkey, i));
			ASSERT_EQ(0, ibv_dealloc_mw(mw));
			err = ibv_dereg_mr(self->mr);
		} else {
			ASSERT_TRUE(is_shut(self, mw->rkey));
			ASSERT_EQ(0, ibv_dealloc_mw(mw));
		}
		ASSERT_EQ(0, err);
		self->mr = memory_reg(&self->buf, self->e.pd, ALL_ACCESS);
	}
}

/* New memory may have a new key, and the window is bound to the old one. */
TEST_F(window, rereg_shuts_the_window_or_is_einval)
{
	struct memory next;

	need("rereg_mr_fd");
	memory_open_filled(&next, variant->kind, SIZE, 3);
	for (int i = 0; i < 2; i++) {
		struct ibv_mw *mw = open_window(self, types[i]);
		int ret = memory_rereg(self->mr, TRANS, NULL, &next, 0);

		memory_mark(&next);
		if (device_can("window-holds")) {
			ASSERT_NE(0, ret);
			ASSERT_EQ(EINVAL, errno);
			ASSERT_TRUE(carries(self, mw->rkey, i));
		} else {
			ASSERT_EQ(0, ret);
			ASSERT_TRUE(is_shut(self, mw->rkey));
		}
		ASSERT_TRUE(memory_untouched(&next));
		ASSERT_EQ(0, ibv_dealloc_mw(mw));
		ASSERT_EQ(0, memory_rereg(self->mr, TRANS, NULL, &self->buf, 0));
	}
	memory_close(&next);
}

/*
 * Other access to the same memory: the device changes the key in place, if it can, and otherwise
 * makes another one, to which the window is not bound.
 */
TEST_F(window, rereg_of_access_shuts_the_window_if_the_key_changes_or_is_einval)
{
	static const int access[] = { NO_READ, ALL_ACCESS | IBV_ACCESS_HUGETLB };
	bool holds = device_can("window-holds");
	bool dma_buf = variant->kind != HOST && variant->kind != MEMFD; /* no such access */

	need("rereg_mr_fd");
	for (int i = 0; i < (holds || dma_buf ? 1 : 2); i++) {
		struct ibv_mw *mw = open_window(self, types[i]);
		uint32_t key = self->mr->rkey;
		int ret = memory_rereg(self->mr, CHANGE_ACCESS, NULL, &self->buf, access[i]);

		if (holds) {
			ASSERT_NE(0, ret);
			ASSERT_EQ(EINVAL, errno);
		} else {
			ASSERT_EQ(0, ret);
			ASSERT_EQ(!i, self->mr->rkey == key);
		}
		if (self->mr->rkey == key) {
			ASSERT_TRUE(carries(self, mw->rkey, i));
		} else {
			ASSERT_TRUE(is_shut(self, mw->rkey));
		}
		ASSERT_EQ(0, ibv_dealloc_mw(mw));
	}
}

/* A device may give the number of a key to the next region, in another PD too. */
TEST_F(window, window_does_not_reach_a_reused_key)
{
	uint32_t lkey = self->mr->lkey;
	struct ibv_mr *mr[TRIES];
	struct ibv_pd *pd;
	struct ibv_mw *mw;
	int n;

	if (device_can("window-holds"))
		skip_case("the region cannot end before the window");
	pd = must(ibv_alloc_pd(self->e.ctx));
	mw = open_window(self, IBV_MW_TYPE_1);
	mr_close(self->mr);
	self->mr = NULL;
	n = reg_until_number(&self->buf, pd, lkey, mr);
	ASSERT_TRUE(is_shut(self, mw->rkey));
	ASSERT_EQ(0, ibv_dealloc_mw(mw));
	while (n--)
		mr_close(mr[n]);
	pd_close(pd);
}

TEST_HARNESS_MAIN
