/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The one random generator of the tests.  Each user has a separate state, so that the
 * same seed gives each thread the same numbers again.
 */
#ifndef LIB_RANDOM_H
#define LIB_RANDOM_H

#include <stdint.h>

/* MRFD_SEED of the environment or a new one; printed as "# MRFD_SEED=...". */
uint64_t random_seed(void);
/* The first state of generator NR for this seed. */
uint64_t random_begin(uint64_t seed, uint32_t nr);
uint64_t random_next(uint64_t *state);
uint32_t random_below(uint64_t *state, uint32_t n);
/* A word that a check may get wrong: one near a limit, or any. */
uint32_t random_odd_word(uint64_t *state);

#endif
