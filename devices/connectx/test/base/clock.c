// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * loop.c is included, and not copied or replaced: its heap of timers and its lists of work are
 * tested and fuzzed with what uses them.  Only its clock is another one.
 */
#include <stdint.h>
#include <time.h>

#define START_NS 1000000000000ull

static uint64_t now_ns = START_NS;

static int clock_get(clockid_t id, struct timespec *ts)
{
	ts->tv_sec = now_ns / 1000000000;
	ts->tv_nsec = now_ns % 1000000000;
	return 0;
}

#define clock_gettime clock_get
#include "loop.c"
#include "clock.h"

void clock_move(uint64_t ns)
{
	if (now_ns + ns > now_ns)
		now_ns += ns;
}

void clock_reset(void)
{
	now_ns = START_NS;
}

void loop_turn(struct loop *l)
{
	struct epoll_event events[EVENTS];
	int n = 0;

	l->now = clock_now();
	run_timers(l);
	run_work(l);
	if (loop_watched(l))
		n = epoll_wait(l->epoll, events, EVENTS, 0);
	if (n > 0)
		run_ready(l, events, n);
}

bool loop_is_empty(const struct loop *l)
{
	return list_empty(&l->timers) && list_empty(&l->work);
}

bool loop_is_idle(struct loop *l)
{
	l->now = clock_now();
	return !due(l) && list_empty(&l->work);
}

/* The loop's own timerfd is one of them. */
unsigned int loop_watched(const struct loop *l)
{
	unsigned int n = 0;

	for (unsigned int fd = 0; fd < l->watches; fd++)
		n += fd != (unsigned int)l->timerfd && l->watch[fd].ready;
	return n;
}

void loop_run_for(struct loop *l, uint64_t ns)
{
	uint64_t end = now_ns + ns;
	struct timer *first;

	for (;;) {
		do
			loop_turn(l);
		while (!loop_is_idle(l));
		if (now_ns == end)
			break;
		first = merge(&l->timers);
		now_ns = first && first->when < end ? first->when : end;
	}
}
