// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Shared receive queues: RMPs and XRC SRQs, what is taken from them as the guest links and
 * posts it, hostile links and counters, the limit, and hostile commands.
 */
#include "event_fakes.h"

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

void qp_forget_srq(struct srq *srq)
{
	forgotten = srq;
}

static struct eq *eq;
static struct guest_eq geq;
static uint32_t cqn;

static int setup(void **state)
{
	u8 in[IFC_BYTES(create_cq_in) + 8] = { }, out[IFC_BYTES(create_cq_out)];
	void *cqc = IFC_PTR(create_cq_in, in, cq_context);

	fakes_setup(state);
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

static int teardown(void **state)
{
	srq_reset(hca);
	return fakes_teardown(state);
}

#define RMP_BYTES (IFC_BYTES(create_rmp_in) + 16 * 8)
#define XRC_BYTES (IFC_BYTES(create_xrc_srq_in) + 16 * 8)

static void *rmp_in(u8 *in)
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

static void *xrc_in(u8 *in)
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

static u8 *wqe(uint32_t index)
{
	return ram + SRQ_AT + index * STRIDE;
}

static void link_wqe(uint32_t index, uint32_t next)
{
	put_be16(wqe(index) + 2, next);
}

static void put_seg(u8 *seg, uint32_t len, uint32_t lkey, uint64_t addr)
{
	put_be32(seg, len);
	put_be32(seg + 4, lkey);
	put_be64(seg + 8, addr);
}

static struct guest_srq guest_of(uint32_t number)
{
	struct guest_srq g = { .srq = srq_get(hca, number), .tail = SIZE - 1 };
	uint32_t i;

	assert_non_null(g.srq);
	for (i = 0; i < SIZE; i++)
		link_wqe(i, (i + 1) % SIZE);
	put_be32(ram + DB_AT, 0);
	return g;
}

static struct guest_srq make_rmp(void)
{
	u8 in[RMP_BYTES], out[IFC_BYTES(create_rmp_out)];

	rmp_in(in);
	assert_int_equal(run(srq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	return guest_of(IFC_GET(create_rmp_out, out, rmpn));
}

static struct guest_srq make_xrc(void)
{
	u8 in[XRC_BYTES], out[IFC_BYTES(create_xrc_srq_out)];

	xrc_in(in);
	assert_int_equal(run(srq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	return guest_of(IFC_GET(create_xrc_srq_out, out, xrc_srqn));
}

static void ring(struct guest_srq *g)
{
	put_be32(ram + DB_AT, g->counter);
}

/* The WQE's number, or -1 if all are in use. */
static int post(struct guest_srq *g, uint32_t value)
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
static void give_back(struct guest_srq *g, uint32_t index)
{
	link_wqe(g->tail, index);
	g->tail = index;
}

static enum cmd_status destroy(uint32_t number, bool xrc)
{
	u8 in[IFC_BYTES(destroy_rmp_in)] = { }, out[IFC_BYTES(destroy_rmp_out)];

	IFC_SET(destroy_rmp_in, in, opcode,
		xrc ? MLX5_CMD_OP_DESTROY_XRC_SRQ : MLX5_CMD_OP_DESTROY_RMP);
	IFC_SET(destroy_rmp_in, in, rmpn, number);
	return run(srq_ops, in, sizeof(in), out, sizeof(out));
}

static enum cmd_status arm_rmp(uint32_t number, unsigned int limit, unsigned int state)
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

static enum cmd_status arm_xrc(uint32_t number, unsigned int limit, unsigned int op_mod)
{
	u8 in[IFC_BYTES(arm_xrc_srq_in)] = { }, out[IFC_BYTES(arm_xrc_srq_out)];

	IFC_SET(arm_xrc_srq_in, in, opcode, MLX5_CMD_OP_ARM_XRC_SRQ);
	IFC_SET(arm_xrc_srq_in, in, op_mod, op_mod);
	IFC_SET(arm_xrc_srq_in, in, xrc_srqn, number);
	IFC_SET(arm_xrc_srq_in, in, lwm, limit);
	return run(srq_ops, in, sizeof(in), out, sizeof(out));
}

static enum cmd_status query(uint32_t number, bool xrc, u8 *out, size_t out_len)
{
	u8 in[IFC_BYTES(query_rmp_in)] = { };

	IFC_SET(query_rmp_in, in, opcode,
		xrc ? MLX5_CMD_OP_QUERY_XRC_SRQ : MLX5_CMD_OP_QUERY_RMP);
	IFC_SET(query_rmp_in, in, rmpn, number);
	return run(srq_ops, in, sizeof(in), out, out_len);
}

static void expect_event(unsigned int type, uint32_t number)
{
	const u8 *e = next_eqe(&geq);

	assert_non_null(e);
	assert_int_equal(e[1], type);
	assert_int_equal(be32_at(e + 32 + 24), number);
	assert_null(next_eqe(&geq));
	eq_doorbell(hca, eq->number << 24 | geq.index, true);
}

static void test_take_in_order(void **state)
{
	struct guest_srq g = make_rmp();
	uint32_t posted = 0, taken = 0, i;
	int index, out[3];
	struct recv_wqe r;

	assert_int_equal(srq_take(g.srq, &r), 0);
	/* Given back out of order, so that the list gets mixed; over two laps of 16 bits. */
	for (i = 0; i < 50000; i++) {
		unsigned int k;

		for (k = 0; k < 3; k++)
			assert_true(post(&g, posted++) >= 0);
		for (k = 0; k < 3; k++) {
			assert_int_equal(srq_take(g.srq, &r), 1);
			assert_int_equal(r.segs, 1);
			assert_int_equal(r.seg[0].addr, taken++);
			assert_int_equal(be64_at(wqe(r.index) + 24), r.seg[0].addr);
			out[k] = r.index;
		}
		assert_int_equal(srq_take(g.srq, &r), 0);
		for (k = 0; k < 3; k++)
			give_back(&g, out[(k + i) % 3]);
	}
	/* All but one. */
	for (i = 0; (index = post(&g, posted)) >= 0; i++)
		posted++;
	assert_int_equal(i, SIZE - 1);
	while (srq_take(g.srq, &r) == 1)
		assert_int_equal(r.seg[0].addr, taken++);
	assert_int_equal(taken, posted);
	assert_false(g.srq->error);
}

static void test_hostile_links(void **state)
{
	static const uint16_t links[] = { SIZE, SIZE + 1, 0x7fff, 0x8000, 0xffff };
	struct recv_wqe r;
	unsigned int i;

	for (i = 0; i < sizeof(links) / sizeof(*links); i++) {
		struct guest_srq g = make_rmp();
		uint32_t n = g.srq->number;

		post(&g, 0);
		post(&g, 1);
		link_wqe(1, links[i]);
		assert_int_equal(srq_take(g.srq, &r), 1);
		assert_int_equal(srq_take(g.srq, &r), -EINVAL);
		expect_event(CATAS, n);
		/* For good, and told once. */
		link_wqe(1, 2);
		assert_int_equal(srq_take(g.srq, &r), -EINVAL);
		assert_null(next_eqe(&geq));
		assert_int_equal(arm_rmp(n, 1, MLX5_RMPC_STATE_RDY), CMD_BAD_RES_STATE);
		assert_int_equal(destroy(n, false), CMD_OK);
		hca->srqs.next = hca->srqs.first;
	}
}

/* A circle ends with the counter. */
static void test_links_in_a_circle(void **state)
{
	struct guest_srq g = make_rmp();
	struct recv_wqe r;
	unsigned int i;

	for (i = 0; i < SIZE; i++)
		link_wqe(i, 0);
	g.counter = SIZE;
	ring(&g);
	for (i = 0; i < SIZE; i++) {
		assert_int_equal(srq_take(g.srq, &r), 1);
		assert_int_equal(r.index, 0);
	}
	assert_int_equal(srq_take(g.srq, &r), 0);
}

static void test_hostile_counters(void **state)
{
	static const uint32_t counters[] = { SIZE + 1, 0x7fff, 0x8000, 0xffff };
	struct recv_wqe r;
	unsigned int i;

	for (i = 0; i < sizeof(counters) / sizeof(*counters); i++) {
		struct guest_srq g = make_xrc();
		uint32_t n = g.srq->number;

		put_be32(ram + DB_AT, counters[i]);
		assert_int_equal(srq_take(g.srq, &r), -EINVAL);
		expect_event(CATAS, n);
		assert_int_equal(destroy(n, true), CMD_OK);
		assert_non_null(forgotten);
		hca->srqs.next = hca->srqs.first;
	}
}

static void test_memory_gone(void **state)
{
	struct guest_srq g = make_rmp();
	struct recv_wqe r;

	post(&g, 0);
	ram_gone = true;
	assert_int_equal(srq_take(g.srq, &r), -EINVAL);
	assert_int_equal(srq_take(g.srq, &r), -EINVAL);
	ram_gone = false;
	assert_true(g.srq->error);
	/* The record is there, the buffer is not. */
	hca->srqs.next = hca->srqs.first + 1;
	g = make_rmp();
	g.srq->buf.page[0] = RAM(RAM_SIZE);
	post(&g, 0);
	assert_int_equal(srq_take(g.srq, &r), -EINVAL);
	expect_event(CATAS, g.srq->number);
}

static void test_limit(void **state)
{
	int xrc;

	for (xrc = 0; xrc < 2; xrc++) {
		struct guest_srq g = xrc ? make_xrc() : make_rmp();
		uint32_t n = g.srq->number, i;
		struct recv_wqe r;

		for (i = 0; i < 6; i++)
			post(&g, i);
		assert_int_equal(xrc ? arm_xrc(n, 4, 1) : arm_rmp(n, 4, MLX5_RMPC_STATE_RDY),
				 CMD_OK);
		srq_take(g.srq, &r);
		srq_take(g.srq, &r);	/* 4 left */
		assert_null(next_eqe(&geq));
		srq_take(g.srq, &r);
		expect_event(LIMIT, n);
		/* Once for an arm. */
		srq_take(g.srq, &r);
		srq_take(g.srq, &r);
		assert_null(next_eqe(&geq));
		srq_take(g.srq, &r);
		/* Below it already, and empty: when somebody wants one. */
		assert_int_equal(xrc ? arm_xrc(n, 1, 1) : arm_rmp(n, 1, MLX5_RMPC_STATE_RDY),
				 CMD_OK);
		assert_null(next_eqe(&geq));
		assert_int_equal(srq_take(g.srq, &r), 0);
		expect_event(LIMIT, n);
		assert_int_equal(srq_take(g.srq, &r), 0);
		assert_null(next_eqe(&geq));
		/* Taken back. */
		assert_int_equal(xrc ? arm_xrc(n, 3, 1) : arm_rmp(n, 3, MLX5_RMPC_STATE_RDY),
				 CMD_OK);
		assert_int_equal(xrc ? arm_xrc(n, 0, 1) : arm_rmp(n, 0, MLX5_RMPC_STATE_RDY),
				 CMD_OK);
		assert_int_equal(srq_take(g.srq, &r), 0);
		assert_null(next_eqe(&geq));
		/* Refused. */
		assert_int_equal(xrc ? arm_xrc(n, SIZE + 1, 1) :
				 arm_rmp(n, SIZE + 1, MLX5_RMPC_STATE_RDY), CMD_BAD_PARAM);
		assert_int_equal(xrc ? arm_xrc(n, 1, 2) : arm_rmp(n, 1, MLX5_RMPC_STATE_ERR),
				 CMD_BAD_PARAM);
		/* Of the other kind. */
		assert_int_equal(!xrc ? arm_xrc(n, 1, 1) : arm_rmp(n, 1, MLX5_RMPC_STATE_RDY),
				 CMD_BAD_RES);
	}
}

static void test_one_number_space(void **state)
{
	struct guest_srq a = make_rmp(), b = make_xrc();
	uint32_t x = a.srq->number, y = b.srq->number;
	u8 out[IFC_BYTES(query_xrc_srq_out) + IFC_BYTES(query_rmp_out)];

	assert_int_not_equal(x, y);
	assert_int_equal(destroy(x, true), CMD_BAD_RES);
	assert_int_equal(destroy(y, false), CMD_BAD_RES);
	assert_int_equal(query(x, true, out, sizeof(out)), CMD_BAD_RES);
	assert_int_equal(query(y, false, out, sizeof(out)), CMD_BAD_RES);
	/* Users. */
	a.srq->users = 1;
	assert_int_equal(destroy(x, false), CMD_BAD_RES_STATE);
	a.srq->users = 0;
	assert_int_equal(cq_get(hca, cqn)->users, 1);
	forgotten = NULL;
	assert_int_equal(destroy(y, true), CMD_OK);
	assert_ptr_equal(forgotten, b.srq);
	assert_int_equal(cq_get(hca, cqn)->users, 0);
	assert_int_equal(destroy(y, true), CMD_BAD_RES);
	assert_int_equal(destroy(x, false), CMD_OK);
}

static void test_query(void **state)
{
	struct guest_srq g = make_rmp();
	u8 out[IFC_BYTES(query_xrc_srq_out) + IFC_BYTES(query_rmp_out)];
	void *rmpc = IFC_PTR(query_rmp_out, out, rmp_context), *wq = IFC_PTR(rmpc, rmpc, wq);
	void *xrc = IFC_PTR(query_xrc_srq_out, out, xrc_srq_context_entry);
	struct recv_wqe r;
	u8 in[XRC_BYTES];

	arm_rmp(g.srq->number, 2, MLX5_RMPC_STATE_RDY);
	post(&g, 0);
	post(&g, 0);
	post(&g, 0);
	srq_take(g.srq, &r);
	assert_int_equal(query(g.srq->number, false, out, sizeof(out)), CMD_OK);
	assert_int_equal(IFC_GET(rmpc, rmpc, state), MLX5_RMPC_STATE_RDY);
	assert_int_equal(IFC_GET(wq, wq, lwm), 2);
	assert_int_equal(IFC_GET(wq, wq, log_wq_sz), LOG_SIZE);
	assert_int_equal(IFC_GET(wq, wq, pd), 7);
	assert_int_equal(IFC_GET(wq, wq, hw_counter), 1);
	assert_int_equal(IFC_GET(wq, wq, sw_counter), 3);
	link_wqe(1, 1000);
	srq_take(g.srq, &r);
	assert_int_equal(query(g.srq->number, false, out, sizeof(out)), CMD_OK);
	assert_int_equal(IFC_GET(rmpc, rmpc, state), MLX5_RMPC_STATE_ERR);

	/* user_index from the number. */
	xrc = xrc_in(in);
	IFC_SET(xrc_srqc, xrc, user_index_equal_xrc_srqn, 1);
	assert_int_equal(run(srq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	g = guest_of(IFC_GET(create_xrc_srq_out, out, xrc_srqn));
	assert_int_equal(g.srq->user_index, g.srq->number);
	post(&g, 0);
	xrc = IFC_PTR(query_xrc_srq_out, out, xrc_srq_context_entry);
	assert_int_equal(query(g.srq->number, true, out, sizeof(out)), CMD_OK);
	assert_int_equal(IFC_GET(xrc_srqc, xrc, state), MLX5_XRC_SRQC_STATE_GOOD);
	assert_int_equal(IFC_GET(xrc_srqc, xrc, user_index), g.srq->number);
	assert_int_equal(IFC_GET(xrc_srqc, xrc, wqe_cnt), 1);
	assert_int_equal(IFC_GET(xrc_srqc, xrc, cqn), cqn);
	/* An XRC SRQ has its own PD, XRCD and CQ. */
	assert_int_equal(g.srq->pd, 8);
	assert_int_equal(g.srq->xrcd, 9);
	assert_ptr_equal(g.srq->cq, cq_get(hca, cqn));
}

/* The unit of the page offset is a 64th of a page, whatever the size of the page. */
static void test_page_offset(void **state)
{
	u8 in[RMP_BYTES], out[IFC_BYTES(create_rmp_out)];
	void *rmpc = rmp_in(in), *wq = IFC_PTR(rmpc, rmpc, wq);
	struct recv_wqe r;

	IFC_SET(wq, wq, log_wq_pg_sz, 1);
	IFC_SET(wq, wq, page_offset, 3);
	assert_int_equal(run(srq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	put_seg(ram + SRQ_AT + 3 * 128 + 16, 9, 8, 7);
	put_be32(ram + DB_AT, 1);
	assert_int_equal(srq_take(srq_get(hca, IFC_GET(create_rmp_out, out, rmpn)), &r), 1);
	assert_int_equal(r.segs, 3);
	assert_int_equal(r.seg[0].len, 9);
	assert_int_equal(r.seg[0].lkey, 8);
}

static void test_cyclic(void **state)
{
	u8 in[RMP_BYTES], out[IFC_BYTES(create_rmp_out)];
	void *rmpc = rmp_in(in), *wq = IFC_PTR(rmpc, rmpc, wq);
	struct recv_wqe r;
	struct srq *srq;
	uint32_t i;

	IFC_SET(rmpc, rmpc, basic_cyclic_rcv_wqe, 1);
	IFC_SET(wq, wq, wq_type, MLX5_WQ_TYPE_CYCLIC);
	assert_int_equal(run(srq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	srq = srq_get(hca, IFC_GET(create_rmp_out, out, rmpn));
	for (i = 0; i < 20; i++) {
		put_seg(wqe(i % SIZE), 0x7fff0000 + i, 1, i);
		put_seg(wqe(i % SIZE) + 16, 0, INVALID_LKEY, 0);
		put_be32(ram + DB_AT, i + 1);
		assert_int_equal(srq_take(srq, &r), 1);
		assert_int_equal(r.index, i % SIZE);
		assert_int_equal(r.segs, 1);
		assert_int_equal(r.seg[0].addr, i);
	}
}

static void test_parse(void **state)
{
	u8 bytes[1024];
	struct recv_wqe r;
	unsigned int i;

	for (i = 0; i < 64; i++)
		put_seg(bytes + 16 * i, 10 + i, 7 + i, 1000 + i);
	recv_parse(&r, bytes, 0);
	assert_int_equal(r.segs, 0);
	assert_int_equal(r.room, 0);
	recv_parse(&r, bytes, 15);
	assert_int_equal(r.segs, 0);
	recv_parse(&r, bytes, 47);
	assert_int_equal(r.segs, 2);
	assert_int_equal(r.room, 21);
	assert_int_equal(r.seg[1].len, 11);
	assert_int_equal(r.seg[1].lkey, 8);
	assert_int_equal(r.seg[1].addr, 1001);
	recv_parse(&r, bytes, sizeof(bytes));
	assert_int_equal(r.segs, RECV_SEGS);
	/* The end of the list, at once and later. */
	put_seg(bytes + 32, 0, INVALID_LKEY, 0);
	recv_parse(&r, bytes, sizeof(bytes));
	assert_int_equal(r.segs, 2);
	put_seg(bytes, 0, INVALID_LKEY, 0);
	recv_parse(&r, bytes, sizeof(bytes));
	assert_int_equal(r.segs, 0);
	/* The reserved lkey with a length is a segment. */
	put_seg(bytes, 5, INVALID_LKEY, 0);
	recv_parse(&r, bytes, 32);
	assert_int_equal(r.segs, 2);
	/* 0 is 2 GiB, and the high bit is nothing. */
	put_seg(bytes, 0, 1, 0);
	put_seg(bytes + 16, 0x80000003, 1, 0);
	recv_parse(&r, bytes, 32);
	assert_int_equal(r.seg[0].len, 0x80000000);
	assert_int_equal(r.seg[1].len, 3);
	/* There is room for the longest message, however long the list is. */
	put_seg(bytes, MESSAGE_MAX - 3, 1, 0);
	recv_parse(&r, bytes, 32);
	assert_int_equal(r.room, MESSAGE_MAX);
	put_seg(bytes, MESSAGE_MAX - 4, 1, 0);
	recv_parse(&r, bytes, 32);
	assert_int_equal(r.room, MESSAGE_MAX - 1);
	for (i = 0; i < RECV_SEGS; i++)
		put_seg(bytes + 16 * i, 0x7fffffff, 1, 0);
	recv_parse(&r, bytes, sizeof(bytes));
	assert_int_equal(r.segs, RECV_SEGS);
	assert_int_equal(r.room, MESSAGE_MAX);
}

#define WQ(field) IFC_BIT(rmpc, wq) + IFC_BIT(wq, field), IFC_WIDTH(wq, field)
#define RMPC(field) IFC_BIT(rmpc, field), IFC_WIDTH(rmpc, field)
#define XRC(field) IFC_BIT(xrc_srqc, field), IFC_WIDTH(xrc_srqc, field)

static const struct {
	const char *what;
	bool xrc;
	size_t bit, width;
	uint32_t value;
	unsigned int pages;
	enum cmd_status status;
} hostile[] = {
	{ "good", false, WQ(log_wq_sz), 6, 1, CMD_OK },
	{ "a page missing", false, WQ(log_wq_sz), 7, 1, CMD_BAD_PARAM },
	{ "no pages", false, WQ(log_wq_sz), 0, 0, CMD_BAD_PARAM },
	{ "log size above the limit", false, WQ(log_wq_sz), HCA_LOG_MAX_WQ + 1, 16,
	  CMD_BAD_PARAM },
	{ "log size 31", false, WQ(log_wq_sz), 31, 16, CMD_BAD_PARAM },
	{ "stride 16", false, WQ(log_wq_stride), 4, 16, CMD_BAD_PARAM },
	{ "stride 1", false, WQ(log_wq_stride), 0, 16, CMD_BAD_PARAM },
	{ "stride 512", false, WQ(log_wq_stride), 9, 1, CMD_OK },
	{ "stride 1024", false, WQ(log_wq_stride), 10, 16, CMD_BAD_PARAM },
	{ "stride 32768", false, WQ(log_wq_stride), 15, 16, CMD_BAD_PARAM },
	{ "page shift 43", false, WQ(log_wq_pg_sz), 31, 16, CMD_BAD_PARAM },
	{ "pages not aligned", false, WQ(log_wq_pg_sz), 3, 16, CMD_BAD_PARAM },
	{ "cyclic with links", false, WQ(wq_type), 1, 16, CMD_BAD_PARAM },
	{ "striding", false, WQ(wq_type), 3, 16, CMD_BAD_PARAM },
	{ "list without links", false, RMPC(basic_cyclic_rcv_wqe), 1, 16, CMD_BAD_PARAM },
	{ "in error", false, RMPC(state), MLX5_RMPC_STATE_ERR, 16, CMD_BAD_PARAM },
	{ "umem", false, WQ(wq_umem_valid), 1, 16, CMD_BAD_PARAM },
	{ "record by umem", false, WQ(dbr_umem_valid), 1, 16, CMD_BAD_PARAM },
	{ "limit", false, WQ(lwm), SIZE + 1, 16, CMD_BAD_PARAM },
	{ "PD", false, WQ(pd), 0xffffff, 16, CMD_BAD_RES },
	{ "XRC, good", true, XRC(log_xrc_srq_size), 6, 1, CMD_OK },
	{ "XRC, a page missing", true, XRC(log_xrc_srq_size), 15, 16, CMD_BAD_PARAM },
	{ "XRC, no pages", true, XRC(log_xrc_srq_size), 3, 0, CMD_BAD_PARAM },
	{ "XRC, stride 16", true, XRC(log_rq_stride), 0, 16, CMD_BAD_PARAM },
	{ "XRC, stride 2048", true, XRC(log_rq_stride), 7, 16, CMD_BAD_PARAM },
	{ "XRC, page shift 75", true, XRC(log_page_size), 63, 16, CMD_BAD_PARAM },
	{ "XRC, page offset", true, XRC(page_offset), 63, 1, CMD_BAD_PARAM },
	{ "XRC, PD", true, XRC(pd), 100, 16, CMD_BAD_RES },
	{ "XRC, XRCD", true, XRC(xrcd), 100, 16, CMD_BAD_RES },
	{ "XRC, CQ", true, XRC(cqn), 0xffffff, 16, CMD_BAD_RES },
	{ "XRC, CQ 0", true, XRC(cqn), 0, 16, CMD_BAD_RES },
	{ "XRC, cyclic", true, XRC(cont_srq), 1, 16, CMD_BAD_PARAM },
	{ "XRC, without links", true, XRC(basic_cyclic_rcv_wqe), 1, 16, CMD_BAD_PARAM },
	{ "XRC, reserved lkey", true, XRC(rlky), 1, 16, CMD_BAD_PARAM },
	{ "XRC, record by umem", true, XRC(dbr_umem_valid), 1, 16, CMD_BAD_PARAM },
	{ "XRC, limit", true, XRC(lwm), 0xffff, 16, CMD_BAD_PARAM },
};

static void test_hostile_create(void **state)
{
	u8 in[RMP_BYTES > XRC_BYTES ? RMP_BYTES : XRC_BYTES], out[IFC_BYTES(create_rmp_out)];
	unsigned int i, made = 0;
	size_t taken;

	/* No memory for the SRQ, and none for its list of pages. */
	taken = hca->memory;
	rmp_in(in);
	for (i = 0; i < 2; i++) {
		hca->memory = HCA_MEMORY - i * sizeof(struct srq) - 7;
		assert_int_equal(run(srq_ops, in, RMP_BYTES, out, sizeof(out)),
				 CMD_NO_RESOURCES);
		assert_int_equal(hca->memory, HCA_MEMORY - i * sizeof(struct srq) - 7);
	}
	hca->memory = taken;
	for (i = 0; i < sizeof(hostile) / sizeof(*hostile); i++) {
		void *context = hostile[i].xrc ? xrc_in(in) : rmp_in(in);
		size_t fixed = hostile[i].xrc ? IFC_BYTES(create_xrc_srq_in) :
						IFC_BYTES(create_rmp_in);
		size_t memory = hca->memory;

		print_message("  %s\n", hostile[i].what);
		ifc_set(context, hostile[i].bit, hostile[i].width, hostile[i].value);
		assert_int_equal(run(srq_ops, in, fixed + 8 * hostile[i].pages, out,
				     sizeof(out)), hostile[i].status);
		if (hostile[i].status)
			assert_int_equal(memory, hca->memory);
		made += !hostile[i].status;
	}
	assert_int_equal(made, 3);
	assert_int_equal(cq_get(hca, cqn)->users, 1);
	/* One more, and the numbers are used up. */
	rmp_in(in);
	assert_int_equal(run(srq_ops, in, RMP_BYTES, out, sizeof(out)), CMD_OK);
	assert_int_equal(run(srq_ops, in, RMP_BYTES, out, sizeof(out)), CMD_NO_RESOURCES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_take_in_order),
		TEST(test_hostile_links),
		TEST(test_links_in_a_circle),
		TEST(test_hostile_counters),
		TEST(test_memory_gone),
		TEST(test_limit),
		TEST(test_one_number_space),
		TEST(test_query),
		TEST(test_page_offset),
		TEST(test_cyclic),
		TEST(test_parse),
		TEST(test_hostile_create),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
