/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The life of a device: from power-on through resets to the end of the program. */
#ifndef CONNECTX_LIFE_H
#define CONNECTX_LIFE_H

#include "cmd.h"

struct dma;
struct loop;

extern const struct cmd_op hca_ops[];

/* NULL: no memory. */
struct hca *hca_new(struct loop *loop, struct dma *dma, uint64_t guid);
void hca_free(struct hca *hca);
/* As by a function level reset: nothing is left of what the guest made. */
void hca_reset(struct hca *hca);
/* All that the guest made, users first; only INIT_HCA starts anew. */
void hca_free_objects(struct hca *hca);

#endif
