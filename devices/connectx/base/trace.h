/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the model says, to stderr or the file of --log:
 *
 * trace() - with --trace only: a readable line for each command, WQE and packet;
 * note()  - once for each event that its operator should know, such as an unknown
 *           command; limited to 1,000 lines without --trace, because a guest can cause them.
 */
#ifndef CONNECTX_TRACE_H
#define CONNECTX_TRACE_H

#include <stdbool.h>
#include <stdio.h>

extern bool tracing;

#define trace(...) do { if (__builtin_expect(tracing, 0)) trace_line(__VA_ARGS__); } while (0)
void trace_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* FILE is not closed. */
void trace_to(FILE *file, bool everything);

#endif
