/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traffic between two processes, of one guest or of two, both ways at once.
 *
 * Each process is an end, with the same number of lanes.  A lane is memory of some kind, an
 * MR of all of it, and an RC QP that is connected to the same lane of the other end.  On each
 * lane each end always has four requests under way: a write, a read, a fetch and add, and a
 * send.  So each MR is in use by its lkey and by its rkey, and data goes into and out of it.
 *
 * What arrives is compared: what is read, the sums that are fetched, what is received.  A
 * lane is over with its first error; what follows there has to be flushed, but for one error
 * of its other queue, which may find at the same time that the memory is gone.  The tallies may
 * be in memory that processes share, so that another one can watch.
 */
#ifndef LIB_ENDS_H
#define LIB_ENDS_H

#include "lib/memory.h"
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define MAX_LANES 8
#define LANE_SIZE (64 * PAGE)
#define SLOTS 8		/* for messages that arrive */

enum request { A_WRITE, A_READ, AN_ADD, A_SEND, NR_REQUESTS };

struct tally {
	volatile unsigned long done[NR_REQUESTS];
	volatile unsigned long received;
	volatile enum ibv_wc_status first;	/* the first error, or IBV_WC_SUCCESS */
	volatile enum request failed;		/* what had it */
	volatile enum ibv_wc_status second;	/* that of the lane's other queue, if no flush */
	volatile unsigned int odd;		/* errors after these that are no flush */
	volatile unsigned int wrong;		/* data that is not what it should be */
	volatile bool sending;			/* a send is under way */
	volatile bool over;			/* nothing is under way, after the first error */
};

struct lane {
	struct memory buf;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct tally *tally;
	uint64_t remote_addr;
	uint32_t remote_rkey, remote_qpn;
	unsigned int under_way;			/* a bit for each request */
	unsigned int receives;			/* the same for each slot */
	bool stopped[2];	/* the send queue, the receive queue: it has had an error */
	bool blind;		/* its bytes may be gone: to look at them would be SIGBUS */
};

struct end {
	int role;		/* 0 or 1 */
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	unsigned int lanes, turns;
	struct lane lane[MAX_LANES];
	bool no_sends;		/* the other end receives nothing any more */
	bool fatal;		/* the device has reported that it is gone */
};

/* All kinds of memory that can be registered, for the lanes of an end, and their number. */
extern const enum memory_kind kinds[];
extern const unsigned int nr_kinds;
/* As many lanes with ordinary memory. */
extern const enum memory_kind ordinary[];

#define MAY(status) (1u << IBV_WC_##status)
/* How requests end whose responder goes away: its QP is gone, or its MR before its QP. */
#define RESPONDER_GONE (MAY(RETRY_EXC_ERR) | MAY(REM_ACCESS_ERR) | MAY(REM_OP_ERR))

/*
 * Make the lanes.  A lane that has memory already keeps it; it is filled anew.  TALLY has
 * one element for each lane, which becomes 0.
 */
void end_open(struct end *e, int role, const enum memory_kind *kind, unsigned int lanes,
	      struct tally *tally);
/* Connect to the other end, which calls this too, over a socket. */
void end_meet(struct end *e, int sock);
/* Post what is not under way, take completions.  False if there will be no more traffic. */
bool end_turn(struct end *e);
/* Reset QPs that are in the error state; then the end can meet another one, with the same MRs. */
void end_again(struct end *e);
/* end_turn() until it is false, or until *STOP is not 0. */
void end_run(struct end *e, const volatile int *stop);
/* Destroy all but the memory; with the device gone, or not. */
void end_close(struct end *e);
void end_close_memory(struct end *e);

/* Whether every request was done more than N times on each lane at both ends. */
bool traffic_flows(const struct tally *a, const struct tally *b, unsigned int lanes,
		   unsigned long n);
/*
 * Whether each lane ended with one of the statuses whose bit is in ALLOWED, each of its
 * queues was flushed after its own error, and no data was wrong; prints what did not.
 */
bool traffic_ended(const struct tally *tally, unsigned int lanes, unsigned int allowed);
bool lane_ended(const struct tally *tally, const char *name, unsigned int allowed);
/*
 * The same for an end whose device has left, or its peer's on the same device: a request may
 * have failed before that, or got no completion at all.
 */
bool traffic_lost_device(const struct tally *tally, unsigned int lanes);

/* Whether a lane has the bytes that its end put there, and those that the other end wrote. */
bool lane_is_whole(const struct end *e, const struct lane *l);
#endif
