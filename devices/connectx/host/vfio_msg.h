/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What vfio_user.c, which reads and writes the stream, and vfio_msg.c, which knows what
 * each message means, share; nobody else includes it.
 */
#ifndef CONNECTX_VFIO_MSG_H
#define CONNECTX_VFIO_MSG_H

#include "vfio_user.h"
#include <errno.h>
#include <stdbool.h>

#define MAX_DATA 4096		/* of one read or write: all of the configuration space */
#define MAX_MESSAGE 8192	/* a REGION_WRITE_MULTI of QEMU has 4824 bytes */
#define MAX_FDS 16		/* in a message; QEMU refuses a server that says more */
#define ASK_MS 5000		/* for QEMU to answer; it waits as long for us */

struct header {
	uint16_t id, command;
	uint32_t size, flags, error;
};

struct access_msg {
	uint64_t offset;
	uint32_t region, count;
};

/* vfu_ask(): what QEMU is asked for, and how far that is. */
struct asked {
	enum { ASK_NOTHING, ASK_BEGUN, ASK_SENT, ASK_DONE, ASK_REFUSED } state;
	uint16_t id;
	uint64_t addr;
	void *data;
	size_t len;
	bool write;
	unsigned int forsaken;		/* nobody waits for these any more; they may be carried out */
	unsigned int ms;		/* how long it may take */
};

struct vfu {
	struct loop *loop;
	struct dma *dma;
	const struct vfu_ops *ops;
	void *arg;
	struct vfu *other;		/* of the card's other function, or NULL */
	int fd;				/* -1: the connection is over */
	bool versioned;
	bool handling;			/* a message */
	struct asked ask;
	struct work again;		/* messages in rx[] behind an answer */

	int eventfd[VFU_VECTORS_MAX];
	uint64_t pending;
	bool held;

	/* Received, and handled of that.  AT: position in the stream of rx[rx_done]. */
	uint8_t rx[2 * MAX_MESSAGE];
	size_t rx_len, rx_done;
	uint64_t at;
	/* Descriptors, and the position of the last byte that came with them. */
	struct { int fd; uint64_t pos; } in[2 * MAX_FDS];
	unsigned int ins;

	uint8_t tx[sizeof(struct header) + sizeof(struct access_msg) + MAX_DATA];
	size_t tx_len, tx_sent;
};

/* A message that is handled: what came, and the reply. */
struct request {
	const uint8_t *body;
	size_t len;
	int *fd;		/* a handler that keeps one leaves -1 */
	unsigned int fds;
	uint8_t *out;
	size_t out_len;
};

/*
 * Carry out a message.  0 and the reply's body in R->out, or the -errno of a request that
 * is refused; MALFORMED if its length does not fit what it says.
 */
int vfu_message(struct vfu *v, unsigned int command, struct request *r);
#define MALFORMED (-EPROTO)
const char *vfu_message_name(unsigned int command);
enum { MSG_VERSION = 1, MSG_DMA_READ = 11, MSG_DMA_WRITE = 12 };
/* Give the vectors back their state at the start: no eventfd. */
void vfu_drop_vectors(struct vfu *v);

#endif
