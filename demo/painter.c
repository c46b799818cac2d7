// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * painter - paint a picture on a peer's screen by RDMA
 *
 *	painter [--frames N] PICTURE HOST	paint it, N times
 *	painter --render OUT PICTURE		write what would be painted to OUT
 *
 * The peer is "screen", which answers the connection request with the size of
 * its screen and the address and rkey of the pixels (protocol.h).  The picture
 * has the same layout here as there, with the gaps at the ends of rows.  So a
 * frame is one run of bytes, and a few large writes transfer it.
 *
 * This side uses only ordinary RDMA.  It does not know that the memory at the
 * other end belongs to a screen.  Results are lines of KEY=VALUE on standard
 * output.
 */
#include <drm_fourcc.h>
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "picture.h"
#include "protocol.h"

/*
 * Large, so that the cost of posting does not matter; but smaller than a frame,
 * so that several writes are in flight at once.
 */
#define WRITE_BYTES (256 * 1024)
#define QUEUE_DEPTH 16

#define CONNECT_SECONDS 60 /* the screen may still be starting */
#define RESOLVE_MS 2000
#define MAX_FRAMES 10000

/* The InfiniBand number of this reason to reject a connection. */
#define REJECTED_BY_PEER 28

struct painter {
	struct rdma_cm_id *id; /* the connection, with its PD, QP and CQs */
	struct screen_offer offer; /* in the byte order of this machine */
	struct picture frame;
	struct ibv_mr *mr; /* of the frame */
	unsigned int frames;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Return NULL if connected, else the name of the call that failed, with errno. */
static const char *try_connect(struct painter *p, struct rdma_addrinfo *to)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = QUEUE_DEPTH, .max_send_sge = 1,
			 .max_recv_wr = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	/* Six retries, then an error.  With 7, Soft-RoCE retries for ever. */
	struct rdma_conn_param param = { .retry_count = 6 };

	/* An id without an event channel is synchronous: each call waits. */
	if (rdma_create_id(NULL, &p->id, NULL, RDMA_PS_TCP)) {
		p->id = NULL;
		return "rdma_create_id";
	}
	if (rdma_resolve_addr(p->id, NULL, to->ai_dst_addr, RESOLVE_MS))
		return "rdma_resolve_addr";
	if (rdma_resolve_route(p->id, RESOLVE_MS))
		return "rdma_resolve_route";
	/* Without a PD and CQs librdmacm creates them and stores them in id. */
	if (rdma_create_qp(p->id, NULL, &attr))
		return "rdma_create_qp";
	if (rdma_connect(p->id, &param))
		return "rdma_connect";
	return NULL;
}

static bool screen_refused(const struct painter *p)
{
	return p->id && p->id->event && p->id->event->event == RDMA_CM_EVENT_REJECTED &&
	       p->id->event->status == REJECTED_BY_PEER;
}

/*
 * The screen or its network may not be ready yet.  So try again for a while
 * after any failure, unless the screen itself refuses.
 */
static int connect_to_screen(struct painter *p, const char *host)
{
	const uint64_t deadline = now_ns() + CONNECT_SECONDS * 1000000000ULL;
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *to;
	bool refused = false;
	const char *failed;
	int error;

	error = rdma_getaddrinfo(host, DEMO_PORT, &hints, &to);
	if (error) {
		/* -1: the reason is in errno; else it is an error of getaddrinfo(). */
		warnx("cannot find %s: %s", host,
		      error == -1 ? strerror(errno) : gai_strerror(error));
		return -1;
	}
	while ((failed = try_connect(p, to))) {
		error = errno;
		refused = screen_refused(p);
		if (p->id)
			rdma_destroy_ep(p->id);
		p->id = NULL;
		if (refused || now_ns() > deadline)
			break;
		usleep(100 * 1000);
	}
	rdma_freeaddrinfo(to);
	if (!failed)
		return 0;
	if (refused)
		warnx("the screen at %s refuses; its own messages say why", host);
	else
		warnx("cannot connect to %s: %s: %s", host, failed, strerror(error));
	return -1;
}

/* Take the offer out of the private data of the screen's answer. */
static int take_offer(struct painter *p)
{
	const struct rdma_conn_param *answer = &p->id->event->param.conn;
	struct screen_offer *o = &p->offer;

	/* It may be longer, because the transport pads it to a fixed size. */
	if (answer->private_data_len < sizeof(*o)) {
		warnx("the peer is no screen: its answer has %u bytes of private data",
		      answer->private_data_len);
		return -1;
	}
	memcpy(o, answer->private_data, sizeof(*o));
	o->magic = be32toh(o->magic);
	o->format = be32toh(o->format);
	o->width = be32toh(o->width);
	o->height = be32toh(o->height);
	o->pitch = be32toh(o->pitch);
	o->rkey = be32toh(o->rkey);
	o->iova = be64toh(o->iova);
	if (o->magic != DEMO_MAGIC || o->format != DRM_FORMAT_XRGB8888 || !o->width ||
	    !o->height || o->pitch / 4 < o->width) {
		warnx("the peer is no screen, or not one with XRGB8888 pixels");
		return -1;
	}
	return 0;
}

static int prepare_frame(struct painter *p, const struct picture *picture)
{
	const struct screen_offer *o = &p->offer;

	if (picture_fit(&p->frame, o->width, o->height, o->pitch, picture))
		return -1;
	/* The device only reads the picture, so no access flag is needed. */
	p->mr = ibv_reg_mr(p->id->pd, p->frame.pixels, picture_bytes(&p->frame), 0);
	if (!p->mr) {
		warn("cannot register the picture");
		return -1;
	}
	return 0;
}

/* Post a write of the frame's bytes from AT on; return their number, 0 on error. */
static size_t post_write(struct painter *p, size_t at, bool last)
{
	const size_t left = picture_bytes(&p->frame) - at;
	struct ibv_sge sge = {
		.addr = (uintptr_t)p->frame.pixels + at,
		.length = left < WRITE_BYTES ? left : WRITE_BYTES,
		.lkey = p->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htobe32(p->frames),
		.wr.rdma = { .remote_addr = p->offer.iova + at, .rkey = p->offer.rkey },
	};
	int error = ibv_post_send(p->id->qp, &wr, &bad);

	if (error) {
		warnx("ibv_post_send: %s", strerror(error));
		return 0;
	}
	return sge.length;
}

/*
 * Sleep until there may be a completion.  The screen does not disconnect while it
 * is painted, so any event of the connection is an error.
 */
static int wait_for_completion(struct painter *p)
{
	struct pollfd fds[] = {
		{ .fd = p->id->send_cq_channel->fd, .events = POLLIN },
		{ .fd = p->id->channel->fd, .events = POLLIN },
	};
	struct ibv_cq *cq;
	void *context;

	if (poll(fds, 2, -1) < 0) {
		warn("poll");
		return -1;
	}
	if (fds[1].revents) {
		warnx("the screen went away while it was painted");
		return -1;
	}
	if (ibv_get_cq_event(p->id->send_cq_channel, &cq, &context)) {
		warn("ibv_get_cq_event");
		return -1;
	}
	ibv_ack_cq_events(cq, 1);
	return 0;
}

/* Poll for completions, and sleep if there are none; return their number or -1. */
static int reap(struct painter *p)
{
	struct ibv_cq *cq = p->id->send_cq;
	struct ibv_wc wc[QUEUE_DEPTH];
	int i, n, error;

	n = ibv_poll_cq(cq, QUEUE_DEPTH, wc);
	if (n == 0) {
		error = ibv_req_notify_cq(cq, 0);
		if (error) {
			warnx("ibv_req_notify_cq: %s", strerror(error));
			return -1;
		}
		/* A completion before the request causes no notification: poll again. */
		n = ibv_poll_cq(cq, QUEUE_DEPTH, wc);
		if (n == 0)
			return wait_for_completion(p);
	}
	if (n < 0) {
		warnx("ibv_poll_cq failed");
		return -1;
	}
	for (i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			warnx("a write failed: %s", ibv_wc_status_str(wc[i].status));
			return -1;
		}
	}
	return n;
}

/* Paint all frames, and keep the send queue full. */
static int paint(struct painter *p)
{
	const size_t frame_bytes = picture_bytes(&p->frame);
	unsigned int frame = 0, in_flight = 0;
	uint64_t begin = now_ns(), ns;
	size_t at = 0, posted;
	bool last;
	int n;

	while (frame < p->frames || in_flight) {
		while (frame < p->frames && in_flight < QUEUE_DEPTH) {
			last = frame == p->frames - 1 && frame_bytes - at <= WRITE_BYTES;
			posted = post_write(p, at, last);
			if (!posted)
				return -1;
			in_flight++;
			at += posted;
			if (at == frame_bytes) {
				at = 0;
				frame++;
			}
		}
		n = reap(p);
		if (n < 0)
			return -1;
		in_flight -= n;
	}
	ns = now_ns() - begin;
	printf("frames=%u\nwritten=%" PRIu64 "\nwrite_ns=%" PRIu64 "\n", p->frames,
	       (uint64_t)frame_bytes * p->frames, ns);
	return 0;
}

static int paint_on(const char *host, unsigned int frames, const struct picture *picture)
{
	struct painter p = { .frames = frames };
	int ret = -1;

	if (connect_to_screen(&p, host))
		return -1;
	warnx("connected to %s", host);
	if (take_offer(&p) || prepare_frame(&p, picture) || paint(&p))
		goto out;
	if (rdma_disconnect(p.id))
		warn("rdma_disconnect");
	else
		ret = 0;
out:
	/* Destroy in the reverse order.  What was never created is NULL. */
	if (p.mr)
		ibv_dereg_mr(p.mr);
	picture_free(&p.frame);
	rdma_destroy_ep(p.id);
	return ret;
}

static int render(const char *out, const struct picture *picture)
{
	struct picture frame;
	int ret;

	if (picture_fit(&frame, DEMO_WIDTH, DEMO_HEIGHT, DEMO_WIDTH * 4, picture))
		return -1;
	ret = picture_write(&frame, out);
	picture_free(&frame);
	return ret;
}

static _Noreturn void usage(FILE *to)
{
	fputs("usage: painter [--frames N] PICTURE HOST\n"
	      "       painter --render OUT PICTURE\n", to);
	exit(to == stdout ? 0 : 2);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "frames", required_argument, NULL, 'f' },
		{ "render", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{},
	};
	const char *out = NULL;
	struct picture picture;
	int option, frames = 1, ret;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'f')
			frames = atoi(optarg);
		else if (option == 'r')
			out = optarg;
		else
			usage(option == 'h' ? stdout : stderr);
	}
	if (argc - optind != (out ? 1 : 2))
		usage(stderr);
	if (frames < 1 || frames > MAX_FRAMES)
		errx(2, "--frames takes 1 to %d", MAX_FRAMES);
	/* Write each line at once: a program may wait for it. */
	setvbuf(stdout, NULL, _IOLBF, 0);

	if (picture_read(&picture, argv[optind]))
		return 1;
	ret = out ? render(out, &picture) : paint_on(argv[optind + 1], frames, &picture);
	picture_free(&picture);
	return ret ? 1 : 0;
}
