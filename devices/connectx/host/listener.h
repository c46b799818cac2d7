/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The UNIX socket of a program, in the file system. */
#ifndef CONNECTX_LISTENER_H
#define CONNECTX_LISTENER_H

/*
 * Listen at PATH, for BACKLOG clients that wait.  Only this user can connect.  A socket
 * that a process left there when it ended is replaced.  The descriptor does not block; -1
 * with a note() that says why.
 */
int listener_open(const char *path, int backlog);

#endif
