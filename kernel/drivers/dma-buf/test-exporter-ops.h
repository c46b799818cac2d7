/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared by test-exporter.c and test-exporter-ops.c */

#ifndef DMABUF_TEST_EXPORTER_OPS_H
#define DMABUF_TEST_EXPORTER_OPS_H

#include <linux/dma-buf.h>
#include <linux/mm.h>

#include "test-exporter.h"

/**
 * struct test_buffer - the exporter's data of a dma-buf
 * @size: in bytes
 * @flags: enum dmabuf_test_flags
 * @revoked: importers can no longer get the memory
 * @moving: fence of a move, until its old pages are cleaned up; until it
 *	    signals, @pages do not have the right bytes
 * @pages: the memory; NULL after a revoke has freed it
 * @vaddr: address of the vmap
 * @left: pages that the vmap still shows after a move; they are poisoned
 * @behave: what the ops do, see struct dmabuf_test_behave
 * @count: what importers hold
 *
 * @size and @flags are constant. @behave is accessed without a lock, by
 * READ_ONCE() and WRITE_ONCE(). The reservation lock protects the rest.
 */
struct test_buffer {
	size_t size;
	u32 flags;
	bool revoked;
	struct test_fence *moving;
	struct page **pages;
	void *vaddr;
	struct page **left;
	struct {
		u32 error;
		u32 delay_ms;
	} behave[DMABUF_TEST_OPS];
	struct dmabuf_test_query count;
};

static inline unsigned int dmabuf_test_npages(const struct test_buffer *buf)
{
	return buf->size >> PAGE_SHIFT;
}

extern const struct dma_buf_ops dmabuf_test_ops;
extern const struct dma_buf_ops dmabuf_test_ops_without_vmap;

struct page **dmabuf_test_alloc_pages(unsigned int n);
void dmabuf_test_leave_pages(struct test_buffer *buf, struct page **pages);
void dmabuf_test_poison(struct page **pages, unsigned int n);
void dmabuf_test_free_pages(struct page **pages, unsigned int n);
bool dmabuf_test_held(const struct test_buffer *buf);
void dmabuf_test_let_go(struct test_buffer *buf);

#endif
