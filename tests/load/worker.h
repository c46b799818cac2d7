/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A worker of load/stress: a process with threads that do at random what a user of MRs can
 * do, until its time is up or it is killed.
 *
 * Each thread has its own queue pairs and MRs.  It knows all their bytes, rights and keys,
 * so each operation on them has one correct outcome.  The threads of a worker also share
 * MRs that each may use, reregister or deregister at any moment: an operation on those may
 * have any status, but it must end.  Workers also publish their keys, which must give no
 * access to other workers.
 *
 * What a thread does depends on the seed; when it does it depends on the machine.
 */
#ifndef LOAD_WORKER_H
#define LOAD_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#define TOLD 64		/* keys that workers have published */

/* What workers count, so that a case can check that they did every act. */
enum act {
	WRITTEN, READ_BACK, ADDED, SENT, REGISTERED, REREGISTERED, DEREGISTERED, REFUSED,
	SHARED_USED, SHARED_FAILED, SHARED_CHANGED, FOREIGN, WINDOWS, FORKED, LATE, NR_ACTS
};

extern const char *const act_names[NR_ACTS];

/* How a worker ends, unless a signal ends it; only SIGKILL may. */
enum ending {
	WELL,		/* it closed everything, or left this to the kernel */
	HELPER_FAILED = 1,	/* fail_case() */
	WRONG,		/* it saw something wrong, which is on the board */
	NO_DEVICE,	/* it found no device */
	TAKEN,		/* its device was taken away, which it has been told */
	NR_ENDINGS
};

struct told {
	uint32_t worker;	/* 0: no key here */
	uint32_t rkey;
	uint64_t iova;
};

/* Memory that the case and its workers share. */
struct board {
	uint64_t seed;
	uint64_t acts[NR_ACTS];
	double setup;		/* seconds that the last worker took to begin */
	struct told told[TOLD];
	char wrong[200];	/* the first wrong thing that a worker saw */
};

struct orders {
	struct board *board;
	uint32_t worker;	/* its number, from 1 */
	double seconds;		/* to live, once its threads are ready */
	bool leave;		/* end without closing anything */
};

void stress_worker(const struct orders *orders) __attribute__((noreturn));

#endif
