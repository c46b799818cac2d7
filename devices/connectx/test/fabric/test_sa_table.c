// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The subnet administrator's records of nodes, ports and services, and tables of several
 * segments.
 */
#include "sa_world.h"

#define ACK 2
#define ABORT 4

static u8 segments[21 * 200];

/* The segment that ANSWER is, of 21 with 65 paths. */
static void take_segment(uint32_t number)
{
	assert_int_equal(answer.dlid, 2);
	assert_int_equal(answer.payload[3], 0x92);
	assert_int_equal(answer.payload[25], 1);
	assert_int_equal(answer.payload[26], number == 1 ? 3 : number == 21 ? 5 : 1);
	assert_int_equal(be32_at(answer.payload + 28), number);
	assert_int_equal(be32_at(answer.payload + 32),
			 number == 1 ? 21 * 20 + 65 * 64 : number == 21 ? 20 + 160 : 0);
	assert_int_equal(be16_at(answer.payload + 44), 8);
	memcpy(segments + (number - 1) * 200, result(), 200);
}

static void long_table_comes_in_rmpp_segments(void **state)
{
	last = 65;
	gid(ask(2, MAD_GET_TABLE, 0x35, 1 << 3) + 24, GUID(2));
	memset(segments, 0, sizeof(segments));
	assert_int_equal(get(), 0);
	take_segment(1);
	assert_false(sa_next(sa, &answer));	/* the window is one segment */
	/* What is not its acknowledgement. */
	request.sqpn = 9;
	assert_false(rmpp(ACK, 1, 8));
	request.sqpn = 1;
	request.payload[15] ^= 1;
	assert_false(rmpp(ACK, 1, 8));
	request.payload[15] ^= 1;
	assert_true(rmpp(ACK, 1, 8));
	for (uint32_t i = 2; i <= 8; i++) {
		take_segment(i);
		assert_int_equal(sa_next(sa, &answer), i < 8);
	}
	/* Some were lost. */
	assert_false(rmpp(ACK, 4, 8));
	assert_true(rmpp(ACK, 4, 8));
	take_segment(5);
	while (sa_next(sa, &answer))
		;
	take_segment(8);
	assert_false(rmpp(ACK, 3, 8));
	assert_true(rmpp(ACK, 8, 1000));
	for (uint32_t i = 9; i <= 21; i++) {
		take_segment(i);
		assert_int_equal(sa_next(sa, &answer), i < 21);
	}
	assert_false(rmpp(ACK, 21, 1000));
	assert_false(rmpp(ACK, 1, 1000));	/* it is over */
	/* It was asked again, by who has a part of it. */
	gid(ask(2, MAD_GET_TABLE, 0x35, 1 << 3) + 24, GUID(2));
	assert_int_equal(get(), 0);
	take_segment(1);
	assert_true(rmpp(ACK, 19, 83));
	take_segment(20);
	assert_true(sa_next(sa, &answer));
	take_segment(21);
	assert_false(sa_next(sa, &answer));
	for (unsigned int i = 0; i < 65; i++)
		assert_int_equal(be16_at(segments + i * 64 + 40), 1 + i);
}

/* An acknowledgement looks like a request; an answer to it would be acknowledged again. */
static void ack_of_a_finished_table_gets_no_answer(void **state)
{
	static const struct { u8 type; uint32_t segment, window; } end[] = {
		{ ABORT, 0, 0 }, { 3, 0, 0 }, { ACK, 37, 40 }, { ACK, 99, 200 }, { ACK, 1, 0 },
		{ 9, 1, 1 },
	};

	ask(2, MAD_GET_TABLE, 0x38, 0);
	assert_int_equal(get(), 0);
	assert_false(rmpp(ACK, 1, 64));
	for (size_t i = 0; i < sizeof(end) / sizeof(*end); i++) {
		last = 65;
		ask(2, MAD_GET_TABLE, 0x11, 0);
		assert_int_equal(get(), 0);
		assert_false(rmpp(end[i].type, end[i].segment, end[i].window));
		assert_false(rmpp(ACK, 1, 64));
	}
	/* Two ports have one each, and who goes takes his with him. */
	for (uint16_t lid = 2; lid <= 3; lid++) {
		ask(lid, MAD_GET_TABLE, 0x11, 0);
		assert_int_equal(get(), 0);
	}
	sa_port_gone(sa, 3);
	assert_false(rmpp(ACK, 1, 64));
	request.slid = 2;
	assert_true(rmpp(ACK, 1, 64));
}

/* As saquery and ibstat's library ask. */
static void node_records_are_found_by_each_field(void **state)
{
	u8 *r;

	ask(2, MAD_GET_TABLE, 0x11, 0);
	assert_int_equal(get(), 0);
	assert_int_equal(be32_at(answer.payload + 32), 3 * 20 + 4 * 112);
	assert_int_equal(be16_at(answer.payload + 44), 14);
	r = ask(2, MAD_GET, 0x11, 1);
	put_be16(r, 3);
	assert_int_equal(get(), 0);
	assert_int_equal(be16_at(result()), 3);
	assert_int_equal(be32_at(result() + 4), 0x01010101);	/* versions, CA, one port */
	assert_int_equal(be64_at(result() + 16), GUID(3));
	assert_int_equal(be64_at(result() + 24), GUID(3));
	assert_int_equal(be16_at(result() + 34), 0x1013);
	assert_int_equal(be32_at(result() + 40), 0x010002c9);
	assert_string_equal((const char *)result() + 44, "ConnectX model");
	put_be16(r, 9);
	assert_int_equal(get(), SA_NO_RECORDS);
	/* By GUID, by type, by description, and by what nobody has. */
	put_be64(ask(2, MAD_GET, 0x11, 1 << 8) + 24, GUID(4));
	assert_int_equal(get(), 0);
	assert_int_equal(be16_at(result()), 4);
	ask(2, MAD_GET, 0x11, 1 << 4)[6] = 2;
	assert_int_equal(get(), 0);
	assert_int_equal(be16_at(result()), 1);
	strcpy((char *)ask(2, MAD_GET, 0x11, 1 << 14) + 44, "connectx-fabric");
	assert_int_equal(get(), 0);
	put_be32(ask(2, MAD_GET, 0x11, 1 << 11) + 36, 7);
	assert_int_equal(get(), SA_NO_RECORDS);
	ask(2, MAD_GET, 0x11, 0);
	assert_int_equal(get(), SA_TOO_MANY_RECORDS);
}

static void port_records_describe_the_ports(void **state)
{
	const u8 *info = result() + 4;

	put_be16(ask(2, MAD_GET, 0x12, 1 << 0), 3);
	assert_int_equal(get(), 0);
	assert_int_equal(be16_at(answer.payload + 44), 9);
	assert_int_equal(be16_at(result()), 3);
	assert_int_equal(result()[2], 1);
	assert_int_equal(be64_at(info + 8), 0xfe80000000000000);
	assert_int_equal(be16_at(info + 16), 3);
	assert_int_equal(be16_at(info + 18), 1);
	assert_int_equal(info[32] & 0xf, 4);			/* active */
	assert_int_equal(info[33] >> 4, 5);
	assert_int_equal(info[36] >> 4, 5);			/* 4096 */
	assert_int_equal(info[62] >> 4, 2);			/* EDR */
	/* The subnet manager's port, by IsSM alone; and components that are not compared. */
	put_be16(ask(2, MAD_GET, 0x12, 1 << 0), 1);
	assert_int_equal(get(), 0);
	assert_int_equal(be32_at(info + 20) & 2, 2);
	ask(2, MAD_GET_TABLE, 0x12, 1 << 1)[2] = 1;
	assert_int_equal(get(), 0);
	assert_int_equal(be32_at(answer.payload + 32), 2 * 20 + 3 * 72);
	ask(2, MAD_GET_TABLE, 0x12, 1 << 15);
	assert_int_equal(get(), SA_REQ_INVALID);
}

/* A request about the service ID of the port LID. */
static u8 *service(uint16_t lid, u8 method, uint64_t id, uint32_t lease)
{
	u8 *r = ask(lid, method, 0x31, 7 | 1 << 4 | 1 << 6);

	put_be64(r, id);
	gid(r + 8, GUID(lid));
	put_be16(r + 24, 0xffff);
	put_be32(r + 28, lease);
	strcpy((char *)r + 48, "a service");
	r[112] = lid;
	r[175] = id;
	return r;
}

static uint32_t services(uint64_t mask, size_t at, u8 value)
{
	ask(4, MAD_GET_TABLE, 0x31, mask)[at] = value;
	assert_int_equal(get(), 0);
	return (be32_at(answer.payload + 32) - 20) / 176;
}

static void service_records_live_for_their_lease(void **state)
{
	u8 *r;

	service(2, MAD_SET, 7, 0xffffffff)[32] = 9;
	assert_int_equal(get(), 0);
	assert_int_equal(be16_at(answer.payload + 44), 22);
	assert_memory_equal(result(), record(), 176);
	service(3, MAD_SET, 8, 10);
	assert_int_equal(get(), 0);
	/* Again: it is the same one. */
	service(3, MAD_SET, 8, 20);
	assert_int_equal(get(), 0);

	/* By ID, name, data; of 8 bits the first, of 64 bits the last. */
	put_be64(ask(4, MAD_GET, 0x31, 1), 7);
	assert_int_equal(get(), 0);
	assert_int_equal(result()[48], 'a');
	assert_int_equal(result()[32], 0);		/* the key is not told */
	strcpy((char *)ask(4, MAD_GET, 0x31, 1 << 6) + 48, "a service");
	assert_int_equal(get(), SA_TOO_MANY_RECORDS);
	assert_int_equal(services(0, 0, 0), 2);
	assert_int_equal(services(1 << 7, 112, 3), 1);
	assert_int_equal(services(1ull << 36, 175, 8), 1);
	assert_int_equal(services(1ull << 36, 175, 9), 0);

	/* A lease gets shorter and ends. */
	fake_loop.now += 5500000000ull;
	put_be64(ask(4, MAD_GET, 0x31, 1), 8);
	assert_int_equal(get(), 0);
	assert_int_equal(be32_at(result() + 28), 14);
	fake_loop.now += 15000000000ull;
	assert_int_equal(get(), SA_NO_RECORDS);
	assert_int_equal(services(0, 0, 0), 1);

	/* Of others nobody makes or removes one, and there is an end of them. */
	gid(service(3, MAD_SET, 9, 10) + 8, GUID(2));
	assert_int_equal(get(), SA_REQ_DENIED);
	gid(service(3, MAD_DELETE, 7, 0) + 8, GUID(2));
	assert_int_equal(get(), SA_REQ_DENIED);
	r = service(2, MAD_SET, 9, 10);
	put_be64(request.payload + 48, 3);
	assert_int_equal(get(), SA_INSUFFICIENT_COMPONENTS);
	r = service(2, MAD_SET, 9, 10);
	put_be16(r + 24, 0x8001);
	assert_int_equal(get(), SA_REQ_INVALID);
	service(2, MAD_DELETE, 8, 0);
	assert_int_equal(get(), SA_NO_RECORDS);
	service(2, MAD_DELETE, 7, 0);
	assert_int_equal(get(), 0);
	assert_int_equal(services(0, 0, 0), 0);
	for (int i = 0; i <= 16; i++) {
		service(2, MAD_SET, 100 + i, 0xffffffff);
		assert_int_equal(get(), i < 16 ? 0 : SA_NO_RESOURCES);
	}
	service(3, MAD_SET, 8, 0xffffffff);
	assert_int_equal(get(), 0);
	sa_port_gone(sa, 2);
	assert_int_equal(services(0, 0, 0), 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, start, stop)
	const struct CMUnitTest tests[] = {
		T(long_table_comes_in_rmpp_segments), T(ack_of_a_finished_table_gets_no_answer),
		T(node_records_are_found_by_each_field),
		T(port_records_describe_the_ports), T(service_records_live_for_their_lease),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
