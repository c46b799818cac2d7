// SPDX-License-Identifier: GPL-2.0-or-later
/* See pieces.h. */
#include "lib/pieces.h"
#include "lib/case.h"
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static int hugetlb_memfd(size_t size)
{
	int fd = memfd_of(size, MFD_ALLOW_SEALING | MFD_HUGETLB);

	if (fallocate(fd, 0, 0, size) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		fail_case("fill a memfd with huge pages");
	return fd;
}

static struct udmabuf_create_list *list_of(int memfd, size_t size, size_t piece)
{
	size_t n = piece < HUGE_PAGE ? size / piece : 1;
	struct udmabuf_create_list *list = must(malloc(sizeof(*list) + n * sizeof(*list->list)));

	*list = (struct udmabuf_create_list){ .flags = UDMABUF_FLAGS_CLOEXEC, .count = n };
	for (size_t i = 0; i < n; i++)
		list->list[i] = (struct udmabuf_create_item){
			.memfd = memfd, .offset = (n - 1 - i) * (size / n), .size = size / n,
		};
	return list;
}

void pieces_open(struct memory *m, size_t size, size_t piece)
{
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), memfd = hugetlb_memfd(size);
	struct udmabuf_create_list *list = list_of(memfd, size, piece);

	*m = (struct memory){
		.kind = UDMABUF, .size = size, .drm_fd = -1, .iova = IOVA,
		.fd_type = IBV_MR_FD_TYPE_DMABUF,
	};
	m->fd = ioctl(dev, UDMABUF_CREATE_LIST, list);
	if (m->fd < 0)
		fail_case("UDMABUF_CREATE_LIST of %u pieces", list->count);
	free(list);
	close(memfd);
	close(dev);
	m->cpu = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	if (m->cpu == MAP_FAILED) {
		m->cpu = NULL;
		fail_case("map %zu bytes of a udmabuf", size);
	}
}
