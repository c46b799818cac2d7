// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Query of what a device can do with a type of memory
 *
 * Without it a program has to register something to find out.  The answer is
 * enum ib_uverbs_buffer_caps; 0 means that the device cannot register such
 * memory by UVERBS_METHOD_REG_MR_FD, or that this kernel does not know the type.
 */

#include <rdma/ib_umem_fd.h>
#include <rdma/uverbs_std_types.h>
#include "rdma_core.h"
#include "uverbs.h"

static int UVERBS_HANDLER(UVERBS_METHOD_QUERY_BUFFER_CAPS)(
	struct uverbs_attr_bundle *attrs)
{
	struct ib_ucontext *ucontext;
	u32 type, caps;
	int ret;

	ucontext = ib_uverbs_get_ucontext(attrs);
	if (IS_ERR(ucontext))
		return PTR_ERR(ucontext);

	ret = uverbs_get_const_unsigned(&type, attrs,
					UVERBS_ATTR_QUERY_BUFFER_CAPS_TYPE);
	if (ret)
		return ret;

	caps = uverbs_buffer_caps(ucontext->device, type);
	return uverbs_copy_to(attrs, UVERBS_ATTR_QUERY_BUFFER_CAPS_RESP, &caps,
			      sizeof(caps));
}

DECLARE_UVERBS_NAMED_METHOD(
	UVERBS_METHOD_QUERY_BUFFER_CAPS,
	UVERBS_ATTR_CONST_IN(UVERBS_ATTR_QUERY_BUFFER_CAPS_TYPE,
			     enum ib_uverbs_buffer_type,
			     UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(UVERBS_ATTR_QUERY_BUFFER_CAPS_RESP,
			    UVERBS_ATTR_TYPE(u32),
			    UA_MANDATORY));

ADD_UVERBS_METHODS(uverbs_buffer_caps_methods, UVERBS_OBJECT_DEVICE,
		   &UVERBS_METHOD(UVERBS_METHOD_QUERY_BUFFER_CAPS));

const struct uapi_definition uverbs_def_buffer_caps[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE,
				&uverbs_buffer_caps_methods),
	{}
};
