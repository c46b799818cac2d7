/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * User memory that a file descriptor names.  The idea and the lifetime rules are
 * in drivers/infiniband/core/umem_fd.c.
 */

#ifndef IB_UMEM_FD_H
#define IB_UMEM_FD_H

#include <linux/err.h>
#include <linux/fs.h>
#include <linux/iosys-map.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_user_ioctl_verbs.h>

struct dma_buf;
struct dma_buf_attachment;

/**
 * struct ib_umem_fd_attr - a user's request to register memory by fd
 * @offset: where the region begins in the fd, in bytes
 * @length: length of the region in bytes
 * @iova: address of the region's first byte, on the wire and in work requests;
 *	equal to @offset modulo PAGE_SIZE
 * @fd_type: enum ib_uverbs_mr_fd_type, not checked yet
 * @fd: file descriptor in the calling process
 * @access: enum ib_access_flags
 */
struct ib_umem_fd_attr {
	u64 offset;
	u64 length;
	u64 iova;
	u32 fd_type;
	int fd;
	unsigned int access;
};

/**
 * struct ib_umem_vmap - a dma-buf that is imported for access by the CPU
 * @umem: what drivers see; @umem.address is the region's offset in the dma-buf
 * @dmabuf: the buffer, with a reference
 * @attach: pins the buffer of a dynamic exporter; NULL for another exporter
 * @map: the CPU's mapping of byte 0 of @dmabuf, in system or in I/O memory;
 *	valid and constant from ib_umem_get_fd() to ib_umem_release()
 */
struct ib_umem_vmap {
	struct ib_umem umem;
	struct dma_buf *dmabuf;
	struct dma_buf_attachment *attach;
	struct iosys_map map;
};

static inline struct ib_umem_vmap *to_ib_umem_vmap(struct ib_umem *umem)
{
	return container_of(umem, struct ib_umem_vmap, umem);
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

struct ib_umem *ib_umem_get_fd(struct ib_device *device,
			       const struct ib_umem_fd_attr *attr);
void ib_umem_vmap_release(struct ib_umem_vmap *vmap);

/* for umem.c and umem_fd.c */
struct ib_umem *ib_umem_memfd_get(struct ib_device *device,
				  const struct ib_umem_fd_attr *attr);
void ib_umem_memfd_release(struct ib_umem *umem);

#if IS_ENABLED(CONFIG_KUNIT)
unsigned int ib_memfd_pages(struct folio **folios, long nr, pgoff_t offset,
			    unsigned int max, struct page **pages);
#endif

#else /* CONFIG_INFINIBAND_USER_MEM */

static inline struct ib_umem *
ib_umem_get_fd(struct ib_device *device, const struct ib_umem_fd_attr *attr)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline void ib_umem_vmap_release(struct ib_umem_vmap *vmap) { }
static inline void ib_umem_memfd_release(struct ib_umem *umem) { }

#endif /* CONFIG_INFINIBAND_USER_MEM */
#endif /* IB_UMEM_FD_H */
