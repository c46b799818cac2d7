// SPDX-License-Identifier: GPL-2.0-or-later
/* See pattern.h. */
#include "lib/pattern.h"
#include <stdio.h>

static uint8_t byte_at(size_t i, uint32_t seed)
{
	uint32_t x = (uint32_t)i * 2654435761u ^ seed * 40503u;

	return x >> 24 ^ x >> 11;
}

void fill(uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = byte_at(i, seed);
}

bool filled(const uint8_t *p, size_t n, uint32_t seed, const char *what)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] != byte_at(i, seed)) {
			printf("# %s: byte %zu of %zu is %02x, not %02x\n", what, i, n,
			       p[i], byte_at(i, seed));
			return false;
		}
	}
	return true;
}

bool pattern_arrived(const volatile uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != byte_at(i, seed))
			return false;
	return true;
}

bool only_changed(const uint8_t *now, const uint8_t *before, size_t size, size_t from, size_t n)
{
	for (size_t i = 0; i < size; i++) {
		if ((i < from || i >= from + n) && now[i] != before[i]) {
			printf("# byte %zu changed outside of %zu+%zu\n", i, from, n);
			return false;
		}
	}
	return true;
}
