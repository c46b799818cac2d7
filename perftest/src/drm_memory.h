/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */

#ifndef DRM_MEMORY_H
#define DRM_MEMORY_H

#include <stdbool.h>
#include "memory.h"
#include "config.h"

struct perftest_parameters;

bool drm_memory_supported(void);

struct memory_ctx *drm_memory_create(struct perftest_parameters *params);

#ifndef HAVE_DRM

inline bool drm_memory_supported(void)
{
	return false;
}

inline struct memory_ctx *drm_memory_create(struct perftest_parameters *params)
{
	return NULL;
}

#endif

#endif /* DRM_MEMORY_H */
