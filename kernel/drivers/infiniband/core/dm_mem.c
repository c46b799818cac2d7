// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The memory of a DM
 *
 * Others than the owner may use the memory of a DM: importers of its dma-bufs, and
 * the kernel code that maps it.  Each of these users holds the memory, the DM is one
 * of them, and the last one gives it back.  So the owner frees a DM without a wait
 * for anybody, and nobody else gets the memory while somebody still uses it.
 *
 * There are two kinds.  System memory is pages of vmalloc(), which may outlive the
 * device.  A range of a BAR belongs to its device, so the removal of the device waits
 * for the users.  An importer that does not end soon after it was told has a bug; the
 * removal names it, and goes on after IB_DM_TRIES seconds.
 *
 * A user takes the memory under the reservation lock, while @revoked is false, or from
 * one who holds it.
 */

#include <linux/dma-resv.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <rdma/ib_dm.h>

#define IB_DM_TRIES 10

/* All ranges of BARs that were not given back */
static LIST_HEAD(ib_dm_bars);
static DEFINE_SPINLOCK(ib_dm_bars_lock);
static DECLARE_WAIT_QUEUE_HEAD(ib_dm_bars_wait);

static void ib_dm_mem_free(struct kref *ref)
{
	struct ib_dm_mem *mem = container_of(ref, struct ib_dm_mem, ref);

	dma_resv_fini(&mem->resv);
	kfree(mem);
	module_put(THIS_MODULE);
}

/* Let go of the struct, not of the memory. */
void ib_dm_mem_forget(struct ib_dm_mem *mem)
{
	kref_put(&mem->ref, ib_dm_mem_free);
}

/* Only the first call gives it back: the removal of the device may have been first. */
static void ib_dm_give_bar_back(struct ib_dm_mem *mem)
{
	bool first;

	spin_lock(&ib_dm_bars_lock);
	first = !mem->given_back;
	mem->given_back = true;
	spin_unlock(&ib_dm_bars_lock);
	if (!first)
		return;

	mem->release(mem->priv);
	spin_lock(&ib_dm_bars_lock);
	list_del(&mem->entry);
	spin_unlock(&ib_dm_bars_lock);
	wake_up_all(&ib_dm_bars_wait);
}

static void ib_dm_fence_signaled(struct dma_fence *fence, struct dma_fence_cb *cb)
{
	queue_work(ib_wq, &container_of(cb, struct ib_dm_mem, fence_cb)->work);
}

/*
 * Whether there is a fence to wait for. It queues the work again, which may free MEM at once.
 */
static bool ib_dm_mem_has_fence(struct ib_dm_mem *mem)
{
	struct dma_resv_iter cursor;
	struct dma_fence *fence;
	bool waits = false;

	dma_fence_put(mem->fence);
	mem->fence = NULL;

	dma_resv_iter_begin(&cursor, &mem->resv, DMA_RESV_USAGE_BOOKKEEP);
	dma_resv_for_each_fence_unlocked(&cursor, fence) {
		mem->fence = dma_fence_get(fence);
		waits = !dma_fence_add_callback(fence, &mem->fence_cb,
						ib_dm_fence_signaled);
		if (waits)
			break;
		dma_fence_put(fence);
		mem->fence = NULL;
	}
	dma_resv_iter_end(&cursor);
	return waits;
}

/* No user any more. What an importer has begun ends with its fences. */
static void ib_dm_mem_work(struct work_struct *work)
{
	struct ib_dm_mem *mem = container_of(work, struct ib_dm_mem, work);

	if (ib_dm_mem_has_fence(mem))
		return;

	if (mem->vaddr)
		vfree(mem->vaddr);
	else
		ib_dm_give_bar_back(mem);
	ib_dm_mem_forget(mem);
}

static struct ib_dm_mem *ib_dm_mem_new(size_t size)
{
	struct ib_dm_mem *mem = kzalloc_obj(*mem);

	if (!mem)
		return NULL;

	mem->size = size;
	kref_init(&mem->ref);
	refcount_set(&mem->users, 1);
	dma_resv_init(&mem->resv);
	INIT_LIST_HEAD(&mem->dmabufs);
	INIT_WORK(&mem->work, ib_dm_mem_work);
	__module_get(THIS_MODULE);
	return mem;
}

/* As vmalloc_user(), for a process, whose memory cgroup has a limit. */
static void *ib_dm_vmalloc_user(size_t size)
{
	unsigned int i, n = size >> PAGE_SHIFT;
	struct page **pages;
	void *vaddr;

	pages = kvcalloc(n, sizeof(*pages), GFP_KERNEL_ACCOUNT);
	if (!pages)
		return NULL;

	for (i = 0; i < n; i++) {
		pages[i] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!pages[i])
			goto err_free;
	}

	/* vfree() frees the pages and the list, too. */
	vaddr = vmap(pages, n, VM_MAP | VM_USERMAP | VM_MAP_PUT_PAGES, PAGE_KERNEL);
	if (vaddr)
		return vaddr;

err_free:
	while (i--)
		__free_page(pages[i]);
	kvfree(pages);
	return NULL;
}

/**
 * ib_dm_mem_alloc - get system memory for a DM
 * @size: bytes, whole pages
 *
 * For the op alloc_dm of a device without memory of its own. The pages are zeroed, may
 * be mapped by remap_vmalloc_range(), and count in the memory cgroup of the process.
 *
 * Context: process context, may sleep.
 *
 * Return: the memory, with the caller as its user, or NULL: out of memory
 */
struct ib_dm_mem *ib_dm_mem_alloc(size_t size)
{
	struct ib_dm_mem *mem = ib_dm_mem_new(size);

	if (!mem)
		return NULL;

	mem->vaddr = ib_dm_vmalloc_user(size);
	if (!mem->vaddr) {
		ib_dm_mem_forget(mem);
		return NULL;
	}
	return mem;
}
EXPORT_SYMBOL(ib_dm_mem_alloc);

/**
 * ib_dm_mem_of_bar - let others have a range of a BAR
 * @device: the device; its dma_device is the PCI function with the BAR
 * @paddr: physical address of the range, at the begin of a page
 * @size: bytes, whole pages, of which no other DM has a part
 * @release: gives the range back to the device; called once, in process context, before
 *	the removal of @device ends
 * @priv: for @release
 *
 * For the op alloc_dm.
 *
 * Context: process context, may sleep.
 *
 * Return: the memory, with the caller as its user, or NULL: out of memory
 */
struct ib_dm_mem *ib_dm_mem_of_bar(struct ib_device *device,
				   phys_addr_t paddr, size_t size,
				   void (*release)(void *priv), void *priv)
{
	struct ib_dm_mem *mem = ib_dm_mem_new(size);

	if (!mem)
		return NULL;

	mem->device = device;
	mem->paddr = paddr;
	mem->release = release;
	mem->priv = priv;
	spin_lock(&ib_dm_bars_lock);
	list_add(&mem->entry, &ib_dm_bars);
	spin_unlock(&ib_dm_bars_lock);
	return mem;
}
EXPORT_SYMBOL(ib_dm_mem_of_bar);

/**
 * ib_dm_mem_get - become one more user of the memory of a DM
 * @mem: the memory; the caller is a user, or has the reservation lock and has found that
 *	it was not revoked
 *
 * Context: any.
 */
void ib_dm_mem_get(struct ib_dm_mem *mem)
{
	refcount_inc(&mem->users);
}
EXPORT_SYMBOL(ib_dm_mem_get);

/**
 * ib_dm_mem_put - use the memory of a DM no more
 * @mem: the memory
 *
 * The last user gives it back, from a work queue.
 *
 * Context: any.
 */
void ib_dm_mem_put(struct ib_dm_mem *mem)
{
	if (refcount_dec_and_test(&mem->users))
		queue_work(ib_wq, &mem->work);
}
EXPORT_SYMBOL(ib_dm_mem_put);

/*
 * ib_dm_mem_put() of the owner, who may sleep: without other users the memory is free when
 * it returns.
 */
void ib_dm_mem_put_now(struct ib_dm_mem *mem)
{
	if (refcount_dec_and_test(&mem->users))
		ib_dm_mem_work(&mem->work);
}

/**
 * ib_dm_destroy - free a DM, for both kinds of owners
 * @dm: the DM; the caller excludes other calls with it
 * @attrs: the call, or NULL for a ULP
 *
 * On success no other owner gets the memory before those have ended who have a dma-buf
 * of it mapped. The caller does not wait for them.
 *
 * Context: process context, may sleep. Takes and releases the reservation lock of the
 * dma-bufs.
 *
 * Return: 0, or an error with the DM unchanged: -EBUSY if there is an MR on it
 */
int ib_dm_destroy(struct ib_dm *dm, struct uverbs_attr_bundle *attrs)
{
	struct ib_dm_mem *mem = dm->mem;
	int ret;

	if (atomic_read(&dm->usecnt))
		return -EBUSY;

	if (mem)
		ib_dm_revoke(mem);
	ret = dm->device->ops.dealloc_dm(dm, attrs);
	if (!ret && mem)
		ib_dm_mem_put_now(mem);
	return ret;
}
EXPORT_SYMBOL(ib_dm_destroy);

/* A range of @device that was not given back, with a reference, or NULL. */
static struct ib_dm_mem *ib_dm_bar_of(struct ib_device *device, bool in_use)
{
	struct ib_dm_mem *mem;

	guard(spinlock)(&ib_dm_bars_lock);
	list_for_each_entry(mem, &ib_dm_bars, entry) {
		if (mem->device != device || (in_use && mem->given_back))
			continue;
		kref_get(&mem->ref);
		return mem;
	}
	return NULL;
}

static bool ib_dm_no_bar_of(struct ib_device *device)
{
	struct ib_dm_mem *mem = ib_dm_bar_of(device, false);

	if (mem)
		ib_dm_mem_forget(mem);
	return !mem;
}

/**
 * ib_dm_remove_device - take the device memory back from all who still use it
 * @device: the device, which is being removed and has no DMs any more
 *
 * Context: process context, may sleep, for at most IB_DM_TRIES seconds.
 */
void ib_dm_remove_device(struct ib_device *device)
{
	struct ib_dm_mem *mem;
	int i;

	for (i = 0; i < IB_DM_TRIES; i++) {
		if (wait_event_timeout(ib_dm_bars_wait, ib_dm_no_bar_of(device), HZ))
			return;
		if (i % 5)
			continue;
		mem = ib_dm_bar_of(device, true);
		if (!mem)
			continue;
		ibdev_warn(device, "removal waits for users of device memory\n");
		ib_dm_mem_warn(mem);
		ib_dm_mem_forget(mem);
	}

	while ((mem = ib_dm_bar_of(device, true))) {
		ibdev_err(device, "device memory is taken from users that still have it mapped\n");
		ib_dm_mem_warn(mem);
		ib_dm_give_bar_back(mem);
		ib_dm_mem_forget(mem);
	}
	wait_event(ib_dm_bars_wait, ib_dm_no_bar_of(device));
}
