// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Multicast groups: which UD QPs take a copy of a packet to a group (IBA 10.5, and the
 * commands ATTACH_TO_MCG and DETACH_FROM_MCG).
 *
 * A group is its MGID here, and a packet to it has this MGID in its GRH.  The multicast
 * LID of the group never gets here: the subnet administrator gives it out when the guest's
 * own agent joins by a MAD, and from then on the fabric brings packets with this LID to
 * the port.  So ATTACH does not tell the link anything, and a QP that is attached to a
 * group that nobody joined gets only what this port itself sends to it.
 *
 * Groups and attachments are bounded by the capabilities, and each attachment is on two
 * lists, that of its group and that of its QP: whichever goes first takes it along.
 */
#include "mcg.h"
#include "hca.h"
#include "ifc.h"
#include "list.h"
#include "qp.h"
#include "wqe.h"
#include <stdlib.h>

struct group {
	struct list entry, members;
	u8 gid[16];
	unsigned int count;
};

struct member {
	struct list of_group, of_qp;
	struct group *group;
	struct qp *qp;
};

struct mcg {
	struct list groups;
	unsigned int count;
};

void mcg_init(struct hca *hca)
{
	hca->mcg = calloc(1, sizeof(*hca->mcg));
	if (hca->mcg)
		list_init(&hca->mcg->groups);
}

static struct group *find_group(struct hca *hca, const u8 gid[16])
{
	for (struct list *l = hca->mcg->groups.next; l != &hca->mcg->groups; l = l->next) {
		struct group *g = list_item(l, struct group, entry);

		if (!memcmp(g->gid, gid, sizeof(g->gid)))
			return g;
	}
	return NULL;
}

static struct member *find_member(struct group *g, const struct qp *qp)
{
	for (struct list *l = g->members.next; l != &g->members; l = l->next) {
		struct member *m = list_item(l, struct member, of_group);

		if (m->qp == qp)
			return m;
	}
	return NULL;
}

static struct group *new_group(struct hca *hca, const u8 gid[16])
{
	struct group *g = hca_alloc(hca, sizeof(*g));

	if (!g)
		return NULL;
	memcpy(g->gid, gid, sizeof(g->gid));
	list_init(&g->members);
	list_add(&hca->mcg->groups, &g->entry);
	hca->mcg->count++;
	return g;
}

static void put_group(struct hca *hca, struct group *g)
{
	if (g->count)
		return;
	list_del(&g->entry);
	hca->mcg->count--;
	hca_free_memory(hca, g, sizeof(*g));
}

static void remove_member(struct hca *hca, struct member *m)
{
	struct group *g = m->group;

	list_del(&m->of_group);
	list_del(&m->of_qp);
	hca_free_memory(hca, m, sizeof(*m));
	g->count--;
	put_group(hca, g);
}

void mcg_detach_all(struct qp *qp)
{
	while (!list_empty(&qp->mcgs))
		remove_member(qp->hca, list_item(qp->mcgs.next, struct member, of_qp));
}

void mcg_reset(struct hca *hca)
{
	while (!list_empty(&hca->mcg->groups)) {
		struct group *g = list_item(hca->mcg->groups.next, struct group, entry);

		/* A group has a member as long as it exists; the last one takes it along. */
		remove_member(hca, list_item(g->members.next, struct member, of_group));
	}
}

void mcg_each(struct hca *hca, const u8 gid[16], void (*fn)(struct qp *qp, void *arg), void *arg)
{
	struct group *g = find_group(hca, gid);
	struct list *l, *next;

	if (!g)
		return;
	for (l = g->members.next; l != &g->members; l = next) {
		next = l->next;
		fn(list_item(l, struct member, of_group)->qp, arg);
	}
}

static enum cmd_status cmd_attach_to_mcg(struct hca *hca, struct cmd *c)
{
	uint32_t qpn = IFC_GET(attach_to_mcg_in, c->in, qpn);
	const u8 *gid = IFC_PTR(attach_to_mcg_in, c->in, multicast_gid);
	struct qp *qp = qp_of_cmd(hca, c, qpn);
	struct group *g;
	struct member *m;

	cmd_says(c, "QP %#x group %08x..%08x", qpn, be32_at(gid), be32_at(gid + 12));
	if (!qp || !uid_owns(c->uid, qp->uid))
		return cmd_refuse(c, CMD_BAD_RES);
	if (qp->service != QP_UD || gid[0] != 0xff)
		return cmd_refuse(c, CMD_BAD_PARAM);
	g = find_group(hca, gid);
	if (g && find_member(g, qp))
		return CMD_OK;
	if (g ? g->count >= HCA_MCG_QPS : hca->mcg->count >= 1u << HCA_LOG_MCGS)
		return cmd_refuse(c, CMD_LIM_EXCEEDED);
	if (!g)
		g = new_group(hca, gid);
	if (!g)
		return cmd_refuse(c, CMD_NO_RESOURCES);
	m = hca_alloc(hca, sizeof(*m));
	if (!m) {
		put_group(hca, g);
		return cmd_refuse(c, CMD_NO_RESOURCES);
	}
	m->group = g;
	m->qp = qp;
	g->count++;
	list_add(&g->members, &m->of_group);
	list_add(&qp->mcgs, &m->of_qp);
	return CMD_OK;
}

static enum cmd_status cmd_detach_from_mcg(struct hca *hca, struct cmd *c)
{
	uint32_t qpn = IFC_GET(detach_from_mcg_in, c->in, qpn);
	struct group *g = find_group(hca, IFC_PTR(detach_from_mcg_in, c->in, multicast_gid));
	struct qp *qp = qp_of_cmd(hca, c, qpn);
	struct member *m = g && qp ? find_member(g, qp) : NULL;

	cmd_says(c, "QP %#x", qpn);
	if (!m)
		return cmd_refuse(c, CMD_BAD_RES);
	remove_member(hca, m);
	return CMD_OK;
}

const struct cmd_op mcg_ops[] = {
	CMD_OP(ATTACH_TO_MCG, attach_to_mcg),
	CMD_OP(DETACH_FROM_MCG, detach_from_mcg),
	{ },
};
