// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The vfio-user socket as a stream: messages in parts, descriptors and their messages, wrong
 * frames, and a client that does not read.
 */
#define _GNU_SOURCE
#include "vfio_client.h"

static void messages_may_come_byte_by_byte(void **state)
{
	struct map m = { 32, 3, 0, 0x10000, 4096 };
	int memory = memfd_create("guest", 0);
	size_t size = build(9, DMA_MAP, 0, &m, 32);

	assert_int_equal(ftruncate(memory, 4096), 0);
	send_bytes(message, 1, &memory, 1);
	for (size_t i = 1; i < size; i++) {
		pump();
		assert_true(nothing_to_read());
		send_bytes(message + i, 1, NULL, 0);
	}
	pump();
	assert_int_equal(read_reply(9, DMA_MAP), 0);
	assert_int_equal(dma_write(&dma, 0x10000, "x", 1), 0);
	close(memory);
}

static void descriptors_belong_to_their_message(void **state)
{
	struct map m = { 32, 3, 0, 0, 4096 };
	struct { struct access a; uint8_t data[8]; } w = { .a = { 0, 0, 8 } };
	int memory[3];
	char byte;

	/* Posted writes and maps in turn, all in the socket before the first is read. */
	for (int i = 0; i < 3; i++) {
		memory[i] = memfd_create("guest", 0);
		assert_int_equal(ftruncate(memory[i], 4096), 0);
		assert_int_equal(pwrite(memory[i], &(char) { 'a' + i }, 1, 0), 1);
		m.addr = 0x10000 * (i + 1);
		post(REGION_WRITE, NO_REPLY, &w, 24, NULL, 0);
		post(DMA_MAP, NO_REPLY, &m, 32, &memory[i], 1);
		m.addr += 0x8000;
		post(DMA_MAP, NO_REPLY, &m, 32, NULL, 0);
	}
	pump();
	assert_int_equal(dma.count, 6);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(dma_read(&dma, 0x10000 * (i + 1), &byte, 1), 0);
		assert_int_equal(byte, 'a' + i);
		assert_int_equal(dma_read(&dma, 0x10000 * (i + 1) + 0x8000, &byte, 1), -EFAULT);
		close(memory[i]);
	}
}

static void unwanted_descriptors_are_closed(void **state)
{
	struct access a = { 0, 0, 4 };
	int fd[16], fds;

	for (int i = 0; i < 16; i++)
		fd[i] = eventfd(0, 0);
	fds = open_fds();
	assert_int_equal(ask_fds(REGION_READ, &a, 16, fd, 16), 20);
	assert_int_equal(ask_fds(99, NULL, 0, fd, 16), -EOPNOTSUPP);
	assert_int_equal(open_fds(), fds);
	for (int i = 0; i < 16; i++)
		close(fd[i]);
}

static void too_many_descriptors_end_the_connection(void **state)
{
	struct access a = { 0, 0, 4 };
	int fd[40];

	for (int i = 0; i < 40; i++)
		fd[i] = eventfd(0, 0);
	post(REGION_READ, 0, &a, 16, fd, 40);
	for (int i = 0; i < 40; i++)
		close(fd[i]);
	assert_broken("descriptors");
}

/* Also if they come a few at a time, with a message that never ends. */
static void piled_up_descriptors_end_the_connection(void **state)
{
	size_t size = build(7, REGION_WRITE, 0, answer, 2000);
	int fd[8];

	for (int i = 0; i < 8; i++)
		fd[i] = eventfd(0, 0);
	for (size_t i = 0; i < 6 && i < size; i++)
		send_bytes(message + i, 1, fd, 8);
	for (int i = 0; i < 8; i++)
		close(fd[i]);
	assert_broken("descriptors");
}

static void wrong_frame_ends_the_connection(void **state)
{
	static const struct header bad[] = {
		{ 1, GET_INFO, 0, 0, 0 },
		{ 1, GET_INFO, 15, 0, 0 },
		{ 1, REGION_WRITE, 8193, 0, 0 },
		{ 1, REGION_WRITE, ~0u, 0, 0 },
		{ 1, GET_INFO, 16, 2, 0 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (i) {
			disconnects(state);
			negotiates(state);
		}
		send_bytes(&bad[i], sizeof(bad[i]), NULL, 0);
		assert_broken("a message says");
	}
}

static void too_short_message_ends_the_connection(void **state)
{
	static const struct { unsigned int command; size_t len; const char *name; } table[] = {
		{ DMA_MAP, 31, "DMA_MAP" }, { DMA_UNMAP, 23, "DMA_UNMAP" },
		{ GET_INFO, 15, "GET_INFO" }, { REGION_INFO, 31, "REGION_INFO" },
		{ IRQ_INFO, 15, "IRQ_INFO" }, { SET_IRQS, 19, "SET_IRQS" },
		{ REGION_READ, 15, "REGION_READ" }, { REGION_WRITE, 15, "REGION_WRITE" },
		{ WRITE_MULTI, 7, "WRITE_MULTI" }, { GET_INFO, 0, "GET_INFO" },
	};
	static const uint8_t zeros[32];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (i) {
			disconnects(state);
			negotiates(state);
		}
		post(table[i].command, NO_REPLY, zeros, table[i].len, NULL, 0);
		assert_broken(table[i].name);
	}
}

static void wrong_count_ends_the_connection(void **state)
{
	struct { struct access a; uint8_t data[8]; } w = { .a = { 0, 0, 9 } };
	struct { uint64_t count; struct access a; uint8_t data[8]; } m = {
		.count = 1, .a = { 0, 0, 9 },
	};
	static const uint64_t counts[] = { 0, 2, (1ull << 61) + 1, ~0ull };

	post(REGION_WRITE, NO_REPLY, &w, 24, NULL, 0);
	assert_broken("REGION_WRITE");
	for (int i = -1; i < 4; i++) {
		disconnects(state);
		negotiates(state);
		if (i >= 0) {
			m.a.count = 8;
			m.count = counts[i];
		}
		post(WRITE_MULTI, NO_REPLY, &m, 32, NULL, 0);
		assert_broken("REGION_WRITE_MULTI");
		assert_int_equal(n_accesses, 0);
	}
}

static void eof_within_a_message_is_an_error(void **state)
{
	size_t size = build(1, RESET, 0, NULL, 0);

	send_bytes(message, size - 1, NULL, 0);
	shutdown(sock, SHUT_WR);
	assert_broken("within a message");
	assert_int_equal(resets, 0);
}

static void eof_between_messages_is_no_error(void **state)
{
	post(RESET, NO_REPLY, NULL, 0, NULL, 0);
	shutdown(sock, SHUT_WR);
	pump();
	assert_int_equal(resets, 1);
	assert_int_equal(gone, 1);
	assert_int_equal(gone_err, 0);
}

/* A client that asks and does not read: no memory grows, and no answer is lost. */
static void replies_wait_for_a_slow_reader(void **state)
{
	struct access a = { 0, 7, 4096 };
	size_t size = build(0, REGION_READ, 0, &a, 16);
	int sent, got = 0;
	uint16_t id;

	fcntl(sock, F_SETFL, O_NONBLOCK);
	for (sent = 0; sent < 100000; sent++) {
		id = sent;
		memcpy(message, &id, 2);
		if (send(sock, message, size, MSG_NOSIGNAL) != (ssize_t)size)
			break;
		if (sent % 100 == 0)
			pump();
	}
	assert_true(sent < 100000);	/* it was held up */
	for (; got < sent; got++) {
		struct header h;
		size_t have = 0;

		/* One may come in two parts, but never its header. */
		if (nothing_to_read() || got % 50 == 0)
			pump();
		assert_int_equal(recv(sock, &h, sizeof(h), 0), sizeof(h));
		assert_int_equal(h.id, (uint16_t)got);
		assert_int_equal(h.size, 16 + 16 + 4096);
		while (have < h.size - sizeof(h)) {
			ssize_t n = recv(sock, answer, h.size - sizeof(h) - have, 0);

			if (n < 0) {
				assert_int_equal(errno, EAGAIN);
				pump();
				continue;
			}
			have += n;
		}
	}
	assert_int_equal(gone, 0);
	fcntl(sock, F_SETFL, 0);
	assert_int_equal(ask(RESET, NULL, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NEGOTIATED(messages_may_come_byte_by_byte),
		NEGOTIATED(descriptors_belong_to_their_message),
		NEGOTIATED(unwanted_descriptors_are_closed),
		NEGOTIATED(too_many_descriptors_end_the_connection),
		NEGOTIATED(piled_up_descriptors_end_the_connection),
		NEGOTIATED(wrong_frame_ends_the_connection),
		NEGOTIATED(too_short_message_ends_the_connection),
		NEGOTIATED(wrong_count_ends_the_connection),
		NEGOTIATED(eof_within_a_message_is_an_error),
		NEGOTIATED(eof_between_messages_is_no_error),
		NEGOTIATED(replies_wait_for_a_slow_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
