// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A queue's buffer in guest memory (PRM, "pas": physical addresses of the pages; the
 * fields log_page_size and page_offset of the QP, CQ, EQ and WQ contexts).
 *
 * The invariant: there are as many pages as START + BYTES needs, each aligned to its size;
 * an offset beyond them is refused before it selects a page.
 */
#include "queue.h"
#include "hca.h"
#include "ifc.h"
#include <errno.h>

#define PAGE_SHIFT 12
#define SHIFT_MAX 31		/* START has 32 bits */

enum cmd_status queue_buf_init(struct hca *hca, struct cmd *cmd, struct queue_buf *b,
			       size_t fixed, unsigned int log_page, unsigned int page_offset,
			       uint64_t bytes)
{
	uint64_t end, need, size;
	const u8 *pas;
	size_t len;

	memset(b, 0, sizeof(*b));
	if (log_page > SHIFT_MAX - PAGE_SHIFT || page_offset > 63 || bytes > 1ull << 40)
		return REFUSE(cmd, CMD_BAD_PARAM, "pages of 4096 << %u, offset %u", log_page,
			      page_offset);
	b->shift = PAGE_SHIFT + log_page;
	b->start = page_offset << (b->shift - 6);
	size = 1ull << b->shift;
	end = b->start + bytes;
	need = (end + size - 1) >> b->shift;
	pas = cmd_tail(cmd, fixed, &len);
	if (need > len / 8)
		return REFUSE(cmd, CMD_BAD_PARAM, "%zu pages of 1 << %u, offset %u, for %llu bytes",
			      len / 8, b->shift, page_offset, (unsigned long long)bytes);
	for (uint64_t i = 0; i < need; i++)
		if (be64_at(pas + 8 * i) & (size - 1))
			return REFUSE(cmd, CMD_BAD_PARAM, "page %llu is not aligned",
				      (unsigned long long)i);

	b->page = hca_alloc(hca, need * sizeof(*b->page));
	if (!b->page)
		return REFUSE(cmd, CMD_NO_RESOURCES, "no memory for a list of pages");
	b->pages = need;
	for (uint64_t i = 0; i < need; i++)
		b->page[i] = be64_at(pas + 8 * i);
	return CMD_OK;
}

void queue_buf_free(struct hca *hca, struct queue_buf *b)
{
	hca_free_memory(hca, b->page, b->pages * sizeof(*b->page));
	memset(b, 0, sizeof(*b));
}

uint64_t queue_buf_addr(const struct queue_buf *b, uint64_t offset, int *err)
{
	uint64_t at = offset + b->start;

	if (at < offset || at >> b->shift >= b->pages) {
		*err = -EFAULT;
		return 0;
	}
	*err = 0;
	return b->page[at >> b->shift] + (at & ((1ull << b->shift) - 1));
}

/* What of LEN bytes at OFFSET lies in the same page. */
static size_t in_page(const struct queue_buf *b, uint64_t offset, size_t len)
{
	uint64_t page = 1ull << b->shift, left = page - ((offset + b->start) & (page - 1));

	return len < left ? len : left;
}

static int move(const struct queue_buf *b, struct dma *d, uint64_t offset, u8 *p, size_t len,
		bool write)
{
	while (len) {
		size_t n = in_page(b, offset, len);
		int err;
		uint64_t addr = queue_buf_addr(b, offset, &err);

		if (!err)
			err = write ? dma_write(d, addr, p, n) : dma_read(d, addr, p, n);
		if (err)
			return err;
		offset += n;
		p += n;
		len -= n;
	}
	return 0;
}

int queue_buf_read(const struct queue_buf *b, struct dma *d, uint64_t offset, void *to,
		   size_t len)
{
	return move(b, d, offset, to, len, false);
}

int queue_buf_write(const struct queue_buf *b, struct dma *d, uint64_t offset,
		    const void *from, size_t len)
{
	return move(b, d, offset, (u8 *)from, len, true);	/* which only reads from it */
}
