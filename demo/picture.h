/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DEMO_PICTURE_H
#define DEMO_PICTURE_H

#include <stddef.h>
#include <stdint.h>

/* Rows of XRGB8888 pixels: in memory blue, green, red, and a byte of 0xff. */
struct picture {
	uint32_t width; /* pixels */
	uint32_t height;
	size_t pitch; /* bytes from one row to the next */
	unsigned char *pixels;
};

static inline size_t picture_bytes(const struct picture *p)
{
	return p->pitch * p->height;
}

/*
 * On failure each of these prints a message to stderr and returns -1.  The caller
 * releases each picture with picture_free().
 */
int picture_new(struct picture *p, uint32_t width, uint32_t height, size_t pitch);
int picture_read(struct picture *p, const char *path);
int picture_fit(struct picture *to, uint32_t width, uint32_t height, size_t pitch,
		const struct picture *from);
int picture_write(const struct picture *p, const char *path);

void picture_free(struct picture *p);

#endif
