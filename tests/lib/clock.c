// SPDX-License-Identifier: GPL-2.0-or-later
#include "lib/clock.h"
#include <stdlib.h>
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

double patience(void)
{
	const char *given = getenv("MRFD_PATIENCE");
	double times = given ? atof(given) : 3;

	return times < 1 ? 1 : times;
}

double deadline(double seconds)
{
	return now() + patience() * seconds;
}
