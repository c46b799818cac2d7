// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: rxe */
/* runs: full; devices: connectx */
/*
 * A registered buffer in VRAM stays there when others need the room.
 *
 * Buffers that are made after it fill the VRAM, so the driver has to make room; it must not
 * take that of the registered buffer.
 */
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"

#define SIZE (1024 * PAGE)	/* a quarter of the VRAM */
#define PIECE (8 * PAGE)	/* what a case looks at, in three places */
#define OTHERS 5

FIXTURE(vram)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory host, buf, other[OTHERS];
	struct ibv_mr *host_mr, *mr;
};

FIXTURE_SETUP(vram)
{
	need("io-memory");
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	memory_open_filled(&self->host, HOST, SIZE, 1);
	memory_open_filled(&self->buf, QXL, SIZE, 2);
	self->host_mr = memory_reg(&self->host, self->pair.pd, ALL_ACCESS);
	self->mr = memory_reg(&self->buf, self->pair.pd, ALL_ACCESS);
}

FIXTURE_TEARDOWN(vram)
{
	mr_close(self->mr);
	mr_close(self->host_mr);
	for (int i = 0; i < OTHERS; i++)
		memory_close(&self->other[i]);
	memory_close(&self->buf);
	memory_close(&self->host);
	pair_close(&self->pair);
	device_close(self->ctx);
}

/* Whether a write or a read makes three pieces of both memories equal. */
static bool moves(FIXTURE_DATA(vram) *self, enum ibv_wr_opcode opcode)
{
	static const size_t at[] = { 0, SIZE / 2, SIZE - PIECE };

	for (int i = 0; i < 3; i++)
		if (rdma_op(&self->pair, opcode, self->host_mr, self->host.iova + at[i], PIECE,
			    self->buf.iova + at[i], self->mr->rkey) ||
		    memcmp(self->host.cpu + at[i], self->buf.cpu + at[i], PIECE))
			return false;
	return true;
}

TEST_F(vram, registered_vram_is_not_evicted)
{
	for (int i = 0; i < OTHERS; i++)
		memory_open_filled(&self->other[i], QXL, SIZE, 10 + i);

	ASSERT_TRUE(moves(self, IBV_WR_RDMA_WRITE));
	for (int i = 0; i < OTHERS; i++) {
		ASSERT_TRUE(memory_untouched(&self->other[i])) {
			TH_LOG("buffer %d, which was not written, has changed", i);
		}
	}

	memset(self->host.cpu, 0, SIZE);
	memset(self->buf.cpu, 0x77, SIZE);
	ASSERT_TRUE(moves(self, IBV_WR_RDMA_READ));
}

TEST_HARNESS_MAIN
