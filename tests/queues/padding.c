// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; devices: rxe */
/* runs: full; devices: connectx */
/*
 * What the kernel returns for a queue has no uninitialized bytes of its heap.
 */
#include "lib/device.h"
#include "lib/harness.h"
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <string.h>
#include <unistd.h>

#define QUEUES 200	/* the kernel gets the same memory again now and then */

FIXTURE(queue)
{
	struct ibv_context *ctx;
};

FIXTURE_SETUP(queue)
{
	need("rxe-queues");
	self->ctx = device_open();
}

FIXTURE_TEARDOWN(queue)
{
	device_close(self->ctx);
}

/* The library keeps the padding to itself, so this does without. */
static int create_cq(int cmd_fd, struct mminfo *info)
{
	struct {
		struct ib_uverbs_create_cq_resp core;
		struct rxe_create_cq_resp rxe;
	} resp;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_create_cq cmd;
	} c = {
		.hdr = { .command = IB_USER_VERBS_CMD_CREATE_CQ, .in_words = sizeof(c) / 4,
			 .out_words = sizeof(resp) / 4 },
		.cmd = { .response = (uintptr_t)&resp, .cqe = 1, .comp_channel = -1 },
	};

	memset(&resp, 0xff, sizeof(resp));
	if (write(cmd_fd, &c, sizeof(c)) != sizeof(c))
		return -1;
	*info = resp.rxe.mi;
	return 0;
}

TEST_F(queue, padding_of_create_cq_response_is_zero)
{
	for (int i = 0; i < QUEUES; i++) {
		struct mminfo info;

		ASSERT_EQ(0, create_cq(self->ctx->cmd_fd, &info));
		ASSERT_NE(0, info.size);
		ASSERT_EQ(0, info.pad);
	}
}

TEST_HARNESS_MAIN
