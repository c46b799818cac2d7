/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR Linux-OpenIB) */
/*
 * What the rxe driver adds to the ioctl methods of RDMA: methods of its own and
 * attributes of common ones, all in the driver's name space.
 *
 * User space reaches a device memory (DM) through a mapping. The attributes
 * that end in RESP_MMAP return a struct mminfo (rdma_user_rxe.h): mmap() of
 * size bytes of the context's file at offset maps the DM, once, from its byte 0.
 */

#ifndef RXE_USER_IOCTL_CMDS_H
#define RXE_USER_IOCTL_CMDS_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>

/* Of UVERBS_METHOD_DM_ALLOC */
enum rxe_ib_alloc_dm_attrs {
	RXE_IB_ATTR_ALLOC_DM_RESP_MMAP = (1U << UVERBS_ID_NS_SHIFT),
};

enum rxe_ib_dm_methods {
	RXE_IB_METHOD_DM_QUERY = (1U << UVERBS_ID_NS_SHIFT),
};

/* RESP_LENGTH is a u64: the length in bytes that DM_ALLOC was asked for */
enum rxe_ib_query_dm_attrs {
	RXE_IB_ATTR_QUERY_DM_REQ_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	RXE_IB_ATTR_QUERY_DM_RESP_LENGTH,
	RXE_IB_ATTR_QUERY_DM_RESP_MMAP,
};

#endif /* RXE_USER_IOCTL_CMDS_H */
