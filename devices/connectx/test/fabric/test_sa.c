// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The subnet administrator answers the queries of IPoIB, rdma_cm and the kernel's SA client; the
 * answers are compared field by field.
 */
#include "sa_world.h"

static void class_port_info_describes_the_sa(void **state)
{
	static const u8 zero[64];

	ask(2, MAD_GET, 0x01, 0);
	assert_int_equal(get(), 0);
	assert_int_equal(result()[0], 1);
	assert_int_equal(result()[1], 2);
	assert_int_equal(be16_at(result() + 2), 1 << 9);
	assert_int_equal(be32_at(result() + 4), 1 << 17 | 18);
	assert_memory_equal(result() + 8, zero, 64);
}

/* As path_rec_start() of IPoIB asks. */
static void ipoib_path_query_gets_its_path(void **state)
{
	u8 expected[64] = { 0 };
	u8 *r = ask(2, MAD_GET, 0x35, 1 << 2 | 1 << 3 | 1 << 12 | 1 << 10 | 1 << 13);

	gid(r + 8, GUID(4));
	gid(r + 24, GUID(2));
	r[49] = 1;
	put_be16(r + 50, 0xffff);
	assert_int_equal(get(), 0);
	gid(expected + 8, GUID(4));
	gid(expected + 24, GUID(2));
	put_be16(expected + 40, 4);		/* DLID */
	put_be16(expected + 42, 2);		/* SLID */
	expected[49] = 0x81;			/* reversible, one path */
	put_be16(expected + 50, 0xffff);
	expected[54] = 2 << 6 | 5;		/* exactly 4096 */
	expected[55] = 2 << 6 | 16;		/* exactly 100 Gb/s */
	expected[56] = 2 << 6 | 16;
	assert_memory_equal(result(), expected, 64);
	assert_int_equal(be16_at(answer.payload + 44), 8);
	assert_int_equal(answer.payload[24], 0);	/* no RMPP */
}

/* As cma_query_ib_route() asks, with service ID and traffic class. */
static void rdma_cm_path_query_gets_its_path(void **state)
{
	u8 *r = ask(3, MAD_GET, 0x35, 3 | 1 << 2 | 1 << 3 | 1 << 11 | 1 << 12 | 1 << 13 |
		    1 << 10 | 1 << 14);

	put_be64(r, 0x0000000001061234);
	gid(r + 8, GUID(3));			/* to itself */
	gid(r + 24, GUID(3));
	r[48] = 0x20;
	r[49] = 0x81;
	put_be16(r + 50, 0x7fff);
	assert_int_equal(get(), 0);
	assert_int_equal(be64_at(result()), 0x0000000001061234);
	assert_int_equal(be16_at(result() + 40), 3);
	assert_int_equal(be16_at(result() + 42), 3);
	assert_int_equal(result()[48], 0x20);
	assert_int_equal(be16_at(result() + 50), 0xffff);
}

static void path_selectors_choose_mtu_and_rate(void **state)
{
	static const struct {
		uint16_t slid, dlid, status;
		uint64_t mask;
		u8 mtu, rate, life, got_mtu, got_rate;
	} table[] = {
		{ 2, 3, 0, 0, 0, 0, 0, 5, 16 },
		{ 2, 1, 0, 0, 0, 0, 0, 5, 16 },				/* to the SM */
		{ 2, 5, SA_NO_RECORDS, 0, 0, 0, 0, 0, 0 },
		{ 2, 0, SA_NO_RECORDS, 0, 0, 0, 0, 0, 0 },
		{ 2, 3, 0, 3 << 16, 2 << 6 | 4, 0, 0, 4, 16 },		/* exactly 2048 */
		{ 2, 3, 0, 3 << 16, 1 << 6 | 4, 0, 0, 3, 16 },		/* less */
		{ 2, 3, 0, 3 << 16, 0 << 6 | 4, 0, 0, 5, 16 },		/* greater */
		{ 2, 3, 0, 3 << 16, 3 << 6 | 1, 0, 0, 5, 16 },		/* the best */
		{ 2, 3, SA_NO_RECORDS, 3 << 16, 0 << 6 | 5, 0, 0, 0, 0 },
		{ 2, 3, SA_NO_RECORDS, 3 << 16, 2 << 6 | 9, 0, 0, 0, 0 },
		{ 2, 3, 0, 1 << 17, 0 << 6 | 5, 0, 0, 5, 16 },		/* no selector */
		{ 2, 3, 0, 3 << 18, 0, 2 << 6 | 3, 0, 5, 3 },		/* exactly 10 Gb/s */
		{ 2, 3, 0, 3 << 18, 0, 1 << 6 | 3, 0, 5, 5 },		/* less: 5 */
		{ 2, 3, 0, 3 << 18, 0, 0 << 6 | 9, 0, 5, 16 },
		{ 2, 3, SA_NO_RECORDS, 3 << 18, 0, 0 << 6 | 16, 0, 0, 0 },
		{ 2, 3, 0, 3 << 20, 0, 0, 1 << 6 | 17, 5, 16 },
		{ 2, 3, SA_NO_RECORDS, 3 << 20, 0, 0, 1 << 6 | 16, 0, 0 },
	};
	u8 *r;

	for (unsigned int i = 0; i < sizeof(table) / sizeof(*table); i++) {
		r = ask(2, MAD_GET, 0x35, table[i].mask | 1 << 4 | 1 << 5);
		put_be16(r + 40, table[i].dlid);
		put_be16(r + 42, table[i].slid);
		r[54] = table[i].mtu;
		r[55] = table[i].rate;
		r[56] = table[i].life;
		assert_int_equal(get(), table[i].status);
		assert_int_equal(result()[54] & 0x3f, table[i].got_mtu);
		assert_int_equal(result()[55] & 0x3f, table[i].got_rate);
	}
	/* Another prefix is another subnet; another partition has no paths. */
	r = ask(2, MAD_GET, 0x35, 1 << 2 | 1 << 3);
	gid(r + 8, GUID(3));
	gid(r + 24, GUID(2));
	r[15] ^= 1;
	assert_int_equal(get(), SA_NO_RECORDS);
	r[15] ^= 1;
	assert_int_equal(get(), 0);
	put_be64(request.payload + 48, 1 << 2 | 1 << 3 | 1 << 13);
	put_be16(r + 50, 0x8001);
	assert_int_equal(get(), SA_NO_RECORDS);
	/* Get gives one record, never several. */
	ask(2, MAD_GET, 0x35, 0);
	assert_int_equal(get(), SA_TOO_MANY_RECORDS);
	assert_int_equal(be64_at(result() + 8), 0);
}

static void path_table_lists_all_paths(void **state)
{
	u8 *r;

	last = 3;				/* with the SM, three paths from LID 2 */
	r = ask(2, MAD_GET_TABLE, 0x35, 1 << 3);
	gid(r + 24, GUID(2));
	assert_int_equal(get(), 0);
	assert_int_equal(answer.payload[24], 1);	/* RMPP version, data, whole */
	assert_int_equal(answer.payload[25], 1);
	assert_int_equal(answer.payload[26], 7);
	assert_int_equal(be32_at(answer.payload + 28), 1);
	assert_int_equal(be32_at(answer.payload + 32), 20 + 3 * 64);
	assert_int_equal(be16_at(answer.payload + 44), 8);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(be16_at(result() + i * 64 + 40), 1 + i);
		assert_int_equal(be16_at(result() + i * 64 + 42), 2);
	}
	assert_false(sa_next(sa, &answer));
	/* An empty table is no error; one beyond 64 KiB is. */
	gid(r + 24, GUID(9));
	assert_int_equal(get(), 0);
	assert_int_equal(be32_at(answer.payload + 32), 20);
	last = 65;
	ask(2, MAD_GET_TABLE, 0x35, 0);
	assert_int_equal(get(), SA_NO_RESOURCES);
	assert_int_equal(answer.payload[26], 7);
	assert_int_equal(be32_at(answer.payload + 32), 20);
	assert_false(sa_next(sa, &answer));
}

static u8 *member_ask(uint16_t lid, u8 method, const u8 *mgid, u8 states, uint64_t more)
{
	u8 *r = ask(lid, method, 0x38, 1 | 1 << 1 | 1 << 16 | more);

	memcpy(r, mgid, 16);
	gid(r + 16, GUID(lid));
	r[48] = states;
	return r;
}

/* As ipoib_mcast_join() does. */
static void port_joins_and_leaves_the_broadcast_group(void **state)
{
	u8 expected[56] = { 0 };
	u8 *r = member_ask(2, MAD_SET, broadcast, 1, 1 << 7);

	put_be16(r + 40, 0xffff);
	assert_int_equal(get(), 0);
	memcpy(expected, broadcast, 16);
	gid(expected + 16, GUID(2));
	put_be32(expected + 32, 0x0b1b);
	put_be16(expected + 36, 0xc000);
	expected[38] = 2 << 6 | 4;		/* exactly 2048 */
	put_be16(expected + 40, 0xffff);
	expected[42] = 2 << 6 | 3;		/* exactly 10 Gb/s */
	expected[43] = 2 << 6 | 16;
	expected[48] = 2 << 4 | 1;		/* link-local, full member */
	assert_memory_equal(result(), expected, 56);
	assert_true(is_member(0xc000, 2));
	assert_false(is_member(0xc000, 3));

	/* As send_leave() does; the group stays. */
	member_ask(2, MAD_DELETE, broadcast, 1, 0);
	assert_int_equal(get(), 0);
	assert_false(is_member(0xc000, 2));
	assert_int_equal(get(), SA_REQ_INVALID);
	r = member_ask(3, MAD_SET, broadcast, 1, 0);
	assert_int_equal(get(), 0);
}

#define IPOIB_CREATE (1 << 2 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 12 | \
		      1 << 13 | 1 << 14)

/* IPoIB's other groups: the components of the broadcast group. */
static u8 *ipoib_ask(uint16_t lid, const u8 *mgid, u8 states)
{
	u8 *r = member_ask(lid, MAD_SET, mgid, states, IPOIB_CREATE);

	put_be32(r + 32, 0x0b1b);
	r[38] = 2 << 6 | 4;
	put_be16(r + 40, 0xffff);
	r[42] = 2 << 6 | 3;
	return r;
}

static void group_lives_until_its_last_full_member(void **state)
{
	u8 mgid[16] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, [15] = 1 };

	/* Nobody joins as a non-member what does not exist. */
	ipoib_ask(2, mgid, 4);
	assert_int_equal(get(), SA_REQ_INVALID);
	member_ask(2, MAD_SET, mgid, 1, 1 << 7);
	put_be16(record() + 40, 0xffff);
	assert_int_equal(get(), SA_INSUFFICIENT_COMPONENTS);

	ipoib_ask(2, mgid, 1);
	assert_int_equal(get(), 0);
	assert_int_equal(be16_at(result() + 36), 0xc001);
	assert_int_equal(result()[38], 2 << 6 | 4);
	assert_int_equal(result()[42], 2 << 6 | 3);
	assert_int_equal(result()[48], 0x21);

	/* A sender that is a full member gets no packets, a non-member does. */
	ipoib_ask(3, mgid, 8);
	assert_int_equal(get(), 0);
	assert_int_equal(be16_at(result() + 36), 0xc001);
	assert_int_equal(result()[48], 0x28);
	assert_false(is_member(0xc001, 3));
	ipoib_ask(4, mgid, 2);
	assert_int_equal(get(), 0);
	assert_true(is_member(0xc001, 4));
	ipoib_ask(3, mgid, 1);
	assert_int_equal(get(), 0);
	assert_int_equal(result()[48], 0x29);
	assert_true(is_member(0xc001, 3));

	/* It goes with the last full member, whatever others are there. */
	member_ask(3, MAD_DELETE, mgid, 1, 0);
	assert_int_equal(get(), 0);
	assert_false(is_member(0xc001, 3));
	member_ask(2, MAD_DELETE, mgid, 1, 0);
	assert_int_equal(get(), 0);
	member_ask(3, MAD_DELETE, mgid, 2, 0);
	assert_int_equal(get(), SA_REQ_INVALID);
	assert_true(is_member(0xc001, 4));
	member_ask(3, MAD_DELETE, mgid, 8, 0);
	assert_int_equal(get(), 0);
	assert_false(is_member(0xc001, 4));
	member_ask(4, MAD_DELETE, mgid, 2, 0);
	assert_int_equal(get(), SA_REQ_INVALID);

	/* A port that leaves the fabric leaves its groups. */
	ipoib_ask(2, mgid, 1);
	assert_int_equal(get(), 0);
	sa_port_gone(sa, 2);
	assert_false(is_member(0xc001, 2));
	ask(2, MAD_GET, 0x38, 1);
	memcpy(record(), mgid, 16);
	assert_int_equal(get(), SA_NO_RECORDS);
}

static void join_must_match_the_group(void **state)
{
	static const struct {
		size_t at;
		u8 value;
		uint16_t status;
	} table[] = {
		{ 33, 1, SA_REQ_INVALID },		/* Q_Key */
		{ 38, 2 << 6 | 5, SA_REQ_INVALID },	/* MTU */
		{ 38, 1 << 6 | 5, 0 },			/* less than 4096 */
		{ 39, 1, SA_REQ_INVALID },		/* traffic class */
		{ 40, 0x12, SA_REQ_INVALID },		/* P_Key */
		{ 40, 0x7f, 0 },			/* limited, same partition */
		{ 42, 2 << 6 | 16, SA_REQ_INVALID },	/* rate */
		{ 44, 0x10, SA_REQ_INVALID },		/* service level */
		{ 46, 1, SA_REQ_INVALID },		/* flow label */
		{ 47, 9, 0 },				/* hop limit */
	};

	for (unsigned int i = 0; i < sizeof(table) / sizeof(*table); i++) {
		ipoib_ask(3, broadcast, 1)[table[i].at] = table[i].value;
		assert_int_equal(get(), table[i].status);
	}
	/* For oneself only, with a join state, and as a whole. */
	gid(ipoib_ask(3, broadcast, 1) + 16, GUID(2));
	assert_int_equal(get(), SA_REQ_DENIED);
	ipoib_ask(3, broadcast, 0);
	assert_int_equal(get(), SA_REQ_INVALID);
	ipoib_ask(3, broadcast, 1);
	put_be64(request.payload + 48, 1 | 1 << 1);
	assert_int_equal(get(), SA_INSUFFICIENT_COMPONENTS);
	gid(member_ask(3, MAD_DELETE, broadcast, 1, 0) + 16, GUID(2));
	assert_int_equal(get(), SA_REQ_DENIED);
	ipoib_ask(3, (const u8 *)"\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 1);
	assert_int_equal(get(), SA_INVALID_GID);
}

/* rdma_cm with the wildcard address: the administrator chooses the MGID. */
static void sa_chooses_an_mgid_for_the_wildcard(void **state)
{
	static const u8 zero[16];
	u8 first[16];
	u8 *r;

	for (int i = 0; i < 2; i++) {
		r = member_ask(2, MAD_SET, zero, 1, 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13);
		put_be32(r + 32, 0x01234567);
		put_be16(r + 40, 0xffff);
		assert_int_equal(get(), 0);
		assert_int_equal(result()[0], 0xff);
		assert_int_equal(be16_at(result() + 36), 0xc001 + i);
		assert_int_equal(be32_at(result() + 32), 0x01234567);
		assert_int_equal(result()[38], 2 << 6 | 5);
		assert_int_equal(result()[42], 2 << 6 | 16);
		if (i)
			assert_memory_not_equal(result(), first, 16);
		memcpy(first, result(), 16);
	}
}

static void member_query_finds_groups(void **state)
{
	u8 mgid[16] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, [15] = 1 };
	static const u8 zero[16];

	ask(4, MAD_GET, 0x38, 1);
	memcpy(record(), broadcast, 16);
	assert_int_equal(get(), 0);
	assert_memory_equal(result(), broadcast, 16);
	assert_memory_equal(result() + 16, zero, 16);
	assert_int_equal(be32_at(result() + 32), 0x0b1b);
	ipoib_ask(2, mgid, 1);
	assert_int_equal(get(), 0);
	ask(4, MAD_GET, 0x38, 1 << 3);
	put_be16(record() + 36, 0xc001);
	assert_int_equal(get(), 0);
	assert_memory_equal(result(), mgid, 16);
	ask(4, MAD_GET_TABLE, 0x38, 0);
	assert_int_equal(get(), 0);
	assert_int_equal(be32_at(answer.payload + 32), 20 + 2 * 56);
	assert_int_equal(be16_at(answer.payload + 44), 7);
	assert_memory_equal(result() + 56, mgid, 16);
}

#define QUOTA (SWITCH_MLIDS / SWITCH_PORTS - 1)

/* A port that creates all groups that it may leaves room for the others. */
static void group_quota_leaves_room_for_others(void **state)
{
	u8 mgid[16] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff };
	uint16_t status;
	unsigned int n;

	last = 65;
	for (uint16_t lid = 2; lid <= 65; lid++) {
		mgid[7] = lid;
		for (n = 0; n < 1000; n++) {
			put_be16(mgid + 14, n);
			ipoib_ask(lid, mgid, 1);
			status = get();
			if (status)
				break;
		}
		assert_int_equal(status, SA_NO_RESOURCES);
		assert_int_equal(n, QUOTA);
	}
	sa_port_gone(sa, 40);
	ipoib_ask(40, mgid, 1);
	assert_int_equal(get(), 0);
}

static const u8 *group_id(unsigned int n)
{
	static u8 mgid[16] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff };

	put_be16(mgid + 14, n);
	return mgid;
}

/* The status of a join, or creation, of group number N. */
static uint16_t join(uint16_t lid, unsigned int n)
{
	ipoib_ask(lid, group_id(n), 1);
	return get();
}

/* A group counts for a member of it, and not for who gets the LID of who left. */
static void quota_of_a_left_port_moves_to_a_member(void **state)
{
	uint16_t mlid;

	for (unsigned int n = 0; n < QUOTA; n++) {
		assert_int_equal(join(2, n), 0);
		assert_int_equal(join(3, n), 0);
	}
	sa_port_gone(sa, 2);
	assert_true(is_member(0xc001, 3));
	assert_int_equal(join(3, 1000), SA_NO_RESOURCES);
	for (unsigned int n = 100; n < 100 + QUOTA; n++)
		assert_int_equal(join(2, n), 0);
	assert_int_equal(join(2, 1000), SA_NO_RESOURCES);
	/* To leave by request is the same. */
	assert_int_equal(join(4, 100), 0);
	member_ask(2, MAD_DELETE, group_id(100), 1, 0);
	assert_int_equal(get(), 0);
	assert_int_equal(join(2, 1000), 0);
	/* A group ends if no member has room for it. */
	assert_int_equal(join(4, 200), 0);
	mlid = be16_at(result() + 36);
	assert_int_equal(join(3, 200), 0);
	assert_true(is_member(mlid, 3));
	sa_port_gone(sa, 4);
	assert_false(is_member(mlid, 3));
	assert_int_equal(join(3, 200), SA_NO_RESOURCES);
}

static void unsupported_requests_get_a_status(void **state)
{
	static const struct {
		u8 method;
		uint16_t attr, status;
	} table[] = {
		{ MAD_GET, 0x33, 0xc }, { MAD_SET, 0x11, 0xc }, { MAD_SET, 0x35, 0xc },
		{ MAD_DELETE, 0x35, 0xc }, { 0x13, 0x35, 8 }, { 0x14, 0x3a, 8 },
		{ 0x7f, 0x35, 8 }, { MAD_GET, 0xffff, 0xc }, { MAD_GET, 0x03, 0xc },
	};

	for (unsigned int i = 0; i < sizeof(table) / sizeof(*table); i++) {
		ask(2, table[i].method, table[i].attr, 0);
		assert_int_equal(get(), table[i].status);
	}
	/* An agent that is not here, of performance. */
	for (u8 method = MAD_GET; method <= MAD_SET; method++) {
		ask(2, method, 0x12, 0);
		request.payload[1] = 4;
		put_be64(request.payload + 48, 0);
		assert_int_equal(get(), 0x000c);
	}
	ask(2, MAD_GET, 0x35, 0);
	request.payload[2] = 1;
	assert_int_equal(get(), 0x0004);
}

static void inform_info_is_echoed(void **state)
{
	u8 *r = ask(2, MAD_SET, 0x03, 0);

	for (int i = 0; i < 36; i++)
		r[i] = i;
	assert_int_equal(get(), 0);
	assert_memory_equal(result(), r, 40);
}

/* What is not a request to the administrator gets no answer. */
static void non_requests_get_no_answer(void **state)
{
	static const struct {
		size_t at;		/* of the MAD */
		u8 value;
	} table[] = {
		{ 0, 2 }, { 1, 0x01 }, { 1, 0x81 }, { 3, 0x81 }, { 3, 0x92 },
		/* Send, Trap, Report, TrapRepress. */
		{ 3, 3 }, { 3, 5 }, { 3, 6 }, { 3, 7 },
	};

	for (unsigned int i = 0; i < sizeof(table) / sizeof(*table); i++) {
		ask(2, MAD_GET, 0x01, 0);
		request.payload[table[i].at] = table[i].value;
		assert_false(sa_receive(sa, &request, &answer));
	}
	ask(2, MAD_GET, 0x01, 0);
	request.qkey = 0;
	assert_false(sa_receive(sa, &request, &answer));
	ask(2, MAD_GET, 0x01, 0);
	request.dqpn = 0;
	assert_false(sa_receive(sa, &request, &answer));
	ask(2, MAD_GET, 0x01, 0);
	request.opcode = IB_SEND_ONLY;
	assert_false(sa_receive(sa, &request, &answer));
	ask(2, MAD_GET, 0x01, 0);
	request.length = 255;
	assert_false(sa_receive(sa, &request, &answer));
	ask(1, MAD_GET, 0x01, 0);
	assert_false(sa_receive(sa, &request, &answer));
	ask(9, MAD_GET, 0x01, 0);
	assert_false(sa_receive(sa, &request, &answer));
}

static void request_with_a_grh_is_answered_with_one(void **state)
{
	ask(2, MAD_GET, 0x01, 0);
	request.global = true;
	request.hop_limit = 3;
	gid(request.sgid, GUID(2));
	assert_int_equal(get(), 0);
	assert_true(answer.global);
	assert_memory_equal(answer.dgid, request.sgid, 16);
	assert_int_equal(be64_at(answer.sgid + 8), SWITCH_SM_GUID);
}

/* Anything may be asked: no crash, nothing outside (with SAN=1). */
static void random_requests_do_no_harm(void **state)
{
	static const u8 methods[] = { MAD_GET, MAD_SET, MAD_GET_TABLE, MAD_DELETE };
	static const u8 attrs[] = { 0x01, 0x03, 0x11, 0x12, 0x31, 0x35, 0x38 };

	srandom(1);
	for (int i = 0; i < 20000; i++) {
		u8 *r = ask(2 + random() % 3, methods[random() % 4], attrs[random() % 7], random());

		for (int k = 0; k < 200; k++)
			r[k] = random();
		if (random() % 2)
			memcpy(r, broadcast, 16);
		if (random() % 4)
			gid(r + 16, GUID(request.slid));
		get();
		if (rmpp(random() % 5, random() % 4, random() % 200))
			while (sa_next(sa, &answer))
				;
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, start, stop)
	const struct CMUnitTest tests[] = {
		T(class_port_info_describes_the_sa), T(ipoib_path_query_gets_its_path),
		T(rdma_cm_path_query_gets_its_path),
		T(path_selectors_choose_mtu_and_rate), T(path_table_lists_all_paths),
		T(port_joins_and_leaves_the_broadcast_group),
		T(group_lives_until_its_last_full_member), T(join_must_match_the_group),
		T(sa_chooses_an_mgid_for_the_wildcard),
		T(member_query_finds_groups), T(group_quota_leaves_room_for_others),
		T(quota_of_a_left_port_moves_to_a_member),
		T(unsupported_requests_get_a_status), T(inform_info_is_echoed),
		T(non_requests_get_no_answer),
		T(request_with_a_grh_is_answered_with_one), T(random_requests_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
