// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Data Direct: which keys may be created, and the name by which the driver finds the second
 * function (QUERY_VUID; layouts query_vuid, create_mkey and mkc of mlx5_ifc.h).
 *
 * What the layouts call reserved is refused, so that a driver which sets it is noticed.  The
 * key that a CROSSING key leads to may go, and its number become another one's: each access
 * looks again (mkey.c), also at the PD, which is kept here.
 */
#include "direct.h"
#include "dma.h"
#include "hca.h"
#include "ifc.h"
#include "late.h"
#include "mkey.h"
#include <stdio.h>

void direct_init(struct hca *hca, struct dma *d)
{
	hca->direct = d;
	snprintf(hca->vuid, sizeof(hca->vuid), "MRFD%016llXMLNXS0D0F0",
		 (unsigned long long)hca->guid);
}

void direct_flush(struct hca *hca)
{
	if (hca->direct)
		late_flush(hca->direct->late);
}

static bool is_plain(const struct mkey *m, const struct cmd *cmd)
{
	return !m->free && !m->umr_enabled && !cmd->uid &&
	       !IFC_GET(create_mkey_in, cmd->in, mkey_umem_valid) &&
	       !IFC_GET(create_mkey_in, cmd->in, translations_octword_actual_size);
}

static bool leads_to_list(struct hca *hca, struct mkey *m)
{
	const struct mkey *to = mkey_get(hca, m->crossed >> 8);

	if (!to || to->key != (m->crossed & 0xff) || to->uid ||
	    to->mode != MLX5_MKC_ACCESS_MODE_KSM)
		return false;
	m->crossed_pd = to->pd;
	return true;
}

bool direct_allows(struct hca *hca, const struct cmd *cmd, struct mkey *m)
{
	bool crosses = m->mode == MLX5_MKC_ACCESS_MODE_CROSSING;

	if (!crosses && !m->direct)
		return true;
	if (!hca->direct || !is_plain(m, cmd))
		return false;
	if (!crosses)
		return m->mode == MLX5_MKC_ACCESS_MODE_PA && !m->octowords;
	return !m->direct && !m->length64 &&
	       IFC_GET(mkc, m->context, crossing_target_vhca_id) == DIRECT_VHCA &&
	       leads_to_list(hca, m);
}

void direct_says(struct hca *hca, struct cmd *cmd, const struct mkey *m)
{
	cmd_says(cmd, "mkey %#x length %#llx crosses to %#x, in pages of 1 << %u",
		 m->index << 8 | m->key, (unsigned long long)m->length, m->crossed,
		 mkey_get(hca, m->crossed >> 8)->log_page);
}

/* Of the card itself only, and for its driver: a process asks by DEVX. */
static enum cmd_status cmd_query_vuid(struct hca *hca, struct cmd *c)
{
	size_t room = c->out_len - IFC_BYTES(query_vuid_out);

	cmd_says(c, "vhca %#x", IFC_GET(query_vuid_in, c->in, vhca_id));
	if (!hca->direct || c->uid)
		return cmd_refuse(c, CMD_BAD_OP);
	if (!IFC_GET(query_vuid_in, c->in, data_direct) ||
	    IFC_GET(query_vuid_in, c->in, query_vfs_vuid) ||
	    IFC_GET(query_vuid_in, c->in, vhca_id) != DIRECT_VHCA)
		return cmd_refuse(c, CMD_BAD_PARAM);
	if (room < sizeof(hca->vuid))
		return cmd_refuse(c, CMD_BAD_OUTPUT_LEN);
	IFC_SET(query_vuid_out, c->out, num_of_entries, 1);
	memcpy(c->out + IFC_BYTES(query_vuid_out), hca->vuid, sizeof(hca->vuid));
	return CMD_OK;
}

const struct cmd_op direct_ops[] = {
	{ .op = MLX5_CMD_OPCODE_QUERY_VUID, .name = "QUERY_VUID", .run = cmd_query_vuid,
	  .in_len = IFC_BYTES(query_vuid_in), .out_len = IFC_BYTES(query_vuid_out) },
	{ },
};
