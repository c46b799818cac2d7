// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The requester alone: tables of WQEs and responses, with the packets and completions that they
 * cause.
 *
 * The other end does not run; test_transport.c is about both.
 */
#include "requester_steps.h"

static void each_opcode_becomes_its_packets(void **state)
{
	static const struct { enum qp_service service; u8 opcode; uint32_t len; const char *out; }
	t[] = {
		{ QP_RC, MLX5_OPCODE_SEND, 0, "SEND_ONLY 10:0" },
		{ QP_RC, MLX5_OPCODE_SEND, 256, "SEND_ONLY 10:256" },
		{ QP_RC, MLX5_OPCODE_SEND, 257, "SEND_FIRST 10:256-, SEND_LAST 11:1" },
		{ QP_RC, MLX5_OPCODE_SEND_IMM, 9, "SEND_ONLY_IMM 10:9" },
		{ QP_RC, MLX5_OPCODE_SEND_IMM, 600,
		  "SEND_FIRST 10:256-, SEND_MIDDLE 11:256-, SEND_LAST_IMM 12:88" },
		{ QP_RC, MLX5_OPCODE_SEND_INVAL, 9, "SEND_ONLY_INV 10:9" },
		{ QP_RC, MLX5_OPCODE_SEND_INVAL, 300, "SEND_FIRST 10:256-, SEND_LAST_INV 11:44" },
		{ QP_RC, MLX5_OPCODE_RDMA_WRITE, 0, "WRITE_ONLY 10:0" },
		{ QP_RC, MLX5_OPCODE_RDMA_WRITE, 600,
		  "WRITE_FIRST 10:256-, WRITE_MIDDLE 11:256-, WRITE_LAST 12:88" },
		{ QP_RC, MLX5_OPCODE_RDMA_WRITE_IMM, 1, "WRITE_ONLY_IMM 10:1" },
		{ QP_RC, MLX5_OPCODE_RDMA_WRITE_IMM, 512,
		  "WRITE_FIRST 10:256-, WRITE_LAST_IMM 11:256" },
		{ QP_RC, MLX5_OPCODE_RDMA_READ, 600, "READ 10+40:600" },
		{ QP_RC, MLX5_OPCODE_ATOMIC_CS, 8, "CS 10:0" },
		{ QP_RC, MLX5_OPCODE_ATOMIC_FA, 8, "FA 10:0" },
		{ QP_RC, MLX5_OPCODE_ATOMIC_MASKED_CS, 8, "MCS 10:0" },
		{ QP_RC, MLX5_OPCODE_ATOMIC_MASKED_FA, 8, "MFA 10:0" },
		{ QP_RC, MLX5_OPCODE_ATOMIC_FA, 4, "#0=1" },
		{ QP_RC, MLX5_OPCODE_NOP, 0, "#0:0" },
		{ QP_RC, MLX5_OPCODE_UMR, 0, "#0:0" },
		{ QP_RC, MLX5_OPCODE_TSO, 0, "#0=2" },
		{ QP_RC, 0xff, 0, "#0=2" },
		{ QP_XRC_INI, MLX5_OPCODE_SEND, 9, "SEND_ONLY 10:9" },
		{ QP_XRC_INI, MLX5_OPCODE_RDMA_READ, 9, "READ 10+40:9" },
		{ QP_UC, MLX5_OPCODE_SEND, 300, "SEND_FIRST 10:256-, SEND_LAST 11:44-, #0:300" },
		{ QP_UC, MLX5_OPCODE_SEND_IMM, 1, "SEND_ONLY_IMM 10:1-, #0:1" },
		{ QP_UC, MLX5_OPCODE_RDMA_WRITE, 300,
		  "WRITE_FIRST 10:256-, WRITE_LAST 11:44-, #0:300" },
		{ QP_UC, MLX5_OPCODE_RDMA_WRITE_IMM, 1, "WRITE_ONLY_IMM 10:1-, #0:1" },
		{ QP_UC, MLX5_OPCODE_RDMA_READ, 1, "#0=2" },
		{ QP_UC, MLX5_OPCODE_ATOMIC_FA, 8, "#0=2" },
		{ QP_UC, MLX5_OPCODE_SEND_INVAL, 8, "#0=2" },
		{ QP_REG_UMR, MLX5_OPCODE_UMR, 0, "#0:0" },
		{ QP_REG_UMR, MLX5_OPCODE_SEND, 1, "#0=2" },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		world_new(t[i].service, t[i].service, 10);
		post(0, t[i].opcode, 0x80, 0x40, t[i].len)->imm = 0x1234;
		expect_at(t[i].out, i);
		if (t[i].opcode == MLX5_OPCODE_UMR)
			assert_int_equal(0x1234, umr_target);
		world_end();
	}
}

static void packet_headers_come_from_the_wqe(void **state)
{
	struct wqe *w;
	struct packet *p;

	world_new(QP_XRC_INI, QP_XRC_TGT, 10);
	qps[0].path.global = true;
	qps[0].path.gid_index = 2;
	qps[0].path.sl = 3;
	w = post(0, MLX5_OPCODE_RDMA_WRITE_IMM, 0x80, 0x40, 9);
	w->imm = 0x1234;
	w->srqn = 0x99;
	w->solicited = true;
	work_only();
	p = list_item(fake_link.wire.next, struct packet, entry);
	assert_int_equal(IB_XRC << 5 | IB_WRITE_ONLY_IMM, p->opcode);
	assert_int_equal(0x41, p->dqpn);
	assert_int_equal(0x1234, p->imm);
	assert_int_equal(0x99, p->srqn);
	assert_int_equal(FAKE_VA + 0x40, p->va);
	assert_int_equal(key_of(1), p->rkey);
	assert_int_equal(9, p->dma_length);
	assert_int_equal(3, p->sl);
	assert_int_equal(0x62, p->sgid[0]);
	assert_int_equal(FAKE_LID, p->slid);
	assert_true(p->solicited && p->ack_request && p->global);
	assert_memory_equal(memory[0] + 0x80, p->payload, 9);
	world_end();
}

static void payload_comes_from_all_segments_and_inline(void **state)
{
	struct packet *p;
	struct wqe *w;

	world_new(QP_RC, QP_RC, 10);
	w = post(0, MLX5_OPCODE_SEND, 0, 0, 0);
	w->segs = 3;
	w->length = 300;
	w->seg[0] = (struct wqe_seg) { .len = 150, .lkey = key_of(0), .addr = FAKE_VA + 7 };
	w->seg[1] = (struct wqe_seg) { .len = 50, .addr = 100, .is_inline = true };
	w->seg[2] = (struct wqe_seg) { .len = 100, .lkey = key_of(0), .addr = FAKE_VA + 999 };
	memset(w->bytes + 100, 0xaa, 50);
	w->keep_bytes = true;
	w->size = 150;
	work_only();
	p = list_item(fake_link.wire.next, struct packet, entry);
	assert_memory_equal(memory[0] + 7, p->payload, 150);
	assert_int_equal(0xaa, p->payload[150]);
	assert_int_equal(0xaa, p->payload[199]);
	assert_memory_equal(memory[0] + 999, p->payload + 200, 56);
	p = list_item(fake_link.wire.next->next, struct packet, entry);
	assert_memory_equal(memory[0] + 999 + 56, p->payload, 44);
	world_end();
}

static void ack_completes_all_before_it(void **state)
{
	world_new(QP_RC, QP_RC, 0xfffffe);
	for (int i = 0; i < 4; i++)
		post(0, MLX5_OPCODE_SEND, 0, 0, i);
	expect("SEND_ONLY 16777214:0, SEND_ONLY 16777215:1, SEND_ONLY 0:2, SEND_ONLY 1:3");
	ack(0);
	expect("#0:0, #1:1, #2:2");
	ack(0xffffff);		/* an old one */
	ack(2);			/* for what was not sent */
	nak(2, NAK_REMOTE_OP);
	expect("");
	ack(1);
	expect("#3:3");
	world_end();
}

static void sequence_nak_resends_from_its_psn(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	post(0, MLX5_OPCODE_RDMA_WRITE, 0, 0, 600);
	post(0, MLX5_OPCODE_SEND, 0, 0, 2);
	expect("SEND_ONLY 10:1, WRITE_FIRST 11:256-, WRITE_MIDDLE 12:256-, WRITE_LAST 13:88, "
	       "SEND_ONLY 14:2");
	nak(12, NAK_SEQUENCE);
	expect("WRITE_MIDDLE 12:256-, WRITE_LAST 13:88, SEND_ONLY 14:2, #0:1");
	assert_int_equal(6, qps[0].req.retries);
	nak(14, NAK_SEQUENCE);
	expect("SEND_ONLY 14:2, #1:600");
	ack(14);
	expect("#2:2");
	world_end();
}

static void naks_become_syndromes(void **state)
{
	static const struct { u8 syndrome; const char *out; } t[] = {
		{ AETH_NAK | NAK_INVALID_REQUEST, "#0:1, #1=12, #2=5, #3=5" },
		{ AETH_NAK | NAK_REMOTE_ACCESS, "#0:1, #1=13, #2=5, #3=5" },
		{ AETH_NAK | NAK_REMOTE_OP, "#0:1, #1=14, #2=5, #3=5" },
		{ AETH_NAK | 9, "#0:1, #1=10, #2=5, #3=5" },
		{ 0x40, "" },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		world_new(QP_RC, QP_RC, 10);
		for (int k = 0; k < 4; k++)
			post(0, MLX5_OPCODE_SEND, 0, 0, 1);
		expect("SEND_ONLY 10:1, SEND_ONLY 11:1, SEND_ONLY 12:1, SEND_ONLY 13:1");
		respond(IB_ACK, 11, t[i].syndrome, 0, 0);
		expect_at(t[i].out, i);
		assert_int_equal(*t[i].out ? QPS_ERR : QPS_RTS, qps[0].state);
		world_end();
	}
}

static void rnr_is_retried_after_its_time(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	qps[0].rnr_retry = 2;
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	post(0, MLX5_OPCODE_SEND, 0, 0, 2);
	expect("SEND_ONLY 10:1, SEND_ONLY 11:2");
	for (int i = 0; i < 2; i++) {
		uint64_t before = fake_loop.now;

		respond(IB_ACK, 10, AETH_RNR_NAK | 12, 0, 0);
		expect("");
		while (qps[0].req.waits_rnr)
			assert_true(world_wait());
		assert_int_equal(640000, fake_loop.now - before);
		expect("SEND_ONLY 10:1, SEND_ONLY 11:2");
	}
	respond(IB_ACK, 10, AETH_RNR_NAK | 12, 0, 0);
	expect("#0=16, #1=5");
	world_end();
}

/* One retry is left, and a network that doubles packets does not take it. */
static void duplicate_nak_costs_one_retry(void **state)
{
	static const u8 syndromes[] = { AETH_NAK | NAK_SEQUENCE, AETH_RNR_NAK | 12 };

	for (int i = 0; i < 2; i++) {
		world_new(QP_RC, QP_RC, 10);
		qps[0].retry_count = qps[0].rnr_retry = 1;
		post(0, MLX5_OPCODE_SEND, 0, 0, 1);
		post(0, MLX5_OPCODE_SEND, 0, 0, 2);
		expect("SEND_ONLY 10:1, SEND_ONLY 11:2");
		for (int copy = 0; copy < 2; copy++)
			respond(IB_ACK, 10, syndromes[i], 0, 0);
		while (qps[0].req.waits_rnr)
			assert_true(world_wait());
		expect("SEND_ONLY 10:1, SEND_ONLY 11:2");
		/* The next one counts. */
		respond(IB_ACK, 10, syndromes[i], 0, 0);
		expect(i ? "#0=16, #1=5" : "#0=15, #1=5");
		world_end();
	}
}

/* It went back, and what it would send again is acknowledged before it does. */
static void ack_during_an_rnr_wait_completes(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	post(0, MLX5_OPCODE_SEND, 0, 0, 300);
	expect("SEND_ONLY 10:1, SEND_FIRST 11:256-, SEND_LAST 12:44");
	respond(IB_ACK, 10, AETH_RNR_NAK | 12, 0, 0);
	ack(11);
	expect("#0:1");
	while (qps[0].req.waits_rnr)
		assert_true(world_wait());
	post(0, MLX5_OPCODE_SEND, 0, 0, 3);
	expect("SEND_LAST 12:44, SEND_ONLY 13:3");
	world_end();
}

static void rnr_retry_7_is_for_ever(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	for (int i = 0; i < 100; i++) {
		expect("SEND_ONLY 10:1");
		respond(IB_ACK, 10, AETH_RNR_NAK | 1, 0, 0);
		while (qps[0].req.waits_rnr)
			assert_true(world_wait());
	}
	expect("SEND_ONLY 10:1");
	ack(10);
	expect("#0:1");
	world_end();
}

static void silence_ends_in_retry_exceeded(void **state)
{
	uint64_t begin;

	world_new(QP_RC, QP_RC, 10);
	qps[0].retry_count = qps[0].req.retries = 4;
	begin = fake_loop.now;
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	post(0, MLX5_OPCODE_RDMA_READ, 0, 0, 2);
	expect("SEND_ONLY 10:1, READ 11+0:2");
	for (int i = 0; i < 4; i++) {
		assert_true(world_wait());
		expect("SEND_ONLY 10:1, READ 11+0:2");
	}
	assert_true(world_wait());
	assert_int_equal((1 + 2 + 4 + 4 + 4) * (4096ull << 14), fake_loop.now - begin);
	expect("#0=15, #1=5");
	assert_false(world_wait());
	world_end();

	world_new(QP_RC, QP_RC, 10);
	qps[0].ack_timeout = 0;
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	expect("SEND_ONLY 10:1");
	assert_false(world_wait());
	world_end();
}

static void ack_moves_the_timeout(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	for (int i = 0; i < 3; i++)
		post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	expect("SEND_ONLY 10:1, SEND_ONLY 11:1, SEND_ONLY 12:1");
	fake_loop.now += 4096ull << 13;
	ack(10);
	expect("#0:1");
	assert_true(world_wait());	/* the timer, too early: nothing is sent */
	expect("");
	fake_loop.now += 1000;
	ack(11);
	expect("#1:1");
	assert_true(world_wait());
	expect("");
	assert_true(world_wait());
	expect("SEND_ONLY 12:1");
	world_end();
}

static void read_responses_land_in_their_segments(void **state)
{
	struct wqe *w;

	world_new(QP_RC, QP_RC, 10);
	w = post(0, MLX5_OPCODE_RDMA_READ, 0x100, 0x40, 600);
	w->segs = 2;
	w->seg[0].len = 300;
	w->seg[1] = (struct wqe_seg) { .len = 300, .lkey = key_of(0), .addr = FAKE_VA + 0x900 };
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	expect("READ 10+40:600, SEND_ONLY 13:1");
	respond(IB_READ_RESP_FIRST, 10, AETH_ACK, 256, 0);
	respond(IB_READ_RESP_MIDDLE, 11, 0, 256, 0);
	respond(IB_READ_RESP_MIDDLE, 11, 0, 256, 0);
	expect("");
	respond(IB_READ_RESP_LAST, 12, AETH_ACK, 88, 0);
	expect("#0:600");
	for (int i = 0; i < 600; i++)
		assert_int_equal((u8)((10 + i / 256) * 5 + i % 256),
				 memory[0][i < 300 ? 0x100 + i : 0x900 + i - 300]);
	ack(13);
	expect("#1:1");
	world_end();
}

/* Its memory went away after it had begun. */
static void nak_in_the_middle_of_a_read_fails_it(void **state)
{
	for (int refused = 0; refused < 3; refused++) {
		world_new(QP_RC, QP_RC, 10);
		post(0, MLX5_OPCODE_RDMA_READ, 0, 0x40, 600);
		post(0, MLX5_OPCODE_RDMA_READ, 0, 0, 10);
		expect("READ 10+40:600, READ 13+0:10");
		for (int i = 0; i < refused; i++)
			respond(i ? IB_READ_RESP_MIDDLE : IB_READ_RESP_FIRST, 10 + i, AETH_ACK,
				256, 0);
		nak(10 + refused, NAK_REMOTE_ACCESS);
		expect("#0=13, #1=5");
		world_end();
	}
}

static void lost_read_response_is_requested_once(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	post(0, MLX5_OPCODE_RDMA_READ, 0, 0x40, 600);
	post(0, MLX5_OPCODE_RDMA_READ, 0, 0, 10);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	expect("READ 10+40:600, READ 13+0:10, SEND_ONLY 14:1");
	respond(IB_READ_RESP_FIRST, 10, AETH_ACK, 256, 0);
	respond(IB_READ_RESP_LAST, 12, AETH_ACK, 88, 0);
	expect("READ 11+140:344, READ 13+0:10, SEND_ONLY 14:1");
	respond(IB_READ_RESP_ONLY, 13, AETH_ACK, 10, 0);
	ack(14);
	expect("");
	respond(IB_READ_RESP_FIRST, 11, AETH_ACK, 256, 0);
	respond(IB_READ_RESP_LAST, 12, AETH_ACK, 88, 0);
	respond(IB_READ_RESP_ONLY, 13, AETH_ACK, 10, 0);
	ack(14);
	expect("#0:600, #1:10, #2:1");
	world_end();
}

/* An ACK beyond a read that was not answered. */
static void ack_beyond_an_atomic_resends_it(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	post(0, MLX5_OPCODE_ATOMIC_FA, 0, 0, 8);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	expect("SEND_ONLY 10:1, FA 11:0, SEND_ONLY 12:1");
	ack(12);
	expect("FA 11:0, SEND_ONLY 12:1, #0:1");
	respond(IB_ATOMIC_ACK, 11, AETH_ACK, 0, 0x1122334455667788);
	expect("#1:8");
	assert_int_equal(0x88, memory[0][0]);
	assert_int_equal(0x11, memory[0][7]);
	world_end();
}

static void read_response_acks_what_precedes_it(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	post(0, MLX5_OPCODE_RDMA_READ, 0, 0, 8);
	expect("SEND_ONLY 10:1, READ 11+0:8");
	respond(IB_READ_RESP_ONLY, 11, AETH_ACK, 8, 0);
	expect("#0:1, #1:8");
	world_end();
}

static void wrong_response_is_a_bad_response_error(void **state)
{
	static const struct { u8 op; uint32_t len; } t[] = {
		{ IB_READ_RESP_FIRST, 255 }, { IB_READ_RESP_LAST, 256 }, { IB_READ_RESP_ONLY, 300 },
		{ IB_ATOMIC_ACK, 0 }, { IB_READ_RESP_MIDDLE, 257 },
	};

	for (int i = 0; i < 5; i++) {
		world_new(QP_RC, QP_RC, 10);
		post(0, MLX5_OPCODE_RDMA_READ, 0, 0, 300);
		expect("READ 10+0:300");
		respond(t[i].op, 10, AETH_ACK, t[i].len, 0);
		expect("#0=10");
		world_end();
	}
}

static void fenced_work_waits(void **state)
{
	static const struct { u8 fence; const char *out, *after_read, *after_all; } t[] = {
		{ 0, "READ 10+0:8, SEND_ONLY 11:1, SEND_ONLY 12:2", "#0:8", "#1:1, #2:2" },
		{ 1 << 5, "READ 10+0:8, SEND_ONLY 11:1, SEND_ONLY 12:2", "#0:8", "#1:1, #2:2" },
		{ 2 << 5, "READ 10+0:8, SEND_ONLY 11:1", "SEND_ONLY 12:2, #0:8", "#1:1, #2:2" },
		{ 4 << 5, "READ 10+0:8, SEND_ONLY 11:1", "SEND_ONLY 12:2, #0:8", "#1:1, #2:2" },
		{ 3 << 5, "READ 10+0:8, SEND_ONLY 11:1", "#0:8", "SEND_ONLY 12:2, #1:1" },
	};

	for (int i = 0; i < 5; i++) {
		world_new(QP_RC, QP_RC, 10);
		post(0, MLX5_OPCODE_RDMA_READ, 0, 0, 8);
		post(0, MLX5_OPCODE_SEND, 0, 0, 1);
		post(0, MLX5_OPCODE_SEND, 0, 0, 2)->fence = t[i].fence;
		expect_at(t[i].out, i);
		respond(IB_READ_RESP_ONLY, 10, AETH_ACK, 8, 0);
		expect_at(t[i].after_read, i);
		ack(t[i].fence == 3 << 5 ? 11 : 12);
		expect_at(t[i].after_all, i);
		world_end();
	}
}

static void umr_waits_for_all_before_it(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	post(0, MLX5_OPCODE_UMR, 0, 0, 0)->imm = 0x55;
	post(0, MLX5_OPCODE_SEND, 0, 0, 2);
	expect("SEND_ONLY 10:1");
	assert_int_equal(0, umr_target);
	nak(10, NAK_SEQUENCE);
	expect("SEND_ONLY 10:1");
	ack(10);
	expect("SEND_ONLY 11:2, #0:1, #1:0");
	assert_int_equal(0x55, umr_target);
	umr_syndrome = MLX5_CQE_SYNDROME_MW_BIND_ERR;
	post(0, MLX5_OPCODE_UMR, 0, 0, 0);
	post(0, MLX5_OPCODE_NOP, 0, 0, 0);
	ack(11);
	expect("#2:2, #3=6, #4=5");
	world_end();
}

/* An error of the second of three WQEs is reported after the first completed. */
static void local_errors_wait_for_their_turn(void **state)
{
	struct wqe *w;

	world_new(QP_RC, QP_RC, 10);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	w = post(0, MLX5_OPCODE_SEND, 0, 0, 300);
	w->segs = 2;
	w->seg[0].len = 260;
	w->seg[1] = (struct wqe_seg) { .len = 40, .lkey = 0x666, .addr = FAKE_VA };
	post(0, MLX5_OPCODE_SEND, 0, 0, 2);
	expect("SEND_ONLY 10:1, SEND_FIRST 11:256-");
	nak(10, NAK_SEQUENCE);
	expect("SEND_ONLY 10:1");
	ack(10);
	expect("#0:1, #1=4, #2=5");
	world_end();

	world_new(QP_RC, QP_RC, 10);
	post(0, MLX5_OPCODE_RDMA_READ, 0, 0, 8)->seg[0].lkey = MKEY_RESERVED_LKEY;
	expect("READ 10+0:8");
	respond(IB_READ_RESP_ONLY, 10, AETH_ACK, 8, 0);
	expect("#0=4");
	world_end();
}

static void too_long_read_is_a_local_length_error(void **state)
{
	struct wqe *w;

	world_new(QP_RC, QP_RC, 10);
	w = post(0, MLX5_OPCODE_RDMA_READ, 0, 0, 8);
	w->length = MESSAGE_MAX + 1;
	post(0, MLX5_OPCODE_NOP, 0, 0, 0);
	expect("#0=1, #1=5");
	world_end();
}

/* IBA 10.3.1: what was sent unreliably and fails stops the send queue, and nothing else. */
static void bad_opcode_ends_in_err_or_sqer(void **state)
{
	static const struct { enum qp_service service; enum qp_state state; } t[] = {
		{ QP_RC, QPS_ERR }, { QP_XRC_INI, QPS_ERR }, { QP_UC, QPS_SQER },
		{ QP_REG_UMR, QPS_ERR },
	};

	for (int i = 0; i < 4; i++) {
		world_new(t[i].service, t[i].service, 10);
		post(0, 0xff, 0, 0, 0);
		post(0, MLX5_OPCODE_NOP, 0, 0, 0);
		expect("#0=2, #1=5");
		assert_int_equal(t[i].state, qps[0].state);
		world_end();
	}
}

static void absent_pages_stop_the_requester(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	fake_mkeys[0].absent[0] = true;
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	expect("");
	assert_int_equal(1, faults[FAULT_REQUESTER].count);
	resolve(FAULT_REQUESTER, false);
	expect("SEND_ONLY 10:1");
	/* Where a response goes: dropped, and asked for again. */
	fake_mkeys[0].absent[1] = true;
	post(0, MLX5_OPCODE_RDMA_READ, FAKE_PAGE, 0, 300);
	expect("READ 11+0:300");
	respond(IB_READ_RESP_FIRST, 11, AETH_ACK, 256, 0);
	respond(IB_READ_RESP_LAST, 12, AETH_ACK, 44, 0);
	expect("#0:1");
	assert_int_equal(2, faults[FAULT_REQUESTER].count);
	world_wait();			/* no retry while it waits */
	expect("");
	resolve(FAULT_REQUESTER, false);
	expect("READ 11+0:300");
	assert_int_equal(7, qps[0].req.retries);
	respond(IB_READ_RESP_FIRST, 11, AETH_ACK, 256, 0);
	respond(IB_READ_RESP_LAST, 12, AETH_ACK, 44, 0);
	expect("#1:300");
	/* And one that does not come. */
	fake_mkeys[0].absent[1] = true;
	post(0, MLX5_OPCODE_SEND, FAKE_PAGE, 0, 1);
	expect("");
	resolve(FAULT_REQUESTER, true);
	expect("#2=4");
	world_end();
	/* The same for a response, with and without memory to wait for the page. */
	for (int at_once = 0; at_once < 2; at_once++) {
		world_new(QP_RC, QP_RC, 10);
		fake_mkeys[0].absent[1] = true;
		faults_fail = at_once;
		post(0, MLX5_OPCODE_RDMA_READ, FAKE_PAGE, 0, 8);
		expect("READ 10+0:8");
		respond(IB_READ_RESP_ONLY, 10, AETH_ACK, 8, 0);
		if (!at_once)
			resolve(FAULT_REQUESTER, true);
		expect("READ 10+0:8");
		respond(IB_READ_RESP_ONLY, 10, AETH_ACK, 8, 0);
		expect("#0=4");
		world_end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_opcode_becomes_its_packets),
		cmocka_unit_test(packet_headers_come_from_the_wqe),
		cmocka_unit_test(payload_comes_from_all_segments_and_inline),
		cmocka_unit_test(ack_completes_all_before_it),
		cmocka_unit_test(sequence_nak_resends_from_its_psn),
		cmocka_unit_test(naks_become_syndromes),
		cmocka_unit_test(rnr_is_retried_after_its_time),
		cmocka_unit_test(duplicate_nak_costs_one_retry),
		cmocka_unit_test(ack_during_an_rnr_wait_completes),
		cmocka_unit_test(rnr_retry_7_is_for_ever),
		cmocka_unit_test(silence_ends_in_retry_exceeded),
		cmocka_unit_test(ack_moves_the_timeout),
		cmocka_unit_test(read_responses_land_in_their_segments),
		cmocka_unit_test(nak_in_the_middle_of_a_read_fails_it),
		cmocka_unit_test(lost_read_response_is_requested_once),
		cmocka_unit_test(ack_beyond_an_atomic_resends_it),
		cmocka_unit_test(read_response_acks_what_precedes_it),
		cmocka_unit_test(wrong_response_is_a_bad_response_error),
		cmocka_unit_test(fenced_work_waits),
		cmocka_unit_test(umr_waits_for_all_before_it),
		cmocka_unit_test(local_errors_wait_for_their_turn),
		cmocka_unit_test(too_long_read_is_a_local_length_error),
		cmocka_unit_test(bad_opcode_ends_in_err_or_sqer),
		cmocka_unit_test(absent_pages_stop_the_requester),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
