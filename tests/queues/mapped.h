/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The work queues of a QP of rxe, as its provider has mapped them into the process:
 * memory that the process shares with the kernel.  A case writes work requests into
 * it by hand, or rubbish, and rings the doorbell.
 */
#ifndef QUEUES_MAPPED_H
#define QUEUES_MAPPED_H

#include <infiniband/verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <stddef.h>
#include <stdint.h>

struct mapped {
	struct rxe_queue_buf *buf;
	size_t size;	/* of the mapping */
};

/* What this process maps of RDMA devices: up to N, returns how many there are. */
int mapped_list(struct mapped *list, int n);
/* The two queues that were mapped after the N of BEFORE. */
void mapped_new(const struct mapped *before, int n, struct mapped *send, struct mapped *recv);

/* The slot that is posted next. */
void *mapped_slot(const struct mapped *m);
/* Post it. */
void mapped_post(const struct mapped *m);

/* Tell the kernel that send requests are posted. */
void ring(struct ibv_qp *qp);

#endif
