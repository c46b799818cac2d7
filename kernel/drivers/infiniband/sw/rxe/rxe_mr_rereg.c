// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Re-registration of user MRs
 *
 * As long as packets can look up an MR, its memory, range, rights and PD do not
 * change.  A rereg makes another MR with the same keys and puts it into the
 * pool in place of the old one.  So a packet sees the old MR or the new one,
 * never a mix, and takes no lock for it.
 *
 * The core then destroys the old MR.  This waits for the packets that have
 * looked it up, so no packet touches the old memory after the call.
 *
 * Everything that can fail is done before the MR is replaced.
 */

#include "rxe.h"
#include "rxe_loc.h"

/**
 * rxe_mr_replace - replace an MR by another one with the same keys
 * @old: user MR; the caller excludes other verbs on it
 * @pd: protection domain of the new MR
 * @access: access flags of the new MR
 * @mem: memory of the new MR, which takes over the caller's reference
 * @iova: address of the first byte of the new MR
 * @length: length of the new MR in bytes
 *
 * Context: process context, may sleep.
 *
 * Return: the new MR. @old can no longer be looked up, and the core destroys
 * it. Or an ERR_PTR with nothing changed:
 * -ENOMEM: out of memory
 * -EINVAL: memory windows are bound to @old
 */
struct ib_mr *rxe_mr_replace(struct rxe_mr *old, struct ib_pd *pd, int access,
			     struct rxe_mr_mem *mem, u64 iova, u64 length)
{
	struct rxe_mr *mr;

	mr = kzalloc_obj(*mr);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	if (!rxe_mr_close(old)) {
		rxe_dbg_mr(old, "mr has mw's bound\n");
		kfree(mr);
		return ERR_PTR(-EINVAL);
	}

	/* The same as for a registration, but with the old keys. */
	rxe_mr_init_mem(access, mem, mr);
	mr->ibmr.pd = pd;
	mr->ibmr.device = pd->device;
	mr->ibmr.iova = iova;
	mr->ibmr.length = length;
	mr->ibmr.lkey = old->ibmr.lkey;
	mr->ibmr.rkey = old->ibmr.rkey;
	mr->lkey = old->lkey;
	mr->rkey = old->rkey;

	rxe_get(to_rpd(pd));
	rxe_replace(old, mr);

	return &mr->ibmr;
}

/**
 * rxe_mr_rereg_mem - get the memory of an MR for a rereg that keeps it
 * @mr: the MR; the caller excludes other verbs on it
 * @flags: enum ib_mr_rereg_flags, without IB_MR_REREG_TRANS
 * @access: access flags of the new MR
 *
 * Context: process context.
 *
 * Return: the memory, with a reference for the caller, or an ERR_PTR:
 * -EACCES: @access writes, and the memory was registered for reading only
 * -EOPNOTSUPP: @access is not possible with a dma-buf, or changes
 *	IB_ACCESS_ON_DEMAND, which only a rereg with new memory can
 * -ENODEV: the exporter has taken the dma-buf back
 * -EINVAL: @access is for persistent memory and this is not
 */
struct rxe_mr_mem *rxe_mr_rereg_mem(struct rxe_mr *mr, int flags, int access)
{
	int err;

	err = ib_umem_check_rereg(mr->mem->umem, flags, access);
	if (!err)
		err = rxe_mr_mem_check(mr->mem, access);
	if (err)
		return ERR_PTR(err);

	kref_get(&mr->mem->ref);
	return mr->mem;
}

/*
 * The op rereg_user_mr. New memory is memory of the calling process, pinned or on
 * demand as the access flags say.
 */
struct ib_mr *rxe_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
				u64 length, u64 iova, int access,
				struct ib_pd *pd, struct ib_udata *udata)
{
	struct rxe_mr *mr = to_rmr(ibmr);
	struct rxe_mr_mem *mem;
	struct ib_mr *new;

	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->access;

	if (access & ~RXE_ACCESS_SUPPORTED_MR) {
		rxe_dbg_mr(mr, "access = %#x not supported\n", access);
		return ERR_PTR(-EOPNOTSUPP);
	}

	if (flags & IB_MR_REREG_TRANS) {
		mem = rxe_mr_mem_get_user(ibmr->device, start, length, access);
	} else {
		mem = rxe_mr_rereg_mem(mr, flags, access);
		iova = ibmr->iova;
		length = ibmr->length;
	}
	if (IS_ERR(mem))
		return ERR_CAST(mem);

	new = rxe_mr_replace(mr, pd, access, mem, iova, length);
	if (IS_ERR(new))
		rxe_mr_mem_put(mem);

	return new;
}
