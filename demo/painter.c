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
#include <endian.h>
#include <err.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "film.h"
#include "link.h"
#include "picture.h"
#include "protocol.h"

/*
 * Large, so that the cost of posting does not matter; but smaller than a frame,
 * so that several writes are in flight at once.
 */
#define WRITE_BYTES (256 * 1024)
#define QUEUE_DEPTH 16

struct painter {
	struct link link;
	struct offer offer; /* in the byte order of this machine */
	struct picture frame;
	struct ibv_mr *mr; /* of the frame */
	unsigned int frames;
};

static int prepare_frame(struct painter *p, const struct picture *picture)
{
	const struct offer *o = &p->offer;

	if (picture_fit(&p->frame, o->width, o->height, o->pitch, picture))
		return -1;
	/* The device only reads the picture, so no access flag is needed. */
	p->mr = ibv_reg_mr(p->link.id->pd, p->frame.pixels, picture_bytes(&p->frame), 0);
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
		.imm_data = htobe32(p->frames),
		.wr.rdma = { .remote_addr = p->offer.iova + at, .rkey = p->offer.rkey },
	};
	int error = ibv_post_send(p->link.id->qp, &wr, &bad);

	if (error) {
		warnx("ibv_post_send: %s", strerror(error));
		return 0;
	}
	return sge.length;
}

/* Paint all frames, and keep the send queue full. */
static int paint(struct painter *p)
{
	const size_t frame_bytes = picture_bytes(&p->frame);
	unsigned int frame = 0, in_flight = 0;
	uint64_t begin = now_ns(), ns;
	size_t at = 0, posted;
	struct ibv_wc wc;
	bool last;

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
		if (link_next(&p->link, &wc))
			return -1;
		in_flight--;
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

	if (link_connect(&p.link, host, QUEUE_DEPTH, &p.offer) || prepare_frame(&p, picture) ||
	    paint(&p))
		goto out;
	ret = link_disconnect(&p.link);
out:
	/* Destroy in the reverse order.  What was never created is NULL. */
	if (p.mr)
		ibv_dereg_mr(p.mr);
	picture_free(&p.frame);
	link_close(&p.link);
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
			frames = film_frames(optarg);
		else if (option == 'r')
			out = optarg;
		else
			usage(option == 'h' ? stdout : stderr);
	}
	if (argc - optind != (out ? 1 : 2))
		usage(stderr);
	/* Write each line at once: a program may wait for it. */
	setvbuf(stdout, NULL, _IOLBF, 0);

	if (picture_read(&picture, argv[optind]))
		return 1;
	ret = out ? render(out, &picture) : paint_on(argv[optind + 1], frames, &picture);
	picture_free(&picture);
	return ret ? 1 : 0;
}
