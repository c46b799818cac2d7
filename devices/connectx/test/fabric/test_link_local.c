// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The link without a fabric: packets come back, the subnet administrator answers, the pool of
 * packets has an end.
 */
#include "link_world.h"
#include "mad.h"

static void local_packets_come_back_in_order(void **state)
{
	begin_alone();
	assert_int_equal(port.lid, 2);
	assert_int_equal(port.sm_lid, 1);
	assert_int_equal(port.state, 4);
	assert_true(link_is_local(l, 2));
	assert_false(link_is_local(l, 1));
	for (int i = 0; i < 100; i++)
		link_send(l, make(2, i, 100));
	assert_int_equal(got_count, 0);		/* never from inside link_send() */
	fake_turn();
	assert_int_equal(got_count, 64);	/* a bounded turn */
	fake_turn();
	assert_int_equal(got_count, 100);
	for (int i = 0; i < 100; i++)
		assert_int_equal(got_psn[i], i);
	assert_int_equal(counted.out[0].packets, 100);
	assert_int_equal(counted.in[0].packets, 100);
	assert_int_equal(counted.in[0].octets, 100 * (8 + 12 + 100 + 4));
	assert_int_equal(counted.in[1].packets, 0);
	assert_int_equal(available(), ALL);
	end();
}

static void long_turn_ends_after_one_packet(void **state)
{
	begin_alone();
	fake_loop.turn_over = true;
	for (unsigned int i = 0; i < 3; i++)
		link_send(l, make(2, i, 100));
	for (unsigned int i = 1; i <= 3; i++) {
		fake_turn();
		assert_int_equal(got_count, i);
	}
	end();
}

static void new_packet_is_zeroed(void **state)
{
	struct packet *p;

	begin_alone();
	p = link_packet(l);
	memset(&p->dlid, 0xff, sizeof(*p) - offsetof(struct packet, dlid));
	link_packet_free(l, p);
	p = link_packet(l);
	for (const u8 *b = (u8 *)&p->dlid; b < p->payload; b++)
		assert_int_equal(*b, 0);
	link_packet_free(l, p);
	end();
}

static void sa_answers_a_local_request(void **state)
{
	struct packet *p;

	begin_alone();
	keep = true;
	p = make(1, 0, 256);
	p->opcode = IB_UD << 5 | IB_SEND_ONLY;
	p->pkey = 0xffff;
	p->dqpn = 1;
	p->sqpn = 1;
	p->qkey = MAD_GSI_QKEY;
	memset(p->payload, 0, 256);
	p->payload[0] = 1;
	p->payload[1] = 3;
	p->payload[2] = 2;
	p->payload[3] = MAD_GET;
	p->payload[17] = 1;			/* ClassPortInfo */
	link_send(l, p);
	assert_int_equal(got_count, 0);
	fake_turn();
	assert_int_equal(got_count, 1);
	assert_int_equal(got[0]->dlid, 2);
	assert_int_equal(got[0]->slid, 1);
	assert_int_equal(got[0]->payload[3], 0x81);
	assert_int_equal(be16_at(got[0]->payload + 4), 0);
	link_packet_free(l, got[0]);
	link_send(l, make(7, 0, 0));		/* to nobody */
	fake_turns(3);
	assert_int_equal(got_count, 1);
	assert_int_equal(available(), ALL);
	end();
}

/* Multicast comes back once, for other QPs of this device. */
static void multicast_comes_back_once(void **state)
{
	begin_alone();
	link_send(l, make(0xc000, 5, 4));
	fake_turns(3);
	assert_int_equal(got_count, 1);
	assert_int_equal(available(), ALL);
	end();
}

static unsigned int ran;
static struct packet *woken;

static void waiter_run(struct work *w)
{
	ran++;
	woken = link_packet(l);
	if (!woken)
		link_wait(l, w);
}

static void freed_packet_wakes_a_waiter(void **state)
{
	static struct packet *p[LINK_PACKETS];
	struct work w[2];
	unsigned int n = 0;

	begin_alone();
	for (int i = 0; i < 2; i++)
		work_init(&w[i], waiter_run);
	while ((p[n] = link_packet(l)))
		n++;
	assert_int_equal(n, ALL);
	ran = 0;
	link_wait(l, &w[0]);
	link_wait(l, &w[0]);
	link_wait(l, &w[1]);
	fake_turns(3);
	assert_int_equal(ran, 0);
	/* One packet: one of the two gets it, and the other waits again. */
	link_packet_free(l, p[--n]);
	fake_turns(4);
	assert_int_equal(ran, 2);
	assert_null(woken);
	link_packet_free(l, p[--n]);
	fake_turns(4);
	assert_int_equal(ran, 3);
	assert_non_null(woken);
	/* One that waits and is stopped is not run. */
	link_wait(l, &w[0]);
	work_stop(&w[0]);
	link_packet_free(l, p[--n]);
	fake_turns(4);
	assert_int_equal(ran, 3);
	/* With packets at hand it does not wait for one to be freed. */
	link_wait(l, &w[0]);
	fake_turns(4);
	assert_int_equal(ran, 4);
	end();
}

static void reset_drops_queued_packets(void **state)
{
	begin_alone();
	for (int i = 0; i < 10; i++)
		link_send(l, make(2, i, 0));
	link_reset(l);
	fake_turns(3);
	assert_int_equal(got_count, 0);
	assert_int_equal(available(), ALL);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_packets_come_back_in_order),
		cmocka_unit_test(long_turn_ends_after_one_packet),
		cmocka_unit_test(new_packet_is_zeroed),
		cmocka_unit_test(sa_answers_a_local_request),
		cmocka_unit_test(multicast_comes_back_once),
		cmocka_unit_test(freed_packet_wakes_a_waiter),
		cmocka_unit_test(reset_drops_queued_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
