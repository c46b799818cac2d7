// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Device memory, MEMIC: 256 KiB behind BAR 0 that the guest's CPUs store to and QPs reach
 * through mkeys of mode MEMIC (commands ALLOC, DEALLOC and MODIFY_MEMIC; capability
 * device_mem_cap).
 *
 * It is allocated in blocks of 64 bytes, inside a range of the BAR that the driver names
 * so that no two processes share a page.  MODIFY_MEMIC opens a second address for an
 * allocation, at which an access is an operation:
 *
 *	store to INCREMENT	adds the value to what is there
 *	load from TEST_AND_SET	gives what is there, and leaves a 1
 *
 * Here these addresses are the memory's own plus a multiple of its size, one window after
 * the other.  Memory that is not allocated reads as 0 and swallows stores, and is zeroed
 * when it is freed, so that nobody reads what another one left.
 */
#include "memic.h"
#include "hca.h"
#include "ifc.h"
#include <stdlib.h>

#define BLOCK (1u << HCA_LOG_MEMIC_BLOCK)
#define BLOCKS (HCA_MEMIC_SIZE >> HCA_LOG_MEMIC_BLOCK)
#define FREE 0xffff

struct memic {
	uint16_t first[BLOCKS];		/* block that begins the allocation, or FREE */
	uint16_t count[BLOCKS];		/* blocks of the allocation that begins here */
	u8 ops[BLOCKS];			/* windows that are open for it */
};

void memic_reset(struct hca *hca)
{
	memset(hca->memic, 0, HCA_MEMIC_SIZE);
	memset(hca->memic_state, 0, sizeof(*hca->memic_state));
	memset(hca->memic_state->first, 0xff, sizeof(hca->memic_state->first));
}

void memic_init(struct hca *hca)
{
	hca->memic = malloc(HCA_MEMIC_SIZE);
	hca->memic_state = malloc(sizeof(*hca->memic_state));
	if (hca->memic && hca->memic_state)
		memic_reset(hca);
}

u8 *memic_at(struct hca *hca, uint64_t offset, size_t len)
{
	uint64_t at = offset - HCA_MEMIC_START;

	if (offset < HCA_MEMIC_START || !len || len > HCA_MEMIC_SIZE || at > HCA_MEMIC_SIZE - len)
		return NULL;
	for (uint64_t b = at / BLOCK; b <= (at + len - 1) / BLOCK; b++)
		if (hca->memic_state->first[b] == FREE)
			return NULL;
	return hca->memic + at;
}

/* The byte behind an address in the window of OP, if that is open; else NULL. */
static u8 *window_at(struct hca *hca, uint64_t offset, unsigned int *op)
{
	uint64_t window = (offset - HCA_MEMIC_START) / HCA_MEMIC_SIZE;
	uint64_t at = (offset - HCA_MEMIC_START) % HCA_MEMIC_SIZE;
	const struct memic *s = hca->memic_state;
	uint16_t first = s->first[at / BLOCK];

	*op = window - 1;
	if (!window || window > HCA_MEMIC_OPS || first == FREE || !(s->ops[first] & 1u << *op))
		return NULL;
	return hca->memic + at;
}

void memic_bar_read(struct hca *hca, uint64_t offset, void *data, size_t size)
{
	u8 *p = memic_at(hca, offset, size);
	unsigned int op;

	if (p) {
		memcpy(data, p, size);
		return;
	}
	memset(data, 0, size);
	p = window_at(hca, offset, &op);
	/* A byte is the only size of operation that the capabilities offer. */
	if (!p || size != 1 || op != HCA_MEMIC_TEST_AND_SET)
		return;
	memcpy(data, p, 1);
	*p = 1;
}

void memic_bar_write(struct hca *hca, uint64_t offset, const void *data, size_t size)
{
	u8 *p = memic_at(hca, offset, size);
	unsigned int op;

	if (p) {
		memcpy(p, data, size);
		return;
	}
	p = window_at(hca, offset, &op);
	if (p && size == 1 && op == HCA_MEMIC_INCREMENT)
		*p += *(const u8 *)data;
}

/* The first of COUNT free blocks from AT to END, aligned; BLOCKS if there are none. */
static uint32_t find_free(const struct memic *s, uint32_t at, uint32_t end, uint32_t count,
			  uint32_t align)
{
	at = (at + align - 1) / align * align;
	while (at <= end && count <= end - at) {
		uint32_t n = 0;

		while (n < count && s->first[at + n] == FREE)
			n++;
		if (n == count)
			return at;
		/* On behind the one that is taken. */
		at = (at + n + 1 + align - 1) / align * align;
	}
	return BLOCKS;
}

static enum cmd_status cmd_alloc_memic(struct hca *hca, struct cmd *c)
{
	uint64_t start = IFC_GET64(alloc_memic_in, c->in, range_start_addr);
	uint32_t range = IFC_GET(alloc_memic_in, c->in, range_size);
	uint32_t size = IFC_GET(alloc_memic_in, c->in, memic_size);
	uint32_t align = IFC_GET(alloc_memic_in, c->in, log_memic_addr_alignment);
	struct memic *s = hca->memic_state;
	uint32_t at, first, end;

	cmd_says(c, "%u bytes in %#llx+%#x", size, (unsigned long long)start, range);
	if (align > HCA_LOG_MEMIC_ALIGN || !size || size % BLOCK || size > range)
		return cmd_refuse(c, CMD_BAD_PARAM);
	if (start < HCA_MEMIC_START || start % BLOCK || range > HCA_MEMIC_SIZE ||
	    start - HCA_MEMIC_START > HCA_MEMIC_SIZE - range)
		return cmd_refuse(c, CMD_BAD_PARAM);
	first = (start - HCA_MEMIC_START) / BLOCK;
	end = first + range / BLOCK;
	at = find_free(s, first, end, size / BLOCK, 1u << align);
	/* To this status the driver tries the next range. */
	if (at == BLOCKS)
		return cmd_refuse(c, CMD_NO_RESOURCES);
	for (uint32_t b = at; b < at + size / BLOCK; b++)
		s->first[b] = at;
	s->count[at] = size / BLOCK;
	s->ops[at] = 0;
	IFC_SET64(alloc_memic_out, c->out, memic_start_addr,
		  HCA_MEMIC_START + (uint64_t)at * BLOCK);
	return CMD_OK;
}

/* The block that begins an allocation, by its address, or -1. */
static int find_start(const struct memic *s, uint64_t addr)
{
	uint64_t at = addr - HCA_MEMIC_START;

	if (addr < HCA_MEMIC_START || at >= HCA_MEMIC_SIZE || at % BLOCK ||
	    s->first[at / BLOCK] != at / BLOCK)
		return -1;
	return at / BLOCK;
}

static enum cmd_status cmd_dealloc_memic(struct hca *hca, struct cmd *c)
{
	uint64_t addr = IFC_GET64(dealloc_memic_in, c->in, memic_start_addr);
	uint32_t size = IFC_GET(dealloc_memic_in, c->in, memic_size);
	struct memic *s = hca->memic_state;
	int at = find_start(s, addr);

	cmd_says(c, "%#llx+%#x", (unsigned long long)addr, size);
	if (at < 0)
		return cmd_refuse(c, CMD_BAD_RES);
	if (size != s->count[at] * BLOCK)
		return cmd_refuse(c, CMD_BAD_PARAM);
	if (s->ops[at])
		return cmd_refuse(c, CMD_BAD_RES_STATE);
	memset(hca->memic + (size_t)at * BLOCK, 0, size);
	for (uint32_t b = 0; b < size / BLOCK; b++)
		s->first[at + b] = FREE;
	s->count[at] = 0;
	return CMD_OK;
}

static enum cmd_status cmd_modify_memic(struct hca *hca, struct cmd *c)
{
	uint64_t addr = IFC_GET64(modify_memic_in, c->in, memic_start_addr);
	uint32_t op = IFC_GET(modify_memic_in, c->in, memic_operation_type);
	struct memic *s = hca->memic_state;
	int at = find_start(s, addr);
	bool open;

	cmd_says(c, "%s operation %u of %#llx", c->op_mod ? "close" : "open", op,
		 (unsigned long long)addr);
	if (at < 0)
		return cmd_refuse(c, CMD_BAD_RES);
	if (op >= HCA_MEMIC_OPS)
		return cmd_refuse(c, CMD_BAD_PARAM);
	open = s->ops[at] & 1u << op;
	switch (c->op_mod) {
	case MLX5_MODIFY_MEMIC_OP_MOD_ALLOC:
		if (open)
			return cmd_refuse(c, CMD_BAD_RES_STATE);
		s->ops[at] |= 1u << op;
		IFC_SET64(modify_memic_out, c->out, memic_operation_addr,
			  addr + (op + 1) * HCA_MEMIC_SIZE);
		return CMD_OK;
	case MLX5_MODIFY_MEMIC_OP_MOD_DEALLOC:
		if (!open)
			return cmd_refuse(c, CMD_BAD_RES_STATE);
		s->ops[at] &= ~(1u << op);
		return CMD_OK;
	default:
		return cmd_refuse(c, CMD_BAD_PARAM);
	}
}

const struct cmd_op memic_ops[] = {
	CMD_OP(ALLOC_MEMIC, alloc_memic),
	CMD_OP(DEALLOC_MEMIC, dealloc_memic),
	CMD_OP(MODIFY_MEMIC, modify_memic),
	{ },
};
