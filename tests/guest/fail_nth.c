// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Faults on order, and what a call that met one may leave; see fail_nth.h.
 *
 * /proc/self/fail-nth makes one thing fail, of the thread that has written to
 * it.  The settings of the kernel's fault injection that are changed here say
 * only what counts as a thing that can fail, for threads that have asked; they
 * are put back all the same when the program ends, whatever its cases did, for
 * those run in processes of their own.  A fault says nothing in the log; with
 * FAIL_NTH_VERBOSE=2 there is the call trace of each.
 */
#include "fail_nth.h"
#include <fcntl.h>
#include <sys/mman.h>

#define MOST 3000	/* more points than any call has */

static struct setting {
	const char *file;
	const char *value;
	char before[16];
} settings[] = {
	/* what may sleep, lies high or is small may fail too */
	{ .file = "failslab/ignore-gfp-wait", .value = "N" },
	{ .file = "fail_page_alloc/ignore-gfp-wait", .value = "N" },
	{ .file = "fail_page_alloc/ignore-gfp-highmem", .value = "N" },
	{ .file = "fail_page_alloc/min-order", .value = "0" },
	{ .file = "failslab/verbose" },
	{ .file = "fail_page_alloc/verbose" },
	{ .file = "fail_usercopy/verbose" },
};

#define NR_SETTINGS (sizeof(settings) / sizeof(settings[0]))

static int fail_nth = -1;

static int setting_open(const struct setting *s, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s", s->file);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		die("%s", path);
	return fd;
}

static void setting_write(const struct setting *s, const char *value)
{
	int fd = setting_open(s, O_WRONLY);

	if (write(fd, value, strlen(value)) < 0)
		die("%s to %s", value, s->file);
	close(fd);
}

static void settings_restore(void)
{
	for (int i = 0; i < NR_SETTINGS; i++)
		setting_write(&settings[i], settings[i].before);
}

void faults_prepare(void)
{
	const char *verbose = getenv("FAIL_NTH_VERBOSE") ?: "0";

	for (int i = 0; i < NR_SETTINGS; i++) {
		struct setting *s = &settings[i];
		int fd = setting_open(s, O_RDONLY);

		if (read(fd, s->before, sizeof(s->before) - 1) <= 0)
			die("read %s", s->file);
		close(fd);
	}
	if (atexit(settings_restore))
		die("atexit");
	for (int i = 0; i < NR_SETTINGS; i++)
		setting_write(&settings[i], settings[i].value ?: verbose);
}

void faults_open(void)
{
	fail_nth = open("/proc/self/fail-nth", O_RDWR | O_CLOEXEC);
	if (fail_nth < 0)
		die("fail-nth");
}

void fail_at(unsigned int n)
{
	char buf[16];
	int len = snprintf(buf, sizeof(buf), "%u", n);

	if (pwrite(fail_nth, buf, len, 0) != len)
		die("set fail-nth");
}

bool sweep_next(struct sweep *s)
{
	if (s->over)
		return false;
	if (s->n++ == MOST)
		die("no end after %d points", MOST);
	return true;
}

/*
 * Nothing fails from here on; has it come to the failure?  Then the call may
 * have failed too, for want of memory or for a copy, and else it may not.
 *
 * To read fail-nth copies, and so does writing it, so what is still to come may
 * come here.
 */
void fail_end(struct sweep *s, int err)
{
	char buf[16] = "";

	s->over = pread(fail_nth, buf, sizeof(buf) - 1, 0) <= 0 || atoi(buf);
	while (pwrite(fail_nth, "0", 1, 0) != 1)
		;
	s->errors += !!err;
	errno = err;
	if (err && s->over)
		die("an error at %u and no fault", s->n);
	if (err && err != ENOMEM && err != EFAULT)
		die("an error at %u that is neither ENOMEM nor EFAULT", s->n);
}

void sweep_end(const struct sweep *s, const char *how, const char *what, const char *of)
{
	/* A call copies at least; if nothing failed then nothing was tried. */
	if (s->n < 2)
		die("%s%s%s: nothing failed", how, what, of);
	printf("# %s%s%s: %u points, %u errors\n", how, what, of, s->n - 1, s->errors);
}

const char *const kind_name[] = { "a dma-buf", "a memfd", "host memory" };

static void pd_open(struct env *env, int i)
{
	env->pd[i] = must(ibv_alloc_pd(env->ctx));
	pair_open(&env->pair[i], env->ctx, (struct ibv_pd *[2]){ env->pd[i], env->pd[i] });
	env->local[i] = must(ibv_reg_mr(env->pd[i], env->work, SIZE, RW));
}

static void *pages(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static int lowest_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

void env_open(struct env *env)
{
	if (!nothing_left())
		die("something is left from before");
	env->ctx = open_device("rxe0");
	env->work = pages(SIZE);
	for (int i = 0; i < 2; i++) {
		pd_open(env, i);
		buffer_open(&env->buf[IN_DMABUF][i], HEAP, SIZE);
		buffer_open(&env->buf[IN_MEMFD][i], MEMFD, SIZE);
		for (int k = 0; k < 2; k++)
			env->mem[k][i] = (struct memory){ env->buf[k][i].fd, env->buf[k][i].cpu };
		env->mem[IN_HOST][i].cpu = pages(SIZE);
		for (int k = 0; k < NR_KINDS; k++)
			memset(env->mem[k][i].cpu, k, SIZE);
	}
	faults_open();
	env->pinned = pinned_kb();
	env->mrs = mr_count();
	env->free_fd = lowest_fd();
}

void env_close(struct env *env)
{
	for (int i = 0; i < 2; i++) {
		if (ibv_dereg_mr(env->local[i]))
			die("dereg");
		pair_close(&env->pair[i]);
		if (ibv_dealloc_pd(env->pd[i]))
			die("dealloc PD");
		for (int k = 0; k < 2; k++)
			buffer_close(&env->buf[k][i]);
	}
	ibv_close_device(env->ctx);
}

bool fd_left(struct env *env)
{
	return lowest_fd() != env->free_fd;
}

/* Nothing is left of a call, but PINNED bytes that it may have pinned. */
void check_pinned(struct env *env, size_t pinned)
{
	long kb = pinned_kb() - env->pinned;

	if (kb != pinned / 1024)
		die("%ld KiB are pinned and not %zu", kb, pinned / 1024);
}

void check_nothing_left(struct env *env)
{
	check_pinned(env, 0);
	if (fd_left(env))
		die("an fd is left");
	for (int i = 0; mr_count() != env->mrs; i++) {
		if (i == 50)
			die("there are %d MRs and not %d", mr_count(), env->mrs);
		usleep(100000);
	}
}

static size_t pinned_by(enum kind kind)
{
	return kind == IN_DMABUF ? 0 : SIZE;
}

uint64_t iova_of(int nr)
{
	return 0x100000000ul << nr;
}

uint32_t fd_type_of(enum kind kind)
{
	return kind == IN_DMABUF ? IB_UVERBS_MR_FD_TYPE_DMABUF : IB_UVERBS_MR_FD_TYPE_MEMFD;
}

int mr_reg(struct env *env, struct mr *mr, enum entry e)
{
	struct memory *mem = &env->mem[mr->kind][mr->nr];
	struct fd_call c = {
		.pd = env->pd[mr->pd]->handle, .access = mr->access,
		.type = fd_type_of(mr->kind), .fd = mem->fd, .length = SIZE,
		.iova = iova_of(mr->nr),
	};

	if (mr->kind == IN_HOST)
		return host_reg(env->ctx->cmd_fd, c.pd, (uintptr_t)mem->cpu, SIZE, c.iova,
				c.access, &mr->keys);
	return fd_call(env->ctx->cmd_fd, e, &c, &mr->keys);
}

/* RDMA write and read, and an atomic operation if it has that right. */
static void check_data(struct env *env, const struct mr *mr)
{
	static uint32_t seed;
	struct pair *pair = &env->pair[mr->pd];
	struct ibv_mr *local = env->local[mr->pd];
	uint8_t *cpu = env->mem[mr->kind][mr->nr].cpu;
	size_t from = 70 * PAGE - 100, n = 3000;
	uint64_t remote = iova_of(mr->nr) + from;

	fill(env->work, n, ++seed);
	if (rdma_op(pair, IBV_WR_RDMA_WRITE, local, (uintptr_t)env->work, n, remote,
		    mr->keys.rkey) || !filled(cpu + from, n, seed, "written"))
		die("RDMA write");
	fill(cpu + from, n, ++seed);
	if (rdma_op(pair, IBV_WR_RDMA_READ, local, (uintptr_t)env->work, n, remote,
		    mr->keys.rkey) || !filled(env->work, n, seed, "read"))
		die("RDMA read");
	if (!(mr->access & IBV_ACCESS_REMOTE_ATOMIC))
		return;
	memset(cpu, 0, 8);
	if (atomic_op(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, local, iova_of(mr->nr), mr->keys.rkey,
		      1, 0) || cpu[0] != 1)
		die("fetch and add");
}

void check_mr(struct env *env, const struct mr *mr)
{
	struct mr_info info;

	if ((errno = mr_query(env->ctx->cmd_fd, mr->keys.handle, &info)))
		die("query MR");
	if (info.lkey != mr->keys.lkey || info.rkey != mr->keys.rkey || info.length != SIZE ||
	    info.iova != iova_of(mr->nr))
		die("the MR has other keys or another range");
	check_pinned(env, pinned_by(mr->kind));
	check_data(env, mr);
}

void must_dereg(struct env *env, struct mr *mr)
{
	errno = mr_dereg(env->ctx->cmd_fd, BY_IOCTL, mr->keys.handle);
	if (errno)
		die("dereg");
}

