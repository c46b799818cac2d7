/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the process gives up, because the guest drives it: it can be made to do nothing
 * that the loop does not need.  Both return 0 or -errno, with a note() that says why.
 */
#ifndef CONNECTX_SANDBOX_H
#define CONNECTX_SANDBOX_H

#include <stddef.h>

/*
 * Before the loop runs, when all files are open.  From here on: use of the descriptors
 * that there are, accept() and removal of the socket.  MEMORY: how much the process may
 * take in all, the guest's shared memory not counted.
 */
int sandbox_enter(size_t memory);
/* When the client is connected: no accept() and no unlink() any more. */
int sandbox_narrow(void);

#endif
