/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one clock of the tests: it only goes forward, and counts seconds. */
#ifndef LIB_CLOCK_H
#define LIB_CLOCK_H

#include <stdbool.h>

double now(void);
long ms_since(double began);

/* When something began and ended; two that overlap have met. */
struct span {
	double begin, end;
};

static inline bool spans_overlap(const struct span *a, const struct span *b)
{
	return a->begin < b->end && b->begin < a->end;
}

/*
 * A bound ends what hangs; it must not judge the speed of a machine.  A case names the
 * seconds that an idle one of two cores may need, and gets patience() times as many: what
 * MRFD_PATIENCE says, which grows with the load of the host (kit/mrfd/machine.py), or 3.
 */
double patience(void);

/* The time at which what takes so many SECONDS counts as hung. */
double deadline(double seconds);

#endif
