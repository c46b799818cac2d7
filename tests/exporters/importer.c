// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: importer; devices: rxe */
/* runs: quick debug-full; guest: importer; devices: connectx */
/*
 * A driver that imports as those in the tree do, not by what our patches add, can rely on
 * dma-buf: an exporter fails without a warning, a signal leaves no access open, VRAM stays where
 * it is vmapped, a pin may move the buffer, and a mapping shows the bytes of its place.
 *
 * The importer is the module tests/importer, which needs none of our patches.  On the kernel
 * without them the test exporter is a module too, so STOCK=1 shows there what the patches of
 * patches/linux/04-dma-buf and 06-umem mend; the cases that are no such fault pass there.
 */
#include "lib/case.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/gone.h"
#include "lib/harness.h"
#include "lib/importer.h"
#include "lib/pattern.h"
#include "lib/test_exporter.h"
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>

#define SIZE (64 * PAGE)
#define VRAM_SIZE (1024 * PAGE)		/* a quarter of the VRAM */
#define OTHERS 5
#define FOREVER DMABUF_TEST_MAX_DELAY
#define TAINT_WARN (1ul << 9)

FIXTURE(importer)
{
	int fd;				/* of /dev/mrfd_importer */
	struct memory buf;		/* of the test exporter */
	struct memory vram, other[OTHERS];
	uint8_t *seen;			/* what the importer reads */
	struct gone gone;
	bool left;			/* the device has left */
};

static void buffer_open(FIXTURE_DATA(importer) *self, uint32_t flags)
{
	memory_close(&self->buf);
	test_exporter_open(&self->buf, SIZE, flags);
	fill(self->buf.cpu, SIZE, 1);
}

FIXTURE_SETUP(importer)
{
	self->fd = importer_open();
	self->seen = must(malloc(VRAM_SIZE));
	buffer_open(self, 0);
}

FIXTURE_TEARDOWN(importer)
{
	if (self->fd > 0)
		close(self->fd);
	if (self->left)
		EXPECT_TRUE(device_comes_back(&self->gone));
	EXPECT_TRUE(!self->buf.size || at_rest(self->buf.fd));
	memory_close(&self->buf);
	for (int i = 0; i < OTHERS; i++)
		memory_close(&self->other[i]);
	memory_close(&self->vram);
	free(self->seen);
	EXPECT_TRUE(nothing_left());
}

/* Whether the importer reads the pattern of SEED. */
static bool sees(FIXTURE_DATA(importer) *self, size_t size, uint32_t seed)
{
	memset(self->seen, 0, size);
	importer_read(self->fd, self->seen, size);
	return filled(self->seen, size, seed, "read by the importer");
}

static bool kernel_has_warned(void)
{
	FILE *f = must(fopen("/proc/sys/kernel/tainted", "r"));
	unsigned long taints;

	if (fscanf(f, "%lu", &taints) != 1)
		fail_case("read the taints of the kernel");
	fclose(f);
	return taints & TAINT_WARN;
}

/* It is the first case, because a warning of another one would hide one of this. */
TEST_F(importer, failed_vmap_does_not_warn)
{
	bool before = kernel_has_warned(); /* about something else, by another program */

	behave(self->buf.fd, DMABUF_TEST_VMAP, ENOMEM, 0);
	ASSERT_EQ(ENOMEM, importer_does(self->fd, "vmap %d", self->buf.fd));
	ASSERT_TRUE(at_rest(self->buf.fd));
	ASSERT_EQ(before, kernel_has_warned());
}

TEST_F(importer, vmapped_buffer_shows_its_bytes)
{
	struct dmabuf_test_query q;

	ASSERT_EQ(0, importer_does(self->fd, "vmap %d", self->buf.fd));
	q = query(self->buf.fd);
	ASSERT_EQ(1, q.vmaps);
	ASSERT_EQ(1, q.brackets);
	ASSERT_TRUE(sees(self, SIZE, 1));
	fill(self->buf.cpu, SIZE, 2);
	ASSERT_TRUE(sees(self, SIZE, 2));
	ASSERT_EQ(0, pread(self->fd, self->seen, 1, SIZE));
	ASSERT_EQ(0, importer_does(self->fd, "end"));
	ASSERT_TRUE(at_rest(self->buf.fd));
}

static void nothing(int signal)
{
}

/* SIGALRM comes every 0.2 s, so that one comes while a call waits, whenever it begins to. */
static void signals_come(bool come)
{
	struct sigaction act = { .sa_handler = nothing };
	struct itimerval in = {};

	if (come)
		in.it_value.tv_usec = 200000;
	in.it_interval = in.it_value;
	if (sigaction(SIGALRM, &act, NULL) || setitimer(ITIMER_REAL, &in, NULL))
		fail_case("set a timer");
}

static int sync_errno(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };

	return ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync) ? errno : 0;
}

/* Whether no access is open; one that is would be a warning at the end, so it is ended. */
static bool none_is_open(int fd)
{
	unsigned int open = query(fd).brackets;

	for (unsigned int i = 0; i < open; i++)
		sync_errno(fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW);
	if (open)
		printf("# open accesses, of which the caller knows nothing: %u\n", open);
	return !open;
}

TEST_F(importer, interrupted_sync_leaves_no_access_open)
{
	add_fence(self->buf.fd, WRITE, FOREVER);
	signals_come(true);
	ASSERT_EQ(EINTR, sync_errno(self->buf.fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW));
	signals_come(false);
	ASSERT_TRUE(none_is_open(self->buf.fd));
	signal_fences(self->buf.fd);
	ASSERT_EQ(0, sync_errno(self->buf.fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW));
	ASSERT_EQ(1, query(self->buf.fd).brackets);
	ASSERT_EQ(0, sync_errno(self->buf.fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW));
}

TEST_F(importer, interrupted_import_leaves_no_access_open)
{
	add_fence(self->buf.fd, WRITE, FOREVER);
	signals_come(true);
	ASSERT_EQ(EINTR, importer_does(self->fd, "vmap %d", self->buf.fd));
	signals_come(false);
	ASSERT_TRUE(none_is_open(self->buf.fd));
	signal_fences(self->buf.fd);
	ASSERT_EQ(0, importer_does(self->fd, "vmap %d", self->buf.fd));
	ASSERT_TRUE(sees(self, SIZE, 1));
}

/* Buffers that are made later fill the VRAM, so the driver has to make room. */
TEST_F(importer, vmapped_vram_is_not_evicted)
{
	memory_open_filled(&self->vram, QXL, VRAM_SIZE, 3);
	ASSERT_EQ(0, importer_does(self->fd, "vmap %d", self->vram.fd));
	ASSERT_TRUE(sees(self, VRAM_SIZE, 3));
	for (int i = 0; i < OTHERS; i++)
		memory_open_filled(&self->other[i], QXL, VRAM_SIZE, 10 + i);
	ASSERT_TRUE(sees(self, VRAM_SIZE, 3));
	fill(self->vram.cpu, VRAM_SIZE, 4);
	ASSERT_TRUE(sees(self, VRAM_SIZE, 4));
}

/* Let the device import the buffer; skip the case if the device is none that does DMA. */
static int device_imports(FIXTURE_DATA(importer) *self)
{
	need("pci");
	return importer_does(self->fd, "umem %d %s", self->buf.fd, device_name());
}

static bool only_imported(int fd)
{
	return held(fd, 0, 1);
}

/* Exporters of ordinary memory. */
static const enum memory_kind mapped[] = { VGEM, UDMABUF, HEAP };

/* N bytes from FROM of a buffer, mapped anew, and not touched yet. */
static uint8_t *mapping(const struct memory *m, size_t from, size_t n)
{
	uint8_t *p = mmap(NULL, n, PROT_READ, MAP_SHARED, m->fd, from);

	if (p == MAP_FAILED)
		fail_case("map a buffer from byte %zu", from);
	return p;
}

TEST_F(importer, mapping_at_an_offset_shows_the_bytes_there)
{
	for (size_t i = 0; i < sizeof(mapped) / sizeof(*mapped); i++) {
		struct memory *m = &self->other[i];
		uint8_t *p;

		memory_open_filled(m, mapped[i], SIZE, 1);
		p = mapping(m, 3 * PAGE, 2 * PAGE);
		if (memcmp(p, m->cpu + 3 * PAGE, 2 * PAGE))
			TH_LOG("kind %d", mapped[i]);
		ASSERT_EQ(0, memcmp(p, m->cpu + 3 * PAGE, 2 * PAGE));
		munmap(p, 2 * PAGE);
	}
}

TEST_F(importer, mapping_that_is_unmapped_in_part_shows_the_same_bytes)
{
	for (size_t i = 0; i < sizeof(mapped) / sizeof(*mapped); i++) {
		struct memory *m = &self->other[i];
		uint8_t *p;

		memory_open_filled(m, mapped[i], SIZE, 1);
		p = mapping(m, 0, SIZE);
		munmap(p, 5 * PAGE);
		if (memcmp(p + 5 * PAGE, m->cpu + 5 * PAGE, SIZE - 5 * PAGE))
			TH_LOG("kind %d", mapped[i]);
		ASSERT_EQ(0, memcmp(p + 5 * PAGE, m->cpu + 5 * PAGE, SIZE - 5 * PAGE));
		munmap(p + 5 * PAGE, SIZE - 5 * PAGE);
	}
}

TEST_F(importer, device_imports_and_gives_back)
{
	ASSERT_EQ(0, device_imports(self));
	ASSERT_TRUE(only_imported(self->buf.fd));
	ASSERT_EQ(0, importer_does(self->fd, "end"));
	ASSERT_TRUE(at_rest(self->buf.fd));
	ASSERT_EQ(0, device_imports(self));
	take_memory(self->buf.fd);
	/* The attachment lasts until the end. */
	ASSERT_EQ(0, query(self->buf.fd).pins);
	ASSERT_EQ(0, query(self->buf.fd).maps);
}

TEST_F(importer, device_imports_a_buffer_that_its_pin_moves)
{
	need("pci");
	buffer_open(self, DMABUF_TEST_PIN_MOVES);
	ASSERT_EQ(0, device_imports(self));
	ASSERT_EQ(1, query(self->buf.fd).moves);
	ASSERT_TRUE(only_imported(self->buf.fd));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 1, "buffer"));
	ASSERT_EQ(EBUSY, move(self->buf.fd, 0));
	ASSERT_EQ(0, importer_does(self->fd, "end"));
	ASSERT_TRUE(at_rest(self->buf.fd));
	ASSERT_EQ(0, move(self->buf.fd, 0));
}

TEST_F(importer, failed_import_of_a_moving_buffer_leaves_no_pin)
{
	need("pci");
	buffer_open(self, DMABUF_TEST_PIN_MOVES);
	behave(self->buf.fd, DMABUF_TEST_MAP, EIO, 0);
	ASSERT_NE(0, device_imports(self));
	ASSERT_TRUE(at_rest(self->buf.fd));
}

TEST_F(importer, import_ends_when_its_device_leaves)
{
	ASSERT_EQ(0, device_imports(self));
	device_is_to_leave(&self->gone);
	self->left = true;
	ASSERT_TRUE(device_leaves(&self->gone, UNBOUND));
	ASSERT_TRUE(at_rest(self->buf.fd));
	ASSERT_EQ(ENODEV, device_imports(self));
}

TEST_F(importer, invalid_commands_are_refused)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	static const char *const invalid[] = {
		"", "ends", "vmap", "vmap x", "umem 1", "umem x mlx5_0", "hold 1",
	};

	for (int i = 0; i < sizeof(invalid) / sizeof(*invalid); i++)
		ASSERT_EQ(EINVAL, importer_does(self->fd, "%s", invalid[i]));
	memset(self->seen, 'x', SIZE);
	ASSERT_EQ(-1, write(self->fd, self->seen, SIZE));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(EBADF, importer_does(self->fd, "vmap -1"));
	ASSERT_EQ(EINVAL, importer_does(self->fd, "vmap %d", null));
	ASSERT_EQ(ENODEV, importer_does(self->fd, "umem %d none", self->buf.fd));
	ASSERT_EQ(device_can("pci") ? EINVAL : EOPNOTSUPP,
		  importer_does(self->fd, "umem %d %s", null, device_name()));
	ASSERT_EQ(-1, read(self->fd, self->seen, 1));
	ASSERT_EQ(0, importer_does(self->fd, "vmap %d", self->buf.fd));
	ASSERT_EQ(EBUSY, importer_does(self->fd, "vmap %d", self->buf.fd));
	ASSERT_EQ(0, importer_does(self->fd, "end"));
	ASSERT_EQ(0, importer_does(self->fd, "end"));
	close(null);
}

TEST_HARNESS_MAIN
