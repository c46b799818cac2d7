// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pixels in the memory of a GPU, with libdrm
 *
 * A dumb buffer needs no 3D driver and no screen.  A GPU that has memory of its own
 * puts it there, and may move it; whether an RDMA device writes there or makes the
 * buffer move to system memory first is between the two drivers.  The GPU of the
 * tests (mrfd_gpu) tells which of the two has happened.
 */
#include <drm_mode.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <xf86drm.h>
#include <xf86drmMode.h>

#include "gpu.h"
#include "mrfd_gpu.h"

#define USUAL_DRIVER "mrfd_gpu"

/* Open the card of this node (NULL: the usual one) and create the buffer. */
int gpu_open(struct gpu *g, const char *node, uint32_t width, uint32_t height)
{
	g->fd = card_open(node, USUAL_DRIVER, g->driver);
	if (g->fd < 0)
		return -1;
	if (drmModeCreateDumbBuffer(g->fd, width, height, 32, 0, &g->handle, &g->pitch,
				    &g->bytes)) {
		warn("cannot create a dumb buffer of %u x %u pixels", width, height);
		return -1;
	}
	return 0;
}

/* Return a PRIME fd of the buffer.  The caller closes it. */
int gpu_export(const struct gpu *g)
{
	int fd;

	/* Without DRM_RDWR the fd is read-only, and RDMA cannot write to the buffer. */
	if (drmPrimeHandleToFD(g->fd, g->handle, DRM_CLOEXEC | DRM_RDWR, &fd)) {
		warn("cannot export the buffer as a PRIME fd");
		return -1;
	}
	return fd;
}

/* Print where the buffer is, how often it moved, and who reaches it peer to peer. */
int gpu_tell_place(const struct gpu *g)
{
	struct mrfd_gpu_query query = { .handle = g->handle };

	if (drmIoctl(g->fd, DRM_IOCTL_MRFD_GPU_QUERY, &query)) {
		warn("the driver %s does not tell where a buffer is", g->driver);
		return -1;
	}
	printf("place=%s\noffset=%llu\npeers=%u\nmoves=%u\n",
	       query.place == MRFD_GPU_VRAM ? "VRAM" : "system memory", query.offset,
	       query.peers, query.moves);
	return 0;
}

/* This also gives up the buffer, which stays as long as others use it. */
void gpu_close(struct gpu *g)
{
	if (g->fd >= 0)
		close(g->fd);
	g->fd = -1;
}
