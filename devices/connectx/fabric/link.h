/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The port's link: packets in and out.  A packet for a LID of this port goes back in
 * through a queue, any other one to the fabric (or to the subnet administrator that
 * stands in for one if the model runs alone).  Loopback has no CRC to compute; --pcap
 * sees every packet, with CRCs, so nobody can tell.
 *
 * Packets come from a pool.  A sender that gets none waits for link_wait(); a response
 * that gets none is lost, which the protocol can bear.
 */
#ifndef CONNECTX_LINK_H
#define CONNECTX_LINK_H

#include "loop.h"
#include "packet.h"

#define LINK_PACKETS 4096
#define LINK_STALLED 1024	/* of them, at most, wait for pages of guest memory */

struct link;
struct stats;

/* Packets, and their octets without the VCRC, as IBA 16.1.4.2 counts them. */
struct traffic {
	uint64_t packets, octets;
};

struct link_count {
	struct traffic in[2], out[2];	/* unicast, multicast */
	uint64_t rcv_errors, xmit_discards, link_downed;
};

/* Whose link it is.  The link counts in COUNT and STATS, which belong to the user. */
struct link_user {
	struct loop *loop;
	uint64_t guid;			/* of the port */
	struct link_count *count;
	struct stats *stats;
	/* The link got its LID, or lost its fabric; STATE as ib_port_state. */
	void (*set)(void *arg, uint16_t lid, uint16_t sm_lid, u8 state);
	/* A packet came.  Takes P. */
	void (*receive)(void *arg, struct packet *p);
	void *arg;
};

/*
 * USER is copied.  FABRIC: path of its socket, or NULL.  PCAP: path or NULL.  NULL with a
 * note().
 */
struct link *link_new(const struct link_user *user, const char *fabric, const char *pcap);
void link_free(struct link *l);

/* NULL if the pool is empty.  All fields are 0. */
struct packet *link_packet(struct link *l);
void link_packet_free(struct link *l, struct packet *p);
/* Queue W when there are packets again. */
void link_wait(struct link *l, struct work *w);
/* Takes P.  SLID, and the SGID of a global packet, are the caller's. */
void link_send(struct link *l, struct packet *p);
/* Whether a packet to this LID comes back to this device without a wire. */
bool link_is_local(const struct link *l, uint16_t lid);
/* Drop what is queued: the device was reset. */
void link_reset(struct link *l);

#endif
