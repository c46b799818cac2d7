// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * screen - let a peer paint a screen by RDMA
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
 * Results are lines of KEY=VALUE on standard output, for scripts/demo.  Messages
 * for people go to standard error.
 */
#include <endian.h>
#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "display.h"
#include "link.h"
#include "protocol.h"
#include "register.h"

/* The colour of the screen until it is painted; no picture of ours has it. */
#define BACKGROUND 0x00803060

struct screen {
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

/* The value of --card, or NULL.  Does not return after --help, or if an option is wrong. */
static const char *parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "card", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{},
	};
	const char *node = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'c') {
			node = optarg;
			continue;
		}
		fputs("usage: screen [--card /dev/dri/cardN]\n", option == 'h' ? stdout : stderr);
		exit(option == 'h' ? 0 : 2);
	}
	return node;
}

int main(int argc, char **argv)
{
	struct screen s = {};
	const char *node = parse_options(argc, argv);
	int ret = -1;

	/* Write each line at once: a program may wait for it. */
	setvbuf(stdout, NULL, _IOLBF, 0);

	if (display_open(&s.display, node))
		return 1;
	if (display_show(&s.display, BACKGROUND) || link_listen(&s.link) || register_buffer(&s) ||
	    accept_painter(&s) || wait_until_painted(&s))
		goto out;
	keep_picture(&s);
	ret = 0;
out:
	return tear_down(&s, ret) ? 1 : 0;
}
