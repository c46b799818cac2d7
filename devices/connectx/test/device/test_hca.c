// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The device as a whole: BAR 0, start and stop, the pages that it gets, its numbers and its
 * memory.
 */
#include "fake_parts.h"
#include "bar.h"
#include "caps.h"
#include "pci.h"

static uint32_t bar_read32(struct hca *hca, uint64_t offset)
{
	u8 v[4];

	hca_bar_read(hca, offset, v, 4);
	return be32_at(v);
}

static void bar32(struct hca *hca, uint64_t offset, uint32_t value)
{
	u8 v[4];

	put_be32(v, value);
	hca_bar_write(hca, offset, v, 4);
}

static void bar64(struct hca *hca, uint64_t offset, uint32_t high, uint32_t low)
{
	u8 v[8];

	put_be32(v, high);
	put_be32(v + 4, low);
	hca_bar_write(hca, offset, v, 8);
}

/* A command without more input than the first 16 bytes. */
static enum cmd_status simple(struct hca *hca, uint16_t op, uint16_t op_mod, uint32_t word2,
			      uint32_t word3, uint32_t *result)
{
	u8 in[16] = { 0 }, out[288];
	enum cmd_status status;

	put_be32(in + 8, word2);
	put_be32(in + 12, word3);
	status = run(hca, op, op_mod, in, sizeof(in), out, sizeof(out));
	if (result)
		*result = be32_at(out + 8);
	return status;
}

static void bar_shows_the_init_segment(void **state)
{
	static const struct { uint32_t offset, value; } t[] = {
		{ 0x0, 28 << 16 | 12 }, { 0x4, 5 << 16 | 1000 }, { 0x10, 0 }, { 0x14, 0x56 },
		{ 0x18, 0 }, { 0x1fc, 0 }, { 0x230, 0x0c1c03e8 }, { 0x1ffc, 0 }, { 0x2000, 0 },
		{ 0x10000, 0 }, { 0xfffffc, 0 }, { 0x1fffffc, 0 },
	};
	struct hca *hca = *state;
	u8 v[8];

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++)
		assert_int_equal(bar_read32(hca, t[i].offset), t[i].value);
	/* Other sizes, and reads that are not inside. */
	hca_bar_read(hca, 0x17, v, 1);
	assert_int_equal(v[0], 0x56);
	hca_bar_read(hca, 0x6, v, 2);
	assert_int_equal(be16_at(v), 1000);
	memset(v, 0xaa, 8);
	hca_bar_read(hca, PCI_BAR_SIZE - 4, v, 8);
	assert_int_equal(be32_at(v), 0);
	hca_bar_read(hca, 0xffffffffffffffff, v, 8);
	hca_bar_write(hca, 0xffffffffffffffff, v, 8);
	hca_bar_write(hca, PCI_BAR_SIZE - 4, v, 8);
}

static void clock_and_health_counter_advance(void **state)
{
	struct hca *hca = *state;
	uint32_t health;
	u8 v[8];

	fake_now = 1000000;
	assert_int_equal(hca_clock(hca), 156000);
	assert_int_equal(bar_read32(hca, 0x1004), 156000);
	/* A year of up time: more than 2^32 ticks, and no overflow on the way. */
	fake_now = 31536000ull * 1000000000;
	assert_int_equal(hca_clock(hca), 31536000ull * 156000000);
	assert_int_equal(bar_read32(hca, 0x1000), (31536000ull * 156000000) >> 32);
	hca_bar_read(hca, 0x1000, v, 8);
	assert_int_equal(be64_at(v), hca_clock(hca));
	health = bar_read32(hca, 0x1010);
	assert_int_not_equal(bar_read32(hca, 0x1010), health);
}

/* Doorbells reach their object if it was created with the UAR in which they ring. */
static void doorbell_rings_in_its_own_uar_only(void **state)
{
	struct hca *hca = *state;
	static struct eq eq;	/* they stay in the tables until the reset */
	static struct cq cq;
	static struct qp qp;
	uint32_t uar, other;
	uint64_t page;

	rig_up(hca);
	assert_int_equal(simple(hca, MLX5_CMD_OP_ALLOC_UAR, 0, 0, 0, &uar), CMD_OK);
	assert_int_equal(simple(hca, MLX5_CMD_OP_ALLOC_UAR, 0, 0, 0, &other), CMD_OK);
	assert_true(uar >= HCA_UAR_FIRST && other != uar && hca_uar(hca, 0, uar));
	eq.uar = cq.uar = qp.uar = hca_uar(hca, 0, uar);
	hca_uar(hca, 0, uar)->users = 3;
	assert_int_equal(table_add(&hca->eqs, &eq), 1);
	assert_int_equal(table_add(&hca->cqs, &cq), 1);
	assert_int_equal(table_add(&hca->qps, &qp), 0x40);

	page = (uint64_t)uar * 4096;
	bar32(hca, page + 0x40, 1 << 24 | 77);
	assert_int_equal(eq_rung.count, 1);
	assert_int_equal(eq_rung.value, 1 << 24 | 77);
	assert_true(eq_rung.arm);
	bar32(hca, page + 0x48, 1 << 24 | 78);
	assert_false(eq_rung.arm);
	bar32(hca, page + 0x48, 2 << 24);
	assert_int_equal(eq_rung.count, 2);

	bar64(hca, page + 0x20, 0x10000005, 1);
	assert_int_equal(cq_rung.count, 1);
	assert_int_equal(cq_rung.value, 0x10000005);
	assert_int_equal(cq_rung.number, 1);
	bar32(hca, page + 0x20, 0x20000006);
	assert_int_equal(cq_rung.count, 1);
	bar32(hca, page + 0x24, 1);
	assert_int_equal(cq_rung.count, 2);
	assert_int_equal(cq_rung.value, 0x20000006);

	for (unsigned int reg = 0x800; reg < 0x1000; reg += 0x100)
		bar64(hca, page + reg, 0x1234560a, 0x40 << 8 | 3);
	assert_int_equal(qp_rung.count, 8);
	assert_int_equal(qp_rung.number, 0x40);
	bar32(hca, page + 0x800, 0x1234560a);
	bar32(hca, page + 0x804, 0x40 << 8 | 3);
	assert_int_equal(qp_rung.count, 9);
	/* The rest of a WQE that is written through BlueFlame. */
	bar64(hca, page + 0x810, 0, 0x40 << 8);
	bar64(hca, page + 0x804, 0x40 << 8, 0x40 << 8);
	hca_bar_write(hca, page + 0x804, "\x00\x40", 2);
	assert_int_equal(qp_rung.count, 9);

	/* Another UAR, and one that was not given out. */
	for (unsigned int i = 0; i < 2; i++) {
		page = (uint64_t)(i ? 0x800 : other) * 4096;
		bar32(hca, page + 0x40, 1 << 24);
		bar64(hca, page + 0x20, 0, 1);
		bar64(hca, page + 0x800, 0, 0x40 << 8);
	}
	assert_int_equal(eq_rung.count + cq_rung.count + qp_rung.count, 2 + 2 + 9);

	assert_int_equal(simple(hca, MLX5_CMD_OP_DEALLOC_UAR, 0, other, 0, NULL), CMD_OK);
	assert_int_equal(simple(hca, MLX5_CMD_OP_DEALLOC_UAR, 0, other, 0, NULL), CMD_BAD_RES);
	assert_null(hca_uar(hca, 0, other));
}

/* A page that is given back while objects use it: closed at once, and free when they go. */
static void freed_uar_in_use_is_closed(void **state)
{
	struct hca *hca = *state;
	struct uar *used;
	uint32_t uar, other;
	size_t memory;
	struct cq cq;

	rig_up(hca);
	memory = hca->memory;
	assert_int_equal(simple(hca, MLX5_CMD_OP_ALLOC_UAR, 0, 0, 0, &uar), CMD_OK);
	used = hca_uar(hca, 0, uar);
	used->users = 2;
	cq.uar = used;
	assert_int_equal(table_add(&hca->cqs, &cq), 1);

	assert_int_equal(simple(hca, MLX5_CMD_OP_DEALLOC_UAR, 0, uar, 0, NULL), CMD_OK);
	assert_null(hca_uar(hca, 0, uar));
	bar64(hca, (uint64_t)uar * 4096 + 0x20, 0, 1);
	assert_int_equal(cq_rung.count, 0);
	assert_int_equal(simple(hca, MLX5_CMD_OP_DEALLOC_UAR, 0, uar, 0, NULL), CMD_BAD_RES);
	assert_int_equal(simple(hca, MLX5_CMD_OP_ALLOC_UAR, 0, 0, 0, &other), CMD_OK);
	assert_int_not_equal(uar, other);
	assert_int_equal(simple(hca, MLX5_CMD_OP_DEALLOC_UAR, 0, other, 0, NULL), CMD_OK);

	hca_uar_put(hca, used);
	assert_ptr_equal(table_get(&hca->uars, uar), used);
	hca_uar_put(hca, used);
	assert_null(table_get(&hca->uars, uar));
	assert_int_equal(hca->memory, memory);
	table_del(&hca->cqs, 1);
}

/* The driver may ask for fewer QPs than there are; what it set is in force from INIT_HCA on. */
static void log_max_qp_limits_the_qps(void **state)
{
	u8 in[16 + 4096] = { 0 }, out[16];
	struct hca *hca = *state;

	rig_up(hca);
	hca->initialized = false;
	memcpy(in + 16, caps_general(hca), IFC_BYTES(cmd_hca_cap));
	IFC_SET(cmd_hca_cap, in + 16, log_max_qp, 6);
	assert_int_equal(run(hca, MLX5_CMD_OP_SET_HCA_CAP, 0, in, sizeof(in), out, 16),
			 CMD_BAD_PARAM);
	IFC_SET(cmd_hca_cap, in + 16, log_max_qp, 7);
	assert_int_equal(run(hca, MLX5_CMD_OP_SET_HCA_CAP, 0, in, sizeof(in), out, 16), CMD_OK);
	memset(in, 0, 64);
	hca->issi = 1;
	assert_int_equal(run(hca, MLX5_CMD_OP_INIT_HCA, 0, in, 64, out, 16), CMD_OK);
	assert_int_equal(hca->qps.first, 0x40);
	assert_int_equal(hca->qps.max, 0x40);
	hca_reset(hca);
	rig_up(hca);
	assert_int_equal(CAP(hca, log_max_qp), HCA_LOG_QPS);
}

static void start_commands_work_in_order_only(void **state)
{
	struct hca *hca = *state;
	u8 in[64] = { 0 }, out[64], issi[IFC_BYTES(query_issi_out)];
	uint32_t word;

	assert_int_equal(simple(hca, MLX5_CMD_OP_ENABLE_HCA, 0, 1, 0, NULL), CMD_BAD_PARAM);
	assert_int_equal(simple(hca, MLX5_CMD_OP_SET_ISSI, 0, 1, 0, NULL), CMD_BAD_SYS_STATE);
	assert_int_equal(simple(hca, MLX5_CMD_OP_ENABLE_HCA, 0, 0, 0, NULL), CMD_OK);
	assert_int_equal(run(hca, MLX5_CMD_OP_INIT_HCA, 0, in, 64, out, 16), CMD_BAD_SYS_STATE);
	assert_int_equal(run(hca, MLX5_CMD_OP_QUERY_ISSI, 0, in, 16, out, 64), CMD_BAD_OUTPUT_LEN);
	assert_int_equal(run(hca, MLX5_CMD_OP_QUERY_ISSI, 0, in, 16, issi, sizeof(issi)), CMD_OK);
	assert_int_equal(IFC_GET(query_issi_out, issi, supported_issi_dw0), 2);
	assert_int_equal(simple(hca, MLX5_CMD_OP_SET_ISSI, 0, 0, 0, NULL), CMD_BAD_PARAM);
	assert_int_equal(simple(hca, MLX5_CMD_OP_SET_ISSI, 0, 1, 0, NULL), CMD_OK);
	memset(in, 0, sizeof(in));
	assert_int_equal(run(hca, MLX5_CMD_OP_INIT_HCA, 0, in, 64, out, 16), CMD_OK);
	assert_int_equal(run(hca, MLX5_CMD_OP_INIT_HCA, 0, in, 64, out, 16), CMD_BAD_SYS_STATE);
	assert_int_equal(simple(hca, MLX5_CMD_OP_ALLOC_PD, 0, 0, 0, &word), CMD_OK);
	/* A crashed kernel's successor begins with ENABLE, and finds nothing. */
	assert_int_equal(simple(hca, MLX5_CMD_OP_ENABLE_HCA, 0, 0, 0, NULL), CMD_OK);
	assert_false(hca_pd_valid(hca, 0, word));
	assert_false(hca->initialized);
}

static void teardown_profile_decides_what_is_freed(void **state)
{
	static const struct { uint32_t profile; enum cmd_status status; bool gone; } t[] = {
		{ 0, CMD_OK, true }, { 1, CMD_OK, true }, { 2, CMD_OK, false },
		{ 3, CMD_BAD_PARAM, false },
	};
	struct hca *hca = *state;
	uint32_t pd, result;

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		rig_up(hca);
		assert_int_equal(simple(hca, MLX5_CMD_OP_ALLOC_PD, 0, 0, 0, &pd), CMD_OK);
		assert_int_equal(simple(hca, MLX5_CMD_OP_TEARDOWN_HCA, 0, t[i].profile, 0,
					&result), t[i].status);
		assert_int_equal(hca_pd_valid(hca, 0, pd), !t[i].gone);
		assert_int_equal(hca->initialized, !t[i].gone);
		assert_int_equal(simple(hca, MLX5_CMD_OP_DISABLE_HCA, 0, 0, 0, NULL), CMD_OK);
		assert_false(hca->enabled);
		assert_false(hca_pd_valid(hca, 0, pd));
	}
}

static uint32_t pages_wanted(struct hca *hca, unsigned int op_mod)
{
	u8 in[16] = { 0 }, out[16];

	assert_int_equal(run(hca, MLX5_CMD_OP_QUERY_PAGES, op_mod, in, 16, out, 16), CMD_OK);
	return IFC_GET(query_pages_out, out, num_pages);
}

static enum cmd_status give(struct hca *hca, uint32_t count, size_t carried, uint64_t first)
{
	static u8 in[16 + 8 * 1000], out[16];

	memset(in, 0, sizeof(in));
	put_be32(in + 12, count);
	for (size_t i = 0; i < carried; i++)
		put_be64(in + 16 + 8 * i, first + 4096 * i);
	return run(hca, MLX5_CMD_OP_MANAGE_PAGES, 1, in, 16 + 8 * carried, out, 16);
}

static void guest_pages_are_given_and_returned(void **state)
{
	struct hca *hca = *state;
	u8 in[16] = { 0 }, out[16 + 8 * 30];
	unsigned int boot, init;
	uint64_t sum = 0;

	boot = pages_wanted(hca, 1);
	assert_true(boot);
	assert_int_equal(give(hca, boot, boot, 0x1000), CMD_OK);
	assert_int_equal(pages_wanted(hca, 1), 0);
	init = pages_wanted(hca, 2);
	assert_int_equal(boot + init, HCA_PAGES);
	assert_int_equal(give(hca, init, init - 1, 0), CMD_BAD_INPUT_LEN);
	assert_int_equal(give(hca, 0xffffffff, 1000, 0), CMD_BAD_INPUT_LEN);
	assert_int_equal(give(hca, 1000, 1000, 0), CMD_LIM_EXCEEDED);
	assert_int_equal(give(hca, 1, 1, 0x1234), CMD_BAD_PARAM);
	assert_int_equal(give(hca, init, init, (boot + 1) * 4096), CMD_OK);
	assert_int_equal(pages_wanted(hca, 2), 0);
	assert_int_equal(pages_wanted(hca, 3), 0);
	assert_int_equal(give(hca, 1, 1, 0), CMD_LIM_EXCEEDED);
	/* Back, as many at a time as the answer has room for, each one once. */
	for (unsigned int got = 0; got < HCA_PAGES;) {
		unsigned int n;

		put_be32(in + 12, 400);
		assert_int_equal(run(hca, MLX5_CMD_OP_MANAGE_PAGES, 2, in, 16, out, sizeof(out)),
				 CMD_OK);
		n = IFC_GET(manage_pages_out, out, output_num_entries);
		assert_true(n && n <= 30);
		for (unsigned int i = 0; i < n; i++)
			sum += be64_at(out + 16 + 8 * i) / 4096;
		got += n;
	}
	assert_int_equal(sum, HCA_PAGES * (HCA_PAGES + 1) / 2);
	assert_int_equal(hca->page_count, 0);
}

/* A number that is freed twice, out of range, or in use. */
static void used_pd_or_xrcd_is_bad_res_state(void **state)
{
	struct hca *hca = *state;
	struct mkey mkey = { .free = true };	/* it may be brought back, in its PD */
	struct srq srq = { 0 };
	struct qp qp = { 0 };
	uint32_t pd, xrcd, td;

	rig_up(hca);
	assert_int_equal(simple(hca, MLX5_CMD_OP_ALLOC_PD, 0, 0, 0, &pd), CMD_OK);
	assert_int_equal(simple(hca, MLX5_CMD_OP_ALLOC_XRCD, 0, 0, 0, &xrcd), CMD_OK);
	assert_int_equal(simple(hca, MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN, 0, 0, 0, &td), CMD_OK);
	assert_true(hca_pd_valid(hca, 0, pd) && hca_xrcd_valid(hca, 0, xrcd));
	assert_false(hca_pd_valid(hca, 0, 0) || hca_pd_valid(hca, 0, 0xffffff));

	for (unsigned int i = 0; i < 3; i++) {
		struct table *t = i == 0 ? &hca->qps : i == 1 ? &hca->srqs : &hca->mkeys;
		void *o = i == 0 ? (void *)&qp : i == 1 ? (void *)&srq : (void *)&mkey;
		uint32_t n = table_add(t, o);

		qp.pd = srq.pd = mkey.pd = pd;
		assert_int_equal(simple(hca, MLX5_CMD_OP_DEALLOC_PD, 0, pd, 0, NULL),
				 CMD_BAD_RES_STATE);
		qp.pd = srq.pd = mkey.pd = pd + 1;
		qp.xrcd = srq.xrcd = i < 2 ? xrcd : 0;
		srq.xrc = true;
		assert_int_equal(simple(hca, MLX5_CMD_OP_DEALLOC_XRCD, 0, xrcd, 0, NULL),
				 i < 2 ? CMD_BAD_RES_STATE : CMD_OK);
		table_del(t, n);
	}
	assert_int_equal(simple(hca, MLX5_CMD_OP_DEALLOC_PD, 0, pd, 0, NULL), CMD_OK);
	assert_int_equal(simple(hca, MLX5_CMD_OP_DEALLOC_PD, 0, pd, 0, NULL), CMD_BAD_RES);
	assert_int_equal(simple(hca, MLX5_CMD_OP_DEALLOC_XRCD, 0, 0xffffff, 0, NULL), CMD_BAD_RES);
	assert_int_equal(simple(hca, MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN, 0, td, 0, NULL), CMD_OK);
	assert_int_equal(simple(hca, MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN, 0, td, 0, NULL),
			 CMD_BAD_RES);
}

static void xrcds_and_uars_run_out(void **state)
{
	struct hca *hca = *state;
	unsigned int n;

	rig_up(hca);
	for (n = 0; simple(hca, MLX5_CMD_OP_ALLOC_XRCD, 0, 0, 0, NULL) == CMD_OK; n++)
		;
	assert_int_equal(n, (1 << HCA_LOG_XRCDS) - 1);
	for (n = 0; simple(hca, MLX5_CMD_OP_ALLOC_UAR, 0, 0, 0, NULL) == CMD_OK; n++)
		assert_true(n < HCA_UARS);
	assert_int_equal(n, HCA_UARS);
}

static void memory_is_counted_and_limited(void **state)
{
	struct hca *hca = *state;
	void *p[40], *small;
	unsigned int n;

	assert_null(hca_alloc(hca, SIZE_MAX));
	assert_null(hca_alloc(hca, HCA_MEMORY));
	assert_int_equal(hca->memory, 0);
	for (n = 0; n < 40 && (p[n] = hca_alloc(hca, 16 << 20)); n++)
		;
	assert_int_equal(n, 15);
	small = hca_alloc(hca, 0);
	assert_non_null(small);
	hca_free_memory(hca, small, 0);
	p[n++] = hca_alloc_beyond(hca, 16 << 20);
	assert_true(hca->memory > HCA_MEMORY);
	assert_null(hca_alloc(hca, 0));
	while (n)
		hca_free_memory(hca, p[--n], 16 << 20);
	assert_int_equal(hca->memory, 0);
	hca_free_memory(hca, NULL, 1000);
	assert_int_equal(hca->memory, 0);
}

static void queries_name_the_adapter_and_special_keys(void **state)
{
	static u8 out[IFC_BYTES(query_adapter_out)];
	struct hca *hca = *state;
	u8 in[16] = { 0 }, contexts[IFC_BYTES(query_special_contexts_out)];
	u8 version[IFC_BYTES(set_driver_version_in)] = { 0 };

	rig_up(hca);
	assert_int_equal(run(hca, MLX5_CMD_OP_QUERY_ADAPTER, 0, in, 16, out, sizeof(out)), CMD_OK);
	assert_int_equal(IFC_GET(query_adapter_param_block, out + 16, ieee_vendor_id), 0x2c9);
	assert_memory_equal(IFC_PTR(query_adapter_param_block, out + 16, vsd_contd_psid),
			    "MRFD_CONNECTX_01", 16);
	assert_int_equal(run(hca, MLX5_CMD_OP_QUERY_SPECIAL_CONTEXTS, 0, in, 16, contexts,
			     sizeof(contexts)), CMD_OK);
	assert_int_equal(IFC_GET(query_special_contexts_out, contexts, resd_lkey), 0x100);
	assert_int_equal(IFC_GET(query_special_contexts_out, contexts, null_mkey), 0x200);
	/* Not ended by a zero, and nothing to show on a terminal. */
	memset(version, '\x1b', sizeof(version));
	put_be32(version, 0);
	put_be32(version + 4, 0);
	assert_int_equal(run(hca, MLX5_CMD_OP_SET_DRIVER_VERSION, 0, version, sizeof(version), in,
			     16), CMD_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
		T(bar_shows_the_init_segment),
		T(clock_and_health_counter_advance),
		T(doorbell_rings_in_its_own_uar_only),
		T(freed_uar_in_use_is_closed),
		T(log_max_qp_limits_the_qps),
		T(start_commands_work_in_order_only),
		T(teardown_profile_decides_what_is_freed),
		T(guest_pages_are_given_and_returned),
		T(used_pd_or_xrcd_is_bad_res_state),
		T(xrcds_and_uars_run_out),
		T(memory_is_counted_and_limited),
		T(queries_name_the_adapter_and_special_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
