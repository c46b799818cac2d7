// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: smp gpu; devices: rxe */
/* runs: quick debug-full; guest: smp gpu; devices: connectx */
/* runs: full debug-full; guest: gpu; devices: pinned */
/*
 * A GPU leaves its driver while its buffers are registered: nothing new can be had of a buffer
 * (ENODEV), a mapping of it is SIGBUS, and a device that follows moves, or gives the buffer
 * back, does not reach it any more.
 *
 * What another importer has pinned stays its own until it lets go.  When all is closed, the
 * driver takes the GPU again.
 */
#include "exporters/gpu_buffer.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

FIXTURE(gpu)
{
	struct gpu_case c;
};

FIXTURE_SETUP(gpu)
{
	case_open(&self->c, GPU_VRAM, 0);
}

FIXTURE_TEARDOWN(gpu)
{
	EXPECT_TRUE(case_close(&self->c));
	EXPECT_EQ(0, gpu_come_back());
}

/* Whether SIGBUS kills a process that reads the buffer. */
static bool mapping_is_gone(struct gpu_case *c)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(*(volatile uint8_t *)c->buf.cpu);
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
}

static int reg_errno(struct gpu_case *c)
{
	struct ibv_mr *mr = case_reg(c);

	if (!mr)
		return errno;
	mr_close(mr);
	return 0;
}

/* Close all, take the GPU again, and use a new buffer. */
static bool comes_back(struct gpu_case *c)
{
	struct ibv_mr *mr;
	bool ok;

	case_shut(c);
	errno = gpu_come_back();
	if (errno)
		fail_case("bind the GPU to its driver again");
	case_open(c, GPU_VRAM, 0);
	mr = must(case_reg(c));
	ok = rdma_write(c, mr, 7) && filled(c->buf.cpu, SIZE, 7, "new buffer") &&
	     rdma_reads(c, mr, 7);
	mr_close(mr);
	return ok;
}

TEST_F(gpu, buffer_of_an_unbound_gpu_is_enodev)
{
	struct gpu_case *c = &self->c;

	fill(c->buf.cpu, SIZE, 1);
	ASSERT_EQ(0, gpu_unbind());
	ASSERT_FALSE(gpu_is_bound());
	ASSERT_EQ(ENODEV, reg_errno(c));
	ASSERT_EQ(ENODEV, gpu_move(&c->buf, MRFD_GPU_SYSTEM, 0));
	ASSERT_EQ(-1, import_for_dma(c->buf.fd, 0));
	ASSERT_EQ(ENODEV, errno);
	ASSERT_TRUE(mapping_is_gone(c));
	ASSERT_TRUE(comes_back(c));
}

/* The device is told, and its next access fails, also where it has pinned system memory. */
TEST_F(gpu, unbind_ends_the_access_of_an_mr)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr = must(case_reg(c));

	ASSERT_TRUE(rdma_write(c, mr, 1));
	ASSERT_EQ(0, gpu_unbind());
	ASSERT_TRUE(mapping_is_gone(c));
	ASSERT_FALSE(rdma_write(c, mr, 2));
	ASSERT_EQ(ENODEV, reg_errno(c));
	mr_close(mr);
	ASSERT_TRUE(comes_back(c));
}

/*
 * Soft-RoCE has VRAM mapped for the CPU, and gives it back.  Its region still holds the
 * buffer: the driver does not take the GPU again before the region is gone.
 */
TEST_F(gpu, bind_is_ebusy_until_the_mr_is_gone)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr;

	need("vmap");
	case_replace(c, GPU_VRAM, MRFD_GPU_ONLY | MRFD_GPU_CPU_PIN);
	mr = must(case_reg(c));
	ASSERT_TRUE(rdma_write(c, mr, 1));
	ASSERT_EQ(0, gpu_unbind());
	ASSERT_TRUE(mapping_is_gone(c));
	ASSERT_FALSE(rdma_write(c, mr, 2));
	memory_close(&c->buf);
	ASSERT_EQ(EBUSY, gpu_bind());
	mr_close(mr);
	ASSERT_TRUE(comes_back(c));
}

/* The engine ends the copy without touching VRAM. */
TEST_F(gpu, gpu_can_be_unbound_during_a_move)
{
	struct gpu_case *c = &self->c;
	struct ibv_mr *mr;

	if (pins())
		skip_case("a pinned buffer does not move");
	mr = must(case_reg(c));
	ASSERT_TRUE(rdma_write(c, mr, 1));
	ASSERT_EQ(0, gpu_move(&c->buf, MRFD_GPU_SYSTEM, 500));
	ASSERT_EQ(0, gpu_unbind());
	ASSERT_TRUE(mapping_is_gone(c));
	ASSERT_EQ(ENODEV, reg_errno(c));
	mr_close(mr);
	ASSERT_TRUE(comes_back(c));
}

/* An importer that does DMA has pinned it, and lets go only when the GPU is gone. */
TEST_F(gpu, gpu_can_be_unbound_during_a_dma_import)
{
	struct gpu_case *c = &self->c;
	int dma = import_for_dma(c->buf.fd, 0);

	ASSERT_LE(0, dma);
	ASSERT_EQ(0, gpu_unbind());
	close(dma);
	ASSERT_TRUE(comes_back(c));
}

/* A thread that writes and reads until that fails, or until it shall end. */
struct traffic {
	struct gpu_case *c;
	struct ibv_mr *mr;
	atomic_long rounds;
	bool failed, wrong;
};

static void *keep_writing(void *arg)
{
	struct traffic *t = arg;
	struct gpu_case *c = t->c;

	while (!t->failed && !t->wrong) {
		if (!rdma_write(c, t->mr, t->rounds)) {
			t->failed = true;
		} else if (rdma_op(&c->pair, IBV_WR_RDMA_READ, c->host_mr, c->host.iova, SIZE,
				   IOVA, t->mr->rkey)) {
			t->failed = true;
		} else {
			t->wrong = !filled(c->host.cpu, SIZE, t->rounds, "read by RDMA");
			t->rounds++;
		}
	}
	return NULL;
}

TEST_F(gpu, unbind_during_traffic_stops_it)
{
	struct gpu_case *c = &self->c;
	struct traffic t = { .c = c, .mr = must(case_reg(c)) };
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, keep_writing, &t));
	while (t.rounds < 3 && !t.failed)
		usleep(1000);
	ASSERT_EQ(0, gpu_unbind());
	pthread_join(thread, NULL);
	ASSERT_TRUE(t.failed);
	ASSERT_FALSE(t.wrong);
	mr_close(t.mr);
	ASSERT_TRUE(comes_back(c));
}

TEST_HARNESS_MAIN
