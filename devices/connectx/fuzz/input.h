/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An input of a fuzz target, from its first byte to its last.  What is read beyond the end
 * is 0, so every input is a program and a program ends when its input does.  Numbers are
 * little endian.
 */
#ifndef CONNECTX_FUZZ_INPUT_H
#define CONNECTX_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct input {
	const uint8_t *at;
	size_t left;
};

/* LEN bytes at TO; returns how many of them came from the input. */
static inline size_t in_bytes(struct input *in, void *to, size_t len)
{
	size_t n = len < in->left ? len : in->left;

	if (n < len)
		memset((uint8_t *)to + n, 0, len - n);
	if (n) {	/* AT may be NULL if nothing is left */
		memcpy(to, in->at, n);
		in->at += n;
		in->left -= n;
	}
	return n;
}

static inline uint64_t in_number(struct input *in, size_t len)
{
	uint8_t bytes[8];
	uint64_t value = 0;

	in_bytes(in, bytes, len);
	while (len--)
		value = value << 8 | bytes[len];
	return value;
}

static inline uint8_t in8(struct input *in)
{
	return in_number(in, 1);
}

static inline uint16_t in16(struct input *in)
{
	return in_number(in, 2);
}

static inline uint32_t in32(struct input *in)
{
	return in_number(in, 4);
}

static inline uint64_t in64(struct input *in)
{
	return in_number(in, 8);
}

/* What a target has; it returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
