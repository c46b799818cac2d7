/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest of a target: what a driver and a library would write, so that an input gets
 * past the first check and reaches the last.  A command or a work request is made whole and
 * valid; then bytes of it are changed as the input says.
 *
 * The guest remembers the numbers of what it created, and an input names objects by their
 * place in that memory.
 */
#ifndef CONNECTX_FUZZ_GUEST_H
#define CONNECTX_FUZZ_GUEST_H

#include "world.h"

enum kind { UAR, PD, XRCD, EQ, CQ, SRQ, XSRQ, QP, MKEY, MEMIC, UCTX, UMEM, DCT, KINDS };

#define GUEST_MAX 16		/* of each kind; the oldest is forgotten */
#define CHANGES 4
#define SETUP_DC_KEY 0x1122334455667788ull

struct guest_queue {		/* of a QP or an SRQ */
	uint64_t record;
	uint64_t recv, send;		/* bus addresses */
	unsigned int recv_size, recv_stride, send_blocks;
	uint16_t recv_posted, send_posted;
	uint32_t uar;
	u8 st;				/* of a QP's context */
};

struct guest_key {
	uint32_t key;
	uint64_t start, length;
};

struct guest {
	struct world *w;
	unsigned int count[KINDS], next[KINDS];
	uint32_t number[KINDS][GUEST_MAX];
	struct guest_queue qp[GUEST_MAX], srq[GUEST_MAX], xsrq[GUEST_MAX];
	struct guest_key key[GUEST_MAX];
	uint64_t umem[GUEST_MAX];	/* bus addresses */
	uint16_t uid;			/* of commands; 0: the driver's own */
	/* The command that is being made. */
	size_t in_len, out_len;
	u8 in[4096], out[8192];
	/* Changes to make in it, or in a work request: where and what. */
	unsigned int changes;
	struct { uint16_t at; u8 value; } change[CHANGES];
};

/* Knows nothing. */
void guest_init(struct guest *g, struct world *w);

/* The changes that the input wants in what is made next. */
void guest_read_changes(struct guest *g, struct input *in);
void guest_apply_changes(struct guest *g, u8 *bytes, size_t len);

/* Zeroes the input, and sets its opcode. */
void guest_command(struct guest *g, uint16_t op, uint16_t op_mod, size_t in_len, size_t out_len);
/* Appends to the input. */
void guest_append64(struct guest *g, uint64_t value);
/* Through the command queue.  The status, or 0x100 if it was not delivered. */
unsigned int guest_run(struct guest *g);
/* The same, and remembers the number at byte 8 of the output.  Its place, or -1. */
int guest_create(struct guest *g, enum kind kind, uint32_t low_mask);
/* An object by place; any number if there is none or the input wants that. */
uint32_t guest_number(struct guest *g, enum kind kind, struct input *in);
uint32_t guest_last(const struct guest *g, enum kind kind);

/* The address of a page for queues, and of a doorbell record. */
uint64_t guest_page(unsigned int n);
uint64_t guest_record(unsigned int n);

/* Commands, by what matters in them; each returns a place or -1. */
void guest_boot(struct guest *g);
int guest_make_number(struct guest *g, enum kind kind);
int guest_make_umem(struct guest *g, unsigned int page, unsigned int pages, u8 rights);
int guest_make_eq(struct guest *g, unsigned int log_size, unsigned int vector, uint64_t events,
		  uint64_t page);

struct cq_spec {
	uint32_t eq;
	unsigned int log_size, count, period;
	bool big, ignore_overrun;
	uint64_t record, page;
	unsigned int umem;		/* its place + 1: buffer and record are there */
};
int guest_make_cq(struct guest *g, const struct cq_spec *s);

struct srq_spec {
	bool xrc, cyclic;
	uint32_t pd, xrcd, cq, user_index;
	unsigned int log_size, log_stride, limit;
	uint64_t record, page;
	unsigned int umem;		/* as that of a CQ; an XRC SRQ has none */
};
int guest_make_srq(struct guest *g, const struct srq_spec *s);

struct qp_spec {
	u8 st, rq_type, cs_res;
	bool no_sq, privileged;
	uint32_t pd, xrcd, send_cq, recv_cq, srq, user_index;
	unsigned int log_rq, log_rq_stride, log_sq, page_offset;
	uint64_t record, page;
	unsigned int umem;		/* as that of a CQ */
};
int guest_make_qp(struct guest *g, const struct qp_spec *s);

/* Its key is SETUP_DC_KEY. */
struct dct_spec {
	uint32_t pd, cq, srq, user_index;
	u8 mtu, access, rnr_timer, cs_res;
};
int guest_make_dct(struct guest *g, const struct dct_spec *s);

struct key_spec {
	u8 mode, rights, variant;
	bool free, umr, length64, remote_invalidate, pg_access;
	uint32_t pd, qpn;
	uint64_t start, length;
	unsigned int log_page, octowords, words;	/* words of 8 bytes: of the list */
	const uint64_t *list;
};
int guest_make_key(struct guest *g, const struct key_spec *s);

struct move_spec {
	uint32_t mask, remote_qpn, qkey, send_psn, recv_psn;
	u8 mtu, retries, rnr_retries, rnr_timer, ack_timeout, log_reads, access;
	uint16_t lid;
	bool global;
};
unsigned int guest_move_qp(struct guest *g, uint16_t op, uint32_t qpn, const struct move_spec *s);
/* From RESET to RTS, with the QP REMOTE of this same port. */
void guest_connect(struct guest *g, uint32_t qpn, uint32_t remote, const struct move_spec *s);

/*
 * Work requests.  Into the queue at its producer, and the doorbell record counts it.  The
 * input says what is in it.
 */
void guest_post_send(struct guest *g, unsigned int place, struct input *in);
void guest_post_recv(struct guest *g, struct guest_queue *q, bool linked, struct input *in);
void guest_ring_send(struct guest *g, unsigned int place);
/* A key and an address in it. */
uint32_t guest_key(struct guest *g, struct input *in, uint64_t *addr);

#endif
