/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A completion queue is a ring in guest memory, as an event queue (eq.h).  The consumer
 * index is in its doorbell record, which user space writes: it only decides whether the CQ
 * overflows, and a CQ that does is in error, gets no more entries, and reports it by an
 * event.
 */
#ifndef CONNECTX_CQ_H
#define CONNECTX_CQ_H

#include "cmd.h"
#include "devx.h"
#include "hca.h"
#include "list.h"
#include "loop.h"
#include "queue.h"

struct cq {
	struct hca *hca;
	uint32_t number, log_size, entry_size;
	uint16_t uid;
	struct queue_buf buf;
	struct umem_use umems;		/* where buffer and doorbell record are, if there */
	uint64_t doorbell;		/* record: consumer index, arm */
	uint32_t producer;
	uint32_t consumer;		/* as last read from the doorbell record */
	uint32_t solicited;		/* producer after the last solicited completion */
	uint32_t notified;		/* producer when the last event was sent */
	struct eq *eq;
	struct uar *uar;
	struct list waits;		/* of eq->waiting */
	unsigned int users;		/* QPs, SRQs */
	enum { CQ_FIRED, CQ_ARMED, CQ_ARMED_SOLICITED } arm;
	u8 arm_sn, fired_sn;		/* sequence number of the arm, and of the last event */
	bool error, ignore_overrun, collapsed;
	/* Moderation: an event after so many completions, or so long after the first. */
	uint32_t max_count, period_us, count;
	struct timer moderation;
	u8 context[IFC_BYTES(cqc)];
};

extern const struct cmd_op cq_ops[];

struct cq *cq_get(struct hca *hca, uint32_t number);
/* The same, if user UID may name it. */
static inline struct cq *cq_of_user(struct hca *h, uint16_t uid, uint32_t number)
{
	struct cq *cq = cq_get(h, number);

	return cq && uid_owns(uid, cq->uid) ? cq : NULL;
}

/* The guest wrote a CQ's doorbell at offset 0x20 of a UAR: VALUE and the CQ's number. */
void cq_doorbell(struct hca *hca, uint32_t value, uint32_t number);
/*
 * Add a completion.  The caller fills everything but the owner bit; data scattered to the
 * entry (inline receive) is in its first 32 bytes.
 */
void cq_push(struct cq *cq, const struct mlx5_cqe64 *cqe, bool solicited);
/* Whether completions get lost from now on; false once it is in error. */
bool cq_usable(const struct cq *cq);

/* For eq.c. */
void cq_event_again(struct cq *cq);	/* its EQ was full, and has room */
void cq_free_all(struct hca *hca);

#endif
