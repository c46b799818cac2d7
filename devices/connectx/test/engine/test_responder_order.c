// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The responder answers in the order of the requests, also what it cannot do at once: absent
 * pages, reads that take many turns, an empty pool.
 */
#include "responder_steps.h"

/* A packet whose page is absent waits; what comes after it is dropped and asked for. */
static void write_waits_for_its_page(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	fake_mkeys[1].absent[1] = true;
	memset(memory[1] + FAKE_PAGE - 128, 0, 256);
	give_rc((struct step) { IB_WRITE_ONLY, 10, 256, 256, V(FAKE_PAGE - 128) });
	assert_int_equal(1, faults[FAULT_RESPONDER].count);
	assert_int_equal(V(FAKE_PAGE), faults[FAULT_RESPONDER].fault.va);
	assert_int_equal(0, memory[1][FAKE_PAGE - 128]);
	give_rc((struct step) { IB_WRITE_ONLY, 11, 1, 1, V(0) });
	expect("");
	/* Again, from the requester's timer: still one fault, and it has more time. */
	give_rc((struct step) { IB_WRITE_ONLY, 10, 256, 256, V(FAKE_PAGE - 128) });
	expect("RNR12 10");
	assert_int_equal(1, faults[FAULT_RESPONDER].count);
	resolve(FAULT_RESPONDER, false);
	expect("ACK 10, NAK0 11");
	assert_int_equal(pattern(10, 255), memory[1][FAKE_PAGE + 127]);
	give_rc((struct step) { IB_WRITE_ONLY, 11, 1, 1, V(0) });
	expect("ACK 11");
	world_end();
}

/* Others have taken the places of those that wait: it is dropped, and asked for. */
static void stalled_packet_beyond_limit_is_asked_for_again(void **state)
{
	const struct step absent = { IB_WRITE_ONLY, 10, 1, 1, V(FAKE_PAGE) };

	world_new(QP_RC, QP_RC, 10);
	hca.stalled = LINK_STALLED;
	fake_mkeys[1].absent[1] = true;
	give_rc(absent);
	give_rc((struct step) { IB_WRITE_ONLY, 11, 1, 1, V(0) });
	expect("");
	assert_int_equal(0, fake_link.out);
	give_rc(absent);
	expect("RNR12 10");
	resolve(FAULT_RESPONDER, false);
	expect("NAK0 10");
	give_rc(absent);
	give_rc((struct step) { IB_WRITE_ONLY, 11, 1, 1, V(0) });
	expect("ACK 10, ACK 11");
	/* The same for one that a NAK has asked for, and without a packet for the next NAK. */
	fake_mkeys[1].absent[1] = true;
	give_rc((struct step) { IB_WRITE_ONLY, 13, 1, 1, V(0) });
	expect("NAK0 12");
	give_rc((struct step) { IB_WRITE_ONLY, 12, 1, 1, V(FAKE_PAGE) });
	fake_link.limit = 0;
	resolve(FAULT_RESPONDER, false);
	expect("");
	fake_link.limit = 1;
	link_packet_free(&fake_link, link_packet(&fake_link));
	work_only();
	expect("NAK0 12");
	/* A place is free. */
	hca.stalled--;
	fake_mkeys[1].absent[1] = true;
	give_rc((struct step) { IB_WRITE_ONLY, 12, 1, 1, V(FAKE_PAGE) });
	assert_int_equal(1, fake_link.out);
	assert_int_equal(LINK_STALLED, hca.stalled);
	resolve(FAULT_RESPONDER, false);
	expect("ACK 12");
	assert_int_equal(LINK_STALLED - 1, hca.stalled);
	/* The page does not come. */
	hca.stalled = LINK_STALLED;
	fake_mkeys[1].absent[1] = true;
	for (int i = 0; i < 2; i++) {
		give_rc((struct step) { IB_WRITE_ONLY, 13, 1, 1, V(FAKE_PAGE) });
		if (!i)
			resolve(FAULT_RESPONDER, true);
		expect(i ? "NAK2 13, ERR" : "NAK0 13");
	}
	hca.stalled = 0;
	world_end();
}

static void receive_waits_for_its_absent_page(void **state)
{
	struct recv_wqe *r;

	world_new(QP_RC, QP_RC, 10);
	r = post_recv(1, 0, 50);
	r->segs = 2;
	r->room = 100;
	r->seg[1].len = 50;
	r->seg[1].lkey = KEY;
	r->seg[1].addr = V(FAKE_PAGE);
	fake_mkeys[1].absent[1] = true;
	give_rc((struct step) { IB_SEND_ONLY, 10, 100 });
	expect("");
	memset(memory[1], 0xee, 50);
	resolve(FAULT_RESPONDER, false);
	expect("send#0, 100, ACK 10");
	assert_int_equal(pattern(10, 49), memory[1][49]);
	assert_int_equal(pattern(10, 99), memory[1][FAKE_PAGE + 49]);
	world_end();
}

static void failed_page_fault_is_an_error(void **state)
{
	static const struct { struct step step; const char *out; } tries[] = {
		{ { IB_WRITE_ONLY, 10, 1, 1, V(FAKE_PAGE) }, "NAK2 10, ERR" },
		{ { IB_SEND_ONLY, 10, 1 }, "error#0, syndrome 4, NAK3 10, ERR" },
		{ { IB_READ_REQUEST, 10, 0, 1, V(FAKE_PAGE) }, "NAK2 10, ERR" },
		{ { IB_FETCH_ADD, 10, .va = V(FAKE_PAGE) }, "NAK2 10, ERR" },
	};

	for (int i = 0; i < 8; i++) {
		world_new(QP_RC, QP_RC, 10);
		post_recv(1, FAKE_PAGE, 100);
		fake_mkeys[1].absent[1] = true;
		faults_fail = i >= 4;
		give_rc(tries[i % 4].step);
		if (!faults_fail) {
			expect("");
			assert_true(faults[FAULT_RESPONDER].waits);
			resolve(FAULT_RESPONDER, true);
			work_only();
		}
		assert_int_equal(1, faults[FAULT_RESPONDER].count);
		expect(tries[i % 4].out);
		world_end();
	}
}

/* The page came after all, and the next one may be waited for. */
static void page_present_after_a_failed_fault_is_used(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	fake_mkeys[1].absent[1] = fake_mkeys[1].absent[2] = true;
	give_rc((struct step) { IB_READ_REQUEST, 10, 0, 300, V(FAKE_PAGE - 256) });
	expect("FIRST 10:256");
	fake_mkeys[1].absent[1] = false;
	resolve(FAULT_RESPONDER, true);
	expect("LAST 11:44");
	give_rc((struct step) { IB_WRITE_ONLY, 12, 1, 1, V(2 * FAKE_PAGE) });
	expect("");
	resolve(FAULT_RESPONDER, false);
	expect("ACK 12");
	world_end();
}

/* While a read waits, writes are executed and acknowledged after it, in order. */
static void no_response_overtakes_a_read(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	post_recv(1, 0, 1);
	fake_mkeys[1].absent[1] = true;
	memset(memory[1] + 8, 0, 8);
	give_rc((struct step) { IB_READ_REQUEST, 10, 0, 10, V(FAKE_PAGE) });
	give_rc((struct step) { IB_WRITE_ONLY, 11, 1, 1, V(0) });
	give_rc((struct step) { IB_FETCH_ADD, 12, .va = V(8) });
	give_rc((struct step) { IB_READ_REQUEST, 13, 0, 10, V(0) });
	give_rc((struct step) { IB_SEND_ONLY, 14, 1 });
	expect("send#0, 1");
	resolve(FAULT_RESPONDER, false);
	expect("ONLY 10:10, ATOMIC 12=0, ONLY 13:10, ACK 14");
	world_end();
}

/* What needs another answer than an ACK is put off, and comes again after the read. */
static void naks_wait_for_earlier_reads(void **state)
{
	static const struct { struct step step; const char *out; } tries[] = {
		{ { IB_WRITE_ONLY, 11, 1, 1, V(0), 0x777 }, "NAK2 11, ERR" },
		{ { IB_SEND_ONLY, 11, 1 }, "RNR12 11" },
		{ { IB_SEND_LAST, 11, 1 }, "NAK1 11, ERR" },
		{ { IB_WRITE_ONLY, 11, 1, 1, V(2 * FAKE_PAGE) }, "" },
	};

	for (int i = 0; i < 4; i++) {
		world_new(QP_RC, QP_RC, 10);
		fake_mkeys[1].absent[1] = fake_mkeys[1].absent[2] = true;
		give_rc((struct step) { IB_READ_REQUEST, 10, 0, 10, V(FAKE_PAGE) });
		give_rc(tries[i].step);
		give_rc((struct step) { IB_WRITE_ONLY, 12, 1, 1, V(0) });
		expect("");
		resolve(FAULT_RESPONDER, false);
		expect("ONLY 10:10, NAK0 11");
		give_rc(tries[i].step);
		expect(tries[i].out);
		world_end();
	}
}

/*
 * A read finds its page before its fault is over, and is answered.  A write whose page is
 * absent meanwhile waits: a NAK for each try would cost the requester all its retries.
 */
static void write_waits_for_the_fault_of_an_answered_read(void **state)
{
	const struct step write = { IB_WRITE_ONLY, 12, 1, 1, V(2 * FAKE_PAGE) };

	for (int failed = 0; failed < 2; failed++) {
		world_new(QP_RC, QP_RC, 10);
		fake_mkeys[1].absent[1] = true;
		give_rc((struct step) { IB_READ_REQUEST, 10, 0, 10, V(FAKE_PAGE) });
		expect("");
		fake_mkeys[1].absent[1] = false;
		give_rc((struct step) { IB_READ_REQUEST, 11, 0, 10, V(0) });
		expect("ONLY 10:10, ONLY 11:10");
		fake_mkeys[1].absent[2] = true;
		give_rc(write);
		expect("");
		for (int i = 0; i < 3; i++) {
			give_rc(write);
			expect("RNR12 12");
		}
		assert_int_equal(1, faults[FAULT_RESPONDER].count);
		/* The write has a fault of its own then, and what became of the other is not its. */
		resolve(FAULT_RESPONDER, failed);
		expect("");
		assert_int_equal(2, faults[FAULT_RESPONDER].count);
		assert_int_equal(V(2 * FAKE_PAGE), faults[FAULT_RESPONDER].fault.va);
		resolve(FAULT_RESPONDER, false);
		expect("ACK 12");
		world_end();
	}
}

/* The requester may have asked again because its own page was absent. */
static void repeated_request_is_answered_while_a_packet_stalls(void **state)
{
	const struct step read = { IB_READ_REQUEST, 10, 0, 10, V(0) };

	world_new(QP_RC, QP_RC, 10);
	fake_mkeys[1].absent[1] = true;
	give_rc(read);
	give_rc((struct step) { IB_WRITE_ONLY, 11, 1, 1, V(FAKE_PAGE) });
	expect("ONLY 10:10");
	give_rc(read);
	expect("ONLY 10:10");
	resolve(FAULT_RESPONDER, false);
	expect("ACK 11");
	world_end();
}

/* The requester's timer runs while the page is on its way. */
static void repeated_read_that_waits_for_its_page_is_an_rnr_nak(void **state)
{
	const struct step read = { IB_READ_REQUEST, 10, 0, 10, V(FAKE_PAGE) };

	world_new(QP_RC, QP_RC, 10);
	fake_mkeys[1].absent[1] = true;
	give_rc(read);
	expect("");
	for (int i = 0; i < 3; i++) {
		give_rc(read);
		expect("RNR12 10");
	}
	assert_int_equal(1, faults[FAULT_RESPONDER].count);
	resolve(FAULT_RESPONDER, false);
	expect("ONLY 10:10");
	world_end();
}

/* The requester was faster than the NAK that was owed: an ACK is due, no NAK. */
static void send_repeated_before_the_owed_nak_is_acked(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	fake_mkeys[1].absent[1] = true;
	give_rc((struct step) { IB_READ_REQUEST, 10, 0, 10, V(FAKE_PAGE) });
	give_rc((struct step) { IB_SEND_ONLY, 11, 1 });
	post_recv(1, 0, 100);
	give_rc((struct step) { IB_SEND_ONLY, 11, 1 });
	expect("send#0, 1");
	resolve(FAULT_RESPONDER, false);
	expect("ONLY 10:10, ACK 11");
	world_end();
}

/* A read is answered in turns, and goes on from where it is asked again. */
static void repeated_read_goes_on_where_it_is_asked(void **state)
{
	struct list *e = &fake_link.wire;

	world_new(QP_RC, QP_RC, 10);
	fake_mkeys[1].absent[8] = true;		/* after 32 packets */
	give_rc((struct step) { IB_READ_REQUEST, 10, 0, 64 * 256, V(0) });
	assert_true(faults[FAULT_RESPONDER].waits);
	give_rc((struct step) { IB_READ_REQUEST, 12, 0, 62 * 256, V(512) });
	assert_int_equal(1, faults[FAULT_RESPONDER].count);
	resolve(FAULT_RESPONDER, false);
	work_only();
	for (uint32_t i = 0; i < 32 + 62; i++) {
		uint32_t psn = i < 32 ? 10 + i : 12 + i - 32;
		struct packet *p;

		e = e->next;
		assert_ptr_not_equal(&fake_link.wire, e);
		p = list_item(e, struct packet, entry);
		assert_int_equal(psn, p->psn);
		assert_int_equal(i == 0 || i == 32 ? IB_READ_RESP_FIRST :
				 psn == 73 ? IB_READ_RESP_LAST : IB_READ_RESP_MIDDLE,
				 packet_operation(p));
		assert_memory_equal(memory[1] + (psn - 10) * 256, p->payload, 256);
	}
	assert_ptr_equal(&fake_link.wire, e->next);
	world_end();
}

/* The requester may have what it asks for again, so it may be gone; what it misses may not. */
static void duplicate_read_of_memory_that_is_gone_is_no_error(void **state)
{
	const struct step read = { IB_READ_REQUEST, 10, 0, 2 * 256, V(0) };
	char said[1024];
	u8 rights;

	world_new(QP_RC, QP_RC, 10);
	rights = fake_mkeys[1].rights;
	give_rc(read);
	expect("FIRST 10:256, LAST 11:256");
	fake_mkeys[1].rights = 0;
	give_rc(read);
	expect("NAK2 10");
	fake_mkeys[1].rights = rights;
	give_rc((struct step) { IB_WRITE_ONLY, 12, 1, 1, V(0) });
	work_only();
	expect("ACK 12");
	give_rc(read);
	expect("FIRST 10:256, LAST 11:256");
	fake_mkeys[1].absent[0] = faults_fail = true;
	give_rc(read);
	work_only();
	expect("NAK2 10");
	faults_fail = false;		/* the next fault is another one */
	give_rc((struct step) { IB_WRITE_ONLY, 13, 1, 1, V(0) });
	expect("");
	resolve(FAULT_RESPONDER, false);
	work_only();
	expect("ACK 13");
	world_end();

	world_new(QP_RC, QP_RC, 10);
	fake_mkeys[1].absent[8] = true;
	give_rc((struct step) { IB_READ_REQUEST, 10, 0, 64 * 256, V(0) });	/* 32 are sent */
	say_all(said);
	fake_mkeys[1].rights = 0;
	give_rc((struct step) { IB_READ_REQUEST, 12, 0, 62 * 256, V(512) });
	expect("NAK2 12");
	give_rc((struct step) { IB_READ_REQUEST, 42, 0, 32 * 256, V(32 * 256) });
	expect("NAK2 42, ERR");
	world_end();
}

/* Responses wait for packets; the request itself becomes an ACK. */
static void empty_pool_delays_read_responses(void **state)
{
	char said[1024];

	world_new(QP_RC, QP_RC, 10);
	fake_link.limit = 3;
	give_rc((struct step) { IB_READ_REQUEST, 10, 0, 4 * 256, V(0) });
	say_all(said);
	assert_string_equal("FIRST 10:256, MIDDLE 11:256, MIDDLE 12:256", said);
	work_only();
	expect("LAST 13:256");
	fake_link.limit = 1;
	give_rc((struct step) { IB_WRITE_ONLY, 14, 1, 1, V(0) });
	expect("ACK 14");
	world_end();
}

/* A read is answered by one packet a turn if each takes long; another one makes no turn. */
static void long_turn_ends_after_one_response(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	fake_loop.turn_over = true;
	arrive(&(struct step) { IB_READ_REQUEST, 10, 0, 3 * 256, V(0) }, QP_RC);
	assert_int_equal(1, fake_link.sent);
	arrive(&(struct step) { IB_READ_REQUEST, 13, 0, 1, V(0) }, QP_RC);
	assert_int_equal(1, fake_link.sent);
	work_only();
	expect("FIRST 10:256, MIDDLE 11:256, LAST 12:256, ONLY 13:1");
	world_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_waits_for_its_page),
		cmocka_unit_test(stalled_packet_beyond_limit_is_asked_for_again),
		cmocka_unit_test(receive_waits_for_its_absent_page),
		cmocka_unit_test(failed_page_fault_is_an_error),
		cmocka_unit_test(page_present_after_a_failed_fault_is_used),
		cmocka_unit_test(no_response_overtakes_a_read),
		cmocka_unit_test(naks_wait_for_earlier_reads),
		cmocka_unit_test(write_waits_for_the_fault_of_an_answered_read),
		cmocka_unit_test(repeated_request_is_answered_while_a_packet_stalls),
		cmocka_unit_test(repeated_read_that_waits_for_its_page_is_an_rnr_nak),
		cmocka_unit_test(send_repeated_before_the_owed_nak_is_acked),
		cmocka_unit_test(repeated_read_goes_on_where_it_is_asked),
		cmocka_unit_test(duplicate_read_of_memory_that_is_gone_is_no_error),
		cmocka_unit_test(empty_pool_delays_read_responses),
		cmocka_unit_test(long_turn_ends_after_one_response),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
