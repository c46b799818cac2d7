/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DEMO_VULKAN_CANVAS_H
#define DEMO_VULKAN_CANVAS_H

#include <stddef.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define CANVAS_FORMAT VK_FORMAT_R32_UINT
#define CANVAS_USAGE VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT
#define CANVAS_HANDLE VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT

/* A picture in memory of a Vulkan device, which can be exported as a dma-buf. */
struct canvas {
	VkImage image;
	VkImageView view;
	VkDeviceMemory memory;
	const void *pixels; /* a mapping, to look at what was painted */
	size_t pitch; /* bytes from one row to the next */
};

/* A Vulkan device, and what it needs to paint canvases of one size.  Begin with {}. */
struct painter {
	VkInstance instance;
	VkPhysicalDevice gpu;
	char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
	uint32_t family; /* of the queue */
	VkDevice device;
	VkQueue queue;
	VkFence fence; /* signalled when a canvas is painted */
	VkCommandPool pool;
	VkCommandBuffer commands;
	VkShaderModule vertex;
	VkShaderModule fragment;
	VkPipelineLayout layout;
	VkPipeline pipeline;
	uint32_t width; /* pixels */
	uint32_t height;
};

/* On failure each of these prints a message to stderr and returns -1. */
int painter_open(struct painter *p, uint32_t width, uint32_t height); /* paint.c */
int canvas_open(struct painter *p, struct canvas *c); /* canvas.c */
int canvas_export(struct painter *p, const struct canvas *c);
int canvas_paint(struct painter *p, struct canvas *c, uint32_t frame); /* paint.c */

void canvas_close(struct painter *p, struct canvas *c);
void painter_close(struct painter *p);

/* Used by these: device.c */
int device_open(struct painter *p);
int vulkan_failed(const char *what, VkResult result); /* 0 if the result is success */

#endif
