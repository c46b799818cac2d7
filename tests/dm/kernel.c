// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: kernel-dm; devices: all */
/*
 * A ULP in the kernel counts in device memory, keeps a ring there, registers parts of it,
 * exports it, and loses it when the device leaves.  It shares the budget with processes, and no
 * byte.
 *
 * The work is done by a module (tests/kernel_dm); a case starts it, and is the process beside
 * it.
 *
 * What a ULP or a process had the other finds zero, and what one has the other cannot map.
 */
#include "lib/counts.h"
#include "lib/dm.h"
#include "lib/gone.h"
#include "lib/harness.h"
#include "lib/ulp.h"
#include "lib/other.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define HELD_SIZE (3 * PAGE + 100)	/* of the DM that the command hold makes */
#define BUF_SIZE (4 * PAGE)		/* of its dma-buf */
#define HELD_SEED 5

/* The process's end of an export: an MR of the dma-buf on some device, and ordinary memory. */
struct import {
	struct pair pair;
	struct memory host;
	struct ibv_mr *mr, *host_mr;
	int fd;				/* 0: there is none */
};

FIXTURE(ulp)
{
	struct ulp user;
	struct ibv_context *ctx;	/* of the process */
	struct other other;
	struct ibv_context *other_ctx;
	struct dm_rest rest;		/* of the process */
	struct import import;
	struct gone gone;
	bool left;			/* the device has left */
};

typedef FIXTURE_DATA(ulp) world;

FIXTURE_SETUP(ulp)
{
	need("dm");
	ASSERT_TRUE(nothing_left());
	self->ctx = device_open();
	ASSERT_TRUE(dm_budget_is_whole(self->ctx));
	ulp_open(&self->user);
	ulp_does(&self->user, "open %s", device_name());
}

static bool comes_back(world *self)
{
	self->left = false;
	if (device_can("pci"))
		return device_comes_back(&self->gone);
	return device_add() && device_gets_ready();
}

/* Also for a struct that is all 0, and if not all of it is open. */
static void import_close(struct import *i)
{
	mr_close(i->mr);
	if (i->fd > 0)
		close(i->fd);
	mr_close(i->host_mr);
	memory_close(&i->host);
	pair_close(&i->pair);
	*i = (struct import){};
}

FIXTURE_TEARDOWN(ulp)
{
	import_close(&self->import);
	if (self->left)
		EXPECT_TRUE(comes_back(self));
	dm_give_rest(&self->rest);
	ulp_close(&self->user);
	if (self->ctx)
		EXPECT_TRUE(dm_budget_is_whole(self->ctx));
	device_close(self->ctx);
	device_close(self->other_ctx);
	other_close(&self->other);
	EXPECT_TRUE(nothing_left());
}

/* --- What it does with it */

TEST_F(ulp, ulp_counts_by_fetch_and_add)
{
	need("atomics");
	if (device_driver_id() == RDMA_DRIVER_MLX5)
		skip_case("mlx5 posts no atomic operations for ULPs");
	ulp_does(&self->user, "counter");
}

#define START (1ull << 40)	/* what the kernel has put there */
#define ROUNDS 64

/* Connect one end to the kernel's queue pair, and return the rkey of its counter. */
static uint32_t connect_to_kernel(world *self, struct pair *pair)
{
	struct ibv_qp kernel = {}, *own = pair->qp[1];
	uint32_t rkey;

	ulp_does(&self->user, "serve %u", pair->qp[0]->qp_num);
	errno = 0;
	if (sscanf(ulp_says(&self->user), "%u %u", &kernel.qp_num, &rkey) != 2)
		fail_case("serve returned \"%s\", not a QPN and an rkey", ulp_says(&self->user));
	pair->qp[1] = &kernel;
	pair_connect_end(pair, 0, IBV_MTU_1024, 0, LONG_TIMEOUT);
	pair->qp[1] = own;
	return rkey;
}

/* What was there before comes into ordinary memory, or into device memory of the process. */
TEST_F(ulp, process_counts_in_a_dm_of_the_ulp)
{
	uint64_t sum = 0, was[2];
	struct memory host;
	struct ibv_mr *mr[2];
	struct pair pair;
	uint32_t rkey;
	struct dm dm;

	need("atomics");
	pair_open(&pair, self->ctx, NULL);
	rkey = connect_to_kernel(self, &pair);
	memory_open(&host, HOST, PAGE);
	dm_open(&dm, self->ctx, PAGE);
	mr[0] = memory_reg(&host, pair.pd, RW);
	mr[1] = dm_reg(&dm, pair.pd, RW);
	for (int n = 0; n < ROUNDS; n++) {
		ASSERT_EQ(IBV_WC_SUCCESS, atomic_op(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, mr[n % 2],
						    0, rkey, n, 0));
		memcpy(&was[0], host.cpu, 8);
		dm_get(&dm, 0, &was[1], 8);
		ASSERT_EQ(START + sum, was[n % 2]);
		sum += n;
	}
	/* The counter is all that the peer reaches. */
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, atomic_op(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, mr[0], 8,
						   rkey, 1, 0));
	ulp_does(&self->user, "served %lu", (unsigned long)sum);
	mr_close(mr[0]);
	mr_close(mr[1]);
	dm_close(&dm);
	memory_close(&host);
	pair_close(&pair);
}

TEST_F(ulp, ring_in_a_dm_passes_messages)
{
	ulp_does(&self->user, "ring");
}

TEST_F(ulp, copy_changes_its_bytes_and_no_others)
{
	ulp_does(&self->user, "copy");
}

TEST_F(ulp, each_mr_has_its_range_and_rights)
{
	ulp_does(&self->user, "regions");
}

TEST_F(ulp, dm_works_with_the_mrs_that_are_left)
{
	ulp_does(&self->user, "two");
}

TEST_F(ulp, reg_and_copy_past_the_end_are_einval)
{
	ulp_does(&self->user, "ranges");
}

TEST_F(ulp, reg_in_a_pd_of_another_device_is_einval)
{
	other_open(&self->other);
	ulp_does(&self->user, "foreign %s", self->other.name);
}

TEST_F(ulp, alloc_of_more_than_all_memory_is_enomem)
{
	ulp_does(&self->user, "too_much");
}

TEST_F(ulp, dms_of_any_size_can_take_all_memory)
{
	ulp_does(&self->user, "budget");
}

TEST_F(ulp, closed_ulp_returns_its_memory)
{
	ulp_does(&self->user, "hold");
	ulp_does(&self->user, "is_held");
	ulp_close(&self->user);
	EXPECT_TRUE(nothing_left());
	EXPECT_TRUE(dm_budget_is_whole(self->ctx));
}

/* --- It and a process */

#define SOME (16 * PAGE)

TEST_F(ulp, ulp_and_process_share_the_budget)
{
	struct dm dm, more;

	dm_open(&dm, self->ctx, SOME);
	ulp_does(&self->user, "take");
	EXPECT_EQ(ENOMEM, dm_try_open(&more, self->ctx, PAGE));
	dm_close(&dm);
	dm_open(&dm, self->ctx, SOME);
	EXPECT_EQ(ENOMEM, dm_try_open(&more, self->ctx, PAGE));
	ulp_does(&self->user, "free");
	dm_open(&more, self->ctx, PAGE);
	dm_close(&more);
	dm_close(&dm);
}

TEST_F(ulp, process_finds_memory_of_the_ulp_zeroed)
{
	ulp_does(&self->user, "take");
	ulp_does(&self->user, "fill 0xa5");
	ulp_does(&self->user, "free");
	dm_take_rest(&self->rest, self->ctx);
	EXPECT_EQ(dm_max(self->ctx), self->rest.bytes);
	EXPECT_TRUE(dm_rest_is_zero(&self->rest));
}

/* No byte of it is 0: a peer has written all. */
static void make_dirty(world *self)
{
	struct memory host;
	struct ibv_mr *host_mr;
	struct pair pair;

	pair_open(&pair, self->ctx, NULL);
	memory_open(&host, HOST, dm_max(self->ctx));
	host_mr = memory_reg(&host, pair.pd, RWA);
	memset(host.cpu, 0xa5, host.size);
	for (int i = 0; i < self->rest.pieces; i++) {
		struct dm *dm = &self->rest.piece[i];
		struct ibv_mr *mr = dm_reg(dm, pair.pd, RW);

		errno = 0;
		if (rdma_op(&pair, IBV_WR_RDMA_WRITE, host_mr, host.iova, dm->size, 0, mr->rkey))
			fail_case("RDMA write to device memory");
		mr_close(mr);
	}
	mr_close(host_mr);
	memory_close(&host);
	pair_close(&pair);
}

TEST_F(ulp, ulp_finds_memory_of_a_process_zeroed)
{
	dm_take_rest(&self->rest, self->ctx);
	make_dirty(self);
	dm_give_rest(&self->rest);
	ulp_does(&self->user, "take");
	ulp_does(&self->user, "is_zero");
	ulp_does(&self->user, "free");
}

/* Where libmlx5 maps device memory; Soft-RoCE has one row of offsets for all. */
static off_t place(unsigned int n)
{
	const unsigned int device_mem = 8;

	if (device_driver_id() != RDMA_DRIVER_MLX5)
		return n * PAGE;
	return ((n >> 8) << 16 | device_mem << 8 | (n & 0xff)) * PAGE;
}

/*
 * What can be mapped is the process's own page, once more, and no byte beside it.  Soft-RoCE
 * maps a DM once, so the library's mapping is the only one.
 */
TEST_F(ulp, process_cannot_map_memory_of_the_ulp)
{
	int maps = 0, fd = self->ctx->cmd_fd;
	struct dm own;

	dm_open(&own, self->ctx, PAGE);
	dm_fill(&own, 0, PAGE, 3);
	ulp_does(&self->user, "take");
	ulp_does(&self->user, "fill 0xa5");
	for (unsigned int n = 0; n < 8192; n++) {
		void *map = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, place(n));

		ASSERT_EQ(MAP_FAILED, map);
		map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, place(n));
		if (map == MAP_FAILED)
			continue;
		maps++;
		EXPECT_TRUE(filled(map, PAGE, 3, "what is mapped"));
		munmap(map, PAGE);
	}
	EXPECT_LE(maps, 1);
	ulp_does(&self->user, "free");
	EXPECT_TRUE(dm_filled(&own, 0, PAGE, 3, "the process's own"));
	dm_close(&own);
}

/* --- It exports it */

TEST_F(ulp, free_takes_the_dm_from_a_kernel_importer)
{
	need("dm-export");
	ulp_does(&self->user, "importer");
}

static struct ibv_mr *import_try(struct import *i)
{
	return ibv_reg_mr_fd_iova(i->pair.pd, 0, BUF_SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF, i->fd, RWA);
}

static struct import *import_open(world *self, struct ibv_context *ctx)
{
	struct import *i = &self->import;

	ulp_does(&self->user, "hold");
	ulp_does(&self->user, "export");
	i->fd = atoi(ulp_says(&self->user));
	pair_open(&i->pair, ctx, NULL);
	memory_open(&i->host, HOST, BUF_SIZE);
	i->host_mr = memory_reg(&i->host, i->pair.pd, RWA);
	i->mr = must(import_try(i));
	return i;
}

static enum ibv_wc_status import_op(struct import *i, enum ibv_wr_opcode opcode, size_t n)
{
	return rdma_op(&i->pair, opcode, i->host_mr, i->host.iova, n, IOVA, i->mr->rkey);
}

/* The memory is gone; its MR and its fd are not. */
static void import_is_dead(struct import *i)
{
	struct ibv_mr *none;

	for (int op = 0; op < 2; op++) {
		errno = 0;
		if (import_op(i, op ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 100) !=
		    IBV_WC_REM_ACCESS_ERR)
			fail_case("RDMA to freed memory did not end in a remote access error");
		pair_connect(&i->pair, IBV_MTU_1024);
	}
	none = import_try(i);
	if (none || errno != ENODEV)
		fail_case("import of freed memory did not return ENODEV");
}

static void import_works(struct import *i, world *self)
{
	errno = 0;
	if (import_op(i, IBV_WR_RDMA_READ, HELD_SIZE) ||
	    !filled(i->host.cpu, HELD_SIZE, HELD_SEED, "read by RDMA"))
		fail_case("RDMA read of the imported DM failed or returned other bytes");
	fill(i->host.cpu, HELD_SIZE, 9);
	if (import_op(i, IBV_WR_RDMA_WRITE, HELD_SIZE))
		fail_case("RDMA write to the imported DM");
	ulp_does(&self->user, "is_held 9");
}

/* To free it succeeds, under the importer. */
static void export_and_free(world *self, struct ibv_context *ctx)
{
	struct import *import = import_open(self, ctx);

	import_works(import, self);
	ulp_does(&self->user, "free");
	import_is_dead(import);
	/* The next owner does not notice. */
	ulp_does(&self->user, "take");
	ulp_does(&self->user, "fill 0xa5");
	import_is_dead(import);
}

TEST_F(ulp, free_ends_the_import_of_a_process)
{
	need("dm-export");
	need("reg_mr_fd");
	export_and_free(self, self->ctx);
}

static struct ibv_context *open_other(world *self)
{
	need("dm-export");
	other_open(&self->other);
	self->other_ctx = device_open_named(self->other.name);
	return self->other_ctx;
}

TEST_F(ulp, free_ends_the_import_by_another_device)
{
	export_and_free(self, open_other(self));
}

/*
 * The dma-buf is there as long as the path, but its file is not.  The file's memory can be used
 * again after a grace period of RCU; then the debug kernel sees who still uses it.
 */
TEST_F(ulp, free_succeeds_with_only_an_o_path_fd_open)
{
	char name[32];
	int fd, path;

	need("dm-export");
	ulp_does(&self->user, "hold");
	ulp_does(&self->user, "export");
	fd = atoi(ulp_says(&self->user));
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	path = open(name, O_PATH | O_CLOEXEC);
	ASSERT_LE(0, path);
	close(fd);
	sleep(1);
	ulp_does(&self->user, "free");
	close(path);
}

/* --- The device leaves */

static bool leaves(world *self)
{
	int status;
	pid_t pid;

	device_close(self->ctx);
	self->ctx = NULL;
	self->left = true;
	if (device_can("pci"))
		return device_leaves(&self->gone, UNBOUND);
	fflush(stdout);
	pid = fork();
	if (!pid)
		device_delete_exec();
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status && !device_exists();
}

/* It worked until the device left. */
static void check_loss(world *self)
{
	errno = 0;
	if (strcmp(ulp_says(&self->user), "1 DMs and 2 MRs"))
		fail_case("the ULP had \"%s\", not \"1 DMs and 2 MRs\"", ulp_says(&self->user));
	fails_with(ulp_tries(&self->user, "is_held"), ENODEV, "is_held");
	fails_with(ulp_tries(&self->user, "counter"), ENODEV, "counter");
}

TEST_F_TIMEOUT(ulp, device_removal_takes_the_memory_of_the_ulp, 240)
{
	for (int round = 0; round < 2; round++) {
		ulp_does(&self->user, "hold");
		ASSERT_TRUE(leaves(self));
		check_loss(self);
		ASSERT_TRUE(comes_back(self));
		self->ctx = device_open();
		EXPECT_TRUE(dm_budget_is_whole(self->ctx));
		ulp_does(&self->user, "open %s", device_name());
		ulp_does(&self->user, "ring");
	}
}

TEST_F_TIMEOUT(ulp, device_removal_ends_import_by_another_device, 240)
{
	struct import *import = import_open(self, open_other(self));

	ASSERT_TRUE(leaves(self));
	check_loss(self);
	import_is_dead(import);
	ASSERT_TRUE(comes_back(self));
	import_is_dead(import);
	self->ctx = device_open();
}

int main(int argc, char **argv)
{
	return harness_run(argc, argv, ulps_prepare);
}
