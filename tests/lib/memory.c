// SPDX-License-Identifier: GPL-2.0-or-later
/* See memory.h. */
#include "lib/memory.h"
#include "lib/case.h"
#include "lib/device.h"
#include "lib/gpu.h"
#include "lib/pattern.h"
#include "lib/test_exporter.h"
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <qxl_drm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xf86drm.h>
#include <xf86drmMode.h>

#define DUMB_WIDTH 1024		/* a line of it is a page */

static const char *const drm_driver[] = {
	[VGEM] = "vgem", [VIRTIO_GPU] = "virtio_gpu", [QXL] = "qxl",
};

int memory_open_card(const char *driver)
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

static uint8_t *map(size_t size, int fd, off_t offset)
{
	uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);

	if (p == MAP_FAILED)
		fail_case("map %zu bytes of the buffer", size);
	return p;
}

static void card_open(struct memory *m)
{
	m->drm_fd = memory_open_card(drm_driver[m->kind]);
	if (m->drm_fd < 0)
		fail_case("the guest has no card of %s", drm_driver[m->kind]);
}

static void card_export(struct memory *m, uint64_t offset)
{
	m->cpu = map(m->size, m->drm_fd, offset);
	if (drmPrimeHandleToFD(m->drm_fd, m->handle, DRM_CLOEXEC | DRM_RDWR, &m->fd))
		fail_case("export PRIME fd");
}

static void dumb_open(struct memory *m)
{
	uint64_t bytes, offset;
	uint32_t pitch;

	card_open(m);
	if (drmModeCreateDumbBuffer(m->drm_fd, DUMB_WIDTH, m->size / PAGE, 32, 0, &m->handle,
				    &pitch, &bytes))
		fail_case("create dumb buffer");
	m->size = bytes;
	if (drmModeMapDumbBuffer(m->drm_fd, m->handle, &offset))
		fail_case("map dumb buffer");
	card_export(m, offset);
}

/* A dumb buffer of qxl is system memory, and is copied to VRAM to be shown. */
static void qxl_open(struct memory *m)
{
	struct drm_qxl_alloc alloc = { .size = m->size };
	struct drm_qxl_map at = {};

	card_open(m);
	if (drmIoctl(m->drm_fd, DRM_IOCTL_QXL_ALLOC, &alloc))
		fail_case("allocate %zu bytes of qxl's VRAM", m->size);
	m->handle = at.handle = alloc.handle;
	if (drmIoctl(m->drm_fd, DRM_IOCTL_QXL_MAP, &at))
		fail_case("map a buffer of qxl");
	card_export(m, at.offset);
}

static void udmabuf_open(struct memory *m)
{
	int memfd = memfd_create("udmabuf", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	struct udmabuf_create create = {
		.memfd = memfd, .flags = UDMABUF_FLAGS_CLOEXEC, .size = m->size,
	};

	if (dev < 0)
		fail_case("the guest has no /dev/udmabuf");
	if (memfd < 0 || ftruncate(memfd, m->size) || fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		fail_case("make a memfd for udmabuf");
	m->fd = ioctl(dev, UDMABUF_CREATE, &create);
	if (m->fd < 0)
		fail_case("UDMABUF_CREATE");
	m->cpu = map(m->size, memfd, 0);
	close(memfd);
	close(dev);
}

int heap_fd(size_t size, int flags)
{
	int heap = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);
	struct dma_heap_allocation_data alloc = { .len = size, .fd_flags = flags | O_CLOEXEC };

	if (heap < 0 || ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &alloc))
		fail_case("allocate from the system heap");
	close(heap);
	return alloc.fd;
}

int memfd_of(size_t size, unsigned int flags)
{
	int fd = memfd_create("memory", flags | MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, size))
		fail_case("make a memfd of %zu bytes", size);
	return fd;
}

void memory_open(struct memory *m, enum memory_kind kind, size_t size)
{
	*m = (struct memory){
		.kind = kind, .size = size, .fd = -1, .drm_fd = -1, .iova = IOVA,
		.fd_type = kind == MEMFD ? IBV_MR_FD_TYPE_MEMFD : IBV_MR_FD_TYPE_DMABUF,
	};
	switch (kind) {
	case HOST:
	case ON_DEMAND:
		m->cpu = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
		if (m->cpu == MAP_FAILED) {
			m->cpu = NULL;
			fail_case("map %zu bytes", size);
		}
		m->iova = (uintptr_t)m->cpu;
		break;
	case MEMFD:
		m->fd = memfd_of(size, MFD_ALLOW_SEALING);
		m->cpu = map(size, m->fd, 0);
		break;
	case UDMABUF:
		udmabuf_open(m);
		break;
	case HEAP:
		m->fd = heap_fd(size, O_RDWR);
		m->cpu = map(size, m->fd, 0);
		break;
	case TEST_EXPORTER:
		test_exporter_open(m, size, 0);
		break;
	case GPU_VRAM:
	case GPU_SYSTEM:
		gpu_open(m, kind, size, 0);
		break;
	case QXL:
		qxl_open(m);
		break;
	default:
		dumb_open(m);
	}
}

void memory_open_filled(struct memory *m, enum memory_kind kind, size_t size, uint32_t seed)
{
	memory_open(m, kind, size);
	fill(m->cpu, m->size, seed);
	memory_mark(m);
}

void memory_close(struct memory *m)
{
	if (!m->size)
		return;		/* never opened */
	if (m->cpu)
		munmap(m->cpu, m->size);
	if (m->fd >= 0)
		close(m->fd);
	if (m->drm_fd >= 0) {
		if (m->handle)
			drmModeDestroyDumbBuffer(m->drm_fd, m->handle);
		close(m->drm_fd);
	}
	free(m->before);
	*m = (struct memory){};
}

void memory_close_fd(struct memory *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

void memory_mark(struct memory *m)
{
	if (!m->before)
		m->before = must(malloc(m->size));
	memcpy(m->before, m->cpu, m->size);
}

bool memory_is_zero(const struct memory *m)
{
	return !*m->cpu && !memcmp(m->cpu, m->cpu + 1, m->size - 1);
}

bool memory_untouched(const struct memory *m)
{
	return !memcmp(m->cpu, m->before, m->size) || memory_only_changed(m, 0, 0);
}

bool memory_only_changed(const struct memory *m, size_t from, size_t n)
{
	return only_changed(m->cpu, m->before, m->size, from, n);
}

static void need_kind(const struct memory *m)
{
	if (m->kind == MEMFD)
		need("memfd");
	if (m->kind == QXL)
		need("io-memory");
	if (m->kind == ON_DEMAND)
		need("on-demand");
}

bool memory_of_process(const struct memory *m)
{
	return m->kind == HOST || m->kind == ON_DEMAND;
}

static bool is_dma_buf(const struct memory *m)
{
	return !memory_of_process(m) && m->kind != MEMFD;
}

static int access_of(const struct memory *m, int access)
{
	return access | (m->kind == ON_DEMAND ? IBV_ACCESS_ON_DEMAND : 0);
}

int memory_rights(const struct memory *m)
{
	return is_dma_buf(m) && !device_can("window-dma-buf") ? RWA : ALL_ACCESS;
}

struct ibv_mr *memory_reg(const struct memory *m, struct ibv_pd *pd, int access)
{
	need_kind(m);
	if (memory_of_process(m))
		return must(ibv_reg_mr(pd, m->cpu, m->size, access_of(m, access)));
	if (is_dma_buf(m) && device_can("direct"))
		return must(mlx5dv_reg_dmabuf_mr(pd, 0, m->size, m->iova, m->fd, access,
						 MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT));
	need("reg_mr_fd");
	if (is_dma_buf(m) && (access & IBV_ACCESS_MW_BIND))
		need("window-dma-buf");
	return must(ibv_reg_mr_fd_iova(pd, 0, m->size, m->iova, m->fd_type, m->fd, access));
}

int memory_reg_errno(const struct memory *m, struct ibv_pd *pd)
{
	struct ibv_mr *mr;

	if (memory_of_process(m))
		mr = ibv_reg_mr(pd, m->cpu, m->size, access_of(m, RWA));
	else
		mr = ibv_reg_mr_fd_iova(pd, 0, m->size, m->iova, m->fd_type, m->fd, RWA);
	return mr ? ibv_dereg_mr(mr) : errno;
}

int memory_rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, const struct memory *m,
		 int access)
{
	access = flags & CHANGE_ACCESS ? access_of(m, access) : 0;
	need_kind(m);
	if (memory_of_process(m))
		return ibv_rereg_mr(mr, flags, pd, m->cpu, m->size, access);
	need("rereg_mr_fd");
	return ibv_rereg_mr_fd_iova(mr, flags, pd, 0, m->size, m->iova, m->fd_type, m->fd,
				    access);
}

void mr_close(struct ibv_mr *mr)
{
	if (mr && (errno = ibv_dereg_mr(mr)))
		fail_case("deregister an MR");
}
