// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* User contexts and user memory, and that a process does not reach the objects of another one. */
#include "devx_guest.h"
#include "caps.h"
#include "cq.h"
#include "qp.h"
#include "srq.h"

static enum cmd_status destroy_uctx(uint32_t uid)
{
	memset(in, 0, 1024);
	IFC_SET(destroy_uctx_in, in, uid, uid);
	return run(0, MLX5_CMD_OP_DESTROY_UCTX);
}

static enum cmd_status destroy(uint16_t uid, uint16_t op, uint32_t n)
{
	return simple(uid, op, n, NULL);
}

static void only_the_driver_makes_and_ends_a_uctx(void **state)
{
	uint16_t uid = make_uctx(), other = make_uctx();

	assert_int_not_equal(uid, other);
	assert_true(uid && uid != UID_SHARED);
	assert_int_equal(simple(uid, MLX5_CMD_OP_CREATE_UCTX, 0, NULL), CMD_BAD_PARAM);
	memset(in, 0, 1024);
	IFC_SET(destroy_uctx_in, in, uid, other);
	assert_int_equal(run(uid, MLX5_CMD_OP_DESTROY_UCTX), CMD_BAD_PARAM);
	assert_int_equal(destroy_uctx(uid), CMD_OK);
	assert_int_equal(destroy_uctx(uid), CMD_BAD_RES);
	assert_int_equal(destroy_uctx(0), CMD_BAD_RES);
	assert_int_equal(destroy_uctx(UID_SHARED), CMD_BAD_RES);
	/* Nobody runs commands with its number any more. */
	assert_int_equal(simple(uid, MLX5_CMD_OP_ALLOC_PD, 0, NULL), CMD_BAD_PARAM);
	assert_int_equal(simple(other, MLX5_CMD_OP_ALLOC_PD, 0, NULL), CMD_OK);
}

/* The capabilities offer none: raw packets, the device's own objects. */
static void uctx_with_permissions_is_bad_param(void **state)
{
	for (unsigned int bit = 0; bit < 32; bit++) {
		memset(in, 0, 1024);
		IFC_SET(uctx, IFC_PTR(create_uctx_in, in, uctx), cap, 1u << bit);
		assert_int_equal(run(0, MLX5_CMD_OP_CREATE_UCTX), CMD_BAD_PARAM);
	}
	assert_int_equal(CAP(hca, uctx_cap), 0);
}

static void uctx_beyond_the_limit_is_lim_exceeded(void **state)
{
	for (unsigned int i = 1; i < 1u << CAP(hca, log_max_uctx); i++)
		make_uctx();
	assert_int_equal(simple(0, MLX5_CMD_OP_CREATE_UCTX, 0, NULL), CMD_LIM_EXCEEDED);
}

/* As the device has no way to take objects away from a process that is gone. */
static void uctx_with_objects_stays(void **state)
{
	static const struct { uint16_t make, destroy; } numbers[] = {
		{ MLX5_CMD_OP_ALLOC_PD, MLX5_CMD_OP_DEALLOC_PD },
		{ MLX5_CMD_OP_ALLOC_UAR, MLX5_CMD_OP_DEALLOC_UAR },
		{ MLX5_CMD_OP_ALLOC_XRCD, MLX5_CMD_OP_DEALLOC_XRCD },
		{ MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN, MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN },
	};
	struct process p = make_process();
	struct memory buf = make_memory(p.uid, 2, 0, true);
	uint32_t cqn = make_cq(&p, &buf, &buf), qpn = make_qp(&p, cqn, &buf, &buf), key;
	struct process other = make_process();
	uint16_t uid = make_uctx();
	uint32_t other_key;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		uint32_t n = number(uid, numbers[i].make);

		assert_int_equal(destroy_uctx(uid), CMD_BAD_RES_STATE);
		assert_int_equal(destroy(uid, numbers[i].destroy, n), CMD_OK);
	}
	assert_int_equal(destroy_uctx(uid), CMD_OK);

	/* A list that is still free, too. */
	assert_int_equal(create_list(p.uid, p.pd, false, &key), CMD_OK);
	assert_int_equal(create_list(other.uid, other.pd, false, &other_key), CMD_OK);
	/* In use: it is closed, and goes with its last user. */
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DEALLOC_UAR, p.uar), CMD_OK);
	/* From the last that was made to the first. */
	assert_int_equal(destroy_uctx(p.uid), CMD_BAD_RES_STATE);
	assert_int_equal(destroy(other.uid, MLX5_CMD_OP_DEALLOC_PD, other.pd), CMD_BAD_RES_STATE);
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_MKEY, key >> 8), CMD_OK);
	assert_int_equal(destroy(other.uid, MLX5_CMD_OP_DESTROY_MKEY, other_key >> 8), CMD_OK);
	assert_int_equal(destroy(other.uid, MLX5_CMD_OP_DEALLOC_PD, other.pd), CMD_OK);
	assert_int_equal(destroy_uctx(p.uid), CMD_BAD_RES_STATE);
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_QP, qpn), CMD_OK);
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DEALLOC_PD, p.pd), CMD_OK);
	assert_int_equal(destroy_uctx(p.uid), CMD_BAD_RES_STATE);
	assert_non_null(table_get(&hca->uars, p.uar));
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_CQ, cqn), CMD_OK);
	assert_null(table_get(&hca->uars, p.uar));
	assert_int_equal(destroy_uctx(p.uid), CMD_BAD_RES_STATE);
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_UMEM, buf.umem), CMD_OK);
	assert_int_equal(destroy_uctx(p.uid), CMD_OK);
}

static void hostile_create_umem_is_refused(void **state)
{
#define F(field) IFC_BIT(create_umem_in, umem.field)
	static const struct {
		const char *what;
		size_t bit, width;
		uint32_t value;
		enum cmd_status status;
	} table[] = {
		{ "good", F(log_page_size), 5, 0, CMD_OK },
		{ "no pages", F(num_of_mtt) + 32, 32, 0, CMD_BAD_INPUT_LEN },
		{ "one page more than there are", F(num_of_mtt) + 32, 32, 4, CMD_BAD_INPUT_LEN },
		{ "2^32 - 1 pages", F(num_of_mtt) + 32, 32, 0xffffffff, CMD_BAD_INPUT_LEN },
		{ "2^63 pages and 3", F(num_of_mtt), 32, 0x80000000, CMD_BAD_INPUT_LEN },
		{ "begins at the last byte", F(page_offset), 32, 4095, CMD_OK },
		{ "begins in the second page", F(page_offset), 32, 4096, CMD_BAD_PARAM },
		{ "begins at 2^32 - 1", F(page_offset), 32, 0xffffffff, CMD_BAD_PARAM },
		{ "ATS", F(ats), 1, 1, CMD_BAD_PARAM },
		{ "pages not aligned to their size", F(log_page_size), 5, 1, CMD_BAD_PARAM },
		{ "pages of 4 GiB", F(log_page_size), 5, 20, CMD_BAD_PARAM },
		{ "pages of 2^43", F(log_page_size), 5, 31, CMD_BAD_PARAM },
		{ "a page that is not there", F(mtt) + 32, 3, 0, CMD_OK },
		{ "a page that cannot be read", F(mtt) + 64 + 32 + 31, 1, 0, CMD_BAD_PARAM },
		{ "an address inside of a page", F(mtt) + 64 + 32 + 20, 1, 1, CMD_BAD_PARAM },
	};
	struct memory m = { .pages = 3, .page = { RAM + 0x3000, RAM + 0x1000, RAM + 0x7000 } };
	uint16_t uid = make_uctx();

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		size_t memory = hca->memory, len = memory_in(&m, true);
		enum cmd_status status;

		ifc_set(in, table[i].bit, table[i].width, table[i].value);
		status = run_len(uid, MLX5_CMD_OP_CREATE_UMEM, 0, len, 16);
		if (status != table[i].status)
			fail_msg("CREATE_UMEM, %s, returned status %#x, not %#x",
				 table[i].what, status, table[i].status);
		if (!status)
			assert_int_equal(destroy(uid, MLX5_CMD_OP_DESTROY_UMEM,
						 IFC_GET(create_umem_out, out, umem_id)), CMD_OK);
		assert_int_equal(hca->memory, memory);
	}
	/* Not for the driver, and not for ever. */
	assert_int_equal(run_len(0, MLX5_CMD_OP_CREATE_UMEM, 0, memory_in(&m, true), 16),
			 CMD_BAD_PARAM);
	hca->memory += HCA_MEMORY - 300;
	assert_int_equal(run_len(uid, MLX5_CMD_OP_CREATE_UMEM, 0, memory_in(&m, true), 16),
			 CMD_NO_RESOURCES);
	hca->memory -= HCA_MEMORY - 300;
}

/* Bytes of a umem as a queue: of a CQ, 1024 bytes that are written. */
static void queues_stay_inside_their_umem(void **state)
{
	static const struct { uint64_t offset; enum cmd_status status; } table[] = {
		{ 0, CMD_OK }, { 64, CMD_OK }, { 32, CMD_BAD_PARAM },
		{ 3 * 4096 - 256 - 1024, CMD_OK },
		{ 3 * 4096 - 256 - 1024 + 64, CMD_BAD_PARAM },
		{ 3 * 4096 - 256, CMD_BAD_PARAM }, { 3 * 4096, CMD_BAD_PARAM },
		{ -64ull, CMD_BAD_PARAM }, { -1024ull, CMD_BAD_PARAM }, { 1ull << 63, CMD_BAD_PARAM },
	};
	struct process p = make_process();
	struct memory buf = make_memory(p.uid, 3, 256, true);
	struct memory read_only = make_memory(p.uid, 3, 0, false);
	struct memory db = make_memory(p.uid, 1, 8, false);
	uint32_t cqn, qpn;

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		size_t memory = hca->memory;
		struct cq *cq;

		cq_in(&p, &buf, &db);
		put_be64(in + CREATE_CQ_UMEM_OFFSET, table[i].offset);
		assert_int_equal(run(p.uid, MLX5_CMD_OP_CREATE_CQ), table[i].status);
		if (table[i].status) {
			assert_int_equal(hca->memory, memory);
			continue;
		}
		cqn = IFC_GET(create_cq_out, out, cqn);
		cq = cq_get(hca, cqn);
		assert_int_equal(cq->doorbell, db.page[0] + 8);
		for (uint64_t b = 0; b < 1024; b += 64) {
			int err;

			assert_ptr_equal(at(queue_buf_addr(&cq->buf, b, &err)),
					 memory_at(&buf, table[i].offset + b));
		}
		assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_UMEM, buf.umem),
				 CMD_BAD_RES_STATE);
		assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_UMEM, db.umem),
				 CMD_BAD_RES_STATE);
		assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_CQ, cqn), CMD_OK);
		assert_int_equal(hca->memory, memory);
	}
	/* The device reads QPs only. */
	cq_in(&p, &read_only, &db);
	assert_int_equal(run(p.uid, MLX5_CMD_OP_CREATE_CQ), CMD_BAD_PARAM);
	cqn = make_cq(&p, &buf, &db);
	qpn = make_qp(&p, cqn, &read_only, &db);
	qp_in(&p, cqn, &read_only, &db);
	IFC_SET64(create_qp_in, in, wq_umem_offset,
		  3 * 4096 - RQ_BYTES - (64u << LOG_SQ) + 64);
	assert_int_equal(run(p.uid, MLX5_CMD_OP_CREATE_QP), CMD_BAD_PARAM);
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_UMEM, read_only.umem),
			 CMD_BAD_RES_STATE);
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_QP, qpn), CMD_OK);
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_UMEM, read_only.umem), CMD_OK);
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_CQ, cqn), CMD_OK);
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_UMEM, db.umem), CMD_OK);
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_UMEM, db.umem), CMD_BAD_RES);
}

static void doorbells_stay_inside_their_umem(void **state)
{
	static const struct { uint64_t offset; enum cmd_status status; } table[] = {
		{ 0, CMD_OK }, { 8, CMD_OK }, { 4, CMD_BAD_PARAM }, { 2 * 4096 - 24, CMD_OK },
		{ 2 * 4096 - 16, CMD_BAD_PARAM }, { 2 * 4096 - 20, CMD_BAD_PARAM },
		{ -8ull, CMD_BAD_PARAM }, { 1ull << 40, CMD_BAD_PARAM },
	};
	struct process p = make_process();
	struct memory buf = make_memory(p.uid, 2, 0, true), db = make_memory(p.uid, 2, 16, false);
	uint32_t cqn = make_cq(&p, &buf, &db);

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		size_t memory = hca->memory;
		u8 *ctx = cq_in(&p, &buf, &db);

		IFC_SET64(cqc, ctx, dbr_addr, table[i].offset);
		assert_int_equal(run(p.uid, MLX5_CMD_OP_CREATE_CQ), table[i].status);
		if (!table[i].status)
			assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_CQ,
						 IFC_GET(create_cq_out, out, cqn)), CMD_OK);
		ctx = qp_in(&p, cqn, &buf, &db);
		IFC_SET64(qpc, ctx, dbr_addr, table[i].offset);
		assert_int_equal(run(p.uid, MLX5_CMD_OP_CREATE_QP), table[i].status);
		if (!table[i].status) {
			struct qp *qp = qp_get(hca, IFC_GET(create_qp_out, out, qpn));

			assert_ptr_equal(at(qp->doorbell), memory_at(&db, table[i].offset));
			assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_QP, qp->number), CMD_OK);
		}
		/* Also the umems are as before: a refused command uses none. */
		assert_int_equal(hca->memory, memory);
		assert_int_equal(((struct umem *)table_get(&hca->umems, buf.umem))->users, 1);
		assert_int_equal(((struct umem *)table_get(&hca->umems, db.umem))->users, 1);
	}
}

/* CREATE_RMP as UCX makes it: the WQEs in order, with room for links, 2048 bytes of them. */
static void *rmp_in(const struct process *p, const struct memory *buf, const struct memory *db)
{
	void *rmpc = IFC_PTR(create_rmp_in, in, ctx), *wq = IFC_PTR(rmpc, rmpc, wq);

	memset(in, 0, 1024);
	IFC_SET(rmpc, rmpc, state, MLX5_RMPC_STATE_RDY);
	IFC_SET(wq, wq, wq_type, MLX5_WQ_TYPE_CYCLIC);
	IFC_SET(wq, wq, log_wq_sz, 5);
	IFC_SET(wq, wq, log_wq_stride, 6);
	IFC_SET(wq, wq, pd, p->pd);
	IFC_SET(wq, wq, wq_umem_valid, 1);
	IFC_SET(wq, wq, wq_umem_id, buf->umem);
	IFC_SET(wq, wq, dbr_umem_valid, 1);
	IFC_SET(wq, wq, dbr_umem_id, db->umem);
	return wq;
}

static void receive_pools_stay_inside_their_umem(void **state)
{
	static const struct { uint64_t buffer, doorbell; enum cmd_status status; } table[] = {
		{ 0, 0, CMD_OK }, { 64, 8, CMD_OK }, { 32, 0, CMD_BAD_PARAM },
		{ 2 * 4096 - 256 - 2048, 4096 - 16, CMD_OK },
		{ 2 * 4096 - 256 - 2048 + 64, 0, CMD_BAD_PARAM },
		{ 0, 4096 - 8, CMD_BAD_PARAM }, { 0, 2, CMD_BAD_PARAM },
		{ -64ull, 0, CMD_BAD_PARAM }, { 0, -8ull, CMD_BAD_PARAM },
	};
	struct process p = make_process(), other = make_process();
	struct memory buf = make_memory(p.uid, 2, 256, false), db = make_memory(p.uid, 1, 8, false);
	struct memory foreign = make_memory(other.uid, 2, 0, true);
	size_t memory = hca->memory;

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		void *wq = rmp_in(&p, &buf, &db);
		struct recv_wqe r;
		struct srq *srq;

		IFC_SET64(wq, wq, wq_umem_offset, table[i].buffer);
		IFC_SET64(wq, wq, dbr_addr, table[i].doorbell);
		assert_int_equal(run(p.uid, MLX5_CMD_OP_CREATE_RMP), table[i].status);
		if (table[i].status) {
			assert_int_equal(hca->memory, memory);
			continue;
		}
		srq = srq_get(hca, IFC_GET(create_rmp_out, out, rmpn));
		for (uint32_t n = 0; n < 40; n++) {
			u8 *wqe = memory_at(&buf, table[i].buffer + n % 32 * 64);

			memset(wqe, 0xff, 16);		/* a link that leads out of the queue */
			put_be32(wqe + 16, 100 + n);
			put_be32(wqe + 20, 7);
			put_be32(memory_at(&db, table[i].doorbell), n + 1);
			assert_int_equal(srq_take(srq, &r), 1);
			assert_int_equal(r.index, n % 32);
			assert_int_equal(r.seg[0].len, 100 + n);
		}
		assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_UMEM, buf.umem),
				 CMD_BAD_RES_STATE);
		assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_UMEM, db.umem),
				 CMD_BAD_RES_STATE);
		assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_RMP, srq->number), CMD_OK);
		assert_int_equal(hca->memory, memory);
	}
	rmp_in(&p, &foreign, &db);
	assert_int_equal(run(p.uid, MLX5_CMD_OP_CREATE_RMP), CMD_BAD_RES);
	rmp_in(&p, &buf, &foreign);
	assert_int_equal(run(p.uid, MLX5_CMD_OP_CREATE_RMP), CMD_BAD_RES);
	assert_int_equal(hca->memory, memory);
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_UMEM, buf.umem), CMD_OK);
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_UMEM, db.umem), CMD_OK);
}

/* The umem begins at byte 256 of its first page. */
static void keys_stay_inside_their_umem(void **state)
{
	static const struct { uint64_t offset, start, len; enum cmd_status status; } table[] = {
		{ 0, 0x7f0000000100, 3 * 4096 - 256, CMD_OK },
		{ 0, 0x7f0000000100, 3 * 4096 - 255, CMD_BAD_PARAM },
		{ 0, 0x7f0000000000, 4096, CMD_BAD_PARAM },
		{ 0, 256, 0, CMD_BAD_PARAM },
		{ 3840, 0x1000, 8192, CMD_OK }, { 3840, 0x1000, 8193, CMD_BAD_PARAM },
		{ 5000, 5256 % 4096, 1, CMD_OK },
		{ 3 * 4096 - 256, 0, 1, CMD_BAD_PARAM },
		{ -4096ull, 256, 4096, CMD_BAD_PARAM }, { 0, 256, -1ull, CMD_BAD_PARAM },
	};
	struct process p = make_process(), other = make_process();
	struct memory m = make_memory(p.uid, 3, 256, true);
	struct memory read_only = make_memory(p.uid, 1, 0, false);
	void *mkc;

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		size_t memory = hca->memory;
		uint32_t key;

		umem_key_in(p.pd, m.umem, table[i].offset, table[i].start, table[i].len);
		assert_int_equal(run(p.uid, MLX5_CMD_OP_CREATE_MKEY), table[i].status);
		if (!table[i].status) {
			key = IFC_GET(create_mkey_out, out, mkey_index);
			assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_UMEM, m.umem),
					 CMD_BAD_RES_STATE);
			assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_MKEY, key), CMD_OK);
		}
		assert_int_equal(hca->memory, memory);
	}
	/* Only pages, only the own umem, and not without one: the pages in IN are nothing. */
	mkc = umem_key_in(p.pd, m.umem, 0, 256, 4096);
	IFC_SET(mkc, mkc, access_mode_1_0, MLX5_MKC_ACCESS_MODE_PA);
	assert_int_equal(run(p.uid, MLX5_CMD_OP_CREATE_MKEY), CMD_BAD_PARAM);
	mkc = umem_key_in(p.pd, m.umem, 0, 256, 4096);
	IFC_SET(mkc, mkc, length64, 1);
	assert_int_equal(run(p.uid, MLX5_CMD_OP_CREATE_MKEY), CMD_BAD_PARAM);
	mkc = umem_key_in(p.pd, read_only.umem, 0, 0, 4096);
	assert_int_equal(run(p.uid, MLX5_CMD_OP_CREATE_MKEY), CMD_BAD_PARAM);
	IFC_SET(mkc, mkc, lw, 0);
	assert_int_equal(run(p.uid, MLX5_CMD_OP_CREATE_MKEY), CMD_OK);
	umem_key_in(other.pd, m.umem, 0, 256, 4096);
	assert_int_equal(run(other.uid, MLX5_CMD_OP_CREATE_MKEY), CMD_BAD_RES);
	umem_key_in(p.pd, m.umem, 0, 256, 4096);
	IFC_SET(create_mkey_in, in, mkey_umem_valid, 0);
	assert_int_equal(run(p.uid, MLX5_CMD_OP_CREATE_MKEY), CMD_BAD_PARAM);
	assert_int_equal(destroy(p.uid, MLX5_CMD_OP_DESTROY_UMEM, m.umem), CMD_OK);
}

/* Process B has no number of A's, and none of the driver's. */
static void create_with_foreign_objects_is_bad_res(void **state)
{
	struct process a = make_process(), b = make_process(), driver = { .uid = 0 };
	struct memory a_mem = make_memory(a.uid, 2, 0, true), mem = make_memory(b.uid, 2, 0, true);
	uint32_t a_cqn = make_cq(&a, &a_mem, &a_mem), cqn = make_cq(&b, &mem, &mem), key;
	struct { const char *what; uint32_t foreign[3]; size_t bit, width; uint16_t op; } table[] = {
#define CQ_AT(field, ...) { "cq " #field, { __VA_ARGS__ },			\
		IFC_BIT(create_cq_in, cq_context.field), 24, MLX5_CMD_OP_CREATE_CQ }
#define QP_AT(field, ...) { "qp " #field, { __VA_ARGS__ },			\
		IFC_BIT(create_qp_in, qpc.field), 24, MLX5_CMD_OP_CREATE_QP }
		CQ_AT(uar_page, a.uar, 0, NO_NUMBER),
		{ "cq EQ", { driver_eqn, 0, 99 }, IFC_BIT(create_cq_in, cq_context) + 0xa0, 32,
		  MLX5_CMD_OP_CREATE_CQ },
		{ "cq umem", { a_mem.umem, 0, NO_NUMBER }, CREATE_CQ_UMEM_ID * 8, 32,
		  MLX5_CMD_OP_CREATE_CQ },
		{ "cq record", { a_mem.umem, 0, NO_NUMBER }, (16 + CQC_DBR_UMEM_ID) * 8, 32,
		  MLX5_CMD_OP_CREATE_CQ },
		QP_AT(pd, a.pd, 0, NO_NUMBER),
		QP_AT(uar_page, a.uar, 0, NO_NUMBER),
		QP_AT(cqn_snd, a_cqn, 0, NO_NUMBER),
		QP_AT(cqn_rcv, a_cqn, 0, NO_NUMBER),
		{ "qp umem", { a_mem.umem, 0, NO_NUMBER }, IFC_BIT(create_qp_in, wq_umem_id), 32,
		  MLX5_CMD_OP_CREATE_QP },
		{ "qp record", { a_mem.umem, 0, NO_NUMBER }, (24 + QPC_DBR_UMEM_ID) * 8, 32,
		  MLX5_CMD_OP_CREATE_QP },
	};

	driver.pd = number(0, MLX5_CMD_OP_ALLOC_PD);
	driver.uar = number(0, MLX5_CMD_OP_ALLOC_UAR);
	table[0].foreign[1] = table[5].foreign[1] = driver.uar;
	table[4].foreign[1] = driver.pd;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		for (unsigned int k = 0; k < 3; k++) {
			size_t memory;
			enum cmd_status status;

			if (table[i].op == MLX5_CMD_OP_CREATE_CQ)
				cq_in(&b, &mem, &mem);
			else
				qp_in(&b, cqn, &mem, &mem);
			ifc_set(in, table[i].bit, table[i].width, table[i].foreign[k]);
			memory = hca->memory;
			status = run(b.uid, table[i].op);
			if (status != CMD_BAD_RES)
				fail_msg("create with foreign %s (number %u): %#x, not BAD_RES",
					 table[i].what, k, status);
			assert_int_equal(hca->memory, memory);
		}
	}
	assert_int_equal(create_list(b.uid, a.pd, false, &key), CMD_BAD_RES);
	assert_int_equal(create_list(b.uid, driver.pd, false, &key), CMD_BAD_RES);
	assert_int_equal(create_list(b.uid, b.pd, false, &key), CMD_OK);
	/* The driver works for all: its keys are in the PDs of processes. */
	assert_int_equal(create_list(0, b.pd, false, &key), CMD_OK);
	/* No process has an EQ of its own. */
	memset(in, 0, 1024);
	assert_int_equal(run(b.uid, MLX5_CMD_OP_CREATE_EQ), CMD_BAD_PARAM);
}

/* Nor does it reach what exists: to destroy, change or look at it. */
static void commands_on_foreign_objects_are_bad_res(void **state)
{
	struct process a = make_process();
	struct memory mem = make_memory(a.uid, 2, 0, true);
	uint32_t cqn = make_cq(&a, &mem, &mem), qpn = make_qp(&a, cqn, &mem, &mem), key;
	uint16_t b = make_uctx();
	const struct { uint16_t op; uint32_t number; } table[] = {
		{ MLX5_CMD_OP_QUERY_QP, qpn }, { MLX5_CMD_OP_RST2INIT_QP, qpn },
		{ MLX5_CMD_OP_2ERR_QP, qpn }, { MLX5_CMD_OP_2RST_QP, qpn },
		{ MLX5_CMD_OP_DESTROY_QP, qpn }, { MLX5_CMD_OP_ATTACH_TO_MCG, qpn },
		{ MLX5_CMD_OP_QUERY_CQ, cqn }, { MLX5_CMD_OP_MODIFY_CQ, cqn },
		{ MLX5_CMD_OP_DESTROY_CQ, cqn }, { MLX5_CMD_OP_DESTROY_UMEM, mem.umem },
		{ MLX5_CMD_OP_DEALLOC_PD, a.pd }, { MLX5_CMD_OP_DEALLOC_UAR, a.uar },
		{ MLX5_CMD_OP_QUERY_EQ, eqn }, { MLX5_CMD_OP_DESTROY_EQ, eqn },
		{ MLX5_CMD_OP_QUERY_EQ, driver_eqn },
		{ MLX5_CMD_OP_DEALLOC_XRCD, number(a.uid, MLX5_CMD_OP_ALLOC_XRCD) },
		{ MLX5_CMD_OP_DEALLOC_XRCD, number(0, MLX5_CMD_OP_ALLOC_XRCD) },
		{ MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN,
		  number(a.uid, MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN) },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (simple(b, table[i].op, table[i].number, NULL) != CMD_BAD_RES)
			fail_msg("command %#x on a foreign object did not return BAD_RES",
				 table[i].op);
	assert_int_equal(create_list(a.uid, a.pd, false, &key), CMD_OK);
	assert_int_equal(simple(b, MLX5_CMD_OP_QUERY_MKEY, key >> 8, NULL), CMD_BAD_RES);
	assert_int_equal(simple(b, MLX5_CMD_OP_DESTROY_MKEY, key >> 8, NULL), CMD_BAD_RES);
	assert_int_equal(simple(a.uid, MLX5_CMD_OP_QUERY_QP, qpn, NULL), CMD_OK);
	assert_int_equal(simple(a.uid, MLX5_CMD_OP_QUERY_CQ, cqn, NULL), CMD_OK);
	/* The driver looks at all, without a uid. */
	assert_int_equal(simple(0, MLX5_CMD_OP_QUERY_QP, qpn, NULL), CMD_OK);
	assert_int_equal(simple(0, MLX5_CMD_OP_QUERY_MKEY, key >> 8, NULL), CMD_OK);
	assert_int_equal(simple(0, MLX5_CMD_OP_2ERR_QP, qpn, NULL), CMD_OK);
}

/* XRC: the driver opens domains for all; a process's SRQ may be in one, its QP may not. */
static void srq_may_use_the_drivers_xrcd_and_qp_may_not(void **state)
{
	struct process a = make_process();
	struct memory mem = make_memory(a.uid, 2, 0, true);
	uint32_t cqn = make_cq(&a, &mem, &mem), other = make_uctx();
	struct { uint32_t xrcd; enum cmd_status srq, qp; } table[] = {
		{ number(0, MLX5_CMD_OP_ALLOC_XRCD), CMD_OK, CMD_BAD_RES },
		{ number(a.uid, MLX5_CMD_OP_ALLOC_XRCD), CMD_OK, CMD_OK },
		{ number(other, MLX5_CMD_OP_ALLOC_XRCD), CMD_BAD_RES, CMD_BAD_RES },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		void *xrc = IFC_PTR(create_xrc_srq_in, in, xrc_srq_context_entry);
		uint32_t srqn;
		u8 *qpc;

		memset(in, 0, 1024);
		IFC_SET(xrc_srqc, xrc, log_xrc_srq_size, 4);
		IFC_SET(xrc_srqc, xrc, log_rq_stride, 1);
		IFC_SET(xrc_srqc, xrc, xrcd, table[i].xrcd);
		IFC_SET(xrc_srqc, xrc, cqn, cqn);
		IFC_SET(xrc_srqc, xrc, pd, a.pd);
		put_be64(in + IFC_BYTES(create_xrc_srq_in), mem.page[0]);
		assert_int_equal(run(a.uid, MLX5_CMD_OP_CREATE_XRC_SRQ), table[i].srq);
		srqn = IFC_GET(create_xrc_srq_out, out, xrc_srqn);
		assert_int_equal(destroy(other, MLX5_CMD_OP_DESTROY_XRC_SRQ, srqn), CMD_BAD_RES);
		assert_int_equal(destroy(a.uid, MLX5_CMD_OP_DESTROY_XRC_SRQ, srqn), table[i].srq);
		memset(in, 0, 1024);
		IFC_SET(xrc_srqc, xrc, xrcd, table[i].xrcd);
		/* By umem it is not modelled, and pages of a process are not looked at. */
		IFC_SET(create_xrc_srq_in, in, xrc_srq_umem_valid, 1);
		assert_int_equal(run(a.uid, MLX5_CMD_OP_CREATE_XRC_SRQ), CMD_BAD_PARAM);

		qpc = qp_in(&a, 0, &mem, &mem);
		IFC_SET(qpc, qpc, st, MLX5_QPC_ST_XRC);
		IFC_SET(qpc, qpc, no_sq, 1);
		IFC_SET(qpc, qpc, rq_type, 1);
		IFC_SET(qpc, qpc, xrcd, table[i].xrcd);
		assert_int_equal(run(a.uid, MLX5_CMD_OP_CREATE_QP), table[i].qp);
	}
}

/* With as much room for the answer as the process's structure has. */
static void hca_cap_query_stops_at_the_output_length(void **state)
{
	uint16_t uid = make_uctx();

	memset(in, 0, 1024);
	assert_int_equal(run_len(uid, MLX5_CMD_OP_QUERY_HCA_CAP, 1, 16, 16 + 2048), CMD_OK);
	assert_int_equal(IFC_GET(cmd_hca_cap, out + 16, num_ports), 1);
	assert_int_equal(IFC_GET(cmd_hca_cap, out + 16, log_max_uctx), HCA_LOG_UCTXS);
	/* Nothing behind it is touched. */
	assert_int_equal(run_len(uid, MLX5_CMD_OP_QUERY_HCA_CAP, 1, 16, 16 + 52), CMD_OK);
	assert_int_equal(IFC_GET(cmd_hca_cap, out + 16, log_max_cq_sz), HCA_LOG_MAX_CQ);
	assert_int_equal(IFC_GET(cmd_hca_cap, out + 16, num_ports), 0);
	assert_int_equal(run_len(uid, MLX5_CMD_OP_QUERY_HCA_CAP, 1, 16, 12), CMD_BAD_OUTPUT_LEN);
	assert_int_equal(run_len(uid, MLX5_CMD_OP_QUERY_HCA_VPORT_CONTEXT, 0, 16, 528), CMD_OK);
	assert_int_not_equal(IFC_GET(hca_vport_context, out + 16, lid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(only_the_driver_makes_and_ends_a_uctx),
		TEST(uctx_with_permissions_is_bad_param),
		TEST(uctx_beyond_the_limit_is_lim_exceeded),
		TEST(uctx_with_objects_stays),
		TEST(hostile_create_umem_is_refused),
		TEST(queues_stay_inside_their_umem),
		TEST(doorbells_stay_inside_their_umem),
		TEST(receive_pools_stay_inside_their_umem),
		TEST(keys_stay_inside_their_umem),
		TEST(create_with_foreign_objects_is_bad_res),
		TEST(commands_on_foreign_objects_are_bad_res),
		TEST(srq_may_use_the_drivers_xrcd_and_qp_may_not),
		TEST(hca_cap_query_stops_at_the_output_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
