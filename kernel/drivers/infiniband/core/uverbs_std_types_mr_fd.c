// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions from file descriptors: the uAPI
 *
 * The user specifies a PD, a range of a file descriptor, an iova and access
 * rights, and gets an MR like any other, with a handle, an lkey and an rkey.
 * The core does what is the same for all devices: it checks the request and
 * takes the memory with ib_umem_get_fd().  The driver gets a ready umem and
 * makes keys for it.
 *
 * This file has the ioctl method and the function behind it.  The methods have
 * the highest numbers that the API has room for, see
 * UVERBS_API_METHOD_KEY_NUM_CORE.
 */

#include <rdma/ib_umem_fd.h>
#include <rdma/uverbs_std_types.h>
#include "rdma_core.h"
#include "uverbs.h"

/**
 * uverbs_reg_mr_fd - register the memory of a file descriptor
 * @uobj: new uobject of type UVERBS_OBJECT_MR, to which the MR is added; the
 *	caller commits it on success and aborts it on error
 * @pd: protection domain, held by the caller during the call
 * @attr: the user's request, not checked yet
 * @attrs: the call, for the driver
 *
 * Context: process context of the user, may sleep. Takes and releases the
 * reservation lock of a dma-buf.
 *
 * Return: the MR, or an ERR_PTR:
 * -EOPNOTSUPP: the device has no reg_user_mr_fd, or does not support the access
 *	flags
 * -EINVAL: access flags that are unknown or contradict each other
 * or an error of ib_umem_get_fd() or of the driver.
 */
struct ib_mr *uverbs_reg_mr_fd(struct ib_uobject *uobj, struct ib_pd *pd,
			       const struct ib_umem_fd_attr *attr,
			       struct uverbs_attr_bundle *attrs)
{
	struct ib_device *device = pd->device;
	struct ib_umem *umem;
	struct ib_mr *mr;
	int ret;

	if (!device->ops.reg_user_mr_fd)
		return ERR_PTR(-EOPNOTSUPP);

	ret = ib_check_mr_access(device, attr->access);
	if (ret)
		return ERR_PTR(ret);

	umem = ib_umem_get_fd(device, attr);
	if (IS_ERR(umem))
		return ERR_CAST(umem);

	mr = device->ops.reg_user_mr_fd(pd, umem, attr->iova, attr->access,
					attrs);
	if (IS_ERR(mr)) {
		ib_umem_release(umem);
		return mr;
	}

	uverbs_init_user_mr(mr, uobj, pd, attr->access);
	return mr;
}

static int UVERBS_HANDLER(UVERBS_METHOD_REG_MR_FD)(
	struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobj =
		uverbs_attr_get_uobject(attrs, UVERBS_ATTR_REG_MR_FD_HANDLE);
	struct ib_pd *pd =
		uverbs_attr_get_obj(attrs, UVERBS_ATTR_REG_MR_FD_PD_HANDLE);
	struct ib_umem_fd_attr attr = {};
	struct ib_mr *mr;
	int ret;

	ret = uverbs_get_const_unsigned(&attr.fd_type, attrs,
					UVERBS_ATTR_REG_MR_FD_TYPE);
	if (ret)
		return ret;

	ret = uverbs_get_raw_fd(&attr.fd, attrs, UVERBS_ATTR_REG_MR_FD_FD);
	if (ret)
		return ret;

	ret = uverbs_copy_from(&attr.offset, attrs,
			       UVERBS_ATTR_REG_MR_FD_OFFSET);
	if (ret)
		return ret;

	ret = uverbs_copy_from(&attr.length, attrs,
			       UVERBS_ATTR_REG_MR_FD_LENGTH);
	if (ret)
		return ret;

	ret = uverbs_copy_from(&attr.iova, attrs, UVERBS_ATTR_REG_MR_FD_IOVA);
	if (ret)
		return ret;

	ret = uverbs_get_flags32(&attr.access, attrs,
				 UVERBS_ATTR_REG_MR_FD_ACCESS_FLAGS,
				 IB_ACCESS_SUPPORTED);
	if (ret)
		return ret;

	mr = uverbs_reg_mr_fd(uobj, pd, &attr, attrs);
	if (IS_ERR(mr))
		return PTR_ERR(mr);

	uverbs_finalize_uobj_create(attrs, UVERBS_ATTR_REG_MR_FD_HANDLE);

	ret = uverbs_copy_to(attrs, UVERBS_ATTR_REG_MR_FD_RESP_LKEY, &mr->lkey,
			     sizeof(mr->lkey));
	if (ret)
		return ret;

	return uverbs_copy_to(attrs, UVERBS_ATTR_REG_MR_FD_RESP_RKEY, &mr->rkey,
			      sizeof(mr->rkey));
}

DECLARE_UVERBS_NAMED_METHOD(
	UVERBS_METHOD_REG_MR_FD,
	UVERBS_ATTR_IDR(UVERBS_ATTR_REG_MR_FD_HANDLE,
			UVERBS_OBJECT_MR,
			UVERBS_ACCESS_NEW,
			UA_MANDATORY),
	UVERBS_ATTR_IDR(UVERBS_ATTR_REG_MR_FD_PD_HANDLE,
			UVERBS_OBJECT_PD,
			UVERBS_ACCESS_READ,
			UA_MANDATORY),
	UVERBS_ATTR_CONST_IN(UVERBS_ATTR_REG_MR_FD_TYPE,
			     enum ib_uverbs_mr_fd_type,
			     UA_MANDATORY),
	UVERBS_ATTR_RAW_FD(UVERBS_ATTR_REG_MR_FD_FD,
			   UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(UVERBS_ATTR_REG_MR_FD_OFFSET,
			   UVERBS_ATTR_TYPE(u64),
			   UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(UVERBS_ATTR_REG_MR_FD_LENGTH,
			   UVERBS_ATTR_TYPE(u64),
			   UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(UVERBS_ATTR_REG_MR_FD_IOVA,
			   UVERBS_ATTR_TYPE(u64),
			   UA_MANDATORY),
	UVERBS_ATTR_FLAGS_IN(UVERBS_ATTR_REG_MR_FD_ACCESS_FLAGS,
			     enum ib_access_flags,
			     UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(UVERBS_ATTR_REG_MR_FD_RESP_LKEY,
			    UVERBS_ATTR_TYPE(u32),
			    UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(UVERBS_ATTR_REG_MR_FD_RESP_RKEY,
			    UVERBS_ATTR_TYPE(u32),
			    UA_MANDATORY));

ADD_UVERBS_METHODS(uverbs_mr_fd, UVERBS_OBJECT_MR,
		   &UVERBS_METHOD(UVERBS_METHOD_REG_MR_FD));

const struct uapi_definition uverbs_def_obj_mr_fd[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_MR, &uverbs_mr_fd),
	{}
};
