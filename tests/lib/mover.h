/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keep buffers of the GPU on the move between VRAM and system memory.
 *
 * Each in turn is moved to where it is not.  Or there is pressure: one more buffer, pinned,
 * leaves VRAM room for one of them only, and each in turn is moved into VRAM, which evicts
 * the one before.
 */
#ifndef LIB_MOVER_H
#define LIB_MOVER_H

#include "lib/memory.h"
#include "lib/nldev.h"

#define MOVER_BUFS 4

/* How many moves a case makes: MRFD_MOVES of the environment, or 2000, in a quick run 200. */
long moves_wanted(void);

struct mover {
	const struct memory *buf[MOVER_BUFS];
	int n;
	struct memory ballast;		/* of the pressure */
	uint64_t random;
	long steps, moved;
	long refused;			/* there was no room, or somebody had it locked just then */
};

void mover_add(struct mover *m, const struct memory *buf);
/* When all buffers, of one size, have been added. */
void mover_press(struct mover *m);
/* One step, and a short while at rest.  0 or an errno that does not belong here. */
int mover_step(struct mover *m);
/* How often the GPU has moved the buffers, and how many of that were evictions. */
long mover_moves(const struct mover *m);
long mover_evictions(const struct mover *m);
void mover_close(struct mover *m);

/*
 * How many moves each MR of a device has followed, on average.  A move that comes before any
 * access to where the one before it has put the buffer is not followed.
 */
long moves_followed(const struct mr_stat *stat, uint64_t pages);
/* How many that has to be until a case may end: a tenth of moves_wanted(). */
long follows_wanted(void);
/* Whether the counters of MRs of PAGES each can be those of so many moves; prints them. */
bool moves_were_followed(const struct mr_stat *stat, int mrs, uint64_t pages, long moves);

#endif
