// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The connections of a DC initiator (packet.c has the packets, dct.c the other end).  The
 * requester is that of RC, and its PSNs run on from one connection to the next.
 *
 * A connection is to one target: path, number of the DCT, and access key, which are in each
 * work request.  One for another target waits until all before it are complete.  The old
 * target is told, also when nothing was to be sent for a timeout, or when the initiator goes.
 * That this gets lost does no harm: it only tells the target whose room it may give to others
 * first.
 *
 * A work request before which all are complete begins a new connection even to the same
 * target, which may have forgotten an idle one.  The numbers of an initiator's connections
 * grow, by the clock, so that also those after a reset or a restart of the model are higher.
 * The target thus knows packets that come late from those that it has to execute.
 */
#include "hca.h"
#include "link.h"
#include "loop.h"
#include "packet.h"
#include "qp.h"
#include "wqe.h"

static bool same_target(const struct wqe_av *a, const struct wqe_av *b)
{
	if (a->rlid != b->rlid || a->dqpn != b->dqpn || a->dc_key != b->dc_key ||
	    a->sl != b->sl || a->global != b->global)
		return false;
	return !a->global || (a->gid_index == b->gid_index &&
			      !memcmp(a->dgid, b->dgid, sizeof(a->dgid)));
}

static void set_target(struct qp *qp, const struct wqe_av *av)
{
	struct qp_path *path = &qp->path;

	qp->dc.target = *av;
	qp->remote_qpn = av->dqpn;
	path->rlid = av->rlid;
	path->sl = av->sl;
	path->path_bits = av->path_bits;
	path->global = av->global;
	path->tclass = av->tclass;
	path->hop_limit = av->hop_limit;
	path->gid_index = av->gid_index;
	path->flow_label = av->flow_label;
	memcpy(path->dgid, av->dgid, sizeof(path->dgid));
}

bool dci_begin(struct qp *qp, const struct wqe *w)
{
	struct dc_connection *c = &qp->dc;
	uint64_t now = loop_now(qp->hca->loop);

	if (qp->req.current)
		return c->open && same_target(&c->target, &w->av);
	if (!same_target(&c->target, &w->av))
		dci_close(qp);
	set_target(qp, &w->av);
	c->number = now > c->number ? now : c->number + 1;
	c->first = qp->req.psn;
	c->open = true;
	return true;
}

void dci_close(struct qp *qp)
{
	struct packet *p;

	if (!qp->dc.open)
		return;
	qp->dc.open = false;
	p = transport_packet(qp, IB_DC_CLOSE, qp->req.psn);
	if (p)
		link_send(qp->hca->link, p);
}
