// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Re-registration with memory from a file descriptor: the uAPI
 *
 * A rereg gives an MR of whatever kind other memory, named by a file
 * descriptor, or another PD, or other access rights, in any combination.  It is
 * all or nothing: what can fail is done before the MR changes, and after an
 * error the MR is what it was.  The core takes the new memory; the op of the
 * driver is where the MR changes, and it cannot be undone.
 *
 * A driver may change the MR, or make another one, whose uobject then takes the
 * place, and the handle, of the old one.
 */

#include <rdma/ib_umem_fd.h>
#include <rdma/uverbs_std_types.h>
#include "rdma_core.h"
#include "uverbs.h"
#include "restrack.h"

/**
 * uverbs_replace_mr - put the MR that a rereg gave in the place of the old one
 * @uobj: uobject of the old MR, locked for writing; still to be put when this
 *	returns, and nothing else
 * @new_uobj: uobject from uobj_alloc(), which is committed here
 * @new_mr: what the driver gave
 * @pd: PD of the new MR
 * @access: its access flags
 * @attrs: the call
 *
 * The old MR is destroyed; should that fail, it is left until the context is
 * closed, as any object that cannot be destroyed.
 */
void uverbs_replace_mr(struct ib_uobject *uobj, struct ib_uobject *new_uobj,
		       struct ib_mr *new_mr, struct ib_pd *pd, int access,
		       struct uverbs_attr_bundle *attrs)
{
	new_mr->device = pd->device;
	new_mr->pd = pd;
	new_mr->type = IB_MR_TYPE_USER;
	new_mr->access_flags = access;
	new_mr->uobject = new_uobj;
	atomic_inc(&pd->usecnt);
	new_uobj->object = new_mr;

	rdma_restrack_new(&new_mr->res, RDMA_RESTRACK_MR);
	rdma_restrack_set_name(&new_mr->res, NULL);
	rdma_restrack_add(&new_mr->res);

	/* The new uobject gets the handle, the old one is destroyed. */
	rdma_assign_uobject(uobj, new_uobj, attrs);
	rdma_alloc_commit_uobject(new_uobj, attrs);
}

static void uverbs_change_mr(struct ib_mr *mr, u32 flags, struct ib_pd *pd,
			     const struct ib_umem_fd_attr *attr)
{
	if (flags & IB_MR_REREG_PD) {
		atomic_dec(&mr->pd->usecnt);
		atomic_inc(&pd->usecnt);
		mr->pd = pd;
	}
	if (flags & IB_MR_REREG_TRANS) {
		mr->iova = attr->iova;
		mr->length = attr->length;
	}
	mr->access_flags = attr->access;
}

/**
 * uverbs_rereg_mr_fd - reregister an MR with memory from a file descriptor
 * @uobj: uobject of the MR, locked for writing; still to be put when this
 *	returns, and nothing else, since the MR may be another one
 * @flags: enum ib_mr_rereg_flags, which of the other arguments count
 * @pd: the PD with IB_MR_REREG_PD, held by the caller for the time of the call
 * @attr: access with IB_MR_REREG_ACCESS, else it is filled in; all the other
 *	fields with IB_MR_REREG_TRANS; nothing of it checked
 * @keys: filled in on success
 * @attrs: the call, for the driver
 *
 * Context: process context of the user, may sleep.
 *
 * Return: 0, or an error with the MR as it was: -EINVAL for no or unknown
 * flags, for an MR of device memory and for access flags that are unknown or
 * make no sense, -EOPNOTSUPP if the device has no such op or not this access,
 * -ENOMEM, what ib_umem_get_fd() gives, or what the driver gives, -EINVAL if
 * memory windows are bound to the MR among it.
 */
int uverbs_rereg_mr_fd(struct ib_uobject *uobj, u32 flags, struct ib_pd *pd,
		       struct ib_umem_fd_attr *attr,
		       struct uverbs_mr_keys *keys,
		       struct uverbs_attr_bundle *attrs)
{
	struct ib_mr *mr = uobj->object, *new_mr;
	struct ib_uobject *new_uobj;
	struct ib_umem *umem = NULL;
	struct ib_device *device;
	int ret;

	if (!flags || flags & ~IB_MR_REREG_SUPPORTED || mr->dm)
		return -EINVAL;

	if (!mr->device->ops.rereg_user_mr_fd)
		return -EOPNOTSUPP;

	if (!(flags & IB_MR_REREG_PD))
		pd = mr->pd;

	if (flags & IB_MR_REREG_ACCESS) {
		ret = ib_check_mr_access(mr->device, attr->access);
		if (ret)
			return ret;
	} else {
		attr->access = mr->access_flags;
	}

	/* For a driver that makes another MR. */
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

	/* Once its uobject is committed the new MR may be gone at any time. */
	*keys = uverbs_mr_keys(new_mr ?: mr);

	if (new_mr) {
		uverbs_replace_mr(uobj, new_uobj, new_mr, pd, attr->access,
				  attrs);
	} else {
		uverbs_change_mr(mr, flags, pd, attr);
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

/* Is there an attribute for whatever the flags say? */
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

/* What the flags ask for; an attribute that they do not is not looked at. */
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

	/* If they cannot be written, let it be known while all is as it was. */
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
