// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What reg, dereg and rereg cost against size, of ordinary memory, a dma-buf and a memfd.
 *
 * The ratio of reg and dereg is relative to ordinary memory of that size.  The ratio of a
 * rereg is relative to what an application does without it: dereg and reg of the same
 * memory.
 */
#include "bench/samples.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/memory.h"
#include "lib/device.h"

#define FEWER LOCAL_WRITE
#define NR_MEMORY 3

static const struct {
	enum memory_kind kind;
	const char *name;
} memory[NR_MEMORY] = { { HOST, "memory" }, { HEAP, "dma-buf" }, { MEMFD, "memfd" } };

static const struct {
	size_t bytes;
	int runs;
} sizes[] = {
	{ 4 << 10, 51 }, { 64 << 10, 51 }, { 1 << 20, 51 }, { 16 << 20, 21 }, { 64 << 20, 9 },
	{ 256 << 20, 5 },
};

enum { DEREG, REG, REREG, NR_OPS = REREG + 3 };

static const struct {
	int flag;
	const char *name;
} changes[] = {
	{ CHANGE_ACCESS, "rereg access" },
	{ CHANGE_PD, "rereg PD" },
	{ TRANS, "rereg translation" },
};

/* Two pieces of memory of one kind; the MR is of one of them. */
struct subject {
	struct memory at[2];
	struct ibv_mr *mr;
	struct samples took[NR_OPS];
};

/* All operations once; each run changes the MR to its other state. */
static void run(struct subject *s, struct ibv_pd *pd[2], int n)
{
	double began = now();

	mr_close(s->mr);
	sample(&s->took[DEREG], began, 1);

	began = now();
	s->mr = memory_reg(&s->at[n % 2], pd[n % 2], WRITE_ACCESS);
	sample(&s->took[REG], began, 1);

	for (int c = 0; c < 3; c++) {
		began = now();
		if (memory_rereg(s->mr, changes[c].flag, pd[!(n % 2)], &s->at[!(n % 2)], FEWER))
			fail_case("%s", changes[c].name);
		sample(&s->took[REREG + c], began, 1);
	}
}

static void tell(struct subject *subjects, size_t bytes)
{
	double reg[NR_MEMORY], dereg[NR_MEMORY];

	for (int m = 0; m < NR_MEMORY; m++) {
		reg[m] = median(&subjects[m].took[REG]);
		dereg[m] = median(&subjects[m].took[DEREG]);
		bench_result("reg", memory[m].name, bytes, reg[m], reg[0]);
		bench_result("dereg", memory[m].name, bytes, dereg[m], dereg[0]);
		for (int c = 0; c < 3; c++)
			bench_result(changes[c].name, memory[m].name, bytes,
				     median(&subjects[m].took[REREG + c]), dereg[m] + reg[m]);
	}
}

int main(void)
{
	struct ibv_context *ctx = device_open();
	struct ibv_pd *pd[2] = { must(ibv_alloc_pd(ctx)), must(ibv_alloc_pd(ctx)) };

	bench_heading();
	for (int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct subject subjects[NR_MEMORY] = {};

		for (int m = 0; m < NR_MEMORY; m++) {
			for (int n = 0; n < 2; n++)
				memory_open_filled(&subjects[m].at[n], memory[m].kind,
						   sizes[i].bytes, n);
			subjects[m].mr = memory_reg(&subjects[m].at[0], pd[0], WRITE_ACCESS);
		}
		for (int n = 0; n < sizes[i].runs; n++)
			for (int m = 0; m < NR_MEMORY; m++)
				run(&subjects[m], pd, n);
		tell(subjects, sizes[i].bytes);
		for (int m = 0; m < NR_MEMORY; m++) {
			mr_close(subjects[m].mr);
			for (int n = 0; n < 2; n++)
				memory_close(&subjects[m].at[n]);
		}
	}
	return 0;
}
