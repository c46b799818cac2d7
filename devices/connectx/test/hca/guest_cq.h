/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A CQ and its guest, who polls and arms as libmlx5 and mlx5_ib do, for the tests of CQs.
 * Every program that includes this has setup() make one EQ.
 */
#include "event_fakes.h"
#include "cq.h"

#define EQ_AT 0x1000
#define DB_AT 0x3000
#define CQ_AT 0x4000
#define NEW_AT 0x20000
#define COMP MLX5_EVENT_TYPE_CODING_COMPLETION_EVENTS
#define CQ_ERR MLX5_EVENT_TYPE_CODING_CQ_ERROR
#define SOLICITED (1u << 24)

static struct eq *eq;
static struct guest_eq geq;

/* The guest's side, as in libmlx5 and mlx5_ib. */
struct guest_cq {
	struct cq *cq;
	uint32_t start, log_size, entry_size, index;
};

static inline u8 *slot(const struct guest_cq *g, uint32_t index)
{
	return ram + g->start + (index & ((1u << g->log_size) - 1)) * g->entry_size +
	       g->entry_size - 64;
}

static inline void fill_invalid(const struct guest_cq *g)
{
	uint32_t i;

	for (i = 0; i < 1u << g->log_size; i++)
		slot(g, i)[63] = MLX5_CQE_INVALID << 4;
}

static inline const struct mlx5_cqe64 *peek(const struct guest_cq *g, uint32_t index)
{
	const u8 *c = slot(g, index);

	if (c[63] >> 4 == MLX5_CQE_INVALID || (c[63] ^ index >> g->log_size) & 1)
		return NULL;
	return (const void *)c;
}

static inline const struct mlx5_cqe64 *poll_cq(struct guest_cq *g)
{
	const struct mlx5_cqe64 *c = peek(g, g->index);

	if (c)
		put_be32(ram + DB_AT, ++g->index & 0xffffff);
	return c;
}

static inline void arm(const struct guest_cq *g, unsigned int sn, uint32_t flags)
{
	cq_doorbell(hca, sn << 28 | flags | (g->index & 0xffffff), g->cq->number);
}

static inline void push_op(struct guest_cq *g, uint32_t value, u8 opcode, bool solicited)
{
	struct mlx5_cqe64 cqe = { .byte_cnt = htobe32(value), .op_own = opcode << 4 | 1 };

	cq_push(g->cq, &cqe, solicited);
}

static inline void push(struct guest_cq *g, uint32_t value)
{
	push_op(g, value, MLX5_CQE_RESP_SEND, false);
}

static inline unsigned int events(void)
{
	return drain_eq(eq, &geq, COMP);
}

#define CREATE_BYTES (IFC_BYTES(create_cq_in) + 16 * 8)

static inline void *create_in(u8 *in, unsigned int log_size, bool big, unsigned int count,
		       unsigned int period)
{
	void *cqc = IFC_PTR(create_cq_in, in, cq_context);

	memset(in, 0, CREATE_BYTES);
	IFC_SET(create_cq_in, in, opcode, MLX5_CMD_OP_CREATE_CQ);
	IFC_SET(cqc, cqc, log_cq_size, log_size);
	IFC_SET(cqc, cqc, cqe_sz, big);
	IFC_SET(cqc, cqc, uar_page, HCA_UAR_FIRST);
	IFC_SET(cqc, cqc, c_eqn_or_apu_element, eq->number);
	IFC_SET(cqc, cqc, cq_max_count, count);
	IFC_SET(cqc, cqc, cq_period, period);
	IFC_SET64(cqc, cqc, dbr_addr, RAM(DB_AT));
	put_pas(in + IFC_BYTES(create_cq_in), CQ_AT, 16);
	return cqc;
}

static inline struct guest_cq finish_cq(u8 *in)
{
	const void *cqc = IFC_PTR(create_cq_in, in, cq_context);
	struct guest_cq g = {
		.start = CQ_AT, .log_size = IFC_GET(cqc, cqc, log_cq_size),
		.entry_size = IFC_GET(cqc, cqc, cqe_sz) ? 128 : 64,
	};
	u8 out[IFC_BYTES(create_cq_out)];

	fill_invalid(&g);
	assert_int_equal(run(cq_ops, in, CREATE_BYTES, out, sizeof(out)), CMD_OK);
	g.cq = cq_get(hca, IFC_GET(create_cq_out, out, cqn));
	assert_non_null(g.cq);
	return g;
}

static inline struct guest_cq make_cq(unsigned int log_size, bool big, unsigned int count,
			       unsigned int period)
{
	u8 in[CREATE_BYTES];

	create_in(in, log_size, big, count, period);
	return finish_cq(in);
}

static inline enum cmd_status destroy_cq(uint32_t number)
{
	u8 in[IFC_BYTES(destroy_cq_in)] = { }, out[IFC_BYTES(destroy_cq_out)];

	IFC_SET(destroy_cq_in, in, opcode, MLX5_CMD_OP_DESTROY_CQ);
	IFC_SET(destroy_cq_in, in, cqn, number);
	return run(cq_ops, in, sizeof(in), out, sizeof(out));
}

static inline enum cmd_status query_cq(uint32_t number, u8 *out)
{
	u8 in[IFC_BYTES(query_cq_in)] = { };

	IFC_SET(query_cq_in, in, opcode, MLX5_CMD_OP_QUERY_CQ);
	IFC_SET(query_cq_in, in, cqn, number);
	return run(cq_ops, in, sizeof(in), out, IFC_BYTES(query_cq_out));
}

static inline enum cmd_status modify_cq(uint32_t number, unsigned int op_mod, uint32_t fields,
				 unsigned int a, unsigned int b, unsigned int pages)
{
	u8 in[IFC_BYTES(modify_cq_in) + 16 * 8] = { }, out[IFC_BYTES(modify_cq_out)];
	void *cqc = IFC_PTR(modify_cq_in, in, cq_context);

	IFC_SET(modify_cq_in, in, opcode, MLX5_CMD_OP_MODIFY_CQ);
	IFC_SET(modify_cq_in, in, op_mod, op_mod);
	IFC_SET(modify_cq_in, in, cqn, number);
	IFC_SET(modify_cq_in, in, modify_field_select_resize_field_select, fields);
	if (op_mod) {
		IFC_SET(cqc, cqc, log_cq_size, a);
		IFC_SET(cqc, cqc, cqe_sz, b);
	} else {
		IFC_SET(cqc, cqc, cq_max_count, a);
		IFC_SET(cqc, cqc, cq_period, b);
	}
	put_pas(in + IFC_BYTES(modify_cq_in), NEW_AT, pages);
	return run(cq_ops, in, IFC_BYTES(modify_cq_in) + 8 * pages, out, sizeof(out));
}

static inline int setup(void **state)
{
	fakes_setup(state);
	eq = make_eq(EQ_AT, 4, 2, BIT_ULL(CQ_ERR));
	geq = (struct guest_eq){ .start = EQ_AT, .log_size = 4 };
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fakes_teardown)
