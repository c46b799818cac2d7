// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Memory that the model asks QEMU for (DMA_READ, DMA_WRITE), and what else arrives while it
 * waits for the reply.
 *
 * Most cases have QEMU's messages in the socket before it is asked, since the number
 * of a question is known.  The others have it in a thread, as QEMU's lock has it: it does not
 * answer before its own request is answered.
 */
#define _GNU_SOURCE	/* memfd_create() */
#define header vfu_header
#include "vfio_msg.h"
#undef header
#include "vfio_client.h"
#include <poll.h>
#include <pthread.h>

enum { DMA_READ = 11, DMA_WRITE = 12, REPLY = 1 };
#define FAR 0xe1000040ull

struct question { struct header h; uint64_t addr, len; };

/* A reply to question number ID, before or after it was asked. */
static void answer_read(uint16_t id, const void *data, size_t len)
{
	uint8_t body[16 + 4096] = { 0 };

	memcpy(body + 16, data, len);
	send_bytes(message, build(id, DMA_READ, REPLY, body, 16 + len), NULL, 0);
}

static void answer_write(uint16_t id, uint32_t flags)
{
	uint64_t body[2] = { 0 };

	send_bytes(message, build(id, DMA_WRITE, REPLY | flags, body, sizeof(body)), NULL, 0);
}

static void expect_question(uint16_t id, unsigned int command, uint64_t addr, uint64_t len)
{
	struct question q;

	assert_int_equal(recv(sock, &q, sizeof(q), MSG_DONTWAIT), sizeof(q));
	assert_int_equal(q.h.id, id);
	assert_int_equal(q.h.command, command);
	assert_int_equal(q.h.flags, 0);
	assert_int_equal(q.h.size, sizeof(q) + (command == DMA_WRITE ? len : 0));
	assert_int_equal(q.addr, addr);
	assert_int_equal(q.len, len);
}

static void post_access(unsigned int command, uint32_t flags, unsigned int region,
			uint64_t offset, const void *data, uint32_t len)
{
	uint8_t body[64];
	struct access a = { offset, region, len };

	memcpy(body, &a, sizeof(a));
	if (command == REGION_WRITE)
		memcpy(body + sizeof(a), data, len);
	post(command, flags, body, sizeof(a) + (command == REGION_WRITE ? len : 0), NULL, 0);
}

static void dma_ask_reads_and_writes_through_qemu(void **state)
{
	uint8_t data[100], got[100] = { 0 };

	memset(data, 0x5a, sizeof(data));
	answer_read(1, data, 100);
	assert_int_equal(dma_ask(&dma, FAR, got, 100, false), 0);
	assert_memory_equal(got, data, 100);
	expect_question(1, DMA_READ, FAR, 100);

	answer_write(2, 0);
	assert_int_equal(dma_ask(&dma, FAR + 7, data, 3, true), 0);
	expect_question(2, DMA_WRITE, FAR + 7, 3);
	assert_int_equal(recv(sock, got, 3, MSG_DONTWAIT), 3);
	assert_memory_equal(got, data, 3);

	/* Nothing is there, or it may not be written. */
	answer_write(3, IS_ERROR);
	assert_int_equal(dma_ask(&dma, FAR, data, 3, true), -EFAULT);
	answer_write(4, 0);
	assert_int_equal(dma_ask(&dma, FAR, data, 3, true), 0);
	assert_int_equal(gone, 0);
}

/*
 * What a virtual CPU may be waiting for, and it may hold the lock that the answer needs; and
 * what the answer itself may need, if the memory is this device's.
 */
static void requests_are_served_during_the_wait(void **state)
{
	const struct map map = { sizeof(map), 3, 0, 0x100000, 0x1000 };
	const struct unmap unmap = { sizeof(unmap), 0, 0x100000, 0x1000 };
	struct { uint32_t argsz, flags, index, start, count; } irqs = { 20, 0x24, 2, 3, 1 };
	int memory = memfd_create("memory", 0), event = eventfd(0, EFD_NONBLOCK);
	uint64_t times;
	uint8_t byte;

	assert_int_equal(ftruncate(memory, 0x1000), 0);
	regions[VFU_BAR0][8] = 0x77;
	post_access(REGION_WRITE, NO_REPLY, VFU_BAR0, 16, "abcd", 4);
	post_access(REGION_READ, 0, VFU_BAR0, 8, NULL, 1);
	post_access(REGION_READ, 0, VFU_CONFIG, 0, NULL, 4);
	post_access(REGION_WRITE, 0, VFU_BAR0, 20, "efgh", 4);
	post(DMA_MAP, 0, &map, sizeof(map), &memory, 1);
	post(SET_IRQS, 0, &irqs, sizeof(irqs), &event, 1);
	post(DMA_UNMAP, 0, &unmap, sizeof(unmap), NULL, 0);
	answer_read(1, "x", 1);
	/* Behind the answer: that is for later. */
	post_access(REGION_WRITE, NO_REPLY, VFU_BAR0, 32, "ijkl", 4);

	assert_int_equal(dma_ask(&dma, FAR, &byte, 1, false), 0);
	assert_int_equal(byte, 'x');
	assert_memory_equal(&regions[VFU_BAR0][16], "abcdefgh", 8);
	assert_int_equal(n_accesses, 4);
	assert_int_equal(dma.count, 0);
	vfu_raise(vfu, 3);
	assert_int_equal(read(event, &times, sizeof(times)), sizeof(times));

	expect_question(1, DMA_READ, FAR, 1);
	assert_int_equal(read_reply(7, REGION_READ), sizeof(struct access) + 1);
	assert_int_equal(answer[sizeof(struct access)], 0x77);
	assert_int_equal(read_reply(7, REGION_READ), sizeof(struct access) + 4);
	assert_true(read_reply(7, REGION_WRITE) >= 0);
	assert_true(read_reply(7, DMA_MAP) >= 0);
	assert_true(read_reply(7, SET_IRQS) >= 0);
	assert_true(read_reply(7, DMA_UNMAP) >= 0);
	assert_true(nothing_to_read());
	pump();
	assert_memory_equal(&regions[VFU_BAR0][32], "ijkl", 4);
	close(memory);
	close(event);
}

/* What the device does with them in the middle of an access is its own matter. */
static void reset_is_served_during_the_wait(void **state)
{
	const struct { uint64_t count; struct { struct access a; uint8_t data[8]; } w[2]; } multi = {
		2, { { { 0, VFU_BAR0, 4 }, "abcd" }, { { 4, VFU_CONFIG, 4 }, "efgh" } },
	};
	uint8_t byte;

	post_access(REGION_WRITE, 0, VFU_CONFIG, 4, "\6\0", 2);
	post(RESET, 0, NULL, 0, NULL, 0);
	post(WRITE_MULTI, NO_REPLY, &multi, sizeof(multi), NULL, 0);
	answer_read(1, "x", 1);
	assert_int_equal(dma_ask(&dma, FAR, &byte, 1, false), 0);
	assert_int_equal(byte, 'x');
	assert_int_equal(resets, 1);
	assert_int_equal(n_accesses, 3);
	expect_question(1, DMA_READ, FAR, 1);
	assert_true(read_reply(7, REGION_WRITE) >= 0);
	assert_true(read_reply(7, RESET) >= 0);
	assert_true(nothing_to_read());
}

static void missing_answer_is_efault(void **state)
{
	uint8_t byte = 0;

	vfu->ask.ms = 50;
	assert_int_equal(dma_ask(&dma, FAR, &byte, 1, false), -EFAULT);
	expect_question(1, DMA_READ, FAR, 1);
	fflush(log_file);
	assert_non_null(strstr(log_text, "did not read 1 bytes at 0xe1000040"));
	answer_read(1, "x", 1);
	answer_read(2, "y", 1);
	assert_int_equal(dma_ask(&dma, FAR, &byte, 1, false), 0);
	assert_int_equal(byte, 'y');
	assert_int_equal(gone, 0);
}

static void unasked_answer_ends_the_connection(void **state)
{
	answer_read(1, "x", 1);
	assert_broken("replies to what nobody asked");
}

static void answer_with_a_wrong_id_ends_the_connection(void **state)
{
	uint8_t byte;

	answer_read(2, "x", 1);
	assert_int_equal(dma_ask(&dma, FAR, &byte, 1, false), -EFAULT);
	expect_question(1, DMA_READ, FAR, 1);
	assert_broken("replies to what nobody asked");
	assert_int_equal(dma_ask(&dma, FAR, &byte, 1, false), -EFAULT);
}

static void answer_of_wrong_length_ends_the_connection(void **state)
{
	uint8_t two[2];

	answer_read(1, "x", 1);
	assert_int_equal(dma_ask(&dma, FAR, two, 2, false), -EFAULT);
	expect_question(1, DMA_READ, FAR, 2);
	assert_broken("its reply to a read of 2 bytes");
}

static void qemu_leaving_during_the_wait_is_efault(void **state)
{
	uint8_t byte;

	post_access(REGION_READ, 0, VFU_BAR0, 8, NULL, 1);
	shutdown(sock, SHUT_WR);
	assert_int_equal(dma_ask(&dma, FAR, &byte, 1, false), -EFAULT);
	assert_int_equal(gone, 1);
	assert_int_equal(gone_err, 0);
	assert_null(dma.ask);
}

/* ------------------------------------------------------------------- QEMU's thread */

static uint8_t far[3 * 4096];
static unsigned int questions;		/* that it has to answer */
static unsigned int requests;		/* of its own, before it answers the first one */
static unsigned int late;		/* ms, before it reads anything */
static unsigned int replies;		/* that it got */

static void get(void *to, size_t len)
{
	assert_int_equal(recv(sock, to, len, MSG_WAITALL), len);
}

static void *client(void *arg)
{
	struct question q;

	for (unsigned int i = 0; i < requests; i++)
		post_access(REGION_READ, 0, VFU_BAR0, 8 * (i % 8), NULL, 8);
	poll(NULL, 0, late);
	for (unsigned int asked = 0; asked < questions || replies < requests; ) {
		get(&q.h, sizeof(q.h));
		if (q.h.flags == REPLY) {
			get(answer, q.h.size - sizeof(q.h));
			replies++;
			continue;
		}
		get(&q.addr, sizeof(q) - sizeof(q.h));
		assert_true(q.len <= 4096 && q.addr - FAR + q.len <= sizeof(far));
		if (q.h.command == DMA_WRITE)
			get(far + (q.addr - FAR), q.len);
		for (; replies < requests; replies++) {
			struct header h;

			get(&h, sizeof(h));
			assert_int_equal(h.flags, REPLY);
			get(answer, h.size - sizeof(h));
		}
		if (q.h.command == DMA_WRITE)
			answer_write(q.h.id, 0);
		else
			answer_read(q.h.id, far + (q.addr - FAR), q.len);
		asked++;
	}
	return NULL;
}

static pthread_t start_client(unsigned int asks, unsigned int first, unsigned int ms)
{
	pthread_t thread;

	questions = asks;
	requests = first;
	late = ms;
	replies = 0;
	assert_int_equal(pthread_create(&thread, NULL, client, NULL), 0);
	return thread;
}

static void long_access_is_asked_in_pieces(void **state)
{
	static uint8_t data[3 * 4096], got[3 * 4096];
	pthread_t thread = start_client(6, 0, 0);

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = i * 31 >> 3;
	assert_int_equal(dma_ask(&dma, FAR, data, sizeof(data), true), 0);
	assert_int_equal(dma_ask(&dma, FAR, got, sizeof(got), false), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_memory_equal(got, data, sizeof(data));
	assert_memory_equal(far, data, sizeof(data));
}

/* QEMU answers when its own requests are answered, as one does that holds a lock. */
static void qemu_may_await_its_own_replies_first(void **state)
{
	pthread_t thread = start_client(1, 100, 20);
	uint8_t byte;

	far[0] = 'z';
	assert_int_equal(dma_ask(&dma, FAR, &byte, 1, false), 0);
	assert_int_equal(byte, 'z');
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(n_accesses, 100);
}

/* Replies that fill the socket: the question goes out when they have. */
static void question_waits_for_a_full_socket(void **state)
{
	const struct access a = { 0, VFU_BAR0, 4096 };
	pthread_t thread;
	uint8_t byte;

	for (int i = 0; i < 64; i++)
		post(REGION_READ, 0, &a, sizeof(a), NULL, 0);
	pump();
	assert_true(n_accesses < 64 * 512);
	far[0] = 'q';
	thread = start_client(1, 0, 50);
	assert_int_equal(dma_ask(&dma, FAR, &byte, 1, false), 0);
	assert_int_equal(byte, 'q');
	assert_int_equal(pthread_join(thread, NULL), 0);
	pump();
	assert_int_equal(n_accesses, 64 * 512);
	assert_int_equal(replies, 64);
	assert_true(nothing_to_read());
}

/* Another function of the card, with a connection of its own. */
static struct dma other_dma;
static struct vfu *other;
static int other_sock;

static void connect_other(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	other_sock = pair[0];
	memset(&other_dma, 0, sizeof(other_dma));
	other = vfu_new(loop, &other_dma, &ops, NULL, pair[1]);
	assert_non_null(other);
	vfu_pair(vfu, other);
	dma.other = &other_dma;
	other_dma.other = &dma;
}

static void disconnect_other(void)
{
	vfu_free(other);
	close(other_sock);
	dma.other = NULL;
}

static void send_other(uint16_t id, unsigned int command, const void *body, size_t len)
{
	size_t size = build(id, command, 0, body, len);

	assert_int_equal(send(other_sock, message, size, 0), size);
}

static void get_other(uint16_t id)
{
	struct header h;

	assert_int_equal(recv(other_sock, &h, sizeof(h), MSG_WAITALL), sizeof(h));
	assert_int_equal(h.id, id);
	assert_int_equal(h.flags, REPLY);
	if (h.size > sizeof(h))
		assert_int_equal(recv(other_sock, answer, h.size - sizeof(h), MSG_WAITALL),
				 h.size - sizeof(h));
}

/* QEMU's lock is with a virtual CPU that reads the other function. */
static void *waits_for_the_other_function(void *arg)
{
	static const char version[] = "\0\0\0\0{\"capabilities\":{}}";
	const struct access a = { 0, VFU_CONFIG, 4 };

	send_other(1, VERSION, version, sizeof(version));
	get_other(1);
	send_other(2, REGION_READ, &a, sizeof(a));
	get_other(2);
	answer_read(1, "x", 1);
	return NULL;
}

static void other_function_is_served_during_the_wait(void **state)
{
	pthread_t thread;
	uint8_t byte = 0;

	connect_other();
	assert_int_equal(pthread_create(&thread, NULL, waits_for_the_other_function, NULL), 0);
	assert_int_equal(dma_ask(&dma, FAR, &byte, 1, false), 0);
	assert_int_equal(byte, 'x');
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(n_accesses, 1);
	disconnect_other();
}

/* A device that is being asked about is in the middle of an access, whichever function asks. */
static void other_function_asks_nothing_during_the_wait(void **state)
{
	uint8_t byte;

	connect_other();
	other_dma.asking = true;
	assert_true(dma_asking(&dma));
	assert_int_equal(dma_ask(&dma, FAR, &byte, 1, false), -EFAULT);
	other_dma.asking = false;
	assert_false(dma_asking(&dma));
	assert_true(nothing_to_read());
	disconnect_other();
}

static void *closes_the_other_function(void *arg)
{
	assert_int_equal(shutdown(other_sock, SHUT_RDWR), 0);
	poll(NULL, 0, 20);
	answer_read(1, "y", 1);
	return NULL;
}

static void other_function_may_leave_during_the_wait(void **state)
{
	pthread_t thread;
	uint8_t byte = 0;

	connect_other();
	assert_int_equal(pthread_create(&thread, NULL, closes_the_other_function, NULL), 0);
	assert_int_equal(dma_ask(&dma, FAR, &byte, 1, false), 0);
	assert_int_equal(byte, 'y');
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(gone, 1);
	gone = 0;
	disconnect_other();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NEGOTIATED(dma_ask_reads_and_writes_through_qemu),
		NEGOTIATED(requests_are_served_during_the_wait),
		NEGOTIATED(reset_is_served_during_the_wait), NEGOTIATED(missing_answer_is_efault),
		NEGOTIATED(unasked_answer_ends_the_connection),
		NEGOTIATED(answer_with_a_wrong_id_ends_the_connection),
		NEGOTIATED(answer_of_wrong_length_ends_the_connection),
		NEGOTIATED(qemu_leaving_during_the_wait_is_efault),
		NEGOTIATED(long_access_is_asked_in_pieces),
		NEGOTIATED(qemu_may_await_its_own_replies_first),
		NEGOTIATED(question_waits_for_a_full_socket),
		NEGOTIATED(other_function_is_served_during_the_wait),
		NEGOTIATED(other_function_asks_nothing_during_the_wait),
		NEGOTIATED(other_function_may_leave_during_the_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
