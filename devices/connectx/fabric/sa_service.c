// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The services that ports announce (IBA 15.2.5.14).  One is known by its ID, its GID and its
 * P_Key; a port announces and removes its own, a bounded number, until their leases end or
 * it leaves the fabric.  Who asks gets what is left of a lease.
 */
#include "ifc.h"
#include "list.h"
#include "loop.h"
#include "mad.h"
#include "sa_parts.h"
#include "switch.h"
#include <stdlib.h>

#define SERVICES_PER_PORT 16
#define SECOND 1000000000ull
#define KEY_BITS (SERVICE_HAS_ID | SERVICE_HAS_GID | SERVICE_HAS_PKEY)

struct service {
	struct list entry;
	uint16_t lid;
	uint64_t end;			/* of its lease, by the loop's clock; 0: never */
	u8 record[SERVICE_SIZE];
};

static void forget(struct sa *sa, struct service *s)
{
	sa->registered[s->lid - SWITCH_FIRST_LID]--;
	list_del(&s->entry);
	free(s);
}

void sa_services_leave(struct sa *sa, uint16_t lid)
{
	for (struct list *at = sa->services.next, *next; at != &sa->services; at = next) {
		struct service *s = list_item(at, struct service, entry);

		next = at->next;
		if (!lid || s->lid == lid)
			forget(sa, s);
	}
}

/* Leases are looked at when somebody asks: nobody sees one that is over. */
static void end_leases(struct sa *sa)
{
	for (struct list *at = sa->services.next, *next; at != &sa->services; at = next) {
		struct service *s = list_item(at, struct service, entry);

		next = at->next;
		if (s->end && s->end <= loop_now(sa->loop))
			forget(sa, s);
	}
}

static bool wanted(const struct query *q, const struct service *s)
{
	static const struct sa_component fixed[] = {
		{ 0, SERVICE_ID, 8 }, { 1, SERVICE_GID, 16 }, { 2, SERVICE_PKEY, 2 },
		{ 5, SERVICE_KEY, 16 }, { 6, SERVICE_NAME, 64 },
	};
	/* Data of 8, 16, 32 and 64 bits: 16 bytes each. */
	static const u8 data[] = { SERVICE_DATA8, SERVICE_DATA16, SERVICE_DATA32, SERVICE_DATA64 };
	u8 bit = 7;

	if (!sa_matches(q, fixed, SA_COUNT(fixed), s->record))
		return false;
	for (unsigned int i = 0; i < SA_COUNT(data); i++) {
		for (u8 at = data[i]; at < data[i] + 16; at += 1 << i, bit++) {
			const struct sa_component c = { bit, at, 1 << i };

			if (!sa_matches(q, &c, 1, s->record))
				return false;
		}
	}
	return true;
}

static uint16_t add(struct query *q, const struct service *s)
{
	uint16_t status;
	u8 *out = sa_add_record(q, SERVICE_SIZE, &status);

	if (!out)
		return status;
	memcpy(out, s->record, SERVICE_SIZE);
	/* The key is its owner's. */
	if (s->lid != q->lid)
		memset(out + SERVICE_KEY, 0, 16);
	if (s->end)
		put_be32(out + SERVICE_LEASE, (s->end - loop_now(q->sa->loop)) / SECOND);
	return MAD_OK;
}

uint16_t sa_service_get(struct query *q)
{
	struct sa *sa = q->sa;
	uint16_t status;

	end_leases(sa);
	for (struct list *at = sa->services.next; at != &sa->services; at = at->next) {
		struct service *s = list_item(at, struct service, entry);

		status = wanted(q, s) ? add(q, s) : MAD_OK;
		if (status)
			return status;
	}
	return sa_found(q);
}

/* The service that a request names, *FOUND, or NULL if it is not there. */
static uint16_t find_own(struct query *q, struct service **found)
{
	u8 gid[16];

	*found = NULL;
	if (!ASKS(q, KEY_BITS))
		return SA_INSUFFICIENT_COMPONENTS;
	sa_gid_of(switch_guid(q->sa->fabric, q->lid), gid);
	if (memcmp(q->record + SERVICE_GID, gid, sizeof(gid)))
		return SA_REQ_DENIED;
	end_leases(q->sa);
	for (struct list *at = q->sa->services.next; at != &q->sa->services; at = at->next) {
		struct service *s = list_item(at, struct service, entry);

		/* ID, GID, P_Key. */
		if (!memcmp(s->record, q->record, SERVICE_PKEY + 2))
			*found = s;
	}
	return MAD_OK;
}

uint16_t sa_service_set(struct query *q)
{
	unsigned int *count = &q->sa->registered[q->lid - SWITCH_FIRST_LID];
	struct service *s;
	uint16_t status = find_own(q, &s);
	uint32_t lease = SERVICE_FOREVER;

	if (status)
		return status;
	if ((be16_at(q->record + SERVICE_PKEY) | 0x8000) != PKEY_DEFAULT)
		return SA_REQ_INVALID;
	if (!s) {
		s = *count < SERVICES_PER_PORT ? malloc(sizeof(*s)) : NULL;
		if (!s)
			return SA_NO_RESOURCES;
		s->lid = q->lid;
		++*count;
		list_init(&s->entry);
		list_add(&q->sa->services, &s->entry);
	}
	memcpy(s->record, q->record, SERVICE_SIZE);
	if (ASKS(q, SERVICE_HAS_LEASE))
		lease = be32_at(q->record + SERVICE_LEASE);
	put_be32(s->record + SERVICE_LEASE, lease);
	s->end = lease == SERVICE_FOREVER ? 0 : loop_now(q->sa->loop) + lease * SECOND;
	return add(q, s);
}

uint16_t sa_service_delete(struct query *q)
{
	struct service *s;
	uint16_t status = find_own(q, &s);

	if (status)
		return status;
	if (!s)
		return SA_NO_RECORDS;
	status = add(q, s);
	forget(q->sa, s);
	return status;
}
