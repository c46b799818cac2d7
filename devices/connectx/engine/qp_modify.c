// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The states of a QP, and the commands that change them (IBA 10.3.1; PRM, "QP states" and
 * the tables of the MODIFY commands; opcodes and layouts from mlx5_ifc.h).
 *
 * A transition takes some attributes from its context by itself, those that IBA requires,
 * and others only if opt_param_mask names them.  All attributes live in qp->context, at
 * the place that QUERY_QP returns; the fields of struct qp are read from it.
 *
 * A transition builds a new context beside the old one, checks it, and puts it in place
 * only then: a command that is refused has changed nothing.
 */
#include "cmd.h"
#include "hca.h"
#include "ifc.h"
#include "qp.h"
#include "wqe.h"

#define PM_MIGRATED 3			/* there is no path migration: always this */

/* The bits of opt_param_mask, and, above them, what has none: attributes to take. */
enum {
	RRE = 1 << 1, RAE = 1 << 2, RWE = 1 << 3, PKEY_INDEX = 1 << 4, Q_KEY = 1 << 5,
	RNR_TIMEOUT = 1 << 6, PRIMARY_PATH = 1 << 7, SRA_MAX = 1 << 8, RRA_MAX = 1 << 9,
	PM_STATE = 1 << 10, RETRY_COUNT = 1 << 12, RNR_RETRY = 1 << 13,
	ACK_TIMEOUT = 1 << 14, PRI_PORT = 1 << 16, DC_KEY = 1 << 21,
	MTU = 1 << 27, REMOTE_QPN = 1 << 28, RCV_PSN = 1 << 29, SEND_PSN = 1 << 30,
	ACCESS = RRE | RAE | RWE,
};

struct attribute {
	uint32_t take;
	uint16_t bit, width;
};

#define FIELD(take_, field) { take_, IFC_BIT(qpc, field), IFC_WIDTH(qpc, field) }
#define PATH(field) FIELD(PRIMARY_PATH, primary_address_path.field)
#define KEY(n) { DC_KEY, IFC_BIT(qpc, dc_access_key) + 32 * (n), 32 }
#define GID(n) { PRIMARY_PATH, IFC_BIT(qpc, primary_address_path.rgid_rip) + 32 * (n), 32 }

static const struct attribute attributes[] = {
	FIELD(RRE, rre), FIELD(RAE, rae), FIELD(RAE, atomic_mode), FIELD(RWE, rwe),
	FIELD(PKEY_INDEX, primary_address_path.pkey_index),
	FIELD(Q_KEY, q_key),
	FIELD(RNR_TIMEOUT, min_rnr_nak),
	PATH(fl), PATH(free_ar), PATH(grh), PATH(mlid), PATH(rlid), PATH(src_addr_index),
	PATH(stat_rate), PATH(hop_limit), PATH(tclass), PATH(flow_label), PATH(sl),
	GID(0), GID(1), GID(2), GID(3),
	FIELD(SRA_MAX, log_sra_max),
	FIELD(RRA_MAX, log_rra_max),
	FIELD(RETRY_COUNT, retry_count),
	FIELD(RNR_RETRY, rnr_retry),
	FIELD(ACK_TIMEOUT, primary_address_path.ack_timeout),
	FIELD(PRI_PORT, primary_address_path.vhca_port_num),
	KEY(0), KEY(1),			/* of no use: each work request has one */
	FIELD(MTU, mtu), FIELD(MTU, log_msg_max),
	FIELD(REMOTE_QPN, remote_qpn),
	FIELD(RCV_PSN, next_rcv_psn),
	FIELD(SEND_PSN, next_send_psn), FIELD(SEND_PSN, log_ack_req_freq),
};

#define ATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]))

/*
 * By service: connected and reliable, connected, datagrams, UMR, which sends nothing, and
 * DC initiators, whose work requests have the path.
 */
enum kind { RC, UC, UD, UMR, DCI, KINDS };

struct transition {
	uint16_t op;
	u8 from, to;
	uint32_t takes[KINDS], may_take[KINDS];
};

static const struct transition transitions[] = {
	{ MLX5_CMD_OP_RST2INIT_QP, QPS_RESET, QPS_INIT,
	  .takes = { [RC] = PKEY_INDEX | PRI_PORT | ACCESS, [UC] = PKEY_INDEX | PRI_PORT | RWE,
		     [UD] = PKEY_INDEX | PRI_PORT | Q_KEY, [UMR] = PKEY_INDEX | PRI_PORT,
		     [DCI] = PKEY_INDEX | PRI_PORT } },
	{ MLX5_CMD_OP_INIT2INIT_QP, QPS_INIT, QPS_INIT,
	  .may_take = { [RC] = PKEY_INDEX | PRI_PORT | ACCESS, [UC] = PKEY_INDEX | PRI_PORT | RWE,
			[UD] = PKEY_INDEX | PRI_PORT | Q_KEY,
			[DCI] = PKEY_INDEX | PRI_PORT | DC_KEY | RAE } },
	{ MLX5_CMD_OP_INIT2RTR_QP, QPS_INIT, QPS_RTR,
	  .takes = { [RC] = PRIMARY_PATH | MTU | REMOTE_QPN | RCV_PSN | RRA_MAX | RNR_TIMEOUT,
		     [UC] = PRIMARY_PATH | MTU | REMOTE_QPN | RCV_PSN, [UD] = MTU, [UMR] = MTU,
		     [DCI] = MTU },
	  .may_take = { [RC] = PKEY_INDEX | ACCESS, [UC] = PKEY_INDEX | RWE,
			[UD] = PKEY_INDEX | Q_KEY, [DCI] = PKEY_INDEX | DC_KEY | RAE } },
	{ MLX5_CMD_OP_RTR2RTS_QP, QPS_RTR, QPS_RTS,
	  .takes = { [RC] = SEND_PSN | ACK_TIMEOUT | RETRY_COUNT | RNR_RETRY | SRA_MAX,
		     [UC] = SEND_PSN, [UD] = SEND_PSN,
		     [DCI] = SEND_PSN | ACK_TIMEOUT | RETRY_COUNT | RNR_RETRY | SRA_MAX },
	  .may_take = { [RC] = ACCESS | RNR_TIMEOUT | PM_STATE, [UC] = RWE | PM_STATE,
			[UD] = Q_KEY, [DCI] = RNR_TIMEOUT | PM_STATE | DC_KEY | RAE } },
	{ MLX5_CMD_OP_RTS2RTS_QP, QPS_RTS, QPS_RTS,
	  .may_take = { [RC] = ACCESS | RNR_TIMEOUT | PM_STATE, [UC] = RWE | PM_STATE,
			[UD] = Q_KEY, [DCI] = RNR_TIMEOUT | PM_STATE | DC_KEY | RAE } },
	{ MLX5_CMD_OP_SQERR2RTS_QP, QPS_SQER, QPS_RTS,
	  .may_take = { [UC] = RWE, [UD] = Q_KEY } },
};

#define TRANSITIONS (sizeof(transitions) / sizeof(transitions[0]))

static enum kind kind_of(const struct qp *qp)
{
	switch (qp->service) {
	case QP_UC: return UC;
	case QP_UD:
	case QP_GSI:
	case QP_SMI: return UD;
	case QP_REG_UMR: return UMR;
	case QP_DCI: return DCI;
	default: return RC;
	}
}

struct qp *qp_of_cmd(struct hca *hca, const struct cmd *cmd, uint32_t number)
{
	struct qp *qp = qp_get(hca, number);

	return qp && !qp->dct && uid_owns(cmd->uid, qp->uid) ? qp : NULL;
}

static void read_path(struct qp_path *path, const void *ads)
{
	path->rlid = IFC_GET(ads, ads, rlid);
	path->sl = IFC_GET(ads, ads, sl);
	path->path_bits = IFC_GET(ads, ads, mlid);
	path->port = IFC_GET(ads, ads, vhca_port_num);
	path->pkey_index = IFC_GET(ads, ads, pkey_index);
	path->global = IFC_GET(ads, ads, grh);
	path->tclass = IFC_GET(ads, ads, tclass);
	path->hop_limit = IFC_GET(ads, ads, hop_limit);
	path->gid_index = IFC_GET(ads, ads, src_addr_index);
	path->flow_label = IFC_GET(ads, ads, flow_label);
	memcpy(path->dgid, IFC_PTR(ads, ads, rgid_rip), sizeof(path->dgid));
}

/* The fields that the transport reads, from the context. */
static void read_attributes(struct qp *qp)
{
	const void *qpc = qp->context;
	unsigned int mtu = IFC_GET(qpc, qpc, mtu);

	read_path(&qp->path, IFC_PTR(qpc, qpc, primary_address_path));
	qp->remote_qpn = IFC_GET(qpc, qpc, remote_qpn);
	qp->qkey = IFC_GET(qpc, qpc, q_key);
	qp->mtu = mtu ? 128u << mtu : 0;
	qp->retry_count = IFC_GET(qpc, qpc, retry_count);
	qp->rnr_retry = IFC_GET(qpc, qpc, rnr_retry);
	qp->min_rnr_timer = IFC_GET(qpc, qpc, min_rnr_nak);
	qp->ack_timeout = IFC_GET(qpc, qpc, primary_address_path.ack_timeout);
	qp->max_reads = 1 << IFC_GET(qpc, qpc, log_sra_max);
	qp->remote_read = IFC_GET(qpc, qpc, rre);
	qp->remote_write = IFC_GET(qpc, qpc, rwe);
	qp->remote_atomic = IFC_GET(qpc, qpc, rae);
}

void qp_clear_attributes(struct qp *qp)
{
	size_t i;

	for (i = 0; i < ATTRIBUTES; i++)
		ifc_set(qp->context, attributes[i].bit, attributes[i].width, 0);
	IFC_SET(qpc, qp->context, pm_state, PM_MIGRATED);
	read_attributes(qp);
}

/* Why the attributes TAKE of a new context make no sense, or NULL. */
static const char *check(const void *qpc, uint32_t take)
{
	unsigned int mtu = IFC_GET(qpc, qpc, mtu);

	if (take & MTU && (mtu < MLX5_QPC_MTU_256_BYTES || mtu > MLX5_QPC_MTU_4K_BYTES))
		return "mtu";
	if (take & PRI_PORT && IFC_GET(qpc, qpc, primary_address_path.vhca_port_num) != 1)
		return "port";
	if (take & PKEY_INDEX && IFC_GET(qpc, qpc, primary_address_path.pkey_index) >= QP_PKEYS)
		return "pkey_index";
	if (take & SRA_MAX && 1u << IFC_GET(qpc, qpc, log_sra_max) > QP_READS)
		return "log_sra_max";
	if (take & RRA_MAX && 1u << IFC_GET(qpc, qpc, log_rra_max) > QP_READS)
		return "log_rra_max";
	if (take & PM_STATE && IFC_GET(qpc, qpc, pm_state) != PM_MIGRATED)
		return "pm_state";
	return NULL;
}

/* What a transition does beside the attributes. */
static void enter(struct qp *qp, enum qp_state from, enum qp_state to, uint32_t take)
{
	if (from == QPS_SQER)
		qp_finish_flush(qp);
	if (take & RCV_PSN) {
		qp->resp.psn = IFC_GET(qpc, qp->context, next_rcv_psn);
		qp->resp.msn = 0;
	}
	if (take & SEND_PSN) {
		/* All three: with another acked_psn something would seem to be in flight. */
		qp->req.psn = IFC_GET(qpc, qp->context, next_send_psn);
		qp->req.sent_psn = qp->req.acked_psn = qp->req.psn;
		qp->req.retries = qp->retry_count;
		qp->req.rnr_retries = qp->rnr_retry;
	}
	qp->state = to;
	if (to == QPS_RTS && from != QPS_RTS)
		qp_start_sends(qp, -1);
}

static enum cmd_status attributes_take(struct qp *qp, const struct transition *t,
				       struct cmd *cmd)
{
	const void *from = IFC_PTR(rst2init_qp_in, cmd->in, qpc);
	uint32_t mask = IFC_GET(rst2init_qp_in, cmd->in, opt_param_mask), take;
	enum kind kind = kind_of(qp);
	u8 qpc[IFC_BYTES(qpc)];
	const char *wrong;
	size_t i;

	if (qp->state != t->from)
		return REFUSE(cmd, CMD_BAD_QP_STATE, "state");
	if (mask & ~t->may_take[kind])
		return REFUSE(cmd, CMD_BAD_PARAM, "opt_param_mask");
	take = t->takes[kind] | mask;
	wrong = check(from, take);
	if (wrong)
		return REFUSE(cmd, CMD_BAD_PARAM, "%s", wrong);

	memcpy(qpc, qp->context, sizeof(qpc));
	for (i = 0; i < ATTRIBUTES; i++) {
		const struct attribute *a = &attributes[i];

		if (take & a->take)
			ifc_set(qpc, a->bit, a->width, ifc_get(from, a->bit, a->width));
	}
	memcpy(qp->context, qpc, sizeof(qpc));
	read_attributes(qp);
	cmd_says(cmd, "qpn %#x to state %d mask %#x remote %#x lid %u", qp->number, t->to, mask,
		 qp->remote_qpn, qp->path.rlid);
	enter(qp, t->from, t->to, take);
	return CMD_OK;
}

enum cmd_status cmd_modify_qp(struct hca *hca, struct cmd *cmd)
{
	struct qp *qp = qp_of_cmd(hca, cmd, IFC_GET(rst2init_qp_in, cmd->in, qpn));
	size_t i;

	if (!qp)
		return REFUSE(cmd, CMD_BAD_RES, "no such QP");
	cmd_says(cmd, "qpn %#x", qp->number);
	switch (cmd->op) {
	case MLX5_CMD_OP_2ERR_QP:
		/* In the error state already: look at once for what was posted since. */
		if (qp->state == QPS_ERR)
			qp_flush(qp);
		else
			qp_error(qp, 0);
		return CMD_OK;
	case MLX5_CMD_OP_2RST_QP:
		dci_close(qp);
		qp_stop(qp);
		qp_clear_attributes(qp);
		qp->state = QPS_RESET;
		return CMD_OK;
	}
	for (i = 0; i < TRANSITIONS; i++)
		if (transitions[i].op == cmd->op)
			return attributes_take(qp, &transitions[i], cmd);
	return CMD_BAD_OP;
}
