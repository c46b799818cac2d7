/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A dma-buf whose memory lies in pieces of a known size: a udmabuf of huge pages, of which it has
 * parts in an order that no two of them lie beside each other.
 */
#ifndef LIB_PIECES_H
#define LIB_PIECES_H

#include "lib/hugepages.h"
#include "lib/memory.h"

#define MAX_PIECES 1024		/* udmabuf's default */

/*
 * SIZE is a multiple of HUGE_PAGE, and the pool has as much.  With a PIECE of less than
 * HUGE_PAGE the last one comes first.  Else the huge pages are in their order, and may lie
 * beside each other.
 */
void pieces_open(struct memory *m, size_t size, size_t piece);

#endif
