/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traffic to a buffer that may move at any time: writes, reads, fetch-and-adds and sends,
 * many of them under way, in which a byte that gets lost, doubled, late or to another place
 * is found.
 *
 * A lane is a part of the buffer that one queue pair of the requester works on:
 *
 *	SLOTS records	which the requester writes, and reads back behind each write
 *	SLOTS records	which the owner's CPU writes for each round, and the requester reads
 *	SLOTS records	where messages arrive, in turn
 *	a record	whose first word the requester adds to, one at a time
 *	the rest	records that nobody touches
 *
 * The owner has the buffer and posts the receives; it looks at the buffer by the CPU.  The
 * two ends may be in one process, or in two guests: then they tell each other the structs
 * lane_address and lane_total.
 *
 * What works or checks returns NULL, or what went wrong.  The status of a completion with an
 * error is in lane.failed.
 */
#ifndef LIB_TRAFFIC_H
#define LIB_TRAFFIC_H

#include "lib/memory.h"
#include "lib/record.h"
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define SLOTS 8
#define LANE_RECORDS (4 * SLOTS)
#define LANE (LANE_RECORDS * RECORD)	/* bytes of the buffer */
#define LANE_LOCAL (5 * SLOTS * RECORD)	/* of the requester's memory */

/* What one end has to know of the other. */
struct lane_address {
	uint32_t lid, qpn, rkey, unused;
	uint64_t va;		/* of the lane */
};

/* What the requester has done so far. */
struct lane_total {
	uint64_t batches;	/* the number of the records that it wrote last */
	uint64_t added, sent, operations;
};

struct lane {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	uint32_t index;		/* of the lane in its buffer, a part of each place */
	struct ibv_mr *mr;	/* of the buffer, or of the requester's memory */
	uint64_t va;		/* there, of what the lane has of it */
	uint8_t *cpu;		/* the same for the CPU */
	struct lane_address far;
	struct lane_total total;
	uint64_t received;	/* owner */
	enum ibv_wc_status failed;
	bool silent;		/* requester: it sends no messages */
};

/* One end of a lane; its part of the memory begins at AT.  Not connected yet. */
void lane_open(struct lane *l, struct ibv_pd *pd, struct ibv_mr *mr, const struct memory *m,
	       size_t at, uint32_t index);
struct lane_address lane_address(const struct lane *l);
void lane_connect(struct lane *l, const struct lane_address *far);
/* Also for one that was opened only in part. */
void lane_close(struct lane *l);

/* Requester: N batches in round ROUND, each completed and checked. */
const char *lane_work(struct lane *l, uint64_t round, int n);

/* Owner: make all of the lane and post the receives; before the other end sends. */
void lane_make(struct lane *l);
/* Owner: the records that the requester reads in this round. */
void lane_begin_round(struct lane *l, uint64_t round);
/* Owner: look at what has arrived and let the next come.  NULL or what is wrong. */
const char *lane_receive(struct lane *l);
/* Owner: the requester is at rest and has done this: is all of it there? */
const char *lane_check(struct lane *l, const struct lane_total *done, uint64_t round);

#endif
