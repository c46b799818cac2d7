/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What eq.c, cq.c and srq*.c stand on, for their tests: guest memory as one flat array,
 * tables, timers on a clock that the test moves, and a device whose every
 * UAR, PD and XRCD below 100 is valid.  One test program includes this once.
 *
 * The fakes check one thing for all tests: the last byte of an entry, its owner, is
 * written by dma_store8() alone, after the other bytes.
 */
#include "cmd.h"
#include "devx.h"
#include "dma.h"
#include "eq.h"
#include "hca.h"
#include "list.h"
#include "loop.h"
#include "pci.h"
#include "queue.h"
#include "table.h"
#include "trace.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define RAM_START 0x40000000ull
#define RAM_SIZE (1u << 20)
#define RAM(offset) (RAM_START + (offset))

static u8 ram[RAM_SIZE];
static bool ram_gone;			/* as after the guest unmapped all */
static struct hca *hca;
static struct uar uar;			/* whatever its number */
static unsigned int interrupts[PCI_VECTORS], notes, owner_stores;
static uint64_t clock_ns;
static struct list timers;

bool tracing;

void trace_line(const char *fmt, ...)
{
}

void note(const char *fmt, ...)
{
	notes++;
}

static u8 *ram_at(uint64_t addr, size_t len)
{
	if (ram_gone || addr < RAM_START || len > RAM_SIZE || addr - RAM_START > RAM_SIZE - len)
		return NULL;
	return ram + (addr - RAM_START);
}

int dma_load_be32(struct dma *d, uint64_t addr, uint32_t *value)
{
	u8 *p = ram_at(addr, 4);

	if (!p || addr & 3)
		return -EFAULT;
	*value = be32_at(p);
	return 0;
}

int dma_store8(struct dma *d, uint64_t addr, uint8_t value)
{
	u8 *p = ram_at(addr, 1);

	if (!p)
		return -EFAULT;
	assert_int_equal(addr % 64, 63);
	owner_stores++;
	*p = value;
	return 0;
}

int dma_read(struct dma *d, uint64_t addr, void *to, size_t len)
{
	u8 *p = ram_at(addr, len);

	if (!p)
		return -EFAULT;
	memcpy(to, p, len);
	return 0;
}

static unsigned int owner_every;	/* so many bytes: dma_write() writes none of them */

int dma_write(struct dma *d, uint64_t addr, const void *from, size_t len)
{
	u8 *p = ram_at(addr, len);

	if (!p)
		return -EFAULT;
	assert_true(addr % owner_every + len < owner_every);
	memcpy(p, from, len);
	return 0;
}

void table_init(struct table *t, uint32_t first, uint32_t max)
{
	*t = (struct table){ .first = first, .max = max, .next = first };
	t->slot = calloc(max, sizeof(*t->slot));
}

int64_t table_add(struct table *t, void *object)
{
	if (t->next == t->first + t->max)
		return -ENOSPC;
	t->slot[t->next - t->first] = object;
	return t->next++;
}

void *table_get(const struct table *t, uint32_t number)
{
	return number < t->first || number - t->first >= t->max ? NULL :
	       t->slot[number - t->first];
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
	uint32_t i;

	for (i = 0; i < t->max; i++) {
		if (t->slot[i])
			free_one(arg, t->slot[i]);
		t->slot[i] = NULL;
	}
	t->next = t->first;
}

void timer_init(struct timer *t, void (*expired)(struct timer *t))
{
	list_init(&t->entry);
	t->expired = expired;
}

void timer_start(struct loop *l, struct timer *t, uint64_t ns_from_now)
{
	list_del(&t->entry);
	t->when = clock_ns + ns_from_now;
	list_add(&timers, &t->entry);
}

void timer_stop(struct timer *t)
{
	list_del(&t->entry);
}

static inline void time_passes(uint64_t ns)
{
	struct list *e, *next;

	clock_ns += ns;
	for (e = timers.next; e != &timers; e = next) {
		struct timer *t = list_item(e, struct timer, entry);

		next = e->next;
		if (t->when > clock_ns)
			continue;
		list_del(&t->entry);
		t->expired(t);
	}
}

struct uar *hca_uar(const struct hca *h, uint16_t uid, uint32_t number)
{
	return number >= HCA_UAR_FIRST && number < 100 ? &uar : NULL;
}

void hca_uar_put(struct hca *h, struct uar *u)
{
	u->users--;
}

bool hca_pd_valid(const struct hca *h, uint16_t uid, uint32_t pd)
{
	return pd < 100;
}

bool hca_xrcd_valid(const struct hca *h, uint16_t uid, uint32_t xrcd)
{
	return xrcd < 100;
}

bool hca_xrcd_of_driver(const struct hca *h, uint32_t xrcd)
{
	return xrcd < 100;
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

void hca_free_memory(struct hca *h, void *p, size_t bytes)
{
	h->memory -= bytes;
	free(p);
}

static void fake_raise(void *arg, unsigned int vector)
{
	assert_true(vector < PCI_VECTORS);
	interrupts[vector]++;
}

static int fakes_setup(void **state)
{
	memset(ram, 0, sizeof(ram));
	memset(interrupts, 0, sizeof(interrupts));
	ram_gone = false;
	notes = owner_stores = 0;
	clock_ns = 0;
	owner_every = 64;
	list_init(&timers);
	hca = calloc(1, sizeof(*hca));
	hca->raise = fake_raise;
	table_init(&hca->eqs, 1, 5);
	table_init(&hca->cqs, 0x80, 40);
	table_init(&hca->srqs, 0x20, 5);
	return 0;
}

/* A reset frees all: what is counted is given back, and the sanitizer sees the rest. */
static int fakes_teardown(void **state)
{
	event_reset(hca);
	assert_int_equal(hca->memory, 0);
	assert_int_equal(uar.users, 0);
	assert_true(list_empty(&timers));
	free(hca->eqs.slot);
	free(hca->cqs.slot);
	free(hca->srqs.slot);
	free(hca);
	return 0;
}

/* Run a command as cmdif.c does.  IN begins with the opcode. */
static enum cmd_status run(const struct cmd_op *ops, void *in, size_t in_len, void *out,
			   size_t out_len)
{
	struct cmd cmd = {
		.in = in, .in_len = in_len, .out = out, .out_len = out_len,
		.op = be16_at(in), .op_mod = be16_at((u8 *)in + 6),
	};
	enum cmd_status status;

	for (; ops->name; ops++) {
		if (ops->op != cmd.op)
			continue;
		assert_true(in_len >= ops->in_len);
		assert_true(out_len >= ops->out_len);
		memset(out, 0, out_len);
		status = ops->run(hca, &cmd);
		/* A refusal says which check it was. */
		assert_int_equal(!!status, !!cmd.syndrome);
		return status;
	}
	fail_msg("command %#x is not in the given table of commands", cmd.op);
	return CMD_BAD_OP;
}

/* A page list of COUNT pages from the RAM's offset START on. */
static void put_pas(void *pas, uint32_t start, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		put_be64((u8 *)pas + 8 * i, RAM(start + i * 4096));
}

/* An EQ whose entries are at START, armed as the driver has it after creation. */
static inline struct eq *make_eq(uint32_t start, unsigned int log_size, unsigned int vector,
				 uint64_t events)
{
	u8 in[IFC_BYTES(create_eq_in) + 16 * 8] = { }, out[IFC_BYTES(create_eq_out)];
	void *eqc = IFC_PTR(create_eq_in, in, eq_context_entry);
	uint32_t number, i;

	for (i = 0; i < 1u << log_size; i++)
		ram[start + i * 64 + 63] = 1;
	IFC_SET(create_eq_in, in, opcode, MLX5_CMD_OP_CREATE_EQ);
	IFC_SET(eqc, eqc, log_eq_size, log_size);
	IFC_SET(eqc, eqc, uar_page, HCA_UAR_FIRST);
	IFC_SET(eqc, eqc, intr, vector);
	put_be64(IFC_PTR(create_eq_in, in, event_bitmask), events);
	put_pas(in + IFC_BYTES(create_eq_in), start, 16);
	assert_int_equal(run(eq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	number = IFC_GET(create_eq_out, out, eq_number);
	eq_doorbell(hca, number << 24, true);
	return eq_get(hca, number);
}

/* The guest's side of an EQ: the next entry, or NULL.  As next_eqe_sw() of the driver. */
struct guest_eq {
	uint32_t start, log_size, index;
};

static inline const u8 *next_eqe(struct guest_eq *g)
{
	const u8 *e = ram + g->start + (g->index & ((1u << g->log_size) - 1)) * 64;

	if ((e[63] ^ g->index >> g->log_size) & 1)
		return NULL;
	g->index++;
	return e;
}

/* Take all entries, report it and arm; how many there were of TYPE. */
static inline unsigned int drain_eq(struct eq *eq, struct guest_eq *g, unsigned int type)
{
	unsigned int n = 0;
	const u8 *e;

	while ((e = next_eqe(g)))
		n += e[1] == type;
	eq_doorbell(hca, eq->number << 24 | (g->index & 0xffffff), true);
	return n;
}
