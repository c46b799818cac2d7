// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What an RDMA write costs against its size, by the memory at both its ends: ordinary
 * memory, a dma-buf in system memory, one in I/O memory (VRAM); and what an application
 * does without registration by fd: it copies the buffer to ordinary memory, sends it from
 * there to ordinary memory, and copies it out (a bounce).
 *
 * Ordinary memory is measured twice: the difference shows the error of the measurement.
 *
 * "bandwidth" is the time of each of many writes, of which up to WINDOW are under way, and
 * some may be copied while others are sent.  "latency" is the time of a single write until
 * its completion.  The ratio is relative to ordinary memory; that of a bounce is relative to
 * the same memory without a bounce.
 */
#include "bench/samples.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include <string.h>
#include <sched.h>

#define LARGEST (4ul << 20)
#define WINDOW 8

/* A buffer whose first half is written to its second half. */
struct way {
	const char *name;
	enum memory_kind kind;
	const struct way *bounced;	/* copy from and to the buffer of this one */
	struct memory at;
	struct ibv_mr *mr;
	struct samples took;
};

static struct way ways[] = {
	{ .name = "memory", .kind = HOST },
	{ .name = "dma-buf", .kind = HEAP },
	{ .name = "VRAM", .kind = QXL },
	{ .name = "memory again", .kind = HOST },
	{ .name = "dma-buf bounced", .kind = HOST, .bounced = &ways[1] },
	{ .name = "VRAM bounced", .kind = HOST, .bounced = &ways[2] },
};
#define NR_WAYS (sizeof(ways) / sizeof(*ways))

static void way_open(struct way *way, struct ibv_pd *pd)
{
	memory_open_filled(&way->at, way->kind, 2 * LARGEST * (way->bounced ? WINDOW : 1), 1);
	way->mr = memory_reg(&way->at, pd, WRITE_ACCESS);
}

static void way_close(struct way *way)
{
	mr_close(way->mr);
	memory_close(&way->at);
}

/* In a bounce each write that is under way has a separate part of the buffer. */
static size_t slot(const struct way *way, int n, size_t bytes)
{
	return way->bounced ? n % WINDOW * bytes : 0;
}

static void post(struct pair *p, struct way *way, size_t offset, size_t bytes)
{
	uint64_t from = way->at.iova, to = from + way->at.size / 2;
	struct ibv_sge sge = { .addr = from + offset, .length = bytes, .lkey = way->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = to + offset, .rkey = way->mr->rkey },
	}, *bad;

	if (way->bounced)
		memcpy(way->at.cpu + offset, way->bounced->at.cpu, bytes);
	if (ibv_post_send(p->qp[0], &wr, &bad))
		fail_case("post");
}

static void arrive(struct pair *p, struct way *way, size_t offset, size_t bytes)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(p->cq, 1, &wc)))
		sched_yield();	/* with one CPU, let the device work */
	if (n < 0 || wc.status)
		fail_case("a write fails: %s", n < 0 ? "poll" : ibv_wc_status_str(wc.status));
	if (way->bounced)
		memcpy(way->bounced->at.cpu + LARGEST, way->at.cpu + way->at.size / 2 + offset,
		       bytes);
}

/* COUNT writes, DEPTH of them at once; sample the time of one. */
static void run(struct pair *p, struct way *way, size_t bytes, int count, int depth)
{
	double began = now();

	for (int posted = 0, done = 0; done < count; done++) {
		for (; posted < count && posted < done + depth; posted++)
			post(p, way, slot(way, posted, bytes), bytes);
		arrive(p, way, slot(way, done, bytes), bytes);
	}
	sample(&way->took, began, count);
}

static int between(int least, int n, int most)
{
	return n < least ? least : n > most ? most : n;
}

static void compare(struct pair *p, const char *operation, size_t bytes, int count, int depth)
{
	int runs = bytes > 64 << 10 ? 11 : 31;
	double us[NR_WAYS];

	for (int i = 0; i < NR_WAYS; i++)
		ways[i].took.n = 0;
	for (int n = 0; n < runs; n++)
		for (int i = 0; i < NR_WAYS; i++)
			run(p, &ways[i], bytes, count, depth);
	for (int i = 0; i < NR_WAYS; i++) {
		us[i] = median(&ways[i].took);
		bench_result(operation, ways[i].name, bytes, &ways[i].took,
			     ways[i].bounced ? us[ways[i].bounced - ways] : us[0]);
	}
}

int main(void)
{
	static const size_t sizes[] = { 8, 64, 512, 4 << 10, 16 << 10, 64 << 10, 256 << 10,
					1 << 20, LARGEST };
	struct ibv_context *ctx = device_open();
	struct pair pair;

	pair_open_mtu(&pair, ctx, NULL, IBV_MTU_4096);
	for (int i = 0; i < NR_WAYS; i++)
		way_open(&ways[i], pair.pd);
	bench_heading();
	for (int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		compare(&pair, "bandwidth", sizes[i], between(WINDOW, (4 << 20) / sizes[i], 64),
			WINDOW);
		compare(&pair, "latency", sizes[i], between(2, (1 << 20) / sizes[i], 16), 1);
	}
	for (int i = 0; i < NR_WAYS; i++)
		way_close(&ways[i]);
	pair_close(&pair);
	return 0;
}
