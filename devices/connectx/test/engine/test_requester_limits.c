// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* What the requester waits for before it sends more: the window, reads, packets, memory. */
#include "requester_steps.h"

static void window_limits_unacked_packets(void **state)
{
	struct packet *p;

	world_new(QP_RC, QP_RC, 10);
	post(0, MLX5_OPCODE_RDMA_WRITE, 0, 0, 300 * 256);
	work_only();
	assert_int_equal(QP_WINDOW, fake_link.sent);
	for (int i = 0, asked = 0; i < QP_WINDOW; i++) {
		p = list_item(fake_link.wire.next, struct packet, entry);
		list_del(&p->entry);
		asked += p->ack_request;
		assert_memory_equal(memory[0] + i * 256, p->payload, 256);
		link_packet_free(&fake_link, p);
		assert_true(i < QP_WINDOW - 1 || asked >= 3);
	}
	ack(10 + 31);
	work_only();
	assert_int_equal(QP_WINDOW + 32, fake_link.sent);
	world_end();
}

static void empty_pool_delays_sends(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	fake_link.limit = 1;
	post(0, MLX5_OPCODE_SEND, 0, 0, 300);
	post(0, MLX5_OPCODE_RDMA_READ, 0, 0, 1);
	expect("SEND_FIRST 10:256-");
	expect("SEND_LAST 11:44");
	expect("READ 12+0:1");
	world_end();
}

/* Nothing was sent since it went back, so nothing can have been lost. */
static void empty_pool_costs_no_retry(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	expect("SEND_ONLY 10:1");
	fake_link.limit = 0;
	for (unsigned int i = 0; i < 2 * qps[0].retry_count + 2; i++) {
		assert_true(world_wait());
		expect("");
	}
	assert_int_equal(qps[0].retry_count - 1, qps[0].req.retries);
	fake_link.limit = 1;
	link_packet_free(&fake_link, link_packet(&fake_link));
	expect("SEND_ONLY 10:1");
	ack(10);
	expect("#0:1");
	world_end();
}

static void send_without_memory_is_tried_again(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	allocation_limit = -1;
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	expect("");
	allocation_limit = 1;
	assert_true(world_wait());
	post(0, MLX5_OPCODE_SEND, 0, 0, 2);
	expect("SEND_ONLY 10:1");
	ack(10);
	expect("SEND_ONLY 11:2, #0:1");
	world_end();
}

/* Others took all that is for work requests: each queue goes on, and registration too. */
static void memory_limit_lets_one_wqe_go_at_a_time(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	allocation_limit = 0;
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	post(0, MLX5_OPCODE_SEND, 0, 0, 2);
	expect("SEND_ONLY 10:1");
	ack(10);
	expect("SEND_ONLY 11:2, #0:1");
	world_end();

	world_new(QP_REG_UMR, QP_REG_UMR, 10);
	allocation_limit = 0;
	post(0, MLX5_OPCODE_UMR, 0, 0, 0);
	post(0, MLX5_OPCODE_UMR, 0, 0, 0);
	expect("#0:0, #1:0");
	world_end();
}

/* It has had its time with each packet: one in a turn, and all in the end. */
static void long_turn_ends_after_one_packet(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	fake_loop.turn_over = true;
	post(0, MLX5_OPCODE_SEND, 0, 0, 300);
	post(0, MLX5_OPCODE_RDMA_READ, 0, 0, 1);
	assert_true(world_step());
	assert_int_equal(1, fake_link.sent);
	expect("SEND_FIRST 10:256-, SEND_LAST 11:44, READ 12+0:1");
	world_end();
}

static void reads_in_flight_are_limited(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	qps[0].max_reads = 2;
	for (int i = 0; i < 3; i++)
		post(0, MLX5_OPCODE_RDMA_READ, 0, 0, 8);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	expect("READ 10+0:8, READ 11+0:8");
	respond(IB_READ_RESP_ONLY, 10, AETH_ACK, 8, 0);
	expect("READ 12+0:8, SEND_ONLY 13:1, #0:8");
	world_end();
}

/* 2^30 bytes at the least MTU are 2^22 PSNs, a quarter: nothing else is in flight then. */
static void longest_read_is_alone_in_flight(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	post(0, MLX5_OPCODE_RDMA_READ, 0, 0, MESSAGE_MAX);
	post(0, MLX5_OPCODE_SEND, 0, 0, 2);
	expect("SEND_ONLY 10:1");
	ack(10);
	expect("READ 11+0:1073741824, #0:1");
	respond(IB_READ_RESP_FIRST, 11, AETH_ACK, 256, 0);
	respond(IB_READ_RESP_MIDDLE, 12, 0, 256, 0);
	expect("");
	assert_true(world_wait());
	expect("READ 13+200:1073741312");
	world_end();
}

static void read_response(uint32_t psn)
{
	respond(IB_READ_RESP_ONLY, psn, AETH_ACK, 8, 0);
}

/* The page of a response does not come; the send behind the read finds its own. */
static void failed_fault_of_a_response_fails_the_read(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	fake_mkeys[0].absent[1] = true;
	post(0, MLX5_OPCODE_RDMA_READ, FAKE_PAGE, 0, 8);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	expect("READ 10+0:8, SEND_ONLY 11:1");
	read_response(10);
	resolve(FAULT_REQUESTER, true);
	expect("READ 10+0:8, SEND_ONLY 11:1");
	read_response(10);
	expect("#0=4, #1=5");
	assert_int_equal(1, faults[FAULT_REQUESTER].count);
	world_end();
}

/* The page of a send does not come; that of the response before it may. */
static void failed_fault_of_a_send_fails_no_read(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	fake_mkeys[0].absent[2] = true;
	post(0, MLX5_OPCODE_RDMA_READ, FAKE_PAGE, 0, 8);
	post(0, MLX5_OPCODE_SEND, 2 * FAKE_PAGE, 0, 1);
	expect("READ 10+0:8");
	fake_mkeys[0].absent[1] = true;
	read_response(10);
	assert_int_equal(1, faults[FAULT_REQUESTER].count);
	resolve(FAULT_REQUESTER, true);
	expect("READ 10+0:8");
	read_response(10);
	assert_int_equal(2, faults[FAULT_REQUESTER].count);
	resolve(FAULT_REQUESTER, false);
	expect("READ 10+0:8");
	read_response(10);
	expect("#0:8, #1=4");
	world_end();
}

/* What was sent before a page fault has its whole time again after it. */
static void page_fault_costs_no_retry(void **state)
{
	world_new(QP_RC, QP_RC, 10);
	post(0, MLX5_OPCODE_SEND, 0, 0, 1);
	expect("SEND_ONLY 10:1");
	fake_mkeys[0].absent[1] = true;
	post(0, MLX5_OPCODE_SEND, FAKE_PAGE, 0, 1);
	expect("");
	fake_loop.now = qps[0].req.deadline - 1;
	resolve(FAULT_REQUESTER, false);
	expect("SEND_ONLY 11:1");
	assert_true(qps[0].req.deadline > fake_loop.now + 1);
	world_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(window_limits_unacked_packets),
		cmocka_unit_test(empty_pool_delays_sends),
		cmocka_unit_test(empty_pool_costs_no_retry),
		cmocka_unit_test(send_without_memory_is_tried_again),
		cmocka_unit_test(memory_limit_lets_one_wqe_go_at_a_time),
		cmocka_unit_test(long_turn_ends_after_one_packet),
		cmocka_unit_test(reads_in_flight_are_limited),
		cmocka_unit_test(longest_read_is_alone_in_flight),
		cmocka_unit_test(failed_fault_of_a_response_fails_the_read),
		cmocka_unit_test(failed_fault_of_a_send_fails_no_read),
		cmocka_unit_test(page_fault_costs_no_retry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
