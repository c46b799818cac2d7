// SPDX-License-Identifier: GPL-2.0-or-later
/* See samples.h. */
#include "bench/samples.h"
#include "lib/case.h"
#include "lib/clock.h"
#include <stdio.h>
#include <stdlib.h>

void bench_heading(void)
{
	printf("operation,memory,bytes,us,ratio,low,high\n");
}

/* One sample: the time of each of COUNT operations since BEGAN. */
void sample(struct samples *s, double began, int count)
{
	if (s->n == MAX_RUNS)
		fail_case("more than %d runs", MAX_RUNS);
	s->us[s->n++] = (now() - began) * 1e6 / count;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median(struct samples *s)
{
	qsort(s->us, s->n, sizeof(*s->us), by_value);
	return s->us[s->n / 2];
}

void bench_result(const char *operation, const char *memory, size_t bytes,
		  struct samples *took, double of)
{
	double us = median(took);	/* and now they are in order */

	printf("%s,%s,%zu,%.2f,%.3f,%.3f,%.3f\n", operation, memory, bytes, us, us / of,
	       took->us[took->n / 4] / of, took->us[took->n * 3 / 4] / of);
	fflush(stdout);
}
