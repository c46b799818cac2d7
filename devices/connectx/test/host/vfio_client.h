/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A vfio-user client for the tests of the transport, over a socketpair: the test writes
 * messages, lets the loop handle what is in the socket, and reads the replies.
 */
#ifndef CONNECTX_TEST_VFIO_CLIENT_H
#define CONNECTX_TEST_VFIO_CLIENT_H

#include "vfio_user.h"
#include "trace.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

enum { VERSION = 1, DMA_MAP, DMA_UNMAP, GET_INFO, REGION_INFO, IRQ_INFO = 7, SET_IRQS,
       REGION_READ, REGION_WRITE, RESET = 13, WRITE_MULTI = 15 };
enum { NO_REPLY = 0x10, IS_ERROR = 0x20 };

struct header { uint16_t id, command; uint32_t size, flags, error; };
struct access { uint64_t offset; uint32_t region, count; };
struct map { uint32_t argsz, flags; uint64_t offset, addr, size; };
struct unmap { uint32_t argsz, flags; uint64_t addr, size; };

static struct loop *loop;
static struct dma dma;
static struct vfu *vfu;
static int sock, resets, gone, gone_err;
static char log_text[4096];	/* what the part under test says */
static FILE *log_file;

/* The device: bytes, and the accesses in order. */
static uint8_t regions[VFU_REGIONS][4096];
static struct { unsigned int region; uint64_t offset; size_t size; } accesses[2000];
static unsigned int n_accesses;

static void seen(unsigned int region, uint64_t offset, size_t size)
{
	assert_true(size == 1 || size == 2 || size == 4 || size == 8);
	assert_int_equal(offset % size, 0);
	assert_true(offset + size <= 4096);
	if (n_accesses < 2000) {
		accesses[n_accesses].region = region;
		accesses[n_accesses].offset = offset;
		accesses[n_accesses].size = size;
	}
	n_accesses++;
}

static void dev_read(void *arg, unsigned int region, uint64_t offset, void *data, size_t size)
{
	seen(region, offset, size);
	memcpy(data, &regions[region][offset], size);
}

static void dev_write(void *arg, unsigned int region, uint64_t offset, const void *data,
		      size_t size)
{
	seen(region, offset, size);
	memcpy(&regions[region][offset], data, size);
}

static void dev_reset(void *arg)
{
	resets++;
}

static void dev_gone(void *arg, int err)
{
	gone++;
	gone_err = err;
	loop_stop(loop);
}

static const struct vfu_ops ops = {
	.region_size = { [VFU_BAR0] = 4096, [VFU_CONFIG] = 4096 },
	.vectors = 16, .read = dev_read, .write = dev_write, .reset = dev_reset,
	.gone = dev_gone,
};

static int open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* ------------------------------------------------------------------- the client */

static int turns;

static void counts_turns(struct work *w)
{
	if (--turns)
		loop_work(loop, w);
	else
		loop_stop(loop);
}

/* Enough turns of the loop, in each of which it runs a few works, for what is in the socket. */
static void pump(void)
{
	struct work w;

	turns = 16 * 8;
	work_init(&w, counts_turns);
	loop_work(loop, &w);
	loop_run(loop);
	work_stop(&w);
}

static void send_bytes(const void *bytes, size_t size, const int *fd, unsigned int fds)
{
	union { struct cmsghdr h; uint8_t bytes[CMSG_SPACE(64 * sizeof(int))]; } control = { 0 };
	struct iovec iov = { (void *)bytes, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fds) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(fds * sizeof(int));
		control.h.cmsg_level = SOL_SOCKET;
		control.h.cmsg_type = SCM_RIGHTS;
		control.h.cmsg_len = CMSG_LEN(fds * sizeof(int));
		memcpy(CMSG_DATA(&control.h), fd, fds * sizeof(int));
	}
	/* A full socket is emptied by the part under test. */
	for (int i = 0; sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0; i++) {
		assert_int_equal(errno, EAGAIN);
		assert_true(i < 10);
		pump();
	}
}

static uint8_t message[16384];

static size_t build(uint16_t id, unsigned int command, uint32_t flags, const void *body,
		    size_t len)
{
	struct header h = { .id = id, .command = command, .size = sizeof(h) + len,
			    .flags = flags };

	memcpy(message, &h, sizeof(h));
	if (len)
		memcpy(message + sizeof(h), body, len);
	return h.size;
}

static void post(unsigned int command, uint32_t flags, const void *body, size_t len,
		 const int *fd, unsigned int fds)
{
	send_bytes(message, build(7, command, flags, body, len), fd, fds);
}

static uint8_t answer[8192];

/* Read a reply: the length of its body, or its -errno. */
static int read_reply(uint16_t id, unsigned int command)
{
	struct header h;

	assert_int_equal(recv(sock, &h, sizeof(h), MSG_DONTWAIT), sizeof(h));
	assert_int_equal(h.id, id);
	assert_int_equal(h.command, command);
	assert_int_equal(h.flags & 0xf, 1);
	assert_true(h.size >= sizeof(h) && h.size - sizeof(h) <= sizeof(answer));
	if (h.flags & IS_ERROR) {
		/* An error has no body. */
		assert_int_equal(h.size, sizeof(h));
		assert_true(h.error);
		return -(int)h.error;
	}
	if (h.size > sizeof(h))
		assert_int_equal(recv(sock, answer, h.size - sizeof(h), MSG_DONTWAIT),
				 h.size - sizeof(h));
	return h.size - sizeof(h);
}

static bool nothing_to_read(void)
{
	char c;

	return recv(sock, &c, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

static int ask_fds(unsigned int command, const void *body, size_t len, const int *fd,
		   unsigned int fds)
{
	int ret;

	post(command, 0, body, len, fd, fds);
	pump();
	ret = read_reply(7, command);
	assert_true(nothing_to_read());
	return ret;
}

static int ask(unsigned int command, const void *body, size_t len)
{
	return ask_fds(command, body, len, NULL, 0);
}

static int ask_version(const char *json)
{
	char body[512] = { 0 };

	strcpy(body + 4, json);
	return ask(VERSION, body, 4 + strlen(json) + 1);
}

/* ---------------------------------------------------------------------- fixture */

static int fds_at_start;

static int connects(void **state)
{
	int pair[2];

	fds_at_start = open_fds();
	log_file = fmemopen(log_text, sizeof(log_text), "w");
	trace_to(log_file, false);
	n_accesses = resets = gone = gone_err = 0;
	memset(regions, 0, sizeof(regions));
	memset(&dma, 0, sizeof(dma));
	memset(log_text, 0, sizeof(log_text));
	loop = loop_new();
	if (!loop || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return -1;
	sock = pair[0];
	vfu = vfu_new(loop, &dma, &ops, NULL, pair[1]);
	return !vfu;
}

static int negotiates(void **state)
{
	int ret = connects(state);

	return ret ? ret : ask_version("{\"capabilities\":{}}") < 0;
}

/* Whatever happened: no descriptor is left, no memory mapped. */
static int disconnects(void **state)
{
	close(sock);
	if (!gone) {
		pump();
		assert_int_equal(gone_err, 0);
	}
	assert_int_equal(gone, 1);
	assert_int_equal(dma.count, 0);
	vfu_free(vfu);
	loop_free(loop);
	trace_to(stderr, false);
	fclose(log_file);
	assert_int_equal(open_fds(), fds_at_start);
	return 0;
}

/* The connection is closed because of what was sent, and the log says why. */
static void assert_broken(const char *why)
{
	char c;

	pump();
	assert_int_equal(gone, 1);
	assert_int_not_equal(gone_err, 0);
	/* The end, or a reset if something was not even read. */
	assert_true(recv(sock, &c, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET);
	fflush(log_file);
	assert_non_null(strstr(log_text, why));
}

#define CONNECTED(name) cmocka_unit_test_setup_teardown(name, connects, disconnects)
#define NEGOTIATED(name) cmocka_unit_test_setup_teardown(name, negotiates, disconnects)

#endif
