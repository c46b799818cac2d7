/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An input as a program: what a hostile driver and its processes do, step by step. */
#ifndef CONNECTX_FUZZ_PROGRAM_H
#define CONNECTX_FUZZ_PROGRAM_H

#include "guest.h"

#define STEPS 96		/* of a program, at most */
#define SETUP_QKEY 0x11111111u

/* One step; the rest of the input is what follows it. */
void program_step(struct guest *g, struct input *in);
/* Turns until nothing is due, or TURNS_MAX. */
void program_finish(struct guest *g);
/* All steps, and that. */
void program_run(struct guest *g, struct input *in);

/* A driver that is loaded: a UAR, PD and XRCD, an EQ for all events, a CQ. */
void setup_driver(struct guest *g);
/*
 * And keys of all modes, an SRQ of each kind, and pairs of QPs that are connected to each
 * other, with receives posted: RC, UC, UD, XRC, RC with an SRQ, UMR and GSI, DC initiators
 * and their targets.  The bits of WITHOUT leave pairs out.
 */
void setup_traffic(struct guest *g, u8 without);

#endif
