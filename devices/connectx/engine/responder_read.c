// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reads and atomics at the responder (IBA 9.4.4, 9.4.5, 9.7.5.1.5).  Each takes an entry of
 * the ring of resources, where it is answered from and where it stays for duplicates until
 * the ring comes round.  Answers leave in the order of the ring, a bounded number of
 * packets a turn; a duplicate makes its entry pending again.
 *
 * An atomic is executed once, when it arrives; its entry keeps the result.  A read is
 * checked as a whole when it arrives, and each of its packets again when it is sent.
 *
 * If a duplicate finds that its memory is gone, this end does not know whether the requester
 * still waits: it may have asked again only because the first answer was late.  So that is no
 * error of the QP, but a NAK; a requester that does not wait takes it for an old one.
 */
#include "dma.h"
#include "hca.h"
#include "ifc.h"
#include "link.h"
#include "loop.h"
#include "mkey.h"
#include "packet.h"
#include "qp.h"
#include "transport.h"
#include "wqe.h"
#include <errno.h>

#define CAS_TRIES 1000		/* a guest that writes there all the time gets no more */

/* The entry for a request, or NULL: it is not answered yet. */
static struct resp_resource *take_resource(struct qp *qp, const struct packet *p, uint32_t pd,
					   uint32_t packets)
{
	struct responder *r = &qp->resp;
	struct resp_resource *e = &r->resource[r->next_resource];

	if (e->pending)
		return NULL;
	r->next_resource = (r->next_resource + 1) % QP_READS;
	r->pending++;
	r->msn = (r->msn + 1) & PSN_MASK;
	*e = (struct resp_resource) {
		.op = packet_operation(p), .psn = p->psn, .packets = packets, .va = p->va,
		.rkey = p->rkey, .length = p->dma_length, .pd = pd, .msn = r->msn,
		.pending = true,
	};
	return e;
}

/*
 * After a request.  A QP that has a turn coming gets no other one here: with a turn for each,
 * many requests would be one long turn, and whatever arrived behind them would wait.
 */
static void answer(struct qp *qp)
{
	if (!work_queued(&qp->resp.work))
		responder_turn(qp);
}

void responder_read(struct qp *qp, struct packet *p, uint32_t pd)
{
	uint32_t packets = packets_of(p->dma_length, qp_mtu(qp));
	struct mkey_access a = { .key = p->rkey, .pd = pd, .qpn = qp->number,
				 .rights = MKEY_REMOTE_READ };

	if (!qp->remote_read || p->dma_length > MESSAGE_MAX) {
		responder_refuse(qp, p, NAK_INVALID_REQUEST, EVENT_INVALID_REQUEST);
		return;
	}
	if (mkey_check(qp->hca, &a, p->va, p->dma_length) != MKEY_OK) {
		responder_refuse(qp, p, NAK_REMOTE_ACCESS, EVENT_ACCESS);
		return;
	}
	if (!take_resource(qp, p, pd, packets)) {
		responder_put_off(qp, p);
		return;
	}
	responder_advance(qp, packets);
	link_packet_free(qp->hca->link, p);
	answer(qp);
}

/* The sum of each field; a bit of BOUNDARY is the highest of a field. */
static uint64_t masked_add(uint64_t a, uint64_t b, uint64_t boundary)
{
	/* Without the boundary bits no carry crosses them; then they are added by themselves. */
	uint64_t sum = (a & ~boundary) + (b & ~boundary);

	return sum ^ ((a ^ b) & boundary);
}

/* The new value of OLD. */
static uint64_t compute(const struct packet *p, uint64_t old)
{
	switch (packet_operation(p)) {
	case IB_COMPARE_SWAP:
		return old == p->compare ? p->swap : old;
	case IB_FETCH_ADD:
		return old + p->swap;
	case IB_MASKED_COMPARE_SWAP:
		if ((old ^ p->compare) & p->compare_mask)
			return old;
		return (old & ~p->swap_mask) | (p->swap & p->swap_mask);
	case IB_MASKED_FETCH_ADD:
		return masked_add(old, p->swap, p->compare_mask);
	}
	return old;
}

/* 0, or -EAGAIN: others changed the word too often. */
static int execute_here(uint64_t *word, const struct packet *p, uint64_t *original)
{
	uint64_t raw = __atomic_load_n(word, __ATOMIC_SEQ_CST);

	for (unsigned int i = 0; i < CAS_TRIES; i++) {
		uint64_t new = htole64(compute(p, le64toh(raw)));

		if (__atomic_compare_exchange_n(word, &raw, new, false, __ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST)) {
			*original = le64toh(raw);
			return 0;
		}
	}
	return -EAGAIN;
}

/*
 * A read and a write, by QEMU.  No other access of this device comes in between, and
 * more the driver does not promise its users (IB_ATOMIC_HCA); the guest's CPUs and the other
 * device, to which the word belongs, may.
 */
static int execute_far(struct dma *dma, uint64_t addr, const struct packet *p,
		       uint64_t *original)
{
	uint64_t raw, new;

	if (dma_ask(dma, addr, &raw, sizeof(raw), false))
		return -EFAULT;
	*original = le64toh(raw);
	new = htole64(compute(p, *original));
	return new == raw ? 0 : dma_ask(dma, addr, &new, sizeof(new), true);
}

void responder_atomic(struct qp *qp, struct packet *p, uint32_t pd)
{
	struct mkey_access a = { .key = p->rkey, .pd = pd, .qpn = qp->number,
				 .rights = MKEY_ATOMIC };
	struct responder *r = &qp->resp;
	enum mkey_result result;
	struct mkey_fault fault;
	struct mkey_word word;
	uint64_t original;
	int err = -EFAULT;

	if (!qp->remote_atomic || p->va & 7) {
		responder_refuse(qp, p, NAK_INVALID_REQUEST, EVENT_INVALID_REQUEST);
		return;
	}
	if (r->resource[r->next_resource].pending) {
		responder_put_off(qp, p);
		return;
	}
	result = mkey_atomic(qp->hca, &a, p->va, 8, &word, &fault);
	if (result == MKEY_ABSENT && responder_stall(qp, p, &fault))
		return;
	if (result == MKEY_OK)
		err = word.host ? execute_here(word.host, p, &original) :
				  execute_far(word.dma, word.bus, p, &original);
	if (err == -EAGAIN) {
		responder_put_off(qp, p);
		return;
	}
	if (err) {
		responder_refuse(qp, p, NAK_REMOTE_ACCESS, EVENT_ACCESS);
		return;
	}
	if (word.dma)
		word.dma->traffic.atomics++;
	take_resource(qp, p, pd, 1)->original = original;
	responder_advance(qp, 1);
	link_packet_free(qp->hca->link, p);
	answer(qp);
}

/* Whether P repeats E, or the rest of it from packet *FROM on. */
static bool repeats(const struct qp *qp, const struct resp_resource *e, const struct packet *p,
		    uint32_t *from)
{
	uint64_t skipped;

	if (e->op != packet_operation(p) || e->rkey != p->rkey)
		return false;
	*from = (p->psn - e->psn) & PSN_MASK;
	if (*from >= e->packets)
		return false;
	if (e->op != IB_READ_REQUEST)
		return e->va == p->va;
	skipped = (uint64_t)*from * qp_mtu(qp);
	return skipped <= e->length && p->va == e->va + skipped &&
	       p->dma_length == e->length - skipped;
}

/* The oldest that is not answered. */
static struct resp_resource *oldest_pending(struct responder *r)
{
	for (unsigned int i = 0; i < QP_READS; i++) {
		struct resp_resource *e = &r->resource[(r->next_resource + i) % QP_READS];

		if (e->pending)
			return e;
	}
	return NULL;
}

/* Make pending again what P repeats: it, or NULL. */
static struct resp_resource *repeat(struct qp *qp, const struct packet *p, uint32_t *from)
{
	struct responder *r = &qp->resp;

	for (unsigned int i = 0; i < QP_READS; i++) {
		struct resp_resource *e = &r->resource[i];

		if (!repeats(qp, e, p, from))
			continue;
		if (!e->pending)
			r->pending++;
		if (!e->pending || e->next > *from)
			e->start = e->next = *from;
		e->pending = true;
		return e;
	}
	return NULL;
}

/*
 * A timeout has cost the requester one of its retries.  If what it asks for waits for its page,
 * an RNR NAK spares it the next ones, as of a packet that waits.
 */
void responder_repeat(struct qp *qp, struct packet *p)
{
	struct responder *r = &qp->resp;
	uint32_t from;
	struct resp_resource *e = repeat(qp, p, &from);

	answer(qp);
	if (!qp_can_receive(qp) || !r->waits_fault || !e || e != oldest_pending(r) ||
	    e->next != from) {
		link_packet_free(qp->hca->link, p);
		return;
	}
	transport_reply(qp, p, IB_ACK, p->psn);
	p->syndrome = responder_rnr(qp);
	p->msn = r->msn;
	link_send(qp->hca->link, p);
}

static void answered(struct responder *r, struct resp_resource *e)
{
	e->pending = false;
	r->pending--;
}

/* The read cannot go on: a NAK at the PSN of the response that is missing. */
static void fail_read(struct qp *qp, struct resp_resource *e, struct packet *p)
{
	transport_reply(qp, p, IB_ACK, e->psn + e->next);
	p->syndrome = AETH_NAK | NAK_REMOTE_ACCESS;
	p->msn = qp->resp.msn;
	link_send(qp->hca->link, p);
	if (e->next >= e->sent) {
		qp_error(qp, EVENT_ACCESS);
		return;
	}
	qp->resp.fault_failed = false;	/* that was of this read */
	answered(&qp->resp, e);
	loop_work(qp->hca->loop, &qp->resp.work);
}

/* Fill the next response of a read.  false: P was taken, and the read does not go on. */
static bool load(struct qp *qp, struct resp_resource *e, struct packet *p)
{
	struct responder *r = &qp->resp;
	struct mkey_access a = { .key = e->rkey, .pd = e->pd, .qpn = qp->number,
				 .rights = MKEY_REMOTE_READ };
	uint64_t offset = (uint64_t)e->next * qp_mtu(qp);
	uint32_t psn = (e->psn + e->next) & PSN_MASK;
	uint32_t left = offset < e->length ? e->length - offset : 0;
	enum mkey_result result;
	struct mkey_fault fault;

	p->length = left < qp_mtu(qp) ? left : qp_mtu(qp);
	result = mkey_read(qp->hca, &a, e->va + offset, p->payload, p->length, &fault);
	if (result == MKEY_OK) {
		r->fault_failed = false;
		return true;
	}
	if (result == MKEY_ABSENT && !responder_fault_failed(r, psn)) {
		if (!r->waits_fault)
			responder_report(qp, psn, &fault);
		link_packet_free(qp->hca->link, p);
		return false;
	}
	fail_read(qp, e, p);
	return false;
}

/* Send the next packet of E with P.  false: it does not go on now. */
static bool answer_one(struct qp *qp, struct resp_resource *e, struct packet *p)
{
	bool first = e->next == e->start, last = e->next + 1 == e->packets;
	u8 op = e->op != IB_READ_REQUEST ? IB_ATOMIC_ACK :
		first && last ? IB_READ_RESP_ONLY : first ? IB_READ_RESP_FIRST :
		last ? IB_READ_RESP_LAST : IB_READ_RESP_MIDDLE;

	if (e->op == IB_READ_REQUEST && !load(qp, e, p))
		return false;
	p->opcode = (p->opcode & 0xe0) | op;
	p->syndrome = AETH_ACK | AETH_NO_CREDITS;
	p->msn = e->msn;
	p->original = e->original;
	if (last)
		answered(&qp->resp, e);
	e->next++;
	if (e->sent < e->next)
		e->sent = e->next;
	return true;
}

static void pay_debt(struct qp *qp, struct packet *p)
{
	struct responder *r = &qp->resp;
	bool ack = r->owes == OWES_ACK;

	r->owes = OWES_NOTHING;
	if (!ack && !r->nak_sent) {
		/* What was put off came again meanwhile. */
		link_packet_free(qp->hca->link, p);
		return;
	}
	responder_answer(qp, p, ack ? AETH_ACK : AETH_NAK | NAK_SEQUENCE,
			 ack ? r->owed_psn : r->psn);
}

void responder_turn(struct qp *qp)
{
	struct responder *r = &qp->resp;
	unsigned int packets = 0;

	while (r->pending || r->owes) {
		struct resp_resource *e = oldest_pending(r);
		struct packet *p;

		if (packets == TURN_BYTES / PACKET_MTU ||
		    (packets && loop_turn_over(qp->hca->loop))) {
			loop_work(qp->hca->loop, &r->work);
			return;
		}
		p = transport_packet(qp, IB_ACK, e ? e->psn + e->next : r->psn);
		if (!p) {
			link_wait(qp->hca->link, &r->work);
			return;
		}
		if (!e) {
			pay_debt(qp, p);
			return;
		}
		if (!answer_one(qp, e, p))
			return;
		link_send(qp->hca->link, p);
		packets++;
	}
}
