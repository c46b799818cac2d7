/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Data that arrive late.  On a card whose data leave by one PCIe path and whose completions
 * leave by another, nothing orders the two: a completion may be seen before the data that it
 * is about.  A read by the path of the data is what orders them, because it does not pass
 * writes (PCI Express Base, 2.4.1).  The model is always in order; with --late-data it is
 * not, so that a program which forgets that read sees old data.
 *
 * Writes wait here for a fixed time, in order.  What reads by the same path, and what
 * ends the use of a key, has them carried out first.
 */
#ifndef CONNECTX_LATE_H
#define CONNECTX_LATE_H

#include "dma.h"
#include "loop.h"

struct late;

/* NS: how late a write is.  NULL: no memory. */
struct late *late_new(struct loop *loop, struct dma *dma, uint64_t ns);
void late_free(struct late *l);
/* A write of up to a packet's data, to memory that is mapped. */
void late_write(struct late *l, uint64_t addr, const void *data, size_t len);
/* Carry out all that waits.  Also for NULL. */
void late_flush(struct late *l);

#endif
