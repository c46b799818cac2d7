/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What cases with the GPU of the tests share: a buffer of it, ordinary memory at the other
 * end, and other buffers that compete for VRAM.
 *
 * When a case ends, importers must hold nothing of the buffer; when all is closed, the GPU
 * must have no buffer left.
 */
#ifndef GPU_BUFFER_H
#define GPU_BUFFER_H

#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/gpu.h"
#include "lib/harness.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/test_exporter.h"
#include <stdio.h>
#include <string.h>

#define SIZE (64 * PAGE)
#define OTHERS 5
/* A delay is a number of ticks, which a busy kernel counts late. */
#define AT_LEAST(seconds) ((seconds) * 3 / 4)

struct gpu_case {
	struct ibv_context *ctx;
	struct pair pair;
	struct memory buf, host, other[OTHERS];
	struct ibv_mr *host_mr;
};

/* Whether an MR holds the buffer in place; if not, it follows the buffer when that moves. */
static inline bool pins(void)
{
	return !device_can("follows-moves");
}

/* Whether the device reaches a buffer by DMA, with peer-to-peer; if not, by the CPU. */
static inline bool by_dma(void)
{
	return !device_can("vmap");
}

static inline void need_pins(void)
{
	if (!pins())
		skip_case("an MR of this device pins no buffer");
}

static inline void case_open(struct gpu_case *c, enum memory_kind kind, uint32_t flags)
{
	need("reg_mr_fd");
	c->ctx = device_open();
	pair_open(&c->pair, c->ctx, NULL);
	memory_open(&c->host, HOST, SIZE);
	c->host_mr = memory_reg(&c->host, c->pair.pd, ALL_ACCESS);
	gpu_open(&c->buf, kind, SIZE, flags);
}

/* Close all of it; a case may open it again. */
static inline void case_shut(struct gpu_case *c)
{
	for (int i = 0; i < OTHERS; i++)
		memory_close(&c->other[i]);
	memory_close(&c->buf);
	mr_close(c->host_mr);
	pair_close(&c->pair);
	device_close(c->ctx);
	memory_close(&c->host);
	memset(c, 0, sizeof(*c));
}

static inline bool case_close(struct gpu_case *c)
{
	bool rest = !c->buf.size || !gpu_is_bound() || gpu_at_rest(&c->buf);

	case_shut(c);
	return nothing_left() && rest;
}

static inline void case_replace(struct gpu_case *c, enum memory_kind kind, uint32_t flags)
{
	memory_close(&c->buf);
	gpu_open(&c->buf, kind, SIZE, flags);
}

/* NULL and errno if the registration fails. */
static inline struct ibv_mr *case_reg(struct gpu_case *c)
{
	return ibv_reg_mr_fd_iova(c->pair.pd, 0, SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF, c->buf.fd,
				  RWA);
}

static inline bool rdma_write(struct gpu_case *c, struct ibv_mr *mr, uint32_t seed)
{
	fill(c->host.cpu, SIZE, seed);
	return !rdma_op(&c->pair, IBV_WR_RDMA_WRITE, c->host_mr, c->host.iova, SIZE, IOVA,
			mr->rkey);
}

static inline bool rdma_reads(struct gpu_case *c, struct ibv_mr *mr, uint32_t seed)
{
	memset(c->host.cpu, 0, SIZE);
	return !rdma_op(&c->pair, IBV_WR_RDMA_READ, c->host_mr, c->host.iova, SIZE, IOVA,
			mr->rkey) && filled(c->host.cpu, SIZE, seed, "read by RDMA");
}

/* Fill VRAM with other buffers, each a third of it: the oldest buffers are evicted. */
static inline void take_vram(struct gpu_case *c)
{
	size_t third = gpu_info(&c->buf).vram_size / 3 / PAGE * PAGE;

	for (int i = 0; i < OTHERS; i++) {
		gpu_open(&c->other[i], GPU_VRAM, third, 0);
		fill(c->other[i].cpu, third, 100 + i);
	}
}

static inline bool others_untouched(struct gpu_case *c)
{
	for (int i = 0; i < OTHERS; i++)
		if (!filled(c->other[i].cpu, c->other[i].size, 100 + i, "another buffer"))
			return false;
	return true;
}

#endif
