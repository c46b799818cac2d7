// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: steps; devices: rxe */
/* runs: full debug-full; guest: steps; devices: connectx pinned */
/*
 * Every other step of reg, rereg and dereg fails once: a command that the firmware refuses, a
 * UMR that fails, each step of the exporter, pinning and mapping.  The errno is right and
 * nothing is left.
 *
 * A module makes the steps fail (tests/steps) and not the model of the device, because one
 * mechanism then covers the device, the exporter and the memory, for one thread only, and
 * Soft-RoCE too.  A command and a UMR are changed so that the device itself refuses them:
 * the driver goes its own way through errors, and the queue of UMRs is reset.
 *
 * What a user may rely on: the errno is that of the step.  After a registration that failed
 * nothing is left.  After a rereg that failed the MR is as it was: keys, range, memory, PD
 * and access, and nothing holds the new memory.  A call that succeeds despite a fault has
 * done all of its work, and the old key of the MR opens nothing.
 *
 * The buffers are those of the test exporter, which counts what importers hold of them.
 */
#include "faults/step_module.h"
#include "faults/sweep.h"
#include "lib/case.h"
#include "lib/harness.h"
#include "lib/test_exporter.h"
#include <string.h>

#define ALL_KINDS (1u << IN_DMABUF | 1u << IN_MEMFD | 1u << IN_HOST)
#define MLX5 "mlx5-queues"
#define NO_MKEY "0xffffff00"	/* the device has no such key */

/* What fails, and the errno that the user gets. */
static const struct kind_of_step {
	const char *name;
	const char *how;
	int err;
	const char *need;	/* a word of lib/device.h, or NULL */
	unsigned int kinds;	/* of memory whose registration takes this step */
} steps[] = {
	/* Of 8 bytes there is the opcode and no more: the status is "bad input length". */
	{ "command", "mlx5_cmd_exec argument 3 8", EIO, MLX5, ALL_KINDS },
	{ "UMR", "mlx5r_umr_post_send_wait argument 2 " NO_MKEY, EFAULT, MLX5, ALL_KINDS },
	{ "attach", "dma_buf_dynamic_attach return -16", EBUSY, NULL, 1u << IN_DMABUF },
	{ "pin", "dma_buf_pin return -28", ENOSPC, "gives-back", 1u << IN_DMABUF },
	{ "map", "dma_buf_map_attachment return -121", EREMOTEIO, MLX5, 1u << IN_DMABUF },
	{ "fences", "dma_resv_wait_timeout return -62", ETIME, NULL, 1u << IN_DMABUF },
	{ "begin access", "dma_buf_begin_cpu_access return -5", EIO, "vmap", 1u << IN_DMABUF },
	{ "vmap", "dma_buf_vmap return -121", EREMOTEIO, "vmap", 1u << IN_DMABUF },
	{ "pin pages", "pin_user_pages_fast return -14", EFAULT, NULL, 1u << IN_HOST },
	{ "pin file", "memfd_pin_folios return -28", ENOSPC, NULL, 1u << IN_MEMFD },
	{ "map for DMA", "dma_map_sgtable return -121", EREMOTEIO, MLX5,
	  1u << IN_MEMFD | 1u << IN_HOST },
};

#define NR_STEPS (sizeof(steps) / sizeof(steps[0]))
#define COMMAND (&steps[0])
#define UMR (&steps[1])
#define MOST_KEPT 1000

FIXTURE(step)
{
	struct env env;
	struct step step;		/* set to KIND */
	const struct kind_of_step *kind;
	unsigned int points[NR_STEPS];	/* reached by this case */
	struct mr kept[MOST_KEPT];	/* they have the keys that the driver could use again */
	int nr_kept;
};

typedef FIXTURE_DATA(step) world;

FIXTURE_SETUP(step)
{
	step_open(&self->step);
	env_open(&self->env, TEST_EXPORTER);
}

FIXTURE_TEARDOWN(step)
{
	env_close(&self->env);
	step_close(&self->step);
	EXPECT_TRUE(nothing_left());
}

static bool applies(const struct kind_of_step *k)
{
	return !k->need || device_can(k->need);
}

/*
 * The next step that the device has, with its probe; NULL after the last one.  To set a probe
 * takes longer than a sweep, so all sweeps of a step have the same.
 */
static const struct kind_of_step *next_step(world *self)
{
	const struct kind_of_step *k = self->kind;

	do
		k = k ? k + 1 : steps;
	while (k < steps + NR_STEPS && !applies(k));
	self->kind = k < steps + NR_STEPS ? k : NULL;
	if (self->kind)
		step_set(&self->step, k->how);
	return self->kind;
}

static void only_step(world *self, const struct kind_of_step *k)
{
	self->kind = k;
	step_set(&self->step, k->how);
}

static bool takes(const struct kind_of_step *k, enum kind kind)
{
	return k->kinds & 1u << kind;
}

/*
 * If the step is a command, register memory until the driver has to make a key for it, so that
 * the next registration makes one too.
 */
static void keep_keys(world *self, enum kind kind, int nr, uint32_t access)
{
	struct env *env = &self->env;
	long pinned = pinned_kb();

	if (self->kind != COMMAND)
		return;
	do {
		struct mr *mr = &self->kept[self->nr_kept++];

		if (self->nr_kept == MOST_KEPT)
			fail_case("the driver has more than %d keys", MOST_KEPT);
		*mr = (struct mr){ .kind = kind, .nr = nr, .access = access };
		step_at(&self->step, 0);
		if ((errno = mr_reg(env, mr, BY_FD)))
			fail_case("reg of another MR to keep its key");
		step_end(&self->step);
	} while (!self->step.calls);
	env->pinned += pinned_kb() - pinned;
}

static void let_go(world *self)
{
	long pinned = pinned_kb();

	while (self->nr_kept)
		must_dereg(&self->env, &self->kept[--self->nr_kept]);
	self->env.pinned += pinned_kb() - pinned;
}

/* How many of the MRs are of this memory; MR is one, or NULL. */
static int mrs_of(world *self, enum kind kind, int nr, const struct mr *mr)
{
	int n = mr && mr->kind == kind && mr->nr == nr;

	for (int i = 0; i < self->nr_kept; i++)
		n += self->kept[i].kind == kind && self->kept[i].nr == nr;
	return n;
}

/* Nothing holds a buffer but what these MRs need. */
static void check_buffers(world *self, const struct mr *mr)
{
	bool vmap = device_can("vmap"), pins = device_can("gives-back");

	for (int i = 0; i < 2; i++) {
		struct dmabuf_test_query q = query(self->env.mem[IN_DMABUF][i].fd);
		int n = mrs_of(self, IN_DMABUF, i, mr);

		errno = 0;
		if (q.attachments != n || q.pins != (pins ? n : 0) || q.maps != (vmap ? 0 : n) ||
		    q.brackets != (vmap ? n : 0) || q.vmaps != (vmap && n))
			fail_case("%d MRs have %u attachments, %u pins, %u maps, %u brackets, "
				  "%u vmaps", n, q.attachments, q.pins, q.maps, q.brackets,
				  q.vmaps);
	}
}

/* An operation that the MR does not permit, by the pair of PD. */
static void check_refused(struct env *env, int pd, bool atomic, uint32_t rkey, uint64_t at)
{
	struct pair *pair = &env->pair[pd];
	struct ibv_mr *local = env->local_mr[pd];
	enum ibv_wc_status status;

	if (atomic)
		status = atomic_op(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, local, at, rkey, 1, 0);
	else
		status = rdma_op(pair, IBV_WR_RDMA_WRITE, local, env->local.iova, 100, at, rkey);
	pair_connect(pair, IBV_MTU_1024);
	errno = 0;
	if (status != IBV_WC_REM_ACCESS_ERR)
		fail_case("%s at %#lx from PD %d was not refused: %s", atomic ? "atomic" : "write",
			  (unsigned long)at, pd, ibv_wc_status_str(status));
}

/* The MR has its memory, rights, PD and range, and no others. */
static void check_all_of_mr(world *self, const struct mr *mr)
{
	struct env *env = &self->env;

	check_mr(env, mr);
	if (!(mr->access & REMOTE_ATOMIC))
		check_refused(env, mr->pd, true, mr->keys.rkey, iova_of(mr->nr));
	check_refused(env, !mr->pd, false, mr->keys.rkey, iova_of(mr->nr));
	check_refused(env, mr->pd, false, mr->keys.rkey, iova_of(!mr->nr));
	check_refused(env, mr->pd, false, mr->keys.rkey, iova_of(mr->nr) + SIZE - 50);
	check_buffers(self, mr);
}

/* What the call of this round has returned, and whether it came to its step. */
static void round_end(world *self, struct sweep *s, int err)
{
	const struct kind_of_step *k = self->kind;
	bool failed = step_end(&self->step);

	s->over = !failed;
	s->errors += !!err;
	self->points[k - steps] += failed;
	errno = err;
	if (err && !failed)
		fail_case("call %u of \"%s\" was not reached, and yet an error", s->n, k->name);
	if (err && err != k->err && err != ENOTRECOVERABLE)
		fail_case("call %u of \"%s\" failed, and the errno is not %s", s->n, k->name,
			  strerror(k->err));
}

static void sweep_done(world *self, const struct sweep *s, const char *what, enum kind of)
{
	let_go(self);
	if (s->n > 1)
		printf("# %s%s: %u of \"%s\", %u errors\n", what, kind_name[of], s->n - 1,
		       self->kind->name, s->errors);
	check_nothing_left(&self->env);
}

static void sweep_reg(world *self, enum kind kind)
{
	struct env *env = &self->env;
	struct mr mr = { .kind = kind, .access = RW };
	struct sweep s = {};

	keep_keys(self, kind, 0, RW);
	while (sweep_next(&s)) {
		int err;

		step_at(&self->step, s.n);
		err = mr_reg(env, &mr, BY_FD);
		round_end(self, &s, err);
		if (!err) {
			check_all_of_mr(self, &mr);
			must_dereg(env, &mr);
		}
		check_pinned(env, 0);
		check_buffers(self, NULL);
	}
	sweep_done(self, &s, "register ", kind);
}

static void check_reached(world *self)
{
	errno = 0;
	for (const struct kind_of_step *k = steps; k < steps + NR_STEPS; k++)
		if (applies(k) && !self->points[k - steps])
			fail_case("no system call of the case reached the step \"%s\"", k->name);
}

TEST_F_TIMEOUT(step, failed_reg_leaves_nothing, 600)
{
	while (next_step(self))
		for (int kind = 0; kind < NR_KINDS; kind++)
			sweep_reg(self, kind);
	check_reached(self);
}

static void reg(world *self, struct mr *mr)
{
	if ((errno = mr_reg(&self->env, mr, BY_FD)))
		fail_case("reg without a fault");
}

/* One rereg in which a step may fail; MR is afterwards as it should be.  Returns its errno. */
static int rereg_round(world *self, struct sweep *s, const struct rereg *r, struct mr *mr)
{
	const struct mr was = *mr;
	struct keys keys;
	int err;

	step_at(&self->step, s->n);
	err = rereg_call(&self->env, r, mr, &keys);
	round_end(self, s, err);
	if (!err)
		rereg_done(&self->env, mr, r, &keys);
	if (err == ENOTRECOVERABLE)
		return err;
	check_all_of_mr(self, mr);
	if (mr->keys.rkey != was.keys.rkey)
		check_refused(&self->env, was.pd, false, was.keys.rkey, iova_of(was.nr));
	return err;
}

static void sweep_rereg(world *self, enum kind from, const struct rereg *r)
{
	struct env *env = &self->env;
	struct sweep s = {};
	bool have = false;
	struct mr mr;
	int err;

	if (r->flags & TRANS)
		keep_keys(self, r->to, 1, RW);
	else
		keep_keys(self, from, 0, RW | env->more_access);
	while (sweep_next(&s)) {
		if (!have) {
			mr = (struct mr){ .kind = from, .access = RW };
			reg(self, &mr);
		}
		err = rereg_round(self, &s, r, &mr);
		if (err == ENOTRECOVERABLE)
			fail_case("rereg with call %u of \"%s\" failing lost the MR", s.n,
				  self->kind->name);
		have = err;
		if (!err)
			must_dereg(env, &mr);
	}
	sweep_done(self, &s, r->what, from);
}

static void sweep_to(world *self, enum kind to)
{
	struct rereg r[] = {
		{ "other memory, from ", TRANS, to, BY_FD },
		{ "other memory and PD, from ", TRANS | CHANGE_PD, to, BY_FD },
		{ "other memory and access, from ", TRANS | CHANGE_ACCESS, to, BY_FD },
		{ "other memory, PD and access, from ", CHANGE_ALL, to, BY_FD },
	};

	printf("# to %s: \"%s\"\n", kind_name[to], self->kind->name);
	for (int from = 0; from < NR_KINDS; from++)
		for (int i = 0; i < sizeof(r) / sizeof(r[0]); i++)
			sweep_rereg(self, from, &r[i]);
}

TEST_F_TIMEOUT(step, failed_rereg_to_other_memory_changes_nothing, 600)
{
	while (next_step(self))
		for (int to = 0; to < NR_KINDS; to++)
			if (takes(self->kind, to))
				sweep_to(self, to);
	check_reached(self);
}

TEST_F_TIMEOUT(step, failed_rereg_of_pd_or_access_changes_nothing, 600)
{
	static const struct rereg r[] = {
		{ "other PD of ", CHANGE_PD, 0, BY_FD },
		{ "other access of ", CHANGE_ACCESS, 0, BY_FD },
		{ "other PD and access of ", CHANGE_PD | CHANGE_ACCESS, 0, BY_FD },
		{ "REREG_MR, other PD of ", CHANGE_PD, 0, BY_ADDRESS },
		{ "REREG_MR, other access of ", CHANGE_ACCESS, 0, BY_ADDRESS },
	};

	need(MLX5);	/* nothing else than a UMR can fail */
	only_step(self, UMR);
	for (int from = 0; from < NR_KINDS; from++)
		for (int i = 0; i < sizeof(r) / sizeof(r[0]); i++)
			sweep_rereg(self, from, &r[i]);
	ASSERT_LE(NR_KINDS * sizeof(r) / sizeof(r[0]), self->points[UMR - steps]);
}

/* Rights that the keys of mlx5 cannot have added: the same memory gets another key. */
static void sweep_rights(world *self, enum kind kind, uint32_t more_access)
{
	const struct rereg r = { "rights that need another key, of ", CHANGE_PD | CHANGE_ACCESS,
				 0, BY_FD };

	self->env.more_access = more_access;
	while (next_step(self))
		sweep_rereg(self, kind, &r);
}

TEST_F_TIMEOUT(step, failed_rereg_to_new_keys_changes_nothing, 600)
{
	need(MLX5);
	sweep_rights(self, IN_HOST, IBV_ACCESS_HUGETLB);
	sweep_rights(self, IN_MEMFD, IBV_ACCESS_HUGETLB);
	if (device_can("on-demand"))
		sweep_rights(self, IN_HOST, IBV_ACCESS_ON_DEMAND);
	ASSERT_LT(0, self->points[COMMAND - steps]);
	ASSERT_LT(0, self->points[UMR - steps]);
}

/* An MR that is lost: it opens nothing, and its handle is good for a dereg only. */
static void check_lost(world *self, const struct mr *mr)
{
	const struct rereg again[] = {
		{ "", CHANGE_ALL, IN_DMABUF, BY_FD }, { "", CHANGE_ACCESS, 0, BY_FD },
		{ "", CHANGE_ALL, IN_HOST, BY_ADDRESS }, { "", CHANGE_PD, 0, BY_ADDRESS },
	};
	struct keys keys;

	for (int pd = 0; pd < 2; pd++)
		for (int nr = 0; nr < 2; nr++)
			check_refused(&self->env, pd, false, mr->keys.rkey, iova_of(nr));
	for (int i = 0; i < sizeof(again) / sizeof(again[0]); i++)
		if ((errno = rereg_call(&self->env, &again[i], mr, &keys)) != ENOTRECOVERABLE)
			fail_case("rereg %d of a lost MR did not return ENOTRECOVERABLE", i);
}

/*
 * REREG_MR gives a key other memory in place, as upstream does, if the key was used before and
 * has room for the new list of pages, as it has for that of the same memory (NR is 1).  It
 * revokes the key and fills it again, by a UMR each.  If the first fails the MR is as it was,
 * if the second does it is lost.  Every other step comes before the first.
 */
static void sweep_in_place(world *self, enum kind from, int nr, uint32_t flags)
{
	const struct rereg r = { "REREG_MR in place, of ", flags, IN_HOST, BY_ADDRESS };
	struct env *env = &self->env;
	struct sweep s = {};
	struct keys keys;
	struct mr before = { .kind = from, .nr = nr, .access = RW };
	int lost = 0;

	reg(self, &before);
	must_dereg(env, &before);
	while (sweep_next(&s)) {
		struct mr mr = { .kind = from, .nr = nr, .access = RW };
		int err;

		reg(self, &mr);
		step_at(&self->step, s.n);
		err = rereg_call(env, &r, &mr, &keys);
		round_end(self, &s, err);
		if (err && self->kind == UMR && s.n == 2) {
			check_lost(self, &mr);
			lost++;
		} else {
			if (!err)
				rereg_done(env, &mr, &r, &keys);
			check_all_of_mr(self, &mr);
		}
		must_dereg(env, &mr);
		check_pinned(env, 0);
	}
	errno = 0;
	if (self->kind == UMR && nr && lost != 1)
		fail_case("%d MRs were lost, not 1: the rereg was not in place", lost);
	sweep_done(self, &s, r.what, from);
}

TEST_F_TIMEOUT(step, only_a_failed_second_umr_loses_the_mr, 600)
{
	need(MLX5);
	while (next_step(self)) {
		for (int i = 0; takes(self->kind, IN_HOST) && i < 2; i++) {
			sweep_in_place(self, IN_MEMFD, 0, i ? TRANS : CHANGE_ALL);
			sweep_in_place(self, IN_HOST, 0, i ? TRANS : CHANGE_ALL);
			sweep_in_place(self, IN_HOST, 1, i ? TRANS : CHANGE_ALL);
		}
	}
	ASSERT_LT(0, self->points[UMR - steps]);
}

/* A key that cannot be revoked is destroyed, so a dereg succeeds despite the fault. */
static void dereg_despite(world *self, enum kind kind)
{
	struct env *env = &self->env;
	struct sweep s = {};

	while (sweep_next(&s)) {
		struct mr mr = { .kind = kind, .access = RW };

		reg(self, &mr);
		step_at(&self->step, s.n);
		round_end(self, &s, mr_dereg(env->ctx->cmd_fd, BY_IOCTL, mr.keys.handle));
		if (s.errors)
			fail_case("dereg of %s failed by a fault in UMR %u", kind_name[kind], s.n);
		check_refused(env, 0, false, mr.keys.rkey, iova_of(0));
		check_pinned(env, 0);
		check_buffers(self, NULL);
	}
	sweep_done(self, &s, "deregister ", kind);
}

/* If it cannot be destroyed either, the MR stays, with its memory, and the next dereg works. */
static void dereg_again(world *self, enum kind kind)
{
	struct env *env = &self->env;
	struct mr mr = { .kind = kind, .access = RW };
	struct step destroy = {};

	reg(self, &mr);
	step_open(&destroy);
	step_set(&destroy, "mlx5_core_destroy_mkey return -5");
	step_at(&self->step, 1);
	step_at(&destroy, 1);
	errno = mr_dereg(env->ctx->cmd_fd, BY_IOCTL, mr.keys.handle);
	if (!step_end(&destroy) || !step_end(&self->step) || errno != EIO)
		fail_case("dereg of %s did not fail with EIO after both faults", kind_name[kind]);
	step_close(&destroy);
	check_all_of_mr(self, &mr);
	must_dereg(env, &mr);
	check_refused(env, 0, false, mr.keys.rkey, iova_of(0));
	check_buffers(self, NULL);
	check_nothing_left(env);
}

TEST_F_TIMEOUT(step, dereg_succeeds_or_can_be_repeated, 600)
{
	need(MLX5);
	only_step(self, UMR);
	for (int kind = 0; kind < NR_KINDS; kind++) {
		dereg_despite(self, kind);
		dereg_again(self, kind);
	}
	ASSERT_LE(NR_KINDS, self->points[UMR - steps]);
}

/*
 * The new key is there before the old one ends.  If the device refuses to end the old one in
 * both ways that there are, it has failed, and the old key still opens the old memory.  That
 * memory is held, for nobody else to get, until the context is closed.
 */
static void keep_old_memory(world *self, struct raw *raw, uint32_t pd)
{
	struct memory *mem = self->env.mem[IN_DMABUF];
	struct fd_call c = { .pd = pd, .access = RW, .type = IB_UVERBS_BUFFER_TYPE_DMABUF,
			     .fd = mem[0].fd, .length = SIZE };
	struct step destroy = {};
	struct keys old, new;

	if ((errno = fd_call(raw->fd, &c, &old)))
		fail_case("reg of the old memory");
	c = (struct fd_call){ .rereg = true, .mr = old.handle, .flags = TRANS, .fd = mem[1].fd,
			      .type = IB_UVERBS_BUFFER_TYPE_DMABUF, .length = SIZE };
	step_open(&destroy);
	step_set(&destroy, "mlx5_core_destroy_mkey return -5");
	step_at(&destroy, 1);
	step_at(&self->step, 2);
	errno = fd_call(raw->fd, &c, &new);
	if (errno || !step_end(&self->step) || !step_end(&destroy) || new.rkey == old.rkey)
		fail_case("rereg failed, missed a fault or kept the key");
	step_close(&destroy);
}

TEST_F(step, memory_of_an_unrevoked_key_stays_held)
{
	struct env *env = &self->env;
	struct raw raw;
	uint32_t pd;

	need(MLX5);
	ASSERT_EQ(0, raw_open(&raw, device_file(env), BY_IOCTL));
	ASSERT_EQ(0, raw_alloc_pd(&raw, &pd));
	only_step(self, UMR);
	keep_old_memory(self, &raw, pd);
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(1, query(env->mem[IN_DMABUF][i].fd).attachments);
	raw_close(&raw);
	check_buffers(self, NULL);
	check_nothing_left(env);
}

int main(int argc, char **argv)
{
	return harness_run(argc, argv, steps_prepare);
}
