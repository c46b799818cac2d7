/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts of what a case must not leave behind in the kernel. */
#ifndef LIB_COUNTS_H
#define LIB_COUNTS_H

#include "lib/nldev.h"	/* mr_count() */
#include <stdbool.h>

/* dma-bufs of the whole kernel; a guest at rest has none. */
int dmabuf_count(void);
/* KiB that this process has pinned. */
long pinned_kb(void);
/* Objects in use of a slab cache. */
long slab_objects(const char *cache);
/*
 * Whether no MR and no dma-buf is left.  What a process held is released a little
 * after it has ended, so this waits for up to ten seconds.
 */
bool nothing_left(void);

#endif
