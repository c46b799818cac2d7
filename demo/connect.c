// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The end that asks for a connection, and gets an offer with the answer
 *
 * An id without an event channel is synchronous: each call of rdma_cm waits until
 * its work is done.  The peer or its network may not be ready yet.  So try again
 * for a while after any failure, unless the peer itself refuses.  MRFD_PATIENCE in the
 * environment makes the while so many times longer, for machines that are busy.
 */
#include <drm_fourcc.h>
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "link.h"
#include "protocol.h"

#define CONNECT_SECONDS 60 /* the peer may still be starting */
#define RESOLVE_MS 2000

/* The InfiniBand number of this reason to reject a connection. */
#define REJECTED_BY_PEER 28

/* Return NULL if connected, else the name of the call that failed, with errno. */
static const char *try_connect(struct link *l, struct rdma_addrinfo *to, unsigned int depth)
{
	/* Six retries, then an error.  With 7, Soft-RoCE retries for ever. */
	struct rdma_conn_param param = { .retry_count = 6, .initiator_depth = 1 };

	if (rdma_create_id(NULL, &l->id, NULL, RDMA_PS_TCP)) {
		l->id = NULL;
		return "rdma_create_id";
	}
	if (rdma_resolve_addr(l->id, NULL, to->ai_dst_addr, RESOLVE_MS))
		return "rdma_resolve_addr";
	if (rdma_resolve_route(l->id, RESOLVE_MS))
		return "rdma_resolve_route";
	if (link_create_qp(l, depth))
		return "cannot create a queue pair";
	if (rdma_connect(l->id, &param))
		return "rdma_connect";
	return NULL;
}

static bool peer_refused(const struct link *l)
{
	return l->id && l->id->event && l->id->event->event == RDMA_CM_EVENT_REJECTED &&
	       l->id->event->status == REJECTED_BY_PEER;
}

static uint64_t connect_ns(void)
{
	const char *patience = getenv("MRFD_PATIENCE");
	double times = patience ? atof(patience) : 1;

	times = times > 1 ? times : 1; /* what is no number, too */
	return CONNECT_SECONDS * (times < 1000 ? times : 1000) * 1e9;
}

static int connect_to(struct link *l, const char *host, unsigned int depth)
{
	const uint64_t deadline = now_ns() + connect_ns();
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *to;
	bool refused = false;
	const char *failed;
	int error;

	error = rdma_getaddrinfo(host, DEMO_PORT, &hints, &to);
	if (error) {
		/* -1: the reason is in errno; else it is an error of getaddrinfo(). */
		warnx("cannot find %s: %s", host,
		      error == -1 ? strerror(errno) : gai_strerror(error));
		return -1;
	}
	while ((failed = try_connect(l, to, depth))) {
		error = errno;
		refused = peer_refused(l);
		link_close(l);
		if (refused || now_ns() > deadline)
			break;
		usleep(100 * 1000);
	}
	rdma_freeaddrinfo(to);
	if (!failed)
		return 0;
	if (refused)
		warnx("%s refuses; its own messages say why", host);
	else
		warnx("cannot connect to %s: %s: %s", host, failed, strerror(error));
	return -1;
}

/* Take the offer out of the private data of the peer's answer. */
static int take_offer(const struct link *l, struct offer *o)
{
	const struct rdma_conn_param *answer = &l->id->event->param.conn;

	/* It may be longer, because the transport pads it to a fixed size. */
	if (answer->private_data_len < sizeof(*o)) {
		warnx("the peer offers nothing: its answer has %u bytes of private data",
		      answer->private_data_len);
		return -1;
	}
	memcpy(o, answer->private_data, sizeof(*o));
	o->magic = be32toh(o->magic);
	o->format = be32toh(o->format);
	o->width = be32toh(o->width);
	o->height = be32toh(o->height);
	o->pitch = be32toh(o->pitch);
	o->rkey = be32toh(o->rkey);
	o->iova = be64toh(o->iova);
	o->places = be32toh(o->places);
	o->flush = be32toh(o->flush);
	if (o->magic != DEMO_MAGIC || o->format != DRM_FORMAT_XRGB8888 || !o->width ||
	    !o->height || o->pitch / 4 < o->width || !o->places) {
		warnx("the peer offers no pixels, or not in the format XRGB8888");
		return -1;
	}
	return 0;
}

/* Connect with queues of DEPTH work requests, and take the peer's offer. */
int link_connect(struct link *l, const char *host, unsigned int depth, struct offer *offer)
{
	if (connect_to(l, host, depth))
		return -1;
	warnx("connected to %s", host);
	return take_offer(l, offer);
}

/* End the connection, and wait until the peer has done so too. */
int link_disconnect(struct link *l)
{
	if (rdma_disconnect(l->id)) {
		warn("rdma_disconnect");
		return -1;
	}
	return 0;
}
