/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DEMO_DISPLAY_H
#define DEMO_DISPLAY_H

#include <stdint.h>
#include <xf86drmMode.h>

#include "card.h"

/* One buffer on one screen, see display.c. */
struct display {
	int fd; /* the open card */
	char driver[CARD_DRIVER_BYTES];
	uint32_t connector;
	uint32_t crtc;
	drmModeModeInfo mode;

	uint32_t width; /* pixels */
	uint32_t height;
	uint32_t pitch; /* bytes from one row to the next */
	uint64_t bytes; /* of the whole buffer */
	uint32_t handle; /* of the buffer; 0: none */
	uint32_t fb; /* the framebuffer; 0: none */
};

/* On failure each of these prints a message to stderr and returns -1. */
int display_open(struct display *d, const char *node);
int display_show(struct display *d, uint32_t colour);
int display_export(const struct display *d);

void display_flush(struct display *d);
void display_close(struct display *d);

#endif
