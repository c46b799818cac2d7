// SPDX-License-Identifier: GPL-2.0-or-later
/* See hugepages.h. */
#include "lib/hugepages.h"
#include "lib/case.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define POOL "/sys/kernel/mm/hugepages/hugepages-2048kB/"

static void put(const char *file, long n)
{
	FILE *f = must(fopen(file, "w"));

	if (fprintf(f, "%ld", n) < 0 || fclose(f))
		fail_case("write %ld to %s", n, file);
}

static long get(const char *file)
{
	FILE *f = must(fopen(file, "r"));
	unsigned long n;

	if (fscanf(f, "%lu", &n) != 1)
		fail_case("no number in %s", file);
	fclose(f);
	return n;
}

/* The programs that ran before have scattered the memory; the kernel may need a few tries. */
void hugepages_make(long n)
{
	for (int i = 0; i < 10; i++) {
		put(POOL "nr_hugepages", n);
		if (get(POOL "nr_hugepages") == n)
			return;
		put("/proc/sys/vm/compact_memory", 1);
	}
	errno = 0;
	fail_case("the pool has %ld huge pages instead of %ld", get(POOL "nr_hugepages"), n);
}

struct hugepages hugepages_now(void)
{
	return (struct hugepages){
		.total = get(POOL "nr_hugepages"),
		.free = get(POOL "free_hugepages"),
		.reserved = get(POOL "resv_hugepages"),
	};
}

static void print(const char *what, struct hugepages p)
{
	printf("# %s: %ld huge pages, %ld free, %ld reserved\n", what, p.total, p.free,
	       p.reserved);
}

bool hugepages_are(struct hugepages wanted)
{
	struct hugepages found = hugepages_now();

	if (found.total == wanted.total && found.free == wanted.free &&
	    found.reserved == wanted.reserved)
		return true;
	print("wanted", wanted);
	print("found", found);
	return false;
}

void hugetlbfs_mount(const char *options)
{
	if (mkdir(HUGETLBFS_DIR, 0700) && errno != EEXIST)
		fail_case("mkdir " HUGETLBFS_DIR);
	if (mount("none", HUGETLBFS_DIR, "hugetlbfs", 0, options))
		fail_case("mount hugetlbfs with \"%s\"", options);
}

long hugetlbfs_room(void)
{
	struct statfs fs;

	if (statfs(HUGETLBFS_DIR, &fs))
		fail_case("statfs");
	return fs.f_bfree;
}

void hugetlbfs_umount(void)
{
	if (umount(HUGETLBFS_DIR))
		fail_case("umount hugetlbfs");
}

int hugetlbfs_file(long pages)
{
	const char *name = HUGETLBFS_DIR "/file";
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 || unlink(name) || ftruncate(fd, pages * HUGE_PAGE))
		fail_case("make a file of %ld huge pages", pages);
	return fd;
}

long hugepages_of(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		fail_case("fstat");
	return st.st_blocks * 512 / HUGE_PAGE;
}

uint8_t *hugepages_map(int fd, long pages, int flags)
{
	uint8_t *p = mmap(NULL, pages * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | flags,
			  fd, 0);

	if (p == MAP_FAILED)
		fail_case("map %ld huge pages", pages);
	return p;
}
