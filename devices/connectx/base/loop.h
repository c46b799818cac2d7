/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The one thread of the model: it waits for file descriptors and timers, and runs work
 * in turns.  Nothing else runs, so there are no locks.  Three rules keep every guest and
 * every queue pair served, and the process idle when there is nothing to do:
 *
 * - a callback does a bounded piece of work and never blocks, except that QEMU may be
 *   asked for memory (dma.h), which is bounded too;
 * - what has more to do calls loop_work() and gets another turn after the others; so does
 *   what handles many packets, when loop_turn_over();
 * - nobody keeps a pointer to guest memory from one callback to the next: the guest's
 *   memory map changes between them.
 */
#ifndef CONNECTX_LOOP_H
#define CONNECTX_LOOP_H

#include "list.h"
#include <stdbool.h>
#include <stdint.h>

struct loop;

/* In a pairing heap, so that starting costs the same with 16,000 timers as with one. */
struct timer {
	struct list entry;	/* of its siblings */
	struct list children;	/* none of which expires before it */
	uint64_t when;
	void (*expired)(struct timer *t);
};

struct work {
	struct list entry;
	void (*run)(struct work *w);
};

/* NULL with errno. */
struct loop *loop_new(void);
void loop_free(struct loop *l);
/* Until loop_stop(). */
void loop_run(struct loop *l);
void loop_stop(struct loop *l);

/* Nanoseconds of CLOCK_MONOTONIC, read once a turn, and when loop_waited() is called. */
uint64_t loop_now(const struct loop *l);
/* The callback has waited, so much time may have passed: the one exception is vfio_user.c. */
void loop_waited(struct loop *l);

/* The callback and those before it have had their time, and others wait. */
bool loop_turn_over(const struct loop *l);

/* READY is called with epoll's events.  0 or -errno. */
int loop_watch(struct loop *l, int fd, uint32_t events,
	       void (*ready)(void *arg, uint32_t events), void *arg);
int loop_rewatch(struct loop *l, int fd, uint32_t events);
void loop_unwatch(struct loop *l, int fd);

void timer_init(struct timer *t, void (*expired)(struct timer *t));
/* Also for a timer that runs already: it expires at the new time only. */
void timer_start(struct loop *l, struct timer *t, uint64_t ns_from_now);
void timer_stop(struct timer *t);
static inline int timer_runs(const struct timer *t)
{
	return !list_empty(&t->entry);
}

void work_init(struct work *w, void (*run)(struct work *w));
/* Run it later, after what is queued already; once, however often this is called before. */
void loop_work(struct loop *l, struct work *w);
void work_stop(struct work *w);
static inline int work_queued(const struct work *w)
{
	return !list_empty(&w->entry);
}

#endif
