// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp gpu; devices: all */
/*
 * Buffers of a GPU move below lists, lists of lists, windows and prefetches: each access finds
 * the bytes where they are, and a prefetch or a dereg at the same time spoils nothing.
 */
#include "lib/depth.h"
#include "lib/harness.h"
#include "lib/window.h"
#include "mkeys/parts.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define TIMES depth(1, 5)	/* the least of each race */

FIXTURE(moving)
{
	struct parts p;
	struct mlx5dv_mkey *top;	/* a list that names the list of P */
	struct ibv_mw *mw[2];		/* on the first region, and on TOP */
};

FIXTURE_VARIANT(moving)
{
	enum memory_kind kind[PARTS];
};

FIXTURE_VARIANT_ADD(moving, buffers) {
	.kind = { GPU_VRAM, GPU_SYSTEM, GPU_VRAM, GPU_SYSTEM, GPU_VRAM }
};
FIXTURE_VARIANT_ADD(moving, buffers_among_others) {
	.kind = { GPU_VRAM, MEMFD, HOST, UDMABUF, GPU_SYSTEM }
};

FIXTURE_SETUP(moving)
{
	struct parts *p = &self->p;

	need("follows-moves");
	parts_open(p, variant->kind);
	self->top = list_make(&p->e);
	ASSERT_EQ(IBV_WC_SUCCESS, list_fill(&p->e, p->list, RWA, p->piece, PARTS));
	ASSERT_EQ(IBV_WC_SUCCESS,
		  list_fill_sge(&p->e, self->top, RWA,
				&(struct ibv_sge){ 0, p->bytes, p->list->lkey }, 1, true));
	for (int i = 0; i < 2; i++)
		self->mw[i] = window_alloc(p->e.pd, IBV_MW_TYPE_1);
	ASSERT_EQ(IBV_WC_SUCCESS, window_bind(&p->e.pair, self->mw[0], p->mr[0]->lkey, IOVA, SIZE,
					      WINDOW_ACCESS));
	ASSERT_EQ(IBV_WC_SUCCESS, window_bind(&p->e.pair, self->mw[1], self->top->lkey, 0,
					      p->bytes, WINDOW_ACCESS));
}

FIXTURE_TEARDOWN(moving)
{
	for (int i = 0; i < 2; i++)
		if (self->mw[i])
			EXPECT_EQ(0, ibv_dealloc_mw(self->mw[i]));
	list_close(self->top);
	EXPECT_TRUE(parts_close(&self->p));
}

static bool moves(const struct memory *m)
{
	return m->kind == GPU_VRAM || m->kind == GPU_SYSTEM;
}

static void move_away(const struct memory *m)
{
	if (!moves(m))
		return;
	errno = gpu_move(m, gpu_query(m).place == MRFD_GPU_VRAM ? MRFD_GPU_SYSTEM :
			 MRFD_GPU_VRAM, 0);
	if (errno)
		fail_case("move a buffer of the GPU");
}

static void move_all(FIXTURE_DATA(moving) *self)
{
	for (int i = 0; i < PARTS; i++)
		move_away(&self->p.mem[i]);
}

#define WAYS 4

/* Whether bytes go by way I, and come back: the list, the one above it, the windows. */
static bool way_works(FIXTURE_DATA(moving) *self, int i, uint32_t seed, bool move_between)
{
	struct parts *p = &self->p;
	const uint32_t rkey[WAYS] = {
		p->list->rkey, self->top->rkey, self->mw[1]->rkey, self->mw[0]->rkey,
	};
	uint64_t addr = i == 3 ? IOVA + p->piece[0].at : 0;
	int n = i == 3 ? 1 : PARTS;

	if (move_between)
		move_all(self);
	if (!key_writes(&p->e, rkey[i], addr, p->piece, n, seed))
		return false;
	if (move_between)
		move_all(self);
	return key_reads(&p->e, rkey[i], addr, p->piece, n, seed + 1);
}

TEST_F(moving, lists_and_windows_follow_moves)
{
	uint32_t seed = 1;

	for (int round = 0; round < 3; round++)
		for (int i = 0; i < WAYS; i++)
			ASSERT_TRUE(way_works(self, i, seed += 2, true));
}

/* A thread beside the case: it does WHAT until the case sets OVER. */
struct beside {
	FIXTURE_DATA(moving) *self;
	void (*what)(struct beside *b);
	atomic_bool over;
	atomic_long rounds;
	atomic_int wrong;	/* an errno that may not be */
	pthread_t thread;
};

static void *keep_on(void *arg)
{
	struct beside *b = arg;

	for (; !b->over; b->rounds++)
		b->what(b);
	return NULL;
}

static void begin(struct beside *b, FIXTURE_DATA(moving) *self, void (*what)(struct beside *b))
{
	*b = (struct beside){ .self = self, .what = what };
	errno = pthread_create(&b->thread, NULL, keep_on, b);
	if (errno)
		fail_case("start a thread");
}

static void end(struct beside *b)
{
	b->over = true;
	pthread_join(b->thread, NULL);
}

static void move_one(struct beside *b)
{
	move_away(&b->self->p.mem[b->rounds % PARTS]);
	usleep(b->rounds % 7 * 300);
}

/* Of all parts of which there can be one, by turns with and without FLUSH. */
static void prefetch_some(struct beside *b)
{
	struct parts *p = &b->self->p;
	struct ibv_sge sge[PARTS];
	int n = 0, err;

	for (int i = 0; i < PARTS; i++)
		if (moves(&p->mem[i]))
			sge[n++] = (struct ibv_sge){ IOVA, SIZE, p->mr[i]->lkey };
	err = ibv_advise_mr(p->e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, b->rounds % 2, sge, n);
	if (err)
		b->wrong = err;
	usleep(b->rounds % 5 * 200);
}

/*
 * The CPU's view of a buffer that moves is consistent, so bytes can be compared all the
 * time.
 */
TEST_F_TIMEOUT(moving, moves_and_prefetches_keep_the_bytes, 60)
{
	struct beside mover, prefetcher;
	long rounds = 0;

	begin(&mover, self, move_one);
	begin(&prefetcher, self, prefetch_some);
	for (; rounds < 2 * WAYS * TIMES || mover.rounds < 2 * PARTS * TIMES ||
	       prefetcher.rounds < 4 * TIMES; rounds++)
		ASSERT_TRUE(way_works(self, rounds % WAYS, 2 * rounds, false));
	end(&mover);
	end(&prefetcher);
	ASSERT_EQ(0, prefetcher.wrong);
	TH_LOG("%ld rounds, %ld moves, %ld prefetches", rounds, mover.rounds, prefetcher.rounds);
}

/* A region of its own, which ends and begins again under the prefetches of a thread. */
struct short_lived {
	uint64_t iova;
	atomic_uint lkey;
	atomic_long done, missed;
};

static struct short_lived brief;

static void prefetch_brief(struct beside *b)
{
	struct ibv_sge sge = { brief.iova, SIZE, brief.lkey };
	int err = ibv_advise_mr(b->self->p.e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, b->rounds % 2,
				&sge, 1);

	if (!err)
		brief.done++;
	else if (err == ENOENT)
		brief.missed++;
	else
		b->wrong = err;
}

/*
 * A prefetch that was begun holds up the dereg, or comes too late; both have to happen.  It
 * may be too early as well: the key of a region that ended is that of the next one, which is
 * found when it is complete, and not before.
 */
static void race_prefetch(struct __test_metadata *_metadata, FIXTURE_DATA(moving) *self,
			  struct memory *m, int access)
{
	struct beside mover, prefetcher;
	long rounds = 0;

	brief = (struct short_lived){ .iova = m->iova };
	begin(&mover, self, move_one);
	begin(&prefetcher, self, prefetch_brief);
	for (; rounds < 20 * TIMES || brief.done < 5 * TIMES || brief.missed < 5 * TIMES;
	     rounds++) {
		struct ibv_mr *mr = memory_reg(m, self->p.e.pd, access);
		struct piece all = { m, mr, 0, SIZE };

		brief.lkey = mr->lkey;
		ASSERT_TRUE(key_writes(&self->p.e, mr->rkey, m->iova, &all, 1, rounds));
		if (rounds % 2)
			usleep(rounds % 11 * 100);
		mr_close(mr);
		if (rounds % 3 == 0)
			usleep(500);
	}
	end(&mover);
	end(&prefetcher);
	ASSERT_EQ(0, prefetcher.wrong);
	ASSERT_TRUE(way_works(self, 0, 1, false));
	TH_LOG("%ld regions, %ld moves, prefetches: %ld done, %ld too late", rounds, mover.rounds,
	       brief.done, brief.missed);
}

TEST_F_TIMEOUT(moving, prefetch_during_dereg_works_or_is_enoent, 60)
{
	race_prefetch(_metadata, self, &self->p.mem[0], RWA);
}

/* The same with memory for on-demand paging, beside buffers that move. */
TEST_F_TIMEOUT(moving, odp_prefetch_during_dereg_works_or_is_enoent, 60)
{
	struct memory host;

	need("on-demand");
	memory_open(&host, HOST, SIZE);
	race_prefetch(_metadata, self, &host, RWA | IBV_ACCESS_ON_DEMAND);
	memory_close(&host);
}

/* The keys of a region that follow each other when it is reregistered to other buffers. */
TEST_F_TIMEOUT(moving, prefetch_during_rereg_works_or_is_enoent, 60)
{
	struct parts *p = &self->p;
	struct beside mover, prefetcher;
	int second = moves(&p->mem[1]) ? 1 : PARTS - 1;
	struct ibv_mr *mr = memory_reg(&p->mem[0], p->e.pd, RWA);
	long rounds = 0;

	need("rereg_mr_fd");
	brief = (struct short_lived){ .iova = IOVA, .lkey = mr->lkey };
	begin(&mover, self, move_one);
	begin(&prefetcher, self, prefetch_brief);
	for (; rounds < 20 * TIMES || brief.done < 5 * TIMES || brief.missed < 5 * TIMES;
	     rounds++) {
		struct memory *next = &p->mem[rounds % 2 ? 0 : second];
		struct piece all = { next, mr, 0, SIZE };

		ASSERT_EQ(0, memory_rereg(mr, TRANS, NULL, next, 0));
		ASSERT_TRUE(key_writes(&p->e, mr->rkey, IOVA, &all, 1, rounds));
		if (rounds % 3)
			brief.lkey = mr->lkey;
	}
	end(&mover);
	end(&prefetcher);
	mr_close(mr);
	ASSERT_EQ(0, prefetcher.wrong);
	TH_LOG("%ld regions, %ld moves, prefetches: %ld done, %ld too late", rounds, mover.rounds,
	       brief.done, brief.missed);
}

TEST_HARNESS_MAIN
