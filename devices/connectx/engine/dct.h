/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A DC target (DCT).  On the wire and in the table it is a QP, whose number peers name and
 * which counts as a user of its CQ, SRQ and PD; it sends nothing, and has commands of its own
 * (dct_cmd.c).  Each initiator that sends to it has a half-connection (dct.c).
 */
#ifndef CONNECTX_DCT_H
#define CONNECTX_DCT_H

#include "cmd.h"
#include "list.h"
#include "qp.h"

#define DCT_HALVES 128		/* half-connections of a DCT, at most */

/* What a DCT has for one initiator. */
struct half {
	struct list entry;	/* of dct->halves */
	uint64_t connection;	/* its number: the highest that was seen */
	uint64_t heard;		/* when the last packet came, ns */
	bool closed;		/* the initiator sends nothing of it again */
	struct qp qp;		/* a responder with the number and the attributes of the DCT */
};

struct dct {
	uint64_t key;
	struct list halves;	/* the last heard of comes first */
	unsigned int count;
	bool drained;
	u8 context[IFC_BYTES(dctc)];
};

extern const struct cmd_op dct_ops[];

/* End all half-connections; receives that were taken are flushed.  No packet gets in again. */
void dct_drain(struct qp *qp);

#endif
