// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* The whole model, with packets that come back to it: what no single part can show. */
#include "loopback_guest.h"
#include "clock.h"
#include "mkey.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

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

static void two_qps(unsigned int st)
{
	for (int end = 0; end < 2; end++)
		make_qp(end, st);
	for (int end = 0; end < 2; end++)
		connect_qp(end);
}

static void expect_cqe(u8 opcode, uint32_t qp, u8 syndrome)
{
	const u8 *cqe = next_cqe();

	assert_non_null(cqe);
	assert_int_equal(cqe[63] >> 4, opcode);
	assert_int_equal(be32_at(cqe + 56) & 0xffffff, qp);
	if (syndrome)
		assert_int_equal(cqe[offsetof(struct mlx5_err_cqe, syndrome)], syndrome);
}

static void post_ud(int end, uint16_t at, uint32_t dqpn, uint16_t lid, uint32_t len)
{
	u8 *p = put_av(send_block(end, at) + 16, dqpn, lid);

	if (lid != LID) {		/* to a group: with a GRH */
		put_be32(p - 20, BIT(30));
		memset(p - 16, 0xff, 16);
	}
	ring(end, at, put_data(p, len, 0), MLX5_OPCODE_SEND, 0);
}

/* How many packets nobody holds. */
static unsigned int free_packets(void)
{
	static struct packet *p[LINK_PACKETS];
	unsigned int n = 0;

	while ((p[n] = link_packet(hca->link)))
		n++;
	for (unsigned int i = 0; i < n; i++)
		link_packet_free(hca->link, p[i]);
	return n;
}

/* The application sees the bytes that it gave; without immediate data nothing leaks. */
static void immediate_data_keeps_its_bytes(void **state)
{
	static const u8 imm[4] = { 0x12, 0x34, 0x56, 0x78 };
	static const u8 ops[] = { MLX5_OPCODE_SEND_IMM, MLX5_OPCODE_SEND };

	two_qps(MLX5_QPC_ST_RC);
	for (int i = 0; i < 2; i++) {
		const u8 *cqe, *recv = NULL;

		post_recv(1, i, 100, DATA_SIZE);
		ring(0, i, put_data(send_block(0, i) + 16, 100, 0), ops[i], 0x12345678);
		run_turns(50);
		while ((cqe = next_cqe()))
			if (cqe[63] >> 4 != MLX5_CQE_REQ)
				recv = cqe;
		assert_non_null(recv);
		if (i)
			assert_int_equal(be32_at(recv + 36), 0);
		else
			assert_memory_equal(recv + 36, imm, 4);
		assert_int_equal(be16_at(recv + offsetof(struct mlx5_cqe64, slid)), LID);
	}
	assert_int_equal(hca->port.count.out[0].packets, 4);	/* two requests, two answers */
	assert_int_equal(hca->port.count.in[0].packets, 4);
	/* With all headers and the ICRC, and without the VCRC. */
	assert_int_equal(hca->port.count.out[0].octets, 2 * 124 + 4 + 2 * 28);
	assert_int_equal(hca->port.count.in[0].octets, hca->port.count.out[0].octets);
}

/* Inline data is sent from the copy of the WQE, whatever the guest does with the queue. */
static void inline_data_arrives(void **state)
{
	static const char text[] = "forty bytes of text that are in the WQE";
	u8 *p;

	two_qps(MLX5_QPC_ST_RC);
	post_recv(1, 0, 100, DATA_SIZE);
	p = send_block(0, 0) + 16;
	put_be32(p, sizeof(text) | MLX5_INLINE_SEG);
	memcpy(p + 4, text, sizeof(text));
	ring(0, 0, p + 48, MLX5_OPCODE_SEND, 0);
	run_turns(50);
	assert_memory_equal(memory + DATA + DATA_SIZE, text, sizeof(text));
}

/* IBA 10.3.1: the send queue is in error, receives go on, and SQERR2RTS ends it. */
static void sqerr2rts_ends_a_ud_send_error(void **state)
{
	two_qps(MLX5_QPC_ST_UD);
	post_recv(0, 0, 200, DATA_SIZE);
	post_recv(1, 0, 200, DATA_SIZE);
	mkey ^= 0x55;
	post_ud(0, 0, qpn[1], LID, 100);
	mkey ^= 0x55;
	post_ud(0, 2, qpn[1], LID, 100);
	run_turns(50);
	expect_cqe(MLX5_CQE_REQ_ERR, qpn[0], MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	expect_cqe(MLX5_CQE_REQ_ERR, qpn[0], MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	post_ud(1, 0, qpn[0], LID, 100);
	run_turns(50);
	expect_cqe(MLX5_CQE_REQ, qpn[1], 0);
	expect_cqe(MLX5_CQE_RESP_SEND, qpn[0], 0);
	post_ud(0, 4, qpn[1], LID, 100);
	run_turns(50);
	expect_cqe(MLX5_CQE_REQ_ERR, qpn[0], MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	IFC_SET(rst2init_qp_in, in, qpn, qpn[0]);
	command(MLX5_CMD_OP_SQERR2RTS_QP, IFC_BYTES(rst2init_qp_in), IFC_BYTES(rst2init_qp_out));
	post_ud(0, 6, qpn[1], LID, 100);
	run_turns(50);
	expect_cqe(MLX5_CQE_REQ, qpn[0], 0);
	expect_cqe(MLX5_CQE_RESP_SEND, qpn[1], 0);
	assert_null(next_cqe());
}

static void post_send(int end, uint16_t at)
{
	ring(end, at, put_data(send_block(end, at) + 16, 100, 0), MLX5_OPCODE_SEND, 0);
}

/* Such as one for an earlier QP of that number: the first message has its PSN still. */
static void nak_before_the_first_send_is_ignored(void **state)
{
	struct packet *p = link_packet(hca->link);

	first_psn = 1000;
	two_qps(MLX5_QPC_ST_RC);
	first_psn = 0;
	p->opcode = IB_ACK;
	p->dlid = p->slid = LID;
	p->pkey = 0xffff;
	p->dqpn = qpn[0];
	p->psn = 500;
	p->syndrome = AETH_NAK | NAK_SEQUENCE;
	link_send(hca->link, p);
	run_turns(10);
	post_recv(1, 0, 100, DATA_SIZE);
	post_send(0, 0);
	run_turns(50);
	expect_cqe(MLX5_CQE_RESP_SEND, qpn[1], 0);
	expect_cqe(MLX5_CQE_REQ, qpn[0], 0);
	assert_null(next_cqe());
}

/* The sender has an error; the receiver has nothing, and goes on. */
static void rnr_error_completes_at_the_sender_only(void **state)
{
	rnr_retry = 0;
	two_qps(MLX5_QPC_ST_RC);
	rnr_retry = 7;
	post_recv(1, 0, 100, DATA_SIZE);
	for (int i = 0; i < 3; i++)
		post_send(0, i);
	run_turns(50);
	expect_cqe(MLX5_CQE_RESP_SEND, qpn[1], 0);
	expect_cqe(MLX5_CQE_REQ, qpn[0], 0);
	expect_cqe(MLX5_CQE_REQ_ERR, qpn[0], MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
	expect_cqe(MLX5_CQE_REQ_ERR, qpn[0], MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	assert_null(next_cqe());
	IFC_SET(query_qp_in, in, qpn, qpn[1]);
	COMMAND(QUERY_QP, query_qp, 0);
	assert_int_equal(IFC_GET(query_qp_out, out, qpc.state), MLX5_QPC_STATE_RTS);
}

/* A UMR of a key that does not permit one: an error of this end alone. */
static void refused_bind_fails_the_sender_only(void **state)
{
	u8 *p;

	two_qps(MLX5_QPC_ST_RC);
	post_recv(1, 0, 100, DATA_SIZE);
	post_send(0, 0);
	p = send_block(0, 1) + 16;
	memset(p, 0, 112);
	p[0] = MLX5_WQE_UMR_CTRL_FLAG_INLINE;
	ring(0, 1, p + 112, MLX5_OPCODE_UMR, mkey);
	post_send(0, 3);
	run_turns(50);
	expect_cqe(MLX5_CQE_RESP_SEND, qpn[1], 0);
	expect_cqe(MLX5_CQE_REQ, qpn[0], 0);
	expect_cqe(MLX5_CQE_REQ_ERR, qpn[0], MLX5_CQE_SYNDROME_MW_BIND_ERR);
	expect_cqe(MLX5_CQE_REQ_ERR, qpn[0], MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	assert_null(next_cqe());
}

/* Each QP of the group gets one copy, the sender too; a unicast LID reaches no group. */
static void multicast_comes_back_once(void **state)
{
	unsigned int sends = 0, got[2] = { 0 };
	const u8 *cqe;

	two_qps(MLX5_QPC_ST_UD);
	for (int end = 0; end < 2; end++) {
		IFC_SET(attach_to_mcg_in, in, qpn, qpn[end]);
		memset(IFC_PTR(attach_to_mcg_in, in, multicast_gid), 0xff, 16);
		COMMAND(ATTACH_TO_MCG, attach_to_mcg, 0);
		for (int i = 0; i < 4; i++)
			post_recv(end, i, 200, DATA_SIZE);
	}
	post_ud(0, 0, 0xffffff, 0xc001, 100);
	post_ud(0, 2, 0xffffff, LID, 100);
	post_ud(0, 4, qpn[1], 0xc001, 100);
	run_turns(100);
	while ((cqe = next_cqe())) {
		uint32_t qp = be32_at(cqe + 56) & 0xffffff;

		if (cqe[63] >> 4 == MLX5_CQE_REQ)
			sends++;
		else
			got[qp == qpn[1]]++;
	}
	assert_int_equal(sends, 3);
	assert_int_equal(got[0], 1);
	assert_int_equal(got[1], 1);
	assert_int_equal(hca->port.count.out[0].packets, 1);
	assert_int_equal(hca->port.count.out[1].packets, 2);
	assert_int_equal(hca->port.count.in[0].packets, 1);
	assert_int_equal(hca->port.count.in[1].packets, 2);
}

/* At any time, either end goes, with packets on their way; nothing of it is left. */
static void qp_destroyed_in_traffic_leaks_no_packet(void **state)
{
	const unsigned int all = free_packets();

	for (unsigned int i = 0; i < 60; i++) {
		int end = i % 2;

		two_qps(i % 4 < 2 ? MLX5_QPC_ST_RC : MLX5_QPC_ST_UC);
		for (int k = 0; k < 8; k++) {
			u8 op = k % 2 && i % 4 < 2 ? MLX5_OPCODE_RDMA_READ :
						     MLX5_OPCODE_RDMA_WRITE;

			post_rdma(0, k, op, mkey, 0, DATA_SIZE, 100000);
		}
		run_turns(i / 4);
		destroy_qp(end);
		run_turns(20);
		destroy_qp(!end);
		run_turns(20);
		while (next_cqe())
			;
		assert_int_equal(free_packets(), all);
	}
}

/* A process whose page does not come leaves packets for the others, with any number of QPs. */
static void absent_pages_leave_packets_for_others(void **state)
{
	const unsigned int pairs = LINK_STALLED * 3 / 4, all = free_packets();
	u8 *entry = mkey_get(hca, mkey >> 8)->translation;
	uint64_t page = be64_at(entry);
	unsigned int done = 0, rounds = 0;
	const u8 *cqe;

	put_be64(entry, 0);
	for (unsigned int i = 0; i < pairs; i++) {
		two_qps(MLX5_QPC_ST_RC);
		for (int end = 0; end < 2; end++)
			post_rdma(end, 0, MLX5_OPCODE_RDMA_WRITE, mkey, DATA_SIZE, 0, 8);
		run_turns(6);
	}
	run_turns(100);
	assert_int_equal(free_packets(), all - LINK_STALLED);
	assert_null(next_cqe());
	/* And when it comes, all that was not kept is sent again. */
	put_be64(entry, page);
	while (done < 2 * pairs) {
		assert_in_range(++rounds, 0, 5000000);
		clock_move(1000);
		run_turns(5);
		while ((cqe = next_cqe())) {
			assert_int_equal(cqe[63] >> 4, MLX5_CQE_REQ);
			done++;
		}
	}
	assert_int_equal(free_packets(), all);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, up, down)

static void stats_count_umrs_sends_and_packets(void **state)
{
	const struct stats *s = &hca->stats;
	uint64_t doorbells = s->doorbells;

	IFC_SET(qpc, IFC_PTR(create_qp_in, in, qpc), rlky, 1);	/* as only the driver may */
	make_qp(0, MLX5_QPC_ST_REG_UMR);
	connect_qp(0);
	assert_int_equal(s->rows, 0);		/* its commands did not go through the queue */
	for (int i = 0; i < 2; i++)
		ring(0, i, send_block(0, i) + 16, MLX5_OPCODE_NOP, 0);
	run_turns(50);
	assert_int_equal(s->rows, 1);
	assert_string_equal(s->row[0].name, "UMR");
	assert_int_equal(s->row[0].count, 2);
	assert_int_equal(s->sends, 2);
	assert_int_equal(s->doorbells, doorbells + 2);
	destroy_qp(0);

	two_qps(MLX5_QPC_ST_RC);
	post_rdma(0, 0, MLX5_OPCODE_RDMA_WRITE, mkey, 0, DATA_SIZE, 5000);
	run_turns(50);
	assert_int_equal(s->row[0].count, 2);
	assert_int_equal(s->sends, 3);
	/* Two packets and an ack, without their VCRCs. */
	assert_int_equal(s->packets_out, 3);
	assert_int_equal(s->bytes_out, 24 + 16 + 4096 + 24 + 904 + 24 + 4);
	assert_int_equal(s->packets_in, s->packets_out);
	assert_int_equal(s->bytes_in, s->bytes_out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(immediate_data_keeps_its_bytes),
		TEST(inline_data_arrives),
		TEST(sqerr2rts_ends_a_ud_send_error),
		TEST(nak_before_the_first_send_is_ignored),
		TEST(rnr_error_completes_at_the_sender_only),
		TEST(refused_bind_fails_the_sender_only),
		TEST(multicast_comes_back_once),
		TEST(qp_destroyed_in_traffic_leaks_no_packet),
		TEST(absent_pages_leave_packets_for_others),
		TEST(stats_count_umrs_sends_and_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
