// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The stream of vfio-user messages (QEMU, docs/interop/vfio-user.rst, version 0.0).  The
 * guest's stores come as posted REGION_WRITE messages, or many in one REGION_WRITE_MULTI,
 * so reading is by the bufferful, and all messages of one are handled in a turn.
 *
 * The invariants: a message is looked at when all of it is in rx[]; a received descriptor
 * is closed when its message was handled, unless the handler kept it.  While a reply waits
 * for room in the socket no further message is handled, so there is at most one, in tx[].
 *
 * A message whose frame is wrong (size, type, order, number of descriptors) ends the
 * connection, for nothing behind it can be trusted.  A request that is refused is answered
 * with an errno.
 */
#include "vfio_msg.h"
#include "trace.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TYPE_MASK = 0xf, TYPE_COMMAND = 0, TYPE_REPLY = 1, NO_REPLY = 0x10, IS_ERROR = 0x20 };

/* Let go of all that is the client's. */
static void drop(struct vfu *v)
{
	if (v->fd < 0)
		return;
	loop_unwatch(v->loop, v->fd);
	close(v->fd);
	v->fd = -1;
	for (unsigned int i = 0; i < v->ins; i++)
		close(v->in[i].fd);
	v->ins = 0;
	vfu_drop_vectors(v);
	dma_unmap_all(v->dma);
}

static void end(struct vfu *v, int err)
{
	drop(v);
	v->ops->gone(v->arg, err);
}

static void broken(struct vfu *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void broken(struct vfu *v, const char *fmt, ...)
{
	char why[160];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	note("the vfio-user client is disconnected: %s", why);
	end(v, -EPROTO);
}

/* The socket has an error.  A client that was killed is gone, and did nothing wrong. */
static void failed(struct vfu *v)
{
	if (errno == ECONNRESET || errno == EPIPE)
		end(v, 0);
	else
		broken(v, "%s", strerror(errno));
}

/*
 * Send what is left of tx[].  One reply is one send(), of which the kernel takes the first
 * page wholly or not at all: QEMU takes a header that comes in two parts for an error.
 */
static void flush(struct vfu *v)
{
	ssize_t n = send(v->fd, v->tx + v->tx_sent, v->tx_len - v->tx_sent,
			 MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		failed(v);
		return;
	}
	if (n > 0)
		v->tx_sent += n;
	if (v->tx_sent == v->tx_len)
		v->tx_len = v->tx_sent = 0;
}

static void reply(struct vfu *v, const struct header *request, size_t out_len, int err)
{
	struct header h = {
		.id = request->id, .command = request->command,
		.size = sizeof(h) + (err ? 0 : out_len),
		.flags = TYPE_REPLY | (err ? IS_ERROR : 0), .error = -err,
	};

	memcpy(v->tx, &h, sizeof(h));
	v->tx_len = h.size;
	flush(v);
	if (v->fd >= 0 && v->tx_len)
		loop_rewatch(v->loop, v->fd, EPOLLOUT);
}

/* A complete message. */
static void handle(struct vfu *v, const struct header *h, const uint8_t *body, int *fd,
		   unsigned int fds)
{
	struct request r = {
		.body = body, .len = h->size - sizeof(*h), .fd = fd, .fds = fds,
		.out = v->tx + sizeof(*h),
	};
	int err;

	if (!v->versioned && h->command != MSG_VERSION) {
		broken(v, "its first message has the number %u, and not VERSION's", h->command);
		return;
	}
	err = vfu_message(v, h->command, &r);
	if (err == MALFORMED) {
		broken(v, "its %s of %u bytes makes no sense", vfu_message_name(h->command),
		       h->size);
		return;
	}
	if (err)
		note("vfio-user %s (%u) is refused: %s", vfu_message_name(h->command),
		     h->command, strerror(-err));
	if (!(h->flags & NO_REPLY))
		reply(v, h, r.out_len, err);
}

/* Handle the next message of rx[]; false if it is not complete, or has to wait. */
static bool next_message(struct vfu *v)
{
	const uint8_t *rx = v->rx + v->rx_done;
	size_t left = v->rx_len - v->rx_done;
	int fd[2 * MAX_FDS];
	unsigned int fds = 0;
	struct header h;

	if (v->fd < 0 || v->tx_len || left < sizeof(h))
		return false;
	memcpy(&h, rx, sizeof(h));
	if (h.size < sizeof(h) || h.size > MAX_MESSAGE ||
	    (h.flags & TYPE_MASK) != TYPE_COMMAND) {
		broken(v, "a message says that it has %u bytes and flags %#x", h.size, h.flags);
		return false;
	}
	if (left < h.size)
		return false;

	v->rx_done += h.size;
	v->at += h.size;
	while (fds < v->ins && v->in[fds].pos < v->at) {
		fd[fds] = v->in[fds].fd;
		fds++;
	}
	v->ins -= fds;
	memmove(v->in, v->in + fds, v->ins * sizeof(v->in[0]));

	handle(v, &h, rx + sizeof(h), fd, fds);
	while (fds--)
		if (fd[fds] >= 0)
			close(fd[fds]);
	return true;
}

static void handle_all(struct vfu *v)
{
	while (next_message(v))
		;
	memmove(v->rx, v->rx + v->rx_done, v->rx_len - v->rx_done);
	v->rx_len -= v->rx_done;
	v->rx_done = 0;
}

/* Keep the descriptors that came; false if there are more than fit. */
static bool take_fds(struct vfu *v, struct msghdr *msg, uint64_t pos)
{
	bool room = !(msg->msg_flags & MSG_CTRUNC);

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (v->ins == 2 * MAX_FDS) {
				close(fd);
				room = false;
				continue;
			}
			v->in[v->ins].fd = fd;
			v->in[v->ins++].pos = pos;
		}
	}
	return room;
}

/*
 * One bufferful.  The kernel ends a recvmsg() behind data that has descriptors, so these
 * belong to the message that has the last byte that was read.
 */
static void receive(struct vfu *v)
{
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov = { v->rx + v->rx_len, sizeof(v->rx) - v->rx_len };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(v->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			failed(v);
		return;
	}
	if (n == 0) {
		if (v->rx_len)
			broken(v, "it closed the connection within a message");
		else
			end(v, 0);
		return;
	}
	v->rx_len += n;
	if (take_fds(v, &msg, v->at + v->rx_len - 1))
		handle_all(v);
	else
		broken(v, "it sent more than %d descriptors at once", MAX_FDS);
}

static void ready(void *arg, uint32_t events)
{
	struct vfu *v = arg;

	if (v->tx_len) {
		flush(v);
		if (v->fd < 0 || v->tx_len)
			return;
		loop_rewatch(v->loop, v->fd, EPOLLIN);
		handle_all(v);
	}
	if (v->fd >= 0 && !v->tx_len)
		receive(v);
}

struct vfu *vfu_new(struct loop *l, struct dma *d, const struct vfu_ops *ops, void *arg, int fd)
{
	struct vfu *v = calloc(1, sizeof(*v));
	int ret = -ENOMEM;

	if (!v)
		goto err;
	*v = (struct vfu) { .loop = l, .dma = d, .ops = ops, .arg = arg, .fd = fd };
	for (unsigned int i = 0; i < VFU_VECTORS_MAX; i++)
		v->eventfd[i] = -1;
	ret = loop_watch(l, fd, EPOLLIN, ready, v);
	if (ret)
		goto err;
	return v;

err:
	free(v);
	close(fd);
	errno = -ret;
	return NULL;
}

void vfu_free(struct vfu *v)
{
	if (!v)
		return;
	drop(v);
	free(v);
}
