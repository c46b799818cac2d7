// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * BAR 0, by struct mlx5_init_seg of the kernel's device.h; doorbells as mlx5dv.h and the
 * driver's eq.c and cq.h write them.
 *
 *	0		init segment, in its second page the clock and the health counter
 *	0x2000		MSI-X table and PBA, which QEMU keeps
 *	0x10000		UARs, a page each
 *	16 MiB		device memory
 *
 * A doorbell counts only in a UAR that is allocated, and only for an EQ, CQ or QP that was
 * created with this UAR: so a process of the guest cannot ring for another one.  What a
 * doorbell says is a hint or a counter, which the receiver checks.
 *
 * A store may come in the middle of another access, while QEMU is asked for memory
 * (dma.h).  To device memory and doorbells it takes effect at once: a doorbell queues work,
 * and changes the state of a QP at most.  Those to the init segment have commands run, which
 * free objects; they wait, in order, until a turn in which nothing is under way, and a
 * load from there does not wait for them.
 */
#include "bar.h"
#include "cmdif.h"
#include "cq.h"
#include "dma.h"
#include "eq.h"
#include "hca.h"
#include "ifc.h"
#include "life.h"
#include "list.h"
#include "memic.h"
#include "pci.h"
#include "qp.h"
#include "trace.h"
#include <stdlib.h>

#define FW_MAJOR 12		/* of the ConnectX-4 */
#define FW_MINOR 28
#define FW_SUBMINOR 1000
#define CMDIF_REV 5

/* Of the init segment. */
#define SEG_SIZE 0x2000
enum { SEG_FW_REV = 0x0, SEG_CMDIF_REV = 0x4, SEG_QUEUE_HIGH = 0x10, SEG_QUEUE_LOW = 0x14,
       SEG_DOORBELL = 0x18, SEG_HEALTH_FW_VER = 0x230, SEG_TIMER_HIGH = 0x1000,
       SEG_TIMER_LOW = 0x1004, SEG_HEALTH = 0x1010 };

/* Of a UAR. */
enum { UAR_CQ = 0x20, UAR_EQ_ARM = 0x40, UAR_EQ = 0x48, UAR_BLUEFLAME = 0x800,
       UAR_BLUEFLAME_STRIDE = 0x100 };

static uint32_t segment_read(struct hca *hca, uint64_t offset)
{
	switch (offset) {
	case SEG_FW_REV:
		return FW_MINOR << 16 | FW_MAJOR;
	case SEG_CMDIF_REV:
		return CMDIF_REV << 16 | FW_SUBMINOR;
	case SEG_QUEUE_HIGH:
		return hca->cmdif->high;
	case SEG_QUEUE_LOW:
		return cmd_queue_low_read(hca);
	case SEG_HEALTH_FW_VER:
		return FW_MAJOR << 24 | FW_MINOR << 16 | FW_SUBMINOR;
	/* loop_now() stands still within a turn, so both halves are of one moment there. */
	case SEG_TIMER_HIGH:
		return hca_clock(hca) >> 32;
	case SEG_TIMER_LOW:
		return hca_clock(hca);
	/* The driver looks every 2 s whether it changed: whether somebody answers. */
	case SEG_HEALTH:
		return ++hca->health;
	default:
		return 0;
	}
}

static void segment_write_now(struct hca *hca, uint64_t offset, uint32_t value)
{
	switch (offset) {
	case SEG_QUEUE_HIGH:
		cmd_queue_high(hca, value);
		break;
	case SEG_QUEUE_LOW:
		cmd_queue_low(hca, value);
		/* The end of a fast teardown: after this, nothing may touch guest memory. */
		if (hca->cmdif->nic_state == MLX5_INITIAL_SEG_NIC_INTERFACE_DISABLED)
			hca_free_objects(hca);
		break;
	case SEG_DOORBELL:
		cmd_doorbell(hca, value);
		break;
	}
}

/*
 * The driver has one doorbell for all commands that it has written, so a few stores are all
 * that a driver makes while one access lasts.
 */
static void put_off(struct hca *hca, uint64_t offset, uint32_t value)
{
	struct bar *b = hca->bar;
	struct bar_store *last = b->count ? &b->later[b->count - 1] : NULL;

	if (last && last->offset == SEG_DOORBELL && offset == SEG_DOORBELL)
		last->value |= value;
	else if (b->count < BAR_LATER)
		b->later[b->count++] = (struct bar_store){ offset, value };
	else
		note("a store to the init segment is lost: %u wait already", BAR_LATER);
	loop_work(hca->loop, &b->work);
}

static void segment_write(struct hca *hca, uint64_t offset, uint32_t value)
{
	if (dma_asking(hca->dma) || hca->bar->count)
		put_off(hca, offset, value);
	else
		segment_write_now(hca, offset, value);
}

static void write_later(struct work *w)
{
	struct bar *b = list_item(w, struct bar, work);
	unsigned int count = b->count;

	/* None is added meanwhile: nothing is asked for here. */
	b->count = 0;
	for (unsigned int i = 0; i < count; i++)
		segment_write_now(b->hca, b->later[i].offset, b->later[i].value);
}

void bar_init(struct hca *hca)
{
	hca->bar = calloc(1, sizeof(*hca->bar));
	if (!hca->bar)
		return;
	hca->bar->hca = hca;
	work_init(&hca->bar->work, write_later);
}

void bar_reset(struct hca *hca)
{
	hca->bar->count = 0;
	work_stop(&hca->bar->work);
}

static void ring_eq(struct hca *hca, const struct uar *uar, uint32_t value, bool arm)
{
	struct eq *eq = eq_get(hca, value >> 24);

	if (eq && eq->uar == uar)
		eq_doorbell(hca, value, arm);
}

static void ring_cq(struct hca *hca, const struct uar *uar, uint32_t value, uint32_t number)
{
	struct cq *cq;

	number &= 0xffffff;
	cq = cq_get(hca, number);
	if (cq && cq->uar == uar)
		cq_doorbell(hca, value, number);
}

static void ring_qp(struct hca *hca, const struct uar *uar, uint32_t number, int end)
{
	struct qp *qp = qp_get(hca, number);

	if (qp && qp->uar == uar)
		qp_doorbell(hca, number, end);
}

/* All of a send doorbell: the first 8 bytes of the last WQE, with its index and its size. */
static void ring_send(struct hca *hca, const struct uar *uar, const u8 *ctrl)
{
	uint32_t number = be32_at(ctrl + 4) >> 8, blocks = ((be32_at(ctrl + 4) & 0x3f) + 3) / 4;
	uint16_t end = (be32_at(ctrl) >> 8) + blocks;

	ring_qp(hca, uar, number, blocks ? end : -1);
}

/*
 * A store of 4 bytes: an EQ's doorbell, or half of another one.  Of a send doorbell in two
 * halves only the second is of use; the guest serializes the halves of a CQ's.
 */
static void uar_write4(struct hca *hca, struct uar *uar, uint32_t offset, uint32_t value)
{
	if (offset == UAR_EQ_ARM || offset == UAR_EQ)
		ring_eq(hca, uar, value, offset == UAR_EQ_ARM);
	else if (offset == UAR_CQ)
		uar->cq_half = value;
	else if (offset == UAR_CQ + 4)
		ring_cq(hca, uar, uar->cq_half, value);
	else if (offset >= UAR_BLUEFLAME && offset % UAR_BLUEFLAME_STRIDE == 4)
		ring_qp(hca, uar, value >> 8, -1);
}

static void uar_write(struct hca *hca, uint64_t bar_offset, const void *data, size_t size)
{
	struct uar *uar = hca_uar(hca, 0, bar_offset / HCA_PAGE);
	uint32_t offset = bar_offset % HCA_PAGE;

	if (!uar || offset % size)
		return;
	hca->stats.doorbells++;
	if (size == 8 && offset >= UAR_BLUEFLAME && offset % UAR_BLUEFLAME_STRIDE == 0) {
		ring_send(hca, uar, data);
	} else if (size == 8) {
		uar_write4(hca, uar, offset, be32_at(data));
		uar_write4(hca, uar, offset + 4, be32_at((const u8 *)data + 4));
	} else if (size == 4) {
		uar_write4(hca, uar, offset, be32_at(data));
	}
}

static bool bar_inside(uint64_t offset, size_t size)
{
	return size && size <= 8 && offset <= PCI_BAR_SIZE - size;
}

void hca_bar_read(struct hca *hca, uint64_t offset, void *data, size_t size)
{
	u8 *to = data;
	u8 dword[4];

	memset(data, 0, size);
	if (!bar_inside(offset, size))
		return;
	if (offset >= HCA_MEMIC_START) {
		memic_bar_read(hca, offset, data, size);
		return;
	}
	for (size_t i = 0; i < size && offset + i < SEG_SIZE; i++) {
		uint64_t at = offset + i;

		if (!i || at % 4 == 0)
			put_be32(dword, segment_read(hca, at & ~3ull));
		to[i] = dword[at % 4];
	}
}

void hca_bar_write(struct hca *hca, uint64_t offset, const void *data, size_t size)
{
	if (!bar_inside(offset, size))
		return;
	if (offset >= HCA_MEMIC_START) {
		memic_bar_write(hca, offset, data, size);
	} else if (offset >= SEG_SIZE) {
		uar_write(hca, offset, data, size);
	} else if (offset % 4 == 0 && size % 4 == 0) {
		for (size_t i = 0; i < size; i += 4)
			segment_write(hca, offset + i, be32_at((const u8 *)data + i));
	}
}
