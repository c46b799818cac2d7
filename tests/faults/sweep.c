// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * See sweep.h.  /proc/self/fail-nth makes one point of failure fail, in the thread that
 * writes to it.  The settings of the kernel's fault injection that are changed here only
 * define what counts as a point.  The program restores them when it ends, even if a case
 * dies: cases run in child processes.
 *
 * A fault writes nothing to the log; with FAIL_NTH_VERBOSE=2 it writes its call trace.
 */
#include "faults/sweep.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/pattern.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST 3000	/* more points than any call has */

static struct {
	char start[20];
	char end[20];
} checker;	/* the function that allocates, in the kernel's text */

static struct setting {
	const char *file;
	const char *value;
	char before[32];
} settings[] = {
	/* allocations that may sleep, of high memory and of single pages count too */
	{ .file = "failslab/ignore-gfp-wait", .value = "N" },
	{ .file = "fail_page_alloc/ignore-gfp-wait", .value = "N" },
	{ .file = "fail_page_alloc/ignore-gfp-highmem", .value = "N" },
	{ .file = "fail_page_alloc/min-order", .value = "0" },
	/* but not what the DMA-API checker allocates: without it it ends its work for good */
	{ .file = "failslab/reject-start", .value = checker.start },
	{ .file = "failslab/reject-end", .value = checker.end },
	{ .file = "fail_page_alloc/reject-start", .value = checker.start },
	{ .file = "fail_page_alloc/reject-end", .value = checker.end },
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
		fail_case("open %s", path);
	return fd;
}

static void setting_write(const struct setting *s, const char *value)
{
	int fd = setting_open(s, O_WRONLY);

	if (write(fd, value, strlen(value)) < 0)
		fail_case("write %s to %s", value, s->file);
	close(fd);
}

static void settings_restore(void)
{
	for (int i = 0; i < NR_SETTINGS; i++)
		setting_write(&settings[i], settings[i].before);
}

/* The address of a symbol, or with NAME NULL the first one that follows AFTER. */
static unsigned long symbol(const char *name, unsigned long after)
{
	FILE *f = must(fopen("/proc/kallsyms", "re"));
	unsigned long at, found = 0;
	char line[256], is[128];

	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx %*c %127s", &at, is) == 2 &&
		    (name ? !strcmp(is, name) : at > after && (!found || at < found)))
			found = at;
	fclose(f);
	return found;
}

static void checker_find(void)
{
	unsigned long start = symbol("add_dma_entry", 0);

	if (!start)
		fail_case("no add_dma_entry in /proc/kallsyms");
	snprintf(checker.start, sizeof(checker.start), "%#lx", start);
	snprintf(checker.end, sizeof(checker.end), "%#lx", symbol(NULL, start));
}

void faults_prepare(void)
{
	const char *verbose = getenv("FAIL_NTH_VERBOSE") ?: "0";

	checker_find();
	for (int i = 0; i < NR_SETTINGS; i++) {
		struct setting *s = &settings[i];
		int fd = setting_open(s, O_RDONLY);

		if (read(fd, s->before, sizeof(s->before) - 1) <= 0)
			fail_case("read %s", s->file);
		close(fd);
	}
	if (atexit(settings_restore))
		fail_case("register the restore of the settings at exit");
	for (int i = 0; i < NR_SETTINGS; i++)
		setting_write(&settings[i], settings[i].value ?: verbose);
}

void faults_open(void)
{
	fail_nth = open("/proc/self/fail-nth", O_RDWR | O_CLOEXEC);
	if (fail_nth < 0)
		fail_case("open /proc/self/fail-nth");
}

void fail_at(unsigned int n)
{
	char buf[16];
	int len = snprintf(buf, sizeof(buf), "%u", n);

	if (pwrite(fail_nth, buf, len, 0) != len)
		fail_case("write %u to fail-nth", n);
}

bool sweep_next(struct sweep *s)
{
	if (s->over)
		return false;
	if (s->n++ == MOST)
		fail_case("the call still reaches a fault after %d points", MOST);
	return true;
}

/*
 * Nothing fails from here on.  If the call reached point N it may have failed, with
 * ENOMEM or EFAULT; if not, it must have succeeded.
 *
 * To read or write fail-nth also copies from or to user space, so point N may be there.
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
		fail_case("the call failed, and did not reach point %u", s->n);
	if (err && err != ENOMEM && err != EFAULT)
		fail_case("the errno with a fault at point %u is neither ENOMEM nor EFAULT", s->n);
}

void sweep_end(const struct sweep *s, const char *how, const char *what, const char *of)
{
	/* Every call copies something: with no point at all the sweep is broken. */
	if (s->n < 2)
		fail_case("%s%s%s: the sweep reached no point of failure", how, what, of);
	printf("# %s%s%s: %u points, %u errors\n", how, what, of, s->n - 1, s->errors);
}

const char *const kind_name[] = { "a dma-buf", "a memfd", "host memory" };

static void pd_open(struct env *env, int i)
{
	env->pd[i] = must(ibv_alloc_pd(env->ctx));
	pair_open_in(&env->pair[i], env->pd[i]);
	env->local_mr[i] = memory_reg(&env->local, env->pd[i], RW);
}

/*
 * Memory of the process that is shared, so a fork copies none of it, and present, so
 * an MR of it has the same points of failure each time.
 */
static void host_open(struct memory *m)
{
	uint8_t *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		fail_case("map memory");
	*m = (struct memory){
		.kind = HOST, .size = SIZE, .cpu = p, .iova = (uintptr_t)p, .fd = -1, .drm_fd = -1,
	};
}

static int lowest_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

void env_open(struct env *env, enum memory_kind dmabuf)
{
	need("reg_mr_fd");
	need("rereg_mr_fd");
	need("memfd");
	need("atomics");
	if (!nothing_left())
		fail_case("an MR, a dma-buf or a pin is left from the case before");
	env->ctx = device_open();
	env->dmabuf_is_pinned = dmabuf == TEST_EXPORTER && device_can("gives-back");
	host_open(&env->local);
	for (int i = 0; i < 2; i++) {
		pd_open(env, i);
		memory_open(&env->mem[IN_DMABUF][i], dmabuf, SIZE);
		memory_open(&env->mem[IN_MEMFD][i], MEMFD, SIZE);
		host_open(&env->mem[IN_HOST][i]);
		for (int k = 0; k < NR_KINDS; k++)
			memset(env->mem[k][i].cpu, k, SIZE);
	}
	env->pinned = pinned_kb();
	env->mrs = mr_count();
	env->free_fd = lowest_fd();
}

const char *device_file(struct env *env)
{
	static char path[128];

	snprintf(path, sizeof(path), "/dev/infiniband/%s", env->ctx->device->dev_name);
	return path;
}

bool fd_left(struct env *env)
{
	return lowest_fd() != env->free_fd;
}

/* Check that BYTES more are pinned than when the environment was opened. */
void check_pinned(struct env *env, size_t bytes)
{
	long kb = pinned_kb() - env->pinned;

	if (kb != bytes / 1024)
		fail_case("%ld KiB more than before are pinned, not %zu", kb, bytes / 1024);
}

void check_nothing_left(struct env *env)
{
	double end = deadline(5);

	check_pinned(env, 0);
	if (fd_left(env))
		fail_case("an fd is left open");
	while (mr_count() != env->mrs) {
		if (now() > end)
			fail_case("%d MRs exist at the end, not %d", mr_count(), env->mrs);
		usleep(100000);
	}
}

void env_close(struct env *env)
{
	if (env->free_fd)	/* env_open() has finished */
		check_nothing_left(env);
	for (int i = 0; i < 2; i++) {
		mr_close(env->local_mr[i]);
		pair_close(&env->pair[i]);
		pd_close(env->pd[i]);
		for (int k = 0; k < NR_KINDS; k++)
			memory_close(&env->mem[k][i]);
	}
	memory_close(&env->local);
	device_close(env->ctx);
}

static size_t pinned_by(const struct env *env, const struct mr *mr)
{
	if (mr->kind == IN_DMABUF)
		return env->dmabuf_is_pinned ? SIZE : 0;
	return mr->access & IBV_ACCESS_ON_DEMAND ? 0 : SIZE;
}

uint64_t iova_of(int nr)
{
	return 0x100000000ul << nr;
}

uint32_t fd_type_of(enum kind kind)
{
	static const uint32_t types[] = {
		[IN_DMABUF] = IB_UVERBS_BUFFER_TYPE_DMABUF,
		[IN_MEMFD] = IB_UVERBS_BUFFER_TYPE_MEMFD,
		[IN_HOST] = IB_UVERBS_BUFFER_TYPE_VA,
	};

	return types[kind];
}

int mr_reg(struct env *env, struct mr *mr, enum way way)
{
	struct memory *mem = &env->mem[mr->kind][mr->nr];
	struct fd_call c = {
		.pd = env->pd[mr->pd]->handle, .access = mr->access,
		.type = fd_type_of(mr->kind), .fd = mem->fd, .length = SIZE,
		.offset = mr->kind == IN_HOST ? (uintptr_t)mem->cpu : 0,
		.iova = iova_of(mr->nr),
	};

	if (way == BY_ADDRESS)
		return host_reg(env->ctx->cmd_fd, c.pd, (uintptr_t)mem->cpu, SIZE, c.iova,
				c.access, &mr->keys);
	return fd_call(env->ctx->cmd_fd, &c, &mr->keys);
}

/* RDMA write and read, and an atomic operation if it has that right. */
static void check_data(struct env *env, const struct mr *mr)
{
	static uint32_t seed;
	struct pair *pair = &env->pair[mr->pd];
	struct ibv_mr *local = env->local_mr[mr->pd];
	uint8_t *cpu = env->mem[mr->kind][mr->nr].cpu;
	size_t from = 70 * PAGE - 100, n = 3000;
	uint64_t remote = iova_of(mr->nr) + from;

	fill(env->local.cpu, n, ++seed);
	if (rdma_op(pair, IBV_WR_RDMA_WRITE, local, env->local.iova, n, remote,
		    mr->keys.rkey) || !filled(cpu + from, n, seed, "written"))
		fail_case("RDMA write to the MR failed or its bytes did not arrive");
	fill(cpu + from, n, ++seed);
	if (rdma_op(pair, IBV_WR_RDMA_READ, local, env->local.iova, n, remote,
		    mr->keys.rkey) || !filled(env->local.cpu, n, seed, "read"))
		fail_case("RDMA read of the MR failed or returned other bytes");
	if (!(mr->access & REMOTE_ATOMIC))
		return;
	memset(cpu, 0, 8);
	if (atomic_op(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, local, iova_of(mr->nr), mr->keys.rkey,
		      1, 0) || cpu[0] != 1)
		fail_case("fetch and add to the MR failed or did not add");
}

void check_mr(struct env *env, const struct mr *mr)
{
	struct mr_info info;

	if ((errno = mr_query(env->ctx->cmd_fd, mr->keys.handle, &info)))
		fail_case("query MR");
	if (info.lkey != mr->keys.lkey || info.rkey != mr->keys.rkey || info.length != SIZE ||
	    info.iova != iova_of(mr->nr))
		fail_case("the MR has other keys or another range");
	check_pinned(env, pinned_by(env, mr));
	check_data(env, mr);
}

void must_dereg(struct env *env, struct mr *mr)
{
	errno = mr_dereg(env->ctx->cmd_fd, BY_IOCTL, mr->keys.handle);
	if (errno)
		fail_case("dereg");
}

int rereg_call(struct env *env, const struct rereg *r, const struct mr *mr, struct keys *keys)
{
	struct memory *mem = &env->mem[r->to][1];
	struct fd_call c = {
		.rereg = true, .mr = mr->keys.handle, .flags = r->flags,
		.pd = env->pd[1]->handle, .access = RWA | env->more_access, .fd = mem->fd,
		.offset = r->to == IN_HOST ? (uintptr_t)mem->cpu : 0, .length = SIZE,
		.type = fd_type_of(r->to), .iova = iova_of(1),
	};

	if (r->way == BY_ADDRESS)
		return host_rereg(env->ctx->cmd_fd, c.mr, c.flags, c.pd, (uintptr_t)mem->cpu,
				  SIZE, c.iova, c.access, keys);
	return fd_call(env->ctx->cmd_fd, &c, keys);
}

void rereg_done(struct env *env, struct mr *mr, const struct rereg *r, const struct keys *keys)
{
	errno = 0;
	if ((keys->lkey != mr->keys.lkey || keys->rkey != mr->keys.rkey) &&
	    ((!(r->flags & TRANS) && !env->more_access) || device_can("keeps-keys")))
		fail_case("rereg changed the keys, which should have stayed");
	mr->keys.lkey = keys->lkey;
	mr->keys.rkey = keys->rkey;
	if (r->flags & TRANS) {
		mr->kind = r->to;
		mr->nr = 1;
	}
	if (r->flags & CHANGE_PD)
		mr->pd = 1;
	if (r->flags & CHANGE_ACCESS)
		mr->access = RWA | env->more_access;
}
