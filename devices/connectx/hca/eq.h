/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An event queue is a ring in guest memory.  The model writes entries, the owner bit last,
 * and raises the EQ's interrupt if the guest armed it.  An event of a type goes to the EQ
 * whose CREATE_EQ subscribed to it last; a completion to the EQ of its CQ.
 *
 * A completion event is never lost: a CQ whose EQ is full waits until the guest has
 * consumed an entry.  Other events that find their EQ full are lost, as its driver made it
 * too small.
 */
#ifndef CONNECTX_EQ_H
#define CONNECTX_EQ_H

#include "cmd.h"
#include "list.h"
#include "queue.h"

struct uar;

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

extern const struct cmd_op eq_ops[];

struct eq *eq_get(struct hca *hca, uint32_t number);
/* The guest wrote an EQ's doorbell: consumer index, and whether it arms. */
void eq_doorbell(struct hca *hca, uint32_t value, bool arm);
/* An entry in EQ, for a CQ.  0, -ENOSPC: it is full, -EFAULT: it is lost. */
int eq_push(struct eq *eq, unsigned int type, unsigned int sub_type, const void *data,
	    size_t len);
/* An entry in the EQ that subscribed to TYPE; false if none did.  LEN: up to 28 bytes. */
bool event_send(struct hca *hca, unsigned int type, unsigned int sub_type, const void *data,
		size_t len);
bool event_subscribed(const struct hca *hca, unsigned int type);
/* Free all EQs and CQs. */
void event_reset(struct hca *hca);

#endif
