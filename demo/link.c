// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A connection and its completions, the same at both ends
 *
 * All completions come to one queue, in the order in which they happened.  A
 * program takes one at a time with link_next(), which sleeps until there is one.
 * A peer that dies causes no completion, so it also looks for an event of the
 * connection, which is an error while a completion is awaited.
 *
 * rdma_cm makes the PD.  connect.c and listen.c have the rest of it.
 */
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "link.h"

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Make a queue pair for DEPTH work requests in each direction; errno if it fails. */
int link_create_qp(struct link *l, unsigned int depth)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = depth, .max_send_sge = 3,
			 .max_recv_wr = depth, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	l->channel = ibv_create_comp_channel(l->id->verbs);
	if (!l->channel)
		return -1;
	l->cq = ibv_create_cq(l->id->verbs, 2 * depth, NULL, l->channel, 0);
	if (!l->cq)
		return -1;
	attr.send_cq = l->cq;
	attr.recv_cq = l->cq;
	return rdma_create_qp(l->id, NULL, &attr);
}

/* Post a receive without a buffer, for immediate data. */
int link_post_receive(struct link *l)
{
	struct ibv_recv_wr *bad, wr = {};
	int error = ibv_post_recv(l->id->qp, &wr, &bad);

	if (error) {
		warnx("cannot post a receive: %s", strerror(error));
		return -1;
	}
	return 0;
}

/* Sleep until there may be a completion.  1: the peer went away; -1: failed. */
static int sleep_until_news(struct link *l)
{
	struct pollfd fds[] = {
		{ .fd = l->channel->fd, .events = POLLIN },
		{ .fd = l->id->channel->fd, .events = POLLIN },
	};
	struct ibv_cq *cq;
	void *context;

	if (poll(fds, 2, -1) < 0) {
		warn("poll");
		return -1;
	}
	if (fds[0].revents) {
		if (ibv_get_cq_event(l->channel, &cq, &context)) {
			warn("ibv_get_cq_event");
			return -1;
		}
		ibv_ack_cq_events(cq, 1);
	}
	return fds[1].revents ? 1 : 0;
}

/* Take the next completion, which must be a success.  1: the peer left, and there is none. */
int link_next_or_end(struct link *l, struct ibv_wc *wc)
{
	bool asked = false;
	int n, error, news = 0;

	while (!(n = ibv_poll_cq(l->cq, 1, wc))) {
		if (news)
			return news;
		if (asked) {
			news = sleep_until_news(l);
			asked = false;
			continue;
		}
		/* A completion before the request causes no notification: poll again. */
		error = ibv_req_notify_cq(l->cq, 0);
		if (error) {
			warnx("ibv_req_notify_cq: %s", strerror(error));
			return -1;
		}
		asked = true;
	}
	if (n < 0) {
		warnx("ibv_poll_cq failed");
		return -1;
	}
	if (wc->status != IBV_WC_SUCCESS) {
		warnx("a work request failed: %s", ibv_wc_status_str(wc->status));
		return -1;
	}
	return 0;
}

/* Take the next completion, without which the peer must not leave. */
int link_next(struct link *l, struct ibv_wc *wc)
{
	int ret = link_next_or_end(l, wc);

	if (ret == 1)
		warnx("the peer went away in the middle");
	return ret ? -1 : 0;
}

/* Destroy in the reverse order.  What was never created is NULL. */
void link_close(struct link *l)
{
	if (l->id && l->id->qp)
		rdma_destroy_qp(l->id);
	if (l->cq)
		ibv_destroy_cq(l->cq);
	if (l->channel)
		ibv_destroy_comp_channel(l->channel);
	/* This rejects a peer that was not accepted yet. */
	if (l->id)
		rdma_destroy_ep(l->id);
	if (l->listener)
		rdma_destroy_id(l->listener);
	if (l->events)
		rdma_destroy_event_channel(l->events);
	*l = (struct link){};
}
