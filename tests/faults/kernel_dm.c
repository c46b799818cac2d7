// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: debug; guest: kernel-dm; devices: rxe */
/* runs: debug-full; guest: kernel-dm; devices: connectx */
/*
 * Every allocation of a ULP with device memory fails once, and nothing is left: for its PD and
 * queue pairs, for device memory, its regions, its export, and an importer of that.
 *
 * The module does the work in the thread that writes the command (tests/kernel_dm).
 *
 * A call that fails leaves nothing behind, not a page of the device's memory either.  What ends
 * something succeeds despite every fault: the module says EPROTO if it does not.
 */
#include "faults/sweep.h"
#include "lib/dm.h"
#include "lib/harness.h"
#include "lib/ulp.h"
#include <string.h>

FIXTURE(kernel_dm)
{
	struct ulp user;
	struct ibv_context *ctx;
	int dmabufs;
};

typedef FIXTURE_DATA(kernel_dm) world;

FIXTURE_SETUP(kernel_dm)
{
	need("dm-export");
	ASSERT_TRUE(nothing_left());
	faults_open();
	self->ctx = device_open();
	ASSERT_TRUE(dm_budget_is_whole(self->ctx));
	ulp_open(&self->user);
}

FIXTURE_TEARDOWN(kernel_dm)
{
	ulp_close(&self->user);
	if (self->ctx)
		EXPECT_TRUE(dm_budget_is_whole(self->ctx));
	device_close(self->ctx);
	EXPECT_TRUE(nothing_left());
}

static void check_all_back(world *self)
{
	errno = 0;
	if (mr_count() || dmabuf_count() || !dm_budget_is_whole(self->ctx))
		fail_case("%d MRs, %d dma-bufs or some device memory are left", mr_count(),
			  dmabuf_count());
}

static void sweep_command(world *self, const char *command)
{
	struct sweep s = {};

	while (sweep_next(&s)) {
		int err;

		fail_at(s.n);
		err = ulp_tries(&self->user, command);
		fail_end(&s, err);
		check_all_back(self);
	}
	sweep_end(&s, "in the kernel, ", command, "");
}

TEST_F_TIMEOUT(kernel_dm, failed_open_leaves_nothing, 600)
{
	struct sweep s = {};
	char command[80];

	snprintf(command, sizeof(command), "open %s", device_name());
	while (sweep_next(&s)) {
		int err;

		fail_at(s.n);
		err = ulp_tries(&self->user, command);
		/* A queue pair of Soft-RoCE has a socket; without memory for it this is the errno. */
		fail_end(&s, err == ENFILE ? ENOMEM : err);
		if (!err)
			ulp_does(&self->user, "close");
	}
	sweep_end(&s, "in the kernel, ", "open", "");
}

/* A COMMAND that ends what hold has made; AGAIN makes what else it ends. */
static void sweep_end_by(world *self, const char *command, const char *again)
{
	struct sweep s = {};

	while (sweep_next(&s)) {
		int err;

		if (again)
			ulp_does(&self->user, "%s", again);
		ulp_does(&self->user, "hold");
		fail_at(s.n);
		err = ulp_tries(&self->user, command);
		fail_end(&s, err);
		if (err == ENOMEM)
			fail_case("\"%s\" failed with a fault at point %u", command, s.n);
		if (err)	/* the command could not be copied */
			ulp_does(&self->user, "%s", command);
		check_all_back(self);
	}
	sweep_end(&s, "in the kernel, ", command, "");
}

TEST_F_TIMEOUT(kernel_dm, free_succeeds_despite_faults, 600)
{
	ulp_does(&self->user, "open %s", device_name());
	sweep_end_by(self, "free", NULL);
}

/* Of mlx5 the queue pairs may fail to end, which has nothing to do with device memory. */
TEST_F_TIMEOUT(kernel_dm, close_succeeds_despite_faults, 600)
{
	char again[80];

	if (device_driver_id() == RDMA_DRIVER_MLX5)
		skip_case("mlx5 takes memory for the commands that end queue pairs");
	snprintf(again, sizeof(again), "open %s", device_name());
	sweep_end_by(self, "close", again);
}

TEST_F_TIMEOUT(kernel_dm, failed_alloc_or_reg_leaves_nothing, 600)
{
	ulp_does(&self->user, "open %s", device_name());
	sweep_command(self, "ring");
	sweep_command(self, "two");
}

TEST_F_TIMEOUT(kernel_dm, failed_export_or_import_leaves_nothing, 600)
{
	ulp_does(&self->user, "open %s", device_name());
	sweep_command(self, "importer");
}

static void prepare(void)
{
	faults_prepare();
	ulps_prepare();
}

int main(int argc, char **argv)
{
	return harness_run(argc, argv, prepare);
}
