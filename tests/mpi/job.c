// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * usage: job [--endless]
 *
 * An MPI job for host/cluster, of any number of processes: messages of a byte to a MiB between
 * each two of them, collectives, and a window that each process writes, reads and adds to at the
 * next one.  Each process compares every byte with what it computes itself.  The first one prints
 * "N processes: all bytes are right"; what is wrong ends the job with status 1.  With --endless
 * messages and sums go on for ever after "N processes go on", for a test that ends one of them.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST (1 << 20)
#define ROUNDS 8	/* of the longest message */

static const int sizes[] = { 1, 7, 100, 4096, 5000, 70001, LONGEST };
static int rank, count;

static void fill(uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (i * 2654435761u + seed * 40503u) >> 13;
}

static void check(const char *what, const uint8_t *p, size_t n, uint32_t seed)
{
	uint8_t *wanted = malloc(n);

	fill(wanted, n, seed);
	for (size_t i = 0; i < n; i++)
		if (p[i] != wanted[i]) {
			fprintf(stderr, "process %d: %s: byte %zu of %zu is %#x, not %#x\n", rank,
				what, i, n, p[i], wanted[i]);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
	free(wanted);
}

static uint8_t *bytes(size_t n)
{
	uint8_t *p = calloc(n, 1);

	if (!p)
		MPI_Abort(MPI_COMM_WORLD, 1);
	return p;
}

/* Each process sends to the one DISTANCE after it, and receives from the one before. */
static void messages(int size, int distance)
{
	int to = (rank + distance) % count, from = (rank + count - distance) % count;
	uint8_t *out = bytes(size), *in = bytes(size);

	fill(out, size, rank + size);
	MPI_Sendrecv(out, size, MPI_BYTE, to, 1, in, size, MPI_BYTE, from, 1, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	check("message", in, size, from + size);
	free(out);
	free(in);
}

static void collectives(int size)
{
	uint8_t *out = bytes((size_t)size * count), *in = bytes((size_t)size * count);

	for (int root = 0; root < count; root++) {
		memset(in, 0, size);
		if (rank == root)
			fill(in, size, 7 + root);
		MPI_Bcast(in, size, MPI_BYTE, root, MPI_COMM_WORLD);
		check("broadcast", in, size, 7 + root);
	}
	for (int to = 0; to < count; to++)
		fill(out + (size_t)to * size, size, rank * count + to);
	MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
	for (int from = 0; from < count; from++)
		check("all to all", in + (size_t)from * size, size, from * count + rank);
	fill(out, size, rank);
	MPI_Allgather(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
	for (int from = 0; from < count; from++)
		check("all gather", in + (size_t)from * size, size, from);
	free(out);
	free(in);
}

/* The sum of N numbers of every process. */
static void sum(int n)
{
	uint32_t *out = (void *)bytes(4ul * n), *in = (void *)bytes(4ul * n);

	for (int i = 0; i < n; i++)
		out[i] = i + rank;
	MPI_Allreduce(out, in, n, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++)
		if (in[i] != (uint32_t)i * count + count * (count - 1) / 2) {
			fprintf(stderr, "process %d: sum %d of %d is wrong\n", rank, i, n);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
	free(out);
	free(in);
}

static void window(void)
{
	int next = (rank + 1) % count, before = (rank + count - 1) % count;
	uint8_t *memory, *other = bytes(LONGEST);
	uint64_t one = 1, was, counter;
	MPI_Win win;

	MPI_Win_allocate(LONGEST + 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
	MPI_Win_fence(0, win);
	fill(memory, LONGEST, 10 + rank);
	memset(memory + LONGEST, 0, 8);
	MPI_Win_fence(0, win);
	MPI_Get(other, LONGEST, MPI_BYTE, next, 0, LONGEST, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	check("get", other, LONGEST, 10 + next);
	fill(other, LONGEST, 20 + rank);
	MPI_Put(other, LONGEST, MPI_BYTE, next, 0, LONGEST, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	check("put", memory, LONGEST, 20 + before);
	for (int i = 0; i < 10; i++) {
		MPI_Fetch_and_op(&one, &was, MPI_UINT64_T, 0, LONGEST, MPI_SUM, win);
		MPI_Win_fence(0, win);
	}
	memcpy(&counter, memory + LONGEST, 8);
	if (counter != (rank ? 0 : 10ull * count)) {
		fprintf(stderr, "process %d: the counter is %llu\n", rank,
			(unsigned long long)counter);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	MPI_Win_free(&win);
	free(other);
}

static void go_on(void)
{
	for (unsigned int i = 0;; i++) {
		sum(100000);
		messages(LONGEST, 1);
		if (!rank && !i) {
			printf("%d processes go on\n", count);
			fflush(stdout);
		}
	}
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &count);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (int distance = 1; distance < count; distance++)
			messages(sizes[i], distance);
	if (argc > 1)
		go_on();
	for (int i = 0; i < ROUNDS; i++)
		messages(LONGEST, 1);
	collectives(1);
	collectives(5000);
	collectives(200000);
	sum(1);
	sum(100000);
	window();
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		printf("%d processes: all bytes are right\n", count);
	MPI_Finalize();
	return 0;
}
