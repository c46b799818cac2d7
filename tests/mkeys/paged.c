// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: gpu; devices: all */
/*
 * On-demand paging, explicit (some pages) and implicit (the whole address space), beside memfds
 * and buffers of a GPU, in one list of SGEs and one list of keys.  All keep their bytes while
 * pages go and buffers move.
 *
 * The implicit MR reaches what is mapped in the process if it is made of pages: a memfd, but
 * no buffer of a GPU.
 */
#include "lib/counts.h"
#include "lib/depth.h"
#include "lib/gpu.h"
#include "lib/harness.h"
#include "mkeys/lists.h"
#include <string.h>
#include <sys/mman.h>

enum { IMPLICIT, EXPLICIT, PINNED, FILE_, VRAM, SYSTEM, KINDS };

static const enum memory_kind kind_of[KINDS] = { HOST, HOST, HOST, MEMFD, GPU_VRAM, GPU_SYSTEM };

FIXTURE(odp)
{
	struct ends e;
	struct memory mem[KINDS];
	struct ibv_mr *mr[KINDS];
	struct piece piece[KINDS];
	size_t bytes;
};

static void open_all(FIXTURE_DATA(odp) *self)
{
	const int paged = RWA | IBV_ACCESS_ON_DEMAND;

	ends_open_for_lists(&self->e);
	for (int i = 0; i < KINDS; i++) {
		struct memory *m = &self->mem[i];

		memory_open_filled(m, kind_of[i], SIZE, i);
		if (i == IMPLICIT)
			self->mr[i] = must(ibv_reg_mr(self->e.pd, NULL, SIZE_MAX, paged));
		else
			self->mr[i] = memory_reg(m, self->e.pd, i == EXPLICIT ? paged : RWA);
		self->piece[i] = (struct piece){ m, self->mr[i], 8 * (100 * i + 1),
						 PAGE + 100 * i };
	}
	self->bytes = bytes_of(self->piece, KINDS);
}

FIXTURE_SETUP(odp)
{
	need("on-demand");
	need("follows-moves");
	open_all(self);
}

FIXTURE_TEARDOWN(odp)
{
	for (int i = 0; i < KINDS; i++)
		mr_close(self->mr[i]);
	for (int i = VRAM; i < KINDS && self->mem[i].size; i++)
		EXPECT_TRUE(gpu_at_rest(&self->mem[i]));
	for (int i = 0; i < KINDS; i++)
		memory_close(&self->mem[i]);
	ends_close(&self->e);
	EXPECT_TRUE(nothing_left());
}

/* The device has none of it any more.  What the CPU sees stays the same. */
static void take_away(FIXTURE_DATA(odp) *self)
{
	for (int i = IMPLICIT; i <= EXPLICIT; i++) {
		uint8_t *cpu = self->mem[i].cpu, copy[SIZE];

		memcpy(copy, cpu, SIZE);
		if (madvise(cpu, SIZE, MADV_DONTNEED))
			fail_case("madvise(MADV_DONTNEED) of paged memory");
		memcpy(cpu, copy, SIZE);
	}
	for (int i = VRAM; i < KINDS; i++) {
		errno = gpu_move(&self->mem[i], gpu_query(&self->mem[i]).place == MRFD_GPU_VRAM ?
				 MRFD_GPU_SYSTEM : MRFD_GPU_VRAM, 0);
		if (errno)
			fail_case("move a buffer of the GPU");
	}
}

#define MOST 3

/* N SGEs from FIRST on, in another order each time. */
static size_t sges(FIXTURE_DATA(odp) *self, int first, struct ibv_sge sge[MOST],
		   struct piece p[MOST])
{
	for (int i = 0; i < MOST; i++) {
		p[i] = self->piece[(first + 2 * i + i / 2) % KINDS];
		sge[i] = (struct ibv_sge){ p[i].of->iova + p[i].at, p[i].n, p[i].mr->lkey };
	}
	return bytes_of(p, MOST);
}

/* One QP writes the SGEs to the other's memory. */
static bool gathers(FIXTURE_DATA(odp) *self, int first, uint32_t seed)
{
	struct ends *e = &self->e;
	struct ibv_sge sge[MOST];
	struct piece p[MOST];
	size_t bytes = sges(self, first, sge, p), pos = 0;
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE, .sg_list = sge, .num_sge = MOST,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { e->host.iova, e->mr->rkey },
	};

	fill(e->host.cpu, bytes, seed);
	for (int i = 0; i < MOST; pos += p[i++].n)
		memcpy(p[i].of->cpu + p[i].at, e->host.cpu + pos, p[i].n);
	take_away(self);
	memset(e->host.cpu, 0, bytes);
	if ((errno = ibv_post_send(e->pair.qp[0], &wr, &bad)))
		fail_case("post a write with a list of SGEs");
	return !wait_wc(&e->pair, NULL) && filled(e->host.cpu, bytes, seed, "gathered");
}

/* A message arrives in the SGEs, or a read does. */
static bool scatters(FIXTURE_DATA(odp) *self, int first, uint32_t seed, bool read)
{
	struct ends *e = &self->e;
	struct ibv_sge sge[MOST];
	struct piece p[MOST];
	size_t bytes = sges(self, first, sge, p), pos = 0;
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = sge, .num_sge = MOST };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_READ, .sg_list = sge, .num_sge = MOST,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { e->host.iova, e->mr->rkey },
	};

	fill(e->host.cpu, bytes, seed);
	take_away(self);
	for (int i = 0; i < MOST; i++)
		memory_mark(p[i].of);
	for (int i = 0; i < MOST; pos += p[i++].n)
		memcpy(p[i].of->before + p[i].at, e->host.cpu + pos, p[i].n);
	if (read) {
		errno = ibv_post_send(e->pair.qp[0], &wr, &bad);
		if (errno || wait_wc(&e->pair, NULL))
			fail_case("RDMA read into a list of SGEs");
	} else {
		errno = ibv_post_recv(e->pair.qp[1], &recv, &bad_recv);
		if (errno || rdma_op(&e->pair, IBV_WR_SEND, e->mr, e->host.iova, bytes, 0, 0))
			fail_case("send to a list of SGEs");
	}
	for (int i = 0; i < MOST; i++)
		if (!memory_untouched(p[i].of))
			return false;
	return true;
}

TEST_F(odp, sge_list_mixes_odp_with_other_memory)
{
	uint32_t seed = 1;

	for (int i = 0; i < 2 * KINDS; i++) {
		ASSERT_TRUE(gathers(self, i, seed++));
		ASSERT_TRUE(scatters(self, i, seed++, false));
		ASSERT_TRUE(scatters(self, i, seed++, true));
	}
}

TEST_F(odp, key_list_mixes_odp_with_other_memory)
{
	struct mlx5dv_mkey *list = list_make(&self->e), *top = list_make(&self->e);
	struct ibv_sge sge = { 0, self->bytes, list->lkey };

	ASSERT_EQ(IBV_WC_SUCCESS, list_fill(&self->e, list, RWA, self->piece, KINDS));
	ASSERT_EQ(IBV_WC_SUCCESS, list_fill_sge(&self->e, top, RWA, &sge, 1, true));
	for (int i = 0; i < 6; i++) {
		uint32_t rkey = i % 2 ? list->rkey : top->rkey;

		take_away(self);
		ASSERT_TRUE(key_writes(&self->e, rkey, 0, self->piece, KINDS, 2 * i));
		take_away(self);
		ASSERT_TRUE(key_reads(&self->e, rkey, 0, self->piece, KINDS, 2 * i + 1));
	}
	list_close(top);
	list_close(list);
}

/* By one call, as by one for each. */
TEST_F(odp, one_prefetch_covers_odp_and_buffers)
{
	static const int those[] = { IMPLICIT, EXPLICIT, VRAM, SYSTEM };
	struct ibv_sge sge[4];

	for (int i = 0; i < 4; i++) {
		struct piece *p = &self->piece[those[i]];

		sge[i] = (struct ibv_sge){ p->of->iova + p->at, p->n, p->mr->lkey };
	}
	for (int i = 0; i < 3; i++) {
		take_away(self);
		ASSERT_EQ(0, gpu_query(&self->mem[VRAM]).maps);
		ASSERT_EQ(0, ibv_advise_mr(self->e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
					   IBV_ADVISE_MR_FLAG_FLUSH, sge, 4));
		ASSERT_EQ(1, gpu_query(&self->mem[VRAM]).maps);
		ASSERT_EQ(1, gpu_query(&self->mem[SYSTEM]).maps);
		for (int k = 0; k < 4; k++)
			ASSERT_TRUE(key_writes(&self->e, sge[k].lkey, sge[k].addr,
					       &self->piece[those[k]], 1, 10 * i + k));
	}
	/* One that is wrong is an error, whichever it is. */
	for (int i = 0; i < 4; i++) {
		sge[i].lkey++;
		ASSERT_EQ(ENOENT, ibv_advise_mr(self->e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, sge,
						4));
		ASSERT_EQ(ENOENT, ibv_advise_mr(self->e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
						IBV_ADVISE_MR_FLAG_FLUSH, sge, 4));
		sge[i].lkey--;
	}
}

/* The file's pages by two ways at once. */
TEST_F(odp, implicit_mr_reaches_a_mapped_memfd)
{
	struct memory *m = &self->mem[FILE_];
	struct piece all = { m, self->mr[FILE_], 0, SIZE };

	for (int i = 0; i < 4; i++) {
		if (i == 2 && madvise(m->cpu, SIZE, MADV_DONTNEED))
			fail_case("madvise(MADV_DONTNEED) of the mapping of a memfd");
		ASSERT_TRUE(key_writes(&self->e, self->mr[FILE_]->rkey, m->iova, &all, 1, i));
		ASSERT_TRUE(key_reads(&self->e, self->mr[IMPLICIT]->rkey, (uintptr_t)m->cpu, &all,
				      1, i + 10));
		ASSERT_TRUE(key_writes(&self->e, self->mr[IMPLICIT]->rkey, (uintptr_t)m->cpu, &all,
				       1, i + 20));
		ASSERT_TRUE(key_reads(&self->e, self->mr[FILE_]->rkey, m->iova, &all, 1, i + 30));
	}
}

/* It has no pages there; the buffer's own MR is not hurt. */
TEST_F(odp, implicit_mr_does_not_reach_a_gpu_mapping)
{
	for (int i = VRAM; i < KINDS; i++) {
		struct memory *m = &self->mem[i];
		struct piece all = { m, self->mr[i], 0, SIZE };

		memory_mark(m);
		ASSERT_NE(0, rdma_op(&self->e.pair, IBV_WR_RDMA_WRITE, self->e.mr,
				     self->e.host.iova, SIZE, (uintptr_t)m->cpu,
				     self->mr[IMPLICIT]->rkey));
		ASSERT_TRUE(memory_untouched(m));
		ends_connect(&self->e);
		ASSERT_TRUE(key_writes(&self->e, self->mr[i]->rkey, IOVA, &all, 1, i));
		ASSERT_TRUE(key_reads(&self->e, self->mr[i]->rkey, IOVA, &all, 1, i + 1));
	}
}

/* Whether the implicit MR reaches memory that was taken away, and the mapping of a memfd. */
static bool implicit_works(FIXTURE_DATA(odp) *self, struct ends *e, bool may_write)
{
	static uint32_t seed = 1000;
	uint32_t rkey = self->mr[IMPLICIT]->rkey;

	for (int i = IMPLICIT; i <= FILE_; i += FILE_ - IMPLICIT) {
		struct piece *p = &self->piece[i];
		uint64_t addr = (uintptr_t)p->of->cpu + p->at;

		take_away(self);
		if (may_write ? !key_writes(e, rkey, addr, p, 1, ++seed) :
				!key_refuses(e, IBV_WR_RDMA_WRITE, rkey, addr, p->n, p, 1))
			return false;
		take_away(self);
		if (!key_reads(e, rkey, addr, p, 1, ++seed))
			return false;
	}
	return true;
}

/* Whether nothing is reached by this key, not even to read it. */
static bool implicit_refuses(FIXTURE_DATA(odp) *self, struct ends *e, uint32_t rkey)
{
	struct piece *p = &self->piece[IMPLICIT];
	uint64_t addr = (uintptr_t)p->of->cpu + p->at;

	return key_refuses(e, IBV_WR_RDMA_WRITE, rkey, addr, p->n, p, 1) &&
	       key_refuses(e, IBV_WR_RDMA_READ, rkey, addr, p->n, p, 1);
}

/* The MR gets other keys, and those of before are dead, whatever the PD of who tries. */
static bool implicit_changes(FIXTURE_DATA(odp) *self, struct ends other[2], int flags,
			     struct ibv_pd *pd, int access)
{
	struct ibv_mr *mr = self->mr[IMPLICIT], was = *mr;

	if (ibv_rereg_mr_fd_iova(mr, flags, pd, 0, 0, 0, IBV_MR_FD_TYPE_DMABUF, -1, access)) {
		printf("# rereg of the implicit MR with flags %d: %s\n", flags, strerror(errno));
		return false;
	}
	return mr->lkey != was.lkey && mr->rkey != was.rkey && !mr->addr &&
	       mr->length == SIZE_MAX && mr->pd == (flags & CHANGE_PD ? pd : was.pd) &&
	       implicit_refuses(self, &other[0], was.rkey) &&
	       implicit_refuses(self, &other[1], was.rkey);
}

/* The memory that is not there yet has the new PD and rights too. */
TEST_F(odp, rereg_changes_pd_and_access_of_implicit_mr)
{
	const int paged = IBV_ACCESS_ON_DEMAND;
	struct ends end[2] = { self->e, self->e };	/* their responders differ in the PD */
	struct ibv_pd *pd[2] = { self->e.pd, must(ibv_alloc_pd(self->e.ctx)) };
	struct ibv_mr *mr = self->mr[IMPLICIT], was;
	int mrs = mr_count();

	for (int i = 0; i < 2; i++)
		pair_open(&end[i].pair, self->e.ctx, (struct ibv_pd *[]){ pd[0], pd[i] });
	for (int i = 0; i < 2; i++) {
		ASSERT_TRUE(implicit_works(self, &end[0], true));
		ASSERT_TRUE(implicit_changes(self, end, CHANGE_PD, pd[1], 0));
		ASSERT_TRUE(implicit_works(self, &end[1], true));
		ASSERT_TRUE(implicit_refuses(self, &end[0], mr->rkey));

		/* With local write, because memory taken to be read cannot get rights to write. */
		ASSERT_TRUE(implicit_changes(self, end, CHANGE_ACCESS, NULL,
					     LOCAL_WRITE | REMOTE_READ | paged));
		ASSERT_TRUE(implicit_works(self, &end[1], false));
		ASSERT_TRUE(implicit_refuses(self, &end[0], mr->rkey));

		/* Nobody can pin all of the address space. */
		was = *mr;
		errno = 0;
		ASSERT_EQ(IBV_REREG_MR_ERR_INPUT,
			  ibv_rereg_mr_fd_iova(mr, CHANGE_ACCESS, NULL, 0, 0, 0,
					       IBV_MR_FD_TYPE_DMABUF, -1, RWA));
		ASSERT_EQ(EOPNOTSUPP, errno);
		ASSERT_EQ(0, memcmp(&was, mr, sizeof(was)));
		ASSERT_TRUE(implicit_works(self, &end[1], false));

		ASSERT_TRUE(implicit_changes(self, end, CHANGE_PD | CHANGE_ACCESS, pd[0],
					     RWA | paged));
		ASSERT_TRUE(implicit_refuses(self, &end[1], mr->rkey));
		ASSERT_EQ(mrs, mr_count());
	}
	ASSERT_TRUE(implicit_works(self, &end[0], true));
	/* As the lkey too, beside the others. */
	for (int i = 0; i < KINDS; i++) {
		ASSERT_TRUE(gathers(self, i, 10 + i));
		ASSERT_TRUE(scatters(self, i, 20 + i, true));
	}
	for (int i = 0; i < 2; i++)
		pair_close(&end[i].pair);
	pd_close(pd[1]);
}

/* The children of an implicit MR have mkeys of the same cache as others have. */
TEST_F(odp, dereg_in_any_order_spares_the_others)
{
	static const int order[2][KINDS] = {
		{ IMPLICIT, EXPLICIT, PINNED, FILE_, VRAM, SYSTEM },
		{ SYSTEM, VRAM, FILE_, PINNED, EXPLICIT, IMPLICIT },
	};

	for (int i = 0; i < 2; i++) {
		for (int first = 0; first < KINDS; first++)
			ASSERT_TRUE(gathers(self, first, i + first));
		for (int k = 0; k < KINDS; k++) {
			mr_close(self->mr[order[i][k]]);
			self->mr[order[i][k]] = NULL;
			for (int other = k + 1; other < KINDS; other++)
				ASSERT_TRUE(key_writes(&self->e, self->mr[order[i][other]]->rkey,
						       self->mem[order[i][other]].iova +
						       self->piece[order[i][other]].at,
						       &self->piece[order[i][other]], 1, k));
		}
		for (int k = 0; k < KINDS; k++) {
			const int paged = k <= EXPLICIT ? IBV_ACCESS_ON_DEMAND : 0;

			self->mr[k] = k == IMPLICIT ?
				must(ibv_reg_mr(self->e.pd, NULL, SIZE_MAX, RWA | paged)) :
				memory_reg(&self->mem[k], self->e.pd, RWA | paged);
			self->piece[k].mr = self->mr[k];
		}
	}
}

#define SPAN (256 * PAGE)

/*
 * The device reports the faults by the null key at first and by a child's then, and the process
 * ends the MR meanwhile.  The debug kernel finds a use of what is freed.
 */
TEST_F_TIMEOUT(odp, implicit_mr_ends_while_it_is_faulted_in, 300)
{
	struct pair *p = &self->e.pair;
	struct memory from, to;
	struct ibv_mr *local;
	int i, cut = 0, longest = 10000; /* us until the MR ends */

	memory_open(&from, HOST, SPAN);
	memory_open(&to, HOST, SPAN);
	local = memory_reg(&from, self->e.pd, LOCAL_WRITE);
	for (i = 0; i < depth(50, 300) || cut < 5 || i - cut < 5; i++) {
		struct ibv_mr *mr = must(ibv_reg_mr(self->e.pd, NULL, SIZE_MAX,
						    RWA | IBV_ACCESS_ON_DEMAND));
		struct ibv_sge sge = { from.iova, SPAN, local->lkey };
		struct ibv_send_wr *bad, wr = {
			.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { (uintptr_t)to.cpu, mr->rkey },
		};

		fill(from.cpu, SPAN, i);
		ASSERT_EQ(0, madvise(to.cpu, SPAN, MADV_DONTNEED));
		ASSERT_EQ(0, ibv_post_send(p->qp[0], &wr, &bad));
		usleep(longest / 9 * (i % 10));
		mr_close(mr);
		if (wait_wc(p, NULL)) {
			cut++;
			if (i % 10 == 9 && i - cut < 5 && longest < 1000000)
				longest *= 2; /* too short for a whole write so far */
			ends_connect(&self->e);
		} else {
			ASSERT_TRUE(filled(to.cpu, SPAN, i, "written before the end"));
		}
	}
	printf("# the end cut %d of %d writes off\n", cut, i);
	mr_close(local);
	memory_close(&from);
	memory_close(&to);
	for (int i = 0; i < KINDS; i++)
		ASSERT_TRUE(gathers(self, i, 10 + i));
}

TEST_HARNESS_MAIN
