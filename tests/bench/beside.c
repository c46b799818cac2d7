// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The same work on several RDMA devices of a guest, in turn: bench/beside DEVICE...
 *
 * "write" is the time of each of many writes, of which up to WINDOW are under way.  "latency"
 * is half of a ping-pong of writes, each end waiting in its memory for the other one's.
 * "registration" is that of ordinary memory, and its end.  The ratio is relative to the
 * first device.
 *
 * In a guest that is alone both ends are in this process.  With two guests each has one end,
 * and guest 0 measures; they meet by TCP, where a byte says that the other one may go on.
 */
#include "bench/samples.h"
#include "lib/access.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/device.h"
#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_DEVICES 4
#define RUNS 7
#define LARGE (1u << 20)
#define SMALL 8
#define PAGE 4096
#define WRITES 16	/* in a run */
#define WINDOW 4
#define BUFFER (WINDOW * LARGE)
#define PINGS 200
#define REGISTRATIONS 100
#define TCP_PORT 4000

/* What the other end has to know. */
struct address {
	union ibv_gid gid;
	uint16_t lid;
	uint32_t qpn, rkey;
	uint64_t at;
};

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	volatile uint64_t *memory;	/* its first word is where a ping arrives */
	struct address local, remote;
	int sgid_index, under_way;
	bool is_infiniband;
};

static struct device {
	const char *name;
	struct end end[2];
	struct samples took[3];
} devices[MAX_DEVICES];
static int nr_devices, ends, meeting = -1;

enum { WRITE, LATENCY, REGISTRATION };
static const struct { const char *name; size_t bytes; } operations[] = {
	[WRITE] = { "write", LARGE }, [LATENCY] = { "latency", SMALL },
	[REGISTRATION] = { "registration", PAGE },
};

/* --- the other guest */

static void meet_at_most(const void *mine, void *theirs, size_t size)
{
	if (write(meeting, mine, size) != size || recv(meeting, theirs, size, MSG_WAITALL) != size)
		fail_case("the other guest is gone");
}

static void barrier(void)
{
	char mine = 0, theirs;

	if (meeting >= 0)
		meet_at_most(&mine, &theirs, 1);
}

static void meet(bool first)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(TCP_PORT),
				    .sin_addr = { inet_addr("10.0.0.1") } };
	double end = now() + 120;
	int fd;

	for (; meeting < 0; usleep(50000)) {
		if (now() > end)
			fail_case("the other guest does not come");
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (!first) {
			if (!connect(fd, (void *)&addr, sizeof(addr))) {
				meeting = fd;
				return;
			}
		} else if (!bind(fd, (void *)&addr, sizeof(addr)) && !listen(fd, 1)) {
			alarm(120);
			meeting = accept(fd, NULL, NULL);
			alarm(0);
		}
		close(fd);
	}
}

/* --- an end */

/* The LID, or the GID of the IPv4 address; it may come a moment after the device. */
static bool find_address(struct end *e)
{
	static const uint8_t ipv4[12] = { [10] = 0xff, 0xff };
	struct ibv_port_attr port;
	struct ibv_gid_entry gid;

	if (ibv_query_port(e->ctx, 1, &port) || port.state != IBV_PORT_ACTIVE)
		return false;
	e->local.lid = port.lid;
	e->is_infiniband = port.link_layer == IBV_LINK_LAYER_INFINIBAND;
	for (int i = 0; i < port.gid_tbl_len && i < 16; i++) {
		if (e->is_infiniband)
			return true;
		if (ibv_query_gid_ex(e->ctx, 1, i, &gid, 0) ||
		    gid.gid_type != IBV_GID_TYPE_ROCE_V2 || memcmp(gid.gid.raw, ipv4, sizeof(ipv4)))
			continue;
		e->local.gid = gid.gid;
		e->sgid_index = i;
		return true;
	}
	return false;
}

static void end_open(struct end *e, const char *name)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 2 * WINDOW, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1, .max_inline_data = SMALL },
	};

	e->ctx = device_open_named(name);
	for (double limit = now() + 30; !find_address(e); usleep(10000))
		if (now() > limit)
			fail_case("the port of %s has no address or is not active", name);
	e->pd = must(ibv_alloc_pd(e->ctx));
	e->cq = attr.send_cq = attr.recv_cq = must(ibv_create_cq(e->ctx, 16, NULL, NULL, 0));
	e->qp = must(ibv_create_qp(e->pd, &attr));
	e->memory = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (e->memory == MAP_FAILED)
		fail_case("memory");
	e->mr = must(ibv_reg_mr(e->pd, (void *)e->memory, BUFFER, WRITE_ACCESS));
	e->local.qpn = e->qp->qp_num;
	e->local.rkey = e->mr->rkey;
	e->local.at = (uintptr_t)e->memory;
}

static void end_connect(struct end *e)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = WRITE_ACCESS,
		.path_mtu = IBV_MTU_4096, .dest_qp_num = e->remote.qpn, .min_rnr_timer = 12,
		.max_dest_rd_atomic = 1, .max_rd_atomic = 1,
		.timeout = 17, .retry_cnt = 7, .rnr_retry = 7,
		.ah_attr = { .port_num = 1, .dlid = e->remote.lid,
			     .is_global = !e->is_infiniband,
			     .grh = { .dgid = e->remote.gid, .sgid_index = e->sgid_index,
				      .hop_limit = 64 } },
	};

	errno = ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			      IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	if (!errno)
		errno = ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MIN_RNR_TIMER |
				      IBV_QP_MAX_DEST_RD_ATOMIC);
	attr.qp_state = IBV_QPS_RTS;
	if (!errno)
		errno = ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT |
				      IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				      IBV_QP_MAX_QP_RD_ATOMIC);
	if (errno)
		fail_case("connect a QP of %s", ibv_get_device_name(e->ctx->device));
}

static void post(struct end *e, struct ibv_sge sge, uint64_t offset, int flags)
{
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED | flags,
		.wr.rdma = { .remote_addr = e->remote.at + offset, .rkey = e->remote.rkey },
	}, *bad;

	errno = ibv_post_send(e->qp, &wr, &bad);
	if (errno)
		fail_case("post");
	e->under_way++;
}

/* Take the completions that are there. */
static void reap(struct end *e)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(e->cq, 1, &wc)) > 0) {
		if (wc.status)
			fail_case("a write fails: %s", ibv_wc_status_str(wc.status));
		e->under_way--;
	}
	if (n < 0)
		fail_case("poll the CQ");
}

/* Until at most so many are under way. */
static void reap_to(struct end *e, int most)
{
	for (reap(e); e->under_way > most; reap(e))
		sched_yield();	/* with one CPU, let the device work */
}

/* --- what is measured */

static void write_all(struct end *e)
{
	for (int i = 0; i < WRITES; i++) {
		uint64_t offset = (uint64_t)(i % WINDOW) * LARGE;

		reap_to(e, WINDOW - 1);
		post(e, (struct ibv_sge){ (uintptr_t)e->memory + offset, LARGE, e->mr->lkey },
		     offset, 0);
	}
	reap_to(e, 0);
}

static void ping(struct end *e, uint64_t n)
{
	reap_to(e, WINDOW);
	post(e, (struct ibv_sge){ (uintptr_t)&n, SMALL, 0 }, 0, IBV_SEND_INLINE);
}

static void await_ping(struct end *e, uint64_t n)
{
	while (*e->memory != n)
		sched_yield();
}

static void ping_pong(struct device *d, bool first)
{
	struct end *here = &d->end[0], *there = ends == 2 ? &d->end[1] : NULL;

	for (uint64_t n = 1; n <= PINGS; n++) {
		if (first)
			ping(here, n);
		if (there) {
			await_ping(there, n);
			ping(there, n);
		}
		await_ping(here, n);
		if (!first)
			ping(here, n);
	}
	for (int i = 0; i < ends; i++)
		reap_to(&d->end[i], 0);
}

static void register_pages(struct end *e)
{
	for (int i = 0; i < REGISTRATIONS; i++) {
		struct ibv_mr *mr = must(ibv_reg_mr(e->pd, (void *)e->memory, PAGE, WRITE_ACCESS));

		if (ibv_dereg_mr(mr))
			fail_case("dereg");
	}
}

/* All on one device.  A ping of an earlier run must not be taken for a new one. */
static void run(struct device *d, bool first)
{
	double began = now();

	if (first)
		write_all(&d->end[0]);
	sample(&d->took[WRITE], began, WRITES);
	barrier();
	for (int i = 0; i < ends; i++)
		*d->end[i].memory = 0;
	barrier();
	began = now();
	ping_pong(d, first);
	sample(&d->took[LATENCY], began, 2 * PINGS);
	barrier();
	if (ends < 2)
		return;
	began = now();
	register_pages(&d->end[0]);
	sample(&d->took[REGISTRATION], began, REGISTRATIONS);
}

static void open_device(struct device *d, const char *name)
{
	d->name = name;
	for (int i = 0; i < ends; i++)
		end_open(&d->end[i], name);
	if (ends == 2) {
		d->end[0].remote = d->end[1].local;
		d->end[1].remote = d->end[0].local;
	} else {
		meet_at_most(&d->end[0].local, &d->end[0].remote, sizeof(struct address));
	}
	for (int i = 0; i < ends; i++)
		end_connect(&d->end[i]);
	barrier();
}

int main(int argc, char **argv)
{
	const char *guests = getenv("MRFD_GUESTS"), *guest = getenv("MRFD_GUEST");
	bool first = !guest || !atoi(guest);

	ends = guests && atoi(guests) == 2 ? 1 : 2;
	if (ends == 1)
		meet(first);
	for (nr_devices = 0; nr_devices < MAX_DEVICES && argv[1 + nr_devices]; nr_devices++)
		open_device(&devices[nr_devices], argv[1 + nr_devices]);
	for (int n = 0; n < RUNS; n++)
		for (int i = 0; i < nr_devices; i++)
			run(&devices[i], first);
	if (!first)
		return 0;
	bench_heading();
	for (int op = WRITE; op <= (ends == 2 ? REGISTRATION : LATENCY); op++) {
		double us[MAX_DEVICES];

		for (int i = 0; i < nr_devices; i++) {
			us[i] = median(&devices[i].took[op]);
			bench_result(operations[op].name, devices[i].name, operations[op].bytes,
				     &devices[i].took[op], us[0]);
		}
	}
	return 0;
}
