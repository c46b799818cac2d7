// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * counter - a counter in device memory, which peers read and advance at once
 *
 *	counter serve PEERS	has the counter
 *	counter HOST TICKETS	takes so many tickets, and prints their numbers
 *
 * A ticket is the value that a fetch and add has found.  The device adds in its own memory,
 * one request after the other, so no two peers get the same ticket, and none is left out.
 * The server's CPU does nothing for it; it prints the counter at the end.
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "peers.h"

static void serve(unsigned int peers)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	struct rdma_cm_id *listener = peers_listen(), *peer[MAX_PEERS];
	struct dm_region memory;
	uint64_t counter = 0;
	unsigned int i;

	for (i = 0; i < peers; i++) {
		peer[i] = peers_next(listener);
		if (!i) {
			memory = dm_region_make(peer[0], sizeof(counter), access);
			if (ibv_memcpy_to_dm(memory.dm, 0, &counter, sizeof(counter)))
				errx(1, "cannot write to device memory");
		}
		peers_accept(peer[i], &(struct offer){ i + 1, memory.mr->rkey });
	}
	for (i = 0; i < peers; i++)
		peers_wait_for_end(peer[i]);
	if (ibv_memcpy_from_dm(&counter, memory.dm, 0, sizeof(counter)))
		errx(1, "cannot read from device memory");
	printf("counter=%" PRIu64 "\n", counter);
	dm_region_end(&memory);
	rdma_destroy_ep(listener);
}

static void take(const char *host, unsigned int tickets)
{
	struct offer offer;
	struct rdma_cm_id *server = peers_connect(host, &offer);
	uint64_t ticket;
	struct ibv_mr *mr = ibv_reg_mr(server->pd, &ticket, sizeof(ticket), IBV_ACCESS_LOCAL_WRITE);
	unsigned int i;

	if (!mr)
		err(1, "cannot register memory");
	for (i = 0; i < tickets; i++) {
		struct ibv_sge sge = { (uintptr_t)&ticket, sizeof(ticket), mr->lkey };
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &sge, .num_sge = 1,
			.wr.atomic = { .remote_addr = 0, .rkey = offer.rkey, .compare_add = 1 },
		};

		peers_do(server, &wr);
		printf("ticket=%" PRIu64 "\n", ticket);
	}
	ibv_dereg_mr(mr);
	peers_disconnect(server);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		errx(2, "usage: counter serve PEERS, or counter HOST TICKETS");
	if (!strcmp(argv[1], "serve"))
		serve(number_of(argv[2], MAX_PEERS));
	else
		take(argv[1], number_of(argv[2], 1000000));
	return 0;
}
