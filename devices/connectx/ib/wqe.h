/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A send WQE, parsed: one private copy of the bytes in the queue, checked, and turned
 * into what the requester works from.  The queue itself is not looked at again: what a
 * retransmission needs, the first wqe_kept() bytes of the struct, is kept until the WQE
 * completes.
 */
#ifndef CONNECTX_WQE_H
#define CONNECTX_WQE_H

#include "ifc.h"
#include <stdbool.h>

#define WQE_BB 64		/* a basic block */
#define WQE_MAX 1024		/* ds is 6 bits of 16 bytes */
#define WQE_SEGS 61
#define MESSAGE_LOG_MAX 30
#define MESSAGE_MAX (1ull << MESSAGE_LOG_MAX)	/* bytes; neither sent nor taken if longer */

enum qp_service {
	QP_RC, QP_UC, QP_UD, QP_XRC_INI, QP_XRC_TGT, QP_REG_UMR, QP_GSI, QP_SMI, QP_DCI, QP_DCT,
	QP_SERVICES
};

struct wqe_seg {
	uint32_t len, lkey;
	uint64_t addr;			/* of inline data: its offset in bytes[] */
	bool is_inline;
};

struct wqe_av {			/* UD, DC */
	uint32_t qkey, dqpn;
	uint64_t dc_key;		/* over the Q_Key */
	uint16_t rlid;
	u8 sl, path_bits;
	bool global;
	u8 tclass, hop_limit, gid_index;
	uint32_t flow_label;
	u8 dgid[16];
};

struct wqe {
	uint16_t index;			/* of its first block in the queue */
	u8 opcode, opmod;		/* MLX5_OPCODE_* */
	unsigned int blocks;		/* of 64 bytes; 1 at least */
	bool signalled, solicited;
	u8 fence;			/* bits 7:5 in place, as MLX5_WQE_CTRL_FENCE is */
	uint32_t imm;			/* big endian in the WQE: immediate, rkey, or UMR's lkey */
	uint64_t remote_addr;
	uint32_t rkey;
	uint64_t swap_add, compare;
	uint64_t swap_mask, compare_mask;
	uint32_t srqn;			/* XRC */
	struct wqe_av av;		/* UD, DC */
	uint64_t length;		/* of all segments */
	size_t size;			/* of what is in bytes[] */
	bool keep_bytes;		/* they are looked at after the parse: inline data, UMR */
	unsigned int segs;
	struct wqe_seg seg[WQE_SEGS];
	u8 bytes[WQE_MAX];		/* from the control segment on */
};

/* How much of it a copy needs, once it is parsed. */
static inline size_t wqe_kept(const struct wqe *w)
{
	return w->keep_bytes ? offsetof(struct wqe, bytes) + w->size :
			       offsetof(struct wqe, seg) + w->segs * sizeof(w->seg[0]);
}

/* How many bytes the WQE has whose first 16 these are; 0: none that makes sense. */
size_t wqe_size(const u8 *control);
/* Parse w->bytes, w->size of them.  0, or a CQE syndrome for a WQE that makes no sense. */
int wqe_parse(struct wqe *w, enum qp_service service);

#endif
