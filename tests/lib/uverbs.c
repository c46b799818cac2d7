// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * See uverbs.h.  A function here makes no system call that allocates kernel memory, except
 * the call that it is for.  So a case can make any allocation of that call fail.
 */
#include "lib/uverbs.h"
#include "lib/case.h"
#include "lib/device.h"
#include <assert.h>
#include <fcntl.h>
#include <rdma/mlx5-abi.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define VERBS_IOCTL _IOWR(RDMA_IOCTL_MAGIC, 1, struct ib_uverbs_ioctl_hdr)

const char *const entry_name[NR_ENTRIES] = { "ioctl()", "write()" };

void msg_begin(union msg *m, uint16_t object, uint16_t method)
{
	memset(m, 0, sizeof(*m));
	m->hdr.object_id = object;
	m->hdr.method_id = method;
	m->hdr.driver_id = device_driver_id();
	msg_length(m);
}

void msg_length(union msg *m)
{
	m->hdr.length = sizeof(m->hdr) + m->hdr.num_attrs * sizeof(*m->hdr.attrs);
}

struct ib_uverbs_attr *msg_add(union msg *m, uint16_t id, uint16_t len, uint64_t data)
{
	struct ib_uverbs_attr *attr = &m->hdr.attrs[m->hdr.num_attrs];

	if (m->hdr.num_attrs++ == MSG_ATTRS)
		fail_case("a message of more than %d attributes", MSG_ATTRS);
	*attr = (struct ib_uverbs_attr){
		.attr_id = id, .len = len, .flags = UVERBS_ATTR_F_MANDATORY, .data = data,
	};
	msg_length(m);
	return attr;
}

struct ib_uverbs_attr *msg_find(union msg *m, uint16_t id)
{
	for (int i = 0; i < m->hdr.num_attrs; i++)
		if (m->hdr.attrs[i].attr_id == id)
			return &m->hdr.attrs[i];
	return NULL;
}

int msg_send(int cmd_fd, union msg *m)
{
	return ioctl(cmd_fd, VERBS_IOCTL, m) ? errno : 0;
}

#define DESC_SIZE sizeof(struct ib_uverbs_buffer_desc)

static_assert(offsetof(struct fd_call, length) - offsetof(struct fd_call, type) ==
	      offsetof(struct ib_uverbs_buffer_desc, length));

static void msg_of_reg(union msg *m, const struct fd_call *c, struct keys *keys)
{
	msg_begin(m, UVERBS_OBJECT_MR, UVERBS_METHOD_REG_MR_FD);
	msg_add(m, UVERBS_ATTR_REG_MR_FD_HANDLE, 0, 0);
	msg_add(m, UVERBS_ATTR_REG_MR_FD_PD_HANDLE, 0, c->pd);
	msg_add(m, UVERBS_ATTR_REG_MR_FD_BUFFER, DESC_SIZE, (uintptr_t)&c->type);
	msg_add(m, UVERBS_ATTR_REG_MR_FD_IOVA, 8, c->iova);
	msg_add(m, UVERBS_ATTR_REG_MR_FD_ACCESS_FLAGS, 4, c->access);
	msg_add(m, UVERBS_ATTR_REG_MR_FD_RESP_LKEY, 4, (uintptr_t)&keys->lkey);
	msg_add(m, UVERBS_ATTR_REG_MR_FD_RESP_RKEY, 4, (uintptr_t)&keys->rkey);
}

/* It has only the attributes that the flags need. */
static void msg_of_rereg(union msg *m, const struct fd_call *c, struct keys *keys)
{
	msg_begin(m, UVERBS_OBJECT_MR, UVERBS_METHOD_REREG_MR_FD);
	msg_add(m, UVERBS_ATTR_REREG_MR_FD_HANDLE, 0, c->mr);
	msg_add(m, UVERBS_ATTR_REREG_MR_FD_FLAGS, 4, c->flags);
	if (c->flags & IBV_REREG_MR_CHANGE_PD)
		msg_add(m, UVERBS_ATTR_REREG_MR_FD_PD_HANDLE, 0, c->pd);
	if (c->flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		msg_add(m, UVERBS_ATTR_REREG_MR_FD_BUFFER, DESC_SIZE, (uintptr_t)&c->type);
		msg_add(m, UVERBS_ATTR_REREG_MR_FD_IOVA, 8, c->iova);
	}
	if (c->flags & IBV_REREG_MR_CHANGE_ACCESS)
		msg_add(m, UVERBS_ATTR_REREG_MR_FD_ACCESS_FLAGS, 4, c->access);
	msg_add(m, UVERBS_ATTR_REREG_MR_FD_RESP_LKEY, 4, (uintptr_t)&keys->lkey);
	msg_add(m, UVERBS_ATTR_REREG_MR_FD_RESP_RKEY, 4, (uintptr_t)&keys->rkey);
}

void msg_of(union msg *m, const struct fd_call *c, struct keys *keys)
{
	if (c->rereg)
		msg_of_rereg(m, c, keys);
	else
		msg_of_reg(m, c, keys);
}

int wcmd_send(int cmd_fd, const void *w, size_t size)
{
	ssize_t n = write(cmd_fd, w, size);

	if (n >= 0 && n != size)
		fail_case("write() of %zu bytes took %zd", size, n);
	return n < 0 ? errno : 0;
}

int fd_call(int cmd_fd, const struct fd_call *c, struct keys *keys)
{
	struct keys got = {};
	union msg m;
	int err;

	msg_of(&m, c, &got);
	err = msg_send(cmd_fd, &m);
	if (err)
		return err;
	got.handle = m.hdr.attrs[0].data;
	*keys = got;
	return 0;
}

int host_reg(int cmd_fd, uint32_t pd, uint64_t start, uint64_t length, uint64_t iova,
	     uint32_t access, struct keys *keys)
{
	struct ib_uverbs_reg_mr_resp resp = {};
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_reg_mr cmd;
	} req = {
		.hdr = { .command = IB_USER_VERBS_CMD_REG_MR, .in_words = sizeof(req) / 4,
			 .out_words = sizeof(resp) / 4 },
		.cmd = { .response = (uintptr_t)&resp, .start = start, .length = length,
			 .hca_va = iova, .pd_handle = pd, .access_flags = access },
	};
	int err = wcmd_send(cmd_fd, &req, sizeof(req));

	if (!err)
		*keys = (struct keys){ resp.mr_handle, resp.lkey, resp.rkey };
	return err;
}

int host_rereg(int cmd_fd, uint32_t mr, uint32_t flags, uint32_t pd, uint64_t start,
	       uint64_t length, uint64_t iova, uint32_t access, struct keys *keys)
{
	struct ib_uverbs_rereg_mr_resp resp = {};
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_rereg_mr cmd;
	} req = {
		.hdr = { .command = IB_USER_VERBS_CMD_REREG_MR, .in_words = sizeof(req) / 4,
			 .out_words = sizeof(resp) / 4 },
		.cmd = { .response = (uintptr_t)&resp, .mr_handle = mr, .flags = flags,
			 .start = start, .length = length, .hca_va = iova, .pd_handle = pd,
			 .access_flags = access },
	};
	int err = wcmd_send(cmd_fd, &req, sizeof(req));

	if (!err)
		*keys = (struct keys){ mr, resp.lkey, resp.rkey };
	return err;
}

int dmabuf_reg(int cmd_fd, uint32_t pd, int fd, uint64_t offset, uint64_t length, uint64_t iova,
	       uint32_t access, struct keys *keys)
{
	struct keys got = {};
	union msg m;
	int err;

	msg_begin(&m, UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR);
	msg_add(&m, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0);
	msg_add(&m, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd);
	msg_add(&m, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, offset);
	msg_add(&m, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, length);
	msg_add(&m, UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, iova);
	msg_add(&m, UVERBS_ATTR_REG_DMABUF_MR_FD, 4, fd);
	msg_add(&m, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4, access);
	msg_add(&m, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, (uintptr_t)&got.lkey);
	msg_add(&m, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4, (uintptr_t)&got.rkey);
	err = msg_send(cmd_fd, &m);
	if (!err) {
		got.handle = m.hdr.attrs[0].data;
		*keys = got;
	}
	return err;
}

int mr_dereg(int cmd_fd, enum entry e, uint32_t mr)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_dereg_mr cmd;
	} req = {
		.hdr = { .command = IB_USER_VERBS_CMD_DEREG_MR, .in_words = sizeof(req) / 4 },
		.cmd = { .mr_handle = mr },
	};
	union msg m;

	if (e == BY_WRITE)
		return wcmd_send(cmd_fd, &req, sizeof(req));
	msg_begin(&m, UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY);
	msg_add(&m, UVERBS_ATTR_DESTROY_MR_HANDLE, 0, mr);
	return msg_send(cmd_fd, &m);
}

void buffer_caps_of(union msg *m, uint64_t type, uint32_t *caps)
{
	msg_begin(m, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_BUFFER_CAPS);
	msg_add(m, UVERBS_ATTR_QUERY_BUFFER_CAPS_TYPE, 8, type);
	msg_add(m, UVERBS_ATTR_QUERY_BUFFER_CAPS_RESP, 4, (uintptr_t)caps);
}

int buffer_caps(int cmd_fd, uint64_t type, uint32_t *caps)
{
	union msg m;

	buffer_caps_of(&m, type, caps);
	return msg_send(cmd_fd, &m);
}

int mr_query(int cmd_fd, uint32_t mr, struct mr_info *info)
{
	union msg m;

	memset(info, 0, sizeof(*info));
	msg_begin(&m, UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR);
	msg_add(&m, UVERBS_ATTR_QUERY_MR_HANDLE, 0, mr);
	msg_add(&m, UVERBS_ATTR_QUERY_MR_RESP_LKEY, 4, (uintptr_t)&info->lkey);
	msg_add(&m, UVERBS_ATTR_QUERY_MR_RESP_RKEY, 4, (uintptr_t)&info->rkey);
	msg_add(&m, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, 8, (uintptr_t)&info->length);
	msg_add(&m, UVERBS_ATTR_QUERY_MR_RESP_IOVA, 8, (uintptr_t)&info->iova);
	return msg_send(cmd_fd, &m);
}

/* mlx5 opens no context without its own data; the other drivers do not read theirs. */
int raw_get_context(struct raw *raw, enum entry e)
{
	struct ib_uverbs_get_context_resp resp = {};
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_get_context cmd;
		struct mlx5_ib_alloc_ucontext_req_v2 driver;
	} req = {
		.hdr = { .command = IB_USER_VERBS_CMD_GET_CONTEXT, .in_words = sizeof(req) / 4,
			 .out_words = sizeof(resp) / 4 },
		.cmd = { .response = (uintptr_t)&resp },
		.driver = { .total_num_bfregs = 16, .num_low_latency_bfregs = 4,
			    .flags = MLX5_IB_ALLOC_UCTX_DEVX },
	};
	uint32_t vectors;
	uint64_t support;
	union msg m;
	int err;

	if (e == BY_WRITE) {
		err = wcmd_send(raw->fd, &req, sizeof(req));
		raw->async_fd = err ? -1 : resp.async_fd;
		return err;
	}
	msg_begin(&m, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT);
	msg_add(&m, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, 4, (uintptr_t)&vectors);
	msg_add(&m, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, 8, (uintptr_t)&support);
	msg_add(&m, UVERBS_ATTR_UHW_IN, sizeof(req.driver), (uintptr_t)&req.driver);
	return msg_send(raw->fd, &m);
}

int raw_open(struct raw *raw, const char *dev, enum entry e)
{
	int err;

	raw->async_fd = -1;
	raw->fd = open(dev, O_RDWR | O_CLOEXEC);
	if (raw->fd < 0)
		return errno;
	err = raw_get_context(raw, e);
	if (err)
		close(raw->fd);
	return err;
}

void raw_close(struct raw *raw)
{
	if (raw->async_fd >= 0)
		close(raw->async_fd);
	close(raw->fd);
}

int mw_alloc(int cmd_fd, uint32_t pd)
{
	struct ib_uverbs_alloc_mw_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_alloc_mw cmd;
	} req = {
		.hdr = { .command = IB_USER_VERBS_CMD_ALLOC_MW, .in_words = sizeof(req) / 4,
			 .out_words = sizeof(resp) / 4 },
		.cmd = { .response = (uintptr_t)&resp, .pd_handle = pd,
			 .mw_type = IBV_MW_TYPE_1 },
	};

	return wcmd_send(cmd_fd, &req, sizeof(req));
}

int raw_alloc_pd(struct raw *raw, uint32_t *pd)
{
	struct {
		struct ib_uverbs_alloc_pd_resp core;
		struct mlx5_ib_alloc_pd_resp driver;
	} resp = {};
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_alloc_pd cmd;
	} req = {
		.hdr = { .command = IB_USER_VERBS_CMD_ALLOC_PD, .in_words = sizeof(req) / 4,
			 .out_words = sizeof(resp) / 4 },
		.cmd = { .response = (uintptr_t)&resp },
	};
	int err = wcmd_send(raw->fd, &req, sizeof(req));

	*pd = resp.core.pd_handle;
	return err;
}
