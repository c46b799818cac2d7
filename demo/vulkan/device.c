// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Find a Vulkan device that paints into memory which others can use
 *
 * A machine may have several devices, each with its driver; Mesa's lavapipe is one that is
 * the CPU.  Wanted is the first one that draws, and exports the memory of an image like a canvas
 * as a dma-buf (VK_EXT_external_memory_dma_buf).
 */
#include <err.h>
#include <stdbool.h>
#include <string.h>

#include "canvas.h"


static const char *const extensions[] = {
	VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME,
	VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME,
	VK_EXT_QUEUE_FAMILY_FOREIGN_EXTENSION_NAME,
};

int vulkan_failed(const char *what, VkResult result)
{
	if (!result)
		return 0;
	warnx("%s: Vulkan says %d", what, result);
	return -1;
}

static bool has_extensions(VkPhysicalDevice gpu)
{
	VkExtensionProperties have[512];
	uint32_t count = ARRAY_SIZE(have), i, j;

	if (vkEnumerateDeviceExtensionProperties(gpu, NULL, &count, have))
		return false;
	for (i = 0; i < ARRAY_SIZE(extensions); i++) {
		for (j = 0; j < count; j++)
			if (!strcmp(extensions[i], have[j].extensionName))
				break;
		if (j == count)
			return false;
	}
	return true;
}

/* Whether it exports the memory of an image like ours. */
static bool can_export(VkPhysicalDevice gpu)
{
	VkPhysicalDeviceExternalImageFormatInfo external = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_IMAGE_FORMAT_INFO,
		.handleType = CANVAS_HANDLE,
	};
	VkPhysicalDeviceImageFormatInfo2 info = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_IMAGE_FORMAT_INFO_2,
		.pNext = &external,
		.format = CANVAS_FORMAT,
		.type = VK_IMAGE_TYPE_2D,
		.tiling = VK_IMAGE_TILING_LINEAR,
		.usage = CANVAS_USAGE,
	};
	VkExternalImageFormatProperties answer = {
		.sType = VK_STRUCTURE_TYPE_EXTERNAL_IMAGE_FORMAT_PROPERTIES,
	};
	VkImageFormatProperties2 properties = {
		.sType = VK_STRUCTURE_TYPE_IMAGE_FORMAT_PROPERTIES_2,
		.pNext = &answer,
	};

	return !vkGetPhysicalDeviceImageFormatProperties2(gpu, &info, &properties) &&
	       answer.externalMemoryProperties.externalMemoryFeatures &
		       VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT;
}

/* The first family of queues that can draw; -1 if there is none. */
static int drawing_family(VkPhysicalDevice gpu)
{
	VkQueueFamilyProperties families[16];
	uint32_t count = ARRAY_SIZE(families), i;

	vkGetPhysicalDeviceQueueFamilyProperties(gpu, &count, families);
	for (i = 0; i < count; i++)
		if (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT)
			return i;
	return -1;
}

static int choose_gpu(struct painter *p)
{
	VkPhysicalDevice gpus[16];
	uint32_t count = ARRAY_SIZE(gpus), i;
	VkResult result = vkEnumeratePhysicalDevices(p->instance, &count, gpus);
	VkPhysicalDeviceProperties properties;
	int family;

	if (result && result != VK_INCOMPLETE)
		return vulkan_failed("cannot list the Vulkan devices", result);
	for (i = 0; i < count; i++) {
		vkGetPhysicalDeviceProperties(gpus[i], &properties);
		family = drawing_family(gpus[i]);
		if (properties.apiVersion < VK_API_VERSION_1_3 || family < 0 ||
		    !has_extensions(gpus[i]) || !can_export(gpus[i]))
			continue;
		p->gpu = gpus[i];
		p->family = family;
		memcpy(p->name, properties.deviceName, sizeof(p->name));
		return 0;
	}
	warnx("none of %u Vulkan devices paints into a dma-buf (one on the CPU needs /dev/udmabuf)",
	      count);
	return -1;
}

static int create_device(struct painter *p)
{
	const float priority = 1;
	VkDeviceQueueCreateInfo queue = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
		.queueFamilyIndex = p->family,
		.queueCount = 1,
		.pQueuePriorities = &priority,
	};
	VkPhysicalDeviceVulkan13Features features = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
		.dynamicRendering = VK_TRUE,
		.synchronization2 = VK_TRUE,
	};
	VkDeviceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
		.pNext = &features,
		.queueCreateInfoCount = 1,
		.pQueueCreateInfos = &queue,
		.enabledExtensionCount = ARRAY_SIZE(extensions),
		.ppEnabledExtensionNames = extensions,
	};

	if (vulkan_failed("cannot open the Vulkan device",
		   vkCreateDevice(p->gpu, &info, NULL, &p->device)))
		return -1;
	vkGetDeviceQueue(p->device, p->family, 0, &p->queue);
	return 0;
}

/* Open the device; painter_close() closes it, also after a failure. */
int device_open(struct painter *p)
{
	VkApplicationInfo app = {
		.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
		.apiVersion = VK_API_VERSION_1_3,
	};
	VkInstanceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
		.pApplicationInfo = &app,
	};

	if (vulkan_failed("there is no Vulkan", vkCreateInstance(&info, NULL, &p->instance)))
		return -1;
	return choose_gpu(p) || create_device(p) ? -1 : 0;
}
