// SPDX-License-Identifier: GPL-2.0-or-later
/* See traffic.h. */
#include "lib/traffic.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/device.h"
#include <stdio.h>
#include <string.h>

/* Where the parts of a lane begin, in records. */
enum { WRITTEN = 0, READ = SLOTS, RECEIVED = 2 * SLOTS, ADDED = 3 * SLOTS, KEPT };
/* The same of the requester's memory. */
enum { SOURCE = 0, BACK = SLOTS, SEEN = 2 * SLOTS, MESSAGE = 3 * SLOTS, OLD = 4 * SLOTS };

#define OPERATIONS 5	/* for each slot in a batch */
#define KEPT_NUMBER 0x6b657074
#define LIMIT 20	/* seconds for a completion */

static uint64_t place(const struct lane *l, int record)
{
	return (uint64_t)l->index << 8 | record;
}

static uint8_t *record(const struct lane *l, int n)
{
	return l->cpu + n * RECORD;
}

void lane_open(struct lane *l, struct ibv_pd *pd, struct ibv_mr *mr, const struct memory *m,
	       size_t at, uint32_t index)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = OPERATIONS * SLOTS, .max_recv_wr = SLOTS,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	*l = (struct lane){ .index = index, .mr = mr, .va = m->iova + at, .cpu = m->cpu + at };
	l->cq = must(ibv_create_cq(pd->context, (OPERATIONS + 1) * SLOTS, NULL, NULL, 0));
	attr.send_cq = attr.recv_cq = l->cq;
	l->qp = must(ibv_create_qp(pd, &attr));
}

struct lane_address lane_address(const struct lane *l)
{
	struct ibv_ah_attr ah;

	if (!device_address(l->qp->context, &ah))
		fail_case("the port of %s is not active", device_name());
	return (struct lane_address){
		.lid = ah.dlid, .qpn = l->qp->qp_num, .rkey = l->mr->rkey, .va = l->va,
	};
}

static void modify(struct lane *l, struct ibv_qp_attr *attr, int mask)
{
	errno = ibv_modify_qp(l->qp, attr, IBV_QP_STATE | mask);
	if (errno)
		fail_case("QP to state %d", attr->qp_state);
}

void lane_connect(struct lane *l, const struct lane_address *far)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .qp_access_flags = RWA };

	l->far = *far;
	if (!device_address(l->qp->context, &attr.ah_attr))
		fail_case("the port of %s is not active", device_name());
	attr.port_num = attr.ah_attr.port_num;
	modify(l, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	if (!attr.ah_attr.is_global)
		attr.ah_attr.dlid = far->lid;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = far->qpn;
	attr.max_dest_rd_atomic = 8;
	attr.min_rnr_timer = 1;
	modify(l, &attr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 18;	/* a second, as in pair.h */
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 8;
	modify(l, &attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	       IBV_QP_MAX_QP_RD_ATOMIC);
}

void lane_close(struct lane *l)
{
	if (l->qp && ibv_destroy_qp(l->qp))
		fail_case("destroy a QP");
	if (l->cq && ibv_destroy_cq(l->cq))
		fail_case("destroy a CQ");
	*l = (struct lane){};
}

/* The requester */

static void post(struct lane *l, enum ibv_wr_opcode opcode, int local, int remote,
		 uint32_t length)
{
	struct ibv_sge sge = { .addr = l->va + local * RECORD, .length = length,
			       .lkey = l->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = l->far.va + remote * RECORD;
		wr.wr.atomic.rkey = l->far.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = l->far.va + remote * RECORD;
		wr.wr.rdma.rkey = l->far.rkey;
	}
	errno = ibv_post_send(l->qp, &wr, &bad);
	if (errno)
		fail_case("post send");
}

/* What is under way for a slot is behind each other, so a read sees the write before it. */
static int post_batch(struct lane *l)
{
	struct lane_total *t = &l->total;

	for (int i = 0; i < SLOTS; i++) {
		record_make(record(l, SOURCE + i), place(l, WRITTEN + i), t->batches + 1);
		post(l, IBV_WR_RDMA_WRITE, SOURCE + i, WRITTEN + i, RECORD);
		post(l, IBV_WR_RDMA_READ, BACK + i, WRITTEN + i, RECORD);
		post(l, IBV_WR_RDMA_READ, SEEN + i, READ + i, RECORD);
		post(l, IBV_WR_ATOMIC_FETCH_AND_ADD, OLD + i, ADDED, 8);
		if (l->silent)
			continue;
		record_make(record(l, MESSAGE + i), place(l, RECEIVED + i), t->sent + i + 1);
		post(l, IBV_WR_SEND, MESSAGE + i, 0, RECORD);
	}
	return (l->silent ? OPERATIONS - 1 : OPERATIONS) * SLOTS;
}

static const char *wait_batch(struct lane *l, int n)
{
	double end = deadline(LIMIT);
	struct ibv_wc wc;

	while (n) {
		int got = ibv_poll_cq(l->cq, 1, &wc);

		if (got < 0)
			return "a CQ cannot be polled";
		if (!got && now() > end)
			return "no completion";
		if (got && wc.status) {
			l->failed = wc.status;
			return ibv_wc_status_str(wc.status);
		}
		n -= got;
	}
	return NULL;
}

static const char *check_batch(struct lane *l, uint64_t round)
{
	struct lane_total *t = &l->total;

	for (int i = 0; i < SLOTS; i++) {
		uint64_t old;

		memcpy(&old, record(l, OLD + i), sizeof(old));
		if (old != t->added + i) {
			printf("# a fetch and add returned %llu, not %llu\n",
			       (unsigned long long)old, (unsigned long long)t->added + i);
			return "an atomic was lost or done twice";
		}
		if (!record_is(record(l, BACK + i), place(l, WRITTEN + i), t->batches + 1,
			       "read back"))
			return "what was written is not what is read back";
		if (!record_is(record(l, SEEN + i), place(l, READ + i), round, "read"))
			return "what is read is not what the owner has written";
	}
	return NULL;
}

const char *lane_work(struct lane *l, uint64_t round, int n)
{
	struct lane_total *t = &l->total;
	const char *wrong = NULL;

	for (; n && !wrong; n--) {
		int operations;

		memset(record(l, BACK), 0x77, 2 * SLOTS * RECORD);
		for (int i = 0; i < SLOTS; i++)
			memset(record(l, OLD + i), 0x77, 8);
		operations = post_batch(l);
		wrong = wait_batch(l, operations);
		wrong = wrong ? wrong : check_batch(l, round);
		if (wrong)
			break;
		t->batches++;
		t->added += SLOTS;
		t->sent += l->silent ? 0 : SLOTS;
		t->operations += operations;
	}
	return wrong;
}

/* The owner */

static void post_slot(struct lane *l, int slot)
{
	struct ibv_sge sge = { .addr = l->va + (RECEIVED + slot) * RECORD, .length = RECORD,
			       .lkey = l->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };

	errno = ibv_post_recv(l->qp, &wr, &bad);
	if (errno)
		fail_case("post receive");
}

void lane_make(struct lane *l)
{
	memset(l->cpu, 0, KEPT * RECORD);
	for (int i = KEPT; i < LANE_RECORDS; i++)
		record_make(record(l, i), place(l, i), KEPT_NUMBER);
	for (int i = 0; i < SLOTS; i++)
		post_slot(l, i);
}

void lane_begin_round(struct lane *l, uint64_t round)
{
	for (int i = READ; i < READ + SLOTS; i++)
		record_make(record(l, i), place(l, i), round);
}

const char *lane_receive(struct lane *l)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(l->cq, 1, &wc)) > 0) {
		int slot = l->received % SLOTS;

		if (wc.status) {
			l->failed = wc.status;
			return ibv_wc_status_str(wc.status);
		}
		if (wc.byte_len != RECORD || wc.wr_id != slot)
			return "a message has another size, or took another receive";
		if (!record_is(record(l, RECEIVED + slot), place(l, RECEIVED + slot),
			       l->received + 1, "received"))
			return "what arrives is not what was sent";
		l->received++;
		post_slot(l, slot);
	}
	return n < 0 ? "a CQ cannot be polled" : NULL;
}

const char *lane_check(struct lane *l, const struct lane_total *done, uint64_t round)
{
	double end = deadline(LIMIT);
	uint64_t sum;

	while (l->received < done->sent) {
		const char *wrong = lane_receive(l);

		if (wrong)
			return wrong;
		if (now() > end)
			return "a message is missing";
	}
	memcpy(&sum, record(l, ADDED), sizeof(sum));
	if (sum != done->added) {
		printf("# the sum of the atomics is %llu, not %llu\n", (unsigned long long)sum,
		       (unsigned long long)done->added);
		return "the sum of the atomics is wrong";
	}
	for (int i = 0; i < SLOTS; i++) {
		if (done->batches && !record_is(record(l, WRITTEN + i), place(l, WRITTEN + i),
						done->batches, "written"))
			return "what was written is not there";
		if (!record_is(record(l, READ + i), place(l, READ + i), round, "to be read"))
			return "what only the CPU writes has changed";
	}
	for (int i = KEPT; i < LANE_RECORDS; i++)
		if (!record_is(record(l, i), place(l, i), KEPT_NUMBER, "kept"))
			return "what nobody writes has changed";
	return NULL;
}
