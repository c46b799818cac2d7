/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The UMR work request, which changes an mkey from a send queue: its fields by a mask,
 * its translation (or a part of it) by a list, inline or in memory.  mlx5_ib registers
 * all user memory by it; libmlx5 binds memory windows, invalidates keys, and builds
 * indirect mkeys by it.
 */
#ifndef CONNECTX_UMR_H
#define CONNECTX_UMR_H

#include "mkey.h"

/*
 * BY: the PD, QPN and rights of who posted it; any_pd: the driver's UMR queue.  WQE: LEN
 * bytes from the control segment on, a private copy.  TARGET: the lkey in the control
 * segment's immediate.  Returns 0, or a CQE syndrome (MLX5_CQE_SYNDROME_*).
 * All or nothing: a UMR that is refused has changed nothing.
 */
int umr_run(struct hca *hca, const struct mkey_access *by, const u8 *wqe, size_t len,
	    uint32_t target);

#endif
