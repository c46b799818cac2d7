// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Objects by number: an array of pointers.  The search for a free entry begins behind the
 * one that was found last.  At the end of the array it goes back to the start only if half
 * of the entries are free; else the array doubles, up to MAX entries.  So, short of MAX, a
 * number that was freed comes back only after AT_FIRST / 2 others at least.
 *
 * The invariant: COUNT entries of SIZE are not NULL, and SIZE is not more than MAX.
 */
#include "table.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AT_FIRST 128

void table_init(struct table *t, uint32_t first, uint32_t max)
{
	memset(t, 0, sizeof(*t));
	t->first = first;
	t->max = max;
}

static int grow(struct table *t)
{
	uint64_t size = t->size ? 2 * (uint64_t)t->size : AT_FIRST;
	void **slot;

	if (size > t->max)
		size = t->max;
	slot = realloc(t->slot, size * sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	memset(slot + t->size, 0, (size - t->size) * sizeof(*slot));
	t->slot = slot;
	t->size = size;
	return 0;
}

/* The first free entry from I on, or SIZE. */
static uint32_t find_free(const struct table *t, uint32_t i)
{
	while (i < t->size && t->slot[i])
		i++;
	return i;
}

int64_t table_add(struct table *t, void *object)
{
	uint32_t i = find_free(t, t->next);

	if (i == t->size) {
		/* If there is no memory it may go on with what it has. */
		if (t->size < t->max && t->count >= t->size / 2 && grow(t) &&
		    t->count == t->size)
			return -ENOMEM;
		if (i == t->size)
			i = find_free(t, 0);
		if (i == t->size)
			return -ENOSPC;
	}
	t->slot[i] = object;
	t->count++;
	t->next = i + 1;
	return (int64_t)t->first + i;
}

void *table_get(const struct table *t, uint32_t number)
{
	/* A number below FIRST wraps, and is far beyond SIZE. */
	return number - t->first < t->size ? t->slot[number - t->first] : NULL;
}

void *table_del(struct table *t, uint32_t number)
{
	void *object = table_get(t, number);

	if (object) {
		t->slot[number - t->first] = NULL;
		t->count--;
	}
	return object;
}

void table_clear(struct table *t, void (*free_one)(void *arg, void *object), void *arg)
{
	void *object;
	uint32_t i;

	for (i = 0; i < t->size; i++) {
		/* Out of the table first, so that FREE_ONE may delete it by its number. */
		object = table_del(t, t->first + i);
		if (object && free_one)
			free_one(arg, object);
	}
	free(t->slot);
	table_init(t, t->first, t->max);
}

void *table_next(const struct table *t, uint32_t *number)
{
	uint32_t i = *number < t->first ? 0 : *number - t->first;

	for (; i < t->size; i++) {
		if (t->slot[i]) {
			*number = t->first + i;
			return t->slot[i];
		}
	}
	return NULL;
}
