/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands: each has one handler, in the file of the object that it is about, and each of
 * these files a table of its commands, ended by an entry without a name.  cmdif.c copies the
 * input out of guest memory, checks lengths, calls the handler, and writes the output and
 * the status.  A handler sees private memory only.
 *
 * Inputs are PRM structures: mlx5_ifc_NAME_in_bits and _out_bits.
 */
#ifndef CONNECTX_CMD_H
#define CONNECTX_CMD_H

#include "ifc.h"
#include "trace.h"
#include <stdbool.h>
#include <stdio.h>

struct hca;

/* MLX5_CMD_STAT_* of the kernel's driver (PRM, "command delivery status"). */
enum cmd_status {
	CMD_OK = 0x00,
	CMD_INTERNAL_ERR = 0x01,
	CMD_BAD_OP = 0x02,
	CMD_BAD_PARAM = 0x03,
	CMD_BAD_SYS_STATE = 0x04,
	CMD_BAD_RES = 0x05,		/* no such object, or of another kind */
	CMD_RES_BUSY = 0x06,
	CMD_LIM_EXCEEDED = 0x08,
	CMD_BAD_RES_STATE = 0x09,	/* it has users, or is in the wrong state */
	CMD_BAD_INDEX = 0x0a,
	CMD_NO_RESOURCES = 0x0f,
	CMD_BAD_QP_STATE = 0x10,
	CMD_BAD_INPUT_LEN = 0x50,
	CMD_BAD_OUTPUT_LEN = 0x51,
	CMD_BAD_PACKET = 0x30,
	CMD_BAD_SIZE = 0x40,		/* what is not polled does not fit into the new CQ */
};

struct cmd {
	const uint8_t *in;	/* in_len bytes, at least what the table demands */
	size_t in_len;
	uint8_t *out;		/* zeroed, at least what the table demands */
	size_t out_len;
	uint16_t op, uid, op_mod;
	const char *name;	/* of the opcode, NULL: not modelled */
	uint32_t syndrome;	/* for people: names the check that refused */
	char what[96];		/* for --trace: the object and its main parameters */
};

/* Refuse with STATUS; the syndrome in the guest's log is the opcode and the line that did. */
#define cmd_refuse(cmd, status) \
	((cmd)->syndrome = (uint32_t)(cmd)->op << 16 | __LINE__, (status))
#define cmd_says(cmd, ...) \
	((void)(tracing && snprintf((cmd)->what, sizeof((cmd)->what), __VA_ARGS__)))
/* The same, and for the trace a reason. */
#define REFUSE(cmd, status, ...) (cmd_says(cmd, __VA_ARGS__), cmd_refuse(cmd, status))

struct cmd_op {
	uint16_t op;
	const char *name;
	enum cmd_status (*run)(struct hca *hca, struct cmd *cmd);
	uint16_t in_len, out_len;	/* the fixed parts, in bytes */
	bool early;			/* allowed before INIT_HCA */
};

/* CMD_OP(ALLOC_PD, alloc_pd) for enum MLX5_CMD_OP_ALLOC_PD, cmd_alloc_pd(), and the lengths. */
#define CMD_OP(OP, name_, ...)						\
	{ .op = MLX5_CMD_OP_##OP, .name = #OP, .run = cmd_##name_,	\
	  .in_len = IFC_BYTES(name_##_in), .out_len = IFC_BYTES(name_##_out), ##__VA_ARGS__ }

/* What follows the fixed part of the input (a pas list): a pointer and the bytes. */
static inline const void *cmd_tail(const struct cmd *c, size_t fixed, size_t *len)
{
	*len = c->in_len > fixed ? c->in_len - fixed : 0;
	return c->in + fixed;
}

#endif
