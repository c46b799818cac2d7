// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: connectx */
/* runs: full debug-full; devices: pinned two */
/*
 * A key that was given up leads nowhere, also when the device uses its number again.
 *
 * mlx5 keeps mkeys in a pool, so the next registration gets the number of the last one that
 * ended.  A peer may still have the old rkey, and a memory window may still be bound to the old
 * lkey: neither reaches the next memory.
 */
#include "queues/ends.h"
#include "lib/harness.h"
#include "lib/pattern.h"
#include "lib/window.h"

#define TRIES 64
#define ROUNDS 10

FIXTURE(reused)
{
	struct ends e;
	struct ibv_mr *old;		/* of a page of THERE; a page is always one block */
	struct memory next;
	struct memory other;		/* new memory for which mlx5 takes a new mkey */
	struct ibv_mr *mr[TRIES];
	struct ibv_mw *mw;
};

static struct ibv_mr *register_old(FIXTURE_DATA(reused) *self)
{
	return must(ibv_reg_mr(self->e.pd, self->e.there.cpu, PAGE, ALL_ACCESS));
}

FIXTURE_SETUP(reused)
{
	ends_open(&self->e);
	pair_open_in(&self->e.pair, self->e.pd);
	self->old = register_old(self);
	memory_open_filled(&self->next, HOST, PAGE, 3);
	memory_open_filled(&self->other, MEMFD, SIZE, 4);
}

FIXTURE_TEARDOWN(reused)
{
	for (int i = 0; i < TRIES; i++)
		mr_close(self->mr[i]);
	mr_close(self->old);
	pair_close(&self->e.pair);
	if (self->mw)
		EXPECT_EQ(0, ibv_dealloc_mw(self->mw));
	ends_close(&self->e);
	memory_close(&self->next);
	memory_close(&self->other);
}

/*
 * Register NEXT, at the addresses that the old MR had, until it has the number of KEY.  NULL if
 * the pool has destroyed that mkey meanwhile, as it does by age: all is as at the begin.
 */
static struct ibv_mr *next_with_number_of(FIXTURE_DATA(reused) *self, uint32_t key, int access)
{
	for (int i = 0; i < TRIES; i++) {
		self->mr[i] = must(ibv_reg_mr_iova(self->e.pd, self->next.cpu, PAGE,
						   self->e.there.iova, access));
		if (self->mr[i]->lkey >> 8 == key >> 8)
			return self->mr[i];
	}
	for (int i = 0; i < TRIES; i++) {
		mr_close(self->mr[i]);
		self->mr[i] = NULL;
	}
	mr_close(self->old);
	self->old = register_old(self);
	if (self->mw && ibv_dealloc_mw(self->mw))
		fail_case("deallocate a window");
	self->mw = NULL;
	return NULL;
}

static enum ibv_wc_status write_by(FIXTURE_DATA(reused) *self, uint32_t rkey)
{
	return rdma_op(&self->e.pair, IBV_WR_RDMA_WRITE, self->e.mr, self->e.here.iova, PAGE,
		       self->e.there.iova, rkey);
}

TEST_F(reused, rkey_of_a_peer_leads_nowhere_after_dereg)
{
	struct ibv_mr *mr = NULL;
	uint32_t old = 0;

	for (int round = 0; round < ROUNDS && !mr; round++) {
		old = self->old->rkey;
		mr_close(self->old);
		self->old = NULL;
		mr = next_with_number_of(self, old, ALL_ACCESS);
	}
	ASSERT_NE(NULL, mr);
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, write_by(self, old));
	ASSERT_TRUE(memory_untouched(&self->next));

	pair_connect(&self->e.pair, IBV_MTU_1024);
	ASSERT_EQ(IBV_WC_SUCCESS, write_by(self, mr->rkey));
	ASSERT_TRUE(filled(self->next.cpu, PAGE, 1, "what was written"));
}

/* A window on all of the old MR, which keeps its rkey. */
static void open_window(FIXTURE_DATA(reused) *self, enum ibv_mw_type type)
{
	self->mw = window_alloc(self->e.pd, type);
	if (window_bind(&self->e.pair, self->mw, self->old->lkey, self->e.there.iova, PAGE,
			WINDOW_ACCESS) || write_by(self, self->mw->rkey))
		fail_case("bind a window and write by it");
}

/* The MR that the window is bound to gets other memory and another key, or ends. */
static void window_leads_nowhere(struct __test_metadata *_metadata, FIXTURE_DATA(reused) *self,
				 enum ibv_mw_type type, bool rereg)
{
	struct ibv_mr *next = NULL;

	for (int round = 0; round < ROUNDS && !next; round++) {
		uint32_t old = self->old->lkey;

		open_window(self, type);
		if (rereg) {
			ASSERT_EQ(0, memory_rereg(self->old, IBV_REREG_MR_CHANGE_TRANSLATION,
						  NULL, &self->other, 0));
			ASSERT_NE(old, self->old->lkey);
		} else {
			mr_close(self->old);
			self->old = NULL;
		}
		/* It is for this end only. */
		next = next_with_number_of(self, old, LOCAL_WRITE);
	}
	ASSERT_NE(NULL, next);
	ASSERT_NE(IBV_WC_SUCCESS, write_by(self, self->mw->rkey));
	ASSERT_TRUE(memory_untouched(&self->next));
	ASSERT_TRUE(memory_untouched(&self->other));
}

TEST_F(reused, window_of_type_1_leads_nowhere_after_rereg)
{
	window_leads_nowhere(_metadata, self, IBV_MW_TYPE_1, true);
}

TEST_F(reused, window_of_type_2_leads_nowhere_after_rereg)
{
	window_leads_nowhere(_metadata, self, IBV_MW_TYPE_2, true);
}

TEST_F(reused, window_leads_nowhere_after_dereg)
{
	window_leads_nowhere(_metadata, self, IBV_MW_TYPE_2, false);
}

TEST_HARNESS_MAIN
