/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Multicast groups, and the QPs that are attached. */
#ifndef CONNECTX_MCG_H
#define CONNECTX_MCG_H

#include "cmd.h"

struct qp;

extern const struct cmd_op mcg_ops[];

/* hca->mcg; NULL: no memory. */
void mcg_init(struct hca *hca);
void mcg_reset(struct hca *hca);
/* Call FN for each QP that is attached to the group. */
void mcg_each(struct hca *hca, const u8 gid[16], void (*fn)(struct qp *qp, void *arg),
	      void *arg);
void mcg_detach_all(struct qp *qp);

#endif
