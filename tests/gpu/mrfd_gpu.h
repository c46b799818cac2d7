/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The interface of mrfd_gpu, the GPU of the tests.  It draws nothing: it has VRAM, which is
 * BAR 2 of QEMU's ivshmem-plain, and an engine that copies between VRAM and system memory.
 *
 * Fields that a program does not use are 0; others than those, and unknown flags, are EINVAL.
 * When the device is gone, every ioctl is ENODEV.
 */
#ifndef MRFD_GPU_H
#define MRFD_GPU_H

#include <drm/drm.h>

/* Where a buffer is. */
#define MRFD_GPU_VRAM 1
#define MRFD_GPU_SYSTEM 2

/*
 * What a buffer may do:
 *
 * ONLY: nobody moves it to another place.  An importer that cannot reach VRAM then cannot
 * attach (EOPNOTSUPP), as with xe.  If VRAM is full, it is evicted for a while all the same.
 * PINNED: the driver pins it where it is, like a picture on the screen.
 * CPU_PIN: an importer that cannot reach VRAM may pin it there, for access by the CPU; it
 * cannot map it (EBUSY).
 */
#define MRFD_GPU_ONLY (1 << 0)
#define MRFD_GPU_PINNED (1 << 1)
#define MRFD_GPU_CPU_PIN (1 << 2)

struct mrfd_gpu_create {
	__u64 size;		/* is rounded up to whole pages */
	__u32 place;
	__u32 flags;
	__u32 handle;		/* out */
	__u32 reserved;
	__u64 offset;		/* out: for mmap() of the DRM file */
};

/*
 * Move a buffer.  EBUSY: it is pinned.  EINVAL: that place is not allowed.  ENOMEM: no room
 * that can be made.  The call returns before the bytes have arrived: the fence is in the
 * reservation object.
 */
struct mrfd_gpu_move {
	__u32 handle;
	__u32 place;
	__u32 reserved;
	__u32 delay_ms;		/* the copy begins so late, at most a minute */
};

/* Why the last importer that attached has no peer-to-peer. */
enum mrfd_gpu_why {
	MRFD_GPU_PEER,		/* it has */
	MRFD_GPU_NOT_ASKED,	/* it did not ask for it */
	MRFD_GPU_NO_PATH,	/* pci_p2pdma_distance() knows no path between the devices */
};

/* All but handle and reserved is out. */
struct mrfd_gpu_query {
	__u32 handle;
	__u32 place;
	__u64 offset;		/* in VRAM, if it is there */
	__u32 attachments;	/* importers that are attached now */
	__u32 peers;		/* those of them with peer-to-peer */
	__u32 why;		/* enum mrfd_gpu_why */
	__u32 pins;		/* that importers hold now */
	__u32 maps;		/* for DMA, now */
	__u32 vmaps;		/* for the CPU, now */
	__u32 brackets;		/* begin_cpu_access without its end */
	__u32 moves;		/* of its bytes between VRAM and system memory, so far */
	__u32 evictions;	/* those of them that made room for another buffer */
	__u32 reserved;
};

/* All is out. */
struct mrfd_gpu_info {
	__u64 vram_size;
	__u64 vram_used;
	__u32 buffers;		/* that exist */
	__u32 moves;
	__u32 evictions;
	__u32 reserved;
};

#define DRM_IOCTL_MRFD_GPU_CREATE DRM_IOWR(DRM_COMMAND_BASE + 0, struct mrfd_gpu_create)
#define DRM_IOCTL_MRFD_GPU_MOVE DRM_IOWR(DRM_COMMAND_BASE + 1, struct mrfd_gpu_move)
#define DRM_IOCTL_MRFD_GPU_QUERY DRM_IOWR(DRM_COMMAND_BASE + 2, struct mrfd_gpu_query)
#define DRM_IOCTL_MRFD_GPU_INFO DRM_IOR(DRM_COMMAND_BASE + 3, struct mrfd_gpu_info)

#endif
