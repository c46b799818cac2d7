/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the screen sends to the painter
 *
 * The painter needs the address and the rkey of the memory that it writes to.
 * The screen sends both, with the size of the picture, in the private data of
 * its answer to the connection request (rdma_accept()).  The private data has
 * room for 196 bytes, so no separate message is needed.
 *
 * The painter then writes.  Its last write carries the number of painted frames
 * as immediate data, which ends the protocol.
 */
#ifndef DEMO_PROTOCOL_H
#define DEMO_PROTOCOL_H

#include <stdint.h>

#define DEMO_PORT "7471"

/* The size of the screen, if it has such a mode. */
#define DEMO_WIDTH 1280
#define DEMO_HEIGHT 800

#define DEMO_MAGIC 0x6d726664 /* "mrfd" */

/* Every field is big endian. */
struct screen_offer {
	uint32_t magic;
	uint32_t format; /* a DRM fourcc */
	uint32_t width;	 /* pixels */
	uint32_t height;
	uint32_t pitch; /* bytes from one row to the next */
	uint32_t rkey;
	uint64_t iova; /* of the first byte of the first row */
};

_Static_assert(sizeof(struct screen_offer) == 32, "the offer has no holes");

#endif
