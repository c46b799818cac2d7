/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Device memory (DM) for cases.
 *
 * A process reaches a DM by RDMA, through an MR whose address 0 is a byte of the DM, and by
 * the two copy calls of the library.  On some devices these copy only whole words of four
 * bytes; dm_put() and dm_get() take any range on every device, and change nothing beside it.
 */
#ifndef LIB_DM_H
#define LIB_DM_H

#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/uverbs.h"
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dm {
	struct ibv_dm *dm;	/* NULL: it is not open */
	size_t size;		/* what was asked for */
	size_t grain;		/* bytes that the library copies at a time */
	uint8_t *before;	/* a copy of its bytes, see dm_mark() */
};

/* What the device offers, in bytes. */
size_t dm_max(struct ibv_context *ctx);
/* The bytes at a time that the library copies, of the device under test; 4 on any device. */
size_t dm_grain(void);
/* Every right that an MR of a DM can have on the device, and that of a zero-based address. */
int dm_rights(void);

/* SIZE is a multiple of dm_grain(), on another device than that under test of 4.  0 or an errno. */
int dm_try_open(struct dm *d, struct ibv_context *ctx, size_t size);
void dm_open(struct dm *d, struct ibv_context *ctx, size_t size);
/* The same; filled with the pattern of SEED, and marked. */
void dm_open_filled(struct dm *d, struct ibv_context *ctx, size_t size, uint32_t seed);
/* Also for a struct that is all 0. */
void dm_close(struct dm *d);
/* The errno of the free; after 0 the struct is all 0, else unchanged. */
int dm_try_close(struct dm *d);

/* By the CPU: any range. */
void dm_put(struct dm *d, size_t at, const void *from, size_t n);
void dm_get(const struct dm *d, size_t at, void *to, size_t n);
void dm_fill(struct dm *d, size_t at, size_t n, uint32_t seed);
bool dm_filled(const struct dm *d, size_t at, size_t n, uint32_t seed, const char *what);
bool dm_is_zero(const struct dm *d);

/* Keep a copy of its bytes.  Later: whether no byte changed, or none but the N at AT. */
void dm_mark(struct dm *d);
bool dm_untouched(const struct dm *d);
bool dm_only_changed(const struct dm *d, size_t at, size_t n);
/* Put the bytes of the copy back, for the next round. */
void dm_restore(struct dm *d, size_t at, size_t n);

/* An MR of all of it, or of a part; ACCESS without IBV_ACCESS_ZERO_BASED. */
struct ibv_mr *dm_reg(const struct dm *d, struct ibv_pd *pd, int access);
struct ibv_mr *dm_reg_part(const struct dm *d, struct ibv_pd *pd, size_t at, size_t n,
			   int access);
/* The same, with any flags; the errno of what fails, or 0 after the MR has ended again. */
int dm_reg_errno(const struct dm *d, struct ibv_pd *pd, uint64_t at, uint64_t n, int access);

/*
 * All that is left of the device's memory, in so many pieces, or fewer if it is in more
 * places.  Whoever has lost DM has lost it to these.
 */
#define DM_REST 256
struct dm_rest {
	struct dm piece[DM_REST];
	int pieces;
	size_t bytes;		/* rounded up to pages, as the device counts */
};

void dm_take_rest(struct dm_rest *r, struct ibv_context *ctx);
bool dm_rest_is_zero(const struct dm_rest *r);
/* The same as a peer reads it, into HOST, which has room for the longest piece. */
bool dm_rest_reads_zero(const struct dm_rest *r, struct pair *pair, const struct memory *host,
			struct ibv_mr *host_mr);
void dm_give_rest(struct dm_rest *r);
/* Whether all that the device offers can be allocated; waits for what is given back late. */
bool dm_budget_is_whole(struct ibv_context *ctx);

/* By handle, without the library (uverbs.h): 0 or an errno. */
int dm_call_free(int cmd_fd, uint32_t dm);
int dm_call_reg(int cmd_fd, uint32_t pd, uint32_t dm, uint64_t offset, uint64_t length,
		uint32_t access, struct keys *keys);

#endif
