// SPDX-License-Identifier: GPL-2.0-or-later
/* runs: quick */
/* Configuration space: what a driver reads, and what it can and cannot write. */
#include "pci.h"
#include <linux/pci_regs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static struct pci pci;
static int flrs;

static void flr(void *arg)
{
	assert_ptr_equal(arg, &flrs);
	flrs++;
}

static int setup(void **state)
{
	flrs = 0;
	pci_init(&pci, NULL, flr, &flrs);
	return 0;
}

static uint32_t get(unsigned int offset, size_t size)
{
	uint32_t v = 0;

	pci_read(&pci, offset, &v, size);
	return v;
}

static void put(unsigned int offset, size_t size, uint32_t value)
{
	pci_write(&pci, offset, &value, size);
}

/* Where a capability is, by the list that a driver walks. */
static unsigned int capability(uint8_t id)
{
	unsigned int at = get(PCI_CAPABILITY_LIST, 1);

	for (int i = 0; at && i < 48; i++, at = get(at + 1, 1)) {
		assert_true(at >= 0x40 && at % 4 == 0);
		if (get(at, 1) == id)
			return at;
	}
	return 0;
}

static void config_space_identifies_the_device(void **state)
{
	unsigned int exp = capability(PCI_CAP_ID_EXP), msix = capability(PCI_CAP_ID_MSIX);
	unsigned int pm = capability(PCI_CAP_ID_PM);

	assert_int_equal(get(0, 4), 0x101315b3);
	assert_int_equal(get(PCI_CLASS_DEVICE, 2), 0x0207);
	assert_int_equal(get(PCI_HEADER_TYPE, 1), 0);
	assert_int_equal(get(PCI_STATUS, 2), PCI_STATUS_CAP_LIST);
	assert_int_equal(get(PCI_INTERRUPT_PIN, 1), 0);
	assert_int_equal(get(PCI_BASE_ADDRESS_0, 4), 0xc);
	assert_int_equal(get(0x100, 4), 0);

	assert_int_not_equal(exp, 0);
	assert_int_equal(get(exp + PCI_EXP_FLAGS, 2), 2);
	assert_true(get(exp + PCI_EXP_DEVCAP, 4) & PCI_EXP_DEVCAP_FLR);
	assert_int_equal(get(exp + PCI_EXP_LNKSTA, 2), 0x103);
	assert_int_equal(get(exp + PCI_EXP_LNKCAP, 4) & 0x3ff, 0x103);

	assert_int_not_equal(msix, 0);
	assert_int_equal(get(msix + PCI_MSIX_FLAGS, 2), PCI_VECTORS - 1);
	assert_int_equal(get(msix + PCI_MSIX_TABLE, 4), 0x2000);
	assert_int_equal(get(msix + PCI_MSIX_PBA, 4), 0x3000);
	/* The capabilities do not overlap. */
	assert_true(msix >= exp + 0x3c || msix + 12 <= exp);
	assert_int_not_equal(pm, 0);
	assert_true(pm >= exp + 0x3c || pm + 8 <= exp);
}

static void bar_tells_its_size(void **state)
{
	put(PCI_BASE_ADDRESS_0, 4, 0xffffffff);
	put(PCI_BASE_ADDRESS_1, 4, 0xffffffff);
	assert_int_equal(get(PCI_BASE_ADDRESS_0, 4), 0xfe00000c);
	assert_int_equal(get(PCI_BASE_ADDRESS_1, 4), 0xffffffff);
	put(PCI_BASE_ADDRESS_0, 4, 0xf6000000);
	put(PCI_BASE_ADDRESS_1, 4, 0x12);
	assert_int_equal(get(PCI_BASE_ADDRESS_0, 4), 0xf600000c);
	assert_int_equal(get(PCI_BASE_ADDRESS_1, 4), 0x12);
	for (unsigned int bar = PCI_BASE_ADDRESS_2; bar <= PCI_BASE_ADDRESS_5; bar += 4) {
		put(bar, 4, 0xffffffff);
		assert_int_equal(get(bar, 4), 0);
	}
	put(PCI_ROM_ADDRESS, 4, 0xffffffff);
	assert_int_equal(get(PCI_ROM_ADDRESS, 4), 0);
}

/* Each byte, with all bits set, in each size: only these bits may change. */
static void writes_change_writable_bits_only(void **state)
{
	static uint8_t before[PCI_CONFIG_SIZE], after[PCI_CONFIG_SIZE], ones[PCI_CONFIG_SIZE];
	uint8_t may[PCI_CONFIG_SIZE] = { 0 };
	unsigned int exp = capability(PCI_CAP_ID_EXP), msix = capability(PCI_CAP_ID_MSIX);

	memset(ones, 0xff, sizeof(ones));
	may[PCI_COMMAND] = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_PARITY;
	may[PCI_COMMAND + 1] = (PCI_COMMAND_SERR | PCI_COMMAND_INTX_DISABLE) >> 8;
	may[PCI_CACHE_LINE_SIZE] = may[PCI_INTERRUPT_LINE] = 0xff;
	may[PCI_BASE_ADDRESS_0 + 3] = 0xfe;
	memset(may + PCI_BASE_ADDRESS_1, 0xff, 4);
	may[exp + PCI_EXP_DEVCTL] = 0xff;
	may[exp + PCI_EXP_DEVCTL + 1] = 0x78;
	may[exp + PCI_EXP_LNKCTL] = 0x48;
	may[exp + PCI_EXP_DEVCTL2] = 0x10;
	may[exp + PCI_EXP_LNKCTL2] = 0x0f;
	may[msix + PCI_MSIX_FLAGS + 1] = 0xc0;
	may[capability(PCI_CAP_ID_PM) + PCI_PM_CTRL] = 3;

	for (size_t size = 1; size <= PCI_CONFIG_SIZE; size *= 2) {
		for (unsigned int at = 0; at < PCI_CONFIG_SIZE; at += size) {
			pci_reset(&pci);
			pci_read(&pci, 0, before, sizeof(before));
			pci_write(&pci, at, ones, size);
			/* All ones start a reset, which takes them back; zeros do not. */
			pci_write(&pci, at, memset(after, 0, size), size);
			pci_read(&pci, 0, after, sizeof(after));
			for (unsigned int i = 0; i < PCI_CONFIG_SIZE; i++) {
				assert_int_equal(before[i] & ~may[i], after[i] & ~may[i]);
				if (i >= at && i < at + size)
					assert_int_equal(after[i] & may[i], 0);
				else
					assert_int_equal(after[i], before[i]);
			}
		}
	}
	/* And those bits do change. */
	pci_reset(&pci);
	for (unsigned int i = 0; i < PCI_CONFIG_SIZE; i++) {
		if (i != exp + PCI_EXP_DEVCTL + 1)
			put(i, 1, 0xff);
		else
			put(i, 1, 0x7f);
		assert_int_equal(get(i, 1) & may[i], may[i]);
	}
}

static void flr_bit_resets_the_function(void **state)
{
	unsigned int ctl = capability(PCI_CAP_ID_EXP) + PCI_EXP_DEVCTL;
	uint32_t initial = get(ctl, 2);

	put(PCI_COMMAND, 2, 6);
	put(ctl, 2, 0x5900);
	assert_int_equal(get(ctl, 2), 0x5800);
	assert_int_equal(flrs, 0);
	put(ctl, 2, initial | PCI_EXP_DEVCTL_BCR_FLR);
	assert_int_equal(flrs, 1);
	assert_int_equal(get(ctl, 2), initial);		/* the bit reads as 0 */
	assert_int_equal(get(PCI_COMMAND, 2), 0);
	/* In other sizes, and beside it. */
	put(ctl + 1, 1, 0x80);
	assert_int_equal(flrs, 2);
	put(ctl, 4, 0x8000);
	assert_int_equal(flrs, 3);
	put(ctl - 2, 4, 0x80000000);
	assert_int_equal(flrs, 4);
	put(ctl, 1, 0x80);
	put(ctl + 2, 2, 0x8000);
	put(ctl - 4, 4, 0xffffffff);
	assert_int_equal(flrs, 4);
}

/* By the command register and the power state. */
static void command_and_power_gate_dma_and_bar(void **state)
{
	unsigned int pm = capability(PCI_CAP_ID_PM) + PCI_PM_CTRL;

	assert_false(pci_masters(&pci) || pci_decodes(&pci));
	put(PCI_COMMAND, 2, PCI_COMMAND_MASTER);
	assert_true(pci_masters(&pci) && !pci_decodes(&pci));
	put(PCI_COMMAND, 1, PCI_COMMAND_MASTER | PCI_COMMAND_MEMORY);
	assert_true(pci_masters(&pci) && pci_decodes(&pci));
	put(pm, 2, 3);
	assert_false(pci_masters(&pci) || pci_decodes(&pci));
	put(pm, 2, 0);
	assert_true(pci_masters(&pci) && pci_decodes(&pci));
	put(capability(PCI_CAP_ID_EXP) + PCI_EXP_DEVCTL, 2, PCI_EXP_DEVCTL_BCR_FLR);
	assert_false(pci_masters(&pci) || pci_decodes(&pci));
}

/* As the driver reads it: write the address, wait for the flag, read four bytes. */
static uint32_t read_vpd(unsigned int vpd, uint16_t at)
{
	put(vpd + PCI_VPD_ADDR, 2, at);
	assert_int_equal(get(vpd + PCI_VPD_ADDR, 2), at | PCI_VPD_ADDR_F);
	return get(vpd + PCI_VPD_DATA, 4);
}

static void function_of_data_direct_has_its_name_in_the_vpd(void **state)
{
	const char *vuid = "MRFD0123";
	uint8_t all[VPD_SIZE], *p = all, sum = 0;
	struct vpd v;
	unsigned int vpd;
	size_t end;

	vpd_init(&v, vuid);
	pci_init(&pci, &v, flr, &flrs);
	assert_int_equal(get(0, 4), 0x210015b3);
	assert_int_equal(get(PCI_BASE_ADDRESS_0, 4), 0);
	assert_int_equal(capability(PCI_CAP_ID_MSIX), 0);
	assert_int_not_equal(capability(PCI_CAP_ID_EXP), 0);
	assert_int_not_equal(capability(PCI_CAP_ID_PM), 0);
	vpd = capability(PCI_CAP_ID_VPD);
	assert_int_not_equal(vpd, 0);

	for (uint16_t at = 0; at < VPD_SIZE; at += 4) {
		uint32_t dword = read_vpd(vpd, at);

		memcpy(all + at, &dword, 4);
	}
	assert_int_equal(p[0], 0x82);
	p += 3 + p[1];
	assert_int_equal(p[0], 0x90);
	end = p + 3 + p[1] - all;
	assert_memory_equal(p + 3, "VU", 2);
	assert_int_equal(p[5], strlen(vuid));
	assert_memory_equal(p + 6, vuid, strlen(vuid));
	p += 6 + strlen(vuid);
	assert_memory_equal(p, "RV\1", 3);
	for (uint8_t *b = all; b <= p + 3; b++)
		sum += *b;
	assert_int_equal(sum, 0);
	assert_int_equal(all[end], 0x78);
}

static void vpd_is_read_only_and_outlives_a_reset(void **state)
{
	struct vpd v;
	unsigned int vpd;
	uint32_t first;

	vpd_init(&v, "x");
	pci_init(&pci, &v, flr, &flrs);
	vpd = capability(PCI_CAP_ID_VPD);
	first = read_vpd(vpd, 0);
	/* To write: the data, then the address with the flag, which then goes. */
	put(vpd + PCI_VPD_DATA, 4, 0xffffffff);
	put(vpd + PCI_VPD_ADDR, 2, PCI_VPD_ADDR_F);
	assert_int_equal(get(vpd + PCI_VPD_ADDR, 2), 0);
	assert_int_equal(read_vpd(vpd, 0), first);
	/* Behind the end, and far behind it. */
	assert_int_equal(read_vpd(vpd, VPD_SIZE), 0);
	assert_int_equal(read_vpd(vpd, 0x7ffc), 0);
	pci_reset(&pci);
	assert_int_equal(read_vpd(vpd, 0), first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(config_space_identifies_the_device, setup),
		cmocka_unit_test_setup(bar_tells_its_size, setup),
		cmocka_unit_test_setup(writes_change_writable_bits_only, setup),
		cmocka_unit_test_setup(flr_bit_resets_the_function, setup),
		cmocka_unit_test_setup(command_and_power_gate_dma_and_bar, setup),
		cmocka_unit_test_setup(function_of_data_direct_has_its_name_in_the_vpd, setup),
		cmocka_unit_test_setup(vpd_is_read_only_and_outlives_a_reset, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
