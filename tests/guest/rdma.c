// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two RC queue pairs of one device, connected to each other: what the first
 * posts arrives at the second through the whole stack and the network device.
 * An operation is posted, waited for, and its completion status handed back.
 */
#include "rdma.h"
#include <dirent.h>
#include <time.h>

struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = must(ibv_get_device_list(NULL));
	struct ibv_context *ctx;
	int i = 0;

	while (list[i] && strcmp(ibv_get_device_name(list[i]), name))
		i++;
	if (!list[i])
		die("no RDMA device %s", name);
	ctx = must(ibv_open_device(list[i]));
	ibv_free_device_list(list);
	return ctx;
}

/* The first RoCE v2 GID; any will do, as both ends are on this device. */
static int gid_index(struct ibv_context *ctx)
{
	struct ibv_gid_entry entry;

	for (int i = 0; i < 16; i++)
		if (!ibv_query_gid_ex(ctx, 1, i, &entry, 0) &&
		    entry.gid_type == IBV_GID_TYPE_ROCE_V2)
			return i;
	die("the device has no RoCE v2 GID");
}

static struct ibv_qp *make_qp(struct ibv_context *ctx, struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2,
			 .max_recv_sge = 2, .max_inline_data = 64 },
		.pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_FLUSH,
	};

	return must(ibv_create_qp_ex(ctx, &attr));
}

static void connect_qp(struct ibv_context *ctx, struct ibv_qp *qp, uint32_t to, enum ibv_mtu mtu)
{
	int index = gid_index(ctx);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
				   IBV_ACCESS_MW_BIND | IBV_ACCESS_FLUSH_GLOBAL,
	};

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  IBV_QP_ACCESS_FLAGS))
		die("QP to INIT");

	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = mtu;
	attr.dest_qp_num = to;
	attr.max_dest_rd_atomic = 8;
	attr.min_rnr_timer = 12;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.sgid_index = index;
	attr.ah_attr.grh.hop_limit = 1;
	if (ibv_query_gid(ctx, 1, index, &attr.ah_attr.grh.dgid))
		die("query GID");
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			  IBV_QP_MIN_RNR_TIMER))
		die("QP to RTR");

	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 18; /* 1 s: a busy guest does not repeat what is only late */
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 8;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		die("QP to RTS");
}

/* PD: one for each end, or NULL for one of the pair's own. */
void pair_open_mtu(struct pair *p, struct ibv_context *ctx, struct ibv_pd *pd[2],
		   enum ibv_mtu mtu)
{
	p->ctx = ctx;
	p->pd = pd ? NULL : must(ibv_alloc_pd(ctx));
	p->cq = must(ibv_create_cq(ctx, 64, NULL, NULL, 0));
	for (int i = 0; i < 2; i++)
		p->qp[i] = make_qp(ctx, pd ? pd[i] : p->pd, p->cq);
	for (int i = 0; i < 2; i++)
		connect_qp(ctx, p->qp[i], p->qp[!i]->qp_num, mtu);
}

/* With an MTU that makes several packets of a few KiB. */
void pair_open(struct pair *p, struct ibv_context *ctx, struct ibv_pd *pd[2])
{
	pair_open_mtu(p, ctx, pd, IBV_MTU_1024);
}

void pair_close(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		if (ibv_destroy_qp(p->qp[i]))
			die("destroy QP");
	if (ibv_destroy_cq(p->cq))
		die("destroy CQ");
	if (p->pd && (errno = ibv_dealloc_pd(p->pd)))
		die("dealloc PD");
}

/* The next completion, which has to come within ten seconds. */
enum ibv_wc_status wait_wc(struct pair *p, struct ibv_wc *wc)
{
	struct ibv_wc unused;
	time_t end = time(NULL) + 10;
	int n;

	wc = wc ? wc : &unused;
	do {
		n = ibv_poll_cq(p->cq, 1, wc);
		if (n < 0)
			die("poll CQ");
		if (n)
			return wc->status;
	} while (time(NULL) < end);
	/* Were packets repeated all the time, or was there silence? */
	system("cd /sys/class/infiniband/rxe0/ports/1/hw_counters && "
	       "grep -v '^0$' * | sed 's/^/# /' >&2");
	errno = ETIMEDOUT;
	die("no completion");
}

static enum ibv_wc_status post(struct pair *p, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->send_flags |= IBV_SEND_SIGNALED;
	errno = ibv_post_send(p->qp[0], wr, &bad);
	if (errno)
		die("post send");
	/* With a receive posted there are two completions; the caller takes
	 * the other one.
	 */
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
			die("received %u bytes", wc[!mine].byte_len);
		if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM &&
		    wc[!mine].imm_data != wr->imm_data)
			die("immediate is %#x", wc[!mine].imm_data);
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

	return post(p, &wr);
}

/*
 * The extended API: the library lets an address through that is not aligned,
 * which ibv_post_send() refuses, and that it is for the responder to refuse.
 */
enum ibv_wc_status fetch_add_unchecked(struct pair *p, struct ibv_mr *result,
				       uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(p->qp[0]);

	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_fetch_add(qpx, rkey, remote_addr, 1);
	ibv_wr_set_sge(qpx, result->lkey, (uintptr_t)result->addr, 8);
	if ((errno = ibv_wr_complete(qpx)))
		die("post fetch and add");
	return wait_wc(p, NULL);
}

enum ibv_wc_status atomic_write(struct pair *p, uint64_t remote_addr, uint32_t rkey,
				uint64_t value)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(p->qp[0]);

	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(qpx, rkey, remote_addr, &value);
	if ((errno = ibv_wr_complete(qpx)))
		die("post atomic write");
	return wait_wc(p, NULL);
}

/* Of a range, to global visibility. */
enum ibv_wc_status flush_op(struct pair *p, uint64_t remote_addr, size_t length, uint32_t rkey)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(p->qp[0]);

	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(qpx, rkey, remote_addr, length, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	if ((errno = ibv_wr_complete(qpx)))
		die("post flush");
	return wait_wc(p, NULL);
}

void post_recv(struct pair *p, struct ibv_mr *mr, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = mr ? mr->lkey : 0 };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = mr ? 1 : 0 };

	errno = ibv_post_recv(p->qp[1], &wr, &bad);
	if (errno)
		die("post receive");
}

/* What this process has pinned, as it is charged for it. */
long pinned_kb(void)
{
	FILE *f = must(fopen("/proc/self/status", "r"));
	char line[128];
	long kb = -1;

	while (fgets(line, sizeof(line), f))
		sscanf(line, "VmPin: %ld", &kb);
	fclose(f);
	return kb;
}
