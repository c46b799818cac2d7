// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Registration by file descriptor where the kernel does not have the method, or
 * the provider not the operation.
 *
 * A dma-buf is registered by the operation reg_dmabuf_mr. A file in memory is
 * mapped, and the mapping is registered by reg_mr, with the iova that the
 * application chose. Such an MR is of IBV_MR_TYPE_MAPPED_MR: the mapping belongs
 * to it, and is unmapped by ibv_dereg_mr(), or when a re-registration has given
 * the MR other memory. Nobody else knows its address: mr->addr is the iova.
 *
 * A kernel that has the methods knows best what it cannot do, so an error of it
 * never leads here: mr_fd_is_native().
 *
 * The older operations check less, and report a mistake as EINVAL or EFAULT.
 * So what the methods check is checked here before, with the same errno. If the
 * file changes in between, the errno may be another one.
 */

#define _GNU_SOURCE
#include <config.h>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <infiniband/cmd_write.h>
#include "ibverbs.h"

/* Older than the headers of some distributions that are supported */
#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif
#ifndef F_GET_SEALS
#define F_GET_SEALS 1034
#endif
#ifndef F_SEAL_WRITE
#define F_SEAL_WRITE 0x0008
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { NATIVE_UNKNOWN, NATIVE_YES, NATIVE_NO };

struct region {
	uint64_t offset;
	size_t length;
	uint64_t iova;
	int fd;
	int access;
};

/* What the file descriptor of a region refers to */
struct file {
	int mode; /* O_RDONLY, O_WRONLY, O_RDWR, or none of them */
	bool regular;
	bool sealed; /* against writing */
	uint32_t magic; /* of the file system */
	uint64_t page_size; /* of a file in memory */
	uint64_t size;
};

/* Ask the kernel: 0 and *caps, enum ib_uverbs_buffer_caps, or an errno value */
int mr_fd_query_kernel(struct ibv_context *context, enum ibv_mr_fd_type fd_type,
		       uint32_t *caps)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DEVICE,
			       UVERBS_METHOD_QUERY_BUFFER_CAPS, 2);
	int type;

	type = mr_fd_buffer_type(fd_type);
	if (type < 0)
		return errno;

	fill_attr_const_in(cmd, UVERBS_ATTR_QUERY_BUFFER_CAPS_TYPE, type);
	fill_attr_out_ptr(cmd, UVERBS_ATTR_QUERY_BUFFER_CAPS_RESP, caps);
	return execute_ioctl(context, cmd);
}

/*
 * True if kernel and provider both register by file descriptor. The kernel got
 * its methods for that together, so this asks for the one that changes nothing.
 * It looks up the method first, so any other error means that there is one.
 * The context keeps the answer; threads that ask at once get the same.
 */
bool mr_fd_is_native(struct ibv_context *context)
{
	struct verbs_ex_private *priv = get_priv(context);
	int saved_errno = errno;
	uint32_t caps;
	int native;
	int err;

	if (get_ops(context)->reg_mr_fd == verbs_dummy_ops.reg_mr_fd)
		return false;

	native = atomic_load(&priv->mr_fd_native);
	if (native == NATIVE_UNKNOWN) {
		err = mr_fd_query_kernel(context, IBV_MR_FD_TYPE_DMABUF, &caps);
		native = err == EPROTONOSUPPORT || err == ENOTTY ? NATIVE_NO :
								   NATIVE_YES;
		atomic_store(&priv->mr_fd_native, native);
	}

	errno = saved_errno;
	return native == NATIVE_YES;
}

static bool writes(int access)
{
	return access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
}

static int check_range(const struct region *r)
{
	uint64_t in_page = sysconf(_SC_PAGESIZE) - 1;

	if (!r->length || ((r->offset ^ r->iova) & in_page))
		return EINVAL;
	if (r->offset + r->length < r->offset || r->iova + r->length < r->iova)
		return EOVERFLOW;
	if (r->access & IBV_ACCESS_ON_DEMAND)
		return EOPNOTSUPP;
	return 0;
}

static int look_at(struct file *f, int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct statfs fs;
	struct stat st;
	int seals;

	/* A descriptor that only names a path is not open */
	if (flags == -1 || (flags & O_PATH))
		return EBADF;
	if (fstat(fd, &st) || fstatfs(fd, &fs))
		return EBADFD;

	/* This fails with EINVAL for a file that cannot have seals */
	seals = fcntl(fd, F_GET_SEALS);
	*f = (struct file){
		.mode = flags & O_ACCMODE,
		.regular = S_ISREG(st.st_mode),
		.sealed = seals != -1 &&
			  (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)),
		.magic = fs.f_type,
		.page_size = fs.f_bsize,
		.size = st.st_size,
	};
	return 0;
}

static int check_mode(const struct file *f, int access)
{
	if (f->mode == O_RDWR || (f->mode == O_RDONLY && !writes(access)))
		return 0;
	return EACCES;
}

static int check_dmabuf(const struct region *r)
{
	struct file f;
	off_t size;
	int err;

	err = look_at(&f, r->fd);
	if (err)
		return err;
	if (f.magic != DMA_BUF_MAGIC)
		return EBADFD;
	err = check_mode(&f, r->access);
	if (err)
		return err;
	size = lseek(r->fd, 0, SEEK_END);
	if (size < 0)
		return errno;
	return r->offset + r->length > (uint64_t)size ? ERANGE : 0;
}

static int check_memfd(struct file *f, const struct region *r)
{
	int err;

	err = look_at(f, r->fd);
	if (err)
		return err;
	/* Devices in /dev are on a tmpfs too */
	if (!f->regular ||
	    (f->magic != TMPFS_MAGIC && f->magic != HUGETLBFS_MAGIC))
		return EBADFD;
	err = check_mode(f, r->access);
	if (err)
		return err;
	if (r->offset + r->length > f->size)
		return ERANGE;
	return f->sealed && writes(r->access) ? EPERM : 0;
}

/* A kernel says in other ways that it does not have the method */
static int no_method(int err)
{
	return err == EPROTONOSUPPORT || err == ENOTTY ? EOPNOTSUPP : err;
}

/*
 * Return 0 if the device registers dma-bufs by reg_dmabuf_mr, EOPNOTSUPP if it
 * does not, or another errno value if this cannot be known. -1 is no open file,
 * so this never makes an MR.
 */
int mr_fd_dmabuf_support(struct ibv_pd *pd)
{
	get_ops(pd->context)->reg_dmabuf_mr(pd, 0, sysconf(_SC_PAGESIZE), 0, -1,
					    0);
	return errno == EBADF ? 0 : no_method(errno);
}

/* The method REG_DMABUF_MR takes these for a mistake and says EINVAL */
#define NOT_FOR_DMABUF                                                         \
	(IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB |     \
	 IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT)

static struct ibv_mr *reg_dmabuf(struct ibv_pd *pd, const struct region *r)
{
	struct ibv_mr *mr;
	int unsupported;
	int err;

	err = check_range(r);
	if (!err)
		err = check_dmabuf(r);
	if (err) {
		/* A program may ask with a bad fd what the device can do */
		unsupported = mr_fd_dmabuf_support(pd);
		errno = unsupported ? unsupported : err;
		return NULL;
	}

	mr = get_ops(pd->context)->reg_dmabuf_mr(pd, r->offset, r->length,
						 r->iova, r->fd, r->access);
	if (!mr)
		errno = errno == EINVAL && (r->access & NOT_FOR_DMABUF) ?
				EOPNOTSUPP :
				no_method(errno);
	return mr;
}

/*
 * Map the pages of the region, and keep them from a child, as ibv_reg_mr() does.
 * They are mapped for writing where the file permits it, because older kernels
 * pin for writing even if the MR only reads.
 */
static int map_region(struct verbs_mr_map *map, const struct region *r,
		      const struct file *f)
{
	bool writable = f->mode == O_RDWR && !f->sealed;
	uint64_t in_page = f->page_size - 1;
	uint64_t start = r->offset & ~in_page;
	uint64_t end = (r->offset + r->length + in_page) & ~in_page;
	int err;

	map->length = end - start;
	map->addr = mmap(NULL, map->length,
			 writable ? PROT_READ | PROT_WRITE : PROT_READ,
			 MAP_SHARED, r->fd, start);
	if (map->addr == MAP_FAILED)
		return errno;

	if (ibv_dontfork_range(map->addr, map->length)) {
		err = errno;
		munmap(map->addr, map->length);
		return err;
	}
	return 0;
}

/*
 * Unmap what map_region() has mapped. The result is that of ibv_dofork_range();
 * the memory is unmapped in any case.
 */
int mr_fd_unmap(const struct verbs_mr_map *map)
{
	int ret = ibv_dofork_range(map->addr, map->length);

	munmap(map->addr, map->length);
	return ret;
}

static struct ibv_mr *reg_memfd(struct ibv_pd *pd, const struct region *r)
{
	struct verbs_mr_map map;
	struct verbs_mr *vmr;
	struct ibv_mr *mr;
	struct file f;
	void *addr;
	int err;

	err = check_range(r);
	if (!err)
		err = check_memfd(&f, r);
	if (!err)
		err = map_region(&map, r, &f);
	if (err) {
		errno = err;
		return NULL;
	}

	addr = map.addr + (r->offset & (f.page_size - 1));
	mr = get_ops(pd->context)->reg_mr(pd, addr, r->length, r->iova,
					  r->access);
	if (!mr) {
		err = errno;
		mr_fd_unmap(&map);
		errno = err;
		return NULL;
	}

	vmr = verbs_get_mr(mr);
	vmr->mr_type = IBV_MR_TYPE_MAPPED_MR;
	vmr->map = map;
	return mr;
}

/* The caller sets context, pd, addr and length of the MR */
struct ibv_mr *mr_fd_reg_fallback(struct ibv_pd *pd, uint64_t offset,
				  size_t length, uint64_t iova,
				  enum ibv_mr_fd_type fd_type, int fd,
				  int access)
{
	struct region r = {
		.offset = offset,
		.length = length,
		.iova = iova,
		.fd = fd,
		.access = access,
	};

	switch (fd_type) {
	case IBV_MR_FD_TYPE_DMABUF:
		return reg_dmabuf(pd, &r);
	case IBV_MR_FD_TYPE_MEMFD:
		return reg_memfd(pd, &r);
	}

	errno = EINVAL;
	return NULL;
}
