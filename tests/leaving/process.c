// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp gpu; devices: all */
/* runs: full debug-full; guest: gpu; devices: pinned */
/*
 * A process with MRs of all kinds of memory, under traffic both ways, is killed, exits, closes
 * its context or passes it on: its peer gets errors, nothing is left, and no packet reaches the
 * next owner of the memory.
 *
 * The peer sees that its responder is gone and nothing else.  Memory that was freed belongs
 * to others at once, and no packet may reach it: the cases fill VRAM but for the owner's
 * buffer, wait for that hole, and look at what they put there.  The kernel keeps nothing.
 */
#include "leaving/two.h"
#include "lib/access.h"
#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/device.h"
#include "lib/gpu.h"
#include "lib/gone.h"
#include "lib/harness.h"
#include "lib/pattern.h"
#include "lib/test_exporter.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define CHUNKS 16
#define PAGES_OF_OTHERS (32 << 20)
#define KERNEL_PAGES (4 << 20)
#define ROUNDS 2

/* Memory that others get. */
struct reuse {
	struct memory chunk[CHUNKS], hole;
	unsigned int chunks;
	bool owner_has_vram;	/* Soft-RoCE has its buffers in system memory */
	uint8_t *pages;
	/* The kernel keeps movable pages apart; these are of the other kind, as an exporter's. */
	struct memory kernel_pages;
};

FIXTURE(process)
{
	struct two two;
	struct reuse reuse;
	struct memory gpu;	/* without a buffer, to query the GPU */
	long shmem;
};

static long meminfo(const char *what)
{
	FILE *f = must(fopen("/proc/meminfo", "r"));
	char line[128], name[64];
	long kb, found = -1;

	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%63[^:]: %ld", name, &kb) == 2 && !strcmp(name, what))
			found = kb;
	fclose(f);
	return found;
}

static uint64_t vram_free(const struct memory *gpu)
{
	struct mrfd_gpu_info info = gpu_info(gpu);

	return info.vram_size - info.vram_used;
}

/*
 * Take all VRAM but the owner's; buffers that are ONLY there do not move.  What is free later
 * is then what the owner had.  A PCI function reaches VRAM, so there the owner has some.
 */
static void fill_vram(struct reuse *r, const struct memory *gpu)
{
	errno = 0;
	r->owner_has_vram = gpu_info(gpu).vram_used;
	if (!r->owner_has_vram && device_can("pci"))
		fail_case("the owner has no VRAM");
	for (size_t size = 8 << 20; size >= LANE_SIZE; size /= 2)
		while (vram_free(gpu) >= size && r->chunks < CHUNKS)
			gpu_open(&r->chunk[r->chunks++], GPU_VRAM, size, MRFD_GPU_ONLY);
	if (vram_free(gpu) >= LANE_SIZE)
		fail_case("VRAM is not full");
}

/* Take what the owner has left as soon as it is free, while its teardown goes on. */
static void take_what_is_left(struct reuse *r, const struct memory *gpu)
{
	double end = deadline(20);

	errno = 0;
	while (r->owner_has_vram && vram_free(gpu) < LANE_SIZE)
		if (now() > end)
			fail_case("VRAM is not free again");
	if (r->owner_has_vram) {
		gpu_open(&r->hole, GPU_VRAM, LANE_SIZE, MRFD_GPU_ONLY);
		fill(r->hole.cpu, LANE_SIZE, 77);
	}
	test_exporter_open(&r->kernel_pages, KERNEL_PAGES, 0);
	r->pages = mmap(NULL, PAGES_OF_OTHERS, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->pages == MAP_FAILED)
		fail_case("map memory for others");
	memset(r->pages, 0x5a, PAGES_OF_OTHERS);
}

static bool others_untouched(struct reuse *r)
{
	if (memcmp(r->pages, r->pages + 1, PAGES_OF_OTHERS - 1) || *r->pages != 0x5a) {
		printf("# pages of others were written\n");
		return false;
	}
	if (!memory_is_zero(&r->kernel_pages)) {
		printf("# pages of another exporter were written\n");
		return false;
	}
	return !r->owner_has_vram || filled(r->hole.cpu, LANE_SIZE, 77, "VRAM of others");
}

static void reuse_close(struct reuse *r)
{
	for (unsigned int i = 0; i < r->chunks; i++)
		memory_close(&r->chunk[i]);
	memory_close(&r->hole);
	memory_close(&r->kernel_pages);
	if (r->pages)
		munmap(r->pages, PAGES_OF_OTHERS);
	*r = (struct reuse){};
}

/* The GPU deletes a buffer a little later, when its fences have signaled. */
static bool gpu_is_empty(const struct memory *gpu)
{
	struct mrfd_gpu_info info;
	double end = deadline(10);

	do {
		info = gpu_info(gpu);
		if (!info.buffers && !info.vram_used)
			return true;
		usleep(100000);
	} while (now() < end);
	printf("# left: %u buffers of the GPU, %llu bytes of VRAM\n", info.buffers, info.vram_used);
	return false;
}

/* Of what one owner had in memory files, a half may be something else. */
static bool shmem_is_back(long before)
{
	double end = deadline(10);

	do {
		if (meminfo("Shmem") < before + (long)LANE_SIZE / 1024)
			return true;
		usleep(100000);
	} while (now() < end);
	printf("# left: %ld KiB of memory files\n", meminfo("Shmem") - before);
	return false;
}

FIXTURE_SETUP(process)
{
	need("reg_mr_fd");
	need("memfd");
	ASSERT_TRUE(nothing_left());
	self->gpu.drm_fd = memory_open_card("mrfd_gpu");
	ASSERT_LE(0, self->gpu.drm_fd);
	ASSERT_TRUE(gpu_is_empty(&self->gpu));
	self->shmem = meminfo("Shmem");
}

FIXTURE_TEARDOWN(process)
{
	two_close(&self->two);
	reuse_close(&self->reuse);
	EXPECT_TRUE(nothing_left());
	EXPECT_TRUE(gpu_is_empty(&self->gpu));
	EXPECT_TRUE(shmem_is_back(self->shmem));
	close(self->gpu.drm_fd);
}

/* What was there is gone, and whoever has its memory now is left alone. */
static bool left_well(FIXTURE_DATA(process) *self)
{
	bool well;

	take_what_is_left(&self->reuse, &self->gpu);
	well = two_reap(&self->two, PEER, NULL) == 0 &&
	       two_peer_ended(&self->two, RESPONDER_GONE) && others_untouched(&self->reuse);
	reuse_close(&self->reuse);
	two_close(&self->two);
	return well && nothing_left() && gpu_is_empty(&self->gpu) && shmem_is_back(self->shmem);
}


/* --- What an owner does when it is told to */

static void exits(struct end *e, struct board *board, int sock)
{
	_exit(0);
}

struct registrar {
	struct end *e;
	unsigned int lane;
	volatile unsigned int rounds;
};

/* Registers its lane's memory and reregisters it onto that of the next one, for ever. */
static void *keep_registering(void *arg)
{
	struct registrar *r = arg;
	struct end *e = r->e;
	struct memory *next = &e->lane[(r->lane + 1) % e->lanes].buf;

	for (;; r->rounds++) {
		struct ibv_mr *mr = memory_reg(&e->lane[r->lane].buf, e->pd, RWA);

		if (memory_rereg(mr, TRANS, NULL, next, 0) ||
		    memory_rereg(mr, CHANGE_ACCESS, NULL, next, RW))
			fail_case("reregister an MR");
		mr_close(mr);
	}
	return NULL;
}

static void registers(struct end *e, struct board *board, int sock)
{
	static struct registrar r[MAX_LANES];
	bool all;

	for (unsigned int i = 0; i < e->lanes; i++) {
		pthread_t thread;

		r[i] = (struct registrar){ .e = e, .lane = i };
		if (pthread_create(&thread, NULL, keep_registering, &r[i]))
			fail_case("create a thread");
	}
	while (end_turn(e) && !board->done) {
		all = true;
		for (unsigned int i = 0; i < e->lanes; i++)
			all &= r[i].rounds > 3;
		board->done = all;
	}
	end_run(e, NULL);
}

static void passes_on(struct end *e, struct board *board, int sock)
{
	char control[CMSG_SPACE(sizeof(int))] = {}, byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &e->ctx->cmd_fd, sizeof(int));
	if (sendmsg(sock, &msg, 0) != 1)
		fail_case("pass the context on");
	end_run(e, NULL);
}

/* Soft-RoCE's queues are maps of the context's file, and would keep it open. */
static void let_go_of_queues(struct end *e)
{
	for (unsigned int i = 0; i < e->lanes; i++)
		if (ibv_destroy_qp(e->lane[i].qp))
			fail_case("destroy a QP");
	if (ibv_destroy_cq(e->cq))
		fail_case("destroy a CQ");
}

/* The context is gone and the memory is not: it can be registered again, by a new one. */
static void closes(struct end *e, struct board *board, int sock)
{
	if (device_can("rxe-queues"))
		let_go_of_queues(e);
	device_close(e->ctx);
	errno = 0;
	if (pinned_kb())
		fail_case("%ld KiB are pinned without a context", pinned_kb());
	end_memory_is_free(e);
	end_memory_works(e);
}

/* --- The cases */

TEST_F_TIMEOUT(process, process_killed_under_traffic_leaves_nothing, 240)
{
	for (int i = 0; i < ROUNDS; i++) {
		two_start(&self->two, exits);
		fill_vram(&self->reuse, &self->gpu);
		usleep(random() % 20000);
		ASSERT_EQ(0, kill(self->two.pid[OWNER], SIGKILL));
		ASSERT_TRUE(left_well(self));
	}
}

TEST_F_TIMEOUT(process, exit_under_traffic_leaves_nothing, 120)
{
	two_start(&self->two, exits);
	fill_vram(&self->reuse, &self->gpu);
	two_order(&self->two, 1);
	ASSERT_TRUE(left_well(self));
}

TEST_F_TIMEOUT(process, process_killed_while_registering_leaves_nothing, 240)
{
	need("rereg_mr_fd");
	for (int i = 0; i < ROUNDS; i++) {
		two_start(&self->two, registers);
		fill_vram(&self->reuse, &self->gpu);
		two_order(&self->two, 1);
		two_wait_for(&self->two, 1);
		usleep(random() % 20000);
		ASSERT_EQ(0, kill(self->two.pid[OWNER], SIGKILL));
		ASSERT_TRUE(left_well(self));
	}
}

static int receive_fd(int sock)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int fd;

	if (recvmsg(sock, &msg, 0) != 1 || !CMSG_FIRSTHDR(&msg))
		fail_case("no context was passed on");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/*
 * MRs live as long as their context, which is an open file.  Nobody takes messages any more,
 * so the peer stops to send them first.
 */
TEST_F_TIMEOUT(process, mrs_live_until_a_passed_on_context_is_closed, 120)
{
	int fd, sig;

	two_start(&self->two, passes_on);
	fill_vram(&self->reuse, &self->gpu);
	self->two.board->no_sends = true;
	two_go_on(&self->two, NULL);
	two_order(&self->two, 1);
	fd = receive_fd(self->two.sock);
	ASSERT_EQ(0, kill(self->two.pid[OWNER], SIGKILL));
	two_reap(&self->two, OWNER, &sig);
	ASSERT_EQ(SIGKILL, sig);
	two_go_on(&self->two, NULL);
	ASSERT_EQ(0, close(fd));
	ASSERT_TRUE(left_well(self));
}

TEST_F_TIMEOUT(process, context_close_under_traffic_frees_the_memory, 120)
{
	two_start(&self->two, closes);
	two_order(&self->two, 1);
	ASSERT_EQ(0, two_reap(&self->two, OWNER, NULL));
	ASSERT_EQ(0, two_reap(&self->two, PEER, NULL));
	ASSERT_TRUE(two_peer_ended(&self->two, RESPONDER_GONE));
}

TEST_HARNESS_MAIN
