// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The responses to what an RC, XRC or DC requester sent (IBA 9.7.5): acknowledgements, NAKs,
 * the data of reads and the results of atomics; and the timers that notice their absence.
 *
 * Only a PSN from acked_psn up to sent_psn is looked at, all else is old or was made up.
 * A response for a request acknowledges everything before it; if a read or atomic before it
 * was not answered, that answer was lost (9.7.5.1.1, "implied NAK"), and the requester goes
 * back for it once.  A response is written to memory only at the place of the very next one
 * that is missing.
 */
#include "hca.h"
#include "ifc.h"
#include "link.h"
#include "list.h"
#include "loop.h"
#include "mkey.h"
#include "packet.h"
#include "qp.h"
#include "transport.h"

/*
 * The model's own turns and the scheduling of its process take a part of every round trip:
 * a timeout below 4096 ns << 10, about 4 ms, would expire without a loss.
 */
#define ACK_TIMEOUT_LEAST 10
#define RNR_FOREVER 7

/* IBA table 45, in units of 10 us. */
static const uint32_t rnr_delay[32] = {
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

static bool in_flight(const struct requester *r)
{
	return r->sent_psn != r->acked_psn;
}

/*
 * IBA 9.7.6.1.3 lets the timer expire after one to four times the timeout that a QP asks for.
 * The first time it is one, so that what is lost comes soon; then two and four, because the other
 * end may have no CPU of its host for a while.  A program that asks for 67 ms and seven retries,
 * as many do, gives up after 1.8 seconds.
 */
static uint64_t ack_timeout(const struct qp *qp)
{
	unsigned int t = qp->ack_timeout & 31, used = qp->retry_count - qp->req.retries;

	if (!t)
		return 0;
	return 4096ull << (t < ACK_TIMEOUT_LEAST ? ACK_TIMEOUT_LEAST : t) << (used < 2 ? used : 2);
}

void completer_wait_anew(struct qp *qp)
{
	qp->req.deadline = loop_now(qp->hca->loop) + ack_timeout(qp);
}

/* The oldest WQE that is not complete ends with an error. */
static void fail_oldest(struct qp *qp, u8 syndrome)
{
	if (qp->req.count)
		requester_entry(&qp->req, 0)->syndrome = syndrome;
	requester_complete(qp);
}

/* Something was lost: send all again that is not acknowledged. */
static void go_back(struct qp *qp)
{
	struct requester *r = &qp->req;

	requester_complete(qp);
	if (!qp_can_send(qp))
		return;
	if (!r->retries) {
		fail_oldest(qp, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
		return;
	}
	r->retries--;
	completer_wait_anew(qp);
	requester_seek(qp, r->acked_psn);
	requester_run(qp);
}

/* A later response came instead of the one for acked_psn. */
static void response_lost(struct qp *qp)
{
	if (qp->req.lost)
		return;
	qp->req.lost = true;
	go_back(qp);
}

static void progress(struct qp *qp, uint32_t psn)
{
	struct requester *r = &qp->req;

	if (psn_diff(psn, r->acked_psn) <= 0)
		return;
	r->acked_psn = psn;
	r->retries = qp->retry_count;
	r->rnr_retries = qp->rnr_retry;
	r->lost = false;
	completer_wait_anew(qp);
	if (psn_diff(psn, r->psn) > 0)
		requester_seek(qp, psn);
}

/*
 * Everything before PSN is acknowledged.  false: a read or atomic is there that was not
 * answered; what precedes it is acknowledged.
 */
static bool acknowledge(struct qp *qp, uint32_t psn)
{
	struct requester *r = &qp->req;

	/* It may be in the middle of a read, of which all before was answered. */
	if (psn == r->acked_psn)
		return true;
	for (unsigned int i = 0; i < r->count; i++) {
		struct unacked *u = requester_entry(r, i);

		if (u->done)
			continue;
		if (psn_diff(u->first_psn, psn) >= 0)
			break;
		if (wqe_has_response(u->wqe)) {
			progress(qp, u->first_psn);
			return false;
		}
		if (psn_diff(u->last_psn, psn) >= 0)
			break;
		u->done = true;
	}
	progress(qp, psn);
	return true;
}

/*
 * It went back, and sent nothing since, for instance because the link has no packet.  A NAK that
 * asks for the same is a second copy, or is for a packet that it will send again anyway, and
 * there is nothing that the timer can miss.  Neither costs a retry.
 */
static bool went_back(const struct requester *r)
{
	return r->psn == r->acked_psn;
}

static void receive_nak(struct qp *qp, const struct packet *p)
{
	switch (p->syndrome & 0x1f) {
	case NAK_SEQUENCE:
		if (!went_back(&qp->req))
			go_back(qp);
		break;
	case NAK_INVALID_REQUEST:
		fail_oldest(qp, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
		break;
	case NAK_REMOTE_ACCESS:
		fail_oldest(qp, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
		break;
	case NAK_REMOTE_OP:
		fail_oldest(qp, MLX5_CQE_SYNDROME_REMOTE_OP_ERR);
		break;
	default:
		fail_oldest(qp, MLX5_CQE_SYNDROME_BAD_RESP_ERR);
	}
}

static void receive_rnr(struct qp *qp, const struct packet *p)
{
	struct requester *r = &qp->req;

	if (went_back(r))
		return;
	if (qp->rnr_retry != RNR_FOREVER) {
		if (!r->rnr_retries) {
			fail_oldest(qp, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
			return;
		}
		r->rnr_retries--;
	}
	r->waits_rnr = true;
	requester_seek(qp, r->acked_psn);
	timer_start(qp->hca->loop, &r->rnr, rnr_delay[p->syndrome & 0x1f] * 10000ull);
}

static void receive_ack(struct qp *qp, const struct packet *p)
{
	u8 class = p->syndrome & 0x60;
	bool answered;

	if (class != AETH_ACK && class != AETH_NAK && class != AETH_RNR_NAK)
		return;
	/* A NAK is for PSN itself, an ACK is also for PSN. */
	answered = acknowledge(qp, (p->psn + (class == AETH_ACK)) & PSN_MASK);
	requester_complete(qp);
	if (!qp_can_send(qp))
		return;
	if (!answered) {
		response_lost(qp);
		return;
	}
	if (class == AETH_NAK)
		receive_nak(qp, p);
	else if (class == AETH_RNR_NAK)
		receive_rnr(qp, p);
}

/* The oldest read or atomic that was sent and is not answered. */
static struct unacked *unanswered(struct requester *r)
{
	for (unsigned int i = 0; i < r->count; i++) {
		struct unacked *u = requester_entry(r, i);

		if (u->sent && !u->done && wqe_has_response(u->wqe))
			return u;
	}
	return NULL;
}

/* Whether P is what a response at this place has to be. */
static bool response_fits(struct qp *qp, const struct unacked *u, const struct packet *p)
{
	uint64_t left = u->wqe->length - u->received;

	switch (packet_operation(p)) {
	case IB_ATOMIC_ACK:
		return wqe_is_atomic(u->wqe);
	case IB_READ_RESP_FIRST:
	case IB_READ_RESP_MIDDLE:
		return !wqe_is_atomic(u->wqe) && p->length == qp_mtu(qp) && left > p->length;
	case IB_READ_RESP_LAST:
	case IB_READ_RESP_ONLY:
		return !wqe_is_atomic(u->wqe) && p->length == left && left <= qp_mtu(qp);
	}
	return false;
}

static enum mkey_result store_response(struct qp *qp, const struct unacked *u,
				       const struct packet *p, struct mkey_fault *fault)
{
	/* The driver selects host endianness for the results of atomics. */
	uint64_t original = htole64(p->original);

	if (wqe_is_atomic(u->wqe))
		return transport_scatter_wqe(qp, u->wqe, 0, &original, sizeof(original), fault);
	return transport_scatter_wqe(qp, u->wqe, u->received, p->payload, p->length, fault);
}

/* The data of a read, or the result of an atomic. */
static void receive_response(struct qp *qp, const struct packet *p)
{
	struct requester *r = &qp->req;
	struct unacked *u = unanswered(r);
	struct mkey_fault fault;
	enum mkey_result result;
	uint32_t expected;

	if (!u)
		return;
	expected = (u->first_psn + u->received / qp_mtu(qp)) & PSN_MASK;
	if (psn_diff(p->psn, expected) < 0)
		return;
	acknowledge(qp, u->first_psn);
	requester_complete(qp);		/* U stays where it is in the ring */
	if (!qp_can_send(qp))
		return;
	if (p->psn != expected) {
		response_lost(qp);
		return;
	}
	if (!response_fits(qp, u, p)) {
		u->syndrome = MLX5_CQE_SYNDROME_BAD_RESP_ERR;
		requester_complete(qp);
		return;
	}
	result = store_response(qp, u, p, &fault);
	if (result == MKEY_ABSENT) {
		/* First, because the fault may be over when this returns. */
		r->fault_response = true;
		if (r->waits_fault || requester_fault(qp, p->psn, &fault))
			return;
		r->fault_response = false;
	}
	if (result != MKEY_OK) {
		u->syndrome = MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
		requester_complete(qp);
		return;
	}
	requester_found(r, p->psn);
	u->received += wqe_is_atomic(u->wqe) ? 0 : p->length;
	u->done = p->psn == u->last_psn;
	progress(qp, (p->psn + 1) & PSN_MASK);
	requester_complete(qp);
}

void requester_receive(struct qp *qp, struct packet *p)
{
	struct requester *r = &qp->req;

	if (qp_can_send(qp) && in_flight(r) && !r->fault_response &&
	    psn_diff(p->psn, r->acked_psn) >= 0 && psn_diff(p->psn, r->sent_psn) < 0) {
		if (packet_operation(p) == IB_ACK)
			receive_ack(qp, p);
		else
			receive_response(qp, p);
		requester_run(qp);
	}
	link_packet_free(qp->hca->link, p);
}

void completer_start_timer(struct qp *qp)
{
	struct requester *r = &qp->req;
	uint64_t timeout = ack_timeout(qp);

	if (!timeout)
		return;
	/*
	 * The timer runs on while packets come and go; it looks at the deadline when it
	 * expires.
	 */
	r->deadline = loop_now(qp->hca->loop) + timeout;
	if (!timer_runs(&r->retry))
		timer_start(qp->hca->loop, &r->retry, timeout);
}

static void retry_expired(struct timer *t)
{
	struct qp *qp = list_item(t, struct qp, req.retry);
	struct requester *r = &qp->req;
	uint64_t now = loop_now(qp->hca->loop), timeout = ack_timeout(qp);

	if (!qp_can_send(qp))
		return;
	if (!in_flight(r)) {
		dci_close(qp);		/* idle since the last answer */
		requester_run(qp);	/* it may have waited for memory */
		return;
	}
	if (!timeout)
		return;
	if (r->waits_rnr || r->waits_fault || went_back(r)) {
		r->deadline = now + timeout;
	} else if (now >= r->deadline) {
		r->lost = false;
		go_back(qp);
	}
	if (qp_can_send(qp) && in_flight(r))
		timer_start(qp->hca->loop, t, r->deadline - now);
}

static void rnr_expired(struct timer *t)
{
	struct qp *qp = list_item(t, struct qp, req.rnr);
	struct requester *r = &qp->req;

	r->waits_rnr = false;
	completer_wait_anew(qp);
	requester_run(qp);
}

void completer_init(struct qp *qp)
{
	timer_init(&qp->req.retry, retry_expired);
	timer_init(&qp->req.rnr, rnr_expired);
}
