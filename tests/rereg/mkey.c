// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Changes of rights that a device cannot make in place: to on-demand paging and back, and a
 * flag that its keys do not know.  The MR gets other keys then, and has the same memory: not
 * one page is pinned twice for good, and data goes where it went before.
 */
#include "lib/counts.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <sys/mman.h>

#define SIZE (16 * PAGE)
#define PAGED IBV_ACCESS_ON_DEMAND
/* No key of mlx5 has it, so the driver makes another one. */
#define UNKNOWN IBV_ACCESS_HUGETLB

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

FIXTURE_SETUP(rights)
{
	need("rereg_mr_fd");
	need("on-demand");
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
		return refused && memory_untouched(&self->at);
	}
	if (rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->local_mr, self->local.iova, 5000, to,
		    self->mr->rkey) ||
	    !filled(self->at.cpu + 4000, 5000, seed, "written") ||
	    !memory_only_changed(&self->at, 4000, 5000))
		return false;
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
	printf("# errno %d and not %d\n", errno, err);
	return false;
}

TEST_F(rights, that_the_keys_do_not_know)
{
	long pinned = pinned_kb();
	int mrs = mr_count();

	if (variant->kind == VGEM) {	/* a dma-buf has no such right */
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

TEST_F(rights, of_on_demand_paging)
{
	long pinned = pinned_kb();

	if (variant->kind != HOST) {	/* only memory of the process can be paged */
		ASSERT_TRUE(refused_with(self, RW | PAGED, EOPNOTSUPP));
		return;
	}
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
