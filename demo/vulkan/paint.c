// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Paint a canvas with Vulkan
 *
 * Painting is one draw: a triangle that covers the canvas, and a shader that is called for
 * each pixel (sunset.frag).  When it is done the canvas is handed over to the "foreign queue
 * family", which is everybody outside of Vulkan.  The next painting does not take it back,
 * because it does not want what was there before.
 */
#include <stdbool.h>

#include "canvas.h"
#include "sunset.frag.h"
#include "triangle.vert.h"


/* What the shader wants to know: its push constants. */
struct push {
	int32_t width;
	int32_t height;
	int32_t frame;
};

static int create_commands(struct painter *p)
{
	VkCommandPoolCreateInfo pool = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
		.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
		.queueFamilyIndex = p->family,
	};
	VkCommandBufferAllocateInfo buffer = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
		.commandBufferCount = 1,
	};
	VkFenceCreateInfo fence = { .sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO };
	VkResult result = vkCreateCommandPool(p->device, &pool, NULL, &p->pool);

	buffer.commandPool = p->pool;
	if (!result)
		result = vkAllocateCommandBuffers(p->device, &buffer, &p->commands);
	if (!result)
		result = vkCreateFence(p->device, &fence, NULL, &p->fence);
	return vulkan_failed("cannot create a command buffer", result);
}

static VkResult create_shader(struct painter *p, const uint32_t *code, size_t bytes,
			      VkShaderModule *module)
{
	VkShaderModuleCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
		.codeSize = bytes,
		.pCode = code,
	};

	return vkCreateShaderModule(p->device, &info, NULL, module);
}

static VkResult create_layout(struct painter *p)
{
	VkPushConstantRange range = { VK_SHADER_STAGE_FRAGMENT_BIT, 0, sizeof(struct push) };
	VkPipelineLayoutCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
		.pushConstantRangeCount = 1,
		.pPushConstantRanges = &range,
	};

	return vkCreatePipelineLayout(p->device, &info, NULL, &p->layout);
}

static VkPipelineShaderStageCreateInfo stage(VkShaderStageFlagBits which, VkShaderModule module)
{
	return (VkPipelineShaderStageCreateInfo){
		.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
		.stage = which,
		.module = module,
		.pName = "main",
	};
}

/* The pipeline: no vertices in memory, no depth, no blending; and a canvas to paint on. */
static VkResult create_pipeline(struct painter *p)
{
	VkPipelineShaderStageCreateInfo stages[] = {
		stage(VK_SHADER_STAGE_VERTEX_BIT, p->vertex),
		stage(VK_SHADER_STAGE_FRAGMENT_BIT, p->fragment),
	};
	VkPipelineVertexInputStateCreateInfo input = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO,
	};
	VkPipelineInputAssemblyStateCreateInfo assembly = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO,
		.topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST,
	};
	VkViewport viewport = { 0, 0, p->width, p->height, 0, 1 };
	VkRect2D whole = { .extent = { p->width, p->height } };
	VkPipelineViewportStateCreateInfo view = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO,
		.viewportCount = 1,
		.pViewports = &viewport,
		.scissorCount = 1,
		.pScissors = &whole,
	};
	VkPipelineRasterizationStateCreateInfo raster = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO,
		.lineWidth = 1,
	};
	VkPipelineMultisampleStateCreateInfo samples = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO,
		.rasterizationSamples = VK_SAMPLE_COUNT_1_BIT,
	};
	VkPipelineColorBlendAttachmentState write = { .colorWriteMask = VK_COLOR_COMPONENT_R_BIT };
	VkPipelineColorBlendStateCreateInfo blend = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO,
		.attachmentCount = 1,
		.pAttachments = &write,
	};
	VkFormat format = CANVAS_FORMAT;
	VkPipelineRenderingCreateInfo rendering = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO,
		.colorAttachmentCount = 1,
		.pColorAttachmentFormats = &format,
	};
	VkGraphicsPipelineCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
		.pNext = &rendering,
		.stageCount = ARRAY_SIZE(stages),
		.pStages = stages,
		.pVertexInputState = &input,
		.pInputAssemblyState = &assembly,
		.pViewportState = &view,
		.pRasterizationState = &raster,
		.pMultisampleState = &samples,
		.pColorBlendState = &blend,
		.layout = p->layout,
	};

	return vkCreateGraphicsPipelines(p->device, NULL, 1, &info, NULL, &p->pipeline);
}

static int create_painting(struct painter *p)
{
	VkResult result = create_shader(p, triangle_vert, sizeof(triangle_vert), &p->vertex);

	if (!result)
		result = create_shader(p, sunset_frag, sizeof(sunset_frag), &p->fragment);
	if (!result)
		result = create_layout(p);
	if (!result)
		result = create_pipeline(p);
	return vulkan_failed("cannot create the pipeline", result);
}

int painter_open(struct painter *p, uint32_t width, uint32_t height)
{
	p->width = width;
	p->height = height;
	return device_open(p) || create_commands(p) || create_painting(p) ? -1 : 0;
}

/* Destroy in the reverse order.  Vulkan ignores what was never created. */
void painter_close(struct painter *p)
{
	if (p->device) {
		vkDeviceWaitIdle(p->device);
		vkDestroyPipeline(p->device, p->pipeline, NULL);
		vkDestroyPipelineLayout(p->device, p->layout, NULL);
		vkDestroyShaderModule(p->device, p->fragment, NULL);
		vkDestroyShaderModule(p->device, p->vertex, NULL);
		vkDestroyFence(p->device, p->fence, NULL);
		vkDestroyCommandPool(p->device, p->pool, NULL);
		vkDestroyDevice(p->device, NULL);
	}
	vkDestroyInstance(p->instance, NULL);
	*p = (struct painter){};
}

static void barrier(struct painter *p, const struct canvas *c, bool end)
{
	VkMemoryBarrier2 look = { /* by the mapping */
		.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
		.srcStageMask = VK_PIPELINE_STAGE_2_COLOR_ATTACHMENT_OUTPUT_BIT,
		.srcAccessMask = VK_ACCESS_2_COLOR_ATTACHMENT_WRITE_BIT,
		.dstStageMask = VK_PIPELINE_STAGE_2_HOST_BIT,
		.dstAccessMask = VK_ACCESS_2_HOST_READ_BIT,
	};
	VkImageMemoryBarrier2 image = {
		.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2,
		.oldLayout = VK_IMAGE_LAYOUT_UNDEFINED, /* nobody wants the old picture */
		.newLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL,
		.dstStageMask = VK_PIPELINE_STAGE_2_COLOR_ATTACHMENT_OUTPUT_BIT,
		.dstAccessMask = VK_ACCESS_2_COLOR_ATTACHMENT_WRITE_BIT,
		.srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
		.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
		.image = c->image,
		.subresourceRange = { VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1 },
	};
	VkDependencyInfo info = {
		.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO,
		.memoryBarrierCount = end,
		.pMemoryBarriers = &look,
		.imageMemoryBarrierCount = 1,
		.pImageMemoryBarriers = &image,
	};

	if (end) {
		image.oldLayout = image.newLayout;
		image.newLayout = VK_IMAGE_LAYOUT_GENERAL;
		image.srcStageMask = image.dstStageMask;
		image.srcAccessMask = image.dstAccessMask;
		image.dstStageMask = VK_PIPELINE_STAGE_2_NONE;
		image.dstAccessMask = VK_ACCESS_2_NONE;
		image.srcQueueFamilyIndex = p->family;
		image.dstQueueFamilyIndex = VK_QUEUE_FAMILY_FOREIGN_EXT;
	}
	vkCmdPipelineBarrier2(p->commands, &info);
}

static void draw(struct painter *p, const struct canvas *c, uint32_t frame)
{
	const struct push push = { p->width, p->height, frame };
	VkRenderingAttachmentInfo attachment = {
		.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO,
		.imageView = c->view,
		.imageLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL,
		.loadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE, /* the triangle covers all */
		.storeOp = VK_ATTACHMENT_STORE_OP_STORE,
	};
	VkRenderingInfo rendering = {
		.sType = VK_STRUCTURE_TYPE_RENDERING_INFO,
		.renderArea.extent = { p->width, p->height },
		.layerCount = 1,
		.colorAttachmentCount = 1,
		.pColorAttachments = &attachment,
	};

	barrier(p, c, false);
	vkCmdBeginRendering(p->commands, &rendering);
	vkCmdBindPipeline(p->commands, VK_PIPELINE_BIND_POINT_GRAPHICS, p->pipeline);
	vkCmdPushConstants(p->commands, p->layout, VK_SHADER_STAGE_FRAGMENT_BIT, 0, sizeof(push),
			   &push);
	vkCmdDraw(p->commands, 3, 1, 0, 0);
	vkCmdEndRendering(p->commands);
	barrier(p, c, true);
}

/* Return when the frame is in memory. */
int canvas_paint(struct painter *p, struct canvas *c, uint32_t frame)
{
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
	};
	VkSubmitInfo submit = {
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.commandBufferCount = 1,
		.pCommandBuffers = &p->commands,
	};
	VkResult result = vkBeginCommandBuffer(p->commands, &begin);

	if (!result) {
		draw(p, c, frame);
		result = vkEndCommandBuffer(p->commands);
	}
	if (!result)
		result = vkQueueSubmit(p->queue, 1, &submit, p->fence);
	if (!result)
		result = vkWaitForFences(p->device, 1, &p->fence, VK_TRUE, UINT64_MAX);
	if (!result)
		result = vkResetFences(p->device, 1, &p->fence);
	return vulkan_failed("cannot paint", result);
}
