// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; devices: rxe */
/* runs: full; devices: connectx */
/*
 * Another process, another PD, a dead key or a missing right permits no operation on an MR, be
 * it of ordinary memory, a dma-buf or a memfd.
 *
 * Who can reach an MR:
 *
 * - another process cannot, neither by its handle nor by its keys, known or guessed;
 * - a queue pair of another PD cannot, by any operation, at either end;
 * - nobody can after dereg has returned: its keys stay dead, even when there is another
 *   MR in its place;
 * - an operation can if the MR has the right that it needs, from its registration or its
 *   last rereg.  The rights of another MR of the same memory do not count.
 *
 * After each refusal a case looks whether a byte has changed.
 */
#include "lib/counts.h"
#include "lib/harness.h"
#include "lib/memory.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/uverbs.h"
#include <sys/mman.h>
#include <sys/wait.h>

#define SIZE (4 * PAGE)
#define HANDLES 64		/* to guess */
#define N 3000			/* bytes of an operation: three packets */

FIXTURE(secure)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd[2];
	struct memory at, local;
	struct ibv_mr *mr;	/* of AT, in pd[0] */
	struct ibv_mr *local_mr[2];	/* of LOCAL, one in each PD */
};

FIXTURE_VARIANT(secure)
{
	enum memory_kind kind;
};

FIXTURE_VARIANT_ADD(secure, host) { .kind = HOST };
FIXTURE_VARIANT_ADD(secure, on_demand) { .kind = ON_DEMAND };
FIXTURE_VARIANT_ADD(secure, dma_buf) { .kind = VGEM };
FIXTURE_VARIANT_ADD(secure, memfd) { .kind = MEMFD };

FIXTURE_SETUP(secure)
{
	self->ctx = device_open();
	memory_open_filled(&self->at, variant->kind, SIZE, 1);
	memory_open_filled(&self->local, HOST, SIZE, 2);
	for (int i = 0; i < 2; i++) {
		self->pd[i] = must(ibv_alloc_pd(self->ctx));
		self->local_mr[i] = memory_reg(&self->local, self->pd[i], ALL_ACCESS);
	}
	self->mr = memory_reg(&self->at, self->pd[0], memory_rights(&self->at));
}

FIXTURE_TEARDOWN(secure)
{
	if (self->mr)
		mr_close(self->mr);
	for (int i = 0; i < 2; i++) {
		mr_close(self->local_mr[i]);
		pd_close(self->pd[i]);
	}
	memory_close(&self->at);
	memory_close(&self->local);
	device_close(self->ctx);
	EXPECT_TRUE(nothing_left());
}

/* What can be done to an MR, from either end. */
static const struct op {
	const char *name;
	enum ibv_wr_opcode opcode;
	bool atomic_write;	/* ibv_post_send() has no opcode for it */
	bool at_requester;	/* the request names the MR, by its lkey */
	bool changes;
	int needs;
} ops[] = {
	{ "remote write", IBV_WR_RDMA_WRITE, .changes = true, .needs = WRITE_ACCESS },
	{ "remote read", IBV_WR_RDMA_READ, .needs = REMOTE_READ },
	{ "fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD, .changes = true,
	  .needs = LOCAL_WRITE | REMOTE_ATOMIC },
	{ "compare and swap", IBV_WR_ATOMIC_CMP_AND_SWP, .changes = true,
	  .needs = LOCAL_WRITE | REMOTE_ATOMIC },
	{ "atomic write", .atomic_write = true, .changes = true, .needs = WRITE_ACCESS },
	{ "receive", IBV_WR_SEND, .changes = true, .needs = LOCAL_WRITE },
	{ "write from it", IBV_WR_RDMA_WRITE, .at_requester = true },
	{ "send from it", IBV_WR_SEND, .at_requester = true },
	{ "read into it", IBV_WR_RDMA_READ, .at_requester = true, .changes = true,
	  .needs = LOCAL_WRITE },
};
#define NR_OPS (sizeof(ops) / sizeof(*ops))

static bool possible(const struct op *op)
{
	if (op->atomic_write)
		return device_can("atomic-write");
	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		return device_can("atomics");
	return true;
}

#define for_each_op(op)								\
	for (const struct op *op = ops; op < ops + NR_OPS; op++)		\
		if (possible(op))

/*
 * One operation on MR at ADDR.  It uses new queue pairs, because a refusal puts them into
 * the error state.  The end that uses the MR is in pd[USER], the other one in pd[0].
 */
static enum ibv_wc_status do_op(FIXTURE_DATA(secure) *self, const struct op *op,
				const struct ibv_mr *mr, uint64_t addr, int user)
{
	struct ibv_pd *ends[2] = { self->pd[0], self->pd[0] };
	struct ibv_mr *other = self->local_mr[0], named = *mr;
	uint64_t local = self->local.iova;
	enum ibv_wc_status status;
	struct pair pair;

	ends[!op->at_requester] = self->pd[user];
	pair_open(&pair, self->ctx, ends);
	if (op->atomic_write) {
		status = atomic_write(&pair, addr, mr->rkey, 0x1122334455667788);
	} else if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
		   op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		uint64_t now = *(uint64_t *)self->at.cpu;

		status = atomic_op(&pair, op->opcode, other, addr, mr->rkey,
				   op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? now : 1, ~now);
	} else if (op->at_requester) {
		if (op->opcode == IBV_WR_SEND)
			post_recv(&pair, other, local, N);
		status = rdma_op(&pair, op->opcode, &named, addr, N, local, other->rkey);
	} else {
		if (op->opcode == IBV_WR_SEND)
			post_recv(&pair, &named, addr, N);
		status = rdma_op(&pair, op->opcode, other, local, N, addr, mr->rkey);
	}
	pair_close(&pair);
	return status;
}

/* Whether the operation succeeds and its bytes are where they belong. */
static bool carried_out(FIXTURE_DATA(secure) *self, const struct op *op, struct ibv_mr *mr)
{
	static uint32_t seed;

	fill(self->at.cpu, SIZE, ++seed);
	fill(self->local.cpu, SIZE, ++seed);
	memory_mark(&self->at);
	if (do_op(self, op, mr, self->at.iova, 0))
		return false;
	if (op->changes && op->opcode <= IBV_WR_RDMA_READ && !op->atomic_write)
		return filled(self->at.cpu, N, seed, op->name) &&
		       memory_only_changed(&self->at, 0, N);
	if (op->changes)
		return memcmp(self->at.cpu, self->at.before, 8) &&
		       memory_only_changed(&self->at, 0, 8);
	return memory_untouched(&self->at) && filled(self->local.cpu, N, seed - 1, op->name);
}

/* Whether the operation fails and no byte has changed. */
static bool refused(FIXTURE_DATA(secure) *self, const struct op *op, const struct ibv_mr *mr,
		    uint64_t addr, int user)
{
	static uint32_t seed = 1000;

	fill(self->at.cpu, SIZE, ++seed);
	fill(self->local.cpu, SIZE, ++seed);
	memory_mark(&self->at);
	if (do_op(self, op, mr, addr, user) == IBV_WC_SUCCESS) {
		printf("# %s succeeded, but must be refused\n", op->name);
		return false;
	}
	return memory_untouched(&self->at) && filled(self->local.cpu, SIZE, seed, op->name);
}

/* 1. Another process */

enum call {
	QUERY, REREG, REREG_FD, REG_IN_PD, REG_FD_IN_PD, WINDOW_IN_PD, DEREG_BY_WRITE,
	 DEREG_BY_IOCTL, NR_CALLS
};

static const char *const call_names[NR_CALLS] = {
	"query", "rereg", "rereg to a memfd", "registration in the PD", "registration of a memfd in the PD", "window in the PD",
	"dereg by write()", "dereg by ioctl()",
};

/*
 * A call that names an MR or a PD by HANDLE and is correct otherwise.  A rereg takes every
 * right away, or moves the MR to other memory.  Returns 0 or an errno.
 */
static int call_on(int fd, enum call call, uint32_t handle, int memfd)
{
	static uint8_t page[PAGE] __attribute__((aligned(PAGE)));
	struct fd_call reg = {
		.pd = handle, .access = LOCAL_WRITE, .type = IBV_MR_FD_TYPE_MEMFD, .fd = memfd,
		.length = PAGE,
	}, rereg = {
		.rereg = true, .mr = handle, .flags = TRANS,
		.type = IBV_MR_FD_TYPE_MEMFD, .fd = memfd, .length = PAGE,
	};
	struct mr_info info;
	struct keys keys;

	switch (call) {
	case QUERY:
		return mr_query(fd, handle, &info);
	case REREG:
		return host_rereg(fd, handle, CHANGE_ACCESS, 0, 0, 0, 0, 0, &keys);
	case REREG_FD:
		return fd_call(fd, &rereg, &keys);
	case REG_IN_PD:
		return host_reg(fd, handle, (uintptr_t)page, PAGE, (uintptr_t)page, LOCAL_WRITE,
				&keys);
	case REG_FD_IN_PD:
		return fd_call(fd, &reg, &keys);
	case WINDOW_IN_PD:
		return mw_alloc(fd, handle);
	case DEREG_BY_WRITE:
		return mr_dereg(fd, BY_WRITE, handle);
	default:
		return mr_dereg(fd, BY_IOCTL, handle);
	}
}

/* Whether the kernel can carry it out on this device. */
static bool has_call(enum call call)
{
	switch (call) {
	case REREG_FD:
		return device_can("rereg_mr_fd");
	case REG_FD_IN_PD:	/* of a memfd */
		return device_can("native");
	default:
		return true;
	}
}

static bool names_pd(enum call call)
{
	return call == REG_IN_PD || call == REG_FD_IN_PD || call == WINDOW_IN_PD;
}

/* What FN(arg) returns in a process of its own. */
static bool in_other_process(bool (*fn)(void *), void *arg)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		bool good = fn(arg);

		fflush(NULL);
		_exit(good ? 0 : 1);
	}
	if (waitpid(pid, &status, 0) != pid)
		fail_case("waitpid");
	return !status;
}

/*
 * Handles of the first process must not work in this one.  Try them without any object in
 * this process, and then with a PD, which a guessed handle may name.
 */
static bool guess_handles(void *arg)
{
	int memfd = memfd_of(PAGE, 0);
	bool good = true;

	for (int with_pd = 0; with_pd < 2; with_pd++) {
		struct ibv_context *ctx = device_open();
		struct ibv_pd *pd = with_pd ? must(ibv_alloc_pd(ctx)) : NULL;

		for (enum call call = 0; call < NR_CALLS; call++) {
			for (uint32_t handle = 0; has_call(call) && handle < HANDLES; handle++) {
				int err;

				if (pd && names_pd(call) && handle == pd->handle)
					continue;
				err = call_on(ctx->cmd_fd, call, handle, memfd);
				if (err == ENOENT || err == EINVAL)
					continue;
				printf("# %s of guessed handle %u: %s\n", call_names[call],
				       handle, strerror(err));
				good = false;
			}
		}
		if (pd && ibv_dealloc_pd(pd))
			good = false;	/* something uses the PD */
		device_close(ctx);
	}
	return good;
}

TEST_F(secure, guessed_handles_fail_in_another_process)
{
	int memfd = memfd_of(PAGE, 0);

	ASSERT_GT(HANDLES, self->mr->handle);
	ASSERT_GT(HANDLES, self->pd[1]->handle);
	EXPECT_TRUE(in_other_process(guess_handles, NULL));
	for_each_op(op) {
		EXPECT_TRUE(carried_out(self, op, self->mr)) {
			TH_LOG("%s by the owner of the MR", op->name);
		}
	}

	/* In the process that has the objects each call works. */
	for (enum call call = 0; call < NR_CALLS; call++) {
		struct ibv_context *ctx;
		struct ibv_pd *pd;
		struct ibv_mr *mr;

		if (!has_call(call))
			continue;
		ctx = device_open();
		pd = must(ibv_alloc_pd(ctx));
		/* Not on demand: a rereg of the access alone may not end that. */
		mr = memory_of_process(&self->at) ?
		     must(ibv_reg_mr(pd, self->at.cpu, self->at.size, memory_rights(&self->at))) :
		     memory_reg(&self->at, pd, memory_rights(&self->at));
		EXPECT_EQ(0, call_on(ctx->cmd_fd, call, names_pd(call) ? pd->handle : mr->handle,
				     memfd)) {
			TH_LOG("%s in the process that has the object", call_names[call]);
		}
		device_close(ctx);	/* it releases whatever the call has made */
	}
	close(memfd);
}

struct stolen {
	struct ibv_mr mr;
	uint64_t addr;
};

/* A process with memory, a PD and queue pairs that knows or guesses keys. */
static bool use_keys(void *arg)
{
	struct stolen *keys = arg;
	FIXTURE_DATA(secure) self = { .ctx = device_open() };
	bool good = true;

	/* This process cannot see the memory of the MR; the case looks at it afterwards. */
	memory_open_filled(&self.at, HOST, SIZE, 1);
	memory_open_filled(&self.local, HOST, SIZE, 2);
	self.pd[0] = must(ibv_alloc_pd(self.ctx));
	self.local_mr[0] = memory_reg(&self.local, self.pd[0], ALL_ACCESS);
	for_each_op(op)
		good &= refused(&self, op, &keys->mr, keys->addr, 0);
	/* Every key of the MR's index, and keys of the indices around it */
	for (int i = 0; i < 256 + 2 * 16; i++) {
		uint32_t index = keys->mr.rkey >> 8, low = keys->mr.rkey & 0xff;
		struct ibv_mr mr = keys->mr;

		mr.rkey = mr.lkey = i < 256 ? index << 8 | i : (index + i - 256 - 16) << 8 | low;
		if (mr.rkey == self.local_mr[0]->rkey)
			continue;
		if (possible(&ops[i % NR_OPS]))
			good &= refused(&self, &ops[i % NR_OPS], &mr, keys->addr, 0);
	}
	return good;
}

TEST_F_TIMEOUT(secure, keys_fail_in_another_process, 120)
{
	struct stolen keys = { .mr = *self->mr, .addr = self->at.iova };

	fill(self->at.cpu, SIZE, 77);
	memory_mark(&self->at);
	EXPECT_TRUE(in_other_process(use_keys, &keys));
	EXPECT_TRUE(memory_untouched(&self->at));
	for_each_op(op) {
		EXPECT_TRUE(carried_out(self, op, self->mr)) {
			TH_LOG("%s by the owner of the MR", op->name);
		}
	}
}

/* 2. Another PD */

TEST_F(secure, qp_of_another_pd_is_refused)
{
	for_each_op(op) {
		EXPECT_TRUE(refused(self, op, self->mr, self->at.iova, 1)) {
			TH_LOG("%s by a QP of another PD", op->name);
		}
		EXPECT_TRUE(carried_out(self, op, self->mr)) {
			TH_LOG("%s by the owner of the MR", op->name);
		}
	}
}

TEST_F(secure, qp_of_the_old_pd_is_refused_after_rereg)
{
	for (int to = 1; to >= 0; to--) {
		ASSERT_EQ(0, memory_rereg(self->mr, CHANGE_PD, self->pd[to], &self->at, 0));
		for_each_op(op) {
			EXPECT_TRUE(refused(self, op, self->mr, self->at.iova, !to)) {
				TH_LOG("%s by a QP of the old PD", op->name);
			}
			EXPECT_EQ(IBV_WC_SUCCESS, do_op(self, op, self->mr,
							self->at.iova, to)) {
				TH_LOG("%s by a QP of the new PD", op->name);
			}
		}
	}
}

/* 3. Dead keys */

static void dies_with_dereg(struct __test_metadata *_metadata, FIXTURE_DATA(secure) *self)
{
	for_each_op(op) {
		struct ibv_mr dead = *self->mr;

		ASSERT_EQ(IBV_WC_SUCCESS, do_op(self, op, self->mr, self->at.iova, 0));
		ASSERT_EQ(0, ibv_dereg_mr(self->mr));
		self->mr = NULL;
		EXPECT_TRUE(refused(self, op, &dead, self->at.iova, 0));
		/* A new MR of the same memory, PD and rights has another key. */
		self->mr = memory_reg(&self->at, self->pd[0], memory_rights(&self->at));
		if (!device_can("new-keys"))
			continue;
		ASSERT_NE(dead.rkey, self->mr->rkey);
		EXPECT_TRUE(refused(self, op, &dead, self->at.iova, 0));
	}
}

TEST_F_TIMEOUT(secure, keys_stay_invalid_after_dereg, 60)
{
	for (int i = 0; i < 3; i++)
		dies_with_dereg(_metadata, self);
}

/*
 * On a pair that stays connected and has just used the MR, the first operation after the
 * return of dereg is refused.
 */
TEST_F_TIMEOUT(secure, keys_are_invalid_as_soon_as_dereg_returns, 60)
{
	for (int i = 0; i < 50; i++) {
		struct ibv_pd *ends[2] = { self->pd[0], self->pd[0] };
		uint32_t rkey = self->mr->rkey;
		struct pair pair;

		pair_open(&pair, self->ctx, ends);
		for (int n = 0; n < 3; n++)
			ASSERT_EQ(IBV_WC_SUCCESS,
				  rdma_op(&pair, IBV_WR_RDMA_WRITE, self->local_mr[0],
					  self->local.iova, N, self->at.iova, rkey));
		fill(self->local.cpu, SIZE, i);
		memory_mark(&self->at);
		ASSERT_EQ(0, ibv_dereg_mr(self->mr));
		self->mr = NULL;
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
			  rdma_op(&pair, IBV_WR_RDMA_WRITE, self->local_mr[0],
				  self->local.iova, N, self->at.iova, rkey));
		EXPECT_TRUE(memory_untouched(&self->at));
		pair_close(&pair);
		self->mr = memory_reg(&self->at, self->pd[0], memory_rights(&self->at));
	}
}

/* 4. Rights */

/* Every valid set of rights: remote write and remote atomic need local write. */
static const int rights[] = {
	0, REMOTE_READ, LOCAL_WRITE, LOCAL_WRITE | REMOTE_READ, WRITE_ACCESS,
	LOCAL_WRITE | REMOTE_ATOMIC, RW, LOCAL_WRITE | REMOTE_READ | REMOTE_ATOMIC,
	WRITE_ACCESS | REMOTE_ATOMIC, ALL_ACCESS,
};
#define NR_RIGHTS (sizeof(rights) / sizeof(*rights))

static void has_rights(struct __test_metadata *_metadata, FIXTURE_DATA(secure) *self,
		       struct ibv_mr *mr, int access)
{
	for_each_op(op) {
		if ((access & op->needs) == op->needs) {
			EXPECT_TRUE(carried_out(self, op, mr)) {
				TH_LOG("%s with the rights %#x", op->name, access);
			}
		} else {
			EXPECT_TRUE(refused(self, op, mr, self->at.iova, 0)) {
				TH_LOG("%s with the rights %#x", op->name, access);
			}
		}
	}
}

/* Another MR of the same memory has every right; it must make no difference. */
TEST_F_TIMEOUT(secure, rights_are_those_of_the_registration, 120)
{
	for (int i = 0; i < NR_RIGHTS; i++) {
		int access = rights[i] & memory_rights(&self->at);
		struct ibv_mr *mr = memory_reg(&self->at, self->pd[0], access);

		has_rights(_metadata, self, mr, access);
		EXPECT_EQ(0, ibv_dereg_mr(mr));
	}
	has_rights(_metadata, self, self->mr, RWA);
}

TEST_F_TIMEOUT(secure, rights_are_those_of_the_last_rereg, 120)
{
	/* From many to few and from few to many */
	for (int i = 0; i < 2 * NR_RIGHTS; i++) {
		int access = rights[i % 2 ? i / 2 : NR_RIGHTS - 1 - i / 2];

		if (memory_rereg(self->mr, CHANGE_ACCESS, NULL, &self->at, access)) {
			/* Memory that was pinned for reading only may stay so. */
			ASSERT_TRUE(errno == EINVAL || errno == EACCES) { TH_LOG("%m"); }
			ASSERT_EQ(0, memory_rereg(self->mr, CHANGE_ACCESS |
						 TRANS, NULL, &self->at,
						 access));
		}
		has_rights(_metadata, self, self->mr, access);
	}
}

TEST_HARNESS_MAIN
