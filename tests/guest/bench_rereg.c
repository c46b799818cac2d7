// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a rereg costs, beside what an application does without it: dereg, reg.
 *
 * For each kind of memory and size the two ways are taken in turn, so that
 * whatever else the machine does falls on both, and the medians are compared.
 * What is said is the ratio; the times are those of the machine, and of an
 * emulated one they mean little.
 *
 * One line for each: kind, bytes, what changes, microseconds for dereg and reg,
 * microseconds for rereg, ratio.  Comma separated, with a heading.
 */
#include "rereg.h"
#include <time.h>

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define FEWER IBV_ACCESS_LOCAL_WRITE
#define RUNS 101

static const struct {
	enum exporter kind;
	const char *name;
} memory[] = { { HOST, "memory" }, { HEAP, "dma-buf" }, { MEMFD, "memfd" } };

static const struct {
	int flag;
	const char *name;
} changes[] = {
	{ IBV_REREG_MR_CHANGE_ACCESS, "access" },
	{ IBV_REREG_MR_CHANGE_PD, "PD" },
	{ IBV_REREG_MR_CHANGE_TRANSLATION, "translation" },
};

/* Two pieces of memory of one kind, and two domains: the MR has one of each. */
struct subject {
	const char *name;
	struct place at[2];
	struct ibv_pd *pd[2];
};

/* What an MR is to be */
struct state {
	int at, pd, access;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, int n)
{
	qsort(values, n, sizeof(*values), by_value);
	return values[n / 2];
}

static void toggle(struct state *state, int flag)
{
	if (flag == IBV_REREG_MR_CHANGE_ACCESS)
		state->access ^= FEWER ^ RIGHTS;
	else if (flag == IBV_REREG_MR_CHANGE_PD)
		state->pd ^= 1;
	else
		state->at ^= 1;
}

static struct ibv_mr *reg(struct subject *s, const struct state *state)
{
	return must(place_reg(&s->at[state->at], s->pd[state->pd], state->access));
}

/* What changes goes to its other state and back, run after run. */
static void compare(struct subject *s, int flag, const char *change)
{
	double again[RUNS], at_once[RUNS], began, before, after;
	struct state state = { .access = RIGHTS };
	struct ibv_mr *mr = reg(s, &state);

	for (int i = 0; i < RUNS; i++) {
		toggle(&state, flag);
		began = now();
		if (ibv_dereg_mr(mr))
			die("dereg of %s", s->name);
		mr = reg(s, &state);
		again[i] = now() - began;

		toggle(&state, flag);
		began = now();
		if (place_rereg(mr, flag, s->pd[state.pd], &s->at[state.at], state.access))
			die("rereg of %s", s->name);
		at_once[i] = now() - began;
	}
	if (ibv_dereg_mr(mr))
		die("dereg of %s", s->name);
	before = median(again, RUNS);
	after = median(at_once, RUNS);
	printf("%s,%zu,%s,%.1f,%.1f,%.2f\n", s->name, s->at[0].size, change, before, after,
	       after / before);
	fflush(stdout);
}

int main(void)
{
	static const size_t sizes[] = { 4 << 10, 64 << 10, 1 << 20, 16 << 20 };
	struct ibv_context *ctx = open_device("rxe0");
	struct subject s = { .pd = { must(ibv_alloc_pd(ctx)), must(ibv_alloc_pd(ctx)) } };

	printf("memory,bytes,change,dereg_reg_us,rereg_us,ratio\n");
	for (int m = 0; m < 3; m++)
		for (int i = 0; i < 4; i++) {
			s.name = memory[m].name;
			for (int n = 0; n < 2; n++)
				place_open(&s.at[n], memory[m].kind, sizes[i], n);
			for (int c = 0; c < 3; c++)
				compare(&s, changes[c].flag, changes[c].name);
			for (int n = 0; n < 2; n++)
				place_close(&s.at[n]);
		}
	return 0;
}
