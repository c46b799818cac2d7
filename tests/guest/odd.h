/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Buffers of /dev/dmabuf_test, the exporter that misbehaves as it is told
 * (drivers/dma-buf/test-exporter.h), and a fixture around one of them.
 *
 * When a case ends its importers must hold nothing of the buffer, and when the
 * buffer is closed nothing at all may be left.
 */
#ifndef ODD_H
#define ODD_H

#include "exporters.h"
#include "test-exporter.h"
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <xf86drm.h>

#define PAGES (SIZE / PAGE)
#define READ_ONLY IBV_ACCESS_REMOTE_READ

enum usage { KERNEL, WRITE, READ, BOOKKEEP };	/* enum dma_resv_usage */

static inline int odd_ioctl(unsigned long cmd, void *arg)
{
	static int dev = -1;

	if (dev < 0)
		dev = open("/dev/dmabuf_test", O_RDWR | O_CLOEXEC);
	if (dev < 0)
		die("/dev/dmabuf_test");
	return ioctl(dev, cmd, arg);
}

static inline int odd_create(uint32_t flags)
{
	struct dmabuf_test_create create = { .size = SIZE, .flags = flags };
	int fd = odd_ioctl(DMABUF_TEST_CREATE, &create);

	if (fd < 0)
		die("DMABUF_TEST_CREATE");
	return fd;
}

static inline void behave(int fd, enum dmabuf_test_op op, int error, int delay_ms)
{
	struct dmabuf_test_behave b = { fd, op, error, delay_ms };

	if (odd_ioctl(DMABUF_TEST_BEHAVE, &b))
		die("DMABUF_TEST_BEHAVE");
}

static inline void add_fence(int fd, enum usage usage, int delay_ms)
{
	struct dmabuf_test_fence f = { fd, usage, delay_ms };

	if (odd_ioctl(DMABUF_TEST_FENCE, &f))
		die("DMABUF_TEST_FENCE");
}

static inline void signal_fences(int fd)
{
	if (odd_ioctl(DMABUF_TEST_SIGNAL, &fd))
		die("DMABUF_TEST_SIGNAL");
}

/* 0 or an errno. */
static inline int move(int fd, int delay_ms)
{
	struct dmabuf_test_move m = { fd, delay_ms };

	return odd_ioctl(DMABUF_TEST_MOVE, &m) ? errno : 0;
}

static inline void take_memory(int fd)
{
	if (odd_ioctl(DMABUF_TEST_REVOKE, &fd))
		die("DMABUF_TEST_REVOKE");
}

static inline struct dmabuf_test_query query(int fd)
{
	struct dmabuf_test_query q = { .fd = fd };

	if (odd_ioctl(DMABUF_TEST_QUERY, &q))
		die("DMABUF_TEST_QUERY");
	return q;
}

/* What importers hold is this; moves, pages and entries are not looked at. */
static inline bool held(int fd, int vmaps, int brackets, int attached)
{
	struct dmabuf_test_query q = query(fd);

	if (q.vmaps == vmaps && q.brackets == brackets && q.attachments == attached &&
	    q.pins == attached && q.maps == attached)
		return true;
	printf("# held: %u vmaps, %u brackets, %u attachments, %u pins, %u maps\n",
	       q.vmaps, q.brackets, q.attachments, q.pins, q.maps);
	return false;
}

static inline bool at_rest(int fd)
{
	return held(fd, 0, 0, 0);
}

static inline uint8_t *odd_map(int fd)
{
	uint8_t *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		die("mmap the buffer");
	return p;
}

static inline long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A delay is a number of ticks, of which the first may be almost over. */
#define AT_LEAST(ms) ((ms) - 20)

FIXTURE(odd)
{
	struct ibv_context *ctx;
	struct pair pair;
	int fd;			/* the buffer, SIZE bytes */
	uint8_t *cpu;		/* its bytes */
	struct ibv_mr *host;	/* SIZE bytes of ordinary memory */
	uint8_t *mem;		/* these bytes */
	struct buffer vgem;	/* its card is an importer that does DMA */
};

static inline void odd_open(FIXTURE_DATA(odd) *self, uint32_t flags)
{
	self->ctx = open_device("rxe0");
	pair_open(&self->pair, self->ctx, NULL);
	buffer_open(&self->vgem, VGEM, SIZE);
	self->fd = odd_create(flags);
	self->cpu = odd_map(self->fd);
	self->mem = must(aligned_alloc(PAGE, SIZE));
	self->host = must(ibv_reg_mr(self->pair.pd, self->mem, SIZE, ALL_ACCESS));
}

static inline bool odd_close(FIXTURE_DATA(odd) *self)
{
	bool rest = at_rest(self->fd);

	munmap(self->cpu, SIZE);
	close(self->fd);
	buffer_close(&self->vgem);
	if (ibv_dereg_mr(self->host))
		die("dereg");
	pair_close(&self->pair);
	ibv_close_device(self->ctx);
	free(self->mem);
	return nothing_left() && rest;
}

static inline struct ibv_mr *reg(FIXTURE_DATA(odd) *self, int access)
{
	return ibv_reg_mr_fd_iova(self->pair.pd, 0, SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF, self->fd,
				  access);
}

/* The errno of a registration, or 0, and then it is undone. */
static inline int reg_errno(FIXTURE_DATA(odd) *self, int access)
{
	struct ibv_mr *mr = reg(self, access);

	if (!mr)
		return errno;
	if (ibv_dereg_mr(mr))
		die("dereg");
	return 0;
}

static inline bool rdma_write(FIXTURE_DATA(odd) *self, struct ibv_mr *mr, uint32_t seed)
{
	fill(self->mem, SIZE, seed);
	return !rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host, (uintptr_t)self->mem, SIZE,
			IOVA, mr->rkey);
}

static inline bool rdma_reads(FIXTURE_DATA(odd) *self, struct ibv_mr *mr, uint32_t seed)
{
	memset(self->mem, 0, SIZE);
	return !rdma_op(&self->pair, IBV_WR_RDMA_READ, self->host, (uintptr_t)self->mem, SIZE,
			IOVA, mr->rkey) && filled(self->mem, SIZE, seed, "read by RDMA");
}

/* Registered, written and read, as if nothing had been. */
static inline bool behaves(FIXTURE_DATA(odd) *self)
{
	struct ibv_mr *mr = reg(self, ALL_ACCESS);
	bool ok = mr && held(self->fd, 1, 1, 0) && rdma_write(self, mr, 4711) &&
		  filled(self->cpu, SIZE, 4711, "written by RDMA") && rdma_reads(self, mr, 4711);

	return mr && !ibv_dereg_mr(mr) && at_rest(self->fd) && ok;
}

/*
 * Import for DMA: vgem attaches its device to a foreign buffer and maps it for
 * as long as it has the handle.  0 or an errno.
 */
static inline int import(FIXTURE_DATA(odd) *self, uint32_t *handle)
{
	return drmPrimeFDToHandle(self->vgem.drm_fd, self->fd, handle) ? errno : 0;
}

static inline void unimport(FIXTURE_DATA(odd) *self, uint32_t handle)
{
	if (drmCloseBufferHandle(self->vgem.drm_fd, handle))
		die("close handle");
}

#endif
