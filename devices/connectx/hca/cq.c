// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Completion queues: CREATE_CQ, DESTROY_CQ, QUERY_CQ, MODIFY_CQ (moderation and resize),
 * the entries, and when a completion becomes an event (mlx5_ifc.h: cqc; mlx5dv.h:
 * mlx5_cqe64; PRM, "Completion Queues"; IBA volume 1, 10.2.7 and 11.4.2.2).
 *
 * An entry is 64 bytes, or 128 of which the second half is the entry; the first half is
 * written, with zeros, if the CQ asks for this padding.  The owner bit, in the last byte, is
 * the lap of the producer index and is written last.
 *
 * The doorbell record has the guest's consumer index.  It is read when the CQ seems full,
 * and only ever decides whether there is room, so whatever user space writes there, no
 * access leaves the buffer.  A CQ that has no room, or whose memory is gone, is in error:
 * one CQ error event, and then nothing more.
 *
 * An event tells of every completion that is there.  So a request is answered at once only if
 * there is one that the guest has not polled and no event has told of (last_notified_index);
 * after a request the guest polls what is left.
 *
 * A collapsed CQ writes every completion into its first entry: its guest wants the newest only.
 *
 * A resize writes a last entry of opcode 5 into the old buffer.  It takes one index, and
 * the guest copies what it has not polled to the index after, in the new buffer.
 */
#include "cq.h"
#include "dma.h"
#include "eq.h"
#include "ifc.h"
#include "table.h"
#include "trace.h"
#include <errno.h>

#define CQE_BYTES sizeof(struct mlx5_cqe64)
#define CQE_OWNER (CQE_BYTES - 1)
#define CQE_SZ_128_PADDED 2		/* CQE_STRIDE_128_PAD of mlx5_ib */
#define INDEX_MASK 0xffffffu
#define DB_SOLICITED BIT(24)
#define NO_EVENT_YET 0xff		/* no sequence number */

/* MODIFY_CQ: op_mod, and its bits for moderation and for resize. */
#define OPMOD_RESIZE 1
#define MODIFY_PERIOD BIT(0)
#define MODIFY_COUNT BIT(1)
#define MODIFY_OVERRUN BIT(2)
#define RESIZE_FIELDS 7u		/* size, page offset, page size: all or none */

/* CQ error event. */
#define SYNDROME_OVERRUN 1
#define SYNDROME_ACCESS 2

struct cq *cq_get(struct hca *hca, uint32_t number)
{
	return table_get(&hca->cqs, number);
}

bool cq_usable(const struct cq *cq)
{
	return !cq->error;
}

static uint32_t cq_size(const struct cq *cq)
{
	return 1u << cq->log_size;
}

static uint32_t cqe_bytes(const void *cqc)
{
	return IFC_GET(cqc, cqc, cqe_sz) == MLX5_CQC_CQE_SZ_64_BYTES ? CQE_BYTES : 2 * CQE_BYTES;
}

static uint32_t cq_unpolled(const struct cq *cq)
{
	return (cq->producer - cq->consumer) & INDEX_MASK;
}

static int cq_read_consumer(struct cq *cq)
{
	uint32_t index;
	int err = dma_load_be32(cq->hca->dma, cq->doorbell, &index);

	if (!err)
		cq->consumer = index & INDEX_MASK;
	return err;
}

/* 0, -ENOSPC or -EFAULT.  What was read before is a lower bound of the consumer. */
static int cq_room(struct cq *cq)
{
	int err;

	if (cq->ignore_overrun || cq_unpolled(cq) < cq_size(cq))
		return 0;
	err = cq_read_consumer(cq);
	if (err)
		return err;
	return cq_unpolled(cq) < cq_size(cq) ? 0 : -ENOSPC;
}

static int cq_write(struct cq *cq, const struct mlx5_cqe64 *cqe)
{
	static const u8 padding[CQE_BYTES];
	uint64_t index = cq->collapsed ? 0 : cq->producer & (cq_size(cq) - 1), owner;
	uint64_t offset = index * cq->entry_size + cq->entry_size - CQE_BYTES;
	u8 op_own = (cqe->op_own & ~MLX5_CQE_OWNER_MASK) | (cq->producer >> cq->log_size & 1);
	int err = 0;

	owner = queue_buf_addr(&cq->buf, offset + CQE_OWNER, &err);
	if (err)
		return err;
	if (IFC_GET(cqc, cq->context, cqe_sz) == CQE_SZ_128_PADDED &&
	    queue_buf_write(&cq->buf, cq->hca->dma, offset - CQE_BYTES, padding, CQE_BYTES))
		return -EFAULT;
	if (queue_buf_write(&cq->buf, cq->hca->dma, offset, cqe, CQE_OWNER))
		return -EFAULT;
	return dma_store8(cq->hca->dma, owner, op_own);
}

static void cq_fail(struct cq *cq, int err)
{
	bool overrun = err == -ENOSPC;
	u8 data[IFC_BYTES(cq_error)] = { };

	cq->error = true;
	IFC_SET(cqc, cq->context, status,
		overrun ? MLX5_CQC_STATUS_CQ_OVERFLOW : MLX5_CQC_STATUS_CQ_WRITE_FAIL);
	IFC_SET(cq_error, data, cqn, cq->number);
	IFC_SET(cq_error, data, syndrome, overrun ? SYNDROME_OVERRUN : SYNDROME_ACCESS);
	trace("CQ %#x: %s", cq->number, overrun ? "overrun" : "not mapped");
	event_send(cq->hca, MLX5_EVENT_TYPE_CODING_CQ_ERROR, 0, data, sizeof(data));
}

static void cq_send_event(struct cq *cq)
{
	u8 data[28] = { };

	put_be32(data + 24, cq->number);
	if (eq_push(cq->eq, MLX5_EVENT_TYPE_CODING_COMPLETION_EVENTS, 0, data,
		    sizeof(data)) == -ENOSPC && list_empty(&cq->waits))
		list_add(&cq->eq->waiting, &cq->waits);
}

void cq_event_again(struct cq *cq)
{
	cq_send_event(cq);
}

static void cq_moderation_stop(struct cq *cq)
{
	cq->count = 0;
	timer_stop(&cq->moderation);
}

static void cq_fire(struct cq *cq)
{
	cq_moderation_stop(cq);
	cq->arm = CQ_FIRED;
	cq->fired_sn = cq->arm_sn;
	cq->notified = cq->producer;
	cq_send_event(cq);
}

static void cq_moderation_expired(struct timer *t)
{
	cq_fire(list_item(t, struct cq, moderation));
}

/* A completion was written: now, later or not at all an event. */
static void cq_completed(struct cq *cq, bool solicited)
{
	if (solicited)
		cq->solicited = cq->producer;
	if (cq->arm == CQ_FIRED || (cq->arm == CQ_ARMED_SOLICITED && !solicited))
		return;
	/* Either of them 0: not moderated (PRM).  A count alone might wait for ever. */
	if (!cq->max_count || !cq->period_us || ++cq->count >= cq->max_count)
		cq_fire(cq);
	else if (!timer_runs(&cq->moderation))
		timer_start(cq->hca->loop, &cq->moderation, cq->period_us * 1000ull);
}

void cq_push(struct cq *cq, const struct mlx5_cqe64 *cqe, bool solicited)
{
	u8 opcode = cqe->op_own >> 4;
	int err;

	if (cq->error)
		return;
	err = cq_room(cq);
	if (!err)
		err = cq_write(cq, cqe);
	if (err) {
		cq_fail(cq, err);
		return;
	}
	cq->producer++;
	/* IBA 11.4.2.2: an error counts as solicited. */
	cq_completed(cq, solicited || opcode == MLX5_CQE_REQ_ERR || opcode == MLX5_CQE_RESP_ERR);
}

/*
 * The guest has seen the completions before CI, and those of which an event has told are no
 * news.  It wants an event for the next one, or the next solicited one.  If that one is there
 * already, the event comes at once.
 *
 * The sequence number counts the events that the guest has taken note of.  With that of
 * the last event, this doorbell was rung before the guest saw it; it will look at the CQ
 * anyway, and a second event would be for nothing.
 */
void cq_doorbell(struct hca *hca, uint32_t value, uint32_t number)
{
	struct cq *cq = cq_get(hca, number & INDEX_MASK);
	bool only_solicited = value & DB_SOLICITED;
	u8 sn = value >> 28 & 3;
	uint32_t unseen, news;

	if (!cq || cq->error || (cq->arm == CQ_FIRED && sn == cq->fired_sn))
		return;
	unseen = (cq->producer - value) & INDEX_MASK;
	if (!unseen)
		cq_moderation_stop(cq);
	cq->arm_sn = sn;
	/* A request for the next completion is not weakened by one for a solicited one. */
	if (cq->arm == CQ_ARMED && only_solicited)
		return;
	cq->arm = only_solicited ? CQ_ARMED_SOLICITED : CQ_ARMED;
	news = cq->producer - cq->notified;
	if (news > unseen)
		news = unseen;
	if (only_solicited ? news > cq->producer - cq->solicited : news)
		cq_fire(cq);
}

static void cq_unmap(struct cq *cq)
{
	queue_buf_free(cq->hca, &cq->buf);
	umem_put(&cq->umems);
}

static void cq_free(struct cq *cq)
{
	struct hca *hca = cq->hca;

	timer_stop(&cq->moderation);
	list_del(&cq->waits);
	cq->eq->users--;
	hca_uar_put(hca, cq->uar);
	cq_unmap(cq);
	hca_free_memory(hca, cq, sizeof(*cq));
}

static void cq_free_one(void *arg, void *object)
{
	cq_free(object);
}

void cq_free_all(struct hca *hca)
{
	table_clear(&hca->cqs, cq_free_one, NULL);
}

/* The fields that CREATE_CQ and a resize have in common. */
static enum cmd_status cq_check_size(struct cmd *cmd, const void *cqc)
{
	uint32_t cqe_sz = IFC_GET(cqc, cqc, cqe_sz), log_size = IFC_GET(cqc, cqc, log_cq_size);

	if (log_size > HCA_LOG_MAX_CQ)
		return REFUSE(cmd, CMD_BAD_PARAM, "log_cq_size %u", log_size);
	if (cqe_sz > CQE_SZ_128_PADDED)
		return REFUSE(cmd, CMD_BAD_PARAM, "cqe_sz %u", cqe_sz);
	return CMD_OK;
}

/* What no capability offers is refused. */
static enum cmd_status cq_check(struct hca *hca, struct cmd *cmd, const void *cqc)
{
	const struct eq *eq = eq_get(hca, IFC_GET(cqc, cqc, c_eqn_or_apu_element));

	if (IFC_GET(cqc, cqc, apu_cq) || IFC_GET(cqc, cqc, cqe_comp_en) ||
	    IFC_GET(cqc, cqc, cq_period_mode) || IFC_GET(cqc, cqc, scqe_break_moderation_en))
		return REFUSE(cmd, CMD_BAD_PARAM, "a CQ of a kind that is not offered");
	if (IFC_GET64(cqc, cqc, dbr_addr) & 7)
		return REFUSE(cmd, CMD_BAD_PARAM, "doorbell record at %#llx",
			      (unsigned long long)IFC_GET64(cqc, cqc, dbr_addr));
	if (!hca_uar(hca, cmd->uid, IFC_GET(cqc, cqc, uar_page)))
		return REFUSE(cmd, CMD_BAD_RES, "UAR %#x", IFC_GET(cqc, cqc, uar_page));
	if (!eq || (eq->uid != UID_SHARED && !uid_owns(cmd->uid, eq->uid)))
		return REFUSE(cmd, CMD_BAD_RES, "no EQ %#x",
			      IFC_GET(cqc, cqc, c_eqn_or_apu_element));
	return cq_check_size(cmd, cqc);
}

static void cq_init(struct cq *cq, struct hca *hca, const void *cqc)
{
	cq->hca = hca;
	cq->log_size = IFC_GET(cqc, cqc, log_cq_size);
	cq->entry_size = cqe_bytes(cqc);
	cq->doorbell = IFC_GET64(cqc, cqc, dbr_addr);
	cq->max_count = IFC_GET(cqc, cqc, cq_max_count);
	cq->period_us = IFC_GET(cqc, cqc, cq_period);
	cq->ignore_overrun = IFC_GET(cqc, cqc, oi);
	cq->collapsed = IFC_GET(cqc, cqc, cc);
	cq->fired_sn = NO_EVENT_YET;
	cq->eq = eq_get(hca, IFC_GET(cqc, cqc, c_eqn_or_apu_element));
	cq->uar = hca_uar(hca, 0, IFC_GET(cqc, cqc, uar_page));
	list_init(&cq->waits);
	timer_init(&cq->moderation, cq_moderation_expired);
	memcpy(cq->context, cqc, sizeof(cq->context));
	IFC_SET(cqc, cq->context, status, MLX5_CQC_STATUS_OK);
}

/* The buffer and the doorbell record, by the guest's pages or by umems. */
static enum cmd_status cq_map(struct cq *cq, struct cmd *cmd, const void *cqc)
{
	uint64_t bytes = (uint64_t)cq->entry_size << cq->log_size;
	enum cmd_status status;

	if (IFC_GET(create_cq_in, cmd->in, cq_umem_valid))
		status = umem_buffer(cq->hca, cmd, &cq->umems,
				     be32_at(cmd->in + CREATE_CQ_UMEM_ID),
				     be64_at(cmd->in + CREATE_CQ_UMEM_OFFSET), bytes, true,
				     &cq->buf);
	else
		status = queue_buf_init(cq->hca, cmd, &cq->buf, IFC_BYTES(create_cq_in),
					IFC_GET(cqc, cqc, log_page_size),
					IFC_GET(cqc, cqc, page_offset), bytes);
	if (status || !IFC_GET(cqc, cqc, dbr_umem_valid))
		return status;
	status = umem_doorbell(cq->hca, cmd, &cq->umems,
			       be32_at((const u8 *)cqc + CQC_DBR_UMEM_ID), &cq->doorbell);
	if (status)
		cq_unmap(cq);
	return status;
}

static enum cmd_status cmd_create_cq(struct hca *hca, struct cmd *cmd)
{
	const void *cqc = IFC_PTR(create_cq_in, cmd->in, cq_context);
	enum cmd_status status = cq_check(hca, cmd, cqc);
	struct cq *cq;
	int64_t number;

	if (status)
		return status;
	cq = hca_alloc(hca, sizeof(*cq));
	if (!cq)
		return REFUSE(cmd, CMD_NO_RESOURCES, "no memory for a CQ");
	cq_init(cq, hca, cqc);
	cq->uid = cmd->uid;
	status = cq_map(cq, cmd, cqc);
	if (status)
		goto free_cq;
	number = table_add(&hca->cqs, cq);
	if (number < 0) {
		status = REFUSE(cmd, CMD_NO_RESOURCES, "no number for a CQ");
		goto unmap;
	}
	cq->number = number;
	cq->eq->users++;
	cq->uar->users++;
	IFC_SET(create_cq_out, cmd->out, cqn, cq->number);
	cmd_says(cmd, "CQ %#x, %u entries of %u, EQ %#x", cq->number, cq_size(cq),
		 cq->entry_size, cq->eq->number);
	return CMD_OK;

unmap:
	cq_unmap(cq);
free_cq:
	hca_free_memory(hca, cq, sizeof(*cq));
	return status;
}

static enum cmd_status cmd_destroy_cq(struct hca *hca, struct cmd *cmd)
{
	uint32_t number = IFC_GET(destroy_cq_in, cmd->in, cqn);
	struct cq *cq = cq_of_user(hca, cmd->uid, number);

	if (!cq)
		return REFUSE(cmd, CMD_BAD_RES, "no CQ %#x", number);
	if (cq->users)
		return REFUSE(cmd, CMD_BAD_RES_STATE, "CQ %#x has %u users", number, cq->users);
	table_del(&hca->cqs, number);
	cq_free(cq);
	cmd_says(cmd, "CQ %#x", number);
	return CMD_OK;
}

static enum cmd_status cmd_query_cq(struct hca *hca, struct cmd *cmd)
{
	static const u8 states[] = {
		[CQ_FIRED] = MLX5_CQC_ST_FIRED,
		[CQ_ARMED] = MLX5_CQC_ST_NOTIFICATION_REQUEST_ARMED,
		[CQ_ARMED_SOLICITED] = MLX5_CQC_ST_SOLICITED_NOTIFICATION_REQUEST_ARMED,
	};
	uint32_t number = IFC_GET(query_cq_in, cmd->in, cqn);
	void *cqc = IFC_PTR(query_cq_out, cmd->out, cq_context);
	struct cq *cq = cq_of_user(hca, cmd->uid, number);

	if (!cq)
		return REFUSE(cmd, CMD_BAD_RES, "no CQ %#x", number);
	cq_read_consumer(cq);	/* if that fails, what was read before will do */
	memcpy(cqc, cq->context, sizeof(cq->context));
	IFC_SET(cqc, cqc, st, states[cq->arm]);
	IFC_SET(cqc, cqc, oi, cq->ignore_overrun);
	IFC_SET(cqc, cqc, cq_period, cq->period_us);
	IFC_SET(cqc, cqc, cq_max_count, cq->max_count);
	IFC_SET(cqc, cqc, last_notified_index, cq->notified);
	IFC_SET(cqc, cqc, last_solicit_index, cq->solicited);
	IFC_SET(cqc, cqc, consumer_counter, cq->consumer);
	IFC_SET(cqc, cqc, producer_counter, cq->producer);
	cmd_says(cmd, "CQ %#x", number);
	return CMD_OK;
}

static enum cmd_status cq_moderate(struct cq *cq, struct cmd *cmd, const void *cqc,
				   uint32_t fields)
{
	if (fields & ~(MODIFY_PERIOD | MODIFY_COUNT | MODIFY_OVERRUN))
		return REFUSE(cmd, CMD_BAD_PARAM, "fields %#x", fields);
	if (fields & MODIFY_PERIOD)
		cq->period_us = IFC_GET(cqc, cqc, cq_period);
	if (fields & MODIFY_COUNT)
		cq->max_count = IFC_GET(cqc, cqc, cq_max_count);
	if (fields & MODIFY_OVERRUN)
		cq->ignore_overrun = IFC_GET(cqc, cqc, oi);
	/* Completions that wait for the old count or period do not wait for the new one. */
	if (cq->count)
		cq_fire(cq);
	cmd_says(cmd, "CQ %#x, count %u, period %u us", cq->number, cq->max_count,
		 cq->period_us);
	return CMD_OK;
}

/* Whether what is unpolled, and the entry that ends the old buffer, fit into both. */
static enum cmd_status cq_check_fit(struct cq *cq, struct cmd *cmd, unsigned int log_size)
{
	uint32_t unpolled;

	if (cq_read_consumer(cq))
		return REFUSE(cmd, CMD_BAD_RES_STATE, "doorbell record is not mapped");
	unpolled = cq_unpolled(cq);
	if (unpolled >= 1u << log_size)
		return REFUSE(cmd, CMD_BAD_SIZE, "%u unpolled, new size %u", unpolled,
			      1u << log_size);
	if (unpolled >= cq_size(cq) && !cq->ignore_overrun)
		return REFUSE(cmd, CMD_BAD_SIZE, "%u unpolled: full", unpolled);
	return CMD_OK;
}

static void cq_set_buffer(struct cq *cq, const struct queue_buf *buf, const void *cqc)
{
	queue_buf_free(cq->hca, &cq->buf);
	cq->buf = *buf;
	cq->log_size = IFC_GET(cqc, cqc, log_cq_size);
	cq->entry_size = cqe_bytes(cqc);
	IFC_SET(cqc, cq->context, log_cq_size, IFC_GET(cqc, cqc, log_cq_size));
	IFC_SET(cqc, cq->context, cqe_sz, IFC_GET(cqc, cqc, cqe_sz));
	IFC_SET(cqc, cq->context, log_page_size, IFC_GET(cqc, cqc, log_page_size));
	IFC_SET(cqc, cq->context, page_offset, IFC_GET(cqc, cqc, page_offset));
}

static enum cmd_status cq_resize(struct cq *cq, struct cmd *cmd, const void *cqc,
				 uint32_t fields)
{
	const struct mlx5_cqe64 last = { .op_own = MLX5_CQE_RESIZE_CQ << 4 };
	unsigned int log_size = IFC_GET(cqc, cqc, log_cq_size);
	enum cmd_status status;
	struct queue_buf buf;

	if (fields != RESIZE_FIELDS || IFC_GET(modify_cq_in, cmd->in, cq_umem_valid))
		return REFUSE(cmd, CMD_BAD_PARAM, "resize, fields %#x", fields);
	if (cq->collapsed)
		return REFUSE(cmd, CMD_BAD_PARAM, "resize of a collapsed CQ");
	status = cq_check_size(cmd, cqc);
	if (!status)
		status = cq_check_fit(cq, cmd, log_size);
	if (status)
		return status;
	status = queue_buf_init(cq->hca, cmd, &buf, IFC_BYTES(modify_cq_in),
				IFC_GET(cqc, cqc, log_page_size),
				IFC_GET(cqc, cqc, page_offset),
				(uint64_t)cqe_bytes(cqc) << log_size);
	if (status)
		return status;
	if (cq_write(cq, &last)) {
		queue_buf_free(cq->hca, &buf);
		return REFUSE(cmd, CMD_BAD_RES_STATE, "the old buffer is not mapped");
	}
	cq->producer++;
	cq_set_buffer(cq, &buf, cqc);
	cmd_says(cmd, "CQ %#x, resized to %u entries of %u", cq->number, cq_size(cq),
		 cq->entry_size);
	return CMD_OK;
}

static enum cmd_status cmd_modify_cq(struct hca *hca, struct cmd *cmd)
{
	const void *cqc = IFC_PTR(modify_cq_in, cmd->in, cq_context);
	uint32_t number = IFC_GET(modify_cq_in, cmd->in, cqn), fields;
	struct cq *cq = cq_of_user(hca, cmd->uid, number);

	if (!cq)
		return REFUSE(cmd, CMD_BAD_RES, "no CQ %#x", number);
	if (cq->error)
		return REFUSE(cmd, CMD_BAD_RES_STATE, "CQ %#x is in error", number);
	fields = IFC_GET(modify_cq_in, cmd->in, modify_field_select_resize_field_select);
	switch (cmd->op_mod) {
	case 0:
		return cq_moderate(cq, cmd, cqc, fields);
	case OPMOD_RESIZE:
		return cq_resize(cq, cmd, cqc, fields);
	default:
		return REFUSE(cmd, CMD_BAD_PARAM, "op_mod %#x", cmd->op_mod);
	}
}

const struct cmd_op cq_ops[] = {
	CMD_OP(CREATE_CQ, create_cq),
	CMD_OP(DESTROY_CQ, destroy_cq),
	CMD_OP(QUERY_CQ, query_cq),
	CMD_OP(MODIFY_CQ, modify_cq),
	{ }
};
