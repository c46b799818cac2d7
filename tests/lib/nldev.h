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
/* The driver_id for struct ib_uverbs_ioctl_hdr of the device with this INDEX. */
uint32_t nldev_driver_id(uint32_t index);

#endif
