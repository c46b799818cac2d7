/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory that a user specifies for an MR: memory of the process, a dma-buf or a
 * file in memory.  The idea and the lifetime rules are in
 * drivers/infiniband/core/umem_fd.c.
 */

#ifndef IB_UMEM_FD_H
#define IB_UMEM_FD_H

#include <linux/err.h>
#include <linux/fs.h>
#include <linux/iosys-map.h>
#include <linux/rcupdate.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/ib_user_ioctl_verbs.h>

struct dma_buf;
struct dma_buf_attachment;
struct dma_buf_attach_ops;

/**
 * struct ib_mr_buffer - memory that a user specifies for an MR
 * @type: what the memory is
 * @dmabuf: IB_UVERBS_BUFFER_TYPE_DMABUF: the buffer
 * @file: IB_UVERBS_BUFFER_TYPE_MEMFD: the file
 * @addr: where the region begins: offset in @dmabuf or @file in bytes, or the
 *	address in the calling process
 * @length: length of the region in bytes, not 0
 * @iova: address of the region's first byte, on the wire and in work requests;
 *	equal to @addr modulo PAGE_SIZE
 * @access: enum ib_access_flags
 * @no_charge: a pin does not count against RLIMIT_MEMLOCK, as with verbs whose pins
 *	never have
 *
 * ib_mr_buffer_get() checks the user's request and fills this in.  The core owns
 * it, with a reference on @dmabuf or @file, and lends it to the driver for the
 * time of a call.
 */
struct ib_mr_buffer {
	enum ib_uverbs_buffer_type type;
	union {
		struct dma_buf *dmabuf;
		struct file *file;
	};
	u64 addr;
	u64 length;
	u64 iova;
	unsigned int access;
	bool no_charge;
};

/**
 * struct ib_umem_vmap - a dma-buf that is imported for access by the CPU
 * @umem: what drivers see; @umem.address is the region's offset in the dma-buf
 * @dmabuf: the buffer, with a reference
 * @attach: pins the buffer of a dynamic exporter; NULL for another exporter
 * @map: the CPU's mapping of byte 0 of @dmabuf, in system or in I/O memory;
 *	valid and constant in an RCU read-side critical section in which
 *	ib_umem_vmap_revoked() has returned false
 * @pinned: @attach is pinned; under the reservation lock of @dmabuf
 * @revoked: the exporter has taken the memory back, and @map is gone; written
 *	under the same lock
 * @mr: whose user hears of that, or NULL; under the same lock
 */
struct ib_umem_vmap {
	struct ib_umem umem;
	struct dma_buf *dmabuf;
	struct dma_buf_attachment *attach;
	struct iosys_map map;
	bool pinned;
	bool revoked;
	struct ib_mr *mr;
};

static inline struct ib_umem_vmap *to_ib_umem_vmap(struct ib_umem *umem)
{
	return container_of(umem, struct ib_umem_vmap, umem);
}

/**
 * ib_umem_vmap_revoked - has the exporter taken the memory back
 * @vmap: the umem, not released
 *
 * Context: any, under rcu_read_lock().
 *
 * Return: true if @vmap->map must not be used any more; if false, it may be used
 * until rcu_read_unlock()
 */
static inline bool ib_umem_vmap_revoked(const struct ib_umem_vmap *vmap)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_held(),
			 "a mapping is used outside of rcu_read_lock()");
	return unlikely(READ_ONCE(vmap->revoked));
}

/*
 * The rule of mmap(2) for a shared mapping: a process that got a read-only fd
 * must not write to the memory, by RDMA either.
 */
static inline bool ib_umem_fd_mode_allows(const struct file *file,
					  unsigned int access)
{
	return file->f_mode & FMODE_READ &&
	       (file->f_mode & FMODE_WRITE || !ib_access_writable(access));
}

#ifdef CONFIG_INFINIBAND_USER_MEM

int ib_mr_buffer_get(struct ib_mr_buffer *buffer,
		     const struct ib_uverbs_buffer_desc *desc, u64 iova,
		     unsigned int access);
int ib_mr_buffer_get_dmabuf(struct ib_mr_buffer *buffer, u64 offset, u64 length,
			    u64 iova, int fd, unsigned int access);
void ib_mr_buffer_put(struct ib_mr_buffer *buffer);

/* for the functions that get a umem */
int ib_umem_charge(struct ib_umem *umem, unsigned long npages);
void ib_umem_uncharge(struct ib_umem *umem, unsigned long npages);
int ib_umem_charge_dmabuf(struct ib_umem *umem, struct dma_buf *dmabuf);
void ib_umem_uncharge_dmabuf(struct ib_umem *umem, struct dma_buf *dmabuf);

struct ib_umem *ib_umem_get_buffer(struct ib_device *device,
				   const struct ib_mr_buffer *buffer);
struct ib_umem *ib_umem_vmap_get(struct ib_device *device,
				 const struct ib_mr_buffer *buffer);
void ib_umem_vmap_set_mr(struct ib_umem_vmap *vmap, struct ib_mr *mr);
void ib_umem_vmap_clear_mr(struct ib_umem_vmap *vmap, struct ib_mr *mr);
void ib_umem_vmap_release(struct ib_umem_vmap *vmap);

struct ib_umem_dmabuf *
ib_umem_dmabuf_get_buffer(struct ib_device *device, struct device *dma_device,
			  const struct ib_mr_buffer *buffer,
			  const struct dma_buf_attach_ops *ops);
struct ib_umem_dmabuf *
ib_umem_dmabuf_get_buffer_pinned(struct ib_device *device,
				 struct device *dma_device,
				 const struct ib_mr_buffer *buffer);
struct ib_umem_dmabuf *
ib_umem_dmabuf_get_buffer_revocable_and_lock(struct ib_device *device,
					     struct device *dma_device,
					     const struct ib_mr_buffer *buffer);

#else /* CONFIG_INFINIBAND_USER_MEM */

static inline int ib_mr_buffer_get(struct ib_mr_buffer *buffer,
				   const struct ib_uverbs_buffer_desc *desc,
				   u64 iova, unsigned int access)
{
	return -EOPNOTSUPP;
}

static inline int
ib_mr_buffer_get_dmabuf(struct ib_mr_buffer *buffer, u64 offset, u64 length,
			u64 iova, int fd, unsigned int access)
{
	return -EOPNOTSUPP;
}

static inline void ib_mr_buffer_put(struct ib_mr_buffer *buffer) { }

static inline struct ib_umem *
ib_umem_get_buffer(struct ib_device *device, const struct ib_mr_buffer *buffer)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline struct ib_umem *
ib_umem_vmap_get(struct ib_device *device, const struct ib_mr_buffer *buffer)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline void ib_umem_vmap_set_mr(struct ib_umem_vmap *vmap,
				       struct ib_mr *mr)
{
}

static inline void ib_umem_vmap_clear_mr(struct ib_umem_vmap *vmap,
					 struct ib_mr *mr)
{
}

static inline void ib_umem_vmap_release(struct ib_umem_vmap *vmap) { }

static inline struct ib_umem_dmabuf *
ib_umem_dmabuf_get_buffer(struct ib_device *device, struct device *dma_device,
			  const struct ib_mr_buffer *buffer,
			  const struct dma_buf_attach_ops *ops)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline struct ib_umem_dmabuf *
ib_umem_dmabuf_get_buffer_pinned(struct ib_device *device,
				 struct device *dma_device,
				 const struct ib_mr_buffer *buffer)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline struct ib_umem_dmabuf *
ib_umem_dmabuf_get_buffer_revocable_and_lock(struct ib_device *device,
					     struct device *dma_device,
					     const struct ib_mr_buffer *buffer)
{
	return ERR_PTR(-EOPNOTSUPP);
}

#endif /* CONFIG_INFINIBAND_USER_MEM */

#ifdef CONFIG_INFINIBAND_MEMFD

/* for umem.c and umem_fd.c */
struct ib_umem *ib_umem_memfd_get(struct ib_device *device,
				  const struct ib_mr_buffer *buffer);
void ib_umem_memfd_release(struct ib_umem *umem);

#if IS_ENABLED(CONFIG_KUNIT)
unsigned int ib_memfd_pages(struct folio **folios, long nr, pgoff_t offset,
			    unsigned int max, struct page **pages);
#endif

#else /* CONFIG_INFINIBAND_MEMFD */

static inline struct ib_umem *
ib_umem_memfd_get(struct ib_device *device, const struct ib_mr_buffer *buffer)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline void ib_umem_memfd_release(struct ib_umem *umem) { }

#endif /* CONFIG_INFINIBAND_MEMFD */
#endif /* IB_UMEM_FD_H */
