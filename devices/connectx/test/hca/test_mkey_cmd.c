// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* The commands of memory keys, and invalidation by a peer. */
#include "mkey_world.h"

static void peer_invalidates_permitted_keys_only(void **state)
{
	static const struct {
		const char *name;
		struct spec s;
		uint32_t add, pd, qpn;
		bool want;
	} t[] = {
		{ "a key of any QP", { KLM, .rinval = true }, 0, PD, QPN, true },
		{ "bound to this QP", { KLM, .rinval = true, .qpn = QPN }, 0, PD, QPN, true },
		{ "bound to another", { KLM, .rinval = true, .qpn = QPN + 1 }, 0, PD, QPN, false },
		{ "other PD", { KLM, .rinval = true }, 0, PD + 1, QPN, false },
		{ "does not allow it", { KLM }, 0, PD, QPN, false },
		{ "low byte", { KLM, .rinval = true }, 1, PD, QPN, false },
		{ "is free", { KLM, .rinval = true, .free = true }, 0, PD, QPN, false },
		{ "no such key", { KLM, .rinval = true }, 0x100, PD, QPN, false },
	};
	unsigned int i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint32_t k = create(t[i].s);
		bool was_free = mkey_of(k)->free;

		print_message("  %s\n", t[i].name);
		assert_int_equal(mkey_invalidate_remote(&hca, k + t[i].add, t[i].pd, t[i].qpn),
				 t[i].want);
		assert_int_equal(mkey_of(k)->free, t[i].want || was_free);
	}
}

static void bad_create_mkey_is_refused(void **state)
{
	static const uint64_t list[64];
	static const struct {
		const char *name;
		struct spec s;
		enum cmd_status want;
	} t[] = {
		{ "bus addresses from user space", { PA, .uid = 1 }, CMD_BAD_PARAM },
		{ "pages from user space", { MTT, .uid = 1 }, CMD_BAD_PARAM },
		{ "MEMIC from user space", { DM, MEMIC, 64, .uid = 1 }, CMD_BAD_PARAM },
		{ "a list from user space", { KLM, .uid = 1, .octowords = 4 }, CMD_OK },
		{ "SW ICM", { 4 }, CMD_BAD_PARAM },
		{ "crossing", { 6 }, CMD_BAD_PARAM },
		{ "mode 7", { 7 }, CMD_BAD_PARAM },
		{ "no such PD", { PA, .pd = 16 }, CMD_BAD_RES },
		{ "KLM list too long", { KLM, .octowords = 65537 }, CMD_LIM_EXCEEDED },
		{ "KSM list, all memory", { KSM, .octowords = HCA_MEMORY / 16 }, CMD_LIM_EXCEEDED },
		{ "MTT list, 64 GiB", { MTT, .octowords = -1u }, CMD_LIM_EXCEEDED },
		{ "KSM for 128 TiB", { KSM, .octowords = 131072 }, CMD_OK },
		{ "more entries than it has", { MTT, .octowords = 1, .actual = 2, .list = list },
		  CMD_BAD_PARAM },
		{ "entries without a list", { MTT, .actual = 1, .list = list }, CMD_BAD_PARAM },
		{ "MEMIC not allocated", { DM, MEMIC, 0x1001 }, CMD_BAD_PARAM },
		{ "MEMIC, all addresses", { DM, MEMIC, 64, .length64 = true }, CMD_BAD_PARAM },
		{ "MEMIC, huge", { DM, MEMIC, -1ull }, CMD_BAD_PARAM },
	};
	unsigned int i;
	size_t len;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		size_t before = hca.memory;

		print_message("  %s\n", t[i].name);
		len = spec_fill(&t[i].s);
		assert_int_equal(command(mkey_ops, MLX5_CMD_OP_CREATE_MKEY, in, len, out),
				 t[i].want);
		if (t[i].want)
			assert_int_equal(hca.memory, before);
	}
	/* The command's own fields. */
	len = spec_fill(&(struct spec){ MTT, .octowords = 1, .actual = 1, .list = list });
	assert_int_equal(command(mkey_ops, MLX5_CMD_OP_CREATE_MKEY, in, len - 1, out),
			 CMD_BAD_PARAM);
	IFC_SET(create_mkey_in, in, mkey_umem_valid, 1);
	assert_int_equal(command(mkey_ops, MLX5_CMD_OP_CREATE_MKEY, in, len, out), CMD_BAD_RES);
	len = spec_fill(&(struct spec){ PA });
	IFC_SET(mkc, in + 16, bsf_en, 1);
	assert_int_equal(command(mkey_ops, MLX5_CMD_OP_CREATE_MKEY, in, len, out), CMD_BAD_PARAM);
}

static void mkey_is_queried_and_destroyed_by_its_owner(void **state)
{
	static const uint64_t list[] = { A, B };
	uint32_t k = create((struct spec){ MTT, 0x7000, 0x2000, 12, .octowords = 1, .actual = 1,
					   .list = list, .no_pg_access = true, .variant = 0x11 });
	uint32_t user = create((struct spec){ KLM, .uid = 5, .octowords = 4 });
	const struct mkey_access a = { .key = k, .pd = PD, .rights = RW };
	static u8 sent[IFC_BYTES(mkc)], cmd[16];
	size_t before = hca.memory;

	assert_int_equal(IFC_BYTES(create_mkey_in), 272);
	/* Without pg_access, pages are there. */
	assert_int_equal(mkey_present(&hca, &a, 0x7000, 0x2000, NULL), MKEY_OK);

	spec_fill(&(struct spec){ MTT, 0x7000, 0x2000, 12, .octowords = 1, .variant = 0x11 });
	memcpy(sent, in + 16, sizeof(sent));
	IFC_SET(query_mkey_in, cmd, mkey_index, k >> 8);
	assert_int_equal(command(mkey_ops, MLX5_CMD_OP_QUERY_MKEY, cmd, 16, out), CMD_OK);
	assert_memory_equal(IFC_PTR(query_mkey_out, out, memory_key_mkey_entry), sent,
			    sizeof(sent));

	/* A process reaches its own keys. */
	IFC_SET(destroy_mkey_in, cmd, uid, 5);
	assert_int_equal(command(mkey_ops, MLX5_CMD_OP_QUERY_MKEY, cmd, 16, out), CMD_BAD_RES);
	assert_int_equal(command(mkey_ops, MLX5_CMD_OP_DESTROY_MKEY, cmd, 16, out), CMD_BAD_RES);
	IFC_SET(destroy_mkey_in, cmd, mkey_index, user >> 8);
	assert_int_equal(command(mkey_ops, MLX5_CMD_OP_DESTROY_MKEY, cmd, 16, out), CMD_OK);
	assert_int_equal(command(mkey_ops, MLX5_CMD_OP_DESTROY_MKEY, cmd, 16, out), CMD_BAD_RES);
	assert_true(hca.memory < before);

	memset(cmd, 0, sizeof(cmd));
	IFC_SET(destroy_mkey_in, cmd, mkey_index, k >> 8);
	assert_int_equal(command(mkey_ops, MLX5_CMD_OP_DESTROY_MKEY, cmd, 16, out), CMD_OK);
	assert_int_equal(mkey_check(&hca, &a, 0x7000, 1), MKEY_DENIED);
}

/* Each allocation fails once: nothing stays behind. */
static void create_mkey_without_memory_is_lim_exceeded(void **state)
{
	size_t before = hca.memory, limit;
	enum cmd_status status;

	for (limit = before; ; limit += 8) {
		size_t len = spec_fill(&(struct spec){ KLM, .octowords = 4 });

		memory_limit = limit;
		status = command(mkey_ops, MLX5_CMD_OP_CREATE_MKEY, in, len, out);
		if (status == CMD_OK)
			break;
		assert_int_equal(status, CMD_LIM_EXCEEDED);
		assert_int_equal(hca.memory, before);
	}
	assert_int_equal(limit - before, sizeof(struct mkey) + 4 * 24);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, world_up, world_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(peer_invalidates_permitted_keys_only), CASE(bad_create_mkey_is_refused),
		CASE(mkey_is_queried_and_destroyed_by_its_owner),
		CASE(create_mkey_without_memory_is_lim_exceeded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
