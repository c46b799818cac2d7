// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The command queue: a command from the doorbell to the owner bit, and what a hostile guest puts
 * in.
 */
#include "fake_parts.h"
#include "bar.h"
#include "caps.h"

#define QUEUE GUEST_BASE
#define BOXES (GUEST_BASE + 0x10000)	/* mailboxes, 1 KiB apart; those of the output after */
#define OUT_BOXES (GUEST_BASE + 0x800000)
#define TOKEN 0x5a
#define ALLOC_PD MLX5_CMD_OP_ALLOC_PD

static void bar32(struct hca *hca, uint64_t offset, uint32_t value)
{
	u8 v[4];

	put_be32(v, value);
	hca_bar_write(hca, offset, v, 4);
}

static uint32_t bar_read32(struct hca *hca, uint64_t offset)
{
	u8 v[4];

	hca_bar_read(hca, offset, v, 4);
	return be32_at(v);
}

static void set_queue(struct hca *hca)
{
	bar32(hca, 0x10, QUEUE >> 32);
	bar32(hca, 0x14, (uint32_t)QUEUE);
}

static u8 *box(uint64_t boxes, unsigned int i)
{
	return guest_at(boxes + 1024 * i, 576);
}

static void make_chain(uint64_t boxes, size_t len)
{
	unsigned int n = len > 16 ? (len - 16 + 511) / 512 : 0;

	for (unsigned int i = 0; i < n; i++) {
		u8 *b = box(boxes, i);

		memset(b, 0, 576);
		put_be64(b + 560, i + 1 < n ? boxes + 1024 * (i + 1) : 0);
		put_be32(b + 568, i);
		b[573] = TOKEN;
	}
}

/* Write an entry as the driver does, with chains for its lengths. */
static u8 *make_entry(unsigned int slot, const u8 *in, size_t in_len, size_t out_len)
{
	u8 *e = guest_at(QUEUE + 64 * slot, 64);
	size_t first = in_len < 16 ? in_len : 16;

	memset(e, 0, 64);
	e[0] = 7;
	put_be32(e + 4, in_len);
	memcpy(e + 16, in, first);
	make_chain(BOXES, in_len);
	for (size_t at = 16, i = 0; at < in_len; at += 512, i++)
		memcpy(box(BOXES, i), in + at, in_len - at < 512 ? in_len - at : 512);
	make_chain(OUT_BOXES, out_len);
	if (in_len > 16)
		put_be64(e + 8, BOXES);
	if (out_len > 16)
		put_be64(e + 48, OUT_BOXES);
	put_be32(e + 56, out_len);
	e[60] = TOKEN;
	e[63] = 1;
	return e;
}

static const u8 enable_hca[16] = { 0x01, 0x04 };

static void inline_command_runs(void **state)
{
	struct hca *hca = *state;
	u8 *e;

	set_queue(hca);
	e = make_entry(3, enable_hca, 16, 16);
	memset(e + 32, 0xaa, 16);
	bar32(hca, 0x18, 1 << 3);
	assert_true(hca->enabled);
	assert_int_equal(e[63], 0);
	assert_int_equal(e[32], CMD_OK);
	assert_int_equal(be32_at(e + 36), 0);
	/* Polled: nobody subscribed. */
	assert_int_equal(events, 0);
}

static void mailboxes_carry_long_inputs_and_outputs(void **state)
{
	static u8 in[16 + 4096], out[16 + 4096];
	struct hca *hca = *state;
	void *caps = in + 16;
	u8 *e;

	rig_up(hca);
	hca->initialized = false;
	set_queue(hca);
	put_be16(in, MLX5_CMD_OP_QUERY_HCA_CAP);
	e = make_entry(0, in, 16, sizeof(out));
	bar32(hca, 0x18, 1);
	assert_int_equal(e[63], 0);
	for (size_t at = 0; at < 4096; at += 512)
		memcpy(out + 16 + at, box(OUT_BOXES, at / 512), 512);
	assert_int_equal(IFC_GET(cmd_hca_cap, out + 16, log_max_qp), HCA_LOG_QPS);
	assert_int_equal(IFC_GET(cmd_hca_cap, out + 16, device_frequency_khz), 156000);
	/* And in: one block is not enough for this. */
	put_be16(in, MLX5_CMD_OP_SET_HCA_CAP);
	memcpy(caps, out + 16, 4096);
	IFC_SET(cmd_hca_cap, caps, log_max_qp, 9);
	e = make_entry(0, in, sizeof(in), 16);
	bar32(hca, 0x18, 1);
	assert_int_equal(e[63], 0);
	assert_int_equal(e[32], CMD_OK);
	assert_int_equal(CAP(hca, log_max_qp), 9);
}

static void bad_lengths_are_delivery_errors(void **state)
{
	static const struct { uint32_t in, out; u8 delivery; } t[] = {
		{ 0, 16, 7 }, { 7, 16, 7 }, { (4u << 20) + 1, 16, 7 }, { 0xffffffff, 16, 7 },
		{ 16, 0, 8 }, { 16, 7, 8 }, { 16, (1u << 20) + 1, 8 }, { 16, 0xffffffff, 8 },
		/* Longer than the chain. */
		{ 17, 16, 7 }, { 4u << 20, 16, 7 }, { 16, 17, 8 }, { 16, 1u << 20, 8 },
	};
	struct hca *hca = *state;

	set_queue(hca);
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		u8 *e = make_entry(0, enable_hca, 16, 16);

		put_be32(e + 4, t[i].in);
		put_be32(e + 56, t[i].out);
		bar32(hca, 0x18, 1);
		assert_int_equal(e[63], t[i].delivery << 1);
		assert_false(hca->enabled);
	}
}

/* All there, and one byte more than the model takes. */
static void input_is_at_most_4_mib(void **state)
{
	const size_t most = 4u << 20;
	struct hca *hca = *state;

	set_queue(hca);
	for (size_t len = most + 1; len >= most; len--) {
		u8 *e = make_entry(0, enable_hca, 16, 16);

		make_chain(BOXES, len);
		put_be32(e + 4, len);
		put_be64(e + 8, BOXES);
		bar32(hca, 0x18, 1);
		assert_int_equal(e[63], len > most ? 7 << 1 : 0);
		assert_int_equal(hca->enabled, len <= most);
	}
}

enum { IN, OUT };

static void broken_mailbox_chains_are_delivery_errors(void **state)
{
	/* What is written, at which offset of the second mailbox or of the entry. */
	static const struct {
		int chain;
		bool entry;
		unsigned int offset;
		uint64_t value;
		unsigned int size;
		u8 delivery;
	} t[] = {
		{ IN, true, 8, 0, 8, 7 }, { OUT, true, 48, 0, 8, 8 },
		{ IN, true, 8, BOXES + 4, 8, 5 }, { OUT, true, 48, OUT_BOXES + 256, 8, 4 },
		{ IN, true, 8, 0x200, 8, 6 }, { OUT, true, 48, 0x200, 8, 6 },
		{ IN, true, 8, GUEST_BASE + GUEST_SIZE - 512, 8, 6 },
		{ IN, true, 8, 0xfffffffffffffe00, 8, 6 },
		{ OUT, true, 48, 0xfffffffffffffe00, 8, 6 },
		/* The second one: its number, its token, and a loop back to the first. */
		{ IN, false, 568, 2, 4, 3 }, { OUT, false, 568, 0xffffffff, 4, 3 },
		{ IN, false, 573, 0, 1, 2 }, { OUT, false, 573, 0, 1, 2 },
		{ IN, false, 560, BOXES, 8, 3 }, { OUT, false, 560, OUT_BOXES, 8, 3 },
		{ IN, false, 560, BOXES + 1024, 8, 3 }, { OUT, false, 560, OUT_BOXES + 1024, 8, 3 },
		{ IN, false, 560, 0, 8, 7 }, { OUT, false, 560, 0, 8, 8 },
		{ IN, false, 560, BOXES + 1, 8, 5 }, { OUT, false, 560, OUT_BOXES + 8, 8, 4 },
	};
	struct hca *hca = *state;
	u8 in[16 + 3 * 512] = { 0x01, 0x04 };

	set_queue(hca);
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		u8 *e = make_entry(5, in, sizeof(in), sizeof(in));
		u8 *at = t[i].entry ? e : box(t[i].chain == IN ? BOXES : OUT_BOXES, 1);

		if (t[i].size == 8)
			put_be64(at + t[i].offset, t[i].value);
		else if (t[i].size == 4)
			put_be32(at + t[i].offset, t[i].value);
		else
			at[t[i].offset] = t[i].value;
		bar32(hca, 0x18, 1 << 5);
		assert_int_equal(e[63], t[i].delivery << 1);
		assert_false(hca->enabled);
	}
	/* The same without a fault runs. */
	make_entry(5, in, sizeof(in), sizeof(in));
	bar32(hca, 0x18, 1 << 5);
	assert_true(hca->enabled);
}

static void entries_of_other_type_or_owner_do_not_run(void **state)
{
	struct hca *hca = *state;
	u8 *e;

	set_queue(hca);
	e = make_entry(0, enable_hca, 16, 16);
	e[0] = 6;
	bar32(hca, 0x18, 1);
	assert_int_equal(e[63], 0x10 << 1);
	/* Not given to the device. */
	e = make_entry(0, enable_hca, 16, 16);
	e[63] = 0;
	memset(e + 32, 0xaa, 16);
	bar32(hca, 0x18, 1);
	assert_int_equal(e[32], 0xaa);
	assert_false(hca->enabled);
}

static void queue_outside_of_memory_is_noted(void **state)
{
	struct hca *hca = *state;

	/* No queue at all, then one outside, then one at the very end. */
	bar32(hca, 0x18, 0xffffffff);
	assert_int_equal(notes, 0);
	bar32(hca, 0x10, 0xffffffff);
	bar32(hca, 0x14, 0xfffff000);
	bar32(hca, 0x18, 0xffffffff);
	assert_int_equal(notes, 32);
	bar32(hca, 0x10, GUEST_BASE >> 32);
	bar32(hca, 0x14, (uint32_t)(GUEST_BASE + GUEST_SIZE - 4096));
	bar32(hca, 0x18, 0xffffffff);
	assert_int_equal(notes, 32);
}

/* A driver that loads a second time reads the size of the queue again. */
static void queue_size_stays_in_its_register(void **state)
{
	struct hca *hca = *state;

	assert_int_equal(bar_read32(hca, 0x14) & 0xff, 0x56);
	bar32(hca, 0x10, 1);
	bar32(hca, 0x14, 0x7654f000);
	assert_int_equal(bar_read32(hca, 0x10), 1);
	assert_int_equal(bar_read32(hca, 0x14), 0x7654f056);
	assert_int_equal(hca->cmdif->queue, 0x17654f000);
	hca_reset(hca);
	assert_int_equal(bar_read32(hca, 0x14), 0x56);
	assert_int_equal(hca->cmdif->queue, 0);
}

static void commands_complete_by_event(void **state)
{
	struct hca *hca = *state;

	rig_up(hca);
	set_queue(hca);
	subscribed = 1ull << 0x0a;
	for (unsigned int slot = 0; slot < 32; slot++)
		make_entry(slot, (u8[16]) { ALLOC_PD >> 8, ALLOC_PD & 0xff }, 16, 16);
	bar32(hca, 0x18, 1 | 1 << 7 | 1u << 31);
	assert_int_equal(events, 3);
	assert_int_equal(event[0].type, 0x0a);
	assert_int_equal(event[0].len, 4);
	assert_int_equal(be32_at(event[0].data), 1);
	assert_int_equal(be32_at(event[1].data), 1 << 7);
	assert_int_equal(be32_at(event[2].data), 1u << 31);
	/* Lowest first: the numbers of the PDs tell. */
	for (unsigned int i = 0; i < 3; i++) {
		unsigned int slot = (unsigned int[]) { 0, 7, 31 }[i];

		assert_int_equal(be32_at(guest_at(QUEUE + 64 * slot + 40, 4)), i + 1);
	}
	assert_int_equal(*guest_at(QUEUE + 64 + 63, 1), 1);
	/* What is not delivered is completed as well. */
	put_be32(guest_at(QUEUE + 64 + 4, 4), 0);
	bar32(hca, 0x18, 2);
	assert_int_equal(events, 4);
}

static void unknown_command_is_bad_op_and_noted_once(void **state)
{
	struct hca *hca = *state;
	u8 in[16] = { 0 }, out[16];

	rig_up(hca);
	assert_int_equal(run(hca, 0x7ff, 0, in, 16, out, 16), CMD_BAD_OP);
	assert_int_equal(run(hca, 0x7ff, 0, in, 16, out, 16), CMD_BAD_OP);
	assert_int_equal(notes, 1);
	assert_int_equal(run(hca, 0x7fe, 0, in, 16, out, 16), CMD_BAD_OP);
	assert_int_equal(notes, 2);
	assert_int_not_equal(be32_at(out + 4), 0);
	assert_int_equal(run(hca, 0xffff, 0, in, 16, out, 16), CMD_BAD_OP);
}

/* What ran, whether it was refused or not; nothing that the guest makes up. */
static void executed_commands_are_timed(void **state)
{
	static const u8 unknown[16] = { 0x07, 0xff };
	struct hca *hca = *state;
	const struct stats *s = &hca->stats;

	set_queue(hca);
	for (int i = 0; i < 3; i++) {
		make_entry(i, enable_hca, 16, 16);
		bar32(hca, 0x18, 1 << i);
	}
	assert_int_equal(s->rows, 1);
	assert_string_equal(s->row[0].name, "ENABLE_HCA");
	assert_int_equal(s->row[0].number, MLX5_CMD_OP_ENABLE_HCA);
	assert_int_equal(s->row[0].count, 3);
	assert_true(s->row[0].longest && s->row[0].longest <= s->row[0].ns);
	assert_true(s->row[0].ns < stats_clock() - s->began);
	make_entry(0, unknown, 16, 16);
	make_entry(1, enable_hca, 7, 16);	/* not delivered */
	bar32(hca, 0x18, 3);
	bar32(hca, 0x18, 1 << 9);		/* not the device's */
	assert_int_equal(s->rows, 1);
	assert_int_equal(s->row[0].count, 3);
}

static void commands_before_init_are_bad_sys_state(void **state)
{
	static const uint16_t late[] = {
		ALLOC_PD, MLX5_CMD_OP_ALLOC_UAR, MLX5_CMD_OP_QUERY_ADAPTER,
		MLX5_CMD_OP_TEARDOWN_HCA, MLX5_CMD_OP_ALLOC_MEMIC,
		MLX5_CMD_OP_QUERY_HCA_VPORT_CONTEXT, MLX5_CMD_OP_ATTACH_TO_MCG,
	};
	struct hca *hca = *state;
	u8 in[64] = { 0 }, out[1024];

	for (size_t i = 0; i < sizeof(late) / sizeof(*late); i++)
		assert_int_equal(run(hca, late[i], 0, in, sizeof(in), out, sizeof(out)),
				 CMD_BAD_SYS_STATE);
	assert_int_equal(run(hca, MLX5_CMD_OP_INIT_HCA, 0, in, 64, out, 64), CMD_BAD_SYS_STATE);
}

static void short_lengths_are_bad_input_or_output_len(void **state)
{
	struct hca *hca = *state;
	u8 in[64] = { 0 }, out[64];

	rig_up(hca);
	assert_int_equal(run(hca, MLX5_CMD_OP_ALLOC_MEMIC, 0, in, 16, out, 16),
			 CMD_BAD_INPUT_LEN);
	assert_int_equal(run(hca, MLX5_CMD_OP_QUERY_ADAPTER, 0, in, 16, out, 16),
			 CMD_BAD_OUTPUT_LEN);
}

static void unknown_uid_is_bad_param(void **state)
{
	struct hca *hca = *state;
	u8 in[16] = { 0 }, out[16];

	rig_up(hca);
	put_be16(in, ALLOC_PD);
	put_be16(in + 2, 1);
	assert_int_equal(run(hca, NO_OP, 0, in, 16, out, 16), CMD_BAD_PARAM);
	assert_int_equal(table_add(&hca->uctxs, hca), 1);
	assert_int_equal(run(hca, NO_OP, 0, in, 16, out, 16), CMD_OK);
}

/* The end of a fast teardown: nothing runs, and nothing is left that could reach memory. */
static void disabled_interface_stops_commands(void **state)
{
	struct hca *hca = *state;
	u8 in[16] = { 0 }, out[16];

	rig_up(hca);
	set_queue(hca);
	assert_int_equal(run(hca, ALLOC_PD, 0, in, 16, out, 16), CMD_OK);
	bar32(hca, 0x14, (bar_read32(hca, 0x14) & 0xfffff000) | 1 << 8);
	assert_int_equal(bar_read32(hca, 0x14) >> 8 & 7, 1);
	assert_false(hca_pd_valid(hca, 0, 1));
	assert_false(hca->initialized);
	hca->enabled = false;
	make_entry(0, enable_hca, 16, 16);
	bar32(hca, 0x18, 1);
	assert_false(hca->enabled);
	/* The next driver writes the address of its queue. */
	set_queue(hca);
	bar32(hca, 0x18, 1);
	assert_true(hca->enabled);
}

/* No entry and no mailbox may do more than fail.  For the sanitizers. */
static void model_survives_random_commands(void **state)
{
	static const uint64_t places[] = { BOXES, BOXES + 1024, OUT_BOXES, QUEUE, 0, 1 };
	struct hca *hca = *state;

	srandom(1);
	rig_up(hca);
	set_queue(hca);
	for (unsigned int round = 0; round < 20000; round++) {
		u8 in[1100], *e;
		size_t in_len = random() % sizeof(in);

		for (size_t i = 0; i < sizeof(in); i++)
			in[i] = random() % 4 ? 0 : random();
		in[0] = random() % 12;
		in[1] = random();
		put_be16(in + 2, 0);
		e = make_entry(round % 32, in, in_len, 16 + random() % 2048);
		for (int k = random() % 3; k; k--)
			e[random() % 63] = random();
		if (random() % 4 == 0)
			put_be64(e + 8, places[random() % 6]);
		if (random() % 4 == 0)
			put_be64(e + 48, places[random() % 6]);
		bar32(hca, 0x18, 1u << round % 32);
		if (!hca->initialized)
			rig_up(hca);
		notes = 0;
	}
}

/*
 * In the middle of an access a store takes effect later: a command may free what is in use.
 * The order of the stores stays, also for one that comes when the access is over.
 */
static void commands_wait_while_qemu_is_asked(void **state)
{
	const uint32_t disabled = MLX5_INITIAL_SEG_NIC_INTERFACE_DISABLED << 8;
	struct hca *hca = *state;
	u8 *e, *f;

	set_queue(hca);
	e = make_entry(3, enable_hca, 16, 16);
	f = make_entry(4, enable_hca, 16, 16);
	hca->dma->asking = true;
	bar32(hca, 0x18, 1 << 3);
	bar32(hca, 0x18, 1 << 4);
	for (unsigned int i = 0; i < 100; i++)
		bar32(hca, 0x18, 1 << 3);	/* of which there may be many */
	assert_int_equal(hca->bar->count, 1);
	assert_false(hca->enabled);
	hca->dma->asking = false;
	bar32(hca, 0x14, (uint32_t)QUEUE | disabled);
	assert_int_equal(bar_read32(hca, 0x14) & 0x700, 0);
	assert_int_equal(e[63], 1);
	run_queued_work();
	assert_true(hca->enabled);
	assert_int_equal(e[63], 0);
	assert_int_equal(f[63], 0);
	assert_int_equal(bar_read32(hca, 0x14) & 0x700, disabled);
	assert_null(queued_work);
	bar32(hca, 0x14, (uint32_t)QUEUE);		/* at once again */
	assert_int_equal(bar_read32(hca, 0x14) & 0x700, 0);

	/* A bounded number; a reset forgets them. */
	hca->dma->asking = true;
	notes = 0;
	for (unsigned int i = 0; i <= BAR_LATER; i++)
		bar32(hca, 0x14, (uint32_t)QUEUE | disabled);
	assert_int_equal(notes, 1);
	assert_int_equal(hca->bar->count, BAR_LATER);
	hca->dma->asking = false;
	hca_reset(hca);
	assert_null(queued_work);
	set_queue(hca);
	assert_int_equal(bar_read32(hca, 0x14) & ~0xffu, (uint32_t)QUEUE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
		T(inline_command_runs),
		T(mailboxes_carry_long_inputs_and_outputs),
		T(bad_lengths_are_delivery_errors),
		T(input_is_at_most_4_mib),
		T(broken_mailbox_chains_are_delivery_errors),
		T(entries_of_other_type_or_owner_do_not_run),
		T(queue_outside_of_memory_is_noted),
		T(queue_size_stays_in_its_register),
		T(commands_complete_by_event),
		T(unknown_command_is_bad_op_and_noted_once),
		T(executed_commands_are_timed),
		T(commands_before_init_are_bad_sys_state),
		T(short_lengths_are_bad_input_or_output_len),
		T(unknown_uid_is_bad_param),
		T(disabled_interface_stops_commands),
		T(model_survives_random_commands),
		T(commands_wait_while_qemu_is_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
