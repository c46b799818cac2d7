// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * mrfd_importer: import a dma-buf as drivers in the tree do.  For tests.
 *
 * It calls what the kernel has without our patches, so tests use it to show faults of that
 * kernel.  An open /dev/mrfd_importer has one import at a time.  What is written to it:
 *
 *	vmap FD		for the CPU, as a display driver does: begin access, then vmap.  No
 *			attachment, no pin: the exporter is to keep what is vmapped in place.
 *	umem FD DEVICE	for DMA by this RDMA device, pinned and revocable, as irdma registers
 *			every dma-buf
 *	hold FD DEVICE	for DMA by this RDMA device, or, if that does none, by a device of this
 *			module; it is told that the memory goes, and keeps the mapping, as xe
 *			keeps it until the next use or the end of its object
 *	end		give it back; a close does that too, and so does a device that leaves
 *
 * A write fails with the errno of the import.  A read gives bytes of a vmap.
 *
 * One mutex is enough, because nothing here is fast.  It is held while an exporter makes an
 * import wait; a signal ends that.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/iosys-map.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

#define LINE_LENGTH 96

struct import {
	struct dma_buf *dmabuf;		/* vmapped, or NULL */
	struct iosys_map map;
	struct ib_umem_dmabuf *umem;	/* or NULL */
	struct dma_buf_attachment *attach;	/* held, or NULL */
	struct sg_table *sgt;		/* of it */
	struct ib_device *ibdev;	/* of umem or attach */
	struct list_head entry;		/* in dma_imports, if it has one */
};

struct known {
	struct list_head entry;
	struct ib_device *ibdev;
};

static DEFINE_MUTEX(lock);	/* of the lists, and of every import */
static LIST_HEAD(dma_imports);
static LIST_HEAD(devices);

static void import_end(struct import *import)
{
	if (import->dmabuf) {
		dma_buf_vunmap_unlocked(import->dmabuf, &import->map);
		dma_buf_end_cpu_access(import->dmabuf, DMA_BIDIRECTIONAL);
		dma_buf_put(import->dmabuf);
		import->dmabuf = NULL;
	}
	if (import->umem) {
		list_del(&import->entry);
		ib_umem_release(&import->umem->umem);
		import->umem = NULL;
	}
	if (import->attach) {
		struct dma_buf *dmabuf = import->attach->dmabuf;

		list_del(&import->entry);
		dma_buf_unmap_attachment_unlocked(import->attach, import->sgt, DMA_BIDIRECTIONAL);
		dma_buf_detach(dmabuf, import->attach);
		dma_buf_put(dmabuf);
		import->attach = NULL;
	}
}

/* --- The RDMA devices */

static struct ib_client client;

static int device_added(struct ib_device *ibdev)
{
	struct known *known = kzalloc_obj(*known);

	if (!known)
		return -ENOMEM;
	known->ibdev = ibdev;
	ib_set_client_data(ibdev, &client, known);
	mutex_lock(&lock);
	list_add(&known->entry, &devices);
	mutex_unlock(&lock);
	return 0;
}

static void device_removed(struct ib_device *ibdev, void *data)
{
	struct import *import, *next;
	struct known *known = data;

	mutex_lock(&lock);
	list_for_each_entry_safe(import, next, &dma_imports, entry)
		if (import->ibdev == ibdev)
			import_end(import);
	list_del(&known->entry);
	mutex_unlock(&lock);
	kfree(known);
}

static struct ib_client client = {
	.name = "mrfd_importer",
	.add = device_added,
	.remove = device_removed,
};

/* It stays as long as the mutex is held. */
static struct ib_device *device_of_name(const char *name)
{
	struct known *known;

	list_for_each_entry(known, &devices, entry)
		if (!strcmp(dev_name(&known->ibdev->dev), name))
			return known->ibdev;
	return NULL;
}

/* --- The commands */

static int import_vmap(struct import *import, int fd)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);
	int ret;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	ret = dma_buf_begin_cpu_access(dmabuf, DMA_BIDIRECTIONAL);
	if (ret)
		goto err_put;
	ret = dma_buf_vmap_unlocked(dmabuf, &import->map);
	if (ret)
		goto err_end;
	import->dmabuf = dmabuf;
	return 0;

err_end:
	dma_buf_end_cpu_access(dmabuf, DMA_BIDIRECTIONAL);
err_put:
	dma_buf_put(dmabuf);
	return ret;
}

static int import_umem(struct import *import, int fd, const char *name)
{
	struct ib_device *ibdev = device_of_name(name);
	struct ib_umem_dmabuf *umem;
	struct dma_buf *dmabuf;
	size_t size;

	if (!ibdev)
		return -ENODEV;
	if (ib_uses_virt_dma(ibdev)) /* there is no device to attach */
		return -EOPNOTSUPP;
	dmabuf = dma_buf_get(fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	size = dmabuf->size;
	dma_buf_put(dmabuf);

	/* If the fd is another dma-buf by now, the core compares the size again. */
	umem = ib_umem_dmabuf_get_pinned_revocable_and_lock(ibdev, 0, size, fd,
							    IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	/* Nothing uses the pages, so a revoke has nothing to stop. */
	ib_umem_dmabuf_revoke_unlock(umem);
	import->umem = umem;
	import->ibdev = ibdev;
	list_add(&import->entry, &dma_imports);
	return 0;
}

static void hold_invalidated(struct dma_buf_attachment *attach)
{
}

static const struct dma_buf_attach_ops hold_ops = {
	.allow_peer2peer = true,
	.invalidate_mappings = hold_invalidated,
};

static struct miscdevice import_device;

static int import_hold(struct import *import, int fd, const char *name)
{
	struct ib_device *ibdev = device_of_name(name);
	struct dma_buf_attachment *attach;
	struct dma_buf *dmabuf;
	struct sg_table *sgt;
	int ret;

	if (!ibdev)
		return -ENODEV;
	dmabuf = dma_buf_get(fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	attach = dma_buf_dynamic_attach(dmabuf, ib_uses_virt_dma(ibdev) ?
					import_device.this_device : ibdev->dma_device,
					&hold_ops, import);
	ret = PTR_ERR_OR_ZERO(attach);
	if (ret)
		goto err_put;
	sgt = dma_buf_map_attachment_unlocked(attach, DMA_BIDIRECTIONAL);
	ret = PTR_ERR_OR_ZERO(sgt);
	if (ret)
		goto err_detach;
	import->attach = attach;
	import->sgt = sgt;
	import->ibdev = ibdev;
	list_add(&import->entry, &dma_imports);
	return 0;

err_detach:
	dma_buf_detach(dmabuf, attach);
err_put:
	dma_buf_put(dmabuf);
	return ret;
}

static int import_command(struct import *import, const char *line)
{
	char name[64];
	int fd;

	if (sysfs_streq(line, "end")) {
		import_end(import);
		return 0;
	}
	if (import->dmabuf || import->umem || import->attach)
		return -EBUSY;
	if (sscanf(line, "hold %d %63s", &fd, name) == 2)
		return import_hold(import, fd, name);
	if (sscanf(line, "umem %d %63s", &fd, name) == 2)
		return import_umem(import, fd, name);
	if (sscanf(line, "vmap %d", &fd) == 1)
		return import_vmap(import, fd);
	return -EINVAL;
}

/* --- The file */

static ssize_t import_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	struct import *import = file->private_data;
	char line[LINE_LENGTH] = "";
	int ret;

	if (count >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, count))
		return -EFAULT;
	if (mutex_lock_interruptible(&lock))
		return -ERESTARTSYS;
	ret = import_command(import, line);
	mutex_unlock(&lock);
	return ret ?: count;
}

/* The bytes may be I/O memory, which copy_to_user() cannot read: a page at a time is copied. */
static ssize_t import_read(struct file *file, char __user *to, size_t count, loff_t *pos)
{
	struct import *import = file->private_data;
	ssize_t ret = -EINVAL;
	void *page;

	page = kmalloc(PAGE_SIZE, GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	if (mutex_lock_interruptible(&lock)) {
		kfree(page);
		return -ERESTARTSYS;
	}
	if (import->dmabuf) {
		count = min(count, PAGE_SIZE);
		count = *pos < import->dmabuf->size ? min(count, import->dmabuf->size - *pos) : 0;
		iosys_map_memcpy_from(page, &import->map, *pos, count);
		ret = simple_read_from_buffer(to, count, &(loff_t){ 0 }, page, count);
	}
	mutex_unlock(&lock);
	kfree(page);
	if (ret > 0)
		*pos += ret;
	return ret;
}

static int import_open(struct inode *inode, struct file *file)
{
	struct import *import = kzalloc_obj(*import);

	if (!import)
		return -ENOMEM;
	file->private_data = import;
	return 0;
}

static int import_release(struct inode *inode, struct file *file)
{
	struct import *import = file->private_data;

	mutex_lock(&lock);
	import_end(import);
	mutex_unlock(&lock);
	kfree(import);
	return 0;
}

static const struct file_operations import_fops = {
	.owner = THIS_MODULE,
	.open = import_open,
	.release = import_release,
	.read = import_read,
	.write = import_write,
	.llseek = default_llseek,
};

static struct miscdevice import_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "mrfd_importer",
	.fops = &import_fops,
	.mode = 0600,
};

static int __init import_init(void)
{
	int ret = ib_register_client(&client);

	if (ret)
		return ret;
	ret = misc_register(&import_device);
	if (ret)
		goto err_client;
	ret = dma_coerce_mask_and_coherent(import_device.this_device, DMA_BIT_MASK(64));
	if (ret)
		goto err_misc;
	return 0;

err_misc:
	misc_deregister(&import_device);
err_client:
	ib_unregister_client(&client);
	return ret;
}

static void __exit import_exit(void)
{
	misc_deregister(&import_device);
	ib_unregister_client(&client);
}

module_init(import_init);
module_exit(import_exit);
MODULE_DESCRIPTION("Import a dma-buf as drivers in the tree do, for tests");
MODULE_IMPORT_NS("DMA_BUF");
MODULE_LICENSE("GPL");
