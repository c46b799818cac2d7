// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: gpu; devices: all */
/* runs: full debug-full; guest: gpu; devices: pinned */
/*
 * Changes of rights for which mlx5 needs another key, relaxed ordering, and optional flags that
 * nobody knows: the MR has the same memory, which is pinned or imported once, and data goes
 * where it went before.
 *
 * The rights are on-demand paging, on and off, and a flag that the keys of mlx5 do not know.
 */
#include "lib/counts.h"
#include "lib/gpu.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <sys/mman.h>

#define SIZE (16 * PAGE)
#define PAGED IBV_ACCESS_ON_DEMAND
/* No key of mlx5 has it, so the driver makes another one. */
#define UNKNOWN IBV_ACCESS_HUGETLB
/* Of the optional range, which a kernel ignores where it does not know it. */
#define OPTIONAL (IBV_ACCESS_OPTIONAL_FIRST << 1)

FIXTURE(rights)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory at, local;
	struct ibv_mr *mr, *local_mr;
};

FIXTURE_VARIANT(rights)
{
	enum memory_kind kind;
};

FIXTURE_VARIANT_ADD(rights, host) { .kind = HOST };
FIXTURE_VARIANT_ADD(rights, memfd) { .kind = MEMFD };
FIXTURE_VARIANT_ADD(rights, vgem) { .kind = VGEM };
FIXTURE_VARIANT_ADD(rights, vram) { .kind = GPU_VRAM };

FIXTURE_SETUP(rights)
{
	need("rereg_mr_fd");
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	memory_open_filled(&self->at, variant->kind, SIZE, 1);
	memory_open_filled(&self->local, HOST, SIZE, 2);
	self->mr = memory_reg(&self->at, self->pair.pd, RW);
	self->local_mr = memory_reg(&self->local, self->pair.pd, RW);
}

FIXTURE_TEARDOWN(rights)
{
	mr_close(self->mr);
	mr_close(self->local_mr);
	pair_close(&self->pair);	/* its queues are pinned too */
	EXPECT_EQ(0, pinned_kb());
	if (self->at.kind == GPU_VRAM)
		EXPECT_TRUE(gpu_at_rest(&self->at));
	memory_close(&self->at);
	memory_close(&self->local);
	device_close(self->ctx);
}

/* By the method of the fd, which a change of rights does not look at. */
static int change(FIXTURE_DATA(rights) *self, int access)
{
	errno = 0;
	return ibv_rereg_mr_fd_iova(self->mr, CHANGE_ACCESS, NULL, 0, 0, 0,
				    IBV_MR_FD_TYPE_DMABUF, -1, access);
}

static bool works(FIXTURE_DATA(rights) *self, bool may_write)
{
	static uint32_t seed = 100;
	uint64_t to = self->at.iova + 4000;

	fill(self->local.cpu, 5000, ++seed);
	memory_mark(&self->at);
	if (!may_write) {
		bool refused = rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->local_mr,
				       self->local.iova, 5000, to,
				       self->mr->rkey) == IBV_WC_REM_ACCESS_ERR;

		pair_connect(&self->pair, IBV_MTU_1024);
		if (!refused || !memory_untouched(&self->at))
			return false;
		fill(self->at.cpu + 4000, 5000, seed);
	} else if (rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->local_mr, self->local.iova, 5000,
			   to, self->mr->rkey) ||
		   !filled(self->at.cpu + 4000, 5000, seed, "written") ||
		   !memory_only_changed(&self->at, 4000, 5000)) {
		return false;
	}
	memset(self->local.cpu, 0, 5000);
	return !rdma_op(&self->pair, IBV_WR_RDMA_READ, self->local_mr, self->local.iova, 5000, to,
			self->mr->rkey) &&
	       filled(self->local.cpu, 5000, seed, "read");
}

static bool refused_with(FIXTURE_DATA(rights) *self, int access, int err)
{
	struct ibv_mr was = *self->mr;

	if (change(self, access) == IBV_REREG_MR_ERR_INPUT && errno == err)
		return !memcmp(&was, self->mr, sizeof(was)) && works(self, true);
	printf("# rereg to rights %#x: errno %d, not %d\n", access, errno, err);
	return false;
}

static bool is_dma_buf(const struct memory *m)
{
	return m->kind == VGEM || m->kind == GPU_VRAM;
}

/* Where a rereg never changes the keys, such rights say nothing about them. */
static void need_other_keys(void)
{
	if (device_can("keeps-keys"))
		skip_case("its rereg keeps the keys");
}

TEST_F(rights, mr_works_after_rereg_to_hugetlb_access)
{
	long pinned = pinned_kb();
	int mrs = mr_count();

	need_other_keys();
	if (is_dma_buf(&self->at)) {	/* which has no such right */
		ASSERT_TRUE(refused_with(self, RW | UNKNOWN, EOPNOTSUPP));
		return;
	}
	for (int i = 0; i < 3; i++) {
		uint32_t rkey = self->mr->rkey;

		ASSERT_EQ(0, change(self, RW | UNKNOWN));
		ASSERT_NE(rkey, self->mr->rkey);
		ASSERT_TRUE(works(self, true));
		ASSERT_EQ(0, change(self, REMOTE_READ));
		ASSERT_TRUE(works(self, false));
		ASSERT_EQ(0, change(self, RW));
		ASSERT_TRUE(works(self, true));
		ASSERT_EQ(pinned, pinned_kb());
		ASSERT_EQ(mrs, mr_count());
	}
}

/* A read, which every MR here permits. */
static bool is_dead(FIXTURE_DATA(rights) *self, uint32_t rkey)
{
	bool refused = rdma_op(&self->pair, IBV_WR_RDMA_READ, self->local_mr, self->local.iova, 8,
			       self->at.iova, rkey) == IBV_WC_REM_ACCESS_ERR;

	pair_connect(&self->pair, IBV_MTU_1024);
	return refused;
}

/*
 * Change the rights.  If mlx5 needs another key for that, the MR has got one and the old one is
 * dead; a device that keeps the keys has kept them.
 */
static bool changes(FIXTURE_DATA(rights) *self, int access, bool other)
{
	struct ibv_mr was = *self->mr;

	if (change(self, access)) {
		printf("# rereg to rights %#x: %s\n", access, strerror(errno));
		return false;
	}
	other &= !device_can("keeps-keys");
	if ((was.lkey != self->mr->lkey) == other && (was.rkey != self->mr->rkey) == other)
		return !other || is_dead(self, was.rkey);
	printf("# rereg to rights %#x: rkey %#x is now %#x, and must %sdiffer\n", access, was.rkey,
	       self->mr->rkey, other ? "" : "not ");
	return false;
}

/* Whether one importer holds it, as the device needs it, and a device with DMA in VRAM. */
static bool held_once(struct memory *at)
{
	const bool by_dma = !device_can("vmap");
	struct mrfd_gpu_query q;

	if (at->kind != GPU_VRAM)
		return true;
	q = gpu_query(at);
	if (q.attachments == 1 && q.peers == by_dma && q.maps == by_dma &&
	    q.pins == !device_can("follows-moves") && q.vmaps == !by_dma &&
	    q.place == (by_dma ? MRFD_GPU_VRAM : MRFD_GPU_SYSTEM))
		return true;
	printf("# %u attachments, %u peers, %u maps, %u pins, %u vmaps, place %u\n",
	       q.attachments, q.peers, q.maps, q.pins, q.vmaps, q.place);
	return false;
}

/* The MR goes where the buffer goes, or holds it where it is. */
static bool follows(FIXTURE_DATA(rights) *self)
{
	static const uint32_t places[] = { MRFD_GPU_SYSTEM, MRFD_GPU_VRAM };
	const int err = device_can("follows-moves") ? 0 : EBUSY;

	for (int i = 0; i < 2 && self->at.kind == GPU_VRAM; i++) {
		const uint32_t place = err ? gpu_query(&self->at).place : places[i];

		if (gpu_move(&self->at, places[i], 0) != err || !works(self, true) ||
		    gpu_query(&self->at).place != place)
			return false;
	}
	return true;
}

/* A change of such a bit changes nothing, but mlx5 cannot know that and makes another key. */
TEST_F(rights, mr_works_after_rereg_to_unknown_optional_access)
{
	long pinned = pinned_kb();
	int mrs = mr_count();

	for (int i = 0; i < 3; i++) {
		ASSERT_TRUE(changes(self, RW | OPTIONAL, true));
		ASSERT_TRUE(held_once(&self->at));
		ASSERT_TRUE(works(self, true));
		ASSERT_TRUE(changes(self, REMOTE_READ | OPTIONAL, false));
		ASSERT_TRUE(works(self, false));
		ASSERT_TRUE(changes(self, RW | OPTIONAL, false));
		ASSERT_TRUE(works(self, true));
		ASSERT_TRUE(changes(self, REMOTE_READ, true));
		ASSERT_TRUE(held_once(&self->at));
		ASSERT_TRUE(works(self, false));
		ASSERT_TRUE(changes(self, RW, false));
		ASSERT_TRUE(held_once(&self->at));
		ASSERT_TRUE(works(self, true));
		ASSERT_EQ(pinned, pinned_kb());
		ASSERT_EQ(mrs, mr_count());
		ASSERT_TRUE(follows(self));
	}
}

/* It is a bit of the same range that all know; one that cannot order ignores it. */
TEST_F(rights, rereg_to_relaxed_ordering_keeps_the_keys)
{
	for (int i = 0; i < 3; i++) {
		ASSERT_TRUE(changes(self, RW | IBV_ACCESS_RELAXED_ORDERING, false));
		ASSERT_TRUE(works(self, true));
		ASSERT_TRUE(changes(self, REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING, false));
		ASSERT_TRUE(works(self, false));
		ASSERT_TRUE(changes(self, RW, false));
		ASSERT_TRUE(works(self, true));
		ASSERT_TRUE(held_once(&self->at));
	}
}

TEST_F(rights, only_process_memory_reregs_to_on_demand_paging)
{
	long pinned = pinned_kb();

	need("on-demand");
	if (variant->kind != HOST) {	/* only memory of the process can be paged */
		ASSERT_TRUE(refused_with(self, RW | PAGED, EOPNOTSUPP));
		return;
	}
	need("switches-on-demand");
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, change(self, RW | PAGED));
		ASSERT_EQ(pinned - (long)(SIZE / 1024), pinned_kb());
		/* What is not pinned can go, and the next access gets it again. */
		ASSERT_EQ(0, madvise(self->at.cpu, SIZE, MADV_DONTNEED));
		ASSERT_TRUE(works(self, true));
		ASSERT_EQ(0, change(self, REMOTE_READ | PAGED));
		ASSERT_TRUE(works(self, false));
		ASSERT_EQ(0, change(self, RW | PAGED));
		ASSERT_EQ(0, change(self, RW));
		ASSERT_EQ(pinned, pinned_kb());
		ASSERT_TRUE(works(self, true));
	}
}

TEST_HARNESS_MAIN
