// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The stream of vfio-user messages (QEMU, docs/interop/vfio-user.rst, version 0.0).  The
 * guest's stores come as posted REGION_WRITE messages, or many in one REGION_WRITE_MULTI,
 * so reading is by the bufferful, and all messages of one are handled in a turn.
 *
 * The invariants: a message is looked at when all of it is in rx[]; a received descriptor
 * is closed when its message was handled, unless the handler kept it.  While one of ours
 * waits for room in the socket no further message is handled, so there is at most one, in
 * tx[].
 *
 * A message whose frame is wrong (size, type, order, number of descriptors) ends the
 * connection, for nothing behind it can be trusted.  A request that is refused is answered
 * with an errno.
 *
 * vfu_ask() is what the device calls for memory that it cannot map: it waits for the reply.
 * QEMU answers in its main loop, under a lock that a virtual CPU may hold while it waits for
 * a reply of ours; and to find the answer it may read a BAR of this device.  So meanwhile
 * messages are handled as they come, all of them and in their order, or both would wait for
 * each other.  What a message must not do in the middle of an access, the device puts off
 * (bar.c, function.c).  The device asks from the loop only, never while a message is
 * handled: its sender may be waiting.
 */
#include "vfio_user.h"
#include "list.h"
#include "stats.h"
#include "trace.h"
#include "vfio_msg.h"
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert(DMA_ASK_MAX <= MAX_DATA, "a question fits into tx[]");

enum { TYPE_MASK = 0xf, TYPE_COMMAND = 0, TYPE_REPLY = 1, NO_REPLY = 0x10, IS_ERROR = 0x20 };

/* Let go of all that is QEMU's. */
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
	work_stop(&v->again);
	v->dma->ask = NULL;
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
	note("QEMU is disconnected: %s", why);
	end(v, -EPROTO);
}

/* The socket has an error.  A QEMU that was killed is gone, and did nothing wrong. */
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

/* TX_LEN bytes of tx[] are a message. */
static void transmit(struct vfu *v)
{
	flush(v);
	if (v->fd >= 0 && v->tx_len)
		loop_rewatch(v->loop, v->fd, EPOLLOUT);
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
	transmit(v);
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
	v->handling = true;
	err = vfu_message(v, h->command, &r);
	v->handling = false;
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

/* The answer to a question. */
static void take_reply(struct vfu *v, const struct header *h, const uint8_t *body)
{
	const size_t head = 2 * sizeof(uint64_t);	/* the address and the length again */
	struct asked *a = &v->ask;

	if (a->state != ASK_SENT || h->id != a->id) {
		if (a->forsaken)
			a->forsaken--;
		else
			broken(v, "it replies to what nobody asked, %u", h->id);
		return;
	}
	a->state = ASK_REFUSED;
	if (h->flags & IS_ERROR)
		return;
	if (!a->write && h->size != sizeof(*h) + head + a->len) {
		broken(v, "its reply to a read of %zu bytes has %u", a->len, h->size);
		return;
	}
	if (!a->write)
		memcpy(a->data, body + head, a->len);
	a->state = ASK_DONE;
}

/* Handle the next message of rx[]; false if it is not complete, or has to wait. */
static bool next_message(struct vfu *v)
{
	const uint8_t *rx = v->rx + v->rx_done;
	size_t left = v->rx_len - v->rx_done;
	int fd[2 * MAX_FDS];
	unsigned int fds = 0;
	struct header h;

	if (v->fd < 0 || v->tx_len || left < sizeof(h) || v->ask.state > ASK_SENT)
		return false;
	memcpy(&h, rx, sizeof(h));
	if (h.size < sizeof(h) || h.size > MAX_MESSAGE ||
	    (h.flags & TYPE_MASK) > TYPE_REPLY) {
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

	if ((h.flags & TYPE_MASK) == TYPE_REPLY)
		take_reply(v, &h, rx + sizeof(h));
	else
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

/* The socket is ready for what we want of it. */
static void go_on(struct vfu *v)
{
	if (v->tx_len) {
		flush(v);
		if (v->fd >= 0 && !v->tx_len)
			loop_rewatch(v->loop, v->fd, EPOLLIN);
	}
	/* First, so that there is room to receive. */
	handle_all(v);
	if (v->fd >= 0 && !v->tx_len && v->ask.state <= ASK_SENT)
		receive(v);
}

static void ready(void *arg, uint32_t events)
{
	go_on(arg);
}

static void handle_again(struct work *w)
{
	handle_all(list_item(w, struct vfu, again));
}

static void send_question(struct vfu *v)
{
	struct asked *a = &v->ask;
	const uint64_t body[2] = { a->addr, a->len };
	const struct header h = {
		.id = ++a->id, .command = a->write ? MSG_DMA_WRITE : MSG_DMA_READ,
		.size = sizeof(h) + sizeof(body) + (a->write ? a->len : 0),
		.flags = TYPE_COMMAND,
	};

	memcpy(v->tx, &h, sizeof(h));
	memcpy(v->tx + sizeof(h), body, sizeof(body));
	if (a->write)
		memcpy(v->tx + sizeof(h) + sizeof(body), a->data, a->len);
	a->state = ASK_SENT;
	v->tx_len = h.size;
	transmit(v);
}

static short wanted(const struct vfu *v)
{
	return v->tx_len ? POLLOUT : POLLIN;
}

/*
 * Until the question is answered, or its time is over at END.  The virtual CPU that has
 * QEMU's lock may wait for the other function.
 */
static void wait_for_answer(struct vfu *v, uint64_t end)
{
	struct vfu *o = v->other;
	struct asked *a = &v->ask;

	/* QEMU may be waiting for what is in rx[] already. */
	handle_all(v);
	if (o)
		handle_all(o);
	while (v->fd >= 0 && (a->state == ASK_BEGUN || a->state == ASK_SENT)) {
		struct pollfd p[2] = { { .fd = v->fd }, { .fd = o ? o->fd : -1 } };
		uint64_t now;

		if (a->state == ASK_BEGUN && !v->tx_len) {
			send_question(v);
			continue;
		}
		now = stats_clock();
		p[0].events = wanted(v);
		p[1].events = o ? wanted(o) : 0;
		if (!poll(p, 2, now < end ? (end - now) / 1000000 + 1 : 0))
			return;
		if (p[1].revents)
			go_on(o);
		if (p[0].revents)
			go_on(v);
		/* A guest can make QEMU send without end. */
		if (now >= end)
			return;
	}
}

static void handle_rest_later(struct vfu *v)
{
	if (v && v->fd >= 0 && v->rx_len)
		loop_work(v->loop, &v->again);
}

static int vfu_ask(void *arg, uint64_t addr, void *data, size_t len, bool write)
{
	struct vfu *v = arg;
	struct asked *a = &v->ask;
	uint64_t began = stats_clock();
	bool done;

	if (v->handling || (v->other && v->other->handling) || a->state != ASK_NOTHING || v->fd < 0)
		return -EFAULT;
	a->addr = addr;
	a->data = data;
	a->len = len;
	a->write = write;
	a->state = ASK_BEGUN;
	wait_for_answer(v, began + a->ms * 1000000ull);
	loop_waited(v->loop);
	done = a->state == ASK_DONE;
	trace("dma %s %#llx+%#zx of QEMU: %s, %u us", write ? "write" : "read",
	      (unsigned long long)addr, len, done ? "ok" : "refused",
	      (unsigned int)((stats_clock() - began) / 1000));
	if (a->state == ASK_SENT && v->fd >= 0) {
		note("QEMU did not %s %zu bytes at %#llx in %u ms", write ? "write" : "read",
		     len, (unsigned long long)addr, a->ms);
		a->forsaken++;		/* the reply may come after all */
	}
	a->state = ASK_NOTHING;
	handle_rest_later(v);
	handle_rest_later(v->other);
	return done ? 0 : -EFAULT;
}

struct vfu *vfu_new(struct loop *l, struct dma *d, const struct vfu_ops *ops, void *arg, int fd)
{
	struct vfu *v = calloc(1, sizeof(*v));
	int ret = -ENOMEM;

	if (!v)
		goto err;
	*v = (struct vfu) {
		.loop = l, .dma = d, .ops = ops, .arg = arg, .fd = fd, .ask.ms = ASK_MS,
	};
	work_init(&v->again, handle_again);
	for (unsigned int i = 0; i < VFU_VECTORS_MAX; i++)
		v->eventfd[i] = -1;
	ret = loop_watch(l, fd, EPOLLIN, ready, v);
	if (ret)
		goto err;
	d->ask = vfu_ask;
	d->ask_arg = v;
	return v;

err:
	free(v);
	close(fd);
	errno = -ret;
	return NULL;
}

void vfu_pair(struct vfu *a, struct vfu *b)
{
	if (a->other)
		a->other->other = NULL;
	a->other = b;
	if (b)
		b->other = a;
}

void vfu_free(struct vfu *v)
{
	if (!v)
		return;
	drop(v);
	vfu_pair(v, NULL);
	free(v);
}
