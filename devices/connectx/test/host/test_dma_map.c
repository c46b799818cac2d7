// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The map of the guest's memory as it is behind a vIOMMU: tens of thousands of regions, of a
 * few files that are mapped once each.
 */
#define _GNU_SOURCE
#include "dma.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define PAGE 4096ull
#define FILES 3
#define PAGES 512		/* of a file */

static struct dma dma;
/* Files "guest0" and so on; page P of file F begins with the word F << 16 | P. */
static int file[FILES];

static uint32_t word_of(unsigned int f, unsigned int p)
{
	return f << 16 | p;
}

static int setup(void **state)
{
	memset(&dma, 0, sizeof(dma));
	for (unsigned int f = 0; f < FILES; f++) {
		char name[] = "guest0";

		name[5] += f;
		file[f] = memfd_create(name, MFD_CLOEXEC);
		assert_int_equal(ftruncate(file[f], PAGES * PAGE), 0);
		for (unsigned int p = 0; p < PAGES; p++) {
			uint32_t word = word_of(f, p);

			assert_int_equal(pwrite(file[f], &word, 4, p * PAGE), 4);
		}
	}
	return 0;
}

static int teardown(void **state)
{
	dma_unmap_all(&dma);
	assert_null(dma.files);
	for (unsigned int f = 0; f < FILES; f++)
		close(file[f]);
	return 0;
}

/* In how many lines of /proc/self/maps the file NAME is, with PERMISSIONS if not NULL. */
static unsigned int mappings(const char *name, const char *permissions)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned int n = 0;
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, name) && (!permissions || strstr(line, permissions));
	fclose(maps);
	return n;
}

/* The same numbers in each run. */
static uint32_t random_below(uint32_t n)
{
	static uint64_t x = 0x2545f4914f6cdd1dull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (x >> 32) % n;
}

static uint32_t read_word(uint64_t addr)
{
	uint32_t word;

	assert_int_equal(dma_read(&dma, addr, &word, 4), 0);
	return word;
}

/* Whether subtree T has the regions from *COUNT on in order; the depth.  See dma_map.c. */
static unsigned int check_tree(uint32_t t, uint64_t *above, unsigned int *count)
{
	const struct dma_region *r = dma.region + t;
	unsigned int left, right;

	if (!t)
		return 0;
	assert_int_equal(r->level, dma.region[r->left].level + 1);
	assert_true(r->level - dma.region[r->right].level <= 1);
	assert_true(dma.region[dma.region[r->right].right].level < r->level);
	left = check_tree(r->left, above, count);
	assert_true(r->size && r->addr >= *above);
	*above = r->addr + r->size;
	++*count;
	right = check_tree(r->right, above, count);
	return 1 + (left < right ? right : left);
}

static void check(void)
{
	unsigned int count = 0, depth, log = 0;
	uint64_t above = 0;

	depth = check_tree(dma.root, &above, &count);
	assert_int_equal(count, dma.count);
	while (count >> log)
		log++;
	assert_true(depth <= 2 * log);
}

static void tree_is_balanced_in_any_order(void **state)
{
	const unsigned int n = 20000;

	for (unsigned int order = 0; order < 4; order++) {
		for (unsigned int i = 0; i < n; i++) {
			uint64_t at[] = { i, n - 1 - i, (uint64_t)i * 7919 % n,
					  i % 2 ? i / 2 : n - 1 - i / 2 };

			assert_int_equal(dma_map(&dma, at[order] * PAGE, PAGE, -1, 0, true), 0);
			if (i % 1000 == 0)
				check();
		}
		check();
		assert_int_equal(dma.count, n);
		/* Each in another order than it came. */
		for (unsigned int i = 0; i < n; i++) {
			uint64_t at[] = { i, (uint64_t)i * 6007 % n, n - 1 - i, i };

			assert_int_equal(dma_unmap(&dma, at[order] * PAGE, PAGE), 0);
			if (i % 1000 == 0)
				check();
		}
		assert_int_equal(dma.count, 0);
		assert_int_equal(dma.root, 0);
		/* What was free is used again. */
		assert_true(dma.made == n + 1);
	}
}

static void thousands_of_regions_are_one_mapping_a_file(void **state)
{
	const unsigned int n = 30000;

	for (unsigned int i = 0; i < n; i++) {
		unsigned int at = (uint64_t)i * 7919 % n;

		assert_int_equal(dma_map(&dma, at * PAGE, PAGE, file[at % FILES],
					 at % PAGES * PAGE, true), 0);
	}
	check();
	assert_int_equal(mappings("memfd:guest", NULL), FILES);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(read_word(i * PAGE), word_of(i % FILES, i % PAGES));
	/* The mapping of a file goes with its last region. */
	for (unsigned int i = 0; i < n; i += FILES)
		assert_int_equal(dma_unmap(&dma, i * PAGE, PAGE), 0);
	assert_int_equal(mappings("memfd:guest", NULL), FILES - 1);
	assert_int_equal(mappings("memfd:guest0", NULL), 0);
	assert_int_equal(read_word(PAGE), word_of(1, 1));
	/* All others in two pieces. */
	assert_int_equal(dma_unmap(&dma, 0, n / 2 * PAGE), 0);
	check();
	assert_int_equal(dma.count, n / 3);
	assert_int_equal(dma_unmap(&dma, n / 2 * PAGE, n * PAGE), 0);
	assert_int_equal(dma.count, 0);
	assert_int_equal(mappings("memfd:guest", NULL), 0);
}

/*
 * The model of the map: for each page the number of its region, or 0, and its first word.  The
 * last page ends at 2^64.
 */
#define SPACE 4096u
#define SPACE_BASE (-(uint64_t)SPACE * PAGE)
static unsigned int owner[SPACE], regions;
static uint32_t content[SPACE];

static uint64_t page_addr(unsigned int p)
{
	return SPACE_BASE + p * PAGE;
}

static void map_some(unsigned int number)
{
	unsigned int p = random_below(SPACE), n = 1 + random_below(8);
	unsigned int f = random_below(FILES), from = random_below(PAGES - 8);
	int expected = p + n > SPACE ? -EINVAL : 0;

	for (unsigned int i = p; i < p + n && !expected; i++)
		if (owner[i])
			expected = -EEXIST;
	assert_int_equal(dma_map(&dma, page_addr(p), n * PAGE, file[f], from * PAGE,
				 random_below(2)), expected);
	for (unsigned int i = 0; i < n && !expected; i++) {
		owner[p + i] = number;
		content[p + i] = word_of(f, from + i);
	}
	regions += !expected;
}

static void unmap_some(void)
{
	unsigned int p = random_below(SPACE), n = 1 + random_below(40);
	int expected = p + n > SPACE ? -EINVAL : 0;

	if (!expected && ((p && owner[p] && owner[p] == owner[p - 1]) ||
			  (p + n < SPACE && owner[p + n] && owner[p + n] == owner[p + n - 1])))
		expected = -EINVAL;
	assert_int_equal(dma_unmap(&dma, page_addr(p), n * PAGE), expected);
	for (unsigned int i = p; i < p + n && !expected; i++) {
		regions -= owner[i] && (i + 1 == p + n || owner[i] != owner[i + 1]);
		owner[i] = 0;
	}
}

static void look_up_some(void)
{
	unsigned int p = random_below(SPACE), end = p;
	size_t len = (SPACE - p) * PAGE;
	const uint8_t *host = dma_run(&dma, page_addr(p), &len, false);
	uint32_t found;

	assert_int_equal(!host, !owner[p]);
	if (!host)
		return;
	while (end < SPACE && owner[end] == owner[p])
		end++;
	assert_int_equal(len, (end - p) * PAGE);
	for (unsigned int i = p; i < end; i++) {
		memcpy(&found, host + (i - p) * PAGE, 4);
		assert_int_equal(found, content[i]);
	}
}

static void random_changes_match_a_model(void **state)
{
	for (unsigned int i = 1; i < 100000; i++) {
		unsigned int what = random_below(16);

		if (what < 8)
			map_some(i);
		else if (what < 10)
			unmap_some();
		else
			look_up_some();
		assert_int_equal(dma.count, regions);
		if (i % 1000 == 0)
			check();
	}
	assert_true(mappings("memfd:guest", NULL) <= 2 * FILES);
	assert_int_equal(dma_unmap(&dma, SPACE_BASE, SPACE * PAGE), 0);
	assert_int_equal(dma.count, 0);
	assert_int_equal(mappings("memfd:guest", NULL), 0);
}

static void region_may_end_at_the_last_address(void **state)
{
	size_t len = PAGE;
	uint8_t bytes[8];

	assert_int_equal(dma_map(&dma, -PAGE, PAGE, file[0], 7 * PAGE, true), 0);
	assert_int_equal(dma_map(&dma, 0, PAGE, file[0], 0, true), 0);
	assert_int_equal(dma_map(&dma, 0xfef00000, PAGE, file[1], 0, true), 0);
	assert_int_equal(dma_map(&dma, -3 * PAGE, 2 * PAGE, file[2], 0, true), 0);
	assert_int_equal(read_word(-PAGE), word_of(0, 7));
	assert_int_equal(dma_write(&dma, -8, "12345678", 8), 0);
	assert_int_equal(pread(file[0], bytes, 8, 8 * PAGE - 8), 8);
	assert_memory_equal(bytes, "12345678", 8);
	assert_non_null(dma_run(&dma, -PAGE, &len, true));
	assert_int_equal(len, PAGE);
	/* Nothing goes on at 0. */
	assert_int_equal(dma_read(&dma, -4, bytes, 8), -EFAULT);
	assert_int_equal(dma_write(&dma, -4, bytes, 8), -EFAULT);
	len = 2;
	assert_null(dma_run(&dma, ~0ull, &len, false));

	assert_int_equal(dma_unmap(&dma, -2 * PAGE, 2 * PAGE), -EINVAL);
	assert_int_equal(dma_unmap(&dma, -PAGE, 2 * PAGE), -EINVAL);
	assert_int_equal(dma_unmap(&dma, 0xfef00000, 0xffffffff01101000), -EINVAL);
	assert_int_equal(dma.count, 4);
	/* QEMU does this when the machine is reset. */
	assert_int_equal(dma_unmap(&dma, 0xfef00000, 0xffffffff01100000), 0);
	assert_int_equal(dma.count, 1);
	assert_int_equal(read_word(0), word_of(0, 0));
	/* All there is, but for a page. */
	assert_int_equal(dma_map(&dma, PAGE, -PAGE, -1, 0, true), 0);
	assert_int_equal(dma_map(&dma, -PAGE, PAGE, -1, 0, true), -EEXIST);
	assert_int_equal(dma_unmap(&dma, PAGE, -PAGE), 0);
	assert_int_equal(dma.count, 1);
}

static void read_only_region_of_a_writable_file_stays_so(void **state)
{
	uint32_t word = 0;

	assert_int_equal(dma_map(&dma, 0x10000, 4 * PAGE, file[0], 0, true), 0);
	assert_int_equal(dma_map(&dma, 0x20000, 4 * PAGE, file[0], 0, false), 0);
	assert_int_equal(dma_map(&dma, 0x30000, PAGE, file[0], PAGE, false), 0);
	assert_int_equal(mappings("memfd:guest0", NULL), 2);
	assert_int_equal(mappings("memfd:guest0", " r--s "), 1);
	assert_int_equal(dma_write(&dma, 0x20000, &word, 4), -EFAULT);
	assert_int_equal(dma_store8(&dma, 0x30000, 1), -EFAULT);
	/* It is the same memory. */
	word = 0x12345678;
	assert_int_equal(dma_write(&dma, 0x11000, &word, 4), 0);
	assert_int_equal(read_word(0x21000), word);
	assert_int_equal(read_word(0x30000), word);
	assert_int_equal(dma_unmap(&dma, 0x10000, 4 * PAGE), 0);
	assert_int_equal(mappings("memfd:guest0", " rw-s "), 0);
	assert_int_equal(dma_write(&dma, 0x21000, &word, 4), -EFAULT);
	assert_int_equal(read_word(0x21000), word);
}

/* Open FD's file anew. */
static int reopen(int fd, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_CLOEXEC);
}

static void descriptor_says_what_is_permitted(void **state)
{
	int reader = reopen(file[0], O_RDONLY), writer = reopen(file[0], O_WRONLY);

	assert_true(reader >= 0 && writer >= 0);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(dma_map(&dma, 0, PAGE, reader, 0, true), -EACCES);
		assert_int_equal(dma_map(&dma, 0, PAGE, writer, 0, true), -EACCES);
		assert_int_equal(dma_map(&dma, 0, PAGE, writer, 0, false), -EACCES);
		assert_int_equal(dma_map(&dma, 0, PAGE, reader, 0, false), 0);
		assert_int_equal(dma_unmap(&dma, 0, PAGE), 0);
		/* Also when the file is mapped that way already. */
		assert_int_equal(dma_map(&dma, 0x10000 + i * PAGE, PAGE, file[0], 0, i), 0);
	}
	close(reader);
	close(writer);
}

static void file_may_grow_and_shrink(void **state)
{
	uint32_t first = 0x11111111;

	assert_int_equal(dma_map(&dma, 0, PAGE, file[0], 0, true), 0);
	assert_int_equal(dma_map(&dma, 0x10000, PAGE, file[0], PAGES * PAGE, true), -EINVAL);
	assert_int_equal(dma_write(&dma, 0, &first, 4), 0);
	assert_int_equal(ftruncate(file[0], 2 * PAGES * PAGE), 0);
	assert_int_equal(pwrite(file[0], "grow", 4, PAGES * PAGE), 4);
	assert_int_equal(dma_map(&dma, 0x10000, PAGE, file[0], PAGES * PAGE, true), 0);
	assert_int_equal(mappings("memfd:guest0", NULL), 1);
	assert_int_equal(read_word(0), first);
	assert_memory_equal(&(uint32_t){ read_word(0x10000) }, "grow", 4);
	first++;
	assert_int_equal(dma_write(&dma, 0, &first, 4), 0);
	assert_int_equal(pread(file[0], &first, 4, 0), 4);
	assert_int_equal(first, 0x11111112);
	/* What is mapped by then says nothing. */
	assert_int_equal(ftruncate(file[0], PAGES * PAGE), 0);
	assert_int_equal(dma_map(&dma, 0x20000, PAGE, file[0], PAGES * PAGE, true), -EINVAL);
	assert_int_equal(dma_map(&dma, 0x20000, PAGE, file[0], (PAGES - 1) * PAGE, true), 0);
	assert_int_equal(read_word(0x20000), word_of(0, PAGES - 1));
	assert_int_equal(mappings("memfd:guest0", NULL), 1);
}

/* A file of 2^62 bytes, and one that is another one for each mapping. */
static void region_that_cannot_be_shared_is_mapped_alone(void **state)
{
	int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
	uint32_t word = 0x12345678;

	assert_int_equal(ftruncate(file[0], 1ll << 62), 0);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(dma_map(&dma, i * 2 * PAGE, PAGE, file[0], i * 2 * PAGE, true), 0);
	assert_int_equal(mappings("memfd:guest0", NULL), 3);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(read_word(i * 2 * PAGE), word_of(0, i * 2));
	assert_int_equal(dma_unmap(&dma, 2 * PAGE, PAGE), 0);
	assert_int_equal(mappings("memfd:guest0", NULL), 2);

	assert_int_equal(dma_map(&dma, 0x10000, PAGE, zero, 0, true), 0);
	assert_int_equal(dma_map(&dma, 0x11000, PAGE, zero, 0, true), 0);
	close(zero);
	assert_int_equal(dma_write(&dma, 0x10000, &word, 4), 0);
	assert_int_equal(read_word(0x10000), word);
	assert_int_equal(read_word(0x11000), 0);
	assert_null(dma.files);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(tree_is_balanced_in_any_order),
		TEST(thousands_of_regions_are_one_mapping_a_file),
		TEST(random_changes_match_a_model),
		TEST(region_may_end_at_the_last_address),
		TEST(read_only_region_of_a_writable_file_stays_so),
		TEST(descriptor_says_what_is_permitted),
		TEST(file_may_grow_and_shrink),
		TEST(region_that_cannot_be_shared_is_mapped_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
