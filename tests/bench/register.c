// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What reg, dereg and rereg cost against size, of ordinary memory, a dma-buf and a memfd,
 * and, if the guest has the GPU of the tests, of its buffers in VRAM and in system memory.
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
#include "lib/pattern.h"

#define FEWER LOCAL_WRITE
#define NR_MEMORY 5

static const struct {
	enum memory_kind kind;
	const char *name;
	size_t largest;		/* two of these have to find room */
	bool of_gpu;
} memory[NR_MEMORY] = {
	{ HOST, "memory", 256 << 20, false },
	{ HEAP, "dma-buf", 256 << 20, false },
	{ MEMFD, "memfd", 256 << 20, false },
	{ GPU_VRAM, "VRAM", 4 << 20, true },
	{ GPU_SYSTEM, "GPU system", 64 << 20, true },
};

static const struct {
	size_t bytes;
	int runs;
} sizes[] = {
	{ 4 << 10, 51 }, { 64 << 10, 51 }, { 1 << 20, 51 }, { 4 << 20, 31 }, { 16 << 20, 31 },
	{ 64 << 20, 21 }, { 256 << 20, 11 },
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
	double reg0 = median(&subjects[0].took[REG]), dereg0 = median(&subjects[0].took[DEREG]);

	for (int m = 0; m < NR_MEMORY; m++) {
		struct samples *took = subjects[m].took;

		if (!subjects[m].mr)
			continue;
		bench_result("reg", memory[m].name, bytes, &took[REG], reg0);
		bench_result("dereg", memory[m].name, bytes, &took[DEREG], dereg0);
		for (int c = 0; c < 3; c++)
			bench_result(changes[c].name, memory[m].name, bytes, &took[REREG + c],
				     median(&took[DEREG]) + median(&took[REG]));
	}
}

/* All kinds of memory that have this size, in turn. */
static void compare(struct ibv_pd *pd[2], size_t bytes, int runs, bool gpu)
{
	struct subject subjects[NR_MEMORY] = {};

	for (int m = 0; m < NR_MEMORY; m++) {
		struct subject *s = &subjects[m];

		if (bytes > memory[m].largest || (memory[m].of_gpu && !gpu))
			continue;
		for (int n = 0; n < 2; n++) {
			memory_open(&s->at[n], memory[m].kind, bytes);
			fill(s->at[n].cpu, bytes, n);
		}
		s->mr = memory_reg(&s->at[0], pd[0], WRITE_ACCESS);
	}
	for (int n = 0; n < runs; n++)
		for (int m = 0; m < NR_MEMORY; m++)
			if (subjects[m].mr)
				run(&subjects[m], pd, n);
	tell(subjects, bytes);
	for (int m = 0; m < NR_MEMORY; m++) {
		mr_close(subjects[m].mr);
		for (int n = 0; n < 2; n++)
			memory_close(&subjects[m].at[n]);
	}
}

int main(void)
{
	struct ibv_context *ctx = device_open();
	struct ibv_pd *pd[2] = { must(ibv_alloc_pd(ctx)), must(ibv_alloc_pd(ctx)) };
	int gpu = memory_open_card("mrfd_gpu");

	bench_heading();
	for (int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		compare(pd, sizes[i].bytes, sizes[i].runs, gpu >= 0);
	return 0;
}
