// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A dumb buffer on a screen, with libdrm
 *
 * A dumb buffer is memory that a card can show and that the CPU can access.
 * This is all that a program needs to show pixels without a 3D driver.  The
 * buffer has three names:
 *
 *	handle		from the card, when the buffer is created
 *	framebuffer	says how bytes become pixels; a CRTC can show it
 *	PRIME fd	gives another subsystem (here: RDMA) access to the buffer
 *
 * The handle and the framebuffer exist until the card is closed.  A subsystem
 * that has imported the buffer by its fd keeps the memory after that.
 */
#include <drm_fourcc.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xf86drm.h>

#include "display.h"
#include "protocol.h"

/* The driver of the default card: that of QEMU's bochs-display. */
#define USUAL_DRIVER "bochs-drm"

/* Choose the mode of the demo's size, else the one that the screen prefers. */
static void choose_mode(struct display *d, const drmModeConnector *connector)
{
	const drmModeModeInfo *mode, *best = connector->modes; /* not empty */
	int i;

	for (i = 0; i < connector->count_modes; i++) {
		mode = &connector->modes[i];
		if (mode->hdisplay == DEMO_WIDTH && mode->vdisplay == DEMO_HEIGHT) {
			best = mode;
			break;
		}
		if (mode->type & DRM_MODE_TYPE_PREFERRED)
			best = mode;
	}
	d->mode = *best;
	d->width = best->hdisplay;
	d->height = best->vdisplay;
}

/* Choose a CRTC that can drive one of the connector's encoders. */
static int choose_crtc(struct display *d, const drmModeRes *res,
		       const drmModeConnector *connector)
{
	drmModeEncoder *encoder;
	uint32_t possible;
	int i, j;

	for (i = 0; i < connector->count_encoders; i++) {
		encoder = drmModeGetEncoder(d->fd, connector->encoders[i]);
		if (!encoder)
			continue;
		possible = encoder->possible_crtcs;
		drmModeFreeEncoder(encoder);
		for (j = 0; j < res->count_crtcs; j++) {
			if (possible & 1u << j) {
				d->crtc = res->crtcs[j];
				return 0;
			}
		}
	}
	return -1;
}

static bool try_connector(struct display *d, const drmModeRes *res, uint32_t id)
{
	drmModeConnector *connector = drmModeGetConnector(d->fd, id);
	bool usable = false;

	if (!connector)
		return false;
	if (connector->connection == DRM_MODE_CONNECTED && connector->count_modes &&
	    !choose_crtc(d, res, connector)) {
		d->connector = id;
		choose_mode(d, connector);
		usable = true;
	}
	drmModeFreeConnector(connector);
	return usable;
}

/*
 * Open the card of this node (NULL: the card with the usual driver) and choose
 * connector, CRTC and mode.  This does not change the screen yet.
 */
int display_open(struct display *d, const char *node)
{
	drmModeRes *res;
	bool found = false;
	int i;

	memset(d, 0, sizeof(*d));
	d->fd = card_open(node, USUAL_DRIVER, d->driver);
	if (d->fd < 0)
		return -1;

	res = drmModeGetResources(d->fd);
	if (!res) {
		warn("the card of driver %s cannot set a mode", d->driver);
		goto err;
	}
	for (i = 0; i < res->count_connectors && !found; i++)
		found = try_connector(d, res, res->connectors[i]);
	drmModeFreeResources(res);
	if (found)
		return 0;
	warnx("no screen is connected to the card of driver %s", d->driver);
err:
	display_close(d);
	return -1;
}

static int fill(struct display *d, uint32_t colour)
{
	uint64_t offset;
	uint32_t *row;
	uint32_t x, y;
	char *map;

	if (drmModeMapDumbBuffer(d->fd, d->handle, &offset))
		return -1;
	map = mmap(NULL, d->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, offset);
	if (map == MAP_FAILED)
		return -1;
	for (y = 0; y < d->height; y++) {
		row = (uint32_t *)(map + (size_t)y * d->pitch);
		for (x = 0; x < d->width; x++)
			row[x] = colour;
	}
	/* From now on no process needs the buffer in its address space. */
	return munmap(map, d->bytes);
}

/* Create the buffer, fill it with one colour (XRGB8888) and show it. */
int display_show(struct display *d, uint32_t colour)
{
	uint32_t handles[4] = {}, pitches[4] = {}, offsets[4] = {};

	if (drmModeCreateDumbBuffer(d->fd, d->width, d->height, 32, 0, &d->handle,
				    &d->pitch, &d->bytes)) {
		warn("cannot create a dumb buffer of %u x %u pixels", d->width, d->height);
		return -1;
	}
	if (fill(d, colour)) {
		warn("cannot map the dumb buffer");
		return -1;
	}
	handles[0] = d->handle;
	pitches[0] = d->pitch;
	if (drmModeAddFB2(d->fd, d->width, d->height, DRM_FORMAT_XRGB8888, handles, pitches,
			  offsets, &d->fb, 0)) {
		warn("cannot make a framebuffer of the dumb buffer");
		return -1;
	}
	if (drmModeSetCrtc(d->fd, d->crtc, d->fb, 0, 0, &d->connector, 1, &d->mode)) {
		warn("cannot set mode %s%s", d->mode.name,
		     errno == EACCES ? " (is another program using the screen?)" : "");
		return -1;
	}
	return 0;
}

/* Return a PRIME fd of the buffer.  The caller closes it. */
int display_export(const struct display *d)
{
	int fd;

	/* Without DRM_RDWR the fd is read-only, and RDMA cannot write to the buffer. */
	if (drmPrimeHandleToFD(d->fd, d->handle, DRM_CLOEXEC | DRM_RDWR, &fd)) {
		warn("cannot export the buffer as a PRIME fd");
		return -1;
	}
	return fd;
}

/*
 * Tell the card that the pixels have changed.  A card that shows a copy of the
 * buffer copies it now.  A card that scans out the buffer itself has nothing to
 * do, and its driver may not implement the call (ENOSYS).
 */
void display_flush(struct display *d)
{
	int ret = drmModeDirtyFB(d->fd, d->fb, NULL, 0);

	if (ret && ret != -ENOSYS)
		warnx("cannot flush the screen: %s", strerror(-ret));
}

void display_close(struct display *d)
{
	if (d->fd < 0)
		return;
	/* This also turns the screen off: no CRTC shows a removed framebuffer. */
	if (d->fb)
		drmModeRmFB(d->fd, d->fb);
	if (d->handle)
		drmModeDestroyDumbBuffer(d->fd, d->handle);
	close(d->fd);
	d->fd = -1;
}
