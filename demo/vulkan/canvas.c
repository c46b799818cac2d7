// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A canvas: an image whose memory is exported as a dma-buf
 *
 * The rows of the image lie one after the other in memory (VK_IMAGE_TILING_LINEAR), so that it
 * can be shown, or sent, as it is.  A pixel is one 32-bit word; every Vulkan device can paint
 * such a format (VK_FORMAT_R32_UINT), and no colour is converted on the way.
 *
 * Nothing here knows RDMA.
 */
#include <err.h>

#include "canvas.h"

static VkResult create_image(struct painter *p, struct canvas *c)
{
	VkExternalMemoryImageCreateInfo external = {
		.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO,
		.handleTypes = CANVAS_HANDLE,
	};
	VkImageCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
		.pNext = &external,
		.imageType = VK_IMAGE_TYPE_2D,
		.format = CANVAS_FORMAT,
		.extent = { p->width, p->height, 1 },
		.mipLevels = 1,
		.arrayLayers = 1,
		.samples = VK_SAMPLE_COUNT_1_BIT,
		.tiling = VK_IMAGE_TILING_LINEAR,
		.usage = CANVAS_USAGE,
	};

	return vkCreateImage(p->device, &info, NULL, &c->image);
}

/* A type of memory that the image can have and that the CPU can look at; -1 if there is none. */
static int memory_type(struct painter *p, uint32_t possible)
{
	const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
					     VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	VkPhysicalDeviceMemoryProperties memory;
	uint32_t i;

	vkGetPhysicalDeviceMemoryProperties(p->gpu, &memory);
	for (i = 0; i < memory.memoryTypeCount; i++)
		if (possible & 1u << i && (memory.memoryTypes[i].propertyFlags & wanted) == wanted)
			return i;
	return -1;
}

static VkResult allocate_memory(struct painter *p, struct canvas *c)
{
	VkMemoryRequirements needs;
	VkMemoryDedicatedAllocateInfo dedicated = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
		.image = c->image,
	};
	VkExportMemoryAllocateInfo export = {
		.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
		.pNext = &dedicated,
		.handleTypes = CANVAS_HANDLE,
	};
	VkMemoryAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
		.pNext = &export,
	};
	int type;

	vkGetImageMemoryRequirements(p->device, c->image, &needs);
	type = memory_type(p, needs.memoryTypeBits);
	if (type < 0)
		return VK_ERROR_FEATURE_NOT_PRESENT;
	info.allocationSize = needs.size;
	info.memoryTypeIndex = type;
	return vkAllocateMemory(p->device, &info, NULL, &c->memory);
}

static VkResult create_view(struct painter *p, struct canvas *c)
{
	VkImageViewCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
		.image = c->image,
		.viewType = VK_IMAGE_VIEW_TYPE_2D,
		.format = CANVAS_FORMAT,
		.subresourceRange = { VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1 },
	};

	return vkCreateImageView(p->device, &info, NULL, &c->view);
}

int canvas_open(struct painter *p, struct canvas *c)
{
	const VkImageSubresource all = { .aspectMask = VK_IMAGE_ASPECT_COLOR_BIT };
	VkSubresourceLayout layout;
	void *pixels = NULL;
	VkResult result = create_image(p, c);

	if (!result)
		result = allocate_memory(p, c);
	if (!result)
		result = vkBindImageMemory(p->device, c->image, c->memory, 0);
	if (!result)
		result = create_view(p, c);
	if (!result)
		result = vkMapMemory(p->device, c->memory, 0, VK_WHOLE_SIZE, 0, &pixels);
	if (vulkan_failed("cannot create an image that can be exported", result))
		return -1;
	vkGetImageSubresourceLayout(p->device, c->image, &all, &layout);
	if (layout.offset) {
		warnx("the image begins at byte %ju of its memory", (uintmax_t)layout.offset);
		return -1;
	}
	c->pixels = pixels;
	c->pitch = layout.rowPitch;
	return 0;
}

/* Return a dma-buf fd of its memory.  The caller closes it. */
int canvas_export(struct painter *p, const struct canvas *c)
{
	PFN_vkGetMemoryFdKHR get = (PFN_vkGetMemoryFdKHR)vkGetDeviceProcAddr(p->device,
									      "vkGetMemoryFdKHR");
	VkMemoryGetFdInfoKHR info = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
		.memory = c->memory,
		.handleType = CANVAS_HANDLE,
	};
	int fd;

	return vulkan_failed("cannot export the image", get(p->device, &info, &fd)) ? -1 : fd;
}

void canvas_close(struct painter *p, struct canvas *c)
{
	if (p->device) {
		vkDestroyImageView(p->device, c->view, NULL);
		vkDestroyImage(p->device, c->image, NULL);
		vkFreeMemory(p->device, c->memory, NULL); /* and its mapping */
	}
	*c = (struct canvas){};
}
