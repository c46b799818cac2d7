/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * Memory of the host as dma-bufs: each allocation is one, of /dev/udmabuf.  So
 * every test can register dma-bufs (FI_MR_DMABUF) without a GPU.
 *
 * For a test it is memory of the host, and the mapping is that of the dma-buf.
 * The CPU and the device have to see the same bytes in it without a sync.
 */

#if HAVE_CONFIG_H
#include <config.h>
#endif

#include "hmem.h"
#include "shared.h"

#ifdef HAVE_LINUX_UDMABUF_H

#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

struct udmabuf {
	struct udmabuf *next;
	char *addr;
	size_t size;
	int fd;
};

static struct udmabuf *udmabufs;
static int udmabuf_dev = -1;

int ft_udmabuf_init(void)
{
	if (udmabuf_dev >= 0)
		return FI_SUCCESS;

	udmabuf_dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (udmabuf_dev < 0) {
		FT_ERR("/dev/udmabuf: %s; the kernel needs CONFIG_UDMABUF",
		       strerror(errno));
		return -errno;
	}
	return FI_SUCCESS;
}

static int udmabuf_create(struct udmabuf *buf)
{
	struct udmabuf_create create = {
		.flags = UDMABUF_FLAGS_CLOEXEC,
		.size = buf->size,
	};
	int ret, memfd;

	memfd = memfd_create("fabtests", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (memfd < 0)
		return -errno;

	create.memfd = memfd;
	if (ftruncate(memfd, buf->size) ||
	    fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK)) {
		ret = -errno;
		goto out;
	}

	buf->fd = ioctl(udmabuf_dev, UDMABUF_CREATE, &create);
	if (buf->fd < 0) {
		ret = -errno;
		FT_ERR("a dma-buf of %zu bytes: %s; udmabuf has a limit of "
		       "size_limit_mb (-S makes buffers smaller)",
		       buf->size, strerror(-ret));
		goto out;
	}

	buf->addr = mmap(NULL, buf->size, PROT_READ | PROT_WRITE, MAP_SHARED,
			 buf->fd, 0);
	if (buf->addr == MAP_FAILED) {
		ret = -errno;
		close(buf->fd);
		goto out;
	}
	ret = FI_SUCCESS;
out:
	close(memfd);
	return ret;
}

int ft_udmabuf_alloc(uint64_t device, void **buf, size_t size)
{
	size_t page = sysconf(_SC_PAGESIZE);
	struct udmabuf *new;
	int ret;

	new = calloc(1, sizeof(*new));
	if (!new)
		return -FI_ENOMEM;

	new->size = (size + page - 1) / page * page;
	ret = udmabuf_create(new);
	if (ret) {
		free(new);
		return ret;
	}

	new->next = udmabufs;
	udmabufs = new;
	*buf = new->addr;
	return FI_SUCCESS;
}

int ft_udmabuf_free(void *buf)
{
	struct udmabuf **at, *found;

	for (at = &udmabufs; *at && (*at)->addr != buf; at = &(*at)->next)
		;
	found = *at;
	if (!found)
		return buf ? -FI_EINVAL : FI_SUCCESS;

	*at = found->next;
	munmap(found->addr, found->size);
	close(found->fd);
	free(found);
	return FI_SUCCESS;
}

/* The descriptor stays that of the allocation: the caller does not close it. */
int ft_udmabuf_get_dmabuf_fd(void *buf, size_t len, int *fd, uint64_t *offset)
{
	struct udmabuf *at;
	size_t start;

	for (at = udmabufs; at; at = at->next) {
		start = (char *) buf - at->addr;
		if ((char *) buf >= at->addr && start < at->size &&
		    len <= at->size - start) {
			*fd = at->fd;
			*offset = start;
			return FI_SUCCESS;
		}
	}
	return -FI_EINVAL;
}

#else

int ft_udmabuf_init(void)
{
	FT_ERR("built without <linux/udmabuf.h>");
	return -FI_ENOSYS;
}

int ft_udmabuf_alloc(uint64_t device, void **buf, size_t size)
{
	return -FI_ENOSYS;
}

int ft_udmabuf_free(void *buf)
{
	return -FI_ENOSYS;
}

int ft_udmabuf_get_dmabuf_fd(void *buf, size_t len, int *fd, uint64_t *offset)
{
	return -FI_ENOSYS;
}

#endif /* HAVE_LINUX_UDMABUF_H */
