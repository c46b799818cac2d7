/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The model's loop, turn by turn, with a clock that only the target moves. */
#ifndef CONNECTX_FUZZ_CLOCK_H
#define CONNECTX_FUZZ_CLOCK_H

#include "loop.h"
#include <stdbool.h>

void clock_move(uint64_t ns);
/* Back to the time at which every input begins. */
void clock_reset(void);
/* One turn, as loop_run() does it; it does not wait for anything. */
void loop_turn(struct loop *l);
/* Neither timers nor work. */
bool loop_is_empty(const struct loop *l);
/* Nothing that would run in a turn at this time. */
bool loop_is_idle(struct loop *l);
/* Of descriptors. */
unsigned int loop_watched(const struct loop *l);

#endif
