// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: gpu; devices: all */
/* runs: full debug-full; guest: gpu; devices: pinned */
/*
 * After a rereg data goes to the new memory, with the new rights and PD, and not one byte to the
 * old memory: from every kind of memory to every other, with every combination of flags.
 *
 * The keys are the same, if the device keeps them.
 */
#include "lib/counts.h"
#include "lib/gpu.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/random.h"

#define SIZE (16 * PAGE)

FIXTURE(rereg)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd[2];	/* of the MR: before and after a change of PD */
	struct memory from, to;
	struct memory local;	/* at the requester */
	struct ibv_mr *local_mr;
	struct ibv_mr *mr;	/* on FROM, in pd[0], with every right */
	struct ibv_mr was;	/* as it was registered */
};

FIXTURE_VARIANT(rereg)
{
	enum memory_kind from, to;
};

/* The quick run has each kind as the memory before and as the memory after. */
#define MOVE(a, A, b, B) FIXTURE_VARIANT_ADD(rereg, a##_to_##b) { .from = A, .to = B }
/* runs: full */
MOVE(host, HOST, host, HOST);
MOVE(host, HOST, vgem, VGEM);
/* runs: full */
MOVE(host, HOST, memfd, MEMFD);
/* runs: full */
MOVE(host, HOST, qxl, QXL);
MOVE(vgem, VGEM, host, HOST);
MOVE(vgem, VGEM, vgem, VGEM);
/* runs: full */
MOVE(vgem, VGEM, memfd, MEMFD);
/* runs: full */
MOVE(vgem, VGEM, qxl, QXL);
/* runs: full */
MOVE(memfd, MEMFD, host, HOST);
/* runs: full */
MOVE(memfd, MEMFD, vgem, VGEM);
/* runs: full */
MOVE(memfd, MEMFD, memfd, MEMFD);
MOVE(memfd, MEMFD, qxl, QXL);
/* runs: full */
MOVE(qxl, QXL, host, HOST);
/* runs: full */
MOVE(qxl, QXL, vgem, VGEM);
MOVE(qxl, QXL, memfd, MEMFD);
/* The case with every combination goes back each time, so each of these is both ways. */
MOVE(vram, GPU_VRAM, host, HOST);
/* runs: full */
MOVE(vram, GPU_VRAM, vgem, VGEM);
MOVE(memfd, MEMFD, vram, GPU_VRAM);

FIXTURE_SETUP(rereg)
{
	if (variant->from != HOST || variant->to != HOST)
		need("rereg_mr_fd");
	self->ctx = device_open();
	for (int i = 0; i < 2; i++)
		self->pd[i] = must(ibv_alloc_pd(self->ctx));
	memory_open_filled(&self->from, variant->from, SIZE, 1);
	memory_open_filled(&self->to, variant->to, SIZE, 2);
	memory_open_filled(&self->local, HOST, SIZE, 3);
	self->local_mr = memory_reg(&self->local, self->pd[0], ALL_ACCESS);
	self->mr = memory_reg(&self->from, self->pd[0], ALL_ACCESS);
	self->was = *self->mr;
}

FIXTURE_TEARDOWN(rereg)
{
	mr_close(self->mr);
	mr_close(self->local_mr);
	for (int i = 0; i < 2; i++)
		pd_close(self->pd[i]);
	memory_close(&self->from);
	memory_close(&self->to);
	memory_close(&self->local);
	device_close(self->ctx);
}

/*
 * Whether nothing holds a buffer of the GPU but the MR if that is on it; while it is, a device
 * with DMA has left the buffer in VRAM.
 */
static bool held(const struct memory *m, const struct memory *now)
{
	struct mrfd_gpu_query q;

	if (m->kind != GPU_VRAM)
		return true;
	if (m != now)
		return gpu_at_rest(m);
	q = gpu_query(m);
	if (q.attachments == 1 && (q.place == MRFD_GPU_VRAM) == !device_can("vmap"))
		return true;
	printf("# the GPU's buffer has %u attachments and is at place %u\n", q.attachments, q.place);
	return false;
}

/*
 * An operation on the MR, by a peer whose QP is in PD.  It uses new QPs, because a refusal
 * puts them into the error state.
 */
static enum ibv_wc_status op(FIXTURE_DATA(rereg) *self, struct ibv_pd *pd,
			     enum ibv_wr_opcode opcode, uint64_t addr, uint32_t n)
{
	enum ibv_wc_status status;
	struct pair pair;

	pair_open(&pair, self->ctx, (struct ibv_pd *[]){ self->pd[0], pd });
	status = rdma_op(&pair, opcode, self->local_mr, self->local.iova, n, addr,
			 self->mr->rkey);
	pair_close(&pair);
	return status;
}

/*
 * Whether a write of N bytes to ADDR arrives in MEMORY, at byte FROM and nowhere else.  A
 * read must return what is there, or must be refused if the MR lacks the right.
 */
static bool reaches(FIXTURE_DATA(rereg) *self, struct ibv_pd *pd, struct memory *memory,
		    size_t from, uint64_t addr, uint32_t n, bool may_read)
{
	static uint32_t seed = 100;
	struct memory *other = memory == &self->from ? &self->to : &self->from;
	bool good;

	memory_mark(memory);
	memory_mark(other);
	fill(self->local.cpu, n, ++seed);
	if (op(self, pd, IBV_WR_RDMA_WRITE, addr, n) != IBV_WC_SUCCESS)
		return false;
	good = filled(memory->cpu + from, n, seed, "written") &&
	       memory_only_changed(memory, from, n) &&
	       memory_untouched(other);
	fill(memory->cpu + from, n, ++seed);
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

/* Whether the keys stayed, unless a rereg with these flags may change them on this device. */
static bool kept_keys(const struct ibv_mr *mr, const struct ibv_mr *was, int flags)
{
	return same_keys(mr, was) || (flags & TRANS && !device_can("keeps-keys"));
}

TEST_F_TIMEOUT(rereg, every_combination_of_flags_takes_effect, 90)
{
	for (int flags = 1; flags <= CHANGE_ALL; flags++) {
		struct memory *now = flags & TRANS ? &self->to : &self->from;
		struct ibv_pd *pd = self->pd[!!(flags & CHANGE_PD)];
		uint64_t iova = now->iova;

		ASSERT_EQ(0, memory_rereg(self->mr, flags, self->pd[1], &self->to, NO_READ)) {
			TH_LOG("rereg with flags %d: %s", flags, strerror(errno));
		}
		ASSERT_TRUE(kept_keys(self->mr, &self->was, flags));
		ASSERT_EQ(pd, self->mr->pd);
		ASSERT_EQ(iova, (uintptr_t)self->mr->addr);
		ASSERT_EQ(now->size, self->mr->length);
		ASSERT_TRUE(held(&self->from, now));
		ASSERT_TRUE(held(&self->to, now));
		ASSERT_TRUE(reaches(self, pd, now, 4000, iova + 4000, 5000,
				    !(flags & CHANGE_ACCESS))) {
			TH_LOG("data after a rereg with flags %d", flags);
		}
		/* The last byte can be written; not the one after it, nor from another PD. */
		memory_mark(now);
		ASSERT_EQ(IBV_WC_SUCCESS,
			  op(self, pd, IBV_WR_RDMA_WRITE, iova + now->size - 1, 1));
		ASSERT_TRUE(memory_only_changed(now, now->size - 1, 1));
		memory_mark(now);
		ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
			  op(self, pd, IBV_WR_RDMA_WRITE, iova + now->size - 1, 2));
		ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, op(self, self->pd[!(flags & CHANGE_PD)],
						    IBV_WR_RDMA_WRITE, iova, 8));
		ASSERT_TRUE(memory_untouched(&self->from));
		ASSERT_TRUE(memory_untouched(&self->to));

		/* Change everything back. */
		ASSERT_EQ(0, memory_rereg(self->mr, CHANGE_ALL, self->pd[0], &self->from,
					  ALL_ACCESS));
		ASSERT_TRUE(kept_keys(self->mr, &self->was, CHANGE_ALL));
		self->was = *self->mr;
	}
	ASSERT_TRUE(reaches(self, self->pd[0], &self->from, 1, self->from.iova + 1, 3000,
			    true));
}

TEST_F(rereg, lkey_refers_to_the_new_memory)
{
	struct pair pair;

	ASSERT_EQ(0, memory_rereg(self->mr, TRANS, NULL, &self->to, 0));
	memory_mark(&self->from);
	pair_open_in(&pair, self->pd[0]);
	/* The MR as the sink of a receive, and as the source of a write. */
	post_recv(&pair, self->mr, self->to.iova + 5, 3000);
	fill(self->local.cpu, 3000, 7);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&pair, IBV_WR_SEND, self->local_mr,
					  self->local.iova, 3000, 0, 0));
	ASSERT_TRUE(filled(self->to.cpu + 5, 3000, 7, "received"));
	ASSERT_TRUE(memory_only_changed(&self->to, 5, 3000));
	fill(self->to.cpu, 3000, 8);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&pair, IBV_WR_RDMA_WRITE, self->mr,
					  self->to.iova, 3000, self->local.iova,
					  self->local_mr->rkey));
	ASSERT_TRUE(filled(self->local.cpu, 3000, 8, "sent"));
	ASSERT_TRUE(memory_untouched(&self->from));
	pair_close(&pair);
}

TEST_F(rereg, rereg_changes_offset_and_length)
{
	static const struct { uint64_t offset, length, iova; } parts[] = {
		{ PAGE, 2 * PAGE, 0x5000 }, { 100, 5000, 0x7f00000064 }, { 2 * PAGE, 1, 0 },
		{ SIZE - 3001, 3001, 0xfffffffff000 + (SIZE - 3001) % PAGE }, { 0, SIZE, 0 },
	};
	struct memory *at = &self->from;

	if (variant->from == HOST) /* its iova is its address, so it has no other */
		at = &self->to;
	if (at->kind == QXL)
		need("io-memory");
	for (int i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		uint64_t offset = parts[i].offset, n = parts[i].length, iova = parts[i].iova;

		if (at->kind == HOST) {
			iova = (uintptr_t)at->cpu + offset;
			ASSERT_EQ(0, ibv_rereg_mr(self->mr, TRANS, NULL, (void *)iova, n, 0));
		} else {
			ASSERT_EQ(0, ibv_rereg_mr_fd_iova(self->mr, TRANS, NULL, offset, n, iova,
							  at->fd_type, at->fd, 0));
		}
		ASSERT_TRUE(kept_keys(self->mr, &self->was, TRANS));
		ASSERT_TRUE(reaches(self, self->pd[0], at, offset, iova, n < 4000 ? n : 4000,
				    true));
		ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
			  op(self, self->pd[0], IBV_WR_RDMA_WRITE, iova + n, 1));
		if (iova)
			ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
				  op(self, self->pd[0], IBV_WR_RDMA_WRITE, iova - 1, 1));
	}
	if (at->kind != HOST) { /* the short form takes the offset from the address */
		ASSERT_EQ(0, ibv_rereg_mr_fd(self->mr, TRANS, NULL, (void *)0x123456789ul, 1000,
					     at->fd_type, at->fd, 0));
		ASSERT_TRUE(reaches(self, self->pd[0], at, 0x789, 0x123456789ul, 1000, true));
	}
}

static struct ibv_mw *window_that_holds(struct ibv_pd *pd)
{
	need("window-holds");
	return window_alloc(pd, IBV_MW_TYPE_1);
}

TEST_F(rereg, rereg_with_a_bound_window_is_einval)
{
	uint64_t at = self->from.iova + PAGE;
	struct ibv_mw *mw = window_that_holds(self->pd[0]);
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = self->mr, .addr = at, .length = PAGE,
			       .mw_access_flags = REMOTE_WRITE },
	};
	/* ibv_rereg_mr() does not promise that the MR is as it was. */
	int error = self->to.kind == HOST ? IBV_REREG_MR_ERR_CMD : IBV_REREG_MR_ERR_INPUT;
	struct pair pair;

	pair_open_in(&pair, self->pd[0]);
	ASSERT_EQ(0, ibv_bind_mw(pair.qp[0], mw, &bind));
	ASSERT_EQ(IBV_WC_SUCCESS, wait_wc(&pair, NULL));
	for (int flags = 1; flags <= CHANGE_ALL; flags++) {
		errno = 0;
		ASSERT_EQ(error, memory_rereg(self->mr, flags, self->pd[1], &self->to, NO_READ));
		ASSERT_EQ(EINVAL, errno);
		ASSERT_EQ(0, memcmp(&self->was, self->mr, sizeof(self->was)));
		fill(self->local.cpu, 3000, flags);
		ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&pair, IBV_WR_RDMA_WRITE, self->local_mr,
						  self->local.iova, 3000, at + 8, mw->rkey));
		ASSERT_TRUE(filled(self->from.cpu + PAGE + 8, 3000, flags, "by the window"));
	}
	ASSERT_TRUE(memory_untouched(&self->to));
	ASSERT_EQ(0, ibv_dealloc_mw(mw));
	pair_close(&pair);
	ASSERT_EQ(0, memory_rereg(self->mr, CHANGE_ALL, self->pd[1], &self->to, NO_READ));
	ASSERT_TRUE(reaches(self, self->pd[1], &self->to, 0, self->to.iova, 5000, false));
}

/* Close the fd, then also the mapping and the handle, so that only the MR is left. */
TEST_F(rereg, fd_may_be_closed_after_rereg)
{
	struct memory *to = &self->to;
	uint64_t iova = to->iova;

	ASSERT_EQ(0, memory_rereg(self->mr, TRANS, NULL, to, 0));
	memory_close_fd(to);
	ASSERT_TRUE(reaches(self, self->pd[0], to, 0, iova, 5000, true));
	memory_close(to);
	fill(self->local.cpu, 5000, 9);
	ASSERT_EQ(IBV_WC_SUCCESS, op(self, self->pd[0], IBV_WR_RDMA_WRITE, iova, 5000));
	memset(self->local.cpu, 0, 5000);
	ASSERT_EQ(IBV_WC_SUCCESS, op(self, self->pd[0], IBV_WR_RDMA_READ, iova, 5000));
	ASSERT_TRUE(filled(self->local.cpu, 5000, 9, "read back"));
}

FIXTURE(chain)
{
};

FIXTURE_SETUP(chain)
{
	need("rereg_mr_fd");
	need("memfd");
	ASSERT_TRUE(nothing_left());
}

FIXTURE_TEARDOWN(chain)
{
	EXPECT_TRUE(nothing_left());
}

#define CHAIN 1000
#define KINDS 5		/* the last one is I/O memory */

/* Whether an MR of the memory counts against RLIMIT_MEMLOCK: what the MR pins. */
static bool counts(const struct memory *m)
{
	return m->kind == HOST || m->kind == MEMFD ||
	       (m->kind == GPU_VRAM && device_can("gives-back"));
}

/*
 * A thousand reregs with random flags, over memory of all kinds: the MR never holds more
 * than a new MR would, and after its dereg nothing is left.
 */
TEST_F_TIMEOUT(chain, thousand_reregs_leave_nothing_behind, 200)
{
	static const enum memory_kind kinds[KINDS] = { HOST, VGEM, MEMFD, GPU_VRAM, QXL };
	struct ibv_context *ctx = device_open();
	struct ibv_pd *pd[2] = { must(ibv_alloc_pd(ctx)), must(ibv_alloc_pd(ctx)) };
	struct memory at[KINDS], *now = &at[0];
	const int n = device_can("io-memory") ? KINDS : KINDS - 1;
	uint64_t random = random_begin(4711, 0);
	struct ibv_mr *mr, was;
	int dmabufs;

	for (int i = 0; i < n; i++)
		memory_open_filled(&at[i], kinds[i], SIZE, i);
	dmabufs = dmabuf_count();
	mr = memory_reg(now, pd[0], ALL_ACCESS);
	was = *mr;
	for (int i = 0; i < CHAIN; i++) {
		int flags = 1 + random_below(&random, CHANGE_ALL);
		struct memory *to = &at[random_below(&random, n)];

		ASSERT_EQ(0, memory_rereg(mr, flags, pd[i % 2], to, i % 3 ? NO_READ : ALL_ACCESS)) {
			TH_LOG("rereg %d, flags %d: %s", i, flags, strerror(errno));
		}
		ASSERT_TRUE(kept_keys(mr, &was, flags));
		was = *mr;
		now = flags & TRANS ? to : now;
		for (int k = 0; k < n; k++)
			ASSERT_TRUE(held(&at[k], now));
		ASSERT_EQ(counts(now) ? SIZE / 1024 : 0, pinned_kb());
	}
	ASSERT_EQ(1, mr_count());
	ASSERT_EQ(dmabufs, dmabuf_count());
	ASSERT_EQ(0, ibv_dereg_mr(mr));
	ASSERT_EQ(0, pinned_kb());
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, ibv_dealloc_pd(pd[i]));
	for (int i = 0; i < n; i++)
		memory_close(&at[i]);
	device_close(ctx);
}

TEST_HARNESS_MAIN
