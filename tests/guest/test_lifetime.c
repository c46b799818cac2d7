// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who keeps what alive: an MR needs neither the fd that it was made from nor the
 * process that made the buffer; and whatever way it ends, by dereg, by exit, by
 * a signal in the middle of traffic, or with its device, nothing is left.
 */
#include "exporters.h"
#include <signal.h>
#include <sys/wait.h>

#define DEVICE "rxe0"

FIXTURE(life)
{
};

FIXTURE_SETUP(life)
{
	ASSERT_TRUE(nothing_left());
}

FIXTURE_TEARDOWN(life)
{
	EXPECT_TRUE(nothing_left());
}

struct traffic {
	struct pair pair;
	struct buffer buf;
	struct ibv_mr *fd_mr, *host;
	uint8_t *mem;
};

static void traffic_open(struct traffic *t, enum exporter e)
{
	pair_open(&t->pair, open_device("rxe0"), NULL);
	buffer_open(&t->buf, e, SIZE);
	t->fd_mr = must(ibv_reg_mr_fd(t->pair.pd, NULL, t->buf.size, IBV_MR_FD_TYPE_DMABUF,
				      t->buf.fd, ALL_ACCESS));
	t->mem = must(aligned_alloc(PAGE, SIZE));
	t->host = must(ibv_reg_mr(t->pair.pd, t->mem, SIZE, ALL_ACCESS));
}

static void traffic_close(struct traffic *t)
{
	struct ibv_context *ctx = t->pair.ctx;

	if (ibv_dereg_mr(t->fd_mr) || ibv_dereg_mr(t->host))
		die("dereg");
	pair_close(&t->pair);
	ibv_close_device(ctx);
	free(t->mem);
}

static enum ibv_wc_status write_all(struct traffic *t)
{
	return rdma_op(&t->pair, IBV_WR_RDMA_WRITE, t->host, (uintptr_t)t->mem, SIZE, 0,
		       t->fd_mr->rkey);
}

TEST_F(life, the_fd_may_be_closed_after_registration)
{
	struct traffic t;

	traffic_open(&t, VGEM);
	close(t.buf.fd);
	t.buf.fd = -1;
	fill(t.mem, SIZE, 1);
	ASSERT_EQ(IBV_WC_SUCCESS, write_all(&t));
	ASSERT_TRUE(filled(t.buf.cpu, SIZE, 1, "buffer"));
	buffer_close(&t.buf);
	/* No handle, no fd, no mapping: the MR alone holds the buffer now. */
	fill(t.mem, SIZE, 2);
	ASSERT_EQ(IBV_WC_SUCCESS, write_all(&t));
	memset(t.mem, 0, SIZE);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&t.pair, IBV_WR_RDMA_READ, t.host, (uintptr_t)t.mem,
					  SIZE, 0, t.fd_mr->rkey));
	ASSERT_TRUE(filled(t.mem, SIZE, 2, "read back"));
	traffic_close(&t);
}

TEST_F(life, a_buffer_can_be_registered_many_times)
{
	struct ibv_mr *mr[100];
	struct traffic t;

	traffic_open(&t, UDMABUF);
	for (int i = 0; i < 100; i++)
		mr[i] = must(ibv_reg_mr_fd(t.pair.pd, (void *)(i * PAGE), PAGE,
					   IBV_MR_FD_TYPE_DMABUF, t.buf.fd, ALL_ACCESS));
	for (int i = 0; i < 100; i += 2)
		ASSERT_EQ(0, ibv_dereg_mr(mr[i]));
	fill(t.mem, PAGE, 3);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&t.pair, IBV_WR_RDMA_WRITE, t.host, (uintptr_t)t.mem,
					  PAGE, 99 * PAGE, mr[99]->rkey));
	ASSERT_TRUE(filled(t.buf.cpu, PAGE, 3, "buffer"));
	for (int i = 1; i < 100; i += 2)
		ASSERT_EQ(0, ibv_dereg_mr(mr[i]));
	buffer_close(&t.buf);
	traffic_close(&t);
}

/* A child with MRs registered and RDMA under way, until it is killed. */
static pid_t start_traffic(enum exporter e, int ready)
{
	pid_t pid = fork();
	struct traffic t;

	if (pid)
		return pid;
	traffic_open(&t, e);
	for (int i = 0; ; i++) {
		if (write_all(&t) != IBV_WC_SUCCESS)
			_exit(1);
		if (i == 3 && write(ready, "r", 1) != 1)
			_exit(2);
	}
}

static pid_t traffic_under_way(enum exporter e)
{
	int fds[2];
	pid_t pid;
	char c;

	if (pipe(fds))
		die("pipe");
	pid = start_traffic(e, fds[1]);
	close(fds[1]);
	if (read(fds[0], &c, 1) != 1)
		die("no traffic");
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

TEST_F_TIMEOUT(life, a_process_killed_amid_traffic_leaves_nothing, 120)
{
	for (int i = 0; i < 10; i++) {
		pid_t pid = traffic_under_way(i % 2 ? HEAP : VGEM);

		ASSERT_EQ(SIGKILL, kill_and_wait(pid));
		ASSERT_TRUE(nothing_left());
	}
}

TEST_F_TIMEOUT(life, a_process_killed_amid_traffic_to_vram_leaves_nothing, 60)
{
	ASSERT_EQ(SIGKILL, kill_and_wait(traffic_under_way(BOCHS)));
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

TEST_F_TIMEOUT(life, a_device_deleted_amid_traffic_leaves_nothing, 120)
{
	pid_t pid = traffic_under_way(VGEM), del;
	int status;

	del = fork();
	if (!del) {
		execlp("rdma", "rdma", "link", "delete", DEVICE, NULL);
		_exit(127);
	}
	/*
	 * rxe has no way to take a device from under a process that has it
	 * open, so the delete waits for the process; that must end it.
	 */
	sleep(1);
	ASSERT_EQ(SIGKILL, kill_and_wait(pid));
	ASSERT_EQ(del, waitpid(del, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_NE(0, access("/sys/class/infiniband/" DEVICE, F_OK));
	/* And it comes back for those who follow. */
	ASSERT_EQ(0, system("rdma link add " DEVICE " type rxe netdev $MRFD_NETDEV"));
}

TEST_F(life, restrack_shows_the_region)
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
	ASSERT_NE(NULL, strstr(line, cmd)) { TH_LOG("%s", line); }
	snprintf(cmd, sizeof(cmd), "pid %d ", getpid());
	ASSERT_NE(NULL, strstr(line, cmd)) { TH_LOG("%s", line); }
	buffer_close(&t.buf);
	traffic_close(&t);
}

TEST_HARNESS_MAIN
