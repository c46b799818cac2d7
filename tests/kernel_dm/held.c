// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Device memory that a ULP keeps from one command to the next
 *
 * A process looks meanwhile whether it finds anything of it, or leaves what the ULP is
 * not to find; or the device leaves.
 */

#include <linux/kernel.h>
#include <linux/string.h>
#include "user.h"

/* --- take: all that is left */

/* Halve the size of a piece when there is none of that size left. */
int run_take(struct dm_user *u, const char *arg)
{
	u64 size = PAGE_ALIGN(u->device->attrs.max_dm_size);
	struct ib_dm *dm;
	int err;

	while (u->dms < MOST_DMS) {
		err = user_alloc(u, size, &dm);
		if (err == -ENOMEM && size == PAGE_SIZE)
			return 0;
		if (err == -ENOMEM)
			size = PAGE_ALIGN(size / 2);
		else if (err)
			return err;
	}
	return user_finds(u, "what is left is in more than %d pieces", MOST_DMS);
}

/* --- fill and is_zero */

/* The CPU copies a page of each piece, and the peer the others: to read takes time. */
static int fill_piece(struct dm_user *u, struct ib_dm *dm, u64 size, struct ib_mr *mr)
{
	u64 at;
	int err, status;

	err = ib_memcpy_to_dm(dm, 0, u->host, PAGE_SIZE);
	for (at = PAGE_SIZE; !err && at < size; at += HOST_SIZE) {
		status = user_rdma(u, 0, PUT, in_host(u, 0), min_t(u64, HOST_SIZE, size - at),
				   of_rkey(mr, at));
		if (status)
			err = user_finds(u, "RDMA write at %llu: status %d", at, status);
	}
	return err;
}

static int zero_piece(struct dm_user *u, struct ib_dm *dm, u64 size, struct ib_mr *mr)
{
	u64 at, n;
	int err, status;
	void *other;

	err = ib_memcpy_from_dm(u->host, dm, 0, PAGE_SIZE);
	if (err)
		return err;
	EXPECT(u, !memchr_inv(u->host, 0, PAGE_SIZE), "the CPU reads bytes that are not 0");
	for (at = PAGE_SIZE; at < size; at += n) {
		n = min_t(u64, HOST_SIZE, size - at);
		memset(u->host, 0x5a, HOST_SIZE);
		user_host_for_device(u);
		status = user_rdma(u, 0, GET, in_host(u, 0), n, of_rkey(mr, at));
		user_host_for_cpu(u);
		other = memchr_inv(u->host, 0, n);
		EXPECT(u, !status, "RDMA read at %llu: status %d", at, status);
		EXPECT(u, !other, "byte %llu is not 0", at + (other - (void *)u->host));
	}
	return 0;
}

/* Each piece has a region for that time only. */
static int each_piece(struct dm_user *u, int (*what)(struct dm_user *u, struct ib_dm *dm, u64 size,
						  struct ib_mr *mr))
{
	struct ib_mr *mr;
	int err = 0, i;

	EXPECT(u, u->dms, "the ULP holds no DM");
	for (i = 0; !err && i < u->dms; i++) {
		struct ib_dm *dm = u->dm[i];

		err = user_reg(u, dm, 0, dm->length, WRITES | READS, &mr);
		if (err)
			return err;
		err = what(u, dm, dm->length, mr);
		user_dereg_last(u);
	}
	return err;
}

int run_fill(struct dm_user *u, const char *arg)
{
	u8 byte;
	int err = kstrtou8(arg, 0, &byte);

	if (err)
		return err;
	user_host_for_cpu(u);
	memset(u->host, byte, HOST_SIZE);
	user_host_for_device(u);
	return each_piece(u, fill_piece);
}

int run_is_zero(struct dm_user *u, const char *arg)
{
	return each_piece(u, zero_piece);
}

/* --- hold: two regions of it, one of them in the middle */

#define HELD_SIZE (3 * PAGE_SIZE + 100)
#define HELD_AT 1000
#define HELD_SEED 5

int run_hold(struct dm_user *u, const char *arg)
{
	struct ib_dm *dm;
	struct ib_mr *mr;
	int err;

	EXPECT(u, !u->dms, "the ULP has DM already");
	err = user_alloc(u, HELD_SIZE, &dm);
	if (err)
		return err;
	return put_pattern(u, dm, 0, HELD_SIZE, HELD_SEED) ?:
	       user_reg(u, dm, 0, HELD_SIZE, WRITES | READS, &mr) ?:
	       user_reg(u, dm, HELD_AT, PAGE_SIZE, READS, &mr);
}

/* ARG is the seed of the pattern, if somebody else has written another one. */
int run_is_held(struct dm_user *u, const char *arg)
{
	u32 seed = HELD_SEED;
	int err, status;

	EXPECT(u, u->dms == 1 && u->mrs == 2, "%u DMs and %u MRs, not 1 and 2", u->dms, u->mrs);
	if (*arg) {
		err = kstrtou32(arg, 0, &seed);
		if (err)
			return err;
	}
	err = check_pattern(u, u->dm[0], 0, HELD_SIZE, seed);
	if (err)
		return err;

	status = user_rdma(u, 0, GET, in_host(u, 0), PAGE_SIZE, of_rkey(u->mr[1], 0));
	if (status < 0)
		return status;
	EXPECT(u, !status, "RDMA read: status %d", status);
	user_host_for_cpu(u);
	fill(u->host + PAGE_SIZE, HELD_AT + PAGE_SIZE, seed);
	err = memcmp(u->host, u->host + PAGE_SIZE + HELD_AT, PAGE_SIZE);
	user_host_for_device(u);
	EXPECT(u, !err, "RDMA read returned other bytes");
	return 0;
}
