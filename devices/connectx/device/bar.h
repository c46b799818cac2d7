/* SPDX-License-Identifier: GPL-2.0-or-later */
/* BAR 0: the init segment, doorbells and device memory, as the guest loads and stores. */
#ifndef CONNECTX_BAR_H
#define CONNECTX_BAR_H

#include "loop.h"
#include <stddef.h>
#include <stdint.h>

struct hca;

/* Stores to the init segment that wait until nothing is under way. */
#define BAR_LATER 16
struct bar {
	struct hca *hca;
	struct work work;
	unsigned int count;
	struct bar_store {
		uint32_t offset, value;
	} later[BAR_LATER];
};

/* hca->bar; NULL: no memory. */
void bar_init(struct hca *hca);
/* Forget the stores that wait. */
void bar_reset(struct hca *hca);
/* BAR 0, by size 1, 2, 4 or 8; bytes as on the bus. */
void hca_bar_read(struct hca *hca, uint64_t offset, void *data, size_t size);
void hca_bar_write(struct hca *hca, uint64_t offset, const void *data, size_t size);

#endif
