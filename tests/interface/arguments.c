// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; devices: rxe */
/* runs: full debug-full; devices: connectx */
/*
 * Each wrong argument has its errno, by ioctl() and by write(), which have to agree, and leaves
 * the MR unchanged.
 */
#include "interface/mistakes.h"

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

static uint64_t value_of(FIXTURE_DATA(uapi) *self, const struct mistake *m)
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

static void make_mistake(FIXTURE_DATA(uapi) *self, const struct mistake *m, struct fd_call *c)
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

TEST_F_TIMEOUT(uapi, ioctl_and_write_give_each_mistake_the_same_errno, 300)
{
	for (int i = 0; i < ARRAY_SIZE(mistakes); i++) {
		const struct mistake *m = &mistakes[i];

		if (m->err == EOPNOTSUPP && (m->value & IBV_ACCESS_ON_DEMAND) &&
		    device_can("on-demand"))
			continue;	/* no mistake */
		for (int rereg = m->field <= FLAGS; rereg < 2; rereg++) {
			for (int e = 0; e < NR_ENTRIES; e++) {
				struct fd_call c = right_call(self, rereg);
				struct keys keys;

				make_mistake(self, m, &c);
				expect(self, rereg, entry_name[e], m->what,
				       fd_call(self->ctx->cmd_fd, e, &c, &keys), m->err);
			}
		}
	}
	ASSERT_EQ(0, self->failures);
}

/* If these calls did not succeed, the failures in the other cases would prove nothing. */
TEST_F(uapi, correct_ioctl_and_write_succeed)
{
	for (int e = 0; e < NR_ENTRIES; e++) {
		struct fd_call c = right_call(self, false);
		struct keys keys;

		ASSERT_EQ(0, fd_call(self->ctx->cmd_fd, e, &c, &keys));
		ASSERT_EQ(self->mrs + 1, mr_count());
		ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, e, keys.handle));
		c = right_call(self, true);
		ASSERT_EQ(0, fd_call(self->ctx->cmd_fd, e, &c, &keys));
		take_keys(self);
		ASSERT_EQ(self->mr.rkey, keys.rkey);
		ASSERT_EQ(self->mr.lkey, keys.lkey);
		ASSERT_TRUE(intact(self));
	}
}

/* An argument that the flags do not ask for may be anything. */
TEST_F(uapi, rereg_ignores_arguments_its_flags_do_not_select)
{
	for (int e = 0; e < NR_ENTRIES; e++) {
		for (uint32_t flags = 1; flags <= CHANGE_ALL; flags++) {
			struct fd_call c = right_call(self, true);
			struct keys keys;

			c.flags = flags;
			if (!(flags & TRANS)) {
				c.fd = -1;
				c.type = 77;
				c.offset = c.length = c.iova = -1;
			}
			if (!(flags & CHANGE_PD))
				c.pd = 12345;
			if (!(flags & CHANGE_ACCESS))
				c.access = -1;
			expect(self, true, entry_name[e], "nonsense that does not count",
			       fd_call(self->ctx->cmd_fd, e, &c, &keys), 0);
		}
	}
	ASSERT_EQ(0, self->failures);
}

TEST_F(uapi, optional_buffer_flags_are_ignored)
{
	for (int e = 0; e < NR_ENTRIES; e++) {
		for (int rereg = 0; rereg < 2; rereg++) {
			struct fd_call c = right_call(self, rereg);
			struct keys keys;

			c.optional_flags = UINT32_MAX;
			ASSERT_EQ(0, fd_call(self->ctx->cmd_fd, e, &c, &keys));
			if (!rereg)
				ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, e, keys.handle));
		}
	}
}

/* Those that the kernel does not know, and those that it does; a peer sees no difference. */
TEST_F(uapi, optional_access_flags_are_ignored)
{
	static const uint32_t optional[] = {
		IBV_ACCESS_OPTIONAL_FIRST << 1, IBV_ACCESS_OPTIONAL_RANGE,
	};

	for (int i = 0; i < ARRAY_SIZE(optional); i++) {
		for (int e = 0; e < NR_ENTRIES; e++) {
			struct fd_call c = right_call(self, false);
			struct keys keys;

			c.access |= optional[i];
			ASSERT_EQ(0, fd_call(self->ctx->cmd_fd, e, &c, &keys));
			ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, e, keys.handle));
			c.type = T_MEMFD;
			c.fd = self->memfd.fd;
			ASSERT_EQ(0, fd_call(self->ctx->cmd_fd, e, &c, &keys));
			ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, e, keys.handle));
			c = right_call(self, true);
			c.access |= optional[i];
			expect(self, true, entry_name[e], "optional access flags",
			       fd_call(self->ctx->cmd_fd, e, &c, &keys), 0);
		}
	}
	ASSERT_EQ(0, self->failures);
}

TEST_HARNESS_MAIN
