// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the subnet administrator knows of the subnet: nodes (IBA 15.2.5.2), ports (15.2.5.3)
 * and paths (15.2.5.16).  All of it follows from the LIDs and GUIDs that the switch knows:
 * LID 1 is the switch itself, the others are models with one port, all alike.
 *
 * A request selects by the components that its mask names.  Of a node or a port it may name
 * any field: the record is made first and then compared.
 */
#include "ifc.h"
#include "mad.h"
#include "sa_parts.h"
#include "switch.h"

#define VENDOR 0x0002c9
#define DEVICE 0x1013			/* ConnectX-4, as its PCI function says */
/* As port.c has them: SL map, system image GUID, extended speeds, client reregistration. */
#define CAPABILITIES (1u << 6 | 1u << 11 | 1u << 14 | 1u << 25)
#define CAP_SM (1u << 1)

/* The values of the MTU and rate fields up to the port's, slowest first. */
static const u8 mtus[] = { 1, 2, 3, IB_MTU_2048, IB_MTU_4096 };
static const u8 rates[] = { 2, 5, IB_RATE_10, 11, 6, 15, 19, 4, 7, 20, 12, 8, 9, IB_RATE_100 };

void sa_gid_of(uint64_t guid, u8 *gid)
{
	put_be64(gid, SWITCH_PREFIX);
	put_be64(gid + 8, guid);
}

/*
 * Whether VALUE satisfies the selector and the value in FIELD; both are orders in a list of
 * COUNT, and one that is not on it is above all.
 */
static bool selected(const u8 *order, size_t count, u8 value, u8 field)
{
	size_t have = 0, want = 0;

	while (have < count && order[have] != value)
		have++;
	while (want < count && order[want] != (field & 0x3f))
		want++;
	switch (field >> 6) {
	case SA_GREATER:
		return have > want;
	case SA_LESS:
		return have < want;
	case SA_EXACTLY:
		return have == want;
	default:
		return true;
	}
}

/* The best value of the list that the request allows; 0: none. */
static u8 choose(const u8 *order, size_t count, bool asked, u8 field)
{
	for (size_t i = count; i-- > 0;)
		if (!asked || selected(order, count, order[i], field))
			return order[i];
	return 0;
}

bool sa_mtu_selected(u8 value, u8 field)
{
	return selected(mtus, sizeof(mtus), value, field);
}

bool sa_rate_selected(u8 value, u8 field)
{
	return selected(rates, sizeof(rates), value, field);
}

u8 sa_best_mtu(bool asked, u8 field)
{
	return choose(mtus, sizeof(mtus), asked, field);
}

u8 sa_best_rate(bool asked, u8 field)
{
	return choose(rates, sizeof(rates), asked, field);
}

bool sa_life_selected(u8 field)
{
	u8 value = field & 0x3f;

	switch (field >> 6) {
	case SA_GREATER:
		return PACKET_LIFE > value;
	case SA_LESS:
		return PACKET_LIFE < value;
	case SA_EXACTLY:
		return PACKET_LIFE == value;
	default:
		return true;
	}
}

static void node_record(const struct query *q, u8 *out, uint16_t lid)
{
	uint64_t guid = switch_guid(q->sa->fabric, lid);
	bool is_switch = lid == SWITCH_SM_LID;

	put_be16(out + NODE_LID, lid);
	out[NODE_BASE_VERSION] = out[NODE_CLASS_VERSION] = 1;
	out[NODE_TYPE] = is_switch ? NODE_IS_SWITCH : NODE_IS_CA;
	out[NODE_PORTS] = is_switch ? SWITCH_PORTS : 1;
	put_be64(out + NODE_SYSTEM_GUID, guid);
	put_be64(out + NODE_GUID, guid);
	put_be64(out + NODE_PORT_GUID, guid);
	put_be16(out + NODE_PARTITIONS, is_switch ? 1 : 128);
	put_be16(out + NODE_DEVICE, is_switch ? 0 : DEVICE);
	put_be32(out + NODE_PORT_VENDOR, (is_switch ? 0u : 1u << 24) | VENDOR);
	strcpy((char *)out + NODE_DESCRIPTION, is_switch ? "connectx-fabric" : "ConnectX model");
}

uint16_t sa_nodes(struct query *q)
{
	static const struct sa_component components[] = {
		{ 0, NODE_LID, 2 }, { 2, NODE_BASE_VERSION, 1 }, { 3, NODE_CLASS_VERSION, 1 },
		{ 4, NODE_TYPE, 1 }, { 5, NODE_PORTS, 1 }, { 6, NODE_SYSTEM_GUID, 8 },
		{ 7, NODE_GUID, 8 }, { 8, NODE_PORT_GUID, 8 }, { 9, NODE_PARTITIONS, 2 },
		{ 10, NODE_DEVICE, 2 }, { 11, NODE_REVISION, 4 }, { 12, NODE_PORT_VENDOR, 1 },
		{ 13, NODE_PORT_VENDOR + 1, 3 }, { 14, NODE_DESCRIPTION, 64 },
	};
	uint16_t status;

	for (uint16_t lid = SWITCH_SM_LID; lid <= SWITCH_LAST_LID; lid++) {
		u8 record[NODE_SIZE] = { 0 }, *out;

		if (!switch_guid(q->sa->fabric, lid))
			continue;
		node_record(q, record, lid);
		if (!sa_matches(q, components, SA_COUNT(components), record))
			continue;
		out = sa_add_record(q, NODE_SIZE, &status);
		if (!out)
			return status;
		memcpy(out, record, NODE_SIZE);
	}
	return sa_found(q);
}

/* Active, 4X EDR, as the model's port says of itself. */
static void port_record(u8 *out, uint16_t lid)
{
	bool is_switch = lid == SWITCH_SM_LID;
	u8 *info = out + PORT_INFO;

	put_be16(out + PORT_LID, lid);
	out[PORT_NUMBER] = !is_switch;
	put_be64(info + INFO_PREFIX, SWITCH_PREFIX);
	put_be16(info + INFO_LID, lid);
	put_be16(info + INFO_SM_LID, SWITCH_SM_LID);
	put_be32(info + INFO_CAPABILITIES, CAPABILITIES | (is_switch ? CAP_SM : 0));
	info[INFO_LOCAL_PORT] = !is_switch;
	info[INFO_WIDTH] = info[INFO_WIDTH + 1] = 1 | 2;	/* enabled, supported: 1X, 4X */
	info[INFO_WIDTH + 2] = 2;
	info[INFO_SPEED_STATE] = 7 << 4 | 4;			/* SDR to QDR; active */
	info[INFO_PHYSICAL] = 5 << 4 | 2;			/* up; polls when it is down */
	info[INFO_SPEED] = 4 << 4 | 7;
	info[INFO_MTU_SL] = IB_MTU_4096 << 4;
	info[INFO_VLS] = 3 << 4;				/* VL 0 to 3 */
	info[INFO_MTU] = IB_MTU_4096;
	info[INFO_OPERATIONAL_VLS] = 3 << 4;
	info[INFO_GUIDS] = 8;
	info[INFO_TIMEOUT] = 18;
	info[INFO_RESPONSE] = 16;
	info[INFO_EXTENDED_SPEED] = 2 << 4 | 3;			/* EDR, of FDR and EDR */
	info[INFO_EXTENDED_SPEED + 1] = 3;
}

/* Components that are smaller than a byte, from LinkSpeedSupported on, are not compared. */
uint16_t sa_ports(struct query *q)
{
	static const struct sa_component components[] = {
		{ 0, PORT_LID, 2 }, { 1, PORT_NUMBER, 1 }, { 3, PORT_INFO, 8 },
		{ 4, PORT_INFO + INFO_PREFIX, 8 }, { 5, PORT_INFO + INFO_LID, 2 },
		{ 6, PORT_INFO + INFO_SM_LID, 2 }, { 7, PORT_INFO + INFO_CAPABILITIES, 4 },
		{ 10, PORT_INFO + INFO_LOCAL_PORT, 1 }, { 11, PORT_INFO + INFO_WIDTH, 1 },
		{ 12, PORT_INFO + INFO_WIDTH + 1, 1 }, { 13, PORT_INFO + INFO_WIDTH + 2, 1 },
	};
	uint16_t status;

	if (q->mask >> 14)
		return SA_REQ_INVALID;
	for (uint16_t lid = SWITCH_SM_LID; lid <= SWITCH_LAST_LID; lid++) {
		u8 record[PORT_SIZE] = { 0 }, *out;

		if (!switch_guid(q->sa->fabric, lid))
			continue;
		port_record(record, lid);
		if (!sa_matches(q, components, SA_COUNT(components), record))
			continue;
		out = sa_add_record(q, PORT_SIZE, &status);
		if (!out)
			return status;
		memcpy(out, record, PORT_SIZE);
	}
	return sa_found(q);
}

/* Whether an end of a path, LID and GUID, is what the request asks for. */
static bool path_end(const struct query *q, uint16_t lid, uint64_t guid, bool source)
{
	u8 gid[16];

	sa_gid_of(guid, gid);
	if (ASKS(q, source ? PATH_HAS_SGID : PATH_HAS_DGID) &&
	    memcmp(q->record + (source ? PATH_SGID : PATH_DGID), gid, 16))
		return false;
	return !ASKS(q, source ? PATH_HAS_SLID : PATH_HAS_DLID) ||
	       be16_at(q->record + (source ? PATH_SLID : PATH_DLID)) == lid;
}

static void path_record(const struct query *q, u8 *out, uint16_t slid, uint16_t dlid, u8 mtu,
			u8 rate)
{
	sa_gid_of(switch_guid(q->sa->fabric, dlid), out + PATH_DGID);
	sa_gid_of(switch_guid(q->sa->fabric, slid), out + PATH_SGID);
	memcpy(out + PATH_SERVICE_ID, q->record + PATH_SERVICE_ID, 8);
	put_be16(out + PATH_DLID, dlid);
	put_be16(out + PATH_SLID, slid);
	if (ASKS(q, PATH_HAS_FLOW))
		put_be32(out + PATH_FLOW_HOP, be32_at(q->record + PATH_FLOW_HOP) & 0x0fffff00);
	if (ASKS(q, PATH_HAS_TCLASS))
		out[PATH_TCLASS] = q->record[PATH_TCLASS];
	out[PATH_NUMB] = 0x80 | 1;		/* reversible */
	put_be16(out + PATH_PKEY, PKEY_DEFAULT);
	if (ASKS(q, PATH_HAS_SL))
		out[PATH_QOS_SL + 1] = q->record[PATH_QOS_SL + 1] & 0x0f;
	out[PATH_MTU] = SA_EXACTLY << 6 | mtu;
	out[PATH_RATE] = SA_EXACTLY << 6 | rate;
	out[PATH_LIFE] = SA_EXACTLY << 6 | PACKET_LIFE;
}

uint16_t sa_paths(struct query *q)
{
	const struct ib_switch *fabric = q->sa->fabric;
	u8 mtu = sa_best_mtu(ASKS(q, PATH_HAS_MTU_SEL | PATH_HAS_MTU), q->record[PATH_MTU]);
	u8 rate = sa_best_rate(ASKS(q, PATH_HAS_RATE_SEL | PATH_HAS_RATE),
			       q->record[PATH_RATE]);
	uint16_t status;
	u8 *out;

	if (!mtu || !rate ||
	    (ASKS(q, PATH_HAS_LIFE_SEL | PATH_HAS_LIFE) &&
	     !sa_life_selected(q->record[PATH_LIFE])) ||
	    (ASKS(q, PATH_HAS_PKEY) &&
	     (be16_at(q->record + PATH_PKEY) | 0x8000) != PKEY_DEFAULT))
		return sa_found(q);
	for (uint16_t slid = SWITCH_SM_LID; slid <= SWITCH_LAST_LID; slid++) {
		uint64_t from = switch_guid(fabric, slid);

		if (!from || !path_end(q, slid, from, true))
			continue;
		for (uint16_t dlid = SWITCH_SM_LID; dlid <= SWITCH_LAST_LID; dlid++) {
			uint64_t to = switch_guid(fabric, dlid);

			if (!to || !path_end(q, dlid, to, false))
				continue;
			out = sa_add_record(q, PATH_SIZE, &status);
			if (!out)
				return status;
			path_record(q, out, slid, dlid, mtu, rate);
		}
	}
	return sa_found(q);
}
