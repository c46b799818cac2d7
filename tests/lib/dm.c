// SPDX-License-Identifier: GPL-2.0-or-later
/* See dm.h. */
#include "lib/dm.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/device.h"
#include "lib/pattern.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ZERO_BASED IBV_ACCESS_ZERO_BASED

size_t dm_max(struct ibv_context *ctx)
{
	struct ibv_device_attr_ex attr;

	errno = ibv_query_device_ex(ctx, NULL, &attr);
	if (errno)
		fail_case("query the device");
	return attr.max_dm_size;
}

size_t dm_grain(void)
{
	return device_can("dm-bytes") ? 1 : 4;
}

int dm_rights(void)
{
	return RWA | ZERO_BASED | (device_can("flush") ? IBV_ACCESS_FLUSH_GLOBAL : 0);
}

int dm_try_open(struct dm *d, struct ibv_context *ctx, size_t size)
{
	struct ibv_alloc_dm_attr attr = { .length = size };

	*d = (struct dm){ .size = size, .grain = 4, .dm = ibv_alloc_dm(ctx, &attr) };
	if (!d->dm)
		return errno;
	if (device_is_under_test(ctx))
		d->grain = dm_grain();
	return 0;
}

void dm_open(struct dm *d, struct ibv_context *ctx, size_t size)
{
	need("dm");
	if ((errno = dm_try_open(d, ctx, size)))
		fail_case("allocate %zu bytes of device memory", size);
}

void dm_open_filled(struct dm *d, struct ibv_context *ctx, size_t size, uint32_t seed)
{
	dm_open(d, ctx, size);
	dm_fill(d, 0, size, seed);
	dm_mark(d);
}

int dm_try_close(struct dm *d)
{
	int err = d->dm ? ibv_free_dm(d->dm) : 0;

	if (err)
		return err;
	free(d->before);
	*d = (struct dm){};
	return 0;
}

void dm_close(struct dm *d)
{
	if ((errno = dm_try_close(d)))
		fail_case("free device memory");
}

/* --- Bytes */

/* The words around a range, which are what can be copied. */
static size_t words_around(const struct dm *d, size_t *at, size_t n)
{
	size_t skip = *at % d->grain;

	*at -= skip;
	return (skip + n + d->grain - 1) / d->grain * d->grain;
}

static void get_words(const struct dm *d, size_t at, void *to, size_t n)
{
	if ((errno = ibv_memcpy_from_dm(to, d->dm, at, n)))
		fail_case("copy %zu bytes at %zu of device memory", n, at);
}

void dm_get(const struct dm *d, size_t at, void *to, size_t n)
{
	size_t from = at, bytes = words_around(d, &from, n);
	uint8_t *words = must(malloc(bytes));

	get_words(d, from, words, bytes);
	memcpy(to, words + (at - from), n);
	free(words);
}

void dm_put(struct dm *d, size_t at, const void *from, size_t n)
{
	size_t to = at, bytes = words_around(d, &to, n);
	uint8_t *words = must(malloc(bytes));

	if (bytes != n)
		get_words(d, to, words, bytes);
	memcpy(words + (at - to), from, n);
	if ((errno = ibv_memcpy_to_dm(d->dm, to, words, bytes)))
		fail_case("copy %zu bytes to %zu of device memory", bytes, to);
	free(words);
}

void dm_fill(struct dm *d, size_t at, size_t n, uint32_t seed)
{
	uint8_t *bytes = must(malloc(n));

	fill(bytes, n, seed);
	dm_put(d, at, bytes, n);
	free(bytes);
}

bool dm_filled(const struct dm *d, size_t at, size_t n, uint32_t seed, const char *what)
{
	uint8_t *bytes = must(malloc(n));
	bool same;

	dm_get(d, at, bytes, n);
	same = filled(bytes, n, seed, what);
	free(bytes);
	return same;
}

bool dm_is_zero(const struct dm *d)
{
	uint8_t *bytes = must(malloc(d->size));
	size_t i = 0;

	dm_get(d, 0, bytes, d->size);
	while (i < d->size && !bytes[i])
		i++;
	if (i < d->size)
		printf("# byte %zu of %zu of device memory is %02x, not 0\n", i, d->size, bytes[i]);
	free(bytes);
	return i == d->size;
}

void dm_mark(struct dm *d)
{
	if (!d->before)
		d->before = must(malloc(d->size));
	dm_get(d, 0, d->before, d->size);
}

bool dm_only_changed(const struct dm *d, size_t at, size_t n)
{
	uint8_t *now = must(malloc(d->size));
	bool well;

	dm_get(d, 0, now, d->size);
	well = only_changed(now, d->before, d->size, at, n);
	free(now);
	return well;
}

bool dm_untouched(const struct dm *d)
{
	return dm_only_changed(d, 0, 0);
}

void dm_restore(struct dm *d, size_t at, size_t n)
{
	dm_put(d, at, d->before + at, n);
}

/* --- Regions */

struct ibv_mr *dm_reg_part(const struct dm *d, struct ibv_pd *pd, size_t at, size_t n,
			   int access)
{
	return must(ibv_reg_dm_mr(pd, d->dm, at, n, access | ZERO_BASED));
}

struct ibv_mr *dm_reg(const struct dm *d, struct ibv_pd *pd, int access)
{
	return dm_reg_part(d, pd, 0, d->size, access);
}

int dm_reg_errno(const struct dm *d, struct ibv_pd *pd, uint64_t at, uint64_t n, int access)
{
	struct ibv_mr *mr = ibv_reg_dm_mr(pd, d->dm, at, n, access);

	return mr ? ibv_dereg_mr(mr) : errno;
}

/* --- All of it */

static size_t whole_pages(size_t n)
{
	return (n + PAGE - 1) / PAGE * PAGE;
}

/* Halve the size of a piece when there is none of that size left, down to a page. */
void dm_take_rest(struct dm_rest *r, struct ibv_context *ctx)
{
	size_t size = whole_pages(dm_max(ctx));

	*r = (struct dm_rest){};
	while (r->pieces < DM_REST) {
		int err = dm_try_open(&r->piece[r->pieces], ctx, size);

		errno = err;
		if (err && err != ENOMEM)
			fail_case("allocate %zu bytes of device memory", size);
		if (!err) {
			r->bytes += size;
			r->pieces++;
		} else if (size == PAGE) {
			return;
		} else {
			size = whole_pages(size / 2);
		}
	}
	errno = 0;
	fail_case("what is left of device memory is in more than %d pieces", DM_REST);
}

bool dm_rest_is_zero(const struct dm_rest *r)
{
	for (int i = 0; i < r->pieces; i++)
		if (!dm_is_zero(&r->piece[i]))
			return false;
	return true;
}

bool dm_rest_reads_zero(const struct dm_rest *r, struct pair *pair, const struct memory *host,
			struct ibv_mr *host_mr)
{
	bool zero = true;

	for (int i = 0; i < r->pieces && zero; i++) {
		const struct dm *d = &r->piece[i];
		struct ibv_mr *mr = dm_reg(d, pair->qp[1]->pd, RW);

		memset(host->cpu, 0xff, d->size);
		zero = !rdma_op(pair, IBV_WR_RDMA_READ, host_mr, host->iova, d->size, 0, mr->rkey) &&
		       !host->cpu[0] && !memcmp(host->cpu, host->cpu + 1, d->size - 1);
		mr_close(mr);
		if (!zero)
			printf("# piece %d of %zu bytes is not zero to a peer\n", i, d->size);
	}
	return zero;
}

void dm_give_rest(struct dm_rest *r)
{
	for (int i = 0; i < r->pieces; i++)
		dm_close(&r->piece[i]);
	*r = (struct dm_rest){};
}

bool dm_budget_is_whole(struct ibv_context *ctx)
{
	size_t max = dm_max(ctx);
	double end = deadline(10);
	int err = 0;

	do {
		struct dm all;

		err = dm_try_open(&all, ctx, max);
		if (!err) {
			dm_close(&all);
			return true;
		}
		usleep(100000);
	} while (now() < end);
	printf("# %zu bytes of device memory cannot be had any more: %s\n", max, strerror(err));
	return false;
}

/* --- Without the library */

int dm_call_free(int cmd_fd, uint32_t dm)
{
	union msg m;

	msg_begin(&m, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE);
	msg_add(&m, UVERBS_ATTR_FREE_DM_HANDLE, 0, dm);
	return msg_send(cmd_fd, &m);
}

int dm_call_reg(int cmd_fd, uint32_t pd, uint32_t dm, uint64_t offset, uint64_t length,
		uint32_t access, struct keys *keys)
{
	struct keys got = {};
	union msg m;
	int err;

	msg_begin(&m, UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG);
	msg_add(&m, UVERBS_ATTR_REG_DM_MR_HANDLE, 0, 0);
	msg_add(&m, UVERBS_ATTR_REG_DM_MR_PD_HANDLE, 0, pd);
	msg_add(&m, UVERBS_ATTR_REG_DM_MR_DM_HANDLE, 0, dm);
	msg_add(&m, UVERBS_ATTR_REG_DM_MR_OFFSET, 8, offset);
	msg_add(&m, UVERBS_ATTR_REG_DM_MR_LENGTH, 8, length);
	msg_add(&m, UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, 4, access);
	msg_add(&m, UVERBS_ATTR_REG_DM_MR_RESP_LKEY, 4, (uintptr_t)&got.lkey);
	msg_add(&m, UVERBS_ATTR_REG_DM_MR_RESP_RKEY, 4, (uintptr_t)&got.rkey);
	err = msg_send(cmd_fd, &m);
	if (!err) {
		got.handle = m.hdr.attrs[0].data;
		*keys = got;
	}
	return err;
}
