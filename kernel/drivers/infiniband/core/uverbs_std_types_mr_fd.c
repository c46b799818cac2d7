// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions from file descriptors: registration
 *
 * The user specifies a PD, a range of memory (struct ib_uverbs_buffer_desc), an
 * iova and access rights, and gets an MR like any other, with a handle, an lkey
 * and an rkey.  The core checks the request and looks the fd up, see umem_fd.c,
 * and the driver makes the MR.
 *
 * A driver has the op reg_user_mr_fd, or the older op for a dma-buf only, or both.
 * REG_MR_FD is served by the op that is there.  The older methods, REG_DMABUF_MR
 * and REG_MR, call the older op, for which a driver may use
 * ib_mr_buffer_get_dmabuf().
 *
 * The methods have the highest numbers that the API has room for, see
 * UVERBS_API_METHOD_KEY_NUM_CORE.
 */

#include <rdma/ib_umem_fd.h>
#include <rdma/uverbs_std_types.h>
#include "rdma_core.h"
#include "uverbs.h"

/**
 * uverbs_buffer_caps - what a device can do with a type of memory
 * @device: the device
 * @type: enum ib_uverbs_buffer_type, not checked yet
 *
 * Context: any.
 *
 * Return: enum ib_uverbs_buffer_caps; 0 for a type that this kernel does not know
 * or cannot take
 */
u32 uverbs_buffer_caps(const struct ib_device *device, u32 type)
{
	if (type >= IB_MR_BUFFER_TYPES)
		return 0;
	if (type == IB_UVERBS_BUFFER_TYPE_MEMFD &&
	    !IS_ENABLED(CONFIG_INFINIBAND_MEMFD))
		return 0;
	/* Pages that a CPU wrote to are not what the device would read. */
	if (type != IB_UVERBS_BUFFER_TYPE_DMABUF && device->cc_dma_bounce)
		return 0;
	if (device->ops.reg_user_mr_fd)
		return device->mr_buffer_caps[type];
	/* The op does not tell how the driver imports the buffer. */
	if (type == IB_UVERBS_BUFFER_TYPE_DMABUF &&
	    device->ops.reg_user_mr_dmabuf)
		return IB_UVERBS_BUFFER_CAP_REG;
	return 0;
}

/*
 * The older op looks the fd up again. A process that meanwhile puts another file
 * there gets an MR of that, as it does from REG_DMABUF_MR.
 */
static struct ib_mr *uverbs_reg_by_dmabuf_op(struct ib_pd *pd,
					     const struct ib_mr_buffer *buffer,
					     int fd,
					     struct uverbs_attr_bundle *attrs)
{
	struct ib_mr *mr;

	if (buffer->access & ~UVERBS_DMABUF_ACCESS_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);

	mr = pd->device->ops.reg_user_mr_dmabuf(pd, buffer->addr,
						buffer->length, buffer->iova,
						fd, buffer->access, NULL,
						attrs);
	if (!IS_ERR(mr)) {
		mr->iova = buffer->iova;
		mr->length = buffer->length;
	}
	return mr;
}

/**
 * uverbs_reg_mr_fd - register memory that a user specifies
 * @pd: protection domain, held by the caller during the call
 * @desc: the memory, not checked yet
 * @iova: address of the first byte, on the wire and in work requests
 * @access: enum ib_access_flags, not checked yet
 * @attrs: the call, for the driver
 *
 * Context: process context of the user, may sleep. Takes and releases the
 * reservation lock of a dma-buf.
 *
 * Return: the MR, whose fields the caller sets with uverbs_init_user_mr(), or
 * an ERR_PTR:
 * -EINVAL: unknown type of memory; access flags that are unknown or contradict
 *	each other
 * -EOPNOTSUPP: the device cannot register such memory, or does not support the
 *	access flags
 * or an error of ib_mr_buffer_get() or of the driver.
 */
struct ib_mr *uverbs_reg_mr_fd(struct ib_pd *pd,
			       const struct ib_uverbs_buffer_desc *desc,
			       u64 iova, unsigned int access,
			       struct uverbs_attr_bundle *attrs)
{
	struct ib_device *device = pd->device;
	struct ib_mr_buffer buffer;
	struct ib_mr *mr;
	int ret;

	if (desc->type >= IB_MR_BUFFER_TYPES)
		return ERR_PTR(-EINVAL);

	if (!(uverbs_buffer_caps(device, desc->type) & IB_UVERBS_BUFFER_CAP_REG))
		return ERR_PTR(-EOPNOTSUPP);

	ret = ib_check_mr_access(device, access);
	if (ret)
		return ERR_PTR(ret);

	ret = ib_mr_buffer_get(&buffer, desc, iova, access);
	if (ret)
		return ERR_PTR(ret);

	if (device->ops.reg_user_mr_fd)
		mr = device->ops.reg_user_mr_fd(pd, &buffer, attrs);
	else
		mr = uverbs_reg_by_dmabuf_op(pd, &buffer, desc->fd, attrs);
	ib_mr_buffer_put(&buffer);
	return mr;
}

static int UVERBS_HANDLER(UVERBS_METHOD_REG_MR_FD)(
	struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobj =
		uverbs_attr_get_uobject(attrs, UVERBS_ATTR_REG_MR_FD_HANDLE);
	struct ib_pd *pd =
		uverbs_attr_get_obj(attrs, UVERBS_ATTR_REG_MR_FD_PD_HANDLE);
	struct ib_uverbs_buffer_desc desc;
	struct ib_mr *mr;
	u32 access;
	u64 iova;
	int ret;

	ret = uverbs_copy_from(&desc, attrs, UVERBS_ATTR_REG_MR_FD_BUFFER);
	if (ret)
		return ret;

	ret = uverbs_copy_from(&iova, attrs, UVERBS_ATTR_REG_MR_FD_IOVA);
	if (ret)
		return ret;

	ret = uverbs_get_flags32(&access, attrs,
				 UVERBS_ATTR_REG_MR_FD_ACCESS_FLAGS,
				 IB_ACCESS_SUPPORTED);
	if (ret)
		return ret;

	mr = uverbs_reg_mr_fd(pd, &desc, iova, access, attrs);
	if (IS_ERR(mr))
		return PTR_ERR(mr);

	uverbs_init_user_mr(mr, uobj, pd, access);
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
	UVERBS_ATTR_PTR_IN(UVERBS_ATTR_REG_MR_FD_BUFFER,
			   UVERBS_ATTR_TYPE(struct ib_uverbs_buffer_desc),
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
