// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Preloaded into compilers: ask for huge pages for memory that a program maps in large pieces.
 *
 * gcc keeps its trees in pieces of 2 MiB that it maps itself, and touches nearly all of them
 * once.  In a virtual machine page faults are dear: 172 files of the kernel take 109 s with
 * small pages, 79 s with this.  malloc's tunable for huge pages does not reach those pieces;
 * in addition to this it gains 2 s.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HUGE_PAGE (2UL << 20)

void *mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	void *memory = (void *)syscall(SYS_mmap, addr, size, prot, flags, fd, offset);

	/* A request: if it fails, the memory has small pages. */
	if (memory != MAP_FAILED && flags & MAP_ANONYMOUS && size >= HUGE_PAGE)
		syscall(SYS_madvise, memory, size, MADV_HUGEPAGE);
	return memory;
}

void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));
