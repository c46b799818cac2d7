// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * Memory that only QEMU reaches, such as another device's BAR: every operation finds it,
 * completions come after the data, and what QEMU refuses is an error of that QP alone.
 *
 * The whole model runs.  A guest that uses the device while it waits breaks nothing.
 */
#include "loopback_guest.h"
#include "clock.h"
#include "function.h"
#include "memic.h"
#include "qp.h"
#include "vfio_user.h"
#include <errno.h>
#include <linux/pci_regs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define FAR 0x200000000ull		/* the bus address of 64 KiB */
#define FAR_SIZE 0x10000u
#define MID 0x3000u			/* of the key's pages, those up to here are near */

static u8 far[FAR_SIZE];
static unsigned int questions, refuse;	/* refuse: this one, counted from 1 */
static void (*meanwhile)(void);		/* what the guest does while it is asked */
static uint32_t far_key;

/* The CQE that comes next, if it is there. */
static bool is_complete(void)
{
	const u8 *cqe = memory + cq_at + (cq_index & ((1u << LOG_CQ) - 1)) * 64;

	return cqe[63] >> 4 != MLX5_CQE_INVALID && (cqe[63] & 1) == (cq_index >> LOG_CQ & 1);
}

static int client(void *arg, uint64_t addr, void *data, size_t len, bool write)
{
	assert_true(len && len <= DMA_ASK_MAX);
	/* Data, then the completion. */
	assert_false(is_complete());
	if (meanwhile)
		meanwhile();
	if (++questions == refuse || addr < FAR || addr - FAR > FAR_SIZE ||
	    len > FAR_SIZE - (addr - FAR))
		return -EFAULT;
	memcpy(write ? far + (addr - FAR) : data, write ? data : far + (addr - FAR), len);
	return 0;
}

/* Near pages up to MID, and then the far ones; byte 0x10 of it is byte 0. */
static void make_far_key(void)
{
	void *mkc = IFC_PTR(create_mkey_in, in, memory_key_mkey_entry);
	unsigned int near = MID >> 12, pages = near + (FAR_SIZE >> 12) + 1;

	IFC_SET(mkc, mkc, access_mode_1_0, MLX5_MKC_ACCESS_MODE_MTT);
	IFC_SET(mkc, mkc, lr, 1);
	IFC_SET(mkc, mkc, lw, 1);
	IFC_SET(mkc, mkc, rr, 1);
	IFC_SET(mkc, mkc, rw, 1);
	IFC_SET(mkc, mkc, a, 1);
	IFC_SET(mkc, mkc, qpn, 0xffffff);
	IFC_SET(mkc, mkc, pd, pd);
	IFC_SET64(mkc, mkc, len, pages << 12);
	IFC_SET(mkc, mkc, log_page_size, 12);
	IFC_SET(mkc, mkc, translations_octword_size, (pages + 1) / 2);
	IFC_SET(create_mkey_in, in, translations_octword_actual_size, (pages + 1) / 2);
	for (unsigned int i = 0; i < pages; i++)
		put_be64(in + IFC_BYTES(create_mkey_in) + 8 * i, 3 +
			 (i < near ? BASE + DATA + ((uint64_t)i << 12) :
				     FAR + ((uint64_t)(i - near) << 12)));
	COMMAND(CREATE_MKEY, create_mkey, (pages + 1) / 2 * 16);
	far_key = IFC_GET(create_mkey_out, out, mkey_index) << 8;
}

static int up(void **state)
{
	model_up();
	make_far_key();
	questions = refuse = 0;
	meanwhile = NULL;
	dma.ask = client;
	for (int end = 0; end < 2; end++)
		make_qp(end, MLX5_QPC_ST_RC);
	for (int end = 0; end < 2; end++)
		connect_qp(end);
	for (unsigned int i = 0; i < FAR_SIZE; i++)
		far[i] = i * 37 >> 2;
	for (unsigned int i = 0; i < 2 * DATA_SIZE; i++)
		memory[DATA + i] = i * 91 >> 3;
	return 0;
}

static int down(void **state)
{
	model_down();
	return 0;
}

/* The next completion is of END, with this syndrome or 0. */
static void expect(int end, u8 syndrome)
{
	const u8 *cqe = next_cqe();

	assert_non_null(cqe);
	assert_int_equal(be32_at(cqe + 56) & 0xffffff, qpn[end]);
	assert_int_equal(cqe[63] >> 4, syndrome ? MLX5_CQE_REQ_ERR : MLX5_CQE_REQ);
	if (syndrome)
		assert_int_equal(cqe[offsetof(struct mlx5_err_cqe, syndrome)], syndrome);
}

#define LOCAL (DATA_SIZE + 0x123)	/* of mkey: beyond the near pages of far_key */

static void rdma_of_any_length_reaches_far_memory(void **state)
{
	static const struct { uint32_t at, len; unsigned int questions; } t[] = {
		{ MID, 1, 1 }, { MID + 0x777, 8, 1 }, { MID, 4096, 1 },
		{ MID + 5, 4096, 2 },			/* two pages */
		{ MID + 5, 3 * 4096, 6 },		/* three packets */
		{ MID - 10, 20, 1 }, { MID - 4096, 3 * 4096, 2 },	/* near and far */
		{ 0, 4096, 0 },
	};
	uint16_t wqe = 0;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint32_t near = t[i].at < MID ? MID - t[i].at : 0;
		const u8 *local = memory + DATA + LOCAL;

		near = near < t[i].len ? near : t[i].len;
		questions = 0;
		post_rdma(0, wqe++, MLX5_OPCODE_RDMA_WRITE, far_key, LOCAL, t[i].at, t[i].len);
		run_turns(60);
		expect(0, 0);
		assert_int_equal(questions, t[i].questions);
		assert_memory_equal(memory + DATA + t[i].at, local, near);
		assert_memory_equal(far + (t[i].at + near - MID), local + near,
				    t[i].len - near);

		memset(memory + DATA + LOCAL, 0xee, t[i].len);
		questions = 0;
		post_rdma(0, wqe++, MLX5_OPCODE_RDMA_READ, far_key, LOCAL, t[i].at, t[i].len);
		run_turns(60);
		expect(0, 0);
		assert_int_equal(questions, t[i].questions);
		assert_memory_equal(memory + DATA + t[i].at, local, near);
		assert_memory_equal(far + (t[i].at + near - MID), local + near,
				    t[i].len - near);
		memset(memory + DATA + LOCAL, 0x11 * i, t[i].len);
	}
}

/* As the memory of a send, a receive, and of the requester's side of a read. */
static void far_memory_works_on_the_local_side(void **state)
{
	uint32_t all = mkey;

	mkey = far_key;
	post_recv(1, 0, 4096, MID + 0x4000);
	ring(0, 0, put_data(send_block(0, 0) + 16, 4000, MID), MLX5_OPCODE_SEND, 0);
	run_turns(60);
	assert_memory_equal(far + 0x4000, far, 4000);
	assert_int_equal(questions, 2);
	assert_int_equal(next_cqe()[63] >> 4, MLX5_CQE_RESP_SEND);
	expect(0, 0);
	post_rdma(0, 1, MLX5_OPCODE_RDMA_READ, all, MID + 0x8001, 0x100000, 2000);
	run_turns(60);
	expect(0, 0);
	assert_memory_equal(far + 0x8001, memory + DATA + 0x100000, 2000);
}

static void post_atomic(uint16_t at, u8 opcode, uint64_t remote, uint64_t swap, uint64_t compare)
{
	u8 *p = send_block(0, at) + 16;

	put_be64(p, remote);
	put_be32(p + 8, far_key);
	put_be32(p + 12, 0);
	put_be64(p + 16, swap);
	put_be64(p + 24, compare);
	ring(0, at, put_data(p + 32, 8, LOCAL), opcode, 0);
	run_turns(60);
}

static uint64_t word_at(const u8 *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return le64toh(word);
}

static void atomics_work_on_far_memory(void **state)
{
	uint64_t before = word_at(far + 0x48);

	post_atomic(0, MLX5_OPCODE_ATOMIC_FA, MID + 0x48, 5, 0);
	expect(0, 0);
	assert_int_equal(questions, 2);
	assert_true(word_at(far + 0x48) == before + 5);
	assert_true(word_at(memory + DATA + LOCAL) == before);
	post_atomic(1, MLX5_OPCODE_ATOMIC_CS, MID + 0x48, 77, before + 5);
	expect(0, 0);
	assert_true(word_at(far + 0x48) == 77);
	/* What stays as it is is not written. */
	questions = 0;
	post_atomic(2, MLX5_OPCODE_ATOMIC_CS, MID + 0x48, 78, 76);
	expect(0, 0);
	assert_int_equal(questions, 1);
	assert_true(word_at(far + 0x48) == 77);
	assert_true(word_at(memory + DATA + LOCAL) == 77);
}

static void access_qemu_refuses_is_a_remote_access_error(void **state)
{
	static const u8 ops[] = { MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_READ,
				  MLX5_OPCODE_ATOMIC_FA, MLX5_OPCODE_ATOMIC_FA };

	for (unsigned int i = 0; i < 4; i++) {
		questions = 0;
		refuse = i == 3 ? 2 : 1;	/* the second half of an atomic */
		if (i < 2)
			post_rdma(0, 0, ops[i], far_key, LOCAL, MID, 100);
		else
			post_atomic(0, ops[i], MID + 0x48, 5, 0);
		run_turns(60);
		expect(0, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
		refuse = 0;
		for (int end = 0; end < 2; end++)
			destroy_qp(end);
		for (int end = 0; end < 2; end++)
			make_qp(end, MLX5_QPC_ST_RC);
		for (int end = 0; end < 2; end++)
			connect_qp(end);
	}
	/* A part of it is beyond the memory. */
	post_rdma(0, 0, MLX5_OPCODE_RDMA_WRITE, far_key, LOCAL, MID + FAR_SIZE - 8, 16);
	run_turns(60);
	expect(0, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	assert_memory_equal(far + FAR_SIZE - 8, memory + DATA + LOCAL, 8);
}

static void refused_local_side_is_a_local_prot_error(void **state)
{
	mkey = far_key;
	refuse = 1;
	ring(0, 0, put_data(send_block(0, 0) + 16, 100, MID), MLX5_OPCODE_SEND, 0);
	run_turns(60);
	expect(0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
}

/* Without QEMU to ask, as before. */
static void far_access_without_qemu_is_a_remote_access_error(void **state)
{
	dma.ask = NULL;
	post_rdma(0, 0, MLX5_OPCODE_RDMA_WRITE, far_key, LOCAL, MID, 100);
	run_turns(60);
	expect(0, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
}

/* ------------------------------------------------------- what the guest does meanwhile */

static void store(uint64_t offset, uint64_t value, size_t size)
{
	u8 bytes[8];

	put_be64(bytes, size == 4 ? value << 32 : value);
	hca_bar_write(hca, offset, bytes, size);
}

/* All doorbells there are, for objects that are in use, of lies. */
static void rings_all(void)
{
	uint64_t page = (uint64_t)uar * HCA_PAGE, value;

	meanwhile = NULL;
	for (int end = 0; end < 2; end++) {
		put_be32((u8 *)record(end) + 4, 0x7777);
		store(page + 0x800, (uint64_t)qpn[end] << 8, 8);
	}
	store(page + 0x20, (uint64_t)0x10000000 << 32 | cqn, 8);
	store(page + 0x40, (uint64_t)eqn << 24, 4);
	hca_bar_read(hca, 0x1010, &value, 4);
	hca_bar_write(hca, HCA_MEMIC_START, &value, 8);
}

static void false_doorbells_during_an_access_break_nothing(void **state)
{
	static const u8 ops[] = { MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_READ,
				  MLX5_OPCODE_SEND };
	uint32_t all = mkey;

	for (unsigned int i = 0; i < 6; i++) {
		const u8 *cqe;
		unsigned int n = 0;

		meanwhile = rings_all;
		mkey = i < 3 ? all : far_key;
		post_recv(1, 0, 10000, MID + 0x4000);
		if (ops[i % 3] == MLX5_OPCODE_SEND)
			ring(0, 0, put_data(send_block(0, 0) + 16, 9000, MID), ops[i % 3], 0);
		else
			post_rdma(0, 0, ops[i % 3], i < 3 ? far_key : all, MID, MID + 0x100,
				  9000);
		run_turns(100);
		while ((cqe = next_cqe()))
			n++;
		assert_true(n);
		mkey = all;
		for (int end = 0; end < 2; end++)
			destroy_qp(end);
		for (int end = 0; end < 2; end++)
			make_qp(end, MLX5_QPC_ST_RC);
		for (int end = 0; end < 2; end++)
			connect_qp(end);
	}
	post_rdma(0, 0, MLX5_OPCODE_RDMA_WRITE, far_key, LOCAL, MID, 100);
	run_turns(60);
	expect(0, 0);
}

/* The driver disables the device: that is carried out when the access is over. */
static void disables(void)
{
	meanwhile = NULL;
	store(0x14, MLX5_INITIAL_SEG_NIC_INTERFACE_DISABLED << 8, 4);
	assert_non_null(qp_get(hca, qpn[0]));
}

static void disable_during_an_access_ends_it(void **state)
{
	u8 state_bits[4];

	meanwhile = disables;
	post_rdma(0, 0, MLX5_OPCODE_RDMA_WRITE, far_key, LOCAL, MID, 9000);
	run_turns(60);
	assert_null(qp_get(hca, qpn[0]));
	hca_bar_read(hca, 0x14, state_bits, 4);
	assert_int_equal(state_bits[2] & 7, MLX5_INITIAL_SEG_NIC_INTERFACE_DISABLED);
	assert_memory_equal(far, memory + DATA + LOCAL, 4096);
	assert_true(questions < 4);
}

/* All of the guest's memory goes: the data is at its place, the CQE has none. */
static void unmaps(void)
{
	meanwhile = NULL;
	dma_unmap_all(&dma);
}

static void unmap_during_an_access_completes_nothing(void **state)
{
	meanwhile = unmaps;
	post_rdma(0, 0, MLX5_OPCODE_RDMA_READ, far_key, LOCAL, MID, 9000);
	run_turns(60);
	assert_null(next_cqe());
	assert_int_equal(dma.count, 0);
}

/*
 * The guest takes the device off the bus, or resets it, in the middle of question NTH: no
 * byte of its memory changes from then on, and after a reset nothing is left.
 */
enum { BUS_OFF, D3, LEVEL_RESET, CLIENT_RESET, WAYS };
static struct function function;
static unsigned int nth, way;
static u8 *then;			/* the guest's memory at that time */

static void config(uint64_t offset, uint16_t value)
{
	function_write(&function, VFU_CONFIG, offset, &value, sizeof(value));
}

static void off_the_bus(void)
{
	if (questions != nth)
		return;
	memcpy(then, memory, MEMORY);
	switch (way) {
	case BUS_OFF:
		config(PCI_COMMAND, PCI_COMMAND_MEMORY);
		break;
	case D3:
		config(0x40 + PCI_PM_CTRL, 3);
		break;
	case LEVEL_RESET:
		config(0x60 + PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_BCR_FLR);
		break;
	case CLIENT_RESET:
		function_reset(&function);
	}
	assert_true(dma.off);
	assert_non_null(qp_get(hca, qpn[0]));
}

static void bus_off_during_an_access_writes_no_more(void **state)
{
	static const u8 ops[] = { MLX5_OPCODE_RDMA_READ, MLX5_OPCODE_RDMA_WRITE };

	then = malloc(MEMORY);
	assert_non_null(then);
	for (unsigned int i = 0; i < 2 * 3 * WAYS; i++) {
		down(state);
		dma.off = false;
		up(state);
		way = i % WAYS;
		nth = i / WAYS % 3;
		function = (struct function){ .dma = &dma, .hca = hca };
		function_init(&function);
		config(PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
		meanwhile = off_the_bus;
		post_rdma(0, 0, ops[i / WAYS / 3], far_key, LOCAL, MID + 0x100, 3 * 4096);
		run_turns(100);
		assert_int_equal(questions, nth + 1);
		assert_memory_equal(memory, then, MEMORY);
		assert_int_equal(!hca->memory, way >= LEVEL_RESET);
	}
	free(then);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(rdma_of_any_length_reaches_far_memory),
		CASE(far_memory_works_on_the_local_side), CASE(atomics_work_on_far_memory),
		CASE(access_qemu_refuses_is_a_remote_access_error),
		CASE(refused_local_side_is_a_local_prot_error),
		CASE(far_access_without_qemu_is_a_remote_access_error),
		CASE(false_doorbells_during_an_access_break_nothing),
		CASE(disable_during_an_access_ends_it),
		CASE(unmap_during_an_access_completes_nothing),
		CASE(bus_off_during_an_access_writes_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
