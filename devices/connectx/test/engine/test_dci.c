// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The sending side of DC: which connection a work request uses, the headers of its requests, and
 * when a connection ends.
 */
#include "requester_steps.h"

#define OTHER 0x99		/* another DCT of the same port */

static void begin(void)
{
	world_new(QP_DCI, QP_DCT, 10);
}

/* The next on the wire, which has to be this operation. */
static struct packet taken(u8 op)
{
	struct list *e = fake_link.wire.next;
	static struct packet p;

	work_only();
	e = fake_link.wire.next;
	assert_ptr_not_equal(e, &fake_link.wire);
	list_del(e);
	memcpy(&p, list_item(e, struct packet, entry), sizeof(p));
	link_packet_free(&fake_link, list_item(e, struct packet, entry));
	assert_int_equal(IB_DC << 5 | op, p.opcode);
	return p;
}

static void request_headers_name_the_connection(void **state)
{
	struct packet p;

	begin();
	post(0, MLX5_OPCODE_RDMA_WRITE, 0, 0x100, 300);
	for (int i = 0; i < 2; i++) {
		p = taken(i ? IB_WRITE_LAST : IB_WRITE_FIRST);
		assert_int_equal(FAKE_LID, p.dlid);
		assert_int_equal(0x41, p.dqpn);
		assert_int_equal(0x40, p.sqpn);
		assert_true(p.dc_key == FAKE_DC_KEY);
		assert_int_equal(10, p.dc_first);
		assert_int_equal(1000, p.dc_connection);	/* the clock */
		assert_int_equal(10 + i, p.psn);
	}
	world_end();
}

static void path_comes_from_the_work_request(void **state)
{
	struct packet p;
	struct wqe *w;

	begin();
	w = post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	w->av.rlid = 77;
	w->av.sl = 5;
	w->av.global = true;
	w->av.gid_index = 1;
	w->av.hop_limit = 9;
	w->av.tclass = 8;
	w->av.flow_label = 0x12345;
	memset(w->av.dgid, 0xaa, 16);
	p = taken(IB_SEND_ONLY);
	assert_int_equal(77, p.dlid);
	assert_int_equal(5, p.sl);
	assert_true(p.global);
	assert_int_equal(9, p.hop_limit);
	assert_int_equal(8, p.tclass);
	assert_int_equal(0x12345, p.flow_label);
	assert_int_equal(0xaa, p.dgid[15]);
	assert_int_equal(0x61, p.sgid[0]);
	/* An answer that comes by another path is none. */
	ack(10);
	expect("");
	world_end();
}

/* Work for one target is in flight together; another target waits for all of it. */
static void new_target_waits_for_the_old_one(void **state)
{
	struct packet p;

	begin();
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	post(0, MLX5_OPCODE_RDMA_READ, 0, 0, 10);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1)->av.dqpn = OTHER;
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	expect("SEND_ONLY 10:1, READ 11+0:10");
	ack(10);
	expect("#0:1");
	respond(IB_READ_RESP_ONLY, 11, AETH_ACK | AETH_NO_CREDITS, 10, 0);
	p = taken(IB_DC_CLOSE);
	assert_int_equal(0x41, p.dqpn);
	assert_int_equal(10, p.dc_first);
	assert_int_equal(1000, p.dc_connection);
	p = taken(IB_SEND_ONLY);
	assert_int_equal(OTHER, p.dqpn);
	assert_int_equal(12, p.psn);
	assert_int_equal(12, p.dc_first);
	assert_int_equal(1001, p.dc_connection);
	expect("#1:10");
	ack(12);
	p = taken(IB_DC_CLOSE);
	assert_int_equal(OTHER, p.dqpn);
	p = taken(IB_SEND_ONLY);
	assert_int_equal(0x41, p.dqpn);
	assert_int_equal(1002, p.dc_connection);
	expect("#2:1");
	world_end();
}

/* Each part of an address makes another target. */
static void each_address_part_makes_a_new_target(void **state)
{
	for (int i = 0; i < 6; i++) {
		struct wqe *w;

		begin();
		post(0, MLX5_OPCODE_SEND, 0, 0, 1);
		w = post(0, MLX5_OPCODE_SEND, 0, 0, 1);
		if (i == 0)
			w->av.rlid++;
		else if (i == 1)
			w->av.dc_key++;
		else if (i == 2)
			w->av.sl++;
		else if (i == 3)
			w->av.global = true;
		else if (i == 4)
			w->av.dqpn++;
		expect(i < 5 ? "SEND_ONLY 10:1" : "SEND_ONLY 10:1, SEND_ONLY 11:1");
		world_end();
	}
}

/* A connection without work: its only request is complete. */
static void send_one(void)
{
	begin();
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	expect("SEND_ONLY 10:1");
	ack(10);
	expect("#0:1");
}

/* After a timeout without work; the next work request begins anew. */
static void idle_connection_is_closed(void **state)
{
	struct packet p;

	send_one();
	assert_true(world_wait());
	expect("CLOSE 11:0-");
	assert_false(world_wait());
	fake_loop.now = 5000000;
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	p = taken(IB_SEND_ONLY);
	assert_int_equal(11, p.dc_first);
	assert_int_equal(fake_loop.now, p.dc_connection);
	world_end();
}

/* The target may have forgotten an idle connection, closed or not. */
static void work_after_a_pause_begins_a_connection(void **state)
{
	struct packet p;

	send_one();
	post(0, MLX5_OPCODE_NOP, 0, 0, 0);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	p = taken(IB_SEND_ONLY);
	assert_int_equal(11, p.dc_first);
	assert_int_equal(1001, p.dc_connection);
	expect("#1:0");
	world_end();
}

/* What is sent again has the headers that it had. */
static void retransmission_keeps_its_connection(void **state)
{
	struct packet p;

	begin();
	post(0, MLX5_OPCODE_SEND, 0, 0, 300);
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 2; k++) {
			p = taken(k ? IB_SEND_LAST : IB_SEND_FIRST);
			assert_int_equal(10 + k, p.psn);
			assert_int_equal(10, p.dc_first);
			assert_int_equal(1000, p.dc_connection);
		}
		if (i)
			nak(10, NAK_SEQUENCE);
		else
			world_wait();
	}
	world_end();
}

static void naks_become_completion_errors(void **state)
{
	static const struct { u8 code, syndrome; } t[] = {
		{ NAK_REMOTE_ACCESS, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR },
		{ NAK_REMOTE_OP, MLX5_CQE_SYNDROME_REMOTE_OP_ERR },
		{ NAK_INVALID_REQUEST, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR },
	};

	for (int i = 0; i < 3; i++) {
		begin();
		post(0, MLX5_OPCODE_SEND, 0, 0, 1);
		expect("SEND_ONLY 10:1");
		nak(10, t[i].code);
		assert_int_equal(1, dones);
		assert_int_equal(t[i].syndrome, done[0].syndrome);
		assert_int_equal(QPS_ERR, qps[0].state);
		dones = 0;
		world_end();
	}
}

/* Nobody answers for a DCT that does not exist. */
static void unknown_dct_ends_in_retry_exceeded(void **state)
{
	begin();
	qps[0].retry_count = 2;
	post(0, MLX5_OPCODE_SEND, 0, 0, 1)->av.dqpn = OTHER;
	for (int i = 0; i < 10 && !dones; i++) {
		world_run();
		world_wait();
	}
	assert_int_equal(1, dones);
	assert_int_equal(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, done[0].syndrome);
	assert_int_equal(3, fake_link.sent);
	dones = 0;
	world_end();
}

static void wrong_dc_key_is_a_remote_access_error(void **state)
{
	begin();
	post(0, MLX5_OPCODE_RDMA_WRITE, 0, 0, 700)->av.dc_key++;
	world_run();
	assert_int_equal(1, dones);
	assert_int_equal(MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, done[0].syndrome);
	assert_int_equal(0, qps[1].dct->count);
	world_end();
}

/* Two targets in turn, with every packet lost, doubled or late once, closes too. */
static int chosen, how;

static int chosen_fate(struct packet *p, int n)
{
	return n == chosen ? how : 0;
}

static void play_two_targets(void)
{
	static struct qp other;

	begin();
	fake_link.fate = chosen_fate;
	other = qps[1];
	other.number = OTHER;
	requester_init(&other);
	responder_init(&other);
	other.dct = hca_alloc(&hca, sizeof(*other.dct));
	other.dct->key = 99;
	list_init(&other.dct->halves);
	fake_dct = &other;
	memset(memory[1] + 0x8000, 0, 0x8000);
	for (int i = 0; i < 8; i++) {
		struct wqe *w;

		post_recv(1, 0x8000 + i * 0x1000, 600);
		w = post(0, MLX5_OPCODE_SEND, i * 0x1000, 0, 600);
		if (i % 3 == 1) {
			w->av.dqpn = OTHER;
			w->av.dc_key = 99;
		}
	}
	world_run_until(16);
	for (int i = 0; i < 16; i++)
		assert_int_equal(0, done[i].syndrome);
	for (int i = 0; i < 8; i++)
		assert_memory_equal(memory[0] + i * 0x1000, memory[1] + 0x8000 + i * 0x1000, 600);
	while (world_wait())
		world_run();
	assert_int_equal(16, dones);
	assert_int_equal(8, srq_taken);
	dct_free(&other);
	world_end();
}

static void two_targets_survive_loss_copies_and_delay(void **state)
{
	int packets;

	chosen = -1;
	play_two_targets();
	packets = fake_link.sent;
	assert_in_range(packets, 30, 60);
	for (how = 1; how <= 3; how++)
		for (chosen = 0; chosen < packets + 5; chosen++)
			play_two_targets();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_headers_name_the_connection),
		cmocka_unit_test(path_comes_from_the_work_request),
		cmocka_unit_test(new_target_waits_for_the_old_one),
		cmocka_unit_test(each_address_part_makes_a_new_target),
		cmocka_unit_test(idle_connection_is_closed),
		cmocka_unit_test(work_after_a_pause_begins_a_connection),
		cmocka_unit_test(retransmission_keeps_its_connection),
		cmocka_unit_test(naks_become_completion_errors),
		cmocka_unit_test(unknown_dct_ends_in_retry_exceeded),
		cmocka_unit_test(wrong_dc_key_is_a_remote_access_error),
		cmocka_unit_test(two_targets_survive_loss_copies_and_delay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
