// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The receiving side of DC: which half-connection a request is for (packet.c has the packets,
 * dci.c the other end).  A half-connection executes requests with the responder of RC.
 *
 * A request with the DCT's access key begins one if its initiator, a LID and a QP number, has
 * none, or had a connection with a lower number, which is over.  A lower number is that of a
 * packet that came late, and was executed in its time.  An error ends the half-connection
 * and the initiator's QP; the DCT goes on.
 *
 * The table is bounded.  When it is full, the one that was silent longest gives way: if its
 * initiator has closed it, as soon as no packet of it can be on its way any more, else when
 * that would have sent its packets again long ago.  Until there is room a newcomer is told
 * to come again (RNR NAK).  Who does not have the key takes no room.
 */
#include "dct.h"
#include "hca.h"
#include "ifc.h"
#include "link.h"
#include "loop.h"
#include "packet.h"
#include "srq.h"
#include "trace.h"
#include "transport.h"

#define CLOSED_NS 100000000ull		/* how long a closed one is kept, at least */
#define SILENT_NS 10000000000ull	/* and one that is not: more than a timeout of any use */

static void answer_to(struct qp *qp, const struct packet *p)
{
	struct qp_path *path = &qp->path;

	qp->remote_qpn = p->sqpn;
	path->rlid = p->slid;
	path->sl = p->sl;
	path->global = p->global;
	memcpy(path->dgid, p->sgid, sizeof(path->dgid));
}

/*
 * By the DCT itself, as there is no half-connection.  An answer acknowledges all before its
 * PSN, so only the first packet gets one; the others will be sent again.
 */
static void refuse(struct qp *qp, struct packet *p, u8 syndrome)
{
	if (p->psn != p->dc_first) {
		link_packet_free(qp->hca->link, p);
		return;
	}
	trace("DCT %#x: syndrome %#x for QP %#x of LID %u", qp->number, syndrome, p->sqpn,
	      p->slid);
	answer_to(qp, p);
	responder_answer(qp, p, syndrome, p->psn);
}

static struct half *half_of(struct list *entry)
{
	return list_item(entry, struct half, entry);
}

static struct half *find(struct dct *dct, const struct packet *p)
{
	for (struct list *e = dct->halves.next; e != &dct->halves; e = e->next) {
		struct half *h = half_of(e);

		if (h->qp.path.rlid == p->slid && h->qp.remote_qpn == p->sqpn)
			return h;
	}
	return NULL;
}

static void half_free(struct dct *dct, struct half *h)
{
	qp_stop(&h->qp);
	list_del(&h->entry);
	dct->count--;
	hca_free_memory(h->qp.hca, h, sizeof(*h));
}

static void half_end(struct dct *dct, struct half *h)
{
	qp_stop_receives(&h->qp);
	half_free(dct, h);
}

/* One that may give way to another, or NULL. */
static struct half *dispensable(struct dct *dct, uint64_t now)
{
	for (struct list *e = dct->halves.prev; e != &dct->halves; e = e->prev) {
		struct half *h = half_of(e);

		if (now - h->heard >= (h->closed ? CLOSED_NS : SILENT_NS))
			return h;
	}
	return NULL;
}

/* NULL: there is no room now. */
static struct half *half_new(struct qp *qp)
{
	struct dct *dct = qp->dct;
	struct half *h;

	if (dct->count == DCT_HALVES) {
		h = dispensable(dct, loop_now(qp->hca->loop));
		if (!h)
			return NULL;
		half_end(dct, h);
	}
	h = hca_alloc(qp->hca, sizeof(*h));
	if (!h)
		return NULL;
	h->qp = *qp;		/* a DCT is never in the middle of anything */
	h->qp.dct = NULL;
	qp_init(&h->qp);
	list_init(&h->entry);
	list_add(&dct->halves, &h->entry);
	dct->count++;
	return h;
}

/*
 * A connection begins with its first PSN, also if that packet was lost.  A receive WQE that
 * was taken for a message that will not go on is there for the next one.
 */
static void half_begin(struct half *h, const struct packet *p)
{
	struct responder *r = &h->qp.resp;
	const bool have_recv = r->have_recv;
	const struct recv_wqe recv = r->recv;
	struct srq *srq = r->srq;

	qp_stop(&h->qp);
	answer_to(&h->qp, p);
	h->connection = p->dc_connection;
	h->closed = false;
	h->qp.state = QPS_RTR;
	h->qp.comm_est = true;		/* which is no event of a DCT */
	r->psn = p->dc_first;
	r->have_recv = have_recv;
	r->recv = recv;
	r->srq = srq;
}

/* The half-connection of a request, or NULL: P was taken. */
static struct half *connection(struct qp *qp, struct packet *p)
{
	struct half *h = find(qp->dct, p);

	if (h && p->dc_connection < h->connection) {
		link_packet_free(qp->hca->link, p);
		return NULL;
	}
	if (h && p->dc_connection == h->connection)
		return h;
	if (!h)
		h = half_new(qp);
	if (h)
		half_begin(h, p);
	else
		refuse(qp, p, AETH_RNR_NAK | (qp->min_rnr_timer & 0x1f));
	return h;
}

static void close_half(struct qp *qp, struct packet *p)
{
	struct half *h = find(qp->dct, p);

	if (h && p->dc_connection == h->connection)
		h->closed = true;
	link_packet_free(qp->hca->link, p);
}

void dct_receive(struct qp *qp, struct packet *p)
{
	struct half *h;

	if (packet_operation(p) == IB_DC_CLOSE) {
		close_half(qp, p);
		return;
	}
	if (p->dc_key != qp->dct->key) {
		refuse(qp, p, AETH_NAK | NAK_REMOTE_ACCESS);
		return;
	}
	h = connection(qp, p);
	if (!h)
		return;
	h->heard = loop_now(qp->hca->loop);
	list_del(&h->entry);
	list_add(qp->dct->halves.next, &h->entry);	/* in front */
	responder_receive(&h->qp, p);
}

void dct_drain(struct qp *qp)
{
	struct dct *dct = qp->dct;

	qp->state = QPS_RESET;
	dct->drained = true;
	while (!list_empty(&dct->halves))
		half_end(dct, half_of(dct->halves.next));
}

void dct_free(struct qp *qp)
{
	struct dct *dct = qp->dct;

	while (!list_empty(&dct->halves))
		half_free(dct, half_of(dct->halves.next));
	hca_free_memory(qp->hca, dct, sizeof(*dct));
	qp->dct = NULL;
}
