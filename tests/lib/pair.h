/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two RC queue pairs of one device, connected to each other: what the first posts
 * arrives at the second through the whole stack, on Ethernet and on InfiniBand.
 *
 * An operation posts to the first queue pair, waits for the completion, and returns
 * its status.  A refused operation puts the queue pairs into the error state.
 */
#ifndef LIB_PAIR_H
#define LIB_PAIR_H

#include "lib/device.h"
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAR_QP 0x77		/* of a peer that is the case itself */

struct pair {
	struct ibv_context *ctx;
	struct ibv_pd *pd;	/* the pair's own, or NULL */
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	uint32_t psn;		/* the first of either end; others are counted from it */
	uint32_t sges;		/* of a work request, for ends that are made later; 0: two */
	bool gives_up;		/* on a receiver that is not ready, after two more tries */
	const struct ibv_ah_attr *far;	/* where the case itself is the peer of the ends */
};

/* PD: one for each end; if NULL, the pair allocates one for both. */
void pair_open(struct pair *p, struct ibv_context *ctx, struct ibv_pd *pd[2]);
void pair_open_mtu(struct pair *p, struct ibv_context *ctx, struct ibv_pd *pd[2],
		   enum ibv_mtu mtu);
/* One end, not connected; the first to be made makes the CQ. */
void pair_create_end(struct pair *p, int end, struct ibv_pd *pd);
/* Connect both ends, also those that were connected, or are in the error state. */
void pair_connect(struct pair *p, enum ibv_mtu mtu);
/* The same, but an end that goes to the error state in between does not end the case. */
bool pair_try_connect(struct pair *p, enum ibv_mtu mtu);
/* A second: on a busy guest a packet that is only late is not sent again. */
#define LONG_TIMEOUT 18
/*
 * Connect one end, also again.  What it sends begins SQ_PSN after the first PSN of the pair, and
 * is repeated after 4.096 us << TIMEOUT.
 */
void pair_connect_end(struct pair *p, int end, enum ibv_mtu mtu, uint32_t sq_psn,
		      uint8_t timeout);
/* Both ends in one PD. */
void pair_open_in(struct pair *p, struct ibv_pd *pd);
/* Also for a struct that is all 0, and for a pair that was opened only in part. */
void pair_close(struct pair *p);

enum ibv_wc_status rdma_op(struct pair *p, enum ibv_wr_opcode opcode,
			   struct ibv_mr *local, uint64_t local_addr, uint32_t length,
			   uint64_t remote_addr, uint32_t rkey);
/* RESULT gets the old value at its addr. */
enum ibv_wc_status atomic_op(struct pair *p, enum ibv_wr_opcode opcode,
			     struct ibv_mr *result, uint64_t remote_addr, uint32_t rkey,
			     uint64_t compare_add, uint64_t swap);
/* The address need not be aligned: the library does not check it. */
enum ibv_wc_status fetch_add_unchecked(struct pair *p, struct ibv_mr *result,
				       uint64_t remote_addr, uint32_t rkey);
enum ibv_wc_status atomic_write(struct pair *p, uint64_t remote_addr, uint32_t rkey,
				uint64_t value);
/* Flush a range to global visibility. */
enum ibv_wc_status flush_op(struct pair *p, uint64_t remote_addr, size_t length, uint32_t rkey);

/* The next completion, in *WC unless that is NULL; it has to come within a minute. */
enum ibv_wc_status wait_wc(struct pair *p, struct ibv_wc *wc);
/* Post at the second queue pair; MR is NULL for a message without data. */
void post_recv(struct pair *p, struct ibv_mr *mr, uint64_t addr, uint32_t length);

struct ibv_mw *window_alloc(struct ibv_pd *pd, enum ibv_mw_type type);

#endif
