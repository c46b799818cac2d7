// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The sending side of RC, UC, XRC and DC (IBA 9.7.3, 9.8.2): one WQE after another becomes
 * packets with consecutive PSNs.  A read or atomic takes the PSNs of its responses.
 *
 * A WQE is in the ring of unacknowledged ones from the moment it was fetched until it
 * completes, and completes when it is the oldest; that keeps completions in order, errors
 * included.  Three PSNs say where the requester is: acked_psn <= psn <= sent_psn.  Going
 * back means psn = acked_psn and nothing else, so whatever was lost is sent again by the
 * same code that sent it first.
 *
 * What a WQE says was copied and checked when it was fetched; no state here depends on
 * guest memory.
 */
#include "hca.h"
#include "ifc.h"
#include "link.h"
#include "list.h"
#include "loop.h"
#include "mkey.h"
#include "packet.h"
#include "qp.h"
#include "stats.h"
#include "trace.h"
#include "transport.h"
#include "umr.h"
#include "wqe.h"

#define NO_MEMORY_RETRY_NS 10000000
#define ACK_EVERY 32		/* packets; less than QP_WINDOW, so the window always opens */
#define PSNS_ALONE (1u << 22)	/* so many PSNs only if nothing else is in flight */

/* As in the control segment. */
enum { FENCE_READS = 2 << 5, FENCE_STRONG = 3 << 5, FENCE_SMALL_AND_READS = 4 << 5 };
enum kind { KIND_LOCAL, KIND_SEND, KIND_WRITE, KIND_READ, KIND_ATOMIC, KIND_BAD };

static enum kind kind_of(const struct wqe *w)
{
	switch (w->opcode) {
	case MLX5_OPCODE_NOP:
	case MLX5_OPCODE_UMR:
		return KIND_LOCAL;
	case MLX5_OPCODE_SEND:
	case MLX5_OPCODE_SEND_IMM:
	case MLX5_OPCODE_SEND_INVAL:
		return KIND_SEND;
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
		return KIND_WRITE;
	case MLX5_OPCODE_RDMA_READ:
		return KIND_READ;
	}
	return wqe_is_atomic(w) ? KIND_ATOMIC : KIND_BAD;
}

/* 0, or the syndrome of a WQE that this kind of QP does not take. */
static u8 refuse_wqe(const struct qp *qp, const struct wqe *w)
{
	enum kind kind = kind_of(w);
	bool connected = qp->service == QP_RC || qp->service == QP_XRC_INI ||
			 qp->service == QP_DCI;

	if (kind == KIND_BAD)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	if (kind != KIND_LOCAL && !connected &&
	    (qp->service != QP_UC || wqe_has_response(w) ||
	     w->opcode == MLX5_OPCODE_SEND_INVAL))
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	if (kind != KIND_LOCAL && w->length > MESSAGE_MAX)
		return MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
	if (kind == KIND_ATOMIC && w->length != 8)
		return MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
	return 0;
}

/* Sent and not acknowledged, in PSNs. */
static bool in_flight(const struct requester *r)
{
	return r->sent_psn != r->acked_psn;
}

/*
 * A copy of a WQE.  The first of a ring may go beyond the limit of memory, which all processes
 * share: one that takes all of it must not stop the queues of others, and not the driver's
 * UMRs, without which memory is not given back either.  That is one WQE for each QP.
 */
static struct wqe *keep(struct qp *qp, const struct wqe *fetched)
{
	size_t bytes = wqe_kept(fetched);
	struct wqe *w = qp->req.count ? hca_alloc(qp->hca, bytes) :
					hca_alloc_beyond(qp->hca, bytes);

	if (w)
		memcpy(w, fetched, bytes);
	return w;
}

/* Fetch the next WQE into the ring.  false: there is none, or not now. */
static bool fetch(struct qp *qp)
{
	struct requester *r = &qp->req;
	struct wqe fetched, *w;
	struct unacked *u;
	u8 syndrome;

	if (r->producer == r->consumer || r->count == QP_UNACKED)
		return false;
	syndrome = qp_fetch(qp, r->consumer, &fetched);
	w = keep(qp, &fetched);
	if (!w) {
		/* With WQEs in the ring one of them gives way; else look again later. */
		if (!r->count)
			timer_start(qp->hca->loop, &r->retry, NO_MEMORY_RETRY_NS);
		return false;
	}
	if (!r->count) {
		r->acked_psn = r->sent_psn = r->psn;
		r->retries = qp->retry_count;
		r->rnr_retries = qp->rnr_retry;
		r->reads = 0;
		r->lost = false;
	}
	if (!syndrome)
		syndrome = refuse_wqe(qp, w);
	r->consumer += w->blocks;

	u = requester_entry(r, r->count++);
	*u = (struct unacked) { .wqe = w, .first_psn = r->psn, .syndrome = syndrome };
	u->last_psn = r->psn - 1;
	if (!syndrome && kind_of(w) != KIND_LOCAL)
		u->last_psn += wqe_is_atomic(w) ? 1 : packets_of(w->length, qp_mtu(qp));
	u->last_psn &= PSN_MASK;
	r->offset = 0;
	trace("QP %#x: WQE %u opcode %#x, %llu bytes, psn %u", qp->number, w->index, w->opcode,
	      (unsigned long long)w->length, r->psn);
	return true;
}

/*
 * Whether the WQE that is next may begin (PRM, "fence mode").  As many precede it in the
 * ring, not complete, as r->current says.
 */
static bool may_begin(struct qp *qp, const struct unacked *u)
{
	struct requester *r = &qp->req;
	uint32_t packets = (u->last_psn - u->first_psn + 1) & PSN_MASK;

	switch (u->wqe->fence) {
	case FENCE_STRONG:
		if (r->current)
			return false;
		break;
	case FENCE_READS:
	case FENCE_SMALL_AND_READS:
		if (r->reads)
			return false;
		break;
	}
	/*
	 * A UMR changes keys.  A packet that is sent again must find the keys that it was sent
	 * with, so all before the UMR have to be complete, whatever the fence says.
	 */
	if (u->wqe->opcode == MLX5_OPCODE_UMR && r->current)
		return false;
	if (packets >= PSNS_ALONE && in_flight(r))
		return false;
	/* Last, because it may begin a connection. */
	return qp->service != QP_DCI || kind_of(u->wqe) == KIND_LOCAL || dci_begin(qp, u->wqe);
}

static void run_local(struct qp *qp, struct unacked *u)
{
	const struct mkey_access by = {
		.pd = qp->pd, .qpn = qp->number, .privileged = qp->privileged,
		.any_pd = qp->service == QP_REG_UMR && qp->privileged,
	};
	struct wqe *w = u->wqe;

	if (w->opcode == MLX5_OPCODE_UMR)
		u->syndrome = umr_run(qp->hca, &by, w->bytes, w->size, w->imm);
	if (!u->syndrome) {
		u->done = true;
		qp->req.current++;
	}
	requester_complete(qp);
}

bool requester_fault(struct qp *qp, uint32_t psn, const struct mkey_fault *fault)
{
	struct requester *r = &qp->req;

	if (r->fault_failed && r->fault_psn == psn)
		return false;
	r->waits_fault = true;
	r->fault_failed = false;
	r->fault_psn = psn;
	transport_fault(qp, FAULT_REQUESTER, fault);
	return true;
}

void requester_found(struct requester *r, uint32_t psn)
{
	if (r->fault_psn == psn)
		r->fault_failed = false;
}

/* The BTH opcode of a packet of a send or write. */
static u8 packet_opcode(const struct wqe *w, bool first, bool last)
{
	u8 begin = kind_of(w) == KIND_SEND ? IB_SEND_FIRST : IB_WRITE_FIRST;

	if (!last)
		return first ? begin : begin + 1;
	switch (w->opcode) {
	case MLX5_OPCODE_SEND_IMM:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
		return begin + (first ? 5 : 3);
	case MLX5_OPCODE_SEND_INVAL:
		return first ? IB_SEND_ONLY_INV : IB_SEND_LAST_INV;
	}
	return begin + (first ? 4 : 2);
}

/* All packets of the current WQE are sent. */
static void next_wqe(struct qp *qp, struct unacked *u)
{
	struct requester *r = &qp->req;

	u->sent = true;
	r->current++;
	r->offset = 0;
	if (qp->service == QP_UC) {
		u->done = true;
		r->acked_psn = r->psn;
		requester_complete(qp);
	}
}

static void sent(struct qp *qp, uint32_t packets)
{
	struct requester *r = &qp->req;
	bool idle = !in_flight(r);

	r->psn = (r->psn + packets) & PSN_MASK;
	if (idle || psn_diff(r->psn, r->sent_psn) > 0)
		r->sent_psn = r->psn;
	if (qp->service == QP_UC)
		r->acked_psn = r->sent_psn;
	else if (idle || !timer_runs(&r->retry))
		completer_start_timer(qp);
}

/* One packet of a send or write.  false: not now, or never. */
static bool send_data(struct qp *qp, struct unacked *u, uint64_t *bytes)
{
	struct requester *r = &qp->req;
	const struct wqe *w = u->wqe;
	uint64_t left = w->length - r->offset;
	uint32_t len = left < qp_mtu(qp) ? left : qp_mtu(qp);
	bool last = len == left;
	struct mkey_fault fault;
	enum mkey_result result;
	struct packet *p;

	p = transport_packet(qp, packet_opcode(w, !r->offset, last), r->psn);
	if (!p) {
		link_wait(qp->hca->link, &r->work);
		return false;
	}
	result = transport_gather(qp, w, r->offset, p->payload, len, &fault);
	if (result != MKEY_OK) {
		link_packet_free(qp->hca->link, p);
		if (result == MKEY_DENIED || !requester_fault(qp, r->psn, &fault)) {
			u->syndrome = MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
			requester_complete(qp);
		}
		return false;
	}
	requester_found(r, r->psn);
	p->length = len;
	p->ack_request = qp->service != QP_UC && (last || r->psn % ACK_EVERY == ACK_EVERY - 1);
	p->solicited = last && w->solicited;
	p->srqn = w->srqn;
	p->va = w->remote_addr;
	p->rkey = w->rkey;
	p->dma_length = w->length;
	p->imm = w->imm;
	r->offset += len;
	*bytes += len;
	link_send(qp->hca->link, p);
	sent(qp, 1);
	if (last)
		next_wqe(qp, u);
	return true;
}

static u8 request_opcode(const struct wqe *w)
{
	switch (w->opcode) {
	case MLX5_OPCODE_ATOMIC_CS:
		return IB_COMPARE_SWAP;
	case MLX5_OPCODE_ATOMIC_FA:
		return IB_FETCH_ADD;
	case MLX5_OPCODE_ATOMIC_MASKED_CS:
		return IB_MASKED_COMPARE_SWAP;
	case MLX5_OPCODE_ATOMIC_MASKED_FA:
		return IB_MASKED_FETCH_ADD;
	}
	return IB_READ_REQUEST;
}

/* A read or atomic; a read that was answered in part begins at what is missing. */
static bool send_request(struct qp *qp, struct unacked *u)
{
	struct requester *r = &qp->req;
	unsigned int depth = qp->max_reads ? qp->max_reads : 1;
	const struct wqe *w = u->wqe;
	struct packet *p;

	if (!u->sent && r->reads >= (depth < QP_READS ? depth : QP_READS))
		return false;
	p = transport_packet(qp, request_opcode(w), r->psn);
	if (!p) {
		link_wait(qp->hca->link, &r->work);
		return false;
	}
	p->srqn = w->srqn;
	p->va = w->remote_addr + u->received;
	p->rkey = w->rkey;
	p->dma_length = w->length - u->received;
	p->swap = w->swap_add;
	p->compare = w->compare;
	p->swap_mask = w->swap_mask;
	p->compare_mask = w->compare_mask;
	p->ack_request = true;
	if (!u->sent)
		r->reads++;
	link_send(qp->hca->link, p);
	sent(qp, (u->last_psn - r->psn + 1) & PSN_MASK);
	next_wqe(qp, u);
	return true;
}

/* One step of work.  false: there is none, or it has to wait for an event. */
static bool step(struct qp *qp, uint64_t *bytes)
{
	struct requester *r = &qp->req;
	struct unacked *u;

	if (!qp_can_send(qp) || r->waits_rnr || r->waits_fault)
		return false;
	if (r->current == r->count && !fetch(qp))
		return false;
	u = requester_entry(r, r->current);
	if (u->done) {
		r->current++;
		return true;
	}
	if (u->syndrome) {
		requester_complete(qp);
		return false;
	}
	if (!r->offset && r->psn == r->sent_psn && !may_begin(qp, u))
		return false;
	if (kind_of(u->wqe) == KIND_LOCAL) {
		run_local(qp, u);
		return true;
	}
	if (qp->service != QP_UC && ((r->psn - r->acked_psn) & PSN_MASK) >= QP_WINDOW)
		return false;
	return wqe_has_response(u->wqe) ? send_request(qp, u) : send_data(qp, u, bytes);
}

static void run_steps(struct qp *qp)
{
	unsigned int packets = 0;
	uint64_t bytes = 0;

	while (step(qp, &bytes)) {
		if (++packets == TURN_PACKETS || bytes >= TURN_BYTES ||
		    loop_turn_over(qp->hca->loop)) {
			requester_run(qp);
			return;
		}
	}
}

/* The driver's UMR queue is timed: its work is what a registration costs. */
static void run_umrs(struct qp *qp)
{
	struct stats *stats = &qp->hca->stats;
	uint64_t began = stats_clock(), sends = stats->sends, ns = stats->interrupt_ns;

	run_steps(qp);
	ns = stats_clock() - began - (stats->interrupt_ns - ns);
	stats_add(stats, "UMR", 0, stats->sends - sends, ns);
}

static void requester_turn(struct work *work)
{
	struct qp *qp = list_item(work, struct qp, req.work);

	if (qp_is_datagram(qp))
		datagram_turn(qp);
	else if (qp->service == QP_REG_UMR)
		run_umrs(qp);
	else
		run_steps(qp);
}

void requester_run(struct qp *qp)
{
	loop_work(qp->hca->loop, &qp->req.work);
}

/* Take the oldest WQE out of the ring. */
static void complete_oldest(struct qp *qp)
{
	struct requester *r = &qp->req;
	struct unacked *u = requester_entry(r, 0);
	u8 syndrome = u->syndrome;
	struct wqe *w = u->wqe;

	if (u->sent && wqe_has_response(w))
		r->reads--;
	r->head = (r->head + 1) % QP_UNACKED;
	r->count--;
	if (r->current)
		r->current--;
	else
		r->offset = 0;
	u->wqe = NULL;
	/* From here on the ring is in order: what a completion causes may use it. */
	qp_complete_send(qp, w, syndrome, syndrome ? 0 : w->length);
	hca_free_memory(qp->hca, w, wqe_kept(w));
	if (syndrome && qp->service == QP_UC)
		qp_sq_error(qp);
	else if (syndrome)
		qp_error(qp, 0);
}

void requester_complete(struct qp *qp)
{
	struct requester *r = &qp->req;

	while (r->count && qp_can_send(qp)) {
		const struct unacked *u = requester_entry(r, 0);

		if (!u->done && !u->syndrome)
			break;
		complete_oldest(qp);
	}
}

void requester_seek(struct qp *qp, uint32_t psn)
{
	struct requester *r = &qp->req;
	unsigned int i;

	r->offset = 0;
	for (i = 0; i < r->count; i++) {
		const struct unacked *u = requester_entry(r, i);

		if (u->done)
			continue;
		/* One without packets that is not done is the last that was fetched. */
		if (((u->first_psn - 1) & PSN_MASK) == u->last_psn)
			break;
		if (psn_diff(psn, u->last_psn) <= 0) {
			uint64_t at = (uint64_t)((psn - u->first_psn) & PSN_MASK) * qp_mtu(qp);

			if (!wqe_has_response(u->wqe))
				r->offset = at < u->wqe->length ? at : u->wqe->length;
			break;
		}
	}
	r->current = i;
	r->psn = psn;
}

void requester_fault_over(struct qp *qp, bool failed)
{
	struct requester *r = &qp->req;

	if (!r->waits_fault)
		return;
	r->waits_fault = false;
	r->fault_failed = failed;
	completer_wait_anew(qp);
	if (r->fault_response) {
		r->fault_response = false;
		requester_seek(qp, r->acked_psn);
	}
	requester_run(qp);
}

void requester_init(struct qp *qp)
{
	work_init(&qp->req.work, requester_turn);
	completer_init(qp);
}

void requester_reset(struct qp *qp)
{
	struct requester *r = &qp->req;

	work_stop(&r->work);
	timer_stop(&r->retry);
	timer_stop(&r->rnr);
	for (unsigned int i = 0; i < r->count; i++) {
		struct wqe *w = requester_entry(r, i)->wqe;

		if (w)
			hca_free_memory(qp->hca, w, wqe_kept(w));
	}
	memset(r, 0, sizeof(*r));
	requester_init(qp);
}
