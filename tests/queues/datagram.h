/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The fixture datagram: two QPs of UD on one device, with memory that they send and receive. */
#ifndef QUEUES_DATAGRAM_H
#define QUEUES_DATAGRAM_H

/* Before the same definitions of rdma_user_rxe.h, which gives way. */
#include <netinet/in.h>

#include "lib/case.h"
#include "lib/clock.h"
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pattern.h"
#include "queues/mapped.h"
#include <stdio.h>
#include <string.h>

#define PORT 1
#define QKEY 0x11111111
#define GRH 40
#define BYTES 256		/* of a message */
#define MESSAGES 8
#define SLOT 512		/* of a received one */

FIXTURE(datagram)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *from, *to;
	struct mapped send;		/* the send queue of FROM, if it is mapped */
	struct memory sent, received;
	struct ibv_mr *mr, *received_mr;
};

/* With room for N sends, and for as many receives. */
static inline struct ibv_qp *open_qp(FIXTURE_DATA(datagram) *self, int n)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD, .send_cq = self->cq, .recv_cq = self->cq,
		.cap = { .max_send_wr = n, .max_recv_wr = n, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY };
	struct ibv_qp *qp = must(ibv_create_qp(self->pd, &init));

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		fail_case("QP to INIT");
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		fail_case("QP to RTR");
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN))
		fail_case("QP to RTS");
	return qp;
}

FIXTURE_SETUP(datagram)
{
	struct mapped before[32], recv;
	int n;

	self->ctx = device_open();
	self->pd = must(ibv_alloc_pd(self->ctx));
	self->cq = must(ibv_create_cq(self->ctx, 64, NULL, NULL, 0));
	n = mapped_list(before, 32);
	self->from = open_qp(self, MESSAGES);
	mapped_new(before, n, &self->send, &recv);
	self->to = open_qp(self, MESSAGES);
	memory_open_filled(&self->sent, HOST, MESSAGES * SLOT, 1);
	memory_open(&self->received, HOST, MESSAGES * SLOT);
	self->mr = memory_reg(&self->sent, self->pd, LOCAL_WRITE);
	self->received_mr = memory_reg(&self->received, self->pd, LOCAL_WRITE);
}

FIXTURE_TEARDOWN(datagram)
{
	if (self->from)
		EXPECT_EQ(0, ibv_destroy_qp(self->from));
	if (self->to)
		EXPECT_EQ(0, ibv_destroy_qp(self->to));
	if (self->cq)
		EXPECT_EQ(0, ibv_destroy_cq(self->cq));
	mr_close(self->mr);
	mr_close(self->received_mr);
	memory_close(&self->sent);
	memory_close(&self->received);
	pd_close(self->pd);
	device_close(self->ctx);
}

static inline bool is_ipv4(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid);
}

/* A GID of RoCE v2 for IPv4, or for IPv6 beyond the link. */
static inline struct ibv_gid_entry own_gid(FIXTURE_DATA(datagram) *self, bool ipv4)
{
	struct ibv_gid_entry entry[16];
	ssize_t n = ibv_query_gid_table(self->ctx, entry, 16, 0);

	for (int i = 0; i < n; i++)
		if (entry[i].gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    is_ipv4(&entry[i].gid) == ipv4 && entry[i].gid.raw[0] != 0xfe)
			return entry[i];
	fail_case("the device has no GID for %s", ipv4 ? "IPv4" : "IPv6");
}

/* An address handle for DGID, or for the device itself by IPv4. */
static inline struct ibv_ah *address(FIXTURE_DATA(datagram) *self, struct ibv_pd *pd,
				     const union ibv_gid *dgid)
{
	struct ibv_gid_entry own = own_gid(self, !dgid || is_ipv4(dgid));
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = PORT,
		.grh = { .dgid = dgid ? *dgid : own.gid, .sgid_index = own.gid_index,
			 .hop_limit = 64 },
	};

	return must(ibv_create_ah(pd, &attr));
}

static inline void receive(FIXTURE_DATA(datagram) *self, int i)
{
	struct ibv_sge sge = { self->received.iova + i * SLOT, GRH + BYTES,
			       self->received_mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

	memset(self->received.cpu + i * SLOT, 0, SLOT);
	if ((errno = ibv_post_recv(self->to, &wr, &bad)))
		fail_case("post a receive");
}

static inline void post(FIXTURE_DATA(datagram) *self, int i, struct ibv_ah *ah, uint32_t qpn)
{
	struct ibv_sge sge = { self->sent.iova + i * SLOT, BYTES, self->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = i, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY },
	};

	if ((errno = ibv_post_send(self->from, &wr, &bad)))
		fail_case("post a send");
}

/* The next completion, within so many seconds. */
static inline bool completed(FIXTURE_DATA(datagram) *self, struct ibv_wc *wc, double seconds)
{
	double end = now() + seconds;
	int n;

	while (!(n = ibv_poll_cq(self->cq, 1, wc)))
		if (now() > end)
			return false;
	return n > 0;
}

/* Whether N sends and N receives succeed, and bring what was sent. */
static inline bool arrived(FIXTURE_DATA(datagram) *self, int n)
{
	for (int i = 0; i < 2 * n; i++) {
		struct ibv_wc wc;

		if (!completed(self, &wc, 5 * patience())) {
			printf("# %d of %d completions came\n", i, 2 * n);
			return false;
		}
		if (wc.status) {
			printf("# %s\n", ibv_wc_status_str(wc.status));
			return false;
		}
		if (wc.qp_num == self->to->qp_num &&
		    memcmp(self->received.cpu + wc.wr_id * SLOT + GRH,
			   self->sent.cpu + wc.wr_id * SLOT, BYTES)) {
			printf("# message %d is not what was sent\n", (int)wc.wr_id);
			return false;
		}
	}
	return true;
}

#endif
