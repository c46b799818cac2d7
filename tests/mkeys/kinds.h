/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The fixture parts: a list of parts (parts.h) of memory of each kind, with every right. */
#ifndef MKEYS_KINDS_H
#define MKEYS_KINDS_H

#include "lib/harness.h"
#include "mkeys/parts.h"

FIXTURE(parts)
{
	struct parts p;
};

FIXTURE_VARIANT(parts)
{
	enum memory_kind kind[PARTS];
};

FIXTURE_VARIANT_ADD(parts, of_host_memory) { .kind = { HOST, HOST, HOST, HOST, HOST } };
FIXTURE_VARIANT_ADD(parts, of_memfds) { .kind = { MEMFD, MEMFD, MEMFD, MEMFD, MEMFD } };
FIXTURE_VARIANT_ADD(parts, of_udmabufs) {
	.kind = { UDMABUF, UDMABUF, UDMABUF, UDMABUF, UDMABUF }
};
FIXTURE_VARIANT_ADD(parts, of_vram) {
	.kind = { GPU_VRAM, GPU_VRAM, GPU_VRAM, GPU_VRAM, GPU_VRAM }
};
FIXTURE_VARIANT_ADD(parts, of_gpu_system_memory) {
	.kind = { GPU_SYSTEM, GPU_SYSTEM, GPU_SYSTEM, GPU_SYSTEM, GPU_SYSTEM }
};
FIXTURE_VARIANT_ADD(parts, of_every_kind) {
	.kind = { GPU_VRAM, MEMFD, HOST, UDMABUF, GPU_SYSTEM }
};

FIXTURE_SETUP(parts)
{
	parts_open(&self->p, variant->kind);
	ASSERT_EQ(IBV_WC_SUCCESS, list_fill(&self->p.e, self->p.list, RWA, self->p.piece,
					    PARTS));
}

FIXTURE_TEARDOWN(parts)
{
	EXPECT_TRUE(parts_close(&self->p));
}

#endif
