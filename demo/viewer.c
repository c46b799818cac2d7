// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * viewer - let a peer send moving pictures into the memory of a GPU by RDMA
 *
 *	viewer [--card /dev/dri/cardN] [--direct]
 *
 * The buffer on the GPU has places for three pictures: one that is looked at, one
 * that is whole, and one into which the peer ("camera") writes (protocol.h).  This
 * process moves no pixel and cannot even see one, because it does not map the
 * buffer.  The steps, in main():
 *
 *	make a buffer on the GPU	gpu.c
 *	wait for a camera		listen.c
 *	register the buffer by its fd	register.c: ibv_reg_mr_fd(); or with --direct
 *					direct.c: mlx5dv_reg_mr_fd()
 *	send its address and rkey	listen.c, in the private data of rdma_accept()
 *	show each picture		film.c, which calls show(), here
 *
 * The GPU has no screen.  So "show" is to print "frame=K" when picture K is whole,
 * and to wait until whoever reads that has looked at it and answers with a line.
 *
 * Results are lines of KEY=VALUE on standard output, for scripts/demo.  Messages
 * for people go to standard error.
 */
#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "film.h"
#include "gpu.h"
#include "link.h"
#include "protocol.h"
#include "register.h"

#define PLACES 3

struct viewer {
	const char *node; /* of the GPU; NULL: the usual one */
	register_way *way;
	struct gpu gpu;
	struct link link;
	struct ibv_mr *mr;
};

/* The device is that of the connection, so it is known only after the request. */
static int register_buffer(struct viewer *v)
{
	const struct gpu *g = &v->gpu;

	printf("driver=%s\n", g->driver);
	v->mr = register_pixels(v->link.id->pd, gpu_export(g), g->bytes, v->way);
	return v->mr ? gpu_tell_place(g) : -1;
}

static int accept_camera(struct viewer *v)
{
	struct offer offer = {
		.width = DEMO_WIDTH, .height = DEMO_HEIGHT, .pitch = v->gpu.pitch,
		.places = PLACES, .flush = v->way == register_by_data_direct,
	};

	return link_accept(&v->link, v->mr, &offer);
}

static void show(void *, uint32_t number)
{
	film_announce(number);
}

/* Destroy in the reverse order.  What was never created is NULL. */
static int tear_down(struct viewer *v, int ret)
{
	int error = v->mr ? ibv_dereg_mr(v->mr) : 0;

	if (error) {
		warnx("ibv_dereg_mr: %s", strerror(error));
		ret = -1;
	}
	link_close(&v->link);
	gpu_close(&v->gpu);
	return ret;
}

/* Does not return after --help, or if an option is wrong. */
static void parse_options(struct viewer *v, int argc, char **argv)
{
	static const struct option options[] = {
		{ "card", required_argument, NULL, 'c' },
		{ "direct", no_argument, NULL, 'd' },
		{ "help", no_argument, NULL, 'h' },
		{},
	};
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			v->node = optarg;
			break;
		case 'd':
			v->way = register_by_data_direct;
			break;
		default:
			fputs("usage: viewer [--card /dev/dri/cardN] [--direct]\n",
			      option == 'h' ? stdout : stderr);
			exit(option == 'h' ? 0 : 2);
		}
	}
}

int main(int argc, char **argv)
{
	struct viewer v = { .way = register_usual, .gpu.fd = -1 };
	int ret = -1;

	parse_options(&v, argc, argv);

	/* Write each line at once: a program waits for it. */
	setvbuf(stdout, NULL, _IOLBF, 0);

	if (gpu_open(&v.gpu, v.node, DEMO_WIDTH, PLACES * DEMO_HEIGHT) || link_listen(&v.link) ||
	    register_buffer(&v) || accept_camera(&v) || film_receive(&v.link, show, NULL) ||
	    gpu_tell_place(&v.gpu) || link_wait_for_end(&v.link))
		goto out;
	ret = 0;
out:
	return tear_down(&v, ret) ? 1 : 0;
}
