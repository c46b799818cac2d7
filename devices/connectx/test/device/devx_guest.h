/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest for the whole model: its memory, its driver, which has a shared EQ, and processes
 * that compose commands themselves, as rdma-core's tests/mlx5_base.py does.  Nothing here is
 * a fake.
 */
#ifndef CONNECTX_TEST_DEVX_GUEST_H
#define CONNECTX_TEST_DEVX_GUEST_H

#define _GNU_SOURCE 1
#include "cmd.h"
#include "cmdif.h"
#include "devx.h"
#include "dma.h"
#include "hca.h"
#include "life.h"
#include "link.h"
#include "loop.h"
#include "plug.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define RAM 0x100000000ull
#define RAM_SIZE (8ul << 20)
#define LOG_CQ 4
#define LOG_RQ 3
#define LOG_SQ 4
#define RQ_BYTES (16u << LOG_RQ)
#define NO_NUMBER 0xffffff

static struct loop *loop;
static struct dma dma;
static struct hca *hca;
static u8 *ram;
static uint64_t ram_used;
static uint32_t eqn, driver_eqn;	/* for all; and the driver's own */
static u8 in[8192], out[8192];

static inline u8 *at(uint64_t addr)
{
	assert_true(addr >= RAM && addr - RAM < RAM_SIZE);
	return ram + (addr - RAM);
}

static inline uint64_t take_page(void)
{
	uint64_t addr = RAM + ram_used;

	ram_used += HCA_PAGE;
	assert_true(ram_used <= RAM_SIZE);
	return addr;
}

/* The command in IN, for user UID. */
static inline enum cmd_status run_len(uint16_t uid, uint16_t op, uint16_t op_mod, size_t in_len,
				      size_t out_len)
{
	struct cmd c = { .in = in, .in_len = in_len, .out = out, .out_len = out_len };
	enum cmd_status status;

	memset(out, 0, sizeof(out));
	put_be16(in, op);
	put_be16(in + 2, uid);
	put_be16(in + 6, op_mod);
	status = cmd_run(hca, &c);
	if (status)
		assert_int_not_equal(c.syndrome, 0);
	return status;
}

static inline enum cmd_status run(uint16_t uid, uint16_t op)
{
	return run_len(uid, op, 0, 1024, 1024);
}

/* A command with one or two words after the head; the answer's first word. */
static inline enum cmd_status simple(uint16_t uid, uint16_t op, uint32_t word2, uint32_t *result)
{
	enum cmd_status status;

	memset(in, 0, 1024);
	put_be32(in + 8, word2);
	status = run(uid, op);
	if (result)
		*result = be32_at(out + 8);
	return status;
}

static inline uint32_t number(uint16_t uid, uint16_t op)
{
	uint32_t n;

	assert_int_equal(simple(uid, op, 0, &n), CMD_OK);
	return n;
}

static inline uint32_t make_eq(uint16_t uid, uint32_t uar)
{
	void *eqc = IFC_PTR(create_eq_in, in, eq_context_entry);

	memset(in, 0, 1024);
	IFC_SET(eqc, eqc, log_eq_size, 5);
	IFC_SET(eqc, eqc, uar_page, uar);
	put_be64(in + IFC_BYTES(create_eq_in), take_page());
	assert_int_equal(run(uid, MLX5_CMD_OP_CREATE_EQ), CMD_OK);
	return IFC_GET(create_eq_out, out, eq_number);
}

static void ignore_vector(void *arg, unsigned int vector)
{
}

static int guest_up(void **state)
{
	int fd = memfd_create("guest", MFD_CLOEXEC);
	uint32_t uar;

	assert_int_equal(ftruncate(fd, RAM_SIZE), 0);
	ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(ram, MAP_FAILED);
	assert_int_equal(dma_map(&dma, RAM, RAM_SIZE, fd, 0, true), 0);
	close(fd);
	ram_used = 0;
	loop = loop_new();
	hca = hca_new(loop, &dma, 0x0002c90300000010);
	assert_non_null(hca);
	hca->raise = ignore_vector;
	assert_true(hca_plug(hca, NULL, NULL));

	memset(in, 0, sizeof(in));
	assert_int_equal(run(0, MLX5_CMD_OP_ENABLE_HCA), CMD_OK);
	assert_int_equal(simple(0, MLX5_CMD_OP_SET_ISSI, 1, NULL), CMD_OK);
	assert_int_equal(simple(0, MLX5_CMD_OP_INIT_HCA, 0, NULL), CMD_OK);
	uar = number(0, MLX5_CMD_OP_ALLOC_UAR);
	eqn = make_eq(UID_SHARED, uar);
	driver_eqn = make_eq(0, uar);
	return 0;
}

/* Whatever a test left: a reset gives all of it back. */
static int guest_down(void **state)
{
	hca_reset(hca);
	assert_int_equal(hca->memory, 0);
	link_free(hca->link);
	hca->link = NULL;
	hca_free(hca);
	loop_free(loop);
	dma_unmap_all(&dma);
	munmap(ram, RAM_SIZE);
	return 0;
}

/* Processes. */

struct process {
	uint16_t uid;
	uint32_t pd, uar;
};

static inline uint16_t make_uctx(void)
{
	assert_int_equal(simple(0, MLX5_CMD_OP_CREATE_UCTX, 0, NULL), CMD_OK);
	return IFC_GET(create_uctx_out, out, uid);
}

static inline struct process make_process(void)
{
	struct process p = { .uid = make_uctx() };

	p.pd = number(p.uid, MLX5_CMD_OP_ALLOC_PD);
	p.uar = number(p.uid, MLX5_CMD_OP_ALLOC_UAR);
	return p;
}

/* A umem of pages that are not contiguous, and begins at byte START. */
struct memory {
	uint32_t umem, start;
	unsigned int pages;
	uint64_t page[16];
};

static inline size_t memory_in(const struct memory *m, bool writable)
{
	void *umem = IFC_PTR(create_umem_in, in, umem);

	memset(in, 0, 1024);
	IFC_SET64(umem, umem, num_of_mtt, m->pages);
	IFC_SET(umem, umem, page_offset, m->start);
	for (unsigned int i = 0; i < m->pages; i++)
		put_be64(in + IFC_BYTES(create_umem_in) + 8 * i, m->page[i] | 1 | writable << 1);
	return IFC_BYTES(create_umem_in) + 8 * m->pages;
}

static inline struct memory make_memory(uint16_t uid, unsigned int pages, uint32_t start,
					bool writable)
{
	struct memory m = { .pages = pages, .start = start };

	for (unsigned int i = pages; i; i--) {
		m.page[i - 1] = take_page();
		take_page();
	}
	assert_int_equal(run_len(uid, MLX5_CMD_OP_CREATE_UMEM, 0, memory_in(&m, writable), 16),
			 CMD_OK);
	m.umem = IFC_GET(create_umem_out, out, umem_id);
	return m;
}

/* Where a process sees the byte; good up to the end of its page. */
static inline u8 *memory_at(const struct memory *m, uint64_t offset)
{
	offset += m->start;
	assert_true(offset / HCA_PAGE < m->pages);
	return at(m->page[offset / HCA_PAGE] + offset % HCA_PAGE);
}

/* CREATE_CQ as tests/mlx5_base.py makes it, in IN, for a test to change. */
static inline void *cq_in(const struct process *p, const struct memory *buf,
			  const struct memory *db)
{
	u8 *cqc = IFC_PTR(create_cq_in, in, cq_context);

	memset(in, 0, 1024);
	IFC_SET(cqc, cqc, c_eqn_or_apu_element, eqn);
	IFC_SET(cqc, cqc, uar_page, p->uar);
	IFC_SET(cqc, cqc, log_cq_size, LOG_CQ);
	IFC_SET(cqc, cqc, dbr_umem_valid, 1);
	put_be32(cqc + CQC_DBR_UMEM_ID, db->umem);
	IFC_SET(create_cq_in, in, cq_umem_valid, 1);
	put_be32(in + CREATE_CQ_UMEM_ID, buf->umem);
	return cqc;
}

static inline uint32_t make_cq(const struct process *p, const struct memory *buf,
			       const struct memory *db)
{
	cq_in(p, buf, db);
	assert_int_equal(run(p->uid, MLX5_CMD_OP_CREATE_CQ), CMD_OK);
	return IFC_GET(create_cq_out, out, cqn);
}

static inline u8 *qp_in(const struct process *p, uint32_t cqn, const struct memory *buf,
			const struct memory *db)
{
	u8 *qpc = IFC_PTR(create_qp_in, in, qpc);

	memset(in, 0, 1024);
	IFC_SET(qpc, qpc, st, MLX5_QPC_ST_RC);
	IFC_SET(qpc, qpc, pd, p->pd);
	IFC_SET(qpc, qpc, pm_state, 3);
	IFC_SET(qpc, qpc, log_rq_size, LOG_RQ);
	IFC_SET(qpc, qpc, log_sq_size, LOG_SQ);
	IFC_SET(qpc, qpc, ts_format, 1);
	IFC_SET(qpc, qpc, uar_page, p->uar);
	IFC_SET(qpc, qpc, cqn_snd, cqn);
	IFC_SET(qpc, qpc, cqn_rcv, cqn);
	IFC_SET(qpc, qpc, dbr_umem_valid, 1);
	put_be32(qpc + QPC_DBR_UMEM_ID, db->umem);
	IFC_SET(create_qp_in, in, wq_umem_valid, 1);
	IFC_SET(create_qp_in, in, wq_umem_id, buf->umem);
	return qpc;
}

static inline uint32_t make_qp(const struct process *p, uint32_t cqn, const struct memory *buf,
			       const struct memory *db)
{
	qp_in(p, cqn, buf, db);
	assert_int_equal(run(p->uid, MLX5_CMD_OP_CREATE_QP), CMD_OK);
	return IFC_GET(create_qp_out, out, qpn);
}

/* As mlx5dv_create_mkey(): a list that UMR fills.  Its lkey. */
static inline enum cmd_status create_list(uint16_t uid, uint32_t pd, bool remote_invalidate,
					  uint32_t *key)
{
	void *mkc = IFC_PTR(create_mkey_in, in, memory_key_mkey_entry);
	enum cmd_status status;

	memset(in, 0, 1024);
	IFC_SET(mkc, mkc, access_mode_1_0, MLX5_MKC_ACCESS_MODE_KLMS);
	IFC_SET(mkc, mkc, free, 1);
	IFC_SET(mkc, mkc, umr_en, 1);
	IFC_SET(mkc, mkc, pd, pd);
	IFC_SET(mkc, mkc, translations_octword_size, 4);
	IFC_SET(mkc, mkc, lr, 1);
	IFC_SET(mkc, mkc, qpn, 0xffffff);
	IFC_SET(mkc, mkc, en_rinval, remote_invalidate);
	status = run(uid, MLX5_CMD_OP_CREATE_MKEY);
	*key = IFC_GET(create_mkey_out, out, mkey_index) << 8;
	return status;
}

/* As tests/test_mlx5_cuda_umem.py: pages of a umem, which the process sees at START. */
static inline void *umem_key_in(uint32_t pd, uint32_t umem, uint64_t offset, uint64_t start,
				uint64_t len)
{
	void *mkc = IFC_PTR(create_mkey_in, in, memory_key_mkey_entry);

	memset(in, 0, 1024);
	IFC_SET(mkc, mkc, access_mode_1_0, MLX5_MKC_ACCESS_MODE_MTT);
	IFC_SET(mkc, mkc, lr, 1);
	IFC_SET(mkc, mkc, lw, 1);
	IFC_SET(mkc, mkc, pd, pd);
	IFC_SET(mkc, mkc, qpn, 0xffffff);
	IFC_SET64(mkc, mkc, start_addr, start);
	IFC_SET64(mkc, mkc, len, len);
	IFC_SET(create_mkey_in, in, mkey_umem_valid, 1);
	put_be32(in + CREATE_MKEY_UMEM_ID, umem);
	put_be64(in + CREATE_MKEY_UMEM_OFFSET, offset);
	return mkc;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, guest_up, guest_down)

#endif
