/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The world around the transport engine, for its tests: memory keys over flat arrays, and
 * queues that hold what the test posted; transport_wire.h has clock and wire.  They define
 * every function of other parts that the engine calls, so a test needs the engine's objects
 * and nothing else.
 */
#ifndef CONNECTX_TRANSPORT_FAKES_H
#define CONNECTX_TRANSPORT_FAKES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "dct.h"
#include "hca.h"
#include "mcg.h"
#include "mkey.h"
#include "odp.h"
#include "port.h"
#include "qp.h"
#include "srq.h"
#include "trace.h"
#include "umr.h"
#include "wqe.h"
#include "transport_wire.h"

/* Tables leave out what is 0. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wunused-function"

#define FAKE_LID 3
#define FAKE_PD 5
#define FAKE_SQ 256
#define FAKE_MEMORY 0x40000
#define FAKE_PAGE 1024
#define FAKE_VA 0x100000
#define FAKE_DC_KEY 0x1122334455667788ull
#define MAX_DONE 1024

/* ---- memory ---- */

struct fake_mkey {
	uint32_t key, pd;
	u8 rights;
	u8 *bytes;
	bool absent[FAKE_MEMORY / FAKE_PAGE];
};

static u8 memory[2][FAKE_MEMORY] __attribute__((aligned(64)));
static struct fake_mkey fake_mkeys[4];
static uint32_t invalidated;

static struct fake_mkey *find_mkey(const struct mkey_access *a, uint64_t va, uint64_t len)
{
	for (int i = 0; i < 4; i++) {
		struct fake_mkey *m = &fake_mkeys[i];

		if (m->key && m->key == a->key && m->pd == a->pd && !(a->rights & ~m->rights) &&
		    va >= FAKE_VA && len <= FAKE_MEMORY && va - FAKE_VA <= FAKE_MEMORY - len)
			return m;
	}
	return NULL;
}

enum mkey_result mkey_check(struct hca *hca, const struct mkey_access *a, uint64_t va,
			    uint64_t len)
{
	return !len || find_mkey(a, va, len) ? MKEY_OK : MKEY_DENIED;
}

enum mkey_result mkey_present(struct hca *hca, const struct mkey_access *a, uint64_t va,
			      size_t len, struct mkey_fault *fault)
{
	struct fake_mkey *m = find_mkey(a, va, len);

	if (!len)
		return MKEY_OK;
	if (!m)
		return MKEY_DENIED;
	for (uint64_t at = va; at < va + len; at = (at | (FAKE_PAGE - 1)) + 1) {
		if (m->absent[(at - FAKE_VA) / FAKE_PAGE]) {
			*fault = (struct mkey_fault) { a->key, at, va + len - at };
			return MKEY_ABSENT;
		}
	}
	return MKEY_OK;
}

enum mkey_result mkey_read(struct hca *hca, const struct mkey_access *a, uint64_t va, void *to,
			   size_t len, struct mkey_fault *fault)
{
	enum mkey_result result = mkey_present(hca, a, va, len, fault);

	if (result == MKEY_OK && len)
		memcpy(to, find_mkey(a, va, len)->bytes + (va - FAKE_VA), len);
	return result;
}

enum mkey_result mkey_write(struct hca *hca, const struct mkey_access *a, uint64_t va,
			    const void *from, size_t len, struct mkey_fault *fault)
{
	enum mkey_result result = mkey_present(hca, a, va, len, fault);

	if (result == MKEY_OK && len)
		memcpy(find_mkey(a, va, len)->bytes + (va - FAKE_VA), from, len);
	return result;
}

enum mkey_result mkey_atomic(struct hca *hca, const struct mkey_access *a, uint64_t va,
			     size_t size, struct mkey_word *word, struct mkey_fault *fault)
{
	enum mkey_result result = mkey_present(hca, a, va, size, fault);

	/* As memory on the device. */
	if (result == MKEY_OK)
		*word = (struct mkey_word){
			.host = find_mkey(a, va, size)->bytes + (va - FAKE_VA),
		};
	return result;
}

bool mkey_invalidate_remote(struct hca *hca, uint32_t rkey, uint32_t pd, uint32_t qpn)
{
	invalidated = rkey;
	return rkey != 0xbad;
}

static int allocated, allocation_limit;	/* -1: the process itself has no memory */

void *hca_alloc_beyond(struct hca *hca, size_t bytes)
{
	if (allocation_limit < 0)
		return NULL;
	allocated++;
	return calloc(1, bytes);
}

void *hca_alloc(struct hca *hca, size_t bytes)
{
	return allocated < allocation_limit ? hca_alloc_beyond(hca, bytes) : NULL;
}

void hca_free_memory(struct hca *hca, void *p, size_t bytes)
{
	allocated--;
	free(p);
}

/* ---- page faults ---- */

/* By side: of QP 0 as the requester and QP 1 as the responder; +2: the other way round. */
static struct {
	struct odp_waiter *waiter;
	bool waits;
	struct mkey_fault fault;
	int count;
} faults[4];
static bool faults_fail;	/* at once: there is no memory */
static struct qp qps[2];

static int slot_of(const struct odp_waiter *w)
{
	enum fault_side side;

	for (side = FAULT_REQUESTER; side <= FAULT_RESPONDER; side++)
		for (int i = 0; i < 2; i++)
			if (w == &qps[i].fault[side])
				return i == (int)side ? (int)side : (int)side + 2;
	return FAULT_RESPONDER + 2;	/* a half-connection of a DCT */
}

void odp_fault(struct hca *hca, struct odp_waiter *w, const struct mkey_fault *fault)
{
	int slot = slot_of(w);

	assert_false(faults[slot].waits);
	faults[slot].waiter = w;
	faults[slot].waits = true;
	faults[slot].fault = *fault;
	faults[slot].count++;
	if (faults_fail) {
		faults[slot].waits = false;
		w->over(w, true);
	}
}

/* The driver brings the page, or not. */
static void resolve(int slot, bool failed)
{
	for (int i = 0; i < 4; i++)
		if (!failed && fake_mkeys[i].key == faults[slot].fault.key)
			fake_mkeys[i].absent[(faults[slot].fault.va - FAKE_VA) / FAKE_PAGE] =
				false;
	faults[slot].waits = false;
	faults[slot].waiter->over(faults[slot].waiter, failed);
}

/* ---- QPs, their queues and completions ---- */

struct done {
	struct qp *qp;
	bool recv;
	uint16_t index;
	u8 opcode, syndrome;
	uint32_t bytes, imm, src_qp;
	bool solicited;
	u8 data[64];
};

static struct hca hca;
static struct wqe sq[2][FAKE_SQ];
static struct recv_wqe rq[2][FAKE_SQ];
static unsigned int rq_posted[2];
static uint16_t srq_taken;		/* by half-connections of DCTs, together */
static struct qp *fake_dct;		/* another one than QP 1, or NULL */
static struct done done[MAX_DONE];
static unsigned int dones;
static unsigned int events[64];
static struct srq fake_srq;
static uint32_t umr_target;
static u8 umr_syndrome;
bool tracing;

void trace_line(const char *fmt, ...) {}

static int end_of(const struct qp *qp)
{
	return qp->number != qps[0].number;	/* half-connections of DCTs too */
}

struct qp *qp_get(struct hca *h, uint32_t number)
{
	for (int i = 0; i < 2; i++)
		if (qps[i].number == number)
			return &qps[i];
	return fake_dct && fake_dct->number == number ? fake_dct : NULL;
}

struct srq *srq_get(struct hca *h, uint32_t number)
{
	return number && number == fake_srq.number ? &fake_srq : NULL;
}

uint16_t port_pkey(const struct hca *h, unsigned int index)
{
	return index ? index : 0xffff;
}

void port_gid(const struct hca *h, unsigned int index, u8 gid[16])
{
	memset(gid, 0x60 + index, 16);
}

bool port_has_gid(const struct hca *h, const u8 gid[16])
{
	return gid[0] == 0x60 || gid[0] == 0x61;
}

void mcg_each(struct hca *h, const u8 gid[16], void (*fn)(struct qp *qp, void *arg), void *arg)
{
	for (int i = 0; i < 2; i++)
		if (gid[0] == 0xff)
			fn(&qps[i], arg);
}

int umr_run(struct hca *h, const struct mkey_access *by, const u8 *wqe, size_t len,
	    uint32_t target)
{
	umr_target = target;
	return umr_syndrome;
}

int qp_fetch(struct qp *qp, uint16_t index, struct wqe *w)
{
	*w = sq[end_of(qp)][index % FAKE_SQ];
	w->index = index;
	return w->opcode == 0xff ? MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR : 0;
}

int qp_take_recv(struct qp *qp, uint32_t srqn, struct recv_wqe *r, struct srq **srq)
{
	uint16_t *taken = qp->service == QP_DCT ? &srq_taken : &qp->resp.taken;
	int e = end_of(qp);

	if (*taken == rq_posted[e])
		return 0;
	*r = rq[e][*taken % FAKE_SQ];
	r->index = (*taken)++;
	*srq = qp->service == QP_XRC_TGT ? &fake_srq : NULL;
	return 1;
}

static struct done *add_done(struct qp *qp)
{
	assert_in_range(dones, 0, MAX_DONE - 1);
	memset(&done[dones], 0, sizeof(done[0]));
	done[dones].qp = qp;
	return &done[dones++];
}

void qp_complete_send(struct qp *qp, const struct wqe *w, u8 syndrome, uint32_t bytes)
{
	struct done *d = add_done(qp);

	d->index = w->index;
	d->opcode = w->opcode;
	d->syndrome = syndrome;
	d->bytes = bytes;
}

void qp_complete_recv(struct qp *qp, const struct recv_wqe *r, struct srq *srq,
		      const struct recv_completion *c)
{
	struct done *d = add_done(qp);

	d->recv = true;
	d->index = r->index;
	d->opcode = c->opcode;
	d->syndrome = c->syndrome;
	d->bytes = c->bytes;
	d->imm = c->imm_inval;
	d->src_qp = c->src_qp;
	d->solicited = c->solicited;
	if (c->inline_data)
		memcpy(d->data, c->inline_data, c->bytes);
}

void qp_flush(struct qp *qp)
{
	struct requester *r = &qp->req;

	for (; r->count; r->count--, r->head = (r->head + 1) % QP_UNACKED) {
		struct wqe *w = r->unacked[r->head].wqe;

		qp_complete_send(qp, w, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
		hca_free_memory(qp->hca, w, sizeof(*w));
		r->unacked[r->head].wqe = NULL;
	}
	for (; r->consumer != r->producer; r->consumer++) {
		struct wqe w = { .index = r->consumer };

		qp_complete_send(qp, &w, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
	}
}

void qp_error(struct qp *qp, int event_type)
{
	qp->state = QPS_ERR;
	events[event_type]++;
	qp_flush(qp);
}

void qp_sq_error(struct qp *qp)
{
	qp->state = QPS_SQER;
	qp_flush(qp);
}

void qp_event(struct qp *qp, unsigned int type)
{
	events[type]++;
}

void qp_init(struct qp *qp)
{
	requester_init(qp);
	responder_init(qp);
}

void qp_stop(struct qp *qp)
{
	requester_reset(qp);
	responder_reset(qp);
}

void qp_stop_receives(struct qp *qp)
{
	struct recv_completion c = {
		.opcode = MLX5_CQE_RESP_ERR, .syndrome = MLX5_CQE_SYNDROME_WR_FLUSH_ERR,
	};

	if (qp->resp.have_recv)
		qp_complete_recv(qp, &qp->resp.recv, qp->resp.srq, &c);
	responder_reset(qp);
}

/* ---- for the tests ---- */

static bool (*packet_first)(void);	/* whether a packet goes before work that waits */

static void fake_qp(int end, enum qp_service service, uint32_t send_psn, uint32_t recv_psn)
{
	struct qp *qp = &qps[end];

	memset(qp, 0, sizeof(*qp));
	qp->hca = &hca;
	qp->number = 0x40 + end;
	qp->remote_qpn = 0x40 + !end;
	qp->service = service;
	qp->state = QPS_RTS;
	qp->pd = FAKE_PD + end;
	qp->mtu = 256;
	qp->path.rlid = FAKE_LID;
	qp->retry_count = qp->rnr_retry = 7;
	qp->min_rnr_timer = 12;
	qp->ack_timeout = 14;
	qp->max_reads = 4;
	qp->remote_read = qp->remote_write = qp->remote_atomic = true;
	requester_init(qp);
	responder_init(qp);
	qp->req.psn = qp->req.sent_psn = qp->req.acked_psn = send_psn;
	qp->resp.psn = recv_psn;
	if (service != QP_DCT)
		return;
	qp->state = QPS_RTR;
	qp->dct = hca_alloc(&hca, sizeof(*qp->dct));
	qp->dct->key = FAKE_DC_KEY;
	list_init(&qp->dct->halves);
}

/* Two connected QPs; keys 0x100 * (end + 1) + 1 are all of the memory of that end. */
static void world_new(enum qp_service a, enum qp_service b, uint32_t psn)
{
	memset(&hca, 0, sizeof(hca));
	memset(&fake_link, 0, sizeof(fake_link));
	memset(fake_mkeys, 0, sizeof(fake_mkeys));
	memset(faults, 0, sizeof(faults));
	faults_fail = false;
	memset(events, 0, sizeof(events));
	memset(rq_posted, 0, sizeof(rq_posted));
	memset(sq, 0, sizeof(sq));
	dones = allocated = invalidated = umr_target = umr_syndrome = srq_taken = 0;
	fake_dct = NULL;
	allocation_limit = 1000;
	packet_first = NULL;
	hca.loop = &fake_loop;
	hca.link = &fake_link;
	hca.port.lid = FAKE_LID;
	fake_loop.now = 1000;
	fake_loop.turn_over = false;
	list_init(&fake_loop.works);
	list_init(&fake_loop.timers);
	list_init(&fake_link.wire);
	list_init(&fake_link.waiting);
	fake_link.limit = 4096;
	for (int i = 0; i < 2; i++) {
		fake_mkeys[i] = (struct fake_mkey) {
			.key = 0x1001 + 0x1000 * i, .pd = FAKE_PD + i, .bytes = memory[i],
			.rights = MKEY_LOCAL_READ | MKEY_LOCAL_WRITE | MKEY_REMOTE_READ |
				  MKEY_REMOTE_WRITE | MKEY_ATOMIC,
		};
		for (int k = 0; k < FAKE_MEMORY; k++)
			memory[i][k] = k * 7 + k / 256 + i * 100;
	}
	fake_qp(0, a, psn, (psn + 1000) & PSN_MASK);
	fake_qp(1, b, (psn + 1000) & PSN_MASK, psn);
}

static uint32_t key_of(int end)
{
	return fake_mkeys[end].key;
}

static void world_end(void)
{
	for (int i = 0; i < 2; i++) {
		requester_reset(&qps[i]);
		responder_reset(&qps[i]);
		if (qps[i].dct)
			dct_free(&qps[i]);
	}
	while (!list_empty(&fake_link.wire)) {
		struct list *e = fake_link.wire.next;

		list_del(e);
		link_packet_free(&fake_link, list_item(e, struct packet, entry));
	}
	assert_int_equal(0, fake_link.out);
	assert_int_equal(0, allocated);
	assert_int_equal(0, hca.stalled);
}

/* One work or packet; false: nothing to do at this time. */
static bool world_step(void)
{
	struct list *e = fake_loop.works.next;

	if (packet_first && !list_empty(&fake_link.wire) && packet_first())
		e = &fake_loop.works;
	if (e != &fake_loop.works) {
		struct work *w = list_item(e, struct work, entry);

		list_del(e);
		w->run(w);
		return true;
	}
	e = fake_link.wire.next;
	if (e == &fake_link.wire)
		return false;
	list_del(e);
	transport_receive(&hca, list_item(e, struct packet, entry));
	return true;
}

/* Until nothing happens at this time. */
static void world_run(void)
{
	int steps = 0;

	while (world_step())
		assert_in_range(++steps, 0, 1000000);
}

/* Move the clock to the next timer, and let it expire.  false: there is none. */
static bool world_wait(void)
{
	struct timer *next = NULL;

	for (struct list *e = fake_loop.timers.next; e != &fake_loop.timers; e = e->next) {
		struct timer *t = list_item(e, struct timer, entry);

		if (!next || t->when < next->when)
			next = t;
	}
	if (!next)
		return false;
	if (next->when > fake_loop.now)
		fake_loop.now = next->when;
	timer_stop(next);
	next->expired(next);
	return true;
}

/* Until COUNT completions are there, with the clock's help. */
static void world_run_until(unsigned int count)
{
	world_run();
	for (int i = 0; dones < count && i < 1000; i++) {
		bool waits = false;

		for (int slot = 0; slot < 4; slot++)
			if (faults[slot].waits)
				resolve(slot, false);
		world_run();
		for (int slot = 0; slot < 4; slot++)
			waits |= faults[slot].waits;
		if (dones < count && !waits)
			world_wait();
	}
	assert_int_equal(count, dones);
}

/* A WQE at the end of the send queue of END, for the other end. */
static struct wqe *post(int end, u8 opcode, uint64_t local, uint64_t remote, uint64_t len)
{
	struct wqe *w = &sq[end][qps[end].req.producer++ % FAKE_SQ];

	*w = (struct wqe) {
		.opcode = opcode, .blocks = 1, .signalled = true, .length = len,
		.remote_addr = FAKE_VA + remote, .rkey = key_of(!end), .segs = 1,
		.seg[0] = { .len = len, .lkey = key_of(end), .addr = FAKE_VA + local },
		.av = { .rlid = FAKE_LID, .dqpn = qps[!end].number, .dc_key = FAKE_DC_KEY },
	};
	requester_run(&qps[end]);
	return w;
}

static struct recv_wqe *post_recv(int end, uint64_t local, uint32_t len)
{
	struct recv_wqe *r = &rq[end][rq_posted[end]++ % FAKE_SQ];

	memset(r, 0, sizeof(*r));
	r->segs = 1;
	r->seg[0].len = r->room = len;
	r->seg[0].lkey = key_of(end);
	r->seg[0].addr = FAKE_VA + local;
	return r;
}

#endif
