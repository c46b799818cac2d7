// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The multicast groups of the subnet administrator (IBA 15.2.5.17), and their members, whom
 * it also tells the switch.  The broadcast group of IPoIB exists from the beginning, because
 * Linux joins it without the components that would create it; any other group lives as long
 * as it has a full member.
 *
 * A request changes only the membership of the port that sent it, and a port can create a
 * fixed number of groups, so that no port takes what others need.  A group counts for its
 * creator, or, when that one has left, for another full member; it ends if none has room for
 * it.  So it never counts for a port that came later and got the creator's LID.
 */
#include "ifc.h"
#include "mad.h"
#include "sa_parts.h"
#include "switch.h"
#include <stdlib.h>

#define IPOIB_QKEY 0x0b1b
/* The broadcast group takes one place. */
#define GROUPS_PER_PORT (SWITCH_MLIDS / SWITCH_PORTS - 1)

struct group {
	u8 mgid[16];
	uint16_t mlid, owner;		/* the LID for which it counts; 0: it stays forever */
	uint16_t pkey;
	uint32_t qkey, sl_flow_hop;
	u8 mtu, rate, tclass;
	u8 state[SWITCH_PORTS];		/* join states by port */
};

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

static bool has_room(const struct sa *sa, uint16_t lid)
{
	return sa->owned[lid - SWITCH_FIRST_LID] < GROUPS_PER_PORT;
}

static struct group *new_group(struct sa *sa, const u8 *mgid, uint16_t owner)
{
	struct group *g;
	unsigned int i = 0;

	if (owner && !has_room(sa, owner))
		return NULL;
	while (i < SWITCH_MLIDS && sa->group[i])
		i++;
	g = i < SWITCH_MLIDS ? calloc(1, sizeof(*g)) : NULL;
	if (!g)
		return NULL;
	memcpy(g->mgid, mgid, 16);
	g->mlid = SWITCH_FIRST_MLID + i;
	g->owner = owner;
	sa->group[i] = g;
	if (owner)
		sa->owned[owner - SWITCH_FIRST_LID]++;
	return g;
}

/* Only full and non-members get packets, not those that only send. */
static void set_state(struct sa *sa, struct group *g, uint16_t lid, u8 state)
{
	g->state[lid - SWITCH_FIRST_LID] = state;
	switch_member(sa->fabric, g->mlid, lid, state & (MC_FULL | MC_NON));
}

static bool is_full_member(const struct group *g, uint16_t lid)
{
	return g->state[lid - SWITCH_FIRST_LID] & (MC_FULL | MC_SEND_ONLY_FULL);
}

/* The owner has left.  false: nobody takes the group over. */
static bool pass_on(struct sa *sa, struct group *g)
{
	for (uint16_t lid = SWITCH_FIRST_LID; lid <= SWITCH_LAST_LID; lid++) {
		if (!is_full_member(g, lid) || !has_room(sa, lid))
			continue;
		sa->owned[g->owner - SWITCH_FIRST_LID]--;
		sa->owned[lid - SWITCH_FIRST_LID]++;
		g->owner = lid;
		return true;
	}
	return false;
}

/* Removes a port's join states, and the group if it has no owner then. */
static void leave(struct sa *sa, struct group *g, uint16_t lid, u8 states)
{
	set_state(sa, g, lid, g->state[lid - SWITCH_FIRST_LID] & ~states);
	if (!g->owner || is_full_member(g, g->owner) || pass_on(sa, g))
		return;
	for (uint16_t l = SWITCH_FIRST_LID; l <= SWITCH_LAST_LID; l++)
		set_state(sa, g, l, 0);
	sa->owned[g->owner - SWITCH_FIRST_LID]--;
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
		  !sa_mtu_selected(g->mtu, r[MC_MTU])) ||
		 (ASKS(q, MC_HAS_RATE_SEL | MC_HAS_RATE) &&
		  !sa_rate_selected(g->rate, r[MC_RATE])) ||
		 (ASKS(q, MC_HAS_LIFE_SEL | MC_HAS_LIFE) && !sa_life_selected(r[MC_LIFE])));
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
	mtu = sa_best_mtu(ASKS(q, MC_HAS_MTU_SEL | MC_HAS_MTU), r[MC_MTU]);
	rate = sa_best_rate(ASKS(q, MC_HAS_RATE_SEL | MC_HAS_RATE), r[MC_RATE]);
	if (!mtu || !rate || ASKS(q, MC_HAS_MLID) ||
	    (be16_at(r + MC_PKEY) | 0x8000) != PKEY_DEFAULT ||
	    (ASKS(q, MC_HAS_LIFE_SEL | MC_HAS_LIFE) && !sa_life_selected(r[MC_LIFE])))
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
	sa_gid_of(switch_guid(q->sa->fabric, q->lid), gid);
	if (memcmp(q->record + MC_PORT_GID, gid, 16))
		return SA_REQ_DENIED;		/* nobody joins for another one */
	*states = q->record[MC_SCOPE_STATE] & 0x0f;
	return *states ? MAD_OK : SA_REQ_INVALID;
}

uint16_t sa_member_set(struct query *q)
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
	out = sa_add_record(q, MC_SIZE, &status);
	member_record(g, q->record + MC_PORT_GID, states, out);
	return status;
}

uint16_t sa_member_delete(struct query *q)
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
	out = sa_add_record(q, MC_SIZE, &status);
	member_record(g, q->record + MC_PORT_GID, states, out);
	leave(q->sa, g, q->lid, states);
	return status;
}

uint16_t sa_member_get(struct query *q)
{
	uint16_t status;
	u8 *out;

	for (unsigned int i = 0; i < SWITCH_MLIDS; i++) {
		const struct group *g = q->sa->group[i];

		if (!g || (ASKS(q, MC_HAS_MGID) && memcmp(q->record + MC_MGID, g->mgid, 16)) ||
		    !group_matches(g, q))
			continue;
		out = sa_add_record(q, MC_SIZE, &status);
		if (!out)
			return status;
		/* Who the members are is told to nobody. */
		member_record(g, NULL, all_states(g), out);
	}
	return sa_found(q);
}

bool sa_groups_init(struct sa *sa)
{
	static const u8 broadcast[16] = {
		0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, [12] = 0xff, 0xff, 0xff, 0xff,
	};
	struct group *g = new_group(sa, broadcast, 0);

	if (!g)
		return false;
	g->pkey = PKEY_DEFAULT;
	g->qkey = IPOIB_QKEY;
	g->mtu = IB_MTU_2048;		/* IPoIB's MTU is 4 bytes less: 2044 */
	g->rate = IB_RATE_10;
	return true;
}

void sa_groups_free(struct sa *sa)
{
	for (unsigned int i = 0; i < SWITCH_MLIDS; i++)
		free(sa->group[i]);
}

void sa_groups_leave(struct sa *sa, uint16_t lid)
{
	for (unsigned int i = 0; i < SWITCH_MLIDS; i++)
		if (sa->group[i] && sa->group[i]->state[lid - SWITCH_FIRST_LID])
			leave(sa, sa->group[i], lid, 0x0f);
}
