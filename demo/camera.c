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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "film.h"
#include "link.h"
#include "picture.h"
#include "protocol.h"

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
};

static int prepare(struct camera *c, const struct picture *picture)
{
	struct ibv_pd *pd = c->link.id->pd;
	const struct offer *o = &c->offer;

	if (o->pitch != o->width * 4 || o->height <= 2 * STRIP_ROWS || o->width < STRIP_BITS) {
		warnx("the peer's pixels are no place for moving pictures");
		return -1;
	}
	if (picture_fit(&c->picture, o->width, o->height, o->pitch, picture) ||
	    picture_new(&c->strips, o->width, o->places * STRIP_ROWS, o->pitch))
		return -1;
	/* The device only reads them, so no access flag is needed. */
	c->picture_mr = ibv_reg_mr(pd, c->picture.pixels, picture_bytes(&c->picture), 0);
	c->strips_mr = ibv_reg_mr(pd, c->strips.pixels, picture_bytes(&c->strips), 0);
	if (!c->picture_mr || !c->strips_mr) {
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
 * The rows of the picture are side by side in memory.  So if the first one begins some
 * pixels further on, each ends with as many pixels of the next row, and the last one
 * takes them from a row that the lower strip hides.
 */
static int frame(void *of, uint32_t number, struct ibv_sge pieces[FILM_PIECES])
{
	struct camera *c = of;
	const uint32_t strip_bytes = STRIP_ROWS * c->strips.pitch;
	const uint32_t pan = number * PAN % c->offer.width * 4;

	pieces[0] = (struct ibv_sge){
		.addr = (uintptr_t)draw_strip(c, number),
		.length = strip_bytes,
		.lkey = c->strips_mr->lkey,
	};
	pieces[1] = (struct ibv_sge){
		.addr = (uintptr_t)c->picture.pixels + strip_bytes + pan,
		.length = picture_bytes(&c->picture) - 2 * strip_bytes,
		.lkey = c->picture_mr->lkey,
	};
	pieces[2] = pieces[0];
	return 3;
}

static int film_for(const char *host, uint32_t frames, const struct picture *picture)
{
	struct camera c = {};
	int ret = -1;

	if (link_connect(&c.link, host, FILM_DEPTH, &c.offer) || film_check(&c.offer) ||
	    prepare(&c, picture) || film_send(&c.link, &c.offer, frames, frame, &c))
		goto out;
	ret = link_disconnect(&c.link);
out:
	/* Destroy in the reverse order.  What was never created is NULL. */
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
			frames = film_frames(optarg);
			continue;
		}
		fputs("usage: camera [--frames N] PICTURE HOST\n", option == 'h' ? stdout : stderr);
		return option == 'h' ? 0 : 2;
	}
	if (argc - optind != 2) {
		fputs("usage: camera [--frames N] PICTURE HOST\n", stderr);
		return 2;
	}

	if (picture_read(&picture, argv[optind]))
		return 1;
	ret = film_for(argv[optind + 1], frames, &picture);
	picture_free(&picture);
	return ret ? 1 : 0;
}
