/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a program gives up, because guests drive it: it can be made to do nothing that its
 * loop does not need.  Both functions return 0 or -errno, with a note() that says why.
 */
#ifndef CONNECTX_SANDBOX_H
#define CONNECTX_SANDBOX_H

#include <stddef.h>

enum sandbox {
	SANDBOX_MODEL,	/* accept() and removal of its socket, until sandbox_narrow() */
	SANDBOX_DIRECT,	/* the same, but accept() for good: a function can be plugged in again */
	SANDBOX_FABRIC,	/* accept(), for good */
};

/*
 * Before the loop runs, when all files are open.  From here on: use of the descriptors
 * that there are, and what WHICH says.  MEMORY: how much the process may take in all, the
 * guest's shared memory not counted.
 */
int sandbox_enter(enum sandbox which, size_t memory);
/* A model, when QEMU is connected: no unlink() any more, and no accept() but SANDBOX_DIRECT's. */
int sandbox_narrow(enum sandbox which);

#endif
