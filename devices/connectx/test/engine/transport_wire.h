/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For the tests of the transport engine: a loop with a clock that the test moves, and a wire
 * that the test looks at, on which packets get lost, doubled or late as it likes.
 */
#ifndef CONNECTX_TRANSPORT_WIRE_H
#define CONNECTX_TRANSPORT_WIRE_H

#include "link.h"
#include "list.h"
#include "loop.h"
#include "packet.h"
#include <stdlib.h>

/* ---- loop ---- */

struct loop {
	uint64_t now;
	bool turn_over;		/* for ever */
	struct list works, timers;
};

static struct loop fake_loop;

uint64_t loop_now(const struct loop *l)
{
	return l->now;
}

bool loop_turn_over(const struct loop *l)
{
	return l->turn_over;
}

void timer_init(struct timer *t, void (*expired)(struct timer *t))
{
	list_init(&t->entry);
	t->expired = expired;
}

void timer_stop(struct timer *t)
{
	list_del(&t->entry);
}

void timer_start(struct loop *l, struct timer *t, uint64_t ns)
{
	list_del(&t->entry);
	t->when = l->now + ns;
	list_add(&l->timers, &t->entry);
}

void work_init(struct work *w, void (*run)(struct work *w))
{
	list_init(&w->entry);
	w->run = run;
}

void work_stop(struct work *w)
{
	list_del(&w->entry);
}

void loop_work(struct loop *l, struct work *w)
{
	if (list_empty(&w->entry))
		list_add(&l->works, &w->entry);
}

/* ---- link ---- */

struct link {
	struct list wire, waiting;
	int out;		/* packets that are not in the pool */
	int limit;
	int sent;		/* count, for choosing one */
	/* What happens to the packet N: 0 it arrives, 1 it is lost, 2 it comes twice, 3 later. */
	int (*fate)(struct packet *p, int n);
};

static struct link fake_link;

struct packet *link_packet(struct link *l)
{
	struct packet *p;

	if (l->out >= l->limit)
		return NULL;
	l->out++;
	p = calloc(1, sizeof(*p));
	list_init(&p->entry);
	return p;
}

void link_packet_free(struct link *l, struct packet *p)
{
	l->out--;
	free(p);
	while (!list_empty(&l->waiting)) {
		struct list *e = l->waiting.next;

		list_del(e);
		list_add(&fake_loop.works, e);
	}
}

void link_wait(struct link *l, struct work *w)
{
	list_del(&w->entry);
	list_add(&l->waiting, &w->entry);
}

void link_send(struct link *l, struct packet *p)
{
	int n = l->sent++, fate = l->fate ? l->fate(p, n) : 0;

	if (fate == 1) {
		link_packet_free(l, p);
		return;
	}
	if (fate == 2) {
		struct packet *copy = calloc(1, sizeof(*p));

		l->out++;
		memcpy(copy, p, sizeof(*p));
		list_add(&l->wire, &copy->entry);
	}
	if (fate == 3 && !list_empty(&l->wire))
		list_add(l->wire.prev, &p->entry);	/* before the last one */
	else
		list_add(&l->wire, &p->entry);
}

#endif
