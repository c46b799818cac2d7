// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The fabric's switch: LIDs, unicast, multicast, ports that are full, and faults that a seed
 * repeats.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "fake_loop.h"
#include "packet.h"
#include "sa.h"
#include "switch.h"

#define GUID(n) (0x0002c90300000100ull + (n))
#define PACKETS 10000

/* A fake administrator: it answers every packet to LID 1 with the PSN plus one. */
static unsigned int sa_calls, sa_gone;

struct sa *sa_new(struct ib_switch *s, struct loop *loop)
{
	return (struct sa *)s;
}

void sa_free(struct sa *sa)
{
}

bool sa_next(struct sa *sa, struct packet *answer) { return false; }

bool sa_receive(struct sa *sa, const struct packet *request, struct packet *answer)
{
	sa_calls++;
	*answer = *request;
	answer->dlid = request->slid;
	answer->slid = 1;
	answer->psn = request->psn + 1;
	return request->psn != 99;
}

void sa_port_gone(struct sa *sa, uint16_t lid)
{
	sa_gone = lid;
}

struct end {
	struct switch_port *port;
	uint32_t psn[2 * PACKETS];
	unsigned int count, room, resumed;	/* room: how many it still takes */
};

static bool end_deliver(void *arg, const u8 *wire, size_t len)
{
	static struct packet p;
	struct end *e = arg;
	const char *why;

	if (!e->room)
		return false;
	e->room--;
	assert_int_equal(packet_parse(&p, wire, len, &why), 0);
	e->psn[e->count++] = p.psn;
	return true;
}

static void end_resume(void *arg)
{
	((struct end *)arg)->resumed++;
}

static const struct switch_port_ops ops = { end_deliver, end_resume };
static struct ib_switch *sw;
static struct end ends[3];

static void start(const struct switch_faults *faults)
{
	static const struct switch_faults none;
	const char *why;

	fake_reset();
	memset(ends, 0, sizeof(ends));
	sa_calls = sa_gone = 0;
	sw = switch_new(&fake_loop, faults ? faults : &none, NULL);
	assert_non_null(sw);
	for (int i = 0; i < 3; i++) {
		ends[i].room = 2 * PACKETS;
		ends[i].port = switch_attach(sw, GUID(i), &ops, &ends[i], &why);
		assert_non_null(ends[i].port);
	}
}

static void stop(void)
{
	for (int i = 0; i < 3; i++)
		if (ends[i].port)
			switch_detach(ends[i].port);
	switch_free(sw);
	assert_int_equal(fake_loop.timers, 0);
}

static size_t make(u8 *wire, uint16_t slid, uint16_t dlid, uint32_t psn)
{
	static struct packet p;

	p.slid = slid;
	p.dlid = dlid;
	p.opcode = IB_SEND_ONLY;
	p.psn = psn;
	p.length = 32;
	return packet_write(&p, wire);
}

static bool send_psn(int from, uint16_t dlid, uint32_t psn)
{
	u8 wire[PACKET_WIRE_MAX];
	size_t len = make(wire, switch_lid(ends[from].port), dlid, psn);

	return switch_send(ends[from].port, wire, len);
}

static void lids_are_given_kept_and_reused(void **state)
{
	struct switch_port *port[SWITCH_PORTS];
	static struct end other;
	const char *why;

	start(NULL);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(switch_lid(ends[i].port), 2 + i);
		assert_int_equal(switch_guid(sw, 2 + i), GUID(i));
	}
	assert_int_equal(switch_guid(sw, 1), SWITCH_SM_GUID);
	assert_int_equal(switch_guid(sw, 0), 0);
	assert_int_equal(switch_guid(sw, 5), 0);
	assert_int_equal(switch_guid(sw, 66), 0);
	assert_int_equal(switch_guid(sw, 0xffff), 0);

	assert_null(switch_attach(sw, 0, &ops, &other, &why));
	assert_null(switch_attach(sw, SWITCH_SM_GUID, &ops, &other, &why));
	assert_null(switch_attach(sw, GUID(1), &ops, &other, &why));
	assert_string_equal(why, "a port with this GUID is there already");

	/* LID 3 is kept for whom had it, as long as there are others. */
	switch_detach(ends[1].port);
	assert_int_equal(sa_gone, 3);
	assert_int_equal(switch_guid(sw, 3), 0);
	for (int i = 3; i < SWITCH_PORTS; i++) {
		port[i] = switch_attach(sw, GUID(i), &ops, &other, &why);
		assert_int_equal(switch_lid(port[i]), 2 + i);
	}
	ends[1].port = switch_attach(sw, GUID(1), &ops, &ends[1], &why);
	assert_int_equal(switch_lid(ends[1].port), 3);
	assert_null(switch_attach(sw, GUID(100), &ops, &other, &why));
	assert_string_equal(why, "all ports are taken");
	switch_detach(port[7]);
	port[7] = switch_attach(sw, GUID(100), &ops, &other, &why);
	assert_int_equal(switch_lid(port[7]), 9);
	for (int i = 3; i < SWITCH_PORTS; i++)
		switch_detach(port[i]);
	stop();
}

static void unicast_reaches_its_lid_only(void **state)
{
	u8 wire[PACKET_WIRE_MAX];
	size_t len;

	start(NULL);
	assert_true(send_psn(0, 3, 7));
	assert_true(send_psn(0, 4, 8));
	assert_true(send_psn(0, 2, 9));		/* to itself */
	assert_int_equal(ends[1].count, 1);
	assert_int_equal(ends[1].psn[0], 7);
	assert_int_equal(ends[2].psn[0], 8);
	assert_int_equal(ends[0].psn[0], 9);
	/* To nobody: an LID that is free, one that never exists, the permissive one. */
	assert_true(send_psn(0, 5, 1));
	assert_true(send_psn(0, 0, 1));
	assert_true(send_psn(0, 0x7777, 1));
	assert_true(send_psn(0, 0xffff, 1));
	assert_int_equal(switch_counters(sw)->unknown, 4);
	/* The administrator answers, or not. */
	assert_true(send_psn(2, 1, 50));
	assert_true(send_psn(2, 1, 99));
	assert_int_equal(sa_calls, 2);
	assert_int_equal(ends[2].count, 2);
	assert_int_equal(ends[2].psn[1], 51);
	/* What is not a packet, or says that it is of another port. */
	len = make(wire, 3, 4, 1);
	assert_true(switch_send(ends[0].port, wire, len));
	len = make(wire, 2, 4, 1);
	assert_true(switch_send(ends[0].port, wire, len - 4));
	assert_true(switch_send(ends[0].port, wire, 7));
	assert_true(switch_send(ends[0].port, wire, 0));
	len = make(wire, 2, 1, 1);
	wire[len - 1] ^= 1;			/* the administrator checks the CRC */
	assert_true(switch_send(ends[0].port, wire, len));
	assert_int_equal(switch_counters(sw)->bad, 5);
	assert_int_equal(sa_calls, 2);
	assert_int_equal(ends[0].count + ends[1].count + ends[2].count, 4);
	stop();
}

static void multicast_reaches_members_but_not_the_sender(void **state)
{
	start(NULL);
	switch_member(sw, 0xc005, 2, true);
	switch_member(sw, 0xc005, 3, true);
	assert_true(send_psn(0, 0xc005, 1));	/* not back to the sender */
	assert_true(send_psn(2, 0xc005, 2));	/* who need not be a member */
	assert_true(send_psn(2, 0xc004, 3));
	assert_true(send_psn(2, 0xfffe, 4));	/* beyond the table */
	switch_member(sw, 0xc005, 3, false);
	assert_true(send_psn(2, 0xc005, 5));
	assert_int_equal(ends[0].count, 2);
	assert_int_equal(ends[0].psn[0], 2);
	assert_int_equal(ends[0].psn[1], 5);
	assert_int_equal(ends[1].count, 2);
	assert_int_equal(ends[1].psn[1], 2);
	assert_int_equal(ends[2].count, 0);
	/* A full member does not hold the sender. */
	ends[0].room = 0;
	assert_true(send_psn(2, 0xc005, 6));
	assert_int_equal(switch_counters(sw)->stalled, 1);
	stop();
}

static void full_port_holds_the_sender(void **state)
{
	start(NULL);
	ends[1].room = 2;
	assert_true(send_psn(0, 3, 0));
	assert_true(send_psn(0, 3, 1));
	assert_false(send_psn(0, 3, 2));
	assert_true(send_psn(2, 4, 5));		/* others go on */
	assert_int_equal(ends[0].resumed, 0);
	ends[1].room = 10;
	switch_room(ends[1].port);
	assert_int_equal(ends[0].resumed, 1);
	assert_int_equal(ends[2].resumed, 0);
	assert_true(send_psn(0, 3, 2));
	assert_int_equal(ends[1].count, 3);
	assert_int_equal(ends[1].psn[2], 2);
	fake_loop.now += 10 * SWITCH_STALL_NS;
	fake_turn();
	assert_int_equal(switch_counters(sw)->stalled, 0);
	stop();
}

static void stalled_port_hurts_itself_only(void **state)
{
	start(NULL);
	ends[1].room = 0;
	assert_false(send_psn(0, 3, 0));
	fake_loop.now += SWITCH_STALL_NS / 2;
	fake_turn();
	assert_false(send_psn(0, 3, 0));	/* does not prolong it */
	fake_loop.now += SWITCH_STALL_NS / 2;
	fake_turn();
	assert_int_equal(ends[0].resumed, 1);
	/* From now on it loses packets, even if a place or two get free. */
	ends[1].room = 2;
	for (int i = 0; i < 5; i++)
		assert_true(send_psn(0, 3, i));
	assert_int_equal(ends[1].count, 0);
	assert_int_equal(switch_counters(sw)->stalled, 5);
	assert_true(send_psn(0, 4, 1));
	assert_int_equal(ends[2].count, 1);
	/* Until it drained. */
	ends[1].room = 100;
	switch_room(ends[1].port);
	assert_true(send_psn(0, 3, 6));
	assert_int_equal(ends[1].count, 1);
	stop();
}

/* It drains and stalls in turns: its senders are held once in a while. */
static void port_stalling_again_drops_its_own_packets(void **state)
{
	start(NULL);
	for (int round = 0; round < 3; round++) {
		uint64_t dropped = switch_counters(sw)->stalled;

		ends[1].room = 0;
		assert_false(send_psn(0, 3, 0));
		fake_loop.now += SWITCH_STALL_NS;
		fake_turn();
		assert_int_equal(ends[0].resumed, round + 1);
		for (int i = 0; i < 5; i++) {
			ends[1].room = 1;
			switch_room(ends[1].port);
			assert_true(send_psn(0, 3, 1));		/* arrives */
			assert_true(send_psn(0, 3, 2));		/* is dropped */
			assert_true(send_psn(0, 4, 3));
		}
		assert_int_equal(switch_counters(sw)->stalled, dropped + 5);
		assert_int_equal(ends[1].count, 5 * (round + 1));
		assert_int_equal(ends[2].count, 5 * (round + 1));
		fake_loop.now += SWITCH_DISTRUST_NS;
		switch_room(ends[1].port);
	}
	stop();
}

static void detach_wakes_held_senders(void **state)
{
	start(NULL);
	ends[1].room = 0;
	assert_false(send_psn(0, 3, 0));
	switch_detach(ends[1].port);
	ends[1].port = NULL;
	assert_int_equal(ends[0].resumed, 1);
	assert_true(send_psn(0, 3, 0));
	assert_int_equal(switch_counters(sw)->unknown, 1);
	stop();
}

static void run_faults(const struct switch_faults *faults, struct end *result,
		       struct switch_count *count)
{
	start(faults);
	for (int i = 0; i < PACKETS; i++) {
		assert_true(send_psn(0, 3, i));
		fake_loop.now += 10000;
		fake_turn();
	}
	fake_loop.now += 1000000000;
	fake_turn();
	*result = ends[1];
	*count = *switch_counters(sw);
	stop();
}

static void drop_fault_follows_rate_and_seed(void **state)
{
	struct switch_faults faults = { .drop = 0.05, .seed = 7 };
	static struct end a, b, c;
	struct switch_count count;

	run_faults(&faults, &a, &count);
	assert_in_range(count.dropped, 400, 600);
	assert_int_equal(a.count, PACKETS - count.dropped);
	for (unsigned int i = 1; i < a.count; i++)
		assert_true(a.psn[i] > a.psn[i - 1]);
	run_faults(&faults, &b, &count);
	assert_int_equal(a.count, b.count);
	assert_memory_equal(a.psn, b.psn, sizeof(a.psn));
	faults.seed = 8;
	run_faults(&faults, &c, &count);
	assert_true(memcmp(a.psn, c.psn, sizeof(a.psn)));
	faults.drop = 1;
	run_faults(&faults, &c, &count);
	assert_int_equal(c.count, 0);
}

static void duplicate_fault_doubles_packets(void **state)
{
	struct switch_faults faults = { .duplicate = 0.1, .seed = 1 };
	struct switch_count count;
	static struct end a;
	unsigned int twice = 0;

	run_faults(&faults, &a, &count);
	assert_in_range(count.duplicated, 900, 1100);
	assert_int_equal(a.count, PACKETS + count.duplicated);
	for (unsigned int i = 1; i < a.count; i++)
		twice += a.psn[i] == a.psn[i - 1];
	assert_int_equal(twice, count.duplicated);
}

static void reorder_fault_loses_no_packet(void **state)
{
	struct switch_faults faults = { .reorder = 0.02, .seed = 3 };
	struct switch_count count;
	static struct end a;
	static u8 seen[PACKETS];
	unsigned int back = 0;

	run_faults(&faults, &a, &count);
	assert_in_range(count.reordered, 150, 250);
	assert_int_equal(a.count, PACKETS);
	memset(seen, 0, sizeof(seen));
	for (unsigned int i = 0; i < a.count; i++) {
		assert_false(seen[a.psn[i]]);
		seen[a.psn[i]] = 1;
		back += i && a.psn[i] < a.psn[i - 1];
	}
	assert_in_range(back, 100, 250);
}

/* A delay keeps the order, takes its time, and holds a bounded number. */
static void delay_keeps_the_order_and_is_bounded(void **state)
{
	struct switch_faults faults = { .delay_ns = 50000, .duplicate = 0.5, .seed = 3 };
	struct switch_count count;
	static struct end a;

	run_faults(&faults, &a, &count);
	assert_int_equal(a.count, PACKETS + count.duplicated);
	for (unsigned int i = 1; i < a.count; i++)
		assert_true(a.psn[i] >= a.psn[i - 1]);

	faults.duplicate = 0;
	start(&faults);
	for (int i = 0; i < PACKETS; i++)
		assert_true(send_psn(0, 3, i));
	fake_loop.now += faults.delay_ns - 1;
	fake_turn();
	assert_int_equal(ends[1].count, 0);
	fake_loop.now++;
	fake_turn();
	assert_int_equal(ends[1].count, SWITCH_HELD);
	assert_int_equal(switch_counters(sw)->dropped, PACKETS - SWITCH_HELD);
	/* What is held for a port that leaves goes with it. */
	assert_true(send_psn(0, 3, 0));
	assert_true(send_psn(0, 4, 0));
	switch_detach(ends[1].port);
	ends[1].port = NULL;
	fake_loop.now += faults.delay_ns;
	fake_turn();
	assert_int_equal(ends[1].count, SWITCH_HELD);
	assert_int_equal(ends[2].count, 1);
	/* And what is held at the end is freed. */
	assert_true(send_psn(0, 4, 0));
	stop();
}

/* A packet that was refused meets the same fate when it comes again. */
static void resent_packet_meets_the_same_fault(void **state)
{
	struct switch_faults faults = { .drop = 0.5, .seed = 11 };
	static struct end a;
	struct switch_count count;

	run_faults(&faults, &a, &count);
	start(&faults);
	ends[1].room = 0;
	for (int i = 0; i < PACKETS; i++) {
		while (!send_psn(0, 3, i)) {
			ends[1].room = 1;
			switch_room(ends[1].port);
		}
	}
	assert_int_equal(ends[1].count, a.count);
	assert_memory_equal(ends[1].psn, a.psn, sizeof(a.psn));
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lids_are_given_kept_and_reused),
		cmocka_unit_test(unicast_reaches_its_lid_only),
		cmocka_unit_test(multicast_reaches_members_but_not_the_sender),
		cmocka_unit_test(full_port_holds_the_sender),
		cmocka_unit_test(stalled_port_hurts_itself_only),
		cmocka_unit_test(port_stalling_again_drops_its_own_packets),
		cmocka_unit_test(detach_wakes_held_senders),
		cmocka_unit_test(drop_fault_follows_rate_and_seed),
		cmocka_unit_test(duplicate_fault_doubles_packets),
		cmocka_unit_test(reorder_fault_loses_no_packet),
		cmocka_unit_test(delay_keeps_the_order_and_is_bounded),
		cmocka_unit_test(resent_packet_meets_the_same_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
