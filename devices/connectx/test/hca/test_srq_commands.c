// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * The commands of shared receive queues, RMPs and XRC SRQs: their numbers, what a query says,
 * and hostile contexts.
 */
#include "srq_guest.h"

static void rmps_and_xrc_srqs_share_numbers(void **state)
{
	struct guest_srq a = make_rmp(), b = make_xrc();
	uint32_t x = a.srq->number, y = b.srq->number;
	u8 out[IFC_BYTES(query_xrc_srq_out) + IFC_BYTES(query_rmp_out)];

	assert_int_not_equal(x, y);
	assert_int_equal(destroy(x, true), CMD_BAD_RES);
	assert_int_equal(destroy(y, false), CMD_BAD_RES);
	assert_int_equal(query(x, true, out, sizeof(out)), CMD_BAD_RES);
	assert_int_equal(query(y, false, out, sizeof(out)), CMD_BAD_RES);
	/* Users. */
	a.srq->users = 1;
	assert_int_equal(destroy(x, false), CMD_BAD_RES_STATE);
	a.srq->users = 0;
	assert_int_equal(cq_get(hca, cqn)->users, 1);
	forgotten = NULL;
	assert_int_equal(destroy(y, true), CMD_OK);
	assert_ptr_equal(forgotten, b.srq);
	assert_int_equal(cq_get(hca, cqn)->users, 0);
	assert_int_equal(destroy(y, true), CMD_BAD_RES);
	assert_int_equal(destroy(x, false), CMD_OK);
}

static void query_shows_the_rmp_and_xrc_srq(void **state)
{
	struct guest_srq g = make_rmp();
	u8 out[IFC_BYTES(query_xrc_srq_out) + IFC_BYTES(query_rmp_out)];
	void *rmpc = IFC_PTR(query_rmp_out, out, rmp_context), *wq = IFC_PTR(rmpc, rmpc, wq);
	void *xrc = IFC_PTR(query_xrc_srq_out, out, xrc_srq_context_entry);
	struct recv_wqe r;
	u8 in[XRC_BYTES];

	arm_rmp(g.srq->number, 2, MLX5_RMPC_STATE_RDY);
	post(&g, 0);
	post(&g, 0);
	post(&g, 0);
	srq_take(g.srq, &r);
	assert_int_equal(query(g.srq->number, false, out, sizeof(out)), CMD_OK);
	assert_int_equal(IFC_GET(rmpc, rmpc, state), MLX5_RMPC_STATE_RDY);
	assert_int_equal(IFC_GET(wq, wq, lwm), 2);
	assert_int_equal(IFC_GET(wq, wq, log_wq_sz), LOG_SIZE);
	assert_int_equal(IFC_GET(wq, wq, pd), 7);
	assert_int_equal(IFC_GET(wq, wq, hw_counter), 1);
	assert_int_equal(IFC_GET(wq, wq, sw_counter), 3);
	link_wqe(1, 1000);
	srq_take(g.srq, &r);
	assert_int_equal(query(g.srq->number, false, out, sizeof(out)), CMD_OK);
	assert_int_equal(IFC_GET(rmpc, rmpc, state), MLX5_RMPC_STATE_ERR);

	/* user_index from the number. */
	xrc = xrc_in(in);
	IFC_SET(xrc_srqc, xrc, user_index_equal_xrc_srqn, 1);
	assert_int_equal(run(srq_ops, in, sizeof(in), out, sizeof(out)), CMD_OK);
	g = guest_of(IFC_GET(create_xrc_srq_out, out, xrc_srqn));
	assert_int_equal(g.srq->user_index, g.srq->number);
	post(&g, 0);
	xrc = IFC_PTR(query_xrc_srq_out, out, xrc_srq_context_entry);
	assert_int_equal(query(g.srq->number, true, out, sizeof(out)), CMD_OK);
	assert_int_equal(IFC_GET(xrc_srqc, xrc, state), MLX5_XRC_SRQC_STATE_GOOD);
	assert_int_equal(IFC_GET(xrc_srqc, xrc, user_index), g.srq->number);
	assert_int_equal(IFC_GET(xrc_srqc, xrc, wqe_cnt), 1);
	assert_int_equal(IFC_GET(xrc_srqc, xrc, cqn), cqn);
	/* An XRC SRQ has its own PD, XRCD and CQ. */
	assert_int_equal(g.srq->pd, 8);
	assert_int_equal(g.srq->xrcd, 9);
	assert_ptr_equal(g.srq->cq, cq_get(hca, cqn));
}

#define WQ(field) IFC_BIT(rmpc, wq) + IFC_BIT(wq, field), IFC_WIDTH(wq, field)
#define RMPC(field) IFC_BIT(rmpc, field), IFC_WIDTH(rmpc, field)
#define XRC(field) IFC_BIT(xrc_srqc, field), IFC_WIDTH(xrc_srqc, field)

static const struct {
	const char *what;
	bool xrc;
	size_t bit, width;
	uint32_t value;
	unsigned int pages;
	enum cmd_status status;
} hostile[] = {
	{ "good", false, WQ(log_wq_sz), 6, 1, CMD_OK },
	{ "a page missing", false, WQ(log_wq_sz), 7, 1, CMD_BAD_PARAM },
	{ "no pages", false, WQ(log_wq_sz), 0, 0, CMD_BAD_PARAM },
	{ "log size above the limit", false, WQ(log_wq_sz), HCA_LOG_MAX_WQ + 1, 16,
	  CMD_BAD_PARAM },
	{ "log size 31", false, WQ(log_wq_sz), 31, 16, CMD_BAD_PARAM },
	{ "stride 16", false, WQ(log_wq_stride), 4, 16, CMD_BAD_PARAM },
	{ "stride 1", false, WQ(log_wq_stride), 0, 16, CMD_BAD_PARAM },
	{ "stride 512", false, WQ(log_wq_stride), 9, 1, CMD_OK },
	{ "stride 1024", false, WQ(log_wq_stride), 10, 16, CMD_BAD_PARAM },
	{ "stride 32768", false, WQ(log_wq_stride), 15, 16, CMD_BAD_PARAM },
	{ "page shift 43", false, WQ(log_wq_pg_sz), 31, 16, CMD_BAD_PARAM },
	{ "pages not aligned", false, WQ(log_wq_pg_sz), 3, 16, CMD_BAD_PARAM },
	{ "cyclic with room for links", false, WQ(wq_type), 1, 16, CMD_OK },
	{ "striding", false, WQ(wq_type), 3, 16, CMD_BAD_PARAM },
	{ "list without links", false, RMPC(basic_cyclic_rcv_wqe), 1, 16, CMD_BAD_PARAM },
	{ "in error", false, RMPC(state), MLX5_RMPC_STATE_ERR, 16, CMD_BAD_PARAM },
	{ "umem", false, WQ(wq_umem_valid), 1, 16, CMD_BAD_RES },
	{ "record by umem", false, WQ(dbr_umem_valid), 1, 16, CMD_BAD_RES },
	{ "limit", false, WQ(lwm), SIZE + 1, 16, CMD_BAD_PARAM },
	{ "PD", false, WQ(pd), 0xffffff, 16, CMD_BAD_RES },
	{ "XRC, good", true, XRC(log_xrc_srq_size), 6, 1, CMD_OK },
	{ "XRC, a page missing", true, XRC(log_xrc_srq_size), 15, 16, CMD_BAD_PARAM },
	{ "XRC, no pages", true, XRC(log_xrc_srq_size), 3, 0, CMD_BAD_PARAM },
	{ "XRC, stride 16", true, XRC(log_rq_stride), 0, 16, CMD_BAD_PARAM },
	{ "XRC, stride 2048", true, XRC(log_rq_stride), 7, 16, CMD_BAD_PARAM },
	{ "XRC, page shift 75", true, XRC(log_page_size), 63, 16, CMD_BAD_PARAM },
	{ "XRC, page offset", true, XRC(page_offset), 63, 1, CMD_BAD_PARAM },
	{ "XRC, PD", true, XRC(pd), 100, 16, CMD_BAD_RES },
	{ "XRC, XRCD", true, XRC(xrcd), 100, 16, CMD_BAD_RES },
	{ "XRC, CQ", true, XRC(cqn), 0xffffff, 16, CMD_BAD_RES },
	{ "XRC, CQ 0", true, XRC(cqn), 0, 16, CMD_BAD_RES },
	{ "XRC, cyclic", true, XRC(cont_srq), 1, 16, CMD_BAD_PARAM },
	{ "XRC, without links", true, XRC(basic_cyclic_rcv_wqe), 1, 16, CMD_BAD_PARAM },
	{ "XRC, reserved lkey", true, XRC(rlky), 1, 16, CMD_BAD_PARAM },
	{ "XRC, record by umem", true, XRC(dbr_umem_valid), 1, 16, CMD_BAD_PARAM },
	{ "XRC, limit", true, XRC(lwm), 0xffff, 16, CMD_BAD_PARAM },
};

static void hostile_create_srq_is_refused(void **state)
{
	u8 in[RMP_BYTES > XRC_BYTES ? RMP_BYTES : XRC_BYTES], out[IFC_BYTES(create_rmp_out)];
	unsigned int i, made = 0;
	size_t taken;

	/* No memory for the SRQ, and none for its list of pages. */
	taken = hca->memory;
	rmp_in(in);
	for (i = 0; i < 2; i++) {
		hca->memory = HCA_MEMORY - i * sizeof(struct srq) - 7;
		assert_int_equal(run(srq_ops, in, RMP_BYTES, out, sizeof(out)),
				 CMD_NO_RESOURCES);
		assert_int_equal(hca->memory, HCA_MEMORY - i * sizeof(struct srq) - 7);
	}
	hca->memory = taken;
	for (i = 0; i < sizeof(hostile) / sizeof(*hostile); i++) {
		void *context = hostile[i].xrc ? xrc_in(in) : rmp_in(in);
		size_t fixed = hostile[i].xrc ? IFC_BYTES(create_xrc_srq_in) :
						IFC_BYTES(create_rmp_in);
		size_t memory = hca->memory;

		print_message("  %s\n", hostile[i].what);
		ifc_set(context, hostile[i].bit, hostile[i].width, hostile[i].value);
		assert_int_equal(run(srq_ops, in, fixed + 8 * hostile[i].pages, out,
				     sizeof(out)), hostile[i].status);
		if (hostile[i].status)
			assert_int_equal(memory, hca->memory);
		made += !hostile[i].status;
	}
	assert_int_equal(made, 4);
	assert_int_equal(cq_get(hca, cqn)->users, 1);
	/* One more, and the numbers are used up. */
	rmp_in(in);
	assert_int_equal(run(srq_ops, in, RMP_BYTES, out, sizeof(out)), CMD_OK);
	assert_int_equal(run(srq_ops, in, RMP_BYTES, out, sizeof(out)), CMD_NO_RESOURCES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rmps_and_xrc_srqs_share_numbers),
		TEST(query_shows_the_rmp_and_xrc_srq),
		TEST(hostile_create_srq_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
