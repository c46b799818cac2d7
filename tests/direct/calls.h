/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * REG_MR_FD and REREG_MR_FD with the driver's attribute that says which way the new memory
 * goes.  The messages go to the kernel without the library; 0 or an errno.
 */
#ifndef DIRECT_CALLS_H
#define DIRECT_CALLS_H

#include "lib/memory.h"
#include "lib/uverbs.h"

#define WITHOUT (-1)		/* the attribute */
enum { ORDINARY, DIRECT };	/* its values */

int direct_reg(struct ibv_pd *pd, const struct memory *m, uint64_t iova, uint32_t access, int way,
	       struct keys *keys);
/* PD and M may be NULL, for a rereg without that change. */
int direct_rereg(struct ibv_context *ctx, uint32_t flags, struct ibv_pd *pd,
		 const struct memory *m, uint32_t access, int way, struct keys *keys);

#endif
