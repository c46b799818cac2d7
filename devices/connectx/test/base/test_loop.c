// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* The event loop: the order of timers, fairness between work and sockets, and sleep. */
#define _GNU_SOURCE
#include "loop.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static struct loop *loop;

static int setup(void **state)
{
	loop = loop_new();
	return !loop;
}

static int teardown(void **state)
{
	loop_free(loop);
	return 0;
}

static uint64_t now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void stops(struct timer *t)
{
	loop_stop(loop);
}

/* Let it run for so long. */
static void run_for(uint64_t ns)
{
	struct timer t;

	timer_init(&t, stops);
	timer_start(loop, &t, ns);
	loop_run(loop);
	assert_false(timer_runs(&t));
}

#define TIMERS 2000

static struct timer timers[TIMERS];
static uint64_t expired_at[TIMERS], last;
static int expired;

static void notes(struct timer *t)
{
	/* In order, and not early. */
	assert_true(t->when >= last);
	assert_true(t->when <= loop_now(loop));
	assert_int_equal(expired_at[t - timers], 0);
	last = expired_at[t - timers] = t->when;
	expired++;
}

static void timers_expire_in_order(void **state)
{
	int stopped = 0;

	srand(1);
	last = expired = 0;
	for (int i = 0; i < TIMERS; i++) {
		timer_init(&timers[i], notes);
		assert_false(timer_runs(&timers[i]));
		timer_start(loop, &timers[i], rand() % 20000000);
	}
	/* Some are started again, some stopped, so that the heap is taken apart everywhere. */
	for (int i = 0; i < TIMERS; i++) {
		if (i % 3 == 0)
			timer_start(loop, &timers[i], rand() % 20000000);
		if (i % 7 == 0) {
			timer_stop(&timers[i]);
			assert_false(timer_runs(&timers[i]));
			timer_stop(&timers[i]);
			stopped++;
		}
	}
	run_for(40000000);
	assert_int_equal(expired, TIMERS - stopped);
	for (int i = 0; i < TIMERS; i++)
		assert_int_equal(expired_at[i] == 0, i % 7 == 0);
}

static void again(struct timer *t)
{
	expired++;
	timer_start(loop, t, 0);
}

static void always_due_timer_starves_nobody(void **state)
{
	struct timer t;

	expired = 0;
	timer_init(&t, again);
	timer_start(loop, &t, 0);
	/* A machine that stops for so long ends a run after its first turn. */
	for (int i = 0; i < 1000 && expired < 2; i++)
		run_for(2000000);
	assert_true(expired > 1);
	timer_stop(&t);
}

static void many_timers_are_cheap(void **state)
{
	static struct timer many[16384];
	uint64_t begin = now(CLOCK_PROCESS_CPUTIME_ID);

	for (int i = 0; i < 16384; i++)
		timer_init(&many[i], notes);
	/* Each in flight, each put off a hundred times, with turns of the loop between. */
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 16384; i++) {
			timer_start(loop, &many[i], 10000000000 + (i * 7919 + round) % 1000);
			if (i % 1024 == 0)
				run_for(1);
		}
	}
	for (int i = 0; i < 16384; i++)
		timer_stop(&many[i]);
	/* 1.6 million: a list would need minutes. */
	assert_true(now(CLOCK_PROCESS_CPUTIME_ID) - begin < 10000000000);
}

static struct timer put_off;
static bool is_put_off;

static void early(struct timer *t)
{
	assert_false(is_put_off);
	timer_start(loop, t, 100000000);
}

static void puts_off(void *arg, uint32_t events)
{
	is_put_off = true;
	timer_start(loop, &put_off, 1000000000000);
	loop_unwatch(loop, *(int *)arg);
}

static void idle_loop_sleeps(void **state)
{
	uint64_t begin = now(CLOCK_PROCESS_CPUTIME_ID), real = loop_now(loop);
	int ready = eventfd(1, EFD_NONBLOCK);

	/* It goes to sleep for this timer; the wake-up comes when it was put off. */
	timer_init(&put_off, early);
	timer_start(loop, &put_off, 100000000);
	assert_int_equal(loop_watch(loop, ready, EPOLLIN, puts_off, &ready), 0);
	run_for(300000000);
	assert_true(timer_runs(&put_off));
	timer_stop(&put_off);
	assert_true(now(CLOCK_MONOTONIC) - real >= 300000000);
	assert_true(now(CLOCK_PROCESS_CPUTIME_ID) - begin < 50000000);
	close(ready);
}

static struct work works[100];
static int ran[100], total, event, seen_at;

static void runs(struct work *w)
{
	ran[w - works]++;
	if (++total == 1000)
		loop_stop(loop);
	loop_work(loop, w);
	loop_work(loop, w);
}

static void event_ready(void *arg, uint32_t events)
{
	uint64_t value;

	assert_int_equal(read(event, &value, sizeof(value)), sizeof(value));
	assert_int_equal(events, EPOLLIN);
	seen_at = total;
}

static void work_is_fair_and_sockets_are_polled(void **state)
{
	uint64_t one = 1;

	total = seen_at = 0;
	memset(ran, 0, sizeof(ran));
	event = eventfd(1, EFD_NONBLOCK);
	assert_int_equal(loop_watch(loop, event, EPOLLIN, event_ready, NULL), 0);
	for (int i = 0; i < 100; i++) {
		work_init(&works[i], runs);
		loop_work(loop, &works[i]);
		loop_work(loop, &works[i]);
	}
	loop_run(loop);
	assert_in_range(total, 1000, 1100);
	for (int i = 0; i < 100; i++)
		assert_in_range(ran[i], 9, 11);
	/* Not only after all hundred. */
	assert_in_range(seen_at, 1, 99);
	for (int i = 0; i < 100; i++)
		work_stop(&works[i]);
	/* What was stopped does not run. */
	total = 0;
	run_for(1000000);
	assert_int_equal(total, 0);

	loop_unwatch(loop, event);
	seen_at = -1;
	assert_int_equal(write(event, &one, sizeof(one)), sizeof(one));
	run_for(1000000);
	assert_int_equal(seen_at, -1);
	close(event);
}

/* Of timers and work that each take long, one of each comes before sockets are polled. */
static int most, long_timers;
static struct timer long_timer[4];

static void takes_long(void)
{
	uint64_t begin = now(CLOCK_MONOTONIC);

	while (now(CLOCK_MONOTONIC) - begin < 20000000)
		;
	if (++total == 20)
		loop_stop(loop);
}

static void long_work(struct work *w)
{
	takes_long();
	loop_work(loop, w);
}

static void long_expired(struct timer *t)
{
	long_timers++;
	takes_long();
	timer_start(loop, t, 0);
}

static void notes_how_many(void *arg, uint32_t events)
{
	if (total - seen_at > most)
		most = total - seen_at;
	seen_at = total;
}

static void long_work_shares_no_turn(void **state)
{
	total = seen_at = most = long_timers = 0;
	event = eventfd(1, EFD_NONBLOCK);
	assert_int_equal(loop_watch(loop, event, EPOLLIN, notes_how_many, NULL), 0);
	for (int i = 0; i < 4; i++) {
		work_init(&works[i], long_work);
		loop_work(loop, &works[i]);
		timer_init(&long_timer[i], long_expired);
		timer_start(loop, &long_timer[i], 0);
	}
	loop_run(loop);
	assert_int_equal(most, 2);
	assert_in_range(long_timers, 9, 11);
	for (int i = 0; i < 4; i++) {
		work_stop(&works[i]);
		timer_stop(&long_timer[i]);
	}
	loop_unwatch(loop, event);
	close(event);
}

static void stops_next(struct work *w)
{
	total++;
	work_stop(&works[1]);
}

static void work_stopped_in_its_round_does_not_run(void **state)
{
	total = 0;
	memset(ran, 0, sizeof(ran));
	work_init(&works[0], stops_next);
	work_init(&works[1], runs);
	loop_work(loop, &works[0]);
	loop_work(loop, &works[1]);
	run_for(1000000);
	assert_int_equal(total, 1);
	assert_int_equal(ran[1], 0);
}

static int pair[2], reopened, first = -1;

static void closes_other(void *arg, uint32_t events)
{
	int *other = arg;

	if (first >= 0)
		return;
	first = 1;
	loop_stop(loop);	/* after this batch */
	/* The other one is ready too, and in the same batch; its number gets a new user. */
	loop_unwatch(loop, *other);
	close(*other);
	reopened = eventfd(0, EFD_NONBLOCK);
	assert_int_equal(reopened, *other);
	assert_int_equal(loop_watch(loop, reopened, EPOLLIN, event_ready, NULL), 0);
	loop_unwatch(loop, other == &pair[0] ? pair[1] : pair[0]);
}

static void stale_event_reaches_nobody(void **state)
{
	pair[0] = eventfd(1, EFD_NONBLOCK);
	pair[1] = eventfd(1, EFD_NONBLOCK);
	assert_int_equal(loop_watch(loop, pair[0], EPOLLIN, closes_other, &pair[1]), 0);
	assert_int_equal(loop_watch(loop, pair[1], EPOLLIN, closes_other, &pair[0]), 0);
	assert_int_equal(loop_watch(loop, pair[1], EPOLLIN, closes_other, &pair[0]), -EEXIST);
	event = -1;	/* event_ready() would fail */
	loop_run(loop);
	assert_int_equal(first, 1);
	loop_unwatch(loop, reopened);
	close(pair[0]);
	close(pair[1]);
}

static void watch_of_a_bad_fd_is_ebadf(void **state)
{
	assert_int_equal(loop_watch(loop, -1, EPOLLIN, event_ready, NULL), -EBADF);
	assert_int_equal(loop_watch(loop, 900, EPOLLIN, event_ready, NULL), -EBADF);
	assert_int_equal(loop_rewatch(loop, 900, EPOLLIN), -ENOENT);
	loop_unwatch(loop, 900);
	loop_unwatch(loop, 90000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(timers_expire_in_order),
		TEST(always_due_timer_starves_nobody),
		TEST(many_timers_are_cheap),
		TEST(idle_loop_sleeps),
		TEST(work_is_fair_and_sockets_are_polled),
		TEST(long_work_shares_no_turn),
		TEST(work_stopped_in_its_round_does_not_run),
		TEST(stale_event_reaches_nobody),
		TEST(watch_of_a_bad_fd_is_ebadf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
