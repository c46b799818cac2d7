/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For the tests of the link: a loop that the test turns, and a user of the link that notes
 * what it gets.  It has what the link calls, so it is included once in a test.
 */
#ifndef CONNECTX_TEST_LINK_WORLD_H
#define CONNECTX_TEST_LINK_WORLD_H

#pragma GCC diagnostic ignored "-Wunused-function"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "fake_loop.h"
#include "link.h"
#include "packet.h"
#include "stats.h"

#define MY_GUID 0x0002c90300aabb01ull
#define MANY (LINK_PACKETS + 10)

static struct link *l;

/* Whose link it is. */
static struct stats stats;
static struct link_count counted;
static struct {
	uint16_t lid, sm_lid;
	u8 state;
	unsigned int calls;
} port;
static struct packet *got[MANY];
static unsigned int got_count;
static bool keep;			/* the user keeps packets instead of freeing them */
static uint32_t got_psn[MANY];

static void user_set(void *arg, uint16_t lid, uint16_t sm_lid, u8 state)
{
	port.lid = lid;
	port.sm_lid = sm_lid;
	port.state = state;
	port.calls++;
}

static void user_receive(void *arg, struct packet *p)
{
	assert_ptr_equal(arg, &port);
	assert_true(got_count < MANY);
	got[got_count] = p;
	got_psn[got_count++] = p->psn;
	if (!keep)
		link_packet_free(l, p);
}

static const struct link_user user = {
	.loop = &fake_loop, .guid = MY_GUID, .count = &counted, .stats = &stats,
	.set = user_set, .receive = user_receive, .arg = &port,
};

/* How many packets a sender can get. */
static unsigned int available(void)
{
	static struct packet *p[LINK_PACKETS];
	unsigned int n = 0;

	while ((p[n] = link_packet(l)))
		n++;
	for (unsigned int i = 0; i < n; i++)
		link_packet_free(l, p[i]);
	return n;
}

#define ALL (LINK_PACKETS - 256)

static void begin(void)
{
	fake_reset();
	memset(&port, 0, sizeof(port));
	memset(&counted, 0, sizeof(counted));
	got_count = 0;
	keep = false;
}

static void begin_alone(void)
{
	begin();
	l = link_new(&user, NULL, NULL);
	assert_non_null(l);
}

static void end(void)
{
	link_free(l);
	assert_true(list_empty(&fake_loop.works));
	assert_int_equal(fake_loop.timers, 0);
	assert_int_equal(fake_loop.watches, 0);
}

static struct packet *make(uint16_t dlid, uint32_t psn, uint32_t length)
{
	struct packet *p = link_packet(l);

	if (!p)
		return NULL;
	p->slid = port.lid;
	p->dlid = dlid;
	p->opcode = IB_SEND_ONLY;
	p->psn = psn;
	p->length = length;
	memset(p->payload, psn, length);
	return p;
}

#endif
