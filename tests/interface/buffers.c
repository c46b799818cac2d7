// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: smp; devices: rxe */
/* runs: quick debug-full; guest: smp; devices: connectx */
/*
 * For each type of memory, what the query says is what registration and rereg do, and old
 * programs that ask with fd -1 come to the same answer.  An MR exists all the time of its rereg.
 *
 * A program that is older than the query asks by a rule of its own; here all the rules are
 * tried.
 */
#include "interface/mistakes.h"
#include "lib/depth.h"
#include <pthread.h>

#define LEAST depth(100, 500)	/* reregs in a race */
#define WAYS (IB_UVERBS_BUFFER_CAP_CPU | IB_UVERBS_BUFFER_CAP_PINNED | \
	      IB_UVERBS_BUFFER_CAP_DYNAMIC)

static void siw_open(struct ibv_context **ctx, struct ibv_pd **pd)
{
	if (system("rdma link add siw0 type siw netdev eth0-peer"))
		fail_case("add siw0");
	*ctx = device_open_named("siw0");
	*pd = must(ibv_alloc_pd(*ctx));
}

static void siw_close(struct ibv_context *ctx, struct ibv_pd *pd)
{
	if (ibv_dealloc_pd(pd))
		fail_case("dealloc PD of siw0");
	device_close(ctx);
	if (system("rdma link delete siw0"))
		fail_case("delete siw0");
}

/* What the query says of a type is what registration and rereg then do. */
TEST_F(uapi, query_agrees_with_reg_and_rereg)
{
	const int fd[] = { self->buf.fd, -1, self->memfd.fd };
	const uint64_t at[] = { 0, (uintptr_t)self->local.cpu, 0 };

	for (uint32_t type = 0; type < ARRAY_SIZE(fd); type++) {
		uint32_t caps = 0;

		ASSERT_EQ(0, buffer_caps(self->ctx->cmd_fd, type, &caps));
		for (int rereg = 0; rereg < 2; rereg++) {
			struct fd_call c = right_call(self, rereg);
			uint32_t cap = rereg ? IB_UVERBS_BUFFER_CAP_REREG :
					       IB_UVERBS_BUFFER_CAP_REG;
			struct keys keys;

			c.type = type;
			c.fd = fd[type];
			c.offset = at[type];
			ASSERT_EQ(caps & cap ? 0 : EOPNOTSUPP,
				  fd_call(self->ctx->cmd_fd, &c, &keys));
			if (!rereg && caps & cap)
				ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_IOCTL, keys.handle));
		}
		ASSERT_NE(0, caps & WAYS);
	}
}

/* A program that knows more types than the kernel learns that it cannot use them. */
TEST_F(uapi, unknown_type_has_no_caps)
{
	static const uint64_t unknown[] = { 3, 77, UINT32_MAX };
	uint32_t caps;

	for (int i = 0; i < ARRAY_SIZE(unknown); i++) {
		caps = 1234;
		ASSERT_EQ(0, buffer_caps(self->ctx->cmd_fd, unknown[i], &caps));
		ASSERT_EQ(0, caps);
	}
	ASSERT_EQ(EINVAL, buffer_caps(self->ctx->cmd_fd, 1ul << 32, &caps));
	ASSERT_EQ(EINVAL, buffer_caps(self->ctx->cmd_fd, -1ul, &caps));
	ASSERT_EQ(EFAULT, buffer_caps(self->ctx->cmd_fd, 0, (uint32_t *)(self->edge + PAGE)));
}

TEST_F(uapi, device_without_the_op_is_eopnotsupp_for_all_types)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;

	siw_open(&ctx, &pd);
	for (uint32_t type = 0; type < 3; type++) {
		struct fd_call c = { .pd = pd->handle, .access = RW, .type = type, .fd = -1,
				     .length = PAGE };
		uint32_t caps = 1234;
		struct keys keys;
		union msg m;

		buffer_caps_of(&m, type, &caps);
		m.hdr.driver_id = RDMA_DRIVER_SIW;
		ASSERT_EQ(0, msg_send(ctx->cmd_fd, &m));
		ASSERT_EQ(0, caps);
		msg_of(&m, &c, &keys);
		m.hdr.driver_id = RDMA_DRIVER_SIW;
		ASSERT_EQ(EOPNOTSUPP, msg_send(ctx->cmd_fd, &m));
	}
	siw_close(ctx, pd);
}

TEST_F(uapi, reg_mr_fd_registers_process_memory_too)
{
	struct fd_call c = right_call(self, false);
	struct memory host;
	struct keys keys;

	memory_open_filled(&host, HOST, SIZE, 3);
	fill(self->local.cpu, PAGE, 4);
	c.type = IB_UVERBS_BUFFER_TYPE_VA;
	c.fd = -1;
	c.offset = (uintptr_t)host.cpu;
	ASSERT_EQ(0, fd_call(self->ctx->cmd_fd, &c, &keys));
	ASSERT_EQ(0, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->local_mr,
			     self->local.iova, PAGE, IOVA + 2 * PAGE, keys.rkey));
	ASSERT_TRUE(filled(host.cpu + 2 * PAGE, PAGE, 4, "written"));
	ASSERT_TRUE(memory_only_changed(&host, 2 * PAGE, PAGE));
	ASSERT_EQ(0, mr_dereg(self->ctx->cmd_fd, BY_IOCTL, keys.handle));
	memory_close(&host);
}

/* From each type to each, and back to the dma-buf of the fixture. */
TEST_F_TIMEOUT(uapi, rereg_works_from_every_type_to_every_type, 60)
{
	static const uint32_t order[] = {
		IB_UVERBS_BUFFER_TYPE_VA, IB_UVERBS_BUFFER_TYPE_MEMFD, IB_UVERBS_BUFFER_TYPE_VA,
		IB_UVERBS_BUFFER_TYPE_DMABUF, IB_UVERBS_BUFFER_TYPE_MEMFD,
		IB_UVERBS_BUFFER_TYPE_DMABUF,
	};
	struct memory host;
	uint32_t seed = 100;

	memory_open(&host, HOST, SIZE);
	for (int i = 0; i < ARRAY_SIZE(order); i++) {
		struct memory *to = order[i] == IB_UVERBS_BUFFER_TYPE_VA ? &host :
				    order[i] == IB_UVERBS_BUFFER_TYPE_MEMFD ? &self->memfd :
									      &self->buf;
		struct fd_call c = right_call(self, true);
		struct keys keys;

		c.flags = TRANS;
		c.type = order[i];
		c.fd = to->fd;
		if (to == &host)
			c.offset = (uintptr_t)host.cpu;
		ASSERT_EQ(0, fd_call(self->ctx->cmd_fd, &c, &keys));
		take_keys(self);
		ASSERT_EQ(self->mr.rkey, keys.rkey);
		fill(self->local.cpu, PAGE, ++seed);
		ASSERT_EQ(0, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->local_mr,
				     self->local.iova, PAGE, IOVA + PAGE, keys.rkey));
		ASSERT_TRUE(filled(to->cpu + PAGE, PAGE, seed, "written"));
	}
	memory_close(&host);
}

/* What a program concludes from ibv_reg_dmabuf_mr() with fd -1; 0 means no support. */
static bool nccl(int err) { return err != EOPNOTSUPP && err != EPROTONOSUPPORT; }
static bool ucx(int err) { return err == EBADF; }
static bool libfabric(int err) { return err != EOPNOTSUPP; }

static int probe(struct ibv_pd *pd)
{
	return ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, -1, RW) ? 0 : errno;
}

TEST_F(uapi, nccl_ucx_and_libfabric_probe_support_correctly)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	int err = probe(self->pair.pd);

	ASSERT_EQ(EBADF, err);
	ASSERT_TRUE(nccl(err) && ucx(err) && libfabric(err));
	siw_open(&ctx, &pd);
	err = probe(pd);
	ASSERT_EQ(EOPNOTSUPP, err);
	ASSERT_FALSE(nccl(err) || ucx(err) || libfabric(err));
	siw_close(ctx, pd);
}

struct querier {
	pthread_t thread;
	int cmd_fd;
	uint32_t mr;
	bool end;
	unsigned long busy, ok, other;
};

/* QUERY_MR only looks the handle up and reads the MR. */
static void *query_all_the_time(void *arg)
{
	struct querier *q = arg;

	while (!__atomic_load_n(&q->end, __ATOMIC_RELAXED)) {
		struct mr_info info;
		int err = mr_query(q->cmd_fd, q->mr, &info);

		q->ok += !err;
		q->busy += err == EBUSY;
		q->other += err && err != EBUSY;
	}
	return NULL;
}

/* The handle names the MR all the time, also while another MR takes its place. */
TEST_F_TIMEOUT(uapi, mr_handle_stays_valid_during_rereg, 60)
{
	struct querier q = { .cmd_fd = self->ctx->cmd_fd, .mr = self->mr.handle };
	unsigned long reregs = 0, refused = 0;
	struct keys keys;

	ASSERT_EQ(0, pthread_create(&q.thread, NULL, query_all_the_time, &q));
	while (reregs < LEAST || !__atomic_load_n(&q.ok, __ATOMIC_RELAXED)) {
		int err = host_rereg(self->ctx->cmd_fd, self->mr.handle, CHANGE_ACCESS, 0, 0, 0, 0,
				     RW, &keys);

		if (err && err != EBUSY)
			fail_case("rereg: %s", strerror(err));
		reregs += !err;
		refused += err == EBUSY;
		usleep(100);	/* a device may take so long that no query ever comes between */
	}
	__atomic_store_n(&q.end, true, __ATOMIC_RELAXED);
	pthread_join(q.thread, NULL);
	printf("# %lu reregs, %lu refused; %lu queries, %lu busy, %lu other errors\n", reregs,
	       refused, q.ok, q.busy, q.other);
	ASSERT_EQ(0, q.other);
	ASSERT_GT(q.ok, 0);
}

TEST_HARNESS_MAIN
