// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The invariants that the heads of the model's files promise: users are counted right, the
 * ring of a requester and the resources of a responder agree with their counters, and memory
 * stays below its bound.
 */
#include "check.h"
#include "cq.h"
#include "dct.h"
#include "devx.h"
#include "eq.h"
#include "qp.h"
#include "srq.h"
#include "transport.h"
#include "wqe.h"
#include "world.h"

static void check_users(struct hca *hca)
{
	struct eq *eq;
	struct cq *cq;
	struct srq *srq;
	struct umem *umem;
	struct qp *qp;

	table_each(&hca->eqs, n, eq) {
		unsigned int users = 0;

		table_each(&hca->cqs, m, cq)
			users += cq->eq == eq;
		must(users == eq->users);
		must(((eq->producer - eq->consumer) & 0xffffff) <= 1u << eq->log_size);
	}
	table_each(&hca->cqs, n, cq) {
		unsigned int users = 0;

		table_each(&hca->qps, m, qp)
			users += (qp->send_cq == cq) + (qp->recv_cq == cq);
		table_each(&hca->srqs, m, srq)
			users += srq->cq == cq;
		must(users == cq->users);
	}
	table_each(&hca->srqs, n, srq) {
		unsigned int users = 0;

		table_each(&hca->qps, m, qp)
			users += qp->srq == srq;
		must(users == srq->users);
	}
	table_each(&hca->umems, n, umem) {
		unsigned int users = 0;

		table_each(&hca->cqs, m, cq)
			users += (cq->umems.buffer == umem) + (cq->umems.doorbell == umem);
		table_each(&hca->qps, m, qp)
			users += (qp->umems.buffer == umem) + (qp->umems.doorbell == umem);
		table_each(&hca->srqs, m, srq)
			users += (srq->umems.buffer == umem) + (srq->umems.doorbell == umem);
		must(users == umem->users);
	}
}

static void check_requester(struct qp *qp)
{
	struct requester *r = &qp->req;
	unsigned int reads = 0;

	must(r->count <= QP_UNACKED && r->current <= r->count);
	for (unsigned int i = 0; i < r->count; i++) {
		const struct unacked *u = requester_entry(r, i);

		must(u->wqe && u->received <= u->wqe->length);
		reads += u->sent && wqe_has_response(u->wqe);
	}
	if (qp->state != QPS_RTS || !r->count || qp_is_datagram(qp))
		return;
	must(r->reads == reads && reads <= QP_READS);
	if (qp->service == QP_UC)
		return;
	must(psn_diff(r->psn, r->acked_psn) >= 0);
	must(psn_diff(r->sent_psn, r->psn) >= 0);
}

static void check_responder(const struct qp *qp)
{
	const struct responder *r = &qp->resp;
	unsigned int pending = 0;

	for (unsigned int i = 0; i < QP_READS; i++)
		pending += r->resource[i].pending;
	must(pending == r->pending);
	must(!r->stalled || r->stalls);
	must(!r->stalls || r->waits_fault);
	must(r->waits_fault == !!qp->fault[FAULT_RESPONDER].wait);
	must(qp->req.waits_fault == !!qp->fault[FAULT_REQUESTER].wait);
}

/* Those of a DCT are responders, with its number and nothing else of its own. */
static void check_halves(const struct qp *qp)
{
	unsigned int count = 0;

	for (struct list *e = qp->dct->halves.next; e != &qp->dct->halves; e = e->next) {
		const struct half *h = list_item(e, struct half, entry);

		check_responder(&h->qp);
		must(!h->qp.req.count && h->qp.number == qp->number);
		must(h->qp.srq == qp->srq && h->qp.recv_cq == qp->recv_cq);
		count++;
	}
	must(count == qp->dct->count && count <= DCT_HALVES);
}

void check_device(struct hca *hca)
{
	struct qp *qp;

	/* Each QP may have one WQE beyond it; the allocator's cost of that is less than 64. */
	must(hca->memory <= HCA_MEMORY + hca->qps.count * (sizeof(struct wqe) + 64));
	check_users(hca);
	table_each(&hca->qps, n, qp) {
		check_requester(qp);
		check_responder(qp);
		if (qp->dct)
			check_halves(qp);
	}
}
