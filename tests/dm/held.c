// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: importer; devices: rxe */
/* runs: quick debug-full; guest: importer; devices: connectx */
/* runs: full debug-full; guest: importer; devices: two */
/*
 * An importer that keeps device memory makes nobody wait: the owner's free returns, its process
 * ends, and its device leaves, while the memory is vmapped or mapped for DMA.
 *
 * The importer is the module tests/importer.  "vmap" has no attachment, as vb2's vmalloc
 * importer (every UVC camera) has none, so nobody tells it that the memory goes.  "hold" is told
 * and keeps its mapping, as xe does until the next use.  A fence is what any process can add that
 * has the fd (DMA_BUF_IOCTL_IMPORT_SYNC_FILE); it stands for work of a device that nobody sees.
 * What they have is theirs until they end it: no other owner gets it.
 */
#include "lib/child.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/dm.h"
#include "lib/gone.h"
#include "lib/harness.h"
#include "lib/importer.h"
#include "lib/pattern.h"
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/types.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define SIZE (4 * PAGE)

/* Fences of the kernel's framework for tests; no header of user space has it. */
#define SW_SYNC "/sys/kernel/debug/sync/sw_sync"
struct sw_sync_create_fence {
	__u32 value;
	char name[32];
	__s32 fence;
};
#define SW_SYNC_CREATE_FENCE _IOWR('W', 0, struct sw_sync_create_fence)
#define SW_SYNC_INC _IOW('W', 1, __u32)

FIXTURE(held)
{
	struct ibv_context *ctx;
	struct dm dm;			/* marked */
	int fd;				/* its dma-buf */
	int importer;
	int timeline;			/* of the fence, or -1 */
	struct child child;
	struct gone gone;
	bool left;			/* the device has left */
	uint8_t seen[SIZE];		/* what the importer reads */
};

FIXTURE_VARIANT(held)
{
	const char *how;		/* or NULL: by a fence */
	bool reads;
};

FIXTURE_VARIANT_ADD(held, by_a_vmap) { "vmap %d", true };
FIXTURE_VARIANT_ADD(held, by_a_map_for_dma) { "hold %d %s", false };
FIXTURE_VARIANT_ADD(held, by_a_fence) { NULL, false };

FIXTURE_SETUP(held)
{
	need("dm-export");
	ASSERT_TRUE(nothing_left());
	self->fd = self->timeline = -1;
	self->importer = importer_open();
	self->ctx = device_open();
}

FIXTURE_TEARDOWN(held)
{
	if (self->fd >= 0)
		close(self->fd);
	close(self->importer);
	if (self->timeline >= 0)
		close(self->timeline);
	child_close(&self->child);
	if (self->left) {
		EXPECT_TRUE(device_comes_back(&self->gone));
	} else {
		dm_close(&self->dm);
	}
	if (!self->ctx)
		self->ctx = device_open();
	EXPECT_TRUE(dm_budget_is_whole(self->ctx));
	device_close(self->ctx);
	EXPECT_TRUE(nothing_left());
}

static void export_a_dm(FIXTURE_DATA(held) *self)
{
	dm_open_filled(&self->dm, self->ctx, SIZE, 1);
	self->fd = ibv_dm_export_dmabuf_fd(self->dm.dm);
	if (self->fd < 0)
		fail_case("export a DM as a dma-buf");
}

/* Add a fence that signals when its timeline goes on. */
static int add_fence(FIXTURE_DATA(held) *self)
{
	struct sw_sync_create_fence create = { .value = 1, .name = "held" };
	struct dma_buf_import_sync_file import = { .flags = DMA_BUF_SYNC_RW };
	int err;

	self->timeline = open(SW_SYNC, O_RDWR | O_CLOEXEC);
	if (self->timeline < 0)
		fail_case("open %s", SW_SYNC);
	if (ioctl(self->timeline, SW_SYNC_CREATE_FENCE, &create))
		fail_case("create a fence");
	import.fd = create.fence;
	err = ioctl(self->fd, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &import) ? errno : 0;
	close(create.fence);
	return err;
}

/* By the other device, if there is one: it stays when the device under test leaves. */
static int import(FIXTURE_DATA(held) *self, const FIXTURE_VARIANT(held) *variant)
{
	const char *other = getenv("MRFD_OTHER_DEVICE");

	if (!variant->how)
		return add_fence(self);
	return importer_does(self->importer, variant->how, self->fd, other ?: device_name());
}

/* End what import() has begun. */
static int end(FIXTURE_DATA(held) *self, const FIXTURE_VARIANT(held) *variant)
{
	__u32 one = 1;

	if (!variant->how)
		return ioctl(self->timeline, SW_SYNC_INC, &one) ? errno : 0;
	return importer_does(self->importer, "end");
}

/* Whether the importer has what it had, and nobody gets an import any more. */
static bool still_held(FIXTURE_DATA(held) *self, const FIXTURE_VARIANT(held) *variant)
{
	int other = importer_open();
	int err = importer_does(other, "vmap %d", self->fd);

	close(other);
	if (err != ENODEV)
		printf("# import of a DM that was freed: %s\n", strerror(err));
	if (err != ENODEV || !variant->reads)
		return err == ENODEV;
	importer_read(self->importer, self->seen, SIZE);
	return filled(self->seen, SIZE, 1, "read by the importer");
}

/* Whether the next owner can have all memory of the device. */
static bool all_can_be_had(struct ibv_context *ctx)
{
	struct dm all;
	bool had = !dm_try_open(&all, ctx, dm_max(ctx));

	if (had)
		dm_close(&all);
	return had;
}

/* The next owners write all that they get. */
static void others_write(struct ibv_context *ctx)
{
	struct dm_rest rest;

	dm_take_rest(&rest, ctx);
	for (int i = 0; i < rest.pieces; i++)
		dm_fill(&rest.piece[i], 0, rest.piece[i].size, 9);
	dm_give_rest(&rest);
}

TEST_F(held, free_does_not_wait)
{
	export_a_dm(self);
	ASSERT_EQ(0, import(self, variant));
	dm_close(&self->dm);
	/* Of a BAR.  The budget of rxe counts what owners have, see dm.rst. */
	if (device_can("pci"))
		ASSERT_FALSE(all_can_be_had(self->ctx));
	others_write(self->ctx);
	ASSERT_TRUE(still_held(self, variant));
	ASSERT_EQ(0, end(self, variant));
}

TEST_F(held, memory_comes_back_when_the_importer_ends)
{
	export_a_dm(self);
	ASSERT_EQ(0, import(self, variant));
	dm_close(&self->dm);
	ASSERT_EQ(0, end(self, variant));
	/* The fd keeps nothing. */
	ASSERT_TRUE(dm_budget_is_whole(self->ctx));
}

static void owns_a_dm(int sock, void *arg)
{
	struct ibv_context *ctx = device_open();
	struct dm dm;

	dm_open_filled(&dm, ctx, SIZE, 1);
	tell_fd(sock, ibv_dm_export_dmabuf_fd(dm.dm));
	wait_to_go_on(sock);
}

TEST_F(held, exit_of_the_owner_does_not_wait)
{
	child_start(&self->child, owns_a_dm, NULL);
	self->fd = ask_fd(self->child.sock);
	ASSERT_EQ(0, import(self, variant));
	go_on(self->child.sock);
	ASSERT_EQ(0, child_wait(&self->child));
	others_write(self->ctx);
	ASSERT_TRUE(still_held(self, variant));
	ASSERT_EQ(0, end(self, variant));
}

/* Whether the kernel has said TEXT since the log was opened. */
static bool kernel_said(int log, const char *text)
{
	char line[1024];
	ssize_t n;

	while ((n = read(log, line, sizeof(line) - 1)) > 0) {
		line[n] = 0;
		if (strstr(line, text))
			return true;
	}
	return false;
}

/* A BAR goes with its device, so the removal waits a while for who keeps it, and no longer. */
TEST_F_TIMEOUT(held, removal_of_the_device_ends, 120)
{
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	need("pci");
	ASSERT_LE(0, log);
	lseek(log, 0, SEEK_END);
	export_a_dm(self);
	ASSERT_EQ(0, import(self, variant));
	device_is_to_leave(&self->gone);
	self->left = true;
	ASSERT_TRUE(device_leaves(&self->gone, UNBOUND));
	/* It names who is attached: a vmap and a fence are not, and what the device itself held went with it. */
	if (variant->how && !variant->reads && getenv("MRFD_OTHER_DEVICE"))
		ASSERT_TRUE(kernel_said(log, "has device memory of"));
	close(log);
	ASSERT_EQ(0, end(self, variant));
	memset(&self->dm, 0, sizeof(self->dm));
	device_close(self->ctx);
	self->ctx = NULL;
}

TEST_HARNESS_MAIN
