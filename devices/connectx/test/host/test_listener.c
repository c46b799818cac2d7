// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The model's socket in the file system: who may connect to it, and what it may replace.
 */
#include "listener.h"
#include "trace.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

static char directory[32], path[64];
static char said[512];

void note(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(said, sizeof(said), fmt, args);
	va_end(args);
}

static int begin(void **state)
{
	*said = 0;
	strcpy(directory, "/tmp/test_listener.XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/socket", directory);
	return 0;
}

static int end(void **state)
{
	unlink(path);
	return rmdir(directory);
}

static mode_t mode(void)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode;
}

static void socket_has_mode_0700(void **state)
{
	mode_t before = umask(0);
	int fd = listener_open(path, 1);

	assert_true(fd >= 0);
	assert_int_equal(mode(), S_IFSOCK | 0700);
	/* Other files get the rights that they always got. */
	assert_int_equal(umask(before), 0);
	close(fd);
}

static void socket_accepts_a_client(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = listener_open(path, 1), client = socket(AF_UNIX, SOCK_STREAM, 0), got;

	strcpy(at.sun_path, path);
	assert_int_equal(accept(fd, NULL, NULL), -1);	/* it does not block */
	assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(at)), 0);
	got = accept(fd, NULL, NULL);
	assert_true(got >= 0);
	close(got);
	close(client);
	close(fd);
}

static void stale_socket_is_replaced(void **state)
{
	int fd;

	close(listener_open(path, 1));
	assert_true(S_ISSOCK(mode()));
	fd = listener_open(path, 1);
	assert_true(fd >= 0);
	assert_string_equal(said, "");
	close(fd);
}

/* Asking must not look like a client to the one who listens. */
static void live_socket_stays(void **state)
{
	int fd = listener_open(path, 1);

	assert_int_equal(listener_open(path, 1), -1);
	assert_non_null(strstr(said, "somebody listens there"));
	assert_int_equal(accept(fd, NULL, NULL), -1);
	assert_true(S_ISSOCK(mode()));
	close(fd);
}

static void file_that_is_no_socket_stays(void **state)
{
	close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(listener_open(path, 1), -1);
	assert_non_null(strstr(said, "is not a socket"));
	assert_true(S_ISREG(mode()));
}

static void impossible_path_is_refused(void **state)
{
	char name[200];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	assert_int_equal(listener_open(name, 1), -1);
	assert_non_null(strstr(said, "up to 107 bytes"));
	assert_int_equal(listener_open("/nonexistent/socket", 1), -1);
	assert_non_null(strstr(said, "does its directory exist?"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(socket_has_mode_0700),
		CASE(socket_accepts_a_client),
		CASE(stale_socket_is_replaced),
		CASE(live_socket_stays),
		CASE(file_that_is_no_socket_stays),
		CASE(impossible_path_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
