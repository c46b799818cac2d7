// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * usage: calls
 *
 * In a guest with the tests' GPU: the stand-in for the HSA runtime does what <hsa/hsa.h> and
 * <hsa/hsa_ext_amd.h> say of the functions that it has, and refuses with the status that they
 * name what is wrong or what it does not do.  Each refusal is a line on stderr.
 */
#include "hsa/memory.h"
#include "hsa/runtime.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096ul
#define SIZE (4 * PAGE)
#define BAD 0x999

static int wrong;

static void compare(int line, const char *call, unsigned int got, unsigned int wanted)
{
	if (got == wanted)
		return;
	printf("line %d: %s: %#x, not %#x\n", line, call, got, wanted);
	wrong++;
}
#define gives(status, call) compare(__LINE__, #call, call, HSA_STATUS_##status)
#define is(wanted, value) compare(__LINE__, #value, value, wanted)

static const hsa_agent_t cpu = { CPU_AGENT }, gpu = { GPU_AGENT }, none = { BAD };
static const hsa_amd_memory_pool_t vram = { VRAM_POOL }, no_pool = { BAD };

static hsa_status_t count(hsa_agent_t agent, void *n)
{
	++*(int *)n;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t count_and_stop(hsa_amd_memory_pool_t pool, void *n)
{
	++*(int *)n;
	return HSA_STATUS_INFO_BREAK;
}

static void agents_and_pool(void)
{
	int agents = 0, pools = 0;
	hsa_amd_segment_t segment;
	hsa_device_type_t type;
	char name[64];
	bool allowed;

	gives(ERROR_INVALID_ARGUMENT, hsa_iterate_agents(NULL, NULL));
	gives(SUCCESS, hsa_iterate_agents(count, &agents));
	is(2, agents);
	gives(SUCCESS, hsa_agent_get_info(gpu, HSA_AGENT_INFO_DEVICE, &type));
	is(HSA_DEVICE_TYPE_GPU, type);
	gives(SUCCESS, hsa_agent_get_info(cpu, HSA_AGENT_INFO_DEVICE, &type));
	is(HSA_DEVICE_TYPE_CPU, type);
	gives(SUCCESS, hsa_agent_get_info(gpu, HSA_AGENT_INFO_NAME, name));
	gives(ERROR_INVALID_AGENT, hsa_agent_get_info(none, HSA_AGENT_INFO_NAME, name));
	gives(ERROR_INVALID_ARGUMENT, hsa_agent_get_info(gpu, HSA_AGENT_INFO_NAME, NULL));
	gives(ERROR_INVALID_ARGUMENT, hsa_agent_get_info(gpu, HSA_AGENT_INFO_ISA, name));

	gives(INFO_BREAK, hsa_amd_agent_iterate_memory_pools(gpu, count_and_stop, &pools));
	gives(SUCCESS, hsa_amd_agent_iterate_memory_pools(cpu, count_and_stop, &pools));
	is(1, pools);
	gives(ERROR_INVALID_AGENT, hsa_amd_agent_iterate_memory_pools(none, count_and_stop, NULL));
	gives(SUCCESS, hsa_amd_memory_pool_get_info(vram, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
	is(HSA_AMD_SEGMENT_GLOBAL, segment);
	gives(SUCCESS, hsa_amd_memory_pool_get_info(
			vram, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed));
	is(true, allowed);
	gives(ERROR_INVALID_MEMORY_POOL,
	      hsa_amd_memory_pool_get_info(no_pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
	gives(ERROR_INVALID_ARGUMENT,
	      hsa_amd_memory_pool_get_info(vram, HSA_AMD_MEMORY_POOL_INFO_LOCATION, &segment));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_agent_memory_pool_get_info(
			gpu, vram, HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO, name));
}

static void *allocate(void)
{
	void *p = NULL;

	gives(ERROR_INVALID_MEMORY_POOL, hsa_amd_memory_pool_allocate(no_pool, SIZE, 0, &p));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_memory_pool_allocate(vram, 0, 0, &p));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_memory_pool_allocate(vram, SIZE, 1, &p));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_memory_pool_allocate(vram, SIZE, 0, NULL));
	gives(ERROR_INVALID_ALLOCATION, hsa_amd_memory_pool_allocate(vram, 1ul << 40, 0, &p));
	gives(SUCCESS, hsa_amd_memory_pool_allocate(vram, SIZE - 1, 0, &p));
	is(1, mrfd_hsa_counts().allocations);
	is(0, (uintptr_t)p % PAGE);
	return p;
}

static void what_pointers_are(uint8_t *p, uint8_t *host)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	void *agents;

	gives(SUCCESS, hsa_amd_pointer_info(p + SIZE - 1, &info, NULL, NULL, NULL));
	is(HSA_EXT_POINTER_TYPE_HSA, info.type);
	is(true, info.agentBaseAddress == p && info.sizeInBytes == SIZE);
	is(GPU_AGENT, info.agentOwner.handle);
	gives(SUCCESS, hsa_amd_pointer_info(host, &info, NULL, NULL, NULL));
	is(HSA_EXT_POINTER_TYPE_UNKNOWN, info.type);
	gives(SUCCESS, hsa_amd_memory_lock(host, SIZE, NULL, 0, &agents));
	is(true, agents == host);
	gives(SUCCESS, hsa_amd_pointer_info(host + 1, &info, NULL, NULL, NULL));
	is(HSA_EXT_POINTER_TYPE_LOCKED, info.type);
	is(CPU_AGENT, info.agentOwner.handle);
	gives(SUCCESS, hsa_amd_memory_unlock(host));
	gives(SUCCESS, hsa_amd_pointer_info(host, &info, NULL, NULL, NULL));
	is(HSA_EXT_POINTER_TYPE_UNKNOWN, info.type);

	gives(ERROR_INVALID_ARGUMENT, hsa_amd_pointer_info(NULL, &info, NULL, NULL, NULL));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_pointer_info(p, NULL, NULL, NULL, NULL));
	gives(ERROR, hsa_amd_pointer_info(p, &info, malloc, NULL, NULL));
	info.size = 8;
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_pointer_info(p, &info, NULL, NULL, NULL));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_memory_lock(p + PAGE, PAGE, NULL, 0, &agents));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_memory_lock(host, 0, NULL, 0, &agents));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_memory_lock(host, PAGE, NULL, 1, &agents));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_memory_unlock(host));
}

static void exports(uint8_t *p)
{
	hsa_amd_ipc_memory_t handle;
	uint64_t offset = 0;
	void *attached;
	int fd = -1;

	gives(ERROR_INVALID_ARGUMENT, hsa_amd_portable_export_dmabuf(p, SIZE, NULL, &offset));
	gives(ERROR_INVALID_ALLOCATION, hsa_amd_portable_export_dmabuf(p, SIZE + 1, &fd, &offset));
	gives(ERROR_INVALID_ALLOCATION, hsa_amd_portable_export_dmabuf(p + PAGE, SIZE, &fd, &offset));
	is(-1, fd);
	gives(SUCCESS, hsa_amd_portable_export_dmabuf(p + PAGE + 1, PAGE, &fd, &offset));
	is(PAGE + 1, offset);
	is(1, mrfd_hsa_counts().exports);
	is(SIZE, lseek(fd, 0, SEEK_END));
	close(fd);
	gives(SUCCESS, hsa_amd_agents_allow_access(1, &gpu, NULL, p));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_agents_allow_access(0, &gpu, NULL, p));
	gives(ERROR_INVALID_AGENT, hsa_amd_agents_allow_access(1, &none, NULL, p));
	gives(SUCCESS, hsa_amd_agents_allow_access(1, &cpu, NULL, p));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_agents_allow_access(1, &gpu, NULL, &fd));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_ipc_memory_create(p, PAGE, &handle));
	gives(ERROR, hsa_amd_ipc_memory_create(p, SIZE, &handle));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&handle, SIZE, 0, NULL, &attached));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_ipc_memory_detach(p));
}

static void hidden(void)
{
	void *p;

	mrfd_hsa_hide(true);
	gives(SUCCESS, hsa_amd_memory_pool_allocate(vram, SIZE, 0, &p));
	mrfd_hsa_hide(false);
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_agents_allow_access(1, &cpu, NULL, p));
	gives(SUCCESS, hsa_amd_agents_allow_access(1, &gpu, NULL, p));
	is(-1, write(STDOUT_FILENO, p, 1));
	is(EFAULT, errno);
	gives(SUCCESS, hsa_amd_memory_pool_free(p));
}

static void copies(uint8_t *p, uint8_t *host)
{
	uint8_t *back = host + 2 * PAGE;
	hsa_signal_t done = { 0 }, bad = { BAD };
	void *agents;

	gives(ERROR_INVALID_ARGUMENT, hsa_signal_create(1, 0, NULL, NULL));
	gives(SUCCESS, hsa_signal_create(3, 0, NULL, &done));
	gives(ERROR_INVALID_SIGNAL, hsa_amd_memory_async_copy(p, gpu, host, gpu, PAGE, 0, NULL, bad));
	gives(ERROR_INVALID_AGENT, hsa_amd_memory_async_copy(p, none, host, gpu, PAGE, 0, NULL, done));
	gives(ERROR, hsa_amd_memory_async_copy(p, gpu, host, gpu, PAGE, 1, &done, done));
	gives(ERROR_INVALID_ARGUMENT,	/* host is not locked */
	      hsa_amd_memory_async_copy(p, gpu, host, gpu, PAGE, 0, NULL, done));
	gives(SUCCESS, hsa_amd_memory_lock(host, SIZE, NULL, 0, &agents));
	gives(ERROR_INVALID_ARGUMENT,	/* beyond its end */
	      hsa_amd_memory_async_copy(p + SIZE - 1, gpu, host, gpu, 2, 0, NULL, done));
	is(3, hsa_signal_load_scacquire(done));
	is(0, mrfd_hsa_counts().copies);

	for (size_t i = 0; i < PAGE; i++)
		host[i] = i * 7 + (i >> 8);
	gives(SUCCESS, hsa_amd_memory_async_copy(p + 9, gpu, host, cpu, PAGE, 0, NULL, done));
	gives(SUCCESS, hsa_amd_memory_async_copy(back, cpu, p + 9, gpu, PAGE, 0, NULL, done));
	is(0, memcmp(back, host, PAGE));
	is(1, hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 2, UINT64_MAX,
					HSA_WAIT_STATE_ACTIVE));
	is(2, mrfd_hsa_counts().copies);
	is(2 * PAGE, mrfd_hsa_counts().copied);
	gives(SUCCESS, hsa_amd_memory_unlock(host));
	gives(SUCCESS, hsa_signal_destroy(done));
	gives(ERROR_INVALID_SIGNAL, hsa_signal_destroy(done));
	gives(ERROR_INVALID_ARGUMENT, hsa_signal_destroy((hsa_signal_t){ 0 }));
}

/* What libfabric and fabtests call. */
static hsa_status_t take_region(hsa_region_t region, void *to)
{
	*(hsa_region_t *)to = region;
	return HSA_STATUS_INFO_BREAK;
}

static void told(void *p, void *times)
{
	++*(int *)times;
}

static void told_too(void *p, void *times)
{
	*(int *)times += 10;
}

static void by_region(uint8_t *host)
{
	long copies = mrfd_hsa_counts().copies;
	hsa_region_t region = { BAD };
	hsa_region_segment_t segment;
	const char *text = NULL;
	uint8_t *p = NULL;
	bool dmabufs = false;
	uint64_t offset;
	int fd = -1, times = 0;

	gives(SUCCESS, hsa_system_get_info(HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED, &dmabufs));
	is(true, dmabufs);
	gives(ERROR_INVALID_ARGUMENT, hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &offset));
	gives(SUCCESS, hsa_status_string(HSA_STATUS_ERROR_INVALID_AGENT, &text));
	is(0, strcmp(text, "invalid agent"));
	gives(ERROR_INVALID_ARGUMENT, hsa_status_string(BAD, &text));
	gives(ERROR_INVALID_REGION, hsa_region_get_info(region, HSA_REGION_INFO_SEGMENT, &segment));
	gives(SUCCESS, hsa_agent_iterate_regions(cpu, take_region, &region));
	gives(INFO_BREAK, hsa_agent_iterate_regions(gpu, take_region, &region));
	gives(SUCCESS, hsa_region_get_info(region, HSA_REGION_INFO_SEGMENT, &segment));
	is(HSA_REGION_SEGMENT_GLOBAL, segment);
	gives(ERROR_INVALID_ARGUMENT, hsa_region_get_info(region, HSA_REGION_INFO_SIZE, &offset));

	gives(SUCCESS, hsa_memory_allocate(region, SIZE, (void **)&p));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_memory_fill(p + 1, 0, 1));
	gives(ERROR_INVALID_ALLOCATION, hsa_amd_memory_fill(p, 0, SIZE / 4 + 1));
	gives(ERROR_INVALID_ALLOCATION, hsa_amd_memory_fill(p, 0, SIZE_MAX));
	gives(ERROR_INVALID_ALLOCATION, hsa_amd_memory_fill(host, 0, 1));
	gives(SUCCESS, hsa_amd_memory_fill(p, 0x04030201, SIZE / 4));
	gives(SUCCESS, hsa_memory_copy(host, p + 2, 4));
	is(0, memcmp(host, "\3\4\1\2", 4));
	gives(SUCCESS, hsa_memory_copy(p + SIZE - 1, host, 1));
	is(3, p[SIZE - 1]);
	gives(ERROR_INVALID_ARGUMENT, hsa_memory_copy(p + SIZE - 1, host, 2));
	gives(ERROR_INVALID_ARGUMENT, hsa_memory_copy(NULL, host, 1));
	is(copies + 2, mrfd_hsa_counts().copies);

	gives(SUCCESS, hsa_amd_portable_export_dmabuf(p, SIZE, &fd, &offset));
	gives(SUCCESS, hsa_amd_portable_close_dmabuf(fd));
	gives(ERROR_RESOURCE_FREE, hsa_amd_portable_close_dmabuf(fd));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_register_deallocation_callback(p, NULL, NULL));
	gives(ERROR_INVALID_ALLOCATION, hsa_amd_register_deallocation_callback(host, told, NULL));
	gives(SUCCESS, hsa_amd_register_deallocation_callback(p, told, &times));
	gives(SUCCESS, hsa_amd_register_deallocation_callback(p + PAGE, told, &times));
	gives(SUCCESS, hsa_amd_register_deallocation_callback(p, told_too, &times));
	gives(SUCCESS, hsa_amd_deregister_deallocation_callback(p, told_too));
	gives(ERROR_INVALID_ARGUMENT, hsa_amd_deregister_deallocation_callback(p, told_too));
	gives(SUCCESS, hsa_memory_free(p));
	is(2, times);
}

int main(void)
{
	uint8_t *host = aligned_alloc(PAGE, SIZE), *p;

	gives(ERROR_NOT_INITIALIZED, hsa_shut_down());
	gives(ERROR_NOT_INITIALIZED, hsa_iterate_agents(count, NULL));
	gives(SUCCESS, hsa_init());
	agents_and_pool();
	p = allocate();
	if (host && p) {
		what_pointers_are(p, host);
		exports(p);
		hidden();
		copies(p, host);
		by_region(host);
	}
	gives(ERROR_INVALID_ALLOCATION, hsa_amd_memory_pool_free(p + PAGE));
	gives(SUCCESS, hsa_amd_memory_pool_free(p));
	gives(ERROR_INVALID_ALLOCATION, hsa_amd_memory_pool_free(p));
	is(0, mrfd_hsa_counts().allocations);
	gives(SUCCESS, hsa_shut_down());
	gives(ERROR_NOT_INITIALIZED, hsa_shut_down());
	printf("%d calls were wrong\n", wrong);
	return wrong != 0;
}
