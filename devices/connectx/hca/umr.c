// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The UMR work request: control segment, mlx5_wqe_umr_ctrl_seg, an mkey context of which
 * a mask says what counts, and entries of the key's list, in the WQE or in memory.
 * Flags and mask bits are those of mlx5dv.h, and here those which only the kernel's device.h
 * has.  Both name bit 5 of the flags, in different words: the key has to be free.
 *
 * All or nothing: what may fail is looked at first, the list in memory too.  Then the
 * change is made, and nothing else runs in between.
 *
 * What keeps it safe: only the driver's UMR QP, which has no PD, reaches keys of all PDs
 * and changes PDs.  A QP of user space touches only keys that are lists of other keys; the
 * list of an MTT key is bus addresses, and may hold those of its previous owner.  Each
 * entry is judged at each access, so a list needs no check here.
 */
#include "umr.h"
#include "direct.h"
#include "hca.h"
#include "ifc.h"
#include "trace.h"

/* Where the segments begin; the last one is the list, or the pointer to it. */
#define UMR_CTRL sizeof(struct mlx5_wqe_ctrl_seg)
#define UMR_MKC (UMR_CTRL + sizeof(struct mlx5_wqe_umr_ctrl_seg))
#define UMR_LIST (UMR_MKC + sizeof(struct mlx5_wqe_mkey_context_seg))
#define OCTOWORD 16u
#define ALIGN_OCTOWORDS 4u	/* lists come in units of 64 bytes */
#define MKEY_ANY_QPN 0xffffff

#define FLAG(name) MLX5_WQE_UMR_CTRL_FLAG_##name
#define FLAG_NOT_IF_FREE BIT(6)
#define FLAGS (FLAG(CHECK_QPN) | FLAG(TRNSLATION_OFFSET) | FLAG(CHECK_FREE) | \
	       FLAG_NOT_IF_FREE | FLAG(INLINE))

#define MASK(name) MLX5_WQE_UMR_CTRL_MKEY_MASK_##name
#define MASK_PAGE_SIZE BIT_ULL(1)
#define MASK_PD BIT_ULL(7)
#define MASK_EN_RINVAL BIT_ULL(8)
#define MASK_LR BIT_ULL(17)
#define MASK_SMALL_FENCE BIT_ULL(23)
#define MASK_RELAXED_ORDERING_WRITE BIT_ULL(25)
#define MASK_RELAXED_ORDERING_READ BIT_ULL(47)

#define FIELD(mask, field) { mask, IFC_BIT(mkc, field), IFC_WIDTH(mkc, field) }
#define FIELD64(mask, field) { mask, IFC_BIT(mkc, field), 32 }, \
			     { mask, IFC_BIT(mkc, field) + 32, 32 }

/* What each bit of the mask takes over from the WQE; other bits are refused. */
static const struct {
	uint64_t mask;
	uint16_t bit, width;
} fields[] = {
	FIELD64(MASK(LEN), len), FIELD(MASK(LEN), length64),
	FIELD(MASK_PAGE_SIZE, log_page_size),
	FIELD64(MASK(START_ADDR), start_addr),
	FIELD(MASK_PD, pd),
	FIELD(MASK_EN_RINVAL, en_rinval),
	FIELD(MASK(MKEY), mkey_7_0),
	FIELD(MASK(QPN), qpn),
	FIELD(MASK_LR, lr),
	FIELD(MASK(ACCESS_LOCAL_WRITE), lw),
	FIELD(MASK(ACCESS_REMOTE_READ), rr),
	FIELD(MASK(ACCESS_REMOTE_WRITE), rw),
	FIELD(MASK(ACCESS_ATOMIC), a),
	FIELD(MASK_SMALL_FENCE, small_fence_on_rdma_read_response),
	FIELD(MASK_RELAXED_ORDERING_WRITE, relaxed_ordering_write),
	FIELD(MASK(FREE), free),
	FIELD(MASK_RELAXED_ORDERING_READ, relaxed_ordering_read),
};

struct umr {
	u8 flags;
	uint64_t mask;
	uint64_t offset;	/* octowords, as is the next one */
	uint32_t octowords;
	const u8 *inline_list;	/* or NULL: it is at addr */
	struct mkey_access access;
	uint64_t addr;
};

static uint64_t known_mask(void)
{
	uint64_t mask = 0;
	size_t i;

	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		mask |= fields[i].mask;
	return mask;
}

#define CTRL(name) offsetof(struct mlx5_wqe_umr_ctrl_seg, name)

/* Octowords.  An offset that is extended goes on in bytes that mlx5dv.h does not name. */
static int parse_offset(struct umr *u, const u8 *ctrl)
{
	uint16_t low = be16_at(ctrl + CTRL(translation_offset));

	if (u->flags & FLAG(TRNSLATION_OFFSET))
		u->offset = (uint64_t)be32_at(ctrl + CTRL(rsvd1)) << 16 | low;
	else if (low)	/* a signature's size */
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	return 0;
}

/* LIST: what the WQE has after the other segments, LEN bytes. */
static int parse_list(struct umr *u, const struct mkey_access *by, const u8 *list, size_t len)
{
	uint32_t bytes;

	if (u->flags & FLAG(INLINE)) {
		u->inline_list = list;
		return len < OCTOWORD * u->octowords ? MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR : 0;
	}
	if (len < sizeof(struct mlx5_wqe_data_seg))
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	bytes = be32_at(list + offsetof(struct mlx5_wqe_data_seg, byte_count));
	if (bytes & MLX5_INLINE_SEG || bytes < OCTOWORD * u->octowords)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	u->access = (struct mkey_access){
		.key = be32_at(list + offsetof(struct mlx5_wqe_data_seg, lkey)),
		.pd = by->pd, .qpn = by->qpn, .rights = MKEY_LOCAL_READ,
		.any_pd = by->any_pd, .privileged = by->privileged,
	};
	u->addr = be64_at(list + offsetof(struct mlx5_wqe_data_seg, addr));
	return 0;
}

/* Whether the WQE makes sense by itself. */
static int parse(struct umr *u, const struct mkey_access *by, const u8 *wqe, size_t len)
{
	const u8 *ctrl = wqe + UMR_CTRL;
	int err;

	if (len < UMR_LIST)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	u->flags = ctrl[CTRL(flags)];
	u->octowords = be16_at(ctrl + CTRL(klm_octowords));
	u->mask = be64_at(ctrl + CTRL(mkey_mask));
	if (u->flags & ~FLAGS || u->mask & ~known_mask())
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	if (u->flags & FLAG(CHECK_FREE) && u->flags & FLAG_NOT_IF_FREE)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	err = parse_offset(u, ctrl);
	if (err || !u->octowords)
		return err;
	return parse_list(u, by, wqe + UMR_LIST, len - UMR_LIST);
}

/* Whether this QP may do this to this key, in the state that it is in. */
static bool allowed(const struct umr *u, const struct mkey_access *by, const struct mkey *m)
{
	if (!m || !m->umr_enabled)
		return false;
	if (!by->any_pd && (m->pd != by->pd || u->mask & MASK_PD))
		return false;
	if (!by->privileged &&
	    (u->mask & MASK_EN_RINVAL ||
	     (m->mode != MLX5_MKC_ACCESS_MODE_KLMS && m->mode != MLX5_MKC_ACCESS_MODE_KSM)))
		return false;
	if (u->flags & FLAG_NOT_IF_FREE && m->free)
		return false;
	if (u->flags & FLAG(CHECK_FREE) && !m->free)
		return false;
	if (u->flags & FLAG(CHECK_QPN) && m->qpn != MKEY_ANY_QPN && m->qpn != by->qpn)
		return false;
	return true;
}

/* M as it will be, in *NEXT. */
static bool change(const struct umr *u, struct hca *hca, const struct mkey_access *by,
		   const struct mkey *m, const u8 *seg, struct mkey *next)
{
	u8 mkc[IFC_BYTES(mkc)];
	size_t i;

	mkey_context(m, mkc);
	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (u->mask & fields[i].mask)
			ifc_set(mkc, fields[i].bit, fields[i].width,
				ifc_get(seg, fields[i].bit, fields[i].width));
	*next = *m;
	if (!mkey_from_context(next, mkc))
		return false;
	if (u->mask & MASK_PD && !hca_pd_valid(hca, 0, next->pd))
		return false;
	return !(u->mask & MASK(QPN)) || by->privileged || next->qpn == MKEY_ANY_QPN ||
	       next->qpn == by->qpn;
}

/*
 * How many octowords of the list, if there is one, have a place in the key.  It may be
 * longer, by what was added to reach a multiple of 64 bytes.  -1: it is longer than that.
 */
static int64_t fitting(const struct umr *u, const struct mkey *m)
{
	uint64_t room = (m->octowords + (uint64_t)ALIGN_OCTOWORDS - 1) & ~(ALIGN_OCTOWORDS - 1ull);

	if (!u->octowords)
		return 0;
	if (u->offset > room || u->octowords > room - u->offset)
		return -1;
	if (u->offset >= m->octowords)
		return 0;
	return u->octowords < m->octowords - u->offset ? u->octowords : m->octowords - u->offset;
}

/* The list; NULL: it cannot be read. */
static const u8 *fetch(struct hca *hca, const struct umr *u, size_t bytes)
{
	/* Only one UMR runs at a time.  A list may be read through the key that it changes. */
	static u8 list[OCTOWORD * (UINT16_MAX + 1)];

	if (u->inline_list)
		return u->inline_list;
	return mkey_read(hca, &u->access, u->addr, list, bytes, NULL) == MKEY_OK ? list : NULL;
}

int umr_run(struct hca *hca, const struct mkey_access *by, const u8 *wqe, size_t len,
	    uint32_t target)
{
	struct mkey *m = mkey_get(hca, target >> 8), next;
	struct umr u = { 0 };
	const u8 *list;
	int64_t octowords;
	int err;

	/* After a UMR that takes a key away nothing arrives by it. */
	direct_flush(hca);
	err = parse(&u, by, wqe, len);
	if (err)
		goto out;
	err = MLX5_CQE_SYNDROME_MW_BIND_ERR;
	if (!allowed(&u, by, m) || !change(&u, hca, by, m, wqe + UMR_MKC, &next))
		goto out;
	err = MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	octowords = fitting(&u, m);
	if (octowords < 0)
		goto out;
	err = MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	list = fetch(hca, &u, OCTOWORD * octowords);
	if (!list)
		goto out;

	if (octowords) {
		memcpy(m->translation + OCTOWORD * u.offset, list, OCTOWORD * octowords);
		if (next.summed > u.offset)
			next.summed = u.offset;
	}
	*m = next;
	err = 0;
out:
	trace("umr qp %#x mkey %#x flags %#x mask %#llx octowords %u at %llu: %d", by->qpn,
	      target, u.flags, (unsigned long long)u.mask, u.octowords,
	      (unsigned long long)u.offset, err);
	return err;
}
