/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Device memory (DM): memory on an RDMA device that its CPU and its queue pairs
 * reach.  The idea is in drivers/infiniband/core/dm.c, the lifetime of the memory in
 * dm_mem.c.
 */

#ifndef IB_DM_H
#define IB_DM_H

#include <linux/dma-fence.h>
#include <linux/dma-resv.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

struct dma_buf;

/**
 * struct ib_dm_mem - the memory of a DM, which others than its owner may use
 * @size: bytes, whole pages, of which no other DM has a part
 * @vaddr: where it is, if it is system memory
 * @paddr: else where it is in a BAR of @device
 * @ref: of this struct: one for @users, one for each dma-buf
 * @users: of the memory: the DM, and who has it mapped
 * @resv: the reservation of the dma-bufs
 * @dmabufs: the dma-bufs; under the lock of @resv
 * @revoked: the DM was freed, so nobody becomes a user by a dma-buf any more; under the
 *	lock of @resv
 * @work: gives it back
 * @fence: what @work waits for, or NULL
 * @fence_cb: queues @work when @fence has signaled
 * @device: with the BAR; its dma_device is the PCI function
 * @entry: in the list of all ranges of BARs
 * @release: gives it back to @device
 * @priv: for @release
 * @given_back: @release was called
 *
 * Drivers use the first three.
 */
struct ib_dm_mem {
	size_t size;
	void *vaddr;
	phys_addr_t paddr;

	struct kref ref;
	refcount_t users;
	struct dma_resv resv;
	struct list_head dmabufs;
	bool revoked;
	struct work_struct work;
	struct dma_fence *fence;
	struct dma_fence_cb fence_cb;
	struct ib_device *device;
	struct list_head entry;
	void (*release)(void *priv);
	void *priv;
	bool given_back;
};

/* For drivers */
struct ib_dm_mem *ib_dm_mem_alloc(size_t size);
struct ib_dm_mem *ib_dm_mem_of_bar(struct ib_device *device,
				   phys_addr_t paddr, size_t size,
				   void (*release)(void *priv), void *priv);
void ib_dm_mem_get(struct ib_dm_mem *mem);
void ib_dm_mem_put(struct ib_dm_mem *mem);

/* For upper-layer protocols (ULPs) */
struct ib_dm *ib_alloc_dm(struct ib_device *device,
			  const struct ib_dm_alloc_attr *attr);
void ib_free_dm(struct ib_dm *dm);
struct ib_mr *ib_reg_dm_mr(struct ib_pd *pd, struct ib_dm *dm,
			   const struct ib_dm_mr_attr *attr);
void ib_dereg_dm_mr(struct ib_mr *mr);
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

/* Inside the core */
void ib_dm_mem_put_now(struct ib_dm_mem *mem);
void ib_dm_mem_forget(struct ib_dm_mem *mem);
void ib_dm_remove_device(struct ib_device *device);
void ib_dm_revoke(struct ib_dm_mem *mem);
void ib_dm_mem_warn(struct ib_dm_mem *mem);

#endif /* IB_DM_H */
