/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records: pieces of a buffer that tell what has become of them.  Each has the place where
 * it belongs, a number that grows, and a sum over all of it, in words that depend on both.
 *
 * What a check can find: a record that never arrived or is no longer there ("lost"), one of
 * another place ("misplaced"), one with a lower number than the last that was written
 * ("stale"), one with a number that nobody has written yet ("early"), and one whose bytes
 * do not belong together ("torn").
 */
#ifndef LIB_RECORD_H
#define LIB_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#define RECORD 2048ul	/* bytes: two packets of the MTU of a pair */

/* PLACE is any number that no other record has, NUMBER is not 0. */
void record_make(void *at, uint64_t place, uint64_t number);
/* What is wrong with it, in a word, or NULL. */
const char *record_fault(const void *at, uint64_t place, uint64_t number);
/* Whether nothing is wrong; prints what is, and WHAT the record is for. */
bool record_is(const void *at, uint64_t place, uint64_t number, const char *what);

#endif
