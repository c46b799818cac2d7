// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* The vfio-user socket, message by message: what each does, and which ones are refused. */
#define _GNU_SOURCE
#include "vfio_client.h"

static void version_is_negotiated(void **state)
{
	uint16_t version[2];
	int len = ask_version("{\"capabilities\":{\"max_msg_fds\":8,\"write_multiple\" : true}}");

	memcpy(version, answer, 4);
	assert_int_equal(version[0], 0);
	assert_int_equal(version[1], 0);
	assert_int_equal(answer[len - 1], 0);
	assert_int_equal(strlen((char *)answer + 4), len - 5);
	assert_non_null(strstr((char *)answer + 4, "\"max_msg_fds\":16"));
	assert_non_null(strstr((char *)answer + 4, "\"max_data_xfer_size\":4096"));
	assert_non_null(strstr((char *)answer + 4, "\"max_dma_maps\":65535"));
	assert_non_null(strstr((char *)answer + 4, "\"write_multiple\":true"));
}

static void write_multiple_is_agreed_only_if_offered(void **state)
{
	static const char *const not[] = {
		"", "{}", "{\"capabilities\":{\"write_multiple\":false}}",
		"{\"write_multiple\"", "{\"write_multiple\":", "\"write_multiple\":tru",
		"{\"no_write_multiple\":true}",
	};

	for (size_t i = 0; i < sizeof(not) / sizeof(not[0]); i++) {
		if (i) {
			disconnects(state);
			connects(state);
		}
		assert_true(ask_version(not[i]) > 4);
		assert_null(strstr((char *)answer + 4, "write_multiple"));
	}
}

static void version_needs_no_capabilities(void **state)
{
	static const uint16_t version[2] = { 0, 1 };

	assert_true(ask(VERSION, version, 4) > 4);
	assert_int_equal(answer[2], 0);
}

static void other_major_version_ends_the_connection(void **state)
{
	static const uint16_t version[2] = { 1, 0 };

	post(VERSION, 0, version, 4, NULL, 0);
	assert_broken("vfio-user 1.0");
}

static void message_before_version_ends_the_connection(void **state)
{
	uint32_t info[4] = { 16 };

	post(GET_INFO, 0, info, 16, NULL, 0);
	assert_broken("VERSION");
}

static void second_version_ends_the_connection(void **state)
{
	static const uint16_t version[2];

	post(VERSION, 0, version, 4, NULL, 0);
	assert_broken("VERSION");
}

static void device_info_describes_a_pci_device(void **state)
{
	uint32_t info[4] = { 16 };

	assert_int_equal(ask(GET_INFO, info, 16), 16);
	memcpy(info, answer, 16);
	assert_int_equal(info[0], 16);
	assert_int_equal(info[1], 3);
	assert_int_equal(info[2], 9);
	assert_int_equal(info[3], 5);
	info[0] = 15;
	assert_int_equal(ask(GET_INFO, info, 16), -EINVAL);
}

static void region_info_describes_bar_and_config(void **state)
{
	static const struct { uint32_t argsz, index; int ret; uint64_t size; uint32_t flags; }
	table[] = {
		{ 32, 0, 32, 4096, 3 },
		{ 64, 0, 32, 4096, 3 },
		{ 32, 7, 32, 4096, 3 },
		{ 32, 1, 32, 0, 0 },
		{ 32, 8, 32, 0, 0 },
		{ 31, 0, -EINVAL, 0, 0 },
		{ 32, 9, -EINVAL, 0, 0 },
		{ 32, ~0u, -EINVAL, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct vfio_region_info info = { .argsz = table[i].argsz,
						 .index = table[i].index };

		assert_int_equal(ask(REGION_INFO, &info, 32), table[i].ret);
		if (table[i].ret < 0)
			continue;
		memcpy(&info, answer, 32);
		assert_int_equal(info.argsz, 32);
		assert_int_equal(info.index, table[i].index);
		assert_int_equal(info.size, table[i].size);
		assert_int_equal(info.flags, table[i].flags);
		assert_int_equal(info.cap_offset, 0);
	}
}

static void irq_info_has_msix_only(void **state)
{
	for (uint32_t index = 0; index < 7; index++) {
		struct vfio_irq_info info = { .argsz = 16, .index = index };

		assert_int_equal(ask(IRQ_INFO, &info, 16), index < 5 ? 16 : -EINVAL);
		if (index > 4)
			continue;
		memcpy(&info, answer, 16);
		assert_int_equal(info.index, index);
		assert_int_equal(info.count, index == 2 ? 16 : 0);
		assert_int_equal(info.flags, index == 2 ? 1 : 0);
	}
}

static void dma_map_reaches_the_file(void **state)
{
	struct map m = { 32, 3, 4096, 0x10000, 8192 };
	struct unmap u = { 24, 0, 0x10000, 8192 };
	int memory = memfd_create("guest", 0), fds = open_fds();
	char got[6];

	assert_int_equal(ftruncate(memory, 16384), 0);
	assert_int_equal(ask_fds(DMA_MAP, &m, 32, &memory, 1), 0);
	assert_int_equal(open_fds(), fds);
	assert_int_equal(dma_write(&dma, 0x10ffd, "hello", 6), 0);
	assert_int_equal(pread(memory, got, 6, 4096 + 0xffd), 6);
	assert_string_equal(got, "hello");

	assert_int_equal(ask_fds(DMA_MAP, &m, 32, &memory, 1), -EEXIST);
	m.addr = 0x20000;
	m.flags = 1;
	m.offset = 0;
	assert_int_equal(ask_fds(DMA_MAP, &m, 32, &memory, 1), 0);
	assert_int_equal(dma_read(&dma, 0x21ffd, got, 3), 0);
	assert_int_equal(dma_write(&dma, 0x20000, "x", 1), -EFAULT);
	m.addr = 0x30000;
	assert_int_equal(ask(DMA_MAP, &m, 32), 0);		/* without a descriptor */
	assert_int_equal(dma_read(&dma, 0x30000, got, 1), -EFAULT);
	assert_int_equal(dma.count, 3);

	u.size = 4096;
	assert_int_equal(ask(DMA_UNMAP, &u, 24), -EINVAL);
	u.size = 8192;
	assert_int_equal(ask(DMA_UNMAP, &u, 24), 24);
	assert_memory_equal(answer, &u, 24);
	assert_int_equal(dma_write(&dma, 0x10ffd, "hello", 6), -EFAULT);
	u = (struct unmap) { 24, 0, 0x30000, -0x30000ull };	/* up to 2^64 */
	assert_int_equal(ask(DMA_UNMAP, &u, 24), 24);
	assert_int_equal(dma.count, 1);
	assert_int_equal(ask_fds(DMA_MAP, &(struct map) { 32, 3, 0, 0x10000, 4096 }, 32,
				 &memory, 1), 0);
	u = (struct unmap) { 24, 2, 0, 0 };
	assert_int_equal(ask(DMA_UNMAP, &u, 24), 24);		/* all */
	assert_int_equal(dma.count, 0);
	close(memory);
}

static void bad_dma_map_is_einval(void **state)
{
	static const struct { struct map m; unsigned int fds; int ret; } table[] = {
		{ { 32, 2, 0, 0x10000, 4096 }, 1, -EINVAL },		/* not readable */
		{ { 32, 0, 0, 0x10000, 4096 }, 1, -EINVAL },
		{ { 32, 7, 0, 0x10000, 4096 }, 1, -EINVAL },
		{ { 32, 3, 0, 0x10000, 4096 }, 2, -EINVAL },
		{ { 32, 3, 0, 0x10000, 0 }, 1, -EINVAL },
		{ { 32, 3, 0, 0x10000, 8192 }, 1, -EINVAL },	/* longer than the file */
		{ { 32, 3, 4096, 0x10000, 4096 }, 1, -EINVAL },
		{ { 32, 3, 0, ~0xfffull, 8192 }, 1, -EINVAL },
		{ { 32, 3, 0, 0x10000, 4096 }, 1, 0 },
	};
	int memory[2] = { memfd_create("a", 0), memfd_create("b", 0) };

	assert_int_equal(ftruncate(memory[0], 4096), 0);
	assert_int_equal(ftruncate(memory[1], 4096), 0);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int fds = open_fds();

		assert_int_equal(ask_fds(DMA_MAP, &table[i].m, 32, memory, table[i].fds),
				 table[i].ret);
		assert_int_equal(open_fds(), fds);
	}
	close(memory[0]);
	close(memory[1]);
}

static void region_access_is_split_into_aligned_ones(void **state)
{
	struct { struct access a; uint8_t data[4096]; } m = { { 8, 0, 8 }, "abcdefgh" };

	assert_int_equal(ask(REGION_WRITE, &m, 24), 16);
	assert_memory_equal(answer, &m, 16);
	assert_memory_equal(regions[0] + 8, "abcdefgh", 8);
	/* An aligned store of the guest is one access. */
	assert_int_equal(n_accesses, 1);
	assert_int_equal(accesses[0].size, 8);

	assert_int_equal(ask(REGION_READ, &m.a, 16), 24);
	assert_memory_equal(answer, &m, 24);
	assert_int_equal(accesses[1].size, 8);

	/* Others are taken to pieces: 1 + 2 + 8 + 4 + 1. */
	n_accesses = 0;
	m.a = (struct access) { 5, 7, 16 };
	assert_int_equal(ask(REGION_READ, &m.a, 16), 32);
	assert_int_equal(n_accesses, 5);
	assert_int_equal(accesses[2].offset, 8);
	assert_int_equal(accesses[2].region, 7);

	m.a = (struct access) { 0, 7, 4096 };
	assert_int_equal(ask(REGION_READ, &m.a, 16), 16 + 4096);
	m.a.count = 0;
	assert_int_equal(ask(REGION_READ, &m.a, 16), 16);
}

static void bad_region_access_is_einval(void **state)
{
	static const struct access bad[] = {
		{ 4096, 0, 1 }, { 4095, 0, 2 }, { 4089, 0, 8 }, { ~0ull, 0, 1 },
		{ ~0ull - 3, 0, 4 }, { 1ull << 63, 0, 8 }, { 0, 1, 1 }, { 0, 9, 1 },
		{ 0, ~0u, 1 }, { 0, 0, 4097 }, { 0, 0, ~0u },
	};
	struct { struct access a; uint8_t data[8]; } m = { 0 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(ask(REGION_READ, &bad[i], 16), -EINVAL);
		if (bad[i].count > 8)
			continue;
		m.a = bad[i];
		assert_int_equal(ask(REGION_WRITE, &m, 16 + m.a.count), -EINVAL);
	}
	assert_int_equal(n_accesses, 0);
}

static void posted_writes_keep_order_without_replies(void **state)
{
	struct { struct access a; uint8_t data[8]; } m = { .a = { 0, 0, 8 } };

	/* More than a bufferful. */
	for (int i = 0; i < 1000; i++) {
		m.a.offset = i % 512 * 8;
		m.data[0] = i;
		post(REGION_WRITE, NO_REPLY, &m, 24, NULL, 0);
	}
	m.a.offset = 8;
	post(REGION_READ, 0, &m.a, 16, NULL, 0);
	pump();
	assert_int_equal(n_accesses, 1001);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(accesses[i].offset, i % 512 * 8);
	assert_int_equal(read_reply(7, REGION_READ), 24);
	assert_int_equal(answer[16], 513 & 0xff);
	assert_true(nothing_to_read());

	/* One that is refused is not answered either, and is told. */
	m.a.offset = 4096;
	post(REGION_WRITE, NO_REPLY, &m, 24, NULL, 0);
	pump();
	assert_true(nothing_to_read());
	assert_int_equal(gone, 0);
	fflush(log_file);
	assert_non_null(strstr(log_text, "REGION_WRITE"));
}

static void write_multi_carries_many_writes(void **state)
{
	struct { uint64_t count; struct { struct access a; uint8_t data[8]; } w[201]; } m;

	memset(&m, 0, sizeof(m));
	m.count = 200;
	for (int i = 0; i < 200; i++) {
		m.w[i].a = (struct access) { i * 8, 0, i % 2 ? 8 : 4 };
		m.w[i].data[0] = i;
		m.w[i].data[7] = 0xee;
	}
	m.w[50].a.offset = 4095;	/* refused; the others are carried out */
	post(WRITE_MULTI, NO_REPLY, &m, 8 + 200 * 24, NULL, 0);
	pump();
	assert_int_equal(n_accesses, 199);
	assert_int_equal(regions[0][199 * 8], 199);
	assert_int_equal(regions[0][199 * 8 + 7], 0xee);
	assert_int_equal(regions[0][198 * 8 + 7], 0);
	assert_true(nothing_to_read());

	m.w[50].a.offset = 0;
	assert_int_equal(ask(WRITE_MULTI, &m, 8 + 200 * 24), 8);
	m.count = 0;
	assert_int_equal(ask(WRITE_MULTI, &m, 8), 8);
}

struct irq_set { uint32_t argsz, flags, index, start, count; };

static uint64_t taken(int fd)
{
	uint64_t value = 0;

	return read(fd, &value, sizeof(value)) == sizeof(value) ? value : 0;
}

static void interrupts_reach_their_eventfds(void **state)
{
	int event[4], fds;

	for (int i = 0; i < 4; i++)
		event[i] = eventfd(0, i == 3 ? 0 : EFD_NONBLOCK);
	fds = open_fds();

	/* Before there is an eventfd it is kept. */
	vfu_raise(vfu, 1);
	vfu_raise(vfu, 1);
	vfu_raise(vfu, 16);		/* there is none */
	vfu_raise(vfu, ~0u);
	assert_int_equal(vfu_pending(vfu), 2);
	assert_int_equal(ask_fds(SET_IRQS, &(struct irq_set) { 20, 0x24, 2, 0, 2 }, 20, event,
				 2), 0);
	assert_int_equal(open_fds(), fds + 2);
	assert_int_equal(taken(event[0]), 0);
	assert_int_equal(taken(event[1]), 1);
	assert_int_equal(vfu_pending(vfu), 0);
	vfu_raise(vfu, 0);
	vfu_raise(vfu, 0);
	assert_int_equal(taken(event[0]), 2);
	/* While all are held too. */
	vfu_hold(vfu, true);
	vfu_raise(vfu, 0);
	vfu_raise(vfu, 2);
	assert_int_equal(taken(event[0]), 0);
	assert_int_equal(vfu_pending(vfu), 5);
	vfu_hold(vfu, false);
	assert_int_equal(taken(event[0]), 1);
	assert_int_equal(vfu_pending(vfu), 4);
	vfu_lower_all(vfu);

	/* A range without descriptors loses those that it had. */
	assert_int_equal(ask(SET_IRQS, &(struct irq_set) { 20, 0x24, 2, 1, 15 }, 20), 0);
	assert_int_equal(open_fds(), fds + 1);
	vfu_raise(vfu, 1);
	assert_int_equal(taken(event[1]), 0);
	assert_int_equal(vfu_pending(vfu), 2);
	vfu_lower_all(vfu);
	/* Another one for the same vector, one that would block, and the last vector. */
	assert_int_equal(ask_fds(SET_IRQS, &(struct irq_set) { 20, 0x24, 2, 0, 1 }, 20,
				 &event[2], 1), 0);
	assert_int_equal(ask_fds(SET_IRQS, &(struct irq_set) { 20, 0x24, 2, 15, 1 }, 20,
				 &event[3], 1), 0);
	assert_int_equal(open_fds(), fds + 2);
	assert_true(fcntl(event[3], F_GETFL) & O_NONBLOCK);
	vfu_raise(vfu, 0);
	vfu_raise(vfu, 15);
	assert_int_equal(taken(event[2]), 1);
	assert_int_equal(taken(event[3]), 1);
	/* QEMU can trigger one. */
	assert_int_equal(ask(SET_IRQS, &(struct irq_set) { 20, 0x21, 2, 15, 1 }, 20), 0);
	assert_int_equal(taken(event[3]), 1);
	/* And end all of them. */
	assert_int_equal(ask(SET_IRQS, &(struct irq_set) { 20, 0x21, 2, 0, 0 }, 20), 0);
	assert_int_equal(open_fds(), fds);

	/* What the connection holds when it ends is closed: see disconnects(). */
	assert_int_equal(ask_fds(SET_IRQS, &(struct irq_set) { 20, 0x24, 2, 0, 4 }, 20, event,
				 4), 0);
	for (int i = 0; i < 4; i++)
		close(event[i]);
}

static void bad_set_irqs_is_refused(void **state)
{
	static const struct { struct irq_set m; unsigned int fds; int ret; } table[] = {
		{ { 20, 0x24, 2, 0, 17 }, 0, -EINVAL },
		{ { 20, 0x24, 2, 16, 1 }, 1, -EINVAL },
		{ { 20, 0x24, 2, ~0u, 2 }, 2, -EINVAL },
		{ { 20, 0x24, 2, 1, ~0u }, 1, -EINVAL },
		{ { 20, 0x24, 2, 0, 2 }, 1, -EINVAL },
		{ { 20, 0x24, 2, 0, 1 }, 2, -EINVAL },
		{ { 20, 0x24, 0, 0, 1 }, 1, -EINVAL },
		{ { 20, 0x24, 5, 0, 1 }, 1, -EINVAL },
		{ { 20, 0x0c, 2, 0, 1 }, 1, -EOPNOTSUPP },	/* mask */
		{ { 20, 0x22, 2, 0, 1 }, 0, -EOPNOTSUPP },	/* array of bool */
		{ { 20, 0, 2, 0, 0 }, 0, -EOPNOTSUPP },
		{ { 20, 0x21, 0, 0, 0 }, 0, 0 },
	};
	int event[2] = { eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK) };

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int fds = open_fds();

		assert_int_equal(ask_fds(SET_IRQS, &table[i].m, 20, event, table[i].fds),
				 table[i].ret);
		assert_int_equal(open_fds(), fds);
	}
	close(event[0]);
	close(event[1]);
}

static void reset_clears_pending_interrupts(void **state)
{
	vfu_raise(vfu, 3);
	assert_int_equal(ask(RESET, NULL, 0), 0);
	assert_int_equal(resets, 1);
	assert_int_equal(vfu_pending(vfu), 0);
}

static void unknown_command_is_eopnotsupp(void **state)
{
	static const unsigned int unknown[] = { 0, 6, 11, 12, 14, 16, 17, 18, 19, 0xffff };

	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		assert_int_equal(ask(unknown[i], "12345678", 8), -EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONNECTED(version_is_negotiated),
		CONNECTED(write_multiple_is_agreed_only_if_offered),
		CONNECTED(version_needs_no_capabilities),
		CONNECTED(other_major_version_ends_the_connection),
		CONNECTED(message_before_version_ends_the_connection),
		NEGOTIATED(second_version_ends_the_connection),
		NEGOTIATED(device_info_describes_a_pci_device),
		NEGOTIATED(region_info_describes_bar_and_config),
		NEGOTIATED(irq_info_has_msix_only),
		NEGOTIATED(dma_map_reaches_the_file),
		NEGOTIATED(bad_dma_map_is_einval),
		NEGOTIATED(region_access_is_split_into_aligned_ones),
		NEGOTIATED(bad_region_access_is_einval),
		NEGOTIATED(posted_writes_keep_order_without_replies),
		NEGOTIATED(write_multi_carries_many_writes),
		NEGOTIATED(interrupts_reach_their_eventfds),
		NEGOTIATED(bad_set_irqs_is_refused),
		NEGOTIATED(reset_clears_pending_interrupts),
		NEGOTIATED(unknown_command_is_eopnotsupp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
