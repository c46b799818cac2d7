// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Buffers of a DRM device with any driver: dumb buffers of the node that
 * --use_drm names. A buffer is exported as a PRIME (dma-buf) file descriptor and
 * registered by it. It is also mapped, because some tests look at the data that
 * has arrived.
 *
 * The memory may be that of a GPU or of the system. In both cases the mapping is
 * only for the CPU: ibv_reg_mr() cannot pin its pages.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mman.h>
#include <xf86drm.h>
#include <xf86drmMode.h>
#include "drm_memory.h"
#include "perftest_parameters.h"

/* A dumb buffer is a picture. Its lines have this many bytes and need no padding. */
#define LINE_SIZE 4096
#define BITS_PER_PIXEL 32

struct drm_memory_ctx {
	struct memory_ctx base;
	const char *node;
	int fd;
};

int drm_memory_init(struct memory_ctx *ctx)
{
	struct drm_memory_ctx *drm_ctx = container_of(ctx, struct drm_memory_ctx, base);

	drm_ctx->fd = open(drm_ctx->node, O_RDWR | O_CLOEXEC);
	if (drm_ctx->fd < 0) {
		fprintf(stderr, "Couldn't open DRM node %s: %s\n", drm_ctx->node, strerror(errno));
		return FAILURE;
	}

	return SUCCESS;
}

int drm_memory_destroy(struct memory_ctx *ctx)
{
	struct drm_memory_ctx *drm_ctx = container_of(ctx, struct drm_memory_ctx, base);

	close(drm_ctx->fd);
	free(drm_ctx);
	return SUCCESS;
}

int drm_memory_allocate_buffer(struct memory_ctx *ctx, int alignment, uint64_t size, int *dmabuf_fd,
			       uint64_t *dmabuf_offset, void **addr, bool *can_init)
{
	struct drm_memory_ctx *drm_ctx = container_of(ctx, struct drm_memory_ctx, base);
	uint64_t lines = (size + LINE_SIZE - 1) / LINE_SIZE;
	uint64_t buf_size, mmap_offset;
	uint32_t handle, pitch;

	if (lines > UINT32_MAX ||
	    drmModeCreateDumbBuffer(drm_ctx->fd, LINE_SIZE * 8 / BITS_PER_PIXEL, lines,
				    BITS_PER_PIXEL, 0, &handle, &pitch, &buf_size)) {
		fprintf(stderr, "Couldn't allocate %lu bytes on %s: %s\n", (unsigned long)size,
			drm_ctx->node, strerror(errno));
		return FAILURE;
	}

	if (drmModeMapDumbBuffer(drm_ctx->fd, handle, &mmap_offset)) {
		fprintf(stderr, "Couldn't map a buffer of %s: %s\n", drm_ctx->node, strerror(errno));
		goto destroy;
	}

	*addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, drm_ctx->fd, mmap_offset);
	if (*addr == MAP_FAILED) {
		fprintf(stderr, "Couldn't map a buffer of %s: %s\n", drm_ctx->node, strerror(errno));
		goto destroy;
	}

	if (drmPrimeHandleToFD(drm_ctx->fd, handle, DRM_CLOEXEC | DRM_RDWR, dmabuf_fd)) {
		fprintf(stderr, "Couldn't export a buffer of %s: %s\n", drm_ctx->node, strerror(errno));
		goto unmap;
	}

	/* The mapping and the descriptor keep the buffer. */
	drmModeDestroyDumbBuffer(drm_ctx->fd, handle);
	*dmabuf_offset = 0;
	*can_init = true;
	printf("allocated %lu bytes on %s at %p\n", (unsigned long)buf_size, drm_ctx->node, *addr);
	return SUCCESS;

unmap:
	munmap(*addr, size);
destroy:
	drmModeDestroyDumbBuffer(drm_ctx->fd, handle);
	return FAILURE;
}

int drm_memory_free_buffer(struct memory_ctx *ctx, int dmabuf_fd, void *addr, uint64_t size)
{
	munmap(addr, size);
	return SUCCESS;
}

bool drm_memory_supported(void)
{
	return true;
}

struct memory_ctx *drm_memory_create(struct perftest_parameters *params)
{
	struct drm_memory_ctx *ctx;

	ALLOCATE(ctx, struct drm_memory_ctx, 1);
	ctx->base.init = drm_memory_init;
	ctx->base.destroy = drm_memory_destroy;
	ctx->base.allocate_buffer = drm_memory_allocate_buffer;
	ctx->base.free_buffer = drm_memory_free_buffer;
	ctx->base.copy_host_to_buffer = memcpy;
	ctx->base.copy_buffer_to_host = memcpy;
	ctx->base.copy_buffer_to_buffer = memcpy;
	ctx->node = params->drm_node;
	ctx->fd = -1;

	return &ctx->base;
}
