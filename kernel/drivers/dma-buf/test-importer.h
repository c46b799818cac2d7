/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared by test-exporter.c and test-importer.c */

#ifndef DMABUF_TEST_IMPORTER_H
#define DMABUF_TEST_IMPORTER_H

struct device;
struct dmabuf_test_import;

int dmabuf_test_import(struct device *dev,
		       const struct dmabuf_test_import *import);

#endif
