// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full kcsan; guest: smp; devices: rxe */
/* runs: full; devices: connectx */
/*
 * Several processes register, reregister, use and deregister MRs at random, fork and exit, while
 * they are killed and the device is deleted and added: the data is right, every process ends,
 * and nothing is left.
 *
 * A case fails if a worker saw something wrong, if a process does not end (the case prints
 * where its threads wait), or if anything is left: MRs, dma-bufs, pinned pages, mappings of
 * buffers in the kernel, objects in slabs.  The setup counts these after a warm-up round, the
 * teardown counts them at the end.  scripts/check finds complaints of the kernel.
 *
 * MRFD_SEED makes the workers do the same things again, though not at the same times.
 */
#include "lib/depth.h"
#include "load/worker.h"
#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/random.h"
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define WORKERS 3		/* at a time */
#define SECONDS depth(4, 25)	/* of a case */
#define PATIENCE 130		/* more, if not enough was done: 180 s were too few at a load of 20 */
#define WARM_UP 4
#define END_LIMIT 20		/* seconds in which a process has to end */
#define LEAST 5			/* times that a case must do what it tests */
#define MAX_SLABS 64

/* The network stack keeps up to this many freed skbs for each CPU. */
#define SKB_CACHE 64
/*
 * A cache may have this many objects more than before, plus one slab: workers of workqueues
 * start and end, timers and RCU callbacks are pending.  A leak in an operation that is done
 * all the time adds far more.
 */
#define SLACK 40

struct counts {
	int mrs, dmabufs;
	long pins;		/* pages acquired and not released */
	int vmaps;
	int nr_slabs;
	struct { char name[32]; long objects, per_slab; } slab[MAX_SLABS];
};

FIXTURE(stress)
{
	struct board *board;
	struct counts before;
	uint32_t started;	/* workers so far */
	uint64_t random;
	uint32_t endings[NR_ENDINGS];
	uint32_t killed;
	pid_t deleter;		/* or 0 */
	double when;		/* the deletion began, or has to begin */
	uint32_t deletions;
	bool brief;		/* the case is too short to do every act */
	uint32_t least_killed;	/* what the case must have done besides every act */
	uint32_t least_deletions;
	uint32_t least[NR_ENDINGS];	/* so many ended in each way */
};

/*
 * Reading the count allocates an object of 8 bytes, and other code may allocate at the same
 * time: then the whole slab of such an object counts as used.
 */
static long slack_of(const char *slab, long per_slab)
{
	long skbs = strncmp(slab, "skbuff", 6) ? 0 : SKB_CACHE * sysconf(_SC_NPROCESSORS_CONF);

	return SLACK + per_slab + skbs;
}

/* Caches for the objects of MRs, queue pairs, buffers and processes. */
static bool slab_counts(const char *name)
{
	static const char *const names[] = {
		"skbuff_", "shmem_inode_cache", "filp", "mm_struct", "task_struct",
		"signal_cache", "sighand_cache", "files_cache", "vm_area_struct", "pid",
		"sock_inode_cache",
	};

	if (!strncmp(name, "kmalloc-", 8) && !strstr(name, "rcl"))
		return true;
	for (int i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) != strlen(text))
		fail_case("write to %s", path);
	close(fd);
}

static void count_slabs(struct counts *c)
{
	FILE *f = must(fopen("/proc/slabinfo", "r"));
	char line[512], name[64];

	/* The dentry cache keeps sysfs files of a deleted device. */
	write_file("/proc/sys/vm/drop_caches", "2");
	c->nr_slabs = 0;
	while (fgets(line, sizeof(line), f)) {
		long per_slab;

		if (sscanf(line, "%31s %*d %*d %*d %ld", name, &per_slab) != 2 ||
		    !slab_counts(name))
			continue;
		if (c->nr_slabs == MAX_SLABS)
			fail_case("more than %d slabs", MAX_SLABS);
		strcpy(c->slab[c->nr_slabs].name, name);
		c->slab[c->nr_slabs].per_slab = per_slab;
		c->slab[c->nr_slabs++].objects = slab_objects(name);
	}
	fclose(f);
}

static void count_all(struct counts *c)
{
	char line[512];
	long value;
	FILE *f;

	c->mrs = mr_count();
	c->dmabufs = dmabuf_count();

	write_file("/proc/sys/vm/stat_refresh", "1");
	f = must(fopen("/proc/vmstat", "r"));
	c->pins = 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "nr_foll_pin_acquired %ld", &value) == 1)
			c->pins += value;
		if (sscanf(line, "nr_foll_pin_released %ld", &value) == 1)
			c->pins -= value;
	}
	fclose(f);

	f = must(fopen("/proc/vmallocinfo", "r"));
	c->vmaps = 0;
	while (fgets(line, sizeof(line), f))
		c->vmaps += !!strstr(line, " vmap");	/* those of vm_map_ram() are a cache */
	fclose(f);
	count_slabs(c);
}

/* Whether NOW has nothing more than BEFORE; TELL prints what it has. */
static bool returned(const struct counts *before, const struct counts *now, bool tell)
{
	bool good = now->mrs <= before->mrs && now->dmabufs <= before->dmabufs &&
		    now->pins == before->pins && now->vmaps <= before->vmaps;

	if (!good && tell)
		printf("# left: %d MRs, %d dma-bufs, %ld pins, %d mappings; before: %d, %d, %ld, %d\n",
		       now->mrs, now->dmabufs, now->pins, now->vmaps, before->mrs,
		       before->dmabufs, before->pins, before->vmaps);
	for (int i = 0; i < now->nr_slabs; i++) {
		long more = now->slab[i].objects - before->slab[i].objects;

		if (strcmp(now->slab[i].name, before->slab[i].name))
			fail_case("slabs have changed");
		if (more <= slack_of(now->slab[i].name, now->slab[i].per_slab))
			continue;
		good = false;
		if (tell)
			printf("# left: %ld objects in %s, which had %ld\n", more,
			       now->slab[i].name, before->slab[i].objects);
	}
	return good;
}

/*
 * RCU and work items free objects a little later.  Other short-lived allocations of the
 * kernel only increase a count, so use the least count.
 */
static bool counts_return(const struct counts *before)
{
	struct counts counts, last = { .nr_slabs = 0 };

	for (double end = deadline(15); now() < end; usleep(500000)) {
		count_all(&counts);
		for (int s = 0; s < last.nr_slabs; s++)
			if (last.slab[s].objects < counts.slab[s].objects)
				counts.slab[s].objects = last.slab[s].objects;
		last = counts;
		if (returned(before, &counts, false))
			return true;
	}
	return returned(before, &last, true);
}

static void print_file(const char *path)
{
	char line[256];
	FILE *f = fopen(path, "r");

	while (f && fgets(line, sizeof(line), f))
		if (line[0] != '\n')
			printf("#     %s%s", line, strchr(line, '\n') ? "" : "\n");
	if (f)
		fclose(f);
}

/* Print where the threads of a process wait that does not end. */
static void tell_where(pid_t pid)
{
	char path[300];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	printf("# process %d does not end:\n", pid);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		printf("#   thread %s:\n", entry->d_name);
		for (int i = 0; i < 3; i++) {
			static const char *const files[] = { "stat", "wchan", "stack" };

			snprintf(path, sizeof(path), "/proc/%d/task/%s/%s", pid, entry->d_name,
				 files[i]);
			print_file(path);
		}
	}
	if (dir)
		closedir(dir);
}

/* The same for every child process, including adopted ones. */
static void tell_where_all(void)
{
	struct dirent *entry;
	DIR *dir = must(opendir("/proc"));

	while ((entry = readdir(dir))) {
		char path[300], stat[512] = "", *rest;
		FILE *f;
		int ppid;

		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		f = atoi(entry->d_name) > 0 ? fopen(path, "r") : NULL;
		if (!f)
			continue;
		rest = fgets(stat, sizeof(stat), f) ? strrchr(stat, ')') : NULL;
		fclose(f);
		if (rest && sscanf(rest + 1, " %*c %d", &ppid) == 1 && ppid == getpid())
			tell_where(atoi(entry->d_name));
	}
	closedir(dir);
}

/* The next child that has ended; 0 when the time is up, -1 if there is no child. */
static pid_t wait_until(double end, int *status)
{
	for (;;) {
		pid_t pid = waitpid(-1, status, WNOHANG);

		if (pid < 0 && errno == ECHILD)
			return -1;
		if (pid || now() >= end)
			return pid;
		usleep(2000);
	}
}

static pid_t start_worker(FIXTURE_DATA(stress) *self, double seconds, bool leave)
{
	struct orders orders = { .board = self->board, .worker = ++self->started,
				 .seconds = seconds, .leave = leave };
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		fail_case("fork");
	if (!pid)
		stress_worker(&orders);
	return pid;
}

/* A child has ended; the case fails if it did so in a wrong way. */
static void ended(struct __test_metadata *_metadata, FIXTURE_DATA(stress) *self, int status)
{
	if (WIFSIGNALED(status)) {
		self->killed++;
		EXPECT_EQ(SIGKILL, WTERMSIG(status));
		return;
	}
	if (WEXITSTATUS(status) < NR_ENDINGS)
		self->endings[WEXITSTATUS(status)]++;
	EXPECT_TRUE(WEXITSTATUS(status) == WELL || WEXITSTATUS(status) == NO_DEVICE ||
		    WEXITSTATUS(status) == TAKEN) {
		TH_LOG("a child ended with %d: %s", WEXITSTATUS(status), self->board->wrong);
	}
}

/* Wait for all children. */
static void all_end(struct __test_metadata *_metadata, FIXTURE_DATA(stress) *self)
{
	double end = deadline(END_LIMIT);
	int status;
	pid_t pid;

	while ((pid = wait_until(end, &status)) > 0)
		ended(_metadata, self, status);
	if (!pid)
		tell_where_all();
	ASSERT_EQ(-1, pid);
}

static uint32_t below(FIXTURE_DATA(stress) *self, uint32_t n)
{
	return random_below(&self->random, n);
}

static double fraction(FIXTURE_DATA(stress) *self)
{
	return below(self, 1000) / 1000.0;
}

static bool must_be_done(FIXTURE_DATA(stress) *self, int act)
{
	if (act == REREGISTERED)
		return device_can("rereg_mr_fd") && !self->brief;
	if (act == FOREIGN)
		return device_can("new-keys") && !self->brief;
	if (act == REFUSED)	/* a right or a key that is gone */
		return (device_can("rereg_mr_fd") || device_can("new-keys")) && !self->brief;
	return act != LATE && act != SHARED_FAILED && !self->brief;
}

static bool enough(FIXTURE_DATA(stress) *self)
{
	for (int i = 0; i < NR_ACTS; i++)
		if (must_be_done(self, i) && !self->board->acts[i])
			return false;
	for (int i = 0; i < NR_ENDINGS; i++)
		if (self->endings[i] < self->least[i])
			return false;
	return self->killed >= self->least_killed && self->deletions >= self->least_deletions;
}

/*
 * For SECONDS, and until enough is done, keep WORKERS workers alive, each for about LIFE
 * seconds; kill some of them before that.  Call meanwhile() again and again.
 */
static void keep_alive(struct __test_metadata *_metadata, FIXTURE_DATA(stress) *self,
		       double seconds, double life, bool kill_them,
		       void (*meanwhile)(struct __test_metadata *, FIXTURE_DATA(stress) *))
{
	double end = now() + seconds, limit = deadline(seconds + PATIENCE);
	double kill_at[WORKERS] = {}, next = INFINITY;
	pid_t pids[WORKERS] = {}, pid;
	int status;

	while ((now() < end || (!enough(self) && now() < limit)) &&
	       !self->board->wrong[0]) {
		next = now() + 0.05;
		for (int i = 0; i < WORKERS; i++) {
			if (!pids[i]) {
				double lives = life * (0.3 + fraction(self));

				kill_at[i] = INFINITY;
				if (kill_them && below(self, 3))
					kill_at[i] = now() +
						     fraction(self) * (self->board->setup + life);
				pids[i] = start_worker(self, lives, below(self, 2));
			}
			if (kill_at[i] < now()) {
				kill(pids[i], SIGKILL);
				kill_at[i] = INFINITY;
			}
		}
		if (meanwhile)
			meanwhile(_metadata, self);
		pid = wait_until(next, &status);
		if (pid <= 0)
			continue;
		ended(_metadata, self, status);
		for (int i = 0; i < WORKERS; i++)
			if (pids[i] == pid)
				pids[i] = 0;
	}
	for (int i = 0; i < WORKERS; i++)
		if (pids[i] && kill_them)
			kill(pids[i], SIGKILL);
	all_end(_metadata, self);
}

/*
 * Delete the device, which is taken away from the processes that have it open; then add it
 * again.
 */
static void delete_and_add(struct __test_metadata *_metadata, FIXTURE_DATA(stress) *self)
{
	if (!self->deleter && now() > self->when) {
		ASSERT_TRUE(device_exists());
		self->when = now();
		self->deleter = fork();
		if (!self->deleter)
			device_delete_exec();
	} else if (self->deleter && kill(self->deleter, 0)) {	/* ended, and waited for */
		ASSERT_FALSE(device_exists());
		memset(self->board->told, 0, sizeof(self->board->told));
		ASSERT_TRUE(device_add());
		self->deletions++;
		self->deleter = 0;
		self->when = now() + fraction(self);
	} else if (self->deleter && now() > self->when + END_LIMIT * patience()) {
		tell_where(self->deleter);
		ASSERT_EQ(0, self->deleter) { TH_LOG("the device is not deleted in time"); }
	}
}

FIXTURE_SETUP(stress)
{
	static const char *const needed[] = {
		"reg_mr_fd", "memfd", "atomics", "window-type-1",
	};

	for (int i = 0; i < ARRAY_SIZE(needed); i++)
		need(needed[i]);
	ASSERT_EQ(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
	self->board = mmap(NULL, sizeof(*self->board), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->board);
	self->board->seed = random_seed();
	self->random = random_begin(self->board->seed, 0);
	ASSERT_TRUE(device_gets_ready());
	self->brief = true;
	keep_alive(_metadata, self, WARM_UP, 1.5, true, NULL);
	self->brief = false;
	ASSERT_EQ(0, self->board->wrong[0]) { TH_LOG("%s", self->board->wrong); }
	ASSERT_TRUE(nothing_left());
	sleep(1);
	count_all(&self->before);
	memset(self->board->acts, 0, sizeof(self->board->acts));
	memset(self->endings, 0, sizeof(self->endings));
	self->killed = 0;
}

FIXTURE_TEARDOWN(stress)
{
	if (!self->before.nr_slabs)
		return;		/* the setup has not finished */
	if (!device_exists())
		EXPECT_TRUE(device_add());	/* the case failed while the device was deleted */
	EXPECT_TRUE(device_gets_ready());
	EXPECT_EQ(0, self->board->wrong[0]) { TH_LOG("%s", self->board->wrong); }
	printf("# %u workers, %u processes killed, %u found no device, %u lost theirs\n",
	       self->started, self->killed, self->endings[NO_DEVICE], self->endings[TAKEN]);
	for (int i = 0; i < NR_ACTS; i++) {
		printf("%s %llu %s", i ? "," : "#", (unsigned long long)self->board->acts[i],
		       act_names[i]);
		if (must_be_done(self, i)) {
			EXPECT_LT(0, self->board->acts[i]) {
				TH_LOG("no worker did this: %s", act_names[i]);
			}
		}
	}
	printf("\n");
	/* Some operations may be late, but not most. */
	EXPECT_LE(self->board->acts[LATE] * 4,
		  self->board->acts[WRITTEN] + self->board->acts[READ_BACK] +
		  self->board->acts[ADDED] + self->board->acts[SENT] +
		  self->board->acts[REFUSED]);
	EXPECT_TRUE(nothing_left());
	EXPECT_TRUE(counts_return(&self->before));
}

TEST_F_TIMEOUT(stress, workers_share_the_device_without_error, 240)
{
	double limit = deadline(PATIENCE);

	do {
		for (int i = 0; i < WORKERS; i++)
			start_worker(self, SECONDS, i == 0);
		all_end(_metadata, self);
	} while (!enough(self) && !self->board->wrong[0] && now() < limit);
	EXPECT_LE(WORKERS, self->endings[WELL]);	/* with the children that they forked */
}

TEST_F_TIMEOUT(stress, killed_workers_leave_nothing_behind, 240)
{
	self->least_killed = LEAST;
	self->least[WELL] = 2;
	keep_alive(_metadata, self, SECONDS, 1.5, true, NULL);
	EXPECT_LE(LEAST, self->killed);
	EXPECT_LE(2, self->endings[WELL]);
	EXPECT_EQ(0, self->endings[TAKEN]);
}

TEST_F_TIMEOUT(stress, deleting_the_device_under_load_leaves_nothing, 240)
{
	self->brief = !device_can("add-delete");	/* a case that is skipped does no act */
	need("add-delete");
	self->least_killed = LEAST;
	self->least_deletions = 2;
	self->least[TAKEN] = 1;
	keep_alive(_metadata, self, SECONDS, 0.8, true, delete_and_add);
	if (!device_exists())
		ASSERT_TRUE(device_add());
	TH_LOG("%u deletions", self->deletions);
	EXPECT_LE(2, self->deletions);
	EXPECT_LE(LEAST, self->killed);
	EXPECT_LT(0, self->endings[TAKEN]);
}

/* Several rounds, in which a leak would grow. */
TEST_F_TIMEOUT(stress, repeated_deletions_leak_nothing, 240)
{
	self->brief = true;
	need("add-delete");
	for (int i = 0; i < 3; i++) {
		keep_alive(_metadata, self, SECONDS / 5, 1.0, true, delete_and_add);
		if (!device_exists())
			ASSERT_TRUE(device_add());
		self->deleter = 0;
		ASSERT_TRUE(device_gets_ready());
		ASSERT_TRUE(nothing_left());
		ASSERT_TRUE(counts_return(&self->before)) { TH_LOG("after round %d", i); }
	}
}

TEST_HARNESS_MAIN
