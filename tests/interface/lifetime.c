// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug kcsan; guest: smp; devices: rxe */
/* runs: quick debug-full; guest: smp; devices: connectx */
/*
 * An MR needs neither the fd that it was made from nor the process that made the buffer.
 * However it ends, by dereg, by exit, by a signal in the middle of traffic, or with its device,
 * nothing is left.
 */
#include "lib/counts.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <signal.h>
#include <sys/wait.h>

#define SIZE (64 * PAGE)

FIXTURE(life)
{
};

FIXTURE_SETUP(life)
{
	need("reg_mr_fd");
	ASSERT_TRUE(nothing_left());
}

FIXTURE_TEARDOWN(life)
{
	if (!device_exists())
		EXPECT_TRUE(device_add());	/* the case failed while the device was deleted */
	EXPECT_TRUE(nothing_left());
}

struct traffic {
	struct pair pair;
	struct memory buf, host;
	struct ibv_mr *fd_mr, *host_mr;
};

static void traffic_open(struct traffic *t, enum memory_kind kind)
{
	pair_open(&t->pair, device_open(), NULL);
	memory_open(&t->buf, kind, SIZE);
	t->fd_mr = memory_reg(&t->buf, t->pair.pd, RWA);
	memory_open(&t->host, HOST, SIZE);
	t->host_mr = memory_reg(&t->host, t->pair.pd, ALL_ACCESS);
}

static void traffic_close(struct traffic *t)
{
	struct ibv_context *ctx = t->pair.ctx;

	mr_close(t->fd_mr);
	mr_close(t->host_mr);
	pair_close(&t->pair);
	device_close(ctx);
	memory_close(&t->host);
}

static enum ibv_wc_status write_all(struct traffic *t)
{
	return rdma_op(&t->pair, IBV_WR_RDMA_WRITE, t->host_mr, t->host.iova, SIZE,
		       (uintptr_t)t->fd_mr->addr, t->fd_mr->rkey);
}

TEST_F(life, fd_may_be_closed_after_registration)
{
	struct traffic t;

	traffic_open(&t, VGEM);
	memory_close_fd(&t.buf);
	fill(t.host.cpu, SIZE, 1);
	ASSERT_EQ(IBV_WC_SUCCESS, write_all(&t));
	ASSERT_TRUE(filled(t.buf.cpu, SIZE, 1, "buffer"));
	memory_close(&t.buf);
	/* Without handle, fd and mapping only the MR holds the buffer. */
	fill(t.host.cpu, SIZE, 2);
	ASSERT_EQ(IBV_WC_SUCCESS, write_all(&t));
	memset(t.host.cpu, 0, SIZE);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&t.pair, IBV_WR_RDMA_READ, t.host_mr, t.host.iova,
					  SIZE, (uintptr_t)t.fd_mr->addr, t.fd_mr->rkey));
	ASSERT_TRUE(filled(t.host.cpu, SIZE, 2, "read back"));
	traffic_close(&t);
}

TEST_F(life, buffer_can_be_registered_many_times)
{
	struct ibv_mr *mr[100];
	struct traffic t;

	traffic_open(&t, UDMABUF);
	for (int i = 0; i < 100; i++)
		mr[i] = must(ibv_reg_mr_fd(t.pair.pd, (void *)(i * PAGE), PAGE,
					   IBV_MR_FD_TYPE_DMABUF, t.buf.fd, RWA));
	for (int i = 0; i < 100; i += 2)
		ASSERT_EQ(0, ibv_dereg_mr(mr[i]));
	fill(t.host.cpu, PAGE, 3);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&t.pair, IBV_WR_RDMA_WRITE, t.host_mr, t.host.iova,
					  PAGE, 99 * PAGE, mr[99]->rkey));
	ASSERT_TRUE(filled(t.buf.cpu, PAGE, 3, "buffer"));
	for (int i = 1; i < 100; i += 2)
		ASSERT_EQ(0, ibv_dereg_mr(mr[i]));
	memory_close(&t.buf);
	traffic_close(&t);
}

/* A child that does RDMA until it is killed; it writes a byte to READY after a few writes. */
static pid_t start_traffic(enum memory_kind kind, int ready)
{
	pid_t pid = fork();
	struct traffic t;

	if (pid)
		return pid;
	traffic_open(&t, kind);
	for (int i = 0; ; i++) {
		if (write_all(&t) != IBV_WC_SUCCESS)
			_exit(1);
		if (i == 3 && write(ready, "r", 1) != 1)
			_exit(2);
	}
}

static pid_t traffic_under_way(enum memory_kind kind)
{
	int fds[2];
	pid_t pid;
	char c;

	if (pipe(fds))
		fail_case("pipe");
	pid = start_traffic(kind, fds[1]);
	close(fds[1]);
	if (read(fds[0], &c, 1) != 1)
		fail_case("the child ended before its first writes completed");
	close(fds[0]);
	return pid;
}

static int kill_and_wait(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

TEST_F_TIMEOUT(life, process_killed_amid_traffic_leaves_nothing, 120)
{
	for (int i = 0; i < 10; i++) {
		pid_t pid = traffic_under_way(i % 2 ? HEAP : VGEM);

		ASSERT_EQ(SIGKILL, kill_and_wait(pid));
		ASSERT_TRUE(nothing_left());
	}
}

TEST_F_TIMEOUT(life, process_killed_amid_traffic_to_vram_leaves_nothing, 60)
{
	need("io-memory");
	ASSERT_EQ(SIGKILL, kill_and_wait(traffic_under_way(QXL)));
	ASSERT_TRUE(nothing_left());
}

TEST_F(life, exit_without_dereg_leaves_nothing)
{
	pid_t pid = fork();
	struct traffic t;
	int status;

	if (!pid) {
		traffic_open(&t, UDMABUF);
		_exit(write_all(&t) == IBV_WC_SUCCESS ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	ASSERT_EQ(0, status);
	ASSERT_TRUE(nothing_left());
}

TEST_F_TIMEOUT(life, device_deleted_amid_traffic_leaves_nothing, 120)
{
	pid_t pid, del;
	int status;

	need("add-delete");
	pid = traffic_under_way(VGEM);
	del = fork();
	if (!del)
		device_delete_exec();
	/* The process has the device open, and loses it. */
	ASSERT_EQ(del, waitpid(del, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_FALSE(device_exists());
	kill_and_wait(pid);	/* or it has noticed, and ended itself */
	/* The cases that follow need it. */
	ASSERT_TRUE(device_add());
	ASSERT_TRUE(device_gets_ready());
}

TEST_F(life, restrack_shows_the_mr)
{
	struct traffic t;
	char cmd[256], line[512] = "";
	FILE *f;

	traffic_open(&t, VGEM);
	snprintf(cmd, sizeof(cmd), "rdma -d resource show mr | grep 'mrlen %zu '", t.buf.size);
	f = must(popen(cmd, "r"));
	ASSERT_NE(NULL, fgets(line, sizeof(line), f));
	pclose(f);
	snprintf(cmd, sizeof(cmd), "rkey 0x%x", t.fd_mr->rkey);
	ASSERT_NE(NULL, strstr(line, cmd)) { TH_LOG("restrack shows: %s", line); }
	snprintf(cmd, sizeof(cmd), "pid %d ", getpid());
	ASSERT_NE(NULL, strstr(line, cmd)) { TH_LOG("restrack shows: %s", line); }
	memory_close(&t.buf);
	traffic_close(&t);
}

TEST_HARNESS_MAIN
