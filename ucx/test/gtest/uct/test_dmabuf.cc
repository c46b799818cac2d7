/**
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See file LICENSE for terms.
 */

#include <common/test.h>

extern "C" {
#include <ucp/api/ucp.h>
#include <ucp/core/ucp_context.h>
#include <ucp/core/ucp_mm.h>
#include <ucs/sys/sock.h>
#include <ucs/sys/sys.h>
#include <ucs/time/time.h>
#include <uct/api/v2/uct_v2.h>
}

#include <drm/drm.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

class test_dmabuf : public ucs::test {
public:
    void init() override
    {
        ucs::test::init();
        m_page = ucs_get_page_size();
        open_md();
        m_fd = make_udmabuf();
        if (m_fd < 0) {
            UCS_TEST_SKIP_R("no /dev/udmabuf to make dma-bufs with");
        }
    }

    void cleanup() override
    {
        for (auto &range : m_ranges) {
            munmap(range.first, range.second);
        }

        ucs_close_fd(&m_fd);
        if (m_md != nullptr) {
            uct_md_close(m_md);
        }

        ucs::test::cleanup();
    }

protected:
    static const size_t PAGES = 16;

    void open_md()
    {
        uct_component_h *components;
        uct_component_attr_t attr;
        uct_md_config_t *config;
        unsigned count;

        ASSERT_UCS_OK(uct_query_components(&components, &count));
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME |
                          UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        for (unsigned i = 0; (i < count) && (m_md == nullptr); ++i) {
            ASSERT_UCS_OK(uct_component_query(components[i], &attr));
            if (strcmp(attr.name, "dmabuf") || (attr.md_resource_count == 0)) {
                continue;
            }

            ASSERT_UCS_OK(
                    uct_md_config_read(components[i], NULL, NULL, &config));
            ASSERT_UCS_OK(uct_md_open(components[i], "dmabuf", config, &m_md));
            uct_config_release(config);
        }

        uct_release_component_list(components);
        if (m_md == nullptr) {
            UCS_TEST_SKIP_R("the kernel does not tell what is mapped");
        }
    }

    int make_udmabuf()
    {
        struct udmabuf_create create = {};
        int fd                       = -1;
        int dev                      = open("/dev/udmabuf", O_RDWR);
        int memfd                    = memfd_create("test", MFD_ALLOW_SEALING);

        create.memfd = memfd;
        create.size  = PAGES * m_page;
        if ((dev >= 0) && (ftruncate(memfd, create.size) == 0) &&
            (fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK) == 0)) {
            fd = ioctl(dev, UDMABUF_CREATE, &create);
        }

        ucs_close_fd(&dev);
        ucs_close_fd(&memfd);
        return fd;
    }

    /* Map pages of a dma-buf, in place of what is there if there is an address */
    char *map(int fd, size_t first, size_t count, char *address = nullptr,
              int prot = PROT_READ | PROT_WRITE)
    {
        void *ptr = mmap(address, count * m_page, prot,
                         MAP_SHARED | (address ? MAP_FIXED : 0), fd,
                         first * m_page);

        if (ptr == MAP_FAILED) {
            UCS_TEST_ABORT("mmap() of a dma-buf failed: " << strerror(errno));
        }

        m_ranges.push_back(std::make_pair(ptr, count * m_page));
        return static_cast<char*>(ptr);
    }

    int query(const void *ptr, size_t length, size_t *offset)
    {
        uct_md_mem_attr_t attr = {};

        attr.field_mask = UCT_MD_MEM_ATTR_FIELD_DMABUF_FD |
                          UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET;
        if (uct_md_mem_query(m_md, ptr, length, &attr) != UCS_OK) {
            return -2;
        }

        *offset = attr.dmabuf_offset;
        return attr.dmabuf_fd;
    }

    static bool same_file(int a, int b)
    {
        struct stat stat_a, stat_b;

        return (fstat(a, &stat_a) == 0) && (fstat(b, &stat_b) == 0) &&
               (stat_a.st_dev == stat_b.st_dev) &&
               (stat_a.st_ino == stat_b.st_ino);
    }

    bool is_found(int of, const void *ptr, size_t length, size_t offset)
    {
        size_t found_offset;
        int fd     = query(ptr, length, &found_offset);
        bool found = (fd >= 0) && (fd != of) && same_file(fd, of) &&
                     (fcntl(fd, F_GETFD) & FD_CLOEXEC) &&
                     (found_offset == offset);

        ucs_close_fd(&fd);
        return found;
    }

    /* What a registration of other memory takes, and the query before it */
    void print_cost(uct_md_h md, const char *name)
    {
        static const int count = 300;
        ucs_time_t query = 0, registration = 0, start;
        std::vector<char> page(m_page);
        uct_mem_h memh;

        for (int i = 0; i < count; ++i) {
            start = ucs_get_time();
            ASSERT_TRUE(is_none(&page[0], m_page));
            query += ucs_get_time() - start;
            start  = ucs_get_time();
            ASSERT_UCS_OK(uct_md_mem_reg(md, &page[0], m_page,
                                         UCT_MD_MEM_ACCESS_ALL, &memh));
            registration += ucs_get_time() - start;
            ASSERT_UCS_OK(uct_md_mem_dereg(md, memh));
        }

        UCS_TEST_MESSAGE << name << ": a query takes "
                         << ucs_time_to_usec(query) / count
                         << " usec, to register a page "
                         << ucs_time_to_usec(registration) / count << " usec";
    }

    bool is_none(const void *ptr, size_t length)
    {
        size_t offset;

        return query(ptr, length, &offset) == UCT_DMABUF_FD_INVALID;
    }

    size_t                                m_page = 0;
    uct_md_h                              m_md   = nullptr;
    int                                   m_fd   = -1;
    std::vector<std::pair<void*, size_t>> m_ranges;
};

UCS_TEST_F(test_dmabuf, whole_mapping_and_parts)
{
    char *ptr = map(m_fd, 0, PAGES);

    EXPECT_TRUE(is_found(m_fd, ptr, PAGES * m_page, 0));
    EXPECT_TRUE(is_found(m_fd, ptr, 1, 0));
    EXPECT_TRUE(is_found(m_fd, ptr + 5, m_page, 5));
    EXPECT_TRUE(is_found(m_fd, ptr + 3 * m_page, 2 * m_page, 3 * m_page));
    EXPECT_TRUE(is_found(m_fd, ptr + PAGES * m_page - 1, 1, PAGES * m_page - 1));
    EXPECT_TRUE(is_none(ptr, PAGES * m_page + 1));
}

UCS_TEST_F(test_dmabuf, mapping_with_an_offset)
{
    char *ptr = map(m_fd, 4, 2);

    EXPECT_TRUE(is_found(m_fd, ptr, 2 * m_page, 4 * m_page));
    EXPECT_TRUE(is_found(m_fd, ptr + m_page + 7, 9, 5 * m_page + 7));
}

UCS_TEST_F(test_dmabuf, range_over_mappings)
{
    char *ptr = map(m_fd, 0, PAGES);
    int other = make_udmabuf();

    /* the same pages again, as mappings of their own */
    map(m_fd, 4, 4, ptr + 4 * m_page);
    EXPECT_TRUE(is_found(m_fd, ptr, PAGES * m_page, 0));
    /* other pages of the buffer */
    map(m_fd, 5, 4, ptr + 4 * m_page);
    EXPECT_TRUE(is_none(ptr, PAGES * m_page));
    EXPECT_TRUE(is_found(m_fd, ptr + 4 * m_page, 4 * m_page, 5 * m_page));
    /* the same pages of another buffer */
    map(other, 4, 4, ptr + 4 * m_page);
    EXPECT_TRUE(is_none(ptr, PAGES * m_page));
    EXPECT_TRUE(is_none(ptr + 7 * m_page, 2 * m_page));
    EXPECT_TRUE(is_found(other, ptr + 4 * m_page, 4 * m_page, 4 * m_page));
    /* a hole */
    munmap(ptr + 4 * m_page, 4 * m_page);
    EXPECT_TRUE(is_none(ptr, PAGES * m_page));
    EXPECT_TRUE(is_none(ptr + 4 * m_page, m_page));
    EXPECT_TRUE(is_found(m_fd, ptr + 8 * m_page, m_page, 8 * m_page));
    close(other);
}

UCS_TEST_F(test_dmabuf, mapping_that_must_not_be_written)
{
    char *ptr = map(m_fd, 0, PAGES, nullptr, PROT_READ);

    EXPECT_TRUE(is_none(ptr, m_page));
    mprotect(ptr, m_page, PROT_READ | PROT_WRITE);
    EXPECT_TRUE(is_found(m_fd, ptr, m_page, 0));
    EXPECT_TRUE(is_none(ptr, 2 * m_page));
}

UCS_TEST_F(test_dmabuf, closed_descriptor)
{
    char *ptr = map(m_fd, 0, PAGES);
    int last  = dup(m_fd);

    ucs_close_fd(&m_fd);
    EXPECT_TRUE(is_found(last, ptr, m_page, 0));
    close(last);
    EXPECT_TRUE(is_none(ptr, m_page));
}

UCS_TEST_F(test_dmabuf, other_memory)
{
    int memfd = memfd_create("test", 0);
    std::vector<char> heap(PAGES * m_page);
    char stack;

    ASSERT_EQ(0, ftruncate(memfd, PAGES * m_page));
    EXPECT_TRUE(is_none(map(memfd, 0, PAGES), PAGES * m_page));
    EXPECT_TRUE(is_none(&heap[0], heap.size()));
    EXPECT_TRUE(is_none(&stack, sizeof(stack)));
    EXPECT_TRUE(is_none((void*)ucp_init_version, 1));
    EXPECT_TRUE(is_none((void*)m_page, m_page));
    close(memfd);
}

UCS_TEST_F(test_dmabuf, forked_process)
{
    char *ptr = map(m_fd, 0, PAGES);
    int status;
    pid_t pid;

    ASSERT_TRUE(is_found(m_fd, ptr, m_page, 0));
    pid = fork();
    if (pid == 0) {
        /* each process is asked about itself */
        int other   = make_udmabuf();
        bool before = is_found(m_fd, ptr, m_page, 0);

        map(other, 2, 2, ptr);
        _exit(before && is_found(other, ptr, m_page, 2 * m_page) ? 0 : 1);
    }

    ASSERT_EQ(pid, waitpid(pid, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_TRUE(is_found(m_fd, ptr, m_page, 0));
}

/* Where a mapping's offset is not that of the dma-buf, and must be 0 */
UCS_TEST_F(test_dmabuf, buffer_of_a_drm_device)
{
    struct drm_mode_create_dumb dumb = {};
    struct drm_prime_handle prime    = {};
    unsigned tested                  = 0;

    dumb.width  = m_page / 4;
    dumb.height = PAGES;
    dumb.bpp    = 32;
    for (int i = 0; i < 8; ++i) {
        std::string card = "/dev/dri/card" + std::to_string(i);
        int drm          = open(card.c_str(), O_RDWR | O_CLOEXEC);

        if ((drm >= 0) &&
            (ioctl(drm, DRM_IOCTL_MODE_CREATE_DUMB, &dumb) == 0)) {
            prime.handle = dumb.handle;
            prime.flags  = DRM_CLOEXEC | DRM_RDWR;
            ASSERT_EQ(0, ioctl(drm, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime));

            char *ptr = map(prime.fd, 0, PAGES);
            EXPECT_TRUE(is_found(prime.fd, ptr, PAGES * m_page, 0)) << card;
            ptr = map(prime.fd, 0, 4);
            EXPECT_TRUE(is_found(prime.fd, ptr + 1, 3 * m_page, 1)) << card;
            EXPECT_TRUE(is_none(map(prime.fd, 3, 2), m_page)) << card;
            close(prime.fd);
            EXPECT_TRUE(is_none(ptr, m_page)) << card;
            ++tested;
        }

        ucs_close_fd(&drm);
    }

    if (tested == 0) {
        UCS_TEST_SKIP_R("no DRM device with dumb buffers");
    }
}

/* UCP gives the descriptor to the memory domains that take one */
UCS_TEST_F(test_dmabuf, registration_by_ucp)
{
    char *ptr                       = map(m_fd, 0, PAGES);
    ucp_params_t params             = {};
    ucp_mem_map_params_t map_params = {};
    ucp_config_t *config;
    ucp_context_h context;
    ucp_md_index_t md_index;
    ucp_mem_h memh;

    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features   = UCP_FEATURE_RMA;
    ASSERT_UCS_OK(ucp_config_read(NULL, NULL, &config));
    ASSERT_UCS_OK(ucp_init(&params, config, &context));
    ucp_config_release(config);

    /* of each device */
    ucs_for_each_bit(md_index, context->dmabuf_reg_md_map) {
        print_cost(context->tl_mds[md_index].md,
                   context->tl_mds[md_index].rsc.md_name);
    }

    if (context->dmabuf_reg_md_map != 0) {
        map_params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        map_params.address    = ptr + 3 * m_page;
        map_params.length     = 5 * m_page;
        ASSERT_UCS_OK(ucp_mem_map(context, &map_params, &memh));
        EXPECT_TRUE(ucs_test_all_flags(memh->md_map,
                                       context->dmabuf_reg_md_map));
        ASSERT_UCS_OK(ucp_mem_unmap(context, memh));
    }

    bool none = (context->dmabuf_reg_md_map == 0);
    ucp_cleanup(context);
    if (none) {
        UCS_TEST_SKIP_R("no device that registers dma-bufs");
    }
}
