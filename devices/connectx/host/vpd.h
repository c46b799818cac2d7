/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Vital product data of a PCI function (PCI Local Bus 3.0, appendix I): a name, and read-only
 * fields.  The one that counts is VU, the "VUID": by it the driver finds out which card a
 * function of Data Direct belongs to.
 */
#ifndef CONNECTX_VPD_H
#define CONNECTX_VPD_H

#include <stdint.h>

#define VPD_SIZE 256		/* of our data; the address register could reach 32 KiB */
#define VPD_VUID 128		/* bytes of a VUID, at most; as QUERY_VUID has it */

struct vpd {
	uint8_t byte[VPD_SIZE];
};

/* VUID has less than VPD_VUID bytes. */
void vpd_init(struct vpd *v, const char *vuid);
/* The dword at an offset, 0 behind the end. */
uint32_t vpd_dword(const struct vpd *v, uint16_t offset);

#endif
