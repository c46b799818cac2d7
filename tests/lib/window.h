/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory windows, bound and invalidated by work requests of a pair.  Work that is refused
 * puts the QP into the error state.
 */
#ifndef LIB_WINDOW_H
#define LIB_WINDOW_H

#include "lib/pair.h"

/*
 * The second QP binds to the MR that has this lkey, which nobody checks before the device
 * does.  MW gets its new rkey if that succeeds.
 */
enum ibv_wc_status window_bind(struct pair *p, struct ibv_mw *mw, uint32_t lkey, uint64_t addr,
			       uint64_t length, int access);
/* By the QP with this number, 0 or 1. */
enum ibv_wc_status window_invalidate(struct pair *p, int qp, uint32_t rkey);
/*
 * By a message without data from the first QP to the second: the first completion that is an
 * error, or success.
 */
enum ibv_wc_status window_invalidate_remotely(struct pair *p, uint32_t rkey);

#endif
