// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The work requests of the guest: send WQEs of every opcode, UMR with its context and list,
 * and receive WQEs, laid out as mlx5dv.h has them.  Keys, addresses and lengths are mostly
 * ones that exist, so that requests are executed and not only refused.
 */
#include "guest.h"
#include "mkey.h"

#define LINE 64u
#define SEGS 4
#define WQE_BYTES 1024

struct writer {
	u8 bytes[WQE_BYTES];
	size_t len;
};

static u8 *put(struct writer *w, size_t len)
{
	u8 *p = w->bytes + w->len;

	w->len += len;
	return p;
}

uint32_t guest_key(struct guest *g, struct input *in, uint64_t *addr)
{
	u8 which = in8(in);
	uint16_t at = in16(in);
	const struct guest_key *k;

	*addr = RAM_DATA + at;
	switch (which) {
	case 0xfc:
		*addr = in64(in);
		return in32(in);
	case 0xfd:
		return MKEY_RESERVED_LKEY;
	case 0xfe:
		return MKEY_NULL;
	case 0xff:
		return MKEY_DUMP_FILL;
	}
	if (!g->count[MKEY])
		return which;
	k = &g->key[which % g->count[MKEY]];
	/* Inside, most of the time. */
	*addr = k->start + (k->length && which < 0xf0 ? at % k->length : at);
	return k->key;
}

/* Lengths near those at which packets are cut. */
static uint32_t length(struct input *in)
{
	static const uint32_t near[] = { 0, 1, 8, 16, 40, 255, 256, 257, 512, 1024, 4096, 4097 };
	u8 how = in8(in);

	if (how < 12)
		return near[how];
	if (how < 0xf0)
		return how * 4;
	return how < 0xfe ? in16(in) : in32(in) & 0x7fffffff;
}

static void put_data(struct guest *g, struct writer *w, struct input *in)
{
	uint64_t addr;
	u8 *p = put(w, 16);

	put_be32(p + 4, guest_key(g, in, &addr));
	put_be64(p + 8, addr);
	put_be32(p, length(in));
}

static void put_inline(struct writer *w, struct input *in)
{
	uint32_t len = in8(in) % 96;
	u8 *p = put(w, (4 + len + 15) / 16 * 16);

	put_be32(p, len | MLX5_INLINE_SEG);
	in_bytes(in, p + 4, len);
}

static void put_remote(struct guest *g, struct writer *w, struct input *in)
{
	uint64_t addr;
	u8 *p = put(w, 16);

	put_be32(p + 8, guest_key(g, in, &addr));
	put_be64(p, addr);
}

static void put_address(struct guest *g, struct writer *w, struct input *in)
{
	u8 how = in8(in);
	u8 *p = put(w, how & 1 ? 48 : 16);

	put_be32(p, 0x11111111);			/* the Q_Key that setup gives */
	put_be32(p + 8, guest_number(g, QP, in) | (how & 1 ? MLX5_EXTENDED_UD_AV : 0));
	if (how & 2)
		put_be32(p + 8, (be32_at(p + 8) & 0xff000000) | in8(in) % 2);
	if (how & 4)
		put_be32(p + 8, be32_at(p + 8) | 0xffffff);
	put_be16(p + 14, how & 8 ? in16(in) : how & 16 ? 0xc000 : g->w->hca->port.lid);
	if (!(how & 1))
		return;
	p[20] = how;					/* GRH: bit 30 of grh_gid_fl */
	put_be32(p + 28, how & 32 ? 1u << 30 : 0);
	p[32] = 0xff;
	p[33] = 0x12;
	p[47] = how >> 6;
}

/* The address of a DC target. */
static void put_target(struct guest *g, struct writer *w, struct input *in)
{
	u8 how = in8(in);
	u8 *p = put(w, how & 1 ? 48 : 16);

	put_be64(p, SETUP_DC_KEY ^ (how & 2));
	put_be32(p + 8, guest_number(g, how & 4 ? QP : DCT, in) |
		 (how & 1 ? MLX5_EXTENDED_UD_AV : 0));
	p[12] = how >> 6;
	put_be16(p + 14, how & 8 ? in16(in) : g->w->hca->port.lid);
	if ((how & 0x31) != 0x31)
		return;
	put_be32(p + 28, 1u << 30);
	port_gid(g->w->hca, 0, p + 32);
}

/* A context and a list for a key.  Returns the key. */
static uint32_t put_umr(struct guest *g, struct writer *w, struct input *in)
{
	static const u8 flags[] = { 0x20, 0xa0, 0x80, 0x40, 0xc0, 0x90, 0xb0, 0x10 };
	static const uint64_t masks[] = { 0x203e20c3, 0x20000080, 0x3e0080, 0x2000, 0x20000000, 0 };
	u8 how = in8(in), which = in8(in), count = in8(in) % 9;
	u8 *ctrl = put(w, 48), *mkc = put(w, 64);
	uint32_t target, key;
	uint64_t addr;

	target = guest_key(g, in, &addr);
	ctrl[0] = flags[how % 8];
	put_be16(ctrl + 4, count);
	if (ctrl[0] & 0x10)
		put_be16(ctrl + 6, in8(in));
	put_be64(ctrl + 8, which == 0xff ? in64(in) : masks[which % 6]);
	IFC_SET(mkc, mkc, free, how >> 7);
	IFC_SET(mkc, mkc, umr_en, 1);
	IFC_SET(mkc, mkc, lr, 1);
	IFC_SET(mkc, mkc, lw, 1);
	IFC_SET(mkc, mkc, rr, how >> 6 & 1);
	IFC_SET(mkc, mkc, rw, how >> 5 & 1);
	IFC_SET(mkc, mkc, a, how >> 5 & 1);
	IFC_SET(mkc, mkc, qpn, how & 8 ? in32(in) : 0xffffff);
	IFC_SET(mkc, mkc, mkey_7_0, target & 0xff);
	IFC_SET(mkc, mkc, pd, guest_number(g, PD, in));
	IFC_SET64(mkc, mkc, start_addr, in16(in));
	IFC_SET64(mkc, mkc, len, in32(in));
	IFC_SET(mkc, mkc, log_page_size, 12 + in8(in) % 52);
	if (!(ctrl[0] & 0x80)) {
		put_data(g, w, in);
		return target;
	}
	for (unsigned int i = 0; i < count; i++) {
		u8 *p = put(w, 16);

		if (in8(in) & 1) {		/* a page, and another one */
			put_be64(p, RAM_DATA + in8(in) % 14 * 0x1000 + in8(in) % 4);
			put_be64(p + 8, RAM_DATA + in8(in) % 14 * 0x1000 + 3);
		} else {			/* bytes of another key */
			key = guest_key(g, in, &addr);
			put_be32(p, length(in));
			put_be32(p + 4, key);
			put_be64(p + 8, addr);
		}
	}
	return target;
}

/* A repeat block in place of a list of keys (mlx5_stride_block_*). */
static uint32_t put_repeat(struct guest *g, struct writer *w, struct input *in)
{
	uint32_t target = put_umr(g, w, &(struct input){ in->at, in->left < 8 ? in->left : 8 });
	unsigned int count = in8(in) % 4 + 1, cycle = 0;
	u8 *ctrl = w->bytes + 16, *head;

	w->len = 128;
	ctrl[0] = 0x80;
	put_be16(ctrl + 4, (count + 1 + 3) / 4 * 4);
	head = put(w, 16);
	for (unsigned int i = 0; i < count; i++) {
		u8 *p = put(w, 16);
		uint64_t addr;

		put_be32(p + 4, guest_key(g, in, &addr));
		put_be64(p + 8, addr);
		put_be16(p, in16(in));
		put_be16(p + 2, in16(in));
		cycle += be16_at(p + 2);
	}
	put(w, (-(count + 1u) & 3) * 16);
	put_be32(head, cycle);
	put_be32(head + 4, 0x400);
	put_be32(head + 8, in8(in));
	put_be16(head + 14, count);
	return target;
}

static void put_segments(struct guest *g, struct writer *w, struct input *in, bool may_inline)
{
	u8 how = in8(in);

	if (may_inline && how & 0x80) {
		put_inline(w, in);
		return;
	}
	for (unsigned int i = 0; i < how % SEGS; i++)
		put_data(g, w, in);
}

static void put_atomic(struct guest *g, struct writer *w, struct input *in, bool masked, bool cs)
{
	uint64_t addr;
	u8 *p = put(w, masked && cs ? 32 : 16);

	in_bytes(in, p, 16);
	p = put(w, 16);
	put_be32(p, 8);
	put_be32(p + 4, guest_key(g, in, &addr));
	put_be64(p + 8, addr);
}

/* What follows the control segment; returns the immediate. */
static uint32_t put_operation(struct guest *g, struct writer *w, u8 *opcode, u8 st,
			      struct input *in)
{
	uint64_t addr;

	if (*opcode == MLX5_OPCODE_UMR)
		return in8(in) & 1 ? put_repeat(g, w, in) : put_umr(g, w, in);
	if (st == MLX5_QPC_ST_UD || st == MLX5_QPC_ST_QP0 || st == MLX5_QPC_ST_QP1)
		put_address(g, w, in);
	if (st == MLX5_QPC_ST_DCI)
		put_target(g, w, in);
	if (st == MLX5_QPC_ST_XRC)
		put_be32(put(w, 16), guest_number(g, XSRQ, in));
	switch (*opcode) {
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
		put_remote(g, w, in);
		put_segments(g, w, in, true);
		break;
	case MLX5_OPCODE_RDMA_READ:
		put_remote(g, w, in);
		put_segments(g, w, in, false);
		break;
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA:
		put_remote(g, w, in);
		put_atomic(g, w, in, false, false);
		break;
	case MLX5_OPCODE_ATOMIC_MASKED_CS:
	case MLX5_OPCODE_ATOMIC_MASKED_FA:
		put_remote(g, w, in);
		put_atomic(g, w, in, true, *opcode == MLX5_OPCODE_ATOMIC_MASKED_CS);
		w->bytes[0] = 9;		/* opmod: 8 bytes */
		break;
	case MLX5_OPCODE_SEND_INVAL:
		put_segments(g, w, in, true);
		return guest_key(g, in, &addr);
	default:
		put_segments(g, w, in, true);
	}
	return 0x12345678;
}

/* A ring of 64-byte blocks, beyond whose end is its beginning. */
static void to_ring(const struct guest_queue *q, const struct writer *w)
{
	for (size_t i = 0; i < w->len; i += LINE) {
		unsigned int block = (q->send_posted + i / LINE) & (q->send_blocks - 1);
		u8 *p = ram_at(q->send + block * LINE, LINE);

		if (p)
			memcpy(p, w->bytes + i, w->len - i < LINE ? w->len - i : LINE);
	}
}

void guest_post_send(struct guest *g, unsigned int place, struct input *in)
{
	static const u8 opcodes[] = {
		MLX5_OPCODE_SEND, MLX5_OPCODE_SEND_IMM, MLX5_OPCODE_RDMA_WRITE,
		MLX5_OPCODE_RDMA_WRITE_IMM, MLX5_OPCODE_RDMA_READ, MLX5_OPCODE_ATOMIC_CS,
		MLX5_OPCODE_ATOMIC_FA, MLX5_OPCODE_SEND_INVAL, MLX5_OPCODE_NOP,
		MLX5_OPCODE_UMR, MLX5_OPCODE_ATOMIC_MASKED_CS, MLX5_OPCODE_ATOMIC_MASKED_FA,
	};
	struct guest_queue *q = &g->qp[place];
	u8 which = in8(in), flags = in8(in), opcode = opcodes[which % sizeof(opcodes)];
	struct writer w = { .len = 16 };
	uint32_t imm;

	if (!q->send_blocks)
		return;
	if (q->st == MLX5_QPC_ST_REG_UMR)
		opcode = MLX5_OPCODE_UMR;
	if (which >= 0xf8)
		opcode = in8(in);
	imm = put_operation(g, &w, &opcode, q->st, in);
	put_be32(w.bytes, (uint32_t)w.bytes[0] << 24 | q->send_posted << 8 | opcode);
	put_be32(w.bytes + 4, g->number[QP][place] << 8 | w.len / 16);
	w.bytes[11] = flags;
	put_be32(w.bytes + 12, imm);
	guest_apply_changes(g, w.bytes, w.len);
	to_ring(q, &w);
	q->send_posted += (w.len + LINE - 1) / LINE;
	ram_put32(q->record + 4, q->send_posted);
}

void guest_ring_send(struct guest *g, unsigned int place)
{
	struct guest_queue *q = &g->qp[place];

	bar_put64(g->w, q->uar * 0x1000ull + 0x800, q->send_posted << 8,
		  g->number[QP][place] << 8);
}

void guest_post_recv(struct guest *g, struct guest_queue *q, bool linked, struct input *in)
{
	u8 bytes[2048] = { 0 }, segs = in8(in) % SEGS + 1;
	size_t at = linked ? 16 : 0, stride = q->recv_stride < 2048 ? q->recv_stride : 2048;
	unsigned int index;
	u8 *p;

	if (!q->recv_size)
		return;
	index = q->recv_posted & (q->recv_size - 1);
	if (linked)
		put_be16(bytes + 2, (index + 1) & (q->recv_size - 1));
	for (unsigned int i = 0; i < segs && at + 16 <= stride; i++, at += 16) {
		uint64_t addr;

		put_be32(bytes + at + 4, guest_key(g, in, &addr));
		put_be64(bytes + at + 8, addr);
		put_be32(bytes + at, length(in));
	}
	if (at + 16 <= stride)
		put_be32(bytes + at + 4, 0x100);
	guest_apply_changes(g, bytes, stride);
	p = ram_at(q->recv + index * stride, stride);
	if (p)
		memcpy(p, bytes, stride);
	ram_put32(q->record, ++q->recv_posted);
}
