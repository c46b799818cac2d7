/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections for the examples of device memory, by rdma_cm.  One end serves: it waits for a
 * number of peers, and tells each in its answer what it needs for RDMA.  The others connect.
 *
 * An error ends the program with a message: what it has made goes with it.
 */
#ifndef DM_PEERS_H
#define DM_PEERS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stddef.h>
#include <stdint.h>

#define DM_PORT "7472"
#define MAX_PEERS 64
#define DEPTH 16 /* work requests of a queue */

/* What a peer gets with the answer; big endian on the wire. */
struct offer {
	uint32_t number; /* of this peer, from 1 */
	uint32_t rkey;	 /* of the server's region, whose first address is 0 */
};

/* --- The end that serves */

struct rdma_cm_id *peers_listen(void);
/*
 * The next peer that asks for a connection.  Its id has a queue pair, and the device and PD
 * that all peers share.  It is to be accepted; receives are posted before that.
 */
struct rdma_cm_id *peers_next(struct rdma_cm_id *listener);
void peers_accept(struct rdma_cm_id *peer, const struct offer *offer);

/* --- The other end */

/* Connect to HOST, whose server may still be starting. */
struct rdma_cm_id *peers_connect(const char *host, struct offer *offer);

/* --- Both */

/*
 * One end disconnects and the other waits for that; then both close the connection.  The end
 * whose request completed last disconnects: what is on the way to the other one may get lost,
 * also the acknowledgement of a message that has arrived.
 */
void peers_disconnect(struct rdma_cm_id *peer);
void peers_wait_for_end(struct rdma_cm_id *peer);

/* Device memory with a region of all of it. */
struct dm_region {
	struct ibv_dm *dm;
	struct ibv_mr *mr;
};

struct dm_region dm_region_make(struct rdma_cm_id *id, size_t bytes, int access);
void dm_region_end(struct dm_region *r);

/* Post a work request and wait until it is done. */
void peers_do(struct rdma_cm_id *id, struct ibv_send_wr *wr);
/* Wait until the oldest request is done. */
void peers_sent(struct rdma_cm_id *id);
/* Wait until the oldest receive has a message: its bytes. */
uint32_t peers_received(struct rdma_cm_id *id);

/* A number from 1 to MOST on the command line. */
unsigned int number_of(const char *text, unsigned int most);

#endif
