/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the benches share.  A bench measures several ways in turn, run after run, so that
 * other load on the machine affects all of them, and compares the medians.  The result is
 * the ratio: the times depend on the machine, and mean little on an emulated one.  With
 * QEMU's -icount a microsecond is a thousand instructions, and the times vary less.
 *
 * The output is one line for each result, comma separated, after a heading: operation,
 * memory, bytes, microseconds, ratio; and the spread, the ratios of the quartiles.
 */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <stddef.h>

#define MAX_RUNS 101

struct samples {
	double us[MAX_RUNS];
	int n;
};

void bench_heading(void);
/* The median of TOOK, relative to OF, the time that it is compared with. */
void bench_result(const char *operation, const char *memory, size_t bytes,
		  struct samples *took, double of);
void sample(struct samples *s, double began, int count);
double median(struct samples *s);

#endif
