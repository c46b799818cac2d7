// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick; guest: gpu; devices: all */
/*
 * Debian's libfabric, unchanged, over our rdma-core: its verbs provider registers a dma-buf of
 * every exporter (FI_MR_DMABUF), and moves data in every direction.
 *
 * The provider calls ibv_reg_dmabuf_mr().  Two connected endpoints of one process move data
 * between the buffer and ordinary memory, by FI_RMA and FI_MSG.  A case looks at what arrived
 * through a mapping that libfabric does not know.
 *
 * The addresses count from base_addr, which is 0: byte N of a dma-buf has the address N.
 *
 * To see what the process unmaps, libfabric's cache of registrations writes into the code of
 * the C library.  A thread that is in such a function, as one that ends is, then returns into
 * the middle of a new instruction: seen once, SIGSEGV in libc.  So the cache is off.
 */
#include "lib/clock.h"
#include "lib/device.h"
#include "lib/gpu.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pattern.h"
#include <fcntl.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdlib.h>

#define SIZE (64 * PAGE)
#define PORT "7471"
#define TIMEOUT_MS (10000 * patience())
#define EVERYTHING (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

/* fi() is like must(), for functions that return 0 or a negative errno. */
#define fi(what) do {							\
	int fi_result = (what);						\
	if (fi_result) {						\
		errno = -fi_result;					\
		fail_case("%s: %s", #what, fi_strerror(-fi_result));		\
	}								\
} while (0)

/* Close what has been opened. */
#define close_fi(object) do {						\
	if (object)							\
		fi(fi_close(&(object)->fid));				\
} while (0)

struct end {
	struct fi_info *info;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_eq *eq;
	struct fid_ep *ep;
};

FIXTURE(libfabric)
{
	struct fid_fabric *fabric;
	struct fid_pep *listener;
	struct fid_eq *listener_eq;
	struct fi_info *listener_info;
	struct end end[2];	/* the first connects to the second */
	struct memory buf;
	struct fid_mr *fd_mr;	/* of buf, in the domain of end 1 */
	struct fid_mr *host_mr;	/* of mem, in the domain of end 0 */
	struct memory mem;	/* at the other end */
};

FIXTURE_VARIANT(libfabric)
{
	enum memory_kind kind;
};

FIXTURE_VARIANT_ADD(libfabric, vgem) { .kind = VGEM };
/* runs: full */
FIXTURE_VARIANT_ADD(libfabric, udmabuf) { .kind = UDMABUF };
/* runs: full */
FIXTURE_VARIANT_ADD(libfabric, system_heap) { .kind = HEAP };
/* runs: full */
FIXTURE_VARIANT_ADD(libfabric, virtio_gpu) { .kind = VIRTIO_GPU };
/* runs: full */
FIXTURE_VARIANT_ADD(libfabric, qxl_vram) { .kind = QXL };
FIXTURE_VARIANT_ADD(libfabric, gpu_vram) { .kind = GPU_VRAM };
/* runs: full */
FIXTURE_VARIANT_ADD(libfabric, gpu_system) { .kind = GPU_SYSTEM };

static struct fi_info *find(uint64_t flags)
{
	struct fi_info *hints = must(fi_allocinfo()), *found = NULL;

	hints->caps = FI_MSG | FI_RMA;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = must(strdup("verbs"));
	fi(fi_getinfo(FI_VERSION(2, 0), device_ip(), PORT, flags, hints, &found));
	fi_freeinfo(hints);
	return found;
}

static void end_open(struct fid_fabric *fabric, struct end *end, struct fi_info *info)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_UNSPEC };

	end->info = info;
	fi(fi_domain(fabric, info, &end->domain, NULL));
	fi(fi_cq_open(end->domain, &cq, &end->cq, NULL));
	fi(fi_eq_open(fabric, &eq, &end->eq, NULL));
	fi(fi_endpoint(end->domain, info, &end->ep, NULL));
	fi(fi_ep_bind(end->ep, &end->eq->fid, 0));
	fi(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV));
	fi(fi_enable(end->ep));
}

static void end_close(struct end *end)
{
	close_fi(end->ep);
	close_fi(end->eq);
	close_fi(end->cq);
	close_fi(end->domain);
	fi_freeinfo(end->info);
}

/* Wait for the next event, which has to be this one. */
static struct fi_info *event(struct fid_eq *eq, uint32_t wanted)
{
	struct fi_eq_cm_entry entry = {};
	struct fi_eq_err_entry err = {};
	uint32_t event;
	ssize_t n = fi_eq_sread(eq, &event, &entry, sizeof(entry), TIMEOUT_MS, 0);

	if (n == -FI_EAVAIL) {
		fi_eq_readerr(eq, &err, 0);
		errno = err.err;
		fail_case("an event says %s", fi_strerror(err.err));
	}
	if (n != sizeof(entry) || event != wanted)
		fail_case("event %u instead of %u, %zd bytes", event, wanted, n);
	return entry.info;
}

/* This runs in a thread, because an end connects only while it waits for events. */
static void *accept_end(void *arg)
{
	FIXTURE_DATA(libfabric) *self = arg;

	end_open(self->fabric, &self->end[1], event(self->listener_eq, FI_CONNREQ));
	fi(fi_accept(self->end[1].ep, NULL, 0));
	event(self->end[1].eq, FI_CONNECTED);
	return NULL;
}

static void connect_ends(FIXTURE_DATA(libfabric) *self)
{
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_UNSPEC };
	pthread_t acceptor;

	self->listener_info = find(FI_SOURCE);
	fi(fi_fabric(self->listener_info->fabric_attr, &self->fabric, NULL));
	fi(fi_eq_open(self->fabric, &eq, &self->listener_eq, NULL));
	fi(fi_passive_ep(self->fabric, self->listener_info, &self->listener, NULL));
	fi(fi_pep_bind(self->listener, &self->listener_eq->fid, 0));
	fi(fi_listen(self->listener));
	fi(-pthread_create(&acceptor, NULL, accept_end, self));

	end_open(self->fabric, &self->end[0], find(0));
	fi(fi_connect(self->end[0].ep, self->end[0].info->dest_addr, NULL, 0));
	event(self->end[0].eq, FI_CONNECTED);
	fi(-pthread_join(acceptor, NULL));
}

static int reg_dmabuf(struct fid_domain *domain, int fd, uint64_t offset, size_t len,
		      struct fid_mr **mr)
{
	struct fi_mr_dmabuf dmabuf = { .fd = fd, .offset = offset, .len = len };
	struct fi_mr_attr attr = { .dmabuf = &dmabuf, .iov_count = 1, .access = EVERYTHING };

	return fi_mr_regattr(domain, &attr, FI_MR_DMABUF, mr);
}

FIXTURE_SETUP(libfabric)
{
	need("rdma-cm");
	if (variant->kind == QXL)
		need("io-memory");
	ASSERT_EQ(0, setenv("FI_MR_CACHE_MONITOR", "disabled", 0));
	connect_ends(self);
	memory_open_filled(&self->buf, variant->kind, SIZE, 1);
	fi(reg_dmabuf(self->end[1].domain, self->buf.fd, 0, SIZE, &self->fd_mr));
	memory_open_filled(&self->mem, HOST, SIZE, 2);
	fi(fi_mr_reg(self->end[0].domain, self->mem.cpu, SIZE, EVERYTHING, 0, 0, 0, &self->host_mr,
		     NULL));
}

/* For a device that is a peer of the GPU a buffer stays in VRAM; for another it cannot. */
static void check_place(const struct memory *buf)
{
	struct mrfd_gpu_query q;

	if (buf->kind != GPU_VRAM || !device_can("pci"))
		return;
	q = gpu_query(buf);
	if (q.place != MRFD_GPU_VRAM || q.peers != 1 || q.moves)
		fail_case("not peer to peer: reason %u, %u moves", q.why, q.moves);
}

FIXTURE_TEARDOWN(libfabric)
{
	if (self->fd_mr)
		check_place(&self->buf);
	close_fi(self->fd_mr);
	close_fi(self->host_mr);
	end_close(&self->end[0]);
	end_close(&self->end[1]);
	close_fi(self->listener);
	close_fi(self->listener_eq);
	close_fi(self->fabric);
	fi_freeinfo(self->listener_info);
	memory_close(&self->buf);
	memory_close(&self->mem);
}

/* Wait for the next completion of an end. */
static void complete(struct end *end)
{
	struct fi_cq_msg_entry entry;
	struct fi_cq_err_entry err = {};
	ssize_t n = fi_cq_sread(end->cq, &entry, 1, NULL, TIMEOUT_MS);

	if (n == -FI_EAVAIL) {
		fi_cq_readerr(end->cq, &err, 0);
		errno = err.err;
		fail_case("a completion says %s", fi_strerror(err.err));
	}
	if (n != 1)
		fail_case("no completion: %s", fi_strerror(-n));
}

TEST_F(libfabric, remote_write_lands_in_the_buffer)
{
	fi(fi_write(self->end[0].ep, self->mem.cpu, SIZE, fi_mr_desc(self->host_mr), 0, 0,
		    fi_mr_key(self->fd_mr), NULL));
	complete(&self->end[0]);
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 2, "the buffer"));
}

TEST_F(libfabric, remote_read_returns_the_bytes_of_the_buffer)
{
	fi(fi_read(self->end[0].ep, self->mem.cpu, SIZE, fi_mr_desc(self->host_mr), 0, 0,
		   fi_mr_key(self->fd_mr), NULL));
	complete(&self->end[0]);
	ASSERT_TRUE(filled(self->mem.cpu, SIZE, 1, "memory"));
}

TEST_F(libfabric, write_takes_its_data_from_the_buffer)
{
	fi(fi_write(self->end[1].ep, (void *)0, SIZE, fi_mr_desc(self->fd_mr), 0,
		    self->mem.iova, fi_mr_key(self->host_mr), NULL));
	complete(&self->end[1]);
	ASSERT_TRUE(filled(self->mem.cpu, SIZE, 1, "memory"));
}

TEST_F(libfabric, read_puts_its_data_into_the_buffer)
{
	fi(fi_read(self->end[1].ep, (void *)0, SIZE, fi_mr_desc(self->fd_mr), 0,
		   self->mem.iova, fi_mr_key(self->host_mr), NULL));
	complete(&self->end[1]);
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 2, "the buffer"));
}

TEST_F(libfabric, message_lands_in_the_buffer)
{
	fi(fi_recv(self->end[1].ep, (void *)0, SIZE, fi_mr_desc(self->fd_mr), 0, NULL));
	fi(fi_send(self->end[0].ep, self->mem.cpu, SIZE, fi_mr_desc(self->host_mr), 0, NULL));
	complete(&self->end[0]);
	complete(&self->end[1]);
	ASSERT_TRUE(filled(self->buf.cpu, SIZE, 2, "the buffer"));
}

TEST_F(libfabric, send_carries_the_bytes_of_the_buffer)
{
	fi(fi_recv(self->end[0].ep, self->mem.cpu, SIZE, fi_mr_desc(self->host_mr), 0, NULL));
	fi(fi_send(self->end[1].ep, (void *)0, SIZE, fi_mr_desc(self->fd_mr), 0, NULL));
	complete(&self->end[0]);
	complete(&self->end[1]);
	ASSERT_TRUE(filled(self->mem.cpu, SIZE, 1, "memory"));
}

TEST_F(libfabric, mr_of_a_part_works_after_close_of_the_fd)
{
	struct fid_mr *part;
	int fd = dup(self->buf.fd);

	fi(reg_dmabuf(self->end[1].domain, fd, 3 * PAGE, 2 * PAGE, &part));
	close(fd);
	fi(fi_write(self->end[0].ep, self->mem.cpu, PAGE, fi_mr_desc(self->host_mr), 0,
		    3 * PAGE + 100, fi_mr_key(part), NULL));
	complete(&self->end[0]);
	ASSERT_EQ(0, memcmp(self->buf.cpu + 3 * PAGE + 100, self->mem.cpu, PAGE));
	ASSERT_TRUE(memory_only_changed(&self->buf, 3 * PAGE + 100, PAGE));
	fi(fi_close(&part->fid));
}

TEST_F(libfabric, reg_of_an_invalid_fd_or_range_is_refused)
{
	struct fid_mr *mr;
	int null = open("/dev/null", O_RDWR);

	ASSERT_EQ(-EINVAL, reg_dmabuf(self->end[1].domain, self->buf.fd, 0, self->buf.size + PAGE,
				      &mr));
	ASSERT_EQ(-EINVAL, reg_dmabuf(self->end[1].domain, null, 0, PAGE, &mr));
	close(null);
	ASSERT_EQ(-EBADF, reg_dmabuf(self->end[1].domain, null, 0, PAGE, &mr));
}

TEST_HARNESS_MAIN
