/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fixture uapi, for wrong calls to the kernel itself, without the library, and a table of
 * wrong arguments.  A case makes each mistake in a registration and in a reregistration that
 * are correct otherwise, and expects its errno.  After each call the number of MRs must be the
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
	if ((errno = fd_call(self->other->cmd_fd, &c, &keys)))
		fail_case("reg in the other context");
	self->other_mr = keys.handle;
}

static inline void dead_open(FIXTURE_DATA(uapi) *self, const struct fd_call *c)
{
	struct ibv_pd *pd = must(ibv_alloc_pd(self->ctx)), *keep = must(ibv_alloc_pd(self->ctx));
	struct keys keys;

	if ((errno = fd_call(self->ctx->cmd_fd, c, &keys)) ||
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
	int err;

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
	err = fd_call(self->ctx->cmd_fd, &c, &self->mr);
	/* On a kernel without the method some cases show what is wrong there in other ones. */
	if (err != EPROTONOSUPPORT) {
		ASSERT_EQ(0, err);
		other_open(self);
		dead_open(self, &c);
	}
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

/* The argument that is wrong, and the value or object that it gets. */
enum field { MR, FLAGS, PD, ACCESS, TYPE, FD, DESC_FLAGS, OFFSET, LENGTH, IOVA_ };
enum object { NUMBER, A_CQ, A_PD, AN_MR, DEAD_PD, DEAD_MR, OTHER_PD, OTHER_MR, A_MEMFD, A_SOCKET,
	      CMD_FD, A_DMABUF };

struct mistake {
	const char *what;
	int err;
	enum field field;
	uint64_t value;
	enum object object;	/* or this */
	uint32_t type;		/* and this type of memory, if it is not 0 */
};

static inline uint64_t value_of(FIXTURE_DATA(uapi) *self, const struct mistake *m)
{
	switch (m->object) {
	case A_CQ: return self->pair.cq->handle;
	case A_PD: return self->pair.pd->handle;
	case AN_MR: return self->mr.handle;
	case DEAD_PD: return self->dead_pd;
	case DEAD_MR: return self->dead_mr;
	case OTHER_PD: return self->other_pd;
	case OTHER_MR: return self->other_mr;
	case A_MEMFD: return self->memfd.fd;
	case A_SOCKET: return self->socket;
	case CMD_FD: return self->ctx->cmd_fd;
	case A_DMABUF: return self->buf.fd;
	default: return m->value;
	}
}

static inline void make_mistake(FIXTURE_DATA(uapi) *self, const struct mistake *m, struct fd_call *c)
{
	uint64_t value = value_of(self, m);

	if (m->type)
		c->type = m->type;
	switch (m->field) {
	case MR: c->mr = value; break;
	case FLAGS: c->flags = value; break;
	case PD: c->pd = value; break;
	case ACCESS: c->access = value; break;
	case TYPE: c->type = value; break;
	case FD: c->fd = value; break;
	case DESC_FLAGS: c->desc_flags = value; break;
	case OFFSET: c->offset = value; break;
	case LENGTH: c->length = value; break;
	case IOVA_: c->iova = value; break;
	}
}

#define T_DMABUF IB_UVERBS_BUFFER_TYPE_DMABUF
#define T_MEMFD IB_UVERBS_BUFFER_TYPE_MEMFD

static const struct mistake mistakes[] = {
	{ "a CQ for the PD", EINVAL, PD, 0, A_CQ, 0 },
	{ "an MR for the PD", EINVAL, PD, 0, AN_MR, 0 },
	{ "a PD of another context", ENOENT, PD, 0, OTHER_PD, 0 },
	{ "a PD that is gone", ENOENT, PD, 0, DEAD_PD, 0 },
	{ "a PD that never was", ENOENT, PD, 12345, 0, 0 },
	{ "PD -1", ENOENT, PD, UINT32_MAX, 0, 0 },
	{ "a flag of the memory", EINVAL, DESC_FLAGS, 1, 0, 0 },
	{ "the last flag of the memory", EINVAL, DESC_FLAGS, 1u << 31, 0, 0 },
	{ "type 3", EINVAL, TYPE, 3, 0, 0 },
	{ "type -1", EINVAL, TYPE, UINT32_MAX, 0, 0 },
	{ "fd -1", EBADF, FD, -1, 0, 0 },
	{ "the least fd", EBADF, FD, INT32_MIN, 0, 0 },
	{ "a closed fd", EBADF, FD, 999, 0, 0 },
	{ "a closed fd, as memfd", EBADF, FD, 999, 0, T_MEMFD },
	{ "a memfd as dma-buf", EBADFD, FD, 0, A_MEMFD, T_DMABUF },
	{ "a dma-buf as memfd", EBADFD, FD, 0, A_DMABUF, T_MEMFD },
	{ "a socket as dma-buf", EBADFD, FD, 0, A_SOCKET, T_DMABUF },
	{ "a socket as memfd", EBADFD, FD, 0, A_SOCKET, T_MEMFD },
	{ "the context's own fd", EBADFD, FD, 0, CMD_FD, 0 },
	{ "an offset at the end", ERANGE, OFFSET, SIZE, 0, 0 },
	{ "an offset that wraps", EOVERFLOW, OFFSET, -PAGE, 0, 0 },
	{ "an offset that is not the iova's in the page", EINVAL, OFFSET, 1, 0, 0 },
	{ "length 0", EINVAL, LENGTH, 0, 0, 0 },
	{ "a byte too much", ERANGE, LENGTH, SIZE + 1, 0, 0 },
	{ "length 2^62", ERANGE, LENGTH, 1ul << 62, 0, 0 },
	{ "length -1", EOVERFLOW, LENGTH, -1ul, 0, 0 },
	{ "an iova that is not the offset's in the page", EINVAL, IOVA_, IOVA + 1, 0, 0 },
	{ "an iova that wraps", EOVERFLOW, IOVA_, -PAGE, 0, 0 },
	{ "remote write without local write", EINVAL, ACCESS, REMOTE_WRITE, 0, 0 },
	{ "atomics without local write", EINVAL, ACCESS, REMOTE_ATOMIC, 0, 0 },
	{ "an unknown access flag", EINVAL, ACCESS, RW | 1 << 15, 0, 0 },
	{ "the last access flag", EINVAL, ACCESS, RW | 1u << 31, 0, 0 },
	{ "all access flags", EINVAL, ACCESS, UINT32_MAX, 0, 0 },
	{ "on demand", EOPNOTSUPP, ACCESS, RW | IBV_ACCESS_ON_DEMAND, 0, 0 },
	{ "flush of a dma-buf", EOPNOTSUPP, ACCESS, RW | IBV_ACCESS_FLUSH_GLOBAL, 0, 0 },
	/* of a rereg only */
	{ "a PD for the MR", EINVAL, MR, 0, A_PD, 0 },
	{ "a CQ for the MR", EINVAL, MR, 0, A_CQ, 0 },
	{ "an MR of another context", ENOENT, MR, 0, OTHER_MR, 0 },
	{ "an MR that is gone", ENOENT, MR, 0, DEAD_MR, 0 },
	{ "MR -1", ENOENT, MR, UINT32_MAX, 0, 0 },
	{ "no flags", EINVAL, FLAGS, 0, 0, 0 },
	{ "an unknown flag", EINVAL, FLAGS, 8, 0, 0 },
	{ "an unknown flag among known ones", EINVAL, FLAGS, CHANGE_ALL | 8, 0, 0 },
	{ "the last flag", EINVAL, FLAGS, 1u << 31, 0, 0 },
};

/* Whether the device refuses it. */
static inline bool is_mistake(const struct mistake *m)
{
	return !(m->err == EOPNOTSUPP && (m->value & IBV_ACCESS_ON_DEMAND) &&
		 device_can("on-demand"));
}

/* Make ALL mistakes, or one in each field, by CALL, one entry to the kernel, named HOW. */
static inline void expect_mistakes(FIXTURE_DATA(uapi) *self, bool all, const char *how,
				   int (*call)(int cmd_fd, const struct fd_call *c,
					       struct keys *keys))
{
	for (int i = 0; i < ARRAY_SIZE(mistakes); i++) {
		const struct mistake *m = &mistakes[i];

		if (!all && i && m->field == m[-1].field)
			continue;
		for (int rereg = m->field <= FLAGS; rereg < 2 && is_mistake(m); rereg++) {
			struct fd_call c = right_call(self, rereg);
			struct keys keys;

			make_mistake(self, m, &c);
			expect(self, rereg, how, m->what, call(self->ctx->cmd_fd, &c, &keys),
			       m->err);
		}
	}
}

#endif
