/**
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See file LICENSE for terms.
 */

/*
 * A memory domain without transports and without registration. It tells which
 * dma-buf a pointer leads to, if the process has mapped one there, so that
 * memory domains which take a dma-buf can register the memory by its file
 * descriptor: the pages of such a mapping can usually not be pinned by address.
 *
 * It remembers no mapping: each query asks the kernel about the process as it is
 * now. So the answer is right after munmap(), close() and fork(). If there is no
 * answer the memory is registered by its address.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include <linux/fs.h>

#ifdef PROCMAP_QUERY /* Linux 6.11: ask for one mapping instead of reading all */

#include <ucm/api/ucm.h>
#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/sock.h>
#include <ucs/sys/sys.h>
#include <uct/base/uct_md.h>

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define UCT_DMABUF_FDS  "/proc/self/fd"
#define UCT_DMABUF_NAME "/dmabuf:" /* what the kernel's name of a mapping begins with */


typedef struct procmap_query uct_dmabuf_vma_t;


typedef struct {
    uct_md_t super;
    int      maps_fd; /* answers for the process that has opened it, */
    pid_t    pid;     /* which is this one */
} uct_dmabuf_md_t;


/* Whom to look for, and who was found */
typedef struct {
    const uct_dmabuf_vma_t *vma;
    int                    fd;
} uct_dmabuf_search_t;


/* Get the mapping at an address, if it is one of a dma-buf which the process
 * may read and write, and which is not a private copy. */
static int uct_dmabuf_vma_at(int maps_fd, uintptr_t address,
                             uct_dmabuf_vma_t *vma)
{
    char name[64]; /* the name of a dma-buf has at most 31 characters */

    memset(vma, 0, sizeof(*vma));
    vma->size          = sizeof(*vma);
    vma->query_flags   = PROCMAP_QUERY_FILE_BACKED_VMA |
                         PROCMAP_QUERY_VMA_READABLE |
                         PROCMAP_QUERY_VMA_WRITABLE | PROCMAP_QUERY_VMA_SHARED;
    vma->query_addr    = address;
    vma->vma_name_addr = (uintptr_t)name;
    vma->vma_name_size = sizeof(name);

    /* A longer name is an error, and not that of a dma-buf */
    return (ioctl(maps_fd, PROCMAP_QUERY, vma) == 0) &&
           (vma->vma_name_size > strlen(UCT_DMABUF_NAME)) &&
           !strncmp(name, UCT_DMABUF_NAME, strlen(UCT_DMABUF_NAME));
}

static int uct_dmabuf_same_file(const uct_dmabuf_vma_t *a,
                                const uct_dmabuf_vma_t *b)
{
    return (a->inode == b->inode) && (a->dev_major == b->dev_major) &&
           (a->dev_minor == b->dev_minor);
}

/* Get the first mapping of a range, if all of the range is in one dma-buf, as
 * one piece: the kernel may have cut it into several mappings. */
static int uct_dmabuf_find_vma(int maps_fd, uintptr_t start, uintptr_t end,
                               uct_dmabuf_vma_t *first)
{
    uct_dmabuf_vma_t next;
    uintptr_t at;

    if (!uct_dmabuf_vma_at(maps_fd, start, first)) {
        return 0;
    }

    for (at = first->vma_end; at < end; at = next.vma_end) {
        if (!uct_dmabuf_vma_at(maps_fd, at, &next) ||
            !uct_dmabuf_same_file(&next, first) ||
            (next.vma_offset - first->vma_offset != at - first->vma_start)) {
            return 0;
        }
    }

    return 1;
}

static int uct_dmabuf_fd_is_of_vma(int fd, const uct_dmabuf_vma_t *vma)
{
    struct statfs fs;
    struct stat st;

    return (fstat(fd, &st) == 0) && (st.st_ino == vma->inode) &&
           (st.st_dev == makedev(vma->dev_major, vma->dev_minor)) &&
           (fstatfs(fd, &fs) == 0) && (fs.f_type == DMA_BUF_MAGIC) &&
           ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
}

static ucs_status_t
uct_dmabuf_search_fd(const struct dirent *entry, void *arg)
{
    uct_dmabuf_search_t *search = arg;
    int fd                      = atoi(entry->d_name); /* 0 for "." and ".." */
    int dup_fd;

    if (!uct_dmabuf_fd_is_of_vma(fd, search->vma)) {
        return UCS_OK;
    }

    /* Look again at what is now ours: another thread may have closed the
     * descriptor meanwhile, and got the same number for another file. */
    dup_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (dup_fd < 0) {
        return UCS_ERR_IO_ERROR;
    }

    if (!uct_dmabuf_fd_is_of_vma(dup_fd, search->vma)) {
        close(dup_fd);
        return UCS_OK;
    }

    search->fd = dup_fd;
    return UCS_ERR_NO_RESOURCE; /* ends the search */
}

/* Get the offset that the kernel has for a mapping of the dma-buf's begin. It
 * is 0 but for DRM drivers, which add the place that the buffer has in the file
 * of their card. Nobody tells this number, so map a page and look. */
static int uct_dmabuf_first_offset(int maps_fd, int fd,
                                   const uct_dmabuf_vma_t *vma,
                                   uint64_t *offset_p)
{
    size_t page_size = ucs_get_page_size();
    uct_dmabuf_vma_t probe;
    void *ptr;
    int found;

    /* Not by mmap(), which tells UCX's own caches */
    ptr = ucm_orig_mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                        0);
    if (ptr == MAP_FAILED) {
        return 0;
    }

    found = uct_dmabuf_vma_at(maps_fd, (uintptr_t)ptr, &probe) &&
            uct_dmabuf_same_file(&probe, vma);
    ucm_orig_munmap(ptr, page_size);
    if (!found) {
        return 0;
    }

    *offset_p = probe.vma_offset + (uintptr_t)ptr - probe.vma_start;
    return 1;
}

/* Get a descriptor of the dma-buf behind a range, and the range's offset in it */
static int uct_dmabuf_find(int maps_fd, uintptr_t start, uintptr_t end,
                           size_t *offset_p)
{
    uct_dmabuf_vma_t vma;
    uct_dmabuf_search_t search = {.vma = &vma, .fd = UCT_DMABUF_FD_INVALID};
    const char *reason;
    uint64_t first_offset;

    if (!uct_dmabuf_find_vma(maps_fd, start, end, &vma)) {
        return UCT_DMABUF_FD_INVALID;
    }

    ucs_sys_readdir(UCT_DMABUF_FDS, uct_dmabuf_search_fd, &search);
    if (search.fd == UCT_DMABUF_FD_INVALID) {
        reason = "no descriptor is open for reading and writing";
        goto none;
    }

    if (!uct_dmabuf_first_offset(maps_fd, search.fd, &vma, &first_offset)) {
        reason = "its first page cannot be mapped";
        goto none;
    }

    /* Of a DRM driver only a mapping from the buffer's begin is sure, as long
     * as it is one: of others drm_gem_shmem_fault() maps the wrong pages, so
     * they are not the memory that a device would reach. */
    if ((first_offset != 0) &&
        ((vma.vma_offset != first_offset) || (end > vma.vma_end))) {
        reason = "it is a DRM driver's, and not mapped from its begin";
        goto none;
    }

    *offset_p = vma.vma_offset - first_offset + start - vma.vma_start;
    ucs_trace("0x%lx..0x%lx is at %zu of the dma-buf with inode %llu", start,
              end, *offset_p, vma.inode);
    return search.fd;

none:
    ucs_debug("0x%lx..0x%lx is in the dma-buf with inode %llu: %s", start, end,
              vma.inode, reason);
    ucs_close_fd(&search.fd);
    return UCT_DMABUF_FD_INVALID;
}

static int uct_dmabuf_open_maps()
{
    return open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
}

static ucs_status_t
uct_dmabuf_md_mem_query(uct_md_h uct_md, const void *address, size_t length,
                        uct_md_mem_attr_t *mem_attr)
{
    uct_dmabuf_md_t *md = ucs_derived_of(uct_md, uct_dmabuf_md_t);
    uintptr_t start     = (uintptr_t)address;
    size_t offset       = 0;
    int is_forked;
    int maps_fd;
    int fd;

    if (mem_attr->field_mask & UCT_MD_MEM_ATTR_FIELD_MEM_TYPE) {
        mem_attr->mem_type = UCS_MEMORY_TYPE_HOST;
    }

    if (mem_attr->field_mask & UCT_MD_MEM_ATTR_FIELD_SYS_DEV) {
        mem_attr->sys_dev = UCS_SYS_DEVICE_ID_UNKNOWN;
    }

    if (mem_attr->field_mask & UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS) {
        mem_attr->base_address = (void*)address;
    }

    if (mem_attr->field_mask & UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH) {
        mem_attr->alloc_length = length;
    }

    if (!(mem_attr->field_mask & (UCT_MD_MEM_ATTR_FIELD_DMABUF_FD |
                                  UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET))) {
        return UCS_OK;
    }

    is_forked = (md->pid != getpid());
    maps_fd   = is_forked ? uct_dmabuf_open_maps() : md->maps_fd;
    fd        = uct_dmabuf_find(maps_fd, start, start + length, &offset);
    if (is_forked) {
        ucs_close_fd(&maps_fd);
    }

    if (mem_attr->field_mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET) {
        mem_attr->dmabuf_offset = offset;
    }

    if (mem_attr->field_mask & UCT_MD_MEM_ATTR_FIELD_DMABUF_FD) {
        mem_attr->dmabuf_fd = fd;
    } else {
        ucs_close_fd(&fd);
    }

    return UCS_OK;
}

static ucs_status_t uct_dmabuf_md_query(uct_md_h md, uct_md_attr_v2_t *md_attr)
{
    uct_md_base_md_query(md_attr);
    md_attr->flags            = 0;
    md_attr->dmabuf_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    return UCS_OK;
}

static void uct_dmabuf_md_close(uct_md_h uct_md)
{
    uct_dmabuf_md_t *md = ucs_derived_of(uct_md, uct_dmabuf_md_t);

    close(md->maps_fd);
    ucs_free(md);
}

static ucs_status_t
uct_dmabuf_md_open(uct_component_t *component, const char *md_name,
                   const uct_md_config_t *config, uct_md_h *md_p)
{
    static uct_md_ops_t md_ops = {
        .close              = uct_dmabuf_md_close,
        .query              = uct_dmabuf_md_query,
        .mem_alloc          = (uct_md_mem_alloc_func_t)ucs_empty_function_return_unsupported,
        .mem_free           = (uct_md_mem_free_func_t)ucs_empty_function_return_unsupported,
        .mem_advise         = (uct_md_mem_advise_func_t)ucs_empty_function_return_unsupported,
        .mem_reg            = (uct_md_mem_reg_func_t)ucs_empty_function_return_unsupported,
        .mem_dereg          = (uct_md_mem_dereg_func_t)ucs_empty_function_return_unsupported,
        .mem_query          = uct_dmabuf_md_mem_query,
        .mkey_pack          = (uct_md_mkey_pack_func_t)ucs_empty_function_return_unsupported,
        .mem_attach         = (uct_md_mem_attach_func_t)ucs_empty_function_return_unsupported,
        .detect_memory_type = (uct_md_detect_memory_type_func_t)ucs_empty_function_return_unsupported
    };
    uct_dmabuf_md_t *md;

    md = ucs_malloc(sizeof(*md), "uct_dmabuf_md");
    if (md == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    md->super.ops       = &md_ops;
    md->super.component = component;
    md->pid             = getpid();
    md->maps_fd         = uct_dmabuf_open_maps();
    if (md->maps_fd < 0) {
        ucs_free(md);
        return UCS_ERR_IO_ERROR;
    }

    *md_p = &md->super;
    return UCS_OK;
}

/* There is a domain if the kernel answers, here about this function */
static ucs_status_t
uct_dmabuf_query_md_resources(uct_component_t *component,
                              uct_md_resource_desc_t **resources_p,
                              unsigned *num_resources_p)
{
    uct_dmabuf_vma_t vma = {
        .size       = sizeof(vma),
        .query_addr = (uintptr_t)uct_dmabuf_query_md_resources
    };
    int maps_fd          = uct_dmabuf_open_maps();
    int answers          = (ioctl(maps_fd, PROCMAP_QUERY, &vma) == 0);

    ucs_close_fd(&maps_fd);
    if (!answers) {
        ucs_debug("the kernel does not tell what is mapped");
        return uct_md_query_empty_md_resource(resources_p, num_resources_p);
    }

    return uct_md_query_single_md_resource(component, resources_p,
                                           num_resources_p);
}

static uct_component_t uct_dmabuf_component = {
    .query_md_resources = uct_dmabuf_query_md_resources,
    .md_open            = uct_dmabuf_md_open,
    .cm_open            = (uct_component_cm_open_func_t)ucs_empty_function_return_unsupported,
    .rkey_unpack        = (uct_component_rkey_unpack_func_t)ucs_empty_function_return_unsupported,
    .rkey_ptr           = (uct_component_rkey_ptr_func_t)ucs_empty_function_return_unsupported,
    .rkey_release       = (uct_component_rkey_release_func_t)ucs_empty_function_return_success,
    .rkey_compare       = uct_base_rkey_compare,
    .name               = "dmabuf",
    .md_config          = UCT_MD_DEFAULT_CONFIG_INITIALIZER,
    .cm_config          = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
    .tl_list            = UCT_COMPONENT_TL_LIST_INITIALIZER(&uct_dmabuf_component),
    .flags              = 0,
    .md_vfs_init        = (uct_component_md_vfs_init_func_t)ucs_empty_function
};

UCT_COMPONENT_REGISTER(&uct_dmabuf_component)

#endif
