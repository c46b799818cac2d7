// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: gpu; devices: all */
/* runs: full debug-full; guest: gpu; devices: pinned */
/*
 * Regions below an mkey that is a list are reregistered, or end: the list follows keys that
 * stay, and a key that has ended leads nowhere.
 *
 * It does not lead to the memory that it had, not to that which its region has now, and not to a
 * region in another PD which got the number of its key.
 */
#include "mkeys/kinds.h"
#include <sys/wait.h>

static bool is_on_gpu(const struct memory *m)
{
	return m->kind == GPU_VRAM || m->kind == GPU_SYSTEM;
}

/* The keys stay, so the list does. */
TEST_F(parts, list_works_after_access_change_of_its_mrs)
{
	struct parts *t = &self->p;

	need("rereg_mr_fd");
	for (int i = 0; i < PARTS; i++) {
		uint32_t lkey = t->mr[i]->lkey;

		ASSERT_EQ(0, memory_rereg(t->mr[i], CHANGE_ACCESS, NULL, &t->mem[i],
					  LOCAL_WRITE));
		ASSERT_EQ(lkey, t->mr[i]->lkey);
	}
	ASSERT_TRUE(list_works(t, 1));
	/* The first region does not let its process write any more. */
	ASSERT_EQ(0, memory_rereg(t->mr[0], CHANGE_ACCESS, NULL, &t->mem[0], REMOTE_READ));
	ASSERT_TRUE(key_reads(&t->e, t->list->rkey, 0, t->piece, PARTS, 2));
	ASSERT_TRUE(key_refuses(&t->e, IBV_WR_RDMA_WRITE, t->list->rkey, 0, 8, t->piece,
				PARTS));
	ASSERT_EQ(0, memory_rereg(t->mr[0], CHANGE_ACCESS, NULL, &t->mem[0], RWA));
	ASSERT_TRUE(list_works(t, 3));
}

TEST_F(parts, mr_in_another_pd_is_not_reached)
{
	struct parts *t = &self->p;
	struct ibv_pd *pd = must(ibv_alloc_pd(t->e.ctx));

	need("rereg_mr_fd");
	ASSERT_EQ(0, memory_rereg(t->mr[0], CHANGE_PD, pd, &t->mem[0], 0));
	ASSERT_TRUE(list_is_refused(t));
	ASSERT_EQ(0, memory_rereg(t->mr[0], CHANGE_PD, t->e.pd, &t->mem[0], 0));
	ASSERT_TRUE(list_works(t, 1));
	pd_close(pd);
}

/* New memory has a new key, and the list names the old one. */
TEST_F(parts, list_does_not_follow_rereg_to_new_memory)
{
	struct parts *t = &self->p;
	struct piece both[PARTS + 1];
	struct memory next;

	need("rereg_mr_fd");
	ASSERT_TRUE(list_works(t, 1));
	memory_open_filled(&next, t->mem[0].kind, SIZE, 77);
	memcpy(both, t->piece, sizeof(t->piece));
	both[PARTS] = (struct piece){ &next, NULL, 0, 0 };
	ASSERT_EQ(0, memory_rereg(t->mr[0], TRANS, NULL, &next, 0));
	ASSERT_TRUE(key_refuses(&t->e, IBV_WR_RDMA_WRITE, t->list->rkey, 0, t->bytes,
				both, PARTS + 1));
	ASSERT_TRUE(key_refuses(&t->e, IBV_WR_RDMA_READ, t->list->rkey, 0, t->bytes,
				both, PARTS + 1));
	/* The list can be filled again. */
	t->piece[0].of = &next;
	both[PARTS].of = &t->mem[0];
	ASSERT_EQ(IBV_WC_SUCCESS, list_fill(&t->e, t->list, RWA, t->piece, PARTS));
	ASSERT_TRUE(list_works(t, 2));
	memory_mark(&t->mem[0]);
	ASSERT_TRUE(list_works(t, 4));
	ASSERT_TRUE(memory_untouched(&t->mem[0]));
	mr_close(t->mr[0]);
	t->mr[0] = NULL;
	memory_close(&next);
}

TEST_F(parts, deregistered_mr_is_not_reached)
{
	struct parts *t = &self->p;

	ASSERT_TRUE(list_works(t, 1));
	mr_close(t->mr[0]);
	t->mr[0] = NULL;
	if (is_on_gpu(&t->mem[0]))
		ASSERT_TRUE(gpu_at_rest(&t->mem[0]));
	ASSERT_TRUE(list_is_refused(t));
	/* The others are, from where their bytes begin. */
	ASSERT_TRUE(key_writes(&t->e, t->list->rkey, t->piece[0].n, t->piece + 1,
			       PARTS - 1, 2));
}

/* The driver gives the number of a key whose region ended to the next region. */
TEST_F(parts, reused_key_in_another_pd_is_not_reached)
{
	struct parts *t = &self->p;
	struct ibv_pd *pd = must(ibv_alloc_pd(t->e.ctx));
	uint32_t lkey = t->mr[0]->lkey;
	struct ibv_mr *mr[TRIES];
	int n;

	mr_close(t->mr[0]);
	t->mr[0] = NULL;
	n = reg_until_number(&t->mem[0], pd, lkey, mr);
	ASSERT_TRUE(list_is_refused(t));
	while (n--)
		mr_close(mr[n]);
	pd_close(pd);
}

/* The list goes first, with traffic behind it; then the regions are as they were. */
TEST_F(parts, mrs_survive_the_end_of_the_list)
{
	struct parts *t = &self->p;
	uint32_t rkey = t->list->rkey;

	ASSERT_TRUE(list_works(t, 1));
	list_close(t->list);
	t->list = NULL;
	ASSERT_TRUE(key_refuses(&t->e, IBV_WR_RDMA_WRITE, rkey, 0, 8, t->piece, PARTS));
	for (int i = 0; i < PARTS; i++)
		ASSERT_TRUE(key_writes(&t->e, t->mr[i]->rkey,
				       t->mem[i].iova + t->piece[i].at, t->piece + i, 1,
				       i));
}

/* The teardown sees what is left of it. */
TEST_F(parts, exit_with_a_list_leaves_nothing)
{
	struct parts *t = &self->p;
	int status;
	pid_t pid;

	for (int i = 0; i < 2; i++) {
		pid = fork();
		if (!pid) {
			struct parts own = {};

			parts_open(&own, variant->kind);
			if (list_fill(&own.e, own.list, RWA, own.piece, PARTS) ||
			    !list_works(&own, 1))
				_exit(1);
			_exit(0);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
	}
	ASSERT_TRUE(list_works(t, 1));
}

TEST_HARNESS_MAIN
