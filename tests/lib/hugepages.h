/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Huge pages of 2 MiB, and file systems of them.
 *
 * The kernel keeps a pool of huge pages.  A page of the pool that is reserved is free, but
 * promised to somebody: to a mapping that has not touched it yet, or to a mount with
 * min_size=.  What a case takes has to go back to each of these counts.
 */
#ifndef LIB_HUGEPAGES_H
#define LIB_HUGEPAGES_H

#include <stdbool.h>
#include <stdint.h>

#define HUGE_PAGE (2ul << 20)

struct hugepages {
	long total;
	long free;	/* the reserved ones too */
	long reserved;	/* negative: the kernel's count has wrapped */
};

/* From now on the pool has N pages; nobody may use one. */
void hugepages_make(long n);
struct hugepages hugepages_now(void);
/* Whether the counts are these; if not, print both. */
bool hugepages_are(struct hugepages wanted);

#define HUGETLBFS_DIR "/tmp/hugetlbfs"

/* Mount hugetlbfs there. */
void hugetlbfs_mount(const char *options);
/* Pages for which the mount has room, as far as it limits them. */
long hugetlbfs_room(void);
void hugetlbfs_umount(void);
/* A file with holes only.  It has no name, so it ends with its last user. */
int hugetlbfs_file(long pages);
/* Map the file, shared, with these flags besides. */
uint8_t *hugepages_map(int fd, long pages, int flags);
/* How many of its pages the file has. */
long hugepages_of(int fd);

#endif
