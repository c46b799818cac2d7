/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Responses that are given to QP 0 by hand, and what it sends and completes, as text. */
#ifndef CONNECTX_REQUESTER_STEPS_H
#define CONNECTX_REQUESTER_STEPS_H

#include "transport_fakes.h"
#include "transport.h"

static void say(char *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(char *to, const char *fmt, ...)
{
	size_t used = strlen(to);
	va_list ap;

	used += snprintf(to + used, 2048 - used, "%s", used ? ", " : "");
	va_start(ap, fmt);
	vsnprintf(to + used, 2048 - used, fmt, ap);
	va_end(ap);
}

static void say_packet(char *to, const struct packet *p)
{
	static const char *const name[32] = {
		"SEND_FIRST", "SEND_MIDDLE", "SEND_LAST", "SEND_LAST_IMM", "SEND_ONLY",
		"SEND_ONLY_IMM", "WRITE_FIRST", "WRITE_MIDDLE", "WRITE_LAST", "WRITE_LAST_IMM",
		"WRITE_ONLY", "WRITE_ONLY_IMM", "READ", [IB_COMPARE_SWAP] = "CS",
		[IB_FETCH_ADD] = "FA", [IB_SEND_LAST_INV] = "SEND_LAST_INV",
		[IB_SEND_ONLY_INV] = "SEND_ONLY_INV", [IB_DC_CLOSE] = "CLOSE",
		[IB_MASKED_COMPARE_SWAP] = "MCS", [IB_MASKED_FETCH_ADD] = "MFA",
	};
	u8 op = packet_operation(p);

	assert_non_null(name[op]);
	if (op == IB_READ_REQUEST)
		say(to, "READ %u+%llx:%u", p->psn, (unsigned long long)p->va - FAKE_VA,
		    p->dma_length);
	else
		say(to, "%s %u:%u%s%s", name[op], p->psn, p->length, p->ack_request ? "" : "-",
		    p->solicited ? "!" : "");
}

static void work_only(void)
{
	while (!list_empty(&fake_loop.works)) {
		struct work *w = list_item(fake_loop.works.next, struct work, entry);

		list_del(&w->entry);
		w->run(w);
	}
}

/* What was sent and completed since the last call. */
static void expect_at(const char *text, int line)
{
	char said[2048] = "";

	work_only();
	for (struct list *e; (e = fake_link.wire.next) != &fake_link.wire;) {
		struct packet *p = list_item(e, struct packet, entry);

		list_del(e);
		say_packet(said, p);
		link_packet_free(&fake_link, p);
	}
	for (unsigned int i = 0; i < dones; i++) {
		if (done[i].syndrome)
			say(said, "#%u=%x", done[i].index, done[i].syndrome);
		else
			say(said, "#%u:%u", done[i].index, done[i].bytes);
	}
	dones = 0;
	if (strcmp(text, said)) {
		print_error("line %d: \"%s\", expected \"%s\"\n", line, said, text);
		fail();
	}
}
#define expect(text) expect_at(text, __LINE__)

static void respond(u8 op, uint32_t psn, u8 syndrome, uint32_t len, uint64_t original)
{
	struct packet *p = link_packet(&fake_link);

	p->opcode = (qps[0].service == QP_XRC_INI ? IB_XRC : qps[0].service == QP_DCI ? IB_DC :
		     IB_RC) << 5 | op;
	p->psn = psn & PSN_MASK;
	p->dqpn = qps[0].number;
	p->slid = FAKE_LID;
	p->pkey = 0xffff;
	p->syndrome = syndrome;
	p->original = original;
	p->length = len;
	for (uint32_t i = 0; i < len; i++)
		p->payload[i] = psn * 5 + i;
	transport_receive(&hca, p);
}

static void ack(uint32_t psn)
{
	respond(IB_ACK, psn, AETH_ACK | AETH_NO_CREDITS, 0, 0);
}

static void nak(uint32_t psn, u8 code)
{
	respond(IB_ACK, psn, AETH_NAK | code, 0, 0);
}

#endif
