// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: gpu; devices: all */
/* runs: full debug-full; guest: gpu; devices: pinned */
/*
 * An mkey that is a list of pieces of MRs (KLM), or of other lists, is one range of bytes from
 * address 0 on, over memory of every kind.  Its edges and rights count, and those of the MRs.
 *
 * Of an MR a list needs what this allows its own process.  Lists of lists are as deep as the
 * device says.
 */
#include "mkeys/kinds.h"
#include <endian.h>

TEST_F(parts, list_is_one_range_for_a_peer)
{
	struct parts *t = &self->p;

	ASSERT_TRUE(list_works(t, 1));
	ASSERT_TRUE(list_works(t, 3));
}

/* As what the process itself sends from and receives to. */
TEST_F(parts, list_is_one_range_for_the_local_end)
{
	struct parts *t = &self->p;
	struct ibv_mr named = { .context = t->e.ctx, .lkey = t->list->lkey };
	struct ends *e = &t->e;
	uint8_t *half = e->host.cpu + SIZE / 2;
	size_t bytes = t->bytes, pos = 0;

	ASSERT_GT(SIZE / 2, bytes);
	/* A send into the list. */
	fill(half, bytes, 5);
	post_recv(&e->pair, &named, 0, bytes);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&e->pair, IBV_WR_SEND, e->mr, e->host.iova + SIZE / 2,
					  bytes, 0, 0));
	for (int i = 0; i < PARTS; pos += t->piece[i++].n)
		ASSERT_EQ(0, memcmp(t->mem[i].cpu + t->piece[i].at, half + pos,
				    t->piece[i].n));
	/* A write from the list. */
	memset(e->host.cpu, 0, SIZE / 2);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&e->pair, IBV_WR_RDMA_WRITE, &named, 0, bytes,
					  e->host.iova, e->mr->rkey));
	ASSERT_TRUE(filled(e->host.cpu, bytes, 5, "sent from the list"));
}

/* They need addresses that are multiples of 8, in the list and in the memory. */
TEST_F(parts, atomics_work_in_every_part)
{
	struct parts *t = &self->p;
	struct ends *e = &t->e;

	for (int i = 0; i < PARTS; i++)
		t->piece[i].n = 64;
	ASSERT_EQ(IBV_WC_SUCCESS, list_fill(e, t->list, RWA, t->piece, PARTS));
	for (int i = 0; i < PARTS; i++) {
		uint64_t *word = (void *)(t->mem[i].cpu + t->piece[i].at + 56);
		uint64_t at = 64 * i + 56;

		*word = 1;
		ASSERT_EQ(IBV_WC_SUCCESS, atomic_op(&e->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, e->mr,
						    at, t->list->rkey, 41, 0));
		ASSERT_EQ(1, *(uint64_t *)e->host.cpu);
		ASSERT_EQ(42, *word);
		ASSERT_EQ(IBV_WC_SUCCESS, atomic_op(&e->pair, IBV_WR_ATOMIC_CMP_AND_SWP, e->mr,
						    at, t->list->rkey, 42, 43));
		ASSERT_EQ(43, *word);
	}
}

TEST_F(parts, access_past_the_list_is_refused)
{
	struct parts *t = &self->p;
	const struct { uint64_t at; uint32_t n; } tries[] = {
		{ t->bytes, 1 }, { t->bytes - 1, 2 }, { 0, t->bytes + 1 },
		{ 1, t->bytes }, { -1, 1 }, { -1, 2 }, { t->bytes + PAGE, 1 },
	};

	for (int i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		ASSERT_TRUE(key_refuses(&t->e, IBV_WR_RDMA_WRITE, t->list->rkey,
					tries[i].at, tries[i].n, t->piece, PARTS));
		ASSERT_TRUE(key_refuses(&t->e, IBV_WR_RDMA_READ, t->list->rkey,
					tries[i].at, tries[i].n, t->piece, PARTS));
	}
	ASSERT_TRUE(list_works(t, 1));
}

/* An entry that is longer than its MR leads nowhere. */
TEST_F(parts, entry_longer_than_its_mr_is_refused)
{
	struct parts *t = &self->p;
	struct piece over = t->piece[0];

	over.at = SIZE - 100;
	over.n = 101;
	ASSERT_EQ(IBV_WC_SUCCESS, list_fill(&t->e, t->list, RWA, &over, 1));
	ASSERT_TRUE(key_refuses(&t->e, IBV_WR_RDMA_WRITE, t->list->rkey, 0, 101, &over, 1));
	over.n = 100;
	ASSERT_TRUE(key_writes(&t->e, t->list->rkey, 0, &over, 1, 1));
}

TEST_F(parts, list_has_the_access_it_was_given)
{
	struct parts *t = &self->p;
	uint32_t rkey = t->list->rkey;
	struct ends *e = &t->e;

	ASSERT_EQ(IBV_WC_SUCCESS, list_fill(e, t->list, REMOTE_READ, t->piece, PARTS));
	ASSERT_TRUE(key_reads(e, rkey, 0, t->piece, PARTS, 1));
	ASSERT_TRUE(key_refuses(e, IBV_WR_RDMA_WRITE, rkey, 0, 8, t->piece, PARTS));
	ASSERT_TRUE(key_refuses(e, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, 0, 8, t->piece, PARTS));
	ASSERT_EQ(IBV_WC_SUCCESS, list_fill(e, t->list, WRITE_ACCESS, t->piece, PARTS));
	ASSERT_TRUE(key_writes(e, rkey, 0, t->piece, PARTS, 2));
	ASSERT_TRUE(key_refuses(e, IBV_WR_RDMA_READ, rkey, 0, 8, t->piece, PARTS));
}

/* The list grants; the MR has to let its process write. */
TEST_F(parts, write_to_a_read_only_mr_is_refused)
{
	struct parts *t = &self->p;

	mr_close(t->mr[0]);
	t->mr[0] = memory_reg(&t->mem[0], t->e.pd, 0);
	t->piece[0].mr = t->mr[0];
	ASSERT_EQ(IBV_WC_SUCCESS, list_fill(&t->e, t->list, RWA, t->piece, PARTS));
	ASSERT_TRUE(key_reads(&t->e, t->list->rkey, 0, t->piece, PARTS, 1));
	ASSERT_TRUE(key_refuses(&t->e, IBV_WR_RDMA_WRITE, t->list->rkey, 0, 8, t->piece,
				PARTS));
}

/* Rounds of 300 bytes of the first and 70 of the second, each followed by a gap. */
#define ROUNDS 9

TEST_F(parts, interleaved_list_reaches_its_pieces)
{
	struct parts *t = &self->p;
	struct mlx5dv_mr_interleaved data[] = {
		{ t->mem[0].iova + 8, 300, 50, t->mr[0]->lkey },
		{ t->mem[1].iova + 100, 70, 1000, t->mr[1]->lkey },
	};
	struct piece pieces[2 * ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		pieces[2 * i] = (struct piece){ &t->mem[0], t->mr[0], 8 + 350 * i, 300 };
		pieces[2 * i + 1] = (struct piece){ &t->mem[1], t->mr[1], 100 + 1070 * i,
						    70 };
	}
	ASSERT_EQ(IBV_WC_SUCCESS, list_interleave(&t->e, t->list, RW, ROUNDS, data, 2));
	ASSERT_TRUE(key_writes(&t->e, t->list->rkey, 0, pieces, 2 * ROUNDS, 1));
	ASSERT_TRUE(key_reads(&t->e, t->list->rkey, 0, pieces, 2 * ROUNDS, 2));
	ASSERT_TRUE(key_refuses(&t->e, IBV_WR_RDMA_WRITE, t->list->rkey, ROUNDS * 370 - 1,
				2, pieces, 2 * ROUNDS));
}

/* Two lists by mlx5dv_wr_mkey_configure(), and a third of the end of one and all of the other. */
TEST_F(parts, list_of_lists_reaches_the_parts)
{
	struct parts *t = &self->p;
	struct mlx5dv_mkey *two[2], *top = list_make(&t->e);
	struct piece *p = t->piece, through[PARTS];
	struct ibv_sge sge[PARTS];
	uint32_t skip = 123;

	for (int i = 0; i < PARTS; i++)
		sge[i] = (struct ibv_sge){ p[i].of->iova + p[i].at, p[i].n, p[i].mr->lkey };
	for (int i = 0; i < 2; i++)
		two[i] = list_make(&t->e);
	ASSERT_EQ(IBV_WC_SUCCESS, list_fill_sge(&t->e, two[0], RWA, sge + 2, 3, true));
	ASSERT_EQ(IBV_WC_SUCCESS, list_fill_sge(&t->e, two[1], RWA, sge, 2, true));
	sge[0] = (struct ibv_sge){ skip, bytes_of(p + 2, 3) - skip, two[0]->lkey };
	sge[1] = (struct ibv_sge){ 0, bytes_of(p, 2), two[1]->lkey };
	ASSERT_EQ(IBV_WC_SUCCESS, list_fill_sge(&t->e, top, RWA, sge, 2, true));

	memcpy(through, p + 2, 3 * sizeof(*p));
	memcpy(through + 3, p, 2 * sizeof(*p));
	through[0].at += skip;
	through[0].n -= skip;
	ASSERT_TRUE(key_writes(&t->e, top->rkey, 0, through, PARTS, 1));
	ASSERT_TRUE(key_reads(&t->e, top->rkey, 0, through, PARTS, 2));
	/* Without one of them there is no way. */
	list_close(two[0]);
	ASSERT_TRUE(key_refuses(&t->e, IBV_WR_RDMA_WRITE, top->rkey, 0, 8, through, PARTS));
	list_close(top);
	list_close(two[1]);
}

/* max_indirection of QUERY_HCA_CAP: the interface of DEVX has no names for its fields. */
static unsigned int max_indirection(struct ibv_context *ctx)
{
	uint32_t in[4] = { htobe32(0x100 << 16), htobe32(1) }, out[4 + 1024] = {};

	if (mlx5dv_devx_general_cmd(ctx, in, sizeof(in), out, sizeof(out)))
		fail_case("query the capabilities");
	return be32toh(out[4 + 0x100 / 32]) >> 24;
}

#define TOO_DEEP 16

TEST_F(parts, lists_nest_as_deep_as_max_indirection)
{
	struct parts *t = &self->p;
	unsigned int deepest = max_indirection(t->e.ctx), depth;
	struct mlx5dv_mkey *list[TOO_DEEP] = {};
	uint32_t below = t->list->lkey;

	ASSERT_LT(1, deepest);
	ASSERT_GT(TOO_DEEP, deepest);
	for (depth = 1; depth < TOO_DEEP; depth++) {
		struct ibv_sge sge = { 0, t->bytes, below };

		/* The list below is the one that names the MRs, or names DEPTH - 1 lists. */
		if (depth > 1) {
			list[depth] = list_make(&t->e);
			ASSERT_EQ(IBV_WC_SUCCESS,
				  list_fill_sge(&t->e, list[depth], RWA, &sge, 1, false));
			below = list[depth]->lkey;
		}
		if (depth > deepest)
			break;
		ASSERT_TRUE(key_writes(&t->e, below, 0, t->piece, PARTS, depth));
		ASSERT_TRUE(key_reads(&t->e, below, 0, t->piece, PARTS, depth + 100));
	}
	/* A list that leads to itself ends too. */
	ASSERT_EQ(IBV_WC_SUCCESS,
		  list_fill_sge(&t->e, list[2], RWA,
				&(struct ibv_sge){ 0, t->bytes, list[2]->lkey }, 1, false));
	ASSERT_TRUE(key_refuses(&t->e, IBV_WR_RDMA_WRITE, list[2]->rkey, 0, 8, t->piece,
				PARTS));
	for (depth = 0; depth < TOO_DEEP; depth++)
		list_close(list[depth]);
	TH_LOG("lists of lists %u deep", deepest);
}

TEST_HARNESS_MAIN
