// SPDX-License-Identifier: GPL-2.0-or-later
/* See gpu.h. */
#include "lib/gpu.h"
#include "lib/case.h"
#include "lib/clock.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <xf86drm.h>

#define DRIVER "/sys/bus/pci/drivers/mrfd_gpu"
#define DEVICES "/sys/bus/pci/devices"
#define NAME (sizeof(((struct dirent *)0)->d_name))

int gpu_try_open(struct memory *m, enum memory_kind kind, size_t size, uint32_t flags)
{
	struct mrfd_gpu_create create = {
		.size = size, .flags = flags,
		.place = kind == GPU_VRAM ? MRFD_GPU_VRAM : MRFD_GPU_SYSTEM,
	};

	*m = (struct memory){
		.kind = kind, .size = size, .fd = -1, .iova = IOVA,
		.fd_type = IBV_MR_FD_TYPE_DMABUF, .drm_fd = memory_open_card("mrfd_gpu"),
	};
	if (m->drm_fd < 0)
		fail_case("the guest has no GPU of the tests");
	if (drmIoctl(m->drm_fd, DRM_IOCTL_MRFD_GPU_CREATE, &create))
		return errno;
	m->handle = create.handle;
	m->cpu = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, m->drm_fd, create.offset);
	if (m->cpu == MAP_FAILED) {
		m->cpu = NULL;
		fail_case("map a buffer of the GPU");
	}
	if (drmPrimeHandleToFD(m->drm_fd, m->handle, DRM_CLOEXEC | DRM_RDWR, &m->fd))
		fail_case("export a buffer of the GPU");
	return 0;
}

void gpu_open(struct memory *m, enum memory_kind kind, size_t size, uint32_t flags)
{
	errno = gpu_try_open(m, kind, size, flags);
	if (errno)
		fail_case("allocate %zu bytes of the GPU", size);
}

int gpu_move(const struct memory *m, uint32_t place, uint32_t delay_ms)
{
	struct mrfd_gpu_move move = {
		.handle = m->handle, .place = place, .delay_ms = delay_ms,
	};

	return drmIoctl(m->drm_fd, DRM_IOCTL_MRFD_GPU_MOVE, &move) ? errno : 0;
}

void gpu_delay(const struct memory *m, unsigned int ms)
{
	struct stat card;
	char path[64];
	FILE *f;

	if (fstat(m->drm_fd, &card))
		fail_case("stat a card");
	snprintf(path, sizeof(path), "/sys/kernel/debug/dri/%u/delay_ms", minor(card.st_rdev));
	f = must(fopen(path, "w"));
	fprintf(f, "%u", ms);
	if (fclose(f))
		fail_case("%s", path);
}

struct mrfd_gpu_query gpu_query(const struct memory *m)
{
	struct mrfd_gpu_query query = { .handle = m->handle };

	if (drmIoctl(m->drm_fd, DRM_IOCTL_MRFD_GPU_QUERY, &query))
		fail_case("query a buffer of the GPU");
	return query;
}

struct mrfd_gpu_info gpu_info(const struct memory *m)
{
	struct mrfd_gpu_info info = {};

	if (drmIoctl(m->drm_fd, DRM_IOCTL_MRFD_GPU_INFO, &info))
		fail_case("query the GPU");
	return info;
}

bool gpu_at_rest(const struct memory *m)
{
	struct mrfd_gpu_query q = gpu_query(m);

	if (!q.attachments && !q.peers && !q.pins && !q.maps && !q.vmaps && !q.brackets)
		return true;
	printf("# held: %u attachments, %u peers, %u pins, %u maps, %u vmaps, %u brackets\n",
	       q.attachments, q.peers, q.pins, q.maps, q.vmaps, q.brackets);
	return false;
}

/* The name of the PCI function, that of ivshmem in QEMU; false if it has left the bus. */
static bool find_gpu(char name[NAME])
{
	DIR *dir = must(opendir(DEVICES));
	struct dirent *entry;
	char path[NAME + 64], id[8];

	*name = '\0';
	while (!*name && (entry = readdir(dir))) {
		FILE *f;

		snprintf(path, sizeof(path), DEVICES "/%s/device", entry->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fgets(id, sizeof(id), f) && !strncmp(id, "0x1110", 6))
			strcpy(name, entry->d_name);
		fclose(f);
	}
	closedir(dir);
	return *name;
}

static void gpu_name(char name[NAME])
{
	if (!find_gpu(name))
		fail_case("the guest has no GPU of the tests");
}

/* 0, or the errno with which the kernel refuses. */
static int tell_kernel(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret = 0;

	if (fd < 0)
		fail_case("%s", path);
	if (write(fd, text, strlen(text)) < 0)
		ret = errno;
	close(fd);
	return ret;
}

static int gpu_tell_driver(const char *what)
{
	char name[NAME], path[64];

	gpu_name(name);
	snprintf(path, sizeof(path), DRIVER "/%s", what);
	return tell_kernel(path, name);
}

int gpu_unbind(void)
{
	return gpu_tell_driver("unbind");
}

int gpu_bind(void)
{
	return gpu_tell_driver("bind");
}

bool gpu_is_bound(void)
{
	char name[NAME], path[NAME + 64];

	gpu_name(name);
	snprintf(path, sizeof(path), DRIVER "/%s", name);
	return !access(path, F_OK);
}

int gpu_leave_bus(void)
{
	char name[NAME], path[NAME + 64];

	gpu_name(name);
	snprintf(path, sizeof(path), DEVICES "/%s/remove", name);
	return tell_kernel(path, "1");
}

/*
 * The driver does not take the GPU as long as something is held of the one that was there.
 * What a closed file and a deleted buffer hold is released a little later.
 */
int gpu_come_back(void)
{
	double end = deadline(10);
	char name[NAME];
	int err = 0;

	if (!find_gpu(name))
		err = tell_kernel("/sys/bus/pci/rescan", "1");
	while (!err && !gpu_is_bound() && now() < end) {
		err = gpu_bind();
		if (err == EBUSY) {
			usleep(100000);
			err = 0;
		}
	}
	return err ? err : gpu_is_bound() ? 0 : EBUSY;
}
