// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The VCRC (IBA volume 1, 7.8.2): a CRC of 16 bits by x^16 + x^12 + x^3 + x + 1, whose bits
 * go least significant first.  Every packet on a fabric has one, computed at one end and
 * checked at the other, and by a table this took half of a packet's time.
 *
 * So 64 bytes a step are folded, where the CPU has carry-less multiplication: what remains
 * of data D at a distance of n bits from its end is D * (x^n mod P), which is short and can
 * be added to the data there.  Four lanes of 16 bytes keep the multiplier busy.  What is
 * left of all lanes is 16 bytes with the same remainder as all data before; these, and data
 * of less than 64 bytes, go through the table, eight bytes a step.
 */
#include "packet.h"
#include <stdbool.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define STEP 64

/* Times x, modulo the polynomial; bit 15 is the coefficient of x^0. */
static uint16_t times_x(uint16_t c)
{
	return c >> 1 ^ (c & 1 ? 0xd008 : 0);
}

static uint16_t by_table(uint16_t crc, const u8 *data, size_t len)
{
	static uint16_t table[8][256];
	uint64_t x;

	if (!table[0][1]) {
		for (unsigned int i = 0; i < 256; i++) {
			uint16_t c = i;

			for (unsigned int bit = 0; bit < 8; bit++)
				c = times_x(c);
			table[0][i] = c;
		}
		for (unsigned int k = 1; k < 8; k++)
			for (unsigned int i = 0; i < 256; i++)
				table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
	}
	for (; len >= 8; data += 8, len -= 8) {
		memcpy(&x, data, 8);
		x = le64toh(x) ^ crc;
		crc = table[7][x & 0xff] ^ table[6][x >> 8 & 0xff] ^ table[5][x >> 16 & 0xff] ^
		      table[4][x >> 24 & 0xff] ^ table[3][x >> 32 & 0xff] ^
		      table[2][x >> 40 & 0xff] ^ table[1][x >> 48 & 0xff] ^ table[0][x >> 56];
	}
	for (; len; data++, len--)
		crc = crc >> 8 ^ table[0][(crc ^ *data) & 0xff];
	return crc;
}

#ifdef __x86_64__

/*
 * What multiplies both halves of 16 bytes to move them over DISTANCE bits.  The product of
 * two reflected words of 64 bits comes out times x, and the first half is 64 bits farther.
 */
static __m128i multiplier(unsigned int distance)
{
	uint16_t c = 0x8000;
	uint64_t second;

	for (unsigned int i = 0; i < distance - 1; i++)
		c = times_x(c);
	second = (uint64_t)c << 48;
	for (unsigned int i = 0; i < 64; i++)
		c = times_x(c);
	return _mm_set_epi64x(second, (uint64_t)c << 48);
}

__attribute__((target("pclmul")))
static inline __m128i move(__m128i x, __m128i by)
{
	return _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11));
}

/* Fold all whole steps of the data, at least one, into REST; how many bytes that was. */
__attribute__((target("pclmul")))
static size_t fold(uint16_t crc, const u8 *data, size_t len, u8 rest[16])
{
	static __m128i near, far;
	__m128i lane[4];
	size_t done;

	if (!far[0]) {
		near = multiplier(8 * 16);
		far = multiplier(8 * STEP);
	}
	for (int i = 0; i < 4; i++)
		lane[i] = _mm_loadu_si128((const __m128i *)(data + 16 * i));
	lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128(crc));
	for (done = STEP; len - done >= STEP; done += STEP)
		for (int i = 0; i < 4; i++)
			lane[i] = _mm_xor_si128(move(lane[i], far), _mm_loadu_si128(
				(const __m128i *)(data + done + 16 * i)));
	for (int i = 1; i < 4; i++)
		lane[i] = _mm_xor_si128(move(lane[i - 1], near), lane[i]);
	_mm_storeu_si128((__m128i *)rest, lane[3]);
	return done;
}

static bool can_fold(void)
{
	return __builtin_cpu_supports("pclmul");
}

#else

static size_t fold(uint16_t crc, const u8 *data, size_t len, u8 rest[16])
{
	return 0;
}

static bool can_fold(void)
{
	return false;
}

#endif

uint16_t packet_vcrc(const u8 *data, size_t len)
{
	uint16_t crc = 0xffff;
	u8 rest[16];
	size_t done;

	if (len >= STEP && can_fold()) {
		done = fold(crc, data, len, rest);
		crc = by_table(0, rest, sizeof(rest));
		data += done;
		len -= done;
	}
	return ~by_table(crc, data, len);
}
