// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: direct */
/*
 * One work request has a list of parts of MRs of every kind: by Data Direct, of a dma-buf by
 * the first function, and of memory of the process.  As source and as target each byte is at
 * its place, and no other has changed.
 */
#include "lib/case.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/second.h"
#include <string.h>

#define SIZE (32 * PAGE)
#define MAX_PARTS 8

enum kind { BY_SECOND, BY_FIRST, OF_PROCESS, KINDS };

struct part {
	enum kind of;
	size_t at;
	uint32_t n;
};

/* They begin and end in the middle of pages, fill some, and are as short as a byte. */
static const struct part list[MAX_PARTS] = {
	{ BY_SECOND, 1, PAGE - 1 }, { OF_PROCESS, 17, 1 }, { BY_FIRST, PAGE - 3, 7 },
	{ BY_SECOND, 5 * PAGE + 1, 3 * PAGE }, { BY_FIRST, 0, 1 },
	{ OF_PROCESS, 2 * PAGE - 1, PAGE + 2 }, { BY_SECOND, 0, 1 },
	{ BY_SECOND, 20 * PAGE - 100, 200 },
};

/* As long, in other pieces; it begins and ends with what the first list has in the middle. */
static const struct part other_list[] = {
	{ BY_FIRST, 3 * PAGE - 1, 2 * PAGE + 1 }, { BY_SECOND, 30 * PAGE - 5, PAGE + 6 },
	{ OF_PROCESS, 0, 3 }, { BY_SECOND, 9 * PAGE, PAGE }, { BY_FIRST, 100, 200 },
	{ OF_PROCESS, 7 * PAGE + 8, 0 },
};

FIXTURE(list)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct second second;
	struct memory near[KINDS], far[KINDS];
	struct ibv_mr *near_mr[KINDS], *far_mr[KINDS];
};

/* The MR of all of the message, at the other end of the list. */
FIXTURE_VARIANT(list)
{
	enum kind kind;
};

FIXTURE_VARIANT_ADD(list, by_second) { .kind = BY_SECOND };
FIXTURE_VARIANT_ADD(list, by_first) { .kind = BY_FIRST };
FIXTURE_VARIANT_ADD(list, of_process) { .kind = OF_PROCESS };

static void open_side(struct memory *m, struct ibv_mr **mr, struct ibv_pd *pd, uint32_t seed)
{
	memory_open_filled(&m[BY_SECOND], VGEM, SIZE, seed);
	memory_open_filled(&m[BY_FIRST], UDMABUF, SIZE, seed + 1);
	memory_open_filled(&m[OF_PROCESS], HOST, SIZE, seed + 2);
	mr[BY_SECOND] = memory_reg(&m[BY_SECOND], pd, RWA);
	mr[BY_FIRST] = must(ibv_reg_dmabuf_mr(pd, 0, SIZE, IOVA, m[BY_FIRST].fd, RWA));
	mr[OF_PROCESS] = memory_reg(&m[OF_PROCESS], pd, RWA);
}

FIXTURE_SETUP(list)
{
	struct ibv_pd *pd;

	need("direct");
	ASSERT_TRUE(nothing_left());
	self->ctx = device_open();
	second_find(&self->second, self->ctx);
	self->pair = (struct pair){ .sges = MAX_PARTS, .pd = must(ibv_alloc_pd(self->ctx)) };
	pd = self->pair.pd;
	for (int i = 0; i < 2; i++)
		pair_create_end(&self->pair, i, pd);
	pair_connect(&self->pair, IBV_MTU_1024);
	open_side(self->near, self->near_mr, pd, 1);
	open_side(self->far, self->far_mr, pd, 11);
}

FIXTURE_TEARDOWN(list)
{
	for (int i = 0; i < KINDS; i++) {
		mr_close(self->near_mr[i]);
		mr_close(self->far_mr[i]);
	}
	pair_close(&self->pair);
	device_close(self->ctx);
	for (int i = 0; i < KINDS; i++) {
		memory_close(&self->near[i]);
		memory_close(&self->far[i]);
	}
	EXPECT_TRUE(nothing_left());
}

static uint32_t length_of(const struct part *p, int n)
{
	uint32_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += p[i].n;
	return sum;
}

static void sges_of(struct ibv_sge *sge, const struct part *p, int n, const struct memory *m,
		    struct ibv_mr **mr)
{
	for (int i = 0; i < n; i++)
		sge[i] = (struct ibv_sge){
			.addr = m[p[i].of].iova + p[i].at, .length = p[i].n,
			.lkey = mr[p[i].of]->lkey,
		};
}

/* The bytes of the parts, one after another. */
static void gather(uint8_t *to, const struct part *p, int n, const struct memory *m)
{
	for (int i = 0; i < n; to += p[i++].n)
		memcpy(to, m[p[i].of].cpu + p[i].at, p[i].n);
}

/* What the memory has to be after these bytes have arrived: in the copies of memory_mark(). */
static void expect(const uint8_t *from, const struct part *p, int n, struct memory *m)
{
	for (int i = 0; i < n; from += p[i++].n)
		memcpy(m[p[i].of].before + p[i].at, from, p[i].n);
}

/* Every byte of the memory of both ends is what is expected. */
static bool all_is_expected(FIXTURE_DATA(list) *self)
{
	bool well = true;

	for (int i = 0; i < KINDS; i++)
		well = memory_untouched(&self->near[i]) && memory_untouched(&self->far[i]) && well;
	return well;
}

static enum ibv_wc_status post_list(FIXTURE_DATA(list) *self, enum ibv_wr_opcode opcode,
				    const struct part *p, int n, uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge[MAX_PARTS];
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode, .sg_list = sge, .num_sge = n,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = remote, .rkey = rkey },
	};
	enum ibv_wc_status status;

	sges_of(sge, p, n, self->near, self->near_mr);
	errno = ibv_post_send(self->pair.qp[0], &wr, &bad);
	if (errno)
		fail_case("post a list of %d parts", n);
	status = wait_wc(&self->pair, NULL);
	if (!status && opcode == IBV_WR_SEND)
		status = wait_wc(&self->pair, NULL);
	if (status)
		pair_connect(&self->pair, IBV_MTU_1024);
	return status;
}

TEST_F(list, write_gathers_its_parts)
{
	struct memory *to = &self->far[variant->kind];

	gather(to->before + 3, list, MAX_PARTS, self->near);
	ASSERT_EQ(IBV_WC_SUCCESS, post_list(self, IBV_WR_RDMA_WRITE, list, MAX_PARTS, to->iova + 3,
					    self->far_mr[variant->kind]->rkey));
	ASSERT_TRUE(all_is_expected(self));
}

TEST_F(list, read_scatters_to_its_parts)
{
	const struct memory *from = &self->far[variant->kind];

	expect(from->cpu + 5, list, MAX_PARTS, self->near);
	ASSERT_EQ(IBV_WC_SUCCESS, post_list(self, IBV_WR_RDMA_READ, list, MAX_PARTS, from->iova + 5,
					    self->far_mr[variant->kind]->rkey));
	ASSERT_TRUE(all_is_expected(self));
}

/* A list at each end, with other boundaries. */
TEST_F(list, message_goes_from_list_to_list)
{
	int last = sizeof(other_list) / sizeof(*other_list) - 1;
	struct part to[MAX_PARTS];
	struct ibv_sge sge[MAX_PARTS];
	struct ibv_recv_wr *bad, wr = { .sg_list = sge, .num_sge = last + 1 };
	uint32_t length = length_of(list, MAX_PARTS);
	uint8_t bytes[8 * PAGE];

	memcpy(to, other_list, sizeof(other_list));
	to[last].of = variant->kind;
	to[last].at = 15 * PAGE + 8;
	to[last].n = length - length_of(to, last);
	ASSERT_GE(sizeof(bytes), length);
	gather(bytes, list, MAX_PARTS, self->near);
	expect(bytes, to, last + 1, self->far);
	sges_of(sge, to, last + 1, self->far, self->far_mr);
	ASSERT_EQ(0, ibv_post_recv(self->pair.qp[1], &wr, &bad));
	ASSERT_EQ(IBV_WC_SUCCESS, post_list(self, IBV_WR_SEND, list, MAX_PARTS, 0, 0));
	ASSERT_TRUE(all_is_expected(self));
}

/* The part by the second function is behind one of the others: what is before it may arrive. */
static void is_refused_at_its_part(struct __test_metadata *_metadata, FIXTURE_DATA(list) *self,
				   enum kind kind)
{
	const struct part before[] = { { kind, 0, 3000 }, { BY_SECOND, 2 * PAGE, 3000 } };
	struct memory *far = &self->far[kind];

	EXPECT_EQ(IBV_WC_LOC_PROT_ERR, post_list(self, IBV_WR_RDMA_WRITE, before, 2, far->iova,
						 self->far_mr[kind]->rkey));
	EXPECT_TRUE(memory_only_changed(far, 0, 3000));
	memory_mark(far);
	EXPECT_EQ(IBV_WC_LOC_PROT_ERR, post_list(self, IBV_WR_RDMA_READ, before, 2, far->iova,
						 self->far_mr[kind]->rkey));
	EXPECT_TRUE(memory_only_changed(&self->near[kind], 0, 3000));
	memory_mark(&self->near[kind]);
	EXPECT_TRUE(all_is_expected(self));
}

TEST_F(list, only_its_own_part_needs_the_second_function)
{
	static const struct part both[] = { { BY_FIRST, 7, 5000 }, { OF_PROCESS, 7, 5000 } };
	enum kind kind = variant->kind == BY_SECOND ? OF_PROCESS : variant->kind;
	struct memory *far = &self->far[kind];

	second_set_bus_master(&self->second, false);
	is_refused_at_its_part(_metadata, self, kind);
	gather(far->before + 9, both, 2, self->near);
	EXPECT_EQ(IBV_WC_SUCCESS, post_list(self, IBV_WR_RDMA_WRITE, both, 2, far->iova + 9,
					    self->far_mr[kind]->rkey));
	EXPECT_TRUE(all_is_expected(self));
	second_set_bus_master(&self->second, true);

	gather(far->before, list, MAX_PARTS, self->near);
	EXPECT_EQ(IBV_WC_SUCCESS, post_list(self, IBV_WR_RDMA_WRITE, list, MAX_PARTS, far->iova,
					    self->far_mr[kind]->rkey));
	EXPECT_TRUE(all_is_expected(self));
}

TEST_HARNESS_MAIN
