/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The inside of the port's link, for targets that look at it or put something in. */
#ifndef CONNECTX_FUZZ_WIRE_H
#define CONNECTX_FUZZ_WIRE_H

#include "packet.h"

/* Every packet is in the pool again, and nothing waits. */
bool wire_is_empty(const struct link *l);
/* The subnet forgets the port, its groups with it; the port is a new one with the same LID. */
void wire_rejoin(struct link *l);
/* The first packet that is about to come back in, taken off its queue, or NULL. */
struct packet *wire_steal(struct link *l);
/*
 * Whoever has the other end of the socket FD is the fabric from now on.  What it says
 * first must be there already.  FD is taken; false: it said nothing that makes sense.
 */
bool wire_plug(struct link *l, int fd);
/* And back to the subnet of one port. */
void wire_unplug(struct link *l);

#endif
