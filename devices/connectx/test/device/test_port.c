// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* The port: its context, tables, registers, events and counters; and multicast groups. */
#include "fake_parts.h"

static int up(void **state)
{
	rig_setup(state);
	rig_up(*state);
	return 0;
}

static u8 in[1024], out[4096];

static enum cmd_status port_cmd(struct hca *hca, uint16_t op, uint32_t word2, uint32_t word3,
				size_t out_len)
{
	memset(in, 0, 16);
	put_be32(in + 8, word2);
	put_be32(in + 12, word3);
	return run(hca, op, 0, in, 16, out, out_len);
}

static void vport_context_describes_the_port(void **state)
{
	struct hca *hca = *state;
	void *ctx = IFC_PTR(query_hca_vport_context_out, out, hca_vport_context);
	const uint16_t op = MLX5_CMD_OP_QUERY_HCA_VPORT_CONTEXT;

	assert_int_equal(port_cmd(hca, op, 0, 0, 4096), CMD_OK);
	assert_int_equal(IFC_GET(hca_vport_context, ctx, vport_state), 1);
	assert_int_equal(IFC_GET(hca_vport_context, ctx, port_physical_state), 2);
	port_set(hca, 7, 3, 4);
	assert_int_equal(port_cmd(hca, op, 0, 0, 4096), CMD_OK);
	assert_int_equal(IFC_GET(hca_vport_context, ctx, vport_state), 4);
	assert_int_equal(IFC_GET(hca_vport_context, ctx, port_physical_state), 5);
	assert_int_equal(IFC_GET(hca_vport_context, ctx, lid), 7);
	assert_int_equal(IFC_GET(hca_vport_context, ctx, sm_lid), 3);
	assert_int_equal(IFC_GET64(hca_vport_context, ctx, port_guid), hca->guid);
	assert_int_equal(IFC_GET(hca_vport_context, ctx, cap_mask1_field_select) & 0x10000,
			 0x10000);
	hca->port.qkey_violations = 70000;
	port_cmd(hca, op, 0, 0, 4096);
	assert_int_equal(IFC_GET(hca_vport_context, ctx, qkey_violation_counter), 0xffff);
	/* Of another vport, and of a second port. */
	assert_int_equal(port_cmd(hca, op, 1u << 31, 0, 4096), CMD_BAD_PARAM);
	assert_int_equal(port_cmd(hca, op, 2 << 16, 0, 4096), CMD_BAD_PARAM);
	assert_int_equal(port_cmd(hca, op, 1 << 16, 0, 4096), CMD_OK);
	/* A reset of the function takes nothing from the link. */
	hca_reset(hca);
	assert_int_equal(hca->port.lid, 7);
	assert_int_equal(hca->port.state, 4);
}

static void modify_takes_selected_capability_bits(void **state)
{
	struct hca *hca = *state;
	void *ctx = IFC_PTR(modify_hca_vport_context_in, in, hca_vport_context);
	const size_t len = IFC_BYTES(modify_hca_vport_context_in);
	uint32_t before = hca->port.capability_mask;

	memset(in, 0, sizeof(in));
	IFC_SET(hca_vport_context, ctx, cap_mask1, 0xffffffff);
	IFC_SET(hca_vport_context, ctx, cap_mask1_field_select, 0x10000);
	assert_int_equal(run(hca, MLX5_CMD_OP_MODIFY_HCA_VPORT_CONTEXT, 0, in, len, out, 16),
			 CMD_OK);
	assert_int_equal(hca->port.capability_mask, before | 0x10000);
	IFC_SET(hca_vport_context, ctx, cap_mask1, 0);
	assert_int_equal(run(hca, MLX5_CMD_OP_MODIFY_HCA_VPORT_CONTEXT, 0, in, len, out, 16),
			 CMD_OK);
	assert_int_equal(hca->port.capability_mask, before);
	IFC_SET(hca_vport_context, ctx, cap_mask1_field_select, 0x10001);
	assert_int_equal(run(hca, MLX5_CMD_OP_MODIFY_HCA_VPORT_CONTEXT, 0, in, len, out, 16),
			 CMD_BAD_PARAM);
	IFC_SET(hca_vport_context, ctx, cap_mask1_field_select, 0);
	IFC_SET(hca_vport_context, ctx, field_select, 1);
	assert_int_equal(run(hca, MLX5_CMD_OP_MODIFY_HCA_VPORT_CONTEXT, 0, in, len, out, 16),
			 CMD_BAD_PARAM);
}

static void port_has_one_gid_and_one_pkey(void **state)
{
	struct hca *hca = *state;
	const uint16_t gid = MLX5_CMD_OP_QUERY_HCA_VPORT_GID;
	const uint16_t pkey = MLX5_CMD_OP_QUERY_HCA_VPORT_PKEY;
	u8 *data = out + 16;
	u8 own[16];

	assert_int_equal(IFC_BYTES(query_hca_vport_gid_out), 16);
	assert_int_equal(port_cmd(hca, gid, 0, 0, 32), CMD_OK);
	assert_int_equal(be64_at(data), 0xfe80000000000000);
	assert_int_equal(be64_at(data + 8), hca->guid);
	port_gid(hca, 0, own);
	assert_memory_equal(own, data, 16);
	assert_true(port_has_gid(hca, own));
	own[15]++;
	assert_false(port_has_gid(hca, own));
	memset(own, 0, 16);		/* as an entry that is not in use */
	assert_false(port_has_gid(hca, own));
	assert_int_equal(port_cmd(hca, gid, 0, 1, 32), CMD_OK);
	assert_int_equal(be64_at(data + 8), 0);
	assert_int_equal(port_cmd(hca, gid, 0, 8, 32), CMD_BAD_INDEX);
	assert_int_equal(port_cmd(hca, gid, 0, 0, 31), CMD_BAD_OUTPUT_LEN);
	assert_int_equal(port_cmd(hca, gid, 0, 0xffff, 16 + 8 * 16), CMD_OK);
	assert_int_equal(port_cmd(hca, gid, 0, 0xffff, 16 + 8 * 16 - 1), CMD_BAD_OUTPUT_LEN);

	assert_int_equal(port_cmd(hca, pkey, 0, 0, 20), CMD_OK);
	assert_int_equal(be32_at(data), 0xffff);
	assert_int_equal(port_cmd(hca, pkey, 0, 127, 20), CMD_OK);
	assert_int_equal(be32_at(data), 0);
	assert_int_equal(port_cmd(hca, pkey, 0, 128, 20), CMD_BAD_INDEX);
	assert_int_equal(port_cmd(hca, pkey, 0, 0xffff, 16 + 128 * 4), CMD_OK);
	assert_int_equal(be32_at(data), 0xffff);
	assert_int_equal(port_cmd(hca, pkey, 0, 0xffff, 16 + 127 * 4), CMD_BAD_OUTPUT_LEN);
}

/* The state before, the call, and the events that the driver gets for it. */
static void port_change_sends_its_events(void **state)
{
	static const struct {
		uint16_t lid, sm_lid;
		u8 state;
		unsigned int count, sub_type[2];
	} t[] = {
		{ 1, 1, 4, 2, { 6, 4 } },	/* LID, active */
		{ 1, 1, 4, 0, { 0 } },
		{ 2, 1, 4, 1, { 6 } },
		{ 2, 9, 4, 1, { 9 } },		/* another SM: reregister */
		{ 2, 9, 1, 1, { 1 } },		/* down */
		{ 2, 9, 2, 1, { 5 } },		/* initialized */
		{ 2, 8, 4, 1, { 4 } },
		{ 3, 7, 4, 1, { 6 } },
	};
	struct hca *hca = *state;

	port_set(hca, 0, 0, 1);
	subscribed = 1 << 9;
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		events = 0;
		port_set(hca, t[i].lid, t[i].sm_lid, t[i].state);
		assert_int_equal(events, t[i].count);
		for (unsigned int e = 0; e < events; e++) {
			assert_int_equal(event[e].type, 9);
			assert_int_equal(event[e].sub_type, t[i].sub_type[e]);
			assert_int_equal(event[e].data[8], 0x10);
		}
	}
}

static enum cmd_status reg(struct hca *hca, uint16_t id, uint16_t op_mod, const void *data,
			   size_t len)
{
	memset(in, 0, sizeof(in));
	IFC_SET(access_register_in, in, register_id, id);
	if (data)
		memcpy(in + 16, data, len);
	return run(hca, MLX5_CMD_OP_ACCESS_REG, op_mod, in, 16 + len, out, 16 + len);
}

#define COUNTER_SET IFC_PTR(ppcnt_reg, out + 16, counter_set)
#define EXTENDED(field) IFC_GET64(ib_ext_port_cntrs_grp_data_layout, COUNTER_SET, field##_high)
#define ERRORS(field) IFC_GET(ib_port_cntrs_grp_data_layout, COUNTER_SET, field)

static void registers_answer_and_bad_ones_are_refused(void **state)
{
	struct hca *hca = *state;
	u8 *data = out + 16, desc[64] = "a new name", he[16] = { 0x80 }, ppcnt[512] = { 0 };

	port_set(hca, 1, 1, 4);
	assert_int_equal(reg(hca, 0x5004, 1, NULL, IFC_BYTES(ptys_reg)), CMD_OK);
	assert_int_equal(IFC_GET(ptys_reg, data, ib_link_width_oper), 4);
	assert_int_equal(IFC_GET(ptys_reg, data, ib_proto_oper), 0x20);
	assert_int_equal(reg(hca, 0x5003, 1, NULL, IFC_BYTES(pmtu_reg)), CMD_OK);
	assert_int_equal(IFC_GET(pmtu_reg, data, oper_mtu), 4096);
	assert_int_equal(reg(hca, 0x500f, 1, NULL, IFC_BYTES(pvlc_reg)), CMD_OK);
	assert_int_equal(IFC_GET(pvlc_reg, data, vl_hw_cap), 4);
	assert_int_equal(reg(hca, 0x7004, 0, he, 16), CMD_OK);
	assert_int_equal(reg(hca, 0x6001, 0, desc, 64), CMD_OK);
	assert_int_equal(reg(hca, 0x6001, 1, NULL, 64), CMD_OK);
	assert_memory_equal(data, desc, 64);
	/* Counters. */
	hca->port.count.in[0].packets = 0x123456789;
	hca->port.count.in[1] = (struct traffic) { 3, 300 };
	hca->port.count.out[1] = (struct traffic) { 4, 400 };
	IFC_SET(ppcnt_reg, ppcnt, grp, 0x21);
	assert_int_equal(reg(hca, 0x5008, 1, ppcnt, IFC_BYTES(ppcnt_reg)), CMD_OK);
	assert_int_equal(EXTENDED(port_rcv_pkts), 0x12345678c);
	assert_int_equal(EXTENDED(port_unicast_rcv_pkts), 0x123456789);
	assert_int_equal(EXTENDED(port_multicast_rcv_pkts), 3);
	assert_int_equal(EXTENDED(port_multicast_xmit_pkts), 4);
	assert_int_equal(EXTENDED(port_rcv_data), 300);
	assert_int_equal(EXTENDED(port_xmit_data), 400);
	hca->port.count.link_downed = 256;
	hca->port.count.rcv_errors = 7;
	hca->port.count.xmit_discards = 70000;
	IFC_SET(ppcnt_reg, ppcnt, grp, 0x20);
	assert_int_equal(reg(hca, 0x5008, 1, ppcnt, IFC_BYTES(ppcnt_reg)), CMD_OK);
	assert_int_equal(ERRORS(link_downed_counter), 0xff);
	assert_int_equal(ERRORS(port_rcv_errors), 7);
	assert_int_equal(ERRORS(port_xmit_discards), 0xffff);
	IFC_SET(ppcnt_reg, ppcnt, grp, 0);
	assert_int_equal(reg(hca, 0x5008, 1, ppcnt, IFC_BYTES(ppcnt_reg)), CMD_BAD_PARAM);
	/* What is not there, read only, or too short. */
	assert_int_equal(reg(hca, 0x9001, 1, NULL, 64), CMD_BAD_PARAM);
	assert_int_equal(reg(hca, 0x9001, 1, NULL, 64), CMD_BAD_PARAM);
	assert_int_equal(notes, 1);
	assert_int_equal(reg(hca, 0x5004, 0, NULL, IFC_BYTES(ptys_reg)), CMD_BAD_PARAM);
	assert_int_equal(reg(hca, 0x6001, 0, desc, 60), CMD_BAD_INPUT_LEN);
	assert_int_equal(reg(hca, 0x6001, 0, desc, 0), CMD_BAD_INPUT_LEN);
	IFC_SET(access_register_in, in, register_id, 0x6001);
	assert_int_equal(run(hca, MLX5_CMD_OP_ACCESS_REG, 1, in, 80, out, 79), CMD_BAD_OUTPUT_LEN);
}

#define TRAFFIC(field) IFC_GET64(query_vport_counter_out, out, field)

static void vport_counters_are_read_and_cleared(void **state)
{
	struct hca *hca = *state;
	const uint16_t op = MLX5_CMD_OP_QUERY_VPORT_COUNTER;
	u8 query[IFC_BYTES(query_vport_counter_in)] = { 0 };

	for (int i = 0; i < 2; i++) {
		hca->port.count.in[i] = (struct traffic) { 5 + i, 500 + i };
		hca->port.count.out[i] = (struct traffic) { 7 + i, 700 + i };
	}
	IFC_SET(query_vport_counter_in, query, clear, 1);
	assert_int_equal(run(hca, op, 0, query, sizeof(query), out, sizeof(out)), CMD_OK);
	assert_int_equal(TRAFFIC(received_ib_unicast.packets), 5);
	assert_int_equal(TRAFFIC(received_ib_unicast.octets), 500);
	assert_int_equal(TRAFFIC(received_ib_multicast.packets), 6);
	assert_int_equal(TRAFFIC(received_ib_multicast.octets), 501);
	assert_int_equal(TRAFFIC(transmitted_ib_unicast.packets), 7);
	assert_int_equal(TRAFFIC(transmitted_ib_unicast.octets), 700);
	assert_int_equal(TRAFFIC(transmitted_ib_multicast.packets), 8);
	assert_int_equal(TRAFFIC(transmitted_ib_multicast.octets), 701);
	for (int i = 0; i < 2; i++)
		assert_int_equal(hca->port.count.in[i].packets + hca->port.count.out[i].octets, 0);
}

/* UCX asks before it uses a port. */
static void port_is_in_no_link_aggregation(void **state)
{
	static const u8 none[IFC_BYTES(lagc)];
	u8 in[IFC_BYTES(query_lag_in)] = { 0 }, lag[IFC_BYTES(query_lag_out)];

	assert_int_equal(run(*state, MLX5_CMD_OP_QUERY_LAG, 0, in, sizeof(in), lag, sizeof(lag)),
			 CMD_OK);
	assert_memory_equal(IFC_PTR(query_lag_out, lag, ctx), none, sizeof(none));
	assert_int_equal(run(*state, MLX5_CMD_OP_QUERY_LAG, 0, in, sizeof(in), lag,
			     sizeof(lag) - 1), CMD_BAD_OUTPUT_LEN);
}

/* The performance agent's Set: each bit of CounterSelect clears its own. */
static void each_select_bit_clears_its_counter(void **state)
{
	static const struct {
		uint16_t attr, select;
		uint64_t packets_in[2], packets_out[2], octets_in, octets_out, errors[3];
	} t[] = {
		{ 0x1d, 0x00, { 1, 2 }, { 3, 4 }, 5, 6, { 7, 8, 9 } },
		{ 0x1d, 0x01, { 1, 2 }, { 3, 4 }, 5, 0, { 7, 8, 9 } },
		{ 0x1d, 0x02, { 1, 2 }, { 3, 4 }, 0, 6, { 7, 8, 9 } },
		{ 0x1d, 0x04, { 1, 2 }, { 0, 0 }, 5, 6, { 7, 8, 9 } },
		{ 0x1d, 0x08, { 0, 0 }, { 3, 4 }, 5, 6, { 7, 8, 9 } },
		{ 0x1d, 0x10, { 1, 2 }, { 0, 4 }, 5, 6, { 7, 8, 9 } },
		{ 0x1d, 0x20, { 0, 2 }, { 3, 4 }, 5, 6, { 7, 8, 9 } },
		{ 0x1d, 0x40, { 1, 2 }, { 3, 0 }, 5, 6, { 7, 8, 9 } },
		{ 0x1d, 0x80, { 1, 0 }, { 3, 4 }, 5, 6, { 7, 8, 9 } },
		{ 0x12, 0xf000, { 1, 2 }, { 3, 4 }, 5, 6, { 7, 8, 9 } },
		{ 0x12, 0x04, { 1, 2 }, { 3, 4 }, 5, 6, { 0, 8, 9 } },
		{ 0x12, 0x08, { 1, 2 }, { 3, 4 }, 5, 6, { 7, 0, 9 } },
		{ 0x12, 0x40, { 1, 2 }, { 3, 4 }, 5, 6, { 7, 8, 0 } },
	};
	struct hca *hca = *state;
	struct port *p = &hca->port;
	u8 *mad = in + 16, *answer = out + 16;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		p->count.in[0] = (struct traffic) { 1, 5 };
		p->count.in[1] = (struct traffic) { 2, 5 };
		p->count.out[0] = (struct traffic) { 3, 6 };
		p->count.out[1] = (struct traffic) { 4, 6 };
		p->count.link_downed = 7;
		p->count.rcv_errors = 8;
		p->count.xmit_discards = 9;
		memset(in, 0, sizeof(in));
		mad[1] = 4;
		mad[3] = 2;
		put_be16(mad + 16, t[i].attr);
		put_be16(mad + 66, t[i].select);
		assert_int_equal(run(hca, MLX5_CMD_OP_MAD_IFC, 0, in, 272, out, 272), CMD_OK);
		assert_int_equal(answer[3], 0x81);
		assert_int_equal(be16_at(answer + 4), 0);
		for (int k = 0; k < 2; k++) {
			assert_int_equal(p->count.in[k].packets, t[i].packets_in[k]);
			assert_int_equal(p->count.out[k].packets, t[i].packets_out[k]);
			assert_int_equal(p->count.in[k].octets, t[i].octets_in);
			assert_int_equal(p->count.out[k].octets, t[i].octets_out);
		}
		assert_int_equal(p->count.link_downed, t[i].errors[0]);
		assert_int_equal(p->count.rcv_errors, t[i].errors[1]);
		assert_int_equal(p->count.xmit_discards, t[i].errors[2]);
	}
	/* An agent that is not here. */
	mad[1] = 0x0a;
	assert_int_equal(run(hca, MLX5_CMD_OP_MAD_IFC, 0, in, 272, out, 272), CMD_OK);
	assert_int_equal(be16_at(answer + 4), 0x0c);
}

/* Multicast. */

#define GROUPS (1u << HCA_LOG_MCGS)

static struct qp qps[HCA_MCG_QPS + 1];
static unsigned int called;

static void make_qps(struct hca *hca)
{
	memset(qps, 0, sizeof(qps));
	for (unsigned int i = 0; i < HCA_MCG_QPS + 1; i++) {
		qps[i].hca = hca;
		qps[i].service = QP_UD;
		list_init(&qps[i].mcgs);
		qps[i].number = table_add(&hca->qps, &qps[i]);
	}
}

static enum cmd_status group(struct hca *hca, uint16_t op, uint32_t qpn, uint32_t number)
{
	memset(in, 0, 32);
	IFC_SET(attach_to_mcg_in, in, qpn, qpn);
	in[16] = 0xff;
	put_be32(in + 28, number);
	return run(hca, op, 0, in, 32, out, 16);
}

static enum cmd_status attach(struct hca *hca, uint32_t qpn, uint32_t number)
{
	return group(hca, MLX5_CMD_OP_ATTACH_TO_MCG, qpn, number);
}

static enum cmd_status detach(struct hca *hca, uint32_t qpn, uint32_t number)
{
	return group(hca, MLX5_CMD_OP_DETACH_FROM_MCG, qpn, number);
}

static void call(struct qp *qp, void *arg)
{
	called++;
}

static unsigned int members(struct hca *hca, uint32_t number)
{
	u8 gid[16] = { 0xff };

	put_be32(gid + 12, number);
	called = 0;
	mcg_each(hca, gid, call, NULL);
	return called;
}

static void qps_join_and_leave_multicast_groups(void **state)
{
	struct hca *hca = *state;

	make_qps(hca);
	assert_int_equal(members(hca, 1), 0);
	assert_int_equal(attach(hca, qps[0].number, 1), CMD_OK);
	assert_int_equal(attach(hca, qps[0].number, 1), CMD_OK);
	assert_int_equal(attach(hca, qps[1].number, 1), CMD_OK);
	assert_int_equal(attach(hca, qps[0].number, 2), CMD_OK);
	assert_int_equal(members(hca, 1), 2);
	assert_int_equal(members(hca, 2), 1);
	assert_int_equal(detach(hca, qps[1].number, 2), CMD_BAD_RES);
	assert_int_equal(detach(hca, qps[1].number, 3), CMD_BAD_RES);
	assert_int_equal(detach(hca, 0xffffff, 1), CMD_BAD_RES);
	assert_int_equal(detach(hca, qps[1].number, 1), CMD_OK);
	assert_int_equal(members(hca, 1), 1);
	/* A QP that goes. */
	mcg_detach_all(&qps[0]);
	assert_int_equal(members(hca, 1) + members(hca, 2), 0);
	assert_int_equal(hca->memory, 0);
	/* Of another kind, none at all, no multicast GID. */
	qps[0].service = QP_RC;
	assert_int_equal(attach(hca, qps[0].number, 1), CMD_BAD_PARAM);
	assert_int_equal(attach(hca, 0xffffff, 1), CMD_BAD_RES);
	attach(hca, qps[1].number, 1);
	in[16] = 0xfe;
	assert_int_equal(run(hca, MLX5_CMD_OP_ATTACH_TO_MCG, 0, in, 32, out, 16), CMD_BAD_PARAM);
}

static void attach_beyond_the_limits_is_refused(void **state)
{
	struct hca *hca = *state;

	make_qps(hca);
	for (unsigned int i = 0; i < HCA_MCG_QPS; i++)
		assert_int_equal(attach(hca, qps[i].number, 0), CMD_OK);
	assert_int_equal(attach(hca, qps[HCA_MCG_QPS].number, 0), CMD_LIM_EXCEEDED);
	assert_int_equal(members(hca, 0), HCA_MCG_QPS);
	for (unsigned int i = 1; i < GROUPS; i++)
		assert_int_equal(attach(hca, qps[0].number, i), CMD_OK);
	assert_int_equal(attach(hca, qps[0].number, GROUPS), CMD_LIM_EXCEEDED);
	assert_int_equal(detach(hca, qps[0].number, 1), CMD_OK);
	assert_int_equal(attach(hca, qps[0].number, GROUPS), CMD_OK);
	/* And no memory. */
	mcg_reset(hca);
	assert_int_equal(hca->memory, 0);
	hca->memory = HCA_MEMORY;
	assert_int_equal(attach(hca, qps[0].number, 0), CMD_NO_RESOURCES);
	hca->memory = HCA_MEMORY - 100;
	assert_int_equal(attach(hca, qps[0].number, 0), CMD_NO_RESOURCES);
	assert_int_equal(hca->memory, HCA_MEMORY - 100);
	hca->memory = 0;
	assert_int_equal(members(hca, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, up, rig_teardown)
		T(vport_context_describes_the_port),
		T(modify_takes_selected_capability_bits),
		T(port_has_one_gid_and_one_pkey),
		T(port_change_sends_its_events),
		T(registers_answer_and_bad_ones_are_refused),
		T(vport_counters_are_read_and_cleared),
		T(port_is_in_no_link_aggregation),
		T(each_select_bit_clears_its_counter),
		T(qps_join_and_leave_multicast_groups),
		T(attach_beyond_the_limits_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
