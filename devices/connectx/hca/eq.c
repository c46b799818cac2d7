// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Event queues: CREATE_EQ, DESTROY_EQ, QUERY_EQ, the entries, and the interrupt
 * (mlx5_ifc.h: eqc, eqe; PRM, "Event Queues").
 *
 * An entry has 64 bytes: type at 1, sub-type at 3, data at 32, and the owner bit in the
 * last byte, which is written last.  The owner bit is the lap of the producer index, so
 * the guest tells a new entry from one of the lap before.
 *
 * The guest reports by a doorbell how far it has consumed.  An entry that it has not
 * consumed is never overwritten, and an index that would have the producer behind the
 * consumer is not taken, so a doorbell that lies can cost the guest events and nothing
 * else.  The doorbell also arms the EQ: the next entry, or one that is there already,
 * raises its interrupt once.
 */
#include "eq.h"
#include "cq.h"
#include "dma.h"
#include "hca.h"
#include "ifc.h"
#include "pci.h"
#include "stats.h"
#include "table.h"
#include "trace.h"
#include <errno.h>

#define EQE_BYTES 64
#define EQE_OWNER (EQE_BYTES - 1)
#define EQE_DATA 32
#define EQE_DATA_BYTES 28
#define INDEX_MASK 0xffffffu
#define EVENT_TYPES 64

struct eq *eq_get(struct hca *hca, uint32_t number)
{
	return table_get(&hca->eqs, number);
}

/* How many entries the guest has not consumed. */
static uint32_t eq_pending(const struct eq *eq)
{
	return (eq->producer - eq->consumer) & INDEX_MASK;
}

static bool eq_full(const struct eq *eq)
{
	return eq_pending(eq) >= 1u << eq->log_size;
}

static void eq_raise(struct eq *eq)
{
	uint64_t began;

	eq->armed = false;
	began = stats_clock();
	eq->hca->raise(eq->hca->raise_arg, eq->vector);
	stats_interrupt(&eq->hca->stats, stats_clock() - began);
}

static int eq_write(struct eq *eq, const u8 *eqe)
{
	uint32_t index = eq->producer & ((1u << eq->log_size) - 1);
	uint64_t offset = (uint64_t)index * EQE_BYTES, owner;
	int err = 0;

	owner = queue_buf_addr(&eq->buf, offset + EQE_OWNER, &err);
	if (err)
		return err;
	if (queue_buf_write(&eq->buf, eq->hca->dma, offset, eqe, EQE_OWNER))
		return -EFAULT;
	return dma_store8(eq->hca->dma, owner, eq->producer >> eq->log_size & 1);
}

int eq_push(struct eq *eq, unsigned int type, unsigned int sub_type, const void *data,
	    size_t len)
{
	u8 eqe[EQE_BYTES] = { [1] = type, [3] = sub_type };

	if (eq_full(eq))
		return -ENOSPC;
	memcpy(eqe + EQE_DATA, data, len < EQE_DATA_BYTES ? len : EQE_DATA_BYTES);
	if (eq_write(eq, eqe)) {
		if (!eq->overrun)
			note("EQ %#x: its buffer is not mapped, events are lost", eq->number);
		eq->overrun = true;
		return -EFAULT;
	}
	eq->producer++;
	trace("EQ %#x: event %#x.%u", eq->number, type, sub_type);
	if (eq->armed)
		eq_raise(eq);
	return 0;
}

bool event_send(struct hca *hca, unsigned int type, unsigned int sub_type, const void *data,
		size_t len)
{
	struct eq *eq = type < EVENT_TYPES ? hca->event_eq[type] : NULL;

	if (!eq)
		return false;
	if (eq_push(eq, type, sub_type, data, len) == -ENOSPC) {
		if (!eq->overrun)
			note("EQ %#x: full, event %#x is lost", eq->number, type);
		eq->overrun = true;
	}
	return true;
}

bool event_subscribed(const struct hca *hca, unsigned int type)
{
	return type < EVENT_TYPES && hca->event_eq[type];
}

void eq_doorbell(struct hca *hca, uint32_t value, bool arm)
{
	struct eq *eq = eq_get(hca, value >> 24);
	uint32_t index = value & INDEX_MASK;

	if (!eq)
		return;
	if (((eq->producer - index) & INDEX_MASK) <= eq_pending(eq))
		eq->consumer = index;
	while (!list_empty(&eq->waiting) && !eq_full(eq)) {
		struct list *first = eq->waiting.next;

		list_del(first);
		cq_event_again(list_item(first, struct cq, waits));
	}
	if (arm && eq_pending(eq))
		eq_raise(eq);
	else if (arm)
		eq->armed = true;
}

/* An event type has one EQ: the last one that asked. */
static void eq_subscribe(struct eq *eq, uint64_t events)
{
	unsigned int type;

	eq->events = events;
	for (type = 0; type < EVENT_TYPES; type++) {
		if (!(events >> type & 1))
			continue;
		if (eq->hca->event_eq[type])
			eq->hca->event_eq[type]->events &= ~BIT_ULL(type);
		eq->hca->event_eq[type] = eq;
	}
}

static void eq_free(struct eq *eq)
{
	struct hca *hca = eq->hca;
	unsigned int type;

	for (type = 0; type < EVENT_TYPES; type++)
		if (hca->event_eq[type] == eq)
			hca->event_eq[type] = NULL;
	hca_uar_put(hca, eq->uar);
	queue_buf_free(hca, &eq->buf);
	hca_free_memory(hca, eq, sizeof(*eq));
}

/* Nobody is told about entries that collapse into one, or that overrun, so refuse both. */
static enum cmd_status eq_check(struct hca *hca, struct cmd *cmd, const void *eqc)
{
	if (IFC_GET(eqc, eqc, log_eq_size) > HCA_LOG_MAX_EQ)
		return REFUSE(cmd, CMD_BAD_PARAM, "log_eq_size %u", IFC_GET(eqc, eqc, log_eq_size));
	if (IFC_GET(eqc, eqc, intr) >= PCI_VECTORS)
		return REFUSE(cmd, CMD_BAD_PARAM, "vector %u", IFC_GET(eqc, eqc, intr));
	if (IFC_GET(eqc, eqc, ec) || IFC_GET(eqc, eqc, oi))
		return REFUSE(cmd, CMD_BAD_PARAM, "collapsed or overrun-ignoring EQ");
	/* An EQ has a vector, and most have the driver's events: not for processes. */
	if (cmd->uid && cmd->uid != UID_SHARED)
		return REFUSE(cmd, CMD_BAD_PARAM, "an EQ of user %u", cmd->uid);
	if (!hca_uar(hca, 0, IFC_GET(eqc, eqc, uar_page)))
		return REFUSE(cmd, CMD_BAD_RES, "UAR %#x", IFC_GET(eqc, eqc, uar_page));
	return CMD_OK;
}

static enum cmd_status cmd_create_eq(struct hca *hca, struct cmd *cmd)
{
	const void *eqc = IFC_PTR(create_eq_in, cmd->in, eq_context_entry);
	enum cmd_status status = eq_check(hca, cmd, eqc);
	struct eq *eq;
	int64_t number;

	if (status)
		return status;
	eq = hca_alloc(hca, sizeof(*eq));
	if (!eq)
		return REFUSE(cmd, CMD_NO_RESOURCES, "no memory for an EQ");
	eq->hca = hca;
	eq->uid = cmd->uid;
	eq->log_size = IFC_GET(eqc, eqc, log_eq_size);
	eq->vector = IFC_GET(eqc, eqc, intr);
	list_init(&eq->waiting);
	memcpy(eq->context, eqc, sizeof(eq->context));
	status = queue_buf_init(hca, cmd, &eq->buf, IFC_BYTES(create_eq_in),
				IFC_GET(eqc, eqc, log_page_size),
				IFC_GET(eqc, eqc, page_offset),
				(uint64_t)EQE_BYTES << eq->log_size);
	if (status)
		goto free_eq;
	number = table_add(&hca->eqs, eq);
	if (number < 0) {
		status = REFUSE(cmd, CMD_NO_RESOURCES, "no number for an EQ");
		goto free_buf;
	}
	eq->number = number;
	eq->uar = hca_uar(hca, 0, IFC_GET(eqc, eqc, uar_page));
	eq->uar->users++;
	/* The first of the four masks; no type from 64 on is ever sent. */
	eq_subscribe(eq, be64_at(IFC_PTR(create_eq_in, cmd->in, event_bitmask)));
	IFC_SET(create_eq_out, cmd->out, eq_number, eq->number);
	cmd_says(cmd, "EQ %#x, %u entries, vector %u, events %#llx", eq->number,
		 1u << eq->log_size, eq->vector, (unsigned long long)eq->events);
	return CMD_OK;

free_buf:
	queue_buf_free(hca, &eq->buf);
free_eq:
	hca_free_memory(hca, eq, sizeof(*eq));
	return status;
}

static enum cmd_status cmd_destroy_eq(struct hca *hca, struct cmd *cmd)
{
	uint32_t number = IFC_GET(destroy_eq_in, cmd->in, eq_number);
	struct eq *eq = eq_get(hca, number);

	if (!eq || !uid_owns(cmd->uid, eq->uid))
		return REFUSE(cmd, CMD_BAD_RES, "no EQ %#x", number);
	if (eq->users)
		return REFUSE(cmd, CMD_BAD_RES_STATE, "EQ %#x has %u CQs", number, eq->users);
	table_del(&hca->eqs, number);
	eq_free(eq);
	cmd_says(cmd, "EQ %#x", number);
	return CMD_OK;
}

static enum cmd_status cmd_query_eq(struct hca *hca, struct cmd *cmd)
{
	uint32_t number = IFC_GET(query_eq_in, cmd->in, eq_number);
	void *eqc = IFC_PTR(query_eq_out, cmd->out, eq_context_entry);
	struct eq *eq = eq_get(hca, number);

	if (!eq || !uid_owns(cmd->uid, eq->uid))
		return REFUSE(cmd, CMD_BAD_RES, "no EQ %#x", number);
	memcpy(eqc, eq->context, sizeof(eq->context));
	IFC_SET(eqc, eqc, status,
		eq->overrun ? MLX5_EQC_STATUS_EQ_WRITE_FAILURE : MLX5_EQC_STATUS_OK);
	IFC_SET(eqc, eqc, st, eq->armed ? MLX5_EQC_ST_ARMED : MLX5_EQC_ST_FIRED);
	IFC_SET(eqc, eqc, consumer_counter, eq->consumer);
	IFC_SET(eqc, eqc, producer_counter, eq->producer);
	IFC_SET64(query_eq_out, cmd->out, event_bitmask, eq->events);
	cmd_says(cmd, "EQ %#x", number);
	return CMD_OK;
}

static void eq_free_one(void *arg, void *object)
{
	eq_free(object);
}

void event_reset(struct hca *hca)
{
	cq_free_all(hca);
	table_clear(&hca->eqs, eq_free_one, NULL);
}

const struct cmd_op eq_ops[] = {
	CMD_OP(CREATE_EQ, create_eq),
	CMD_OP(DESTROY_EQ, destroy_eq),
	CMD_OP(QUERY_EQ, query_eq),
	{ }
};
