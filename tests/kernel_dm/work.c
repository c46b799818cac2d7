// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a ULP does with device memory: count, keep a ring, copy, give rights
 *
 * Each function begins with no DM, and the caller frees what it leaves, also if it fails.
 * All that a peer does, it does by an rkey and through the device.  The CPU looks at DM with
 * ib_memcpy_from_dm() only.
 */

#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "user.h"

#define COUNTS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_ATOMIC)

static u64 host64(struct dm_user *u)
{
	u64 value;

	user_host_for_cpu(u);
	value = *(u64 *)u->host;
	user_host_for_device(u);
	return value;
}

/* --- counter: both ends count, and each sees what was there before it */

#define COUNTER 64	/* where it is in the DM */
#define START (1ull << 40)
#define ROUNDS 64

static int count_once(struct dm_user *u, struct ib_dm *dm, struct ib_mr *counter,
		      struct ib_mr *results, int n, u64 sum)
{
	u64 at = n * sizeof(u64), was;
	int status;

	if (n % 2) {
		status = user_fetch_add(u, n % 3 == 0, of_lkey(results, at), of_rkey(counter, 0), n);
		was = get64(dm, PAGE_SIZE + at);
	} else {
		status = user_fetch_add(u, n % 3 == 0, in_host(u, 0), of_rkey(counter, 0), n);
		was = host64(u);
	}
	if (status < 0)
		return status;
	EXPECT(u, !status, "fetch and add %d: status %d", n, status);
	EXPECT(u, was == sum, "fetch and add %d found %llu, not %llu", n, was, sum);
	return 0;
}

/* Nothing beside it has changed. */
static int check_counter(struct dm_user *u, struct ib_dm *dm, u64 sum)
{
	int err;

	EXPECT(u, get64(dm, COUNTER) == sum, "the counter is %llu, not %llu", get64(dm, COUNTER),
	       sum);
	fill(u->host, PAGE_SIZE, 1);
	err = ib_memcpy_to_dm(dm, COUNTER, u->host + COUNTER, sizeof(u64));
	return err ?: check_pattern(u, dm, 0, PAGE_SIZE, 1);
}

static int make_counter(struct dm_user *u, struct ib_dm **dm, struct ib_mr **counter)
{
	int err = user_alloc(u, 2 * PAGE_SIZE, dm);

	return err ?: user_reg(u, *dm, COUNTER, sizeof(u64), COUNTS, counter) ?:
	       put_pattern(u, *dm, 0, PAGE_SIZE, 1) ?:
	       put64(*dm, COUNTER, START);
}

int run_counter(struct dm_user *u, const char *arg)
{
	struct ib_mr *counter, *results;
	struct ib_dm *dm;
	u64 sum = START;
	int err, n;

	err = make_counter(u, &dm, &counter);
	if (err)
		return err;
	err = user_reg(u, dm, PAGE_SIZE, ROUNDS * sizeof(u64), IB_ACCESS_LOCAL_WRITE, &results);

	for (n = 0; !err && n < ROUNDS; n++) {
		err = count_once(u, dm, counter, results, n, sum);
		sum += n;
	}
	return err ?: check_counter(u, dm, sum);
}

/* --- serve and served: the peer that counts is a process; ARG is its queue pair */

int run_serve(struct dm_user *u, const char *arg)
{
	struct ib_mr *counter;
	struct ib_dm *dm;
	int err;
	u32 qpn;

	err = kstrtou32(arg, 0, &qpn);
	if (err)
		return err;
	EXPECT(u, !u->dms, "the ULP has DM already");
	err = make_counter(u, &dm, &counter) ?: user_connect_to(u, qpn);
	if (err)
		return err;
	scnprintf(u->text, sizeof(u->text), "%u %u", u->qp[0]->qp_num, counter->rkey);
	return 0;
}

/* It is now so much more. */
int run_served(struct dm_user *u, const char *arg)
{
	u64 added;
	int err = kstrtou64(arg, 0, &added);

	if (err)
		return err;
	EXPECT(u, u->dms == 1, "serve has not run");
	return check_counter(u, u->dm[0], START + added);
}

/* --- ring: a producer at one end, a consumer at the other */

/*
 * The ring, header and slots, is the consumer's: the first page.  In the second page the
 * producer has its own copies of both counters, from where it writes one of them into the
 * header, and to where it reads the other.  So the header never is in ordinary memory.
 */
#define PRODUCED 0
#define CONSUMED 8
#define SLOTS 512
#define SLOT_SIZE 64
#define NR_SLOTS 8
#define MESSAGES 50

struct ring {
	struct ib_dm *dm;
	struct ib_mr *ring;	/* for the peer, by rkey */
	struct ib_mr *own;	/* for the producer, by lkey */
	u64 produced;
	u64 consumed;
};

static int ring_op(struct dm_user *u, enum ib_wr_opcode opcode, struct place local, u32 length,
		   struct place remote)
{
	int status = user_rdma(u, 0, opcode, local, length, remote);

	if (status < 0)
		return status;
	EXPECT(u, !status, "ring, opcode %d: status %d", opcode, status);
	return 0;
}

static int ring_produce(struct dm_user *u, struct ring *r)
{
	u64 at = SLOTS + r->produced % NR_SLOTS * SLOT_SIZE;
	int err;

	user_host_for_cpu(u);
	fill(u->host, SLOT_SIZE, r->produced);
	user_host_for_device(u);
	err = ring_op(u, PUT, in_host(u, 0), SLOT_SIZE, of_rkey(r->ring, at));
	if (err)
		return err;
	err = put64(r->dm, PAGE_SIZE + PRODUCED, ++r->produced);
	return err ?: ring_op(u, PUT, of_lkey(r->own, PRODUCED), sizeof(u64),
			      of_rkey(r->ring, PRODUCED));
}

static int ring_consume(struct dm_user *u, struct ring *r)
{
	u64 produced = get64(r->dm, PRODUCED);
	int err = 0;

	EXPECT(u, produced == r->produced, "the header says %llu produced, not %llu",
	       produced, r->produced);
	for (; !err && r->consumed < produced; r->consumed++)
		err = check_pattern(u, r->dm, SLOTS + r->consumed % NR_SLOTS * SLOT_SIZE,
				    SLOT_SIZE, r->consumed);
	return err ?: put64(r->dm, CONSUMED, r->consumed);
}

/* How much the producer sees consumed. */
static int ring_look(struct dm_user *u, struct ring *r)
{
	int err = ring_op(u, GET, of_lkey(r->own, CONSUMED), sizeof(u64),
			  of_rkey(r->ring, CONSUMED));
	u64 consumed = get64(r->dm, PAGE_SIZE + CONSUMED);

	if (err)
		return err;
	EXPECT(u, consumed == r->consumed, "the producer reads %llu consumed, not %llu",
	       consumed, r->consumed);
	return 0;
}

int run_ring(struct dm_user *u, const char *arg)
{
	struct ring r = {};
	int err;

	err = user_alloc(u, 2 * PAGE_SIZE, &r.dm);
	if (err)
		return err;
	err = user_reg(u, r.dm, 0, PAGE_SIZE, WRITES | READS, &r.ring) ?:
	      user_reg(u, r.dm, PAGE_SIZE, 2 * sizeof(u64), IB_ACCESS_LOCAL_WRITE, &r.own) ?:
	      put64(r.dm, PRODUCED, 0) ?: put64(r.dm, CONSUMED, 0);

	while (!err && r.produced < MESSAGES) {
		err = ring_produce(u, &r);
		/* Fuller from one time to the next. */
		if (!err && r.produced - r.consumed > r.produced % NR_SLOTS)
			err = ring_consume(u, &r) ?: ring_look(u, &r);
	}
	return err;
}

/* --- copy: every byte, and no other one */

#define COPY_SIZE (2 * PAGE_SIZE + 36)
#define AROUND 16	/* bytes that are compared before and after */

static int copy_once(struct dm_user *u, struct ib_dm *dm, u8 *is, u64 at, size_t n, u32 seed)
{
	u64 from = at < AROUND ? 0 : round_down(at - AROUND, WORD);
	u64 end = min_t(u64, round_up(at + n + AROUND, WORD), COPY_SIZE);
	u8 bytes[128 + 2 * AROUND + 2 * WORD];
	int err;

	memset(bytes, 0x5a, sizeof(bytes));
	if (!dm->mem->vaddr && !IS_ALIGNED(at | n, WORD)) {
		err = ib_memcpy_to_dm(dm, at, bytes, n);
		EXPECT(u, err == -EINVAL, "copy of %zu bytes to %llu: %d, not -EINVAL", n, at, err);
		err = ib_memcpy_from_dm(bytes, dm, at, n);
		EXPECT(u, err == -EINVAL, "copy of %zu bytes from %llu: %d, not -EINVAL", n, at,
		       err);
		return 0;
	}
	fill(is + at, n, seed);
	err = ib_memcpy_to_dm(dm, at, is + at, n) ?:
	      ib_memcpy_from_dm(bytes, dm, from, end - from);
	if (err)
		return err;
	EXPECT(u, !memcmp(bytes, is + from, end - from),
	       "copy of %zu bytes to %llu: other bytes are there", n, at);
	EXPECT(u, !memchr_inv(bytes + (end - from), 0x5a, sizeof(bytes) - (end - from)),
	       "copy of %llu bytes from %llu wrote more than these", end - from, from);
	return 0;
}

static int copy_all(struct dm_user *u, struct ib_dm *dm, u8 *is)
{
	static const u16 places[] = {
		0, 1, 2, 3, 4, 5, 7, 8, 63, 64, 4089, 4095, 4096, 4097, COPY_SIZE - 128
	};
	static const u16 lengths[] = { 0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 64, 127, 128 };
	u32 seed = 1;
	int err, p, l;

	fill(is, COPY_SIZE, 0);
	err = ib_memcpy_to_dm(dm, 0, is, COPY_SIZE);
	for (p = 0; p < ARRAY_SIZE(places); p++)
		for (l = 0; !err && l < ARRAY_SIZE(lengths); l++)
			err = copy_once(u, dm, is, places[p], lengths[l], seed++);
	for (l = 0; !err && l < ARRAY_SIZE(lengths); l++)
		err = copy_once(u, dm, is, COPY_SIZE - lengths[l], lengths[l], seed++);
	return err;
}

int run_copy(struct dm_user *u, const char *arg)
{
	u8 *is, *bytes;
	struct ib_dm *dm;
	int err;

	err = user_alloc(u, COPY_SIZE, &dm);
	if (err)
		return err;
	is = kvmalloc(COPY_SIZE, GFP_KERNEL);
	bytes = kvmalloc(COPY_SIZE, GFP_KERNEL);
	if (is && bytes)
		err = copy_all(u, dm, is) ?: ib_memcpy_from_dm(bytes, dm, 0, COPY_SIZE);
	else
		err = -ENOMEM;
	if (!err && memcmp(is, bytes, COPY_SIZE))
		err = user_finds(u, "a byte of the DM has changed that no copy named");
	kvfree(is);
	kvfree(bytes);
	return err;
}

/* --- regions: each has its range and its rights, and no others */

#define REGIONS_SIZE (2 * PAGE_SIZE)

static const struct region {
	u64 offset;
	u64 length;
	int access;
} regions[] = {
	{ 0, 100, WRITES | READS },
	{ 100, 1000, READS },
	{ 1000, PAGE_SIZE, WRITES },	/* 100 bytes of the one before are in it */
	{ PAGE_SIZE + 1000, PAGE_SIZE - 1000, IB_ACCESS_LOCAL_WRITE },
	{ 3, REGIONS_SIZE - 3, 0 },
};

#define NR_REGIONS ARRAY_SIZE(regions)

/* N bytes at AT are those of SEED, and no other byte has changed.  Then nothing has. */
static int check_and_restore(struct dm_user *u, struct ib_dm *dm, u64 at, u32 n, u32 seed)
{
	u8 *is = u->host, *bytes = u->host + REGIONS_SIZE;
	int err;

	fill(is, REGIONS_SIZE, 3);
	fill(is + at, n, seed);
	err = ib_memcpy_from_dm(bytes, dm, 0, REGIONS_SIZE);
	if (err)
		return err;
	EXPECT(u, !memcmp(is, bytes, REGIONS_SIZE),
	       "%u bytes at %llu are not there, or others have changed", n, at);
	return put_pattern(u, dm, 0, REGIONS_SIZE, 3);
}

/* The peer gets or puts N bytes at AT of a region. */
static int region_op(struct dm_user *u, struct ib_dm *dm, int nr, enum ib_wr_opcode opcode, u64 at,
		     u32 n)
{
	const struct region *r = &regions[nr];
	bool may = r->access & (opcode == GET ? IB_ACCESS_REMOTE_READ : IB_ACCESS_REMOTE_WRITE);
	bool inside = at <= r->length && n <= r->length - at;
	int expected = may && inside ? IB_WC_SUCCESS : IB_WC_REM_ACCESS_ERR;
	int status, err;

	user_host_for_cpu(u);
	fill(u->host, n, 7);
	user_host_for_device(u);
	status = user_rdma(u, nr % 2, opcode, in_host(u, 0), n, of_rkey(u->mr[nr], at));
	if (status < 0)
		return status;
	EXPECT(u, status == expected, "region %d, opcode %d, %u bytes at %llu: status %d, not %d",
	       nr, opcode, n, at, status, expected);
	if (status)
		return user_connect(u) ?: check_pattern(u, dm, 0, REGIONS_SIZE, 3);

	if (opcode == PUT)
		return check_and_restore(u, dm, r->offset + at, n, 7);
	user_host_for_cpu(u);
	fill(u->host + n, REGIONS_SIZE, 3);
	err = memcmp(u->host, u->host + n + r->offset + at, n);
	user_host_for_device(u);
	EXPECT(u, !err, "region %d: RDMA read returned other bytes", nr);
	return 0;
}

/* The user itself gets N bytes of region 0 to AT of a region, by its lkey. */
static int region_local(struct dm_user *u, struct ib_dm *dm, int nr, u64 at, u32 n)
{
	const struct region *r = &regions[nr];
	bool may = r->access & IB_ACCESS_LOCAL_WRITE;
	bool inside = at <= r->length && n <= r->length - at;
	int status;

	status = user_rdma(u, 0, GET, of_lkey(u->mr[nr], at), n, of_rkey(u->mr[0], 0));
	if (status < 0)
		return status;
	EXPECT(u, !status == (may && inside), "region %d, read of %u bytes to %llu: status %d",
	       nr, n, at, status);
	if (status)
		return user_connect(u) ?: check_pattern(u, dm, 0, REGIONS_SIZE, 3);

	return check_and_restore(u, dm, r->offset + at, n, 3);
}

int run_regions(struct dm_user *u, const char *arg)
{
	struct ib_dm *dm;
	struct ib_mr *mr;
	int err, i;

	err = user_alloc(u, REGIONS_SIZE, &dm);
	if (!err)
		err = put_pattern(u, dm, 0, REGIONS_SIZE, 3);
	for (i = 0; !err && i < NR_REGIONS; i++)
		err = user_reg(u, dm, regions[i].offset, regions[i].length, regions[i].access,
			       &mr);
	for (i = 0; !err && i < NR_REGIONS; i++) {
		u64 length = regions[i].length;

		err = region_op(u, dm, i, GET, 0, 80) ?:
		      region_op(u, dm, i, PUT, 0, 80) ?:
		      region_op(u, dm, i, GET, length - 33, 33) ?:
		      region_op(u, dm, i, PUT, length - 33, 33) ?:
		      region_op(u, dm, i, GET, length - 33, 34) ?:
		      region_op(u, dm, i, PUT, length - 33, 34) ?:
		      region_op(u, dm, i, PUT, length, 1) ?:
		      region_local(u, dm, i, 0, 64) ?:
		      region_local(u, dm, i, length - 63, 64);
	}
	return err;
}
