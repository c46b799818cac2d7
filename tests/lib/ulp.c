// SPDX-License-Identifier: GPL-2.0-or-later
/* See ulp.h. */
#include "lib/ulp.h"
#include "lib/case.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MODULE "mrfd_kernel_dm"

static void module_unload(void)
{
	if (syscall(SYS_delete_module, MODULE, O_NONBLOCK))
		fail_case("unload " MODULE);
}

void ulps_prepare(void)
{
	const char *path = getenv("MRFD_KERNEL_DM");
	int fd;

	if (!path)
		fail_case("MRFD_KERNEL_DM is not set: scripts/kernel-dm prints the path");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
		fail_case("load %s", path);
	close(fd);
	if (atexit(module_unload))
		fail_case("atexit");
}

void ulp_open(struct ulp *u)
{
	u->fd = open("/dev/" MODULE, O_RDWR | O_CLOEXEC);
	if (u->fd < 0)
		fail_case("/dev/" MODULE);
}

void ulp_close(struct ulp *u)
{
	if (u->fd > 0)
		close(u->fd);
	u->fd = 0;
}

int ulp_tries(struct ulp *u, const char *command)
{
	return write(u->fd, command, strlen(command)) < 0 ? errno : 0;
}

void ulp_does(struct ulp *u, const char *fmt, ...)
{
	char command[80];
	va_list args;
	int err;

	va_start(args, fmt);
	vsnprintf(command, sizeof(command), fmt, args);
	va_end(args);
	err = ulp_tries(u, command);
	if (!err)
		return;
	errno = err;
	fail_case("\"%s\" in the kernel: \"%s\"", command, ulp_says(u));
}

const char *ulp_says(struct ulp *u)
{
	static char text[256];
	ssize_t n = pread(u->fd, text, sizeof(text) - 1, 0);

	if (n < 0)
		fail_case("read from " MODULE);
	text[n] = '\0';
	return text;
}
