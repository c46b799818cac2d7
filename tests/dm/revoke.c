// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full kcsan; guest: smp; devices: rxe */
/* runs: full debug-full; devices: connectx pinned two */
/*
 * Device memory is freed while importers of its dma-buf use it, also by the death of its owner:
 * after the free nobody reaches it, and its next owner finds it zero and keeps what it writes.
 *
 * Nobody reaches it under traffic, by a key that is used again, or by a registration that was
 * under way.  The importers' MRs answer with errors until they are deregistered, and then
 * everything is gone.
 */
#include "dm/exported.h"
#include "lib/child.h"
#include "lib/clock.h"
#include "lib/test_exporter.h"
#include <pthread.h>
#include <stdatomic.h>

#define OTHERS_PAGES (64 * PAGE)

/*
 * Who gets the memory of a DM that was freed: all that the device has now, and pages of the
 * kernel, of which a device without memory of its own makes its DMs.
 */
struct others {
	struct dm_rest rest;
	struct memory pages;
	/* To look at what they have. */
	struct pair pair;
	struct memory host;
	struct ibv_mr *host_mr;
};

static void others_open(struct others *o, struct ibv_context *ctx)
{
	dm_take_rest(&o->rest, ctx);
	test_exporter_open(&o->pages, OTHERS_PAGES, 0);
	pair_open(&o->pair, ctx, NULL);
	memory_open(&o->host, HOST, dm_max(ctx));
	o->host_mr = memory_reg(&o->host, o->pair.pd, LOCAL_WRITE);
}

static bool others_untouched(struct others *o)
{
	return dm_rest_reads_zero(&o->rest, &o->pair, &o->host, o->host_mr) &&
	       memory_is_zero(&o->pages);
}

static void others_close(struct others *o)
{
	mr_close(o->host_mr);
	pair_close(&o->pair);
	memory_close(&o->host);
	memory_close(&o->pages);
	dm_give_rest(&o->rest);
}

static size_t budget(FIXTURE_DATA(exported) *self)
{
	return dm_max(self->ctx[EXPORTER]) / PAGE * PAGE;
}

/* Whether the MR gives no access, by its rkey and by its lkey, and its bytes go nowhere. */
static bool is_dead(FIXTURE_DATA(exported) *self, struct ibv_mr *mr)
{
	static const struct {
		bool local;
		enum ibv_wr_opcode opcode;
		enum ibv_wc_status status;
	} uses[] = {
		{ false, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR },
		{ false, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR },
		{ false, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_ACCESS_ERR },
		{ true, IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR },
		{ true, IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR },
	};
	bool dead = true;

	memset(self->host.cpu, 0x77, HOST_SIZE);
	memory_mark(&self->host);
	for (int i = 0; i < ARRAY_SIZE(uses); i++) {
		enum ibv_wc_status status;

		if (uses[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			status = atomic_op(&self->pair, uses[i].opcode, self->host_mr, IOVA,
					   mr->rkey, 1, 0);
		else if (uses[i].local)
			status = local_op(self, uses[i].opcode, mr, 0, SIZE);
		else
			status = host_op(self, uses[i].opcode, SIZE, 0, mr->rkey);
		if (status != uses[i].status) {
			printf("# %s access %d to freed memory: %s, not %s\n",
			       uses[i].local ? "local" : "remote", i, ibv_wc_status_str(status),
			       ibv_wc_status_str(uses[i].status));
			dead = false;
		}
		pair_connect(&self->pair, IBV_MTU_1024);
	}
	return memory_untouched(&self->host) && dead;
}

TEST_F(exported, free_ends_the_access_of_the_importer)
{
	struct others others;

	/* Also what is in the last page beside the DM. */
	fill(self->host.cpu, BUF_SIZE, 2);
	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, BUF_SIZE, 0, self->mr->rkey));
	dm_close(&self->dm);
	others_open(&others, self->ctx[EXPORTER]);
	ASSERT_EQ(budget(self), others.rest.bytes);
	ASSERT_TRUE(others_untouched(&others));
	ASSERT_TRUE(is_dead(self, self->mr));
	ASSERT_EQ(ENODEV, import_errno(self));
	ASSERT_TRUE(is_dead(self, self->mr));
	ASSERT_TRUE(others_untouched(&others));
	mr_close(self->mr);
	self->mr = NULL;
	ASSERT_TRUE(others_untouched(&others));
	ASSERT_EQ(ENODEV, import_errno(self));
	others_close(&others);
}

TEST_F(exported, import_of_a_freed_dm_is_enodev)
{
	mr_close(self->mr);
	self->mr = NULL;
	dm_close(&self->dm);
	ASSERT_TRUE(dm_budget_is_whole(self->ctx[EXPORTER]));
	for (int i = 0; i < 10; i++)
		ASSERT_EQ(ENODEV, import_errno(self));
	ASSERT_EQ(NULL, ibv_reg_dmabuf_mr(self->pair.pd, 0, BUF_SIZE, IOVA, self->fd, RW));
	ASSERT_EQ(ENODEV, errno);
	/* Memory of the same length does not bring it back. */
	dm_open_filled(&self->dm, self->ctx[EXPORTER], SIZE, 3);
	ASSERT_EQ(ENODEV, import_errno(self));
	ASSERT_TRUE(dm_untouched(&self->dm));
}

TEST_F(exported, free_after_close_of_the_fd_ends_access)
{
	close(self->fd);
	self->fd = -1;
	ASSERT_TRUE(is_imported(self, self->mr, 4));
	dm_close(&self->dm);
	ASSERT_TRUE(dm_budget_is_whole(self->ctx[EXPORTER]));
	ASSERT_TRUE(is_dead(self, self->mr));
}

/* The fd of nothing can be closed at any time, also after its context. */
TEST_F(exported, fd_can_be_closed_after_its_context)
{
	mr_close(self->mr);
	self->mr = NULL;
	dm_close(&self->dm);
	device_close(self->ctx[EXPORTER]);
	self->ctx[EXPORTER] = NULL;
	ASSERT_EQ(ENODEV, import_errno(self));
	close(self->fd);
	self->fd = -1;
	ASSERT_EQ(0, dmabuf_count());
}

/* All importers of all its dma-bufs, on both devices. */
TEST_F(exported, free_ends_the_access_of_all_importers)
{
	struct ibv_mr *mr[6], *own;
	int fds[2] = { self->fd, export_fd(&self->dm) };
	struct ibv_pd *pd = must(ibv_alloc_pd(self->ctx[EXPORTER]));

	for (int i = 0; i < 6; i++) {
		self->fd = fds[i % 2];
		mr[i] = import_all(self, RWA);
		ASSERT_TRUE(is_imported(self, mr[i], 20 + i));
	}
	own = must(ibv_reg_mr_fd(pd, NULL, BUF_SIZE, IBV_MR_FD_TYPE_DMABUF, fds[1], RW));
	dm_close(&self->dm);
	ASSERT_TRUE(dm_budget_is_whole(self->ctx[EXPORTER]));
	for (int i = 0; i < 6; i++)
		ASSERT_TRUE(is_dead(self, mr[i]));
	for (int i = 0; i < 2; i++) {
		self->fd = fds[i];
		ASSERT_EQ(ENODEV, import_errno(self));
	}
	close(fds[0]);
	for (int i = 0; i < 6; i++)
		mr_close(mr[i]);
	mr_close(own);
	pd_close(pd);
}

/* A new DM, dma-buf and MR, in place of what a round has left. */
static void renew(FIXTURE_DATA(exported) *self)
{
	mr_close(self->mr);
	self->mr = NULL;
	close(self->fd);
	self->fd = -1;
	dm_open_filled(&self->dm, self->ctx[EXPORTER], SIZE, 1);
	self->fd = export_fd(&self->dm);
	self->mr = import_all(self, RWA);
}

/*
 * Who holds the fd registers it as often as he likes.  The owner's free must not wait for each
 * registration, but once for all.  What it does for each is like the registration, or less.
 */
TEST_F_TIMEOUT(exported, free_waits_once_for_all_registrations, 300)
{
	static struct ibv_mr *mr[10000];
	double begin, freed = 0, alone = 0, registered = 0;

	/* A device that needs a command for each gets fewer if it is slow. */
	for (int n = 1; n <= ARRAY_SIZE(mr) && registered < 1; n *= 10) {
		begin = now();
		for (int i = 0; i < n; i++)
			mr[i] = import_all(self, RWA);
		registered = now() - begin;
		begin = now();
		dm_close(&self->dm);
		freed = now() - begin;
		printf("# %d registrations in %.1f ms, then a free in %.1f ms\n", n,
		       1e3 * registered, 1e3 * freed);
		if (n == 1)
			alone = freed;
		ASSERT_TRUE(is_dead(self, mr[0]));
		ASSERT_TRUE(is_dead(self, mr[n - 1]));
		for (int i = 0; i < n; i++)
			mr_close(mr[i]);
		renew(self);
	}
	/* Of the largest number, in which a moment without a CPU does not count. */
	ASSERT_TRUE(freed < 4 * registered + 20 * alone);
}

/* A free that is refused takes nothing from anybody. */
TEST_F(exported, refused_free_leaves_importers_working)
{
	struct ibv_pd *pd = must(ibv_alloc_pd(self->ctx[EXPORTER]));
	struct ibv_mr *own = dm_reg(&self->dm, pd, RW);

	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(EBUSY, dm_try_close(&self->dm));
		ASSERT_TRUE(is_imported(self, self->mr, 30 + i));
		ASSERT_EQ(0, import_errno(self));
	}
	mr_close(own);
	pd_close(pd);
	ASSERT_EQ(0, dm_try_close(&self->dm));
	ASSERT_TRUE(is_dead(self, self->mr));
}

/* The MR goes to other memory, and cannot go back. */
TEST_F(exported, mr_can_leave_a_freed_dm_by_rereg)
{
	struct memory memfd;

	need("rereg_mr_fd");
	memory_open(&memfd, MEMFD, BUF_SIZE);
	dm_close(&self->dm);
	ASSERT_EQ(IBV_REREG_MR_ERR_INPUT,
		  ibv_rereg_mr_fd_iova(self->mr, TRANS, NULL, 0, BUF_SIZE, IOVA,
				       IBV_MR_FD_TYPE_DMABUF, self->fd, 0));
	ASSERT_EQ(ENODEV, errno);
	ASSERT_TRUE(is_dead(self, self->mr));
	ASSERT_EQ(0, memory_rereg(self->mr, TRANS, NULL, &memfd, 0));
	fill(self->host.cpu, BUF_SIZE, 5);
	ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_WRITE, BUF_SIZE, 0, self->mr->rkey));
	ASSERT_TRUE(filled(memfd.cpu, BUF_SIZE, 5, "memfd"));
	ASSERT_NE(0, ibv_rereg_mr_fd_iova(self->mr, TRANS, NULL, 0, BUF_SIZE, IOVA,
					  IBV_MR_FD_TYPE_DMABUF, self->fd, 0));
	ASSERT_EQ(ENODEV, errno);
	memory_close(&memfd);
}

/* --- Under traffic */

/* Operations on the importer's MR, one after the other, until one fails. */
struct worker {
	FIXTURE_DATA(exported) *self;
	struct pair pair;
	struct memory host;
	struct ibv_mr *host_mr;
	pthread_t thread;
	bool local;			/* the MR is at the local end */
	atomic_bool *freed;		/* set when the free has returned */
	atomic_long done;
	long late;			/* begun after that, and not refused */
	enum ibv_wc_status status;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct ibv_mr *mr = w->self->mr;

	while (!w->status) {
		bool after = atomic_load(w->freed);
		enum ibv_wr_opcode op = w->done % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;

		if (w->local)
			w->status = rdma_op(&w->pair, op, mr, IOVA, SIZE, w->host.iova,
					    w->host_mr->rkey);
		else
			w->status = rdma_op(&w->pair, op, w->host_mr, w->host.iova, SIZE, IOVA,
					    mr->rkey);
		w->late += after && !w->status;
		w->done++;
	}
	return NULL;
}

#define WORKERS 2
struct traffic {
	struct worker worker[WORKERS];
	atomic_bool freed;
};

static void traffic_start(struct traffic *t, FIXTURE_DATA(exported) *self)
{
	t->freed = false;
	for (int i = 0; i < WORKERS; i++) {
		struct worker *w = &t->worker[i];

		*w = (struct worker){ .self = self, .local = i, .freed = &t->freed };
		pair_open_in(&w->pair, self->pair.pd);
		memory_open(&w->host, HOST, BUF_SIZE);
		memset(w->host.cpu, 0xc3 + i, BUF_SIZE);
		w->host_mr = memory_reg(&w->host, self->pair.pd, RWA);
		if ((errno = pthread_create(&w->thread, NULL, work, w)))
			fail_case("start a thread of traffic");
	}
	for (int i = 0; i < WORKERS; i++)
		while (t->worker[i].done < 4 && !t->worker[i].status)
			usleep(100);
}

/* Whether it has ended as it should, with nothing done after the free. */
static bool traffic_ended_well(struct traffic *t)
{
	bool well = true;

	for (int i = 0; i < WORKERS; i++) {
		struct worker *w = &t->worker[i];

		pthread_join(w->thread, NULL);
		if (w->late || w->status != (i ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR)) {
			printf("# %s traffic: %ld done, %ld of them after the free, then %s\n",
			       i ? "local" : "remote", w->done, w->late,
			       ibv_wc_status_str(w->status));
			well = false;
		}
		mr_close(w->host_mr);
		pair_close(&w->pair);
		memory_close(&w->host);
	}
	return well;
}

TEST_F_TIMEOUT(exported, free_during_traffic_stops_it, 120)
{
	for (int i = 0; i < 10; i++) {
		struct others others;
		struct traffic t;

		traffic_start(&t, self);
		usleep(1000 * (i % 5));
		dm_close(&self->dm);
		t.freed = true;
		others_open(&others, self->ctx[EXPORTER]);
		ASSERT_EQ(budget(self), others.rest.bytes);
		ASSERT_TRUE(others_untouched(&others));
		ASSERT_TRUE(traffic_ended_well(&t));
		ASSERT_TRUE(others_untouched(&others));
		others_close(&others);
		ASSERT_TRUE(is_dead(self, self->mr));
		renew(self);
	}
	ASSERT_TRUE(is_imported(self, self->mr, 6));
}

/* --- With its process */

/* What goes to the child beside the socket. */
static void exports(int sock, void *arg)
{
	struct ibv_context *ctx = device_open_named(arg);
	struct dm dm;

	dm_open_filled(&dm, ctx, SIZE, 9);
	tell_fd(sock, export_fd(&dm));
	wait_to_go_on(sock);
}

/* Begin with the DM of another process in place of the fixture's. */
static void import_from(FIXTURE_DATA(exported) *self, struct child *child)
{
	static char name[64];

	snprintf(name, sizeof(name), "%s", ibv_get_device_name(self->ctx[EXPORTER]->device));
	mr_close(self->mr);
	self->mr = NULL;
	if (self->fd >= 0)
		close(self->fd);
	self->fd = -1;
	dm_close(&self->dm);
	child_start(child, exports, name);
	self->fd = ask_fd(child->sock);
	self->mr = import_all(self, RWA);
}

TEST_F_TIMEOUT(exported, exit_of_the_owner_stops_traffic, 120)
{
	for (int i = 0; i < 6; i++) {
		struct child child = {};
		struct others others;
		struct traffic t;

		import_from(self, &child);
		ASSERT_EQ(IBV_WC_SUCCESS, host_op(self, IBV_WR_RDMA_READ, SIZE, 0, self->mr->rkey));
		ASSERT_TRUE(filled(self->host.cpu, SIZE, 9, "read from the other process"));
		traffic_start(&t, self);
		usleep(1000 * i);
		if (i % 2) {
			go_on(child.sock);
			ASSERT_EQ(0, child_wait(&child));	/* it has exited */
		} else {
			ASSERT_TRUE(child_kill(&child));
		}
		ASSERT_TRUE(dm_budget_is_whole(self->ctx[EXPORTER]));
		t.freed = true;
		others_open(&others, self->ctx[EXPORTER]);
		ASSERT_EQ(budget(self), others.rest.bytes);
		ASSERT_TRUE(traffic_ended_well(&t));
		ASSERT_TRUE(others_untouched(&others));
		others_close(&others);
		ASSERT_TRUE(is_dead(self, self->mr));
		ASSERT_EQ(ENODEV, import_errno(self));
	}
}

/* The importer's process goes; its exporter does not notice. */
struct importing {
	FIXTURE_DATA(exported) *self;
	const char *device;
};

static void imports(int sock, void *arg)
{
	struct importing *i = arg;
	int fd = i->self->fd;
	struct pair pair;
	struct memory host;
	struct ibv_mr *mr, *host_mr;

	pair_open(&pair, device_open_named(i->device), NULL);
	memory_open(&host, HOST, BUF_SIZE);
	memset(host.cpu, 0x99, BUF_SIZE);
	host_mr = memory_reg(&host, pair.pd, RWA);
	mr = must(ibv_reg_mr_fd_iova(pair.pd, 0, BUF_SIZE, IOVA, IBV_MR_FD_TYPE_DMABUF, fd, RW));
	for (int n = 0;; n++) {
		if (rdma_op(&pair, IBV_WR_RDMA_WRITE, host_mr, host.iova, SIZE, IOVA, mr->rkey))
			fail_case("RDMA write to the exported DM");
		if (n == 3)
			go_on(sock);
	}
}

TEST_F_TIMEOUT(exported, dm_survives_the_death_of_an_importer, 120)
{
	char device[64];
	struct importing arg = { self, device };

	snprintf(device, sizeof(device), "%s", ibv_get_device_name(self->ctx[IMPORTER]->device));
	for (int i = 0; i < 5; i++) {
		struct child child = {};
		uint8_t bytes[SIZE];

		child_start(&child, imports, &arg);
		wait_to_go_on(child.sock);
		usleep(1000 * i);
		ASSERT_TRUE(child_kill(&child));
		dm_get(&self->dm, 0, bytes, SIZE);
		for (int k = 0; k < SIZE; k++)
			ASSERT_EQ(0x99, bytes[k]);
		dm_restore(&self->dm, 0, SIZE);
		ASSERT_TRUE(is_imported(self, self->mr, 40 + i));
	}
	dm_close(&self->dm);
	ASSERT_TRUE(dm_budget_is_whole(self->ctx[EXPORTER]));
}

/* --- Calls that race with the free */

struct racer {
	FIXTURE_DATA(exported) *self;
	pthread_t thread;
	atomic_long rounds;
	int refused;		/* the errno that ended it */
};

static void *keep_importing(void *arg)
{
	struct racer *r = arg;

	for (; !r->refused; r->rounds++)
		r->refused = import_errno(r->self);
	return NULL;
}

/* A registration that is under way is done before the free, or fails as one after it. */
TEST_F_TIMEOUT(exported, import_racing_with_free_ends_in_enodev, 120)
{
	for (int i = 0; i < 15; i++) {
		struct racer racer[2] = { { .self = self }, { .self = self } };

		for (int k = 0; k < 2; k++)
			ASSERT_EQ(0, pthread_create(&racer[k].thread, NULL, keep_importing,
						    &racer[k]));
		while (racer[0].rounds < 3 || racer[1].rounds < 3)
			usleep(100);
		usleep(random() % 3000);
		dm_close(&self->dm);
		ASSERT_TRUE(dm_budget_is_whole(self->ctx[EXPORTER]));
		for (int k = 0; k < 2; k++) {
			ASSERT_EQ(0, pthread_join(racer[k].thread, NULL));
			ASSERT_EQ(ENODEV, racer[k].refused);
		}
		renew(self);
	}
}

struct freeing {
	struct dm *dm;
	struct span span;
};

static void *free_it(void *arg)
{
	struct freeing *f = arg;

	f->span.begin = now();
	dm_close(f->dm);
	f->span.end = now();
	return NULL;
}

/* The MR ends while its memory is taken from it; the next one has the same key, perhaps. */
TEST_F_TIMEOUT(exported, free_racing_with_dereg_spares_the_next_mr, 120)
{
	struct memory memfd;
	int i, met = 0;

	memory_open(&memfd, MEMFD, BUF_SIZE);
	for (i = 0; i < 40 || met < 5; i++) {
		struct freeing freeing = { .dm = &self->dm };
		struct ibv_mr *next;
		struct span dereg;
		pthread_t thread;

		ASSERT_EQ(0, pthread_create(&thread, NULL, free_it, &freeing));
		usleep(random() % 300);
		dereg.begin = now();
		mr_close(self->mr);
		dereg.end = now();
		self->mr = NULL;
		next = memory_reg(&memfd, self->pair.pd, RW);
		ASSERT_EQ(0, pthread_join(thread, NULL));
		fill(self->host.cpu, BUF_SIZE, i);
		ASSERT_EQ(IBV_WC_SUCCESS,
			  host_op(self, IBV_WR_RDMA_WRITE, BUF_SIZE, 0, next->rkey));
		ASSERT_TRUE(filled(memfd.cpu, BUF_SIZE, i, "the next region"));
		mr_close(next);
		renew(self);
		met += spans_overlap(&freeing.span, &dereg);
	}
	TH_LOG("%d of %d frees met the end of the MR", met, i);
	memory_close(&memfd);
}

int main(int argc, char **argv)
{
	return harness_run(argc, argv, other_prepare);
}
