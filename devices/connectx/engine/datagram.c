// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Unreliable datagrams (IBA 9.8.4): UD, and the QPs of the subnet and general services,
 * which have the numbers 0 and 1 on the wire.  A message is one packet; it is complete when
 * it was sent, and lost when the receiver has no receive WQE for it.
 *
 * A WQE is fetched, checked and sent in one go, or fetched anew later, so nothing of it is
 * kept.  A received message is stored behind its GRH (40 bytes, zero if it had none).
 */
#include "hca.h"
#include "ifc.h"
#include "link.h"
#include "loop.h"
#include "mad.h"
#include "mkey.h"
#include "packet.h"
#include "port.h"
#include "qp.h"
#include "srq.h"
#include "transport.h"
#include "wqe.h"
#include <errno.h>

#define QKEY_OF_QP 0x80000000u	/* a WQE's Q_Key with this bit means the QP's */

static u8 refuse_wqe(const struct qp *qp, const struct wqe *w)
{
	switch (w->opcode) {
	case MLX5_OPCODE_NOP:
		return 0;
	case MLX5_OPCODE_SEND:
	case MLX5_OPCODE_SEND_IMM:
		return w->length > qp_mtu(qp) ? MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR : 0;
	}
	return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
}

static void fill(struct qp *qp, const struct wqe *w, struct packet *p)
{
	const struct wqe_av *av = &w->av;

	p->dlid = av->rlid;
	p->slid = qp->hca->port.lid;
	p->sl = av->sl;
	p->global = av->global;
	if (av->global) {
		p->tclass = av->tclass;
		p->hop_limit = av->hop_limit;
		p->flow_label = av->flow_label;
		memcpy(p->dgid, av->dgid, sizeof(p->dgid));
		port_gid(qp->hca, av->gid_index, p->sgid);
	}
	p->opcode = IB_UD << 5 |
		    (w->opcode == MLX5_OPCODE_SEND_IMM ? IB_SEND_ONLY_IMM : IB_SEND_ONLY);
	p->solicited = w->solicited;
	p->imm = w->imm;
	p->psn = qp->req.psn & PSN_MASK;
	p->dqpn = av->dqpn & PSN_MASK;
	p->length = w->length;
	if (qp->service == QP_SMI) {
		p->vl = VL_MANAGEMENT;
		p->pkey = 0xffff;
		return;
	}
	p->pkey = port_pkey(qp->hca, qp->path.pkey_index);
	p->qkey = av->qkey & QKEY_OF_QP ? qp->qkey : av->qkey;
	p->sqpn = qp->service == QP_GSI ? 1 : qp->number;
}

/* The WQE is over. */
static void finish(struct qp *qp, struct wqe *w, u8 syndrome)
{
	qp->req.consumer += w->blocks;
	qp_complete_send(qp, w, syndrome, syndrome ? 0 : w->length);
	if (syndrome)
		qp_sq_error(qp);
}

/* 0: sent; a syndrome; or -EAGAIN if something has to come first. */
static int send_packet(struct qp *qp, struct wqe *w)
{
	struct requester *r = &qp->req;
	struct packet *p = link_packet(qp->hca->link);
	struct mkey_fault fault;

	if (!p) {
		link_wait(qp->hca->link, &r->work);
		return -EAGAIN;
	}
	switch (transport_gather(qp, w, 0, p->payload, w->length, &fault)) {
	case MKEY_OK:
		break;
	case MKEY_ABSENT:
		if (requester_fault(qp, r->psn, &fault)) {
			link_packet_free(qp->hca->link, p);
			return -EAGAIN;
		}
		/* fall through */
	case MKEY_DENIED:
		link_packet_free(qp->hca->link, p);
		return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	}
	requester_found(r, r->psn);
	fill(qp, w, p);
	r->psn = (r->psn + 1) & PSN_MASK;
	link_send(qp->hca->link, p);
	return 0;
}

/* false: nothing more can be sent now. */
static bool send_one(struct qp *qp)
{
	struct requester *r = &qp->req;
	struct wqe w;
	int syndrome;

	if (!qp_can_send(qp) || r->waits_fault || r->producer == r->consumer)
		return false;
	syndrome = qp_fetch(qp, r->consumer, &w);
	if (!syndrome)
		syndrome = refuse_wqe(qp, &w);
	if (!syndrome && w.opcode != MLX5_OPCODE_NOP)
		syndrome = send_packet(qp, &w);
	if (syndrome == -EAGAIN)
		return false;
	finish(qp, &w, syndrome);
	return true;
}

void datagram_turn(struct qp *qp)
{
	unsigned int packets = 0;

	do {
		if (!send_one(qp))
			return;
	} while (++packets < TURN_PACKETS && !loop_turn_over(qp->hca->loop));
	requester_run(qp);
}

static void complete(struct qp *qp, const struct packet *p, u8 syndrome)
{
	struct responder *r = &qp->resp;
	bool imm = packet_operation(p) == IB_SEND_ONLY_IMM;
	struct recv_completion c = {
		.opcode = syndrome ? MLX5_CQE_RESP_ERR :
			  imm ? MLX5_CQE_RESP_SEND_IMM : MLX5_CQE_RESP_SEND,
		.syndrome = syndrome, .bytes = syndrome ? 0 : PACKET_GRH + p->length,
		.imm_inval = p->imm, .src_qp = p->sqpn, .slid = p->slid, .pkey = p->pkey,
		.sl = p->sl, .global = p->global, .solicited = p->solicited,
	};

	r->have_recv = false;
	qp_complete_recv(qp, &r->recv, r->srq, &c);
	if (syndrome)
		qp_error(qp, 0);
}

static enum mkey_result store(struct qp *qp, const struct packet *p, struct mkey_fault *fault)
{
	struct responder *r = &qp->resp;
	uint32_t pd = r->srq ? r->srq->pd : qp->pd;
	u8 grh[PACKET_GRH] = { 0 };
	enum mkey_result result;

	if (p->global)
		packet_write_grh(p, grh);
	result = transport_scatter(qp, pd, &r->recv, 0, grh, sizeof(grh), fault);
	if (result == MKEY_OK)
		result = transport_scatter(qp, pd, &r->recv, sizeof(grh), p->payload, p->length,
					   fault);
	return result;
}

/* Store a message that is for this QP.  Takes P. */
static void deliver(struct qp *qp, struct packet *p)
{
	struct responder *r = &qp->resp;
	struct mkey_fault fault;
	u8 syndrome = 0;

	if (!r->have_recv && qp_take_recv(qp, 0, &r->recv, &r->srq) != 1)
		goto out;
	r->have_recv = true;
	if (r->recv.room < PACKET_GRH + p->length) {
		complete(qp, p, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
		goto out;
	}
	switch (store(qp, p, &fault)) {
	case MKEY_OK:
		r->fault_failed = false;
		break;
	case MKEY_ABSENT:
		if (!r->fault_failed) {
			responder_wait(qp, p, &fault);
			return;
		}
		/* fall through */
	case MKEY_DENIED:
		syndrome = MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	}
	complete(qp, p, syndrome);
out:
	link_packet_free(qp->hca->link, p);
}

void datagram_receive(struct qp *qp, struct packet *p)
{
	/* IBA 13.5.3.1: management datagrams have one size, and no immediate data. */
	bool mad = packet_operation(p) == IB_SEND_ONLY && p->length == MAD_SIZE;

	if (!qp_can_receive(qp) || qp->resp.stalls || p->length > qp_mtu(qp) ||
	    (qp->service != QP_UD && !mad)) {
		link_packet_free(qp->hca->link, p);
		return;
	}
	if (qp->service != QP_SMI && p->qkey != qp->qkey) {
		qp->hca->port.qkey_violations++;
		link_packet_free(qp->hca->link, p);
		return;
	}
	deliver(qp, p);
}

static void receive_fault_over(struct qp *qp, bool failed)
{
	struct responder *r = &qp->resp;
	struct packet *p = responder_waited(qp);

	r->waits_fault = false;
	r->fault_failed = failed;
	if (p && qp_can_receive(qp))
		deliver(qp, p);
	else if (p)
		link_packet_free(qp->hca->link, p);
}

void datagram_fault_over(struct qp *qp, enum fault_side side, bool failed)
{
	if (side == FAULT_REQUESTER)
		requester_fault_over(qp, failed);
	else
		receive_fault_over(qp, failed);
}
