/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A doubly linked list.  An entry that is on no list points to itself. */
#ifndef CONNECTX_LIST_H
#define CONNECTX_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define list_item(entry, type, member) ((type *)((char *)(entry) - offsetof(type, member)))

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_add(struct list *head, struct list *entry)
{
	entry->prev = head->prev;
	entry->next = head;
	head->prev->next = entry;
	head->prev = entry;
}

/* Also of an entry that is on no list. */
static inline void list_del(struct list *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	list_init(entry);
}

#endif
