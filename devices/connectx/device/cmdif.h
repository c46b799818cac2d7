/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command interface: the queue of commands, and who carries each one out. */
#ifndef CONNECTX_CMDIF_H
#define CONNECTX_CMDIF_H

#include "cmd.h"

struct cmdif {
	uint64_t queue;		/* bus address, 0: not set */
	uint32_t high;		/* half of it, until the other one is written */
	uint32_t pending;	/* slots whose doorbell was rung */
	u8 nic_state;		/* MLX5_INITIAL_SEG_NIC_INTERFACE_* */
	u8 unknown[4096 / 8];	/* opcodes that were noted already */
};

/* The tables of commands of all files, ended by NULL. */
extern const struct cmd_op *const cmd_tables[];

/* hca->cmdif; NULL: no memory. */
void cmd_init(struct hca *hca);
void cmd_reset(struct hca *hca);
/* The guest wrote the address of the queue; LOW has the state of the interface too. */
void cmd_queue_high(struct hca *hca, uint32_t high);
void cmd_queue_low(struct hca *hca, uint32_t low);
uint32_t cmd_queue_low_read(const struct hca *hca);
/* The guest wrote the doorbell vector.  Runs the commands at once, lowest slot first. */
void cmd_doorbell(struct hca *hca, uint32_t slots);
/* Run one command on private memory: what cmd_doorbell() does, and what the tests call. */
enum cmd_status cmd_run(struct hca *hca, struct cmd *cmd);

#endif
