// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The queues of a QP: doorbells, send and receive WQEs, and the flush in the error states
 * (IBA 10.3.1, 10.8; PRM, "Send queue", "Receive queue").
 *
 * A queue is a ring of which the guest moves the producer, a 16-bit counter in the doorbell
 * record, and the model the consumer, which the guest never sees.  The record is read once,
 * and it counts only if it is at most the size of the queue ahead of the consumer: that one
 * check bounds all work that a doorbell can cause.
 *
 * The record may be ahead of the doorbell: what it counts then has a doorbell of its own,
 * which is still on its way, and so may be stores to device memory that precede that one.
 * So a doorbell that says up to where it goes causes no more work than that.
 *
 * A QP that fails changes its state at once and flushes in later turns of the loop: its
 * caller may be in the middle of what is about to be flushed.  Nothing tells the device of
 * receives that are posted to a QP in error, so a timer looks for them, less and less often.
 */
#include "qp.h"
#include "cq.h"
#include "dma.h"
#include "eq.h"
#include "hca.h"
#include "ifc.h"
#include "mcg.h"
#include "table.h"
#include "trace.h"
#include <errno.h>

#define FLUSH_TURN 64			/* WQEs of each queue */
#define FLUSH_FIRST 1000000ull		/* ns until the first look at the receive queue */
#define FLUSH_LAST 1000000000ull	/* and between looks in the end */

enum { RECORD_RECV, RECORD_SEND };

struct qp *qp_get(struct hca *hca, uint32_t number)
{
	return table_get(&hca->qps, number);
}

void qp_event(struct qp *qp, unsigned int type)
{
	/* struct mlx5_eqe_qp_srq: the type of queue in byte 20 (0 is a QP), its number in 24. */
	u8 data[28] = { 0 };

	/* Its half-connections fail one by one, and the DCT goes on. */
	if (qp->service == QP_DCT)
		return;
	put_be32(data + 24, qp->number);
	trace("qp %#x: event %#x", qp->number, type);
	event_send(qp->hca, type, 0, data, sizeof(data));
}

/* How many the guest posted that are not consumed, or a negative errno. */
static int posted(struct qp *qp, unsigned int record, uint16_t consumer, uint32_t size)
{
	uint16_t count;
	uint32_t value;

	if (!size || dma_load_be32(qp->hca->dma, qp->doorbell + 4 * record, &value))
		return -EFAULT;
	count = value - consumer;
	return count > size ? -EINVAL : count;
}

void qp_start_sends(struct qp *qp, int end)
{
	struct requester *r = &qp->req;
	uint16_t known = r->producer - r->consumer, ahead = end - r->consumer;
	int count;

	if (!qp->sq_size)
		return;
	count = posted(qp, RECORD_SEND, r->consumer, qp->sq_size);
	if (count < 0) {
		qp_error(qp, MLX5_EVENT_TYPE_CODING_LOCAL_WQ_CATASTROPHIC_ERROR);
		return;
	}
	/* One that the guest made up counts as one that does not say it. */
	if (end >= 0 && ahead <= count)
		count = ahead > known ? ahead : known;
	r->producer = r->consumer + count;
	if (count)
		requester_run(qp);
}

void qp_doorbell(struct hca *hca, uint32_t number, int end)
{
	struct qp *qp = qp_get(hca, number);

	if (!qp)
		return;
	if (qp->state == QPS_RTS)
		qp_start_sends(qp, end);
	else if (qp->state == QPS_SQER || qp->state == QPS_ERR)
		qp_flush(qp);
	/* Before RTS it has no effect: the transition looks at the record. */
}

/* LEN bytes from byte OFFSET of the block INDEX on; the caller keeps to the ring's size. */
static int ring_read(struct qp *qp, uint16_t index, size_t offset, u8 *to, size_t len)
{
	size_t ring = (size_t)qp->sq_size * WQE_BB;
	size_t start = ((size_t)index * WQE_BB + offset) & (ring - 1);
	size_t first = len < ring - start ? len : ring - start;
	struct dma *dma = qp->hca->dma;
	int err;

	err = queue_buf_read(&qp->buf, dma, qp->sq_offset + start, to, first);
	if (!err && first < len)
		err = queue_buf_read(&qp->buf, dma, qp->sq_offset, to + first, len - first);
	return err;
}

/* The control segment, and how many blocks it claims: at most what is posted. */
static int fetch_control(struct qp *qp, uint16_t index, struct wqe *w)
{
	uint16_t left = qp->req.producer - index;
	unsigned int blocks;

	memset(w, 0, offsetof(struct wqe, seg));
	w->index = index;
	w->blocks = 1;
	if (!left || left > qp->sq_size || ring_read(qp, index, 0, w->bytes, 16))
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	w->opcode = w->bytes[3];
	w->size = wqe_size(w->bytes);
	blocks = (w->size + WQE_BB - 1) / WQE_BB;
	if (!blocks || blocks > left)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	w->blocks = blocks;
	return 0;
}

int qp_fetch(struct qp *qp, uint16_t index, struct wqe *w)
{
	int err = fetch_control(qp, index, w);

	if (!err && ring_read(qp, index, 16, w->bytes + 16, w->size - 16))
		err = MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	if (!err)
		err = wqe_parse(w, qp->service);
	trace("qp %#x: wqe %u op %#x, %zu bytes of wqe, %u segments%s", qp->number, index,
	      w->opcode, w->size, err ? 0 : w->segs, err ? ", refused" : "");
	return err;
}

static int take_own(struct qp *qp, struct recv_wqe *r)
{
	u8 bytes[RECV_WQE_MAX];
	uint16_t index = qp->resp.taken;
	uint64_t offset = (uint64_t)(index & (qp->rq_size - 1)) * qp->rq_stride;
	size_t skip = IFC_GET(qpc, qp->context, wq_signature) ? 16 : 0;
	int count = posted(qp, RECORD_RECV, index, qp->rq_size);

	if (!count)
		return 0;
	if (count < 0 || skip > qp->rq_stride ||
	    queue_buf_read(&qp->buf, qp->hca->dma, offset, bytes, qp->rq_stride)) {
		qp_error(qp, MLX5_EVENT_TYPE_CODING_LOCAL_WQ_CATASTROPHIC_ERROR);
		return -EINVAL;
	}
	recv_parse(r, bytes + skip, qp->rq_stride - skip);
	r->index = index;
	qp->resp.taken++;
	return 1;
}

int qp_take_recv(struct qp *qp, uint32_t srqn, struct recv_wqe *r, struct srq **srq)
{
	*srq = NULL;
	if (qp->service == QP_XRC_TGT) {
		struct srq *s = srq_get(qp->hca, srqn);

		if (!s || !s->xrc || s->xrcd != qp->xrcd)
			return -EINVAL;
		*srq = s;
		return srq_take(s, r);
	}
	if (qp->srq) {
		*srq = qp->srq;
		return srq_take(qp->srq, r);
	}
	return qp->rq_size ? take_own(qp, r) : -EINVAL;
}

/*
 * The receive WQE of a message went with the SRQ, and so the message is over: what follows of
 * it is out of sequence, and the QP fails.  Otherwise the next packet, which may name another
 * SRQ, would be written to the middle of a receive WQE from there.
 */
void qp_forget_srq(struct srq *srq)
{
	uint32_t number = 0;
	struct qp *qp;

	for (; (qp = table_next(&srq->hca->qps, &number)); number++) {
		if (!qp->resp.have_recv || qp->resp.srq != srq)
			continue;
		qp->resp.have_recv = false;
		qp->resp.srq = NULL;
		qp->resp.last_op = OP_NONE;
	}
}

/* What was sent and not acknowledged, oldest first. */
static void stop_sends(struct qp *qp)
{
	struct requester *r = &qp->req;
	uint16_t producer = r->producer, consumer = r->consumer;
	uint32_t psn = r->psn;
	unsigned int i;

	if (qp->sq_stopped)
		return;
	qp->sq_stopped = true;
	for (i = 0; i < r->count; i++)
		qp_complete_send(qp, r->unacked[(r->head + i) % QP_UNACKED].wqe,
				 MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
	requester_reset(qp);
	r->producer = producer;
	r->consumer = consumer;
	r->psn = r->sent_psn = r->acked_psn = psn;
}

void qp_stop_receives(struct qp *qp)
{
	static const struct recv_completion flushed = {
		.syndrome = MLX5_CQE_SYNDROME_WR_FLUSH_ERR,
	};
	uint16_t taken = qp->resp.taken;
	uint32_t psn = qp->resp.psn, msn = qp->resp.msn;

	if (qp->rq_stopped)
		return;
	qp->rq_stopped = true;
	odp_forget(qp->hca, qp->fault, 2);
	if (qp->resp.have_recv)
		qp_complete_recv(qp, &qp->resp.recv, qp->resp.srq, &flushed);
	responder_reset(qp);
	qp->resp.taken = taken;
	qp->resp.psn = psn;
	qp->resp.msn = msn;
}

/* How many; fewer than FLUSH_TURN: there are no more. */
static unsigned int flush_sends(struct qp *qp)
{
	struct requester *r = &qp->req;
	unsigned int done = 0;
	struct wqe w;
	int count;

	count = posted(qp, RECORD_SEND, r->consumer, qp->sq_size);
	if (count <= 0)
		return 0;
	r->producer = r->consumer + count;
	for (; done < FLUSH_TURN && r->consumer != r->producer; done++) {
		fetch_control(qp, r->consumer, &w);
		qp_complete_send(qp, &w, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
		r->consumer += w.blocks;
	}
	return done;
}

/* Of its own queue only: what is in an SRQ is for other QPs too. */
static unsigned int flush_receives(struct qp *qp)
{
	static const struct recv_completion flushed = {
		.syndrome = MLX5_CQE_SYNDROME_WR_FLUSH_ERR,
	};
	struct recv_wqe r;
	unsigned int done;

	for (done = 0; done < FLUSH_TURN && qp->rq_size && take_own(qp, &r) == 1; done++)
		qp_complete_recv(qp, &r, NULL, &flushed);
	return done;
}

/* Both queues of a QP in error are empty, for now. */
static void flushed_all(struct qp *qp, bool found)
{
	if (qp->srq && !qp->last_wqe) {
		qp->last_wqe = true;
		qp_event(qp, MLX5_EVENT_TYPE_CODING_LAST_WQE_REACHED);
	}
	if (!qp->rq_size)
		return;
	if (found)
		qp->flush_wait = FLUSH_FIRST;
	timer_start(qp->hca->loop, &qp->flush_poll, qp->flush_wait);
	qp->flush_wait = qp->flush_wait * 2 < FLUSH_LAST ? qp->flush_wait * 2 : FLUSH_LAST;
}

static void flush_turn(struct work *w)
{
	struct qp *qp = list_item(w, struct qp, flush);
	unsigned int sends, receives = 0;

	if (qp->state != QPS_ERR && qp->state != QPS_SQER)
		return;
	stop_sends(qp);
	sends = flush_sends(qp);
	if (qp->state == QPS_ERR) {
		qp_stop_receives(qp);
		receives = flush_receives(qp);
	}
	if (sends == FLUSH_TURN || receives == FLUSH_TURN)
		loop_work(qp->hca->loop, &qp->flush);
	else if (qp->state == QPS_ERR)
		flushed_all(qp, sends || receives);
}

static void flush_poll(struct timer *t)
{
	flush_turn(&list_item(t, struct qp, flush_poll)->flush);
}

void qp_flush(struct qp *qp)
{
	qp->flush_wait = FLUSH_FIRST;
	loop_work(qp->hca->loop, &qp->flush);
}

void qp_finish_flush(struct qp *qp)
{
	unsigned int done = 0, turn;

	work_stop(&qp->flush);
	stop_sends(qp);
	do {	/* at most as much as fits: the guest may go on posting */
		turn = flush_sends(qp);
		done += turn;
	} while (turn == FLUSH_TURN && done < qp->sq_size);
	qp->sq_stopped = false;
}

/* Nothing that runs by itself goes on; what it holds is freed by the flush. */
static void quiesce_sends(struct qp *qp)
{
	timer_stop(&qp->req.retry);
	timer_stop(&qp->req.rnr);
	work_stop(&qp->req.work);
}

void qp_error(struct qp *qp, int event_type)
{
	if (qp->state == QPS_ERR)
		return;
	qp->state = QPS_ERR;
	quiesce_sends(qp);
	work_stop(&qp->resp.work);
	if (event_type)
		qp_event(qp, event_type);
	qp_flush(qp);
}

void qp_sq_error(struct qp *qp)
{
	if (qp->state != QPS_RTS)
		return;
	qp->state = QPS_SQER;
	quiesce_sends(qp);
	qp_flush(qp);
}

void qp_init(struct qp *qp)
{
	list_init(&qp->mcgs);
	work_init(&qp->flush, flush_turn);
	timer_init(&qp->flush_poll, flush_poll);
	requester_init(qp);
	responder_init(qp);
}

void qp_stop(struct qp *qp)
{
	work_stop(&qp->flush);
	timer_stop(&qp->flush_poll);
	odp_forget(qp->hca, qp->fault, 2);
	requester_reset(qp);
	responder_reset(qp);
	requester_init(qp);
	responder_init(qp);
	qp->req.producer = qp->req.consumer = 0;
	qp->resp.taken = 0;
	qp->comm_est = qp->sq_stopped = qp->rq_stopped = qp->last_wqe = false;
	qp->dc.open = false;
}

void qp_free(struct qp *qp)
{
	struct hca *hca = qp->hca;

	qp_stop(qp);
	if (qp->dct)
		dct_free(qp);
	mcg_detach_all(qp);
	for (unsigned int i = 0; i < 2; i++)
		if (hca->special[i] == qp)
			hca->special[i] = NULL;
	if (qp->send_cq)
		qp->send_cq->users--;
	if (qp->recv_cq)
		qp->recv_cq->users--;
	if (qp->srq)
		qp->srq->users--;
	if (qp->uar)
		hca_uar_put(hca, qp->uar);
	queue_buf_free(hca, &qp->buf);
	umem_put(&qp->umems);
	hca_free_memory(hca, qp, sizeof(*qp));
}

static void free_one(void *arg, void *object)
{
	qp_free(object);
}

void qp_reset_all(struct hca *hca)
{
	table_clear(&hca->qps, free_one, NULL);
}
