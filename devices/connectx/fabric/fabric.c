// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Frames on a stream socket, as fabric.h describes them; both ends use this.
 *
 * Each direction has a linear buffer: [start, end) is what is in it, and it moves to the
 * front when that makes room for more than it costs.  A frame's length is checked against
 * FABRIC_BODY_MAX as soon as its header is there, and the input buffer holds several
 * frames of that size, so a whole frame always fits and nothing grows.
 */
#include "fabric.h"
#include "ifc.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int fabric_init(struct fabric_stream *s, int fd)
{
	memset(s, 0, sizeof(*s));
	s->fd = fd;
	s->in = malloc(FABRIC_IN);
	s->out = malloc(FABRIC_OUT);
	if (s->in && s->out)
		return 0;
	fabric_done(s);
	return -ENOMEM;
}

void fabric_done(struct fabric_stream *s)
{
	free(s->in);
	free(s->out);
	if (s->fd >= 0)
		close(s->fd);
	memset(s, 0, sizeof(*s));
	s->fd = -1;
}

ssize_t fabric_fill(struct fabric_stream *s)
{
	ssize_t n;

	if (s->in_start) {
		memmove(s->in, s->in + s->in_start, s->in_end - s->in_start);
		s->in_end -= s->in_start;
		s->in_start = 0;
	}
	if (s->in_end == FABRIC_IN)
		return 0;
	n = recv(s->fd, s->in + s->in_end, FABRIC_IN - s->in_end, 0);
	if (!n)
		return -ECONNRESET;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	s->in_end += n;
	return n;
}

int fabric_peek(const struct fabric_stream *s, const u8 **body, size_t *len)
{
	const u8 *at = s->in + s->in_start;
	size_t have = s->in_end - s->in_start;

	if (have < FABRIC_HEADER)
		return 0;
	*len = be16_at(at + 2);
	*body = at + FABRIC_HEADER;
	if (at[0] < FABRIC_HELLO || at[0] > FABRIC_PACKET || at[1] || *len > FABRIC_BODY_MAX)
		return -EPROTO;
	return have >= FABRIC_HEADER + *len ? at[0] : 0;
}

void fabric_next(struct fabric_stream *s)
{
	s->in_start += FABRIC_HEADER + be16_at(s->in + s->in_start + 2);
}

u8 *fabric_reserve(struct fabric_stream *s, size_t len)
{
	if (s->out_start == s->out_end)
		s->out_start = s->out_end = 0;
	if (s->out_end + FABRIC_HEADER + len > FABRIC_OUT) {
		if (s->out_start < FABRIC_OUT / 2)
			return NULL;
		memmove(s->out, s->out + s->out_start, fabric_pending(s));
		s->out_end -= s->out_start;
		s->out_start = 0;
	}
	return s->out + s->out_end + FABRIC_HEADER;
}

void fabric_commit(struct fabric_stream *s, u8 type, size_t len)
{
	u8 *at = s->out + s->out_end;

	at[0] = type;
	at[1] = 0;
	put_be16(at + 2, len);
	s->out_end += FABRIC_HEADER + len;
}

int fabric_flush(struct fabric_stream *s)
{
	ssize_t n;

	if (!fabric_pending(s))
		return 0;
	n = send(s->fd, s->out + s->out_start, fabric_pending(s), MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	s->out_start += n;
	return 0;
}
