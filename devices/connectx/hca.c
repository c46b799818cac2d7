// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The device as a whole: its memory, the commands that start and stop it, and the objects
 * that are a number only (UAR, PD, transport domain, XRC domain).  Layouts: mlx5_ifc.h.
 *
 * The driver goes ENABLE_HCA, SET_ISSI, pages, SET_HCA_CAP, INIT_HCA, and back by
 * TEARDOWN_HCA and DISABLE_HCA.  Each way down frees all objects, users first, so no
 * pointer outlives what it points to, however the guest went.
 */
#include "event.h"
#include "mkey.h"
#include "qp.h"
#include "srq.h"

/* We need none of these pages; a firmware does, so the driver's code for it gets run. */
#define BOOT_PAGES 16

/* Memory. */

/* The allocator's own cost, so that many small objects are counted fairly. */
#define ALLOC_COST 32

void *hca_alloc(struct hca *hca, size_t bytes)
{
	if (bytes > HCA_MEMORY - ALLOC_COST || hca->memory > HCA_MEMORY - ALLOC_COST - bytes)
		return NULL;
	return hca_alloc_beyond(hca, bytes);
}

void *hca_alloc_beyond(struct hca *hca, size_t bytes)
{
	void *p = calloc(1, bytes ? bytes : 1);

	if (p)
		hca->memory += bytes + ALLOC_COST;
	return p;
}

void hca_free_memory(struct hca *hca, void *p, size_t bytes)
{
	if (!p)
		return;
	hca->memory -= bytes + ALLOC_COST;
	free(p);
}

/* Life. */

static void uar_free(void *arg, void *object)
{
	hca_free_memory(arg, object, sizeof(struct uar));
}

static void number_free(void *arg, void *object)
{
	hca_free_memory(arg, object, sizeof(struct number));
}

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
	table_clear(&hca->uars, uar_free, hca);
	table_clear(&hca->pds, number_free, hca);
	table_clear(&hca->tds, number_free, hca);
	table_clear(&hca->xrcds, number_free, hca);
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
	cmd_reset(&hca->cmd);
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

struct hca *hca_new(struct loop *loop, struct dma *dma, uint64_t guid)
{
	struct hca *hca = calloc(1, sizeof(*hca));

	if (!hca)
		return NULL;
	hca->loop = loop;
	hca->dma = dma;
	hca->guid = guid;
	hca->cmd.hca = hca;
	hca->stats.began = stats_clock();
	bar_init(hca);
	init_tables(hca);
	caps_init(hca);
	port_init(hca);
	memic_init(hca);
	mcg_init(hca);
	if (!hca->caps || !hca->memic || !hca->memic_state || !hca->mcg) {
		caps_free(hca);
		free(hca->memic_state);
		free(hca->memic);
		free(hca->mcg);
		free(hca);
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
	caps_free(hca);
	free(hca->memic_state);
	free(hca->memic);
	free(hca->mcg);
	free(hca);
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

/* Commands: numbers. */

struct uar *hca_uar(const struct hca *hca, uint16_t uid, uint32_t number)
{
	struct uar *uar = table_get(&hca->uars, number);

	return uar && !uar->closed && uid_owns(uid, uar->uid) ? uar : NULL;
}

void hca_uar_put(struct hca *hca, struct uar *uar)
{
	if (!--uar->users && uar->closed)
		uar_free(hca, table_del(&hca->uars, uar->number));
}

static bool number_valid(const struct table *t, uint16_t uid, uint32_t number)
{
	const struct number *n = table_get(t, number);

	return n && uid_owns(uid, n->uid);
}

bool hca_pd_valid(const struct hca *hca, uint16_t uid, uint32_t pd)
{
	return number_valid(&hca->pds, uid, pd);
}

bool hca_xrcd_valid(const struct hca *hca, uint16_t uid, uint32_t xrcd)
{
	return number_valid(&hca->xrcds, uid, xrcd);
}

bool hca_xrcd_of_driver(const struct hca *hca, uint32_t xrcd)
{
	const struct number *n = table_get(&hca->xrcds, xrcd);

	return n && !n->uid;
}

/*
 * Users are looked for when a number is freed, which is rare: so no other file has to
 * keep a count right through every change of an mkey's or a QP's PD.
 */
static bool pd_used(const struct hca *hca, uint32_t pd)
{
	struct mkey *mkey;
	struct srq *srq;
	struct qp *qp;

	table_each(&hca->qps, n, qp)
		if (qp->pd == pd)
			return true;
	table_each(&hca->srqs, n, srq)
		if (srq->pd == pd)
			return true;
	table_each(&hca->mkeys, n, mkey)
		if (mkey->pd == pd)
			return true;
	return false;
}

static bool xrcd_used(const struct hca *hca, uint32_t xrcd)
{
	struct srq *srq;
	struct qp *qp;

	table_each(&hca->qps, n, qp)
		if (qp->xrcd == xrcd)
			return true;
	table_each(&hca->srqs, n, srq)
		if (srq->xrc && srq->xrcd == xrcd)
			return true;
	return false;
}

static enum cmd_status cmd_alloc_uar(struct hca *hca, struct cmd *c)
{
	struct uar *uar = hca_alloc(hca, sizeof(*uar));
	int64_t number;

	if (!uar)
		return cmd_refuse(c, CMD_NO_RESOURCES);
	uar->uid = c->uid;
	number = table_add(&hca->uars, uar);
	if (number < 0) {
		uar_free(hca, uar);
		return cmd_refuse(c, CMD_LIM_EXCEEDED);
	}
	uar->number = number;
	IFC_SET(alloc_uar_out, c->out, uar, number);
	cmd_says(c, "UAR %#x", (unsigned int)number);
	return CMD_OK;
}

/*
 * A page in use is not refused.  A process that closes its device with CQs left gives the
 * page back first, and the driver does not look at the answer (mlx5_ib_mmap_free()): it
 * would be lost.  So it is closed now, and its number is free when its users are gone.
 */
static enum cmd_status cmd_dealloc_uar(struct hca *hca, struct cmd *c)
{
	uint32_t number = IFC_GET(dealloc_uar_in, c->in, uar);
	struct uar *uar = hca_uar(hca, c->uid, number);

	cmd_says(c, "UAR %#x", number);
	if (!uar)
		return cmd_refuse(c, CMD_BAD_RES);
	uar->closed = true;
	uar->users++;
	hca_uar_put(hca, uar);
	return CMD_OK;
}

/* *NUMBER is left alone if there is none. */
static enum cmd_status alloc_number(struct hca *hca, struct cmd *c, struct table *t,
				    uint32_t *number)
{
	struct number *object = hca_alloc(hca, sizeof(*object));
	int64_t n;

	if (!object)
		return cmd_refuse(c, CMD_NO_RESOURCES);
	object->uid = c->uid;
	n = table_add(t, object);
	if (n < 0) {
		number_free(hca, object);
		return cmd_refuse(c, CMD_LIM_EXCEEDED);
	}
	*number = n;
	cmd_says(c, "%#x", *number);
	return CMD_OK;
}

static enum cmd_status dealloc_number(struct hca *hca, struct cmd *c, struct table *t,
				      uint32_t number,
				      bool (*used)(const struct hca *hca, uint32_t number))
{
	cmd_says(c, "%#x", number);
	if (!number_valid(t, c->uid, number))
		return cmd_refuse(c, CMD_BAD_RES);
	if (used && used(hca, number))
		return cmd_refuse(c, CMD_BAD_RES_STATE);
	number_free(hca, table_del(t, number));
	return CMD_OK;
}

static enum cmd_status cmd_alloc_pd(struct hca *hca, struct cmd *c)
{
	uint32_t number = 0;
	enum cmd_status status = alloc_number(hca, c, &hca->pds, &number);

	IFC_SET(alloc_pd_out, c->out, pd, number);
	return status;
}

static enum cmd_status cmd_dealloc_pd(struct hca *hca, struct cmd *c)
{
	return dealloc_number(hca, c, &hca->pds, IFC_GET(dealloc_pd_in, c->in, pd), pd_used);
}

static enum cmd_status cmd_alloc_transport_domain(struct hca *hca, struct cmd *c)
{
	uint32_t number = 0;
	enum cmd_status status = alloc_number(hca, c, &hca->tds, &number);

	IFC_SET(alloc_transport_domain_out, c->out, transport_domain, number);
	return status;
}

/* Only TIRs and TISs use a transport domain, and there are none. */
static enum cmd_status cmd_dealloc_transport_domain(struct hca *hca, struct cmd *c)
{
	uint32_t number = IFC_GET(dealloc_transport_domain_in, c->in, transport_domain);

	return dealloc_number(hca, c, &hca->tds, number, NULL);
}

static enum cmd_status cmd_alloc_xrcd(struct hca *hca, struct cmd *c)
{
	uint32_t number = 0;
	enum cmd_status status = alloc_number(hca, c, &hca->xrcds, &number);

	IFC_SET(alloc_xrcd_out, c->out, xrcd, number);
	return status;
}

static enum cmd_status cmd_dealloc_xrcd(struct hca *hca, struct cmd *c)
{
	return dealloc_number(hca, c, &hca->xrcds, IFC_GET(dealloc_xrcd_in, c->in, xrcd),
			      xrcd_used);
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
	CMD_OP(ALLOC_UAR, alloc_uar),
	CMD_OP(DEALLOC_UAR, dealloc_uar),
	CMD_OP(ALLOC_PD, alloc_pd),
	CMD_OP(DEALLOC_PD, dealloc_pd),
	CMD_OP(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain),
	CMD_OP(DEALLOC_TRANSPORT_DOMAIN, dealloc_transport_domain),
	CMD_OP(ALLOC_XRCD, alloc_xrcd),
	CMD_OP(DEALLOC_XRCD, dealloc_xrcd),
	{ },
};
