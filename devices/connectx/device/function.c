// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The PCI function (PCI Local Bus 3.0, 6.2.2; PCI Power Management 1.2, 5.4; PCI Express
 * Base 3.0, 6.6.2).  Three things stand between QEMU and the device:
 *
 *	Bus Master Enable	without it the device reaches no memory, and interrupts wait
 *	Memory Space Enable	without it a BAR reads as ones, and a write is lost
 *	D3			is as if both were off; what the device knows stays
 *
 * A card that has left its slot (function_leave()) answers nothing: all reads are ones.
 *
 * Work that is under way when the bus is taken away ends as if its memory were not mapped:
 * a queue that cannot be read or written is in error, a packet that comes in is refused.
 * Nothing waits for the bus, so nothing hangs; a driver that does this resets the device.
 *
 * A reset may come in the middle of an access, while QEMU is asked for memory (dma.h).
 * It takes the device off the bus at once, and so the access reaches nothing more; the
 * objects, which the access uses, go in the next turn.
 */
#include "function.h"
#include "bar.h"
#include "dma.h"
#include "hca.h"
#include "late.h"
#include "life.h"
#include "list.h"
#include "vfio_user.h"

/* The configuration space may have changed. */
static void look_at_bus(struct function *f)
{
	bool off = f->left || !pci_masters(&f->pci);

	if (off)
		late_flush(f->dma->late);	/* it was under way */
	f->dma->off = off;
	if (f->vfu)
		vfu_hold(f->vfu, f->dma->off);
}

/* A function without registers resets nothing but itself: the objects are the card's. */
static void reset_later(struct work *w)
{
	hca_reset(list_item(w, struct function, reset)->hca);
}

/* A function level reset by the guest; the configuration space is as new by then. */
static void level_reset(void *arg)
{
	struct function *f = arg;

	if (f->vfu)
		vfu_lower_all(f->vfu);
	if (!f->hca)
		return;
	if (dma_asking(f->dma))
		loop_work(f->hca->loop, &f->reset);
	else
		hca_reset(f->hca);
}

void function_reset(struct function *f)
{
	pci_reset(&f->pci);
	level_reset(f);
	look_at_bus(f);
}

void function_init(struct function *f)
{
	work_init(&f->reset, reset_later);
	pci_init(&f->pci, f->vpd, level_reset, f);
	look_at_bus(f);
}

void function_leave(struct function *f)
{
	f->left = true;
	level_reset(f);
	look_at_bus(f);
}

void function_plug(struct function *f, struct vfu *vfu)
{
	f->vfu = vfu;
	f->left = false;
	function_reset(f);
}

void function_raise(void *arg, unsigned int vector)
{
	struct function *f = arg;

	if (f->vfu)
		vfu_raise(f->vfu, vector);
}

static void bar_read(struct function *f, uint64_t offset, void *data, size_t size)
{
	uint64_t pending;

	if (!f->hca || !pci_decodes(&f->pci)) {
		memset(data, 0xff, size);
	} else if (offset >> 3 == BAR_MSIX_PBA >> 3) {
		pending = f->vfu ? htole64(vfu_pending(f->vfu)) : 0;
		memcpy(data, (uint8_t *)&pending + (offset & 7), size);
	} else {
		hca_bar_read(f->hca, offset, data, size);
	}
}

void function_read(struct function *f, unsigned int region, uint64_t offset, void *data,
		   size_t size)
{
	if (f->left)
		memset(data, 0xff, size);
	else if (region == VFU_CONFIG)
		pci_read(&f->pci, offset, data, size);
	else
		bar_read(f, offset, data, size);
}

void function_write(struct function *f, unsigned int region, uint64_t offset, const void *data,
		    size_t size)
{
	if (f->left)
		return;
	if (region == VFU_CONFIG) {
		pci_write(&f->pci, offset, data, size);
		look_at_bus(f);
	} else if (f->hca && pci_decodes(&f->pci)) {
		hca_bar_write(f->hca, offset, data, size);
	}
}
