// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions from file descriptors: re-registration
 *
 * A rereg gives an MR new memory of any kind, another PD, other access rights,
 * or any combination of these.  The MR may have memory of any kind but device
 * memory.  The core checks the request and looks the fd up before it calls the
 * driver, so a mistake of the user leaves the MR unchanged.
 *
 * A driver may change the MR in place, or make another MR, which then gets the
 * handle of the old one.  If it fails, the MR is unchanged.  There is one
 * exception: a driver that cannot know whether the new memory works until it has
 * revoked the keys sets ib_mr.revoked before it fails.  The user then gets
 * -ENOTRECOVERABLE, and can only destroy the MR.
 */

#include <rdma/ib_umem_fd.h>
#include <rdma/uverbs_std_types.h>
#include "rdma_core.h"
#include "uverbs.h"

/* Call the op, and end the rereg with what it has done. */
static int uverbs_rereg_by_op(struct ib_uobject *uobj, u32 flags,
			      struct ib_pd *pd,
			      const struct ib_mr_buffer *buffer,
			      struct uverbs_attr_bundle *attrs)
{
	struct ib_mr *mr = uobj->object, *new_mr;
	struct ib_uobject *new_uobj;
	struct ib_pd *old_pd = mr->pd;
	struct ib_device *device;

	/* For the old MR, if the driver makes another one. */
	new_uobj = uobj_alloc(UVERBS_OBJECT_MR, attrs, &device);
	if (IS_ERR(new_uobj))
		return PTR_ERR(new_uobj);

	new_mr = device->ops.rereg_user_mr_fd(mr, flags, buffer, pd, attrs);
	if (new_mr && !IS_ERR(new_mr)) {
		uverbs_replace_mr(uobj, new_uobj, new_mr, pd, buffer->access,
				  attrs);
		return 0;
	}

	uobj_alloc_abort(new_uobj, attrs);
	if (IS_ERR(new_mr))
		return mr->revoked ? -ENOTRECOVERABLE : PTR_ERR(new_mr);

	uverbs_change_mr(mr, flags, old_pd, pd, buffer->iova, buffer->length,
			 buffer->access);
	return 0;
}

/**
 * uverbs_rereg_mr_fd - reregister an MR with memory that a user specifies
 * @uobj: uobject of the MR, locked for writing
 * @flags: enum ib_mr_rereg_flags, which of the other arguments count
 * @pd: new PD, with IB_MR_REREG_PD; held by the caller during the call
 * @desc: new memory, with IB_MR_REREG_TRANS; not checked yet
 * @iova: address of its first byte, with IB_MR_REREG_TRANS
 * @access: new access flags, with IB_MR_REREG_ACCESS; not checked yet
 * @attrs: the call, for the driver
 *
 * Context: process context of the user, may sleep. Takes and releases the
 * reservation lock of a dma-buf.
 *
 * Return: 0, or an error with the MR unchanged:
 * -EINVAL: @flags is 0 or has unknown bits, the MR has device memory, unknown
 *	type of memory, the access flags are unknown or contradict each other;
 *	from the driver: memory windows are bound to the MR
 * -EOPNOTSUPP: the device cannot reregister, or not with such memory or access
 *	flags; the MR has a DMA handle
 * -ENOMEM: out of memory
 * or another error of ib_mr_buffer_get() or of the driver;
 * or an error after which the MR gives no access and can only be destroyed:
 * -ENOTRECOVERABLE: the driver has revoked the MR, now or in an earlier rereg
 */
int uverbs_rereg_mr_fd(struct ib_uobject *uobj, u32 flags, struct ib_pd *pd,
		       const struct ib_uverbs_buffer_desc *desc, u64 iova,
		       unsigned int access, struct uverbs_attr_bundle *attrs)
{
	struct ib_mr *mr = uobj->object;
	struct ib_device *device = mr->device;
	struct ib_mr_buffer buffer;
	int ret;

	if (!flags || flags & ~IB_MR_REREG_SUPPORTED || mr->dm)
		return -EINVAL;

	if (mr->revoked)
		return -ENOTRECOVERABLE;

	/* The op has no DMA handle, so the MR could lose the one that it has. */
	if (!device->ops.rereg_user_mr_fd || mr->dmah)
		return -EOPNOTSUPP;

	if (!(flags & IB_MR_REREG_PD))
		pd = mr->pd;

	if (flags & IB_MR_REREG_ACCESS) {
		ret = ib_check_mr_access(device, access);
		if (ret)
			return ret;
	} else {
		access = mr->access_flags;
	}

	if (!(flags & IB_MR_REREG_TRANS)) {
		buffer = (struct ib_mr_buffer){
			.length = mr->length,
			.iova = mr->iova,
			.access = access,
		};
		return uverbs_rereg_by_op(uobj, flags, pd, &buffer, attrs);
	}

	if (desc->type >= IB_MR_BUFFER_TYPES)
		return -EINVAL;

	if (!(uverbs_buffer_caps(device, desc->type) &
	      IB_UVERBS_BUFFER_CAP_REREG))
		return -EOPNOTSUPP;

	ret = ib_mr_buffer_get(&buffer, desc, iova, access);
	if (ret)
		return ret;

	ret = uverbs_rereg_by_op(uobj, flags, pd, &buffer, attrs);
	ib_mr_buffer_put(&buffer);
	return ret;
}

/**
 * struct uverbs_rereg_args - the attributes that the flags ask for
 * @pd: new PD, whose uobject the method has locked for reading, or NULL
 * @desc: new memory
 * @iova: address of its first byte
 * @access: new access flags
 */
struct uverbs_rereg_args {
	struct ib_pd *pd;
	struct ib_uverbs_buffer_desc desc;
	u64 iova;
	u32 access;
};

static int uverbs_rereg_get_memory(struct uverbs_rereg_args *args,
				   struct uverbs_attr_bundle *attrs)
{
	int ret;

	ret = uverbs_copy_from(&args->desc, attrs,
			       UVERBS_ATTR_REREG_MR_FD_BUFFER);
	if (ret)
		return ret;

	return uverbs_copy_from(&args->iova, attrs,
				UVERBS_ATTR_REREG_MR_FD_IOVA);
}

/* Are those attributes there that the flags ask for, and no others? */
static bool uverbs_rereg_fits(u32 flags, struct uverbs_attr_bundle *attrs)
{
	static const struct {
		u16 attr;
		u32 flag;
	} args[] = {
		{ UVERBS_ATTR_REREG_MR_FD_BUFFER, IB_MR_REREG_TRANS },
		{ UVERBS_ATTR_REREG_MR_FD_IOVA, IB_MR_REREG_TRANS },
		{ UVERBS_ATTR_REREG_MR_FD_PD_HANDLE, IB_MR_REREG_PD },
		{ UVERBS_ATTR_REREG_MR_FD_ACCESS_FLAGS, IB_MR_REREG_ACCESS },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(args); i++)
		if (!!(flags & args[i].flag) !=
		    uverbs_attr_is_valid(attrs, args[i].attr))
			return false;
	return true;
}

static int uverbs_rereg_get_args(u32 flags, struct uverbs_rereg_args *args,
				 struct uverbs_attr_bundle *attrs)
{
	int ret = 0;

	if (!uverbs_rereg_fits(flags, attrs))
		return -EINVAL;

	if (flags & IB_MR_REREG_TRANS)
		ret = uverbs_rereg_get_memory(args, attrs);

	if (!ret && flags & IB_MR_REREG_ACCESS)
		ret = uverbs_get_flags32(&args->access, attrs,
					 UVERBS_ATTR_REREG_MR_FD_ACCESS_FLAGS,
					 IB_ACCESS_SUPPORTED);

	if (flags & IB_MR_REREG_PD)
		args->pd = uverbs_attr_get_obj(attrs,
					       UVERBS_ATTR_REREG_MR_FD_PD_HANDLE);

	return ret;
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
	struct uverbs_rereg_args args = {};
	u32 flags;
	int ret;

	ret = uverbs_get_flags32(&flags, attrs, UVERBS_ATTR_REREG_MR_FD_FLAGS,
				 IB_MR_REREG_SUPPORTED);
	if (ret)
		return ret;

	ret = uverbs_rereg_get_args(flags, &args, attrs);
	if (ret)
		return ret;

	/*
	 * Write the keys first, so that a fault leaves the MR unchanged. Keys that
	 * have changed are written again. That fails only if the process meanwhile
	 * takes away the memory that was just written: it does not learn the keys.
	 */
	ret = uverbs_rereg_put_keys(old, attrs);
	if (!ret)
		ret = uverbs_rereg_mr_fd(uobj, flags, args.pd, &args.desc,
					 args.iova, args.access, attrs);
	if (ret)
		return ret;

	keys = uverbs_mr_keys(uobj->object);
	return uverbs_mr_keys_equal(keys, old) ?
		       0 :
		       uverbs_rereg_put_keys(keys, attrs);
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
	UVERBS_ATTR_PTR_IN(UVERBS_ATTR_REREG_MR_FD_BUFFER,
			   UVERBS_ATTR_TYPE(struct ib_uverbs_buffer_desc),
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
