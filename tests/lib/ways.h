/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One card, two ways: an MR by Data Direct, one by the first function, what they carry, and a
 * thread that writes by Data Direct until it may not.
 */
#ifndef LIB_WAYS_H
#define LIB_WAYS_H

#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/second.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define WAYS_SIZE (64 * PAGE)	/* of each memory */

struct ways {
	struct ibv_context *ctx;
	struct pair pair;
	struct second second;
	struct memory buf, plain, host;
	struct ibv_mr *mr;		/* of buf, by Data Direct */
	struct ibv_mr *plain_mr;	/* of plain, by the first function */
	struct ibv_mr *host_mr;
	struct {
		pthread_t thread;
		struct pair pair;
		struct memory host;
		struct ibv_mr *host_mr;
		uint32_t rkey;
		enum ibv_wc_status status;
		atomic_ulong writes;
	} writer;
};

void ways_open(struct ways *w);
/* Also for a struct that is all 0. */
void ways_close(struct ways *w);

/* An MR of buf by Data Direct, for all rights or ACCESS; NULL and errno. */
struct ibv_mr *ways_reg(struct ways *w);
struct ibv_mr *ways_reg_part(struct ways *w, uint64_t offset, uint64_t length, uint64_t iova,
			     int access);

/* Of the whole memory.  After an error the pair is connected again. */
enum ibv_wc_status ways_op(struct ways *w, enum ibv_wr_opcode opcode, struct ibv_mr *local,
			   const struct memory *from, struct ibv_mr *remote,
			   const struct memory *to);
/* Whether a write and a read of the MR of M work, and carry the right bytes. */
bool ways_carry(struct ways *w, struct ibv_mr *mr, struct memory *m, uint32_t seed);
/* Whether nobody gets at buf by mr, from afar or from here, and no byte moves. */
bool ways_refused(struct ways *w);

/* Returns when a thread has written by mr some times; it goes on until the first error. */
void ways_begin_writing(struct ways *w);
/* From here on each byte that the thread writes is seen by memory_untouched() of buf. */
void ways_mark(struct ways *w);
/* The error. */
enum ibv_wc_status ways_end_writing(struct ways *w);

#endif
