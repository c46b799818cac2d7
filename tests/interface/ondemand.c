// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: connectx */
/*
 * An MR for on-demand paging: page faults, pages that the kernel takes away and prefetches are
 * counted, and the data is right.
 *
 * Such an MR has no pages in the beginning.  The device asks for them when packets come, loses
 * them when the kernel takes them away, and gets them in advance by ibv_advise_mr().  The driver
 * counts each of these, and "rdma statistic" shows the counts.
 */
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SIZE (16 * PAGE)

FIXTURE(paged)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory from, to;
	struct ibv_mr *from_mr, *mr;	/* MR is of TO */
};

FIXTURE_SETUP(paged)
{
	need("counts-faults");
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	memory_open_filled(&self->from, HOST, SIZE, 1);
	self->from_mr = memory_reg(&self->from, self->pair.pd, ALL_ACCESS);
	/* Nobody has touched it.  A registration maps what is there: that has no faults. */
	memory_open(&self->to, HOST, SIZE);
	self->mr = must(ibv_reg_mr(self->pair.pd, self->to.cpu, SIZE,
				   RWA | IBV_ACCESS_ON_DEMAND));
}

FIXTURE_TEARDOWN(paged)
{
	mr_close(self->mr);
	mr_close(self->from_mr);
	pair_close(&self->pair);
	memory_close(&self->to);
	memory_close(&self->from);
	device_close(self->ctx);
}

/* The sum of a count over all MRs of the guest: this one is the only one that is paged. */
static long counted(const char *what)
{
	FILE *f = must(popen("rdma statistic show mr", "r"));
	char line[1024];
	long sum = 0;

	while (fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, what);

		sum += at ? strtol(at + strlen(what), NULL, 10) : 0;
	}
	if (pclose(f))
		fail_case("rdma statistic show mr");
	return sum;
}

static bool written(FIXTURE_DATA(paged) *self)
{
	return !rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->from_mr, self->from.iova, SIZE,
			self->to.iova, self->mr->rkey) &&
	       filled(self->to.cpu, SIZE, 1, "written");
}

TEST_F(paged, odp_mr_counts_page_faults)
{
	ASSERT_EQ(0, counted("page_faults"));
	ASSERT_TRUE(written(self));
	ASSERT_LT(0, counted("page_faults"));
	ASSERT_EQ(0, counted("page_prefetch"));
}

TEST_F(paged, odp_mr_counts_page_invalidations)
{
	long faults;

	ASSERT_TRUE(written(self));
	ASSERT_EQ(0, counted("page_invalidations"));
	faults = counted("page_faults");
	ASSERT_EQ(0, madvise(self->to.cpu, SIZE, MADV_DONTNEED));
	ASSERT_LT(0, counted("page_invalidations"));
	ASSERT_TRUE(written(self));
	ASSERT_LT(faults, counted("page_faults"));
}

TEST_F(paged, prefetched_odp_mr_has_no_page_faults)
{
	struct ibv_sge sge = { self->to.iova, SIZE, self->mr->lkey };

	ASSERT_EQ(0, ibv_advise_mr(self->pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				   IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
	ASSERT_LT(0, counted("page_prefetch"));
	ASSERT_TRUE(written(self));
	ASSERT_EQ(0, counted("page_faults"));
}

TEST_HARNESS_MAIN
