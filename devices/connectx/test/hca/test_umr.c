// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * UMR work requests: flags, mask, lists, who may use them, and that a refused one changes
 * nothing.
 */
#include "umr_world.h"
#include "umr.h"

struct request {
	u8 flags;
	unsigned int octowords;		/* of the list that is said to be there */
	uint64_t offset, mask;
	struct spec mkc;
	/* Not inline: */
	uint32_t lkey, bytes;
	uint64_t addr;
	unsigned int given;		/* octowords in the WQE, if inline */
	size_t cut;			/* bytes that the WQE is short of */
};

static int post(const struct mkey_access *by, uint32_t key, const struct request *r,
		const uint64_t *list)
{
	size_t len = 128;
	unsigned int i;

	memset(wqe, 0, sizeof(wqe));
	wqe[16] = r->flags;
	put_be16(wqe + 20, r->octowords);
	put_be16(wqe + 22, r->offset);
	put_be64(wqe + 24, r->mask);
	put_be32(wqe + 32, r->offset >> 16);
	spec_fill(&r->mkc);
	memcpy(wqe + 64, in + 16, 64);
	if (r->flags & INLINE) {
		for (i = 0; i < 2 * r->given; i++)
			put_be64(wqe + 128 + 8 * i, list[i]);
		len += 16 * r->given;
	} else if (r->octowords) {
		put_be32(wqe + 128, r->bytes);
		put_be32(wqe + 132, r->lkey);
		put_be64(wqe + 136, r->addr);
		len += 16;
	}
	return umr_run(&hca, by, wqe, len - r->cut, key);
}

/* mlx5_ib: a key of a pool becomes an MR, is changed, and goes back. */
static void umr_registers_changes_and_revokes_an_mr(void **state)
{
	static const uint64_t list[8] = { A + 3, B + 3, A + 0x2003 };
	uint32_t k = create((struct spec){ MTT, .log_page = 12, .octowords = 2, .pd = 1,
					   .umr = true, .free = true });
	struct request enable = { MUST_BE_FREE, 4, 0, M_ENABLE,
				  { MTT, 0x5800, 0x2000, 12, LR | LW | RW, .variant = 0x31 },
				  dma_key, 64, A + 0x10000 };
	const struct request revoke = { INLINE, 0, 0, M_PD | M_FREE,
					{ .free = true, .pd = 1, .variant = 0x31 } };
	const struct request rereg = { INLINE | MUST_NOT_BE_FREE, 0, 0,
				       M_PD | M_LR | M_LW | M_RR | M_RW | M_A,
				       { .pd = PD + 1, .rights = LR } };
	struct mkey_access a = { .pd = PD, .qpn = QPN, .rights = RW };
	u8 byte = 0;

	list_at(A + 0x10000, list, 4);
	assert_int_equal(post(&kernel, k, &enable, NULL), 0);
	a.key = k | 0x31;
	assert_int_equal(mkey_write(&hca, &a, 0x5800 + 0x7ff, &byte, 1, NULL), MKEY_OK);
	assert_int_equal(*at(A + 0xfff), 0);
	assert_int_equal(mkey_write(&hca, &a, 0x5800 + 0x800, &byte, 1, NULL), MKEY_OK);
	assert_int_equal(*at(B), 0);
	assert_int_equal(mkey_check(&hca, &a, 0x5800, 0x2001), MKEY_DENIED);

	assert_int_equal(post(&kernel, k, &rereg, NULL), 0);
	assert_int_equal(mkey_check(&hca, &a, 0x5800, 1), MKEY_DENIED);
	a.pd = PD + 1;
	assert_int_equal(mkey_check(&hca, &a, 0x5800, 1), MKEY_DENIED);
	a.rights = LR;
	assert_int_equal(mkey_check(&hca, &a, 0x5800, 1), MKEY_OK);

	assert_int_equal(post(&kernel, k, &enable, NULL), BIND);	/* is not free */
	assert_int_equal(post(&kernel, k, &revoke, NULL), 0);
	assert_int_equal(mkey_check(&hca, &a, 0x5800, 1), MKEY_DENIED);
	assert_int_equal(post(&kernel, k, &rereg, NULL), BIND);		/* is free */
	enable.mkc.length = 0;
	enable.mkc.length64 = true;
	assert_int_equal(post(&kernel, k, &enable, NULL), 0);
	assert_true(mkey_of(k)->length64);
}

/* Each bit of the mask takes its fields from the WQE, and no other. */
static void mask_bit_changes_its_fields_only(void **state)
{
	static const struct {
		const char *name;
		unsigned int bit;
		struct { size_t bit, width; } f[3];
	} known[] = {
#define F(field) { IFC_BIT(mkc, field), IFC_WIDTH(mkc, field) }
		{ "length", 0, { F(len), F(length64) } },
		{ "page size", 1, { F(log_page_size) } },
		{ "start", 6, { F(start_addr) } },
		{ "pd", 7, { F(pd) } },
		{ "remote invalidate", 8, { F(en_rinval) } },
		{ "key", 13, { F(mkey_7_0) } },
		{ "qpn", 14, { F(qpn) } },
		{ "local read", 17, { F(lr) } },
		{ "local write", 18, { F(lw) } },
		{ "remote read", 19, { F(rr) } },
		{ "remote write", 20, { F(rw) } },
		{ "atomic", 21, { F(a) } },
		{ "small fence", 23, { F(small_fence_on_rdma_read_response) } },
		{ "relaxed ordering, write", 25, { F(relaxed_ordering_write) } },
		{ "free", 29, { F(free) } },
		{ "relaxed ordering, read", 47, { F(relaxed_ordering_read) } },
	};
	unsigned int bit, i, j, n;
	u8 before[64], after[64];

	for (bit = 0; bit < 64; bit++) {
		uint32_t k = create((struct spec){ KLM, .umr = true, .rights = ALL, .pd = 1 });
		const struct request r = { INLINE, .mask = BIT_ULL(bit) };
		int ret;

		mkey_context(mkey_of(k), before);
		post(&kernel, k, &r, NULL);
		/* Everything is different from what the key has. */
		for (i = 0; i < 64; i++)
			wqe[64 + i] = ~before[i];
		IFC_SET(mkc, wqe + 64, pd, 2);
		ret = umr_run(&hca, &kernel, wqe, 128, k);
		mkey_context(mkey_of(k), after);
		for (i = 0; i < sizeof(known) / sizeof(known[0]) && known[i].bit != bit; i++)
			;
		if (i == sizeof(known) / sizeof(known[0])) {
			assert_int_equal(ret, QP_OP);
			assert_memory_equal(after, before, 64);
			continue;
		}
		print_message("  %s\n", known[i].name);
		assert_int_equal(ret, 0);
		for (j = 0; j < 3; j++)
			for (n = 0; n < known[i].f[j].width; n++) {
				size_t at_bit = known[i].f[j].bit + n;

				before[at_bit / 8] &= ~(0x80 >> at_bit % 8);
				before[at_bit / 8] |= wqe[64 + at_bit / 8] & 0x80 >> at_bit % 8;
			}
		assert_memory_equal(after, before, 64);
	}
}

/* The parsed fields are those of the context. */
static void umr_fields_reach_the_mkey(void **state)
{
	uint32_t k = create((struct spec){ KSM, .umr = true, .free = true, .rights = LR, .pd = 1 });
	const struct request r = { INLINE, .mask = M_ENABLE | M_QPN | M_RINVAL,
				   .mkc = { KSM, 0x123456789abcd, 0xfedcba987654, 30, ALL, PD, QPN,
					    .rinval = true, .variant = 0x7f, .length64 = true } };
	struct mkey *m = mkey_of(k);

	assert_int_equal(post(&kernel, k, &r, NULL), 0);
	assert_int_equal(m->start, 0x123456789abcd);
	assert_int_equal(m->length, 0xfedcba987654);
	assert_int_equal(m->log_page, 30);
	assert_int_equal(m->rights, ALL);
	assert_int_equal(m->pd, PD);
	assert_int_equal(m->qpn, QPN);
	assert_int_equal(m->key, 0x7f);
	assert_true(m->length64 && m->remote_invalidate && !m->free && m->umr_enabled);
}

/*
 * Lists: a key of 6 octowords, 12 pages; the numbers of the list are 100, 101, ...
 * WANT: the first entry that is written, and how many.
 */
static void umr_list_lands_at_its_offset(void **state)
{
	static const struct {
		const char *name;
		struct request r;
		unsigned int at, count;
		int want;
	} t[] = {
		{ "inline", { INLINE, 4, .given = 4 }, 0, 8, 0 },
		{ "inline, offset", { INLINE | OFFSET, 1, 2, .given = 1 }, 4, 2, 0 },
		{ "inline, WQE is longer", { INLINE, 2, .given = 4 }, 0, 4, 0 },
		{ "inline, WQE is too short", { INLINE, 4, .given = 3 }, 0, 0, QP_OP },
		{ "longer by the rounding", { INLINE, 8, .given = 8 }, 0, 12, 0 },
		{ "longer than that", { INLINE, 9, .given = 9 }, 0, 0, QP_OP },
		{ "offset and rounding", { INLINE | OFFSET, 4, 4, .given = 4 }, 8, 4, 0 },
		{ "offset in the rounding", { INLINE | OFFSET, 1, 7, .given = 1 }, 0, 0, 0 },
		{ "offset at the end", { INLINE | OFFSET, 1, 8, .given = 1 }, 0, 0, QP_OP },
		{ "offset beyond", { INLINE | OFFSET, 1, 9, .given = 1 }, 0, 0, QP_OP },
		{ "extended offset", { INLINE | OFFSET, 1, 0x10000, .given = 1 }, 0, 0, QP_OP },
		{ "largest offset", { INLINE | OFFSET, 1, 0xffffffffffff, .given = 1 }, 0, 0,
		  QP_OP },
		{ "offset without the flag", { INLINE, 1, 1, .given = 1 }, 0, 0, QP_OP },
		{ "memory", { 0, 4, .lkey = 1, .bytes = 64, .addr = A + 8 }, 0, 8, 0 },
		{ "memory, over a page", { 0, 4, .lkey = 1, .bytes = 64, .addr = A + 0xff0 },
		  0, 8, 0 },
		{ "memory, more bytes", { 0, 2, .lkey = 1, .bytes = 64, .addr = A }, 0, 4, 0 },
		{ "memory, too few bytes", { 0, 4, .lkey = 1, .bytes = 63, .addr = A },
		  0, 0, QP_OP },
		{ "memory, inline segment", { 0, 4, .lkey = 1, .bytes = 64 | 1u << 31, .addr = A },
		  0, 0, QP_OP },
		{ "memory, not there", { 0, 4, .lkey = 1, .bytes = 64, .addr = A + SIZE - 48 },
		  0, 0, PROT },
		{ "memory, bad key", { 0, 4, .lkey = 2, .bytes = 64, .addr = A }, 0, 0, PROT },
		{ "memory, no segment", { 0, 4, .lkey = 1, .bytes = 64, .addr = A, .cut = 16 },
		  0, 0, QP_OP },
		{ "no mkey segment", { INLINE, .cut = 16 }, 0, 0, QP_OP },
		{ "nothing but control", { INLINE, .cut = 112 }, 0, 0, QP_OP },
		{ "both checks", { INLINE | MUST_BE_FREE | MUST_NOT_BE_FREE }, 0, 0, QP_OP },
		{ "unknown flag", { INLINE | 1 }, 0, 0, QP_OP },
	};
	uint64_t list[32];
	unsigned int i, j;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint32_t k = create((struct spec){ MTT, .log_page = 12, .octowords = 6, .pd = 1,
						   .umr = true });
		struct request r = t[i].r;

		print_message("  %s\n", t[i].name);
		for (j = 0; j < 32; j++)
			list[j] = 100 + j;
		if (r.lkey && t[i].want != PROT)
			list_at(r.addr, list, 4);
		r.lkey = r.lkey == 1 ? dma_key : dma_key + r.lkey;
		assert_int_equal(post(&kernel, k, &r, list), t[i].want);
		for (j = 0; j < 12; j++) {
			bool in_list = j >= t[i].at && j < t[i].at + t[i].count;

			assert_int_equal(be64_at(mkey_of(k)->translation + 8 * j),
					 in_list ? 100 + j - t[i].at : 0);
		}
	}
}

/* A large offset, as for the implicit MR of a whole address space. */
static void extended_offset_reaches_the_last_entry(void **state)
{
	static const uint64_t list[] = { 30, 40, 50, 60, 70, 80, 90, 100 };
	uint32_t k = create((struct spec){ KSM, .octowords = 131072, .pd = 1, .umr = true });
	const struct request r = { INLINE | OFFSET, 4, 131068, .given = 4 };

	assert_int_equal(post(&kernel, k, &r, list), 0);
	assert_int_equal(be64_at(mkey_of(k)->translation + 16 * 131071 + 8), 100);
	assert_int_equal(be64_at(mkey_of(k)->translation + 16 * 131068), 30);
	assert_int_equal(be64_at(mkey_of(k)->translation + 16 * 131067 + 8), 0);
}

/* Who may change what, and in which state; what is refused leaves the key as it was. */
static void forbidden_umr_changes_nothing(void **state)
{
	static const struct {
		const char *name;
		enum { USER, ULP, UMR } who;
		struct spec key;
		struct request r;
		int want;
	} t[] = {
		{ "own list", USER, { KLM }, { INLINE, 4, .given = 4 }, 0 },
		{ "own list of equal blocks", USER, { KSM }, { INLINE, 4, .given = 4 }, 0 },
		{ "own pages", USER, { MTT }, { INLINE, 4, .given = 4 }, BIND },
		{ "own pages, free", USER, { MTT }, { INLINE, .mask = M_FREE }, BIND },
		{ "own pages, rights", USER, { MTT }, { INLINE, .mask = M_LW | M_RW }, BIND },
		{ "own pages, length", USER, { MTT }, { INLINE, .mask = M_LEN }, BIND },
		{ "own PA", USER, { PA }, { INLINE, .mask = M_FREE }, BIND },
		{ "list of another PD", USER, { KLM, .pd = PD + 1 },
		  { INLINE, .mask = M_FREE }, BIND },
		{ "PD", USER, { KLM }, { INLINE, .mask = M_PD, .mkc.pd = 1 }, BIND },
		{ "the same PD", USER, { KLM }, { INLINE, .mask = M_PD, .mkc.pd = PD }, BIND },
		{ "remote invalidate", USER, { KLM }, { INLINE, .mask = M_RINVAL }, BIND },
		{ "bind to itself", USER, { KLM }, { INLINE, .mask = M_QPN, .mkc.qpn = QPN }, 0 },
		{ "bind to any", USER, { KLM }, { INLINE, .mask = M_QPN }, 0 },
		{ "bind to another", USER, { KLM },
		  { INLINE, .mask = M_QPN, .mkc.qpn = 5 }, BIND },
		{ "UMR QP, key of any PD", UMR, { MTT, .pd = 9 }, { INLINE, .mask = M_FREE }, 0 },
		{ "UMR QP, other PD", UMR, { MTT }, { INLINE, .mask = M_PD, .mkc.pd = 7 }, 0 },
		{ "UMR QP, no such PD", UMR, { MTT },
		  { INLINE, .mask = M_PD, .mkc.pd = 17 }, BIND },
		{ "UMR QP, bind to another", UMR, { KLM },
		  { INLINE, .mask = M_QPN, .mkc.qpn = 5 }, 0 },
		{ "ULP, pages", ULP, { MTT },
		  { INLINE, 4, .given = 4, .mask = M_RINVAL | M_FREE }, 0 },
		{ "ULP, other PD", ULP, { MTT, .pd = PD + 1 }, { INLINE, .mask = M_FREE }, BIND },
		{ "ULP, the PD", ULP, { MTT }, { INLINE, .mask = M_PD }, BIND },
		{ "UMR is off", UMR, { MTT, .umr = true }, { INLINE, .mask = M_FREE }, BIND },
		{ "free, has to be", UMR, { MTT, .free = true }, { INLINE | MUST_BE_FREE }, 0 },
		{ "free, must not be", UMR, { MTT, .free = true }, { INLINE | MUST_NOT_BE_FREE },
		  BIND },
		{ "not free, has to be", UMR, { MTT }, { INLINE | MUST_BE_FREE }, BIND },
		{ "not free, must not be", UMR, { MTT }, { INLINE | MUST_NOT_BE_FREE }, 0 },
		{ "QPN, any", USER, { KLM }, { INLINE | CHECK_QPN }, 0 },
		{ "QPN, its own", USER, { KLM, .qpn = QPN }, { INLINE | CHECK_QPN }, 0 },
		{ "QPN, another", USER, { KLM, .qpn = QPN + 1 }, { INLINE | CHECK_QPN }, BIND },
		{ "list wrong, fields right", USER, { KLM },
		  { INLINE, 9, .given = 9, .mask = M_LEN | M_FREE }, QP_OP },
		{ "list not there, fields right", UMR, { KLM },
		  { 0, 4, .lkey = 0x9900, .bytes = 64, .mask = M_LEN | M_FREE }, PROT },
		{ "list right, field wrong", USER, { KLM },
		  { INLINE, 4, .given = 4, .mask = M_LEN | BIT_ULL(12) }, QP_OP },
	};
	static struct mkey_access *const who[] = { &user, &ulp, &kernel };
	static const uint64_t list[18] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	unsigned int i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct spec s = t[i].key;
		struct mkey before, *m;
		u8 translation[64] = { 0 };
		uint32_t k;

		print_message("  %s\n", t[i].name);
		s.umr = !s.umr;
		s.octowords = 4;
		k = create(s);
		m = mkey_of(k);
		before = *m;
		assert_int_equal(post(who[t[i].who], k, &t[i].r, list), t[i].want);
		if (!t[i].want)
			continue;
		assert_memory_equal(m, &before, sizeof(before));
		assert_memory_equal(m->translation, translation, sizeof(translation));
	}
	assert_int_equal(post(&kernel, 0x7f00, &(struct request){ INLINE }, NULL), BIND);
	assert_int_equal(post(&kernel, MKEY_NULL, &(struct request){ INLINE }, NULL), BIND);
}

#define M_BIND (M_FREE | M_KEY | M_LEN | M_START | M_LW | M_RR | M_RW | M_A)

/* Memory windows as libmlx5 binds them: a list of one entry. */
static void memory_windows_bind_and_invalidate(void **state)
{
	uint32_t mr = create((struct spec){ PA, .length64 = true, .rights = LR | LW });
	uint32_t mw = create((struct spec){ KLM, .octowords = 4, .free = true, .umr = true,
					    .rights = LR, .rinval = true });
	const uint64_t list[8] = { 0x100ull << 32 | mr, A + 0x500 };
	struct request bind = { INLINE | OFFSET, 4, 0, M_BIND,
				{ KLM, A + 0x500, 0x100, .rights = RR, .variant = 1 }, .given = 4 };
	struct request invalidate = { INLINE | OFFSET | CHECK_QPN, 0, 0, M_FREE | M_KEY | M_QPN,
				      { .free = true } };
	struct mkey_access a = { .key = mw | 1, .pd = PD, .qpn = QPN, .rights = RR };
	struct mkey_access other = user;
	u8 byte;

	/* Type 1. */
	assert_int_equal(post(&user, mw, &bind, list), 0);
	assert_int_equal(mkey_read(&hca, &a, A + 0x5ff, &byte, 1, NULL), MKEY_OK);
	assert_int_equal(byte, pattern(A + 0x5ff));
	assert_int_equal(mkey_read(&hca, &a, A + 0x600, &byte, 1, NULL), MKEY_DENIED);
	a.rights = RW;
	assert_int_equal(mkey_write(&hca, &a, A + 0x500, &byte, 1, NULL), MKEY_DENIED);
	a.rights = RR;
	/* Bound again, with another key; then to nothing. */
	bind.mkc.variant = 2;
	assert_int_equal(post(&user, mw | 1, &bind, list), 0);
	assert_int_equal(mkey_check(&hca, &a, A + 0x500, 1), MKEY_DENIED);
	a.key = mw | 2;
	assert_int_equal(mkey_check(&hca, &a, A + 0x500, 1), MKEY_OK);
	assert_int_equal(post(&user, mw, &(struct request){ INLINE | OFFSET, .mask = M_FREE | M_KEY,
							    .mkc = { .free = true, .variant = 3 } },
			      NULL), 0);
	assert_int_equal(mkey_check(&hca, &a, A + 0x500, 1), MKEY_DENIED);

	/* Type 2: bound to the QP, zero based, and only if it is free. */
	bind.flags |= MUST_BE_FREE;
	bind.mask |= M_QPN;
	bind.mkc.qpn = QPN;
	bind.mkc.start = 0;
	bind.mkc.variant = 4;
	assert_int_equal(post(&user, mw, &bind, list), 0);
	a.key = mw | 4;
	assert_int_equal(mkey_read(&hca, &a, 0, &byte, 1, NULL), MKEY_OK);
	assert_int_equal(byte, pattern(A + 0x500));
	a.qpn++;
	assert_int_equal(mkey_check(&hca, &a, 0, 1), MKEY_DENIED);
	a.qpn--;
	assert_int_equal(post(&user, mw, &bind, list), BIND);
	/* Another QP of the PD cannot invalidate it, nor can its peer. */
	other.qpn++;
	assert_int_equal(post(&other, mw, &invalidate, NULL), BIND);
	assert_false(mkey_invalidate_remote(&hca, mw | 4, PD, other.qpn));
	assert_int_equal(post(&user, mw | 4, &invalidate, NULL), 0);
	assert_int_equal(mkey_check(&hca, &a, 0, 1), MKEY_DENIED);
	assert_int_equal(mkey_of(mw)->qpn, ANY_QPN);
	bind.mkc.variant = 5;
	assert_int_equal(post(&user, mw, &bind, list), 0);
	assert_true(mkey_invalidate_remote(&hca, mw | 5, PD, QPN));
	assert_int_equal(post(&user, mw, &bind, list), 0);
}

/* mlx5dv: a list, then an interleaved layout in the same key, then the list again. */
static void mkey_switches_between_list_and_interleaved(void **state)
{
	uint32_t mr = create((struct spec){ PA, .length64 = true, .rights = LR | LW });
	uint32_t k = create((struct spec){ KLM, .octowords = 4, .free = true, .umr = true,
					   .rights = LR });
	const uint64_t list[8] = { 8ull << 32 | mr, A, 8ull << 32 | mr, A + 64 };
	const uint64_t interleaved[8] = { 16ull << 32 | 0x400, 3ull << 32 | 2,
					  10ull << 48 | 8ull << 32 | mr, A,
					  10ull << 48 | 8ull << 32 | mr, A + 64 };
	struct request r = { INLINE, 4, 0, M_FREE | M_KEY | M_LEN | M_LW | M_RR | M_RW | M_A,
			     { KLM, .length = 16, .rights = LW }, .given = 4 };
	const struct mkey_access a = { .key = k, .pd = PD, .qpn = QPN, .rights = LR };
	u8 got[48];
	unsigned int round, i;

	for (round = 0; round < 2; round++) {
		r.mkc.length = 16;
		assert_int_equal(post(&user, k, &r, list), 0);
		assert_int_equal(mkey_read(&hca, &a, 0, got, 16, NULL), MKEY_OK);
		for (i = 0; i < 16; i++)
			assert_int_equal(got[i], pattern(A + i % 8 + i / 8 * 64));
		r.mkc.length = 48;
		assert_int_equal(post(&user, k, &r, interleaved), 0);
		assert_int_equal(mkey_read(&hca, &a, 0, got, 48, NULL), MKEY_OK);
		for (i = 0; i < 48; i++)
			assert_int_equal(got[i], pattern(A + i % 8 + i / 8 % 2 * 64 + i / 16 * 10));
	}
}

/* Part of a list changes, after the whole was used: the positions follow. */
static void partial_list_update_shifts_what_follows(void **state)
{
	uint32_t mr = create((struct spec){ PA, .length64 = true }), i;
	uint32_t k = create((struct spec){ KLM, 0, 0x1000, .octowords = 8, .umr = true });
	const uint64_t entries[2] = { 0x30ull << 32 | mr, A + 0x9000 };
	const struct mkey_access a = { .key = k, .pd = PD, .rights = LR };
	u8 byte;

	for (i = 0; i < 8; i++)
		set_klm(k, i, 0x10, mr, A + 0x1000 * i);
	assert_int_equal(mkey_read(&hca, &a, 0x7f, &byte, 1, NULL), MKEY_OK);
	assert_int_equal(byte, pattern(A + 0x700f));
	assert_int_equal(post(&user, k, &(struct request){ INLINE | OFFSET, 1, 5, .given = 1 },
			      entries), 0);
	assert_int_equal(mkey_read(&hca, &a, 0x5f, &byte, 1, NULL), MKEY_OK);
	assert_int_equal(byte, pattern(A + 0x900f));
	assert_int_equal(mkey_read(&hca, &a, 0x9f, &byte, 1, NULL), MKEY_OK);
	assert_int_equal(byte, pattern(A + 0x700f));
	assert_int_equal(mkey_read(&hca, &a, 0xa0, &byte, 1, NULL), MKEY_DENIED);
}

/* The list is read through the key that it changes: as it was before. */
static void list_may_be_read_through_its_own_key(void **state)
{
	uint32_t mr = create((struct spec){ PA, .length64 = true });
	uint32_t k = create((struct spec){ KLM, 0, 0x100, .octowords = 4, .umr = true });
	const uint64_t list[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	unsigned int i;

	for (i = 0; i < 4; i++)
		set_klm(k, i, 16, mr, A + 16 * i);
	list_at(A, list, 4);
	assert_int_equal(post(&user, k, &(struct request){ 0, 4, .lkey = k, .bytes = 64 }, NULL),
			 0);
	for (i = 0; i < 8; i++)
		assert_int_equal(be64_at(mkey_of(k)->translation + 8 * i), list[i]);
}

/* A user's list may be in memory, but not at a bus address or under a key of another PD. */
static void user_list_needs_a_key_of_its_pd(void **state)
{
	uint32_t mr = create((struct spec){ PA, .length64 = true });
	uint32_t k = create((struct spec){ KLM, 0, 0x100, .octowords = 4, .umr = true });
	struct request r = { 0, 4, .lkey = MKEY_RESERVED_LKEY, .bytes = 64, .addr = A };

	assert_int_equal(post(&user, k, &r, NULL), PROT);
	assert_int_equal(post(&kernel, k, &r, NULL), 0);
	r.lkey = dma_key;
	assert_int_equal(post(&user, k, &r, NULL), PROT);
	assert_int_equal(post(&ulp, k, &r, NULL), PROT);
	assert_int_equal(post(&kernel, k, &r, NULL), 0);
	r.lkey = mr;
	assert_int_equal(post(&user, k, &r, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(umr_registers_changes_and_revokes_an_mr),
		CASE(mask_bit_changes_its_fields_only), CASE(umr_fields_reach_the_mkey),
		CASE(umr_list_lands_at_its_offset),
		CASE(extended_offset_reaches_the_last_entry), CASE(forbidden_umr_changes_nothing),
		CASE(memory_windows_bind_and_invalidate),
		CASE(mkey_switches_between_list_and_interleaved),
		CASE(partial_list_update_shifts_what_follows),
		CASE(list_may_be_read_through_its_own_key), CASE(user_list_needs_a_key_of_its_pd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
