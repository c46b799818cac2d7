// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The commands of the guest, laid out as mlx5_ifc.h has them, and the way through the
 * command queue and its mailboxes.  A command that is longer than the guest's mailboxes is
 * sent without the rest of its chain.
 */
#include "guest.h"
#include "devx.h"

#define SLOT 0u
#define BOX 1024u		/* from one mailbox to the next */
#define BOXES 16u		/* for input, and as many for output */
#define BOX_DATA 512u
#define BOX_NEXT 560u
#define BOX_NUMBER 568u
#define TOKEN 0x77
#define UNDELIVERED 0x100

void guest_init(struct guest *g, struct world *w)
{
	memset(g, 0, sizeof(*g));
	g->w = w;
}

void guest_read_changes(struct guest *g, struct input *in)
{
	u8 how = in8(in);

	g->changes = how & 0x80 ? how % CHANGES + 1 : 0;
	for (unsigned int i = 0; i < g->changes; i++) {
		g->change[i].at = in16(in);
		g->change[i].value = in8(in);
	}
}

void guest_apply_changes(struct guest *g, u8 *bytes, size_t len)
{
	for (unsigned int i = 0; i < g->changes && len; i++)
		bytes[g->change[i].at % len] ^= g->change[i].value;
	g->changes = 0;
}

void guest_command(struct guest *g, uint16_t op, uint16_t op_mod, size_t in_len, size_t out_len)
{
	g->in_len = in_len < sizeof(g->in) ? in_len : sizeof(g->in);
	g->out_len = out_len < sizeof(g->out) ? out_len : sizeof(g->out);
	memset(g->in, 0, sizeof(g->in));
	put_be16(g->in, op);
	put_be16(g->in + 2, g->uid);
	put_be16(g->in + 6, op_mod);
}

void guest_append64(struct guest *g, uint64_t value)
{
	if (g->in_len + 8 > sizeof(g->in))
		return;
	put_be64(g->in + g->in_len, value);
	g->in_len += 8;
}

/* A chain of mailboxes from box FIRST on; DATA may be NULL.  Its address, 0: none is needed. */
static uint64_t lay_boxes(unsigned int first, const u8 *data, size_t len)
{
	unsigned int count = (len + BOX_DATA - 1) / BOX_DATA;

	if (count > BOXES)
		count = BOXES;
	for (unsigned int i = 0; i < count; i++) {
		uint64_t addr = RAM_BOXES + (first + i) * BOX;
		u8 *box = ram_at(addr, BOX);
		size_t part = len - i * BOX_DATA < BOX_DATA ? len - i * BOX_DATA : BOX_DATA;

		if (data)
			memcpy(box, data + i * BOX_DATA, part);
		put_be64(box + BOX_NEXT, i + 1 < count ? addr + BOX : 0);
		put_be32(box + BOX_NUMBER, i);
		box[573] = TOKEN;
	}
	return count ? RAM_BOXES + first * BOX : 0;
}

static void take_output(struct guest *g, const u8 *entry)
{
	size_t inline_len = g->out_len < 16 ? g->out_len : 16;

	memcpy(g->out, entry + 32, inline_len);
	for (size_t done = 16, i = 0; done < g->out_len && i < BOXES; done += BOX_DATA, i++) {
		size_t left = g->out_len - done;

		memcpy(g->out + done, ram_at(RAM_BOXES + (BOXES + i) * BOX, BOX),
		       left < BOX_DATA ? left : BOX_DATA);
	}
}

unsigned int guest_run(struct guest *g)
{
	u8 *entry = ram_at(RAM_QUEUE + SLOT * 64, 64);
	size_t more_in = g->in_len > 16 ? g->in_len - 16 : 0;
	size_t more_out = g->out_len > 16 ? g->out_len - 16 : 0;

	guest_apply_changes(g, g->in, g->in_len);
	memset(entry, 0, 64);
	entry[0] = 7;
	put_be32(entry + 4, g->in_len);
	put_be64(entry + 8, lay_boxes(0, g->in + 16, more_in));
	memcpy(entry + 16, g->in, 16);
	put_be64(entry + 48, lay_boxes(BOXES, NULL, more_out));
	put_be32(entry + 56, g->out_len);
	entry[60] = TOKEN;
	entry[63] = 1;
	bar_put32(g->w, 0x10, 0);
	bar_put32(g->w, 0x14, RAM_QUEUE);
	bar_put32(g->w, 0x18, 1u << SLOT);
	if (entry[63])
		return UNDELIVERED;
	take_output(g, entry);
	return g->out[0];
}

int guest_create(struct guest *g, enum kind kind, uint32_t low_mask)
{
	unsigned int place = g->next[kind];

	if (guest_run(g))
		return -1;
	g->number[kind][place] = be32_at(g->out + 8) & low_mask;
	g->next[kind] = (place + 1) % GUEST_MAX;
	if (g->count[kind] < GUEST_MAX)
		g->count[kind]++;
	return place;
}

uint32_t guest_number(struct guest *g, enum kind kind, struct input *in)
{
	u8 which = in8(in);

	if (which == 0xff)
		return in32(in);
	return g->count[kind] ? g->number[kind][which % g->count[kind]] : which;
}

uint32_t guest_last(const struct guest *g, enum kind kind)
{
	return g->count[kind] ? g->number[kind][(g->next[kind] + GUEST_MAX - 1) % GUEST_MAX] : 0;
}

uint64_t guest_page(unsigned int n)
{
	return RAM_PAGES + n % RAM_PAGE_COUNT * 0x1000;
}

uint64_t guest_record(unsigned int n)
{
	return RAM_RECORDS + n % 0x200 * 8;
}

#define COMMAND(g, OP, op_mod, name) \
	guest_command(g, MLX5_CMD_OP_##OP, op_mod, IFC_BYTES(name##_in), IFC_BYTES(name##_out))

/* What mlx5_core does until it creates its first EQ. */
void guest_boot(struct guest *g)
{
	COMMAND(g, ENABLE_HCA, 0, enable_hca);
	guest_run(g);
	COMMAND(g, SET_ISSI, 0, set_issi);
	IFC_SET(set_issi_in, g->in, current_issi, 1);
	guest_run(g);
	COMMAND(g, INIT_HCA, 0, init_hca);
	guest_run(g);
}

int guest_make_number(struct guest *g, enum kind kind)
{
	switch (kind) {
	case UAR:
		COMMAND(g, ALLOC_UAR, 0, alloc_uar);
		break;
	case PD:
		COMMAND(g, ALLOC_PD, 0, alloc_pd);
		break;
	case UCTX:
		COMMAND(g, CREATE_UCTX, 0, create_uctx);
		break;
	default:
		COMMAND(g, ALLOC_XRCD, 0, alloc_xrcd);
		kind = XRCD;
	}
	return guest_create(g, kind, 0xffffff);
}

int guest_make_umem(struct guest *g, unsigned int page, unsigned int pages, u8 rights)
{
	void *ctx = IFC_PTR(create_umem_in, g->in, umem);
	int place;

	COMMAND(g, CREATE_UMEM, 0, create_umem);
	IFC_SET64(umem, ctx, num_of_mtt, pages);
	for (unsigned int i = 0; i < pages; i++)
		guest_append64(g, guest_page(page + i) | rights);
	place = guest_create(g, UMEM, 0xffffff);
	if (place >= 0)
		g->umem[place] = guest_page(page);
	return place;
}

/* Where the doorbell record of a queue in a umem lies: in its first page. */
static uint64_t umem_record(uint64_t record)
{
	return 0xe00 + record % 0x200;
}

int guest_make_eq(struct guest *g, unsigned int log_size, unsigned int vector, uint64_t events,
		  uint64_t page)
{
	void *eqc = IFC_PTR(create_eq_in, g->in, eq_context_entry);

	COMMAND(g, CREATE_EQ, 0, create_eq);
	IFC_SET(eqc, eqc, log_eq_size, log_size);
	IFC_SET(eqc, eqc, intr, vector);
	IFC_SET(eqc, eqc, uar_page, guest_last(g, UAR));
	IFC_SET64(create_eq_in, g->in, event_bitmask, events);
	guest_append64(g, page);
	guest_append64(g, page + 0x1000);
	return guest_create(g, EQ, 0xff);
}

int guest_make_cq(struct guest *g, const struct cq_spec *s)
{
	void *cqc = IFC_PTR(create_cq_in, g->in, cq_context);

	COMMAND(g, CREATE_CQ, 0, create_cq);
	IFC_SET(cqc, cqc, cqe_sz, s->big);
	IFC_SET(cqc, cqc, oi, s->ignore_overrun);
	IFC_SET(cqc, cqc, log_cq_size, s->log_size);
	IFC_SET(cqc, cqc, uar_page, guest_last(g, UAR));
	IFC_SET(cqc, cqc, cq_period, s->period);
	IFC_SET(cqc, cqc, cq_max_count, s->count);
	IFC_SET(cqc, cqc, c_eqn_or_apu_element, s->eq);
	IFC_SET64(cqc, cqc, dbr_addr, s->record);
	if (s->umem) {
		uint32_t number = g->number[UMEM][s->umem - 1];

		IFC_SET(create_cq_in, g->in, cq_umem_valid, 1);
		IFC_SET(cqc, cqc, dbr_umem_valid, 1);
		put_be32(g->in + CREATE_CQ_UMEM_ID, number);
		put_be64(g->in + CREATE_CQ_UMEM_OFFSET, s->page % 0x2000);
		put_be32((u8 *)cqc + CQC_DBR_UMEM_ID, number);
		IFC_SET64(cqc, cqc, dbr_addr, umem_record(s->record));
	}
	guest_append64(g, s->page);
	guest_append64(g, s->page + 0x1000);
	return guest_create(g, CQ, 0xffffff);
}

static void fill_rmp(struct guest *g, const struct srq_spec *s)
{
	void *rmpc = IFC_PTR(create_rmp_in, g->in, ctx);
	void *wq = IFC_PTR(rmpc, rmpc, wq);

	COMMAND(g, CREATE_RMP, 0, create_rmp);
	IFC_SET(rmpc, rmpc, state, MLX5_RMPC_STATE_RDY);
	IFC_SET(rmpc, rmpc, basic_cyclic_rcv_wqe, s->cyclic);
	IFC_SET(wq, wq, wq_type, s->cyclic ? MLX5_WQ_TYPE_CYCLIC : MLX5_WQ_TYPE_LINKED_LIST);
	IFC_SET(wq, wq, log_wq_sz, s->log_size);
	IFC_SET(wq, wq, log_wq_stride, s->log_stride);
	IFC_SET(wq, wq, lwm, s->limit);
	IFC_SET(wq, wq, pd, s->pd);
	IFC_SET64(wq, wq, dbr_addr, s->record);
	if (s->umem) {
		uint32_t number = g->number[UMEM][s->umem - 1];

		IFC_SET(wq, wq, wq_umem_valid, 1);
		IFC_SET(wq, wq, wq_umem_id, number);
		IFC_SET64(wq, wq, wq_umem_offset, s->page % 0x2000);
		IFC_SET(wq, wq, dbr_umem_valid, 1);
		IFC_SET(wq, wq, dbr_umem_id, number);
		IFC_SET64(wq, wq, dbr_addr, umem_record(s->record));
	}
}

static void fill_xrc_srq(struct guest *g, const struct srq_spec *s)
{
	void *xrc = IFC_PTR(create_xrc_srq_in, g->in, xrc_srq_context_entry);

	COMMAND(g, CREATE_XRC_SRQ, 0, create_xrc_srq);
	IFC_SET(xrc_srqc, xrc, log_xrc_srq_size, s->log_size);
	IFC_SET(xrc_srqc, xrc, log_rq_stride, s->log_stride > 4 ? s->log_stride - 4 : 0);
	IFC_SET(xrc_srqc, xrc, xrcd, s->xrcd);
	IFC_SET(xrc_srqc, xrc, cqn, s->cq);
	IFC_SET(xrc_srqc, xrc, pd, s->pd);
	IFC_SET(xrc_srqc, xrc, lwm, s->limit);
	IFC_SET(xrc_srqc, xrc, user_index, s->user_index);
	IFC_SET(xrc_srqc, xrc, db_record_addr_l, s->record >> 2);
}

int guest_make_srq(struct guest *g, const struct srq_spec *s)
{
	uint64_t record = s->record, page = s->page;
	struct guest_queue *q;
	int place;

	if (s->umem && !s->xrc) {
		record = g->umem[s->umem - 1] + umem_record(s->record);
		page = g->umem[s->umem - 1] + s->page % 0x2000;
	}
	if (s->xrc)
		fill_xrc_srq(g, s);
	else
		fill_rmp(g, s);
	guest_append64(g, s->page);
	guest_append64(g, s->page + 0x1000);
	place = guest_create(g, s->xrc ? XSRQ : SRQ, 0xffffff);
	if (place < 0)
		return place;
	q = s->xrc ? &g->xsrq[place] : &g->srq[place];
	*q = (struct guest_queue){
		.record = record, .recv = page, .recv_size = 1u << s->log_size,
		.recv_stride = 1u << s->log_stride,
	};
	return place;
}

int guest_make_qp(struct guest *g, const struct qp_spec *s)
{
	void *qpc = IFC_PTR(create_qp_in, g->in, qpc);
	uint64_t start = s->page + s->page_offset * 64, record = s->record;
	int place;

	COMMAND(g, CREATE_QP, 0, create_qp);
	IFC_SET(qpc, qpc, st, s->st);
	IFC_SET(qpc, qpc, pm_state, 3);
	IFC_SET(qpc, qpc, pd, s->pd);
	IFC_SET(qpc, qpc, rlky, s->privileged);
	IFC_SET(qpc, qpc, rq_type, s->rq_type);
	IFC_SET(qpc, qpc, log_rq_size, s->log_rq);
	IFC_SET(qpc, qpc, log_rq_stride, s->log_rq_stride);
	IFC_SET(qpc, qpc, no_sq, s->no_sq);
	IFC_SET(qpc, qpc, log_sq_size, s->log_sq);
	IFC_SET(qpc, qpc, page_offset, s->page_offset);
	IFC_SET(qpc, qpc, uar_page, guest_last(g, UAR));
	IFC_SET(qpc, qpc, user_index, s->user_index);
	IFC_SET(qpc, qpc, xrcd, s->xrcd);
	IFC_SET(qpc, qpc, cqn_snd, s->send_cq);
	IFC_SET(qpc, qpc, cqn_rcv, s->recv_cq);
	IFC_SET(qpc, qpc, srqn_rmpn_xrqn, s->srq);
	IFC_SET(qpc, qpc, cs_res, s->cs_res);
	IFC_SET64(qpc, qpc, dbr_addr, s->record);
	if (s->umem) {
		uint32_t number = g->number[UMEM][s->umem - 1];

		IFC_SET(create_qp_in, g->in, wq_umem_valid, 1);
		IFC_SET(create_qp_in, g->in, wq_umem_id, number);
		IFC_SET64(create_qp_in, g->in, wq_umem_offset, s->page_offset * 64);
		IFC_SET(qpc, qpc, dbr_umem_valid, 1);
		put_be32((u8 *)qpc + QPC_DBR_UMEM_ID, number);
		IFC_SET64(qpc, qpc, dbr_addr, umem_record(s->record));
		start = g->umem[s->umem - 1] + s->page_offset * 64;
		record = g->umem[s->umem - 1] + umem_record(s->record);
	}
	guest_append64(g, s->page);
	guest_append64(g, s->page + 0x1000);
	place = guest_create(g, QP, 0xffffff);
	if (place < 0)
		return place;
	g->qp[place] = (struct guest_queue){
		.record = record, .recv = start, .uar = guest_last(g, UAR), .st = s->st,
		.recv_size = s->rq_type ? 0 : 1u << s->log_rq,
		.recv_stride = 16u << s->log_rq_stride,
		.send_blocks = s->no_sq ? 0 : 1u << s->log_sq,
	};
	g->qp[place].send = start + g->qp[place].recv_size * g->qp[place].recv_stride;
	return place;
}

int guest_make_dct(struct guest *g, const struct dct_spec *s)
{
	void *dctc = IFC_PTR(create_dct_in, g->in, dct_context_entry);

	COMMAND(g, CREATE_DCT, 0, create_dct);
	IFC_SET(dctc, dctc, pd, s->pd);
	IFC_SET(dctc, dctc, cqn, s->cq);
	IFC_SET(dctc, dctc, srqn_xrqn, s->srq);
	IFC_SET(dctc, dctc, user_index, s->user_index);
	IFC_SET(dctc, dctc, mtu, s->mtu);
	IFC_SET(dctc, dctc, rre, s->access & 1);
	IFC_SET(dctc, dctc, rwe, s->access >> 1 & 1);
	IFC_SET(dctc, dctc, rae, s->access >> 2 & 1);
	IFC_SET(dctc, dctc, min_rnr_nak, s->rnr_timer);
	IFC_SET(dctc, dctc, cs_res, s->cs_res);
	IFC_SET(dctc, dctc, port, 1);
	IFC_SET64(dctc, dctc, dc_access_key, SETUP_DC_KEY);
	return guest_create(g, DCT, 0xffffff);
}

static void fill_key(struct guest *g, const struct key_spec *s)
{
	void *mkc = IFC_PTR(create_mkey_in, g->in, memory_key_mkey_entry);

	IFC_SET(create_mkey_in, g->in, pg_access, s->pg_access);
	IFC_SET(mkc, mkc, free, s->free);
	IFC_SET(mkc, mkc, umr_en, s->umr);
	IFC_SET(mkc, mkc, access_mode_1_0, s->mode & 3);
	IFC_SET(mkc, mkc, access_mode_4_2, s->mode >> 2);
	IFC_SET(mkc, mkc, lr, s->rights & 1);
	IFC_SET(mkc, mkc, lw, s->rights >> 1 & 1);
	IFC_SET(mkc, mkc, rr, s->rights >> 2 & 1);
	IFC_SET(mkc, mkc, rw, s->rights >> 3 & 1);
	IFC_SET(mkc, mkc, a, s->rights >> 4 & 1);
	IFC_SET(mkc, mkc, qpn, s->qpn);
	IFC_SET(mkc, mkc, mkey_7_0, s->variant);
	IFC_SET(mkc, mkc, length64, s->length64);
	IFC_SET(mkc, mkc, en_rinval, s->remote_invalidate);
	IFC_SET(mkc, mkc, pd, s->pd);
	IFC_SET64(mkc, mkc, start_addr, s->start);
	IFC_SET64(mkc, mkc, len, s->length);
	IFC_SET(mkc, mkc, log_page_size, s->log_page);
	IFC_SET(mkc, mkc, translations_octword_size, s->octowords);
	IFC_SET(create_mkey_in, g->in, translations_octword_actual_size, (s->words + 1) / 2);
}

int guest_make_key(struct guest *g, const struct key_spec *s)
{
	int place;

	COMMAND(g, CREATE_MKEY, 0, create_mkey);
	fill_key(g, s);
	for (unsigned int i = 0; i < (s->words + 1) / 2 * 2; i++)
		guest_append64(g, i < s->words ? s->list[i] : 0);
	place = guest_create(g, MKEY, 0xffffff);
	if (place >= 0)
		g->key[place] = (struct guest_key){
			.key = g->number[MKEY][place] << 8 | s->variant,
			.start = s->start, .length = s->length,
		};
	return place;
}

unsigned int guest_move_qp(struct guest *g, uint16_t op, uint32_t qpn, const struct move_spec *s)
{
	void *qpc = IFC_PTR(rst2init_qp_in, g->in, qpc);
	void *ads = IFC_PTR(qpc, qpc, primary_address_path);

	guest_command(g, op, 0, IFC_BYTES(rst2init_qp_in), IFC_BYTES(rst2init_qp_out));
	IFC_SET(rst2init_qp_in, g->in, qpn, qpn);
	IFC_SET(rst2init_qp_in, g->in, opt_param_mask, s->mask);
	IFC_SET(ads, ads, vhca_port_num, 1);
	IFC_SET(ads, ads, rlid, s->lid);
	IFC_SET(ads, ads, grh, s->global);
	IFC_SET(ads, ads, ack_timeout, s->ack_timeout);
	IFC_SET(qpc, qpc, mtu, s->mtu);
	IFC_SET(qpc, qpc, remote_qpn, s->remote_qpn);
	IFC_SET(qpc, qpc, pm_state, 3);
	IFC_SET(qpc, qpc, q_key, s->qkey);
	IFC_SET(qpc, qpc, next_send_psn, s->send_psn);
	IFC_SET(qpc, qpc, next_rcv_psn, s->recv_psn);
	IFC_SET(qpc, qpc, retry_count, s->retries);
	IFC_SET(qpc, qpc, rnr_retry, s->rnr_retries);
	IFC_SET(qpc, qpc, min_rnr_nak, s->rnr_timer);
	IFC_SET(qpc, qpc, log_sra_max, s->log_reads);
	IFC_SET(qpc, qpc, log_rra_max, s->log_reads);
	IFC_SET(qpc, qpc, rre, s->access & 1);
	IFC_SET(qpc, qpc, rwe, s->access >> 1 & 1);
	IFC_SET(qpc, qpc, rae, s->access >> 2 & 1);
	return guest_run(g);
}

void guest_connect(struct guest *g, uint32_t qpn, uint32_t remote, const struct move_spec *s)
{
	static const uint16_t ops[] = {
		MLX5_CMD_OP_RST2INIT_QP, MLX5_CMD_OP_INIT2RTR_QP, MLX5_CMD_OP_RTR2RTS_QP,
	};
	struct move_spec m = *s;

	m.remote_qpn = remote;
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
		guest_move_qp(g, ops[i], qpn, &m);
}
