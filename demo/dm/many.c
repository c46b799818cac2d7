// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * many - write to device memory once, send from there to many
 *
 *	many serve PEERS FILE	sends a file to each
 *	many HOST PATH		receives it into PATH
 *
 * Each piece of the file goes over the bus of the server once, however many peers there are:
 * the CPU writes it into device memory, and the same bytes are posted to the queue pair of
 * every peer.  When all have them, the next piece takes their place.
 */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "peers.h"

#define PIECE 16384 /* bytes */
#define SLOTS 4	    /* pieces that a peer can have room for */

static void send_piece(struct rdma_cm_id *peer[], unsigned int peers, struct dm_region *memory,
		       size_t n)
{
	unsigned int i;

	for (i = 0; i < peers; i++)
		if (rdma_post_send(peer[i], NULL, (void *)0, n, memory->mr, 0))
			err(1, "rdma_post_send");
	for (i = 0; i < peers; i++)
		peers_sent(peer[i]);
}

static void serve(unsigned int peers, const char *path)
{
	struct rdma_cm_id *listener = peers_listen(), *peer[MAX_PEERS];
	static unsigned char piece[PIECE];
	FILE *file = fopen(path, "r");
	struct dm_region memory;
	unsigned int i, writes = 0;
	size_t n;

	if (!file)
		err(1, "%s", path);
	for (i = 0; i < peers; i++) {
		peer[i] = peers_next(listener);
		if (!i)
			memory = dm_region_make(peer[0], PIECE, 0);
		peers_accept(peer[i], &(struct offer){ i + 1, 0 });
	}
	do {
		n = fread(piece, 1, PIECE, file);
		/* Some devices copy words of four bytes only. */
		if (ibv_memcpy_to_dm(memory.dm, 0, piece, (n + 3) & ~3ul))
			errx(1, "cannot write to device memory");
		writes++;
		send_piece(peer, peers, &memory, n); /* an empty one is the last */
	} while (n);
	for (i = 0; i < peers; i++)
		peers_disconnect(peer[i]);
	printf("writes=%u\nsends=%u\n", writes, writes * peers);
	fclose(file);
	dm_region_end(&memory);
	rdma_destroy_ep(listener);
}

/*
 * Until the first receive is posted the server's first send is repeated.  The server disconnects,
 * because a peer that has the last message does not know whether the server knows that.
 */
static void receive(const char *host, const char *path)
{
	static unsigned char slot[SLOTS][PIECE];
	struct offer offer;
	struct rdma_cm_id *server = peers_connect(host, &offer);
	struct ibv_mr *mr = rdma_reg_msgs(server, slot, sizeof(slot));
	FILE *file = fopen(path, "w");
	uint32_t n;
	int i;

	if (!file || !mr)
		err(1, "%s", file ? "cannot register memory" : path);
	for (i = 0; i < SLOTS; i++)
		if (rdma_post_recv(server, NULL, slot[i], PIECE, mr))
			err(1, "rdma_post_recv");
	for (i = 0; (n = peers_received(server)); i = (i + 1) % SLOTS) {
		if (fwrite(slot[i], n, 1, file) != 1)
			err(1, "%s", path);
		if (rdma_post_recv(server, NULL, slot[i], PIECE, mr))
			err(1, "rdma_post_recv");
	}
	if (fclose(file))
		err(1, "%s", path);
	printf("number=%u\n", offer.number);
	rdma_dereg_mr(mr);
	peers_wait_for_end(server);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "serve"))
		serve(number_of(argv[2], MAX_PEERS), argv[3]);
	else if (argc == 3)
		receive(argv[1], argv[2]);
	else
		errx(2, "usage: many serve PEERS FILE, or many HOST PATH");
	return 0;
}
