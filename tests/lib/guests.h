/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TCP between the programs of two guests, by which they find each other and say what has no
 * place in the traffic that they test.  Guest 0 listens, guest 1 connects.
 */
#ifndef LIB_GUESTS_H
#define LIB_GUESTS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether this is guest 0. */
bool is_guest0(void);
/* A socket that has room for BACKLOG connections that are not accepted yet. */
int guest0_listens(int backlog);
int guest0_accepts(int listens);
/* Connect to guest 0; wait up to a minute until it listens. */
int guest1_connects(void);

/* All N bytes; ends the program if the other guest has gone. */
void say(int fd, const void *p, size_t n);
void hear(int fd, void *p, size_t n);
#endif
