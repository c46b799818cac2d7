// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Fast registration: the UMRs that mlx5_ib's wr.c makes of a ULP's IB_WR_REG_MR and
 * IB_WR_LOCAL_INV, posted to an RC queue pair of the kernel.
 */
#include "umr_world.h"
#include "umr.h"

/* IB_WR_REG_MR of a ULP, as mlx5_ib makes it of the MR (wr.c, set_reg_wr()). */
struct reg_mr {
	uint32_t key;
	u8 mode, log_page, rights;	/* rights as the kernel's MLX5_PERM_* */
	uint64_t iova, length;
	unsigned int descs, desc_size;
	uint64_t list[16];		/* inline */
	uint64_t map;			/* or its address, under the key LKEY */
	uint32_t lkey;
};

enum { PERM_UMR_EN = 1 << 7, PERM_ATOMIC = 1 << 6, PERM_REMOTE_WRITE = 1 << 5,
       PERM_REMOTE_READ = 1 << 4, PERM_LOCAL_WRITE = 1 << 3, PERM_LOCAL_READ = 1 << 2 };
#define REMOTE_INVAL BIT(24)		/* of flags_pd */
#define M_FRWR (M_LEN | M_PAGE | M_START | M_RINVAL | M_KEY | M_LR | M_LW | M_RR | M_RW | \
		M_SMALL_FENCE | M_FREE)

static struct mlx5_wqe_mkey_context_seg *context_in_wqe(void)
{
	return (void *)(wqe + 64);
}

static int reg_mr(const struct mkey_access *by, const struct reg_mr *r)
{
	struct mlx5_wqe_mkey_context_seg *seg = context_in_wqe();
	unsigned int bytes = r->descs * r->desc_size, octowords = (bytes + 63) / 64 * 4, i;
	size_t len = 128;

	/* A queue is not clean: what the driver does not write is of an older WQE. */
	memset(wqe, 0xee, sizeof(wqe));
	memset(wqe + 16, 0, 128 - 16);
	wqe[16] = MUST_BE_FREE | (r->map ? 0 : INLINE);
	put_be16(wqe + 20, octowords);
	put_be64(wqe + 24, M_FRWR | (r->rights & PERM_ATOMIC ? M_A : 0));
	seg->access_flags = r->rights | PERM_UMR_EN | r->mode;
	seg->qpn_mkey = htobe32((r->key & 0xff) | 0xffffff00);
	seg->flags_pd = htobe32(REMOTE_INVAL);
	seg->start_addr = htobe64(r->iova);
	seg->len = htobe64(r->length);
	seg->translations_octword_size = htobe32(octowords);
	seg->log_page_size = r->log_page;
	if (r->map) {
		put_be32(wqe + 128, (bytes + 63) / 64 * 64);
		put_be32(wqe + 132, r->lkey);
		put_be64(wqe + 136, r->map);
		len += 16;
	} else {
		for (i = 0; i < bytes / 8; i++)
			put_be64(wqe + 128 + 8 * i, r->list[i]);
		len += 64;		/* a whole block */
	}
	return umr_run(&hca, by, wqe, len, r->key);
}

/* IB_WR_LOCAL_INV: set_linv_wr(). */
static int local_inv(const struct mkey_access *by, uint32_t key)
{
	memset(wqe, 0, sizeof(wqe));
	wqe[16] = INLINE;
	put_be64(wqe + 24, M_FREE);
	context_in_wqe()->free = MLX5_WQE_MKEY_CONTEXT_FREE;
	return umr_run(&hca, by, wqe, 128, key);
}

/* ib_alloc_mr(): of a PD, free, with no rights but to read, and no list yet. */
static uint32_t alloc_mr(unsigned int mode, unsigned int descs)
{
	return create((struct spec){ mode, .log_page = mode == MTT ? 12 : 0, .octowords = descs,
				     .free = true, .umr = true, .rights = LR });
}

static void assert_access(uint32_t key, u8 rights, uint64_t va, size_t len, enum mkey_result want)
{
	const struct mkey_access a = { .key = key, .pd = PD, .qpn = QPN, .rights = rights };

	assert_int_equal(mkey_present(&hca, &a, va, len, NULL), want);
}

static void mkey_is_registered_and_invalidated_again(void **state)
{
	const u8 all = PERM_REMOTE_WRITE | PERM_REMOTE_READ | PERM_LOCAL_WRITE | PERM_LOCAL_READ;
	uint32_t k = alloc_mr(MTT, 4);
	struct reg_mr r = { k | 1, MTT, 12, all, 0x5800, 0x1900, 3, 8, { A + 3, B + 3, A + 0x2003 } };
	struct mkey_access other = ulp;

	other.pd = PD + 1;
	assert_int_equal(reg_mr(&other, &r), BIND);
	assert_int_equal(reg_mr(&ulp, &r), 0);
	assert_int_equal(mkey_of(k)->pd, PD);
	assert_int_equal(mkey_of(k)->qpn, ANY_QPN);
	assert_access(k | 1, LW | RW, 0x5800, 0x1900, MKEY_OK);
	assert_access(k | 1, LR | RR, 0x5800, 0x1900, MKEY_OK);
	assert_access(k | 1, RR, 0x5800, 0x1901, MKEY_DENIED);
	assert_access(k | 1, AT, 0x5800, 8, MKEY_DENIED);
	assert_access(k | 2, RR, 0x5800, 1, MKEY_DENIED);

	assert_int_equal(reg_mr(&ulp, &r), BIND);	/* it is in use */
	assert_int_equal(local_inv(&other, k | 1), BIND);
	assert_int_equal(local_inv(&ulp, k | 1), 0);
	assert_access(k | 1, LR, 0x5800, 1, MKEY_DENIED);
	/* The next use has the next key; its peer may end it (send with invalidate). */
	r.key = k | 2;
	r.rights = PERM_LOCAL_READ | PERM_REMOTE_READ | PERM_ATOMIC;
	assert_int_equal(reg_mr(&ulp, &r), 0);
	assert_access(k | 2, RR | AT, 0x5800, 8, MKEY_OK);
	assert_access(k | 2, RW, 0x5800, 8, MKEY_DENIED);
	assert_true(mkey_invalidate_remote(&hca, k | 2, PD, QPN));
	assert_access(k | 2, RR, 0x5800, 1, MKEY_DENIED);
	r.key = k | 3;
	assert_int_equal(reg_mr(&ulp, &r), 0);
}

/* Lists that are longer than 64 bytes are in memory; those with gaps have lengths. */
static void reg_mr_takes_long_lists_and_gaps(void **state)
{
	const u8 all = PERM_REMOTE_WRITE | PERM_REMOTE_READ | PERM_LOCAL_WRITE | PERM_LOCAL_READ;
	uint32_t dma_mr = create((struct spec){ PA, .length64 = true, .rights = LR | LW });
	uint32_t k = alloc_mr(MTT, 12), gaps = alloc_mr(KLM, 4);
	struct reg_mr r = { k | 1, MTT, 12, all, 0, 12 << 12, 12, 8, .map = A + 0x8000,
			    .lkey = dma_mr };
	const struct reg_mr g = { gaps | 1, KLM, 0, all, 0x777, 0x300, 2, 16,
				  { 0x100ull << 32 | dma_mr, A + 5, 0x200ull << 32 | dma_mr, B } };
	uint64_t list[16] = { 0 };

	for (int i = 0; i < 12; i++)
		list[i] = (i % 2 ? A : B) + (i / 2 << 12) + 3;
	list_at(A + 0x8000, list, 8);
	assert_int_equal(reg_mr(&ulp, &r), 0);
	assert_access(k | 1, RR | RW, 0, 12 << 12, MKEY_OK);
	assert_access(k | 1, RR, 1, 12 << 12, MKEY_DENIED);
	assert_int_equal(local_inv(&ulp, k | 1), 0);
	r.lkey = MKEY_RESERVED_LKEY;
	assert_int_equal(reg_mr(&ulp, &r), 0);

	assert_int_equal(reg_mr(&ulp, &g), 0);
	assert_access(gaps | 1, RR | RW, 0x777, 0x300, MKEY_OK);
	assert_access(gaps | 1, RR, 0x776, 1, MKEY_DENIED);
	assert_access(gaps | 1, RR, 0x777, 0x301, MKEY_DENIED);
	assert_int_equal(local_inv(&ulp, gaps | 1), 0);
	assert_access(gaps | 1, RR, 0x777, 1, MKEY_DENIED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(mkey_is_registered_and_invalidated_again),
		CASE(reg_mr_takes_long_lists_and_gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
