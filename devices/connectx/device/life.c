// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The device as a whole, and the commands that start and stop it.  Layouts: mlx5_ifc.h.
 *
 * The driver goes ENABLE_HCA, SET_ISSI, pages, SET_HCA_CAP, INIT_HCA, and back by
 * TEARDOWN_HCA and DISABLE_HCA.  Each way down frees all objects, users first, so no
 * pointer outlives what it points to, however the guest went.
 */
#include "life.h"
#include "bar.h"
#include "caps.h"
#include "cmdif.h"
#include "devx.h"
#include "dma.h"
#include "eq.h"
#include "hca.h"
#include "ifc.h"
#include "link.h"
#include "mcg.h"
#include "memic.h"
#include "mkey.h"
#include "odp.h"
#include "port.h"
#include "qp.h"
#include "srq.h"
#include "stats.h"
#include "table.h"
#include <stdlib.h>

/* We need none of these pages; a firmware does, so the driver's code for it gets run. */
#define BOOT_PAGES 16

void hca_free_objects(struct hca *hca)
{
	if (hca->link)
		link_reset(hca->link);
	mcg_reset(hca);
	qp_reset_all(hca);
	odp_reset(hca);
	srq_reset(hca);
	event_reset(hca);
	mkey_reset(hca);
	memic_reset(hca);
	devx_reset(hca);
	hca_free_numbers(hca);
	hca->initialized = false;
}

/* The state in which ENABLE_HCA finds the device. */
static void stop(struct hca *hca)
{
	hca_free_objects(hca);
	caps_init(hca);
	port_init(hca);
	hca->page_count = 0;
	hca->issi = 0;
	hca->enabled = false;
}

void hca_reset(struct hca *hca)
{
	stop(hca);
	bar_reset(hca);
	cmd_reset(hca);
	hca->health = 0;
}

static void init_tables(struct hca *hca)
{
	table_init(&hca->uars, HCA_UAR_FIRST, HCA_UARS);
	table_init(&hca->pds, 1, (1u << HCA_LOG_PDS) - 1);
	table_init(&hca->tds, 1, (1u << HCA_LOG_TDS) - 1);
	table_init(&hca->xrcds, 1, (1u << HCA_LOG_XRCDS) - 1);
	table_init(&hca->eqs, 1, (1u << HCA_LOG_EQS) - 1);
	table_init(&hca->cqs, 1, (1u << HCA_LOG_CQS) - 1);
	table_init(&hca->srqs, 1, (1u << HCA_LOG_SRQS) - 1);
	table_init(&hca->qps, HCA_QP_FIRST, (1u << HCA_LOG_QPS) - HCA_QP_FIRST);
	/* The reserved lkey, the null mkey and the dump-fill mkey are before the first. */
	table_init(&hca->mkeys, 0x10, (1u << HCA_LOG_MKEYS) - 0x10);
	table_init(&hca->uctxs, 1, (1u << HCA_LOG_UCTXS) - 1);
	table_init(&hca->umems, 1, (1u << HCA_LOG_UMEMS) - 1);
}

static void free_parts(struct hca *hca)
{
	caps_free(hca);
	free(hca->memic_state);
	free(hca->memic);
	free(hca->mcg);
	free(hca->cmdif);
	free(hca->bar);
	free(hca);
}

struct hca *hca_new(struct loop *loop, struct dma *dma, uint64_t guid)
{
	struct hca *hca = calloc(1, sizeof(*hca));

	if (!hca)
		return NULL;
	hca->loop = loop;
	hca->dma = dma;
	hca->guid = guid;
	hca->srq_gone = qp_forget_srq;
	hca->stats.began = stats_clock();
	bar_init(hca);
	cmd_init(hca);
	init_tables(hca);
	caps_init(hca);
	port_init(hca);
	memic_init(hca);
	mcg_init(hca);
	if (!hca->caps || !hca->memic || !hca->memic_state || !hca->mcg || !hca->cmdif ||
	    !hca->bar) {
		free_parts(hca);
		return NULL;
	}
	hca_reset(hca);
	return hca;
}

void hca_free(struct hca *hca)
{
	if (!hca)
		return;
	hca_reset(hca);
	free_parts(hca);
}

/* Commands: start and stop. */

/* Only the function itself: there are no virtual functions and no embedded CPU. */
static bool other_function(const struct cmd *c)
{
	return IFC_GET(enable_hca_in, c->in, embedded_cpu_function) ||
	       IFC_GET(enable_hca_in, c->in, function_id);
}

static enum cmd_status cmd_enable_hca(struct hca *hca, struct cmd *c)
{
	if (other_function(c))
		return cmd_refuse(c, CMD_BAD_PARAM);
	/* A kernel that crashed did not stop the device, and the next one finds it so. */
	stop(hca);
	hca->enabled = true;
	return CMD_OK;
}

static enum cmd_status cmd_disable_hca(struct hca *hca, struct cmd *c)
{
	if (other_function(c))
		return cmd_refuse(c, CMD_BAD_PARAM);
	stop(hca);
	return CMD_OK;
}

static enum cmd_status cmd_query_issi(struct hca *hca, struct cmd *c)
{
	IFC_SET(query_issi_out, c->out, current_issi, hca->issi);
	/* Not bit 0: with ISSI 0 an SRQ is made by CREATE_SRQ, which is not modelled. */
	IFC_SET(query_issi_out, c->out, supported_issi_dw0, BIT(1));
	return CMD_OK;
}

static enum cmd_status cmd_set_issi(struct hca *hca, struct cmd *c)
{
	if (IFC_GET(set_issi_in, c->in, current_issi) != 1)
		return cmd_refuse(c, CMD_BAD_PARAM);
	if (!hca->enabled || hca->initialized)
		return cmd_refuse(c, CMD_BAD_SYS_STATE);
	hca->issi = 1;
	return CMD_OK;
}

static enum cmd_status cmd_init_hca(struct hca *hca, struct cmd *c)
{
	if (!hca->enabled || hca->initialized || hca->issi != 1)
		return cmd_refuse(c, CMD_BAD_SYS_STATE);
	/* Empty, and from now on as large as the driver asked for. */
	table_init(&hca->qps, HCA_QP_FIRST, (1u << CAP(hca, log_max_qp)) - HCA_QP_FIRST);
	hca->initialized = true;
	return CMD_OK;
}

static enum cmd_status cmd_teardown_hca(struct hca *hca, struct cmd *c)
{
	switch (IFC_GET(teardown_hca_in, c->in, profile)) {
	case MLX5_TEARDOWN_HCA_IN_PROFILE_GRACEFUL_CLOSE:
	case MLX5_TEARDOWN_HCA_IN_PROFILE_FORCE_CLOSE:
		hca_free_objects(hca);
		break;
	case MLX5_TEARDOWN_HCA_IN_PROFILE_PREPARE_FAST_TEARDOWN:
		/* Nothing to prepare: the end is the write to the init segment. */
		break;
	default:
		return cmd_refuse(c, CMD_BAD_PARAM);
	}
	IFC_SET(teardown_hca_out, c->out, state, MLX5_TEARDOWN_HCA_OUT_FORCE_STATE_SUCCESS);
	return CMD_OK;
}

static enum cmd_status cmd_query_pages(struct hca *hca, struct cmd *c)
{
	unsigned int want;

	if (other_function(c))
		return cmd_refuse(c, CMD_BAD_PARAM);
	switch (c->op_mod) {
	case MLX5_QUERY_PAGES_IN_OP_MOD_BOOT_PAGES:
		want = BOOT_PAGES;
		break;
	case MLX5_QUERY_PAGES_IN_OP_MOD_INIT_PAGES:
		want = HCA_PAGES;
		break;
	case MLX5_QUERY_PAGES_IN_OP_MOD_REGULAR_PAGES:
		want = 0;
		break;
	default:
		return cmd_refuse(c, CMD_BAD_PARAM);
	}
	want = want > hca->page_count ? want - hca->page_count : 0;
	IFC_SET(query_pages_out, c->out, num_pages, want);
	cmd_says(c, "wants %u more than %u", want, hca->page_count);
	return CMD_OK;
}

static enum cmd_status give_pages(struct hca *hca, struct cmd *c, uint32_t count)
{
	size_t len;
	const u8 *pas = cmd_tail(c, IFC_BYTES(manage_pages_in), &len);

	if (count > len / 8)
		return cmd_refuse(c, CMD_BAD_INPUT_LEN);
	if (count > HCA_PAGES - hca->page_count)
		return cmd_refuse(c, CMD_LIM_EXCEEDED);
	for (uint32_t i = 0; i < count; i++)
		if (be64_at(pas + 8 * i) % HCA_PAGE)
			return cmd_refuse(c, CMD_BAD_PARAM);
	for (uint32_t i = 0; i < count; i++)
		hca->pages[hca->page_count++] = be64_at(pas + 8 * i);
	return CMD_OK;
}

static enum cmd_status take_pages(struct hca *hca, struct cmd *c, uint32_t count)
{
	size_t room = (c->out_len - IFC_BYTES(manage_pages_out)) / 8;
	u8 *pas = c->out + IFC_BYTES(manage_pages_out);

	if (count > room)
		count = room;
	if (count > hca->page_count)
		count = hca->page_count;
	for (uint32_t i = 0; i < count; i++)
		put_be64(pas + 8 * i, hca->pages[--hca->page_count]);
	IFC_SET(manage_pages_out, c->out, output_num_entries, count);
	return CMD_OK;
}

static enum cmd_status cmd_manage_pages(struct hca *hca, struct cmd *c)
{
	uint32_t count = IFC_GET(manage_pages_in, c->in, input_num_entries);

	if (other_function(c))
		return cmd_refuse(c, CMD_BAD_PARAM);
	cmd_says(c, "%u pages, have %u", count, hca->page_count);
	switch (c->op_mod) {
	case MLX5_MANAGE_PAGES_IN_OP_MOD_ALLOCATION_FAIL:
		return CMD_OK;
	case MLX5_MANAGE_PAGES_IN_OP_MOD_ALLOCATION_SUCCESS:
		return give_pages(hca, c, count);
	case MLX5_MANAGE_PAGES_IN_OP_MOD_HCA_RETURN_PAGES:
		return take_pages(hca, c, count);
	default:
		return cmd_refuse(c, CMD_BAD_PARAM);
	}
}

static enum cmd_status cmd_query_adapter(struct hca *hca, struct cmd *c)
{
	static const char psid[16] = "MRFD_CONNECTX_01";
	void *p = IFC_PTR(query_adapter_out, c->out, query_adapter_struct);

	IFC_SET(query_adapter_param_block, p, ieee_vendor_id, 0x2c9);
	memcpy(IFC_PTR(query_adapter_param_block, p, vsd_contd_psid), psid, sizeof(psid));
	return CMD_OK;
}

/* For the trace only; the guest's bytes do not get to a terminal as they are. */
static enum cmd_status cmd_set_driver_version(struct hca *hca, struct cmd *c)
{
	char version[65] = "";

	memcpy(version, IFC_PTR(set_driver_version_in, c->in, driver_version), 64);
	for (char *p = version; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	cmd_says(c, "%s", version);
	return CMD_OK;
}

static enum cmd_status cmd_query_special_contexts(struct hca *hca, struct cmd *c)
{
	IFC_SET(query_special_contexts_out, c->out, resd_lkey, MKEY_RESERVED_LKEY);
	IFC_SET(query_special_contexts_out, c->out, null_mkey, MKEY_NULL);
	IFC_SET(query_special_contexts_out, c->out, dump_fill_mkey, MKEY_DUMP_FILL);
	return CMD_OK;
}

const struct cmd_op hca_ops[] = {
	CMD_OP(ENABLE_HCA, enable_hca, .early = true),
	CMD_OP(DISABLE_HCA, disable_hca, .early = true),
	CMD_OP(QUERY_ISSI, query_issi, .early = true),
	CMD_OP(SET_ISSI, set_issi, .early = true),
	CMD_OP(QUERY_PAGES, query_pages, .early = true),
	CMD_OP(MANAGE_PAGES, manage_pages, .early = true),
	CMD_OP(INIT_HCA, init_hca, .early = true),
	CMD_OP(TEARDOWN_HCA, teardown_hca),
	CMD_OP(QUERY_ADAPTER, query_adapter),
	CMD_OP(SET_DRIVER_VERSION, set_driver_version),
	CMD_OP(QUERY_SPECIAL_CONTEXTS, query_special_contexts),
	{ },
};
