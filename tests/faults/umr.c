// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick debug-full; guest: steps; devices: pinned */
/* runs: full debug-full; guest: steps; devices: connectx */
/*
 * A UMR fails, and with it what would mend that: the queue of UMRs cannot be reset, as without
 * memory, and the mkey cannot be destroyed.
 *
 * The queue works again with the next UMR.  An exporter that takes its memory from an MR
 * meanwhile, to move it or for good, gets it only when the device does not reach it any more:
 * the mkey is destroyed, or else the importer keeps the memory until dereg.  The old MR of a
 * rereg keeps it until the context ends.
 */
#include "exporters/test_buffer.h"
#include "faults/step_module.h"

#define UMR "mlx5r_umr_post_send_wait argument 2 0xffffff00"	/* there is no such mkey */
#define RESET "ib_modify_qp return -12"
#define DESTROY "mlx5_core_destroy_mkey return -5"

static struct step umr, reset, destroy;

FIXTURE_SETUP(buffer)
{
	need("mlx5-queues");
	step_open(&umr);
	step_set(&umr, UMR);
	step_open(&reset);
	step_set(&reset, RESET);
	step_open(&destroy);
	step_set(&destroy, DESTROY);
	buffer_open(self, 0);
}

FIXTURE_TEARDOWN(buffer)
{
	EXPECT_TRUE(buffer_close(self));
	step_close(&destroy);
	step_close(&reset);
	step_close(&umr);
}

/* The next UMR fails, and the queue stays broken. */
static void break_queue(void)
{
	step_at(&umr, 1);
	step_at(&reset, 1);
}

static void queue_is_broken(struct __test_metadata *_metadata)
{
	ASSERT_TRUE(step_end(&umr));
	ASSERT_TRUE(step_end(&reset));
}

/* The exporter takes the memory, to move it if the device can follow. */
static void take(FIXTURE_DATA(buffer) *self)
{
	if (device_can("gives-back"))
		take_memory(self->buf.fd);
	else if ((errno = move(self->buf.fd, 0)))
		fail_case("move the buffer");
}

static bool is_refused(FIXTURE_DATA(buffer) *self, uint32_t rkey)
{
	enum ibv_wc_status status = rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr,
					    self->host.iova, SIZE, IOVA, rkey);

	pair_connect(&self->pair, IBV_MTU_1024);
	return status == IBV_WC_REM_ACCESS_ERR;
}

TEST_F(buffer, queue_that_could_not_be_reset_works_again)
{
	struct ibv_mr *mr;

	break_queue();
	ASSERT_EQ(NULL, reg_dmabuf(self, RWA));
	ASSERT_EQ(EFAULT, errno);
	queue_is_broken(_metadata);
	mr = reg_dmabuf(self, RWA);
	ASSERT_NE(NULL, mr);
	ASSERT_TRUE(rdma_write(self, mr, 1));
	mr_close(mr);
}

/* The page faults of a registration hold a lock that the reclaim of memory takes, too. */
TEST_F(buffer, on_demand_reg_whose_umr_fails_can_be_repeated)
{
	const int rights = RWA | IBV_ACCESS_ON_DEMAND;
	struct ibv_mr *mr;

	need("on-demand");
	step_at(&umr, 1000);
	mr = memory_reg(&self->host, self->pair.pd, rights);
	step_end(&umr);
	mr_close(mr);
	ASSERT_LT(0, umr.calls);
	for (unsigned int n = umr.calls; n; n--) {
		step_at(&umr, n);
		ASSERT_EQ(NULL, ibv_reg_mr(self->pair.pd, self->host.cpu, SIZE, rights));
		ASSERT_TRUE(step_end(&umr));
	}
	mr = memory_reg(&self->host, self->pair.pd, rights);
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr,
					  self->host.iova, SIZE, self->host.iova, mr->rkey));
	mr_close(mr);
}

TEST_F(buffer, taken_memory_is_not_reached_if_its_umr_fails)
{
	struct ibv_mr *mr = must(reg_dmabuf(self, RWA));

	ASSERT_TRUE(rdma_write(self, mr, 1));
	break_queue();
	take(self);
	queue_is_broken(_metadata);
	ASSERT_EQ(0, query(self->buf.fd).maps);
	ASSERT_EQ(0, query(self->buf.fd).pins);
	ASSERT_TRUE(is_refused(self, mr->rkey));

	/* Other MRs of the process work, and a rereg does not touch what is gone. */
	for (int i = 0; i < 20; i++) {
		struct ibv_mr *other = memory_reg(&self->vgem, self->pair.pd, RWA);

		ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr,
						  self->host.iova, SIZE, self->vgem.iova,
						  other->rkey));
		mr_close(other);
	}
	ASSERT_EQ(IBV_REREG_MR_ERR_CMD,
		  ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REMOTE_READ));
	ASSERT_EQ(ENODEV, errno);
	ASSERT_TRUE(is_refused(self, mr->rkey));
	mr_close(mr);
}

TEST_F(buffer, memory_stays_if_the_mkey_cannot_be_destroyed_either)
{
	struct ibv_mr *mr = must(reg_dmabuf(self, RWA));

	break_queue();
	step_at(&destroy, 1);
	take(self);
	queue_is_broken(_metadata);
	ASSERT_TRUE(step_end(&destroy));
	ASSERT_EQ(1, query(self->buf.fd).maps);
	ASSERT_EQ(device_can("gives-back"), query(self->buf.fd).pins);
	mr_close(mr);
	ASSERT_EQ(0, query(self->buf.fd).maps);
	ASSERT_EQ(0, query(self->buf.fd).pins);
}

static struct ibv_mr *reg_in(FIXTURE_DATA(buffer) *self, struct ibv_pd *pd)
{
	return must(ibv_reg_dmabuf_mr(pd, 0, SIZE, IOVA, self->buf.fd, RWA));
}

static int rereg_to_vgem(FIXTURE_DATA(buffer) *self, struct ibv_mr *mr)
{
	return memory_rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, &self->vgem, 0);
}

/* The last one of them revokes the old MR. */
static unsigned int umrs_of_rereg(FIXTURE_DATA(buffer) *self, struct ibv_pd *pd)
{
	struct ibv_mr *mr;

	need("rereg_mr_fd");
	mr = reg_in(self, pd);
	step_at(&umr, 1000);
	if (rereg_to_vgem(self, mr))
		fail_case("rereg");
	step_end(&umr);
	mr_close(mr);
	return umr.calls;
}

TEST_F(buffer, old_mr_that_a_rereg_cannot_destroy_can_only_be_destroyed)
{
	struct ibv_context *ctx = device_open();
	struct ibv_pd *pd = must(ibv_alloc_pd(ctx));
	unsigned int last = umrs_of_rereg(self, pd), found = 0;
	struct ibv_mr *mr = reg_in(self, pd);
	uint32_t handle = mr->handle, rkey = mr->rkey;

	step_at(&umr, last);
	step_at(&destroy, 1);
	ASSERT_EQ(0, rereg_to_vgem(self, mr));
	ASSERT_TRUE(step_end(&umr));
	ASSERT_TRUE(step_end(&destroy));
	ASSERT_NE(rkey, mr->rkey);

	/* The device may still reach the memory, so it stays. */
	ASSERT_EQ(1, query(self->buf.fd).maps);

	/* A user who guesses the handle of the old MR cannot change it. */
	for (mr->handle = 0; mr->handle < 64; mr->handle++) {
		if (mr->handle == handle)
			continue;
		ASSERT_NE(0, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
					  REMOTE_READ));
		found += errno == ENOTRECOVERABLE;
	}
	mr->handle = handle;
	ASSERT_EQ(1, found);

	/* The end of the context destroys it. */
	mr_close(mr);
	ASSERT_EQ(1, query(self->buf.fd).maps);
	device_close(ctx);
	ASSERT_EQ(0, query(self->buf.fd).maps);
	free(pd);
}

/*
 * Ordinary memory gets another mkey for rights that a UMR cannot give.  Here the old mkey cannot
 * be revoked, and the new one then neither revoked nor destroyed: it goes with the old MR.
 */
TEST_F(buffer, mkey_that_a_failed_rereg_leaves_goes_before_the_memory)
{
	const int rights = RWA | IBV_ACCESS_HUGETLB;
	long pinned = pinned_kb();
	struct step umr_of_new;
	struct ibv_mr *mr;

	need("rereg_mr_fd");
	mr = memory_reg(&self->host, self->pair.pd, RWA);
	step_at(&umr, 1000);
	ASSERT_EQ(0, memory_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, &self->host, rights));
	step_end(&umr);
	ASSERT_LT(2, umr.calls);
	ASSERT_EQ(0, ibv_dereg_mr(mr));
	ASSERT_EQ(pinned, pinned_kb());

	/* The last UMR but one revokes the old mkey; the rereg ends there. */
	mr = memory_reg(&self->host, self->pair.pd, RWA);
	step_open(&umr_of_new);
	step_set(&umr_of_new, UMR);
	step_at(&umr_of_new, umr.calls);
	step_at(&umr, umr.calls - 1);
	step_at(&destroy, 1);
	ASSERT_NE(0, memory_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, &self->host, rights));
	ASSERT_TRUE(step_end(&umr));
	ASSERT_TRUE(step_end(&umr_of_new));
	ASSERT_TRUE(step_end(&destroy));
	ASSERT_EQ(IBV_WC_SUCCESS, rdma_op(&self->pair, IBV_WR_RDMA_WRITE, self->host_mr,
					  self->host.iova, SIZE, self->host.iova, mr->rkey));

	/*
	 * It reaches these pages, so before it is gone a rereg gives the MR no others.  This one
	 * asks for the same, since the list of others may be too long to be put into the old mkey.
	 */
	step_at(&umr, 1);
	step_at(&destroy, 1);
	ASSERT_NE(0, memory_rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, &self->host, 0));
	ASSERT_TRUE(step_end(&umr));
	ASSERT_TRUE(step_end(&destroy));
	ASSERT_EQ(pinned + SIZE / 1024, pinned_kb());

	/* It cannot be destroyed with the MR either: the pages stay. */
	step_at(&umr, 1);
	step_at(&destroy, 1);
	ASSERT_NE(0, ibv_dereg_mr(mr));
	ASSERT_TRUE(step_end(&umr));
	ASSERT_TRUE(step_end(&destroy));
	ASSERT_EQ(pinned + SIZE / 1024, pinned_kb());
	ASSERT_EQ(0, ibv_dereg_mr(mr));
	ASSERT_EQ(pinned, pinned_kb());
	step_close(&umr_of_new);
}

int main(int argc, char **argv)
{
	return harness_run(argc, argv, steps_prepare);
}
