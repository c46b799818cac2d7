// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full kcsan; devices: rxe */
/* runs: full debug-full; devices: connectx */
/*
 * Data moves between device memory and ordinary memory, in every direction, by every operation,
 * with the device memory at either end.
 *
 * The ranges have odd offsets, cross pages and packets (the path MTU is 1024), and reach up to
 * the last byte.  After each operation a case looks at both ends, and at the bytes around the
 * range.
 */
#include "dm/dm_pair.h"
#include <pthread.h>
#include <stdatomic.h>

#define END (-1l)	/* as N of a range: up to the last byte */

static const struct range {
	long from;	/* negative: counted from the end */
	long n;
} ranges[] = {
	{ 0, 1 }, { 0, 4096 }, { 1, 7 }, { 3, 1024 }, { 63, 2 }, { 4095, 2 }, { 4093, 4099 },
	{ 8191, 4096 + 5 }, { 0, END }, { -1, 1 }, { -4097, END },
};

static size_t range_start(const struct range *r, size_t size)
{
	return r->from < 0 ? size + r->from : (size_t)r->from;
}

static uint32_t range_length(const struct range *r, size_t size)
{
	return r->n == END ? size - range_start(r, size) : (size_t)r->n;
}

/* AT and N are those of range R of the DM. */
#define for_each_range(r, at, n)								\
	for (const struct range *r = ranges; r < ranges + ARRAY_SIZE(ranges); r++)		\
		for (size_t at = range_start(r, SIZE), n = range_length(r, SIZE), once = 1;	\
		     once; once = 0)

/* Whether only these bytes changed, into the pattern of SEED; they change back. */
static bool dm_got(FIXTURE_DATA(dm) *self, size_t at, size_t n, uint32_t seed)
{
	bool well = dm_filled(&self->dm, at, n, seed, "device memory") &&
		    dm_only_changed(&self->dm, at, n);

	dm_restore(&self->dm, at, n);
	return well;
}

/* Whether the ordinary memory has these bytes at its start, and 0 behind them. */
static bool host_got(FIXTURE_DATA(dm) *self, size_t n, uint32_t seed)
{
	bool well = filled(self->host.cpu, n, seed, "memory");

	for (size_t i = n; i < HOST_SIZE && well; i++)
		well = !self->host.cpu[i];
	return well;
}

/* --- It is the remote end */

TEST_F(dm, write_lands_in_the_dm)
{
	for_each_range(r, at, n) {
		fill(self->host.cpu, n, at);
		ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, n, at, self->mr->rkey));
		ASSERT_TRUE(dm_got(self, at, n, at));
	}
}

TEST_F(dm, write_with_immediate_lands_in_the_dm)
{
	for_each_range(r, at, n) {
		fill(self->host.cpu, n, at + 1);
		post_recv(&self->pair, NULL, 0, 0);
		ASSERT_EQ(IBV_WC_SUCCESS,
			  host_op(self, IBV_WR_RDMA_WRITE_WITH_IMM, n, at, self->mr->rkey));
		ASSERT_TRUE(dm_got(self, at, n, at + 1));
	}
}

TEST_F(dm, read_returns_the_bytes_of_the_dm)
{
	for_each_range(r, at, n) {
		dm_fill(&self->dm, at, n, at + 2);
		memset(self->host.cpu, 0, HOST_SIZE);
		ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_READ, n, at, self->mr->rkey));
		ASSERT_TRUE(host_got(self, n, at + 2));
		ASSERT_TRUE(dm_got(self, at, n, at + 2));
	}
}

TEST_F(dm, message_lands_in_the_dm)
{
	for_each_range(r, at, n) {
		fill(self->host.cpu, n, at + 3);
		post_recv(&self->pair, self->mr, at, n);
		ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_SEND, n, 0, 0));
		ASSERT_TRUE(dm_got(self, at, n, at + 3));
	}
}

/* The receive has room for more than comes. */
TEST_F(dm, short_message_changes_its_own_bytes_only)
{
	fill(self->host.cpu, 1500, 31);
	post_recv(&self->pair, self->mr, 33, 3000);
	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_SEND, 1500, 0, 0));
	ASSERT_TRUE(dm_got(self, 33, 1500, 31));
}

/* --- It is the local end */

/* An operation of the first QP on N bytes at AT of the DM, with the ordinary memory there. */
static enum ibv_wc_status dm_op(FIXTURE_DATA(dm) *self, enum ibv_wr_opcode opcode, size_t at,
				size_t n)
{
	return rdma_op(&self->pair, opcode, self->mr, at, n, self->host.iova,
		       self->host_mr->rkey);
}

TEST_F(dm, write_takes_its_data_from_the_dm)
{
	for_each_range(r, at, n) {
		dm_fill(&self->dm, at, n, at + 4);
		memset(self->host.cpu, 0, HOST_SIZE);
		ASSERT_EQ(IBV_WC_SUCCESS, dm_op(self, IBV_WR_RDMA_WRITE, at, n));
		ASSERT_TRUE(host_got(self, n, at + 4));
		ASSERT_TRUE(dm_got(self, at, n, at + 4));
	}
}

TEST_F(dm, read_puts_its_data_into_the_dm)
{
	for_each_range(r, at, n) {
		fill(self->host.cpu, n, at + 5);
		ASSERT_EQ(IBV_WC_SUCCESS, dm_op(self, IBV_WR_RDMA_READ, at, n));
		ASSERT_TRUE(dm_got(self, at, n, at + 5));
	}
}

TEST_F(dm, send_takes_its_data_from_the_dm)
{
	for_each_range(r, at, n) {
		dm_fill(&self->dm, at, n, at + 6);
		memset(self->host.cpu, 0, HOST_SIZE);
		post_recv(&self->pair, self->host_mr, self->host.iova, HOST_SIZE);
		ASSERT_EQ(IBV_WC_SUCCESS, dm_op(self, IBV_WR_SEND, at, n));
		ASSERT_TRUE(host_got(self, n, at + 6));
		ASSERT_TRUE(dm_got(self, at, n, at + 6));
	}
}

TEST_F(dm, write_and_read_copy_within_the_dm)
{
	size_t n = SIZE / 2 - 20;

	dm_fill(&self->dm, 5, n, 7);
	dm_mark(&self->dm);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->mr, 5, n,
					  SIZE - n, self->mr->rkey));
	ASSERT_TRUE(dm_got(self, SIZE - n, n, 7));
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_RDMA_READ, self->mr, SIZE - n, n,
					  5, self->mr->rkey));
	ASSERT_TRUE(dm_got(self, SIZE - n, n, 7));
}

/* From one DM to another one, by a message. */
TEST_F(dm, send_goes_from_dm_to_dm)
{
	struct dm other;
	struct ibv_mr *mr;

	dm_open(&other, self->ctx, SIZE);
	mr = dm_reg(&other, self->pair.pd, LOCAL_WRITE);
	post_recv(&self->pair, mr, 1, SIZE - 1);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_SEND, self->mr, 0, SIZE - 1, 0, 0));
	ASSERT_TRUE(dm_filled(&other, 1, SIZE - 1, 2, "the other"));
	ASSERT_TRUE(dm_untouched(&self->dm));
	mr_close(mr);
	dm_close(&other);
}

/* The pieces of one message are in device memory and in ordinary memory, at both ends. */
TEST_F(dm, sge_lists_mix_dm_and_host_memory)
{
	const uint32_t n = 1501, half = HOST_SIZE / 2;
	struct ibv_sge from[] = {
		{ .addr = self->host.iova, .length = n, .lkey = self->host_mr->lkey },
		{ .addr = 4095, .length = n, .lkey = self->mr->lkey },
	}, to[] = {
		{ .addr = 8191, .length = n + 2, .lkey = self->mr->lkey },
		{ .addr = self->host.iova + half, .length = n - 2, .lkey = self->host_mr->lkey },
	};
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .sg_list = from, .num_sge = 2,
					.send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = to, .num_sge = 2 };
	uint8_t sent[2 * 1501], came[2 * 1501];

	fill(sent, sizeof(sent), 8);
	memcpy(self->host.cpu, sent, n);
	dm_put(&self->dm, 4095, sent + n, n);
	dm_mark(&self->dm);
	ASSERT_EQ(0, ibv_post_recv(self->pair.qp[1], &recv, &bad_recv));
	ASSERT_EQ(0, ibv_post_send(self->pair.qp[0], &wr, &bad));
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(IBV_WC_SUCCESS, wait_wc(&self->pair, NULL));
	dm_get(&self->dm, 8191, came, n + 2);
	memcpy(came + n + 2, self->host.cpu + half, n - 2);
	ASSERT_TRUE(filled(came, sizeof(came), 8, "both pieces"));
	ASSERT_EQ(0, self->host.cpu[half + n - 2]);
	ASSERT_TRUE(dm_only_changed(&self->dm, 8191, n + 2));
}

/* --- Words of eight bytes */

static uint64_t word_at(const struct dm *d, size_t at)
{
	uint64_t word;

	dm_get(d, at, &word, 8);
	return word;
}

/* Across the end of a page, and up to the last word of the DM. */
static const long words[] = { 0, 8, 4088, 4096, 3 * 4096 + 24 };

TEST_F(dm, compare_and_swap_swaps_on_equal_only)
{
	uint64_t *old = (uint64_t *)self->host.cpu;

	for (int i = 0; i < ARRAY_SIZE(words); i++) {
		uint64_t at = words[i], was = word_at(&self->dm, at);

		ASSERT_EQ(IBV_WC_SUCCESS,
			  atomic_op(&self->pair, IBV_WR_ATOMIC_CMP_AND_SWP, self->host_mr, at,
				    self->mr->rkey, was + 1, 42));
		ASSERT_EQ(was, *old);
		ASSERT_TRUE(dm_untouched(&self->dm));
		ASSERT_EQ(IBV_WC_SUCCESS,
			  atomic_op(&self->pair, IBV_WR_ATOMIC_CMP_AND_SWP, self->host_mr, at,
				    self->mr->rkey, was, 42));
		ASSERT_EQ(was, *old);
		ASSERT_EQ(42, word_at(&self->dm, at));
		ASSERT_TRUE(dm_only_changed(&self->dm, at, 8));
		dm_restore(&self->dm, at, 8);
	}
}

TEST_F(dm, fetch_and_add_adds_and_carries)
{
	uint64_t *old = (uint64_t *)self->host.cpu, was = 0xffffffffull;

	for (int i = 0; i < ARRAY_SIZE(words); i++) {
		dm_put(&self->dm, words[i], &was, 8);
		ASSERT_EQ(IBV_WC_SUCCESS,
			  atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, self->host_mr,
				    words[i], self->mr->rkey, 2, 0));
		ASSERT_EQ(was, *old);
		ASSERT_EQ(was + 2, word_at(&self->dm, words[i]));
		ASSERT_TRUE(dm_only_changed(&self->dm, words[i], 8));
		dm_restore(&self->dm, words[i], 8);
	}
}

/* The old value arrives in the device memory, the first word of it. */
TEST_F(dm, atomic_result_lands_in_the_dm)
{
	uint64_t *word = (uint64_t *)self->host.cpu;

	*word = 0x123456789abcull;
	ASSERT_EQ(IBV_WC_SUCCESS,
		  atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, self->mr, self->host.iova,
			    self->host_mr->rkey, 1, 0));
	ASSERT_EQ(0x123456789abcull, word_at(&self->dm, 0));
	ASSERT_EQ(0x123456789abdull, *word);
	ASSERT_TRUE(dm_only_changed(&self->dm, 0, 8));
}

TEST_F(dm, atomic_and_its_result_share_the_dm)
{
	uint64_t was = 5;

	dm_put(&self->dm, PAGE, &was, 8);
	ASSERT_EQ(IBV_WC_SUCCESS, atomic_op(&self->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, self->mr,
					    PAGE, self->mr->rkey, 37, 0));
	ASSERT_EQ(5, word_at(&self->dm, 0));
	ASSERT_EQ(42, word_at(&self->dm, PAGE));
}

TEST_F(dm, misaligned_atomics_are_refused)
{
	ASSERT_EQ(IBV_WC_REM_INV_REQ_ERR,
		  fetch_add_unchecked(&self->pair, self->host_mr, 4, self->mr->rkey));
	ASSERT_TRUE(dm_untouched(&self->dm));
}

#define ADDERS 3
#define ADDS 200

struct adder {
	struct pair pair;
	struct memory result;
	struct ibv_mr *result_mr;
	uint32_t rkey;
	enum ibv_wc_status status;
};

static void *add_on(void *arg)
{
	struct adder *a = arg;

	for (int i = 0; i < ADDS && !a->status; i++)
		a->status = atomic_op(&a->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, a->result_mr, 8,
				      a->rkey, 1, 0);
	return NULL;
}

/* The CPU sees the sum grow meanwhile. */
TEST_F(dm, adds_of_several_queue_pairs_are_all_counted)
{
	struct adder adder[ADDERS] = {};
	uint64_t last = 0;
	pthread_t thread[ADDERS];

	need("atomics");
	dm_put(&self->dm, 8, &last, 8);
	for (int i = 0; i < ADDERS; i++) {
		struct adder *a = &adder[i];

		pair_open_in(&a->pair, self->pair.pd);
		memory_open(&a->result, HOST, PAGE);
		a->result_mr = memory_reg(&a->result, self->pair.pd, LOCAL_WRITE);
		a->rkey = self->mr->rkey;
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, add_on, a));
	}
	while (last < ADDERS * ADDS / 2) {
		uint64_t now = word_at(&self->dm, 8);

		ASSERT_LE(last, now);
		ASSERT_GE(ADDERS * ADDS, now);
		last = now;
		for (int i = 0; i < ADDERS; i++)
			ASSERT_EQ(IBV_WC_SUCCESS, adder[i].status);
	}
	for (int i = 0; i < ADDERS; i++) {
		struct adder *a = &adder[i];

		ASSERT_EQ(0, pthread_join(thread[i], NULL));
		ASSERT_EQ(IBV_WC_SUCCESS, a->status);
		mr_close(a->result_mr);
		pair_close(&a->pair);
		memory_close(&a->result);
	}
	ASSERT_EQ(ADDERS * ADDS, word_at(&self->dm, 8));
	ASSERT_TRUE(dm_only_changed(&self->dm, 8, 8));
}

TEST_F(dm, atomic_write_stores_eight_bytes)
{
	for (int i = 0; i < ARRAY_SIZE(words); i++) {
		ASSERT_EQ(IBV_WC_SUCCESS, atomic_write(&self->pair, words[i], self->mr->rkey,
						       0x1122334455667788ull));
		ASSERT_EQ(0x1122334455667788ull, word_at(&self->dm, words[i]));
		ASSERT_TRUE(dm_only_changed(&self->dm, words[i], 8));
		dm_restore(&self->dm, words[i], 8);
	}
}

TEST_F(dm, misaligned_atomic_write_is_refused)
{
	ASSERT_EQ(IBV_WC_REM_INV_REQ_ERR, atomic_write(&self->pair, 4, self->mr->rkey, 1));
	ASSERT_TRUE(dm_untouched(&self->dm));
}

/* The place in the memory counts, not the address in the MR. */
TEST_F(dm, atomics_of_an_mr_at_an_odd_byte_are_refused)
{
	struct ibv_mr *odd = dm_reg_part(&self->dm, self->mr->pd, 4, PAGE, dm_rights());

	/* A device may have no atomics on such an MR at all. */
	ASSERT_NE(IBV_WC_SUCCESS,
		  fetch_add_unchecked(&self->pair, self->host_mr, 0, odd->rkey));
	if (device_can("atomic-write")) {
		pair_connect(&self->pair, IBV_MTU_1024);
		ASSERT_EQ(IBV_WC_REM_INV_REQ_ERR, atomic_write(&self->pair, 0, odd->rkey, 1));
	}
	ASSERT_TRUE(dm_untouched(&self->dm));
	mr_close(odd);
}

TEST_F(dm, flush_succeeds_inside_the_mr_only)
{
	need("flush");
	for_each_range(r, at, n) {
		fill(self->host.cpu, n, at + 9);
		ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, n, at, self->mr->rkey));
		ASSERT_EQ(IBV_WC_SUCCESS, flush_op(&self->pair, at, n, self->mr->rkey));
		ASSERT_TRUE(dm_got(self, at, n, at + 9));
	}
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, flush_op(&self->pair, 1, SIZE, self->mr->rkey));
}

TEST_F(dm, flush_without_the_right_is_refused)
{
	struct ibv_mr *mr;

	need("flush");
	mr = dm_reg(&self->dm, self->pair.pd, RWA);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, flush_op(&self->pair, 0, 8, mr->rkey));
	mr_close(mr);
}

/* --- The CPU */

/* The two copy calls and RDMA see the same bytes. */
TEST_F(dm, memcpy_and_rdma_see_the_same_bytes)
{
	static const size_t lengths[] = { 0, 4, 8, 12, 60, 64, 68, 4096, 8196 };
	size_t grain = dm_grain();
	uint8_t *bytes = self->host.cpu;

	for (size_t at = 4096 - 8; at <= 4096 + 8; at += grain) {
		for (int i = 0; i < ARRAY_SIZE(lengths); i++) {
			size_t n = lengths[i] + (grain == 1 && i ? at % 4 : 0);

			fill(bytes, n, at + i);
			ASSERT_EQ(0, ibv_memcpy_to_dm(self->dm.dm, at, bytes, n));
			memset(bytes, 0, HOST_SIZE);
			ASSERT_EQ(0, ibv_memcpy_from_dm(bytes, self->dm.dm, at, n));
			ASSERT_TRUE(host_got(self, n, at + i));
			memset(bytes, 0, HOST_SIZE);
			if (n)
				ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_READ, n, at,
								  self->mr->rkey));
			ASSERT_TRUE(host_got(self, n, at + i));
			dm_restore(&self->dm, at, n);
		}
	}
	ASSERT_TRUE(dm_untouched(&self->dm));
}

#define PIECE 1024
#define STAGES 4	/* pieces under way at a time, each in a place of its own at both ends */
#define PIECES 200

/* Write piece K from its place in the DM to its place in the ordinary memory. */
static void post_piece(FIXTURE_DATA(dm) *self, int k)
{
	uint64_t at = k % STAGES * PIECE;
	struct ibv_sge sge = { .addr = at, .length = PIECE, .lkey = self->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { self->host.iova + at, self->host_mr->rkey },
	};

	if ((errno = ibv_post_send(self->pair.qp[0], &wr, &bad)))
		fail_case("post a write from the DM");
}

/* Other work, so that the device is behind what the process has posted. */
struct other_work {
	struct ibv_pd *pd;
	atomic_bool enough;
	atomic_long done;
};

static void *keep_busy(void *arg)
{
	struct other_work *w = arg;
	struct memory memory;
	struct ibv_mr *mr;
	struct pair pair;

	pair_open_in(&pair, w->pd);
	memory_open(&memory, HOST, 64 * PAGE);
	mr = memory_reg(&memory, w->pd, RWA);
	for (; !w->enough; w->done++)
		if (rdma_op(&pair, IBV_WR_RDMA_WRITE, mr, memory.iova, 32 * PAGE,
			    memory.iova + 32 * PAGE, mr->rkey))
			fail_case("RDMA write of the other work");
	mr_close(mr);
	memory_close(&memory);
	pair_close(&pair);
	return NULL;
}

/*
 * A request finds what was copied before it was posted, also while the device is at work on
 * others, before it in its queue and in other queues.
 */
TEST_F(dm, request_sees_the_memcpy_before_it)
{
	struct other_work work[2] = { { .pd = self->pair.pd }, { .pd = self->pair.pd } };
	pthread_t thread[2];

	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, keep_busy, &work[i]));
		while (!work[i].done)
			usleep(1000);
	}
	for (int k = 0; k < PIECES + STAGES; k++) {
		uint64_t at = k % STAGES * PIECE;

		if (k >= STAGES) {
			ASSERT_EQ(IBV_WC_SUCCESS, wait_wc(&self->pair, NULL));
			ASSERT_TRUE(filled(self->host.cpu + at, PIECE, k - STAGES, "what was sent"));
		}
		if (k < PIECES) {
			dm_fill(&self->dm, at, PIECE, k);
			post_piece(self, k);
		}
	}
	for (int i = 0; i < 2; i++) {
		work[i].enough = true;
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
	}
}

/* Neither end of the process's memory is aligned. */
TEST_F(dm, memcpy_takes_unaligned_host_addresses)
{
	fill(self->host.cpu + 3, 400, 10);
	ASSERT_EQ(0, ibv_memcpy_to_dm(self->dm.dm, 8, self->host.cpu + 3, 400));
	ASSERT_EQ(0, ibv_memcpy_from_dm(self->host.cpu + 1001, self->dm.dm, 8, 400));
	ASSERT_TRUE(filled(self->host.cpu + 1001, 400, 10, "copied back"));
	ASSERT_EQ(0, self->host.cpu[1000]);
	ASSERT_EQ(0, self->host.cpu[1401]);
	ASSERT_TRUE(dm_only_changed(&self->dm, 8, 400));
}

TEST_HARNESS_MAIN
