/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DEMO_REGISTER_H
#define DEMO_REGISTER_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

/* A way to register BYTES of a dma-buf from its first one on; NULL and errno on failure. */
typedef struct ibv_mr *register_way(struct ibv_pd *pd, size_t bytes, uint64_t iova, int fd,
				    int access);

register_way register_usual; /* register.c: by any device */
register_way register_by_data_direct; /* direct.c: by the second function of a ConnectX */

/*
 * Register BYTES of the buffer of this PRIME fd, and close the fd: the region holds its own
 * reference to the buffer.  NULL after a message on stderr, also if FD is -1.
 */
struct ibv_mr *register_pixels(struct ibv_pd *pd, int fd, size_t bytes, register_way *way);

#endif
