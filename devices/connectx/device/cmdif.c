// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The command queue: 32 entries of 64 bytes in guest memory, a doorbell, and for long
 * inputs and outputs chains of mailboxes (PRM, "Command Interface"; the layouts are
 * mlx5_cmd_layout and mlx5_cmd_prot_block of the kernel's driver).
 *
 * Two kinds of failure.  A queue entry or a mailbox that cannot be delivered gets a
 * delivery status in the entry's last byte, and no command runs.  A command that is
 * delivered and refused has a status and a syndrome in its output.
 *
 * An entry is read once.  The length that it gives bounds the walk along a chain, the
 * block numbers end a chain that loops, and both chains are walked before the command
 * runs, so a command that ran can be answered.  The command sees private memory only.
 */
#include "cmdif.h"
#include "caps.h"
#include "cq.h"
#include "dct.h"
#include "devx.h"
#include "direct.h"
#include "dma.h"
#include "eq.h"
#include "hca.h"
#include "ifc.h"
#include "life.h"
#include "mcg.h"
#include "memic.h"
#include "mkey.h"
#include "numbers.h"
#include "odp.h"
#include "port.h"
#include "qp.h"
#include "srq.h"
#include "stats.h"
#include "table.h"
#include "trace.h"
#include <stdlib.h>

#define CMD_LOG_SLOTS 5
#define CMD_LOG_STRIDE 6
#define CMD_INLINE 16			/* bytes of input and of output in the entry */
#define CMD_HEAD 8			/* opcode and op_mod, status and syndrome */
#define MAILBOX_DATA 512
#define MAILBOX_ALIGN 512
#define IN_MAX (4u << 20)		/* CREATE_MKEY with 2^16 KLMs takes 1 MiB */
#define OUT_MAX (1u << 20)
#define EVENT_CMD 0x0a

/* Of the entry: where the fields are. */
enum { ENTRY_TYPE = 0, ENTRY_IN_LEN = 4, ENTRY_IN_BOX = 8, ENTRY_IN = 16, ENTRY_OUT = 32,
       ENTRY_OUT_BOX = 48, ENTRY_OUT_LEN = 56, ENTRY_TOKEN = 60, ENTRY_STATUS_OWN = 63,
       ENTRY_SIZE = 64 };
#define ENTRY_TYPE_PCI 7
#define ENTRY_OWNED_BY_HW 1

/* Of a mailbox. */
enum { BOX_NEXT = 560, BOX_NUMBER = 568, BOX_TOKEN = 573, BOX_SIZE = 576 };

/* MLX5_CMD_DELIVERY_STAT_* of the kernel's driver. */
enum delivery {
	DELIVERY_OK = 0x0,
	DELIVERY_TOKEN = 0x2,
	DELIVERY_BLOCK_NUMBER = 0x3,
	DELIVERY_OUT_ALIGN = 0x4,
	DELIVERY_IN_ALIGN = 0x5,
	DELIVERY_FIRMWARE = 0x6,	/* memory that cannot be reached, ours or the guest's */
	DELIVERY_IN_LENGTH = 0x7,
	DELIVERY_OUT_LENGTH = 0x8,
	DELIVERY_DESCRIPTOR = 0x10,
};

const struct cmd_op *const cmd_tables[] = {
	hca_ops, number_ops, caps_ops, port_ops, eq_ops, cq_ops, srq_ops, qp_ops, mkey_ops,
	odp_ops, memic_ops, mcg_ops, devx_ops, dct_ops, direct_ops, NULL
};

static const struct cmd_op *find_op(uint16_t op)
{
	for (const struct cmd_op *const *t = cmd_tables; *t; t++)
		for (const struct cmd_op *o = *t; o->name; o++)
			if (o->op == op)
				return o;
	return NULL;
}

/* Once for each opcode; those that no driver has share what their low bits say. */
static void note_unknown(struct cmdif *c, uint16_t op)
{
	unsigned int bit = op & 0xfff;

	if (c->unknown[bit / 8] & 1u << bit % 8)
		return;
	c->unknown[bit / 8] |= 1u << bit % 8;
	note("command %#x is not modelled", op);
}

static enum cmd_status dispatch(struct hca *hca, struct cmd *cmd, const struct cmd_op *op)
{
	if (!op) {
		note_unknown(hca->cmdif, cmd->op);
		return cmd_refuse(cmd, CMD_BAD_OP);
	}
	if (!hca->initialized && !op->early)
		return cmd_refuse(cmd, CMD_BAD_SYS_STATE);
	if (cmd->in_len < op->in_len)
		return cmd_refuse(cmd, CMD_BAD_INPUT_LEN);
	if (cmd->out_len < op->out_len)
		return cmd_refuse(cmd, CMD_BAD_OUTPUT_LEN);
	if (cmd->uid && cmd->uid != UID_SHARED && !table_get(&hca->uctxs, cmd->uid))
		return cmd_refuse(cmd, CMD_BAD_PARAM);
	return op->run(hca, cmd);
}

enum cmd_status cmd_run(struct hca *hca, struct cmd *cmd)
{
	enum cmd_status status = CMD_BAD_INPUT_LEN;
	const struct cmd_op *op = NULL;

	if (cmd->out_len < CMD_HEAD)
		return CMD_BAD_OUTPUT_LEN;
	if (cmd->in_len >= IFC_BYTES(set_issi_in)) {
		cmd->op = be16_at(cmd->in);
		cmd->uid = be16_at(cmd->in + 2);
		cmd->op_mod = be16_at(cmd->in + 6);
		op = find_op(cmd->op);
		cmd->name = op ? op->name : NULL;
		status = dispatch(hca, cmd, op);
	}
	if (status) {
		/* What a handler wrote before it refused is nobody's business. */
		memset(cmd->out, 0, cmd->out_len);
		cmd->out[0] = status;
		IFC_SET(set_issi_out, cmd->out, syndrome, cmd->syndrome);
	}
	return status;
}

/* One mailbox of a chain, checked.  *NEXT: its successor. */
static enum delivery read_box(struct hca *hca, uint64_t addr, uint32_t number, u8 token,
			      u8 box[BOX_SIZE], uint64_t *next)
{
	if (dma_read(hca->dma, addr, box, BOX_SIZE))
		return DELIVERY_FIRMWARE;
	if (be32_at(box + BOX_NUMBER) != number)
		return DELIVERY_BLOCK_NUMBER;
	if (box[BOX_TOKEN] != token)
		return DELIVERY_TOKEN;
	*next = be64_at(box + BOX_NEXT);
	return DELIVERY_OK;
}

static enum delivery read_input(struct hca *hca, const u8 *entry, u8 *in, size_t len)
{
	uint64_t addr = be64_at(entry + ENTRY_IN_BOX);
	size_t done = CMD_INLINE;
	u8 box[BOX_SIZE];

	memcpy(in, entry + ENTRY_IN, CMD_INLINE);
	for (uint32_t i = 0; done < len; i++) {
		size_t part = len - done < MAILBOX_DATA ? len - done : MAILBOX_DATA;
		enum delivery d;

		if (!addr)
			return DELIVERY_IN_LENGTH;
		if (addr % MAILBOX_ALIGN)
			return DELIVERY_IN_ALIGN;
		d = read_box(hca, addr, i, entry[ENTRY_TOKEN], box, &addr);
		if (d)
			return d;
		memcpy(in + done, box, part);
		done += part;
	}
	return DELIVERY_OK;
}

static size_t boxes_of(size_t len)
{
	return len > CMD_INLINE ? (len - CMD_INLINE + MAILBOX_DATA - 1) / MAILBOX_DATA : 0;
}

/* The addresses of the mailboxes for the output. */
static enum delivery walk_output(struct hca *hca, const u8 *entry, uint64_t *where, size_t count)
{
	uint64_t addr = be64_at(entry + ENTRY_OUT_BOX);
	u8 box[BOX_SIZE];

	for (size_t i = 0; i < count; i++) {
		enum delivery d;

		if (!addr)
			return DELIVERY_OUT_LENGTH;
		if (addr % MAILBOX_ALIGN)
			return DELIVERY_OUT_ALIGN;
		where[i] = addr;
		d = read_box(hca, addr, i, entry[ENTRY_TOKEN], box, &addr);
		if (d)
			return d;
	}
	return DELIVERY_OK;
}

static enum delivery write_output(struct hca *hca, uint64_t entry, const struct cmd *cmd,
				  const uint64_t *where, size_t count)
{
	size_t done = CMD_INLINE;

	for (size_t i = 0; i < count; i++) {
		size_t left = cmd->out_len - done;
		size_t part = left < MAILBOX_DATA ? left : MAILBOX_DATA;

		if (dma_write(hca->dma, where[i], cmd->out + done, part))
			return DELIVERY_FIRMWARE;
		done += part;
	}
	if (dma_write(hca->dma, entry + ENTRY_OUT, cmd->out, CMD_INLINE))
		return DELIVERY_FIRMWARE;
	return DELIVERY_OK;
}

static void trace_cmd(unsigned int slot, const struct cmd *cmd, enum cmd_status status,
		      uint64_t began)
{
	trace("cmd %u %#x %s op_mod %#x in %zu out %zu status %#x syndrome %#x %u us: %s", slot,
	      cmd->op, cmd->name ? cmd->name : "unknown", cmd->op_mod, cmd->in_len,
	      cmd->out_len, status, cmd->syndrome,
	      (unsigned int)((stats_clock() - began) / 1000), cmd->what);
}

/* Deliver the entry and run it; cmd->name and cmd->op say what ran. */
static enum delivery run_entry(struct hca *hca, unsigned int slot, uint64_t addr, const u8 *entry,
			       uint64_t began, struct cmd *cmd)
{
	uint64_t *where = NULL;
	enum cmd_status status;
	enum delivery d;
	u8 *in = NULL;
	size_t count;

	*cmd = (struct cmd) { .in_len = be32_at(entry + ENTRY_IN_LEN),
			      .out_len = be32_at(entry + ENTRY_OUT_LEN) };
	if (entry[ENTRY_TYPE] != ENTRY_TYPE_PCI)
		return DELIVERY_DESCRIPTOR;
	if (cmd->in_len < CMD_HEAD || cmd->in_len > IN_MAX)
		return DELIVERY_IN_LENGTH;
	if (cmd->out_len < CMD_HEAD || cmd->out_len > OUT_MAX)
		return DELIVERY_OUT_LENGTH;
	count = boxes_of(cmd->out_len);
	d = DELIVERY_FIRMWARE;
	in = malloc(cmd->in_len + CMD_INLINE);
	cmd->out = calloc(1, cmd->out_len + CMD_INLINE);
	where = calloc(count + 1, sizeof(*where));
	if (!in || !cmd->out || !where)
		goto out;
	cmd->in = in;
	d = read_input(hca, entry, in, cmd->in_len);
	if (!d)
		d = walk_output(hca, entry, where, count);
	if (d)
		goto out;
	status = cmd_run(hca, cmd);
	trace_cmd(slot, cmd, status, began);
	d = write_output(hca, addr, cmd, where, count);
out:
	free(where);
	free(cmd->out);
	free(in);
	return d;
}

static void run_slot(struct hca *hca, unsigned int slot)
{
	uint64_t addr = hca->cmdif->queue + ((uint64_t)slot << CMD_LOG_STRIDE);
	uint64_t began = stats_clock();
	u8 entry[ENTRY_SIZE], vector[4];
	enum delivery d;
	struct cmd cmd;
	bool events;

	if (dma_read(hca->dma, addr, entry, sizeof(entry))) {
		note("the command queue at %#llx is not in guest memory",
		     (unsigned long long)addr);
		return;
	}
	if (!(entry[ENTRY_STATUS_OWN] & ENTRY_OWNED_BY_HW))
		return;
	/*
	 * The command that creates the EQ for these events is itself polled, and so is the
	 * one that destroys it.
	 */
	events = event_subscribed(hca, EVENT_CMD);
	d = run_entry(hca, slot, addr, entry, began, &cmd);
	if (d)
		trace("cmd %u not delivered: %#x", slot, d);
	/* The owner bit goes last: with it the guest may use the entry again. */
	if (dma_store8(hca->dma, addr + ENTRY_STATUS_OWN, d << 1))
		return;
	/* The numbers of commands that are not modelled are the guest's choice. */
	if (cmd.name)
		stats_add(&hca->stats, cmd.name, cmd.op, 1, stats_clock() - began);
	put_be32(vector, 1u << slot);
	if (events && event_subscribed(hca, EVENT_CMD))
		event_send(hca, EVENT_CMD, 0, vector, sizeof(vector));
}

void cmd_doorbell(struct hca *hca, uint32_t slots)
{
	struct cmdif *c = hca->cmdif;

	if (!c->queue || c->nic_state != MLX5_INITIAL_SEG_NIC_INTERFACE_FULL_DRIVER)
		return;
	/* Slot 31 is the one that the driver keeps for pages; here it is as the others. */
	c->pending |= slots;
	while (c->pending) {
		unsigned int slot = __builtin_ctz(c->pending);

		c->pending &= c->pending - 1;
		run_slot(hca, slot);
	}
}

void cmd_queue_high(struct hca *hca, uint32_t high)
{
	hca->cmdif->high = high;
}

/* Bits 7:0 are the size of the queue, which is ours: a driver that loads again reads it. */
void cmd_queue_low(struct hca *hca, uint32_t low)
{
	hca->cmdif->queue = (uint64_t)hca->cmdif->high << 32 | (low & ~0xfffu);
	hca->cmdif->nic_state = low >> 8 & 7;
}

uint32_t cmd_queue_low_read(const struct hca *hca)
{
	return (uint32_t)(hca->cmdif->queue & ~0xfffull) | hca->cmdif->nic_state << 8 |
	       CMD_LOG_SLOTS << 4 | CMD_LOG_STRIDE;
}

void cmd_init(struct hca *hca)
{
	hca->cmdif = calloc(1, sizeof(*hca->cmdif));
}

void cmd_reset(struct hca *hca)
{
	struct cmdif *c = hca->cmdif;

	c->queue = 0;
	c->high = 0;
	c->pending = 0;
	c->nic_state = MLX5_INITIAL_SEG_NIC_INTERFACE_FULL_DRIVER;
}
