// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: smp; devices: all */
/*
 * An exporter moves a buffer or takes its memory away, and the device follows: the driver makes
 * the keys invalid, and the next page fault maps the memory that the buffer has then.
 *
 * The driver is told by invalidate_mappings.  The MR does not hold the buffer.
 *
 * No case registers memory for on-demand paging: the driver has to listen for page faults
 * from the first MR of a dma-buf on, whatever else is registered.
 */
#include "exporters/test_buffer.h"
#include "lib/depth.h"
#include "lib/random.h"
#include <pthread.h>
#include <stdatomic.h>

#define MOVES depth(10, 150)	/* of a race */

FIXTURE_SETUP(buffer)
{
	need("follows-moves");
	buffer_open(self, 0);
}

FIXTURE_TEARDOWN(buffer)
{
	EXPECT_TRUE(buffer_close(self));
}

TEST_F(buffer, mr_does_not_pin_the_buffer)
{
	struct ibv_mr *mr = must(reg(self, RWA));

	ASSERT_TRUE(rdma_write(self, mr, 1));
	ASSERT_EQ(0, query(self->buf.fd).pins);
	ASSERT_EQ(0, query(self->buf.fd).vmaps);
	ASSERT_EQ(1, query(self->buf.fd).attachments);
	mr_close(mr);
	ASSERT_EQ(0, query(self->buf.fd).attachments);
}

static void is_followed(struct __test_metadata *_metadata, FIXTURE_DATA(buffer) *self,
			struct ibv_mr *mr)
{
	for (int i = 0; i < 10; i++) {
		ASSERT_TRUE(rdma_write(self, mr, i));
		ASSERT_EQ(0, move(self->buf.fd, 0));
		ASSERT_TRUE(filled(self->buf.cpu, SIZE, i, "buffer"));
		ASSERT_TRUE(rdma_reads(self, mr, i));
	}
	ASSERT_EQ(10, query(self->buf.fd).moves);
	mr_close(mr);
}

TEST_F(buffer, mr_follows_moves)
{
	is_followed(_metadata, self, must(reg(self, RWA)));
}

/* Upstream's verb has an op of its own in the driver. */
TEST_F(buffer, mr_of_ibv_reg_dmabuf_mr_follows_moves)
{
	is_followed(_metadata, self, must(reg_dmabuf(self, RWA)));
}

/* The pages have their bytes when the fence of the move has signaled, and not before. */
TEST_F(buffer, read_waits_for_the_end_of_a_move)
{
	struct ibv_mr *mr = must(reg(self, RWA));

	ASSERT_TRUE(rdma_write(self, mr, 1));
	ASSERT_EQ(0, move(self->buf.fd, 300));
	ASSERT_TRUE(rdma_reads(self, mr, 1));
	mr_close(mr);
}

static void is_lost(struct __test_metadata *_metadata, FIXTURE_DATA(buffer) *self,
		    struct ibv_mr *mr)
{
	ASSERT_TRUE(rdma_write(self, mr, 1));
	take_memory(self->buf.fd);
	ASSERT_EQ(0, query(self->buf.fd).pages);
	ASSERT_FALSE(rdma_write(self, mr, 2));
	mr_close(mr);
}

TEST_F(buffer, mr_loses_a_revoked_buffer)
{
	is_lost(_metadata, self, must(reg(self, RWA)));
}

TEST_F(buffer, mr_of_ibv_reg_dmabuf_mr_loses_a_revoked_buffer)
{
	is_lost(_metadata, self, must(reg_dmabuf(self, RWA)));
}

struct mover {
	atomic_bool over;
	int fd;
	uint64_t random;
	long moved, unexpected;
};

static void *keep_moving(void *arg)
{
	struct mover *m = arg;

	while (!m->over) {
		int err = move(m->fd, random_below(&m->random, 3) ? 0 : 10);

		m->moved += !err;
		m->unexpected += err && err != EBUSY; /* EBUSY: the last move is not done */
		usleep(random_below(&m->random, 20000));
	}
	return NULL;
}

TEST_F_TIMEOUT(buffer, moves_during_traffic_keep_the_bytes, 60)
{
	struct mover m = { .fd = self->buf.fd, .random = random_begin(random_seed(), 0) };
	struct ibv_mr *mr = must(reg(self, RWA));
	pthread_t thread;
	long rounds = 0;

	ASSERT_EQ(0, pthread_create(&thread, NULL, keep_moving, &m));
	for (; m.moved < MOVES || rounds < 10; rounds++) {
		ASSERT_TRUE(rdma_write(self, mr, rounds));
		ASSERT_TRUE(rdma_reads(self, mr, rounds));
	}
	m.over = true;
	pthread_join(thread, NULL);
	TH_LOG("%ld rounds, %ld moves", rounds, m.moved);
	ASSERT_EQ(0, m.unexpected);
	signal_fences(self->buf.fd);
	ASSERT_TRUE(rdma_reads(self, mr, rounds - 1));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, rounds - 1, "buffer"));
	mr_close(mr);
}

TEST_HARNESS_MAIN
