// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a device can do with the memory of a file descriptor.
 *
 * A kernel that registers such memory itself says it. For other kernels and
 * providers the answer is what mr_fd_fallback.c can do there.
 */

#include <infiniband/cmd_write.h>
#include "ibverbs.h"

static_assert((int)IBV_MR_FD_CAP_REG == (int)IB_UVERBS_BUFFER_CAP_REG &&
	      (int)IBV_MR_FD_CAP_REREG == (int)IB_UVERBS_BUFFER_CAP_REREG &&
	      (int)IBV_MR_FD_CAP_CPU == (int)IB_UVERBS_BUFFER_CAP_CPU &&
	      (int)IBV_MR_FD_CAP_PINNED == (int)IB_UVERBS_BUFFER_CAP_PINNED &&
	      (int)IBV_MR_FD_CAP_DYNAMIC == (int)IB_UVERBS_BUFFER_CAP_DYNAMIC &&
	      (int)IBV_MR_FD_CAP_P2P == (int)IB_UVERBS_BUFFER_CAP_P2P,
	      "The kernel's bits are passed on as they are");

static int native_caps(struct ibv_context *context, enum ibv_mr_fd_type fd_type,
		       uint32_t *caps)
{
	uint32_t kernel_caps;
	int err;

	err = mr_fd_query_kernel(context, fd_type, &kernel_caps);
	if (err)
		return err;

	/* A provider may lack what its device can do */
	if (get_ops(context)->rereg_mr_fd == verbs_dummy_ops.rereg_mr_fd)
		kernel_caps &= ~IBV_MR_FD_CAP_REREG;
	*caps = kernel_caps;
	return 0;
}

/* The support of dma-bufs can only be tried out, for which a PD is needed */
static int try_dmabuf(struct ibv_context *context, uint32_t *caps)
{
	struct ibv_pd *pd;
	int err;

	pd = ibv_alloc_pd(context);
	if (!pd)
		return errno;

	err = mr_fd_dmabuf_support(pd);
	ibv_dealloc_pd(pd);
	if (err && err != EOPNOTSUPP)
		return err;

	*caps = err ? 0 : IBV_MR_FD_CAP_REG;
	return 0;
}

int ibv_query_mr_fd_caps(struct ibv_context *context,
			 enum ibv_mr_fd_type fd_type, uint32_t *caps)
{
	if (mr_fd_is_native(context))
		return native_caps(context, fd_type, caps);

	switch (fd_type) {
	case IBV_MR_FD_TYPE_DMABUF:
		return try_dmabuf(context, caps);
	case IBV_MR_FD_TYPE_MEMFD:
		*caps = IBV_MR_FD_CAP_REG | IBV_MR_FD_CAP_PINNED;
		return 0;
	}

	return EINVAL;
}
