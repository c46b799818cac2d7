// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The commands of shared receive queues: the RMP (receive memory pool), which is what the
 * driver makes of a basic SRQ, and the XRC SRQ (mlx5_ifc.h: rmpc with its wq, xrc_srqc).
 *
 * Both have numbers of one table, because the driver looks for the SRQ of an event by its
 * number alone.  A command for one kind does not find the other kind.
 *
 * What CREATE accepts keeps srq_take() inside the buffer: the stride is a power of two up
 * to RECV_WQE_MAX, and the list of pages, or the umem, covers size times stride.
 */
#include "cmd.h"
#include "cq.h"
#include "dma.h"
#include "hca.h"
#include "ifc.h"
#include "queue.h"
#include "srq.h"
#include "table.h"

#define SRQ_MIN_STRIDE 32		/* a link and one data segment */

static struct srq *srq_of_kind(struct hca *hca, const struct cmd *cmd, uint32_t number,
			       bool xrc)
{
	struct srq *srq = srq_get(hca, number);

	return srq && srq->xrc == xrc && uid_owns(cmd->uid, srq->uid) ? srq : NULL;
}

/* Where the memory of a new SRQ is: in pages that the command lists, or in umems. */
struct srq_memory {
	size_t fixed;			/* of the command, before the list */
	unsigned int log_page, page_offset;
	bool buffer_in_umem, doorbell_in_umem;
	uint32_t buffer, doorbell;	/* the umems */
	uint64_t offset;		/* in that of the buffer */
};

static void srq_unmap(struct srq *srq)
{
	queue_buf_free(srq->hca, &srq->buf);
	umem_put(&srq->umems);
}

static enum cmd_status srq_map(struct srq *srq, struct cmd *cmd, const struct srq_memory *m)
{
	uint64_t bytes = (uint64_t)srq->stride << srq->log_size;
	enum cmd_status status;

	if (m->buffer_in_umem)
		status = umem_buffer(srq->hca, cmd, &srq->umems, m->buffer, m->offset, bytes, false,
				     &srq->buf);
	else
		status = queue_buf_init(srq->hca, cmd, &srq->buf, m->fixed, m->log_page,
					m->page_offset, bytes);
	if (status || !m->doorbell_in_umem)
		return status;
	status = umem_doorbell(srq->hca, cmd, &srq->umems, m->doorbell, &srq->doorbell);
	if (status)
		srq_unmap(srq);
	return status;
}

static void srq_free(struct srq *srq)
{
	if (srq->cq)
		srq->cq->users--;
	srq_unmap(srq);
	hca_free_memory(srq->hca, srq, sizeof(*srq));
}

static void srq_free_one(void *arg, void *object)
{
	srq_free(object);
}

void srq_reset(struct hca *hca)
{
	table_clear(&hca->srqs, srq_free_one, NULL);
}

/* What both kinds have in common. */
static enum cmd_status srq_check(const struct srq *srq, struct cmd *cmd)
{
	if (srq->log_size > HCA_LOG_MAX_WQ)
		return REFUSE(cmd, CMD_BAD_PARAM, "log size %u", srq->log_size);
	if (srq->stride < SRQ_MIN_STRIDE || srq->stride > RECV_WQE_MAX)
		return REFUSE(cmd, CMD_BAD_PARAM, "stride %u", srq->stride);
	if (srq->limit > 1u << srq->log_size)
		return REFUSE(cmd, CMD_BAD_PARAM, "limit %u", srq->limit);
	if (srq->doorbell & 3)
		return REFUSE(cmd, CMD_BAD_PARAM, "doorbell record at %#llx",
			      (unsigned long long)srq->doorbell);
	if (!hca_pd_valid(srq->hca, srq->uid, srq->pd))
		return REFUSE(cmd, CMD_BAD_RES, "no PD %#x", srq->pd);
	return CMD_OK;
}

/* A copy of TEMPLATE with a number and its memory. */
static enum cmd_status srq_create(struct cmd *cmd, const struct srq *template,
				  const struct srq_memory *memory, struct srq **created)
{
	struct hca *hca = template->hca;
	enum cmd_status status = srq_check(template, cmd);
	struct srq *srq;
	int64_t number;

	if (status)
		return status;
	srq = hca_alloc(hca, sizeof(*srq));
	if (!srq)
		return REFUSE(cmd, CMD_NO_RESOURCES, "no memory for an SRQ");
	*srq = *template;
	status = srq_map(srq, cmd, memory);
	if (status)
		goto free_srq;
	number = table_add(&hca->srqs, srq);
	if (number < 0) {
		status = REFUSE(cmd, CMD_NO_RESOURCES, "no number for an SRQ");
		goto unmap;
	}
	srq->number = number;
	if (srq->cq)
		srq->cq->users++;
	cmd_says(cmd, "SRQ %#x, %u WQEs of %u, PD %#x", srq->number, 1u << srq->log_size,
		 srq->stride, srq->pd);
	*created = srq;
	return CMD_OK;

unmap:
	srq_unmap(srq);
free_srq:
	hca_free_memory(hca, srq, sizeof(*srq));
	return status;
}

static enum cmd_status srq_destroy(struct hca *hca, struct cmd *cmd, uint32_t number, bool xrc)
{
	struct srq *srq = srq_of_kind(hca, cmd, number, xrc);

	if (!srq)
		return REFUSE(cmd, CMD_BAD_RES, "no SRQ %#x", number);
	if (srq->users)
		return REFUSE(cmd, CMD_BAD_RES_STATE, "SRQ %#x has %u QPs", number, srq->users);
	hca->srq_gone(srq);
	table_del(&hca->srqs, number);
	srq_free(srq);
	cmd_says(cmd, "SRQ %#x", number);
	return CMD_OK;
}

/* LIMIT 0 takes the arm back. */
static enum cmd_status srq_arm(struct srq *srq, struct cmd *cmd, uint32_t limit)
{
	if (srq->error)
		return REFUSE(cmd, CMD_BAD_RES_STATE, "SRQ %#x is in error", srq->number);
	if (limit > 1u << srq->log_size)
		return REFUSE(cmd, CMD_BAD_PARAM, "limit %u", limit);
	srq->limit = limit;
	cmd_says(cmd, "SRQ %#x, limit %u", srq->number, limit);
	return CMD_OK;
}

/* How many are posted; 0 if the guest's counter makes no sense. */
static uint16_t srq_posted(const struct srq *srq)
{
	uint32_t counter;
	uint16_t posted;

	if (srq->error || dma_load_be32(srq->hca->dma, srq->doorbell, &counter))
		return 0;
	posted = counter - srq->taken;
	return posted > 1u << srq->log_size ? 0 : posted;
}

/*
 * A cyclic RMP has its WQEs in order.  They may have the segment of a link all the same, which
 * is then not looked at (UCX), or be bare data segments.  The other kinds are for packets.
 */
static enum cmd_status rmp_check(struct cmd *cmd, const void *rmpc, const void *wq)
{
	uint32_t type = IFC_GET(wq, wq, wq_type);
	bool bare = IFC_GET(rmpc, rmpc, basic_cyclic_rcv_wqe);

	if (IFC_GET(rmpc, rmpc, state) != MLX5_RMPC_STATE_RDY)
		return REFUSE(cmd, CMD_BAD_PARAM, "state %u", IFC_GET(rmpc, rmpc, state));
	if (type != MLX5_WQ_TYPE_CYCLIC && (type != MLX5_WQ_TYPE_LINKED_LIST || bare))
		return REFUSE(cmd, CMD_BAD_PARAM, "work queue of type %u", type);
	return CMD_OK;
}

static enum cmd_status cmd_create_rmp(struct hca *hca, struct cmd *cmd)
{
	const void *rmpc = IFC_PTR(create_rmp_in, cmd->in, ctx);
	const void *wq = IFC_PTR(rmpc, rmpc, wq);
	struct srq template = {
		.hca = hca,
		.uid = cmd->uid,
		.cyclic = IFC_GET(wq, wq, wq_type) == MLX5_WQ_TYPE_CYCLIC,
		.bare = IFC_GET(rmpc, rmpc, basic_cyclic_rcv_wqe),
		.log_size = IFC_GET(wq, wq, log_wq_sz),
		.stride = 1u << IFC_GET(wq, wq, log_wq_stride),
		.doorbell = IFC_GET64(wq, wq, dbr_addr),
		.pd = IFC_GET(wq, wq, pd),
		.limit = IFC_GET(wq, wq, lwm),
	};
	const struct srq_memory memory = {
		.fixed = IFC_BYTES(create_rmp_in),
		.log_page = IFC_GET(wq, wq, log_wq_pg_sz),
		.page_offset = IFC_GET(wq, wq, page_offset),
		.buffer_in_umem = IFC_GET(wq, wq, wq_umem_valid),
		.doorbell_in_umem = IFC_GET(wq, wq, dbr_umem_valid),
		.buffer = IFC_GET(wq, wq, wq_umem_id),
		.doorbell = IFC_GET(wq, wq, dbr_umem_id),
		.offset = IFC_GET64(wq, wq, wq_umem_offset),
	};
	enum cmd_status status = rmp_check(cmd, rmpc, wq);
	struct srq *srq;

	if (status)
		return status;
	memcpy(template.context, rmpc, IFC_BYTES(rmpc));
	status = srq_create(cmd, &template, &memory, &srq);
	if (!status)
		IFC_SET(create_rmp_out, cmd->out, rmpn, srq->number);
	return status;
}

static enum cmd_status cmd_destroy_rmp(struct hca *hca, struct cmd *cmd)
{
	return srq_destroy(hca, cmd, IFC_GET(destroy_rmp_in, cmd->in, rmpn), false);
}

/* The one thing that can change is the limit. */
static enum cmd_status cmd_modify_rmp(struct hca *hca, struct cmd *cmd)
{
	const void *rmpc = IFC_PTR(modify_rmp_in, cmd->in, ctx);
	const void *mask = IFC_PTR(modify_rmp_in, cmd->in, bitmask);
	uint32_t number = IFC_GET(modify_rmp_in, cmd->in, rmpn);
	struct srq *srq = srq_of_kind(hca, cmd, number, false);

	if (!srq)
		return REFUSE(cmd, CMD_BAD_RES, "no RMP %#x", number);
	if (IFC_GET(modify_rmp_in, cmd->in, rmp_state) != MLX5_RMPC_STATE_RDY ||
	    IFC_GET(rmpc, rmpc, state) != MLX5_RMPC_STATE_RDY)
		return REFUSE(cmd, CMD_BAD_PARAM, "state %u to %u",
			      IFC_GET(modify_rmp_in, cmd->in, rmp_state),
			      IFC_GET(rmpc, rmpc, state));
	if (!IFC_GET(rmp_bitmask, mask, lwm))
		return CMD_OK;
	return srq_arm(srq, cmd, IFC_GET(wq, IFC_PTR(rmpc, rmpc, wq), lwm));
}

static enum cmd_status cmd_query_rmp(struct hca *hca, struct cmd *cmd)
{
	uint32_t number = IFC_GET(query_rmp_in, cmd->in, rmpn);
	void *rmpc = IFC_PTR(query_rmp_out, cmd->out, rmp_context);
	void *wq = IFC_PTR(rmpc, rmpc, wq);
	struct srq *srq = srq_of_kind(hca, cmd, number, false);

	if (!srq)
		return REFUSE(cmd, CMD_BAD_RES, "no RMP %#x", number);
	memcpy(rmpc, srq->context, IFC_BYTES(rmpc));
	IFC_SET(rmpc, rmpc, state, srq->error ? MLX5_RMPC_STATE_ERR : MLX5_RMPC_STATE_RDY);
	IFC_SET(wq, wq, lwm, srq->limit);
	IFC_SET(wq, wq, hw_counter, srq->taken);
	IFC_SET(wq, wq, sw_counter, (uint16_t)(srq->taken + srq_posted(srq)));
	cmd_says(cmd, "RMP %#x", number);
	return CMD_OK;
}

static enum cmd_status xrc_check(struct hca *hca, struct cmd *cmd, const void *xrc)
{
	uint32_t xrcd = IFC_GET(xrc_srqc, xrc, xrcd);

	if (IFC_GET(xrc_srqc, xrc, cont_srq) || IFC_GET(xrc_srqc, xrc, basic_cyclic_rcv_wqe) ||
	    IFC_GET(xrc_srqc, xrc, rlky) || IFC_GET(xrc_srqc, xrc, dbr_umem_valid) ||
	    IFC_GET(create_xrc_srq_in, cmd->in, xrc_srq_umem_valid))
		return REFUSE(cmd, CMD_BAD_PARAM, "an XRC SRQ of a kind that is not offered");
	if (!hca_xrcd_valid(hca, cmd->uid, xrcd) && !hca_xrcd_of_driver(hca, xrcd))
		return REFUSE(cmd, CMD_BAD_RES, "no XRCD %#x", xrcd);
	if (!cq_of_user(hca, cmd->uid, IFC_GET(xrc_srqc, xrc, cqn)))
		return REFUSE(cmd, CMD_BAD_RES, "no CQ %#x", IFC_GET(xrc_srqc, xrc, cqn));
	return CMD_OK;
}

static enum cmd_status cmd_create_xrc_srq(struct hca *hca, struct cmd *cmd)
{
	const void *xrc = IFC_PTR(create_xrc_srq_in, cmd->in, xrc_srq_context_entry);
	struct srq template = {
		.hca = hca,
		.uid = cmd->uid,
		.xrc = true,
		.log_size = IFC_GET(xrc_srqc, xrc, log_xrc_srq_size),
		.stride = 16u << IFC_GET(xrc_srqc, xrc, log_rq_stride),
		.doorbell = (uint64_t)IFC_GET(xrc_srqc, xrc, db_record_addr_h) << 32 |
			    (uint64_t)IFC_GET(xrc_srqc, xrc, db_record_addr_l) << 2,
		.pd = IFC_GET(xrc_srqc, xrc, pd),
		.xrcd = IFC_GET(xrc_srqc, xrc, xrcd),
		.user_index = IFC_GET(xrc_srqc, xrc, user_index),
		.cq = cq_of_user(hca, cmd->uid, IFC_GET(xrc_srqc, xrc, cqn)),
		.limit = IFC_GET(xrc_srqc, xrc, lwm),
	};
	const struct srq_memory memory = {
		.fixed = IFC_BYTES(create_xrc_srq_in),
		.log_page = IFC_GET(xrc_srqc, xrc, log_page_size),
		.page_offset = IFC_GET(xrc_srqc, xrc, page_offset),
	};
	enum cmd_status status = xrc_check(hca, cmd, xrc);
	struct srq *srq;

	if (status)
		return status;
	memcpy(template.context, xrc, IFC_BYTES(xrc_srqc));
	status = srq_create(cmd, &template, &memory, &srq);
	if (status)
		return status;
	if (IFC_GET(xrc_srqc, xrc, user_index_equal_xrc_srqn)) {
		srq->user_index = srq->number;
		IFC_SET(xrc_srqc, srq->context, user_index, srq->number);
	}
	IFC_SET(create_xrc_srq_out, cmd->out, xrc_srqn, srq->number);
	return CMD_OK;
}

static enum cmd_status cmd_destroy_xrc_srq(struct hca *hca, struct cmd *cmd)
{
	return srq_destroy(hca, cmd, IFC_GET(destroy_xrc_srq_in, cmd->in, xrc_srqn), true);
}

static enum cmd_status cmd_arm_xrc_srq(struct hca *hca, struct cmd *cmd)
{
	uint32_t number = IFC_GET(arm_xrc_srq_in, cmd->in, xrc_srqn);
	struct srq *srq = srq_of_kind(hca, cmd, number, true);

	if (!srq)
		return REFUSE(cmd, CMD_BAD_RES, "no XRC SRQ %#x", number);
	if (cmd->op_mod != MLX5_ARM_XRC_SRQ_IN_OP_MOD_XRC_SRQ)
		return REFUSE(cmd, CMD_BAD_PARAM, "op_mod %#x", cmd->op_mod);
	return srq_arm(srq, cmd, IFC_GET(arm_xrc_srq_in, cmd->in, lwm));
}

static enum cmd_status cmd_query_xrc_srq(struct hca *hca, struct cmd *cmd)
{
	uint32_t number = IFC_GET(query_xrc_srq_in, cmd->in, xrc_srqn);
	void *xrc = IFC_PTR(query_xrc_srq_out, cmd->out, xrc_srq_context_entry);
	struct srq *srq = srq_of_kind(hca, cmd, number, true);

	if (!srq)
		return REFUSE(cmd, CMD_BAD_RES, "no XRC SRQ %#x", number);
	memcpy(xrc, srq->context, IFC_BYTES(xrc_srqc));
	IFC_SET(xrc_srqc, xrc, state,
		srq->error ? MLX5_XRC_SRQC_STATE_ERROR : MLX5_XRC_SRQC_STATE_GOOD);
	IFC_SET(xrc_srqc, xrc, lwm, srq->limit);
	IFC_SET(xrc_srqc, xrc, wqe_cnt, srq_posted(srq));
	cmd_says(cmd, "XRC SRQ %#x", number);
	return CMD_OK;
}

const struct cmd_op srq_ops[] = {
	CMD_OP(CREATE_RMP, create_rmp),
	CMD_OP(DESTROY_RMP, destroy_rmp),
	CMD_OP(MODIFY_RMP, modify_rmp),
	CMD_OP(QUERY_RMP, query_rmp),
	CMD_OP(CREATE_XRC_SRQ, create_xrc_srq),
	CMD_OP(DESTROY_XRC_SRQ, destroy_xrc_srq),
	CMD_OP(ARM_XRC_SRQ, arm_xrc_srq),
	CMD_OP(QUERY_XRC_SRQ, query_xrc_srq),
	{ }
};
