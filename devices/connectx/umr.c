// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The UMR work request: control segment, mlx5_wqe_umr_ctrl_seg, an mkey context of which
 * a mask says what counts, and entries of the key's list, in the WQE or in memory.
 * Flags and mask bits are those of the kernel's device.h and of mlx5dv.h, which name bit 5
 * of the flags differently and mean the same: the key has to be free.
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
#include "qp.h"

#define SEGMENTS 128		/* bytes before the list */
#define MKEY_ANY_QPN 0xffffff
#define ALIGN_OCTOWORDS 4u	/* lists come in units of 64 bytes */

enum {
	UMR_CHECK_QPN = 1 << 3,
	UMR_OFFSET = 1 << 4,
	UMR_CHECK_NOT_FREE = 1 << 5,	/* fails unless the key is free */
	UMR_CHECK_FREE = 1 << 6,	/* fails if it is */
	UMR_INLINE = 1 << 7,
	UMR_FLAGS = UMR_CHECK_QPN | UMR_OFFSET | UMR_CHECK_NOT_FREE | UMR_CHECK_FREE | UMR_INLINE,
};

#define MASK_PD BIT_ULL(7)
#define MASK_RINVAL BIT_ULL(8)
#define MASK_QPN BIT_ULL(14)

#define FIELD(bit_, field) { bit_, IFC_BIT(mkc, field), IFC_WIDTH(mkc, field) }
#define FIELD64(bit_, field) { bit_, IFC_BIT(mkc, field), 32 }, \
			     { bit_, IFC_BIT(mkc, field) + 32, 32 }

/* What each bit of the mask takes over from the WQE; other bits are refused. */
static const struct {
	u8 mask_bit;
	uint16_t bit, width;
} fields[] = {
	FIELD64(0, len), FIELD(0, length64),
	FIELD(1, log_page_size),
	FIELD64(6, start_addr),
	FIELD(7, pd),
	FIELD(8, en_rinval),
	FIELD(13, mkey_7_0),
	FIELD(14, qpn),
	FIELD(17, lr), FIELD(18, lw), FIELD(19, rr), FIELD(20, rw), FIELD(21, a),
	FIELD(23, small_fence_on_rdma_read_response),
	FIELD(25, relaxed_ordering_write),
	FIELD(29, free),
	FIELD(47, relaxed_ordering_read),
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
		mask |= BIT_ULL(fields[i].mask_bit);
	return mask;
}

static bool all_pds(const struct qp *qp)
{
	return qp->service == QP_REG_UMR && qp->privileged;
}

/* Whether the WQE makes sense by itself. */
static int parse(struct umr *u, const struct qp *qp, const u8 *wqe, size_t len)
{
	const u8 *ctrl = wqe + 16, *data = wqe + SEGMENTS;

	if (len < SEGMENTS)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	u->flags = ctrl[0];
	u->octowords = be16_at(ctrl + 4);
	u->mask = be64_at(ctrl + 8);
	if (u->flags & ~UMR_FLAGS || u->mask & ~known_mask())
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	if (u->flags & UMR_CHECK_FREE && u->flags & UMR_CHECK_NOT_FREE)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	if (u->flags & UMR_OFFSET)
		u->offset = (uint64_t)be32_at(ctrl + 16) << 16 | be16_at(ctrl + 6);
	else if (be16_at(ctrl + 6))	/* a signature's size */
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	if (!u->octowords)
		return 0;

	if (u->flags & UMR_INLINE) {
		u->inline_list = data;
		return len - SEGMENTS < 16ull * u->octowords ? MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR :
							       0;
	}
	if (len < SEGMENTS + 16 || be32_at(data) >> 31 || be32_at(data) < 16ull * u->octowords)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	u->access = (struct mkey_access){
		.key = be32_at(data + 4), .pd = qp->pd, .qpn = qp->number,
		.rights = MKEY_LOCAL_READ, .any_pd = all_pds(qp), .privileged = qp->privileged,
	};
	u->addr = be64_at(data + 8);
	return 0;
}

/* Whether this QP may do this to this key, in the state that it is in. */
static bool allowed(const struct umr *u, const struct qp *qp, const struct mkey *m)
{
	if (!m || !m->umr_enabled)
		return false;
	if (!all_pds(qp) && (m->pd != qp->pd || u->mask & MASK_PD))
		return false;
	if (!qp->privileged &&
	    (u->mask & MASK_RINVAL ||
	     (m->mode != MLX5_MKC_ACCESS_MODE_KLMS && m->mode != MLX5_MKC_ACCESS_MODE_KSM)))
		return false;
	if (u->flags & UMR_CHECK_FREE && m->free)
		return false;
	if (u->flags & UMR_CHECK_NOT_FREE && !m->free)
		return false;
	if (u->flags & UMR_CHECK_QPN && m->qpn != MKEY_ANY_QPN && m->qpn != qp->number)
		return false;
	return true;
}

/* M as it will be, in *NEXT. */
static bool change(const struct umr *u, struct hca *hca, const struct qp *qp,
		   const struct mkey *m, const u8 *seg, struct mkey *next)
{
	u8 mkc[IFC_BYTES(mkc)];
	size_t i;

	mkey_context(m, mkc);
	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (u->mask >> fields[i].mask_bit & 1)
			ifc_set(mkc, fields[i].bit, fields[i].width,
				ifc_get(seg, fields[i].bit, fields[i].width));
	*next = *m;
	if (!mkey_from_context(next, mkc))
		return false;
	if (u->mask & MASK_PD && !hca_pd_valid(hca, 0, next->pd))
		return false;
	return !(u->mask & MASK_QPN) || qp->privileged || next->qpn == MKEY_ANY_QPN ||
	       next->qpn == qp->number;
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
	static u8 list[16 * (UINT16_MAX + 1)];

	if (u->inline_list)
		return u->inline_list;
	return mkey_read(hca, &u->access, u->addr, list, bytes, NULL) == MKEY_OK ? list : NULL;
}

int umr_run(struct hca *hca, struct qp *qp, const u8 *wqe, size_t len, uint32_t target)
{
	struct mkey *m = mkey_get(hca, target >> 8), next;
	struct umr u = { 0 };
	const u8 *list;
	int64_t octowords;
	int err;

	err = parse(&u, qp, wqe, len);
	if (err)
		goto out;
	err = MLX5_CQE_SYNDROME_MW_BIND_ERR;
	if (!allowed(&u, qp, m) || !change(&u, hca, qp, m, wqe + 64, &next))
		goto out;
	err = MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	octowords = fitting(&u, m);
	if (octowords < 0)
		goto out;
	err = MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	list = fetch(hca, &u, 16 * octowords);
	if (!list)
		goto out;

	if (octowords) {
		memcpy(m->translation + 16 * u.offset, list, 16 * octowords);
		if (next.summed > u.offset)
			next.summed = u.offset;
	}
	*m = next;
	err = 0;
out:
	trace("umr qp %#x mkey %#x flags %#x mask %#llx octowords %u at %llu: %d", qp->number,
	      target, u.flags, (unsigned long long)u.mask, u.octowords,
	      (unsigned long long)u.offset, err);
	return err;
}
