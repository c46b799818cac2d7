// SPDX-License-Identifier: GPL-2.0-or-later
/* See step_module.h. */
#include "faults/step_module.h"
#include "lib/case.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MODULE "mrfd_steps"

static void module_unload(void)
{
	if (syscall(SYS_delete_module, MODULE, O_NONBLOCK))
		fail_case("unload " MODULE);
}

void steps_prepare(void)
{
	const char *path = getenv("MRFD_STEPS");
	int fd;

	if (!path)
		fail_case("MRFD_STEPS is not set: scripts/steps prints the path");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
		fail_case("load %s", path);
	close(fd);
	if (atexit(module_unload))
		fail_case("register the unload of " MODULE " at exit");
}

static void step_write(struct step *step, const char *text)
{
	if (write(step->fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail_case("write \"%s\" to " MODULE, text);
}

void step_open(struct step *step)
{
	step->fd = open("/dev/" MODULE, O_RDWR | O_CLOEXEC);
	if (step->fd < 0)
		fail_case("open /dev/" MODULE);
}

void step_set(struct step *step, const char *how)
{
	step_write(step, how);
}

void step_at(struct step *step, unsigned int n)
{
	char text[32];

	snprintf(text, sizeof(text), "at %u", n);
	step_write(step, text);
}

bool step_reached(struct step *step)
{
	unsigned int hit;
	char text[64] = "";

	if (pread(step->fd, text, sizeof(text) - 1, 0) <= 0 ||
	    sscanf(text, "%u %u", &step->calls, &hit) != 2)
		fail_case("read from " MODULE);
	return hit;
}

bool step_end(struct step *step)
{
	bool reached = step_reached(step);

	step_at(step, 0);
	return reached;
}

void step_close(struct step *step)
{
	if (step->fd)
		close(step->fd);
	step->fd = 0;
}
