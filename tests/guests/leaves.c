// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The second function of the card goes away while a thread writes by it, by who reads "traffic"
 * from this program (host/direct_leaves), and comes back when that one has read "gone".  One that
 * is unplugged lets the kernel know first, as by the button at a slot; one that is pulled is not
 * there from one access to the next, and the kernel learns it later.
 *
 * The writer gets a remote access error, and no byte is written from then on; the MRs of the
 * first function notice nothing.  What comes back serves new MRs, and no old key.
 */
#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/harness.h"
#include "lib/ways.h"
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <unistd.h>

#define LIMIT 60	/* seconds, of an idle machine */

FIXTURE(second)
{
	struct ways w;
};

FIXTURE_SETUP(second)
{
	ASSERT_TRUE(nothing_left());
	ways_open(&self->w);
}

FIXTURE_TEARDOWN(second)
{
	ways_close(&self->w);
	EXPECT_TRUE(nothing_left());
}

/* Whether the driver has the function: mlx5dv's errno. */
static int path_errno(FIXTURE_DATA(second) *self)
{
	char path[PATH_MAX];

	return mlx5dv_get_data_direct_sysfs_path(self->w.ctx, path, sizeof(path));
}

static bool path_becomes(FIXTURE_DATA(second) *self, int err)
{
	double end = deadline(LIMIT);

	while (path_errno(self) != err && now() < end)
		usleep(10000);
	return path_errno(self) == err;
}

static bool answers_with_ones(FIXTURE_DATA(second) *self)
{
	double end = deadline(LIMIT);

	while (second_vendor(&self->w.second) != 0xffff && now() < end)
		usleep(10000);
	return second_vendor(&self->w.second) == 0xffff;
}

static void say_and_flush(const char *word)
{
	puts(word);
	fflush(stdout);
}

static void begin_traffic(FIXTURE_DATA(second) *self)
{
	ways_begin_writing(&self->w);
	say_and_flush("traffic");
}

/* It has gone: from here on no byte arrives, and the first function goes on. */
static void traffic_has_ended(struct __test_metadata *_metadata, FIXTURE_DATA(second) *self)
{
	ways_mark(&self->w);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, ways_end_writing(&self->w));
	EXPECT_TRUE(memory_untouched(&self->w.buf));
	EXPECT_TRUE(ways_refused(&self->w));
	EXPECT_TRUE(ways_carry(&self->w, self->w.plain_mr, &self->w.plain, 10));
}

static void comes_back(struct __test_metadata *_metadata, FIXTURE_DATA(second) *self)
{
	struct ibv_mr *mr;

	EXPECT_EQ(ENODEV, path_errno(self));
	EXPECT_EQ(NULL, ways_reg(&self->w));
	EXPECT_EQ(EINVAL, errno);
	say_and_flush("gone");
	ASSERT_TRUE(path_becomes(self, 0));
	EXPECT_TRUE(ways_refused(&self->w));
	mr = must(ways_reg(&self->w));
	EXPECT_NE(self->w.mr->rkey, mr->rkey);
	EXPECT_TRUE(ways_carry(&self->w, mr, &self->w.buf, 20));
	EXPECT_TRUE(ways_refused(&self->w));
	mr_close(self->w.mr);
	self->w.mr = mr;
	EXPECT_TRUE(ways_carry(&self->w, mr, &self->w.buf, 21));
	EXPECT_TRUE(ways_carry(&self->w, self->w.plain_mr, &self->w.plain, 22));
}

TEST_F_TIMEOUT(second, unplugged_function_ends_traffic_and_comes_back, 300)
{
	begin_traffic(self);
	ASSERT_TRUE(path_becomes(self, ENODEV));
	traffic_has_ended(_metadata, self);
	comes_back(_metadata, self);
}

/* Its driver learns of it as from a slot that has noticed: the device is removed. */
TEST_F_TIMEOUT(second, pulled_function_ends_traffic_and_comes_back, 300)
{
	begin_traffic(self);
	ASSERT_TRUE(answers_with_ones(self));
	traffic_has_ended(_metadata, self);
	ASSERT_EQ(0, path_errno(self));
	second_remove(&self->w.second);
	EXPECT_TRUE(ways_refused(&self->w));
	EXPECT_TRUE(ways_carry(&self->w, self->w.plain_mr, &self->w.plain, 30));
	comes_back(_metadata, self);
}

TEST_HARNESS_MAIN
