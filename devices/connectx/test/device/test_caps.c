// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* The capabilities that the model reports, and what a guest can change of them. */
#include "fake_parts.h"
#include "caps.h"
#include "memic.h"

enum { GENERAL, ODP = 2, ATOMIC = 3, FLOW_TABLE = 7, DEVICE_MEMORY = 0xf };
enum { MAX, CUR };

static u8 in[16 + 4096], out[16 + 4096];
static u8 *const caps = out + 16;

static enum cmd_status query(struct hca *hca, unsigned int type, unsigned int which)
{
	u8 q[16] = { 0 };

	return run(hca, MLX5_CMD_OP_QUERY_HCA_CAP, type << 1 | which, q, 16, out, sizeof(out));
}

/* What the test wrote into in + 16 on. */
static enum cmd_status set(struct hca *hca, unsigned int type)
{
	u8 answer[16];

	memset(in, 0, 16);
	return run(hca, MLX5_CMD_OP_SET_HCA_CAP, type << 1, in, sizeof(in), answer, 16);
}

static void enabled(struct hca *hca)
{
	rig_up(hca);
	hca->initialized = false;
}

/* Those whose value the driver depends on. */
static void general_caps_match_the_drivers_needs(void **state)
{
	static const struct { size_t bit, width; uint32_t value; } t[] = {
#define CHECK(name_, value_) { IFC_BIT(cmd_hca_cap, name_), IFC_WIDTH(cmd_hca_cap, name_), value_ }
		CHECK(port_type, 0), CHECK(ib_virt, 1), CHECK(num_ports, 1), CHECK(xrc, 1),
		CHECK(cqe_version, 1), CHECK(vport_counters, 1), CHECK(atomic, 1), CHECK(pg, 1),
		CHECK(null_mkey, 1), CHECK(imaicl, 1), CHECK(cq_resize, 1),
		CHECK(cq_moderation, 1), CHECK(device_memory, 1), CHECK(sctr_data_cqe, 1),
		CHECK(device_frequency_khz, 156000), CHECK(log_pg_sz, 12), CHECK(log_max_msg, 30),
		CHECK(log_max_mkey, HCA_LOG_MKEYS), CHECK(bf, 1), CHECK(log_max_sq, 0),
		CHECK(fixed_buffer_size, 1), CHECK(umr_extended_translation_offset, 1),
		CHECK(umr_indirect_mkey_disabled, 0), CHECK(max_indirection, MKEY_DEPTH - 1),
		CHECK(max_wqe_sz_rq, RECV_SEGS * 16), CHECK(log_max_ra_res_qp, 4),
		CHECK(cmdif_checksum, 0), CHECK(uar_4k, 0), CHECK(block_lb_mc, 1), CHECK(cq_oi, 1),
		CHECK(relaxed_ordering_write_umr, 1), CHECK(relaxed_ordering_read_umr, 1),
		CHECK(log_max_uctx, HCA_LOG_UCTXS), CHECK(log_max_umem, HCA_LOG_UMEMS),
		CHECK(cqe_128_always, 1), CHECK(dct, 1), CHECK(log_max_ra_res_dc, 4),
		/* Not there, and so not said to be there. */
		CHECK(nic_flow_table, 0), CHECK(eswitch_manager, 0), CHECK(roce, 0), CHECK(qos, 0),
		CHECK(vport_group_manager, 0), CHECK(eth_net_offloads, 0), CHECK(hca_cap_2, 0),
		CHECK(mcam_reg, 0), CHECK(pcam_reg, 0), CHECK(uctx_cap, 0), CHECK(umem_uid_0, 0),
		CHECK(log_max_dci_stream_channels, 0), CHECK(ece_support, 0),
		CHECK(max_qp_cnt, 0), CHECK(debug, 0), CHECK(set_deth_sqpn, 0),
	};
	struct hca *hca = *state;

	for (unsigned int which = MAX; which <= CUR; which++) {
		assert_int_equal(query(hca, GENERAL, which), CMD_OK);
		for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++)
			if (ifc_get(caps, t[i].bit, t[i].width) != t[i].value)
				fail_msg("field %zu of the test's table is %#x, not %#x", i,
					 ifc_get(caps, t[i].bit, t[i].width), t[i].value);
	}
	/* The limits of queues are those that the transport has. */
	assert_int_equal(1 << CAP(hca, log_max_ra_req_qp), QP_READS);
}

static void other_cap_types_are_bad_param(void **state)
{
	struct hca *hca = *state;
	u8 q[16] = { 0 };

	for (unsigned int type = 0; type < 0x40; type++)
		assert_int_equal(query(hca, type, CUR), type == GENERAL || type == ODP ||
				 type == ATOMIC || type == FLOW_TABLE || type == DEVICE_MEMORY ?
				 CMD_OK : CMD_BAD_PARAM);
	assert_int_equal(query(hca, 0x7fff, CUR), CMD_BAD_PARAM);
	q[8] = 0x80;
	assert_int_equal(run(hca, MLX5_CMD_OP_QUERY_HCA_CAP, 1, q, 16, out, sizeof(out)),
			 CMD_BAD_PARAM);
	enabled(hca);
	assert_int_equal(set(hca, DEVICE_MEMORY), CMD_BAD_PARAM);
	assert_int_equal(set(hca, 1), CMD_BAD_PARAM);
}

/* As the driver does it: all that is current, with a few fields changed. */
static void set_hca_cap_changes_writable_fields_only(void **state)
{
	struct hca *hca = *state;

	enabled(hca);
	assert_int_equal(query(hca, GENERAL, CUR), CMD_OK);
	memcpy(in + 16, caps, 4096);
	IFC_SET(cmd_hca_cap, in + 16, log_max_qp, 7);
	IFC_SET(cmd_hca_cap, in + 16, xrc, 0);
	IFC_SET(cmd_hca_cap, in + 16, roce, 1);
	IFC_SET(cmd_hca_cap, in + 16, log_max_mkey, 30);
	assert_int_equal(set(hca, GENERAL), CMD_OK);
	query(hca, GENERAL, CUR);
	assert_int_equal(IFC_GET(cmd_hca_cap, caps, log_max_qp), 7);
	assert_int_equal(IFC_GET(cmd_hca_cap, caps, xrc), 1);
	assert_int_equal(IFC_GET(cmd_hca_cap, caps, roce), 0);
	assert_int_equal(IFC_GET(cmd_hca_cap, caps, log_max_mkey), HCA_LOG_MKEYS);
	assert_int_equal(CAP(hca, log_max_qp), 7);
	query(hca, GENERAL, MAX);
	assert_int_equal(IFC_GET(cmd_hca_cap, caps, log_max_qp), HCA_LOG_QPS);
	/* A reset, and DISABLE_HCA too, forget it. */
	hca_reset(hca);
	assert_int_equal(CAP(hca, log_max_qp), HCA_LOG_QPS);
}

static void caps_above_the_maximum_are_bad_param(void **state)
{
	struct hca *hca = *state;

	enabled(hca);
	memset(in, 0, sizeof(in));
	IFC_SET(cmd_hca_cap, in + 16, log_max_qp, HCA_LOG_QPS + 1);
	assert_int_equal(set(hca, GENERAL), CMD_BAD_PARAM);
	IFC_SET(cmd_hca_cap, in + 16, log_max_qp, 5);
	IFC_SET(cmd_hca_cap, in + 16, uar_4k, 1);
	assert_int_equal(set(hca, GENERAL), CMD_BAD_PARAM);
	assert_int_equal(CAP(hca, log_max_qp), HCA_LOG_QPS);
}

static void set_hca_cap_in_wrong_state_is_bad_sys_state(void **state)
{
	struct hca *hca = *state;

	memset(in, 0, sizeof(in));
	assert_int_equal(set(hca, ATOMIC), CMD_BAD_SYS_STATE);
	rig_up(hca);
	assert_int_equal(set(hca, ATOMIC), CMD_BAD_SYS_STATE);
}

/* The driver sends the byte order alone, and zeros. */
static void set_of_atomic_caps_keeps_other_fields(void **state)
{
	struct hca *hca = *state;

	enabled(hca);
	memset(in, 0, sizeof(in));
	IFC_SET(atomic_caps, in + 16, atomic_req_8B_endianness_mode, 1);
	assert_int_equal(set(hca, ATOMIC), CMD_OK);
	query(hca, ATOMIC, CUR);
	assert_int_equal(IFC_GET(atomic_caps, caps, atomic_req_8B_endianness_mode), 1);
	assert_int_equal(IFC_GET(atomic_caps, caps, atomic_operations), 3);
	assert_int_equal(IFC_GET(atomic_caps, caps, atomic_size_qp), 8);
	assert_int_equal(IFC_GET(atomic_caps, caps, supported_atomic_req_8B_endianness_mode_1), 1);
	query(hca, ATOMIC, MAX);
	assert_int_equal(IFC_GET(atomic_caps, caps, atomic_req_8B_endianness_mode), 0);
	IFC_SET(atomic_caps, in + 16, atomic_req_8B_endianness_mode, 2);
	assert_int_equal(set(hca, ATOMIC), CMD_BAD_PARAM);
}

static void set_hca_cap_switches_odp_on_and_off(void **state)
{
	struct hca *hca = *state;
	void *memory = IFC_PTR(odp_cap, caps, memory_page_fault_scheme_cap), *rc;

	enabled(hca);
	query(hca, ODP, MAX);
	assert_int_equal(IFC_GET(odp_cap, caps, mem_page_fault), 1);
	assert_int_equal(IFC_GET(odp_scheme_cap, memory, page_prefetch), 1);
	query(hca, ODP, CUR);
	assert_int_equal(IFC_GET(odp_cap, caps, mem_page_fault), 0);
	memcpy(in + 16, caps, 4096);
	IFC_SET(odp_cap, in + 16, mem_page_fault, 1);
	assert_int_equal(set(hca, ODP), CMD_OK);
	query(hca, ODP, CUR);
	assert_int_equal(IFC_GET(odp_cap, caps, mem_page_fault), 1);
	rc = IFC_PTR(odp_scheme_cap, memory, rc_odp_caps);
	assert_int_equal(be32_at(rc), 0xfc000000);
	assert_int_equal(be32_at(IFC_PTR(odp_scheme_cap, memory, ud_odp_caps)), 0xc4000000);
	assert_int_equal(be32_at(IFC_PTR(odp_scheme_cap, memory, dc_odp_caps)), 0xfc000000);
	/* By the transports: nothing, but for DC, where libmlx5 looks. */
	rc = IFC_PTR(odp_scheme_cap, caps, dc_odp_caps);
	assert_int_equal(be32_at(rc), 0xfc000000);
	memset(rc, 0, 4);
	for (size_t i = 0; i < IFC_BYTES(odp_scheme_cap); i++)
		assert_int_equal(caps[i], 0);
	IFC_SET(odp_cap, in + 16, mem_page_fault, 0);
	assert_int_equal(set(hca, ODP), CMD_OK);
	query(hca, ODP, CUR);
	for (size_t i = 0; i < IFC_BYTES(odp_scheme_cap); i++)
		assert_int_equal(caps[i], 0);
}

static void device_memory_caps_describe_memic(void **state)
{
	struct hca *hca = *state;

	query(hca, DEVICE_MEMORY, CUR);
	assert_int_equal(IFC_GET(device_mem_cap, caps, memic), 1);
	assert_int_equal(IFC_GET64(device_mem_cap, caps, memic_bar_start_addr), HCA_MEMIC_START);
	assert_int_equal(IFC_GET(device_mem_cap, caps, memic_bar_size), HCA_MEMIC_SIZE);
	assert_int_equal(IFC_GET(device_mem_cap, caps, log_min_memic_alloc_size), 6);
	/* As rdma-core's test_mlx5_dm_ops.py looks at it, from the begin of the output. */
	assert_int_equal(be32_at(out + 80) & 3, 3);
	assert_int_equal(out[20] & out[22] & 1, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
		T(general_caps_match_the_drivers_needs),
		T(other_cap_types_are_bad_param),
		T(set_hca_cap_changes_writable_fields_only),
		T(caps_above_the_maximum_are_bad_param),
		T(set_hca_cap_in_wrong_state_is_bad_sys_state),
		T(set_of_atomic_caps_keeps_other_fields),
		T(set_hca_cap_switches_odp_on_and_off),
		T(device_memory_caps_describe_memic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
