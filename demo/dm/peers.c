// SPDX-License-Identifier: GPL-2.0-or-later
/* See peers.h.  All ids are synchronous: each call of rdma_cm waits until its work is done. */
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "peers.h"

#define CONNECT_SECONDS 60 /* the server may still be starting */

/* With 7 retries Soft-RoCE retries for ever; for a receiver that is not ready that is right. */
static const struct rdma_conn_param param = {
	.responder_resources = 1,
	.initiator_depth = 1,
	.retry_count = 6,
	.rnr_retry_count = 7,
};

/*
 * How long to wait for an acknowledgement, as 4.096 us * 2^20 = 4.3 s: the peers may share a
 * slow CPU.  It counts only if it is set before the connection is made.
 */
static void be_patient(struct rdma_cm_id *id)
{
	uint8_t timeout = 20;

	if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			    sizeof(timeout)))
		err(1, "rdma_set_option");
}

static struct ibv_qp_init_attr queue_pair(void)
{
	return (struct ibv_qp_init_attr){
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
}

struct rdma_cm_id *peers_listen(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr attr = queue_pair();
	struct rdma_addrinfo *any;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(NULL, DM_PORT, &hints, &any))
		err(1, "rdma_getaddrinfo");
	if (rdma_create_ep(&id, any, NULL, &attr))
		err(1, "rdma_create_ep%s", errno == ENODEV ? " (is there an RDMA device?)" : "");
	if (rdma_listen(id, MAX_PEERS))
		err(1, "cannot listen on port " DM_PORT);
	rdma_freeaddrinfo(any);
	return id;
}

struct rdma_cm_id *peers_next(struct rdma_cm_id *listener)
{
	struct rdma_cm_id *id;

	if (rdma_get_request(listener, &id))
		err(1, "rdma_get_request");
	be_patient(id);
	return id;
}

void peers_accept(struct rdma_cm_id *peer, const struct offer *offer)
{
	const struct offer wire = {
		.number = htobe32(offer->number),
		.rkey = htobe32(offer->rkey),
	};
	struct rdma_conn_param answer = param;

	answer.private_data = &wire;
	answer.private_data_len = sizeof(wire);
	if (rdma_accept(peer, &answer))
		err(1, "rdma_accept");
}

void peers_wait_for_end(struct rdma_cm_id *peer)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(peer->channel, &event))
		err(1, "rdma_get_cm_event");
	if (event->event != RDMA_CM_EVENT_DISCONNECTED)
		errx(1, "a peer does not disconnect: %s", rdma_event_str(event->event));
	rdma_ack_cm_event(event);
	rdma_disconnect(peer);
	rdma_destroy_ep(peer);
}

static int try_connect(struct rdma_cm_id **id, struct rdma_addrinfo *to)
{
	struct ibv_qp_init_attr attr = queue_pair();
	struct rdma_conn_param request = param;
	int error;

	if (rdma_create_ep(id, to, NULL, &attr))
		return errno;
	be_patient(*id);
	if (!rdma_connect(*id, &request))
		return 0;
	error = errno;
	rdma_destroy_ep(*id);
	return error;
}

struct rdma_cm_id *peers_connect(const char *host, struct offer *offer)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *to;
	const time_t deadline = time(NULL) + CONNECT_SECONDS;
	struct rdma_cm_id *id;
	int error;

	error = rdma_getaddrinfo(host, DM_PORT, &hints, &to);
	if (error)
		errx(1, "%s: %s", host, error == -1 ? strerror(errno) : gai_strerror(error));
	while ((error = try_connect(&id, to))) {
		if (time(NULL) > deadline)
			errx(1, "cannot connect to %s: %s", host, strerror(error));
		usleep(100 * 1000);
	}
	rdma_freeaddrinfo(to);
	if (id->event->param.conn.private_data_len < sizeof(*offer))
		errx(1, "%s offers nothing", host);
	memcpy(offer, id->event->param.conn.private_data, sizeof(*offer));
	offer->number = be32toh(offer->number);
	offer->rkey = be32toh(offer->rkey);
	return id;
}

void peers_disconnect(struct rdma_cm_id *peer)
{
	if (rdma_disconnect(peer))
		err(1, "rdma_disconnect");
	rdma_destroy_ep(peer);
}

/*
 * The memory is the device's: it has no address in this process.  Address 0 of the region is
 * its first byte, for this process and for its peers.
 */
struct dm_region dm_region_make(struct rdma_cm_id *id, size_t bytes, int access)
{
	struct ibv_alloc_dm_attr attr = { .length = bytes };
	struct dm_region r = { .dm = ibv_alloc_dm(id->verbs, &attr) };

	if (!r.dm)
		err(1, "cannot allocate %zu bytes of device memory", bytes);
	r.mr = ibv_reg_dm_mr(id->pd, r.dm, 0, bytes, access | IBV_ACCESS_ZERO_BASED);
	if (!r.mr)
		err(1, "cannot register device memory");
	return r;
}

/* In this order: memory with a region on it is not freed. */
void dm_region_end(struct dm_region *r)
{
	if (ibv_dereg_mr(r->mr) || ibv_free_dm(r->dm))
		errx(1, "cannot free device memory");
}

/* A completion, which must be a success. */
static struct ibv_wc wait_for(struct rdma_cm_id *id, int (*get)(struct rdma_cm_id *id,
								 struct ibv_wc *wc))
{
	struct ibv_wc wc;

	if (get(id, &wc) != 1)
		err(1, "no completion");
	if (wc.status != IBV_WC_SUCCESS)
		errx(1, "a work request failed: %s", ibv_wc_status_str(wc.status));
	return wc;
}

void peers_sent(struct rdma_cm_id *id)
{
	wait_for(id, rdma_get_send_comp);
}

uint32_t peers_received(struct rdma_cm_id *id)
{
	return wait_for(id, rdma_get_recv_comp).byte_len;
}

void peers_do(struct rdma_cm_id *id, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	errno = ibv_post_send(id->qp, wr, &bad);
	if (errno)
		err(1, "ibv_post_send");
	peers_sent(id);
}

unsigned int number_of(const char *text, unsigned int most)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || !n || n > most)
		errx(2, "%s: a number from 1 to %u is wanted", text, most);
	return n;
}
