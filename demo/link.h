/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DEMO_LINK_H
#define DEMO_LINK_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

struct offer;

/* A connection, with one queue for all of its completions.  Begin with {}. */
struct link {
	struct rdma_event_channel *events; /* only of the end that listens */
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id; /* the connection, with its PD and QP */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
};

/* On failure each of these prints a message to stderr and returns -1. */

/* The end that asks for a connection, connect.c; OFFER is the peer's. */
int link_connect(struct link *l, const char *host, unsigned int depth, struct offer *offer);
int link_disconnect(struct link *l);

/* The end that waits for one, listen.c; OFFER is of MR. */
int link_listen(struct link *l);
int link_accept(struct link *l, const struct ibv_mr *mr, const struct offer *offer);
int link_wait_for_end(struct link *l);

/* Both ends, link.c. */
int link_create_qp(struct link *l, unsigned int depth);
int link_post_receive(struct link *l);
int link_next(struct link *l, struct ibv_wc *wc);
int link_next_or_end(struct link *l, struct ibv_wc *wc);
void link_close(struct link *l);

uint64_t now_ns(void);

#endif
