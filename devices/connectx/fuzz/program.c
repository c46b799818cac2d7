// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The steps of a program: commands, known and unknown; work requests; stores to guest memory
 * and to the BAR; time.  A step takes what it needs from the input, so that a change of one
 * byte changes one thing.
 */
#include "program.h"
#include "check.h"
#include "clock.h"
#include "bar.h"
#include "cmdif.h"
#include "life.h"
#include "memic.h"
#include "pci.h"

#define COMMAND(g, OP, op_mod, name) \
	guest_command(g, MLX5_CMD_OP_##OP, op_mod, IFC_BYTES(name##_in), IFC_BYTES(name##_out))

static const struct cmd_op *nth_op(unsigned int n)
{
	for (;;) {
		for (const struct cmd_op *const *t = cmd_tables; *t; t++)
			for (const struct cmd_op *o = *t; o->name; o++)
				if (!n--)
					return o;
	}
}

/* Any command that there is, with an object's number where most have theirs. */
static void any_command(struct guest *g, struct input *in)
{
	const struct cmd_op *op = nth_op(in8(in) % 80);
	u8 how = in8(in), len = in8(in);

	guest_command(g, op->op, how & 1 ? in16(in) : 0, op->in_len + len % 32 * 8,
		      op->out_len + (len >> 5) * 96);
	in_bytes(in, g->in + 8, how >> 4);
	if (how & 2)
		put_be32(g->in + 8, guest_number(g, in8(in) % KINDS, in));
	if (how & 4)
		g->in_len -= g->in_len < len % 64 ? g->in_len : len % 64;
	if (how & 8)
		put_be16(g->in + 2, in8(in) | (len & 0x10 ? 0xff00 : 0));	/* uid */
	guest_run(g);
}

/* A queue entry of which nothing is sure. */
static void any_entry(struct guest *g, struct input *in)
{
	unsigned int slot = in8(in) % 32, len = in8(in);
	u8 *entry = ram_at(RAM_QUEUE + slot * 64, 64);

	if (in8(in) & 1)
		memcpy(entry, ram_at(RAM_QUEUE, 64), 64);
	in_bytes(in, entry + len % 64, 64 - len % 64);
	entry[0] = 7;
	entry[63] = 1;
	bar_put32(g->w, 0x14, RAM_QUEUE | (len & 0x80 ? in8(in) << 8 : 0));
	bar_put32(g->w, 0x18, 1u << slot | (len & 0x40 ? in32(in) : 0));
}

static uint64_t events_of(struct input *in)
{
	u8 how = in8(in);

	return how < 0xc0 ? ~0ull : how < 0xe0 ? 1ull << how % 64 : in64(in);
}

/* For a spec: a place + 1, or 0. */
static unsigned int some_umem(struct guest *g, struct input *in)
{
	u8 which = in8(in);

	return g->count[UMEM] ? which % g->count[UMEM] + 1 : 0;
}

static void make_something(struct guest *g, struct input *in)
{
	u8 what = in8(in), log_size = in8(in);

	switch (what % 8) {
	case 0:
		guest_make_number(g, log_size % 4 == 3 ? UCTX : UAR + log_size % 4);
		break;
	case 1:
		guest_make_eq(g, log_size % 8, in8(in) % 20, events_of(in), guest_page(in8(in)));
		break;
	case 2:
	case 3: {
		struct cq_spec s = {
			.eq = guest_number(g, EQ, in), .log_size = log_size % 8,
			.big = what & 8, .ignore_overrun = what & 16,
			.count = what & 32 ? in8(in) : 0, .period = what & 32 ? in16(in) : 0,
			.record = guest_record(in8(in)), .page = guest_page(in8(in)),
			.umem = log_size & 0x80 ? some_umem(g, in) : 0,
		};

		guest_make_cq(g, &s);
		break;
	}
	case 4:
		guest_make_umem(g, in8(in), log_size % 5, what & 8 ? in8(in) % 8 : 3);
		break;
	default: {
		struct srq_spec s = {
			.xrc = what & 8, .cyclic = what & 16, .pd = guest_number(g, PD, in),
			.xrcd = guest_number(g, XRCD, in), .cq = guest_number(g, CQ, in),
			.log_size = log_size % 6, .log_stride = 5 + log_size / 8 % 5,
			.limit = in8(in), .user_index = in8(in), .record = guest_record(in8(in)),
			.page = guest_page(in8(in)), .umem = what & 32 ? some_umem(g, in) : 0,
		};

		guest_make_srq(g, &s);
	}
	}
}

static void make_qp(struct guest *g, struct input *in)
{
	static const u8 sts[] = {
		MLX5_QPC_ST_RC, MLX5_QPC_ST_UC, MLX5_QPC_ST_UD, MLX5_QPC_ST_XRC,
		MLX5_QPC_ST_REG_UMR, MLX5_QPC_ST_QP0, MLX5_QPC_ST_QP1, MLX5_QPC_ST_DCI,
	};
	static const u8 types[] = { 0, 1, 3, 0 };
	u8 what = in8(in), sizes = in8(in), page = in8(in);
	struct qp_spec s = {
		.st = sts[what % sizeof(sts)], .rq_type = types[what >> 3 & 3],
		.no_sq = what >> 5 & 1, .privileged = what >> 6 & 1, .cs_res = what >> 7,
		.pd = guest_number(g, PD, in), .xrcd = guest_number(g, XRCD, in),
		.send_cq = guest_number(g, CQ, in), .recv_cq = guest_number(g, CQ, in),
		.srq = guest_number(g, SRQ, in), .log_rq = sizes & 7,
		.log_rq_stride = sizes >> 3 & 3, .log_sq = sizes >> 5,
		.user_index = sizes & 1 ? 0xffffff : sizes, .record = guest_record(page),
		.page = guest_page(page), .page_offset = page >> 5,
		.umem = page & 0x10 ? some_umem(g, in) : 0,
	};

	guest_make_qp(g, &s);
}

static void make_dct(struct guest *g, struct input *in)
{
	u8 how = in8(in);
	struct dct_spec s = {
		.pd = guest_number(g, PD, in), .cq = guest_number(g, CQ, in),
		.srq = guest_number(g, SRQ, in), .user_index = in8(in), .mtu = 1 + how % 5,
		.access = how >> 5, .rnr_timer = in8(in) & 31, .cs_res = how & 8 ? 2 : 0,
	};

	guest_make_dct(g, &s);
}

/* Of 18, one is where only the client reaches it, and one where nobody does. */
static uint64_t key_page(unsigned int n)
{
	return n == 17 ? RAM_NOWHERE : RAM_DATA + n * 0x1000;
}

static void make_key(struct guest *g, struct input *in)
{
	static const u8 modes[] = {
		MLX5_MKC_ACCESS_MODE_MTT, MLX5_MKC_ACCESS_MODE_KLMS, MLX5_MKC_ACCESS_MODE_KSM,
		MLX5_MKC_ACCESS_MODE_PA, MLX5_MKC_ACCESS_MODE_MEMIC,
	};
	uint64_t list[16], addr;
	u8 what = in8(in), flags = in8(in), count = in8(in) % 17;
	struct key_spec s = {
		.mode = modes[what % sizeof(modes)], .rights = what & 8 ? in8(in) : 31,
		.variant = in8(in), .free = flags & 1, .umr = !(flags & 2), .length64 = flags & 4,
		.remote_invalidate = !(flags & 8), .pg_access = flags & 16,
		.pd = guest_number(g, PD, in), .qpn = flags & 32 ? guest_number(g, QP, in) : 0xffffff,
		.start = flags & 64 ? in64(in) : in16(in), .length = in16(in),
		.log_page = flags & 128 ? in8(in) % 64 : 12, .words = count, .list = list,
	};

	if (s.mode == MLX5_MKC_ACCESS_MODE_MEMIC)
		s.start = guest_number(g, MEMIC, in);
	s.octowords = (count + 1) / 2 + (what >> 6);
	for (unsigned int i = 0; i < count; i++) {
		if (s.mode == MLX5_MKC_ACCESS_MODE_MTT) {
			list[i] = key_page(in8(in) % 18) + in8(in) % 4;
		} else if (i % 2) {
			list[i] = in16(in);
		} else {
			list[i] = guest_key(g, in, &addr);
			list[i] |= s.mode == MLX5_MKC_ACCESS_MODE_KLMS ? (uint64_t)in16(in) << 32 : 0;
		}
	}
	guest_make_key(g, &s);
}

static void read_move(struct guest *g, struct input *in, struct move_spec *s)
{
	u8 how = in8(in);

	*s = (struct move_spec){
		.qkey = SETUP_QKEY, .send_psn = how & 1 ? in32(in) : 0xfffffe,
		.mtu = 1 + (how >> 1) % 5, .retries = in8(in) & 7, .rnr_retries = how >> 5,
		.rnr_timer = in8(in) & 31, .ack_timeout = how & 4 ? in8(in) : 1,
		.log_reads = how & 8 ? in8(in) % 6 : 2, .access = how & 16 ? in8(in) : 7,
		.lid = how == 0xff ? in16(in) : g->w->hca->port.lid, .global = how & 64,
	};
	s->recv_psn = s->send_psn;
}

static void connect_qps(struct guest *g, struct input *in)
{
	uint32_t a = guest_number(g, QP, in), b = guest_number(g, QP, in);
	struct move_spec s;

	read_move(g, in, &s);
	guest_connect(g, a, b, &s);
	guest_connect(g, b, a, &s);
}

static void move_qp(struct guest *g, struct input *in)
{
	static const uint16_t ops[] = {
		MLX5_CMD_OP_RST2INIT_QP, MLX5_CMD_OP_INIT2INIT_QP, MLX5_CMD_OP_INIT2RTR_QP,
		MLX5_CMD_OP_RTR2RTS_QP, MLX5_CMD_OP_RTS2RTS_QP, MLX5_CMD_OP_SQERR2RTS_QP,
		MLX5_CMD_OP_2ERR_QP, MLX5_CMD_OP_2RST_QP,
	};
	uint16_t op = ops[in8(in) % 8];
	uint32_t qpn = guest_number(g, QP, in);
	struct move_spec s;

	read_move(g, in, &s);
	s.remote_qpn = guest_number(g, QP, in);
	guest_move_qp(g, op, qpn, &s);
}

static void destroy(struct guest *g, struct input *in)
{
	static const struct { uint16_t op; enum kind kind; } ops[] = {
		{ MLX5_CMD_OP_DESTROY_QP, QP }, { MLX5_CMD_OP_DESTROY_CQ, CQ },
		{ MLX5_CMD_OP_DESTROY_EQ, EQ }, { MLX5_CMD_OP_DESTROY_MKEY, MKEY },
		{ MLX5_CMD_OP_DESTROY_RMP, SRQ }, { MLX5_CMD_OP_DESTROY_XRC_SRQ, XSRQ },
		{ MLX5_CMD_OP_DEALLOC_PD, PD }, { MLX5_CMD_OP_DEALLOC_UAR, UAR },
		{ MLX5_CMD_OP_DEALLOC_XRCD, XRCD }, { MLX5_CMD_OP_DESTROY_UCTX, UCTX },
		{ MLX5_CMD_OP_DESTROY_UMEM, UMEM }, { MLX5_CMD_OP_DRAIN_DCT, DCT },
		{ MLX5_CMD_OP_DESTROY_DCT, DCT },
	};
	unsigned int i = in8(in) % (sizeof(ops) / sizeof(*ops));

	guest_command(g, ops[i].op, 0, 16, 16);
	put_be32(g->in + 8, guest_number(g, ops[i].kind, in));
	guest_run(g);
}

static void modify_queue(struct guest *g, struct input *in)
{
	u8 how = in8(in), log_size = in8(in);
	void *cqc = IFC_PTR(modify_cq_in, g->in, cq_context);

	if (how & 1) {
		COMMAND(g, MODIFY_CQ, how >> 1 & 1, modify_cq);
		IFC_SET(modify_cq_in, g->in, modify_field_select_resize_field_select,
			how & 2 ? 7 : how >> 2);
		IFC_SET(modify_cq_in, g->in, cqn, guest_number(g, CQ, in));
		IFC_SET(cqc, cqc, log_cq_size, log_size % 8);
		IFC_SET(cqc, cqc, cqe_sz, log_size >> 3 & 1);
		IFC_SET(cqc, cqc, cq_period, log_size);
		IFC_SET(cqc, cqc, cq_max_count, how >> 5);
		guest_append64(g, guest_page(in8(in)));
		guest_append64(g, guest_page(in8(in)));
	} else if (how & 2) {
		COMMAND(g, MODIFY_RMP, 0, modify_rmp);
		IFC_SET(modify_rmp_in, g->in, rmp_state, MLX5_RMPC_STATE_RDY);
		IFC_SET(modify_rmp_in, g->in, rmpn, guest_number(g, SRQ, in));
		IFC_SET(rmp_bitmask, IFC_PTR(modify_rmp_in, g->in, bitmask), lwm, 1);
		IFC_SET(rmpc, IFC_PTR(modify_rmp_in, g->in, ctx), state, MLX5_RMPC_STATE_RDY);
		IFC_SET(wq, IFC_PTR(rmpc, IFC_PTR(modify_rmp_in, g->in, ctx), wq), lwm, log_size);
	} else {
		COMMAND(g, ARM_XRC_SRQ, 1, arm_xrc_srq);
		IFC_SET(arm_xrc_srq_in, g->in, xrc_srqn, guest_number(g, XSRQ, in));
		IFC_SET(arm_xrc_srq_in, g->in, lwm, log_size);
	}
	guest_run(g);
}

/* The tokens of page faults count up from 1, and have a slot in their low bits. */
static void resume_fault(struct guest *g, struct input *in)
{
	void *info = IFC_PTR(page_fault_resume_in, g->in, page_fault_info);
	u8 how = in8(in), generation = in8(in);

	COMMAND(g, PAGE_FAULT_RESUME, 0, page_fault_resume);
	IFC_SET(mem_page_fault_info, info, error, how & 1);
	IFC_SET(mem_page_fault_info, info, fault_token_31_0,
		how & 2 ? in32(in) : (generation % 8 + 1) * 1024u + (how >> 2) % 4);
	guest_run(g);
}

static void groups(struct guest *g, struct input *in)
{
	u8 how = in8(in);
	uint32_t qpn = guest_number(g, QP, in);
	u8 *gid = IFC_PTR(attach_to_mcg_in, g->in, multicast_gid);

	if (how & 1)
		COMMAND(g, ATTACH_TO_MCG, 0, attach_to_mcg);
	else
		COMMAND(g, DETACH_FROM_MCG, 0, detach_from_mcg);
	put_be32(g->in + 8, qpn);
	gid[0] = 0xff;
	gid[1] = 0x12;
	gid[15] = how >> 6;
	guest_run(g);
}

static void device_memory(struct guest *g, struct input *in)
{
	u8 how = in8(in), size = in8(in), bytes[8];
	uint64_t at;

	switch (how % 4) {
	case 0:
		COMMAND(g, ALLOC_MEMIC, 0, alloc_memic);
		IFC_SET64(alloc_memic_in, g->in, range_start_addr,
			  HCA_MEMIC_START + in8(in) % 4 * 0x1000);
		IFC_SET(alloc_memic_in, g->in, range_size, how & 4 ? in32(in) : 0x2000);
		IFC_SET(alloc_memic_in, g->in, memic_size, size * 64);
		IFC_SET(alloc_memic_in, g->in, log_memic_addr_alignment, how >> 5);
		if (guest_run(g))
			break;
		g->number[MEMIC][g->next[MEMIC]] =
			IFC_GET64(alloc_memic_out, g->out, memic_start_addr);
		g->next[MEMIC] = (g->next[MEMIC] + 1) % GUEST_MAX;
		g->count[MEMIC] += g->count[MEMIC] < GUEST_MAX;
		break;
	case 1:
		COMMAND(g, DEALLOC_MEMIC, 0, dealloc_memic);
		IFC_SET64(dealloc_memic_in, g->in, memic_start_addr, guest_number(g, MEMIC, in));
		IFC_SET(dealloc_memic_in, g->in, memic_size, size * 64);
		guest_run(g);
		break;
	case 2:
		COMMAND(g, MODIFY_MEMIC, how >> 2 & 1, modify_memic);
		IFC_SET64(modify_memic_in, g->in, memic_start_addr, guest_number(g, MEMIC, in));
		IFC_SET(modify_memic_in, g->in, memic_operation_type, how >> 3 & 3);
		guest_run(g);
		break;
	default:
		at = guest_number(g, MEMIC, in) + (how >> 2 & 3) * HCA_MEMIC_SIZE + in16(in);
		in_bytes(in, bytes, 8);
		if (how & 16)
			hca_bar_write(g->w->hca, at, bytes, 1u << (how >> 5 & 3));
		else
			hca_bar_read(g->w->hca, at, bytes, 1u << (how >> 5 & 3));
	}
}

/* Bytes into memory, where they hurt: queues, records, mailboxes, data. */
static void scribble(struct guest *g, struct input *in)
{
	u8 where = in8(in), len = in8(in) % 64 + 1;
	uint16_t at = in16(in);
	uint64_t addr = where < 0x60 ? guest_page(where) + at % 0x1000 :
			where < 0x90 ? RAM_RECORDS + at % 0x200 :
			where < 0xa0 ? RAM_BOXES + at % 0x8000 :
			where < 0xb0 ? RAM_QUEUE + at % 0x800 : RAM_DATA + at;
	u8 *p = ram_at(addr, len);

	if (p)
		in_bytes(in, p, len);
}

/* A counter of a queue, with or without its doorbell. */
static void jump_counter(struct guest *g, struct input *in)
{
	u8 how = in8(in);
	uint64_t record = guest_record(in8(in)) + (how & 4);
	uint32_t value = how & 1 ? in16(in) : ram_get32(record) + (int8_t)in8(in);

	ram_put32(record, value);
}

static void ring(struct guest *g, struct input *in)
{
	u8 how = in8(in);
	uint64_t page = guest_last(g, UAR) * 0x1000ull;
	uint32_t value = in32(in);

	switch (how % 5) {
	case 0:
		if (g->count[QP])
			guest_ring_send(g, (how >> 3) % g->count[QP]);
		break;
	case 1:
		bar_put64(g->w, page + 0x20, value, guest_number(g, CQ, in));
		break;
	case 2:
		bar_put32(g->w, page + (how & 8 ? 0x40 : 0x48),
			  guest_number(g, EQ, in) << 24 | (value & 0xffffff));
		break;
	case 3:
		bar_put32(g->w, page + (value & 0xffc), guest_number(g, QP, in) << 8);
		break;
	default: {
		u8 bytes[8];
		uint64_t at = value % PCI_BAR_SIZE;

		in_bytes(in, bytes, 8);
		if (how & 8)
			at %= 0x20000;
		if (how & 16)
			hca_bar_write(g->w->hca, at, bytes, 1u << (how >> 5 & 3));
		else
			hca_bar_read(g->w->hca, at, bytes, 1u << (how >> 5 & 3));
	}
	}
}

static void post_sends(struct guest *g, struct input *in)
{
	u8 how = in8(in);
	unsigned int place;

	if (!g->count[QP])
		return;
	place = (how & 0x3f) % g->count[QP];
	guest_read_changes(g, in);
	guest_post_send(g, place, in);
	g->changes = 0;
	if (how & 0x40)
		guest_post_send(g, place, in);
	if (!(how & 0x80))
		guest_ring_send(g, place);
}

static void post_recvs(struct guest *g, struct input *in)
{
	u8 how = in8(in), place = how & 0x0f;

	guest_read_changes(g, in);
	switch (how >> 6) {
	case 0:
		if (g->count[SRQ])
			guest_post_recv(g, &g->srq[place % g->count[SRQ]], true, in);
		break;
	case 1:
		if (g->count[XSRQ])
			guest_post_recv(g, &g->xsrq[place % g->count[XSRQ]], true, in);
		break;
	default:
		if (g->count[QP])
			guest_post_recv(g, &g->qp[place % g->count[QP]], false, in);
	}
	g->changes = 0;
}

static void pass_time(struct guest *g, struct input *in)
{
	u8 how = in8(in);

	clock_move(1ull << how % 36);
	world_turns(g->w, how / 36 + 1);
}

static void turn(struct guest *g, struct input *in)
{
	world_turns(g->w, in8(in) % 8 + 1);
}

static void rare(struct guest *g, struct input *in)
{
	u8 how = in8(in);

	switch (how % 8) {
	case 0:
		hca_reset(g->w->hca);
		guest_init(g, g->w);
		break;
	case 1:
		guest_boot(g);		/* a kernel that crashed */
		break;
	case 2:
		COMMAND(g, TEARDOWN_HCA, 0, teardown_hca);
		guest_run(g);
		break;
	case 3:
		bar_put32(g->w, 0x14, RAM_QUEUE | 1 << 8);	/* fast teardown */
		break;
	case 4:
		tracing = how & 8;
		break;
	default:
		world_remap(g->w);
	}
}

/* With a byte of changes; a bit of the first byte says that it is for a process. */
static void command(struct guest *g, struct input *in)
{
	static void (*const commands[])(struct guest *g, struct input *in) = {
		any_command, make_something, make_something, make_qp, make_key, move_qp,
		move_qp, connect_qps, destroy, destroy, modify_queue, resume_fault, groups,
		device_memory, any_entry, make_dct,
	};
	u8 which = in8(in);

	g->uid = which & 0x80 && g->count[UCTX] ? guest_number(g, UCTX, in) : 0;
	guest_read_changes(g, in);
	commands[which % (sizeof(commands) / sizeof(*commands))](g, in);
	g->changes = 0;
	g->uid = 0;
}

void program_step(struct guest *g, struct input *in)
{
	static void (*const steps[])(struct guest *g, struct input *in) = {
		command, command, command, command, command, post_sends, post_sends, post_sends,
		post_recvs, post_recvs, turn, pass_time, ring, scribble, jump_counter, rare,
	};

	steps[in8(in) % (sizeof(steps) / sizeof(*steps))](g, in);
	check_device(g->w->hca);
}

void program_finish(struct guest *g)
{
	for (unsigned int i = 0; i < TURNS_MAX && !loop_is_idle(g->w->loop); i++)
		loop_turn(g->w->loop);
	check_device(g->w->hca);
}

void program_run(struct guest *g, struct input *in)
{
	for (unsigned int i = 0; i < STEPS && in->left; i++)
		program_step(g, in);
	program_finish(g);
}
