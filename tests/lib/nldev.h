/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Questions to the kernel's RDMA netlink, in this process: "rdma resource show"
 * would be a process for each time that a case counts.
 */
#ifndef LIB_NLDEV_H
#define LIB_NLDEV_H

#include <stdint.h>

/* MRs of all devices and all processes. */
int mr_count(void);
/* What ib_uverbs_ioctl_hdr names a device's driver by; INDEX is the device's. */
uint32_t nldev_driver_id(uint32_t index);

#endif
