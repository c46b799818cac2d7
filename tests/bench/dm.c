// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What device memory costs, beside ordinary memory.
 *
 * "dm write", "dm read" and "dm fetch and add" are the time of one operation of 8 bytes until
 * its completion, with the memory at the remote end.  "dm copy to" and "dm copy from" are a
 * copy by the CPU, by ibv_memcpy_to_dm() and ibv_memcpy_from_dm(); for ordinary memory that is
 * memcpy().  "dm alloc" is ibv_alloc_dm() and ibv_free_dm(), and ordinary memory, which a
 * program has already, is registered and deregistered.  The ratio is relative to ordinary
 * memory.
 */
#include "bench/samples.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/dm.h"
#include "lib/pair.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define RUNS 31
#define OPERATIONS 32		/* in a run */
#define LARGEST (64ul << 10)	/* there are two of this size, and some devices have little */

enum { MEMORY, DEVICE, NR_KINDS };
static const char *const kind_name[NR_KINDS] = { "memory", "device memory" };

static struct ibv_context *ctx;
static struct pair pair;
static struct memory local, remote;
static struct dm dm;
static struct ibv_mr *local_mr, *target[NR_KINDS];

static void tell(const char *operation, size_t bytes, struct samples took[NR_KINDS])
{
	double of = median(&took[MEMORY]);

	for (int kind = 0; kind < NR_KINDS; kind++)
		bench_result(operation, kind_name[kind], bytes, &took[kind], of);
}

/* --- Operations */

static void operate(enum ibv_wr_opcode opcode, int kind)
{
	uint64_t addr = kind == MEMORY ? remote.iova : 0;
	struct ibv_sge sge = { .addr = local.iova, .length = 8, .lkey = local_mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = addr, .rkey = target[kind]->rkey },
	}, *bad;
	struct ibv_wc wc;
	int n;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = target[kind]->rkey;
		wr.wr.atomic.compare_add = 1;
	}
	errno = ibv_post_send(pair.qp[0], &wr, &bad);
	if (errno)
		fail_case("post");
	while (!(n = ibv_poll_cq(pair.cq, 1, &wc)))
		sched_yield();	/* with one CPU, let the device work */
	if (n < 0 || wc.status)
		fail_case("an operation fails: %s", n < 0 ? "poll" : ibv_wc_status_str(wc.status));
}

static void compare_operations(const char *name, enum ibv_wr_opcode opcode)
{
	struct samples took[NR_KINDS] = {};

	for (int run = 0; run < RUNS; run++) {
		for (int kind = 0; kind < NR_KINDS; kind++) {
			double began = now();

			for (int i = 0; i < OPERATIONS; i++)
				operate(opcode, kind);
			sample(&took[kind], began, OPERATIONS);
		}
	}
	tell(name, 8, took);
}

/* --- Copies */

static void copy(int kind, bool from, size_t bytes)
{
	int err = 0;

	if (kind == DEVICE)
		err = from ? ibv_memcpy_from_dm(local.cpu, dm.dm, 0, bytes) :
			     ibv_memcpy_to_dm(dm.dm, 0, local.cpu, bytes);
	else if (from)
		memcpy(local.cpu, remote.cpu, bytes);
	else
		memcpy(remote.cpu, local.cpu, bytes);
	errno = err;
	if (err)
		fail_case("copy");
	__asm__ volatile("" ::: "memory");	/* each copy counts */
}

static void compare_copies(bool from, size_t bytes)
{
	int count = LARGEST / bytes < OPERATIONS ? LARGEST / bytes : OPERATIONS;
	struct samples took[NR_KINDS] = {};

	for (int run = 0; run < RUNS; run++) {
		for (int kind = 0; kind < NR_KINDS; kind++) {
			double began = now();

			for (int i = 0; i < count; i++)
				copy(kind, from, bytes);
			sample(&took[kind], began, count);
		}
	}
	tell(from ? "dm copy from" : "dm copy to", bytes, took);
}

/* --- Allocation */

static void compare_allocation(size_t bytes)
{
	struct samples took[NR_KINDS] = {};

	for (int run = 0; run < RUNS; run++) {
		double began = now();
		struct dm one;

		mr_close(must(ibv_reg_mr(pair.pd, remote.cpu, bytes, RWA)));
		sample(&took[MEMORY], began, 1);
		began = now();
		dm_open(&one, ctx, bytes);
		dm_close(&one);
		sample(&took[DEVICE], began, 1);
	}
	tell("dm alloc", bytes, took);
}

int main(void)
{
	static const size_t sizes[] = { 8, 64, 512, 4 << 10, LARGEST };

	ctx = device_open();
	pair_open_mtu(&pair, ctx, NULL, IBV_MTU_4096);
	memory_open_filled(&local, HOST, LARGEST, 1);
	memory_open_filled(&remote, HOST, LARGEST, 2);
	dm_open(&dm, ctx, LARGEST);
	local_mr = memory_reg(&local, pair.pd, RWA);
	target[MEMORY] = memory_reg(&remote, pair.pd, RWA);
	target[DEVICE] = dm_reg(&dm, pair.pd, RWA);
	bench_heading();
	compare_operations("dm write", IBV_WR_RDMA_WRITE);
	compare_operations("dm read", IBV_WR_RDMA_READ);
	compare_operations("dm fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD);
	for (int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (int from = 0; from < 2; from++)
			compare_copies(from, sizes[i]);
	for (int i = 3; i < sizeof(sizes) / sizeof(*sizes); i++)
		compare_allocation(sizes[i]);
	for (int kind = 0; kind < NR_KINDS; kind++)
		mr_close(target[kind]);
	mr_close(local_mr);
	dm_close(&dm);
	memory_close(&local);
	memory_close(&remote);
	pair_close(&pair);
	return 0;
}
