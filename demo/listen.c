// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The end that waits for a connection, and answers with an offer
 *
 * The device is known only after the request, so memory is registered between
 * link_listen() and link_accept().  After the accept the peer can write at once.
 */
#include <arpa/inet.h>
#include <drm_fourcc.h>
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <stdlib.h>

#include "link.h"
#include "protocol.h"

/* Take the next connection event, which must be WANTED. */
static int next_event(struct link *l, enum rdma_cm_event_type wanted)
{
	enum rdma_cm_event_type got;
	struct rdma_cm_event *event;
	int status;

	if (rdma_get_cm_event(l->events, &event)) {
		warn("rdma_get_cm_event");
		return -1;
	}
	got = event->event;
	status = event->status;
	if (got == RDMA_CM_EVENT_CONNECT_REQUEST && !l->id)
		l->id = event->id;
	rdma_ack_cm_event(event);
	if (got == wanted && !status)
		return 0;
	warnx("waiting for %s: there is %s, status %d", rdma_event_str(wanted),
	      rdma_event_str(got), status);
	return -1;
}

/* Wait for a peer that asks for a connection. */
int link_listen(struct link *l)
{
	struct sockaddr_in any = {
		.sin_family = AF_INET,
		.sin_port = htons(atoi(DEMO_PORT)),
	};

	l->events = rdma_create_event_channel();
	if (!l->events) {
		warn("rdma_create_event_channel%s",
		     errno == ENODEV ? " (is there an RDMA device?)" : "");
		return -1;
	}
	if (rdma_create_id(l->events, &l->listener, NULL, RDMA_PS_TCP)) {
		warn("rdma_create_id");
		return -1;
	}
	if (rdma_bind_addr(l->listener, (struct sockaddr *)&any) || rdma_listen(l->listener, 1)) {
		warn("cannot listen on port " DEMO_PORT);
		return -1;
	}
	warnx("waiting for a peer on port " DEMO_PORT);
	if (next_event(l, RDMA_CM_EVENT_CONNECT_REQUEST))
		return -1;
	/* One peer is enough: refuse further ones. */
	rdma_destroy_id(l->listener);
	l->listener = NULL;
	return 0;
}

/*
 * Answer with an offer of MR; O has the size of a picture, the number of places, and flush.
 * Before that, post a receive for each picture that the peer may write at once.
 */
int link_accept(struct link *l, const struct ibv_mr *mr, const struct offer *o)
{
	const struct offer wire = {
		.magic = htobe32(DEMO_MAGIC),
		.format = htobe32(DRM_FORMAT_XRGB8888),
		.width = htobe32(o->width),
		.height = htobe32(o->height),
		.pitch = htobe32(o->pitch),
		.rkey = htobe32(mr->rkey),
		.iova = htobe64((uintptr_t)mr->addr),
		.places = htobe32(o->places),
		.flush = htobe32(o->flush),
	};
	struct rdma_conn_param param = {
		.private_data = &wire,
		.private_data_len = sizeof(wire),
		.responder_resources = 1, /* a read at a time */
	};
	uint32_t i;

	/* Twice, as answers to the last pictures may still be on their way. */
	if (link_create_qp(l, 2 * o->places)) {
		warn("cannot create a queue pair");
		return -1;
	}
	for (i = 0; i < o->places; i++)
		if (link_post_receive(l))
			return -1;
	if (rdma_accept(l->id, &param)) {
		warn("rdma_accept");
		return -1;
	}
	return next_event(l, RDMA_CM_EVENT_ESTABLISHED);
}

/* The peer disconnects at the end, and waits until we do so too. */
int link_wait_for_end(struct link *l)
{
	if (next_event(l, RDMA_CM_EVENT_DISCONNECTED))
		return -1;
	rdma_disconnect(l->id);
	return 0;
}
