/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What all targets stand on: one device over a small guest memory.  It is made once, and
 * each input finds it as it was made; what does not come back to that is a finding.
 *
 * Guest memory, by bus address:
 *
 *	RAM		192 KiB: the command queue, doorbell records, mailboxes, queues, data
 *	RAM_MORE	8 KiB right behind, a region and a file of its own, which an input may unmap
 *	RAM_READ	4 KiB that may only be read
 *	RAM_NOWHERE	4 KiB without a file descriptor: the client is asked for them, and while
 *			it is, the guest rings doorbells and memory comes and goes
 */
#ifndef CONNECTX_FUZZ_WORLD_H
#define CONNECTX_FUZZ_WORLD_H

#include "dma.h"
#include "hca.h"
#include "input.h"

#define RAM 0x100000u
#define RAM_QUEUE RAM			/* of commands */
#define RAM_RECORDS (RAM + 0x1000)
#define RAM_BOXES (RAM + 0x2000)	/* 32 mailboxes of 1 KiB */
#define RAM_PAGES (RAM + 0xa000)	/* for queues */
#define RAM_PAGE_COUNT 24
#define RAM_DATA (RAM + 0x22000)
#define RAM_SIZE 0x30000u
#define RAM_MORE (RAM + RAM_SIZE)
#define RAM_MORE_SIZE 0x2000u
#define RAM_DATA_SIZE (RAM_SIZE + RAM_MORE_SIZE - 0x22000)	/* both */
#define RAM_READ 0x200000u
#define RAM_NOWHERE 0x300000u

#define TURNS_MAX 200		/* after an input, until nothing is due */

struct world {
	struct loop *loop;
	struct dma dma;
	struct dma direct;		/* of the function of Data Direct: RAM alone */
	struct hca *hca;
	uint64_t interrupts;
	unsigned int questions;		/* of this input: for memory that is nowhere here */
};

/* Made by the first call. */
struct world *world_get(void);
/* Before an input: guest memory is 0, and the device as after power-on. */
void world_begin(struct world *w);
/* After it: the device is reset, and what it must not keep is looked for. */
void world_end(struct world *w);
/* Some turns. */
void world_turns(struct world *w, unsigned int n);

/* The guest's own access to its memory, NULL beyond it. */
uint8_t *ram_at(uint64_t addr, size_t len);
void ram_put32(uint64_t addr, uint32_t value);
uint32_t ram_get32(uint64_t addr);
/* RAM_MORE goes or comes back. */
void world_remap(struct world *w);

void bar_put32(struct world *w, uint64_t offset, uint32_t value);
void bar_put64(struct world *w, uint64_t offset, uint32_t high, uint32_t low);

/* A condition that an input broke. */
#define must(condition) \
	((condition) ? (void)0 : broken(#condition, __FILE__, __LINE__))
void broken(const char *what, const char *file, int line) __attribute__((noreturn));
/* How many descriptors are open. */
unsigned int open_fds(void);

#endif
