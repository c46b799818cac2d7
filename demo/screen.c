// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * screen - let a peer paint a screen by RDMA
 *
 * Usually a process maps the memory of a screen to write its pixels.  Here no
 * process does: the buffer on the screen is exported as a PRIME fd, registered
 * by that fd, and a peer writes to it.  The steps, in main():
 *
 *	show a dumb buffer		display.c
 *	wait for a painter		librdmacm
 *	register the buffer by its fd	ibv_reg_mr_fd()
 *	send its address and rkey	in the private data of rdma_accept()
 *	wait until it is painted	a receive that an immediate completes
 *	keep the picture		until a line or the end of standard input
 *
 * Results are lines of KEY=VALUE on standard output, for scripts/demo.  Messages
 * for people go to standard error.
 */
#include <arpa/inet.h>
#include <drm_fourcc.h>
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "display.h"
#include "protocol.h"

/* The colour of the screen until it is painted; no picture of ours has it. */
#define BACKGROUND 0x00803060

/*
 * The address of the first byte for a peer.  The memory has no address of its
 * own, so any multiple of the page size will do (the region starts at byte IOVA
 * modulo the page size of the fd).  This one cannot be mistaken for a pointer.
 */
#define IOVA 0x1000000000000000ULL

struct screen {
	struct display display;
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id; /* the connection, with its PD, QP and CQs */
	struct ibv_mr *mr;
};

/* Take the next connection event, which must be WANTED. */
static int next_event(struct screen *s, enum rdma_cm_event_type wanted)
{
	enum rdma_cm_event_type got;
	struct rdma_cm_event *event;
	int status;

	if (rdma_get_cm_event(s->events, &event)) {
		warn("rdma_get_cm_event");
		return -1;
	}
	got = event->event;
	status = event->status;
	if (got == RDMA_CM_EVENT_CONNECT_REQUEST && !s->id)
		s->id = event->id;
	rdma_ack_cm_event(event);
	if (got == wanted && !status)
		return 0;
	warnx("waiting for %s: there is %s, status %d", rdma_event_str(wanted),
	      rdma_event_str(got), status);
	return -1;
}

static int wait_for_painter(struct screen *s)
{
	struct sockaddr_in any = {
		.sin_family = AF_INET,
		.sin_port = htons(atoi(DEMO_PORT)),
	};

	s->events = rdma_create_event_channel();
	if (!s->events) {
		warn("rdma_create_event_channel%s",
		     errno == ENODEV ? " (is there an RDMA device?)" : "");
		return -1;
	}
	if (rdma_create_id(s->events, &s->listener, NULL, RDMA_PS_TCP)) {
		warn("rdma_create_id");
		return -1;
	}
	if (rdma_bind_addr(s->listener, (struct sockaddr *)&any) || rdma_listen(s->listener, 1)) {
		warn("cannot listen on port " DEMO_PORT);
		return -1;
	}
	warnx("waiting for a painter on port " DEMO_PORT);
	if (next_event(s, RDMA_CM_EVENT_CONNECT_REQUEST))
		return -1;
	/* One painter is enough: refuse further ones. */
	rdma_destroy_id(s->listener);
	s->listener = NULL;
	return 0;
}

static const char *why_not_registered(int error)
{
	switch (error) {
	case EOPNOTSUPP:
		return " (this device has no registration by fd: is the kernel patched?)";
	case EACCES:
		return " (the fd is not writable: was it exported without DRM_RDWR?)";
	case EBADFD:
		return " (the fd is open, but it is no dma-buf)";
	case ENXIO:
		return " (the exporter gives the CPU no access, and the device is software)";
	case ERANGE:
		return " (the dma-buf is shorter than that)";
	default:
		return "";
	}
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/*
 * Register the buffer with the device of the connection, which is known only
 * after the painter's request.  The buffer must be on the screen before this:
 * registration pins it where it is, and a card may keep a buffer that is not on
 * the screen in memory that it cannot show.
 */
static int register_buffer(struct screen *s)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct display *d = &s->display;
	uint64_t begin, end;
	int error, fd;

	fd = display_export(d);
	if (fd < 0)
		return -1;

	begin = now_ns();
	s->mr = ibv_reg_mr_fd(s->id->pd, (void *)(uintptr_t)IOVA, d->bytes,
			      IBV_MR_FD_TYPE_DMABUF, fd, access);
	error = errno;
	end = now_ns();
	/* The memory region holds its own reference to the buffer. */
	close(fd);

	if (!s->mr) {
		warnx("cannot register %" PRIu64 " bytes of the screen with %s: %s%s", d->bytes,
		      ibv_get_device_name(s->id->verbs->device), strerror(error),
		      why_not_registered(error));
		return -1;
	}
	printf("driver=%s\nfd_type=dma-buf\ndevice=%s\nbytes=%zu\nregister_ns=%" PRIu64 "\n",
	       d->driver, ibv_get_device_name(s->id->verbs->device), s->mr->length, end - begin);
	return 0;
}

/*
 * Do this before the accept: after it the painter can write at once.  The receive
 * must be posted by then, and the notification requested before the completion.
 */
static int prepare_qp(struct screen *s)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_recv_wr *bad, wr = {}; /* a write with immediate needs no buffer */
	int error;

	/* Without a PD and CQs librdmacm creates them and stores them in id. */
	if (rdma_create_qp(s->id, NULL, &attr)) {
		warn("rdma_create_qp");
		return -1;
	}
	error = ibv_req_notify_cq(s->id->recv_cq, 0);
	if (!error)
		error = ibv_post_recv(s->id->qp, &wr, &bad);
	if (error) {
		warnx("cannot post a receive: %s", strerror(error));
		return -1;
	}
	return 0;
}

static int accept_painter(struct screen *s)
{
	const struct display *d = &s->display;
	struct screen_offer offer = {
		.magic = htobe32(DEMO_MAGIC),
		.format = htobe32(DRM_FORMAT_XRGB8888),
		.width = htobe32(d->width),
		.height = htobe32(d->height),
		.pitch = htobe32(d->pitch),
		.rkey = htobe32(s->mr->rkey),
		.iova = htobe64((uintptr_t)s->mr->addr),
	};
	struct rdma_conn_param param = {
		.private_data = &offer,
		.private_data_len = sizeof(offer),
	};

	if (rdma_accept(s->id, &param)) {
		warn("rdma_accept");
		return -1;
	}
	return next_event(s, RDMA_CM_EVENT_ESTABLISHED);
}

/* Return 1 if the painter has finished, 0 if not yet, -1 if it has failed. */
static int poll_done(struct screen *s)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(s->id->recv_cq, 1, &wc);

	if (n == 0)
		return 0;
	if (n < 0) {
		warnx("ibv_poll_cq failed");
		return -1;
	}
	if (wc.status != IBV_WC_SUCCESS || !(wc.wc_flags & IBV_WC_WITH_IMM)) {
		warnx("the painter did not finish: %s", ibv_wc_status_str(wc.status));
		return -1;
	}
	printf("painted=%u\n", be32toh(wc.imm_data));
	return 1;
}

/*
 * A painter that dies sends no immediate.  So wait for an event of the connection
 * as well as for the completion.
 */
static int wait_until_painted(struct screen *s)
{
	struct pollfd fds[] = {
		{ .fd = s->id->recv_cq_channel->fd, .events = POLLIN },
		{ .fd = s->events->fd, .events = POLLIN },
	};
	struct ibv_cq *cq;
	void *context;
	int done;

	do {
		if (poll(fds, 2, -1) < 0) {
			warn("poll");
			return -1;
		}
		if (fds[0].revents) {
			if (ibv_get_cq_event(s->id->recv_cq_channel, &cq, &context)) {
				warn("ibv_get_cq_event");
				return -1;
			}
			ibv_ack_cq_events(cq, 1);
		}
		done = poll_done(s);
	} while (!done && !fds[1].revents);

	if (!done)
		warnx("the painter went away before it had finished");
	if (done <= 0)
		return -1;

	/* The painter disconnects at the end and waits until we do so too. */
	if (next_event(s, RDMA_CM_EVENT_DISCONNECTED))
		return -1;
	rdma_disconnect(s->id);
	return 0;
}

static void keep_picture(struct screen *s)
{
	int c;

	display_flush(&s->display);
	printf("shown=1\n");
	warnx("the picture is on the screen; press Return to end");
	do
		c = getchar();
	while (c != '\n' && c != EOF);
}

/* Destroy in the reverse order.  What was never created is NULL. */
static int tear_down(struct screen *s, int ret)
{
	int error = s->mr ? ibv_dereg_mr(s->mr) : 0;

	if (error) {
		warnx("ibv_dereg_mr: %s", strerror(error));
		ret = -1;
	}
	/* This rejects a painter that was not accepted yet. */
	if (s->id)
		rdma_destroy_ep(s->id);
	if (s->listener)
		rdma_destroy_id(s->listener);
	if (s->events)
		rdma_destroy_event_channel(s->events);
	display_close(&s->display);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "card", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{},
	};
	struct screen s = {};
	const char *node = NULL;
	int option, ret = -1;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'c') {
			node = optarg;
			continue;
		}
		fprintf(option == 'h' ? stdout : stderr,
			"usage: %s [--card /dev/dri/cardN]\n", argv[0]);
		return option == 'h' ? 0 : 2;
	}
	/* Write each line at once: a program may wait for it. */
	setvbuf(stdout, NULL, _IOLBF, 0);

	if (display_open(&s.display, node))
		return 1;
	if (display_show(&s.display, BACKGROUND) || wait_for_painter(&s) || register_buffer(&s) ||
	    prepare_qp(&s) || accept_painter(&s) || wait_until_painted(&s))
		goto out;
	keep_picture(&s);
	ret = 0;
out:
	return tear_down(&s, ret) ? 1 : 0;
}
