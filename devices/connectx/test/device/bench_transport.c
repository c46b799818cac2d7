// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a work request and a packet cost in loopback, with all of the real model but the
 * socket to QEMU.  The guest looks at its CQ once for each turn of the works.
 *
 * bench_transport [NAME [COUNT]]: only the row of that name, COUNT work requests, which is
 * what callgrind likes.  Times are of the process, the least of RUNS.
 */
#include "loopback_guest.h"
#include <time.h>

#define RUNS 5

struct row {
	const char *name;
	unsigned int st;
	u8 opcode;
	uint32_t len;
	unsigned int window;		/* work requests at a time */
	unsigned int count;
};

static const struct row rows[] = {
	{ "write-8-alone", MLX5_QPC_ST_RC, MLX5_OPCODE_RDMA_WRITE, 8, 1, 20000 },
	{ "write-8", MLX5_QPC_ST_RC, MLX5_OPCODE_RDMA_WRITE, 8, 64, 100000 },
	{ "write-4k", MLX5_QPC_ST_RC, MLX5_OPCODE_RDMA_WRITE, 4096, 64, 50000 },
	{ "write-64k", MLX5_QPC_ST_RC, MLX5_OPCODE_RDMA_WRITE, 65536, 16, 5000 },
	{ "write-1m", MLX5_QPC_ST_RC, MLX5_OPCODE_RDMA_WRITE, 1 << 20, 4, 400 },
	{ "read-8", MLX5_QPC_ST_RC, MLX5_OPCODE_RDMA_READ, 8, 64, 100000 },
	{ "read-1m", MLX5_QPC_ST_RC, MLX5_OPCODE_RDMA_READ, 1 << 20, 4, 400 },
	{ "atomic", MLX5_QPC_ST_RC, MLX5_OPCODE_ATOMIC_FA, 8, 64, 100000 },
	{ "send-8", MLX5_QPC_ST_RC, MLX5_OPCODE_SEND, 8, 64, 100000 },
	{ "send-64k", MLX5_QPC_ST_RC, MLX5_OPCODE_SEND, 65536, 16, 5000 },
	{ "uc-send-8", MLX5_QPC_ST_UC, MLX5_OPCODE_SEND, 8, 64, 100000 },
	{ "ud-send-2k", MLX5_QPC_ST_UD, MLX5_OPCODE_SEND, 2048, 64, 100000 },
};

static const struct row *row;
static struct work guest;
static unsigned int posted, done, left_recvs, count;

/* Completions of QP 0's sends, and of receives. */
static void poll_cq(void)
{
	const u8 *cqe;

	while ((cqe = next_cqe())) {
		u8 opcode = cqe[63] >> 4;

		must(opcode == MLX5_CQE_REQ || opcode == MLX5_CQE_RESP_SEND,
		     "a completion with an error");
		if (opcode == MLX5_CQE_REQ)
			done++;
		else
			left_recvs--;
	}
}

static void post_send(unsigned int n)
{
	uint16_t at = row->st == MLX5_QPC_ST_UD ? n * 2 : n;
	uint64_t from = (uint64_t)n * row->len % (DATA_SIZE - row->len + 1) & ~7ull;
	u8 *p = send_block(0, at) + 16;

	if (row->st == MLX5_QPC_ST_UD) {
		p = put_av(p, qpn[1], LID);
	} else if (row->opcode != MLX5_OPCODE_SEND) {
		put_be64(p, DATA_SIZE + from);
		put_be32(p + 8, mkey);
		p += 16;
	}
	if (row->opcode == MLX5_OPCODE_ATOMIC_FA) {
		put_be64(p, 1);
		p += 16;
	}
	ring(0, at, put_data(p, row->len, from), row->opcode, 0);
}

static void guest_turn(struct work *w)
{
	poll_cq();
	if (done == count && !left_recvs) {
		loop_stop(loop);
		return;
	}
	/* Sends of UC and UD complete before they arrive, and need their receives until then. */
	for (; posted < count && posted - done < row->window && left_recvs < row->window;
	     posted++) {
		if (row->opcode == MLX5_OPCODE_SEND) {
			post_recv(1, posted, row->len + 40, DATA_SIZE);
			left_recvs++;
		}
		post_send(posted);
	}
	loop_work(loop, w);
}

static uint64_t cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static uint64_t run(void)
{
	uint64_t begin;

	for (int end = 0; end < 2; end++)
		make_qp(end, row->st);
	for (int end = 0; end < 2; end++)
		connect_qp(end);
	posted = done = left_recvs = 0;
	work_init(&guest, guest_turn);
	loop_work(loop, &guest);
	begin = cpu_now();
	loop_run(loop);
	begin = cpu_now() - begin;
	for (int end = 0; end < 2; end++)
		destroy_qp(end);
	return begin;
}

static void bench(unsigned int times)
{
	double packets = (row->len + 4095) / 4096, best = 0;

	for (int i = 0; i < RUNS; i++) {
		double ns;

		count = times ? times : row->count;
		ns = (double)run() / count;
		if (!i || ns < best)
			best = ns;
		if (times)
			break;
	}
	printf("%-14s %9.0f ns a request, %6.0f ns a packet, %6.0f MB/s\n", row->name, best,
	       best / packets, row->len / best * 1000);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	model_up();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row = &rows[i];
		if (argc < 2 || !strcmp(argv[1], row->name))
			bench(argc > 2 ? atoi(argv[2]) : 0);
	}
	model_down();
	return 0;
}
