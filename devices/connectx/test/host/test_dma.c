// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* The guest's memory: what is mapped, what an access reaches, and what it must not reach. */
#define _GNU_SOURCE
#include "dma.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define PAGE 4096ull

static struct dma dma;
static int memory;		/* a memfd of 16 pages; byte n of page p is p * 16 + n % 16 */

static int setup(void **state)
{
	uint8_t page[PAGE];

	memset(&dma, 0, sizeof(dma));
	memory = memfd_create("guest", 0);
	for (int p = 0; p < 16; p++) {
		for (unsigned int n = 0; n < PAGE; n++)
			page[n] = p * 16 + n % 16;
		assert_int_equal(write(memory, page, PAGE), PAGE);
	}
	return memory < 0;
}

static int teardown(void **state)
{
	dma_unmap_all(&dma);
	close(memory);
	return 0;
}

static void map_checks_its_arguments(void **state)
{
	static const struct { uint64_t addr, size, offset; int ret; } table[] = {
		{ 0x10000, 4 * PAGE, 0, 0 },
		{ 0x10000, PAGE, 0, -EEXIST },
		{ 0x13000, PAGE, 0, -EEXIST },
		{ 0xf000, 2 * PAGE, 0, -EEXIST },
		{ 0xf000, 8 * PAGE, 0, -EEXIST },
		{ 0x14000, PAGE, 0, 0 },		/* just behind */
		{ 0xf000, PAGE, 0, 0 },			/* just before */
		{ 0x20000, 0, 0, -EINVAL },
		{ 0x20001, PAGE, 0, -EINVAL },
		{ 0x20000, PAGE + 1, 0, -EINVAL },
		{ 0x20000, PAGE, 1, -EINVAL },
		{ 0x20000, PAGE, 1ull << 63, -EINVAL },
		{ 0x20000, 17 * PAGE, 0, -EINVAL },	/* the file is shorter */
		{ 0x20000, PAGE, 16 * PAGE, -EINVAL },
		{ 0x20000, PAGE, 17 * PAGE, -EINVAL },
		{ -PAGE, 2 * PAGE, 0, -EINVAL },	/* wraps */
		{ 0x20000, -PAGE, 0, -EINVAL },
		{ -2 * PAGE, PAGE, 0, 0 },
		{ -PAGE, PAGE, 0, 0 },			/* ends at 2^64 */
		{ -PAGE, PAGE, 0, -EEXIST },
		{ -4 * PAGE, 4 * PAGE, 0, -EEXIST },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		assert_int_equal(dma_map(&dma, table[i].addr, table[i].size, memory,
					 table[i].offset, true), table[i].ret);
	assert_int_equal(dma_map(&dma, 0x20000, PAGE, 9999, 0, true), -EBADF);
	assert_int_equal(dma.count, 5);
}

static void access_reaches_the_right_byte(void **state)
{
	uint8_t got[3 * PAGE], byte;

	/* Three regions in a row, in another order than in the file; then a gap. */
	assert_int_equal(dma_map(&dma, 0x2000, PAGE, memory, 5 * PAGE, true), 0);
	assert_int_equal(dma_map(&dma, 0x1000, PAGE, memory, 9 * PAGE, true), 0);
	assert_int_equal(dma_map(&dma, 0x3000, PAGE, memory, 1 * PAGE, true), 0);

	assert_int_equal(dma_read(&dma, 0x1ffe, got, PAGE + 4), 0);
	assert_int_equal(got[0], 9 * 16 + 14);
	assert_int_equal(got[2], 5 * 16);
	assert_int_equal(got[PAGE + 1], 5 * 16 + 15);
	assert_int_equal(got[PAGE + 2], 1 * 16);

	assert_int_equal(dma_write(&dma, 0x1fff, "abcd", 4), 0);
	assert_int_equal(pread(memory, &byte, 1, 9 * PAGE + 4095), 1);
	assert_int_equal(byte, 'a');
	assert_int_equal(pread(memory, got, 3, 5 * PAGE), 3);
	assert_memory_equal(got, "bcd", 3);
	assert_int_equal(dma_read(&dma, 0x1000, got, 0), 0);
}

static void access_outside_is_efault(void **state)
{
	static const struct { uint64_t addr; size_t len; } bad[] = {
		{ 0, 1 }, { 0xfff, 1 }, { 0xfff, 2 }, { 0x2fff, 2 }, { 0x3000, 1 },
		{ 0x1000, 2 * PAGE + 1 }, { ~0ull, 1 }, { ~0ull, 8192 }, { 0x1000, SIZE_MAX },
		{ 0x8000, 1 },
	};
	static uint8_t buf[4 * PAGE];
	size_t len = 8;

	assert_int_equal(dma_map(&dma, 0x1000, 2 * PAGE, memory, 0, true), 0);
	/* Memory that is there, and that cannot be reached. */
	assert_int_equal(dma_map(&dma, 0x8000, PAGE, -1, 0, true), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (bad[i].len <= sizeof(buf)) {
			assert_int_equal(dma_read(&dma, bad[i].addr, buf, bad[i].len), -EFAULT);
			assert_int_equal(dma_write(&dma, bad[i].addr, buf, bad[i].len), -EFAULT);
		}
		len = bad[i].len;
		if (dma_run(&dma, bad[i].addr, &len, false))
			assert_true(len <= 2 * PAGE);
	}
}

static void run_ends_with_its_region(void **state)
{
	size_t len = 100 * PAGE;
	uint8_t *p;

	assert_int_equal(dma_map(&dma, 0x1000, 2 * PAGE, memory, 0, true), 0);
	assert_int_equal(dma_map(&dma, 0x3000, PAGE, memory, 7 * PAGE, false), 0);
	p = dma_run(&dma, 0x1010, &len, true);
	assert_non_null(p);
	assert_int_equal(len, 2 * PAGE - 0x10);
	len = 4;
	assert_non_null(dma_run(&dma, 0x1010, &len, true));
	assert_int_equal(len, 4);
	/* Read only. */
	len = 1;
	assert_non_null(dma_run(&dma, 0x3000, &len, false));
	assert_null(dma_run(&dma, 0x3000, &len, true));
	assert_int_equal(dma_write(&dma, 0x2ffe, "abcd", 4), -EFAULT);
	assert_int_equal(dma_store8(&dma, 0x3000, 1), -EFAULT);
}

static void unmap_takes_whole_regions(void **state)
{
	uint8_t byte;

	for (unsigned int i = 1; i < 8; i++)
		assert_int_equal(dma_map(&dma, i * 2 * PAGE, PAGE, memory, 0, true), 0);
	assert_int_equal(dma_map(&dma, 0x100000, 2 * PAGE, memory, 0, true), 0);
	assert_int_equal(dma_read(&dma, 0x100000, &byte, 1), 0);

	assert_int_equal(dma_unmap(&dma, 0x100000, PAGE), -EINVAL);
	assert_int_equal(dma_unmap(&dma, 0x101000, PAGE), -EINVAL);
	assert_int_equal(dma_unmap(&dma, 0x101000, 0), -EINVAL);
	assert_int_equal(dma_unmap(&dma, 0x101000, -PAGE), -EINVAL);
	assert_int_equal(dma.count, 8);
	assert_int_equal(dma_unmap(&dma, 0x1000, PAGE), 0);		/* nothing there */
	assert_int_equal(dma_unmap(&dma, 0x3000, 6 * PAGE), 0);	/* of three */
	assert_int_equal(dma.count, 5);
	assert_int_equal(dma_read(&dma, 0x4000, &byte, 1), -EFAULT);
	assert_int_equal(dma_read(&dma, 0x8000, &byte, 1), -EFAULT);
	assert_int_equal(dma_read(&dma, 0x2000, &byte, 1), 0);
	assert_int_equal(dma_read(&dma, 0xa000, &byte, 1), 0);
	/* The region that was looked up last goes away. */
	assert_int_equal(dma_unmap(&dma, 0xa000, PAGE), 0);
	assert_int_equal(dma_read(&dma, 0xa000, &byte, 1), -EFAULT);
	assert_int_equal(dma_read(&dma, 0x100000, &byte, 1), 0);
	dma_unmap_all(&dma);
	assert_int_equal(dma_read(&dma, 0x100000, &byte, 1), -EFAULT);
	assert_int_equal(dma.count, 0);
}

static void region_beyond_the_limit_is_enospc(void **state)
{
	const uint64_t more = 1ull << 40;
	uint8_t byte;

	/* Downwards, so that each goes to the front. */
	for (unsigned int i = DMA_REGIONS; i; i--)
		assert_int_equal(dma_map(&dma, i * 2 * PAGE, PAGE, memory, i % 16 * PAGE, true),
				 0);
	assert_int_equal(dma_map(&dma, more, PAGE, memory, 0, true), -ENOSPC);
	for (unsigned int i = 1; i <= DMA_REGIONS; i++) {
		assert_int_equal(dma_read(&dma, i * 2 * PAGE + 3, &byte, 1), 0);
		assert_int_equal(byte, i % 16 * 16 + 3);
		assert_int_equal(dma_read(&dma, (i * 2 + 1) * PAGE, &byte, 1), -EFAULT);
	}
	/* One goes, another one comes. */
	assert_int_equal(dma_unmap(&dma, 1000 * 2 * PAGE, PAGE), 0);
	assert_int_equal(dma_map(&dma, more, PAGE, memory, 0, true), 0);
	assert_int_equal(dma_map(&dma, 1000 * 2 * PAGE, PAGE, memory, 0, true), -ENOSPC);
	assert_int_equal(dma_unmap(&dma, 0, more), 0);
	assert_int_equal(dma.count, 1);
}

static void words_are_aligned_and_big_endian(void **state)
{
	uint32_t value;
	uint8_t got[4];

	assert_int_equal(dma_map(&dma, 0x1000, PAGE, memory, 0, true), 0);
	assert_int_equal(dma_load_be32(&dma, 0x1000, &value), 0);
	assert_int_equal(value, 0x00010203);
	assert_int_equal(dma_store8(&dma, 0x1fff, 7), 0);
	assert_int_equal(pread(memory, got, 1, 0xfff), 1);
	assert_int_equal(got[0], 7);
	assert_int_equal(dma_load_be32(&dma, 0x1ffc, &value), 0);
	assert_int_equal(value & 0xff, 7);
	for (int i = 1; i < 4; i++)
		assert_int_equal(dma_load_be32(&dma, 0x1000 + i, &value), -EFAULT);
	assert_int_equal(dma_load_be32(&dma, 0x2000, &value), -EFAULT);
	assert_int_equal(dma_store8(&dma, 0x2000, 0), -EFAULT);
}

/* QEMU, which has a byte of its own for each address, and what it was asked. */
static struct { uint64_t addr; size_t len; bool write; } asked[8];
static unsigned int questions, refuse_from = 8;
static uint8_t far[4 * PAGE];
#define FAR 0x40000000ull

static int client(void *arg, uint64_t addr, void *data, size_t len, bool write)
{
	assert_ptr_equal(arg, &dma);
	assert_true(dma.asking);
	assert_true(questions < 8 && len && len <= DMA_ASK_MAX);
	asked[questions].addr = addr;
	asked[questions].len = len;
	asked[questions].write = write;
	if (questions++ >= refuse_from)
		return -EFAULT;
	assert_true(addr >= FAR && addr - FAR + len <= sizeof(far));
	memcpy(write ? far + (addr - FAR) : data, write ? data : far + (addr - FAR), len);
	/* One at a time: what this causes cannot ask. */
	assert_int_equal(dma_ask(&dma, addr, data, 1, false), -EFAULT);
	return 0;
}

static void unmapped_memory_is_reached_through_qemu(void **state)
{
	static const struct { uint64_t addr; size_t len, gap; } gaps[] = {
		{ 0x1000, 1, 0 }, { 0x0fff, 1, 1 }, { 0x0ff0, 0x20, 0x10 },
		{ 0x2fff, 0x10, 0 },			/* the last mapped byte */
		{ 0x3000, 0x10, 0x10 }, { 0x3000, 0x100000, 0x5000 },
		{ 0x8000, 1, 0 },			/* read only: mapped all the same */
		{ 0x9000, 2 * PAGE, 2 * PAGE },		/* it is there, without a descriptor */
		{ 0x9800, 0x7000, 0x6800 }, { -PAGE, PAGE, PAGE }, { ~0ull, 8192, 0 },
		{ -PAGE, 0, 0 },
	};
	uint8_t data[2 * PAGE + 10];

	assert_int_equal(dma_map(&dma, 0x1000, 2 * PAGE, memory, 0, true), 0);
	assert_int_equal(dma_map(&dma, 0x8000, PAGE, memory, 0, false), 0);
	assert_int_equal(dma_map(&dma, 0x9000, PAGE, -1, 0, true), 0);
	assert_int_equal(dma_map(&dma, 0x10000, PAGE, memory, 0, true), 0);
	assert_int_equal(dma_gap(&dma, 0x3000, 1), 0);
	assert_int_equal(dma_ask(&dma, FAR, data, 1, false), -EFAULT);
	dma.ask = client;
	dma.ask_arg = &dma;
	for (size_t i = 0; i < sizeof(gaps) / sizeof(gaps[0]); i++)
		assert_int_equal(dma_gap(&dma, gaps[i].addr, gaps[i].len), gaps[i].gap);

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = i * 7;
	assert_int_equal(dma_ask(&dma, FAR + 1, data, sizeof(data), true), 0);
	assert_int_equal(questions, 3);
	assert_int_equal(asked[0].addr, FAR + 1);
	assert_int_equal(asked[0].len, DMA_ASK_MAX);
	assert_int_equal(asked[2].addr, FAR + 1 + 2 * DMA_ASK_MAX);
	assert_int_equal(asked[2].len, 10);
	assert_true(asked[2].write);
	assert_memory_equal(far + 1, data, sizeof(data));
	memset(data, 0, sizeof(data));
	assert_int_equal(dma_ask(&dma, FAR + 1, data, sizeof(data), false), 0);
	assert_memory_equal(far + 1, data, sizeof(data));
	assert_false(dma.asking);

	/* The first that is refused is the last. */
	questions = 0;
	refuse_from = 1;
	assert_int_equal(dma_ask(&dma, FAR, data, sizeof(data), false), -EFAULT);
	assert_int_equal(questions, 2);
	/* Off the bus. */
	dma.off = true;
	assert_int_equal(dma_ask(&dma, FAR, data, 1, false), -EFAULT);
	assert_int_equal(dma_gap(&dma, FAR, 1), 0);
	assert_int_equal(questions, 2);
	/* Nothing but dma_ask() asks. */
	dma.off = false;
	assert_int_equal(dma_read(&dma, FAR, data, 1), -EFAULT);
	assert_int_equal(dma_write(&dma, 0x9000, data, 1), -EFAULT);
	assert_int_equal(questions, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(map_checks_its_arguments),
		TEST(access_reaches_the_right_byte),
		TEST(access_outside_is_efault),
		TEST(run_ends_with_its_region),
		TEST(unmap_takes_whole_regions),
		TEST(region_beyond_the_limit_is_enospc),
		TEST(words_are_aligned_and_big_endian),
		TEST(unmapped_memory_is_reached_through_qemu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
