// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The loop: epoll for file descriptors, a pairing heap for timers, a list for work.
 *
 * A turn reads the clock, runs the timers that are due, then work, then the callbacks of
 * descriptors that are ready.  Each of the three is bounded: at most TIMERS and WORKS and
 * EVENTS callbacks a turn.  Work is taken from the head of its list and added at the tail, so
 * everybody gets his turn.
 *
 * A few callbacks may take long: an access by key can go through thousands of entries, as many
 * as a process of the guest likes.  So timers and work also end when TURN_NS are over, after
 * one callback at least, and callbacks that handle many packets look at loop_turn_over().  Then
 * descriptors, which is where the guest's CPUs wait, are looked at in between.
 *
 * The process sleeps in epoll_wait().  A timerfd wakes it, because epoll's own timeout has
 * milliseconds and RNR timers have microseconds.
 */
#include "loop.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define TIMERS 64
#define WORKS 8
#define EVENTS 16
#define TURN_NS 2000000

struct watch {
	void (*ready)(void *arg, uint32_t events);	/* NULL: not watched */
	void *arg;
	uint32_t generation;	/* tells an event of an earlier user of the number */
};

struct loop {
	int epoll, timerfd;
	bool stop;
	uint64_t now;
	uint64_t over;		/* by coarse_now(): timers, work or descriptors had their time */
	uint64_t armed;		/* when the timerfd wakes us, 0: never */
	struct list timers;	/* the roots of the heap; merge() makes them one */
	struct list work;
	struct watch *watch;	/* by descriptor */
	unsigned int watches;
};

static uint64_t read_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static uint64_t clock_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t loop_now(const struct loop *l)
{
	return l->now;
}

void loop_waited(struct loop *l)
{
	l->now = clock_now();
}

/* It moves by 1 to 10 ms, and is read in 4 ns and not in 25: once for each packet. */
static uint64_t coarse_now(void)
{
	return read_clock(CLOCK_MONOTONIC_COARSE);
}

/* Timers, work, or descriptors are next. */
static void begin_part(struct loop *l)
{
	l->over = coarse_now() + TURN_NS;
}

bool loop_turn_over(const struct loop *l)
{
	return coarse_now() >= l->over;
}

/* ------------------------------------------------------------------ descriptors */

static int control(struct loop *l, int op, int fd, uint32_t events)
{
	struct epoll_event e = {
		.events = events,
		.data.u64 = (uint64_t)l->watch[fd].generation << 32 | (uint32_t)fd,
	};

	return epoll_ctl(l->epoll, op, fd, &e) ? -errno : 0;
}

int loop_watch(struct loop *l, int fd, uint32_t events,
	       void (*ready)(void *arg, uint32_t events), void *arg)
{
	int ret;

	if (fd < 0)
		return -EBADF;
	if ((unsigned int)fd >= l->watches) {
		unsigned int n = fd + 16;
		struct watch *w = realloc(l->watch, n * sizeof(*w));

		if (!w)
			return -ENOMEM;
		memset(w + l->watches, 0, (n - l->watches) * sizeof(*w));
		l->watch = w;
		l->watches = n;
	}
	if (l->watch[fd].ready)
		return -EEXIST;
	l->watch[fd].generation++;
	ret = control(l, EPOLL_CTL_ADD, fd, events);
	if (ret)
		return ret;
	l->watch[fd].ready = ready;
	l->watch[fd].arg = arg;
	return 0;
}

static bool watched(const struct loop *l, int fd)
{
	return fd >= 0 && (unsigned int)fd < l->watches && l->watch[fd].ready;
}

int loop_rewatch(struct loop *l, int fd, uint32_t events)
{
	return watched(l, fd) ? control(l, EPOLL_CTL_MOD, fd, events) : -ENOENT;
}

void loop_unwatch(struct loop *l, int fd)
{
	if (!watched(l, fd))
		return;
	control(l, EPOLL_CTL_DEL, fd, 0);
	l->watch[fd].ready = NULL;
}

/* ----------------------------------------------------------------------- timers */

/*
 * Make one tree of siblings, in pairs: of two, the one that expires later becomes a child
 * of the other.  Returns the one that is left, the soonest, or NULL.
 */
static struct timer *merge(struct list *siblings)
{
	while (siblings->next != siblings->prev) {
		struct timer *a = list_item(siblings->next, struct timer, entry);
		struct timer *b = list_item(a->entry.next, struct timer, entry);
		struct timer *soon = b->when < a->when ? b : a, *late = soon == a ? b : a;

		list_del(&late->entry);
		list_add(&soon->children, &late->entry);
		/* To the end, so that trees of the same size meet. */
		list_del(&soon->entry);
		list_add(siblings, &soon->entry);
	}
	return list_empty(siblings) ? NULL : list_item(siblings->next, struct timer, entry);
}

void timer_init(struct timer *t, void (*expired)(struct timer *t))
{
	list_init(&t->entry);
	list_init(&t->children);
	t->when = 0;
	t->expired = expired;
}

void timer_stop(struct timer *t)
{
	struct timer *child = merge(&t->children);

	/* What was below it takes its place. */
	if (child) {
		list_del(&child->entry);
		list_add(&t->entry, &child->entry);
	}
	list_del(&t->entry);
}

void timer_start(struct loop *l, struct timer *t, uint64_t ns_from_now)
{
	timer_stop(t);
	/* After now, so that a timer that starts itself again is not due in this turn. */
	t->when = l->now + (ns_from_now ? ns_from_now : 1);
	if (t->when < l->now)
		t->when = UINT64_MAX;
	list_add(&l->timers, &t->entry);
}

/* The first timer, if it has expired. */
static struct timer *due(struct loop *l)
{
	struct timer *t = merge(&l->timers);

	return t && t->when <= l->now ? t : NULL;
}

static void run_timers(struct loop *l)
{
	struct timer *t;

	begin_part(l);
	for (int i = 0; i < TIMERS && (t = due(l)); i++) {
		timer_stop(t);
		t->expired(t);
		if (loop_turn_over(l))
			break;
	}
}

/*
 * Let the timerfd wake us for the first timer.  One that is armed for an earlier time is
 * left: timers that are put off again and again then cost no system calls.
 */
static void arm(struct loop *l)
{
	struct timer *first = merge(&l->timers);
	struct itimerspec spec = { 0 };

	if (!first || (l->armed && l->armed <= first->when))
		return;
	l->armed = first->when;
	if (l->armed > INT64_MAX)
		l->armed = INT64_MAX;
	spec.it_value.tv_sec = l->armed / 1000000000;
	spec.it_value.tv_nsec = l->armed % 1000000000;
	timerfd_settime(l->timerfd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void timerfd_ready(void *arg, uint32_t events)
{
	struct loop *l = arg;
	uint64_t times;

	if (read(l->timerfd, &times, sizeof(times)) == sizeof(times))
		l->armed = 0;
}

/* ------------------------------------------------------------------------- work */

void work_init(struct work *w, void (*run)(struct work *w))
{
	list_init(&w->entry);
	w->run = run;
}

void loop_work(struct loop *l, struct work *w)
{
	if (list_empty(&w->entry))
		list_add(&l->work, &w->entry);
}

void work_stop(struct work *w)
{
	list_del(&w->entry);
}

/*
 * What work queues runs after all that is queued already, in this turn too: a packet in
 * loopback passes through three works, and a turn costs a system call.
 */
static void run_work(struct loop *l)
{
	begin_part(l);
	for (int i = 0; i < WORKS && !list_empty(&l->work); i++) {
		struct work *w = list_item(l->work.next, struct work, entry);

		list_del(&w->entry);
		w->run(w);
		if (loop_turn_over(l))
			break;
	}
}

/* ------------------------------------------------------------------------- loop */

struct loop *loop_new(void)
{
	struct loop *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return NULL;
	list_init(&l->timers);
	list_init(&l->work);
	l->now = clock_now();
	l->timerfd = -1;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll < 0)
		goto err;
	l->timerfd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (l->timerfd < 0)
		goto err;
	err = loop_watch(l, l->timerfd, EPOLLIN, timerfd_ready, l);
	if (err) {
		errno = -err;
		goto err;
	}
	return l;

err:
	err = errno;
	loop_free(l);
	errno = err;
	return NULL;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	if (l->timerfd >= 0)
		close(l->timerfd);
	if (l->epoll >= 0)
		close(l->epoll);
	free(l->watch);
	free(l);
}

static void run_ready(struct loop *l, const struct epoll_event *events, int n)
{
	begin_part(l);
	for (int i = 0; i < n; i++) {
		uint32_t fd = events[i].data.u64, generation = events[i].data.u64 >> 32;
		struct watch w = l->watch[fd];

		/* A callback before this one may have closed it, and opened another. */
		if (w.ready && w.generation == generation)
			w.ready(w.arg, events[i].events);
	}
}

void loop_run(struct loop *l)
{
	struct epoll_event events[EVENTS];

	l->stop = false;
	while (!l->stop) {
		bool busy;
		int n;

		l->now = clock_now();
		run_timers(l);
		run_work(l);
		if (l->stop)
			break;
		busy = due(l) || !list_empty(&l->work);
		if (!busy)
			arm(l);
		n = epoll_wait(l->epoll, events, EVENTS, busy ? 0 : -1);
		if (n > 0) {
			l->now = clock_now();
			run_ready(l, events, n);
		}
	}
}

void loop_stop(struct loop *l)
{
	l->stop = true;
}
