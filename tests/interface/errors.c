// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; devices: rxe */
/* runs: quick debug-full; devices: connectx */
/* runs: full debug-full; devices: pinned */
/*
 * Each mistake in a registration by fd has its errno, and leaves no MR and no reference on the
 * buffer behind.
 */
#include "lib/counts.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/uverbs.h"
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#define SIZE (64 * PAGE)

FIXTURE(reg)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct memory buf;
};

FIXTURE_SETUP(reg)
{
	ASSERT_TRUE(nothing_left());
	need("reg_mr_fd");
	self->ctx = device_open();
	self->pd = must(ibv_alloc_pd(self->ctx));
	memory_open(&self->buf, VGEM, SIZE);
}

FIXTURE_TEARDOWN(reg)
{
	/* No failed call holds the buffer, so closing it here releases it. */
	memory_close(&self->buf);
	EXPECT_TRUE(nothing_left());
	pd_close(self->pd);
	device_close(self->ctx);
}

static int errno_of(struct ibv_pd *pd, uint64_t offset, uint64_t length, uint64_t iova, int type,
		    int fd, int access)
{
	errno = 0;
	return ibv_reg_mr_fd_iova(pd, offset, length, iova, type, fd, access) ? 0 : errno;
}

#define DMABUF IBV_MR_FD_TYPE_DMABUF

TEST_F(reg, closed_fd_is_ebadf)
{
	ASSERT_EQ(EBADF, errno_of(self->pd, 0, PAGE, 0, DMABUF, 999, RW));
	ASSERT_EQ(EBADF, errno_of(self->pd, 0, PAGE, 0, DMABUF, -1, RW));
}

TEST_F(reg, fd_that_is_no_dma_buf_is_ebadfd)
{
	int memfd = memfd_of(SIZE, 0);

	ASSERT_EQ(EBADFD, errno_of(self->pd, 0, PAGE, 0, DMABUF, memfd, RW));
	ASSERT_EQ(EBADFD, errno_of(self->pd, 0, PAGE, 0, DMABUF, self->buf.drm_fd, RW));
	close(memfd);
}

TEST_F(reg, range_past_the_end_is_erange)
{
	uint64_t size = self->buf.size;

	ASSERT_EQ(ERANGE, errno_of(self->pd, 0, size + 1, 0, DMABUF, self->buf.fd, RW));
	ASSERT_EQ(ERANGE, errno_of(self->pd, size - 1, 2, size - 1, DMABUF, self->buf.fd, RW));
	ASSERT_EQ(ERANGE, errno_of(self->pd, size, 1, size, DMABUF, self->buf.fd, RW));
	ASSERT_EQ(ERANGE, errno_of(self->pd, 0, 1ul << 62, 0, DMABUF, self->buf.fd, RW));
}

TEST_F(reg, range_that_wraps_is_eoverflow)
{
	ASSERT_EQ(EOVERFLOW, errno_of(self->pd, -PAGE, 2 * PAGE, 0, DMABUF, self->buf.fd, RW));
	ASSERT_EQ(EOVERFLOW, errno_of(self->pd, 0, 2 * PAGE, -PAGE, DMABUF, self->buf.fd, RW));
	ASSERT_EQ(EOVERFLOW, errno_of(self->pd, 1, -1, 1, DMABUF, self->buf.fd, RW));
}

TEST_F(reg, zero_length_is_einval)
{
	ASSERT_EQ(EINVAL, errno_of(self->pd, 0, 0, 0, DMABUF, self->buf.fd, RW));
}

TEST_F(reg, iova_not_congruent_to_offset_is_einval)
{
	ASSERT_EQ(EINVAL, errno_of(self->pd, 0, PAGE, 1, DMABUF, self->buf.fd, RW));
	ASSERT_EQ(EINVAL, errno_of(self->pd, 100, 8, PAGE + 101, DMABUF, self->buf.fd, RW));
}

TEST_F(reg, unknown_type_is_einval)
{
	ASSERT_EQ(EINVAL, errno_of(self->pd, 0, PAGE, 0, 0, self->buf.fd, RW));
	ASSERT_EQ(EINVAL, errno_of(self->pd, 0, PAGE, 0, 77, self->buf.fd, RW));
}

TEST_F(reg, write_or_atomic_without_local_write_is_einval)
{
	ASSERT_EQ(EINVAL, errno_of(self->pd, 0, PAGE, 0, DMABUF, self->buf.fd,
				   REMOTE_WRITE));
	ASSERT_EQ(EINVAL, errno_of(self->pd, 0, PAGE, 0, DMABUF, self->buf.fd,
				   REMOTE_ATOMIC));
}

TEST_F(reg, unknown_access_flag_is_einval)
{
	ASSERT_EQ(EINVAL, errno_of(self->pd, 0, PAGE, 0, DMABUF, self->buf.fd, RW | 1 << 15));
}

TEST_F(reg, on_demand_and_flush_are_eopnotsupp)
{
	ASSERT_EQ(EOPNOTSUPP, errno_of(self->pd, 0, PAGE, 0, DMABUF, self->buf.fd,
				       RW | IBV_ACCESS_ON_DEMAND));
	ASSERT_EQ(EOPNOTSUPP, errno_of(self->pd, 0, PAGE, 0, DMABUF, self->buf.fd,
				       RW | IBV_ACCESS_FLUSH_GLOBAL));
	ASSERT_EQ(EOPNOTSUPP, errno_of(self->pd, 0, PAGE, 0, DMABUF, self->buf.fd,
				       RW | IBV_ACCESS_FLUSH_PERSISTENT));
}

TEST_F(reg, rereg_adding_flush_access_is_eopnotsupp)
{
	struct ibv_mr *mr = must(ibv_reg_mr_fd(self->pd, NULL, PAGE, DMABUF, self->buf.fd, RW));
	struct keys keys;

	ASSERT_EQ(EOPNOTSUPP, host_rereg(self->ctx->cmd_fd, mr->handle,
					 CHANGE_ACCESS, 0, 0, 0, 0,
					 RW | IBV_ACCESS_FLUSH_GLOBAL, &keys));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(reg, write_access_to_read_only_fd_is_eacces)
{
	int fd = heap_fd(SIZE, O_RDONLY);
	struct ibv_mr *mr;

	ASSERT_EQ(EACCES, errno_of(self->pd, 0, PAGE, 0, DMABUF, fd, RW));
	ASSERT_EQ(EACCES, errno_of(self->pd, 0, PAGE, 0, DMABUF, fd, IBV_ACCESS_MW_BIND));
	mr = must(ibv_reg_mr_fd(self->pd, NULL, PAGE, DMABUF, fd, REMOTE_READ));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
	close(fd);
}

/* What is in such a file must stay: mmap(2) refuses to map it for writing too. */
TEST_F(reg, write_access_to_append_only_file_is_eacces)
{
	int memfd = memfd_of(SIZE, 0), flags = FS_APPEND_FL;

	ASSERT_EQ(0, ioctl(memfd, FS_IOC_SETFLAGS, &flags));
	ASSERT_EQ(EACCES, errno_of(self->pd, 0, PAGE, 0, IBV_MR_FD_TYPE_MEMFD, memfd, RW));
	ASSERT_EQ(EACCES, errno_of(self->pd, 0, PAGE, 0, IBV_MR_FD_TYPE_MEMFD, memfd,
				   IBV_ACCESS_MW_BIND));
	mr_close(must(ibv_reg_mr_fd_iova(self->pd, 0, PAGE, 0, IBV_MR_FD_TYPE_MEMFD, memfd,
					 REMOTE_READ)));
	close(memfd);
}

TEST_F(reg, write_only_fd_is_eacces)
{
	int fd = heap_fd(SIZE, O_WRONLY);

	ASSERT_EQ(EACCES, errno_of(self->pd, 0, PAGE, 0, DMABUF, fd, RW));
	close(fd);
}

static int errno_of_dmabuf(FIXTURE_DATA(reg) *self, uint64_t offset, uint64_t length,
			   uint64_t iova, int fd)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(self->pd, offset, length, iova, fd, RW);

	return mr ? ibv_dereg_mr(mr) : errno;
}

/* They are those of the drivers that had it first. */
TEST_F(reg, ibv_reg_dmabuf_mr_has_the_errnos_of_upstream)
{
	int memfd = memfd_of(SIZE, 0);
	uint64_t size = self->buf.size;

	ASSERT_EQ(EBADF, errno_of_dmabuf(self, 0, PAGE, 0, 999));
	ASSERT_EQ(EBADF, errno_of_dmabuf(self, 0, PAGE, 0, -1));
	ASSERT_EQ(EINVAL, errno_of_dmabuf(self, 0, PAGE, 0, memfd));
	ASSERT_EQ(EINVAL, errno_of_dmabuf(self, 0, size + 1, 0, self->buf.fd));
	ASSERT_EQ(EINVAL, errno_of_dmabuf(self, -PAGE, 2 * PAGE, 0, self->buf.fd));
	/* A driver with an operation for dma-bufs only does not look at the end of the iova. */
	if (!device_can("old-op"))
		ASSERT_EQ(EINVAL, errno_of_dmabuf(self, 0, PAGE, -PAGE, self->buf.fd));
	ASSERT_EQ(EINVAL, errno_of_dmabuf(self, 0, PAGE, 1, self->buf.fd));
	ASSERT_EQ(EINVAL, errno_of_dmabuf(self, 0, 0, 0, self->buf.fd));
	ASSERT_EQ(0, errno_of_dmabuf(self, 0, size, 0, self->buf.fd));
	close(memfd);
}

/* No device looks at it: programs export without DRM_RDWR for this function. */
TEST_F(reg, ibv_reg_dmabuf_mr_ignores_the_mode_of_the_fd)
{
	int fd = heap_fd(SIZE, O_RDONLY);

	ASSERT_EQ(0, errno_of_dmabuf(self, 0, SIZE, 0, fd));
	close(fd);
}

TEST_F(reg, device_without_the_op_is_eopnotsupp)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;

	ASSERT_EQ(0, system("rdma link add siw0 type siw netdev eth0-peer"));
	ctx = device_open_named("siw0");
	pd = must(ibv_alloc_pd(ctx));
	/* The library says so without asking the kernel; interface/buffers asks it. */
	ASSERT_EQ(EOPNOTSUPP, errno_of(pd, 0, PAGE, 0, DMABUF, self->buf.fd, RW));
	ASSERT_EQ(0, ibv_dealloc_pd(pd));
	device_close(ctx);
	ASSERT_EQ(0, system("rdma link delete siw0"));
}

TEST_F(reg, close_frees_an_mr_that_the_library_does_not_know)
{
	struct fd_call c = {
		.pd = self->pd->handle, .access = RW, .type = IB_UVERBS_BUFFER_TYPE_DMABUF,
		.fd = self->buf.fd, .length = SIZE,
	};
	struct keys keys;

	/* So closing the device has to release it. */
	ASSERT_EQ(0, fd_call(self->pd->context->cmd_fd, &c, &keys));
	ASSERT_EQ(1, mr_count());
	/* The MR uses the PD, so the PD cannot be deallocated before. */
	device_close(self->ctx);
	self->pd = NULL;
	self->ctx = NULL;
	ASSERT_EQ(0, mr_count());
}

TEST_HARNESS_MAIN
