// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Re-registration as users see it: after it the keys are the same, and data goes
 * to where the MR is now, with the rights and in the PD that it has now, and not
 * one byte to where it was.  From every kind of memory to every other, in system
 * and in I/O memory, with every combination of flags.
 */
#include "rereg.h"
#include "kselftest_harness.h"

#define SIZE (16 * PAGE)
#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)
#define NO_READ (ALL_ACCESS & ~IBV_ACCESS_REMOTE_READ)
#define TRANS IBV_REREG_MR_CHANGE_TRANSLATION
#define PD IBV_REREG_MR_CHANGE_PD
#define ACCESS IBV_REREG_MR_CHANGE_ACCESS

FIXTURE(rereg)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd[2];	/* of the MR: before and after a change of PD */
	struct place from, to;
	struct place local;	/* at the requester */
	struct ibv_mr *local_mr;
	struct ibv_mr *mr;	/* on FROM, in pd[0], with every right */
	struct ibv_mr was;	/* as it was registered */
};

FIXTURE_VARIANT(rereg)
{
	enum exporter from, to;
};

#define MOVE(a, A, b, B) FIXTURE_VARIANT_ADD(rereg, a##_to_##b) { .from = A, .to = B }
MOVE(host, HOST, host, HOST);
MOVE(host, HOST, vgem, VGEM);
MOVE(host, HOST, memfd, MEMFD);
MOVE(host, HOST, bochs, BOCHS);
MOVE(vgem, VGEM, host, HOST);
MOVE(vgem, VGEM, vgem, VGEM);
MOVE(vgem, VGEM, memfd, MEMFD);
MOVE(vgem, VGEM, bochs, BOCHS);
MOVE(memfd, MEMFD, host, HOST);
MOVE(memfd, MEMFD, vgem, VGEM);
MOVE(memfd, MEMFD, memfd, MEMFD);
MOVE(memfd, MEMFD, bochs, BOCHS);
MOVE(bochs, BOCHS, host, HOST);
MOVE(bochs, BOCHS, vgem, VGEM);
MOVE(bochs, BOCHS, memfd, MEMFD);

FIXTURE_SETUP(rereg)
{
	self->ctx = open_device("rxe0");
	for (int i = 0; i < 2; i++)
		self->pd[i] = must(ibv_alloc_pd(self->ctx));
	place_open(&self->from, variant->from, SIZE, 1);
	place_open(&self->to, variant->to, SIZE, 2);
	place_open(&self->local, HOST, SIZE, 3);
	self->local_mr = place_reg(&self->local, self->pd[0], ALL_ACCESS);
	self->mr = place_reg(&self->from, self->pd[0], ALL_ACCESS);
	self->was = *self->mr;
}

FIXTURE_TEARDOWN(rereg)
{
	EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	EXPECT_EQ(0, ibv_dereg_mr(self->local_mr));
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(0, ibv_dealloc_pd(self->pd[i]));
	place_close(&self->from);
	place_close(&self->to);
	place_close(&self->local);
	ibv_close_device(self->ctx);
}

/* An operation on the MR by a peer whose QP is in PD; a new one each time, as
 * a refusal ends it.
 */
static enum ibv_wc_status op(FIXTURE_DATA(rereg) *self, struct ibv_pd *pd,
			     enum ibv_wr_opcode opcode, uint64_t addr, uint32_t n)
{
	enum ibv_wc_status status;
	struct pair pair;

	pair_open(&pair, self->ctx, (struct ibv_pd *[]){ self->pd[0], pd });
	status = rdma_op(&pair, opcode, self->local_mr, (uintptr_t)self->local.cpu, n, addr,
			 self->mr->rkey);
	pair_close(&pair);
	return status;
}

/*
 * Data really goes by write to PLACE, at byte AT, and to no other byte of either
 * place, and comes back by read.
 */
static bool reaches(FIXTURE_DATA(rereg) *self, struct ibv_pd *pd, struct place *place, size_t at,
		    uint64_t addr, uint32_t n, bool may_read)
{
	static uint32_t seed = 100;
	struct place *other = place == &self->from ? &self->to : &self->from;
	bool good;

	place_mark(place);
	place_mark(other);
	fill(self->local.cpu, n, ++seed);
	if (op(self, pd, IBV_WR_RDMA_WRITE, addr, n) != IBV_WC_SUCCESS)
		return false;
	good = filled(place->cpu + at, n, seed, "written") &&
	       only_changed(place->cpu, place->before, place->size, at, n) &&
	       place_untouched(other);
	fill(place->cpu + at, n, ++seed);
	if (!may_read)
		return good && op(self, pd, IBV_WR_RDMA_READ, addr, n) == IBV_WC_REM_ACCESS_ERR;
	memset(self->local.cpu, 0, self->local.size);
	return good && op(self, pd, IBV_WR_RDMA_READ, addr, n) == IBV_WC_SUCCESS &&
	       filled(self->local.cpu, n, seed, "read") && !self->local.cpu[n];
}

static bool same_keys(const struct ibv_mr *a, const struct ibv_mr *b)
{
	return a->lkey == b->lkey && a->rkey == b->rkey;
}

TEST_F_TIMEOUT(rereg, every_combination_of_flags, 90)
{
	for (int flags = 1; flags <= ALL_FLAGS; flags++) {
		struct place *now = flags & TRANS ? &self->to : &self->from;
		struct ibv_pd *pd = self->pd[!!(flags & PD)];
		uint64_t iova = place_iova(now);

		ASSERT_EQ(0, place_rereg(self->mr, flags, self->pd[1], &self->to, NO_READ)) {
			TH_LOG("flags %d: %s", flags, strerror(errno));
		}
		ASSERT_TRUE(same_keys(self->mr, &self->was));
		ASSERT_EQ(pd, self->mr->pd);
		ASSERT_EQ(iova, (uintptr_t)self->mr->addr);
		ASSERT_EQ(now->size, self->mr->length);
		ASSERT_TRUE(reaches(self, pd, now, 4000, iova + 4000, 5000, !(flags & ACCESS))) {
			TH_LOG("flags %d", flags);
		}
		/* The last byte is in, the one after it is not, nor is the other PD. */
		place_mark(now);
		ASSERT_EQ(IBV_WC_SUCCESS,
			  op(self, pd, IBV_WR_RDMA_WRITE, iova + now->size - 1, 1));
		ASSERT_TRUE(only_changed(now->cpu, now->before, now->size, now->size - 1, 1));
		place_mark(now);
		ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
			  op(self, pd, IBV_WR_RDMA_WRITE, iova + now->size - 1, 2));
		ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, op(self, self->pd[!(flags & PD)],
						    IBV_WR_RDMA_WRITE, iova, 8));
		ASSERT_TRUE(place_untouched(&self->from));
		ASSERT_TRUE(place_untouched(&self->to));

		/* And all the way back. */
		ASSERT_EQ(0, place_rereg(self->mr, ALL_FLAGS, self->pd[0], &self->from,
					 ALL_ACCESS));
		ASSERT_TRUE(same_keys(self->mr, &self->was));
		ASSERT_EQ(self->was.pd, self->mr->pd);
	}
	ASSERT_TRUE(reaches(self, self->pd[0], &self->from, 1, place_iova(&self->from) + 1, 3000,
			    true));
}

TEST_F(rereg, the_lkey_names_the_new_memory)
{
	struct pair pair;

	ASSERT_EQ(0, place_rereg(self->mr, TRANS, NULL, &self->to, 0));
	place_mark(&self->from);
	pair_open(&pair, self->ctx, (struct ibv_pd *[]){ self->pd[0], self->pd[0] });
	/* What a receive on the MR gets, and what a write with it as source sends. */
	post_recv(&pair, self->mr, place_iova(&self->to) + 5, 3000);
	fill(self->local.cpu, 3000, 7);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&pair, IBV_WR_SEND, self->local_mr,
					  (uintptr_t)self->local.cpu, 3000, 0, 0));
	ASSERT_TRUE(filled(self->to.cpu + 5, 3000, 7, "received"));
	ASSERT_TRUE(only_changed(self->to.cpu, self->to.before, self->to.size, 5, 3000));
	fill(self->to.cpu, 3000, 8);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&pair, IBV_WR_RDMA_WRITE, self->mr,
					  place_iova(&self->to), 3000, (uintptr_t)self->local.cpu,
					  self->local_mr->rkey));
	ASSERT_TRUE(filled(self->local.cpu, 3000, 8, "sent"));
	ASSERT_TRUE(place_untouched(&self->from));
	pair_close(&pair);
}

TEST_F(rereg, the_same_memory_at_another_offset_and_length)
{
	static const struct { uint64_t offset, length, iova; } parts[] = {
		{ PAGE, 2 * PAGE, 0x5000 }, { 100, 5000, 0x7f00000064 }, { 2 * PAGE, 1, 0 },
		{ SIZE - 3001, 3001, 0xfffffffff000 + (SIZE - 3001) % PAGE }, { 0, SIZE, 0 },
	};
	struct place *at = &self->from;

	if (variant->from == HOST) /* by address, so its iova is its address */
		at = &self->to;
	for (int i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		uint64_t offset = parts[i].offset, n = parts[i].length, iova = parts[i].iova;

		if (at->kind == HOST) {
			iova = (uintptr_t)at->cpu + offset;
			ASSERT_EQ(0, ibv_rereg_mr(self->mr, TRANS, NULL, (void *)iova, n, 0));
		} else {
			ASSERT_EQ(0, ibv_rereg_mr_fd_iova(self->mr, TRANS, NULL, offset, n, iova,
							  at->buf.type, at->buf.fd, 0));
		}
		ASSERT_TRUE(same_keys(self->mr, &self->was));
		ASSERT_TRUE(reaches(self, self->pd[0], at, offset, iova, n < 4000 ? n : 4000,
				    true));
		ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
			  op(self, self->pd[0], IBV_WR_RDMA_WRITE, iova + n, 1));
		if (iova)
			ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
				  op(self, self->pd[0], IBV_WR_RDMA_WRITE, iova - 1, 1));
	}
	if (at->kind != HOST) { /* the short form: the address tells the offset */
		ASSERT_EQ(0, ibv_rereg_mr_fd(self->mr, TRANS, NULL, (void *)0x123456789ul, 1000,
					     at->buf.type, at->buf.fd, 0));
		ASSERT_TRUE(reaches(self, self->pd[0], at, 0x789, 0x123456789ul, 1000, true));
	}
}

TEST_F(rereg, a_bound_window_makes_it_fail_and_keeps_working)
{
	uint64_t at = place_iova(&self->from) + PAGE;
	struct ibv_mw *mw = must(ibv_alloc_mw(self->pd[0], IBV_MW_TYPE_1));
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = self->mr, .addr = at, .length = PAGE,
			       .mw_access_flags = IBV_ACCESS_REMOTE_WRITE },
	};
	struct pair pair;

	pair_open(&pair, self->ctx, (struct ibv_pd *[]){ self->pd[0], self->pd[0] });
	ASSERT_EQ(0, ibv_bind_mw(pair.qp[0], mw, &bind));
	ASSERT_EQ(IBV_WC_SUCCESS, wait_wc(&pair, NULL));
	for (int flags = 1; flags <= ALL_FLAGS; flags++) {
		errno = 0;
		ASSERT_EQ(IBV_REREG_MR_ERR_CMD, place_rereg(self->mr, flags, self->pd[1],
							    &self->to, NO_READ));
		ASSERT_EQ(EINVAL, errno);
		ASSERT_EQ(0, memcmp(&self->was, self->mr, sizeof(self->was)));
		fill(self->local.cpu, 3000, flags);
		ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&pair, IBV_WR_RDMA_WRITE, self->local_mr,
						  (uintptr_t)self->local.cpu, 3000, at + 8, mw->rkey));
		ASSERT_TRUE(filled(self->from.cpu + PAGE + 8, 3000, flags, "by the window"));
	}
	ASSERT_TRUE(place_untouched(&self->to));
	ASSERT_EQ(0, ibv_dealloc_mw(mw));
	pair_close(&pair);
	ASSERT_EQ(0, place_rereg(self->mr, ALL_FLAGS, self->pd[1], &self->to, NO_READ));
	ASSERT_TRUE(reaches(self, self->pd[1], &self->to, 0, place_iova(&self->to), 5000, false));
}

TEST_F(rereg, the_fd_may_be_closed_after_it)
{
	/* Neither fd nor mapping is left of the place, but the MR has it. */
	struct place *to = &self->to;

	if (variant->to == HOST) {
		ASSERT_EQ(0, place_rereg(self->mr, TRANS, NULL, to, 0));
	} else {
		ASSERT_EQ(0, place_rereg(self->mr, TRANS, NULL, to, 0));
		close(to->buf.fd);
		to->buf.fd = -1;
	}
	ASSERT_TRUE(reaches(self, self->pd[0], to, 0, place_iova(to), 5000, true));
}

FIXTURE(chain)
{
};

FIXTURE_SETUP(chain)
{
	ASSERT_TRUE(nothing_left());
}

FIXTURE_TEARDOWN(chain)
{
	EXPECT_TRUE(nothing_left());
}

#define CHAIN 1000
#define KINDS 4

/*
 * A thousand reregs, with random flags, over memory of all kinds: the MR has
 * what one MR has, and then there is nothing.
 */
TEST_F_TIMEOUT(chain, of_a_thousand_leaves_nothing, 200)
{
	static const enum exporter kinds[KINDS] = { HOST, VGEM, MEMFD, BOCHS };
	struct ibv_context *ctx = open_device("rxe0");
	struct ibv_pd *pd[2] = { must(ibv_alloc_pd(ctx)), must(ibv_alloc_pd(ctx)) };
	struct place at[KINDS], *now = &at[0];
	struct ibv_mr *mr, was;
	int dmabufs;

	srandom(4711);
	for (int i = 0; i < KINDS; i++)
		place_open(&at[i], kinds[i], SIZE, i);
	dmabufs = dmabuf_count();
	mr = place_reg(now, pd[0], ALL_ACCESS);
	was = *mr;
	for (int i = 0; i < CHAIN; i++) {
		int flags = 1 + random() % ALL_FLAGS;
		struct place *to = &at[random() % KINDS];

		ASSERT_EQ(0, place_rereg(mr, flags, pd[i % 2], to, i % 3 ? NO_READ : ALL_ACCESS)) {
			TH_LOG("rereg %d, flags %d: %s", i, flags, strerror(errno));
		}
		ASSERT_TRUE(same_keys(mr, &was));
		now = flags & TRANS ? to : now;
		/* A dma-buf is not pinned at the cost of the process. */
		ASSERT_EQ(now->kind == HOST || now->kind == MEMFD ? SIZE / 1024 : 0, pinned_kb());
	}
	ASSERT_EQ(1, mr_count());
	ASSERT_EQ(dmabufs, dmabuf_count());
	ASSERT_EQ(0, ibv_dereg_mr(mr));
	ASSERT_EQ(0, pinned_kb());
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, ibv_dealloc_pd(pd[i]));
	for (int i = 0; i < KINDS; i++)
		place_close(&at[i]);
	ibv_close_device(ctx);
}

TEST_HARNESS_MAIN
