// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit tests of the look-up by key: MRs, replaced MRs, memory windows
 *
 * The device is zeroed and has nothing set up but its pools.  The QP is zeroed
 * too: a window uses only its PD and its reference count.
 */

#include <kunit/test.h>
#include <linux/kthread.h>

#include "rxe.h"
#include "rxe_loc.h"

#define ACCESS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
		IB_ACCESS_REMOTE_READ | IB_ACCESS_MW_BIND)
#define IOVA 0x10000
#define LENGTH 0x3000

struct ctx {
	struct rxe_dev rxe;
	struct rxe_pd pd[2];
	struct rxe_qp qp;
	struct rxe_mr *mr;
};

static struct rxe_mr_mem *new_mem(struct kunit *test)
{
	struct rxe_mr_mem *mem = rxe_mr_mem_new(NULL, 0);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mem);
	return mem;
}

static struct rxe_mr *new_mr(struct kunit *test, struct ctx *ctx)
{
	struct rxe_mr *mr = kzalloc_obj(*mr);

	KUNIT_ASSERT_NOT_NULL(test, mr);
	KUNIT_ASSERT_EQ(test, 0, rxe_add_to_pool(&ctx->rxe.mr_pool, mr));
	rxe_get(&ctx->pd[0]);
	mr->ibmr.pd = &ctx->pd[0].ibpd;
	mr->ibmr.device = &ctx->rxe.ib_dev;
	mr->ibmr.iova = IOVA;
	mr->ibmr.length = LENGTH;
	rxe_mr_init_mem(ACCESS, new_mem(test), mr);
	rxe_finalize(mr);
	return mr;
}

/* Destroy an MR without windows, as dereg_mr does. */
static void end_mr(struct kunit *test, struct rxe_mr *mr)
{
	KUNIT_EXPECT_TRUE(test, rxe_mr_close(mr));
	KUNIT_EXPECT_EQ(test, 0, rxe_cleanup(mr));
	kfree_rcu_mightsleep(mr);
}

static struct rxe_mr *replace(struct kunit *test, struct rxe_mr *old,
			      struct rxe_pd *pd, int access, u64 iova, u64 length)
{
	struct rxe_mr_mem *mem = new_mem(test);
	struct ib_mr *ibmr = rxe_mr_replace(old, &pd->ibpd, access, mem, iova, length);

	if (IS_ERR(ibmr))
		rxe_mr_mem_put(mem);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ibmr);
	return to_rmr(ibmr);
}

/* The MR with the index of KEY, or NULL; no reference is kept. */
static struct rxe_mr *find(struct ctx *ctx, u32 key)
{
	struct rxe_mr *mr = rxe_pool_get_index(&ctx->rxe.mr_pool, key >> 8);

	if (mr)
		rxe_put(mr);
	return mr;
}

/* As find(), but as a packet and a work request do, with rights and PD */
static struct rxe_mr *lookup(struct rxe_pd *pd, int access, u32 key)
{
	struct rxe_mr *local = lookup_mr(pd, access, key, RXE_LOOKUP_LOCAL);
	struct rxe_mr *remote = lookup_mr(pd, access, key, RXE_LOOKUP_REMOTE);

	if (local)
		rxe_put(local);
	if (remote)
		rxe_put(remote);
	return local == remote ? local : ERR_PTR(-EINVAL);
}

static int ctx_init(struct kunit *test)
{
	struct ctx *ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, ctx);
	rxe_pool_init(&ctx->rxe, &ctx->rxe.pd_pool, RXE_TYPE_PD);
	rxe_pool_init(&ctx->rxe, &ctx->rxe.mr_pool, RXE_TYPE_MR);
	rxe_pool_init(&ctx->rxe, &ctx->rxe.mw_pool, RXE_TYPE_MW);
	for (i = 0; i < ARRAY_SIZE(ctx->pd); i++) {
		ctx->pd[i].ibpd.device = &ctx->rxe.ib_dev;
		KUNIT_ASSERT_EQ(test, 0, rxe_add_to_pool(&ctx->rxe.pd_pool, &ctx->pd[i]));
		rxe_finalize(&ctx->pd[i]);
	}

	ctx->qp.ibqp.device = &ctx->rxe.ib_dev;
	ctx->qp.ibqp.pd = &ctx->pd[0].ibpd;
	ctx->qp.pd = &ctx->pd[0];
	kref_init(&ctx->qp.elem.ref_cnt);

	ctx->mr = new_mr(test, ctx);
	test->priv = ctx;
	return 0;
}

/* A test leaves one MR, ctx->mr, and nothing else. */
static void ctx_exit(struct kunit *test)
{
	struct ctx *ctx = test->priv;
	int i;

	if (!ctx)
		return;

	end_mr(test, ctx->mr);
	KUNIT_EXPECT_TRUE(test, xa_empty(&ctx->rxe.mr_pool.xa));
	KUNIT_EXPECT_TRUE(test, xa_empty(&ctx->rxe.mw_pool.xa));
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->rxe.mr_pool.num_elem), 0);
	KUNIT_EXPECT_EQ(test, kref_read(&ctx->qp.elem.ref_cnt), 1);
	for (i = 0; i < ARRAY_SIZE(ctx->pd); i++) {
		KUNIT_EXPECT_EQ(test, rxe_read(&ctx->pd[i]), 1);
		xa_erase(&ctx->rxe.pd_pool.xa, ctx->pd[i].elem.index);
	}
	xa_destroy(&ctx->rxe.mr_pool.xa);
	xa_destroy(&ctx->rxe.mw_pool.xa);
	xa_destroy(&ctx->rxe.pd_pool.xa);
}

/* MRs */

static void test_lookup_checks_key_pd_and_rights(struct kunit *test)
{
	struct ctx *ctx = test->priv;
	struct rxe_pd *pd = &ctx->pd[0];
	u32 key = ctx->mr->lkey;

	KUNIT_EXPECT_EQ(test, ctx->mr->rkey, key);
	KUNIT_EXPECT_EQ(test, ctx->mr->ibmr.lkey, key);
	KUNIT_EXPECT_EQ(test, ctx->mr->ibmr.rkey, key);
	KUNIT_EXPECT_PTR_EQ(test, lookup(pd, 0, key), ctx->mr);
	KUNIT_EXPECT_PTR_EQ(test, lookup(pd, ACCESS, key), ctx->mr);
	KUNIT_EXPECT_NULL(test, lookup(pd, ACCESS | IB_ACCESS_REMOTE_ATOMIC, key));
	KUNIT_EXPECT_NULL(test, lookup(&ctx->pd[1], 0, key));
	KUNIT_EXPECT_NULL(test, lookup(pd, 0, key ^ 1));
	KUNIT_EXPECT_NULL(test, lookup(pd, 0, key ^ 0x100));
	KUNIT_EXPECT_NULL(test, lookup(pd, 0, 0));
	KUNIT_EXPECT_NULL(test, lookup(pd, 0, U32_MAX));

	ctx->mr->state = RXE_MR_STATE_FREE;
	KUNIT_EXPECT_NULL(test, lookup(pd, 0, key));
	KUNIT_EXPECT_EQ(test, rxe_read(ctx->mr), 1);
}

static void test_invalidation_needs_the_pd_of_the_mr(struct kunit *test)
{
	struct ctx *ctx = test->priv;
	struct rxe_mr *mr = ctx->mr;

	mr->ibmr.type = IB_MR_TYPE_MEM_REG;
	ctx->qp.pd = &ctx->pd[1];
	KUNIT_EXPECT_EQ(test, rxe_invalidate_mr(&ctx->qp, mr->rkey), -EINVAL);
	KUNIT_EXPECT_EQ(test, mr->state, RXE_MR_STATE_VALID);

	ctx->qp.pd = &ctx->pd[0];
	KUNIT_EXPECT_EQ(test, rxe_invalidate_mr(&ctx->qp, mr->rkey), 0);
	KUNIT_EXPECT_EQ(test, mr->state, RXE_MR_STATE_FREE);
	KUNIT_EXPECT_EQ(test, rxe_read(mr), 1);
}

static void test_replaced_mr_keeps_its_keys(struct kunit *test)
{
	struct ctx *ctx = test->priv;
	struct rxe_mr *old = ctx->mr, *mr;
	u32 key = old->lkey;

	mr = replace(test, old, &ctx->pd[1], IB_ACCESS_REMOTE_READ, 7, 9);
	ctx->mr = mr;

	/* The new MR has the old keys, and what the rereg asked for. */
	KUNIT_EXPECT_PTR_EQ(test, find(ctx, key), mr);
	KUNIT_EXPECT_EQ(test, mr->lkey, key);
	KUNIT_EXPECT_EQ(test, mr->rkey, key);
	KUNIT_EXPECT_EQ(test, mr->ibmr.lkey, key);
	KUNIT_EXPECT_EQ(test, mr->ibmr.rkey, key);
	KUNIT_EXPECT_EQ(test, mr->ibmr.iova, 7);
	KUNIT_EXPECT_EQ(test, mr->ibmr.length, 9);
	KUNIT_EXPECT_PTR_EQ(test, mr->ibmr.pd, &ctx->pd[1].ibpd);
	KUNIT_EXPECT_PTR_EQ(test, mr->ibmr.device, &ctx->rxe.ib_dev);
	KUNIT_EXPECT_EQ(test, mr->ibmr.type, old->ibmr.type);
	KUNIT_EXPECT_EQ(test, mr->page_shift, PAGE_SHIFT);
	KUNIT_EXPECT_EQ(test, mr->page_mask, PAGE_MASK);
	KUNIT_EXPECT_EQ(test, mr_page_size(mr), PAGE_SIZE);
	KUNIT_EXPECT_PTR_EQ(test, lookup(&ctx->pd[1], IB_ACCESS_REMOTE_READ, key), mr);
	KUNIT_EXPECT_NULL(test, lookup(&ctx->pd[1], ACCESS, key));
	KUNIT_EXPECT_NULL(test, lookup(&ctx->pd[0], 0, key));

	/* The old MR is unchanged for the packets that have looked it up. */
	KUNIT_EXPECT_EQ(test, old->ibmr.iova, IOVA);
	KUNIT_EXPECT_EQ(test, old->ibmr.length, LENGTH);
	KUNIT_EXPECT_EQ(test, old->access, ACCESS);
	KUNIT_EXPECT_PTR_NE(test, old->mem, mr->mem);
	KUNIT_EXPECT_EQ(test, rxe_read(&ctx->pd[0]), 2);
	KUNIT_EXPECT_EQ(test, rxe_read(&ctx->pd[1]), 2);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->rxe.mr_pool.num_elem), 2);

	/* The end of the old MR does not remove the new one. */
	end_mr(test, old);
	KUNIT_EXPECT_PTR_EQ(test, find(ctx, key), mr);
	KUNIT_EXPECT_EQ(test, rxe_read(&ctx->pd[0]), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->rxe.mr_pool.num_elem), 1);
}

static void test_mr_can_be_replaced_again(struct kunit *test)
{
	struct ctx *ctx = test->priv;
	struct rxe_mr *other, *mr;
	u32 key = ctx->mr->lkey;
	int i;

	for (i = 0; i < 5; i++) {
		mr = replace(test, ctx->mr, &ctx->pd[i % 2], ACCESS, IOVA, LENGTH);
		end_mr(test, ctx->mr);
		ctx->mr = mr;

		/* The index is never free. */
		other = new_mr(test, ctx);
		KUNIT_EXPECT_NE(test, other->lkey >> 8, key >> 8);
		KUNIT_EXPECT_PTR_EQ(test, find(ctx, key), mr);
		KUNIT_EXPECT_PTR_EQ(test, find(ctx, other->lkey), other);
		end_mr(test, other);
	}
}

/* Both MRs share the memory; the end of the old one does not release it. */
static void test_old_and_new_mr_share_the_memory(struct kunit *test)
{
	struct ctx *ctx = test->priv;
	struct rxe_mr *old = ctx->mr;
	struct rxe_mr_mem *mem = old->mem;
	struct ib_mr *ibmr;

	kref_get(&mem->ref);
	ibmr = rxe_mr_replace(old, old->ibmr.pd, 0, mem, IOVA, LENGTH);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ibmr);
	ctx->mr = to_rmr(ibmr);

	KUNIT_EXPECT_EQ(test, kref_read(&mem->ref), 2);
	end_mr(test, old);
	KUNIT_EXPECT_PTR_EQ(test, ctx->mr->mem, mem);
	KUNIT_EXPECT_EQ(test, kref_read(&mem->ref), 1);
	KUNIT_EXPECT_EQ(test, rxe_read(&ctx->pd[0]), 2);
}

static void test_mr_with_a_window_is_not_replaced(struct kunit *test)
{
	struct ctx *ctx = test->priv;
	struct rxe_mr *old = ctx->mr;
	struct rxe_mr_mem *mem = new_mem(test);
	struct ib_mr *ibmr;

	atomic_inc(&old->num_mw);
	ibmr = rxe_mr_replace(old, &ctx->pd[1].ibpd, 0, mem, 0, 1);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ibmr), -EINVAL);

	/* Nothing has changed, and the caller still owns the memory. */
	KUNIT_EXPECT_EQ(test, atomic_read(&old->num_mw), 1);
	KUNIT_EXPECT_PTR_EQ(test, lookup(&ctx->pd[0], ACCESS, old->lkey), old);
	KUNIT_EXPECT_EQ(test, kref_read(&mem->ref), 1);
	KUNIT_EXPECT_EQ(test, rxe_read(&ctx->pd[1]), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->rxe.mr_pool.num_elem), 1);
	rxe_mr_mem_put(mem);

	/* Without the window the MR can be replaced. */
	KUNIT_EXPECT_FALSE(test, rxe_mr_close(old));
	atomic_dec(&old->num_mw);
	ctx->mr = replace(test, old, &ctx->pd[0], ACCESS, IOVA, LENGTH);
	KUNIT_EXPECT_FALSE(test, atomic_inc_unless_negative(&old->num_mw));
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->mr->num_mw), 0);
	end_mr(test, old);
}

struct packet {
	struct delayed_work work;
	struct rxe_mr *mr;
	bool done;
};

static void packet_done(struct work_struct *work)
{
	struct packet *packet = container_of(work, struct packet, work.work);

	WRITE_ONCE(packet->done, true);
	rxe_put(packet->mr);
}

/* The end of the old MR waits for the packet that has looked it up. */
static void test_end_of_the_old_mr_waits_for_packets(struct kunit *test)
{
	struct ctx *ctx = test->priv;
	struct rxe_mr *old = ctx->mr;
	struct packet packet = {};

	packet.mr = rxe_pool_get_index(&ctx->rxe.mr_pool, old->elem.index);
	KUNIT_ASSERT_PTR_EQ(test, packet.mr, old);
	ctx->mr = replace(test, old, &ctx->pd[0], ACCESS, IOVA, LENGTH);

	INIT_DELAYED_WORK_ONSTACK(&packet.work, packet_done);
	schedule_delayed_work(&packet.work, msecs_to_jiffies(50));
	end_mr(test, old);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(packet.done));
	flush_delayed_work(&packet.work);
	destroy_delayed_work_on_stack(&packet.work);
}

struct reader {
	struct ctx *ctx;
	u32 key;
	unsigned long found;
	unsigned long lost;
	unsigned long mixed;
};

static int reader_run(void *data)
{
	struct reader *reader = data;
	struct rxe_mr *mr;

	while (!kthread_should_stop()) {
		mr = rxe_pool_get_index(&reader->ctx->rxe.mr_pool, reader->key >> 8);
		if (!mr) {
			reader->lost++;
			continue;
		}
		reader->mixed += mr->lkey != reader->key ||
				 mr->ibmr.length != mr->ibmr.iova - IOVA + LENGTH;
		WRITE_ONCE(reader->found, reader->found + 1);
		rxe_put(mr);
		cond_resched();
	}
	return 0;
}

/* At any time packets find an MR, the old one or the new one. */
static void test_lookup_finds_the_old_or_the_new_mr(struct kunit *test)
{
	struct ctx *ctx = test->priv;
	struct reader reader = { .ctx = ctx, .key = ctx->mr->lkey };
	struct task_struct *task;
	unsigned long end;
	struct rxe_mr *mr;
	int i, ms;

	task = kthread_run(reader_run, &reader, "rxe_key_test");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
	for (ms = 0; ms < 5000 && !READ_ONCE(reader.found); ms++)
		usleep_range(1000, 2000);

	/* With every checker a round takes 5 ms. */
	end = jiffies + 10 * HZ;
	for (i = 1; i <= 20000 && time_before(jiffies, end); i++) {
		mr = replace(test, ctx->mr, &ctx->pd[0], ACCESS, IOVA + i, LENGTH + i);
		end_mr(test, ctx->mr);
		ctx->mr = mr;
	}
	kthread_stop(task);

	KUNIT_EXPECT_GT(test, reader.found, 0);
	KUNIT_EXPECT_EQ(test, reader.lost, 0);
	KUNIT_EXPECT_EQ(test, reader.mixed, 0);
}

/* Memory windows, all of type 2: only these can be zero based */

static struct rxe_mw *new_mw(struct kunit *test, struct ctx *ctx)
{
	struct rxe_mw *mw = kunit_kzalloc(test, sizeof(*mw), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mw);
	mw->ibmw.device = &ctx->rxe.ib_dev;
	mw->ibmw.pd = &ctx->pd[0].ibpd;
	mw->ibmw.type = IB_MW_TYPE_2;
	KUNIT_ASSERT_EQ(test, 0, rxe_alloc_mw(&mw->ibmw, NULL));
	return mw;
}

static int bind(struct kunit *test, struct ctx *ctx, struct rxe_mw *mw,
		u64 addr, u64 length, int access)
{
	struct rxe_send_wqe *wqe = kunit_kzalloc(test, sizeof(*wqe), GFP_KERNEL);
	int err;

	KUNIT_ASSERT_NOT_NULL(test, wqe);
	wqe->wr.wr.mw.addr = addr;
	wqe->wr.wr.mw.length = length;
	wqe->wr.wr.mw.mr_lkey = ctx->mr->lkey;
	wqe->wr.wr.mw.mw_rkey = mw->rkey;
	wqe->wr.wr.mw.rkey = mw->rkey + 1;
	wqe->wr.wr.mw.access = access;
	err = rxe_bind_mw(&ctx->qp, wqe);
	kunit_kfree(test, wqe);
	return err;
}

struct bind_case {
	const char *name;
	u64 iova; /* of the MR */
	u64 mr_length;
	u64 addr;
	u64 length;
	int access;
	int err;
};

#define VA IB_ACCESS_REMOTE_WRITE
#define ZB (IB_ACCESS_REMOTE_WRITE | IB_ZERO_BASED)

static const struct bind_case bind_cases[] = {
	{ "whole", IOVA, LENGTH, IOVA, LENGTH, VA, 0 },
	{ "first byte", IOVA, LENGTH, IOVA, 1, VA, 0 },
	{ "last byte", IOVA, LENGTH, IOVA + LENGTH - 1, 1, VA, 0 },
	{ "nothing", IOVA, LENGTH, IOVA, 0, VA, -EINVAL },
	{ "byte before", IOVA, LENGTH, IOVA - 1, 1, VA, -EINVAL },
	{ "byte after", IOVA, LENGTH, IOVA + LENGTH, 1, VA, -EINVAL },
	{ "too long", IOVA, LENGTH, IOVA, LENGTH + 1, VA, -EINVAL },
	{ "as long, one byte on", IOVA, LENGTH, IOVA + 1, LENGTH, VA, -EINVAL },
	{ "wraps to the start", IOVA, LENGTH, IOVA + 1, U64_MAX, VA, -EINVAL },
	{ "wraps into", IOVA, LENGTH, -1ULL, IOVA + 2, VA, -EINVAL },
	{ "at the top", -0x1000ULL, 0x1000, -0x1000ULL, 0x1000, VA, 0 },
	{ "at the top, last byte", -0x1000ULL, 0x1000, -1ULL, 1, VA, 0 },
	{ "at the top, wraps", -0x1000ULL, 0x1000, -1ULL, 2, VA, -EINVAL },
	{ "zero based, whole", IOVA, LENGTH, IOVA, LENGTH, ZB, 0 },
	{ "zero based, too long", IOVA, LENGTH, IOVA, LENGTH + 1, ZB, -EINVAL },
	{ "zero based, longest", IOVA, LENGTH, IOVA, U64_MAX, ZB, -EINVAL },
};

KUNIT_ARRAY_PARAM_DESC(bind, bind_cases, name);

static void test_bind_needs_a_range_of_the_mr(struct kunit *test)
{
	const struct bind_case *c = test->param_value;
	struct ctx *ctx = test->priv;
	struct rxe_mw *mw = new_mw(test, ctx);

	ctx->mr->ibmr.iova = c->iova;
	ctx->mr->ibmr.length = c->mr_length;

	KUNIT_EXPECT_EQ(test, bind(test, ctx, mw, c->addr, c->length, c->access), c->err);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->mr->num_mw), !c->err);
	KUNIT_EXPECT_EQ(test, rxe_read(ctx->mr), c->err ? 1 : 2);
	KUNIT_EXPECT_EQ(test, rxe_mr_close(ctx->mr), !!c->err);
	KUNIT_EXPECT_EQ(test, rxe_qp_chk_destroy(&ctx->qp), c->err ? 0 : -EBUSY);
	KUNIT_EXPECT_EQ(test, rxe_invalidate_mw(&ctx->qp, mw->rkey), c->err);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->mr->num_mw), c->err ? -1 : 0);
	KUNIT_EXPECT_EQ(test, rxe_qp_chk_destroy(&ctx->qp), 0);
	KUNIT_EXPECT_EQ(test, 0, rxe_dealloc_mw(&mw->ibmw));
	KUNIT_EXPECT_EQ(test, rxe_read(ctx->mr), 1);
}

/* No window is bound to an MR that is replaced or about to be destroyed. */
static void test_bind_to_a_closed_mr_is_einval(struct kunit *test)
{
	struct ctx *ctx = test->priv;
	struct rxe_mw *mw = new_mw(test, ctx);

	KUNIT_EXPECT_TRUE(test, rxe_mr_close(ctx->mr));
	KUNIT_EXPECT_EQ(test, bind(test, ctx, mw, IOVA, 1, VA), -EINVAL);
	KUNIT_EXPECT_EQ(test, rxe_read(ctx->mr), 1);
	KUNIT_EXPECT_EQ(test, mw->state, RXE_MW_STATE_FREE);
	KUNIT_EXPECT_EQ(test, 0, rxe_dealloc_mw(&mw->ibmw));
}

/* No window is bound from a QP that is about to be destroyed. */
static void test_bind_on_a_closed_qp_is_einval(struct kunit *test)
{
	struct ctx *ctx = test->priv;
	struct rxe_mw *mw = new_mw(test, ctx);

	KUNIT_EXPECT_EQ(test, rxe_qp_chk_destroy(&ctx->qp), 0);
	KUNIT_EXPECT_EQ(test, bind(test, ctx, mw, IOVA, 1, VA), -EINVAL);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->mr->num_mw), 0);
	KUNIT_EXPECT_EQ(test, rxe_read(ctx->mr), 1);
	KUNIT_EXPECT_EQ(test, mw->state, RXE_MW_STATE_FREE);
	KUNIT_EXPECT_EQ(test, 0, rxe_dealloc_mw(&mw->ibmw));
}

/* Accesses through a window of WLEN bytes at WADDR */

#define WADDR (IOVA + 0x123)
#define WLEN 0x1001

struct window_case {
	const char *name;
	int access;
	u64 va;
	u64 length;
	bool found;
};

static const struct window_case window_cases[] = {
	{ "whole", VA, WADDR, WLEN, true },
	{ "first byte", VA, WADDR, 1, true },
	{ "last byte", VA, WADDR + WLEN - 1, 1, true },
	{ "byte before", VA, WADDR - 1, 1, false },
	{ "from before into", VA, WADDR - 1, 2, false },
	{ "byte after", VA, WADDR + WLEN, 1, false },
	{ "from the last byte out", VA, WADDR + WLEN - 1, 2, false },
	{ "too long", VA, WADDR, WLEN + 1, false },
	{ "as long, one byte on", VA, WADDR + 1, WLEN, false },
	{ "wraps to the start", VA, WADDR + 1, U64_MAX, false },
	{ "from the top", VA, U64_MAX, WADDR + 2, false },
	{ "longest", VA, WADDR, U64_MAX, false },
	{ "of the MR, not of the window", VA, IOVA, 1, false },
	{ "nothing, anywhere", VA, 0, 0, true },
	{ "zero based, whole", ZB, 0, WLEN, true },
	{ "zero based, last byte", ZB, WLEN - 1, 1, true },
	{ "zero based, byte after", ZB, WLEN, 1, false },
	{ "zero based, too long", ZB, 0, WLEN + 1, false },
	{ "zero based, byte before", ZB, U64_MAX, 1, false },
	{ "zero based, wraps", ZB, U64_MAX, 2, false },
	{ "zero based, by address", ZB, WADDR, 1, false },
};

KUNIT_ARRAY_PARAM_DESC(window, window_cases, name);

static void test_window_reaches_its_range_only(struct kunit *test)
{
	const struct window_case *c = test->param_value;
	u64 add = c->access & IB_ZERO_BASED ? WADDR : 0, offset = ~add;
	struct ctx *ctx = test->priv;
	struct rxe_mw *mw = new_mw(test, ctx);
	struct rxe_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, bind(test, ctx, mw, WADDR, WLEN, c->access));
	mr = rxe_lookup_mw(&ctx->qp, VA, mw->rkey, c->va, c->length, &offset);
	KUNIT_EXPECT_PTR_EQ(test, mr, c->found ? ctx->mr : NULL);
	if (mr) {
		KUNIT_EXPECT_EQ(test, offset, add);
		rxe_put(mr);
	}
	KUNIT_EXPECT_EQ(test, 0, rxe_dealloc_mw(&mw->ibmw));
	KUNIT_EXPECT_EQ(test, rxe_read(ctx->mr), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->mr->num_mw), 0);
}

/* Rights, key, PD and state of a window */
static void test_window_checks_rights_key_and_pd(struct kunit *test)
{
	struct ctx *ctx = test->priv;
	struct rxe_mw *mw = new_mw(test, ctx);
	struct rxe_qp *qp = &ctx->qp;
	u64 offset;

	KUNIT_EXPECT_NULL(test, rxe_lookup_mw(qp, 0, mw->rkey, WADDR, 1, &offset));
	KUNIT_ASSERT_EQ(test, 0, bind(test, ctx, mw, WADDR, WLEN, VA));
	KUNIT_EXPECT_NULL(test, rxe_lookup_mw(qp, IB_ACCESS_REMOTE_READ, mw->rkey,
					      WADDR, 1, &offset));
	KUNIT_EXPECT_NULL(test, rxe_lookup_mw(qp, VA, mw->rkey ^ 1, WADDR, 1, &offset));
	KUNIT_EXPECT_NULL(test, rxe_lookup_mw(qp, VA, mw->rkey ^ 0x100, WADDR, 1, &offset));

	qp->pd = &ctx->pd[1];
	KUNIT_EXPECT_NULL(test, rxe_lookup_mw(qp, VA, mw->rkey, WADDR, 1, &offset));
	qp->pd = &ctx->pd[0];

	KUNIT_EXPECT_EQ(test, 0, rxe_invalidate_mw(qp, mw->rkey));
	KUNIT_EXPECT_NULL(test, rxe_lookup_mw(qp, VA, mw->rkey, WADDR, 1, &offset));
	KUNIT_EXPECT_EQ(test, 0, rxe_dealloc_mw(&mw->ibmw));
}

static struct kunit_case rxe_key_cases[] = {
	KUNIT_CASE(test_lookup_checks_key_pd_and_rights),
	KUNIT_CASE(test_invalidation_needs_the_pd_of_the_mr),
	KUNIT_CASE(test_replaced_mr_keeps_its_keys),
	KUNIT_CASE(test_mr_can_be_replaced_again),
	KUNIT_CASE(test_old_and_new_mr_share_the_memory),
	KUNIT_CASE(test_mr_with_a_window_is_not_replaced),
	KUNIT_CASE(test_end_of_the_old_mr_waits_for_packets),
	KUNIT_CASE(test_lookup_finds_the_old_or_the_new_mr),
	KUNIT_CASE_PARAM(test_bind_needs_a_range_of_the_mr, bind_gen_params),
	KUNIT_CASE(test_bind_to_a_closed_mr_is_einval),
	KUNIT_CASE(test_bind_on_a_closed_qp_is_einval),
	KUNIT_CASE_PARAM(test_window_reaches_its_range_only, window_gen_params),
	KUNIT_CASE(test_window_checks_rights_key_and_pd),
	{}
};

static struct kunit_suite rxe_key_suite = {
	.name = "rxe_key",
	.init = ctx_init,
	.exit = ctx_exit,
	.test_cases = rxe_key_cases,
};

kunit_test_suite(rxe_key_suite);
