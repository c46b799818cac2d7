// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the model says.  A line is made in a buffer of fixed size, and what is not
 * printable in it becomes a '?': names that a guest chose end up here, and must not
 * reach the operator's terminal as control sequences.
 */
#include "trace.h"
#include <stdarg.h>
#include <string.h>
#include <time.h>

#define NOTES 1000

bool tracing;
static FILE *out;
static unsigned int notes;

static void say(const char *prefix, const char *fmt, va_list args)
{
	char line[1024];
	struct timespec ts;

	vsnprintf(line, sizeof(line), fmt, args);
	for (char *c = line; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	if (tracing) {
		clock_gettime(CLOCK_MONOTONIC, &ts);
		fprintf(out ? out : stderr, "%6lld.%06ld %s%s\n", (long long)ts.tv_sec,
			ts.tv_nsec / 1000, prefix, line);
	} else {
		fprintf(out ? out : stderr, "%s%s\n", prefix, line);
	}
}

void trace_line(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say("", fmt, args);
	va_end(args);
}

void note(const char *fmt, ...)
{
	va_list args;

	if (notes > NOTES)
		return;
	va_start(args, fmt);
	if (notes++ == NOTES)
		fprintf(out ? out : stderr, "connectx: %d lines are enough: says no more\n",
			NOTES);
	else
		say("connectx: ", fmt, args);
	va_end(args);
}

void trace_to(FILE *file, bool everything)
{
	/* By line: a log that ends with the process must not lack its last words. */
	setvbuf(file, NULL, _IOLBF, BUFSIZ);
	out = file;
	tracing = everything;
	notes = 0;
}
