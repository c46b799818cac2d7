// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The commands of UARs, PDs, transport domains and XRC domains.  They lie above the objects
 * that use a number, because they look for its users; hca.c has what these objects ask.
 */
#include "numbers.h"
#include "hca.h"
#include "ifc.h"
#include "mkey.h"
#include "qp.h"
#include "srq.h"
#include "table.h"

/*
 * Users are looked for when a number is freed, which is rare: so no other file has to
 * keep a count right through every change of an mkey's or a QP's PD.
 */
static bool pd_used(const struct hca *hca, uint32_t pd)
{
	struct mkey *mkey;
	struct srq *srq;
	struct qp *qp;

	table_each(&hca->qps, n, qp)
		if (qp->pd == pd)
			return true;
	table_each(&hca->srqs, n, srq)
		if (srq->pd == pd)
			return true;
	table_each(&hca->mkeys, n, mkey)
		if (mkey->pd == pd)
			return true;
	return false;
}

static bool xrcd_used(const struct hca *hca, uint32_t xrcd)
{
	struct srq *srq;
	struct qp *qp;

	table_each(&hca->qps, n, qp)
		if (qp->xrcd == xrcd)
			return true;
	table_each(&hca->srqs, n, srq)
		if (srq->xrc && srq->xrcd == xrcd)
			return true;
	return false;
}

static enum cmd_status cmd_alloc_uar(struct hca *hca, struct cmd *c)
{
	struct uar *uar = hca_alloc(hca, sizeof(*uar));
	int64_t number;

	if (!uar)
		return cmd_refuse(c, CMD_NO_RESOURCES);
	uar->uid = c->uid;
	number = table_add(&hca->uars, uar);
	if (number < 0) {
		hca_free_uar(hca, uar);
		return cmd_refuse(c, CMD_LIM_EXCEEDED);
	}
	uar->number = number;
	IFC_SET(alloc_uar_out, c->out, uar, number);
	cmd_says(c, "UAR %#x", (unsigned int)number);
	return CMD_OK;
}

/*
 * A page in use is not refused.  A process that closes its device with CQs left gives the
 * page back first, and the driver does not look at the answer (mlx5_ib_mmap_free()): it
 * would be lost.  So it is closed now, and its number is free when its users are gone.
 */
static enum cmd_status cmd_dealloc_uar(struct hca *hca, struct cmd *c)
{
	uint32_t number = IFC_GET(dealloc_uar_in, c->in, uar);
	struct uar *uar = hca_uar(hca, c->uid, number);

	cmd_says(c, "UAR %#x", number);
	if (!uar)
		return cmd_refuse(c, CMD_BAD_RES);
	uar->closed = true;
	uar->users++;
	hca_uar_put(hca, uar);
	return CMD_OK;
}

/* *NUMBER is left alone if there is none. */
static enum cmd_status alloc_number(struct hca *hca, struct cmd *c, struct table *t,
				    uint32_t *number)
{
	struct number *object = hca_alloc(hca, sizeof(*object));
	int64_t n;

	if (!object)
		return cmd_refuse(c, CMD_NO_RESOURCES);
	object->uid = c->uid;
	n = table_add(t, object);
	if (n < 0) {
		hca_free_number(hca, object);
		return cmd_refuse(c, CMD_LIM_EXCEEDED);
	}
	*number = n;
	cmd_says(c, "%#x", *number);
	return CMD_OK;
}

static enum cmd_status dealloc_number(struct hca *hca, struct cmd *c, struct table *t,
				      uint32_t number,
				      bool (*used)(const struct hca *hca, uint32_t number))
{
	cmd_says(c, "%#x", number);
	if (!hca_number_valid(t, c->uid, number))
		return cmd_refuse(c, CMD_BAD_RES);
	if (used && used(hca, number))
		return cmd_refuse(c, CMD_BAD_RES_STATE);
	hca_free_number(hca, table_del(t, number));
	return CMD_OK;
}

static enum cmd_status cmd_alloc_pd(struct hca *hca, struct cmd *c)
{
	uint32_t number = 0;
	enum cmd_status status = alloc_number(hca, c, &hca->pds, &number);

	IFC_SET(alloc_pd_out, c->out, pd, number);
	return status;
}

static enum cmd_status cmd_dealloc_pd(struct hca *hca, struct cmd *c)
{
	return dealloc_number(hca, c, &hca->pds, IFC_GET(dealloc_pd_in, c->in, pd), pd_used);
}

static enum cmd_status cmd_alloc_transport_domain(struct hca *hca, struct cmd *c)
{
	uint32_t number = 0;
	enum cmd_status status = alloc_number(hca, c, &hca->tds, &number);

	IFC_SET(alloc_transport_domain_out, c->out, transport_domain, number);
	return status;
}

/* Only TIRs and TISs use a transport domain, and there are none. */
static enum cmd_status cmd_dealloc_transport_domain(struct hca *hca, struct cmd *c)
{
	uint32_t number = IFC_GET(dealloc_transport_domain_in, c->in, transport_domain);

	return dealloc_number(hca, c, &hca->tds, number, NULL);
}

static enum cmd_status cmd_alloc_xrcd(struct hca *hca, struct cmd *c)
{
	uint32_t number = 0;
	enum cmd_status status = alloc_number(hca, c, &hca->xrcds, &number);

	IFC_SET(alloc_xrcd_out, c->out, xrcd, number);
	return status;
}

static enum cmd_status cmd_dealloc_xrcd(struct hca *hca, struct cmd *c)
{
	return dealloc_number(hca, c, &hca->xrcds, IFC_GET(dealloc_xrcd_in, c->in, xrcd),
			      xrcd_used);
}

const struct cmd_op number_ops[] = {
	CMD_OP(ALLOC_UAR, alloc_uar),
	CMD_OP(DEALLOC_UAR, dealloc_uar),
	CMD_OP(ALLOC_PD, alloc_pd),
	CMD_OP(DEALLOC_PD, dealloc_pd),
	CMD_OP(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain),
	CMD_OP(DEALLOC_TRANSPORT_DOMAIN, dealloc_transport_domain),
	CMD_OP(ALLOC_XRCD, alloc_xrcd),
	CMD_OP(DEALLOC_XRCD, dealloc_xrcd),
	{ },
};
