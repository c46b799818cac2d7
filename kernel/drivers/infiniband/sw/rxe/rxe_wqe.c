// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Work requests of user space
 *
 * A user posts a work request by writing it to a queue that is mapped into the
 * process, so any thread of the process can change the request at any time.
 * rxe copies each request once, checks the copy, and works on the copy. What rxe
 * notes about its progress is in the copy, too. What else it reads from such a
 * queue is the producer index, and the wr_id of a request that it flushes.
 *
 * The send queue of a user QP has an array of copies with the slots of the queue.
 * The slots from the consumer index up to sq.copied have been copied; the send
 * task, or who has stopped it, is the only one to touch them. The send queue of
 * a ULP is trusted and is used in place.
 *
 * A receive has a single copy, in the QP, because a QP works on one receive at a
 * time.
 */

#include <linux/vmalloc.h>

#include "rxe.h"
#include "rxe_loc.h"
#include "rxe_queue.h"

/**
 * rxe_sq_init_copies - allocate the copies of a user's send work requests
 * @qp: QP of a user; its send queue exists
 *
 * Context: process context.
 *
 * Return: 0, or -ENOMEM. rxe_sq_free_copies() frees them.
 */
int rxe_sq_init_copies(struct rxe_qp *qp)
{
	struct rxe_queue *q = qp->sq.queue;
	size_t slots = (size_t)q->index_mask + 1;

	/* A slot is copied before it is read. */
	qp->sq.copies = __vmalloc(slots << q->log2_elem_size,
				  GFP_KERNEL_ACCOUNT);
	return qp->sq.copies ? 0 : -ENOMEM;
}

void rxe_sq_free_copies(struct rxe_qp *qp)
{
	vfree(qp->sq.copies);
	qp->sq.copies = NULL;
}

/**
 * rxe_sq_wqe - get the work request in a slot of the send queue
 * @qp: the QP
 * @index: the slot, between the consumer index and rxe_sq_end()
 *
 * Return: the request, which only the kernel can write
 */
struct rxe_send_wqe *rxe_sq_wqe(struct rxe_qp *qp, u32 index)
{
	struct rxe_queue *q = qp->sq.queue;

	if (!qp->sq.copies)
		return queue_addr_from_index(q, index);

	return qp->sq.copies + ((size_t)(index & q->index_mask) <<
				q->log2_elem_size);
}

/**
 * rxe_sq_end - get the index behind the requests that can be worked on
 * @qp: the QP
 *
 * Return: an index from 0 to the queue's index_mask
 */
u32 rxe_sq_end(struct rxe_qp *qp)
{
	if (qp->sq.copies)
		return qp->sq.copied;

	return queue_get_producer(qp->sq.queue, QUEUE_TYPE_FROM_CLIENT);
}

static enum ib_wc_status rxe_copy_sges(struct rxe_qp *qp,
				       const struct rxe_send_wqe *user,
				       struct rxe_send_wqe *wqe)
{
	u64 sum = 0;
	u32 i;

	if (wqe->dma.num_sge > qp->sq.max_sge)
		return IB_WC_LOC_QP_OP_ERR;

	memcpy(wqe->dma.sge, user->dma.sge,
	       wqe->dma.num_sge * sizeof(struct rxe_sge));
	barrier();

	for (i = 0; i < wqe->dma.num_sge; i++)
		sum += wqe->dma.sge[i].length;

	return wqe->dma.length > sum ? IB_WC_LOC_LEN_ERR : IB_WC_SUCCESS;
}

/* Copy what follows the WQE in its slot, and check it and its length. */
static enum ib_wc_status rxe_copy_data(struct rxe_qp *qp,
				       const struct rxe_send_wqe *user,
				       struct rxe_send_wqe *wqe)
{
	u32 length = wqe->dma.length;

	if (!wqe->mask)
		return IB_WC_LOC_QP_OP_ERR;

	if (wqe->mask & (WR_LOCAL_OP_MASK | WR_FLUSH_MASK))
		return IB_WC_SUCCESS;

	if (length > RXE_PORT_MAX_MSG_SZ)
		return IB_WC_LOC_LEN_ERR;

	if (wqe->mask & WR_ATOMIC_WRITE_MASK) {
		if (length != sizeof(u64) || qp->sq.max_inline < sizeof(u64))
			return IB_WC_LOC_LEN_ERR;

		memcpy(wqe->dma.atomic_wr, user->dma.atomic_wr, sizeof(u64));
		return IB_WC_SUCCESS;
	}

	if (wqe->mask & WR_INLINE_MASK &&
	    wqe->wr.send_flags & IB_SEND_INLINE) {
		if (length > qp->sq.max_inline)
			return IB_WC_LOC_LEN_ERR;

		memcpy(wqe->dma.inline_data, user->dma.inline_data, length);
		return IB_WC_SUCCESS;
	}

	return rxe_copy_sges(qp, user, wqe);
}

static void rxe_copy_send_wqe(struct rxe_qp *qp,
			      const struct rxe_send_wqe *user,
			      struct rxe_send_wqe *wqe)
{
	memcpy(wqe, user, sizeof(*wqe));
	/* From here on the compiler must not read *user in place of *wqe. */
	barrier();

	wqe->mask = wr_opcode_mask(wqe->wr.opcode, qp);
	wqe->iova = rxe_wqe_iova(wqe);
	wqe->first_psn = 0;
	wqe->last_psn = 0;
	wqe->has_rd_atomic = 0;
	wqe->dma.resid = wqe->dma.length;
	wqe->dma.cur_sge = 0;
	wqe->dma.sge_offset = 0;
	wqe->status = rxe_copy_data(qp, user, wqe);
	wqe->state = wqe->status == IB_WC_SUCCESS ? wqe_state_posted :
						    wqe_state_error;
}

/* Copy one more request, if there is one and there is room for it. */
static bool rxe_sq_copy_next(struct rxe_qp *qp)
{
	struct rxe_queue *q = qp->sq.queue;
	u32 index = qp->sq.copied;
	u32 next = queue_next_index(q, index);
	u32 prod = queue_get_producer(q, QUEUE_TYPE_FROM_CLIENT);

	/* A producer index that the user has made up fills the queue at most. */
	if (index == (prod & q->index_mask) ||
	    next == queue_get_consumer(q, QUEUE_TYPE_FROM_CLIENT))
		return false;

	rxe_copy_send_wqe(qp, queue_addr_from_index(q, index),
			  rxe_sq_wqe(qp, index));
	qp->sq.copied = next;
	return true;
}

/**
 * rxe_sq_next - get the work request that the requester comes to next
 * @qp: the QP
 *
 * A request that is malformed is in wqe_state_error, with its status.
 *
 * Context: the send task, or with the send task stopped.
 *
 * Return: the request at req.wqe_index, or NULL if none is posted there
 */
struct rxe_send_wqe *rxe_sq_next(struct rxe_qp *qp)
{
	u32 index = qp->req.wqe_index;

	if (index == rxe_sq_end(qp) &&
	    !(qp->sq.copies && rxe_sq_copy_next(qp)))
		return NULL;

	return rxe_sq_wqe(qp, index);
}

/**
 * rxe_sq_head - get the oldest work request that is not completed
 * @qp: the QP
 *
 * Context: as rxe_sq_next().
 *
 * Return: the request, or NULL if there is none or the requester has not come
 * to it
 */
struct rxe_send_wqe *rxe_sq_head(struct rxe_qp *qp)
{
	u32 cons = queue_get_consumer(qp->sq.queue, QUEUE_TYPE_FROM_CLIENT);

	return cons == rxe_sq_end(qp) ? NULL : rxe_sq_wqe(qp, cons);
}

/**
 * rxe_sq_count - count the work requests that are not completed
 * @qp: the QP
 *
 * A user who moves the producer index back takes none back that was copied.
 *
 * Context: as rxe_sq_next().
 */
u32 rxe_sq_count(struct rxe_qp *qp)
{
	struct rxe_queue *q = qp->sq.queue;
	u32 count = queue_count(q, QUEUE_TYPE_FROM_CLIENT);
	u32 cons = queue_get_consumer(q, QUEUE_TYPE_FROM_CLIENT);

	if (!qp->sq.copies)
		return count;

	return max(count, (qp->sq.copied - cons) & q->index_mask);
}

/**
 * rxe_sq_head_id - get the wr_id of the oldest work request that is posted
 * @qp: the QP; its send queue is not empty
 *
 * The requester need not have come to it: a flush needs no more of a request, so it
 * does not copy the others, which may be many.
 *
 * Context: as rxe_sq_next().
 */
u64 rxe_sq_head_id(struct rxe_qp *qp)
{
	struct rxe_queue *q = qp->sq.queue;
	u32 cons = queue_get_consumer(q, QUEUE_TYPE_FROM_CLIENT);
	const struct rxe_send_wqe *user;

	if (cons != rxe_sq_end(qp))
		return rxe_sq_wqe(qp, cons)->wr.wr_id;

	user = queue_addr_from_index(q, cons);
	return READ_ONCE(user->wr.wr_id);
}

/**
 * rxe_sq_drop_head - remove the oldest work request that is posted
 * @qp: the QP; its send queue is not empty
 *
 * Context: as rxe_sq_next().
 */
void rxe_sq_drop_head(struct rxe_qp *qp)
{
	struct rxe_queue *q = qp->sq.queue;
	u32 cons = queue_get_consumer(q, QUEUE_TYPE_FROM_CLIENT);

	if (qp->sq.copies && cons == qp->sq.copied)
		qp->sq.copied = queue_next_index(q, cons);
	queue_advance_consumer(q, QUEUE_TYPE_FROM_CLIENT);
}

/**
 * rxe_copy_recv_wqe - copy a receive work request into the QP and check it
 * @qp: the QP; resp.wqe is set to the copy
 * @rq: the receive queue, or that of the SRQ
 * @user: the request in the queue
 *
 * Context: the receive task, with consumer_lock of an SRQ.
 *
 * Return: 0, or -EINVAL if the request is malformed
 */
int rxe_copy_recv_wqe(struct rxe_qp *qp, const struct rxe_rq *rq,
		      const struct rxe_recv_wqe *user)
{
	struct rxe_recv_wqe *wqe = &qp->resp.srq_wqe.wqe;
	u64 length = 0;
	u32 i;

	memcpy(wqe, user, sizeof(*wqe));
	barrier(); /* as in rxe_copy_send_wqe() */

	if (wqe->dma.num_sge > rq->max_sge)
		return -EINVAL;

	memcpy(wqe->dma.sge, user->dma.sge,
	       wqe->dma.num_sge * sizeof(struct rxe_sge));
	barrier();

	for (i = 0; i < wqe->dma.num_sge; i++)
		length += wqe->dma.sge[i].length;

	if (length > U32_MAX)
		return -EINVAL;

	wqe->dma.length = length;
	wqe->dma.resid = length;
	wqe->dma.cur_sge = 0;
	wqe->dma.sge_offset = 0;
	qp->resp.wqe = wqe;
	return 0;
}
