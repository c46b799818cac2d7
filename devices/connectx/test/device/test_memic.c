// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* Device memory: allocation, reuse, the view from the CPU, and its operations. */
#include "fake_parts.h"
#include "bar.h"
#include "memic.h"
#include "pci.h"

#define START HCA_MEMIC_START
#define SIZE HCA_MEMIC_SIZE
#define PAGE 4096u

static int up(void **state)
{
	rig_setup(state);
	rig_up(*state);
	return 0;
}

static enum cmd_status alloc(struct hca *hca, uint64_t start, uint32_t range, uint32_t size,
			     uint32_t align, uint64_t *addr)
{
	u8 in[IFC_BYTES(alloc_memic_in)] = { 0 }, out[IFC_BYTES(alloc_memic_out)];
	enum cmd_status status;

	IFC_SET(alloc_memic_in, in, log_memic_addr_alignment, align);
	IFC_SET64(alloc_memic_in, in, range_start_addr, start);
	IFC_SET(alloc_memic_in, in, range_size, range);
	IFC_SET(alloc_memic_in, in, memic_size, size);
	status = run(hca, MLX5_CMD_OP_ALLOC_MEMIC, 0, in, sizeof(in), out, sizeof(out));
	if (addr)
		*addr = IFC_GET64(alloc_memic_out, out, memic_start_addr);
	return status;
}

static enum cmd_status dealloc(struct hca *hca, uint64_t addr, uint32_t size)
{
	u8 in[IFC_BYTES(dealloc_memic_in)] = { 0 }, out[16];

	IFC_SET64(dealloc_memic_in, in, memic_start_addr, addr);
	IFC_SET(dealloc_memic_in, in, memic_size, size);
	return run(hca, MLX5_CMD_OP_DEALLOC_MEMIC, 0, in, sizeof(in), out, 16);
}

static enum cmd_status modify(struct hca *hca, uint16_t op_mod, uint64_t addr, u8 op,
			      uint64_t *op_addr)
{
	u8 in[IFC_BYTES(modify_memic_in)] = { 0 }, out[IFC_BYTES(modify_memic_out)];
	enum cmd_status status;

	IFC_SET(modify_memic_in, in, memic_operation_type, op);
	IFC_SET64(modify_memic_in, in, memic_start_addr, addr);
	status = run(hca, MLX5_CMD_OP_MODIFY_MEMIC, op_mod, in, sizeof(in), out, sizeof(out));
	if (op_addr)
		*op_addr = IFC_GET64(modify_memic_out, out, memic_operation_addr);
	return status;
}

static u8 load(struct hca *hca, uint64_t addr)
{
	u8 v = 0xaa;

	hca_bar_read(hca, addr, &v, 1);
	return v;
}

static void store(struct hca *hca, uint64_t addr, u8 v)
{
	hca_bar_write(hca, addr, &v, 1);
}

static void bad_alloc_memic_is_bad_param(void **state)
{
	static const struct { uint64_t start; uint32_t range, size, align; } t[] = {
		{ START, PAGE, 0, 0 }, { START, PAGE, 1, 0 }, { START, PAGE, 65, 0 },
		{ START, PAGE, PAGE + 64, 0 }, { START, PAGE, 64, 7 }, { START, PAGE, 64, 0xff },
		{ START - PAGE, PAGE, 64, 0 }, { 0, PAGE, 64, 0 }, { START + 1, PAGE, 64, 0 },
		{ START + SIZE, PAGE, 64, 0 }, { START + SIZE - PAGE, 2 * PAGE, 64, 0 },
		{ START, SIZE + PAGE, 64, 0 }, { START, 0xffffffff, 0xffffffc0, 0 },
		{ 0xffffffffffffffc0, PAGE, 64, 0 }, { START + PAGE, 0xfffff000, 64, 0 },
	};
	struct hca *hca = *state;

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++)
		assert_int_equal(alloc(hca, t[i].start, t[i].range, t[i].size, t[i].align, NULL),
				 CMD_BAD_PARAM);
}

static void dm_is_aligned_and_fills_its_range(void **state)
{
	struct hca *hca = *state;
	uint64_t a, b, c;

	assert_int_equal(alloc(hca, START + PAGE, PAGE, 64, 0, &a), CMD_OK);
	assert_int_equal(a, START + PAGE);
	assert_int_equal(alloc(hca, START + PAGE, PAGE, 128, 2, &b), CMD_OK);
	assert_int_equal(b, START + PAGE + 256);
	assert_int_equal(alloc(hca, START + PAGE, PAGE, 192, 0, &c), CMD_OK);
	assert_int_equal(c, START + PAGE + 64);
	/* 58 blocks are left, in one piece; a page in this range is not. */
	assert_int_equal(alloc(hca, START + PAGE, PAGE, 59 * 64, 0, NULL), CMD_NO_RESOURCES);
	assert_int_equal(alloc(hca, START + PAGE, PAGE, PAGE, 6, NULL), CMD_NO_RESOURCES);
	assert_int_equal(alloc(hca, START + PAGE, PAGE, 58 * 64, 0, NULL), CMD_OK);
	assert_int_equal(alloc(hca, START + PAGE, PAGE, 64, 0, NULL), CMD_NO_RESOURCES);
	/* All that there is, in the end. */
	hca_reset(hca);
	rig_up(hca);
	assert_int_equal(alloc(hca, START, SIZE, SIZE, 6, &a), CMD_OK);
	assert_int_equal(alloc(hca, START, SIZE, 64, 0, NULL), CMD_NO_RESOURCES);
	assert_non_null(memic_at(hca, START, SIZE));
	assert_int_equal(dealloc(hca, a, SIZE), CMD_OK);
	assert_null(memic_at(hca, START, 1));
}

static void dealloc_takes_exact_allocations_only(void **state)
{
	struct hca *hca = *state;
	uint64_t a;

	assert_int_equal(alloc(hca, START, PAGE, 256, 0, &a), CMD_OK);
	assert_int_equal(dealloc(hca, a + 64, 64), CMD_BAD_RES);
	assert_int_equal(dealloc(hca, a + 1, 256), CMD_BAD_RES);
	assert_int_equal(dealloc(hca, a + PAGE, 256), CMD_BAD_RES);
	assert_int_equal(dealloc(hca, 0, 256), CMD_BAD_RES);
	assert_int_equal(dealloc(hca, START + SIZE, 256), CMD_BAD_RES);
	assert_int_equal(dealloc(hca, 0xffffffffffffffff, 256), CMD_BAD_RES);
	assert_int_equal(dealloc(hca, a, 128), CMD_BAD_PARAM);
	assert_int_equal(dealloc(hca, a, 256), CMD_OK);
	assert_int_equal(dealloc(hca, a, 256), CMD_BAD_RES);
}

static void dm_is_zeroed_before_reuse(void **state)
{
	struct hca *hca = *state;
	uint64_t a, b;

	assert_int_equal(alloc(hca, START, PAGE, PAGE, 0, &a), CMD_OK);
	for (unsigned int i = 0; i < PAGE; i++)
		store(hca, a + i, 0x5a);
	assert_int_equal(load(hca, a + PAGE - 1), 0x5a);
	assert_int_equal(dealloc(hca, a, PAGE), CMD_OK);
	/* Neither while it is free, nor to its next owner, nor after a reset. */
	assert_int_equal(load(hca, a), 0);
	store(hca, a, 1);
	assert_int_equal(alloc(hca, START, PAGE, PAGE, 0, &b), CMD_OK);
	assert_int_equal(a, b);
	for (unsigned int i = 0; i < PAGE; i++)
		assert_int_equal(load(hca, b + i), 0);
	store(hca, b, 1);
	hca_reset(hca);
	rig_up(hca);
	assert_int_equal(alloc(hca, START, PAGE, 64, 0, &b), CMD_OK);
	assert_int_equal(load(hca, b), 0);
}

static void dm_is_seen_through_the_bar(void **state)
{
	static const u8 text[8] = "abcdefgh";
	struct hca *hca = *state;
	uint64_t a;
	u8 v[8];

	assert_int_equal(alloc(hca, START, PAGE, 128, 0, &a), CMD_OK);
	for (size_t size = 1; size <= 8; size *= 2) {
		hca_bar_write(hca, a + 60, "\0\0\0\0\0\0\0", 8);
		hca_bar_write(hca, a + 60, text, size);
		hca_bar_read(hca, a + 60, v, 8);
		assert_memory_equal(v, text, size);
		if (size < 8)
			assert_int_equal(v[size], 0);
	}
	assert_memory_equal(memic_at(hca, a + 60, 8), text, 8);
	/* Half of it is not allocated: it does not happen. */
	hca_bar_write(hca, a + 124, text, 8);
	hca_bar_read(hca, a + 124, v, 4);
	assert_int_equal(be32_at(v), 0);
	assert_int_equal(qp_rung.count + eq_rung.count + cq_rung.count, 0);
}

static void memic_at_gives_no_pointer_outside(void **state)
{
	static const struct { uint64_t offset; size_t len; bool ok; } t[] = {
		{ START, 1, true }, { START, 128, true }, { START + 127, 1, true },
		{ START, 129, false }, { START + 128, 1, false }, { START - 1, 2, false },
		{ START, 0, false }, { START, SIZE_MAX, false }, { START + 64, SIZE_MAX, false },
		{ 0, 1, false }, { UINT64_MAX, 2, false }, { START + SIZE, 1, false },
		{ START + SIZE - 64, 64, true }, { START + SIZE - 64, 65, false },
	};
	struct hca *hca = *state;

	assert_int_equal(alloc(hca, START, PAGE, 128, 0, NULL), CMD_OK);
	assert_int_equal(alloc(hca, START + SIZE - 64, 64, 64, 0, NULL), CMD_OK);
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++)
		assert_int_equal(memic_at(hca, t[i].offset, t[i].len) != NULL, t[i].ok);
}

/* As rdma-core's test_mlx5_dm_ops.py goes. */
static void dm_operations_increment_and_test_and_set(void **state)
{
	struct hca *hca = *state;
	uint64_t a, inc, tas;
	u8 v[8];

	assert_int_equal(alloc(hca, START + PAGE, 2 * PAGE, 2 * PAGE, 0, &a), CMD_OK);
	assert_int_equal(modify(hca, 0, a, HCA_MEMIC_INCREMENT, &inc), CMD_OK);
	assert_int_equal(modify(hca, 0, a, HCA_MEMIC_TEST_AND_SET, &tas), CMD_OK);
	/* The driver maps the page around it, as many bytes as the memory has. */
	assert_int_equal(inc % PAGE, a % PAGE);
	assert_true(inc >= START + SIZE && tas >= START + SIZE && inc != tas);
	assert_true(inc + 2 * PAGE <= PCI_BAR_SIZE && tas + 2 * PAGE <= PCI_BAR_SIZE);
	store(hca, inc, 1);
	store(hca, inc, 1);
	assert_int_equal(load(hca, a), 2);
	assert_int_equal(load(hca, tas), 2);
	assert_int_equal(load(hca, tas), 1);
	assert_int_equal(load(hca, a), 1);
	store(hca, inc + 100, 0xff);
	store(hca, inc + 100, 3);
	assert_int_equal(load(hca, a + 100), 2);
	assert_int_equal(load(hca, a + 101), 0);
	/* What is no operation: the other direction, and more than a byte. */
	assert_int_equal(load(hca, inc), 0);
	store(hca, tas, 7);
	hca_bar_write(hca, inc, "\1\1\1\1", 4);
	hca_bar_read(hca, tas, v, 8);
	assert_int_equal(be64_at(v), 0);
	assert_int_equal(load(hca, a), 1);
}

static void dm_operations_open_and_close(void **state)
{
	struct hca *hca = *state;
	uint64_t a, b, inc;

	assert_int_equal(alloc(hca, START, PAGE, PAGE, 0, &a), CMD_OK);
	assert_int_equal(alloc(hca, START + PAGE, PAGE, PAGE, 0, &b), CMD_OK);
	inc = a + SIZE;
	store(hca, inc, 1);
	assert_int_equal(load(hca, a), 0);
	assert_int_equal(modify(hca, 0, a + 64, 0, NULL), CMD_BAD_RES);
	assert_int_equal(modify(hca, 0, a, HCA_MEMIC_OPS, NULL), CMD_BAD_PARAM);
	assert_int_equal(modify(hca, 0, a, 0xff, NULL), CMD_BAD_PARAM);
	assert_int_equal(modify(hca, 2, a, 0, NULL), CMD_BAD_PARAM);
	assert_int_equal(modify(hca, 1, a, 0, NULL), CMD_BAD_RES_STATE);
	assert_int_equal(modify(hca, 0, a, 0, &inc), CMD_OK);
	assert_int_equal(modify(hca, 0, a, 0, NULL), CMD_BAD_RES_STATE);
	/* For this one only. */
	store(hca, inc, 1);
	store(hca, inc + PAGE, 1);
	assert_int_equal(load(hca, a), 1);
	assert_int_equal(load(hca, b), 0);
	assert_int_equal(dealloc(hca, a, PAGE), CMD_BAD_RES_STATE);
	assert_int_equal(modify(hca, 1, a, 0, NULL), CMD_OK);
	store(hca, inc, 1);
	assert_int_equal(load(hca, a), 1);
	assert_int_equal(dealloc(hca, a, PAGE), CMD_OK);
	assert_int_equal(modify(hca, 0, a, 0, NULL), CMD_BAD_RES);
	/* The last byte of the BAR, in no window. */
	assert_int_equal(load(hca, PCI_BAR_SIZE - 1), 0);
	store(hca, PCI_BAR_SIZE - 1, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, up, rig_teardown)
		T(bad_alloc_memic_is_bad_param),
		T(dm_is_aligned_and_fills_its_range),
		T(dealloc_takes_exact_allocations_only),
		T(dm_is_zeroed_before_reuse),
		T(dm_is_seen_through_the_bar),
		T(memic_at_gives_no_pointer_outside),
		T(dm_operations_increment_and_test_and_set),
		T(dm_operations_open_and_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
