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
 * and keeps its mapping, as xe does until the next use.  What they have is theirs until they end
 * it: no other owner gets it.
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
#include <stdlib.h>
#include <string.h>

#define SIZE (4 * PAGE)

FIXTURE(held)
{
	struct ibv_context *ctx;
	struct dm dm;			/* marked */
	int fd;				/* its dma-buf */
	int importer;
	struct child child;
	struct gone gone;
	bool left;			/* the device has left */
	uint8_t seen[SIZE];		/* what the importer reads */
};

FIXTURE_VARIANT(held)
{
	const char *how;
	bool reads;
};

FIXTURE_VARIANT_ADD(held, by_a_vmap) { "vmap %d", true };
FIXTURE_VARIANT_ADD(held, by_a_map_for_dma) { "hold %d %s", false };

FIXTURE_SETUP(held)
{
	need("dm-export");
	ASSERT_TRUE(nothing_left());
	self->fd = -1;
	self->importer = importer_open();
	self->ctx = device_open();
}

FIXTURE_TEARDOWN(held)
{
	if (self->fd >= 0)
		close(self->fd);
	close(self->importer);
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

/* By the other device, if there is one: it stays when the device under test leaves. */
static int import(FIXTURE_DATA(held) *self, const FIXTURE_VARIANT(held) *variant)
{
	const char *other = getenv("MRFD_OTHER_DEVICE");

	return importer_does(self->importer, variant->how, self->fd, other ?: device_name());
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
	others_write(self->ctx);
	ASSERT_TRUE(still_held(self, variant));
	ASSERT_EQ(0, importer_does(self->importer, "end"));
}

TEST_F(held, memory_comes_back_when_the_importer_ends)
{
	export_a_dm(self);
	ASSERT_EQ(0, import(self, variant));
	dm_close(&self->dm);
	ASSERT_EQ(0, importer_does(self->importer, "end"));
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
	ASSERT_EQ(0, importer_does(self->importer, "end"));
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
	/* It names who is attached: a vmap is not, and what the device itself held went with it. */
	if (!variant->reads && getenv("MRFD_OTHER_DEVICE"))
		ASSERT_TRUE(kernel_said(log, "has device memory of"));
	close(log);
	ASSERT_EQ(0, importer_does(self->importer, "end"));
	memset(&self->dm, 0, sizeof(self->dm));
	device_close(self->ctx);
	self->ctx = NULL;
}

TEST_HARNESS_MAIN
