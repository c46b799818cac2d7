// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Fuzz of packets from a wire that lies: raw bytes for the parser, and packets with good CRCs
 * for a device that has connected QPs.
 *
 * The first byte selects one of the two.  The packets are made up from the input, or taken off
 * the way between the device's own QPs, changed, repeated and lost.
 *
 * What is parsed has to be the same after it was written and parsed again.
 *
 * packet.c is included for its CRCs, which no input would hit by chance.
 */
#include "packet.c"
#include "clock.h"
#include "dct.h"
#include "qp.h"
#include "wqe.h"
#include "program.h"
#include "wire.h"

/* The CRCs that the bytes should have.  LEN: of all of it. */
static void seal(u8 *wire, size_t len)
{
	bool global = (wire[1] & 3) == LNH_GLOBAL;

	if (len < LRH + (global ? GRH : 0) + BTH + ICRC + VCRC)
		return;
	put_le32(wire + len - VCRC - ICRC, icrc_of(wire, len - VCRC - ICRC, global));
	put_le16(wire + len - VCRC, packet_vcrc(wire, len - VCRC));
}

/* The length that the headers should say. */
static void measure(u8 *wire, size_t len)
{
	wire[0] &= 0xf0;
	wire[1] = (wire[1] & 0xfc) | LNH_LOCAL | (wire[1] & 1);
	put_be16(wire + 4, (len - VCRC) / 4);
	if ((wire[1] & 3) != LNH_GLOBAL || len < LRH + GRH)
		return;
	wire[LRH] = 0x60 | (wire[LRH] & 0x0f);
	put_be16(wire + LRH + 4, len - LRH - GRH - VCRC);
	wire[LRH + 6] = GRH_NEXT_IBA;
}

static bool same(const struct packet *a, const struct packet *b)
{
	const size_t from = offsetof(struct packet, dlid), to = offsetof(struct packet, payload);

	return !memcmp((const u8 *)a + from, (const u8 *)b + from, to - from) &&
	       !memcmp(a->payload, b->payload, a->length);
}

/* Parse, and look whether writing it loses anything. */
static bool parse(struct packet *p, const u8 *wire, size_t len)
{
	static struct packet again;
	static u8 rewritten[PACKET_WIRE_MAX];
	const char *why;
	char line[64];
	size_t n;

	if (packet_parse(p, wire, len, &why)) {
		must(why);
		return false;
	}
	must(p->length <= PACKET_MTU && packet_size(p) <= PACKET_WIRE_MAX);
	n = packet_write(p, rewritten);
	must(n == packet_size(p) && !packet_parse(&again, rewritten, n, &why));
	must(same(p, &again));
	packet_describe(p, line, len % sizeof(line));
	return true;
}

static void raw(struct input *in, u8 how)
{
	static struct packet p;
	u8 wire[PACKET_WIRE_MAX + 8];
	size_t len = in_bytes(in, wire, sizeof(wire));

	if (how & 2 && len > LRH + BTH + ICRC + VCRC) {
		len = (len - VCRC) / 4 * 4 + VCRC;
		if (how & 4)
			measure(wire, len);
		seal(wire, len < PACKET_WIRE_MAX ? len : PACKET_WIRE_MAX);
	}
	parse(&p, wire, len);
}

/* Into the device, as the link does it. */
static void arrive(struct guest *g, const u8 *wire, size_t len)
{
	struct link *l = g->w->hca->link;
	struct packet *p = link_packet(l);

	if (!p)
		return;
	if (parse(p, wire, len))
		transport_receive(g->w->hca, p);
	else
		link_packet_free(l, p);
}

/* Near what a QP expects, so that it is looked at. */
static uint32_t near_psn(const struct qp *qp, bool request, u8 how)
{
	int8_t away = how < 0x80 ? 0 : (int8_t)(how << 1) >> 3;

	if (!qp)
		return how;
	return (request ? qp->resp.psn : qp->req.acked_psn) + away;
}

/* A request for a DC target, of a connection that it knows, or a new one. */
static void make_up_dc(struct guest *g, struct input *in, struct packet *p)
{
	u8 how = in8(in), away = in8(in);
	const struct half *h = NULL;
	const struct qp *qp;

	p->opcode = IB_DC << 5 | (p->opcode & 31);
	p->dqpn = guest_number(g, DCT, in) & PSN_MASK;
	p->sqpn = (how & 1 ? in16(in) : guest_number(g, QP, in)) & PSN_MASK;
	p->dc_key = SETUP_DC_KEY ^ (how & 2);
	p->dc_connection = in8(in);
	qp = qp_get(g->w->hca, p->dqpn);
	if (qp && qp->dct && !list_empty(&qp->dct->halves))
		h = list_item(qp->dct->halves.next, struct half, entry);
	if (!h || how & 4) {
		p->psn = p->dc_first = how & 8 ? in16(in) : 0xfffffe;
		return;
	}
	if (!(how & 16))
		p->sqpn = h->qp.remote_qpn;
	p->dc_connection = h->connection + (how >> 6 == 3 ? 1 : how >> 6 == 2 ? -1 : 0);
	p->psn = near_psn(&h->qp, true, away) & PSN_MASK;
	p->dc_first = how & 32 ? p->psn : h->qp.resp.psn;
}

static void make_up(struct guest *g, struct input *in)
{
	static const u8 transports[QP_SERVICES] = {
		[QP_RC] = IB_RC, [QP_UC] = IB_UC, [QP_UD] = IB_UD, [QP_XRC_INI] = IB_XRC,
		[QP_XRC_TGT] = IB_XRC, [QP_GSI] = IB_UD, [QP_SMI] = IB_UD,
		[QP_DCI] = IB_DC, [QP_DCT] = IB_DC,
	};
	static struct packet p;
	static u8 wire[PACKET_WIRE_MAX];
	uint32_t qpn = guest_number(g, QP, in);
	const struct qp *qp = qp_get(g->w->hca, qpn);
	u8 how = in8(in), op = in8(in);
	uint32_t flags;

	memset(&p, 0, sizeof(p));
	p.dlid = p.slid = g->w->hca->port.lid;
	p.opcode = (qp && how & 1 ? transports[qp->service] : op >> 5) << 5 | (op & 31);
	flags = packet_op(p.opcode);
	p.solicited = how & 2;
	p.ack_request = how & 4;
	p.pkey = how & 8 ? in16(in) : 0xffff;
	p.global = how & 16;
	p.dqpn = how & 32 ? in32(in) & PSN_MASK : qpn;
	p.psn = near_psn(qp, flags & OP_REQUEST, in8(in)) & PSN_MASK;
	p.srqn = guest_number(g, XSRQ, in) & PSN_MASK;
	p.qkey = SETUP_QKEY;
	p.sqpn = in8(in);
	p.rkey = guest_key(g, in, &p.va);
	p.dma_length = how & 64 ? in32(in) : in16(in) % 2000;
	p.swap = in8(in);
	p.compare = in8(in);
	p.imm = in8(in) & 1 ? g->key[0].key : in32(in);
	p.syndrome = in8(in);
	p.length = flags & OP_PAYLOAD ? (how & 128 ? in16(in) % (PACKET_MTU + 1) : 256) : 0;
	if (p.length == 256 && flags & OP_ONLY && op & 32)
		p.dma_length = 256;
	if (op >> 5 == IB_DC && packet_op(IB_DC << 5 | (op & 31)) & OP_REQUEST)
		make_up_dc(g, in, &p);
	arrive(g, wire, packet_write(&p, wire));
}

/* One that is on its way: lost, twice, or with other bytes. */
static void meddle(struct guest *g, struct input *in)
{
	struct link *l = g->w->hca->link;
	struct packet *p = wire_steal(l);
	static u8 wire[PACKET_WIRE_MAX];
	u8 how = in8(in);
	size_t len;

	if (!p)
		return;
	len = packet_write(p, wire);
	link_packet_free(l, p);
	guest_read_changes(g, in);
	/* The headers, mostly. */
	guest_apply_changes(g, wire, how & 1 || len < 64 ? len : 64);
	if (how & 2 && len > 64 + 16)
		len -= how >> 4 << 2;
	if (!(how & 4))
		measure(wire, len);
	seal(wire, len);
	if (how & 8)
		arrive(g, wire, len);
	arrive(g, wire, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct guest guest;
	struct input in = { data, size };
	u8 how = in8(&in);
	struct world *w;

	if (how & 1) {
		raw(&in, how);
		return 0;
	}
	w = world_get();
	world_begin(w);
	guest_init(&guest, w);
	setup_traffic(&guest, how >> 1);
	for (unsigned int i = 0; i < STEPS && in.left; i++) {
		switch (in8(&in) % 4) {
		case 0:
			make_up(&guest, &in);
			break;
		case 1:
			meddle(&guest, &in);
			break;
		case 2:
			world_turns(w, 1);
			break;
		default:
			program_step(&guest, &in);
		}
	}
	program_finish(&guest);
	world_end(w);
	return 0;
}
