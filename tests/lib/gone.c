// SPDX-License-Identifier: GPL-2.0-or-later
/* See gone.h. */
#include "lib/gone.h"
#include "lib/access.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/device.h"
#include "lib/gpu.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* For a shell that has $device, the path of the PCI function, and $name, its name there. */
static const struct { const char *leave, *come_back; } ways[] = {
	[REMOVED] = { "echo 1 >$device/remove", "echo 1 >/sys/bus/pci/rescan" },
	[UNBOUND] = { "echo $name >/sys/bus/pci/drivers/mlx5_core/unbind",
		      "echo $name >/sys/bus/pci/drivers/mlx5_core/bind" },
	[UNLOADED] = { "rmmod mlx5_ib mlx5_core", "modprobe mlx5_ib" },
};

/* After a rescan IPoIB takes a moment to make its network device. */
#define GET_READY "for try in 1 2 3 4 5 6 7 8 9 10; do " \
		  "! /mrfd/kit/guest/ipoib $MRFD_NETDEV || exit 0; sleep 0.5; done; exit 1"

static bool shell(const char *path, const char *command)
{
	char line[PATH_MAX + 256];

	snprintf(line, sizeof(line), "set -e; device=%s; name=${device##*/}; %s", path, command);
	return !system(line);
}

void device_is_to_leave(struct gone *g)
{
	char link[256];

	snprintf(link, sizeof(link), "/sys/class/infiniband/%s/device", device_name());
	if (!realpath(link, g->path)) {
		*g->path = '\0';
		fail_case("%s", link);
	}
}

bool device_leaves(struct gone *g, enum way way)
{
	double end = deadline(20);

	if (!*g->path)
		device_is_to_leave(g);
	g->way = way;
	if (!shell(g->path, ways[way].leave))
		return false;
	while (device_exists() && now() < end)
		usleep(10000);
	return !device_exists();
}

bool device_comes_back(struct gone *g)
{
	double end = deadline(20);
	bool well = shell(g->path, ways[g->way].come_back);

	while (!device_exists() && now() < end)
		usleep(10000);
	well = well && shell(g->path, GET_READY) && device_gets_ready();
	*g->path = '\0';
	return well;
}

void fails_with(int err, int expected, const char *verb)
{
	errno = err;
	if (err != expected)
		fail_case("%s must fail with %s%s", verb, strerror(expected),
			  err ? ", not with" : ", but succeeded");
}

void end_calls_fail(struct end *e)
{
	for (struct lane *l = e->lane; l < e->lane + e->lanes; l++) {
		fails_with(memory_reg_errno(&l->buf, e->pd), EIO, "reg");
		fails_with(memory_rereg(l->mr, TRANS, NULL, &l->buf, 0) ? errno : 0, EIO, "rereg");
		mr_close(l->mr);
	}
}

void end_memory_is_free(struct end *e)
{
	for (struct lane *l = e->lane; l < e->lane + e->lanes; l++) {
		bool of_gpu = l->buf.kind == GPU_VRAM || l->buf.kind == GPU_SYSTEM;

		if (of_gpu && !gpu_at_rest(&l->buf))
			fail_case("a buffer is still held after its device left");
		if (of_gpu && ((errno = gpu_move(&l->buf, MRFD_GPU_SYSTEM, 0)) ||
			       (errno = gpu_move(&l->buf, MRFD_GPU_VRAM, 0))))
			fail_case("move a buffer of the GPU");
		if (!lane_is_whole(e, l))
			fail_case("a buffer has not the bytes that were written to it");
	}
}

/* Written, read back, and compared. */
static bool memory_works(struct ibv_context *ctx, const struct memory *m, uint32_t seed)
{
	struct memory host;
	struct ibv_mr *mr, *host_mr;
	struct pair pair;
	bool well;

	pair_open(&pair, ctx, NULL);
	memory_open(&host, HOST, m->size);
	host_mr = memory_reg(&host, pair.pd, RWA);
	mr = memory_reg(m, pair.pd, RWA);
	fill(host.cpu, m->size, seed);
	well = !rdma_op(&pair, IBV_WR_RDMA_WRITE, host_mr, host.iova, m->size, m->iova, mr->rkey) &&
	       filled(m->cpu, m->size, seed, "written by RDMA");
	memset(host.cpu, 0, m->size);
	well = well && !rdma_op(&pair, IBV_WR_RDMA_READ, host_mr, host.iova, m->size, m->iova,
				mr->rkey) && filled(host.cpu, m->size, seed, "read by RDMA");
	mr_close(mr);
	mr_close(host_mr);
	memory_close(&host);
	pair_close(&pair);
	return well;
}

void end_memory_works(struct end *e)
{
	struct ibv_context *ctx = device_open();

	errno = 0;
	for (unsigned int i = 0; i < e->lanes; i++)
		if (!memory_works(ctx, &e->lane[i].buf, i))
			fail_case("RDMA to the memory of lane %u in a new context failed", i);
	device_close(ctx);
}
