// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The subnet administrator at LID 1, QP 1 (IBA volume 1, chapter 15): ClassPortInfo,
 * InformInfo, paths between any two ports, and multicast groups with their members, whom
 * it also tells the switch.  There is one partition, the default one.  The broadcast group
 * of IPoIB exists from the beginning, because Linux joins it without the components that
 * would create it; any other group lives as long as it has a full member.
 *
 * A table is one RMPP segment; what does not fit is refused with "no resources".
 *
 * A request is a packet with good CRCs whose SLID the switch has checked.  It changes only
 * the membership of the port that sent it, and a port can create a fixed number of groups,
 * so that no port takes what others need.
 */
#include "sa.h"
#include "mad.h"
#include "trace.h"
#include <stdlib.h>

#define UD_SEND_ONLY (IB_UD << 5 | IB_SEND_ONLY)
#define PKEY_DEFAULT 0xffff
#define PACKET_LIFE 16			/* 4.096 us << 16 = 0.27 s */
#define RESPONSE_TIME 18
#define CAP_UD_MULTICAST (1 << 9)
#define CAP2_SEND_ONLY_FULL (1 << 12)
#define IPOIB_QKEY 0x0b1b
/* The broadcast group takes one place. */
#define GROUPS_PER_PORT (SWITCH_MLIDS / SWITCH_PORTS - 1)

/* The values of the MTU and rate fields up to the port's, slowest first. */
static const u8 mtus[] = { 1, 2, 3, IB_MTU_2048, IB_MTU_4096 };
static const u8 rates[] = { 2, 5, IB_RATE_10, 11, 6, 15, 19, 4, 7, 20, 12, 8, 9, IB_RATE_100 };

struct group {
	u8 mgid[16];
	uint16_t mlid, creator;		/* the creator's LID; 0: it stays forever */
	uint16_t pkey;
	uint32_t qkey, sl_flow_hop;
	u8 mtu, rate, tclass;
	u8 state[SWITCH_PORTS];		/* join states by port */
};

struct sa {
	struct ib_switch *fabric;
	struct group *group[SWITCH_MLIDS];	/* by MLID */
	unsigned int created[SWITCH_PORTS];
	uint32_t next_mgid, psn;
};

/* One request, and the records that answer it. */
struct query {
	struct sa *sa;
	uint16_t lid;			/* who asks */
	u8 method;
	uint64_t mask;
	const u8 *record;		/* MAD_DATA_SIZE bytes */
	u8 *data;			/* as many, zeroed */
	size_t size;			/* of a record in the answer */
	unsigned int count;
};

/* Where the next record of the answer goes; NULL with a status: no more are possible. */
static u8 *add_record(struct query *q, size_t size, uint16_t *status)
{
	*status = MAD_OK;
	if (q->count && q->method != MAD_GET_TABLE)
		*status = SA_TOO_MANY_RECORDS;
	else if ((q->count + 1) * size > MAD_DATA_SIZE)
		*status = SA_NO_RESOURCES;
	if (*status)
		return NULL;
	q->size = size;
	return q->data + q->count++ * size;
}

/* An empty table is an answer, but no record for a Get is an error. */
static uint16_t found(const struct query *q)
{
	return q->count || q->method == MAD_GET_TABLE ? MAD_OK : SA_NO_RECORDS;
}

static void gid_of(uint64_t guid, u8 *gid)
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

#define ASKS(q, bits) (((q)->mask & (bits)) == (bits))

static uint16_t class_port_info(struct query *q)
{
	uint16_t status;
	u8 *out = add_record(q, 72, &status);

	out[0] = 1;			/* base version */
	out[1] = MAD_SA_VERSION;
	put_be16(out + 2, CAP_UD_MULTICAST);
	put_be32(out + 4, CAP2_SEND_ONLY_FULL << 5 | RESPONSE_TIME);
	return status;
}

/* The subscription is accepted; nothing is ever reported. */
static uint16_t inform_info(struct query *q)
{
	uint16_t status;

	memcpy(add_record(q, 40, &status), q->record, 40);
	return status;
}

/* Whether an end of a path, LID and GUID, is what the request asks for. */
static bool path_end(const struct query *q, uint16_t lid, uint64_t guid, bool source)
{
	u8 gid[16];

	gid_of(guid, gid);
	if (ASKS(q, source ? PATH_HAS_SGID : PATH_HAS_DGID) &&
	    memcmp(q->record + (source ? PATH_SGID : PATH_DGID), gid, 16))
		return false;
	return !ASKS(q, source ? PATH_HAS_SLID : PATH_HAS_DLID) ||
	       be16_at(q->record + (source ? PATH_SLID : PATH_DLID)) == lid;
}

static void path_record(const struct query *q, u8 *out, uint16_t slid, uint16_t dlid, u8 mtu,
			u8 rate)
{
	gid_of(switch_guid(q->sa->fabric, dlid), out + PATH_DGID);
	gid_of(switch_guid(q->sa->fabric, slid), out + PATH_SGID);
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

static bool life_selected(u8 field)
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

static uint16_t paths(struct query *q)
{
	const struct ib_switch *fabric = q->sa->fabric;
	u8 mtu = choose(mtus, sizeof(mtus), ASKS(q, PATH_HAS_MTU_SEL | PATH_HAS_MTU),
			q->record[PATH_MTU]);
	u8 rate = choose(rates, sizeof(rates), ASKS(q, PATH_HAS_RATE_SEL | PATH_HAS_RATE),
			 q->record[PATH_RATE]);
	uint16_t status;
	u8 *out;

	if (!mtu || !rate ||
	    (ASKS(q, PATH_HAS_LIFE_SEL | PATH_HAS_LIFE) && !life_selected(q->record[PATH_LIFE])) ||
	    (ASKS(q, PATH_HAS_PKEY) &&
	     (be16_at(q->record + PATH_PKEY) | 0x8000) != PKEY_DEFAULT))
		return found(q);
	for (uint16_t slid = SWITCH_SM_LID; slid <= SWITCH_LAST_LID; slid++) {
		uint64_t from = switch_guid(fabric, slid);

		if (!from || !path_end(q, slid, from, true))
			continue;
		for (uint16_t dlid = SWITCH_SM_LID; dlid <= SWITCH_LAST_LID; dlid++) {
			uint64_t to = switch_guid(fabric, dlid);

			if (!to || !path_end(q, dlid, to, false))
				continue;
			out = add_record(q, PATH_SIZE, &status);
			if (!out)
				return status;
			path_record(q, out, slid, dlid, mtu, rate);
		}
	}
	return found(q);
}

static u8 all_states(const struct group *g)
{
	u8 state = 0;

	for (unsigned int i = 0; i < SWITCH_PORTS; i++)
		state |= g->state[i];
	return state;
}

static void member_record(const struct group *g, const u8 *port_gid, u8 state, u8 *out)
{
	memcpy(out + MC_MGID, g->mgid, 16);
	if (port_gid)
		memcpy(out + MC_PORT_GID, port_gid, 16);
	put_be32(out + MC_QKEY, g->qkey);
	put_be16(out + MC_MLID, g->mlid);
	out[MC_MTU] = SA_EXACTLY << 6 | g->mtu;
	out[MC_TCLASS] = g->tclass;
	put_be16(out + MC_PKEY, g->pkey);
	out[MC_RATE] = SA_EXACTLY << 6 | g->rate;
	out[MC_LIFE] = SA_EXACTLY << 6 | PACKET_LIFE;
	put_be32(out + MC_SL_FLOW_HOP, g->sl_flow_hop);
	out[MC_SCOPE_STATE] = (g->mgid[1] & 0x0f) << 4 | state;
}

static struct group *find_group(struct sa *sa, const u8 *mgid)
{
	for (unsigned int i = 0; i < SWITCH_MLIDS; i++)
		if (sa->group[i] && !memcmp(sa->group[i]->mgid, mgid, 16))
			return sa->group[i];
	return NULL;
}

static struct group *new_group(struct sa *sa, const u8 *mgid, uint16_t creator)
{
	struct group *g;
	unsigned int i = 0;

	if (creator && sa->created[creator - SWITCH_FIRST_LID] >= GROUPS_PER_PORT)
		return NULL;
	while (i < SWITCH_MLIDS && sa->group[i])
		i++;
	g = i < SWITCH_MLIDS ? calloc(1, sizeof(*g)) : NULL;
	if (!g)
		return NULL;
	memcpy(g->mgid, mgid, 16);
	g->mlid = SWITCH_FIRST_MLID + i;
	g->creator = creator;
	sa->group[i] = g;
	if (creator)
		sa->created[creator - SWITCH_FIRST_LID]++;
	return g;
}

/* Only full and non-members get packets, not those that only send. */
static void set_state(struct sa *sa, struct group *g, uint16_t lid, u8 state)
{
	g->state[lid - SWITCH_FIRST_LID] = state;
	switch_member(sa->fabric, g->mlid, lid, state & (MC_FULL | MC_NON));
}

/* Removes a port's join states, and the group after its last full member. */
static void leave(struct sa *sa, struct group *g, uint16_t lid, u8 states)
{
	set_state(sa, g, lid, g->state[lid - SWITCH_FIRST_LID] & ~states);
	if (!g->creator || all_states(g) & (MC_FULL | MC_SEND_ONLY_FULL))
		return;
	for (uint16_t l = SWITCH_FIRST_LID; l <= SWITCH_LAST_LID; l++)
		set_state(sa, g, l, 0);
	sa->created[g->creator - SWITCH_FIRST_LID]--;
	sa->group[g->mlid - SWITCH_FIRST_MLID] = NULL;
	free(g);
}

/* Whether the components that a join names are those of the group. */
static bool group_matches(const struct group *g, const struct query *q)
{
	const u8 *r = q->record;
	uint32_t differs = g->sl_flow_hop ^ be32_at(r + MC_SL_FLOW_HOP);

	return !((ASKS(q, MC_HAS_QKEY) && be32_at(r + MC_QKEY) != g->qkey) ||
		 (ASKS(q, MC_HAS_MLID) && be16_at(r + MC_MLID) != g->mlid) ||
		 (ASKS(q, MC_HAS_TCLASS) && r[MC_TCLASS] != g->tclass) ||
		 (ASKS(q, MC_HAS_PKEY) && (be16_at(r + MC_PKEY) | 0x8000) != g->pkey) ||
		 (ASKS(q, MC_HAS_SL) && differs >> 28) ||
		 (ASKS(q, MC_HAS_FLOW) && differs & 0x0fffff00) ||
		 (ASKS(q, MC_HAS_MTU_SEL | MC_HAS_MTU) &&
		  !selected(mtus, sizeof(mtus), g->mtu, r[MC_MTU])) ||
		 (ASKS(q, MC_HAS_RATE_SEL | MC_HAS_RATE) &&
		  !selected(rates, sizeof(rates), g->rate, r[MC_RATE])) ||
		 (ASKS(q, MC_HAS_LIFE_SEL | MC_HAS_LIFE) && !life_selected(r[MC_LIFE])));
}

static uint16_t create(struct query *q, u8 states, const u8 *mgid, struct group **created)
{
	static const uint64_t needed = MC_HAS_QKEY | MC_HAS_PKEY | MC_HAS_SL | MC_HAS_FLOW |
				       MC_HAS_TCLASS;
	const u8 *r = q->record;
	u8 own[16] = { 0xff, 0x12, 0xa0, 0x1b, 0xfe, 0x80 };
	uint32_t mask = ASKS(q, MC_HAS_HOP) ? 0xffffffff : 0xffffff00;
	u8 mtu, rate;
	struct group *g;

	if (!(states & (MC_FULL | MC_SEND_ONLY_FULL)))
		return SA_REQ_INVALID;
	if (!ASKS(q, needed))
		return SA_INSUFFICIENT_COMPONENTS;
	mtu = choose(mtus, sizeof(mtus), ASKS(q, MC_HAS_MTU_SEL | MC_HAS_MTU), r[MC_MTU]);
	rate = choose(rates, sizeof(rates), ASKS(q, MC_HAS_RATE_SEL | MC_HAS_RATE), r[MC_RATE]);
	if (!mtu || !rate || ASKS(q, MC_HAS_MLID) ||
	    (be16_at(r + MC_PKEY) | 0x8000) != PKEY_DEFAULT ||
	    (ASKS(q, MC_HAS_LIFE_SEL | MC_HAS_LIFE) && !life_selected(r[MC_LIFE])))
		return SA_REQ_INVALID;
	if (!mgid) {			/* the SA is to choose one */
		do
			put_be32(own + 12, q->sa->next_mgid++);
		while (find_group(q->sa, own));
		mgid = own;
	} else if (mgid[0] != 0xff) {
		return SA_INVALID_GID;
	}
	g = new_group(q->sa, mgid, q->lid);
	if (!g)
		return SA_NO_RESOURCES;
	g->pkey = PKEY_DEFAULT;
	g->qkey = be32_at(r + MC_QKEY);
	g->sl_flow_hop = be32_at(r + MC_SL_FLOW_HOP) & mask;
	g->tclass = r[MC_TCLASS];
	g->mtu = mtu;
	g->rate = rate;
	*created = g;
	return MAD_OK;
}

/* Join and leave name the group, the port and its states. */
static uint16_t check_member(const struct query *q, u8 *states)
{
	u8 gid[16];

	if (!ASKS(q, MC_HAS_PORT_GID | MC_HAS_JOIN_STATE))
		return SA_INSUFFICIENT_COMPONENTS;
	gid_of(switch_guid(q->sa->fabric, q->lid), gid);
	if (memcmp(q->record + MC_PORT_GID, gid, 16))
		return SA_REQ_DENIED;		/* nobody joins for another one */
	*states = q->record[MC_SCOPE_STATE] & 0x0f;
	return *states ? MAD_OK : SA_REQ_INVALID;
}

static uint16_t member_set(struct query *q)
{
	static const u8 none[16];
	const u8 *mgid = ASKS(q, MC_HAS_MGID) ? q->record + MC_MGID : none;
	struct group *g = NULL;
	uint16_t status;
	u8 states, *out;

	status = check_member(q, &states);
	if (status)
		return status;
	if (memcmp(mgid, none, 16))
		g = find_group(q->sa, mgid);
	else
		mgid = NULL;
	if (!g)
		status = create(q, states, mgid, &g);
	else if (!group_matches(g, q))
		status = SA_REQ_INVALID;
	if (status)
		return status;
	states |= g->state[q->lid - SWITCH_FIRST_LID];
	set_state(q->sa, g, q->lid, states);
	out = add_record(q, MC_SIZE, &status);
	member_record(g, q->record + MC_PORT_GID, states, out);
	return status;
}

static uint16_t member_delete(struct query *q)
{
	struct group *g;
	uint16_t status;
	u8 states, *out;

	status = check_member(q, &states);
	if (status)
		return status;
	g = ASKS(q, MC_HAS_MGID) ? find_group(q->sa, q->record + MC_MGID) : NULL;
	if (!g || (g->state[q->lid - SWITCH_FIRST_LID] & states) != states)
		return SA_REQ_INVALID;
	out = add_record(q, MC_SIZE, &status);
	member_record(g, q->record + MC_PORT_GID, states, out);
	leave(q->sa, g, q->lid, states);
	return status;
}

static uint16_t member_get(struct query *q)
{
	uint16_t status;
	u8 *out;

	for (unsigned int i = 0; i < SWITCH_MLIDS; i++) {
		const struct group *g = q->sa->group[i];

		if (!g || (ASKS(q, MC_HAS_MGID) && memcmp(q->record + MC_MGID, g->mgid, 16)) ||
		    !group_matches(g, q))
			continue;
		out = add_record(q, MC_SIZE, &status);
		if (!out)
			return status;
		/* Who the members are is told to nobody. */
		member_record(g, NULL, all_states(g), out);
	}
	return found(q);
}

static const struct {
	uint16_t attr;
	u8 method;
	uint16_t (*answer)(struct query *q);
} answers[] = {
	{ SA_CLASS_PORT_INFO, MAD_GET, class_port_info },
	{ SA_INFORM_INFO, MAD_SET, inform_info },
	{ SA_PATH_RECORD, MAD_GET, paths },
	{ SA_PATH_RECORD, MAD_GET_TABLE, paths },
	{ SA_MCMEMBER_RECORD, MAD_GET, member_get },
	{ SA_MCMEMBER_RECORD, MAD_GET_TABLE, member_get },
	{ SA_MCMEMBER_RECORD, MAD_SET, member_set },
	{ SA_MCMEMBER_RECORD, MAD_DELETE, member_delete },
};

/* The answer to the MAD, in OUT. */
static void answer_mad(struct sa *sa, uint16_t lid, const u8 *mad, u8 *out)
{
	struct query q = {
		.sa = sa, .lid = lid, .method = mad[MAD_METHOD],
		.mask = be64_at(mad + MAD_COMP_MASK), .record = mad + MAD_DATA,
		.data = out + MAD_DATA,
	};
	uint16_t attr = be16_at(mad + MAD_ATTR), status = MAD_BAD_METHOD_ATTR;

	memcpy(out, mad, MAD_RMPP_VERSION);
	memset(out + MAD_RMPP_VERSION, 0, MAD_SIZE - MAD_RMPP_VERSION);
	if (mad[MAD_CLASS_VERSION] != MAD_SA_VERSION) {
		status = MAD_BAD_VERSION;
	} else {
		for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
			if (answers[i].attr == attr && answers[i].method == q.method)
				status = answers[i].answer(&q);
	}
	if (status) {
		memset(q.data, 0, MAD_DATA_SIZE);
		q.count = 0;
		trace("SA: method 0x%02x attribute 0x%04x of LID %u: status 0x%04x", q.method,
		      attr, lid, status);
	}
	out[MAD_METHOD] = q.method | MAD_RESPONSE;
	put_be16(out + MAD_STATUS, status);
	put_be64(out + MAD_COMP_MASK, q.mask);
	put_be16(out + MAD_ATTR_OFFSET, q.size / 8);
	if (q.method != MAD_GET_TABLE)
		return;
	out[MAD_RMPP_VERSION] = RMPP_VERSION;
	out[MAD_RMPP_TYPE] = RMPP_DATA;
	out[MAD_RMPP_FLAGS] = RMPP_ACTIVE | RMPP_FIRST | RMPP_LAST;
	put_be32(out + MAD_RMPP_SEGMENT, 1);
	put_be32(out + MAD_RMPP_PAYLEN, MAD_SA_HEADER + q.count * q.size);
}

bool sa_receive(struct sa *sa, const struct packet *p, struct packet *answer)
{
	const u8 *mad = p->payload;

	/* Answers, RMPP's acknowledgements among them, need none. */
	if (p->opcode != UD_SEND_ONLY || p->dqpn != MAD_GSI_QPN || p->qkey != MAD_GSI_QKEY ||
	    p->length != MAD_SIZE || mad[MAD_BASE_VERSION] != 1 ||
	    mad[MAD_CLASS] != MAD_CLASS_SA || mad[MAD_METHOD] & MAD_RESPONSE ||
	    p->slid < SWITCH_FIRST_LID || !switch_guid(sa->fabric, p->slid))
		return false;
	memset(answer, 0, offsetof(struct packet, payload));
	answer->dlid = p->slid;
	answer->slid = SWITCH_SM_LID;
	answer->sl = p->sl;
	if (p->global) {
		answer->global = true;
		answer->hop_limit = p->hop_limit;
		answer->tclass = p->tclass;
		answer->flow_label = p->flow_label;
		memcpy(answer->dgid, p->sgid, 16);
		gid_of(SWITCH_SM_GUID, answer->sgid);
	}
	answer->opcode = UD_SEND_ONLY;
	answer->pkey = p->pkey | 0x8000;
	answer->dqpn = p->sqpn;
	answer->sqpn = MAD_GSI_QPN;
	answer->qkey = MAD_GSI_QKEY;
	answer->psn = sa->psn++ & PSN_MASK;
	answer->length = MAD_SIZE;
	answer_mad(sa, p->slid, mad, answer->payload);
	return true;
}

void sa_port_gone(struct sa *sa, uint16_t lid)
{
	for (unsigned int i = 0; i < SWITCH_MLIDS; i++)
		if (sa->group[i] && sa->group[i]->state[lid - SWITCH_FIRST_LID])
			leave(sa, sa->group[i], lid, 0x0f);
}

struct sa *sa_new(struct ib_switch *s)
{
	static const u8 broadcast[16] = {
		0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, [12] = 0xff, 0xff, 0xff, 0xff,
	};
	struct sa *sa = calloc(1, sizeof(*sa));
	struct group *g = sa ? new_group(sa, broadcast, 0) : NULL;

	if (!g) {
		free(sa);
		return NULL;
	}
	sa->fabric = s;
	g->pkey = PKEY_DEFAULT;
	g->qkey = IPOIB_QKEY;
	g->mtu = IB_MTU_2048;		/* IPoIB's MTU is 4 bytes less: 2044 */
	g->rate = IB_RATE_10;
	return sa;
}

void sa_free(struct sa *sa)
{
	for (unsigned int i = 0; i < SWITCH_MLIDS; i++)
		free(sa->group[i]);
	free(sa);
}
