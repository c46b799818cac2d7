// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug kcsan; guest: smp; devices: rxe */
/* runs: full debug-full; devices: connectx */
/*
 * 60,000 calls of reg, rereg and dereg that are nearly correct, from four threads,
 * leave nothing behind (10,000 in the quick depth).
 *
 * In each, up to three things have an unexpected value.  There are two processes of two threads
 * each.  The threads of a process share a context and its MRs, so one may use, reregister or
 * deregister an MR while the other does.
 *
 * No case looks at the result of a single call.  The kernel must survive and log nothing; at
 * the end everything is closed, nothing is pinned, and a new MR works.  To show that the
 * calls were nearly correct, more than a tenth of each kind must succeed, and every
 * documented errno must occur: the threads go on until it has, up to ten times as long.
 *
 * MRFD_SEED in the environment of scripts/check repeats the calls of a run; each thread
 * makes its calls in the same order.  The scheduler decides how the calls of two threads
 * interleave, and so which object a handle names at a moment.
 */
#include "lib/counts.h"
#include "lib/depth.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/random.h"
#include "lib/test_exporter.h"
#include "lib/uverbs.h"
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define CALLS depth(10000, 60000)
#define PROCESSES 2
#define THREADS 2
#define SIZE (32 * PAGE)
#define MEMLOCK (4ul << 20)
#define MRS 48

enum op { REG, REREG, DEREG, NR_OPS };
static const char *const op_name[] = { "reg", "rereg", "dereg" };

/* The counts of all processes. */
struct stats {
	atomic_uint calls[NR_OPS], ok[NR_OPS], err[256];
};

/* What the calls of a process use; its threads share it. */
struct target {
	struct stats *stats;
	struct pair pair;
	uint32_t pd[2];
	uint32_t no_pd;		/* a handle of another object */
	int fd[12];		/* the first NR_GOOD are good */
#define NR_GOOD 3
#define SPARSE 3
	int nr_fds;
	atomic_uint mr[MRS];	/* handles, some of them dead */
	uint8_t *out;		/* the kernel may write here */
	uint64_t bad[5];	/* and must not write here */
};

struct worker {
	struct target *t;
	uint64_t random;
	uint8_t *out;
};

static uint64_t rnd(struct worker *w)
{
	return random_next(&w->random);
}

static uint32_t below(struct worker *w, uint32_t n)
{
	return random_below(&w->random, n);
}

#define one_of(w, array) ((array)[below(w, sizeof(array) / sizeof((array)[0]))])

/* A number at a limit of something. */
static uint64_t edge(struct worker *w)
{
	static const uint64_t edges[] = {
		0, 1, 2, 4, 7, 8, PAGE - 1, PAGE, PAGE + 1, SIZE - PAGE, SIZE - 1, SIZE, SIZE + 1,
		INT32_MAX, 1ul << 31, UINT32_MAX, 1ul << 32, INT64_MAX, 1ul << 63, -1ul, -PAGE,
		-PAGE + 1, 1ul << 62, 1ul << 52,
	};
	uint64_t value = one_of(w, edges);

	switch (below(w, 4)) {
	case 0:
		return rnd(w);
	case 1:
		return value + (below(w, 5) - 2);
	default:
		return value;
	}
}

/* The handle of an MR, which another thread may deregister at any time. */
static uint32_t some_mr(struct worker *w)
{
	uint32_t mr = -1u;

	for (int i = 0; i < 4 && mr == -1u; i++)
		mr = one_of(w, w->t->mr);
	return mr;
}

static void valid_call(struct worker *w, struct fd_call *c, enum op op)
{
	static const uint32_t access[] = {
		RW, RW, RW, LOCAL_WRITE, 0, REMOTE_READ,
		RW | REMOTE_ATOMIC, RW | IBV_ACCESS_MW_BIND,
	};
	struct target *t = w->t;
	int fd = below(w, NR_GOOD);

	*c = (struct fd_call){
		.rereg = op == REREG,
		.mr = some_mr(w),
		.flags = 1 + below(w, 7),
		.pd = one_of(w, t->pd),
		.access = one_of(w, access),
		.type = fd ? IB_UVERBS_BUFFER_TYPE_DMABUF : IB_UVERBS_BUFFER_TYPE_MEMFD,
		.fd = t->fd[fd],
		.offset = below(w, SIZE / 2),
		.length = 1 + below(w, SIZE / 2),
	};
	c->iova = ((rnd(w) >> 20) & ~(PAGE - 1)) | (c->offset & (PAGE - 1));
}

static void change_field(struct worker *w, struct fd_call *c)
{
	struct target *t = w->t;
	const uint32_t handle[] = { t->no_pd, below(w, 64), edge(w), c->mr, c->pd };

	switch (below(w, 12)) {
	case 0: c->mr = one_of(w, handle); break;
	case 1: c->pd = one_of(w, handle); break;
	case 2: c->flags = below(w, 2) ? below(w, 32) : edge(w); break;
	case 3: c->access = 1u << below(w, 32); break;
	case 4: c->access ^= 1u << below(w, 32); break;
	case 5: c->type = below(w, 2) ? below(w, 5) : edge(w); break;
	case 6:
		c->fd = t->fd[below(w, t->nr_fds)];
		c->type = below(w, 3);
		break;
	case 7: c->offset = edge(w); break;
	case 8: c->length = edge(w); break;
	case 9: c->iova = edge(w); break;
	case 11: c->desc_flags = edge(w); break;
	case 10: /* more than the limit allows to pin */
		c->fd = t->fd[SPARSE];
		c->type = IB_UVERBS_BUFFER_TYPE_MEMFD;
		c->length = 1ul << (20 + below(w, 30));
		break;
	}
}

static uint64_t bad_pointer(struct worker *w)
{
	return one_of(w, w->t->bad);
}

static bool is_pointer(const struct ib_uverbs_attr *attr)
{
	return attr->len == 4 && attr->data > UINT32_MAX;
}

static void change_msg(struct worker *w, union msg *m)
{
	static const uint16_t len[] = { 0, 1, 2, 4, 7, 8, 9, 12, 16, 4096, 0xffff };
	static const uint16_t method[] = {
		UVERBS_METHOD_REG_MR_FD, UVERBS_METHOD_REREG_MR_FD, UVERBS_METHOD_MR_DESTROY,
		UVERBS_METHOD_QUERY_MR, UVERBS_METHOD_REG_DMABUF_MR, 18, 21, 99, 0xffff,
	};
	int n = m->hdr.num_attrs ?: 1, last = n - 1;
	struct ib_uverbs_attr *attr = &m->hdr.attrs[below(w, n)], save;

	switch (below(w, 16)) {
	case 0: attr->len = one_of(w, len); break;
	case 1: attr->flags = rnd(w); break;
	case 2: attr->flags ^= 1u << below(w, 16); break;
	case 3: attr->attr_data.reserved = 1u << below(w, 16); break;
	case 4: case 5:
		attr->data = is_pointer(attr) ? bad_pointer(w) : edge(w);
		break;
	case 6: attr->attr_id = below(w, 12); break;
	case 7: attr->attr_id = edge(w); break;
	case 8: /* drop it */
		*attr = m->hdr.attrs[last];
		m->hdr.num_attrs = last;
		msg_length(m);
		break;
	case 9: /* double it */
		save = *attr;
		if (n < MSG_ATTRS)
			*msg_add(m, 0, 0, 0) = save;
		break;
	case 10: /* a changed order, which is right */
		save = *attr;
		*attr = m->hdr.attrs[last];
		m->hdr.attrs[last] = save;
		break;
	case 11: m->hdr.num_attrs = below(w, MSG_ATTRS); break;
	case 12: m->hdr.length = edge(w); break;
	case 13: m->hdr.method_id = one_of(w, method); break;
	case 14: m->hdr.object_id = below(w, 2) ? 200 : 0xffff; break;
	case 15:
		if (below(w, 2))
			m->hdr.reserved1 = 1ul << below(w, 64);
		else
			m->hdr.reserved2 = 1u << below(w, 32);
		break;
	}
}

static int call_ioctl(struct worker *w, const struct fd_call *c, int changes, uint32_t *handle)
{
	struct keys *keys = (struct keys *)w->out;
	struct ib_uverbs_attr *attr;
	union msg m;
	int err;

	msg_of(&m, c, keys);
	while (changes--)
		change_msg(w, &m);
	err = msg_send(w->t->pair.ctx->cmd_fd, &m);
	attr = msg_find(&m, UVERBS_ATTR_REG_MR_FD_HANDLE);
	*handle = attr ? attr->data : -1;
	return err;
}

static void count(struct worker *w, enum op op, int err)
{
	struct stats *s = w->t->stats;

	atomic_fetch_add(&s->calls[op], 1);
	if (err)
		atomic_fetch_add(&s->err[err & 255], 1);
	else
		atomic_fetch_add(&s->ok[op], 1);
}

/* Remove a dead handle from the table: it will soon name another MR. */
static void one_dereg(struct worker *w, enum entry e, uint32_t mr)
{
	int err = mr_dereg(w->t->pair.ctx->cmd_fd, e, mr);

	for (int i = 0; !err && i < MRS; i++) {
		uint32_t handle = mr;

		atomic_compare_exchange_strong(&w->t->mr[i], &handle, -1u);
	}
	count(w, DEREG, err);
}

static void one_call(struct worker *w)
{
	static const enum op ops[] = { REG, REG, REG, REREG, REREG, REREG, REREG, DEREG };
	enum op op = one_of(w, ops);
	int fields = below(w, 100) < 45 ? 0 : below(w, 3), changes = 0, err;
	enum entry e = below(w, NR_ENTRIES);
	struct fd_call c;
	uint32_t handle;

	if (fields || below(w, 100) < 40)
		changes = below(w, 4 - fields);
	valid_call(w, &c, op);
	while (fields--)
		change_field(w, &c);
	if (op == DEREG) {
		/* sometimes a handle of another kind of object, which dereg must not touch */
		one_dereg(w, e, below(w, 8) ? c.mr : below(w, 64));
		return;
	}
	err = call_ioctl(w, &c, changes, &handle);
	count(w, op, err);
	if (!err && op == REG && handle != -1u) {
		/* it may replace another handle in the table; deregister that MR */
		handle = atomic_exchange(&one_of(w, w->t->mr), handle);
		if (handle != -1u)
			one_dereg(w, e, handle);
	}
}

/* Every errno that mr_fd.rst documents, except ENOSPC of a file system, and those of the ABI. */
static const int wanted[] = {
	EBADF, EBADFD, EACCES, EPERM, ERANGE, EOVERFLOW, EINVAL, EOPNOTSUPP, ENOMEM, ENOENT,
	EFAULT, EPROTONOSUPPORT,
	ENXIO, /* the last: of a device that needs a vmap */
};

/* An errno that no call of any thread has got so far, or 0. */
static int missing_errno(const struct stats *s)
{
	for (int i = 0; i < sizeof(wanted) / sizeof(*wanted) - !device_can("vmap"); i++)
		if (!s->err[wanted[i]])
			return wanted[i];
	return 0;
}

/* The rarest errno is that of one call in some thousands: go on until it has come. */
static void *work(void *arg)
{
	const int calls = CALLS / (PROCESSES * THREADS);
	struct worker *w = arg;

	for (int i = 0; i < calls || (i < 10 * calls && missing_errno(w->t->stats)); i++)
		one_call(w);
	return NULL;
}

static int sealed_memfd(void)
{
	int fd = memfd_of(SIZE, MFD_ALLOW_SEALING);

	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE))
		fail_case("seal a memfd");
	return fd;
}

static void fds_open(struct target *t)
{
	int n = 0;

	t->fd[n++] = memfd_of(SIZE, 0);
	t->fd[n++] = heap_fd(SIZE, O_RDWR);
	t->fd[n++] = test_exporter_create(SIZE, 0);
	t->fd[n++] = memfd_of(1ul << 50, 0);
	t->fd[n++] = heap_fd(SIZE, O_RDONLY);
	t->fd[n++] = test_exporter_create(SIZE, DMABUF_TEST_NO_VMAP);
	t->fd[n++] = sealed_memfd();
	t->fd[n++] = socket(AF_UNIX, SOCK_STREAM, 0);
	t->fd[n++] = t->pair.ctx->cmd_fd;
	t->fd[n++] = 999;
	t->fd[n++] = -1;
	t->fd[n++] = INT32_MIN;
	t->nr_fds = n;
}

static void *map(size_t size, int prot)
{
	void *p = mmap(NULL, size, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		fail_case("mmap");
	return p;
}

static void target_open(struct target *t, struct stats *stats)
{
	uint8_t *two = map(2 * PAGE, PROT_READ | PROT_WRITE);

	t->stats = stats;
	pair_open(&t->pair, device_open(), NULL);
	t->pd[0] = t->pair.pd->handle;
	t->pd[1] = must(ibv_alloc_pd(t->pair.ctx))->handle;
	t->no_pd = t->pair.cq->handle;
	for (int i = 0; i < MRS; i++)
		t->mr[i] = -1u;
	fds_open(t);
	/* a page without access, a page for reading, the last bytes of a page */
	if (mprotect(two + PAGE, PAGE, PROT_NONE))
		fail_case("mprotect");
	t->bad[0] = 0;
	t->bad[1] = (uintptr_t)two + PAGE;
	t->bad[2] = (uintptr_t)map(PAGE, PROT_READ);
	t->bad[3] = (uintptr_t)two + PAGE - 2;
	t->bad[4] = 0xffffffff81000000ul;
}

/* No more than RLIMIT_MEMLOCK, as for a process without privileges. */
static void be_limited(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	struct rlimit limit = { MEMLOCK, MEMLOCK };

	if (syscall(SYS_capget, &header, data))
		fail_case("capget");
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	data[0].permitted &= ~(1u << CAP_IPC_LOCK);
	if (syscall(SYS_capset, &header, data) || setrlimit(RLIMIT_MEMLOCK, &limit))
		fail_case("drop CAP_IPC_LOCK and set RLIMIT_MEMLOCK");
}

/* All that the limit allows can be pinned again, and RDMA reaches it. */
static void check_whole(void)
{
	struct pair pair;
	struct fd_call c = { .access = RW, .type = IB_UVERBS_BUFFER_TYPE_MEMFD };
	struct memory memfd, local;
	struct ibv_mr *local_mr;
	struct keys keys;

	errno = 0;
	if (pinned_kb())
		fail_case("%ld KiB are pinned at the end", pinned_kb());
	pair_open(&pair, device_open(), NULL);
	memory_open_filled(&local, HOST, PAGE, 5);
	local_mr = memory_reg(&local, pair.pd, RW);
	c.pd = pair.pd->handle;
	c.length = MEMLOCK - pinned_kb() * 1024; /* queues of mlx5 are pinned too */
	memory_open(&memfd, MEMFD, c.length);
	c.fd = memfd.fd;
	if ((errno = fd_call(pair.ctx->cmd_fd, &c, &keys)))
		fail_case("register all that may be pinned");
	if (rdma_op(&pair, IBV_WR_RDMA_WRITE, local_mr, local.iova, PAGE, 7 * PAGE, keys.rkey) ||
	    !filled(memfd.cpu + 7 * PAGE, PAGE, 5, "written at the end"))
		fail_case("RDMA write to a new MR at the end");
}

/* One process of the run; it exits with 0 if it has found no fault. */
static void run(struct stats *stats, uint64_t seed, int nr)
{
	static struct target t;
	struct worker w[THREADS];
	pthread_t thread[THREADS];

	be_limited();
	target_open(&t, stats);
	for (int i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .t = &t, .out = map(16 * PAGE, PROT_READ | PROT_WRITE),
					.random = random_begin(seed, nr * THREADS + i) };
		if (pthread_create(&thread[i], NULL, work, &w[i]))
			fail_case("create a thread");
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	/* The mappings of the queues keep the context open, and with it its MRs. */
	if (ibv_destroy_qp(t.pair.qp[0]) || ibv_destroy_qp(t.pair.qp[1]) ||
	    ibv_destroy_cq(t.pair.cq))
		fail_case("destroy QPs and CQ");
	device_close(t.pair.ctx);
	check_whole();
	_exit(0);
}

FIXTURE(fuzz)
{
	struct stats *stats;
	uint64_t seed;
};

FIXTURE_SETUP(fuzz)
{
	need("reg_mr_fd");
	need("rereg_mr_fd");
	need("memfd");
	ASSERT_TRUE(nothing_left());
	self->seed = random_seed();
	self->stats = mmap(NULL, sizeof(*self->stats), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

FIXTURE_TEARDOWN(fuzz)
{
	EXPECT_TRUE(nothing_left());
}

TEST_F_TIMEOUT(fuzz, nearly_correct_calls_leave_nothing_behind, 400)
{
	struct stats *s = self->stats;
	unsigned int calls = 0;
	int status;

	for (int i = 0; i < PROCESSES; i++)
		if (!fork())
			run(s, self->seed, i);
	for (int i = 0; i < PROCESSES; i++) {
		ASSERT_LT(0, wait(&status));
		EXPECT_EQ(0, status) { TH_LOG("repeat with MRFD_SEED=%lu", self->seed); }
	}
	for (int op = 0; op < NR_OPS; op++) {
		printf("# %s: %u calls, %u succeed\n", op_name[op], s->calls[op], s->ok[op]);
		EXPECT_GT(s->ok[op], s->calls[op] / 10);
		calls += s->calls[op];
	}
	for (int err = 1; err < 256; err++)
		if (s->err[err])
			printf("# %u %s\n", s->err[err], strerrorname_np(err));
	EXPECT_GE(calls, CALLS);
	EXPECT_EQ(0, missing_errno(s)) {
		TH_LOG("no call got %s", strerrorname_np(missing_errno(s)));
	}
}

TEST_HARNESS_MAIN
