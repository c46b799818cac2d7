// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What it costs that a GPU moves its buffers, on a device that follows them, and what
 * peer-to-peer saves.  Soft-RoCE does not follow, so this is for the ConnectX model.
 *
 * "write after reg" and "write after move" are an RDMA write of 8 bytes until its
 * completion, the first after the buffer was registered, and the first after it moved: then
 * the mkey has no pages, and the device page-faults.  "warm write" is the second one after
 * the registration.  The memory is where the buffer is at that time, and the ratio is
 * relative to the warm write.
 *
 * "move" is a move to that memory, until the bytes are there: of a buffer without an MR,
 * and "move with MR" of one with an MR that has its pages, which the driver has to take out
 * of the mkey.  The ratio is relative to the move without an MR.
 *
 * "write" is the time of each of many writes of 1 MiB from ordinary memory, of which up to
 * WINDOW are under way: to ordinary memory, peer to peer into VRAM, and, as an application
 * does without peer-to-peer, to ordinary memory from where the CPU copies them into VRAM.
 * The ratio is relative to ordinary memory; that of the bounce is relative to peer to peer.
 */
#include "bench/samples.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/device.h"
#include "lib/gpu.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <poll.h>
#include <sched.h>
#include <string.h>

#define BLOCK (1ul << 20)
#define WINDOW 4
#define BLOCKS 16	/* in a run */
#define RATE_RUNS 21

static struct pair pair;
static struct memory host;	/* where all writes come from */
static struct ibv_mr *host_mr;

static void post_write(size_t from, size_t bytes, uint64_t to, uint32_t rkey)
{
	struct ibv_sge sge = { .addr = host.iova + from, .length = bytes,
			       .lkey = host_mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = to, .rkey = rkey },
	}, *bad;

	errno = ibv_post_send(pair.qp[0], &wr, &bad);
	if (errno)
		fail_case("post");
}

static void arrive(void)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(pair.cq, 1, &wc)))
		sched_yield();
	if (n < 0 || wc.status)
		fail_case("a write fails: %s", n < 0 ? "poll" : ibv_wc_status_str(wc.status));
}

/* --- the first write, and moves */

enum { WARM, REGISTERED, MOVED, MOVE, MOVE_MR, NR_OPS };
static const struct {
	const char *name;
	int relative_to;
} operations[NR_OPS] = {
	[WARM] = { "warm write", WARM },
	[REGISTERED] = { "write after reg", WARM },
	[MOVED] = { "write after move", WARM },
	[MOVE] = { "move", MOVE },
	[MOVE_MR] = { "move with MR", MOVE },
};

static const struct {
	uint32_t place;
	const char *name;
} places[] = { { MRFD_GPU_VRAM, "VRAM" }, { MRFD_GPU_SYSTEM, "GPU system" } };

static struct samples took[2][NR_OPS];

/* A write of 8 bytes, and whether it arrived in the buffer, which is at that place. */
static void touch(const struct memory *m, struct ibv_mr *mr, int op, int place)
{
	static uint64_t value;
	struct mrfd_gpu_query q;
	double began;

	*(uint64_t *)host.cpu = ++value;
	began = now();
	post_write(0, sizeof(value), m->iova, mr->rkey);
	arrive();
	sample(&took[place][op], began, 1);
	q = gpu_query(m);
	if (*(volatile uint64_t *)m->cpu != value || q.place != places[place].place ||
	    q.peers != 1 || q.maps != 1)
		fail_case("%s: a write does not go to %s", operations[op].name,
			  places[place].name);
}

/* Until the GPU's copy has ended. */
static void move(const struct memory *m, int op, int place)
{
	struct pollfd done = { .fd = m->fd, .events = POLLIN };
	double began = now();

	errno = gpu_move(m, places[place].place, 0);
	if (errno || poll(&done, 1, 60000) != 1 || !(done.revents & POLLIN))
		fail_case("a move to %s", places[place].name);
	sample(&took[place][op], began, 1);
}

/* Register, write, write again, move, write; then moves without an MR, there and back. */
static void run(const struct memory *m, int place)
{
	struct ibv_mr *mr = memory_reg(m, pair.pd, WRITE_ACCESS);

	touch(m, mr, REGISTERED, place);
	touch(m, mr, WARM, place);
	move(m, MOVE_MR, !place);
	if (gpu_query(m).maps)
		fail_case("the MR keeps the pages of a buffer that has moved");
	touch(m, mr, MOVED, !place);
	mr_close(mr);
	move(m, MOVE, place);
	move(m, MOVE, !place);
}

static void compare_moves(size_t bytes, int runs)
{
	struct memory m;

	memset(took, 0, sizeof(took));
	gpu_open(&m, GPU_VRAM, bytes, 0);
	fill(m.cpu, bytes, 1);
	for (int n = 0; n < runs; n++)
		run(&m, n % 2);
	memory_close(&m);
	for (int op = 0; op < NR_OPS; op++)
		for (int place = 0; place < 2; place++)
			bench_result(operations[op].name, places[place].name, bytes,
				     &took[place][op],
				     median(&took[place][operations[op].relative_to]));
}

/* --- the rate of writes */

static struct way {
	const char *name;
	enum memory_kind kind;
	struct way *bounced;	/* whose buffer the CPU copies to */
	struct memory at;
	struct ibv_mr *mr;
	struct samples took;
} ways[] = {
	{ .name = "memory", .kind = HOST },
	{ .name = "VRAM", .kind = GPU_VRAM },
	{ .name = "VRAM bounced", .kind = HOST, .bounced = &ways[1] },
};
#define NR_WAYS (sizeof(ways) / sizeof(*ways))

static void write_blocks(struct way *way, uint32_t seed)
{
	struct memory *end = way->bounced ? &way->bounced->at : &way->at;
	double began;

	fill(host.cpu, host.size, seed);
	began = now();
	for (int posted = 0, done = 0; done < BLOCKS; done++) {
		for (; posted < BLOCKS && posted < done + WINDOW; posted++) {
			size_t at = posted % WINDOW * BLOCK;

			post_write(at, BLOCK, way->at.iova + at, way->mr->rkey);
		}
		arrive();
		if (way->bounced)
			memcpy(end->cpu + done % WINDOW * BLOCK,
			       way->at.cpu + done % WINDOW * BLOCK, BLOCK);
	}
	sample(&way->took, began, BLOCKS);
	if (!filled(end->cpu, end->size, seed, way->name))
		fail_case("the blocks do not arrive");
	if (end->kind == GPU_VRAM && gpu_query(end).place != MRFD_GPU_VRAM)
		fail_case("the buffer has left VRAM");
}

static void compare_rates(void)
{
	for (int i = 0; i < NR_WAYS; i++) {
		memory_open(&ways[i].at, ways[i].kind, WINDOW * BLOCK);
		fill(ways[i].at.cpu, ways[i].at.size, 0);
		ways[i].mr = memory_reg(&ways[i].at, pair.pd, WRITE_ACCESS);
	}
	for (int n = 0; n < RATE_RUNS; n++)
		for (int i = 0; i < NR_WAYS; i++)
			write_blocks(&ways[i], 1 + n * NR_WAYS + i);
	for (int i = 0; i < NR_WAYS; i++) {
		struct way *of = ways[i].bounced ? ways[i].bounced : &ways[0];

		bench_result("write", ways[i].name, BLOCK, &ways[i].took, median(&of->took));
	}
	for (int i = 0; i < NR_WAYS; i++) {
		mr_close(ways[i].mr);
		memory_close(&ways[i].at);
	}
}

int main(void)
{
	/* An even number of runs: half of them begin in VRAM. */
	static const struct { size_t bytes; int runs; } sizes[] = {
		{ 4 << 10, 50 }, { 64 << 10, 50 }, { 1 << 20, 50 },
	};
	struct ibv_context *ctx = device_open();

	pair_open_mtu(&pair, ctx, NULL, IBV_MTU_4096);
	memory_open(&host, HOST, WINDOW * BLOCK);
	host_mr = memory_reg(&host, pair.pd, WRITE_ACCESS);
	bench_heading();
	for (int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		compare_moves(sizes[i].bytes, sizes[i].runs);
	compare_rates();
	mr_close(host_mr);
	memory_close(&host);
	pair_close(&pair);
	return 0;
}
