/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared receive queues: the RMP that is behind a basic SRQ, and the XRC SRQ.  Both are
 * linked lists of WQEs in guest memory: each says which one is next.  The doorbell record
 * counts what was posted.  A link that leads outside of the queue, or a count that is more
 * than the queue holds, ends the SRQ with a catastrophic error event.
 */
#ifndef CONNECTX_SRQ_H
#define CONNECTX_SRQ_H

#include "cmd.h"
#include "devx.h"
#include "queue.h"

struct cq;

#define RECV_WQE_MAX 512		/* bytes */
/* Data segments; one less if it has a link. */
#define RECV_SEGS ((int)(RECV_WQE_MAX / sizeof(struct mlx5_wqe_data_seg)))

/* A receive WQE, taken from a queue. */
struct recv_wqe {
	uint16_t index;		/* wqe_counter of its completion */
	unsigned int segs;
	struct { uint32_t len, lkey; uint64_t addr; } seg[RECV_SEGS];
	uint64_t room;		/* for a message: the sum of their lengths, MESSAGE_MAX at most */
};

struct srq {
	struct hca *hca;
	uint32_t number;
	uint16_t uid;
	bool xrc;
	bool cyclic;			/* an RMP whose WQEs lie in order */
	bool bare;			/* and have not even the room of a link */
	struct queue_buf buf;
	struct umem_use umems;		/* where buffer and doorbell record are, if there */
	uint32_t log_size, stride;
	uint64_t doorbell;
	uint32_t pd, xrcd, user_index;
	struct cq *cq;			/* of an XRC SRQ, else NULL */
	uint16_t head, taken;
	uint16_t limit;			/* 0: not armed */
	bool error;
	unsigned int users;
	u8 context[IFC_BYTES(rmpc)];	/* or xrc_srqc, which is shorter */
};

extern const struct cmd_op srq_ops[];

struct srq *srq_get(struct hca *hca, uint32_t number);
/* 1: taken, 0: it is empty, -EINVAL: it is in error (now). */
int srq_take(struct srq *srq, struct recv_wqe *r);
/* Parse the data segments of a receive WQE: BYTES of LEN.  Used by own receive queues too. */
void recv_parse(struct recv_wqe *r, const u8 *bytes, size_t len);
void srq_reset(struct hca *hca);

#endif
