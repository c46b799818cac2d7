// SPDX-License-Identifier: GPL-2.0-or-later
/* See case.h. */
#include "lib/case.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void (*end_case)(const char *reason);
static void (*look_for_excuse)(void);
static pid_t case_thread;

void case_begin(void (*end)(const char *reason))
{
	end_case = end;
	case_thread = gettid();
}

bool case_runs_here(void)
{
	return end_case && case_thread == gettid();
}

void case_excuse(void (*look)(void))
{
	look_for_excuse = look;
}

void case_fail(const char *file, int line, const char *fmt, ...)
{
	int err = errno;
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (look_for_excuse)
		look_for_excuse();
	fprintf(stderr, "# %s:%d: %s%s%s\n", file, line, text, err ? ": " : "",
		err ? strerror(err) : "");
	if (case_runs_here())
		end_case(NULL);
	_exit(1);
}

void skip_case(const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(stderr, "# SKIP %s\n", text);
	if (case_runs_here())
		end_case(text);
	_exit(1);
}
