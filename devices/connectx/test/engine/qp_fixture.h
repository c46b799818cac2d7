/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For the tests of queue pairs: small fakes of the other parts of the model, which count
 * what they are asked, and commands and work requests as the driver writes them.
 */
#ifndef CONNECTX_TEST_QP_FIXTURE_H
#define CONNECTX_TEST_QP_FIXTURE_H

#include "cmd.h"
#include "cq.h"
#include "devx.h"
#include "dma.h"
#include "eq.h"
#include "hca.h"
#include "list.h"
#include "loop.h"
#include "mcg.h"
#include "odp.h"
#include "port.h"
#include "qp.h"
#include "queue.h"
#include "srq.h"
#include "table.h"
#include "trace.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define RECORD 0x100u			/* the doorbell record, in ram[] */
#define BUFFER 0x10000u			/* the queues */
#define QPN_FIRST 0x40u

static u8 ram[1 << 20];
static struct hca hca;
static struct uar uar;
static struct cq cqs[2];
static struct srq srqs[2];		/* basic, XRC */
static struct mlx5_cqe64 cqe[512];	/* what was pushed */
static struct cq *cqe_cq[512];
static bool cqe_solicited[512];
static unsigned int cqes, requester_runs, forgotten, srq_left;
static struct { unsigned int type; uint32_t qpn; } events[16];
static unsigned int event_count;
static struct list works = { &works, &works };
static struct timer *running;
static uint64_t now, running_ns;

/* --- fakes */

bool tracing;
void trace_line(const char *fmt, ...) { }

void table_init(struct table *t, uint32_t first, uint32_t max)
{
	*t = (struct table){ .first = first, .max = max, .slot = calloc(max, sizeof(void *)) };
}

int64_t table_add(struct table *t, void *object)
{
	if (t->next == t->max)
		return -ENOSPC;
	t->slot[t->next] = object;
	return t->first + t->next++;
}

void *table_get(const struct table *t, uint32_t number)
{
	if (number < t->first || number - t->first >= t->next)
		return NULL;
	return t->slot[number - t->first];
}

void *table_del(struct table *t, uint32_t number)
{
	void *object = table_get(t, number);

	t->slot[number - t->first] = NULL;
	return object;
}

void *table_next(const struct table *t, uint32_t *number)
{
	for (*number = *number < t->first ? t->first : *number; *number - t->first < t->next;
	     ++*number)
		if (table_get(t, *number))
			return table_get(t, *number);
	return NULL;
}

void table_clear(struct table *t, void (*free_one)(void *, void *), void *arg)
{
	for (uint32_t i = 0; i < t->next; i++)
		if (t->slot[i])
			free_one(arg, t->slot[i]);
	memset(t->slot, 0, t->max * sizeof(void *));
	t->next = 0;
}

int dma_load_be32(struct dma *d, uint64_t addr, uint32_t *value)
{
	if (addr > sizeof(ram) - 4)
		return -EFAULT;
	*value = be32_at(ram + addr);
	return 0;
}

int dma_read(struct dma *d, uint64_t addr, void *to, size_t len)
{
	if (len > sizeof(ram) || addr > sizeof(ram) - len)
		return -EFAULT;
	memcpy(to, ram + addr, len);
	return 0;
}

/* Queues are only read. */
int dma_write(struct dma *d, uint64_t addr, const void *from, size_t len) { return -EFAULT; }

uint64_t loop_now(const struct loop *l) { return now; }
void work_init(struct work *w, void (*run)(struct work *)) { list_init(&w->entry); w->run = run; }
void work_stop(struct work *w) { list_del(&w->entry); }

void loop_work(struct loop *l, struct work *w)
{
	list_del(&w->entry);
	list_add(&works, &w->entry);
}

void timer_init(struct timer *t, void (*expired)(struct timer *))
{
	list_init(&t->entry);
	t->expired = expired;
}

void timer_start(struct loop *l, struct timer *t, uint64_t ns)
{
	running = t;
	running_ns = ns;
}

void timer_stop(struct timer *t)
{
	running = running == t ? NULL : running;
}

struct cq *cq_get(struct hca *h, uint32_t n) { return n == 1 || n == 2 ? &cqs[n - 1] : NULL; }
struct srq *srq_get(struct hca *h, uint32_t n) { return n == 1 || n == 2 ? &srqs[n - 1] : NULL; }

void cq_push(struct cq *cq, const struct mlx5_cqe64 *c, bool solicited)
{
	assert_true(cqes < 512);
	cqe_cq[cqes] = cq;
	cqe_solicited[cqes] = solicited;
	cqe[cqes++] = *c;
}

bool cq_usable(const struct cq *cq) { return !cq->error; }

int srq_take(struct srq *srq, struct recv_wqe *r)
{
	r->index = srq_left;
	return srq_left ? srq_left--, 1 : 0;
}

void recv_parse(struct recv_wqe *r, const u8 *bytes, size_t len)
{
	*r = (struct recv_wqe){ .segs = 1, .room = be32_at(bytes) };
}

bool event_send(struct hca *h, unsigned int type, unsigned int sub, const void *data, size_t len)
{
	assert_int_equal(len, 28);
	assert_true(event_count < 16);
	events[event_count].type = type;
	events[event_count++].qpn = be32_at((const u8 *)data + 24);
	return true;
}

/* Queues in umems: test_devx.c, with the real parts. */
enum cmd_status umem_buffer(struct hca *h, struct cmd *cmd, struct umem_use *use, uint32_t number,
			    uint64_t offset, uint64_t bytes, bool write, struct queue_buf *b)
{
	cmd->syndrome = 1;
	return CMD_BAD_RES;
}

enum cmd_status umem_doorbell(struct hca *h, struct cmd *cmd, struct umem_use *use,
			      uint32_t number, uint64_t *addr)
{
	cmd->syndrome = 1;
	return CMD_BAD_RES;
}

void umem_put(struct umem_use *use)
{
	assert_null(use->buffer);
	assert_null(use->doorbell);
}

void *hca_alloc(struct hca *h, size_t bytes)
{
	if (bytes > HCA_MEMORY - h->memory)
		return NULL;
	h->memory += bytes;
	return calloc(1, bytes);
}

void hca_free_memory(struct hca *h, void *p, size_t bytes) { h->memory -= bytes; free(p); }
bool hca_pd_valid(const struct hca *h, uint16_t uid, uint32_t pd) { return pd == 3; }
bool hca_xrcd_valid(const struct hca *h, uint16_t uid, uint32_t xrcd)
{
	return xrcd == 4 || xrcd == 5;
}

struct uar *hca_uar(const struct hca *h, uint16_t uid, uint32_t number)
{
	return number == 0x10 ? &uar : NULL;
}

void hca_uar_put(struct hca *h, struct uar *u) { u->users--; }
uint16_t port_pkey(const struct hca *h, unsigned int index) { return 0xffff; }
void mcg_detach_all(struct qp *qp) { }
void dct_free(struct qp *qp) { }
void dci_close(struct qp *qp) { }
void odp_forget(struct hca *h, struct odp_waiter *w, unsigned int count) { forgotten++; }

uint64_t hca_clock(const struct hca *h) { return now * 156 / 1000; }

static void nothing(struct work *w) { }
static void no_timer(struct timer *t) { }

void requester_init(struct qp *qp)
{
	memset(&qp->req, 0, sizeof(qp->req));
	timer_init(&qp->req.retry, no_timer);
	timer_init(&qp->req.rnr, no_timer);
	work_init(&qp->req.work, nothing);
}

void requester_reset(struct qp *qp)
{
	work_stop(&qp->req.work);
	requester_init(qp);
}

void responder_init(struct qp *qp)
{
	memset(&qp->resp, 0, sizeof(qp->resp));
	work_init(&qp->resp.work, nothing);
}

void responder_reset(struct qp *qp) { responder_init(qp); }
void requester_run(struct qp *qp) { requester_runs++; }

/* --- helpers */

static inline unsigned int run_works(void)
{
	unsigned int turns = 0;

	for (; !list_empty(&works); turns++) {
		struct work *w = list_item(works.next, struct work, entry);

		list_del(&w->entry);
		w->run(w);
		assert_true(turns < 1000);
	}
	return turns;
}

static inline int setup(void **state)
{
	memset(&hca, 0, sizeof(hca));
	memset(ram, 0, sizeof(ram));
	memset(cqs, 0, sizeof(cqs));
	memset(srqs, 0, sizeof(srqs));
	table_init(&hca.qps, QPN_FIRST, 64);
	srqs[0].number = 1;
	srqs[1] = (struct srq){ .number = 2, .xrc = true, .xrcd = 4, .cq = &cqs[0],
				.user_index = 0x222 };
	cqes = requester_runs = event_count = srq_left = 0;
	return 0;
}

static inline int teardown(void **state)
{
	qp_reset_all(&hca);
	assert_true(list_empty(&works));
	assert_null(running);
	assert_int_equal(hca.memory, 0);
	assert_int_equal(cqs[0].users + cqs[1].users + srqs[0].users + srqs[1].users, 0);
	free(hca.qps.slot);
	return 0;
}

static u8 in[4096], out[512];
static struct cmd cmd;

static enum cmd_status run(uint16_t op, size_t in_len)
{
	const struct cmd_op *o;

	for (o = qp_ops; o->name; o++) {
		if (o->op != op)
			continue;
		cmd = (struct cmd){ .in = in, .in_len = in_len, .out = out,
				    .out_len = sizeof(out), .op = op, .uid = be16_at(in + 2) };
		assert_true(in_len >= o->in_len && o->out_len <= sizeof(out));
		memset(out, 0, sizeof(out));
		return o->run(&hca, &cmd);
	}
	return CMD_BAD_OP;
}

#define CREATE_QPC IFC_PTR(create_qp_in, in, qpc)
#define SET(field, value) IFC_SET(qpc, CREATE_QPC, field, value)

/* A kernel QP: 64 receives of 64 bytes, 16 blocks to send; 2 pages. */
static void create_in(unsigned int st)
{
	memset(in, 0, sizeof(in));
	SET(st, st);
	SET(rlky, 1);
	SET(pm_state, 3);
	SET(pd, 3);
	SET(log_rq_size, 6);
	SET(log_rq_stride, 2);
	SET(log_sq_size, 4);
	SET(uar_page, 0x10);
	SET(cqn_snd, 1);
	SET(cqn_rcv, 2);
	SET(user_index, 0x111);
	SET(srqn_rmpn_xrqn, 1);
	SET(xrcd, 4);
	IFC_SET64(qpc, CREATE_QPC, dbr_addr, RECORD);
	put_be64(in + IFC_BYTES(create_qp_in), BUFFER);
	put_be64(in + IFC_BYTES(create_qp_in) + 8, BUFFER + 4096);
	if (st == MLX5_QPC_ST_XRC)
		SET(rq_type, 1);
}

static inline enum cmd_status create(void)
{
	return run(MLX5_CMD_OP_CREATE_QP, IFC_BYTES(create_qp_in) + 16);
}

static inline struct qp *created(unsigned int st)
{
	create_in(st);
	assert_int_equal(create(), CMD_OK);
	return qp_get(&hca, IFC_GET(create_qp_out, out, qpn));
}

#define MODIFY_QPC IFC_PTR(rst2init_qp_in, in, qpc)

static void modify_in(const struct qp *qp, uint32_t mask)
{
	memset(in, 0, sizeof(in));
	IFC_SET(rst2init_qp_in, in, qpn, qp->number);
	IFC_SET(rst2init_qp_in, in, opt_param_mask, mask);
	IFC_SET(qpc, MODIFY_QPC, mtu, 5);
	IFC_SET(qpc, MODIFY_QPC, primary_address_path.vhca_port_num, 1);
}

static inline enum cmd_status modify(uint16_t op)
{
	return run(op, IFC_BYTES(rst2init_qp_in));
}

static inline enum cmd_status to(struct qp *qp, uint16_t op)
{
	modify_in(qp, 0);
	return modify(op);
}

static inline void to_rts(struct qp *qp)
{
	assert_int_equal(to(qp, MLX5_CMD_OP_RST2INIT_QP), CMD_OK);
	assert_int_equal(to(qp, MLX5_CMD_OP_INIT2RTR_QP), CMD_OK);
	assert_int_equal(to(qp, MLX5_CMD_OP_RTR2RTS_QP), CMD_OK);
	assert_int_equal(qp->state, QPS_RTS);
}

static inline void *query(const struct qp *qp)
{
	memset(in, 0, sizeof(in));
	IFC_SET(query_qp_in, in, qpn, qp->number);
	assert_int_equal(run(MLX5_CMD_OP_QUERY_QP, IFC_BYTES(query_qp_in)), CMD_OK);
	return IFC_PTR(query_qp_out, out, qpc);
}

static inline void post(unsigned int record, uint32_t producer)
{
	put_be32(ram + RECORD + 4 * record, producer);
}

/* The control segment of block INDEX of 16, and what it says. */
static inline u8 *block(uint16_t index, u8 opcode, unsigned int ds)
{
	u8 *p = ram + BUFFER + 64 * 64 + index % 16 * 64;

	put_be32(p, (uint32_t)index << 8 | opcode);
	put_be32(p + 4, ds);
	return p;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
