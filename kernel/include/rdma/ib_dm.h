/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Device memory (DM): memory on an RDMA device that its CPU and its queue pairs
 * reach.  The idea and the lifetime rules are in drivers/infiniband/core/dm.c.
 */

#ifndef IB_DM_H
#define IB_DM_H

#include <rdma/ib_verbs.h>

struct dma_buf;

/* For upper-layer protocols (ULPs) */
struct ib_dm *ib_alloc_dm(struct ib_device *device,
			  const struct ib_dm_alloc_attr *attr);
int ib_free_dm(struct ib_dm *dm);
struct ib_mr *ib_reg_dm_mr(struct ib_pd *pd, struct ib_dm *dm,
			   const struct ib_dm_mr_attr *attr);
int ib_memcpy_to_dm(struct ib_dm *dm, u64 dm_offset, const void *src,
		    size_t length);
int ib_memcpy_from_dm(void *dst, struct ib_dm *dm, u64 dm_offset, size_t length);
struct dma_buf *ib_dm_export(struct ib_dm *dm);

/* For the ioctl methods, and what ULPs have in common with them */
struct ib_dm *ib_dm_create(struct ib_device *device, struct ib_ucontext *context,
			   struct ib_dm_alloc_attr *attr,
			   struct uverbs_attr_bundle *attrs);
int ib_dm_destroy(struct ib_dm *dm, struct uverbs_attr_bundle *attrs);
struct ib_mr *ib_dm_create_mr(struct ib_pd *pd, struct ib_dm *dm,
			      struct ib_dm_mr_attr *attr, struct ib_uobject *uobj,
			      struct uverbs_attr_bundle *attrs);

/* dm_dmabuf.c */
void ib_dm_revoke_dmabufs(struct ib_dm *dm);

#endif /* IB_DM_H */
