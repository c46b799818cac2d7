/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process beside the case, at the other end of a socket.  It runs a function, and ends
 * with status 0 when that returns; it dies with the case.  A helper that fails in it ends it
 * with status 1, and the case notices when it next tells or asks.
 */
#ifndef LIB_CHILD_H
#define LIB_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child {
	pid_t pid;	/* 0: there is none */
	int sock;
};

/* RUN gets the child's end of the socket. */
void child_start(struct child *c, void (*run)(int sock, void *arg), void *arg);
/* Wait until it has ended: its exit status, or -1 if a signal has ended it. */
int child_wait(struct child *c);
/* End it by SIGKILL; whether that has ended it, and nothing before. */
bool child_kill(struct child *c);
/* Kill what there still is.  Also for a struct that is all 0. */
void child_close(struct child *c);

/* Between the two ends; a failure ends the case, or the child. */
void tell(int sock, const void *what, size_t size);
void ask(int sock, void *what, size_t size);
void tell_fd(int sock, int fd);
int ask_fd(int sock);
/* A byte that says: go on. */
void go_on(int sock);
void wait_to_go_on(int sock);

#endif
