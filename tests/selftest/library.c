// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick; devices: rxe */
/* runs: full; devices: connectx */
/*
 * The tests' own library: a case ends as it should (case.h, harness.h), and memory that was
 * never opened, or only in part, can be closed.
 *
 * Cases of the fixture "inner" end in every possible way.  Each case of the fixture
 * "library" runs one of them, in another process of this program, and looks at its
 * output and its exit status.
 */
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

FIXTURE(inner)
{
	struct memory memory;
	struct memory never_opened;
	struct pair pair;
	struct ibv_mr *mr;
	struct ibv_context *ctx;
	bool teardown_fails;
};

FIXTURE_VARIANT(inner)
{
	enum { NOTHING, EXPECTATION, HELPER, SKIP_IT } ends_setup;
};

FIXTURE_VARIANT_ADD(inner, setup_is_good) { NOTHING };
FIXTURE_VARIANT_ADD(inner, setup_expects_wrong) { EXPECTATION };
FIXTURE_VARIANT_ADD(inner, setup_fails) { HELPER };
FIXTURE_VARIANT_ADD(inner, setup_skips) { SKIP_IT };

static void helper(void)
{
	void *nothing = NULL;

	errno = ENOENT;
	must(nothing);
}

FIXTURE_SETUP(inner)
{
	memory_open_filled(&self->memory, MEMFD, PAGE, 1);
	if (variant->ends_setup == EXPECTATION)
		EXPECT_EQ(1, 2);
	if (variant->ends_setup == HELPER)
		helper();
	if (variant->ends_setup == SKIP_IT)
		need("what no device can");
}

FIXTURE_TEARDOWN(inner)
{
	mr_close(self->mr);
	pair_close(&self->pair);
	device_close(self->ctx);
	memory_close(&self->memory);
	memory_close(&self->never_opened);
	printf("# torn down\n");
	if (self->teardown_fails)
		helper();
	fflush(stdout);
}

TEST_F(inner, case_passes)
{
	printf("# the case runs\n");
}

TEST_F(inner, teardown_fails)
{
	self->teardown_fails = true;
}

TEST_F(inner, helper_fails)
{
	helper();
	printf("# the case goes on\n");
}

TEST_F(inner, assertion_fails)
{
	ASSERT_EQ(1, 2);
	printf("# the case goes on\n");
}

TEST_F(inner, case_skips)
{
	need("what no device can");
	printf("# the case goes on\n");
}

TEST_F(inner, case_skips_after_a_failure)
{
	EXPECT_EQ(1, 2);
	skip_case("too late");
}

static void *thread_main(void *unused)
{
	helper();
	return NULL;
}

TEST_F(inner, thread_fails)
{
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, thread_main, NULL));
	pthread_join(thread, NULL);
	printf("# the case goes on\n");
}

TEST_F(inner, child_fails)
{
	int status;

	if (!fork())
		helper();
	ASSERT_LT(0, wait(&status));
	ASSERT_EQ(1 << 8, status);
	printf("# the case goes on\n");
}

TEST_F_TIMEOUT(inner, case_is_slow, 1)
{
	sleep(2);
	printf("# the case goes on\n");
}

FIXTURE(library)
{
};

FIXTURE_SETUP(library)
{
}

FIXTURE_TEARDOWN(library)
{
}

struct outcome {
	char text[4096];
	int status;
};

/* Run one inner case by itself, for PATIENCE times the seconds that it names. */
static struct outcome run_for(int patience, const char *variant, const char *name)
{
	struct outcome outcome = {};
	char command[256];
	FILE *f;

	snprintf(command, sizeof(command),
		 "MRFD_PATIENCE=%d /proc/%d/exe -r inner.%s.%s 2>&1", patience, getpid(), variant,
		 name);
	f = must(popen(command, "r"));
	outcome.text[fread(outcome.text, 1, sizeof(outcome.text) - 1, f)] = 0;
	outcome.status = pclose(f);
	return outcome;
}

static struct outcome run(const char *variant, const char *name)
{
	return run_for(patience(), variant, name);
}

static bool says(const struct outcome *outcome, const char *text)
{
	return strstr(outcome->text, text);
}

/* Indent the output, so that its results are not taken for those of the case. */
static void print(const struct outcome *outcome)
{
	char text[sizeof(outcome->text)];

	strcpy(text, outcome->text);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		printf("#     %s\n", line);
}

#define EXPECT_SAYS(words, wanted)	\
	EXPECT_EQ(wanted, says(&o, words)) { print(&o); }
#define FAILS "\nnot ok 1 "
#define PASSES "\nok 1 "
#define TORN_DOWN "# torn down\n"

TEST_F(library, passing_case_is_torn_down)
{
	struct outcome o = run("setup_is_good", "case_passes");

	EXPECT_SAYS("# the case runs\n", true);
	EXPECT_SAYS(TORN_DOWN, true);
	EXPECT_SAYS(PASSES, true);
	EXPECT_EQ(0, o.status);
}

TEST_F(library, failing_teardown_runs_once)
{
	struct outcome o = run("setup_is_good", "teardown_fails");

	EXPECT_SAYS(TORN_DOWN, true);
	EXPECT_SAYS(FAILS, true);
	EXPECT_EQ(NULL, strstr(strstr(o.text, TORN_DOWN) + 1, TORN_DOWN));
}

TEST_F(library, failed_helper_ends_the_case_with_its_teardown)
{
	struct outcome o = run("setup_is_good", "helper_fails");

	EXPECT_SAYS(": nothing: No such file or directory\n", true);
	EXPECT_SAYS("# the case goes on\n", false);
	EXPECT_SAYS(TORN_DOWN, true);
	EXPECT_SAYS(FAILS, true);
	EXPECT_NE(0, o.status);
}

TEST_F(library, failed_assertion_ends_the_case_with_its_teardown)
{
	struct outcome o = run("setup_is_good", "assertion_fails");

	EXPECT_SAYS("# the case goes on\n", false);
	EXPECT_SAYS(TORN_DOWN, true);
	EXPECT_SAYS(FAILS, true);
}

TEST_F(library, failed_helper_in_setup_ends_case_with_teardown)
{
	struct outcome o = run("setup_fails", "case_passes");

	EXPECT_SAYS(": nothing: No such file or directory\n", true);
	EXPECT_SAYS("# the case runs\n", false);
	EXPECT_SAYS(TORN_DOWN, true);
	EXPECT_SAYS(FAILS, true);
}

TEST_F(library, failed_expect_in_setup_ends_case_with_teardown)
{
	struct outcome o = run("setup_expects_wrong", "case_passes");

	EXPECT_SAYS("# the case runs\n", false);
	EXPECT_SAYS(TORN_DOWN, true);
	EXPECT_SAYS(FAILS, true);
}

TEST_F(library, unmet_need_skips_the_case)
{
	struct outcome o = run("setup_is_good", "case_skips");

	EXPECT_SAYS("# the case goes on\n", false);
	EXPECT_SAYS(TORN_DOWN, true);
	EXPECT_SAYS(PASSES "inner.setup_is_good.case_skips # SKIP ", true);
	EXPECT_SAYS(" has no what no device can\n", true);
	EXPECT_EQ(0, o.status);
}

TEST_F(library, setup_may_skip_the_case)
{
	struct outcome o = run("setup_skips", "case_passes");

	EXPECT_SAYS("# the case runs\n", false);
	EXPECT_SAYS(TORN_DOWN, true);
	EXPECT_SAYS(PASSES "inner.setup_skips.case_passes # SKIP ", true);
}

TEST_F(library, skip_does_not_hide_a_failure)
{
	struct outcome o = run("setup_is_good", "case_skips_after_a_failure");

	EXPECT_SAYS(TORN_DOWN, true);
	EXPECT_SAYS(FAILS, true);
	EXPECT_SAYS("# SKIP too late\n", true);
}

TEST_F(library, failed_helper_in_a_thread_ends_the_process)
{
	struct outcome o = run("setup_is_good", "thread_fails");

	EXPECT_SAYS(": nothing: No such file or directory\n", true);
	EXPECT_SAYS("# the case goes on\n", false);
	EXPECT_SAYS(FAILS, true);
}

TEST_F(library, failed_helper_in_a_child_ends_the_child)
{
	struct outcome o = run("setup_is_good", "child_fails");

	EXPECT_SAYS(": nothing: No such file or directory\n", true);
	EXPECT_SAYS("# the case goes on\n", true);
	EXPECT_SAYS(TORN_DOWN, true);
	EXPECT_SAYS(PASSES, true);
}

TEST_F(library, case_over_its_time_says_where_it_stands)
{
	struct outcome o = run_for(1, "setup_is_good", "case_is_slow");

	EXPECT_SAYS("#     name: exe\n", true);
	EXPECT_SAYS("#     sleeps in: hrtimer_nanosleep\n", true);
	EXPECT_SAYS("# the case goes on\n", false);
	EXPECT_SAYS(FAILS, true);
}

TEST_F(library, case_has_more_time_on_a_busy_machine)
{
	struct outcome o = run_for(30, "setup_is_good", "case_is_slow");

	EXPECT_SAYS("# the case goes on\n", true);
	EXPECT_SAYS(TORN_DOWN, true);
	EXPECT_SAYS(PASSES, true);
}

/* Without arguments the inner cases do not run. */
int main(int argc, char **argv)
{
	char *outer[] = { argv[0], "-F", "inner", NULL };

	return argc > 1 ? test_harness_run(argc, argv) : test_harness_run(3, outer);
}
