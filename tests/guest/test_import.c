// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How the kernel takes a dma-buf: by which accessors it reaches I/O memory, and
 * what it does when the exporter fails.
 *
 * The accessors are watched with kprobes on the kernel's memcpy_toio() and
 * memcpy_fromio(): a buffer in VRAM that were touched by plain memcpy() would
 * look the same to every other case under QEMU.  The failing exporter is
 * drivers/dma-buf/test-exporter.c, which warns (and so fails the run) about an
 * importer that has not undone what it did.
 */
#include "exporters.h"
#include "test-exporter.h"
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define TRACING "/sys/kernel/tracing/"

static void put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_APPEND);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die("write \"%s\" to %s", text, file);
	close(fd);
}

/* How often a probe has been hit. */
static long hits(const char *probe)
{
	FILE *f = must(fopen(TRACING "kprobe_profile", "r"));
	char name[64];
	long n, missed;

	while (fscanf(f, "%63s %ld %ld", name, &n, &missed) == 3) {
		if (!strcmp(name, probe)) {
			fclose(f);
			return n;
		}
	}
	die("no probe %s", probe);
}

static void probes_on(void)
{
	if (access(TRACING "kprobe_events", W_OK))
		die("tracefs");
	put(TRACING "kprobe_events", "p:mrfd/toio memcpy_toio\np:mrfd/fromio memcpy_fromio\n");
	put(TRACING "events/mrfd/enable", "1");
}

static void probes_off(void)
{
	put(TRACING "events/mrfd/enable", "0");
	put(TRACING "kprobe_events", "-:mrfd/toio\n-:mrfd/fromio\n");
}

/* Writes, reads, and says how often an I/O accessor was used for each. */
static void count_io(FIXTURE_DATA(fd_mr) *self, long *to, long *from)
{
	const uint32_t n = 10000;

	probes_on();
	*to = hits("toio");
	*from = hits("fromio");
	fill(self->mem, n, 1);
	if (rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host, (uintptr_t)self->mem, n,
		    IOVA + 3, self->mr->rkey))
		die("RDMA write");
	*to = hits("toio") - *to;
	if (rdma_op(&self->pair, IBV_WR_RDMA_READ, self->host, (uintptr_t)self->mem, n,
		    IOVA + 3, self->mr->rkey))
		die("RDMA read");
	*from = hits("fromio") - *from;
	probes_off();
	if (!filled(self->mem, n, 1, "read back"))
		die("data");
}

TEST_F(fd_mr, the_cpu_takes_the_path_that_fits_the_memory)
{
	/* One access for each packet; the path MTU is 1024. */
	const long packets = (10000 + 1023) / 1024;
	long to, from;

	count_io(self, &to, &from);
	if (variant->exporter == BOCHS) {
		ASSERT_EQ(packets, to);
		ASSERT_EQ(packets, from);
	} else {
		ASSERT_EQ(0, to);
		ASSERT_EQ(0, from);
	}
}

FIXTURE(odd_exporter)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;
};

FIXTURE_SETUP(odd_exporter)
{
	ASSERT_TRUE(nothing_left());
	self->ctx = open_device("rxe0");
	self->pd = must(ibv_alloc_pd(self->ctx));
}

FIXTURE_TEARDOWN(odd_exporter)
{
	EXPECT_EQ(0, ibv_dealloc_pd(self->pd));
	ibv_close_device(self->ctx);
	EXPECT_TRUE(nothing_left());
}

static int odd_buffer(uint32_t flags, uint32_t error)
{
	struct dmabuf_test_create create = { .size = SIZE, .flags = flags, .error = error };
	int dev = open("/dev/dmabuf_test", O_RDWR | O_CLOEXEC);
	int fd = dev < 0 ? -1 : ioctl(dev, DMABUF_TEST_CREATE, &create);

	if (fd < 0)
		die("/dev/dmabuf_test");
	close(dev);
	return fd;
}

static int errno_with(FIXTURE_DATA(odd_exporter) *self, uint32_t flags, uint32_t error)
{
	int fd = odd_buffer(flags, error);
	struct ibv_mr *mr = ibv_reg_mr_fd(self->pd, NULL, SIZE, IBV_MR_FD_TYPE_DMABUF, fd,
					  ALL_ACCESS);
	int err = mr ? 0 : errno;

	if (mr && ibv_dereg_mr(mr))
		die("dereg");
	close(fd);
	return err;
}

TEST_F(odd_exporter, that_behaves_is_taken)
{
	ASSERT_EQ(0, errno_with(self, 0, 0));
}

TEST_F(odd_exporter, without_vmap_is_ENXIO)
{
	ASSERT_EQ(ENXIO, errno_with(self, DMABUF_TEST_NO_VMAP, 0));
}

TEST_F(odd_exporter, whose_vmap_fails_gives_its_errno)
{
	ASSERT_EQ(ENOMEM, errno_with(self, DMABUF_TEST_FAIL_VMAP, ENOMEM));
	ASSERT_EQ(ENOSPC, errno_with(self, DMABUF_TEST_FAIL_VMAP, ENOSPC));
}

TEST_F(odd_exporter, whose_begin_cpu_access_fails_gives_its_errno)
{
	ASSERT_EQ(EIO, errno_with(self, DMABUF_TEST_FAIL_BEGIN_CPU_ACCESS, EIO));
}

TEST_HARNESS_MAIN
