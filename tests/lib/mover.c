// SPDX-License-Identifier: GPL-2.0-or-later
/* See mover.h. */
#include "lib/depth.h"
#include "lib/mover.h"
#include "lib/case.h"
#include "lib/gpu.h"
#include "lib/random.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define REST_US 400	/* at most, between two steps */

long moves_wanted(void)
{
	const char *wanted = getenv("MRFD_MOVES");

	return wanted ? atol(wanted) : depth(200, 2000);
}

void mover_add(struct mover *m, const struct memory *buf)
{
	if (!m->n)
		m->random = random_begin(random_seed(), 0);
	m->buf[m->n++] = buf;
}

void mover_press(struct mover *m)
{
	size_t size = m->buf[0]->size;

	/* It leaves the room of one and a half. */
	gpu_open(&m->ballast, GPU_VRAM, gpu_info(m->buf[0]).vram_size - size * 3 / 2,
		 MRFD_GPU_PINNED);
}

int mover_step(struct mover *m)
{
	const struct memory *buf = m->buf[m->steps % m->n];
	uint32_t place = MRFD_GPU_VRAM;
	int err;

	if (!m->ballast.size && gpu_query(buf).place == MRFD_GPU_VRAM)
		place = MRFD_GPU_SYSTEM;
	err = gpu_move(buf, place, 0);
	m->steps++;
	m->moved += !err;
	m->refused += err == ENOMEM;
	usleep(random_below(&m->random, REST_US));
	return err == ENOMEM ? 0 : err;
}

long mover_moves(const struct mover *m)
{
	long moves = 0;

	for (int i = 0; i < m->n; i++)
		moves += gpu_query(m->buf[i]).moves;
	return moves;
}

long mover_evictions(const struct mover *m)
{
	long evictions = 0;

	for (int i = 0; i < m->n; i++)
		evictions += gpu_query(m->buf[i]).evictions;
	return evictions;
}

void mover_close(struct mover *m)
{
	memory_close(&m->ballast);
	*m = (struct mover){};
}

long follows_wanted(void)
{
	return moves_wanted() / 10;
}

long moves_followed(const struct mr_stat *stat, uint64_t pages)
{
	return stat->mrs ? stat->invalidations / pages / stat->mrs : 0;
}

/*
 * An MR begins mapped; each page fault maps it, also if another one has just done so; a move
 * takes it away only if it is mapped.
 */
bool moves_were_followed(const struct mr_stat *stat, int mrs, uint64_t pages, long moves)
{
	printf("# %ld moves; %d MRs of %llu pages: %llu pages faulted, %llu invalidated\n", moves,
	       stat->mrs, (unsigned long long)pages, (unsigned long long)stat->faults,
	       (unsigned long long)stat->invalidations);
	return stat->mrs == mrs && moves_followed(stat, pages) >= follows_wanted() &&
	       stat->invalidations <= moves * mrs * pages &&
	       stat->faults + mrs * pages >= stat->invalidations &&
	       !(stat->faults % pages) && !(stat->invalidations % pages);
}
