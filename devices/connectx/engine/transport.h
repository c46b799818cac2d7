/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the transport engine share with each other and with nobody else:
 * requester.c sends, completer.c takes the responses, responder.c executes requests,
 * responder_read.c answers reads and atomics, datagram.c does UD.
 */
#ifndef CONNECTX_TRANSPORT_H
#define CONNECTX_TRANSPORT_H

#include "ifc.h"
#include "mkey.h"
#include "packet.h"
#include "qp.h"
#include "wqe.h"

/* One turn of work of a QP, at most; less when loop_turn_over(). */
#define TURN_BYTES 65536
#define TURN_PACKETS 64
#define VL_MANAGEMENT 15

#define EVENT_COMM_EST MLX5_EVENT_TYPE_CODING_COMMUNICATION_ESTABLISHED
#define EVENT_CATASTROPHIC MLX5_EVENT_TYPE_CODING_LOCAL_WQ_CATASTROPHIC_ERROR
#define EVENT_INVALID_REQUEST MLX5_EVENT_TYPE_CODING_INVALID_REQUEST_LOCAL_WQ_ERROR
#define EVENT_ACCESS MLX5_EVENT_TYPE_CODING_LOCAL_ACCESS_VIOLATION_WQ_ERROR

static inline bool qp_can_send(const struct qp *qp)
{
	return qp->state == QPS_RTS;
}

static inline bool qp_can_receive(const struct qp *qp)
{
	return qp->state == QPS_RTR || qp->state == QPS_SQER || qp_can_send(qp);
}

/* What divides messages into packets: never 0, never more than a packet holds. */
static inline uint32_t qp_mtu(const struct qp *qp)
{
	return qp->mtu < 256 ? 256 : qp->mtu > PACKET_MTU ? PACKET_MTU : qp->mtu;
}

static inline uint32_t packets_of(uint64_t length, uint32_t mtu)
{
	return length ? (length + mtu - 1) / mtu : 1;
}

static inline u8 packet_operation(const struct packet *p)
{
	return p->opcode & 0x1f;
}

static inline bool op_is_atomic(u8 op)
{
	return op == IB_COMPARE_SWAP || op == IB_FETCH_ADD || op == IB_MASKED_COMPARE_SWAP ||
	       op == IB_MASKED_FETCH_ADD;
}

/* transport.c */
/* Make a response out of the request P. */
void transport_reply(struct qp *qp, struct packet *p, u8 op, uint32_t psn);
/* That side of the QP waits for a page; *_fault_over() ends the wait. */
void transport_fault(struct qp *qp, enum fault_side side, const struct mkey_fault *fault);

/* requester.c */
static inline struct unacked *requester_entry(struct requester *r, unsigned int i)
{
	return &r->unacked[(r->head + i) % QP_UNACKED];
}

static inline bool wqe_is_atomic(const struct wqe *w)
{
	return w->opcode == MLX5_OPCODE_ATOMIC_CS || w->opcode == MLX5_OPCODE_ATOMIC_FA ||
	       w->opcode == MLX5_OPCODE_ATOMIC_MASKED_CS ||
	       w->opcode == MLX5_OPCODE_ATOMIC_MASKED_FA;
}

/* Its responses bring something back. */
static inline bool wqe_has_response(const struct wqe *w)
{
	return w->opcode == MLX5_OPCODE_RDMA_READ || wqe_is_atomic(w);
}

/* Complete what is done, in order, up to an error, which ends the QP's service. */
void requester_complete(struct qp *qp);
/* Send from PSN on. */
void requester_seek(struct qp *qp, uint32_t psn);
/* The page of this packet or response is absent: false if that is now an error. */
bool requester_fault(struct qp *qp, uint32_t psn, const struct mkey_fault *fault);
/* It is not. */
void requester_found(struct requester *r, uint32_t psn);

/* completer.c */
void completer_init(struct qp *qp);	/* timers */
void completer_start_timer(struct qp *qp);	/* something was sent */
void completer_wait_anew(struct qp *qp);	/* the answer may take as long again */

/* responder.c */
u8 responder_rnr(const struct qp *qp);	/* AETH_SYNDROME: come again */
/* A response AETH_SYNDROME for the request P, which is taken; after reads that are pending. */
void responder_answer(struct qp *qp, struct packet *p, u8 syndrome, uint32_t psn);
/* NAK a request, which is taken, and end the QP's service.  UC: drop the message. */
void responder_refuse(struct qp *qp, struct packet *p, unsigned int nak, unsigned int event);
/* As if the request, which is taken, were lost: it is asked for again when reads are done. */
void responder_put_off(struct qp *qp, struct packet *p);
/* Page absent: keep P, or put it off while reads are pending.  false: it is an error now. */
bool responder_stall(struct qp *qp, struct packet *p, const struct mkey_fault *fault);
/*
 * P, which is taken, waits for a page, and all that follows it.  Too many wait in all QPs: it
 * is not kept.
 */
void responder_wait(struct qp *qp, struct packet *p, const struct mkey_fault *fault);
/* Report the fault of the packet, or of the response, of this PSN; no other one is under way. */
void responder_report(struct qp *qp, uint32_t psn, const struct mkey_fault *fault);
/* Whether the last one was of this PSN, and its page did not come. */
bool responder_fault_failed(const struct responder *r, uint32_t psn);
/* The wait is over: the packet, if it was kept. */
struct packet *responder_waited(struct qp *qp);
/* The request was executed: advance by PACKETS. */
void responder_advance(struct qp *qp, uint32_t packets);

/* responder_read.c */
void responder_read(struct qp *qp, struct packet *p, uint32_t pd);
void responder_atomic(struct qp *qp, struct packet *p, uint32_t pd);
/* A read or atomic that came before.  Takes P. */
void responder_repeat(struct qp *qp, struct packet *p);
/* Answer pending reads and atomics, a bounded number of packets. */
void responder_turn(struct qp *qp);

/* datagram.c */
void datagram_turn(struct qp *qp);

#endif
