// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Shared receive queues (RMPs, XRC SRQs): what is taken from them as the guest links and posts
 * it, hostile links and counters, and the limit.
 *
 * test_srq_commands.c has the rest.
 */
#include "srq_guest.h"
#include "wqe.h"

static void expect_event(unsigned int type, uint32_t number)
{
	const u8 *e = next_eqe(&geq);

	assert_non_null(e);
	assert_int_equal(e[1], type);
	assert_int_equal(be32_at(e + 32 + 24), number);
	assert_null(next_eqe(&geq));
	eq_doorbell(hca, eq->number << 24 | geq.index, true);
}

static void wqes_are_taken_in_posted_order(void **state)
{
	struct guest_srq g = make_rmp();
	uint32_t posted = 0, taken = 0, i;
	int index, out[3];
	struct recv_wqe r;

	assert_int_equal(srq_take(g.srq, &r), 0);
	/* Given back out of order, so that the list gets mixed; over two laps of 16 bits. */
	for (i = 0; i < 50000; i++) {
		unsigned int k;

		for (k = 0; k < 3; k++)
			assert_true(post(&g, posted++) >= 0);
		for (k = 0; k < 3; k++) {
			assert_int_equal(srq_take(g.srq, &r), 1);
			assert_int_equal(r.segs, 1);
			assert_int_equal(r.seg[0].addr, taken++);
			assert_int_equal(be64_at(wqe(r.index) + 24), r.seg[0].addr);
			out[k] = r.index;
		}
		assert_int_equal(srq_take(g.srq, &r), 0);
		for (k = 0; k < 3; k++)
			give_back(&g, out[(k + i) % 3]);
	}
	/* All but one. */
	for (i = 0; (index = post(&g, posted)) >= 0; i++)
		posted++;
	assert_int_equal(i, SIZE - 1);
	while (srq_take(g.srq, &r) == 1)
		assert_int_equal(r.seg[0].addr, taken++);
	assert_int_equal(taken, posted);
	assert_false(g.srq->error);
}

static void link_outside_the_srq_is_a_lasting_error(void **state)
{
	static const uint16_t links[] = { SIZE, SIZE + 1, 0x7fff, 0x8000, 0xffff };
	struct recv_wqe r;
	unsigned int i;

	for (i = 0; i < sizeof(links) / sizeof(*links); i++) {
		struct guest_srq g = make_rmp();
		uint32_t n = g.srq->number;

		post(&g, 0);
		post(&g, 1);
		link_wqe(1, links[i]);
		assert_int_equal(srq_take(g.srq, &r), 1);
		assert_int_equal(srq_take(g.srq, &r), -EINVAL);
		expect_event(CATAS, n);
		/* For good, and told once. */
		link_wqe(1, 2);
		assert_int_equal(srq_take(g.srq, &r), -EINVAL);
		assert_null(next_eqe(&geq));
		assert_int_equal(arm_rmp(n, 1, MLX5_RMPC_STATE_RDY), CMD_BAD_RES_STATE);
		assert_int_equal(destroy(n, false), CMD_OK);
		hca->srqs.next = hca->srqs.first;
	}
}

/* A circle ends with the counter. */
static void circle_of_links_ends_with_the_counter(void **state)
{
	struct guest_srq g = make_rmp();
	struct recv_wqe r;
	unsigned int i;

	for (i = 0; i < SIZE; i++)
		link_wqe(i, 0);
	g.counter = SIZE;
	ring(&g);
	for (i = 0; i < SIZE; i++) {
		assert_int_equal(srq_take(g.srq, &r), 1);
		assert_int_equal(r.index, 0);
	}
	assert_int_equal(srq_take(g.srq, &r), 0);
}

static void counter_beyond_the_srq_is_an_error(void **state)
{
	static const uint32_t counters[] = { SIZE + 1, 0x7fff, 0x8000, 0xffff };
	struct recv_wqe r;
	unsigned int i;

	for (i = 0; i < sizeof(counters) / sizeof(*counters); i++) {
		struct guest_srq g = make_xrc();
		uint32_t n = g.srq->number;

		put_be32(ram + DB_AT, counters[i]);
		assert_int_equal(srq_take(g.srq, &r), -EINVAL);
		expect_event(CATAS, n);
		assert_int_equal(destroy(n, true), CMD_OK);
		assert_non_null(forgotten);
		hca->srqs.next = hca->srqs.first;
	}
}

static void unmapped_srq_memory_is_an_error(void **state)
{
	struct guest_srq g = make_rmp();
	struct recv_wqe r;

	post(&g, 0);
	ram_gone = true;
	assert_int_equal(srq_take(g.srq, &r), -EINVAL);
	assert_int_equal(srq_take(g.srq, &r), -EINVAL);
	ram_gone = false;
	assert_true(g.srq->error);
	/* The record is there, the buffer is not. */
	hca->srqs.next = hca->srqs.first + 1;
	g = make_rmp();
	g.srq->buf.page[0] = RAM(RAM_SIZE);
	post(&g, 0);
	assert_int_equal(srq_take(g.srq, &r), -EINVAL);
	expect_event(CATAS, g.srq->number);
}

static void limit_event_comes_once_for_an_arm(void **state)
{
	int xrc;

	for (xrc = 0; xrc < 2; xrc++) {
		struct guest_srq g = xrc ? make_xrc() : make_rmp();
		uint32_t n = g.srq->number, i;
		struct recv_wqe r;

		for (i = 0; i < 6; i++)
			post(&g, i);
		assert_int_equal(xrc ? arm_xrc(n, 4, 1) : arm_rmp(n, 4, MLX5_RMPC_STATE_RDY),
				 CMD_OK);
		srq_take(g.srq, &r);
		srq_take(g.srq, &r);	/* 4 left */
		assert_null(next_eqe(&geq));
		srq_take(g.srq, &r);
		expect_event(LIMIT, n);
		/* Once for an arm. */
		srq_take(g.srq, &r);
		srq_take(g.srq, &r);
		assert_null(next_eqe(&geq));
		srq_take(g.srq, &r);
		/* Below it already, and empty: when somebody wants one. */
		assert_int_equal(xrc ? arm_xrc(n, 1, 1) : arm_rmp(n, 1, MLX5_RMPC_STATE_RDY),
				 CMD_OK);
		assert_null(next_eqe(&geq));
		assert_int_equal(srq_take(g.srq, &r), 0);
		expect_event(LIMIT, n);
		assert_int_equal(srq_take(g.srq, &r), 0);
		assert_null(next_eqe(&geq));
		/* Taken back. */
		assert_int_equal(xrc ? arm_xrc(n, 3, 1) : arm_rmp(n, 3, MLX5_RMPC_STATE_RDY),
				 CMD_OK);
		assert_int_equal(xrc ? arm_xrc(n, 0, 1) : arm_rmp(n, 0, MLX5_RMPC_STATE_RDY),
				 CMD_OK);
		assert_int_equal(srq_take(g.srq, &r), 0);
		assert_null(next_eqe(&geq));
		/* Refused. */
		assert_int_equal(xrc ? arm_xrc(n, SIZE + 1, 1) :
				 arm_rmp(n, SIZE + 1, MLX5_RMPC_STATE_RDY), CMD_BAD_PARAM);
		assert_int_equal(xrc ? arm_xrc(n, 1, 2) : arm_rmp(n, 1, MLX5_RMPC_STATE_ERR),
				 CMD_BAD_PARAM);
		/* Of the other kind. */
		assert_int_equal(!xrc ? arm_xrc(n, 1, 1) : arm_rmp(n, 1, MLX5_RMPC_STATE_RDY),
				 CMD_BAD_RES);
	}
}

/* The unit of the page offset is a 64th of a page, whatever the size of the page. */
static void page_offset_is_in_64ths_of_a_page(void **state)
{
	u8 in[RMP_BYTES], out[IFC_BYTES(create_rmp_out)];
	void *rmpc = rmp_in(in), *wq = IFC_PTR(rmpc, rmpc, wq);
	struct recv_wqe r;

	IFC_SET(wq, wq, log_wq_pg_sz, 1);
	IFC_SET(wq, wq, page_offset, 3);
	assert_int_equal(run(srq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	put_seg(ram + SRQ_AT + 3 * 128 + 16, 9, 8, 7);
	put_be32(ram + DB_AT, 1);
	assert_int_equal(srq_take(srq_get(hca, IFC_GET(create_rmp_out, out, rmpn)), &r), 1);
	assert_int_equal(r.segs, 3);
	assert_int_equal(r.seg[0].len, 9);
	assert_int_equal(r.seg[0].lkey, 8);
}

static void cyclic_srq_takes_wqes_in_a_ring(void **state)
{
	u8 in[RMP_BYTES], out[IFC_BYTES(create_rmp_out)];
	void *rmpc = rmp_in(in), *wq = IFC_PTR(rmpc, rmpc, wq);
	struct recv_wqe r;
	struct srq *srq;
	uint32_t i;

	IFC_SET(rmpc, rmpc, basic_cyclic_rcv_wqe, 1);
	IFC_SET(wq, wq, wq_type, MLX5_WQ_TYPE_CYCLIC);
	assert_int_equal(run(srq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	srq = srq_get(hca, IFC_GET(create_rmp_out, out, rmpn));
	for (i = 0; i < 20; i++) {
		put_seg(wqe(i % SIZE), 0x7fff0000 + i, 1, i);
		put_seg(wqe(i % SIZE) + 16, 0, INVALID_LKEY, 0);
		put_be32(ram + DB_AT, i + 1);
		assert_int_equal(srq_take(srq, &r), 1);
		assert_int_equal(r.index, i % SIZE);
		assert_int_equal(r.segs, 1);
		assert_int_equal(r.seg[0].addr, i);
	}
}

static void receive_wqe_is_parsed_up_to_its_end(void **state)
{
	u8 bytes[1024];
	struct recv_wqe r;
	unsigned int i;

	for (i = 0; i < 64; i++)
		put_seg(bytes + 16 * i, 10 + i, 7 + i, 1000 + i);
	recv_parse(&r, bytes, 0);
	assert_int_equal(r.segs, 0);
	assert_int_equal(r.room, 0);
	recv_parse(&r, bytes, 15);
	assert_int_equal(r.segs, 0);
	recv_parse(&r, bytes, 47);
	assert_int_equal(r.segs, 2);
	assert_int_equal(r.room, 21);
	assert_int_equal(r.seg[1].len, 11);
	assert_int_equal(r.seg[1].lkey, 8);
	assert_int_equal(r.seg[1].addr, 1001);
	recv_parse(&r, bytes, sizeof(bytes));
	assert_int_equal(r.segs, RECV_SEGS);
	/* The end of the list, at once and later. */
	put_seg(bytes + 32, 0, INVALID_LKEY, 0);
	recv_parse(&r, bytes, sizeof(bytes));
	assert_int_equal(r.segs, 2);
	put_seg(bytes, 0, INVALID_LKEY, 0);
	recv_parse(&r, bytes, sizeof(bytes));
	assert_int_equal(r.segs, 0);
	/* The reserved lkey with a length is a segment. */
	put_seg(bytes, 5, INVALID_LKEY, 0);
	recv_parse(&r, bytes, 32);
	assert_int_equal(r.segs, 2);
	/* 0 is 2 GiB, and the high bit is nothing. */
	put_seg(bytes, 0, 1, 0);
	put_seg(bytes + 16, 0x80000003, 1, 0);
	recv_parse(&r, bytes, 32);
	assert_int_equal(r.seg[0].len, 0x80000000);
	assert_int_equal(r.seg[1].len, 3);
	/* There is room for the longest message, however long the list is. */
	put_seg(bytes, MESSAGE_MAX - 3, 1, 0);
	recv_parse(&r, bytes, 32);
	assert_int_equal(r.room, MESSAGE_MAX);
	put_seg(bytes, MESSAGE_MAX - 4, 1, 0);
	recv_parse(&r, bytes, 32);
	assert_int_equal(r.room, MESSAGE_MAX - 1);
	for (i = 0; i < RECV_SEGS; i++)
		put_seg(bytes + 16 * i, 0x7fffffff, 1, 0);
	recv_parse(&r, bytes, sizeof(bytes));
	assert_int_equal(r.segs, RECV_SEGS);
	assert_int_equal(r.room, MESSAGE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(wqes_are_taken_in_posted_order),
		TEST(link_outside_the_srq_is_a_lasting_error),
		TEST(circle_of_links_ends_with_the_counter),
		TEST(counter_beyond_the_srq_is_an_error),
		TEST(unmapped_srq_memory_is_an_error),
		TEST(limit_event_comes_once_for_an_arm),
		TEST(page_offset_is_in_64ths_of_a_page),
		TEST(cyclic_srq_takes_wqes_in_a_ring),
		TEST(receive_wqe_is_parsed_up_to_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
