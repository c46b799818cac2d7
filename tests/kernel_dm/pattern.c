// SPDX-License-Identifier: GPL-2.0-or-later
/* Bytes that show where they belong, and how the CPU puts them into device memory. */

#include <linux/slab.h>
#include "user.h"

/* The pattern of tests/lib/pattern.c. */
static u8 byte_at(size_t i, u32 seed)
{
	u32 x = (u32)i * 2654435761u ^ seed * 40503u;

	return x >> 24 ^ x >> 11;
}

void fill(u8 *p, size_t n, u32 seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = byte_at(i, seed);
}

int put64(struct ib_dm *dm, u64 at, u64 value)
{
	return ib_memcpy_to_dm(dm, at, &value, sizeof(value));
}

u64 get64(struct ib_dm *dm, u64 at)
{
	u64 value = ~0ull;

	ib_memcpy_from_dm(&value, dm, at, sizeof(value));
	return value;
}

int put_pattern(struct dm_user *u, struct ib_dm *dm, u64 at, size_t n, u32 seed)
{
	u8 *bytes = kvmalloc(n, GFP_KERNEL);
	int err;

	if (!bytes)
		return -ENOMEM;
	fill(bytes, n, seed);
	err = ib_memcpy_to_dm(dm, at, bytes, n);
	kvfree(bytes);
	return err;
}

int check_pattern(struct dm_user *u, struct ib_dm *dm, u64 at, size_t n, u32 seed)
{
	u64 from = round_down(at, WORD), end = round_up(at + n, WORD);
	u8 *words = kvmalloc(end - from, GFP_KERNEL), *bytes = words + (at - from);
	size_t i = 0;
	int err;

	if (!words)
		return -ENOMEM;
	err = ib_memcpy_from_dm(words, dm, from, end - from);
	while (!err && i < n && bytes[i] == byte_at(i, seed))
		i++;
	if (!err && i < n)
		err = user_finds(u, "byte %llu is %#x, not %#x", at + i, bytes[i],
				 byte_at(i, seed));
	kvfree(words);
	return err;
}
