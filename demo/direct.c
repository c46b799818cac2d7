// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Register memory so that the card reaches it by Data Direct
 *
 * Data Direct is a second PCI function of a ConnectX, whose DMA takes a way of its own
 * through the host.  It is a wish of one MR: what else the card does goes by the first
 * function.  libmlx5 has the call, which no other device knows.
 *
 * The two functions are not ordered: a completion, which goes by the first one, may be there
 * before the data.  A read of the same MR comes behind the data.  So the peer needs the right
 * to read, and the offer says "flush" (protocol.h).
 */
#include <infiniband/mlx5dv.h>

#include "register.h"

struct ibv_mr *register_by_data_direct(struct ibv_pd *pd, size_t bytes, uint64_t iova, int fd,
				       int access)
{
	return mlx5dv_reg_mr_fd(pd, 0, bytes, iova, IBV_MR_FD_TYPE_DMABUF, fd,
				access | IBV_ACCESS_REMOTE_READ,
				MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT);
}
