/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The model's loop with a clock that only its user moves.  A case then gives the same result
 * on a machine that stops for a second between any two of its instructions, and a second of
 * the model's time costs nothing.  What links test/clock.o does not take loop.o.
 */
#ifndef CONNECTX_TEST_CLOCK_H
#define CONNECTX_TEST_CLOCK_H

#include "loop.h"
#include <stdbool.h>

void clock_move(uint64_t ns);
/* Back to the time at which every input begins. */
void clock_reset(void);
/* One turn, as loop_run() does it; it does not wait for anything. */
void loop_turn(struct loop *l);
/* All that happens in the next NS.  When nothing is due, the clock goes to the first timer. */
void loop_run_for(struct loop *l, uint64_t ns);
/* Neither timers nor work. */
bool loop_is_empty(const struct loop *l);
/* Nothing that would run in a turn at this time. */
bool loop_is_idle(struct loop *l);
/* Of descriptors. */
unsigned int loop_watched(const struct loop *l);

#endif
