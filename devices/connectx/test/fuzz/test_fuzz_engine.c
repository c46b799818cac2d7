// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The engine of the fuzz programs: it runs each input of the corpus and as many changes as it
 * is asked for, and a run without a corpus is not a success.
 *
 * The target is in this file.  Each run is a process of its own.
 */
#define main engine
#include "main.c"
#undef main
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <cmocka.h>

static char said[1024];		/* the end of a run's output */
static char directory[64];	/* the corpus */
static unsigned int *calls;	/* of the target, in all processes since begin() */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	++*calls;
	return 0;
}

/* Give each case a corpus of FILES inputs. */
static void begin(unsigned int files)
{
	char path[128];

	*calls = 0;
	strcpy(directory, "/tmp/test_fuzz_engine.XXXXXX");
	assert_non_null(mkdtemp(directory));
	while (files--) {
		snprintf(path, sizeof(path), "%s/%u", directory, files);
		close(open(path, O_WRONLY | O_CREAT, 0600));
	}
}

static void end(unsigned int files)
{
	char path[128];

	while (files--) {
		snprintf(path, sizeof(path), "%s/%u", directory, files);
		unlink(path);
	}
	assert_int_equal(rmdir(directory), 0);
}

/* The exit status of a run with OPTION. */
static int status_of(char *option)
{
	char *words[] = { "fuzz", directory, option };
	int out[2], status;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(out), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(out[1], STDOUT_FILENO);
		exit(engine(option ? 3 : 2, words));
	}
	close(out[1]);
	while ((n = read(out[0], said + len, sizeof(said) - 1 - len)) > 0)
		len += n;
	said[len] = 0;
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void corpus_alone_passes(void **state)
{
	begin(3);
	assert_int_equal(status_of(NULL), 0);
	end(3);
	assert_int_equal(*calls, 3);
	assert_string_equal(said, "1..1\n# 3 files\nok 1 - corpus\n");
}

static void empty_corpus_fails(void **state)
{
	begin(0);
	assert_int_equal(status_of(NULL), 1);
	assert_non_null(strstr(said, "not ok 1 - corpus\n"));
	assert_int_equal(status_of("-runs=1"), 1);
	assert_non_null(strstr(said, "\nok 2 - changed_inputs\n"));
	end(0);
}

static void changes_are_as_many_as_asked(void **state)
{
	begin(2);
	assert_int_equal(status_of("-runs=50"), 0);
	assert_int_equal(*calls, 2 + 50);
	end(2);
	assert_non_null(strstr(said, "\nok 2 - changed_inputs\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(corpus_alone_passes),
		cmocka_unit_test(empty_corpus_fails),
		cmocka_unit_test(changes_are_as_many_as_asked),
	};

	calls = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (calls == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
