// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp; devices: rxe */
/*
 * A datagram goes out with the address that it was posted with, and with that of its sender.
 *
 * The address is in the work request, as on devices: its address handle may be destroyed as soon
 * as the request is posted, so may the queue pair, and the process may exit.  Who posts cannot
 * forge the address of the sender.
 */
#include "lib/depth.h"
#include "queues/datagram.h"
#include <arpa/inet.h>
#include <sys/wait.h>
#include <unistd.h>

TEST_F(datagram, address_handle_may_go_after_the_post)
{
	for (int round = 0; round < 20; round++) {
		struct ibv_ah *ah = address(self, self->pd, NULL);

		for (int i = 0; i < MESSAGES; i++)
			receive(self, i);
		for (int i = 0; i < MESSAGES; i++)
			post(self, i, ah, self->to->qp_num);
		ASSERT_EQ(0, ibv_destroy_ah(ah));
		ASSERT_TRUE(arrived(self, MESSAGES));
	}
}

#define LAST 64			/* datagrams of a process */

/*
 * Send from objects of this process alone, and leave it.  The exit destroys the newest objects
 * first: here the address, then the MR, then the QP.
 */
static void post_and_exit(struct ibv_qp *to)
{
	FIXTURE_DATA(datagram) self = { .to = to };
	struct ibv_ah *ah;

	self.ctx = device_open();
	self.pd = must(ibv_alloc_pd(self.ctx));
	self.cq = must(ibv_create_cq(self.ctx, LAST, NULL, NULL, 0));
	self.from = open_qp(&self, LAST);
	memory_open_filled(&self.sent, HOST, MESSAGES * SLOT, 1);
	self.mr = memory_reg(&self.sent, self.pd, LOCAL_WRITE);
	ah = address(&self, self.pd, NULL);
	for (int i = 0; i < LAST; i++)
		post(&self, i % MESSAGES, ah, to->qp_num);
	_exit(0);
}

TEST_F(datagram, process_may_exit_after_the_post)
{
	int rounds = depth(10, 40);

	/* With a receive for each of them. */
	EXPECT_EQ(0, ibv_destroy_qp(self->to));
	self->to = open_qp(self, LAST);
	for (int round = 0; round < rounds; round++) {
		int n = 0, status;
		struct ibv_wc wc;
		pid_t pid;

		for (int i = 0; i < LAST; i++)
			receive(self, i % MESSAGES);
		pid = fork();
		if (!pid)
			post_and_exit(self->to);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
		while (n < LAST && completed(self, &wc, patience())) {
			ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
			n++;
		}
		ASSERT_EQ(LAST, n);
	}
}

TEST_F(datagram, queue_pair_may_go_after_the_post)
{
	struct ibv_ah *ah = address(self, self->pd, NULL);

	for (int round = 0; round < 20; round++) {
		struct ibv_wc wc;

		for (int i = 0; i < MESSAGES; i++)
			receive(self, i);
		for (int i = 0; i < MESSAGES; i++)
			post(self, i, ah, self->to->qp_num);
		ASSERT_EQ(0, ibv_destroy_qp(self->from));
		self->from = open_qp(self, MESSAGES);
		for (int n = 0; n < MESSAGES; ) {
			ASSERT_TRUE(completed(self, &wc, 5 * patience()));
			ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
			n += wc.qp_num == self->to->qp_num;
		}
		/* Those of the QP that is gone. */
		while (ibv_poll_cq(self->cq, 1, &wc) > 0)
			;
	}
	ASSERT_EQ(0, ibv_destroy_ah(ah));
}

TEST_F(datagram, address_handle_of_another_pd_is_refused)
{
	struct ibv_pd *pd = must(ibv_alloc_pd(self->ctx));
	struct ibv_ah *ah = address(self, pd, NULL);
	struct ibv_wc wc;

	receive(self, 0);
	post(self, 0, ah, self->to->qp_num);
	ASSERT_TRUE(completed(self, &wc, 5 * patience()));
	ASSERT_EQ(self->from->qp_num, wc.qp_num);
	ASSERT_EQ(IBV_WC_LOC_QP_OP_ERR, wc.status);
	ASSERT_FALSE(completed(self, &wc, 0.1));
	ASSERT_EQ(0, ibv_destroy_ah(ah));
	pd_close(pd);
}

/* The address of the sender of message 0, as the receiver sees it. */
static struct in6_addr sender(FIXTURE_DATA(datagram) *self, bool ipv4)
{
	struct in6_addr addr = {};

	/* A GRH, or the header of IPv4 in its second half (IBA A17.4.5.2). */
	if (ipv4)
		memcpy(&addr, self->received.cpu + 20 + 12, sizeof(struct in_addr));
	else
		memcpy(&addr, self->received.cpu + 8, sizeof(addr));
	return addr;
}

/* The MAC address of the device's port. */
static void own_mac(FIXTURE_DATA(datagram) *self, uint8_t *mac)
{
	char name[64] = "", path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%d/gid_attrs/ndevs/%d",
		 device_name(), PORT, own_gid(self, true).gid_index);
	file = must(fopen(path, "r"));
	if (fscanf(file, "%63s", name) != 1)
		fail_case("read %s", path);
	fclose(file);
	snprintf(path, sizeof(path), "/sys/class/net/%s/address", name);
	file = must(fopen(path, "r"));
	if (fscanf(file, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3],
		   &mac[4], &mac[5]) != 6)
		fail_case("read %s", path);
	fclose(file);
}

/*
 * An address vector as a provider of old kernels makes it, but for the sender.  IPv4 sends for
 * addresses of the host only.
 */
static struct rxe_av forged(FIXTURE_DATA(datagram) *self, bool ipv4)
{
	struct ibv_gid_entry own = own_gid(self, ipv4);
	struct rxe_av av = {
		.port_num = PORT,
		.network_type = ipv4 ? RXE_NETWORK_TYPE_IPV4 : RXE_NETWORK_TYPE_IPV6,
		.grh = { .sgid_index = own.gid_index, .hop_limit = 64 },
	};

	memcpy(&av.grh.dgid, &own.gid, sizeof(own.gid));
	own_mac(self, av.dmac);
	if (ipv4) {
		av.sgid_addr._sockaddr_in.sin_family = AF_INET;
		av.sgid_addr._sockaddr_in.sin_addr.s_addr = inet_addr("127.0.0.1");
		av.dgid_addr._sockaddr_in.sin_family = AF_INET;
		memcpy(&av.dgid_addr._sockaddr_in.sin_addr, &own.gid.raw[12], 4);
	} else {
		av.sgid_addr._sockaddr_in6.sin6_family = AF_INET6;
		inet_pton(AF_INET6, "fd66::66", &av.sgid_addr._sockaddr_in6.sin6_addr);
		av.dgid_addr._sockaddr_in6.sin6_family = AF_INET6;
		memcpy(&av.dgid_addr._sockaddr_in6.sin6_addr, &own.gid, sizeof(own.gid));
	}
	return av;
}

static void sender_is_true(struct __test_metadata *_metadata, FIXTURE_DATA(datagram) *self,
			   bool ipv4)
{
	struct ibv_gid_entry to = own_gid(self, ipv4);
	struct ibv_ah *ah = address(self, self->pd, &to.gid);
	struct rxe_send_wqe *first = mapped_slot(&self->send), *wqe;
	struct in6_addr own, seen;

	receive(self, 0);
	post(self, 0, ah, self->to->qp_num);
	ASSERT_TRUE(arrived(self, 1));
	own = sender(self, ipv4);

	/* The same request again, with that vector. */
	receive(self, 0);
	wqe = mapped_slot(&self->send);
	memcpy(wqe, first, sizeof(*wqe) + sizeof(wqe->dma.sge[0]));
	wqe->state = 0;
	wqe->dma.resid = wqe->dma.length;
	wqe->dma.cur_sge = wqe->dma.sge_offset = 0;
	wqe->wr.wr.ud.ah_num = 0;
	wqe->wr.wr.ud.av = forged(self, ipv4);
	mapped_post(&self->send);
	ring(self->from);
	ASSERT_TRUE(arrived(self, 1));
	seen = sender(self, ipv4);
	ASSERT_EQ(0, memcmp(&own, &seen, sizeof(own)));
	ASSERT_EQ(0, ibv_destroy_ah(ah));
}

TEST_F(datagram, sender_cannot_be_forged_by_ipv4)
{
	sender_is_true(_metadata, self, true);
}

TEST_F(datagram, sender_cannot_be_forged_by_ipv6)
{
	sender_is_true(_metadata, self, false);
}

TEST_HARNESS_MAIN
