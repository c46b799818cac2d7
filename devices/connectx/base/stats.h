/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the model did and how long it took: a table that the program writes to its log when
 * it ends.  Commands, and work requests of the driver's UMR queue, are timed by the clock,
 * each with two looks at it; a datapath only counts.
 *
 * The time of a command is from the doorbell until its entry in the queue is the guest's
 * again.  That of a UMR is a turn of its queue, from the fetch to the completion.  Neither
 * includes the socket to QEMU, nor interrupts, whose system call wakes QEMU and may last as
 * long as that; interrupts have a row of their own.
 */
#ifndef CONNECTX_STATS_H
#define CONNECTX_STATS_H

#include <stdint.h>
#include <stdio.h>

#define STATS_ROWS 128			/* more than there are commands */

/* NAME is a constant, and identifies the row. */
struct stats_row {
	const char *name;
	unsigned int number;		/* the opcode; 0: none */
	uint64_t count, ns, longest;
};

struct stats {
	uint64_t began;
	struct stats_row row[STATS_ROWS];
	unsigned int rows;
	uint64_t interrupt_ns;
	uint64_t doorbells, sends;	/* sends: work requests of send queues, complete */
	uint64_t packets_in, packets_out, bytes_in, bytes_out;
};

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t stats_clock(void);
/* COUNT operations took so long together. */
void stats_add(struct stats *s, const char *name, unsigned int number, unsigned int count,
	       uint64_t ns);
void stats_interrupt(struct stats *s, uint64_t ns);
/* Nothing, if no command was executed. */
void stats_write(const struct stats *s, FILE *to);

#endif
