// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * How long the model makes the guest's CPUs wait while a process gives it work.
 *
 * It is the CPU time between two looks at a descriptor, such as the socket to QEMU.
 */
#include "loopback_guest.h"
#include "mkey.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define LIST 65536u		/* entries of one byte each */
#define PAIRS 4
#define READS 16		/* by each of them */
#define LIMIT_MS 50		/* an access takes a few, and each part of a turn two and a tick */

static uint64_t looked, longest;

static int up(void **state)
{
	model_up();
	return 0;
}

static int down(void **state)
{
	model_down();
	return 0;
}

static void look(void *arg, uint32_t events)
{
	struct timespec ts;
	uint64_t now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
	if (looked && now - looked > longest)
		longest = now - looked;
	looked = now;
}

/* A list of single bytes, in reverse, of another key. */
static uint32_t bytes_of(uint32_t key)
{
	void *mkc = IFC_PTR(create_mkey_in, in, memory_key_mkey_entry);
	uint32_t list;
	u8 *entry;

	IFC_SET(mkc, mkc, access_mode_1_0, MLX5_MKC_ACCESS_MODE_KLMS);
	IFC_SET(mkc, mkc, lr, 1);
	IFC_SET(mkc, mkc, rr, 1);
	IFC_SET(mkc, mkc, qpn, 0xffffff);
	IFC_SET(mkc, mkc, pd, pd);
	IFC_SET64(mkc, mkc, len, LIST);
	IFC_SET(mkc, mkc, translations_octword_size, LIST);
	COMMAND(CREATE_MKEY, create_mkey, 0);
	list = IFC_GET(create_mkey_out, out, mkey_index);
	entry = mkey_get(hca, list)->translation;
	for (uint32_t i = 0; i < LIST; i++, entry += 16) {
		put_be32(entry, 1);
		put_be32(entry + 4, key);
		put_be64(entry + 8, LIST - 1 - i);
	}
	return list << 8;
}

static void long_accesses_keep_nobody_waiting(void **state)
{
	int event = eventfd(1, EFD_NONBLOCK);
	unsigned int done = 0;
	uint32_t key = mkey;
	const u8 *cqe;

	for (int level = 0; level < MKEY_DEPTH - 1; level++)
		key = bytes_of(key);
	assert_int_equal(loop_watch(loop, event, EPOLLIN, look, NULL), 0);
	ack_timeout = 0;		/* with sanitizers and on a busy host it takes long */
	for (int pair = 0; pair < PAIRS; pair++) {
		for (int end = 0; end < 2; end++)
			make_qp(end, MLX5_QPC_ST_RC);
		for (int end = 0; end < 2; end++)
			connect_qp(end);
		for (int i = 0; i < READS; i++)
			post_rdma(0, i, MLX5_OPCODE_RDMA_READ, key, DATA_SIZE, 0, LIST);
	}
	looked = longest = 0;
	while (done < PAIRS * READS) {
		run_turns(1);
		for (; (cqe = next_cqe()); done++)
			assert_int_equal(cqe[63] >> 4, MLX5_CQE_REQ);
	}
	/* Each level turned the bytes round. */
	assert_memory_equal(memory + DATA + DATA_SIZE, memory + DATA, LIST);
	print_message("  at most %llu ms\n", (unsigned long long)longest / 1000000);
	assert_in_range(longest / 1000000, 0, LIMIT_MS);
	loop_unwatch(loop, event);
	close(event);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(long_accesses_keep_nobody_waiting, up, down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
