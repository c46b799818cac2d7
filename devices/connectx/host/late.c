// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A queue in order of arrival, and one timer for the first of it.  A write keeps its bus
 * address, not a pointer: what is not mapped any more when its time has come is not written.
 * The queue is bounded: a write that finds it full, or no memory, pushes all before it.
 */
#include "late.h"
#include <stdlib.h>
#include <string.h>

#define MOST (16ul << 20)	/* bytes of memory for what waits */

struct late_data {
	struct list entry;
	uint64_t when, addr;
	size_t len;
	uint8_t byte[];
};

struct late {
	struct loop *loop;
	struct dma *dma;
	uint64_t ns;
	struct list queue;
	size_t bytes;
	struct timer timer;
};

static void start_timer(struct late *l)
{
	uint64_t now = loop_now(l->loop), when;

	if (list_empty(&l->queue))
		return;
	when = list_item(l->queue.next, struct late_data, entry)->when;
	timer_start(l->loop, &l->timer, when > now ? when - now : 0);
}

/* Those whose time has come by NOW. */
static void carry_out(struct late *l, uint64_t now)
{
	while (!list_empty(&l->queue)) {
		struct late_data *d = list_item(l->queue.next, struct late_data, entry);

		if (d->when > now)
			return;
		dma_write(l->dma, d->addr, d->byte, d->len);
		l->bytes -= sizeof(*d) + d->len;
		list_del(&d->entry);
		free(d);
	}
}

static void expired(struct timer *t)
{
	struct late *l = list_item(t, struct late, timer);

	carry_out(l, loop_now(l->loop));
	start_timer(l);
}

struct late *late_new(struct loop *loop, struct dma *dma, uint64_t ns)
{
	struct late *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->loop = loop;
	l->dma = dma;
	l->ns = ns;
	list_init(&l->queue);
	timer_init(&l->timer, expired);
	return l;
}

void late_free(struct late *l)
{
	if (!l)
		return;
	late_flush(l);
	free(l);
}

void late_write(struct late *l, uint64_t addr, const void *data, size_t len)
{
	size_t cost = sizeof(struct late_data) + len;
	struct late_data *d = cost <= MOST - l->bytes ? malloc(cost) : NULL;

	if (!d) {
		late_flush(l);
		dma_write(l->dma, addr, data, len);
		return;
	}
	d->when = loop_now(l->loop) + l->ns;
	d->addr = addr;
	d->len = len;
	memcpy(d->byte, data, len);
	l->bytes += cost;
	list_add(&l->queue, &d->entry);
	if (!timer_runs(&l->timer))
		start_timer(l);
}

void late_flush(struct late *l)
{
	if (!l)
		return;
	carry_out(l, UINT64_MAX);
	timer_stop(&l->timer);
}
