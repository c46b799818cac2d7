// SPDX-License-Identifier: GPL-2.0-or-later
/* See test_exporter.h. */
#include "lib/test_exporter.h"
#include "lib/case.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

int test_exporter_ioctl(unsigned long cmd, void *arg)
{
	static int dev = -1;

	if (dev < 0)
		dev = open("/dev/dmabuf_test", O_RDWR | O_CLOEXEC);
	if (dev < 0)
		fail_case("/dev/dmabuf_test");
	return ioctl(dev, cmd, arg);
}

int test_exporter_create(size_t size, uint32_t flags)
{
	struct dmabuf_test_create create = { .size = size, .flags = flags };
	int fd = test_exporter_ioctl(DMABUF_TEST_CREATE, &create);

	if (fd < 0)
		fail_case("DMABUF_TEST_CREATE");
	return fd;
}

void test_exporter_open(struct memory *m, size_t size, uint32_t flags)
{
	*m = (struct memory){
		.kind = TEST_EXPORTER, .size = size, .iova = IOVA, .drm_fd = -1,
		.fd_type = IBV_MR_FD_TYPE_DMABUF, .fd = test_exporter_create(size, flags),
	};
	m->cpu = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	if (m->cpu == MAP_FAILED) {
		m->cpu = NULL;
		fail_case("map a buffer of the test exporter");
	}
}

void behave(int fd, enum dmabuf_test_op op, int error, int delay_ms)
{
	struct dmabuf_test_behave b = { fd, op, error, delay_ms };

	if (test_exporter_ioctl(DMABUF_TEST_BEHAVE, &b))
		fail_case("DMABUF_TEST_BEHAVE");
}

void add_fence(int fd, enum usage usage, int delay_ms)
{
	struct dmabuf_test_fence f = { fd, usage, delay_ms };

	if (test_exporter_ioctl(DMABUF_TEST_FENCE, &f))
		fail_case("DMABUF_TEST_FENCE");
}

void signal_fences(int fd)
{
	if (test_exporter_ioctl(DMABUF_TEST_SIGNAL, &fd))
		fail_case("DMABUF_TEST_SIGNAL");
}

int move(int fd, int delay_ms)
{
	struct dmabuf_test_move m = { fd, delay_ms };

	return test_exporter_ioctl(DMABUF_TEST_MOVE, &m) ? errno : 0;
}

void take_memory(int fd)
{
	if (test_exporter_ioctl(DMABUF_TEST_REVOKE, &fd))
		fail_case("DMABUF_TEST_REVOKE");
}

int import_for_dma(int fd, uint32_t flags)
{
	struct dmabuf_test_import import = { .fd = fd, .flags = flags };

	return test_exporter_ioctl(DMABUF_TEST_IMPORT, &import);
}

struct dmabuf_test_query query(int fd)
{
	struct dmabuf_test_query q = { .fd = fd };

	if (test_exporter_ioctl(DMABUF_TEST_QUERY, &q))
		fail_case("DMABUF_TEST_QUERY");
	return q;
}

/* The counts of moves, pages and entries are ignored. */
bool held(int fd, int regions, int imports)
{
	struct dmabuf_test_query q = query(fd);

	if (q.vmaps == !!regions && q.brackets == regions && q.attachments == regions + imports &&
	    q.pins == regions + imports && q.maps == imports)
		return true;
	printf("# held: %u vmaps, %u brackets, %u attachments, %u pins, %u maps\n",
	       q.vmaps, q.brackets, q.attachments, q.pins, q.maps);
	return false;
}

bool at_rest(int fd)
{
	return held(fd, 0, 0);
}
