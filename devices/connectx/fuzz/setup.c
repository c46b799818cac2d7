// SPDX-License-Identifier: GPL-2.0-or-later
/* A device on which everything that carries traffic is set up already. */
#include "program.h"
#include "mkey.h"

#define PAGE_KEYS 8		/* pages that the MTT keys name */

enum { RC_A, RC_B, UC_A, UC_B, UD_A, UD_B, XRC_INI, XRC_TGT, SRQ_A, SRQ_B, UMR_QP, GSI_QP,
       DCI_A, DCI_B, SETUP_QPS };
enum { PAGES_QP = 0, PAGES_CQ = 14, PAGES_EQ = 18, PAGES_SRQ = 20 };

void setup_driver(struct guest *g)
{
	struct cq_spec cq = { .log_size = 6, .record = guest_record(32),
			      .page = guest_page(PAGES_CQ) };

	guest_boot(g);
	guest_make_number(g, UAR);
	guest_make_number(g, PD);
	guest_make_number(g, XRCD);
	g->uid = UID_SHARED;	/* as mlx5_core does for the EQs of completions */
	guest_make_eq(g, 6, 1, ~0ull, guest_page(PAGES_EQ));
	g->uid = 0;
	cq.eq = guest_last(g, EQ);
	guest_make_cq(g, &cq);
}

static void setup_keys(struct guest *g)
{
	uint64_t pages[PAGE_KEYS], klm[4];
	struct key_spec s = {
		.mode = MLX5_MKC_ACCESS_MODE_MTT, .rights = 31, .pd = guest_last(g, PD),
		.qpn = 0xffffff, .start = 0x10000, .length = PAGE_KEYS * 0x1000,
		.log_page = 12, .octowords = PAGE_KEYS / 2, .words = PAGE_KEYS, .list = pages,
		.umr = true, .remote_invalidate = true, .pg_access = true,
	};

	for (unsigned int i = 0; i < PAGE_KEYS; i++)
		pages[i] = (RAM_DATA + (i * 5 % 14) * 0x1000) | 3;
	pages[0] = RAM_NOWHERE | 3;
	guest_make_key(g, &s);				/* all there, one far away */
	pages[1] = pages[5] = 0;
	pages[2] &= ~2ull;
	guest_make_key(g, &s);				/* pages absent, and one not writable */
	klm[0] = 0x800ull << 32 | g->key[0].key;
	klm[1] = 0x10100;
	klm[2] = 0x1000ull << 32 | g->key[1].key;
	klm[3] = 0x10f00;
	s.mode = MLX5_MKC_ACCESS_MODE_KLMS;
	s.start = 0;
	s.length = 0x1800;
	s.octowords = 4;
	s.words = 4;
	s.list = klm;
	guest_make_key(g, &s);
	s.mode = MLX5_MKC_ACCESS_MODE_KSM;
	s.length = 0x2000;
	klm[0] = g->key[1].key;
	klm[2] = MKEY_NULL;
	klm[1] = klm[3] = 0x10000;
	guest_make_key(g, &s);
	s = (struct key_spec){ .mode = MLX5_MKC_ACCESS_MODE_PA, .rights = 31, .length64 = true,
			       .pd = guest_last(g, PD), .qpn = 0xffffff };
	guest_make_key(g, &s);
	g->key[4].start = RAM_DATA;			/* the guest's own idea of it */
	g->key[4].length = RAM_DATA_SIZE;
	s = (struct key_spec){ .mode = MLX5_MKC_ACCESS_MODE_MTT, .umr = true, .free = true,
			       .pd = guest_last(g, PD), .qpn = 0xffffff, .octowords = 4,
			       .log_page = 12, .variant = 0x33 };
	guest_make_key(g, &s);				/* for UMR to fill */
	s.mode = MLX5_MKC_ACCESS_MODE_KLMS;
	guest_make_key(g, &s);
}

static void setup_srqs(struct guest *g)
{
	struct srq_spec s = {
		.pd = guest_last(g, PD), .xrcd = guest_last(g, XRCD), .cq = guest_last(g, CQ),
		.log_size = 4, .log_stride = 6, .record = guest_record(48),
		.page = guest_page(PAGES_SRQ), .user_index = 0x77,
	};

	guest_make_srq(g, &s);
	s.xrc = true;
	s.record = guest_record(49);
	s.page = guest_page(PAGES_SRQ + 1);
	guest_make_srq(g, &s);
}

static void setup_qps(struct guest *g, u8 without)
{
	static const struct { u8 st, rq_type; bool no_sq, privileged; } kinds[SETUP_QPS] = {
		[RC_A] = { .st = MLX5_QPC_ST_RC },
		[RC_B] = { .st = MLX5_QPC_ST_RC, .privileged = true },
		[UC_A] = { .st = MLX5_QPC_ST_UC }, [UC_B] = { .st = MLX5_QPC_ST_UC },
		[UD_A] = { .st = MLX5_QPC_ST_UD }, [UD_B] = { .st = MLX5_QPC_ST_UD },
		[XRC_INI] = { .st = MLX5_QPC_ST_XRC, .rq_type = 1 },
		[XRC_TGT] = { .st = MLX5_QPC_ST_XRC, .rq_type = 1, .no_sq = true },
		[SRQ_A] = { .st = MLX5_QPC_ST_RC, .rq_type = 1 },
		[SRQ_B] = { .st = MLX5_QPC_ST_RC, .rq_type = 1 },
		[UMR_QP] = { .st = MLX5_QPC_ST_REG_UMR, .rq_type = 3, .privileged = true },
		[GSI_QP] = { .st = MLX5_QPC_ST_QP1, .privileged = true },
		[DCI_A] = { .st = MLX5_QPC_ST_DCI, .rq_type = 1 },
		[DCI_B] = { .st = MLX5_QPC_ST_DCI, .rq_type = 1 },
	};

	for (unsigned int i = 0; i < SETUP_QPS; i++) {
		struct qp_spec s = {
			.st = kinds[i].st, .rq_type = kinds[i].rq_type, .no_sq = kinds[i].no_sq,
			.privileged = kinds[i].privileged, .pd = guest_last(g, PD),
			.xrcd = guest_last(g, XRCD), .send_cq = guest_last(g, CQ),
			.recv_cq = guest_last(g, CQ), .srq = guest_last(g, SRQ),
			.user_index = i == RC_A ? 0xffffff : i, .cs_res = i == RC_B ? 1 : 0,
			.log_rq = 4, .log_rq_stride = 2, .log_sq = 5,
			.record = guest_record(i), .page = guest_page(PAGES_QP + i),
		};

		if (!(without >> i / 2 & 1))
			must(guest_make_qp(g, &s) >= 0);
	}
}

/* Two, so that an initiator may go from one to the other. */
static void setup_dcts(struct guest *g)
{
	struct dct_spec s = {
		.pd = guest_last(g, PD), .cq = guest_last(g, CQ), .srq = guest_last(g, SRQ),
		.user_index = 0x66, .mtu = 1, .access = 7, .rnr_timer = 1,
	};

	must(guest_make_dct(g, &s) >= 0);
	s.cs_res = MLX5_DCTC_CS_RES_UP_TO_64B;
	must(guest_make_dct(g, &s) >= 0);
}

static void setup_paths(struct guest *g)
{
	const struct move_spec s = {
		.qkey = SETUP_QKEY, .send_psn = 0xfffffe, .recv_psn = 0xfffffe, .mtu = 1,
		.retries = 3, .rnr_retries = 2, .rnr_timer = 1, .ack_timeout = 1, .log_reads = 2,
		.access = 7, .lid = g->w->hca->port.lid,
	};

	for (unsigned int i = 0; i < g->count[QP]; i++)
		guest_connect(g, g->number[QP][i], g->number[QP][i ^ 1], &s);
}

/* 800 bytes each: all there; a page absent; a list of other keys. */
static void setup_receives(struct guest *g)
{
	static const u8 wqes[][5] = { { 0, 0, 0, 0, 200 }, { 0, 1, 0x80, 0x0f, 200 },
				      { 0, 2, 0, 0, 200 } };

	for (unsigned int i = 0; i < 3; i++) {
		for (unsigned int n = 0; n < g->count[QP]; n++)
			guest_post_recv(g, &g->qp[n], false, &(struct input){ wqes[i], 5 });
		guest_post_recv(g, &g->srq[0], true, &(struct input){ wqes[i], 5 });
		guest_post_recv(g, &g->xsrq[0], true, &(struct input){ wqes[i], 5 });
	}
}

void setup_traffic(struct guest *g, u8 without)
{
	setup_driver(g);
	setup_keys(g);
	setup_srqs(g);
	setup_qps(g, without);
	if (!(without >> DCI_A / 2 & 1))
		setup_dcts(g);
	setup_paths(g);
	setup_receives(g);
}
