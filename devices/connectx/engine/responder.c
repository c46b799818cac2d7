// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The receiving side of RC, XRC, UC and DC (IBA 9.7.4, 9.7.5, 9.8.3): requests are executed in
 * the order of their PSNs, straight into memory; reads and atomics are in responder_read.c.
 *
 * State changes only after a packet was executed, with one exception: a receive WQE that
 * was taken stays taken.  So a packet that must wait for a page, or is put off, is executed
 * later from its beginning by the same code, which writes the same bytes again.  While reads
 * are pending nothing may be answered before them: an ACK is owed, and what would need
 * another answer (a NAK, a second page fault) is put off, as if it were lost; the requester
 * sends it again.
 *
 * A page may never come, and packets are of one pool for all QPs.  So of those that wait for
 * pages LINK_STALLED are kept; of the others the QP only knows that there was one.
 */
#include "hca.h"
#include "ifc.h"
#include "link.h"
#include "list.h"
#include "loop.h"
#include "mkey.h"
#include "packet.h"
#include "qp.h"
#include "srq.h"
#include "trace.h"
#include "transport.h"
#include "wqe.h"

/* A packet on its way through the checks. */
struct request {
	struct packet *p;
	uint32_t op;		/* OP_* */
	uint32_t pd;		/* for RDMA */
	uint32_t srqn;		/* XRC, or 0 */
	bool first, last;
};

u8 responder_rnr(const struct qp *qp)
{
	return AETH_RNR_NAK | (qp->min_rnr_timer & 0x1f);
}

void responder_answer(struct qp *qp, struct packet *p, u8 syndrome, uint32_t psn)
{
	struct responder *r = &qp->resp;
	bool ack = (syndrome & 0x60) == AETH_ACK;

	if (r->pending) {
		if (!ack) {
			r->owes = OWES_NAK;
		} else if (r->owes == OWES_NOTHING || (r->owes == OWES_NAK && !r->nak_sent) ||
			   (r->owes == OWES_ACK && psn_diff(psn, r->owed_psn) > 0)) {
			r->owes = OWES_ACK;
			r->owed_psn = psn;
		}
		link_packet_free(qp->hca->link, p);
		return;
	}
	transport_reply(qp, p, IB_ACK, psn);
	p->syndrome = ack ? AETH_ACK | AETH_NO_CREDITS : syndrome;
	p->msn = r->msn;
	link_send(qp->hca->link, p);
}

void responder_put_off(struct qp *qp, struct packet *p)
{
	qp->resp.nak_sent = true;
	responder_answer(qp, p, AETH_NAK | NAK_SEQUENCE, qp->resp.psn);
}

/* UC: the rest of the message is dropped too, because it has no beginning. */
static void drop_message(struct qp *qp, struct packet *p)
{
	qp->resp.last_op = OP_NONE;
	responder_advance(qp, 1);
	link_packet_free(qp->hca->link, p);
}

void responder_refuse(struct qp *qp, struct packet *p, unsigned int nak, unsigned int event)
{
	if (qp->service == QP_UC) {
		drop_message(qp, p);
		return;
	}
	if (qp->resp.pending) {
		responder_put_off(qp, p);
		return;
	}
	trace("QP %#x: NAK %u for opcode %#x, psn %u", qp->number, nak, p->opcode, p->psn);
	responder_answer(qp, p, AETH_NAK | nak, p->psn);
	qp_error(qp, event);
}

/* The receive WQE cannot take the message: both ends get to know (IBA 9.9.6.3). */
static void refuse_recv(struct qp *qp, struct packet *p, u8 syndrome, unsigned int nak)
{
	struct responder *r = &qp->resp;
	struct recv_completion c = { .opcode = MLX5_CQE_RESP_ERR, .syndrome = syndrome };

	if (r->pending) {
		responder_put_off(qp, p);
		return;
	}
	r->have_recv = false;
	qp_complete_recv(qp, &r->recv, r->srq, &c);
	if (qp->service == QP_UC)
		link_packet_free(qp->hca->link, p);
	else
		responder_answer(qp, p, AETH_NAK | nak, p->psn);
	qp_error(qp, 0);
}

/* P waits until the page fault is over that is reported, or will be. */
static void keep(struct qp *qp, struct packet *p)
{
	struct responder *r = &qp->resp;
	struct hca *hca = qp->hca;

	r->stalls = true;
	if (hca->stalled < LINK_STALLED) {
		hca->stalled++;
		r->stalled = p;
	} else {
		r->dropped = true;
		r->nak_sent = false;	/* what that one asked for did come */
		link_packet_free(hca->link, p);
	}
}

void responder_report(struct qp *qp, uint32_t psn, const struct mkey_fault *fault)
{
	struct responder *r = &qp->resp;

	r->waits_fault = true;
	r->fault_failed = false;
	r->fault_psn = psn;
	transport_fault(qp, FAULT_RESPONDER, fault);
}

bool responder_fault_failed(const struct responder *r, uint32_t psn)
{
	return r->fault_failed && r->fault_psn == psn;
}

void responder_wait(struct qp *qp, struct packet *p, const struct mkey_fault *fault)
{
	uint32_t psn = p->psn;

	keep(qp, p);
	responder_report(qp, psn, fault);
}

struct packet *responder_waited(struct qp *qp)
{
	struct responder *r = &qp->resp;
	struct packet *p = r->stalled;

	r->stalls = false;
	r->stalled = NULL;
	if (p)
		qp->hca->stalled--;
	return p;
}

bool responder_stall(struct qp *qp, struct packet *p, const struct mkey_fault *fault)
{
	struct responder *r = &qp->resp;

	if (responder_fault_failed(r, p->psn))
		return false;
	/*
	 * The fault that is under way is of a read.  It may have found its page before the driver
	 * says so: then a NAK for each try would cost the requester its retries.
	 */
	if (!r->waits_fault)
		responder_wait(qp, p, fault);
	else if (r->pending)
		responder_put_off(qp, p);
	else
		keep(qp, p);
	return true;
}

void responder_advance(struct qp *qp, uint32_t packets)
{
	struct responder *r = &qp->resp;

	r->psn = (r->psn + packets) & PSN_MASK;
	r->nak_sent = false;
	r->fault_failed = false;
}

static void answer_rnr(struct qp *qp, struct packet *p)
{
	responder_answer(qp, p, responder_rnr(qp), p->psn);
}

/* The message has no receive WQE: come again (IBA 9.7.5.2.8). */
static void not_ready(struct qp *qp, struct packet *p)
{
	if (qp->service == QP_UC) {
		drop_message(qp, p);
		return;
	}
	if (qp->resp.pending) {
		responder_put_off(qp, p);
		return;
	}
	qp->resp.nak_sent = true;
	answer_rnr(qp, p);
}

/* A request that was executed already */
static void receive_duplicate(struct qp *qp, struct packet *p)
{
	u8 op = packet_operation(p);

	if (op == IB_READ_REQUEST || op_is_atomic(op))
		responder_repeat(qp, p);
	else if (p->ack_request)
		/* Its own PSN, not the latest: that would say that later reads were answered. */
		responder_answer(qp, p, AETH_ACK, p->psn);
	else
		link_packet_free(qp->hca->link, p);
}

/*
 * A packet, while an earlier one waits for its page.  If it is that one again, a timeout has
 * cost the requester one of its retries; an RNR NAK spares it the next ones, as page faults
 * may take long.
 */
static void receive_stalled(struct qp *qp, struct packet *p)
{
	struct responder *r = &qp->resp;

	if (qp->service != QP_UC && p->psn == r->psn && !r->pending) {
		answer_rnr(qp, p);
		return;
	}
	if (qp->service != QP_UC && psn_diff(p->psn, r->psn) < 0) {
		receive_duplicate(qp, p);
		return;
	}
	if (psn_diff(p->psn, r->psn) > 0)
		r->dropped = true;
	link_packet_free(qp->hca->link, p);
}

/* See that there is a receive WQE.  false: the packet was taken. */
static bool need_recv(struct qp *qp, struct request *q)
{
	struct responder *r = &qp->resp;

	if (r->have_recv)
		return true;
	switch (qp_take_recv(qp, q->srqn, &r->recv, &r->srq)) {
	case 1:
		r->have_recv = true;
		return true;
	case 0:
		not_ready(qp, q->p);
		return false;
	}
	responder_refuse(qp, q->p, NAK_REMOTE_OP, EVENT_CATASTROPHIC);
	return false;
}

static void complete_recv(struct qp *qp, const struct request *q, u8 opcode, const u8 *data)
{
	struct responder *r = &qp->resp;
	const struct packet *p = q->p;
	struct recv_completion c = {
		.opcode = opcode, .bytes = r->offset, .src_qp = qp->remote_qpn,
		.imm_inval = q->op & (OP_IMM | OP_INV) ? p->imm : 0,
		.slid = p->slid, .sl = p->sl, .global = p->global, .solicited = p->solicited,
		.inline_data = data,
	};

	r->have_recv = false;
	qp_complete_recv(qp, &r->recv, r->srq, &c);
}

/* The packet was executed. */
static void executed(struct qp *qp, struct request *q)
{
	struct responder *r = &qp->resp;
	struct packet *p = q->p;

	responder_advance(qp, 1);
	r->last_op = q->last ? OP_NONE : packet_operation(p);
	if (q->last)
		r->msn = (r->msn + 1) & PSN_MASK;
	if (qp->service != QP_UC && p->ack_request)
		responder_answer(qp, p, AETH_ACK, p->psn);
	else
		link_packet_free(qp->hca->link, p);
}

/* IBA 9.7.4.1.6: all packets but the last of a message are full. */
static bool length_fits(const struct qp *qp, const struct request *q)
{
	uint32_t len = q->p->length;

	if (!q->last)
		return len == qp_mtu(qp);
	return len <= qp_mtu(qp) && (len || q->first);
}

static u8 send_completion(uint32_t op)
{
	return op & OP_INV ? MLX5_CQE_RESP_SEND_INV :
	       op & OP_IMM ? MLX5_CQE_RESP_SEND_IMM : MLX5_CQE_RESP_SEND;
}

static void execute_send(struct qp *qp, struct request *q)
{
	struct responder *r = &qp->resp;
	struct packet *p = q->p;
	uint64_t offset = q->first ? 0 : r->offset;
	uint32_t pd, remote_pd = q->pd;
	const u8 *data = NULL;
	struct mkey_fault fault;

	if (!length_fits(qp, q)) {
		responder_refuse(qp, p, NAK_INVALID_REQUEST, EVENT_INVALID_REQUEST);
		return;
	}
	if (!need_recv(qp, q))
		return;
	if (p->length > r->recv.room || offset > r->recv.room - p->length) {
		refuse_recv(qp, p, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, NAK_INVALID_REQUEST);
		return;
	}
	pd = r->srq ? r->srq->pd : qp->pd;
	if (q->first && q->last && p->length && p->length <= qp->scatter_recv) {
		data = p->payload;
	} else {
		switch (transport_scatter(qp, pd, &r->recv, offset, p->payload, p->length,
					  &fault)) {
		case MKEY_ABSENT:
			if (responder_stall(qp, p, &fault))
				return;
			/* fall through */
		case MKEY_DENIED:
			refuse_recv(qp, p, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, NAK_REMOTE_OP);
			return;
		case MKEY_OK:
			break;
		}
	}
	if (q->op & OP_INV &&
	    !mkey_invalidate_remote(qp->hca, p->imm, remote_pd, qp->number)) {
		refuse_recv(qp, p, MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR, NAK_REMOTE_ACCESS);
		return;
	}
	r->offset = offset + p->length;
	if (q->last)
		complete_recv(qp, q, send_completion(q->op), data);
	executed(qp, q);
}

/* The first packet of a write: 0, or a NAK code + 1. */
static unsigned int begin_write(struct qp *qp, const struct request *q)
{
	const struct packet *p = q->p;
	struct mkey_access a = { .key = p->rkey, .pd = q->pd, .qpn = qp->number,
				 .rights = MKEY_REMOTE_WRITE };

	if (!qp->remote_write || p->dma_length > MESSAGE_MAX)
		return NAK_INVALID_REQUEST + 1;
	if (mkey_check(qp->hca, &a, p->va, p->dma_length) != MKEY_OK)
		return NAK_REMOTE_ACCESS + 1;
	return 0;
}

static enum mkey_result store(struct qp *qp, const struct request *q, uint32_t rkey, uint64_t va,
			      struct mkey_fault *fault)
{
	const struct packet *p = q->p;
	struct mkey_access a = { .key = rkey, .pd = q->pd, .qpn = qp->number,
				 .rights = MKEY_REMOTE_WRITE };

	return mkey_write(qp->hca, &a, va, p->payload, p->length, fault);
}

static void execute_write(struct qp *qp, struct request *q)
{
	struct responder *r = &qp->resp;
	struct packet *p = q->p;
	uint32_t left = q->first ? p->dma_length : r->left;
	uint32_t rkey = q->first ? p->rkey : r->rkey;
	uint64_t va = q->first ? p->va : r->va;
	unsigned int nak = q->first ? begin_write(qp, q) : 0;
	struct mkey_fault fault;

	if (nak) {
		responder_refuse(qp, p, nak - 1, nak - 1 == NAK_REMOTE_ACCESS ?
				 EVENT_ACCESS : EVENT_INVALID_REQUEST);
		return;
	}
	if (!length_fits(qp, q) || (q->last ? p->length != left : p->length >= left)) {
		responder_refuse(qp, p, NAK_INVALID_REQUEST, EVENT_INVALID_REQUEST);
		return;
	}
	if (q->op & OP_IMM && !need_recv(qp, q))
		return;
	switch (store(qp, q, rkey, va, &fault)) {
	case MKEY_ABSENT:
		if (responder_stall(qp, p, &fault))
			return;
		/* fall through */
	case MKEY_DENIED:
		responder_refuse(qp, p, NAK_REMOTE_ACCESS, EVENT_ACCESS);
		return;
	case MKEY_OK:
		break;
	}
	r->rkey = rkey;
	r->va = va + p->length;
	r->left = left - p->length;
	r->offset = (q->first ? 0 : r->offset) + p->length;
	if (q->op & OP_IMM)
		complete_recv(qp, q, MLX5_CQE_RESP_WR_IMM, NULL);
	executed(qp, q);
}

static bool is_write(u8 op)
{
	return op >= IB_WRITE_FIRST && op <= IB_WRITE_ONLY_IMM;
}

/* IBA 9.7.4.1.2: a message goes on until its last packet. */
static bool in_sequence(const struct responder *r, const struct request *q)
{
	u8 op = packet_operation(q->p);

	if (q->op & (OP_MIDDLE | OP_LAST))
		return r->last_op != OP_NONE && is_write(op) == is_write(r->last_op);
	return r->last_op == OP_NONE;
}

/* XRC: the SRQ says which memory and which receive WQEs (IBA annex A14). */
static bool find_xrc_srq(struct qp *qp, struct request *q)
{
	struct srq *srq = srq_get(qp->hca, q->p->srqn);

	if (!srq || !srq->xrc || srq->xrcd != qp->xrcd)
		return false;
	q->srqn = srq->number;
	q->pd = srq->pd;
	return true;
}

/* Execute the request with the expected PSN.  Takes P. */
static void execute(struct qp *qp, struct packet *p)
{
	struct request q = { .p = p, .op = packet_op(p->opcode), .pd = qp->pd };
	u8 op = packet_operation(p);
	bool data = !(op == IB_READ_REQUEST || op_is_atomic(op));

	if (data) {
		q.first = q.op & (OP_FIRST | OP_ONLY);
		q.last = q.op & (OP_LAST | OP_ONLY);
	} else {
		q.op &= ~(OP_MIDDLE | OP_LAST);
	}
	if (!in_sequence(&qp->resp, &q) || (qp->service == QP_UC && !data) ||
	    (qp->service == QP_XRC_TGT && !find_xrc_srq(qp, &q))) {
		responder_refuse(qp, p, NAK_INVALID_REQUEST, EVENT_INVALID_REQUEST);
		return;
	}
	if (op == IB_READ_REQUEST)
		responder_read(qp, p, q.pd);
	else if (!data)
		responder_atomic(qp, p, q.pd);
	else if (is_write(op))
		execute_write(qp, &q);
	else
		execute_send(qp, &q);
}

/* UC: a gap ends the message in progress, and the next one begins anew. */
static void receive_unreliable(struct qp *qp, struct packet *p)
{
	struct responder *r = &qp->resp;
	bool first = packet_op(p->opcode) & (OP_FIRST | OP_ONLY);

	if (p->psn != r->psn || first)
		r->last_op = OP_NONE;
	r->psn = p->psn;
	execute(qp, p);
}

static void receive_reliable(struct qp *qp, struct packet *p)
{
	struct responder *r = &qp->resp;
	int32_t ahead = psn_diff(p->psn, r->psn);

	if (!ahead) {
		execute(qp, p);
	} else if (ahead > 0) {
		if (!r->nak_sent)
			responder_put_off(qp, p);
		else
			link_packet_free(qp->hca->link, p);
	} else {
		receive_duplicate(qp, p);
	}
}

void responder_receive(struct qp *qp, struct packet *p)
{
	struct responder *r = &qp->resp;

	if (!qp_can_receive(qp)) {
		link_packet_free(qp->hca->link, p);
		return;
	}
	if (qp->state == QPS_RTR && !qp->comm_est) {
		qp->comm_est = true;
		qp_event(qp, EVENT_COMM_EST);
	}
	if (r->stalls) {
		receive_stalled(qp, p);
	} else if (qp->service == QP_UC) {
		receive_unreliable(qp, p);
	} else {
		receive_reliable(qp, p);
	}
}

/* The next turn asks for what was dropped, as soon as there is a packet for the NAK. */
static void ask_for_dropped(struct qp *qp)
{
	struct responder *r = &qp->resp;

	if (!r->dropped || r->stalls)
		return;
	r->dropped = false;
	if (qp->service == QP_UC || r->nak_sent)
		return;
	r->nak_sent = true;
	r->owes = OWES_NAK;
}

void responder_fault_over(struct qp *qp, bool failed)
{
	struct responder *r = &qp->resp;
	struct packet *p;

	if (!r->waits_fault)
		return;
	r->waits_fault = false;
	r->fault_failed = failed;
	p = responder_waited(qp);
	if (!qp_can_receive(qp)) {
		if (p)
			link_packet_free(qp->hca->link, p);
		return;
	}
	if (p)
		execute(qp, p);
	ask_for_dropped(qp);
	if (qp_can_receive(qp))
		responder_turn(qp);
}

static void responder_work(struct work *w)
{
	struct qp *qp = list_item(w, struct qp, resp.work);

	if (qp_can_receive(qp))
		responder_turn(qp);
}

void responder_init(struct qp *qp)
{
	struct responder *r = &qp->resp;

	work_init(&r->work, responder_work);
	r->last_op = OP_NONE;
	for (unsigned int i = 0; i < QP_READS; i++)
		r->resource[i].op = OP_NONE;
}

void responder_reset(struct qp *qp)
{
	struct responder *r = &qp->resp;
	struct packet *p = responder_waited(qp);

	work_stop(&r->work);
	if (p)
		link_packet_free(qp->hca->link, p);
	memset(r, 0, sizeof(*r));
	responder_init(qp);
}
