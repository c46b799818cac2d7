// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; devices: rxe */
/* runs: full debug-full; devices: connectx */
/*
 * The older calls for MRs: what REG_MR and REG_DMABUF_MR register is reached at its iova, and has
 * this iova and its length for a process that imports it; REREG_MR with a bad address for the
 * keys changes nothing.
 */
#include "interface/mistakes.h"

/* What UVERBS_METHOD_REG_MR is asked for: memory at ADDR, or of FD if that is not -1. */
struct reg_mr {
	uint64_t addr;		/* or the offset in FD */
	int fd;
	uint64_t length;
	uint64_t iova;
	uint32_t driver;	/* driver data, unless it is 0 */
};

static int reg_mr(FIXTURE_DATA(uapi) *self, const struct reg_mr *r, struct keys *keys)
{
	struct keys got = {};
	union msg m;
	int err;

	msg_begin(&m, UVERBS_OBJECT_MR, UVERBS_METHOD_REG_MR);
	msg_add(&m, UVERBS_ATTR_REG_MR_HANDLE, 0, 0);
	msg_add(&m, UVERBS_ATTR_REG_MR_PD_HANDLE, 0, self->pair.pd->handle);
	msg_add(&m, UVERBS_ATTR_REG_MR_IOVA, 8, r->iova);
	msg_add(&m, UVERBS_ATTR_REG_MR_LENGTH, 8, r->length);
	msg_add(&m, UVERBS_ATTR_REG_MR_ACCESS_FLAGS, 4, RW);
	if (r->fd == -1) {
		msg_add(&m, UVERBS_ATTR_REG_MR_ADDR, 8, r->addr);
	} else {
		msg_add(&m, UVERBS_ATTR_REG_MR_FD, 0, r->fd);
		msg_add(&m, UVERBS_ATTR_REG_MR_FD_OFFSET, 8, r->addr);
	}
	msg_add(&m, UVERBS_ATTR_REG_MR_RESP_LKEY, 4, (uintptr_t)&got.lkey);
	msg_add(&m, UVERBS_ATTR_REG_MR_RESP_RKEY, 4, (uintptr_t)&got.rkey);
	if (r->driver)
		msg_add(&m, UVERBS_ATTR_UHW_IN, 4, r->driver);
	err = msg_send(self->ctx->cmd_fd, &m);
	if (!err) {
		got.handle = m.hdr.attrs[0].data;
		*keys = got;
	}
	return err;
}

/* RDMA writes and reads all of the region, which is LENGTH bytes at CPU. */
static bool reached(FIXTURE_DATA(uapi) *self, const struct keys *keys, uint8_t *cpu, size_t length,
		    uint64_t iova)
{
	static uint32_t seed = 1000;
	struct mr_info info;

	if ((errno = mr_query(self->ctx->cmd_fd, keys->handle, &info)))
		fail_case("query the MR");
	if (info.iova != iova || info.length != length) {
		printf("# iova %#lx and length %lu, not %#lx and %zu\n", info.iova, info.length,
		       iova, length);
		return false;
	}
	fill(self->local.cpu, length, ++seed);
	if (rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->local_mr, self->local.iova, length, iova,
		    keys->rkey) || !filled(cpu, length, seed, "written"))
		return false;
	fill(cpu, length, ++seed);
	return !rdma_op(&self->pair, IBV_WR_RDMA_READ, self->local_mr, self->local.iova, length,
			iova, keys->rkey) && filled(self->local.cpu, length, seed, "read");
}

TEST_F(uapi, reg_mr_by_address_is_reached_at_its_iova)
{
	struct memory host;
	struct reg_mr r = { .fd = -1, .length = SIZE - 2 * PAGE };
	struct keys keys;

	memory_open(&host, HOST, SIZE);
	r.addr = (uintptr_t)host.cpu + PAGE + 8;
	for (int other = 0; other < 2; other++) {
		r.iova = other ? IOVA + 8 : r.addr;
		ASSERT_EQ(0, reg_mr(self, &r, &keys));
		EXPECT_TRUE(reached(self, &keys, host.cpu + PAGE + 8, r.length, r.iova));
		ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_IOCTL, keys.handle));
	}
	memory_close(&host);
}

TEST_F(uapi, reg_mr_of_a_dma_buf_is_reached_at_its_iova)
{
	struct reg_mr r = { .addr = PAGE + 8, .fd = self->buf.fd, .length = SIZE - 2 * PAGE,
			    .iova = 7 * IOVA + 8 };
	struct keys keys;

	ASSERT_EQ(0, reg_mr(self, &r, &keys));
	EXPECT_TRUE(reached(self, &keys, self->buf.cpu + PAGE + 8, r.length, r.iova));
	ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_IOCTL, keys.handle));
}

/* mlx5 has none; an attribute of REG_DMABUF_MR, flags of the driver, has their number. */
TEST_F(uapi, driver_data_of_reg_mr_are_not_flags)
{
	struct reg_mr r = { .fd = self->buf.fd, .length = SIZE, .iova = IOVA };
	struct keys keys;

	for (r.driver = 1; r.driver <= 4; r.driver *= 2) {
		ASSERT_EQ(0, reg_mr(self, &r, &keys)) TH_LOG("data %u", r.driver);
		ASSERT_TRUE(reached(self, &keys, self->buf.cpu, SIZE, IOVA));
		ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_IOCTL, keys.handle));
	}
}

TEST_F(uapi, reg_dmabuf_mr_is_reached_at_its_iova)
{
	size_t length = SIZE - 2 * PAGE;
	uint64_t iova = 7 * IOVA + 8;
	struct keys keys;

	ASSERT_EQ(0, dmabuf_reg(self->ctx->cmd_fd, self->pair.pd->handle, self->buf.fd, PAGE + 8,
				length, iova, RW, &keys));
	EXPECT_TRUE(reached(self, &keys, self->buf.cpu + PAGE + 8, length, iova));
	ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_IOCTL, keys.handle));
}

/* The errors that programs know from the drivers that had the method first */
TEST_F(uapi, reg_mr_of_a_wrong_fd_is_ebadf_or_einval)
{
	const struct { int fd; uint64_t offset, length, iova; int err; } wrong[] = {
		{ 999, 0, PAGE, 0, EBADF },
		{ self->memfd.fd, 0, PAGE, 0, EINVAL },
		{ self->socket, 0, PAGE, 0, EINVAL },
		{ self->buf.fd, 0, 0, 0, EINVAL },
		{ self->buf.fd, 0, SIZE + 1, 0, EINVAL },
		{ self->buf.fd, SIZE, 1, SIZE, EINVAL },
		{ self->buf.fd, 1, PAGE, 0, EINVAL },
	};
	struct keys keys;

	for (int i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct reg_mr r = { .addr = wrong[i].offset, .fd = wrong[i].fd,
				    .length = wrong[i].length, .iova = wrong[i].iova };

		expect(self, false, "REG_MR", "a wrong fd or range", reg_mr(self, &r, &keys),
		       wrong[i].err);
	}
	ASSERT_EQ(0, self->failures);
}

static int rereg_mr(FIXTURE_DATA(uapi) *self, uint32_t mr, uint32_t flags, const void *resp)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_rereg_mr cmd;
	} req = {
		.hdr = { .command = IB_USER_VERBS_CMD_REREG_MR, .in_words = sizeof(req) / 4,
			 .out_words = sizeof(struct ib_uverbs_rereg_mr_resp) / 4 },
		.cmd = { .response = (uintptr_t)resp, .mr_handle = mr, .flags = flags,
			 .pd_handle = self->pair.pd->handle, .access_flags = LOCAL_WRITE,
			 .start = (uintptr_t)self->local.cpu, .hca_va = 0, .length = PAGE },
	};

	return wcmd_send(self->ctx->cmd_fd, &req, sizeof(req));
}

TEST_F(uapi, rereg_mr_with_an_inaccessible_answer_changes_nothing)
{
	uint8_t *none = self->edge + PAGE;
	void *const resp[] = { NULL, none, none - 4, self->read_only };

	for (uint32_t flags = 1; flags <= CHANGE_ALL; flags++)
		for (int i = 0; i < ARRAY_SIZE(resp); i++)
			expect(self, true, "REREG_MR", "an inaccessible answer",
			       rereg_mr(self, self->mr.handle, flags, resp[i]), EFAULT);
	ASSERT_EQ(0, self->failures);
}

/* The same of memory of the process, which every kernel can register. */
TEST_F(uapi, rereg_mr_with_an_inaccessible_answer_takes_no_right)
{
	struct memory from;
	struct ibv_mr *mr;

	memory_open_filled(&from, HOST, SIZE, 8);
	mr = memory_reg(&from, self->pair.pd, RW);
	ASSERT_EQ(EFAULT, rereg_mr(self, self->local_mr->handle, IBV_REREG_MR_CHANGE_ACCESS, NULL));
	EXPECT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, mr, from.iova, SIZE,
					  self->local.iova, self->local_mr->rkey));
	EXPECT_TRUE(filled(self->local.cpu, SIZE, 8, "what was written"));
	mr_close(mr);
	memory_close(&from);
}

TEST_HARNESS_MAIN
