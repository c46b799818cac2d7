// SPDX-License-Identifier: GPL-2.0-or-later
#include "lib/clock.h"
#include <time.h>

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

long ms_since(double began)
{
	return (now() - began) * 1000;
}
