// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * staging - outgoing messages are put together in device memory
 *
 *	staging serve PEERS PATH	receives a file from each, into PATH.1, PATH.2 and so on
 *	staging HOST FILE		sends a file
 *
 * A device that sends from ordinary memory reads it over the bus first, and waits for the
 * answer.  Here the CPU writes each message into device memory, which it need not wait for,
 * and the device has it when it is told to send.  There are several slots: while one message
 * is on its way, the next one is written.
 */
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peers.h"

#define SLOT 4096 /* bytes of a message */
#define SLOTS 4

/* Each peer has a thread. */
struct receiver {
	struct rdma_cm_id *peer;
	pthread_t thread;
	struct ibv_mr *mr;
	char path[4096];
	unsigned char slot[SLOTS][SLOT];
};

static void post(struct receiver *r, int slot)
{
	if (rdma_post_recv(r->peer, NULL, r->slot[slot], SLOT, r->mr))
		err(1, "rdma_post_recv");
}

/* Messages arrive in their order, and so in the order of the slots; an empty one is the last. */
static void *receive(void *arg)
{
	struct receiver *r = arg;
	FILE *file = fopen(r->path, "w");
	uint32_t n;
	int slot;

	if (!file)
		err(1, "%s", r->path);
	for (slot = 0; (n = peers_received(r->peer)); slot = (slot + 1) % SLOTS) {
		if (fwrite(r->slot[slot], n, 1, file) != 1)
			err(1, "%s", r->path);
		post(r, slot);
	}
	if (fclose(file))
		err(1, "%s", r->path);
	return NULL;
}

static void serve(unsigned int peers, const char *path)
{
	struct rdma_cm_id *listener = peers_listen();
	struct receiver *receivers = calloc(peers, sizeof(*receivers)), *r;
	int slot;

	if (!receivers)
		err(1, "memory");
	for (r = receivers; r < receivers + peers; r++) {
		r->peer = peers_next(listener);
		r->mr = rdma_reg_msgs(r->peer, r->slot, sizeof(r->slot));
		if (!r->mr)
			err(1, "cannot register memory");
		for (slot = 0; slot < SLOTS; slot++)
			post(r, slot);
		snprintf(r->path, sizeof(r->path), "%s.%d", path, (int)(r - receivers) + 1);
		peers_accept(r->peer, &(struct offer){ r - receivers + 1, 0 });
		if (pthread_create(&r->thread, NULL, receive, r))
			errx(1, "no thread");
	}
	for (r = receivers; r < receivers + peers; r++) {
		pthread_join(r->thread, NULL);
		rdma_dereg_mr(r->mr);
		peers_wait_for_end(r->peer);
	}
	printf("files=%u\n", peers);
	free(receivers);
	rdma_destroy_ep(listener);
}

static void send_file(const char *host, const char *path)
{
	struct offer offer;
	struct rdma_cm_id *server = peers_connect(host, &offer);
	struct dm_region memory = dm_region_make(server, SLOTS * SLOT, 0);
	FILE *file = fopen(path, "r");
	unsigned char message[SLOT];
	unsigned int under_way = 0, messages = 0;
	size_t n;

	if (!file)
		err(1, "%s", path);
	do {
		uint64_t slot = messages++ % SLOTS * SLOT;

		n = fread(message, 1, SLOT, file);
		/* The message that was here before has arrived when its request is done. */
		for (; under_way >= SLOTS; under_way--)
			peers_sent(server);
		/* Some devices copy words of four bytes only. */
		if (ibv_memcpy_to_dm(memory.dm, slot, message, (n + 3) & ~3ul))
			errx(1, "cannot write to device memory");
		if (rdma_post_send(server, NULL, (void *)slot, n, memory.mr, 0))
			err(1, "rdma_post_send");
		under_way++;
	} while (n);
	for (; under_way; under_way--)
		peers_sent(server);
	printf("number=%u\nmessages=%u\n", offer.number, messages);
	fclose(file);
	dm_region_end(&memory);
	peers_disconnect(server);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "serve"))
		serve(number_of(argv[2], MAX_PEERS), argv[3]);
	else if (argc == 3)
		send_file(argv[1], argv[2]);
	else
		errx(2, "usage: staging serve PEERS PATH, or staging HOST FILE");
	return 0;
}
