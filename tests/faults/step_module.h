/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Steps that fail or begin late: functions of the kernel, by the module tests/steps, whose
 * head says how.
 * The path of the module is in the environment, MRFD_STEPS; kit/mrfd/programs.py puts it
 * there.
 *
 *	struct step step = {};
 *
 *	step_open(&step);
 *	step_set(&step, "dma_buf_pin return -28");
 *	step_at(&step, 1);
 *	err = call();
 *	failed = step_end(&step);	whether the call came to that step
 *	step_close(&step);
 */
#ifndef FAULTS_STEP_MODULE_H
#define FAULTS_STEP_MODULE_H

#include <stdbool.h>

/* For harness_run(): load the module, and unload it when the program ends. */
void steps_prepare(void);

struct step {
	int fd;			/* 0: not open */
	unsigned int calls;	/* between step_at() and step_end() */
};

void step_open(struct step *step);
void step_set(struct step *step, const char *how);
/* From here on, hit the Nth call of the function by this thread; 0: none. */
void step_at(struct step *step, unsigned int n);
/* Whether it has come to that call; any thread may ask. */
bool step_reached(struct step *step);
bool step_end(struct step *step);
/* Also for a struct that is all 0. */
void step_close(struct step *step);

#endif
