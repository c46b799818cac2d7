/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Buffers of /dev/dmabuf_test, the kernel's test exporter: its operations fail, wait or
 * move memory as a case asks (see drivers/dma-buf/test-exporter.h).
 */
#ifndef LIB_TEST_EXPORTER_H
#define LIB_TEST_EXPORTER_H

#include "lib/memory.h"
#include "test-exporter.h"

enum usage { KERNEL, WRITE, READ, BOOKKEEP };	/* enum dma_resv_usage */

int test_exporter_ioctl(unsigned long cmd, void *arg);
int test_exporter_create(size_t size, uint32_t flags);
void test_exporter_open(struct memory *m, size_t size, uint32_t flags);

/* From now on OP takes DELAY_MS, and then fails with ERROR unless that is 0. */
void behave(int fd, enum dmabuf_test_op op, int error, int delay_ms);
void add_fence(int fd, enum usage usage, int delay_ms);
void signal_fences(int fd);
/* Move the buffer: 0 or an errno. */
int move(int fd, int delay_ms);
void take_memory(int fd);
struct dmabuf_test_query query(int fd);
/*
 * Map a dma-buf of any exporter for DMA, with DMABUF_TEST_REVOCABLE or 0, until the fd that
 * this returns is closed; -1 and errno.
 */
int import_for_dma(int fd, uint32_t flags);
/*
 * Whether importers hold what so many registrations for the CPU and imports for DMA need;
 * prints what they hold if it is something else.
 */
bool held(int fd, int regions, int imports);
bool at_rest(int fd);

#endif
