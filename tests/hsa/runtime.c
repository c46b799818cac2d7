// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * This is no GPU runtime.  It stands in for the HSA runtime of ROCm, libhsa-runtime64.so.1, over
 * the GPU of the tests (gpu/), which draws and computes nothing: so code for AMD's GPUs in other
 * people's programs runs where no such GPU is.
 *
 * The functions are those that UCX of Debian 13 calls (libuct_rocm, libucm_rocm), libfabric and
 * fabtests.  Arguments are checked as the comments of <hsa/hsa.h> and <hsa/hsa_ext_amd.h> say.
 * What is wrong, or not done here, is refused by the status that is named there, and a line on
 * stderr says so.  A signal that does not exist ends the process, since those functions return no
 * status.
 *
 * There are two agents, the CPU and the GPU, and one pool of memory, the VRAM (memory.c), which is
 * a region, too.  This file has the agents, the pool and the signals.
 */
#include "hsa/runtime.h"
#include "gpu/mrfd_gpu.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xf86drm.h>

#define NAME_LENGTH 64		/* of a name of an agent */
#define DRM_DEVICES 16
#define SIGNALS 4096

atomic_int runtime_users;
int runtime_card = -1;
uint64_t runtime_vram_size;
static drmPciBusInfo place;	/* of the GPU */

static struct {
	_Atomic int64_t value;
	atomic_bool used;
} signals[SIGNALS];		/* a handle is the index and 1 */

/* Of those who come first, and of those who look for a free signal. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* --- What is refused --- */

hsa_status_t runtime_refuse(const char *function, hsa_status_t status, const char *fmt, ...)
{
	char why[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	fprintf(stderr, "hsa: %s refuses (%#x): %s\n", function, status, why);
	return status;
}

static bool is_agent(hsa_agent_t agent)
{
	return agent.handle == CPU_AGENT || agent.handle == GPU_AGENT;
}

bool are_agents(const hsa_agent_t *agents, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!is_agent(agents[i]))
			return false;
	return true;
}

/* --- The runtime comes and goes --- */

/* The file of the device if it is the GPU of the tests, or -1. */
static int open_if_ours(const drmDevice *device)
{
	drmVersionPtr version;
	bool ours;
	int fd;

	if (device->bustype != DRM_BUS_PCI || !(device->available_nodes & 1 << DRM_NODE_RENDER))
		return -1;
	fd = open(device->nodes[DRM_NODE_RENDER], O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	version = drmGetVersion(fd);
	ours = version && !strcmp(version->name, "mrfd_gpu");
	drmFreeVersion(version);
	if (ours)
		return fd;
	close(fd);
	return -1;
}

static bool open_card(void)
{
	drmDevicePtr devices[DRM_DEVICES];
	struct mrfd_gpu_info info = {};
	int n = drmGetDevices2(0, devices, DRM_DEVICES);

	for (int i = 0; i < n && runtime_card < 0; i++) {
		runtime_card = open_if_ours(devices[i]);
		if (runtime_card >= 0)
			place = *devices[i]->businfo.pci;
	}
	if (n > 0)
		drmFreeDevices(devices, n);
	if (runtime_card < 0)
		return false;
	if (drmIoctl(runtime_card, DRM_IOCTL_MRFD_GPU_INFO, &info)) {
		close(runtime_card);
		runtime_card = -1;
		return false;
	}
	runtime_vram_size = info.vram_size;
	return true;
}

hsa_status_t hsa_init(void)
{
	bool ready, full;

	pthread_mutex_lock(&lock);
	full = runtime_users == INT32_MAX;
	ready = !full && (runtime_card >= 0 || open_card());
	runtime_users += ready;
	pthread_mutex_unlock(&lock);
	demand(!full, REFCOUNT_OVERFLOW, "too often");
	demand(ready, OUT_OF_RESOURCES, "the machine has no GPU of the tests");
	return HSA_STATUS_SUCCESS;
}

/* The card stays open, for what is still allocated. */
hsa_status_t hsa_shut_down(void)
{
	bool ready;

	pthread_mutex_lock(&lock);
	ready = runtime_users > 0;
	runtime_users -= ready;
	pthread_mutex_unlock(&lock);
	demand(ready, NOT_INITIALIZED, "no hsa_init()");
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_status_string(hsa_status_t status, const char **string)
{
	static const struct {
		unsigned int status;
		const char *string;
	} strings[] = {
		{ HSA_STATUS_SUCCESS, "success" },
		{ HSA_STATUS_INFO_BREAK, "the traversal was ended by the callback" },
		{ HSA_STATUS_ERROR, "generic error" },
		{ HSA_STATUS_ERROR_INVALID_ARGUMENT, "invalid argument" },
		{ HSA_STATUS_ERROR_INVALID_ALLOCATION, "invalid allocation" },
		{ HSA_STATUS_ERROR_INVALID_AGENT, "invalid agent" },
		{ HSA_STATUS_ERROR_INVALID_REGION, "invalid region" },
		{ HSA_STATUS_ERROR_INVALID_SIGNAL, "invalid signal" },
		{ HSA_STATUS_ERROR_INVALID_MEMORY_POOL, "invalid memory pool" },
		{ HSA_STATUS_ERROR_OUT_OF_RESOURCES, "out of resources" },
		{ HSA_STATUS_ERROR_RESOURCE_FREE, "resource cannot be freed" },
		{ HSA_STATUS_ERROR_NOT_INITIALIZED, "not initialized" },
		{ HSA_STATUS_ERROR_REFCOUNT_OVERFLOW, "initialized too often" },
	};

	demand_init();
	demand(string, INVALID_ARGUMENT, "nowhere to write to");
	for (size_t i = 0; i < sizeof(strings) / sizeof(*strings); i++) {
		if (strings[i].status == (unsigned int)status) {
			*string = strings[i].string;
			return HSA_STATUS_SUCCESS;
		}
	}
	return refuse(ERROR_INVALID_ARGUMENT, "status %#x is not known", status);
}

hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void *value)
{
	demand_init();
	demand(value, INVALID_ARGUMENT, "nowhere to write to");
	demand(attribute == HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED, INVALID_ARGUMENT,
	       "attribute %#x is not known", attribute);
	*(bool *)value = true;
	return HSA_STATUS_SUCCESS;
}

/* --- Agents and the pool --- */

hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t, void *), void *data)
{
	hsa_status_t status;

	demand_init();
	demand(callback, INVALID_ARGUMENT, "no callback");
	status = callback((hsa_agent_t){ CPU_AGENT }, data);
	return status ? status : callback((hsa_agent_t){ GPU_AGENT }, data);
}

/* What VALUE points to is of another size for each attribute. */
hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute, void *value)
{
	bool gpu = agent.handle == GPU_AGENT;

	demand_init();
	demand(is_agent(agent), INVALID_AGENT, "agent %#lx", agent.handle);
	demand(value, INVALID_ARGUMENT, "nowhere to write to");
	switch ((int)attribute) {
	case HSA_AGENT_INFO_NAME:
	case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
		memset(value, 0, NAME_LENGTH);
		strcpy(value, gpu ? "mrfd_gpu" : "CPU");
		return HSA_STATUS_SUCCESS;
	case HSA_AGENT_INFO_DEVICE:
		*(hsa_device_type_t *)value = gpu ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_CPU;
		return HSA_STATUS_SUCCESS;
	case HSA_AMD_AGENT_INFO_BDFID:
		demand(gpu, INVALID_ARGUMENT, "the CPU is no PCI device");
		*(uint32_t *)value = place.bus << 8 | place.dev << 3 | place.func;
		return HSA_STATUS_SUCCESS;
	case HSA_AMD_AGENT_INFO_DOMAIN:
		demand(gpu, INVALID_ARGUMENT, "the CPU is no PCI device");
		*(uint32_t *)value = place.domain;
		return HSA_STATUS_SUCCESS;
	}
	return refuse(ERROR_INVALID_ARGUMENT, "attribute %#x is not known", attribute);
}

hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t agent,
		hsa_status_t (*callback)(hsa_amd_memory_pool_t, void *), void *data)
{
	demand_init();
	demand(is_agent(agent), INVALID_AGENT, "agent %#lx", agent.handle);
	demand(callback, INVALID_ARGUMENT, "no callback");
	if (agent.handle == CPU_AGENT)
		return HSA_STATUS_SUCCESS;
	return callback((hsa_amd_memory_pool_t){ VRAM_POOL }, data);
}

hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t pool,
		hsa_amd_memory_pool_info_t attribute, void *value)
{
	demand_init();
	demand(pool.handle == VRAM_POOL, INVALID_MEMORY_POOL, "pool %#lx", pool.handle);
	demand(value, INVALID_ARGUMENT, "nowhere to write to");
	switch (attribute) {
	case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
		*(hsa_amd_segment_t *)value = HSA_AMD_SEGMENT_GLOBAL;
		return HSA_STATUS_SUCCESS;
	case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
		*(uint32_t *)value = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
		return HSA_STATUS_SUCCESS;
	case HSA_AMD_MEMORY_POOL_INFO_SIZE:
		*(size_t *)value = runtime_vram_size;
		return HSA_STATUS_SUCCESS;
	case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
		*(bool *)value = true;
		return HSA_STATUS_SUCCESS;
	default:
		return refuse(ERROR_INVALID_ARGUMENT, "attribute %#x is not known", attribute);
	}
}

hsa_status_t hsa_agent_iterate_regions(hsa_agent_t agent,
		hsa_status_t (*callback)(hsa_region_t, void *), void *data)
{
	demand_init();
	demand(is_agent(agent), INVALID_AGENT, "agent %#lx", agent.handle);
	demand(callback, INVALID_ARGUMENT, "no callback");
	if (agent.handle == CPU_AGENT)
		return HSA_STATUS_SUCCESS;
	return callback((hsa_region_t){ VRAM_POOL }, data);
}

hsa_status_t hsa_region_get_info(hsa_region_t region, hsa_region_info_t attribute, void *value)
{
	demand_init();
	demand(region.handle == VRAM_POOL, INVALID_REGION, "region %#lx", region.handle);
	demand(value, INVALID_ARGUMENT, "nowhere to write to");
	demand(attribute == HSA_REGION_INFO_SEGMENT, INVALID_ARGUMENT,
	       "attribute %#x is not known", attribute);
	*(hsa_region_segment_t *)value = HSA_REGION_SEGMENT_GLOBAL;
	return HSA_STATUS_SUCCESS;
}

/* UCX asks how two GPUs are linked, and there is one. */
hsa_status_t hsa_amd_agent_memory_pool_get_info(hsa_agent_t agent, hsa_amd_memory_pool_t pool,
		hsa_amd_agent_memory_pool_info_t attribute, void *value)
{
	demand_init();
	demand(is_agent(agent), INVALID_AGENT, "agent %#lx", agent.handle);
	demand(pool.handle == VRAM_POOL, INVALID_MEMORY_POOL, "pool %#lx", pool.handle);
	demand(value, INVALID_ARGUMENT, "nowhere to write to");
	return refuse(ERROR_INVALID_ARGUMENT, "attribute %#x is not known", attribute);
}

/* --- Signals --- */

bool is_signal(hsa_signal_t signal)
{
	return signal.handle && signal.handle <= SIGNALS && signals[signal.handle - 1].used;
}

/* The signal's value; the process ends if it does not exist. */
static _Atomic int64_t *value_of(const char *function, hsa_signal_t signal)
{
	if (is_signal(signal))
		return &signals[signal.handle - 1].value;
	fprintf(stderr, "hsa: %s: there is no signal %#lx\n", function, signal.handle);
	abort();
}

hsa_status_t hsa_signal_create(hsa_signal_value_t value, uint32_t n, const hsa_agent_t *consumers,
		hsa_signal_t *signal)
{
	size_t i = 0;

	demand_init();
	demand(signal && (!n || consumers), INVALID_ARGUMENT, "%u consumers at %p, to %p", n,
	       consumers, signal);
	demand(!n || are_agents(consumers, n), INVALID_ARGUMENT, "a consumer of %u", n);
	pthread_mutex_lock(&lock);
	while (i < SIGNALS && signals[i].used)
		i++;
	if (i < SIGNALS) {
		signals[i].used = true;
		signals[i].value = value;
		signal->handle = i + 1;
	}
	pthread_mutex_unlock(&lock);
	demand(i < SIGNALS, OUT_OF_RESOURCES, "%d signals are too many", SIGNALS);
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_signal_destroy(hsa_signal_t signal)
{
	demand_init();
	demand(signal.handle, INVALID_ARGUMENT, "no signal");
	demand(is_signal(signal), INVALID_SIGNAL, "signal %#lx", signal.handle);
	signals[signal.handle - 1].used = false;
	return HSA_STATUS_SUCCESS;
}

hsa_signal_value_t hsa_signal_load_scacquire(hsa_signal_t signal)
{
	return *value_of(__func__, signal);
}

void hsa_signal_store_screlease(hsa_signal_t signal, hsa_signal_value_t value)
{
	*value_of(__func__, signal) = value;
}

static bool satisfied(hsa_signal_value_t value, hsa_signal_condition_t condition,
		      hsa_signal_value_t other)
{
	switch (condition) {
	case HSA_SIGNAL_CONDITION_EQ: return value == other;
	case HSA_SIGNAL_CONDITION_NE: return value != other;
	case HSA_SIGNAL_CONDITION_LT: return value < other;
	case HSA_SIGNAL_CONDITION_GTE: return value >= other;
	}
	fprintf(stderr, "hsa: there is no condition %d\n", condition);
	abort();
}

/* A wait may end before the condition is met, so its caller asks again. */
hsa_signal_value_t hsa_signal_wait_scacquire(hsa_signal_t signal, hsa_signal_condition_t condition,
		hsa_signal_value_t other, uint64_t timeout, hsa_wait_state_t hint)
{
	if (!satisfied(*value_of(__func__, signal), condition, other))
		sched_yield();
	return *value_of(__func__, signal);
}
