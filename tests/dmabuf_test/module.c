// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * mrfd_dmabuf_test: /dev/dmabuf_test for the kernel without our patches
 *
 * Our kernels have the test exporter built in (kernel/drivers/dma-buf).  It needs nothing
 * else of ours, so on the stock kernel the same files are a module, and tests show there the
 * faults that our patches mend.  This file has what only a module needs.  The exporter has
 * no exit, so the module stays until the guest ends.
 */
#include <linux/module.h>

MODULE_DESCRIPTION("The exporter of dma-bufs for tests, as a module");
MODULE_IMPORT_NS("DMA_BUF");
MODULE_LICENSE("GPL");
