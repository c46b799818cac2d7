/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A user of device memory in the kernel: the module tests/kernel_dm, whose head says what a
 * user can do.  The path of the module is in the environment, MRFD_KERNEL_DM;
 * kit/mrfd/programs.py puts it there.
 *
 *	struct kernel_user user = {};
 *
 *	kernel_user_open(&user);
 *	kernel_does(&user, "open %s", device_name());
 *	kernel_does(&user, "counter");
 *	kernel_user_close(&user);
 */
#ifndef LIB_KERNEL_USER_H
#define LIB_KERNEL_USER_H

/* For harness_run(): load the module, and unload it when the program ends. */
void kernel_users_prepare(void);

struct kernel_user {
	int fd;		/* 0: not open */
};

void kernel_user_open(struct kernel_user *u);
/* Also for a struct that is all 0. */
void kernel_user_close(struct kernel_user *u);
/* A command: 0 or an errno, after which kernel_says() tells what was wrong. */
int kernel_tries(struct kernel_user *u, const char *command);
/* A command that succeeds, or else ends the case. */
void kernel_does(struct kernel_user *u, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The result of the last command; static. */
const char *kernel_says(struct kernel_user *u);

#endif
