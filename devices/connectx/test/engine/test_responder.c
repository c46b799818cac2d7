// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The responder alone: tables of requests, with the responses and completions that they cause,
 * and what they did to memory.
 */
#include "responder_steps.h"

struct scenario {
	const char *name;
	enum qp_service service;
	unsigned int recvs;	/* posted before: 1000 bytes each, from 0x8000 on */
	void (*prepare)(void);
	struct step step[12];
};

static void play(const struct scenario *s)
{
	char said[1024];

	world_new(s->service == QP_XRC_TGT ? QP_XRC_INI : s->service, s->service, 10);
	for (unsigned int i = 0; i < s->recvs; i++)
		post_recv(1, 0x8000 + i * 0x1000, 1000);
	if (s->prepare)
		s->prepare();
	for (int i = 0; i < 12 && (s->step[i].out || s->step[i].psn); i++) {
		give(&s->step[i], s->service);
		say_all(said);
		if (strcmp(said, s->step[i].out ? s->step[i].out : "")) {
			print_error("%s, step %d: \"%s\", expected \"%s\"\n", s->name, i, said,
				    s->step[i].out);
			fail();
		}
	}
	world_end();
}

static void no_rights(void)
{
	qps[1].remote_read = qps[1].remote_write = qps[1].remote_atomic = false;
}

static void bad_lkey(void)
{
	rq[1][0].seg[0].lkey = 0x77;
}

static void word(void)
{
	uint64_t v = htole64(0x1122334455667788);

	memcpy(memory[1] + 0x100, &v, 8);
}

static void xrc(void)
{
	fake_srq = (struct srq) { .number = 0x99, .xrc = true, .xrcd = 3, .pd = FAKE_PD + 1 };
	qps[1].xrcd = 3;
	qps[1].pd = 0x777;	/* the dummy: memory is the SRQ's */
}

static void at_the_wrap(void)
{
	qps[1].resp.psn = 0xffffff;
}

static void in_line(void)
{
	qps[1].scatter_recv = 32;
}

static const struct scenario scenarios[] = {
	{ "a send of one packet", QP_RC, 1, NULL, {
		{ IB_SEND_ONLY, 10, 100, .out = "send#0, 100, ACK 10" } } },
	{ "a send of nothing", QP_RC, 1, NULL, {
		{ IB_SEND_ONLY, 10, 0, .out = "send#0, 0, ACK 10" } } },
	{ "solicited, with immediate", QP_RC, 1, NULL, {
		{ IB_SEND_ONLY_IMM, 10, 5, .solicited = true, .imm = 0xabc,
		  .out = "send-imm#0, 5!, imm abc, ACK 10" } } },
	{ "a send of three packets", QP_RC, 2, NULL, {
		{ IB_SEND_FIRST, 10, 256, .no_ack = true },
		{ IB_SEND_MIDDLE, 11, 256, .out = "ACK 11" },
		{ IB_SEND_LAST_IMM, 12, 1, .imm = 7, .out = "send-imm#0, 513, imm 7, ACK 12" },
		{ IB_SEND_ONLY, 13, 1, .out = "send#1, 1, ACK 13" } } },
	{ "send with invalidate", QP_RC, 2, NULL, {
		{ IB_SEND_FIRST, 10, 256, .no_ack = true },
		{ IB_SEND_LAST_INV, 11, 8, .imm = 0x55, .out = "send-inv#0, 264, imm 55, ACK 11" },
		{ IB_SEND_ONLY_INV, 12, 8, .imm = 0xbad,
		  .out = "error#1, syndrome 11, NAK2 12, ERR" } } },
	{ "to the CQE", QP_RC, 2, in_line, {
		{ IB_SEND_ONLY, 10, 32, .out = "send#0, 32, ACK 10" },
		{ IB_SEND_ONLY, 11, 33, .out = "send#1, 33, ACK 11" } } },
	{ "no receive WQE", QP_RC, 0, NULL, {
		{ IB_SEND_FIRST, 10, 256, .no_ack = true, .out = "RNR12 10" },
		{ IB_SEND_LAST, 11, 256 },
		{ IB_SEND_FIRST, 10, 256, .no_ack = true, .out = "RNR12 10" } } },
	{ "too long for the receive WQE", QP_RC, 2, NULL, {
		{ IB_SEND_FIRST, 10, 256, .no_ack = true },
		{ IB_SEND_MIDDLE, 11, 256, .no_ack = true },
		{ IB_SEND_MIDDLE, 12, 256, .no_ack = true },
		{ IB_SEND_LAST, 13, 233, .out = "error#0, syndrome 1, NAK1 13, ERR" },
		{ IB_SEND_ONLY, 14, 1, .out = "ERR" } } },
	{ "just fits the receive WQE", QP_RC, 2, NULL, {
		{ IB_SEND_FIRST, 10, 256, .no_ack = true },
		{ IB_SEND_MIDDLE, 11, 256, .no_ack = true },
		{ IB_SEND_MIDDLE, 12, 256, .no_ack = true },
		{ IB_SEND_LAST, 13, 232, .out = "send#0, 1000, ACK 13" } } },
	{ "a bad key in the receive WQE", QP_RC, 1, bad_lkey, {
		{ IB_SEND_ONLY, 10, 256, .out = "error#0, syndrome 4, NAK3 10, ERR" } } },
	{ "a write of one packet", QP_RC, 0, NULL, {
		{ IB_WRITE_ONLY, 10, 100, 100, V(64), .out = "ACK 10" } } },
	{ "a write of nothing needs no key", QP_RC, 0, NULL, {
		{ IB_WRITE_ONLY, 10, 0, 0, 0, 0x123, .out = "ACK 10" } } },
	{ "a write of three packets", QP_RC, 1, NULL, {
		{ IB_WRITE_FIRST, 10, 256, 600, V(64), .no_ack = true },
		{ IB_WRITE_MIDDLE, 11, 256, .no_ack = true },
		{ IB_WRITE_LAST_IMM, 12, 88, .imm = 9, .out = "write-imm#0, 600, imm 9, ACK 12" },
		{ IB_WRITE_ONLY_IMM, 13, 1, 1, V(0), .out = "RNR12 13" } } },
	{ "writes that do not have the length that they say", QP_RC, 0, NULL, {
		{ IB_WRITE_ONLY, 10, 100, 101, V(64), .out = "NAK1 10, ERR" } } },
	{ "more than it says", QP_RC, 0, NULL, {
		{ IB_WRITE_FIRST, 10, 256, 300, V(64), .no_ack = true },
		{ IB_WRITE_MIDDLE, 11, 256, .out = "NAK1 11, ERR" } } },
	{ "less than it says", QP_RC, 0, NULL, {
		{ IB_WRITE_FIRST, 10, 256, 300, V(64), .no_ack = true },
		{ IB_WRITE_LAST, 11, 43, .out = "NAK1 11, ERR" } } },
	{ "a short first packet", QP_RC, 1, NULL, {
		{ IB_SEND_FIRST, 10, 255, .out = "NAK1 10, ERR" } } },
	{ "an empty last packet", QP_RC, 1, NULL, {
		{ IB_SEND_FIRST, 10, 256, .no_ack = true },
		{ IB_SEND_LAST, 11, 0, .out = "NAK1 11, ERR" } } },
	{ "the whole range is checked at the first packet", QP_RC, 0, NULL, {
		{ IB_WRITE_FIRST, 10, 256, FAKE_MEMORY, V(1), .out = "NAK2 10, ERR" } } },
	{ "the longest write is judged by its key", QP_RC, 0, NULL, {
		{ IB_WRITE_FIRST, 10, 256, MESSAGE_MAX, V(0), .out = "NAK2 10, ERR" } } },
	{ "a longer one by its length", QP_RC, 0, NULL, {
		{ IB_WRITE_FIRST, 10, 256, MESSAGE_MAX + 1, V(0), .out = "NAK1 10, ERR" } } },
	{ "the longest read", QP_RC, 0, NULL, {
		{ IB_READ_REQUEST, 10, 0, MESSAGE_MAX, V(0), .out = "NAK2 10, ERR" } } },
	{ "a longer one", QP_RC, 0, NULL, {
		{ IB_READ_REQUEST, 10, 0, MESSAGE_MAX + 1, V(0), .out = "NAK1 10, ERR" } } },
	{ "a wrong key", QP_RC, 0, NULL, {
		{ IB_WRITE_ONLY, 10, 1, 1, V(0), 0x2002, .out = "NAK2 10, ERR" } } },
	{ "the reserved key is not for the wire", QP_RC, 0, NULL, {
		{ IB_READ_REQUEST, 10, 0, 1, V(0), MKEY_RESERVED_LKEY, .out = "NAK2 10, ERR" } } },
	{ "no right to write", QP_RC, 0, no_rights, {
		{ IB_WRITE_ONLY, 10, 1, 1, V(0), .out = "NAK1 10, ERR" } } },
	{ "no right to read", QP_RC, 0, no_rights, {
		{ IB_READ_REQUEST, 10, 0, 1, V(0), .out = "NAK1 10, ERR" } } },
	{ "no right to atomics", QP_RC, 0, no_rights, {
		{ IB_FETCH_ADD, 10, 0, 0, V(0), .out = "NAK1 10, ERR" } } },
	{ "a message cannot begin in its middle", QP_RC, 1, NULL, {
		{ IB_SEND_MIDDLE, 10, 256, .out = "NAK1 10, ERR" } } },
	{ "a message cannot end before its end", QP_RC, 1, NULL, {
		{ IB_SEND_FIRST, 10, 256, .no_ack = true },
		{ IB_SEND_ONLY, 11, 1, .out = "NAK1 11, ERR" } } },
	{ "a send does not become a write", QP_RC, 1, NULL, {
		{ IB_SEND_FIRST, 10, 256, .no_ack = true },
		{ IB_WRITE_LAST, 11, 1, .out = "NAK1 11, ERR" } } },
	{ "no read within a message", QP_RC, 1, NULL, {
		{ IB_SEND_FIRST, 10, 256, .no_ack = true },
		{ IB_READ_REQUEST, 11, 0, 1, V(0), .out = "NAK1 11, ERR" } } },
	{ "one NAK for a gap", QP_RC, 3, NULL, {
		{ IB_SEND_ONLY, 11, 1, .out = "NAK0 10" },
		{ IB_SEND_ONLY, 12, 1 },
		{ IB_SEND_ONLY, 10, 1, .out = "send#0, 1, ACK 10" },
		{ IB_SEND_ONLY, 12, 1, .out = "NAK0 11" },
		{ IB_SEND_ONLY, 11, 1, .out = "send#1, 1, ACK 11" } } },
	{ "duplicates are acknowledged and not executed", QP_RC, 3, NULL, {
		{ IB_SEND_ONLY, 10, 1, .out = "send#0, 1, ACK 10" },
		{ IB_SEND_ONLY, 11, 1, .out = "send#1, 1, ACK 11" },
		{ IB_SEND_ONLY, 10, 1, .out = "ACK 10" },
		{ IB_SEND_ONLY, 11, 1, .out = "ACK 11" },
		{ IB_SEND_ONLY, 11, 1, .no_ack = true } } },
	{ "PSNs wrap", QP_RC, 3, at_the_wrap, {
		{ IB_SEND_ONLY, 0xffffff, 1, .out = "send#0, 1, ACK 16777215" },
		{ IB_SEND_ONLY, 1, 1, .out = "NAK0 0" },
		{ IB_READ_REQUEST, 0, 0, 300, V(0), .out = "FIRST 0:256, LAST 1:44" },
		{ IB_SEND_ONLY, 0xffffff, 1, .out = "ACK 16777215" } } },
	{ "reads", QP_RC, 0, NULL, {
		{ IB_READ_REQUEST, 10, 0, 0, 0, 0x123, .out = "ONLY 10:0" },
		{ IB_READ_REQUEST, 11, 0, 256, V(0), .out = "ONLY 11:256" },
		{ IB_READ_REQUEST, 12, 0, 700, V(8),
		  .out = "FIRST 12:256, MIDDLE 13:256, LAST 14:188" },
		/* All of it again, and from its second packet, and its last. */
		{ IB_READ_REQUEST, 12, 0, 700, V(8),
		  .out = "FIRST 12:256, MIDDLE 13:256, LAST 14:188" },
		{ IB_READ_REQUEST, 13, 0, 444, V(264), .out = "FIRST 13:256, LAST 14:188" },
		{ IB_READ_REQUEST, 14, 0, 188, V(520), .out = "ONLY 14:188" },
		/* Not what was asked. */
		{ IB_READ_REQUEST, 14, 0, 188, V(521) },
		{ IB_READ_REQUEST, 14, 0, 189, V(520) },
		{ IB_READ_REQUEST, 9, 0, 189, V(520) },
		{ IB_READ_REQUEST, 15, 0, 1, V(0), .out = "ONLY 15:1" } } },
	{ "a read of what is not there", QP_RC, 0, NULL, {
		{ IB_READ_REQUEST, 10, 0, 1, V(FAKE_MEMORY), .out = "NAK2 10, ERR" } } },
	{ "atomics", QP_RC, 0, word, {
		{ IB_FETCH_ADD, 10, .va = V(0x100), .swap = 1,
		  .out = "ATOMIC 10=1122334455667788" },
		{ IB_COMPARE_SWAP, 11, .va = V(0x100), .swap = 5, .compare = 0x1122334455667789,
		  .out = "ATOMIC 11=1122334455667789" },
		{ IB_COMPARE_SWAP, 12, .va = V(0x100), .swap = 6, .compare = 1,
		  .out = "ATOMIC 12=5" },
		/* Duplicates get what the first one got. */
		{ IB_FETCH_ADD, 10, .va = V(0x100), .swap = 1,
		  .out = "ATOMIC 10=1122334455667788" },
		{ IB_COMPARE_SWAP, 12, .va = V(0x100), .swap = 6, .out = "ATOMIC 12=5" },
		{ IB_COMPARE_SWAP, 11, .va = V(0x108) },
		{ IB_FETCH_ADD, 11, .va = V(0x100) },
		{ IB_FETCH_ADD, 13, .va = V(0x100), .swap = -5ull, .out = "ATOMIC 13=5" },
		{ IB_FETCH_ADD, 14, .va = V(0x104), .out = "NAK1 14, ERR" } } },
	{ "masked atomics", QP_RC, 0, word, {
		{ IB_MASKED_COMPARE_SWAP, 10, .va = V(0x100), .swap = 0xaaaa, .swap_mask = 0xff00,
		  .compare = 0x88, .compare_mask = 0xff, .out = "ATOMIC 10=1122334455667788" },
		{ IB_MASKED_COMPARE_SWAP, 11, .va = V(0x100), .swap = 0, .swap_mask = -1ull,
		  .compare = 0x87, .compare_mask = 0xff, .out = "ATOMIC 11=112233445566aa88" },
		/* Bytes, each by itself. */
		{ IB_MASKED_FETCH_ADD, 12, .va = V(0x100), .swap = 0x0100000000ee0181,
		  .compare_mask = 0x8080808080808080, .out = "ATOMIC 12=112233445566aa88" },
		{ IB_FETCH_ADD, 13, .va = V(0x100), .out = "ATOMIC 13=122233445554ab09" } } },
	{ "an atomic where it may not be", QP_RC, 0, NULL, {
		{ IB_FETCH_ADD, 10, .va = V(FAKE_MEMORY), .out = "NAK2 10, ERR" } } },
	{ "UC", QP_UC, 2, NULL, {
		{ IB_SEND_FIRST, 10, 256 },
		{ IB_SEND_LAST, 11, 4, .out = "send#0, 260" },
		{ IB_WRITE_FIRST, 12, 256, 300, V(0) },
		{ IB_WRITE_LAST_IMM, 13, 44, .out = "write-imm#1, 300" },
		{ IB_SEND_ONLY, 14, 1 } } },
	{ "UC: a gap ends the message, the receive WQE is for the next", QP_UC, 2, NULL, {
		{ IB_SEND_FIRST, 10, 256 },
		{ IB_SEND_LAST, 12, 256 },
		{ IB_SEND_ONLY, 20, 8, .out = "send#0, 8" },
		{ IB_SEND_FIRST, 21, 256 },
		{ IB_SEND_FIRST, 22, 256 },
		{ IB_SEND_LAST, 23, 1, .out = "send#1, 257" } } },
	{ "UC: what is not allowed is dropped", QP_UC, 2, NULL, {
		{ IB_WRITE_FIRST, 10, 256, 300, V(0), 0x123 },
		{ IB_WRITE_LAST_IMM, 11, 44 },
		{ IB_READ_REQUEST, 12, 0, 1, V(0) },
		{ IB_SEND_ONLY, 13, 8, .out = "send#0, 8" } } },
	{ "UC: too long", QP_UC, 1, NULL, {
		{ IB_WRITE_ONLY_IMM, 10, 1, 1, V(0), .out = "write-imm#0, 1" } } },
	{ "XRC", QP_XRC_TGT, 2, xrc, {
		{ IB_SEND_ONLY, 10, 8, .srqn = 0x99, .out = "send#0, 8, ACK 10" },
		{ IB_WRITE_ONLY, 11, 8, 8, V(0), .srqn = 0x99, .out = "ACK 11" },
		{ IB_READ_REQUEST, 12, 0, 8, V(0), .srqn = 0x99, .out = "ONLY 12:8" },
		{ IB_SEND_ONLY, 13, 8, .srqn = 0x98, .out = "NAK1 13, ERR" } } },
};

static void requests_get_the_listed_responses(void **state)
{
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		play(&scenarios[i]);
}

static void write_and_send_land_at_their_addresses(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	post_recv(1, 0x8000, 300);
	give_rc((struct step) { IB_WRITE_FIRST, 10, 256, 300, V(1000) });
	give_rc((struct step) { IB_WRITE_LAST, 11, 44 });
	give_rc((struct step) { IB_SEND_FIRST, 12, 256 });
	give_rc((struct step) { IB_SEND_LAST, 13, 44 });
	for (int i = 0; i < 300; i++) {
		assert_int_equal(pattern(10 + i / 256, i % 256), memory[1][1000 + i]);
		assert_int_equal(pattern(12 + i / 256, i % 256), memory[1][0x8000 + i]);
	}
	assert_int_equal((u8)(999 * 7 + 999 / 256 + 100), memory[1][999]);
	assert_int_equal((u8)(1300 * 7 + 1300 / 256 + 100), memory[1][1300]);
	assert_int_equal(2, qps[1].resp.msn);
	world_end();
}

static void receive_fills_all_its_segments(void **state)
{
	struct recv_wqe *r;

	world_new(QP_RC, QP_RC, 10);
	r = post_recv(1, 0, 0);
	r->segs = RECV_SEGS;
	for (int i = 0; i < RECV_SEGS; i++) {
		r->seg[i].len = i * 3 % 50;
		r->seg[i].lkey = KEY;
		r->seg[i].addr = V(i * 100);
		r->room += r->seg[i].len;
	}
	give_rc((struct step) { IB_SEND_FIRST, 10, 256, .no_ack = true });
	give_rc((struct step) { IB_SEND_LAST, 11, 200, .no_ack = true });
	for (int i = 0, n = 0; i < RECV_SEGS; i++)
		for (unsigned int k = 0; k < r->seg[i].len && n < 456; k++, n++)
			assert_int_equal(pattern(10 + n / 256, n % 256), memory[1][i * 100 + k]);
	expect("send#0, 456");
	world_end();
}

static void data_scattered_to_the_cqe_skips_memory(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	qps[1].scatter_recv = 32;
	post_recv(1, 0x8000, 32);
	memset(memory[1] + 0x8000, 0xee, 32);
	give_rc((struct step) { IB_SEND_ONLY, 10, 32 });
	for (int i = 0; i < 32; i++) {
		assert_int_equal(pattern(10, i), done[0].data[i]);
		assert_int_equal(0xee, memory[1][0x8000 + i]);
	}
	world_end();
}

static void first_packet_establishes_communication(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	qps[1].state = QPS_RTR;
	give_rc((struct step) { IB_WRITE_ONLY, 10, 1, 1, V(0) });
	give_rc((struct step) { IB_WRITE_ONLY, 11, 1, 1, V(0) });
	assert_int_equal(1, events[EVENT_COMM_EST]);
	expect("ACK 10, ACK 11");
	world_end();
}

static void refused_request_sends_an_event(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	give_rc((struct step) { IB_WRITE_ONLY, 10, 1, 1, V(0), 0x777 });
	assert_int_equal(1, events[EVENT_ACCESS]);
	world_end();
	world_new(QP_RC, QP_RC, 10);
	give_rc((struct step) { IB_SEND_LAST, 10, 1 });
	assert_int_equal(1, events[EVENT_INVALID_REQUEST]);
	world_end();
}

static void packet_of_wrong_lid_pkey_or_opcode_is_dropped(void **state)
{
	static const struct { uint16_t slid, pkey; uint32_t dqpn; u8 opcode; bool taken; } t[] = {
		{ FAKE_LID, 0xffff, 0x41, IB_WRITE_ONLY, true },
		{ FAKE_LID, 0x7fff, 0x41, IB_WRITE_ONLY, true },
		{ FAKE_LID + 1, 0xffff, 0x41, IB_WRITE_ONLY, false },
		{ FAKE_LID, 0x8001, 0x41, IB_WRITE_ONLY, false },
		{ FAKE_LID, 0xffff, 0x49, IB_WRITE_ONLY, false },
		{ FAKE_LID, 0xffff, 0x41, IB_UC << 5 | IB_WRITE_ONLY, false },
		{ FAKE_LID, 0xffff, 0x41, IB_UD << 5 | IB_SEND_ONLY, false },
		{ FAKE_LID, 0xffff, 0x41, IB_XRC << 5 | IB_WRITE_ONLY, false },
		{ FAKE_LID, 0xffff, 0x41, 0x15, false },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct packet *p;

		world_new(QP_RC, QP_RC, 10);
		p = link_packet(&fake_link);
		p->slid = t[i].slid;
		p->pkey = t[i].pkey;
		p->dqpn = t[i].dqpn;
		p->opcode = t[i].opcode;
		p->psn = 10;
		p->ack_request = true;
		transport_receive(&hca, p);
		expect(t[i].taken ? "ACK 10" : "");
		assert_int_equal(t[i].pkey == 0x8001, hca.port.pkey_violations);
		world_end();
	}
}

/* With a GRH: both GIDs are those of the connection, which has one too. */
static void packet_with_other_gids_is_dropped(void **state)
{
	static const struct { bool path, packet; u8 sgid, dgid; bool taken; } t[] = {
		{ true, true, 0x33, 0x61, true },
		{ true, true, 0x33, 0x60, false },	/* another GID of the port */
		{ true, true, 0x33, 0x77, false },
		{ true, true, 0x34, 0x61, false },
		{ true, false, 0, 0, false },
		{ false, true, 0x33, 0x61, false },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct packet *p;

		world_new(QP_RC, QP_RC, 10);
		qps[1].path.global = t[i].path;
		qps[1].path.gid_index = 1;
		memset(qps[1].path.dgid, 0x33, 16);
		p = link_packet(&fake_link);
		p->dlid = p->slid = FAKE_LID;
		p->global = t[i].packet;
		memset(p->sgid, t[i].sgid, 16);
		memset(p->dgid, t[i].dgid, 16);
		p->pkey = 0xffff;
		p->dqpn = 0x41;
		p->opcode = IB_WRITE_ONLY;
		p->psn = 10;
		p->ack_request = true;
		transport_receive(&hca, p);
		expect(t[i].taken ? "ACK 10" : "");
		world_end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_get_the_listed_responses),
		cmocka_unit_test(write_and_send_land_at_their_addresses),
		cmocka_unit_test(receive_fills_all_its_segments),
		cmocka_unit_test(data_scattered_to_the_cqe_skips_memory),
		cmocka_unit_test(first_packet_establishes_communication),
		cmocka_unit_test(refused_request_sends_an_event),
		cmocka_unit_test(packet_of_wrong_lid_pkey_or_opcode_is_dropped),
		cmocka_unit_test(packet_with_other_gids_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
