// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit tests of user memory that is a file in memory
 *
 * For folios of every order, as a file may have them, the tests compare the
 * pages that ib_memfd_pages() lists with a plain list.  For files of tmpfs they
 * compare what is pinned with the page cache.  Pinned memory is charged to an
 * mm; KUnit gives a test an mm when the test makes a mapping.
 */

#include <linux/mman.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>
#include <uapi/linux/fcntl.h>

#include "umem_fd_test.h"

/* On some machines no page of a file has such an index. */
#define ABOVE_4G (BITS_PER_LONG == 64 ? -ERANGE : -EOVERFLOW)

/* The pages of a chunk */

#define LAYOUT_MAX 6

struct layout {
	const char *name;
	int nr;
	unsigned int orders[LAYOUT_MAX];
	unsigned int step; /* between first pages, and between values of max */
};

static const struct layout layouts[] = {
	{ "one page", 1, { 0 }, 1 },
	{ "single pages", 5, { 0, 0, 0, 0, 0 }, 1 },
	{ "one folio", 1, { 3 }, 1 },
	{ "equal folios", 3, { 2, 2, 2 }, 1 },
	{ "growing folios", 4, { 0, 1, 2, 3 }, 1 },
	{ "shrinking folios", 4, { 3, 2, 1, 0 }, 1 },
	{ "single pages between", 6, { 2, 0, 0, 3, 0, 1 }, 1 },
	{ "more than a chunk", 2, { 9, 1 }, 73 },
};

KUNIT_ARRAY_PARAM_DESC(layout, layouts, name);

struct flat {
	struct folio *folios[LAYOUT_MAX];
	struct page **pages; /* of all the folios */
	unsigned int nr_pages;
	struct page **out; /* has room for one page more */
};

KUNIT_DEFINE_ACTION_WRAPPER(put_folio, folio_put, struct folio *);

static void make_flat(struct kunit *test, const struct layout *l, struct flat *flat)
{
	unsigned long p;
	int i;

	for (i = 0; i < l->nr; i++)
		flat->nr_pages += 1 << l->orders[i];
	flat->pages = kunit_kcalloc(test, flat->nr_pages, sizeof(*flat->pages),
				    GFP_KERNEL);
	flat->out = kunit_kcalloc(test, flat->nr_pages + 1, sizeof(*flat->out),
				  GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, flat->pages);
	KUNIT_ASSERT_NOT_NULL(test, flat->out);

	flat->nr_pages = 0;
	for (i = 0; i < l->nr; i++) {
		flat->folios[i] = folio_alloc(GFP_KERNEL, l->orders[i]);
		KUNIT_ASSERT_NOT_NULL(test, flat->folios[i]);
		KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, put_folio,
								   flat->folios[i]));
		for (p = 0; p < 1UL << l->orders[i]; p++)
			flat->pages[flat->nr_pages++] = folio_page(flat->folios[i], p);
	}
}

static void check_pages(struct kunit *test, const struct layout *l,
			struct flat *flat, unsigned int first, unsigned int max)
{
	/* any byte of the page */
	pgoff_t offset = first * PAGE_SIZE + (first + max) % PAGE_SIZE;
	unsigned int want = min(max, flat->nr_pages - first);
	unsigned int n;

	memset(flat->out, 0, (flat->nr_pages + 1) * sizeof(*flat->out));
	n = ib_memfd_pages(flat->folios, l->nr, offset, max, flat->out);
	KUNIT_ASSERT_EQ_MSG(test, n, want, "first %u max %u", first, max);
	KUNIT_ASSERT_TRUE_MSG(test, !memcmp(flat->out, flat->pages + first,
					    want * sizeof(*flat->out)),
			      "first %u max %u", first, max);
	KUNIT_ASSERT_NULL_MSG(test, flat->out[want], "first %u max %u", first, max);
}

static void test_pages_are_those_of_the_folios(struct kunit *test)
{
	const struct layout *l = test->param_value;
	struct flat *flat = kunit_kzalloc(test, sizeof(*flat), GFP_KERNEL);
	unsigned int first, max;

	KUNIT_ASSERT_NOT_NULL(test, flat);
	make_flat(test, l, flat);

	for (first = 0; first < 1 << l->orders[0]; first += l->step) {
		for (max = 0; max <= flat->nr_pages + 1; max += l->step)
			check_pages(test, l, flat, first, max);
		check_pages(test, l, flat, first, flat->nr_pages - first);
		check_pages(test, l, flat, first, flat->nr_pages - first - 1);
	}
}

/* Files */

/* Bytes that umem_memfd.c pins at a time */
#define CHUNK (PAGE_SIZE / sizeof(struct page *) * PAGE_SIZE)
#define FILE_SIZE (2 * CHUNK + 3 * PAGE_SIZE)

/* Give the test an mm: a process that registers memory has one. */
static void attach_mm(struct kunit *test)
{
	unsigned long addr;

	addr = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NE(test, addr, 0);
	KUNIT_ASSERT_NOT_NULL(test, current->mm);
}

struct file_case {
	const char *name;
	u64 offset;
	u64 length;
	unsigned int access;
	unsigned int seals;
	int flags; /* of the fd */
	int err;
};

#define WR IB_ACCESS_LOCAL_WRITE
#define RD IB_ACCESS_REMOTE_READ

static const struct file_case file_cases[] = {
	{ "one byte", 0, 1, WR, 0, O_RDWR },
	{ "last byte", FILE_SIZE - 1, 1, WR, 0, O_RDWR },
	{ "two bytes of two pages", PAGE_SIZE - 1, 2, WR, 0, O_RDWR },
	{ "to the end of a page", 1, PAGE_SIZE - 1, WR, 0, O_RDWR },
	{ "a chunk", 0, CHUNK, WR, 0, O_RDWR },
	{ "a chunk and a byte", 0, CHUNK + 1, WR, 0, O_RDWR },
	{ "a chunk from within a page", 7, CHUNK, WR, 0, O_RDWR },
	{ "a chunk less a byte, from within", 8, CHUNK - 1, RD, 0, O_RDWR },
	{ "whole", 0, FILE_SIZE, WR, 0, O_RDWR },
	{ "whole, read-only", 0, FILE_SIZE, RD, 0, O_RDONLY },
	{ "one byte past the end", 0, FILE_SIZE + 1, WR, 0, O_RDWR, -ERANGE },
	{ "one byte at the end", FILE_SIZE, 1, WR, 0, O_RDWR, -ERANGE },
	{ "past the largest file", BIT_ULL(63), 1, WR, 0, O_RDWR, ABOVE_4G },
	{ "near 2^64", TOP_PAGE, 1, WR, 0, O_RDWR, ABOVE_4G },
	{ "read-only to write", 0, 1, WR, 0, O_RDONLY, -EACCES },
	{ "write-only to read", 0, 1, RD, 0, O_WRONLY, -EACCES },
	{ "sealed", 0, 1, WR, F_SEAL_WRITE, O_RDWR, -EPERM },
	{ "sealed for the future", 0, 1, WR, F_SEAL_FUTURE_WRITE, O_RDWR, -EPERM },
	{ "sealed, to read", 0, 1, RD, F_SEAL_WRITE, O_RDWR },
	{ "on demand", 0, 1, IB_ACCESS_ON_DEMAND, 0, O_RDWR, -EOPNOTSUPP },
	{ "size sealed", 0, 1, WR, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL, O_RDWR },
	{ "relaxed ordering", 0, 1, WR | IB_ACCESS_RELAXED_ORDERING, 0, O_RDWR },
};

KUNIT_ARRAY_PARAM_DESC(file, file_cases, name);

/* A second struct file of the same file, as open("/proc/self/fd/N") makes */
static struct file *reopen(struct kunit *test, struct file *file, int flags)
{
	struct file *other = dentry_open(&file->f_path, flags, current_cred());

	fput(file);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, other);
	return other;
}

static unsigned int check_file_pages(struct kunit *test, struct ib_umem *umem,
				     struct address_space *mapping)
{
	pgoff_t index = umem->address >> PAGE_SHIFT;
	struct sg_page_iter iter;
	unsigned int n = 0;
	struct page *page;

	for_each_sgtable_page(&umem->sgt_append.sgt, &iter, 0) {
		page = shmem_read_mapping_page(mapping, index + n++);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, page);
		put_page(page);
		KUNIT_ASSERT_PTR_EQ_MSG(test, page, sg_page_iter_page(&iter),
					"page %u", n - 1);
		KUNIT_ASSERT_TRUE(test, folio_maybe_dma_pinned(page_folio(page)));
	}
	return n;
}

static void check_file_umem(struct kunit *test, const struct file_case *c,
			    struct ib_umem *umem, struct address_space *mapping)
{
	unsigned int pages = DIV_ROUND_UP((c->offset % PAGE_SIZE) + c->length,
					  PAGE_SIZE);

	KUNIT_EXPECT_TRUE(test, umem->is_memfd);
	KUNIT_EXPECT_EQ(test, umem->address, c->offset);
	KUNIT_EXPECT_EQ(test, umem->length, c->length);
	KUNIT_EXPECT_EQ(test, umem->iova, c->offset);
	KUNIT_EXPECT_EQ(test, (bool)umem->writable, ib_access_writable(c->access));
	KUNIT_EXPECT_EQ(test, umem->dma_attrs,
			DMA_ATTR_REQUIRE_COHERENT |
				(c->access & IB_ACCESS_RELAXED_ORDERING ?
					 DMA_ATTR_WEAK_ORDERING : 0));
	KUNIT_EXPECT_EQ(test, check_file_pages(test, umem, mapping), pages);
	KUNIT_EXPECT_EQ(test, atomic64_read(&current->mm->pinned_vm), pages);
}

/* Nothing is pinned, nothing charged, and the file can be sealed. */
static void check_file_free(struct kunit *test, struct address_space *mapping)
{
	struct folio *folio;
	pgoff_t index;

	for (index = 0; index < FILE_SIZE / PAGE_SIZE; index++) {
		folio = filemap_get_folio(mapping, index);
		if (IS_ERR(folio)) /* a hole */
			continue;
		KUNIT_ASSERT_FALSE_MSG(test, folio_maybe_dma_pinned(folio),
				       "page %lu", index);
		folio_put(folio);
	}

	KUNIT_EXPECT_EQ(test, atomic64_read(&current->mm->pinned_vm), 0);
	KUNIT_EXPECT_FALSE(test, mapping_writably_mapped(mapping));
}

static void test_umem_pins_the_pages_of_the_file(struct kunit *test)
{
	const struct file_case *c = test->param_value;
	struct ib_uverbs_buffer_desc desc = {
		.type = IB_UVERBS_BUFFER_TYPE_MEMFD,
		.addr = c->offset,
		.length = c->length,
	};
	struct ib_umem *umem;
	struct file *file;

	attach_mm(test);
	file = shmem_file_setup("kunit", FILE_SIZE,
				mk_vma_flags(VMA_NORESERVE_BIT));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, file);
	SHMEM_I(file_inode(file))->seals = c->seals;
	file = reopen(test, file, c->flags);
	desc.fd = install(test, file);

	umem = get_umem(new_device(test), &desc, c->access);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(umem), c->err);
	if (!IS_ERR(umem)) {
		check_file_umem(test, c, umem, file->f_mapping);
		ib_umem_release(umem);
	}
	check_file_free(test, file->f_mapping);
}

/* The region keeps the pages that a truncation takes from the file. */
static void test_umem_keeps_truncated_pages(struct kunit *test)
{
	struct ib_uverbs_buffer_desc desc = {
		.type = IB_UVERBS_BUFFER_TYPE_MEMFD,
		.length = 2 * PAGE_SIZE,
	};
	struct ib_umem *umem;
	struct page *page;
	struct file *file;

	attach_mm(test);
	file = shmem_file_setup("kunit", 2 * PAGE_SIZE,
				mk_vma_flags(VMA_NORESERVE_BIT));
	desc.fd = install(test, file);
	umem = get_umem(new_device(test), &desc, WR);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, umem);

	page = sg_page(umem->sgt_append.sgt.sgl);
	KUNIT_EXPECT_PTR_EQ(test, page->mapping, file->f_mapping);
	KUNIT_EXPECT_EQ(test, 0, vfs_truncate(&file->f_path, 0));
	KUNIT_EXPECT_NULL(test, page->mapping);
	KUNIT_EXPECT_TRUE(test, folio_maybe_dma_pinned(page_folio(page)));
	KUNIT_EXPECT_EQ(test, get_buffer_err(&desc, 0, WR), -ERANGE);
	ib_umem_release(umem);
	KUNIT_EXPECT_EQ(test, atomic64_read(&current->mm->pinned_vm), 0);
}

/* In a guest with encrypted memory DMA goes through bounce buffers. */
static void test_bouncing_device_is_eopnotsupp(struct kunit *test)
{
	struct ib_uverbs_buffer_desc desc = {
		.type = IB_UVERBS_BUFFER_TYPE_MEMFD,
		.length = 1,
	};
	struct ib_device *device = new_device(test);
	struct file *file;

	attach_mm(test);
	file = shmem_file_setup("kunit", FILE_SIZE,
				mk_vma_flags(VMA_NORESERVE_BIT));
	desc.fd = install(test, file);
	device->cc_dma_bounce = 1;
	KUNIT_EXPECT_EQ(test, PTR_ERR(get_umem(device, &desc, WR)), -EOPNOTSUPP);
	check_file_free(test, file->f_mapping);
}

static struct kunit_case umem_memfd_cases[] = {
	KUNIT_CASE_PARAM(test_pages_are_those_of_the_folios, layout_gen_params),
	KUNIT_CASE_PARAM(test_umem_pins_the_pages_of_the_file, file_gen_params),
	KUNIT_CASE(test_umem_keeps_truncated_pages),
	KUNIT_CASE(test_bouncing_device_is_eopnotsupp),
	{}
};

static struct kunit_suite umem_memfd_suite = {
	.name = "ib_umem_memfd",
	.test_cases = umem_memfd_cases,
};

kunit_test_suite(umem_memfd_suite);
