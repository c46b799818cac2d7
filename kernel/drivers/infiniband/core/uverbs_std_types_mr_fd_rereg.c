// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Re-registration with memory from a file descriptor: the uAPI
 *
 * A rereg gives an MR new memory from a file descriptor, another PD, other
 * access rights, or any combination of these.  The MR may have memory of any
 * kind but device memory.  Everything that can fail is done before the MR
 * changes, so after an error the MR is unchanged.  The core takes the new
 * memory; the driver's op changes the MR, and this cannot be undone.
 *
 * A driver may change the MR in place, or make another MR.  The uobject of the
 * other MR then takes over the handle, and the old MR is destroyed.
 */

#include <rdma/ib_umem_fd.h>
#include <rdma/uverbs_std_types.h>
#include "rdma_core.h"
#include "uverbs.h"

/**
 * uverbs_replace_mr - end a rereg for which the driver has made another MR
 * @uobj: uobject of the old MR, locked for writing; the caller may only put it
 *	after this
 * @new_uobj: uobject from uobj_alloc(); it is committed
 * @new_mr: the MR that the driver has made
 * @pd: PD of @new_mr, held by the caller
 * @access: access flags of @new_mr
 * @attrs: the call
 *
 * @new_uobj gets the handle of @uobj, and the old MR is destroyed. If that
 * fails, the old MR stays until the context is closed, like any object that
 * cannot be destroyed. Another thread can destroy @new_mr at any time after
 * this.
 *
 * Context: process context, may sleep.
 */
void uverbs_replace_mr(struct ib_uobject *uobj, struct ib_uobject *new_uobj,
		       struct ib_mr *new_mr, struct ib_pd *pd, int access,
		       struct uverbs_attr_bundle *attrs)
{
	uverbs_init_user_mr(new_mr, new_uobj, pd, access);
	rdma_assign_uobject(uobj, new_uobj, attrs);
	rdma_alloc_commit_uobject(new_uobj, attrs);
}

/**
 * uverbs_change_mr - end a rereg in which the driver has changed the MR
 * @mr: the MR; its uobject is locked for writing
 * @flags: enum ib_mr_rereg_flags, what has changed
 * @old_pd: PD before the rereg; a driver may have set @mr->pd already
 * @pd: PD after the rereg, held by the caller
 * @iova: new iova, with IB_MR_REREG_TRANS
 * @length: new length, with IB_MR_REREG_TRANS
 * @access: access flags after the rereg
 *
 * Context: any.
 */
void uverbs_change_mr(struct ib_mr *mr, u32 flags, struct ib_pd *old_pd,
		      struct ib_pd *pd, u64 iova, u64 length, int access)
{
	if (pd != old_pd) {
		atomic_inc(&pd->usecnt);
		atomic_dec(&old_pd->usecnt);
		mr->pd = pd;
	}
	if (flags & IB_MR_REREG_TRANS) {
		mr->iova = iova;
		mr->length = length;
	}
	mr->access_flags = access;
}

/**
 * uverbs_rereg_mr_fd - reregister an MR with memory from a file descriptor
 * @uobj: uobject of the MR, locked for writing; the caller may only put it
 *	after this, because another uobject may have the MR
 * @flags: enum ib_mr_rereg_flags, which of the other arguments count
 * @pd: new PD, with IB_MR_REREG_PD; held by the caller during the call
 * @attr: the user's request, not checked yet: access with IB_MR_REREG_ACCESS
 *	(without it, access is set here), all other fields with
 *	IB_MR_REREG_TRANS
 * @keys: set to the keys of the MR on success
 * @attrs: the call, for the driver
 *
 * Context: process context of the user, may sleep. Takes and releases the
 * reservation lock of a dma-buf.
 *
 * Return: 0, or an error with the MR unchanged:
 * -EINVAL: @flags is 0 or has unknown bits, the MR has device memory, the access
 *	flags are unknown or contradict each other; from the driver: memory
 *	windows are bound to the MR
 * -EOPNOTSUPP: the device has no rereg_user_mr_fd, or does not support the
 *	access flags
 * -ENOMEM: out of memory
 * or another error of ib_umem_get_fd() or of the driver.
 */
int uverbs_rereg_mr_fd(struct ib_uobject *uobj, u32 flags, struct ib_pd *pd,
		       struct ib_umem_fd_attr *attr,
		       struct uverbs_mr_keys *keys,
		       struct uverbs_attr_bundle *attrs)
{
	struct ib_mr *mr = uobj->object, *new_mr;
	struct ib_uobject *new_uobj;
	struct ib_pd *old_pd = mr->pd;
	struct ib_umem *umem = NULL;
	struct ib_device *device;
	int ret;

	if (!flags || flags & ~IB_MR_REREG_SUPPORTED || mr->dm)
		return -EINVAL;

	if (!mr->device->ops.rereg_user_mr_fd)
		return -EOPNOTSUPP;

	if (!(flags & IB_MR_REREG_PD))
		pd = old_pd;

	if (flags & IB_MR_REREG_ACCESS) {
		ret = ib_check_mr_access(mr->device, attr->access);
		if (ret)
			return ret;
	} else {
		attr->access = mr->access_flags;
	}

	/* The driver may make another MR, which needs a uobject. */
	new_uobj = uobj_alloc(UVERBS_OBJECT_MR, attrs, &device);
	if (IS_ERR(new_uobj))
		return PTR_ERR(new_uobj);

	if (flags & IB_MR_REREG_TRANS) {
		umem = ib_umem_get_fd(device, attr);
		if (IS_ERR(umem)) {
			ret = PTR_ERR(umem);
			goto err_abort;
		}
	}

	new_mr = device->ops.rereg_user_mr_fd(mr, flags, umem, attr->iova,
					      attr->access, pd, attrs);
	if (IS_ERR(new_mr)) {
		ret = PTR_ERR(new_mr);
		goto err_release;
	}

	/* Another thread can destroy the new MR once its uobject is committed. */
	*keys = uverbs_mr_keys(new_mr ?: mr);

	if (new_mr) {
		uverbs_replace_mr(uobj, new_uobj, new_mr, pd, attr->access,
				  attrs);
	} else {
		uverbs_change_mr(mr, flags, old_pd, pd, attr->iova,
				 attr->length, attr->access);
		uobj_alloc_abort(new_uobj, attrs);
	}
	return 0;

err_release:
	ib_umem_release(umem);
err_abort:
	uobj_alloc_abort(new_uobj, attrs);
	return ret;
}

static int uverbs_rereg_get_memory(struct ib_umem_fd_attr *attr,
				   struct uverbs_attr_bundle *attrs)
{
	int ret;

	ret = uverbs_get_const_unsigned(&attr->fd_type, attrs,
					UVERBS_ATTR_REREG_MR_FD_TYPE);
	if (ret)
		return ret;

	ret = uverbs_get_raw_fd(&attr->fd, attrs, UVERBS_ATTR_REREG_MR_FD_FD);
	if (ret)
		return ret;

	ret = uverbs_copy_from(&attr->offset, attrs,
			       UVERBS_ATTR_REREG_MR_FD_OFFSET);
	if (ret)
		return ret;

	ret = uverbs_copy_from(&attr->length, attrs,
			       UVERBS_ATTR_REREG_MR_FD_LENGTH);
	if (ret)
		return ret;

	return uverbs_copy_from(&attr->iova, attrs,
				UVERBS_ATTR_REREG_MR_FD_IOVA);
}

/* Are all attributes there that the flags need? */
static bool uverbs_rereg_complete(u32 flags, struct uverbs_attr_bundle *attrs)
{
	static const struct {
		u16 attr;
		u32 flag;
	} needed[] = {
		{ UVERBS_ATTR_REREG_MR_FD_TYPE, IB_MR_REREG_TRANS },
		{ UVERBS_ATTR_REREG_MR_FD_FD, IB_MR_REREG_TRANS },
		{ UVERBS_ATTR_REREG_MR_FD_OFFSET, IB_MR_REREG_TRANS },
		{ UVERBS_ATTR_REREG_MR_FD_LENGTH, IB_MR_REREG_TRANS },
		{ UVERBS_ATTR_REREG_MR_FD_IOVA, IB_MR_REREG_TRANS },
		{ UVERBS_ATTR_REREG_MR_FD_PD_HANDLE, IB_MR_REREG_PD },
		{ UVERBS_ATTR_REREG_MR_FD_ACCESS_FLAGS, IB_MR_REREG_ACCESS },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(needed); i++)
		if (flags & needed[i].flag &&
		    !uverbs_attr_is_valid(attrs, needed[i].attr))
			return false;
	return true;
}

/* Read the attributes that the flags need, and ignore the others. */
static int uverbs_rereg_get_attrs(u32 flags, struct ib_pd **pd,
				  struct ib_umem_fd_attr *attr,
				  struct uverbs_attr_bundle *attrs)
{
	int ret;

	if (!uverbs_rereg_complete(flags, attrs))
		return -EINVAL;

	if (flags & IB_MR_REREG_TRANS) {
		ret = uverbs_rereg_get_memory(attr, attrs);
		if (ret)
			return ret;
	}

	if (flags & IB_MR_REREG_PD)
		*pd = uverbs_attr_get_obj(attrs,
					  UVERBS_ATTR_REREG_MR_FD_PD_HANDLE);

	if (flags & IB_MR_REREG_ACCESS)
		return uverbs_get_flags32(&attr->access, attrs,
					  UVERBS_ATTR_REREG_MR_FD_ACCESS_FLAGS,
					  IB_ACCESS_SUPPORTED);
	return 0;
}

static int uverbs_rereg_put_keys(struct uverbs_mr_keys keys,
				 struct uverbs_attr_bundle *attrs)
{
	int ret;

	ret = uverbs_copy_to(attrs, UVERBS_ATTR_REREG_MR_FD_RESP_LKEY,
			     &keys.lkey, sizeof(keys.lkey));
	if (ret)
		return ret;

	return uverbs_copy_to(attrs, UVERBS_ATTR_REREG_MR_FD_RESP_RKEY,
			      &keys.rkey, sizeof(keys.rkey));
}

static int UVERBS_HANDLER(UVERBS_METHOD_REREG_MR_FD)(
	struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobj =
		uverbs_attr_get_uobject(attrs, UVERBS_ATTR_REREG_MR_FD_HANDLE);
	struct uverbs_mr_keys old = uverbs_mr_keys(uobj->object), keys;
	struct ib_umem_fd_attr attr = {};
	struct ib_pd *pd = NULL;
	u32 flags;
	int ret;

	ret = uverbs_get_flags32(&flags, attrs, UVERBS_ATTR_REREG_MR_FD_FLAGS,
				 IB_MR_REREG_SUPPORTED);
	if (ret)
		return ret;

	ret = uverbs_rereg_get_attrs(flags, &pd, &attr, attrs);
	if (ret)
		return ret;

	/* Write the keys first, so that a fault leaves the MR unchanged. */
	ret = uverbs_rereg_put_keys(old, attrs);
	if (ret)
		return ret;

	ret = uverbs_rereg_mr_fd(uobj, flags, pd, &attr, &keys, attrs);
	if (ret || uverbs_mr_keys_equal(keys, old))
		return ret;

	return uverbs_rereg_put_keys(keys, attrs);
}

DECLARE_UVERBS_NAMED_METHOD(
	UVERBS_METHOD_REREG_MR_FD,
	UVERBS_ATTR_IDR(UVERBS_ATTR_REREG_MR_FD_HANDLE,
			UVERBS_OBJECT_MR,
			UVERBS_ACCESS_WRITE,
			UA_MANDATORY),
	UVERBS_ATTR_FLAGS_IN(UVERBS_ATTR_REREG_MR_FD_FLAGS,
			     enum ib_mr_rereg_flags,
			     UA_MANDATORY),
	UVERBS_ATTR_IDR(UVERBS_ATTR_REREG_MR_FD_PD_HANDLE,
			UVERBS_OBJECT_PD,
			UVERBS_ACCESS_READ,
			UA_OPTIONAL),
	UVERBS_ATTR_CONST_IN(UVERBS_ATTR_REREG_MR_FD_TYPE,
			     enum ib_uverbs_mr_fd_type,
			     UA_OPTIONAL),
	UVERBS_ATTR_RAW_FD(UVERBS_ATTR_REREG_MR_FD_FD,
			   UA_OPTIONAL),
	UVERBS_ATTR_PTR_IN(UVERBS_ATTR_REREG_MR_FD_OFFSET,
			   UVERBS_ATTR_TYPE(u64),
			   UA_OPTIONAL),
	UVERBS_ATTR_PTR_IN(UVERBS_ATTR_REREG_MR_FD_LENGTH,
			   UVERBS_ATTR_TYPE(u64),
			   UA_OPTIONAL),
	UVERBS_ATTR_PTR_IN(UVERBS_ATTR_REREG_MR_FD_IOVA,
			   UVERBS_ATTR_TYPE(u64),
			   UA_OPTIONAL),
	UVERBS_ATTR_FLAGS_IN(UVERBS_ATTR_REREG_MR_FD_ACCESS_FLAGS,
			     enum ib_access_flags,
			     UA_OPTIONAL),
	UVERBS_ATTR_PTR_OUT(UVERBS_ATTR_REREG_MR_FD_RESP_LKEY,
			    UVERBS_ATTR_TYPE(u32),
			    UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(UVERBS_ATTR_REREG_MR_FD_RESP_RKEY,
			    UVERBS_ATTR_TYPE(u32),
			    UA_MANDATORY));

ADD_UVERBS_METHODS(uverbs_mr_fd_rereg, UVERBS_OBJECT_MR,
		   &UVERBS_METHOD(UVERBS_METHOD_REREG_MR_FD));

const struct uapi_definition uverbs_def_obj_mr_fd_rereg[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_MR, &uverbs_mr_fd_rereg),
	{}
};
