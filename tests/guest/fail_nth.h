/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the sweeps over every point of failure share.  A sweep makes a call again
 * and again; the first time the first thing in it that can fail does, the second
 * time the second, until the call ends before its turn comes.  What can fail is
 * what takes memory, slab or page, and what copies from or to user space.
 *
 *	struct sweep s = {};
 *
 *	while (sweep_next(&s)) {
 *		fail_at(s.n);
 *		err = call();
 *		fail_end(&s, err);
 *		look at what there is now
 *	}
 *	sweep_end(&s, ...);
 */
#ifndef FAIL_NTH_H
#define FAIL_NTH_H

#include "uapi.h"

/* In main(), before the harness runs; needs a kernel with fault injection. */
void faults_prepare(void);
/* In a process of which something is to fail. */
void faults_open(void);
/* Let the Nth thing fail that can, from here on in this thread. */
void fail_at(unsigned int n);

struct sweep {
	unsigned int n;		/* which may fail; counts from 1 */
	unsigned int errors;	/* how often the call failed for it */
	bool over;		/* this time nothing did */
};

bool sweep_next(struct sweep *s);
void fail_end(struct sweep *s, int err);
void sweep_end(const struct sweep *s, const char *how, const char *what, const char *of);

/* What there is to make calls with, and what there was before them. */
#define SIZE (130 * PAGE)	/* more than two nodes of an xarray hold */
#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define RWA (RW | IBV_ACCESS_REMOTE_ATOMIC)

enum kind { IN_DMABUF, IN_MEMFD, IN_HOST, NR_KINDS };
extern const char *const kind_name[NR_KINDS];

struct memory {
	int fd;
	uint8_t *cpu;
};

struct env {
	struct ibv_context *ctx;
	struct ibv_pd *pd[2];
	struct pair pair[2];		/* one in each PD */
	struct ibv_mr *local[2];	/* of work, likewise */
	uint8_t *work;
	struct buffer buf[2][2];	/* of those two kinds that have fds */
	struct memory mem[NR_KINDS][2];	/* the second is for a rereg */
	long pinned;			/* as it was */
	int mrs;
	int free_fd;
};

void env_open(struct env *env);
void env_close(struct env *env);
bool fd_left(struct env *env);
void check_pinned(struct env *env, size_t bytes);
void check_nothing_left(struct env *env);

/* The MR that a case is about, as it should be. */
struct mr {
	struct keys keys;
	enum kind kind;
	int nr;			/* which of the memories of that kind */
	int pd;
	uint32_t access;
};

uint64_t iova_of(int nr);
uint32_t fd_type_of(enum kind kind);
int mr_reg(struct env *env, struct mr *mr, enum entry e);
void check_mr(struct env *env, const struct mr *mr);
void must_dereg(struct env *env, struct mr *mr);

#endif
