// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; devices: rxe */
/* runs: full; devices: connectx */
/*
 * A read that is repeated is answered again with the bytes of that read, and with no others.
 *
 * It gets neither more of the memory window, nor what lies behind it.
 *
 * The requester is reset and connected again with the PSN of an earlier read.  What it
 * posts then is a duplicate for the responder, which was not reset.
 */
#include "queues/ends.h"
#include "lib/harness.h"
#include "lib/pattern.h"

#define WINDOW (2 * PAGE)	/* where it begins in the MR; it is a page */
#define SHORT_TIMEOUT 14	/* 67 ms */

FIXTURE(duplicate)
{
	struct ends e;
	struct ibv_mw *mw;
};

FIXTURE_SETUP(duplicate)
{
	ends_open(&self->e);
	pair_open_in(&self->e.pair, self->e.pd);
}

FIXTURE_TEARDOWN(duplicate)
{
	if (self->mw) /* or its QP is not destroyed */
		EXPECT_EQ(0, ibv_dealloc_mw(self->mw));
	ends_close(&self->e);
}

/* The next request has this PSN.  A peer that shall not answer gets a SHORT_TIMEOUT. */
static void go_back_to(FIXTURE_DATA(duplicate) *self, uint32_t psn, uint8_t timeout)
{
	pair_connect_end(&self->e.pair, 0, IBV_MTU_1024, psn, timeout);
	memset(self->e.here.cpu, 0, SIZE);
}

static enum ibv_wc_status read_of(FIXTURE_DATA(duplicate) *self, uint64_t addr, uint32_t length,
				  uint32_t rkey)
{
	return rdma_op(&self->e.pair, IBV_WR_RDMA_READ, self->e.mr, self->e.here.iova, length, addr,
		       rkey);
}

/* Whether the bytes from OFFSET of the peer's memory were read. */
static bool got(FIXTURE_DATA(duplicate) *self, size_t offset, size_t length)
{
	return !memcmp(self->e.here.cpu, self->e.there.cpu + offset, length);
}

/* A window of one page, bound by the second QP. */
static void bind(FIXTURE_DATA(duplicate) *self, int access)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_BIND_MW,
					.send_flags = IBV_SEND_SIGNALED };

	self->mw = window_alloc(self->e.pd, IBV_MW_TYPE_2);
	wr.bind_mw.mw = self->mw;
	wr.bind_mw.rkey = ibv_inc_rkey(self->mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = self->e.peer, .addr = self->e.there.iova + WINDOW, .length = PAGE,
		.mw_access_flags = REMOTE_READ | access,
	};
	if (ibv_post_send(self->e.pair.qp[1], &wr, &bad) || wait_wc(&self->e.pair, NULL))
		fail_case("bind a window");
	self->mw->rkey = wr.bind_mw.rkey;
}

TEST_F(duplicate, duplicate_read_is_answered)
{
	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, self->e.there.iova, SIZE, self->e.peer->rkey));
	for (int i = 0; i < 3; i++) {
		go_back_to(self, 0, LONG_TIMEOUT);
		ASSERT_EQ(IBV_WC_SUCCESS,
			  read_of(self, self->e.there.iova, SIZE, self->e.peer->rkey));
		ASSERT_TRUE(got(self, 0, SIZE));
	}
}

TEST_F(duplicate, duplicate_read_by_window_is_answered)
{
	uint64_t addr = self->e.there.iova + WINDOW;

	bind(self, 0);
	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, addr, PAGE, self->mw->rkey));
	go_back_to(self, 0, LONG_TIMEOUT);
	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, addr, PAGE, self->mw->rkey));
	ASSERT_TRUE(got(self, WINDOW, PAGE));
}

TEST_F(duplicate, duplicate_read_by_zero_based_window_is_answered)
{
	bind(self, IBV_ACCESS_ZERO_BASED);
	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, 0, PAGE, self->mw->rkey));
	ASSERT_TRUE(got(self, WINDOW, PAGE));
	go_back_to(self, 0, LONG_TIMEOUT);
	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, 0, PAGE, self->mw->rkey));
	ASSERT_TRUE(got(self, WINDOW, PAGE));
}

/* Each would begin a packet further on than the one before it, up to behind the window. */
TEST_F(duplicate, duplicate_read_does_not_move_past_its_window)
{
	uint64_t addr = self->e.there.iova + WINDOW;

	bind(self, 0);
	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, addr, PAGE, self->mw->rkey));
	for (int i = 1; i <= 4; i++) {
		go_back_to(self, 0, SHORT_TIMEOUT);
		ASSERT_NE(IBV_WC_SUCCESS, read_of(self, addr + i * 1024, 1024, self->mw->rkey));
		ASSERT_FALSE(got(self, WINDOW + i * 1024, 1024));
	}
}

TEST_F(duplicate, duplicate_zero_length_read_is_answered)
{
	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, self->e.there.iova, 0, self->e.peer->rkey));
	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, self->e.there.iova, PAGE, self->e.peer->rkey));
	go_back_to(self, 0, LONG_TIMEOUT);
	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, self->e.there.iova, 0, self->e.peer->rkey));
}

TEST_F(duplicate, duplicate_read_is_answered_after_zero_length_read)
{
	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, self->e.there.iova, PAGE, self->e.peer->rkey));
	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, self->e.there.iova, 0, self->e.peer->rkey));
	go_back_to(self, 0, LONG_TIMEOUT);
	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, self->e.there.iova, PAGE, self->e.peer->rkey));
	ASSERT_TRUE(got(self, 0, PAGE));
}

/*
 * The requester may have the answer by now, and the peer may know it.  So the duplicate breaks
 * no connection: the next request is answered.
 */
TEST_F(duplicate, duplicate_read_of_deregistered_memory_breaks_no_connection)
{
	uint32_t rkey = self->e.peer->rkey;

	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, self->e.there.iova, PAGE, rkey));
	mr_close(self->e.peer);
	self->e.peer = NULL;
	go_back_to(self, 0, SHORT_TIMEOUT);
	ASSERT_NE(IBV_WC_SUCCESS, read_of(self, self->e.there.iova, PAGE, rkey));
	self->e.peer = memory_reg(&self->e.there, self->e.pd, ALL_ACCESS);
	go_back_to(self, PAGE / 1024, LONG_TIMEOUT);
	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, self->e.there.iova, PAGE, self->e.peer->rkey));
	ASSERT_TRUE(got(self, 0, PAGE));
}

/*
 * The peer answers a duplicate that begins in the middle of a read with packets of the
 * middle.  They are no answer to the read that was posted.
 */
TEST_F(duplicate, middle_packets_of_a_read_are_a_bad_response)
{
	need("read-middles");
	ASSERT_EQ(IBV_WC_SUCCESS, read_of(self, self->e.there.iova, SIZE, self->e.peer->rkey));
	go_back_to(self, 1, LONG_TIMEOUT);
	ASSERT_EQ(IBV_WC_BAD_RESP_ERR, read_of(self, self->e.there.iova + 1024, SIZE - 1024,
					       self->e.peer->rkey));
}

TEST_HARNESS_MAIN
