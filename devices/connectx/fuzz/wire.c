// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * link.c is included, so that a target can look at its pool and give it a socket without a
 * path.  Its handshake waits for an answer of the fabric; here what the fabric says is
 * there before, and nothing is waited for.
 */
#include <poll.h>

static int poll_now(struct pollfd *fds, nfds_t n, int timeout)
{
	return poll(fds, n, 0);
}

#define poll poll_now
#include "link.c"
#undef poll
#include "wire.h"

bool wire_is_empty(const struct link *l)
{
	return l->free_count == LINK_PACKETS && list_empty(&l->waiters) &&
	       list_empty(&l->local) && list_empty(&l->blocked);
}

static bool moved;		/* it was plugged into something else */

/* As stand_alone(), for a switch that is there; there are no groups if it saw no packet. */
void wire_rejoin(struct link *l)
{
	static const struct switch_port_ops ops = { alone_deliver, alone_resume };
	static uint64_t seen;
	const char *why;

	if (!moved && switch_counters(l->alone)->packets == seen)
		return;
	moved = false;
	seen = switch_counters(l->alone)->packets;
	switch_detach(l->alone_port);
	l->alone_port = switch_attach(l->alone, l->user.guid, &ops, l, &why);
	l->lid = switch_lid(l->alone_port);
	l->sm_lid = SWITCH_SM_LID;
	l->user.set(l->user.arg, l->lid, l->sm_lid, PORT_ACTIVE);
}

struct packet *wire_steal(struct link *l)
{
	struct packet *p;

	if (list_empty(&l->local))
		return NULL;
	p = list_item(l->local.next, struct packet, entry);
	list_del(&p->entry);
	return p;
}

/* The switch of a link that is plugged into something else, which has none. */
static struct ib_switch *kept;

/* As connect_fabric(), from the socket on. */
bool wire_plug(struct link *l, int fd)
{
	if (fabric_init(&l->stream, fd))
		return false;
	if (!say_hello(l, "fuzz")) {
		fabric_done(&l->stream);
		return false;
	}
	l->events = EPOLLIN;
	if (loop_watch(l->user.loop, l->stream.fd, l->events, fabric_ready, l)) {
		fabric_done(&l->stream);
		return false;
	}
	l->fabric = true;
	kept = l->alone;
	l->alone = NULL;
	loop_work(l->user.loop, &l->in);
	return true;
}

void wire_unplug(struct link *l)
{
	if (l->fabric)
		fabric_lost(l, "unplugged");
	if (kept)
		l->alone = kept;
	kept = NULL;
	moved = true;
	wire_rejoin(l);
}
