/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fixture dm: device memory with an MR of all of it, two DMs beside it in which nothing
 * may change, and ordinary memory at the other end.
 *
 * Its length is no multiple of a page, nor of the 64 bytes of which mlx5 allocates, and
 * where the library copies bytes it is odd.
 */
#ifndef DM_PAIR_H
#define DM_PAIR_H

#include "lib/dm.h"
#include "lib/harness.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <string.h>

#define SIZE (3 * PAGE + 36 + (dm_grain() == 1))
#define HOST_SIZE (8 * PAGE)
#define BESIDE (PAGE + 64)

FIXTURE(dm)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct dm dm;			/* marked */
	struct ibv_mr *mr;		/* of dm, with every right */
	struct dm beside[2];		/* allocated before and after it; marked */
	struct memory host;
	struct ibv_mr *host_mr;
};

FIXTURE_SETUP(dm)
{
	need("dm");
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	dm_open_filled(&self->beside[0], self->ctx, BESIDE, 1);
	dm_open_filled(&self->dm, self->ctx, SIZE, 2);
	dm_open_filled(&self->beside[1], self->ctx, BESIDE, 3);
	self->mr = dm_reg(&self->dm, self->pair.pd, dm_rights());
	memory_open(&self->host, HOST, HOST_SIZE);
	self->host_mr = memory_reg(&self->host, self->pair.pd, ALL_ACCESS);
}

FIXTURE_TEARDOWN(dm)
{
	for (int i = 0; i < 2; i++) {
		EXPECT_TRUE(!self->beside[i].before || dm_untouched(&self->beside[i]));
		dm_close(&self->beside[i]);
	}
	mr_close(self->mr);
	dm_close(&self->dm);
	mr_close(self->host_mr);
	pair_close(&self->pair);
	if (self->ctx)
		EXPECT_TRUE(dm_budget_is_whole(self->ctx));
	device_close(self->ctx);
	memory_close(&self->host);
}

/* The first QP's operations with the ordinary memory, from its first byte on, as local end. */
static inline enum ibv_wc_status host_op(FIXTURE_DATA(dm) *self, enum ibv_wr_opcode opcode,
					 uint32_t n, uint64_t remote_addr, uint32_t rkey)
{
	return rdma_op(&self->pair, opcode, self->host_mr, self->host.iova, n, remote_addr, rkey);
}

#endif
