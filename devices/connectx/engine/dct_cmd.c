// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * CREATE_DCT, DRAIN_DCT, DESTROY_DCT and QUERY_DCT (layouts from mlx5_ifc.h: dctc; as
 * mlx5_ib's qp.c and qpc.c use them).
 *
 * The driver creates a DCT when its user moves it to RTR, with all attributes at once, and
 * nothing changes them later.  Before it destroys one it drains it, and waits for the event
 * that no connection is left: here that is so when DRAIN_DCT returns.
 *
 * A DCT has a number among the QPs, but the commands of QPs do not find it, nor those of
 * DCTs a QP.  One of a process names only objects of this process (uid).
 */
#include "cmd.h"
#include "cq.h"
#include "dct.h"
#include "eq.h"
#include "hca.h"
#include "ifc.h"
#include "list.h"
#include "qp.h"
#include "srq.h"
#include "table.h"
#include "wqe.h"

#define EVENT_DRAINED MLX5_EVENT_TYPE_CODING_DCT_ALL_CONNECTIONS_CLOSED

static struct qp *dct_of_cmd(struct hca *hca, const struct cmd *cmd, uint32_t number)
{
	struct qp *qp = qp_get(hca, number);

	return qp && qp->dct && uid_owns(cmd->uid, qp->uid) ? qp : NULL;
}

static void read_attributes(struct qp *qp, const void *dctc)
{
	unsigned int mtu = IFC_GET(dctc, dctc, mtu);

	qp->service = QP_DCT;
	qp->state = QPS_RTR;
	qp->pd = IFC_GET(dctc, dctc, pd);
	qp->user_index = IFC_GET(dctc, dctc, user_index);
	qp->privileged = IFC_GET(dctc, dctc, rlky) && !qp->uid;
	qp->mtu = 128u << mtu;
	qp->min_rnr_timer = IFC_GET(dctc, dctc, min_rnr_nak);
	qp->remote_read = IFC_GET(dctc, dctc, rre);
	qp->remote_write = IFC_GET(dctc, dctc, rwe);
	qp->remote_atomic = IFC_GET(dctc, dctc, rae);
	if (IFC_GET(dctc, dctc, cs_res) == MLX5_DCTC_CS_RES_UP_TO_64B)
		qp->scatter_recv = QP_SCATTER;
	/* For answers; the rest of their path is that of the request. */
	qp->path.pkey_index = IFC_GET(dctc, dctc, pkey_index);
	qp->path.gid_index = IFC_GET(dctc, dctc, my_addr_index);
	qp->path.tclass = IFC_GET(dctc, dctc, tclass);
	qp->path.flow_label = IFC_GET(dctc, dctc, flow_label);
	qp->path.hop_limit = IFC_GET(dctc, dctc, hop_limit);
}

static const char *check_attributes(const void *dctc)
{
	unsigned int mtu = IFC_GET(dctc, dctc, mtu);

	if (IFC_GET(dctc, dctc, state) != MLX5_DCTC_STATE_ACTIVE)
		return "state";
	if (mtu < MLX5_DCTC_MTU_256_BYTES || mtu > MLX5_DCTC_MTU_4K_BYTES)
		return "mtu";
	if (IFC_GET(dctc, dctc, port) != 1)
		return "port";
	if (IFC_GET(dctc, dctc, pkey_index) >= QP_PKEYS)
		return "pkey_index";
	return NULL;
}

/* The objects that it refers to. */
static const char *read_objects(struct hca *hca, struct qp *qp, const void *dctc)
{
	if (!hca_pd_valid(hca, qp->uid, qp->pd))
		return "pd";
	qp->recv_cq = cq_of_user(hca, qp->uid, IFC_GET(dctc, dctc, cqn));
	if (!qp->recv_cq)
		return "cqn";
	qp->srq = srq_get(hca, IFC_GET(dctc, dctc, srqn_xrqn));
	if (!qp->srq || qp->srq->xrc || !uid_owns(qp->uid, qp->srq->uid))
		return "srqn";
	return NULL;
}

static enum cmd_status read_context(struct hca *hca, struct qp *qp, struct cmd *cmd)
{
	const void *dctc = IFC_PTR(create_dct_in, cmd->in, dct_context_entry);
	const char *wrong = check_attributes(dctc);

	if (wrong)
		return REFUSE(cmd, CMD_BAD_PARAM, "%s", wrong);
	qp->hca = hca;
	qp->uid = cmd->uid;
	read_attributes(qp, dctc);
	wrong = read_objects(hca, qp, dctc);
	if (wrong)
		return REFUSE(cmd, CMD_BAD_RES, "%s", wrong);
	list_init(&qp->dct->halves);
	qp->dct->key = IFC_GET64(dctc, dctc, dc_access_key);
	memcpy(qp->dct->context, dctc, sizeof(qp->dct->context));
	return CMD_OK;
}

static enum cmd_status cmd_create_dct(struct hca *hca, struct cmd *cmd)
{
	struct qp *qp = hca_alloc(hca, sizeof(*qp));
	struct dct *dct = hca_alloc(hca, sizeof(*dct));
	enum cmd_status status;
	int64_t number;

	if (!qp || !dct) {
		status = REFUSE(cmd, CMD_NO_RESOURCES, "no memory");
		goto err;
	}
	qp->dct = dct;
	status = read_context(hca, qp, cmd);
	if (status)
		goto err;
	number = table_add(&hca->qps, qp);
	if (number < 0) {
		status = REFUSE(cmd, CMD_NO_RESOURCES, "no QP number");
		goto err;
	}
	qp->number = number;
	qp->recv_cq->users++;
	qp->srq->users++;
	qp_init(qp);
	IFC_SET(create_dct_out, cmd->out, dctn, qp->number);
	cmd_says(cmd, "dctn %#x srq %#x pd %#x", qp->number, qp->srq->number, qp->pd);
	return CMD_OK;

err:
	if (dct)
		hca_free_memory(hca, dct, sizeof(*dct));
	if (qp)
		hca_free_memory(hca, qp, sizeof(*qp));
	return status;
}

static enum cmd_status cmd_drain_dct(struct hca *hca, struct cmd *cmd)
{
	struct qp *qp = dct_of_cmd(hca, cmd, IFC_GET(drain_dct_in, cmd->in, dctn));
	u8 data[28] = { 0 };		/* struct mlx5_eqe_dct: the number in byte 24 */

	if (!qp)
		return REFUSE(cmd, CMD_BAD_RES, "no such DCT");
	cmd_says(cmd, "dctn %#x, %u connections", qp->number, qp->dct->count);
	dct_drain(qp);
	put_be32(data + 24, qp->number);
	event_send(hca, EVENT_DRAINED, 0, data, sizeof(data));
	return CMD_OK;
}

static enum cmd_status cmd_destroy_dct(struct hca *hca, struct cmd *cmd)
{
	struct qp *qp = dct_of_cmd(hca, cmd, IFC_GET(destroy_dct_in, cmd->in, dctn));

	if (!qp)
		return REFUSE(cmd, CMD_BAD_RES, "no such DCT");
	cmd_says(cmd, "dctn %#x", qp->number);
	table_del(&hca->qps, qp->number);
	qp_free(qp);
	return CMD_OK;
}

static enum cmd_status cmd_query_dct(struct hca *hca, struct cmd *cmd)
{
	struct qp *qp = dct_of_cmd(hca, cmd, IFC_GET(query_dct_in, cmd->in, dctn));
	void *dctc = IFC_PTR(query_dct_out, cmd->out, dct_context_entry);

	if (!qp)
		return REFUSE(cmd, CMD_BAD_RES, "no such DCT");
	memcpy(dctc, qp->dct->context, sizeof(qp->dct->context));
	IFC_SET(dctc, dctc, rlky, qp->privileged);
	if (qp->dct->drained)
		IFC_SET(dctc, dctc, state, MLX5_DCTC_STATE_DRAINED);
	cmd_says(cmd, "dctn %#x", qp->number);
	return CMD_OK;
}

const struct cmd_op dct_ops[] = {
	CMD_OP(CREATE_DCT, create_dct),
	CMD_OP(DRAIN_DCT, drain_dct),
	CMD_OP(DESTROY_DCT, destroy_dct),
	CMD_OP(QUERY_DCT, query_dct),
	{ }
};
