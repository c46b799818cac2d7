/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The protocol between a model and connectx-fabric, on a Unix stream socket.  Each frame
 * is a type (u8), a zero (u8), the length of its body (be16), and the body:
 *
 * HELLO	the model's first frame: FABRIC_MAGIC (be32), its port's GUID (be64)
 * WELCOME	the answer: the port's LID (be16), the subnet manager's LID (be16),
 *		the port's state (u8, as ib_port_state), a zero (u8)
 * REFUSED	or this one: why, as text; then the fabric closes
 * PACKET	from then on, both ways: a packet from LRH to VCRC
 *
 * Anything else ends the connection.  Both ends batch: a read or a write moves as many
 * frames as there are, between the socket and one buffer of fixed size for each direction.
 */
#ifndef CONNECTX_FABRIC_H
#define CONNECTX_FABRIC_H

#include "packet.h"

#define FABRIC_MAGIC 0x49420001u	/* "IB", version 1 */
#define FABRIC_HEADER 4
#define FABRIC_BODY_MAX PACKET_WIRE_MAX
#define FABRIC_HELLO_SIZE 12
#define FABRIC_WELCOME_SIZE 6
#define FABRIC_IN (128u << 10)
#define FABRIC_OUT (512u << 10)
#define FABRIC_BATCH (64u << 10)	/* enough to be worth a write */

enum { FABRIC_HELLO = 1, FABRIC_WELCOME, FABRIC_REFUSED, FABRIC_PACKET };

struct fabric_stream {
	int fd;
	u8 *in, *out;
	size_t in_start, in_end, out_start, out_end;
};

/* Takes FD, which does not block.  0 or -ENOMEM; then FD is closed. */
int fabric_init(struct fabric_stream *s, int fd);
void fabric_done(struct fabric_stream *s);

/* Read once.  Bytes, 0: none now, or -errno; -ECONNRESET if the other end closed. */
ssize_t fabric_fill(struct fabric_stream *s);
/*
 * The next whole frame that was read: its type, body and length; 0: there is none.
 * It stays the next one until fabric_next().  -EPROTO: that is no frame.
 */
int fabric_peek(const struct fabric_stream *s, const u8 **body, size_t *len);
void fabric_next(struct fabric_stream *s);

/* Where the body of a frame of up to LEN bytes goes, or NULL: the buffer is full. */
u8 *fabric_reserve(struct fabric_stream *s, size_t len);
/* That frame is complete: LEN is what it has. */
void fabric_commit(struct fabric_stream *s, u8 type, size_t len);
/* Write once what there is.  0, or -errno; a full socket is no error. */
int fabric_flush(struct fabric_stream *s);
/* Bytes that are not written. */
static inline size_t fabric_pending(const struct fabric_stream *s)
{
	return s->out_end - s->out_start;
}

#endif
