// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The port's link.  A packet to the port's own LID goes onto a list and comes back in a
 * later turn.  Any other one goes to the fabric; without one, to a switch with this one
 * port in the model itself, whose subnet administrator answers.
 *
 * All packets are of one pool.  Its last LINK_RESERVE are for what arrives, so that a
 * device whose senders took all others still reads, and two of them cannot stop each
 * other.  If even those are gone, the port stops reading, and the fabric holds its senders
 * or drops what goes to it.
 *
 * What does not fit into the buffer towards the fabric stays on a list, in order.  Each
 * turn handles at most LINK_TURN packets, and fewer if they take long.  What arrives is
 * checked by packet_parse(), and for its LID, before its user sees it.
 */
#include "link.h"
#include "fabric.h"
#include "ifc.h"
#include "list.h"
#include "pcap.h"
#include "stats.h"
#include "switch.h"
#include "trace.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LINK_RESERVE 256
#define LINK_TURN 64
#define LINK_HELLO_MS 5000
#define PORT_DOWN 1
#define PORT_ACTIVE 4

struct link {
	struct link_user user;
	uint16_t lid, sm_lid;
	struct packet *pool;
	struct list free;
	unsigned int free_count;
	struct list waiters;		/* struct work, by their entry */
	struct work wake;
	struct list local;		/* packets that come back in */
	struct work local_turn;
	struct pcap *pcap;
	/* With a fabric. */
	bool fabric;			/* connected */
	uint32_t events;		/* that are watched */
	struct fabric_stream stream;
	struct work out, in;
	struct list blocked;		/* packets that wait for room in the stream */
	/* Alone. */
	struct ib_switch *alone;
	struct switch_port *alone_port;
};

static void watch(struct link *l, uint32_t events)
{
	if (l->events == events)
		return;
	l->events = events;
	loop_rewatch(l->user.loop, l->stream.fd, events);
}

/* ---- the pool ---- */

static struct packet *take(struct link *l)
{
	struct packet *p = list_item(l->free.next, struct packet, entry);

	list_del(&p->entry);
	l->free_count--;
	return p;
}

struct packet *link_packet(struct link *l)
{
	struct packet *p;

	if (l->free_count <= LINK_RESERVE)
		return NULL;
	p = take(l);
	memset(&p->dlid, 0, offsetof(struct packet, payload) - offsetof(struct packet, dlid));
	return p;
}

void link_packet_free(struct link *l, struct packet *p)
{
	list_del(&p->entry);
	/* At the front, because it is in the cache. */
	list_add(l->free.next, &p->entry);
	l->free_count++;
	if (!list_empty(&l->waiters) && l->free_count > LINK_RESERVE)
		loop_work(l->user.loop, &l->wake);
	if (l->fabric && !(l->events & EPOLLIN) && l->free_count > LINK_RESERVE / 2)
		loop_work(l->user.loop, &l->in);
}

void link_wait(struct link *l, struct work *w)
{
	/* One that is on the loop's queue gets its turn anyway. */
	if (list_empty(&w->entry))
		list_add(&l->waiters, &w->entry);
	if (l->free_count > LINK_RESERVE)
		loop_work(l->user.loop, &l->wake);
}

static void wake_run(struct work *work)
{
	struct link *l = list_item(work, struct link, wake);
	unsigned int n = 0;

	while (n++ < LINK_TURN && !list_empty(&l->waiters) && l->free_count > LINK_RESERVE) {
		struct work *w = list_item(l->waiters.next, struct work, entry);

		list_del(&w->entry);
		loop_work(l->user.loop, w);
	}
	if (!list_empty(&l->waiters) && l->free_count > LINK_RESERVE)
		loop_work(l->user.loop, work);
}

/* ---- packets in ---- */

static void capture(struct link *l, const struct packet *p)
{
	u8 wire[PACKET_WIRE_MAX];

	if (l->pcap)
		pcap_add(l->pcap, wire, packet_write(p, wire));
}

static void trace_packet(const char *direction, const struct packet *p)
{
	char line[160];

	packet_describe(p, line, sizeof(line));
	trace("%s %s", direction, line);
}

/* Returns the octets of the packet. */
static size_t count(struct traffic t[2], const struct packet *p)
{
	size_t octets = packet_size(p) - PACKET_VCRC;

	t += lid_is_multicast(p->dlid);
	t->packets++;
	t->octets += octets;
	return octets;
}

static void receive(struct link *l, struct packet *p)
{
	struct stats *s = l->user.stats;

	s->packets_in++;
	s->bytes_in += count(l->user.count->in, p);
	l->user.receive(l->user.arg, p);
}

static void local_run(struct work *work)
{
	struct link *l = list_item(work, struct link, local_turn);

	for (unsigned int n = 0; n < LINK_TURN && !list_empty(&l->local); n++) {
		struct packet *p = list_item(l->local.next, struct packet, entry);

		list_del(&p->entry);
		receive(l, p);
		if (loop_turn_over(l->user.loop))
			break;
	}
	if (!list_empty(&l->local))
		loop_work(l->user.loop, work);
}

static void queue_local(struct link *l, struct packet *p)
{
	list_add(&l->local, &p->entry);
	loop_work(l->user.loop, &l->local_turn);
}

/* A packet that came from elsewhere, into one of the pool; NULL: it is not for us. */
static struct packet *parse_in(struct link *l, const u8 *wire, size_t len)
{
	struct packet *p = take(l);
	const char *why;

	pcap_add(l->pcap, wire, len);
	if (packet_parse(p, wire, len, &why)) {
		l->user.count->rcv_errors++;
	} else if (p->dlid == l->lid || lid_is_multicast(p->dlid)) {
		if (tracing)
			trace_packet("in ", p);
		return p;
	} else {
		why = "not for this LID";
	}
	trace("in  bad packet of %zu bytes: %s", len, why);
	link_packet_free(l, p);
	return NULL;
}

/* ---- the fabric ---- */

/* It cannot be sent because the port is down. */
static void discard(struct link *l, struct packet *p)
{
	l->user.count->xmit_discards++;
	link_packet_free(l, p);
}

static void fabric_lost(struct link *l, const char *why)
{
	note("the fabric is gone: %s", why);
	l->fabric = false;
	loop_unwatch(l->user.loop, l->stream.fd);
	fabric_done(&l->stream);
	work_stop(&l->out);
	work_stop(&l->in);
	while (!list_empty(&l->blocked))
		discard(l, list_item(l->blocked.next, struct packet, entry));
	l->user.count->link_downed++;
	l->user.set(l->user.arg, l->lid, l->sm_lid, PORT_DOWN);
}

/* The first packets, up to LINK_TURN.  NULL, or why the connection has to end. */
static const char *take_frames(struct link *l)
{
	struct packet *p;
	const u8 *body;
	size_t len;
	int type = 0;

	for (unsigned int n = 0; n < LINK_TURN && l->free_count; n++) {
		type = fabric_peek(&l->stream, &body, &len);
		if (type <= 0)
			break;
		if (type != FABRIC_PACKET)
			return "it sent a frame that does not belong here";
		p = parse_in(l, body, len);
		fabric_next(&l->stream);
		if (p)
			receive(l, p);
		if (!l->fabric || loop_turn_over(l->user.loop))
			return NULL;
	}
	return type < 0 ? "it sent what is not a frame" : NULL;
}

static void in_run(struct work *work)
{
	struct link *l = list_item(work, struct link, in);
	const char *why;
	const u8 *body;
	ssize_t n = 0;
	size_t len;

	if (!fabric_peek(&l->stream, &body, &len))
		n = fabric_fill(&l->stream);
	if (n < 0) {
		fabric_lost(l, strerror(-n));
		return;
	}
	why = take_frames(l);
	if (!l->fabric)
		return;
	if (why) {
		fabric_lost(l, why);
		return;
	}
	if (!l->free_count) {
		watch(l, l->events & ~EPOLLIN);
		return;
	}
	watch(l, l->events | EPOLLIN);
	if (fabric_peek(&l->stream, &body, &len))
		loop_work(l->user.loop, work);
}

/* Into the stream's buffer; false: no room. */
static bool put_frame(struct link *l, const struct packet *p)
{
	u8 *body = fabric_reserve(&l->stream, PACKET_WIRE_MAX);
	size_t len;

	if (!body)
		return false;
	len = packet_write(p, body);
	pcap_add(l->pcap, body, len);
	fabric_commit(&l->stream, FABRIC_PACKET, len);
	return true;
}

/* It is on its way; a multicast packet also comes back, for the other QPs of the group. */
static void sent(struct link *l, struct packet *p)
{
	if (lid_is_multicast(p->dlid))
		queue_local(l, p);
	else
		link_packet_free(l, p);
}

static void out_run(struct work *work)
{
	struct link *l = list_item(work, struct link, out);
	int err = fabric_flush(&l->stream);

	if (err) {
		fabric_lost(l, strerror(-err));
		return;
	}
	while (!list_empty(&l->blocked)) {
		struct packet *p = list_item(l->blocked.next, struct packet, entry);

		if (!put_frame(l, p))
			break;
		list_del(&p->entry);
		sent(l, p);
	}
	if (fabric_pending(&l->stream))
		watch(l, l->events | EPOLLOUT);
	else
		watch(l, l->events & ~EPOLLOUT);
}

static void fabric_ready(void *arg, uint32_t events)
{
	struct link *l = arg;

	if (events & EPOLLOUT)
		out_run(&l->out);
	if (!l->fabric)
		return;
	if (events & EPOLLIN)
		in_run(&l->in);
	else if (events & (EPOLLHUP | EPOLLERR))
		fabric_lost(l, "it closed the connection");
}

static void to_fabric(struct link *l, struct packet *p)
{
	if (!list_empty(&l->blocked) || !put_frame(l, p)) {
		list_add(&l->blocked, &p->entry);
		return;
	}
	sent(l, p);
	if (fabric_pending(&l->stream) >= FABRIC_BATCH && !(l->events & EPOLLOUT))
		out_run(&l->out);
	else if (!(l->events & EPOLLOUT))
		loop_work(l->user.loop, &l->out);
}

/* ---- alone ---- */

static bool alone_deliver(void *arg, const u8 *wire, size_t len)
{
	struct link *l = arg;
	struct packet *p;

	if (!l->free_count)
		return false;
	p = parse_in(l, wire, len);
	if (p)
		queue_local(l, p);
	return true;
}

/* Only the administrator sends, and it never waits. */
static void alone_resume(void *arg)
{
}

static void to_alone(struct link *l, struct packet *p)
{
	u8 wire[PACKET_WIRE_MAX];
	size_t len = packet_write(p, wire);

	pcap_add(l->pcap, wire, len);
	switch_send(l->alone_port, wire, len);
	sent(l, p);
}

/* ---- packets out ---- */

bool link_is_local(const struct link *l, uint16_t lid)
{
	return lid == l->lid;
}

void link_send(struct link *l, struct packet *p)
{
	struct stats *s = l->user.stats;

	if (tracing)
		trace_packet("out", p);
	if (!l->fabric && !l->alone && !link_is_local(l, p->dlid)) {
		discard(l, p);			/* the fabric is gone */
		return;
	}
	s->packets_out++;
	s->bytes_out += count(l->user.count->out, p);
	if (link_is_local(l, p->dlid)) {
		capture(l, p);
		queue_local(l, p);
	} else if (l->fabric) {
		to_fabric(l, p);
	} else {
		to_alone(l, p);
	}
}

static void drop_all(struct link *l, struct list *packets)
{
	while (!list_empty(packets))
		link_packet_free(l, list_item(packets->next, struct packet, entry));
}

void link_reset(struct link *l)
{
	drop_all(l, &l->local);
	drop_all(l, &l->blocked);
}

/* ---- set-up ---- */

static int open_socket(const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd, err = ENAMETOOLONG;

	if (strlen(path) >= sizeof(to.sun_path))
		goto out;
	strcpy(to.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof(to)))
		return fd;
	err = errno;
	if (fd >= 0)
		close(fd);
out:
	note("fabric %s: %s", path, strerror(err));
	return -1;
}

/* Say who we are, and wait for the LID; this is before the loop runs. */
static bool say_hello(struct link *l, const char *path)
{
	struct pollfd pfd = { .fd = l->stream.fd, .events = POLLIN };
	u8 *hello = fabric_reserve(&l->stream, FABRIC_HELLO_SIZE);
	const u8 *body;
	size_t len;
	int type;

	put_be32(hello, FABRIC_MAGIC);
	put_be64(hello + 4, l->user.guid);
	fabric_commit(&l->stream, FABRIC_HELLO, FABRIC_HELLO_SIZE);
	if (fabric_flush(&l->stream) || fabric_pending(&l->stream)) {
		note("fabric %s: it took no hello", path);
		return false;
	}
	while (!(type = fabric_peek(&l->stream, &body, &len))) {
		if (poll(&pfd, 1, LINK_HELLO_MS) <= 0 || fabric_fill(&l->stream) < 0) {
			note("fabric %s: it did not answer", path);
			return false;
		}
	}
	if (type == FABRIC_REFUSED) {
		note("fabric %s: refused: %.*s", path, (int)len, body);
		return false;
	}
	if (type != FABRIC_WELCOME || len != FABRIC_WELCOME_SIZE || !be16_at(body) ||
	    be16_at(body) >= SWITCH_FIRST_MLID || !be16_at(body + 2) ||
	    body[4] < PORT_DOWN || body[4] > PORT_ACTIVE) {
		note("fabric %s: its answer makes no sense", path);
		return false;
	}
	l->lid = be16_at(body);
	l->sm_lid = be16_at(body + 2);
	l->user.set(l->user.arg, l->lid, l->sm_lid, body[4]);
	fabric_next(&l->stream);
	return true;
}

static bool connect_fabric(struct link *l, const char *path)
{
	int fd = open_socket(path), err;

	if (fd < 0 || fabric_init(&l->stream, fd))
		return false;
	if (!say_hello(l, path))
		return false;
	l->events = EPOLLIN;
	err = loop_watch(l->user.loop, l->stream.fd, l->events, fabric_ready, l);
	if (err) {
		note("fabric %s: %s", path, strerror(-err));
		return false;
	}
	l->fabric = true;
	/* It may have sent packets right after its welcome. */
	loop_work(l->user.loop, &l->in);
	return true;
}

static bool stand_alone(struct link *l)
{
	static const struct switch_port_ops ops = { alone_deliver, alone_resume };
	static const struct switch_faults none;
	const char *why;

	l->alone = switch_new(l->user.loop, &none, NULL);
	if (!l->alone)
		return false;
	l->alone_port = switch_attach(l->alone, l->user.guid, &ops, l, &why);
	if (!l->alone_port) {
		note("port: %s", why);
		return false;
	}
	l->lid = switch_lid(l->alone_port);
	l->sm_lid = SWITCH_SM_LID;
	l->user.set(l->user.arg, l->lid, l->sm_lid, PORT_ACTIVE);
	return true;
}

struct link *link_new(const struct link_user *user, const char *fabric, const char *pcap)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->user = *user;
	l->stream.fd = -1;
	list_init(&l->free);
	list_init(&l->waiters);
	list_init(&l->local);
	list_init(&l->blocked);
	work_init(&l->wake, wake_run);
	work_init(&l->local_turn, local_run);
	work_init(&l->out, out_run);
	work_init(&l->in, in_run);
	l->pool = calloc(LINK_PACKETS, sizeof(*l->pool));
	if (!l->pool)
		goto fail;
	for (unsigned int i = 0; i < LINK_PACKETS; i++)
		list_add(&l->free, &l->pool[i].entry);
	l->free_count = LINK_PACKETS;
	if (pcap) {
		l->pcap = pcap_open(user->loop, pcap);
		if (!l->pcap) {
			note("%s: %s", pcap, strerror(errno));
			goto fail;
		}
	}
	if (fabric ? connect_fabric(l, fabric) : stand_alone(l))
		return l;
fail:
	link_free(l);
	return NULL;
}

void link_free(struct link *l)
{
	if (!l)
		return;
	while (!list_empty(&l->waiters))
		list_del(l->waiters.next);
	work_stop(&l->wake);
	work_stop(&l->local_turn);
	work_stop(&l->out);
	work_stop(&l->in);
	if (l->fabric)
		loop_unwatch(l->user.loop, l->stream.fd);
	fabric_done(&l->stream);
	if (l->alone_port)
		switch_detach(l->alone_port);
	switch_free(l->alone);
	pcap_close(l->pcap);
	free(l->pool);
	free(l);
}
