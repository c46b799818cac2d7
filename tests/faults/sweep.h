/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A sweep makes the same call again and again.  In the Nth call the Nth point of
 * failure fails: an allocation, of slab or of pages, or a copy from or to user
 * space.  The sweep is over when a call has fewer than N points.
 *
 *	struct sweep s = {};
 *
 *	while (sweep_next(&s)) {
 *		fail_at(s.n);
 *		err = call();
 *		fail_end(&s, err);
 *		check the state
 *	}
 *	sweep_end(&s, ...);
 */
#ifndef FAULTS_SWEEP_H
#define FAULTS_SWEEP_H

#include "lib/counts.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/uverbs.h"

/* For harness_run(); needs a kernel with fault injection. */
void faults_prepare(void);
/* In a process that makes calls which are to fail. */
void faults_open(void);
/* From here on, let the Nth point of failure of this thread fail. */
void fail_at(unsigned int n);

struct sweep {
	unsigned int n;		/* the point that fails; counts from 1 */
	unsigned int errors;	/* calls that failed */
	bool over;		/* the last call has not reached point N */
};

bool sweep_next(struct sweep *s);
void fail_end(struct sweep *s, int err);
void sweep_end(const struct sweep *s, const char *how, const char *what, const char *of);

/* What the calls need, and the counts before them. */
#define SIZE (130 * PAGE)	/* more pages than two nodes of an xarray hold */

enum kind { IN_DMABUF, IN_MEMFD, IN_HOST, NR_KINDS };
extern const char *const kind_name[NR_KINDS];

struct env {
	struct ibv_context *ctx;
	struct ibv_pd *pd[2];
	struct pair pair[2];		/* one in each PD */
	struct memory local;
	struct ibv_mr *local_mr[2];	/* one in each PD */
	struct memory mem[NR_KINDS][2];	/* the second is for a rereg */
	bool dmabuf_is_pinned;		/* and counts against RLIMIT_MEMLOCK */
	uint32_t more_access;		/* rights of a rereg, for which mlx5 makes other keys */
	long pinned;
	int mrs;
	int free_fd;
};

/* DMABUF: the exporter. */
void env_open(struct env *env, enum memory_kind dmabuf);
void env_close(struct env *env);
const char *device_file(struct env *env);	/* in /dev */
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

/* The methods by fd, or IB_USER_VERBS_CMD_REG_MR and REREG_MR, which take host memory only. */
enum way { BY_FD, BY_ADDRESS };

uint64_t iova_of(int nr);
uint32_t fd_type_of(enum kind kind);
int mr_reg(struct env *env, struct mr *mr, enum way way);
void check_mr(struct env *env, const struct mr *mr);
void must_dereg(struct env *env, struct mr *mr);

/*
 * A rereg; a change of translation is to memory of kind TO, a change of access to RWA and
 * env.more_access.
 */
struct rereg {
	const char *what;
	uint32_t flags;
	enum kind to;
	enum way way;
};

/* 0 and the keys that it gave, or an errno. */
int rereg_call(struct env *env, const struct rereg *r, const struct mr *mr, struct keys *keys);
/* MR is now as after that rereg. */
void rereg_done(struct env *env, struct mr *mr, const struct rereg *r, const struct keys *keys);

#endif
