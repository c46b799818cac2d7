// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * camera - send moving pictures into a peer's memory by RDMA
 *
 *	camera [--frames N] PICTURE HOST
 *
 * The camera turns in front of PICTURE: from one frame to the next what it sees is
 * some pixels further on, and what leaves at the left comes again at the right.  The
 * peer is "viewer", which has places for some frames (protocol.h).
 *
 * No frame is ever put together here.  One work request gathers it from three pieces
 * of registered memory: a strip with its number, the rows of the picture from a pixel
 * on, and the strip again.  So the device does all the work, and a frame whose strips
 * differ was written by halves.
 *
 * Results are lines of KEY=VALUE on standard output.
 */
#include <endian.h>
#include <err.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"
#include "picture.h"
#include "protocol.h"

#define MAX_FRAMES 10000
#define MAX_PLACES 8
#define QUEUE_DEPTH (3 * MAX_PLACES)

#define PAN 8 /* pixels from one frame to the next */
#define STRIP_ROWS 16
#define STRIP_BITS 16 /* fields side by side, the highest bit at the left */
#define STRIP_ONE 0xffffc857 /* the colours of fields, XRGB8888 */
#define STRIP_ZERO 0xff16324f

struct camera {
	struct link link;
	struct offer offer; /* in the byte order of this machine */
	struct picture picture; /* of the size of a frame */
	struct picture strips; /* one below the other, one for each place */
	struct ibv_mr *picture_mr;
	struct ibv_mr *strips_mr;
	struct ibv_mr *byte_mr;
	unsigned char byte; /* of the peer's memory, see post_flushed() */
	uint32_t frames;
};

static int prepare(struct camera *c, const struct picture *picture)
{
	struct ibv_pd *pd = c->link.id->pd;
	const struct offer *o = &c->offer;

	if (o->pitch != o->width * 4 || o->height <= 2 * STRIP_ROWS || o->width < STRIP_BITS ||
	    o->places > MAX_PLACES) {
		warnx("the peer's pixels are no place for moving pictures");
		return -1;
	}
	if (picture_fit(&c->picture, o->width, o->height, o->pitch, picture) ||
	    picture_new(&c->strips, o->width, o->places * STRIP_ROWS, o->pitch))
		return -1;
	/* The device only reads them, so no access flag is needed. */
	c->picture_mr = ibv_reg_mr(pd, c->picture.pixels, picture_bytes(&c->picture), 0);
	c->strips_mr = ibv_reg_mr(pd, c->strips.pixels, picture_bytes(&c->strips), 0);
	c->byte_mr = ibv_reg_mr(pd, &c->byte, 1, IBV_ACCESS_LOCAL_WRITE);
	if (!c->picture_mr || !c->strips_mr || !c->byte_mr) {
		warn("cannot register the picture");
		return -1;
	}
	return 0;
}

static unsigned char *draw_strip(struct camera *c, uint32_t number)
{
	const size_t pitch = c->strips.pitch;
	unsigned char *strip = c->strips.pixels + number % c->offer.places * STRIP_ROWS * pitch;
	uint32_t *row = (uint32_t *)strip, x, bit;

	for (x = 0; x < c->strips.width; x++) {
		bit = STRIP_BITS - 1 - (uint64_t)x * STRIP_BITS / c->strips.width;
		row[x] = htole32(number >> bit & 1 ? STRIP_ONE : STRIP_ZERO);
	}
	for (x = 1; x < STRIP_ROWS; x++)
		memcpy(strip + x * pitch, strip, pitch);
	return strip;
}

/*
 * Have the frame that WR writes arrive before its number: read a byte of it, and send the
 * number when the byte is here (the fence).  Else the number would go with the write.
 */
static int post_flushed(struct camera *c, struct ibv_send_wr *wr, uint64_t last_byte)
{
	struct ibv_sge byte = {
		.addr = (uintptr_t)&c->byte, .length = 1, .lkey = c->byte_mr->lkey,
	};
	struct ibv_send_wr *bad, number = {
		.wr_id = wr->wr_id,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_FENCE,
		.imm_data = wr->imm_data,
	};
	struct ibv_send_wr read = {
		.next = &number,
		.sg_list = &byte,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.wr.rdma = { .remote_addr = last_byte, .rkey = c->offer.rkey },
	};

	wr->wr_id = 0;
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->next = &read;
	return ibv_post_send(c->link.id->qp, wr, &bad);
}

/*
 * The rows of the picture are side by side in memory.  So if the first one begins some
 * pixels further on, each ends with as many pixels of the next row, and the last one
 * takes them from a row that the lower strip hides.  The last work request of a frame has the
 * id 1.
 */
static int post_frame(struct camera *c, uint32_t number)
{
	const uint32_t strip_bytes = STRIP_ROWS * c->strips.pitch;
	const uint64_t bytes = picture_bytes(&c->picture);
	const uint32_t pan = number * PAN % c->offer.width * 4;
	struct ibv_sge strip = {
		.addr = (uintptr_t)draw_strip(c, number),
		.length = strip_bytes,
		.lkey = c->strips_mr->lkey,
	};
	struct ibv_sge seen = {
		.addr = (uintptr_t)c->picture.pixels + strip_bytes + pan,
		.length = bytes - 2 * strip_bytes,
		.lkey = c->picture_mr->lkey,
	};
	struct ibv_sge pieces[] = { strip, seen, strip };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1,
		.sg_list = pieces,
		.num_sge = 3,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htobe32(number | (number == c->frames - 1 ? DEMO_LAST : 0)),
		.wr.rdma = {
			.remote_addr = c->offer.iova + number % c->offer.places * bytes,
			.rkey = c->offer.rkey,
		},
	};
	int error = c->offer.flush ?
		post_flushed(c, &wr, wr.wr.rdma.remote_addr + bytes - 1) :
		ibv_post_send(c->link.id->qp, &wr, &bad);

	if (error)
		warnx("ibv_post_send: %s", strerror(error));
	return error ? -1 : 0;
}

/* The peer has shown a frame.  Be ready for the next answer. */
static int take_answer(struct camera *c, const struct ibv_wc *wc, uint32_t shown)
{
	if (be32toh(wc->imm_data) == shown)
		return link_post_receive(&c->link);
	warnx("the peer answers frame %u, and not %u", be32toh(wc->imm_data), shown);
	return -1;
}

/*
 * A place is free when the peer has shown the frame that was there.  The strip of that
 * frame is free when its write is complete, since the device may read it again until then.
 */
static int film(struct camera *c)
{
	uint32_t posted = 0, written = 0, shown = 0, i;
	uint64_t begin = now_ns(), ns;
	struct ibv_wc wc;

	for (i = 0; i < c->offer.places; i++)
		if (link_post_receive(&c->link))
			return -1;
	while (written < c->frames || shown < c->frames) {
		if (posted < c->frames && posted < written + c->offer.places &&
		    posted < shown + c->offer.places) {
			if (post_frame(c, posted++))
				return -1;
			continue;
		}
		if (link_next(&c->link, &wc))
			return -1;
		if (!(wc.opcode & IBV_WC_RECV))
			written += wc.wr_id;
		else if (take_answer(c, &wc, shown++))
			return -1;
	}
	ns = now_ns() - begin;
	printf("frames=%u\nwritten=%" PRIu64 "\nwrite_ns=%" PRIu64 "\n", c->frames,
	       (uint64_t)picture_bytes(&c->picture) * c->frames, ns);
	return 0;
}

static int film_for(const char *host, uint32_t frames, const struct picture *picture)
{
	struct camera c = { .frames = frames };
	int ret = -1;

	if (link_connect(&c.link, host, QUEUE_DEPTH, &c.offer) || prepare(&c, picture) || film(&c))
		goto out;
	ret = link_disconnect(&c.link);
out:
	/* Destroy in the reverse order.  What was never created is NULL. */
	if (c.byte_mr)
		ibv_dereg_mr(c.byte_mr);
	if (c.strips_mr)
		ibv_dereg_mr(c.strips_mr);
	if (c.picture_mr)
		ibv_dereg_mr(c.picture_mr);
	picture_free(&c.strips);
	picture_free(&c.picture);
	link_close(&c.link);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "frames", required_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' },
		{},
	};
	struct picture picture;
	int option, frames = 1, ret;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'f') {
			frames = atoi(optarg);
			continue;
		}
		fputs("usage: camera [--frames N] PICTURE HOST\n", option == 'h' ? stdout : stderr);
		return option == 'h' ? 0 : 2;
	}
	if (argc - optind != 2) {
		fputs("usage: camera [--frames N] PICTURE HOST\n", stderr);
		return 2;
	}
	if (frames < 1 || frames > MAX_FRAMES)
		errx(2, "--frames takes 1 to %d", MAX_FRAMES);

	if (picture_read(&picture, argv[optind]))
		return 1;
	ret = film_for(argv[optind + 1], frames, &picture);
	picture_free(&picture);
	return ret ? 1 : 0;
}
