// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The life of memory keys: contexts (mlx5_ifc_mkc_bits), CREATE_MKEY, DESTROY_MKEY,
 * QUERY_MKEY, and invalidation by a peer.
 *
 * A key's list is allocated here, with the size that the context names, and never grows:
 * UMR only fills it.  The driver makes 3,000 keys when it is loaded and fills few; their
 * lists are zero pages that the host has not even allocated.
 *
 * A key counts no users.  Others name it by number, at each access anew, so that one that
 * is gone, or was given to somebody else, is noticed there: by its low byte and its PD.
 *
 * What names bus addresses is for the driver alone (uid 0): a process that creates objects
 * itself, by DEVX, may only create lists of other keys, and keys for its umems.  Signatures
 * are refused.
 */
#include "cmd.h"
#include "devx.h"
#include "direct.h"
#include "hca.h"
#include "ifc.h"
#include "memic.h"
#include "mkey.h"
#include "table.h"

#define MAX_KLM_OCTOWORDS BIT(16)	/* log_max_klm_list_size */

bool mkey_from_context(struct mkey *m, const void *mkc)
{
	u8 mode = IFC_GET(mkc, mkc, access_mode_1_0) | IFC_GET(mkc, mkc, access_mode_4_2) << 2;

	if (mode > MLX5_MKC_ACCESS_MODE_KSM && mode != MLX5_MKC_ACCESS_MODE_MEMIC &&
	    mode != MLX5_MKC_ACCESS_MODE_CROSSING)
		return false;
	if (IFC_GET(mkc, mkc, bsf_en) || IFC_GET(mkc, mkc, bsf_octword_size))
		return false;
	m->mode = mode;
	m->key = IFC_GET(mkc, mkc, mkey_7_0);
	m->free = IFC_GET(mkc, mkc, free);
	m->umr_enabled = IFC_GET(mkc, mkc, umr_en);
	m->rights = (IFC_GET(mkc, mkc, lr) ? MKEY_LOCAL_READ : 0) |
		    (IFC_GET(mkc, mkc, lw) ? MKEY_LOCAL_WRITE : 0) |
		    (IFC_GET(mkc, mkc, rr) ? MKEY_REMOTE_READ : 0) |
		    (IFC_GET(mkc, mkc, rw) ? MKEY_REMOTE_WRITE : 0) |
		    (IFC_GET(mkc, mkc, a) ? MKEY_ATOMIC : 0);
	m->length64 = IFC_GET(mkc, mkc, length64);
	m->remote_invalidate = IFC_GET(mkc, mkc, en_rinval);
	m->pd = IFC_GET(mkc, mkc, pd);
	m->qpn = IFC_GET(mkc, mkc, qpn);
	m->start = IFC_GET64(mkc, mkc, start_addr);
	m->length = IFC_GET64(mkc, mkc, len);
	m->log_page = IFC_GET(mkc, mkc, log_page_size);
	m->octowords = IFC_GET(mkc, mkc, translations_octword_size);
	if (mode == MLX5_MKC_ACCESS_MODE_CROSSING) {
		m->crossed = m->octowords;
		m->octowords = 0;
	}
	memcpy(m->context, mkc, sizeof(m->context));
	return true;
}

void mkey_context(const struct mkey *m, void *mkc)
{
	memcpy(mkc, m->context, sizeof(m->context));
	/* All else changes by mkey_from_context() only. */
	IFC_SET(mkc, mkc, free, m->free);
}

/* A KLM list is followed by the sums that the engine searches in. */
static size_t list_bytes(const struct mkey *m)
{
	return (size_t)m->octowords * (m->mode == MLX5_MKC_ACCESS_MODE_KLMS ? 24 : 16);
}

static void mkey_free(struct hca *hca, struct mkey *m)
{
	if (m->translation)
		hca_free_memory(hca, m->translation, list_bytes(m));
	if (m->umem)
		m->umem->users--;
	hca_free_memory(hca, m, sizeof(*m));
}

static bool alloc_list(struct hca *hca, struct mkey *m)
{
	if (!m->octowords)
		return true;
	m->translation = hca_alloc(hca, list_bytes(m));
	if (!m->translation)
		return false;
	if (m->mode == MLX5_MKC_ACCESS_MODE_KLMS)
		m->sums = (uint64_t *)(m->translation + 16ull * m->octowords);
	return true;
}

/* Whether the command may create this key. */
static enum cmd_status creatable(struct hca *hca, struct cmd *cmd, struct mkey *m)
{
	bool list = m->mode == MLX5_MKC_ACCESS_MODE_KLMS || m->mode == MLX5_MKC_ACCESS_MODE_KSM;

	if (cmd->uid && !list && !IFC_GET(create_mkey_in, cmd->in, mkey_umem_valid))
		return cmd_refuse(cmd, CMD_BAD_PARAM);
	if (!direct_allows(hca, cmd, m))
		return cmd_refuse(cmd, CMD_BAD_PARAM);
	if (!hca_pd_valid(hca, cmd->uid, m->pd))
		return cmd_refuse(cmd, CMD_BAD_RES);
	if (m->mode == MLX5_MKC_ACCESS_MODE_KLMS ? m->octowords > MAX_KLM_OCTOWORDS :
						   m->octowords > HCA_MEMORY / 16)
		return cmd_refuse(cmd, CMD_LIM_EXCEEDED);
	if (m->mode == MLX5_MKC_ACCESS_MODE_MEMIC &&
	    (m->length64 || m->length > HCA_MEMIC_SIZE ||
	     (m->length && !memic_at(hca, m->start, m->length))))
		return cmd_refuse(cmd, CMD_BAD_PARAM);
	return CMD_OK;
}

/* The list that came with the command.  Without pg_access all pages are there. */
static bool fill_list(struct mkey *m, const struct cmd *cmd)
{
	uint32_t octowords = IFC_GET(create_mkey_in, cmd->in, translations_octword_actual_size);
	size_t tail;
	const u8 *list = cmd_tail(cmd, IFC_BYTES(create_mkey_in), &tail);
	uint64_t i;

	if (octowords > m->octowords || octowords > tail / 16)
		return false;
	if (!octowords)
		return true;
	memcpy(m->translation, list, 16ull * octowords);
	if (m->mode != MLX5_MKC_ACCESS_MODE_MTT || IFC_GET(create_mkey_in, cmd->in, pg_access))
		return true;
	for (i = 0; i < 2ull * octowords; i++)
		m->translation[8 * i + 7] |= 3;
	return true;
}

/* The pages of a umem, in which START is at an offset. */
static enum cmd_status fill_from_umem(struct hca *hca, struct cmd *cmd, struct mkey *m)
{
	struct umem *u = umem_of_cmd(hca, cmd, be32_at(cmd->in + CREATE_MKEY_UMEM_ID));
	uint64_t offset = be64_at(cmd->in + CREATE_MKEY_UMEM_OFFSET), at, first, page, pages;

	if (!u)
		return cmd_refuse(cmd, CMD_BAD_RES);
	page = 1ull << u->buf.shift;
	at = u->buf.start + offset;
	if (m->mode != MLX5_MKC_ACCESS_MODE_MTT || m->length64 || !m->length ||
	    !umem_inside(u, offset, m->length) || (at ^ m->start) & (page - 1))
		return cmd_refuse(cmd, CMD_BAD_PARAM);
	if (!u->writable && m->rights & (MKEY_LOCAL_WRITE | MKEY_REMOTE_WRITE | MKEY_ATOMIC))
		return cmd_refuse(cmd, CMD_BAD_PARAM);
	first = at >> u->buf.shift;
	pages = ((at + m->length + page - 1) >> u->buf.shift) - first;
	m->log_page = u->buf.shift;
	m->octowords = (pages + 1) / 2;
	IFC_SET(mkc, m->context, log_page_size, m->log_page);
	IFC_SET(mkc, m->context, translations_octword_size, m->octowords);
	if (!alloc_list(hca, m))
		return cmd_refuse(cmd, CMD_LIM_EXCEEDED);
	for (uint64_t i = 0; i < pages; i++)
		put_be64(m->translation + 8 * i, u->buf.page[first + i] | 1 | u->writable << 1);
	u->users++;
	m->umem = u;
	return CMD_OK;
}

static enum cmd_status fill_from_command(struct hca *hca, struct cmd *cmd, struct mkey *m)
{
	if (!alloc_list(hca, m))
		return cmd_refuse(cmd, CMD_LIM_EXCEEDED);
	return fill_list(m, cmd) ? CMD_OK : cmd_refuse(cmd, CMD_BAD_PARAM);
}

static enum cmd_status cmd_create_mkey(struct hca *hca, struct cmd *cmd)
{
	enum cmd_status status;
	struct mkey *m;
	int64_t index;

	m = hca_alloc(hca, sizeof(*m));
	if (!m)
		return cmd_refuse(cmd, CMD_LIM_EXCEEDED);
	m->hca = hca;
	m->uid = cmd->uid;
	m->direct = IFC_GET(create_mkey_in, cmd->in, data_direct);
	if (!mkey_from_context(m, IFC_PTR(create_mkey_in, cmd->in, memory_key_mkey_entry)))
		status = cmd_refuse(cmd, CMD_BAD_PARAM);
	else
		status = creatable(hca, cmd, m);
	if (!status)
		status = IFC_GET(create_mkey_in, cmd->in, mkey_umem_valid) ?
			 fill_from_umem(hca, cmd, m) : fill_from_command(hca, cmd, m);
	if (status)
		goto err;
	index = table_add(&hca->mkeys, m);
	if (index < 0) {
		status = cmd_refuse(cmd, CMD_LIM_EXCEEDED);
		goto err;
	}
	m->index = index;
	IFC_SET(create_mkey_out, cmd->out, mkey_index, m->index);
	cmd_says(cmd, "mkey %#x mode %u%s pd %u start %#llx length %#llx octowords %u",
		 m->index << 8 | m->key, m->mode, m->free ? " free" : "", m->pd,
		 (unsigned long long)m->start, (unsigned long long)m->length, m->octowords);
	if (m->mode == MLX5_MKC_ACCESS_MODE_CROSSING)
		direct_says(hca, cmd, m);
	return CMD_OK;

err:
	mkey_free(hca, m);
	return status;
}

/* The key that a command names; a process reaches only what it created. */
static struct mkey *named(struct hca *hca, const struct cmd *cmd, uint32_t index)
{
	struct mkey *m = mkey_get(hca, index);

	return m && uid_owns(cmd->uid, m->uid) ? m : NULL;
}

static enum cmd_status cmd_destroy_mkey(struct hca *hca, struct cmd *cmd)
{
	uint32_t index = IFC_GET(destroy_mkey_in, cmd->in, mkey_index);
	struct mkey *m = named(hca, cmd, index);

	cmd_says(cmd, "mkey index %#x", index);
	if (!m)
		return cmd_refuse(cmd, CMD_BAD_RES);
	direct_flush(hca);
	table_del(&hca->mkeys, index);
	mkey_free(hca, m);
	return CMD_OK;
}

/* The context alone: bus addresses are not for a process that has the key's number. */
static enum cmd_status cmd_query_mkey(struct hca *hca, struct cmd *cmd)
{
	uint32_t index = IFC_GET(query_mkey_in, cmd->in, mkey_index);
	struct mkey *m = named(hca, cmd, index);

	cmd_says(cmd, "mkey index %#x", index);
	if (!m)
		return cmd_refuse(cmd, CMD_BAD_RES);
	mkey_context(m, IFC_PTR(query_mkey_out, cmd->out, memory_key_mkey_entry));
	return CMD_OK;
}

const struct cmd_op mkey_ops[] = {
	CMD_OP(CREATE_MKEY, create_mkey),
	CMD_OP(DESTROY_MKEY, destroy_mkey),
	CMD_OP(QUERY_MKEY, query_mkey),
	{ 0 },
};

/* IBA 10.6.7.2, "remote invalidate": the key is valid, allows it, and is of this QP. */
bool mkey_invalidate_remote(struct hca *hca, uint32_t rkey, uint32_t pd, uint32_t qpn)
{
	struct mkey *m = mkey_get(hca, rkey >> 8);

	if (!m || m->free || m->key != (rkey & 0xff) || !m->remote_invalidate || m->pd != pd)
		return false;
	if (m->qpn != 0xffffff && m->qpn != qpn)
		return false;
	direct_flush(hca);
	m->free = true;
	return true;
}

static void free_one(void *arg, void *object)
{
	mkey_free(arg, object);
}

void mkey_reset(struct hca *hca)
{
	direct_flush(hca);
	table_clear(&hca->mkeys, free_one, hca);
}
