// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * renderer - render moving pictures with Vulkan, and send them by RDMA from where they are
 *
 *	renderer [--frames N] HOST
 *
 * The peer is "screen --film" or "viewer", which has places for some pictures (../protocol.h).
 * For each of these places the renderer has a canvas: memory of a Vulkan device, into which
 * a shader paints (canvas.c).  The canvas is exported as a dma-buf fd and registered by that
 * fd.  So the RDMA device reads what was rendered where it was rendered: no CPU copies a
 * pixel, and it does not matter whether the Vulkan device is a GPU or, as Mesa's lavapipe, the
 * CPU itself.
 *
 * This program looks at its pixels all the same, by a mapping of Vulkan's, and prints a CRC of
 * each frame, so that somebody else can find out whether the same bytes have arrived.
 *
 * Results are lines of KEY=VALUE on standard output.
 */
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "canvas.h"
#include "film.h"
#include "link.h"
#include "protocol.h"

struct renderer {
	struct link link;
	struct offer offer; /* in the byte order of this machine */
	struct painter painter;
	struct canvas canvas[FILM_MAX_PLACES];
	struct ibv_mr *mr[FILM_MAX_PLACES]; /* of the canvases */
	uint64_t first_ns; /* to render the first frame, for which the shaders are compiled */
	uint64_t others_ns; /* all others */
};

static size_t frame_bytes(const struct renderer *r)
{
	return (size_t)r->offer.pitch * r->offer.height;
}

/* The name of the driver that exported a dma-buf, which the kernel has in the fd's info. */
static void print_exporter(int fd)
{
	char path[64], line[128], name[64] = "?";
	FILE *info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = fopen(path, "re");
	while (info && fgets(line, sizeof(line), info))
		if (sscanf(line, "exp_name: %63s", name) == 1)
			break;
	if (info)
		fclose(info);
	printf("exporter=%s\n", name);
}

/*
 * Register a canvas by its fd, which is needed for this one call only: the region holds its
 * own reference to the memory.  The device only reads it, so no access flag is needed.
 */
static int register_canvas(struct renderer *r, int number)
{
	int fd = canvas_export(&r->painter, &r->canvas[number]), error;

	if (fd < 0)
		return -1;
	r->mr[number] = ibv_reg_mr_fd(r->link.id->pd, NULL, frame_bytes(r), IBV_MR_FD_TYPE_DMABUF,
				      fd, 0);
	error = errno;
	if (!number)
		print_exporter(fd);
	close(fd);
	if (!r->mr[number]) {
		warnx("cannot register the pixels of the Vulkan device: %s", strerror(error));
		return -1;
	}
	return 0;
}

static int prepare(struct renderer *r)
{
	const struct offer *o = &r->offer;
	uint32_t i;

	if (painter_open(&r->painter, o->width, o->height))
		return -1;
	printf("renderer=%s\n", r->painter.name);
	for (i = 0; i < o->places; i++) {
		if (canvas_open(&r->painter, &r->canvas[i]))
			return -1;
		if (r->canvas[i].pitch != o->pitch) {
			warnx("a row has %zu bytes here and %u bytes at the peer",
			      r->canvas[i].pitch, o->pitch);
			return -1;
		}
		if (register_canvas(r, i))
			return -1;
	}
	return 0;
}

static int render(void *of, uint32_t number, struct ibv_sge pieces[FILM_PIECES])
{
	struct renderer *r = of;
	const uint32_t place = number % r->offer.places;
	uint64_t begin = now_ns();

	if (canvas_paint(&r->painter, &r->canvas[place], number))
		return -1;
	*(number ? &r->others_ns : &r->first_ns) += now_ns() - begin;
	printf("crc=%u %08lx\n", number, crc32_z(0, r->canvas[place].pixels, frame_bytes(r)));
	pieces[0] = (struct ibv_sge){
		.addr = (uintptr_t)r->mr[place]->addr,
		.length = frame_bytes(r),
		.lkey = r->mr[place]->lkey,
	};
	return 1;
}

static int render_for(const char *host, uint32_t frames)
{
	struct renderer r = {};
	int ret = -1, i;

	if (link_connect(&r.link, host, FILM_DEPTH, &r.offer) || film_check(&r.offer) ||
	    prepare(&r) || film_send(&r.link, &r.offer, frames, render, &r))
		goto out;
	printf("first_ns=%" PRIu64 "\nothers_ns=%" PRIu64 "\n", r.first_ns, r.others_ns);
	ret = link_disconnect(&r.link);
out:
	/* Destroy in the reverse order.  What was never created is NULL. */
	for (i = 0; i < FILM_MAX_PLACES; i++) {
		if (r.mr[i])
			ibv_dereg_mr(r.mr[i]);
		canvas_close(&r.painter, &r.canvas[i]);
	}
	painter_close(&r.painter);
	link_close(&r.link);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "frames", required_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' },
		{},
	};
	int option, frames = 1;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'f') {
			frames = film_frames(optarg);
			continue;
		}
		fputs("usage: renderer [--frames N] HOST\n", option == 'h' ? stdout : stderr);
		return option == 'h' ? 0 : 2;
	}
	if (argc - optind != 1) {
		fputs("usage: renderer [--frames N] HOST\n", stderr);
		return 2;
	}
	/* Write each line at once: it may be long until the next one. */
	setvbuf(stdout, NULL, _IOLBF, 0);

	return render_for(argv[optind], frames) ? 1 : 0;
}
