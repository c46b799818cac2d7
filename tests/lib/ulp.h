/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A ULP that uses device memory: the module tests/kernel_dm, whose head says what it can do.
 * The path of the module is in the environment, MRFD_KERNEL_DM; kit/mrfd/programs.py puts it
 * there.
 *
 *	struct ulp ulp = {};
 *
 *	ulp_open(&ulp);
 *	ulp_does(&ulp, "open %s", device_name());
 *	ulp_does(&ulp, "counter");
 *	ulp_close(&ulp);
 */
#ifndef LIB_ULP_H
#define LIB_ULP_H

/* For harness_run(): load the module, and unload it when the program ends. */
void ulps_prepare(void);

struct ulp {
	int fd;		/* 0: not open */
};

void ulp_open(struct ulp *u);
/* Also for a struct that is all 0. */
void ulp_close(struct ulp *u);
/* A command: 0 or an errno, after which ulp_says() tells what was wrong. */
int ulp_tries(struct ulp *u, const char *command);
/* A command that succeeds, or else ends the case. */
void ulp_does(struct ulp *u, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The result of the last command; static. */
const char *ulp_says(struct ulp *u);

#endif
