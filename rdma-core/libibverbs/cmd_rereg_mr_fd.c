// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The command that re-registers an MR by file descriptor, whatever memory the
 * MR has now. Without IBV_REREG_MR_CHANGE_TRANSLATION it changes only the PD or
 * the access, and ignores the file descriptor, offset, length and iova.
 *
 * The kernel makes the whole change or none of it. So *vmr is written only on
 * success, and describes the MR after an error too. After ENOTRECOVERABLE the
 * fields are those that the MR had, but the kernel has revoked it.
 * ibv_rereg_mr_fd_iova() changes addr, length and pd itself, because it needs
 * the old values.
 */

#include <infiniband/cmd_write.h>
#include "ibverbs.h"

int ibv_cmd_rereg_mr_fd(struct verbs_mr *vmr, uint32_t flags,
			struct ibv_pd *pd, uint64_t offset, size_t length,
			uint64_t iova, enum ibv_mr_fd_type fd_type, int fd,
			int access, struct ibv_command_buffer *driver)
{
	DECLARE_COMMAND_BUFFER_LINK(cmdb, UVERBS_OBJECT_MR,
				    UVERBS_METHOD_REREG_MR_FD, 8, driver);
	struct ibv_context *context = vmr->ibv_mr.context;
	struct ib_uverbs_buffer_desc buffer = {};
	uint32_t lkey, rkey;
	int ret;

	fill_attr_in_obj(cmdb, UVERBS_ATTR_REREG_MR_FD_HANDLE,
			 vmr->ibv_mr.handle);
	fill_attr_in_uint32(cmdb, UVERBS_ATTR_REREG_MR_FD_FLAGS, flags);
	fill_attr_out_ptr(cmdb, UVERBS_ATTR_REREG_MR_FD_RESP_LKEY, &lkey);
	fill_attr_out_ptr(cmdb, UVERBS_ATTR_REREG_MR_FD_RESP_RKEY, &rkey);

	if (flags & IBV_REREG_MR_CHANGE_PD)
		fill_attr_in_obj(cmdb, UVERBS_ATTR_REREG_MR_FD_PD_HANDLE,
				 pd->handle);
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		ret = mr_fd_buffer_type(fd_type);
		if (ret < 0)
			return errno;

		buffer.type = ret;
		buffer.fd = fd;
		buffer.addr = offset;
		buffer.length = length;
		fill_attr_in_ptr(cmdb, UVERBS_ATTR_REREG_MR_FD_BUFFER, &buffer);
		fill_attr_in_uint64(cmdb, UVERBS_ATTR_REREG_MR_FD_IOVA, iova);
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		fill_attr_in_uint32(cmdb, UVERBS_ATTR_REREG_MR_FD_ACCESS_FLAGS,
				    access);

	ret = mr_fd_execute(context, cmdb);
	if (ret)
		return ret;

	vmr->ibv_mr.lkey = lkey;
	vmr->ibv_mr.rkey = rkey;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		vmr->mr_type = IBV_MR_TYPE_FD_MR;
	return 0;
}
