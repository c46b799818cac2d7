/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest with RMPs and XRC SRQs, for tests: a CQ, commands, and a list of WQEs that it links
 * and posts as libmlx5 and mlx5_ib do.
 */
#ifndef SRQ_GUEST_H
#define SRQ_GUEST_H

#include "event_fakes.h"
#include "cq.h"
#include "srq.h"

#define EQ_AT 0x1000
#define CQ_AT 0x2000
#define DB_AT 0x3000
#define SRQ_AT 0x4000
#define LIMIT MLX5_EVENT_TYPE_CODING_SRQ_LIMIT
#define CATAS MLX5_EVENT_TYPE_CODING_LOCAL_SRQ_CATASTROPHIC_ERROR
#define INVALID_LKEY 0x100
#define LOG_SIZE 3
#define SIZE (1u << LOG_SIZE)
#define STRIDE 64u

static struct srq *forgotten;

static void forget(struct srq *srq)
{
	forgotten = srq;
}

static struct eq *eq;
static struct guest_eq geq;
static uint32_t cqn;

static inline int setup(void **state)
{
	u8 in[IFC_BYTES(create_cq_in) + 8] = { }, out[IFC_BYTES(create_cq_out)];
	void *cqc = IFC_PTR(create_cq_in, in, cq_context);

	fakes_setup(state);
	hca->srq_gone = forget;
	eq = make_eq(EQ_AT, 4, 2, BIT_ULL(LIMIT) | BIT_ULL(CATAS));
	geq = (struct guest_eq){ .start = EQ_AT, .log_size = 4 };
	IFC_SET(create_cq_in, in, opcode, MLX5_CMD_OP_CREATE_CQ);
	IFC_SET(cqc, cqc, uar_page, HCA_UAR_FIRST);
	IFC_SET(cqc, cqc, c_eqn_or_apu_element, eq->number);
	IFC_SET64(cqc, cqc, dbr_addr, RAM(0x3800));
	put_pas(in + IFC_BYTES(create_cq_in), CQ_AT, 1);
	assert_int_equal(run(cq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	cqn = IFC_GET(create_cq_out, out, cqn);
	return 0;
}

static inline int teardown(void **state)
{
	srq_reset(hca);
	return fakes_teardown(state);
}

#define RMP_BYTES (IFC_BYTES(create_rmp_in) + 16 * 8)
#define XRC_BYTES (IFC_BYTES(create_xrc_srq_in) + 16 * 8)

static inline void *rmp_in(u8 *in)
{
	void *rmpc = IFC_PTR(create_rmp_in, in, ctx), *wq = IFC_PTR(rmpc, rmpc, wq);

	memset(in, 0, RMP_BYTES);
	IFC_SET(create_rmp_in, in, opcode, MLX5_CMD_OP_CREATE_RMP);
	IFC_SET(rmpc, rmpc, state, MLX5_RMPC_STATE_RDY);
	IFC_SET(wq, wq, log_wq_sz, LOG_SIZE);
	IFC_SET(wq, wq, log_wq_stride, 6);
	IFC_SET(wq, wq, pd, 7);
	IFC_SET64(wq, wq, dbr_addr, RAM(DB_AT));
	put_pas(in + IFC_BYTES(create_rmp_in), SRQ_AT, 16);
	return rmpc;
}

static inline void *xrc_in(u8 *in)
{
	void *xrc = IFC_PTR(create_xrc_srq_in, in, xrc_srq_context_entry);

	memset(in, 0, XRC_BYTES);
	IFC_SET(create_xrc_srq_in, in, opcode, MLX5_CMD_OP_CREATE_XRC_SRQ);
	IFC_SET(xrc_srqc, xrc, log_xrc_srq_size, LOG_SIZE);
	IFC_SET(xrc_srqc, xrc, log_rq_stride, 2);
	IFC_SET(xrc_srqc, xrc, pd, 8);
	IFC_SET(xrc_srqc, xrc, xrcd, 9);
	IFC_SET(xrc_srqc, xrc, cqn, cqn);
	IFC_SET(xrc_srqc, xrc, user_index, 0x1234);
	IFC_SET(xrc_srqc, xrc, db_record_addr_h, RAM(DB_AT) >> 32);
	IFC_SET(xrc_srqc, xrc, db_record_addr_l, (uint32_t)RAM(DB_AT) >> 2);
	put_pas(in + IFC_BYTES(create_xrc_srq_in), SRQ_AT, 16);
	return xrc;
}

/* The guest's side: a list of WQEs from head to tail, as libmlx5 and mlx5_ib keep it. */
struct guest_srq {
	struct srq *srq;
	uint32_t head, tail;
	uint16_t counter;
};

static inline u8 *wqe(uint32_t index)
{
	return ram + SRQ_AT + index * STRIDE;
}

static inline void link_wqe(uint32_t index, uint32_t next)
{
	put_be16(wqe(index) + 2, next);
}

static inline void put_seg(u8 *seg, uint32_t len, uint32_t lkey, uint64_t addr)
{
	put_be32(seg, len);
	put_be32(seg + 4, lkey);
	put_be64(seg + 8, addr);
}

static inline struct guest_srq guest_of(uint32_t number)
{
	struct guest_srq g = { .srq = srq_get(hca, number), .tail = SIZE - 1 };
	uint32_t i;

	assert_non_null(g.srq);
	for (i = 0; i < SIZE; i++)
		link_wqe(i, (i + 1) % SIZE);
	put_be32(ram + DB_AT, 0);
	return g;
}

static inline struct guest_srq make_rmp(void)
{
	u8 in[RMP_BYTES], out[IFC_BYTES(create_rmp_out)];

	rmp_in(in);
	assert_int_equal(run(srq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	return guest_of(IFC_GET(create_rmp_out, out, rmpn));
}

static inline struct guest_srq make_xrc(void)
{
	u8 in[XRC_BYTES], out[IFC_BYTES(create_xrc_srq_out)];

	xrc_in(in);
	assert_int_equal(run(srq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	return guest_of(IFC_GET(create_xrc_srq_out, out, xrc_srqn));
}

static inline void ring(struct guest_srq *g)
{
	put_be32(ram + DB_AT, g->counter);
}

/* The WQE's number, or -1 if all are in use. */
static inline int post(struct guest_srq *g, uint32_t value)
{
	uint32_t index = g->head;

	if (g->head == g->tail)
		return -1;
	g->head = be16_at(wqe(index) + 2);
	put_seg(wqe(index) + 16, 100, 5, value);
	put_seg(wqe(index) + 32, 0, INVALID_LKEY, 0);
	g->counter++;
	ring(g);
	return index;
}

/* The guest polled the completion of a WQE. */
static inline void give_back(struct guest_srq *g, uint32_t index)
{
	link_wqe(g->tail, index);
	g->tail = index;
}

static inline enum cmd_status destroy(uint32_t number, bool xrc)
{
	u8 in[IFC_BYTES(destroy_rmp_in)] = { }, out[IFC_BYTES(destroy_rmp_out)];

	IFC_SET(destroy_rmp_in, in, opcode,
		xrc ? MLX5_CMD_OP_DESTROY_XRC_SRQ : MLX5_CMD_OP_DESTROY_RMP);
	IFC_SET(destroy_rmp_in, in, rmpn, number);
	return run(srq_ops, in, sizeof(in), out, sizeof(out));
}

static inline enum cmd_status arm_rmp(uint32_t number, unsigned int limit, unsigned int state)
{
	u8 in[IFC_BYTES(modify_rmp_in)] = { }, out[IFC_BYTES(modify_rmp_out)];
	void *rmpc = IFC_PTR(modify_rmp_in, in, ctx);

	IFC_SET(modify_rmp_in, in, opcode, MLX5_CMD_OP_MODIFY_RMP);
	IFC_SET(modify_rmp_in, in, rmp_state, MLX5_RMPC_STATE_RDY);
	IFC_SET(modify_rmp_in, in, rmpn, number);
	IFC_SET(rmp_bitmask, IFC_PTR(modify_rmp_in, in, bitmask), lwm, 1);
	IFC_SET(rmpc, rmpc, state, state);
	IFC_SET(wq, IFC_PTR(rmpc, rmpc, wq), lwm, limit);
	return run(srq_ops, in, sizeof(in), out, sizeof(out));
}

static inline enum cmd_status arm_xrc(uint32_t number, unsigned int limit, unsigned int op_mod)
{
	u8 in[IFC_BYTES(arm_xrc_srq_in)] = { }, out[IFC_BYTES(arm_xrc_srq_out)];

	IFC_SET(arm_xrc_srq_in, in, opcode, MLX5_CMD_OP_ARM_XRC_SRQ);
	IFC_SET(arm_xrc_srq_in, in, op_mod, op_mod);
	IFC_SET(arm_xrc_srq_in, in, xrc_srqn, number);
	IFC_SET(arm_xrc_srq_in, in, lwm, limit);
	return run(srq_ops, in, sizeof(in), out, sizeof(out));
}

static inline enum cmd_status query(uint32_t number, bool xrc, u8 *out, size_t out_len)
{
	u8 in[IFC_BYTES(query_rmp_in)] = { };

	IFC_SET(query_rmp_in, in, opcode,
		xrc ? MLX5_CMD_OP_QUERY_XRC_SRQ : MLX5_CMD_OP_QUERY_RMP);
	IFC_SET(query_rmp_in, in, rmpn, number);
	return run(srq_ops, in, sizeof(in), out, out_len);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
