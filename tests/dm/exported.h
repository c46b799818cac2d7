/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fixture exported: device memory of one device, exported as a dma-buf, and an importer,
 * which is an MR of that on the same device or on another one (lib/other.h), with a pair of
 * QPs there.  The importer's device may be of another kind than the exporter's.
 *
 * A case sees by the copy calls of the DM what really arrived there.  When it is over,
 * nothing may be left, and both devices have all of their memory again.
 */
#ifndef DM_EXPORTED_H
#define DM_EXPORTED_H

#include "lib/counts.h"
#include "lib/dm.h"
#include "lib/harness.h"
#include "lib/other.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <string.h>

#define SIZE (2 * PAGE + 36)		/* of the DM: a multiple of 4, as any device wants it */
#define BUF_SIZE (3 * PAGE)		/* of its dma-buf */
#define HOST_SIZE (8 * PAGE)

enum { EXPORTER, IMPORTER };

FIXTURE(exported)
{
	struct other other;
	struct ibv_context *ctx[2];	/* of both sides, also if they are on one device */
	struct dm dm;			/* marked */
	int fd;
	struct pair pair;		/* of the importer */
	struct ibv_mr *mr;		/* of the whole dma-buf, byte 0 at IOVA */
	struct memory host;		/* with an MR of the importer's device */
	struct ibv_mr *host_mr;
};

FIXTURE_VARIANT(exported)
{
	bool other[2];
};

FIXTURE_VARIANT_ADD(exported, on_its_own_device) { { false, false } };
FIXTURE_VARIANT_ADD(exported, to_another_device) { { false, true } };
/* runs: full */
FIXTURE_VARIANT_ADD(exported, from_another_device) { { true, false } };

static inline int export_fd(const struct dm *dm)
{
	int fd = ibv_dm_export_dmabuf_fd(dm->dm);

	if (fd < 0)
		fail_case("export a DM as a dma-buf");
	return fd;
}

/* NULL and errno. */
static inline struct ibv_mr *import_part(FIXTURE_DATA(exported) *self, uint64_t at, size_t n,
					 int access)
{
	return ibv_reg_mr_fd_iova(self->pair.pd, at, n, IOVA + at, IBV_MR_FD_TYPE_DMABUF, self->fd,
				  access);
}

static inline struct ibv_mr *import_all(FIXTURE_DATA(exported) *self, int access)
{
	return must(import_part(self, 0, BUF_SIZE, access));
}

/* Of a registration that is undone at once. */
static inline int import_errno(FIXTURE_DATA(exported) *self)
{
	struct ibv_mr *mr = import_part(self, 0, BUF_SIZE, RW);

	return mr ? ibv_dereg_mr(mr) : errno;
}

FIXTURE_SETUP(exported)
{
	const char *name[2] = { device_name(), device_name() };

	self->fd = -1;
	need("dm-export");
	need("reg_mr_fd");
	ASSERT_TRUE(nothing_left());
	if (variant->other[EXPORTER] || variant->other[IMPORTER])
		other_open(&self->other);
	for (int i = 0; i < 2; i++)
		self->ctx[i] = device_open_named(variant->other[i] ? self->other.name : name[i]);
	if (!dm_max(self->ctx[EXPORTER]))
		skip_case("%s has no device memory", self->other.name);
	pair_open(&self->pair, self->ctx[IMPORTER], NULL);
	memory_open(&self->host, HOST, HOST_SIZE);
	self->host_mr = memory_reg(&self->host, self->pair.pd, RWA);
	dm_open_filled(&self->dm, self->ctx[EXPORTER], SIZE, 1);
	self->fd = export_fd(&self->dm);
	self->mr = import_all(self, RWA);
}

FIXTURE_TEARDOWN(exported)
{
	mr_close(self->mr);
	if (self->fd >= 0)
		close(self->fd);
	dm_close(&self->dm);
	mr_close(self->host_mr);
	pair_close(&self->pair);
	memory_close(&self->host);
	if (self->ctx[EXPORTER] && dm_max(self->ctx[EXPORTER]))
		EXPECT_TRUE(dm_budget_is_whole(self->ctx[EXPORTER]));
	for (int i = 0; i < 2; i++)
		device_close(self->ctx[i]);
	other_close(&self->other);
	EXPECT_TRUE(nothing_left());
}

/* The importer's operations with the ordinary memory, from its first byte on. */
static inline enum ibv_wc_status host_op(FIXTURE_DATA(exported) *self, enum ibv_wr_opcode opcode,
					 uint32_t n, uint64_t at, uint32_t rkey)
{
	return rdma_op(&self->pair, opcode, self->host_mr, self->host.iova, n, IOVA + at, rkey);
}

/* The same with the MR of the dma-buf at the local end. */
static inline enum ibv_wc_status local_op(FIXTURE_DATA(exported) *self, enum ibv_wr_opcode opcode,
					  struct ibv_mr *mr, uint64_t at, uint32_t n)
{
	return rdma_op(&self->pair, opcode, mr, IOVA + at, n, self->host.iova,
		       self->host_mr->rkey);
}

/* Whether only these bytes of the DM changed, into the pattern of SEED; they change back. */
static inline bool dm_got(FIXTURE_DATA(exported) *self, size_t at, size_t n, uint32_t seed)
{
	bool well = dm_filled(&self->dm, at, n, seed, "device memory") &&
		    dm_only_changed(&self->dm, at, n);

	dm_restore(&self->dm, at, n);
	return well;
}

/* Whether a peer of the importer can write there, and the exporter sees it. */
static inline bool is_imported(FIXTURE_DATA(exported) *self, struct ibv_mr *mr, uint32_t seed)
{
	fill(self->host.cpu, SIZE, seed);
	if (host_op(self, IBV_WR_RDMA_WRITE, SIZE, 0, mr->rkey) || !dm_got(self, 0, SIZE, seed))
		return false;
	memset(self->host.cpu, 0, SIZE);
	return !host_op(self, IBV_WR_RDMA_READ, SIZE, 0, mr->rkey) &&
	       !memcmp(self->host.cpu, self->dm.before, SIZE);
}

#endif
