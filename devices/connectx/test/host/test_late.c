// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* Writes that arrive late: in order, at their time, or when something asks for them. */
#define _GNU_SOURCE	/* memfd_create() */
#include "clock.h"
#include "late.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define A 0x10000ull
#define SIZE (32ul << 20)
#define MS 1000000ull

static struct loop *loop;
static struct dma dma;
static struct late *late;

static int up(void **state)
{
	int fd = memfd_create("memory", 0);

	clock_reset();
	loop = loop_new();
	assert_non_null(loop);
	memset(&dma, 0, sizeof(dma));
	assert_int_equal(ftruncate(fd, SIZE), 0);
	assert_int_equal(dma_map(&dma, A, SIZE, fd, 0, true), 0);
	close(fd);
	late = late_new(loop, &dma, 10 * MS);
	assert_non_null(late);
	return 0;
}

static int down(void **state)
{
	late_free(late);
	assert_true(loop_is_empty(loop));
	dma_unmap_all(&dma);
	loop_free(loop);
	return 0;
}

static uint8_t byte_at(uint64_t addr)
{
	uint8_t byte;

	assert_int_equal(dma_read(&dma, addr, &byte, 1), 0);
	return byte;
}

static void write_comes_after_its_time(void **state)
{
	late_write(late, A, "a", 1);
	loop_run_for(loop, 9 * MS);
	late_write(late, A + 1, "b", 1);
	assert_int_equal(byte_at(A), 0);
	loop_run_for(loop, 2 * MS);
	assert_int_equal(byte_at(A), 'a');
	assert_int_equal(byte_at(A + 1), 0);
	loop_run_for(loop, 9 * MS);
	assert_int_equal(byte_at(A + 1), 'b');
}

static void writes_keep_their_order(void **state)
{
	late_write(late, A, "abc", 3);
	late_write(late, A + 1, "xy", 2);
	late_flush(late);
	assert_int_equal(byte_at(A), 'a');
	assert_int_equal(byte_at(A + 1), 'x');
	assert_int_equal(byte_at(A + 2), 'y');
	assert_true(loop_is_empty(loop));
}

static void unmapped_memory_is_not_written(void **state)
{
	late_write(late, A, "a", 1);
	dma.off = true;
	late_flush(late);
	dma.off = false;
	assert_int_equal(byte_at(A), 0);
}

/* What waits is bounded: all before it goes first. */
static void full_queue_is_written_in_order(void **state)
{
	static uint8_t data[4096];
	uint64_t at;

	memset(data, 'd', sizeof(data));
	for (at = 0; at < 15ul << 20; at += sizeof(data))
		late_write(late, A + at, data, sizeof(data));
	assert_int_equal(byte_at(A), 0);
	late_write(late, A, "e", 1);
	assert_int_equal(byte_at(A), 0);
	for (; at < 17ul << 20; at += sizeof(data))
		late_write(late, A + at, data, sizeof(data));
	assert_int_equal(byte_at(A), 'e');
	assert_int_equal(byte_at(A + (15ul << 20) - 1), 'd');
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(write_comes_after_its_time), CASE(writes_keep_their_order),
		CASE(unmapped_memory_is_not_written), CASE(full_queue_is_written_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
