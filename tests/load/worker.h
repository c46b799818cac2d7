/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A worker of guest/stress: a process with threads that do at random whatever a
 * user of MRs can do, until its time is up or it is killed.
 *
 * Each thread has a pair of queue pairs and regions of its own, and of these it
 * knows every byte, right and key, so every operation on them has one right
 * outcome.  Beside them the threads of a worker share regions that any of them
 * may use, reregister or take away at any moment: an operation on those may end
 * in any way, but it ends.  And workers tell each other their keys, which must
 * open nothing.
 *
 * What a thread does depends on the seed, when it does it on the machine.
 */
#ifndef LOAD_WORKER_H
#define LOAD_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#define TOLD 64		/* keys that workers have told each other */

/* What is counted, so that a case can see that all of it was done. */
enum act {
	WRITTEN, READ_BACK, ADDED, SENT, REGISTERED, REREGISTERED, DEREGISTERED, REFUSED,
	SHARED_USED, SHARED_FAILED, SHARED_CHANGED, FOREIGN, WINDOWS, FORKED, LATE, NR_ACTS
};

extern const char *const act_names[NR_ACTS];

/* How a worker ends; a signal but SIGKILL is wrong as well. */
enum ending {
	WELL,		/* all was closed, or left to the kernel, as it chose */
	HELPER_FAILED = 1,	/* fail_case() */
	WRONG,		/* something was wrong and is on the board */
	NO_DEVICE,	/* there was none to open */
};

struct told {
	uint32_t worker;	/* 0: nothing here */
	uint32_t rkey;
	uint64_t iova;
};

/* Memory that the case and its workers have in common. */
struct board {
	uint64_t seed;
	uint64_t acts[NR_ACTS];
	double setup;		/* seconds that the last worker took to begin */
	struct told told[TOLD];
	char wrong[200];	/* the first thing that was */
};

struct orders {
	struct board *board;
	uint32_t worker;	/* a number of its own, from 1 */
	double seconds;		/* to live when it has begun */
	bool leave;		/* to end without closing anything */
};

void stress_worker(const struct orders *orders) __attribute__((noreturn));

#endif
