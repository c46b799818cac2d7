// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The method that exports device memory as a dma-buf, see dm_dmabuf.c
 *
 * Its number is the highest that the API has room for, see
 * UVERBS_API_METHOD_KEY_NUM_CORE.
 */

#include <linux/dma-buf.h>
#include <linux/file.h>
#include <rdma/ib_dm.h>
#include <rdma/uverbs_std_types.h>
#include "rdma_core.h"
#include "uverbs.h"

static int UVERBS_HANDLER(UVERBS_METHOD_DM_EXPORT_DMABUF)(
	struct uverbs_attr_bundle *attrs)
{
	struct ib_dm *dm =
		uverbs_attr_get_obj(attrs, UVERBS_ATTR_DM_EXPORT_DMABUF_HANDLE);
	struct dma_buf *dmabuf;
	s32 fd;
	int ret;

	dmabuf = ib_dm_export(dm);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);

	ret = get_unused_fd_flags(O_CLOEXEC);
	if (ret < 0)
		goto err_put;

	/* The process has the fd only when nothing can fail any more. */
	fd = ret;
	ret = uverbs_copy_to(attrs, UVERBS_ATTR_DM_EXPORT_DMABUF_RESP_FD, &fd,
			     sizeof(fd));
	if (ret)
		goto err_fd;

	fd_install(fd, dmabuf->file);
	return 0;

err_fd:
	put_unused_fd(fd);
err_put:
	dma_buf_put(dmabuf);
	return ret;
}

DECLARE_UVERBS_NAMED_METHOD(
	UVERBS_METHOD_DM_EXPORT_DMABUF,
	UVERBS_ATTR_IDR(UVERBS_ATTR_DM_EXPORT_DMABUF_HANDLE,
			UVERBS_OBJECT_DM,
			UVERBS_ACCESS_READ,
			UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(UVERBS_ATTR_DM_EXPORT_DMABUF_RESP_FD,
			    UVERBS_ATTR_TYPE(s32),
			    UA_MANDATORY));

ADD_UVERBS_METHODS(uverbs_dm_dmabuf_methods, UVERBS_OBJECT_DM,
		   &UVERBS_METHOD(UVERBS_METHOD_DM_EXPORT_DMABUF));

const struct uapi_definition uverbs_def_dm_dmabuf[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &uverbs_dm_dmabuf_methods),
	{}
};
