// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Configuration space (PCI Local Bus 3.0, chapter 6; PCI Express Base 3.0, chapter 7; PCI
 * Power Management 1.2; names as in <linux/pci_regs.h>).  Each field is set once, with the
 * bits of it that software may change.
 *
 * The invariant: a write changes nothing but bits of writable[], whatever its offset and
 * size, so all else is constant from reset to reset.
 *
 * QEMU shows the guest its own MSI-X table and pending bits, and its own copy of the BARs;
 * what the guest writes to the capability and the BARs comes here too, and has no effect
 * besides being read back.
 */
#include "pci.h"
#include <linux/pci_regs.h>
#include <string.h>

#define VENDOR 0x15b3		/* Mellanox */
#define DEVICE 0x1013		/* MT27700, ConnectX-4, the physical function */
#define SUBSYSTEM 0x0033
#define CLASS 0x0207		/* network controller, InfiniBand */
#define DIRECT_DEVICE 0x2100	/* CX8 Family, Data Direct Interface */
#define DIRECT_CLASS 0x0801	/* DMA controller; the driver does not look */

/* Where the capabilities lie.  The list is EXP, MSIX, PM, or EXP, PM, VPD. */
#define EXP 0x60
#define MSIX 0x9c
#define PM 0x40
#define VPD 0x48

static void set8(struct pci *p, unsigned int offset, uint8_t value, uint8_t writable)
{
	p->config[offset] = value;
	p->writable[offset] = writable;
}

static void set16(struct pci *p, unsigned int offset, uint16_t value, uint16_t writable)
{
	set8(p, offset, value, writable);
	set8(p, offset + 1, value >> 8, writable >> 8);
}

static void set32(struct pci *p, unsigned int offset, uint32_t value, uint32_t writable)
{
	set16(p, offset, value, writable);
	set16(p, offset + 2, value >> 16, writable >> 16);
}

static void set_capability(struct pci *p, unsigned int offset, uint8_t id, uint8_t next)
{
	set8(p, offset, id, 0);
	set8(p, offset + 1, next, 0);
}

static void set_express(struct pci *p)
{
	set16(p, EXP + PCI_EXP_FLAGS, PCI_EXP_TYPE_ENDPOINT << 4 | 2, 0);
	/* 512 bytes of payload, function level reset. */
	set32(p, EXP + PCI_EXP_DEVCAP, PCI_EXP_DEVCAP_FLR | PCI_EXP_DEVCAP_RBER | 2, 0);
	set16(p, EXP + PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_RELAX_EN | PCI_EXP_DEVCTL_NOSNOOP_EN |
	      PCI_EXP_DEVCTL_READRQ_512B,
	      PCI_EXP_DEVCTL_CERE | PCI_EXP_DEVCTL_NFERE | PCI_EXP_DEVCTL_FERE |
	      PCI_EXP_DEVCTL_URRE | PCI_EXP_DEVCTL_RELAX_EN | PCI_EXP_DEVCTL_PAYLOAD |
	      PCI_EXP_DEVCTL_NOSNOOP_EN | PCI_EXP_DEVCTL_READRQ);
	/* 16 lanes of 8 GT/s, and a link that is up with all of that. */
	set32(p, EXP + PCI_EXP_LNKCAP, PCI_EXP_LNKCAP_SLS_8_0GB | 16 << 4, 0);
	set16(p, EXP + PCI_EXP_LNKCTL, 0, PCI_EXP_LNKCTL_RCB | PCI_EXP_LNKCTL_CCC);
	set16(p, EXP + PCI_EXP_LNKSTA, PCI_EXP_LNKSTA_CLS_8_0GB | 16 << PCI_EXP_LNKSTA_NLW_SHIFT,
	      0);
	set32(p, EXP + PCI_EXP_DEVCAP2, PCI_EXP_DEVCAP2_COMP_TMOUT_DIS, 0);
	set16(p, EXP + PCI_EXP_DEVCTL2, 0, PCI_EXP_DEVCTL2_COMP_TMOUT_DIS);
	set32(p, EXP + PCI_EXP_LNKCAP2, PCI_EXP_LNKCAP2_SLS_2_5GB | PCI_EXP_LNKCAP2_SLS_5_0GB |
	      PCI_EXP_LNKCAP2_SLS_8_0GB, 0);
	set16(p, EXP + PCI_EXP_LNKCTL2, PCI_EXP_LNKCTL2_TLS_8_0GT, PCI_EXP_LNKCTL2_TLS);
}

/* What the card has for its registers: a BAR of 64 bits, and MSI-X. */
static void set_registers(struct pci *p)
{
	set32(p, PCI_BASE_ADDRESS_0, PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH,
	      ~((uint32_t)PCI_BAR_SIZE - 1));
	set32(p, PCI_BASE_ADDRESS_1, 0, 0xffffffff);
	set8(p, PCI_INTERRUPT_LINE, 0, 0xff);

	set16(p, MSIX + PCI_MSIX_FLAGS, PCI_VECTORS - 1,
	      PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL);
	set32(p, MSIX + PCI_MSIX_TABLE, BAR_MSIX_TABLE, 0);
	set32(p, MSIX + PCI_MSIX_PBA, BAR_MSIX_PBA, 0);
}

void pci_reset(struct pci *p)
{
	const bool direct = p->vpd;

	memset(p->config, 0, sizeof(p->config));
	memset(p->writable, 0, sizeof(p->writable));

	set16(p, PCI_VENDOR_ID, VENDOR, 0);
	set16(p, PCI_DEVICE_ID, direct ? DIRECT_DEVICE : DEVICE, 0);
	/* No I/O space and no INTx. */
	set16(p, PCI_COMMAND, 0, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_PARITY |
	      PCI_COMMAND_SERR | PCI_COMMAND_INTX_DISABLE);
	set16(p, PCI_STATUS, PCI_STATUS_CAP_LIST, 0);
	set16(p, PCI_CLASS_DEVICE, direct ? DIRECT_CLASS : CLASS, 0);
	set8(p, PCI_CACHE_LINE_SIZE, 0, 0xff);
	set16(p, PCI_SUBSYSTEM_VENDOR_ID, VENDOR, 0);
	set16(p, PCI_SUBSYSTEM_ID, SUBSYSTEM, 0);
	set8(p, PCI_CAPABILITY_LIST, EXP, 0);
	set_capability(p, EXP, PCI_CAP_ID_EXP, direct ? PM : MSIX);
	set_capability(p, PM, PCI_CAP_ID_PM, direct ? VPD : 0);
	if (direct)
		set_capability(p, VPD, PCI_CAP_ID_VPD, 0);
	else
		set_capability(p, MSIX, PCI_CAP_ID_MSIX, PM);

	set_express(p);
	if (direct)
		set16(p, VPD + PCI_VPD_ADDR, 0, 0xffff);
	else
		set_registers(p);

	/* D0 and D3, without PME, and nothing is lost on the way back to D0. */
	set16(p, PM + PCI_PM_PMC, 3, 0);
	set16(p, PM + PCI_PM_CTRL, PCI_PM_CTRL_NO_SOFT_RESET, PCI_PM_CTRL_STATE_MASK);
}

void pci_init(struct pci *p, const struct vpd *vpd, void (*flr)(void *arg), void *arg)
{
	p->vpd = vpd;
	p->flr = flr;
	p->arg = arg;
	pci_reset(p);
}

static bool enabled(const struct pci *p, uint8_t bit)
{
	return p->config[PCI_COMMAND] & bit &&
	       !(p->config[PM + PCI_PM_CTRL] & PCI_PM_CTRL_STATE_MASK);
}

bool pci_masters(const struct pci *p)
{
	return enabled(p, PCI_COMMAND_MASTER);
}

bool pci_decodes(const struct pci *p)
{
	return enabled(p, PCI_COMMAND_MEMORY);
}

void pci_read(const struct pci *p, uint64_t offset, void *data, size_t size)
{
	memcpy(data, p->config + offset, size);
}

/*
 * An address with the flag clear asks for data; the flag says that they are there.  With the
 * flag set it is a request to write the data, which are read-only.
 */
static void answer_vpd(struct pci *p)
{
	uint8_t *reg = p->config + VPD;
	uint16_t addr = reg[PCI_VPD_ADDR] | reg[PCI_VPD_ADDR + 1] << 8;

	if (addr & PCI_VPD_ADDR_F) {
		reg[PCI_VPD_ADDR + 1] &= ~(PCI_VPD_ADDR_F >> 8);
		return;
	}
	set32(p, VPD + PCI_VPD_DATA, vpd_dword(p->vpd, addr), 0);
	reg[PCI_VPD_ADDR + 1] |= PCI_VPD_ADDR_F >> 8;
}

/* Whether an access touches this byte: a difference below 0 is more than any size. */
static bool touches(uint64_t offset, size_t size, uint64_t byte)
{
	return byte - offset < size;
}

void pci_write(struct pci *p, uint64_t offset, const void *data, size_t size)
{
	const uint64_t flr = EXP + PCI_EXP_DEVCTL + 1;	/* the byte that has the bit */
	const uint8_t *byte = data;

	for (size_t i = 0; i < size; i++) {
		uint8_t mask = p->writable[offset + i], *to = &p->config[offset + i];

		*to = (*to & ~mask) | (byte[i] & mask);
	}
	if (p->vpd && touches(offset, size, VPD + PCI_VPD_ADDR + 1))
		answer_vpd(p);
	if (touches(offset, size, flr) &&
	    byte[flr - offset] & PCI_EXP_DEVCTL_BCR_FLR >> 8) {
		pci_reset(p);
		p->flr(p->arg);
	}
}
