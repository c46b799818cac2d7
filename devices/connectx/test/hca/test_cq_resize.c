// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * A CQ is resized while it is in use: every completion is seen once and in order, whatever was
 * polled before, and a refused resize changes nothing.
 */
#include "guest_cq.h"

/*
 * What copy_resize_cqes() of mlx5_ib and mlx5_cq_resize_copy_cqes() of libmlx5 do after
 * MODIFY_CQ: move what is not polled to the index after, in the new buffer.
 */
static unsigned int copy_resize(struct guest_cq *g, unsigned int log_size, unsigned int entry)
{
	struct guest_cq to = { .start = NEW_AT, .log_size = log_size, .entry_size = entry };
	const struct mlx5_cqe64 *c;
	unsigned int moved = 0;
	uint32_t i = g->index;

	for (;; i++, moved++) {
		c = peek(g, i);
		assert_non_null(c);
		if (c->op_own >> 4 == MLX5_CQE_RESIZE_CQ)
			break;
		memcpy(slot(&to, i + 1), c, 64);
		slot(&to, i + 1)[63] = (c->op_own & ~1) | ((i + 1) >> log_size & 1);
	}
	to.cq = g->cq;
	to.index = g->index + 1;
	*g = to;
	return moved;
}

static void resize_case(unsigned int before, unsigned int unpolled, unsigned int log_new,
			int big)
{
	struct guest_cq g = make_cq(3, big, 0, 0), new = { .start = NEW_AT };
	const struct mlx5_cqe64 *c;
	uint32_t value = 0, seen = 0, i;

	put_be32(ram + DB_AT, 0);
	for (i = 0; i < before; i++) {
		push(&g, value++);
		c = poll_cq(&g);
		assert_int_equal(be32toh(c->byte_cnt), seen++);
	}
	for (i = 0; i < unpolled; i++)
		push(&g, value++);
	new.log_size = log_new;
	new.entry_size = 64 << big;
	fill_invalid(&new);
	assert_int_equal(modify_cq(g.cq->number, 1, 7, log_new, big, 3), CMD_OK);
	/* A completion after the command and before the copy goes to the new buffer. */
	push(&g, value++);
	assert_true(cq_usable(g.cq));
	assert_int_equal(copy_resize(&g, log_new, 64 << big), unpolled);
	for (i = 0; i < 40; i++) {
		while ((c = poll_cq(&g)))
			assert_int_equal(be32toh(c->byte_cnt), seen++);
		assert_int_equal(seen, value);
		push(&g, value++);
	}
	assert_true(cq_usable(g.cq));
	assert_int_equal(destroy_cq(g.cq->number), CMD_OK);
	memset(ram + CQ_AT, 0, 4096);
}

static void resize_loses_no_completion(void **state)
{
	unsigned int before, unpolled, log_new;

	/* Over two laps of the old buffer, to larger, equal and smaller ones. */
	for (log_new = 1; log_new <= 5; log_new++)
		for (before = 0; before < 17; before++)
			for (unpolled = 0; unpolled < 7; unpolled++) {
				/* One more is needed for the completion in between. */
				if (unpolled + 1 >= 1u << log_new)
					continue;
				resize_case(before, unpolled, log_new, 0);
				resize_case(before, unpolled, log_new, 1);
				hca->cqs.next = hca->cqs.first;
			}
}

/* The kernel's poll may meet the last entry before the command is over, and then changes. */
static void poll_goes_on_behind_the_resize_cqe(void **state)
{
	struct guest_cq g = make_cq(3, false, 0, 0), new = { .start = NEW_AT, .log_size = 4,
							     .entry_size = 64 };
	const struct mlx5_cqe64 *c;
	uint32_t i;

	arm(&g, 0, 0);
	push(&g, 1);
	events();
	poll_cq(&g);
	arm(&g, 1, 0);
	fill_invalid(&new);
	assert_int_equal(modify_cq(g.cq->number, 1, 7, 4, 0, 1), CMD_OK);
	/* That entry is no completion: no event. */
	assert_int_equal(events(), 0);
	c = poll_cq(&g);
	assert_non_null(c);
	assert_int_equal(c->op_own >> 4, MLX5_CQE_RESIZE_CQ);
	new.cq = g.cq;
	new.index = g.index;
	for (i = 0; i < 20; i++) {
		push(&new, i);
		c = poll_cq(&new);
		assert_non_null(c);
		assert_int_equal(be32toh(c->byte_cnt), i);
	}
	/* The arm outlived the resize. */
	assert_int_equal(events(), 1);
}

static void refused_resize_changes_nothing(void **state)
{
	struct guest_cq g = make_cq(3, false, 0, 0);
	uint32_t i, n = g.cq->number;
	size_t memory;
	u8 before[512];

	for (i = 0; i < 6; i++)
		push(&g, i);
	memory = hca->memory;
	memcpy(before, ram + CQ_AT, sizeof(before));
	assert_int_equal(modify_cq(n, 1, 7, 2, 0, 1), CMD_BAD_SIZE);
	assert_int_equal(modify_cq(n, 1, 7, HCA_LOG_MAX_CQ + 1, 0, 16), CMD_BAD_PARAM);
	assert_int_equal(modify_cq(n, 1, 7, 31, 0, 16), CMD_BAD_PARAM);
	assert_int_equal(modify_cq(n, 1, 7, 4, 3, 16), CMD_BAD_PARAM);
	assert_int_equal(modify_cq(n, 1, 7, 7, 0, 1), CMD_BAD_PARAM);	/* pages missing */
	assert_int_equal(modify_cq(n, 1, 7, 4, 0, 0), CMD_BAD_PARAM);
	assert_int_equal(modify_cq(n, 1, 3, 4, 0, 1), CMD_BAD_PARAM);
	assert_int_equal(modify_cq(n, 2, 7, 4, 0, 1), CMD_BAD_PARAM);
	assert_int_equal(modify_cq(n, 0, 16, 4, 0, 1), CMD_BAD_PARAM);
	assert_int_equal(modify_cq(n + 1, 1, 7, 4, 0, 1), CMD_BAD_RES);
	hca->memory = HCA_MEMORY;
	assert_int_equal(modify_cq(n, 1, 7, 4, 0, 1), CMD_NO_RESOURCES);
	hca->memory = memory;
	/* Nothing has changed. */
	assert_memory_equal(before, ram + CQ_AT, sizeof(before));
	assert_int_equal(g.cq->producer, 6);
	for (i = 0; i < 6; i++) {
		assert_int_equal(be32toh(poll_cq(&g)->byte_cnt), i);
		/* The 4 that are left would fit, but not before the guest has copied them. */
		if (i == 1)
			assert_int_equal(modify_cq(n, 1, 7, 2, 0, 1), CMD_BAD_SIZE);
	}
	assert_int_equal(modify_cq(n, 1, 7, 2, 0, 1), CMD_OK);
	g.index++;
	put_be32(ram + DB_AT, g.index);
	g.start = NEW_AT;
	g.log_size = 2;
	for (i = 0; i < 4; i++)
		push(&g, i);
	assert_true(cq_usable(g.cq));
	/* Full: no room for the entry that ends it. */
	assert_int_equal(modify_cq(n, 1, 7, 5, 0, 1), CMD_BAD_SIZE);
	assert_true(cq_usable(g.cq));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(resize_loses_no_completion),
		TEST(poll_goes_on_behind_the_resize_cqe),
		TEST(refused_resize_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
