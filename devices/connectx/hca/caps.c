// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Capabilities: what QUERY_HCA_CAP says that the device can do, and the few that
 * SET_HCA_CAP may change before INIT_HCA (PRM, "HCA capabilities"; layouts cmd_hca_cap,
 * odp_cap, atomic_caps and device_mem_cap of mlx5_ifc.h).
 *
 * "max" is the table below and never changes; "cur" is in force.  A SET carries a whole
 * structure, in which some drivers leave zero what they do not mean to change: so only
 * writable fields are taken, a value is checked against its limit, and all is refused if
 * one of them is.  What is not in the table is 0: the device cannot do it.
 */
#include "caps.h"
#include "direct.h"
#include "hca.h"
#include "ifc.h"
#include "memic.h"
#include "wqe.h"
#include <stdlib.h>

enum { CAP_GENERAL = 0x0, CAP_ODP = 0x2, CAP_ATOMIC = 0x3, CAP_FLOW_TABLE = 0x7,
       CAP_DEVICE_MEMORY = 0xf, CAP_GENERAL_2 = 0x20 };

struct caps {
	u8 general[IFC_BYTES(cmd_hca_cap)];
	u8 odp[IFC_BYTES(odp_cap)];
	u8 atomic[IFC_BYTES(atomic_caps)];
	u8 device_memory[IFC_BYTES(device_mem_cap)];
};

struct field {
	size_t bit, width;
	uint32_t value;
};

#define GENERAL(name_, value_) \
	{ IFC_BIT(cmd_hca_cap, name_), IFC_WIDTH(cmd_hca_cap, name_), value_ }

/* What the 6 bits that count 16 bytes of a WQE can say: the library posts what fits. */
#define SEND_WQE_BYTES (63 * 16)
/* The driver takes a 16th of it for its limit of segments. */
#define RECV_WQE_BYTES 512

static const struct field general[] = {
	/* The port: one, InfiniBand, described by the QUERY_HCA_VPORT_* commands (not MADs). */
	GENERAL(port_type, 0),
	GENERAL(num_ports, 1),
	GENERAL(native_port_num, 1),
	GENERAL(ib_virt, 1),
	GENERAL(vport_counters, 1),	/* else the performance agent goes through MAD_IFC */
	GENERAL(gid_table_size, 0),	/* 8 << 0 entries */
	GENERAL(pkey_table_size, 0),	/* 128 << 0 entries */
	GENERAL(pkv, 1),
	GENERAL(qkv, 1),
	GENERAL(log_max_msg, MESSAGE_LOG_MAX),
	GENERAL(local_ca_ack_delay, 16),	/* 0.27 s: a model may be scheduled out */
	GENERAL(stat_rate_support, 0),	/* no rate is ever limited */
	GENERAL(log_max_mcg, HCA_LOG_MCGS),
	GENERAL(max_qp_mcg, HCA_MCG_QPS),

	/* Transports. */
	GENERAL(rc, 1),
	GENERAL(uc, 1),
	GENERAL(ud, 1),
	GENERAL(xrc, 1),		/* mlx5_ib does not load without */
	GENERAL(dct, 1),		/* DC, both initiators and targets; without streams */
	GENERAL(atomic, 1),
	GENERAL(log_max_ra_req_qp, 4),	/* QP_READS */
	GENERAL(log_max_ra_res_qp, 4),
	GENERAL(log_max_ra_req_dc, 4),
	GENERAL(log_max_ra_res_dc, 4),
	GENERAL(compact_address_vector, 1),	/* a UD address vector of 16 bytes or 48 */
	GENERAL(set_deth_sqpn, 0),	/* 1 costs a UD QP for each pkey */
	GENERAL(block_lb_mc, 1),	/* a QP need not hear itself */

	/* Objects. */
	GENERAL(log_max_qp, HCA_LOG_QPS),
	GENERAL(log_max_cq, HCA_LOG_CQS),
	GENERAL(log_max_eq, HCA_LOG_EQS),
	GENERAL(log_max_srq, HCA_LOG_SRQS),
	GENERAL(log_max_rmp, HCA_LOG_SRQS),
	GENERAL(log_max_mkey, HCA_LOG_MKEYS),
	GENERAL(log_max_pd, HCA_LOG_PDS),
	GENERAL(log_max_xrcd, HCA_LOG_XRCDS),
	GENERAL(log_max_transport_domain, HCA_LOG_TDS),
	GENERAL(log_max_uctx, HCA_LOG_UCTXS),	/* DEVX; uctx_cap 0: no permissions to ask for */
	GENERAL(log_max_umem, HCA_LOG_UMEMS),
	GENERAL(log_max_qp_sz, HCA_LOG_MAX_WQ),
	GENERAL(log_max_srq_sz, HCA_LOG_MAX_WQ),
	GENERAL(log_max_cq_sz, HCA_LOG_MAX_CQ),
	GENERAL(log_max_eq_sz, HCA_LOG_MAX_EQ),
	GENERAL(max_wqe_sz_sq, SEND_WQE_BYTES),
	GENERAL(max_wqe_sz_rq, RECV_WQE_BYTES),
	GENERAL(max_sgl_for_optimized_performance, 4),

	/* Completions. */
	GENERAL(cqe_version, 1),	/* a CQE has the user index of its QP */
	GENERAL(cq_resize, 1),
	GENERAL(cq_moderation, 1),
	GENERAL(cqe_128_always, 1),	/* both halves of a CQE of 128 bytes are written */
	GENERAL(cq_oi, 1),
	GENERAL(sctr_data_cqe, 1),	/* inline receive */
	GENERAL(device_frequency_mhz, HCA_KHZ / 1000),
	GENERAL(device_frequency_khz, HCA_KHZ),

	/* Memory. */
	GENERAL(log_pg_sz, 12),
	GENERAL(log_max_mrw_sz, 32),
	GENERAL(log_max_klm_list_size, 16),
	GENERAL(max_indirection, 4),	/* MKEY_DEPTH without the first */
	GENERAL(imaicl, 1),		/* memory windows of both types */
	GENERAL(null_mkey, 1),
	GENERAL(dump_fill_mkey, 1),
	GENERAL(fixed_buffer_size, 1),	/* KSM lists, which implicit ODP is made of */
	GENERAL(umr_extended_translation_offset, 1),
	GENERAL(umr_fence, 2),		/* a UMR is over before the next WQE begins */
	/* Accesses are always in order, which is more than such a key asks for. */
	GENERAL(relaxed_ordering_read, 1),
	GENERAL(relaxed_ordering_read_umr, 1),
	GENERAL(relaxed_ordering_write, 1),
	GENERAL(relaxed_ordering_write_umr, 1),
	GENERAL(pg, 1),
	GENERAL(device_memory, 1),

	/* Doorbells. */
	GENERAL(uar_sz, 5),		/* 32 MiB */
	GENERAL(num_of_uars_per_page, 1),
	GENERAL(bf, 1),
	GENERAL(log_bf_reg_size, 9),
	/* 0: a driver that sees BlueFlame and SQs makes an SQ to try write combining with. */
	GENERAL(log_max_sq, 0),

	/* The interface. */
	GENERAL(cmdif_checksum, 0),
	GENERAL(driver_version, 1),
	GENERAL(force_teardown, 1),	/* power-off need not destroy 3000 mkeys */
	GENERAL(fast_teardown, 1),
};

/* The driver asks for CAP_GENERAL_2 if hca_cap_2 says so; it must find query_vuid there. */
static const struct field data_direct[] = {
	GENERAL(hca_cap_2, 1),
	GENERAL(vhca_id, DIRECT_VHCA),
	GENERAL(crossing_vhca_mkey, 1),
	GENERAL(data_direct, 1),
};

static void set_fields(u8 *caps, const struct field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++)
		ifc_set(caps, fields[i].bit, fields[i].width, fields[i].value);
}

static void fill_general(const struct hca *hca, u8 *caps)
{
	memset(caps, 0, IFC_BYTES(cmd_hca_cap));
	set_fields(caps, general, sizeof(general) / sizeof(*general));
	if (hca->direct)
		set_fields(caps, data_direct, sizeof(data_direct) / sizeof(*data_direct));
	if (hca->no_paging)
		IFC_SET(cmd_hca_cap, caps, pg, 0);
}

/*
 * On-demand paging by the memory scheme; the scheme of the transports has nothing.  The
 * driver takes what it finds in "max" and switches mem_page_fault on.
 */
static void fill_odp(u8 *caps, bool max)
{
	void *memory = IFC_PTR(odp_cap, caps, memory_page_fault_scheme_cap);

	memset(caps, 0, IFC_BYTES(odp_cap));
	IFC_SET(odp_scheme_cap, memory, page_prefetch, 1);
#define ALL_OF(transport) do {						\
	void *t_ = IFC_PTR(odp_scheme_cap, memory, transport);		\
									\
	IFC_SET(odp_per_transport_service_cap, t_, send, 1);		\
	IFC_SET(odp_per_transport_service_cap, t_, receive, 1);		\
	IFC_SET(odp_per_transport_service_cap, t_, write, 1);		\
	IFC_SET(odp_per_transport_service_cap, t_, read, 1);		\
	IFC_SET(odp_per_transport_service_cap, t_, atomic, 1);		\
	IFC_SET(odp_per_transport_service_cap, t_, srq_receive, 1);	\
} while (0)
	ALL_OF(rc_odp_caps);
	ALL_OF(xrc_odp_caps);
	ALL_OF(dc_odp_caps);
#undef ALL_OF
	memory = IFC_PTR(odp_scheme_cap, memory, ud_odp_caps);
	IFC_SET(odp_per_transport_service_cap, memory, send, 1);
	IFC_SET(odp_per_transport_service_cap, memory, receive, 1);
	IFC_SET(odp_per_transport_service_cap, memory, srq_receive, 1);
	IFC_SET(odp_cap, caps, mem_page_fault, max);
}

/*
 * The driver chose a scheme.  libmlx5 looks for what DC can do in the other one, whatever is
 * in force, so it is there too as long as the scheme is that of the memory.
 */
static void switch_odp(u8 *caps, bool memory_scheme)
{
	const void *memory = IFC_PTR(odp_cap, caps, memory_page_fault_scheme_cap);
	void *transport = IFC_PTR(odp_cap, caps, transport_page_fault_scheme_cap);
	const size_t bytes = IFC_BYTES(odp_per_transport_service_cap);

	IFC_SET(odp_cap, caps, mem_page_fault, memory_scheme);
	memset(IFC_PTR(odp_scheme_cap, transport, dc_odp_caps), 0, bytes);
	if (memory_scheme)
		memcpy(IFC_PTR(odp_scheme_cap, transport, dc_odp_caps),
		       IFC_PTR(odp_scheme_cap, memory, dc_odp_caps), bytes);
}

/*
 * Compare and swap, fetch and add, of 8 bytes.  The bits for extended atomics are 0: the
 * driver would only use them to choose another atomic_mode for its QPs; masked atomics of
 * ULPs need no capability.
 */
static void fill_atomic(u8 *caps)
{
	memset(caps, 0, IFC_BYTES(atomic_caps));
	IFC_SET(atomic_caps, caps, atomic_operations, 3);
	IFC_SET(atomic_caps, caps, atomic_size_qp,
		MLX5_ATOMIC_CAPS_ATOMIC_SIZE_QP_8_BYTES);
	IFC_SET(atomic_caps, caps, atomic_size_dc,
		MLX5_ATOMIC_CAPS_ATOMIC_SIZE_DC_8_BYTES);
	/* The original value is returned in the byte order of the host. */
	IFC_SET(atomic_caps, caps, supported_atomic_req_8B_endianness_mode_1, 1);
}

static void fill_device_memory(u8 *caps)
{
	memset(caps, 0, IFC_BYTES(device_mem_cap));
	IFC_SET(device_mem_cap, caps, memic, 1);
	IFC_SET(device_mem_cap, caps, log_min_memic_alloc_size, HCA_LOG_MEMIC_BLOCK);
	IFC_SET(device_mem_cap, caps, log_max_memic_addr_alignment, HCA_LOG_MEMIC_ALIGN);
	IFC_SET64(device_mem_cap, caps, memic_bar_start_addr, HCA_MEMIC_START);
	/* In bytes; the driver divides it by the page size. */
	IFC_SET(device_mem_cap, caps, memic_bar_size, HCA_MEMIC_SIZE);
	IFC_SET(device_mem_cap, caps, max_memic_size, HCA_MEMIC_SIZE);
	IFC_SET(device_mem_cap, caps, memic_operations, BIT(HCA_MEMIC_INCREMENT) |
		BIT(HCA_MEMIC_TEST_AND_SET));
	/*
	 * The sizes of these two, a bit for each power of two: a byte only.  mlx5_ifc.h does
	 * not name the fields; rdma-core's tests/test_mlx5_dm_ops.py reads them here.
	 */
	caps[4] = 1;
	caps[6] = 1;
}

void caps_init(struct hca *hca)
{
	if (!hca->caps)
		hca->caps = malloc(sizeof(*hca->caps));
	if (!hca->caps)
		return;
	fill_general(hca, hca->caps->general);
	fill_odp(hca->caps->odp, false);
	fill_atomic(hca->caps->atomic);
	fill_device_memory(hca->caps->device_memory);
}

void caps_free(struct hca *hca)
{
	free(hca->caps);
	hca->caps = NULL;
}

const void *caps_general(const struct hca *hca)
{
	return hca->caps->general;
}

/* There is no other function to ask for. */
static bool own_function(const struct cmd *c)
{
	return !IFC_GET(query_hca_cap_in, c->in, other_function) &&
	       !IFC_GET(query_hca_cap_in, c->in, function_id);
}

/* Processes that query by DEVX (rdma-core's tests do) have room for the fields they know. */
#define QUERY_HEAD (IFC_BIT(query_hca_cap_out, capability) / 8)

static enum cmd_status cmd_query_hca_cap(struct hca *hca, struct cmd *c)
{
	u8 to[IFC_WIDTH(query_hca_cap_out, capability) / 8] = { };
	size_t room = c->out_len - QUERY_HEAD;
	bool max = !(c->op_mod & 1);
	struct caps *caps = hca->caps;

	cmd_says(c, "%s of type %#x", max ? "max" : "cur", c->op_mod >> 1);
	if (!own_function(c))
		return cmd_refuse(c, CMD_BAD_PARAM);
	switch (c->op_mod >> 1) {
	case CAP_GENERAL:
		memcpy(to, caps->general, sizeof(caps->general));
		if (max)
			fill_general(hca, to);
		break;
	case CAP_ODP:
		memcpy(to, caps->odp, sizeof(caps->odp));
		if (max)
			fill_odp(to, true);
		break;
	case CAP_ATOMIC:
		memcpy(to, caps->atomic, sizeof(caps->atomic));
		if (max)
			fill_atomic(to);
		break;
	case CAP_DEVICE_MEMORY:
		memcpy(to, caps->device_memory, sizeof(caps->device_memory));
		break;
	case CAP_GENERAL_2:
		if (!hca->direct)
			return cmd_refuse(c, CMD_BAD_PARAM);
		IFC_SET(cmd_hca_cap_2, to, query_vuid, 1);
		break;
	case CAP_FLOW_TABLE:	/* zeros: there are none, and some processes ask */
		break;
	default:
		return cmd_refuse(c, CMD_BAD_PARAM);
	}
	memcpy(IFC_PTR(query_hca_cap_out, c->out, capability), to,
	       room < sizeof(to) ? room : sizeof(to));
	return CMD_OK;
}

/*
 * The writable general ones, with the highest value that is allowed.  What does more than
 * the driver's own profile asks for, such as UARs of another size, is not offered.
 */
static const struct field writable[] = {
	GENERAL(log_max_qp, HCA_LOG_QPS),
	GENERAL(pkey_table_size, 0),
	GENERAL(cmdif_checksum, 0),
	GENERAL(log_uar_page_sz, 0),
	GENERAL(uar_4k, 0),
};

static enum cmd_status set_general(struct cmd *c, u8 *caps, const u8 *from)
{
	const size_t count = sizeof(writable) / sizeof(*writable);

	if (1u << IFC_GET(cmd_hca_cap, from, log_max_qp) <= HCA_QP_FIRST)
		return cmd_refuse(c, CMD_BAD_PARAM);
	for (size_t i = 0; i < count; i++)
		if (ifc_get(from, writable[i].bit, writable[i].width) > writable[i].value)
			return cmd_refuse(c, CMD_BAD_PARAM);
	for (size_t i = 0; i < count; i++)
		ifc_set(caps, writable[i].bit, writable[i].width,
			ifc_get(from, writable[i].bit, writable[i].width));
	cmd_says(c, "log_max_qp %u", IFC_GET(cmd_hca_cap, caps, log_max_qp));
	return CMD_OK;
}

static enum cmd_status cmd_set_hca_cap(struct hca *hca, struct cmd *c)
{
	const u8 *from = IFC_PTR(set_hca_cap_in, c->in, capability);
	uint32_t mode;

	if (!own_function(c))
		return cmd_refuse(c, CMD_BAD_PARAM);
	if (!hca->enabled || hca->initialized)
		return cmd_refuse(c, CMD_BAD_SYS_STATE);
	cmd_says(c, "type %#x", c->op_mod >> 1);
	switch (c->op_mod >> 1) {
	case CAP_GENERAL:
		return set_general(c, hca->caps->general, from);
	case CAP_ODP:
		switch_odp(hca->caps->odp, IFC_GET(odp_cap, from, mem_page_fault));
		return CMD_OK;
	case CAP_ATOMIC:
		mode = IFC_GET(atomic_caps, from, atomic_req_8B_endianness_mode);
		if (mode > 1)
			return cmd_refuse(c, CMD_BAD_PARAM);
		IFC_SET(atomic_caps, hca->caps->atomic, atomic_req_8B_endianness_mode, mode);
		return CMD_OK;
	default:
		return cmd_refuse(c, CMD_BAD_PARAM);
	}
}

const struct cmd_op caps_ops[] = {
	{ .op = MLX5_CMD_OP_QUERY_HCA_CAP, .name = "QUERY_HCA_CAP", .run = cmd_query_hca_cap,
	  .in_len = IFC_BYTES(query_hca_cap_in), .out_len = QUERY_HEAD, .early = true },
	CMD_OP(SET_HCA_CAP, set_hca_cap, .early = true),
	{ },
};
