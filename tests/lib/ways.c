// SPDX-License-Identifier: GPL-2.0-or-later
/* See ways.h. */
#include "lib/ways.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/device.h"
#include "lib/pattern.h"
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIZE WAYS_SIZE
#define SOME 20		/* writes, and then the traffic runs */

struct ibv_mr *ways_reg_part(struct ways *w, uint64_t offset, uint64_t length, uint64_t iova,
			     int access)
{
	return mlx5dv_reg_dmabuf_mr(w->pair.pd, offset, length, iova, w->buf.fd, access,
				    MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT);
}

struct ibv_mr *ways_reg(struct ways *w)
{
	return ways_reg_part(w, 0, SIZE, IOVA, RWA);
}

void ways_open(struct ways *w)
{
	w->ctx = device_open();
	pair_open(&w->pair, w->ctx, NULL);
	second_find(&w->second, w->ctx);
	memory_open_filled(&w->buf, VGEM, SIZE, 1);
	memory_open_filled(&w->plain, UDMABUF, SIZE, 2);
	memory_open_filled(&w->host, HOST, SIZE, 3);
	w->mr = must(ways_reg(w));
	w->plain_mr = must(ibv_reg_dmabuf_mr(w->pair.pd, 0, SIZE, IOVA, w->plain.fd, RWA));
	w->host_mr = memory_reg(&w->host, w->pair.pd, RWA);
}

void ways_close(struct ways *w)
{
	mr_close(w->mr);
	mr_close(w->plain_mr);
	mr_close(w->host_mr);
	mr_close(w->writer.host_mr);
	pair_close(&w->writer.pair);
	pair_close(&w->pair);
	device_close(w->ctx);
	memory_close(&w->buf);
	memory_close(&w->plain);
	memory_close(&w->host);
	memory_close(&w->writer.host);
}

enum ibv_wc_status ways_op(struct ways *w, enum ibv_wr_opcode opcode, struct ibv_mr *local,
			   const struct memory *from, struct ibv_mr *remote,
			   const struct memory *to)
{
	enum ibv_wc_status status = rdma_op(&w->pair, opcode, local, from->iova, SIZE, to->iova,
					    remote->rkey);

	if (status)
		pair_connect(&w->pair, IBV_MTU_1024);
	return status;
}

bool ways_carry(struct ways *w, struct ibv_mr *mr, struct memory *m, uint32_t seed)
{
	fill(w->host.cpu, SIZE, seed);
	if (ways_op(w, IBV_WR_RDMA_WRITE, w->host_mr, &w->host, mr, m) ||
	    !filled(m->cpu, SIZE, seed, "written"))
		return false;
	memset(w->host.cpu, 0, SIZE);
	return !ways_op(w, IBV_WR_RDMA_READ, w->host_mr, &w->host, mr, m) &&
	       filled(w->host.cpu, SIZE, seed, "read");
}

bool ways_refused(struct ways *w)
{
	/* Each has bytes that the others do not have, or nobody would see them move. */
	fill(w->host.cpu, SIZE, 1001);
	fill(w->buf.cpu, SIZE, 1002);
	memory_mark(&w->host);
	memory_mark(&w->buf);
	memory_mark(&w->plain);
	return ways_op(w, IBV_WR_RDMA_WRITE, w->host_mr, &w->host, w->mr, &w->buf) ==
		       IBV_WC_REM_ACCESS_ERR &&
	       ways_op(w, IBV_WR_RDMA_READ, w->host_mr, &w->host, w->mr, &w->buf) ==
		       IBV_WC_REM_ACCESS_ERR &&
	       ways_op(w, IBV_WR_RDMA_WRITE, w->mr, &w->buf, w->plain_mr, &w->plain) ==
		       IBV_WC_LOC_PROT_ERR &&
	       memory_untouched(&w->host) && memory_untouched(&w->buf) &&
	       memory_untouched(&w->plain);
}

/* The same bytes each time: see ways_mark(). */
static void *write_on(void *arg)
{
	struct ways *w = arg;

	while (!(w->writer.status = rdma_op(&w->writer.pair, IBV_WR_RDMA_WRITE, w->writer.host_mr,
					    w->writer.host.iova, SIZE, IOVA, w->writer.rkey)))
		w->writer.writes++;
	return NULL;
}

void ways_begin_writing(struct ways *w)
{
	double end = deadline(60);

	pair_open_in(&w->writer.pair, w->pair.pd);
	memory_open_filled(&w->writer.host, HOST, SIZE, 4);
	w->writer.host_mr = memory_reg(&w->writer.host, w->pair.pd, RWA);
	w->writer.rkey = w->mr->rkey;
	if (pthread_create(&w->writer.thread, NULL, write_on, w))
		fail_case("create a thread");
	while (w->writer.writes < SOME && now() < end)
		usleep(1000);
	errno = 0;
	if (w->writer.writes < SOME)
		fail_case("no traffic");
}

void ways_mark(struct ways *w)
{
	fill(w->buf.cpu, SIZE, 1003);
	memory_mark(&w->buf);
}

enum ibv_wc_status ways_end_writing(struct ways *w)
{
	if (pthread_join(w->writer.thread, NULL))
		fail_case("join a thread");
	printf("# %lu writes\n", w->writer.writes);
	return w->writer.status;
}
