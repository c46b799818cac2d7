// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; devices: rxe */
/* runs: full debug-full; devices: connectx */
/*
 * Registration and rereg by fd by the write() commands: each field has the effect and the errno
 * that it has by ioctl(), and each mistake that only a write() can have has its errno: sizes, the
 * header, the memory of the command and of the response.
 *
 * Nothing needs these commands.  They are a patch of their own, the last one.
 */
#include "interface/mistakes.h"

/* The data of write(). */
struct wcmd {
	struct ib_uverbs_cmd_hdr hdr;
	union {
		struct ib_uverbs_reg_mr_fd reg;
		struct ib_uverbs_rereg_mr_fd rereg;
		uint32_t words[32];
	};
};

/* The kernel's response to a write(). */
union wresp {
	struct ib_uverbs_reg_mr_fd_resp reg;
	struct ib_uverbs_rereg_mr_fd_resp rereg;
	uint32_t words[32];
};

static void wcmd_begin(struct wcmd *w, uint32_t command, size_t in, size_t out)
{
	memset(w, 0, sizeof(*w));
	w->hdr.command = command;
	w->hdr.in_words = (sizeof(w->hdr) + in) / 4;
	w->hdr.out_words = out / 4;
}

#define FD_OF(c)								\
	.offset = (c)->offset, .length = (c)->length, .fd_type = (c)->type, .fd = (c)->fd,	\
	.fd_flags = (c)->desc_flags, .fd_optional_flags = (c)->optional_flags

static void wcmd_of(struct wcmd *w, const struct fd_call *c, union wresp *resp)
{
	if (c->rereg) {
		wcmd_begin(w, IB_USER_VERBS_CMD_REREG_MR_FD, sizeof(w->rereg),
			   sizeof(resp->rereg));
		w->rereg = (struct ib_uverbs_rereg_mr_fd){
			.response = (uintptr_t)resp, .hca_va = c->iova, FD_OF(c),
			.mr_handle = c->mr, .flags = c->flags, .pd_handle = c->pd,
			.access_flags = c->access,
		};
	} else {
		wcmd_begin(w, IB_USER_VERBS_CMD_REG_MR_FD, sizeof(w->reg), sizeof(resp->reg));
		w->reg = (struct ib_uverbs_reg_mr_fd){
			.response = (uintptr_t)resp, .hca_va = c->iova, FD_OF(c),
			.pd_handle = c->pd, .access_flags = c->access,
		};
	}
}

static int write_call(int cmd_fd, const struct fd_call *c, struct keys *keys)
{
	union wresp resp = {};
	struct wcmd w;
	int err;

	wcmd_of(&w, c, &resp);
	err = wcmd_send(cmd_fd, &w, w.hdr.in_words * 4);
	if (err)
		return err;
	if (c->rereg)
		*keys = (struct keys){ c->mr, resp.rereg.lkey, resp.rereg.rkey };
	else
		*keys = (struct keys){ resp.reg.mr_handle, resp.reg.lkey, resp.reg.rkey };
	return 0;
}

/* All other mistakes are made by ioctl(): behind both are the same functions. */
TEST_F(uapi, mistake_in_each_field_has_the_errno_that_it_has_by_ioctl)
{
	expect_mistakes(self, false, "write()", write_call);
	ASSERT_EQ(0, self->failures);
}

/* If these calls did not succeed, the failures in the other cases would prove nothing. */
TEST_F(uapi, correct_commands_succeed)
{
	struct fd_call c = right_call(self, false);
	struct mr_info info;
	struct keys keys;

	ASSERT_EQ(0, write_call(self->ctx->cmd_fd, &c, &keys));
	ASSERT_EQ(self->mrs + 1, mr_count());
	ASSERT_EQ(0, mr_query(self->ctx->cmd_fd, keys.handle, &info));
	ASSERT_EQ(info.lkey, keys.lkey);
	ASSERT_EQ(info.rkey, keys.rkey);
	ASSERT_EQ(IOVA, info.iova);
	ASSERT_EQ(SIZE, info.length);
	ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_WRITE, keys.handle));
	for (uint32_t flags = 1; flags <= CHANGE_ALL; flags++) {
		c = right_call(self, true);
		c.flags = flags;
		ASSERT_EQ(0, write_call(self->ctx->cmd_fd, &c, &keys));
		take_keys(self);
		ASSERT_EQ(self->mr.rkey, keys.rkey);
		ASSERT_EQ(self->mr.lkey, keys.lkey);
		ASSERT_TRUE(intact(self));
	}
}

/* From a dma-buf to a memfd and to memory of the process, and back. */
TEST_F(uapi, rereg_gives_the_mr_every_type_of_memory)
{
	const uint32_t type[] = { T_MEMFD, IB_UVERBS_BUFFER_TYPE_VA, T_DMABUF };
	struct memory host, *to[] = { &self->memfd, &host, &self->buf };
	struct keys keys;

	memory_open(&host, HOST, SIZE);
	for (int i = 0; i < ARRAY_SIZE(to); i++) {
		struct fd_call c = right_call(self, true);

		c.type = type[i];
		c.fd = to[i]->fd;
		c.offset = to[i] == &host ? (uintptr_t)host.cpu : 0;
		ASSERT_EQ(0, write_call(self->ctx->cmd_fd, &c, &keys));
		take_keys(self);
		fill(self->local.cpu, PAGE, 10 + i);
		ASSERT_EQ(0, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->local_mr,
				     self->local.iova, PAGE, IOVA + PAGE, keys.rkey));
		ASSERT_TRUE(filled(to[i]->cpu + PAGE, PAGE, 10 + i, "written"));
	}
	memory_close(&host);
}

static int wrote(FIXTURE_DATA(uapi) *self, const void *w, size_t size, bool rereg,
		 const union wresp *resp)
{
	int err = wcmd_send(self->ctx->cmd_fd, w, size);

	if (!err && !rereg)
		mr_dereg(self->ctx->cmd_fd, BY_WRITE, resp->reg.mr_handle);
	return err;
}

TEST_F(uapi, command_of_wrong_size_is_refused)
{
	for (int rereg = 0; rereg < 2; rereg++) {
		struct fd_call c = right_call(self, rereg);
		union wresp resp;
		struct wcmd w;
		size_t size;

#define WRONG(what, errno, ...) do {						\
	wcmd_of(&w, &c, &resp);							\
	size = w.hdr.in_words * 4;						\
	__VA_ARGS__;								\
	expect(self, rereg, "write()", what, wrote(self, &w, size, rereg, &resp), errno); \
} while (0)
		WRONG("nothing", EINVAL, size = 0);
		WRONG("less than a header", EINVAL, size = 7);
		WRONG("the header only", EINVAL, size = 8);
		WRONG("a byte less", EINVAL, size--);
		WRONG("a byte more", EINVAL, size++);
		WRONG("another in_words", EINVAL, w.hdr.in_words++);
		WRONG("a word less", ENOSPC, w.hdr.in_words--; size -= 4);
		WRONG("a header that says so", ENOSPC, w.hdr.in_words = 2; size = 8);
		WRONG("an answer that is a word too short", ENOSPC, w.hdr.out_words--);
		WRONG("no room for an answer", ENOSPC, w.hdr.out_words = 0);
		/* What comes after the command is for the driver, which ignores it. */
		WRONG("driver data", 0, w.words[w.hdr.in_words - 2] = 77;
		      w.hdr.in_words++; size += 4);
		WRONG("room for driver data", 0, w.hdr.out_words += 4);
#undef WRONG
	}
	ASSERT_EQ(0, self->failures);
}

TEST_F(uapi, unknown_command_is_refused)
{
	for (int rereg = 0; rereg < 2; rereg++) {
		struct fd_call c = right_call(self, rereg);
		static const uint32_t command[] = { 47, 50, 63, 64, 0xff, 0x01000030, 0x40000030 };
		union wresp resp;
		struct wcmd w;

		for (int i = 0; i < ARRAY_SIZE(command); i++) {
			char text[32];

			wcmd_of(&w, &c, &resp);
			w.hdr.command = command[i];
			snprintf(text, sizeof(text), "%#x", command[i]);
			expect(self, rereg, "write(), command", text,
			       wrote(self, &w, w.hdr.in_words * 4, rereg, &resp),
			       command[i] < 256 ? EOPNOTSUPP : EINVAL);
		}
	}
	ASSERT_EQ(0, self->failures);
}

TEST_F(uapi, inaccessible_memory_of_write_is_efault)
{
	for (int rereg = 0; rereg < 2; rereg++) {
		uint8_t *none = self->edge + PAGE, *ro = self->read_only;
		uint8_t *const out[] = { NULL, none, none - 4, ro, (uint8_t *)0xffffffff81000000 };
		const char *const what[] = { "NULL", "nowhere", "half", "read-only",
					     "the kernel's" };
		struct fd_call c = right_call(self, rereg);
		static union wresp resp;
		struct wcmd w;
		size_t size;

		for (int i = 0; i < ARRAY_SIZE(out); i++) {
			wcmd_of(&w, &c, (union wresp *)out[i]);
			expect(self, rereg, "write(), answer", what[i],
			       wrote(self, &w, w.hdr.in_words * 4, rereg, &resp), EFAULT);
		}
		wcmd_of(&w, &c, &resp);
		size = w.hdr.in_words * 4;
		expect(self, rereg, "write() of", "NULL",
		       wrote(self, NULL, size, rereg, &resp), EFAULT);
		expect(self, rereg, "write() of", "nowhere",
		       wrote(self, none, size, rereg, &resp), EFAULT);
		memcpy(none - size / 2, &w, size / 2);
		expect(self, rereg, "write() of", "half",
		       wrote(self, none - size / 2, size, rereg, &resp), EFAULT);
		memcpy(none - 8, &w, 8);
		expect(self, rereg, "write() of", "a header",
		       wrote(self, none - 8, size, rereg, &resp), EFAULT);
		/* The kernel only reads the command. */
		ASSERT_EQ(0, mprotect(ro, PAGE, PROT_READ | PROT_WRITE));
		memcpy(ro, &w, size);
		ASSERT_EQ(0, mprotect(ro, PAGE, PROT_READ));
		expect(self, rereg, "write() of", "read-only",
		       wrote(self, ro, size, rereg, &resp), 0);
	}
	ASSERT_EQ(0, self->failures);
}

TEST_HARNESS_MAIN
