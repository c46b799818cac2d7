/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DEMO_REGISTER_H
#define DEMO_REGISTER_H

#include <infiniband/verbs.h>
#include <stddef.h>

/*
 * Register BYTES of the buffer of this PRIME fd, and close the fd: the region holds its own
 * reference to the buffer.  NULL after a message on stderr, also if FD is -1.
 */
struct ibv_mr *register_pixels(struct ibv_pd *pd, int fd, size_t bytes);

#endif
