// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: rxe */
/* runs: full debug-full; devices: connectx */
/*
 * One piece of device memory has several regions, at any offsets, with different rights: each
 * reaches its own range and no other byte, and permits what its own rights say.
 *
 * They end one by one, and cannot be reregistered.
 */
#include "dm/dm_pair.h"

/* They lie side by side, so one byte past the end of one is the first byte of the next. */
static const struct {
	size_t at, n;
	int rights;
} parts[] = {
	{ 0, 1, RWA },
	{ 1, 999, LOCAL_WRITE | REMOTE_WRITE },
	{ 1000, PAGE + 1, REMOTE_READ },
	{ PAGE + 1001, 1, 0 },
	{ PAGE + 1002, 1502, LOCAL_WRITE },
	{ PAGE + 2504, 16, LOCAL_WRITE | REMOTE_ATOMIC },
	{ PAGE + 2520, PAGE, RW },
	{ 2 * PAGE + 2520, 64, RWA },
};
#define PARTS ARRAY_SIZE(parts)

/* What they all do together: the fixture dm, and these. */
struct regions {
	struct ibv_mr *mr[PARTS];
};

static void regions_open(struct regions *r, FIXTURE_DATA(dm) *self)
{
	for (int i = 0; i < PARTS; i++)
		r->mr[i] = dm_reg_part(&self->dm, self->pair.pd, parts[i].at, parts[i].n,
				       parts[i].rights);
}

static void regions_close(struct regions *r)
{
	for (int i = 0; i < PARTS; i++)
		mr_close(r->mr[i]);
}

/* STATUS as it should be; after an error the pair is connected again. */
static bool ends_with(FIXTURE_DATA(dm) *self, enum ibv_wc_status status,
		      enum ibv_wc_status expected, const char *what, int part)
{
	if (status != IBV_WC_SUCCESS)
		pair_connect(&self->pair, IBV_MTU_1024);
	if (status == expected)
		return true;
	printf("# %s of part %d: %s, not %s\n", what, part, ibv_wc_status_str(status),
	       ibv_wc_status_str(expected));
	return false;
}

static enum ibv_wc_status if_allowed(int rights, int needed, enum ibv_wc_status otherwise)
{
	return (rights & needed) == needed ? IBV_WC_SUCCESS : otherwise;
}

TEST_F(dm, mrs_are_zero_based_and_as_long_as_asked)
{
	struct regions r;

	regions_open(&r, self);
	for (int i = 0; i < PARTS; i++) {
		struct mr_info info;

		ASSERT_EQ(NULL, r.mr[i]->addr);
		ASSERT_EQ(parts[i].n, r.mr[i]->length);
		ASSERT_EQ(0, mr_query(self->ctx->cmd_fd, r.mr[i]->handle, &info));
		ASSERT_EQ(parts[i].n, info.length);
		ASSERT_EQ(r.mr[i]->rkey, info.rkey);
		for (int k = 0; k < i; k++)
			ASSERT_NE(r.mr[k]->rkey, r.mr[i]->rkey);
	}
	regions_close(&r);
}

static bool peer_writes(FIXTURE_DATA(dm) *self, struct ibv_mr *mr, int i)
{
	enum ibv_wc_status allowed = if_allowed(parts[i].rights, REMOTE_WRITE,
						IBV_WC_REM_ACCESS_ERR);
	size_t at = parts[i].at, n = parts[i].n;

	fill(self->host.cpu, n, 20 + i);
	if (!ends_with(self, host_op(self, IBV_WR_RDMA_WRITE, n, 0, mr->rkey), allowed, "write", i))
		return false;
	if (allowed)
		return dm_untouched(&self->dm);
	if (!dm_filled(&self->dm, at, n, 20 + i, "written") || !dm_only_changed(&self->dm, at, n))
		return false;
	dm_restore(&self->dm, at, n);
	return true;
}

static bool peer_reads(FIXTURE_DATA(dm) *self, struct ibv_mr *mr, int i)
{
	enum ibv_wc_status allowed = if_allowed(parts[i].rights, REMOTE_READ,
						IBV_WC_REM_ACCESS_ERR);
	const uint8_t *there = self->dm.before + parts[i].at;
	size_t n = parts[i].n;

	memset(self->host.cpu, 0x55, HOST_SIZE);
	if (!ends_with(self, host_op(self, IBV_WR_RDMA_READ, n, 0, mr->rkey), allowed, "read", i))
		return false;
	/* What was not read is not there, not even a part of it. */
	for (size_t k = 0; k < n && allowed; k++)
		if (self->host.cpu[k] != 0x55)
			return false;
	return (allowed || !memcmp(self->host.cpu, there, n)) && self->host.cpu[n] == 0x55;
}

TEST_F(dm, access_flags_decide_remote_write_and_read)
{
	struct regions r;

	regions_open(&r, self);
	for (int i = 0; i < PARTS; i++) {
		ASSERT_TRUE(peer_writes(self, r.mr[i], i));
		ASSERT_TRUE(peer_reads(self, r.mr[i], i));
	}
	regions_close(&r);
}

/* The parts with words are aligned to them. */
TEST_F(dm, access_flags_decide_remote_atomics)
{
	struct regions r;

	need("atomics");
	regions_open(&r, self);
	for (int i = 0; i < PARTS; i++) {
		enum ibv_wc_status allowed = if_allowed(parts[i].rights, REMOTE_ATOMIC,
							IBV_WC_REM_ACCESS_ERR);

		if (parts[i].n < 8 || parts[i].at % 8)
			continue;
		ASSERT_TRUE(ends_with(self, atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD,
						      self->host_mr, 0, r.mr[i]->rkey, 1, 0),
				      allowed, "atomic", i));
		ASSERT_TRUE(dm_only_changed(&self->dm, parts[i].at, allowed ? 0 : 8));
		dm_restore(&self->dm, parts[i].at, 8);
	}
	regions_close(&r);
}

/* Its lkey: any region is a source, only one with local write is a sink. */
TEST_F(dm, access_flags_decide_local_access)
{
	struct regions r;

	regions_open(&r, self);
	for (int i = 0; i < PARTS; i++) {
		enum ibv_wc_status allowed = if_allowed(parts[i].rights, LOCAL_WRITE,
							IBV_WC_LOC_PROT_ERR);
		size_t at = parts[i].at, n = parts[i].n;

		memset(self->host.cpu, 0x55, HOST_SIZE);
		ASSERT_TRUE(ends_with(self, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, r.mr[i], 0, n,
						    self->host.iova, self->host_mr->rkey),
				      IBV_WC_SUCCESS, "write from", i));
		ASSERT_EQ(0, memcmp(self->host.cpu, self->dm.before + at, n));
		ASSERT_EQ(0x55, self->host.cpu[n]);

		fill(self->host.cpu, n, 40 + i);
		ASSERT_TRUE(ends_with(self, rdma_op(&self->pair, IBV_WR_RDMA_READ, r.mr[i], 0, n,
						    self->host.iova, self->host_mr->rkey),
				      allowed, "read into", i));
		if (!allowed)
			ASSERT_TRUE(dm_filled(&self->dm, at, n, 40 + i, "read into it"));
		ASSERT_TRUE(dm_only_changed(&self->dm, at, allowed ? 0 : n));
		dm_restore(&self->dm, at, n);
	}
	regions_close(&r);
}

/* An access to an MR of N bytes that its edges do not permit. */
struct edge {
	uint64_t at;
	uint32_t n;
};
#define EDGES 5

static struct edge edge_of(size_t n, int k)
{
	const struct edge edges[EDGES] = {
		{ n, 1 }, { 0, n + 1 }, { n - 1, 2 }, { -1ull, 1 }, { -8ull, 16 },
	};

	return edges[k];
}

TEST_F(dm, remote_access_past_the_edges_is_refused)
{
	struct regions r;

	regions_open(&r, self);
	for (int i = 0; i < PARTS; i++) {
		for (int k = 0; k < EDGES; k++) {
			struct edge e = edge_of(parts[i].n, k);

			ASSERT_TRUE(ends_with(self, host_op(self, IBV_WR_RDMA_WRITE, e.n, e.at,
							    r.mr[i]->rkey),
					      IBV_WC_REM_ACCESS_ERR, "write", i)) {
				TH_LOG("%u bytes at %#lx", e.n, e.at);
			}
			ASSERT_TRUE(ends_with(self, host_op(self, IBV_WR_RDMA_READ, e.n, e.at,
							    r.mr[i]->rkey),
					      IBV_WC_REM_ACCESS_ERR, "read", i)) {
				TH_LOG("%u bytes at %#lx", e.n, e.at);
			}
		}
	}
	ASSERT_TRUE(dm_untouched(&self->dm));
	regions_close(&r);
}

/*
 * A request that fails may have been done in part, up to the edge.  Whether what it has
 * brought to the ordinary memory, of which every byte was 0x55, is of the region only.
 */
static bool brought_nothing_else(FIXTURE_DATA(dm) *self, int i, struct edge e)
{
	const uint8_t *region = self->dm.before + parts[i].at;

	for (uint32_t k = 0; k < HOST_SIZE; k++) {
		uint8_t byte = self->host.cpu[k];
		uint64_t at = e.at + k;

		if (byte == 0x55 || (k < e.n && at < parts[i].n && byte == region[at]))
			continue;
		printf("# part %d: byte %u of the data came from outside of the MR\n", i, k);
		return false;
	}
	return true;
}

TEST_F(dm, local_access_past_the_edges_is_refused)
{
	struct regions r;

	regions_open(&r, self);
	for (int i = 0; i < PARTS; i++) {
		for (int k = 0; k < EDGES; k++) {
			struct edge e = edge_of(parts[i].n, k);

			memset(self->host.cpu, 0x55, HOST_SIZE);
			ASSERT_TRUE(ends_with(self, rdma_op(&self->pair, IBV_WR_RDMA_WRITE,
							    r.mr[i], e.at, e.n, self->host.iova,
							    self->host_mr->rkey),
					      IBV_WC_LOC_PROT_ERR, "write from", i)) {
				TH_LOG("%u bytes at %#lx", e.n, e.at);
			}
			ASSERT_TRUE(brought_nothing_else(self, i, e));
			memset(self->host.cpu, 0xaa, HOST_SIZE);
			ASSERT_TRUE(ends_with(self, rdma_op(&self->pair, IBV_WR_RDMA_READ,
							    r.mr[i], e.at, e.n, self->host.iova,
							    self->host_mr->rkey),
					      IBV_WC_LOC_PROT_ERR, "read into", i)) {
				TH_LOG("%u bytes at %#lx", e.n, e.at);
			}
		}
		ASSERT_TRUE(dm_only_changed(&self->dm, parts[i].at, parts[i].n));
		dm_restore(&self->dm, parts[i].at, parts[i].n);
	}
	regions_close(&r);
}

/* Which of the two ends says so first, and how, depends on the device. */
TEST_F(dm, receive_past_the_edge_or_without_right_fails)
{
	struct regions r;

	regions_open(&r, self);
	memset(self->host.cpu, 0xaa, HOST_SIZE);
	for (int i = 0; i < PARTS; i++) {
		bool writable = parts[i].rights & LOCAL_WRITE;
		struct pair pair;

		pair_open_in(&pair, self->pair.pd);
		post_recv(&pair, r.mr[i], 0, parts[i].n + writable);
		ASSERT_NE(IBV_WC_SUCCESS, rdma_op(&pair, IBV_WR_SEND, self->host_mr,
						  self->host.iova, parts[i].n + writable, 0, 0));
		pair_close(&pair);
		ASSERT_TRUE(dm_only_changed(&self->dm, parts[i].at, writable ? parts[i].n : 0));
		dm_restore(&self->dm, parts[i].at, parts[i].n);
	}
	regions_close(&r);
}

/* Memory may be misaligned where the address in the region is not; then all or nothing. */
TEST_F(dm, atomic_at_an_odd_offset_tears_no_word)
{
	uint64_t *old = (uint64_t *)self->host.cpu, was, is;
	struct ibv_mr *mr;

	need("atomics");
	for (size_t at = PAGE - 7; at < PAGE; at++) {
		enum ibv_wc_status status;

		mr = dm_reg_part(&self->dm, self->pair.pd, at, 8, RWA);
		memcpy(&was, self->dm.before + at, 8);
		status = atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, self->host_mr, 0,
				   mr->rkey, 1, 0);
		dm_get(&self->dm, at, &is, 8);
		if (status) {
			ASSERT_TRUE(status == IBV_WC_REM_INV_REQ_ERR ||
				    status == IBV_WC_REM_ACCESS_ERR);
			pair_connect(&self->pair, IBV_MTU_1024);
		} else {
			ASSERT_EQ(was, *old);
		}
		ASSERT_EQ(was + !status, is);
		ASSERT_TRUE(dm_only_changed(&self->dm, at, 8));
		dm_restore(&self->dm, at, 8);
		mr_close(mr);
	}
}

TEST_F(dm, mrs_may_overlap)
{
	struct ibv_mr *mr[2] = {
		dm_reg_part(&self->dm, self->pair.pd, 100, PAGE, RW),
		dm_reg_part(&self->dm, self->pair.pd, 101, PAGE, RW),
	};

	fill(self->host.cpu, PAGE, 60);
	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, PAGE, 0, mr[0]->rkey));
	memset(self->host.cpu, 0, HOST_SIZE);
	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_READ, PAGE - 1, 0, mr[1]->rkey));
	ASSERT_TRUE(dm_filled(&self->dm, 100, PAGE, 60, "device memory"));
	/* Byte 0 of the second is byte 1 of the first. */
	for (int i = 0; i < PAGE - 1; i += 61) {
		uint8_t byte;

		dm_get(&self->dm, 101 + i, &byte, 1);
		ASSERT_EQ(byte, self->host.cpu[i]);
	}
	mr_close(mr[0]);
	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_READ, PAGE, 0, mr[1]->rkey));
	mr_close(mr[1]);
}

#define MANY 200

/* Also more of them than the memory has words. */
TEST_F(dm, one_dm_takes_200_mrs)
{
	struct ibv_mr *mr[MANY];

	for (int i = 0; i < MANY; i++)
		mr[i] = dm_reg_part(&self->dm, self->pair.pd, i, 3, RW);
	for (int i = 0; i < MANY; i += 2)
		mr_close(mr[i]);
	for (int i = 1; i < MANY; i += 2) {
		memset(self->host.cpu, i, 3);
		ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, 3, 0, mr[i]->rkey));
		mr_close(mr[i]);
	}
	/* Of each two bytes are left, before the next one begins. */
	dm_get(&self->dm, 0, self->host.cpu, SIZE);
	for (int i = 1; i < MANY + 1; i++)
		ASSERT_EQ(i - !(i % 2), self->host.cpu[i]);
	ASSERT_EQ(MANY - 1, self->host.cpu[MANY + 1]);
	ASSERT_TRUE(dm_only_changed(&self->dm, 1, MANY + 1));
}

TEST_F(dm, dereg_ends_one_mr_and_no_other)
{
	uint32_t rkey[PARTS];
	struct regions r;

	regions_open(&r, self);
	for (int i = 0; i < PARTS; i++) {
		rkey[i] = r.mr[i]->rkey;
		mr_close(r.mr[i]);
		for (int k = 0; k <= i; k++)
			ASSERT_TRUE(ends_with(self, host_op(self, IBV_WR_RDMA_WRITE, 1, 0, rkey[k]),
					      IBV_WC_REM_ACCESS_ERR, "write", k));
		ASSERT_TRUE(dm_untouched(&self->dm));
		for (int k = i + 1; k < PARTS; k++) {
			bool may = parts[k].rights & REMOTE_READ;

			ASSERT_TRUE(ends_with(self, host_op(self, IBV_WR_RDMA_READ, 1, 0,
							    r.mr[k]->rkey),
					      may ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR,
					      "read", k));
		}
		ASSERT_EQ(EBUSY, dm_try_close(&self->dm));
	}
	/* The region of the fixture is all that is left. */
	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, 1, 0, self->mr->rkey));
}

/* By both calls, whatever it is to change; it then is as before. */
TEST_F(dm, rereg_of_a_dm_mr_is_einval)
{
	struct ibv_mr *mr = dm_reg_part(&self->dm, self->pair.pd, 1, PAGE, RW);
	struct ibv_pd *other = must(ibv_alloc_pd(self->ctx));
	static const int flags[] = { TRANS, CHANGE_PD, CHANGE_ACCESS, CHANGE_ALL };
	uint32_t rkey = mr->rkey;
	struct memory memfd;

	need("atomics");
	memory_open(&memfd, MEMFD, PAGE);
	for (int i = 0; i < ARRAY_SIZE(flags); i++) {
		struct keys keys;
		struct fd_call c = {
			.rereg = true, .mr = mr->handle, .flags = flags[i], .pd = other->handle,
			.access = RWA, .type = IB_UVERBS_BUFFER_TYPE_MEMFD, .fd = memfd.fd,
			.length = PAGE,
		};

		ASSERT_EQ(EINVAL, host_rereg(self->ctx->cmd_fd, mr->handle, flags[i],
					     other->handle, self->host.iova, PAGE,
					     self->host.iova, RWA, &keys));
		if (device_can("native"))
			ASSERT_EQ(EINVAL, fd_call(self->ctx->cmd_fd, &c, &keys));
	}
	ASSERT_EQ(rkey, mr->rkey);
	fill(self->host.cpu, PAGE, 70);
	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, PAGE, 0, mr->rkey));
	ASSERT_TRUE(dm_filled(&self->dm, 1, PAGE, 70, "device memory"));
	ASSERT_TRUE(dm_only_changed(&self->dm, 1, PAGE));
	ASSERT_TRUE(ends_with(self, atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD,
					      self->host_mr, 0, mr->rkey, 1, 0),
			      IBV_WC_REM_ACCESS_ERR, "atomic", 0));
	ASSERT_TRUE(memory_is_zero(&memfd));
	memory_close(&memfd);
	mr_close(mr);
	pd_close(other);
}

TEST_HARNESS_MAIN
