/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often a case repeats what it does: a run of the tests is quick or full, and says so in
 * MRFD_DEPTH (kit/mrfd/programs.py).  Without it a program runs in full.
 *
 * A case that needs many tries to meet its race counts how often it has met it, says so in
 * its log, and ends by that count.  Its limit in the harness ends it if it never does.
 */
#ifndef LIB_DEPTH_H
#define LIB_DEPTH_H

#include <stdlib.h>
#include <string.h>

static inline long depth(long quick, long full)
{
	return strcmp(getenv("MRFD_DEPTH") ?: "full", "quick") ? full : quick;
}

#endif
