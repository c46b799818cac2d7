// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: rxe */
/* runs: full debug-full; devices: connectx */
/*
 * On a kernel without registration by fd, or with a provider that does not use it, the library
 * registers by other means, with the same errors; there is no re-registration by fd.  It exports
 * device memory by upstream's method.
 *
 * The program plays that kernel.  With MRFD_OLD_KERNEL in the environment it runs on one
 * (tests/host/test_debian.py) and leaves the answers to it.
 */
#include "interface/fakekernel.h"
#include "lib/counts.h"
#include "lib/dm.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <fcntl.h>
#include <sys/mman.h>

#define SIZE (16 * PAGE)
#define HUGE_PAGE (1ul << 21)
#define DMABUF IBV_MR_FD_TYPE_DMABUF
#define SHMEM IBV_MR_FD_TYPE_MEMFD
#define INPUT IBV_REREG_MR_ERR_INPUT

/* The same open file with other rights, or only as a path. */
static int reopen(int fd, int flags)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, flags | O_CLOEXEC);
	if (again < 0)
		fail_case("open %s again", path);
	return again;
}

static int write_number(const char *path, int number)
{
	FILE *f = must(fopen(path, "w"));

	fprintf(f, "%d\n", number);
	return fclose(f);
}

#define NR_HUGE_PAGES "/proc/sys/vm/nr_hugepages"

FIXTURE(old)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory memfd, vgem, host;	/* marked */
	struct ibv_mr *host_mr;
	int mapped;				/* mappings() without those of MRs */
	long pinned;				/* the same of pinned_kb(): a pair may have some */
	bool huge;				/* the case has reserved huge pages */
};

FIXTURE_SETUP(old)
{
	ASSERT_TRUE(nothing_left());
	kernel.old = !getenv("MRFD_OLD_KERNEL");
	self->ctx = device_open();
	ASSERT_LT(0, kernel.calls) { TH_LOG("the library does not call our ioctl()"); }
	pair_open(&self->pair, self->ctx, NULL);
	self->pinned = pinned_kb();
	memory_open_filled(&self->memfd, MEMFD, SIZE, 1);
	memory_open_filled(&self->vgem, VGEM, SIZE, 2);
	memory_open_filled(&self->host, HOST, SIZE, 3);
	self->host_mr = memory_reg(&self->host, self->pair.pd, ALL_ACCESS);
	self->mapped = mappings();
}

FIXTURE_TEARDOWN(old)
{
	mr_close(self->host_mr);
	EXPECT_EQ(self->pinned, pinned_kb());
	pair_close(&self->pair);
	memory_close(&self->memfd);
	memory_close(&self->vgem);
	memory_close(&self->host);
	device_close(self->ctx);
	if (self->huge)
		EXPECT_EQ(0, write_number(NR_HUGE_PAGES, 0));
	EXPECT_TRUE(nothing_left());
}

static struct ibv_mr *reg(FIXTURE_DATA(old) *self, uint64_t offset, size_t length, int type,
			  int fd, int access)
{
	return ibv_reg_mr_fd_iova(self->pair.pd, offset, length, IOVA + offset % PAGE, type, fd,
				  access);
}

/* An MR of all of a memory, with every right. */
static struct ibv_mr *reg_all(FIXTURE_DATA(old) *self, const struct memory *m)
{
	return must(reg(self, 0, m->size, m->fd_type, m->fd, ALL_ACCESS));
}

/* The errno of a registration; one that succeeds is undone. */
static int errno_at(FIXTURE_DATA(old) *self, uint64_t offset, size_t length, uint64_t iova,
		    int type, int fd, int access)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr_fd_iova(self->pair.pd, offset, length, iova, type, fd, access);
	if (!mr)
		return errno;
	mr_close(mr);
	return 0;
}

/* The same where only fd and access matter. */
static int errno_of(FIXTURE_DATA(old) *self, int type, int fd, int access)
{
	return errno_at(self, 0, PAGE, IOVA, type, fd, access);
}

/* Whether N bytes go by RDMA from host memory to byte AT of the memory, and back. */
static bool moves_data(FIXTURE_DATA(old) *self, struct ibv_mr *mr, const struct memory *m,
		       size_t at, uint32_t n)
{
	uint64_t addr = (uintptr_t)mr->addr;
	static uint32_t seed = 100;

	fill(self->host.cpu, n, ++seed);
	if (rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova, n, addr,
		    mr->rkey) != IBV_WC_SUCCESS ||
	    !filled(m->cpu + at, n, seed, "written") || !memory_only_changed(m, at, n))
		return false;
	memset(self->host.cpu, 0, n);
	return rdma_op(&self->pair, IBV_WR_RDMA_WRITE, mr, addr, n, self->host.iova,
		       self->host_mr->rkey) == IBV_WC_SUCCESS &&
	       filled(self->host.cpu, n, seed, "read");
}

TEST_F(old, rdma_reaches_a_memfd)
{
	const size_t offset = 3 * PAGE + 17, n = 2 * PAGE + 100;
	struct ibv_mr *mr = must(reg(self, offset, n, SHMEM, self->memfd.fd, ALL_ACCESS));

	EXPECT_EQ(IOVA + 17, (uintptr_t)mr->addr);
	EXPECT_EQ(n, mr->length);
	EXPECT_EQ(self->pair.pd, mr->pd);
	EXPECT_TRUE(moves_data(self, mr, &self->memfd, offset, n));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr,
						 self->host.iova, 1, IOVA + 17 + n, mr->rkey));
	mr_close(mr);
}

TEST_F(old, rdma_reaches_a_dma_buf)
{
	const size_t offset = PAGE + 8, n = 3 * PAGE;
	struct ibv_mr *mr;

	need("reg_mr_fd");
	mr = must(reg(self, offset, n, DMABUF, self->vgem.fd, RW));
	EXPECT_EQ(IOVA + 8, (uintptr_t)mr->addr);
	EXPECT_TRUE(moves_data(self, mr, &self->vgem, offset, n));
	mr_close(mr);
}

TEST_F(old, ibv_reg_mr_fd_takes_the_offset_from_the_address)
{
	struct ibv_mr *mr = must(ibv_reg_mr_fd(self->pair.pd, (void *)0x123456789ul, 1000, SHMEM,
					       self->memfd.fd, ALL_ACCESS));

	EXPECT_TRUE(moves_data(self, mr, &self->memfd, 0x789, 1000));
	mr_close(mr);
}

TEST_F(old, fd_may_be_closed_after_registration)
{
	struct ibv_mr *mr = reg_all(self, &self->memfd);

	memory_close_fd(&self->memfd);
	EXPECT_TRUE(moves_data(self, mr, &self->memfd, 0, SIZE));
	mr_close(mr);
}

TEST_F(old, tmpfs_file_registers_as_memfd)
{
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, PAGE));
	EXPECT_EQ(0, errno_of(self, SHMEM, fd, RW));
	close(fd);
}

TEST_F(old, mr_may_cross_huge_pages)
{
	struct memory m = { .size = 2 * HUGE_PAGE };
	const size_t offset = HUGE_PAGE - PAGE + 5, n = 2 * PAGE;
	struct ibv_mr *mr;

	self->huge = true;
	ASSERT_EQ(0, write_number(NR_HUGE_PAGES, 2));
	m.fd = memfd_of(m.size, MFD_HUGETLB);
	m.cpu = mmap(NULL, m.size, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
	ASSERT_NE(MAP_FAILED, m.cpu);
	memory_mark(&m);
	mr = must(reg(self, offset, n, SHMEM, m.fd, ALL_ACCESS));
	EXPECT_EQ(self->mapped + 2, mappings());
	EXPECT_TRUE(moves_data(self, mr, &m, offset, n));
	mr_close(mr);
	EXPECT_EQ(self->mapped + 1, mappings());
	munmap(m.cpu, m.size);
	free(m.before);
	close(m.fd);
}

TEST_F(old, dereg_unmaps_the_memfd)
{
	struct ibv_mr *mr = reg_all(self, &self->memfd);

	EXPECT_EQ(self->mapped + 1, mappings());
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	EXPECT_EQ(self->mapped, mappings());
}

TEST_F(old, failed_registration_leaves_no_mapping)
{
	int mrs = mr_count();

	EXPECT_EQ(EINVAL, errno_of(self, SHMEM, self->memfd.fd, REMOTE_WRITE));
	EXPECT_EQ(self->mapped, mappings());
	EXPECT_EQ(mrs, mr_count());
}

/* And not at all if the provider does not use the methods. */
TEST_F(old, library_queries_the_kernel_at_most_once)
{
	for (int i = 0; i < 3; i++)
		mr_close(reg_all(self, &self->memfd));
	EXPECT_EQ(device_can("native") ? 1 : 0, kernel.queries);
}

TEST_F(old, ibv_rereg_mr_to_process_memory_unmaps_the_memfd)
{
	struct ibv_mr *mr;
	struct memory to;

	need("rereg_mr_fd"); /* without it the driver gives no MR new memory */
	mr = reg_all(self, &self->memfd);
	memory_open_filled(&to, HOST, SIZE, 4);
	ASSERT_EQ(0, ibv_rereg_mr(mr, TRANS, NULL, to.cpu, SIZE, 0));
	EXPECT_EQ(self->mapped, mappings());
	EXPECT_EQ(to.cpu, mr->addr);
	EXPECT_TRUE(moves_data(self, mr, &to, 0, SIZE));
	EXPECT_TRUE(memory_untouched(&self->memfd));
	mr_close(mr);
	memory_close(&to);
}

TEST_F(old, ibv_rereg_mr_of_access_keeps_the_mapping)
{
	struct ibv_mr *mr = reg_all(self, &self->memfd);

	ASSERT_EQ(0, ibv_rereg_mr(mr, CHANGE_ACCESS, NULL, NULL, 0, RW));
	EXPECT_EQ(self->mapped + 1, mappings());
	EXPECT_TRUE(moves_data(self, mr, &self->memfd, 0, SIZE));
	mr_close(mr);
	EXPECT_EQ(self->mapped, mappings());
}

TEST_F(old, failed_ibv_rereg_mr_keeps_the_mapping)
{
	struct ibv_mr *mr = reg_all(self, &self->memfd);

	EXPECT_EQ(IBV_REREG_MR_ERR_CMD, ibv_rereg_mr(mr, TRANS, NULL, (void *)PAGE, PAGE, 0));
	EXPECT_EQ(self->mapped + 1, mappings());
	mr_close(mr);
	EXPECT_EQ(self->mapped, mappings());
}

/* Also for an MR of ordinary memory, which would need no older means. */
TEST_F(old, ibv_rereg_mr_fd_is_eopnotsupp_and_changes_nothing)
{
	struct ibv_mr *mr = reg_all(self, &self->memfd), was = *mr;

	EXPECT_EQ(INPUT, ibv_rereg_mr_fd_iova(mr, TRANS, NULL, 0, PAGE, 0, SHMEM, self->memfd.fd,
					      0));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(INPUT, ibv_rereg_mr_fd(self->host_mr, TRANS, NULL, NULL, PAGE, DMABUF,
					 self->vgem.fd, 0));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(0, memcmp(&was, mr, sizeof(was)));
	EXPECT_TRUE(moves_data(self, mr, &self->memfd, 0, SIZE));
	mr_close(mr);
}

TEST_F(old, closed_fd_is_ebadf)
{
	int path = reopen(self->memfd.fd, O_PATH);

	EXPECT_EQ(EBADF, errno_of(self, SHMEM, 999, RW));
	EXPECT_EQ(EBADF, errno_of(self, SHMEM, -1, RW));
	EXPECT_EQ(EBADF, errno_of(self, SHMEM, path, 0));
	if (device_can("reg_mr_fd")) {
		EXPECT_EQ(EBADF, errno_of(self, DMABUF, 999, RW));
		EXPECT_EQ(EBADF, errno_of(self, DMABUF, -1, RW));
	}
	close(path);
}

TEST_F(old, fd_of_another_kind_is_ebadfd)
{
	int null = open("/dev/null", O_RDWR), dir = open("/dev/shm", O_RDONLY);

	EXPECT_EQ(EBADFD, errno_of(self, SHMEM, self->vgem.fd, RW));
	EXPECT_EQ(EBADFD, errno_of(self, SHMEM, null, RW));
	EXPECT_EQ(EBADFD, errno_of(self, SHMEM, dir, 0));
	if (device_can("reg_mr_fd")) {
		EXPECT_EQ(EBADFD, errno_of(self, DMABUF, self->memfd.fd, RW));
		EXPECT_EQ(EBADFD, errno_of(self, DMABUF, self->vgem.drm_fd, RW));
	}
	close(null);
	close(dir);
}

/* Each kind of memory in turn; a dma-buf only if the device registers it at all. */
#define FOR_EACH_MEMORY(m)						\
	for (struct memory *m = &self->memfd; m;			\
	     m = m == &self->memfd && device_can("reg_mr_fd") ? &self->vgem : NULL)

TEST_F(old, range_past_the_end_is_erange)
{
	FOR_EACH_MEMORY(m) {
		int type = m->fd_type, fd = m->fd;

		EXPECT_EQ(ERANGE, errno_at(self, 0, m->size + 1, 0, type, fd, RW));
		EXPECT_EQ(ERANGE, errno_at(self, m->size - 1, 2, PAGE - 1, type, fd, RW));
		EXPECT_EQ(ERANGE, errno_at(self, m->size, 1, 0, type, fd, RW));
		EXPECT_EQ(ERANGE, errno_at(self, 0, 1ul << 62, 0, type, fd, RW));
	}
}

TEST_F(old, range_that_wraps_is_eoverflow)
{
	FOR_EACH_MEMORY(m) {
		int type = m->fd_type, fd = m->fd;

		EXPECT_EQ(EOVERFLOW, errno_at(self, -PAGE, 2 * PAGE, 0, type, fd, RW));
		EXPECT_EQ(EOVERFLOW, errno_at(self, 0, 2 * PAGE, -PAGE, type, fd, RW));
		EXPECT_EQ(EOVERFLOW, errno_at(self, 1, -1, 1, type, fd, RW));
	}
}

TEST_F(old, zero_length_is_einval)
{
	FOR_EACH_MEMORY(m) {
		EXPECT_EQ(EINVAL, errno_at(self, 0, 0, 0, m->fd_type, m->fd, RW));
	}
}

TEST_F(old, iova_not_congruent_to_offset_is_einval)
{
	FOR_EACH_MEMORY(m) {
		EXPECT_EQ(EINVAL, errno_at(self, 0, PAGE, 1, m->fd_type, m->fd, RW));
		EXPECT_EQ(EINVAL, errno_at(self, 100, 8, PAGE + 101, m->fd_type, m->fd, RW));
	}
}

TEST_F(old, unknown_type_is_einval)
{
	EXPECT_EQ(EINVAL, errno_of(self, 0, self->memfd.fd, RW));
	EXPECT_EQ(EINVAL, errno_of(self, 77, self->memfd.fd, RW));
}

TEST_F(old, write_access_to_read_only_fd_is_eacces)
{
	int memfd = reopen(self->memfd.fd, O_RDONLY), dmabuf = heap_fd(SIZE, O_RDONLY);

	EXPECT_EQ(EACCES, errno_of(self, SHMEM, memfd, RW));
	EXPECT_EQ(EACCES, errno_of(self, SHMEM, memfd, IBV_ACCESS_MW_BIND));
	EXPECT_EQ(0, errno_of(self, SHMEM, memfd, REMOTE_READ));
	if (device_can("reg_mr_fd")) {
		EXPECT_EQ(EACCES, errno_of(self, DMABUF, dmabuf, RW));
		EXPECT_EQ(0, errno_of(self, DMABUF, dmabuf, REMOTE_READ));
	}
	close(memfd);
	close(dmabuf);
}

TEST_F(old, write_only_fd_is_eacces)
{
	int fd = reopen(self->memfd.fd, O_WRONLY);

	EXPECT_EQ(EACCES, errno_of(self, SHMEM, fd, RW));
	EXPECT_EQ(EACCES, errno_of(self, SHMEM, fd, 0));
	close(fd);
}

TEST_F(old, write_access_to_sealed_memfd_is_eperm)
{
	static const int seals[] = { F_SEAL_WRITE, F_SEAL_FUTURE_WRITE };

	for (int i = 0; i < 2; i++) {
		int fd = memfd_of(SIZE, MFD_ALLOW_SEALING);

		ASSERT_EQ(0, fcntl(fd, F_ADD_SEALS, seals[i]));
		EXPECT_EQ(EPERM, errno_of(self, SHMEM, fd, LOCAL_WRITE));
		EXPECT_EQ(EPERM, errno_of(self, SHMEM, fd, IBV_ACCESS_MW_BIND));
		EXPECT_EQ(0, errno_of(self, SHMEM, fd, REMOTE_READ));
		close(fd);
	}
}

TEST_F(old, refused_access_flag_keeps_the_kernels_errno)
{
	EXPECT_EQ(EINVAL, errno_of(self, SHMEM, self->memfd.fd, RW | 1 << 15));
	EXPECT_EQ(EOPNOTSUPP, errno_of(self, SHMEM, self->memfd.fd, RW | IBV_ACCESS_ON_DEMAND));
	if (device_can("flush"))
		EXPECT_EQ(EINVAL, errno_of(self, SHMEM, self->memfd.fd,
					   RW | IBV_ACCESS_FLUSH_PERSISTENT));
	if (device_can("reg_mr_fd")) {
		EXPECT_EQ(EOPNOTSUPP, errno_of(self, DMABUF, self->vgem.fd,
					       RW | IBV_ACCESS_FLUSH_GLOBAL));
		EXPECT_EQ(EOPNOTSUPP, errno_of(self, DMABUF, self->vgem.fd,
					       RW | IBV_ACCESS_MW_BIND));
	}
}

TEST_F(old, query_mr_fd_caps_says_what_the_library_can_do)
{
	uint32_t caps = 77;

	EXPECT_EQ(0, ibv_query_mr_fd_caps(self->ctx, DMABUF, &caps));
	EXPECT_EQ(device_can("reg_mr_fd") ? IBV_MR_FD_CAP_REG : 0, caps);
	EXPECT_EQ(0, ibv_query_mr_fd_caps(self->ctx, SHMEM, &caps));
	EXPECT_EQ(IBV_MR_FD_CAP_REG | IBV_MR_FD_CAP_PINNED, caps);
	EXPECT_EQ(EINVAL, ibv_query_mr_fd_caps(self->ctx, 0, &caps));
	EXPECT_EQ(EINVAL, ibv_query_mr_fd_caps(self->ctx, 77, &caps));
}

/* The kernel has the methods, but the provider of siw does not use them. */
/*
 * By upstream's method, which mlx5 alone has, and that not on each kernel.  There its fd is
 * read-only; our kernel, which answers if this program plays the old one, makes it for writing.
 */
TEST_F(old, device_memory_is_exported_where_the_kernel_can)
{
	struct dm dm = {};
	struct ibv_mr *mr;
	int fd;

	need("dm");
	dm_open_filled(&dm, self->ctx, PAGE, 5);
	fd = ibv_dm_export_dmabuf_fd(dm.dm);
	if (device_can("mlx5-queues") && device_can("dm-export")) {
		ASSERT_LE(0, fd);
		EXPECT_EQ(kernel.old ? 0 : EACCES, errno_of(self, DMABUF, fd, RW));
		mr = must(reg(self, 0, PAGE, DMABUF, fd, REMOTE_READ));
		ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_RDMA_READ, self->host_mr,
						  self->host.iova, PAGE, (uintptr_t)mr->addr,
						  mr->rkey));
		EXPECT_TRUE(filled(self->host.cpu, PAGE, 5, "what was read"));
		mr_close(mr);
		close(fd);
	} else {
		EXPECT_EQ(-1, fd);
		EXPECT_EQ(EOPNOTSUPP, errno);
	}
	dm_close(&dm);
}

/* Upstream's exporter has a list for each mapping, of one entry here. */
TEST_F(old, mapping_of_exported_device_memory_leaks_no_list)
{
	const long times = 300;
	struct dm dm = {};
	long before;
	int fd;

	if (getenv("MRFD_OLD_KERNEL"))
		SKIP(return, "this kernel has the leak");
	need("mlx5-queues");
	need("dm-export");
	dm_open_filled(&dm, self->ctx, PAGE, 5);
	fd = ibv_dm_export_dmabuf_fd(dm.dm);
	ASSERT_LE(0, fd);
	before = slab_objects("kmalloc-32");
	for (int i = 0; i < times; i++)
		ASSERT_EQ(0, errno_of(self, DMABUF, fd, REMOTE_READ));
	EXPECT_GT(before + times / 3, slab_objects("kmalloc-32")) {
		TH_LOG("%ld registrations, %ld objects before", times, before);
	}
	close(fd);
	dm_close(&dm);
}

TEST_F(old, library_maps_memfd_for_provider_without_the_op)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint32_t caps;

	if (getenv("MRFD_OLD_KERNEL"))
		SKIP(return, "this kernel does not have the methods");
	kernel.old = false;
	ASSERT_EQ(0, system("rdma link add siw0 type siw netdev eth0-peer"));
	ctx = device_open_named("siw0");
	pd = must(ibv_alloc_pd(ctx));
	mr = ibv_reg_mr_fd(pd, NULL, PAGE, SHMEM, self->memfd.fd, RW);
	EXPECT_NE(NULL, mr);
	EXPECT_EQ(self->mapped + 1, mappings());
	mr_close(mr);
	EXPECT_EQ(self->mapped, mappings());
	EXPECT_EQ(NULL, ibv_reg_mr_fd(pd, NULL, PAGE, DMABUF, -1, RW));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(0, ibv_query_mr_fd_caps(ctx, SHMEM, &caps));
	EXPECT_EQ(IBV_MR_FD_CAP_REG | IBV_MR_FD_CAP_PINNED, caps);
	EXPECT_EQ(0, ibv_query_mr_fd_caps(ctx, DMABUF, &caps));
	EXPECT_EQ(0, caps);
	pd_close(pd);
	device_close(ctx);
	ASSERT_EQ(0, system("rdma link delete siw0"));
}

TEST_HARNESS_MAIN
