// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Re-registration with memory of any type: rxe's part
 *
 * As for memory by address, the MR is replaced by another one with the same keys,
 * see rxe_mr_rereg.c.  Everything that can fail is done before that, so rxe never
 * has to revoke an MR.
 */

#include <rdma/ib_umem_fd.h>

#include "rxe.h"
#include "rxe_loc.h"

/**
 * rxe_rereg_user_mr_fd - the op rereg_user_mr_fd
 * @ibmr: a user MR with any kind of memory; the caller excludes other verbs on it
 * @flags: enum ib_mr_rereg_flags
 * @buffer: what the new MR has: iova, length and access, and with
 *	IB_MR_REREG_TRANS the new memory, lent by the core
 * @pd: protection domain of the new MR
 * @attrs: not used
 *
 * Context: process context, may sleep. Takes and releases the reservation lock of
 * a dma-buf.
 *
 * Return: the MR that replaces @ibmr, or an ERR_PTR with the causes that
 * rxe_reg_user_mr_fd(), rxe_mr_rereg_mem() and rxe_mr_replace() list.
 */
struct ib_mr *rxe_rereg_user_mr_fd(struct ib_mr *ibmr, int flags,
				   const struct ib_mr_buffer *buffer,
				   struct ib_pd *pd,
				   struct uverbs_attr_bundle *attrs)
{
	struct rxe_mr *mr = to_rmr(ibmr);
	struct rxe_mr_mem *mem;
	struct ib_mr *new;

	if (buffer->access & ~RXE_ACCESS_SUPPORTED_MR)
		return ERR_PTR(-EOPNOTSUPP);

	if (flags & IB_MR_REREG_TRANS)
		mem = rxe_mr_mem_get_buffer(ibmr->device, buffer);
	else
		mem = rxe_mr_rereg_mem(mr, flags, buffer->access);
	if (IS_ERR(mem))
		return ERR_CAST(mem);

	new = rxe_mr_replace(mr, pd, buffer->access, mem, buffer->iova,
			     buffer->length);
	if (IS_ERR(new))
		rxe_mr_mem_put(mem);

	return new;
}
