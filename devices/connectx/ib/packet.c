// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * InfiniBand packets and their bytes on the wire (IBA volume 1: LRH 7.7, CRCs 7.8, GRH
 * 8.3, BTH and extended headers chapter 9; XRCETH annex A14).
 *
 * The VCRC covers all bytes before it.  The ICRC covers what no switch or router changes:
 * the rest counts as ones, which is the virtual lane and BTH's reserved byte in a local
 * packet, and in a global one the whole LRH and GRH's traffic class, flow label and hop
 * limit too.  Both are bit-reflected and sent least significant byte first.
 *
 * Masked atomics are not in the standard.  They have opcodes 0x1e and 0x1f here, which it
 * leaves unused: AtomicETH, then the masks, swap (or the boundary of an add) and compare.
 *
 * Nor is DC.  What NVIDIA's devices send is not public, so this layout is the model's own:
 * the operations of RC under BTH opcodes 0xc0 to 0xdf, which IBA 9.2.1 leaves to
 * manufacturers.  Each request has a DCETH of 24 bytes behind the BTH: access key (8), a
 * reserved byte and the initiator's QP number (4), a reserved byte and the first PSN of the
 * connection (4), the number of the connection (8).  Responses are those of RC.  So there is
 * no handshake: each request says all that a target needs to begin with (dct.c).  Operation
 * 0x18 is a DCETH alone, and has no response: the initiator closes its connection.
 *
 * packet_parse() checks all lengths and both CRCs before it looks at a field, so a header
 * is read only where the packet has one; what it refuses left *P in no defined state.
 */
#include "packet.h"
#include <errno.h>
#include <libdeflate.h>
#include <stdbool.h>
#include <stdio.h>

#define LRH 8
#define GRH PACKET_GRH
#define BTH 12
#define ICRC 4
#define VCRC PACKET_VCRC
#define LNH_LOCAL 2		/* a BTH follows */
#define LNH_GLOBAL 3
#define GRH_NEXT_IBA 0x1b
#define BTH_MIGRATED 0x40	/* the primary path, as no other one is ever loaded */

#define SEND (OP_REQUEST | OP_RECV | OP_PAYLOAD)
#define WRITE (OP_REQUEST | OP_PAYLOAD)
#define ATOMIC (OP_REQUEST | OP_ONLY | OP_ATOMIC)
#define DCETH 24

static const uint32_t ops[32] = {
	[IB_SEND_FIRST] = SEND | OP_FIRST,
	[IB_SEND_MIDDLE] = SEND | OP_MIDDLE,
	[IB_SEND_LAST] = SEND | OP_LAST,
	[IB_SEND_LAST_IMM] = SEND | OP_LAST | OP_IMM,
	[IB_SEND_ONLY] = SEND | OP_ONLY,
	[IB_SEND_ONLY_IMM] = SEND | OP_ONLY | OP_IMM,
	[IB_WRITE_FIRST] = WRITE | OP_FIRST | OP_RETH,
	[IB_WRITE_MIDDLE] = WRITE | OP_MIDDLE,
	[IB_WRITE_LAST] = WRITE | OP_LAST,
	[IB_WRITE_LAST_IMM] = WRITE | OP_LAST | OP_IMM | OP_RECV,
	[IB_WRITE_ONLY] = WRITE | OP_ONLY | OP_RETH,
	[IB_WRITE_ONLY_IMM] = WRITE | OP_ONLY | OP_RETH | OP_IMM | OP_RECV,
	[IB_READ_REQUEST] = OP_REQUEST | OP_ONLY | OP_RETH,
	[IB_READ_RESP_FIRST] = OP_FIRST | OP_AETH | OP_PAYLOAD,
	[IB_READ_RESP_MIDDLE] = OP_MIDDLE | OP_PAYLOAD,
	[IB_READ_RESP_LAST] = OP_LAST | OP_AETH | OP_PAYLOAD,
	[IB_READ_RESP_ONLY] = OP_ONLY | OP_AETH | OP_PAYLOAD,
	[IB_ACK] = OP_ONLY | OP_AETH,
	[IB_ATOMIC_ACK] = OP_ONLY | OP_AETH | OP_ATOMIC_ACK,
	[IB_COMPARE_SWAP] = ATOMIC,
	[IB_FETCH_ADD] = ATOMIC,
	[IB_SEND_LAST_INV] = SEND | OP_LAST | OP_INV,
	[IB_SEND_ONLY_INV] = SEND | OP_ONLY | OP_INV,
	[IB_DC_CLOSE] = OP_REQUEST | OP_ONLY,
	[IB_MASKED_COMPARE_SWAP] = ATOMIC | OP_MASKED,
	[IB_MASKED_FETCH_ADD] = ATOMIC | OP_MASKED,
};

static const char *const op_names[32] = {
	"SEND_FIRST", "SEND_MIDDLE", "SEND_LAST", "SEND_LAST_IMM", "SEND_ONLY",
	"SEND_ONLY_IMM", "WRITE_FIRST", "WRITE_MIDDLE", "WRITE_LAST", "WRITE_LAST_IMM",
	"WRITE_ONLY", "WRITE_ONLY_IMM", "READ_REQUEST", "READ_RESP_FIRST", "READ_RESP_MIDDLE",
	"READ_RESP_LAST", "READ_RESP_ONLY", "ACK", "ATOMIC_ACK", "COMPARE_SWAP", "FETCH_ADD",
	NULL, "SEND_LAST_INV", "SEND_ONLY_INV", "CLOSE", NULL, NULL, NULL, NULL, NULL,
	"MASKED_COMPARE_SWAP", "MASKED_FETCH_ADD",
};

static const char *const transport_names[8] = { "RC", "UC", "RD", "UD", "4", "XRC", "DC", "7" };

uint32_t packet_op(u8 opcode)
{
	unsigned int op = opcode & 31;
	uint32_t flags = ops[op];

	if (!flags || (op == IB_DC_CLOSE && opcode >> 5 != IB_DC))
		return 0;
	switch (opcode >> 5) {
	case IB_RC:
		break;
	case IB_XRC:
		if (flags & OP_REQUEST)
			flags |= OP_XRC;
		break;
	case IB_DC:
		if (flags & OP_REQUEST)
			flags |= OP_DC;
		break;
	case IB_UC:
		if (op > IB_WRITE_ONLY_IMM)
			return 0;
		break;
	case IB_UD:
		if (op != IB_SEND_ONLY && op != IB_SEND_ONLY_IMM)
			return 0;
		flags |= OP_DETH;
		break;
	default:
		return 0;
	}
	return flags | OP_VALID;
}

/* Bytes of the extended headers. */
static size_t extended_size(uint32_t op)
{
	return (op & OP_XRC ? 4 : 0) + (op & OP_DC ? DCETH : 0) + (op & OP_DETH ? 8 : 0) +
	       (op & OP_RETH ? 16 : 0) + (op & OP_ATOMIC ? 28 : 0) + (op & OP_MASKED ? 16 : 0) +
	       (op & OP_AETH ? 4 : 0) + (op & OP_ATOMIC_ACK ? 8 : 0) + (op & OP_IMM ? 4 : 0) +
	       (op & OP_INV ? 4 : 0);
}

size_t packet_size(const struct packet *p)
{
	uint32_t op = packet_op(p->opcode);

	return LRH + (p->global ? GRH : 0) + BTH + extended_size(op) +
	       (op & OP_PAYLOAD ? (p->length + 3) & ~3u : 0) + ICRC + VCRC;
}

/* LEN: up to the ICRC. */
static uint32_t icrc_of(const u8 *wire, size_t len, bool global)
{
	u8 head[LRH + GRH + BTH];
	size_t size = LRH + (global ? GRH : 0) + BTH;
	uint32_t crc;

	memcpy(head, wire, size);
	if (global) {
		memset(head, 0xff, LRH);
		head[LRH] |= 0x0f;		/* behind the version */
		memset(head + LRH + 1, 0xff, 3);
		head[LRH + 7] = 0xff;
	} else {
		head[0] |= 0xf0;
	}
	head[size - BTH + 4] = 0xff;
	crc = libdeflate_crc32(0, head, size);
	return libdeflate_crc32(crc, wire + size, len - size);
}

static void put_le16(u8 *to, uint16_t value)
{
	value = htole16(value);
	memcpy(to, &value, sizeof(value));
}

static void put_le32(u8 *to, uint32_t value)
{
	value = htole32(value);
	memcpy(to, &value, sizeof(value));
}

/* Checks the lengths in LRH and GRH against LEN, and the CRCs.  NULL, or what is wrong. */
static const char *check_frame(const u8 *wire, size_t len, bool *global)
{
	u8 crc[4];

	if (len < LRH + BTH + ICRC + VCRC || len > PACKET_WIRE_MAX)
		return "length";
	if (wire[0] & 0x0f)
		return "LRH version";
	if ((wire[1] & 3) != LNH_LOCAL && (wire[1] & 3) != LNH_GLOBAL)
		return "not an IBA packet (LNH)";
	*global = (wire[1] & 3) == LNH_GLOBAL;
	if ((size_t)(be16_at(wire + 4) & 0x7ff) * 4 + VCRC != len)
		return "LRH packet length";
	if (*global) {
		if (len < LRH + GRH + BTH + ICRC + VCRC)
			return "length";
		if (wire[LRH] >> 4 != 6)
			return "GRH version";
		if (wire[LRH + 6] != GRH_NEXT_IBA)
			return "GRH next header";
		if (be16_at(wire + LRH + 4) + (size_t)(LRH + GRH + VCRC) != len)
			return "GRH payload length";
	}
	put_le16(crc, packet_vcrc(wire, len - VCRC));
	if (memcmp(crc, wire + len - VCRC, VCRC))
		return "VCRC";
	put_le32(crc, icrc_of(wire, len - VCRC - ICRC, *global));
	if (memcmp(crc, wire + len - VCRC - ICRC, ICRC))
		return "ICRC";
	return NULL;
}

/* AT has extended_size(OP) bytes. */
static void parse_extended(struct packet *p, uint32_t op, const u8 *at)
{
	if (op & OP_XRC) {
		p->srqn = be32_at(at) & 0xffffff;
		at += 4;
	}
	if (op & OP_DC) {
		p->dc_key = be64_at(at);
		p->sqpn = be32_at(at + 8) & 0xffffff;
		p->dc_first = be32_at(at + 12) & PSN_MASK;
		p->dc_connection = be64_at(at + 16);
		at += DCETH;
	}
	if (op & OP_DETH) {
		p->qkey = be32_at(at);
		p->sqpn = be32_at(at + 4) & 0xffffff;
		at += 8;
	}
	if (op & (OP_RETH | OP_ATOMIC)) {
		p->va = be64_at(at);
		p->rkey = be32_at(at + 8);
		at += 12;
	}
	if (op & OP_RETH) {
		p->dma_length = be32_at(at);
		at += 4;
	}
	if (op & OP_ATOMIC) {
		p->swap = be64_at(at);
		p->compare = be64_at(at + 8);
		at += 16;
	}
	if (op & OP_MASKED) {
		p->swap_mask = be64_at(at);
		p->compare_mask = be64_at(at + 8);
		at += 16;
	}
	if (op & OP_AETH) {
		p->syndrome = at[0];
		p->msn = be32_at(at) & 0xffffff;
		at += 4;
	}
	if (op & OP_ATOMIC_ACK) {
		p->original = be64_at(at);
		at += 8;
	}
	if (op & (OP_IMM | OP_INV))
		p->imm = be32_at(at);
}

static void parse_grh(struct packet *p, const u8 *at)
{
	uint32_t first = be32_at(at);

	p->global = true;
	p->tclass = first >> 20;
	p->flow_label = first & 0xfffff;
	p->hop_limit = at[7];
	memcpy(p->sgid, at + 8, 16);
	memcpy(p->dgid, at + 24, 16);
}

int packet_parse(struct packet *p, const u8 *wire, size_t len, const char **why)
{
	bool global = false;
	size_t pad, left;
	const u8 *at;
	uint32_t op;

	*why = check_frame(wire, len, &global);
	if (*why)
		return -EBADMSG;

	/* All but the payload; the entry belongs to whoever has it on a list. */
	memset(&p->dlid, 0, offsetof(struct packet, payload) - offsetof(struct packet, dlid));
	p->vl = wire[0] >> 4;
	p->sl = wire[1] >> 4;
	p->dlid = be16_at(wire + 2);
	p->slid = be16_at(wire + 6);
	at = wire + LRH;
	if (global) {
		parse_grh(p, at);
		at += GRH;
	}
	p->opcode = at[0];
	p->solicited = at[1] & 0x80;
	pad = at[1] >> 4 & 3;
	p->pkey = be16_at(at + 2);
	p->dqpn = be32_at(at + 4) & 0xffffff;
	p->ack_request = at[8] & 0x80;
	p->psn = be32_at(at + 8) & PSN_MASK;

	*why = "BTH version";
	if (at[1] & 0x0f)
		return -EBADMSG;
	at += BTH;
	left = wire + len - VCRC - ICRC - at;
	op = packet_op(p->opcode);
	*why = "opcode";
	if (!op)
		return -EBADMSG;
	*why = "too short for its headers";
	if (left < extended_size(op))
		return -EBADMSG;
	parse_extended(p, op, at);
	at += extended_size(op);
	left -= extended_size(op);
	*why = "pad or payload length";
	if (left < pad || left > PACKET_MTU || (left && !(op & OP_PAYLOAD)))
		return -EBADMSG;
	p->length = left - pad;
	memcpy(p->payload, at, p->length);
	*why = NULL;
	return 0;
}

static u8 *write_extended(const struct packet *p, uint32_t op, u8 *at)
{
	if (op & OP_XRC) {
		put_be32(at, p->srqn & 0xffffff);
		at += 4;
	}
	if (op & OP_DC) {
		put_be64(at, p->dc_key);
		put_be32(at + 8, p->sqpn & 0xffffff);
		put_be32(at + 12, p->dc_first & PSN_MASK);
		put_be64(at + 16, p->dc_connection);
		at += DCETH;
	}
	if (op & OP_DETH) {
		put_be32(at, p->qkey);
		put_be32(at + 4, p->sqpn & 0xffffff);
		at += 8;
	}
	if (op & (OP_RETH | OP_ATOMIC)) {
		put_be64(at, p->va);
		put_be32(at + 8, p->rkey);
		at += 12;
	}
	if (op & OP_RETH) {
		put_be32(at, p->dma_length);
		at += 4;
	}
	if (op & OP_ATOMIC) {
		put_be64(at, p->swap);
		put_be64(at + 8, p->compare);
		at += 16;
	}
	if (op & OP_MASKED) {
		put_be64(at, p->swap_mask);
		put_be64(at + 8, p->compare_mask);
		at += 16;
	}
	if (op & OP_AETH) {
		put_be32(at, (uint32_t)p->syndrome << 24 | (p->msn & 0xffffff));
		at += 4;
	}
	if (op & OP_ATOMIC_ACK) {
		put_be64(at, p->original);
		at += 8;
	}
	if (op & (OP_IMM | OP_INV)) {
		put_be32(at, p->imm);
		at += 4;
	}
	return at;
}

void packet_write_grh(const struct packet *p, u8 grh[PACKET_GRH])
{
	put_be32(grh, 6u << 28 | (uint32_t)p->tclass << 20 | (p->flow_label & 0xfffff));
	put_be16(grh + 4, packet_size(p) - LRH - GRH - VCRC);
	grh[6] = GRH_NEXT_IBA;
	grh[7] = p->hop_limit;
	memcpy(grh + 8, p->sgid, 16);
	memcpy(grh + 24, p->dgid, 16);
}

size_t packet_write(const struct packet *p, u8 *wire)
{
	uint32_t op = packet_op(p->opcode);
	size_t len = packet_size(p), payload = op & OP_PAYLOAD ? p->length : 0;
	size_t pad = -payload & 3;
	u8 *at = wire + LRH;

	wire[0] = p->vl << 4;
	wire[1] = p->sl << 4 | (p->global ? LNH_GLOBAL : LNH_LOCAL);
	put_be16(wire + 2, p->dlid);
	put_be16(wire + 4, (len - VCRC) / 4);
	put_be16(wire + 6, p->slid);
	if (p->global) {
		packet_write_grh(p, at);
		at += GRH;
	}
	at[0] = p->opcode;
	at[1] = (p->solicited ? 0x80 : 0) | BTH_MIGRATED | pad << 4;
	put_be16(at + 2, p->pkey);
	put_be32(at + 4, p->dqpn & 0xffffff);
	put_be32(at + 8, (p->ack_request ? 1u << 31 : 0) | (p->psn & PSN_MASK));
	at = write_extended(p, op, at + BTH);
	memcpy(at, p->payload, payload);
	memset(at + payload, 0, pad);
	at += payload + pad;
	put_le32(at, icrc_of(wire, at - wire, p->global));
	put_le16(at + ICRC, packet_vcrc(wire, at + ICRC - wire));
	return len;
}

/* Add to a line, as snprintf() does, and never beyond its end. */
#define add(line, size, used, ...)						\
	do {									\
		int n_ = snprintf((line) + (used), (size) - (used), __VA_ARGS__);	\
		(used) += n_ < 0 ? 0 : (size_t)n_ < (size) - (used) ?		\
			(size_t)n_ : (size) - (used) - 1;			\
	} while (0)

void packet_describe(const struct packet *p, char *line, size_t size)
{
	uint32_t op = packet_op(p->opcode);
	size_t used = 0;

	if (!size)
		return;
	if (!op) {
		snprintf(line, size, "opcode 0x%02x", p->opcode);
		return;
	}
	add(line, size, used, "%s %s %u>%u qp 0x%x psn %u", transport_names[p->opcode >> 5],
	    op_names[p->opcode & 31], p->slid, p->dlid, p->dqpn, p->psn);
	if (op & OP_PAYLOAD)
		add(line, size, used, " %u bytes", p->length);
	if (op & OP_XRC)
		add(line, size, used, " srq 0x%x", p->srqn);
	if (op & OP_DC)
		add(line, size, used, " from qp 0x%x connection %llu", p->sqpn,
		    (unsigned long long)p->dc_connection);
	if (op & OP_DETH)
		add(line, size, used, " from qp 0x%x qkey 0x%x", p->sqpn, p->qkey);
	if (op & (OP_RETH | OP_ATOMIC))
		add(line, size, used, " va 0x%llx rkey 0x%x", (unsigned long long)p->va, p->rkey);
	if (op & OP_RETH)
		add(line, size, used, " length %u", p->dma_length);
	if (op & OP_AETH)
		add(line, size, used, " syndrome 0x%02x msn %u", p->syndrome, p->msn);
	if (op & OP_IMM)
		add(line, size, used, " imm 0x%x", p->imm);
	if (op & OP_INV)
		add(line, size, used, " inv 0x%x", p->imm);
	if (p->solicited)
		add(line, size, used, " solicited");
	if (p->ack_request)
		add(line, size, used, " ack?");
}
