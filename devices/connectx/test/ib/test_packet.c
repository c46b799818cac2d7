// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Packets on the wire: each opcode there and back, headers byte by byte, both CRCs against
 * bitwise ones of this file, every truncation and every flipped bit, PSN arithmetic.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "packet.h"
#include <errno.h>
#include <stdlib.h>

/* The definition of a reflected CRC, a bit at a time. */
static uint32_t bitwise_crc(uint32_t poly, uint32_t crc, const u8 *data, size_t len)
{
	for (; len--; data++) {
		crc ^= *data;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? poly : 0);
	}
	return crc;
}

static uint32_t bitwise_icrc(const u8 *masked, size_t len)
{
	return ~bitwise_crc(0xedb88320, 0xffffffff, masked, len);
}

static uint16_t bitwise_vcrc(const u8 *data, size_t len)
{
	return ~bitwise_crc(0xd008, 0xffff, data, len);
}

static uint32_t le32(const u8 *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

/*
 * A CNP that a ConnectX-4 Lx sent (scapy's test of RoCE): a published ICRC.  Behind UDP a
 * packet counts as a global one, whose LRH is ones.  It is not for packet_parse(), but
 * shows that the ICRC of this file is that of the hardware.
 */
static void bitwise_icrc_matches_a_published_packet(void **state)
{
	static const u8 masked[] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,			/* LRH */
		0x45, 0xff, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0xff, 0x11,	/* IP */
		0xff, 0xff, 0x0a, 0x00, 0x11, 0x01, 0x0a, 0x00, 0x12, 0x01,
		0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0xff, 0xff,			/* UDP */
		0x81, 0x00, 0xff, 0xff, 0xff, 0x00, 0x01, 0x18, 0, 0, 0, 0,	/* BTH */
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	};
	static const u8 icrc[] = { 0x82, 0xfd, 0x00, 0x2a };

	assert_int_equal(bitwise_icrc(masked, sizeof(masked)), le32(icrc));
}

/* Each length, from any address: what is done in large steps, and what is left of it. */
static void vcrc_matches_the_bitwise_one(void **state)
{
	u8 data[5000];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = random();
	for (size_t len = 0; len < 700; len++)
		assert_int_equal(packet_vcrc(data + len % 16, len),
				 bitwise_vcrc(data + len % 16, len));
	for (size_t len = 4000; len < sizeof(data); len += 97)
		assert_int_equal(packet_vcrc(data, len), bitwise_vcrc(data, len));
	memset(data, 0, sizeof(data));
	assert_int_equal(packet_vcrc(data, 4096), bitwise_vcrc(data, 4096));
}

static void check_crcs(const u8 *wire, size_t len, bool global)
{
	u8 masked[PACKET_WIRE_MAX];
	size_t bth = global ? 48 : 8;

	memcpy(masked, wire, len);
	if (global) {
		memset(masked, 0xff, 8);
		masked[8] = 0x6f;
		memset(masked + 9, 0xff, 3);
		masked[15] = 0xff;
	} else {
		masked[0] |= 0xf0;
	}
	masked[bth + 4] = 0xff;
	assert_int_equal(le32(wire + len - 6), bitwise_icrc(masked, len - 6));
	assert_int_equal(wire[len - 2] | wire[len - 1] << 8, bitwise_vcrc(wire, len - 2));
}

/* Each field has a value of its own. */
static void fill(struct packet *p, u8 opcode, bool global, uint32_t length)
{
	uint32_t op = packet_op(opcode);

	memset(p, 0, sizeof(*p));
	p->dlid = 0x1234;
	p->slid = 0x0567;
	p->sl = 0xa;
	p->vl = 0x3;
	p->global = global;
	if (global) {
		p->tclass = 0xc1;
		p->flow_label = 0xabcde;
		p->hop_limit = 0x40;
		for (int i = 0; i < 16; i++) {
			p->sgid[i] = 0x10 + i;
			p->dgid[i] = 0xe0 + i;
		}
	}
	p->opcode = opcode;
	p->solicited = true;
	p->ack_request = true;
	p->pkey = 0x8765;
	p->dqpn = 0xabcdef;
	p->psn = 0x987654;
	if (op & OP_XRC)
		p->srqn = 0x13579b;
	if (op & OP_DETH) {
		p->qkey = 0x80010000;
		p->sqpn = 0x2468ac;
	}
	if (op & OP_DC) {
		p->dc_key = 0xa1a2a3a4a5a6a7a8;
		p->sqpn = 0x112233;
		p->dc_first = 0x445566;
		p->dc_connection = 0xb1b2b3b4b5b6b7b8;
	}
	if (op & (OP_RETH | OP_ATOMIC)) {
		p->va = 0x0123456789abcdef;
		p->rkey = 0xfeedbeef;
	}
	if (op & OP_RETH)
		p->dma_length = 0x7fff1234;
	if (op & OP_ATOMIC) {
		p->swap = 0x1111222233334444;
		p->compare = 0x5555666677778888;
	}
	if (op & OP_MASKED) {
		p->swap_mask = 0xff00ff00ff00ff00;
		p->compare_mask = 0x00ff00ff00ff00fe;
	}
	if (op & OP_AETH) {
		p->syndrome = AETH_NAK | NAK_REMOTE_ACCESS;
		p->msn = 0x314159;
	}
	if (op & OP_ATOMIC_ACK)
		p->original = 0x9999aaaabbbbcccc;
	if (op & OP_IMM)
		p->imm = 0xcafef00d;
	if (op & OP_INV)
		p->imm = 0xdeadd00d;
	if (op & OP_PAYLOAD) {
		p->length = length;
		for (uint32_t i = 0; i < length; i++)
			p->payload[i] = i * 7 + 1;
	}
}

static void each_opcode_survives_write_and_parse(void **state)
{
	static const uint32_t lengths[] = { 0, 1, 2, 3, 4, 5, 255, 256, 1023, 4095, 4096 };
	static struct packet in, out;
	u8 wire[PACKET_WIRE_MAX];
	unsigned int known = 0;
	const char *why;

	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		if (!packet_op(opcode))
			continue;
		known++;
		for (unsigned int i = 0; i < 2 * sizeof(lengths) / sizeof(*lengths); i++) {
			size_t len;

			fill(&in, opcode, i & 1, lengths[i / 2]);
			len = packet_write(&in, wire);
			assert_int_equal(len, packet_size(&in));
			assert_true(len <= PACKET_WIRE_MAX);
			check_crcs(wire, len, in.global);
			memset(&out, 0xee, sizeof(out));
			assert_int_equal(packet_parse(&out, wire, len, &why), 0);
			assert_memory_equal(&in.dlid, &out.dlid,
					    offsetof(struct packet, payload) -
					    offsetof(struct packet, dlid));
			assert_memory_equal(in.payload, out.payload, in.length);
		}
	}
	/* RC and XRC 25 each, DC 26, UC 12, UD 2 */
	assert_int_equal(known, 90);
}

static void rc_headers_match_byte_by_byte(void **state)
{
	static const u8 head[] = {
		0x30, 0xa2, 0x12, 0x34, 0x00, 0x0c, 0x05, 0x67,	/* LRH: 12 words */
		0x0a, 0xf0, 0x87, 0x65, 0x00, 0xab, 0xcd, 0xef, 0x80, 0x98, 0x76, 0x54,
		0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,	/* RETH */
		0xfe, 0xed, 0xbe, 0xef, 0x7f, 0xff, 0x12, 0x34,
		1, 8, 15, 22, 29, 0, 0, 0,			/* payload 5, pad 3 */
	};
	static struct packet p;
	u8 wire[PACKET_WIRE_MAX];

	fill(&p, IB_WRITE_ONLY, false, 5);
	assert_int_equal(packet_write(&p, wire), sizeof(head) + 6);
	assert_memory_equal(wire, head, sizeof(head));
}

/* The layout that packet.c describes: DCETH before all other extended headers. */
static void dc_headers_match_byte_by_byte(void **state)
{
	static const u8 head[] = {
		0xca, 0xf0, 0x87, 0x65, 0x00, 0xab, 0xcd, 0xef, 0x80, 0x98, 0x76, 0x54,
		0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,	/* DCETH: key */
		0x00, 0x11, 0x22, 0x33, 0x00, 0x44, 0x55, 0x66,	/* QP, first PSN */
		0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8,	/* connection */
		0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,	/* RETH */
	};
	static struct packet p;
	u8 wire[PACKET_WIRE_MAX];

	fill(&p, IB_DC << 5 | IB_WRITE_ONLY, false, 5);
	assert_int_equal(packet_write(&p, wire), 8 + 12 + 24 + 16 + 8 + 6);
	assert_memory_equal(wire + 8, head, sizeof(head));
	fill(&p, IB_DC << 5 | IB_DC_CLOSE, false, 5);
	assert_int_equal(packet_write(&p, wire), 8 + 12 + 24 + 6);
	fill(&p, IB_DC << 5 | IB_ACK, false, 0);
	assert_int_equal(packet_write(&p, wire), 8 + 12 + 4 + 6);
	/* The longest packet that there is. */
	fill(&p, IB_DC << 5 | IB_WRITE_ONLY_IMM, true, PACKET_MTU);
	assert_int_equal(packet_write(&p, wire), PACKET_WIRE_MAX);
}

static void grh_matches_byte_by_byte(void **state)
{
	static const u8 grh[] = {
		0x6c, 0x1a, 0xbc, 0xde, 0x00, 0x18, 0x1b, 0x40,	/* 12 + 8 + 4 bytes follow */
		0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c,
		0x1d, 0x1e, 0x1f, 0xe0, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9,
		0xea, 0xeb, 0xec, 0xed, 0xee, 0xef,
	};
	static struct packet p;
	u8 wire[PACKET_WIRE_MAX];

	fill(&p, IB_UD << 5 | IB_SEND_ONLY, true, 0);
	assert_int_equal(packet_write(&p, wire), 8 + 40 + 12 + 8 + 6);
	assert_int_equal(wire[1] & 3, 3);
	assert_memory_equal(wire + 8, grh, sizeof(grh));
}

static void opcodes_have_their_properties(void **state)
{
	static const struct {
		u8 opcode;
		uint32_t op;
	} table[] = {
		{ 0x00, OP_VALID | OP_REQUEST | OP_FIRST | OP_RECV | OP_PAYLOAD },
		{ 0x06, OP_VALID | OP_REQUEST | OP_FIRST | OP_RETH | OP_PAYLOAD },
		{ 0x09, OP_VALID | OP_REQUEST | OP_LAST | OP_IMM | OP_RECV | OP_PAYLOAD },
		{ 0x0c, OP_VALID | OP_REQUEST | OP_ONLY | OP_RETH },
		{ 0x0e, OP_VALID | OP_MIDDLE | OP_PAYLOAD },
		{ 0x11, OP_VALID | OP_ONLY | OP_AETH },
		{ 0x13, OP_VALID | OP_REQUEST | OP_ONLY | OP_ATOMIC },
		{ 0x17, OP_VALID | OP_REQUEST | OP_ONLY | OP_INV | OP_RECV | OP_PAYLOAD },
		{ 0x1e, OP_VALID | OP_REQUEST | OP_ONLY | OP_ATOMIC | OP_MASKED },
		{ 0x24, OP_VALID | OP_REQUEST | OP_ONLY | OP_RECV | OP_PAYLOAD },
		{ 0x64, OP_VALID | OP_REQUEST | OP_ONLY | OP_DETH | OP_RECV | OP_PAYLOAD },
		{ 0xa6, OP_VALID | OP_REQUEST | OP_FIRST | OP_RETH | OP_XRC | OP_PAYLOAD },
		{ 0xb1, OP_VALID | OP_ONLY | OP_AETH },
		{ 0xc6, OP_VALID | OP_REQUEST | OP_FIRST | OP_RETH | OP_DC | OP_PAYLOAD },
		{ 0xd1, OP_VALID | OP_ONLY | OP_AETH },
		{ 0xd8, OP_VALID | OP_REQUEST | OP_ONLY | OP_DC },
		{ 0x15, 0 }, { 0x18, 0 }, { 0xb8, 0 }, { 0x2c, 0 }, { 0x31, 0 }, { 0x37, 0 },
		{ 0x40, 0 }, { 0x60, 0 }, { 0x81, 0 }, { 0xe0, 0 },
	};

	for (unsigned int i = 0; i < sizeof(table) / sizeof(*table); i++)
		assert_int_equal(packet_op(table[i].opcode), table[i].op);
}

/* Put right what is checked first, so that the parser gets further. */
static void seal(u8 *wire, size_t len, bool lengths)
{
	u8 masked[PACKET_WIRE_MAX];
	bool global = (wire[1] & 3) == 3;
	size_t bth = global ? 48 : 8;
	uint32_t icrc;
	uint16_t vcrc;

	if (lengths) {
		put_be16(wire + 4, (len - 2) / 4);
		if (global && len >= 50)
			put_be16(wire + 12, len - 50);
	}
	if (len < bth + 12 + 6)
		return;
	memcpy(masked, wire, len);
	if (global) {
		memset(masked, 0xff, 8);
		masked[8] |= 0x0f;
		memset(masked + 9, 0xff, 3);
		masked[15] = 0xff;
	} else {
		masked[0] |= 0xf0;
	}
	masked[bth + 4] = 0xff;
	icrc = htole32(bitwise_icrc(masked, len - 6));
	memcpy(wire + len - 6, &icrc, 4);
	vcrc = htole16(bitwise_vcrc(wire, len - 2));
	memcpy(wire + len - 2, &vcrc, 2);
}

/* In memory of exactly that size, so that ASan sees a read beyond it. */
static int parse_exactly(const u8 *wire, size_t len, bool sealed, const char **why)
{
	static struct packet p;
	u8 *copy = malloc(len ? len : 1);
	int ret;

	memcpy(copy, wire, len);
	if (sealed && len >= 8)
		seal(copy, len, true);
	ret = packet_parse(&p, copy, len, why);
	if (!ret) {
		assert_true(p.length <= PACKET_MTU);
		assert_true(packet_size(&p) <= PACKET_WIRE_MAX);
	} else {
		assert_int_equal(ret, -EBADMSG);
		assert_non_null(*why);
	}
	free(copy);
	return ret;
}

static void truncated_packet_is_ebadmsg(void **state)
{
	static struct packet p;
	u8 wire[PACKET_WIRE_MAX];
	const char *why;

	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		for (int global = 0; global < 2 && packet_op(opcode); global++) {
			size_t len, headers;

			fill(&p, opcode, global, 0);
			headers = packet_write(&p, wire);
			fill(&p, opcode, global, 21);
			len = packet_write(&p, wire);
			for (size_t cut = 0; cut < len; cut++) {
				assert_int_equal(parse_exactly(wire, cut, false, &why),
						 -EBADMSG);
				/* With good lengths and CRCs: headers have to fit. */
				if (parse_exactly(wire, cut, true, &why) == 0)
					assert_true(cut >= headers && cut % 4 == 2);
			}
		}
	}
}

static void flipped_bit_is_ebadmsg(void **state)
{
	static struct packet p;
	u8 wire[PACKET_WIRE_MAX];
	const char *why;
	size_t len;

	fill(&p, IB_XRC << 5 | IB_WRITE_ONLY_IMM, true, 37);
	len = packet_write(&p, wire);
	for (size_t bit = 0; bit < len * 8; bit++) {
		wire[bit / 8] ^= 1 << bit % 8;
		assert_int_equal(parse_exactly(wire, len, false, &why), -EBADMSG);
		/* Sealed again, it may be a packet, but nothing is read outside. */
		parse_exactly(wire, len, true, &why);
		wire[bit / 8] ^= 1 << bit % 8;
	}
	assert_int_equal(parse_exactly(wire, len, false, &why), 0);
}

static void bad_header_fields_are_ebadmsg(void **state)
{
	static const struct {
		size_t at;
		u8 value;
		const char *why;
	} table[] = {
		{ 0, 0x31, "LRH version" },
		{ 1, 0xa0, "not an IBA packet (LNH)" },
		{ 5, 0x0b, "LRH packet length" },
		{ 9, 0xf1, "BTH version" },
		{ 8, 0x15, "opcode" },
		{ 8, 0x0c, "pad or payload length" },	/* a read request with payload */
		{ 8, 0x1e, "too short for its headers" },
		{ 11, 0x66, NULL },			/* another P_Key is fine */
	};
	static struct packet p;
	u8 wire[PACKET_WIRE_MAX], copy[PACKET_WIRE_MAX];
	const char *why;
	uint16_t vcrc;
	size_t len;

	fill(&p, IB_WRITE_ONLY, false, 5);
	len = packet_write(&p, wire);
	for (unsigned int i = 0; i < sizeof(table) / sizeof(*table); i++) {
		memcpy(copy, wire, len);
		copy[table[i].at] = table[i].value;
		seal(copy, len, false);
		assert_int_equal(packet_parse(&p, copy, len, &why), table[i].why ? -EBADMSG : 0);
		if (table[i].why)
			assert_string_equal(why, table[i].why);
	}
	wire[len - 1] ^= 1;
	assert_int_equal(packet_parse(&p, wire, len, &why), -EBADMSG);
	assert_string_equal(why, "VCRC");
	memcpy(copy, wire, len);
	copy[len - 5] ^= 1;
	vcrc = htole16(bitwise_vcrc(copy, len - 2));
	memcpy(copy + len - 2, &vcrc, 2);
	assert_int_equal(packet_parse(&p, copy, len, &why), -EBADMSG);
	assert_string_equal(why, "ICRC");
}

static void bad_grh_fields_are_ebadmsg(void **state)
{
	static const struct {
		size_t at;
		u8 value;
		const char *why;
	} table[] = {
		{ 8, 0x4c, "GRH version" },
		{ 13, 0x1c, "GRH payload length" },
		{ 14, 0x11, "GRH next header" },
		{ 15, 0x01, NULL },			/* another hop limit is fine */
	};
	static struct packet p;
	u8 wire[PACKET_WIRE_MAX];
	const char *why;
	size_t len;

	for (unsigned int i = 0; i < sizeof(table) / sizeof(*table); i++) {
		fill(&p, IB_WRITE_ONLY, true, 5);
		len = packet_write(&p, wire);
		wire[table[i].at] = table[i].value;
		seal(wire, len, false);
		assert_int_equal(packet_parse(&p, wire, len, &why), table[i].why ? -EBADMSG : 0);
		if (table[i].why)
			assert_string_equal(why, table[i].why);
	}
}

/* More payload than any MTU, in a packet that has no other headers and so is short enough. */
static void too_long_packet_is_ebadmsg(void **state)
{
	static u8 wire[PACKET_WIRE_MAX];
	static struct packet p;
	const char *why;
	size_t len;

	fill(&p, IB_SEND_ONLY, false, 4096);
	len = packet_write(&p, wire) + 4;
	seal(wire, len, true);
	assert_int_equal(packet_parse(&p, wire, len, &why), -EBADMSG);
	assert_string_equal(why, "pad or payload length");
	put_be16(wire + 4, 0x7ff);
	assert_int_equal(packet_parse(&p, wire, PACKET_WIRE_MAX + 1, &why), -EBADMSG);
	assert_string_equal(why, "length");
}

/* A pad beyond the payload: one word of payload at most three. */
static void pad_beyond_the_payload_is_ebadmsg(void **state)
{
	static struct packet p;
	u8 wire[PACKET_WIRE_MAX];
	const char *why;
	size_t len;

	fill(&p, IB_SEND_ONLY, false, 0);
	len = packet_write(&p, wire);
	wire[9] |= 0x10;
	seal(wire, len, false);
	assert_int_equal(packet_parse(&p, wire, len, &why), -EBADMSG);
	assert_string_equal(why, "pad or payload length");
}

/* The virtual lane may change on the way, and the VCRC with it, but not the ICRC. */
static void changed_vl_keeps_the_icrc_valid(void **state)
{
	static struct packet p;
	u8 wire[PACKET_WIRE_MAX];
	const char *why;
	uint16_t vcrc;
	size_t len;

	fill(&p, IB_SEND_ONLY, false, 8);
	len = packet_write(&p, wire);
	wire[0] = 0x70;
	vcrc = htole16(bitwise_vcrc(wire, len - 2));
	memcpy(wire + len - 2, &vcrc, 2);
	assert_int_equal(packet_parse(&p, wire, len, &why), 0);
	assert_int_equal(p.vl, 7);
}

static void psn_difference_wraps(void **state)
{
	static const struct {
		uint32_t a, b;
		int32_t diff;
	} table[] = {
		{ 5, 3, 2 }, { 3, 5, -2 }, { 0, 0xffffff, 1 }, { 0xffffff, 0, -1 },
		{ 0x7fffff, 0, 0x7fffff }, { 0x800000, 0, -0x800000 }, { 7, 7, 0 },
		{ 0, 0x800001, 0x7fffff },
	};

	for (unsigned int i = 0; i < sizeof(table) / sizeof(*table); i++)
		assert_int_equal(psn_diff(table[i].a, table[i].b), table[i].diff);
}

static void description_names_opcode_and_headers(void **state)
{
	static struct packet p;
	char line[200], small[12];

	fill(&p, IB_WRITE_FIRST, false, 256);
	packet_describe(&p, line, sizeof(line));
	assert_string_equal(line, "RC WRITE_FIRST 1383>4660 qp 0xabcdef psn 9991764 256 bytes "
			    "va 0x123456789abcdef rkey 0xfeedbeef length 2147422772 "
			    "solicited ack?");
	packet_describe(&p, small, sizeof(small));
	assert_string_equal(small, "RC WRITE_FI");
	p.opcode = 0x81;
	packet_describe(&p, line, sizeof(line));
	assert_string_equal(line, "opcode 0x81");
	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		fill(&p, opcode, true, 1);
		packet_describe(&p, line, sizeof(line));
		assert_null(strstr(line, "(null)"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bitwise_icrc_matches_a_published_packet),
		cmocka_unit_test(vcrc_matches_the_bitwise_one),
		cmocka_unit_test(each_opcode_survives_write_and_parse),
		cmocka_unit_test(rc_headers_match_byte_by_byte),
		cmocka_unit_test(dc_headers_match_byte_by_byte),
		cmocka_unit_test(grh_matches_byte_by_byte),
		cmocka_unit_test(opcodes_have_their_properties),
		cmocka_unit_test(truncated_packet_is_ebadmsg),
		cmocka_unit_test(flipped_bit_is_ebadmsg),
		cmocka_unit_test(bad_header_fields_are_ebadmsg),
		cmocka_unit_test(bad_grh_fields_are_ebadmsg),
		cmocka_unit_test(too_long_packet_is_ebadmsg),
		cmocka_unit_test(pad_beyond_the_payload_is_ebadmsg),
		cmocka_unit_test(changed_vl_keeps_the_icrc_valid),
		cmocka_unit_test(psn_difference_wraps),
		cmocka_unit_test(description_names_opcode_and_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
