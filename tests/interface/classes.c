// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; devices: rxe */
/* runs: full debug-full; devices: connectx */
/*
 * The class of a rereg's error tells the state of the MR, and a registration that a kernel with
 * registration by fd refuses is not tried by other means.
 */
#include "interface/fakekernel.h"
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/memory.h"

#define SIZE (4 * PAGE)

FIXTURE(answer)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct memory memfd;
	struct ibv_mr *mr;
};

FIXTURE_SETUP(answer)
{
	need("rereg_mr_fd");
	need("memfd");
	self->ctx = device_open();
	self->pd = must(ibv_alloc_pd(self->ctx));
	memory_open(&self->memfd, MEMFD, SIZE);
	self->mr = memory_reg(&self->memfd, self->pd, RW);
}

FIXTURE_TEARDOWN(answer)
{
	mr_close(self->mr);
	memory_close(&self->memfd);
	pd_close(self->pd);
	device_close(self->ctx);
}

/* The class of the error of a rereg to which the kernel answers ERR. */
static int class_of(FIXTURE_DATA(answer) *self, int err)
{
	kernel.rereg_errno = err;
	errno = 0;
	return memory_rereg(self->mr, CHANGE_ALL, self->pd, &self->memfd, RW);
}

TEST_F(answer, enotrecoverable_of_rereg_is_class_err_cmd)
{
	struct ibv_mr was = *self->mr;

	EXPECT_EQ(IBV_REREG_MR_ERR_CMD, class_of(self, ENOTRECOVERABLE));
	EXPECT_EQ(ENOTRECOVERABLE, errno);
	EXPECT_EQ(0, memcmp(&was, self->mr, sizeof(was)));
}

TEST_F(answer, any_other_errno_of_rereg_is_class_err_input)
{
	static const int errors[] = {
		EACCES, EBADF, EBADFD, EBUSY, EFAULT, EINTR, EINVAL, EIO, ENODEV, ENOMEM, ENOSPC,
		ENXIO, EOPNOTSUPP, EOVERFLOW, EPERM, ERANGE,
	};
	struct ibv_mr was = *self->mr;

	for (int i = 0; i < ARRAY_SIZE(errors); i++) {
		EXPECT_EQ(IBV_REREG_MR_ERR_INPUT, class_of(self, errors[i])) {
			TH_LOG("the kernel answered %s to the rereg", strerror(errors[i]));
		}
		EXPECT_EQ(errors[i], errno);
	}
	EXPECT_EQ(0, memcmp(&was, self->mr, sizeof(was)));
	EXPECT_EQ(0, class_of(self, 0));
}

TEST_F(answer, reg_does_not_fall_back_after_eopnotsupp)
{
	int mapped = mappings();

	kernel.reg_errno = EOPNOTSUPP;
	EXPECT_EQ(NULL, ibv_reg_mr_fd(self->pd, NULL, PAGE, IBV_MR_FD_TYPE_MEMFD,
				      self->memfd.fd, RW));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(mapped, mappings());
	EXPECT_EQ(1, kernel.queries);
}

TEST_F(answer, reg_that_succeeds_sends_no_query)
{
	EXPECT_EQ(0, kernel.queries);
}

TEST_HARNESS_MAIN
