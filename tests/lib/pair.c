// SPDX-License-Identifier: GPL-2.0-or-later
/* See pair.h. */
#include "lib/pair.h"
#include "lib/access.h"
#include "lib/case.h"
#include "lib/clock.h"

#define PSN_MASK 0xffffff

/* On another device than that under test a pair does without. */
static bool can(struct ibv_context *ctx, const char *word)
{
	return device_is_under_test(ctx) && device_can(word);
}

static struct ibv_qp *make_qp(const struct pair *p, struct ibv_pd *pd)
{
	struct ibv_context *ctx = p->ctx;
	uint32_t sges = p->sges ?: 2;
	uint64_t ops = IBV_QP_EX_WITH_RDMA_WRITE |
		       (can(ctx, "window-type-1") ? IBV_QP_EX_WITH_BIND_MW : 0) |
		       (can(ctx, "atomics") ? IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD : 0) |
		       (can(ctx, "atomic-write") ? IBV_QP_EX_WITH_ATOMIC_WRITE : 0) |
		       (can(ctx, "flush") ? IBV_QP_EX_WITH_FLUSH : 0);
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = p->cq,
		.recv_cq = p->cq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = sges,
			 .max_recv_sge = sges, .max_inline_data = 64 },
		.pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = ops,
	};

	return must(ibv_create_qp_ex(ctx, &attr));
}

/*
 * The ends keep their numbers, so a packet of an earlier connection that is still on its way
 * reaches them as well.  With a PSN before those of this connection it is a duplicate, which they
 * drop.  With the same PSN it is taken for an answer, or for a request, of this connection.
 */
static void begin_after_earlier_packets(struct pair *p)
{
	if (p->qp[0]->state != IBV_QPS_RESET)
		p->psn = (p->psn + (1 << 18)) & PSN_MASK;	/* more than a case ever sends */
}

/* The state that it does not reach, or NULL. */
static const char *try_connect_end(struct pair *p, int end, enum ibv_mtu mtu, uint32_t sq_psn,
				   uint8_t timeout)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RESET,
		.qp_access_flags = ALL_ACCESS | (can(p->ctx, "flush") ? IBV_ACCESS_FLUSH_GLOBAL : 0),
	};
	struct ibv_qp *qp = p->qp[end];

	if (p->far)
		attr.ah_attr = *p->far;
	else if (!device_address(p->ctx, &attr.ah_attr))
		fail_case("the port of %s has no address or is not active", device_name());
	if (qp->state != IBV_QPS_RESET && ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		return "RESET";

	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = attr.ah_attr.port_num;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  IBV_QP_ACCESS_FLAGS))
		return "INIT";

	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = mtu;
	attr.dest_qp_num = p->far ? FAR_QP : p->qp[!end]->qp_num;
	attr.rq_psn = p->psn;
	attr.max_dest_rd_atomic = 8;
	attr.min_rnr_timer = 12;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			  IBV_QP_MIN_RNR_TIMER))
		return "RTR";

	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = (p->psn + sq_psn) & PSN_MASK;
	attr.timeout = timeout;
	attr.retry_cnt = 7;
	attr.rnr_retry = p->gives_up ? 2 : 7;
	attr.max_rd_atomic = 8;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		return "RTS";
	return NULL;
}

void pair_connect_end(struct pair *p, int end, enum ibv_mtu mtu, uint32_t sq_psn,
		      uint8_t timeout)
{
	const char *state = try_connect_end(p, end, mtu, sq_psn, timeout);

	if (state)
		fail_case("QP to %s", state);
}

bool pair_try_connect(struct pair *p, enum ibv_mtu mtu)
{
	begin_after_earlier_packets(p);
	return !try_connect_end(p, 0, mtu, 0, LONG_TIMEOUT) &&
	       !try_connect_end(p, 1, mtu, 0, LONG_TIMEOUT);
}

void pair_connect(struct pair *p, enum ibv_mtu mtu)
{
	begin_after_earlier_packets(p);
	for (int i = 0; i < 2; i++)
		pair_connect_end(p, i, mtu, 0, LONG_TIMEOUT);
}

void pair_create_end(struct pair *p, int end, struct ibv_pd *pd)
{
	p->ctx = pd->context;
	if (!p->cq)
		p->cq = must(ibv_create_cq(p->ctx, 64, NULL, NULL, 0));
	p->qp[end] = make_qp(p, pd);
}

void pair_open_mtu(struct pair *p, struct ibv_context *ctx, struct ibv_pd *pd[2],
		   enum ibv_mtu mtu)
{
	/* It may hold what belongs to the process that this one was forked from. */
	*p = (struct pair){ .pd = pd ? NULL : must(ibv_alloc_pd(ctx)) };
	for (int i = 0; i < 2; i++)
		pair_create_end(p, i, pd ? pd[i] : p->pd);
	pair_connect(p, mtu);
}

/* The MTU makes several packets of a few KiB. */
void pair_open(struct pair *p, struct ibv_context *ctx, struct ibv_pd *pd[2])
{
	pair_open_mtu(p, ctx, pd, IBV_MTU_1024);
}

void pair_open_in(struct pair *p, struct ibv_pd *pd)
{
	pair_open(p, pd->context, (struct ibv_pd *[]){ pd, pd });
}

void pair_close(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		if (p->qp[i] && ibv_destroy_qp(p->qp[i]))
			fail_case("destroy a QP");
	if (p->cq && ibv_destroy_cq(p->cq))
		fail_case("destroy a CQ");
	pd_close(p->pd);
	*p = (struct pair){};
}

enum ibv_wc_status wait_wc(struct pair *p, struct ibv_wc *wc)
{
	struct ibv_wc unused;
	double end = deadline(20);
	int n;

	wc = wc ? wc : &unused;
	do {
		n = ibv_poll_cq(p->cq, 1, wc);
		if (n < 0)
			fail_case("poll the CQ");
		if (n)
			return wc->status;
	} while (now() < end);
	/* The counters show whether packets were sent again and again, or not at all. */
	device_print_counters();
	errno = ETIMEDOUT;
	fail_case("no completion");
}

static enum ibv_wc_status post(struct pair *p, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->send_flags |= IBV_SEND_SIGNALED;
	errno = ibv_post_send(p->qp[0], wr, &bad);
	if (errno)
		fail_case("post send");
	/* An operation that consumes a receive has two completions, in either order. */
	if (wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		struct ibv_wc wc[2] = {};
		int mine;

		wait_wc(p, &wc[0]);
		if (wc[0].status)
			return wc[0].status;
		wait_wc(p, &wc[1]);
		if (wc[1].status)
			return wc[1].status;
		mine = wc[0].qp_num == p->qp[0]->qp_num ? 0 : 1;
		if (wc[!mine].byte_len != (wr->num_sge ? wr->sg_list->length : 0))
			fail_case("received %u bytes, which is not what was sent",
				  wc[!mine].byte_len);
		if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM &&
		    wc[!mine].imm_data != wr->imm_data)
			fail_case("received immediate %#x, not %#x", wc[!mine].imm_data,
				  wr->imm_data);
		return IBV_WC_SUCCESS;
	}
	return wait_wc(p, NULL);
}

enum ibv_wc_status rdma_op(struct pair *p, enum ibv_wr_opcode opcode,
			   struct ibv_mr *local, uint64_t local_addr, uint32_t length,
			   uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_sge sge = { .addr = local_addr, .length = length, .lkey = local->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode, .sg_list = &sge, .num_sge = 1, .imm_data = 0xfeedbeef,
		.wr.rdma = { .remote_addr = remote_addr, .rkey = rkey },
	};

	return post(p, &wr);
}

enum ibv_wc_status atomic_op(struct pair *p, enum ibv_wr_opcode opcode,
			     struct ibv_mr *result, uint64_t remote_addr, uint32_t rkey,
			     uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = { .addr = (uintptr_t)result->addr, .length = 8,
			       .lkey = result->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode, .sg_list = &sge, .num_sge = 1,
		.wr.atomic = { .remote_addr = remote_addr, .rkey = rkey,
			       .compare_add = compare_add, .swap = swap },
	};

	need("atomics");
	return post(p, &wr);
}

/* ibv_post_send() refuses a misaligned address; the extended API lets the responder do so. */
enum ibv_wc_status fetch_add_unchecked(struct pair *p, struct ibv_mr *result,
				       uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_qp_ex *qpx;

	need("atomics");
	qpx = ibv_qp_to_qp_ex(p->qp[0]);
	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_fetch_add(qpx, rkey, remote_addr, 1);
	ibv_wr_set_sge(qpx, result->lkey, (uintptr_t)result->addr, 8);
	if ((errno = ibv_wr_complete(qpx)))
		fail_case("post fetch and add");
	return wait_wc(p, NULL);
}

enum ibv_wc_status atomic_write(struct pair *p, uint64_t remote_addr, uint32_t rkey,
				uint64_t value)
{
	struct ibv_qp_ex *qpx;

	need("atomic-write");
	qpx = ibv_qp_to_qp_ex(p->qp[0]);
	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(qpx, rkey, remote_addr, &value);
	if ((errno = ibv_wr_complete(qpx)))
		fail_case("post atomic write");
	return wait_wc(p, NULL);
}

enum ibv_wc_status flush_op(struct pair *p, uint64_t remote_addr, size_t length, uint32_t rkey)
{
	struct ibv_qp_ex *qpx;

	need("flush");
	qpx = ibv_qp_to_qp_ex(p->qp[0]);
	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(qpx, rkey, remote_addr, length, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	if ((errno = ibv_wr_complete(qpx)))
		fail_case("post flush");
	return wait_wc(p, NULL);
}

void post_recv(struct pair *p, struct ibv_mr *mr, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = mr ? mr->lkey : 0 };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = mr ? 1 : 0 };

	errno = ibv_post_recv(p->qp[1], &wr, &bad);
	if (errno)
		fail_case("post receive");
}

struct ibv_mw *window_alloc(struct ibv_pd *pd, enum ibv_mw_type type)
{
	need(type == IBV_MW_TYPE_1 ? "window-type-1" : "window-type-2");
	return must(ibv_alloc_mw(pd, type));
}
