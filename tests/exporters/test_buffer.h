/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fixture buffer: a buffer of the test exporter (see lib/test_exporter.h), ordinary
 * memory at the other end, and a buffer of vgem, for an MR that is as it should be.
 *
 * When a case ends, importers must hold nothing of the buffer; when the buffer is
 * closed, nothing at all may be left.
 */
#ifndef TEST_BUFFER_H
#define TEST_BUFFER_H

#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/harness.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/test_exporter.h"
#include <signal.h>
#include <sys/time.h>

#define SIZE (64 * PAGE)
#define PAGES (SIZE / PAGE)
/*
 * A delay is a number of ticks.  On a busy machine the kernel counts ticks late, so a delay
 * may be shorter by the clock.
 */
#define AT_LEAST(ms) ((ms) * 3 / 4)

FIXTURE(buffer)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory buf;
	struct memory host;
	struct ibv_mr *host_mr;
	struct memory vgem;
};

static inline void buffer_open(FIXTURE_DATA(buffer) *self, uint32_t flags)
{
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	memory_open(&self->vgem, VGEM, SIZE);
	test_exporter_open(&self->buf, SIZE, flags);
	memory_open(&self->host, HOST, SIZE);
	self->host_mr = memory_reg(&self->host, self->pair.pd, ALL_ACCESS);
}

static inline bool buffer_close(FIXTURE_DATA(buffer) *self)
{
	bool rest = !self->buf.size || at_rest(self->buf.fd);

	memory_close(&self->buf);
	memory_close(&self->vgem);
	mr_close(self->host_mr);
	pair_close(&self->pair);
	device_close(self->ctx);
	memory_close(&self->host);
	return nothing_left() && rest;
}

static inline void nothing(int signal)
{
}

/*
 * SIGALRM comes every 0.2 s from now on, so that one comes while a call waits, whenever it
 * begins to; with SA_RESTART it comes once.
 */
static inline void signals_begin(int flags)
{
	struct sigaction act = { .sa_handler = nothing, .sa_flags = flags };
	struct itimerval in = { .it_value.tv_usec = 200000 };

	if (!(flags & SA_RESTART))
		in.it_interval = in.it_value;
	if (sigaction(SIGALRM, &act, NULL) || setitimer(ITIMER_REAL, &in, NULL))
		fail_case("set a timer");
}

static inline void signals_end(void)
{
	if (setitimer(ITIMER_REAL, &(struct itimerval){}, NULL))
		fail_case("stop a timer");
}

/* Replace the buffer by another one. */
static inline void buffer_replace(FIXTURE_DATA(buffer) *self, uint32_t flags)
{
	memory_close(&self->buf);
	test_exporter_open(&self->buf, SIZE, flags);
}

/* NULL and errno if the registration fails. */
static inline struct ibv_mr *reg(FIXTURE_DATA(buffer) *self, int access)
{
	need("reg_mr_fd");
	return ibv_reg_mr_fd_iova(self->pair.pd, 0, SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF,
				  self->buf.fd, access);
}

/* The same by upstream's verb. */
static inline struct ibv_mr *reg_dmabuf(FIXTURE_DATA(buffer) *self, int access)
{
	return ibv_reg_dmabuf_mr(self->pair.pd, 0, SIZE, IOVA, self->buf.fd, access);
}

/* The errno of a registration; one that succeeds is undone. */
static inline int reg_errno(FIXTURE_DATA(buffer) *self, int access)
{
	struct ibv_mr *mr = reg(self, access);

	if (!mr)
		return errno;
	mr_close(mr);
	return 0;
}

static inline bool rdma_write(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr, uint32_t seed)
{
	fill(self->host.cpu, SIZE, seed);
	return !rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova, SIZE,
			IOVA, mr->rkey);
}

static inline bool rdma_reads(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr, uint32_t seed)
{
	memset(self->host.cpu, 0, SIZE);
	return !rdma_op(&self->pair, IBV_WR_RDMA_READ, self->host_mr, self->host.iova, SIZE,
			IOVA, mr->rkey) && filled(self->host.cpu, SIZE, seed, "read by RDMA");
}

/* Whether the buffer can be registered, written and read like any other. */
static inline bool behaves(FIXTURE_DATA(buffer) *self)
{
	struct ibv_mr *mr = reg(self, ALL_ACCESS);
	bool ok = mr && held(self->buf.fd, 1, 0) && rdma_write(self, mr, 4711) &&
		  filled(self->buf.cpu, SIZE, 4711, "written by RDMA") &&
		  rdma_reads(self, mr, 4711);

	return mr && !ibv_dereg_mr(mr) && at_rest(self->buf.fd) && ok;
}

/* Import for DMA until *DMA is closed: 0 or an errno. */
static inline int import(FIXTURE_DATA(buffer) *self, int *dma)
{
	*dma = import_for_dma(self->buf.fd, 0);
	return *dma < 0 ? errno : 0;
}

#endif
