// SPDX-License-Identifier: GPL-2.0-or-later
/* See ends.h. */
#include "lib/ends.h"
#include "lib/access.h"
#include "lib/case.h"
#include "lib/device.h"
#include "lib/pattern.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A lane's memory.  What an end writes and sends is what the other end may read of it. */
#define WRITTEN 0		/* the other end writes here */
#define OWN (16 * PAGE)		/* the pattern of this end */
#define ADDED (32 * PAGE)	/* the other end adds here */
#define SUM (33 * PAGE)		/* what this end has fetched */
#define RECEIVED (34 * PAGE)	/* slots for messages */
#define FETCHED (48 * PAGE)	/* what this end has read */
#define LENGTH (4 * PAGE)	/* 16 packets */
#define MESSAGE 1024

/* 0.27 s: with seven more tries an end that is gone is noticed after 2 s. */
#define LANE_TIMEOUT 16
#define RECEIVE (1u << 16)	/* in a wr_id */

const enum memory_kind kinds[] = { HOST, MEMFD, VGEM, UDMABUF, GPU_VRAM, GPU_SYSTEM };
const unsigned int nr_kinds = sizeof(kinds) / sizeof(*kinds);
const enum memory_kind ordinary[MAX_LANES];	/* HOST is 0 */

struct hello {
	struct ibv_ah_attr ah;
	struct {
		uint64_t addr;
		uint32_t rkey, qpn;
	} lane[MAX_LANES];
};

static uint32_t seed_of(int role, unsigned int lane)
{
	return 1000 + 100 * role + lane;
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = RWA,
	};

	errno = ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			      IBV_QP_ACCESS_FLAGS);
	if (errno)
		fail_case("QP to INIT");
}

static void make_qp(struct end *e, struct lane *l)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .send_cq = e->cq, .recv_cq = e->cq,
		.cap = { .max_send_wr = 2 * NR_REQUESTS, .max_recv_wr = 2 * SLOTS,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};
	l->qp = must(ibv_create_qp(e->pd, &attr));
	to_init(l->qp);
}

void end_open(struct end *e, int role, const enum memory_kind *kind, unsigned int lanes,
	      struct tally *tally)
{
	e->role = role;
	e->lanes = lanes;
	e->turns = 0;
	e->fatal = false;
	e->ctx = device_open();
	if (fcntl(e->ctx->async_fd, F_SETFL, O_NONBLOCK))
		fail_case("O_NONBLOCK");
	e->pd = must(ibv_alloc_pd(e->ctx));
	e->cq = must(ibv_create_cq(e->ctx, MAX_LANES * 2 * (NR_REQUESTS + SLOTS), NULL, NULL, 0));
	for (unsigned int i = 0; i < lanes; i++) {
		struct lane *l = &e->lane[i];

		*l = (struct lane){ .buf = l->buf, .tally = &tally[i] };
		memset(l->tally, 0, sizeof(*l->tally));
		if (!l->buf.size)
			memory_open(&l->buf, kind[i], LANE_SIZE);
		memset(l->buf.cpu, 0, LANE_SIZE);
		fill(l->buf.cpu + OWN, LENGTH, seed_of(role, i));
		l->mr = memory_reg(&l->buf, e->pd, RWA);
		make_qp(e, l);
	}
}

static void post_receive(struct end *e, struct lane *l, unsigned int slot)
{
	struct ibv_sge sge = {
		.addr = l->buf.iova + RECEIVED + slot * MESSAGE, .length = MESSAGE,
		.lkey = l->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .wr_id = RECEIVE | (l - e->lane) << 8 | slot,
	};

	l->receives |= 1u << slot;
	if (!l->blind)
		memset(l->buf.cpu + RECEIVED + slot * MESSAGE, 0, MESSAGE);
	if (ibv_post_recv(l->qp, &wr, &bad))
		l->receives &= ~(1u << slot);	/* the QP is in the error state */
}

static void connect_lane(struct end *e, struct lane *l, const struct hello *there)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = l->remote_qpn,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 1, .ah_attr = there->ah,
	};

	/* The entry of the GID table by which an end sends is its own. */
	if (attr.ah_attr.is_global) {
		struct ibv_ah_attr own;

		if (!device_address(e->ctx, &own))
			fail_case("the port of %s is not active", device_name());
		attr.ah_attr.grh.sgid_index = own.grh.sgid_index;
	}
	errno = ibv_modify_qp(l->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			      IBV_QP_MIN_RNR_TIMER);
	if (errno)
		fail_case("QP to RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = LANE_TIMEOUT;
	attr.retry_cnt = attr.rnr_retry = 7;
	attr.max_rd_atomic = 4;
	errno = ibv_modify_qp(l->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (errno)
		fail_case("QP to RTS");
}

static void swap(int sock, const void *mine, void *theirs, size_t size)
{
	errno = 0;
	if (send(sock, mine, size, MSG_NOSIGNAL) != size ||
	    recv(sock, theirs, size, MSG_WAITALL) != size)
		fail_case("the other end is gone");
}

void end_meet(struct end *e, int sock)
{
	struct hello here = {}, there;
	char byte = 0;

	if (!device_address(e->ctx, &here.ah))
		fail_case("the port of %s is not active", device_name());
	for (unsigned int i = 0; i < e->lanes; i++) {
		here.lane[i].addr = e->lane[i].buf.iova;
		here.lane[i].rkey = e->lane[i].mr->rkey;
		here.lane[i].qpn = e->lane[i].qp->qp_num;
	}
	swap(sock, &here, &there, sizeof(here));
	for (unsigned int i = 0; i < e->lanes; i++) {
		struct lane *l = &e->lane[i];

		l->remote_addr = there.lane[i].addr;
		l->remote_rkey = there.lane[i].rkey;
		l->remote_qpn = there.lane[i].qpn;
		connect_lane(e, l, &there);
		for (unsigned int slot = 0; slot < SLOTS; slot++)
			post_receive(e, l, slot);
	}
	swap(sock, &byte, &byte, 1);
}

static void post_request(struct end *e, struct lane *l, enum request what)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint64_t local, remote;
		uint32_t length;
	} how[] = {
		[A_WRITE] = { IBV_WR_RDMA_WRITE, OWN, WRITTEN, LENGTH },
		[A_READ] = { IBV_WR_RDMA_READ, FETCHED, OWN, LENGTH },
		[AN_ADD] = { IBV_WR_ATOMIC_FETCH_AND_ADD, SUM, ADDED, 8 },
		[A_SEND] = { IBV_WR_SEND, OWN, 0, MESSAGE },
	};
	struct ibv_sge sge = {
		.addr = l->buf.iova + how[what].local, .length = how[what].length,
		.lkey = l->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = how[what].opcode, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED, .wr_id = (l - e->lane) << 8 | what,
	};

	if (what == AN_ADD) {
		wr.wr.atomic.remote_addr = l->remote_addr + how[what].remote;
		wr.wr.atomic.rkey = l->remote_rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = l->remote_addr + how[what].remote;
		wr.wr.rdma.rkey = l->remote_rkey;
	}
	l->under_way |= 1u << what;
	if (what == A_READ && !l->blind)
		memset(l->buf.cpu + FETCHED, 0, LENGTH);
	if (ibv_post_send(l->qp, &wr, &bad))
		l->under_way &= ~(1u << what);
}

static bool is_pattern(const struct end *e, const struct lane *l, uint64_t at, size_t n)
{
	return filled(l->buf.cpu + at, n, seed_of(!e->role, l - e->lane), "what arrived");
}

bool lane_is_whole(const struct end *e, const struct lane *l)
{
	return filled(l->buf.cpu + OWN, LENGTH, seed_of(e->role, l - e->lane), "own bytes") &&
	       is_pattern(e, l, WRITTEN, LENGTH);
}

/* Whether what the request brought is right.  The other end is alone in adding. */
static bool is_right(struct end *e, struct lane *l, enum request what)
{
	uint64_t sum;

	if (l->blind)
		return true;
	if (what == A_READ)
		return is_pattern(e, l, FETCHED, LENGTH);
	if (what != AN_ADD)
		return true;
	memcpy(&sum, l->buf.cpu + SUM, sizeof(sum));
	if (sum == l->tally->done[AN_ADD])
		return true;
	printf("# a fetch and add returned %lu, not %lu\n", sum, l->tally->done[AN_ADD]);
	return false;
}

/*
 * A lane is over with its first error.  After that its other queue may still report one
 * error of its own, since both may be in the middle of a request when the memory goes.
 */
static void take_error(struct lane *l, enum request what, const struct ibv_wc *wc)
{
	bool receive = wc->wr_id & RECEIVE, flushed = wc->status == IBV_WC_WR_FLUSH_ERR;
	struct tally *t = l->tally;

	if (!t->first && !(receive && flushed)) {
		t->failed = what;
		t->first = wc->status;
	} else if (!flushed && l->stopped[receive]) {
		t->odd++;
	} else if (!flushed) {
		t->second = wc->status;
	}
	l->stopped[receive] = true;
}

static void take_wc(struct end *e, const struct ibv_wc *wc)
{
	struct lane *l = &e->lane[wc->wr_id >> 8 & 0xff];
	unsigned int which = wc->wr_id & 0xff;

	if (wc->wr_id & RECEIVE) {
		l->receives &= ~(1u << which);
		if (wc->status == IBV_WC_SUCCESS) {
			l->tally->received++;
			l->tally->wrong += !l->blind && !is_pattern(e, l, RECEIVED + which * MESSAGE,
								    MESSAGE);
			post_receive(e, l, which);
		} else {
			take_error(l, A_SEND, wc);
		}
		return;
	}
	l->under_way &= ~(1u << which);
	if (wc->status == IBV_WC_SUCCESS) {
		l->tally->wrong += !is_right(e, l, which);
		l->tally->done[which]++;
	} else {
		take_error(l, which, wc);
	}
}

/* Take the events that there are. */
static void look_at_events(struct end *e)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(e->ctx, &event)) {
		if (event.event_type == IBV_EVENT_DEVICE_FATAL)
			e->fatal = true;
		ibv_ack_async_event(&event);
	}
}

bool end_turn(struct end *e)
{
	struct ibv_wc wc[16];
	bool more = false;
	int n;

	for (struct lane *l = e->lane; l < e->lane + e->lanes; l++) {
		for (unsigned int what = 0; what < NR_REQUESTS; what++)
			if (!l->tally->first && !(l->under_way & 1u << what) &&
			    !(what == A_SEND && e->no_sends))
				post_request(e, l, what);
		l->tally->sending = l->under_way & 1u << A_SEND;
		l->tally->over = l->tally->first && !l->under_way;
		more |= !l->tally->over;
	}
	n = ibv_poll_cq(e->cq, 16, wc);
	if (n < 0)
		fail_case("poll the CQ");
	for (int i = 0; i < n; i++)
		take_wc(e, &wc[i]);
	if (!(e->turns++ & 0x3f))
		look_at_events(e);
	return more && !e->fatal;
}

void end_again(struct end *e)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_wc wc;

	for (struct lane *l = e->lane; l < e->lane + e->lanes; l++) {
		errno = ibv_modify_qp(l->qp, &reset, IBV_QP_STATE);
		if (errno)
			fail_case("QP to RESET");
		to_init(l->qp);
		memset(l->tally, 0, sizeof(*l->tally));
		memset(l->buf.cpu + ADDED, 0, sizeof(uint64_t));
		l->receives = l->under_way = 0;
		l->stopped[0] = l->stopped[1] = false;
	}
	while (ibv_poll_cq(e->cq, 1, &wc) > 0)
		;
}

void end_run(struct end *e, const volatile int *stop)
{
	while (end_turn(e) && !(stop && *stop))
		;
}

void end_close(struct end *e)
{
	for (unsigned int i = 0; i < e->lanes; i++) {
		struct lane *l = &e->lane[i];

		if (ibv_destroy_qp(l->qp) && !e->fatal)
			fail_case("destroy a QP");
		if (ibv_dereg_mr(l->mr) && !e->fatal)
			fail_case("deregister an MR");
	}
	if (ibv_destroy_cq(e->cq) && !e->fatal)
		fail_case("destroy a CQ");
	if (ibv_dealloc_pd(e->pd) && !e->fatal)
		fail_case("deallocate a PD");
	device_close(e->ctx);
}

void end_close_memory(struct end *e)
{
	for (unsigned int i = 0; i < e->lanes; i++)
		memory_close(&e->lane[i].buf);
}

bool traffic_flows(const struct tally *a, const struct tally *b, unsigned int lanes,
		   unsigned long n)
{
	for (unsigned int i = 0; i < lanes; i++)
		for (unsigned int what = 0; what < NR_REQUESTS; what++)
			if (a[i].done[what] <= n || b[i].done[what] <= n)
				return false;
	return true;
}

static bool is_allowed(const struct tally *t, unsigned int allowed)
{
	return allowed & 1u << t->first && (allowed | MAY(SUCCESS)) & 1u << t->second &&
	       !t->odd && !t->wrong;
}

bool lane_ended(const struct tally *t, const char *name, unsigned int allowed)
{
	static const char *const request[] = {
		[A_WRITE] = "write", [A_READ] = "read", [AN_ADD] = "fetch and add",
		[A_SEND] = "send",
	};

	if (t->over && is_allowed(t, allowed))
		return true;
	printf("# lane %s: %s; first error: a %s with %s; in the other queue: %s; %u more "
	       "errors, %u times wrong data\n", name, t->over ? "over" : "not over",
	       request[t->failed], ibv_wc_status_str(t->first), ibv_wc_status_str(t->second),
	       t->odd, t->wrong);
	return false;
}

bool traffic_ended(const struct tally *tally, unsigned int lanes, unsigned int allowed)
{
	bool well = true;
	char name[16];

	for (unsigned int i = 0; i < lanes; i++) {
		snprintf(name, sizeof(name), "%u", i);
		well &= lane_ended(&tally[i], name, allowed);
	}
	return well;
}

bool traffic_lost_device(const struct tally *tally, unsigned int lanes)
{
	unsigned int allowed = RESPONDER_GONE | MAY(SUCCESS) | MAY(WR_FLUSH_ERR) |
			       MAY(LOC_PROT_ERR);

	for (unsigned int i = 0; i < lanes; i++) {
		if (!is_allowed(&tally[i], allowed)) {
			lane_ended(&tally[i], "without a device", 0);
			return false;
		}
	}
	return true;
}
