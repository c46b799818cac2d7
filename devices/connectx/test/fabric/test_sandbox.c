// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The sandbox: what the event loop does goes on, and any other system call is the end; also for
 * the fabric's whole program.
 *
 * Each case is a process of its own.  fabric-main.c is included.
 */
#define _GNU_SOURCE
#define main fabric_program
#include "fabric-main.c"
#undef main
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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define MEMORY (512ul << 20)
#ifdef __SANITIZE_ADDRESS__
#define NO_SANDBOX true
#else
#define NO_SANDBOX false
#endif

/* Where a case runs: the model before and after QEMU has come, and the fabric. */
enum where { FIRST_WALL, SECOND_WALL, IN_FABRIC, WHERES };

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

static bool answered;

static void stops(struct timer *t)
{
	if (answered)
		loop_stop(loop);
	else
		timer_start(loop, t, 1000000);
}

static void ready(void *arg, uint32_t events)
{
	char c;

	if (recv(pair[0], &c, 1, MSG_DONTWAIT) != 1 || send(pair[0], &c, 1, MSG_NOSIGNAL) != 1)
		_exit(2);
	answered = true;
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

static int enter(enum where where)
{
	if (where == IN_FABRIC)
		return sandbox_enter(SANDBOX_FABRIC, MEMORY);
	if (sandbox_enter(SANDBOX_MODEL, MEMORY))
		return -1;
	return where == SECOND_WALL ? sandbox_narrow(SANDBOX_MODEL) : 0;
}

/* The wait status of a child that does it there. */
static int in_sandbox(step *what, enum where where)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		loop = loop_new();
		if (!loop || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
			_exit(99);
		if (enter(where))
			_exit(100);
		what();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void assert_the_end(step *what, enum where where)
{
	int status = in_sandbox(what, where);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSYS);
}

static void loop_works_in_the_sandbox(void **state)
{
	for (int where = 0; where < WHERES; where++)
		assert_int_equal(in_sandbox(works, where), 0);
}

static void other_system_calls_are_sigsys(void **state)
{
	static step *const bad[] = {
		opens_a_file, makes_a_socket, starts_a_process, runs_a_program, sends_a_signal,
		stats_a_path, makes_code,
	};

	if (NO_SANDBOX)
		skip();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (int where = 0; where < WHERES; where++)
			assert_the_end(bad[i], where);
}

static void narrowed_model_may_not_accept_or_unlink(void **state)
{
	static step *const bad[] = { takes_a_socket, removes_a_file };

	if (NO_SANDBOX)
		skip();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(in_sandbox(bad[i], FIRST_WALL), 0);
		assert_the_end(bad[i], SECOND_WALL);
	}
}

/* Models come and go, while those that are there may be hostile already. */
static void fabric_may_accept_but_not_unlink(void **state)
{
	if (NO_SANDBOX)
		skip();
	assert_int_equal(in_sandbox(takes_a_socket, IN_FABRIC), 0);
	assert_the_end(removes_a_file, IN_FABRIC);
}

static void memory_limit_fails_malloc(void **state)
{
	if (NO_SANDBOX)
		skip();
	assert_int_equal(in_sandbox(takes_too_much, SECOND_WALL), 0);
	assert_int_equal(in_sandbox(takes_too_much, IN_FABRIC), 0);
}

/* ---- the program ---- */

static struct {
	char dir[32], socket[64], log[64], pcap[64];
	pid_t pid;
} program;

static void program_start(void)
{
	char *words[] = { "connectx-fabric", "--socket", program.socket, "--pcap", program.pcap,
			  "--trace" };

	strcpy(program.dir, "/tmp/test_sandbox.XXXXXX");
	assert_non_null(mkdtemp(program.dir));
	snprintf(program.socket, sizeof(program.socket), "%s/socket", program.dir);
	snprintf(program.log, sizeof(program.log), "%s/log", program.dir);
	snprintf(program.pcap, sizeof(program.pcap), "%s/pcap", program.dir);
	fflush(NULL);		/* not in both processes */
	program.pid = fork();
	assert_true(program.pid >= 0);
	if (!program.pid) {
		/* It must not outlive a test that fails. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) || !freopen(program.log, "w", stderr))
			_exit(98);
		exit(fabric_program(sizeof(words) / sizeof(words[0]), words));
	}
}

static void send_frame(int fd, u8 type, const u8 *body, size_t len)
{
	u8 head[FABRIC_HEADER] = { type };

	put_be16(head + 2, len);
	assert_int_equal(write(fd, head, sizeof(head)), sizeof(head));
	assert_int_equal(write(fd, body, len), len);
}

/* Its body has LEN bytes. */
static void receive_frame(int fd, u8 type, u8 *body, size_t len)
{
	u8 head[FABRIC_HEADER];

	assert_int_equal(recv(fd, head, sizeof(head), MSG_WAITALL), sizeof(head));
	assert_int_equal(head[0], type);
	assert_int_equal(be16_at(head + 2), len);
	assert_int_equal(recv(fd, body, len, MSG_WAITALL), len);
}

/* A model that said hello; *LID is what it got. */
static int join(uint64_t guid, uint16_t *lid)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	u8 hello_body[FABRIC_HELLO_SIZE], welcome[FABRIC_WELCOME_SIZE];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), tries = 0;

	strcpy(at.sun_path, program.socket);
	while (connect(fd, (struct sockaddr *)&at, sizeof(at))) {
		assert_true(++tries < 1000);
		usleep(10000);
	}
	put_be32(hello_body, FABRIC_MAGIC);
	put_be64(hello_body + 4, guid);
	send_frame(fd, FABRIC_HELLO, hello_body, sizeof(hello_body));
	receive_frame(fd, FABRIC_WELCOME, welcome, sizeof(welcome));
	*lid = be16_at(welcome);
	return fd;
}

static void read_text(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	text[fread(text, 1, size - 1, file)] = 0;
	fclose(file);
}

/* What /proc says of it, and who may connect. */
static void assert_shut_in(void)
{
	char path[64], status[4096];
	struct stat st;

	assert_int_equal(stat(program.socket, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0700);
	if (NO_SANDBOX)
		return;
	snprintf(path, sizeof(path), "/proc/%d/status", program.pid);
	read_text(path, status, sizeof(status));
	assert_non_null(strstr(status, "NoNewPrivs:\t1\n"));
	assert_non_null(strstr(status, "Seccomp:\t2\n"));
}

/* It takes models, carries packets, answers for its administrator, and ends as it should. */
static void fabric_program_works_in_the_sandbox(void **state)
{
	u8 wire[26] = { 0 }, got[sizeof(wire)];
	char log[4096];
	uint16_t a, b;
	int one, two, status;

	program_start();
	one = join(1, &a);
	two = join(2, &b);
	assert_shut_in();
	put_be16(wire + 2, b);
	put_be16(wire + 4, sizeof(wire) / 4);
	put_be16(wire + 6, a);
	send_frame(one, FABRIC_PACKET, wire, sizeof(wire));
	receive_frame(two, FABRIC_PACKET, got, sizeof(got));
	assert_memory_equal(got, wire, sizeof(wire));
	put_be16(wire + 2, SWITCH_SM_LID);
	send_frame(one, FABRIC_PACKET, wire, sizeof(wire));
	close(one);				/* one leaves, another one comes */
	one = join(3, &a);
	assert_int_equal(kill(program.pid, SIGTERM), 0);
	assert_int_equal(waitpid(program.pid, &status, 0), program.pid);
	assert_int_equal(status, 0);
	close(one);
	close(two);
	read_text(program.log, log, sizeof(log));
	assert_non_null(strstr(log, "2 packets; 1 bad,"));
	assert_int_equal(unlink(program.socket) | unlink(program.log) | unlink(program.pcap) |
			 rmdir(program.dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loop_works_in_the_sandbox),
		cmocka_unit_test(other_system_calls_are_sigsys),
		cmocka_unit_test(narrowed_model_may_not_accept_or_unlink),
		cmocka_unit_test(fabric_may_accept_but_not_unlink),
		cmocka_unit_test(memory_limit_fails_malloc),
		cmocka_unit_test(fabric_program_works_in_the_sandbox),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
