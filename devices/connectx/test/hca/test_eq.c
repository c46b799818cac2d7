// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* Event queues: owner bits, interrupts, subscriptions, a full EQ, and hostile commands. */
#include "event_fakes.h"

#define EQ_AT 0x1000
#define COMM_EST MLX5_EVENT_TYPE_CODING_COMMUNICATION_ESTABLISHED
#define CMD_DONE MLX5_EVENT_TYPE_CODING_COMMAND_INTERFACE_COMPLETION

static bool send(unsigned int type, uint32_t value)
{
	u8 data[4];

	put_be32(data, value);
	return event_send(hca, type, 7, data, sizeof(data));
}

static enum cmd_status destroy_eq(uint32_t number)
{
	u8 in[IFC_BYTES(destroy_eq_in)] = { }, out[IFC_BYTES(destroy_eq_out)];

	IFC_SET(destroy_eq_in, in, opcode, MLX5_CMD_OP_DESTROY_EQ);
	IFC_SET(destroy_eq_in, in, eq_number, number);
	return run(eq_ops, in, sizeof(in), out, sizeof(out));
}

static enum cmd_status query_eq(uint32_t number, u8 *out)
{
	u8 in[IFC_BYTES(query_eq_in)] = { };

	IFC_SET(query_eq_in, in, opcode, MLX5_CMD_OP_QUERY_EQ);
	IFC_SET(query_eq_in, in, eq_number, number);
	return run(eq_ops, in, sizeof(in), out, IFC_BYTES(query_eq_out));
}

static void eqes_arrive_over_many_laps(void **state)
{
	struct eq *eq = make_eq(EQ_AT, 2, 3, BIT_ULL(COMM_EST));
	struct guest_eq g = { .start = EQ_AT, .log_size = 2 };
	const u8 *e;
	uint32_t i;

	assert_null(next_eqe(&g));
	for (i = 0; i < 21; i++) {
		assert_true(send(COMM_EST, 0x1000 + i));
		e = next_eqe(&g);
		assert_non_null(e);
		assert_int_equal(e[1], COMM_EST);
		assert_int_equal(e[3], 7);
		assert_int_equal(be32_at(e + 32), 0x1000 + i);
		assert_int_equal(e[62], 0);
		assert_null(next_eqe(&g));
		eq_doorbell(hca, eq->number << 24 | g.index, false);
	}
	assert_int_equal(owner_stores, 21);
	/* Armed once, at creation. */
	assert_int_equal(interrupts[3], 1);
}

static void each_arm_gives_one_interrupt(void **state)
{
	struct eq *eq = make_eq(EQ_AT, 4, 5, BIT_ULL(COMM_EST));

	assert_int_equal(interrupts[5], 0);
	send(COMM_EST, 0);
	send(COMM_EST, 0);
	assert_int_equal(interrupts[5], 1);
	/* One of two is consumed: the other one is reported at once. */
	eq_doorbell(hca, eq->number << 24 | 1, true);
	assert_int_equal(interrupts[5], 2);
	eq_doorbell(hca, eq->number << 24 | 2, true);
	assert_int_equal(interrupts[5], 2);
	send(COMM_EST, 0);
	assert_int_equal(interrupts[5], 3);
	/* Without arm. */
	eq_doorbell(hca, eq->number << 24 | 3, false);
	send(COMM_EST, 0);
	assert_int_equal(interrupts[5], 3);
}

static void event_goes_to_the_last_subscriber(void **state)
{
	struct eq *one = make_eq(EQ_AT, 2, 1, BIT_ULL(COMM_EST) | BIT_ULL(CMD_DONE));
	struct eq *two;
	struct guest_eq g2 = { .start = 0x8000, .log_size = 2 };
	u8 out[IFC_BYTES(query_eq_out)];

	assert_false(send(MLX5_EVENT_TYPE_CODING_CQ_ERROR, 0));
	assert_false(event_subscribed(hca, 64));
	assert_false(event_send(hca, 1000, 0, NULL, 0));
	assert_true(event_subscribed(hca, CMD_DONE));

	two = make_eq(0x8000, 2, 2, BIT_ULL(COMM_EST) | BIT_ULL(63));
	assert_true(event_subscribed(hca, 63));
	send(COMM_EST, 0);
	assert_non_null(next_eqe(&g2));
	assert_int_equal(interrupts[1], 0);
	assert_int_equal(interrupts[2], 1);
	assert_int_equal(query_eq(one->number, out), CMD_OK);
	assert_true(IFC_GET64(query_eq_out, out, event_bitmask) == BIT_ULL(CMD_DONE));

	assert_int_equal(destroy_eq(two->number), CMD_OK);
	assert_false(send(COMM_EST, 0));
	assert_false(event_subscribed(hca, 63));
	assert_true(send(CMD_DONE, 0));
	assert_int_equal(destroy_eq(one->number), CMD_OK);
	assert_false(event_subscribed(hca, CMD_DONE));
}

static void full_eq_drops_events_and_goes_on(void **state)
{
	struct eq *eq = make_eq(EQ_AT, 2, 0, BIT_ULL(COMM_EST));
	struct guest_eq g = { .start = EQ_AT, .log_size = 2 };
	u8 out[IFC_BYTES(query_eq_out)], before[256];
	const u8 *e;
	uint32_t i;

	for (i = 0; i < 4; i++)
		send(COMM_EST, i);
	memcpy(before, ram + EQ_AT, sizeof(before));
	assert_int_equal(notes, 0);
	for (i = 4; i < 10; i++)
		assert_true(send(COMM_EST, i));
	assert_memory_equal(before, ram + EQ_AT, sizeof(before));
	assert_int_equal(notes, 1);
	query_eq(eq->number, out);
	assert_int_equal(IFC_GET(eqc, IFC_PTR(query_eq_out, out, eq_context_entry), status),
			 MLX5_EQC_STATUS_EQ_WRITE_FAILURE);
	for (i = 0; i < 4; i++) {
		e = next_eqe(&g);
		assert_non_null(e);
		assert_int_equal(be32_at(e + 32), i);
	}
	assert_null(next_eqe(&g));
	/* It goes on when there is room. */
	eq_doorbell(hca, eq->number << 24 | g.index, true);
	send(COMM_EST, 99);
	e = next_eqe(&g);
	assert_non_null(e);
	assert_int_equal(be32_at(e + 32), 99);
	assert_int_equal(notes, 1);
}

/* Indexes that would make room where there is none. */
static void false_doorbell_makes_no_room(void **state)
{
	static const uint32_t lies[] = { 5, 6, 100, 0x800000, 0xffffff, 0xfffffc };
	struct eq *eq = make_eq(EQ_AT, 2, 0, BIT_ULL(COMM_EST));
	u8 before[256];
	unsigned int i;

	for (i = 0; i < 4; i++)
		send(COMM_EST, i);
	memcpy(before, ram + EQ_AT, sizeof(before));
	for (i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		eq_doorbell(hca, eq->number << 24 | lies[i], true);
		send(COMM_EST, 77);
		assert_memory_equal(before, ram + EQ_AT, sizeof(before));
	}
	eq_doorbell(hca, 0xee000000, true);	/* no such EQ */
	eq_doorbell(hca, 0, true);
	/* Back is a lie, too. */
	eq_doorbell(hca, eq->number << 24 | 3, false);
	assert_int_equal(eq->consumer, 3);
	eq_doorbell(hca, eq->number << 24 | 1, false);
	assert_int_equal(eq->consumer, 3);
}

static void unmapped_eq_sends_no_interrupt(void **state)
{
	struct eq *eq = make_eq(EQ_AT, 2, 0, BIT_ULL(COMM_EST));

	ram_gone = true;
	send(COMM_EST, 1);
	send(COMM_EST, 2);
	assert_int_equal(notes, 1);
	assert_int_equal(eq->producer, 0);
	assert_int_equal(interrupts[0], 0);
}

static void query_shows_the_eq_and_used_eq_stays(void **state)
{
	struct eq *eq = make_eq(EQ_AT, 3, 4, BIT_ULL(COMM_EST));
	uint32_t number = eq->number;
	u8 out[IFC_BYTES(query_eq_out)];
	void *eqc = IFC_PTR(query_eq_out, out, eq_context_entry);

	assert_int_equal(query_eq(eq->number, out), CMD_OK);
	assert_int_equal(IFC_GET(eqc, eqc, st), MLX5_EQC_ST_ARMED);
	send(COMM_EST, 0);
	eq_doorbell(hca, eq->number << 24 | 1, false);
	send(COMM_EST, 0);
	assert_int_equal(query_eq(eq->number, out), CMD_OK);
	assert_int_equal(IFC_GET(eqc, eqc, st), MLX5_EQC_ST_FIRED);
	assert_int_equal(IFC_GET(eqc, eqc, status), MLX5_EQC_STATUS_OK);
	assert_int_equal(IFC_GET(eqc, eqc, log_eq_size), 3);
	assert_int_equal(IFC_GET(eqc, eqc, intr), 4);
	assert_int_equal(IFC_GET(eqc, eqc, consumer_counter), 1);
	assert_int_equal(IFC_GET(eqc, eqc, producer_counter), 2);
	assert_int_equal(query_eq(0, out), CMD_BAD_RES);
	assert_int_equal(query_eq(0xff, out), CMD_BAD_RES);
	assert_int_equal(destroy_eq(0xff), CMD_BAD_RES);
	eq->users = 1;
	assert_int_equal(destroy_eq(eq->number), CMD_BAD_RES_STATE);
	eq->users = 0;
	assert_int_equal(destroy_eq(number), CMD_OK);
	assert_int_equal(destroy_eq(number), CMD_BAD_RES);
	assert_int_equal(hca->memory, 0);
}

#define EQC(field) IFC_BIT(eqc, field), IFC_WIDTH(eqc, field)

static void hostile_create_eq_is_refused(void **state)
{
	static const struct {
		const char *what;
		size_t bit, width;
		uint32_t value;
		unsigned int pages;
		enum cmd_status status;
	} table[] = {
		{ "good", EQC(log_eq_size), 7, 2, CMD_OK },
		{ "a page missing", EQC(log_eq_size), 7, 1, CMD_BAD_PARAM },
		{ "no pages", EQC(log_eq_size), 0, 0, CMD_BAD_PARAM },
		{ "log size above the limit", EQC(log_eq_size), HCA_LOG_MAX_EQ + 1, 16,
		  CMD_BAD_PARAM },
		{ "log size 31", EQC(log_eq_size), 31, 16, CMD_BAD_PARAM },
		{ "page shift 43", EQC(log_page_size), 31, 16, CMD_BAD_PARAM },
		{ "pages not aligned", EQC(log_page_size), 1, 16, CMD_BAD_PARAM },
		{ "vector", EQC(intr), PCI_VECTORS, 16, CMD_BAD_PARAM },
		{ "vector 4095", EQC(intr), 0xfff, 16, CMD_BAD_PARAM },
		{ "UAR", EQC(uar_page), 0xffffff, 16, CMD_BAD_RES },
		{ "collapsed", EQC(ec), 1, 16, CMD_BAD_PARAM },
		{ "overrun ignored", EQC(oi), 1, 16, CMD_BAD_PARAM },
	};
	u8 in[IFC_BYTES(create_eq_in) + 16 * 8], out[IFC_BYTES(create_eq_out)];
	void *eqc = IFC_PTR(create_eq_in, in, eq_context_entry);
	unsigned int i;

	for (i = 0; i < sizeof(table) / sizeof(*table); i++) {
		memset(in, 0, sizeof(in));
		IFC_SET(create_eq_in, in, opcode, MLX5_CMD_OP_CREATE_EQ);
		IFC_SET(eqc, eqc, log_eq_size, 2);
		IFC_SET(eqc, eqc, uar_page, HCA_UAR_FIRST);
		memset(IFC_PTR(create_eq_in, in, event_bitmask), 0xff, 32);
		put_pas(in + IFC_BYTES(create_eq_in), 0x1000, table[i].pages);
		ifc_set(eqc, table[i].bit, table[i].width, table[i].value);
		print_message("  %s\n", table[i].what);
		assert_int_equal(run(eq_ops, in, IFC_BYTES(create_eq_in) + 8 * table[i].pages,
				     out, sizeof(out)), table[i].status);
		assert_int_equal(event_subscribed(hca, COMM_EST), i == 0 || hca->eqs.next > 1);
		if (table[i].status)
			assert_int_equal(IFC_GET(create_eq_out, out, eq_number), 0);
	}
	assert_int_equal(hca->eqs.next, 2);	/* one was made */
}

static void create_eq_without_memory_is_no_resources(void **state)
{
	u8 in[IFC_BYTES(create_eq_in) + 8] = { }, out[IFC_BYTES(create_eq_out)];
	void *eqc = IFC_PTR(create_eq_in, in, eq_context_entry);
	size_t i;

	IFC_SET(create_eq_in, in, opcode, MLX5_CMD_OP_CREATE_EQ);
	IFC_SET(eqc, eqc, uar_page, HCA_UAR_FIRST);
	put_pas(in + IFC_BYTES(create_eq_in), 0x1000, 1);
	/* Not even the EQ, and the EQ but not its list of pages. */
	for (i = 0; i < 2; i++) {
		size_t taken = HCA_MEMORY - (i ? sizeof(struct eq) + 7 : 1);

		hca->memory = taken;
		assert_int_equal(run(eq_ops, in, sizeof(in), out, sizeof(out)),
				 CMD_NO_RESOURCES);
		assert_int_equal(hca->memory, taken);
	}
	hca->memory = 0;
	/* All numbers in use. */
	for (i = 0; i < hca->eqs.max; i++)
		assert_int_equal(run(eq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	assert_int_equal(run(eq_ops, in, sizeof(in), out, sizeof(out)), CMD_NO_RESOURCES);
	event_reset(hca);
	assert_int_equal(hca->memory, 0);
	assert_int_equal(run(eq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fakes_setup, fakes_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(eqes_arrive_over_many_laps),
		TEST(each_arm_gives_one_interrupt),
		TEST(event_goes_to_the_last_subscriber),
		TEST(full_eq_drops_events_and_goes_on),
		TEST(false_doorbell_makes_no_room),
		TEST(unmapped_eq_sends_no_interrupt),
		TEST(query_shows_the_eq_and_used_eq_stays),
		TEST(hostile_create_eq_is_refused),
		TEST(create_eq_without_memory_is_no_resources),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
