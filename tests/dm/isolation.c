// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: rxe */
/* runs: full debug-full; devices: connectx */
/*
 * The next owner of device memory finds it zero, however the owner before has ended; and no key,
 * handle or mapping of one process reaches the memory of another one.
 */
#include "lib/child.h"
#include "lib/counts.h"
#include "lib/dm.h"
#include "lib/harness.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum ending { FREES, EXITS, IS_KILLED };

/* --- The owner before */

FIXTURE(previous_owner)
{
	struct ibv_context *ctx;
	struct child child;
	struct dm_rest rest;
};

FIXTURE_VARIANT(previous_owner)
{
	enum ending ending;
};

FIXTURE_VARIANT_ADD(previous_owner, that_frees_it) { .ending = FREES };
FIXTURE_VARIANT_ADD(previous_owner, that_exits) { .ending = EXITS };
FIXTURE_VARIANT_ADD(previous_owner, that_is_killed) { .ending = IS_KILLED };

FIXTURE_SETUP(previous_owner)
{
	need("dm");
	ASSERT_TRUE(nothing_left());
	self->ctx = device_open();
	ASSERT_TRUE(dm_budget_is_whole(self->ctx));
}

FIXTURE_TEARDOWN(previous_owner)
{
	child_close(&self->child);
	dm_give_rest(&self->rest);
	if (self->ctx)
		EXPECT_TRUE(dm_budget_is_whole(self->ctx));
	device_close(self->ctx);
	EXPECT_TRUE(nothing_left());
}

/* Leaves no byte of the device's memory 0: the last page of a piece by the CPU. */
static void make_dirty(struct dm_rest *rest, struct ibv_context *ctx)
{
	struct pair pair;
	struct memory host;
	struct ibv_mr *host_mr;

	pair_open(&pair, ctx, NULL);
	memory_open(&host, HOST, dm_max(ctx));
	host_mr = memory_reg(&host, pair.pd, RWA);
	memset(host.cpu, 0xa5, host.size);
	for (int i = 0; i < rest->pieces; i++) {
		struct dm *dm = &rest->piece[i];
		struct ibv_mr *mr = dm_reg(dm, pair.pd, RW);
		size_t n = dm->size - PAGE;

		if (n && rdma_op(&pair, IBV_WR_RDMA_WRITE, host_mr, host.iova, n, 0, mr->rkey))
			fail_case("RDMA write to device memory");
		dm_put(dm, n, host.cpu, PAGE);
		mr_close(mr);
	}
	mr_close(host_mr);
	memory_close(&host);
	pair_close(&pair);
}

static void owns_all(int sock, void *arg)
{
	struct ibv_context *ctx = device_open();
	const enum ending *ending = arg;
	struct dm_rest rest;

	dm_take_rest(&rest, ctx);
	make_dirty(&rest, ctx);
	if (*ending == FREES) {
		dm_give_rest(&rest);
		device_close(ctx);
	}
	go_on(sock);
	if (*ending == IS_KILLED)
		wait_to_go_on(sock);
}

/*
 * The next owner takes all, in pieces of LENGTH, or with 0 in pieces as long as there are, of
 * which the CPU looks at all bytes too.
 */
static bool all_is_zero(FIXTURE_DATA(previous_owner) *self, size_t length)
{
	struct dm_rest *r = &self->rest;
	struct ibv_mr *host_mr;
	struct memory host;
	struct pair pair;
	bool zero = true;

	pair_open(&pair, self->ctx, NULL);
	memory_open(&host, HOST, dm_max(self->ctx));
	host_mr = memory_reg(&host, pair.pd, RWA);
	if (length) {
		while (r->pieces < DM_REST && !dm_try_open(&r->piece[r->pieces], self->ctx, length))
			r->pieces++;
	} else {
		dm_take_rest(r, self->ctx);
		zero = dm_rest_is_zero(r);
	}
	zero &= r->pieces && dm_rest_reads_zero(r, &pair, &host, host_mr);
	dm_give_rest(r);
	mr_close(host_mr);
	memory_close(&host);
	pair_close(&pair);
	return zero;
}

TEST_F_TIMEOUT(previous_owner, next_owner_finds_only_zeroes, 120)
{
	static const size_t lengths[] = { 0, PAGE, 100, 3 * PAGE - 4 };

	for (int i = 0; i < ARRAY_SIZE(lengths); i++) {
		enum ending ending = variant->ending;

		child_start(&self->child, owns_all, &ending);
		wait_to_go_on(self->child.sock);
		ASSERT_TRUE(ending == IS_KILLED ? child_kill(&self->child) :
			    !child_wait(&self->child));
		ASSERT_TRUE(dm_budget_is_whole(self->ctx));
		ASSERT_TRUE(all_is_zero(self, lengths[i])) {
			TH_LOG("allocated in pieces of %zu bytes: not all is 0", lengths[i]);
		}
	}
}

/* --- Another owner at the same time */

/* What it gives away of itself. */
struct secrets {
	uint32_t lkey, rkey, mr, dm, pd;
	uint64_t offset, length;	/* of the mapping of its device's file */
};

FIXTURE(other_process)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct dm own;
	struct ibv_mr *own_mr;
	struct memory host;
	struct ibv_mr *host_mr;
	struct child child;
	struct secrets secrets;
};

#define SIZE (3 * PAGE)

/*
 * The last mapping of the device's file that this process has made, of at least LENGTH.  The
 * library has made it for a DM just now.
 */
static void find_mapping(uint64_t *offset, uint64_t *length)
{
	FILE *f = must(fopen("/proc/self/maps", "r"));
	char line[512];

	*length = 0;
	while (fgets(line, sizeof(line), f)) {
		unsigned long from, to, at;

		if (strstr(line, "/dev/infiniband/uverbs") &&
		    sscanf(line, "%lx-%lx %*s %lx", &from, &to, &at) == 3 && to - from == SIZE &&
		    at >= *offset) {
			*offset = at;
			*length = to - from;
		}
	}
	fclose(f);
	errno = 0;
	if (!*length)
		fail_case("no mapping of the DM in /proc/self/maps");
}

static void owns_some(int sock, void *arg)
{
	struct ibv_context *ctx = device_open();
	struct ibv_pd *pd = must(ibv_alloc_pd(ctx));
	struct secrets s = {};
	struct ibv_mr *mr;
	struct dm dm;

	dm_open_filled(&dm, ctx, SIZE, 77);
	mr = dm_reg(&dm, pd, RWA);
	s = (struct secrets){ mr->lkey, mr->rkey, mr->handle, dm.dm->handle, pd->handle, 0, 0 };
	find_mapping(&s.offset, &s.length);
	tell(sock, &s, sizeof(s));
	wait_to_go_on(sock);
	if (!dm_untouched(&dm))
		_exit(2);
	mr_close(mr);
	dm_close(&dm);
}

FIXTURE_SETUP(other_process)
{
	need("dm");
	ASSERT_TRUE(nothing_left());
	child_start(&self->child, owns_some, NULL);
	ask(self->child.sock, &self->secrets, sizeof(self->secrets));
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	memory_open(&self->host, HOST, 4 * PAGE);
	self->host_mr = memory_reg(&self->host, self->pair.pd, RWA);
}

FIXTURE_TEARDOWN(other_process)
{
	child_close(&self->child);
	mr_close(self->own_mr);
	dm_close(&self->own);
	mr_close(self->host_mr);
	pair_close(&self->pair);
	if (self->ctx)
		EXPECT_TRUE(dm_budget_is_whole(self->ctx));
	device_close(self->ctx);
	memory_close(&self->host);
	EXPECT_TRUE(nothing_left());
}

/* The other process looks at its memory, and can still use and free all that it has. */
static bool is_unharmed(FIXTURE_DATA(other_process) *self)
{
	go_on(self->child.sock);
	return child_wait(&self->child) == 0;
}

static enum ibv_wc_status remote(FIXTURE_DATA(other_process) *self, enum ibv_wr_opcode op,
				 uint32_t rkey)
{
	enum ibv_wc_status status;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		status = atomic_op(&self->pair, op, self->host_mr, 0, rkey, 1, 0);
	else
		status = rdma_op(&self->pair, op, self->host_mr, self->host.iova, 8, 0, rkey);
	if (status)
		pair_connect(&self->pair, IBV_MTU_1024);
	return status;
}

static enum ibv_wc_status local(FIXTURE_DATA(other_process) *self, enum ibv_wr_opcode op,
				uint32_t lkey)
{
	struct ibv_mr named = { .context = self->ctx, .lkey = lkey };
	enum ibv_wc_status status = rdma_op(&self->pair, op, &named, 0, 8, self->host.iova,
					    self->host_mr->rkey);

	if (status)
		pair_connect(&self->pair, IBV_MTU_1024);
	return status;
}

/* Its keys work in its own PD only, for every operation, as remote keys and as local ones. */
static void refuses_keys(struct __test_metadata *_metadata, FIXTURE_DATA(other_process) *self,
			 uint32_t lkey, uint32_t rkey)
{
	memset(self->host.cpu, 0x55, self->host.size);
	memory_mark(&self->host);
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, remote(self, IBV_WR_RDMA_WRITE, rkey));
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, remote(self, IBV_WR_RDMA_READ, rkey));
	if (device_can("atomics"))
		ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, remote(self, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey));
	ASSERT_EQ(IBV_WC_LOC_PROT_ERR, local(self, IBV_WR_RDMA_WRITE, lkey));
	ASSERT_EQ(IBV_WC_LOC_PROT_ERR, local(self, IBV_WR_RDMA_READ, lkey));
	ASSERT_TRUE(memory_untouched(&self->host));
}

TEST_F(other_process, keys_of_another_process_are_refused)
{
	refuses_keys(_metadata, self, self->secrets.lkey, self->secrets.rkey);
	ASSERT_TRUE(is_unharmed(self));
}

TEST_F(other_process, keys_of_another_pd_are_refused)
{
	struct ibv_pd *pd = must(ibv_alloc_pd(self->ctx));
	struct pair pair;

	dm_open_filled(&self->own, self->ctx, SIZE, 5);
	self->own_mr = dm_reg(&self->own, pd, RWA);
	refuses_keys(_metadata, self, self->own_mr->lkey, self->own_mr->rkey);
	ASSERT_TRUE(dm_untouched(&self->own));
	/* In that PD it works. */
	pair_open_in(&pair, pd);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&pair, IBV_WR_RDMA_READ, self->own_mr, 0, 8, 8,
					  self->own_mr->rkey));
	pair_close(&pair);
	mr_close(self->own_mr);
	self->own_mr = NULL;
	pd_close(pd);
	ASSERT_TRUE(is_unharmed(self));
}

/* A handle names an object of its own context, if any: here there is none like it. */
TEST_F(other_process, handles_of_another_process_are_refused)
{
	struct ibv_context *fresh = device_open();
	struct ibv_pd *pd = must(ibv_alloc_pd(fresh));
	int fd = fresh->cmd_fd;
	struct keys keys;

	/* Whatever its number is, in a context with no DM it is none. */
	for (uint32_t handle = 0; handle < 64; handle++) {
		ASSERT_NE(0, dm_call_free(fd, handle));
		ASSERT_NE(0, dm_call_reg(fd, pd->handle, handle, 0, 64,
					 RW | IBV_ACCESS_ZERO_BASED, &keys));
	}
	ASSERT_NE(0, dm_call_free(fd, self->secrets.dm));
	ASSERT_NE(0, dm_call_reg(fd, pd->handle, self->secrets.dm, 0, 64,
				 RW | IBV_ACCESS_ZERO_BASED, &keys));
	pd_close(pd);
	device_close(fresh);
	ASSERT_TRUE(is_unharmed(self));
}

/* Whether a mapping of the device's file there either fails, or is not the other's memory. */
static bool maps_nothing_of_it(int fd, uint64_t offset, size_t length)
{
	uint8_t *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);

	if (p == MAP_FAILED)
		return true;
	printf("# mmap of %zu bytes at %#lx of the device's file succeeded\n", length, offset);
	munmap(p, length);
	return false;
}

/*
 * A context whose library has not mapped anything yet has no mapping to be had at all where
 * the other process has one, nor beside it; nor has the library's own, with a DM in it.
 */
TEST_F(other_process, mmap_at_an_offset_of_another_process_fails)
{
	struct secrets *s = &self->secrets;
	struct ibv_context *fresh = device_open();

	for (long page = -8; page <= 8; page++) {
		uint64_t offset = s->offset + page * (long)PAGE;

		if ((int64_t)offset < 0)
			continue;
		ASSERT_TRUE(maps_nothing_of_it(fresh->cmd_fd, offset, PAGE));
		ASSERT_TRUE(maps_nothing_of_it(fresh->cmd_fd, offset, s->length));
		ASSERT_TRUE(maps_nothing_of_it(fresh->cmd_fd, offset, 64 * PAGE));
	}
	device_close(fresh);
	ASSERT_TRUE(is_unharmed(self));
}

/* With the first bytes of a page a process gets all of it: there is nobody else's in it. */
TEST_F(other_process, rest_of_the_page_of_a_small_dm_is_zero)
{
	struct dm small[8] = {};
	uint8_t page[PAGE];

	for (int i = 0; i < ARRAY_SIZE(small); i++)
		dm_open_filled(&small[i], self->ctx, 64, 100 + i);
	for (int i = 0; i < ARRAY_SIZE(small); i++) {
		char line[512];
		FILE *f = must(fopen("/proc/self/maps", "r"));
		int found = 0;

		/* Each of the page-sized mappings: a pattern at its start or none, then zeroes. */
		while (fgets(line, sizeof(line), f)) {
			unsigned long from, to;
			uint8_t start[64];

			if (!strstr(line, "/dev/infiniband/uverbs") || !strstr(line, "rw") ||
			    sscanf(line, "%lx-%lx", &from, &to) != 2 || to - from != PAGE)
				continue;
			fill(start, sizeof(start), 100 + i);
			for (int k = 0; k < PAGE; k += 4)
				memcpy(page + k, (const uint8_t *)from + k, 4);
			if (memcmp(page, start, sizeof(start)))
				continue;
			found++;
			for (int k = sizeof(start); k < PAGE; k++)
				ASSERT_EQ(0, page[k]);
		}
		fclose(f);
		ASSERT_EQ(1, found);
	}
	for (int i = 0; i < ARRAY_SIZE(small); i++)
		dm_close(&small[i]);
	ASSERT_TRUE(is_unharmed(self));
}

TEST_HARNESS_MAIN
