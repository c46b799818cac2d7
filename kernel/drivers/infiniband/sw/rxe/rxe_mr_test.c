// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit tests of the memory behind an MR: ranges, copies, atomic operations
 *
 * The test allocates the memory of an MR: as pages, pinned or on demand, as the
 * mapping of a dma-buf in system or in I/O memory, or as kernel addresses.  The memory consists of
 * slots of one block; for pages the slots are not in order.  Each block has a
 * model.  A test does to the model, byte by byte, what it does to the MR, and
 * then compares all of both, which also shows writes to a wrong place.
 */

#include <kunit/test.h>
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/hmm.h>
#include <linux/prandom.h>
#include <rdma/ib_umem_fd.h>
#include <rdma/ib_umem_odp.h>

#include "rxe.h"
#include "rxe_loc.h"

/* Ranges */

struct range_case {
	const char *name;
	u64 mr_iova;
	u64 mr_length;
	u64 iova;
	u64 length;
	int err;
};

static const struct range_case range_cases[] = {
	{ "whole", 0x1000, 0x3000, 0x1000, 0x3000, 0 },
	{ "first byte", 0x1000, 0x3000, 0x1000, 1, 0 },
	{ "last byte", 0x1000, 0x3000, 0x3fff, 1, 0 },
	{ "all but the first byte", 0x1000, 0x3000, 0x1001, 0x2fff, 0 },
	{ "nothing at the start", 0x1000, 0x3000, 0x1000, 0, 0 },
	{ "nothing at the end", 0x1000, 0x3000, 0x4000, 0, 0 },
	{ "nothing before the start", 0x1000, 0x3000, 0xfff, 0, -EINVAL },
	{ "nothing past the end", 0x1000, 0x3000, 0x4001, 0, -EINVAL },
	{ "one byte before", 0x1000, 0x3000, 0xfff, 1, -EINVAL },
	{ "from before into", 0x1000, 0x3000, 0xfff, 2, -EINVAL },
	{ "one byte after", 0x1000, 0x3000, 0x4000, 1, -EINVAL },
	{ "one byte too long", 0x1000, 0x3000, 0x1000, 0x3001, -EINVAL },
	{ "as long, one byte on", 0x1000, 0x3000, 0x1001, 0x3000, -EINVAL },
	{ "from the last byte out", 0x1000, 0x3000, 0x3fff, 2, -EINVAL },
	{ "end wraps to the start", 0x1000, 0x3000, 0x1001, U64_MAX, -EINVAL },
	{ "end wraps to 0", 0x1000, 0x3000, 0x3fff, -0x3fffULL, -EINVAL },
	{ "longest", 0x1000, 0x3000, 0x1000, U64_MAX, -EINVAL },
	{ "from the top into", 0x1000, 0x3000, U64_MAX, 0x1002, -EINVAL },
	{ "at 0: whole", 0, 0x3000, 0, 0x3000, 0 },
	{ "at 0: the byte below", 0, 0x3000, U64_MAX, 1, -EINVAL },
	{ "at 0: from the byte below", 0, 0x3000, U64_MAX, 2, -EINVAL },
	{ "at the top: whole", -0x1000ULL, 0x1000, -0x1000ULL, 0x1000, 0 },
	{ "at the top: last byte", -0x1000ULL, 0x1000, U64_MAX, 1, 0 },
	{ "at the top: wraps by one", -0x1000ULL, 0x1000, U64_MAX, 2, -EINVAL },
	{ "at the top: too long", -0x1000ULL, 0x1000, -0x1000ULL, 0x1001, -EINVAL },
	{ "at the top: wrapped", -0x1000ULL, 0x1000, 0, 1, -EINVAL },
	{ "largest: whole", 0, U64_MAX, 0, U64_MAX, 0 },
	{ "largest: last byte", 0, U64_MAX, U64_MAX - 1, 1, 0 },
	{ "largest: one byte after", 0, U64_MAX, U64_MAX, 1, -EINVAL },
	{ "empty: nothing", 0x1000, 0, 0x1000, 0, 0 },
	{ "empty: a byte", 0x1000, 0, 0x1000, 1, -EINVAL },
};

KUNIT_ARRAY_PARAM_DESC(range, range_cases, name);

static void test_range_must_lie_in_the_mr(struct kunit *test)
{
	const struct range_case *c = test->param_value;
	struct rxe_mr *mr = kunit_kzalloc(test, sizeof(*mr), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mr);
	mr->ibmr.iova = c->mr_iova;
	mr->ibmr.length = c->mr_length;

	mr->ibmr.type = IB_MR_TYPE_USER;
	KUNIT_EXPECT_EQ(test, mr_check_range(mr, c->iova, c->length), c->err);
	mr->ibmr.type = IB_MR_TYPE_MEM_REG;
	KUNIT_EXPECT_EQ(test, mr_check_range(mr, c->iova, c->length), c->err);
	mr->ibmr.type = IB_MR_TYPE_DMA; /* has no bounds */
	KUNIT_EXPECT_EQ(test, mr_check_range(mr, c->iova, c->length), 0);
	mr->ibmr.type = IB_MR_TYPE_INTEGRITY;
	KUNIT_EXPECT_EQ(test, mr_check_range(mr, c->iova, c->length), -EINVAL);
}

struct index_case {
	const char *name;
	unsigned int shift;
	u64 mr_iova;
	u64 iova;
	unsigned long index;
	unsigned long offset;
};

static const struct index_case index_cases[] = {
	{ "start of a page", 12, 0x5000, 0x5000, 0, 0 },
	{ "end of the first page", 12, 0x5000, 0x5fff, 0, 0xfff },
	{ "second page", 12, 0x5000, 0x6000, 1, 0 },
	{ "within a page", 12, 0x5028, 0x5028, 0, 0x28 },
	{ "within a page, its end", 12, 0x5028, 0x5fff, 0, 0xfff },
	{ "within a page, the next", 12, 0x5028, 0x6000, 1, 0 },
	{ "within a page, a page on", 12, 0x5028, 0x6028, 1, 0x28 },
	{ "last byte of a page", 12, 0x5fff, 0x5fff, 0, 0xfff },
	{ "last byte of a page, the next", 12, 0x5fff, 0x6000, 1, 0 },
	{ "far", 12, 0x5028, 0x92345678abcULL, 0x92345673, 0xabc },
	{ "the top", 12, -0x2000ULL, U64_MAX, 1, 0xfff },
	{ "small pages", 9, 0x5028, 0x51ff, 0, 0x1ff },
	{ "small pages, the next", 9, 0x5028, 0x5228, 1, 0x28 },
	{ "large pages", PAGE_SHIFT + 4, 80 * PAGE_SIZE + 0x28,
	  80 * PAGE_SIZE + 0x28, 0, 0x28 },
	{ "large pages, the first ends", PAGE_SHIFT + 4, 80 * PAGE_SIZE + 0x28,
	  96 * PAGE_SIZE - 1, 15, PAGE_SIZE - 1 },
	{ "large pages, the next", PAGE_SHIFT + 4, 80 * PAGE_SIZE + 0x28,
	  96 * PAGE_SIZE + 0x28, 16, 0x28 },
	{ "large pages, the MR begins inside", PAGE_SHIFT + 4,
	  83 * PAGE_SIZE, 84 * PAGE_SIZE, 4, 0 },
};

KUNIT_ARRAY_PARAM_DESC(index, index_cases, name);

static void test_iova_maps_to_its_page_and_offset(struct kunit *test)
{
	const struct index_case *c = test->param_value;
	struct rxe_mr *mr = kunit_kzalloc(test, sizeof(*mr), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mr);
	mr->mem = kunit_kzalloc(test, sizeof(*mr->mem), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, mr->mem);
	mr->mem->nbuf = U32_MAX;
	mr->ibmr.iova = c->mr_iova;
	mr->ibmr.page_size = 1 << c->shift;
	mr->page_shift = c->shift;
	mr->page_mask = ~((1ULL << c->shift) - 1);

	KUNIT_EXPECT_EQ(test, rxe_mr_iova_to_index(mr, c->iova), c->index);
	KUNIT_EXPECT_EQ(test, rxe_mr_iova_to_page_offset(mr, c->iova), c->offset);
}

/* Memory */

#define BLOCK_ORDER 4
#define BLOCK_BYTES (PAGE_SIZE << BLOCK_ORDER)
#define SLOTS 5
#define PAGES (SLOTS - 1) /* that the region is in */
#define START 40 /* offset of the region in its first slot */
#define LENGTH (3 * PAGE_SIZE + 16)
#define GUARD 32 /* bytes to check before and after a write */
#define USER_START (64 * PAGE_SIZE) /* of on-demand memory, in its process */
#define ALIGNS 16
#define LONGEST 33

struct kind {
	const char *name;
	bool dma;
	bool odp;
	bool vmap;
	bool iomem;
	u64 iova; /* of the byte that is START bytes before the region */
};

static const struct kind kinds[] = {
	{ "pages" },
	{ "pages at the top", .iova = -4 * PAGE_SIZE },
	{ "on demand", .odp = true },
	{ "on demand, at the top", .odp = true, .iova = -4 * PAGE_SIZE },
	{ "kernel addresses", .dma = true },
	{ "mapped", .vmap = true, .iova = 7 * PAGE_SIZE },
	{ "mapped, at the top", .vmap = true, .iova = -4 * PAGE_SIZE },
	{ "mapped I/O memory", .vmap = true, .iomem = true },
};

KUNIT_ARRAY_PARAM_DESC(kind, kinds, name);

/* The kinds with bounds */
static const void *user_gen_params(struct kunit *test, const void *prev,
				   char *desc)
{
	const struct kind *kind = kind_gen_params(test, prev, desc);

	while (kind && kind->dma)
		kind = kind_gen_params(test, kind, desc);
	return kind;
}

/* The kinds with a list of pages */
static const void *pages_gen_params(struct kunit *test, const void *prev,
				    char *desc)
{
	const struct kind *kind = user_gen_params(test, prev, desc);

	while (kind && (kind->vmap || kind->odp))
		kind = user_gen_params(test, kind, desc);
	return kind;
}

struct mem {
	const struct kind *kind;
	struct rxe_mr mr;
	struct ib_umem_vmap vmap;
	struct dma_buf dmabuf;	/* of vmap; only its lock is used */
	struct dma_resv resv;
	struct ib_umem_odp odp;
	unsigned long pfns[PAGES];
	struct rnd_state rnd;
	u8 slot[SLOTS]; /* for each page of the memory, its page in the block */
	u64 first; /* offset of the region in the memory */
	u8 *block;
	u8 *model;
	u8 *local;
};

/* Index in the block of byte AT of the region */
static size_t position(struct mem *mem, u64 at)
{
	u64 byte = mem->first + at;

	return mem->slot[byte / PAGE_SIZE] * PAGE_SIZE + byte % PAGE_SIZE;
}

static u64 iova_of(struct mem *mem, u64 at)
{
	return mem->mr.ibmr.iova + at;
}

static void free_block(void *block)
{
	free_pages((unsigned long)block, BLOCK_ORDER);
}

static u8 *new_block(struct kunit *test)
{
	u8 *block = (u8 *)__get_free_pages(GFP_KERNEL, BLOCK_ORDER);

	KUNIT_ASSERT_NOT_NULL(test, block);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, free_block, block));
	return block;
}

static void make_pages(struct kunit *test, struct mem *mem)
{
	static const u8 slots[SLOTS] = { 6, 2, 9, 0, 4 };
	struct ib_umem *umem = &mem->vmap.umem;
	struct page *pages[PAGES];
	int i;

	memcpy(mem->slot, slots, sizeof(slots));
	for (i = 0; i < PAGES; i++)
		pages[i] = virt_to_page(mem->block + slots[i] * PAGE_SIZE);

	mem->first = START;
	KUNIT_ASSERT_EQ(test, 0,
			sg_alloc_append_table_from_pages(&umem->sgt_append, pages,
							 PAGES, 0, PAGES * PAGE_SIZE,
							 UINT_MAX, 0, GFP_KERNEL));
}

/* All pages are there, so that nothing has to be faulted in. */
static void make_on_demand(struct mem *mem)
{
	static const u8 slots[SLOTS] = { 6, 2, 9, 0, 4 };
	struct ib_umem_odp *odp = &mem->odp;
	int i;

	memcpy(mem->slot, slots, sizeof(slots));
	for (i = 0; i < PAGES; i++)
		mem->pfns[i] = HMM_PFN_VALID | HMM_PFN_WRITE |
			page_to_pfn(virt_to_page(mem->block + slots[i] * PAGE_SIZE));

	mem->first = START;
	mutex_init(&odp->umem_mutex);
	odp->page_shift = PAGE_SHIFT;
	odp->map.pfn_list = mem->pfns;
	odp->notifier.interval_tree.start = USER_START;
	odp->notifier.interval_tree.last = USER_START + PAGES * PAGE_SIZE - 1;
	odp->umem.is_odp = 1;
	odp->umem.writable = 1;
	odp->umem.address = USER_START + START;
	odp->umem.length = LENGTH;
}

static void make_mapped(struct mem *mem)
{
	struct iosys_map *map = &mem->vmap.map;
	int i;

	for (i = 0; i < SLOTS; i++)
		mem->slot[i] = i + 1;

	mem->first = PAGE_SIZE + START;
	mem->vmap.umem.is_vmap = 1;
	mem->vmap.dmabuf = &mem->dmabuf;
	mem->dmabuf.resv = &mem->resv;
	dma_resv_init(&mem->resv);
	iosys_map_set_vaddr(map, mem->block + PAGE_SIZE);
	if (mem->kind->iomem)
		iosys_map_set_vaddr_iomem(map, (void __iomem *)(mem->block + PAGE_SIZE));
}

static void free_mem(void *data)
{
	struct mem *mem = data;

	sg_free_append_table(&mem->vmap.umem.sgt_append);
	if (mem->mr.mem) {
		mem->mr.mem->umem = NULL; /* not from the core */
		rxe_mr_mem_put(mem->mr.mem);
	}
	if (mem->vmap.dmabuf)
		dma_resv_fini(&mem->resv);
}

static void make_mr(struct kunit *test, struct mem *mem)
{
	struct ib_umem *umem = &mem->vmap.umem;
	int access = IB_ACCESS_LOCAL_WRITE;
	struct rxe_mr *mr = &mem->mr;
	struct rxe_mr_mem *rmem;

	if (mem->kind->odp)
		make_on_demand(mem);
	else if (mem->kind->vmap || mem->kind->dma)
		make_mapped(mem);
	else
		make_pages(test, mem);
	umem->address = mem->first;
	umem->iova = mem->first;
	umem->length = LENGTH;

	mr->ibmr.length = LENGTH;
	mr->ibmr.iova = mem->kind->iova + START;
	if (mem->kind->dma) {
		mr->ibmr.iova = (uintptr_t)(mem->block + position(mem, 0));
		rxe_mr_init_dma(IB_ACCESS_LOCAL_WRITE, mr);
		return;
	}

	if (mem->kind->odp) {
		umem = &mem->odp.umem;
		access |= IB_ACCESS_ON_DEMAND;
	}
	rmem = rxe_mr_mem_new(umem, access);
	if (!IS_ERR(rmem))
		rxe_mr_init_mem(access, rmem, mr);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, free_mem, mem));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, rmem);
}

static struct mem *new_mem(struct kunit *test)
{
	struct mem *mem = kunit_kzalloc(test, sizeof(*mem), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mem);
	mem->kind = test->param_value;
	/* On other architectures the I/O accessors may not work on RAM. */
	if (mem->kind->iomem && !IS_ENABLED(CONFIG_X86) && !IS_ENABLED(CONFIG_ARM64))
		kunit_skip(test, "no I/O memory can be made of memory here");
	if (mem->kind->odp && !IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING))
		kunit_skip(test, "the kernel has no on-demand paging");

	mem->block = new_block(test);
	mem->model = new_block(test);
	mem->local = new_block(test);
	prandom_seed_state(&mem->rnd, 1);
	prandom_bytes_state(&mem->rnd, mem->block, BLOCK_BYTES);
	memcpy(mem->model, mem->block, BLOCK_BYTES);
	make_mr(test, mem);
	return mem;
}

static void check_all(struct kunit *test, struct mem *mem)
{
	KUNIT_EXPECT_EQ(test, memcmp(mem->block, mem->model, BLOCK_BYTES), 0);
}

/* Are the bytes [@at, @at + @length) and GUARD bytes around them right? */
static bool as_model(struct mem *mem, u64 at, unsigned int length)
{
	unsigned int i;
	size_t p;

	for (i = 0; i < length + 2 * GUARD; i++) {
		p = position(mem, at + i - GUARD);
		if (mem->block[p] != mem->model[p])
			return false;
	}
	return true;
}

/* Copies */

static void copy_to(struct kunit *test, struct mem *mem, u64 at,
		    unsigned int align, unsigned int length)
{
	u8 *from = mem->local + align;
	unsigned int i;

	prandom_bytes_state(&mem->rnd, from, length);
	for (i = 0; i < length; i++)
		mem->model[position(mem, at + i)] = from[i];

	KUNIT_ASSERT_EQ(test, 0, rxe_mr_copy(&mem->mr, iova_of(mem, at), from,
					     length, RXE_TO_MR_OBJ));
	KUNIT_ASSERT_TRUE_MSG(test, as_model(mem, at, length),
			      "to %llu from %u length %u", at, align, length);
}

static void copy_from(struct kunit *test, struct mem *mem, u64 at,
		      unsigned int align, unsigned int length)
{
	u8 *to = mem->local + GUARD + align, want;
	int i, wrong = 0;

	memset(mem->local, 0xa5, length + align + 2 * GUARD);
	KUNIT_ASSERT_EQ(test, 0, rxe_mr_copy(&mem->mr, iova_of(mem, at), to,
					     length, RXE_FROM_MR_OBJ));

	for (i = -GUARD; i < (int)length + GUARD; i++) {
		want = 0xa5;
		if (i >= 0 && i < length)
			want = mem->model[position(mem, at + i)];
		wrong += to[i] != want;
	}
	KUNIT_ASSERT_EQ_MSG(test, wrong, 0, "from %llu to %u length %u", at,
			    align, length);
}

static void copy_both(struct kunit *test, struct mem *mem, u64 at,
		      unsigned int align, unsigned int length)
{
	copy_to(test, mem, at, align, length);
	copy_from(test, mem, at, align, length);
}

static void test_copy_works_at_every_alignment(struct kunit *test)
{
	struct mem *mem = new_mem(test);
	unsigned int at, align, length;

	for (at = 0; at < ALIGNS; at++)
		for (align = 0; align < ALIGNS; align++)
			for (length = 0; length <= LONGEST; length++)
				copy_both(test, mem, at, align, length);
	check_all(test, mem);
}

static void test_copy_crosses_a_page_border(struct kunit *test)
{
	struct mem *mem = new_mem(test);
	unsigned int before, length;

	for (before = 0; before <= LONGEST; before++)
		for (length = 0; length <= 2 * LONGEST; length++)
			copy_both(test, mem, PAGE_SIZE - START - before,
				  before % 8, length);
	check_all(test, mem);
}

static void test_long_copy_moves_every_byte(struct kunit *test)
{
	struct mem *mem = new_mem(test);
	unsigned int at;

	for (at = 0; at < ALIGNS; at++) {
		copy_both(test, mem, at, 0, LENGTH - at);
		copy_both(test, mem, at, at, PAGE_SIZE);
		copy_both(test, mem, at, 3, 2 * PAGE_SIZE - at);
		copy_both(test, mem, LENGTH - at, at, at);
		copy_both(test, mem, PAGE_SIZE - START + at, 1, 2 * PAGE_SIZE);
	}
	check_all(test, mem);
}

static void test_copy_outside_the_mr_is_einval(struct kunit *test)
{
	struct mem *mem = new_mem(test);
	static const struct {
		s64 at;
		unsigned int length;
	} outside[] = {
		{ -1, 1 }, { -1, LENGTH }, { 0, LENGTH + 1 }, { 1, LENGTH },
		{ LENGTH, 1 }, { LENGTH - 1, 2 }, { 0, U32_MAX },
	};
	int i, dir;

	memset(mem->local, 0xa5, BLOCK_BYTES);
	for (i = 0; i < ARRAY_SIZE(outside); i++) {
		for (dir = RXE_TO_MR_OBJ; dir <= RXE_FROM_MR_OBJ; dir++) {
			KUNIT_EXPECT_EQ(test, -EINVAL,
					rxe_mr_copy(&mem->mr,
						    iova_of(mem, outside[i].at),
						    mem->local,
						    outside[i].length, dir));
			/* Length 0 is no access. */
			KUNIT_EXPECT_EQ(test, 0,
					rxe_mr_copy(&mem->mr,
						    iova_of(mem, outside[i].at),
						    mem->local, 0, dir));
		}
	}
	KUNIT_EXPECT_NULL(test, memchr_inv(mem->local, 0xa5, BLOCK_BYTES));
	check_all(test, mem);
}

/* Atomic operations and writes */

#define RANGE_ERR RESPST_ERR_RKEY_VIOLATION
#define ALIGN_ERR RESPST_ERR_MISALIGNED_ATOMIC

/* At the ends of the region, and on both sides of its page borders */
static const u64 atomic_at[] = {
	0, 8, PAGE_SIZE - START - 8, PAGE_SIZE - START,
	2 * PAGE_SIZE - START - 8, 2 * PAGE_SIZE - START, LENGTH - 8,
};

static u64 model_load(struct mem *mem, u64 at)
{
	u64 value;

	memcpy(&value, mem->model + position(mem, at), sizeof(value));
	return value;
}

static void model_store(struct mem *mem, u64 at, u64 value)
{
	memcpy(mem->model + position(mem, at), &value, sizeof(value));
}

/* As the responder does it */
static int atomic_op(struct mem *mem, u64 at, int opcode, u64 compare,
		     u64 swap_add, u64 *orig)
{
	u64 iova = iova_of(mem, at);

	if (is_odp_mr(&mem->mr))
		return rxe_odp_atomic_op(&mem->mr, iova, opcode, compare,
					 swap_add, orig);
	return rxe_mr_do_atomic_op(&mem->mr, iova, opcode, compare, swap_add,
				   orig);
}

static int atomic_write(struct mem *mem, u64 at, u64 value)
{
	u64 iova = iova_of(mem, at);

	return is_odp_mr(&mem->mr) ?
		rxe_odp_do_atomic_write(&mem->mr, iova, value) :
		rxe_mr_do_atomic_write(&mem->mr, iova, value);
}

/* Do an operation at @at whose result must be @value. */
static void check_atomic(struct kunit *test, struct mem *mem, u64 at,
			 int opcode, u64 compare, u64 swap_add, u64 value)
{
	u64 before = model_load(mem, at), orig = ~before;

	model_store(mem, at, value);
	KUNIT_EXPECT_EQ(test, 0,
			atomic_op(mem, at, opcode, compare, swap_add, &orig));
	KUNIT_EXPECT_EQ(test, orig, before);
	KUNIT_EXPECT_TRUE_MSG(test, as_model(mem, at, 8), "at %llu", at);
}

static void test_atomic_changes_its_eight_bytes(struct kunit *test)
{
	const u64 value = 0x0123456789abcdefULL, add = 0xff00000000000001ULL;
	struct mem *mem = new_mem(test);
	u64 at, old;
	int i;

	for (i = 0; i < ARRAY_SIZE(atomic_at); i++) {
		at = atomic_at[i];
		old = model_load(mem, at);
		check_atomic(test, mem, at, IB_OPCODE_RC_COMPARE_SWAP, old ^ 1, value, old);
		check_atomic(test, mem, at, IB_OPCODE_RC_COMPARE_SWAP,
			     old ^ BIT_ULL(63), value, old);
		check_atomic(test, mem, at, IB_OPCODE_RC_COMPARE_SWAP, old, value, value);
		check_atomic(test, mem, at, IB_OPCODE_RC_FETCH_ADD, 0, add, value + add);
		/* The sum wraps. The value to compare with is ignored. */
		check_atomic(test, mem, at, IB_OPCODE_RC_FETCH_ADD, value + add,
			     -value - add, 0);
	}
	check_all(test, mem);
}

static void test_atomic_write_stores_eight_bytes(struct kunit *test)
{
	struct mem *mem = new_mem(test);
	u64 value = 0x0123456789abcdefULL;
	int i;

	for (i = 0; i < ARRAY_SIZE(atomic_at); i++) {
		value = rol64(value, 8);
		model_store(mem, atomic_at[i], value);
		KUNIT_EXPECT_EQ(test, 0,
				atomic_write(mem, atomic_at[i], value));
	}
	check_all(test, mem);
}

static void check_atomic_refused(struct kunit *test, struct mem *mem, u64 at, int err)
{
	u64 orig;

	KUNIT_EXPECT_EQ(test, err, atomic_op(mem, at, IB_OPCODE_RC_FETCH_ADD,
					     0, 1, &orig));
	KUNIT_EXPECT_EQ(test, err, atomic_op(mem, at, IB_OPCODE_RC_COMPARE_SWAP,
					     0, 1, &orig));
	/* The responder looks at the state before an atomic write. */
	if (mem->mr.state == RXE_MR_STATE_VALID)
		KUNIT_EXPECT_EQ(test, err, atomic_write(mem, at, 1));
}

static void test_invalid_atomic_is_refused(struct kunit *test)
{
	struct mem *mem = new_mem(test);
	int i;

	for (i = 1; i < 8; i++) {
		check_atomic_refused(test, mem, i, ALIGN_ERR);
		check_atomic_refused(test, mem, LENGTH - 16 + i, ALIGN_ERR);
	}

	if (!mem->kind->dma) {
		for (i = 0; i < 8; i++)
			check_atomic_refused(test, mem, LENGTH - i, RANGE_ERR);
		check_atomic_refused(test, mem, -8ULL, RANGE_ERR);
		check_atomic_refused(test, mem, -mem->mr.ibmr.iova - 8, RANGE_ERR);
	}

	mem->mr.state = RXE_MR_STATE_FREE;
	check_atomic_refused(test, mem, 0, RANGE_ERR);
	check_all(test, mem);
}

/* A missing page, as in a fast MR with too few pages */
static void test_missing_page_is_refused(struct kunit *test)
{
	struct mem *mem = new_mem(test);
	u64 at = PAGE_SIZE - START;

	mem->mr.mem->page_info[1].page = NULL;
	KUNIT_EXPECT_EQ(test, -EFAULT, rxe_mr_copy(&mem->mr, iova_of(mem, at),
						   mem->local, 8, RXE_TO_MR_OBJ));
	check_atomic_refused(test, mem, at, RANGE_ERR);
	copy_both(test, mem, at - 8, 0, 8);
	copy_both(test, mem, at + PAGE_SIZE, 0, 8);
	check_all(test, mem);
}

static struct kunit_case rxe_mr_cases[] = {
	KUNIT_CASE_PARAM(test_range_must_lie_in_the_mr, range_gen_params),
	KUNIT_CASE_PARAM(test_iova_maps_to_its_page_and_offset, index_gen_params),
	KUNIT_CASE_PARAM(test_copy_works_at_every_alignment, kind_gen_params),
	KUNIT_CASE_PARAM(test_copy_crosses_a_page_border, kind_gen_params),
	KUNIT_CASE_PARAM(test_long_copy_moves_every_byte, kind_gen_params),
	KUNIT_CASE_PARAM(test_copy_outside_the_mr_is_einval, user_gen_params),
	KUNIT_CASE_PARAM(test_atomic_changes_its_eight_bytes, kind_gen_params),
	KUNIT_CASE_PARAM(test_atomic_write_stores_eight_bytes, kind_gen_params),
	KUNIT_CASE_PARAM(test_invalid_atomic_is_refused, kind_gen_params),
	KUNIT_CASE_PARAM(test_missing_page_is_refused, pages_gen_params),
	{}
};

static struct kunit_suite rxe_mr_suite = {
	.name = "rxe_mr",
	.test_cases = rxe_mr_cases,
};

kunit_test_suite(rxe_mr_suite);
