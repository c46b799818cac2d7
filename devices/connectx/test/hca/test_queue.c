// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* The buffer of a queue: what its page list may say, and where its bytes are. */
#define _GNU_SOURCE
#include "cmd.h"
#include "dma.h"
#include "hca.h"
#include "queue.h"
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

static struct dma dma;
static struct hca hca;
static int memory;

static int setup(void **state)
{
	memset(&dma, 0, sizeof(dma));
	memory = memfd_create("guest", 0);
	return ftruncate(memory, 1 << 20) || dma_map(&dma, 0x100000, 1 << 20, memory, 0, true);
}

void *hca_alloc(struct hca *h, size_t bytes)
{
	if (bytes > HCA_MEMORY - h->memory)
		return NULL;
	h->memory += bytes;
	return calloc(1, bytes);
}

void hca_free_memory(struct hca *h, void *p, size_t bytes)
{
	h->memory -= bytes;
	free(p);
}

/* From a command that is the list alone. */
static enum cmd_status init(struct queue_buf *b, const void *pas, size_t count,
			    unsigned int log_page, unsigned int page_offset, uint64_t bytes)
{
	struct cmd cmd = { .in = pas, .in_len = 8 * count };

	return queue_buf_init(&hca, &cmd, b, 0, log_page, page_offset, bytes);
}

static int teardown(void **state)
{
	dma_unmap_all(&dma);
	close(memory);
	return hca.memory != 0;
}

static void init_checks_its_arguments(void **state)
{
	static const struct {
		uint64_t bytes;
		size_t count;
		unsigned int log_page, page_offset;
		enum cmd_status ret;
		uint32_t pages, start;
	} table[] = {
		{ 4096, 1, 0, 0, CMD_OK, 1, 0 },
		{ 4097, 1, 0, 0, CMD_BAD_PARAM, 0, 0 },
		{ 4097, 2, 0, 0, CMD_OK, 2, 0 },
		{ 4096, 3, 0, 0, CMD_OK, 1, 0 },		/* more than it needs */
		{ 4096, 1, 0, 1, CMD_BAD_PARAM, 0, 0 },
		{ 4032, 1, 0, 1, CMD_OK, 1, 64 },
		{ 64, 1, 0, 63, CMD_OK, 1, 4032 },
		{ 65, 1, 0, 63, CMD_BAD_PARAM, 0, 0 },
		{ 64, 2, 0, 64, CMD_BAD_PARAM, 0, 0 },
		{ 4096, 1, 4, 3, CMD_OK, 1, 3 * 1024 },	/* the unit is a 64th of a page */
		{ 0, 0, 0, 0, CMD_OK, 0, 0 },
		{ 64, 0, 0, 0, CMD_BAD_PARAM, 0, 0 },
		{ 64, 1, 20, 0, CMD_BAD_PARAM, 0, 0 },
		{ 64, 1, 31, 63, CMD_BAD_PARAM, 0, 0 },
		{ UINT64_MAX, 1, 0, 0, CMD_BAD_PARAM, 0, 0 },
		{ UINT64_MAX - 63, 4, 0, 1, CMD_BAD_PARAM, 0, 0 },
		{ 1ull << 40, 4, 0, 0, CMD_BAD_PARAM, 0, 0 },
	};
	static const uint64_t pas[4];
	struct queue_buf b;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		assert_int_equal(init(&b, pas, table[i].count, table[i].log_page,
				      table[i].page_offset, table[i].bytes),
				 table[i].ret);
		if (table[i].ret)
			continue;
		assert_int_equal(b.pages, table[i].pages);
		assert_int_equal(b.start, table[i].start);
		queue_buf_free(&hca, &b);
	}
}

static void unaligned_pages_are_bad_param(void **state)
{
	uint64_t pas[2] = { htobe64(0x100000), htobe64(0x110800) };
	struct queue_buf b;

	assert_int_equal(init(&b, pas, 2, 0, 0, 8192), CMD_BAD_PARAM);
	pas[1] = htobe64(0x111000);
	assert_int_equal(init(&b, pas, 2, 0, 0, 8192), 0);
	queue_buf_free(&hca, &b);
	assert_int_equal(init(&b, pas, 2, 1, 0, 16384), CMD_BAD_PARAM);
	assert_null(b.page);
}

static void bytes_lie_where_the_list_says(void **state)
{
	const uint64_t pas[3] = { htobe64(0x108000), htobe64(0x102000), htobe64(0x105000) };
	uint8_t out[6000], in[6000], byte;
	struct queue_buf b;
	int err;

	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = i * 7;
	assert_int_equal(init(&b, pas, 3, 0, 2, 12288 - 128), 0);
	assert_int_equal(queue_buf_write(&b, &dma, 3000, out, sizeof(out)), 0);
	assert_int_equal(queue_buf_read(&b, &dma, 3000, in, sizeof(in)), 0);
	assert_memory_equal(in, out, sizeof(out));
	/* Offset 3000 is byte 3128 of the list: 968 bytes to the second page. */
	assert_int_equal(pread(memory, &byte, 1, 0x8000 + 3128), 1);
	assert_int_equal(byte, out[0]);
	assert_int_equal(pread(memory, &byte, 1, 0x2000), 1);
	assert_int_equal(byte, out[968]);
	assert_int_equal(pread(memory, &byte, 1, 0x5000), 1);
	assert_int_equal(byte, out[968 + 4096]);

	assert_int_equal(queue_buf_addr(&b, 0, &err), 0x108080);
	assert_int_equal(err, 0);
	assert_int_equal(queue_buf_addr(&b, 12288 - 129, &err), 0x105fff);
	assert_int_equal(err, 0);
	queue_buf_free(&hca, &b);
}

static void offsets_outside_are_efault(void **state)
{
	static const uint64_t bad[] = { 4096, 4095, 1ull << 32, 1ull << 63, ~0ull };
	const uint64_t pas[1] = { htobe64(0x100000) };
	uint8_t data[2] = { 1, 2 };
	struct queue_buf b;
	int err;

	assert_int_equal(init(&b, pas, 1, 0, 0, 4096), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(queue_buf_read(&b, &dma, bad[i], data, 2), -EFAULT);
		assert_int_equal(queue_buf_write(&b, &dma, bad[i], data, 2), -EFAULT);
		queue_buf_addr(&b, bad[i], &err);
		assert_int_equal(err, bad[i] == 4095 ? 0 : -EFAULT);
	}
	queue_buf_free(&hca, &b);
	/* An offset that wraps to the start of the page. */
	assert_int_equal(init(&b, pas, 1, 0, 2, 64), 0);
	assert_int_equal(queue_buf_read(&b, &dma, -128ull, data, 1), -EFAULT);
	assert_int_equal(queue_buf_read(&b, &dma, 0, data, 1), 0);
	queue_buf_free(&hca, &b);
	/* One that was freed, or never made, has no byte at all. */
	assert_int_equal(queue_buf_read(&b, &dma, 0, data, 1), -EFAULT);
	assert_int_equal(queue_buf_read(&b, &dma, 0, data, 0), 0);
}

static void write_outside_guest_memory_is_efault(void **state)
{
	const uint64_t pas[2] = { htobe64(0x1ff000), htobe64(0x200000) };
	uint8_t data[8] = { 0 };
	struct queue_buf b;

	assert_int_equal(init(&b, pas, 2, 0, 0, 8192), 0);
	assert_int_equal(queue_buf_write(&b, &dma, 4088, data, 8), 0);
	assert_int_equal(queue_buf_write(&b, &dma, 4092, data, 8), -EFAULT);
	queue_buf_free(&hca, &b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(init_checks_its_arguments),
		cmocka_unit_test(unaligned_pages_are_bad_param),
		cmocka_unit_test(bytes_lie_where_the_list_says),
		cmocka_unit_test(offsets_outside_are_efault),
		cmocka_unit_test(write_outside_guest_memory_is_efault),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
