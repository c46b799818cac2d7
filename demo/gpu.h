/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DEMO_GPU_H
#define DEMO_GPU_H

#include <stdint.h>

#include "card.h"

/* One buffer of a GPU, see gpu.c.  Begin with { .fd = -1 }. */
struct gpu {
	int fd; /* the open card */
	char driver[CARD_DRIVER_BYTES];
	uint32_t handle; /* of the buffer */
	uint32_t pitch; /* bytes from one row to the next */
	uint64_t bytes; /* of the whole buffer */
};

/* On failure each of these prints a message to stderr and returns -1. */
int gpu_open(struct gpu *g, const char *node, uint32_t width, uint32_t height);
int gpu_export(const struct gpu *g);
int gpu_tell_place(const struct gpu *g);

void gpu_close(struct gpu *g);

#endif
