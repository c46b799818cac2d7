// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: smp; devices: rxe */
/* runs: full; devices: connectx */
/*
 * An exporter moves a buffer whose importer uses vmap, or takes its memory away: the move is
 * refused, memory that was taken away stays until the import ends, and a new registration gets
 * ENODEV.
 *
 * An importer that uses vmap cannot follow, so it pins the buffer, and cannot give it back.
 * pinned.c has what happens to an MR.
 *
 * The last cases do all this concurrently, for three seconds each, or longer on a slow
 * machine: until each expected outcome has occurred at least once.
 */
#include "exporters/test_buffer.h"
#include "lib/depth.h"
#include "lib/random.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define MOVES depth(10, 150)	/* of a race, or changes of mood, or registrations */
#define REFUSED depth(1, 5)	/* moves, because the buffer was pinned */

FIXTURE_SETUP(buffer)
{
	need("vmap");
	buffer_open(self, 0);
}

FIXTURE_TEARDOWN(buffer)
{
	EXPECT_TRUE(buffer_close(self));
}

/* Whether SIGBUS kills a process that reads the buffer. */
static bool no_memory_is_there(FIXTURE_DATA(buffer) *self)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(*(volatile uint8_t *)self->buf.cpu);
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
}

TEST_F(buffer, buffer_can_move_between_registrations)
{
	struct ibv_mr *mr;

	for (int i = 0; i < 10; i++) {
		mr = must(reg(self, ALL_ACCESS));
		if (i)
			ASSERT_TRUE(rdma_reads(self, mr, i - 1));
		ASSERT_TRUE(rdma_write(self, mr, i));
		ASSERT_EQ(0, ibv_dereg_mr(mr));
		ASSERT_EQ(0, move(self->buf.fd, 0));
		/* A mapping shows the new pages. */
		ASSERT_TRUE(filled(self->buf.cpu, SIZE, i, "buffer"));
	}
	ASSERT_EQ(10, query(self->buf.fd).moves);
}

TEST_F(buffer, move_of_a_registered_buffer_is_ebusy)
{
	struct ibv_mr *mr = must(reg(self, ALL_ACCESS));

	ASSERT_TRUE(rdma_write(self, mr, 1));
	ASSERT_EQ(EBUSY, move(self->buf.fd, 0));
	ASSERT_EQ(EBUSY, move(self->buf.fd, 100));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 1, "buffer"));
	ASSERT_TRUE(rdma_write(self, mr, 2));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 2, "buffer"));
	ASSERT_EQ(0, query(self->buf.fd).moves);
	ASSERT_EQ(0, ibv_dereg_mr(mr));
	ASSERT_EQ(0, move(self->buf.fd, 0));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 2, "buffer"));
	ASSERT_TRUE(behaves(self));
}

/* A vmap does not hold a buffer of TTM.  It moves when CPU access begins and nothing pins it. */
TEST_F(buffer, reg_pins_the_buffer)
{
	struct ibv_mr *mr;

	buffer_replace(self, DMABUF_TEST_ONLY_PIN);
	fill(self->buf.cpu, SIZE, 1);
	mr = must(reg(self, ALL_ACCESS));
	ASSERT_TRUE(rdma_reads(self, mr, 1));
	ASSERT_TRUE(rdma_write(self, mr, 2));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 2, "buffer"));
	ASSERT_EQ(EBUSY, move(self->buf.fd, 0));
	ASSERT_EQ(0, query(self->buf.fd).moves);
	/* A second registration begins CPU access under the first. */
	ASSERT_EQ(0, reg_errno(self, ALL_ACCESS));
	ASSERT_TRUE(rdma_write(self, mr, 3));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 3, "buffer"));
	ASSERT_TRUE(rdma_reads(self, mr, 3));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
	ASSERT_EQ(0, move(self->buf.fd, 0));
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 3, "buffer"));
	ASSERT_TRUE(behaves(self));
}

TEST_F(buffer, move_during_a_dma_import_is_ebusy)
{
	int dma;

	ASSERT_EQ(0, import(self, &dma));
	ASSERT_EQ(EBUSY, move(self->buf.fd, 0));
	close(dma);
	ASSERT_EQ(0, move(self->buf.fd, 0));
	ASSERT_EQ(0, import(self, &dma));
	close(dma);
}

TEST_F(buffer, revoked_buffer_is_enodev)
{
	struct dmabuf_test_query q;
	int dma;

	take_memory(self->buf.fd);
	ASSERT_EQ(ENODEV, reg_errno(self, ALL_ACCESS));
	ASSERT_EQ(ENODEV, reg_errno(self, REMOTE_READ));
	ASSERT_EQ(ENODEV, import(self, &dma));
	ASSERT_EQ(ENODEV, move(self->buf.fd, 0));
	ASSERT_TRUE(no_memory_is_there(self));
	q = query(self->buf.fd);
	ASSERT_EQ(0, q.pages);
	take_memory(self->buf.fd);
	ASSERT_EQ(ENODEV, reg_errno(self, ALL_ACCESS));
}

TEST_F(buffer, revoked_memory_stays_until_the_import_ends)
{
	int dma;

	ASSERT_EQ(0, import(self, &dma));
	take_memory(self->buf.fd);
	ASSERT_EQ(ENODEV, reg_errno(self, ALL_ACCESS));
	ASSERT_EQ(PAGES, query(self->buf.fd).pages);
	close(dma);
	ASSERT_EQ(0, query(self->buf.fd).pages);
}

TEST_F(buffer, revocable_import_gives_revoked_memory_back)
{
	int dma = import_for_dma(self->buf.fd, DMABUF_TEST_REVOCABLE);

	ASSERT_LE(0, dma);
	ASSERT_TRUE(held(self->buf.fd, 0, 1));
	take_memory(self->buf.fd);
	ASSERT_EQ(0, query(self->buf.fd).pages);
	ASSERT_EQ(0, query(self->buf.fd).maps);
	ASSERT_EQ(1, query(self->buf.fd).attachments);
	close(dma);
}

TEST_F(buffer, revoke_during_a_move_takes_effect_after_it)
{
	ASSERT_EQ(0, move(self->buf.fd, DMABUF_TEST_MAX_DELAY));
	ASSERT_EQ(EBUSY, move(self->buf.fd, 0));
	take_memory(self->buf.fd);
	ASSERT_EQ(PAGES, query(self->buf.fd).pages);
	ASSERT_EQ(ENODEV, reg_errno(self, ALL_ACCESS));
	signal_fences(self->buf.fd);
	for (double end = deadline(5); now() < end && query(self->buf.fd).pages;)
		usleep(100000);
	ASSERT_EQ(0, query(self->buf.fd).pages);
}

/* A thread that does something to a buffer again and again, and how often it did. */
struct race {
	atomic_bool over;
	int fd;
	uint64_t random;
	atomic_long moved, busy, unexpected;
};

/* Delays below 4 ms, so that there are many rounds. */
static void short_sleep(struct race *r)
{
	usleep(random_below(&r->random, 4000));
}

static void *mover(void *arg)
{
	struct race *r = arg;

	while (!r->over) {
		int err = move(r->fd, random_below(&r->random, 3) ? 0 : 10);

		if (err == EBUSY)
			r->busy++;
		else if (!err)
			r->moved++;
		else
			r->unexpected++;
		short_sleep(r);
	}
	return NULL;
}

static void *moody(void *arg)
{
	struct race *r = arg;

	while (!r->over) {
		behave(r->fd, DMABUF_TEST_VMAP, random_below(&r->random, 2) ? ENOMEM : 0,
		       random_below(&r->random, 2));
		behave(r->fd, DMABUF_TEST_BEGIN_CPU_ACCESS,
		       random_below(&r->random, 2) ? EIO : 0, 0);
		short_sleep(r);
	}
	return NULL;
}

static void start(pthread_t *thread, struct race *r, void *(*what)(void *), int fd, uint64_t seed)
{
	*r = (struct race){ .fd = fd, .random = seed };
	if (pthread_create(thread, NULL, what, r))
		fail_case("start a thread");
}

static void stop(pthread_t thread, struct race *r)
{
	r->over = true;
	pthread_join(thread, NULL);
}

TEST_F_TIMEOUT(buffer, reg_and_dereg_during_moves_keep_the_bytes, 60)
{
	pthread_t thread;
	long rounds = 0;
	struct race r;

	fill(self->buf.cpu, SIZE, 0);
	start(&thread, &r, mover, self->buf.fd, random_begin(random_seed(), 0));
	for (; r.moved < MOVES || r.busy < REFUSED; rounds++) {
		struct ibv_mr *mr = must(reg(self, ALL_ACCESS));

		ASSERT_TRUE(rdma_reads(self, mr, rounds));
		ASSERT_TRUE(rdma_write(self, mr, rounds + 1));
		ASSERT_TRUE(filled(self->buf.cpu, SIZE, rounds + 1, "buffer"));
		ASSERT_EQ(0, ibv_dereg_mr(mr));
		ASSERT_TRUE(filled(self->buf.cpu, SIZE, rounds + 1, "buffer, not registered"));
	}
	stop(thread, &r);
	TH_LOG("%ld rounds, %ld moves, %ld refused", rounds, r.moved, r.busy);
	ASSERT_EQ(0, r.unexpected);
	ASSERT_EQ(r.moved, query(self->buf.fd).moves);
	/* The last move may still be under way. */
	signal_fences(self->buf.fd);
	ASSERT_TRUE(behaves(self));
}

TEST_F_TIMEOUT(buffer, reg_from_a_flaky_exporter_fails_or_works, 60)
{
	long ok = 0, failed = 0;
	pthread_t thread;
	struct race r;

	start(&thread, &r, moody, self->buf.fd, random_begin(random_seed(), 0));
	while (ok < MOVES || failed < MOVES) {
		struct ibv_mr *mr = reg(self, ALL_ACCESS);

		if (!mr) {
			ASSERT_TRUE(errno == ENOMEM || errno == EIO) {
				TH_LOG("reg failed with %m, not ENOMEM or EIO");
			}
			failed++;
			continue;
		}
		ASSERT_TRUE(rdma_write(self, mr, ++ok));
		ASSERT_TRUE(filled(self->buf.cpu, SIZE, ok, "buffer"));
		ASSERT_EQ(0, ibv_dereg_mr(mr));
	}
	stop(thread, &r);
	TH_LOG("%ld worked, %ld failed", ok, failed);
	behave(self->buf.fd, DMABUF_TEST_VMAP, 0, 0);
	behave(self->buf.fd, DMABUF_TEST_BEGIN_CPU_ACCESS, 0, 0);
	ASSERT_TRUE(behaves(self));
}

static void *revoker(void *arg)
{
	struct race *r = arg;

	usleep(random_below(&r->random, 20000));
	take_memory(r->fd);
	return NULL;
}

/* Register until that fails with ENODEV; how often it succeeded, or -1. */
static int reg_until_revoked(FIXTURE_DATA(buffer) *self)
{
	for (int ok = 0; ; ok++) {
		struct ibv_mr *mr = reg(self, ALL_ACCESS);

		if (!mr)
			return errno == ENODEV ? ok : -1;
		if (!rdma_write(self, mr, ok) || !rdma_reads(self, mr, ok)) {
			if (query(self->buf.fd).pages)
				return -1;
			pair_connect(&self->pair, IBV_MTU_1024);
		}
		if (ibv_dereg_mr(mr))
			return -1;
	}
}

TEST_F_TIMEOUT(buffer, reg_racing_with_revoke_works_or_is_enodev, 60)
{
	uint64_t seed = random_seed();
	long buffers = 0, ok = 0;
	pthread_t thread;
	struct race r;

	for (; ok < MOVES; buffers++) {
		int n;

		buffer_replace(self, buffers % 2 ? DMABUF_TEST_IOMEM : 0);
		start(&thread, &r, revoker, self->buf.fd, random_begin(seed, buffers));
		n = reg_until_revoked(self);
		stop(thread, &r);
		ASSERT_LE(0, n);
		ASSERT_EQ(ENODEV, reg_errno(self, ALL_ACCESS));
		ASSERT_TRUE(at_rest(self->buf.fd));
		ASSERT_EQ(0, query(self->buf.fd).pages);
		ok += n;
	}
	TH_LOG("%ld buffers, %ld registrations", buffers, ok);
}

TEST_HARNESS_MAIN
