// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Each kind of WQE as libmlx5 writes it, by the structures of mlx5dv.h, and WQEs that make no
 * sense; then random bytes for half a second, which sanitizers watch.
 */
#include "wqe.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#define OP_ERR MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR
#define LEN_ERR MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR

/* A WQE in the making. */
struct writer {
	u8 bytes[WQE_MAX];
	size_t len;
};

static void *add(struct writer *q, size_t len)
{
	void *p = q->bytes + q->len;

	assert_true(q->len + len <= sizeof(q->bytes));
	q->len += len;
	return p;
}

static void begin(struct writer *q, u8 opcode, u8 opmod, u8 flags, uint32_t imm)
{
	struct mlx5_wqe_ctrl_seg *ctrl;

	memset(q, 0, sizeof(*q));
	ctrl = add(q, sizeof(*ctrl));
	ctrl->opmod_idx_opcode = htobe32((uint32_t)opmod << 24 | 7 << 8 | opcode);
	ctrl->fm_ce_se = flags;
	ctrl->imm = htobe32(imm);
}

static void add_raddr(struct writer *q, uint64_t addr, uint32_t rkey)
{
	struct mlx5_wqe_raddr_seg *r = add(q, sizeof(*r));

	r->raddr = htobe64(addr);
	r->rkey = htobe32(rkey);
}

static void add_data(struct writer *q, uint32_t len, uint32_t lkey, uint64_t addr)
{
	struct mlx5_wqe_data_seg *d = add(q, sizeof(*d));

	d->byte_count = htobe32(len);
	d->lkey = htobe32(lkey);
	d->addr = htobe64(addr);
}

static void add_inline(struct writer *q, uint32_t len)
{
	u8 *p = add(q, (4 + len + 15) / 16 * 16);
	uint32_t i;

	put_be32(p, len | MLX5_INLINE_SEG);
	for (i = 0; i < len; i++)
		p[4 + i] = i + 1;
}

static void add_u64(struct writer *q, uint64_t v)
{
	put_be64(add(q, 8), v);
}

static void add_av(struct writer *q, bool extended, bool grh)
{
	struct mlx5_wqe_av av = { 0 };

	av.key.qkey.qkey = htobe32(0x11111111);
	av.dqp_dct = htobe32(0x123456 | (extended ? MLX5_EXTENDED_UD_AV : 0));
	av.stat_rate_sl = 0x53;
	av.fl_mlid = 0x85;
	av.rlid = htobe16(0xbeef);
	av.tclass = 9;
	av.hop_limit = 64;
	av.grh_gid_fl = htobe32((grh ? 1u << 30 : 0) | 2 << 20 | 0xabcde);
	memset(av.rgid, 0xfe, sizeof(av.rgid));
	memcpy(add(q, extended ? sizeof(av) : 16), &av, extended ? sizeof(av) : 16);
}

/* As the doorbell would: the size goes to the control segment, and out of it again. */
static int parse(struct writer *q, struct wqe *w, enum qp_service service)
{
	put_be32(q->bytes + 4, 0x99 << 8 | q->len / 16);
	memset(w, 0xa5, sizeof(*w));
	w->size = wqe_size(q->bytes);
	assert_int_equal(w->size, q->len);
	memcpy(w->bytes, q->bytes, q->len);
	return wqe_parse(w, service);
}

static void send_wqe_parses_to_its_segments(void **state)
{
	struct writer q;
	struct wqe w;

	begin(&q, MLX5_OPCODE_SEND, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
	assert_int_equal(parse(&q, &w, QP_RC), 0);
	assert_int_equal(w.segs, 0);
	assert_int_equal(w.length, 0);
	assert_int_equal(w.blocks, 1);
	assert_true(w.signalled);
	assert_false(w.solicited);

	begin(&q, MLX5_OPCODE_SEND_IMM, 0, MLX5_WQE_CTRL_SOLICITED | MLX5_WQE_CTRL_FENCE,
	      0xdeadbeef);
	add_data(&q, 100, 0x700, 0x10000);
	add_data(&q, 50, 0x800, 0x20000);
	add_data(&q, 1u << 29, 0x900, 0x40000000);
	add_data(&q, 1, 0x900, 3);
	assert_int_equal(parse(&q, &w, QP_XRC_INI), 0);	/* the first segment is XRC's */
	assert_int_equal(w.srqn, 100);
	assert_int_equal(w.segs, 3);
	assert_int_equal(parse(&q, &w, QP_UC), 0);
	assert_int_equal(w.imm, 0xdeadbeef);
	assert_int_equal(w.segs, 4);
	assert_int_equal(w.length, 151 + (1u << 29));
	assert_int_equal(w.seg[1].lkey, 0x800);
	assert_int_equal(w.seg[1].len, 50);
	assert_int_equal(w.seg[1].addr, 0x20000);
	assert_int_equal(w.blocks, 2);
	assert_false(w.signalled);
	assert_true(w.solicited);
	assert_int_equal(w.fence, MLX5_WQE_CTRL_FENCE);
}

static void inline_data_is_found_in_the_wqe(void **state)
{
	static const struct { uint32_t len; unsigned int segments; } cases[] = {
		{ 0, 1 }, { 1, 1 }, { 12, 1 }, { 13, 2 }, { 28, 2 }, { 29, 3 }, { 980, 62 },
	};
	struct writer q;
	struct wqe w;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(&q, MLX5_OPCODE_SEND, 0, 0, 0);
		add_inline(&q, cases[i].len);
		assert_int_equal(q.len, 16 + 16 * cases[i].segments);
		assert_int_equal(parse(&q, &w, QP_RC), 0);
		assert_int_equal(w.segs, 1);
		assert_true(w.seg[0].is_inline);
		assert_int_equal(w.seg[0].len, cases[i].len);
		assert_int_equal(w.length, cases[i].len);
		assert_int_equal(w.seg[0].addr, 20);
		if (cases[i].len)
			assert_int_equal(w.bytes[w.seg[0].addr + cases[i].len - 1],
					 cases[i].len & 0xff);
	}
	/* A pointer may follow. */
	begin(&q, MLX5_OPCODE_SEND, 0, 0, 0);
	add_inline(&q, 13);
	add_data(&q, 8, 0x700, 0x1000);
	assert_int_equal(parse(&q, &w, QP_RC), 0);
	assert_int_equal(w.segs, 2);
	assert_int_equal(w.length, 21);
	assert_false(w.seg[1].is_inline);
}

static void rdma_wqe_has_remote_address_and_key(void **state)
{
	struct writer q;
	struct wqe w;

	begin(&q, MLX5_OPCODE_RDMA_WRITE_IMM, 0, 0, 0x01020304);
	add_raddr(&q, 0x123456789abcdef0, 0x4242);
	add_data(&q, 4096, 0x700, 0x1000);
	assert_int_equal(parse(&q, &w, QP_UC), 0);
	assert_int_equal(w.remote_addr, 0x123456789abcdef0);
	assert_int_equal(w.rkey, 0x4242);
	assert_int_equal(w.length, 4096);

	begin(&q, MLX5_OPCODE_RDMA_READ, 0, 0, 0);
	put_be32(add(&q, 16), 0x777);
	add_raddr(&q, 0x1000, 0x4242);
	add_data(&q, 4096, 0x700, 0x1000);
	assert_int_equal(parse(&q, &w, QP_XRC_INI), 0);
	assert_int_equal(w.srqn, 0x777);
	assert_int_equal(w.remote_addr, 0x1000);
	assert_int_equal(parse(&q, &w, QP_UC), OP_ERR);

	begin(&q, MLX5_OPCODE_RDMA_READ, 0, 0, 0);	/* of nothing */
	add_raddr(&q, 0, 0);
	assert_int_equal(parse(&q, &w, QP_RC), 0);
	add_inline(&q, 8);				/* to the WQE */
	assert_int_equal(parse(&q, &w, QP_RC), OP_ERR);
}

static void atomic_wqe_has_operands_and_one_segment(void **state)
{
	struct writer q;
	struct wqe w;

	begin(&q, MLX5_OPCODE_ATOMIC_CS, 0, 0, 0);
	add_raddr(&q, 0x1000, 0x4242);
	add_u64(&q, 5);
	add_u64(&q, 6);
	assert_int_equal(parse(&q, &w, QP_RC), LEN_ERR);
	add_data(&q, 8, 0x700, 0x1000);
	assert_int_equal(parse(&q, &w, QP_RC), 0);
	assert_int_equal(w.swap_add, 5);
	assert_int_equal(w.compare, 6);
	assert_int_equal(w.segs, 1);
	assert_int_equal(parse(&q, &w, QP_UC), OP_ERR);
	add_data(&q, 8, 0x700, 0x1000);
	assert_int_equal(parse(&q, &w, QP_RC), LEN_ERR);

	begin(&q, MLX5_OPCODE_ATOMIC_MASKED_CS, 9, 0, 0);
	add_raddr(&q, 0x1000, 0x4242);
	add_u64(&q, 5);
	add_u64(&q, 6);
	add_u64(&q, 0xff);
	add_u64(&q, 0xf0);
	add_data(&q, 8, 0x700, 0x1000);
	assert_int_equal(parse(&q, &w, QP_RC), 0);
	assert_int_equal(w.swap_add, 5);
	assert_int_equal(w.compare, 6);
	assert_int_equal(w.swap_mask, 0xff);
	assert_int_equal(w.compare_mask, 0xf0);
	q.bytes[0] = 8;					/* 4 bytes: not offered */
	assert_int_equal(parse(&q, &w, QP_RC), OP_ERR);

	begin(&q, MLX5_OPCODE_ATOMIC_MASKED_FA, 9, 0, 0);
	add_raddr(&q, 0x1000, 0x4242);
	add_u64(&q, 5);
	add_u64(&q, 1ull << 31);
	add_data(&q, 8, 0x700, 0x1000);
	assert_int_equal(parse(&q, &w, QP_XRC_INI), LEN_ERR);	/* no data segment is left */
	assert_int_equal(parse(&q, &w, QP_RC), 0);
	assert_int_equal(w.swap_add, 5);
	assert_int_equal(w.compare, 0);
	assert_int_equal(w.compare_mask, 1ull << 31);
}

static void ud_wqe_has_its_address_vector(void **state)
{
	struct writer q;
	struct wqe w;
	int form;

	/* compact; extended without and with a GRH */
	for (form = 0; form < 3; form++) {
		begin(&q, MLX5_OPCODE_SEND_IMM, 0, 0, 77);
		add_av(&q, form > 0, form == 2);
		add_data(&q, 256, 0x700, 0x1000);
		assert_int_equal(parse(&q, &w, form == 1 ? QP_GSI : QP_UD), 0);
		assert_int_equal(w.av.qkey, 0x11111111);
		assert_int_equal(w.av.dqpn, 0x123456);
		assert_int_equal(w.av.rlid, 0xbeef);
		assert_int_equal(w.av.sl, 3);
		assert_int_equal(w.av.path_bits, 5);
		assert_int_equal(w.av.global, form == 2);
		assert_int_equal(w.length, 256);
		assert_int_equal(w.segs, 1);
		if (form < 2)
			continue;
		assert_int_equal(w.av.gid_index, 2);
		assert_int_equal(w.av.flow_label, 0xabcde);
		assert_int_equal(w.av.tclass, 9);
		assert_int_equal(w.av.hop_limit, 64);
		assert_int_equal(w.av.dgid[15], 0xfe);
	}
	begin(&q, MLX5_OPCODE_SEND, 0, 0, 0);
	assert_int_equal(parse(&q, &w, QP_UD), OP_ERR);
	add_av(&q, true, true);
	q.len = 48;					/* cut within the vector */
	assert_int_equal(parse(&q, &w, QP_UD), OP_ERR);
}

/* As libmlx5 writes them: always the long address vector, whose key is the target's. */
static void dc_wqe_has_the_long_address_vector(void **state)
{
	struct writer q;
	struct wqe w;

	begin(&q, MLX5_OPCODE_RDMA_WRITE, 0, 8, 0);
	add_av(&q, true, true);
	put_be64(q.bytes + 16, 0x1122334455667788);
	add_raddr(&q, 0x1000, 0x4242);
	assert_int_equal(parse(&q, &w, QP_DCI), 0);
	add_data(&q, 256, 0x700, 0x1000);
	assert_int_equal(parse(&q, &w, QP_DCI), 0);
	assert_true(w.av.dc_key == 0x1122334455667788);
	assert_int_equal(w.av.dqpn, 0x123456);
	assert_int_equal(w.av.rlid, 0xbeef);
	assert_true(w.av.global);
	assert_int_equal(w.remote_addr, 0x1000);
	assert_int_equal(w.rkey, 0x4242);
	assert_int_equal(w.length, 256);
	q.len = 64;					/* no remote address */
	assert_int_equal(parse(&q, &w, QP_DCI), OP_ERR);
	q.len = 48;
	assert_int_equal(parse(&q, &w, QP_DCI), OP_ERR);
	assert_int_equal(parse(&q, &w, QP_DCT), OP_ERR);
}

static void opcode_is_good_for_its_transports_only(void **state)
{
	static const struct { u8 opcode; enum qp_service service; int result; } cases[] = {
		{ MLX5_OPCODE_NOP, QP_RC, 0 },
		{ MLX5_OPCODE_NOP, QP_UD, 0 },
		{ MLX5_OPCODE_NOP, QP_XRC_INI, 0 },
		{ MLX5_OPCODE_NOP, QP_XRC_TGT, OP_ERR },
		{ MLX5_OPCODE_NOP, QP_DCI, 0 },
		{ MLX5_OPCODE_UMR, QP_DCI, 0 },
		{ MLX5_OPCODE_UMR, QP_REG_UMR, 0 },
		{ MLX5_OPCODE_UMR, QP_RC, 0 },
		{ MLX5_OPCODE_UMR, QP_UC, 0 },
		{ MLX5_OPCODE_UMR, QP_UD, OP_ERR },
		{ MLX5_OPCODE_UMR, QP_GSI, OP_ERR },
		{ MLX5_OPCODE_LOCAL_INVAL, QP_RC, 0 },
		{ MLX5_OPCODE_SEND_INVAL, QP_RC, 0 },
		{ MLX5_OPCODE_SEND_INVAL, QP_UC, OP_ERR },
		{ MLX5_OPCODE_SEND_INVAL, QP_UD, OP_ERR },
		{ MLX5_OPCODE_SEND, QP_REG_UMR, OP_ERR },
		{ MLX5_OPCODE_RDMA_WRITE, QP_UD, OP_ERR },
		{ MLX5_OPCODE_TSO, QP_UD, OP_ERR },
		{ MLX5_OPCODE_SET_PSV, QP_RC, OP_ERR },
		{ MLX5_OPCODE_MMO, QP_RC, OP_ERR },
		{ 0x40, QP_RC, OP_ERR },	/* one past the bits of a mask */
		{ 0xff, QP_RC, OP_ERR },
	};
	struct writer q;
	struct wqe w;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(&q, cases[i].opcode, 0, 0, 0x5500);
		assert_int_equal(parse(&q, &w, cases[i].service), cases[i].result);
		assert_int_equal(w.opcode, cases[i].opcode);
		assert_int_equal(w.imm, 0x5500);
	}
}

static void wqe_beyond_its_limits_is_an_error(void **state)
{
	struct writer q;
	struct wqe w;
	int i;

	/* As many pointers as there is room for, and one more. */
	for (i = 0; i < 2; i++) {
		begin(&q, MLX5_OPCODE_SEND, 0, 0, 0);
		while (q.len < 16u * (1 + WQE_SEGS + i))
			add_data(&q, 1, 0x700, 0x1000);
		assert_int_equal(parse(&q, &w, QP_RC), i ? OP_ERR : 0);
	}
	/* A length of 0 means 2 GiB. */
	begin(&q, MLX5_OPCODE_SEND, 0, 0, 0);
	add_data(&q, 0, 0x700, 0x1000);
	assert_int_equal(parse(&q, &w, QP_RC), LEN_ERR);
	/* The longest message, and one byte more. */
	begin(&q, MLX5_OPCODE_SEND, 0, 0, 0);
	add_data(&q, MESSAGE_MAX, 0x700, 0x1000);
	assert_int_equal(parse(&q, &w, QP_RC), 0);
	add_data(&q, 1, 0x700, 0x1000);
	assert_int_equal(parse(&q, &w, QP_RC), LEN_ERR);
	/* Inline data beyond the WQE, and beyond its 10 bits. */
	begin(&q, MLX5_OPCODE_SEND, 0, 0, 0);
	add_inline(&q, 12);
	put_be32(q.bytes + 16, 13 | MLX5_INLINE_SEG);
	assert_int_equal(parse(&q, &w, QP_RC), OP_ERR);
	put_be32(q.bytes + 16, 0xffffffff);
	assert_int_equal(parse(&q, &w, QP_RC), OP_ERR);
	/* No size, and a size that bytes[] has not. */
	begin(&q, MLX5_OPCODE_NOP, 0, 0, 0);
	assert_int_equal(wqe_size(q.bytes), 0);
	w.size = 0;
	assert_int_equal(wqe_parse(&w, QP_RC), OP_ERR);
	w.size = WQE_MAX + 16;
	assert_int_equal(wqe_parse(&w, QP_RC), OP_ERR);
	put_be32(q.bytes + 4, 0xffffffff);
	assert_int_equal(wqe_size(q.bytes), 63 * 16);
}

static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint64_t random64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* What a parse may leave behind, whatever the bytes were. */
static void check_bounds(const struct wqe *w, int result)
{
	uint64_t sum = 0;
	unsigned int i;

	assert_true(w->segs <= WQE_SEGS);
	if (result)
		return;
	for (i = 0; i < w->segs; i++) {
		sum += w->seg[i].len;
		if (w->seg[i].is_inline)
			assert_true(w->seg[i].addr + w->seg[i].len <= w->size);
	}
	assert_true(sum == w->length);
}

static void random_wqe_stays_in_bounds(void **state)
{
	static const u8 opcodes[] = { 0, 1, 8, 9, 0xa, 0xb, 0x10, 0x11, 0x12, 0x14, 0x15, 0x25 };
	clock_t end = clock() + CLOCKS_PER_SEC / 2;
	unsigned long count = 0, good = 0;
	struct wqe *w;
	size_t i;
	int err;

	do {
		size_t size = random64() % 64 * 16;

		/* bytes[] is last but for the padding: what reads on leaves the allocation */
		w = malloc(sizeof(*w));
		for (i = 0; i < sizeof(w->bytes); i += 8)
			put_be64(w->bytes + i, random64() & (random64() % 4 ? ~0ull : 0x7ff));
		/* Mostly what gets further than the opcode, and short pieces of inline data. */
		if (random64() % 8)
			w->bytes[3] = opcodes[random64() % sizeof(opcodes)];
		if (random64() % 2)
			w->bytes[0] = random64() % 2 * 9;
		for (i = 16; i < sizeof(w->bytes); i += 16)
			if (random64() % 2)
				put_be32(w->bytes + i, MLX5_INLINE_SEG | random64() % 64);
		w->size = size;
		err = wqe_parse(w, random64() % QP_SERVICES);
		check_bounds(w, err);
		good += !err;
		count++;
		free(w);
	} while (clock() < end);
	print_message("%lu random WQEs, %lu of them made sense\n", count, good);
	assert_true(good > 0 && good < count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send_wqe_parses_to_its_segments),
		cmocka_unit_test(inline_data_is_found_in_the_wqe),
		cmocka_unit_test(rdma_wqe_has_remote_address_and_key),
		cmocka_unit_test(atomic_wqe_has_operands_and_one_segment),
		cmocka_unit_test(ud_wqe_has_its_address_vector),
		cmocka_unit_test(dc_wqe_has_the_long_address_vector),
		cmocka_unit_test(opcode_is_good_for_its_transports_only),
		cmocka_unit_test(wqe_beyond_its_limits_is_an_error),
		cmocka_unit_test(random_wqe_stays_in_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
