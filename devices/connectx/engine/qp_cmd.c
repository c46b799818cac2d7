// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * CREATE_QP, DESTROY_QP, QUERY_QP, and the table of all commands about QPs (PRM, "QP
 * commands"; layouts from mlx5_ifc.h).
 *
 * CREATE_QP says the service, the queues, and the objects that the QP uses.  Everything is
 * checked before anything is allocated or counted.  From then on the QP counts as a user of
 * its CQs and its SRQ, which therefore outlive it.
 *
 * A kernel QP has the reserved lkey enabled (rlky) and no user id; only such a QP may be
 * one of the special ones: SMI, GSI, and the one that UMR goes through.
 *
 * A QP of a process names only objects of this process (uid).  Its queues may be in umems.
 *
 * What the capabilities do not offer is refused here: tag matching, cross-channel, IPoIB
 * offloads, and services that the enum in wqe.h does not have.
 */
#include "cmd.h"
#include "cq.h"
#include "devx.h"
#include "hca.h"
#include "ifc.h"
#include "qp.h"
#include "queue.h"
#include "srq.h"
#include "table.h"
#include "wqe.h"

/* rq_type and cs_res of the QPC: from the PRM, mlx5_ifc.h names no values. */
enum { RQ_OWN = 0, RQ_SHARED = 1, RQ_NONE = 3 };
enum { RES_SCATTER_32 = 1, RES_SCATTER_64 = 2 };

/* The service of a QPC, or -1. */
static int service_of(const void *qpc)
{
	switch (IFC_GET(qpc, qpc, st)) {
	case MLX5_QPC_ST_RC: return QP_RC;
	case MLX5_QPC_ST_UC: return QP_UC;
	case MLX5_QPC_ST_UD: return QP_UD;
	case MLX5_QPC_ST_XRC: return IFC_GET(qpc, qpc, no_sq) ? QP_XRC_TGT : QP_XRC_INI;
	case MLX5_QPC_ST_DCI: return QP_DCI;
	case MLX5_QPC_ST_QP0: return QP_SMI;
	case MLX5_QPC_ST_QP1: return QP_GSI;
	case MLX5_QPC_ST_REG_UMR: return QP_REG_UMR;
	default: return -1;
	}
}

static bool is_special(enum qp_service service)
{
	return service == QP_SMI || service == QP_GSI || service == QP_REG_UMR;
}

static bool is_xrc(enum qp_service service)
{
	return service == QP_XRC_INI || service == QP_XRC_TGT;
}

/* The port has one QP0 and one QP1: where it keeps this one, or NULL. */
static struct qp **special_of(struct hca *hca, enum qp_service service)
{
	return service == QP_SMI ? &hca->special[0] :
	       service == QP_GSI ? &hca->special[1] : NULL;
}

static const char *check_unsupported(const void *in, const void *qpc)
{
	if (IFC_GET(create_qp_in, in, qpc_ext))
		return "qpc_ext";
	if (IFC_GET(qpc, qpc, ulp_stateless_offload_mode) || IFC_GET(qpc, qpc, offload_type))
		return "an offload";
	if (IFC_GET(qpc, qpc, cd_master) || IFC_GET(qpc, qpc, cd_slave_send) ||
	    IFC_GET(qpc, qpc, cd_slave_receive))
		return "cross-channel";
	return NULL;
}

/* The sizes of the queues; the receive queue lies first. */
static const char *read_geometry(struct qp *qp, const void *qpc)
{
	unsigned int rq_type = IFC_GET(qpc, qpc, rq_type);

	if (rq_type != RQ_OWN && rq_type != RQ_SHARED && rq_type != RQ_NONE)
		return "rq_type";
	if (is_xrc(qp->service) && rq_type != RQ_SHARED)
		return "rq_type of an XRC QP";
	if (qp->service == QP_DCI && (rq_type == RQ_OWN || IFC_GET(qpc, qpc, no_sq)))
		return "rq_type or no_sq of a DC initiator";
	if (rq_type == RQ_OWN) {
		qp->rq_size = 1u << IFC_GET(qpc, qpc, log_rq_size);
		qp->rq_stride = 16u << IFC_GET(qpc, qpc, log_rq_stride);
	}
	if (!IFC_GET(qpc, qpc, no_sq))
		qp->sq_size = 1u << IFC_GET(qpc, qpc, log_sq_size);
	if (qp->rq_size > 1u << HCA_LOG_MAX_WQ || qp->sq_size > 1u << HCA_LOG_MAX_WQ)
		return "queue size";
	if (qp->rq_stride > RECV_WQE_MAX)
		return "log_rq_stride";
	qp->sq_offset = qp->rq_size * qp->rq_stride;	/* at most 2^15 * 2^9 */

	qp->doorbell = IFC_GET64(qpc, qpc, dbr_addr);
	if (!IFC_GET(qpc, qpc, dbr_umem_valid) && (qp->rq_size || qp->sq_size) &&
	    (!qp->doorbell || qp->doorbell % 8))
		return "dbr_addr";
	return NULL;
}

/*
 * The objects that it refers to.  XRC SRQs are named by packets, not by the QPC; the SRQ and
 * the CQ for receives that the driver names for a DC initiator are never used.
 */
static const char *read_objects(struct hca *hca, struct qp *qp, const void *qpc)
{
	bool receives = qp->rq_size ||
			(IFC_GET(qpc, qpc, rq_type) == RQ_SHARED && !is_xrc(qp->service) &&
			 qp->service != QP_DCI);

	/* The driver names no PD for the UMR QP, which works for all of them. */
	if (qp->service != QP_REG_UMR && !hca_pd_valid(hca, qp->uid, qp->pd))
		return "pd";
	if (is_xrc(qp->service) && !hca_xrcd_valid(hca, qp->uid, qp->xrcd))
		return "xrcd";
	if (qp->sq_size) {
		qp->uar = hca_uar(hca, qp->uid, IFC_GET(qpc, qpc, uar_page));
		if (!qp->uar)
			return "uar_page";
		qp->send_cq = cq_of_user(hca, qp->uid, IFC_GET(qpc, qpc, cqn_snd));
		if (!qp->send_cq)
			return "cqn_snd";
	}
	if (receives) {
		qp->recv_cq = cq_of_user(hca, qp->uid, IFC_GET(qpc, qpc, cqn_rcv));
		if (!qp->recv_cq)
			return "cqn_rcv";
	}
	if (receives && !qp->rq_size) {
		qp->srq = srq_get(hca, IFC_GET(qpc, qpc, srqn_rmpn_xrqn));
		if (!qp->srq || qp->srq->xrc || !uid_owns(qp->uid, qp->srq->uid))
			return "srqn";
	}
	return NULL;
}

static enum cmd_status read_context(struct hca *hca, struct qp *qp, struct cmd *cmd)
{
	const void *qpc = IFC_PTR(create_qp_in, cmd->in, qpc);
	const char *wrong = check_unsupported(cmd->in, qpc);
	int service = service_of(qpc);
	unsigned int cs_res = IFC_GET(qpc, qpc, cs_res);

	if (wrong)
		return REFUSE(cmd, CMD_BAD_PARAM, "%s", wrong);
	if (service < 0)
		return REFUSE(cmd, CMD_BAD_PARAM, "st");
	qp->hca = hca;
	qp->service = service;
	qp->st = IFC_GET(qpc, qpc, st);
	qp->uid = cmd->uid;
	qp->privileged = IFC_GET(qpc, qpc, rlky) && !cmd->uid;
	if (is_special(service) && !qp->privileged)
		return REFUSE(cmd, CMD_BAD_PARAM, "a special QP of a user");
	if (special_of(hca, service) && *special_of(hca, service))
		return REFUSE(cmd, CMD_RES_BUSY, "the port has this QP");
	qp->pd = IFC_GET(qpc, qpc, pd);
	/* The others name one that they do not use, and so do not keep. */
	qp->xrcd = is_xrc(service) ? IFC_GET(qpc, qpc, xrcd) : 0;
	qp->user_index = IFC_GET(qpc, qpc, user_index);
	/* 64 bytes is an upper limit too: the device may scatter less. */
	if ((service == QP_RC || service == QP_UC) &&
	    (cs_res == RES_SCATTER_32 || cs_res == RES_SCATTER_64))
		qp->scatter_recv = QP_SCATTER;

	wrong = read_geometry(qp, qpc);
	if (wrong)
		return REFUSE(cmd, CMD_BAD_PARAM, "%s", wrong);
	wrong = read_objects(hca, qp, qpc);
	if (wrong)
		return REFUSE(cmd, CMD_BAD_RES, "%s", wrong);
	memcpy(qp->context, qpc, sizeof(qp->context));
	IFC_SET(qpc, qp->context, rlky, qp->privileged);
	IFC_SET(qpc, qp->context, state, QPS_RESET);
	qp_clear_attributes(qp);
	return CMD_OK;
}

static enum cmd_status map_doorbell(struct hca *hca, struct qp *qp, struct cmd *cmd)
{
	if (!IFC_GET(qpc, qp->context, dbr_umem_valid) || !(qp->rq_size || qp->sq_size))
		return CMD_OK;
	return umem_doorbell(hca, cmd, &qp->umems, be32_at(qp->context + QPC_DBR_UMEM_ID),
			     &qp->doorbell);
}

static enum cmd_status map_buffer(struct hca *hca, struct qp *qp, struct cmd *cmd)
{
	uint64_t bytes = (uint64_t)qp->sq_offset + (uint64_t)qp->sq_size * WQE_BB;

	if (!bytes)
		return CMD_OK;
	if (IFC_GET(create_qp_in, cmd->in, wq_umem_valid))
		return umem_buffer(hca, cmd, &qp->umems,
				   IFC_GET(create_qp_in, cmd->in, wq_umem_id),
				   IFC_GET64(create_qp_in, cmd->in, wq_umem_offset), bytes,
				   false, &qp->buf);
	return queue_buf_init(hca, cmd, &qp->buf, IFC_BYTES(create_qp_in),
			      IFC_GET(qpc, qp->context, log_page_size),
			      IFC_GET(qpc, qp->context, page_offset), bytes);
}

static enum cmd_status cmd_create_qp(struct hca *hca, struct cmd *cmd)
{
	struct qp *qp = hca_alloc(hca, sizeof(*qp));
	enum cmd_status status;
	int64_t number;

	if (!qp)
		return REFUSE(cmd, CMD_NO_RESOURCES, "no memory");
	status = read_context(hca, qp, cmd);
	if (status)
		goto err_qp;
	status = map_buffer(hca, qp, cmd);
	if (!status)
		status = map_doorbell(hca, qp, cmd);
	if (status)
		goto err_buffer;
	number = table_add(&hca->qps, qp);
	if (number < 0) {
		status = REFUSE(cmd, CMD_NO_RESOURCES, "no QP number");
		goto err_buffer;
	}

	qp->number = number;
	if (special_of(hca, qp->service))
		*special_of(hca, qp->service) = qp;
	if (qp->uar)
		qp->uar->users++;
	if (qp->send_cq)
		qp->send_cq->users++;
	if (qp->recv_cq)
		qp->recv_cq->users++;
	if (qp->srq)
		qp->srq->users++;
	qp_init(qp);
	IFC_SET(create_qp_out, cmd->out, qpn, qp->number);
	cmd_says(cmd, "qpn %#x st %#x rq %u x %u sq %u pd %#x%s", qp->number, qp->st,
		 qp->rq_size, qp->rq_stride, qp->sq_size, qp->pd, qp->srq ? " srq" : "");
	return CMD_OK;

err_buffer:
	queue_buf_free(hca, &qp->buf);
	umem_put(&qp->umems);
err_qp:
	hca_free_memory(hca, qp, sizeof(*qp));
	return status;
}

static enum cmd_status cmd_destroy_qp(struct hca *hca, struct cmd *cmd)
{
	struct qp *qp = qp_of_cmd(hca, cmd, IFC_GET(destroy_qp_in, cmd->in, qpn));

	if (!qp)
		return REFUSE(cmd, CMD_BAD_RES, "no such QP");
	cmd_says(cmd, "qpn %#x", qp->number);
	dci_close(qp);
	table_del(&hca->qps, qp->number);
	qp_free(qp);
	return CMD_OK;
}

static enum cmd_status cmd_query_qp(struct hca *hca, struct cmd *cmd)
{
	struct qp *qp = qp_of_cmd(hca, cmd, IFC_GET(query_qp_in, cmd->in, qpn));
	void *qpc = IFC_PTR(query_qp_out, cmd->out, qpc);
	const struct requester *r;

	if (!qp)
		return REFUSE(cmd, CMD_BAD_RES, "no such QP");
	r = &qp->req;
	memcpy(qpc, qp->context, sizeof(qp->context));
	IFC_SET(qpc, qpc, state, qp->state);
	IFC_SET(qpc, qpc, next_send_psn, r->psn);
	IFC_SET(qpc, qpc, next_rcv_psn, qp->resp.psn);
	IFC_SET(qpc, qpc, last_acked_psn,
		(r->count ? r->unacked[r->head].first_psn : r->psn) - 1);
	IFC_SET(qpc, qpc, rmsn, qp->resp.msn);
	IFC_SET(qpc, qpc, hw_sq_wqebb_counter, r->consumer);
	IFC_SET(qpc, qpc, sw_sq_wqebb_counter, r->producer);
	IFC_SET(qpc, qpc, hw_rq_counter, qp->resp.taken);
	cmd_says(cmd, "qpn %#x state %d", qp->number, qp->state);
	return CMD_OK;
}

/* All transitions that carry a context have the layout of RST2INIT. */
#define MODIFY_OP(OP, name_)						\
	{ .op = MLX5_CMD_OP_##OP, .name = #OP, .run = cmd_modify_qp,	\
	  .in_len = IFC_BYTES(name_##_in), .out_len = IFC_BYTES(name_##_out) }

const struct cmd_op qp_ops[] = {
	CMD_OP(CREATE_QP, create_qp),
	CMD_OP(DESTROY_QP, destroy_qp),
	/* What follows the context is optional, and not filled. */
	{ .op = MLX5_CMD_OP_QUERY_QP, .name = "QUERY_QP", .run = cmd_query_qp,
	  .in_len = IFC_BYTES(query_qp_in),
	  .out_len = IFC_BIT(query_qp_out, qp_pas_or_qpc_ext_and_pas) / 8 },
	MODIFY_OP(RST2INIT_QP, rst2init_qp),
	MODIFY_OP(INIT2INIT_QP, init2init_qp),
	MODIFY_OP(INIT2RTR_QP, init2rtr_qp),
	MODIFY_OP(RTR2RTS_QP, rtr2rts_qp),
	MODIFY_OP(RTS2RTS_QP, rts2rts_qp),
	MODIFY_OP(SQERR2RTS_QP, sqerr2rts_qp),
	MODIFY_OP(2ERR_QP, qp_2err),
	MODIFY_OP(2RST_QP, qp_2rst),
	{ 0 }
};
