// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: debug; devices: rxe */
/* runs: debug-full; devices: connectx */
/*
 * Every allocation and every copy of a rereg fails once, and the MR is unchanged: whatever the
 * rereg changes, from and to every kind of memory, by each of the three entries.
 *
 * After a call that fails the MR is unchanged.  After a call that succeeds despite the fault
 * it has the range, PD and memory that the call asked for, and the same keys; on a device
 * that cannot keep them, new memory may have given it other keys.  Such a device has one
 * more point: the copy of the new keys to the user, after everything else is done.
 */
#include "faults/sweep.h"
#include "lib/harness.h"

FIXTURE(rereg_fault)
{
	struct env env;
};

FIXTURE_SETUP(rereg_fault)
{
	faults_open();
	env_open(&self->env, HEAP);
}

FIXTURE_TEARDOWN(rereg_fault)
{
	env_close(&self->env);
	EXPECT_TRUE(nothing_left());
}

/* Whether the only thing that failed was to tell the process the new KEYS of the MR. */
static bool keys_not_told(struct env *env, const struct rereg *r, const struct mr *mr, int err,
			  struct keys *keys)
{
	struct mr_info info;

	if (err != EFAULT || !(r->flags & TRANS) || device_can("keeps-keys"))
		return false;
	if ((errno = mr_query(env->ctx->cmd_fd, mr->keys.handle, &info)))
		fail_case("query MR");
	*keys = (struct keys){ mr->keys.handle, info.lkey, info.rkey };
	return info.lkey != mr->keys.lkey;
}

static void sweep_rereg(struct env *env, enum kind from, const struct rereg *r)
{
	const struct mr before = { .kind = from, .access = RW };
	struct sweep s = {};
	bool have = false;
	struct mr mr;

	while (sweep_next(&s)) {
		struct keys keys;
		int err;

		if (!have) {
			mr = before;
			if ((errno = mr_reg(env, &mr, BY_FD)))
				fail_case("reg of the MR to rereg");
		}
		fail_at(s.n);
		err = rereg_call(env, r, &mr, &keys);
		fail_end(&s, err);
		if (keys_not_told(env, r, &mr, err, &keys))
			err = 0;
		if (!err)
			rereg_done(env, &mr, r, &keys);
		check_mr(env, &mr);
		have = err;
		if (!err)
			must_dereg(env, &mr);
	}
	sweep_end(&s, r->what, " of ", kind_name[from]);
	check_nothing_left(env);
}

static void sweep_reregs(struct env *env, const struct rereg *r, int n)
{
	for (; n; n--, r++)
		for (int from = 0; from < NR_KINDS; from++)
			sweep_rereg(env, from, r);
}

TEST_F_TIMEOUT(rereg_fault, failed_rereg_to_a_dma_buf_changes_nothing, 600)
{
	static const struct rereg r = { "by fd, to a dma-buf,", TRANS, IN_DMABUF, BY_FD };

	sweep_reregs(&self->env, &r, 1);
}

TEST_F_TIMEOUT(rereg_fault, failed_rereg_to_a_memfd_changes_nothing, 600)
{
	static const struct rereg r = { "by fd, to a memfd,", TRANS, IN_MEMFD, BY_FD };

	sweep_reregs(&self->env, &r, 1);
}

TEST_F_TIMEOUT(rereg_fault, failed_rereg_to_host_memory_changes_nothing, 600)
{
	static const struct rereg r = { "REREG_MR, to host memory,", TRANS, IN_HOST, BY_ADDRESS };

	sweep_reregs(&self->env, &r, 1);
}

TEST_F_TIMEOUT(rereg_fault, failed_rereg_to_another_pd_changes_nothing, 600)
{
	static const struct rereg r[] = {
		{ "by fd, other PD,", CHANGE_PD, 0, BY_FD },
		{ "REREG_MR, other PD,", CHANGE_PD, 0, BY_ADDRESS },
	};

	sweep_reregs(&self->env, r, ARRAY_SIZE(r));
}

TEST_F_TIMEOUT(rereg_fault, failed_rereg_to_other_access_changes_nothing, 600)
{
	static const struct rereg r[] = {
		{ "by fd, other access,", CHANGE_ACCESS, 0, BY_FD },
		{ "REREG_MR, other access,", CHANGE_ACCESS, 0, BY_ADDRESS },
	};

	sweep_reregs(&self->env, r, ARRAY_SIZE(r));
}

TEST_F_TIMEOUT(rereg_fault, failed_rereg_of_all_changes_nothing, 600)
{
	static const struct rereg r[] = {
		{ "by fd, all and a dma-buf,", CHANGE_ALL, IN_DMABUF, BY_FD },
		{ "by fd, all and a memfd,", CHANGE_ALL, IN_MEMFD, BY_FD },
		{ "REREG_MR, all,", CHANGE_ALL, IN_HOST, BY_ADDRESS },
	};

	sweep_reregs(&self->env, r, ARRAY_SIZE(r));
}

int main(int argc, char **argv)
{
	return harness_run(argc, argv, faults_prepare);
}
