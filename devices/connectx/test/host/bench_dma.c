// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What it costs to find a bus address in the map of the guest's memory, and to map and unmap
 * a region.  Behind a vIOMMU regions are single pages of one file, as here.
 *
 *	local	each 64 bytes of a page, then of the next region
 *	queues	a WQE, a doorbell record, data, a CQE and so on: 8 regions, again and again
 *	random	any region
 *	remap	one region is unmapped and mapped again: by descriptor, as QEMU asks for it
 *
 * Times are of the process, the least of RUNS.
 */
#define _GNU_SOURCE
#include "dma.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define RUNS 5
#define LOOKUPS (1u << 16)
#define REMAPS 2000
#define PAGE 4096ull
#define BASE 0x100000000ull

static struct dma dma;
static int memory;
static uint64_t address[LOOKUPS];

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bench_dma: %s\n", what);
	exit(1);
}

static uint32_t random32(void)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x >> 32;
}

/* With a hole behind each. */
static uint64_t region_addr(unsigned int i)
{
	return BASE + i * 2 * PAGE;
}

static void map(unsigned int i)
{
	must(!dma_map(&dma, region_addr(i), PAGE, memory, i * PAGE, true), "map");
}

static uint64_t local(unsigned int i, unsigned int regions)
{
	return region_addr(i / 64 % regions) + i % 64 * 64;
}

static uint64_t queues(unsigned int i, unsigned int regions)
{
	return region_addr((uint64_t)(i % 8) * regions / 8) + i / 8 % 64 * 64;
}

static uint64_t anywhere(unsigned int i __attribute__((unused)), unsigned int regions)
{
	return region_addr(random32() % regions) + random32() % 64 * 64;
}

static double cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static double look_up(void)
{
	double begin = cpu_now();

	for (unsigned int i = 0; i < LOOKUPS; i++) {
		size_t len = 64;

		must(dma_run(&dma, address[i], &len, true), "look-up");
	}
	return (cpu_now() - begin) / LOOKUPS;
}

static double remap(void)
{
	double begin = cpu_now();

	for (unsigned int i = 0; i < REMAPS; i++) {
		unsigned int n = (address[i] - BASE) / (2 * PAGE);

		must(!dma_unmap(&dma, region_addr(n), PAGE), "unmap");
		map(n);
	}
	return (cpu_now() - begin) / REMAPS;
}

static double least(double (*measure)(void))
{
	double best = measure();

	for (int i = 1; i < RUNS; i++) {
		double ns = measure();

		best = ns < best ? ns : best;
	}
	return best;
}

static double pattern(uint64_t (*at)(unsigned int i, unsigned int regions), unsigned int regions)
{
	for (unsigned int i = 0; i < LOOKUPS; i++)
		address[i] = at(i, regions);
	return least(look_up);
}

int main(void)
{
	static const unsigned int counts[] = { 1, 16, 512, 30000 };

	memory = memfd_create("guest", MFD_CLOEXEC);
	must(memory >= 0 && !ftruncate(memory, 30000 * PAGE), "memory");
	printf("%7s  %29s  %8s\n", "", "ns a look-up", "ns");
	printf("%7s  %9s %9s %9s  %8s\n", "regions", "local", "queues", "random", "remap");
	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		unsigned int n = counts[c];
		double cost[3];

		if (n > DMA_REGIONS)
			break;
		/* In an order that has none. */
		for (unsigned int i = 0; i < n; i++)
			map((uint64_t)i * 7919 % n);
		cost[0] = pattern(local, n);
		cost[1] = pattern(queues, n);
		cost[2] = pattern(anywhere, n);
		printf("%7u  %9.1f %9.1f %9.1f  %8.0f\n", n, cost[0], cost[1], cost[2],
		       least(remap));
		fflush(stdout);
		dma_unmap_all(&dma);
	}
	return 0;
}
