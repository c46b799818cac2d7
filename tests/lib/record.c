// SPDX-License-Identifier: GPL-2.0-or-later
/* See record.h. */
#include "lib/record.h"
#include <stddef.h>
#include <stdio.h>

#define MAGIC 0x6d72666472656364	/* "mrfdrecd" */
#define WORDS (RECORD / 8)

struct record {
	uint64_t magic, place, number, sum;
	uint64_t word[WORDS - 4];
};

_Static_assert(sizeof(struct record) == RECORD, "a record has no holes");

static uint64_t mix(uint64_t x)
{
	x *= 0x9e3779b97f4a7c15;
	return x ^ x >> 29;
}

/* A sum that depends on the order of the words. */
static uint64_t sum_of(const struct record *r)
{
	uint64_t sum = mix(r->place) + mix(r->number ^ MAGIC);

	for (size_t i = 0; i < WORDS - 4; i++)
		sum = mix(sum ^ r->word[i]);
	return sum;
}

void record_make(void *at, uint64_t place, uint64_t number)
{
	struct record *r = at;
	uint64_t word = mix(place << 32 ^ number);

	r->magic = MAGIC;
	r->place = place;
	r->number = number;
	for (size_t i = 0; i < WORDS - 4; i++)
		r->word[i] = word += 0x100000001b3;
	r->sum = sum_of(r);
}

const char *record_fault(const void *at, uint64_t place, uint64_t number)
{
	const struct record *r = at;

	if (r->magic != MAGIC)
		return "lost";
	if (r->sum != sum_of(r))
		return "torn";
	if (r->place != place)
		return "misplaced";
	if (r->number != number)
		return r->number < number ? "stale" : "early";
	return NULL;
}

bool record_is(const void *at, uint64_t place, uint64_t number, const char *what)
{
	const struct record *r = at;
	const char *fault = record_fault(at, place, number);

	if (fault)
		printf("# %s: record %#llx is %s: number %llu, not %llu, of place %#llx\n", what,
		       (unsigned long long)place, fault, (unsigned long long)r->number,
		       (unsigned long long)number, (unsigned long long)r->place);
	return !fault;
}
