/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The device's own memory, MEMIC: bytes and operations behind BAR 0. */
#ifndef CONNECTX_MEMIC_H
#define CONNECTX_MEMIC_H

#include "cmd.h"

#define HCA_MEMIC_START (16ul << 20)	/* in the BAR */
#define HCA_MEMIC_SIZE (256ul << 10)
#define HCA_LOG_MEMIC_BLOCK 6		/* it is allocated in blocks */
#define HCA_LOG_MEMIC_ALIGN 6		/* of 64 bytes, at most */
enum { HCA_MEMIC_INCREMENT = 0, HCA_MEMIC_TEST_AND_SET = 1, HCA_MEMIC_OPS = 2 };

extern const struct cmd_op memic_ops[];

/* hca->memic and hca->memic_state; NULL: no memory. */
void memic_init(struct hca *hca);
void memic_reset(struct hca *hca);
/* The BAR beyond HCA_MEMIC_START: data and operations (fetch and add, ...). */
void memic_bar_read(struct hca *hca, uint64_t offset, void *data, size_t size);
void memic_bar_write(struct hca *hca, uint64_t offset, const void *data, size_t size);
/* MEMIC at this BAR offset, if all of it is allocated; else NULL. */
u8 *memic_at(struct hca *hca, uint64_t offset, size_t len);

#endif
