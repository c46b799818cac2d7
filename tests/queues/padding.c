// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: rxe */
/* runs: full; devices: connectx */
/*
 * What the kernel returns for a queue has no uninitialized bytes of its heap.
 */
#include "lib/device.h"
#include "lib/harness.h"
#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define QUEUES 200	/* the kernel gets the same memory again now and then */
#define SOCKETS 100

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

/*
 * Leave bytes that are not zero in freed objects of the heap, of the size that the kernel takes
 * for a queue: it copies the filter of a socket, and frees the copy with the socket.
 */
static void fill_heap(void)
{
	struct sock_filter filter[64 / sizeof(struct sock_filter)];
	struct sock_fprog program = { .len = sizeof(filter) / sizeof(*filter), .filter = filter };
	int socks[SOCKETS];

	for (int i = 0; i < program.len; i++)
		filter[i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0xffffffff);
	for (int i = 0; i < SOCKETS; i++) {
		socks[i] = socket(AF_INET, SOCK_DGRAM, 0);
		if (socks[i] < 0 || setsockopt(socks[i], SOL_SOCKET, SO_ATTACH_FILTER, &program,
					       sizeof(program)))
			fail_case("attach a filter to a socket");
	}
	for (int i = 0; i < SOCKETS; i++)
		close(socks[i]);
	usleep(200000);	/* the kernel frees the copies by RCU */
}

TEST_F(queue, padding_of_create_cq_response_is_zero)
{
	cpu_set_t here;

	/* Each CPU has freed objects of its own. */
	CPU_ZERO(&here);
	CPU_SET(0, &here);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(here), &here));
	for (int i = 0; i < QUEUES; i++) {
		struct mminfo info;

		if (i % 20 == 0)
			fill_heap();
		ASSERT_EQ(0, create_cq(self->ctx->cmd_fd, &info));
		ASSERT_NE(0, info.size);
		ASSERT_EQ(0, info.pad);
	}
}

TEST_HARNESS_MAIN
