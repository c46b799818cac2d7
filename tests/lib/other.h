/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A second RDMA device beside the one under test, for what goes from device to device:
 * MRFD_OTHER_DEVICE of the environment, or else any other that the guest has, or else a
 * Soft-RoCE that is made for the case, on a network device of its own.
 */
#ifndef LIB_OTHER_H
#define LIB_OTHER_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct other {
	char name[64];		/* empty: there is none */
	bool made;
};

/*
 * For harness_run(): if the guest has none, make it once for all cases.  On a kernel with
 * checkers to make and delete it takes as long as a case.
 */
void other_prepare(void);
/* Returns when its port is active; a guest in which none can be had skips the case. */
void other_open(struct other *o);
/* Also for a struct that is all 0.  All contexts of it are closed. */
void other_close(struct other *o);

#endif
