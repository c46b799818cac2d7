// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: smp; devices: rxe */
/*
 * The network device below a Soft-RoCE device is deleted while a process uses both: that waits
 * for nobody, the process learns it, and what it still asks for is EIO.
 *
 * It does so with packets under way, members of multicast groups, and an rdma_cm listener.
 */
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NETDEV "mrfd9"
#define NAME "rxe9"
#define ADDRESS "10.9.0.1"
#define DELETE "ip link delete " NETDEV

FIXTURE(netdev)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory mem;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	struct ibv_qp *member;
};

FIXTURE_VARIANT(netdev)
{
	const char *add;
};

#define ADDRESSES_AND_RXE \
	"ip address add " ADDRESS "/24 dev " NETDEV " && " \
	"ip address add fd09::1/64 dev " NETDEV " nodad && " \
	"ip link set " NETDEV " up && rdma link add " NAME " type rxe netdev " NETDEV

FIXTURE_VARIANT_ADD(netdev, veth) {
	"ip link add " NETDEV " type veth peer name " NETDEV "p && "
	"ip link set " NETDEV "p up && " ADDRESSES_AND_RXE
};
FIXTURE_VARIANT_ADD(netdev, dummy) {
	"ip link add " NETDEV " type dummy && " ADDRESSES_AND_RXE
};

static struct ibv_qp *member_of(FIXTURE_DATA(netdev) *self, const char *group)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD, .send_cq = self->pair.cq, .recv_cq = self->pair.cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11111111 };
	struct ibv_qp *qp = must(ibv_create_qp(self->pair.pd, &init));
	union ibv_gid gid;

	inet_pton(AF_INET6, group, &gid);
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		fail_case("QP to INIT");
	if (ibv_attach_mcast(qp, &gid, 0))
		fail_case("join %s", group);
	return qp;
}

FIXTURE_SETUP(netdev)
{
	double end = deadline(10);
	struct ibv_ah_attr attr;

	need("add-delete");
	ASSERT_EQ(0, system(variant->add));
	self->ctx = device_open_named(NAME);
	while (!device_address(self->ctx, &attr) && now() < end)
		usleep(10000);
	pair_open(&self->pair, self->ctx, NULL);
	memory_open(&self->mem, HOST, 4 * PAGE);
	self->mr = memory_reg(&self->mem, self->pair.pd, RWA);
	self->ah = must(ibv_create_ah(self->pair.pd, &attr));
	self->member = member_of(self, "::ffff:239.129.2.3");
}

FIXTURE_TEARDOWN(netdev)
{
	if (self->ah)
		EXPECT_EQ(0, ibv_destroy_ah(self->ah));
	if (self->member)
		EXPECT_EQ(0, ibv_destroy_qp(self->member));
	mr_close(self->mr);
	pair_close(&self->pair);
	device_close(self->ctx);
	memory_close(&self->mem);
	if (!access("/sys/class/net/" NETDEV, F_OK))
		EXPECT_EQ(0, system(DELETE));
}

struct deletion {
	int status;
	double seconds;
	volatile bool done;
};

static void *delete(void *arg)
{
	struct deletion *d = arg;
	double start = now();
	char command[64];

	snprintf(command, sizeof(command), "timeout %.0f " DELETE, 20 * patience());
	d->status = system(command);
	d->seconds = now() - start;
	d->done = true;
	return NULL;
}

/* Whether a write of a page succeeds; one that is under way when the device leaves never ends. */
static bool writes_page(FIXTURE_DATA(netdev) *self, const struct deletion *d)
{
	struct ibv_sge sge = { self->mem.iova, PAGE, self->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { self->mem.iova + PAGE, self->mr->rkey },
	};
	struct ibv_wc wc;
	int n;

	if (ibv_post_send(self->pair.qp[0], &wr, &bad))
		return false;
	while (!(n = ibv_poll_cq(self->pair.cq, 1, &wc)))
		if (d->done)
			return false;
	return n > 0 && !wc.status;
}

static void process_learns_it(struct __test_metadata *_metadata, FIXTURE_DATA(netdev) *self,
			      const struct deletion *d)
{
	struct ibv_async_event event;

	ASSERT_EQ(0, d->status);
	TH_LOG("deleted in %.2f s", d->seconds);
	do {
		ASSERT_EQ(0, ibv_get_async_event(self->ctx, &event));
	} while (event.event_type != IBV_EVENT_DEVICE_FATAL);
	ASSERT_EQ(EIO, memory_reg_errno(&self->mem, self->pair.pd));
}

TEST_F(netdev, deletion_under_traffic_waits_for_nobody)
{
	struct deletion d = {};
	pthread_t thread;

	ASSERT_TRUE(writes_page(self, &d));
	ASSERT_EQ(0, pthread_create(&thread, NULL, delete, &d));
	while (writes_page(self, &d))
		;
	ASSERT_EQ(0, pthread_join(thread, NULL));
	process_learns_it(_metadata, self, &d);
}

static struct rdma_cm_id *listener(struct rdma_event_channel *channel)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(7471) };
	struct rdma_cm_id *id;

	inet_pton(AF_INET, ADDRESS, &sin.sin_addr);
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(id, (struct sockaddr *)&sin) || rdma_listen(id, 1))
		fail_case("listen at " ADDRESS);
	return id;
}

TEST_F(netdev, deletion_below_a_listener_waits_for_nobody)
{
	struct rdma_event_channel *channel = must(rdma_create_event_channel());
	struct rdma_cm_id *id = listener(channel);
	struct rdma_cm_event *event;
	struct deletion d = {};

	delete(&d);
	process_learns_it(_metadata, self, &d);
	ASSERT_EQ(0, rdma_get_cm_event(channel, &event));
	ASSERT_EQ(RDMA_CM_EVENT_DEVICE_REMOVAL, event->event);
	ASSERT_EQ(0, rdma_ack_cm_event(event));
	ASSERT_EQ(0, rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

TEST_HARNESS_MAIN
