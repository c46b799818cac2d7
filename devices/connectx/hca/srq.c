// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Taking receive WQEs from a shared receive queue, and what a receive WQE says
 * (mlx5dv.h: mlx5_wqe_srq_next_seg, mlx5_wqe_data_seg; IBA volume 1, 10.2.9).
 *
 * A WQE of a linked list begins with a segment that has the index of the WQE after it.  The
 * guest sets that link before it counts the WQE in the doorbell record, and always keeps one
 * WQE more than it posts, so the link of a posted WQE is good.  The first WQE is number 0.
 *
 * Links and the counter are the guest's.  A link is used only if it is inside the queue,
 * the counter only if it says that at most the whole queue is posted.  Each take is one
 * step, so a list that runs in a circle gives the same WQEs again, as often as the counter
 * allows, and no more.
 */
#include "srq.h"
#include "dma.h"
#include "eq.h"
#include "hca.h"
#include "ifc.h"
#include "table.h"
#include "trace.h"
#include "wqe.h"
#include <errno.h>

#define LINK_BYTES sizeof(struct mlx5_wqe_srq_next_seg)
#define SEG(name) offsetof(struct mlx5_wqe_data_seg, name)
#define INVALID_LKEY 0x100		/* MLX5_INVALID_LKEY of libmlx5 */

struct srq *srq_get(struct hca *hca, uint32_t number)
{
	return table_get(&hca->srqs, number);
}

/*
 * The list ends at an entry of the invalid lkey and no length, or with the WQE.  The lkey
 * alone does not end it, as it is also the reserved lkey that privileged queues may use.
 *
 * Length 0 is 2 GiB, as on the hardware: mlx5_ib's page fault handler says so, and libmlx5
 * leaves empty segments out of its receive queues.  Into an SRQ it writes them, as the
 * kernel does into both; there a message without data touches neither reading, and one
 * with data meets the segment's key and bounds.  The high bit is that of inline data,
 * which a receive does not have.
 */
void recv_parse(struct recv_wqe *r, const u8 *bytes, size_t len)
{
	const size_t step = sizeof(struct mlx5_wqe_data_seg);

	r->segs = 0;
	r->room = 0;
	for (; len >= step && r->segs < RECV_SEGS; bytes += step, len -= step) {
		uint32_t count = be32_at(bytes + SEG(byte_count)) & ~MLX5_INLINE_SEG;
		uint32_t lkey = be32_at(bytes + SEG(lkey));

		if (!count && lkey == INVALID_LKEY)
			break;
		if (!count)
			count = 1u << 31;
		r->seg[r->segs].len = count;
		r->seg[r->segs].lkey = lkey;
		r->seg[r->segs].addr = be64_at(bytes + SEG(addr));
		r->segs++;
		r->room += count;
	}
	/* The completion has 32 bits for the length of what a peer sends. */
	if (r->room > MESSAGE_MAX)
		r->room = MESSAGE_MAX;
}

static void srq_event(struct srq *srq, unsigned int type)
{
	u8 data[28] = { };

	put_be32(data + 24, srq->number);
	event_send(srq->hca, type, 0, data, sizeof(data));
}

static int srq_fail(struct srq *srq, const char *why)
{
	srq->error = true;
	trace("SRQ %#x: %s", srq->number, why);
	srq_event(srq, MLX5_EVENT_TYPE_CODING_LOCAL_SRQ_CATASTROPHIC_ERROR);
	return -EINVAL;
}

/* Also when there is nothing to take: else nobody would be told of a queue that is empty. */
static void srq_check_limit(struct srq *srq, uint16_t left)
{
	if (left >= srq->limit)
		return;
	srq->limit = 0;
	srq_event(srq, MLX5_EVENT_TYPE_CODING_SRQ_LIMIT);
}

int srq_take(struct srq *srq, struct recv_wqe *r)
{
	uint32_t size = 1u << srq->log_size, counter;
	const size_t link = srq->bare ? 0 : LINK_BYTES;
	uint16_t posted, index, next;
	u8 wqe[RECV_WQE_MAX];

	if (srq->error)
		return -EINVAL;
	if (dma_load_be32(srq->hca->dma, srq->doorbell, &counter))
		return srq_fail(srq, "doorbell record is not mapped");
	posted = counter - srq->taken;
	if (posted > size)
		return srq_fail(srq, "more is posted than the queue holds");
	if (!posted) {
		srq_check_limit(srq, 0);
		return 0;
	}
	index = srq->cyclic ? srq->taken & (size - 1) : srq->head;
	if (queue_buf_read(&srq->buf, srq->hca->dma, (uint64_t)index * srq->stride, wqe,
			   srq->stride))
		return srq_fail(srq, "buffer is not mapped");
	if (!srq->cyclic) {
		next = be16_at(wqe + offsetof(struct mlx5_wqe_srq_next_seg, next_wqe_index));
		if (next >= size)
			return srq_fail(srq, "a link leads out of the queue");
		srq->head = next;
	}
	recv_parse(r, wqe + link, srq->stride - link);
	r->index = index;
	srq->taken++;
	srq_check_limit(srq, posted - 1);
	return 1;
}
