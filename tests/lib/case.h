/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How a helper ends a case: fail_case() if something is wrong, skip_case() if the
 * device cannot do what the case needs, and must() for a call that has to succeed.
 *
 * In the process and thread that runs a case they end the case like a failed
 * ASSERT_*, so the TEARDOWN of its fixture runs, also when it is the SETUP that
 * fails: a teardown has to cope with fields that are still 0.  In another thread,
 * in a forked process, and in a program without cases there is no case to end;
 * there they print the same message and end the process with status 1.
 */
#ifndef LIB_CASE_H
#define LIB_CASE_H

#include <errno.h>
#include <stdbool.h>

#define fail_case(fmt, ...) case_fail(__FILE__, __LINE__, fmt, ##__VA_ARGS__)

#define must(what) ({							\
	__typeof__(what) must_result = (what);				\
	if (!must_result)						\
		fail_case("%s", #what);					\
	must_result;							\
})

void case_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
void skip_case(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/*
 * For harness.h: from now on this thread runs a case.  END ends it and does not
 * return; REASON is why it is skipped, or NULL if it has failed.
 */
void case_begin(void (*end)(const char *reason));
bool case_runs_here(void);
/* LOOK runs before a failure is told.  It may find that there is an excuse, and not return. */
void case_excuse(void (*look)(void));

#endif
