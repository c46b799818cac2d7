// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The receiving side of DC: a DCT gets requests of many initiators; its answers and completions
 * are compared as text.
 */
#include "responder_steps.h"

#define MS 1000000ull

static void begin(void)
{
	world_new(QP_DCI, QP_DCT, 10);
}

static void give_dc(struct step s)
{
	give(&s, QP_DCT);
}

static unsigned int halves(void)
{
	return qps[1].dct->count;
}

/* A request says all that is needed; the first of a connection may be lost. */
static void first_request_begins_a_connection(void **state)
{
	begin();
	post_recv(1, 0, 1000);
	give_dc((struct step) { IB_SEND_LAST, 51, 10, .connection = 7, .first = 50 });
	expect("NAK0 50");
	give_dc((struct step) { IB_SEND_FIRST, 50, 256, .connection = 7, .first = 50 });
	give_dc((struct step) { IB_SEND_LAST, 51, 10, .connection = 7, .first = 50 });
	expect("send#0, 266, ACK 50, ACK 51");
	assert_int_equal(pattern(50, 3), memory[1][3]);
	assert_int_equal(pattern(51, 3), memory[1][259]);
	assert_int_equal(1, halves());
	/* Again: as for RC. */
	give_dc((struct step) { IB_SEND_LAST, 51, 10, .connection = 7, .first = 50 });
	expect("ACK 51");
	give_dc((struct step) { IB_SEND_ONLY, 53, 10, .connection = 7, .first = 50 });
	expect("NAK0 52");
	world_end();
}

static void answers_go_back_to_the_initiator(void **state)
{
	struct packet *p;

	begin();
	give_dc((struct step) { IB_WRITE_ONLY, 50, 1, 1, V(0), .first = 50, .from = 5 });
	p = list_item(fake_link.wire.next, struct packet, entry);
	assert_int_equal(IB_DC << 5 | IB_ACK, p->opcode);
	assert_int_equal(0x45, p->dqpn);
	assert_int_equal(FAKE_LID, p->dlid);
	expect("ACK 50");
	world_end();
}

/* A packet of a connection that is over came late; one of a new connection ends the old. */
static void packets_of_an_older_connection_are_dropped(void **state)
{
	begin();
	give_dc((struct step) { IB_WRITE_ONLY, 50, 1, 1, V(0), .connection = 7, .first = 50 });
	give_dc((struct step) { IB_WRITE_ONLY, 3, 1, 1, V(0), .connection = 9, .first = 3 });
	expect("ACK 50, ACK 3");
	memory[1][0] = 0;
	give_dc((struct step) { IB_WRITE_ONLY, 50, 1, 1, V(0), .connection = 7, .first = 50 });
	give_dc((struct step) { IB_WRITE_ONLY, 4, 1, 1, V(0), .connection = 8, .first = 4 });
	expect("");
	assert_int_equal(0, memory[1][0]);
	give_dc((struct step) { IB_WRITE_ONLY, 4, 1, 1, V(0), .connection = 9, .first = 3 });
	expect("ACK 4");
	assert_int_equal(1, halves());
	world_end();
}

/* The NAK is for the first packet only, as it would acknowledge what precedes it. */
static void wrong_dc_key_opens_no_connection(void **state)
{
	begin();
	post_recv(1, 0, 1000);
	give_dc((struct step) { IB_SEND_ONLY, 51, 1, .key = 5, .first = 50 });
	expect("");
	give_dc((struct step) { IB_SEND_ONLY, 50, 1, .key = 5, .first = 50 });
	expect("NAK2 50");
	give_dc((struct step) { IB_DC_CLOSE, 50, .key = 5, .first = 50 });
	expect("");
	assert_int_equal(0, halves());
	assert_int_equal(0, srq_taken);
	give_dc((struct step) { IB_SEND_ONLY, 50, 1, .connection = 1, .first = 50 });
	expect("send#0, 1, ACK 50");
	world_end();
}

/* A bad key in one connection does no harm to another one, nor to the initiator's next. */
static void error_ends_one_connection_only(void **state)
{
	begin();
	give_dc((struct step) { IB_WRITE_ONLY, 1, 1, 1, V(0), .first = 1, .from = 1 });
	give_dc((struct step) { IB_WRITE_ONLY, 8, 1, 1, V(0), 0xbad, .first = 8, .from = 2 });
	expect("ACK 1, NAK2 8");
	give_dc((struct step) { IB_WRITE_ONLY, 9, 1, 1, V(0), .first = 8, .from = 2 });
	expect("");
	give_dc((struct step) { IB_WRITE_ONLY, 2, 1, 1, V(0), .first = 1, .from = 1 });
	give_dc((struct step) { IB_WRITE_ONLY, 9, 1, 1, V(0), .connection = 1, .first = 9,
				.from = 2 });
	expect("ACK 2, ACK 9");
	assert_int_equal(QPS_RTR, qps[1].state);
	world_end();
}

/* The DCT says what may be done, whoever asks. */
static void read_without_dct_right_is_invalid_request(void **state)
{
	begin();
	qps[1].remote_read = false;
	give_dc((struct step) { IB_READ_REQUEST, 1, 0, 1, V(0), .first = 1 });
	expect("NAK1 1");
	world_end();
}

static void empty_srq_is_an_rnr_nak(void **state)
{
	begin();
	give_dc((struct step) { IB_SEND_ONLY, 50, 1, .first = 50 });
	expect("RNR12 50");
	post_recv(1, 0, 1000);
	give_dc((struct step) { IB_SEND_ONLY, 50, 1, .first = 50 });
	expect("send#0, 1, ACK 50");
	world_end();
}

/* Initiators share the SRQ; a message that will not go on leaves its receive to the next. */
static void each_message_takes_its_own_receive(void **state)
{
	begin();
	for (int i = 0; i < 3; i++)
		post_recv(1, i * 1000, 1000);
	give_dc((struct step) { IB_SEND_FIRST, 50, 256, .first = 50, .from = 1 });
	give_dc((struct step) { IB_SEND_FIRST, 80, 256, .first = 80, .from = 2 });
	give_dc((struct step) { IB_SEND_LAST, 81, 1, .first = 80, .from = 2 });
	expect("send#1, 257, ACK 50, ACK 80, ACK 81");
	give_dc((struct step) { IB_SEND_ONLY, 5, 2, .connection = 1, .first = 5, .from = 1 });
	expect("send#0, 2, ACK 5");
	assert_int_equal(2, srq_taken);
	world_end();
}

static void repeated_reads_and_atomics_get_the_same_answer(void **state)
{
	uint64_t zero = 0;

	begin();
	memcpy(memory[1] + 8, &zero, 8);
	for (int i = 0; i < 2; i++) {
		give_dc((struct step) { IB_READ_REQUEST, 50, 0, 300, V(0), .first = 50 });
		give_dc((struct step) { IB_FETCH_ADD, 52, .va = V(8), .swap = 5, .first = 50 });
		expect("FIRST 50:256, LAST 51:44, ATOMIC 52=0");
	}
	/* In the next connection it is another one. */
	give_dc((struct step) { IB_FETCH_ADD, 52, .va = V(8), .swap = 5, .connection = 1,
				.first = 52 });
	expect("ATOMIC 52=5");
	world_end();
}

static void fill_table(void)
{
	for (unsigned int i = 0; i < DCT_HALVES; i++)
		give_dc((struct step) { IB_WRITE_ONLY, 50, 1, 1, V(0), .no_ack = true,
					.connection = 3, .first = 50, .from = i });
	expect("");
	assert_int_equal(DCT_HALVES, halves());
}

static const struct step newcomer = {
	IB_WRITE_ONLY, 50, 1, 1, V(0), .connection = 3, .first = 50, .from = 1000,
};

/* A closed one gives way soon; nobody else's close counts. */
static void full_table_is_an_rnr_nak_until_a_close(void **state)
{
	begin();
	fill_table();
	fake_loop.now += 1000 * MS;
	give_dc(newcomer);
	expect("RNR12 50");
	give_dc((struct step) { IB_WRITE_ONLY, 51, 1, 1, V(0), .connection = 3, .first = 50,
				.from = 1000 });
	give_dc((struct step) { IB_DC_CLOSE, 51, .connection = 2, .first = 50, .from = 7 });
	give_dc(newcomer);
	expect("RNR12 50");
	give_dc((struct step) { IB_DC_CLOSE, 51, .connection = 3, .first = 50, .from = 7 });
	give_dc(newcomer);
	expect("ACK 50");
	assert_int_equal(DCT_HALVES, halves());
	/* QP 0x47 begins again: its old connection is forgotten, and there is no room. */
	give_dc((struct step) { IB_WRITE_ONLY, 60, 1, 1, V(0), .connection = 5, .first = 60,
				.from = 7 });
	expect("RNR12 60");
	world_end();
}

/* What is on its way while a connection is closed must not begin it anew. */
static void closed_connection_is_kept_for_100_ms(void **state)
{
	begin();
	fill_table();
	fake_loop.now += 1000 * MS;
	give_dc((struct step) { IB_WRITE_ONLY, 51, 1, 1, V(0), .connection = 3, .first = 50,
				.from = 7 });
	give_dc((struct step) { IB_DC_CLOSE, 52, .connection = 3, .first = 50, .from = 7 });
	fake_loop.now += 99 * MS;
	give_dc(newcomer);
	expect("ACK 51, RNR12 50");
	fake_loop.now += MS;
	give_dc(newcomer);
	expect("ACK 50");
	world_end();
}

/* An initiator that is gone for good: the one that was silent longest gives way. */
static void silent_connection_gives_way_after_10_s(void **state)
{
	begin();
	post_recv(1, 0, 1000);
	fill_table();
	give_dc((struct step) { IB_SEND_FIRST, 51, 256, .no_ack = true, .connection = 3,
				.first = 50, .from = 9 });
	fake_loop.now += 9999 * MS;
	for (unsigned int i = 0; i < DCT_HALVES; i++)
		if (i != 9)
			give_dc((struct step) { IB_WRITE_ONLY, 51, 1, 1, V(0), .no_ack = true,
						.connection = 3, .first = 50, .from = i });
	give_dc(newcomer);
	expect("RNR12 50");
	fake_loop.now += MS;
	give_dc(newcomer);
	/* It was in the middle of a message. */
	expect("error#0, syndrome 5, ACK 50");
	give_dc((struct step) { IB_WRITE_ONLY, 50, 1, 1, V(0), .connection = 3, .first = 50,
				.from = 1001 });
	expect("RNR12 50");
	world_end();
}

static void allocation_failure_is_an_rnr_nak(void **state)
{
	begin();
	allocation_limit = allocated;
	give_dc(newcomer);
	expect("RNR12 50");
	allocation_limit = 1000;
	give_dc(newcomer);
	expect("ACK 50");
	world_end();
}

/* DRAIN_DCT in the middle of messages: their receives come back, and nothing gets in. */
static void drain_ends_all_connections(void **state)
{
	begin();
	for (int i = 0; i < 3; i++)
		post_recv(1, i * 1000, 1000);
	for (int i = 0; i < 3; i++)
		give_dc((struct step) { IB_SEND_FIRST, 50, 256, .no_ack = true, .first = 50,
					.from = i });
	fake_mkeys[1].absent[0] = true;
	give_dc((struct step) { IB_WRITE_ONLY, 50, 1, 1, V(0), .first = 50, .from = 3 });
	dct_drain(&qps[1]);
	assert_int_equal(3, dones);
	for (unsigned int i = 0; i < dones; i++)
		assert_int_equal(MLX5_CQE_SYNDROME_WR_FLUSH_ERR, done[i].syndrome);
	dones = 0;
	assert_int_equal(0, halves());
	assert_int_equal(0, fake_link.out);
	give_dc(newcomer);
	expect("");
	world_end();
}

/* With its half-connections in all states; nothing is completed, as by a reset. */
static void destroyed_dct_completes_nothing(void **state)
{
	begin();
	post_recv(1, 0x8000, 1000);
	fake_mkeys[1].absent[0] = true;
	give_dc((struct step) { IB_SEND_FIRST, 50, 256, .no_ack = true, .first = 50, .from = 1 });
	give_dc((struct step) { IB_READ_REQUEST, 50, 0, 5000, V(0), .first = 50, .from = 2 });
	give_dc((struct step) { IB_WRITE_ONLY, 50, 1, 1, V(0), 0xbad, .first = 50, .from = 3 });
	expect("NAK2 50");
	assert_int_equal(3, halves());
	world_end();
	assert_int_equal(0, dones);
}

static void rc_requests_and_acks_do_not_reach_a_dct(void **state)
{
	begin();
	give(&(struct step) { IB_WRITE_ONLY, 50, 1, 1, V(0), .first = 50 }, QP_RC);
	give_dc((struct step) { IB_ACK, 50 });
	expect("");
	assert_int_equal(0, halves());
	world_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_request_begins_a_connection),
		cmocka_unit_test(answers_go_back_to_the_initiator),
		cmocka_unit_test(packets_of_an_older_connection_are_dropped),
		cmocka_unit_test(wrong_dc_key_opens_no_connection),
		cmocka_unit_test(error_ends_one_connection_only),
		cmocka_unit_test(read_without_dct_right_is_invalid_request),
		cmocka_unit_test(empty_srq_is_an_rnr_nak),
		cmocka_unit_test(each_message_takes_its_own_receive),
		cmocka_unit_test(repeated_reads_and_atomics_get_the_same_answer),
		cmocka_unit_test(full_table_is_an_rnr_nak_until_a_close),
		cmocka_unit_test(closed_connection_is_kept_for_100_ms),
		cmocka_unit_test(silent_connection_gives_way_after_10_s),
		cmocka_unit_test(allocation_failure_is_an_rnr_nak),
		cmocka_unit_test(drain_ends_all_connections),
		cmocka_unit_test(destroyed_dct_completes_nothing),
		cmocka_unit_test(rc_requests_and_acks_do_not_reach_a_dct),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
