/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two processes with traffic between them (lib/ends.h) for the cases in which something
 * goes away: the owner has MRs of all kinds of memory, its peer has ordinary memory.  The
 * case is a third process, which watches both and has no RDMA device open.
 *
 * A child that finds something wrong prints it and ends with status 1.  Both die with the
 * case.
 */
#ifndef LEAVING_TWO_H
#define LEAVING_TWO_H

#include "lib/ends.h"
#include <stdbool.h>
#include <sys/types.h>

enum { OWNER, PEER };

/* Memory that the three share. */
struct board {
	struct tally tally[2][MAX_LANES];
	volatile int order;	/* not 0: the owner leaves its traffic, and does this */
	volatile int done;	/* not 0: so far the owner has got with it */
	volatile int enough;	/* not 0: the peer ends its traffic */
	volatile bool gpu_leaves;	/* the owner does not look at the GPU's buffers */
	volatile bool no_sends;	/* the peer sends no messages any more */
};

struct two {
	struct board *board;
	bool gpu_leaves;	/* for the board, before two_start() */
	pid_t pid[2];		/* 0 once it was waited for */
	int sock;		/* to the owner, for what it passes on */
};

/* What the owner does once it has got an order, over a socket to the case if it needs one. */
typedef void (*owner_fn)(struct end *e, struct board *board, int sock);

/* Start both, and wait until each request was done a few times on each lane. */
void two_start(struct two *t, owner_fn owner);
void two_order(struct two *t, int order);
/* Wait until the owner has got so far, or has ended. */
void two_wait_for(struct two *t, int done);
/* Wait until the peer has gone on for a while, without messages if NO_SENDS is set. */
void two_go_on(struct two *t, const bool skip[]);
/* Wait until a process has ended: its exit status, or -1 and the signal in *SIG. */
int two_reap(struct two *t, int who, int *sig);
/* End the case if a process has ended. */
void two_run(struct two *t);
/* Kill what still runs.  Also for a struct that is all 0. */
void two_close(struct two *t);

/* The tally of each lane of the peer: see traffic_ended(). */
bool two_peer_ended(struct two *t, unsigned int allowed);

#endif
