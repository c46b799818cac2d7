// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * DC in the whole model: a DC initiator (QP 0 of the guest), an SRQ and DCTs, which are made
 * as the driver does it, and work requests as libmlx5 writes them.
 */
#include "loopback_guest.h"
#include "clock.h"
#include "dct.h"
#include "qp.h"
#include "srq.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define KEY 0x0123456789abcdefull
#define DCT_INDEX 0x5a5a		/* its user index */
#define LOG_SRQ 4
#define SRQ_STRIDE 32
#define SRQ_RECORD 128
#define EVENT_DRAINED 0x1c

static uint32_t srqn, srq_at, eq_at, dctn;
static unsigned int srq_posted;
static uint16_t at;			/* the next block of the send queue */

static enum cmd_status status_of(uint16_t op, size_t in_len, size_t out_len)
{
	struct cmd c = { .in = in, .in_len = in_len, .out = out, .out_len = out_len };
	enum cmd_status status;

	put_be16(in, op);
	memset(out, 0, sizeof(out));
	status = cmd_run(hca, &c);
	memset(in, 0, sizeof(in));
	return status;
}

#define STATUS_OF(OP, name) \
	status_of(MLX5_CMD_OP_##OP, IFC_BYTES(name##_in), IFC_BYTES(name##_out))

static void make_srq(void)
{
	void *rmpc = IFC_PTR(create_rmp_in, in, ctx), *wq = IFC_PTR(rmpc, rmpc, wq);

	IFC_SET(rmpc, rmpc, state, MLX5_RMPC_STATE_RDY);
	IFC_SET(wq, wq, wq_type, MLX5_WQ_TYPE_LINKED_LIST);
	IFC_SET(wq, wq, log_wq_sz, LOG_SRQ);
	IFC_SET(wq, wq, log_wq_stride, 5);
	IFC_SET(wq, wq, pd, pd);
	IFC_SET64(wq, wq, dbr_addr, BASE + SRQ_RECORD);
	srq_at = take_pages(IFC_BYTES(create_rmp_in), 1);
	COMMAND(CREATE_RMP, create_rmp, 8);
	srqn = IFC_GET(create_rmp_out, out, rmpn);
	srq_posted = 0;
}

/* Its WQEs are linked in the order of their places. */
static void post_srq(uint32_t len, uint64_t addr)
{
	u8 *p = memory + srq_at + srq_posted % (1u << LOG_SRQ) * SRQ_STRIDE;

	srq_posted++;
	put_be16(p + 2, srq_posted % (1u << LOG_SRQ));
	put_data(p + 16, len, addr);
	put_be32(memory + SRQ_RECORD, srq_posted & 0xffff);
}

static void *fill_dct(void)
{
	void *dctc = IFC_PTR(create_dct_in, in, dct_context_entry);

	IFC_SET(dctc, dctc, pd, pd);
	IFC_SET(dctc, dctc, cqn, cqn);
	IFC_SET(dctc, dctc, srqn_xrqn, srqn);
	IFC_SET(dctc, dctc, user_index, DCT_INDEX);
	IFC_SET64(dctc, dctc, dc_access_key, KEY);
	IFC_SET(dctc, dctc, rre, 1);
	IFC_SET(dctc, dctc, rwe, 1);
	IFC_SET(dctc, dctc, rae, 1);
	IFC_SET(dctc, dctc, min_rnr_nak, 1);
	IFC_SET(dctc, dctc, mtu, 5);
	IFC_SET(dctc, dctc, port, 1);
	return dctc;
}

static void make_dct(void)
{
	fill_dct();
	COMMAND(CREATE_DCT, create_dct, 0);
	dctn = IFC_GET(create_dct_out, out, dctn);
}

static void drain_dct(void)
{
	IFC_SET(drain_dct_in, in, dctn, dctn);
	COMMAND(DRAIN_DCT, drain_dct, 0);
}

static void destroy_dct(void)
{
	IFC_SET(destroy_dct_in, in, dctn, dctn);
	COMMAND(DESTROY_DCT, destroy_dct, 0);
}

/* As mlx5_ib: it names the SRQ, of which a DCI makes no use.  The send queue lies first. */
static void make_dci(void)
{
	void *qpc = IFC_PTR(create_qp_in, in, qpc);

	IFC_SET(qpc, qpc, rq_type, 1);
	IFC_SET(qpc, qpc, srqn_rmpn_xrqn, srqn);
	make_qp(0, MLX5_QPC_ST_DCI);
	qp_at[0] -= SQ_OFFSET;
	qpn[1] = 0;
	connect_qp(0);
	at = 0;
}

static void make_event_queue(void)
{
	void *eqc = IFC_PTR(create_eq_in, in, eq_context_entry);

	IFC_SET(eqc, eqc, uar_page, uar);
	IFC_SET(eqc, eqc, log_eq_size, 6);
	IFC_SET64(create_eq_in, in, event_bitmask, 1ull << EVENT_DRAINED);
	eq_at = take_pages(IFC_BYTES(create_eq_in), 1);
	COMMAND(CREATE_EQ, create_eq, 8);
}

static int up(void **state)
{
	model_up();
	make_event_queue();
	make_srq();
	make_dct();
	make_dci();
	return 0;
}

static int down(void **state)
{
	model_down();
	return 0;
}

/* The address of the target, behind the control segment of the next WQE. */
static u8 *put_target(uint32_t number, uint64_t key)
{
	u8 *p = put_av(send_block(0, at) + 16, number, LID);

	put_be64(p - 48, key);
	return p;
}

static u8 *put_remote(u8 *p, uint64_t addr)
{
	memset(p, 0, 16);
	put_be64(p, addr);
	put_be32(p + 8, mkey);
	return p + 16;
}

static void post(const u8 *p, u8 opcode)
{
	uint16_t first = at;

	at += (p - send_block(0, at) + WQE_BB - 1) / WQE_BB;
	ring(0, first, p, opcode, 0x12345678);
}

static void post_send_to(uint32_t number, uint64_t key, uint32_t len)
{
	post(put_data(put_target(number, key), len, 0), MLX5_OPCODE_SEND);
}

static void expect_send(u8 syndrome)
{
	const u8 *cqe = next_cqe();

	assert_non_null(cqe);
	assert_int_equal(cqe[63] >> 4, syndrome ? MLX5_CQE_REQ_ERR : MLX5_CQE_REQ);
	assert_int_equal(be32_at(cqe + 56) & 0xffffff, qpn[0]);
	if (syndrome)
		assert_int_equal(cqe[55], syndrome);
}

/* A receive of the DCT; the library finds it by the user index. */
static const u8 *expect_receive(u8 opcode, uint32_t bytes, uint16_t counter)
{
	const u8 *cqe = next_cqe();

	assert_non_null(cqe);
	assert_int_equal(cqe[63] >> 4, opcode);
	assert_int_equal(be32_at(cqe + 56), dctn);
	assert_int_equal(be32_at(cqe + 32) & 0xffffff, DCT_INDEX);
	assert_int_equal(be16_at(cqe + 60), counter);
	if (opcode != MLX5_CQE_RESP_ERR)
		assert_int_equal(be32_at(cqe + 44), bytes);
	return cqe;
}

static void send_write_and_read_move_data(void **state)
{
	u8 *data = memory + DATA, *far = data + DATA_SIZE;
	const u8 *cqe;
	u8 *p;

	for (unsigned int i = 0; i < 20000; i++)
		data[i] = i * 7 + i / 256;
	post_srq(10000, DATA_SIZE);
	post_send_to(dctn, KEY, 9000);
	run_turns(50);
	expect_receive(MLX5_CQE_RESP_SEND, 9000, 0);
	expect_send(0);
	assert_memory_equal(data, far, 9000);

	post_srq(10000, DATA_SIZE + 10000);
	post(put_data(put_target(dctn, KEY), 10, 0), MLX5_OPCODE_SEND_IMM);
	run_turns(50);
	cqe = expect_receive(MLX5_CQE_RESP_SEND_IMM, 10, 1);
	assert_int_equal(be32_at(cqe + 36), 0x12345678);
	assert_int_equal(be32_at(cqe + 24) & 0xffffff, qpn[0]);
	expect_send(0);

	p = put_remote(put_target(dctn, KEY), DATA_SIZE + 20000);
	post(put_data(p, 5000, 100), MLX5_OPCODE_RDMA_WRITE);
	post_srq(0, 0);
	p = put_remote(put_target(dctn, KEY), DATA_SIZE + 30000);
	post(put_data(p, 5000, 100), MLX5_OPCODE_RDMA_WRITE_IMM);
	p = put_remote(put_target(dctn, KEY), DATA_SIZE);
	post(put_data(p, 9000, 100000), MLX5_OPCODE_RDMA_READ);
	run_turns(100);
	expect_receive(MLX5_CQE_RESP_WR_IMM, 5000, 2);
	for (int i = 0; i < 3; i++)
		expect_send(0);
	assert_memory_equal(data + 100, far + 20000, 5000);
	assert_memory_equal(data + 100, far + 30000, 5000);
	assert_memory_equal(data + 100000, far, 9000);
	assert_null(next_cqe());
}

static void atomics_return_the_old_value(void **state)
{
	u8 *far = memory + DATA + DATA_SIZE, *p;
	uint64_t value = htole64(40), got;

	memcpy(far, &value, 8);
	p = put_remote(put_target(dctn, KEY), DATA_SIZE);
	memset(p, 0, 16);
	put_be64(p, 2);
	post(put_data(p + 16, 8, 0), MLX5_OPCODE_ATOMIC_FA);
	p = put_remote(put_target(dctn, KEY), DATA_SIZE);
	put_be64(p, 1000);
	put_be64(p + 8, 42);
	post(put_data(p + 16, 8, 8), MLX5_OPCODE_ATOMIC_CS);
	run_turns(100);
	expect_send(0);
	expect_send(0);
	memcpy(&got, memory + DATA, 8);
	assert_int_equal(le64toh(got), 40);
	memcpy(&got, memory + DATA + 8, 8);
	assert_int_equal(le64toh(got), 42);
	memcpy(&got, far, 8);
	assert_int_equal(le64toh(got), 1000);
}

/* rdma-core's tests use a GRH always. */
static void send_by_a_global_path_arrives(void **state)
{
	u8 *p = put_target(dctn, KEY);

	put_be32(p - 20, BIT(30));
	port_gid(hca, 0, p - 16);
	post_srq(100, DATA_SIZE);
	post(put_data(p, 100, 0), MLX5_OPCODE_SEND);
	run_turns(50);
	expect_receive(MLX5_CQE_RESP_SEND, 100, 0);
	expect_send(0);
}

static void short_messages_are_scattered_to_the_cqe(void **state)
{
	static const u8 zeros[40];
	const u8 *cqe;

	drain_dct();
	destroy_dct();
	IFC_SET(dctc, fill_dct(), cs_res, MLX5_DCTC_CS_RES_UP_TO_64B);
	COMMAND(CREATE_DCT, create_dct, 0);
	dctn = IFC_GET(create_dct_out, out, dctn);
	memset(memory + DATA + DATA_SIZE, 0, 40);
	for (int i = 0; i < 2; i++) {
		post_srq(100, DATA_SIZE);
		post_send_to(dctn, KEY, 32 + i);
		run_turns(50);
		cqe = next_cqe();
		assert_non_null(cqe);
		assert_int_equal(be32_at(cqe + 44), 32 + i);
		assert_int_equal(cqe[63] >> 2 & 1, !i);		/* MLX5_INLINE_SCATTER_32 */
		if (!i)
			assert_memory_equal(cqe, memory + DATA, 32);
		assert_memory_equal(memory + DATA + DATA_SIZE, i ? memory + DATA : zeros, 33);
		expect_send(0);
	}
}

/* The SRQ is empty at first. */
static void send_waits_for_a_late_receive(void **state)
{
	post_send_to(dctn, KEY, 100);
	run_turns(50);
	assert_null(next_cqe());
	post_srq(100, DATA_SIZE);
	loop_run_for(loop, 1000000000);
	expect_receive(MLX5_CQE_RESP_SEND, 100, 0);
	expect_send(0);
}

/* The initiator fails, the DCT goes on; after a reset the initiator does too. */
static void wrong_dc_key_fails_the_initiator_only(void **state)
{
	post_srq(100, DATA_SIZE);
	post_send_to(dctn, KEY ^ 1, 100);
	post_send_to(dctn, KEY, 100);
	run_turns(50);
	expect_send(MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	expect_send(MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	assert_null(next_cqe());
	IFC_SET(qp_2rst_in, in, qpn, qpn[0]);
	COMMAND(2RST_QP, qp_2rst, 0);
	put_be32((u8 *)record(0) + 4, 0);
	at = 0;
	connect_qp(0);
	post_send_to(dctn, KEY, 100);
	run_turns(50);
	expect_receive(MLX5_CQE_RESP_SEND, 100, 0);
	expect_send(0);
}

/* What libmlx5 sees of an access that the mkey does not permit. */
static void wrong_rkey_is_a_remote_access_error(void **state)
{
	u8 *p = put_remote(put_target(dctn, KEY), DATA_SIZE);

	put_be32(p - 8, mkey ^ 0x55);
	post(put_data(p, 100, 0), MLX5_OPCODE_RDMA_WRITE);
	run_turns(50);
	expect_send(MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	assert_null(next_cqe());
}

static const u8 *event_at(unsigned int n)
{
	const u8 *eqe = memory + eq_at + 64 * n;

	return eqe[1] == EVENT_DRAINED ? eqe : NULL;
}

/* The driver waits for this event before it destroys a DCT. */
static void drained_dct_sends_an_event(void **state)
{
	void *dctc = IFC_PTR(query_dct_out, out, dct_context_entry);

	post_send_to(dctn, KEY, 100);
	run_turns(10);
	IFC_SET(query_dct_in, in, dctn, dctn);
	COMMAND(QUERY_DCT, query_dct, 0);
	assert_int_equal(IFC_GET(dctc, dctc, state), MLX5_DCTC_STATE_ACTIVE);
	assert_int_equal(IFC_GET(dctc, dctc, user_index), DCT_INDEX);
	assert_int_equal(IFC_GET(dctc, dctc, rae), 1);
	assert_null(event_at(0));
	drain_dct();
	assert_non_null(event_at(0));
	assert_int_equal(be32_at(event_at(0) + 32 + 24), dctn);
	IFC_SET(query_dct_in, in, dctn, dctn);
	COMMAND(QUERY_DCT, query_dct, 0);
	assert_int_equal(IFC_GET(dctc, dctc, state), MLX5_DCTC_STATE_DRAINED);
	destroy_dct();
	IFC_SET(destroy_dct_in, in, dctn, dctn);
	assert_int_equal(STATUS_OF(DESTROY_DCT, destroy_dct), CMD_BAD_RES);
}

static enum cmd_status create_with(size_t bit, size_t width, uint32_t value)
{
	ifc_set(fill_dct(), bit, width, value);
	return STATUS_OF(CREATE_DCT, create_dct);
}

#define CREATE_WITH(field, value) \
	create_with(IFC_BIT(dctc, field), IFC_WIDTH(dctc, field), value)

static void bad_dct_and_dci_contexts_are_refused(void **state)
{
	size_t memory_before = hca->memory;

	assert_int_equal(CREATE_WITH(state, 1), CMD_BAD_PARAM);
	assert_int_equal(CREATE_WITH(mtu, 0), CMD_BAD_PARAM);
	assert_int_equal(CREATE_WITH(mtu, 6), CMD_BAD_PARAM);
	assert_int_equal(CREATE_WITH(port, 2), CMD_BAD_PARAM);
	assert_int_equal(CREATE_WITH(pkey_index, 128), CMD_BAD_PARAM);
	assert_int_equal(CREATE_WITH(pd, 77), CMD_BAD_RES);
	assert_int_equal(CREATE_WITH(cqn, 77), CMD_BAD_RES);
	assert_int_equal(CREATE_WITH(srqn_xrqn, 77), CMD_BAD_RES);
	/* A DCI without a send queue, or with a receive queue of its own. */
	for (int i = 0; i < 2; i++) {
		void *qpc = IFC_PTR(create_qp_in, in, qpc);

		IFC_SET(qpc, qpc, st, MLX5_QPC_ST_DCI);
		IFC_SET(qpc, qpc, pd, pd);
		IFC_SET(qpc, qpc, rq_type, i);
		IFC_SET(qpc, qpc, no_sq, i);
		IFC_SET64(qpc, qpc, dbr_addr, BASE);
		assert_int_equal(STATUS_OF(CREATE_QP, create_qp), CMD_BAD_PARAM);
	}
	assert_int_equal(hca->memory, memory_before);
}

/* One kind's commands do not find the other kind, nor those of a process the driver's. */
static void qp_and_dct_commands_find_their_own_kind(void **state)
{
	IFC_SET(query_qp_in, in, qpn, dctn);
	assert_int_equal(status_of(MLX5_CMD_OP_QUERY_QP, IFC_BYTES(query_qp_in),
				   IFC_BYTES(query_qp_out)), CMD_BAD_RES);
	IFC_SET(destroy_qp_in, in, qpn, dctn);
	assert_int_equal(STATUS_OF(DESTROY_QP, destroy_qp), CMD_BAD_RES);
	IFC_SET(qp_2err_in, in, qpn, dctn);
	assert_int_equal(STATUS_OF(2ERR_QP, qp_2err), CMD_BAD_RES);
	IFC_SET(attach_to_mcg_in, in, qpn, dctn);
	assert_int_equal(STATUS_OF(ATTACH_TO_MCG, attach_to_mcg), CMD_BAD_RES);
	IFC_SET(query_dct_in, in, dctn, qpn[0]);
	assert_int_equal(STATUS_OF(QUERY_DCT, query_dct), CMD_BAD_RES);
	IFC_SET(drain_dct_in, in, dctn, qpn[0]);
	assert_int_equal(STATUS_OF(DRAIN_DCT, drain_dct), CMD_BAD_RES);
	IFC_SET(destroy_dct_in, in, dctn, qpn[0]);
	assert_int_equal(STATUS_OF(DESTROY_DCT, destroy_dct), CMD_BAD_RES);

	COMMAND(CREATE_UCTX, create_uctx, 0);
	IFC_SET(drain_dct_in, in, dctn, dctn);
	put_be16(in + 2, IFC_GET(create_uctx_out, out, uid));
	assert_int_equal(STATUS_OF(DRAIN_DCT, drain_dct), CMD_BAD_RES);
}

static void srq_and_cq_of_a_dct_stay(void **state)
{
	IFC_SET(destroy_rmp_in, in, rmpn, srqn);
	assert_int_equal(STATUS_OF(DESTROY_RMP, destroy_rmp), CMD_BAD_RES_STATE);
	destroy_qp(0);
	IFC_SET(destroy_cq_in, in, cqn, cqn);
	assert_int_equal(STATUS_OF(DESTROY_CQ, destroy_cq), CMD_BAD_RES_STATE);
	drain_dct();
	destroy_dct();
	IFC_SET(destroy_rmp_in, in, rmpn, srqn);
	assert_int_equal(STATUS_OF(DESTROY_RMP, destroy_rmp), CMD_OK);
	IFC_SET(destroy_cq_in, in, cqn, cqn);
	assert_int_equal(STATUS_OF(DESTROY_CQ, destroy_cq), CMD_OK);
}

/* Optional attributes that some drivers give. */
static void dci_takes_optional_attributes(void **state)
{
	static const struct { uint16_t op; uint32_t mask; } steps[] = {
		{ MLX5_CMD_OP_RST2INIT_QP, 0 }, { MLX5_CMD_OP_INIT2INIT_QP, 1 << 21 | 1 << 4 },
		{ MLX5_CMD_OP_INIT2RTR_QP, 1 << 21 }, { MLX5_CMD_OP_RTR2RTS_QP, 1 << 6 | 1 << 10 },
		{ MLX5_CMD_OP_RTS2RTS_QP, 1 << 6 },
	};
	void *qpc = IFC_PTR(rst2init_qp_in, in, qpc);

	destroy_qp(0);
	IFC_SET(qpc, IFC_PTR(create_qp_in, in, qpc), rq_type, 3);
	make_qp(0, MLX5_QPC_ST_DCI);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		IFC_SET(rst2init_qp_in, in, qpn, qpn[0]);
		IFC_SET(rst2init_qp_in, in, opt_param_mask, steps[i].mask);
		IFC_SET(qpc, qpc, mtu, 3);
		IFC_SET(qpc, qpc, pm_state, 3);
		IFC_SET64(qpc, qpc, dc_access_key, KEY);
		IFC_SET(qpc, qpc, primary_address_path.vhca_port_num, 1);
		command(steps[i].op, IFC_BYTES(rst2init_qp_in), IFC_BYTES(rst2init_qp_out));
	}
	IFC_SET(query_qp_in, in, qpn, qpn[0]);
	COMMAND(QUERY_QP, query_qp, 0);
	qpc = IFC_PTR(query_qp_out, out, qpc);
	assert_int_equal(IFC_GET(qpc, qpc, state), QPS_RTS);
	assert_int_equal(IFC_GET(qpc, qpc, mtu), 3);
	assert_true(IFC_GET64(qpc, qpc, dc_access_key) == KEY);
}

/* So that its room at the target can be given to others. */
static void reset_or_destroyed_dci_closes_its_connection(void **state)
{
	struct dct *dct = qp_get(hca, dctn)->dct;

	for (int i = 0; i < 2; i++) {
		post_srq(100, DATA_SIZE);
		post_send_to(dctn, KEY, 100);
		run_turns(50);
		expect_receive(MLX5_CQE_RESP_SEND, 100, i);
		expect_send(0);
		assert_int_equal(dct->count, 1);
		assert_false(list_item(dct->halves.next, struct half, entry)->closed);
		if (i) {
			destroy_qp(0);
		} else {
			IFC_SET(qp_2rst_in, in, qpn, qpn[0]);
			COMMAND(2RST_QP, qp_2rst, 0);
			put_be32((u8 *)record(0) + 4, 0);
			at = 0;
		}
		run_turns(5);
		assert_true(list_item(dct->halves.next, struct half, entry)->closed);
		if (!i)
			connect_qp(0);
	}
}

/* At any time, one end or the other goes; nothing of it is left. */
static void dci_or_dct_destroyed_in_traffic_leaks_nothing(void **state)
{
	size_t before;

	drain_dct();
	destroy_dct();
	destroy_qp(0);
	before = hca->memory;
	for (unsigned int i = 0; i < 60; i++) {
		make_dct();
		make_dci();
		for (int k = 0; k < 6; k++) {
			u8 *p = put_remote(put_target(dctn, KEY), DATA_SIZE);

			post_srq(100000, DATA_SIZE);
			if (k % 3 == 2)
				post_send_to(dctn, KEY, 50000);
			else
				post(put_data(p, 100000, 0), k % 3 ? MLX5_OPCODE_RDMA_READ :
							     MLX5_OPCODE_RDMA_WRITE);
		}
		run_turns(i / 3);
		if (i % 3 == 0)
			destroy_qp(0);
		if (i % 3 == 1)
			drain_dct();
		destroy_dct();
		run_turns(20);
		if (i % 3)
			destroy_qp(0);
		run_turns(20);
		while (next_cqe())
			;
		assert_int_equal(hca->memory, before);
		srq_get(hca, srqn)->taken = srq_get(hca, srqn)->head = srq_posted = 0;
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(send_write_and_read_move_data),
		TEST(atomics_return_the_old_value),
		TEST(send_by_a_global_path_arrives),
		TEST(short_messages_are_scattered_to_the_cqe),
		TEST(send_waits_for_a_late_receive),
		TEST(wrong_dc_key_fails_the_initiator_only),
		TEST(wrong_rkey_is_a_remote_access_error),
		TEST(drained_dct_sends_an_event),
		TEST(bad_dct_and_dci_contexts_are_refused),
		TEST(qp_and_dct_commands_find_their_own_kind),
		TEST(srq_and_cq_of_a_dct_stay),
		TEST(dci_takes_optional_attributes),
		TEST(reset_or_destroyed_dci_closes_its_connection),
		TEST(dci_or_dct_destroyed_in_traffic_leaks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
