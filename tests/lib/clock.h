/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one clock of the tests: it only goes forward, and counts seconds. */
#ifndef LIB_CLOCK_H
#define LIB_CLOCK_H

double now(void);
long ms_since(double began);

#endif
