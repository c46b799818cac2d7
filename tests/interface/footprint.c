// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: rxe */
/* runs: full debug-full; devices: connectx */
/*
 * A registration of huge pages by fd makes the kernel keep no more memory than one by address.
 *
 * That is what the kernel allocates for an MR, and keeps until dereg, besides the memory
 * itself.  Nobody accounts for it.
 *
 * The memory is huge pages: 64 MiB are 32 folios, but 16384 pages of 4 KiB, and an array
 * of pointers to these takes 128 KiB.
 *
 * The sums of /proc/meminfo are too coarse for that: they also count free objects in slabs,
 * and on the debug kernel objects that wait in KASAN's quarantine.  So the kernel traces
 * each kmalloc() and kfree() of this process, and meminfo adds what is not of kmalloc():
 * vmalloc(), where a large kvmalloc() falls back to it, and page tables.
 */
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/hugepages.h"
#include "lib/memory.h"
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define TRACE "/sys/kernel/tracing/instances/mrfd_footprint"
#define PAGES 32
#define SIZE (PAGES * HUGE_PAGE)
#define SLACK 16384	/* for what may differ: the folios, a table that is one page longer */
#define MOST 8192	/* allocations in one registration */

FIXTURE(footprint)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	int fd;
	uint8_t *cpu;
};

static void put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_TRUNC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail_case("write \"%s\" to %s", text, file);
	close(fd);
}

FIXTURE_SETUP(footprint)
{
	cpu_set_t one_cpu;
	char pid[16];

	self->fd = -1;
	need("reg_mr_fd");
	need("memfd");
	need("native");
	self->ctx = device_open();
	self->pd = must(ibv_alloc_pd(self->ctx));
	hugepages_make(PAGES);
	self->fd = memfd_of(SIZE, MFD_HUGETLB);
	self->cpu = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			 self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->cpu);
	/* The trace is in order as long as it is of one CPU. */
	CPU_ZERO(&one_cpu);
	CPU_SET(sched_getcpu(), &one_cpu);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(one_cpu), &one_cpu));

	if (mkdir(TRACE, 0700) && errno != EEXIST)
		fail_case("mkdir " TRACE);
	put(TRACE "/tracing_on", "0");
	put(TRACE "/buffer_size_kb", "1024");
	snprintf(pid, sizeof(pid), "%d", getpid());
	put(TRACE "/set_event_pid", pid);
	put(TRACE "/events/kmem/kmalloc/enable", "1");
	put(TRACE "/events/kmem/kfree/enable", "1");
}

FIXTURE_TEARDOWN(footprint)
{
	rmdir(TRACE);
	if (self->cpu && self->cpu != MAP_FAILED)
		munmap(self->cpu, SIZE);
	if (self->fd >= 0)
		close(self->fd);
	if (self->pd)
		hugepages_make(0);
	pd_close(self->pd);
	device_close(self->ctx);
}

/* Bytes of vmalloc() and of page tables, in the whole kernel. */
static long other_bytes(void)
{
	FILE *f = must(fopen("/proc/meminfo", "r"));
	long kb, sum = 0, found = 0;
	char line[128];

	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "VmallocUsed: %ld", &kb) == 1 ||
		    sscanf(line, "PageTables: %ld", &kb) == 1) {
			sum += kb * 1024;
			found++;
		}
	}
	fclose(f);
	if (found != 2)
		fail_case("/proc/meminfo lacks a line");
	return sum;
}

/* Bytes that the trace allocates and does not free.  A pointer is printed as a hash. */
static long kept_bytes(void)
{
	static struct { unsigned long ptr; long bytes; } kept[MOST];
	FILE *f = must(fopen(TRACE "/trace", "r"));
	unsigned long ptr, bytes;
	char line[1024];
	long sum = 0;
	int n = 0;

	while (fgets(line, sizeof(line), f)) {
		const char *p = strstr(line, " ptr=");
		const char *b = strstr(line, " bytes_alloc=");

		if (strstr(line, "LOST"))
			fail_case("the trace has lost events");
		if (line[0] == '#' || !p || sscanf(p, " ptr=%lx", &ptr) != 1)
			continue;
		if (strstr(line, " kmalloc: ") && b &&
		    sscanf(b, " bytes_alloc=%lu", &bytes) == 1) {
			if (n == MOST)
				fail_case("more than %d allocations", MOST);
			kept[n].ptr = ptr;
			kept[n++].bytes = bytes;
			sum += bytes;
		} else if (strstr(line, " kfree: ")) {
			for (int i = n; i-- > 0;) {
				if (kept[i].ptr == ptr) {
					sum -= kept[i].bytes;
					kept[i] = kept[--n];
					break;
				}
			}
		}
	}
	fclose(f);
	return sum;
}

static struct ibv_mr *reg(const FIXTURE_DATA(footprint) *self, bool by_fd)
{
	if (!by_fd)
		return ibv_reg_mr(self->pd, self->cpu, SIZE, RW);
	return ibv_reg_mr_fd_iova(self->pd, 0, SIZE, IOVA, IBV_MR_FD_TYPE_MEMFD, self->fd, RW);
}

/* Bytes that one registration keeps; the library's part is not in it. */
static long bytes_of_reg(const FIXTURE_DATA(footprint) *self, bool by_fd)
{
	struct ibv_mr *mr;
	long others, bytes;

	put(TRACE "/trace", "");
	others = other_bytes();
	put(TRACE "/tracing_on", "1");
	mr = must(reg(self, by_fd));
	put(TRACE "/tracing_on", "0");
	others = other_bytes() - others;
	bytes = kept_bytes();
	if (bytes <= 0)
		fail_case("the trace is empty");
	mr_close(mr);
	printf("# by %s: %ld bytes of kmalloc(), %ld others\n", by_fd ? "fd" : "address", bytes,
	       others);
	return bytes + others;
}

static int compare(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return (x > y) - (x < y);
}

/* The median, because other processes, too, get page tables and stacks. */
static long usual_bytes(const FIXTURE_DATA(footprint) *self, bool by_fd)
{
	long bytes[5];

	for (int i = 0; i < 5; i++)
		bytes[i] = bytes_of_reg(self, by_fd);
	qsort(bytes, 5, sizeof(bytes[0]), compare);
	return bytes[2];
}

TEST_F(footprint, reg_by_fd_takes_no_more_memory_than_by_address)
{
	long by_address, by_fd;

	/* What is allocated once stays out. */
	mr_close(must(reg(self, false)));
	mr_close(must(reg(self, true)));
	by_address = usual_bytes(self, false);
	by_fd = usual_bytes(self, true);
	printf("# %ld bytes by address, %ld by fd\n", by_address, by_fd);
	ASSERT_LE(by_fd, by_address + SLACK);
}

TEST_HARNESS_MAIN
