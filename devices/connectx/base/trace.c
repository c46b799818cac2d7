// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the model says.  A line is made in a buffer of fixed size, and what is not
 * printable ASCII in it becomes a '?': names that a guest chose end up here, and must not
 * reach the operator's terminal as control sequences.  Those of ISO 6429 can also be made
 * of bytes from 0x80 on, in UTF-8 too.
 */
#include "trace.h"
#include <stdarg.h>
#include <string.h>
#include <time.h>

#define NOTES 1000	/* lines, the one included that says that no more follow */

bool tracing;
static FILE *out;
static unsigned int notes;

static void say(const char *prefix, const char *fmt, va_list args)
{
	char line[1024];
	struct timespec ts;

	vsnprintf(line, sizeof(line), fmt, args);
	for (char *c = line; *c; c++)
		if (*c < ' ' || *c > '~')
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

/* Whether there may be one more line; the last one says that it is the last. */
static bool may_note(void)
{
	if (tracing)
		return true;
	if (notes == NOTES)
		return false;
	if (++notes < NOTES)
		return true;
	fprintf(out ? out : stderr, "connectx: %d lines are enough: says no more\n", NOTES);
	return false;
}

void note(const char *fmt, ...)
{
	va_list args;

	if (!may_note())
		return;
	va_start(args, fmt);
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
