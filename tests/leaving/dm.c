// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp; devices: rxe */
/* runs: full debug-full; devices: connectx two */
/*
 * The device with the memory leaves under an importer on another device, or the importer's
 * device leaves: who stays keeps what is theirs and reaches nothing else, and the memory comes
 * back whole and zero.
 *
 * The memory is also in use by its own process.  Who has lost the device can let go of
 * everything, and gets nothing new.
 */
#include "lib/child.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/dm.h"
#include "lib/gone.h"
#include "lib/harness.h"
#include "lib/other.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define SIZE (4 * PAGE)

FIXTURE(dm)
{
	struct other other;
	struct gone gone;
	struct child child;
	bool deleted;
	/* On the other device. */
	struct ibv_context *ctx;
	struct pair pair;
	struct memory host;
	struct ibv_mr *host_mr, *mr;
	struct dm dm;
	int fd;
};

FIXTURE_VARIANT(dm)
{
	int way;	/* enum way, or: by "rdma link" */
};

#define DELETED -1
FIXTURE_VARIANT_ADD(dm, removed) { .way = REMOVED };
FIXTURE_VARIANT_ADD(dm, unbound) { .way = UNBOUND };
FIXTURE_VARIANT_ADD(dm, unloaded) { .way = UNLOADED };
FIXTURE_VARIANT_ADD(dm, deleted) { .way = DELETED };

FIXTURE_SETUP(dm)
{
	self->fd = -1;
	need(variant->way == DELETED ? "add-delete" : "pci");
	need("dm-export");
	need("reg_mr_fd");
	ASSERT_TRUE(nothing_left());
	other_open(&self->other);
	if (variant->way == UNLOADED && !self->other.made)
		skip_case("%s may have the same driver", self->other.name);
	self->ctx = device_open_named(self->other.name);
	pair_open(&self->pair, self->ctx, NULL);
	memory_open(&self->host, HOST, SIZE);
	self->host_mr = memory_reg(&self->host, self->pair.pd, RWA);
}

FIXTURE_TEARDOWN(dm)
{
	child_close(&self->child);
	mr_close(self->mr);
	if (self->fd >= 0)
		close(self->fd);
	dm_close(&self->dm);
	mr_close(self->host_mr);
	pair_close(&self->pair);
	device_close(self->ctx);
	memory_close(&self->host);
	if (*self->gone.path)
		EXPECT_TRUE(device_comes_back(&self->gone));
	if (self->deleted && !device_exists())
		EXPECT_TRUE(device_add());
	other_close(&self->other);
	EXPECT_TRUE(nothing_left());
}

/* --- The process on the device that leaves */

struct loser {
	struct ibv_context *ctx;
	struct pair pair;
	struct memory host;
	struct ibv_mr *host_mr;
};

static void loser_open(struct loser *l)
{
	l->ctx = device_open();
	if (fcntl(l->ctx->async_fd, F_SETFL, O_NONBLOCK))
		fail_case("O_NONBLOCK");
	pair_open(&l->pair, l->ctx, NULL);
	memory_open_filled(&l->host, HOST, SIZE, 3);
	l->host_mr = memory_reg(&l->host, l->pair.pd, RWA);
}

static bool has_lost(struct loser *l)
{
	struct ibv_async_event event;
	bool fatal;

	if (ibv_get_async_event(l->ctx, &event))
		return false;
	fatal = event.event_type == IBV_EVENT_DEVICE_FATAL;
	ibv_ack_async_event(&event);
	return fatal;
}

/*
 * Write to MR, one write after the other, until the device says that it is gone: after that
 * there may be no completion.  Tell the case when the first have been done.
 */
static void write_until_lost(struct loser *l, struct ibv_mr *mr, uint64_t addr, int sock)
{
	struct ibv_sge sge = { .addr = l->host.iova, .length = SIZE, .lkey = l->host_mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = addr, .rkey = mr->rkey },
	};
	bool under_way = false, over = false;
	long done = 0;

	while (!has_lost(l)) {
		struct ibv_wc wc;

		if (!under_way && !over) {
			over = ibv_post_send(l->pair.qp[0], &wr, &bad);
			under_way = !over;
		}
		if (ibv_poll_cq(l->pair.cq, 1, &wc) <= 0)
			continue;
		under_way = false;
		over |= wc.status != IBV_WC_SUCCESS;
		if (++done == 5)
			go_on(sock);
	}
}

static void must_be_gone(bool failed, const char *what)
{
	fails_with(failed ? errno : 0, EIO, what);
}

/* Its memory is in use by itself, and exported to the case. */
static void loses_its_memory(int sock, void *arg)
{
	struct loser l = {};
	struct ibv_mr *mr;
	struct dm dm[2], more;
	uint8_t bytes[SIZE];

	loser_open(&l);
	for (int i = 0; i < 2; i++)
		dm_open_filled(&dm[i], l.ctx, SIZE, 5 + i);
	mr = dm_reg(&dm[0], l.pair.pd, RWA);
	tell_fd(sock, must(1 + ibv_dm_export_dmabuf_fd(dm[1].dm)) - 1);
	write_until_lost(&l, mr, 0, sock);

	must_be_gone(dm_try_open(&more, l.ctx, PAGE), "alloc");
	must_be_gone(!ibv_reg_dm_mr(l.pair.pd, dm[1].dm, 0, PAGE, IBV_ACCESS_ZERO_BASED), "reg");
	must_be_gone(ibv_dm_export_dmabuf_fd(dm[1].dm) < 0, "export");
	/* What these find is nobody's, but they find something. */
	for (int i = 0; i < 2; i++) {
		dm_get(&dm[i], 0, bytes, SIZE);
		dm_put(&dm[i], 0, bytes, SIZE);
	}
	mr_close(mr);
	for (int i = 0; i < 2; i++)
		dm_close(&dm[i]);
}

/* It has memory of the other device, which the case has exported. */
static void loses_its_device(int sock, void *arg)
{
	const int *fd = arg;
	struct loser l = {};
	struct ibv_mr *mr;

	loser_open(&l);
	mr = must(ibv_reg_mr_fd_iova(l.pair.pd, 0, SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF, *fd, RW));
	write_until_lost(&l, mr, IOVA, sock);
	must_be_gone(!ibv_reg_mr_fd_iova(l.pair.pd, 0, SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF, *fd, RW),
		     "reg");
	mr_close(mr);
}

/* --- What the case sees */

/* The device leaves, and its process has ended. */
static bool leaves(FIXTURE_DATA(dm) *self, int way)
{
	int status;
	pid_t del;

	if (way != DELETED)
		return device_leaves(&self->gone, way) && !child_wait(&self->child);
	self->deleted = true;
	del = fork();
	if (!del)
		device_delete_exec();
	return waitpid(del, &status, 0) == del && !status && !device_exists() &&
	       !child_wait(&self->child);
}

static bool comes_back(FIXTURE_DATA(dm) *self, int way)
{
	struct ibv_context *ctx;
	struct dm_rest rest;
	bool zero;

	if (way == DELETED ? !device_add() || !device_gets_ready() : !device_comes_back(&self->gone))
		return false;
	ctx = device_open();
	dm_take_rest(&rest, ctx);
	zero = dm_rest_is_zero(&rest) && rest.bytes == dm_max(ctx) / PAGE * PAGE;
	dm_give_rest(&rest);
	device_close(ctx);
	return zero;
}

/* Traffic on the other device, with memory of the one that leaves. */
struct writer {
	FIXTURE_DATA(dm) *self;
	pthread_t thread;
	atomic_bool left;	/* the device has */
	atomic_long done;
	long late;
	enum ibv_wc_status status;
};

static void *write_on(void *arg)
{
	struct writer *w = arg;
	FIXTURE_DATA(dm) *self = w->self;

	while (!w->status) {
		bool after = w->left;

		w->status = rdma_op(&self->pair, w->done % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
				    self->host_mr, self->host.iova, SIZE, IOVA, self->mr->rkey);
		w->late += after && !w->status;
		w->done++;
	}
	return NULL;
}

TEST_F_TIMEOUT(dm, mr_on_dm_fails_after_its_device_left, 240)
{
	struct writer w = { .self = self };

	child_start(&self->child, loses_its_memory, NULL);
	self->fd = ask_fd(self->child.sock);
	wait_to_go_on(self->child.sock);
	self->mr = must(ibv_reg_mr_fd_iova(self->pair.pd, 0, SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF,
					   self->fd, RWA));
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_RDMA_READ, self->host_mr,
					  self->host.iova, SIZE, IOVA, self->mr->rkey));
	ASSERT_TRUE(filled(self->host.cpu, SIZE, 6, "memory of the device that is to leave"));
	ASSERT_EQ(0, pthread_create(&w.thread, NULL, write_on, &w));
	while (w.done < 4)
		usleep(100);
	ASSERT_TRUE(leaves(self, variant->way));
	w.left = true;
	ASSERT_EQ(0, pthread_join(w.thread, NULL));
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, w.status);
	ASSERT_EQ(0, w.late);
	pair_connect(&self->pair, IBV_MTU_1024);
	ASSERT_EQ(NULL, ibv_reg_mr_fd_iova(self->pair.pd, 0, SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF,
					   self->fd, RW));
	ASSERT_EQ(ENODEV, errno);
	ASSERT_TRUE(comes_back(self, variant->way));
	/* The memory is there again, and it is not that of the MR. */
	ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
		  rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova, SIZE,
			  IOVA, self->mr->rkey));
	mr_close(self->mr);
	self->mr = NULL;
	ASSERT_EQ(0, close(self->fd));
	self->fd = -1;
}

TEST_F_TIMEOUT(dm, dm_is_whole_after_its_importers_device_left, 240)
{
	dm_open(&self->dm, self->ctx, SIZE);
	self->fd = must(1 + ibv_dm_export_dmabuf_fd(self->dm.dm)) - 1;
	self->mr = must(ibv_reg_mr_fd_iova(self->pair.pd, 0, SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF,
					   self->fd, RWA));
	child_start(&self->child, loses_its_device, &self->fd);
	wait_to_go_on(self->child.sock);
	ASSERT_TRUE(leaves(self, variant->way));
	ASSERT_TRUE(dm_filled(&self->dm, 0, SIZE, 3, "what the other device has written"));
	/* Who has not left goes on. */
	fill(self->host.cpu, SIZE, 8);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr,
					  self->host.iova, SIZE, IOVA, self->mr->rkey));
	ASSERT_TRUE(dm_filled(&self->dm, 0, SIZE, 8, "the importer that has stayed"));
	ASSERT_EQ(0, dm_try_close(&self->dm));
	ASSERT_TRUE(dm_budget_is_whole(self->ctx));
	ASSERT_TRUE(comes_back(self, variant->way));
}

TEST_HARNESS_MAIN
