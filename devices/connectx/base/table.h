/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Objects by number, as the guest names them: from FIRST to FIRST + MAX - 1.  A number
 * is not given again soon after it was freed, so that a stale one is noticed.  The
 * memory grows with the objects that exist, and not with MAX.
 */
#ifndef CONNECTX_TABLE_H
#define CONNECTX_TABLE_H

#include <stdint.h>

struct table {
	uint32_t first, max, size, count, next;
	void **slot;
};

void table_init(struct table *t, uint32_t first, uint32_t max);
/* The number, or -ENOSPC, -ENOMEM. */
int64_t table_add(struct table *t, void *object);
/* NULL if there is none. */
void *table_get(const struct table *t, uint32_t number);
/* What it held, or NULL. */
void *table_del(struct table *t, uint32_t number);
/* Call FREE_ONE for each object, and begin anew. */
void table_clear(struct table *t, void (*free_one)(void *arg, void *object), void *arg);
/* For each object, with its number in NUMBER. */
#define table_each(t, number, object) \
	for (uint32_t number = 0; ((object) = table_next(t, &number)); number++)
/* The first object with a number from *NUMBER on, which is set; NULL at the end. */
void *table_next(const struct table *t, uint32_t *number);

#endif
