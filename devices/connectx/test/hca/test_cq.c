// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Completion queues: owner bits, events and their arms, moderation, overrun, and hostile
 * commands.
 */
#include "guest_cq.h"

static void cqes_arrive_over_many_laps(void **state)
{
	int big;

	for (big = 0; big < 2; big++) {
		struct guest_cq g = make_cq(2, big, 0, 0);
		const struct mlx5_cqe64 *c;
		uint32_t i;

		put_be32(ram + DB_AT, 0);
		for (i = 0; i < 30; i++) {
			push(&g, i);
			assert_null(peek(&g, g.index + 1));
			c = poll_cq(&g);
			assert_non_null(c);
			assert_int_equal(be32toh(c->byte_cnt), i);
			assert_int_equal(c->op_own >> 4, MLX5_CQE_RESP_SEND);
			assert_null(poll_cq(&g));
		}
		/* The first half of a big entry is not touched. */
		if (big)
			for (i = 0; i < 4; i++)
				assert_int_equal(slot(&g, i)[-1], 0);
		assert_int_equal(destroy_cq(g.cq->number), CMD_OK);
		memset(ram + CQ_AT, 0, 4096);
	}
}

/* Buffer at 64 bytes into its pages, so that an entry of 128 lies on two of them. */
static void cqe_may_cross_pages(void **state)
{
	u8 in[CREATE_BYTES], out[IFC_BYTES(create_cq_out)];
	void *cqc = create_in(in, 6, true, 0, 0);
	struct cq *cq;
	uint32_t i;

	IFC_SET(cqc, cqc, page_offset, 1);
	put_be64(in + IFC_BYTES(create_cq_in) + 8, RAM(0x30000));
	assert_int_equal(run(cq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	cq = cq_get(hca, IFC_GET(create_cq_out, out, cqn));
	for (i = 0; i < 33; i++) {
		struct mlx5_cqe64 cqe = { .byte_cnt = htobe32(i + 1) };

		cq_push(cq, &cqe, false);
	}
	assert_int_equal(be32_at(ram + CQ_AT + 64 + 30 * 128 + 64 + 44), 31);
	assert_int_equal(be32_at(ram + 0x30000 + 44), 32);
	assert_int_equal(be32_at(ram + 0x30000 + 128 + 44), 33);
}

static void armed_cq_sends_one_event(void **state)
{
	struct guest_cq g = make_cq(4, false, 0, 0);
	const u8 *e;

	push(&g, 0);
	assert_int_equal(events(), 0);
	arm(&g, 0, 0);			/* one is there already */
	e = next_eqe(&geq);
	assert_non_null(e);
	assert_int_equal(e[1], COMP);
	assert_int_equal(be32_at(e + 32 + 24), g.cq->number);
	assert_int_equal(interrupts[2], 1);
	push(&g, 0);
	assert_int_equal(events(), 0);	/* fired */
	while (poll_cq(&g))
		;
	arm(&g, 1, 0);
	assert_int_equal(events(), 0);
	push(&g, 0);
	push(&g, 0);
	assert_int_equal(events(), 1);
}

/* As a program does that arms before it polls what an event has told of. */
static void arm_before_the_poll_sends_no_second_event(void **state)
{
	struct guest_cq g = make_cq(4, false, 0, 0);
	u8 out[IFC_BYTES(query_cq_out)];
	unsigned int sn;

	arm(&g, 0, 0);
	push(&g, 0);
	for (sn = 1; sn < 10; sn++) {
		/* Each event tells of one completion, which is not polled when the CQ is armed. */
		assert_int_equal(events(), 1);
		assert_int_equal(query_cq(g.cq->number, out), CMD_OK);
		assert_int_equal(IFC_GET(cqc, IFC_PTR(query_cq_out, out, cq_context),
					 last_notified_index), sn);
		arm(&g, sn & 3, sn & 1 ? SOLICITED : 0);
		assert_int_equal(events(), 0);
		assert_non_null(poll_cq(&g));
		assert_null(poll_cq(&g));
		assert_int_equal(events(), 0);
		push_op(&g, 0, MLX5_CQE_RESP_SEND, true);
	}
	/* What came between the event and the arm is news, polled or not. */
	assert_int_equal(events(), 1);
	push(&g, 0);
	arm(&g, sn & 3, 0);
	assert_int_equal(events(), 1);
	push_op(&g, 0, MLX5_CQE_RESP_SEND, true);
	push(&g, 0);
	arm(&g, ++sn & 3, SOLICITED);
	assert_int_equal(events(), 1);
	push(&g, 0);
	arm(&g, ++sn & 3, SOLICITED);
	assert_int_equal(events(), 0);
}

static void collapsed_cq_keeps_the_newest_in_its_first_entry(void **state)
{
	u8 in[CREATE_BYTES], before[256];
	void *cqc = create_in(in, 2, false, 0, 0);
	struct guest_cq g;
	uint32_t i;

	IFC_SET(cqc, cqc, cc, 1);
	IFC_SET(cqc, cqc, oi, 1);
	g = finish_cq(in);
	memcpy(before, ram + CQ_AT, sizeof(before));
	for (i = 0; i < 11; i++) {
		push(&g, i);
		assert_int_equal(be32_at(slot(&g, 0) + 44), i);
		/* The owner is that of the lap. */
		assert_int_equal(slot(&g, 0)[63], MLX5_CQE_RESP_SEND << 4 | (i >> 2 & 1));
	}
	assert_memory_equal(before + 64, ram + CQ_AT + 64, sizeof(before) - 64);
	assert_true(cq_usable(g.cq));
	assert_int_equal(modify_cq(g.cq->number, 1, 7, 3, 0, 1), CMD_BAD_PARAM);
	/* It overruns as any other, unless it ignores that. */
	assert_int_equal(modify_cq(g.cq->number, 0, 4, 0, 0, 0), CMD_OK);
	put_be32(ram + DB_AT, 11);
	for (i = 0; i < 4; i++)
		push(&g, i);
	assert_true(cq_usable(g.cq));
	push(&g, i);
	assert_false(cq_usable(g.cq));
}

static void arm_with_an_old_sequence_sends_no_event(void **state)
{
	struct guest_cq g = make_cq(4, false, 0, 0);

	arm(&g, 0, 0);
	push(&g, 0);
	/* The guest polls and arms again before it takes note of the event. */
	poll_cq(&g);
	arm(&g, 0, 0);
	push(&g, 0);
	assert_int_equal(events(), 1);
	arm(&g, 1, 0);			/* now it has */
	assert_int_equal(events(), 1);
	poll_cq(&g);
	arm(&g, 2, 0);
	push(&g, 0);
	assert_int_equal(events(), 1);
	poll_cq(&g);
	/* The counter wraps. */
	arm(&g, 3, 0);
	push(&g, 0);
	assert_int_equal(events(), 1);
	poll_cq(&g);
	arm(&g, 0, 0);
	push(&g, 0);
	assert_int_equal(events(), 1);
}

static void solicited_arm_waits_for_a_solicited_cqe(void **state)
{
	struct guest_cq g = make_cq(4, false, 0, 0);

	arm(&g, 0, SOLICITED);
	push(&g, 0);
	assert_int_equal(events(), 0);
	push_op(&g, 0, MLX5_CQE_RESP_SEND, true);
	assert_int_equal(events(), 1);
	/* The solicited one is not polled yet, but an event has told of it. */
	poll_cq(&g);
	arm(&g, 1, SOLICITED);
	assert_int_equal(events(), 0);
	poll_cq(&g);
	/* One that is not solicited is not polled yet. */
	push(&g, 0);
	arm(&g, 2, SOLICITED);
	assert_int_equal(events(), 0);
	/* Errors are solicited. */
	push_op(&g, 0, MLX5_CQE_REQ_ERR, false);
	assert_int_equal(events(), 1);
	while (poll_cq(&g))
		;
	arm(&g, 3, SOLICITED);
	push_op(&g, 0, MLX5_CQE_RESP_ERR, false);
	assert_int_equal(events(), 1);
	while (poll_cq(&g))
		;
	/* Solicited, then any: any.  Any, then solicited: still any. */
	arm(&g, 0, SOLICITED);
	arm(&g, 0, 0);
	push(&g, 0);
	assert_int_equal(events(), 1);
	while (poll_cq(&g))
		;
	arm(&g, 1, 0);
	arm(&g, 1, SOLICITED);
	push(&g, 0);
	assert_int_equal(events(), 1);
}

static void full_eq_keeps_completion_events(void **state)
{
	struct guest_cq g[20];
	unsigned int i, n = 0;

	for (i = 0; i < 20; i++) {
		g[i] = make_cq(2, false, 0, 0);
		arm(&g[i], 0, 0);
		push(&g[i], 0);
	}
	/* Twice on the list is once. */
	arm(&g[19], 1, 0);
	arm(&g[19], 2, 0);
	assert_int_equal(eq->producer, 16);
	assert_int_equal(destroy_cq(g[17].cq->number), CMD_OK);
	while (geq.index != eq->producer)
		n += events();
	assert_int_equal(n, 19);
	assert_int_equal(notes, 0);
	assert_true(list_empty(&eq->waiting));
}

static void moderation_delays_events_by_count_and_time(void **state)
{
	struct guest_cq g = make_cq(6, false, 4, 100);
	uint32_t i;

	/* By count. */
	arm(&g, 0, 0);
	for (i = 0; i < 3; i++)
		push(&g, 0);
	assert_int_equal(events(), 0);
	push(&g, 0);
	assert_int_equal(events(), 1);
	time_passes(1000000);
	assert_int_equal(events(), 0);
	/* By time from the first one. */
	while (poll_cq(&g))
		;
	arm(&g, 1, 0);
	push(&g, 0);
	time_passes(60000);
	push(&g, 0);
	time_passes(39999);
	assert_int_equal(events(), 0);
	time_passes(1);
	assert_int_equal(events(), 1);
	/* The guest polled all: nothing is left to report. */
	while (poll_cq(&g))
		;
	arm(&g, 2, 0);
	push(&g, 0);
	poll_cq(&g);
	arm(&g, 2, 0);
	time_passes(1000000);
	assert_int_equal(events(), 0);
	for (i = 0; i < 3; i++)
		push(&g, 0);
	assert_int_equal(events(), 0);
	/* Changed while some wait. */
	assert_int_equal(modify_cq(g.cq->number, 0, 3, 2, 50, 0), CMD_OK);
	assert_int_equal(events(), 1);
	while (poll_cq(&g))
		;
	arm(&g, 3, 0);
	push(&g, 0);
	push(&g, 0);
	assert_int_equal(events(), 1);
	/* Off: a period of 0. */
	assert_int_equal(modify_cq(g.cq->number, 0, 1, 0, 0, 0), CMD_OK);
	while (poll_cq(&g))
		;
	arm(&g, 0, 0);
	push(&g, 0);
	assert_int_equal(events(), 1);
	/* Destroyed while its timer runs. */
	assert_int_equal(modify_cq(g.cq->number, 0, 3, 9, 50, 0), CMD_OK);
	while (poll_cq(&g))
		;
	arm(&g, 1, 0);
	push(&g, 0);
	assert_false(list_empty(&timers));
	assert_int_equal(destroy_cq(g.cq->number), CMD_OK);
	assert_true(list_empty(&timers));
	time_passes(1000000);
}

static void cq_overrun_is_a_lasting_error(void **state)
{
	struct guest_cq g = make_cq(2, false, 0, 0);
	u8 before[256], out[IFC_BYTES(query_cq_out)];
	const u8 *e;
	uint32_t i;

	for (i = 0; i < 4; i++)
		push(&g, i);
	poll_cq(&g);
	push(&g, 4);			/* polled: room */
	assert_true(cq_usable(g.cq));
	memcpy(before, ram + CQ_AT, sizeof(before));
	push(&g, 5);
	assert_false(cq_usable(g.cq));
	assert_memory_equal(before, ram + CQ_AT, sizeof(before));
	e = next_eqe(&geq);
	assert_non_null(e);
	assert_int_equal(e[1], CQ_ERR);
	assert_int_equal(be32_at(e + 32), g.cq->number);
	assert_int_equal(e[32 + 11], 1);
	/* Once, and for good, even after polling. */
	while (poll_cq(&g))
		;
	push(&g, 6);
	arm(&g, 0, 0);
	assert_null(next_eqe(&geq));
	assert_memory_equal(before, ram + CQ_AT, sizeof(before));
	assert_int_equal(query_cq(g.cq->number, out), CMD_OK);
	assert_int_equal(IFC_GET(cqc, IFC_PTR(query_cq_out, out, cq_context), status),
			 MLX5_CQC_STATUS_CQ_OVERFLOW);
	assert_int_equal(modify_cq(g.cq->number, 1, 7, 3, 0, 1), CMD_BAD_RES_STATE);
	assert_int_equal(modify_cq(g.cq->number, 0, 3, 1, 1, 0), CMD_BAD_RES_STATE);
}

static void ignored_overrun_keeps_the_cq_usable(void **state)
{
	u8 in[CREATE_BYTES];
	void *cqc = create_in(in, 2, false, 0, 0);
	struct guest_cq g;
	uint32_t i;

	IFC_SET(cqc, cqc, oi, 1);
	g = finish_cq(in);
	for (i = 0; i < 11; i++)
		push(&g, i);
	assert_true(cq_usable(g.cq));
	assert_int_equal(be32_at(slot(&g, 10) + 44), 10);
	assert_null(next_eqe(&geq));
	/* And no longer. */
	assert_int_equal(modify_cq(g.cq->number, 0, 4, 0, 0, 0), CMD_OK);
	push(&g, 0);
	assert_false(cq_usable(g.cq));
}

/* User space writes the record: whatever it says, no entry is lost without an event. */
static void false_doorbell_record_overwrites_no_cqe(void **state)
{
	static const uint32_t lies[] = { 5, 1000, 0xffffff, 0xfffffffb, 0x80000000 };
	unsigned int i, k;

	for (i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		struct guest_cq g = make_cq(2, false, 0, 0);

		put_be32(ram + DB_AT, lies[i]);
		for (k = 0; k < 4; k++)
			push(&g, k);
		assert_true(cq_usable(g.cq));
		push(&g, 4);
		assert_false(cq_usable(g.cq));
		assert_int_equal(be32_at(ram + CQ_AT + 44), 0);
		assert_int_equal(drain_eq(eq, &geq, CQ_ERR), 1);
	}
	cq_doorbell(hca, 0, 0xffffffff);	/* no such CQ */
	cq_doorbell(hca, 0, 0);
}

static void unmapped_cq_memory_is_a_cq_error(void **state)
{
	struct guest_cq g = make_cq(2, false, 0, 0);
	u8 out[IFC_BYTES(query_cq_out)];

	ram_gone = true;
	push(&g, 0);
	assert_false(cq_usable(g.cq));
	assert_int_equal(query_cq(g.cq->number, out), CMD_OK);
	assert_int_equal(IFC_GET(cqc, IFC_PTR(query_cq_out, out, cq_context), status),
			 MLX5_CQC_STATUS_CQ_WRITE_FAIL);
	/* The record alone, where its value is needed. */
	ram_gone = false;
	g = make_cq(0, false, 0, 0);
	g.cq->doorbell = RAM(RAM_SIZE);
	push(&g, 0);
	assert_true(cq_usable(g.cq));
	assert_int_equal(modify_cq(g.cq->number, 1, 7, 3, 0, 1), CMD_BAD_RES_STATE);
	push(&g, 0);
	assert_false(cq_usable(g.cq));
}

/* Padding: the half before an entry is written too, with zeros. */
static void padding_zeroes_the_half_before_a_cqe(void **state)
{
	for (unsigned int size = 1; size <= 2; size++) {
		struct guest_cq g;
		u8 in[CREATE_BYTES];

		IFC_SET(cqc, create_in(in, 2, true, 0, 0), cqe_sz, size);
		g = finish_cq(in);
		owner_every = 128;
		memset(ram + CQ_AT, 0xa5, 4 * 128);
		push(&g, 77);
		push(&g, 78);
		for (unsigned int i = 0; i < 2; i++) {
			const struct mlx5_cqe64 *c = (void *)(ram + CQ_AT + 128 * i + 64);

			assert_int_equal(be32toh(c->byte_cnt), 77 + i);
			for (unsigned int b = 0; b < 64; b++)
				assert_int_equal(ram[CQ_AT + 128 * i + b], size == 2 ? 0 : 0xa5);
		}
		assert_int_equal(ram[CQ_AT + 256], 0xa5);
		assert_int_equal(destroy_cq(g.cq->number), CMD_OK);
	}
}

static void query_follows_modify_and_used_cq_stays(void **state)
{
	struct guest_cq g = make_cq(3, true, 5, 6);
	uint32_t n = g.cq->number;
	u8 out[IFC_BYTES(query_cq_out)];
	void *cqc = IFC_PTR(query_cq_out, out, cq_context);

	assert_int_equal(eq->users, 1);
	arm(&g, 0, SOLICITED);
	push(&g, 0);
	push(&g, 0);
	poll_cq(&g);
	assert_int_equal(query_cq(n, out), CMD_OK);
	assert_int_equal(IFC_GET(cqc, cqc, st),
			 MLX5_CQC_ST_SOLICITED_NOTIFICATION_REQUEST_ARMED);
	assert_int_equal(IFC_GET(cqc, cqc, cqe_sz), MLX5_CQC_CQE_SZ_128_BYTES);
	assert_int_equal(IFC_GET(cqc, cqc, log_cq_size), 3);
	assert_int_equal(IFC_GET(cqc, cqc, cq_max_count), 5);
	assert_int_equal(IFC_GET(cqc, cqc, cq_period), 6);
	assert_int_equal(IFC_GET(cqc, cqc, consumer_counter), 1);
	assert_int_equal(IFC_GET(cqc, cqc, producer_counter), 2);
	assert_int_equal(modify_cq(n, 1, 7, 4, 0, 1), CMD_OK);
	assert_int_equal(modify_cq(n, 0, 3, 7, 8, 0), CMD_OK);
	assert_int_equal(query_cq(n, out), CMD_OK);
	assert_int_equal(IFC_GET(cqc, cqc, cqe_sz), MLX5_CQC_CQE_SZ_64_BYTES);
	assert_int_equal(IFC_GET(cqc, cqc, log_cq_size), 4);
	assert_int_equal(IFC_GET(cqc, cqc, cq_max_count), 7);
	assert_int_equal(IFC_GET(cqc, cqc, cq_period), 8);
	g.cq->users = 1;
	assert_int_equal(destroy_cq(n), CMD_BAD_RES_STATE);
	g.cq->users = 0;
	assert_int_equal(destroy_cq(n), CMD_OK);
	assert_int_equal(destroy_cq(n), CMD_BAD_RES);
	assert_int_equal(query_cq(n, out), CMD_BAD_RES);
	assert_int_equal(eq->users, 0);
}

#define CQC(field) IFC_BIT(cqc, field), IFC_WIDTH(cqc, field)

static void hostile_create_cq_is_refused(void **state)
{
	static const struct {
		const char *what;
		size_t bit, width;
		uint32_t value;
		unsigned int pages;
		enum cmd_status status;
	} table[] = {
		{ "good", CQC(log_cq_size), 7, 2, CMD_OK },
		{ "a page missing", CQC(log_cq_size), 7, 1, CMD_BAD_PARAM },
		{ "no pages", CQC(log_cq_size), 0, 0, CMD_BAD_PARAM },
		{ "log size above the limit", CQC(log_cq_size), HCA_LOG_MAX_CQ + 1, 16,
		  CMD_BAD_PARAM },
		{ "log size 31", CQC(log_cq_size), 31, 16, CMD_BAD_PARAM },
		{ "page shift 43", CQC(log_page_size), 31, 16, CMD_BAD_PARAM },
		{ "pages not aligned", CQC(log_page_size), 3, 16, CMD_BAD_PARAM },
		{ "offset leaves no room", CQC(page_offset), 63, 1, CMD_BAD_PARAM },
		{ "entry size 3", CQC(cqe_sz), 3, 16, CMD_BAD_PARAM },
		{ "entry size 7", CQC(cqe_sz), 7, 16, CMD_BAD_PARAM },
		{ "compressed", CQC(cqe_comp_en), 1, 16, CMD_BAD_PARAM },
		{ "APU", CQC(apu_cq), 1, 16, CMD_BAD_PARAM },
		{ "period mode", CQC(cq_period_mode), 1, 16, CMD_BAD_PARAM },
		{ "record by umem", CQC(dbr_umem_valid), 1, 16, CMD_BAD_RES },
		{ "record not aligned", IFC_BIT(cqc, dbr_addr) + 32, 32, DB_AT + 4, 16,
		  CMD_BAD_PARAM },
		{ "UAR", CQC(uar_page), 1, 16, CMD_BAD_RES },
		{ "EQ 0", CQC(c_eqn_or_apu_element), 0, 16, CMD_BAD_RES },
		{ "EQ 2", CQC(c_eqn_or_apu_element), 2, 16, CMD_BAD_RES },
		{ "EQ 0x101", CQC(c_eqn_or_apu_element), 0x101, 16, CMD_BAD_RES },
	};
	u8 in[CREATE_BYTES], out[IFC_BYTES(create_cq_out)];
	unsigned int i;
	size_t memory;

	for (i = 0; i < sizeof(table) / sizeof(*table); i++) {
		void *cqc = create_in(in, 6, false, 0, 0);

		ifc_set(cqc, table[i].bit, table[i].width, table[i].value);
		print_message("  %s\n", table[i].what);
		memory = hca->memory;
		assert_int_equal(run(cq_ops, in, IFC_BYTES(create_cq_in) + 8 * table[i].pages,
				     out, sizeof(out)), table[i].status);
		if (table[i].status)
			assert_int_equal(memory, hca->memory);
	}
	create_in(in, 6, false, 0, 0);
	IFC_SET(create_cq_in, in, cq_umem_valid, 1);
	assert_int_equal(run(cq_ops, in, sizeof(in), out, sizeof(out)), CMD_BAD_RES);
	assert_int_equal(eq->users, 1);
	/* All numbers. */
	create_in(in, 0, false, 0, 0);
	for (i = 1; i < hca->cqs.max; i++)
		assert_int_equal(run(cq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	memory = hca->memory;
	assert_int_equal(run(cq_ops, in, sizeof(in), out, sizeof(out)), CMD_NO_RESOURCES);
	assert_int_equal(memory, hca->memory);
	assert_int_equal(eq->users, hca->cqs.max);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cqes_arrive_over_many_laps),
		TEST(cqe_may_cross_pages),
		TEST(armed_cq_sends_one_event),
		TEST(arm_before_the_poll_sends_no_second_event),
		TEST(collapsed_cq_keeps_the_newest_in_its_first_entry),
		TEST(arm_with_an_old_sequence_sends_no_event),
		TEST(solicited_arm_waits_for_a_solicited_cqe),
		TEST(full_eq_keeps_completion_events),
		TEST(moderation_delays_events_by_count_and_time),
		TEST(cq_overrun_is_a_lasting_error),
		TEST(ignored_overrun_keeps_the_cq_usable),
		TEST(false_doorbell_record_overwrites_no_cqe),
		TEST(unmapped_cq_memory_is_a_cq_error),
		TEST(padding_zeroes_the_half_before_a_cqe),
		TEST(query_follows_modify_and_used_cq_stays),
		TEST(hostile_create_cq_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
