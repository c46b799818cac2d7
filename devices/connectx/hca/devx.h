/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * User memory (UMEM) of a process that makes QPs, CQs and mkeys by itself, through DEVX: the
 * driver pins the memory and gives the device its pages and a number.  The process puts
 * this number and an offset where the driver has bus addresses.
 *
 * A queue or mkey counts as a user of its umems, which therefore outlive it: as long as the
 * device may write there, the driver keeps the memory pinned.
 */
#ifndef CONNECTX_DEVX_H
#define CONNECTX_DEVX_H

#include "cmd.h"
#include "queue.h"

struct umem {
	uint32_t number;
	uint16_t uid;
	bool writable;
	unsigned int users;
	uint64_t bytes;			/* up to the end of the last page */
	struct queue_buf buf;
};

/* What one queue uses; NULL: its memory is no umem. */
struct umem_use {
	struct umem *buffer, *doorbell;
};

/*
 * Where fields are that mlx5_ifc.h does not name, in bytes: as rdma-core's
 * tests/mlx5_prm_structs.py has them.
 */
enum { CREATE_CQ_UMEM_OFFSET = 0x50, CREATE_CQ_UMEM_ID = 0x58, CQC_DBR_UMEM_ID = 0x4,
       QPC_DBR_UMEM_ID = 0xe4, CREATE_MKEY_UMEM_ID = 0x64, CREATE_MKEY_UMEM_OFFSET = 0x68 };

extern const struct cmd_op devx_ops[];

/* The umem of a command, or NULL: there is none, or it is another user's. */
struct umem *umem_of_cmd(struct hca *hca, const struct cmd *cmd, uint32_t number);
static inline bool umem_inside(const struct umem *u, uint64_t offset, uint64_t bytes)
{
	return offset <= u->bytes && bytes <= u->bytes - offset;
}

/*
 * BYTES from OFFSET of a umem as the buffer of a queue.  B is a copy of the page list that
 * counts as memory of the guest's objects, as that of queue_buf_init().
 */
enum cmd_status umem_buffer(struct hca *hca, struct cmd *cmd, struct umem_use *use,
			    uint32_t number, uint64_t offset, uint64_t bytes, bool write,
			    struct queue_buf *b);
/* *ADDR: the offset of a doorbell record; it becomes its bus address. */
enum cmd_status umem_doorbell(struct hca *hca, struct cmd *cmd, struct umem_use *use,
			      uint32_t number, uint64_t *addr);
/* The queue is gone. */
void umem_put(struct umem_use *use);

void devx_reset(struct hca *hca);

#endif
