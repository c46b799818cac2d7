/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RDMA device goes away, as a PCI function, and comes back; and what the end of some
 * traffic (ends.h) finds then.  Functions without a result end the case if it is wrong.
 */
#ifndef LIB_GONE_H
#define LIB_GONE_H

#include "lib/ends.h"
#include <limits.h>
#include <stdbool.h>

enum way { REMOVED, UNBOUND, UNLOADED };	/* from the bus, from the driver, with the driver */

struct gone {
	char path[PATH_MAX];	/* of the PCI function; empty if it is to stay */
	enum way way;
};

/* Look the PCI function up.  Before a card is pulled out: its driver takes the device away. */
void device_is_to_leave(struct gone *g);
/* Returns when the verbs device is not there any more; false if it stays. */
bool device_leaves(struct gone *g, enum way way);
/* Returns when it has an active port, and an address for rdma_cm. */
bool device_comes_back(struct gone *g);

/* ERR, of VERB, is the expected errno. */
void fails_with(int err, int expected, const char *verb);
/* The end's device has left: it can register and reregister nothing, but deregister. */
void end_calls_fail(struct end *e);
/* No device holds its memory: the GPU moves its own; what was written there is there. */
void end_memory_is_free(struct end *e);
/* Its memory can be registered and used, in a new context. */
void end_memory_works(struct end *e);

#endif
