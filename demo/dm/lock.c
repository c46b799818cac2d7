// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lock - a lock in device memory, taken by compare and swap
 *
 *	lock serve PEERS	has the lock, and a counter that it protects
 *	lock HOST ROUNDS	so often takes the lock, adds 1 to the counter, gives the lock back
 *
 * The adding is no atomic operation: a peer reads the counter, adds 1, and writes it back.
 * If two did that at a time, one of the two additions would be lost.  The server prints the
 * counter at the end.
 *
 * The lock is a word: 0, or the number of the peer that has it.  A peer compares it with 0
 * and swaps in its number.  The device does that by itself, in its own memory, so it takes
 * neither the server's CPU nor its bus.  Operations of one queue pair are done in their
 * order: when the lock is free again, the counter has been written.
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "peers.h"

enum { LOCK = 0, COUNTER = 8, BYTES = 16 }; /* addresses in the region */

static void serve(unsigned int peers)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct rdma_cm_id *listener = peers_listen(), *peer[MAX_PEERS];
	const uint64_t zero[BYTES / 8] = {};
	struct dm_region memory;
	uint64_t words[BYTES / 8];
	unsigned int i;

	for (i = 0; i < peers; i++) {
		peer[i] = peers_next(listener);
		if (!i) {
			memory = dm_region_make(peer[0], BYTES, access);
			if (ibv_memcpy_to_dm(memory.dm, 0, zero, BYTES))
				errx(1, "cannot write to device memory");
		}
		peers_accept(peer[i], &(struct offer){ i + 1, memory.mr->rkey });
	}
	for (i = 0; i < peers; i++)
		peers_wait_for_end(peer[i]);
	if (ibv_memcpy_from_dm(words, memory.dm, 0, BYTES))
		errx(1, "cannot read from device memory");
	printf("lock=%" PRIu64 "\ncounter=%" PRIu64 "\n", words[LOCK / 8], words[COUNTER / 8]);
	dm_region_end(&memory);
	rdma_destroy_ep(listener);
}

/* The peer's own memory, for the word that comes back or is sent. */
struct client {
	struct rdma_cm_id *server;
	struct offer offer;
	uint64_t word;
	struct ibv_mr *mr;
};

/* The word that was there. */
static uint64_t compare_and_swap(struct client *c, uint64_t compare, uint64_t swap)
{
	struct ibv_sge sge = { (uintptr_t)&c->word, 8, c->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .sg_list = &sge, .num_sge = 1,
		.wr.atomic = { .remote_addr = LOCK, .rkey = c->offer.rkey,
			       .compare_add = compare, .swap = swap },
	};

	peers_do(c->server, &wr);
	return c->word;
}

static void move_counter(struct client *c, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { (uintptr_t)&c->word, 8, c->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = { .remote_addr = COUNTER, .rkey = c->offer.rkey },
	};

	peers_do(c->server, &wr);
}

static void work(const char *host, unsigned int rounds)
{
	struct client c = {};
	unsigned long waits = 0;
	unsigned int i;

	c.server = peers_connect(host, &c.offer);
	c.mr = ibv_reg_mr(c.server->pd, &c.word, sizeof(c.word), IBV_ACCESS_LOCAL_WRITE);
	if (!c.mr)
		err(1, "cannot register memory");
	for (i = 0; i < rounds; i++) {
		for (; compare_and_swap(&c, 0, c.offer.number); waits++)
			usleep(100 * (1 + c.offer.number % 4));
		move_counter(&c, IBV_WR_RDMA_READ);
		c.word++;
		move_counter(&c, IBV_WR_RDMA_WRITE);
		if (compare_and_swap(&c, c.offer.number, 0) != c.offer.number)
			errx(1, "somebody else has the lock");
	}
	printf("number=%u\nwaits=%lu\n", c.offer.number, waits);
	ibv_dereg_mr(c.mr);
	peers_disconnect(c.server);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		errx(2, "usage: lock serve PEERS, or lock HOST ROUNDS");
	if (!strcmp(argv[1], "serve"))
		serve(number_of(argv[2], MAX_PEERS));
	else
		work(argv[1], number_of(argv[2], 1000000));
	return 0;
}
