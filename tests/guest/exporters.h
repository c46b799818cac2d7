/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A fixture with one variant for each exporter: a buffer of it, registered
 * whole for everything, and an ordinary buffer at the other end.
 *
 * A guest without the exporter is a mistake of whoever booted it, so that is a
 * failure and no skip.
 */
#ifndef EXPORTERS_H
#define EXPORTERS_H

#include "rdma.h"
#include "kselftest_harness.h"

#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |	\
		    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |	\
		    IBV_ACCESS_MW_BIND)
#define SIZE (64 * PAGE)
#define IOVA 0x7000000000ul

FIXTURE(fd_mr)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct buffer buf;
	struct ibv_mr *mr;	/* of buf, byte 0 at IOVA */
	struct ibv_mr *host;	/* SIZE bytes of ordinary memory */
	uint8_t *mem;		/* these bytes */
	uint8_t *before;	/* a copy of buf as a case began */
};

FIXTURE_VARIANT(fd_mr)
{
	enum exporter exporter;
};

FIXTURE_VARIANT_ADD(fd_mr, vgem) { .exporter = VGEM };
FIXTURE_VARIANT_ADD(fd_mr, udmabuf) { .exporter = UDMABUF };
FIXTURE_VARIANT_ADD(fd_mr, system_heap) { .exporter = HEAP };
FIXTURE_VARIANT_ADD(fd_mr, virtio_gpu) { .exporter = VIRTIO_GPU };
FIXTURE_VARIANT_ADD(fd_mr, bochs_vram) { .exporter = BOCHS };

FIXTURE_SETUP(fd_mr)
{
	const char *missing = exporter_missing(variant->exporter);

	if (missing)
		die("the guest has no %s", missing);
	self->ctx = open_device("rxe0");
	pair_open(&self->pair, self->ctx, NULL);
	buffer_open(&self->buf, variant->exporter, SIZE);
	fill(self->buf.cpu, self->buf.size, 99);
	self->before = must(malloc(self->buf.size));
	memcpy(self->before, self->buf.cpu, self->buf.size);
	self->mr = must(ibv_reg_mr_fd_iova(self->pair.pd, 0, self->buf.size, IOVA,
					   IBV_MR_FD_TYPE_DMABUF, self->buf.fd, ALL_ACCESS));
	self->mem = must(aligned_alloc(PAGE, SIZE));
	self->host = must(ibv_reg_mr(self->pair.pd, self->mem, SIZE, ALL_ACCESS));
}

FIXTURE_TEARDOWN(fd_mr)
{
	EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	EXPECT_EQ(0, ibv_dereg_mr(self->host));
	pair_close(&self->pair);
	ibv_close_device(self->ctx);
	buffer_close(&self->buf);
	free(self->mem);
	free(self->before);
}

#endif
