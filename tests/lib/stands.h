/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For a case that is ended by its time: where each of its threads stands. */
#ifndef LIB_STANDS_H
#define LIB_STANDS_H

#include <sys/types.h>

/*
 * Write to standard error, for each thread of each process of process group GROUP: its name,
 * its state, the system call that it is in, with the call's arguments, the stack pointer and
 * the program counter (proc_pid_syscall(5); "running" if it is in none), and where in the
 * kernel it sleeps: the whole stack if the kernel keeps it (CONFIG_STACKTRACE).
 */
void say_where_group_stands(pid_t group);

#endif
