/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fixture uapi, for wrong calls to the kernel itself, without the library.  A
 * case makes each mistake in a registration and in a reregistration that are correct
 * otherwise, and expects its errno.  After each call the number of MRs must be the
 * same, the MR to reregister must have the same keys and range, and RDMA must still
 * write and read its memory.
 */
#ifndef MISTAKES_H
#define MISTAKES_H

#include "lib/counts.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/uverbs.h"
#include <sys/mman.h>
#include <sys/socket.h>

#define SIZE (8 * PAGE)

FIXTURE(uapi)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory local, buf, memfd;
	struct ibv_mr *local_mr;
	int socket;
	struct keys mr;		/* buf, from IOVA on */
	uint32_t dead_pd, dead_mr;
	struct ibv_context *other;
	uint32_t other_pd, other_mr;
	int mrs;
	int failures;
	uint8_t *edge;		/* a page, followed by one without access */
	uint8_t *read_only;
};

static inline void other_open(FIXTURE_DATA(uapi) *self)
{
	struct fd_call c = {
		.access = RW, .type = IB_UVERBS_BUFFER_TYPE_DMABUF, .fd = self->buf.fd,
		.length = SIZE,
	};
	struct keys keys;

	/* Allocate many, so that the last handle does not exist in the context of the case. */
	self->other = device_open();
	for (int i = 0; i < 40; i++)
		self->other_pd = must(ibv_alloc_pd(self->other))->handle;
	c.pd = self->other_pd;
	if ((errno = fd_call(self->other->cmd_fd, BY_IOCTL, &c, &keys)))
		fail_case("reg in the other context");
	self->other_mr = keys.handle;
}

static inline void dead_open(FIXTURE_DATA(uapi) *self, const struct fd_call *c)
{
	struct ibv_pd *pd = must(ibv_alloc_pd(self->ctx)), *keep = must(ibv_alloc_pd(self->ctx));
	struct keys keys;

	if ((errno = fd_call(self->ctx->cmd_fd, BY_IOCTL, c, &keys)) ||
	    (errno = mr_dereg(self->ctx->cmd_fd, BY_IOCTL, keys.handle)))
		fail_case("register and deregister an MR");
	self->dead_mr = keys.handle;
	self->dead_pd = pd->handle;
	if ((errno = ibv_dealloc_pd(pd)) || (errno = ibv_dealloc_pd(keep)))
		fail_case("dealloc PD");
}

FIXTURE_SETUP(uapi)
{
	struct fd_call c = {
		.access = RW, .type = IB_UVERBS_BUFFER_TYPE_DMABUF, .length = SIZE, .iova = IOVA,
	};

	need("reg_mr_fd");
	need("rereg_mr_fd");
	need("memfd");
	ASSERT_TRUE(nothing_left());
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	memory_open(&self->buf, HEAP, SIZE);
	memory_open(&self->memfd, MEMFD, SIZE);
	self->socket = socket(AF_UNIX, SOCK_STREAM, 0);
	self->edge = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	ASSERT_EQ(0, mprotect(self->edge + PAGE, PAGE, PROT_NONE));
	self->read_only = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memory_open(&self->local, HOST, SIZE);
	self->local_mr = memory_reg(&self->local, self->pair.pd, RW);
	c.pd = self->pair.pd->handle;
	c.fd = self->buf.fd;
	ASSERT_EQ(0, fd_call(self->ctx->cmd_fd, BY_IOCTL, &c, &self->mr));
	other_open(self);
	dead_open(self, &c);
	self->mrs = mr_count();
}

FIXTURE_TEARDOWN(uapi)
{
	if (self->mr.rkey)
		EXPECT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_WRITE, self->mr.handle));
	mr_close(self->local_mr);
	pair_close(&self->pair);
	device_close(self->ctx);
	device_close(self->other);
	memory_close(&self->buf);
	memory_close(&self->memfd);
	memory_close(&self->local);
	EXPECT_TRUE(nothing_left());
}

/* Correct calls.  The reregistration changes everything, to the same values. */
static inline struct fd_call right_call(FIXTURE_DATA(uapi) *self, bool rereg)
{
	return (struct fd_call){
		.rereg = rereg, .mr = self->mr.handle, .flags = CHANGE_ALL,
		.pd = self->pair.pd->handle, .access = RW, .type = IB_UVERBS_BUFFER_TYPE_DMABUF,
		.fd = self->buf.fd, .length = SIZE, .iova = IOVA,
	};
}

static inline bool moves_data(FIXTURE_DATA(uapi) *self)
{
	static uint32_t seed;
	size_t n = PAGE + 100, from = SIZE - n;

	fill(self->local.cpu, n, ++seed);
	if (rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->local_mr, self->local.iova, n,
		    IOVA + from, self->mr.rkey) ||
	    !filled(self->buf.cpu + from, n, seed, "written"))
		return false;
	fill(self->buf.cpu + from, n, ++seed);
	return !rdma_op(&self->pair, IBV_WR_RDMA_READ, self->local_mr, self->local.iova, n,
			IOVA + from, self->mr.rkey) && filled(self->local.cpu, n, seed, "read");
}

/* Whether the MR is unchanged, and the number of MRs too. */
static inline bool intact(FIXTURE_DATA(uapi) *self)
{
	struct mr_info info;
	int mrs = mr_count();

	if (mrs != self->mrs) {
		printf("# there are %d MRs, not %d\n", mrs, self->mrs);
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

/* A rereg has succeeded.  On a device that does not keep them, the MR may have other keys. */
static inline void take_keys(FIXTURE_DATA(uapi) *self)
{
	struct mr_info info;

	if (device_can("keeps-keys"))
		return;
	errno = mr_query(self->ctx->cmd_fd, self->mr.handle, &info);
	if (errno)
		fail_case("query the MR");
	self->mr.lkey = info.lkey;
	self->mr.rkey = info.rkey;
}

static inline void expect(FIXTURE_DATA(uapi) *self, bool rereg, const char *how,
			  const char *what, int err, int wanted)
{
	if (err != wanted) {
		printf("# %s by %s, %s: %s, not %s\n", rereg ? "rereg" : "reg", how, what,
		       err ? strerrorname_np(err) : "success",
		       wanted ? strerrorname_np(wanted) : "success");
		self->failures++;
	}
	if (rereg && !err)
		take_keys(self);
	if (!intact(self)) {
		printf("# ... MR or data not as before, after %s by %s, %s\n",
		       rereg ? "rereg" : "reg", how, what);
		self->failures++;
	}
}

#endif
