// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Register pixels by the PRIME fd of their buffer
 *
 * This is what the demo is about.  The process does not have the pixels in its address
 * space, and it needs the fd only for this one call.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "link.h"
#include "register.h"

/*
 * The address of the first byte for a peer.  The memory has no address of its
 * own, so any multiple of the page size will do (the region starts at byte IOVA
 * modulo the page size of the fd).  This one cannot be mistaken for a pointer.
 */
#define IOVA 0x1000000000000000ULL

static const char *why_not_registered(int error)
{
	switch (error) {
	case EOPNOTSUPP:
		return " (the device, the exporter or the kernel cannot: is the kernel patched?)";
	case EACCES:
		return " (the fd is not writable: was it exported without DRM_RDWR?)";
	case ENODEV:
		return " (the card has no second function for Data Direct, or the exporter has gone)";
	case EBADFD:
		return " (the fd is open, but it is no dma-buf)";
	case ENXIO:
		return " (the exporter gives the CPU no access, and the device is software)";
	case ERANGE:
		return " (the dma-buf is shorter than that)";
	default:
		return "";
	}
}

struct ibv_mr *register_usual(struct ibv_pd *pd, size_t bytes, uint64_t iova, int fd, int access)
{
	return ibv_reg_mr_fd(pd, (void *)(uintptr_t)iova, bytes, IBV_MR_FD_TYPE_DMABUF, fd, access);
}

struct ibv_mr *register_pixels(struct ibv_pd *pd, int fd, size_t bytes, register_way *way)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	const char *device = ibv_get_device_name(pd->context->device);
	uint64_t begin = now_ns(), end;
	struct ibv_mr *mr;
	int error;

	if (fd < 0)
		return NULL;
	mr = way(pd, bytes, IOVA, fd, access);
	error = errno;
	end = now_ns();
	close(fd);
	if (!mr) {
		warnx("cannot register %zu bytes of pixels with %s: %s%s", bytes, device,
		      strerror(error), why_not_registered(error));
		return NULL;
	}
	printf("fd_type=dma-buf\ndevice=%s\nbytes=%zu\nregister_ns=%" PRIu64 "\n", device,
	       mr->length, end - begin);
	return mr;
}
