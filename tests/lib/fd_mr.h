/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fixture fd_mr, with a variant for each exporter: an MR of one of its buffers, with
 * every right, and an MR of ordinary memory at the other end.
 */
#ifndef LIB_FD_MR_H
#define LIB_FD_MR_H

#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"

#define SIZE (64 * PAGE)

FIXTURE(fd_mr)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory buf;	/* marked */
	struct ibv_mr *mr;	/* of buf, byte 0 at IOVA */
	struct memory host;
	struct ibv_mr *host_mr;
};

FIXTURE_VARIANT(fd_mr)
{
	enum memory_kind kind;
};

FIXTURE_VARIANT_ADD(fd_mr, vgem) { .kind = VGEM };
FIXTURE_VARIANT_ADD(fd_mr, udmabuf) { .kind = UDMABUF };
FIXTURE_VARIANT_ADD(fd_mr, system_heap) { .kind = HEAP };
FIXTURE_VARIANT_ADD(fd_mr, virtio_gpu) { .kind = VIRTIO_GPU };
FIXTURE_VARIANT_ADD(fd_mr, qxl_vram) { .kind = QXL };

FIXTURE_SETUP(fd_mr)
{
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	memory_open_filled(&self->buf, variant->kind, SIZE, 99);
	self->mr = memory_reg(&self->buf, self->pair.pd, memory_rights(&self->buf));
	memory_open(&self->host, HOST, SIZE);
	self->host_mr = memory_reg(&self->host, self->pair.pd, ALL_ACCESS);
}

FIXTURE_TEARDOWN(fd_mr)
{
	mr_close(self->mr);
	mr_close(self->host_mr);
	pair_close(&self->pair);
	device_close(self->ctx);
	memory_close(&self->buf);
	memory_close(&self->host);
}

#endif
