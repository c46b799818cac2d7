// SPDX-License-Identifier: GPL-2.0-or-later
/* See counts.h. */
#include "lib/counts.h"
#include "lib/case.h"
#include "lib/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * The list says at its end how many it has.  To read it takes the lock of each dma-buf, for
 * which a signal ends the wait.
 */
int dmabuf_count(void)
{
	static const char path[] = "/sys/kernel/debug/dma_buf/bufinfo";
	char *line = NULL;
	size_t room = 0;
	int n;

	do {
		FILE *f = must(fopen(path, "r"));

		n = -1;
		errno = 0;
		while (getline(&line, &room, f) >= 0) {
			int count, end = 0;

			sscanf(line, "Total %d objects%n", &count, &end);
			if (end)
				n = count;
		}
		fclose(f);
	} while (n < 0 && errno == EINTR);
	free(line);
	if (n < 0)
		fail_case("%s", path);
	return n;
}

bool nothing_left(void)
{
	double end = deadline(10);

	do {
		if (!mr_count() && !dmabuf_count())
			return true;
		usleep(100000);
	} while (now() < end);
	printf("# left: %d MRs, %d dma-bufs\n", mr_count(), dmabuf_count());
	return false;
}

long pinned_kb(void)
{
	FILE *f = must(fopen("/proc/self/status", "r"));
	char line[128];
	long kb = -1;

	while (fgets(line, sizeof(line), f))
		sscanf(line, "VmPin: %ld", &kb);
	fclose(f);
	return kb;
}

/*
 * The count includes free objects in the slab that a CPU allocates from, and those that
 * KASAN keeps.  To shrink the cache takes them out of the count until the next
 * allocation.  So shrink, read at once, and use the least of three counts.
 */
long slab_objects(const char *cache)
{
	char path[128], text[32] = "";
	int shrink, objects;
	long least = LONG_MAX;

	snprintf(path, sizeof(path), "/sys/kernel/slab/%s/shrink", cache);
	shrink = open(path, O_WRONLY);
	snprintf(path, sizeof(path), "/sys/kernel/slab/%s/objects", cache);
	objects = open(path, O_RDONLY);
	for (int i = 0; i < 3; i++) {
		if (write(shrink, "1", 1) != 1 || pread(objects, text, sizeof(text) - 1, 0) < 1)
			fail_case("%s", path);
		least = strtol(text, NULL, 10) < least ? strtol(text, NULL, 10) : least;
	}
	close(shrink);
	close(objects);
	return least;
}
