/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of every kind that an MR can have, and a rereg that puts an MR on it.
 *
 * A place is a buffer of an exporter, a memfd, or ordinary memory of this
 * process; it can be looked at by the CPU at cpu.  The address by which an MR of
 * it is used is place_iova(): of ordinary memory the library has no choice but
 * its address.
 */
#ifndef REREG_H
#define REREG_H

#include "rdma.h"

#define HOST ((enum exporter)-1)
#define ALL_FLAGS (IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |	\
		   IBV_REREG_MR_CHANGE_ACCESS)

struct place {
	enum exporter kind;
	size_t size;
	uint8_t *cpu;
	struct buffer buf;	/* unless it is HOST */
	uint8_t *before;	/* a copy of what was there, see place_mark() */
};

void place_open(struct place *at, enum exporter kind, size_t size, uint32_t seed);
void place_close(struct place *at);
void place_mark(struct place *at);
bool place_untouched(const struct place *at);
uint64_t place_iova(const struct place *at);
struct ibv_mr *place_reg(const struct place *at, struct ibv_pd *pd, int access);
int place_rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, const struct place *at,
		int access);

#endif
