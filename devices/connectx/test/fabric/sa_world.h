/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The subnet administrator on a fake switch, for its tests: a request, and its answer. */
#ifndef CONNECTX_TEST_SA_WORLD_H
#define CONNECTX_TEST_SA_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "fake_loop.h"
#include "mad.h"
#include "packet.h"
#include "sa.h"
#include "switch.h"

#pragma GCC diagnostic ignored "-Wunused-function"

#define GUID(lid) (0x0002c90300000100ull + (lid))

/* A fake switch: ports 2 to LAST, and who is member of what. */
static uint16_t last;
static uint64_t member[SWITCH_MLIDS];

uint64_t switch_guid(const struct ib_switch *s, uint16_t lid)
{
	return lid == 1 ? SWITCH_SM_GUID : lid >= 2 && lid <= last ? GUID(lid) : 0;
}

void switch_member(struct ib_switch *s, uint16_t mlid, uint16_t lid, bool is)
{
	assert_in_range(mlid, 0xc000, 0xc000 + SWITCH_MLIDS - 1);
	assert_in_range(lid, 2, 65);
	if (is)
		member[mlid - 0xc000] |= 1ull << lid % 64;
	else
		member[mlid - 0xc000] &= ~(1ull << lid % 64);
}

static bool is_member(uint16_t mlid, uint16_t lid)
{
	return member[mlid - 0xc000] >> lid % 64 & 1;
}

static struct sa *sa;
static struct packet request, answer;
static const u8 broadcast[16] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0,
				  0xff, 0xff, 0xff, 0xff };

static int start(void **state)
{
	fake_reset();
	memset(member, 0, sizeof(member));
	last = 4;
	sa = sa_new(NULL, &fake_loop);
	return !sa;
}

static int stop(void **state)
{
	sa_free(sa);
	return 0;
}

static u8 *record(void)
{
	return request.payload + MAD_DATA;
}

static void gid(u8 *to, uint64_t guid)
{
	put_be64(to, 0xfe80000000000000);
	put_be64(to + 8, guid);
}

/* A new request; the test fills the record. */
static u8 *ask(uint16_t lid, u8 method, uint16_t attr, uint64_t mask)
{
	memset(&request, 0, sizeof(request));
	request.dlid = 1;
	request.slid = lid;
	request.opcode = 0x64;
	request.pkey = 0xffff;
	request.dqpn = 1;
	request.sqpn = 1;
	request.qkey = 0x80010000;
	request.length = 256;
	request.payload[0] = 1;
	request.payload[1] = 3;
	request.payload[2] = 2;
	request.payload[3] = method;
	put_be64(request.payload + 8, 0x1122334455667788);
	put_be16(request.payload + 16, attr);
	put_be32(request.payload + 20, 0x01020304);
	put_be64(request.payload + 48, mask);
	return record();
}

/* The answer's status; its fixed parts are checked here. */
static uint16_t get(void)
{
	const u8 *mad = answer.payload, *asked = request.payload;

	memset(&answer, 0xee, sizeof(answer));
	assert_true(sa_receive(sa, &request, &answer));
	assert_int_equal(answer.opcode, 0x64);
	assert_int_equal(answer.slid, 1);
	assert_int_equal(answer.dlid, request.slid);
	assert_int_equal(answer.dqpn, request.sqpn);
	assert_int_equal(answer.sqpn, 1);
	assert_int_equal(answer.qkey, 0x80010000);
	assert_int_equal(answer.pkey, 0xffff);
	assert_int_equal(answer.length, 256);
	assert_int_equal(answer.ack_request, 0);
	assert_memory_equal(mad, asked, 3);
	/* The answer to Set is GetResp. */
	assert_int_equal(mad[3], asked[3] == MAD_SET ? 0x81 : asked[3] | 0x80);
	assert_int_equal(be16_at(mad + 6), 0);
	assert_memory_equal(mad + 8, asked + 8, 16);	/* TID, attribute, modifier */
	assert_memory_equal(mad + 48, asked + 48, 8);
	return be16_at(mad + 4);
}

static const u8 *result(void)
{
	return answer.payload + MAD_DATA;
}

/* What Linux makes of an answer: the method of the request, and the other fields of RMPP. */
static bool rmpp(u8 type, uint32_t segment, uint32_t window)
{
	request.payload[24] = 1;
	request.payload[25] = type;
	request.payload[26] = 1;
	put_be32(request.payload + 28, segment);
	put_be32(request.payload + 32, window);
	return sa_receive(sa, &request, &answer);
}

#endif
