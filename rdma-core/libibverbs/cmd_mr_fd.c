// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The command that registers memory by file descriptor, IBV_MR_TYPE_FD_MR.
 *
 * The memory has no address in the process. So mr->addr is not a pointer, here
 * or in dereg. The kernel takes its own reference to the memory, so the file
 * descriptor is needed only during the call.
 */

#include <infiniband/cmd_write.h>
#include "ibverbs.h"

/*
 * Return the kernel's type of the memory, enum ib_uverbs_buffer_type, or -1 with
 * errno EINVAL. The kernel's 1 is memory of the process, which has no fd.
 */
int mr_fd_buffer_type(enum ibv_mr_fd_type fd_type)
{
	switch (fd_type) {
	case IBV_MR_FD_TYPE_DMABUF:
		return IB_UVERBS_BUFFER_TYPE_DMABUF;
	case IBV_MR_FD_TYPE_MEMFD:
		return IB_UVERBS_BUFFER_TYPE_MEMFD;
	}

	errno = EINVAL;
	return -1;
}

/*
 * Execute a method that not every kernel has. A kernel without it says so in
 * one of two other ways, but callers expect EOPNOTSUPP.
 */
int mr_fd_execute(struct ibv_context *context, struct ibv_command_buffer *cmdb)
{
	int ret = execute_ioctl(context, cmdb);

	if (ret == EPROTONOSUPPORT || ret == ENOTTY) {
		errno = EOPNOTSUPP;
		return errno;
	}
	return ret;
}

/*
 * With attributes of a provider, a kernel without the method or one of them is
 * EPROTONOSUPPORT or ENOTTY, so that the provider can go another way.
 */
int ibv_cmd_reg_mr_fd(struct ibv_pd *pd, uint64_t offset, size_t length,
		      uint64_t iova, enum ibv_mr_fd_type fd_type, int fd,
		      int access, struct verbs_mr *vmr,
		      struct ibv_command_buffer *driver)
{
	DECLARE_COMMAND_BUFFER_LINK(cmdb, UVERBS_OBJECT_MR,
				    UVERBS_METHOD_REG_MR_FD, 7, driver);
	struct ib_uverbs_buffer_desc buffer = {
		.fd = fd,
		.addr = offset,
		.length = length,
	};
	struct ib_uverbs_attr *handle;
	uint32_t lkey, rkey;
	int type;
	int ret;

	type = mr_fd_buffer_type(fd_type);
	if (type < 0)
		return errno;
	buffer.type = type;

	handle = fill_attr_out_obj(cmdb, UVERBS_ATTR_REG_MR_FD_HANDLE);
	fill_attr_out_ptr(cmdb, UVERBS_ATTR_REG_MR_FD_RESP_LKEY, &lkey);
	fill_attr_out_ptr(cmdb, UVERBS_ATTR_REG_MR_FD_RESP_RKEY, &rkey);

	fill_attr_in_obj(cmdb, UVERBS_ATTR_REG_MR_FD_PD_HANDLE, pd->handle);
	fill_attr_in_ptr(cmdb, UVERBS_ATTR_REG_MR_FD_BUFFER, &buffer);
	fill_attr_in_uint64(cmdb, UVERBS_ATTR_REG_MR_FD_IOVA, iova);
	fill_attr_in_uint32(cmdb, UVERBS_ATTR_REG_MR_FD_ACCESS_FLAGS, access);

	ret = driver ? execute_ioctl(pd->context, cmdb) :
		       mr_fd_execute(pd->context, cmdb);
	if (ret)
		return ret;

	vmr->ibv_mr.handle =
		read_attr_obj(UVERBS_ATTR_REG_MR_FD_HANDLE, handle);
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.lkey = lkey;
	vmr->ibv_mr.rkey = rkey;
	vmr->ibv_mr.pd = pd;
	vmr->ibv_mr.addr = (void *)(uintptr_t)iova;
	vmr->ibv_mr.length = length;
	vmr->mr_type = IBV_MR_TYPE_FD_MR;
	vmr->access = access;
	return 0;
}
