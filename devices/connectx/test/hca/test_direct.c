// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* Data Direct: which keys lead to the second function, and to which memory. */
#include "mkey_world.h"
#include "direct.h"

#define DIRECT_PD 7	/* of the driver's own */

enum { CROSSING = MLX5_MKC_ACCESS_MODE_CROSSING };

/* Of the second function, which has other memory at the address A. */
static struct dma second;

static int direct_up(void **state)
{
	int fd = memfd_create("second", 0);

	world_up(state);
	hca.guid = 0x1234;
	memset(&second, 0, sizeof(second));
	direct_init(&hca, &second);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	assert_int_equal(dma_map(&second, A, SIZE, fd, 0, true), 0);
	close(fd);
	return 0;
}

static int direct_down(void **state)
{
	dma_unmap_all(&second);
	return world_down(state);
}

static u8 *second_at(uint64_t addr)
{
	size_t len = 1;

	return dma_run(&second, addr, &len, false);
}

struct way {
	uint32_t pa, ksm, crossing;
};

static enum cmd_status make(struct spec s, bool direct, uint32_t vhca, uint32_t target,
			    uint32_t *key)
{
	size_t len = spec_fill(&s);
	enum cmd_status status;

	IFC_SET(create_mkey_in, in, data_direct, direct);
	IFC_SET(mkc, IFC_PTR(create_mkey_in, in, memory_key_mkey_entry), crossing_target_vhca_id,
		vhca);
	if (target)
		IFC_SET(mkc, IFC_PTR(create_mkey_in, in, memory_key_mkey_entry),
			translations_octword_size, target);
	status = command(mkey_ops, MLX5_CMD_OP_CREATE_MKEY, in, len, out);
	*key = IFC_GET(create_mkey_out, out, mkey_index) << 8 | s.variant;
	return status;
}

/* As the driver makes them: two pages, in turned order. */
static struct way make_way(unsigned int rights)
{
	struct way w;

	assert_int_equal(make((struct spec){ PA, .length64 = true, .pd = DIRECT_PD }, true, 0, 0,
			      &w.pa), CMD_OK);
	assert_int_equal(make((struct spec){ KSM, 0x10000, 0x2000, 12, rights, DIRECT_PD,
					     .octowords = 2, .umr = true }, false, 0, 0, &w.ksm),
			 CMD_OK);
	set_klm(w.ksm, 0, 0, w.pa, A + 0x1000);
	set_klm(w.ksm, 1, 0, w.pa, A);
	assert_int_equal(make((struct spec){ CROSSING, 0, 0x12000, 0, rights, .variant = 0x21 },
			      false, DIRECT_VHCA, w.ksm, &w.crossing), CMD_OK);
	return w;
}

static enum mkey_result write_by(uint32_t key, uint64_t va, const void *data, size_t len)
{
	const struct mkey_access a = { .key = key, .pd = PD, .qpn = QPN, .rights = RW };

	return mkey_write(&hca, &a, va, data, len, NULL);
}

static enum mkey_result read_by(uint32_t key, uint64_t va, void *data, size_t len)
{
	const struct mkey_access a = { .key = key, .pd = PD, .qpn = QPN, .rights = RR };

	return mkey_read(&hca, &a, va, data, len, NULL);
}

static void access_leaves_by_the_second_function(void **state)
{
	struct way w = make_way(ALL);
	u8 data[16] = "by the other one", got[16] = "";

	assert_int_equal(write_by(w.crossing, 0x10ff8, data, 16), MKEY_OK);
	assert_memory_equal(second_at(A + 0x1ff8), data, 8);
	assert_memory_equal(second_at(A), data + 8, 8);
	assert_int_equal(*at(A), pattern(A));
	assert_int_equal(*at(A + 0x1ff8), pattern(A + 0x1ff8));
	assert_int_equal(read_by(w.crossing, 0x10ff8, got, 16), MKEY_OK);
	assert_memory_equal(got, data, 16);
	assert_int_equal(second.traffic.writes, 2);
	assert_int_equal(second.traffic.written_bytes, 16);
	assert_int_equal(second.traffic.read_bytes, 16);
	assert_int_equal(dma.traffic.written_bytes, 0);

	/* An ordinary key afterwards is the first function's. */
	assert_int_equal(write_by(create((struct spec){ PA, .length64 = true }), A, data, 16),
			 MKEY_OK);
	assert_memory_equal(at(A), data, 16);
	assert_int_equal(second.traffic.written_bytes, 16);
	assert_int_equal(dma.traffic.written_bytes, 16);
}

static void atomic_is_a_word_of_the_second_function(void **state)
{
	const struct mkey_access a = { .pd = PD, .qpn = QPN, .rights = AT,
				       .key = make_way(ALL).crossing };
	struct mkey_word word;

	assert_int_equal(mkey_atomic(&hca, &a, 0x10008, 8, &word, NULL), MKEY_OK);
	assert_ptr_equal(word.host, second_at(A + 0x1008));
	assert_ptr_equal(word.dma, &second);
}

static void bounds_and_rights_count_at_each_key(void **state)
{
	struct way w = make_way(LR | LW | RR), no_write = make_way(LR | RR | RW);
	u8 byte = 1;

	/* Below the list, behind it, behind the outer key, without the right. */
	assert_int_equal(read_by(w.crossing, 0xffff, &byte, 1), MKEY_DENIED);
	assert_int_equal(read_by(w.crossing, 0x11fff, &byte, 1), MKEY_OK);
	assert_int_equal(read_by(w.crossing, 0x12000, &byte, 1), MKEY_DENIED);
	assert_int_equal(write_by(w.crossing, 0x10000, &byte, 1), MKEY_DENIED);
	/* The inner one is written as by its owner. */
	assert_int_equal(write_by(no_write.crossing, 0x10000, &byte, 1), MKEY_DENIED);
}

static void key_without_its_function_is_dead(void **state)
{
	struct way w = make_way(ALL);
	u8 byte;

	second.off = true;
	assert_int_equal(read_by(w.crossing, 0x10000, &byte, 1), MKEY_DENIED);
	second.off = false;
	dma.off = true;
	assert_int_equal(read_by(w.crossing, 0x10000, &byte, 1), MKEY_OK);
	dma.off = false;
	/* As after a revocation, and after the end of the key that it leads to. */
	mkey_of(w.ksm)->free = true;
	assert_int_equal(read_by(w.crossing, 0x10000, &byte, 1), MKEY_DENIED);
	mkey_of(w.ksm)->free = false;
	assert_int_equal(read_by(w.crossing, 0x10000, &byte, 1), MKEY_OK);
	mkey_of(w.ksm)->key++;
	assert_int_equal(read_by(w.crossing, 0x10000, &byte, 1), MKEY_DENIED);
	/* Its number is another key's: of another PD, or of a process. */
	mkey_of(w.ksm)->key--;
	mkey_of(w.ksm)->pd = PD;
	assert_int_equal(read_by(w.crossing, 0x10000, &byte, 1), MKEY_DENIED);
	mkey_of(w.ksm)->pd = DIRECT_PD;
	mkey_of(w.ksm)->uid = 5;
	assert_int_equal(read_by(w.crossing, 0x10000, &byte, 1), MKEY_DENIED);
	mkey_of(w.ksm)->uid = 0;
	assert_int_equal(read_by(w.crossing, 0x10000, &byte, 1), MKEY_OK);
}

/* A process knows the numbers of these keys, or guesses them. */
static void processes_do_not_reach_the_inner_keys(void **state)
{
	struct way w = make_way(ALL);
	uint32_t list;
	u8 byte;

	assert_int_equal(read_by(w.pa, A, &byte, 1), MKEY_DENIED);
	assert_int_equal(read_by(w.ksm, 0x10000, &byte, 1), MKEY_DENIED);
	list = create((struct spec){ KLM, 0, 64, .octowords = 4, .uid = 5 });
	set_klm(list, 0, 16, w.pa, A);
	set_klm(list, 1, 16, w.ksm, 0x10000);
	set_klm(list, 2, 16, w.crossing, 0x10000);
	set_klm(list, 3, 16, MKEY_NULL, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(read_by(list, 16 * i, &byte, 1), MKEY_DENIED);
	assert_int_equal(read_by(list, 48, &byte, 1), MKEY_OK);
}

static void reserved_fields_are_refused(void **state)
{
	struct way w = make_way(ALL);
	const struct {
		const char *name;
		struct spec s;
		bool direct;
		uint32_t vhca, target;
	} t[] = {
		{ "direct, pages", { MTT }, true, 0, 0 },
		{ "direct, a list", { KSM, .octowords = 4 }, true, 0, 0 },
		{ "direct, UMR", { PA, .umr = true }, true, 0, 0 },
		{ "direct, free", { PA, .free = true }, true, 0, 0 },
		{ "direct, with a translation", { PA, .octowords = 4 }, true, 0, 0 },
		{ "direct, of a process", { PA, .uid = 5 }, true, 0, 0 },
		{ "crossing, direct", { CROSSING, 0, 64 }, true, DIRECT_VHCA, w.ksm },
		{ "crossing, UMR", { CROSSING, 0, 64, .umr = true }, false, DIRECT_VHCA, w.ksm },
		{ "crossing, all addresses", { CROSSING, .length64 = true }, false, DIRECT_VHCA,
		  w.ksm },
		{ "crossing, of a process", { CROSSING, 0, 64, .uid = 5 }, false, DIRECT_VHCA,
		  w.ksm },
		{ "crossing, to another device", { CROSSING, 0, 64 }, false, DIRECT_VHCA + 1,
		  w.ksm },
		{ "crossing, to nothing", { CROSSING, 0, 64 }, false, DIRECT_VHCA, 0x7ff00 },
		{ "crossing, wrong variant", { CROSSING, 0, 64 }, false, DIRECT_VHCA, w.ksm + 1 },
		{ "crossing, to the PA key", { CROSSING, 0, 64 }, false, DIRECT_VHCA, w.pa },
		{ "crossing, nested", { CROSSING, 0, 64 }, false, DIRECT_VHCA, w.crossing },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		size_t before = hca.memory;
		uint32_t key;

		print_message("  %s\n", t[i].name);
		assert_int_equal(make(t[i].s, t[i].direct, t[i].vhca, t[i].target, &key),
				 CMD_BAD_PARAM);
		assert_int_equal(hca.memory, before);
	}
}

static void card_without_the_function_has_no_such_keys(void **state)
{
	uint32_t ksm = make_way(ALL).ksm, key;

	hca.direct = NULL;
	assert_int_equal(make((struct spec){ PA, .length64 = true }, true, 0, 0, &key),
			 CMD_BAD_PARAM);
	assert_int_equal(make((struct spec){ CROSSING, 0, 64 }, false, DIRECT_VHCA, ksm, &key),
			 CMD_BAD_PARAM);
	assert_int_equal(make((struct spec){ KSM, .octowords = 4 }, false, 0, 0, &key), CMD_OK);
}

static enum cmd_status query_vuid(uint16_t uid, bool direct, bool vfs, uint32_t vhca)
{
	static u8 q[IFC_BYTES(query_vuid_in)];
	struct cmd c = { .in = q, .in_len = sizeof(q), .out = out, .out_len = 64 + VPD_VUID,
			 .uid = uid };

	memset(q, 0, sizeof(q));
	memset(out, 0, sizeof(out));
	IFC_SET(query_vuid_in, q, data_direct, direct);
	IFC_SET(query_vuid_in, q, query_vfs_vuid, vfs);
	IFC_SET(query_vuid_in, q, vhca_id, vhca);
	return direct_ops[0].run(&hca, &c);
}

static void vuid_is_told_to_the_driver_alone(void **state)
{
	assert_int_equal(query_vuid(0, true, false, DIRECT_VHCA), CMD_OK);
	assert_int_equal(IFC_GET(query_vuid_out, out, num_of_entries), 1);
	assert_string_equal((const char *)out + 64, "MRFD0000000000001234MLNXS0D0F0");
	assert_int_equal(query_vuid(5, true, false, DIRECT_VHCA), CMD_BAD_OP);
	assert_int_equal(query_vuid(0, false, false, DIRECT_VHCA), CMD_BAD_PARAM);
	assert_int_equal(query_vuid(0, true, true, DIRECT_VHCA), CMD_BAD_PARAM);
	assert_int_equal(query_vuid(0, true, false, DIRECT_VHCA + 1), CMD_BAD_PARAM);
	hca.direct = NULL;
	assert_int_equal(query_vuid(0, true, false, DIRECT_VHCA), CMD_BAD_OP);
}

static void trace_says_where_a_key_leads(void **state)
{
	struct way w = make_way(ALL);
	struct cmd c = { 0 };
	char wanted[sizeof(c.what)];

	tracing = true;
	direct_says(&hca, &c, mkey_get(&hca, w.crossing >> 8));
	tracing = false;
	snprintf(wanted, sizeof(wanted),
		 "mkey %#x length 0x12000 crosses to %#x, in pages of 1 << 12", w.crossing, w.ksm);
	assert_string_equal(c.what, wanted);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, direct_up, direct_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(access_leaves_by_the_second_function),
		CASE(atomic_is_a_word_of_the_second_function),
		CASE(bounds_and_rights_count_at_each_key),
		CASE(key_without_its_function_is_dead),
		CASE(processes_do_not_reach_the_inner_keys),
		CASE(reserved_fields_are_refused),
		CASE(card_without_the_function_has_no_such_keys),
		CASE(vuid_is_told_to_the_driver_alone),
		CASE(trace_says_where_a_key_leads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
