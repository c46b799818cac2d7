// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A buffer from each exporter that a guest has, and a memfd, which needs none.
 * All give an fd and a second way to the same bytes, a CPU mapping that RDMA has
 * no part in, by which a case looks at what really arrived.
 *
 * The bochs buffer is put on the screen: a buffer that is scanned out is pinned
 * in VRAM, which is I/O memory, and that is what it is here for.
 */
#include "rdma.h"
#include <dirent.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <xf86drm.h>
#include <xf86drmMode.h>

#define MODE_W 1024
#define MODE_H 768

static const char *const drm_driver[] = {
	[VGEM] = "vgem", [VIRTIO_GPU] = "virtio_gpu", [BOCHS] = "bochs-drm",
};

/* The primary node whose driver has this name, or -1. */
static int open_card(const char *driver)
{
	for (int i = 0; i < 8; i++) {
		drmVersionPtr version;
		char path[32];
		bool match;
		int fd;

		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		version = drmGetVersion(fd);
		match = version && !strcmp(version->name, driver);
		drmFreeVersion(version);
		if (match)
			return fd;
		close(fd);
	}
	return -1;
}

/* NULL if the guest has the exporter, else what it lacks. */
const char *exporter_missing(enum exporter e)
{
	int fd;

	if (e == MEMFD)
		return NULL;
	if (e == UDMABUF)
		return access("/dev/udmabuf", R_OK | W_OK) ? "/dev/udmabuf" : NULL;
	if (e == HEAP)
		return access("/dev/dma_heap/system", R_OK) ? "/dev/dma_heap/system" : NULL;
	fd = open_card(drm_driver[e]);
	if (fd < 0)
		return drm_driver[e];
	close(fd);
	return NULL;
}

static void put_on_screen(int fd, uint32_t handle, uint32_t pitch)
{
	drmModeRes *res = must(drmModeGetResources(fd));
	drmModeConnector *con = must(drmModeGetConnector(fd, res->connectors[0]));
	uint32_t fb, connector = con->connector_id;
	drmModeModeInfo *mode = NULL;

	for (int i = 0; i < con->count_modes && !mode; i++)
		if (con->modes[i].hdisplay == MODE_W && con->modes[i].vdisplay == MODE_H)
			mode = &con->modes[i];
	if (!mode)
		die("no mode %dx%d", MODE_W, MODE_H);
	if (drmModeAddFB(fd, MODE_W, MODE_H, 24, 32, pitch, handle, &fb))
		die("add FB");
	if (drmModeSetCrtc(fd, res->crtcs[0], fb, 0, 0, &connector, 1, mode))
		die("set mode");
	drmModeFreeConnector(con);
	drmModeFreeResources(res);
}

static void dumb_open(struct buffer *b, enum exporter e, size_t size)
{
	uint32_t pitch, lines = size / PAGE;
	uint64_t bytes, offset;

	b->drm_fd = open_card(drm_driver[e]);
	if (b->drm_fd < 0)
		die("no card of %s", drm_driver[e]);
	if (e == BOCHS && lines < MODE_H)
		lines = MODE_H;
	if (drmModeCreateDumbBuffer(b->drm_fd, MODE_W, lines, 32, 0, &b->handle, &pitch, &bytes))
		die("create dumb buffer");
	b->size = bytes;
	if (e == BOCHS)
		put_on_screen(b->drm_fd, b->handle, pitch);
	if (drmModeMapDumbBuffer(b->drm_fd, b->handle, &offset))
		die("map dumb buffer");
	b->cpu = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, b->drm_fd, offset);
	if (drmPrimeHandleToFD(b->drm_fd, b->handle, DRM_CLOEXEC | DRM_RDWR, &b->fd))
		die("export PRIME fd");
}

static void udmabuf_open(struct buffer *b, size_t size)
{
	int memfd = memfd_create("udmabuf", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	struct udmabuf_create create = {
		.memfd = memfd, .flags = UDMABUF_FLAGS_CLOEXEC, .size = size,
	};

	if (memfd < 0 || dev < 0 || ftruncate(memfd, size) ||
	    fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		die("memfd for udmabuf");
	b->fd = ioctl(dev, UDMABUF_CREATE, &create);
	if (b->fd < 0)
		die("UDMABUF_CREATE");
	b->size = size;
	b->cpu = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	close(memfd);
	close(dev);
}

static void heap_open(struct buffer *b, size_t size)
{
	int heap = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);
	struct dma_heap_allocation_data alloc = { .len = size, .fd_flags = O_RDWR | O_CLOEXEC };

	if (heap < 0 || ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &alloc))
		die("allocate from the system heap");
	b->fd = alloc.fd;
	b->size = size;
	b->cpu = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
	close(heap);
}

static void memfd_open(struct buffer *b, size_t size)
{
	b->fd = memfd_create("buffer", MFD_CLOEXEC);
	if (b->fd < 0 || ftruncate(b->fd, size))
		die("memfd");
	b->type = IBV_MR_FD_TYPE_MEMFD;
	b->size = size;
	b->cpu = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
}

/* SIZE is a multiple of PAGE; a bochs buffer has at least its screen's. */
void buffer_open(struct buffer *b, enum exporter e, size_t size)
{
	b->drm_fd = -1;
	b->type = IBV_MR_FD_TYPE_DMABUF;
	switch (e) {
	case MEMFD:
		memfd_open(b, size);
		break;
	case UDMABUF:
		udmabuf_open(b, size);
		break;
	case HEAP:
		heap_open(b, size);
		break;
	default:
		dumb_open(b, e, size);
	}
	if (b->cpu == MAP_FAILED)
		die("map the buffer");
}

void buffer_close(struct buffer *b)
{
	munmap(b->cpu, b->size);
	if (b->fd >= 0)
		close(b->fd);
	if (b->drm_fd >= 0) {
		drmModeDestroyDumbBuffer(b->drm_fd, b->handle);
		close(b->drm_fd);
	}
}

/* How many dma-bufs the kernel has; in a guest at rest there are none. */
int dmabuf_count(void)
{
	DIR *dir = must(opendir("/sys/kernel/dmabuf/buffers"));
	struct dirent *entry;
	int n = 0;

	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

/*
 * True when no MR and no dma-buf is left.  The last reference of a process that
 * has ended may be put a little later, so there are ten seconds for it.
 */
bool nothing_left(void)
{
	for (int i = 0; i < 100; i++) {
		if (!mr_count() && !dmabuf_count())
			return true;
		usleep(100000);
	}
	printf("# left: %d MRs, %d dma-bufs\n", mr_count(), dmabuf_count());
	return false;
}
