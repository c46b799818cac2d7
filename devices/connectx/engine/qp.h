/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queue pairs: their commands (qp_cmd.c), states (qp_modify.c) and queues (qp.c), and what
 * the transport keeps for each.  A DC target (dct.h) is one of them, with commands of its own.
 *
 * The requester (requester.c) takes WQEs off the send queue, turns them into packets
 * within a window, and completes them when they are acknowledged; on a timeout or a
 * sequence NAK it goes back to the oldest unacknowledged packet.  The responder
 * (responder.c) executes the requests of RC, UC, XRC and DC; datagram.c does both sides of UD.
 *
 * Each side works in turns of the loop.  State changes when a packet was executed: one that
 * meets an absent page is executed again from its beginning, later.
 */
#ifndef CONNECTX_QP_H
#define CONNECTX_QP_H

#include "cmd.h"
#include "devx.h"
#include "list.h"
#include "loop.h"
#include "mkey.h"
#include "odp.h"
#include "packet.h"
#include "queue.h"
#include "srq.h"
#include "wqe.h"

struct cq;
struct dct;
struct uar;

#define QP_UNACKED 128		/* WQEs that are sent and not complete, at most */
#define QP_WINDOW 128		/* packets that are sent and not acknowledged, at most */
#define QP_READS 16		/* reads and atomics in flight, at most: 1 << log_max_ra_* */
#define QP_SCATTER 32		/* bytes of a message that may lie in the CQE */
#define QP_PKEYS 128u		/* of the port's table */
#define OP_NONE 0xff		/* in place of an enum ib_op */

/* As in the QPC.  SQD is not there, because the driver has no command that leads to it. */
enum qp_state {
	QPS_RESET = 0, QPS_INIT = 1, QPS_RTR = 2, QPS_RTS = 3, QPS_SQER = 4, QPS_ERR = 6,
};

enum fault_side { FAULT_REQUESTER, FAULT_RESPONDER };

struct qp_path {
	uint16_t rlid;
	u8 sl, path_bits, port, pkey_index;
	bool global;
	u8 tclass, hop_limit, gid_index;
	uint32_t flow_label;
	u8 dgid[16];
};

/* A WQE on its way: sent at least in part, and not complete. */
struct unacked {
	struct wqe *wqe;		/* of hca_alloc() */
	uint32_t first_psn, last_psn;	/* for a read: of its responses; last before first: none */
	uint64_t received;		/* bytes of a read that have arrived */
	bool sent;			/* all of its packets were sent once */
	bool done;			/* acknowledged; completes when it is the oldest */
	u8 syndrome;			/* or failed: completes so when it is the oldest */
};

struct requester {
	uint16_t producer, consumer;	/* of blocks: doorbell, next to parse */
	struct unacked unacked[QP_UNACKED];	/* a ring */
	unsigned int head, count;	/* the oldest; how many */
	unsigned int current;		/* index from head of the one that is being sent */
	uint64_t offset;		/* bytes of it that are sent */
	uint32_t psn;			/* of the next packet; those of unacked WQEs precede it */
	uint32_t acked_psn;		/* the oldest that is not acknowledged */
	uint32_t sent_psn;		/* one past the highest that was ever sent */
	unsigned int reads;		/* reads and atomics in flight */
	u8 retries, rnr_retries;	/* that are left */
	bool lost;			/* went back for a lost response, which has not come yet */
	bool waits_rnr, waits_fault;
	bool fault_response;		/* responses were dropped: ask for them again */
	bool fault_failed;		/* the page did not come: if it is absent still, an error */
	uint32_t fault_psn;		/* of the packet or response that the last fault is of */
	uint64_t deadline;		/* when the oldest packet is lost; the timer may be early */
	struct timer retry, rnr;
	struct work work;
};

/* A read or atomic, to be answered or kept for duplicates. */
struct resp_resource {
	u8 op;				/* enum ib_op, or OP_NONE */
	uint32_t psn, packets;
	uint64_t va, original;
	uint32_t rkey, length;
	uint32_t pd, msn;
	bool pending;			/* to be answered, from packet START; NEXT is the next */
	uint32_t start, next;
	uint32_t sent;			/* packets of the answer, at least once */
};

struct responder {
	uint32_t psn, msn;		/* expected */
	u8 last_op;			/* enum ib_op of the message in progress, or OP_NONE */
	bool nak_sent;			/* a sequence NAK: no second one until the PSN arrives */
	/* The message in progress. */
	bool have_recv;
	struct recv_wqe recv;
	struct srq *srq;		/* where it came from, or NULL */
	uint64_t offset, va;
	uint32_t rkey, left;		/* of a write */
	struct resp_resource resource[QP_READS];	/* a ring */
	unsigned int next_resource;
	unsigned int pending;		/* of them; nothing else is answered before */
	enum { OWES_NOTHING, OWES_ACK, OWES_NAK } owes;	/* after them */
	uint32_t owed_psn;
	bool stalls;			/* a packet waits for a page, none goes before it */
	struct packet *stalled;		/* it, or NULL if it was not kept */
	bool dropped;			/* packets, since then: they are asked for again */
	bool waits_fault;
	bool fault_failed;		/* as those of the requester */
	uint32_t fault_psn;
	uint16_t taken;			/* own receive queue: consumer */
	struct work work;
};

/* Of a DC initiator: the connection that it has, or had last (dci.c). */
struct dc_connection {
	struct wqe_av target;
	uint64_t number;
	uint32_t first;			/* its PSN */
	bool open;
};

struct qp {
	struct hca *hca;
	uint32_t number;
	enum qp_service service;
	u8 st;				/* the QPC's service type */
	enum qp_state state;
	uint32_t pd, xrcd, user_index, uid;
	struct cq *send_cq, *recv_cq;
	struct srq *srq;
	struct uar *uar;		/* NULL: it has no send queue */
	struct queue_buf buf;
	uint64_t doorbell;		/* record, 0: none */
	uint32_t rq_size, rq_stride;	/* entries and bytes; 0: no receive queue of its own */
	uint32_t sq_offset, sq_size;	/* bytes in buf; blocks, 0: none */
	bool privileged;		/* may use the reserved lkey, and UMR */
	u8 scatter_recv;		/* to CQE: 0 or 32 bytes */
	/* Connection. */
	struct qp_path path;
	uint32_t remote_qpn, qkey, mtu;	/* mtu in bytes */
	u8 retry_count, rnr_retry, min_rnr_timer, ack_timeout;
	u8 max_reads;			/* initiator depth */
	bool remote_read, remote_write, remote_atomic;
	bool comm_est;			/* event sent since INIT */
	struct requester req;
	struct responder resp;
	struct odp_waiter fault[2];	/* by enum fault_side */
	struct list mcgs;		/* multicast groups that it is attached to */
	struct dc_connection dc;
	struct dct *dct;		/* of a DC target, else NULL */
	/* The error states: see qp.c. */
	bool sq_stopped, rq_stopped;	/* what was in flight is flushed */
	bool last_wqe;			/* that event was sent */
	struct work flush;
	struct timer flush_poll;	/* for receives that are posted later */
	uint64_t flush_wait;		/* its next period, ns */
	struct umem_use umems;		/* where queues and doorbell record are, if there */
	u8 context[IFC_BYTES(qpc)];
};

static inline bool qp_is_datagram(const struct qp *qp)
{
	return qp->service == QP_UD || qp->service == QP_GSI || qp->service == QP_SMI;
}

extern const struct cmd_op qp_ops[];

struct qp *qp_get(struct hca *hca, uint32_t number);
void qp_reset_all(struct hca *hca);
/*
 * The guest rang a send doorbell.  END is the block behind the last one that it is about, or
 * -1: all that the record says.
 */
void qp_doorbell(struct hca *hca, uint32_t number, int end);
/*
 * To the error state, from inside: reports it to the driver if EVENT_TYPE, and flushes.
 * The flush is later work, so what the caller holds stays valid until it returns; the WQE
 * that failed must have been completed and taken off the requester's ring.
 */
void qp_error(struct qp *qp, int event_type);
/*
 * The same for a send of UC or UD that failed: the send queue only, receiving goes on, and
 * SQERR2RTS ends it (IBA 10.3.1).
 */
void qp_sq_error(struct qp *qp);
/* An affiliated event, such as MLX5_EVENT_TYPE_COMM_EST. */
void qp_event(struct qp *qp, unsigned int type);

/*
 * Copy the WQE at block INDEX, which must precede req.producer, and parse it.  0 or a CQE
 * syndrome; w->index, opcode, wqe_kept() and blocks, which are at least one and at most what
 * is posted, are good in either case.
 */
int qp_fetch(struct qp *qp, uint16_t index, struct wqe *w);
/* Take a receive WQE of the QP's own queue or of its SRQ (SRQN: for XRC).  As srq_take(). */
int qp_take_recv(struct qp *qp, uint32_t srqn, struct recv_wqe *r, struct srq **srq);

/* Completions.  WQE's index and opcode; BYTES: as for ibv_wc.byte_len. */
void qp_complete_send(struct qp *qp, const struct wqe *w, u8 syndrome, uint32_t bytes);
struct recv_completion {
	u8 opcode;			/* MLX5_CQE_RESP_* */
	u8 syndrome;			/* 0, or it is an error */
	uint32_t bytes, imm_inval;	/* imm_inval: 0 if the opcode has none */
	uint32_t src_qp;
	uint16_t slid, pkey;		/* of a datagram */
	u8 sl;
	bool global, solicited;
	const u8 *inline_data;		/* to the CQE instead of memory, or NULL; only if
					   bytes <= qp->scatter_recv */
};
void qp_complete_recv(struct qp *qp, const struct recv_wqe *r, struct srq *srq,
		      const struct recv_completion *c);
/*
 * The SRQ is going to be destroyed.  The QPs that receive by packets which name an XRC SRQ
 * are not its users; one may be in the middle of a message.
 */
void qp_forget_srq(struct srq *srq);
/* The error state: complete all that is posted as flushed, a few in each turn from now on. */
void qp_flush(struct qp *qp);

/* qp.c, for the commands */
void qp_init(struct qp *qp);		/* the parts that live as long as the QP */
void qp_stop(struct qp *qp);		/* as after creation: nothing in flight, no timers */
/* RTS: look for what was posted before; END as in qp_doorbell(). */
void qp_start_sends(struct qp *qp, int end);
void qp_finish_flush(struct qp *qp);	/* of the send queue, before it may send again */
void qp_stop_receives(struct qp *qp);	/* the message that was arriving: flushed */
void qp_free(struct qp *qp);		/* it is in no table any more */
/* qp_modify.c */
enum cmd_status cmd_modify_qp(struct hca *hca, struct cmd *cmd);
void qp_clear_attributes(struct qp *qp);	/* what MODIFY set */
/* The QP of a command, or NULL: there is none, it is a DCT, or it belongs to another user. */
struct qp *qp_of_cmd(struct hca *hca, const struct cmd *cmd, uint32_t number);

/* transport.c: the entry for every packet that arrives.  Takes P. */
void transport_receive(struct hca *hca, struct packet *p);
/* A packet of QP to its peer, headers up to BTH filled; NULL as link_packet(). */
struct packet *transport_packet(struct qp *qp, u8 op, uint32_t psn);
/*
 * Move data of a QP's own segments, at OFFSET of the sum of them: gather and scatter.  On
 * an error a part may be moved.
 */
enum mkey_result transport_gather(struct qp *qp, const struct wqe *w, uint64_t offset,
				  void *to, size_t len, struct mkey_fault *fault);
enum mkey_result transport_scatter_wqe(struct qp *qp, const struct wqe *w, uint64_t offset,
				       const void *from, size_t len, struct mkey_fault *fault);
enum mkey_result transport_scatter(struct qp *qp, uint32_t pd, const struct recv_wqe *r,
				   uint64_t offset, const void *from, size_t len,
				   struct mkey_fault *fault);

/* requester.c */
void requester_init(struct qp *qp);
void requester_reset(struct qp *qp);	/* frees what is unacknowledged, stops timers */
void requester_run(struct qp *qp);	/* the doorbell rang; datagrams too */
void requester_receive(struct qp *qp, struct packet *p);	/* a response; takes P */
void requester_fault_over(struct qp *qp, bool failed);
/* responder.c */
void responder_init(struct qp *qp);
void responder_reset(struct qp *qp);
void responder_receive(struct qp *qp, struct packet *p);
void responder_fault_over(struct qp *qp, bool failed);
/* dci.c: the sending side of DC */
/* W is the next to be sent.  false: not before what precedes it is complete. */
bool dci_begin(struct qp *qp, const struct wqe *w);
void dci_close(struct qp *qp);	/* nothing is sent again: tell the target, if there is one */
/* dct.c: the receiving side of DC */
void dct_receive(struct qp *qp, struct packet *p);
void dct_free(struct qp *qp);		/* with it; nothing is completed */
/* datagram.c: UD, GSI, SMI */
void datagram_receive(struct qp *qp, struct packet *p);
void datagram_fault_over(struct qp *qp, enum fault_side side, bool failed);

#endif
