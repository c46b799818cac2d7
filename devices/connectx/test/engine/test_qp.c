// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The commands of queue pairs (qp_cmd.c, qp_modify.c): states, contexts and use counts
 * afterwards.
 */
#include "qp_fixture.h"

static void transition_from_a_wrong_state_is_bad_qp_state(void **state)
{
	enum { X = CMD_BAD_QP_STATE };
	static const struct { uint16_t op; u8 status[6], next; } cases[] = {
		/*			      RST INIT RTR RTS SQER ERR */
		{ MLX5_CMD_OP_RST2INIT_QP,  { 0, X, X, X, X, X }, QPS_INIT },
		{ MLX5_CMD_OP_INIT2INIT_QP, { X, 0, X, X, X, X }, QPS_INIT },
		{ MLX5_CMD_OP_INIT2RTR_QP,  { X, 0, X, X, X, X }, QPS_RTR },
		{ MLX5_CMD_OP_RTR2RTS_QP,   { X, X, 0, X, X, X }, QPS_RTS },
		{ MLX5_CMD_OP_RTS2RTS_QP,   { X, X, X, 0, X, X }, QPS_RTS },
		{ MLX5_CMD_OP_SQERR2RTS_QP, { X, X, X, X, 0, X }, QPS_RTS },
		{ MLX5_CMD_OP_2ERR_QP,	    { 0, 0, 0, 0, 0, 0 }, QPS_ERR },
		{ MLX5_CMD_OP_2RST_QP,	    { 0, 0, 0, 0, 0, 0 }, QPS_RESET },
	};
	static const u8 states[] = { QPS_RESET, QPS_INIT, QPS_RTR, QPS_RTS, QPS_SQER, QPS_ERR };
	static const u8 st[] = { MLX5_QPC_ST_RC, MLX5_QPC_ST_UC, MLX5_QPC_ST_UD, MLX5_QPC_ST_XRC,
				 MLX5_QPC_ST_QP0, MLX5_QPC_ST_QP1, MLX5_QPC_ST_REG_UMR };
	size_t i, s, k;

	for (k = 0; k < sizeof(st); k++) {
		struct qp *qp = created(st[k]);

		for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
			for (s = 0; s < 6; s++) {
				enum cmd_status want = cases[i].status[s];

				qp->state = states[s];
				assert_int_equal(to(qp, cases[i].op), want);
				assert_int_equal(qp->state, want ? states[s] : cases[i].next);
				assert_int_equal(IFC_GET(qpc, query(qp), state), qp->state);
			}
	}
	modify_in(qp_get(&hca, QPN_FIRST), 0);
	IFC_SET(rst2init_qp_in, in, qpn, 0x3f);
	assert_int_equal(modify(MLX5_CMD_OP_RST2INIT_QP), CMD_BAD_RES);
}

/* Which transition takes which field: never, by itself, or by a bit of the mask. */
static void transition_takes_its_fields_only(void **state)
{
	enum { RRE = 1 << 1, RAE = 1 << 2, RWE = 1 << 3, PKEY = 1 << 4, QKEY = 1 << 5,
	       RNR = 1 << 6, PM = 1 << 10, ITSELF = 1u << 31, NEVER = 0 };
#define F(st_, op_, from_, take_, field_) { st_, MLX5_CMD_OP_##op_##_QP, from_, take_, \
	IFC_BIT(qpc, field_), IFC_WIDTH(qpc, field_) }
#define ADS primary_address_path
	static const struct {
		u8 st;
		uint16_t op;
		u8 from;
		uint32_t take;
		uint16_t bit, width;
	} c[] = {
		F(0, RST2INIT, 0, ITSELF, rwe), F(0, RST2INIT, 0, ITSELF, rre),
		F(0, RST2INIT, 0, ITSELF, ADS.pkey_index), F(2, RST2INIT, 0, ITSELF, q_key),
		F(2, RST2INIT, 0, NEVER, rwe), F(1, RST2INIT, 0, NEVER, rre),
		F(0, RST2INIT, 0, NEVER, ADS.rlid), F(0, RST2INIT, 0, NEVER, pd),
		F(0, RST2INIT, 0, NEVER, user_index), F(0, RST2INIT, 0, NEVER, log_sq_size),
		F(0, INIT2INIT, 1, RAE, rae), F(2, INIT2INIT, 1, QKEY, q_key),
		F(0, INIT2INIT, 1, PKEY, ADS.pkey_index), F(1, INIT2INIT, 1, RWE, rwe),
		F(0, INIT2RTR, 1, ITSELF, ADS.rlid), F(0, INIT2RTR, 1, ITSELF, ADS.grh),
		F(1, INIT2RTR, 1, ITSELF, ADS.flow_label), F(2, INIT2RTR, 1, NEVER, ADS.rlid),
		F(0, INIT2RTR, 1, ITSELF, remote_qpn), F(0, INIT2RTR, 1, ITSELF, next_rcv_psn),
		F(0, INIT2RTR, 1, ITSELF, log_rra_max), F(0, INIT2RTR, 1, ITSELF, min_rnr_nak),
		F(1, INIT2RTR, 1, NEVER, min_rnr_nak), F(0, INIT2RTR, 1, NEVER, next_send_psn),
		F(0, INIT2RTR, 1, RWE, rwe), F(0, INIT2RTR, 1, RRE, rre),
		F(2, INIT2RTR, 1, QKEY, q_key),
		F(0, INIT2RTR, 1, NEVER, ADS.ack_timeout), F(0, INIT2RTR, 1, PKEY, ADS.pkey_index),
		F(0, RTR2RTS, 2, ITSELF, ADS.ack_timeout), F(0, RTR2RTS, 2, ITSELF, retry_count),
		F(0, RTR2RTS, 2, ITSELF, rnr_retry), F(0, RTR2RTS, 2, ITSELF, log_sra_max),
		F(0, RTR2RTS, 2, ITSELF, next_send_psn), F(2, RTR2RTS, 2, ITSELF, next_send_psn),
		F(1, RTR2RTS, 2, NEVER, retry_count), F(0, RTR2RTS, 2, NEVER, ADS.rlid),
		F(0, RTR2RTS, 2, NEVER, next_rcv_psn), F(0, RTR2RTS, 2, RNR, min_rnr_nak),
		F(3, RTS2RTS, 3, RNR, min_rnr_nak), F(0, RTS2RTS, 3, RWE, rwe),
		F(2, RTS2RTS, 3, QKEY, q_key), F(0, RTS2RTS, 3, NEVER, ADS.ack_timeout),
		F(2, SQERR2RTS, 4, QKEY, q_key), F(1, SQERR2RTS, 4, RWE, rwe),
		F(1, SQERR2RTS, 4, NEVER, next_send_psn),
	};
	unsigned int pass;
	size_t i;

	for (i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		for (pass = 0; pass < 2; pass++) {	/* without and with the mask */
			bool masked = pass && c[i].take != ITSELF;
			bool taken = c[i].take == ITSELF || (masked && c[i].take);
			struct qp *qp = created(c[i].st);
			uint32_t before = ifc_get(query(qp), c[i].bit, c[i].width), after;
			uint32_t value = before ^ 1;

			qp->state = c[i].from;
			modify_in(qp, masked ? c[i].take : 0);
			ifc_set(MODIFY_QPC, c[i].bit, c[i].width, value);
			assert_int_equal(modify(c[i].op), CMD_OK);
			after = ifc_get(query(qp), c[i].bit, c[i].width);
			if (after != (taken ? value : before))
				fail_msg("case %zu, mask %#x: %#x became %#x on a modify to %#x", i,
					 masked ? c[i].take : 0, before, after, value);
			qp_reset_all(&hca);
		}
	/* A bit that the transition does not know; path migration, which does not exist. */
	{
		struct qp *qp = created(MLX5_QPC_ST_RC);

		qp->state = QPS_RTS;
		modify_in(qp, QKEY);
		assert_int_equal(modify(MLX5_CMD_OP_RTS2RTS_QP), CMD_BAD_PARAM);
		modify_in(qp, 1);
		assert_int_equal(modify(MLX5_CMD_OP_RTS2RTS_QP), CMD_BAD_PARAM);
		modify_in(qp, PM);
		assert_int_equal(modify(MLX5_CMD_OP_RTS2RTS_QP), CMD_BAD_PARAM);
		IFC_SET(qpc, MODIFY_QPC, pm_state, 3);
		assert_int_equal(modify(MLX5_CMD_OP_RTS2RTS_QP), CMD_OK);
	}
}

static void refused_transition_changes_nothing(void **state)
{
	static const struct { u8 from; uint16_t op, bit, width; u8 value; } cases[] = {
#define BAD(from, op, field, value) \
	{ from, MLX5_CMD_OP_##op##_QP, IFC_BIT(qpc, field), IFC_WIDTH(qpc, field), value }
		BAD(QPS_RESET, RST2INIT, ADS.vhca_port_num, 0),
		BAD(QPS_RESET, RST2INIT, ADS.vhca_port_num, 2),
		BAD(QPS_RESET, RST2INIT, ADS.pkey_index, 128), BAD(QPS_INIT, INIT2RTR, mtu, 0),
		BAD(QPS_INIT, INIT2RTR, mtu, 6), BAD(QPS_INIT, INIT2RTR, log_rra_max, 5),
		BAD(QPS_RTR, RTR2RTS, log_sra_max, 7),
	};
	struct qp *qp = created(MLX5_QPC_ST_RC);
	u8 before[IFC_BYTES(qpc)];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		qp->state = cases[i].from;
		memcpy(before, query(qp), sizeof(before));
		modify_in(qp, 0);
		IFC_SET(qpc, MODIFY_QPC, remote_qpn, 0x77);
		IFC_SET(qpc, MODIFY_QPC, rwe, 1);
		IFC_SET(qpc, MODIFY_QPC, next_send_psn, 5);
		ifc_set(MODIFY_QPC, cases[i].bit, cases[i].width, cases[i].value);
		assert_int_equal(modify(cases[i].op), CMD_BAD_PARAM);
		assert_memory_equal(query(qp), before, sizeof(before));
		assert_int_equal(qp->remote_qpn, 0);
		assert_false(qp->remote_write);
	}
}

static void attributes_reach_the_qp_and_reset_clears_them(void **state)
{
	struct qp *qp = created(MLX5_QPC_ST_RC);

	modify_in(qp, 0);
	IFC_SET(qpc, MODIFY_QPC, rae, 1);
	assert_int_equal(modify(MLX5_CMD_OP_RST2INIT_QP), CMD_OK);
	modify_in(qp, 0);
	IFC_SET(qpc, MODIFY_QPC, mtu, 3);
	IFC_SET(qpc, MODIFY_QPC, log_rra_max, 4);
	IFC_SET(qpc, MODIFY_QPC, next_rcv_psn, 0xabcdef);
	IFC_SET(qpc, MODIFY_QPC, ADS.grh, 1);
	memset(IFC_PTR(qpc, MODIFY_QPC, ADS.rgid_rip), 0x42, 16);
	assert_int_equal(modify(MLX5_CMD_OP_INIT2RTR_QP), CMD_OK);
	modify_in(qp, 0);
	IFC_SET(qpc, MODIFY_QPC, next_send_psn, 0x123456);
	IFC_SET(qpc, MODIFY_QPC, retry_count, 7);
	assert_int_equal(modify(MLX5_CMD_OP_RTR2RTS_QP), CMD_OK);

	assert_int_equal(qp->mtu, 1024);
	assert_int_equal(qp->max_reads, 1);
	assert_true(qp->remote_atomic && !qp->remote_read);
	assert_true(qp->path.global && qp->path.dgid[15] == 0x42);
	assert_int_equal(qp->path.port, 1);
	assert_int_equal(qp->resp.psn, 0xabcdef);
	assert_int_equal(qp->req.psn, 0x123456);
	assert_int_equal(qp->req.sent_psn, 0x123456);
	assert_int_equal(qp->req.acked_psn, 0x123456);
	assert_int_equal(qp->req.retries, 7);
	qp->req.psn++;		/* a query says how it is now */
	assert_int_equal(IFC_GET(qpc, query(qp), next_send_psn), 0x123457);

	assert_int_equal(to(qp, MLX5_CMD_OP_2RST_QP), CMD_OK);
	assert_int_equal(IFC_GET(qpc, query(qp), next_send_psn), 0);
	assert_int_equal(IFC_GET(qpc, query(qp), ADS.grh), 0);
	assert_int_equal(IFC_GET(qpc, query(qp), user_index), 0x111);
	assert_false(qp->remote_atomic || qp->path.global);
}

static void bad_create_qp_is_refused(void **state)
{
#define C(st_, status_, field_, value_) \
	{ st_, status_, IFC_BIT(qpc, field_), IFC_WIDTH(qpc, field_), value_ }
	enum { P = CMD_BAD_PARAM, R = CMD_BAD_RES };
	static const struct { u8 st, status; uint16_t bit, width; uint32_t value; } cases[] = {
		C(0, 0, st, 0), C(0, 0, log_sq_size, 6), C(0, P, log_sq_size, 7),
		C(0, P, log_sq_size, 15), C(0, P, log_rq_size, 15), C(0, P, log_rq_stride, 7),
		C(0, P, log_page_size, 31), C(0, P, rq_type, 2), C(0, P, rq_type, 4),
		C(0, 0, rq_type, 1), C(0, 0, rq_type, 3), C(0, R, cqn_snd, 7),
		C(0, R, cqn_rcv, 0xffffff), C(0, R, pd, 0), C(0, R, uar_page, 0),
		C(0, P, st, 5), C(0, P, st, 9), C(0, P, ulp_stateless_offload_mode, 1),
		C(0, R, dbr_umem_valid, 1), C(0, P, cd_master, 1),
		C(3, 0, st, 3), C(3, P, rq_type, 0), C(3, R, xrcd, 9), C(3, 0, srqn_rmpn_xrqn, 99),
		C(7, 0, rlky, 1), C(7, P, rlky, 0), C(8, P, rlky, 0), C(12, P, rlky, 0),
		C(12, 0, pd, 0),
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		create_in(cases[i].st);
		ifc_set(CREATE_QPC, cases[i].bit, cases[i].width, cases[i].value);
		if (create() != cases[i].status)
			fail_msg("case %zu: CREATE_QP did not return %#x (syndrome %#x)", i,
				 cases[i].status, cmd.syndrome);
		qp_reset_all(&hca);
		assert_int_equal(hca.memory, 0);
		assert_int_equal(cqs[0].users + cqs[1].users + srqs[0].users + uar.users, 0);
	}
	for (i = 5; i <= 6; i++) {	/* longer than the capabilities say */
		create_in(0);
		SET(log_rq_size, 0);
		SET(log_rq_stride, i);
		assert_int_equal(create(), i == 5 ? CMD_OK : CMD_BAD_PARAM);
	}
	assert_int_equal(uar.users, 1);
	create_in(0);
	SET(xrcd, 9);			/* which it does not use */
	assert_int_equal(create(), CMD_OK);
	assert_int_equal(qp_get(&hca, IFC_GET(create_qp_out, out, qpn))->xrcd, 0);
	qp_reset_all(&hca);
	create_in(0);
	SET(rq_type, 1);
	SET(srqn_rmpn_xrqn, 2);		/* an XRC SRQ */
	assert_int_equal(create(), CMD_BAD_RES);
	create_in(0);
	IFC_SET64(qpc, CREATE_QPC, dbr_addr, RECORD + 4);
	assert_int_equal(create(), CMD_BAD_PARAM);
	create_in(8);
	put_be16(in + 2, 7);		/* of a user, with rlky */
	assert_int_equal(create(), CMD_BAD_PARAM);
	create_in(8);
	assert_int_equal(create(), CMD_OK);
	create_in(8);
	assert_int_equal(create(), CMD_RES_BUSY);
	qp_reset_all(&hca);
	create_in(0);
	hca.memory += HCA_MEMORY - sizeof(struct qp) - 15;	/* the QP, but not its 2 pages */
	assert_int_equal(create(), CMD_NO_RESOURCES);
	hca.memory -= HCA_MEMORY - sizeof(struct qp) - 15;
}

static void qp_names_objects_of_its_user_only(void **state)
{
	struct qp *qp, *target;

	create_in(MLX5_QPC_ST_RC);
	SET(rq_type, 1);
	put_be16(in + 2, 7);
	/* All that it names has to be this user's. */
	for (unsigned int i = 0; i < 3; i++) {
		uint16_t *uid = i < 2 ? &cqs[i].uid : &srqs[0].uid;

		cqs[0].uid = cqs[1].uid = srqs[0].uid = 7;
		*uid = 0;
		assert_int_equal(create(), CMD_BAD_RES);
		*uid = 8;
		assert_int_equal(create(), CMD_BAD_RES);
		*uid = 7;
	}
	assert_int_equal(create(), CMD_OK);
	qp = qp_get(&hca, IFC_GET(create_qp_out, out, qpn));
	assert_false(qp->privileged);
	assert_int_equal(cqs[0].users, 1);
	assert_int_equal(cqs[1].users, 1);
	assert_int_equal(srqs[0].users, 1);

	create_in(MLX5_QPC_ST_XRC);	/* a target has no queue, buffer or doorbell */
	SET(no_sq, 1);
	IFC_SET64(qpc, CREATE_QPC, dbr_addr, 0);
	assert_int_equal(run(MLX5_CMD_OP_CREATE_QP, IFC_BYTES(create_qp_in)), CMD_OK);
	target = qp_get(&hca, IFC_GET(create_qp_out, out, qpn));
	assert_int_equal(target->service, QP_XRC_TGT);
	assert_int_equal(cqs[0].users, 1);
	to_rts(target);
	qp_doorbell(&hca, target->number, -1);
	assert_int_equal(target->state, QPS_RTS);

	memset(in, 0, sizeof(in));
	IFC_SET(destroy_qp_in, in, qpn, qp->number);
	put_be16(in + 2, 8);		/* another user */
	assert_int_equal(run(MLX5_CMD_OP_DESTROY_QP, IFC_BYTES(destroy_qp_in)), CMD_BAD_RES);
	put_be16(in + 2, 7);
	assert_int_equal(run(MLX5_CMD_OP_DESTROY_QP, IFC_BYTES(destroy_qp_in)), CMD_OK);
	assert_int_equal(cqs[0].users + cqs[1].users + srqs[0].users, 0);
	assert_int_equal(run(MLX5_CMD_OP_DESTROY_QP, IFC_BYTES(destroy_qp_in)), CMD_BAD_RES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(transition_from_a_wrong_state_is_bad_qp_state),
		TEST(transition_takes_its_fields_only),
		TEST(refused_transition_changes_nothing),
		TEST(attributes_reach_the_qp_and_reset_clears_them),
		TEST(bad_create_qp_is_refused),
		TEST(qp_names_objects_of_its_user_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
