// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Send WQEs: from the bytes in the queue to what the requester works from.
 *
 * A WQE is a control segment, then what its service needs (an XRC segment, an address
 * vector), then what its opcode needs (a remote address, the operands of an atomic), then
 * data segments, pointers or inline.  The layouts are mlx5_wqe_*_seg of mlx5dv.h, and for
 * masked atomics the PRM's extended atomics.
 *
 * All of it is written by user space.  A cursor gives out the bytes of the private copy,
 * and what goes beyond w->size is refused, so nothing outside of bytes[] is ever read.
 * Nothing here depends on the state of a QP: parsing the same bytes again gives the same.
 */
#include "wqe.h"

#define CTRL_DS 0x3f
#define CTRL_FENCE 0xe0			/* of fm_ce_se */
#define CTRL_SIGNALLED 8		/* 2: a CQE always, 3: and an event; 0, 1: for an error */
#define AV_GRH BIT(30)			/* of grh_gid_fl */
#define INLINE_MAX 0x3ffu
#define LENGTH_2G 0x80000000u		/* what a pointer of length 0 means (PRM) */
#define ATOMIC_BYTES 8
#define OPMOD_EXTENDED_8 9		/* 8 | log2(size) - 2: the only size that is offered */

struct cursor {
	const u8 *next;
	size_t left;
};

static const void *take(struct cursor *c, size_t len)
{
	const void *p = c->next;

	if (len > c->left)
		return NULL;
	c->next += len;
	c->left -= len;
	return p;
}

#define OP(name) BIT_ULL(MLX5_OPCODE_##name)
#define OPS_SEND (OP(NOP) | OP(SEND) | OP(SEND_IMM))
#define OPS_WRITE (OP(RDMA_WRITE) | OP(RDMA_WRITE_IMM) | OP(UMR) | OP(LOCAL_INVAL))
#define OPS_ATOMIC (OP(ATOMIC_CS) | OP(ATOMIC_FA) | OP(ATOMIC_MASKED_CS) | OP(ATOMIC_MASKED_FA))
#define OPS_ALL (OPS_SEND | OPS_WRITE | OPS_ATOMIC | OP(SEND_INVAL) | OP(RDMA_READ))

static const uint64_t allowed[] = {
	[QP_RC] = OPS_ALL,
	[QP_UC] = OPS_SEND | OPS_WRITE,
	[QP_UD] = OPS_SEND,
	[QP_XRC_INI] = OPS_ALL,
	[QP_XRC_TGT] = 0,
	[QP_REG_UMR] = OP(NOP) | OP(UMR),
	[QP_GSI] = OPS_SEND,
	[QP_SMI] = OPS_SEND,
	[QP_DCI] = OPS_ALL,
	[QP_DCT] = 0,
};

size_t wqe_size(const u8 *control)
{
	return (be32_at(control + offsetof(struct mlx5_wqe_ctrl_seg, qpn_ds)) & CTRL_DS) * 16;
}

static int parse_av(struct wqe_av *av, struct cursor *c)
{
	const size_t compact = offsetof(struct mlx5_wqe_av, reserved0);
	const u8 *p = take(c, compact), *rest;
	uint32_t dqp, grh;

	if (!p)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	dqp = be32_at(p + offsetof(struct mlx5_wqe_av, dqp_dct));
	av->qkey = be32_at(p);
	av->dc_key = be64_at(p);
	av->dqpn = dqp & 0xffffff;
	av->sl = p[offsetof(struct mlx5_wqe_av, stat_rate_sl)] & 0xf;
	av->path_bits = p[offsetof(struct mlx5_wqe_av, fl_mlid)] & 0x7f;
	av->rlid = be16_at(p + offsetof(struct mlx5_wqe_av, rlid));
	if (!(dqp & MLX5_EXTENDED_UD_AV))
		return 0;

	rest = take(c, sizeof(struct mlx5_wqe_av) - compact);
	if (!rest)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	grh = be32_at(p + offsetof(struct mlx5_wqe_av, grh_gid_fl));
	if (!(grh & AV_GRH))
		return 0;
	av->global = true;
	av->gid_index = grh >> 20;
	av->flow_label = grh & 0xfffff;
	av->tclass = p[offsetof(struct mlx5_wqe_av, tclass)];
	av->hop_limit = p[offsetof(struct mlx5_wqe_av, hop_limit)];
	memcpy(av->dgid, p + offsetof(struct mlx5_wqe_av, rgid), sizeof(av->dgid));
	return 0;
}

static int parse_raddr(struct wqe *w, struct cursor *c)
{
	const u8 *p = take(c, sizeof(struct mlx5_wqe_raddr_seg));

	if (!p)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	w->remote_addr = be64_at(p);
	w->rkey = be32_at(p + offsetof(struct mlx5_wqe_raddr_seg, rkey));
	return 0;
}

static int parse_atomic(struct wqe *w, struct cursor *c)
{
	bool masked = w->opcode == MLX5_OPCODE_ATOMIC_MASKED_CS ||
		      w->opcode == MLX5_OPCODE_ATOMIC_MASKED_FA;
	const u8 *p = take(c, sizeof(struct mlx5_wqe_atomic_seg));

	if (!p || w->opmod != (masked ? OPMOD_EXTENDED_8 : 0))
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	w->swap_add = be64_at(p);
	if (w->opcode == MLX5_OPCODE_ATOMIC_MASKED_FA) {
		w->compare_mask = be64_at(p + 8);	/* the boundaries of the fields */
		return 0;
	}
	w->compare = be64_at(p + 8);
	if (!masked)
		return 0;
	p = take(c, 16);
	if (!p)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	w->swap_mask = be64_at(p);
	w->compare_mask = be64_at(p + 8);
	return 0;
}

/* Inline data: a length and the bytes, together padded to 16. */
static int parse_inline(struct wqe *w, struct cursor *c, const u8 *head)
{
	uint32_t len = be32_at(head) & ~MLX5_INLINE_SEG;
	size_t more;

	if (len > INLINE_MAX)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	more = (4 + len + 15) / 16 * 16 - 16;
	if (len && !take(c, more))
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	w->seg[w->segs++] = (struct wqe_seg){
		.len = len, .addr = head + 4 - w->bytes, .is_inline = true,
	};
	w->keep_bytes = true;
	w->length += len;
	return 0;
}

static int parse_data(struct wqe *w, struct cursor *c, bool may_inline)
{
	const u8 *p;
	int err;

	while ((p = take(c, sizeof(struct mlx5_wqe_data_seg)))) {
		uint32_t len = be32_at(p);

		if (w->segs == WQE_SEGS)
			return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
		if (len & MLX5_INLINE_SEG) {
			err = may_inline ? parse_inline(w, c, p) :
					   MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
			if (err)
				return err;
			continue;
		}
		w->seg[w->segs++] = (struct wqe_seg){
			.len = len ? len : LENGTH_2G,
			.lkey = be32_at(p + offsetof(struct mlx5_wqe_data_seg, lkey)),
			.addr = be64_at(p + offsetof(struct mlx5_wqe_data_seg, addr)),
		};
		w->length += len ? len : LENGTH_2G;
	}
	return w->length > MESSAGE_MAX ? MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR : 0;
}

/* What lies between the control segment and the remote address, by service. */
static int parse_service(struct wqe *w, enum qp_service service, struct cursor *c)
{
	const u8 *p;

	switch (service) {
	case QP_UD:
	case QP_GSI:
	case QP_SMI:
	case QP_DCI:
		return parse_av(&w->av, c);
	case QP_XRC_INI:
		p = take(c, 16);
		if (!p)
			return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
		w->srqn = be32_at(p) & 0xffffff;
		return 0;
	default:
		return 0;
	}
}

static int parse_operation(struct wqe *w, struct cursor *c)
{
	int err;

	switch (w->opcode) {
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
		err = parse_raddr(w, c);
		return err ? err : parse_data(w, c, true);
	case MLX5_OPCODE_RDMA_READ:
		err = parse_raddr(w, c);
		return err ? err : parse_data(w, c, false);
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA:
	case MLX5_OPCODE_ATOMIC_MASKED_CS:
	case MLX5_OPCODE_ATOMIC_MASKED_FA:
		err = parse_raddr(w, c);
		if (!err)
			err = parse_atomic(w, c);
		if (!err)
			err = parse_data(w, c, false);
		if (!err && w->length != ATOMIC_BYTES)
			err = MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
		return err;
	default:		/* a send */
		return parse_data(w, c, true);
	}
}

int wqe_parse(struct wqe *w, enum qp_service service)
{
	struct cursor c = { w->bytes, w->size };
	const u8 *ctrl;
	uint32_t first;
	u8 flags;
	int err;

	w->remote_addr = w->swap_add = w->compare = w->swap_mask = w->compare_mask = 0;
	w->length = 0;
	w->rkey = w->srqn = w->segs = 0;
	memset(&w->av, 0, sizeof(w->av));
	if (w->size > sizeof(w->bytes))
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	ctrl = take(&c, sizeof(struct mlx5_wqe_ctrl_seg));
	if (!ctrl)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	first = be32_at(ctrl);
	flags = ctrl[offsetof(struct mlx5_wqe_ctrl_seg, fm_ce_se)];
	w->opcode = first & 0xff;
	w->opmod = first >> 24;
	w->blocks = (w->size + WQE_BB - 1) / WQE_BB;
	w->signalled = flags & CTRL_SIGNALLED;
	w->solicited = flags & MLX5_WQE_CTRL_SOLICITED;
	w->fence = flags & CTRL_FENCE;
	w->imm = be32_at(ctrl + offsetof(struct mlx5_wqe_ctrl_seg, imm));

	w->keep_bytes = w->opcode == MLX5_OPCODE_UMR;

	if (w->opcode >= 64 || !(allowed[service] & BIT_ULL(w->opcode)))
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	/* What these carry is not for the wire: no address vector, no XRC segment. */
	if (BIT_ULL(w->opcode) & (OP(NOP) | OP(UMR) | OP(LOCAL_INVAL)))
		return 0;
	err = parse_service(w, service, &c);
	return err ? err : parse_operation(w, &c);
}
