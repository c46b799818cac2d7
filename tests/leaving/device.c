// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp gpu; devices: all */
/* runs: full debug-full; guest: gpu; devices: pinned */
/*
 * The RDMA device is removed from the PCI bus, unbound or unloaded under traffic: both processes
 * learn it, every call of theirs is EIO, no buffer is held, and the same buffers are registered
 * on the device that came back.
 *
 * They learn it by DEVICE_FATAL.  There are MRs of all kinds of memory.  The GPU can move its
 * own buffers, and their bytes are right.
 */
#include "leaving/two.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/gone.h"
#include "lib/harness.h"
#include <unistd.h>

enum { WITHOUT_DEVICE = 1, WITH_DEVICE };

FIXTURE(device)
{
	struct two two;
	struct gone gone;
};

FIXTURE_VARIANT(device)
{
	enum way way;
};

FIXTURE_VARIANT_ADD(device, removed) { .way = REMOVED };
FIXTURE_VARIANT_ADD(device, unbound) { .way = UNBOUND };
FIXTURE_VARIANT_ADD(device, unloaded) { .way = UNLOADED };

FIXTURE_SETUP(device)
{
	need("pci");
	need("reg_mr_fd");
	ASSERT_TRUE(nothing_left());
}

FIXTURE_TEARDOWN(device)
{
	two_close(&self->two);
	if (*self->gone.path)
		EXPECT_TRUE(device_comes_back(&self->gone));
	EXPECT_TRUE(nothing_left());
}

static void loses_device(struct end *e, struct board *board, int sock)
{
	if (!e->fatal)
		fail_case("the device has not said that it is gone");
	end_calls_fail(e);
	end_memory_is_free(e);
	device_close(e->ctx);
	board->done = WITHOUT_DEVICE;
	while (board->order != WITH_DEVICE)
		usleep(1000);
	end_memory_works(e);
}

TEST_F_TIMEOUT(device, leaving_device_fails_calls_and_frees_buffers, 240)
{
	two_start(&self->two, loses_device);
	ASSERT_TRUE(device_leaves(&self->gone, variant->way));
	two_order(&self->two, WITHOUT_DEVICE);
	two_wait_for(&self->two, WITHOUT_DEVICE);
	ASSERT_EQ(0, two_reap(&self->two, PEER, NULL));
	ASSERT_TRUE(traffic_lost_device(self->two.board->tally[OWNER], nr_kinds));
	ASSERT_TRUE(traffic_lost_device(self->two.board->tally[PEER], nr_kinds));
	ASSERT_EQ(0, mr_count());
	ASSERT_TRUE(device_comes_back(&self->gone));
	two_order(&self->two, WITH_DEVICE);
	ASSERT_EQ(0, two_reap(&self->two, OWNER, NULL));
}

TEST_HARNESS_MAIN
