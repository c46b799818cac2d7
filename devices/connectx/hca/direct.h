/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Data Direct: a second PCI function of the card, whose DMA takes another way through the
 * host.  Three keys lead there (the driver's mr.c and data_direct.c):
 *
 *	CROSSING	the user's, in his PD; it grants, and leads to
 *	KSM		a list in a PD of the driver's own, one entry a page, of
 *	PA		the driver's, one for all: its addresses are those of the second function
 *
 * Only CROSSING changes the PD on the way, so only the driver creates it, and what leads to it
 * by a list of keys is refused: the PD is what keeps processes away from the PA key.
 */
#ifndef CONNECTX_DIRECT_H
#define CONNECTX_DIRECT_H

#include "cmd.h"
#include <stdbool.h>

struct dma;
struct hca;
struct mkey;

extern const struct cmd_op direct_ops[];

#define DIRECT_VHCA 0x2a	/* the card's own vhca_id */

/* A second function, which reaches memory by D while it is plugged in. */
void direct_init(struct hca *hca, struct dma *d);
/* Whether CREATE_MKEY may make M: also for a key that has nothing to do with all this. */
bool direct_allows(struct hca *hca, const struct cmd *cmd, struct mkey *m);
/* For the trace: where M leads, a CROSSING key. */
void direct_says(struct hca *hca, struct cmd *cmd, const struct mkey *m);
/* What was written by keys of the second function has arrived when this returns. */
void direct_flush(struct hca *hca);

#endif
