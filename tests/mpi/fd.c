// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * usage: fd [closed] KIND...		KIND is udmabuf, vgem or heap
 *
 * An MPI job of two processes for host/ucx: messages of 16 KiB to 1 MiB, then a window's put and
 * get, from and to a dma-buf of each KIND that both have mapped.  MPI gets pointers and nothing
 * else; with "closed" the process has no file descriptor any more either.
 *
 * The mapping begins inside of the buffer (not with vgem: of a DRM driver our UCX takes only one
 * that begins with it), and what arrives is compared by another mapping of all of it: each byte,
 * and that no other one has changed.  The first process prints a line for each step that was
 * right, as "heap 1048576: ok", and each prints how many more references its buffer has then:
 * those of MPI's memory regions.  What is wrong ends the job.
 */
#include "lib/case.h"
#include "lib/memory.h"
#include "lib/pattern.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONGEST (1ul << 20)
#define SIZE (LONGEST + 4 * PAGE)	/* of the buffer */

static const size_t sizes[] = { 16 << 10, 256 << 10, LONGEST };
static const struct {
	const char *name;
	enum memory_kind kind;
	size_t first;			/* where the mapping begins in the buffer */
} kinds[] = { { "udmabuf", UDMABUF, 3 * PAGE }, { "vgem", VGEM, 0 }, { "heap", HEAP, PAGE } };
static int rank;
static size_t first;			/* of this kind */

/* References to the dma-buf with this inode, by the kernel's list of all. */
static long references(unsigned long inode)
{
	FILE *f = must(fopen("/sys/kernel/debug/dma_buf/bufinfo", "r"));
	long count = -1, n;
	char line[256];
	unsigned long at;

	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%*u %*x %*x %ld %*s %lu", &n, &at) == 2 && at == inode)
			count = n;
	fclose(f);
	if (count < 0)
		fail_case("the kernel does not list the dma-buf");
	return count;
}

static void arrived(struct memory *m, size_t n, uint32_t seed, const char *what)
{
	if (!filled(m->cpu + first, n, seed, what) || !memory_only_changed(m, first, n))
		fail_case("process %d: %s of %zu bytes: wrong bytes", rank, what, n);
}

static void right(const char *kind, const char *step)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		printf("%s %s: ok\n", kind, step);
	fflush(stdout);
}

/* There and back, each time to a buffer with other bytes. */
static void message(struct memory *m, uint8_t *p, size_t n)
{
	for (int from = 0; from < 2; from++) {
		uint32_t seed = n + from;

		if (rank == from) {
			fill(m->cpu + first, n, seed);
			MPI_Send(p, n, MPI_BYTE, !rank, 0, MPI_COMM_WORLD);
		} else {
			fill(m->cpu, SIZE, 7);
			memory_mark(m);
			MPI_Recv(p, n, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			arrived(m, n, seed, "message");
		}
	}
}

/* The first process puts into the window of the other one, which is the dma-buf, and gets it. */
static void window(struct memory *m, uint8_t *p)
{
	MPI_Win win;

	fill(m->cpu, SIZE, 8);
	memory_mark(m);
	MPI_Win_create(p, LONGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	if (!rank)
		fill(m->cpu + first, LONGEST, 9);
	MPI_Win_fence(0, win);
	if (!rank)
		MPI_Put(p, LONGEST, MPI_BYTE, 1, 0, LONGEST, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	if (rank) {
		arrived(m, LONGEST, 9, "put");
		fill(m->cpu + first, LONGEST, 10);
	}
	MPI_Win_fence(0, win);
	if (!rank)
		MPI_Get(p, LONGEST, MPI_BYTE, 1, 0, LONGEST, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	if (!rank)
		arrived(m, LONGEST, 10, "get");
	MPI_Win_free(&win);
}

static void run(size_t which, bool closed)
{
	const char *name = kinds[which].name;
	struct memory m;
	struct stat st;
	char step[32];
	long before;
	uint8_t *p;

	first = kinds[which].first;
	memory_open(&m, kinds[which].kind, SIZE);
	p = mmap(NULL, LONGEST, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, first);
	if (p == MAP_FAILED)
		fail_case("map the dma-buf");
	must(!fstat(m.fd, &st));
	if (closed)
		memory_close_fd(&m);
	before = references(st.st_ino);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		message(&m, p, sizes[i]);
		snprintf(step, sizeof(step), "%zu", sizes[i]);
		right(name, step);
	}
	printf("%s: %ld references\n", name, references(st.st_ino) - before);
	window(&m, p);
	right(name, "window");
	munmap(p, LONGEST);
	memory_close(&m);
}

int main(int argc, char **argv)
{
	bool closed = argc > 1 && !strcmp(argv[1], "closed");
	int count;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &count);
	if (count != 2)
		fail_case("this is a job of two processes, not of %d", count);
	for (int arg = 1 + closed; arg < argc; arg++) {
		size_t i = 0, all = sizeof(kinds) / sizeof(*kinds);

		while (i < all && strcmp(kinds[i].name, argv[arg]))
			i++;
		if (i == all)
			fail_case("%s is no KIND of memory", argv[arg]);
		run(i, closed);
	}
	MPI_Finalize();
	return 0;
}
