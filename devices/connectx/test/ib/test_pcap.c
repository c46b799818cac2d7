// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* A capture of packets, read back byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "fake_loop.h"
#include "packet.h"
#include "pcap.h"
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

static char path[] = "/tmp/test_pcap.XXXXXX";

static size_t read_back(u8 *to, size_t size)
{
	int fd = open(path, O_RDONLY);
	size_t have = 0;
	ssize_t n;

	assert_true(fd >= 0);
	while ((n = read(fd, to + have, size - have)) > 0)
		have += n;
	close(fd);
	return have;
}

static uint32_t le32(const u8 *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

static const u8 header[] = {
	0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	(PACKET_WIRE_MAX + 16) & 0xff, (PACKET_WIRE_MAX + 16) >> 8, 0, 0, 197, 0, 0, 0,
};

static void capture_matches_byte_by_byte(void **state)
{
	u8 file[1024], wire[2][100];
	struct pcap *pc;
	time_t before = time(NULL);

	for (int i = 0; i < 100; i++) {
		wire[0][i] = i;
		wire[1][i] = ~i;
	}
	fake_reset();
	pc = pcap_open(&fake_loop, path);
	assert_non_null(pc);
	/* The header is there at once, packets after a while. */
	assert_int_equal(read_back(file, sizeof(file)), sizeof(header));
	assert_memory_equal(file, header, sizeof(header));
	pcap_add(pc, wire[0], 100);
	fake_turn();
	assert_int_equal(read_back(file, sizeof(file)), 24);
	fake_loop.now += 200000000;
	fake_turn();
	assert_int_equal(read_back(file, sizeof(file)), 24 + 32 + 100);
	pcap_add(pc, wire[1], 30);
	pcap_close(pc);
	assert_int_equal(fake_loop.timers, 0);
	assert_int_equal(read_back(file, sizeof(file)), 24 + 32 + 100 + 32 + 30);
	for (int i = 0; i < 2; i++) {
		const u8 *record = file + 24 + i * 132, *erf = record + 16;
		const u8 rest[] = { 21, 4, 0, i ? 46 : 116, 0, 0, 0, i ? 30 : 100 };
		uint32_t len = i ? 30 : 100;

		assert_in_range(le32(record), before, time(NULL));
		assert_in_range(le32(record + 4), 0, 999999999);
		assert_int_equal(le32(record + 8), 16 + len);
		assert_int_equal(le32(record + 12), 16 + len);
		assert_in_range((uint64_t)le32(erf) * 1000000000 >> 32, le32(record + 4) - 1,
				le32(record + 4));
		assert_int_equal(le32(erf + 4), le32(record));
		assert_memory_equal(erf + 8, rest, sizeof(rest));
		assert_memory_equal(erf + 16, wire[i], len);
	}
}

/* More than the buffer: all of it is there, in order. */
static void capture_larger_than_the_buffer_is_whole(void **state)
{
	size_t size = 24 + 1000 * (32 + 4000);
	u8 *file = malloc(size + 1), wire[4000] = { 0 };
	struct pcap *pc;

	fake_reset();
	pc = pcap_open(&fake_loop, path);
	for (uint32_t i = 0; i < 1000; i++) {
		memcpy(wire, &i, 4);
		pcap_add(pc, wire, sizeof(wire));
	}
	pcap_close(pc);
	assert_int_equal(read_back(file, size + 1), size);
	for (uint32_t i = 0; i < 1000; i++)
		assert_memory_equal(file + 24 + i * 4032 + 32, &i, 4);
	free(file);
}

static void capture_reports_enoent_and_enospc(void **state)
{
	u8 wire[100] = { 0 };
	struct pcap *pc;

	fake_reset();
	assert_null(pcap_open(&fake_loop, "/nonexistent/file"));
	assert_int_equal(errno, ENOENT);
	pcap_add(NULL, wire, sizeof(wire));
	pcap_close(NULL);
	pc = pcap_open(&fake_loop, "/dev/full");
	assert_non_null(pc);
	assert_string_equal(fake_note, "capture stopped: No space left on device");
	pcap_add(pc, wire, sizeof(wire));
	assert_int_equal(fake_loop.timers, 0);
	pcap_close(pc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(capture_matches_byte_by_byte),
		cmocka_unit_test(capture_larger_than_the_buffer_is_whole),
		cmocka_unit_test(capture_reports_enoent_and_enospc),
	};
	int fd = mkstemp(path), ret;

	if (fd < 0)
		return 1;
	close(fd);
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return ret;
}
