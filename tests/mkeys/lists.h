/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the cases with keys of keys share: mkeys that are lists of parts of MRs
 * (mlx5dv_create_mkey(), KLM), and what moves bytes through them.
 *
 * A piece is a part of an MR.  A key for several pieces, be it a list, a list of lists or a
 * window, is described by the pieces to which it leads, in their order; so one function
 * writes through any of them and looks at all the memory behind it.
 */
#ifndef MKEYS_LISTS_H
#define MKEYS_LISTS_H

#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <infiniband/mlx5dv.h>

#define SIZE (16 * PAGE)
#define ENTRIES 16	/* of a list, at most */

struct piece {
	struct memory *of;
	struct ibv_mr *mr;
	size_t at;
	uint32_t n;
};

/* Two QPs in one PD, and memory of their own. */
struct ends {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct pair pair;	/* the second posts UMRs */
	struct memory host;	/* SIZE bytes */
	struct ibv_mr *mr;	/* of it */
};

void ends_open(struct ends *e);
/* With QPs that know lists, which only mlx5 has. */
void ends_open_for_lists(struct ends *e);
/* Also for a struct that is all 0. */
void ends_close(struct ends *e);
/* After an operation that was refused. */
void ends_connect(struct ends *e);

size_t bytes_of(const struct piece *p, int n);

/* Lists; N of pieces is at most ENTRIES. */
struct mlx5dv_mkey *list_make(struct ends *e);
void list_close(struct mlx5dv_mkey *list);	/* unless it is NULL */
enum ibv_wc_status list_fill(struct ends *e, struct mlx5dv_mkey *list, int access,
			     const struct piece *p, int n);
/* By ibv_sge, which may name other lists; by mlx5dv_wr_mkey_configure() if CONFIGURE. */
enum ibv_wc_status list_fill_sge(struct ends *e, struct mlx5dv_mkey *list, int access,
				 struct ibv_sge *sge, int n, bool configure);
enum ibv_wc_status list_interleave(struct ends *e, struct mlx5dv_mkey *list, int access,
				   uint32_t repeat, struct mlx5dv_mr_interleaved *data, int n);

/*
 * Through a key, at ADDR of which the pieces begin: whether RDMA writes the pattern of SEED
 * to the pieces, and nothing next to them; and whether it reads what is in the pieces.
 */
bool key_writes(struct ends *e, uint32_t rkey, uint64_t addr, const struct piece *p, int n,
		uint32_t seed);
bool key_reads(struct ends *e, uint32_t rkey, uint64_t addr, const struct piece *p, int n,
	       uint32_t seed);
/* Whether an access is refused, and no memory of the pieces changes; connects again. */
bool key_refuses(struct ends *e, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr,
		 uint32_t length, const struct piece *p, int n);

#define TRIES 64	/* MRs until one has the number of a key that ended */

/* Register M until an MR has the number of KEY; how many are in MR, the last of them is it. */
int reg_until_number(struct memory *m, struct ibv_pd *pd, uint32_t key, struct ibv_mr **mr);

#endif
