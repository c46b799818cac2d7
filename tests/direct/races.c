// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: smp; devices: direct */
/*
 * The second function comes and goes while four threads register, reregister and deregister by
 * it: each call works, or says that the function is not there.  An ordinary MR notices nothing,
 * and in the end nothing is left.
 *
 * Each thread has its own MR.  The case ends when every thread has met both answers often enough,
 * so it does not depend on how fast the machine is.
 */
#include "direct/calls.h"
#include "lib/case.h"
#include "lib/clock.h"
#include "lib/counts.h"
#include "lib/depth.h"
#include "lib/device.h"
#include "lib/harness.h"
#include "lib/pair.h"
#include "lib/pattern.h"
#include "lib/second.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define SIZE (4 * PAGE)
#define THREADS 4
#define TRANSLATION IBV_REREG_MR_CHANGE_TRANSLATION

enum answer { WORKED, NO_FUNCTION, NR_ANSWERS };

struct user {
	pthread_t thread;
	struct ibv_pd *pd;
	struct memory buf, other;
	atomic_bool *stop;
	atomic_uint met[NR_ANSWERS];
};

FIXTURE(race)
{
	struct ibv_context *ctx;
	struct pair pair;
	struct memory plain, host;
	struct ibv_mr *plain_mr, *host_mr;
	struct second second;
	struct user users[THREADS];
	atomic_bool stop;
};

FIXTURE_SETUP(race)
{
	need("direct");
	ASSERT_TRUE(nothing_left());
	self->ctx = device_open();
	pair_open(&self->pair, self->ctx, NULL);
	second_find(&self->second, self->ctx);
	memory_open(&self->plain, VGEM, SIZE);
	memory_open(&self->host, HOST, SIZE);
	self->plain_mr = must(ibv_reg_dmabuf_mr(self->pair.pd, 0, SIZE, IOVA, self->plain.fd,
						RWA));
	self->host_mr = memory_reg(&self->host, self->pair.pd, RWA);
	for (int i = 0; i < THREADS; i++) {
		struct user *u = &self->users[i];

		u->pd = must(ibv_alloc_pd(self->ctx));
		memory_open(&u->buf, VGEM, SIZE);
		memory_open(&u->other, UDMABUF, SIZE);
		u->stop = &self->stop;
	}
}

FIXTURE_TEARDOWN(race)
{
	for (int i = 0; i < THREADS; i++) {
		memory_close(&self->users[i].buf);
		memory_close(&self->users[i].other);
		pd_close(self->users[i].pd);
	}
	mr_close(self->plain_mr);
	mr_close(self->host_mr);
	pair_close(&self->pair);
	device_close(self->ctx);
	memory_close(&self->plain);
	memory_close(&self->host);
	EXPECT_TRUE(nothing_left());
}

/* Count the answer of a call; true if it worked. */
static bool met(struct user *u, const char *call, int err)
{
	if (err && err != ENODEV) {
		errno = err;
		fail_case("%s", call);
	}
	u->met[err ? NO_FUNCTION : WORKED]++;
	return !err;
}

/* From the ordinary way to Data Direct, with other access, and back. */
static void change(struct user *u, struct keys *keys)
{
	struct ibv_context *ctx = u->pd->context;

	if (met(u, "rereg to Data Direct",
		direct_rereg(ctx, TRANSLATION, NULL, &u->other, 0, DIRECT, keys)))
		met(u, "rereg of the access",
		    direct_rereg(ctx, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, REMOTE_READ, WITHOUT,
				 keys));
	/* The repair needs no function. */
	errno = direct_rereg(ctx, TRANSLATION, NULL, &u->buf, 0, ORDINARY, keys);
	if (errno)
		fail_case("rereg to the ordinary way");
}

static void *use(void *arg)
{
	struct user *u = arg;
	struct keys keys;

	while (!*u->stop) {
		if (!met(u, "reg", direct_reg(u->pd, &u->buf, IOVA, RWA, DIRECT, &keys)))
			continue;
		change(u, &keys);
		met(u, "rereg", direct_rereg(u->pd->context, TRANSLATION, NULL, &u->other, 0,
					     DIRECT, &keys));
		errno = mr_dereg(u->pd->context->cmd_fd, BY_IOCTL, keys.handle);
		if (errno)
			fail_case("dereg");
	}
	return NULL;
}

/* Until each thread has met this answer N times more. */
static bool all_meet(FIXTURE_DATA(race) *self, enum answer answer, unsigned int n)
{
	unsigned int from[THREADS];
	double end = deadline(60);

	for (int i = 0; i < THREADS; i++)
		from[i] = self->users[i].met[answer];
	for (int i = 0; i < THREADS; i++) {
		while (self->users[i].met[answer] - from[i] < n) {
			if (now() > end)
				return false;
			usleep(1000);
		}
	}
	return true;
}

static bool plain_works(FIXTURE_DATA(race) *self, uint32_t seed)
{
	fill(self->host.cpu, SIZE, seed);
	return !rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr, self->host.iova, SIZE, IOVA,
			self->plain_mr->rkey) &&
	       filled(self->plain.cpu, SIZE, seed, "written by the first function");
}

TEST_F_TIMEOUT(race, function_comes_and_goes_beside_calls, 300)
{
	int rounds = depth(10, 100);

	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&self->users[i].thread, NULL, use, &self->users[i]));
	for (int i = 0; i < rounds; i++) {
		EXPECT_TRUE(all_meet(self, WORKED, 3)) TH_LOG("round %d", i);
		second_unbind(&self->second);
		EXPECT_TRUE(plain_works(self, 2 * i));
		EXPECT_TRUE(all_meet(self, NO_FUNCTION, 2)) TH_LOG("round %d", i);
		second_bind(&self->second);
		EXPECT_TRUE(plain_works(self, 2 * i + 1));
	}
	self->stop = true;
	for (int i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(self->users[i].thread, NULL));
		printf("# thread %d: %u calls worked, %u found no function\n", i,
		       self->users[i].met[WORKED], self->users[i].met[NO_FUNCTION]);
	}
}

TEST_HARNESS_MAIN
