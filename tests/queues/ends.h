/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the cases here share: a pair, and registered memory for each of its ends. */
#ifndef QUEUES_ENDS_H
#define QUEUES_ENDS_H

#include "lib/case.h"
#include "lib/memory.h"
#include "lib/pair.h"

#define SIZE (4 * PAGE)

struct ends {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct memory here, there;	/* with the patterns of seeds 1 and 2 */
	struct ibv_mr *mr, *peer;	/* of them, with all rights */
	struct pair pair;		/* not open yet */
};

static inline void ends_open(struct ends *e)
{
	e->ctx = device_open();
	e->pd = must(ibv_alloc_pd(e->ctx));
	memory_open_filled(&e->here, HOST, SIZE, 1);
	memory_open_filled(&e->there, HOST, SIZE, 2);
	e->mr = memory_reg(&e->here, e->pd, ALL_ACCESS);
	e->peer = memory_reg(&e->there, e->pd, ALL_ACCESS);
}

static inline void ends_close(struct ends *e)
{
	pair_close(&e->pair);
	mr_close(e->mr);
	mr_close(e->peer);
	memory_close(&e->here);
	memory_close(&e->there);
	pd_close(e->pd);
	device_close(e->ctx);
}

#endif
