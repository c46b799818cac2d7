// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A video driver has device memory: vim2m, an unmodified driver of the kernel that imports a
 * dma-buf as every UVC camera does, by a vmap without an attachment, so nobody tells it that
 * the memory goes.
 *
 * It makes nobody wait: the owner's free returns and its process ends.  What it has is its own
 * until it gives the buffer back.  dm/held shows the same with an importer of the tests, and
 * more.
 *
 * Memory in a BAR is I/O memory, which it cannot use, so it takes none.
 */
#include "lib/child.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/dm.h"
#include "lib/harness.h"
#include "lib/pattern.h"
#include <fcntl.h>
#include <linux/videodev2.h>
#include <string.h>
#include <sys/ioctl.h>

#define SIZE (4 * PAGE)
#define TYPE V4L2_BUF_TYPE_VIDEO_OUTPUT

FIXTURE(video)
{
	struct ibv_context *ctx;
	struct child child;
	int video;
	uint32_t frame;		/* bytes of a frame */
	int fd;			/* the dma-buf */
};

static void video_ioctl(int video, unsigned long cmd, void *arg, const char *what)
{
	if (ioctl(video, cmd, arg))
		fail_case("%s of vim2m", what);
}

/* COUNT buffers that are dma-bufs; 0 gives back what there was. */
static void ask_for_buffers(int video, int count)
{
	struct v4l2_requestbuffers r = {
		.count = count, .type = TYPE, .memory = V4L2_MEMORY_DMABUF
	};

	video_ioctl(video, VIDIOC_REQBUFS, &r, "VIDIOC_REQBUFS");
}

FIXTURE_SETUP(video)
{
	struct v4l2_format f = { .type = TYPE };

	need("dm-export");
	ASSERT_TRUE(nothing_left());
	self->fd = -1;
	self->ctx = device_open();
	self->video = open("/dev/video0", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->video);
	f.fmt.pix.width = f.fmt.pix.height = 32;
	f.fmt.pix.pixelformat = V4L2_PIX_FMT_RGB565;
	video_ioctl(self->video, VIDIOC_S_FMT, &f, "VIDIOC_S_FMT");
	self->frame = f.fmt.pix.sizeimage;
	ASSERT_GE(SIZE, self->frame);
}

FIXTURE_TEARDOWN(video)
{
	close(self->video);
	if (self->fd >= 0)
		close(self->fd);
	child_close(&self->child);
	EXPECT_TRUE(dm_budget_is_whole(self->ctx));
	device_close(self->ctx);
	EXPECT_TRUE(nothing_left());
}

/* A frame to work on: vim2m has it mapped from now on. */
static void give_to_video(struct __test_metadata *_metadata, FIXTURE_DATA(video) *self)
{
	struct v4l2_buffer b = {
		.type = TYPE, .memory = V4L2_MEMORY_DMABUF, .m.fd = self->fd, .length = SIZE,
		.bytesused = self->frame, .field = V4L2_FIELD_NONE,
	};

	ask_for_buffers(self->video, 1);
	if (device_can("pci")) {
		ASSERT_NE(0, ioctl(self->video, VIDIOC_QBUF, &b));
		ASSERT_EQ(EFAULT, errno);
	} else {
		video_ioctl(self->video, VIDIOC_QBUF, &b, "VIDIOC_QBUF");
	}
}

/* Bytes that can be allocated. */
static size_t left(struct ibv_context *ctx)
{
	struct dm_rest rest;
	size_t bytes;

	dm_take_rest(&rest, ctx);
	bytes = rest.bytes;
	dm_give_rest(&rest);
	return bytes;
}

static void comes_back(struct __test_metadata *_metadata, FIXTURE_DATA(video) *self, size_t all)
{
	ASSERT_EQ(all, left(self->ctx));
	ask_for_buffers(self->video, 0);
	ASSERT_EQ(all, left(self->ctx));
}

TEST_F(video, free_does_not_wait_for_a_video_driver)
{
	size_t all = left(self->ctx);
	struct dm dm;

	dm_open_filled(&dm, self->ctx, SIZE, 1);
	self->fd = ibv_dm_export_dmabuf_fd(dm.dm);
	ASSERT_LE(0, self->fd);
	give_to_video(_metadata, self);
	dm_close(&dm);
	comes_back(_metadata, self, all);
}

static void owns_a_dm(int sock, void *arg)
{
	struct ibv_context *ctx = device_open();
	struct dm dm;

	dm_open_filled(&dm, ctx, SIZE, 1);
	tell_fd(sock, ibv_dm_export_dmabuf_fd(dm.dm));
	wait_to_go_on(sock);
}

TEST_F(video, exit_does_not_wait_for_a_video_driver)
{
	size_t all = left(self->ctx);

	child_start(&self->child, owns_a_dm, NULL);
	self->fd = ask_fd(self->child.sock);
	give_to_video(_metadata, self);
	go_on(self->child.sock);
	ASSERT_EQ(0, child_wait(&self->child));
	comes_back(_metadata, self, all);
}

TEST_HARNESS_MAIN
