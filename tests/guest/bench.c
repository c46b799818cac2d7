// SPDX-License-Identifier: GPL-2.0-or-later
/* See bench.h. */
#include "bench.h"
#include <time.h>

void bench_heading(void)
{
	printf("operation,memory,bytes,us,ratio\n");
}

/* The ratio is that of US to OF, of what it is compared with. */
void bench_result(const char *operation, const char *memory, size_t bytes, double us,
		  double of)
{
	printf("%s,%s,%zu,%.2f,%.3f\n", operation, memory, bytes, us, us / of);
	fflush(stdout);
}

double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* One sample: what each of COUNT operations has taken since BEGAN. */
void sample(struct samples *s, double began, int count)
{
	if (s->n == MAX_RUNS)
		die("more than %d runs", MAX_RUNS);
	s->us[s->n++] = (now_us() - began) / count;
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
