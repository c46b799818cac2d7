// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A dumb buffer on a screen, by libdrm
 *
 * A dumb buffer is memory that a card can show and that the CPU can reach, all
 * that is needed to put pixels on a screen without a 3D driver.  It goes
 * through three names: the handle that the card gives it when it is created,
 * the framebuffer that says how its bytes are pixels and that a CRTC can show,
 * and the PRIME fd by which another subsystem (here: RDMA) gets at it.
 *
 * The handle and the framebuffer belong to the open card and go with it.  The
 * fd does not: whoever imported the buffer by it keeps the memory alive.
 */
#include <drm_fourcc.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xf86drm.h>

#include "display.h"
#include "protocol.h"

/* The card taken where none is named: QEMU's bochs-display. */
#define USUAL_DRIVER "bochs-drm"
#define MAX_CARDS 16

static int read_driver_name(struct display *d)
{
	drmVersionPtr version = drmGetVersion(d->fd);

	if (!version)
		return -1;
	snprintf(d->driver, sizeof(d->driver), "%s", version->name);
	drmFreeVersion(version);
	return 0;
}

static int open_card(struct display *d, const char *node)
{
	d->fd = open(node, O_RDWR | O_CLOEXEC);
	if (d->fd < 0)
		return -1;
	if (read_driver_name(d)) {
		close(d->fd);
		d->fd = -1;
		return -1;
	}
	return 0;
}

static int find_card(struct display *d)
{
	char node[32];
	int i;

	/* Not every number is taken, and not every card has a screen (vgem). */
	for (i = 0; i < MAX_CARDS; i++) {
		snprintf(node, sizeof(node), "/dev/dri/card%d", i);
		if (open_card(d, node))
			continue;
		if (!strcmp(d->driver, USUAL_DRIVER))
			return 0;
		close(d->fd);
		d->fd = -1;
	}
	warnx("no card in /dev/dri is driven by " USUAL_DRIVER "; name one by --card");
	return -1;
}

/* The mode of the demo's size, else the one that the screen likes best. */
static void choose_mode(struct display *d, const drmModeConnector *connector)
{
	const drmModeModeInfo *mode, *best = connector->modes; /* there is one */
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

/* A CRTC that can feed one of the connector's encoders. */
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
 * Open the card of this node (NULL: the one of the usual driver) and choose
 * connector, CRTC and mode.  Nothing is changed on the screen yet.
 */
int display_open(struct display *d, const char *node)
{
	drmModeRes *res;
	bool found = false;
	int i;

	memset(d, 0, sizeof(*d));
	d->fd = -1;
	if (node) {
		if (open_card(d, node)) {
			warn("cannot open %s as a DRM card", node);
			return -1;
		}
	} else if (find_card(d)) {
		return -1;
	}

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
	/* From here on no process needs the buffer in its address space. */
	return munmap(map, d->bytes);
}

/* Create the buffer, fill it with one colour (XRGB8888) and put it on screen. */
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

/* Return a PRIME fd of the buffer, for the caller to close. */
int display_export(struct display *d)
{
	int fd;

	/* Without DRM_RDWR the fd is read-only, and RDMA may not write by it. */
	if (drmPrimeHandleToFD(d->fd, d->handle, DRM_CLOEXEC | DRM_RDWR, &fd)) {
		warn("cannot export the buffer as a PRIME fd");
		return -1;
	}
	return fd;
}

/*
 * Tell the card that the pixels have changed.  One that scans the buffer out as
 * it is has nothing to do and may not even have the call; one that shows a copy
 * makes it now.
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
	/* This turns the screen off, too: nobody shows a removed framebuffer. */
	if (d->fb)
		drmModeRmFB(d->fd, d->fb);
	if (d->handle)
		drmModeDestroyDumbBuffer(d->fd, d->handle);
	close(d->fd);
	d->fd = -1;
}
