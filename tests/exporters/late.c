// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: smp; devices: rxe */
/* runs: full; devices: connectx */
/*
 * An exporter is slow: registration waits for a slow operation, for fences and for a move,
 * and no longer than needed.  A signal ends the wait, and so does kill -9; importers then
 * hold nothing of the buffer.
 */
#include "exporters/test_buffer.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define FOREVER DMABUF_TEST_MAX_DELAY

FIXTURE_SETUP(buffer)
{
	need("vmap");
	buffer_open(self, 0);
}

FIXTURE_TEARDOWN(buffer)
{
	EXPECT_TRUE(buffer_close(self));
}

/* How many ms have passed from BEGAN to the end of a registration, which has to succeed. */
static long reg_ends(FIXTURE_DATA(buffer) *self, int access, double began)
{
	if (reg_errno(self, access))
		fail_case("reg of the buffer");
	return ms_since(began);
}

static long reg_time(FIXTURE_DATA(buffer) *self, int access)
{
	return reg_ends(self, access, now());
}

TEST_F(buffer, reg_waits_for_a_slow_exporter)
{
	behave(self->buf.fd, DMABUF_TEST_VMAP, 0, 300);
	ASSERT_GE(reg_time(self, ALL_ACCESS), AT_LEAST(300));
	behave(self->buf.fd, DMABUF_TEST_BEGIN_CPU_ACCESS, 0, 300);
	ASSERT_GE(reg_time(self, ALL_ACCESS), AT_LEAST(600));
	behave(self->buf.fd, DMABUF_TEST_ATTACH, 0, 300);
	ASSERT_GE(reg_time(self, ALL_ACCESS), AT_LEAST(900));
	behave(self->buf.fd, DMABUF_TEST_VMAP, EIO, 300);
	ASSERT_EQ(EIO, reg_errno(self, ALL_ACCESS));
	behave(self->buf.fd, DMABUF_TEST_ATTACH, 0, 0);
	behave(self->buf.fd, DMABUF_TEST_VMAP, 0, 0);
	behave(self->buf.fd, DMABUF_TEST_BEGIN_CPU_ACCESS, 0, 0);
	ASSERT_TRUE(behaves(self));
}

TEST_F(buffer, dma_import_waits_for_a_slow_exporter)
{
	double began = now();
	int dma;

	behave(self->buf.fd, DMABUF_TEST_ATTACH, 0, 200);
	behave(self->buf.fd, DMABUF_TEST_MAP, 0, 200);
	ASSERT_EQ(0, import(self, &dma));
	ASSERT_GE(ms_since(began), AT_LEAST(400));
	close(dma);
}

TEST_F(buffer, reg_waits_for_fences)
{
	double began;

	for (enum usage usage = KERNEL; usage <= READ; usage++) {
		began = now();
		add_fence(self->buf.fd, usage, 300);
		ASSERT_GE(reg_ends(self, ALL_ACCESS, began), AT_LEAST(300));
	}
	began = now();
	add_fence(self->buf.fd, KERNEL, 100);
	add_fence(self->buf.fd, READ, 400);
	add_fence(self->buf.fd, WRITE, 200);
	ASSERT_GE(reg_ends(self, ALL_ACCESS, began), AT_LEAST(400));
	ASSERT_TRUE(behaves(self));
}

TEST_F(buffer, read_only_reg_ignores_read_fences)
{
	double began;

	add_fence(self->buf.fd, READ, FOREVER);
	ASSERT_LT(reg_time(self, REMOTE_READ), AT_LEAST(FOREVER));
	began = now();
	add_fence(self->buf.fd, WRITE, 300);
	ASSERT_GE(reg_ends(self, REMOTE_READ, began), AT_LEAST(300));
	signal_fences(self->buf.fd);
	ASSERT_TRUE(behaves(self));
}

TEST_F(buffer, reg_ignores_bookkeep_fences)
{
	add_fence(self->buf.fd, BOOKKEEP, FOREVER);
	ASSERT_LT(reg_time(self, ALL_ACCESS), AT_LEAST(FOREVER));
	ASSERT_TRUE(behaves(self));
	signal_fences(self->buf.fd);
}

static void *reg_thread(void *self)
{
	return reg(self, ALL_ACCESS);
}

TEST_F(buffer, reg_returns_when_the_fence_signals)
{
	struct ibv_mr *mr = NULL;
	pthread_t thread;

	add_fence(self->buf.fd, KERNEL, FOREVER);
	ASSERT_EQ(0, pthread_create(&thread, NULL, reg_thread, self));
	while (!query(self->buf.fd).pins)
		usleep(1000);
	usleep(300000);
	ASSERT_EQ(EBUSY, pthread_tryjoin_np(thread, (void **)&mr));
	signal_fences(self->buf.fd);
	ASSERT_EQ(0, pthread_join(thread, (void **)&mr));
	ASSERT_NE(NULL, mr);
	ASSERT_TRUE(rdma_write(self, mr, 1));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 1, "buffer"));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(buffer, reg_waits_for_a_move)
{
	struct ibv_mr *mr;
	double began;

	for (int i = 0; i < 3; i++) {
		fill(self->buf.cpu, SIZE, i);
		began = now();
		ASSERT_EQ(0, move(self->buf.fd, 300));
		mr = must(reg(self, i ? ALL_ACCESS : REMOTE_READ));
		/* A registration that is too early would read other bytes. */
		ASSERT_TRUE(rdma_reads(self, mr, i));
		ASSERT_GE(ms_since(began), AT_LEAST(300));
		ASSERT_TRUE(filled(self->buf.cpu, SIZE, i, "buffer"));
		ASSERT_EQ(0, ibv_dereg_mr(mr));
	}
}

/* The errno of a registration during which a signal comes. */
static int reg_errno_with_signal(FIXTURE_DATA(buffer) *self, int flags)
{
	int err;

	signals_begin(flags);
	err = reg_errno(self, ALL_ACCESS);
	signals_end();
	return err;
}

/* What makes a registration wait for at least FOREVER. */
struct wait {
	const char *what;
	void (*begin)(int fd);
	void (*end)(int fd);
};

static void slow_attach(int fd)
{
	behave(fd, DMABUF_TEST_ATTACH, 0, FOREVER);
}

static void slow_vmap(int fd)
{
	behave(fd, DMABUF_TEST_VMAP, 0, FOREVER);
}

static void slow_begin(int fd)
{
	behave(fd, DMABUF_TEST_BEGIN_CPU_ACCESS, 0, FOREVER);
}

static void fast(int fd)
{
	behave(fd, DMABUF_TEST_ATTACH, 0, 0);
	behave(fd, DMABUF_TEST_VMAP, 0, 0);
	behave(fd, DMABUF_TEST_BEGIN_CPU_ACCESS, 0, 0);
}

static void late_fence(int fd)
{
	add_fence(fd, KERNEL, FOREVER);
}

static void long_move(int fd)
{
	if (move(fd, FOREVER))
		fail_case("begin a move of the buffer");
}

static const struct wait waits[] = {
	{ "slow attach", slow_attach, fast },
	{ "slow vmap", slow_vmap, fast },
	{ "slow begin_cpu_access", slow_begin, fast },
	{ "late fence", late_fence, signal_fences },
	{ "move", long_move, signal_fences },
};

#define for_each_wait(w) for (const struct wait *w = waits; w < waits + 5; w++)

TEST_F(buffer, signal_during_reg_is_eintr)
{
	for_each_wait(w) {
		double began = now();

		TH_LOG("reg waits for: %s", w->what);
		w->begin(self->buf.fd);
		ASSERT_EQ(EINTR, reg_errno_with_signal(self, 0));
		ASSERT_LT(ms_since(began), FOREVER / 2);
		ASSERT_TRUE(at_rest(self->buf.fd));
		ASSERT_EQ(0, mr_count() - 1);
		w->end(self->buf.fd);
		ASSERT_TRUE(behaves(self));
	}
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = {};

	return waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid;
}

/* Return when a child has slept in one and the same ioctl for 0.3 s, or has ended. */
static void wait_until_it_waits(pid_t pid)
{
	char name[32], line[256], last[256] = "";

	snprintf(name, sizeof(name), "/proc/%d/syscall", pid);
	for (int same = 0; same < 10 && !has_ended(pid); usleep(30000)) {
		FILE *f = must(fopen(name, "r"));

		if (!fgets(line, sizeof(line), f))
			*line = 0;
		fclose(f);
		/* the number of the call, its arguments, SP and PC; or "running" */
		same = atoi(line) != SYS_ioctl || strcmp(line, last) ? 0 : same + 1;
		strcpy(last, line);
	}
}

/* Start a process that registers the buffer; return when it waits. */
static pid_t reg_in_child(int fd)
{
	pid_t pid = fork();

	if (!pid) {
		struct ibv_pd *pd = must(ibv_alloc_pd(device_open()));

		ibv_reg_mr_fd(pd, NULL, SIZE, IBV_MR_FD_TYPE_DMABUF, fd, ALL_ACCESS);
		_exit(0);
	}
	wait_until_it_waits(pid);
	return pid;
}

/*
 * Another process holds the lock in a slow vmap; a vmap of this process would be quick.  The
 * wait to attach is the core's of dma-buf, and no signal ends it.
 */
TEST_F(buffer, reg_waits_for_an_importer_that_holds_the_lock)
{
	int status;
	pid_t pid;

	behave(self->buf.fd, DMABUF_TEST_VMAP, 0, 1000);
	pid = reg_in_child(self->buf.fd);
	fast(self->buf.fd);
	EXPECT_EQ(0, reg_errno(self, ALL_ACCESS));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_TRUE(at_rest(self->buf.fd));
	ASSERT_TRUE(behaves(self));
}

TEST_F(buffer, reg_restarts_after_a_signal_with_sa_restart)
{
	double began = now();

	behave(self->buf.fd, DMABUF_TEST_VMAP, 0, 600);
	ASSERT_EQ(0, reg_errno_with_signal(self, SA_RESTART));
	ASSERT_GE(ms_since(began), AT_LEAST(800));
	began = now();
	behave(self->buf.fd, DMABUF_TEST_VMAP, 0, 0);
	add_fence(self->buf.fd, WRITE, 600);
	ASSERT_EQ(0, reg_errno_with_signal(self, SA_RESTART));
	ASSERT_GE(ms_since(began), AT_LEAST(600));
}

TEST_F_TIMEOUT(buffer, kill_ends_the_wait_of_reg, 60)
{
	for_each_wait(w) {
		pid_t pid;
		double began;
		int status;

		TH_LOG("reg waits for: %s", w->what);
		w->begin(self->buf.fd);
		pid = reg_in_child(self->buf.fd);
		ASSERT_EQ(0, waitpid(pid, &status, WNOHANG));
		began = now();
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_LT(ms_since(began), FOREVER / 2);
		ASSERT_TRUE(WIFSIGNALED(status));
		ASSERT_TRUE(at_rest(self->buf.fd));
		w->end(self->buf.fd);
		ASSERT_TRUE(behaves(self));
	}
}

TEST_HARNESS_MAIN
