// SPDX-License-Identifier: GPL-2.0-or-later
/* See calls.h. */
#include "direct/calls.h"
#include <rdma/mlx5_user_ioctl_cmds.h>

static int send_call(struct ibv_context *ctx, const struct fd_call *c, int way, struct keys *keys)
{
	struct keys got = {};
	union msg m;
	int err;

	msg_of(&m, c, &got);
	if (way != WITHOUT)
		msg_add(&m, MLX5_IB_ATTR_REG_MR_ACCESS_FLAGS, 4, way);
	err = msg_send(ctx->cmd_fd, &m);
	if (err)
		return err;
	got.handle = m.hdr.attrs[0].data;
	*keys = got;
	return 0;
}

static void set_memory(struct fd_call *c, const struct memory *m, uint64_t iova)
{
	c->type = m->kind == MEMFD ? IB_UVERBS_BUFFER_TYPE_MEMFD : IB_UVERBS_BUFFER_TYPE_DMABUF;
	c->fd = m->fd;
	c->length = m->size;
	c->iova = iova;
}

int direct_reg(struct ibv_pd *pd, const struct memory *m, uint64_t iova, uint32_t access, int way,
	       struct keys *keys)
{
	struct fd_call c = { .pd = pd->handle, .access = access };

	set_memory(&c, m, iova);
	return send_call(pd->context, &c, way, keys);
}

int direct_rereg(struct ibv_context *ctx, uint32_t flags, struct ibv_pd *pd,
		 const struct memory *m, uint32_t access, int way, struct keys *keys)
{
	struct fd_call c = { .rereg = true, .mr = keys->handle, .flags = flags, .access = access };

	if (pd)
		c.pd = pd->handle;
	if (m)
		set_memory(&c, m, IOVA);
	return send_call(ctx, &c, way, keys);
}
