/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A loop for tests: its time stands still until the test moves it, and it does one turn
 * when the test says so.  It has all of loop.h and trace.h, for one test program.
 */
#ifndef CONNECTX_FAKE_LOOP_H
#define CONNECTX_FAKE_LOOP_H

#include "list.h"
#include "loop.h"
#include "trace.h"
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_WATCHES 16
#define FAKE_TIMERS 256

struct loop {
	uint64_t now;
	bool turn_over;			/* for ever */
	struct list works;
	/* Beside the timers, whose other fields are the real loop's. */
	struct {
		struct timer *timer;
		uint64_t when;
	} timer[FAKE_TIMERS];
	unsigned int timers;
	struct {
		int fd;
		uint32_t events;
		void (*ready)(void *arg, uint32_t events);
		void *arg;
	} watch[FAKE_WATCHES];
	unsigned int watches;
};

static struct loop fake_loop;
static char fake_note[256];		/* the last one */
bool tracing;

static void fake_reset(void)
{
	memset(&fake_loop, 0, sizeof(fake_loop));
	list_init(&fake_loop.works);
	fake_note[0] = 0;
}

/* The work that is queued now, then the descriptors, then the timers. */
static void __attribute__((unused)) fake_turn(void)
{
	struct loop *l = &fake_loop;
	struct list now, *e;

	list_init(&now);
	while (!list_empty(&l->works)) {
		e = l->works.next;
		list_del(e);
		list_add(&now, e);
	}
	while (!list_empty(&now)) {
		struct work *w = list_item(now.next, struct work, entry);

		list_del(&w->entry);
		w->run(w);
	}
	for (unsigned int i = 0; i < l->watches; i++) {
		struct pollfd p = { .fd = l->watch[i].fd, .events = l->watch[i].events };

		if (poll(&p, 1, 0) > 0)
			l->watch[i].ready(l->watch[i].arg, p.revents);
	}
	/* Soonest first; what they start waits for the next turn. */
	for (unsigned int n = l->timers; n--;) {
		unsigned int soon = 0;
		struct timer *t;

		for (unsigned int i = 1; i < l->timers; i++)
			if (l->timer[i].when < l->timer[soon].when)
				soon = i;
		if (!l->timers || l->timer[soon].when > l->now)
			break;
		t = l->timer[soon].timer;
		timer_stop(t);
		t->expired(t);
	}
}

static void __attribute__((unused)) fake_turns(unsigned int n)
{
	while (n--)
		fake_turn();
}

uint64_t loop_now(const struct loop *l)
{
	return l->now;
}

bool loop_turn_over(const struct loop *l)
{
	return l->turn_over;
}

int loop_watch(struct loop *l, int fd, uint32_t events,
	       void (*ready)(void *arg, uint32_t events), void *arg)
{
	if (l->watches == FAKE_WATCHES)
		return -1;
	l->watch[l->watches].fd = fd;
	l->watch[l->watches].events = events;
	l->watch[l->watches].ready = ready;
	l->watch[l->watches++].arg = arg;
	return 0;
}

int loop_rewatch(struct loop *l, int fd, uint32_t events)
{
	for (unsigned int i = 0; i < l->watches; i++)
		if (l->watch[i].fd == fd)
			l->watch[i].events = events;
	return 0;
}

void loop_unwatch(struct loop *l, int fd)
{
	for (unsigned int i = 0; i < l->watches; i++)
		if (l->watch[i].fd == fd)
			l->watch[i] = l->watch[--l->watches];
}

void timer_init(struct timer *t, void (*expired)(struct timer *t))
{
	t->expired = expired;
}

void timer_start(struct loop *l, struct timer *t, uint64_t ns)
{
	timer_stop(t);
	if (l->timers == FAKE_TIMERS)
		abort();
	l->timer[l->timers].timer = t;
	l->timer[l->timers++].when = l->now + ns;
}

void timer_stop(struct timer *t)
{
	struct loop *l = &fake_loop;

	for (unsigned int i = 0; i < l->timers; i++)
		if (l->timer[i].timer == t)
			l->timer[i--] = l->timer[--l->timers];
}

void work_init(struct work *w, void (*run)(struct work *w))
{
	list_init(&w->entry);
	w->run = run;
}

void loop_work(struct loop *l, struct work *w)
{
	if (list_empty(&w->entry))
		list_add(&l->works, &w->entry);
}

void work_stop(struct work *w)
{
	list_del(&w->entry);
}

void trace_line(const char *fmt, ...)
{
}

void note(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(fake_note, sizeof(fake_note), fmt, args);
	va_end(args);
}

#endif
