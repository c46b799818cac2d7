/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests of the command interface and of the device-wide state put in the place
 * of the other parts: guest memory in a memfd, tables that are arrays, and queues that
 * only write down what they were told.  One program includes it once.
 */
#ifndef CONNECTX_TEST_FAKE_PARTS_H
#define CONNECTX_TEST_FAKE_PARTS_H

#define _GNU_SOURCE 1
#include "cmd.h"
#include "cmdif.h"
#include "cq.h"
#include "dct.h"
#include "dma.h"
#include "eq.h"
#include "hca.h"
#include "life.h"
#include "link.h"
#include "list.h"
#include "loop.h"
#include "mcg.h"
#include "mkey.h"
#include "odp.h"
#include "qp.h"
#include "srq.h"
#include "table.h"
#include "trace.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define GUEST_BASE 0x100000000ull
#define GUEST_SIZE (16ul << 20)
#define NO_OP 0xffff

/* Guest memory. */

static u8 *guest;

static void guest_new(struct dma *d)
{
	int fd = memfd_create("guest", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, GUEST_SIZE), 0);
	guest = mmap(NULL, GUEST_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(guest, MAP_FAILED);
	close(fd);
	memset(d, 0, sizeof(*d));
}

static u8 *guest_at(uint64_t addr, size_t len)
{
	uint64_t at = addr - GUEST_BASE;

	if (addr < GUEST_BASE || len > GUEST_SIZE || at > GUEST_SIZE - len)
		return NULL;
	return guest + at;
}

int dma_read(struct dma *d, uint64_t addr, void *to, size_t len)
{
	u8 *p = guest_at(addr, len);

	if (!p)
		return -EFAULT;
	memcpy(to, p, len);
	return 0;
}

int dma_write(struct dma *d, uint64_t addr, const void *from, size_t len)
{
	u8 *p = guest_at(addr, len);

	if (!p)
		return -EFAULT;
	memcpy(p, from, len);
	return 0;
}

int dma_store8(struct dma *d, uint64_t addr, uint8_t value)
{
	return dma_write(d, addr, &value, 1);
}

/* Tables. */

void table_init(struct table *t, uint32_t first, uint32_t max)
{
	*t = (struct table) { .first = first, .max = max };
}

int64_t table_add(struct table *t, void *object)
{
	uint32_t i = 0;

	if (!t->slot) {
		t->slot = calloc(t->max, sizeof(*t->slot));
		assert_non_null(t->slot);
	}
	while (i < t->max && t->slot[i])
		i++;
	if (i == t->max)
		return -ENOSPC;
	t->slot[i] = object;
	return t->first + i;
}

void *table_get(const struct table *t, uint32_t number)
{
	if (!t->slot || number < t->first || number - t->first >= t->max)
		return NULL;
	return t->slot[number - t->first];
}

void *table_del(struct table *t, uint32_t number)
{
	void *object = table_get(t, number);

	if (object)
		t->slot[number - t->first] = NULL;
	return object;
}

void table_clear(struct table *t, void (*free_one)(void *arg, void *object), void *arg)
{
	for (uint32_t i = 0; t->slot && i < t->max; i++)
		if (t->slot[i])
			free_one(arg, t->slot[i]);
	free(t->slot);
	t->slot = NULL;
}

void *table_next(const struct table *t, uint32_t *number)
{
	if (*number < t->first)
		*number = t->first;
	for (; t->slot && *number - t->first < t->max; ++*number)
		if (table_get(t, *number))
			return table_get(t, *number);
	return NULL;
}

/* Loop and trace. */

static uint64_t fake_now = 1;
static unsigned int notes;
bool tracing;

uint64_t loop_now(const struct loop *l)
{
	return fake_now;
}

static struct work *queued_work;	/* one at a time is enough */

void work_init(struct work *w, void (*run)(struct work *w))
{
	list_init(&w->entry);
	w->run = run;
}

void loop_work(struct loop *l, struct work *w)
{
	assert_true(!queued_work || queued_work == w);
	queued_work = w;
}

void work_stop(struct work *w)
{
	if (queued_work == w)
		queued_work = NULL;
}

static void __attribute__((unused)) run_queued_work(void)
{
	struct work *w = queued_work;

	assert_non_null(w);
	queued_work = NULL;
	w->run(w);
}

void trace_line(const char *fmt, ...)
{
}

void note(const char *fmt, ...)
{
	notes++;
}

/* Events and doorbells, written down. */

static uint64_t subscribed;
static unsigned int events;
static struct { unsigned int type, sub_type; u8 data[28]; size_t len; } event[64];
static struct { unsigned int count; uint32_t value, number; bool arm; } eq_rung, cq_rung, qp_rung;
static unsigned int link_resets;

bool event_subscribed(const struct hca *hca, unsigned int type)
{
	return subscribed & 1ull << type;
}

bool event_send(struct hca *hca, unsigned int type, unsigned int sub_type, const void *data,
		size_t len)
{
	if (!event_subscribed(hca, type))
		return false;
	assert_true(len <= sizeof(event[0].data));
	assert_true(events < sizeof(event) / sizeof(*event));
	event[events].type = type;
	event[events].sub_type = sub_type;
	event[events].len = len;
	memcpy(event[events++].data, data, len);
	return true;
}

struct eq *eq_get(struct hca *hca, uint32_t number)
{
	return table_get(&hca->eqs, number);
}

struct cq *cq_get(struct hca *hca, uint32_t number)
{
	return table_get(&hca->cqs, number);
}

struct qp *qp_get(struct hca *hca, uint32_t number)
{
	return table_get(&hca->qps, number);
}

void eq_doorbell(struct hca *hca, uint32_t value, bool arm)
{
	eq_rung.count++;
	eq_rung.value = value;
	eq_rung.arm = arm;
}

void cq_doorbell(struct hca *hca, uint32_t value, uint32_t number)
{
	cq_rung.count++;
	cq_rung.value = value;
	cq_rung.number = number;
}

void qp_doorbell(struct hca *hca, uint32_t number, int end)
{
	qp_rung.count++;
	qp_rung.number = number;
}

struct qp *qp_of_cmd(struct hca *hca, const struct cmd *cmd, uint32_t number)
{
	return qp_get(hca, number);
}

void link_reset(struct link *l)
{
	link_resets++;
}

/* The objects of the other parts: the tests put their own into the tables. */

static void not_mine(void *arg, void *object)
{
}

void event_reset(struct hca *hca)
{
	table_clear(&hca->eqs, not_mine, NULL);
	table_clear(&hca->cqs, not_mine, NULL);
}

static void qp_leave(void *arg, void *object)
{
	struct qp *qp = object;

	if (qp->mcgs.next)
		mcg_detach_all(qp);
}

void qp_reset_all(struct hca *hca)
{
	table_clear(&hca->qps, qp_leave, NULL);
}

void srq_reset(struct hca *hca)
{
	table_clear(&hca->srqs, not_mine, NULL);
}

void mkey_reset(struct hca *hca)
{
	table_clear(&hca->mkeys, not_mine, NULL);
}

void odp_reset(struct hca *hca)
{
}

void qp_forget_srq(struct srq *srq)
{
}

const struct cmd_op eq_ops[] = { { } }, cq_ops[] = { { } }, srq_ops[] = { { } },
	qp_ops[] = { { } }, mkey_ops[] = { { } }, odp_ops[] = { { } }, dct_ops[] = { { } },
	direct_ops[] = { { } };

/* A device for one test. */

static struct dma fake_dma;

static struct hca *rig_new(void)
{
	struct hca *hca;

	fake_now = 1;
	notes = events = link_resets = 0;
	subscribed = 0;
	memset(&eq_rung, 0, sizeof(eq_rung));
	memset(&cq_rung, 0, sizeof(cq_rung));
	memset(&qp_rung, 0, sizeof(qp_rung));
	guest_new(&fake_dma);
	hca = hca_new(NULL, &fake_dma, 0x0002c90300000010);
	assert_non_null(hca);
	return hca;
}

static void rig_free(struct hca *hca)
{
	size_t before;

	hca_reset(hca);
	before = hca->memory;
	table_clear(&hca->uctxs, not_mine, NULL);
	hca_free(hca);
	munmap(guest, GUEST_SIZE);
	/* Whatever the test did: a reset gives all of it back. */
	assert_int_equal(before, 0);
}

static int rig_setup(void **state)
{
	*state = rig_new();
	return 0;
}

static int rig_teardown(void **state)
{
	rig_free(*state);
	return 0;
}

/* Run a command on private memory.  The opcode is set here, and kept if it is NO_OP. */
static inline enum cmd_status run(struct hca *hca, uint16_t op, uint16_t op_mod, void *in,
				  size_t in_len, void *out, size_t out_len)
{
	struct cmd c = { .in = in, .in_len = in_len, .out = out, .out_len = out_len };
	enum cmd_status status;

	memset(out, 0, out_len);
	if (op != NO_OP) {
		put_be16(in, op);
		put_be16((u8 *)in + 6, op_mod);
	}
	status = cmd_run(hca, &c);
	assert_int_equal(c.out[0], status);
	return status;
}

/* The way of the driver to a device that is up. */
static inline void rig_up(struct hca *hca)
{
	u8 in[64] = { 0 }, out[64];

	assert_int_equal(run(hca, MLX5_CMD_OP_ENABLE_HCA, 0, in, 16, out, 16), CMD_OK);
	IFC_SET(set_issi_in, in, current_issi, 1);
	assert_int_equal(run(hca, MLX5_CMD_OP_SET_ISSI, 0, in, 16, out, 16), CMD_OK);
	memset(in, 0, sizeof(in));
	assert_int_equal(run(hca, MLX5_CMD_OP_INIT_HCA, 0, in, 64, out, 16), CMD_OK);
}

#endif
