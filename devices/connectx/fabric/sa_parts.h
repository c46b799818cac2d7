/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the subnet administrator share with each other and with nobody else:
 * sa.c takes requests and sends answers, sa_record.c finds nodes, ports and paths,
 * sa_group.c keeps the multicast groups, sa_service.c the services.
 */
#ifndef CONNECTX_SA_PARTS_H
#define CONNECTX_SA_PARTS_H

#include "mad.h"
#include "sa.h"
#include "trace.h"
#include <stdlib.h>

#define PKEY_DEFAULT 0xffff
#define PACKET_LIFE 16			/* 4.096 us << 16 = 0.27 s */
#define TABLE_MAX 0x10000		/* bytes of the records of one answer */

struct sa {
	struct ib_switch *fabric;
	struct loop *loop;
	struct list services;
	unsigned int registered[SWITCH_PORTS];	/* services */
	struct group *group[SWITCH_MLIDS];	/* by MLID */
	unsigned int owned[SWITCH_PORTS];	/* groups */
	struct transfer *transfer[SWITCH_PORTS];	/* answers of several segments */
	uint32_t next_mgid, psn;
	u8 table[TABLE_MAX];			/* the answer that is being made */
};

/* One request, and the records that answer it. */
struct query {
	struct sa *sa;
	uint16_t lid;			/* who asks */
	u8 method;
	uint64_t mask;
	const u8 *record;		/* MAD_DATA_SIZE bytes */
	size_t size;			/* of a record in the answer */
	unsigned int count;
};

#define ASKS(q, bits) (((q)->mask & (bits)) == (bits))

/* A component that a request may name: the bit of its mask, and where it lies. */
struct sa_component {
	u8 bit, at, len;
};
#define SA_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* sa.c */
/* Whether the record has the components that the request names. */
bool sa_matches(const struct query *q, const struct sa_component *c, size_t count,
		const u8 *record);
/* Where the next record of the answer goes, zeroed; NULL with a status: no more are possible. */
u8 *sa_add_record(struct query *q, size_t size, uint16_t *status);
/* An empty table is an answer, but no record for a Get is an error. */
uint16_t sa_found(const struct query *q);

/* sa_record.c.  Each returns a status. */
uint16_t sa_nodes(struct query *q);
uint16_t sa_ports(struct query *q);
uint16_t sa_paths(struct query *q);
void sa_gid_of(uint64_t guid, u8 *gid);
/*
 * MTUs and rates, by what a selector and the value beside it ask for: whether a value is it,
 * and the best one that is, or 0.
 */
bool sa_mtu_selected(u8 value, u8 field);
bool sa_rate_selected(u8 value, u8 field);
bool sa_life_selected(u8 field);
u8 sa_best_mtu(bool asked, u8 field);
u8 sa_best_rate(bool asked, u8 field);

/* sa_service.c */
uint16_t sa_service_get(struct query *q);
uint16_t sa_service_set(struct query *q);
uint16_t sa_service_delete(struct query *q);
/* Those of a port, or all with a LID of 0. */
void sa_services_leave(struct sa *sa, uint16_t lid);

/* sa_group.c */
uint16_t sa_member_get(struct query *q);
uint16_t sa_member_set(struct query *q);
uint16_t sa_member_delete(struct query *q);
/* Make the broadcast group of IPoIB.  false: no memory. */
bool sa_groups_init(struct sa *sa);
void sa_groups_free(struct sa *sa);
void sa_groups_leave(struct sa *sa, uint16_t lid);

#endif
