// SPDX-License-Identifier: GPL-2.0-or-later
/* xorshift64*, see random.h. */
#include "lib/random.h"
#include "lib/case.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

uint64_t random_seed(void)
{
	const char *given = getenv("MRFD_SEED");
	uint64_t seed = 0;

	if (given && *given)
		seed = strtoull(given, NULL, 0);
	else if (getentropy(&seed, 4))
		fail_case("getentropy");
	printf("# MRFD_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
	return seed;
}

uint64_t random_begin(uint64_t seed, uint32_t nr)
{
	/* A state must not be 0.  Similar states give similar numbers at first: skip these. */
	uint64_t state = (seed * 2 + 1) ^ (nr * 0x9e3779b97f4a7c15ull + 1);

	state = state ? state : 1;
	for (int i = 0; i < 20; i++)
		random_next(&state);
	return state;
}

uint64_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 2685821657736338717ull;
}

uint32_t random_below(uint64_t *state, uint32_t n)
{
	return (random_next(state) >> 32) % n;
}

uint32_t random_odd_word(uint64_t *state)
{
	static const uint32_t odd[] = { 0, 1, 2, 3, 8, 16, 0x40, 0x1000, 0x8000000, 0x7fffffff,
					0x80000000, 0xffffffff };

	return random_below(state, 3) ? odd[random_below(state, 12)] : random_next(state);
}
