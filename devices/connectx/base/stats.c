// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The table of what the model did.  Its rows are in the order in which their operations
 * came first; the number of rows is bounded, and what has none left is not counted.
 *
 * scripts/bench reads it: see kit/mrfd/beside.py.
 */
#include "stats.h"
#include <time.h>

uint64_t stats_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static struct stats_row *row_of(struct stats *s, const char *name, unsigned int number)
{
	struct stats_row *r;

	for (r = s->row; r < s->row + s->rows; r++)
		if (r->name == name)
			return r;
	if (s->rows == STATS_ROWS)
		return NULL;
	s->rows++;
	r->name = name;
	r->number = number;
	return r;
}

void stats_add(struct stats *s, const char *name, unsigned int number, unsigned int count,
	       uint64_t ns)
{
	struct stats_row *r = count ? row_of(s, name, number) : NULL;

	if (!r)
		return;
	r->count += count;
	r->ns += ns;
	if (ns / count > r->longest)
		r->longest = ns / count;
}

void stats_interrupt(struct stats *s, uint64_t ns)
{
	s->interrupt_ns += ns;
	stats_add(s, "interrupt", 0, 1, ns);
}

static void write_row(const struct stats_row *r, FILE *to)
{
	char name[48];

	snprintf(name, sizeof(name), r->number ? "%s %x" : "%s", r->name, r->number);
	fprintf(to, "connectx: %-36s %10llu %12.2f %12.2f\n", name, (unsigned long long)r->count,
		r->ns / 1e3 / r->count, r->longest / 1e3);
}

void stats_write(const struct stats *s, FILE *to)
{
	if (!s->rows)
		return;
	fprintf(to, "connectx: %-36s %10s %12s %12s\n", "executed", "count", "mean us",
		"longest us");
	for (unsigned int i = 0; i < s->rows; i++)
		write_row(&s->row[i], to);
	fprintf(to, "connectx: %llu doorbells, %llu work requests; packets out %llu (%llu bytes), "
		"in %llu (%llu bytes)\n", (unsigned long long)s->doorbells,
		(unsigned long long)s->sends, (unsigned long long)s->packets_out,
		(unsigned long long)s->bytes_out, (unsigned long long)s->packets_in,
		(unsigned long long)s->bytes_in);
	fprintf(to, "connectx: %.2f s of CPU time in %.2f s\n", (double)clock() / CLOCKS_PER_SEC,
		(stats_clock() - s->began) / 1e9);
}
