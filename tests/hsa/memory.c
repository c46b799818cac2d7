// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Memory of the stand-in for the HSA runtime (runtime.c), and copies.
 *
 * An allocation is a buffer of the tests' GPU.  It begins in VRAM, and may be moved or evicted
 * at any time.  It is mapped twice: at the address that the process gets, and for the copies,
 * which the CPU does.  The first one may be hidden: the process cannot touch it, as with a GPU
 * whose VRAM the CPU does not reach.  Who wants bytes of it then has to ask for a copy, and these
 * are counted, or for a dma-buf.
 *
 * Host memory is copied from and to if it was locked, that is, if agents may access it.
 */
#include "hsa/memory.h"
#include "hsa/runtime.h"
#include "gpu/mrfd_gpu.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xf86drm.h>

#define PAGE 4096ul

/* An allocation.  Only next changes until it is freed. */
struct buffer {
	struct buffer *next;
	uint8_t *base;		/* the process has this address */
	uint8_t *bytes;		/* the copies have this one */
	size_t size;
	uint32_t handle;	/* of the buffer on the card */
	bool hidden;		/* nobody may touch the base */
};

/* A range of host memory that agents may access. */
struct locked {
	struct locked *next;
	uint8_t *base;
	size_t size;
	int times;
};

/* Who is told when an address is freed. */
struct listener {
	struct listener *next;
	void *address;
	hsa_amd_deallocation_callback_t callback;
	void *data;
};

/* It protects all that follows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *buffers;
static struct locked *all_locked;
static struct listener *listeners;
static struct mrfd_hsa_counts counts;
static bool hide;

/* --- Memory of the GPU --- */

static bool inside(const void *p, size_t n, const uint8_t *base, size_t size)
{
	size_t at = (const uint8_t *)p - base;

	return (const uint8_t *)p >= base && at < size && n <= size - at;
}

static bool touches(const void *p, size_t n, const uint8_t *base, size_t size)
{
	return (const uint8_t *)p < base + size && base < (const uint8_t *)p + n;
}

/* The allocation that has all N bytes at P, or NULL.  The lock is held. */
static struct buffer *find_buffer(const void *p, size_t n)
{
	struct buffer *b = buffers;

	while (b && !inside(p, n, b->base, b->size))
		b = b->next;
	return b;
}

static void destroy_buffer(struct buffer *b)
{
	if (b->base)
		munmap(b->base, b->size);
	if (b->bytes)
		munmap(b->bytes, b->size);
	if (b->handle)
		drmCloseBufferHandle(runtime_card, b->handle);
	free(b);
}

static uint8_t *map(size_t size, int prot, uint64_t offset)
{
	void *p = mmap(NULL, size, prot, MAP_SHARED, runtime_card, offset);

	return p == MAP_FAILED ? NULL : p;
}

static struct buffer *create_buffer(size_t size, bool hidden)
{
	struct mrfd_gpu_create create = { .size = size, .place = MRFD_GPU_VRAM };
	const int all = PROT_READ | PROT_WRITE;
	struct buffer *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->size = size;
	b->hidden = hidden;
	if (!drmIoctl(runtime_card, DRM_IOCTL_MRFD_GPU_CREATE, &create)) {
		b->handle = create.handle;
		b->bytes = map(size, all, create.offset);
		b->base = map(size, hidden ? PROT_NONE : all, create.offset);
	}
	if (b->base && b->bytes)
		return b;
	destroy_buffer(b);
	return NULL;
}

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags,
		void **ptr)
{
	struct buffer *b;
	bool hidden;

	demand_init();
	demand(pool.handle == VRAM_POOL, INVALID_MEMORY_POOL, "pool %#lx", pool.handle);
	demand(ptr && size && !flags, INVALID_ARGUMENT, "%zu bytes, flags %#x, to %p", size, flags,
	       ptr);
	demand(size <= runtime_vram_size, INVALID_ALLOCATION, "%zu bytes of %zu", size,
	       runtime_vram_size);
	pthread_mutex_lock(&lock);
	hidden = hide;
	pthread_mutex_unlock(&lock);
	b = create_buffer((size + PAGE - 1) & -PAGE, hidden);
	demand(b, OUT_OF_RESOURCES, "no buffer of %zu bytes: %m", size);
	pthread_mutex_lock(&lock);
	b->next = buffers;
	buffers = b;
	counts.allocations++;
	pthread_mutex_unlock(&lock);
	*ptr = b->base;
	return HSA_STATUS_SUCCESS;
}

/* Take a listener out of the list: that of an address in B, or with this callback at ADDRESS. */
static struct listener *take_listener(const struct buffer *b, const void *address,
				      hsa_amd_deallocation_callback_t callback)
{
	struct listener **at = &listeners, *l;

	pthread_mutex_lock(&lock);
	for (; *at; at = &(*at)->next)
		if (b ? inside((*at)->address, 1, b->base, b->size) :
			(*at)->address == address && (*at)->callback == callback)
			break;
	l = *at;
	if (l)
		*at = l->next;
	pthread_mutex_unlock(&lock);
	return l;
}

/* The buffer is in no list any more.  A callback may call functions of HSA. */
static void tell_listeners(const struct buffer *b)
{
	struct listener *l;

	while ((l = take_listener(b, NULL, NULL))) {
		l->callback(l->address, l->data);
		free(l);
	}
}

hsa_status_t hsa_amd_register_deallocation_callback(void *ptr,
		hsa_amd_deallocation_callback_t callback, void *data)
{
	struct listener *l;
	bool found;

	demand_init();
	demand(ptr && callback, INVALID_ARGUMENT, "%p", ptr);
	l = malloc(sizeof(*l));
	demand(l, OUT_OF_RESOURCES, "no memory");
	pthread_mutex_lock(&lock);
	found = find_buffer(ptr, 1);
	if (found) {
		*l = (struct listener){ listeners, ptr, callback, data };
		listeners = l;
	}
	pthread_mutex_unlock(&lock);
	if (!found)
		free(l);
	demand(found, INVALID_ALLOCATION, "%p is in no allocation", ptr);
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_deregister_deallocation_callback(void *ptr,
		hsa_amd_deallocation_callback_t callback)
{
	struct listener *l;

	demand_init();
	l = take_listener(NULL, ptr, callback);
	demand(l, INVALID_ARGUMENT, "nobody asked about %p", ptr);
	free(l);
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_pool_free(void *ptr)
{
	struct buffer **at = &buffers, *b;

	demand_init();
	pthread_mutex_lock(&lock);
	while (*at && (*at)->base != ptr)
		at = &(*at)->next;
	b = *at;
	if (b) {
		*at = b->next;
		counts.allocations--;
	}
	pthread_mutex_unlock(&lock);
	demand(b, INVALID_ALLOCATION, "%p is no allocation", ptr);
	tell_listeners(b);
	destroy_buffer(b);
	return HSA_STATUS_SUCCESS;
}

/* A region is an older name of a pool. */
hsa_status_t hsa_memory_allocate(hsa_region_t region, size_t size, void **ptr)
{
	return hsa_amd_memory_pool_allocate((hsa_amd_memory_pool_t){ region.handle }, size, 0, ptr);
}

hsa_status_t hsa_memory_free(void *ptr)
{
	return hsa_amd_memory_pool_free(ptr);
}

/* Each agent has access already, or never gets it. */
hsa_status_t hsa_amd_agents_allow_access(uint32_t n, const hsa_agent_t *agents,
		const uint32_t *flags, const void *ptr)
{
	struct buffer *b;
	bool hidden;

	demand_init();
	demand(n && agents && !flags, INVALID_ARGUMENT, "%u agents at %p, flags at %p", n, agents,
	       flags);
	demand(are_agents(agents, n), INVALID_AGENT, "an agent of %u", n);
	pthread_mutex_lock(&lock);
	b = find_buffer(ptr, 1);
	hidden = b && b->hidden;
	pthread_mutex_unlock(&lock);
	demand(b, INVALID_ARGUMENT, "%p is in no allocation", ptr);
	for (uint32_t i = 0; i < n; i++)
		demand(agents[i].handle == GPU_AGENT || !hidden, INVALID_ARGUMENT,
		       "the CPU does not reach %p", ptr);
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_portable_export_dmabuf(const void *ptr, size_t size, int *dmabuf,
		uint64_t *offset)
{
	struct buffer *b;
	int fd = -1;

	demand_init();
	demand(ptr && size && dmabuf && offset, INVALID_ARGUMENT, "%zu bytes at %p, to %p and %p",
	       size, ptr, dmabuf, offset);
	pthread_mutex_lock(&lock);
	b = find_buffer(ptr, size);
	if (b && !drmPrimeHandleToFD(runtime_card, b->handle, DRM_CLOEXEC | DRM_RDWR, &fd)) {
		*dmabuf = fd;
		*offset = (const uint8_t *)ptr - b->base;
		counts.exports++;
	}
	pthread_mutex_unlock(&lock);
	demand(b, INVALID_ALLOCATION, "%zu bytes at %p are in no allocation", size, ptr);
	demand(fd >= 0, OUT_OF_RESOURCES, "PRIME: %m");
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_portable_close_dmabuf(int dmabuf)
{
	demand_init();
	if (close(dmabuf))
		return refuse(ERROR_RESOURCE_FREE, "descriptor %d: %m", dmabuf);
	return HSA_STATUS_SUCCESS;
}

/* No memory is shared by an address: no handle is ever valid.  A process passes a dma-buf. */
hsa_status_t hsa_amd_ipc_memory_create(void *ptr, size_t size, hsa_amd_ipc_memory_t *handle)
{
	struct buffer *b;
	bool whole;

	demand_init();
	pthread_mutex_lock(&lock);
	b = find_buffer(ptr, size);
	whole = b && b->base == ptr && b->size == size;
	pthread_mutex_unlock(&lock);
	demand(whole && handle, INVALID_ARGUMENT, "%zu bytes at %p, to %p", size, ptr, handle);
	return refuse(ERROR, "no memory is shared with other processes");
}

hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t *handle, size_t size, uint32_t n,
		const hsa_agent_t *agents, void **ptr)
{
	demand_init();
	return refuse(ERROR_INVALID_ARGUMENT, "there is no handle");
}

hsa_status_t hsa_amd_ipc_memory_detach(void *ptr)
{
	demand_init();
	return refuse(ERROR_INVALID_ARGUMENT, "%p is not attached", ptr);
}

/* --- Memory of the host --- */

/* Its address for agents is the one that it has. */
hsa_status_t hsa_amd_memory_lock(void *host, size_t size, hsa_agent_t *agents, int n, void **ptr)
{
	bool taken = false;
	struct locked *l;

	demand_init();
	demand(host && size && ptr, INVALID_ARGUMENT, "%zu bytes at %p, to %p", size, host, ptr);
	demand(!agents == !n && n >= 0, INVALID_ARGUMENT, "%d agents at %p", n, agents);
	demand(are_agents(agents, n), INVALID_AGENT, "an agent of %d", n);
	pthread_mutex_lock(&lock);
	for (struct buffer *b = buffers; b; b = b->next)
		taken |= touches(host, size, b->base, b->size);
	for (l = all_locked; l && (l->base != host || l->size != size);)
		l = l->next;
	if (!l && !taken && (l = calloc(1, sizeof(*l)))) {
		*l = (struct locked){ .next = all_locked, .base = host, .size = size };
		all_locked = l;
	}
	if (l)
		l->times++;
	pthread_mutex_unlock(&lock);
	demand(!taken, INVALID_ARGUMENT, "%zu bytes at %p are the GPU's", size, host);
	demand(l, OUT_OF_RESOURCES, "no memory");
	*ptr = host;
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_unlock(void *host)
{
	struct locked **at = &all_locked, *l;
	bool found;

	demand_init();
	pthread_mutex_lock(&lock);
	while (*at && (*at)->base != host)
		at = &(*at)->next;
	l = *at;
	found = l;
	if (l && !--l->times) {
		*at = l->next;
		free(l);
	}
	pthread_mutex_unlock(&lock);
	demand(found, INVALID_ARGUMENT, "%p is not locked", host);
	return HSA_STATUS_SUCCESS;
}

/* --- What a pointer is --- */

hsa_status_t hsa_amd_pointer_info(const void *ptr, hsa_amd_pointer_info_t *info,
		void *(*alloc)(size_t), uint32_t *n, hsa_agent_t **agents)
{
	hsa_amd_pointer_info_t found = { .type = HSA_EXT_POINTER_TYPE_UNKNOWN };
	struct locked *l;
	struct buffer *b;

	demand_init();
	demand(ptr && info, INVALID_ARGUMENT, "of %p, to %p", ptr, info);
	demand(info->size >= offsetof(hsa_amd_pointer_info_t, global_flags), INVALID_ARGUMENT,
	       "a structure of %u bytes", info->size);
	if (alloc || n || agents)
		return refuse(ERROR, "the agents with access are not listed");
	found.size = info->size < sizeof(found) ? info->size : sizeof(found);
	pthread_mutex_lock(&lock);
	b = find_buffer(ptr, 1);
	for (l = all_locked; l && !inside(ptr, 1, l->base, l->size);)
		l = l->next;
	if (b) {
		found.type = HSA_EXT_POINTER_TYPE_HSA;
		found.agentBaseAddress = found.hostBaseAddress = b->base;
		found.sizeInBytes = b->size;
		found.agentOwner.handle = GPU_AGENT;
		found.global_flags = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
	} else if (l) {
		found.type = HSA_EXT_POINTER_TYPE_LOCKED;
		found.agentBaseAddress = found.hostBaseAddress = l->base;
		found.sizeInBytes = l->size;
		found.agentOwner.handle = CPU_AGENT;
	}
	pthread_mutex_unlock(&lock);
	memcpy(info, &found, found.size);
	return HSA_STATUS_SUCCESS;
}

/* --- Copies --- */

/*
 * Where the CPU finds the N bytes at P: memory of the GPU, or of the host if agents may access
 * it.  NULL: no agent can copy them.  The lock is held, so that nobody frees them.
 */
static uint8_t *bytes_at(const void *p, size_t n)
{
	struct buffer *b = find_buffer(p, n);

	if (b)
		return b->bytes + ((const uint8_t *)p - b->base);
	for (struct locked *l = all_locked; l; l = l->next)
		if (inside(p, n, l->base, l->size))
			return (uint8_t *)p;
	return NULL;
}

/* The copy has ended when this returns, which an asynchronous one may. */
hsa_status_t hsa_amd_memory_async_copy(void *dst, hsa_agent_t dst_agent, const void *src,
		hsa_agent_t src_agent, size_t size, uint32_t n, const hsa_signal_t *after,
		hsa_signal_t done)
{
	uint8_t *to, *from;

	demand_init();
	demand(dst && src && done.handle, INVALID_ARGUMENT, "from %p to %p, signal %#lx", src, dst,
	       done.handle);
	demand((!dst_agent.handle || are_agents(&dst_agent, 1)) &&
	       (!src_agent.handle || are_agents(&src_agent, 1)), INVALID_AGENT,
	       "agents %#lx and %#lx", dst_agent.handle, src_agent.handle);
	demand(is_signal(done), INVALID_SIGNAL, "signal %#lx", done.handle);
	if (n)
		return refuse(ERROR, "a copy waits for no signals");
	if (!size)
		return HSA_STATUS_SUCCESS;
	pthread_mutex_lock(&lock);
	to = bytes_at(dst, size);
	from = bytes_at(src, size);
	if (to && from) {
		memcpy(to, from, size);
		counts.copies++;
		counts.copied += size;
	}
	pthread_mutex_unlock(&lock);
	demand(to && from, INVALID_ARGUMENT, "no agent reaches %zu bytes at %p", size,
	       to ? src : dst);
	hsa_signal_store_screlease(done, hsa_signal_load_scacquire(done) - 1);
	return HSA_STATUS_SUCCESS;
}

/*
 * Where the CPU finds the N bytes at P for a copy that it makes by itself, to which host memory
 * need not be locked.  NULL: an allocation has some of them and not all.
 */
static uint8_t *bytes_of_cpu(const void *p, size_t n)
{
	uint8_t *bytes = bytes_at(p, n);

	for (struct buffer *b = buffers; b && !bytes; b = b->next)
		if (touches(p, n, b->base, b->size))
			return NULL;
	return bytes ? bytes : (uint8_t *)p;
}

hsa_status_t hsa_memory_copy(void *dst, const void *src, size_t size)
{
	uint8_t *to, *from;

	demand_init();
	demand(dst && src, INVALID_ARGUMENT, "from %p to %p", src, dst);
	if (!size)
		return HSA_STATUS_SUCCESS;
	pthread_mutex_lock(&lock);
	to = bytes_of_cpu(dst, size);
	from = bytes_of_cpu(src, size);
	if (to && from) {
		memcpy(to, from, size);
		counts.copies++;
		counts.copied += size;
	}
	pthread_mutex_unlock(&lock);
	demand(to && from, INVALID_ARGUMENT, "%zu bytes at %p are more than there are", size,
	       to ? src : dst);
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_fill(void *ptr, uint32_t value, size_t count)
{
	struct buffer *b = NULL;

	demand_init();
	demand(ptr && (uintptr_t)ptr % sizeof(value) == 0, INVALID_ARGUMENT, "%p", ptr);
	if (!count)
		return HSA_STATUS_SUCCESS;
	pthread_mutex_lock(&lock);
	if (count <= runtime_vram_size / sizeof(value))
		b = find_buffer(ptr, count * sizeof(value));
	for (size_t i = 0; b && i < count; i++)
		memcpy(b->bytes + ((uint8_t *)ptr - b->base) + i * sizeof(value), &value,
		       sizeof(value));
	pthread_mutex_unlock(&lock);
	demand(b, INVALID_ALLOCATION, "%zu words at %p are in no allocation", count, ptr);
	return HSA_STATUS_SUCCESS;
}

void mrfd_hsa_hide(bool yes)
{
	pthread_mutex_lock(&lock);
	hide = yes;
	pthread_mutex_unlock(&lock);
}

struct mrfd_hsa_counts mrfd_hsa_counts(void)
{
	struct mrfd_hsa_counts now;

	pthread_mutex_lock(&lock);
	now = counts;
	pthread_mutex_unlock(&lock);
	return now;
}
