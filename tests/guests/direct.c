// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Data Direct, where the host looks on (host/direct): at the model's counts of each function,
 * at the memory of the GPU, and with functions behind different PCIe ports.
 *
 * Each case is run alone, with the devices and options of the model that it needs.
 */
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/device.h"
#include "lib/dm.h"
#include "lib/gpu.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/other.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/pieces.h"
#include "lib/second.h"
#include "lib/told.h"
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIZE (64 * PAGE)
#define DM_SIZE (2 * PAGE)

FIXTURE(way)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory buf, plain, host;
	struct ibv_mr *host_mr;
};

FIXTURE_SETUP(way)
{
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	memory_open_filled(&self->host, HOST, SIZE, 3);
	self->host_mr = memory_reg(&self->host, self->pair.pd, RWA);
}

FIXTURE_TEARDOWN(way)
{
	mr_close(self->host_mr);
	pair_close(&self->pair);
	device_close(self->ctx);
	memory_close(&self->buf);
	memory_close(&self->plain);
	memory_close(&self->host);
}

/* NULL and errno. */
static struct ibv_mr *reg(FIXTURE_DATA(way) *self, const struct memory *m, bool direct)
{
	return direct ? mlx5dv_reg_dmabuf_mr(self->pair.pd, 0, SIZE, m->iova, m->fd, RWA,
					     MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT) :
			ibv_reg_dmabuf_mr(self->pair.pd, 0, SIZE, m->iova, m->fd, RWA);
}

static bool does(FIXTURE_DATA(way) *self, enum ibv_wr_opcode opcode, struct ibv_mr *mr,
		 const struct memory *m, size_t at, uint32_t n)
{
	return !rdma_op(&self->pair, opcode, self->host_mr, self->host.iova, n, m->iova + at,
			mr->rkey);
}

/* What the second function has to copy is printed; the other MR's bytes are not its. */
TEST_F(way, each_byte_leaves_by_its_function)
{
	static const uint32_t sizes[] = { 1, 7, 1024, 4096, 4099, 100001, SIZE - 8 };
	struct ibv_mr *mr, *plain_mr;
	unsigned long written = 0, read = 0, atomics = 0;

	/* What is sent again on a busy machine is read again. */
	for (int end = 0; end < 2; end++)
		pair_connect_end(&self->pair, end, IBV_MTU_1024, 0, 0);
	memory_open_filled(&self->buf, UDMABUF, SIZE, 1);
	memory_open_filled(&self->plain, UDMABUF, SIZE, 2);
	mr = must(reg(self, &self->buf, true));
	plain_mr = must(reg(self, &self->plain, false));
	for (int i = 0; i < 7; i++) {
		uint32_t n = sizes[i];

		ASSERT_TRUE(does(self, IBV_WR_RDMA_WRITE, mr, &self->buf, 8, n));
		ASSERT_TRUE(does(self, IBV_WR_RDMA_WRITE, plain_mr, &self->plain, 8, n));
		ASSERT_TRUE(does(self, IBV_WR_RDMA_READ, plain_mr, &self->plain, 0, n));
		ASSERT_TRUE(does(self, IBV_WR_RDMA_READ, mr, &self->buf, 0, n));
		written += n;
		read += n;
		/* As source and as target of messages. */
		post_recv(&self->pair, mr, self->buf.iova, n);
		ASSERT_FALSE(rdma_op(&self->pair, IBV_WR_SEND, plain_mr, self->plain.iova, n, 0, 0));
		post_recv(&self->pair, plain_mr, self->plain.iova, n);
		ASSERT_FALSE(rdma_op(&self->pair, IBV_WR_SEND, mr, self->buf.iova, n, 0, 0));
		written += n;
		read += n;
		ASSERT_FALSE(atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, self->host_mr,
				       self->buf.iova, mr->rkey, 1, 0));
		atomics++;
	}
	mr_close(mr);
	mr_close(plain_mr);
	printf("second function: %lu written, %lu read, %lu atomics\n", written, read, atomics);
}

/* A buffer that may not leave VRAM: only the function that has a path to the GPU reaches it. */
static void one_way_reaches_vram(struct __test_metadata *_metadata, FIXTURE_DATA(way) *self,
				 bool direct)
{
	struct ibv_mr *mr;

	gpu_open(&self->buf, GPU_VRAM, SIZE, MRFD_GPU_ONLY);
	ASSERT_EQ(NULL, reg(self, &self->buf, !direct));
	ASSERT_EQ(EOPNOTSUPP, errno);
	ASSERT_TRUE(gpu_at_rest(&self->buf));
	mr = must(reg(self, &self->buf, direct));
	ASSERT_EQ(MRFD_GPU_VRAM, gpu_query(&self->buf).place);
	fill(self->host.cpu, SIZE, 1);
	ASSERT_TRUE(does(self, IBV_WR_RDMA_WRITE, mr, &self->buf, 0, SIZE));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 1, "VRAM"));
	memset(self->host.cpu, 0, SIZE);
	ASSERT_TRUE(does(self, IBV_WR_RDMA_READ, mr, &self->buf, 0, SIZE));
	ASSERT_TRUE(filled(self->host.cpu, SIZE, 1, "read"));
	mr_close(mr);
	ASSERT_TRUE(gpu_at_rest(&self->buf));
}

TEST_F(way, vram_is_near_the_second_function)
{
	one_way_reaches_vram(_metadata, self, true);
}

TEST_F(way, vram_is_near_the_first_function)
{
	one_way_reaches_vram(_metadata, self, false);
}

/* ACS at the port between them sends the second function's requests up to the host too. */
TEST_F(way, vram_is_near_no_function)
{
	gpu_open(&self->buf, GPU_VRAM, SIZE, MRFD_GPU_ONLY);
	for (int direct = 0; direct < 2; direct++) {
		ASSERT_EQ(NULL, reg(self, &self->buf, direct));
		ASSERT_EQ(EOPNOTSUPP, errno);
		ASSERT_TRUE(gpu_at_rest(&self->buf));
	}
}

/* With --late-data the bytes come long after the completion, unless a read asks for them. */
TEST_F(way, late_data_need_a_flush)
{
	struct ibv_mr *mr;

	memory_open_filled(&self->buf, VGEM, SIZE, 1);
	mr = must(reg(self, &self->buf, true));
	fill(self->host.cpu, SIZE, 2);
	ASSERT_TRUE(does(self, IBV_WR_RDMA_WRITE, mr, &self->buf, 0, SIZE));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 1, "before the flush"));
	ASSERT_TRUE(does(self, IBV_WR_RDMA_READ, mr, &self->buf, 0, 1));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 2, "after the flush"));

	/* The end of the MR waits for what is under way. */
	fill(self->host.cpu, SIZE, 4);
	ASSERT_TRUE(does(self, IBV_WR_RDMA_WRITE, mr, &self->buf, 0, SIZE));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 2, "before the dereg"));
	mr_close(mr);
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 4, "after the dereg"));
}

/* With a delay that passes: old bytes are seen first, unless the guest is slower than it. */
TEST_F(way, late_data_come_by_themselves)
{
	struct ibv_mr *mr;
	int late = 0;

	memory_open_filled(&self->buf, VGEM, SIZE, 1);
	mr = must(reg(self, &self->buf, true));
	for (int i = 0; i < 50 && !late; i++) {
		double end = deadline(10);

		fill(self->host.cpu, SIZE, i + 2);
		ASSERT_TRUE(does(self, IBV_WR_RDMA_WRITE, mr, &self->buf, 0, SIZE));
		late = !pattern_arrived(self->buf.cpu, SIZE, i + 2);
		while (!pattern_arrived(self->buf.cpu, SIZE, i + 2) && now() < end)
			usleep(1000);
		ASSERT_TRUE(filled(self->buf.cpu, SIZE, i + 2, "later"));
	}
	ASSERT_NE(0, late);
	mr_close(mr);
}

/* Each MR is printed with the size that the pages of the card's list can have. */
static void print_pages(FIXTURE_DATA(way) *self, size_t piece, size_t offset, uint64_t iova,
			const char *pages)
{
	const int way = MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT;
	size_t length = self->buf.size - offset - 1;
	struct ibv_mr *mr;

	mr = must(mlx5dv_reg_dmabuf_mr(self->pair.pd, offset, length, iova, self->buf.fd, RWA,
				       way));
	mr_close(mr);
	mr = must(mlx5dv_reg_mr_fd(self->pair.pd, offset, length, iova, IBV_MR_FD_TYPE_DMABUF,
				   self->buf.fd, RWA, way));
	mr_close(mr);
	printf("pieces of %zu, offset %#zx, iova %#llx: pages %s\n", piece, offset,
	       (unsigned long long)iova, pages);
}

TEST_F(way, pages_are_as_large_as_they_can_be)
{
	static const struct {
		size_t piece, offset;
		uint64_t iova;
		const char *pages;	/* log 2; + : or larger */
	} regions[] = {
		{ HUGE_PAGE, 0, IOVA, "21+" },
		{ HUGE_PAGE, 0, IOVA + HUGE_PAGE, "21" },
		{ HUGE_PAGE, 0, IOVA + (1 << 16), "16" },
		{ HUGE_PAGE, 0, IOVA + PAGE, "12" },
		{ HUGE_PAGE, HUGE_PAGE, IOVA, "21+" },
		{ HUGE_PAGE, 1 << 16, IOVA, "16" },
		{ HUGE_PAGE, 1 << 16, IOVA + (3 << 16), "16" },
		{ HUGE_PAGE, 1 << 20, IOVA + (1 << 20), "20" },
		{ 1 << 20, 0, IOVA, "20" },
		{ 1 << 16, 0, IOVA, "16" },
		{ 1 << 16, 0, IOVA + (1 << 15), "15" },
		{ PAGE, 0, IOVA, "12" },
	};

	hugepages_make(2);
	for (size_t i = 0; i < sizeof(regions) / sizeof(*regions); i++) {
		pieces_open(&self->buf, 2 * HUGE_PAGE, regions[i].piece);
		print_pages(self, regions[i].piece, regions[i].offset, regions[i].iova,
			    regions[i].pages);
		memory_close(&self->buf);
	}
	hugepages_make(0);
}

/* One of two cards, each with a function for Data Direct of its own. */
struct card {
	struct ibv_context *ctx;
	struct pair pair;
	struct second second;
	struct memory buf, host;
	struct ibv_mr *mr, *host_mr;
	unsigned long bytes;	/* written, and read as often */
};

static void card_open(struct card *c, struct ibv_context *ctx)
{
	*c = (struct card){ .ctx = ctx };
	pair_open(&c->pair, ctx, NULL);
	second_find(&c->second, ctx);
	memory_open_filled(&c->buf, VGEM, SIZE, 1);
	memory_open(&c->host, HOST, SIZE);
	c->mr = must(mlx5dv_reg_dmabuf_mr(c->pair.pd, 0, SIZE, IOVA, c->buf.fd, RWA,
					  MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT));
	c->host_mr = must(ibv_reg_mr(c->pair.pd, c->host.cpu, SIZE, RWA));
}

static void card_close(struct card *c)
{
	mr_close(c->mr);
	mr_close(c->host_mr);
	pair_close(&c->pair);
	device_close(c->ctx);
	memory_close(&c->buf);
	memory_close(&c->host);
}

/* What is sent again on a busy machine would be read again. */
static enum ibv_wc_status card_op(struct card *c, enum ibv_wr_opcode opcode)
{
	for (int end = 0; end < 2; end++)
		pair_connect_end(&c->pair, end, IBV_MTU_1024, 0, 0);
	return rdma_op(&c->pair, opcode, c->host_mr, c->host.iova, SIZE, IOVA, c->mr->rkey);
}

static bool card_carries(struct card *c, uint32_t seed)
{
	fill(c->host.cpu, SIZE, seed);
	if (card_op(c, IBV_WR_RDMA_WRITE) || !filled(c->buf.cpu, SIZE, seed, "written"))
		return false;
	memset(c->host.cpu, 0, SIZE);
	if (card_op(c, IBV_WR_RDMA_READ) || !filled(c->host.cpu, SIZE, seed, "read"))
		return false;
	c->bytes += SIZE;
	return true;
}

static bool card_is_refused(struct card *c)
{
	fill(c->host.cpu, SIZE, 1001);
	memory_mark(&c->host);
	memory_mark(&c->buf);
	return card_op(c, IBV_WR_RDMA_WRITE) == IBV_WC_REM_ACCESS_ERR &&
	       card_op(c, IBV_WR_RDMA_READ) == IBV_WC_REM_ACCESS_ERR &&
	       memory_untouched(&c->host) && memory_untouched(&c->buf);
}

static void only_its_own_card_needs_it(struct __test_metadata *_metadata, struct card *c,
				       struct card *other)
{
	char path[PATH_MAX];

	second_set_bus_master(&c->second, false);
	EXPECT_TRUE(card_is_refused(c));
	EXPECT_TRUE(card_carries(other, 11));
	second_set_bus_master(&c->second, true);
	EXPECT_TRUE(card_carries(c, 12));

	second_unbind(&c->second);
	EXPECT_TRUE(card_is_refused(c));
	EXPECT_TRUE(card_carries(other, 13));
	EXPECT_EQ(ENODEV, mlx5dv_get_data_direct_sysfs_path(c->ctx, path, sizeof(path)));
	EXPECT_EQ(0, mlx5dv_get_data_direct_sysfs_path(other->ctx, path, sizeof(path)));
	EXPECT_EQ(0, strcmp(path, other->second.path + strlen("/sys")));
	second_bind(&c->second);
	EXPECT_EQ(0, mlx5dv_get_data_direct_sysfs_path(c->ctx, path, sizeof(path)));
	EXPECT_EQ(0, strcmp(path, c->second.path + strlen("/sys")));
	EXPECT_TRUE(card_is_refused(c));
}

TEST_F(way, each_card_has_its_own_function)
{
	struct card cards[2];
	struct other other;

	other_open(&other);
	card_open(&cards[0], device_open());
	card_open(&cards[1], device_open_named(other.name));
	ASSERT_NE(0, strcmp(cards[0].second.path, cards[1].second.path));
	ASSERT_TRUE(card_carries(&cards[0], 1));
	ASSERT_TRUE(card_carries(&cards[1], 2));
	ASSERT_TRUE(card_carries(&cards[1], 3));
	only_its_own_card_needs_it(_metadata, &cards[0], &cards[1]);
	mr_close(cards[0].mr);
	cards[0].mr = must(mlx5dv_reg_dmabuf_mr(cards[0].pair.pd, 0, SIZE, IOVA, cards[0].buf.fd,
						RWA, MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT));
	only_its_own_card_needs_it(_metadata, &cards[1], &cards[0]);
	for (int i = 0; i < 2; i++)
		printf("card %d: %lu bytes\n", i, cards[i].bytes);
	for (int i = 0; i < 2; i++)
		card_close(&cards[i]);
	other_close(&other);
}

/* By upstream's verb and by ours. */
static struct ibv_mr *reg_dm(FIXTURE_DATA(way) *self, size_t size, int fd, bool ours)
{
	const int way = MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT;

	return ours ? mlx5dv_reg_mr_fd(self->pair.pd, 0, size, IOVA, IBV_MR_FD_TYPE_DMABUF, fd,
				       RWA, way) :
		      mlx5dv_reg_dmabuf_mr(self->pair.pd, 0, size, IOVA, fd, RWA, way);
}

/*
 * Memory on another card, behind the same switch: the second function reads and writes in that
 * card's BAR.  It belongs to that card, which ends the access with the memory.
 */
TEST_F(way, second_function_reaches_dm_of_another_card)
{
	struct ibv_context *ctx;
	struct other other;
	struct dm dm;

	other_open(&other);
	ctx = device_open_named(other.name);
	told_begin(self->ctx);
	for (int ours = 0; ours < 2; ours++) {
		struct ibv_mr *mr;
		int fd, others;

		dm_open_filled(&dm, ctx, DM_SIZE, 1);
		fd = ibv_dm_export_dmabuf_fd(dm.dm);
		ASSERT_LE(0, fd);
		mr = must(reg_dm(self, DM_SIZE, fd, ours));
		fill(self->host.cpu, DM_SIZE, 5);
		ASSERT_FALSE(rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr,
				     self->host.iova, DM_SIZE, IOVA, mr->rkey));
		ASSERT_TRUE(dm_filled(&dm, 0, DM_SIZE, 5, "device memory"));
		dm_fill(&dm, 0, DM_SIZE, 6);
		ASSERT_FALSE(rdma_op(&self->pair, IBV_WR_RDMA_READ, self->host_mr,
				     self->host.iova, DM_SIZE, IOVA, mr->rkey));
		ASSERT_TRUE(filled(self->host.cpu, DM_SIZE, 6, "read"));
		ASSERT_EQ(0, told(self->ctx, mr, &others));

		dm_close(&dm);
		EXPECT_EQ(1, told(self->ctx, mr, &others));
		EXPECT_EQ(0, others);
		dm_open_filled(&dm, ctx, DM_SIZE, 7);
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
			  rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova,
				  DM_SIZE, IOVA, mr->rkey));
		EXPECT_TRUE(dm_untouched(&dm));
		pair_connect_end(&self->pair, 0, IBV_MTU_1024, 0, 0);
		pair_connect_end(&self->pair, 1, IBV_MTU_1024, 0, 0);
		mr_close(mr);
		dm_close(&dm);
		close(fd);
	}
	EXPECT_TRUE(dm_budget_is_whole(ctx));
	device_close(ctx);
	other_close(&other);
}

TEST_HARNESS_MAIN
