/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events that tell of an MR whose memory is gone. */
#ifndef LIB_TOLD_H
#define LIB_TOLD_H

#include <infiniband/verbs.h>

/* From now on ibv_get_async_event() of the context does not wait. */
void told_begin(struct ibv_context *ctx);
/*
 * How many events since the last call tell of the MR; *OTHERS, unless it is NULL, of another
 * one.  Events of other kinds do not count.
 */
int told(struct ibv_context *ctx, const struct ibv_mr *mr, int *others);

#endif
