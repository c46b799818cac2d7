/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bytes that show where they belong: byte i of a pattern depends on i and on the
 * seed, so a check notices data that arrives a byte off, twice, or from an earlier
 * round.
 */
#ifndef LIB_PATTERN_H
#define LIB_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void fill(uint8_t *p, size_t n, uint32_t seed);
/* Whether fill() has filled it; prints WHAT and the first byte that differs. */
bool filled(const uint8_t *p, size_t n, uint32_t seed, const char *what);
/*
 * The same, and silent, for bytes that a device may write meanwhile.  memcmp() is no judge of
 * those: it reads the byte that differs once more, and says "equal" if that has come just then.
 */
bool pattern_arrived(const volatile uint8_t *p, size_t n, uint32_t seed);
/* Whether NOW equals BEFORE outside of the N bytes at FROM. */
bool only_changed(const uint8_t *now, const uint8_t *before, size_t size, size_t from, size_t n);

#endif
