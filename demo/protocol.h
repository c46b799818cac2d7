/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the screen tells the painter
 *
 * A peer that is to write into memory needs its address and its rkey.  The
 * screen sends both, with the shape of the picture, in the private data of its
 * answer to the connection request (rdma_accept()): 196 bytes are there for the
 * taking, and so neither side needs a message of its own for it.
 *
 * The painter then writes, and its last write carries an immediate: the number
 * of frames painted.  That is all there is to the protocol.
 */
#ifndef DEMO_PROTOCOL_H
#define DEMO_PROTOCOL_H

#include <stdint.h>

#define DEMO_PORT "7471"

/* The size of the screen, where it has such a mode. */
#define DEMO_WIDTH 1280
#define DEMO_HEIGHT 800

#define DEMO_MAGIC 0x6d726664 /* "mrfd" */

/* Big endian, whatever the machines at both ends are. */
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
