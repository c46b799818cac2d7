// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The sandbox, each case in a process of its own: what the loop does goes on, anything
 * else is the end.
 */
#define _GNU_SOURCE
#include "sandbox.h"
#include "loop.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdbool.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define MEMORY (512ul << 20)
#ifdef __SANITIZE_ADDRESS__
#define NO_SANDBOX true
#else
#define NO_SANDBOX false
#endif

static struct loop *loop;
static int pair[2];

/* What the child does; it exits with 0 if all went well. */
typedef void step(void);

static void opens_a_file(void) { open("/dev/null", O_RDONLY); }
static void makes_a_socket(void) { socket(AF_UNIX, SOCK_STREAM, 0); }
static void starts_a_process(void) { if (!fork()) _exit(0); }
static void runs_a_program(void) { execl("/bin/true", "true", (char *)NULL); }
static void sends_a_signal(void) { kill(getppid(), SIGCONT); }
static void takes_a_socket(void) { accept4(pair[0], NULL, NULL, 0); }
static void removes_a_file(void) { unlink("/nonexistent/file"); }
static void stats_a_path(void) { struct stat st; stat("/dev/null", &st); }
static void makes_code(void)
{
	mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void stops(struct timer *t)
{
	loop_stop(loop);
}

static void ready(void *arg, uint32_t events)
{
	char c;

	if (recv(pair[0], &c, 1, MSG_DONTWAIT) != 1 || send(pair[0], &c, 1, MSG_NOSIGNAL) != 1)
		_exit(2);
	loop_unwatch(loop, pair[0]);
}

static void works(void)
{
	struct timer t;
	struct stat st;
	void *p;

	if (send(pair[1], "x", 1, 0) != 1 ||
	    loop_watch(loop, pair[0], EPOLLIN, ready, NULL))
		_exit(3);
	timer_init(&t, stops);
	timer_start(loop, &t, 1000000);
	loop_run(loop);
	/* Small and large memory, and files that are open. */
	for (size_t n = 16; n <= 64 << 20; n *= 4) {
		p = realloc(malloc(n), 2 * n);
		if (!p)
			_exit(4);
		free(p);
	}
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || munmap(p, 4096) || fstat(2, &st) ||
	    fcntl(pair[0], F_SETFL, fcntl(pair[0], F_GETFL) | O_NONBLOCK))
		_exit(5);
	fprintf(stderr, "%s", "");
	fflush(NULL);
	close(pair[0]);
}

static void takes_too_much(void)
{
	size_t total = 0;

	for (; total < 2 * MEMORY && malloc(1 << 20); total += 1 << 20)
		;
	_exit(total < 2 * MEMORY ? 0 : 6);
}

/* The wait status of a child that does it behind one wall, or two. */
static int in_sandbox(step *what, int walls)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		loop = loop_new();
		if (!loop || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
			_exit(99);
		if (sandbox_enter(MEMORY) || (walls == 2 && sandbox_narrow()))
			_exit(100);
		what();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void the_loop_goes_on(void **state)
{
	assert_int_equal(in_sandbox(works, 1), 0);
	assert_int_equal(in_sandbox(works, 2), 0);
}

static void the_rest_is_the_end(void **state)
{
	static step *const bad[] = {
		opens_a_file, makes_a_socket, starts_a_process, runs_a_program, sends_a_signal,
		stats_a_path, makes_code,
	};

	if (NO_SANDBOX)
		skip();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		for (int walls = 1; walls <= 2; walls++) {
			int status = in_sandbox(bad[i], walls);

			assert_true(WIFSIGNALED(status));
			assert_int_equal(WTERMSIG(status), SIGSYS);
		}
	}
}

static void the_second_wall_ends_what_the_first_allows(void **state)
{
	static step *const bad[] = { takes_a_socket, removes_a_file };

	if (NO_SANDBOX)
		skip();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int status = in_sandbox(bad[i], 2);

		assert_int_equal(in_sandbox(bad[i], 1), 0);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGSYS);
	}
}

static void memory_has_an_end(void **state)
{
	if (NO_SANDBOX)
		skip();
	assert_int_equal(in_sandbox(takes_too_much, 2), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_loop_goes_on),
		cmocka_unit_test(the_rest_is_the_end),
		cmocka_unit_test(the_second_wall_ends_what_the_first_allows),
		cmocka_unit_test(memory_has_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
