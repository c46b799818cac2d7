// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: rxe two */
/* runs: full debug-full; devices: connectx pinned */
/*
 * Device memory that is exported as a dma-buf is memory of its importers, on its own device
 * and on another one: every operation reaches its bytes, at either end, with the rights of the
 * importer's MR, and none beside them.  What one side writes the other side sees.
 */
#include "dm/exported.h"
#include "lib/test_exporter.h"
#include "lib/window.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <xf86drm.h>

static const struct {
	size_t at, n;
} ranges[] = {
	{ 0, 1 }, { 0, 4096 }, { 1, 7 }, { 3, 1024 }, { 4095, 2 }, { 4093, 4099 },
	{ 8191, 37 }, { 0, SIZE }, { SIZE - 1, 1 }, { SIZE - 4097, 4097 },
};

TEST_F(exported, write_lands_in_the_exported_dm)
{
	for (int i = 0; i < ARRAY_SIZE(ranges); i++) {
		size_t at = ranges[i].at, n = ranges[i].n;

		fill(self->host.cpu, n, 10 + i);
		ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, n, at, self->mr->rkey));
		ASSERT_TRUE(dm_got(self, at, n, 10 + i));
	}
}

TEST_F(exported, read_returns_the_bytes_of_the_exported_dm)
{
	for (int i = 0; i < ARRAY_SIZE(ranges); i++) {
		size_t at = ranges[i].at, n = ranges[i].n;

		dm_fill(&self->dm, at, n, 30 + i);
		memset(self->host.cpu, 0, HOST_SIZE);
		ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_READ, n, at, self->mr->rkey));
		ASSERT_TRUE(filled(self->host.cpu, n, 30 + i, "memory"));
		ASSERT_EQ(0, self->host.cpu[n]);
		ASSERT_TRUE(dm_got(self, at, n, 30 + i));
	}
}

TEST_F(exported, message_lands_in_the_exported_dm)
{
	for (int i = 0; i < ARRAY_SIZE(ranges); i++) {
		size_t at = ranges[i].at, n = ranges[i].n;

		fill(self->host.cpu, n, 50 + i);
		post_recv(&self->pair, self->mr, IOVA + at, n);
		ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_SEND, self->host_mr,
						  self->host.iova, n, 0, 0));
		ASSERT_TRUE(dm_got(self, at, n, 50 + i));
	}
}

TEST_F(exported, send_takes_its_data_from_the_exported_dm)
{
	for (int i = 0; i < ARRAY_SIZE(ranges); i++) {
		size_t at = ranges[i].at, n = ranges[i].n;

		dm_fill(&self->dm, at, n, 70 + i);
		memset(self->host.cpu, 0, HOST_SIZE);
		post_recv(&self->pair, self->host_mr, self->host.iova, HOST_SIZE);
		ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_SEND, self->mr, IOVA + at, n,
						  0, 0));
		ASSERT_TRUE(filled(self->host.cpu, n, 70 + i, "memory"));
		ASSERT_EQ(0, self->host.cpu[n]);
		ASSERT_TRUE(dm_got(self, at, n, 70 + i));
	}
}

TEST_F(exported, exported_dm_is_the_local_end_of_write_and_read)
{
	for (int i = 0; i < ARRAY_SIZE(ranges); i++) {
		size_t at = ranges[i].at, n = ranges[i].n;

		dm_fill(&self->dm, at, n, 90 + i);
		memset(self->host.cpu, 0, HOST_SIZE);
		ASSERT_EQ(IBV_WC_SUCCESS, local_op(self, IBV_WR_RDMA_WRITE, self->mr, at, n));
		ASSERT_TRUE(filled(self->host.cpu, n, 90 + i, "memory"));
		ASSERT_EQ(0, self->host.cpu[n]);
		ASSERT_TRUE(dm_got(self, at, n, 90 + i));

		fill(self->host.cpu, n, 110 + i);
		ASSERT_EQ(IBV_WC_SUCCESS, local_op(self, IBV_WR_RDMA_READ, self->mr, at, n));
		ASSERT_TRUE(dm_got(self, at, n, 110 + i));
	}
}

TEST_F(exported, atomics_change_the_exported_dm)
{
	static const size_t words[] = { 0, 8, 4088, 4096, SIZE - SIZE % 8 - 8 };
	uint64_t *old = (uint64_t *)self->host.cpu;

	for (int i = 0; i < ARRAY_SIZE(words); i++) {
		uint64_t was = 0xffffffff, now;

		dm_put(&self->dm, words[i], &was, 8);
		ASSERT_EQ(IBV_WC_SUCCESS,
			  atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, self->host_mr,
				    IOVA + words[i], self->mr->rkey, 2, 0));
		dm_get(&self->dm, words[i], &now, 8);
		ASSERT_EQ(was, *old);
		ASSERT_EQ(was + 2, now);
		ASSERT_EQ(IBV_WC_SUCCESS,
			  atomic_op(&self->pair, IBV_WR_ATOMIC_CMP_AND_SWP, self->host_mr,
				    IOVA + words[i], self->mr->rkey, now, 42));
		ASSERT_EQ(now, *old);
		dm_get(&self->dm, words[i], &now, 8);
		ASSERT_EQ(42, now);
		ASSERT_TRUE(dm_only_changed(&self->dm, words[i], 8));
		dm_restore(&self->dm, words[i], 8);
	}
}

/* Both devices use it: an MR of the exporter beside one of the importer. */
TEST_F(exported, importer_and_exporter_see_the_same_bytes)
{
	struct pair pair;
	struct memory host;
	struct ibv_mr *host_mr, *mr;

	pair_open(&pair, self->ctx[EXPORTER], NULL);
	memory_open(&host, HOST, HOST_SIZE);
	host_mr = memory_reg(&host, pair.pd, RWA);
	mr = dm_reg(&self->dm, pair.pd, RW);
	fill(host.cpu, SIZE, 130);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&pair, IBV_WR_RDMA_WRITE, host_mr, host.iova, SIZE, 0,
					  mr->rkey));
	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_READ, SIZE, 0, self->mr->rkey));
	ASSERT_TRUE(filled(self->host.cpu, SIZE, 130, "read by the importer"));
	fill(self->host.cpu, SIZE, 131);
	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, SIZE, 0, self->mr->rkey));
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&pair, IBV_WR_RDMA_READ, host_mr, host.iova, SIZE, 0,
					  mr->rkey));
	ASSERT_TRUE(filled(host.cpu, SIZE, 131, "read by the exporter"));
	mr_close(mr);
	mr_close(host_mr);
	pair_close(&pair);
	memory_close(&host);
}

/* --- The fd */

TEST_F(exported, fd_is_writable_and_closed_on_exec)
{
	ASSERT_EQ(O_RDWR, fcntl(self->fd, F_GETFL) & O_ACCMODE);
	ASSERT_EQ(FD_CLOEXEC, fcntl(self->fd, F_GETFD));
}

TEST_F(exported, dma_buf_is_whole_pages_long)
{
	ASSERT_EQ(BUF_SIZE, lseek(self->fd, 0, SEEK_END));
	ASSERT_EQ(NULL, import_part(self, 0, BUF_SIZE + 1, RW));
	ASSERT_EQ(ERANGE, errno);
	ASSERT_EQ(NULL, import_part(self, PAGE, BUF_SIZE, RW));
	ASSERT_EQ(ERANGE, errno);
}

/* The CPU has the copy calls; a mapping could not be taken back. */
TEST_F(exported, mmap_of_the_dma_buf_fails)
{
	static const int protection[] = { PROT_READ, PROT_READ | PROT_WRITE, PROT_NONE };

	for (int i = 0; i < ARRAY_SIZE(protection); i++) {
		ASSERT_EQ(MAP_FAILED, mmap(NULL, PAGE, protection[i], MAP_SHARED, self->fd, 0));
		ASSERT_EQ(MAP_FAILED, mmap(NULL, PAGE, protection[i], MAP_PRIVATE, self->fd, 0));
	}
	ASSERT_TRUE(is_imported(self, self->mr, 2));
}

TEST_F(exported, mr_survives_close_of_the_fd)
{
	close(self->fd);
	self->fd = -1;
	ASSERT_TRUE(is_imported(self, self->mr, 3));
}

TEST_F(exported, ibv_reg_dmabuf_mr_takes_the_fd)
{
	struct ibv_mr *mr = must(ibv_reg_dmabuf_mr(self->pair.pd, 0, BUF_SIZE, IOVA, self->fd,
						   RW));

	ASSERT_TRUE(is_imported(self, mr, 4));
	mr_close(mr);
}

TEST_F(exported, mr_of_a_part_reaches_that_part_only)
{
	const size_t at = PAGE - 100, n = PAGE + 107;
	struct ibv_mr *mr = must(import_part(self, at, n, RW));

	fill(self->host.cpu, n, 5);
	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, n, at, mr->rkey));
	ASSERT_TRUE(dm_got(self, at, n, 5));
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, host_op(self, IBV_WR_RDMA_WRITE, 2, at - 1, mr->rkey));
	pair_connect(&self->pair, IBV_MTU_1024);
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, host_op(self, IBV_WR_RDMA_WRITE, 1, at + n, mr->rkey));
	ASSERT_TRUE(dm_untouched(&self->dm));
	mr_close(mr);
}

TEST_F(exported, fd_can_be_registered_many_times)
{
	struct ibv_mr *mr[50];

	for (int i = 0; i < 50; i++)
		mr[i] = import_all(self, RW);
	for (int i = 0; i < 50; i += 2)
		mr_close(mr[i]);
	ASSERT_TRUE(is_imported(self, mr[49], 6));
	for (int i = 1; i < 50; i += 2)
		mr_close(mr[i]);
	ASSERT_TRUE(is_imported(self, self->mr, 7));
}

/* Two dma-bufs of one DM: the end of one is not that of the other. */
TEST_F(exported, dm_can_be_exported_twice)
{
	int first = self->fd, second = export_fd(&self->dm);
	struct ibv_mr *mr;

	ASSERT_EQ(2, dmabuf_count());
	self->fd = second;
	mr = import_all(self, RW);
	ASSERT_TRUE(is_imported(self, mr, 8));
	ASSERT_TRUE(is_imported(self, self->mr, 9));
	mr_close(self->mr);
	self->mr = NULL;
	close(first);
	ASSERT_EQ(1, dmabuf_count());
	ASSERT_TRUE(is_imported(self, mr, 10));
	mr_close(mr);
}

TEST_F(exported, dm_can_be_exported_again_after_close)
{
	mr_close(self->mr);
	self->mr = NULL;
	for (int i = 0; i < 20; i++)
		close(export_fd(&self->dm));
	close(self->fd);
	self->fd = -1;
	ASSERT_EQ(0, dmabuf_count());
	ASSERT_TRUE(dm_untouched(&self->dm));
	self->fd = export_fd(&self->dm);
	self->mr = import_all(self, RW);
	ASSERT_TRUE(is_imported(self, self->mr, 11));
}

/* --- Rights */

TEST_F(exported, read_only_mr_refuses_writes_and_atomics)
{
	struct ibv_mr *mr = import_all(self, REMOTE_READ);

	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_READ, SIZE, 0, mr->rkey));
	ASSERT_EQ(0, memcmp(self->host.cpu, self->dm.before, SIZE));
	memset(self->host.cpu, 0xff, HOST_SIZE);
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, host_op(self, IBV_WR_RDMA_WRITE, 8, 0, mr->rkey));
	pair_connect(&self->pair, IBV_MTU_1024);
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
		  atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, self->host_mr, IOVA,
			    mr->rkey, 1, 0));
	pair_connect(&self->pair, IBV_MTU_1024);
	ASSERT_EQ(IBV_WC_LOC_PROT_ERR, local_op(self, IBV_WR_RDMA_READ, mr, 0, 8));
	ASSERT_TRUE(dm_untouched(&self->dm));
	mr_close(mr);
}

TEST_F(exported, qp_of_another_pd_is_refused)
{
	struct ibv_pd *pd = must(ibv_alloc_pd(self->ctx[IMPORTER]));
	struct ibv_mr *mr = must(ibv_reg_mr_fd_iova(pd, 0, BUF_SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF,
						    self->fd, RW));

	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, host_op(self, IBV_WR_RDMA_WRITE, 8, 0, mr->rkey));
	ASSERT_TRUE(dm_untouched(&self->dm));
	mr_close(mr);
	pd_close(pd);
}

TEST_F(exported, window_reaches_its_range_only)
{
	struct ibv_mw *mw;
	struct ibv_mr *mr;

	need("window-dma-buf");
	mr = import_all(self, ALL_ACCESS);
	mw = window_alloc(self->pair.pd, IBV_MW_TYPE_2);
	ASSERT_EQ(IBV_WC_SUCCESS, window_bind(&self->pair, mw, mr->lkey, IOVA + 100, PAGE,
					      REMOTE_WRITE));
	fill(self->host.cpu, PAGE, 12);
	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, PAGE, 100, mw->rkey));
	ASSERT_TRUE(dm_got(self, 100, PAGE, 12));
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, host_op(self, IBV_WR_RDMA_WRITE, 8, 99, mw->rkey));
	ASSERT_EQ(0, ibv_dealloc_mw(mw));
	ASSERT_TRUE(dm_untouched(&self->dm));
	mr_close(mr);
}

/* An MR comes from other memory and goes there again. */
TEST_F(exported, rereg_moves_an_mr_to_the_dm_and_back)
{
	struct memory memfd;
	struct ibv_mr *mr;

	need("rereg_mr_fd");
	memory_open(&memfd, MEMFD, BUF_SIZE);
	mr = memory_reg(&memfd, self->pair.pd, RW);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, ibv_rereg_mr_fd_iova(mr, TRANS, NULL, 0, BUF_SIZE, IOVA,
						  IBV_MR_FD_TYPE_DMABUF, self->fd, 0));
		ASSERT_TRUE(is_imported(self, mr, 13 + i));
		ASSERT_TRUE(memory_is_zero(&memfd));
		ASSERT_EQ(0, memory_rereg(mr, TRANS, NULL, &memfd, 0));
		fill(self->host.cpu, BUF_SIZE, 20 + i);
		ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, BUF_SIZE, 0, mr->rkey));
		ASSERT_TRUE(filled(memfd.cpu, BUF_SIZE, 20 + i, "memfd"));
		ASSERT_TRUE(dm_untouched(&self->dm));
		memset(memfd.cpu, 0, BUF_SIZE);
	}
	mr_close(mr);
	memory_close(&memfd);
}

/* --- Who does not get it */

/* Drivers, and the test importer, that hold what they import and cannot be told to let it go. */
TEST_F(exported, importer_that_cannot_be_told_is_refused)
{
	static const char *const drivers[] = { "vgem", "qxl" };

	for (int i = 0; i < ARRAY_SIZE(drivers); i++) {
		int card = memory_open_card(drivers[i]);
		uint32_t handle;

		ASSERT_LE(0, card);
		for (int n = 0; n < 3; n++)
			ASSERT_NE(0, drmPrimeFDToHandle(card, self->fd, &handle));
		close(card);
	}
	ASSERT_EQ(-1, import_for_dma(self->fd, 0));
	ASSERT_EQ(EOPNOTSUPP, errno);
	ASSERT_TRUE(is_imported(self, self->mr, 16));
	mr_close(self->mr);
	self->mr = import_all(self, RW);
	ASSERT_TRUE(is_imported(self, self->mr, 17));
}

/* There is no fd left for it, and nothing is left of it. */
TEST_F(exported, export_without_a_free_fd_is_emfile)
{
	struct rlimit limit, less;
	int lowest = dup(0), count = dmabuf_count();

	ASSERT_LE(0, lowest);
	ASSERT_EQ(0, close(lowest));
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
	less = limit;
	less.rlim_cur = lowest;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &less));
	for (int i = 0; i < 20; i++) {
		ASSERT_EQ(-1, ibv_dm_export_dmabuf_fd(self->dm.dm));
		ASSERT_EQ(EMFILE, errno);
	}
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	ASSERT_EQ(count, dmabuf_count());
	close(export_fd(&self->dm));
	ASSERT_TRUE(is_imported(self, self->mr, 18));
}

int main(int argc, char **argv)
{
	return harness_run(argc, argv, other_prepare);
}
