/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An MR of each of several buffers, all of one kind or each of another, a piece of each MR,
 * and a list for the pieces.
 *
 * When a case ends, nothing holds a buffer of the GPU; when all is closed, nothing is left.
 */
#ifndef MKEYS_PARTS_H
#define MKEYS_PARTS_H

#include "lib/counts.h"
#include "lib/gpu.h"
#include "mkeys/lists.h"
#include <string.h>

#define PARTS 5

struct parts {
	struct ends e;
	struct memory mem[PARTS];
	struct ibv_mr *mr[PARTS];
	struct piece piece[PARTS];
	size_t bytes;			/* of all pieces */
	struct mlx5dv_mkey *list;	/* has room for them */
};

/* What a case closed itself is NULL or all 0. */
static inline bool parts_close(struct parts *p)
{
	bool rest = true;

	list_close(p->list);
	for (int i = 0; i < PARTS; i++)
		mr_close(p->mr[i]);
	for (int i = 0; i < PARTS; i++) {
		enum memory_kind kind = p->mem[i].kind;

		if (p->mem[i].size && (kind == GPU_VRAM || kind == GPU_SYSTEM))
			rest &= gpu_at_rest(&p->mem[i]);
		memory_close(&p->mem[i]);
	}
	ends_close(&p->e);
	memset(p, 0, sizeof(*p));
	return nothing_left() && rest;
}

/* Odd places and lengths, so that no border is that of a page or of a packet. */
static inline void parts_open(struct parts *p, const enum memory_kind *kind)
{
	ends_open_for_lists(&p->e);
	for (int i = 0; i < PARTS; i++) {
		memory_open_filled(&p->mem[i], kind[i], SIZE, 10 + i);
		p->mr[i] = memory_reg(&p->mem[i], p->e.pd, ALL_ACCESS);
		p->piece[i] = (struct piece){ &p->mem[i], p->mr[i],
						 8 * (PAGE / 8 * i + 3 * i + 1),
						 PAGE + 1000 * i + i };
	}
	p->bytes = bytes_of(p->piece, PARTS);
	p->list = list_make(&p->e);
}

/* Whether the list leads to the pieces, and nowhere else. */
static inline bool list_works(struct parts *p, uint32_t seed)
{
	return key_writes(&p->e, p->list->rkey, 0, p->piece, PARTS, seed) &&
	       key_reads(&p->e, p->list->rkey, 0, p->piece, PARTS, seed + 1);
}

/* Whether an access that begins in the first piece is refused, and changes nothing. */
static inline bool list_is_refused(struct parts *p)
{
	return key_refuses(&p->e, IBV_WR_RDMA_WRITE, p->list->rkey, 0, p->bytes,
			   p->piece, PARTS) &&
	       key_refuses(&p->e, IBV_WR_RDMA_READ, p->list->rkey, 0, p->bytes,
			   p->piece, PARTS);
}

#endif
