// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What every object of the device stands on: memory that is counted, the clock, and the
 * objects that are a number only (UAR, PD, transport domain, XRC domain).
 *
 * What a guest makes takes its memory by hca_alloc(), up to HCA_MEMORY in all; what goes
 * beyond, by hca_alloc_beyond(), has a bound of its own.
 */
#include "hca.h"
#include "loop.h"
#include <stdlib.h>

/* The allocator's own cost, so that many small objects are counted fairly. */
#define ALLOC_COST 32

void *hca_alloc(struct hca *hca, size_t bytes)
{
	if (bytes > HCA_MEMORY - ALLOC_COST || hca->memory > HCA_MEMORY - ALLOC_COST - bytes)
		return NULL;
	return hca_alloc_beyond(hca, bytes);
}

void *hca_alloc_beyond(struct hca *hca, size_t bytes)
{
	void *p = calloc(1, bytes ? bytes : 1);

	if (p)
		hca->memory += bytes + ALLOC_COST;
	return p;
}

void hca_free_memory(struct hca *hca, void *p, size_t bytes)
{
	if (!p)
		return;
	hca->memory -= bytes + ALLOC_COST;
	free(p);
}

void hca_free_uar(struct hca *hca, struct uar *uar)
{
	hca_free_memory(hca, uar, sizeof(*uar));
}

void hca_free_number(struct hca *hca, struct number *number)
{
	hca_free_memory(hca, number, sizeof(*number));
}

static void uar_free(void *arg, void *object)
{
	hca_free_uar(arg, object);
}

static void number_free(void *arg, void *object)
{
	hca_free_number(arg, object);
}

void hca_free_numbers(struct hca *hca)
{
	table_clear(&hca->uars, uar_free, hca);
	table_clear(&hca->pds, number_free, hca);
	table_clear(&hca->tds, number_free, hca);
	table_clear(&hca->xrcds, number_free, hca);
}

struct uar *hca_uar(const struct hca *hca, uint16_t uid, uint32_t number)
{
	struct uar *uar = table_get(&hca->uars, number);

	return uar && !uar->closed && uid_owns(uid, uar->uid) ? uar : NULL;
}

void hca_uar_put(struct hca *hca, struct uar *uar)
{
	if (!--uar->users && uar->closed)
		hca_free_uar(hca, table_del(&hca->uars, uar->number));
}

bool hca_number_valid(const struct table *t, uint16_t uid, uint32_t number)
{
	const struct number *n = table_get(t, number);

	return n && uid_owns(uid, n->uid);
}

bool hca_pd_valid(const struct hca *hca, uint16_t uid, uint32_t pd)
{
	return hca_number_valid(&hca->pds, uid, pd);
}

bool hca_xrcd_valid(const struct hca *hca, uint16_t uid, uint32_t xrcd)
{
	return hca_number_valid(&hca->xrcds, uid, xrcd);
}

bool hca_xrcd_of_driver(const struct hca *hca, uint32_t xrcd)
{
	const struct number *n = table_get(&hca->xrcds, xrcd);

	return n && !n->uid;
}

uint64_t hca_clock(const struct hca *hca)
{
	uint64_t ns = loop_now(hca->loop);

	/* In two steps: nanoseconds * HCA_KHZ is more than 64 bits after some days. */
	return ns / 1000000 * HCA_KHZ + ns % 1000000 * HCA_KHZ / 1000000;
}
