// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; devices: rxe */
/* runs: full debug-full; devices: connectx */
/*
 * Each wrong argument has its errno, and leaves the MR unchanged.
 */
#include "interface/mistakes.h"

TEST_F_TIMEOUT(uapi, each_mistake_has_its_errno, 300)
{
	expect_mistakes(self, true, "ioctl()", fd_call);
	ASSERT_EQ(0, self->failures);
}

/* If these calls did not succeed, the failures in the other cases would prove nothing. */
TEST_F(uapi, correct_calls_succeed)
{
	struct fd_call c = right_call(self, false);
	struct keys keys;

	ASSERT_EQ(0, fd_call(self->ctx->cmd_fd, &c, &keys));
	ASSERT_EQ(self->mrs + 1, mr_count());
	ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_IOCTL, keys.handle));
	c = right_call(self, true);
	ASSERT_EQ(0, fd_call(self->ctx->cmd_fd, &c, &keys));
	take_keys(self);
	ASSERT_EQ(self->mr.rkey, keys.rkey);
	ASSERT_EQ(self->mr.lkey, keys.lkey);
	ASSERT_TRUE(intact(self));
}

TEST_F(uapi, rereg_succeeds_with_each_set_of_flags)
{
	for (uint32_t flags = 1; flags <= CHANGE_ALL; flags++) {
		struct fd_call c = right_call(self, true);
		struct keys keys;

		c.flags = flags;
		expect(self, true, "ioctl()", "right arguments",
		       fd_call(self->ctx->cmd_fd, &c, &keys), 0);
	}
	ASSERT_EQ(0, self->failures);
}

TEST_F(uapi, optional_buffer_flags_are_ignored)
{
	for (int rereg = 0; rereg < 2; rereg++) {
		struct fd_call c = right_call(self, rereg);
		struct keys keys;

		c.optional_flags = UINT32_MAX;
		ASSERT_EQ(0, fd_call(self->ctx->cmd_fd, &c, &keys));
		if (!rereg)
			ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_IOCTL, keys.handle));
	}
}

/* Those that the kernel does not know, and those that it does; a peer sees no difference. */
TEST_F(uapi, optional_access_flags_are_ignored)
{
	static const uint32_t optional[] = {
		IBV_ACCESS_OPTIONAL_FIRST << 1, IBV_ACCESS_OPTIONAL_RANGE,
	};

	for (int i = 0; i < ARRAY_SIZE(optional); i++) {
		struct fd_call c = right_call(self, false);
		struct keys keys;

		c.access |= optional[i];
		ASSERT_EQ(0, fd_call(self->ctx->cmd_fd, &c, &keys));
		ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_IOCTL, keys.handle));
		c.type = T_MEMFD;
		c.fd = self->memfd.fd;
		ASSERT_EQ(0, fd_call(self->ctx->cmd_fd, &c, &keys));
		ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_IOCTL, keys.handle));
		c = right_call(self, true);
		c.access |= optional[i];
		expect(self, true, "ioctl()", "optional access flags",
		       fd_call(self->ctx->cmd_fd, &c, &keys), 0);
	}
	ASSERT_EQ(0, self->failures);
}

TEST_HARNESS_MAIN
