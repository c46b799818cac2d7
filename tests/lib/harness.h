/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's test harness, with cases that a helper can end (see case.h), and with
 * a teardown that runs however a case ends.
 *
 * By itself the harness leaves the teardown out if the setup fails, and at -O2 also
 * after a failed ASSERT_*: it goes back by longjmp() to a function that then reads a
 * local variable which the jump has made indeterminate.  So FIXTURE_SETUP() stores the
 * teardown here, and instead of each jump the teardown is called.
 */
#ifndef LIB_HARNESS_H
#define LIB_HARNESS_H

#include "lib/case.h"
#include "lib/clock.h"
#include "lib/stands.h"
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

static inline void __attribute__((noreturn)) harness_jump(jmp_buf env, int value);

/* The end of a case that is over its time, and the end of the harness by the signal of a case. */
static inline int harness_kill(pid_t pid, int signal)
{
	if (pid < 0)
		say_where_group_stands(-pid);
	return kill(pid, signal);
}

/*
 * The harness waits for a case by poll(), for the seconds that the case names; see clock.h.
 * selftest/library fails if another version of it waits in another way.
 */
#define longjmp harness_jump
#define kill harness_kill
#define poll(fds, count, ms) poll(fds, count, patience() * (ms))
#include "kselftest_harness.h"
#undef poll
#undef kill
#undef longjmp

/*
 * For a main() that prepares the guest for its cases.  They are listed without that, because
 * they are also listed outside a guest.
 */
static inline int harness_run(int argc, char **argv, void (*prepare)(void))
{
	if (argc < 2 || strcmp(argv[1], "-l"))
		prepare();
	return test_harness_run(argc, argv);
}

/* Seconds for a case that names no limit. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT 120

static struct harness_case {
	struct __test_metadata *test;
	void (*teardown)(struct __test_metadata *test, void *self, const void *variant);
	void *self;
	const void *variant;
	bool torn_down;		/* or its teardown has begun */
} harness_case;

static inline void __attribute__((noreturn)) harness_end_case(void)
{
	struct harness_case *c = &harness_case;

	if (!c->torn_down)
		c->teardown(c->test, c->self, c->variant);
	_exit(0);	/* the harness knows the result */
}

/* A failed ASSERT_*. */
static inline void harness_jump(jmp_buf env, int value)
{
	if (case_runs_here())
		harness_end_case();
	_exit(1);
}

/* A helper; REASON says why it skips the case, or is NULL if it failed. */
static inline void harness_helper_ends(const char *reason)
{
	struct __test_metadata *test = harness_case.test;

	if (!reason) {
		test->exit_code = KSFT_FAIL;
		test->aborted = true;
	} else if (!test->exit_code) { /* a skip does not hide a failed EXPECT_* */
		test->exit_code = KSFT_SKIP;
		snprintf(test->results->reason, sizeof(test->results->reason), "%s", reason);
	}
	harness_end_case();
}

#undef FIXTURE_SETUP
#define FIXTURE_SETUP(fixture)							\
	static void fixture##_prepare(struct __test_metadata *_metadata,	\
				      FIXTURE_DATA(fixture) *self,		\
				      const FIXTURE_VARIANT(fixture) *variant);	\
	void fixture##_teardown(struct __test_metadata *_metadata,		\
				FIXTURE_DATA(fixture) *self,			\
				const FIXTURE_VARIANT(fixture) *variant);	\
	static void fixture##_tear_down(struct __test_metadata *test,		\
					void *self, const void *variant)	\
	{									\
		fixture##_teardown(test, self, variant);			\
	}									\
	void fixture##_setup(struct __test_metadata *_metadata,			\
			     FIXTURE_DATA(fixture) *self,			\
			     const FIXTURE_VARIANT(fixture) *variant)		\
	{									\
		harness_case = (struct harness_case){				\
			_metadata, fixture##_tear_down, self, variant, false	\
		};								\
		case_begin(harness_helper_ends);				\
		fixture##_prepare(_metadata, self, variant);			\
		if (_metadata->exit_code) /* a failed EXPECT_* */		\
			harness_end_case();					\
	}									\
	static void fixture##_prepare(						\
		struct __test_metadata __attribute__((unused)) *_metadata,	\
		FIXTURE_DATA(fixture) __attribute__((unused)) *self,		\
		const FIXTURE_VARIANT(fixture) __attribute__((unused)) *variant)

#undef FIXTURE_TEARDOWN
#define FIXTURE_TEARDOWN(fixture)						\
	static const bool fixture##_teardown_parent;				\
	static void fixture##_clean_up(struct __test_metadata *_metadata,	\
				       FIXTURE_DATA(fixture) *self,		\
				       const FIXTURE_VARIANT(fixture) *variant);\
	void fixture##_teardown(struct __test_metadata *_metadata,		\
				FIXTURE_DATA(fixture) *self,			\
				const FIXTURE_VARIANT(fixture) *variant)	\
	{									\
		harness_case.torn_down = true;					\
		fixture##_clean_up(_metadata, self, variant);			\
	}									\
	static void fixture##_clean_up(						\
		struct __test_metadata __attribute__((unused)) *_metadata,	\
		FIXTURE_DATA(fixture) __attribute__((unused)) *self,		\
		const FIXTURE_VARIANT(fixture) __attribute__((unused)) *variant)

#endif
