// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Requester and responder against each other: with every single packet lost, doubled or late
 * once, with absent pages, and at random.
 *
 * Memory and completions are compared with what the work requests mean.
 */
#include "transport_fakes.h"

static int chosen;

static int lose_chosen(struct packet *p, int n)
{
	return n == chosen;
}

static int double_chosen(struct packet *p, int n)
{
	return n == chosen ? 2 : 0;
}

static int reorder_chosen(struct packet *p, int n)
{
	return n == chosen ? 3 : 0;
}

/* Lost from the chosen one on, four of them. */
static int lose_four(struct packet *p, int n)
{
	return n >= chosen && n < chosen + 4;
}

#define SCENE_DONES 15

/* Each opcode once, with its data and completions known. */
static void play_scene(enum qp_service service, int (*fate)(struct packet *p, int n))
{
	uint64_t counter = htole64(1000), result;
	unsigned int sends = 0, recvs = 0;

	world_new(service, service == QP_XRC_INI ? QP_XRC_TGT :
		  service == QP_DCI ? QP_DCT : service, 0xfffff0);
	if (service == QP_XRC_INI) {
		fake_srq = (struct srq) { .number = 0x99, .xrc = true, .pd = FAKE_PD + 1 };
		qps[1].pd = 0;
	}
	fake_link.fate = fate;
	memcpy(memory[1] + 0x3000, &counter, 8);
	for (int i = 0; i < 4; i++)
		post_recv(1, 0x8000 + i * 0x1000, 3000);
	post(0, MLX5_OPCODE_SEND, 0, 0, 700)->srqn = 0x99;
	post(0, MLX5_OPCODE_RDMA_WRITE, 0x1000, 0x1000, 3000)->srqn = 0x99;
	post(0, MLX5_OPCODE_RDMA_READ, 0x20000, 0x20000, 2000)->srqn = 0x99;
	post(0, MLX5_OPCODE_SEND_IMM, 0x100, 0, 1)->srqn = 0x99;
	post(0, MLX5_OPCODE_ATOMIC_FA, 0x30000, 0x3000, 8)->swap_add = 5;
	sq[0][4].srqn = 0x99;
	post(0, MLX5_OPCODE_RDMA_READ, 0x21000, 0x21000, 0)->srqn = 0x99;
	post(0, MLX5_OPCODE_SEND_INVAL, 0x200, 0, 256)->srqn = 0x99;
	post(0, MLX5_OPCODE_RDMA_WRITE_IMM, 0x2000, 0x2000, 1000)->srqn = 0x99;
	post(0, MLX5_OPCODE_ATOMIC_CS, 0x30008, 0x3000, 8)->compare = 1005;
	sq[0][8].srqn = 0x99;
	sq[0][8].swap_add = 77;
	post(0, MLX5_OPCODE_UMR, 0, 0, 0);
	post(0, MLX5_OPCODE_RDMA_READ, 0x22000, 0x22000, 1)->srqn = 0x99;
	world_run_until(SCENE_DONES);
	for (unsigned int i = 0; i < dones; i++) {
		assert_int_equal(0, done[i].syndrome);
		assert_int_equal(done[i].recv ? recvs++ : sends++, done[i].index);
	}
	assert_int_equal(4, recvs);
	assert_memory_equal(memory[0], memory[1] + 0x8000, 700);
	assert_memory_equal(memory[0] + 0x1000, memory[1] + 0x1000, 2000 + 3000 - 2000);
	assert_memory_equal(memory[0] + 0x100, memory[1] + 0x9000, 1);
	assert_memory_equal(memory[0] + 0x200, memory[1] + 0xa000, 256);
	assert_memory_equal(memory[0] + 0x2000, memory[1] + 0x2000, 1000);
	assert_memory_equal(memory[1] + 0x20000, memory[0] + 0x20000, 2000);
	assert_int_equal(memory[1][0x22000], memory[0][0x22000]);
	memcpy(&result, memory[0] + 0x30000, 8);
	assert_int_equal(1000, le64toh(result));
	memcpy(&result, memory[0] + 0x30008, 8);
	assert_int_equal(1005, le64toh(result));
	memcpy(&result, memory[1] + 0x3000, 8);
	assert_int_equal(77, le64toh(result));
	assert_int_equal(0x0, invalidated);
}

static void the_scene_with_any_packet(enum qp_service service,
				      int (*fate)(struct packet *p, int n))
{
	int packets;

	chosen = -100;
	play_scene(service, fate);
	packets = fake_link.sent;
	world_end();
	assert_in_range(packets, 40, 100);
	for (chosen = 0; chosen < packets + 10; chosen++) {
		play_scene(service, fate);
		world_end();
	}
}

static void any_one_packet_may_be_lost(void **state)
{
	the_scene_with_any_packet(QP_RC, lose_chosen);
	the_scene_with_any_packet(QP_XRC_INI, lose_chosen);
	the_scene_with_any_packet(QP_DCI, lose_chosen);
}

static void any_four_packets_may_be_lost(void **state)
{
	the_scene_with_any_packet(QP_RC, lose_four);
	the_scene_with_any_packet(QP_DCI, lose_four);
}

static void any_packet_may_come_twice(void **state)
{
	the_scene_with_any_packet(QP_RC, double_chosen);
	the_scene_with_any_packet(QP_DCI, double_chosen);
}

static void any_packet_may_be_late(void **state)
{
	the_scene_with_any_packet(QP_RC, reorder_chosen);
	the_scene_with_any_packet(QP_DCI, reorder_chosen);
}

static void receives_may_be_posted_late(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	for (int i = 0; i < 3; i++)
		post(0, MLX5_OPCODE_SEND, i * 300, 0, 300);
	for (int i = 0; i < 3; i++) {
		world_run();
		world_wait();
		post_recv(1, 0x8000 + i * 300, 300);
	}
	world_run_until(6);
	assert_memory_equal(memory[0], memory[1] + 0x8000, 900);
	world_end();
}

/* UC: a message arrives as a whole or has no completion. */
static void uc_loses_whole_messages(void **state)
{
	for (chosen = 0; chosen < 9; chosen++) {
		world_new(QP_UC, QP_UC, 0xffffff);
		fake_link.fate = lose_chosen;
		for (int i = 0; i < 3; i++) {
			post_recv(1, 0x8000 + i * 0x1000, 1000);
			post(0, MLX5_OPCODE_SEND, i * 0x1000, 0, 600);
		}
		world_run();
		assert_int_equal(5, dones);
		for (int i = 0, k = 0; i < 3; i++) {
			if (i == chosen / 3)
				continue;
			assert_memory_equal(memory[0] + i * 0x1000, memory[1] + 0x8000 + k * 0x1000,
					    600);
			k++;
		}
		world_end();
	}
}

/* All pages are absent at first, at both ends. */
static void all_pages_may_fault_at_both_ends(void **state)
{
	chosen = -100;
	for (int round = 0; round < 6; round++) {
		uint32_t local = 0x10000, remote = 0x18000;
		int side = round % 3;
		bool dc = round / 3;

		world_new(dc ? QP_DCI : QP_RC, dc ? QP_DCT : QP_RC, 10);
		for (int i = 0; i < FAKE_MEMORY / FAKE_PAGE; i++) {
			fake_mkeys[0].absent[i] = side != 1;
			fake_mkeys[1].absent[i] = side != 0;
		}
		post_recv(1, 0x8000, 5000);
		post(0, MLX5_OPCODE_RDMA_WRITE, local, remote, 5000);
		post(0, MLX5_OPCODE_RDMA_READ, local + 0x8000, remote + 0x8000, 5000);
		post(0, MLX5_OPCODE_SEND, local, 0, 5000);
		post(0, MLX5_OPCODE_ATOMIC_FA, 0x3000, 0x3000, 8)->swap_add = 1;
		post(0, MLX5_OPCODE_RDMA_READ, local + 0x10000, remote + 0x10000, 5000);
		world_run_until(6);
		for (unsigned int i = 0; i < dones; i++)
			assert_int_equal(0, done[i].syndrome);
		assert_memory_equal(memory[0] + local, memory[1] + remote, 5000);
		assert_memory_equal(memory[0] + local, memory[1] + 0x8000, 5000);
		assert_memory_equal(memory[0] + local + 0x8000, memory[1] + remote + 0x8000, 5000);
		assert_memory_equal(memory[0] + local + 0x10000, memory[1] + remote + 0x10000,
				    5000);
		world_end();
	}
}

/* ---- at random ---- */

#define ROUND_WQES 24
#define SLOT 0x1000
#define COUNTER 0x3f000

static uint64_t seed;
static unsigned int loss;	/* of 256 packets */

static uint32_t dice(uint32_t sides)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed >> 16) % sides;
}

static int at_random(struct packet *p, int n)
{
	uint32_t roll = dice(256);

	return roll < loss ? 1 : roll < 2 * loss ? 2 : roll < 3 * loss ? 3 : 0;
}

static bool one_of_two(void)
{
	return dice(2);
}

/*
 * Each WQE has a slot of its own at each end, so what memory has to be at the end does not
 * depend on the order in which the memory system sees overlapping ones.  Slots 0 to 23 are
 * written at the far end, 24 to 47 are read from, own ones likewise.
 */
static u8 model[2][FAKE_MEMORY];
static unsigned int fetch_adds[2];	/* at each end */

static void post_random(int end, int i, unsigned int *recvs)
{
	static const u8 op[] = {
		MLX5_OPCODE_SEND, MLX5_OPCODE_SEND_IMM, MLX5_OPCODE_SEND_INVAL,
		MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_WRITE_IMM, MLX5_OPCODE_RDMA_READ,
		MLX5_OPCODE_RDMA_READ, MLX5_OPCODE_ATOMIC_FA, MLX5_OPCODE_NOP, MLX5_OPCODE_UMR,
	};
	u8 opcode = op[dice(sizeof(op))];
	uint32_t len = dice(4) ? dice(SLOT) : dice(3) * 256, at = dice(SLOT - len + 1);
	uint32_t in = i * SLOT + at, out = (24 + i) * SLOT + at;
	struct wqe *w;

	if (opcode == MLX5_OPCODE_ATOMIC_FA) {
		uint64_t n = htole64(fetch_adds[!end]++);

		in = i * SLOT;
		w = post(end, opcode, in, COUNTER, 8);
		w->swap_add = 1;
		memcpy(model[end] + in, &n, 8);
	} else if (opcode == MLX5_OPCODE_RDMA_READ) {
		w = post(end, opcode, in, out, len);
		memcpy(model[end] + in, model[!end] + out, len);
	} else if (opcode == MLX5_OPCODE_NOP || opcode == MLX5_OPCODE_UMR) {
		w = post(end, opcode, 0, 0, 0);
	} else {
		w = post(end, opcode, out, in, len);
		memcpy(model[!end] + in, model[end] + out, len);
	}
	w->imm = 0x1000 + i;
	if (dice(8) == 0)
		w->fence = dice(5) << 5;
	if (opcode == MLX5_OPCODE_SEND || opcode == MLX5_OPCODE_SEND_IMM ||
	    opcode == MLX5_OPCODE_SEND_INVAL) {
		post_recv(!end, in, len + dice(2) * 10);
		++*recvs;
	} else if (opcode == MLX5_OPCODE_RDMA_WRITE_IMM) {
		post_recv(!end, 0, 0);
		++*recvs;
	}
}

static void random_round(uint64_t with_seed)
{
	unsigned int recvs[2] = {}, sends[2] = {}, got[2] = {};
	bool both, dc;

	seed = with_seed * 0x9e3779b97f4a7c15 + 1;
	dc = !dice(3);
	world_new(dc ? QP_DCI : QP_RC, dc ? QP_DCT : QP_RC,
		  dice(2) ? 0xffffff - dice(300) : dice(1 << 24));
	both = !dc && dice(2);
	loss = dice(4) * 5;
	fake_link.fate = at_random;
	packet_first = one_of_two;
	fake_link.limit = dice(4) ? 4096 : 3 + dice(20);
	qps[0].max_reads = qps[1].max_reads = 1 + dice(16);
	qps[0].mtu = qps[1].mtu = 256 << dice(3);
	fetch_adds[0] = fetch_adds[1] = 0;
	for (int end = 0; end < 2; end++) {
		for (int i = 0; i < FAKE_MEMORY; i++)
			memory[end][i] = seed >> (i % 40) ^ i ^ i >> 8;
		memset(memory[end] + COUNTER, 0, 8);
		memcpy(model[end], memory[end], FAKE_MEMORY);
		if (!dice(4))
			for (int i = 0; i < FAKE_MEMORY / FAKE_PAGE; i++)
				fake_mkeys[end].absent[i] = !dice(3);
	}
	for (int i = 0; i < ROUND_WQES; i++) {
		int end = both ? dice(2) : 0;

		post_random(end, i, &recvs[!end]);
		if (!dice(3))
			for (int k = dice(30); k; k--)
				world_step();
	}
	world_run_until(ROUND_WQES + recvs[0] + recvs[1]);
	for (unsigned int i = 0; i < dones; i++) {
		const struct done *d = &done[i];
		int end = end_of(d->qp);

		assert_int_equal(0, d->syndrome);
		assert_int_equal(d->recv ? got[end]++ : sends[end]++, d->index);
	}
	for (int end = 0; end < 2; end++) {
		uint64_t counter = htole64(fetch_adds[end]);

		assert_int_equal(qps[end].req.producer, sends[end]);
		assert_int_equal(recvs[end], got[end]);
		memcpy(model[end] + COUNTER, &counter, 8);
	}
	assert_memory_equal(model[0], memory[0], FAKE_MEMORY);
	assert_memory_equal(model[1], memory[1], FAKE_MEMORY);
	/* What is on the wire or waits for a timer does no harm afterwards. */
	for (int i = 0; i < 20; i++) {
		world_run();
		world_wait();
	}
	assert_int_equal(ROUND_WQES + recvs[0] + recvs[1], dones);
	assert_int_equal(QPS_RTS, qps[0].state);
	assert_int_equal(dc ? QPS_RTR : QPS_RTS, qps[1].state);
	world_end();
}

/* ROUNDS and SEED in the environment repeat or extend what is run. */
static void data_and_order_survive_any_network(void **state)
{
	const char *rounds = getenv("ROUNDS"), *first = getenv("SEED");
	uint64_t begin = first ? strtoull(first, NULL, 0) : 1;

	for (uint64_t i = begin; i < begin + (rounds ? strtoull(rounds, NULL, 0) : 300); i++) {
		if (getenv("SHOW"))
			print_message("seed %llu\n", (unsigned long long)i);
		random_round(i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_one_packet_may_be_lost),
		cmocka_unit_test(any_four_packets_may_be_lost),
		cmocka_unit_test(any_packet_may_come_twice),
		cmocka_unit_test(any_packet_may_be_late),
		cmocka_unit_test(receives_may_be_posted_late),
		cmocka_unit_test(uc_loses_whole_messages),
		cmocka_unit_test(all_pages_may_fault_at_both_ends),
		cmocka_unit_test(data_and_order_survive_any_network),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
