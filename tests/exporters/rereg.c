// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: smp; devices: rxe */
/* runs: full; devices: connectx */
/*
 * A rereg moves an MR to a buffer whose exporter fails or is slow.  If it fails, the error is
 * reported, importers hold nothing of the new buffer, and the MR is unchanged; when the exporter
 * works again, it succeeds.
 *
 * The return value gives the class of the error and errno the reason.
 */
#include "exporters/test_buffer.h"
#include "lib/depth.h"
#include <pthread.h>
#include <stdatomic.h>

#define FOREVER DMABUF_TEST_MAX_DELAY
#define MOVES depth(20, 300)	/* of a race */

FIXTURE_SETUP(buffer)
{
	need("vmap");
	buffer_open(self, 0);
}

FIXTURE_TEARDOWN(buffer)
{
	EXPECT_TRUE(buffer_close(self));
}

/* An MR of the good buffer. */
static struct ibv_mr *reg_good(FIXTURE_DATA(buffer) *self)
{
	return must(ibv_reg_mr_fd_iova(self->pair.pd, 0, SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF,
				       self->vgem.fd, ALL_ACCESS));
}

static int rereg(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr, int fd)
{
	return ibv_rereg_mr_fd_iova(mr, TRANS, NULL, 0, SIZE, IOVA,
				    IBV_MR_FD_TYPE_DMABUF, fd, 0);
}

/* Whether RDMA writes to AT, and reads from there. */
static bool is_at(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr, uint8_t *at)
{
	static uint32_t seed = 1000;

	seed++;
	return rdma_write(self, mr, seed) && filled(at, SIZE, seed, "where the region is") &&
	       rdma_reads(self, mr, seed);
}

/* Whether a rereg to the test exporter's buffer fails with this errno, and changes nothing. */
static bool fails(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr, int expected)
{
	uint32_t lkey = mr->lkey, rkey = mr->rkey;
	int ret, err;

	if (expected == EINTR)
		signals_begin(0);
	ret = rereg(self, mr, self->buf.fd);
	err = errno;
	if (expected == EINTR)
		signals_end();
	if (ret != IBV_REREG_MR_ERR_INPUT || err != expected) {
		printf("# rereg returned %d with errno %d, not %d\n", ret, err, expected);
		return false;
	}
	return mr->lkey == lkey && mr->rkey == rkey && mr->length == SIZE &&
	       at_rest(self->buf.fd) && is_at(self, mr, self->vgem.cpu);
}

/* Whether a rereg to the test exporter's buffer succeeds, and one back. */
static bool goes_there_and_back(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr)
{
	return !rereg(self, mr, self->buf.fd) && held(self->buf.fd, 1, 0) &&
	       is_at(self, mr, self->buf.cpu) && !rereg(self, mr, self->vgem.fd) &&
	       at_rest(self->buf.fd) && is_at(self, mr, self->vgem.cpu);
}

TEST_F(buffer, failed_rereg_leaves_the_mr_in_place)
{
	static const int errors[] = { ENOMEM, EIO, EBUSY, EINVAL };
	struct ibv_mr *mr = reg_good(self);

	for (int i = 0; i < 4; i++) {
		behave(self->buf.fd, DMABUF_TEST_VMAP, errors[i], 0);
		ASSERT_TRUE(fails(self, mr, errors[i]));
		behave(self->buf.fd, DMABUF_TEST_VMAP, 0, 0);
		behave(self->buf.fd, DMABUF_TEST_BEGIN_CPU_ACCESS, errors[i], 0);
		ASSERT_TRUE(fails(self, mr, errors[i]));
		behave(self->buf.fd, DMABUF_TEST_BEGIN_CPU_ACCESS, 0, 0);
		ASSERT_TRUE(goes_there_and_back(self, mr));
	}
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(buffer, rereg_to_a_buffer_without_vmap_is_enxio)
{
	struct ibv_mr *mr = reg_good(self);

	buffer_replace(self, DMABUF_TEST_NO_VMAP);
	ASSERT_TRUE(fails(self, mr, ENXIO));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(buffer, rereg_to_a_revoked_buffer_is_enodev)
{
	struct ibv_mr *mr = reg_good(self);

	take_memory(self->buf.fd);
	ASSERT_TRUE(fails(self, mr, ENODEV));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(buffer, rereg_to_io_memory_and_back_works)
{
	struct ibv_mr *mr = reg_good(self);

	buffer_replace(self, DMABUF_TEST_IOMEM);
	ASSERT_TRUE(goes_there_and_back(self, mr));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(buffer, signal_during_rereg_is_eintr)
{
	struct ibv_mr *mr = reg_good(self);

	behave(self->buf.fd, DMABUF_TEST_VMAP, 0, FOREVER);
	ASSERT_TRUE(fails(self, mr, EINTR));
	behave(self->buf.fd, DMABUF_TEST_VMAP, 0, 0);
	add_fence(self->buf.fd, KERNEL, FOREVER);
	ASSERT_TRUE(fails(self, mr, EINTR));
	signal_fences(self->buf.fd);
	ASSERT_TRUE(goes_there_and_back(self, mr));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

struct job {
	FIXTURE_DATA(buffer) *self;
	struct ibv_mr *mr;
};

static void *rereg_thread(void *arg)
{
	struct job *job = arg;

	return (void *)(long)rereg(job->self, job->mr, job->self->buf.fd);
}

TEST_F(buffer, mr_works_while_rereg_waits)
{
	struct job job = { self, reg_good(self) };
	pthread_t thread;
	void *ret;

	add_fence(self->buf.fd, KERNEL, FOREVER);
	ASSERT_EQ(0, pthread_create(&thread, NULL, rereg_thread, &job));
	while (!query(self->buf.fd).pins)
		usleep(1000);
	/* Once, because on a busy kernel with every checker it takes seconds. */
	ASSERT_TRUE(is_at(self, job.mr, self->vgem.cpu));
	ASSERT_EQ(EBUSY, pthread_tryjoin_np(thread, &ret));
	signal_fences(self->buf.fd);
	ASSERT_EQ(0, pthread_join(thread, &ret));
	ASSERT_EQ(NULL, ret);
	ASSERT_TRUE(is_at(self, job.mr, self->buf.cpu));
	ASSERT_EQ(0, ibv_dereg_mr(job.mr));
}

TEST_F(buffer, buffer_can_move_after_rereg_away)
{
	struct ibv_mr *mr = must(reg(self, ALL_ACCESS));

	ASSERT_TRUE(rdma_write(self, mr, 1));
	ASSERT_EQ(EBUSY, move(self->buf.fd, 0));
	ASSERT_EQ(0, rereg(self, mr, self->vgem.fd));
	ASSERT_EQ(0, move(self->buf.fd, 200));
	ASSERT_EQ(0, rereg(self, mr, self->buf.fd));
	ASSERT_TRUE(rdma_reads(self, mr, 1));
	ASSERT_EQ(EBUSY, move(self->buf.fd, 0));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(buffer, mr_can_leave_a_revoked_buffer_but_not_return)
{
	struct ibv_mr *mr = must(reg(self, ALL_ACCESS));

	take_memory(self->buf.fd);
	ASSERT_FALSE(rdma_write(self, mr, 1));
	pair_connect(&self->pair, IBV_MTU_1024);
	/* A change of access does not map the buffer again. */
	ASSERT_EQ(IBV_REREG_MR_ERR_INPUT,
		  ibv_rereg_mr_fd_iova(mr, CHANGE_ACCESS, NULL, 0, 0, 0, IBV_MR_FD_TYPE_DMABUF, -1,
				       ALL_ACCESS));
	ASSERT_EQ(ENODEV, errno);
	ASSERT_EQ(IBV_REREG_MR_ERR_INPUT, rereg(self, mr, self->buf.fd));
	ASSERT_EQ(ENODEV, errno);
	ASSERT_FALSE(rdma_write(self, mr, 1));
	pair_connect(&self->pair, IBV_MTU_1024);
	ASSERT_EQ(0, rereg(self, mr, self->vgem.fd));
	ASSERT_EQ(0, query(self->buf.fd).pages);
	ASSERT_TRUE(fails(self, mr, ENODEV));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

static atomic_bool over;

static void *mover(void *fd)
{
	while (!over) {
		move((long)fd, 0);
		usleep(1000);
	}
	return NULL;
}

TEST_F_TIMEOUT(buffer, rereg_during_moves_keeps_the_bytes, 60)
{
	struct ibv_mr *mr = reg_good(self);
	pthread_t thread;
	long rounds = 0;

	fill(self->buf.cpu, SIZE, 0);
	fill(self->vgem.cpu, SIZE, 0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, mover, (void *)(long)self->buf.fd));
	for (; query(self->buf.fd).moves < MOVES; rounds++) {
		ASSERT_EQ(0, rereg(self, mr, self->buf.fd));
		ASSERT_TRUE(rdma_reads(self, mr, rounds));
		ASSERT_TRUE(rdma_write(self, mr, rounds + 1));
		ASSERT_EQ(0, rereg(self, mr, self->vgem.fd));
		ASSERT_TRUE(rdma_reads(self, mr, rounds));
		ASSERT_TRUE(rdma_write(self, mr, rounds + 1));
		ASSERT_TRUE(filled(self->buf.cpu, SIZE, rounds + 1, "buffer that moves"));
	}
	over = true;
	pthread_join(thread, NULL);
	TH_LOG("%ld rounds, %u moves", rounds, query(self->buf.fd).moves);
	ASSERT_EQ(0, ibv_dereg_mr(mr));
}

TEST_HARNESS_MAIN
