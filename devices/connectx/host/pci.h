/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The configuration space of a PCI function.  One is what a ConnectX-4 shows, with its PCI
 * Express, power management and MSI-X capabilities.  The other one is its function of Data
 * Direct, which only does DMA: no BAR, no interrupts, and vital product data by which the
 * driver finds out whose it is.
 */
#ifndef CONNECTX_PCI_H
#define CONNECTX_PCI_H

#include "vpd.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCI_CONFIG_SIZE 4096
#define PCI_BAR_SIZE (32ul << 20)
#define PCI_VECTORS 16		/* of MSI-X */
#define BAR_MSIX_TABLE 0x2000	/* in BAR 0 */
#define BAR_MSIX_PBA 0x3000

struct pci {
	uint8_t config[PCI_CONFIG_SIZE];
	uint8_t writable[PCI_CONFIG_SIZE];	/* a mask for each byte */
	const struct vpd *vpd;			/* of the function of Data Direct, else NULL */
	void (*flr)(void *arg);
	void *arg;
};

/*
 * VPD makes it the function of Data Direct.  FLR is called when the guest asks for a function
 * level reset; the space is reset by then.
 */
void pci_init(struct pci *p, const struct vpd *vpd, void (*flr)(void *arg), void *arg);
/* To the state at power-on. */
void pci_reset(struct pci *p);
/* Whether it may use the bus, and whether its BAR is on it: not in D3. */
bool pci_masters(const struct pci *p);
bool pci_decodes(const struct pci *p);
/* OFFSET and SIZE are inside of the space. */
void pci_read(const struct pci *p, uint64_t offset, void *data, size_t size);
void pci_write(struct pci *p, uint64_t offset, const void *data, size_t size);

#endif
