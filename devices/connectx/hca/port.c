// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The InfiniBand port as the driver sees it: the HCA vport context with its GID and pkey
 * tables, counters, and the port's registers (PRM, "HCA vport" and "Access registers";
 * mlx5_ifc.h and mlx5_reg_* of the kernel's driver.h).
 *
 * A LID, the subnet manager and the state come from the link, by port_set(), which tells
 * the driver; the guest writes the node description and a few capability bits.  MAD_IFC
 * answers for the performance agent's Set only: every other agent is in the guest or at
 * the fabric.
 */
#include "port.h"
#include "eq.h"
#include "hca.h"
#include "ifc.h"
#include "trace.h"

#define EVENT_PORT_CHANGE 0x09
enum { PORT_DOWN = 1, PORT_ACTIVE = 4, PORT_INITIALIZED = 5, PORT_LID = 6, PORT_REREG = 9 };

#define STATE_DOWN 1
#define STATE_INIT 2
#define STATE_ACTIVE 4
#define PHYS_POLLING 2
#define PHYS_LINK_UP 5
#define POLICY_FOLLOW 2

/* PortInfo.CapabilityMask (IBA 14.2.5.6). */
#define CAP_SM (1u << 1)
#define CAP_SL_MAP (1u << 6)
#define CAP_SYS_IMAGE_GUID (1u << 11)
#define CAP_EXTENDED_SPEEDS (1u << 14)
#define CAP_CM (1u << 16)
#define CAP_SNMP (1u << 17)
#define CAP_DEVICE_MGMT (1u << 19)
#define CAP_VENDOR_CLASS (1u << 20)
#define CAP_CLIENT_REREG (1u << 25)
/* Those that say which agents run in the guest, which it knows. */
#define CAP_WRITABLE (CAP_SM | CAP_CM | CAP_SNMP | CAP_DEVICE_MGMT | CAP_VENDOR_CLASS)

#define PKEYS 128
#define PKEY_DEFAULT 0xffff		/* full member */
#define GIDS 8
#define ALL_ENTRIES 0xffff

enum { REG_PMTU = 0x5003, REG_PTYS = 0x5004, REG_PPCNT = 0x5008, REG_PVLC = 0x500f,
       REG_NODE_DESC = 0x6001, REG_HOST_ENDIANNESS = 0x7004 };
enum { REG_WRITE = 0, REG_READ = 1 };	/* op_mod */
enum { GROUP_IB = 0x20, GROUP_IB_EXTENDED = 0x21 };

#define WIDTH_1X 1
#define WIDTH_4X 4
#define SPEEDS 0x3f			/* SDR to EDR */
#define SPEED_EDR 0x20
#define VLS_0_TO_3 4			/* as PortInfo.VLCap */
#define MTU 4096

/* The offsets in a MAD's header (IBA 13.4.2), and in PortCounters (16.1.3.5). */
enum { MAD_CLASS = 1, MAD_METHOD = 3, MAD_STATUS = 4, MAD_ATTR = 16, MAD_SELECT = 66,
       MAD_BYTES = 256 };
#define MAD_CLASS_PERF 0x04
#define MAD_SET 0x02
#define MAD_RESPONSE 0x80
#define MAD_UNSUPPORTED 0x000c		/* this method with this attribute */
#define PERF_COUNTERS 0x0012
#define PERF_COUNTERS_EXT 0x001d

void port_init(struct hca *hca)
{
	struct port *p = &hca->port;

	if (!p->state)
		p->state = STATE_DOWN;
	if (!p->prefix)
		p->prefix = 0xfe80000000000000;
	p->guid = hca->guid;
	p->capability_mask = CAP_SL_MAP | CAP_SYS_IMAGE_GUID | CAP_EXTENDED_SPEEDS |
			     CAP_CLIENT_REREG;
	p->subnet_timeout = 18;
	memset(p->node_desc, 0, sizeof(p->node_desc));
	strcpy(p->node_desc, "ConnectX model");
	memset(&p->count, 0, sizeof(p->count));
	p->qkey_violations = p->pkey_violations = 0;
}

/* Data of the event: the port's number in the high half of byte 8. */
static void tell(struct hca *hca, unsigned int sub_type)
{
	const u8 data[9] = { [8] = 1 << 4 };

	event_send(hca, EVENT_PORT_CHANGE, sub_type, data, sizeof(data));
}

void port_set(struct hca *hca, uint16_t lid, uint16_t sm_lid, u8 state)
{
	struct port *p = &hca->port;
	bool new_lid = p->lid != lid, new_sm = p->sm_lid != sm_lid, new_state = p->state != state;

	p->lid = lid;
	p->sm_lid = sm_lid;
	p->state = state;
	if (new_lid)
		tell(hca, PORT_LID);
	if (new_state)
		tell(hca, state == STATE_ACTIVE ? PORT_ACTIVE :
		     state == STATE_DOWN ? PORT_DOWN : PORT_INITIALIZED);
	/* No event is for a new SM alone; this one too makes the guest look for it. */
	else if (new_sm && !new_lid)
		tell(hca, PORT_REREG);
}

uint16_t port_pkey(const struct hca *hca, unsigned int index)
{
	return index ? 0 : PKEY_DEFAULT;
}

void port_gid(const struct hca *hca, unsigned int index, u8 gid[16])
{
	memset(gid, 0, 16);
	if (index)
		return;
	put_be64(gid, hca->port.prefix);
	put_be64(gid + 8, hca->port.guid);
}

bool port_has_gid(const struct hca *hca, const u8 gid[16])
{
	static const u8 none[16];
	u8 own[16];

	for (unsigned int i = 0; i < GIDS; i++) {
		port_gid(hca, i, own);
		if (!memcmp(own, gid, sizeof(own)))
			return memcmp(own, none, sizeof(own));
	}
	return false;
}

/* The vport commands.  The inputs of all of them begin alike. */

static bool other_port(const struct cmd *c)
{
	return IFC_GET(query_hca_vport_context_in, c->in, other_vport) ||
	       IFC_GET(query_hca_vport_context_in, c->in, port_num) > 1;
}

/* A counter of so many bits stays at its end (IBA 16.1.3.5). */
static uint32_t saturated(uint64_t count, unsigned int bits)
{
	return count >> bits ? (1u << bits) - 1 : count;
}

static enum cmd_status cmd_query_hca_vport_context(struct hca *hca, struct cmd *c)
{
	void *ctx = IFC_PTR(query_hca_vport_context_out, c->out, hca_vport_context);
	const struct port *p = &hca->port;

	if (other_port(c))
		return cmd_refuse(c, CMD_BAD_PARAM);
	IFC_SET(hca_vport_context, ctx, port_physical_state,
		p->state == STATE_DOWN ? PHYS_POLLING : PHYS_LINK_UP);
	IFC_SET(hca_vport_context, ctx, vport_state_policy, POLICY_FOLLOW);
	IFC_SET(hca_vport_context, ctx, port_state, p->state);
	IFC_SET(hca_vport_context, ctx, vport_state, p->state);
	IFC_SET64(hca_vport_context, ctx, system_image_guid, hca->guid);
	IFC_SET64(hca_vport_context, ctx, port_guid, p->guid);
	IFC_SET64(hca_vport_context, ctx, node_guid, hca->guid);
	IFC_SET(hca_vport_context, ctx, cap_mask1, p->capability_mask);
	IFC_SET(hca_vport_context, ctx, cap_mask1_field_select, CAP_WRITABLE);
	IFC_SET(hca_vport_context, ctx, lid, p->lid);
	IFC_SET(hca_vport_context, ctx, subnet_timeout, p->subnet_timeout);
	IFC_SET(hca_vport_context, ctx, sm_lid, p->sm_lid);
	IFC_SET(hca_vport_context, ctx, sm_sl, p->sm_sl);
	IFC_SET(hca_vport_context, ctx, qkey_violation_counter,
		saturated(p->qkey_violations, 16));
	IFC_SET(hca_vport_context, ctx, pkey_violation_counter,
		saturated(p->pkey_violations, 16));
	cmd_says(c, "LID %u state %u", p->lid, p->state);
	return CMD_OK;
}

static enum cmd_status cmd_modify_hca_vport_context(struct hca *hca, struct cmd *c)
{
	const void *ctx = IFC_PTR(modify_hca_vport_context_in, c->in, hca_vport_context);
	uint32_t select = IFC_GET(hca_vport_context, ctx, cap_mask1_field_select);
	uint32_t mask = IFC_GET(hca_vport_context, ctx, cap_mask1);

	/* Field select: GUIDs and link policy, which are for the vports of others. */
	if (other_port(c) || IFC_GET(hca_vport_context, ctx, field_select) ||
	    select & ~CAP_WRITABLE)
		return cmd_refuse(c, CMD_BAD_PARAM);
	hca->port.capability_mask = (hca->port.capability_mask & ~select) | (mask & select);
	cmd_says(c, "capability mask %#x", hca->port.capability_mask);
	return CMD_OK;
}

static enum cmd_status cmd_query_hca_vport_gid(struct hca *hca, struct cmd *c)
{
	uint32_t index = IFC_GET(query_hca_vport_gid_in, c->in, gid_index);
	uint32_t first = index == ALL_ENTRIES ? 0 : index, count = index == ALL_ENTRIES ? GIDS : 1;
	const size_t head = IFC_BYTES(query_hca_vport_gid_out);

	if (other_port(c))
		return cmd_refuse(c, CMD_BAD_PARAM);
	if (first >= GIDS)
		return cmd_refuse(c, CMD_BAD_INDEX);
	if (c->out_len < head + 16 * count)
		return cmd_refuse(c, CMD_BAD_OUTPUT_LEN);
	for (uint32_t i = 0; i < count; i++)
		port_gid(hca, first + i, c->out + head + 16 * i);
	IFC_SET(query_hca_vport_gid_out, c->out, gids_num, count);
	cmd_says(c, "index %u", index);
	return CMD_OK;
}

static enum cmd_status cmd_query_hca_vport_pkey(struct hca *hca, struct cmd *c)
{
	uint32_t index = IFC_GET(query_hca_vport_pkey_in, c->in, pkey_index);
	uint32_t first = index == ALL_ENTRIES ? 0 : index;
	uint32_t count = index == ALL_ENTRIES ? PKEYS : 1;
	const size_t head = IFC_BYTES(query_hca_vport_pkey_out), each = IFC_BYTES(pkey);

	if (other_port(c))
		return cmd_refuse(c, CMD_BAD_PARAM);
	if (first >= PKEYS)
		return cmd_refuse(c, CMD_BAD_INDEX);
	if (c->out_len < head + each * count)
		return cmd_refuse(c, CMD_BAD_OUTPUT_LEN);
	for (uint32_t i = 0; i < count; i++)
		IFC_SET(pkey, c->out + head + each * i, pkey, port_pkey(hca, first + i));
	cmd_says(c, "index %u", index);
	return CMD_OK;
}

static enum cmd_status cmd_query_vport_state(struct hca *hca, struct cmd *c)
{
	if (IFC_GET(query_vport_state_in, c->in, other_vport))
		return cmd_refuse(c, CMD_BAD_PARAM);
	IFC_SET(query_vport_state_out, c->out, admin_state, 1);
	IFC_SET(query_vport_state_out, c->out, state, hca->port.state == STATE_ACTIVE);
	return CMD_OK;
}

/* One port is no link aggregation: the state and all ports are 0. */
static enum cmd_status cmd_query_lag(struct hca *hca, struct cmd *c)
{
	return CMD_OK;
}

static void clear_traffic(struct port *p)
{
	memset(p->count.in, 0, sizeof(p->count.in));
	memset(p->count.out, 0, sizeof(p->count.out));
}

static void put_traffic(void *to, const struct traffic *t)
{
	IFC_SET64(traffic_counter, to, packets, t->packets);
	IFC_SET64(traffic_counter, to, octets, t->octets);
}

/* The driver makes PortCountersExtended of this, and divides octets by 4 (mlx5_ib, mad.c). */
static enum cmd_status cmd_query_vport_counter(struct hca *hca, struct cmd *c)
{
	struct port *p = &hca->port;

	if (other_port(c))
		return cmd_refuse(c, CMD_BAD_PARAM);
	put_traffic(IFC_PTR(query_vport_counter_out, c->out, received_ib_unicast), &p->count.in[0]);
	put_traffic(IFC_PTR(query_vport_counter_out, c->out, received_ib_multicast), &p->count.in[1]);
	put_traffic(IFC_PTR(query_vport_counter_out, c->out, transmitted_ib_unicast), &p->count.out[0]);
	put_traffic(IFC_PTR(query_vport_counter_out, c->out, transmitted_ib_multicast),
		    &p->count.out[1]);
	if (IFC_GET(query_vport_counter_in, c->in, clear))
		clear_traffic(p);
	return CMD_OK;
}

/* Registers. */

static void read_ptys(struct hca *hca, u8 *data)
{
	bool up = hca->port.state != STATE_DOWN;

	IFC_SET(ptys_reg, data, local_port, 1);
	IFC_SET(ptys_reg, data, proto_mask, 1);		/* InfiniBand */
	IFC_SET(ptys_reg, data, ib_link_width_capability, WIDTH_1X | WIDTH_4X);
	IFC_SET(ptys_reg, data, ib_proto_capability, SPEEDS);
	IFC_SET(ptys_reg, data, ib_link_width_admin, WIDTH_1X | WIDTH_4X);
	IFC_SET(ptys_reg, data, ib_proto_admin, SPEEDS);
	/* Of a port that is down: what it comes up with, since 0 is no width at all. */
	IFC_SET(ptys_reg, data, ib_link_width_oper, WIDTH_4X);
	IFC_SET(ptys_reg, data, ib_proto_oper, up ? SPEED_EDR : 1);
}

static void read_pmtu(struct hca *hca, u8 *data)
{
	IFC_SET(pmtu_reg, data, local_port, 1);
	IFC_SET(pmtu_reg, data, max_mtu, MTU);
	IFC_SET(pmtu_reg, data, admin_mtu, MTU);
	IFC_SET(pmtu_reg, data, oper_mtu, MTU);
}

static void read_pvlc(struct hca *hca, u8 *data)
{
	IFC_SET(pvlc_reg, data, local_port, 1);
	IFC_SET(pvlc_reg, data, vl_hw_cap, VLS_0_TO_3);
	IFC_SET(pvlc_reg, data, vl_admin, VLS_0_TO_3);
	IFC_SET(pvlc_reg, data, vl_operational, VLS_0_TO_3);
}

/* Other errors do not happen on this wire. */
static void put_errors(void *set, const struct port *p)
{
	IFC_SET(ib_port_cntrs_grp_data_layout, set, link_downed_counter,
		saturated(p->count.link_downed, 8));
	IFC_SET(ib_port_cntrs_grp_data_layout, set, port_rcv_errors,
		saturated(p->count.rcv_errors, 16));
	IFC_SET(ib_port_cntrs_grp_data_layout, set, port_xmit_discards,
		saturated(p->count.xmit_discards, 16));
}

#define SET_EXTENDED(set, field, value) \
	IFC_SET64(ib_ext_port_cntrs_grp_data_layout, set, field##_high, value)

/* Data in octets here too: the driver divides. */
static void put_extended(void *set, const struct port *p)
{
	const struct traffic *in = p->count.in, *out = p->count.out;

	SET_EXTENDED(set, port_xmit_data, out[0].octets + out[1].octets);
	SET_EXTENDED(set, port_rcv_data, in[0].octets + in[1].octets);
	SET_EXTENDED(set, port_xmit_pkts, out[0].packets + out[1].packets);
	SET_EXTENDED(set, port_rcv_pkts, in[0].packets + in[1].packets);
	SET_EXTENDED(set, port_unicast_xmit_pkts, out[0].packets);
	SET_EXTENDED(set, port_unicast_rcv_pkts, in[0].packets);
	SET_EXTENDED(set, port_multicast_xmit_pkts, out[1].packets);
	SET_EXTENDED(set, port_multicast_rcv_pkts, in[1].packets);
}

static enum cmd_status read_ppcnt(struct hca *hca, struct cmd *c, const u8 *request, u8 *data)
{
	uint32_t group = IFC_GET(ppcnt_reg, request, grp);
	u8 *set = IFC_PTR(ppcnt_reg, data, counter_set);

	if (group != GROUP_IB && group != GROUP_IB_EXTENDED)
		return cmd_refuse(c, CMD_BAD_PARAM);
	IFC_SET(ppcnt_reg, data, local_port, 1);
	IFC_SET(ppcnt_reg, data, grp, group);
	if (group == GROUP_IB)
		put_errors(set, &hca->port);
	else
		put_extended(set, &hca->port);
	return CMD_OK;
}

static const struct reg {
	uint16_t id;
	uint16_t bytes;
	bool writable;
	void (*read)(struct hca *hca, u8 *data);
} regs[] = {
	{ REG_PMTU, IFC_BYTES(pmtu_reg), false, read_pmtu },
	{ REG_PTYS, IFC_BYTES(ptys_reg), false, read_ptys },
	{ REG_PVLC, IFC_BYTES(pvlc_reg), false, read_pvlc },
	{ REG_PPCNT, IFC_BYTES(ppcnt_reg), false, NULL },
	{ REG_NODE_DESC, sizeof(((struct port *)0)->node_desc), true, NULL },
	{ REG_HOST_ENDIANNESS, 16, true, NULL },
};

static const struct reg *find_reg(uint16_t id)
{
	for (size_t i = 0; i < sizeof(regs) / sizeof(*regs); i++)
		if (regs[i].id == id)
			return &regs[i];
	return NULL;
}

/* As the firmware answers a register that it does not have. */
static enum cmd_status unknown_reg(struct hca *hca, struct cmd *c, uint16_t id)
{
	if (hca->port.unknown_reg != id)
		note("register %#x is not modelled", id);
	hca->port.unknown_reg = id;
	return cmd_refuse(c, CMD_BAD_PARAM);
}

static enum cmd_status cmd_access_register(struct hca *hca, struct cmd *c)
{
	uint16_t id = IFC_GET(access_register_in, c->in, register_id);
	const struct reg *reg = find_reg(id);
	u8 *data = c->out + IFC_BYTES(access_register_out);
	const u8 *request;
	size_t len;

	cmd_says(c, "%s %#x", c->op_mod == REG_WRITE ? "write" : "read", id);
	request = cmd_tail(c, IFC_BYTES(access_register_in), &len);
	if (!reg || c->op_mod > REG_READ)
		return unknown_reg(hca, c, id);
	if (len < reg->bytes)
		return cmd_refuse(c, CMD_BAD_INPUT_LEN);
	if (c->out_len < IFC_BYTES(access_register_out) + reg->bytes)
		return cmd_refuse(c, CMD_BAD_OUTPUT_LEN);
	if (c->op_mod == REG_WRITE && !reg->writable)
		return cmd_refuse(c, CMD_BAD_PARAM);
	if (reg->read)
		reg->read(hca, data);
	else if (id == REG_PPCNT)
		return read_ppcnt(hca, c, request, data);
	else if (id == REG_NODE_DESC && c->op_mod == REG_WRITE)
		memcpy(hca->port.node_desc, request, reg->bytes);
	else if (id == REG_NODE_DESC)
		memcpy(data, hca->port.node_desc, reg->bytes);
	/* HOST_ENDIANNESS: 0x80 or 0, which changes nothing that this device does. */
	return CMD_OK;
}

/* PortCountersExtended: by the bits of CounterSelect (IBA 16.1.4.2). */
static void clear_extended(struct port *p, uint16_t select)
{
	for (int i = 0; i < 2; i++) {
		if (select & BIT(0))
			p->count.out[i].octets = 0;
		if (select & BIT(1))
			p->count.in[i].octets = 0;
		/* All packets, or those to one port, or those to groups. */
		if (select & (BIT(2) | BIT(4) << 2 * i))
			p->count.out[i].packets = 0;
		if (select & (BIT(3) | BIT(5) << 2 * i))
			p->count.in[i].packets = 0;
	}
}

/* PortCounters (16.1.3.5); its own counters of traffic are those that the driver hides. */
static void clear_errors(struct port *p, uint16_t select)
{
	if (select & BIT(2))
		p->count.link_downed = 0;
	if (select & BIT(3))
		p->count.rcv_errors = 0;
	if (select & BIT(6))
		p->count.xmit_discards = 0;
}

/* The performance agent's Set, by which tools clear counters. */
static bool perf_set(struct hca *hca, const u8 *mad)
{
	uint16_t attr = be16_at(mad + MAD_ATTR), select = be16_at(mad + MAD_SELECT);

	if (attr == PERF_COUNTERS)
		clear_errors(&hca->port, select);
	else if (attr == PERF_COUNTERS_EXT)
		clear_extended(&hca->port, select);
	else
		return false;
	return true;
}

static enum cmd_status cmd_mad_ifc(struct hca *hca, struct cmd *c)
{
	const u8 *in = IFC_PTR(mad_ifc_in, c->in, mad);
	u8 *out = IFC_PTR(mad_ifc_out, c->out, response_mad_packet);

	cmd_says(c, "class %#x method %#x attribute %#x", in[MAD_CLASS], in[MAD_METHOD],
		 be16_at(in + MAD_ATTR));
	memcpy(out, in, MAD_BYTES);
	out[MAD_METHOD] = MAD_RESPONSE | 1;
	put_be16(out + MAD_STATUS, 0);
	if (in[MAD_CLASS] != MAD_CLASS_PERF || in[MAD_METHOD] != MAD_SET || !perf_set(hca, in))
		put_be16(out + MAD_STATUS, MAD_UNSUPPORTED);
	return CMD_OK;
}

const struct cmd_op port_ops[] = {
	CMD_OP(QUERY_HCA_VPORT_CONTEXT, query_hca_vport_context),
	CMD_OP(MODIFY_HCA_VPORT_CONTEXT, modify_hca_vport_context),
	CMD_OP(QUERY_HCA_VPORT_GID, query_hca_vport_gid),
	CMD_OP(QUERY_HCA_VPORT_PKEY, query_hca_vport_pkey),
	CMD_OP(QUERY_VPORT_STATE, query_vport_state),
	CMD_OP(QUERY_VPORT_COUNTER, query_vport_counter),
	CMD_OP(QUERY_LAG, query_lag),
	CMD_OP(ACCESS_REG, access_register, .early = true),
	CMD_OP(MAD_IFC, mad_ifc),
	{ },
};
