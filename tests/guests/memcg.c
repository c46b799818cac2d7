// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The memory of a DM counts in the memory cgroup of the process that allocates it, where the
 * DM is memory of the host (rxe).
 */
#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/dm.h"
#include "lib/harness.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * memory.stat is exact only after more than 64 updates for each CPU, here pages; guests have
 * two CPUs.
 */
#define SIZE (256 * PAGE)	/* all that rxe has by default */
/* What else the kernel allocates for a DM: objects, page tables. */
#define MORE (32 * PAGE)
#define CGROUPS "/tmp/cgroups"
#define OURS CGROUPS "/ours"

FIXTURE(memcg)
{
	struct ibv_context *ctx;
};

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail_case("write \"%s\" to %s", text, path);
	close(fd);
}

/* Bytes of the kernel that count in our cgroup. */
static long charged(void)
{
	FILE *f = fopen(OURS "/memory.stat", "re");
	char line[128];
	long bytes = -1;

	if (!f)
		fail_case("open memory.stat");
	while (bytes < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "kernel %ld", &bytes);
	fclose(f);
	if (bytes < 0)
		fail_case("find \"kernel\" in memory.stat");
	return bytes;
}

FIXTURE_SETUP(memcg)
{
	need("dm-export");
	ASSERT_TRUE(nothing_left());
	ASSERT_EQ(0, mkdir(CGROUPS, 0755));
	ASSERT_EQ(0, mount("none", CGROUPS, "cgroup2", 0, NULL));
	put(CGROUPS "/cgroup.subtree_control", "+memory");
	ASSERT_EQ(0, mkdir(OURS, 0755));
	put(OURS "/cgroup.procs", "0");
	self->ctx = device_open();
}

FIXTURE_TEARDOWN(memcg)
{
	device_close(self->ctx);
	put(CGROUPS "/cgroup.procs", "0");
	EXPECT_EQ(0, rmdir(OURS));
	EXPECT_EQ(0, umount2(CGROUPS, MNT_DETACH));
	EXPECT_EQ(0, rmdir(CGROUPS));
	EXPECT_TRUE(nothing_left());
}

/* A worker gives the memory back, a little after the free. */
static bool falls_to(long bytes)
{
	double end = deadline(10);

	while (charged() > bytes) {
		if (now() > end)
			return false;
		usleep(10000);
	}
	return true;
}

TEST_F(memcg, dm_counts_in_the_memory_cgroup_of_its_owner)
{
	long before = charged(), with;
	struct dm dm;

	dm_open(&dm, self->ctx, SIZE);
	with = charged();
	printf("# a DM of %lu bytes adds %ld bytes\n", SIZE, with - before);
	ASSERT_LE(before + SIZE, with);
	ASSERT_GE(before + SIZE + MORE, with);
	dm_close(&dm);
	ASSERT_TRUE(falls_to(before + MORE));
}

TEST_HARNESS_MAIN
