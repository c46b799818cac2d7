// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; devices: rxe */
/* runs: quick debug-full; devices: connectx pinned */
/*
 * What the kit says that the device can do (kit/mrfd/devices.py) agrees with what the device
 * reports, with what it answers to a query, and with what a registration says of an fd that is
 * not open.
 */
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/uverbs.h"

FIXTURE(words)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct memory memory;
	struct ibv_mr *mr;
	struct ibv_device_attr_ex attr;
};

FIXTURE_SETUP(words)
{
	self->ctx = device_open();
	self->pd = must(ibv_alloc_pd(self->ctx));
	memory_open(&self->memory, HOST, PAGE);
	self->mr = memory_reg(&self->memory, self->pd, RW);
	ASSERT_EQ(0, ibv_query_device_ex(self->ctx, NULL, &self->attr));
}

FIXTURE_TEARDOWN(words)
{
	mr_close(self->mr);
	memory_close(&self->memory);
	pd_close(self->pd);
	device_close(self->ctx);
}

#define EXPECT_WORD(word, reported)						\
	EXPECT_EQ(!!(reported), device_can(word)) {				\
		TH_LOG("MRFD_DEVICE_CAN and the device disagree about %s", word);	\
	}

TEST_F(words, capabilities_agree_with_query_device_ex)
{
	const struct ibv_device_attr *attr = &self->attr.orig_attr;

	EXPECT_WORD("atomics", attr->atomic_cap != IBV_ATOMIC_NONE);
	EXPECT_WORD("atomic-write",
		    self->attr.device_cap_flags_ex & IB_UVERBS_DEVICE_ATOMIC_WRITE);
	EXPECT_WORD("flush", self->attr.device_cap_flags_ex & IB_UVERBS_DEVICE_FLUSH_GLOBAL);
	EXPECT_WORD("window-type-1", attr->device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	EXPECT_WORD("window-type-2", attr->device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A |
							       IBV_DEVICE_MEM_WINDOW_TYPE_2B));
	EXPECT_WORD("on-demand", self->attr.odp_caps.general_caps & IBV_ODP_SUPPORT);
	EXPECT_WORD("dm", self->attr.max_dm_size);
}

TEST_F(words, capabilities_agree_with_device_memory_calls)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(self->ctx, &attr);
	int fd;

	EXPECT_WORD("dm", dm);
	if (!dm) {
		EXPECT_EQ(EOPNOTSUPP, errno);
		return;
	}
	EXPECT_WORD("dm-bytes", !ibv_memcpy_to_dm(dm, 1, "a", 1));
	fd = ibv_dm_export_dmabuf_fd(dm);
	EXPECT_WORD("dm-export", fd >= 0);
	if (fd >= 0)
		close(fd);
	else
		EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(0, ibv_free_dm(dm));
}

/* A driver that can do it looks at the fd, which is not open. */
TEST_F(words, capabilities_agree_with_reg_and_rereg)
{
	EXPECT_EQ(NULL, ibv_reg_mr_fd(self->pd, NULL, PAGE, IBV_MR_FD_TYPE_DMABUF, -1, 0));
	EXPECT_WORD("reg_mr_fd", errno == EBADF);
	EXPECT_EQ(NULL, ibv_reg_mr_fd(self->pd, NULL, PAGE, IBV_MR_FD_TYPE_MEMFD, -1, 0));
	EXPECT_WORD("memfd", errno == EBADF);
	EXPECT_NE(0, ibv_rereg_mr_fd(self->mr, TRANS, NULL, NULL, PAGE,
				     IBV_MR_FD_TYPE_DMABUF, -1, 0));
	EXPECT_WORD("rereg_mr_fd", errno == EBADF);
}

TEST_F(words, capabilities_agree_with_query_mr_fd_caps)
{
	uint32_t dmabuf, memfd;

	ASSERT_EQ(0, ibv_query_mr_fd_caps(self->ctx, IBV_MR_FD_TYPE_DMABUF, &dmabuf));
	ASSERT_EQ(0, ibv_query_mr_fd_caps(self->ctx, IBV_MR_FD_TYPE_MEMFD, &memfd));
	EXPECT_WORD("reg_mr_fd", dmabuf & IBV_MR_FD_CAP_REG);
	EXPECT_WORD("rereg_mr_fd", dmabuf & IBV_MR_FD_CAP_REREG);
	EXPECT_WORD("vmap", dmabuf & IBV_MR_FD_CAP_CPU);
	EXPECT_WORD("follows-moves", dmabuf & IBV_MR_FD_CAP_DYNAMIC);
	EXPECT_WORD("gives-back", dmabuf & IBV_MR_FD_CAP_PINNED);
	EXPECT_WORD("p2p", dmabuf & IBV_MR_FD_CAP_P2P);
	EXPECT_WORD("memfd", memfd & IBV_MR_FD_CAP_REG);
	EXPECT_WORD("memfd", memfd & IBV_MR_FD_CAP_PINNED);
	EXPECT_EQ(device_can("memfd") && device_can("rereg_mr_fd"),
		  !!(memfd & IBV_MR_FD_CAP_REREG));
	EXPECT_EQ(EINVAL, ibv_query_mr_fd_caps(self->ctx, 0, &dmabuf));
}

/* The library knows how to register a memfd on every kernel, the kernel itself may not. */
TEST_F(words, capabilities_agree_with_the_kernels_buffer_caps)
{
	uint32_t memfd;

	ASSERT_EQ(0, buffer_caps(self->ctx->cmd_fd, IB_UVERBS_BUFFER_TYPE_MEMFD, &memfd));
	EXPECT_WORD("native", memfd & IB_UVERBS_BUFFER_CAP_REG);
}

/* A misspelt word would skip cases. */
TEST_F(words, all_capabilities_are_known)
{
	static const char *const known[] = {
		"reg_mr_fd", "rereg_mr_fd", "memfd", "io-memory", "vmap", "native", "old-op",
		"keeps-keys", "on-demand", "switches-on-demand", "reads-read-only",
		"counts-faults",
		"atomics", "atomic-write", "flush", "window-type-1", "window-type-2",
		"window-dma-buf", "window-holds", "window-checks", "access-events", "new-keys",
		"sqd", "rdma-cm", "add-delete", "read-middles", "rxe-queues", "mlx5-queues", "follows-moves",
		"gives-back", "pci", "p2p", "dm", "dm-bytes", "dm-export",
	};
	const char *given = getenv("MRFD_DEVICE_CAN");
	char *words = must(strdup(given ? given : ""));

	for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
		int i = 0;

		while (i < ARRAY_SIZE(known) && strcmp(known[i], word))
			i++;
		EXPECT_GT(ARRAY_SIZE(known), i) { TH_LOG("unknown word %s", word); }
	}
	free(words);
}

TEST_HARNESS_MAIN
