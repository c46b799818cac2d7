// SPDX-License-Identifier: GPL-2.0-or-later
/* See rereg.h. */
#include "rereg.h"
#include <sys/mman.h>

#define PLACE_IOVA 0x7100000000ul

/* A bochs buffer has at least its screen's bytes; the others have SIZE. */
void place_open(struct place *at, enum exporter kind, size_t size, uint32_t seed)
{
	at->kind = kind;
	if (kind == HOST) {
		at->size = size;
		at->cpu = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
		if (at->cpu == MAP_FAILED)
			die("map memory");
	} else {
		const char *missing = exporter_missing(kind);

		if (missing)
			die("the guest has no %s", missing);
		buffer_open(&at->buf, kind, size);
		at->size = at->buf.size;
		at->cpu = at->buf.cpu;
	}
	fill(at->cpu, at->size, seed);
	at->before = must(malloc(at->size));
	place_mark(at);
}

void place_close(struct place *at)
{
	if (at->kind == HOST)
		munmap(at->cpu, at->size);
	else
		buffer_close(&at->buf);
	free(at->before);
}

void place_mark(struct place *at)
{
	memcpy(at->before, at->cpu, at->size);
}

/* True if all is as it was at place_mark(). */
bool place_untouched(const struct place *at)
{
	return !memcmp(at->cpu, at->before, at->size) ||
	       only_changed(at->cpu, at->before, at->size, 0, 0);
}

uint64_t place_iova(const struct place *at)
{
	return at->kind == HOST ? (uintptr_t)at->cpu : PLACE_IOVA;
}

struct ibv_mr *place_reg(const struct place *at, struct ibv_pd *pd, int access)
{
	if (at->kind == HOST)
		return must(ibv_reg_mr(pd, at->cpu, at->size, access));
	return must(ibv_reg_mr_fd_iova(pd, 0, at->size, PLACE_IOVA, at->buf.type, at->buf.fd,
				       access));
}

/* PD and ACCESS count if FLAGS say so, AT likewise. */
int place_rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, const struct place *at,
		int access)
{
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		access = 0;
	if (at->kind == HOST)
		return ibv_rereg_mr(mr, flags, pd, at->cpu, at->size, access);
	return ibv_rereg_mr_fd_iova(mr, flags, pd, 0, at->size, PLACE_IOVA, at->buf.type,
				    at->buf.fd, access);
}
