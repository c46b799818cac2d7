// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The entrance of the transport (IBA volume 1, chapter 9): which QP a packet is for and
 * whether that QP may have it (9.6.1), the headers of what a QP sends, and the segments of
 * work requests as one run of bytes.
 *
 * A packet belongs to exactly one function at a time: who takes it sends it, keeps it or
 * frees it.  A QP that is found here is used only until the call returns.  A scatter that
 * finds a page absent has written what precedes it; the packet is executed again from its
 * beginning when the page is there, and writes the same bytes to the same places.
 */
#include "transport.h"
#include "hca.h"
#include "link.h"
#include "list.h"
#include "mcg.h"
#include "odp.h"
#include "port.h"
#include "srq.h"
#include "trace.h"

#define QPN_MULTICAST 0xffffffu

/* IBA 10.9.3: the same partition, and one of both is a full member. */
static bool pkey_match(uint16_t a, uint16_t b)
{
	return !((a ^ b) & 0x7fff) && (a & 0x7fff) && ((a | b) & 0x8000);
}

static bool pkey_ok(const struct qp *qp, uint16_t pkey)
{
	const struct hca *hca = qp->hca;

	if (qp->service == QP_SMI)
		return true;
	if (qp->service != QP_GSI)
		return pkey_match(port_pkey(hca, qp->path.pkey_index), pkey);
	for (unsigned int i = 0; i < QP_PKEYS; i++)
		if (pkey_match(port_pkey(hca, i), pkey))
			return true;
	return false;
}

static bool serves(const struct qp *qp, const struct packet *p, bool request)
{
	switch (p->opcode >> 5) {
	case IB_RC:
		return qp->service == QP_RC;
	case IB_UC:
		return qp->service == QP_UC;
	case IB_UD:
		return qp_is_datagram(qp);
	case IB_XRC:
		return qp->service == (request ? QP_XRC_TGT : QP_XRC_INI);
	case IB_DC:
		return qp->service == (request ? QP_DCT : QP_DCI);
	}
	return false;
}

/*
 * IBA 9.6.1.2 and 9.6.1.5: a connection's packets come by its path, with a GRH if that has
 * one; a datagram may come from anywhere, and so may a request for a DC target.
 */
static bool came_by_path(const struct qp *qp, const struct packet *p)
{
	const struct qp_path *path = &qp->path;
	u8 gid[16];

	if (qp_is_datagram(qp) || qp->service == QP_DCT)
		return true;
	if (p->slid != path->rlid || p->global != path->global)
		return false;
	if (!p->global)
		return true;
	port_gid(qp->hca, path->gid_index, gid);
	return !memcmp(p->dgid, gid, sizeof(gid)) &&
	       !memcmp(p->sgid, path->dgid, sizeof(path->dgid));
}

/* NULL, or why the QP does not take the packet. */
static const char *refusal(struct qp *qp, const struct packet *p, bool request)
{
	if (!serves(qp, p, request))
		return "QP has another transport";
	if (!(request ? qp_can_receive(qp) : qp_can_send(qp)))
		return "QP state";
	if (!pkey_ok(qp, p->pkey)) {
		qp->hca->port.pkey_violations++;
		return "P_Key";
	}
	if (!came_by_path(qp, p))
		return "not by the path of the connection";
	return NULL;
}

static void multicast_one(struct qp *qp, void *arg)
{
	const struct packet *p = arg;
	struct hca *hca = qp->hca;
	struct packet *copy;

	if (qp->service != QP_UD || refusal(qp, p, true))
		return;
	/* A QP may ask not to hear itself. */
	if (p->slid == hca->port.lid && p->sqpn == qp->number &&
	    IFC_GET(qpc, qp->context, block_lb_mc))
		return;
	copy = link_packet(hca->link);
	if (!copy)
		return;
	memcpy(copy, p, offsetof(struct packet, payload) + p->length);
	list_init(&copy->entry);
	datagram_receive(qp, copy);
}

static void receive_multicast(struct hca *hca, struct packet *p)
{
	if (p->opcode >> 5 == IB_UD && p->global)
		mcg_each(hca, p->dgid, multicast_one, p);
	link_packet_free(hca->link, p);
}

/*
 * NULL, or why it is for no QP at all.  IBA 9.6.1.2: a multicast LID and the QP number of
 * multicast go together.  3.5.10: VL 15 is for subnet management, which has no other one.
 */
static const char *unroutable(const struct hca *hca, const struct packet *p)
{
	if (lid_is_multicast(p->dlid))
		return "unicast to a multicast LID";
	if ((p->vl == VL_MANAGEMENT) != !p->dqpn)
		return "VL 15 or QP 0, but not both";
	if (p->global && !port_has_gid(hca, p->dgid))
		return "DGID is not the port's";
	return NULL;
}

/*
 * The QPs of management are reached by the numbers 0 and 1 only.  By the number that QP 0 has
 * in the model anybody could send to it, without VL 15, and it looks at no Q_Key.
 */
static struct qp *find_qp(struct hca *hca, uint32_t number)
{
	struct qp *qp;

	if (number <= 1)
		return hca->special[number];
	qp = qp_get(hca, number);
	return qp && qp->service != QP_SMI && qp->service != QP_GSI ? qp : NULL;
}

void transport_receive(struct hca *hca, struct packet *p)
{
	uint32_t op = packet_op(p->opcode);
	bool request = op & OP_REQUEST;
	const char *why;
	struct qp *qp = NULL;

	if (p->dqpn == QPN_MULTICAST && lid_is_multicast(p->dlid)) {
		receive_multicast(hca, p);
		return;
	}
	why = op ? unroutable(hca, p) : "no such opcode";
	if (!why) {
		qp = find_qp(hca, p->dqpn);
		why = qp ? refusal(qp, p, request) : "no such QP";
	}
	if (why) {
		trace("drop: opcode %#x for QP %#x, psn %u: %s", p->opcode, p->dqpn, p->psn, why);
		link_packet_free(hca->link, p);
		return;
	}
	if (qp_is_datagram(qp))
		datagram_receive(qp, p);
	else if (qp->service == QP_DCT)
		dct_receive(qp, p);
	else if (request)
		responder_receive(qp, p);
	else
		requester_receive(qp, p);
}

static void fill_headers(struct qp *qp, struct packet *p, u8 op, uint32_t psn)
{
	static const u8 transport[] = {
		[QP_RC] = IB_RC, [QP_UC] = IB_UC, [QP_XRC_INI] = IB_XRC, [QP_XRC_TGT] = IB_XRC,
		[QP_DCI] = IB_DC, [QP_DCT] = IB_DC,
	};
	const struct qp_path *path = &qp->path;

	p->dlid = path->rlid;
	p->slid = qp->hca->port.lid;
	p->sl = path->sl;
	p->global = path->global;
	if (path->global) {
		p->tclass = path->tclass;
		p->hop_limit = path->hop_limit;
		p->flow_label = path->flow_label;
		memcpy(p->dgid, path->dgid, sizeof(p->dgid));
		port_gid(qp->hca, path->gid_index, p->sgid);
	}
	p->opcode = transport[qp->service] << 5 | op;
	p->pkey = port_pkey(qp->hca, path->pkey_index);
	p->dqpn = qp->remote_qpn;
	p->psn = psn & PSN_MASK;
	if (qp->service != QP_DCI)
		return;
	p->dc_key = qp->dc.target.dc_key;
	p->dc_connection = qp->dc.number;
	p->dc_first = qp->dc.first;
	p->sqpn = qp->number;
}

struct packet *transport_packet(struct qp *qp, u8 op, uint32_t psn)
{
	struct packet *p = link_packet(qp->hca->link);

	if (p)
		fill_headers(qp, p, op, psn);
	return p;
}

void transport_reply(struct qp *qp, struct packet *p, u8 op, uint32_t psn)
{
	p->solicited = p->ack_request = false;
	p->vl = 0;
	p->length = 0;
	fill_headers(qp, p, op, psn);
}

/* A part of one segment that is not inline, from memory or, with TO_MEMORY, to it. */
static enum mkey_result move(struct qp *qp, uint32_t pd, uint32_t lkey, uint64_t addr,
			     bool to_memory, void *data, size_t len, struct mkey_fault *fault)
{
	struct mkey_access a = {
		.privileged = qp->privileged,
		.key = lkey, .pd = pd, .qpn = qp->number,
		.rights = to_memory ? MKEY_LOCAL_WRITE : MKEY_LOCAL_READ,
	};

	return to_memory ? mkey_write(qp->hca, &a, addr, data, len, fault) :
			   mkey_read(qp->hca, &a, addr, data, len, fault);
}

/* Inline data is only ever sent. */
static enum mkey_result move_inline(const struct wqe *w, const struct wqe_seg *s,
				    bool to_memory, uint64_t offset, void *data, size_t len)
{
	if (to_memory || s->addr > WQE_MAX || s->len > WQE_MAX - s->addr)
		return MKEY_DENIED;
	memcpy(data, w->bytes + s->addr + offset, len);
	return MKEY_OK;
}

static enum mkey_result move_wqe(struct qp *qp, const struct wqe *w, bool to_memory,
				 uint64_t offset, void *data, size_t len,
				 struct mkey_fault *fault)
{
	enum mkey_result result = MKEY_OK;
	u8 *at = data;

	for (unsigned int i = 0; len && i < w->segs && result == MKEY_OK; i++) {
		const struct wqe_seg *s = &w->seg[i];
		size_t part;

		if (offset >= s->len) {
			offset -= s->len;
			continue;
		}
		part = s->len - offset < len ? s->len - offset : len;
		if (s->is_inline)
			result = move_inline(w, s, to_memory, offset, at, part);
		else
			result = move(qp, qp->pd, s->lkey, s->addr + offset, to_memory, at, part,
				      fault);
		at += part;
		len -= part;
		offset = 0;
	}
	return result == MKEY_OK && len ? MKEY_DENIED : result;
}

enum mkey_result transport_gather(struct qp *qp, const struct wqe *w, uint64_t offset,
				  void *to, size_t len, struct mkey_fault *fault)
{
	return move_wqe(qp, w, false, offset, to, len, fault);
}

enum mkey_result transport_scatter_wqe(struct qp *qp, const struct wqe *w, uint64_t offset,
				       const void *from, size_t len, struct mkey_fault *fault)
{
	/* Not written, in this direction. */
	return move_wqe(qp, w, true, offset, (void *)(uintptr_t)from, len, fault);
}

enum mkey_result transport_scatter(struct qp *qp, uint32_t pd, const struct recv_wqe *r,
				   uint64_t offset, const void *from, size_t len,
				   struct mkey_fault *fault)
{
	u8 *at = (u8 *)(uintptr_t)from;
	enum mkey_result result = MKEY_OK;

	for (unsigned int i = 0; len && i < r->segs && result == MKEY_OK; i++) {
		size_t part;

		if (offset >= r->seg[i].len) {
			offset -= r->seg[i].len;
			continue;
		}
		part = r->seg[i].len - offset < len ? r->seg[i].len - offset : len;
		result = move(qp, pd, r->seg[i].lkey, r->seg[i].addr + offset, true, at, part,
			      fault);
		at += part;
		len -= part;
		offset = 0;
	}
	return result == MKEY_OK && len ? MKEY_DENIED : result;
}

/* A page is there, or could not be brought. */
static void fault_over(struct qp *qp, enum fault_side side, bool failed)
{
	if (qp_is_datagram(qp))
		datagram_fault_over(qp, side, failed);
	else if (side == FAULT_REQUESTER)
		requester_fault_over(qp, failed);
	else
		responder_fault_over(qp, failed);
}

static void requester_over(struct odp_waiter *w, bool failed)
{
	fault_over(list_item(w, struct qp, fault[FAULT_REQUESTER]), FAULT_REQUESTER, failed);
}

static void responder_over(struct odp_waiter *w, bool failed)
{
	fault_over(list_item(w, struct qp, fault[FAULT_RESPONDER]), FAULT_RESPONDER, failed);
}

void transport_fault(struct qp *qp, enum fault_side side, const struct mkey_fault *fault)
{
	struct odp_waiter *w = &qp->fault[side];

	w->qpn = qp->number;
	w->over = side == FAULT_REQUESTER ? requester_over : responder_over;
	odp_fault(qp->hca, w, fault);
}
