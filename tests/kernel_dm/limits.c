// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a ULP cannot have: more device memory than there is, what is beyond its end, rights
 * that no device has, and a region in the PD of another device
 */

#include "user.h"

/* --- two: MRs of one DM end one after another, and the DM works with those that are left */

int run_two(struct dm_user *u, const char *arg)
{
	struct ib_dm *dm;
	struct ib_mr *mr;
	int err, i, ret;

	err = user_alloc(u, PAGE_SIZE, &dm);
	if (err)
		return err;
	err = put_pattern(u, dm, 0, PAGE_SIZE, 4);
	for (i = 0; !err && i < 2; i++)
		err = user_reg(u, dm, 100 * i, 1000, WRITES | READS, &mr);

	while (!err && u->mrs) {
		ret = user_rdma(u, 0, GET, in_host(u, 0), 500, of_rkey(u->mr[u->mrs - 1], 0));
		EXPECT(u, !ret, "RDMA read by MR %u: %d", u->mrs - 1, ret);
		user_dereg_last(u);
		err = check_pattern(u, dm, 0, PAGE_SIZE, 4);
	}
	return err;
}

/* --- ranges and too_much: what is not there cannot be had */

int run_ranges(struct dm_user *u, const char *arg)
{
	const u64 n = PAGE_SIZE + 100;	/* there is more in the last page, but not of this DM */
	const struct { u64 offset, length; } beyond[] = {
		{ 0, n + 1 }, { 1, n }, { n - 1, 2 }, { n, 1 }, { n + 1, 0 }, { 2 * PAGE_SIZE, 1 },
		{ U64_MAX, 1 }, { U64_MAX, 2 }, { 1, U64_MAX }, { 0, U64_MAX },
		{ n, U64_MAX - n + 1 }, { U64_MAX - n, n + 1 },
	};
	struct ib_dm *dm;
	struct ib_mr *mr;
	u8 byte __aligned(4) = 0x5a, host[8] __aligned(4) = {};
	int err, i, ret;

	err = user_alloc(u, n, &dm);
	if (err)
		return err;
	for (i = 0; i < ARRAY_SIZE(beyond); i++) {
		u64 offset = beyond[i].offset, length = beyond[i].length;

		ret = user_reg(u, dm, offset, length, WRITES, &mr);
		EXPECT(u, ret == -EINVAL, "reg of %llu bytes at %llu: %d, not -EINVAL", length,
		       offset, ret);
		ret = ib_memcpy_to_dm(dm, offset, &byte, length);
		EXPECT(u, ret == -EINVAL, "copy of %llu bytes to %llu: %d, not -EINVAL", length,
		       offset, ret);
		ret = ib_memcpy_from_dm(&byte, dm, offset, length);
		EXPECT(u, ret == -EINVAL && byte == 0x5a,
		       "copy of %llu bytes from %llu: %d, not -EINVAL", length, offset, ret);
	}
	ret = ib_memcpy_from_dm(&byte, dm, n, 0);
	EXPECT(u, !ret && byte == 0x5a, "copy of 0 bytes from the end: %d", ret);

	/* Whole words of a BAR, from and to whole words of the host. */
	ret = dm->mem->vaddr ? 0 : -EINVAL;
	EXPECT(u, ib_memcpy_to_dm(dm, 0, host + 1, 4) == ret &&
	       ib_memcpy_from_dm(host + 1, dm, 0, 4) == ret &&
	       ib_memcpy_to_dm(dm, 0, host, 4) == 0, "copy at an odd address is not %d", ret);

	/* Rights that contradict each other, and one that nobody knows. */
	ret = user_reg(u, dm, 0, n, IB_ACCESS_REMOTE_WRITE, &mr);
	EXPECT(u, ret == -EINVAL, "reg with remote but no local write: %d, not -EINVAL", ret);
	ret = user_reg(u, dm, 0, n, 1 << 19, &mr);
	EXPECT(u, ret == -EINVAL, "reg with an unknown access flag: %d, not -EINVAL", ret);
	ret = user_reg(u, dm, 0, n, IB_ACCESS_ON_DEMAND, &mr);
	EXPECT(u, ret == -EINVAL || ret == -EOPNOTSUPP, "reg for on-demand paging: %d", ret);
	ret = user_reg(u, dm, 0, n, WRITES | IB_ACCESS_MW_BIND, &mr);
	EXPECT(u, ret == -EOPNOTSUPP, "reg for memory windows: %d, not -EOPNOTSUPP", ret);

	/* It is zero-based, whatever the device calls its first byte. */
	err = user_reg(u, dm, 100, n - 100, WRITES, &mr);
	EXPECT(u, err || (!mr->iova && mr->length == n - 100), "the MR has %llu bytes at %#llx",
	       mr->length, mr->iova);
	return err;
}

int run_too_much(struct dm_user *u, const char *arg)
{
	u64 max = u->device->attrs.max_dm_size;
	const u64 lengths[] = { max + 1, 2 * max, U32_MAX, 1ull << 32, 1ull << 63, U64_MAX };
	struct ib_dm_alloc_attr strange = { .length = PAGE_SIZE, .alignment = 63 };
	struct ib_dm *dm;
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		ret = user_alloc(u, lengths[i], &dm);
		EXPECT(u, ret == -ENOMEM, "alloc of %llu bytes: %d, not -ENOMEM", lengths[i], ret);
	}
	ret = user_alloc(u, 0, &dm);
	EXPECT(u, ret == -EINVAL, "alloc of 0 bytes: %d, not -EINVAL", ret);
	dm = ib_alloc_dm(u->device, &strange);
	EXPECT(u, PTR_ERR(dm) == -EINVAL, "alloc aligned to 2^63: %d, not -EINVAL",
	       PTR_ERR_OR_ZERO(dm));
	return user_alloc(u, max, &dm);
}

int run_foreign(struct dm_user *u, struct ib_device *other)
{
	struct ib_dm_mr_attr attr = { .length = PAGE_SIZE, .access_flags = WRITES };
	struct ib_dm *dm;
	struct ib_mr *mr;
	struct ib_pd *pd;
	int err;

	err = user_alloc(u, PAGE_SIZE, &dm);
	if (err)
		return err;
	pd = ib_alloc_pd(other, 0);
	if (IS_ERR(pd))
		return PTR_ERR(pd);
	mr = ib_reg_dm_mr(pd, dm, &attr);
	if (!IS_ERR(mr))
		ib_dereg_dm_mr(mr);
	ib_dealloc_pd(pd);
	EXPECT(u, PTR_ERR(mr) == -EINVAL, "reg in a PD of another device: %d, not -EINVAL",
	       PTR_ERR_OR_ZERO(mr));
	return 0;
}

/* --- budget */

/* SIZE bytes at a time, as often as there is room. */
static int take_pieces(struct dm_user *u, u64 size)
{
	u64 n = u->device->attrs.max_dm_size / size, i;
	struct ib_dm *dm;
	int err, ret;

	for (i = 0; i < n; i++) {
		err = user_alloc(u, size, &dm);
		if (err)
			return user_finds(u, "alloc of piece %llu of %llu, %llu bytes: %d", i, n,
					  size, err);
	}
	ret = user_alloc(u, size, &dm);
	EXPECT(u, ret == -ENOMEM, "alloc of one more piece of %llu bytes: %d, not -ENOMEM", size,
	       ret);
	user_release(u);
	return 0;
}

int run_budget(struct dm_user *u, const char *arg)
{
	u64 max = u->device->attrs.max_dm_size & PAGE_MASK;
	int err = 0, i;

	for (i = 0; !err && i < 2; i++)
		err = take_pieces(u, max) ?: take_pieces(u, PAGE_SIZE) ?:
		      take_pieces(u, 3 * PAGE_SIZE);
	return err;
}
