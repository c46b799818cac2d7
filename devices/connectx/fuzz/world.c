// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The device of a target, over dma.c and real mappings, as main.c makes it.
 *
 * hca_reset() is what makes an input forget the one before it, so after each input all that
 * a reset must have undone is compared: the memory that objects took, packets of the pool,
 * timers and work of the loop, and struct hca itself with the command queue and the BAR,
 * byte by byte, with the state after the first reset.  Pages that nobody may touch lie
 * around guest memory.
 */
#define _GNU_SOURCE
#include "world.h"
#include "clock.h"
#include "bar.h"
#include "cmdif.h"
#include "direct.h"
#include "life.h"
#include "memic.h"
#include "pci.h"
#include "plug.h"
#include "wire.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u
#define GUID 0x0200000000000001ull
#define FDS 256

static struct world the_world;
static uint8_t *ram;		/* RAM and RAM_MORE */
static int more_fd = -1;
static struct hca as_new;	/* after the first reset, as the next two */
static struct cmdif cmdif_as_new;
static struct bar bar_as_new;

void broken(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: broken: %s\n", file, line, what);
	abort();
}

unsigned int open_fds(void)
{
	static struct pollfd fds[FDS];
	unsigned int count = 0;

	for (int i = 0; i < FDS; i++)
		fds[i] = (struct pollfd){ .fd = i };
	poll(fds, FDS, 0);
	for (int i = 0; i < FDS; i++)
		count += !(fds[i].revents & POLLNVAL);
	return count;
}

uint8_t *ram_at(uint64_t addr, size_t len)
{
	uint64_t at = addr - RAM, size = RAM_SIZE + RAM_MORE_SIZE;

	return addr < RAM || len > size || at > size - len ? NULL : ram + at;
}

void ram_put32(uint64_t addr, uint32_t value)
{
	uint8_t *p = ram_at(addr, 4);

	if (p)
		put_be32(p, value);
}

uint32_t ram_get32(uint64_t addr)
{
	const uint8_t *p = ram_at(addr, 4);

	return p ? be32_at(p) : 0;
}

void bar_put32(struct world *w, uint64_t offset, uint32_t value)
{
	u8 v[4];

	put_be32(v, value);
	hca_bar_write(w->hca, offset, v, sizeof(v));
}

void bar_put64(struct world *w, uint64_t offset, uint32_t high, uint32_t low)
{
	u8 v[8];

	put_be32(v, high);
	put_be32(v + 4, low);
	hca_bar_write(w->hca, offset, v, sizeof(v));
}

static void raise_vector(void *arg, unsigned int vector)
{
	struct world *w = arg;

	must(vector < PCI_VECTORS);
	w->interrupts++;
}

/* A page that nobody may touch, where the kernel puts the next mapping beside it. */
static void guard(void)
{
	must(mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

static void map(struct world *w, uint64_t addr, uint64_t size, int fd, uint64_t offset,
		bool writable)
{
	guard();
	must(!dma_map(&w->dma, addr, size, fd, offset, writable));
	guard();
}

static void map_all(struct world *w)
{
	static const u8 filler[PAGE] = { 0x5a, 0xa5 };
	const int prot = PROT_READ | PROT_WRITE;
	int fd, ram_fd;

	/* A file each: regions of one file lie side by side, and stay when they are unmapped. */
	ram_fd = memfd_create("ram", MFD_CLOEXEC);
	more_fd = memfd_create("more", MFD_CLOEXEC);
	fd = memfd_create("read", MFD_CLOEXEC);
	must(ram_fd >= 0 && !ftruncate(ram_fd, RAM_SIZE));
	must(more_fd >= 0 && !ftruncate(more_fd, RAM_MORE_SIZE));
	must(fd >= 0 && write(fd, filler, PAGE) == PAGE);
	ram = mmap(NULL, RAM_SIZE + RAM_MORE_SIZE, prot, MAP_SHARED, ram_fd, 0);
	must(ram != MAP_FAILED);
	must(mmap(ram + RAM_SIZE, RAM_MORE_SIZE, prot, MAP_SHARED | MAP_FIXED, more_fd, 0) !=
	     MAP_FAILED);
	map(w, RAM, RAM_SIZE, ram_fd, 0, true);
	must(!dma_map(&w->direct, RAM, RAM_SIZE, ram_fd, 0, true));
	close(ram_fd);
	map(w, RAM_MORE, RAM_MORE_SIZE, more_fd, 0, true);
	map(w, RAM_READ, PAGE, fd, 0, false);
	map(w, RAM_NOWHERE, PAGE, -1, 0, true);
	close(fd);
}

void world_remap(struct world *w)
{
	size_t len = 1;

	if (dma_run(&w->dma, RAM_MORE, &len, true))
		must(!dma_unmap(&w->dma, RAM_MORE, RAM_MORE_SIZE));
	else
		must(!dma_map(&w->dma, RAM_MORE, RAM_MORE_SIZE, more_fd, 0, true));
}

/* What says things once, and what is only read up to a count that is 0, does not matter. */
static void forget_the_harmless(struct hca *hca)
{
	memset(hca->cmdif->unknown, 0, sizeof(hca->cmdif->unknown));
	memset(hca->pages, 0, sizeof(hca->pages));
	memset(hca->bar->later, 0, sizeof(hca->bar->later));
	hca->port.unknown_reg = 0;
	memset(&hca->stats, 0, sizeof(hca->stats));
}

/*
 * The client.  What the guest does meanwhile depends on nothing but how often it was asked,
 * so that an input does the same each time.
 */
static int client(void *arg, uint64_t addr, void *data, size_t len, bool write)
{
	static u8 nowhere[PAGE];
	struct world *w = arg;
	unsigned int n = w->questions++;

	must(len && len <= DMA_ASK_MAX && w->dma.asking);
	bar_put64(w, HCA_UAR_FIRST * HCA_PAGE + 0x800, 0, (HCA_QP_FIRST + n % 16) << 8);
	bar_put64(w, HCA_UAR_FIRST * HCA_PAGE + 0x20, 0x10000000 * (n % 4), 1 + n % 2);
	bar_put32(w, HCA_UAR_FIRST * HCA_PAGE + 0x40, 1 << 24);
	bar_put32(w, 0x18, 1u << n % 32);
	bar_put32(w, HCA_MEMIC_START, n);
	if (n % 8 == 7)
		world_remap(w);
	if (addr < RAM_NOWHERE || addr - RAM_NOWHERE > PAGE || len > PAGE - (addr - RAM_NOWHERE))
		return -EFAULT;
	memcpy(write ? nowhere + (addr - RAM_NOWHERE) : data,
	       write ? data : nowhere + (addr - RAM_NOWHERE), len);
	if (n % 16 == 15)
		return -EFAULT;
	return 0;
}

static void make(struct world *w)
{
	FILE *log = fopen("/dev/null", "we");

	must(log);
	setvbuf(log, NULL, _IOFBF, 1 << 16);
	trace_to(log, false);
	signal(SIGPIPE, SIG_IGN);
	clock_reset();
	map_all(w);
	w->loop = loop_new();
	must(w->loop);
	w->dma.ask = client;
	w->dma.ask_arg = w;
	w->hca = hca_new(w->loop, &w->dma, GUID);
	must(w->hca);
	direct_init(w->hca, &w->direct);
	w->hca->raise = raise_vector;
	w->hca->raise_arg = w;
	must(hca_plug(w->hca, NULL, NULL));
	world_end(w);
	forget_the_harmless(w->hca);
	memcpy(&as_new, w->hca, sizeof(as_new));
	memcpy(&cmdif_as_new, w->hca->cmdif, sizeof(cmdif_as_new));
	memcpy(&bar_as_new, w->hca->bar, sizeof(bar_as_new));
}

struct world *world_get(void)
{
	if (!the_world.hca)
		make(&the_world);
	return &the_world;
}

void world_begin(struct world *w)
{
	size_t len = 1;

	memset(ram, 0, RAM_SIZE + RAM_MORE_SIZE);
	if (!dma_run(&w->dma, RAM_MORE, &len, true))
		world_remap(w);
	w->questions = 0;
	clock_reset();
	loop_turn(w->loop);
}

void world_turns(struct world *w, unsigned int n)
{
	while (n--)
		loop_turn(w->loop);
}

static void same(const char *what, const void *now, const void *new, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (((const u8 *)now)[i] != ((const u8 *)new)[i]) {
			fprintf(stderr, "byte %zu of %s\n", i, what);
			broken("a reset makes the device as new", __FILE__, __LINE__);
		}
	}
}

void world_end(struct world *w)
{
	struct hca *hca = w->hca;

	tracing = false;
	hca_reset(hca);
	must(wire_is_empty(hca->link));
	/* Work of the link that finds nothing to do. */
	world_turns(w, 4);
	must(loop_is_empty(w->loop));
	must(!hca->memory);
	if (!as_new.loop)
		return;
	wire_rejoin(hca->link);
	forget_the_harmless(hca);
	same("struct hca", hca, &as_new, sizeof(as_new));
	same("struct cmdif", hca->cmdif, &cmdif_as_new, sizeof(cmdif_as_new));
	same("struct bar", hca->bar, &bar_as_new, sizeof(bar_as_new));
}
