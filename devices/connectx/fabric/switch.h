/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One InfiniBand switch with up to 64 ports, which is the whole subnet: unicast by LID,
 * multicast to the members of the group, LID 1 is the subnet administrator.  It works on
 * packets as they are on the wire.  The stand-alone model has one with a single port;
 * connectx-fabric has one with a port for each model.
 *
 * It has no queue of its own but for faults: each port's owner has one, of bounded size,
 * and says no when that is full.  Then the sender is held, until there is room, or until
 * the port has been full for SWITCH_STALL_NS: from then on, what goes to it is dropped
 * until it drained (IBA 18.2.5.4, head of queue lifetime).  It holds nobody again before
 * SWITCH_DISTRUST_NS are over: what finds it full is dropped at once.
 */
#ifndef CONNECTX_SWITCH_H
#define CONNECTX_SWITCH_H

#include "loop.h"
#include "packet.h"
#include "pcap.h"

#define SWITCH_PORTS 64
#define SWITCH_SM_LID 1
#define SWITCH_FIRST_LID 2
#define SWITCH_LAST_LID (SWITCH_FIRST_LID + SWITCH_PORTS - 1)
#define SWITCH_STALL_NS 100000000ull
#define SWITCH_DISTRUST_NS 1000000000ull	/* ten times that: it holds a tenth of the time */
#define SWITCH_REORDER_NS 200000ull	/* how long a packet is held so that others pass it */
#define SWITCH_HELD 4096		/* packets that faults hold back, at most */
#define SWITCH_FIRST_MLID 0xc000
#define SWITCH_MLIDS 4096
#define SWITCH_PREFIX 0xfe80000000000000ull
#define SWITCH_SM_GUID 0x0002c903000000ffull

/* Probabilities from 0 to 1; a SEED gives the same faults to the same packets. */
struct switch_faults {
	double drop, duplicate, reorder;
	uint64_t delay_ns, seed;
};

struct switch_port_ops {
	/* Queue a packet towards the port; false: no room, switch_room() says when. */
	bool (*deliver)(void *arg, const u8 *wire, size_t len);
	/* What switch_send() refused for this port can be tried again. */
	void (*resume)(void *arg);
};

struct switch_count {
	uint64_t packets, bad, unknown, dropped, duplicated, reordered, stalled;
};

struct ib_switch;
struct switch_port;

/* PCAP may be NULL.  NULL: no memory. */
struct ib_switch *switch_new(struct loop *loop, const struct switch_faults *faults,
			     struct pcap *pcap);
/* All ports are detached by then. */
void switch_free(struct ib_switch *s);

/* NULL with WHY. */
struct switch_port *switch_attach(struct ib_switch *s, uint64_t guid,
				  const struct switch_port_ops *ops, void *arg,
				  const char **why);
void switch_detach(struct switch_port *port);
/* A packet comes in from a port; false: it was not taken, wait for resume(). */
bool switch_send(struct switch_port *port, const u8 *wire, size_t len);
/* The port's queue, which was full, has room for many packets again. */
void switch_room(struct switch_port *port);

uint16_t switch_lid(const struct switch_port *port);
/* Of a port, or of the subnet administrator; 0: nobody has this LID. */
uint64_t switch_guid(const struct ib_switch *s, uint16_t lid);
/* For the subnet administrator: whether packets to MLID go to the port. */
void switch_member(struct ib_switch *s, uint16_t mlid, uint16_t lid, bool member);
const struct switch_count *switch_counters(const struct ib_switch *s);

#endif
