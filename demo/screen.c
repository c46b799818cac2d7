// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * screen - let a peer paint a screen by RDMA
 *
 *	screen [--card /dev/dri/cardN] [--film]
 *
 * Usually a process maps the memory of a screen to write its pixels.  Here no
 * process does: the buffer on the screen is exported as a PRIME fd, registered
 * by that fd, and a peer writes to it.  The steps, in main():
 *
 *	show a dumb buffer		display.c
 *	wait for a painter		listen.c
 *	register the buffer by its fd	register.c: ibv_reg_mr_fd()
 *	send its address and rkey	listen.c, in the private data of rdma_accept()
 *	wait until it is painted	link.c, a receive that an immediate completes
 *	keep the picture		until a line or the end of standard input
 *
 * With --film the peer paints moving pictures.  Then the last two steps are film.c's, which
 * calls show_frame(), here, with each frame.
 *
 * Results are lines of KEY=VALUE on standard output, for scripts/demo.  Messages
 * for people go to standard error.
 */
#include <endian.h>
#include <err.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "display.h"
#include "film.h"
#include "link.h"
#include "protocol.h"
#include "register.h"

/* The colour of the screen until it is painted; no picture of ours has it. */
#define BACKGROUND 0x00803060

struct screen {
	const char *node; /* of the card; NULL: the usual one */
	bool film;
	struct display display;
	struct link link;
	struct ibv_mr *mr;
};

/*
 * Register the buffer with the device of the connection, which is known only
 * after the painter's request.  The buffer must be on the screen before this:
 * registration pins it where it is, and a card may keep a buffer that is not on
 * the screen in memory that it cannot show.  The driver of the default card
 * keeps all of them in system memory, and shows a copy (display_flush()).
 */
static int register_buffer(struct screen *s)
{
	const struct display *d = &s->display;

	printf("driver=%s\n", d->driver);
	s->mr = register_pixels(s->link.id->pd, display_export(d), d->bytes, register_usual);
	return s->mr ? 0 : -1;
}

static int accept_painter(struct screen *s)
{
	const struct display *d = &s->display;
	struct offer offer = {
		.width = d->width, .height = d->height, .pitch = d->pitch, .places = 1,
	};

	return link_accept(&s->link, s->mr, &offer);
}

static int wait_until_painted(struct screen *s)
{
	struct ibv_wc wc;

	if (link_next(&s->link, &wc))
		return -1;
	if (!(wc.wc_flags & IBV_WC_WITH_IMM)) {
		warnx("the painter sends something else than the end of its picture");
		return -1;
	}
	printf("painted=%u\n", be32toh(wc.imm_data));
	return link_wait_for_end(&s->link);
}

static void keep_picture(struct screen *s)
{
	int c;

	display_flush(&s->display);
	printf("shown=1\n");
	warnx("the picture is on the screen; press Return to end");
	do
		c = getchar();
	while (c != '\n' && c != EOF);
}

static void show_frame(void *of, uint32_t number)
{
	struct screen *s = of;

	display_flush(&s->display);
	film_announce(number);
}

static int show_film(struct screen *s)
{
	return film_receive(&s->link, show_frame, s) || link_wait_for_end(&s->link) ? -1 : 0;
}

static int show_picture(struct screen *s)
{
	if (wait_until_painted(s))
		return -1;
	keep_picture(s);
	return 0;
}

/* Destroy in the reverse order.  What was never created is NULL. */
static int tear_down(struct screen *s, int ret)
{
	int error = s->mr ? ibv_dereg_mr(s->mr) : 0;

	if (error) {
		warnx("ibv_dereg_mr: %s", strerror(error));
		ret = -1;
	}
	link_close(&s->link);
	display_close(&s->display);
	return ret;
}

/* Does not return after --help, or if an option is wrong. */
static void parse_options(struct screen *s, int argc, char **argv)
{
	static const struct option options[] = {
		{ "card", required_argument, NULL, 'c' },
		{ "film", no_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' },
		{},
	};
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			s->node = optarg;
			break;
		case 'f':
			s->film = true;
			break;
		default:
			fputs("usage: screen [--card /dev/dri/cardN] [--film]\n",
			      option == 'h' ? stdout : stderr);
			exit(option == 'h' ? 0 : 2);
		}
	}
}

int main(int argc, char **argv)
{
	struct screen s = {};
	int ret = -1;

	parse_options(&s, argc, argv);

	/* Write each line at once: a program may wait for it. */
	setvbuf(stdout, NULL, _IOLBF, 0);

	if (display_open(&s.display, s.node))
		return 1;
	if (display_show(&s.display, BACKGROUND) || link_listen(&s.link) || register_buffer(&s) ||
	    accept_painter(&s))
		goto out;
	ret = s.film ? show_film(&s) : show_picture(&s);
out:
	return tear_down(&s, ret) ? 1 : 0;
}
