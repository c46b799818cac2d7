// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * PNG files, and pixels in the format of a screen
 *
 * libpng's simplified API converts every kind of PNG (grey, palette, 16 bit,
 * transparent) to one pixel format.  To fit a picture to a screen, each screen
 * pixel gets the average of the source pixels that it covers.  If the picture
 * is enlarged, that is the nearest source pixel.  If the sizes are equal, no
 * pixel changes.
 */
#include <err.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "picture.h"

#define PIXEL 4 /* bytes */

/* The colour around a picture, and behind its transparent pixels. */
static const png_color paper = { .red = 0x1b, .green = 0x26, .blue = 0x31 };

/* Make a picture of black pixels. */
int picture_new(struct picture *p, uint32_t width, uint32_t height, size_t pitch)
{
	p->width = width;
	p->height = height;
	p->pitch = pitch;
	p->pixels = calloc(height, pitch);
	if (!p->pixels) {
		warn("a picture of %u x %u pixels", width, height);
		return -1;
	}
	return 0;
}

void picture_free(struct picture *p)
{
	free(p->pixels);
	p->pixels = NULL;
}

static void put_pixel(unsigned char *to, unsigned int blue, unsigned int green, unsigned int red)
{
	to[0] = blue;
	to[1] = green;
	to[2] = red;
	to[3] = 0xff; /* the X of XRGB; libpng has no X and reads it as opaque */
}

/*
 * libpng puts transparent pixels on the paper only if the format has no alpha
 * channel.  A pixel then has three bytes, so copy them to four afterwards.
 */
static int decode(struct picture *p, png_image *image, const char *path)
{
	size_t i, pixels = (size_t)image->width * image->height;
	unsigned char *packed;

	image->format = PNG_FORMAT_BGR;
	packed = malloc(PNG_IMAGE_SIZE(*image));
	if (!packed) {
		warn("%s: a picture of %u x %u pixels", path, image->width, image->height);
		return -1;
	}
	if (!png_image_finish_read(image, &paper, packed, 0, NULL)) {
		warnx("%s: %s", path, image->message);
		goto err;
	}
	if (picture_new(p, image->width, image->height, (size_t)image->width * PIXEL))
		goto err;
	for (i = 0; i < pixels; i++)
		put_pixel(&p->pixels[i * PIXEL], packed[i * 3], packed[i * 3 + 1],
			  packed[i * 3 + 2]);
	free(packed);
	return 0;
err:
	free(packed);
	return -1;
}

int picture_read(struct picture *p, const char *path)
{
	png_image image = { .version = PNG_IMAGE_VERSION };
	int ret = -1;

	if (!png_image_begin_read_from_file(&image, path)) {
		warnx("%s: %s", path, image.message);
		return -1;
	}
	/* By default libpng takes 16 bit samples as linear, but few files have that. */
	image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
	/* libpng has the same limit: it counts the bytes of a picture in 32 bits. */
	if (image.height > UINT32_MAX / PIXEL / image.width)
		warnx("%s: %u x %u pixels are too many", path, image.width, image.height);
	else
		ret = decode(p, &image, path);
	png_image_free(&image);
	return ret;
}

/* Write the average colour of the box [x0, x1) by [y0, y1); it is not empty. */
static void average(unsigned char *to, const struct picture *from, uint32_t x0, uint32_t x1,
		    uint32_t y0, uint32_t y1)
{
	uint64_t sum[3] = {}, n = (uint64_t)(x1 - x0) * (y1 - y0);
	const unsigned char *pixel;
	uint32_t x, y;

	for (y = y0; y < y1; y++) {
		pixel = from->pixels + y * from->pitch + (size_t)x0 * PIXEL;
		for (x = x0; x < x1; x++, pixel += PIXEL) {
			sum[0] += pixel[0];
			sum[1] += pixel[1];
			sum[2] += pixel[2];
		}
	}
	put_pixel(to, (sum[0] + n / 2) / n, (sum[1] + n / 2) / n, (sum[2] + n / 2) / n);
}

/* Convert position I on a side of TO pixels to one on a side of FROM pixels. */
static uint32_t scale(uint32_t i, uint32_t from, uint32_t to)
{
	return (uint64_t)i * from / to;
}

static uint32_t box_end(uint32_t i, uint32_t from, uint32_t to)
{
	uint32_t begin = scale(i, from, to), end = scale(i + 1, from, to);

	return end > begin ? end : begin + 1;
}

/* Make a picture of this size with the other one in its centre, scaled to fit. */
int picture_fit(struct picture *to, uint32_t width, uint32_t height, size_t pitch,
		const struct picture *from)
{
	uint32_t w = width, h = height, left, top, x, y;
	unsigned char *row;

	if (picture_new(to, width, height, pitch))
		return -1;

	if ((uint64_t)from->width * height > (uint64_t)width * from->height)
		h = scale(width, from->height, from->width);
	else
		w = scale(height, from->width, from->height);
	w = w ? w : 1;
	h = h ? h : 1;
	left = (width - w) / 2;
	top = (height - h) / 2;

	for (y = 0; y < height; y++) {
		row = to->pixels + y * pitch;
		for (x = 0; x < width; x++)
			put_pixel(row + (size_t)x * PIXEL, paper.blue, paper.green, paper.red);
		if (y < top || y >= top + h)
			continue;
		row += (size_t)left * PIXEL;
		for (x = 0; x < w; x++)
			average(row + (size_t)x * PIXEL, from, scale(x, from->width, w),
				box_end(x, from->width, w), scale(y - top, from->height, h),
				box_end(y - top, from->height, h));
	}
	return 0;
}

int picture_write(const struct picture *p, const char *path)
{
	png_image image = {
		.version = PNG_IMAGE_VERSION,
		.width = p->width,
		.height = p->height,
		.format = PNG_FORMAT_BGRA,
	};

	if (!png_image_write_to_file(&image, path, 0, p->pixels, p->pitch, NULL)) {
		warnx("%s: %s", path, image.message);
		return -1;
	}
	return 0;
}
