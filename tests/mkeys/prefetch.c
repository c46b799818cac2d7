// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: gpu; devices: all */
/*
 * ibv_advise_mr() on an MR of a dma-buf maps the buffer, wherever it is, so that the next access
 * meets no page fault.  Each mistake has its errno and maps nothing.
 *
 * An MR that is pinned needs no prefetch, and has none.
 */
#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/gpu.h"
#include "lib/harness.h"
#include "lib/nldev.h"
#include "lib/test_exporter.h"
#include "mkeys/lists.h"
#include <unistd.h>

#define PREFETCH IBV_ADVISE_MR_ADVICE_PREFETCH
#define PREFETCH_WRITE IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define NO_FAULT IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
#define FLUSH IBV_ADVISE_MR_FLAG_FLUSH
/* A delay is a number of ticks, which a busy kernel counts late. */
#define AT_LEAST_MS(ms) ((ms) * 3 / 4)

static const enum ibv_advise_mr_advice advices[] = { PREFETCH, PREFETCH_WRITE, NO_FAULT };

FIXTURE(prefetch)
{
	struct ends e;
	struct memory buf;
	struct ibv_mr *mr;
	struct piece all;
};

FIXTURE_VARIANT(prefetch)
{
	enum memory_kind kind;
};

FIXTURE_VARIANT_ADD(prefetch, udmabuf) { .kind = UDMABUF };
FIXTURE_VARIANT_ADD(prefetch, test_exporter) { .kind = TEST_EXPORTER };
FIXTURE_VARIANT_ADD(prefetch, vram) { .kind = GPU_VRAM };
FIXTURE_VARIANT_ADD(prefetch, gpu_system_memory) { .kind = GPU_SYSTEM };

static bool is_at_rest(const struct memory *m)
{
	switch (m->kind) {
	case TEST_EXPORTER:
		return at_rest(m->fd);
	case GPU_VRAM:
	case GPU_SYSTEM:
		return gpu_at_rest(m);
	default:
		return true;
	}
}

FIXTURE_SETUP(prefetch)
{
	need("on-demand");
	need("follows-moves");
	ends_open(&self->e);
	memory_open_filled(&self->buf, variant->kind, SIZE, 1);
	self->mr = memory_reg(&self->buf, self->e.pd, RWA);
	self->all = (struct piece){ &self->buf, self->mr, 0, SIZE };
}

FIXTURE_TEARDOWN(prefetch)
{
	mr_close(self->mr);
	if (self->buf.size)
		EXPECT_TRUE(is_at_rest(&self->buf));
	memory_close(&self->buf);
	ends_close(&self->e);
	EXPECT_TRUE(nothing_left());
}

/* Pages that were mapped at page faults.  The driver counts them before the device goes on. */
static long faults(FIXTURE_DATA(prefetch) *self)
{
	return nldev_mr_stat(ibv_get_device_index(self->e.pd->context->device)).faults;
}

/* A move ends a little after its call. */
static int move_when_at_rest(int fd, uint32_t delay_ms)
{
	double end = deadline(10);
	int err;

	while ((err = move(fd, delay_ms)) == EBUSY && now() < end)
		usleep(1000);
	return err;
}

/* Move it, which takes it from the device.  False: such a buffer does not move. */
static bool moved(FIXTURE_DATA(prefetch) *self, uint32_t delay_ms)
{
	const struct memory *m = &self->buf;

	if (m->kind == UDMABUF)
		return false;
	if (m->kind == TEST_EXPORTER)
		errno = move_when_at_rest(m->fd, delay_ms);
	else
		errno = gpu_move(m, gpu_query(m).place == MRFD_GPU_VRAM ? MRFD_GPU_SYSTEM :
				 MRFD_GPU_VRAM, delay_ms);
	if (errno)
		fail_case("move the buffer");
	return true;
}

static int maps(FIXTURE_DATA(prefetch) *self)
{
	if (self->buf.kind == UDMABUF)
		return 1;	/* it does not move, and cannot tell */
	return self->buf.kind == TEST_EXPORTER ? query(self->buf.fd).maps :
		gpu_query(&self->buf).maps;
}

/* 0 or an errno. */
static int advise(FIXTURE_DATA(prefetch) *self, enum ibv_advise_mr_advice advice,
		  uint32_t flags, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { addr, length, self->mr->lkey };

	return ibv_advise_mr(self->e.pd, advice, flags, &sge, 1);
}

static bool works(FIXTURE_DATA(prefetch) *self, uint32_t seed)
{
	return key_writes(&self->e, self->mr->rkey, IOVA, &self->all, 1, seed) &&
	       key_reads(&self->e, self->mr->rkey, IOVA, &self->all, 1, seed + 1);
}

/* Without a prefetch there is a fault after a move; that shows that faults are counted. */
TEST_F(prefetch, prefetched_buffer_is_not_faulted)
{
	static uint32_t seed;
	long before = faults(self);

	ASSERT_TRUE(works(self, seed += 2));
	ASSERT_EQ(before, faults(self));
	for (int i = 0; i < 3; i++) {
		if (moved(self, 0)) {
			ASSERT_EQ(0, maps(self));
			ASSERT_TRUE(works(self, seed += 2));
			ASSERT_LT(before, faults(self));
			moved(self, 0);
			ASSERT_EQ(0, maps(self));
		}
		before = faults(self);
		ASSERT_EQ(0, advise(self, advices[i], FLUSH, IOVA, SIZE));
		ASSERT_EQ(1, maps(self));
		ASSERT_TRUE(works(self, seed += 2));
		ASSERT_EQ(before, faults(self));
		/* Again, when it is there. */
		ASSERT_EQ(0, advise(self, advices[i], FLUSH, IOVA, SIZE));
		ASSERT_EQ(1, maps(self));
	}
	TH_LOG("%ld faults", faults(self));
}

/* What is asked for is a part, what is mapped is the buffer. */
TEST_F(prefetch, prefetch_of_a_part_maps_the_buffer)
{
	static const struct { uint64_t at; uint32_t n; } part[] = {
		{ 0, 1 }, { SIZE - 1, 1 }, { PAGE + 5, 3 * PAGE }, { 0, SIZE },
	};

	for (int i = 0; i < 4; i++) {
		long before;

		moved(self, 0);
		before = faults(self);
		ASSERT_EQ(0, advise(self, PREFETCH, FLUSH, IOVA + part[i].at, part[i].n));
		ASSERT_EQ(1, maps(self));
		ASSERT_TRUE(works(self, i));
		ASSERT_EQ(before, faults(self));
	}
}

/* Without the flag the call does not wait; it happens a little later. */
TEST_F(prefetch, prefetch_without_flush_maps_it_soon)
{
	for (int i = 0; i < 3; i++) {
		double end = deadline(10);
		long before;

		moved(self, 0);
		before = faults(self);
		ASSERT_EQ(0, advise(self, advices[i], 0, IOVA, SIZE));
		while (!maps(self) && now() < end)
			usleep(1000);
		ASSERT_EQ(1, maps(self));
		/* It is mapped before the device has it: this waits for the device. */
		ASSERT_EQ(0, advise(self, advices[i], FLUSH, IOVA, SIZE));
		ASSERT_TRUE(works(self, i));
		ASSERT_EQ(before, faults(self));
	}
}

/* The bytes are not where it goes to yet. */
TEST_F(prefetch, prefetch_waits_for_a_late_move)
{
	double began;
	long before;

	ASSERT_TRUE(works(self, 1));
	fill(self->buf.cpu, SIZE, 5);
	began = now();
	if (!moved(self, 300))
		skip_case("this memory does not move");
	before = faults(self);
	ASSERT_EQ(0, advise(self, PREFETCH_WRITE, FLUSH, IOVA, SIZE));
	ASSERT_LE(AT_LEAST_MS(300), ms_since(began));
	ASSERT_EQ(0, rdma_op(&self->e.pair, IBV_WR_RDMA_READ, self->e.mr, self->e.host.iova, SIZE,
			     IOVA, self->mr->rkey));
	ASSERT_TRUE(filled(self->e.host.cpu, SIZE, 5, "read after the move"));
	ASSERT_EQ(before, faults(self));
}

TEST_F(prefetch, prefetch_past_the_mr_is_efault)
{
	static const struct { uint64_t at; uint32_t n; } tries[] = {
		{ IOVA - 1, 1 }, { IOVA - 1, 2 }, { IOVA - PAGE, PAGE }, { IOVA, SIZE + 1 },
		{ IOVA + 1, SIZE }, { IOVA + SIZE, 1 }, { IOVA + SIZE - 1, 2 },
		{ IOVA + 100 * SIZE, PAGE }, { 0, PAGE }, { -1, 1 }, { -PAGE, UINT32_MAX },
		{ IOVA, UINT32_MAX },
	};

	for (int i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		for (int a = 0; a < 3; a++) {
			bool moves = moved(self, 0);

			EXPECT_EQ(EFAULT, advise(self, advices[a], FLUSH, tries[i].at,
						 tries[i].n)) {
				TH_LOG("prefetch of %u bytes at %#llx", tries[i].n,
				       (unsigned long long)tries[i].at);
			}
			EXPECT_EQ(!moves, maps(self));
		}
	}
	ASSERT_TRUE(works(self, 1));
}

TEST_F(prefetch, prefetch_with_wrong_key_or_pd_is_refused)
{
	struct ibv_sge sge = { IOVA, SIZE, self->mr->lkey };
	struct ibv_pd *pd = must(ibv_alloc_pd(self->e.ctx));
	struct ibv_mw *mw = window_alloc(self->e.pd, IBV_MW_TYPE_1);

	for (uint32_t flags = 0; flags <= FLUSH; flags++) {
		sge.lkey = self->mr->lkey;
		ASSERT_EQ(EPERM, ibv_advise_mr(pd, PREFETCH, flags, &sge, 1));
		sge.lkey = self->mr->lkey + 1;		/* the same mkey by another key */
		ASSERT_EQ(ENOENT, ibv_advise_mr(self->e.pd, PREFETCH, flags, &sge, 1));
		sge.lkey = self->mr->lkey ^ 0x10000000;	/* no mkey */
		ASSERT_EQ(ENOENT, ibv_advise_mr(self->e.pd, PREFETCH, flags, &sge, 1));
		sge.lkey = mw->rkey;			/* no MR */
		ASSERT_EQ(EINVAL, ibv_advise_mr(self->e.pd, PREFETCH, flags, &sge, 1));
		ASSERT_EQ(EINVAL, ibv_advise_mr(self->e.pd, PREFETCH, flags, &sge, 0));
		sge.lkey = self->mr->lkey;
		ASSERT_EQ(EINVAL, ibv_advise_mr(self->e.pd, PREFETCH, flags | 2, &sge, 1));
		ASSERT_EQ(EOPNOTSUPP, ibv_advise_mr(self->e.pd, NO_FAULT + 1, flags, &sge, 1));
	}
	ASSERT_EQ(0, ibv_dealloc_mw(mw));
	pd_close(pd);
}

/* A prefetch for writing needs the right to write, which a rereg gives and takes. */
TEST_F(prefetch, prefetch_for_write_without_right_is_eperm)
{
	mr_close(self->mr);
	self->mr = memory_reg(&self->buf, self->e.pd, REMOTE_READ);
	self->all.mr = self->mr;
	for (uint32_t flags = 0; flags <= FLUSH; flags++) {
		ASSERT_EQ(EPERM, advise(self, PREFETCH_WRITE, flags, IOVA, SIZE));
		ASSERT_EQ(0, advise(self, PREFETCH, flags, IOVA, SIZE));
	}
	need("rereg_mr_fd");
	if (memory_rereg(self->mr, CHANGE_ACCESS, NULL, &self->buf, RWA)) {
		/* A buffer that was taken for reading only. */
		ASSERT_EQ(EACCES, errno);
		ASSERT_EQ(0, memory_rereg(self->mr, TRANS | CHANGE_ACCESS, NULL, &self->buf, RWA));
	}
	ASSERT_EQ(0, advise(self, PREFETCH_WRITE, FLUSH, IOVA, SIZE));
	ASSERT_TRUE(works(self, 1));
}

/* After a rereg the prefetch is that of the PD and the memory that the region has now. */
TEST_F(prefetch, prefetch_follows_a_rereg)
{
	struct ibv_pd *pd = must(ibv_alloc_pd(self->e.ctx));
	struct ibv_sge sge = { IOVA, SIZE, self->mr->lkey };
	struct memory next;

	need("rereg_mr_fd");
	ASSERT_EQ(0, memory_rereg(self->mr, CHANGE_PD, pd, &self->buf, 0));
	ASSERT_EQ(EPERM, ibv_advise_mr(self->e.pd, PREFETCH, FLUSH, &sge, 1));
	ASSERT_EQ(0, ibv_advise_mr(pd, PREFETCH, FLUSH, &sge, 1));
	ASSERT_EQ(0, memory_rereg(self->mr, CHANGE_PD, self->e.pd, &self->buf, 0));
	ASSERT_EQ(0, ibv_advise_mr(self->e.pd, PREFETCH_WRITE, FLUSH, &sge, 1));
	ASSERT_EQ(EPERM, ibv_advise_mr(pd, PREFETCH, FLUSH, &sge, 1));

	/* The old key ends with the old memory. */
	memory_open_filled(&next, self->buf.kind, SIZE, 3);
	ASSERT_EQ(0, memory_rereg(self->mr, TRANS, NULL, &next, 0));
	ASSERT_EQ(ENOENT, ibv_advise_mr(self->e.pd, PREFETCH, FLUSH, &sge, 1));
	ASSERT_EQ(0, advise(self, PREFETCH, FLUSH, IOVA, SIZE));
	self->all.of = &next;
	ASSERT_TRUE(works(self, 5));
	mr_close(self->mr);
	self->mr = NULL;
	memory_close(&next);
	pd_close(pd);
}

/* Pinned memory is always there: as with ordinary memory, the call knows no such key. */
TEST_F(prefetch, prefetch_of_pinned_memory_is_enoent)
{
	static const enum memory_kind pinned[] = { HOST, MEMFD };

	for (int i = 0; i < 2; i++) {
		struct ibv_sge sge[2] = { { IOVA, SIZE, self->mr->lkey } };
		struct memory m;
		struct ibv_mr *mr;
		long before = faults(self);
		struct piece all;

		memory_open_filled(&m, pinned[i], SIZE, 7);
		mr = memory_reg(&m, self->e.pd, RWA);
		all = (struct piece){ &m, mr, 0, SIZE };
		sge[1] = (struct ibv_sge){ m.iova, SIZE, mr->lkey };
		for (uint32_t flags = 0; flags <= FLUSH; flags++) {
			ASSERT_EQ(ENOENT, ibv_advise_mr(self->e.pd, PREFETCH, flags, sge + 1, 1));
			ASSERT_EQ(ENOENT, ibv_advise_mr(self->e.pd, PREFETCH, flags, sge, 2));
		}
		ASSERT_TRUE(key_writes(&self->e, mr->rkey, m.iova, &all, 1, 8));
		ASSERT_EQ(before, faults(self));
		mr_close(mr);
		memory_close(&m);
	}
}

FIXTURE(prefetch_error)
{
	struct ends e;
	struct memory buf;
	struct ibv_mr *mr;
};

FIXTURE_SETUP(prefetch_error)
{
	need("follows-moves");
	ends_open(&self->e);
}

FIXTURE_TEARDOWN(prefetch_error)
{
	mr_close(self->mr);
	memory_close(&self->buf);
	ends_close(&self->e);
	EXPECT_TRUE(nothing_left());
	if (!gpu_is_bound())
		EXPECT_EQ(0, gpu_bind());
}

static int advise_lost(FIXTURE_DATA(prefetch_error) *self, uint32_t flags)
{
	struct ibv_sge sge = { IOVA, SIZE, self->mr->lkey };

	return ibv_advise_mr(self->e.pd, PREFETCH, flags, &sge, 1);
}

/* The errno is the exporter's, if the call waits to see it. */
TEST_F(prefetch_error, prefetch_returns_the_errno_of_the_exporter)
{
	static const int errors[] = { ENOMEM, EBUSY, EIO, EINVAL, ENODEV };
	struct piece all;

	test_exporter_open(&self->buf, SIZE, 0);
	self->mr = memory_reg(&self->buf, self->e.pd, RWA);
	all = (struct piece){ &self->buf, self->mr, 0, SIZE };
	for (int i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		ASSERT_EQ(0, move_when_at_rest(self->buf.fd, 0));
		behave(self->buf.fd, DMABUF_TEST_MAP, errors[i], 0);
		ASSERT_EQ(errors[i], advise_lost(self, FLUSH));
		ASSERT_EQ(0, advise_lost(self, 0));
		usleep(10000);
		ASSERT_EQ(0, query(self->buf.fd).maps);
		behave(self->buf.fd, DMABUF_TEST_MAP, 0, 0);
		ASSERT_EQ(0, advise_lost(self, FLUSH));
		ASSERT_TRUE(key_writes(&self->e, self->mr->rkey, IOVA, &all, 1, i));
	}
	take_memory(self->buf.fd);
	ASSERT_EQ(ENODEV, advise_lost(self, FLUSH));
	ASSERT_EQ(0, advise_lost(self, 0));
}

TEST_F(prefetch_error, prefetch_after_unbind_of_the_gpu_is_enodev)
{
	memory_open(&self->buf, GPU_VRAM, SIZE);
	self->mr = memory_reg(&self->buf, self->e.pd, RWA);
	ASSERT_EQ(0, advise_lost(self, FLUSH));
	ASSERT_EQ(0, gpu_unbind());
	ASSERT_EQ(ENODEV, advise_lost(self, FLUSH));
	ASSERT_EQ(0, advise_lost(self, 0));
	ASSERT_EQ(ENODEV, advise_lost(self, FLUSH));
	ASSERT_NE(0, rdma_op(&self->e.pair, IBV_WR_RDMA_READ, self->e.mr, self->e.host.iova, 8,
			     IOVA, self->mr->rkey));
}

TEST_HARNESS_MAIN
