// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Memory keys: translation, what is refused, page faults, and how long the translation of a page
 * takes.
 */
#include "mkey_world.h"
#include <stdio.h>
#include <time.h>

#define OK MKEY_OK
#define DENIED MKEY_DENIED
#define ABSENT MKEY_ABSENT
#define NOWHERE 1	/* in place of a bus address: reads as 0 */
#define TOP 0xfffffffffffff000ull

/* The keys that the tables use. */
enum { K_PA, K_PA_BOUND, K_MTT, K_UNALIGNED, K_HOLES, K_SHORT, K_BIG_PAGE, K_BYTE_PAGE, K_TOP,
       K_64, K_KSM, K_KLM, K_KLM2, K_LOOP, K_DEEP, K_TOO_DEEP, K_REPEAT, K_REPEAT_BAD,
       K_DM, K_FREE, K_IMPLICIT, K_PARENT, K_EMPTY, K_RESERVED, K_NULL, K_DUMP, KEYS };
static uint32_t key[KEYS];

static uint32_t chain(unsigned int levels)
{
	uint32_t k = key[K_MTT];

	while (levels--) {
		uint32_t up = create((struct spec){ KLM, 0, 0x1000, .octowords = 4 });

		set_klm(up, 0, 0x1000, k, k == key[K_MTT] ? 0x7000 : 0);
		k = up;
	}
	return k;
}

static uint32_t repeat_block(uint32_t bytes)
{
	uint32_t k = create((struct spec){ KLM, 0, 1000, .octowords = 4 });
	u8 *t = mkey_of(k)->translation;

	put_be32(t, bytes);
	put_be32(t + 4, 0x400);
	put_be32(t + 8, 3);
	put_be16(t + 14, 2);
	put_be16(t + 16, 10);		/* stride, bytes */
	put_be16(t + 18, 8);
	put_be32(t + 20, key[K_PA]);
	put_be64(t + 24, A + 0x100);
	put_be16(t + 32, 0x20);
	put_be16(t + 34, 4);
	put_be32(t + 36, key[K_PA]);
	put_be64(t + 40, B + 0x200);
	return k;
}

static int keys_up(void **state)
{
	static const uint64_t four[] = { A + 0x3003, B + 3, A + 0x1003, R + 3 },
		two[] = { A + 0x5003, B + 0x2003 }, holes[] = { A + 3, 0, A + 0x2001, A + 3 },
		big[] = { A + 3, B + 3 }, none[8];

	world_up(state);
	key[K_PA] = create((struct spec){ PA, .length64 = true });
	key[K_PA_BOUND] = create((struct spec){ PA, A + 0x10, 0x20 });
	key[K_MTT] = create((struct spec){ MTT, 0x7000, 0x4000, 12, .octowords = 2, .actual = 2,
					   .list = four, .variant = 0x5a });
	key[K_UNALIGNED] = create((struct spec){ MTT, 0x7123, 0x1000, 12, .octowords = 1,
						 .actual = 1, .list = two });
	key[K_HOLES] = create((struct spec){ MTT, 0, 0x4000, 12, .octowords = 2, .actual = 2,
					     .list = holes });
	key[K_SHORT] = create((struct spec){ MTT, 0, 0x10000, 12, .octowords = 1, .actual = 1,
					     .list = two });
	key[K_BIG_PAGE] = create((struct spec){ MTT, 0x1ff000, 0x2000, 21, .octowords = 1,
						.actual = 1, .list = big });
	key[K_BYTE_PAGE] = create((struct spec){ MTT, 0, 0x10, 0, .octowords = 8 });
	key[K_TOP] = create((struct spec){ MTT, TOP, 0x2000, 12, .octowords = 1, .actual = 1,
					   .list = two });
	key[K_64] = create((struct spec){ MTT, .length64 = true, .log_page = 61, .octowords = 4,
					  .actual = 4, .list = none });
	key[K_KSM] = create((struct spec){ KSM, 0x2000, 0x20001, 16, .octowords = 2 });
	set_klm(key[K_KSM], 0, 0, key[K_PA], A + 0x10000);
	set_klm(key[K_KSM], 1, 0, key[K_MTT], 0x7000);
	key[K_KLM] = create((struct spec){ KLM, 0x100, 0x10000, .octowords = 8 });
	set_klm(key[K_KLM], 0, 0x10, key[K_MTT], 0x7ff8);
	set_klm(key[K_KLM], 2, 0x20, key[K_UNALIGNED], 0x7123);
	set_klm(key[K_KLM], 3, 0x10, MKEY_DUMP_FILL, 0);
	set_klm(key[K_KLM], 4, 0x10, MKEY_RESERVED_LKEY, A);
	set_klm(key[K_KLM], 5, 0x10, 0x400, 0);
	set_klm(key[K_KLM], 6, 0x10, MKEY_NULL, 0);
	key[K_KLM2] = create((struct spec){ KLM, 0, 0x100, .octowords = 4 });
	set_klm(key[K_KLM2], 0, 0x18, key[K_KLM], 0x108);
	set_klm(key[K_KLM2], 1, 0x10, key[K_KSM], 0x2000);
	set_klm(key[K_KLM2], 2, 0x10, key[K_DM], 0);
	key[K_LOOP] = create((struct spec){ KLM, 0, 0x1000, .octowords = 4 });
	set_klm(key[K_LOOP], 0, 0x1000, key[K_LOOP], 0);
	key[K_DEEP] = chain(MKEY_DEPTH);
	key[K_TOO_DEEP] = chain(MKEY_DEPTH + 1);
	key[K_REPEAT] = repeat_block(12);
	key[K_REPEAT_BAD] = repeat_block(13);
	key[K_DM] = create((struct spec){ DM, MEMIC, 0x1000 });
	set_klm(key[K_KLM2], 2, 0x10, key[K_DM], 0);
	key[K_FREE] = create((struct spec){ PA, .length64 = true, .free = true });
	/* An implicit MR: its own null key, a child with holes, and the device's null key. */
	key[K_IMPLICIT] = create((struct spec){ KSM, .length64 = true, .log_page = 14,
						.octowords = 4 });
	set_klm(key[K_IMPLICIT], 0, 0, key[K_64], 0);
	set_klm(key[K_IMPLICIT], 1, 0, key[K_HOLES], 0);
	set_klm(key[K_IMPLICIT], 2, 0, MKEY_NULL, 0);
	key[K_PARENT] = create((struct spec){ KLM, 0x100, 0x4000, .octowords = 4 });
	set_klm(key[K_PARENT], 0, 0x1010, key[K_HOLES], 0x3000 - 0x1010);
	key[K_EMPTY] = create((struct spec){ KLM, 0, 0x1000 });
	key[K_RESERVED] = MKEY_RESERVED_LKEY;
	key[K_NULL] = MKEY_NULL;
	key[K_DUMP] = MKEY_DUMP_FILL;
	return 0;
}

struct piece { uint64_t addr; size_t len; };

static const struct {
	const char *name;
	unsigned int key;
	uint64_t va;
	size_t len;
	enum mkey_result want;
	struct piece p[7];	/* ended by a length of 0 */
} reads[] = {
	{ "PA", K_PA, A + 5, 3, OK, { { A + 5, 3 } } },
	{ "PA, not mapped", K_PA, A + SIZE - 1, 2, DENIED },
	{ "PA, wraps", K_PA, -4ull, 8, DENIED },
	{ "PA, bounds", K_PA_BOUND, A + 0x10, 0x20, OK, { { A + 0x10, 0x20 } } },
	{ "PA, one more", K_PA_BOUND, A + 0x10, 0x21, DENIED },
	{ "PA, before", K_PA_BOUND, A + 0xf, 1, DENIED },
	{ "MTT, first byte", K_MTT, 0x7000, 1, OK, { { A + 0x3000, 1 } } },
	{ "MTT, page border", K_MTT, 0x7ff0, 0x20, OK, { { A + 0x3ff0, 16 }, { B, 16 } } },
	{ "MTT, up to the border", K_MTT, 0x7ff0, 0x10, OK, { { A + 0x3ff0, 16 } } },
	{ "MTT, all", K_MTT, 0x7000, 0x4000, OK,
	  { { A + 0x3000, 4096 }, { B, 4096 }, { A + 0x1000, 4096 }, { R, 4096 } } },
	{ "MTT, before", K_MTT, 0x6fff, 2, DENIED },
	{ "MTT, last byte", K_MTT, 0xafff, 1, OK, { { R + 0xfff, 1 } } },
	{ "MTT, behind", K_MTT, 0xb000, 1, DENIED },
	{ "MTT, one too long", K_MTT, 0xafff, 2, DENIED },
	{ "MTT, huge length", K_MTT, 0x7000, SIZE_MAX, DENIED },
	{ "MTT, huge address", K_MTT, -1ull, 1, DENIED },
	{ "MTT, unaligned start", K_UNALIGNED, 0x7123, 0x1000, OK,
	  { { A + 0x5123, 0xedd }, { B + 0x2000, 0x123 } } },
	{ "MTT, unaligned, before", K_UNALIGNED, 0x7122, 1, DENIED },
	{ "MTT, unaligned, behind", K_UNALIGNED, 0x8123, 1, DENIED },
	{ "MTT, hole", K_HOLES, 0xfff, 2, ABSENT },
	{ "MTT, read only", K_HOLES, 0x2000, 4, OK, { { A + 0x2000, 4 } } },
	{ "MTT, list too short", K_SHORT, 0x1fff, 2, DENIED },
	{ "MTT, 2 MiB pages", K_BIG_PAGE, 0x1ff000, 0x2000, OK,
	  { { A + 0x1ff000, 0x1000 }, { B, 0x1000 } } },
	{ "MTT, pages of a byte", K_BYTE_PAGE, 0, 1, DENIED },
	{ "MTT, at the top", K_TOP, TOP, 0x1000, OK, { { A + 0x5000, 0x1000 } } },
	{ "MTT, over the top", K_TOP, TOP, 0x1001, DENIED },
	{ "MTT, beyond the top", K_TOP, 0, 1, DENIED },
	{ "MTT, all addresses", K_64, 0x7fff12345000, 8, ABSENT },
	{ "MTT, all addresses, last", K_64, -1ull, 1, ABSENT },
	{ "KSM, start that is not aligned", K_KSM, 0x2000, 16, OK, { { A + 0x10000, 16 } } },
	{ "KSM, block border", K_KSM, 0x11ff8, 16, OK, { { A + 0x1fff8, 8 }, { A + 0x3000, 8 } } },
	{ "KSM, inner bounds", K_KSM, 0x15ff8, 16, DENIED },
	{ "KSM, list too short", K_KSM, 0x22000, 1, DENIED },
	{ "KSM, null key", K_IMPLICIT, 0x9000, 0x20, OK, { { NOWHERE, 0x20 } } },
	{ "KLM, zero-length entry between", K_KLM, 0x100, 0x30, OK,
	  { { A + 0x3ff8, 8 }, { B, 8 }, { A + 0x5123, 0x20 } } },
	{ "KLM, within an entry", K_KLM, 0x104, 4, OK, { { A + 0x3ffc, 4 } } },
	{ "KLM, entry's last byte", K_KLM, 0x10f, 2, OK, { { B + 7, 1 }, { A + 0x5123, 1 } } },
	{ "KLM, filled", K_KLM, 0x12e, 6, OK, { { A + 0x5141, 2 }, { NOWHERE, 4 } } },
	{ "KLM, reserved lkey within", K_KLM, 0x140, 1, DENIED },
	{ "KLM, 0x400 is no key", K_KLM, 0x150, 1, DENIED },
	{ "KLM, null key", K_KLM, 0x160, 0x10, OK, { { NOWHERE, 0x10 } } },
	{ "KLM, behind the entries", K_KLM, 0x170, 1, DENIED },
	{ "KLM, before", K_KLM, 0xff, 1, DENIED },
	{ "KLM, no entries", K_EMPTY, 0, 1, DENIED },
	{ "KLM of KLM, KSM and MEMIC", K_KLM2, 0, 0x38, OK,
	  { { B, 8 }, { A + 0x5123, 0x10 }, { A + 0x10000, 0x10 }, { MEMIC, 0x10 } } },
	{ "itself", K_LOOP, 0, 8, DENIED },
	{ "as deep as allowed", K_DEEP, 1, 8, OK, { { A + 0x3001, 8 } } },
	{ "deeper", K_TOO_DEEP, 1, 8, DENIED },
	{ "repeat block, all", K_REPEAT, 0, 36, OK,
	  { { A + 0x100, 8 }, { B + 0x200, 4 }, { A + 0x10a, 8 }, { B + 0x220, 4 },
	    { A + 0x114, 8 }, { B + 0x240, 4 } } },
	{ "repeat block, inside", K_REPEAT, 13, 8, OK, { { A + 0x10b, 7 }, { B + 0x220, 1 } } },
	{ "repeat block, behind", K_REPEAT, 35, 2, DENIED },
	{ "repeat block, wrong sum", K_REPEAT_BAD, 0, 4, DENIED },
	{ "MEMIC", K_DM, 0x10, 8, OK, { { MEMIC + 0x10, 8 } } },
	{ "MEMIC, behind", K_DM, 0xffc, 5, DENIED },
	{ "free", K_FREE, A, 1, DENIED },
	{ "reserved lkey", K_RESERVED, A, 1, DENIED },
	{ "null key", K_NULL, 12345, 8, OK, { { NOWHERE, 8 } } },
	{ "null key, wraps", K_NULL, -1ull, 2, DENIED },
	{ "fill key", K_DUMP, 12345, 8, OK, { { NOWHERE, 8 } } },
	{ "zero length", K_MTT, 0, 0, OK },
	{ "zero length, no key", K_FREE, 0, 0, OK },
};

static void expect(u8 *bytes, const struct piece *p, u8 (*byte)(uint64_t addr))
{
	size_t i;

	for (; p->len; p++)
		for (i = 0; i < p->len; i++)
			*bytes++ = p->addr == NOWHERE ? 0 : byte(p->addr + i);
}

static void read_follows_the_translation(void **state)
{
	static u8 got[0x4000], want[0x4000];
	unsigned int i;

	for (i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
		const struct mkey_access a = { .key = key[reads[i].key], .pd = PD, .qpn = QPN,
					       .rights = LR };
		enum mkey_result r;

		print_message("  %s\n", reads[i].name);
		memset(got, 0xee, sizeof(got));
		r = mkey_present(&hca, &a, reads[i].va, reads[i].len, NULL);
		assert_int_equal(r, reads[i].want);
		r = mkey_read(&hca, &a, reads[i].va, got, reads[i].len, NULL);
		assert_int_equal(r, reads[i].want);
		if (r)
			continue;
		expect(want, reads[i].p, pattern);
		assert_memory_equal(got, want, reads[i].len);
	}
}

static u8 memory(uint64_t addr)
{
	return addr >= HCA_MEMIC_START && addr < HCA_MEMIC_START + HCA_MEMIC_SIZE ?
	       hca.memic[addr - HCA_MEMIC_START] : *at(addr);
}

/* The same table: what can be read can be written, but for pages that are only readable. */
static void write_follows_the_translation(void **state)
{
	static u8 data[0x4000], got[0x4000];
	unsigned int i, j;

	for (i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
		const struct mkey_access a = { .key = key[reads[i].key], .pd = PD, .qpn = QPN,
					       .rights = LW };
		enum mkey_result r, want = reads[i].want;
		bool hole = false;

		print_message("  %s\n", reads[i].name);
		for (j = 0; reads[i].p[j].len; j++) {
			hole |= reads[i].p[j].addr == NOWHERE;
			if (reads[i].p[j].addr >= R && reads[i].p[j].addr < R + R_SIZE)
				want = DENIED;
		}
		if (reads[i].key == K_HOLES && reads[i].want == OK)
			want = ABSENT;
		for (j = 0; want == OK && j < reads[i].len; j++)
			data[j] = i + j * 7;
		assert_int_equal(mkey_present(&hca, &a, reads[i].va, reads[i].len, NULL), want);
		r = mkey_write(&hca, &a, reads[i].va, data, reads[i].len, NULL);
		assert_int_equal(r, want);
		if (r || hole)
			continue;
		expect(got, reads[i].p, memory);
		assert_memory_equal(got, data, reads[i].len);
	}
}

static void reserved_lkey_reads_bus_addresses(void **state)
{
	struct mkey_access a = { .key = MKEY_RESERVED_LKEY, .rights = LR, .privileged = true };
	u8 byte;

	assert_int_equal(mkey_read(&hca, &a, A + 7, &byte, 1, NULL), OK);
	assert_int_equal(byte, pattern(A + 7));
	assert_int_equal(mkey_read(&hca, &a, -1ull, &byte, 1, NULL), DENIED);
	assert_int_equal(mkey_check(&hca, &a, -1ull, 2), DENIED);
	a.rights = RR;
	assert_int_equal(mkey_read(&hca, &a, A + 7, &byte, 1, NULL), DENIED);
	a.key = MKEY_NULL;
	assert_int_equal(mkey_read(&hca, &a, A + 7, &byte, 1, NULL), DENIED);
}

/* Each set of rights that a key has, against each that an access needs. */
static void access_needs_each_of_its_rights(void **state)
{
	unsigned int has, needs;

	for (has = 1; has <= ALL; has++) {
		uint32_t k = create((struct spec){ PA, .length64 = true, .rights = has });

		for (needs = 1; needs <= ALL; needs++) {
			const struct mkey_access a = { .key = k, .pd = PD, .rights = needs };

			assert_int_equal(mkey_check(&hca, &a, A, 1), needs & ~has ? DENIED : OK);
		}
	}
}

static void key_is_for_its_pd_qp_and_variant(void **state)
{
	static const struct {
		const char *name;
		struct spec s;
		uint32_t add, pd, qpn;
		bool any;
		enum mkey_result want;
	} t[] = {
		{ "same PD", { PA }, 0, PD, QPN, false, OK },
		{ "other PD", { PA }, 0, PD + 1, QPN, false, DENIED },
		{ "the device", { PA }, 0, PD + 1, QPN, true, OK },
		{ "its QP", { PA, .qpn = QPN }, 0, PD, QPN, false, OK },
		{ "other QP", { PA, .qpn = QPN }, 0, PD, QPN + 1, false, DENIED },
		{ "its QP, other PD", { PA, .qpn = QPN }, 0, PD + 1, QPN, false, DENIED },
		{ "other low byte", { PA, .variant = 3 }, 1, PD, QPN, false, DENIED },
		{ "free", { PA, .free = true }, 0, PD, QPN, false, DENIED },
		{ "other index", { PA }, 0x100, PD, QPN, false, DENIED },
	};
	unsigned int i;
	u8 byte;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct spec s = t[i].s;
		struct mkey_access a = { .pd = t[i].pd, .qpn = t[i].qpn, .rights = LR,
					 .any_pd = t[i].any };

		print_message("  %s\n", t[i].name);
		s.length64 = true;
		a.key = create(s) + t[i].add;
		assert_int_equal(mkey_check(&hca, &a, A, 1), t[i].want);
		assert_int_equal(mkey_read(&hca, &a, A, &byte, 1, NULL), t[i].want);
	}
}

/* What an inner key has to be; the access is remote, the outer key grants that. */
static void inner_key_needs_local_rights_and_pd(void **state)
{
	static const struct {
		const char *name;
		struct spec s;
		uint32_t add;
		enum mkey_result read, write;
	} t[] = {
		{ "local rights do", { PA, .rights = LR | LW }, 0, OK, OK },
		{ "no local write", { PA, .rights = LR | RW | RR | AT }, 0, OK, DENIED },
		{ "no local read", { PA, .rights = LW | RR }, 0, DENIED, OK },
		{ "other PD", { PA, .pd = PD + 1 }, 0, DENIED, DENIED },
		{ "free", { PA, .free = true }, 0, DENIED, DENIED },
		{ "low byte", { PA, .variant = 1 }, 1, DENIED, DENIED },
		{ "bound to the QP", { PA, .qpn = QPN }, 0, OK, OK },
		{ "bound to another", { PA, .qpn = QPN + 1 }, 0, DENIED, DENIED },
	};
	unsigned int i;
	u8 byte = 0;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct spec s = t[i].s;
		uint32_t inner, outer = create((struct spec){ KLM, 0, 16, .octowords = 4,
							      .rights = RR | RW });
		struct mkey_access a = { .key = outer, .pd = PD, .qpn = QPN, .rights = RR };

		print_message("  %s\n", t[i].name);
		s.length64 = true;
		inner = create(s);
		set_klm(outer, 0, 16, inner + t[i].add, A);
		assert_int_equal(mkey_check(&hca, &a, 0, 16), OK);
		assert_int_equal(mkey_read(&hca, &a, 0, &byte, 1, NULL), t[i].read);
		a.rights = RW;
		assert_int_equal(mkey_write(&hca, &a, 0, &byte, 1, NULL), t[i].write);
	}
}

static void fault_names_the_absent_page(void **state)
{
	static const struct {
		const char *name;
		unsigned int key;
		uint64_t va;
		size_t len;
		unsigned int rights;
		/* What is reported, and what is left of the access. */
		unsigned int at_key;
		uint64_t at_va;
		size_t at_len;
		uint64_t left_va;
	} t[] = {
		{ "first page", K_HOLES, 0x1004, 8, LR, K_HOLES, 0x1004, 8, 0x1004 },
		{ "second page", K_HOLES, 0xff0, 0x20, LR, K_HOLES, 0x1000, 0x10, 0x1000 },
		{ "over more pages", K_HOLES, 0xff0, 0x3010, RR, K_HOLES, 0x1000, 0x3000, 0x1000 },
		{ "read-only page", K_HOLES, 0x2000, 4, RW, K_HOLES, 0x2000, 4, 0x2000 },
		{ "an atomic", K_HOLES, 0x2000, 8, AT, K_HOLES, 0x2000, 8, 0x2000 },
		{ "own null key of an implicit MR", K_IMPLICIT, 0x123, 0x100, LR, K_64, 0x123,
		  0x100, 0x123 },
		{ "up to the block's end", K_IMPLICIT, 0x3ff0, 0x100, LR, K_64, 0x3ff0, 0x10,
		  0x3ff0 },
		{ "a child", K_IMPLICIT, 0x4ff0, 0x20, LR, K_HOLES, 0x1000, 0x10, 0x5000 },
		{ "through a window", K_PARENT, 0x100, 0x30, LW, K_HOLES, 0x1ff0, 0x30, 0x100 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const struct mkey_access a = { .key = key[t[i].key], .pd = PD, .qpn = QPN,
					       .rights = t[i].rights };
		struct mkey_fault f = { 0 };

		print_message("  %s\n", t[i].name);
		assert_int_equal(mkey_check(&hca, &a, t[i].va, t[i].len), OK);
		assert_int_equal(mkey_present(&hca, &a, t[i].va, t[i].len, &f), ABSENT);
		assert_int_equal(f.key, key[t[i].at_key]);
		assert_int_equal(f.va, t[i].at_va);
		assert_int_equal(f.length, t[i].at_len);
		assert_int_equal(f.access.key, a.key);
		assert_int_equal(f.access_va, t[i].left_va);
		assert_int_equal(f.access_length, t[i].len - (t[i].left_va - t[i].va));
	}
}

static void atomic_needs_an_aligned_word(void **state)
{
	static const struct {
		const char *name;
		unsigned int key;
		uint64_t va;
		size_t size;
		unsigned int rights;
		enum mkey_result want;
		uint64_t addr;
	} t[] = {
		{ "8 bytes", K_MTT, 0x7ff8, 8, AT, OK, A + 0x3ff8 },
		{ "4 bytes", K_MTT, 0x7ffc, 4, AT, OK, A + 0x3ffc },
		{ "not aligned", K_MTT, 0x7ffc, 8, AT, DENIED, 0 },
		{ "not aligned, one page", K_MTT, 0x7004, 8, AT, DENIED, 0 },
		{ "over two pages", K_MTT, 0x7ffe, 4, AT, DENIED, 0 },
		{ "aligned memory, odd address", K_KLM, 0x130 - 0x20 + 5, 8, AT, OK, A + 0x5128 },
		{ "memory that is read only", K_MTT, 0xa000, 8, AT, DENIED, 0 },
		{ "a hole", K_HOLES, 0x1000, 8, AT, ABSENT, 0 },
		{ "null", K_NULL, 0, 8, LW, DENIED, 0 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const struct mkey_access a = { .key = key[t[i].key], .pd = PD, .qpn = QPN,
					       .rights = t[i].rights };
		struct mkey_word word = { NULL };

		print_message("  %s\n", t[i].name);
		assert_int_equal(mkey_atomic(&hca, &a, t[i].va, t[i].size, &word, NULL),
				 t[i].want);
		assert_ptr_equal(word.host, t[i].addr ? at(t[i].addr) : NULL);
		assert_int_equal(word.bus, 0);
	}
}

#define FAR 0x90000000ull	/* not mapped */
static size_t asked;

static int answer(void *arg, uint64_t addr, void *data, size_t len, bool write)
{
	asked += len;
	memset(data, 0x5a, len);
	return 0;
}

/* What only QEMU reaches takes long, so one access gets no more of it than a packet has. */
static void access_asks_for_a_packet_at_most(void **state)
{
	static u8 bytes[4 * DMA_ASK_MAX];
	const struct mkey_access a = { key[K_PA], PD, QPN, LR };

	dma.ask = answer;
	for (size_t len = DMA_ASK_MAX - 1; len <= sizeof(bytes); len++) {
		bool allowed = len <= DMA_ASK_MAX;

		if (len == DMA_ASK_MAX + 2)
			len = sizeof(bytes);
		asked = 0;
		assert_int_equal(mkey_read(&hca, &a, FAR + 1, bytes, len, NULL),
				 allowed ? OK : DENIED);
		assert_true(allowed ? asked == len : asked <= DMA_ASK_MAX);
	}
	/* Memory that is mapped does not count. */
	asked = 0;
	assert_int_equal(mkey_read(&hca, &a, A, bytes, sizeof(bytes), NULL), OK);
	assert_int_equal(asked, 0);
}

/* One byte an entry: what one access may go through is bounded, and long lists are not slow. */
static void access_in_too_many_pieces_is_denied(void **state)
{
	uint32_t n = 65536, i, k = create((struct spec){ KLM, 0, n, .octowords = n });
	const struct mkey_access a = { .key = k, .pd = PD, .rights = LR };
	static u8 got[65536];

	for (i = 0; i < n; i++)
		set_klm(k, i, 1, key[K_PA], A + n - 1 - i);
	assert_int_equal(mkey_read(&hca, &a, 0, got, MKEY_PIECES + 1, NULL), DENIED);
	assert_int_equal(mkey_read(&hca, &a, n - MKEY_PIECES, got, MKEY_PIECES, NULL), OK);
	for (i = 0; i < MKEY_PIECES; i++)
		assert_int_equal(got[i], pattern(A + MKEY_PIECES - 1 - i));
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* Nanoseconds for each 4 KiB, over the first MiB, without the copy. */
static void bench(const char *name, uint32_t k, size_t piece)
{
	const struct mkey_access a = { .key = k, .pd = PD, .rights = LR };
	unsigned int i, rounds = 200;
	uint64_t va;
	double t = now();

	for (i = 0; i < rounds; i++)
		for (va = 0; va < 1 << 20; va += piece)
			assert_int_equal(mkey_present(&hca, &a, va, piece, NULL), OK);
	print_message("  %-34s %6zu bytes an access: %6.1f ns a page\n", name, piece,
		      (now() - t) / rounds / 256);
}

static void benchmark_prints_times(void **state)
{
	/* What a driver may keep in its pools: keys of so many octowords. */
	static const unsigned int pools[][2] = {
		{ 2, 250 }, { 4, 250 }, { 8, 250 }, { 16, 250 }, { 32, 250 }, { 64, 250 },
		{ 128, 250 }, { 256, 250 }, { 512, 250 }, { 1024, 250 }, { 2048, 250 },
		{ 4096, 250 }, { 8192, 32 }, { 16384, 16 }, { 32768, 8 }, { 65536, 4 } };
	uint32_t mtt, ksm, klm, deep, small, i, j, keys = 0;
	double t;

	mtt = create((struct spec){ MTT, 0, 1 << 20, 12, .octowords = 128 });
	for (i = 0; i < 256; i++)
		put_be64(mkey_of(mtt)->translation + 8 * i, (i & 1 ? A : B) + i * 4096 + 3);
	ksm = create((struct spec){ KSM, 0, 1 << 20, 12, .octowords = 256 });
	klm = create((struct spec){ KLM, 0, 1 << 20, .octowords = 256 });
	small = create((struct spec){ KLM, 0, 1 << 20, .octowords = 65536 });
	for (i = 0; i < 256; i++) {
		set_klm(ksm, i, 0, mtt, i * 4096);
		set_klm(klm, i, 4096, mtt, i * 4096);
	}
	for (i = 0; i < 65536; i++)
		set_klm(small, i, 16, mtt, i * 16);
	deep = create((struct spec){ KSM, 0, 1 << 20, 30, .octowords = 1 });
	set_klm(deep, 0, 0, mtt, 0);

	for (i = 0; i < 2; i++) {
		size_t piece = i ? 4096 : 1 << 20;

		bench("PA, of a KLM", key[K_PA], piece);
		bench("MTT", mtt, piece);
		bench("KSM of 4 KiB, of an MTT", ksm, piece);
		bench("KSM of 1 GiB, of an MTT", deep, piece);
		bench("KLM of 4 KiB, of an MTT", klm, piece);
		bench("KLM of 65536 entries of 16 bytes", small, 4096);
	}
	t = now();
	for (i = 0; i < sizeof(pools) / sizeof(pools[0]); i++)
		for (j = 0; j < pools[i][1]; j++, keys++)
			create((struct spec){ MTT, .log_page = 12, .octowords = pools[i][0],
					      .umr = true, .free = true });
	print_message("  %u CREATE_MKEY of full pools: %.1f ms, %zu MiB of %lu counted\n",
		      keys, (now() - t) / 1e6, hca.memory >> 20, HCA_MEMORY >> 20);
}

/* For the benchmark, PA begins at A. */
static int bench_up(void **state)
{
	keys_up(state);
	key[K_PA] = create((struct spec){ KLM, 0, 1 << 20, .octowords = 1 });
	set_klm(key[K_PA], 0, 1 << 20, create((struct spec){ PA, .length64 = true }), A);
	return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, keys_up, world_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(read_follows_the_translation), CASE(write_follows_the_translation),
		CASE(reserved_lkey_reads_bus_addresses), CASE(access_needs_each_of_its_rights),
		CASE(key_is_for_its_pd_qp_and_variant), CASE(inner_key_needs_local_rights_and_pd),
		CASE(fault_names_the_absent_page), CASE(atomic_needs_an_aligned_word),
		CASE(access_asks_for_a_packet_at_most),
		CASE(access_in_too_many_pieces_is_denied),
		cmocka_unit_test_setup_teardown(benchmark_prints_times, bench_up, world_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
