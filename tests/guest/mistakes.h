/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A fixture for calls to the kernel itself that are wrong, when no library
 * stands between.  Each mistake is made in a registration and in a
 * reregistration that else are right, and each has its errno.  After it there is
 * no MR more, and the one that was to be reregistered has its keys, its range,
 * and its data by RDMA.
 */
#ifndef MISTAKES_H
#define MISTAKES_H

#include "uapi.h"
#include "kselftest_harness.h"
#include <sys/mman.h>
#include <sys/socket.h>

#define SIZE (8 * PAGE)
#define IOVA 0x7000000000ul
#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define ALL_FLAGS (IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |	\
		   IBV_REREG_MR_CHANGE_ACCESS)

FIXTURE(uapi)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct ibv_mr *local;
	uint8_t *work;
	struct buffer buf;
	struct buffer memfd;
	int socket;
	struct keys mr;		/* buf, from IOVA on */
	uint32_t dead_pd, dead_mr;
	struct ibv_context *other;
	uint32_t other_pd, other_mr;
	int mrs;
	int failures;
	uint8_t *edge;		/* a page, and one that is for nobody */
	uint8_t *read_only;
};

static inline void other_open(FIXTURE_DATA(uapi) *self)
{
	struct fd_call c = {
		.access = RW, .type = IB_UVERBS_MR_FD_TYPE_DMABUF, .fd = self->buf.fd,
		.length = SIZE,
	};
	struct keys keys;

	/* Handles that this context has given out to nothing. */
	self->other = open_device("rxe0");
	for (int i = 0; i < 40; i++)
		self->other_pd = must(ibv_alloc_pd(self->other))->handle;
	c.pd = self->other_pd;
	if ((errno = fd_call(self->other->cmd_fd, BY_IOCTL, &c, &keys)))
		die("reg in the other context");
	self->other_mr = keys.handle;
}

static inline void dead_open(FIXTURE_DATA(uapi) *self, const struct fd_call *c)
{
	struct ibv_pd *pd = must(ibv_alloc_pd(self->ctx)), *keep = must(ibv_alloc_pd(self->ctx));
	struct keys keys;

	if ((errno = fd_call(self->ctx->cmd_fd, BY_IOCTL, c, &keys)) ||
	    (errno = mr_dereg(self->ctx->cmd_fd, BY_IOCTL, keys.handle)))
		die("an MR to be dead");
	self->dead_mr = keys.handle;
	self->dead_pd = pd->handle;
	if ((errno = ibv_dealloc_pd(pd)) || (errno = ibv_dealloc_pd(keep)))
		die("dealloc PD");
}

FIXTURE_SETUP(uapi)
{
	struct fd_call c = {
		.access = RW, .type = IB_UVERBS_MR_FD_TYPE_DMABUF, .length = SIZE, .iova = IOVA,
	};

	ASSERT_TRUE(nothing_left());
	self->ctx = open_device("rxe0");
	pair_open(&self->pair, self->ctx, NULL);
	buffer_open(&self->buf, HEAP, SIZE);
	buffer_open(&self->memfd, MEMFD, SIZE);
	self->socket = socket(AF_UNIX, SOCK_STREAM, 0);
	self->edge = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_EQ(0, mprotect(self->edge + PAGE, PAGE, PROT_NONE));
	self->read_only = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	self->work = must(aligned_alloc(PAGE, SIZE));
	self->local = must(ibv_reg_mr(self->pair.pd, self->work, SIZE, RW));
	c.pd = self->pair.pd->handle;
	c.fd = self->buf.fd;
	ASSERT_EQ(0, fd_call(self->ctx->cmd_fd, BY_IOCTL, &c, &self->mr));
	other_open(self);
	dead_open(self, &c);
	self->mrs = mr_count();
}

FIXTURE_TEARDOWN(uapi)
{
	EXPECT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_WRITE, self->mr.handle));
	EXPECT_EQ(0, ibv_dereg_mr(self->local));
	pair_close(&self->pair);
	ibv_close_device(self->ctx);
	ibv_close_device(self->other);
	buffer_close(&self->buf);
	buffer_close(&self->memfd);
	EXPECT_TRUE(nothing_left());
}

/* Calls that are right.  The reregistration changes all, to the same. */
static inline struct fd_call right_call(FIXTURE_DATA(uapi) *self, bool rereg)
{
	return (struct fd_call){
		.rereg = rereg, .mr = self->mr.handle, .flags = ALL_FLAGS,
		.pd = self->pair.pd->handle, .access = RW, .type = IB_UVERBS_MR_FD_TYPE_DMABUF,
		.fd = self->buf.fd, .length = SIZE, .iova = IOVA,
	};
}

static inline bool moves_data(FIXTURE_DATA(uapi) *self)
{
	static uint32_t seed;
	size_t n = PAGE + 100, from = SIZE - n;

	fill(self->work, n, ++seed);
	if (rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->local, (uintptr_t)self->work, n,
		    IOVA + from, self->mr.rkey) ||
	    !filled(self->buf.cpu + from, n, seed, "written"))
		return false;
	fill(self->buf.cpu + from, n, ++seed);
	return !rdma_op(&self->pair, IBV_WR_RDMA_READ, self->local, (uintptr_t)self->work, n,
			IOVA + from, self->mr.rkey) && filled(self->work, n, seed, "read");
}

/* The MR is as it was, and there is none more. */
static inline bool intact(FIXTURE_DATA(uapi) *self)
{
	struct mr_info info;
	int mrs = mr_count();

	if (mrs != self->mrs) {
		printf("# there are %d MRs and not %d\n", mrs, self->mrs);
		return false;
	}
	errno = mr_query(self->ctx->cmd_fd, self->mr.handle, &info);
	if (errno || info.lkey != self->mr.lkey || info.rkey != self->mr.rkey ||
	    info.length != SIZE || info.iova != IOVA) {
		printf("# the MR has changed, or is gone\n");
		return false;
	}
	return moves_data(self);
}

static inline void expect(FIXTURE_DATA(uapi) *self, bool rereg, const char *how, const char *what, int err,
		   int wanted)
{
	if (err != wanted) {
		printf("# %s by %s, %s: %s, not %s\n", rereg ? "rereg" : "reg", how, what,
		       err ? strerrorname_np(err) : "success",
		       wanted ? strerrorname_np(wanted) : "success");
		self->failures++;
	}
	if (!intact(self)) {
		printf("# ... after %s by %s, %s\n", rereg ? "rereg" : "reg", how, what);
		self->failures++;
	}
}

#endif
