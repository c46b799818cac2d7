/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A queue's buffer in guest memory, given as a list of pages ("pas"), which a command
 * carried: a copy of the list, and reads and writes by offset.  Offsets are taken modulo
 * nothing: the caller's ring arithmetic keeps them inside, and an offset outside of the
 * list is -EFAULT.  The copy counts as memory of the guest's objects.
 */
#ifndef CONNECTX_QUEUE_H
#define CONNECTX_QUEUE_H

#include "cmd.h"
#include "dma.h"

struct queue_buf {
	uint64_t *page;		/* bus addresses */
	uint32_t pages, shift;	/* of 1 << shift bytes */
	uint32_t start;		/* byte of the first page at which the queue begins */
};

/*
 * The list is what follows the FIXED bytes of the command's input.  LOG_PAGE and
 * PAGE_OFFSET are fields of the command: pages of 4096 << LOG_PAGE bytes, and a start in
 * units of a 64th of a page.  BYTES: what the queue needs.  Refused if the list is shorter,
 * if its pages are not aligned, if an argument is out of range, or if memory runs out.
 */
enum cmd_status queue_buf_init(struct hca *hca, struct cmd *cmd, struct queue_buf *b,
			       size_t fixed, unsigned int log_page, unsigned int page_offset,
			       uint64_t bytes);
void queue_buf_free(struct hca *hca, struct queue_buf *b);
int queue_buf_read(const struct queue_buf *b, struct dma *d, uint64_t offset, void *to,
		   size_t len);
int queue_buf_write(const struct queue_buf *b, struct dma *d, uint64_t offset,
		    const void *from, size_t len);
/* The bus address of a byte, or -EFAULT in *ERR; good up to the end of its page. */
uint64_t queue_buf_addr(const struct queue_buf *b, uint64_t offset, int *err);

#endif
