// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: debug; devices: rxe */
/* runs: debug-full; devices: connectx */
/*
 * Every allocation and every copy fails once, and nothing is left: in the allocation and free of
 * device memory, its registration, export and import, the map of an operation (mlx5), a free under
 * an importer, and the close of a context with all of these.
 *
 * A call that fails leaves nothing behind, not a page of the device's memory either.  A free
 * succeeds despite every fault, unless it cannot copy the arguments that name the DM; then
 * nothing has changed.  After a free nobody reaches the memory, whatever has failed in it.
 */
#include "faults/sweep.h"
#include "lib/dm.h"
#include "lib/harness.h"
#include "lib/pattern.h"
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_rxe.h>
#include <rdma/rxe_user_ioctl_cmds.h>

#define DM_SIZE (3 * PAGE)
#define N 3000		/* bytes of each transfer */

FIXTURE(dm_fault)
{
	struct env env;
};

FIXTURE_SETUP(dm_fault)
{
	need("dm-export");
	faults_open();
	env_open(&self->env, HEAP);
	ASSERT_TRUE(dm_budget_is_whole(self->env.ctx));
}

FIXTURE_TEARDOWN(dm_fault)
{
	if (self->env.ctx)
		EXPECT_TRUE(dm_budget_is_whole(self->env.ctx));
	env_close(&self->env);
	EXPECT_TRUE(nothing_left());
}

/* --- Calls without the library, which allocates and maps (see lib/uverbs.h) */

static int dm_alloc(int cmd_fd, uint32_t *handle)
{
	struct mminfo map;
	uint64_t offset;
	uint16_t page;
	union msg m;
	int err;

	msg_begin(&m, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
	msg_add(&m, UVERBS_ATTR_ALLOC_DM_HANDLE, 0, 0);
	msg_add(&m, UVERBS_ATTR_ALLOC_DM_LENGTH, 8, DM_SIZE);
	msg_add(&m, UVERBS_ATTR_ALLOC_DM_ALIGNMENT, 4, 0);
	if (device_driver_id() == RDMA_DRIVER_RXE) {
		msg_add(&m, RXE_IB_ATTR_ALLOC_DM_RESP_MMAP, sizeof(map), (uintptr_t)&map);
	} else {
		msg_add(&m, MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, 8, (uintptr_t)&offset);
		msg_add(&m, MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, 2, (uintptr_t)&page);
	}
	err = msg_send(cmd_fd, &m);
	*handle = err ? 0 : m.hdr.attrs[0].data;
	return err;
}

static int dm_export(int cmd_fd, uint32_t dm, int *fd)
{
	union msg m;

	*fd = -1;
	msg_begin(&m, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_EXPORT_DMABUF);
	msg_add(&m, UVERBS_ATTR_DM_EXPORT_DMABUF_HANDLE, 0, dm);
	msg_add(&m, UVERBS_ATTR_DM_EXPORT_DMABUF_RESP_FD, 4, (uintptr_t)fd);
	return msg_send(cmd_fd, &m);
}

static int dm_import(struct env *env, int fd, struct keys *keys)
{
	struct fd_call c = {
		.pd = env->pd[0]->handle, .access = RWA, .length = DM_SIZE, .fd = fd,
		.type = IB_UVERBS_BUFFER_TYPE_DMABUF, .iova = IOVA,
	};

	return fd_call(env->ctx->cmd_fd, &c, keys);
}

/* The address of an operation on the DM, as mlx5dv_dm_map_op_addr() asks for it. */
static int dm_map_op(int cmd_fd, uint32_t dm, uint8_t op)
{
	uint64_t offset;
	uint16_t page;
	union msg m;

	msg_begin(&m, UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_MAP_OP_ADDR);
	msg_add(&m, MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_HANDLE, 0, dm);
	msg_add(&m, MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_OP, sizeof(op), op);
	msg_add(&m, MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET, 8, (uintptr_t)&offset);
	msg_add(&m, MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX, 2, (uintptr_t)&page);
	return msg_send(cmd_fd, &m);
}

static void must_succeed(int err, const char *what)
{
	errno = err;
	if (err)
		fail_case("%s", what);
}

static uint32_t must_alloc(int cmd_fd)
{
	uint32_t handle;

	must_succeed(dm_alloc(cmd_fd, &handle), "alloc DM");
	return handle;
}

static int must_export(int cmd_fd, uint32_t dm)
{
	int fd;

	must_succeed(dm_export(cmd_fd, dm, &fd), "export DM");
	return fd;
}

/* A write at this address of the region, and back again by a read. */
static enum ibv_wc_status use(struct env *env, uint32_t rkey, uint64_t addr)
{
	static uint32_t seed;
	struct pair *pair = &env->pair[0];
	struct ibv_mr *local = env->local_mr[0];
	enum ibv_wc_status status;

	fill(env->local.cpu, N, ++seed);
	status = rdma_op(pair, IBV_WR_RDMA_WRITE, local, env->local.iova, N, addr, rkey);
	memset(env->local.cpu, 0, N);
	if (!status)
		status = rdma_op(pair, IBV_WR_RDMA_READ, local, env->local.iova, N, addr, rkey);
	if (status)
		pair_connect(pair, IBV_MTU_1024);
	else if (!filled(env->local.cpu, N, seed, "written and read"))
		fail_case("RDMA read returned other bytes than were written");
	return status;
}

static void check_use(struct env *env, uint32_t rkey, uint64_t addr, enum ibv_wc_status expected)
{
	enum ibv_wc_status status = use(env, rkey, addr);

	errno = 0;
	if (status != expected)
		fail_case("RDMA to the MR ended with %s, not %s", ibv_wc_status_str(status),
			  ibv_wc_status_str(expected));
}

/* After each call that ended without a DM: no page is missing, no fd and no dma-buf is left. */
static void check_all_back(struct env *env, int dmabufs)
{
	struct dm all;

	must_succeed(dm_try_open(&all, env->ctx, dm_max(env->ctx)), "alloc of all device memory");
	dm_close(&all);
	if (fd_left(env))
		fail_case("an fd is left open");
	if (dmabuf_count() != dmabufs)
		fail_case("%d dma-bufs exist, not %d", dmabuf_count(), dmabufs);
}

/* --- The sweeps */

TEST_F_TIMEOUT(dm_fault, failed_alloc_leaves_nothing, 600)
{
	struct env *env = &self->env;
	int dmabufs = dmabuf_count();
	struct sweep s = {};

	while (sweep_next(&s)) {
		uint32_t dm;
		int err;

		fail_at(s.n);
		err = dm_alloc(env->ctx->cmd_fd, &dm);
		fail_end(&s, err);
		if (!err)
			must_succeed(dm_call_free(env->ctx->cmd_fd, dm), "free DM");
		check_all_back(env, dmabufs);
	}
	sweep_end(&s, "ALLOC_DM", "", "");
}

TEST_F_TIMEOUT(dm_fault, free_succeeds_despite_faults, 600)
{
	struct env *env = &self->env;
	int dmabufs = dmabuf_count(), fd = env->ctx->cmd_fd;
	struct sweep s = {};

	while (sweep_next(&s)) {
		uint32_t dm = must_alloc(fd);
		int err;

		fail_at(s.n);
		err = dm_call_free(fd, dm);
		fail_end(&s, err);
		if (err == ENOMEM)
			fail_case("free of a DM failed with ENOMEM at point %u", s.n);
		if (err)
			must_succeed(dm_call_free(fd, dm), "free DM without a fault");
		check_all_back(env, dmabufs);
	}
	sweep_end(&s, "FREE_DM", "", "");
}

TEST_F_TIMEOUT(dm_fault, failed_reg_leaves_nothing, 600)
{
	struct env *env = &self->env;
	int fd = env->ctx->cmd_fd;
	uint32_t dm = must_alloc(fd);
	struct sweep s = {};

	while (sweep_next(&s)) {
		struct keys keys;
		int err;

		fail_at(s.n);
		err = dm_call_reg(fd, env->pd[0]->handle, dm, 100, DM_SIZE - 100,
				  RWA | IBV_ACCESS_ZERO_BASED, &keys);
		fail_end(&s, err);
		if (!err) {
			check_use(env, keys.rkey, DM_SIZE - 100 - N, IBV_WC_SUCCESS);
			must_succeed(dm_call_free(fd, dm) == EBUSY ? 0 : EINVAL,
				     "a free that is EBUSY");
			must_succeed(mr_dereg(fd, BY_IOCTL, keys.handle), "dereg");
		}
	}
	sweep_end(&s, "REG_DM_MR", "", "");
	/* EBUSY, if an MR of a call that failed is still there. */
	must_succeed(dm_call_free(fd, dm), "free DM");
}

/*
 * It does not fail, but for mlx5, which takes memory for the command that destroys an mkey.  Then
 * the region works, and can be deregistered again.
 */
TEST_F_TIMEOUT(dm_fault, failed_dereg_leaves_the_mr_working, 600)
{
	struct env *env = &self->env;
	int fd = env->ctx->cmd_fd;
	uint32_t dm = must_alloc(fd);

	for (int e = 0; e < NR_ENTRIES; e++) {
		struct sweep s = {};

		while (sweep_next(&s)) {
			struct keys keys;
			int err;

			must_succeed(dm_call_reg(fd, env->pd[0]->handle, dm, 0, DM_SIZE,
						 RWA | IBV_ACCESS_ZERO_BASED, &keys), "reg");
			fail_at(s.n);
			err = mr_dereg(fd, e, keys.handle);
			fail_end(&s, err);
			if (err == ENOMEM && device_driver_id() != RDMA_DRIVER_MLX5)
				fail_case("dereg failed with ENOMEM at point %u", s.n);
			check_use(env, keys.rkey, 0, err ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
			if (err)
				must_succeed(mr_dereg(fd, BY_IOCTL, keys.handle), "dereg");
		}
		sweep_end(&s, entry_name[e], ", deregister device memory", "");
	}
	must_succeed(dm_call_free(fd, dm), "free DM");
}

TEST_F_TIMEOUT(dm_fault, failed_export_leaves_nothing, 600)
{
	struct env *env = &self->env;
	int cmd_fd = env->ctx->cmd_fd, dmabufs = dmabuf_count();
	uint32_t dm = must_alloc(cmd_fd);
	struct sweep s = {};

	while (sweep_next(&s)) {
		struct keys keys;
		int err, fd;

		fail_at(s.n);
		err = dm_export(cmd_fd, dm, &fd);
		fail_end(&s, err);
		if (!err) {
			must_succeed(dm_import(env, fd, &keys), "import");
			check_use(env, keys.rkey, IOVA, IBV_WC_SUCCESS);
			must_succeed(mr_dereg(cmd_fd, BY_IOCTL, keys.handle), "dereg");
			close(fd);
		}
		if (fd_left(env))
			fail_case("an fd is left open after a fault at point %u", s.n);
		if (dmabuf_count() != dmabufs)
			fail_case("a dma-buf is left after a fault at point %u", s.n);
	}
	sweep_end(&s, "EXPORT_DMABUF", "", "");
	must_succeed(dm_call_free(cmd_fd, dm), "free DM");
}

TEST_F_TIMEOUT(dm_fault, failed_import_leaves_nothing, 600)
{
	struct env *env = &self->env;
	int cmd_fd = env->ctx->cmd_fd;
	uint32_t dm = must_alloc(cmd_fd);
	int fd = must_export(cmd_fd, dm);
	struct sweep s = {};

	while (sweep_next(&s)) {
		struct keys keys;
		int err;

		fail_at(s.n);
		err = dm_import(env, fd, &keys);
		fail_end(&s, err);
		if (!err) {
			check_use(env, keys.rkey, IOVA, IBV_WC_SUCCESS);
			must_succeed(mr_dereg(cmd_fd, BY_IOCTL, keys.handle), "dereg");
		}
		check_pinned(env, 0);
	}
	sweep_end(&s, "import device memory", "", "");
	close(fd);
	must_succeed(dm_call_free(cmd_fd, dm), "free DM");
}

/* The operation is the second one, so that another one of the DM is there when it fails. */
TEST_F_TIMEOUT(dm_fault, failed_map_of_an_operation_leaves_nothing, 600)
{
	enum { INCREMENT, TEST_AND_SET };
	struct env *env = &self->env;
	int cmd_fd = env->ctx->cmd_fd, dmabufs = dmabuf_count();
	struct sweep s = {};

	need("mlx5-queues");
	while (sweep_next(&s)) {
		uint32_t dm = must_alloc(cmd_fd);
		int err;

		must_succeed(dm_map_op(cmd_fd, dm, INCREMENT), "map the first operation");
		fail_at(s.n);
		err = dm_map_op(cmd_fd, dm, TEST_AND_SET);
		fail_end(&s, err);
		if (err)
			must_succeed(dm_map_op(cmd_fd, dm, TEST_AND_SET), "map it without a fault");
		must_succeed(dm_call_free(cmd_fd, dm), "free DM");
		check_all_back(env, dmabufs);
	}
	sweep_end(&s, "MAP_OP_ADDR", "", "");
}

/* Two importers, so that one may be told and the other not. */
TEST_F_TIMEOUT(dm_fault, free_under_importers_ends_their_access, 600)
{
	struct env *env = &self->env;
	int cmd_fd = env->ctx->cmd_fd, dmabufs = dmabuf_count();
	struct sweep s = {};

	while (sweep_next(&s)) {
		uint32_t dm = must_alloc(cmd_fd);
		int fd = must_export(cmd_fd, dm), err;
		struct keys keys[2], none;

		for (int i = 0; i < 2; i++) {
			must_succeed(dm_import(env, fd, &keys[i]), "import");
			check_use(env, keys[i].rkey, IOVA, IBV_WC_SUCCESS);
		}
		fail_at(s.n);
		err = dm_call_free(cmd_fd, dm);
		fail_end(&s, err);
		if (err == ENOMEM)
			fail_case("free of a DM failed with ENOMEM at point %u", s.n);
		for (int i = 0; i < 2; i++)
			check_use(env, keys[i].rkey, IOVA,
				  err ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
		if (err)
			must_succeed(dm_call_free(cmd_fd, dm), "free DM without a fault");
		if (dm_import(env, fd, &none) != ENODEV)
			fail_case("import of a freed DM did not return ENODEV");
		for (int i = 0; i < 2; i++)
			must_succeed(mr_dereg(cmd_fd, BY_IOCTL, keys[i].handle), "dereg");
		close(fd);
		check_all_back(env, dmabufs);
	}
	sweep_end(&s, "FREE_DM", " under importers", "");
}

/* The context is another one than the importer's. */
TEST_F_TIMEOUT(dm_fault, close_of_a_context_with_dms_leaves_nothing, 600)
{
	struct env *env = &self->env;
	int cmd_fd = env->ctx->cmd_fd, dmabufs = dmabuf_count();
	struct sweep s = {};

	while (sweep_next(&s)) {
		struct keys keys, own, none;
		struct raw raw;
		uint32_t dm, pd;
		int fd;

		must_succeed(raw_open(&raw, device_file(env), BY_IOCTL), "open a context");
		must_succeed(raw_alloc_pd(&raw, &pd), "alloc PD");
		must_alloc(raw.fd);
		dm = must_alloc(raw.fd);
		must_succeed(dm_call_reg(raw.fd, pd, dm, 0, DM_SIZE, RW | IBV_ACCESS_ZERO_BASED,
					 &own), "reg");
		fd = must_export(raw.fd, dm);
		must_succeed(dm_import(env, fd, &keys), "import");
		check_use(env, keys.rkey, IOVA, IBV_WC_SUCCESS);
		fail_at(s.n);
		close(raw.fd);
		fail_end(&s, 0);
		check_use(env, keys.rkey, IOVA, IBV_WC_REM_ACCESS_ERR);
		if (dm_import(env, fd, &none) != ENODEV)
			fail_case("import of a DM of a closed context did not return ENODEV");
		must_succeed(mr_dereg(cmd_fd, BY_IOCTL, keys.handle), "dereg");
		close(fd);
		check_all_back(env, dmabufs);
	}
	/* A close may have no point of failure. */
	printf("# close: %u points\n", s.n - 1);
}

int main(int argc, char **argv)
{
	return harness_run(argc, argv, faults_prepare);
}
