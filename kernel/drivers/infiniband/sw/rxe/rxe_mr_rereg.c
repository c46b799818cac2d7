// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Re-registration of user MRs
 *
 * What a packet needs to know of an MR, its memory, range, rights and PD, does
 * not change while the MR can be found.  A rereg makes another MR with the same
 * keys and puts it in the place of the old one in the pool.  So a packet sees
 * the old MR or the new one, never a mix, and packets take no lock for it.
 *
 * The core then destroys the old MR.  That waits until the packets that found
 * it are done, so when the call returns nobody touches the old memory any more.
 *
 * Everything that can fail is done before the MR is replaced.
 */

#include "rxe.h"
#include "rxe_loc.h"

/**
 * rxe_mr_replace - put an MR that differs in the place of another
 * @old: user MR; the caller keeps other verbs on it away
 * @pd: protection domain of the new MR
 * @access: its access flags
 * @mem: its memory; the new MR gets the reference of the caller
 * @iova: its first address
 * @length: bytes
 *
 * Return: the new MR, which has the keys of @old, while @old can no longer be
 * found and is to be destroyed; or an ERR_PTR and nothing changed: -ENOMEM, or
 * -EINVAL if memory windows are bound to @old.
 */
struct ib_mr *rxe_mr_replace(struct rxe_mr *old, struct ib_pd *pd, int access,
			     struct rxe_mr_mem *mem, u64 iova, u64 length)
{
	struct rxe_mr *mr;

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);

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

	if (!rxe_mr_close(old)) {
		rxe_dbg_mr(old, "mr has mw's bound\n");
		kfree(mr);
		return ERR_PTR(-EINVAL);
	}

	rxe_get(to_rpd(pd));
	rxe_replace(old, mr);

	return &mr->ibmr;
}

/**
 * rxe_mr_rereg_mem - the memory of an MR whose memory stays
 * @mr: the MR
 * @flags: enum ib_mr_rereg_flags, without IB_MR_REREG_TRANS
 * @access: access flags that it is to have
 *
 * Return: the memory with a reference, or an ERR_PTR if it is not for this
 * access: -EACCES if it was pinned for reading only, -EOPNOTSUPP, or -EINVAL if
 * it is not persistent.
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

/* The op rereg_user_mr: the new memory, if any, is of the calling process. */
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
