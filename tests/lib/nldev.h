/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Query the kernel's RDMA netlink in this process: "rdma resource show" would start a
 * process each time that a case counts.
 */
#ifndef LIB_NLDEV_H
#define LIB_NLDEV_H

#include <stdint.h>

/* MRs of all devices and all processes. */
int mr_count(void);
/*
 * What the MRs of a device have counted, each in pages: "rdma statistic show mr".  An MR
 * that does not page-fault counts nothing and is not among MRS.
 */
struct mr_stat {
	int mrs;
	uint64_t faults, invalidations;
};

/* The sums over all MRs of the device with this INDEX. */
struct mr_stat nldev_mr_stat(uint32_t index);
/* The driver_id for struct ib_uverbs_ioctl_hdr of the device with this INDEX. */
uint32_t nldev_driver_id(uint32_t index);

#endif
