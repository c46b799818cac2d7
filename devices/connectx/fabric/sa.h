/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The subnet administrator: answers what IPoIB, rdma_cm and the SA client of the kernel
 * ask for, and keeps the multicast groups.
 */
#ifndef CONNECTX_SA_H
#define CONNECTX_SA_H

#include "switch.h"

struct sa;

/* NULL: no memory. */
struct sa *sa_new(struct ib_switch *s, struct loop *loop);
void sa_free(struct sa *sa);
/* A packet to LID 1.  True: ANSWER is to be sent. */
bool sa_receive(struct sa *sa, const struct packet *request, struct packet *answer);
/* After that: true if ANSWER, which was sent, is now one more. */
bool sa_next(struct sa *sa, struct packet *answer);
/* The port left the fabric, and with it all groups and services. */
void sa_port_gone(struct sa *sa, uint16_t lid);

#endif
