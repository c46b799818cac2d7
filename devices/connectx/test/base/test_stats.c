// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* The table of statistics at the end of a run: what is counted, and how it reads. */
#include "stats.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct stats stats;

static int setup(void **state)
{
	memset(&stats, 0, sizeof(stats));
	stats.began = stats_clock();
	return 0;
}

static void check_text(const char *expected)
{
	char *text = NULL, *last;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	assert_non_null(file);
	stats_write(&stats, file);
	fclose(file);
	/* The last line has times. */
	last = strstr(text, " s of CPU time in ");
	if (last) {
		while (last > text && last[-1] != '\n')
			last--;
		*last = 0;
	}
	assert_string_equal(text, expected);
	free(text);
}

static void rows_add_up_count_and_time(void **state)
{
	static const char slow[] = "SLOW", fast[] = "FAST";

	stats_add(&stats, slow, 0x104, 1, 3000);
	stats_add(&stats, fast, 0x805, 1, 500);
	stats_add(&stats, slow, 0x104, 1, 12000);
	stats_add(&stats, slow, 0x104, 1, 6000);
	assert_int_equal(stats.rows, 2);
	assert_int_equal(stats.row[0].count, 3);
	assert_int_equal(stats.row[0].ns, 21000);
	assert_int_equal(stats.row[0].longest, 12000);
	stats.doorbells = 5;
	stats.sends = 4;
	stats.packets_out = 3;
	stats.bytes_out = 300;
	stats.packets_in = 2;
	stats.bytes_in = 200;
	check_text(
"connectx: executed                                  count      mean us   longest us\n"
"connectx: SLOW 104                                      3         7.00        12.00\n"
"connectx: FAST 805                                      1         0.50         0.50\n"
"connectx: 5 doorbells, 4 work requests; packets out 3 (300 bytes), in 2 (200 bytes)\n");
}

/* Of several that were timed together, the longest is their mean. */
static void batch_time_is_divided_by_its_count(void **state)
{
	stats_add(&stats, "UMR", 0, 4, 10000);
	stats_add(&stats, "UMR", 0, 0, 10000);
	check_text(
"connectx: executed                                  count      mean us   longest us\n"
"connectx: UMR                                           4         2.50         2.50\n"
"connectx: 0 doorbells, 0 work requests; packets out 0 (0 bytes), in 0 (0 bytes)\n");
}

/* Those who are timed take the time of their interrupts out. */
static void interrupts_have_a_row_of_their_own(void **state)
{
	stats_interrupt(&stats, 1000);
	stats_interrupt(&stats, 4000);
	assert_int_equal(stats.interrupt_ns, 5000);
	check_text(
"connectx: executed                                  count      mean us   longest us\n"
"connectx: interrupt                                     2         2.50         4.00\n"
"connectx: 0 doorbells, 0 work requests; packets out 0 (0 bytes), in 0 (0 bytes)\n");
}

static void empty_statistics_print_nothing(void **state)
{
	stats.doorbells = 1;
	check_text("");
}

static void rows_are_bounded(void **state)
{
	static char name[STATS_ROWS + 8][4];

	for (int times = 0; times < 2; times++)
		for (int i = 0; i < STATS_ROWS + 8; i++)
			stats_add(&stats, name[i], i, 1, 10);
	assert_int_equal(stats.rows, STATS_ROWS);
	for (int i = 0; i < STATS_ROWS; i++)
		assert_int_equal(stats.row[i].count, 2);
	assert_int_equal(stats.doorbells, 0);	/* what follows the rows */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup(f, setup)
		T(rows_add_up_count_and_time),
		T(batch_time_is_divided_by_its_count),
		T(interrupts_have_a_row_of_their_own),
		T(empty_statistics_print_nothing),
		T(rows_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
