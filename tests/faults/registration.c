// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: debug; devices: rxe */
/* runs: debug-full; devices: connectx */
/*
 * Every allocation and every copy fails once, and nothing is left: in a registration of each
 * kind, in a dereg, and when a context is opened, closed, or left with MRs in it at exit.
 *
 * A call that fails leaves nothing behind; a call that succeeds despite the fault has done
 * all its work.  A call that destroys an object succeeds despite every fault, unless it
 * cannot copy the arguments that name the object.
 */
#include "faults/sweep.h"
#include "lib/harness.h"
#include "lib/hugepages.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

FIXTURE(fault)
{
	struct env env;
};

FIXTURE_SETUP(fault)
{
	faults_open();
	env_open(&self->env, HEAP);
}

FIXTURE_TEARDOWN(fault)
{
	env_close(&self->env);
	EXPECT_TRUE(nothing_left());
}

static void sweep_reg(struct env *env, enum kind kind, enum way way)
{
	struct mr mr = { .kind = kind, .access = RWA };
	struct sweep s = {};

	while (sweep_next(&s)) {
		int err;

		fail_at(s.n);
		err = mr_reg(env, &mr, way);
		fail_end(&s, err);
		if (!err) {
			check_mr(env, &mr);
			must_dereg(env, &mr);
		}
		check_pinned(env, 0);
	}
	sweep_end(&s, way == BY_FD ? "by fd" : "REG_MR", ", register ", kind_name[kind]);
	check_nothing_left(env);
}

TEST_F_TIMEOUT(fault, failed_reg_of_a_dma_buf_leaves_nothing, 600)
{
	sweep_reg(&self->env, IN_DMABUF, BY_FD);
}

TEST_F_TIMEOUT(fault, failed_reg_of_a_memfd_leaves_nothing, 600)
{
	sweep_reg(&self->env, IN_MEMFD, BY_FD);
}

TEST_F_TIMEOUT(fault, failed_reg_by_address_leaves_nothing, 600)
{
	sweep_reg(&self->env, IN_HOST, BY_FD);
	sweep_reg(&self->env, IN_HOST, BY_ADDRESS);
}

/* Use a new file without a page in it each time; SIZE would take too long. */
TEST_F_TIMEOUT(fault, failed_reg_of_a_sparse_memfd_leaves_nothing, 600)
{
	struct env *env = &self->env;
	struct sweep s = {};

	while (sweep_next(&s)) {
		struct fd_call c = {
			.pd = env->pd[0]->handle, .access = RW, .length = 3 * PAGE,
			.type = IB_UVERBS_BUFFER_TYPE_MEMFD,
		};
		struct keys keys;
		struct memory hole;
		int err;

		memory_open(&hole, MEMFD, 3 * PAGE);
		c.fd = hole.fd;
		fail_at(s.n);
		err = fd_call(env->ctx->cmd_fd, &c, &keys);
		fail_end(&s, err);
		if (!err)
			ASSERT_EQ(0, mr_dereg(env->ctx->cmd_fd, BY_IOCTL, keys.handle));
		check_pinned(env, 0);
		memory_close(&hole);
	}
	sweep_end(&s, "by fd", ", register a memfd", " with holes");
}

/*
 * Huge pages are reserved before they are taken.  What a call has reserved, and no more,
 * goes back when it fails: the reservation of a MAPPED file stays.  The mount, if there is
 * one, has room for two pages and has reserved one.
 */
static void sweep_huge_holes(struct env *env, bool mounted, bool mapped)
{
	struct hugepages before = hugepages_now();
	long room = mounted ? hugetlbfs_room() : 0;
	struct sweep s = {};

	while (sweep_next(&s)) {
		struct fd_call c = {
			.pd = env->pd[0]->handle, .access = RW, .length = 2 * HUGE_PAGE,
			.type = IB_UVERBS_BUFFER_TYPE_MEMFD,
		};
		struct hugepages wanted = before;
		void *map = NULL;
		struct keys keys;
		long n;
		int err;

		c.fd = mounted ? hugetlbfs_file(2) : memfd_of(2 * HUGE_PAGE, MFD_HUGETLB);
		if (mapped)
			map = mmap(NULL, 2 * HUGE_PAGE, PROT_READ, MAP_SHARED, c.fd, 0);
		if (map == MAP_FAILED)
			fail_case("map huge pages");
		fail_at(s.n);
		err = fd_call(env->ctx->cmd_fd, &c, &keys);
		fail_end(&s, err);

		n = hugepages_of(c.fd);
		wanted.free -= n;
		if (mapped)
			wanted.reserved += 2 - n;
		if (mounted && n)
			wanted.reserved--;
		if (!hugepages_are(wanted) || (mounted && hugetlbfs_room() != room - n))
			fail_case("fault at point %u, %ld pages in the file: wrong counts",
				  s.n, n);
		if (!err && (errno = mr_dereg(env->ctx->cmd_fd, BY_IOCTL, keys.handle)))
			fail_case("dereg");
		check_pinned(env, 0);
		if (map)
			munmap(map, 2 * HUGE_PAGE);
		close(c.fd);
		if (!hugepages_are(before) || (mounted && hugetlbfs_room() != room))
			fail_case("fault at point %u, file closed: wrong counts", s.n);
	}
	sweep_end(&s, "by fd", ", register huge pages of ",
		  mounted ? "a mount" : mapped ? "a mapping" : "a memfd");
}

TEST_F_TIMEOUT(fault, failed_reg_of_sparse_huge_pages_leaves_nothing, 600)
{
	hugepages_make(4);
	sweep_huge_holes(&self->env, false, false);
	sweep_huge_holes(&self->env, false, true);
	hugetlbfs_mount("size=4M,min_size=2M");
	sweep_huge_holes(&self->env, true, false);
	hugetlbfs_umount();
	ASSERT_EQ(0, hugepages_now().reserved);
	hugepages_make(0);
}

TEST_F_TIMEOUT(fault, failed_ibv_reg_dmabuf_mr_leaves_nothing, 600)
{
	struct env *env = &self->env;
	struct mr mr = { .kind = IN_DMABUF, .access = RWA };
	struct sweep s = {};

	while (sweep_next(&s)) {
		int err;

		fail_at(s.n);
		err = dmabuf_reg(env->ctx->cmd_fd, env->pd[0]->handle, env->mem[IN_DMABUF][0].fd, 0,
				 SIZE, iova_of(0), RWA, &mr.keys);
		fail_end(&s, err);
		if (!err) {
			check_mr(env, &mr);
			must_dereg(env, &mr);
		}
	}
	sweep_end(&s, "REG_DMABUF_MR", "", "");
}

/* A dereg may only fail because its arguments cannot be copied. */
static void sweep_dereg(struct env *env, enum kind kind, enum entry e)
{
	struct mr mr = { .kind = kind, .access = RWA };
	struct sweep s = {};

	while (sweep_next(&s)) {
		int err;

		if ((errno = mr_reg(env, &mr, BY_FD)))
			fail_case("reg of the MR to dereg");
		fail_at(s.n);
		err = mr_dereg(env->ctx->cmd_fd, e, mr.keys.handle);
		fail_end(&s, err);
		if (err == ENOMEM)
			fail_case("dereg failed with ENOMEM at point %u", s.n);
		if (err) {
			check_mr(env, &mr);
			must_dereg(env, &mr);
		}
		check_pinned(env, 0);
	}
	sweep_end(&s, entry_name[e], ", deregister ", kind_name[kind]);
	check_nothing_left(env);
}

TEST_F_TIMEOUT(fault, dereg_succeeds_despite_faults, 600)
{
	for (int kind = 0; kind < NR_KINDS; kind++)
		for (int e = 0; e < NR_ENTRIES; e++)
			sweep_dereg(&self->env, kind, e);
}

/* Put an MR of each kind into a context. */
static void raw_fill(struct raw *raw, struct env *env)
{
	struct fd_call c = { .access = RWA, .length = SIZE };
	struct keys keys;

	if ((errno = raw_alloc_pd(raw, &c.pd)))
		fail_case("alloc PD");
	for (int i = 0; i < 2; i++) {
		c.type = fd_type_of(i ? IN_MEMFD : IN_DMABUF);
		c.fd = env->mem[i ? IN_MEMFD : IN_DMABUF][0].fd;
		if ((errno = fd_call(raw->fd, &c, &keys)))
			fail_case("reg of %s", i ? "a memfd" : "a dma-buf");
	}
	if ((errno = host_reg(raw->fd, c.pd, (uintptr_t)env->mem[IN_HOST][0].cpu, SIZE, 0, RWA,
			      &keys)))
		fail_case("reg of host memory");
}

static void sweep_open(struct env *env, enum entry e)
{
	const char *dev = device_file(env);
	struct sweep s = {};

	while (sweep_next(&s)) {
		struct raw raw;
		int err;

		fail_at(s.n);
		err = raw_open(&raw, dev, e);
		fail_end(&s, err);
		if (!err) {
			raw_fill(&raw, env);
			raw_close(&raw);
		}
		check_pinned(env, 0);
		if (fd_left(env))
			fail_case("an fd is left open after a fault at point %u", s.n);
	}
	sweep_end(&s, entry_name[e], ", open a context", "");
	check_nothing_left(env);
}

TEST_F_TIMEOUT(fault, failed_open_of_a_context_leaves_nothing, 600)
{
	sweep_open(&self->env, BY_IOCTL);
	sweep_open(&self->env, BY_WRITE);
}

TEST_F_TIMEOUT(fault, close_of_a_context_with_mrs_leaves_nothing, 600)
{
	struct env *env = &self->env;
	struct sweep s = {};

	while (sweep_next(&s)) {
		struct raw raw;

		ASSERT_EQ(0, raw_open(&raw, device_file(env), BY_IOCTL));
		raw_fill(&raw, env);
		check_pinned(env, 2 * SIZE);
		fail_at(s.n);
		close(raw.fd);
		fail_end(&s, 0);
		check_pinned(env, 0);
	}
	/* A close may have no point of failure. */
	printf("# close: %u points\n", s.n - 1);
	check_nothing_left(env);
}

/* Whether the exit of a process reached point N; read its fail-nth while it is a zombie. */
static bool exit_failing_at(struct env *env, unsigned int n)
{
	int gate[2], status, fd;
	char path[64];
	siginfo_t info;
	bool failed;
	pid_t pid;

	if (pipe(gate))
		fail_case("open a pipe");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct raw raw;
		char c;

		close(gate[1]);
		if ((errno = raw_open(&raw, device_file(env), BY_IOCTL)))
			fail_case("open a context");
		raw_fill(&raw, env);
		faults_open();
		if (read(gate[0], &c, 1) != 1)
			_exit(2);
		fail_at(n);
		_exit(0);
	}
	close(gate[0]);
	snprintf(path, sizeof(path), "/proc/%d/fail-nth", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || write(gate[1], "g", 1) != 1)
		fail_case("start the child");
	if (waitid(P_PID, pid, &info, WEXITED | WNOWAIT))
		fail_case("wait for the child");
	if (pread(fd, path, sizeof(path), 0) <= 0)
		fail_case("read the fail-nth of a zombie");
	failed = atoi(path) == 0;
	close(fd);
	close(gate[1]);
	if (waitpid(pid, &status, 0) != pid || status)
		fail_case("the child ended with status %#x, not 0", status);
	return failed;
}

TEST_F_TIMEOUT(fault, exit_with_mrs_leaves_nothing, 600)
{
	struct env *env = &self->env;
	struct sweep s = {};

	while (sweep_next(&s)) {
		s.over = !exit_failing_at(env, s.n);
		check_pinned(env, 0);
	}
	printf("# exit: %u points\n", s.n - 1);
	check_nothing_left(env);
}

int main(int argc, char **argv)
{
	return harness_run(argc, argv, faults_prepare);
}
