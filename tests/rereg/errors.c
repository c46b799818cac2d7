// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: smp; devices: all */
/* runs: full debug-full; devices: pinned */
/*
 * A rereg that fails reports the class of the error and the reason, and the MR is unchanged: its
 * fields, keys, memory, rights and PD.
 *
 * The class is in its return value and the reason in errno.  A case checks this with data after
 * every mistake, for every kind of memory that the MR may have, by the library and by raw
 * write() commands.
 */
#include "lib/counts.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/uverbs.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define SIZE (8 * PAGE)
#define INPUT IBV_REREG_MR_ERR_INPUT
#define CMD IBV_REREG_MR_ERR_CMD	/* of ibv_rereg_mr() only: the kernel refused */
#define DMABUF IBV_MR_FD_TYPE_DMABUF
#define SHMEM IBV_MR_FD_TYPE_MEMFD

FIXTURE(mr)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd, *other_pd;
	struct memory at, vgem, local;
	struct ibv_mr *local_mr, *mr, was;
	int memfd;		/* SIZE bytes */
	long pinned;
	int mrs;
};

FIXTURE_VARIANT(mr)
{
	enum memory_kind kind;
};

FIXTURE_VARIANT_ADD(mr, on_host_memory) { .kind = HOST };
FIXTURE_VARIANT_ADD(mr, on_vgem) { .kind = VGEM };
/* runs: full */
FIXTURE_VARIANT_ADD(mr, on_memfd) { .kind = MEMFD };
/* runs: full */
FIXTURE_VARIANT_ADD(mr, on_qxl) { .kind = QXL };

FIXTURE_SETUP(mr)
{
	need("rereg_mr_fd");
	need("memfd");
	self->ctx = device_open();
	self->pd = must(ibv_alloc_pd(self->ctx));
	self->other_pd = must(ibv_alloc_pd(self->ctx));
	memory_open_filled(&self->at, variant->kind, SIZE, 1);
	memory_open_filled(&self->vgem, VGEM, SIZE, 2);
	memory_open_filled(&self->local, HOST, SIZE, 3);
	self->memfd = memfd_of(SIZE, MFD_ALLOW_SEALING);
	self->local_mr = memory_reg(&self->local, self->pd, WRITE_ACCESS);
	self->mr = memory_reg(&self->at, self->pd, WRITE_ACCESS);
	self->was = *self->mr;
	self->pinned = pinned_kb();
	self->mrs = mr_count();
}

FIXTURE_TEARDOWN(mr)
{
	mr_close(self->mr);
	mr_close(self->local_mr);
	EXPECT_EQ(0, pinned_kb());
	pd_close(self->pd);
	pd_close(self->other_pd);
	memory_close(&self->at);
	memory_close(&self->vgem);
	memory_close(&self->local);
	if (self->memfd > 0)
		close(self->memfd);
	device_close(self->ctx);
}

static enum ibv_wc_status op(FIXTURE_DATA(mr) *self, struct ibv_pd *pd, enum ibv_wr_opcode opcode,
			     uint64_t addr, uint32_t n)
{
	enum ibv_wc_status status;
	struct pair pair;

	pair_open(&pair, self->ctx, (struct ibv_pd *[]){ self->pd, pd });
	status = rdma_op(&pair, opcode, self->local_mr, self->local.iova, n, addr,
			 self->was.rkey);
	pair_close(&pair);
	return status;
}

static bool as_it_was(FIXTURE_DATA(mr) *self)
{
	uint64_t iova = self->at.iova, end = iova + self->at.size;
	static uint32_t seed = 50;

	if (memcmp(&self->was, self->mr, sizeof(self->was)))
		return printf("# the fields of the MR have changed\n"), false;
	fill(self->local.cpu, 3000, ++seed);
	memory_mark(&self->at);
	return op(self, self->pd, IBV_WR_RDMA_WRITE, end - 3000, 3000) == IBV_WC_SUCCESS &&
	       filled(self->at.cpu + self->at.size - 3000, 3000, seed, "old memory") &&
	       memory_only_changed(&self->at, self->at.size - 3000, 3000) &&
	       memory_untouched(&self->vgem) &&
	       op(self, self->pd, IBV_WR_RDMA_WRITE, end - 1, 2) == IBV_WC_REM_ACCESS_ERR &&
	       op(self, self->pd, IBV_WR_RDMA_READ, iova, 8) == IBV_WC_REM_ACCESS_ERR &&
	       op(self, self->other_pd, IBV_WR_RDMA_WRITE, iova, 8) == IBV_WC_REM_ACCESS_ERR &&
	       pinned_kb() == self->pinned && mr_count() == self->mrs;
}

#define EXPECT_FAILS(class, err, call) do {				\
	errno = 0;							\
	EXPECT_EQ(class, call);						\
	EXPECT_EQ(err, errno);						\
	EXPECT_TRUE(as_it_was(self)) { TH_LOG("after " #call); }	\
} while (0)

#define rereg_fd(flags, pd, offset, length, iova, type, fd, access)	\
	ibv_rereg_mr_fd_iova(self->mr, flags, pd, offset, length, iova, type, fd, access)

TEST_F_TIMEOUT(mr, rereg_with_invalid_arguments_is_einval, 60)
{
	struct ibv_context *ctx = device_open();
	struct ibv_pd *foreign = must(ibv_alloc_pd(ctx));
	int fd = self->vgem.fd;

	EXPECT_FAILS(INPUT, EINVAL, rereg_fd(0, NULL, 0, SIZE, 0, DMABUF, fd, 0));
	EXPECT_FAILS(INPUT, EINVAL, rereg_fd(8, NULL, 0, SIZE, 0, DMABUF, fd, 0));
	EXPECT_FAILS(INPUT, EINVAL, rereg_fd(TRANS, NULL, 0, 0, 0, DMABUF, fd, 0));
	EXPECT_FAILS(INPUT, EINVAL, rereg_fd(TRANS, NULL, 0, SIZE, 0, DMABUF, fd, WRITE_ACCESS));
	EXPECT_FAILS(INPUT, EINVAL, rereg_fd(CHANGE_PD, NULL, 0, 0, 0, DMABUF, -1, 0));
	EXPECT_FAILS(INPUT, EINVAL, rereg_fd(CHANGE_PD, foreign, 0, 0, 0, DMABUF, -1, 0));
	EXPECT_FAILS(INPUT, EINVAL, ibv_rereg_mr(self->mr, 8, NULL, NULL, 0, 0));
	/* ibv_rereg_mr() leaves this one to the kernel. */
	EXPECT_FAILS(CMD, EINVAL, ibv_rereg_mr(self->mr, 0, NULL, NULL, 0, 0));
	EXPECT_EQ(0, ibv_dealloc_pd(foreign));
	device_close(ctx);
}

TEST_F_TIMEOUT(mr, rereg_to_invalid_range_changes_nothing, 60)
{
	int fd = self->vgem.fd;

	EXPECT_FAILS(INPUT, ERANGE, rereg_fd(TRANS, NULL, 0, SIZE + 1, 0, DMABUF, fd, 0));
	EXPECT_FAILS(INPUT, ERANGE, rereg_fd(TRANS, NULL, SIZE, 1, 0, DMABUF, fd, 0));
	EXPECT_FAILS(INPUT, ERANGE, rereg_fd(TRANS, NULL, 0, SIZE + 1, 0, SHMEM, self->memfd, 0));
	EXPECT_FAILS(INPUT, EOVERFLOW, rereg_fd(TRANS, NULL, -PAGE, 2 * PAGE, 0, DMABUF, fd, 0));
	EXPECT_FAILS(INPUT, EOVERFLOW, rereg_fd(TRANS, NULL, 0, SIZE, -PAGE, DMABUF, fd, 0));
	EXPECT_FAILS(INPUT, EINVAL, rereg_fd(TRANS, NULL, 0, SIZE, 1, DMABUF, fd, 0));
	EXPECT_FAILS(INPUT, EINVAL, rereg_fd(TRANS, NULL, 7, PAGE, 8, SHMEM, self->memfd, 0));
	/* One of three changes is not possible, so none is made. */
	EXPECT_FAILS(INPUT, ERANGE, rereg_fd(CHANGE_ALL, self->other_pd, 0, SIZE + 1, 0, DMABUF, fd,
					     REMOTE_READ));
}

TEST_F_TIMEOUT(mr, rereg_to_invalid_fd_changes_nothing, 60)
{
	int null = open("/dev/null", O_RDWR);

	EXPECT_FAILS(INPUT, EBADF, rereg_fd(TRANS, NULL, 0, SIZE, 0, DMABUF, 999, 0));
	EXPECT_FAILS(INPUT, EBADF, rereg_fd(TRANS, NULL, 0, SIZE, 0, DMABUF, -1, 0));
	EXPECT_FAILS(INPUT, EBADF, rereg_fd(TRANS, NULL, 0, SIZE, 0, SHMEM, 999, 0));
	EXPECT_FAILS(INPUT, EBADFD, rereg_fd(TRANS, NULL, 0, SIZE, 0, DMABUF, self->memfd, 0));
	EXPECT_FAILS(INPUT, EBADFD, rereg_fd(TRANS, NULL, 0, SIZE, 0, SHMEM, self->vgem.fd, 0));
	EXPECT_FAILS(INPUT, EBADFD, rereg_fd(TRANS, NULL, 0, SIZE, 0, SHMEM, null, 0));
	EXPECT_FAILS(INPUT, EINVAL, rereg_fd(TRANS, NULL, 0, SIZE, 0, 0, self->memfd, 0));
	EXPECT_FAILS(INPUT, EINVAL, rereg_fd(TRANS, NULL, 0, SIZE, 0, 77, self->memfd, 0));
	close(null);
}

TEST_F_TIMEOUT(mr, rereg_to_unsupported_rights_changes_nothing, 60)
{
	int fd = self->vgem.fd;

	EXPECT_FAILS(INPUT, EINVAL, rereg_fd(CHANGE_ACCESS, NULL, 0, 0, 0, 0, -1, REMOTE_WRITE));
	EXPECT_FAILS(INPUT, EINVAL, rereg_fd(TRANS | CHANGE_ACCESS, NULL, 0, SIZE, 0, DMABUF, fd,
					     REMOTE_ATOMIC));
	EXPECT_FAILS(INPUT, EINVAL, rereg_fd(CHANGE_ACCESS, NULL, 0, 0, 0, 0, -1,
					     WRITE_ACCESS | 1 << 15));
	EXPECT_FAILS(INPUT, EOPNOTSUPP, rereg_fd(TRANS | CHANGE_ACCESS, NULL, 0, SIZE, 0, DMABUF,
						 fd, WRITE_ACCESS | IBV_ACCESS_ON_DEMAND));
	EXPECT_FAILS(INPUT, EOPNOTSUPP, rereg_fd(TRANS | CHANGE_ACCESS, NULL, 0, SIZE, 0, DMABUF,
						 fd, WRITE_ACCESS | IBV_ACCESS_FLUSH_GLOBAL));
	EXPECT_FAILS(INPUT, device_can("flush") ? EINVAL : EOPNOTSUPP,
		     rereg_fd(TRANS | CHANGE_ACCESS, NULL, 0, SIZE, 0, SHMEM, self->memfd,
			      WRITE_ACCESS | IBV_ACCESS_FLUSH_PERSISTENT));
}

TEST_F_TIMEOUT(mr, rereg_to_unwritable_file_changes_nothing, 60)
{
	char path[64];
	int ro;

	/* The MR keeps its rights, and with them the right to write. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", self->memfd);
	ro = open(path, O_RDONLY);
	EXPECT_FAILS(INPUT, EACCES, rereg_fd(TRANS, NULL, 0, SIZE, 0, SHMEM, ro, 0));
	EXPECT_FAILS(INPUT, EACCES, rereg_fd(TRANS | CHANGE_ACCESS, NULL, 0, SIZE, 0, SHMEM, ro,
					     WRITE_ACCESS));
	close(ro);
	ASSERT_EQ(0, fcntl(self->memfd, F_ADD_SEALS, F_SEAL_WRITE));
	EXPECT_FAILS(INPUT, EPERM, rereg_fd(TRANS, NULL, 0, SIZE, 0, SHMEM, self->memfd, 0));
	/* An MR of the file can have read access, but not get write access afterwards. */
	ASSERT_EQ(0, rereg_fd(TRANS | CHANGE_ACCESS, NULL, 0, SIZE, 0, SHMEM, self->memfd,
			      REMOTE_READ));
	self->was = *self->mr;
	errno = 0;
	ASSERT_EQ(INPUT, rereg_fd(CHANGE_ACCESS, NULL, 0, 0, 0, 0, -1, WRITE_ACCESS));
	ASSERT_EQ(EACCES, errno);
	ASSERT_EQ(0, memcmp(&self->was, self->mr, sizeof(self->was)));
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, op(self, self->pd, IBV_WR_RDMA_WRITE, 0, 8));
	ASSERT_EQ(IBV_WC_SUCCESS, op(self, self->pd, IBV_WR_RDMA_READ, 0, 8));
}

TEST_F_TIMEOUT(mr, rereg_to_unpinnable_memory_is_efault, 60)
{
	uint8_t *hole = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *ro = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	EXPECT_FAILS(CMD, EFAULT, ibv_rereg_mr(self->mr, TRANS, NULL, hole, SIZE, 0));
	EXPECT_FAILS(CMD, EFAULT, ibv_rereg_mr(self->mr, CHANGE_ALL, self->other_pd, ro, SIZE,
					       WRITE_ACCESS | REMOTE_READ));
	munmap(hole, SIZE);
	munmap(ro, SIZE);
}

/*
 * A thread without CAP_IPC_LOCK.  Only the thread gives it up, because a process with
 * changed credentials may not write() commands any more.
 */
static void *rereg_without_privilege(void *arg)
{
	FIXTURE_DATA(mr) *self = arg;
	int big = memfd_create("big", 0);
	intptr_t result;

	if (ftruncate(big, 4 * SIZE) || syscall(SYS_setresuid, 65534, 65534, 65534))
		fail_case("make a big memfd and drop privileges");
	errno = 0;
	result = rereg_fd(TRANS, NULL, 0, 4 * SIZE, 0, SHMEM, big, 0);
	if (result == INPUT && errno == ENOMEM)
		result = rereg_fd(TRANS, NULL, 0, 4 * SIZE, 0, SHMEM, big, 0);
	if (result == INPUT && errno != ENOMEM)
		result = 0;
	close(big);
	return (void *)result;
}

TEST_F_TIMEOUT(mr, rereg_above_memlock_limit_is_enomem, 60)
{
	struct rlimit limit = { .rlim_cur = 3 * SIZE, .rlim_max = 3 * SIZE };
	pthread_t thread;
	void *result;

	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &limit));
	ASSERT_EQ(0, pthread_create(&thread, NULL, rereg_without_privilege, self));
	ASSERT_EQ(0, pthread_join(thread, &result));
	EXPECT_EQ(INPUT, (intptr_t)result);
	EXPECT_TRUE(as_it_was(self));
}

/* Without the library, which would refuse the call. */
static int raw_rereg_fd(FIXTURE_DATA(mr) *self, uint32_t flags, uint32_t pd_handle,
			uint32_t mr_handle)
{
	struct fd_call c = {
		.rereg = true, .mr = mr_handle, .flags = flags, .pd = pd_handle,
		.access = WRITE_ACCESS, .type = SHMEM, .fd = self->memfd, .length = SIZE,
	};
	struct keys keys;

	return fd_call(self->ctx->cmd_fd, &c, &keys);
}

TEST_F_TIMEOUT(mr, kernel_refuses_invalid_rereg, 60)
{
	uint32_t pd = self->pd->handle, mr = self->mr->handle;

	EXPECT_EQ(EINVAL, raw_rereg_fd(self, 0, pd, mr));
	EXPECT_EQ(EINVAL, raw_rereg_fd(self, 8, pd, mr));
	EXPECT_EQ(EINVAL, raw_rereg_fd(self, -1, pd, mr));
	EXPECT_NE(0, raw_rereg_fd(self, CHANGE_PD, 12345, mr));	/* nothing */
	EXPECT_NE(0, raw_rereg_fd(self, CHANGE_PD, mr, mr));		/* no PD */
	EXPECT_NE(0, raw_rereg_fd(self, TRANS, pd, 12345));
	EXPECT_NE(0, raw_rereg_fd(self, TRANS, pd, pd));	/* no MR */
	EXPECT_TRUE(as_it_was(self));
}

TEST_HARNESS_MAIN
