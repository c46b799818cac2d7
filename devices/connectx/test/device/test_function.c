// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/*
 * What a device at work loses without bus mastering or memory space, by a reset, or when the
 * card is pulled out; and what it gets back.
 */
#include "loopback_guest.h"
#include "clock.h"
#include "function.h"
#include "memic.h"
#include "pci.h"
#include "vfio_user.h"
#include <linux/pci_regs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define PM_CONTROL (0x40 + PCI_PM_CTRL)
#define EXPRESS_CONTROL (0x60 + PCI_EXP_DEVCTL)

static struct function function;

static void config(uint64_t offset, uint16_t value)
{
	function_write(&function, VFU_CONFIG, offset, &value, sizeof(value));
}

static int up(void **state)
{
	model_up();
	function = (struct function) { .dma = &dma, .hca = hca };
	function_init(&function);
	config(PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
	return 0;
}

static int down(void **state)
{
	model_down();
	return 0;
}

/* Writes, reads and sends of 1 MiB from each end to the other one. */
static void start_traffic(void)
{
	static const u8 ops[] = { MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_READ };

	for (int end = 0; end < 2; end++)
		make_qp(end, MLX5_QPC_ST_RC);
	for (int end = 0; end < 2; end++)
		connect_qp(end);
	for (int i = 0; i < 8; i++) {
		int end = i % 2;
		u8 *p = send_block(end, i / 2) + 16;

		put_be64(p, DATA_SIZE);
		put_be32(p + 8, mkey);
		ring(end, i / 2, put_data(p + 16, 1 << 20, 0), ops[i / 2 % 2], 0);
	}
}

/* A new device, after N turns of traffic; up() made the first. */
static void traffic_under_way(unsigned int n)
{
	if (n) {
		down(NULL);
		up(NULL);
	}
	start_traffic();
	run_turns(n);
}

static uint32_t read_bar(uint64_t offset)
{
	u8 data[4];

	function_read(&function, VFU_BAR0, offset, data, sizeof(data));
	return be32_at(data);
}

/* At any time in the traffic: not a byte is written, and the device goes on to live. */
static void no_memory_changes_without_bus_mastering(void **state)
{
	u8 *before = malloc(MEMORY);

	assert_non_null(before);
	for (unsigned int n = 0; n < 16; n++) {
		traffic_under_way(n);
		if (n % 2)
			config(PCI_COMMAND, PCI_COMMAND_MEMORY);
		else
			config(PM_CONTROL, 3);
		memcpy(before, memory, MEMORY);
		run_turns(300);
		assert_memory_equal(before, memory, MEMORY);
		config(PM_CONTROL, 0);
		config(PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
		run_turns(300);
		/* It answers, and does for a driver that starts anew. */
		COMMAND(ALLOC_PD, alloc_pd, 0);
		COMMAND(DISABLE_HCA, disable_hca, 0);
		COMMAND(ENABLE_HCA, enable_hca, 0);
		assert_int_equal(hca->memory, 0);
	}
	free(before);
}

static void bar_reads_ones_without_memory_space(void **state)
{
	uint32_t version = read_bar(0);
	u8 queue[4];

	assert_int_not_equal(version, 0xffffffff);
	put_be32(queue, 0x12);
	for (int power = 0; power < 2; power++) {
		if (power)
			config(PM_CONTROL, 3);
		else
			config(PCI_COMMAND, PCI_COMMAND_MASTER);
		assert_int_equal(read_bar(0), 0xffffffff);
		assert_int_equal(read_bar(BAR_MSIX_PBA), 0xffffffff);
		assert_int_equal(read_bar(HCA_MEMIC_START), 0xffffffff);
		function_write(&function, VFU_BAR0, 0x10, queue, sizeof(queue));
		config(PM_CONTROL, 0);
		config(PCI_COMMAND, PCI_COMMAND_MEMORY);
		assert_int_equal(read_bar(0), version);
		assert_int_equal(read_bar(0x10), 0);
	}
	function_write(&function, VFU_BAR0, 0x10, queue, sizeof(queue));
	assert_int_equal(read_bar(0x10), 0x12);
}

/* At any time too: nothing is left, and the bus is off as at power-on. */
static void function_level_reset_frees_everything(void **state)
{
	for (unsigned int n = 0; n < 16; n++) {
		traffic_under_way(n);
		if (n % 2)
			config(EXPRESS_CONTROL, PCI_EXP_DEVCTL_BCR_FLR);
		else
			function_reset(&function);
		assert_int_equal(hca->memory, 0);
		assert_true(dma.off);
		assert_int_equal(read_bar(0), 0xffffffff);
		run_turns(20);
		assert_int_equal(hca->memory, 0);
	}
}

static void pulled_card_reads_ones_and_writes_nothing(void **state)
{
	u8 *before = malloc(MEMORY);
	u8 id[4];

	assert_non_null(before);
	for (unsigned int n = 0; n < 16; n++) {
		traffic_under_way(n);
		function_leave(&function);
		assert_int_equal(hca->memory, 0);
		memcpy(before, memory, MEMORY);
		for (int reset = 0; reset < 2; reset++) {
			function_read(&function, VFU_CONFIG, 0, id, sizeof(id));
			assert_int_equal(be32_at(id), 0xffffffff);
			assert_int_equal(read_bar(0), 0xffffffff);
			config(PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
			assert_true(dma.off);
			run_turns(20);
			function_reset(&function);
		}
		assert_memory_equal(before, memory, MEMORY);
	}
	free(before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, up, down)

/* The function of Data Direct: the bus, and nothing of the device. */
static void function_without_registers_resets_itself_only(void **state)
{
	static struct dma second_dma;
	static struct vpd vpd;
	struct function second = { .dma = &second_dma, .vpd = &vpd };
	const uint16_t master = PCI_COMMAND_MASTER;
	uint32_t value;

	vpd_init(&vpd, "x");
	function_init(&second);
	assert_true(second_dma.off);
	start_traffic();
	function_write(&second, VFU_CONFIG, PCI_COMMAND, &master, sizeof(master));
	assert_false(second_dma.off);
	value = PCI_EXP_DEVCTL_BCR_FLR;
	function_write(&second, VFU_CONFIG, EXPRESS_CONTROL, &value, 2);
	assert_true(second_dma.off);
	assert_true(hca->initialized);
	function_read(&second, VFU_BAR0, 0, &value, 4);
	assert_int_equal(value, 0xffffffff);
	function_write(&second, VFU_BAR0, 0, &value, 4);

	/* Pulled out, and back. */
	function_write(&second, VFU_CONFIG, PCI_COMMAND, &master, sizeof(master));
	function_leave(&second);
	assert_true(second_dma.off);
	function_read(&second, VFU_CONFIG, 0, &value, 4);
	assert_int_equal(value, 0xffffffff);
	function_plug(&second, NULL);
	function_read(&second, VFU_CONFIG, 0, &value, 4);
	assert_int_equal(value, 0x210015b3);
	assert_true(second_dma.off);
	assert_true(hca->initialized);
	assert_false(dma.off);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(no_memory_changes_without_bus_mastering),
		TEST(bar_reads_ones_without_memory_space),
		TEST(function_level_reset_frees_everything),
		TEST(pulled_card_reads_ones_and_writes_nothing),
		TEST(function_without_registers_resets_itself_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
