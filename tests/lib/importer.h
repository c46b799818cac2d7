/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The importer of dma-bufs of the kit (tests/importer), which imports as drivers in the tree do.
 * A program that uses it has "importer" in its guest.
 */
#ifndef LIB_IMPORTER_H
#define LIB_IMPORTER_H

#include <stddef.h>

/* One importer, which has one import at a time; close() ends both. */
int importer_open(void);
/* A command, see tests/importer/mrfd_importer.c: 0 or an errno. */
__attribute__((format(printf, 2, 3))) int importer_does(int importer, const char *fmt, ...);
/* Read SIZE bytes of what it has vmapped. */
void importer_read(int importer, void *to, size_t size);

#endif
