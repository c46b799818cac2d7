// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Each way in which the device can go down, with one of every object at work.  Afterwards
 * nothing is left and nothing runs, guest memory is not touched, and the device comes up again.
 *
 * It is all of the model together, nothing of it is a fake.  No object is left, and all memory
 * and all packets are given back.
 */
#define _GNU_SOURCE
#include "clock.h"
#include "bar.h"
#include "cmd.h"
#include "cmdif.h"
#include "cq.h"
#include "dma.h"
#include "hca.h"
#include "life.h"
#include "link.h"
#include "memic.h"
#include "packet.h"
#include "plug.h"
#include "qp.h"
#include "srq.h"
#include "table.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define RAM 0x100000000ull
#define RAM_SIZE (1u << 20)
#define EVENTS (BIT_ULL(MLX5_EVENT_TYPE_CODING_CQ_ERROR) | BIT_ULL(0x0c) |		\
		BIT_ULL(MLX5_EVENT_TYPE_CODING_COMMUNICATION_ESTABLISHED) | BIT_ULL(0x13))

static struct dma dma;
static struct loop *loop;
static struct hca *hca;
static u8 *ram;
static uint32_t next_page;		/* of guest memory */
static u8 in[8192], out[8192];
static unsigned int packets;		/* that the pool gives */

/* What the guest made. */
static uint32_t uar, pd, xrcd, eq, comp_eq, cq, mkey_absent, mkey_all, uid, umem;

static void fake_raise(void *arg, unsigned int vector)
{
}

static uint64_t page(void)
{
	assert_true(next_page < RAM_SIZE / 4096);
	return RAM + 4096ull * next_page++;
}

static u8 *at(uint64_t addr)
{
	return ram + (addr - RAM);
}

static enum cmd_status try(uint16_t op, size_t len)
{
	struct cmd c = { .in = in, .in_len = len, .out = out, .out_len = sizeof(out) };
	enum cmd_status status;

	memset(out, 0, sizeof(out));
	put_be16(in, op);
	status = cmd_run(hca, &c);
	memset(in, 0, sizeof(in));
	return status;
}

static void command(uint16_t op, size_t len)
{
	enum cmd_status status = try(op, len);

	if (status)
		fail_msg("command %#x returned status %#x, syndrome %#x", op, status,
			 be32_at(out + 4));
}

/* A command whose input is a number or nothing, and whose output a number or nothing. */
static uint32_t simple(uint16_t op, uint32_t word)
{
	put_be32(in + 8, word);
	command(op, 64);
	return be32_at(out + 8) & 0xffffff;
}

static void run_for(uint64_t ms)
{
	loop_run_for(loop, ms * 1000000);
}

static unsigned int count_packets(void)
{
	struct list all = { &all, &all };
	unsigned int n = 0;
	struct packet *p;

	for (; (p = link_packet(hca->link)); n++)
		list_add(&all, &p->entry);
	while (!list_empty(&all))
		link_packet_free(hca->link, list_item(all.next, struct packet, entry));
	return n;
}

static uint32_t make_eq(unsigned int log_size, uint64_t events)
{
	void *eqc = IFC_PTR(create_eq_in, in, eq_context_entry);

	IFC_SET(eqc, eqc, log_eq_size, log_size);
	IFC_SET(eqc, eqc, uar_page, uar);
	put_be64(IFC_PTR(create_eq_in, in, event_bitmask), events);
	put_be64(in + IFC_BYTES(create_eq_in), page());
	command(MLX5_CMD_OP_CREATE_EQ, IFC_BYTES(create_eq_in) + 8);
	return IFC_GET(create_eq_out, out, eq_number);
}

static uint32_t make_cq(unsigned int count, unsigned int period)
{
	void *cqc = IFC_PTR(create_cq_in, in, cq_context);

	IFC_SET(cqc, cqc, log_cq_size, 5);
	IFC_SET(cqc, cqc, uar_page, uar);
	IFC_SET(cqc, cqc, c_eqn_or_apu_element, comp_eq);
	IFC_SET(cqc, cqc, cq_max_count, count);
	IFC_SET(cqc, cqc, cq_period, period);
	IFC_SET64(cqc, cqc, dbr_addr, page());
	put_be64(in + IFC_BYTES(create_cq_in), page());
	command(MLX5_CMD_OP_CREATE_CQ, IFC_BYTES(create_cq_in) + 8);
	return IFC_GET(create_cq_out, out, cqn);
}

static uint32_t make_rmp(void)
{
	void *rmpc = IFC_PTR(create_rmp_in, in, ctx), *wq = IFC_PTR(rmpc, rmpc, wq);

	IFC_SET(rmpc, rmpc, state, MLX5_RMPC_STATE_RDY);
	IFC_SET(wq, wq, pd, pd);
	IFC_SET(wq, wq, log_wq_sz, 4);
	IFC_SET(wq, wq, log_wq_stride, 5);
	IFC_SET64(wq, wq, dbr_addr, page());
	put_be64(in + IFC_BYTES(create_rmp_in), page());
	command(MLX5_CMD_OP_CREATE_RMP, IFC_BYTES(create_rmp_in) + 8);
	return IFC_GET(create_rmp_out, out, rmpn);
}

static uint32_t make_xrc_srq(void)
{
	void *xrc = IFC_PTR(create_xrc_srq_in, in, xrc_srq_context_entry);

	IFC_SET(xrc_srqc, xrc, log_xrc_srq_size, 4);
	IFC_SET(xrc_srqc, xrc, log_rq_stride, 1);
	IFC_SET(xrc_srqc, xrc, pd, pd);
	IFC_SET(xrc_srqc, xrc, xrcd, xrcd);
	IFC_SET(xrc_srqc, xrc, cqn, cq);
	put_be64(IFC_PTR(xrc_srqc, xrc, db_record_addr_h), page());
	put_be64(in + IFC_BYTES(create_xrc_srq_in), page());
	command(MLX5_CMD_OP_CREATE_XRC_SRQ, IFC_BYTES(create_xrc_srq_in) + 8);
	return IFC_GET(create_xrc_srq_out, out, xrc_srqn);
}

/* One page from address 0 on, or its absence; or a list of one other key. */
static uint32_t make_mkey(u8 mode, uint64_t entry)
{
	void *mkc = IFC_PTR(create_mkey_in, in, memory_key_mkey_entry);

	IFC_SET(mkc, mkc, access_mode_1_0, mode);
	IFC_SET(mkc, mkc, lr, 1);
	IFC_SET(mkc, mkc, lw, 1);
	IFC_SET(mkc, mkc, rr, 1);
	IFC_SET(mkc, mkc, rw, 1);
	IFC_SET(mkc, mkc, umr_en, 1);
	IFC_SET(mkc, mkc, pd, pd);
	IFC_SET(mkc, mkc, qpn, 0xffffff);
	IFC_SET64(mkc, mkc, len, 4096);
	IFC_SET(mkc, mkc, log_page_size, 12);
	IFC_SET(mkc, mkc, translations_octword_size, 1);
	IFC_SET(create_mkey_in, in, translations_octword_actual_size, 1);
	IFC_SET(create_mkey_in, in, pg_access, 1);
	put_be64(in + IFC_BYTES(create_mkey_in), entry);
	command(MLX5_CMD_OP_CREATE_MKEY, IFC_BYTES(create_mkey_in) + 16);
	return IFC_GET(create_mkey_out, out, mkey_index) << 8;
}

/* 4 receives of 16 bytes and 16 blocks to send, in one page. */
static struct qp *make_qp(unsigned int st, uint32_t rmp)
{
	void *qpc = IFC_PTR(create_qp_in, in, qpc);

	IFC_SET(qpc, qpc, st, st);
	IFC_SET(qpc, qpc, pd, pd);
	IFC_SET(qpc, qpc, rq_type, rmp ? 1 : 0);
	IFC_SET(qpc, qpc, srqn_rmpn_xrqn, rmp);
	IFC_SET(qpc, qpc, log_rq_size, 2);
	IFC_SET(qpc, qpc, log_sq_size, 4);
	IFC_SET(qpc, qpc, uar_page, uar);
	IFC_SET(qpc, qpc, cqn_snd, cq);
	IFC_SET(qpc, qpc, cqn_rcv, cq);
	IFC_SET64(qpc, qpc, dbr_addr, page());
	put_be64(in + IFC_BYTES(create_qp_in), page());
	command(MLX5_CMD_OP_CREATE_QP, IFC_BYTES(create_qp_in) + 8);
	return qp_get(hca, IFC_GET(create_qp_out, out, qpn));
}

static void *modify(const struct qp *qp)
{
	IFC_SET(rst2init_qp_in, in, qpn, qp->number);
	return IFC_PTR(rst2init_qp_in, in, qpc);
}

static void to_rts(struct qp *qp, const struct qp *peer)
{
	void *qpc = modify(qp);

	IFC_SET(qpc, qpc, primary_address_path.vhca_port_num, 1);
	IFC_SET(qpc, qpc, rre, 1);
	IFC_SET(qpc, qpc, rwe, 1);
	command(MLX5_CMD_OP_RST2INIT_QP, IFC_BYTES(rst2init_qp_in));
	modify(qp);
	IFC_SET(qpc, qpc, mtu, MLX5_QPC_MTU_256_BYTES);
	IFC_SET(qpc, qpc, min_rnr_nak, 1);
	IFC_SET(qpc, qpc, remote_qpn, peer->number);
	IFC_SET(qpc, qpc, primary_address_path.rlid, hca->port.lid);
	command(MLX5_CMD_OP_INIT2RTR_QP, IFC_BYTES(rst2init_qp_in));
	modify(qp);
	IFC_SET(qpc, qpc, retry_count, 7);
	IFC_SET(qpc, qpc, rnr_retry, 7);
	IFC_SET(qpc, qpc, primary_address_path.ack_timeout, 14);
	command(MLX5_CMD_OP_RTR2RTS_QP, IFC_BYTES(rst2init_qp_in));
}

/* A signalled WQE of one block, and its doorbell. */
static void post(struct qp *qp, u8 opcode, uint32_t rkey, uint32_t lkey)
{
	uint32_t index = be32_at(at(qp->doorbell) + 4);
	u8 *wqe = at(qp->buf.page[0] + qp->sq_offset + index % 16 * 64), *p = wqe + 16, bell[8];

	memset(wqe, 0, 64);
	if (opcode == MLX5_OPCODE_RDMA_WRITE) {
		put_be32(p + 8, rkey);
		p += 16;
	}
	if (opcode != MLX5_OPCODE_NOP) {
		put_be32(p, 100);
		put_be32(p + 4, lkey);
		p += 16;
	}
	put_be32(wqe, index << 8 | opcode);
	put_be32(wqe + 4, qp->number << 8 | (p - wqe) / 16);
	wqe[11] = 8;
	put_be32(at(qp->doorbell) + 4, index + 1);
	memcpy(bell, wqe, 8);
	hca_bar_write(hca, (uint64_t)uar * 4096 + 0x800, bell, 8);
}

/* Two connected QPs; the first one is returned. */
static struct qp *make_pair(struct qp **peer)
{
	struct qp *a = make_qp(MLX5_QPC_ST_RC, 0), *b = make_qp(MLX5_QPC_ST_RC, 0);

	to_rts(a, b);
	to_rts(b, a);
	if (peer)
		*peer = b;
	return a;
}

/* ENABLE_HCA to INIT_HCA. */
static void bring_up(void)
{
	simple(MLX5_CMD_OP_ENABLE_HCA, 0);
	simple(MLX5_CMD_OP_SET_ISSI, 1);
	put_be16(in + 6, MLX5_MANAGE_PAGES_IN_OP_MOD_ALLOCATION_SUCCESS);
	IFC_SET(manage_pages_in, in, input_num_entries, 1);
	command(MLX5_CMD_OP_MANAGE_PAGES, IFC_BYTES(manage_pages_in) + 8);
	simple(MLX5_CMD_OP_INIT_HCA, 0);
}

static void make_objects(void)
{
	struct qp *group;

	uar = simple(MLX5_CMD_OP_ALLOC_UAR, 0);
	pd = simple(MLX5_CMD_OP_ALLOC_PD, 0);
	xrcd = simple(MLX5_CMD_OP_ALLOC_XRCD, 0);
	simple(MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN, 0);
	eq = make_eq(6, EVENTS);
	comp_eq = make_eq(0, 0);
	cq = make_cq(0, 0);
	make_xrc_srq();
	mkey_all = make_mkey(MLX5_MKC_ACCESS_MODE_MTT, page() | 3);
	mkey_absent = make_mkey(MLX5_MKC_ACCESS_MODE_MTT, 0);
	make_mkey(MLX5_MKC_ACCESS_MODE_KLMS, 4096ull << 32 | mkey_all);

	command(MLX5_CMD_OP_CREATE_UCTX, IFC_BYTES(create_uctx_in));
	uid = IFC_GET(create_uctx_out, out, uid);
	put_be16(in + 2, uid);
	IFC_SET64(create_umem_in, in, umem.num_of_mtt, 1);
	put_be64(in + IFC_BYTES(create_umem_in), page() | 3);
	command(MLX5_CMD_OP_CREATE_UMEM, IFC_BYTES(create_umem_in) + 8);
	umem = IFC_GET(create_umem_out, out, umem_id);

	IFC_SET64(alloc_memic_in, in, range_start_addr, HCA_MEMIC_START);
	IFC_SET(alloc_memic_in, in, range_size, HCA_MEMIC_SIZE);
	IFC_SET(alloc_memic_in, in, memic_size, HCA_MEMIC_SIZE);
	command(MLX5_CMD_OP_ALLOC_MEMIC, IFC_BYTES(alloc_memic_in));
	hca_bar_write(hca, HCA_MEMIC_START, "secret", 4);

	group = make_qp(MLX5_QPC_ST_UD, make_rmp());
	IFC_SET(attach_to_mcg_in, in, qpn, group->number);
	put_be64(IFC_PTR(attach_to_mcg_in, in, multicast_gid), 0xff12401bffff0000);
	command(MLX5_CMD_OP_ATTACH_TO_MCG, IFC_BYTES(attach_to_mcg_in));
}

/* A completion by the device itself. */
static void complete(uint32_t cqn)
{
	struct mlx5_cqe64 cqe = { .op_own = MLX5_CQE_REQ << 4 };

	cq_doorbell(hca, 0, cqn);
	cq_push(cq_get(hca, cqn), &cqe, true);
}

/* Everything that waits for something: for each one a check that it does. */
static void make_work(void)
{
	uint32_t moderated = make_cq(10, 4000), full = make_cq(0, 0), waits = make_cq(0, 0);
	struct qp *rnr, *remote, *local, *flushed, *target, *busy;

	complete(full);
	complete(waits);			/* the EQ has one entry */
	assert_false(list_empty(&cq_get(hca, waits)->waits));

	rnr = make_pair(NULL);			/* its peer has no receive WQE */
	post(rnr, MLX5_OPCODE_SEND, 0, mkey_all);
	remote = make_pair(&target);		/* a page of the target is absent */
	post(remote, MLX5_OPCODE_RDMA_WRITE, mkey_absent, mkey_all);
	local = make_pair(NULL);		/* or an own one */
	post(local, MLX5_OPCODE_SEND, 0, mkey_absent);
	flushed = make_pair(NULL);
	post(flushed, MLX5_OPCODE_NOP, 0, 0);
	IFC_SET(qp_2err_in, in, qpn, flushed->number);
	command(MLX5_CMD_OP_2ERR_QP, IFC_BYTES(qp_2err_in));
	run_for(20);
	assert_int_equal(rnr->req.count, 1);
	assert_non_null(target->resp.stalled);
	assert_non_null(target->fault[FAULT_RESPONDER].wait);
	assert_non_null(local->fault[FAULT_REQUESTER].wait);
	assert_true(timer_runs(&remote->req.retry));
	assert_true(timer_runs(&flushed->flush_poll));

	complete(moderated);
	assert_true(timer_runs(&cq_get(hca, moderated)->moderation));
	busy = make_pair(NULL);
	for (unsigned int i = 0; i < 10; i++)
		post(busy, MLX5_OPCODE_RDMA_WRITE, mkey_all, mkey_all);
	for (unsigned int i = 0; i < 10; i++)	/* now, and no other's */
		busy->req.work.run(&busy->req.work);
	assert_true(count_packets() < packets - 8);
	qp_error(make_pair(NULL), 0);		/* its flush is work for later */
}

static void reset_by_function(void) { hca_reset(hca); }

static void disable(void) { simple(MLX5_CMD_OP_DISABLE_HCA, 0); }

static void teardown_by_force(void)
{
	simple(MLX5_CMD_OP_TEARDOWN_HCA, MLX5_TEARDOWN_HCA_IN_PROFILE_FORCE_CLOSE);
}

static void fast_teardown(void)
{
	u8 low[4];

	simple(MLX5_CMD_OP_TEARDOWN_HCA, MLX5_TEARDOWN_HCA_IN_PROFILE_PREPARE_FAST_TEARDOWN);
	assert_true(hca->initialized);
	put_be32(low, MLX5_INITIAL_SEG_NIC_INTERFACE_DISABLED << 8);
	hca_bar_write(hca, 0x14, low, 4);
	/* The driver waits for it to be said. */
	hca_bar_read(hca, 0x14, low, 4);
	assert_int_equal(be32_at(low) >> 8 & 7, MLX5_INITIAL_SEG_NIC_INTERFACE_DISABLED);
}

/* A kernel that crashed, and its successor. */
static void enable_again(void) { simple(MLX5_CMD_OP_ENABLE_HCA, 0); }

static void check_nothing_is_left(void)
{
	const struct table *tables[] = { &hca->uars, &hca->pds, &hca->tds, &hca->xrcds, &hca->eqs,
					 &hca->cqs, &hca->srqs, &hca->qps, &hca->mkeys, &hca->uctxs,
					 &hca->umems };
	u8 *before = malloc(RAM_SIZE), value[4];

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		assert_int_equal(tables[i]->count, 0);
		assert_null(tables[i]->slot);
	}
	for (size_t i = 0; i < 64; i++)
		assert_null(hca->event_eq[i]);
	assert_int_equal(hca->memory, 0);
	assert_null(hca->odp);
	assert_false(hca->initialized);
	assert_int_equal(count_packets(), packets);
	for (size_t i = 0; i < HCA_MEMIC_SIZE; i++)
		assert_int_equal(hca->memic[i], 0);
	hca_bar_read(hca, HCA_MEMIC_START, value, 4);
	assert_int_equal(be32_at(value), 0);
	assert_int_equal(try(MLX5_CMD_OP_ALLOC_PD, 64), CMD_BAD_SYS_STATE);

	/* Longer than each timer that ran. */
	memcpy(before, ram, RAM_SIZE);
	run_for(70);
	assert_memory_equal(before, ram, RAM_SIZE);
	assert_int_equal(hca->memory, 0);
	free(before);
}

static void goes_down(void (*way)(void))
{
	/* Twice: what is left of the first time would be in the way. */
	for (unsigned int i = 0; i < 2; i++) {
		memset(ram, 0, RAM_SIZE);
		next_page = 1;
		bring_up();
		make_objects();
		make_work();
		assert_int_not_equal(hca->memory, 0);
		way();
		check_nothing_is_left();
	}
}

static void function_reset_leaves_nothing(void **state)
{
	goes_down(reset_by_function);
	assert_int_equal(hca->page_count, 0);
}

static void disable_hca_leaves_nothing(void **state) { goes_down(disable); }
static void forced_teardown_leaves_nothing(void **state) { goes_down(teardown_by_force); }
static void fast_teardown_leaves_nothing(void **state) { goes_down(fast_teardown); }
static void second_enable_hca_leaves_nothing(void **state) { goes_down(enable_again); }

/* Objects that the guest destroys itself, in the order of the driver, leave nothing either. */
static void destroying_each_object_leaves_nothing(void **state)
{
	size_t start, memic = HCA_MEMIC_SIZE;
	uint32_t n;

	memset(ram, 0, RAM_SIZE);
	next_page = 1;
	bring_up();
	start = hca->memory;
	make_objects();
	make_work();
	for (n = 0; table_next(&hca->qps, &n);)
		simple(MLX5_CMD_OP_DESTROY_QP, n);
	for (n = 0; table_next(&hca->srqs, &n);)
		simple(srq_get(hca, n)->xrc ? MLX5_CMD_OP_DESTROY_XRC_SRQ :
		       MLX5_CMD_OP_DESTROY_RMP, n);
	for (n = 0; table_next(&hca->mkeys, &n);)
		simple(MLX5_CMD_OP_DESTROY_MKEY, n);
	simple(MLX5_CMD_OP_DEALLOC_UAR, uar);	/* its CQs and EQs are still there */
	for (n = 0; table_next(&hca->cqs, &n);)
		simple(MLX5_CMD_OP_DESTROY_CQ, n);
	for (n = 0; table_next(&hca->eqs, &n);)
		simple(MLX5_CMD_OP_DESTROY_EQ, n);
	IFC_SET64(dealloc_memic_in, in, memic_start_addr, HCA_MEMIC_START);
	IFC_SET(dealloc_memic_in, in, memic_size, memic);
	command(MLX5_CMD_OP_DEALLOC_MEMIC, IFC_BYTES(dealloc_memic_in));
	simple(MLX5_CMD_OP_DESTROY_UMEM, umem);
	IFC_SET(destroy_uctx_in, in, uid, uid);
	command(MLX5_CMD_OP_DESTROY_UCTX, IFC_BYTES(destroy_uctx_in));
	simple(MLX5_CMD_OP_DEALLOC_XRCD, xrcd);
	simple(MLX5_CMD_OP_DEALLOC_PD, pd);
	for (n = 0; table_next(&hca->tds, &n);)
		simple(MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN, n);
	assert_int_equal(hca->memory, start);
	assert_int_equal(hca->uars.count, 0);
	run_for(5);			/* packets that nobody takes */
	assert_int_equal(count_packets(), packets);
	hca_reset(hca);
	check_nothing_is_left();
}

static int setup(void **state)
{
	int fd = memfd_create("guest", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, RAM_SIZE))
		return -1;
	ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ram == MAP_FAILED || dma_map(&dma, RAM, RAM_SIZE, fd, 0, true))
		return -1;
	close(fd);
	loop = loop_new();
	hca = hca_new(loop, &dma, 0x0002c90300000010);
	if (!loop || !hca)
		return -1;
	hca->raise = fake_raise;
	if (!hca_plug(hca, NULL, NULL))
		return -1;
	run_for(1);
	packets = count_packets();
	return 0;
}

static int teardown(void **state)
{
	hca_reset(hca);
	link_free(hca->link);
	hca->link = NULL;
	hca_free(hca);
	loop_free(loop);
	dma_unmap_all(&dma);
	return munmap(ram, RAM_SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(function_reset_leaves_nothing),
		cmocka_unit_test(disable_hca_leaves_nothing),
		cmocka_unit_test(forced_teardown_leaves_nothing),
		cmocka_unit_test(fast_teardown_leaves_nothing),
		cmocka_unit_test(second_enable_hca_leaves_nothing),
		cmocka_unit_test(destroying_each_object_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
