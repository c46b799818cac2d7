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
#include "rdma.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define FEWER IBV_ACCESS_LOCAL_WRITE
#define MOST_RUNS 101

enum kind { HOST, DMABUF, MEMFD };
static const char *const kind_name[] = { "memory", "dma-buf", "memfd" };
enum change { ACCESS, PD, TRANSLATION };
static const char *const change_name[] = { "access", "PD", "translation" };
static const int change_flag[] = {
	IBV_REREG_MR_CHANGE_ACCESS, IBV_REREG_MR_CHANGE_PD, IBV_REREG_MR_CHANGE_TRANSLATION,
};

/* Two pieces of memory of one kind, and the MR that has one of them. */
struct subject {
	enum kind kind;
	size_t size;
	struct ibv_pd *pd[2];
	struct buffer buf[2];	/* DMABUF */
	int fd[2];		/* of it, or a memfd */
	void *addr[2];		/* HOST */
	struct ibv_mr *mr;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void memory_open(struct subject *s)
{
	for (int i = 0; i < 2; i++) {
		switch (s->kind) {
		case HOST:
			s->addr[i] = must(aligned_alloc(PAGE, s->size));
			memset(s->addr[i], i, s->size);
			break;
		case DMABUF:
			buffer_open(&s->buf[i], HEAP, s->size);
			s->fd[i] = s->buf[i].fd;
			break;
		case MEMFD:
			s->fd[i] = memfd_create("bench", MFD_CLOEXEC);
			if (s->fd[i] < 0 || posix_fallocate(s->fd[i], 0, s->size))
				die("memfd of %zu bytes", s->size);
		}
	}
}

static void memory_close(struct subject *s)
{
	for (int i = 0; i < 2; i++) {
		switch (s->kind) {
		case HOST:
			free(s->addr[i]);
			break;
		case DMABUF:
			buffer_close(&s->buf[i]);
			break;
		case MEMFD:
			close(s->fd[i]);
		}
	}
}

static void reg(struct subject *s, int which, int pd, int access)
{
	if (s->kind == HOST)
		s->mr = must(ibv_reg_mr(s->pd[pd], s->addr[which], s->size, access));
	else
		s->mr = must(ibv_reg_mr_fd(s->pd[pd], NULL, s->size,
					   s->kind == DMABUF ? IBV_MR_FD_TYPE_DMABUF :
							       IBV_MR_FD_TYPE_MEMFD,
					   s->fd[which], access));
}

static void rereg(struct subject *s, int flags, int which, int pd, int access)
{
	int ret;

	if (s->kind == HOST)
		ret = ibv_rereg_mr(s->mr, flags, s->pd[pd], s->addr[which], s->size, access);
	else
		ret = ibv_rereg_mr_fd(s->mr, flags, s->pd[pd], NULL, s->size,
				      s->kind == DMABUF ? IBV_MR_FD_TYPE_DMABUF :
							  IBV_MR_FD_TYPE_MEMFD,
				      s->fd[which], access);
	if (ret)
		die("rereg of %s", kind_name[s->kind]);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The thing that changes goes to its other state and back, run after run. */
static void compare(struct subject *s, enum change c)
{
	double again[MOST_RUNS], at_once[MOST_RUNS], t;
	int runs = s->size > 1 << 20 ? 11 : MOST_RUNS;

	reg(s, 0, 0, RIGHTS);
	for (int i = 0; i < runs; i++) {
		int side = ~i & 1;
		int which = c == TRANSLATION ? side : 0, pd = c == PD ? side : 0;
		int access = c == ACCESS && side ? FEWER : RIGHTS;

		t = now();
		if (ibv_dereg_mr(s->mr))
			die("dereg of %s", kind_name[s->kind]);
		reg(s, which, pd, access);
		again[i] = now() - t;

		which ^= c == TRANSLATION;
		pd ^= c == PD;
		if (c == ACCESS)
			access ^= FEWER ^ RIGHTS;
		t = now();
		rereg(s, change_flag[c], which, pd, c == ACCESS ? access : 0);
		at_once[i] = now() - t;
	}
	if (ibv_dereg_mr(s->mr))
		die("dereg of %s", kind_name[s->kind]);
	qsort(again, runs, sizeof(*again), by_value);
	qsort(at_once, runs, sizeof(*at_once), by_value);
	printf("%s,%zu,%s,%.1f,%.1f,%.2f\n", kind_name[s->kind], s->size, change_name[c],
	       again[runs / 2], at_once[runs / 2], at_once[runs / 2] / again[runs / 2]);
	fflush(stdout);
}

int main(void)
{
	static const size_t sizes[] = { 4 << 10, 64 << 10, 1 << 20, 16 << 20 };
	struct ibv_context *ctx = open_device("rxe0");
	struct subject s = { .pd = { must(ibv_alloc_pd(ctx)), must(ibv_alloc_pd(ctx)) } };

	printf("memory,bytes,change,dereg_reg_us,rereg_us,ratio\n");
	for (s.kind = HOST; s.kind <= MEMFD; s.kind++)
		for (int i = 0; i < 4; i++) {
			s.size = sizes[i];
			memory_open(&s);
			for (enum change c = ACCESS; c <= TRANSLATION; c++)
				compare(&s, c);
			memory_close(&s);
		}
	return 0;
}
