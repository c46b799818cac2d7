/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the owner of the pixels and the peer that writes them tell each other
 *
 * The peer needs the address and the rkey of the memory that it writes to.  The
 * owner sends both, with the size of the picture, in the private data of its
 * answer to the connection request (rdma_accept()).  The private data has room
 * for 196 bytes, so no separate message is needed.
 *
 * The painter then writes one picture.  Its last write carries the number of
 * painted frames as immediate data, which ends the protocol.
 *
 * The camera and the renderer (vulkan/) write moving pictures.  The memory has room
 * for several, one after the other, and picture K goes to place K modulo their
 * number.  Its write carries K as immediate data, so a completion at the owner says
 * that the picture is whole.  The owner answers each with an empty message, whose
 * immediate data is K again, when its place may be written to anew.
 *
 * A completion may overtake data that goes by Data Direct.  Then the offer says
 * "flush": the sender reads a byte of what it has written, which orders both, and
 * only then sends K, with an empty message.
 */
#ifndef DEMO_PROTOCOL_H
#define DEMO_PROTOCOL_H

#include <stdint.h>

#define DEMO_PORT "7471"

/* The size of the screen, if it has such a mode. */
#define DEMO_WIDTH 1280
#define DEMO_HEIGHT 800

#define DEMO_MAGIC 0x6d726664 /* "mrfd" */

/* Of the immediate data of the last moving picture, beside its number. */
#define DEMO_LAST (1u << 31)

/* Every field is big endian. */
struct offer {
	uint32_t magic;
	uint32_t format; /* a DRM fourcc */
	uint32_t width;	 /* pixels */
	uint32_t height;
	uint32_t pitch; /* bytes from one row to the next */
	uint32_t rkey;
	uint64_t iova; /* of the first byte of the first row */
	uint32_t places; /* for pictures, one after the other */
	uint32_t flush; /* 1: what was written has arrived when a read of it is complete */
};

_Static_assert(sizeof(struct offer) == 40, "the offer has no holes");

#endif
