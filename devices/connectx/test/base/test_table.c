// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* Tables of objects: numbers, limits, reuse, and that a hostile number finds nothing. */
#include "table.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static int object[1000];

static void numbers_go_up_to_the_limit(void **state)
{
	struct table t;

	table_init(&t, 10, 300);
	for (int i = 0; i < 300; i++)
		assert_int_equal(table_add(&t, &object[i]), 10 + i);
	assert_int_equal(table_add(&t, &object[300]), -ENOSPC);
	assert_int_equal(t.count, 300);
	for (int i = 0; i < 300; i++)
		assert_ptr_equal(table_get(&t, 10 + i), &object[i]);
	assert_ptr_equal(table_del(&t, 42), &object[32]);
	assert_int_equal(table_add(&t, &object[301]), 42);
	table_clear(&t, NULL, NULL);
}

static void wrong_number_finds_nothing(void **state)
{
	static const uint32_t wrong[] = { 0, 9, 11, 12, 137, 138, 0x7fffffff, 0x80000009, ~0u };
	struct table t;

	table_init(&t, 10, 1 << 20);
	assert_null(table_get(&t, 10));
	assert_null(table_del(&t, 10));
	assert_int_equal(table_add(&t, &object[0]), 10);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_null(table_get(&t, wrong[i]));
		assert_null(table_del(&t, wrong[i]));
	}
	assert_int_equal(t.count, 1);
	assert_ptr_equal(table_del(&t, 10), &object[0]);
	assert_null(table_del(&t, 10));
	assert_int_equal(t.count, 0);
	table_clear(&t, NULL, NULL);
}

static void freed_number_is_not_reused_soon(void **state)
{
	struct table t;
	int64_t number, other;

	table_init(&t, 0, 1 << 20);
	for (int i = 0; i < 50; i++)
		table_add(&t, &object[i]);
	number = table_add(&t, &object[50]);
	table_del(&t, number);
	for (int i = 0; i < 60; i++) {
		other = table_add(&t, &object[51]);
		assert_int_not_equal(other, number);
		table_del(&t, other);
	}
	/* And however many come and go, the array does not grow because of that. */
	for (int i = 0; i < 10000; i++)
		table_del(&t, table_add(&t, &object[51]));
	assert_int_equal(t.size, 128);
	table_clear(&t, NULL, NULL);
}

static void counts(void *arg, void *obj)
{
	(*(int *)arg)++;
}

static struct table *again;

static void deletes_itself(void *arg, void *obj)
{
	for (uint32_t n = 0; n < 300; n++)
		assert_ptr_not_equal(table_get(again, n), obj);
	counts(arg, obj);
}

static void clear_frees_each_and_begins_anew(void **state)
{
	struct table t;
	int freed = 0;

	again = &t;
	table_init(&t, 1, 300);
	for (int i = 0; i < 200; i++)
		table_add(&t, &object[i]);
	table_del(&t, 7);
	table_clear(&t, deletes_itself, &freed);
	assert_int_equal(freed, 199);
	assert_int_equal(t.count, 0);
	assert_null(t.slot);
	assert_int_equal(table_add(&t, &object[0]), 1);
	table_clear(&t, counts, &freed);
	assert_int_equal(freed, 200);
}

static void next_walks_over_all_objects(void **state)
{
	struct table t;
	uint32_t number = 0;
	int seen = 0;

	table_init(&t, 100, 300);
	assert_null(table_next(&t, &number));
	for (int i = 0; i < 10; i++)
		table_add(&t, &object[i]);
	table_del(&t, 100);
	table_del(&t, 105);
	for (number = 0; table_next(&t, &number); number++, seen++)
		assert_ptr_equal(table_get(&t, number), &object[number - 100]);
	assert_int_equal(seen, 8);
	number = ~0u;
	assert_null(table_next(&t, &number));
	table_clear(&t, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_go_up_to_the_limit),
		cmocka_unit_test(wrong_number_finds_nothing),
		cmocka_unit_test(freed_number_is_not_reused_soon),
		cmocka_unit_test(clear_frees_each_and_begins_anew),
		cmocka_unit_test(next_walks_over_all_objects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
