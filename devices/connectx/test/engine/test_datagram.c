// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* Unreliable datagrams, their keys and multicast, and the QPs for management (QP 0, QP 1). */
#include "transport_fakes.h"

#define V(offset) (FAKE_VA + (offset))

static void datagrams_new(enum qp_service service)
{
	world_new(service, service, 10);
	for (int i = 0; i < 2; i++) {
		qps[i].qkey = 0x11111111;
		qps[i].remote_qpn = 0;
	}
}

static struct wqe *post_ud(uint8_t opcode, uint64_t local, uint32_t len)
{
	struct wqe *w = post(0, opcode, local, 0, len);

	w->av = (struct wqe_av) { .qkey = 0x11111111, .dqpn = 0x41, .rlid = FAKE_LID, .sl = 2 };
	return w;
}

static void datagram_arrives_behind_its_grh(void **state)
{
	static const u8 zero[40];
	struct wqe *w;

	datagrams_new(QP_UD);
	post_recv(1, 0x8000, 140);
	post_recv(1, 0x9000, 140);
	post_ud(MLX5_OPCODE_SEND, 0x10, 100)->solicited = true;
	w = post_ud(MLX5_OPCODE_SEND_IMM, 0x20, 50);
	w->imm = 0xabcd;
	w->av.global = true;
	w->av.gid_index = 1;
	w->av.hop_limit = 9;
	w->av.tclass = 0xf5;
	w->av.flow_label = 0x12345;
	memset(w->av.dgid, 0x60, 16);
	world_run();
	assert_int_equal(4, dones);
	for (int i = 0; i < 4; i++) {
		const struct done *d = &done[i];

		assert_int_equal(0, d->syndrome);
		if (!d->recv)
			continue;
		assert_int_equal(d->index ? 90 : 140, d->bytes);
		assert_int_equal(d->index ? MLX5_CQE_RESP_SEND_IMM : MLX5_CQE_RESP_SEND, d->opcode);
		assert_int_equal(0x40, d->src_qp);
		assert_int_equal(!d->index, d->solicited);
		if (d->index)
			assert_int_equal(0xabcd, d->imm);
	}
	assert_memory_equal(zero, memory[1] + 0x8000, 40);
	assert_memory_equal(memory[0] + 0x10, memory[1] + 0x8028, 100);
	assert_memory_equal(memory[0] + 0x20, memory[1] + 0x9028, 50);
	assert_int_equal(0x6f512345, be32_at(memory[1] + 0x9000));
	/* BTH, DETH, immediate, 50 bytes and their pad, ICRC. */
	assert_int_equal(12 + 8 + 4 + 52 + 4, be16_at(memory[1] + 0x9004));
	assert_int_equal(0x1b, memory[1][0x9006]);
	assert_int_equal(9, memory[1][0x9007]);
	assert_int_equal(0x61, memory[1][0x9008]);
	assert_int_equal(0x60, memory[1][0x9018]);
	world_end();
}

static void wrong_qkey_qpn_or_gid_drops_the_datagram(void **state)
{
	static const struct {
		uint32_t qkey, dqpn;
		uint16_t rlid;
		uint32_t len, room;
		bool arrives;
		u8 dgid;
	} t[] = {
		{ 0x11111111, 0x41, FAKE_LID, 256, 296, true },
		{ 0x80000001, 0x41, FAKE_LID, 10, 300, true },	/* the QP's own */
		{ 0x11111112, 0x41, FAKE_LID, 10, 300, false },
		{ 0x11111111, 0x42, FAKE_LID, 10, 300, false },
		{ 0x11111111, 0x41, FAKE_LID, 10, 0, false },	/* no receive WQE */
		{ 0x11111111, 0x41, FAKE_LID, 10, 300, true, 0x60 },
		{ 0x11111111, 0x41, FAKE_LID, 10, 300, false, 0x77 },	/* another port's GID */
		{ 0x11111111, 0x41, FAKE_LID, 10, 300, false, 0xff },	/* a group's */
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct wqe *w;

		datagrams_new(QP_UD);
		if (t[i].room)
			post_recv(1, 0x8000, t[i].room);
		w = post_ud(MLX5_OPCODE_SEND, 0, t[i].len);
		w->av.qkey = t[i].qkey;
		w->av.dqpn = t[i].dqpn;
		w->av.rlid = t[i].rlid;
		w->av.global = t[i].dgid;
		memset(w->av.dgid, t[i].dgid, 16);
		world_run();
		assert_int_equal(1 + t[i].arrives, dones);
		assert_int_equal(0, done[0].syndrome);
		assert_int_equal(t[i].qkey == 0x11111112, hca.port.qkey_violations);
		world_end();
	}
}

static void bad_wqe_is_an_error_and_flushes_the_next(void **state)
{
	static const struct { u8 opcode; uint32_t len, lkey; u8 syndrome; } t[] = {
		{ MLX5_OPCODE_SEND, 257, 0x1001, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR },
		{ MLX5_OPCODE_RDMA_WRITE, 1, 0x1001, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR },
		{ 0xff, 1, 0x1001, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR },
		{ MLX5_OPCODE_SEND, 1, 0x1002, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR },
		{ MLX5_OPCODE_SEND, 1, MKEY_RESERVED_LKEY, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR },
		{ MLX5_OPCODE_NOP, 0, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		datagrams_new(QP_UD);
		post_ud(t[i].opcode, 0, t[i].len)->seg[0].lkey = t[i].lkey;
		post_ud(MLX5_OPCODE_SEND, 0, 1);
		world_run();
		assert_int_equal(2, dones);
		assert_int_equal(t[i].syndrome, done[0].syndrome);
		assert_int_equal(t[i].syndrome ? MLX5_CQE_SYNDROME_WR_FLUSH_ERR : 0,
				 done[1].syndrome);
		world_end();
	}
}

static void small_or_bad_receive_fails_the_receiver_only(void **state)
{
	for (int i = 0; i < 2; i++) {
		datagrams_new(QP_UD);
		post_recv(1, 0x8000, i ? 300 : 139)->seg[0].lkey = i ? 0x99 : key_of(1);
		post_ud(MLX5_OPCODE_SEND, 0, 100);
		world_run();
		assert_int_equal(2, dones);
		assert_int_equal(i ? MLX5_CQE_SYNDROME_LOCAL_PROT_ERR :
				 MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, done[1].syndrome);
		assert_int_equal(QPS_ERR, qps[1].state);
		assert_int_equal(QPS_RTS, qps[0].state);
		world_end();
	}
}

/* Each QP that is attached gets a copy, the sender too unless it asked not to. */
static void each_attached_qp_gets_a_multicast_copy(void **state)
{
	for (int blocked = 0; blocked < 2; blocked++) {
		struct wqe *w;

		datagrams_new(QP_UD);
		IFC_SET(qpc, qps[0].context, block_lb_mc, blocked);
		post_recv(0, 0x8000, 300);
		post_recv(1, 0x8000, 300);
		w = post_ud(MLX5_OPCODE_SEND, 0, 100);
		w->av.dqpn = 0xffffff;
		w->av.rlid = 0xc001;
		w->av.global = true;
		memset(w->av.dgid, 0xff, 16);
		world_run();
		assert_int_equal(blocked ? 2 : 3, dones);
		assert_memory_equal(memory[0], memory[1] + 0x8028, 100);
		world_end();
	}
}

static void management_qps_use_numbers_0_and_1(void **state)
{
	for (int smi = 0; smi < 2; smi++) {
		struct packet *p;
		struct wqe *w;

		datagrams_new(smi ? QP_SMI : QP_GSI);
		qps[0].number = 0x50;
		hca.special[!smi] = &qps[0];
		qps[0].qkey = qps[1].qkey = smi ? 0 : 0x80010000;
		post_recv(0, 0x8000, 300);
		w = post_ud(MLX5_OPCODE_SEND, 0, 256);
		w->av.dqpn = !smi;
		w->av.qkey = 0x80010000;
		while (list_empty(&fake_link.wire))
			assert_true(world_step());
		p = list_item(fake_link.wire.next, struct packet, entry);
		assert_int_equal(!smi, p->sqpn);
		assert_int_equal(smi ? 15 : 0, p->vl);
		assert_int_equal(smi ? 0 : 0x80010000, p->qkey);
		world_run();
		assert_int_equal(2, dones);
		assert_true(done[1].recv && done[1].qp == &qps[0]);
		assert_int_equal(!smi, done[1].src_qp);
		world_end();
	}
}

/* Its size, virtual lane and QP number are fixed, and it has no immediate data. */
static void malformed_management_datagram_is_dropped(void **state)
{
	static const struct {
		bool smi;
		u8 opcode;
		uint32_t len;
		u8 vl;
		bool arrives, by_its_number;
	} t[] = {
		{ false, IB_SEND_ONLY, 256, 0, true },
		{ false, IB_SEND_ONLY, 252, 0, false },
		{ false, IB_SEND_ONLY_IMM, 256, 0, false },
		{ false, IB_SEND_ONLY, 256, 15, false },
		{ true, IB_SEND_ONLY, 256, 15, true },
		{ true, IB_SEND_ONLY, 256, 0, false },
		{ true, IB_SEND_ONLY, 0, 15, false },
		{ true, IB_SEND_ONLY, 256, 0, false, true },
		{ true, IB_SEND_ONLY, 256, 15, false, true },
		{ false, IB_SEND_ONLY, 256, 0, false, true },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct packet *p;

		datagrams_new(t[i].smi ? QP_SMI : QP_GSI);
		qps[0].mtu = 4096;
		hca.special[!t[i].smi] = &qps[0];
		post_recv(0, 0x8000, 300);
		p = link_packet(&fake_link);
		p->dlid = p->slid = FAKE_LID;
		p->pkey = 0xffff;
		p->qkey = 0x11111111;
		p->dqpn = t[i].by_its_number ? qps[0].number : !t[i].smi;
		p->opcode = IB_UD << 5 | t[i].opcode;
		p->length = t[i].len;
		p->vl = t[i].vl;
		transport_receive(&hca, p);
		assert_int_equal(t[i].arrives, dones);
		world_end();
	}
}

static void datagram_waits_for_absent_pages(void **state)
{
	datagrams_new(QP_UD);
	fake_mkeys[0].absent[0] = fake_mkeys[1].absent[0] = true;
	post_recv(1, 0, 300);
	post_recv(1, 0x8000, 300);
	post_ud(MLX5_OPCODE_SEND, 0, 100);
	world_run();
	assert_int_equal(0, dones);
	resolve(FAULT_REQUESTER, false);
	post_ud(MLX5_OPCODE_SEND, 0, 10);
	world_run();
	assert_int_equal(2, dones);	/* the second message finds the first one waiting: lost */
	resolve(FAULT_RESPONDER, false);
	world_run();
	assert_int_equal(3, dones);
	assert_memory_equal(memory[0], memory[1] + 40, 100);
	for (int side = 0; side < 2; side++) {
		dones = 0;
		fake_mkeys[side].absent[0] = true;
		rq[1][1].seg[0].addr = V(0);
		post_ud(MLX5_OPCODE_SEND, 0, 10);
		world_run();
		resolve(side, true);
		world_run();
		assert_int_equal(MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, done[side].syndrome);
		fake_mkeys[side].absent[0] = false;
		qps[0].state = QPS_RTS;
	}
	world_end();
}

/* Others have taken the places of those that wait: the page is asked for all the same. */
static void dropped_datagram_still_faults_its_page(void **state)
{
	datagrams_new(QP_UD);
	hca.stalled = LINK_STALLED;
	fake_mkeys[1].absent[0] = true;
	post_recv(1, 0, 300);
	for (int i = 0; i < 2; i++)
		post_ud(MLX5_OPCODE_SEND, 0, 10);
	world_run();
	assert_int_equal(2, dones);
	assert_int_equal(0, fake_link.out);
	resolve(FAULT_RESPONDER, false);
	post_ud(MLX5_OPCODE_SEND, 0, 100);
	world_run();
	assert_int_equal(4, dones);
	assert_true(done[3].recv && done[3].index == 0);
	assert_memory_equal(memory[0], memory[1] + 40, 100);
	hca.stalled = 0;
	world_end();
}

static void empty_pool_delays_datagrams(void **state)
{
	datagrams_new(QP_UD);
	fake_link.limit = 1;
	for (int i = 0; i < 200; i++) {
		if (i < 10)
			post_recv(1, 0x8000, 300);
		post_ud(MLX5_OPCODE_SEND, 0, 10);
	}
	world_run();
	assert_int_equal(210, dones);
	assert_int_equal(210, qps[0].req.psn);
	world_end();
}

static void long_turn_ends_after_one_datagram(void **state)
{
	datagrams_new(QP_UD);
	fake_loop.turn_over = true;
	for (int i = 0; i < 3; i++)
		post_ud(MLX5_OPCODE_SEND, 0, 10);
	assert_true(world_step());
	assert_int_equal(1, dones);
	world_run();
	assert_int_equal(3, dones);
	world_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(datagram_arrives_behind_its_grh),
		cmocka_unit_test(wrong_qkey_qpn_or_gid_drops_the_datagram),
		cmocka_unit_test(bad_wqe_is_an_error_and_flushes_the_next),
		cmocka_unit_test(small_or_bad_receive_fails_the_receiver_only),
		cmocka_unit_test(each_attached_qp_gets_a_multicast_copy),
		cmocka_unit_test(management_qps_use_numbers_0_and_1),
		cmocka_unit_test(malformed_management_datagram_is_dropped),
		cmocka_unit_test(datagram_waits_for_absent_pages),
		cmocka_unit_test(dropped_datagram_still_faults_its_page),
		cmocka_unit_test(empty_pool_delays_datagrams),
		cmocka_unit_test(long_turn_ends_after_one_datagram),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
