// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Completions of work requests: the fields of a CQE, as the PRM ("Completion queue entry")
 * and struct mlx5_cqe64 and mlx5_err_cqe of mlx5dv.h have them.
 *
 * A driver finds the QP of a CQE by user_index (CQE version 1), or, if the index is
 * 0xffffff, by the numbers of the QP and the SRQ (version 0): kernel QPs do that.
 *
 * All of it comes from private copies; the entry is built here and given to cq_push(),
 * which alone touches guest memory.
 */
#include "cq.h"
#include "hca.h"
#include "ifc.h"
#include "qp.h"
#include "srq.h"
#include "trace.h"
#include "wqe.h"

#define CQE_VERSION_0 0xffffffu		/* a user_index that asks for it */
#define CQE_SOLICITED 2			/* of op_own */
#define CQE_GRH BIT(28)			/* of flags_rqpn: it is in the buffer */

/* What this hardware says beside the syndrome, as its users report it. */
static u8 vendor_syndrome(u8 syndrome)
{
	switch (syndrome) {
	case MLX5_CQE_SYNDROME_LOCAL_PROT_ERR: return 0x51;
	case MLX5_CQE_SYNDROME_WR_FLUSH_ERR: return 0xf9;
	case MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR: return 0x8a;
	case MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR: return 0x88;
	case MLX5_CQE_SYNDROME_REMOTE_OP_ERR: return 0x89;
	case MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR: return 0x81;
	case MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR: return 0x87;
	default: return 0;
	}
}

/* What all CQEs have; in an error CQE the byte count and the time stamp are reserved. */
static void fill(struct mlx5_cqe64 *cqe, struct qp *qp, uint32_t uidx, uint16_t index, u8 wqe_op,
		 u8 op)
{
	cqe->srqn_uidx = htobe32(uidx);
	cqe->sop_drop_qpn = htobe32((uint32_t)wqe_op << 24 | qp->number);
	cqe->wqe_counter = htobe16(index);
	cqe->op_own |= op << 4;
}

static void fill_success(struct mlx5_cqe64 *cqe, struct qp *qp, uint32_t bytes)
{
	cqe->byte_cnt = htobe32(bytes);
	cqe->timestamp = htobe64(hca_clock(qp->hca));
}

static void fill_error(struct mlx5_cqe64 *cqe, u8 syndrome)
{
	struct mlx5_err_cqe *e = (struct mlx5_err_cqe *)cqe;

	e->vendor_err_synd = vendor_syndrome(syndrome);
	e->syndrome = syndrome;
}

/* A QP whose completions get lost cannot go on (IBA, "CQ errors"). */
static void push(struct qp *qp, struct cq *cq, const struct mlx5_cqe64 *cqe, bool solicited)
{
	cq_push(cq, cqe, solicited);
	if (!cq_usable(cq))
		qp_error(qp, MLX5_EVENT_TYPE_CODING_LOCAL_WQ_CATASTROPHIC_ERROR);
}

void qp_complete_send(struct qp *qp, const struct wqe *w, u8 syndrome, uint32_t bytes)
{
	uint32_t uidx = qp->user_index == CQE_VERSION_0 ? 0 : qp->user_index;
	struct mlx5_cqe64 cqe = { 0 };

	qp->hca->stats.sends++;
	trace("qp %#x: sent wqe %u op %#x%s, syndrome %#x, %u bytes", qp->number, w->index,
	      w->opcode, w->signalled ? "" : " unsignalled", syndrome, bytes);
	if (!qp->send_cq || (!syndrome && !w->signalled))
		return;
	fill(&cqe, qp, uidx, w->index, w->opcode, syndrome ? MLX5_CQE_REQ_ERR : MLX5_CQE_REQ);
	if (syndrome)
		fill_error(&cqe, syndrome);
	else
		fill_success(&cqe, qp, bytes);
	push(qp, qp->send_cq, &cqe, syndrome);
}

/* By what the driver finds the receive queue. */
static uint32_t recv_uidx(const struct qp *qp, const struct srq *srq)
{
	uint32_t uidx = srq && srq->xrc ? srq->user_index : qp->user_index;

	if (uidx != CQE_VERSION_0)
		return uidx;
	return srq ? srq->number : 0;
}

static void fill_source(struct mlx5_cqe64 *cqe, struct qp *qp, const struct recv_completion *c)
{
	/* ml_path stays 0: the LMC is 0, so a LID has no path bits. */
	cqe->slid = htobe16(c->slid);
	cqe->flags_rqpn = htobe32((c->global ? CQE_GRH : 0) | (c->sl & 0xfu) << 24 |
				  (c->src_qp & 0xffffff));
	/*
	 * Without immediate data the dword has the P_Key.  For QP 1 the driver finds its index,
	 * with which it answers: so it is the packet's, as QP 1 takes those of the whole table.
	 */
	if (c->opcode == MLX5_CQE_RESP_SEND && qp_is_datagram(qp))
		cqe->imm_inval_pkey = htobe32(c->pkey);
}

void qp_complete_recv(struct qp *qp, const struct recv_wqe *r, struct srq *srq,
		      const struct recv_completion *c)
{
	struct cq *cq = srq && srq->xrc ? srq->cq : qp->recv_cq;
	bool in_cqe = c->inline_data && !c->syndrome && c->bytes <= qp->scatter_recv;
	struct mlx5_cqe64 cqe = { 0 };

	trace("qp %#x: received wqe %u as %u, syndrome %#x, %u bytes", qp->number, r->index,
	      c->opcode, c->syndrome, c->bytes);
	if (!cq)
		return;
	if (c->syndrome) {
		fill_error(&cqe, c->syndrome);
	} else {
		cqe.imm_inval_pkey = htobe32(c->imm_inval);
		fill_source(&cqe, qp, c);
		fill_success(&cqe, qp, c->bytes);
		cqe.op_own |= c->solicited ? CQE_SOLICITED : 0;
	}
	if (in_cqe) {		/* over the source, of which a connection has no need */
		memcpy(&cqe, c->inline_data, c->bytes);
		cqe.op_own |= MLX5_INLINE_SCATTER_32;
	}
	fill(&cqe, qp, recv_uidx(qp, srq), r->index, 0,
	     c->syndrome ? MLX5_CQE_RESP_ERR : c->opcode);
	push(qp, cq, &cqe, c->solicited || c->syndrome);
}
