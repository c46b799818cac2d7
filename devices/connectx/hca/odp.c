// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Page faults: what odp.h says.  The event is mlx5_eqe_page_fault.memory of the kernel's
 * device.h, the answer mlx5_ifc_mem_page_fault_info_bits.
 *
 * A wait is in one of three states: reported, with a slot, whose number is in its token;
 * in the queue, for a slot to become free; or sleeping, on its timer, until the access is
 * walked again, or, if the driver has answered, until the next turn.  The QP goes on in a
 * turn of its own because it may have to ask QEMU for memory (dma.h), which waits
 * while it has a command carried out.  A token is good once: a slot gets another generation
 * with each report.
 *
 * What bounds it: a QP has at most one wait on each side, and the slots bound how many
 * events are in the driver's queue.
 */
#include "odp.h"
#include "cmd.h"
#include "eq.h"
#include "hca.h"
#include "ifc.h"
#include "list.h"
#include "loop.h"
#include "trace.h"
#include <stdlib.h>

#define EVENT_PAGE_FAULT 0x0c
#define EVENT_MEMORY 2			/* sub type: by the memory scheme */
#define EVENT_LAST 0x80			/* the driver has to answer this one */
#define MAX_PAGES ((1u << 20) - 1)	/* the field's width */

#define POLL_NS 10000000ull
#define RETRY_NS 1000000ull
#define NO_SLOT ODP_REPORTED

struct odp_wait {
	struct hca *hca;
	struct odp_waiter *waiter;
	struct mkey_fault fault;
	unsigned int slot;		/* NO_SLOT: not reported */
	unsigned int errors;
	bool failed;			/* by the driver's answer */
	struct list entry;		/* of the queue */
	struct list all;		/* of odp->waits */
	struct timer timer;
};

struct odp {
	struct odp_wait *slot[ODP_REPORTED];
	uint16_t free[ODP_REPORTED];	/* a stack of slots */
	unsigned int frees;
	uint64_t generation;		/* 38 bits go into a token */
	uint64_t token[ODP_REPORTED];	/* the last one of each slot */
	struct list queue, waits;
};

static struct odp *odp_new(void)
{
	struct odp *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	for (; o->frees < ODP_REPORTED; o->frees++)
		o->free[o->frees] = ODP_REPORTED - 1 - o->frees;
	list_init(&o->queue);
	list_init(&o->waits);
	return o;
}

static void release_slot(struct odp *o, struct odp_wait *w)
{
	if (w->slot == NO_SLOT)
		return;
	o->slot[w->slot] = NULL;
	o->free[o->frees++] = w->slot;
	w->slot = NO_SLOT;
}

static void wait_free(struct odp_wait *w)
{
	release_slot(w->hca->odp, w);
	list_del(&w->entry);
	list_del(&w->all);
	timer_stop(&w->timer);
	w->waiter->wait = NULL;
	free(w);
}

static bool send_event(struct odp_wait *w)
{
	const struct mkey_fault *f = &w->fault;
	uint64_t token = w->hca->odp->token[w->slot];
	uint64_t pages = ((f->va & (HCA_PAGE - 1)) + f->length + HCA_PAGE - 1) / HCA_PAGE;
	u8 data[28] = { EVENT_LAST };

	if (pages > MAX_PAGES)
		pages = MAX_PAGES;
	put_be16(data + 6, token >> 32);
	put_be32(data + 8, token);
	put_be32(data + 12, pages << 12);
	put_be32(data + 16, f->key);
	put_be64(data + 20, f->va);
	return event_send(w->hca, EVENT_PAGE_FAULT, EVENT_MEMORY, data, sizeof(data));
}

/* Tell the driver, or wait in the queue until it can be told, or poll. */
static void report(struct odp_wait *w)
{
	struct odp *o = w->hca->odp;

	if (!event_subscribed(w->hca, EVENT_PAGE_FAULT)) {
		timer_start(w->hca->loop, &w->timer, POLL_NS);
		return;
	}
	if (!o->frees) {
		list_add(&o->queue, &w->entry);
		return;
	}
	w->slot = o->free[--o->frees];
	o->slot[w->slot] = w;
	o->generation = (o->generation + 1) & ((1ull << 38) - 1);
	o->token[w->slot] = o->generation * ODP_REPORTED + w->slot;
	trace("page fault qp %#x mkey %#x va %#llx length %zu token %#llx", w->waiter->qpn,
	      w->fault.key, (unsigned long long)w->fault.va, w->fault.length,
	      (unsigned long long)o->token[w->slot]);
	if (!send_event(w)) {
		release_slot(o, w);
		timer_start(w->hca->loop, &w->timer, POLL_NS);
	}
}

/* Slots are free: report what waited for one.  With nobody to tell, all of it polls. */
static void report_queued(struct odp *o)
{
	while (o->frees && !list_empty(&o->queue)) {
		struct odp_wait *w = list_item(o->queue.next, struct odp_wait, entry);

		list_del(&w->entry);
		report(w);
	}
}

/* The last thing that its caller does: the QP may fault again, or be destroyed. */
static void over(struct odp_wait *w, bool failed)
{
	struct hca *hca = w->hca;
	struct odp_waiter *waiter = w->waiter;

	wait_free(w);
	report_queued(hca->odp);
	waiter->over(waiter, failed);
}

static void answered(struct timer *t)
{
	struct odp_wait *w = list_item(t, struct odp_wait, timer);

	over(w, w->failed);
}

static void over_next_turn(struct odp_wait *w, bool failed)
{
	struct hca *hca = w->hca;

	release_slot(hca->odp, w);
	w->failed = failed;
	w->timer.expired = answered;
	timer_start(hca->loop, &w->timer, 0);
	report_queued(hca->odp);
}

static void walk_again(struct timer *t)
{
	struct odp_wait *w = list_item(t, struct odp_wait, timer);
	const struct mkey_fault old = w->fault;

	/* Not absent but denied: the QP's own walk finds that, and says what it means. */
	if (mkey_present(w->hca, &old.access, old.access_va, old.access_length,
			 &w->fault) == MKEY_ABSENT)
		report(w);
	else
		over(w, false);
}

void odp_fault(struct hca *hca, struct odp_waiter *waiter, const struct mkey_fault *fault)
{
	struct odp_wait *w;

	if (waiter->wait)
		return;
	if (!hca->odp)
		hca->odp = odp_new();
	w = hca->odp ? calloc(1, sizeof(*w)) : NULL;
	if (!w) {
		waiter->over(waiter, true);
		return;
	}
	w->hca = hca;
	w->waiter = waiter;
	w->fault = *fault;
	w->slot = NO_SLOT;
	list_init(&w->entry);
	list_add(&hca->odp->waits, &w->all);
	timer_init(&w->timer, walk_again);
	waiter->wait = w;
	report(w);
}

void odp_forget(struct hca *hca, struct odp_waiter *w, unsigned int count)
{
	for (; count; w++, count--)
		if (w->wait)
			wait_free(w->wait);
	if (hca->odp)
		report_queued(hca->odp);
}

/* Nothing is reported any more, whichever of QPs and faults is reset first. */
void odp_reset(struct hca *hca)
{
	if (!hca->odp)
		return;
	while (!list_empty(&hca->odp->waits))
		wait_free(list_item(hca->odp->waits.next, struct odp_wait, all));
	free(hca->odp);
	hca->odp = NULL;
}

static void resume(struct odp_wait *w, bool error)
{
	if (!error) {
		over_next_turn(w, false);
	} else if (w->fault.key == w->fault.access.key || w->errors == ODP_RETRIES) {
		over_next_turn(w, true);
	} else {
		struct hca *hca = w->hca;

		release_slot(hca->odp, w);
		timer_start(hca->loop, &w->timer, RETRY_NS << w->errors++);
		report_queued(hca->odp);
	}
}

static enum cmd_status cmd_page_fault_resume(struct hca *hca, struct cmd *cmd)
{
	const void *info = IFC_PTR(page_fault_resume_in, cmd->in, page_fault_info);
	bool error = IFC_GET(mem_page_fault_info, info, error);
	uint64_t token = (uint64_t)IFC_GET(mem_page_fault_info, info, fault_token_47_32) << 32 |
			 IFC_GET(mem_page_fault_info, info, fault_token_31_0);
	unsigned int slot = token % ODP_REPORTED;
	struct odp *o = hca->odp;

	cmd_says(cmd, "token %#llx%s", (unsigned long long)token, error ? " error" : "");
	/* A token that was given, of a QP that has gone since, is no mistake of the driver. */
	if (!o || !token || token / ODP_REPORTED > o->generation)
		return cmd_refuse(cmd, CMD_BAD_PARAM);
	if (o->slot[slot] && o->token[slot] == token)
		resume(o->slot[slot], error);
	return CMD_OK;
}

const struct cmd_op odp_ops[] = {
	CMD_OP(PAGE_FAULT_RESUME, page_fault_resume),
	{ 0 },
};
