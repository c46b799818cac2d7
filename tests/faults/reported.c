// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug; guest: steps smp; devices: rxe pinned */
/*
 * An exporter takes its memory from an MR, and the report of that to the process is late: a
 * rereg puts other memory under the MR meanwhile.  The process must not be told that this
 * memory has gone.
 *
 * A device that follows moves has nothing to report before an access fails.
 */
#include "exporters/test_buffer.h"
#include "faults/step_module.h"
#include "lib/told.h"
#include <pthread.h>

/* The last step of a report: the event is queued. */
#define REPORT "ib_uverbs_async_handler delay 300"

static struct step report;

FIXTURE_SETUP(buffer)
{
	need("rereg_mr_fd");
	step_open(&report);
	step_set(&report, REPORT);
	buffer_open(self, 0);
	told_begin(self->ctx);
}

FIXTURE_TEARDOWN(buffer)
{
	EXPECT_TRUE(buffer_close(self));
	step_close(&report);
}

/* The fd of a buffer, and when its memory had been taken. */
struct taking {
	int fd;
	double end;
};

static void *take(void *arg)
{
	struct taking *taking = arg;

	step_at(&report, 1);
	take_memory(taking->fd);
	taking->end = now();
	return NULL;
}

/* Whether the rereg to other memory began while the old memory's end was being reported. */
static bool rereg_meets_a_report(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr, int fd,
				 const struct memory *to)
{
	struct taking taking = { .fd = fd };
	pthread_t thread;
	double began;

	if (pthread_create(&thread, NULL, take, &taking))
		fail_case("start a thread");
	while (!step_reached(&report))
		usleep(100);	/* the timeout of the case ends this */
	began = now();
	if (memory_rereg(mr, TRANS, NULL, to, 0))
		fail_case("rereg of an MR whose memory is going");
	pthread_join(thread, NULL);
	step_end(&report);	/* else the next try would see this hit */
	return began < taking.end;
}

TEST_F(buffer, late_report_is_not_of_the_memory_of_a_rereg)
{
	struct ibv_mr *mr = memory_reg(&self->buf, self->pair.pd, RWA);
	struct memory *at = &self->buf, next[2] = {};
	int others, n = 0;
	bool met;

	do {
		struct memory *to = &next[n++ & 1];

		memory_close(to);
		test_exporter_open(to, SIZE, 0);
		met = rereg_meets_a_report(self, mr, at->fd, to);
		ASSERT_EQ(0, told(self->ctx, mr, &others));
		ASSERT_EQ(0, others);
		ASSERT_TRUE(rdma_write(self, mr, n));
		ASSERT_TRUE(filled(to->cpu, SIZE, n, "the new memory"));
		at = to;
	} while (!met);
	TH_LOG("met by rereg %d", n);

	/* Its own end is reported. */
	take_memory(at->fd);
	EXPECT_EQ(1, told(self->ctx, mr, &others));
	EXPECT_EQ(0, others);
	mr_close(mr);
	for (int i = 0; i < 2; i++)
		memory_close(&next[i]);
}

int main(int argc, char **argv)
{
	return harness_run(argc, argv, steps_prepare);
}
