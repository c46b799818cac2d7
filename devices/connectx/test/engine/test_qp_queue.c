// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The queues of a queue pair (qp.c, completion.c): after doorbells and WQEs, what runs, what is
 * flushed, and the CQEs.
 */
#include "qp_fixture.h"

#define FLUSHED MLX5_CQE_SYNDROME_WR_FLUSH_ERR
#define INLINE MLX5_INLINE_SCATTER_32

static void doorbell_record_sets_the_producer(void **state)
{
	static const struct { uint16_t consumer; uint32_t record; int count; } cases[] = {
		{ 0, 0, 0 }, { 0, 1, 1 }, { 0, 16, 16 }, { 0, 17, -1 }, { 5, 4, -1 },
		{ 0xfffe, 0xe, 16 }, { 0xfffe, 0xf, -1 }, { 0xffff, 0x30000, 1 },
		{ 0, 0xffffffff, -1 }, { 0x8000, 0, -1 },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct qp *qp = created(i % 2 ? MLX5_QPC_ST_UD : MLX5_QPC_ST_RC);

		post(1, 0);
		qp_doorbell(&hca, qp->number, -1);	/* too early */
		to_rts(qp);
		qp->req.consumer = cases[i].consumer;
		post(1, cases[i].record);
		requester_runs = event_count = 0;
		qp_doorbell(&hca, qp->number, -1);
		assert_int_equal(requester_runs, cases[i].count > 0);
		if (cases[i].count >= 0) {
			assert_int_equal(qp->state, QPS_RTS);
			assert_int_equal((uint16_t)(qp->req.producer - cases[i].consumer),
					 cases[i].count);
		} else {
			assert_int_equal(qp->state, QPS_ERR);
			assert_int_equal(event_count, 1);
			assert_int_equal(events[0].type, 5);
			assert_int_equal(events[0].qpn, qp->number);
			run_works();
			assert_int_equal(cqes, 0);
		}
		qp_reset_all(&hca);
	}
	/* Posted before RTS: found by the transition. */
	{
		struct qp *qp = created(MLX5_QPC_ST_RC);

		post(1, 3);
		qp_doorbell(&hca, qp->number, -1);
		assert_int_equal(requester_runs, 0);
		to_rts(qp);
		assert_int_equal(requester_runs, 1);
		assert_int_equal(qp->req.producer, 3);
		qp->doorbell = sizeof(ram);	/* unmapped since */
		qp_doorbell(&hca, qp->number, -1);
		assert_int_equal(qp->state, QPS_ERR);
	}
	qp_doorbell(&hca, 0xffffff, -1);
}

/* The record is ahead: what it counts beyond the doorbell waits for its own. */
static void doorbell_posts_up_to_its_own_wqe(void **state)
{
	static const struct { int end; uint16_t producer; } rung[] = {
		{ 0xffff, 0xffff }, { 0, 0 }, { 0xffff, 0 }, { 2, 2 }, { 1, 2 }, { 3, 3 },
		{ 3, 3 }, { 0x5000, 4 },	/* made up */
	};
	struct qp *qp = created(MLX5_QPC_ST_RC);

	to_rts(qp);
	qp->req.producer = qp->req.consumer = 0xfffe;
	post(1, 4);
	for (size_t i = 0; i < sizeof(rung) / sizeof(rung[0]); i++) {
		qp_doorbell(&hca, qp->number, rung[i].end);
		assert_int_equal(qp->req.producer, rung[i].producer);
	}
	assert_int_equal(qp->state, QPS_RTS);
	qp_reset_all(&hca);
}

static void wqe_fetch_wraps_and_stops_at_the_posted(void **state)
{
	struct qp *qp = created(MLX5_QPC_ST_RC);
	struct wqe w;
	u8 *p;

	/* 21 segments from the last block on: 6 blocks, most of them after the wrap */
	p = block(0xffff, MLX5_OPCODE_SEND, 21);
	put_be32(p + 16, 300 | MLX5_INLINE_SEG);
	ram[BUFFER + 64 * 64] = 0x77;		/* block 0: byte 44 of the data */
	put_be32(ram + BUFFER + 64 * 64 + 4 * 64, 9);	/* the last segment */
	qp->req.consumer = 0xffff;
	qp->req.producer = 5;
	assert_int_equal(qp_fetch(qp, 0xffff, &w), 0);
	assert_int_equal(w.index, 0xffff);
	assert_int_equal(w.blocks, 6);
	assert_int_equal(w.seg[0].len, 300);
	assert_int_equal(w.bytes[w.seg[0].addr + 44], 0x77);
	assert_int_equal(w.seg[1].len, 9);

	qp->req.producer = 4;			/* more than is posted */
	assert_int_equal(qp_fetch(qp, 0xffff, &w), MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	assert_int_equal(w.opcode, MLX5_OPCODE_SEND);
	assert_int_equal(w.blocks, 1);
	block(0xffff, MLX5_OPCODE_NOP, 0);
	assert_int_equal(qp_fetch(qp, 0xffff, &w), MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	assert_int_equal(qp_fetch(qp, 4, &w), MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	assert_int_equal(qp_fetch(qp, 0x8000, &w), MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	qp->buf.page[0] = sizeof(ram);		/* unmapped since */
	assert_int_equal(qp_fetch(qp, 0, &w), MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
}

static void receive_is_taken_from_rq_or_xrc_srq(void **state)
{
	struct qp *qp = created(MLX5_QPC_ST_RC), *target;
	struct recv_wqe r;
	struct srq *srq;

	assert_int_equal(qp_take_recv(qp, 0, &r, &srq), 0);
	qp->resp.taken = 0xffff;
	put_be32(ram + BUFFER + 63 * 64, 1000);
	post(0, 1);
	assert_int_equal(qp_take_recv(qp, 0, &r, &srq), 1);
	assert_int_equal(r.index, 0xffff);
	assert_int_equal(r.room, 1000);
	assert_null(srq);
	assert_int_equal(qp_take_recv(qp, 0, &r, &srq), 1);
	assert_int_equal(r.index, 0);
	assert_int_equal(qp_take_recv(qp, 0, &r, &srq), 0);
	post(0, 66);				/* 65 of 64 */
	assert_int_equal(qp_take_recv(qp, 0, &r, &srq), -EINVAL);
	assert_int_equal(qp->state, QPS_ERR);

	target = created(MLX5_QPC_ST_XRC);
	target->service = QP_XRC_TGT;
	srq_left = 1;
	assert_int_equal(qp_take_recv(target, 1, &r, &srq), -EINVAL);	/* not XRC */
	assert_int_equal(qp_take_recv(target, 9, &r, &srq), -EINVAL);
	target->xrcd = 5;						/* another domain */
	assert_int_equal(qp_take_recv(target, 2, &r, &srq), -EINVAL);
	target->xrcd = 4;
	assert_int_equal(qp_take_recv(target, 2, &r, &srq), 1);
	assert_ptr_equal(srq, &srqs[1]);
	assert_int_equal(qp_take_recv(target, 2, &r, &srq), 0);

	create_in(MLX5_QPC_ST_RC);
	SET(rq_type, 3);
	assert_int_equal(create(), CMD_OK);
	qp = qp_get(&hca, IFC_GET(create_qp_out, out, qpn));
	assert_int_equal(qp_take_recv(qp, 0, &r, &srq), -EINVAL);
}

static void check_error(unsigned int i, struct qp *qp, u8 op, uint16_t index, u8 opcode)
{
	const struct mlx5_err_cqe *e = (const struct mlx5_err_cqe *)&cqe[i];

	assert_true(i < cqes);
	assert_int_equal(e->op_own, op << 4);
	assert_int_equal(e->syndrome, FLUSHED);
	assert_int_equal(e->vendor_err_synd, 0xf9);
	assert_int_equal(be16toh(e->wqe_counter), index);
	assert_int_equal(be32toh(e->s_wqe_opcode_qpn), (uint32_t)opcode << 24 | qp->number);
	assert_int_equal(be32toh(e->srqn), 0x111);
	assert_true(cqe_solicited[i]);
}

static void error_flushes_sends_and_receives(void **state)
{
	struct qp *qp = created(MLX5_QPC_ST_RC);
	struct wqe sent[2] = { { .index = 7, .opcode = 8 }, { .index = 8, .opcode = 10 } };

	to_rts(qp);
	qp->req.head = QP_UNACKED - 1;		/* two in flight, over the end of the ring */
	qp->req.count = 2;
	qp->req.unacked[QP_UNACKED - 1].wqe = &sent[0];
	qp->req.unacked[0].wqe = &sent[1];
	qp->req.consumer = 10;
	qp->req.psn = 99;
	block(10, MLX5_OPCODE_RDMA_READ, 6);	/* 2 blocks */
	block(12, MLX5_OPCODE_SEND, 0);		/* made up: counts as 1 */
	block(13, MLX5_OPCODE_SEND, 63);	/* made up: longer than what is posted */
	post(1, 15);
	post(0, 64);
	qp_error(qp, MLX5_EVENT_TYPE_CODING_LOCAL_ACCESS_VIOLATION_WQ_ERROR);
	assert_int_equal(cqes, 0);		/* not while the caller is at work */
	qp_error(qp, 5);			/* once is enough */
	assert_int_equal(event_count, 1);
	assert_int_equal(events[0].type, 0x11);

	assert_int_equal(run_works(), 2);	/* 64 receives fill a turn */
	assert_int_equal(cqes, 2 + 3 + 1 + 64);
	check_error(0, qp, MLX5_CQE_REQ_ERR, 7, 8);
	check_error(1, qp, MLX5_CQE_REQ_ERR, 8, 10);
	check_error(2, qp, MLX5_CQE_REQ_ERR, 10, MLX5_OPCODE_RDMA_READ);
	check_error(3, qp, MLX5_CQE_REQ_ERR, 12, MLX5_OPCODE_SEND);
	check_error(4, qp, MLX5_CQE_REQ_ERR, 13, MLX5_OPCODE_SEND);
	check_error(5, qp, MLX5_CQE_REQ_ERR, 14, 0);
	check_error(6, qp, MLX5_CQE_RESP_ERR, 0, 0);
	check_error(69, qp, MLX5_CQE_RESP_ERR, 63, 0);
	assert_int_equal(IFC_GET(qpc, query(qp), next_send_psn), 99);

	/* A send rings; a receive has to be looked for, less often with time. */
	post(1, 16);
	qp_doorbell(&hca, qp->number, -1);
	run_works();
	check_error(70, qp, MLX5_CQE_REQ_ERR, 15, 0);
	assert_ptr_equal(running, &qp->flush_poll);
	assert_int_equal(running_ns, 1000000);
	for (int i = 0; i < 20; i++)
		running->expired(running);
	assert_int_equal(running_ns, 1000000000);
	post(0, 65);
	running->expired(running);
	check_error(71, qp, MLX5_CQE_RESP_ERR, 64, 0);
	assert_int_equal(running_ns, 1000000);
	post(0, 0x8000);			/* made up */
	running->expired(running);
	assert_int_equal(cqes, 72);
	assert_int_equal(event_count, 1);
	assert_int_equal(to(qp, MLX5_CMD_OP_2RST_QP), CMD_OK);
	assert_null(running);
}

static void flush_leaves_the_srq_alone(void **state)
{
	struct qp *qp;

	create_in(MLX5_QPC_ST_RC);
	SET(rq_type, 1);
	assert_int_equal(create(), CMD_OK);
	qp = qp_get(&hca, IFC_GET(create_qp_out, out, qpn));
	to_rts(qp);
	srq_left = 3;
	qp->resp.have_recv = true;
	qp->resp.recv.index = 5;
	qp->resp.srq = &srqs[0];
	assert_int_equal(to(qp, MLX5_CMD_OP_2ERR_QP), CMD_OK);
	run_works();
	assert_int_equal(cqes, 1);		/* what was taken, and nothing else */
	check_error(0, qp, MLX5_CQE_RESP_ERR, 5, 0);
	assert_int_equal(srq_left, 3);
	assert_int_equal(event_count, 1);
	assert_int_equal(events[0].type, 0x13);
	assert_int_equal(to(qp, MLX5_CMD_OP_2ERR_QP), CMD_OK);
	run_works();
	assert_int_equal(event_count, 1);
	assert_null(running);
}

/* An XRC SRQ is destroyed in the middle of a message that goes to it. */
static void destroyed_srq_ends_its_message(void **state)
{
	struct qp *qp = created(MLX5_QPC_ST_XRC), *other = created(MLX5_QPC_ST_RC);

	srqs[0].hca = srqs[1].hca = &hca;
	qp->resp.have_recv = other->resp.have_recv = true;
	qp->resp.srq = &srqs[1];
	other->resp.srq = &srqs[0];
	qp->resp.last_op = other->resp.last_op = IB_SEND_FIRST;
	qp_forget_srq(&srqs[1]);
	assert_false(qp->resp.have_recv);
	assert_int_equal(qp->resp.last_op, OP_NONE);	/* no other SRQ gets the rest */
	assert_true(other->resp.have_recv);
	assert_int_equal(other->resp.last_op, IB_SEND_FIRST);
	assert_ptr_equal(other->resp.srq, &srqs[0]);
	qp_error(qp, 0);
	run_works();
	assert_int_equal(cqes, 0);
}

static void sq_error_flushes_sends_only(void **state)
{
	struct qp *qp = created(MLX5_QPC_ST_UD);

	to_rts(qp);
	block(0, MLX5_OPCODE_SEND, 4);
	block(1, MLX5_OPCODE_SEND, 4);
	post(1, 1);
	post(0, 4);
	qp_sq_error(qp);
	run_works();
	assert_int_equal(cqes, 1);		/* the send; receives stay */
	assert_int_equal(IFC_GET(qpc, query(qp), state), QPS_SQER);
	assert_null(running);
	post(1, 2);				/* posted, and not flushed yet */
	qp_doorbell(&hca, qp->number, -1);
	assert_int_equal(to(qp, MLX5_CMD_OP_SQERR2RTS_QP), CMD_OK);
	assert_int_equal(cqes, 2);
	assert_int_equal(requester_runs, 0);
	assert_int_equal(run_works(), 0);
	post(1, 3);
	qp_doorbell(&hca, qp->number, -1);
	assert_int_equal(requester_runs, 1);
}

static void cqe_fields_describe_the_completion(void **state)
{
	struct qp *qp = created(MLX5_QPC_ST_RC);
	struct wqe w = { .index = 0x1234, .opcode = MLX5_OPCODE_RDMA_READ };
	struct recv_wqe r = { .index = 9 };
	struct recv_completion c = {
		.opcode = MLX5_CQE_RESP_SEND_INV, .bytes = 20, .imm_inval = 0x4243,
		.src_qp = 0x99, .slid = 0xbeef, .sl = 5, .global = true,
		.inline_data = (const u8 *)"twenty bytes of data",
	};

	now = 2000001000;
	qp_complete_send(qp, &w, 0, 20);
	assert_int_equal(cqes, 0);		/* unsignalled */
	w.signalled = true;
	qp_complete_send(qp, &w, 0, 20);
	assert_int_equal(cqe[0].op_own, MLX5_CQE_REQ << 4);
	assert_int_equal(be32toh(cqe[0].byte_cnt), 20);
	assert_int_equal(be32toh(cqe[0].sop_drop_qpn), 0x10000000 | qp->number);
	assert_int_equal(be16toh(cqe[0].wqe_counter), 0x1234);
	assert_int_equal(be32toh(cqe[0].srqn_uidx), 0x111);
	assert_int_equal(be64toh(cqe[0].timestamp), 312000156);
	assert_false(cqe_solicited[0]);
	assert_ptr_equal(cqe_cq[0], &cqs[0]);

	qp_complete_recv(qp, &r, NULL, &c);	/* scatter to CQE is off */
	assert_int_equal(cqe[1].op_own, MLX5_CQE_RESP_SEND_INV << 4);
	assert_int_equal(be32toh(cqe[1].imm_inval_pkey), 0x4243);
	assert_int_equal(be32toh(cqe[1].flags_rqpn), 0x15000099);
	assert_int_equal(be16toh(cqe[1].slid), 0xbeef);
	assert_int_equal(cqe[1].ml_path, 0);
	assert_ptr_equal(cqe_cq[1], &cqs[1]);

	qp->scatter_recv = 32;
	c.solicited = true;
	qp_complete_recv(qp, &r, NULL, &c);
	assert_int_equal(cqe[2].op_own, MLX5_CQE_RESP_SEND_INV << 4 | INLINE | 2);
	assert_memory_equal(&cqe[2], c.inline_data, 20);
	assert_int_equal(be32toh(cqe[2].byte_cnt), 20);
	assert_true(cqe_solicited[2]);

	/* The index is the SRQ's for XRC; kernel QPs get numbers instead. */
	qp_complete_recv(qp, &r, &srqs[1], &c);
	assert_int_equal(be32toh(cqe[3].srqn_uidx), 0x222);
	assert_ptr_equal(cqe_cq[3], &cqs[0]);
	qp_complete_recv(qp, &r, &srqs[0], &c);
	assert_int_equal(be32toh(cqe[4].srqn_uidx), 0x111);
	qp->user_index = srqs[1].user_index = 0xffffff;
	qp_complete_recv(qp, &r, &srqs[1], &c);
	assert_int_equal(be32toh(cqe[5].srqn_uidx), 2);
	qp_complete_recv(qp, &r, NULL, &c);
	assert_int_equal(be32toh(cqe[6].srqn_uidx), 0);

	qp = created(MLX5_QPC_ST_QP1);		/* the P_Key, which the driver looks up */
	c = (struct recv_completion){ .opcode = MLX5_CQE_RESP_SEND, .bytes = 296,
				      .pkey = 0x7fff, .global = true, .src_qp = 1 };
	qp_complete_recv(qp, &r, NULL, &c);
	assert_int_equal(be32toh(cqe[7].imm_inval_pkey), 0x7fff);
	assert_int_equal(be32toh(cqe[7].flags_rqpn), 0x10000001);
	assert_int_equal(event_count, 0);

	cqs[1].error = true;			/* overrun: the QP cannot go on */
	qp_complete_recv(qp, &r, NULL, &c);
	assert_int_equal(qp->state, QPS_ERR);
	assert_int_equal(event_count, 1);
	assert_int_equal(events[0].type, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(doorbell_record_sets_the_producer),
		TEST(doorbell_posts_up_to_its_own_wqe),
		TEST(wqe_fetch_wraps_and_stops_at_the_posted),
		TEST(receive_is_taken_from_rq_or_xrc_srq),
		TEST(error_flushes_sends_and_receives),
		TEST(flush_leaves_the_srq_alone),
		TEST(destroyed_srq_ends_its_message),
		TEST(sq_error_flushes_sends_only),
		TEST(cqe_fields_describe_the_completion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
