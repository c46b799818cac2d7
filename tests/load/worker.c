// SPDX-License-Identifier: GPL-2.0-or-later
/* See worker.h. */
#include "load/worker.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/random.h"
#include "lib/test_exporter.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 2
#define OWN 2			/* MRs of a thread */
#define SHARED 2		/* of a worker */
#define SIZE (8 * PAGE)

const char *const act_names[NR_ACTS] = {
	"written", "read back", "added", "sent", "registered", "reregistered", "deregistered",
	"refused", "shared used", "of these failed", "shared changed", "foreign", "windows",
	"forked", "late",
};

/* An MR that any thread may use.  The bytes of its memory are not checked. */
struct shared {
	pthread_rwlock_t lock;	/* held for writing to replace the MR */
	struct ibv_mr *mr;
	struct memory at[2];	/* it is on one of them */
	uint32_t rkey;		/* of the last MR; may be stale */
};

struct worker {
	const struct orders *orders;
	struct board *board;
	double end;		/* set when all threads are ready */
	pthread_barrier_t ready;
	struct ibv_context *ctx;
	struct ibv_pd *pd[2];
	struct shared shared[SHARED];
};

struct own {
	struct memory at;	/* at.before has the expected bytes */
	struct ibv_mr *mr;	/* in pd[0], with every right */
};

struct thread {
	pthread_t id;
	struct worker *w;
	uint64_t random;
	struct pair pair;
	struct memory scratch;	/* the local end */
	struct ibv_mr *scratch_mr;
	struct own own[OWN];
};

static uint32_t below(struct thread *t, uint32_t n)
{
	return random_below(&t->random, n);
}

static void count(struct thread *t, enum act act)
{
	__atomic_add_fetch(&t->w->board->acts[act], 1, __ATOMIC_RELAXED);
}

/*
 * The device of a worker may be deleted at any moment.  The kernel tells it first, and destroys
 * then what the worker has: calls fail with EIO, and requests have no completion.
 */
static void *wait_for_loss(void *arg)
{
	struct ibv_context *ctx = arg;
	struct ibv_async_event event;

	while (!ibv_get_async_event(ctx, &event)) {
		if (event.event_type == IBV_EVENT_DEVICE_FATAL)
			_exit(TAKEN);
		ibv_ack_async_event(&event);
	}
	return NULL;
}

/* Something is wrong, and a loss would excuse it: let the thread above see it. */
static void look_for_loss(void)
{
	for (double end = deadline(5); now() < end;)
		usleep(10000);
}

/* End the worker: the case has failed. */
static void __attribute__((noreturn, format(printf, 2, 3)))
wrong(struct thread *t, const char *fmt, ...)
{
	struct board *board = t->w->board;
	int n = 0;
	va_list args;

	look_for_loss();
	if (!board->wrong[0])
		n = snprintf(board->wrong, sizeof(board->wrong), "worker %u: ",
			     t->w->orders->worker);
	if (n) {
		va_start(args, fmt);
		vsnprintf(board->wrong + n, sizeof(board->wrong) - n, fmt, args);
		va_end(args);
	}
	_exit(WRONG);
}

/* A buffer of the test exporter, as I/O memory or with a fence to wait for. */
static void test_memory_open(struct thread *t, struct memory *m)
{
	test_exporter_open(m, SIZE, device_can("vmap") && below(t, 2) ? DMABUF_TEST_IOMEM : 0);
	if (below(t, 2))
		add_fence(m->fd, KERNEL, 1 + below(t, 20));
	fill(m->cpu, SIZE, below(t, 1000));
	memory_mark(m);
}

static void any_memory_open(struct thread *t, struct memory *m)
{
	static const enum memory_kind kinds[] = { VGEM, UDMABUF, HEAP, MEMFD, HOST, ON_DEMAND };
	const uint32_t n = device_can("on-demand") ? 6 : 5, which = below(t, n + 1);

	if (which == n)
		test_memory_open(t, m);
	else
		memory_open_filled(m, kinds[which], SIZE, below(t, 1000));
}

static void fresh_pair(struct thread *t)
{
	pair_open_in(&t->pair, t->w->pd[0]);
}

static void replace_pair(struct thread *t)
{
	pair_close(&t->pair);
	fresh_pair(t);
}

/*
 * Check the status of an operation on an MR of the thread.  On a machine this busy a peer may
 * be so late that the requester gives up, or repeats a request.  If the repeated request
 * arrives when the MR is gone, it puts the QP of the responder into the error state.  In both
 * cases replace the queue pairs, accept the bytes that are in the memory after that, and
 * return false.
 */
static bool ends(struct thread *t, struct own *own, enum ibv_wc_status status,
		 enum ibv_wc_status expected, const char *what)
{
	if (status != IBV_WC_SUCCESS)
		replace_pair(t);
	if (status == expected)
		return true;
	if (status != IBV_WC_RETRY_EXC_ERR && status != IBV_WC_WR_FLUSH_ERR)
		wrong(t, "%s: %s, not %s", what, ibv_wc_status_str(status),
		      ibv_wc_status_str(expected));
	count(t, LATE);
	memory_mark(&own->at);
	return false;
}

static void same(struct thread *t, const uint8_t *a, const uint8_t *b, size_t n, const char *what)
{
	for (size_t i = 0; i < n; i++)
		if (a[i] != b[i])
			wrong(t, "%s: byte %zu of %zu is %02x, not %02x", what, i, n, a[i], b[i]);
}

static void own_reg(struct thread *t, struct own *own)
{
	any_memory_open(t, &own->at);
	own->mr = memory_reg(&own->at, t->w->pd[0], memory_rights(&own->at));
	if (below(t, 2))
		memory_close_fd(&own->at);	/* the MR does not need it */
	count(t, REGISTERED);
}

static void own_dereg(struct thread *t, struct own *own)
{
	mr_close(own->mr);
	count(t, DEREGISTERED);
	memory_close(&own->at);
}

static enum ibv_wc_status own_write(struct thread *t, struct own *own, uint32_t at, uint32_t n)
{
	return rdma_op(&t->pair, IBV_WR_RDMA_WRITE, t->scratch_mr, (uintptr_t)t->scratch.cpu, n,
		       own->at.iova + at, own->mr->rkey);
}

/* Write, read, add or send; no other byte of the MR changes. */
static void use_own(struct thread *t, struct own *own)
{
	uint32_t at = below(t, SIZE - 8), n = 1 + below(t, SIZE - at);
	uint8_t *there = own->at.cpu + at;

	switch (below(t, 4)) {
	case 0:
		fill(t->scratch.cpu, n, below(t, 1000));
		if (!ends(t, own, own_write(t, own, at, n), IBV_WC_SUCCESS, "write"))
			return;
		same(t, there, t->scratch.cpu, n, "written");
		memcpy(own->at.before + at, there, n);
		count(t, WRITTEN);
		break;
	case 1:
		memset(t->scratch.cpu, 0, n);
		if (!ends(t, own, rdma_op(&t->pair, IBV_WR_RDMA_READ, t->scratch_mr,
					  (uintptr_t)t->scratch.cpu, n,
					  own->at.iova + at, own->mr->rkey),
			  IBV_WC_SUCCESS, "read"))
			return;
		same(t, t->scratch.cpu, there, n, "read");
		count(t, READ_BACK);
		break;
	case 2:
		at &= ~7u;
		if (!ends(t, own, atomic_op(&t->pair, IBV_WR_ATOMIC_FETCH_AND_ADD, t->scratch_mr,
					    own->at.iova + at, own->mr->rkey, 5, 0),
			  IBV_WC_SUCCESS, "fetch and add"))
			return;
		same(t, t->scratch.cpu, own->at.before + at, 8, "fetched");
		*(uint64_t *)(own->at.before + at) += 5;
		count(t, ADDED);
		break;
	default:
		fill(t->scratch.cpu, n, below(t, 1000));
		post_recv(&t->pair, own->mr, own->at.iova + at, n);
		if (!ends(t, own, rdma_op(&t->pair, IBV_WR_SEND, t->scratch_mr,
					  (uintptr_t)t->scratch.cpu, n, 0, 0),
			  IBV_WC_SUCCESS, "send"))
			return;
		memcpy(own->at.before + at, t->scratch.cpu, n);
		count(t, SENT);
	}
	same(t, own->at.cpu, own->at.before, SIZE, "the region");
}

static void refused(struct thread *t, struct own *own, const char *what)
{
	uint32_t at = below(t, SIZE - 100);

	memset(t->scratch.cpu, 0xee, 100);
	if (!ends(t, own, own_write(t, own, at, 100), IBV_WC_REM_ACCESS_ERR, what))
		return;
	same(t, own->at.cpu, own->at.before, SIZE, what);
	count(t, REFUSED);
}

/* An MR that was on demand and shall not be, or the reverse, needs new rights and new memory. */
static bool switches(const struct memory *from, const struct memory *to)
{
	return (from->kind == ON_DEMAND) != (to->kind == ON_DEMAND);
}

static void must_rereg(struct thread *t, struct own *own, int flags, struct ibv_pd *pd,
		       struct memory *at, int access)
{
	if (memory_rereg(own->mr, flags, pd, at, access))
		fail_case("rereg of an own MR");
	count(t, REREGISTERED);
}

/* Move the MR to other memory; or take a right or the PD away for a moment. */
static void rereg_own(struct thread *t, struct own *own)
{
	struct ibv_pd **pd = t->w->pd;
	struct memory new;

	switch (below(t, 4)) {
	case 0:
		must_rereg(t, own, CHANGE_PD, pd[1], &own->at, 0);
		refused(t, own, "write in the wrong PD");
		must_rereg(t, own, CHANGE_PD, pd[0], &own->at, 0);
		break;
	case 1:
		must_rereg(t, own, CHANGE_ACCESS, NULL, &own->at,
			   ALL_ACCESS & ~REMOTE_WRITE);
		refused(t, own, "write without the right");
		must_rereg(t, own, CHANGE_ACCESS, NULL, &own->at, ALL_ACCESS);
		break;
	default:
		any_memory_open(t, &new);
		must_rereg(t, own, below(t, 2) && !switches(&own->at, &new) ? TRANS : CHANGE_ALL,
			   pd[0], &new, ALL_ACCESS);
		same(t, own->at.cpu, own->at.before, SIZE, "the memory that the MR has left");
		memory_close(&own->at);
		own->at = new;
	}
	use_own(t, own);
}

static void dereg_own(struct thread *t, struct own *own)
{
	struct ibv_mr dead = *own->mr;

	mr_close(own->mr);
	count(t, DEREGISTERED);
	own->mr = &dead;
	if (device_can("new-keys"))
		refused(t, own, "write by a key that is dead");
	own->mr = NULL;
	memory_close(&own->at);
	own_reg(t, own);
}

/* From here on: MRs and keys that other threads and workers may use at the same time. */

static void tell(struct thread *t, uint32_t rkey, uint64_t iova)
{
	/* Two threads may mix their keys here; both belong to this worker. */
	struct told *told = &t->w->board->told[t->w->orders->worker % TOLD];

	told->rkey = rkey;
	told->iova = iova;
	__atomic_store_n(&told->worker, t->w->orders->worker, __ATOMIC_RELEASE);
}

static void shared_tell(struct thread *t, struct shared *s)
{
	__atomic_store_n(&s->rkey, s->mr->rkey, __ATOMIC_RELAXED);
	tell(t, s->mr->rkey, s->at[0].iova);
}

static void shared_begin(struct thread *t, struct shared *s)
{
	int which;

	for (int i = 0; i < 2; i++)
		any_memory_open(t, &s->at[i]);
	which = below(t, 2);
	s->mr = memory_reg(&s->at[which], t->w->pd[0], memory_rights(&s->at[which]));
	shared_tell(t, s);
}

static void shared_end(struct thread *t, struct shared *s)
{
	mr_close(s->mr);
	for (int i = 0; i < 2; i++)
		memory_close(&s->at[i]);
}

static void change_shared(struct thread *t, struct shared *s)
{
	int to = below(t, 2), flags = 1 + below(t, CHANGE_ALL);
	int access = below(t, 2) ? ALL_ACCESS : ALL_ACCESS & ~REMOTE_READ;
	bool new_keys = flags & TRANS && !device_can("keeps-keys");

	if (device_can("rereg_mr_fd") && below(t, 4)) {
		/*
		 * Several threads may come here at once.  The kernel lets one of
		 * them reregister the MR.  For the others the MR is busy.  But nobody
		 * may use the keys while they change: an own MR may get the old ones.
		 */
		if (new_keys)
			pthread_rwlock_wrlock(&s->lock);
		else
			pthread_rwlock_rdlock(&s->lock);
		if (memory_rereg(s->mr, flags, t->w->pd[below(t, 4) == 0], &s->at[to], access) &&
		    errno != EBUSY &&
		    !(errno == EOPNOTSUPP && switches(&s->at[0], &s->at[1])))
			fail_case("rereg of a shared MR");
		if (new_keys)
			shared_tell(t, s);
	} else {
		pthread_rwlock_wrlock(&s->lock);
		shared_end(t, s);
		shared_begin(t, s);
	}
	pthread_rwlock_unlock(&s->lock);
	count(t, SHARED_CHANGED);
}

static void use_shared(struct thread *t, struct shared *s)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						      IBV_WR_ATOMIC_FETCH_AND_ADD };
	enum ibv_wr_opcode opcode = opcodes[below(t, 3)];
	uint64_t iova = s->at[below(t, 2)].iova;	/* the MR may be on the other one */
	uint32_t rkey = __atomic_load_n(&s->rkey, __ATOMIC_RELAXED);
	bool wait = !device_can("new-keys");	/* the key may be that of an own MR by now */
	enum ibv_wc_status status;

	if (wait) {
		pthread_rwlock_rdlock(&s->lock);
		rkey = s->rkey;
	}
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		status = atomic_op(&t->pair, opcode, t->scratch_mr, iova, rkey, 1, 0);
	else
		status = rdma_op(&t->pair, opcode, t->scratch_mr, (uintptr_t)t->scratch.cpu, SIZE,
				 iova, rkey);
	if (wait)
		pthread_rwlock_unlock(&s->lock);
	count(t, SHARED_USED);
	if (status) {
		count(t, SHARED_FAILED);
		replace_pair(t);
	}
}

static void try_foreign(struct thread *t)
{
	uint32_t which = below(t, TOLD);
	enum ibv_wc_status status;
	struct told told;

	/* Look for the next worker that has published a key. */
	for (int i = 0; i < TOLD; i++, which = (which + 1) % TOLD)
		if (which != t->w->orders->worker % TOLD && t->w->board->told[which].worker)
			break;
	told = t->w->board->told[which];
	if (!told.worker || which == t->w->orders->worker % TOLD)
		return;
	memset(t->scratch.cpu, 0, 8);
	status = rdma_op(&t->pair, below(t, 2) ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
			 t->scratch_mr, (uintptr_t)t->scratch.cpu, 8, told.iova, told.rkey);
	if (status == IBV_WC_SUCCESS)
		wrong(t, "the rkey %#x of worker %u opens its memory", told.rkey, told.worker);
	count(t, FOREIGN);
	replace_pair(t);
}

/* A window of type 1 belongs to the PD, so it outlives a queue pair. */
static void use_window(struct thread *t, struct own *own)
{
	struct ibv_mw *mw = window_alloc(t->w->pd[0], IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = own->mr, .addr = own->at.iova, .length = SIZE,
			       .mw_access_flags = REMOTE_WRITE },
	};
	struct ibv_mr by_window = *own->mr, *mr = own->mr;

	if ((errno = ibv_bind_mw(t->pair.qp[0], mw, &bind)))
		fail_case("bind a window");
	if (ends(t, own, wait_wc(&t->pair, NULL), IBV_WC_SUCCESS, "bind")) {
		by_window.rkey = mw->rkey;
		own->mr = &by_window;
		fill(t->scratch.cpu, SIZE, below(t, 1000));
		if (ends(t, own, own_write(t, own, 0, SIZE), IBV_WC_SUCCESS, "by a window")) {
			same(t, own->at.cpu, t->scratch.cpu, SIZE, "by a window");
			memory_mark(&own->at);
		}
		own->mr = mr;
		count(t, WINDOWS);
	}
	if ((errno = ibv_dealloc_mw(mw)))
		fail_case("dealloc a window");
}

/*
 * A process with a copy of the worker's memory.  The copy is not pinned, so RDMA must not see
 * what the process writes.  The process shares the open device, and may outlive the worker.
 * It makes no library call, because it has only this thread.
 */
static void fork_one(struct thread *t)
{
	struct own *own = &t->own[below(t, OWN)];
	uint32_t how = below(t, 4), wait = below(t, 200000);
	pid_t pid = fork();

	if (pid < 0)
		fail_case("fork");
	if (!pid) {
		if (memory_of_process(&own->at))
			memset(own->at.cpu, 0xcc, SIZE);
		memset(t->scratch.cpu, 0xcc, SIZE);
		usleep(wait);
		if (how == 0)
			kill(getpid(), SIGKILL);
		_exit(0);
	}
	count(t, FORKED);
	use_own(t, own);
}

static void do_something(struct thread *t)
{
	struct own *own = &t->own[below(t, OWN)];
	struct shared *s = &t->w->shared[below(t, SHARED)];
	uint32_t what = below(t, 100);

	if (what < 27 || (what < 42 && !device_can("rereg_mr_fd")))
		use_own(t, own);
	else if (what < 42)
		rereg_own(t, own);
	else if (what < 52)
		dereg_own(t, own);
	else if (what < 70)
		use_shared(t, s);
	else if (what < 80)
		change_shared(t, s);
	else if (what < 86 && device_can("new-keys"))
		try_foreign(t);
	else if (what < 93 && (memory_of_process(&own->at) || device_can("native")))
		use_window(t, own);
	else
		fork_one(t);
}

static void *live(void *arg)
{
	struct thread *t = arg;

	fresh_pair(t);
	memory_open_filled(&t->scratch, HOST, SIZE, 0);
	t->scratch_mr = memory_reg(&t->scratch, t->w->pd[0], ALL_ACCESS);
	for (int i = 0; i < OWN; i++)
		own_reg(t, &t->own[i]);
	pthread_barrier_wait(&t->w->ready);
	pthread_barrier_wait(&t->w->ready);	/* end is set */
	while (now() < t->w->end)
		do_something(t);
	if (t->w->orders->leave)
		return NULL;
	for (int i = 0; i < OWN; i++)
		own_dereg(t, &t->own[i]);
	mr_close(t->scratch_mr);
	memory_close(&t->scratch);
	pair_close(&t->pair);
	return NULL;
}

void stress_worker(const struct orders *orders)
{
	static struct worker w;
	static struct thread threads[THREADS];
	double began = now();
	pthread_t watcher;

	signal(SIGCHLD, SIG_IGN);
	w = (struct worker){ .orders = orders, .board = orders->board };
	pthread_barrier_init(&w.ready, NULL, THREADS + 1);
	w.ctx = device_open_if_ready();
	if (!w.ctx)
		_exit(NO_DEVICE);
	if ((errno = pthread_create(&watcher, NULL, wait_for_loss, w.ctx)))
		fail_case("pthread_create");
	case_excuse(look_for_loss);
	for (int i = 0; i < 2; i++)
		w.pd[i] = must(ibv_alloc_pd(w.ctx));
	for (int i = 0; i < THREADS; i++) {
		threads[i].w = &w;
		threads[i].random = random_begin(orders->board->seed,
						 orders->worker * THREADS + i);
	}
	for (int i = 0; i < SHARED; i++) {
		pthread_rwlock_init(&w.shared[i].lock, NULL);
		shared_begin(&threads[0], &w.shared[i]);
	}
	for (int i = 0; i < THREADS; i++)
		if ((errno = pthread_create(&threads[i].id, NULL, live, &threads[i])))
			fail_case("pthread_create");
	pthread_barrier_wait(&w.ready);
	w.end = now() + orders->seconds;
	orders->board->setup = now() - began;
	pthread_barrier_wait(&w.ready);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i].id, NULL);
	if (orders->leave)
		_exit(WELL);
	for (int i = 0; i < SHARED; i++)
		shared_end(&threads[0], &w.shared[i]);
	for (int i = 0; i < 2; i++)
		pd_close(w.pd[i]);
	pthread_cancel(watcher);
	pthread_join(watcher, NULL);
	device_close(w.ctx);
	_exit(WELL);
}
