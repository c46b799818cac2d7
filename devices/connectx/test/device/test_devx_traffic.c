// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * What rdma-core's test_mlx5_devx.py and test_mlx5_mkey.py do, down to the bytes of their
 * WQEs: QPs and CQs in umems, lists of keys that a process fills by UMR, and traffic.
 */
#include "devx_guest.h"
#include "clock.h"
#include "bar.h"

#define MESSAGE 100u
#define VA 0x7f1234560000ull
#define SECOND 1000000000ull

struct side {
	struct process p;
	struct memory cq, cq_db, qp, qp_db;
	uint32_t cqn, qpn, lkey, list;
	uint64_t data;			/* one page, at VA for the device */
	uint32_t consumed, sent, received;
};

static struct side client, server;

static const struct mlx5_cqe64 *peek(const struct side *s)
{
	const u8 *cqe = memory_at(&s->cq, s->consumed % (1u << LOG_CQ) * 64);

	if (cqe[63] >> 4 == MLX5_CQE_INVALID || (cqe[63] ^ s->consumed >> LOG_CQ) & 1)
		return NULL;
	return (const void *)cqe;
}

static struct mlx5_cqe64 poll_cq(struct side *s)
{
	uint64_t until = loop_now(loop) + 5 * SECOND;
	const struct mlx5_cqe64 *cqe;

	while (!(cqe = peek(s))) {
		assert_true(loop_now(loop) < until);
		loop_run_for(loop, 100000);
	}
	put_be32(memory_at(&s->cq_db, 0), ++s->consumed & 0xffffff);
	return *cqe;
}

static u8 opcode(struct side *s)
{
	return poll_cq(s).op_own >> 4;
}

/* As ibv_reg_mr(): the driver makes the key, in the PD of the process. */
static uint32_t register_page(uint32_t pd, uint64_t page)
{
	void *mkc = IFC_PTR(create_mkey_in, in, memory_key_mkey_entry);

	memset(in, 0, 1024);
	IFC_SET(mkc, mkc, access_mode_1_0, MLX5_MKC_ACCESS_MODE_MTT);
	IFC_SET(mkc, mkc, lr, 1);
	IFC_SET(mkc, mkc, lw, 1);
	IFC_SET(mkc, mkc, pd, pd);
	IFC_SET(mkc, mkc, qpn, 0xffffff);
	IFC_SET64(mkc, mkc, start_addr, VA);
	IFC_SET64(mkc, mkc, len, HCA_PAGE);
	IFC_SET(mkc, mkc, log_page_size, 12);
	IFC_SET(mkc, mkc, translations_octword_size, 1);
	IFC_SET(create_mkey_in, in, translations_octword_actual_size, 1);
	put_be64(in + IFC_BYTES(create_mkey_in), page);
	assert_int_equal(run(0, MLX5_CMD_OP_CREATE_MKEY), CMD_OK);
	return IFC_GET(create_mkey_out, out, mkey_index) << 8;
}

static void make_side(struct side *s)
{
	*s = (struct side) { .p = make_process(), .data = take_page() };
	s->cq = make_memory(s->p.uid, 1, 0, true);
	s->cq_db = make_memory(s->p.uid, 1, 0x1f0, true);
	/* Receives lie before a page's end, sends around it. */
	s->qp = make_memory(s->p.uid, 2, 4096 - 128 - 128, true);
	s->qp_db = make_memory(s->p.uid, 1, 0xff8, true);
	for (unsigned int i = 0; i < 1u << LOG_CQ; i++)
		memory_at(&s->cq, 64 * i)[63] = MLX5_CQE_INVALID << 4;
	s->cqn = make_cq(&s->p, &s->cq, &s->cq_db);
	s->qpn = make_qp(&s->p, s->cqn, &s->qp, &s->qp_db);
	s->lkey = register_page(s->p.pd, s->data);
}

static u8 *modify_in(uint32_t qpn)
{
	memset(in, 0, 1024);
	IFC_SET(rst2init_qp_in, in, qpn, qpn);
	return IFC_PTR(rst2init_qp_in, in, qpc);
}

static void connect_to(const struct side *s, uint32_t remote)
{
	u8 *qpc = modify_in(s->qpn);

	IFC_SET(qpc, qpc, rre, 1);
	IFC_SET(qpc, qpc, rwe, 1);
	IFC_SET(qpc, qpc, primary_address_path.vhca_port_num, 1);
	assert_int_equal(run(s->p.uid, MLX5_CMD_OP_RST2INIT_QP), CMD_OK);
	qpc = modify_in(s->qpn);
	IFC_SET(qpc, qpc, mtu, 3);
	IFC_SET(qpc, qpc, log_msg_max, 20);
	IFC_SET(qpc, qpc, remote_qpn, remote);
	IFC_SET(qpc, qpc, min_rnr_nak, 12);
	IFC_SET(qpc, qpc, next_rcv_psn, 0xfffffe);
	IFC_SET(qpc, qpc, primary_address_path.vhca_port_num, 1);
	IFC_SET(qpc, qpc, primary_address_path.rlid, hca->port.lid);
	assert_int_equal(run(s->p.uid, MLX5_CMD_OP_INIT2RTR_QP), CMD_OK);
	qpc = modify_in(s->qpn);
	IFC_SET(qpc, qpc, retry_count, 6);
	IFC_SET(qpc, qpc, rnr_retry, 6);
	IFC_SET(qpc, qpc, next_send_psn, 0xfffffe);
	IFC_SET(qpc, qpc, log_sra_max, 4);
	IFC_SET(qpc, qpc, primary_address_path.vhca_port_num, 1);
	IFC_SET(qpc, qpc, primary_address_path.ack_timeout, 14);
	assert_int_equal(run(s->p.uid, MLX5_CMD_OP_RTR2RTS_QP), CMD_OK);
}

static int traffic_up(void **state)
{
	guest_up(state);
	/* The subnet administrator that stands in for a fabric brings the port up. */
	for (unsigned int i = 0; hca->port.state != 4 && i < 10000; i++)
		loop_run_for(loop, 100000);
	make_side(&client);
	make_side(&server);
	connect_to(&client, server.qpn);
	connect_to(&server, client.qpn);
	memset(at(client.data), 'c', HCA_PAGE);
	memset(at(server.data), 's', HCA_PAGE);
	return 0;
}

static void put_segment(u8 *to, uint32_t len, uint32_t lkey, uint64_t addr)
{
	put_be32(to, len);
	put_be32(to + 4, lkey);
	put_be64(to + 8, addr);
}

static void post_recv(struct side *s, uint32_t len, uint32_t lkey, uint64_t addr)
{
	put_segment(memory_at(&s->qp, s->received % (1u << LOG_RQ) * 16), len, lkey, addr);
	put_be32(memory_at(&s->qp_db, 0), ++s->received & 0xffff);
}

static u8 *block(const struct side *s, uint32_t index)
{
	return memory_at(&s->qp, RQ_BYTES + index % (1u << LOG_SQ) * 64);
}

/* LEN bytes, cut into blocks; and the doorbell, in page UAR. */
static void post_wqe(struct side *s, const u8 *wqe, size_t len, uint32_t uar)
{
	u8 doorbell[8];

	memcpy(doorbell, wqe, 8);
	for (; len; len -= len < 64 ? len : 64, wqe += 64)
		memcpy(block(s, s->sent++), wqe, len < 64 ? len : 64);
	put_be32(memory_at(&s->qp_db, 4), s->sent & 0xffff);
	hca_bar_write(hca, (uint64_t)uar * HCA_PAGE + 0x800, doorbell, 8);
}

static void control(const struct side *s, u8 *wqe, u8 op, size_t len, uint32_t imm)
{
	put_be32(wqe, (s->sent & 0xffff) << 8 | op);
	put_be32(wqe + 4, s->qpn << 8 | len / 16);
	wqe[11] = MLX5_WQE_CTRL_CQ_UPDATE;
	put_be32(wqe + 12, imm);
}

static void post_send(struct side *s, u8 op, uint32_t imm, uint32_t len, uint32_t lkey,
		      uint64_t addr)
{
	size_t bytes = len ? 32 : 16;	/* libmlx5 leaves out a segment of no bytes */
	u8 wqe[32] = { };

	control(s, wqe, op, bytes, imm);
	put_segment(wqe + 16, len, lkey, addr);
	post_wqe(s, wqe, bytes, s->p.uar);
}

static void queues_in_umems_carry_messages(void **state)
{
	/* Each queue goes round several times. */
	for (uint32_t i = 0; i < 70; i++) {
		struct mlx5_cqe64 cqe;

		memset(at(server.data), 's', HCA_PAGE);
		post_recv(&server, MESSAGE, server.lkey, VA);
		post_send(&client, MLX5_OPCODE_SEND_IMM, 0x03020100 + i, MESSAGE, client.lkey, VA);
		assert_int_equal(opcode(&client), MLX5_CQE_REQ);
		cqe = poll_cq(&server);
		assert_int_equal(cqe.op_own >> 4, MLX5_CQE_RESP_SEND_IMM);
		assert_int_equal(be32toh(cqe.imm_inval_pkey), 0x03020100 + i);
		assert_int_equal(be32toh(cqe.byte_cnt), MESSAGE);
		assert_memory_equal(at(server.data), at(client.data), MESSAGE);
		assert_int_equal(at(server.data)[MESSAGE], 's');
	}
	assert_null(peek(&client));
	assert_null(peek(&server));
}

/* A key of the process itself, for pages of its umem. */
static void send_reads_data_of_a_umem_mkey(void **state)
{
	struct memory m = make_memory(client.p.uid, 3, 100, true);
	uint32_t key;

	for (unsigned int i = 0; i < 5000; i++)
		*memory_at(&m, i) = i / 7;
	umem_key_in(client.p.pd, m.umem, 4000, VA + 4, 4096);
	assert_int_equal(run(client.p.uid, MLX5_CMD_OP_CREATE_MKEY), CMD_OK);
	key = IFC_GET(create_mkey_out, out, mkey_index) << 8;
	post_recv(&server, 1000, server.lkey, VA);
	post_send(&client, MLX5_OPCODE_SEND, 0, 1000, key, VA + 4);
	assert_int_equal(opcode(&client), MLX5_CQE_REQ);
	assert_int_equal(opcode(&server), MLX5_CQE_RESP_SEND);
	for (unsigned int i = 0; i < 1000; i++)
		assert_int_equal(at(server.data)[i], (u8)((4000 + i) / 7));
}

/* The QP was made with another UAR: the doorbell is not heard. */
static void doorbell_in_a_foreign_uar_is_ignored(void **state)
{
	u8 wqe[32] = { };

	post_recv(&server, MESSAGE, server.lkey, VA);
	control(&client, wqe, MLX5_OPCODE_SEND_IMM, 32, 1);
	put_segment(wqe + 16, MESSAGE, client.lkey, VA);
	post_wqe(&client, wqe, 32, server.p.uar);
	for (unsigned int i = 0; i < 20; i++)
		loop_run_for(loop, 100000);
	assert_null(peek(&client));
	hca_bar_write(hca, (uint64_t)client.p.uar * HCA_PAGE + 0x800, wqe, 8);
	assert_int_equal(opcode(&client), MLX5_CQE_REQ);
}

/* The keys of another process are in another PD. */
static void foreign_lkey_fails_the_send(void **state)
{
	post_recv(&server, MESSAGE, server.lkey, VA);
	post_send(&client, MLX5_OPCODE_SEND_IMM, 1, MESSAGE, server.lkey, VA);
	assert_int_equal(opcode(&client), MLX5_CQE_REQ_ERR);
}

/* UMR as libmlx5's mlx5_send_wr_mkey_configure() and ..._set_mkey_layout() build it. */
static u8 configure(struct side *s, const u8 list[64], uint64_t len, bool remote)
{
	u8 wqe[16 + 48 + 64 + 64] = { };

	control(s, wqe, MLX5_OPCODE_UMR, sizeof(wqe), s->list);
	wqe[11] |= MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE;
	wqe[16] = MLX5_WQE_UMR_CTRL_FLAG_INLINE;
	put_be16(wqe + 20, 4);
	put_be64(wqe + 24, MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE | MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY |
		 MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN |
		 MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE |
		 MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ |
		 MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE |
		 MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC);
	wqe[64 + 2] = MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE |
		      (remote ? MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE : 0);
	put_be32(wqe + 64 + 4, 0xffffff00 | (s->list & 0xff));
	put_be64(wqe + 64 + 24, len);
	memcpy(wqe + 128, list, 64);
	post_wqe(s, wqe, sizeof(wqe), s->p.uar);
	return opcode(s);
}

static void make_lists(bool remote_invalidate)
{
	assert_int_equal(create_list(client.p.uid, client.p.pd, remote_invalidate, &client.list),
			 CMD_OK);
	assert_int_equal(create_list(server.p.uid, server.p.pd, remote_invalidate, &server.list),
			 CMD_OK);
}

/* Two pieces of 8 bytes, 64 bytes apart. */
static u8 configure_list(struct side *s, uint32_t lkey)
{
	u8 list[64] = { };

	put_segment(list, 8, s->lkey, VA);
	put_segment(list + 16, 8, lkey, VA + 64);
	return configure(s, list, 16, false);
}

/* Three rounds of two pieces of 8 bytes, each 10 bytes after the one before. */
static u8 configure_interleaved(struct side *s)
{
	u8 list[64] = { };

	put_be32(list, 16);		/* bytes of a round */
	put_be32(list + 4, 0x400);
	put_be32(list + 8, 3);
	put_be16(list + 14, 2);
	for (unsigned int i = 0; i < 2; i++) {
		u8 *entry = list + 16 + 16 * i;

		put_be16(entry, 10);
		put_be16(entry + 2, 8);
		put_be32(entry + 4, s->lkey);
		put_be64(entry + 8, VA + 64 * i);
	}
	return configure(s, list, 48, false);
}

/* A message between the lists; the sender's and the receiver's completions. */
static void exchange(uint32_t len, u8 *sent, u8 *received)
{
	memset(at(server.data), 's', HCA_PAGE);
	post_recv(&server, len, server.list, 0);
	post_send(&client, MLX5_OPCODE_SEND, 0, len, client.list, 0);
	*sent = opcode(&client);
	*received = *sent == MLX5_CQE_REQ ? opcode(&server) : 0;
}

static void assert_exchange(uint32_t len)
{
	u8 sent, received;

	exchange(len, &sent, &received);
	assert_int_equal(sent, MLX5_CQE_REQ);
	assert_int_equal(received, MLX5_CQE_RESP_SEND);
}

static void assert_refused(uint32_t len)
{
	u8 sent, received;

	exchange(len, &sent, &received);
	assert_int_equal(sent, MLX5_CQE_REQ_ERR);
}

/* WHERE: offsets of pieces of 8 bytes that came from the client. */
static void assert_pieces(const unsigned int *where, unsigned int count)
{
	u8 expect[256];

	memset(expect, 's', sizeof(expect));
	for (unsigned int i = 0; i < count; i++)
		memset(expect + where[i], 'c', 8);
	assert_memory_equal(at(server.data), expect, sizeof(expect));
}

/* As libmlx5 does it for IBV_WR_LOCAL_INV. */
static u8 invalidate(struct side *s)
{
	u8 wqe[16 + 48 + 64] = { };

	control(s, wqe, MLX5_OPCODE_UMR, sizeof(wqe), s->list);
	wqe[16] = MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET | MLX5_WQE_UMR_CTRL_FLAG_INLINE |
		  MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN;
	put_be64(wqe + 24, MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE | MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY |
		 MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN);
	wqe[64] = 0x40;			/* free */
	put_be32(wqe + 64 + 4, 0xffffff00 | (s->list & 0xff));
	post_wqe(s, wqe, sizeof(wqe), s->p.uar);
	return opcode(s);
}

static void key_list_moves_data_until_invalidated(void **state)
{
	static const unsigned int where[] = { 0, 64 };

	make_lists(false);
	assert_int_equal(configure_list(&client, client.lkey), MLX5_CQE_REQ);
	assert_int_equal(configure_list(&server, server.lkey), MLX5_CQE_REQ);
	for (unsigned int i = 0; i < 10; i++) {
		assert_exchange(16);
		assert_pieces(where, 2);
	}
	assert_int_equal(invalidate(&client), MLX5_CQE_REQ);
	assert_int_equal(invalidate(&server), MLX5_CQE_REQ);
	assert_refused(16);
}

static void interleaved_key_moves_strided_data(void **state)
{
	static const unsigned int where[] = { 0, 64, 10, 74, 20, 84 };

	make_lists(false);
	assert_int_equal(configure_interleaved(&client), MLX5_CQE_REQ);
	assert_int_equal(configure_interleaved(&server), MLX5_CQE_REQ);
	assert_exchange(16);
	assert_pieces(where, 2);
	assert_exchange(48);
	assert_pieces(where, 6);
	assert_int_equal(invalidate(&client), MLX5_CQE_REQ);
}

static void send_longer_than_the_list_is_refused(void **state)
{
	make_lists(false);
	assert_int_equal(configure_list(&client, client.lkey), MLX5_CQE_REQ);
	assert_int_equal(configure_list(&server, server.lkey), MLX5_CQE_REQ);
	assert_refused(100);
}

static void send_with_invalidate_ends_the_list(void **state)
{
	make_lists(true);
	assert_int_equal(configure_list(&client, client.lkey), MLX5_CQE_REQ);
	assert_int_equal(configure_list(&server, server.lkey), MLX5_CQE_REQ);
	assert_exchange(16);
	post_recv(&server, 0, 0x100, 0);	/* no segment, as libmlx5 writes it */
	post_send(&client, MLX5_OPCODE_SEND_INVAL, server.list, 0, client.list, 0);
	assert_int_equal(opcode(&client), MLX5_CQE_REQ);
	assert_int_equal(opcode(&server), MLX5_CQE_RESP_SEND_INV);
	assert_refused(16);
}

/* A list may name any key; what it leads to is judged at each access. */
static void list_of_a_foreign_key_moves_nothing(void **state)
{
	make_lists(false);
	assert_int_equal(configure_list(&client, server.lkey), MLX5_CQE_REQ);
	assert_int_equal(configure_list(&server, server.lkey), MLX5_CQE_REQ);
	assert_refused(16);
}

/* Nor does UMR change a key of another process, or pages of the own. */
static void umr_fills_own_lists_only(void **state)
{
	make_lists(false);
	client.list = server.list;
	assert_int_equal(configure_list(&client, client.lkey), MLX5_CQE_REQ_ERR);
	server.list = server.lkey;
	assert_int_equal(configure_list(&server, server.lkey), MLX5_CQE_REQ_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TRAFFIC(name) cmocka_unit_test_setup_teardown(name, traffic_up, guest_down)
		TRAFFIC(queues_in_umems_carry_messages),
		TRAFFIC(send_reads_data_of_a_umem_mkey),
		TRAFFIC(doorbell_in_a_foreign_uar_is_ignored),
		TRAFFIC(foreign_lkey_fails_the_send),
		TRAFFIC(key_list_moves_data_until_invalidated),
		TRAFFIC(interleaved_key_moves_strided_data),
		TRAFFIC(send_longer_than_the_list_is_refused),
		TRAFFIC(send_with_invalidate_ends_the_list),
		TRAFFIC(list_of_a_foreign_key_moves_nothing),
		TRAFFIC(umr_fills_own_lists_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
