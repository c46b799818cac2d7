/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests that are given to QP 1 by hand, and what it does, as a line of text. */
#ifndef CONNECTX_RESPONDER_STEPS_H
#define CONNECTX_RESPONDER_STEPS_H

#include "transport_fakes.h"
#include "transport.h"

#define KEY 0x2001		/* of the responder's memory */
#define V(offset) (FAKE_VA + (offset))

struct step {
	u8 op;
	uint32_t psn, len;
	uint32_t dma;		/* RETH's length */
	uint64_t va;
	uint32_t rkey;		/* 0: KEY */
	bool no_ack, solicited;
	uint64_t swap, compare, swap_mask, compare_mask;
	uint32_t imm, srqn;
	uint64_t key, connection;	/* DC; key 0: FAKE_DC_KEY */
	uint32_t first, from;		/* from QP 0x40 + FROM */
	const char *out;	/* responses and completions of this step; NULL: none */
};

static void say(char *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(char *to, const char *fmt, ...)
{
	size_t used = strlen(to);
	va_list ap;

	va_start(ap, fmt);
	used += snprintf(to + used, 1024 - used, "%s", used ? ", " : "");
	vsnprintf(to + used, 1024 - used, fmt, ap);
	va_end(ap);
}

static void say_packet(char *to, const struct packet *p)
{
	static const char *const read[] = { "FIRST", "MIDDLE", "LAST", "ONLY" };
	u8 op = packet_operation(p);

	if (op >= IB_READ_RESP_FIRST && op <= IB_READ_RESP_ONLY)
		say(to, "%s %u:%u", read[op - IB_READ_RESP_FIRST], p->psn, p->length);
	else if (op == IB_ATOMIC_ACK)
		say(to, "ATOMIC %u=%llx", p->psn, (unsigned long long)p->original);
	else if (op == IB_ACK && p->syndrome == (AETH_ACK | AETH_NO_CREDITS))
		say(to, "ACK %u", p->psn);
	else if (op == IB_ACK && (p->syndrome & 0xe0) == AETH_NAK)
		say(to, "NAK%u %u", p->syndrome & 31, p->psn);
	else if (op == IB_ACK && (p->syndrome & 0xe0) == AETH_RNR_NAK)
		say(to, "RNR%u %u", p->syndrome & 31, p->psn);
	else
		say(to, "?%#x %u", p->opcode, p->psn);
}

/* What happened since the last call. */
static void say_all(char *to)
{
	static const char *const opcode[16] = {
		[MLX5_CQE_RESP_WR_IMM] = "write-imm", [MLX5_CQE_RESP_SEND] = "send",
		[MLX5_CQE_RESP_SEND_IMM] = "send-imm", [MLX5_CQE_RESP_SEND_INV] = "send-inv",
		[MLX5_CQE_RESP_ERR] = "error",
	};

	*to = 0;
	for (unsigned int i = 0; i < dones; i++) {
		const struct done *d = &done[i];

		say(to, "%s#%u", opcode[d->opcode], d->index);
		if (d->syndrome)
			say(to, "syndrome %x", d->syndrome);
		else
			say(to, "%u%s", d->bytes, d->solicited ? "!" : "");
		if (d->imm)
			say(to, "imm %x", d->imm);
	}
	dones = 0;
	for (struct list *e; (e = fake_link.wire.next) != &fake_link.wire;) {
		struct packet *p = list_item(e, struct packet, entry);

		list_del(e);
		say_packet(to, p);
		if (!qps[1].dct)
			assert_int_equal(qps[1].remote_qpn, p->dqpn);
		link_packet_free(&fake_link, p);
	}
	if (qps[1].state == QPS_ERR)
		say(to, "ERR");
}

static u8 pattern(uint32_t psn, uint32_t i)
{
	return psn * 31 + i * 3 + 1;
}

static void work_only(void)
{
	while (!list_empty(&fake_loop.works)) {
		struct work *w = list_item(fake_loop.works.next, struct work, entry);

		list_del(&w->entry);
		w->run(w);
	}
}

static void arrive(const struct step *s, enum qp_service service)
{
	struct packet *p = link_packet(&fake_link);
	static const u8 transport[] = {
		[QP_RC] = IB_RC, [QP_UC] = IB_UC, [QP_XRC_TGT] = IB_XRC, [QP_DCT] = IB_DC,
	};

	p->opcode = transport[service] << 5 | s->op;
	p->psn = s->psn;
	p->dqpn = qps[1].number;
	p->slid = p->dlid = FAKE_LID;
	p->pkey = 0xffff;
	p->ack_request = !s->no_ack;
	p->solicited = s->solicited;
	p->va = s->va;
	p->rkey = s->rkey ? s->rkey : KEY;
	p->dma_length = s->dma;
	p->swap = s->swap;
	p->compare = s->compare;
	p->swap_mask = s->swap_mask;
	p->compare_mask = s->compare_mask;
	p->imm = s->imm;
	p->srqn = s->srqn;
	p->dc_key = s->key ? s->key : FAKE_DC_KEY;
	p->dc_connection = s->connection;
	p->dc_first = s->first;
	p->sqpn = 0x40 + s->from;
	p->length = s->len;
	for (uint32_t i = 0; i < s->len; i++)
		p->payload[i] = pattern(s->psn, i);
	transport_receive(&hca, p);
}

static void give(const struct step *s, enum qp_service service)
{
	arrive(s, service);
	work_only();
}

static void expect(const char *text)
{
	char said[1024];

	say_all(said);
	assert_string_equal(text, said);
}

static void give_rc(struct step s)
{
	give(&s, QP_RC);
}

#endif
