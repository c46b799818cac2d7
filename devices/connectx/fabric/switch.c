// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Forwards packets between ports (IBA volume 1, chapter 18).  LIDs are given in order of
 * arrival; a port that comes back with its GUID gets the LID that it had, if that is free.
 *
 * A packet is checked as far as forwarding needs it: its length, and that its source is
 * the port from which it came.  The CRCs pass as they are, and the receiver checks them.
 * So a port can hurt itself only: it cannot speak for another one, fill another one's
 * queue against its owner's bound, or hold a sender for longer than SWITCH_STALL_NS.  A sender
 * that is held sends to nobody, so a port that stalls again and again holds none for
 * SWITCH_DISTRUST_NS after each time.
 *
 * Faults are drawn from a generator with a seed, always the same number of draws for a
 * packet.  What they hold back is bounded, and is dropped if the port has no room later.
 */
#include "switch.h"
#include "ifc.h"
#include "list.h"
#include "sa.h"
#include "sa_parts.h"
#include "trace.h"
#include <errno.h>
#include <stdlib.h>

#define LRH 8

struct switch_port {
	struct ib_switch *owner;
	uint16_t lid;
	uint64_t guid;
	const struct switch_port_ops *ops;	/* NULL: nobody is there */
	void *arg;
	bool full, stalled;
	struct timer stall;		/* runs from full to stalled */
	uint64_t distrusted_until;	/* it stalled; until then it drops when it is full */
	struct switch_port *waits_for;	/* the port whose queue was full */
};

/* A packet that a fault holds back. */
struct held {
	struct list entry;		/* soonest first */
	uint64_t when;
	struct switch_port *to;
	size_t len;
	u8 wire[];
};

struct ib_switch {
	struct loop *loop;
	struct switch_faults faults;
	bool faulty;
	uint64_t random;
	struct pcap *pcap;
	struct sa *sa;
	struct switch_port port[SWITCH_PORTS];
	uint64_t member[SWITCH_MLIDS];	/* bit n: port n */
	struct list held;
	unsigned int held_count;
	struct timer release;
	struct switch_count count;
	struct packet request, answer;
};

/* From 0 to 1: splitmix64. */
static double draw(struct ib_switch *s)
{
	uint64_t z = s->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return ((z ^ z >> 31) >> 11) * 0x1p-53;
}

static void wake_senders(struct switch_port *to)
{
	struct ib_switch *s = to->owner;

	for (unsigned int i = 0; i < SWITCH_PORTS; i++) {
		struct switch_port *port = &s->port[i];

		if (port->waits_for != to)
			continue;
		port->waits_for = NULL;
		port->ops->resume(port->arg);
	}
}

static void stall_expired(struct timer *t)
{
	struct switch_port *port = list_item(t, struct switch_port, stall);

	port->stalled = true;
	port->distrusted_until = loop_now(port->owner->loop) + SWITCH_DISTRUST_NS;
	note("LID %u does not take its packets: they are dropped", port->lid);
	wake_senders(port);
}

void switch_room(struct switch_port *port)
{
	timer_stop(&port->stall);
	port->full = port->stalled = false;
	wake_senders(port);
}

/* False: no room. */
static bool deliver(struct switch_port *to, const u8 *wire, size_t len)
{
	struct ib_switch *s = to->owner;

	if (!to->ops) {
		s->count.unknown++;
		return true;
	}
	if (to->stalled) {
		s->count.stalled++;
		return true;
	}
	if (to->ops->deliver(to->arg, wire, len))
		return true;
	if (loop_now(s->loop) < to->distrusted_until) {
		s->count.stalled++;
		return true;
	}
	if (!to->full)
		timer_start(s->loop, &to->stall, SWITCH_STALL_NS);
	to->full = true;
	return false;
}

/* For what cannot wait. */
static void deliver_or_drop(struct switch_port *to, const u8 *wire, size_t len)
{
	if (!deliver(to, wire, len))
		to->owner->count.stalled++;
}

static void release_expired(struct timer *t)
{
	struct ib_switch *s = list_item(t, struct ib_switch, release);
	uint64_t now = loop_now(s->loop);

	while (!list_empty(&s->held)) {
		struct held *h = list_item(s->held.next, struct held, entry);

		if (h->when > now) {
			timer_start(s->loop, t, h->when - now);
			break;
		}
		list_del(&h->entry);
		s->held_count--;
		deliver_or_drop(h->to, h->wire, h->len);
		free(h);
	}
}

/* Takes a copy.  Packets with the same delay keep their order. */
static void hold(struct ib_switch *s, struct switch_port *to, const u8 *wire, size_t len,
		 uint64_t ns)
{
	struct list *after = s->held.prev;
	struct held *h = s->held_count < SWITCH_HELD ? malloc(sizeof(*h) + len) : NULL;

	if (!h) {
		s->count.dropped++;
		return;
	}
	h->when = loop_now(s->loop) + ns;
	h->to = to;
	h->len = len;
	memcpy(h->wire, wire, len);
	while (after != &s->held && list_item(after, struct held, entry)->when > h->when)
		after = after->prev;
	/* list_add() puts it before its first argument. */
	list_add(after->next, &h->entry);
	s->held_count++;
	if (s->held.next == &h->entry)
		timer_start(s->loop, &s->release, ns);
}

/* False: no room, which happens only to a packet that no fault touches. */
static bool forward(struct switch_port *to, const u8 *wire, size_t len)
{
	struct ib_switch *s = to->owner;
	uint64_t random = s->random, ns = s->faults.delay_ns;
	bool drop, duplicate, reorder;

	if (!s->faulty)
		return deliver(to, wire, len);
	drop = draw(s) < s->faults.drop;
	duplicate = draw(s) < s->faults.duplicate;
	reorder = draw(s) < s->faults.reorder;
	if (drop) {
		s->count.dropped++;
		return true;
	}
	if (reorder) {
		s->count.reordered++;
		ns += SWITCH_REORDER_NS;
	}
	if (ns) {
		hold(s, to, wire, len, ns);
	} else if (!deliver(to, wire, len)) {
		s->random = random;	/* the same fate when it is tried again */
		return false;
	}
	if (duplicate) {
		s->count.duplicated++;
		if (s->faults.delay_ns)
			hold(s, to, wire, len, s->faults.delay_ns);
		else
			deliver_or_drop(to, wire, len);
	}
	return true;
}

static void to_sa(struct ib_switch *s, struct switch_port *from, const u8 *wire, size_t len)
{
	u8 answer[PACKET_WIRE_MAX];
	const char *why;

	if (packet_parse(&s->request, wire, len, &why)) {
		s->count.bad++;
		return;
	}
	if (!sa_receive(s->sa, &s->request, &s->answer))
		return;
	do {
		len = packet_write(&s->answer, answer);
		pcap_add(s->pcap, answer, len);
		if (!forward(from, answer, len))
			s->count.stalled++;
	} while (sa_next(s->sa, &s->answer));
}

static void multicast(struct ib_switch *s, struct switch_port *from, uint16_t mlid,
		      const u8 *wire, size_t len)
{
	unsigned int group = mlid - SWITCH_FIRST_MLID;
	uint64_t to = group < SWITCH_MLIDS ? s->member[group] : 0;

	to &= ~(1ull << (from - s->port));
	for (; to; to &= to - 1)
		if (!forward(&s->port[__builtin_ctzll(to)], wire, len))
			s->count.stalled++;
}

static void trace_packet(struct ib_switch *s, const u8 *wire, size_t len)
{
	const char *why;
	char line[160];

	if (packet_parse(&s->request, wire, len, &why)) {
		trace("bad packet of %zu bytes: %s", len, why);
		return;
	}
	packet_describe(&s->request, line, sizeof(line));
	trace("%s", line);
}

bool switch_send(struct switch_port *from, const u8 *wire, size_t len)
{
	struct ib_switch *s = from->owner;
	struct switch_port *to;
	uint16_t dlid;

	if (len < LRH || len > PACKET_WIRE_MAX || (be16_at(wire + 4) & 0x7ffu) * 4 + 2 != len ||
	    be16_at(wire + 6) != from->lid) {
		s->count.bad++;
		trace("a packet of %zu bytes from LID %u has a wrong length or source", len,
		      from->lid);
		return true;
	}
	dlid = be16_at(wire + 2);
	to = dlid >= SWITCH_FIRST_LID && dlid <= SWITCH_LAST_LID ?
		&s->port[dlid - SWITCH_FIRST_LID] : NULL;
	if (to && to->ops) {
		if (!forward(to, wire, len)) {
			from->waits_for = to;
			return false;
		}
	} else if (lid_is_multicast(dlid)) {
		multicast(s, from, dlid, wire, len);
	} else if (dlid != SWITCH_SM_LID) {
		s->count.unknown++;
	}
	s->count.packets++;
	if (tracing)
		trace_packet(s, wire, len);
	pcap_add(s->pcap, wire, len);
	if (dlid == SWITCH_SM_LID)
		to_sa(s, from, wire, len);
	return true;
}

struct switch_port *switch_attach(struct ib_switch *s, uint64_t guid,
				  const struct switch_port_ops *ops, void *arg,
				  const char **why)
{
	struct switch_port *port = NULL;

	*why = "the GUID is 0 or the subnet manager's";
	if (!guid || guid == SWITCH_SM_GUID)
		return NULL;
	for (unsigned int i = 0; i < SWITCH_PORTS; i++) {
		struct switch_port *p = &s->port[i];

		if (p->guid == guid) {
			port = p;
			break;
		}
		/* One that nobody ever had is better than one that somebody left. */
		if (!p->ops && (!port || (port->guid && !p->guid)))
			port = p;
	}
	*why = "all ports are taken";
	if (!port)
		return NULL;
	*why = "a port with this GUID is there already";
	if (port->ops)
		return NULL;
	*why = NULL;
	port->guid = guid;
	port->ops = ops;
	port->arg = arg;
	port->full = port->stalled = false;
	return port;
}

void switch_detach(struct switch_port *port)
{
	struct ib_switch *s = port->owner;
	struct list *at = s->held.next;

	port->ops = NULL;
	port->waits_for = NULL;
	timer_stop(&port->stall);
	while (at != &s->held) {
		struct held *h = list_item(at, struct held, entry);

		at = at->next;
		if (h->to != port)
			continue;
		list_del(&h->entry);
		s->held_count--;
		free(h);
	}
	sa_port_gone(s->sa, port->lid);
	wake_senders(port);
}

uint16_t switch_lid(const struct switch_port *port)
{
	return port->lid;
}

uint64_t switch_guid(const struct ib_switch *s, uint16_t lid)
{
	if (lid == SWITCH_SM_LID)
		return SWITCH_SM_GUID;
	if (lid < SWITCH_FIRST_LID || lid > SWITCH_LAST_LID ||
	    !s->port[lid - SWITCH_FIRST_LID].ops)
		return 0;
	return s->port[lid - SWITCH_FIRST_LID].guid;
}

void switch_member(struct ib_switch *s, uint16_t mlid, uint16_t lid, bool member)
{
	uint64_t bit = 1ull << (lid - SWITCH_FIRST_LID);

	if (member)
		s->member[mlid - SWITCH_FIRST_MLID] |= bit;
	else
		s->member[mlid - SWITCH_FIRST_MLID] &= ~bit;
}

const struct switch_count *switch_counters(const struct ib_switch *s)
{
	return &s->count;
}

struct ib_switch *switch_new(struct loop *loop, const struct switch_faults *faults,
			     struct pcap *pcap)
{
	struct ib_switch *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->sa = sa_new(s, loop);
	if (!s->sa) {
		free(s);
		return NULL;
	}
	s->loop = loop;
	s->pcap = pcap;
	s->faults = *faults;
	s->faulty = faults->drop > 0 || faults->duplicate > 0 || faults->reorder > 0 ||
		    faults->delay_ns;
	s->random = faults->seed;
	list_init(&s->held);
	timer_init(&s->release, release_expired);
	for (unsigned int i = 0; i < SWITCH_PORTS; i++) {
		s->port[i].owner = s;
		s->port[i].lid = SWITCH_FIRST_LID + i;
		timer_init(&s->port[i].stall, stall_expired);
	}
	return s;
}

void switch_free(struct ib_switch *s)
{
	if (!s)
		return;
	while (!list_empty(&s->held)) {
		struct held *h = list_item(s->held.next, struct held, entry);

		list_del(&h->entry);
		free(h);
	}
	timer_stop(&s->release);
	sa_free(s->sa);
	free(s);
}
