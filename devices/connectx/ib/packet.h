/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An InfiniBand packet, parsed: the local route header, the global one if there is one,
 * the base transport header, the extended headers that its opcode has, and the payload
 * (IBA volume 1, chapters 7 to 9).  packet_parse() and packet_write() are the only places
 * that know how they lie on the wire, CRCs included.
 */
#ifndef CONNECTX_PACKET_H
#define CONNECTX_PACKET_H

#include "ifc.h"
#include "list.h"
#include <sys/types.h>

#define PACKET_MTU 4096
#define PACKET_VCRC 2
/* LRH 8, GRH 40, BTH 12, extended headers up to 44, payload, ICRC 4, VCRC 2. */
#define PACKET_WIRE_MAX (8 + 40 + 12 + 44 + PACKET_MTU + 4 + 2)

/* The operation, the low five bits of a BTH opcode. */
enum ib_op {
	IB_SEND_FIRST = 0x00, IB_SEND_MIDDLE = 0x01, IB_SEND_LAST = 0x02,
	IB_SEND_LAST_IMM = 0x03, IB_SEND_ONLY = 0x04, IB_SEND_ONLY_IMM = 0x05,
	IB_WRITE_FIRST = 0x06, IB_WRITE_MIDDLE = 0x07, IB_WRITE_LAST = 0x08,
	IB_WRITE_LAST_IMM = 0x09, IB_WRITE_ONLY = 0x0a, IB_WRITE_ONLY_IMM = 0x0b,
	IB_READ_REQUEST = 0x0c, IB_READ_RESP_FIRST = 0x0d, IB_READ_RESP_MIDDLE = 0x0e,
	IB_READ_RESP_LAST = 0x0f, IB_READ_RESP_ONLY = 0x10, IB_ACK = 0x11,
	IB_ATOMIC_ACK = 0x12, IB_COMPARE_SWAP = 0x13, IB_FETCH_ADD = 0x14,
	IB_SEND_LAST_INV = 0x16, IB_SEND_ONLY_INV = 0x17,
	IB_DC_CLOSE = 0x18,		/* DC only: the initiator leaves */
	/* RC of this device only, as ConnectX does masked atomics: a vendor's opcodes. */
	IB_MASKED_COMPARE_SWAP = 0x1e, IB_MASKED_FETCH_ADD = 0x1f,
};

/* The transport, the high three bits.  IBA leaves 6 to manufacturers: DC, see packet.c. */
enum ib_transport { IB_RC = 0, IB_UC = 1, IB_RD = 2, IB_UD = 3, IB_XRC = 5, IB_DC = 6 };

/* Which headers and payload an opcode has. */
enum {
	OP_REQUEST = 1, OP_FIRST = 2, OP_MIDDLE = 4, OP_LAST = 8, OP_ONLY = 16,
	OP_DETH = 1 << 5, OP_RETH = 1 << 6, OP_ATOMIC = 1 << 7, OP_AETH = 1 << 8,
	OP_ATOMIC_ACK = 1 << 9, OP_IMM = 1 << 10, OP_INV = 1 << 11, OP_PAYLOAD = 1 << 12,
	OP_XRC = 1 << 13, OP_RECV = 1 << 14 /* takes a receive WQE, at its end for a write */,
	OP_MASKED = 1 << 15, OP_VALID = 1 << 16, OP_DC = 1 << 17,
};

/* 0 for an opcode that does not exist. */
uint32_t packet_op(u8 opcode);

struct packet {
	struct list entry;
	/* LRH */
	uint16_t dlid, slid;
	u8 sl, vl;
	/* GRH */
	bool global;
	u8 tclass, hop_limit;
	uint32_t flow_label;
	u8 sgid[16], dgid[16];
	/* BTH */
	u8 opcode;
	bool solicited, ack_request;
	uint16_t pkey;
	uint32_t dqpn, psn;
	/* Extended headers, by opcode */
	uint32_t srqn;			/* XRCETH */
	uint32_t qkey, sqpn;		/* DETH; the QP number in DCETH too */
	uint64_t dc_key, dc_connection;	/* DCETH */
	uint32_t dc_first;		/* the PSN with which the connection began */
	uint64_t va;			/* RETH, AtomicETH */
	uint32_t rkey, dma_length;
	uint64_t swap, compare;		/* add is in swap */
	uint64_t swap_mask, compare_mask;	/* masked atomics; a boundary is in compare_mask */
	uint32_t imm;			/* ImmDt, or IETH: the rkey to invalidate */
	u8 syndrome;			/* AETH */
	uint32_t msn;
	uint64_t original;		/* AtomicAckETH */

	uint32_t length;		/* of the payload; the pad is not counted */
	u8 payload[PACKET_MTU];
};

/* AETH syndromes (IBA 9.7.5.2.8). */
enum { AETH_ACK = 0x00, AETH_RNR_NAK = 0x20, AETH_NAK = 0x60 };
enum { NAK_SEQUENCE = 0, NAK_INVALID_REQUEST = 1, NAK_REMOTE_ACCESS = 2, NAK_REMOTE_OP = 3 };
#define AETH_NO_CREDITS 0x1f	/* "invalid" credit count: no flow control by credits */

/* 0, or -EBADMSG with WHY if it is not a packet that this device takes. */
int packet_parse(struct packet *p, const u8 *wire, size_t len, const char **why);
/* The bytes on the wire, up to PACKET_WIRE_MAX; returns how many. */
size_t packet_write(const struct packet *p, u8 *wire);
/* How many that are. */
size_t packet_size(const struct packet *p);
/* The GRH of a packet that has one. */
#define PACKET_GRH 40
void packet_write_grh(const struct packet *p, u8 grh[PACKET_GRH]);
/* The VCRC of all bytes before it: vcrc.c */
uint16_t packet_vcrc(const u8 *data, size_t len);
/* A line for people: "RC WRITE_FIRST 3>7 psn 17 ...". */
void packet_describe(const struct packet *p, char *line, size_t size);
/* For a multicast LID, or the permissive one. */
static inline bool lid_is_multicast(uint16_t lid)
{
	return lid >= 0xc000 && lid != 0xffff;
}

/* PSNs are 24 bits and wrap: A - B, from -2^23 to 2^23 - 1. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

#define PSN_MASK 0xffffffu

#endif
