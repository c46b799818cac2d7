// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: smp; devices: rxe */
/* runs: quick debug-full; guest: smp; devices: connectx pinned */
/*
 * A device that cannot follow pins the buffer.  When the exporter takes the memory back, the MR
 * gives no access any more, its key names nothing else until dereg, and no other MR suffers.
 *
 * The buffer is mapped for DMA or for the CPU.
 */
#include "exporters/test_buffer.h"
#include "lib/clock.h"
#include "lib/depth.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define PAGES_OF_OTHERS (4 * SIZE)

static const int errors[] = { ENOMEM, ENOSPC, EBUSY, EIO, EINVAL, ENODEV };

FIXTURE_SETUP(buffer)
{
	need("gives-back");
	buffer_open(self, 0);
}

FIXTURE_TEARDOWN(buffer)
{
	EXPECT_TRUE(buffer_close(self));
}

/* Whether one MR has the buffer and pins it, if N is 1. */
static bool pinned(FIXTURE_DATA(buffer) *self, int n)
{
	struct dmabuf_test_query q = query(self->buf.fd);
	bool cpu = device_can("vmap");

	if (q.attachments == n && q.pins == n && q.maps == (cpu ? 0 : n) &&
	    q.vmaps == (cpu ? n : 0) && q.brackets == (cpu ? n : 0))
		return true;
	printf("# %d MRs hold %u attachments, %u maps, %u pins, %u vmaps, %u brackets\n", n,
	       q.attachments, q.maps, q.pins, q.vmaps, q.brackets);
	return false;
}

/* Whether the memory is back at the exporter; the MR is attached until its dereg. */
static bool given_back(FIXTURE_DATA(buffer) *self)
{
	struct dmabuf_test_query q = query(self->buf.fd);

	return !q.pages && !q.maps && !q.vmaps && !q.pins;
}

static bool is_refused(FIXTURE_DATA(buffer) *self, uint32_t rkey)
{
	enum ibv_wc_status status = rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr,
					    self->host.iova, SIZE, IOVA, rkey);

	pair_connect(&self->pair, IBV_MTU_1024);
	return status == IBV_WC_REM_ACCESS_ERR;
}

static bool is_at(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr, uint8_t *at)
{
	static uint32_t seed = 1000;

	seed++;
	return rdma_write(self, mr, seed) && filled(at, SIZE, seed, "where the region is") &&
	       rdma_reads(self, mr, seed);
}

static void is_held(struct __test_metadata *_metadata, FIXTURE_DATA(buffer) *self,
		    struct ibv_mr *mr)
{
	ASSERT_TRUE(pinned(self, 1));
	ASSERT_TRUE(is_at(self, mr, self->buf.cpu));
	ASSERT_EQ(EBUSY, move(self->buf.fd, 0));
	ASSERT_TRUE(is_at(self, mr, self->buf.cpu));
	mr_close(mr);
	ASSERT_TRUE(pinned(self, 0));
	ASSERT_EQ(0, move(self->buf.fd, 0));
}

TEST_F(buffer, mr_pins_the_buffer)
{
	is_held(_metadata, self, must(reg(self, RWA)));
}

/* Upstream's verb pins here too: the device has no page faults by which to follow a move. */
TEST_F(buffer, mr_of_ibv_reg_dmabuf_mr_pins_the_buffer)
{
	is_held(_metadata, self, must(reg_dmabuf(self, RWA)));
}

/* A thread without CAP_IPC_LOCK. Of the buffer it registers a page, and pins all of it. */
static void *reg_without_privilege(void *arg)
{
	FIXTURE_DATA(buffer) *self = arg;
	long before = pinned_kb();
	struct ibv_mr *mr;

	if (syscall(SYS_setresuid, 65534, 65534, 65534))
		fail_case("drop privileges");
	for (int i = 0; i < 2; i++) {
		mr = must(ibv_reg_mr_fd_iova(self->pair.pd, 0, PAGE, IOVA,
					     IBV_MR_FD_TYPE_DMABUF, self->buf.fd, RWA));
		if (pinned_kb() - before != SIZE / 1024)
			fail_case("the buffer counts %ld KiB", pinned_kb() - before);
		if (reg_errno(self, RWA) != ENOMEM)
			fail_case("a second MR is above the limit");
		mr_close(mr);
		if (pinned_kb() != before)
			fail_case("%ld KiB stay pinned", pinned_kb() - before);
	}
	return NULL;
}

TEST_F(buffer, pinned_buffer_counts_against_memlock_with_its_size)
{
	rlim_t n = pinned_kb() * 1024 + 3 * SIZE / 2;
	struct rlimit limit = { n, n };
	pthread_t thread;

	need("reg_mr_fd");
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &limit));
	ASSERT_EQ(0, pthread_create(&thread, NULL, reg_without_privilege, self));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_TRUE(pinned(self, 0));
}

TEST_F(buffer, revoked_buffer_does_not_count_against_memlock)
{
	long before = pinned_kb();
	struct ibv_mr *mr = must(reg(self, RWA));

	EXPECT_EQ(before + SIZE / 1024, pinned_kb());
	take_memory(self->buf.fd);
	EXPECT_EQ(before, pinned_kb());
	mr_close(mr);
	EXPECT_EQ(before, pinned_kb());
}

TEST_F(buffer, reg_returns_the_errno_of_the_exporter)
{
	const enum dmabuf_test_op ops[] = {
		DMABUF_TEST_ATTACH, device_can("vmap") ? DMABUF_TEST_VMAP : DMABUF_TEST_MAP,
	};

	for (int op = 0; op < 2; op++) {
		for (int i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
			behave(self->buf.fd, ops[op], errors[i], 0);
			ASSERT_EQ(errors[i], reg_errno(self, RWA));
			ASSERT_TRUE(pinned(self, 0));
		}
		behave(self->buf.fd, ops[op], 0, 0);
		ASSERT_EQ(0, reg_errno(self, RWA));
		ASSERT_TRUE(pinned(self, 0));
	}
	take_memory(self->buf.fd);
	ASSERT_EQ(ENODEV, reg_errno(self, RWA));
	ASSERT_TRUE(pinned(self, 0));
}

#define OTHERS 20

/* The registrations that follow would find the key, if it were free. */
static void is_lost(struct __test_metadata *_metadata, FIXTURE_DATA(buffer) *self,
		    struct ibv_mr *mr)
{
	struct ibv_mr *other[OTHERS];

	ASSERT_TRUE(is_at(self, mr, self->buf.cpu));
	take_memory(self->buf.fd);
	ASSERT_TRUE(given_back(self));
	ASSERT_TRUE(is_refused(self, mr->rkey));
	for (int i = 0; i < OTHERS; i++) {
		other[i] = memory_reg(&self->vgem, self->pair.pd, RWA);
		ASSERT_NE(mr->rkey, other[i]->rkey);
	}
	ASSERT_TRUE(is_refused(self, mr->rkey));
	for (int i = 0; i < OTHERS; i++)
		mr_close(other[i]);
	mr_close(mr);
}

TEST_F(buffer, revoked_mr_gives_no_access_and_keeps_its_key)
{
	is_lost(_metadata, self, must(reg(self, RWA)));
}

TEST_F(buffer, revoked_mr_of_ibv_reg_dmabuf_mr_keeps_its_key)
{
	is_lost(_metadata, self, must(reg_dmabuf(self, RWA)));
}

TEST_F(buffer, rereg_leaves_a_revoked_buffer)
{
	struct ibv_mr *mr = must(reg(self, RWA));

	need("rereg_mr_fd");
	take_memory(self->buf.fd);
	/* By both verbs: the key is dead, and stays so. */
	ASSERT_EQ(IBV_REREG_MR_ERR_INPUT,
		  ibv_rereg_mr_fd_iova(mr, CHANGE_ACCESS, NULL, 0, 0, 0, IBV_MR_FD_TYPE_DMABUF, -1,
				       RW));
	ASSERT_EQ(ENODEV, errno);
	ASSERT_EQ(IBV_REREG_MR_ERR_CMD, ibv_rereg_mr(mr, CHANGE_ACCESS, NULL, NULL, 0, RW));
	ASSERT_EQ(ENODEV, errno);
	ASSERT_TRUE(is_refused(self, mr->rkey));
	ASSERT_EQ(0, ibv_rereg_mr_fd_iova(mr, TRANS, NULL, 0, SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF,
					  self->vgem.fd, 0));
	ASSERT_TRUE(is_at(self, mr, self->vgem.cpu));
	ASSERT_TRUE(pinned(self, 0));
	mr_close(mr);
}

struct writer {
	FIXTURE_DATA(buffer) *self;
	struct ibv_mr *mr;
	atomic_long written;	/* messages */
};

static void *write_on(void *arg)
{
	struct writer *w = arg;
	FIXTURE_DATA(buffer) *self = w->self;

	while (!rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova, SIZE, IOVA,
			w->mr->rkey))
		w->written++;
	return NULL;
}

/*
 * What the exporter frees belongs to others at once, so no packet may reach it.
 *
 * The others have a buffer of the same exporter: the kernel gives it the pages that were freed
 * last (all of them, as a driver that did not revoke the key has shown), and clears them.
 * Memory of a process would not get them, because it is movable and these pages are not.
 */
TEST_F(buffer, revoke_during_traffic_stops_it)
{
	fill(self->host.cpu, SIZE, 5);
	for (int i = 0; i < 10; i++) {
		struct writer w = { .self = self, .mr = must(reg(self, RWA)) };
		struct memory others;
		pthread_t thread;

		ASSERT_EQ(0, pthread_create(&thread, NULL, write_on, &w));
		while (!w.written)
			usleep(100);
		usleep(1000 * (i % 5));
		take_memory(self->buf.fd);
		test_exporter_open(&others, PAGES_OF_OTHERS, 0);
		ASSERT_TRUE(given_back(self));
		ASSERT_EQ(0, pthread_join(thread, NULL));
		ASSERT_TRUE(memory_is_zero(&others));
		memory_close(&others);
		pair_connect(&self->pair, IBV_MTU_1024);
		ASSERT_TRUE(is_refused(self, w.mr->rkey));
		mr_close(w.mr);
		buffer_replace(self, 0);
	}
}

struct taking {
	int fd;
	struct span span;
};

static void *take_back(void *arg)
{
	struct taking *t = arg;

	t->span.begin = now();
	take_memory(t->fd);
	t->span.end = now();
	return NULL;
}

/*
 * The exporter takes the memory while the MR ends.  The key goes to the next MR, which must
 * not feel the call of the exporter.
 */
TEST_F_TIMEOUT(buffer, revoke_racing_with_dereg_spares_the_next_mr, 120)
{
	bool new_keys = device_can("new-keys");
	int same = 0, met = 0, races;

	for (races = 0; races < depth(20, 60) || met < 5 || (!new_keys && !same); races++) {
		struct ibv_mr *mr = must(reg(self, RWA)), *next;
		struct taking taking = { .fd = self->buf.fd };
		uint32_t rkey = mr->rkey;
		struct span dereg;
		pthread_t thread;

		ASSERT_EQ(0, pthread_create(&thread, NULL, take_back, &taking));
		usleep(random() % 300);
		dereg.begin = now();
		mr_close(mr);
		dereg.end = now();
		next = memory_reg(&self->vgem, self->pair.pd, RWA);
		same += next->rkey == rkey;
		ASSERT_EQ(0, pthread_join(thread, NULL));
		ASSERT_TRUE(is_at(self, next, self->vgem.cpu));
		mr_close(next);
		buffer_replace(self, 0);
		met += spans_overlap(&taking.span, &dereg);
	}
	TH_LOG("%d of %d revokes met a dereg, %d keys went to the next MR", met, races, same);
}

TEST_HARNESS_MAIN
