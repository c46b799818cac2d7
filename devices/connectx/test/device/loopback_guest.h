/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest for the whole model but its socket to QEMU: WQEs, doorbell records and CQEs in
 * memory that both see, commands by cmd_run(), doorbells in the BAR.  It has one CQ, one
 * mkey (of the last 8 MiB, from address 0 on) and two QPs, whose loopback is connected.
 */
#ifndef CONNECTX_TEST_LOOPBACK_GUEST_H
#define CONNECTX_TEST_LOOPBACK_GUEST_H

#pragma GCC diagnostic ignored "-Wunused-function"
#ifndef _GNU_SOURCE
#define _GNU_SOURCE	/* memfd_create() */
#endif
#include "bar.h"
#include "cmd.h"
#include "cmdif.h"
#include "dma.h"
#include "hca.h"
#include "life.h"
#include "link.h"
#include "loop.h"
#include "plug.h"
#include "switch.h"
#include "wqe.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MEMORY (16u << 20)
#define BASE 0x100000000ull		/* its bus address */
#define DATA (8u << 20)			/* offset of what is read and written: 4 MiB, twice */
#define DATA_SIZE (4u << 20)
#define LOG_SQ 8			/* blocks */
#define LOG_RQ 8			/* entries of 16 bytes */
#define LOG_CQ 10
#define SQ_OFFSET ((1u << LOG_RQ) * 16)
#define QKEY 0x11111111u
#define LID SWITCH_FIRST_LID		/* of a model that is alone */

static struct loop *loop;
static struct dma dma;
static struct hca *hca;
static u8 *memory;			/* as the guest sees it */
static uint32_t uar, eqn, cqn, pd, mkey, qpn[2], next_page = 1;
static uint32_t cq_at, qp_at[2];	/* where the rings lie in it */
static uint32_t cq_index;		/* of the next CQE */
static u8 in[0x10000], out[0x400];
static struct work stop;
static unsigned int turns;		/* before it runs */
static unsigned int rnr_retry = 7;	/* of QPs that are connected; 7: for ever */
static uint32_t first_psn;		/* of them, in both directions */
static unsigned int ack_timeout = 14;	/* of them: 67 ms; 0: none */

static void must(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static void raise_vector(void *arg, unsigned int vector)
{
}

/* Run the command in in[]; OP is its name. */
static void command(uint16_t op, size_t in_len, size_t out_len)
{
	struct cmd c = { .in = in, .in_len = in_len, .out = out, .out_len = out_len };
	enum cmd_status status;

	put_be16(in, op);
	memset(out, 0, sizeof(out));
	status = cmd_run(hca, &c);
	if (status)
		fprintf(stderr, "command %#x: status %#x syndrome %#x\n", op, status, c.syndrome);
	must(!status, "a command was refused");
	memset(in, 0, sizeof(in));
}

#define COMMAND(OP, name, tail) \
	command(MLX5_CMD_OP_##OP, IFC_BYTES(name##_in) + (tail), \
		IFC_BYTES(name##_out) < 16 ? 16 : IFC_BYTES(name##_out))

/* PAGES of memory, as a list behind the FIXED bytes of a command; their offset. */
static uint32_t take_pages(size_t fixed, unsigned int pages)
{
	uint32_t at = next_page << 12;

	for (unsigned int i = 0; i < pages; i++)
		put_be64(in + fixed + 8 * i, BASE + ((uint64_t)next_page++ << 12));
	return at;
}

/* Doorbell records. */
enum { RECORDS = 0, CQ_RECORD = 64 };

static void *record(int end)
{
	return memory + RECORDS + 16 * end;
}

static void make_device(void)
{
	int fd = memfd_create("memory", 0);

	must(fd >= 0 && !ftruncate(fd, MEMORY), "memory");
	memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(memory != MAP_FAILED && !dma_map(&dma, BASE, MEMORY, fd, 0, true), "memory");
	memset(memory, 0x5a, MEMORY);
	memset(memory, 0, DATA);
	close(fd);
	next_page = 1;
	cq_index = 0;
	loop = loop_new();
	hca = hca_new(loop, &dma, 0x0002c90300000001ull);
	must(loop && hca, "no memory");
	hca->raise = raise_vector;
	must(hca_plug(hca, NULL, NULL), "no link");
	COMMAND(ENABLE_HCA, enable_hca, 0);
	IFC_SET(set_issi_in, in, current_issi, 1);
	COMMAND(SET_ISSI, set_issi, 0);
	COMMAND(INIT_HCA, init_hca, 0);
	COMMAND(ALLOC_UAR, alloc_uar, 0);
	uar = IFC_GET(alloc_uar_out, out, uar);
	COMMAND(ALLOC_PD, alloc_pd, 0);
	pd = IFC_GET(alloc_pd_out, out, pd);
}

static void make_cq(void)
{
	void *eqc = IFC_PTR(create_eq_in, in, eq_context_entry);
	void *cqc = IFC_PTR(create_cq_in, in, cq_context);

	IFC_SET(eqc, eqc, uar_page, uar);
	IFC_SET(eqc, eqc, log_eq_size, 6);
	take_pages(IFC_BYTES(create_eq_in), 1);
	COMMAND(CREATE_EQ, create_eq, 8);
	eqn = IFC_GET(create_eq_out, out, eq_number);

	IFC_SET(cqc, cqc, uar_page, uar);
	IFC_SET(cqc, cqc, log_cq_size, LOG_CQ);
	IFC_SET(cqc, cqc, c_eqn_or_apu_element, eqn);
	IFC_SET(cqc, cqc, oi, 1);
	IFC_SET64(cqc, cqc, dbr_addr, BASE + CQ_RECORD);
	cq_at = take_pages(IFC_BYTES(create_cq_in), 16);
	COMMAND(CREATE_CQ, create_cq, 16 * 8);
	cqn = IFC_GET(create_cq_out, out, cqn);
	for (unsigned int i = 0; i < 1u << LOG_CQ; i++)
		memory[cq_at + 64 * i + 63] = MLX5_CQE_INVALID << 4;
}

/* All of the data, by pages of 4 KiB. */
static void make_mkey(void)
{
	void *mkc = IFC_PTR(create_mkey_in, in, memory_key_mkey_entry);
	unsigned int pages = (MEMORY - DATA) >> 12;

	IFC_SET(mkc, mkc, access_mode_1_0, MLX5_MKC_ACCESS_MODE_MTT);
	IFC_SET(mkc, mkc, lr, 1);
	IFC_SET(mkc, mkc, lw, 1);
	IFC_SET(mkc, mkc, rr, 1);
	IFC_SET(mkc, mkc, rw, 1);
	IFC_SET(mkc, mkc, a, 1);
	IFC_SET(mkc, mkc, qpn, 0xffffff);
	IFC_SET(mkc, mkc, pd, pd);
	IFC_SET64(mkc, mkc, len, MEMORY - DATA);
	IFC_SET(mkc, mkc, log_page_size, 12);
	IFC_SET(mkc, mkc, translations_octword_size, pages / 2);
	IFC_SET(create_mkey_in, in, translations_octword_actual_size, pages / 2);
	for (unsigned int i = 0; i < pages; i++)
		put_be64(in + IFC_BYTES(create_mkey_in) + 8 * i,
			 BASE + (DATA + ((uint64_t)i << 12)));
	COMMAND(CREATE_MKEY, create_mkey, pages * 8);
	mkey = IFC_GET(create_mkey_out, out, mkey_index) << 8;
}

static void make_qp(int end, unsigned int st)
{
	void *qpc = IFC_PTR(create_qp_in, in, qpc);
	unsigned int pages = (SQ_OFFSET + (WQE_BB << LOG_SQ)) >> 12;

	next_page = 64 + 32 * end;	/* those of the QP before can be taken again */
	memset(record(end), 0, 16);
	IFC_SET(qpc, qpc, st, st);
	IFC_SET(qpc, qpc, pm_state, 3);
	IFC_SET(qpc, qpc, pd, pd);
	IFC_SET(qpc, qpc, log_rq_size, LOG_RQ);
	IFC_SET(qpc, qpc, log_sq_size, LOG_SQ);
	IFC_SET(qpc, qpc, uar_page, uar);
	IFC_SET(qpc, qpc, cqn_snd, cqn);
	IFC_SET(qpc, qpc, cqn_rcv, cqn);
	IFC_SET(qpc, qpc, user_index, end);
	IFC_SET64(qpc, qpc, dbr_addr, BASE + RECORDS + 16 * end);
	qp_at[end] = take_pages(IFC_BYTES(create_qp_in), pages);
	COMMAND(CREATE_QP, create_qp, pages * 8);
	qpn[end] = IFC_GET(create_qp_out, out, qpn);
}

static void connect_qp(int end)
{
	static const uint16_t op[] = {
		MLX5_CMD_OP_RST2INIT_QP, MLX5_CMD_OP_INIT2RTR_QP, MLX5_CMD_OP_RTR2RTS_QP,
	};
	void *qpc = IFC_PTR(rst2init_qp_in, in, qpc);

	for (int i = 0; i < 3; i++) {
		IFC_SET(rst2init_qp_in, in, qpn, qpn[end]);
		IFC_SET(qpc, qpc, mtu, 5);
		IFC_SET(qpc, qpc, rre, 1);
		IFC_SET(qpc, qpc, rwe, 1);
		IFC_SET(qpc, qpc, rae, 1);
		IFC_SET(qpc, qpc, q_key, QKEY);
		IFC_SET(qpc, qpc, log_sra_max, 4);
		IFC_SET(qpc, qpc, log_rra_max, 4);
		IFC_SET(qpc, qpc, retry_count, 7);
		IFC_SET(qpc, qpc, rnr_retry, rnr_retry);
		IFC_SET(qpc, qpc, next_send_psn, first_psn);
		IFC_SET(qpc, qpc, next_rcv_psn, first_psn);
		IFC_SET(qpc, qpc, remote_qpn, qpn[!end]);
		IFC_SET(qpc, qpc, primary_address_path.rlid, LID);
		IFC_SET(qpc, qpc, primary_address_path.vhca_port_num, 1);
		IFC_SET(qpc, qpc, primary_address_path.ack_timeout, ack_timeout);
		command(op[i], IFC_BYTES(rst2init_qp_in), IFC_BYTES(rst2init_qp_out));
	}
}

static void destroy_qp(int end)
{
	IFC_SET(destroy_qp_in, in, qpn, qpn[end]);
	COMMAND(DESTROY_QP, destroy_qp, 0);
}

/* The next CQE, or NULL. */
static const u8 *next_cqe(void)
{
	const u8 *cqe = memory + cq_at + (cq_index & ((1u << LOG_CQ) - 1)) * 64;
	u8 op_own = __atomic_load_n(cqe + 63, __ATOMIC_ACQUIRE);

	if (op_own >> 4 == MLX5_CQE_INVALID || (op_own & 1) != (cq_index >> LOG_CQ & 1))
		return NULL;
	cq_index++;
	put_be32(memory + CQ_RECORD, cq_index & 0xffffff);
	return cqe;
}

static u8 *put_data(u8 *p, uint32_t len, uint64_t addr)
{
	put_be32(p, len);
	put_be32(p + 4, mkey);
	put_be64(p + 8, addr);
	return p + 16;
}

/* Receive number N of END. */
static void post_recv(int end, unsigned int n, uint32_t len, uint64_t addr)
{
	put_data(memory + qp_at[end] + (n & ((1u << LOG_RQ) - 1)) * 16, len, addr);
	put_be32(record(end), (n + 1) & 0xffff);
}

/* The block at which a send WQE begins. */
static u8 *send_block(int end, uint16_t at)
{
	return memory + qp_at[end] + SQ_OFFSET + (at & ((1u << LOG_SQ) - 1)) * WQE_BB;
}

static u8 *put_av(u8 *p, uint32_t dqpn, uint16_t lid)
{
	memset(p, 0, 48);
	put_be32(p, QKEY);
	put_be32(p + 8, MLX5_EXTENDED_UD_AV | dqpn);
	put_be16(p + 14, lid);
	return p + 48;
}

/* The control segment of the WQE from block AT up to P, signalled, and the doorbell. */
static void ring(int end, uint16_t at, const u8 *p, u8 opcode, uint32_t imm)
{
	u8 *ctrl = send_block(end, at), doorbell[8];
	uint32_t ds = (p - ctrl) / 16;

	put_be32(ctrl, (uint32_t)at << 8 | opcode);
	put_be32(ctrl + 4, qpn[end] << 8 | ds);
	put_be32(ctrl + 8, 8);
	put_be32(ctrl + 12, imm);
	put_be32((u8 *)record(end) + 4, (uint16_t)(at + (ds + 3) / 4));
	memcpy(doorbell, ctrl, 8);
	hca_bar_write(hca, (uint64_t)uar * HCA_PAGE + 0x800, doorbell, 8);
}

/* LEN bytes of the mkey from LOCAL on, and of what RKEY is from REMOTE on. */
static void post_rdma(int end, uint16_t at, u8 opcode, uint32_t rkey, uint64_t local,
		      uint64_t remote, uint32_t len)
{
	u8 *p = send_block(end, at) + 16;

	put_be64(p, remote);
	put_be32(p + 8, rkey);
	put_be32(p + 12, 0);
	ring(end, at, put_data(p + 16, len, local), opcode, 0);
}

static void model_up(void)
{
	make_device();
	make_cq();
	make_mkey();
}

static void model_down(void)
{
	hca_reset(hca);			/* packets that QPs keep go back to the link */
	link_free(hca->link);
	hca->link = NULL;
	hca_free(hca);
	loop_free(loop);
	dma_unmap_all(&dma);
	munmap(memory, MEMORY);
}

/* Works that find nothing to do are not queued: a few times round is enough for a packet. */
static void stop_later(struct work *w)
{
	if (turns--)
		loop_work(loop, w);
	else
		loop_stop(loop);
}

static void run_turns(unsigned int n)
{
	turns = n;
	work_init(&stop, stop_later);
	loop_work(loop, &stop);
	loop_run(loop);
}

#endif
