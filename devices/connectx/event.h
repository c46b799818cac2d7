/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Event queues and completion queues.
 *
 * An EQ is a ring in guest memory.  The model writes entries, the owner bit last, and
 * raises the EQ's interrupt if the guest armed it.  An event of a type goes to the EQ
 * whose CREATE_EQ subscribed to it last; a completion to the EQ of its CQ.
 *
 * A CQ is the same for completions.  The consumer index is in its doorbell record,
 * which user space writes: it only decides whether the CQ overflows, and a CQ that does
 * is in error, gets no more entries, and reports it by an event.
 *
 * A completion event is never lost: a CQ whose EQ is full waits until the guest has
 * consumed an entry.  Other events that find their EQ full are lost, as its driver made it
 * too small.
 */
#ifndef CONNECTX_EVENT_H
#define CONNECTX_EVENT_H

#include "devx.h"

struct eq {
	struct hca *hca;
	uint32_t number, log_size;
	uint16_t uid;			/* UID_SHARED: CQs of all users may use it */
	struct queue_buf buf;
	uint32_t producer, consumer;	/* consumer: as of the last doorbell */
	unsigned int vector, users;
	uint64_t events;		/* bit mask of the types that it subscribed to */
	bool armed, overrun;		/* overrun: an event was lost */
	struct uar *uar;
	struct list waiting;		/* CQs whose event finds no room */
	u8 context[IFC_BYTES(eqc)];
};

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
	struct eq *eq;
	struct uar *uar;
	struct list waits;		/* of eq->waiting */
	unsigned int users;		/* QPs, SRQs */
	enum { CQ_FIRED, CQ_ARMED, CQ_ARMED_SOLICITED } arm;
	u8 arm_sn, fired_sn;		/* sequence number of the arm, and of the last event */
	bool error, ignore_overrun;
	/* Moderation: an event after so many completions, or so long after the first. */
	uint32_t max_count, period_us, count;
	struct timer moderation;
	u8 context[IFC_BYTES(cqc)];
};

struct eq *eq_get(struct hca *hca, uint32_t number);
/* The guest wrote an EQ's doorbell: consumer index, and whether it arms. */
void eq_doorbell(struct hca *hca, uint32_t value, bool arm);
/* An entry in the EQ that subscribed to TYPE; false if none did.  LEN: up to 28 bytes. */
bool event_send(struct hca *hca, unsigned int type, unsigned int sub_type, const void *data,
		size_t len);
bool event_subscribed(const struct hca *hca, unsigned int type);

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

/* Between eq.c and cq.c: an entry in EQ.  0, -ENOSPC: it is full, -EFAULT: it is lost. */
int eq_push(struct eq *eq, unsigned int type, unsigned int sub_type, const void *data,
	    size_t len);
void cq_event_again(struct cq *cq);	/* its EQ was full, and has room */
void cq_free_all(struct hca *hca);

/* Free all of them. */
void event_reset(struct hca *hca);

#endif
